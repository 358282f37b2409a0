"""Let the first product of a loop overwrite its accumulator instead of clearing it before.

``T.clear(C)`` followed by a loop that accumulates into C becomes a loop whose product has
``clear = (k == start)``: one pass over the accumulator less, and on tensor cores no zero fill of
registers. Only where nothing else touches C in between, the loop surely runs, and the product
stands directly in its body, so that it executes in the first iteration.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.visitor import Rewriter
from tilelang.target import Context


def fold_zero_init(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with clears folded into the products that follow them."""

    class Sequences(Rewriter):
        def stmt(self, stmt: S.Stmt) -> S.Stmt:
            return _fold(stmt) if isinstance(stmt, S.Seq) else stmt

    body = Sequences().rewrite(func.body)
    return func if body is func.body else replace(func, body=body)


def _fold(seq: S.Seq) -> S.Stmt:
    stmts = list(seq.stmts)
    for at, stmt in enumerate(stmts):
        if not _is_clear(stmt):
            continue
        assert isinstance(stmt, S.Fill)
        data = stmt.dst.buffer.data
        later = next((i for i in range(at + 1, len(stmts)) if data in effects.used(stmts[i])), None)
        if later is None:
            continue
        loop = stmts[later]
        changed = _with_clear(loop, data) if isinstance(loop, S.For) else None
        if changed is not None:
            stmts[later] = changed
            del stmts[at]
            return _fold(S.Seq(stmts=tuple(stmts), loc=seq.loc))
    return seq if len(stmts) == len(seq.stmts) else S.Seq(stmts=tuple(stmts), loc=seq.loc)


def _is_clear(stmt: S.Stmt) -> bool:
    return (
        isinstance(stmt, S.Fill)
        and isinstance(stmt.value, E.Const)
        and stmt.value.value == 0
        and stmt.dst.is_whole
        and stmt.dst.buffer.storage == "local.fragment"
    )


def _with_clear(loop: S.For, data: E.Var) -> S.For | None:
    """The loop with its product clearing in the first iteration, None where that is not safe."""
    bounds = (loop.start, loop.stop, loop.step)
    if not all(isinstance(item, E.Const) for item in bounds):
        return None
    start, stop, step = (int(item.value) for item in bounds)  # type: ignore[attr-defined]  # constants
    if not ((step > 0 and start < stop) or (step < 0 and start > stop)):
        return None
    body = loop.body.stmts if isinstance(loop.body, S.Seq) else (loop.body,)
    users = [stmt for stmt in body if data in effects.used(stmt)]
    if len(users) != 1 or any(_leaves(stmt) for stmt in body):
        return None
    gemm = users[0]
    if not (
        isinstance(gemm, S.Gemm)
        and gemm.c.buffer.data is data
        and gemm.c.is_whole
        and gemm.a.buffer.data is not data
        and gemm.b.buffer.data is not data
        and isinstance(gemm.clear, E.Const)
        and not gemm.clear.value
    ):
        return None
    first = E.binary("eq", loop.var, E.const(start, loop.var.dtype))
    clearing = replace(gemm, clear=first)
    stmts = tuple(clearing if stmt is gemm else stmt for stmt in body)
    return replace(loop, body=S.seq(*stmts))


def _leaves(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` may end or skip an iteration before its product."""
    return any(isinstance(node, (S.Break, S.Continue, S.ThreadReturn)) for node in S.walk(stmt))
