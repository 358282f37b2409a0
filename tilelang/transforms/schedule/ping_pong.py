"""Two warpgroups of consumers take turns: one computes an item, both multiply by it.

Where both hold the same rows of what the first products of an item give (the scores of latent
attention), they read the operand of those rows twice, meet for each row that they reduce, and the
unit has nothing to do while they compute. Here an item belongs to one of them, which does alone
what the program computes of it. It hands on the operand of the last product (the weights) and what
later items need to know (maximum and sum), and both multiply that operand by their half of the
columns::

    first warpgroup                       second warpgroup
    own(0)
    for j in 0 .. pairs - 1:              for j in 0 .. pairs:
        other(2 j + 1)                        other(2 j)
        own(2 j + 2)                          own(2 j + 1)
    other(last)

    own(n):   first products, the computation, hand over, the last product from registers
    other(n): wait for what is handed over, the last product from shared memory

What ``other`` issues goes on beside the first products of ``own``, and both beside the computation
of the other warpgroup. Behind the first part of those products ``other`` waits for what it has
issued and frees its item: the copy of a later item into that tile does not wait for what the rest
of them waits for. One tile of weights is enough: who overwrites it is the only one that reads
it, behind what it has waited for, and has told the other nothing since. An mbarrier of each
direction says that it is there.

Done to a loop of an even number of items, whose pipelines hold an even number of versions, where
the weights are copied to a shared tile for the last product, each product has 64 rows, statements
on the sum of the last product are column by column, and a warpgroup has the registers and a block
the shared memory. Each pipeline becomes one for even and one for odd items, whose order is proved.
The tile through which the result leaves takes the place of an operand of the same shape, which
nobody reads when both warpgroups have come to the end of their loops.

Relied on: roles and the barriers of their pipelines, in the form that
``split_barriers_by_operand`` writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from math import prod
from typing import Any

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import schedule as H
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer, Region, Shape, same_extent
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.simplify import simplify
from tilelang.ir.tables import MBARRIER_ARRIVE, MBARRIER_WAIT
from tilelang.ir.visitor import ExprRewriter, rebuild, replace_buffers, rewrite_launches
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.target.nvidia import WARP_UNIFORM
from tilelang.transforms.analysis.groups import HANDED_OVER, thread_number
from tilelang.transforms.analysis.loops import trip_count
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.schedule.buffer_versions import Version, use_region, versioned
from tilelang.transforms.schedule.gemm_overlap import SPARE
from tilelang.transforms.schedule.n_split import (
    ROWS,
    Half,
    KeptError,
    ask,
    columns,
)
from tilelang.transforms.schedule.pipeline import more_noted
from tilelang.transforms.schedule.specialize_warps import WARPGROUP, shared_bytes
from tilelang.transforms.verify.schedule import refused

FULL_ROW = 1  # the policy of products: each warp has rows of its own
SHARED = ("shared", "shared.dyn")
ORDERED = ((HANDED_OVER, True),)
LEAD = 128  # of the sums of the first product: 8 instructions, about 256 cycles
RESERVE = 1024  # bytes of shared memory for barriers and what tiles are aligned to
_COMPUTES = (S.Copy, S.Fill, S.Reduce, S.Parallel)  # what an own item may be computed with


def schedule_ping_pong(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with consumers that take turns. The notes of their loops say so."""
    if context.options.no_overlap or context.sparing or not context.has("wgmma"):
        return func

    def taken(launch: S.Launch) -> S.Stmt:
        try:
            return _Turns(launch, context).launch()
        except KeptError:
            return launch

    return rewrite_launches(func, taken)


# -- what there is -----------------------------------------------------------------------------
@dataclass(frozen=True)
class _Item:
    """An iteration: the steps and ``first`` products, what is ``own`` to the warpgroup that has the
    item, the copy that ``stores`` the weights, statements ``split`` by columns, the ``last``
    product."""

    first: list[S.Gemm]
    own: list[S.Stmt]
    stores: S.Copy
    split: list[S.Stmt]
    last: S.Gemm
    waits: dict[E.Expr, H.Wait]
    frees: dict[E.Expr, H.Release]

    @property
    def sums(self) -> Buffer:
        """What the last product adds up."""
        return self.last.c.buffer

    @property
    def weights(self) -> Buffer:
        """The tile that it reads them from."""
        return self.last.a.buffer


