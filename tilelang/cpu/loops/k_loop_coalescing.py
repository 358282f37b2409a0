"""K-loop coalescing: int8 products of adjacent parts of k become one product.

Each product of a loop over k loads and stores the whole accumulator tile once. Integer addition is
associative, so the order of the sum may change: the loop becomes products of as many steps as the
cache can hold packed words of both operands for. A loop that becomes a single product can then
store its result directly to its destination.

Runs after :mod:`~tilelang.cpu.loops.gemm_forwarding`, which removes the copies from such loops.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.cpu.dot_instructions import packed_dot_of
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Region
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import substitute
from tilelang.transforms.analysis.combine import accumulator
from tilelang.transforms.analysis.dependence import steps_of
from tilelang.transforms.analysis.loops import trip_count

ROOM = 1 << 20  # bytes of words; second caches have that much, or somewhat less


def coalesced(loop: S.Stmt) -> S.Stmt:
    """One product, or fewer and longer ones, where ``loop`` only adds products of bytes."""
    if not isinstance(loop, S.For):
        return loop
    gemm, count = loop.body, trip_count(loop)
    if not isinstance(gemm, S.Gemm) or not count or (int(loop.start), int(loop.step)) != (0, 1):
        return loop
    first = first_only(gemm.clear, loop.var)
    if gemm.c.dtype != "int32" or not _is_continued_along(gemm, loop.var) or first is None:
        return loop
    (m, n), k = gemm.c.extents[-2:], gemm.a.extents[-2 if gemm.trans_a else -1]
    fits = ROOM // (int(k) * (int(m) + int(n)))
    steps = max(step for step in range(1, count + 1) if count % step == 0 and step <= max(fits, 1))
    if steps == 1:
        return loop
    last = steps == count
    at: dict[E.Var, E.Expr] = {loop.var: E.const(0) if last else loop.var * steps}

    def longer(region: Region, dim: int) -> Region:
        extents = list(region.extents)
        extents[dim] = int(k) * steps
        region = region.map(lambda low: simplify(substitute(low, at)))
        return replace(region, extents=tuple(extents))

    a = longer(gemm.a, -2 if gemm.trans_a else -1)
    b = longer(gemm.b, -1 if gemm.trans_b else -2)
    gemm = replace(gemm, a=a, b=b, clear=E.const(first, gemm.clear.dtype) if last else gemm.clear)
    return gemm if last else replace(loop, body=gemm, stop=E.const(count // steps))


def first_only(clear: E.Expr, var: E.Var) -> bool | None:
    """Whether the first iteration overwrites, where the others add; None where they may not."""
    if isinstance(clear, E.Const):
        return None if clear.value else False
    match clear:
        case E.Binary(op="eq", a=E.Var() as tested, b=E.Const(value=0)) if tested is var:
            return True
    return None


def _is_continued_along(gemm: S.Gemm, var: E.Var) -> bool:
    """Whether the product is one of bytes, and each iteration continues is_step_along k where
    the one before ended, with the same rows and columns."""
    if packed_dot_of(gemm.a.dtype, gemm.b.dtype, accumulator(gemm.a.dtype, gemm.c.dtype)) is None:
        return False
    extents = (*gemm.a.extents, *gemm.b.extents, *gemm.c.extents)
    if not all(isinstance(extent, int) for extent in extents):
        return False

    def is_step_along(region: Region, dim: int) -> bool:
        steps: list[object] = [0] * len(region.mins)
        steps[dim] = region.extents[dim]
        return steps_of(region.mins, var) == tuple(steps)

    return (
        is_step_along(gemm.a, -2 if gemm.trans_a else -1)
        and is_step_along(gemm.b, -1 if gemm.trans_b else -2)
        and not any(step != 0 for step in steps_of(gemm.c.mins, var))
    )
