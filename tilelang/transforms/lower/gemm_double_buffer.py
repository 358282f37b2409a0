"""Register double buffering: the first loads of an iteration are issued in the one before.

A barrier separates the arrival of a stage from the loads of its operands, so the tensor cores would
stall on these loads once per iteration. Where the loop only copies and multiplies, the barrier and
the loads for the first step of the next iteration move before the multiplications of the last step.
In the last iteration there is no next one: with a constant trip count the loads read an older
stage, whose values are not used. They are predicated where the trip count is not constant, or where
the loop's variable selects a part of a tile outside of the pipeline, which then has no next part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tilelang.ir import expr as E, schedule as H, stmt as S
from tilelang.ir.buffer import Region
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import substitute
from tilelang.transforms.analysis.loops import values_of
from tilelang.transforms.lower.context import Lowering
from tilelang.transforms.lower.direct_loads import is_in_bounds
from tilelang.transforms.lower.gemm_accumulator import accumulator_of, plan_of
from tilelang.transforms.lower.gemm_mma import operands_of, steps
from tilelang.transforms.lower.gemm_operands import SharedOperand


def product_of(loop: S.For) -> tuple[H.Wait, Sequence[S.Stmt], S.Gemm, H.Release] | None:
    """The wait, the copies, the product and the release of a pipelined loop of nothing else."""
    match S.flat(loop.body):
        case (H.Wait() as wait, *copies, S.Gemm() as gemm, H.Release() as release) if copies:
            kinds = (S.Copy, S.If, S.Seq, H.Acquire, H.Commit)
            plain = all(isinstance(node, kinds) for stmt in copies for node in S.walk(stmt))
            return (wait, copies, gemm, release) if plain else None
    return None


def lower_double_buffered(
    loop: S.For, wait: H.Wait, gemm: S.Gemm, release: H.Release, ctx: Lowering
) -> tuple[list[S.Stmt], list[S.Stmt]] | None:
    """The statements before the loop, and those that replace the product and its steps in the body.

    The body waits for the stage of the next iteration, also in the last one: the pipeline has to
    count stages. None where the registers of a step cannot be carried to the next iteration.
    """
    plan = plan_of(gemm)
    adds = isinstance(gemm.clear, E.Const) and not gemm.clear.value
    at_start = gemm.clear is E.binary("eq", loop.var, loop.start)  # equal expressions are one
    if plan.atom is None or plan.uses_wgmma:
        return None
    if plan.run > 1 or plan.tiles[2] % 2 or not (adds or at_start):
        return None
    accumulator = accumulator_of(replace(gemm, clear=E.const(at_start)), ctx)
    operands = operands_of(gemm, ctx)
    if not accumulator.own or not all(isinstance(operand, SharedOperand) for operand in operands):
        return None

    def regions(value: E.Expr) -> Iterator[Region]:
        for operand in operands:
            yield operand.region.map(lambda e: simplify(substitute(e, {loop.var: value})))

    values = values_of(loop)
    past = regions(E.const(values[-1] + values.step, loop.var.dtype)) if values else ()
    always = values and all(is_in_bounds(region, ctx) for region in past)

    def loads(value: E.Expr) -> list[S.Stmt]:
        result: list[S.Stmt] = []
        for operand, region in zip(operands, regions(value), strict=True):
            result += replace(operand, region=region, into=operand.arrays).load(E.const(0), 0)
        upward = not isinstance(loop.step, E.Const) or loop.step.value > 0
        exists = E.binary("lt" if upward else "gt", value, loop.stop)
        return result if always else [S.If(cond=exists, then=S.seq(*result), loc=loop.loc)]

    def waited(value: E.Expr) -> S.Stmt:
        return replace(wait, number=simplify(substitute(wait.number, {loop.var: value})))

    allocs = [S.Alloc(buffer=fragment) for operand in operands for fragment in operand.arrays]
    before = [accumulator.start(), *allocs, waited(loop.start), *loads(loop.start)]
    following = E.binary("add", loop.var, loop.step)
    # All loads of this stage come before the last step, so that the stage is free there.
    tail = [release, waited(following), *loads(following)]
    return before, list(steps(accumulator, operands, tail))