def _item(loop: S.For, tiles: dict[E.Var, E.Var]) -> _Item:
    """The parts of an iteration; ``tiles``: of pipelines -> these."""
    items = S.flat(loop.body)
    gemms = [item for item in items if isinstance(item, S.Gemm)]
    ask(len(gemms) > 1)
    *first, last = gemms
    out, weights = last.c.buffer.data, last.a.buffer.data
    rest = [item for item in items if not isinstance(item, (S.Gemm, H.Wait, H.Release))]
    ask(all(isinstance(item, _COMPUTES) for item in rest))
    ask(all(isinstance(item, H.Release) for item in items[items.index(last) + 1 :]))
    ask(min(map(items.index, rest)) > max(map(items.index, first)))
    stores = [item for item in rest if weights in effects.used(item)]
    split = [item for item in rest if out in effects.used(item)]
    own = [item for item in rest if item not in stores and item not in split]
    copy = stores[0] if len(stores) == 1 and stores[0] not in split else None
    if not isinstance(copy, S.Copy):
        raise KeptError
    ask(copy.mode == "copy" and copy.src.is_whole and copy.dst.is_whole)
    ask(copy.dst.buffer.data is weights and copy.src.buffer.storage == FRAGMENT)
    ask(weights not in tiles and last.a.is_whole and not last.trans_a and not last.trans_b)
    ask(_is_product(last, tiles) and all(_is_product(one, tiles) for one in first))
    ask(last.c.is_whole and isinstance(last.clear, E.Const) and not last.clear.value)
    ask(isinstance(last.c.extents[1], int) and last.c.extents[1] % (2 * 16) == 0)
    for one in first:
        ask(one.a.buffer.storage in SHARED and one.a.buffer.data not in tiles)
        ask(one.c.buffer.data is not out and weights not in effects.used(one))
    ask(not any(data in tiles for item in rest for data in effects.used(item)))
    # What the columns need is what an item has at its end; statements on them may stand behind
    # all others.
    for k, item in enumerate(rest):
        behind = [other for other in rest[k + 1 :] if item in split and other not in split]
        ask(not any(_conflict(item, other) for other in behind))
    waits: dict[E.Expr, H.Wait] = {x.pipe: x for x in items if isinstance(x, H.Wait)}
    frees: dict[E.Expr, H.Release] = {x.pipe: x for x in items if isinstance(x, H.Release)}
    steps = [item for item in items if isinstance(item, H.PipelineStep)]
    ask(len(steps) == len(waits) + len(frees) and waits.keys() == frees.keys())
    ask(all(step.number is loop.var for step in steps))
    return _Item(first, own, copy, split, last, waits, frees)


def _is_product(gemm: S.Gemm, tiles: dict[E.Var, E.Var]) -> bool:
    """Whether ``gemm`` adds up 64 rows of products with a tile of a pipeline."""
    whole = gemm.c.is_whole and gemm.c.buffer.storage == FRAGMENT and gemm.c.buffer.ndim == 2
    plain = gemm.barrier is None and not gemm.asynchronous and not gemm.annotations
    narrow = gemm.a.dtype.bits == gemm.b.dtype.bits == 16 and gemm.c.dtype == "float32"
    return (
        whole and plain and narrow and same_extent(gemm.c.extents[0], ROWS)
        and gemm.b.buffer.data in tiles
    )  # fmt: skip


def _conflict(one: S.Stmt, other: S.Stmt) -> bool:
    """Whether one of both writes what the other uses."""
    return not (
        effects.written(one).isdisjoint(effects.used(other))
        and effects.written(other).isdisjoint(effects.used(one))
    )


