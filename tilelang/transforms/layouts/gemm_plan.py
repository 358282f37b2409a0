"""GEMM plans, with instruction selection: the instruction, warps and operand layouts of a product.

The plan of a ``Gemm`` follows from the statement, the number of threads and the target. Layout
inference attaches it to the statement, where lowering and reports read it.

With a matrix instruction the result is divided into one tile per warp, and each of these into tiles
of the instruction. Operands in shared memory get rows swizzled in chunks of 16 bytes, operands in
fragments the register layout of the instruction. Where no instruction fits the dtype, the
architecture, the sizes or the thread count, every thread computes a part of the result with scalar
multiplications.

Where the target has ``wgmma``, it comes first: the tensor core reads operands from shared memory,
and only A may be in registers. Operands that it cannot read (see
:mod:`tilelang.transforms.layouts.descriptors`) are multiplied by warps; the plan has the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field, replace
from math import gcd, prod
from typing import Any, TypeAlias

from tilelang.errors import TileTypeError, TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.layout.layout import Layout
from tilelang.layout.policy import GemmWarpPolicy
from tilelang.layout.register_layout import Mode, RegisterLayout, long_modes
from tilelang.layout.swizzle import make_padded_layout, make_swizzled_layout
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.target.atoms import LARGE, find_atom, warpgroup_atoms, warpgroup_kinds
from tilelang.target.matrices import BLOCK, WARPGROUP, MmaAtom, Modes
from tilelang.transforms.analysis.combine import accumulator
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.layouts import descriptors

ROW_UNIT = 16  # rows of a warp's tile are a multiple of it
WARPGROUP_ROWS = 64  # rows of an instruction of a warpgroup
CHUNK_BITS = 128
INTERLEAVED_BITS = 64  # 32 lanes then read from each bank twice, in sequence


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
    """An operand in shared memory, loaded in runs along k like the register operand."""


@dataclass(frozen=True)
class SharedElements(SharedLoad):
    """An operand in shared memory; each thread loads the elements that it multiplies.

    Attributes:
        dtype: of the accumulator, to which they are converted.
    """

    dtype: DType = field(kw_only=True)


OperandStrategy: TypeAlias = "Registers | SharedLoad | descriptors.Descriptor"
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
        sum: layout of the accumulator, of shape (m, n).
        c, a, b: how the threads get the operands.
        run: steps of the instruction in which a thread multiplies neighbours along k; 1 for the
            instruction's own order.
        interleave: neighbouring columns of B, contiguous along n, that a thread loads at once. Each
            is of another tile of the instruction: neighbours of the result are in different tiles.
        swapped: whether C^T = B^T A^T is computed instead. Then m and n are those of C^T, and so
            are the warps and the sum; c, a and b are still the layouts of C, A and B.
        why: why wgmma does not compute it, on targets that have it.
        k_slices: groups of warps that split k. Each adds up its part; C has as many matrices.
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
    swapped: bool = False
    why: str = ""
    interleave: int = 1
    k_slices: int = 1

    @property
    def tiles(self) -> tuple[int, int, int]:
        """Tiles of the instruction in the tile of a warp (warpgroup): along rows, columns and k.
        Without an instruction elements in the part of a thread."""
        if self.atom is None:
            return _elements_per_thread(self.sum, 0), _elements_per_thread(self.sum, 1), self.k
        rows, columns = self.m // self.warps[0], self.n // self.warps[1]
        return rows // self.atom.m, columns // self.atom.n, self.k // (self.atom.k * self.k_slices)

    @property
    def copies(self) -> int:
        """The number of times that the result is computed, each time by other warps."""
        if self.atom is None:
            return 1
        return self.sum.threads // (self.atom.width * prod(self.warps) * self.k_slices)

    @property
    def dtype(self) -> DType:
        """The dtype in which products are added up."""
        if self.atom is not None:
            return self.atom.c
        assert isinstance(self.a, SharedElements)
        return self.a.dtype

    def operands(self, stmt: S.Gemm) -> tuple[tuple[Region, OperandStrategy], ...]:
        """The result and the operands of ``stmt``, and where each is."""
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
        """The name of the instruction, for reports."""
        if self.atom is None:
            return "fma"
        row = {"mma": "mma.sync"}.get(self.atom.row, self.atom.row)
        family = "wgmma" if self.uses_wgmma else row
        return f"{family}.{self.atom.shape}.{self.atom.a}"

    @property
    def uses_wgmma(self) -> bool:
        """Whether the instruction is one of a warpgroup, whose operands have descriptors."""
        return isinstance(self.a if self.swapped else self.b, descriptors.Descriptor)

    def proxy(self, field: str) -> str:
        """The proxy by which the operand ``field`` is accessed: "async" by the tensor core."""
        return "async" if isinstance(getattr(self, field), descriptors.Descriptor) else "generic"


def plan_gemm(
    stmt: S.Gemm, group: tuple[int, int], context: Context,
    layout_of: LayoutOf = lambda _, default: default, bounds: Bounds | None = None,
    side: int = LARGE, interleave: bool = False,
) -> GemmPlan:  # fmt: skip
    """The plan of ``stmt``.

    Args:
        group: the first of the threads that compute it, and their number.
        layout_of: of shared buffers.
        bounds: of the variables in the indices of its regions.
        side: the most rows of an instruction of a wavefront (see :func:`max_mma_rows`).
        interleave: whether the columns of the result may have another order (see
            :func:`free_column_order`).

    Raises:
        TileTypeError: an operand is in thread-private memory.
        TileUnsupportedError: the sizes of the product are not constant.
    """
    _check_memory(stmt)
    m, n = _sizes(stmt.c, stmt)
    threads, why = group[1], ""
    order, swapped = stmt.hints, stmt.hints.swapped
    if swapped:
        stmt, m, n = swap_operands(stmt), n, m
    if context.has("wgmma"):
        plan = _by_warpgroups(stmt, (m, n), group, layout_of, bounds)
        if isinstance(plan, GemmPlan):
            return plan
        why = plan
    rows, columns = _sizes(stmt.a, stmt)
    k = rows if stmt.trans_a else columns
    kinds, held_factor = (stmt.a.dtype, stmt.b.dtype, stmt.c.dtype), _has_register_operand(stmt)
    chained = held_factor and context.has("mfma")
    atom = find_atom(*kinds, k, context.features, chained=chained)
    if atom is None or m % ROW_UNIT or n % atom.n or threads % context.limits.warp:
        result = scalar_layout(m, n, threads)
        c = _whole_fragment(stmt.c, transpose(result) if swapped else result) or SharedLoad()
        each = SharedElements(dtype=accumulator(stmt.a.dtype, stmt.c.dtype))
        return GemmPlan(None, m, n, k, (0, 0), result, c, each, each, why=why)
    slices, run = order.k_slices, order.k_run
    own = threads // slices
    warps = _partition(stmt, m, n, own, atom)
    if swapped:  # each row of tiles by one warp
        warps = gcd(m // atom.m, own // atom.width), 1
    if m % (side * warps[0]) == 0 and n % (side * warps[1]) == 0:
        atom = find_atom(*kinds, k, context.features, side=side, chained=chained) or atom
    step = (
        _interleave(stmt.b, atom, n // warps[1] // atom.n) if interleave and not stmt.trans_b else 1
    )
    result = repeated(accumulator_layout(atom, m, n, warps, step), threads)
    a = repeated(operand_layout(atom, m, k, warps, True, run, slices), threads)
    b = repeated(operand_layout(atom, k, n, warps, False, run, slices), threads)
    load = SharedRuns if run > 1 else SharedLoad
    packed = atom.opaque and context.saves_shared  # rows without gaps
    a_strategy, right = (
        _whole_fragment(region, transpose(factor) if across else factor)
        or load(None if packed else _shared_layout(region, inner, atom.opaque))
        for region, factor, across, inner in (
            (stmt.a, a, stmt.trans_a, not stmt.trans_a),
            (stmt.b, b, stmt.trans_b, stmt.trans_b),
        )
    )
    c = _whole_fragment(stmt.c, transpose(result) if swapped else result, slices) or SharedLoad()
    first, second = (right, a_strategy) if swapped else (a_strategy, right)
    return GemmPlan(atom, m, n, k, warps, result, c, first, second, run, swapped, why, step, slices)


def _interleave(b: Region, atom: MmaAtom, tiles: int) -> int:
    """The number of columns of B that a thread loads at once, of as many tiles: at most 8 bytes."""
    if atom.opaque or atom.row == "mma" or not b.buffer.storage.startswith("shared"):
        return 1
    limit = INTERLEAVED_BITS // b.dtype.bits
    return max(count for count in _divisors(limit) if tiles % count == 0) if limit else 1


def free_column_order(
    products: Sequence[tuple[S.Gemm, tuple[int, int]]], context: Context, side: int
) -> frozenset[S.Gemm]:
    """The products of a kernel whose result may have its columns in another order.

    A result that is an operand of another product needs the layout of that operand. So where
    operands are in registers, only the products that use them are free. Products that accumulate
    into one tile have the same order.
    """
    if not context.has("column_order"):
        return frozenset()
    held_in_registers = any(_has_register_operand(stmt) for stmt, _ in products)
    orders: dict[E.Var, set[int]] = {}
    for stmt, group in products:
        free = not held_in_registers or _has_register_operand(stmt)
        plan = plan_gemm(stmt, group, context, side=side, interleave=free)
        orders.setdefault(stmt.c.buffer.data, set()).add(plan.interleave if free else 0)
    return frozenset(
        stmt for stmt, _ in products
        if len(counts := orders[stmt.c.buffer.data]) == 1 and max(counts) > 1
    )  # fmt: skip


def max_mma_rows(products: Sequence[tuple[S.Gemm, tuple[int, int]]], context: Context) -> int:
    """The largest number of rows (M) of the MFMA instructions of a kernel.

    The larger instruction has the same throughput with half as many instructions, each of which
    reads half as many operands for a result. It is used if the tile of a wavefront is a multiple of
    it. If a product has an operand in registers, usually the result of another product, all
    products use the larger instruction or none does, so that results have the layout of operands.

    Args:
        products: each with its first thread and its number of threads.
    """
    if not context.has("mfma") or not any(_has_register_operand(stmt) for stmt, _ in products):
        return LARGE
    plans = [plan_gemm(stmt, group, context) for stmt, group in products]
    return min((plan.atom.m for plan in plans if plan.atom is not None), default=LARGE)


def _has_register_operand(stmt: S.Gemm) -> bool:
    return FRAGMENT in (stmt.a.buffer.storage, stmt.b.buffer.storage)


def swap_operands(stmt: S.Gemm) -> S.Gemm:
    """The product with swapped operands, ``C^T = B^T A^T``."""
    return replace(
        stmt, a=stmt.b, b=stmt.a, trans_a=not stmt.trans_b, trans_b=not stmt.trans_a
    )  # fmt: skip


# -- warpgroups -------------------------------------------------------------------------------
def _by_warpgroups(
    stmt: S.Gemm, size: tuple[int, int], group: tuple[int, int], layout_of: LayoutOf,
    bounds: Bounds | None,
) -> GemmPlan | str:  # fmt: skip
    """The plan of ``stmt`` by wgmma, or the reason why there is none.

    Args:
        size: rows and columns of the computed matrix: those of C transposed if the operands of
            ``stmt`` have been swapped.
    """
    kinds = warpgroup_kinds(stmt.a.dtype, stmt.b.dtype, stmt.c.dtype)
    if kinds is None:
        return f"no wgmma multiplies {stmt.a.dtype} and {stmt.b.dtype} into {stmt.c.dtype}"
    (m, n), (first, threads) = size, group
    rows, columns = _sizes(stmt.a, stmt)
    k = rows if stmt.trans_a else columns
    swapped = stmt.hints.swapped
    if stmt.hints.k_run > 1:
        return "its operand is in registers in a permuted order of k"
    if first % WARPGROUP or threads % WARPGROUP:
        return f"threads {first} to {first + threads - 1} are not whole warpgroups"
    if k * stmt.a.dtype.bits % 256:
        return f"k = {k} is not a multiple of {256 // stmt.a.dtype.bits}"
    policy = GemmWarpPolicy.Square if swapped else GemmWarpPolicy(stmt.policy)
    shares = _shares(m, n, threads // WARPGROUP, policy)
    if shares is None:
        return f"a {m} x {n} result is not a multiple of {WARPGROUP_ROWS} x {BLOCK} per warpgroup"
    b = _descriptor(stmt.b, stmt.trans_b, layout_of, bounds)
    a = _descriptor(stmt.a, not stmt.trans_a, layout_of, bounds)
    if isinstance(b, str):
        return b
    if isinstance(a, str) and stmt.a.buffer.storage != FRAGMENT:
        return a
    if any(region.buffer.data is stmt.c.buffer.data for region in (stmt.a, stmt.b)):
        return f"`{stmt.c.buffer.name}` is the result and an operand"
    if isinstance(a, descriptors.Descriptor) and not (
        a.k_inner
        or descriptors.covers_panels(a, stmt.a.mins[-1], m, WARPGROUP_ROWS, bounds, shares[0])
    ):
        return f"rows of `{stmt.a.buffer.name}` end inside a panel of {a.span} bytes"
    for atom in warpgroup_atoms(kinds):
        if (n // shares[1]) % atom.n == 0 and (
            b.k_inner or descriptors.covers_panels(b, stmt.b.mins[-1], n, atom.n, bounds, shares[1])
        ):
            return _plan_of_warpgroups(stmt, atom, (m, n, k), shares, a, b, swapped)
    return f"columns of `{stmt.b.buffer.name}` end inside a panel of {b.span} bytes"


def _plan_of_warpgroups(
    stmt: S.Gemm, atom: MmaAtom, sizes: tuple[int, int, int], shares: tuple[int, int],
    a: descriptors.Descriptor | str, b: descriptors.Descriptor, swapped: bool,
) -> GemmPlan | str:  # fmt: skip
    """The plan with the instruction ``atom``; A is in registers where it has no descriptor."""
    m, n, k = sizes
    result = accumulator_layout(atom, m, n, shares)
    first: OperandStrategy | None = a if isinstance(a, descriptors.Descriptor) else None
    if first is None:
        rows = warpgroup_rows(atom, m, k, shares)
        first = _whole_fragment(stmt.a, transpose(rows) if stmt.trans_a else rows)
    if first is None:
        return f"only a part of the fragment `{stmt.a.buffer.name}` is multiplied"
    c = _whole_fragment(stmt.c, transpose(result) if swapped else result) or SharedLoad()
    left, right = (b, first) if swapped else (first, b)
    return GemmPlan(atom, m, n, k, shares, result, c, left, right, swapped=swapped)


def _descriptor(
    region: Region, k_inner: bool, layout_of: LayoutOf, bounds: Bounds | None
) -> descriptors.Descriptor | str:
    """The descriptor of an operand, or why there is none."""
    buffer = region.buffer
    if buffer.storage == FRAGMENT:
        return f"`{buffer.name}` is in registers"
    default = descriptors.wanted_layout(buffer)
    layout = layout_of(buffer, default)
    if layout is None and default is None:
        return f"no swizzle divides the rows of `{buffer.name}`"
    if layout is None:
        return f"no swizzle fits all views of `{buffer.name}`"
    return descriptors.descriptor_of(region, layout, k_inner, bounds)


def _shares(m: int, n: int, groups: int, policy: GemmWarpPolicy) -> tuple[int, int] | None:
    """The numbers of ``groups`` warpgroups along rows and columns of the result: as many rows as
    there are, unless the policy wants columns first."""
    splits = [
        (down, groups // down)
        for down in _divisors(groups)
        if m % (WARPGROUP_ROWS * down) == 0 and n % (BLOCK * (groups // down)) == 0
    ]
    return (min if policy is GemmWarpPolicy.FullCol else max)(splits, default=None)


def warpgroup_rows(atom: MmaAtom, m: int, k: int, shares: tuple[int, int]) -> RegisterLayout:
    """The left operand in registers: for each tile of rows its steps along k, in the layout of the
    results of other products."""
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
    """Warps along rows and columns. If the result cannot be divided among all warps, the remaining
    warps repeat the work of others."""
    warps = threads // atom.width
    sharing = max(count for count in _divisors(warps) if _has_partition(m, n, count, atom.n))
    return GemmWarpPolicy(stmt.policy).compute_warp_partition(m, n, sharing, n_unit=atom.n)


def _has_partition(m: int, n: int, warps: int, unit: int) -> bool:
    """Whether some partition over ``warps`` warps is valid."""
    return any(
        m % (ROW_UNIT * rows) == 0 and n % (unit * (warps // rows)) == 0
        for rows in _divisors(warps)
    )


# -- registers --------------------------------------------------------------------------------
def accumulator_layout(
    atom: MmaAtom, m: int, n: int, warps: tuple[int, int], interleave: int = 1
) -> RegisterLayout:
    """The result: tiles of the instruction row by row, warps along the columns first; the columns
    of ``interleave`` tiles alternate."""
    down, across = warps
    rows, columns = m // (down * atom.m), n // (across * atom.n)
    registers = atom.c_registers
    outer = long_modes(
        Mode(down, "thread", atom.width * across), Mode(rows, "register", registers * columns)
    )
    inner = long_modes(
        Mode(across, "thread", atom.width),
        Mode(columns // interleave, "register", registers * interleave),
    )
    neighbours = long_modes(Mode(interleave, "register", registers))
    modes = (outer + atom.c_modes[0], inner + atom.c_modes[1] + neighbours)
    return RegisterLayout((m, n), modes, (), atom.width * down * across)


def operand_layout(
    atom: MmaAtom, rows: int, columns: int, warps: tuple[int, int], is_a: bool, run: int = 1,
    slices: int = 1,
) -> RegisterLayout:  # fmt: skip
    """The left (m x k) or right (k x n) operand: for each step along k the tiles of the warp.

    Every warp holds all of its part of k; warps that share rows (columns) of the result hold the
    same.

    Args:
        run: steps over which the elements of a thread are contiguous along k. The registers of a
            step hold a permutation of k, the same for both operands.
        k_slices: groups of warps, each of which has a contiguous part of k.
    """
    down, across = warps
    slice_modes = long_modes(Mode(slices, "thread", atom.width * down * across))
    if is_a:
        tiles, registers = rows // (down * atom.m), atom.a_registers
        steps = columns // (atom.k * slices)
        outer = long_modes(
            Mode(down, "thread", atom.width * across), Mode(tiles, "register", registers)
        )
        inner = slice_modes + _along_k(atom.a_modes[1], steps, registers * tiles, run)
        modes = (outer + atom.a_modes[0], inner)
        copies = atom.copies + (((across, atom.width),) if across > 1 else ())
    else:
        tiles, registers = columns // (across * atom.n), atom.b_registers
        steps = rows // (atom.k * slices)
        outer = long_modes(Mode(across, "thread", atom.width), Mode(tiles, "register", registers))
        inner = slice_modes + _along_k(atom.b_modes[0], steps, registers * tiles, run)
        modes = (inner, outer + atom.b_modes[1])
        copies = atom.copies + (((down, atom.width * across),) if down > 1 else ())
    return RegisterLayout((rows, columns), modes, copies, atom.width * down * across * slices)


def _along_k(own: Modes, steps: int, stride: int, run: int) -> Modes:
    """Modes of k: ``steps`` of the instruction, whose own modes are ``own``."""
    if run == 1:
        return long_modes(Mode(steps, "register", stride)) + own
    threads = next(mode for mode in own if mode.kind == "thread")
    registers = tuple(mode for mode in own if mode.kind == "register")
    groups = Mode(steps // run, "register", stride * run)
    return long_modes(groups, threads, Mode(run, "register", stride)) + registers


def repeated(layout: RegisterLayout, threads: int) -> RegisterLayout:
    """The same in each group of as many of the ``threads`` as hold it."""
    if layout.threads == threads:
        return layout
    copies = (threads // layout.threads, layout.threads)
    return RegisterLayout(layout.shape, layout.modes, (*layout.replicas, copies), threads)


def transpose(layout: RegisterLayout) -> RegisterLayout:
    """The same elements with the two indices swapped."""
    return RegisterLayout(layout.shape[::-1], layout.modes[::-1], layout.replicas, layout.threads)


def scalar_layout(m: int, n: int, threads: int) -> RegisterLayout:
    """An m x n result over threads that each compute rows times columns with strides.

    The fewest registers win, then the fewest operand loads, then the most threads along columns.
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
    remaining = threads // (down * across)
    outer = long_modes(Mode(rows, "register", columns), Mode(down, "thread", across))
    inner = long_modes(Mode(columns, "register", 1), Mode(across, "thread", 1))
    copies = ((remaining, down * across),) if remaining > 1 else ()
    return RegisterLayout((m, n), (outer, inner), copies, threads)


