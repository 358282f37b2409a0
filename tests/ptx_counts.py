"""What the PTX of a program does, counted: barriers, accesses of shared memory, shuffles."""

from __future__ import annotations

import contextlib
import io
import re
from collections import Counter
from typing import Any

import tilelang

_PATTERNS = {
    "barriers": r"\b(?:bar|barrier)\.sync",
    "loads": r"\bld\.shared",
    "stores": r"\bst\.shared",
    "shuffles": r"\bshfl\.",
}
_BULK = {
    "cp.async": r"\bcp\.async\.c[ag]\.shared",
    "bulk copies": r"\bcp\.async\.bulk\.(?:tensor|shared|global)",
    "atomics": r"\b(?:red|atom)\.",
    "products": r"\b(?:mma\.sync|wgmma\.mma_async)",
    "local memory": r"\b(?:ld|st)\.local\.",
}


def ptx_text(func: Any, arch: str = "sm_90a") -> str:
    """The PTX of ``func``."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        tilelang.compile(func, target=f"cuda -arch={arch}").show_ptx()
    return text.getvalue()


def ptx_counts(func: Any, arch: str = "sm_90a") -> dict[str, int]:
    """Static counts in the PTX of ``func``; loops of constants are written out in it."""
    text = ptx_text(func, arch)
    return {name: len(re.findall(pattern, text)) for name, pattern in _PATTERNS.items()}


def global_counts(func: Any, arch: str = "sm_90a") -> str:
    """What the PTX of ``func`` does in memory: ``loads`` and ``stores`` of global memory as bytes x
    count, and how many of the rest there are."""
    ptx = ptx_text(func, arch)
    parts = []
    for name, word in (("loads", "ld"), ("stores", "st")):
        found = re.findall(rf"\b{word}\.global(?:\.[\w:]+)*?(?:\.v(\d))?\.[bfsu](\d+)\b", ptx)
        sizes = Counter(int(lanes or 1) * int(bits) // 8 for lanes, bits in found)
        parts += [f"{name} {' '.join(f'{size}x{sizes[size]}' for size in sorted(sizes))}"] * bool(
            sizes
        )
    for name, pattern in (*_PATTERNS.items(), *_BULK.items()):
        count = len(re.findall(pattern, ptx))
        label = f"shared {name}" if name in ("loads", "stores") else name
        parts += [f"{label} {count}"] * bool(count)
    return ", ".join(parts)
