"""``Gemm`` by matrix instructions of warps (``mma.sync``).

Along k the product runs in steps of the instruction. The registers of the factors are doubled: the
loads of the next step are issued before the multiplications of this one. Up to four steps are
written out; longer products loop over groups of four. Where registers are scarce, the columns of a
step are taken in groups, and only those of one group are loaded ahead.

Factors in shared memory are loaded by ``ldmatrix``, four blocks of 8 x 16 bytes at a time, if
their rows of 16 bytes are whole and aligned where they are: with k contiguous for elements of up
to 32 bits, with m or n contiguous (transposed on the way) for 16 bits. Everything else is loaded
element by element. Factors in fragments are in the right registers already; where they hold runs
along k, :mod:`tilelang.passes.lower.gemm_runs` loads the other factor in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from tilelang.errors import InternalError, Loc
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.bounds import divisible_by
from tilelang.ir.buffer import Buffer, Region
from tilelang.layout.distribution import Distribution
from tilelang.layout.layout import Layout
from tilelang.passes.analysis.scopes import FRAGMENT
from tilelang.passes.layouts.gemm_plan import CHUNK_BITS, GemmPlan, exchanged
from tilelang.passes.lower.context import REGISTER, Lowering
from tilelang.passes.lower.elements import array, loop
from tilelang.passes.lower.gemm_fma import lower_gemm_fma
from tilelang.passes.lower.gemm_runs import run_steps
from tilelang.passes.lower.gemm_sum import Sum, plan_of, sum_of
from tilelang.target import nvidia
from tilelang.target.matrices import BLOCK, MmaAtom

UNROLL = 4  # steps along k that are written out
CROWDED = 200  # registers of fragments and doubled factors from which columns are grouped
LEAST = 8  # multiplications that hide the loads of the next group


def lower_gemm(stmt: S.Gemm, ctx: Lowering) -> S.Stmt:
    """Thread IR of a product, as planned."""
    atom = plan_of(stmt).atom
    if atom is None:
        return lower_gemm_fma(stmt, ctx)
    total = sum_of(stmt, ctx, atom.c)
    factors = factors_of(stmt, atom, ctx)
    return S.seq(
        total.start(),
        *(S.Alloc(buffer=item) for factor in factors for item in factor.arrays),
        *_all_steps(total, factors),
        total.finish(),
    )


def factors_of(stmt: S.Gemm, atom: MmaAtom, ctx: Lowering) -> tuple[Factor, Factor]:
    """A and B of a product; B^T and A^T where these are multiplied instead."""
    plan = plan_of(stmt)
    a, b = plan.a, plan.b
    if plan.exchanged:
        stmt, a, b = exchanged(stmt), b, a
    left = Factor(stmt.a, not stmt.trans_a, True, a, plan, atom, ctx, stmt.loc)
    right = Factor(stmt.b, stmt.trans_b, False, b, plan, atom, ctx, stmt.loc)
    return left, replace(right, groups=_groups(left, right))


def _groups(a: Factor, b: Factor) -> int:
    """Groups of columns: as many as leave enough to multiply, where registers are scarce."""
    rows, columns, _ = a.plan.tiles
    if b.held or a.plan.run > 1:
        return 1
    loaded = sum(2 * f.tiles * f.slots * f.region.dtype.bits for f in (a, b) if not f.held)
    if a.ctx.fragments + loaded // REGISTER < CROWDED:
        return 1
    groups = 1
    while columns % (4 * groups) == 0 and rows * (columns // (2 * groups)) >= LEAST:
        groups *= 2
    return groups


def _all_steps(total: Sum, factors: tuple[Factor, Factor]) -> Iterator[S.Stmt]:
    if total.plan.run > 1:
        yield from run_steps(total, factors, multiply)
        return
    for factor in factors:
        if not factor.held:
            yield from factor.load(E.const(0), 0)
    yield from steps(total, factors)


def steps(
    total: Sum, factors: tuple[Factor, Factor], ahead: Sequence[S.Stmt] = ()
) -> Iterator[S.Stmt]:
    """Loads and multiplications of all steps but the loads of the first one.

    ``ahead`` is what has to be under way during the multiplications of the last step.
    """
    count, groups = total.plan.tiles[2], factors[1].groups
    in_memory = [factor for factor in factors if not factor.held]
    rounds = (count - 1) // UNROLL

    def some(first: E.Expr, many: int, last: bool) -> Iterator[S.Stmt]:
        for number in range(many):
            step = first + number
            for group in range(1, groups):
                yield from factors[1].load(step, group % 2, group)
                yield multiply(total, factors, step, number % 2, group - 1)
            if last and number == many - 1:
                yield from ahead
            else:
                for factor in in_memory:
                    alternate = factor.left or groups == 1
                    yield from factor.load(step + 1, (number + 1) % 2 if alternate else 0)
            yield multiply(total, factors, step, number % 2, groups - 1)

    if rounds:
        var = total.ctx.fresh("ko")
        body = S.seq(*some(var * UNROLL, UNROLL, False))
        # Registers of a fragment can only be chosen by constants.
        yield loop(var, rounds, body, "serial" if len(in_memory) == 2 else "unroll")
    yield from some(E.const(rounds * UNROLL), count - rounds * UNROLL, True)


def multiply(
    total: Sum, factors: tuple[Factor, Factor], step: E.Expr, parity: int, group: int = 0
) -> S.Stmt:
    """One step: every tile of the result, in the columns of ``group``, gets the product of its
    tiles of A and B."""
    plan, ctx, atom = total.plan, total.ctx, factors[0].atom
    rows, columns, _ = plan.tiles
    count = columns // factors[1].groups
    i, j = ctx.fresh("i"), ctx.fresh("j")
    column = j + group * count
    call = E.call(
        nvidia.MMA,
        E.AddressOf(total.registers, ((i * columns + column) * atom.c_slots,), "rw"),
        factors[0].address(i, step, parity),
        factors[1].address(j, step, parity if factors[1].groups == 1 else group % 2),
        dtype="void",
        shape=atom.shape,
        a=str(atom.a),
        b=str(atom.b),
        c=str(atom.c),
    )
    return loop(i, rows, loop(j, count, S.Eval(value=call, loc=total.stmt.loc)))


# -- factors ----------------------------------------------------------------------------------
@dataclass(frozen=True)
class Factor:
    """A or B of a product: where it is, and the registers that hold one step of it.

    Attributes:
        region: the matrix; its last two dimensions are (outer, k) if ``k_inner``, else (k, outer),
            where outer is m for A and n for B.
        left: whether it is A.
        wanted: the layout that it has if it is in a fragment.
        loc: where the product was written.
        given: registers to load into, if they are another's.
        groups: parts of the tiles of a step that are loaded one after the other.
    """

    region: Region
    k_inner: bool
    left: bool
    wanted: Distribution | None
    plan: GemmPlan
    atom: MmaAtom
    ctx: Lowering
    loc: Loc | None
    given: tuple[Buffer, ...] = ()
    groups: int = 1

    @property
    def held(self) -> bool:
        """Whether it is in registers already."""
        buffer = self.region.buffer
        if buffer.storage != FRAGMENT:
            return False
        if self.wanted is None or self.ctx.distribution(buffer) != self.wanted:
            raise InternalError(f"`{buffer.name}` is not held as the product needs it")
        return True

    @property
    def tiles(self) -> int:
        """Tiles of the instruction in one step of a warp."""
        return self.plan.tiles[0 if self.left else 1]

    @property
    def slots(self) -> int:
        """Registers of one tile."""
        return self.atom.a_slots if self.left else self.atom.b_slots

    @cached_property
    def arrays(self) -> tuple[Buffer, ...]:
        """Registers for one step each, used in turn; none for a fragment."""
        if self.held or self.given:
            return self.given
        name = "a" if self.left else "b"
        # In runs along k each holds two steps.
        steps = 2 if self.plan.run > 1 else 1
        count, size = min(2, self.plan.tiles[2] // steps), steps * self.tiles * self.slots
        if self.groups > 1:
            count, size = 2, size // self.groups
        return tuple(array(f"{name}{k}", self.region.dtype, size) for k in range(count))

    def address(self, tile: E.Expr, step: E.Expr, parity: int) -> E.Expr:
        """The registers of a tile."""
        if self.held:
            first = (step * self.tiles + tile) * self.slots
            return E.AddressOf(self.ctx.registers(self.region.buffer), (first,), "r")
        first = tile * self.slots
        if self.plan.run > 1:  # the step and the array are constants
            first = first + step % 2 * (self.tiles * self.slots)
        return E.AddressOf(self.arrays[parity], (first,), "r")

    # -- positions ----------------------------------------------------------------------------
    @property
    def lane(self) -> E.Expr:
        """The thread's number in its warp."""
        thread = self.ctx.group.thread
        return thread if self.ctx.group.threads == self.ctx.warp else thread % self.ctx.warp

    @cached_property
    def first(self) -> E.Expr:
        """The first row (of A) or column (of B) of the warp's tile."""
        down, across = self.plan.warps
        if (down if self.left else across) == 1:
            return E.const(0)
        warp = self.ctx.group.thread // self.ctx.warp
        if self.left:
            return (warp // across) * (self.plan.m // down)
        return (warp if down == 1 else warp % across) * (self.plan.n // across)

    def at(self, outer: E.Expr, k: E.Expr) -> tuple[Buffer, tuple[E.Expr, ...]]:
        """An element of the factor, as a place in memory."""
        low = self.region.mins
        pair = (self.first + outer, k) if self.k_inner else (k, self.first + outer)
        return self.ctx.place(self.region.buffer, (*low[:-2], low[-2] + pair[0], low[-1] + pair[1]))

    # -- loads --------------------------------------------------------------------------------
    @cached_property
    def by_matrix(self) -> bool:
        """Whether ``ldmatrix`` can load it: every 16 bytes of a row are whole and aligned."""
        bits = self.region.dtype.bits
        if bits > 32 or (bits != 16 and not self.k_inner):
            return False
        chunk = CHUNK_BITS // bits
        buffer, bounds = self.region.buffer, self.ctx.bounds
        if not divisible_by(self.region.mins[-1], chunk, bounds):
            return False
        layout = buffer.attr("layout")
        if isinstance(layout, Layout):
            return keeps_chunks(layout, chunk)
        strides = buffer.stride_list()
        offset = E.as_expr(buffer.elem_offset)
        return strides[-1] == 1 and all(
            divisible_by(E.as_expr(item), chunk, bounds) for item in (*strides[:-1], offset)
        )

    def load(self, step: E.Expr, parity: int, group: int = 0) -> Iterator[S.Stmt]:
        """The registers of one step, or of one group of its tiles."""
        registers = self.arrays[parity]
        start = step * self.atom.k
        tiles = self.tiles // self.groups
        first = group * tiles * (self.atom.m if self.left else self.atom.n)
        if not self.by_matrix:
            yield self._load_elements(registers, start, tiles, first)
            return
        per_tile = (self.atom.blocks_m if self.left else 1) * self.atom.blocks_k
        blocks = tiles * per_tile
        if blocks >= 4:
            var = self.ctx.fresh("q")
            yield loop(var, blocks // 4, self._load_blocks(registers, start, first, var, 4))
        done = blocks // 4 * 4
        for count in (2, 1):
            if blocks - done >= count:
                number = E.const(done // count)
                yield self._load_blocks(registers, start, first, number, count)
                done += count

    def _block(self, number: int) -> tuple[int, int]:
        """Position of a block along the outer index and along k, in the order of registers."""
        down = self.atom.blocks_m if self.left else 1
        inner = number // down % self.atom.blocks_k
        tile = number // (down * self.atom.blocks_k)
        return tile * down + number % down, inner

    def _load_blocks(
        self, registers: Buffer, start: E.Expr, first: int, group: E.Expr, count: int
    ) -> S.Stmt:
        """``ldmatrix`` of ``count`` blocks, number ``group * count`` and following, of the rows or
        columns from ``first`` on.

        Lane 8g + r gives the address of row r of block g. The groups of one factor differ by the
        same distance, because a tile has one, two or four blocks.
        """
        places = [self._block(number) for number in range(count)]
        lane = self.lane
        row = lane % BLOCK
        outer, inner = (self._digit([place[axis] for place in places]) for axis in (0, 1))
        per_tile = (self.atom.blocks_m if self.left else 1) * self.atom.blocks_k
        if count >= per_tile:
            ahead = group * (count // per_tile * (self.atom.blocks_m if self.left else 1))
            along: E.Expr = E.const(0)
        else:
            position, along_k = self._block(int(group) * count)
            ahead, along = E.const(position), E.const(along_k)
        chunk = BLOCK if not self.k_inner else CHUNK_BITS // self.region.dtype.bits
        if self.k_inner:
            place = self.at(
                (ahead * BLOCK + first) + (outer * BLOCK + row), start + (along + inner) * chunk
            )
        else:
            place = self.at(
                (ahead + outer) * BLOCK + first, start + (along * chunk + (inner * chunk + row))
            )
        per = self.atom.per_register
        target = E.AddressOf(registers, (group * (count * per),), "w")
        call = E.call(
            nvidia.LDMATRIX,
            target,
            E.AddressOf(*place, "r"),
            dtype="void",
            count=count,
            trans=not self.k_inner,
        )
        return S.Eval(value=call, loc=self.loc)

    def _digit(self, values: list[int]) -> E.Expr:
        """``values[g]`` for the lanes of block g; linear in the two bits of g."""
        low = values[1] - values[0] if len(values) > 1 else 0
        high = values[2] - values[0] if len(values) > 2 else 0
        if values != [values[0] + low * (g & 1) + high * (g >> 1) for g in range(len(values))]:
            raise InternalError(f"blocks at {values} have no common address")
        group = self.lane // BLOCK
        bits = (group % 2) * low + (self.lane // (2 * BLOCK)) * high
        return group if (low, high) == (1, 2) else bits + values[0]

    def _load_elements(self, registers: Buffer, start: E.Expr, tiles: int, first: int) -> S.Stmt:
        """Every register from its element."""
        tile, slot = self.ctx.fresh("t"), self.ctx.fresh("s")
        if self.left:
            outer, k = self.atom.a_layout.index_of(self.lane, slot)
            height = self.atom.m
        else:
            k, outer = self.atom.b_layout.index_of(self.lane, slot)
            height = self.atom.n
        place = self.at(tile * height + first + outer, start + k)
        index = tile * self.slots + slot
        value = E.Load(*place)
        store = S.Store(buffer=registers, indices=(index,), value=value, loc=self.loc)
        return loop(tile, tiles, loop(slot, self.slots, store))


@lru_cache(maxsize=512)
def keeps_chunks(layout: Layout, chunk: int) -> bool:
    """Whether ``chunk`` neighbours of the last dimension stay together, at multiples of ``chunk``,
    in every row."""
    addresses = layout.addresses()
    if addresses.shape[-1] % chunk:
        return False
    parts = addresses.reshape(-1, chunk)
    together = (parts == parts[:, :1] + np.arange(chunk)).all()
    return bool(together) and bool((parts[:, 0] % chunk == 0).all())
