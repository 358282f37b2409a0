"""Conditions on positions, at whose borders memory is accessed in another way."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.tables import BINARY


def nodes_of(body: S.Stmt) -> Iterator[E.Expr]:
    """The nodes of all expressions in ``body``."""
    for stmt in S.walk(body):
        for expr in stmt.exprs():
            yield from E.walk(expr)


def conditions(body: S.Stmt) -> Iterator[E.Binary]:
    """Comparisons of integers that decide which memory is accessed."""
    tests = [stmt.cond for stmt in S.find(body, S.If)]
    for node in nodes_of(body):
        if isinstance(node, E.Select):
            if node.dtype.is_int or E.holds(node.t, E.Load) or E.holds(node.f, E.Load):
                tests.append(node.cond)
        elif isinstance(node, E.Binary) and node.op in ("min", "max") and node.dtype.is_int:
            yield node
    for test in tests:
        for part in E.find(test, E.Binary):
            if BINARY[part.op].compares and part.a.dtype.is_int:
                yield part


def edges(body: S.Stmt) -> Iterator[E.Binary]:
    """Comparisons that decide whether an access is inside its tensor."""
    for access in effects.accesses(body, nested=True):
        if access.buffer.storage == "global":
            for index, extent in zip(access.indices, access.buffer.shape):
                ends = (0, extent) if isinstance(extent, int) else ()
                yield from (E.Binary("lt", index, E.const(end, index.dtype)) for end in ends)
