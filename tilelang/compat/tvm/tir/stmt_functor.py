"""Walking over programs, by the names that programs use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.absent import absent_names
from tilelang.ir.expr import Expr
from tilelang.ir.stmt import PrimFunc, Stmt
from tilelang.ir.visitor import postorder

__all__ = ["post_order_visit"]

__getattr__ = absent_names("tilelang.tvm.tir.stmt_functor")


def post_order_visit(root: Any, visit: Callable[[Any], object]) -> None:
    """Call ``visit`` for every expression and statement in ``root``, parts before the whole.

    Args:
        root: a function, statement or expression.
        visit: gets each node.
    """
    if isinstance(root, PrimFunc):
        root = root.body
    if isinstance(root, Expr):
        for node in postorder(root):
            visit(node)
        return
    stack: list[tuple[Stmt, bool]] = [(root, False)]
    while stack:
        stmt, expanded = stack.pop()
        if expanded:
            visit(stmt)
            continue
        stack.append((stmt, True))
        for expr in stmt.exprs():
            for node in postorder(expr):
                visit(node)
        stack += [(block, False) for block in reversed(stmt.blocks())]
