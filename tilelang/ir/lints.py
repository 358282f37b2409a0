"""Lints: warnings about programs that run, but are probably wrong or slow.

Each is certain: no correct program gets one. A remark is a ``TileWarning`` at the user's line;
``TILELANG_LINTS_OFF`` names those that are not made ("all" for none), and Python's own filters of
warnings hold, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from itertools import product
from math import prod
from operator import is_

from tilelang.errors import Loc
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.bounds import Bounds, form_of, interval
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import inline_lets, substitute
from tilelang.records import dataclass

_TILES = ("shared", "shared.dyn", "local.fragment")
_PRIVATE = ("local", "local.var")  # its elements may differ between iterations
_Read = tuple[E.Load, S.Stmt]  # an element, and what reads it


@dataclass(frozen=True)
class Remark:
    """A message about a line.

    Attributes:
        lint: the name by which it is silenced.
        message: what is wrong, and what to do.
        loc: the user's line.
    """

    lint: str
    message: str
    loc: Loc | None

    def __str__(self) -> str:
        return f"{self.message} [{self.lint}]"


def remarks(func: S.PrimFunc, outputs: Iterable[Buffer] = ()) -> list[Remark]:
    """The remarks on a program as it was traced, whose results are ``outputs``."""
    return [
        *_tiles(func), *_updates(func.body, {}),
        *_outside(func.body), *_wrong_dimension(func), *_swapped(func), *_unwritten(func, outputs),
        *_later_blocks(func), *_divergent_barriers(func),
    ]  # fmt: skip


def _unwritten(func: S.PrimFunc, outputs: Iterable[Buffer]) -> Iterator[Remark]:
    """Results that the program does not write: they are whatever was in their memory."""
    written = set(effects.written(func.body))
    written |= {var for var, _ in effects.pointers(func.body, nested=True)}
    for buffer in outputs:
        if buffer.data not in written and all(_number(n) != 0 for n in buffer.shape):
            yield Remark(
                "unwritten-output",
                f"nothing writes the result `{buffer.name}`, whose elements are undefined; write "
                f"them, e.g. by T.copy(tile, {buffer.name}[...]), or choose another out_idx",
                func.loc,
            )


def _later_blocks(func: S.PrimFunc) -> Iterator[Remark]:
    """Loops in which a block polls the element that only a block behind it stores."""
    for launch in S.find(func.body, S.Launch):
        stored: dict[E.Var, set[tuple[E.Expr, ...]]] = {}
        for access in effects.accesses(launch.body, nested=True):
            if access.writes and access.buffer.storage == "global":
                stored.setdefault(access.data, set()).add(access.indices)
        for loop in S.find(launch.body, S.While):
            if any(access.writes for access in effects.accesses(loop.body, nested=True)):
                continue
            for access in effects.accesses(loop.cond):
                flags = stored.get(access.data, set())
                if len(flags) != 1:
                    continue
                name, (own,) = access.buffer.name, flags
                if _is_behind(access.indices, own, launch.block_vars):
                    yield Remark(
                        "later-block",
                        f"a block waits here for `{name}{[*access.indices]!r}`, which a later "
                        f"block stores (`{name}{[*own]!r}`); the CPU and the interpreter run "
                        "blocks in order, and the wait never ends there: let blocks wait for "
                        "earlier ones",
                        loop.loc,
                    )


def _is_behind(
    polled: tuple[E.Expr, ...], own: tuple[E.Expr, ...], blocks: tuple[E.Var, ...]
) -> bool:
    """Whether the element that a block polls is the ``own`` one of a block behind it."""
    different = [(a, b) for a, b in zip(polled, own) if a is not b]
    if len(different) != 1:
        return False
    (far, near), moved = different[0], [var for var in blocks if var in different[0][1].variables]
    if len(moved) != 1:
        return False
    following = substitute(near, {moved[0]: E.as_expr(moved[0] + 1)})
    step, distance = (_number(simplify(x - near)) for x in (following, far))
    return bool(step and distance and distance % step == 0 and distance // step > 0)


def _divergent_barriers(func: S.PrimFunc) -> Iterator[Remark]:
    """Barriers of all threads in a branch that only some take, where no other branch has one.

    Only where the thread's number alone decides, and no thread returns before the end.
    """
    for launch in S.find(func.body, S.Launch):
        branches = [stmt for stmt in _uniform_branches(launch.body) if _has_divergent_barrier(stmt)]
        everywhere = [stmt for stmt in S.find(launch.body, S.If) if _has_divergent_barrier(stmt)]
        if len(everywhere) != 1 or everywhere != branches or S.holds(launch.body, S.ThreadReturn):
            continue
        (branch,) = branches
        lets = {stmt.var: stmt.value for stmt in S.find(launch.body, S.Let)}
        cond = simplify(substitute(substitute(branch.cond, lets), lets))
        if not cond.variables or not cond.variables <= set(launch.thread_vars):
            continue
        threads = product(*map(range, launch.threads[::-1]))
        sides = []
        for xyz in threads:
            at = dict(zip(launch.thread_vars, map(E.as_expr, xyz[::-1])))
            sides.append(_number(simplify(E.select(substitute(cond, at), 1, 0))))
        misses = 0 if branch.orelse is None or not _has_barrier(branch.orelse) else 1
        if misses in sides and 1 - misses in sides and None not in sides:
            yield Remark(
                "barrier-divergence",
                f"thread {sides.index(misses)} does not reach this T.sync_threads(), which waits "
                "for all threads of the block; move it after the branch, or write "
                "T.sync_threads(barrier_id, arrive_count) with the number of threads that reach it",
                next(stmt.loc for stmt in S.walk(branch) if _is_barrier(stmt)),
            )


def _is_barrier(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` waits for all threads of the block."""
    return stmt.call is not None and stmt.call.op == "sync_threads" and not stmt.call.args


