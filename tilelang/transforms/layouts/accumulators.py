"""Write conflicts: elements in memory that several threads of a parallel loop update.

``s[i] += x`` in a loop over ``i, j`` is correct where one thread runs all iterations of an element.
Where a layout distributes them over several threads, and the tile is in shared memory or has to be,
each thread accumulates into its part of a reducer. The reducer starts from the identity and is
combined with the tile after the loop. An update whose result depends on the order of the iterations
is an error that names two such iterations.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from tilelang.errors import TileUnsupportedError, TileWarning
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import BufferHints
from tilelang.ir.linear import parted
from tilelang.ir.updates import is_idle, reads, update_of
from tilelang.ir.visitor import Rewriter, inline_lets, map_stmts, substitute
from tilelang.layout.evaluate import Array, evaluate
from tilelang.layout.register_layout import RegisterLayout
from tilelang.records import dataclass
from tilelang.transforms.analysis.combine import combine, start_of
from tilelang.transforms.analysis.loops import static_extents
from tilelang.transforms.analysis.scopes import FRAGMENT, MOST_ELEMENTS
from tilelang.transforms.layouts.access import constant_loop
from tilelang.transforms.layouts.loops import has_private_results

_ATOMICS = {
    "sum": "atomic_add", "max": "atomic_max", "min": "atomic_min",
    "bitand": "atomic_and", "bitor": "atomic_or", "bitxor": "atomic_xor",
}  # fmt: skip
MOST_COLLECTED = 64  # elements of a tile at computed indices that each thread collects


@dataclass(frozen=True)
class UpdateConflict:
    """Iterations of different threads that store to one element.

    ``element``, ``iterations``, ``threads``: one such case; empty where indices that are known at
    run time only decide whether there is one. ``certain``: whether no condition that is known at
    run time only decides about it. ``box``: (start, extent) of the elements that are stored, for
    each dimension.
    """

    element: tuple[int, ...] = ()
    iterations: tuple[tuple[int, ...], ...] = ()
    threads: tuple[int, ...] = ()
    box: tuple[tuple[int, int], ...] = ()
    certain: bool = False


@dataclass(frozen=True)
class _GuardedStore:
    """A store of a loop body: its indices, the conditions around it, inner loops with constants."""

    stmt: S.Store
    indices: tuple[E.Expr, ...]
    conditions: tuple[E.Expr, ...]
    inner: tuple[tuple[E.Var, int, int], ...]


def updated_tiles(loop: S.Parallel) -> list[Buffer]:
    """The tiles of which the body of ``loop`` stores elements that it also reads, except those that
    have an element for each iteration."""
    tiles: dict[E.Var, Buffer] = {}
    known = [a for a in effects.accesses(loop.body, nested=True) if a.kind is effects.Kind.PLAIN]
    read = {access.data for access in known if access.reads}
    for store in S.find(loop.body, S.Store):
        scope = store.buffer.storage
        if store.buffer.data not in read or not (scope == FRAGMENT or scope.startswith("shared")):
            continue
        if not set(loop.vars) <= set(store.indices):
            tiles.setdefault(store.buffer.data, store.buffer)
    return list(tiles.values())


def update_conflict(
    loop: S.Parallel, buffer: Buffer, spread: RegisterLayout | None
) -> UpdateConflict | None:
    """Whether threads conflict at an element of ``buffer`` when ``spread`` distributes the loop."""
    accesses = [p for p in _stores_of(loop.body, (), (), {}) if p.stmt.buffer.data is buffer.data]
    extents = static_extents(loop)
    if spread is None or extents is None:
        return UpdateConflict()
    owners = spread.owner_table()[..., 0].reshape(extents)
    elements, runners, numbers = [], [], []
    rests: set[tuple[E.Expr, ...]] = set()
    for access in accesses:
        table = _table(loop, extents, access)
        if table is None or access.stmt.buffer is not buffer:
            return UpdateConflict()
        index, mask, offset = table
        rests.add(offset)
        lead = (slice(None),) * len(extents) + (None,) * len(access.inner)
        shape = mask.shape
        elements.append(index[mask])
        runners.append(np.broadcast_to(owners[lead], shape)[mask])
        count = np.arange(prod(extents)).reshape(extents)
        numbers.append(np.broadcast_to(count[lead], shape)[mask])
    if len(rests) > 1:
        return UpdateConflict()
    moved = any(not (isinstance(e, E.Const) and e.value == 0) for e in next(iter(rests)))
    decides = any(reads((stmt.cond,), buffer) for stmt in S.find(loop.body, S.If))
    if spread.is_replicated and has_private_results(loop.body) and decides:
        return UpdateConflict()  # threads with copies of the iteration read what one stores
    return _update_conflict(
        np.concatenate(elements), np.concatenate(runners), np.concatenate(numbers), extents,
        any(_is_dynamic(access, loop.vars) for access in accesses), moved,
    )  # fmt: skip


def _update_conflict(
    element: Array, runner: Array, number: Array, extents: tuple[int, ...], open_: bool, moved: bool
) -> UpdateConflict | None:
    """The first element that two threads store to."""
    if not len(element):
        return None
    names, position = np.unique(element, axis=0, return_inverse=True)
    position = position.reshape(-1)
    low = np.full(len(names), np.iinfo(np.int64).max)
    high = np.full(len(names), -1)
    np.minimum.at(low, position, runner)
    np.maximum.at(high, position, runner)
    conflicts = np.flatnonzero(low != high)
    if not len(conflicts):
        return None
    starts = element.min(axis=0)
    sizes = element.max(axis=0) - starts + 1
    box = () if moved else tuple(zip(starts.tolist(), sizes.tolist()))
    own = np.flatnonzero(position == conflicts[0])
    two = [own[0], own[runner[own] != runner[own[0]]][0]]
    pair = tuple(zip(*(place.tolist() for place in np.unravel_index(number[two], extents))))
    at, threads = tuple(names[conflicts[0]].tolist()), tuple(runner[two].tolist())
    return UpdateConflict(at, pair, threads, box, not (open_ or moved))


def _is_dynamic(access: _GuardedStore, names: tuple[E.Var, ...]) -> bool:
    """Whether more than the loop variables decides about a store."""
    known = {*names, *(var for var, _, _ in access.inner)}
    return any(E.holds(c, E.Load, E.Call) or not c.variables <= known for c in access.conditions)


def _stores_of(
    stmt: S.Stmt,
    conditions: tuple[E.Expr, ...],
    inner: tuple[tuple[E.Var, int, int], ...],
    lets: dict[E.Var, E.Expr],
) -> Iterator[_GuardedStore]:
    """The stores of a loop body, with lets of integers and booleans written out."""
    if isinstance(stmt, S.Store):
        indices = tuple(substitute(index, lets) for index in stmt.indices)
        yield _GuardedStore(stmt, indices, conditions, inner)
    if isinstance(stmt, S.Let) and (stmt.value.dtype.is_integer or stmt.value.dtype.is_bool):
        lets[stmt.var] = substitute(stmt.value, lets)
    elif isinstance(stmt, S.For):
        inner = (*inner, constant_loop(stmt))
    if isinstance(stmt, S.If):
        cond = substitute(stmt.cond, lets)
        yield from _stores_of(stmt.then, (*conditions, cond), inner, dict(lets))
        if stmt.orelse is not None:
            other = (*conditions, E.unary("lnot", cond))
            yield from _stores_of(stmt.orelse, other, inner, dict(lets))
        return
    for block in stmt.blocks():
        yield from _stores_of(
            block, conditions, inner, lets if isinstance(stmt, S.Seq) else dict(lets)
        )


def _table(
    loop: S.Parallel, extents: tuple[int, ...], access: _GuardedStore
) -> tuple[Array, Any, tuple[E.Expr, ...]] | None:
    """The element of every iteration, which iterations store, and what is added to the indices that
    is the same in all of them; None where this is known at run time only."""
    full = (*extents, *(extent for _, _, extent in access.inner))
    if 0 in full or prod(full) > MOST_ELEMENTS:
        return None
    starts = (*(0 for _ in extents), *(start for _, start, _ in access.inner))
    names = (*loop.vars, *(var for var, _, _ in access.inner))
    grid = np.indices(full, sparse=True)
    values: dict[E.Var, Array] = {n: g + s for n, g, s in zip(names, grid, starts)}
    rests, columns = [], []
    for index in access.indices:
        own = frozenset(index.variables & set(names)) if not E.holds(index, E.Load) else None
        offset: E.Expr = E.const(0)
        if own is not None and not index.variables <= set(names):
            split = parted(index, own)
            if split is None:
                return None
            form, offset = split
            index = sum(
                (E.binary("mul", t, E.const(f, t.dtype)) for t, f in form.terms), E.const(0)
            )
        rests.append(offset)
        try:
            columns.append(np.broadcast_to(evaluate(index, values), full))
        except TileUnsupportedError:
            return None
    mask = np.ones(full, bool)
    for cond in access.conditions:
        fixed = _fixed(cond, names)
        if fixed is not None:  # its value does not change which threads conflict
            mask = mask & (values[fixed] == values[fixed].flat[0])
            rests.append(cond)
            continue
        try:
            mask = mask & np.broadcast_to(evaluate(cond, values), full).astype(bool)
        except TileUnsupportedError:
            continue  # it may hold
    return np.stack(columns, axis=-1), mask, tuple(rests)


def _fixed(cond: E.Expr, names: tuple[E.Var, ...]) -> E.Var | None:
    """The loop variable that has one value, the same in all iterations, where ``cond`` holds."""
    if not isinstance(cond, E.Binary) or cond.op != "eq":
        return None
    for side, value in ((cond.a, cond.b), (cond.b, cond.a)):
        var = next((name for name in names if name is side), None)
        if var is not None and not E.holds(value, E.Load, E.Call):
            if value.variables and value.variables.isdisjoint(names):
                return var
    return None


# -- the loop with reducers --------------------------------------------------------------------
def as_reduction(
    launch: S.Launch, loop: S.Parallel, buffer: Buffer, conflict: UpdateConflict
) -> S.Launch:
    """``launch`` with the updates of ``buffer`` in ``loop`` collected thread by thread."""
    writer = _Collected(loop, buffer)
    body: S.Stmt = replace(loop, body=writer.rewritten())
    reducer = writer.reducer
    if reducer is not None and not writer.atomic:
        body = S.seq(
            S.Alloc(buffer=reducer, loc=loop.loc),
            S.ReducerInit(reducer=reducer.whole(), loc=loop.loc),
            body,
            S.ReducerFinalize(reducer=reducer.whole(), op=writer.kind, loc=loop.loc),
            _combined(reducer, writer.kind, buffer, conflict, loop),
        )
    new_body = map_stmts(launch.body, S.Parallel, lambda node: body if node is loop else node)
    return launch.with_body(new_body)


def can_collect(loop: S.Parallel, buffer: Buffer) -> bool:
    """Whether the updates of ``buffer`` are all of one kind, and nothing else uses it."""
    writer = _Collected(loop, buffer)
    writer.atomic = False  # what is left uses the tile
    others = effects.accesses(writer.rewritten(), nested=True)
    return not writer.mixed and not any(access.data is buffer.data for access in others)


class _Collected(Rewriter):
    """The body of a loop with updates of a tile as those of a reducer."""

    def __init__(self, loop: S.Parallel, buffer: Buffer) -> None:
        # Conditions may use the value of a name where the store uses the name.
        body = inline_lets(loop.body, lambda value: isinstance(value, (E.Var, E.Const)))
        self.body = map_stmts(body, S.Seq, lambda seq: _without_names(seq, buffer))
        updates = [u for s in S.walk(self.body) if (u := update_of(s)) and u.load.buffer is buffer]
        self.tile = buffer
        self.mixed = len({update.kind for update in updates}) > 1
        self.kind = updates[0].kind if updates else "sum"
        kinds = {update.value.dtype for update in updates}
        self.reducer: Buffer | None = None
        if updates:
            wide = max(sorted(kinds), key=lambda kind: kind.bits)
            self.reducer = Buffer(
                f"{buffer.name}_part", Shape(buffer.shape), wide, FRAGMENT,
                attrs=BufferHints(reducer=(self.kind, "none")),
            )  # fmt: skip
        self.atomic = self.kind in _ATOMICS and _has_atomics(
            buffer, kinds, [index for update in updates for index in update.load.indices]
        )

    def rewritten(self) -> S.Stmt:
        """The body of the loop with updates of the reducer."""
        return self.rewrite(self.body)

    def stmt(self, stmt: S.Stmt) -> S.Stmt | None:
        if isinstance(stmt, S.Store) and stmt.buffer is self.tile and is_idle(stmt):
            return None  # simplification may leave an element that is stored to itself
        update = update_of(stmt)
        if update is None or update.load.buffer is not self.tile or self.reducer is None:
            return stmt
        value, at = E.cast(update.value, self.reducer.dtype), update.load.indices
        result: S.Stmt = S.ReducerUpdate(
            buffer=self.reducer, indices=at, value=value, op=self.kind, loc=stmt.loc
        )
        if self.atomic:
            address = E.AddressOf(self.tile, at, "rw")
            name = _ATOMICS[self.kind]
            call = E.call(name, address, value, dtype=value.dtype, memory_order="relaxed")
            result = S.Eval(value=call, loc=stmt.loc)
        for cond in reversed(update.conditions):
            result = S.If(cond=cond, then=result, loc=stmt.loc)
        return result


def _has_atomics(buffer: Buffer, kinds: set[DType], indices: list[E.Expr]) -> bool:
    """Whether threads update a shared tile itself: a large one of 32-bit integers, at computed
    indices, for which every thread would hold all elements of a reducer."""
    if kinds != {buffer.dtype} or str(buffer.dtype) not in ("int32", "uint32"):
        return False
    large = prod(int(n) if isinstance(n, int) else 0 for n in buffer.shape) > MOST_COLLECTED
    computed = any(not isinstance(index, (E.Var, E.Const)) for index in indices)
    return large and computed and buffer.storage.startswith("shared")


def _without_names(seq: S.Seq, buffer: Buffer) -> S.Stmt:
    """``seq`` with names that hold elements of ``buffer`` written out where only the statement
    behind uses them: ``v = s[i] + x`` and ``s[i] = v``."""
    stmts = list(seq.stmts)
    for at in reversed(range(len(stmts) - 1)):
        let, after = stmts[at], stmts[at + 1]
        if not (isinstance(let, S.Let) and isinstance(after, S.Store)):
            continue
        later = [expr for stmt in stmts[at + 2 :] for s in S.walk(stmt) for expr in s.exprs()]
        if reads((let.value,), buffer) and not any(let.var in expr.variables for expr in later):
            value = substitute(after.value, {let.var: let.value})
            stmts[at : at + 2] = [replace(after, value=value)]
    return S.seq(*stmts)


def _combined(
    reducer: Buffer, kind: str, buffer: Buffer, conflict: UpdateConflict, loop: S.Parallel
) -> S.Stmt:
    """The loop that combines the elements that may be updated with what the threads collected."""
    wide = reducer.dtype
    box = conflict.box or tuple((0, int(extent)) for extent in buffer.shape)
    names = tuple(E.Var(f"i{n}", E.const(0).dtype) for n in range(len(box)))
    at = tuple(
        E.binary("add", v, E.const(start)) if start else v for v, (start, _) in zip(names, box)
    )
    old, collected = E.Load(buffer, at), E.Load(reducer, at)
    value = E.cast(combine(kind, E.cast(old, wide), collected), buffer.dtype)
    if wide.is_float and kind in ("max", "min"):
        # An element that nothing updates stays as it is, even NaN, which these ignore.
        value = E.select(E.binary("eq", collected, start_of(kind, wide)), old, value)
    store = S.Store(buffer=buffer, indices=at, value=value, loc=loop.loc)
    extents = tuple(E.as_expr(extent) for _, extent in box)
    return S.Parallel(vars=names, extents=extents, body=store, loc=loop.loc)


def check_order(loop: S.Parallel, buffer: Buffer, conflict: UpdateConflict) -> None:
    """Refuse updates that are no reduction, or warn of them where only the run shows whether both
    iterations store.

    Raises:
        TileUnsupportedError: both do.
    """
    stores = [s for s in S.find(loop.body, S.Store) if s.buffer.data is buffer.data]
    element = f"`{buffer.name}[{', '.join(map(str, conflict.element))}]`"
    names = ", ".join(var.name for var in loop.vars)
    runs = " and ".join(
        f"thread {thread} at ({names}) = ({', '.join(map(str, at))})"
        for thread, at in zip(conflict.threads, conflict.iterations)
    )
    if conflict.certain:
        raise TileUnsupportedError(
            f"the value of {element} would depend on the order in which threads run a T.Parallel",
            expected=f"`{buffer.name}` updated in one way that may come in any order (+=, *=, max, "
            "min, &, |, ^), and not read in the loop otherwise",
            got=f"`{stores[0]!r}`, run for {element} by {runs}",
            hint="use T.serial for the loop variables that the index lacks, or read the result in "
            "a loop of its own",
            loc=stores[0].loc,
        )
    if loc := stores[0].loc or loop.loc:
        message = (
            f"`{stores[0]!r}` may be run for one element of `{buffer.name}` by {runs}: its value "
            "depends on their order if both store; update it in one way (+=, *=, max, min, &, |, "
            "^) and read it after the loop"
        )
        warnings.warn_explicit(message, TileWarning, loc.file, loc.line)
