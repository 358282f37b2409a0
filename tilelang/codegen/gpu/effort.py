"""Facts about the loops of a kernel that decide how it is printed and assembled."""

from __future__ import annotations

from tilelang.ir import expr as E
from tilelang.ir import stmt as S

_UNROLLED = ("unroll", "vectorized")
# Matrix instructions of one iteration. With more of them the assembler's highest level moves loads
# between them better than the level below (3 % of a GEMM's time on an H200), which takes it 0.2 s
# and 20 registers; up to here it gains nothing.
FEW = 64


def matrix_calls(stmt: S.Stmt) -> int:
    """The most matrix instructions in `stmt`, or in one iteration of a loop in it that is not
    copied out."""
    most = 0

    def count(node: S.Stmt) -> int:
        nonlocal most
        if isinstance(node, S.For):
            inside = count(node.body)
            if node.kind not in _UNROLLED:
                most = max(most, inside)
                return 0
            return inside * _trips(node)
        if isinstance(node, S.Eval):
            return int(isinstance(node.value, E.Call) and node.value.op == "mma")
        return sum(count(child) for child in node.blocks())

    return max(count(stmt), most)


def _trips(loop: S.For) -> int:
    if isinstance(loop.start, E.Const) and isinstance(loop.stop, E.Const):
        return max(0, int(loop.stop.value) - int(loop.start.value))
    return 1


def only_copies(stmt: S.Stmt) -> bool:
    """Whether `stmt` is asynchronous copies and nothing else, at addresses that are computed
    without reading memory: each can then have a condition of its own."""
    if isinstance(stmt, S.Seq):
        return all(map(only_copies, stmt.stmts))
    if isinstance(stmt, S.For):
        return stmt.kind in _UNROLLED and _plain(stmt) and only_copies(stmt.body)
    if isinstance(stmt, S.Let):
        return _plain(stmt)
    if isinstance(stmt, S.Eval):
        call = stmt.value
        return isinstance(call, E.Call) and call.op == "cp_async" and _plain(stmt)
    return isinstance(stmt, S.Attr) and only_copies(stmt.body)


def _plain(stmt: S.Stmt) -> bool:
    """Whether the expressions of `stmt` read nothing and call nothing but the copy."""
    return not any(
        isinstance(node, E.Load) or (isinstance(node, E.Call) and node.op != "cp_async")
        for root in stmt.exprs()
        for node in E.walk(root)
    )
