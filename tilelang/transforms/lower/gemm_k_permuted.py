"""GEMM operands in a permuted order of k: each thread holds contiguous elements along k.

k is divided into groups of ``16 * run`` (the hint "k_run"). In each group, thread ``t`` of four
holds the ``4 * run`` elements from ``4 * run * t`` on, and each step of the instruction uses four
of them. The other operand is loaded from shared memory, where k is contiguous, in the same order: a
load of 16 bytes serves two steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.records import dataclass
from tilelang.target.matrices import BLOCK
from tilelang.transforms.lower.elements import array, loop, move_neighbours
from tilelang.transforms.lower.gemm_operands import SharedOperand

STEPS = 2  # steps of one load
THREAD_K = 4  # k of a thread in one step
REGISTER_ELEMENTS = 2  # of 16 bits in one register


@dataclass(frozen=True)
class PermutedOperand(SharedOperand):
    """An operand in shared memory of a product whose other operand is in registers in runs along
    k."""

    per_load: ClassVar[int] = STEPS

    def address(self, tile: E.Expr, step: E.Expr, parity: int) -> E.Expr:
        """The registers of a tile; the step is a constant, one of two."""
        first = tile * self.register_count + step % STEPS * (self.tiles * self.register_count)
        return E.AddressOf(self.arrays[parity], (first,), "r")

    def load(self, number: E.Expr, parity: int, group: int = 0) -> Iterator[S.Stmt]:
        """The registers of steps ``2 * number`` and ``2 * number + 1``.

        A left operand has rows ``r`` and ``r + 8`` in one tile, whose registers alternate; for a
        right operand the registers of a step follow each other.
        """
        assert isinstance(number, E.Const)
        registers, run = self.arrays[parity], self.plan.run
        group, first = divmod(STEPS * int(number.value), run)
        own = self.lane % THREAD_K * (THREAD_K * run)
        k = own + (group * 4 * THREAD_K * run + first * THREAD_K)
        halves = self.register_count // THREAD_K  # rows of a tile in one thread
        tile, half = self.ctx.fresh("t"), self.ctx.fresh("h")
        row = tile * (halves * BLOCK) + half * BLOCK + self.lane // THREAD_K
        chunk = array("run", self.region.dtype, STEPS * THREAD_K)
        body: list[S.Stmt] = [S.Alloc(buffer=chunk), self._chunk(chunk, row, k)]
        stride = self.tiles * self.register_count  # of steps
        width = REGISTER_ELEMENTS if halves > 1 else THREAD_K  # elements that stay together
        first_register = tile * self.register_count + half * REGISTER_ELEMENTS
        for start in range(0, STEPS * THREAD_K, width):
            step, inner = divmod(start, THREAD_K)
            at = first_register + (step * stride + inner * halves)
            source = chunk, (E.const(start),)
            body.append(move_neighbours((registers, (at,)), source, width, self.loc))
        yield loop(tile, self.tiles, loop(half, halves, S.seq(*body)))

    def _chunk(self, chunk: Buffer, row: E.Expr, k: E.Expr) -> S.Stmt:
        """``chunk`` is filled from a row, from ``k`` on."""
        count = STEPS * THREAD_K
        if self.has_ldmatrix:
            return move_neighbours((chunk, (E.const(0),)), self.at(row, k), count, self.loc)
        var = self.ctx.fresh("s")
        element = self.at(row, k + var)
        store = S.Store(buffer=chunk, indices=(var,), value=E.Load(*element), loc=self.loc)
        return loop(var, count, store)
