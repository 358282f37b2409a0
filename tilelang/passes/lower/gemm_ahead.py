"""A product in a pipelined loop, with the first loads of an iteration made in the one before.

A barrier stands between the arrival of a stage and the loads of its factors, so that matrix units
would wait for these loads once per iteration. Where the loop does nothing but copy and multiply,
the barrier and the loads for the first step of the next iteration are moved before the
multiplications of the last step. What the last iteration of a constant number of them loads is an
older stage, which is not used; where the number is known at run time the loads are tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import substitute
from tilelang.passes.analysis.loops import trip_count
from tilelang.passes.layouts.gemm_plan import plan_gemm
from tilelang.passes.lower.context import Lowering
from tilelang.passes.lower.gemm_mma import factors_of, steps
from tilelang.passes.lower.gemm_sum import sum_of


def product_of(loop: S.For) -> tuple[Sequence[S.Stmt], Sequence[S.Stmt], S.Gemm] | None:
    """The waits in front, the copies, and the product of a pipelined loop of nothing else."""
    body = loop.body.stmts if isinstance(loop.body, S.Seq) else ()
    if len(body) < 4 or not isinstance(body[-1], S.Gemm):
        return None
    if [_op(stmt) for stmt in body[:2]] != ["cp_async_wait", "sync_threads"]:
        return None
    copies = body[2:-1]
    plain = all(
        isinstance(node, (S.Copy, S.If, S.Seq)) or _op(node) == "cp_async_commit"
        for stmt in copies
        for node in S.walk(stmt)
    )
    return (body[:2], copies, body[-1]) if plain else None


def _op(stmt: S.Stmt) -> str:
    value = stmt.value if isinstance(stmt, S.Eval) else None
    return value.op if isinstance(value, E.Call) else ""


def lower_ahead(
    loop: S.For, waits: Sequence[S.Stmt], gemm: S.Gemm, ctx: Lowering
) -> tuple[list[S.Stmt], list[S.Stmt]] | None:
    """What goes before the loop, and what stands for waits and product in its body.

    None where the registers of a step cannot be handed to the next iteration.
    """
    plan = plan_gemm(gemm, ctx.threads, ctx.context)
    adds = isinstance(gemm.clear, E.Const) and not gemm.clear.value
    at_start = gemm.clear is E.binary("eq", loop.var, loop.start)  # equal expressions are one
    if plan.atom is None or plan.run > 1 or plan.tiles[2] % 2 or not (adds or at_start):
        return None
    kept = replace(gemm, clear=E.const(at_start))
    total = sum_of(kept, plan, ctx, plan.atom.c)
    factors = factors_of(gemm, plan, plan.atom, ctx)
    if not total.own or any(factor.held for factor in factors):
        return None

    def loads(value: E.Expr) -> list[S.Stmt]:
        found: list[S.Stmt] = []
        for factor in factors:
            region = factor.region.map(lambda e: simplify(substitute(e, {loop.var: value})))
            moved = replace(factor, region=region, given=factor.arrays)
            found += moved.load(E.const(0), 0)
        if trip_count(loop) is not None:
            return found
        upward = not isinstance(loop.step, E.Const) or loop.step.value > 0
        exists = E.binary("lt" if upward else "gt", value, loop.stop)
        return [S.If(cond=exists, then=S.seq(*found), loc=loop.loc)]

    allocs = [S.Alloc(buffer=item) for factor in factors for item in factor.arrays]
    before = [total.start(), *allocs, *waits, *loads(loop.start)]
    following = E.binary("add", loop.var, loop.step)
    return before, list(steps(total, factors, [*waits, *loads(following)]))
