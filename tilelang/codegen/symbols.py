"""The variables that a call binds besides its parameters."""

from __future__ import annotations

from tilelang.ir import expr as E, stmt as S


def symbols_of(func: S.PrimFunc) -> tuple[E.Var, ...]:
    """Variables in shapes and strides of the parameters that are not parameters themselves."""
    param_ids = {id(param) for param in func.params}
    return tuple(var for var in size_variables(func) if id(var) not in param_ids)


def size_variables(func: S.PrimFunc) -> dict[E.Var, None]:
    """Variables in shapes and strides of the parameters, in order of appearance."""
    variables: dict[E.Var, None] = {}
    for buffer in func.buffers:
        for extent in (*buffer.shape, *(buffer.strides or ())):
            for node in E.walk(extent) if isinstance(extent, E.Expr) else ():
                if isinstance(node, E.Var):
                    variables.setdefault(node)
    return variables
