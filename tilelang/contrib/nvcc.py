"""What a CUDA target can do, by its compute version."""

from __future__ import annotations

import re
from typing import Any

from tilelang.errors import TileRuntimeError, TileValueError
from tilelang.target import parse_target

__all__ = [
    "get_target_compute_version", "have_bf16", "have_fp8", "have_tma", "parse_compute_version",
]  # fmt: skip


def parse_compute_version(version: str) -> tuple[int, int]:
    """``"9.0"`` as ``(9, 0)``.

    Raises:
        TileValueError: the text is not "major.minor".
    """
    match = re.fullmatch(r"(\d+)\.(\d+)", str(version))
    if match is None:
        raise TileValueError(
            f"{version!r} is not a compute version", expected='"major.minor", such as "9.0"'
        )
    return int(match[1]), int(match[2])


def get_target_compute_version(target: Any = None) -> str:
    """The compute version of a CUDA target, e.g. "9.0".

    Raises:
        TileRuntimeError: the target is not a CUDA target, or its architecture is not known.
    """
    found = parse_target(target if target is not None else "auto")
    match = re.search(r"sm_(\d+)(\d)[af]?$", str(found.arch or ""))
    if found.kind != "cuda" or match is None:
        raise TileRuntimeError(
            "the compute version is not known",
            expected="a CUDA target with an architecture",
            got=str(found),
            hint='name it, e.g. "cuda -arch=sm_90"',
        )
    return f"{int(match[1])}.{match[2]}"


def have_bf16(compute_version: str) -> bool:
    """Whether the architecture has bfloat16 arithmetic (8.0 and later)."""
    return parse_compute_version(compute_version) >= (8, 0)


def have_fp8(compute_version: str) -> bool:
    """Whether the architecture has 8-bit floats (8.9 and later)."""
    return parse_compute_version(compute_version) >= (8, 9)


def have_tma(target: Any) -> bool:
    """Whether the target has the tensor memory accelerator (9.0 and later)."""
    return parse_compute_version(get_target_compute_version(target)) >= (9, 0)
