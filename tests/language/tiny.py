"""Running and naming what tests of the frontend trace."""

from __future__ import annotations

from typing import Any

from tilelang import interpret
from tilelang.ir import stmt as S


def run(func: S.PrimFunc, *args: Any) -> None:
    """Run ``func`` on numpy arrays (changed in place) and numbers."""
    interpret.run(func, args)


def kinds(func: S.PrimFunc) -> list[str]:
    """Names of the statements of ``func`` in program order."""
    return [type(s).__name__ for s in S.walk(func.body) if not isinstance(s, S.Seq)]
