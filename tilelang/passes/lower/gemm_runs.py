"""Loads of a product whose threads hold runs along k.

With one factor in registers in runs ("k_run"), the thread ``t`` of four multiplies the k from
``4 * run * t`` on, one after the other, in groups of ``16 * run``: four to each step. The other
factor comes from shared memory, where k is contiguous: 16 bytes are what two steps take of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.passes.lower.elements import array, loop
from tilelang.target.matrices import BLOCK

if TYPE_CHECKING:
    from tilelang.passes.lower.gemm_mma import Factor
    from tilelang.passes.lower.gemm_sum import Sum

STEPS = 2  # steps of one load
OWN = 4  # k of a thread in one step
PART = 2  # 16-bit elements of one register

Multiply = Callable[["Sum", "tuple[Factor, Factor]", E.Expr, int], S.Stmt]


def run_steps(total: Sum, factors: tuple[Factor, Factor], multiply: Multiply) -> Iterator[S.Stmt]:
    """Loads and multiplications of all steps: the next two are loaded before two are done."""
    pairs = total.plan.tiles[2] // STEPS
    in_memory = [factor for factor in factors if not factor.held]
    for factor in in_memory:
        yield from load_pair(factor, 0, factor.arrays[0])
    for pair in range(pairs):
        if pair + 1 < pairs:
            for factor in in_memory:
                yield from load_pair(factor, pair + 1, factor.arrays[(pair + 1) % 2])
        for step in range(STEPS * pair, STEPS * (pair + 1)):
            yield multiply(total, factors, E.const(step), pair % 2)


def load_pair(factor: Factor, pair: int, registers: Buffer) -> Iterator[S.Stmt]:
    """The registers of steps ``2 * pair`` and ``2 * pair + 1``.

    A left factor has rows ``r`` and ``r + 8`` in one tile, whose registers alternate; for a right
    factor the registers of a step follow each other.
    """
    run = factor.plan.run
    group, first = divmod(STEPS * pair, run)
    own = factor.lane % OWN * (OWN * run)
    k = own + (group * 4 * OWN * run + first * OWN)
    halves = factor.slots // OWN  # rows of a tile in one thread
    tile, half = factor.ctx.fresh("t"), factor.ctx.fresh("h")
    row = tile * (halves * BLOCK) + half * BLOCK + factor.lane // OWN
    chunk = array("run", factor.region.dtype, STEPS * OWN)
    body: list[S.Stmt] = [S.Alloc(buffer=chunk), _loaded(factor, chunk, row, k)]
    stride = factor.tiles * factor.slots  # of steps
    width = PART if halves > 1 else OWN  # elements that stay together
    for start in range(0, STEPS * OWN, width):
        step, inner = divmod(start, OWN)
        at = tile * factor.slots + half * PART + (step * stride + inner * halves)
        body.append(_move(registers, at, chunk, E.const(start), width, factor))
    yield loop(tile, factor.tiles, loop(half, halves, S.seq(*body)))


def _loaded(factor: Factor, chunk: Buffer, row: E.Expr, k: E.Expr) -> S.Stmt:
    """``chunk`` is filled from a row, from ``k`` on."""
    count = STEPS * OWN
    if factor.by_matrix:
        return _move(chunk, E.const(0), *factor.at(row, k), count, factor)
    var = factor.ctx.fresh("s")
    place = factor.at(row, k + var)
    store = S.Store(buffer=chunk, indices=(var,), value=E.Load(*place), loc=factor.loc)
    return loop(var, count, store)


def _move(
    dst: Buffer,
    to: E.Expr,
    src: Buffer,
    at: E.Expr | tuple[E.Expr, ...],
    count: int,
    factor: Factor,
) -> S.Stmt:
    """``count`` neighbouring elements in one move."""
    source = E.AddressOf(src, at if isinstance(at, tuple) else (at,), "r")
    target = E.AddressOf(dst, (to,), "w")
    size = count * src.dtype.bits // 8
    call = E.call("vector_copy", target, source, dtype="void", bytes=size)
    return S.Eval(value=call, loc=factor.loc)
