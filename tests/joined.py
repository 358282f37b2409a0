"""Generated texts as one translation unit: what compilers spend on headers is spent once."""

from __future__ import annotations

import re
from collections.abc import Iterable

_KERNEL = re.compile(r"(?:__global__|kernel) void (?:__launch_bounds__\([^)]*\) )?(\w+)\(")


def joined(sources: Iterable[str]) -> str:
    """All texts, each in a namespace; names of kernels, which C knows, end in its number."""
    includes: dict[str, None] = {}
    bodies = []
    for number, source in enumerate(sources):
        lines = source.splitlines()
        includes.update(dict.fromkeys(line for line in lines if line.startswith("#include")))
        body = "\n".join(line for line in lines if not line.startswith("#include"))
        for name in _KERNEL.findall(body):
            body = re.sub(rf"\b{name}\b", f"{name}_{number}", body)
        bodies.append(f"namespace row{number} {{\n{body}\n}}")
    return "\n".join([*includes, *bodies])