def _known_rows(item: _Item, order: Iterable[S.Stmt]) -> list[Buffer]:
    """Fragments that an item finds as the item before has left them, and those that the statements
    on columns read: what is handed on."""
    found: dict[E.Var, Buffer] = {}
    complete: set[E.Var] = {item.sums.data}
    for stmt in order:
        uses = [one for one in effects.accesses(stmt, nested=True) if _in_registers(one)]
        for access in uses:
            early = access.data not in complete and not _covers(stmt, access)
            asked = stmt in item.split and access.data is not item.sums.data
            if early or asked:
                found.setdefault(access.data, access.buffer)
        complete |= {access.data for access in uses if _covers(stmt, access)}
    for buffer in found.values():
        ask(buffer.ndim == 1 and isinstance(buffer.shape[0], int) and buffer.shape[0] <= ROWS)
    return list(found.values())


def _in_registers(access: effects.Access) -> bool:
    return access.buffer.storage == FRAGMENT


def _covers(stmt: S.Stmt, access: effects.Access) -> bool:
    """Whether ``stmt`` overwrites all of what it accesses there."""
    if not access.writes:
        return False
    if isinstance(stmt, S.Gemm):
        return isinstance(stmt.clear, E.Const) and bool(stmt.clear.value) and stmt.c.is_whole
    if isinstance(stmt, S.Reduce):
        return stmt.clear and stmt.dst.is_whole
    if isinstance(stmt, S.Parallel) and isinstance(stmt.body, S.Store):
        whole = Shape(stmt.extents) == access.buffer.shape
        return whole and E.same_exprs(access.indices, stmt.vars)
    return isinstance(access.where, Region) and access.where.is_whole and access.mode == "write"


def _parts(role: H.Role) -> tuple[list[S.Stmt], S.For, list[S.Stmt]]:
    """The statements of ``role`` before the loop that uses items, or fills them, the loop, and the
    statements behind it."""
    items = S.flat(role.body)
    spots = [k for k, one in enumerate(items) if any(map(_is_step, S.walk(one)))]
    loop = items[spots[0]] if len(spots) == 1 else None
    if not isinstance(loop, S.For) or loop.kind != "serial":
        raise KeptError
    start, step = loop.start, loop.step
    ask(isinstance(start, E.Const) and not start.value)
    ask(isinstance(step, E.Const) and step.value == 1)
    return list(items[: spots[0]]), loop, list(items[spots[0] + 1 :])


def _is_step(stmt: S.Stmt) -> bool:
    return isinstance(stmt, H.PipelineStep)


# -- one item ----------------------------------------------------------------------------------
class _At(ExprRewriter):
    """Copies statements of the item ``var`` for the item ``number`` of the pipelines of its kind,
    with buffers of one warpgroup."""

    kinds = (E.Load, E.AddressOf, E.RegionArg, E.Var)

    def __init__(
        self, values: dict[E.Var, E.Expr], tiles: dict[E.Var, Buffer], number: E.Expr,
        names: dict[Buffer, Buffer],
    ) -> None:  # fmt: skip
        self.values, self.number, self.names = values, number, names
        self.versions = {}
        for data, buffer in tiles.items():
            assert isinstance(buffer.shape[0], int)
            self.versions[data] = Version(buffer, simplify(number % buffer.shape[0]))

    def buffer(self, buffer: Buffer) -> Buffer:
        """The buffer of the warpgroup."""
        return self.names.get(buffer, buffer)

    def node(self, expr: E.Expr) -> E.Expr:
        """``expr`` with values and buffers."""
        if isinstance(expr, E.Var):
            return self.values.get(expr, expr)
        made = rebuild(expr, self.expr, self.buffer)
        return simplify(made) if made.dtype.is_integer else made

    def _visit_operand(self, old: Any) -> Any:
        made = super()._visit_operand(old)
        if isinstance(made, Region) and made.buffer.data in self.versions:
            tile = Region(made.buffer, made.mins[1:], made.extents[1:])
            return use_region(tile, self.versions)
        return made

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, H.Wait):
            return replace(stmt, number=self.number, ahead=0)  # mbarriers are of one item
        if isinstance(stmt, H.PipelineStep):
            return replace(stmt, number=self.number)
        return replace(stmt)