def _elements_per_thread(layout: RegisterLayout, dim: int) -> int:
    """The number of rows or columns of a thread in a layout of :func:`scalar_layout`."""
    return next((mode.extent for mode in layout.modes[dim] if mode.kind == "register"), 1)


def _divisors(number: int) -> list[int]:
    return [count for count in range(1, number + 1) if number % count == 0]


def _whole_fragment(region: Region, layout: RegisterLayout, slices: int = 1) -> Registers | None:
    """``layout`` for the buffer of ``region``, if that is a fragment used as a whole; with several
    ``slices`` for a buffer of as many matrices, one for each copy that ``layout`` has."""
    if region.buffer.storage != FRAGMENT or not region.is_whole:
        return None
    shape = tuple(extent for extent in region.buffer.shape if isinstance(extent, int))
    if slices > 1:
        modes = ((Mode(slices, "thread", layout.threads // slices),), *layout.modes)
        return Registers(RegisterLayout(shape, modes, layout.replicas[:-1], layout.threads))
    lead = len(shape) - 2
    spread = RegisterLayout(shape, ((),) * lead + layout.modes, layout.replicas, layout.threads)
    return Registers(spread)


# -- shared memory ----------------------------------------------------------------------------
@dataclass(frozen=True)
class _Matrix:
    """The interface of a buffer to the layout constructors."""

    shape: tuple[int, int]
    dtype: str


def _shared_layout(region: Region, k_inner: bool, by_rows: bool) -> Layout | None:
    """The preferred layout of the last two dimensions of a shared operand.

    A swizzle puts 16-byte chunks of eight neighbouring rows into different banks, which ldmatrix
    and 16-byte copies need. An operand of 8 bits or less that is contiguous along m or n is read
    byte by byte along its columns, so padded rows are better. With ``by_rows``, the instruction
    loads matrices whose rows have a constant stride.
    """
    buffer = region.buffer
    if not buffer.storage.startswith("shared"):
        return None
    rows, columns = buffer.shape[-2:]
    if not isinstance(rows, int) or not isinstance(columns, int):
        return None
    matrix = _Matrix((rows, columns), str(buffer.dtype))
    if by_rows or (buffer.dtype.bits <= 8 and not k_inner):
        return make_padded_layout(matrix) if columns * buffer.dtype.bits % CHUNK_BITS == 0 else None
    return make_swizzled_layout(matrix)
