"""The variables that a call binds besides its parameters."""

from __future__ import annotations

from tilelang.ir import expr as E
from tilelang.ir import stmt as S


def symbols_of(func: S.PrimFunc) -> tuple[E.Var, ...]:
    """Variables in shapes and strides of the parameters that are not parameters themselves."""
    found: dict[E.Var, None] = {}
    for buffer in func.buffers:
        for extent in (*buffer.shape, *(buffer.strides or ())):
            if isinstance(extent, E.Expr):
                for node in E.walk(extent):
                    if isinstance(node, E.Var) and not any(node is p for p in func.params):
                        found.setdefault(node)
    return tuple(found)
