"""Declarations of shared memory, rewritten for the host's compiler.

A variable that belongs to a thread block has no counterpart in C++. This is all that is changed in
the text of a kernel, and lines stay where they are.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

_ALIGN = r"(?:(?:__align__|alignas)\s*\(\s*(?P<align>[^()]*)\)\s*)?"
# extern __shared__ __align__(1024) unsigned char name[];
_DYNAMIC = re.compile(
    r"\bextern\s+(?:__align__\s*\([^()]*\)\s*)?__shared__\s+"
    + _ALIGN
    + r"(?P<kind>[^;={}()]*?[\w>*&])\s*\b(?P<name>[A-Za-z_]\w*)\s*\[\s*\]\s*;"
)
# __shared__ float a[4][32], b;
_STATIC = re.compile(
    r"\b(?:static\s+)?(?:__align__\s*\((?P<before>[^()]*)\)\s*)?__shared__\s+"
    + _ALIGN
    + r"(?P<kind>(?:(?:const|volatile|unsigned|signed|struct)\s+)*[A-Za-z_][\w:]*(?:\s*<[^;]*?>)?"
    r"(?:\s+(?:int|char|short|long|double))*\s*\**)\s*"
    r"(?P<names>[A-Za-z_]\w*\s*(?:\[[^;{}]*?\]\s*)*(?:,\s*[A-Za-z_]\w*\s*(?:\[[^;{}]*?\]\s*)*)*);"
)
_DECLARATOR = re.compile(r"\s*([A-Za-z_]\w*)\s*(.*)\s*", re.DOTALL)


def rewrite_shared(source: str) -> str:
    """The text of kernels with shared variables as C++ for the emulator's headers.

    Args:
        source: CUDA C++.

    Returns:
        The same with every declaration of shared memory rewritten; as many lines as before.
    """
    numbers = itertools.count()
    dynamic = _DYNAMIC.sub(_dynamic, source)
    return _STATIC.sub(lambda found: _static(found, numbers), dynamic)


def _dynamic(found: re.Match[str]) -> str:
    kind, name = found["kind"], found["name"]
    return f"{kind}* const {name} = ({kind}*)tl_emu_arena();" + _line_ends(found[0])


def _static(found: re.Match[str], numbers: Iterator[int]) -> str:
    align = found["align"] or found["before"]
    texts = []
    for declarator in _split(found["names"]):
        match = _DECLARATOR.fullmatch(declarator)
        assert match is not None  # the pattern of `names` says so
        kind, extents = found["kind"].strip(), match[2].strip().replace("\n", " ")
        arguments = f"{kind}{extents}, {next(numbers)}" + (f", {align}" if align else "")
        texts.append(f"{kind} (&{match[1]}){extents} = tl_emu_shared<{arguments}>();")
    return " ".join(texts) + _line_ends(found[0])


def _split(names: str) -> list[str]:
    """Declarators between the commas that are not inside brackets."""
    parts, depth, begin = [], 0, 0
    for at, char in enumerate(names):
        depth += (char in "[(<") - (char in "])>")
        if char == "," and depth == 0:
            parts.append(names[begin:at])
            begin = at + 1
    return [*parts, names[begin:]]


def _line_ends(text: str) -> str:
    return "\n" * text.count("\n")
