"""Hazard analysis (RAW, WAR, WAW): accesses of statements to shared memory, and their conflicts.

An access is a box (an interval per dimension) of one buffer, with expressions as bounds. Variables
that take several values within the access, such as the indices of a parallel loop, are enumerated
with numpy; variables that are equal in both accesses cancel. A data-dependent index has the range
of its arithmetic (``A[i] % 8``), or the whole dimension if that is unbounded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import cache, cached_property
from itertools import product
from math import prod
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np

from tilelang.errors import Loc, TileUnsupportedError
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.bounds import interval
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.elementwise import loop_of
from tilelang.ir.intervals import Interval
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import postorder, rebuild, substitute
from tilelang.layout.evaluate import evaluate
from tilelang.layout.register_layout import RegisterLayout
from tilelang.records import dataclass
from tilelang.transforms.analysis.dependence import constant_difference
from tilelang.transforms.analysis.groups import Mask, possible_threads, thread_indices

Values: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"
Dim: TypeAlias = "tuple[E.Expr, int] | None"  # lowest index and extent; None: all of it
LIMIT = 1 << 20  # points that are enumerated at most
MAX_ITERATIONS = 256  # that are looked at one by one
THREAD, REGISTER = (E.Var(name, DType("int32")) for name in ("thread", "register"))
MAX_VALUES = 4096  # of a part that depends on data


def is_shared(buffer: Buffer) -> bool:
    """Whether all threads of a block see the same elements."""
    return buffer.storage in ("shared", "shared.dyn")


@dataclass(frozen=True, eq=False)
class Access:
    """One read, write or atomic update of a box of a shared buffer.

    ``free``: the values of variables that range inside the access. ``joint``: made by the thread
    group together, so that any of its threads may touch any element; otherwise every thread of
    ``mask`` (None: all) accesses the element of its own index. ``owner``: the layout of the loop,
    its threads, and the dimensions that its indices are: they say which thread makes the access,
    whatever the other dimensions are; None where that is not known. ``exact``: each thread of
    ``mask`` makes it. ``spread``: the layout of a loop of all threads, and its indices. ``far``:
    for loop variables the variable that ranges over the distances to another iteration.
    """

    buffer: Buffer
    mode: str  # "read", "write", or an atomic update: see ``commutes``
    dims: tuple[Dim, ...]
    free: tuple[tuple[E.Var, Values], ...] = ()
    joint: bool = False
    mask: Mask | None = None
    owner: tuple[object, ...] | None = None
    spread: tuple[RegisterLayout, tuple[E.Var, ...]] | None = None
    pending: bool = False  # an asynchronous copy that nothing has waited for
    fenced: bool = False  # no fence is needed here before the async proxy uses what it writes
    warp_ordered: bool = False  # ordered before what follows, within each warp
    is_partial: bool = False  # touches some of the elements that its indices name, by data
    async_proxy: bool = False  # by the async proxy, which sees writes of threads after a fence
    exact: bool = True
    far: Mapping[E.Var, E.Var] = field(default_factory=dict)
    loc: Loc | None = None

    @cached_property
    def element(self) -> tuple[int, ...]:
        """The constant indices of an access of one element, else nothing."""
        lows = [
            int(dim[0]) for dim in self.dims if dim and dim[1] == 1 and isinstance(dim[0], E.Const)
        ]
        return tuple(lows) if len(lows) == len(self.dims) else ()

    @cached_property
    def variables(self) -> set[E.Var]:
        """The variables of its indices."""
        return {var for dim in self.dims if dim is not None for var in dim[0].variables}

    def at(self, values: Mapping[E.Var, E.Expr], threads: Mask) -> Access:
        """The access by ``threads`` where variables have these ``values``."""
        dims = (dim and (substitute(dim[0], dict(values)), dim[1]) for dim in self.dims)
        mask = threads if self.mask is None else threads & self.mask
        return replace(self, dims=tuple(dims), mask=mask, owner=None)


def is_atomic(mode: str) -> bool:
    """Whether an access is an atomic update, an atomic load or an atomic store."""
    return mode.startswith("atomic")


def commutes(first: str, second: str) -> bool:
    """Whether accesses of one element in these modes need no order. With atomic loads, stores and
    exchanges (mode "atomic"), a program orders accesses itself."""
    if is_atomic(first) and is_atomic(second):
        return first == second or "atomic" in (first, second)
    return first == second == "read"


# -- collecting -----------------------------------------------------------------------------------
@dataclass
class Scope:
    """The facts that hold at a statement."""

    threads: dict[E.Var, Values]
    lets: dict[E.Var, E.Expr] = field(default_factory=dict)
    free: dict[E.Var, Values] = field(default_factory=dict)
    opaque: set[E.Var] = field(default_factory=set)  # seen differently by threads or iterations
    ranges: dict[E.Var, Interval] = field(default_factory=dict)  # of opaque variables
    joint: bool = False
    mask: Mask | None = None
    exact: bool = True  # each thread of ``mask`` gets there
    layout: Any = None
    parallel_vars: tuple[E.Var, ...] = ()  # indices of the parallel loop around
    exchanges: frozenset[E.Var] = frozenset()  # global memory that is watched like shared memory
    awaited: bool = False  # cp.async arrives at mbarriers: threads that wait there fence its copies
    fenced: bool = False  # what such a copy writes
    copies_are_loops: bool = True  # a copy with a layout is made by its threads, each its elements

    def watches(self, buffer: Buffer) -> bool:
        """Whether accesses of different threads to ``buffer`` are put in order."""
        return is_shared(buffer) or buffer.data in self.exchanges

    def dim(self, low: E.Expr, extent: object) -> Dim:
        """A dimension, or None when its bounds are not arithmetic of known variables."""
        if not isinstance(extent, int):
            return None
        low = substitute(low, self.lets)
        return None if any(map(self.is_unknown, postorder(low))) else (low, extent)

    def is_unknown(self, node: E.Expr) -> bool:
        """Whether ``node`` itself, without its operands, is not arithmetic of known variables."""
        if isinstance(node, (E.Load, E.AddressOf, E.Call, E.RegionArg, E.Lane)):
            return True
        return node.dtype.lanes > 1 or (isinstance(node, E.Var) and node in self.opaque)

    def ranged(self, low: E.Expr, free: list[tuple[E.Var, Values]]) -> E.Expr:
        """``low`` with new variables, listed in ``free``, for the smallest parts that depend on
        data but whose values are few; parts without such bounds stay."""
        rebuilt = (
            low if isinstance(low, E.Load) else rebuild(low, lambda part: self.ranged(part, free))
        )
        if not any(map(self.is_unknown, postorder(rebuilt))):
            return rebuilt
        bounds = self.ranges.get(low) if isinstance(low, E.Var) else interval(low)
        if bounds is None or not bounds.is_known or not low.dtype.is_integer or low.dtype.lanes > 1:
            return rebuilt
        if bounds.high - bounds.low >= MAX_VALUES:
            return rebuilt
        var = E.Var("data", low.dtype)
        free.append((var, np.arange(int(bounds.low), int(bounds.high) + 1, dtype=np.int64)))
        return var

    def access(
        self, buffer: Buffer, mode: str, mins: tuple[E.Expr, ...], extents: Any, loc: Loc | None
    ) -> Access:
        """An access by the code of this scope."""
        free = list(self.free.items())
        known = len(free)
        lows = (self.ranged(substitute(low, self.lets), free) for low in mins)
        dims = tuple(self.dim(low, extent) for low, extent in zip(lows, extents))
        return Access(
            buffer, mode, dims, tuple(free), self.joint, self.mask, self._owner(dims),
            self._spread(), is_partial=len(free) > known, exact=self.exact, loc=loc,
            fenced=self.fenced and mode == "write",
        )  # fmt: skip

    def copy(self, **changes: Any) -> Scope:
        """An independent scope with some fields changed."""
        own = {name: getattr(self, name).copy() for name in ("lets", "free", "opaque", "ranges")}
        return replace(self, **{**own, **changes})

    def bind(self, stmt: S.Let) -> None:
        """Enter a variable: by its value where that is arithmetic, as opaque where it varies."""
        value = substitute(stmt.value, self.lets)
        if value.dtype.is_integer and self.dim(value, 1) is not None:
            self.lets[stmt.var] = value
        elif self.joint or any(isinstance(n, E.Var) and n in self.opaque for n in E.walk(value)):
            self.opaque.add(stmt.var)
        if stmt.var in self.opaque and value.dtype.is_integer:
            self.ranges[stmt.var] = interval(value)

    def bind_loop(self, stmt: S.For) -> tuple[E.Var, Values | None]:
        """Enter a loop variable; gives the variable that ranges over the iterations and its
        values. Where threads start at different indices that is the number of the iteration."""
        if not isinstance(stmt.step, E.Const) or not int(stmt.step):
            return stmt.var, None
        step = int(stmt.step)
        bounds = [substitute(bound, self.lets) for bound in (stmt.start, stmt.stop)]
        try:
            start, stop = (evaluate(bound, self.threads) for bound in bounds)
        except TileUnsupportedError:
            return stmt.var, None
        count = int(np.max(-((start - stop) // step), initial=0))
        if count > 4096:
            return stmt.var, None
        numbers = np.arange(count, dtype=np.int64)
        if start.ndim == 0 or (start == start.flat[0]).all():
            return stmt.var, int(start.flat[0]) + step * numbers
        number = E.Var(stmt.var.name, stmt.var.dtype)
        self.lets[stmt.var] = bounds[0] + number * step
        self.opaque.discard(stmt.var)
        return number, numbers

    def _owner(self, dims: tuple[Dim, ...]) -> tuple[object, ...] | None:
        """Layout, threads and dimensions, if each index of the loop is alone in some dimension."""
        if self.layout is None or getattr(self.layout, "is_replicated", True):
            return None
        lows = {dim[0]: k for k, dim in enumerate(dims) if dim is not None and dim[1] == 1}
        if any(var not in lows for var in self.parallel_vars):
            return None
        threads = None if self.mask is None else self.mask.tobytes()
        return self.layout, threads, *(lows[var] for var in self.parallel_vars)

    def _spread(self) -> tuple[RegisterLayout, tuple[E.Var, ...]] | None:
        """The layout and the indices of a loop of all threads whose iterations each have one."""
        layout, rows = self.layout, next(iter(self.threads.values()), ())
        if not isinstance(layout, RegisterLayout) or layout.is_replicated or self.mask is not None:
            return None
        return (layout, self.parallel_vars) if layout.threads == len(rows) else None


@cache
def _index_var(position: int, dtype: str) -> E.Var:
    return E.Var(f"p{position}", DType(dtype))


def watched(accesses: Iterable[effects.Access], scope: Scope, loc: Loc | None) -> Iterator[Access]:
    """The ``accesses`` that are ordered by barriers."""
    for access in accesses:
        if not scope.watches(access.buffer):
            continue
        late = isinstance(access.by, S.COPIES) and access.by.mode == "async" and access.writes
        for mode in _modes(access):
            if access.kind in (effects.Kind.POINTER, effects.Kind.NAMED):
                # The size behind an address is unknown: the whole buffer.
                unknown = (None,) * access.buffer.ndim
                yield scope.access(access.buffer, mode, access.indices, unknown, loc)
                continue
            joint = isinstance(access.where, Region)
            scope_of_box = scope.copy(joint=True, layout=None) if joint else scope
            box = access.region
            result = scope_of_box.access(access.buffer, mode, box.mins, box.extents, loc)
            yield replace(result, pending=late, async_proxy=access.proxy == "async")


def _modes(access: effects.Access) -> tuple[str, ...]:
    """The modes of an access as :func:`commutes` compares them."""
    by = access.by
    if isinstance(by, E.Call):
        if by.atom.own_order:
            return ()  # barriers in memory and waits of the program order it
        if by.atom.effect is Effect.ATOMIC:
            return (f"atomic_{by.atom.update}" if by.atom.update else "atomic",)
    if isinstance(by, S.AtomicTile) and access.writes:
        return (f"atomic_{by.op}",)
    return ("read",) * access.reads + ("write",) * access.writes


def own_accesses(stmt: S.Stmt, scope: Scope) -> list[Access]:
    """Accesses of ``stmt`` itself; for a loop that threads share those of everything in it."""
    loop = _distributed_loop(stmt, scope)
    if loop is not None:
        loop_accesses = list(_parallel(loop, scope))
        if not isinstance(stmt, S.Copy) or stmt.mode != "async":
            return loop_accesses
        return [replace(access, pending=access.mode == "write") for access in loop_accesses]
    return list(watched(effects.accesses(stmt), scope, stmt.loc))


def _distributed_loop(stmt: S.Stmt, scope: Scope) -> S.Parallel | None:
    """``stmt`` as a loop whose layout maps iterations to threads, if it is such a loop or copy."""
    if isinstance(stmt, S.Copy) and scope.copies_are_loops and stmt.loop_layout is not None:
        other = stmt.barrier is not None or stmt.hints.exchange or stmt.hints.subtile is not None
        if other or stmt.mode not in ("copy", "async") or effects.uses_tma(stmt):
            return None
        return loop_of(stmt)
    return stmt if isinstance(stmt, S.Parallel) else None


def _parallel(stmt: S.Parallel, scope: Scope) -> Iterator[Access]:
    yield from watched(effects.accesses(stmt), scope, stmt.loc)
    free, opaque = dict(scope.free), set(scope.opaque)
    for var, extent in zip(stmt.vars, stmt.extents):
        if isinstance(extent, E.Const):
            free[var] = np.arange(int(extent.value), dtype=np.int64)
        else:
            opaque.add(var)
    inside = scope.copy(
        free=free, opaque=opaque, joint=True, layout=stmt.loop_layout, parallel_vars=stmt.vars
    )
    yield from _nested(stmt.body, inside)


def _nested(stmt: S.Stmt, scope: Scope) -> Iterator[Access]:
    """Accesses of ``stmt`` and everything in it, loops enumerated."""
    if isinstance(stmt, S.Parallel):
        yield from _parallel(stmt, scope.copy(layout=None))
        return
    yield from own_accesses(stmt, scope)
    if isinstance(stmt, S.Let):
        scope.bind(stmt)
    inside = scope.copy(exact=False) if isinstance(stmt, (S.If, S.While)) else scope
    if isinstance(stmt, S.For):
        inside = scope.copy(exact=False, fenced=scope.awaited and stmt.hints.asynchronous)
        var, values = inside.bind_loop(stmt)
        if values is None:
            inside.opaque.add(var)
        else:
            inside.free[var] = values
    for block in stmt.blocks():
        yield from _nested(block, inside)


def all_accesses(stmt: S.Stmt, scope: Scope) -> list[Access]:
    """Accesses of ``stmt`` with everything in it."""
    return list(_nested(stmt, scope.copy()))


# -- equal accesses --
_flags = attrgetter(*"joint pending fenced warp_ordered is_partial async_proxy exact".split())


class AccessTable:
    """One access for all that conflict with the same others, so that there are few to compare.

    They may differ in the names of the variables that range inside them, and in their locations.
    """

    def __init__(self) -> None:
        self._found: dict[object, tuple[Access, tuple[Dim, ...]]] = {}  # keeps identities taken

    def canonical(self, access: Access) -> Access:
        """The representative of ``access``: the first one that is equal."""
        free = [(var, values) for var, values in access.free if var in access.variables]
        names: dict[E.Var, E.Expr] = {
            var: _index_var(k, str(var.dtype)) for k, (var, _) in enumerate(free)
        }
        dims = tuple(
            dim if dim is None else (substitute(dim[0], names), dim[1]) for dim in access.dims
        )
        key = (
            id(access.buffer),
            access.mode,
            dims,
            tuple(values.tobytes() for _, values in free),
            None if access.mask is None else access.mask.tobytes(),
            access.owner,
            access.spread and (access.spread[0], *map(names.get, access.spread[1])),
            _flags(access),
        )
        return self._found.setdefault(key, (access, dims))[0]


# -- leaving a loop --
def leave_loop(
    access: Access, var: E.Var | None, values: Values | None, bound: set[E.Var],
    distances: Values | None = None,
) -> Access:  # fmt: skip
    """The access as code outside of one iteration sees it.

    ``var`` takes ``values`` (None: not known); the variables ``bound`` in the body have values
    of their own in every iteration. With ``distances`` it is seen by a later iteration, to whose
    value of ``var`` that of its own has one of them.
    """
    values = values if distances is None else distances
    free = list(access.free)
    bound = bound - {var} - {inside for inside, _ in free}
    dims: list[Dim] = []
    names: dict[E.Var, E.Expr] = {}
    far: dict[E.Var, E.Var] = {}
    changed = False
    for dim in access.dims:
        used = set() if dim is None else {n for n in E.walk(dim[0]) if isinstance(n, E.Var)}
        if dim is None or used & bound:
            changed |= dim is not None
            dims.append(None)
        elif var is not None and var in used:
            changed = True
            if values is None:
                dims.append(None)
                continue
            if var not in names:
                fresh = E.Var(var.name, var.dtype)
                names[var] = fresh if distances is None else var + fresh
                free.append((fresh, values))
                far = {} if distances is None else {var: fresh}
            dims.append((substitute(dim[0], names), dim[1]))
        else:
            dims.append(dim)
    if not changed:
        return access
    return replace(access, dims=tuple(dims), free=tuple(free), far={**access.far, **far})


def distances_of(
    stmt: S.For | S.While, var: E.Var | None, values: Values | None
) -> tuple[Values | None, Values | None]:
    """The distance of a loop's variable to that of the next iteration, and of any later one;
    None where that is not known."""
    if not isinstance(stmt, S.For) or not isinstance(stmt.step, E.Const):
        return None, None
    step = int(stmt.step) if var is stmt.var else 1
    several = None if values is None or len(values) < 2 else values[:-1] - values[-1]
    return np.array([-step], dtype=np.int64), several


# -- hazards --
@dataclass(frozen=True)
class Hazard:
    """A read after a write, a write after a read or a write after a write (RAW, WAR, WAW) of one
    element by two threads; ``exact`` if they surely touch the same one."""

    first: Access
    second: Access
    exact: bool


class HazardAnalysis:
    """Finds hazards between accesses of one launch; memoizes results."""

    def __init__(self, launch: S.Launch, warp: int) -> None:
        self.launch, self.warp = launch, warp
        self.count = prod(launch.threads)
        self.threads = {**thread_indices(launch), THREAD: np.arange(self.count)}
        self._memo: dict[Access, dict[Access, Hazard | None]] = {}  # by the later one, the earlier
        self._intervals: dict[tuple[Access, E.Expr], tuple[int, int, E.Expr] | None] = {}
        self.ranges: dict[E.Var, Values] = {}  # of the variables of loops

    def hazards(self, earlier: Iterable[Access], b: Access) -> list[Hazard]:
        """The conflicts of the accesses ``earlier`` with the later ``b``."""
        conflicts: list[Hazard] = []
        memo = self._memo.setdefault(b, {})
        for a in earlier:
            if a.owner is not None and a.buffer is b.buffer and not a.pending:
                if a.owner == b.owner:
                    continue  # each thread has its own elements: the usual case, without a call
            if a not in memo:
                memo[a] = self._conflict(a, b)
            hazard = memo[a]
            if hazard is not None:
                conflicts.append(hazard)
        return conflicts

    def _conflict(self, a: Access, b: Access) -> Hazard | None:
        if a.buffer.data is not b.buffer.data or commutes(a.mode, b.mode):
            return None
        hazard = self._hazard(a, b)
        if hazard is not None and not hazard.exact:
            # One side may be of any iteration, the other of the current one: with the variables
            # of both, which cancel, or without.
            for shared in (a.variables & b.variables, set[E.Var]()):
                more = self._opened(a, shared), self._opened(b, shared)
                if more != (a, b) and self._hazard(*more) is None:
                    return None
        return hazard

    def _opened(self, access: Access, fixed: set[E.Var]) -> Access:
        """``access`` in any iteration of the loops around it, but for those of ``fixed``."""
        more = {var: self.ranges[var] for var in access.variables & self.ranges.keys() - fixed}
        if not more:
            return access
        # Distances from all values lead out of the loop; another iteration has a value of its own.
        others = {var: E.Var(var.name, var.dtype) for var in access.far if var in more}
        gone: dict[E.Var, E.Expr] = {access.far[var]: other - var for var, other in others.items()}
        free = [pair for pair in access.free if pair[0] not in gone]
        free += [(other, more[var]) for var, other in others.items()]
        dims = (dim and (simplify(substitute(dim[0], gone)), dim[1]) for dim in access.dims)
        return replace(access, dims=tuple(dims), free=(*free, *more.items()), far={})

    def _hazard(self, a: Access, b: Access) -> Hazard | None:
        same_buffer = a.buffer is b.buffer
        for x, y in zip(a.dims, b.dims) if same_buffer else ():
            if self._are_disjoint(a, x, b, y) or self._are_disjoint_modulo(a, x, b, y):
                return None
        if not a.pending and _is_same_thread(a, b):
            return None
        if not a.joint and not b.joint:
            return self._by_thread(a, b, same_buffer)
        first, second = _by_layout(a), _by_layout(b)
        known = same_buffer and not (a.pending or first.joint or second.joint)
        return Hazard(a, b, False) if not known or self._by_thread(first, second, True) else None

    def is_excluded(self, hazard: Hazard, mask: Mask, conds: tuple[E.Expr, ...]) -> bool:
        """Whether in no iteration of the loops around, one by one, those threads of ``mask`` for
        which ``conds`` hold touch the same element."""
        used = hazard.first.variables.union(hazard.second.variables, *(c.variables for c in conds))
        used &= self.ranges.keys()
        if not used or prod(len(self.ranges[var]) for var in used) > MAX_ITERATIONS:
            return False
        for point in product(*(self.ranges[var] for var in used)):
            values = {var: E.const(int(value), var.dtype) for var, value in zip(used, point)}
            masks = [possible_threads(cond, self.launch, values) for cond in conds]
            mask_at = np.logical_and.reduce([mask, *(m for m in masks if m is not None)])
            if self._hazard(hazard.first.at(values, mask_at), hazard.second.at(values, mask_at)):
                return False
        return True

    # -- intervals ---------------------------------------------------------------------------
    def _split(self, access: Access, low: E.Expr) -> tuple[E.Expr, E.Expr] | None:
        """``low`` as a part that ranges (threads, free variables) plus one that does not."""
        free = dict(access.free)
        zero: dict[E.Var, E.Expr] = {
            node: E.const(0, node.dtype)
            for node in E.walk(low)
            if isinstance(node, E.Var) and (node in free or node in self.threads)
        }
        rest = simplify(substitute(low, zero))
        moving = simplify(low - rest) if zero else E.const(0, low.dtype)
        for node in E.walk(moving):
            if isinstance(node, E.Var) and node not in zero:
                return None
        return moving, rest

    def _values(
        self, access: Access, expr: E.Expr, over: tuple[E.Expr, ...], rows: bool = True
    ) -> Values | None:
        """``expr`` by thread and combination of the free variables that ``over`` uses.

        Without ``rows`` threads that all give the same value may be one row.
        """
        used = {node for low in over for node in E.walk(low) if isinstance(node, E.Var)}
        rows = rows or not used.isdisjoint(self.threads)
        chosen = slice(None) if access.mask is None else access.mask
        threads = {var: row[chosen, None] for var, row in self.threads.items()} if rows else {}
        count = (self.count if access.mask is None else int(access.mask.sum())) if rows else 1
        ranging = [(var, values) for var, values in access.free if var in used]
        points = prod(len(values) for _, values in ranging)
        if points * count > LIMIT or points == 0:
            return None
        mesh = np.meshgrid(*(values for _, values in ranging), indexing="ij") if ranging else []
        flat = {var: grid.reshape(1, -1) for (var, _), grid in zip(ranging, mesh)}
        try:
            result = evaluate(expr, {**threads, **flat})
        except TileUnsupportedError:
            return None
        return np.broadcast_to(result, (count, points))

    def _interval(self, access: Access, dim: Dim) -> tuple[int, int, E.Expr] | None:
        """Least and greatest index relative to an expression that does not range."""
        if dim is None:
            return None
        key = (access, dim[0])
        if key not in self._intervals:
            parts = self._split(access, dim[0])
            values = None if parts is None else self._values(access, parts[0], (parts[0],), False)
            if parts is None or values is None or not values.size:
                self._intervals[key] = None
            else:
                self._intervals[key] = int(values.min()), int(values.max()), parts[1]
        bounds = self._intervals[key]
        return None if bounds is None else (bounds[0], bounds[1] + dim[1] - 1, bounds[2])

    def _are_disjoint(self, a: Access, x: Dim, b: Access, y: Dim) -> bool:
        first, second = self._interval(a, x), self._interval(b, y)
        if first is None or second is None:
            return False
        shift = constant_difference(first[2], second[2])
        return shift is not None and (first[0] + shift > second[1] or second[0] > first[1] + shift)

    def _are_disjoint_modulo(self, a: Access, x: Dim, b: Access, y: Dim) -> bool:
        """Whether two indices ``i % n`` and ``j % n`` differ: ``i - j`` is not a multiple of
        ``n``."""
        if x is None or y is None or (x[1], y[1]) != (1, 1):
            return False
        first, second = x[0], y[0]
        if not isinstance(first, E.Binary) or not isinstance(second, E.Binary):
            return False
        if (first.op, second.op) != ("floormod", "floormod") or first.b is not second.b:
            return False
        left, right = self._interval(a, (first.a, 1)), self._interval(b, (second.a, 1))
        if left is None or right is None or not isinstance(first.b, E.Const):
            return False
        shift = constant_difference(left[2], right[2])
        if shift is None:
            return False
        low, high, n = left[0] - right[1] + shift, left[1] - right[0] + shift, int(first.b)
        return low // n == high // n and bool(low % n)

    # -- by thread ---------------------------------------------------------------------------
    def _by_thread(self, a: Access, b: Access, same_buffer: bool) -> Hazard | None:
        """Both are made thread by thread: only different threads conflict."""
        if same_buffer and _reads_own_write(a, b):
            return None
        exact = same_buffer and not (a.is_partial or b.is_partial)
        columns: list[tuple[Values, Values]] = []
        for x, y in zip(a.dims, b.dims) if same_buffer else ():
            pair = self._column(a, x, b, y)
            if pair is None:
                exact = False
            else:
                columns.append(pair)
        granularity = self.warp if a.warp_ordered else 1
        keys_a, low_a, high_a = _owners(a, self.count, columns, 0, granularity)
        keys_b, low_b, high_b = _owners(b, self.count, columns, 1, granularity)
        _, at_a, at_b = np.intersect1d(keys_a, keys_b, return_indices=True)
        single = (low_a[at_a] == high_a[at_a]) & (low_b[at_b] == high_b[at_b])
        return None if bool((single & (low_a[at_a] == low_b[at_b])).all()) else Hazard(a, b, exact)

    def _column(self, a: Access, x: Dim, b: Access, y: Dim) -> tuple[Values, Values] | None:
        """One dimension's index per thread on both sides, against the same origin."""
        if x is None or y is None:
            return None
        first, second = self._split(a, x[0]), self._split(b, y[0])
        if first is None or second is None:
            return None
        shift = constant_difference(first[1], second[1])
        # Free variables that appear in several dimensions must be enumerated together; one
        # column over all of an access's variables keeps the columns aligned.
        lows = [tuple(dim[0] for dim in side.dims if dim is not None) for side in (a, b)]
        values_a = self._values(a, first[0], lows[0])
        values_b = self._values(b, second[0], lows[1])
        if shift is None or values_a is None or values_b is None:
            return None
        return values_a + shift, values_b