def _has_barrier(stmt: S.Stmt | None) -> bool:
    return stmt is not None and any(map(_is_barrier, S.walk(stmt)))


def _has_divergent_barrier(stmt: S.Stmt) -> bool:
    """Whether a branch has such a barrier on one side only."""
    return isinstance(stmt, S.If) and _has_barrier(stmt.then) != _has_barrier(stmt.orelse)


def _uniform_branches(stmt: S.Stmt) -> Iterator[S.If]:
    """The branches that every thread reaches."""
    if isinstance(stmt, S.If):
        yield stmt
    elif isinstance(stmt, (S.Seq, S.Attr)):
        for block in stmt.blocks():
            yield from _uniform_branches(block)


def _swapped(func: S.PrimFunc) -> Iterator[Remark]:
    """Copies that blocks begin past the end of one dimension and that none makes up to the end of
    another: block indices of a grid that are taken for each other.

    Only of anchors that block indices alone make up, outside of conditions.
    """
    for launch in S.find(func.body, S.Launch):
        if len(launch.grid) < 2:
            continue
        counts = [_number(extent) for extent in launch.grid]
        known = {var: count for var, count in zip(launch.block_vars, counts) if count}
        bounds = Bounds().with_ranges((var, 0, count, 1) for var, count in known.items())
        for copy in _unconditional(launch.body):
            for region in (copy.src, copy.dst):
                if region.buffer.storage == "global":
                    yield from _swapped_in(region, {*known}, bounds, copy.loc)


def _unconditional(stmt: S.Stmt) -> Iterator[S.Copy]:
    if isinstance(stmt, S.Copy):
        yield stmt
    if not isinstance(stmt, S.If):
        for block in stmt.blocks():
            yield from _unconditional(block)


def _swapped_in(
    region: Region, known: set[E.Var], bounds: Bounds, loc: Loc | None
) -> Iterator[Remark]:
    past_end, short = [], []
    for dim, (low, extent) in enumerate(zip(region.mins, region.extents)):
        size, count = _number(region.buffer.shape[dim]), _number(extent)
        moves = low.variables and low.variables <= known and not E.holds(low, E.Load, E.Call)
        if size is None or count is None or count == 1 or not moves:
            continue
        last = int(interval(low, bounds).high)
        past_end += [(dim, last, size)] if last >= size else []
        short += [(dim, last + count, size)] if last + count < size else []
    if past_end and short:
        (first, last, size), (second, end, other) = past_end[0], short[0]
        yield Remark(
            "swapped-dimensions",
            f"copies start at up to {last} in dimension {first} of `{region.buffer.name}`, whose "
            f"extent is {size}, and end at {end} in dimension {second}, whose extent is {other}; "
            "the block indices may be swapped: `as (bx, by)` has them in the order of the extents "
            "of T.Kernel",
            loc,
        )


