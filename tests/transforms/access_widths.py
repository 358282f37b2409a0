"""How wide the accesses of a kernel's text to its tensors are."""

from __future__ import annotations

from typing import Any

from executors import SM_90A, compiled


def moves(text: str, tensor: str) -> tuple[int, ...]:
    """Bytes of the moves from or to ``tensor``, and of accesses of single elements as 0."""
    found = []
    for line in text.splitlines():
        if "[" in line and "tl_copy_" in line and f"&{tensor}[" in line:
            found.append(int(line.split("tl_copy_")[1].split("(")[0]))
        elif f" {tensor}[" in line or f"({tensor}[" in line:
            found.append(0)
    return tuple(found)


def has_widths(func: Any, widths: dict[str, tuple[int, ...]]) -> None:
    """The text of ``func`` moves so many bytes at a time from or to each tensor, in this order."""
    text = compiled(func, SM_90A).get_kernel_source()
    assert {tensor: moves(text, tensor) for tensor in widths} == widths
