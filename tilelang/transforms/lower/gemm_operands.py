"""GEMM operands: one class for each kind of source that the threads load from.

Operands in shared memory are loaded by ``ldmatrix``, four blocks of 8 x 16 bytes at a time, if each
row of 16 bytes is contiguous and aligned. That needs a contiguous k and elements of up to 32 bits,
or a contiguous m or n and elements of 16 bits (``ldmatrix.trans``). Other operands in shared memory
are loaded element by element. Operands in fragments are in the right registers already.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import ClassVar

from tilelang.errors import InternalError, Loc
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.bounds import is_divisible
from tilelang.ir.buffer import Buffer, Region
from tilelang.layout.layout import Layout
from tilelang.records import dataclass
from tilelang.target import operations
from tilelang.target.matrices import BLOCK, MmaAtom
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.analysis.vectors import has_aligned_rows, keeps_chunks
from tilelang.transforms.layouts.gemm_plan import CHUNK_BITS, GemmPlan, OperandStrategy, Registers
from tilelang.transforms.lower.context import Lowering, register_layout_of
from tilelang.transforms.lower.elements import Address, array, loop, move_neighbours


@dataclass(frozen=True)
class Operand(ABC):
    """A or B of a product: where it is, and the registers that hold what is multiplied next.

    Attributes:
        region: the matrix; its last two dimensions are (outer, k) if ``k_inner``, else (k, outer),
            where outer is m for A and n for B.
        is_a: whether it is A.
        strategy: what the plan says of it.
        loc: where the product was written.
        into: registers to load into, if they are another's.
        groups: parts of the tiles of a step that are loaded one after the other.
    """

    region: Region
    k_inner: bool
    is_a: bool
    strategy: OperandStrategy
    plan: GemmPlan
    ctx: Lowering
    loc: Loc | None
    into: tuple[Buffer, ...] = ()
    groups: int = 1

    loaded: ClassVar[bool] = True  # whether ``load`` does anything
    doubled: ClassVar[bool] = True  # whether the next step is loaded while this one is multiplied
    per_load: ClassVar[int] = 1  # steps of the instruction that one load serves

    @property
    def atom(self) -> MmaAtom:
        """The instruction."""
        assert self.plan.atom is not None
        return self.plan.atom

    @property
    def tiles(self) -> int:
        """Tiles of the instruction in one step of a warp."""
        return self.plan.tiles[0 if self.is_a else 1]

    @property
    def register_count(self) -> int:
        """Registers of one tile."""
        return self.atom.a_registers if self.is_a else self.atom.b_registers

    @property
    @abstractmethod
    def arrays(self) -> tuple[Buffer, ...]:
        """Registers for one load, used alternately."""

    @abstractmethod
    def load(self, number: E.Expr, parity: int, group: int = 0) -> Iterator[S.Stmt]:
        """Load ``number`` into the registers ``parity``: of its steps, or of one group of tiles."""

    @abstractmethod
    def address(self, tile: E.Expr, step: E.Expr, parity: int) -> E.Expr:
        """The registers of a tile."""


class RegisterOperand(Operand):
    """An operand in a fragment, in the registers that the instruction takes."""

    loaded = False

    @property
    def arrays(self) -> tuple[Buffer, ...]:
        """None but its own."""
        return ()

    def load(self, number: E.Expr, parity: int, group: int = 0) -> Iterator[S.Stmt]:
        """Nothing: all steps are there."""
        return iter(())

    def address(self, tile: E.Expr, step: E.Expr, parity: int) -> E.Expr:
        """The registers of a tile, of all that the fragment has."""
        buffer = self.region.buffer
        assert isinstance(self.strategy, Registers)
        if register_layout_of(buffer) != self.strategy.spread:
            raise InternalError(f"`{buffer.name}` is not in the layout of the product")
        first = (step * self.tiles + tile) * self.register_count
        return E.AddressOf(self.ctx.registers(buffer), (first,), "r")


@dataclass(frozen=True)
class MemoryOperand(Operand):
    """An operand in shared memory."""

    def __post_init__(self) -> None:
        if self.region.buffer.storage == FRAGMENT:
            raise InternalError(f"`{self.region.buffer.name}` is not in shared memory")

    def at(self, outer: E.Expr, k: E.Expr) -> tuple[Buffer, tuple[E.Expr, ...]]:
        """The address of an element of the operand."""
        low = self.region.mins
        pair = (outer, k) if self.k_inner else (k, outer)
        return self.region.buffer, (*low[:-2], low[-2] + pair[0], low[-1] + pair[1])


@dataclass(frozen=True)
class SharedOperand(MemoryOperand):
    """An operand in shared memory, of which a warp loads its part step by step."""

    @cached_property
    def arrays(self) -> tuple[Buffer, ...]:
        """Registers for one load, used alternately; two where columns go in groups."""
        if self.into:
            return self.into
        name = "a" if self.is_a else "b"
        count = 2 if self.groups > 1 else min(2, self.plan.tiles[2] // self.per_load)
        size = self.per_load * self.tiles * self.register_count // self.groups
        return tuple(array(f"{name}{k}", self.region.dtype, size) for k in range(count))

    def address(self, tile: E.Expr, step: E.Expr, parity: int) -> E.Expr:
        """The registers of a tile, of one step."""
        return E.AddressOf(self.arrays[parity], (tile * self.register_count,), "r")

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
        if (down if self.is_a else across) == 1:
            return E.const(0)
        warp = self.ctx.group.thread // self.ctx.warp
        if self.plan.copies * self.plan.k_slices > 1:
            warp = warp % (down * across)
        if self.is_a:
            return (warp // across) * (self.plan.m // down)
        return (warp if down == 1 else warp % across) * (self.plan.n // across)

    def at(self, outer: E.Expr, k: E.Expr) -> tuple[Buffer, tuple[E.Expr, ...]]:
        """The address of an element of the warp's part."""
        slices = self.plan.k_slices
        if slices > 1:
            slice_number = self.ctx.group.thread // (self.ctx.group.threads // slices)
            k = slice_number * (self.plan.k // slices) + k
        return super().at(self.first + outer, k)

    @cached_property
    def has_ldmatrix(self) -> bool:
        """Whether ``ldmatrix`` can load it: every 16 bytes of a row are whole and aligned."""
        bits = self.region.dtype.bits
        if bits > 32 or (bits != 16 and not self.k_inner) or not self.ctx.context.has("ldmatrix"):
            return False
        return self.has_chunks(CHUNK_BITS // bits)

    @cached_property
    def run(self) -> int:
        """Neighbours along k that one move brings to the registers of a lane; 1: one by one."""
        atom, bits = self.atom, self.region.dtype.bits
        if atom.row == "mma" or not self.k_inner or bits < 8:
            return 1
        run = min(atom.k_run, CHUNK_BITS // bits)
        return run if run > 1 and self.has_chunks(run) else 1

    def has_chunks(self, chunk: int) -> bool:
        """Whether every ``chunk`` elements of a row are whole and aligned where they are."""
        buffer, bounds = self.region.buffer, self.ctx.bounds
        if not is_divisible(self.region.mins[-1], chunk, bounds):
            return False
        layout = buffer.attrs.layout
        if isinstance(layout, Layout):
            return keeps_chunks(layout, chunk)
        return has_aligned_rows(buffer, chunk, bounds)

    def load(self, number: E.Expr, parity: int, group: int = 0) -> Iterator[S.Stmt]:
        """The registers of one step, or of one group of its tiles."""
        registers = self.arrays[parity]
        start = number * self.atom.k
        tiles = self.tiles // self.groups
        first = group * tiles * (self.atom.m if self.is_a else self.atom.n)
        if self.run > 1:
            yield self._load_runs(registers, start, tiles, first)
            return
        if not self.is_a and self.plan.interleave > 1:
            yield self._load_columns(registers, start, tiles, first)
            return
        if not self.has_ldmatrix:
            yield self._load_elements(registers, start, tiles, first)
            return
        blocks = tiles * ((self.atom.blocks_m if self.is_a else 1) * self.atom.blocks_k)
        if blocks >= 4:
            var = self.ctx.fresh("q")
            yield loop(var, blocks // 4, self._load_blocks(registers, start, first, var, 4))
        loaded = blocks // 4 * 4
        for count in (2, 1):
            if blocks - loaded >= count:
                yield self._load_blocks(registers, start, first, E.const(loaded // count), count)
                loaded += count

    def _block(self, number: int) -> tuple[int, int]:
        """Position of a block along the outer index and along k, in the order of registers."""
        down = self.atom.blocks_m if self.is_a else 1
        inner = number // down % self.atom.blocks_k
        return number // (down * self.atom.blocks_k) * down + number % down, inner

    def _load_blocks(
        self, registers: Buffer, start: E.Expr, first: int, group: E.Expr, count: int
    ) -> S.Stmt:
        """``ldmatrix`` of ``count`` blocks, number ``group * count`` and following, of the rows or
        columns from ``first`` on.

        Lane 8g + r gives the address of row r of block g. The groups of one operand differ by the
        same distance, because a tile has one, two or four blocks.
        """
        origins = [self._block(number) for number in range(count)]
        row = self.lane % BLOCK
        outer, inner = (self._digit([origin[axis] for origin in origins]) for axis in (0, 1))
        per_tile = (self.atom.blocks_m if self.is_a else 1) * self.atom.blocks_k
        if count >= per_tile:
            offset = group * (count // per_tile * (self.atom.blocks_m if self.is_a else 1))
            along: E.Expr = E.const(0)
        else:
            position, along_k = self._block(int(group) * count)
            offset, along = E.const(position), E.const(along_k)
        chunk = BLOCK if not self.k_inner else CHUNK_BITS // self.region.dtype.bits
        if self.k_inner:
            origin = self.at(
                (offset * BLOCK + first) + (outer * BLOCK + row), start + (along + inner) * chunk
            )
        else:
            origin = self.at(
                (offset + outer) * BLOCK + first, start + (along * chunk + (inner * chunk + row))
            )
        target = E.AddressOf(registers, (group * (count * self.atom.per_register),), "w")
        source = E.AddressOf(*origin, "r")
        return S.do(
            operations.LDMATRIX, target, source, loc=self.loc, count=count, trans=not self.k_inner
        )

    def _digit(self, values: list[int]) -> E.Expr:
        """``values[g]`` for the lanes of block g; linear in the two bits of g."""
        low = values[1] - values[0] if len(values) > 1 else 0
        high = values[2] - values[0] if len(values) > 2 else 0
        if values != [values[0] + low * (g & 1) + high * (g >> 1) for g in range(len(values))]:
            raise InternalError(f"blocks at {values} have no common address")
        group = self.lane // BLOCK
        bits = (group % 2) * low + (self.lane // (2 * BLOCK)) * high
        return group if (low, high) == (1, 2) else bits + values[0]

    def _load_runs(self, registers: Buffer, start: E.Expr, tiles: int, first: int) -> S.Stmt:
        """The registers of each lane are runs along k, which are moved as a whole."""
        tile, run_number = self.ctx.fresh("t"), self.ctx.fresh("s")
        element = self._element_of(run_number * self.run, tile, start, first)
        target = registers, (tile * self.register_count + run_number * self.run,)
        move = move_neighbours(target, element, self.run, self.loc)
        return loop(tile, tiles, loop(run_number, self.register_count // self.run, move))

    def _element_of(self, register: E.Expr, tile: E.Var, start: E.Expr, first: int) -> Address:
        """The element that the instruction wants in a register of the lane."""
        layout = self.atom.a_layout if self.is_a else self.atom.b_layout
        pair = layout.index_of(self.lane, register)
        outer, k = pair if self.is_a else pair[::-1]
        height = self.atom.m if self.is_a else self.atom.n
        return self.at(tile * height + first + outer, start + k)

    def _load_columns(self, registers: Buffer, start: E.Expr, tiles: int, first: int) -> S.Stmt:
        """Neighbours of a row of B, which belong to consecutive tiles."""
        count, kind = self.plan.interleave, self.region.dtype
        tile, register, column = (self.ctx.fresh(name) for name in "tsu")
        k, outer = self.atom.b_layout.index_of(self.lane, register)
        outer = tile * (count * self.atom.n) + first + outer * count

        def put(value: E.Expr) -> S.Stmt:
            index = (tile * count + column) * self.register_count + register
            store = S.Store(buffer=registers, indices=(index,), value=value, loc=self.loc)
            return loop(column, count, store)

        if self.has_chunks(count):
            several = array("columns", kind, count)
            move = move_neighbours(
                (several, (E.const(0),)), self.at(outer, start + k), count, self.loc
            )
            body = S.seq(S.Alloc(buffer=several), move, put(E.Load(several, (column,))))
        else:
            body = put(E.Load(*self.at(outer + column, start + k)))
        return loop(tile, tiles // count, loop(register, self.register_count, body))

    def _load_elements(self, registers: Buffer, start: E.Expr, tiles: int, first: int) -> S.Stmt:
        """Every register from its element."""
        tile, register = self.ctx.fresh("t"), self.ctx.fresh("s")
        index = tile * self.register_count + register
        value = E.Load(*self._element_of(register, tile, start, first))
        store = S.Store(buffer=registers, indices=(index,), value=value, loc=self.loc)
        return loop(tile, tiles, loop(register, self.register_count, store))