def _tiles(func: S.PrimFunc) -> Iterator[Remark]:
    """Tiles that nothing uses, and tiles that are read and that nothing has written; what has no
    element is neither."""
    allocs = [stmt for stmt in S.find(func.body, S.Alloc) if stmt.buffer.storage in _TILES]
    allocs = [a for a in allocs if not a.buffer.attrs and 0 not in map(_number, a.buffer.shape)]
    if not allocs:
        return
    used, filled = set[E.Var](), set[E.Var]()
    for access in effects.accesses(func.body, nested=True):
        if access.mode != effects.NAME or access.kind is not effects.Kind.PLAIN:
            used.add(access.data)
            # An address may be written through at any time, and an update is one of something.
            if access.kind is not effects.Kind.PLAIN:
                filled.add(access.data)
    for stmt in S.walk(func.body):
        for access in () if _is_accumulation(stmt) else effects.own(stmt):
            if access.mode == effects.WRITE or (access.writes and _overwrites(stmt)):
                filled.add(access.data)
    pointed = {var for var, _ in effects.pointers(func.body, nested=True)}
    used, filled = used | pointed, filled | pointed
    for alloc in allocs:
        name = alloc.buffer.name
        if alloc.buffer.data not in used:
            message = f"the tile `{name}` is not used; remove it: it takes memory of every block"
            yield Remark("unused-tile", message, alloc.loc)
        elif alloc.buffer.data not in filled:
            message = (
                f"the tile `{name}` is read and nothing writes it; "
                f"T.copy(..., {name}), T.clear({name}) or T.fill({name}, x) fills it"
            )
            yield Remark("unwritten-tile", message, alloc.loc)


def _overwrites(stmt: S.Stmt) -> bool:
    """Whether a product or a reduction starts anew."""
    clear = getattr(stmt, "clear", False)
    return bool(clear.value) if isinstance(clear, E.Const) else clear is not False


def _is_accumulation(stmt: S.Stmt) -> bool:
    """Whether the statement is ``x[i] += ...`` in any form; a choice may leave x[i] out."""
    return (
        isinstance(stmt, S.Store)
        and not E.holds(stmt.value, E.Select)
        and any(_is_same_element(load, stmt) for load in E.find(stmt.value, E.Load))
    )


def _is_same_element(load: E.Load, stmt: S.Store) -> bool:
    return load.buffer is stmt.buffer and all(map(is_, load.indices, stmt.indices))


def _updates(
    stmt: S.Stmt, parallel: dict[E.Var, object], reads: tuple[_Read, ...] = (), sure: bool = True
) -> Iterator[Remark]:
    """Remarks on stores in iterations that have no order, given those around ``stmt``, what each
    of them ``reads``, and whether each is ``sure`` to reach it.

    An iteration that a condition on its number selects may be the only one, so that nothing in
    such an ``if`` counts. In others, what decides does. Inside a loop an index is what it is, not
    how it is named; values of names from before the loop are older than its stores, and stay names.
    """
    if isinstance(stmt, S.If):
        if not parallel or _selects(stmt.cond, parallel) or _keeps_larger(stmt):
            return
        reads, sure = (*reads, *_sure_reads(stmt)), False
    if isinstance(stmt, S.Store) and parallel and stmt.buffer.storage in ("global", *_TILES):
        lost = [*_lost_updates(stmt, parallel)] if sure else []
        yield from lost or _disordered(stmt, parallel, reads)
    if isinstance(stmt, S.Parallel):
        wide = {v: n for v, n in zip(stmt.vars, stmt.extents) if _number(n) != 1}
        stmt = replace(stmt, body=inline_lets(stmt.body, lambda value: True))
        reads = reads or (*_sure_reads(stmt.body),)
        parallel = {**parallel, **wide}
    for block in stmt.blocks():
        yield from _updates(block, parallel, reads, sure)


def _selects(cond: E.Expr, parallel: Collection[E.Var]) -> bool:
    """Whether ``cond`` may hold in one iteration only, by its number or by what equals a value."""
    return any(
        node in parallel
        or (isinstance(node, E.Binary) and node.op == "eq" and node.variables & {*parallel})
        for node in E.walk(cond, lambda node: () if isinstance(node, E.Load) else node.children())
    )


def _keeps_larger(stmt: S.If) -> bool:
    """Whether it is ``if x > s: s = x`` of a tile: a reduction, in any order."""
    is_tile = isinstance(stmt.then, S.Store) and stmt.then.buffer.storage in _TILES
    return is_tile and _kind_of(stmt) is not None


