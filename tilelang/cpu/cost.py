"""Cost model of a block: an estimate of its run time, which decides how many threads of the
thread pool run it.

The estimate matters only for launches of a few microseconds, whose data is in the caches, and an
error of a factor of two is acceptable. Loops of unknown length count as long ones, because waking a
thread unnecessarily costs less than running long work on one core.
"""

from __future__ import annotations

from math import fsum, prod

from tilelang.ir import expr as E, stmt as S
from tilelang.transforms.analysis.loops import trip_count

UNKNOWN = 1000  # iterations
_OPERATION = 0.3  # ns of an operation or an access, on one value or one vector
_FUNCTION = 6.0  # ns of exp and its like
_MULTIPLIED = 0.03  # ns of a multiplication with its addition in a product
_STATEMENT = 0.3
_BLOCK = 10.0
_REGISTER = 256  # bits


def block_cost(body: S.Stmt) -> int:
    """Nanoseconds of one block, at least 1."""
    total = _BLOCK
    worklist = [(body, 1.0)]
    while worklist:
        stmt, times = worklist.pop()
        total += times * _statement_cost(stmt)
        if isinstance(stmt, S.For):
            count = trip_count(stmt)
            times *= UNKNOWN if count is None else count
            times *= stmt.hints.vector / _REGISTER if stmt.hints.vector else 1
        elif isinstance(stmt, S.While):
            times *= UNKNOWN
        worklist += [(inner, times) for inner in stmt.blocks()]
    return max(1, round(total))


def _statement_cost(stmt: S.Stmt) -> float:
    """Nanoseconds of a statement without those in it."""
    if isinstance(stmt, S.Gemm):
        rows = stmt.a.extents[-2:]
        sizes = [*stmt.c.extents[-2:], rows[0] if stmt.trans_a else rows[1]]
        extents = (int(size) if isinstance(size, (int, E.Const)) else UNKNOWN for size in sizes)
        return _MULTIPLIED * prod(extents)
    return _STATEMENT + fsum(map(_value, stmt.exprs()))


def _value(expr: E.Expr) -> float:
    """Nanoseconds of an expression; positions are nearly free."""
    if isinstance(expr, (E.Const, E.Var)):
        return 0
    plain = (E.Const, E.Var, E.AddressOf)
    return fsum(
        _FUNCTION if isinstance(node, E.Call) else _OPERATION
        for node in E.walk(expr)
        if not isinstance(node, plain) and (node.dtype != "int32" or isinstance(node, E.Load))
    )
