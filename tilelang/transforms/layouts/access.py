"""The register of a fragment that each iteration of a parallel loop accesses, by tables.

A loop and a fragment are each distributed by a :class:`RegisterLayout`. The access is local if each
thread that runs an iteration holds the element that the iteration accesses, in a register that is
the same for all threads. Both are decided by evaluating the indices for every thread and register.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from math import gcd, prod
from typing import Any, TypeAlias

import numpy as np

from tilelang.errors import TileUnsupportedError
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.linear import parted
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import substitute
from tilelang.layout.evaluate import Array, evaluate
from tilelang.layout.register_layout import Mode, RegisterLayout, fit_modes, long_modes, split_modes
from tilelang.records import dataclass
from tilelang.transforms.analysis.loops import values_of
from tilelang.transforms.analysis.scopes import MOST_ELEMENTS

Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"


@dataclass(frozen=True)
class Access:
    """One access in a loop body, where an element of a buffer is read, written or updated.

    ``inner`` are the loops of constant extent between the parallel loop and the access.
    """

    buffer: Buffer
    indices: tuple[E.Expr, ...]
    kind: str  # "read", "write", "update"
    inner: tuple[tuple[E.Var, int, int], ...] = ()  # variable, start, extent

    @property
    def inner_count(self) -> int:
        """Iterations of those loops of ``inner`` that the indices name."""
        return prod(extent for var, _, extent in self.inner if _depends_on(self.indices, var))


def accesses(loop: S.Parallel) -> Iterator[Access]:
    """Every access of the body of ``loop``, with index variables of lets replaced."""
    yield from _accesses(loop.body, (), {})


def writes(stmt: S.Stmt, buffer: Buffer) -> bool:
    """Whether ``stmt``, or anything in it, may write under the name ``buffer``."""
    touched = effects.accesses(stmt, nested=True)
    return any(access.buffer is buffer and access.writes for access in touched)


def _accesses(
    stmt: S.Stmt, inner: tuple[tuple[E.Var, int, int], ...], lets: dict[E.Var, E.Expr]
) -> Iterator[Access]:
    for access in effects.accesses(stmt):
        if access.mode != effects.NAME:
            # Behind an address there may be more than the element.
            kind = access.mode if access.kind is effects.Kind.PLAIN else effects.UPDATE
            indices = tuple(substitute(index, lets) for index in access.indices)
            yield Access(access.buffer, indices, kind, inner)
    if isinstance(stmt, S.Let) and (stmt.value.dtype.is_integer or stmt.value.dtype.is_bool):
        lets[stmt.var] = substitute(stmt.value, lets)
    elif isinstance(stmt, S.For):
        inner = (*inner, constant_loop(stmt))
    for block in stmt.blocks():
        yield from _accesses(block, inner, lets if isinstance(stmt, S.Seq) else dict(lets))


def constant_loop(stmt: S.For) -> tuple[E.Var, int, int]:
    """(variable, start, extent); extent 0 when the loop is not counted by constants."""
    values = values_of(stmt)
    if values is None or values.step != 1:
        return stmt.var, 0, 0
    return stmt.var, values.start, len(values)


@dataclass(frozen=True)
class Registers:
    """The register of a fragment that an access uses, as modes of the register number.

    ``modes`` describe ``register * inner + k`` where k counts the inner loops in row-major order.
    """

    base: int
    modes: tuple[Mode, ...]
    inner: tuple[tuple[E.Var, int, int], ...]

    def expr(self, register: E.Expr) -> E.Expr:
        """The register of the fragment for a register of the loop."""
        flat = register
        for var, start, extent in self.inner:
            step = E.binary("sub", var, E.const(start))
            flat = E.binary("add", E.binary("mul", flat, E.const(extent)), step)
        total: E.Expr = E.const(self.base)
        below = 1
        for position, mode in reversed(list(enumerate(self.modes))):
            value = E.binary("floordiv", flat, E.const(below)) if below > 1 else flat
            if position > 0:
                value = E.binary("floormod", value, E.const(mode.extent))
            total = E.binary("add", total, E.binary("mul", value, E.const(mode.stride)))
            below *= mode.extent
        return total


def registers_of(
    access: Access, layout: RegisterLayout, loop: S.Parallel, spread: RegisterLayout
) -> Registers | None:
    """The registers that the access uses when ``spread`` shares out the loop; None if some
    iteration would need an element of another thread, or a register that differs by thread.

    What is written has to be written by every thread that holds a copy. The threads of an
    iteration are among the holders, so it is enough that there are as many.
    """
    if sets_all_copies(access) and spread.replication != layout.replication:
        return None
    if any(extent == 0 for _, _, extent in access.inner):
        return None
    inner = tuple(span for span in access.inner if _depends_on(access.indices, span[0]))
    # The analysis runs again when the operation is lowered, on a loop with new variables.
    count = len(loop.vars)
    names = placeholders(count + len(inner))
    values: dict[E.Var, E.Expr] = dict(zip((*loop.vars, *(var for var, _, _ in inner)), names))
    indices = tuple(substitute(index, values) for index in access.indices)
    ends = tuple((start, extent) for _, start, extent in inner)
    result = _registers(indices, count, ends, layout, spread)
    return None if result is None else replace(result, inner=inner)


@lru_cache(maxsize=64)
def placeholders(count: int) -> tuple[E.Var, ...]:
    """Placeholder variables for those of any loop."""
    return tuple(E.Var(f"i{number}", DType("int32")) for number in range(count))


@lru_cache(maxsize=512)
def _registers(
    indices: tuple[E.Expr, ...], loops: int, ends: tuple[tuple[int, int], ...],
    layout: RegisterLayout, spread: RegisterLayout,
) -> Registers | None:  # fmt: skip
    """:func:`registers_of` for an access by placeholders: of the loop, then of inner loops."""
    names = placeholders(loops + len(ends))
    inner = tuple((var, *end) for var, end in zip(names[loops:], ends))
    points = spread.index_table()  # (threads, registers, dims)
    count = int(np.prod([extent for _, _, extent in inner], dtype=np.int64))
    if points.shape[0] * points.shape[1] * count > MOST_ELEMENTS:
        return None
    axes = len(inner)
    values: dict[E.Var, Array] = {
        var: points[..., dim].reshape(*points.shape[:2], *(1,) * axes)
        for dim, var in enumerate(names[:loops])
    }
    for position, (var, start, extent) in enumerate(inner):
        shape = [1] * (2 + axes)
        shape[2 + position] = extent
        values[var] = (start + np.arange(extent)).reshape(shape)
    if points.shape[-1]:
        exists = points[..., 0] >= 0
    else:
        exists = np.zeros(points.shape[:2], bool)
        exists[spread.owner_table().reshape(-1)] = True
    full = (*points.shape[:2], *(extent for _, _, extent in inner))
    exists = np.broadcast_to(exists.reshape(*points.shape[:2], *(1,) * axes), full)
    numbers = _registers_of(indices, values, full, layout, exists)
    if numbers is None:
        return None
    return _fitted(numbers.reshape(points.shape[0], -1), exists.reshape(points.shape[0], -1), inner)


def _depends_on(indices: tuple[E.Expr, ...], var: E.Var) -> bool:
    return any(var in index.variables for index in indices)


def _registers_of(
    indices: tuple[E.Expr, ...], values: dict[E.Var, Array], full: tuple[int, ...],
    layout: RegisterLayout, exists: Mask,
) -> Array | None:  # fmt: skip
    """The register of every access, of shape ``full``; None if a thread lacks its element."""
    try:
        positions = [np.broadcast_to(evaluate(index, values), full) for index in indices]
    except TileUnsupportedError:
        return None  # depends on more than the loops
    inside = exists
    clipped = []
    for position, extent in zip(positions, layout.shape):
        inside = inside & (position >= 0) & (position < extent)
        clipped.append(np.clip(position, 0, extent - 1))
    element = tuple(clipped)
    owners = layout.owner_table()[element] if element else layout.owner_table()
    owns = (owners == np.arange(full[0]).reshape(-1, *(1,) * len(full))).any(axis=-1)
    # Elements outside the fragment are never touched by a correct program.
    if not bool((owns | ~inside).all()):
        return None
    registers = layout.register_table()[element] if element else layout.register_table()
    return np.broadcast_to(registers, full)


def _fitted(
    registers: Array, exists: Mask, inner: tuple[tuple[E.Var, int, int], ...]
) -> Registers | None:
    """``registers`` (threads, flat) as modes of the flat number, if all threads agree on it."""
    high = np.where(exists, registers, -1).max(axis=0)
    low = np.where(exists, registers, np.iinfo(np.int64).max).min(axis=0)
    used = high >= 0
    if bool((high[used] != low[used]).any()):
        return None
    if not used.all():
        # Unused registers continue the pattern of the others where there is one.
        high = np.where(used, high, registers[np.argmax(exists.sum(axis=1))])
    base = int(high[0])
    modes = fit_modes(np.zeros(high.size, np.int64), high)
    result = Registers(base, modes, inner)
    check = np.full(high.size, base, np.int64)
    flat, below = np.arange(high.size), 1
    for position, mode in reversed(list(enumerate(modes))):
        value = flat // below
        if position > 0:
            value = value % mode.extent
        check = check + value * mode.stride
        below *= mode.extent
    return result if bool((check == high)[used].all()) else None


def mapping_from_layout(
    access: Access, layout: RegisterLayout, loop: S.Parallel, extents: tuple[int, ...],
    width: int = 1,
) -> RegisterLayout | None:  # fmt: skip
    """The register layout of the loop under which each thread runs the iterations whose element of
    the fragment it holds; None where the indices are not loop variables, or numbers that several
    of them write in mixed radix (``i * 8 + j`` for j below 8).

    A slice counts, ``i + 16`` for i below 16, where it is one value of the modes above it and
    these are registers: all threads find it at the same distance from the first. So does every
    other element, ``2 * i + 1``, where neighbours are registers of one thread. Variables of
    loops inside the parallel one count, too, where all their values are in one thread.

    Loop variables that the access does not use are distributed over the threads that hold copies,
    of the last one ``width`` neighbours to each, unless the access writes: then every holder runs
    them all.
    """
    nest = nest_of(access, loop, extents)
    if nest is None:
        return None
    indices, names, extents = nest
    loops = len(loop.vars)
    rows: list[tuple[Mode, ...]] = [()] * len(extents)
    used: set[int] = set()
    for dim, index in enumerate(indices):
        digits, start, step = _digits(index, names, extents)
        first, count = start - start % step, _product(digits, extents) * step
        sliced = _slice(layout.modes[dim], first, count, layout.shape[dim])
        parts = None if sliced is None else split_modes(sliced, step)
        if parts is None or any(mode.kind == "thread" for mode in long_modes(*parts[1])):
            return None
        if digits:
            if not used.isdisjoint(digits):
                return None
            used.update(digits)
            digit_modes: tuple[Mode, ...] = parts[0]
            for position in reversed(digits[1:]):
                split = split_modes(digit_modes, extents[position])
                if split is None:
                    return None
                digit_modes, rows[position] = split
            if extents[digits[0]] == 1 and digit_modes:
                return None
            rows[digits[0]] = digit_modes
        elif not isinstance(index, E.Const):
            return None
    if any(
        mode.kind == "thread" for digit_modes in rows[loops:] for mode in long_modes(*digit_modes)
    ):
        return None
    copies = sorted(layout.replicas, key=lambda copy: copy[1])
    shared = not sets_all_copies(access)
    register = layout.register_count
    for position in reversed(range(loops)):
        if position in used:
            continue
        remaining = extents[position]
        free: list[Mode] = []
        while shared and copies and remaining % copies[0][0] == 0:
            extent, stride = copies.pop(0)
            free.insert(0, Mode(extent, "thread", stride))
            remaining //= extent
        run = gcd(remaining, width) if position == loops - 1 else 1
        if run > 1:  # neighbours in one thread come first among its registers
            rows = [tuple(_strided(mode, run) for mode in modes) for modes in rows]
            free.append(Mode(run, "register", 1))
        if remaining > run:
            free.insert(0, Mode(remaining // run, "register", register * run))
        register *= remaining
        rows[position] = tuple(free)
    result = RegisterLayout(extents[:loops], tuple(rows[:loops]), tuple(copies), layout.threads)
    return result.compact() if result.gaps("register") and not layout.gaps("register") else result


def _strided(mode: Mode, factor: int) -> Mode:
    """``mode`` with ``factor`` times the distance between its registers."""
    return replace(mode, stride=mode.stride * factor) if mode.kind == "register" else mode


def nest_of(
    access: Access, loop: S.Parallel, extents: tuple[int, ...]
) -> tuple[tuple[E.Expr, ...], tuple[E.Var, ...], tuple[int, ...]] | None:
    """The indices of ``access`` counted by the variables of ``loop`` and then of the loops inside
    it that they name, all from 0, with the variables and their extents; None where one of these
    loops is not counted by constants."""
    inner = [span for span in access.inner if _depends_on(access.indices, span[0])]
    if any(extent == 0 for _, _, extent in inner):
        return None
    moved = {var: var + start for var, start, _ in inner if start}
    indices = (
        tuple(simplify(substitute(i, moved)) for i in access.indices) if moved else access.indices
    )
    names = (*loop.vars, *(var for var, _, _ in inner))
    return indices, names, (*extents, *(extent for _, _, extent in inner))


def _slice(modes: tuple[Mode, ...], start: int, count: int, extent: int) -> tuple[Mode, ...] | None:
    """The modes of ``start + i`` for i below ``count``, of an index below ``extent``; None where
    the slice is not a value of the modes above it, or is in threads of its own."""
    if count == extent and start == 0:
        return modes
    split = split_modes(modes, count)
    if split is None or start % count or start + count > extent:
        return None
    above, inner = split
    return inner if all(mode.kind == "register" for mode in above) else None


def layout_from_mapping(
    access: Access, loop: S.Parallel, spread: RegisterLayout, shape: tuple[int, ...],
    slices: bool = False,
) -> RegisterLayout | None:  # fmt: skip
    """The register layout of a fragment that ``spread`` of the loop asks for; None where the
    indices are not loop variables, numbers that several of them write in mixed radix, or quotients
    of them for what is read, over the whole fragment.

    Variables of loops inside the parallel one count, too: all their values are in one thread.

    Args:
        slices: take an access of one slice, too; the others are in further registers.
    """
    nest = nest_of(access, loop, spread.shape)
    if nest is None:
        return None
    indices, names, extents = nest
    spread = with_inner(spread, extents)
    dims = _FragmentDims(spread, extents, slices)
    for index, extent in zip(indices, shape):
        if not dims.add(index, extent, names):
            return None
    if dims.packed and access.kind != "read":
        return None
    copies = [*spread.replicas, *dims.copies]
    for position, modes in enumerate(spread.modes):
        if position not in dims.used:
            more = [(d.extent, d.stride) for d in modes if d.kind == "thread" and d.extent > 1]
            if more and sets_all_copies(access):
                return None  # one element would be updated by several threads
            copies += more
    layout = RegisterLayout(shape, tuple(dims.rows), tuple(copies), spread.threads).compact()
    return layout.row_major() if dims.packed else layout


class _FragmentDims:
    """The modes of the dimensions of a fragment that ``spread`` of a loop asks for, one by one."""

    def __init__(self, spread: RegisterLayout, extents: tuple[int, ...], slices: bool) -> None:
        self.spread, self.extents, self.slices = spread, extents, slices
        self.rows: list[tuple[Mode, ...]] = []
        self.copies: list[tuple[int, int]] = []
        self.used: set[int] = set()
        self.packed = False
        self.register = spread.register_count  # the next one that is free

    def add(self, index: E.Expr, extent: int, names: tuple[E.Var, ...]) -> bool:
        """Add the modes of the dimension that ``index`` names, if there are any."""
        position, share = _quotient(index, names)
        if position is not None:
            return self.add_quotient(position, share, extent)
        digits, start, step = _digits(index, names, self.extents)
        constant = isinstance(index, E.Const)
        if step == 1 and (digits or (self.slices and constant and extent > 1)):
            return self.add_digits(digits, start, extent)
        if extent == 1 and constant:
            self.rows.append(())
            return True
        return False

    def add_digits(self, digits: tuple[int, ...], start: int, extent: int) -> bool:
        """Add a dimension of ``extent`` whose elements loop variables count from ``start``."""
        modes, count = self.spread.modes, _product(digits, self.extents)
        inner = prod(mode.extent for p in digits[1:] for mode in modes[p])
        if not self.used.isdisjoint(digits) or inner != _product(digits[1:], self.extents):
            return False
        dim_modes = tuple(mode for p in digits for mode in modes[p])
        if start or count != extent:
            exact = prod(mode.extent for mode in dim_modes) == count
            if not self.slices or extent % count or start % count or not exact:
                return False
            dim_modes = (Mode(extent // count, "register", self.register), *dim_modes)
            self.register *= extent // count
        self.used.update(digits)
        self.rows.append(dim_modes)
        return True

    def add_quotient(self, position: int, share: int, extent: int) -> bool:
        """Add a dimension of which ``share`` iterations in a row name the same element."""
        if position in self.used or self.extents[position] != extent * share:
            return False
        self.used.add(position)
        split = split_modes(self.spread.modes[position], share)
        if split is None:
            return False
        self.rows.append(split[0])
        # Iterations that share an element may be of different threads.
        self.copies += [(d.extent, d.stride) for d in split[1] if d.kind == "thread"]
        self.packed |= share > 1
        return True


def with_inner(spread: RegisterLayout, extents: tuple[int, ...]) -> RegisterLayout:
    """``spread`` of a loop with the loops inside it, whose iterations are next to each other."""
    inner = extents[len(spread.shape) :]
    if not inner:
        return spread
    rows: list[tuple[Mode, ...]] = []
    below = 1
    for extent in reversed(inner):
        rows.insert(0, long_modes(Mode(extent, "register", below)))
        below *= extent
    outer = (tuple(_strided(mode, below) for mode in modes) for modes in spread.modes)
    return replace(spread, shape=extents, modes=(*outer, *rows))


def _quotient(index: E.Expr, names: tuple[E.Var, ...]) -> tuple[int | None, int]:
    """The number of the loop variable that ``index`` is a quotient of, and the constant that
    divides it."""
    if isinstance(index, E.Binary) and index.op == "floordiv" and isinstance(index.b, E.Const):
        return _position(index.a, names), int(index.b.value)
    return None, 1


def _digits(
    index: E.Expr, names: tuple[E.Var, ...], extents: tuple[int, ...]
) -> tuple[tuple[int, ...], int, int]:
    """The numbers of the loop variables that write ``index`` in mixed radix, slowest first, the
    constant that is added, and by what all are multiplied; no numbers where they do not, or where
    it is constant."""
    split = parted(index, frozenset(names))
    if split is None or not isinstance(split[1], E.Const):
        return (), 0, 1
    form, constant = split[0], split[1]
    numbers: dict[E.Expr, int] = {var: number for number, var in enumerate(names)}
    terms = sorted(form.terms, key=lambda term: -term[1])
    step = weight = max(1, terms[-1][1]) if terms else 1
    for var, factor in reversed(terms):
        if factor != weight:
            return (), 0, 1
        weight *= extents[numbers[var]]
    return tuple(numbers[var] for var, _ in terms), int(constant.value), step


def _product(positions: tuple[int, ...], extents: tuple[int, ...]) -> int:
    return prod(extents[position] for position in positions)


def _position(index: E.Expr, names: tuple[E.Var, ...]) -> int | None:
    """The number of the loop variable that ``index`` is."""
    return next((number for number, var in enumerate(names) if var is index), None)


def is_reducer(buffer: Buffer) -> bool:
    """Whether copies of the fragment are partial results."""
    return buffer.attrs.reducer is not None


def sets_all_copies(access: Access) -> bool:
    """Whether every thread that holds the element has to make the access: it changes the element,
    and is not a contribution to a reducer, which one copy takes in."""
    return access.kind != "read" and not (access.kind == "update" and is_reducer(access.buffer))


def is_memory(access: Access) -> bool:
    """Whether the access is of global or shared memory."""
    return access.buffer.storage == "global" or access.buffer.storage.startswith("shared")