def _kind_of(stmt: S.Stmt) -> str | None:
    """The kind of the update that a statement makes, such as "sum"; "" if it changes nothing."""
    from tilelang.ir.updates import is_idle, update_of  # few programs ask

    if isinstance(stmt, S.Store) and is_idle(stmt):
        return ""
    update = update_of(stmt)
    return None if update is None else update.kind


def _sure_reads(stmt: S.Stmt) -> Iterator[_Read]:
    """What each iteration reads in ``stmt``, whatever its conditions are."""
    loads = (n for e in stmt.exprs() for n in E.walk(e, _deciding) if isinstance(n, E.Load))
    yield from ((load, stmt) for load in loads)
    for block in () if isinstance(stmt, (S.If, S.While)) else stmt.blocks():
        yield from _sure_reads(block)


def _deciding(node: E.Expr) -> tuple[E.Expr, ...]:
    """The operands that decide the value of ``node``, whichever side a choice takes."""
    is_lazy = isinstance(node, E.Binary) and node.op in ("land", "lor")
    return node.children()[:1] if is_lazy or isinstance(node, E.Select) else node.children()


def _lost_updates(stmt: S.Store, parallel: dict[E.Var, object]) -> Iterator[Remark]:
    """``A[0] += x`` in parallel iterations: all read the same value, and one result is left."""
    is_update = any(_is_same_element(load, stmt) for load in E.find(stmt.value, E.Load))
    name, tile = stmt.buffer.name, stmt.buffer.storage in _TILES
    in_any_order = tile and _kind_of(stmt) is not None
    if is_update and not in_any_order and _may_collide(stmt.indices, parallel):
        consequence = (
            "the result depends on their order, which is undefined; use one kind of update "
            "(+=, *=, max, min, &, |, ^), or loop with T.serial"
            if tile
            else f"all but one update may be lost; use T.atomic_add({name}[...], x), or a reduction"
        )
        yield Remark(
            "lost-update",
            f"parallel iterations update the same element of `{name}`, and {consequence}",
            stmt.loc,
        )


def _may_collide(indices: tuple[E.Expr, ...], parallel: dict[E.Var, object]) -> bool:
    """Whether some of the iterations surely name one element: no index has one of their variables,
    or there are fewer elements than iterations, as for ``i // 4``."""
    if any(load.buffer.storage in _PRIVATE for index in indices for load in E.find(index, E.Load)):
        return False
    if not {var for index in indices for var in index.variables}.issuperset(parallel):
        return True
    counts = [_number(extent) or 0 for extent in parallel.values()]
    bounds = Bounds().with_ranges((var, 0, max(n, 1), 1) for var, n in zip(parallel, counts))
    return prod(_span(index, bounds) for index in indices) < prod(counts)


def _span(index: E.Expr, bounds: Bounds) -> float:
    """The most values of an index where only the variables of ``bounds`` change."""
    moving = [t for t in form_of(index, bounds).terms if t[0].variables & bounds.ranges.keys()]
    values = [(interval(term, bounds), factor) for term, factor in moving]
    return 1 + sum((value.high - value.low) * abs(factor) for value, factor in values)


def _disordered(
    stmt: S.Store, parallel: dict[E.Var, object], reads: Iterable[_Read]
) -> Iterator[Remark]:
    """``s[i + 1] = s[i]``, ``if x[i] > s[0]: s[0] = i`` in parallel iterations: one reads what
    another writes, in no order."""
    extents = {var: count for var, extent in parallel.items() if (count := _number(extent))}
    varies = not stmt.value.variables.isdisjoint(parallel)
    shares, kind = varies and _may_collide(stmt.indices, parallel), _kind_of(stmt)
    for load, by in reads:
        is_shared = shares and by is not stmt and _is_same_element(load, stmt)
        if is_shared and kind is not None and _kind_of(by) == kind:
            continue  # updates of one kind give the same value in any order
        if is_shared or (load.buffer is stmt.buffer and _is_other_iteration(load, stmt, extents)):
            yield Remark(
                "order-of-iterations",
                f"an iteration of T.Parallel reads `{load!r}`, which another one writes, and "
                "their order is undefined; write to another tile, or loop with T.serial",
                stmt.loc,
            )
            return


def _is_other_iteration(load: E.Load, stmt: S.Store, extents: dict[E.Var, int]) -> bool:
    """Whether the two differ in one index, by a distance that iterations of a loop have."""
    differing = [(a, b) for a, b in zip(load.indices, stmt.indices) if a is not b]
    if len(differing) != 1:
        return False
    read, written = differing[0]
    distance = simplify(read - written)
    moved = [var for var, extent in extents.items() if var in written.variables]
    others = {var for other in stmt.indices if other is not written for var in other.variables}
    if not isinstance(distance, E.Const) or len(moved) != 1 or moved[0] in others:
        return False
    steps = isinstance(simplify(written - moved[0]), E.Const)
    return steps and 0 < abs(int(distance)) < extents[moved[0]]