def _by_layout(access: Access) -> Access:
    """A joint access as one of each thread, where the layout of its loop is known."""
    if access.spread is None:
        return access
    layout, names = access.spread
    indices = dict(zip(names, layout.index_of(THREAD, REGISTER)))
    free = [(var, values) for var, values in access.free if var not in indices]
    dims = (dim and (substitute(dim[0], indices), dim[1]) for dim in access.dims)
    free.append((REGISTER, np.arange(layout.register_count, dtype=np.int64)))
    return replace(access, dims=tuple(dims), free=tuple(free), joint=False, spread=None)


def _reads_own_write(a: Access, b: Access) -> bool:
    """Whether each thread that reads an element has written it there itself. Others that wrote the
    same element did so without an order among them, so that they wrote the same value."""
    if (a.mode, b.mode) != ("write", "read") or a.pending or not a.exact or a.is_partial:
        return False
    ranging = {var for side in (a, b) for var, _ in side.free}
    pairs = list(zip(a.dims, b.dims))
    if any(x is None or y is None or x[0] is not y[0] or x[1] != y[1] for x, y in pairs):
        return False
    if any(x is not None and x[0].variables & ranging for x, _ in pairs):
        return False
    return a.mask is None or (b.mask is not None and not bool((b.mask & ~a.mask).any()))


