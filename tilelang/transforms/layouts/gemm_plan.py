"""How a matrix product is computed: the instruction, the warps, and the layouts it wants.

Everything that layouts, lowering and reports need to know of a ``Gemm`` is decided here from the
statement, the number of threads and the target. Where layouts are inferred the plan becomes part of
the statement, and all that follow read it there.

With a matrix instruction the result is cut into one tile per warp, each tile into tiles of the
instruction. Operands in shared memory want rows swizzled in chunks of 16 bytes, operands in
fragments the register layout of the instruction. Where no instruction fits (dtype, architecture,
sizes, threads that are no whole warps) every thread computes a part of the result with plain
multiplications, which works for everything.

Where the target multiplies by warpgroups (``wgmma``) that comes first: the unit reads operands from
shared memory itself, and only A may be in registers. What it cannot read so (see
:mod:`tilelang.transforms.layouts.descriptors`) is multiplied by warps, and the plan says why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from math import prod
from typing import Any, TypeAlias

from tilelang.errors import TileTypeError, TileUnsupportedError
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.layout.layout import Layout
from tilelang.layout.policy import GemmWarpPolicy
from tilelang.layout.register_layout import Mode, RegisterLayout, long_modes
from tilelang.layout.swizzle import make_padded_layout, make_swizzled_layout
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.target.atoms import LARGE, find_atom, warpgroup_kinds
from tilelang.target.matrices import BLOCK, MmaAtom, Modes
from tilelang.target.nvidia_mma import WARPGROUP, wgmma_atom, wgmma_columns
from tilelang.transforms.analysis.combine import accumulator
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.layouts.descriptors import (
    Descriptor,
    descriptor_of,
    in_panels,
    wanted_layout,
)

ROW_UNIT = 16  # rows of a warp's tile are a multiple of it
WARPGROUP_ROWS = 64  # rows of an instruction of a warpgroup
CHUNK_BITS = 128
BESIDE_BITS = 64  # 32 lanes then read from each bank twice, one behind the other
K_RUN = "k_run"  # annotation of a product: see GemmPlan.run
EXCHANGED = "exchanged"  # annotation of a product: see GemmPlan.exchanged
K_PARTS = "k_parts"  # annotation of a product: see GemmPlan.parts


@dataclass(frozen=True)
class Registers:
    """An operand that the threads hold: a fragment that is used as a whole.

    Attributes:
        spread: over threads and registers, of the buffer's shape.
    """

    spread: RegisterLayout


@dataclass(frozen=True)
class SharedLoad:
    """An operand in shared memory, of which threads load what they use next.

    A fragment that is used in part has to be moved there first.

    Attributes:
        layout: wanted of the last two dimensions; None where any will do.
    """

    layout: Layout | None = None


@dataclass(frozen=True)
class SharedRuns(SharedLoad):
    """A factor in shared memory, loaded in runs along k as the registers of the other one ask."""


@dataclass(frozen=True)
class SharedElements(SharedLoad):
    """A factor in shared memory, of which each thread loads the elements that it multiplies itself.

    Attributes:
        dtype: that they are converted to, in which their products are added up.
    """

    dtype: DType = field(kw_only=True)


OperandStrategy: TypeAlias = "Registers | SharedLoad | Descriptor"
# The layout of a shared buffer where the given one is wanted; None where it can have neither.
LayoutOf: TypeAlias = "Callable[[Buffer, Layout | None], Layout | None]"


@dataclass(frozen=True)
class GemmPlan:
    """The plan of one product.

    Attributes:
        atom: the matrix instruction; None for plain multiplications.
        m, n, k: sizes of the product.
        warps: how many warps (of ``wgmma`` warpgroups) share the rows and the columns. Where there
            are more of them, the others compute the same once more: see :attr:`copies`.
        sum: where the running result is held, of shape (m, n).
        c, a, b: where the threads have the operands from.
        run: steps of the instruction in which a thread multiplies neighbours along k; 1 for the
            instruction's own order.
        beside: neighbouring columns of B, contiguous along n, that a thread loads at once. Each is
            of another tile of the instruction: neighbours of the result are in different tiles.
        exchanged: whether C^T = B^T A^T is computed instead. Then m and n are those of C^T, and so
            are the warps and the sum; c, a and b are still the layouts of C, A and B.
        why: why no instruction of a warpgroup computes it, where the target has them.
        parts: groups of warps that share out k. Each adds up its part; C has as many matrices.
    """

    atom: MmaAtom | None
    m: int
    n: int
    k: int
    warps: tuple[int, int]
    sum: RegisterLayout
    c: OperandStrategy
    a: OperandStrategy
    b: OperandStrategy
    run: int = 1
    exchanged: bool = False
    why: str = ""
    beside: int = 1
    parts: int = 1

    @property
    def tiles(self) -> tuple[int, int, int]:
        """Tiles of the instruction in the tile of a warp (warpgroup): along rows, columns and k.
        Without an instruction elements in the part of a thread."""
        if self.atom is None:
            return _own(self.sum, 0), _own(self.sum, 1), self.k
        rows, columns = self.m // self.warps[0], self.n // self.warps[1]
        return rows // self.atom.m, columns // self.atom.n, self.k // (self.atom.k * self.parts)

    @property
    def copies(self) -> int:
        """How often the result is computed, each time by warps of its own."""
        if self.atom is None:
            return 1
        return self.sum.threads // (self.atom.width * prod(self.warps) * self.parts)

    @property
    def dtype(self) -> DType:
        """The dtype in which products are added up."""
        if self.atom is not None:
            return self.atom.c
        assert isinstance(self.a, SharedElements)
        return self.a.dtype

    def operands(self, stmt: S.Gemm) -> tuple[tuple[Region, OperandStrategy], ...]:
        """The result and the factors of ``stmt``, and where each is."""
        return (stmt.c, self.c), (stmt.a, self.a), (stmt.b, self.b)

    def placed(self, stmt: S.Gemm) -> GemmPlan:
        """The plan for ``stmt``, some of whose fragments have been moved to shared memory."""
        shared = SharedRuns() if self.run > 1 else SharedLoad()
        moved: dict[str, Any] = {
            name: shared if name != "c" else SharedLoad()
            for name in ("c", "a", "b")
            if isinstance(getattr(self, name), Registers)
            and getattr(stmt, name).buffer.storage != FRAGMENT
        }
        return replace(self, **moved) if moved else self

    @property
    def instruction(self) -> str:
        """A name of what computes it, for reports."""
        if self.atom is None:
            return "fma"
        family = (
            "wgmma" if self.by_warpgroups else {"mma": "mma.sync"}.get(self.atom.row, self.atom.row)
        )
        return f"{family}.{self.atom.shape}.{self.atom.a}"

    @property
    def by_warpgroups(self) -> bool:
        """Whether the instruction is one of a warpgroup, whose operands have descriptors."""
        return isinstance(self.a if self.exchanged else self.b, Descriptor)

    def proxy(self, field: str) -> str:
        """By which way the operand ``field`` of the statement is accessed: "async" by the unit."""
        return "async" if isinstance(getattr(self, field), Descriptor) else "generic"


def any_layout(buffer: Buffer, wanted: Layout | None) -> Layout | None:
    """What is wanted, where no layouts are known yet."""
    return wanted


def plan_gemm(
    stmt: S.Gemm, group: tuple[int, int], context: Context, layout_of: LayoutOf = any_layout,
    bounds: Bounds | None = None, side: int = LARGE, beside: bool = False,
) -> GemmPlan:  # fmt: skip
    """The plan of ``stmt``.

    Args:
        group: the first of the threads that compute it, and their number.
        layout_of: of shared buffers.
        bounds: of the variables in the indices of its regions.
        side: the most rows of an instruction of a wavefront (see :func:`side_of`).
        beside: whether columns of the result may lie in another order (see :func:`in_any_order`).

    Raises:
        TileTypeError: an operand is in memory of which every thread has its own copy.
        TileUnsupportedError: the sizes of the product are only known at run time.
    """
    _check_memory(stmt)
    m, n = _sizes(stmt.c, stmt)
    threads, why = group[1], ""
    order: dict[str, Any] = dict(stmt.annotations)
    turned = bool(order.get(EXCHANGED))
    if turned:
        stmt, m, n = exchanged(stmt), n, m
    if context.has("wgmma"):
        found = _by_warpgroups(stmt, (m, n), group, layout_of, bounds)
        if isinstance(found, GemmPlan):
            return found
        why = found
    rows, columns = _sizes(stmt.a, stmt)
    k = rows if stmt.trans_a else columns
    kinds, held_factor = (stmt.a.dtype, stmt.b.dtype, stmt.c.dtype), _holds_factor(stmt)
    chained = held_factor and context.has("mfma")
    atom = find_atom(*kinds, k, context.features, chained=chained)
    if atom is None or m % ROW_UNIT or n % atom.n or threads % context.limits.warp:
        held = shared_out(m, n, threads)
        c = _whole(stmt.c, held) or SharedLoad()
        each = SharedElements(dtype=accumulator(stmt.a.dtype, stmt.c.dtype))
        return GemmPlan(None, m, n, k, (0, 0), held, c, each, each, why=why)
    parts = int(order.get(K_PARTS, 1))
    own = threads // parts
    warps = (own // atom.width, 1) if turned else _partition(stmt, m, n, own, atom)
    if m % (side * warps[0]) == 0 and n % (side * warps[1]) == 0:
        atom = find_atom(*kinds, k, context.features, side=side, chained=chained) or atom
    many = _beside(stmt.b, atom, n // warps[1] // atom.n) if beside and not stmt.trans_b else 1
    held = repeated(accumulator_layout(atom, m, n, warps, many), threads)
    run = int(order.get(K_RUN, 1))
    a = repeated(operand_layout(atom, m, k, warps, True, run, parts), threads)
    b = repeated(operand_layout(atom, k, n, warps, False, run, parts), threads)
    load = SharedRuns if run > 1 else SharedLoad
    packed = atom.opaque and context.sparing  # rows without gaps
    left, right = (
        _whole(region, transposed(factor) if across else factor)
        or load(None if packed else _shared_layout(region, inner, atom.opaque))
        for region, factor, across, inner in (
            (stmt.a, a, stmt.trans_a, not stmt.trans_a),
            (stmt.b, b, stmt.trans_b, stmt.trans_b),
        )
    )
    c = _whole(stmt.c, transposed(held) if turned else held, parts) or SharedLoad()
    first, second = (right, left) if turned else (left, right)
    return GemmPlan(atom, m, n, k, warps, held, c, first, second, run, turned, why, many, parts)


def _beside(b: Region, atom: MmaAtom, tiles: int) -> int:
    """How many columns of B a thread loads at once, of as many tiles: what 8 bytes hold at most."""
    if atom.opaque or atom.row == "mma" or not b.buffer.storage.startswith("shared"):
        return 1
    most = BESIDE_BITS // b.dtype.bits
    return max(count for count in _divisors(most) if tiles % count == 0) if most else 1


def in_any_order(
    products: Sequence[tuple[S.Gemm, tuple[int, int]]], context: Context, side: int
) -> frozenset[S.Gemm]:
    """The products of a kernel whose result may have its columns in another order.

    A result that is a factor of another product has to lie as that one asks. So where factors are
    in registers, only the products that use them are free. Products that are added to one tile
    have the same order.
    """
    if not (context.has("mfma") or context.has("wmma")):
        return frozenset()
    held = any(_holds_factor(stmt) for stmt, _ in products)
    orders: dict[E.Var, set[int]] = {}
    for stmt, group in products:
        free = not held or _holds_factor(stmt)
        plan = plan_gemm(stmt, group, context, side=side, beside=free)
        orders.setdefault(stmt.c.buffer.data, set()).add(plan.beside if free else 0)
    return frozenset(
        stmt for stmt, _ in products
        if len(found := orders[stmt.c.buffer.data]) == 1 and max(found) > 1
    )  # fmt: skip


def side_of(products: Sequence[tuple[S.Gemm, tuple[int, int]]], context: Context) -> int:
    """The most rows of an instruction of a wavefront that the products of a kernel use.

    The larger one multiplies as much in a cycle with half as many instructions, each of which reads
    half as many operands for a result. It is used where the tile of a wavefront is a multiple of
    it. Where a product has a factor in registers, as a rule the result of another one, all use the
    larger one or none does: results then lie as factors do.

    Args:
        products: with the first of the threads that compute it, and their number.
    """
    if not context.has("mfma") or not any(_holds_factor(stmt) for stmt, _ in products):
        return LARGE
    plans = [plan_gemm(stmt, group, context) for stmt, group in products]
    return min((plan.atom.m for plan in plans if plan.atom is not None), default=LARGE)


def _holds_factor(stmt: S.Gemm) -> bool:
    return FRAGMENT in (stmt.a.buffer.storage, stmt.b.buffer.storage)


def exchanged(stmt: S.Gemm) -> S.Gemm:
    """The product of the transposed factors in the other order; its result is C transposed."""
    return replace(
        stmt, a=stmt.b, b=stmt.a, trans_a=not stmt.trans_b, trans_b=not stmt.trans_a
    )  # fmt: skip


# -- warpgroups -------------------------------------------------------------------------------
def _by_warpgroups(
    stmt: S.Gemm, size: tuple[int, int], group: tuple[int, int], layout_of: LayoutOf,
    bounds: Bounds | None,
) -> GemmPlan | str:  # fmt: skip
    """The plan of ``stmt`` by instructions of warpgroups, or why there is none.

    Args:
        size: rows and columns of what is computed, which are those of C transposed where the
            factors of ``stmt`` have been exchanged.
    """
    kinds = warpgroup_kinds(stmt.a.dtype, stmt.b.dtype, stmt.c.dtype)
    if kinds is None:
        return f"no wgmma multiplies {stmt.a.dtype} and {stmt.b.dtype} into {stmt.c.dtype}"
    (m, n), (first, threads) = size, group
    rows, columns = _sizes(stmt.a, stmt)
    k = rows if stmt.trans_a else columns
    order: dict[str, Any] = dict(stmt.annotations)
    turned = bool(order.get(EXCHANGED))
    if K_RUN in order:
        return "its weights are in registers in another order of k"
    if first % WARPGROUP or threads % WARPGROUP:
        return f"threads {first} to {first + threads - 1} are no whole warpgroups"
    if k * stmt.a.dtype.bits % 256:
        return f"k = {k} is no multiple of {256 // stmt.a.dtype.bits}"
    policy = GemmWarpPolicy.Square if turned else GemmWarpPolicy(stmt.policy)
    shares = _shares(m, n, threads // WARPGROUP, policy)
    if shares is None:
        return f"{threads // WARPGROUP} warpgroups cannot share a {m} x {n} result"
    b = _described(stmt.b, stmt.trans_b, layout_of, bounds)
    a = _described(stmt.a, not stmt.trans_a, layout_of, bounds)
    if isinstance(b, str):
        return b
    if isinstance(a, str) and stmt.a.buffer.storage != FRAGMENT:
        return a
    if any(region.buffer.data is stmt.c.buffer.data for region in (stmt.a, stmt.b)):
        return f"`{stmt.c.buffer.name}` is the result and an operand"
    if isinstance(a, Descriptor) and not (
        a.k_inner or in_panels(a, stmt.a.mins[-1], m, WARPGROUP_ROWS, bounds, shares[0])
    ):
        return f"rows of `{stmt.a.buffer.name}` leave a panel of {a.span} bytes in its middle"
    for count in wgmma_columns(kinds[2]):
        if (n // shares[1]) % count == 0 and (
            b.k_inner or in_panels(b, stmt.b.mins[-1], n, count, bounds, shares[1])
        ):
            atom = wgmma_atom(count, *kinds)
            return _plan_of_warpgroups(stmt, atom, (m, n, k), shares, a, b, turned)
    return f"columns of `{stmt.b.buffer.name}` leave a panel of {b.span} bytes in its middle"


def _plan_of_warpgroups(
    stmt: S.Gemm, atom: MmaAtom, sizes: tuple[int, int, int], shares: tuple[int, int],
    a: Descriptor | str, b: Descriptor, turned: bool,
) -> GemmPlan | str:  # fmt: skip
    """The plan with the instruction ``atom``; A is in registers where it has no descriptor."""
    m, n, k = sizes
    held = accumulator_layout(atom, m, n, shares)
    first: OperandStrategy | None = a if isinstance(a, Descriptor) else None
    if first is None:
        rows = warpgroup_rows(atom, m, k, shares)
        first = _whole(stmt.a, transposed(rows) if stmt.trans_a else rows)
    if first is None:
        return f"only a part of the fragment `{stmt.a.buffer.name}` is multiplied"
    c = _whole(stmt.c, transposed(held) if turned else held) or SharedLoad()
    left, right = (b, first) if turned else (first, b)
    return GemmPlan(atom, m, n, k, shares, held, c, left, right, exchanged=turned)


def _described(
    region: Region, k_inner: bool, layout_of: LayoutOf, bounds: Bounds | None
) -> Descriptor | str:
    """What describes an operand, or why nothing does."""
    buffer = region.buffer
    if buffer.storage == FRAGMENT:
        return f"`{buffer.name}` is in registers"
    wanted = wanted_layout(buffer)
    layout = layout_of(buffer, wanted)
    if layout is None and wanted is None:
        return f"no swizzle divides the rows of `{buffer.name}`"
    if layout is None:
        return f"no swizzle fits `{buffer.name}` under all its names"
    return descriptor_of(region, layout, k_inner, bounds)


def _shares(m: int, n: int, groups: int, policy: GemmWarpPolicy) -> tuple[int, int] | None:
    """How many of ``groups`` warpgroups share rows and columns of the result: as many rows as
    there are, unless the policy wants columns first."""
    found = [
        (down, groups // down)
        for down in _divisors(groups)
        if m % (WARPGROUP_ROWS * down) == 0 and n % (BLOCK * (groups // down)) == 0
    ]
    columns_first = policy is GemmWarpPolicy.FullCol
    return (min if columns_first else max)(found, default=None)


def warpgroup_rows(atom: MmaAtom, m: int, k: int, shares: tuple[int, int]) -> RegisterLayout:
    """The left factor in registers: for each tile of rows its steps along k, as the results of
    other products have them."""
    down, across = shares
    tiles, steps, registers = m // (down * atom.m), k // atom.k, atom.a_registers
    outer = long_modes(
        Mode(down, "thread", atom.width * across), Mode(tiles, "register", registers * steps)
    )
    inner = long_modes(Mode(steps, "register", registers))
    copies = ((across, atom.width),) if across > 1 else ()
    modes = (outer + atom.a_modes[0], inner + atom.a_modes[1])
    return RegisterLayout((m, k), modes, copies, atom.width * down * across)


# -- sizes and warps --------------------------------------------------------------------------
def _check_memory(stmt: S.Gemm) -> None:
    for region, role in ((stmt.a, "A"), (stmt.b, "B"), (stmt.c, "C")):
        if region.buffer.storage != FRAGMENT and not region.buffer.storage.startswith("shared"):
            raise TileTypeError(
                f"{role} of T.gemm is in {region.buffer.storage} memory",
                expected="a tile made by T.alloc_shared or T.alloc_fragment",
                got=f"`{region.buffer.name}` in {region.buffer.storage} memory",
                hint="allocate it with T.alloc_fragment, or copy it into a fragment first",
                loc=stmt.loc,
            )


def _sizes(region: Region, stmt: S.Gemm) -> tuple[int, int]:
    rows, columns = region.extents[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        raise TileUnsupportedError(
            "T.gemm of a tile whose size is only known at run time",
            expected="constant extents",
            got=f"`{region!r}`",
            hint="multiply whole tiles, with zeros where they reach beyond the matrix",
            loc=stmt.loc,
        )
    return rows, columns


def _partition(stmt: S.Gemm, m: int, n: int, threads: int, atom: MmaAtom) -> tuple[int, int]:
    """Warps along rows and columns. Where not all of them get a part of their own, as many as can
    share the result do, and the others compute the same once more."""
    warps = threads // atom.width
    sharing = max(count for count in _divisors(warps) if _partitions(m, n, count, atom.n))
    return GemmWarpPolicy(stmt.policy).compute_warp_partition(m, n, sharing, n_unit=atom.n)


def _partitions(m: int, n: int, warps: int, unit: int) -> bool:
    """Whether some partition over ``warps`` warps is valid."""
    return any(
        m % (ROW_UNIT * rows) == 0 and n % (unit * (warps // rows)) == 0
        for rows in _divisors(warps)
    )


# -- registers --------------------------------------------------------------------------------
def accumulator_layout(
    atom: MmaAtom, m: int, n: int, warps: tuple[int, int], beside: int = 1
) -> RegisterLayout:
    """The result: tiles of the instruction row by row, warps along the columns first; ``beside`` of
    them have its columns in turn."""
    down, across = warps
    rows, columns = m // (down * atom.m), n // (across * atom.n)
    registers = atom.c_registers
    return RegisterLayout(
        (m, n),
        (
            long_modes(
                Mode(down, "thread", atom.width * across),
                Mode(rows, "register", registers * columns),
            )
            + atom.c_modes[0],
            long_modes(
                Mode(across, "thread", atom.width),
                Mode(columns // beside, "register", registers * beside),
            )
            + atom.c_modes[1]
            + long_modes(Mode(beside, "register", registers)),
        ),
        (),
        atom.width * down * across,
    )


def operand_layout(
    atom: MmaAtom, rows: int, columns: int, warps: tuple[int, int], left: bool, run: int = 1,
    parts: int = 1,
) -> RegisterLayout:  # fmt: skip
    """The left (m x k) or right (k x n) factor: for each step along k the tiles of the warp.

    Every warp holds all of its part of k; warps that share rows (columns) of the result hold the
    same.

    Args:
        run: steps in which a thread has neighbours along k. The registers of a step are those of
            the instruction, for other k than its figures say, the same for both factors.
        parts: groups of warps that have a part of k each, one after the other.
    """
    down, across = warps
    apart = long_modes(Mode(parts, "thread", atom.width * down * across))
    if left:
        tiles, registers = rows // (down * atom.m), atom.a_registers
        steps = columns // (atom.k * parts)
        outer = long_modes(
            Mode(down, "thread", atom.width * across), Mode(tiles, "register", registers)
        )
        inner = apart + _along_k(atom.a_modes[1], steps, registers * tiles, run)
        modes = (outer + atom.a_modes[0], inner)
        copies = atom.copies + (((across, atom.width),) if across > 1 else ())
    else:
        tiles, registers = columns // (across * atom.n), atom.b_registers
        steps = rows // (atom.k * parts)
        outer = long_modes(Mode(across, "thread", atom.width), Mode(tiles, "register", registers))
        inner = apart + _along_k(atom.b_modes[0], steps, registers * tiles, run)
        modes = (inner, outer + atom.b_modes[1])
        copies = atom.copies + (((down, atom.width * across),) if down > 1 else ())
    return RegisterLayout((rows, columns), modes, copies, atom.width * down * across * parts)


def _along_k(own: Modes, steps: int, stride: int, run: int) -> Modes:
    """Modes of k: ``steps`` of the instruction, whose own modes are ``own``."""
    if run == 1:
        return long_modes(Mode(steps, "register", stride)) + own
    threads = next(mode for mode in own if mode.place == "thread")
    registers = tuple(mode for mode in own if mode.place == "register")
    groups = Mode(steps // run, "register", stride * run)
    return long_modes(groups, threads, Mode(run, "register", stride)) + registers


def repeated(held: RegisterLayout, threads: int) -> RegisterLayout:
    """The same in each group of as many of the ``threads`` as hold it."""
    if held.threads == threads:
        return held
    copies = (threads // held.threads, held.threads)
    return RegisterLayout(held.shape, held.modes, (*held.replicas, copies), threads)


def transposed(held: RegisterLayout) -> RegisterLayout:
    """The same elements with the two indices exchanged."""
    return RegisterLayout(held.shape[::-1], held.modes[::-1], held.replicas, held.threads)


def shared_out(m: int, n: int, threads: int) -> RegisterLayout:
    """An m x n result over threads that each compute rows times columns with strides.

    The fewest registers win, then the fewest loads of factors, then threads along the columns.
    """
    best: tuple[tuple[int, int, int], int, int] | None = None
    for across in _divisors(threads) if n > 1 else (1,):
        for down in _divisors(threads // across) if m > 1 else (1,):
            rows, columns = -(-m // down), -(-n // across)
            key = (rows * columns, rows + columns, -across)
            if best is None or key < best[0]:
                best = key, down, across
    assert best is not None
    _, down, across = best
    rows, columns = -(-m // down), -(-n // across)
    left = threads // (down * across)
    return RegisterLayout(
        (m, n),
        (
            long_modes(Mode(rows, "register", columns), Mode(down, "thread", across)),
            long_modes(Mode(columns, "register", 1), Mode(across, "thread", 1)),
        ),
        ((left, down * across),) if left > 1 else (),
        threads,
    )


def _own(held: RegisterLayout, dim: int) -> int:
    """How many rows or columns a thread has of what :func:`shared_out` spreads."""
    return next((mode.extent for mode in held.modes[dim] if mode.place == "register"), 1)


def _divisors(number: int) -> list[int]:
    return [count for count in range(1, number + 1) if number % count == 0]


def _whole(region: Region, held: RegisterLayout, parts: int = 1) -> Registers | None:
    """``held`` for the buffer of ``region``, if that is a fragment used as a whole; with several
    ``parts`` for a buffer of as many matrices, one for each copy that ``held`` has."""
    if region.buffer.storage != FRAGMENT or not region.is_whole:
        return None
    shape = tuple(extent for extent in region.buffer.shape if isinstance(extent, int))
    if parts > 1:
        modes = ((Mode(parts, "thread", held.threads // parts),), *held.modes)
        return Registers(RegisterLayout(shape, modes, held.replicas[:-1], held.threads))
    lead = len(shape) - 2
    spread = RegisterLayout(shape, ((),) * lead + held.modes, held.replicas, held.threads)
    return Registers(spread)


# -- shared memory ----------------------------------------------------------------------------
@dataclass(frozen=True)
class _Matrix:
    """What the layout constructors ask of a buffer."""

    shape: tuple[int, int]
    dtype: str


def _shared_layout(region: Region, k_inner: bool, by_rows: bool) -> Layout | None:
    """The layout wanted of the last two dimensions of a shared factor.

    Chunks of 16 bytes of eight neighbouring rows lie in different banks, as ldmatrix and 16-byte
    copies like it. A factor of 8 bits or less that is contiguous along m or n is read byte by byte
    down its columns, for which rows one after the other with a gap are better. With
    ``by_rows`` the
    instruction loads matrices from rows of one distance.
    """
    buffer = region.buffer
    if not buffer.storage.startswith("shared"):
        return None
    rows, columns = buffer.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        return None
    matrix = _Matrix((rows, columns), str(buffer.dtype))
    if by_rows or (buffer.dtype.bits <= 8 and not k_inner):
        chunked = columns * buffer.dtype.bits % CHUNK_BITS == 0
        return make_padded_layout(matrix) if chunked else None
    return make_swizzled_layout(matrix)