def _outside(stmt: S.Stmt) -> Iterator[Remark]:
    """Elements of global tensors that no tensor of the declared shape has, and tiles that start
    past its end.

    Of tiles that is an error; of tensors such a read gives zero and such a write is dropped. What a
    condition selects may never be, so that nothing in an ``if`` or a choice counts.
    """
    if isinstance(stmt, S.If):
        return
    chosen = any(E.holds(expr, E.Select) for expr in stmt.exprs())
    for access in () if chosen else effects.accesses(stmt):
        if access.buffer.storage != "global" or access.where is None:
            continue
        tile = isinstance(access.where, Region)
        for dim, (index, extent) in enumerate(zip(access.indices, access.buffer.shape)):
            at, size = _number(index), _number(extent)
            if at is None or not size or (at < size and (tile or at >= -size)):
                continue
            subject = f"a tile starts at {at}," if tile else f"the index {at} is"
            yield Remark(
                "outside-tensor",
                f"{subject} outside of dimension {dim} of `{access.buffer.name}`, which has {size} "
                "elements: reads give 0 and writes are dropped; write an index from "
                f"{0 if tile else -size} to {size - 1}",
                stmt.loc,
            )
    for block in stmt.blocks():
        yield from _outside(block)


def _wrong_dimension(func: S.PrimFunc) -> Iterator[Remark]:
    """Copies whose tile is along a dimension that is shorter, from an anchor that steps by less
    than the tile, or near one that steps by the tile along a longer dimension: `A[b, 0, head, 0]`
    with rows in dimension 1 starts 64 heads at each head."""
    for stmt in S.find(func.body, S.Copy):
        for region in (stmt.src, stmt.dst):
            buffer = region.buffer
            if buffer.storage != "global":
                continue
            sizes = [_number(extent) for extent in buffer.shape]
            tile = [_number(extent) for extent in region.extents]
            for dim, (size, extent) in enumerate(zip(sizes, tile)):
                meant = [
                    other for other, full in enumerate(sizes)
                    if other != dim and tile[other] == 1 and (full is None or full >= (extent or 0))
                ]  # fmt: skip
                if size is None or extent is None or extent <= size or not meant:
                    continue
                anchor, (offset, *_) = region.mins[dim], [region.mins[other] for other in meant]
                moved = bool(anchor.variables or _number(anchor)) and not _steps_by(anchor, extent)
                if moved or (offset.variables and _steps_by(offset, extent)):
                    yield Remark(
                        "wrong-dimension",
                        f"the tile covers {extent} elements of dimension {dim} of `{buffer.name}`, "
                        f"whose extent is {size}, from `{anchor!r}` on; for {extent} elements of "
                        f"dimension {meant[0]} write the ranges, e.g. "
                        f"{_ranges(region, dim, meant[0], extent)}",
                        stmt.loc,
                    )


def _ranges(region: Region, dim: int, meant: int, extent: int) -> str:
    """The place of a tile with the range of one dimension in another."""
    ranges = []
    for at, (low, size) in enumerate(zip(region.mins, region.extents)):
        count = extent if at == meant else 1 if at == dim else _number(size)
        start = repr(low)
        if count == 1:
            ranges.append(start)
        else:
            ranges.append(f"{start}:{count}" if start == "0" else f"{start}:{start} + {count}")
    return f"{region.buffer.name}[{', '.join(ranges)}]"


def _steps_by(anchor: E.Expr, extent: int) -> bool:
    """Whether an anchor is a product with a multiple of ``extent``, as those of tiles in a row."""
    if isinstance(anchor, E.Binary) and anchor.op in ("add", "sub"):
        return _steps_by(anchor.a, extent) or _steps_by(anchor.b, extent)
    if isinstance(anchor, E.Binary) and anchor.op == "mul":
        return any((_number(side) or 1) % extent == 0 for side in (anchor.a, anchor.b))
    return isinstance(anchor, E.Cast) and _steps_by(anchor.value, extent)


def _number(value: object) -> int | None:
    if isinstance(value, E.Const):
        value = value.value
    return value if isinstance(value, int) and not isinstance(value, bool) else None
