"""Unsolvable symbolic sizes: a ``T.dynamic`` that is in the shape of no parameter."""

from __future__ import annotations

from tilelang.errors import TileNameError
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Var
from tilelang.ir.print_expr import shape_vars


def check_symbols(func: S.PrimFunc) -> S.PrimFunc:
    """``func`` itself, if each of its variables has a value by a parameter or a statement.

    Raises:
        TileNameError: there is one; at the first statement that uses it.
    """
    bound: set[Var] = set()
    for param in func.params:
        bound.update((*shape_vars(param), param.data) if isinstance(param, Buffer) else (param,))
    for stmt in S.walk(func.body):
        for var in stmt.parts("var", "vars"):
            bound.add(var)
        if isinstance(stmt, (S.Alloc, S.View)):
            bound.add(stmt.buffer.data)
    for stmt in S.walk(func.body):
        for expr in stmt.exprs():
            for var in expr.variables - bound:
                raise TileNameError(
                    f"no argument of `{func.name}` determines the value of `{var.name}`",
                    expected="an extent or a stride of a tensor parameter, or a scalar parameter",
                    loc=stmt.loc or func.loc,
                    hint=f"declare it as a parameter, e.g. `{var.name}: T.{var.dtype}`",
                )
    return func
