"""Element access: walk the elements of a tile by the threads that hold them.

A lowering visits elements in one of two ways: each element once, by one thread of the group, or
each copy of an element, by the thread that holds it. :func:`each` provides both for fragments
(unrolled loops over registers); for a per-thread array it visits all elements in every thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import TypeAlias

from tilelang.errors import Loc, TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.indices import row_major
from tilelang.ir.tables import VECTOR_COPY
from tilelang.layout.register_layout import RegisterLayout
from tilelang.records import dataclass
from tilelang.transforms.analysis.scopes import is_fragment, is_private
from tilelang.transforms.lower.context import HIDDEN, Lowering, register_layout_of

INT = DType("int32")
ZERO = E.const(0)


# -- small pieces ---------------------------------------------------------------------------------
def loop(var: E.Var, extent: int | E.Expr, body: S.Stmt, kind: str = "unroll") -> S.Stmt:
    """``body`` for ``var`` from 0 to ``extent`` - 1."""
    return S.counted(var, extent, body, kind)


def nest(loops: Sequence[tuple[E.Var, int | E.Expr]], body: S.Stmt, kind: str = "unroll") -> S.Stmt:
    """Nested loops, outermost first."""
    for var, extent in reversed(loops):
        body = loop(var, extent, body, kind)
    return body


def guarded(conditions: Iterable[E.Expr], body: S.Stmt) -> S.Stmt:
    """``body`` where all conditions hold."""
    condition = E.conjunction(conditions)
    if isinstance(condition, E.Const) and condition.value:
        return body
    return S.If(cond=condition, then=body)


def mode(thread: E.Expr, extent: int, stride: int, threads: int) -> E.Expr:
    """The mode of ``thread`` (less than ``threads``) at ``stride``."""
    value = thread // stride
    return value % extent if stride * extent < threads else value


def constant_extents(region: Region, subject: str) -> tuple[int, ...]:
    """The extents of a region as numbers.

    Raises:
        TileUnsupportedError: one is only known at run time.
    """
    result: list[int] = []
    for extent in region.extents:
        if isinstance(extent, E.Expr) and not isinstance(extent, E.Const):
            raise TileUnsupportedError(
                f"{subject} of a tile whose extent is only known at run time",
                expected="constant extents",
                got=f"`{region!r}`",
                hint="use the whole tile and a condition on the elements",
            )
        result.append(int(extent))
    return tuple(result)


def array(name: str, dtype: DType, count: int) -> Buffer:
    """A per-thread array."""
    return Buffer(name, Shape((count,)), dtype, "local", attrs=HIDDEN)


Address: TypeAlias = "tuple[Buffer, tuple[E.Expr, ...]]"


def move_neighbours(target: Address, source: Address, count: int, loc: Loc | None) -> S.Stmt:
    """``count`` neighbours in one move."""
    size = count * source[0].dtype.bits // 8
    addresses = E.AddressOf(*target, "w"), E.AddressOf(*source, "r")
    return S.do(VECTOR_COPY, *addresses, loc=loc, bytes=size)


# -- registers of a layout ---------------------------------------------------------------------
@dataclass(frozen=True)
class RegisterWalk:
    """The registers of one thread: loops over register modes, and what they hold.

    Attributes:
        loops: per register mode its (dimension, position), variable and extent, slowest first.
        register: the register under the loops.
        indices: the element in it.
        valid: conditions that it holds an element at all.
        first: further conditions that this thread holds the first copy of it.
    """

    loops: tuple[tuple[tuple[int, int], E.Var, int], ...]
    register: E.Expr
    indices: tuple[E.Expr, ...]
    valid: tuple[E.Expr, ...]
    first: tuple[E.Expr, ...]

    def nest(self, body: S.Stmt) -> S.Stmt:
        """``body`` for every register."""
        return nest([(var, extent) for _, var, extent in self.loops], body)


def walk_registers(dist: RegisterLayout, ctx: Lowering) -> RegisterWalk:
    """The registers of the executing thread."""
    thread = ctx.group.thread
    loops: list[tuple[int, tuple[int, int], E.Var, int]] = []
    register: E.Expr = ZERO
    indices: list[E.Expr] = []
    for dim, modes in enumerate(dist.modes):
        total: E.Expr = ZERO
        below = 1
        for position, digit_mode in reversed(list(enumerate(modes))):
            if digit_mode.extent > 1:
                if digit_mode.kind == "register":
                    var = ctx.fresh("s")
                    loops.append((digit_mode.stride, (dim, position), var, digit_mode.extent))
                    register = register + var * digit_mode.stride
                    value: E.Expr = var
                else:
                    value = mode(thread, digit_mode.extent, digit_mode.stride, dist.threads)
                total = value * below + total
            below *= digit_mode.extent
        indices.append(total)
    loops.sort(key=lambda digit_mode: -digit_mode[0])
    return RegisterWalk(
        tuple(digit_mode[1:] for digit_mode in loops),
        register,
        tuple(indices),
        tuple(_valid(dist, thread, indices)),
        tuple(first_copy(dist, thread)),
    )


def _valid(dist: RegisterLayout, thread: E.Expr, indices: Sequence[E.Expr]) -> Iterable[E.Expr]:
    if dist.used_threads < dist.threads:
        yield thread < dist.used_threads
    for index, extent, modes in zip(indices, dist.shape, dist.modes):
        if prod(mode.extent for mode in modes) > extent:
            yield index < extent


def first_copy(dist: RegisterLayout, thread: E.Expr) -> Iterable[E.Expr]:
    """Conditions that a thread holds the first copy of its elements: modes of the thread that count
    copies are 0, and so are numbers that no mode reaches."""
    for extent, stride in dist.replicas:
        if extent > 1:
            yield E.binary("eq", mode(thread, extent, stride, dist.threads), ZERO)
    for below, extent in dist.gaps("thread"):
        yield E.binary("eq", thread // below % extent, ZERO)


# -- elements of a region -------------------------------------------------------------------------
@dataclass(frozen=True)
class Element:
    """One element of a tile.

    Attributes:
        indices: its position in the region, per dimension of the buffer.
        buffer, address: the buffer that holds it, and the indices in that buffer.
    """

    indices: tuple[E.Expr, ...]
    buffer: Buffer
    address: tuple[E.Expr, ...]

    def load(self) -> E.Expr:
        """Its value."""
        return E.Load(self.buffer, self.address)

    def store(self, value: E.Expr) -> S.Stmt:
        """``value``, converted, becomes its value."""
        converted = E.cast(value, self.buffer.dtype)
        return S.Store(buffer=self.buffer, indices=self.address, value=converted)


def element(region: Region, indices: Sequence[E.Expr]) -> Element:
    """The element of a shared, global or per-thread region at a position in it."""
    at = tuple(low + index for low, index in zip(region.mins, indices, strict=True))
    return Element(tuple(indices), region.buffer, at)


def membership(region: Region, indices: Sequence[E.Expr], but: int | None = None) -> list[E.Expr]:
    """Conditions that an element of the buffer belongs to the region; none for the whole.

    Args:
        but: a dimension that is left out.
    """
    conditions: list[E.Expr] = []
    for dim, (low, extent, full_extent, index) in enumerate(
        zip(region.mins, region.extents, region.buffer.shape, indices, strict=True)
    ):
        if dim == but:
            continue
        starts = isinstance(low, E.Const) and int(low) == 0
        if not starts:
            conditions.append(index >= low)
        if not (starts and isinstance(extent, int) and extent == full_extent):
            conditions.append(index < low + extent)
    return conditions


Visit = Callable[[Element], S.Stmt]


def each(region: Region, ctx: Lowering, visit: Visit, is_once: bool) -> S.Stmt:
    """``visit`` for the elements of ``region``, a fragment or private memory.

    Args:
        once: whether only the first copy of an element in a fragment is visited. Elements of
            private memory are visited by every thread.
    """
    if is_fragment(region):
        return _each_register(region, ctx, visit, is_once)
    assert is_private(region)
    variables = [ctx.fresh("i") for _ in region.extents]
    return nest(list(zip(variables, region.extents)), visit(element(region, variables)), "serial")


def _each_register(region: Region, ctx: Lowering, visit: Visit, is_once: bool) -> S.Stmt:
    walk = walk_registers(register_layout_of(region.buffer), ctx)
    at = tuple(index - low for index, low in zip(walk.indices, region.mins, strict=True))
    element = Element(at, ctx.registers(region.buffer), (walk.register,))
    conditions = [*walk.valid, *membership(region, walk.indices), *(walk.first if is_once else ())]
    return walk.nest(guarded(conditions, visit(element)))


def stage(region: Region, ctx: Lowering, name: str, subject: str) -> tuple[S.Stmt, Buffer]:
    """A row-major copy of a tile in a shared workspace, complete for all threads.

    Readers of the workspace have to end with a barrier of their own before it is used again.
    """
    extents = constant_extents(region, subject)
    scratch = ctx.workspace(name, region.dtype, prod(extents))

    def put(source: Element) -> S.Stmt:
        index = (row_major(extents, source.indices),)
        return S.Store(buffer=scratch, indices=index, value=source.load())

    return S.seq(each(region, ctx, put, is_once=True), ctx.barrier()), scratch
