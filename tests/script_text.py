"""The printed body of a small program: what a pass test compares before and after."""

from __future__ import annotations

import textwrap

from tilelang.ir import stmt as S


def body_of(func: S.PrimFunc) -> str:
    """The statements of the only launch of ``func``, without the lines that every kernel has."""
    lines = func.script().splitlines()
    inside = next(n for n, line in enumerate(lines) if 'T.block("tilelang_root")' in line) + 1
    kept = [line for line in lines[inside:] if not line.lstrip().startswith(_COMMON)]
    return textwrap.dedent("\n".join(kept))


def text(expected: str) -> str:
    """A triple-quoted expectation as :func:`body_of` gives it."""
    return textwrap.dedent(expected).strip("\n")


_COMMON = ("T.reads(", "T.writes(")