def _is_same_thread(a: Access, b: Access) -> bool:
    """Whether one thread alone makes both."""
    return a.mask is not None and b.mask is not None and np.count_nonzero(a.mask | b.mask) == 1


def _owners(
    access: Access, count: int, columns: list[tuple[Values, Values]], side: int, granularity: int
) -> tuple[Values, Values, Values]:
    """Each address key that the side touches, with the lowest and highest of the threads, in
    units of so many."""
    chosen = np.arange(count) if access.mask is None else np.flatnonzero(access.mask)
    keys = np.zeros((len(chosen), 1), dtype=np.int64)
    for pair in columns:
        low = min(int(values.min(initial=0)) for values in pair)
        high = max(int(values.max(initial=0)) for values in pair)
        keys = keys * (high - low + 1) + (pair[side] - low)
    threads = np.broadcast_to(chosen[:, None] // granularity, keys.shape).reshape(-1)
    unique_keys, where = np.unique(keys.reshape(-1), return_inverse=True)
    lowest = np.full(unique_keys.shape, count, dtype=np.int64)
    highest = np.full(unique_keys.shape, -1, dtype=np.int64)
    np.minimum.at(lowest, where.reshape(-1), threads)
    np.maximum.at(highest, where.reshape(-1), threads)
    return unique_keys, lowest, highest
