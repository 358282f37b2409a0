"""``RegisterLayout``: a tile spread over the threads of a group, mode by mode.

Each index of a tile is written in mixed radix; every mode selects either a thread or a register.
This covers the register layouts of matrix instructions, coalesced copies, and what reductions
leave of them, and it can be inverted by divisions alone, so that both directions are expressions
as well as tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from math import gcd, prod

import numpy as np

from tilelang.errors import InternalError, TileUnsupportedError
from tilelang.ir import expr as E
from tilelang.layout.evaluate import Array
from tilelang.layout.fragment import Fragment
from tilelang.records import dataclass


@dataclass(frozen=True)
class Mode:
    """One mode of an index: value v adds ``v * stride`` to the thread or register number."""

    extent: int
    kind: str  # "thread" or "register"
    stride: int


def long_modes(*modes: Mode) -> tuple[Mode, ...]:
    """Those of more than one value: the others add nothing."""
    return tuple(mode for mode in modes if mode.extent > 1)


@dataclass(frozen=True)
class RegisterLayout:
    """The threads and registers that hold each element of a tile.

    Attributes:
        shape: extents of the tile.
        modes: per dimension its modes, slowest first. Their product is at least the extent;
            places beyond the extent are empty (see :meth:`valid`).
        replicas: (extent, stride) of modes of the thread that no index selects: those threads
            hold copies of the same elements.
        threads: size of the thread group.

    Thread modes and replicas are a mixed radix of the thread number: sorted by stride, each
    stride is a multiple of the one before times its extent. The same holds for the registers.
    """

    shape: tuple[int, ...]
    modes: tuple[tuple[Mode, ...], ...]
    replicas: tuple[tuple[int, int], ...] = ()
    threads: int = 1

    def __post_init__(self) -> None:
        for extent, modes in zip(self.shape, self.modes, strict=True):
            if prod(mode.extent for mode in modes) < extent:
                raise InternalError(f"modes {modes} do not cover the extent {extent}")
            if extent == 1 and prod(mode.extent for mode in modes) > 1:
                # Such a dimension may be left out, and with it the condition of its modes.
                raise InternalError("a dimension of extent 1 has modes")
        for kind in ("thread", "register"):
            reach = 1
            for stride, extent in sorted(self._radix(kind)):
                if stride % reach:
                    raise InternalError(f"strides of {kind} modes overlap in {self!r}")
                reach = stride * extent
            if kind == "thread" and reach > self.threads:
                raise InternalError(f"{reach} threads are used of {self.threads}")

    def _radix(self, kind: str) -> Iterator[tuple[int, int]]:
        for mode in self.all_modes():
            if mode.kind == kind and mode.extent > 1:
                yield mode.stride, mode.extent
        if kind == "thread":
            yield from ((stride, extent) for extent, stride in self.replicas if extent > 1)

    def all_modes(self) -> Iterator[Mode]:
        """The modes of all dimensions."""
        for modes in self.modes:
            yield from modes

    # -- sizes --------------------------------------------------------------------------------
    @cached_property
    def register_count(self) -> int:
        """Registers per thread."""
        return max((s * e for s, e in self._radix("register")), default=1)

    @cached_property
    def used_threads(self) -> int:
        """Threads up to the last one that holds an element."""
        return max((s * e for s, e in self._radix("thread")), default=1)

    @property
    def replication(self) -> int:
        """In how many threads each element is held."""
        return prod(extent for extent, _ in self.replicas)

    @property
    def is_replicated(self) -> bool:
        """Whether elements are held more than once."""
        return self.replication > 1

    @property
    def is_everywhere(self) -> bool:
        """Whether each thread holds all elements."""
        spread = any(mode.kind == "thread" and mode.extent > 1 for mode in self.all_modes())
        return not spread and self.replication == self.threads

    @property
    def is_padded(self) -> bool:
        """Whether some registers are unused because modes exceed an extent."""
        return any(
            prod(mode.extent for mode in modes) > extent
            for extent, modes in zip(self.shape, self.modes)
        )

    @property
    def is_sparse(self) -> bool:
        """Whether some register of some thread holds no element."""
        idle = self.used_threads < self.threads
        return idle or self.is_padded or bool(self.gaps("thread") or self.gaps("register"))

    def gaps(self, kind: str) -> list[tuple[int, int]]:
        """(stride, extent) of the modes of the thread or register that have to be 0, because no
        element is where they are not."""
        result: list[tuple[int, int]] = []
        reach = 1
        for stride, extent in sorted(self._radix(kind)):
            if stride > reach:
                result.append((reach, stride // reach))
            reach = stride * extent
        return result

    # -- expressions ----------------------------------------------------------------------------
    def _sum(self, indices: Sequence[object], kind: str) -> E.Expr:
        total: E.Expr = E.const(0)
        for index, modes in zip(indices, self.modes, strict=True):
            below = 1
            for position, mode in reversed(list(enumerate(modes))):
                if mode.kind == kind and mode.extent > 1:
                    value = E.as_expr(index)
                    value = _over(value, below)
                    if position > 0:
                        value = E.binary("floormod", value, E.const(mode.extent))
                    total = E.binary("add", total, _times(value, mode.stride))
                below *= mode.extent
        return total

    def thread_of(self, indices: Sequence[object], replica: int = 0) -> E.Expr:
        """The thread that holds copy number ``replica`` of an element."""
        offset = 0
        for extent, stride in reversed(self.replicas):
            offset += replica % extent * stride
            replica //= extent
        return E.binary("add", self._sum(indices, "thread"), E.const(offset))

    def register_of(self, indices: Sequence[object]) -> E.Expr:
        """The register that holds an element."""
        return self._sum(indices, "register")

    def index_of(self, thread: object, register: object) -> tuple[E.Expr, ...]:
        """The element in a register of ``thread``, an index per dimension.

        Meaningful where :meth:`valid` holds and ``thread < used_threads``.
        """
        sources = {
            "thread": (E.as_expr(thread), self.threads),
            "register": (E.as_expr(register), self.register_count),
        }
        indices: list[E.Expr] = []
        for modes in self.modes:
            total: E.Expr = E.const(0)
            below = 1
            for mode in reversed(modes):
                if mode.extent > 1:
                    source, size = sources[mode.kind]
                    value = _over(source, mode.stride)
                    if mode.stride * mode.extent < size:
                        value = E.binary("floormod", value, E.const(mode.extent))
                    total = E.binary("add", _times(value, below), total)
                below *= mode.extent
            indices.append(total)
        return tuple(indices)

    def valid(self, thread: object, register: object) -> E.Expr | None:
        """The condition that a place holds an element; None when every place does."""
        conditions: list[E.Expr] = []
        if self.used_threads < self.threads:
            conditions.append(E.binary("lt", E.as_expr(thread), E.const(self.used_threads)))
        for kind, number in (("thread", thread), ("register", register)):
            for below, extent in self.gaps(kind):
                mode = E.binary("floormod", _over(E.as_expr(number), below), E.const(extent))
                conditions.append(E.binary("eq", mode, E.const(0)))
        for index, extent, modes in zip(self.index_of(thread, register), self.shape, self.modes):
            if prod(mode.extent for mode in modes) > extent:
                conditions.append(E.binary("lt", index, E.const(extent)))
        return E.conjunction(conditions) if conditions else None

    def first_copy(self, thread: object) -> E.Expr | None:
        """The condition that ``thread`` holds copy 0 of its elements; None without copies."""
        conditions = [
            E.binary(
                "eq",
                E.binary("floormod", _over(E.as_expr(thread), stride), E.const(extent)),
                E.const(0),
            )
            for extent, stride in self.replicas
            if extent > 1
        ]
        return E.conjunction(conditions) if conditions else None

    # -- tables -----------------------------------------------------------------------------------
    def _table(self, kind: str) -> Array:
        total = np.zeros(self.shape, np.int64)
        for axis, (extent, modes) in enumerate(zip(self.shape, self.modes)):
            index, below = np.arange(extent, dtype=np.int64), 1
            values = np.zeros(extent, np.int64)
            for mode in reversed(modes):
                if mode.kind == kind:
                    values += index // below % mode.extent * mode.stride
                below *= mode.extent
            total = total + values.reshape([-1 if d == axis else 1 for d in range(len(self.shape))])
        return total

    @cached_property
    def _offsets(self) -> Array:
        offsets = np.zeros(1, np.int64)
        for extent, stride in self.replicas:
            offsets = (offsets[:, None] + np.arange(extent) * stride).reshape(-1)
        return offsets

    def owner_table(self) -> Array:
        """The threads that hold each element, of shape (*shape, copies)."""
        return _owners(self)

    def register_table(self) -> Array:
        """The register of each element, of shape ``shape``."""
        return _slots(self)

    def index_table(self) -> Array:
        """The element in each register, (threads, registers, dimensions); -1 where none is."""
        table = np.full((self.threads, self.register_count, len(self.shape)), -1, np.int64)
        logical = np.indices(self.shape).reshape(len(self.shape), prod(self.shape)).T
        registers = self.register_table().reshape(-1)
        owners = self.owner_table()
        for copy in range(owners.shape[-1]):
            table[owners[..., copy].reshape(-1), registers] = logical
        return table

    def contains(self, other: RegisterLayout) -> bool:
        """Return whether each thread that holds an element in ``other`` holds it here too."""
        if self.shape != other.shape:
            return False
        if self == other:
            return True
        owned = np.zeros((prod(self.shape), max(self.threads, other.threads)), bool)
        rows = np.arange(owned.shape[0])[:, None]
        owned[rows, self.owner_table().reshape(owned.shape[0], -1)] = True
        return bool(owned[rows, other.owner_table().reshape(owned.shape[0], -1)].all())

    def is_equivalent(self, other: RegisterLayout) -> bool:
        """Whether every element is in the same registers of the same threads."""
        if self == other:
            return True
        key = (self.shape, self.threads, self.replication, self.register_count)
        if key != (other.shape, other.threads, other.replication, other.register_count):
            return False
        if not np.array_equal(self.register_table(), other.register_table()):
            return False
        own, theirs = np.sort(self.owner_table(), -1), np.sort(other.owner_table(), -1)
        return np.array_equal(own, theirs)

    # -- new distributions ------------------------------------------------------------------------
    def compact(self) -> RegisterLayout:
        """The same threads, with registers numbered without gaps."""
        strides = sorted({mode.stride for mode in self.all_modes() if mode.kind == "register"
                          and mode.extent > 1})  # fmt: skip
        extents = {mode.stride: mode.extent for mode in self.all_modes()
                   if mode.kind == "register" and mode.extent > 1}  # fmt: skip
        new, reach = {}, 1
        for stride in strides:
            new[stride] = reach
            reach *= extents[stride]
        modes = tuple(
            tuple(
                replace(mode, stride=new.get(mode.stride, 0)) if mode.kind == "register" else mode
                for mode in row
                if mode.extent > 1
            )
            for row in self.modes
        )
        return replace(self, modes=modes)

    def row_major(self) -> RegisterLayout:
        """The same threads, with registers in row-major order of what a thread holds; neighbouring
        modes that are one are merged, so that vectors along the last dimension are seen."""
        rows: list[tuple[Mode, ...]] = []
        reach = 1
        for modes in reversed(self.modes):
            ordered: list[Mode] = []
            for mode in reversed(modes):
                new = mode
                if mode.kind == "register":
                    new = replace(mode, stride=reach)
                    reach *= mode.extent
                below = ordered[0] if ordered else None
                if (
                    below is not None
                    and below.kind == new.kind
                    and (new.stride == below.stride * below.extent)
                ):
                    ordered[0] = Mode(new.extent * below.extent, new.kind, below.stride)
                elif new.extent > 1:
                    ordered.insert(0, new)
            rows.insert(0, tuple(ordered))
        return replace(self, modes=tuple(rows))

    def drop(self, dim: int, keep: bool = False) -> RegisterLayout:
        """The result of reducing ``dim``: its thread modes become copies, its registers vanish.

        Args:
            keep: whether the dimension stays with extent 1.
        """
        inner = self.modes[dim]
        copies = tuple((d.extent, d.stride) for d in inner if d.kind == "thread" and d.extent > 1)
        middle_shape: tuple[int, ...] = (1,) if keep else ()
        middle: tuple[tuple[Mode, ...], ...] = ((),) if keep else ()
        return RegisterLayout(
            (*self.shape[:dim], *middle_shape, *self.shape[dim + 1 :]),
            (*self.modes[:dim], *middle, *self.modes[dim + 1 :]),
            (*self.replicas, *copies),
            self.threads,
        ).compact()

    def with_shape(self, shape: tuple[int, ...]) -> RegisterLayout:
        """The same tile with dimensions of extent 1 added or removed."""
        rows = [(e, d) for e, d in zip(self.shape, self.modes) if e != 1]
        if [e for e, _ in rows] != [e for e in shape if e != 1]:
            raise InternalError(f"{self.shape} and {shape} are not the same tile")
        pending = iter(rows)
        modes = tuple(() if e == 1 else next(pending)[1] for e in shape)
        return replace(self, shape=shape, modes=modes)

    def to_fragment(self) -> Fragment:
        """The same map as a ``T.Fragment``."""

        def forward(*args: E.Expr) -> tuple[E.Expr, E.Expr]:
            indices = args[: len(self.shape)]
            thread = self.thread_of(indices)
            copy = args[len(self.shape)] if self.is_replicated else E.const(0)
            for extent, stride in reversed(self.replicas):
                digit = E.binary("floormod", copy, E.const(extent))
                thread = E.binary("add", thread, _times(digit, stride))
                copy = E.binary("floordiv", copy, E.const(extent))
            return thread, self.register_of(indices)

        return Fragment(self.shape, forward, replicate=self.replication)

    @staticmethod
    def of_fragment(fragment: Fragment, threads: int) -> RegisterLayout | None:
        """The modes of a fragment; None if its map is not mixed radix, or needs more threads."""
        fragment = fragment.condense_rep_var()
        owners, registers = fragment.thread_table(), fragment.addresses()
        origin = (0,) * len(fragment.shape)
        for padded in (False, True):
            rows: list[tuple[Mode, ...]] = []
            for axis in range(len(fragment.shape)):
                # The first line along the axis: all other indices are 0.
                size = fragment.shape[axis]
                line = np.moveaxis(owners[..., 0], axis, 0).reshape(size, -1)[:, 0]
                first = np.moveaxis(registers, axis, 0).reshape(size, -1)[:, 0]
                rows.append(fit_modes(line, first, padded))
            copies = fit_modes(owners[origin], np.zeros(fragment.replicate_size, np.int64))
            replicas = tuple((mode.extent, mode.stride) for mode in copies)
            if any(stride == 0 for _, stride in replicas):
                return None
            try:
                result = RegisterLayout(fragment.shape, tuple(rows), replicas, threads)
            except InternalError:
                continue
            if np.array_equal(result.register_table(), registers) and np.array_equal(
                np.sort(result.owner_table(), -1), np.sort(owners, -1)
            ):
                return result
        return None

    @staticmethod
    def from_fragment(fragment: Fragment, threads: int) -> RegisterLayout:
        """The modes of a fragment.

        Raises:
            TileUnsupportedError: the map is not mixed radix, or needs more threads.
        """
        result = RegisterLayout.of_fragment(fragment, threads)
        if result is None:
            raise TileUnsupportedError(
                "the layout of a fragment cannot be used to distribute a tile",
                expected=f"threads 0 to {threads - 1}, threads and registers that are sums of "
                "modes of the indices (each index split by // and %)",
                got=f"T.Fragment of shape {fragment.shape} over {fragment.get_thread_size()} "
                "threads",
                hint="build it from // and % of the indices, without exclusive or",
            )
        return result

    @staticmethod
    def fully_replicated(shape: Sequence[int], threads: int) -> RegisterLayout:
        """Every thread holds all elements, in row-major order."""
        modes: list[tuple[Mode, ...]] = []
        below = 1
        for extent in reversed(shape):
            modes.append((Mode(extent, "register", below),) if extent > 1 else ())
            below *= extent
        copies = ((threads, 1),) if threads > 1 else ()
        return RegisterLayout(tuple(shape), tuple(reversed(modes)), copies, threads)

    @staticmethod
    def linear(shape: Sequence[int], threads: int, vector: int = 1) -> RegisterLayout:
        """Neighbouring threads hold neighbouring vectors of ``vector`` elements.

        The fastest dimensions are spread over threads first. Where extents and thread count do
        not divide, modes are padded when that takes fewer registers than exact ones. Threads
        that are left over hold copies.
        """
        return _linear(tuple(int(extent) for extent in shape), threads, vector)

    def rows_in_warps(self, dim: int, warp: int) -> RegisterLayout | None:
        """The same tile with each row along ``dim``, the last dimension, in the lanes of one warp,
        by vectors as wide as here; None where the warps do not divide the rows."""
        count, last = self.threads // warp, self.modes[-1][-1:]
        if (dim, len(self.shape)) != (1, 2) or self.threads % warp or self.shape[0] % count:
            return None
        width = last[0].extent if last and last[0].kind == "register" else 1
        row = RegisterLayout.linear(self.shape[1:], warp, width)
        if row.is_replicated:
            return None
        steps = Mode(self.shape[0] // count, "register", row.register_count)
        modes = (long_modes(steps, Mode(count, "thread", warp)), *row.modes)
        return RegisterLayout(self.shape, modes, (), self.threads)

    def alone(self) -> RegisterLayout:
        """The same without copies: the other threads hold nothing."""
        return replace(self, replicas=()) if self.is_replicated else self

    @staticmethod
    def exact(shape: Sequence[int], threads: int, vector: int = 1) -> RegisterLayout:
        """The same without unused registers: an extent is spread over as many threads as divide it.

        Args:
            vector: the product of some innermost extents, whose elements stay in one thread.
        """
        rows: list[tuple[Mode, ...]] = []
        register = thread = below = 1
        for extent in reversed(shape):
            spread = gcd(extent, threads // thread) if below >= vector else 1
            modes = (Mode(extent // spread, "register", register), Mode(spread, "thread", thread))
            rows.insert(0, long_modes(*modes))
            register *= extent // spread
            thread *= spread
            below *= extent
        remaining = threads // thread
        copies = ((remaining, thread),) if remaining > 1 else ()
        return RegisterLayout(tuple(shape), tuple(rows), copies, threads)


def _over(value: E.Expr, divisor: int) -> E.Expr:
    return value if divisor == 1 else E.binary("floordiv", value, E.const(divisor))


def _times(value: E.Expr, factor: int) -> E.Expr:
    return value if factor == 1 else E.binary("mul", value, E.const(factor))


@lru_cache(maxsize=1024)
def _owners(distribution: RegisterLayout) -> Array:
    return distribution._table("thread")[..., None] + distribution._offsets


@lru_cache(maxsize=1024)
def _slots(distribution: RegisterLayout) -> Array:
    return distribution._table("register")


def fit_modes(threads: Array, registers: Array, padded: bool = False) -> tuple[Mode, ...]:
    """Modes, slowest first, of a map of one index; empty or wrong ones where there are none.

    Args:
        padded: whether modes may reach beyond the end of the index.
    """
    modes: list[Mode] = []
    while threads.size > 1:
        step_thread, step_register = int(threads[1] - threads[0]), int(registers[1] - registers[0])
        count = np.arange(threads.size)
        straight = (threads - threads[0] == count * step_thread) & (
            registers - registers[0] == count * step_register
        )
        run = int(np.argmin(straight)) if not straight.all() else threads.size
        extent = max(e for e in range(1, run + 1) if padded or threads.size % e == 0)
        if extent == 1 or (step_thread and step_register) or min(step_thread, step_register) < 0:
            return ()
        kind, stride = ("thread", step_thread) if step_thread else ("register", step_register)
        modes.append(Mode(extent, kind, stride))
        threads, registers = threads[::extent], registers[::extent]
    return tuple(reversed(modes))


def split_modes(
    modes: tuple[Mode, ...], share: int
) -> tuple[tuple[Mode, ...], tuple[Mode, ...]] | None:
    """``modes`` of an index as those of ``index // share`` and of ``index % share``; None where
    no mode ends there."""
    outer = list(modes)
    inner: list[Mode] = []
    while share > 1:
        if not outer:
            return None
        last = outer.pop()
        if share % last.extent == 0:
            inner.insert(0, last)
            share //= last.extent
        elif last.extent % share == 0:
            outer.append(Mode(last.extent // share, last.kind, last.stride * share))
            inner.insert(0, Mode(share, last.kind, last.stride))
            share = 1
        else:
            return None
    return tuple(outer), tuple(inner)


@lru_cache(maxsize=4096)
def _linear(shape: tuple[int, ...], threads: int, vector: int) -> RegisterLayout:
    extents = list(shape)
    if extents and extents[-1] % vector:
        vector = gcd(vector, extents[-1])
    counts = [*extents[:-1], extents[-1] // vector] if extents else []
    split = _split(tuple(reversed(counts)), threads)
    modes: list[tuple[Mode, ...]] = []
    register, thread = vector, 1
    for position, (count, spread) in enumerate(zip(reversed(counts), split)):
        outer = -(-count // spread)
        digits: list[Mode] = []
        if outer > 1:
            digits.append(Mode(outer, "register", register))
        if spread > 1:
            digits.append(Mode(spread, "thread", thread))
        if position == 0 and vector > 1:
            digits.append(Mode(vector, "register", 1))
        register *= outer
        thread *= spread
        modes.append(tuple(digits))
    remaining = threads // thread
    copies = ((remaining, thread),) if remaining > 1 else ()
    return RegisterLayout(shape, tuple(reversed(modes)), copies, threads)


def _split(counts: tuple[int, ...], threads: int) -> tuple[int, ...]:
    """The number of threads over which each dimension (fastest first) is distributed.

    The fewest registers win, then exact splits, then more threads along the fast dimensions.
    """
    best: tuple[tuple[int, bool, tuple[int, ...]], tuple[int, ...]] | None = None

    def search(pending: tuple[int, ...], remaining: int, chosen: tuple[int, ...], registers: int,
               padded: bool) -> None:  # fmt: skip
        nonlocal best
        if best is not None and registers > best[0][0]:
            return
        if not pending:
            key = (registers, padded, tuple(-spread for spread in chosen))
            if best is None or key < best[0]:
                best = (key, chosen)
            return
        count = pending[0]
        for spread in _spreads(count, remaining):
            outer = -(-count // spread)
            search(pending[1:], remaining // spread, (*chosen, spread), registers * outer,
                   padded or outer * spread != count)  # fmt: skip

    search(counts, threads, (), 1, False)
    assert best is not None
    return best[1]


def _spreads(count: int, threads: int) -> list[int]:
    """Divisors of ``threads`` that a dimension may be spread over, most threads first.

    Beyond the first divisor that covers the dimension more threads would only idle.
    """
    divisors: list[int] = []
    for spread in range(1, threads + 1):
        if threads % spread == 0:
            divisors.append(spread)
            if spread >= count:
                break
    return divisors[::-1]