@dataclass
class _Group:
    """What a warpgroup has: its place among both, its buffers."""

    place: int
    sums: Buffer
    weights: Buffer
    names: dict[Buffer, Buffer] = field(default_factory=dict)


class _Turns:
    """Rewrites one launch."""

    def __init__(self, launch: S.Launch, context: Context) -> None:
        self.whole, self.context = launch, context
        ask(launch.annotation("layout_map") is None)
        self.pipelines: list[H.Pipeline] = []
        self.front = list(S.flat(launch.body))
        ask(self.front)
        body: S.Stmt = self.front.pop()
        while isinstance(body, H.Pipeline):
            self.pipelines.append(body)
            body = body.body
        if not self.pipelines or not isinstance(body, H.Roles) or len(body.branches) != 2:
            raise KeptError
        ask(not S.holds(launch.body, H.Run, S.View))
        producer, consumers = body.branches
        assert isinstance(producer, H.Role) and isinstance(consumers, H.Role)
        ask(producer.name == "producer" and consumers.count == 2 * WARPGROUP)
        self.roles, self.producer, self.consumers = body, producer, consumers
        self.stages = self.pipelines[0].stages
        ask(all(one.stages == self.stages and one.mechanism == "bulk" for one in self.pipelines))
        ask(self.stages % 2 == 0)
        self.tiles = {data: pipe.pipe for pipe in self.pipelines for data in pipe.tiles}
        self.before, self.loop, self.after = _parts(self.consumers)
        self.item = _item(self.loop, self.tiles)
        count = trip_count(self.loop)
        ask(count is not None and count >= 2 and count % 2 == 0)
        self.pairs = (count or 0) // 2
        order = [*self.item.first, *self.item.own, self.item.stores, *self.item.split]
        self.known = _known_rows(self.item, order)
        self.split_names()

    def split_names(self) -> None:
        """Tiles with versions for even and odd items, and both pipelines of each."""
        allocs = {node.buffer.data: node.buffer for node in self.front if isinstance(node, S.Alloc)}
        ask(all(data in allocs for data in self.tiles))
        half = self.stages // 2
        self.kinds: list[dict[E.Var, Buffer]] = []
        self.pipes: list[dict[E.Var, E.Expr]] = []
        for _ in range(2):
            tiles = {data: allocs[data] for data in self.tiles}
            self.kinds.append({
                data: versioned(replace(tile, shape=Shape(tile.shape[1:])), half)
                for data, tile in tiles.items()
            })  # fmt: skip
            self.pipes.append({x.pipe: E.Var("p", x.pipe.dtype) for x in self.pipelines})

    # -- the form ----------------------------------------------------------------------------------
    def launch(self) -> S.Launch:
        """The launch with its consumers by turns."""
        self.leave_by()
        inside, outside = self.sides(self.before, first=True)
        then, beyond = self.sides(self.after, first=False)
        inside = [item for item in inside if not isinstance(item, S.Alloc)]
        weights = self.item.weights
        used = {data for item in (*outside, *beyond) for data in effects.used(item)}
        ask(not any(isinstance(item, S.Alloc) for item in (*then, *beyond)))
        ask(not any(weights.data in effects.used(item) for item in (*inside, *then, *beyond)))
        ordered = {weights: replace(weights, attrs=(*weights.attrs, *ORDERED))}
        attrs = (("arrive_counts", (WARPGROUP, WARPGROUP)),)
        self.bars = Buffer("handed", Shape((2,)), DType("uint64"), "shared.barrier", attrs=attrs)
        self.handed = [self.rows(weights.storage) for _ in range(2)]
        asked = {
            data for item in (*self.before, self.loop, *self.after)
            if not isinstance(item, S.Alloc) for data in effects.used(item)
        }  # fmt: skip
        fragments = [
            item.buffer for item in self.before
            if isinstance(item, S.Alloc) and _fragments(item) and item.buffer.data in asked
        ]  # fmt: skip
        ask(used.isdisjoint(one.data for one in fragments))
        self.check_data(fragments, inside, then)
        groups = [self.group(place, fragments) for place in range(2)]
        forms = [
            [self.role(group, inside, then, proved) for group in groups] for proved in (True, False)
        ]
        proved, run = (self.assembled(roles, outside, beyond) for roles in forms)
        ask(not refused(proved))
        ask(self.fits(run))
        made = replace_buffers(run, ordered)
        assert isinstance(made, S.Launch)
        return made

    def check_data(self, fragments: list[Buffer], inside: list[S.Stmt], then: list[S.Stmt]) -> None:
        """Whether a warpgroup has all that it reads: nothing that the other one makes elsewhere
        than in what is handed over, or has written to memory."""
        made, looped = effects.written(self.whole.body), effects.written(self.loop.body)
        item = self.item
        products = (*item.first, item.last)
        ask(all(one.c.buffer in fragments for one in products))
        ask(looped.isdisjoint(one.a.buffer.data for one in item.first))
        for stmt in (*item.own, *item.split, *inside, *then):
            uses = list(effects.accesses(stmt, nested=True))
            outer = [one for one in uses if not _in_registers(one)]
            writes = [one for one in uses if one.writes]
            ask(all(one.buffer in fragments for one in uses if _in_registers(one)))
            ask(not any(one.reads and one.data in made for one in outer))
            apart = all(map(_in_registers, writes)) or not any(map(_in_registers, writes))
            ask(apart if stmt in then else all(map(_in_registers, writes)))
        known = {one.data for one in (*self.known, item.sums)}
        ask(not any(effects.used(stmt) & looped - known for stmt in then))

    def rows(self, scope: str) -> dict[Buffer, Buffer]:
        """The tiles in which one of both tells the other what it knows of rows."""
        return {
            row: Buffer(f"{row.name}_handed", row.shape, row.dtype, scope, attrs=ORDERED)
            for row in self.known
        }

    def leave_by(self) -> None:
        """Let results leave by the place of an operand, instead of by a tile of their own."""
        tiles = {
            item.buffer.data: (item, item.buffer) for item in self.before
            if isinstance(item, S.Alloc) and item.buffer.storage in SHARED
        }  # fmt: skip
        elsewhere = {
            data for item in (*self.before, self.loop) if not isinstance(item, S.Alloc)
            for data in effects.used(item)
        }  # fmt: skip
        later = {data for item in self.after for data in effects.used(item)}
        free = [one.a.buffer for one in self.item.first if one.a.buffer.data not in later]
        for item in self.after:
            if not isinstance(item, S.Copy) or item.src.buffer is not self.item.sums:
                continue
            alloc, tile = tiles.get(item.dst.buffer.data, (None, None))
            place = next(
                (one for one in free if tile is not None and _alike(one, tile)), None
            )  # fmt: skip
            if tile is not None and place is not None and tile.data not in elsewhere:
                self.after = [replace_buffers(one, {tile: place}) for one in self.after]
                self.before = [one for one in self.before if one is not alloc]
            return

    def sides(self, items: list[S.Stmt], first: bool) -> tuple[list[S.Stmt], list[S.Stmt]]:
        """``items`` that each warpgroup does for itself, as they use fragments, and those that both
        do together, ``first`` or behind the others."""
        inside = [item for item in items if _fragments(item)]
        outside = [item for item in items if not _fragments(item)]
        ask(all(isinstance(item, (*_COMPUTES, S.Alloc)) for item in inside))
        for k, item in enumerate(items):
            for other in items[k + 1 :]:
                moved = (item in inside) is first and (other in inside) is not first
                ask(not moved or isinstance(item, S.Alloc) or not _conflict(item, other))
        return inside, outside

    def group(self, place: int, fragments: list[Buffer]) -> _Group:
        """The buffers of a warpgroup."""
        old, weights = self.item.sums, self.item.weights
        assert isinstance(old.shape[1], int)
        sums = Buffer(old.name, Shape((ROWS, old.shape[1] // 2)), old.dtype, FRAGMENT)
        kept = Buffer(weights.name, weights.shape, weights.dtype, FRAGMENT)
        names = {
            one: Buffer(one.name, one.shape, one.dtype, FRAGMENT, attrs=one.attrs)
            for one in fragments if one is not old
        }  # fmt: skip
        tiles = [sums, kept, *names.values()]
        extents = [[n for n in one.shape if isinstance(n, int)] for one in tiles]
        ask(all(len(known) == one.ndim for known, one in zip(extents, tiles)))
        bits = sum(prod(known) * one.dtype.bits for known, one in zip(extents, tiles))
        most = self.context.limits.registers_at_start(prod(self.whole.threads))
        ask(bits // 32 // WARPGROUP <= (self.consumers.registers or most) - SPARE)
        return _Group(place, sums, kept, names)

    def role(self, group: _Group, inside: list[S.Stmt], then: list[S.Stmt], proved: bool) -> H.Role:
        """What one warpgroup does, in the form that is ``proved`` or in that which is run."""
        loop = self.loop
        j, zero = E.Var(loop.var.name, loop.var.dtype), E.const(0)
        stop = E.const(self.pairs)
        turns = "they take turns to compute items and hand their operand over"
        noted = more_noted(loop, turns)
        made: list[S.Stmt] = [
            *(S.Alloc(buffer=tile) for tile in (group.sums, group.weights)),
            *(S.Alloc(buffer=tile) for tile in group.names.values()),
            *self.around(group, inside),
        ]
        if group.place:
            body = self.step(group, j, j)
            made.append(replace(noted, var=j, stop=stop, body=S.seq(*body)))
        elif proved:
            body = self.step(group, j, simplify(j + 1), stop)
            made += [*self.first(group, zero), *self.rest(group, zero)]
            made.append(replace(loop, var=j, stop=stop, body=S.seq(*body)))
        else:
            last = E.const(self.pairs - 1)
            body = self.step(group, j, simplify(j + 1))
            begin = [*self.first(group, zero), *self.rest(group, zero)]
            made.append(S.If(cond=self.is_first(), then=S.seq(*begin), loc=loop.loc))
            made.append(replace(noted, var=j, stop=last, body=S.seq(*body)))
            made += [*self.other(group, last), self.freed(group, last)]
        made += self.around(group, then)
        return H.Role(
            name=("first", "second")[group.place], first=group.place * WARPGROUP, count=WARPGROUP,
            body=S.seq(*made), loc=self.consumers.loc,
        )  # fmt: skip

    def is_first(self) -> E.Expr:
        """What holds for all threads of the first warpgroup, in words that the device's compiler
        does not see through: if it knew that the item before the loop comes first, it would keep
        the addresses of its products for those in the loop (564 bytes of registers spilled)."""
        thread = thread_number(self.whole)
        return E.call(WARP_UNIFORM, thread // WARPGROUP).equal(0)

    def around(self, group: _Group, items: list[S.Stmt]) -> list[S.Stmt]:
        """Statements outside of the loop, of which the first warpgroup does alone what it need not
        share."""
        made = []
        for item in items:
            uses = effects.accesses(item, nested=True)
            alone = all(_in_registers(one) for one in uses if one.writes)
            if self.item.sums.data in effects.used(item):
                made.append(replace_buffers(self.half(group).of(item), group.names))
            elif alone or not group.place:
                made.append(replace_buffers(replace(item), group.names))
        return made

    def half(self, group: _Group) -> Half:
        """Statements by the columns of a warpgroup."""
        return Half(self.item.sums, group.sums, group.place)

    def at(self, group: _Group, kind: int, number: E.Expr) -> _At:
        """Statements of a warpgroup, of the item ``2 number + kind``."""
        return self.item_of(self.loop.var, kind, number, group.names)

    def item_of(
        self, var: E.Var, kind: int, number: E.Expr, names: dict[Buffer, Buffer] | None = None
    ) -> _At:  # fmt: skip
        """Statements of the item ``2 number + kind`` instead of ``var``."""
        values = {var: simplify(number * 2 + kind), **self.pipes[kind]}
        return _At(values, self.kinds[kind], number, names or {})

    def last(self, group: _Group, kind: int, number: E.Expr, weights: Buffer) -> list[S.Stmt]:
        """The last product with its columns, and what is computed of these before."""
        at, gemm, half = self.at(group, kind, number), self.item.last, self.half(group)
        b = columns(gemm.b, gemm.b.buffer.ndim - 1, half.first, half.count)
        return [
            *(at.rewrite(half.of(item)) for item in self.item.split),
            at.rewrite(replace(
                gemm, a=weights.whole(), b=b, c=group.sums.whole(), policy=FULL_ROW
            )),
        ]  # fmt: skip

    def step(
        self, group: _Group, other: E.Expr, own: E.Expr, stop: E.Expr | None = None
    ) -> list[S.Stmt]:
        """An iteration: an item of the other warpgroup, and one of its own if that comes before
        ``stop``."""
        lead, more = self.led(self.first(group, own))
        later = [*more, *self.rest(group, own)]
        if stop is not None:
            exists, loc = simplify(own < stop), self.loop.loc
            lead = [S.If(cond=exists, then=S.seq(*lead), loc=loc)]
            later = [S.If(cond=exists, then=S.seq(*later), loc=loc)]
        return [*self.other(group, other), *lead, self.freed(group, other), *later]

    def led(self, stmts: list[S.Stmt]) -> tuple[list[S.Stmt], list[S.Stmt]]:
        """First products up to those that the unit has to do while the item before is freed, which
        waits for its last product, and the others. Behind all of them the tile of that item would
        come back later by what they wait for."""
        at, gemm = next((k, one) for k, one in enumerate(stmts) if isinstance(one, S.Gemm))
        of_a, of_b = gemm.a.buffer.ndim - 1 - gemm.trans_a, gemm.b.buffer.ndim - 2 + gemm.trans_b
        depth = gemm.a.extents[of_a]
        if not isinstance(depth, int) or depth <= LEAD:
            return stmts, []
        parts = [
            replace(gemm, a=columns(gemm.a, of_a, *part), b=columns(gemm.b, of_b, *part))
            for part in ((0, LEAD), (LEAD, depth - LEAD))
        ]
        then = replace(parts[1], clear=E.const(False))
        return [*stmts[:at], parts[0]], [then, *stmts[at + 1 :]]

    def first(self, group: _Group, number: E.Expr) -> list[S.Stmt]:
        """The first products of an item of the warpgroup."""
        at, item = self.at(group, group.place, number), self.item
        made: list[S.Stmt] = []
        for pipe in item.waits:
            gemms = [one for one in item.first if self.tiles[one.b.buffer.data] is pipe]
            made += [at.rewrite(item.waits[pipe])] if gemms else []
            made += (at.rewrite(replace(one, policy=FULL_ROW)) for one in gemms)
        return made

    def rest(self, group: _Group, number: E.Expr) -> list[S.Stmt]:
        """What follows on the first products of an item of the warpgroup."""
        at, item, weights = self.at(group, group.place, number), self.item, group.weights
        firsts = {self.tiles[one.b.buffer.data] for one in item.first}
        final = self.tiles[item.last.b.buffer.data]
        told = E.AddressOf(self.bars, (E.const(group.place),))
        return [
            *(at.rewrite(item.frees[pipe]) for pipe in item.waits if pipe in firsts - {final}),
            *map(at.rewrite, item.own),
            at.rewrite(replace(item.stores, dst=weights.whole())),
            S.Copy(src=weights.whole(), dst=item.weights.whole(), loc=item.stores.loc),
            *(
                S.Copy(src=group.names[row].whole(), dst=tile.whole(), loc=item.stores.loc)
                for row, tile in self.handed[group.place].items()
            ),
            S.do(MBARRIER_ARRIVE, told, loc=item.stores.loc),
            *([] if final in firsts else [at.rewrite(item.waits[final])]),
            *self.last(group, group.place, number, weights),
            at.rewrite(item.frees[final]),
        ]

    def other(self, group: _Group, number: E.Expr) -> list[S.Stmt]:
        """The last product of an item of the other warpgroup, behind what that tells."""
        kind, item = 1 - group.place, self.item
        at, final = self.at(group, kind, number), self.tiles[item.last.b.buffer.data]
        told = E.AddressOf(self.bars, (E.const(kind),))
        return [
            S.do(MBARRIER_WAIT, told, simplify(number % 2), loc=item.stores.loc),
            *(
                S.Copy(src=tile.whole(), dst=group.names[row].whole(), loc=item.stores.loc)
                for row, tile in self.handed[kind].items()
            ),
            at.rewrite(item.waits[final]),
            *self.last(group, kind, number, item.weights),
        ]

    def freed(self, group: _Group, number: E.Expr) -> S.Stmt:
        """The end of what :meth:`other` issues."""
        final = self.tiles[self.item.last.b.buffer.data]
        return self.at(group, 1 - group.place, number).rewrite(self.item.frees[final])

    # -- the launch --------------------------------------------------------------------------------
    def assembled(
        self, roles: list[H.Role], outside: list[S.Stmt], beyond: list[S.Stmt]
    ) -> S.Launch:
        """The launch with ``roles`` for the consumers, between what these do together."""
        tiles = [S.Alloc(buffer=tile) for known in self.handed for tile in known.values()]
        inner = H.Roles(branches=tuple(roles))
        consumers = replace(self.consumers, body=S.seq(*outside, *tiles, inner, *beyond))
        body: S.Stmt = H.Roles(branches=(self.filled(), consumers))
        for pipeline in reversed(self.pipelines):
            for tiles_of, pipes in zip(self.kinds[::-1], self.pipes[::-1]):
                pipe = pipes[pipeline.pipe]
                assert isinstance(pipe, E.Var)
                names = tuple(tiles_of[data].data for data in pipeline.tiles)
                body = replace(
                    pipeline, pipe=pipe, tiles=names, stages=self.stages // 2, body=body
                )  # fmt: skip
        front: list[S.Stmt] = [S.Alloc(buffer=self.bars)]
        for item in self.front:
            versions = isinstance(item, S.Alloc) and item.buffer.data in self.tiles
            assert not versions or isinstance(item, S.Alloc)
            front += (
                [replace(item, buffer=kind[item.buffer.data]) for kind in self.kinds]
                if isinstance(item, S.Alloc) and versions else [item]
            )  # fmt: skip
        return replace(self.whole, body=S.seq(*front, body))

    def filled(self) -> H.Role:
        """The producer, which fills an even and an odd item by turns."""
        before, loop, after = _parts(self.producer)
        items = S.flat(loop.body)
        ask(trip_count(loop) == 2 * self.pairs)
        ask(all(isinstance(item, (H.PipelineStep, S.Copy)) for item in items))
        ask(all(item.number is loop.var for item in items if isinstance(item, H.PipelineStep)))
        j = E.Var(loop.var.name, loop.var.dtype)
        body = [
            self.item_of(loop.var, kind, j).rewrite(item) for kind in range(2) for item in items
        ]
        made = replace(loop, var=j, stop=E.const(self.pairs), body=S.seq(*body))
        return replace(self.producer, body=S.seq(*before, made, *after))

    def fits(self, launch: S.Launch) -> bool:
        """Whether the tiles of ``launch`` have room beside each other."""
        return shared_bytes(launch) + RESERVE <= self.context.limits.shared_block


def _fragments(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` has to do with what threads have in registers."""
    return any(map(_in_registers, effects.accesses(stmt, nested=True)))


def _alike(one: Buffer, other: Buffer) -> bool:
    """Whether the tiles can take each other's place."""
    return (one.shape, one.dtype, one.storage) == (other.shape, other.dtype, other.storage)
