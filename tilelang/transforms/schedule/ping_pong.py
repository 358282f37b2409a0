"""Ping-pong scheduling: two consumer warpgroups alternate iterations, and both multiply.

Where both warpgroups own the same rows of the first products (the scores of latent attention), they
read the operand of those rows twice, synchronize for each row that they reduce, and leave the
tensor core idle while they compute. Here each iteration belongs to one warpgroup, which alone
computes the first products and what follows them. It passes the operand of the last product (the
weights) and the loop-carried values (maximum and sum) to the other warpgroup. Both multiply that
operand by their half of the columns::

    first warpgroup                       second warpgroup
    own(0)
    for j in 0 .. pairs - 1:              for j in 0 .. pairs:
        other(2 j + 1)                        other(2 j)
        own(2 j + 2)                          own(2 j + 1)
    other(last)

    own(n):   first products, the computation, signal, the last product from registers
    other(n): wait for the signal, the last product from shared memory

The products of ``other`` overlap the first products of ``own``, and both overlap the computation of
the other warpgroup. After the first part of its products ``other`` waits for them and releases
their stage, so that the next copy into that tile need not wait for the remaining products. One tile
of weights is enough: a warpgroup overwrites it only after its own wait, when no other warpgroup
reads it. One mbarrier per direction signals that the tile is complete.

Conditions: the loop has an even number of iterations and its pipelines an even number of versions;
the weights are copied to a shared tile for the last product; each product has 64 rows; statements
on the last accumulator work column by column; registers and shared memory suffice. Each pipeline is
split into one for even and one for odd iterations, whose order is proved. The tile through which
the result is stored reuses an operand of the same shape, which nothing reads after the loops.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from math import prod

from tilelang.ir import effects, expr as E, schedule as H, stmt as S
from tilelang.ir.buffer import Buffer, Region, Shape, is_same_extent
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import BufferHints
from tilelang.ir.launch_schedule import Schedule
from tilelang.ir.simplify import simplify
from tilelang.ir.tables import MBARRIER_ARRIVE, MBARRIER_WAIT
from tilelang.ir.visitor import map_stmts, replace_buffers, without_allocations
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.target.operations import WARP_UNIFORM
from tilelang.transforms.analysis.groups import thread_number
from tilelang.transforms.analysis.loops import trip_count
from tilelang.transforms.analysis.scopes import FRAGMENT, is_fragment
from tilelang.transforms.schedule.buffer_versions import UseVersions, versioned
from tilelang.transforms.schedule.gemm_overlap import substituted
from tilelang.transforms.schedule.iteration import SHARED, may_conflict, shared_bytes
from tilelang.transforms.schedule.legality import Facts, NotLegalError
from tilelang.transforms.schedule.n_split import FORM, ROWS, ColumnHalf, columns, require
from tilelang.transforms.schedule.pipeline import StageWriter, append_note
from tilelang.transforms.schedule.specialize_warps import (
    WARPGROUP,
    RoleWriter,
    fits_in_registers,
)
from tilelang.transforms.verify.schedule import is_uncertain

FULL_ROW = 1  # the policy of products: each warp has rows of its own
ORDERED = BufferHints(handed_over=True)
LEAD = 128  # of the sums of the first product: 8 instructions, about 256 cycles
RESERVE = 1024  # bytes of shared memory for barriers and what tiles are aligned to
_COMPUTES = (S.Copy, S.Fill, S.Reduce, S.Parallel)  # statements that may follow the first products


def alternate_warpgroups(roles: RoleWriter, schedule: Schedule, facts: Facts) -> S.Launch:
    """The launch of ``roles`` with consumers in ping-pong, and a note on each of their loops."""
    return _PingPong(roles, facts.context).launch()


# -- queries -----------------------------------------------------------------------------
@dataclass(frozen=True)
class _Iteration:
    """An iteration: the ``first`` products, statements that are ``own`` to its warpgroup,
    the copy that ``stores`` the weights, statements ``split`` by columns, and the ``last``
    product."""

    first: list[S.Gemm]
    own: list[S.Stmt]
    stores: S.Copy
    split: list[S.Stmt]
    last: S.Gemm

    @property
    def sums(self) -> Buffer:
        """The accumulator of the last product."""
        return self.last.c.buffer

    @property
    def weights(self) -> Buffer:
        """The tile that it reads them from."""
        return self.last.a.buffer


def _match_iteration(body: Sequence[S.Stmt], tiles: Collection[E.Var]) -> _Iteration:
    """The parts of the iteration ``body``; ``tiles``: those that are copied ahead."""
    stmts = list(body)
    gemms = [stmt for stmt in stmts if isinstance(stmt, S.Gemm)]
    require(len(gemms) > 1)
    *first, last = gemms
    out, weights = last.c.buffer.data, last.a.buffer.data
    rest = [stmt for stmt in stmts if not isinstance(stmt, S.Gemm)]
    require(all(isinstance(stmt, _COMPUTES) for stmt in rest))
    require(rest and stmts[-1] is last)
    require(min(map(stmts.index, rest)) > max(map(stmts.index, first)))
    stores = [stmt for stmt in rest if weights in effects.used(stmt)]
    split = [stmt for stmt in rest if out in effects.used(stmt)]
    own = [stmt for stmt in rest if stmt not in stores and stmt not in split]
    copy = stores[0] if len(stores) == 1 and stores[0] not in split else None
    if not isinstance(copy, S.Copy):
        raise NotLegalError(FORM)
    require(copy.mode == "copy" and copy.src.is_whole and copy.dst.is_whole)
    require(copy.dst.buffer.data is weights and copy.src.buffer.storage == FRAGMENT)
    require(weights not in tiles and last.a.is_whole and not last.trans_a and not last.trans_b)
    require(_is_product(last, tiles) and all(_is_product(gemm, tiles) for gemm in first))
    require(last.c.is_whole and isinstance(last.clear, E.Const) and not last.clear.value)
    require(isinstance(last.c.extents[1], int) and last.c.extents[1] % (2 * 16) == 0)
    for gemm in first:
        require(gemm.a.buffer.storage in SHARED and gemm.a.buffer.data not in tiles)
        require(gemm.c.buffer.data is not out and weights not in effects.used(gemm))
    require(not any(data in tiles for stmt in rest for data in effects.used(stmt)))
    # Statements on the columns use values of the end of an iteration; they may be moved after
    # all others.
    for k, stmt in enumerate(rest):
        later = [other for other in rest[k + 1 :] if stmt in split and other not in split]
        require(not any(may_conflict([stmt], [other]) for other in later))
    return _Iteration(first, own, copy, split, last)


def _is_product(gemm: S.Gemm, tiles: Collection[E.Var]) -> bool:
    """Whether ``gemm`` adds up 64 rows of products with a tile of a pipeline."""
    is_whole = gemm.c.is_whole and gemm.c.buffer.storage == FRAGMENT and gemm.c.buffer.ndim == 2
    plain = gemm.barrier is None and not gemm.asynchronous and not gemm.hints
    narrow = gemm.a.dtype.bits == gemm.b.dtype.bits == 16 and gemm.c.dtype == "float32"
    return (
        is_whole and plain and narrow and is_same_extent(gemm.c.extents[0], ROWS)
        and gemm.b.buffer.data in tiles
    )  # fmt: skip


def _carried_rows(iteration: _Iteration, order: Iterable[S.Stmt]) -> list[Buffer]:
    """Loop-carried fragments of an iteration, and those that the statements
    on columns read: the values that are passed to the other warpgroup."""
    fragments: dict[E.Var, Buffer] = {}
    complete: set[E.Var] = {iteration.sums.data}
    for stmt in order:
        uses = [access for access in effects.accesses(stmt, nested=True) if is_fragment(access)]
        for access in uses:
            early = access.data not in complete and not _covers(stmt, access)
            if early or (stmt in iteration.split and access.data is not iteration.sums.data):
                fragments.setdefault(access.data, access.buffer)
        complete |= {access.data for access in uses if _covers(stmt, access)}
    for buffer in fragments.values():
        require(buffer.ndim == 1 and isinstance(buffer.shape[0], int) and buffer.shape[0] <= ROWS)
    return list(fragments.values())


def _covers(stmt: S.Stmt, access: effects.Access) -> bool:
    """Whether ``stmt`` overwrites all elements that it accesses there."""
    if not access.writes:
        return False
    if isinstance(stmt, S.Gemm):
        return isinstance(stmt.clear, E.Const) and bool(stmt.clear.value) and stmt.c.is_whole
    if isinstance(stmt, S.Reduce):
        return stmt.clear and stmt.dst.is_whole
    if isinstance(stmt, S.Parallel) and isinstance(stmt.body, S.Store):
        is_whole = Shape(stmt.extents) == access.buffer.shape
        return is_whole and E.are_same_exprs(access.indices, stmt.vars)
    return isinstance(access.where, Region) and access.where.is_whole and access.mode == "write"


@dataclass
class _Group:
    """A warpgroup: its index (0 or 1) and its buffers."""

    index: int
    sums: Buffer
    weights: Buffer
    names: dict[Buffer, Buffer]


class _PingPong:
    """Rewrites one launch."""

    def __init__(self, roles: RoleWriter, context: Context) -> None:
        self.roles, self.whole, self.context = roles, roles.launch, context
        require(not self.whole.hints.layout_map and len(roles.loops) == 1)
        require(roles.threads == 2 * WARPGROUP and not S.holds(self.whole.body, S.View))
        (self.writer,) = roles.loops.values()
        plan, self.loop = self.writer.plan, self.writer.serial(roles.note)
        require(plan.mechanism.name == "bulk" and not self.writer.choice.runs)
        start, step = self.loop.start, self.loop.step
        require(isinstance(start, E.Const) and not start.value)
        require(isinstance(step, E.Const) and step.value == 1)
        require(plan.stages % 2 == 0, "its tiles have an odd number of versions")
        at = next((k for k, stmt in enumerate(roles.work) if stmt is plan.loop), None)
        if at is None:
            raise NotLegalError(FORM)
        begin = S.seq(*roles.work[:at], *self.writer.before)
        self.before = [*S.flat(without_allocations(begin, roles.tiles))]
        self.after = [*roles.work[at + 1 :]]
        outside = {data for stmt in (*self.before, *self.after) for data in effects.used(stmt)}
        require(outside.isdisjoint(roles.tiles))
        self.iteration = _match_iteration(self.writer.stmts, roles.tiles)
        count = trip_count(self.loop)
        even = count is not None and count >= 2 and count % 2 == 0
        require(even, "its number of iterations is odd, or not known")
        self.pairs = (count or 0) // 2
        iteration = self.iteration
        self.carried = _carried_rows(
            iteration, (*iteration.first, *iteration.own, iteration.stores, *iteration.split)
        )
        self.stages = [self.half_of_stages() for _ in range(2)]
        used = [gemm.b.buffer.data for gemm in (*iteration.first, iteration.last)]
        *self.firsts, self.final = (
            next(k for k, part in enumerate(self.writer.writers) if data in part.plan.tiles)
            for data in used
        )

    def half_of_stages(self) -> list[StageWriter]:
        """The pipelines of even or of odd iterations."""
        plan, half = self.writer.plan, self.writer.plan.stages // 2
        tiles = {data: versioned(tile, half) for data, tile in plan.tiles.items()}
        return [
            replace(
                part, plan=replace(part.plan, stages=half), tiles=tiles,
                pipe=E.Var("p", part.pipe.dtype),
            )
            for part in self.writer.writers
        ]  # fmt: skip

    # -- the form ----------------------------------------------------------------------------------
    def launch(self) -> S.Launch:
        """The launch with its consumers in ping-pong."""
        self.reuse_operand_tile()
        inside, outside = self.sides(self.before, first=True)
        then, beyond = self.sides(self.after, first=False)
        inside = [stmt for stmt in inside if not isinstance(stmt, S.Alloc)]
        weights = self.iteration.weights
        used = {data for stmt in (*outside, *beyond) for data in effects.used(stmt)}
        require(not any(isinstance(stmt, S.Alloc) for stmt in (*then, *beyond)))
        require(not any(weights.data in effects.used(stmt) for stmt in (*inside, *then, *beyond)))
        ordered = {weights: replace(weights, attrs=replace(weights.attrs, handed_over=True))}
        attrs = BufferHints(arrive_counts=(WARPGROUP, WARPGROUP))
        self.mbarriers = Buffer(
            "handed", Shape((2,)), DType("uint64"), "shared.barrier", attrs=attrs
        )
        # The shared tiles through which a warpgroup passes the values of its rows.

        def handed(row: Buffer) -> Buffer:
            return Buffer(
                f"{row.name}_handed", row.shape, row.dtype, weights.storage, attrs=ORDERED
            )

        self.shared_rows = [{row: handed(row) for row in self.carried} for _ in range(2)]
        loop_data = {
            data for stmt in (*self.before, *self.writer.stmts, *self.after)
            if not isinstance(stmt, S.Alloc) for data in effects.used(stmt)
        }  # fmt: skip
        fragments = [
            stmt.buffer for stmt in self.before
            if isinstance(stmt, S.Alloc) and _uses_fragments(stmt) and stmt.buffer.data in loop_data
        ]  # fmt: skip
        require(used.isdisjoint(buffer.data for buffer in fragments))
        self.check_data(fragments, inside, then)
        groups = [self.group(index, fragments) for index in range(2)]
        forms = [
            [self.role(group, inside, then, proved) for group in groups] for proved in (True, False)
        ]
        proved, run = (self.assemble(roles, outside, beyond) for roles in forms)
        require(not is_uncertain(proved), "its synchronization is not proved")
        free = shared_bytes(run) + RESERVE <= self.context.limits.shared_block
        require(free, "too little shared memory")
        return run.with_body(replace_buffers(run.body, ordered))

    def check_data(self, fragments: list[Buffer], inside: list[S.Stmt], then: list[S.Stmt]) -> None:
        """Require that a warpgroup reads nothing that the other one computes or writes to memory,
        except the values that are passed."""
        written = effects.written(self.whole.body)
        looped = {data for s in self.writer.stmts for data in effects.written(s)}
        iteration = self.iteration
        require(all(gemm.c.buffer in fragments for gemm in (*iteration.first, iteration.last)))
        require(looped.isdisjoint(gemm.a.buffer.data for gemm in iteration.first))
        for stmt in (*iteration.own, *iteration.split, *inside, *then):
            uses = list(effects.accesses(stmt, nested=True))
            outer = [access for access in uses if not is_fragment(access)]
            writes = [access for access in uses if access.writes]
            require(all(access.buffer in fragments for access in uses if is_fragment(access)))
            require(not any(access.reads and access.data in written for access in outer))
            is_separate = all(map(is_fragment, writes)) or not any(map(is_fragment, writes))
            require(is_separate if stmt in then else all(map(is_fragment, writes)))
        carried = {access.data for access in (*self.carried, iteration.sums)}
        require(not any(effects.used(stmt) & looped - carried for stmt in then))

    def reuse_operand_tile(self) -> None:
        """Store results through the tile of an operand instead of an extra one."""
        stmts = [
            node for node in (*self.before, *self.writer.stmts) if not isinstance(node, S.Alloc)
        ]
        elsewhere, later = (
            {data for stmt in part for data in effects.used(stmt)} for part in (stmts, self.after)
        )
        free = [gemm.a.buffer for gemm in self.iteration.first if gemm.a.buffer.data not in later]
        copies = [stmt for stmt in self.after if isinstance(stmt, S.Copy)]
        out = next((copy for copy in copies if copy.src.buffer is self.iteration.sums), None)
        for alloc in self.before:
            if out is None or not isinstance(alloc, S.Alloc):
                continue
            tile = alloc.buffer
            kind = (tile.shape, tile.dtype, tile.storage)
            reused = [x for x in free if (x.shape, x.dtype, x.storage) == kind]
            if tile.data is out.dst.buffer.data and tile.data not in elsewhere and reused:
                self.after = [replace_buffers(node, {tile: reused[0]}) for node in self.after]
                self.before = [node for node in self.before if node is not alloc]

    def sides(self, stmts: list[S.Stmt], first: bool) -> tuple[list[S.Stmt], list[S.Stmt]]:
        """``stmts`` that each warpgroup does for itself, as they use fragments, and those that both
        do together, ``first`` or after the others."""
        inside = [stmt for stmt in stmts if _uses_fragments(stmt)]
        outside = [stmt for stmt in stmts if not _uses_fragments(stmt)]
        require(all(isinstance(stmt, (*_COMPUTES, S.Alloc)) for stmt in inside))
        for k, stmt in enumerate(stmts):
            for other in stmts[k + 1 :]:
                moved = (stmt in inside) is first and (other in inside) is not first
                require(not moved or isinstance(stmt, S.Alloc) or not may_conflict([stmt], [other]))
        return inside, outside

    def group(self, index: int, fragments: list[Buffer]) -> _Group:
        """The buffers of a warpgroup."""
        old, weights = self.iteration.sums, self.iteration.weights
        assert isinstance(old.shape[1], int)
        sums = Buffer(old.name, Shape((ROWS, old.shape[1] // 2)), old.dtype, FRAGMENT)
        weights_copy = Buffer(weights.name, weights.shape, weights.dtype, FRAGMENT)
        names = {
            tile: Buffer(tile.name, tile.shape, tile.dtype, FRAGMENT, attrs=tile.attrs)
            for tile in fragments if tile is not old
        }  # fmt: skip
        tiles = [sums, weights_copy, *names.values()]
        start = self.context.limits.registers_at_start(prod(self.whole.threads))
        registers = self.roles.registers[0] or start
        require(fits_in_registers(tiles, WARPGROUP, registers), "too few registers")
        return _Group(index, sums, weights_copy, names)

    def role(self, group: _Group, inside: list[S.Stmt], then: list[S.Stmt], proved: bool) -> H.Role:
        """The role of one warpgroup, in the form that is ``proved`` or in that which is run."""
        loop = self.loop
        j, zero = E.Var(loop.var.name, loop.var.dtype), E.const(0)
        stop = E.const(self.pairs)
        note = "the warpgroups alternate iterations (ping-pong) and pass their operand on"
        noted = append_note(loop, note)
        stmts: list[S.Stmt] = [
            *(S.Alloc(buffer=tile) for tile in (group.sums, group.weights)),
            *(S.Alloc(buffer=tile) for tile in group.names.values()),
            *self.outside_loop(group, inside),
        ]
        if group.index:
            stmts.append(replace(noted, var=j, stop=stop, body=S.seq(*self.step(group, j, j))))
        elif proved:
            body = self.step(group, j, simplify(j + 1), stop)
            stmts += [*self.first(group, zero), *self.after_first_products(group, zero)]
            stmts.append(replace(loop, var=j, stop=stop, body=S.seq(*body)))
        else:
            last = E.const(self.pairs - 1)
            body = self.step(group, j, simplify(j + 1))
            begin = [*self.first(group, zero), *self.after_first_products(group, zero)]
            stmts.append(S.If(cond=self.is_first(), then=S.seq(*begin), loc=loop.loc))
            stmts.append(replace(noted, var=j, stop=last, body=S.seq(*body)))
            stmts += [*self.other_product(group, last), self.release_tile(group, last)]
        stmts += self.outside_loop(group, then)
        return H.Role(
            name=("first", "second")[group.index], first=group.index * WARPGROUP, count=WARPGROUP,
            body=S.seq(*stmts),
        )  # fmt: skip

    def is_first(self) -> E.Expr:
        """Whether a thread is in the first warpgroup, in a form that the device's compiler does
        not see through: if it knew that the iteration before the loop comes first, it would keep
        the addresses of its products for those in the loop (564 bytes of registers spilled)."""
        return E.call(WARP_UNIFORM, thread_number(self.whole) // WARPGROUP).equal(0)

    def outside_loop(self, group: _Group, stmts: list[S.Stmt]) -> list[S.Stmt]:
        """Statements outside of the loop; the first warpgroup alone executes those that need not be
        divided."""
        result = []
        for stmt in stmts:
            uses = effects.accesses(stmt, nested=True)
            alone = all(is_fragment(access) for access in uses if access.writes)
            if self.iteration.sums.data in effects.used(stmt):
                result.append(replace_buffers(self.half(group).split(stmt), group.names))
            elif alone or not group.index:
                result.append(replace_buffers(replace(stmt), group.names))
        return result

    def half(self, group: _Group) -> ColumnHalf:
        """Statements by the columns of a warpgroup."""
        return ColumnHalf(self.iteration.sums, group.sums, group.index)

    def at(self, group: _Group, kind: int, number: E.Expr, stmts: Iterable[S.Stmt]) -> list[S.Stmt]:
        """``stmts`` of the iteration ``2 number + kind``, with the buffers of a warpgroup."""
        versions = {
            data: version
            for stage in self.stages[kind] for data, version in stage.versions(number).items()
        }  # fmt: skip
        values = {self.loop.var: simplify(number * 2 + kind)}
        return [
            UseVersions(versions).rewrite(replace_buffers(stmt, group.names))
            for stmt in substituted(stmts, values)
        ]

    def last(self, group: _Group, kind: int, number: E.Expr, weights: Buffer) -> list[S.Stmt]:
        """The last product with its columns, and what is computed of these before."""
        gemm, half = self.iteration.last, self.half(group)
        b = columns(gemm.b, gemm.b.buffer.ndim - 1, half.first, half.count)
        product = replace(gemm, a=weights.whole(), b=b, c=group.sums.whole(), policy=FULL_ROW)
        return self.at(group, kind, number, (*map(half.split, self.iteration.split), product))

    def step(
        self, group: _Group, other: E.Expr, own: E.Expr, stop: E.Expr | None = None
    ) -> list[S.Stmt]:
        """A loop body: an iteration of the other warpgroup, and an own one if that comes before
        ``stop``."""
        lead, more = self.split_first_product(self.first(group, own))
        later = [*more, *self.after_first_products(group, own)]
        if stop is not None:
            exists, loc = simplify(own < stop), self.loop.loc
            lead = [S.If(cond=exists, then=S.seq(*lead), loc=loc)]
            later = [S.If(cond=exists, then=S.seq(*later), loc=loc)]
        return [*self.other_product(group, other), *lead, self.release_tile(group, other), *later]

    def split_first_product(self, stmts: list[S.Stmt]) -> tuple[list[S.Stmt], list[S.Stmt]]:
        """First products that keep the tensor core busy while the previous stage is released, which
        waits for its last product, and the others. After all of them the tile of that stage would
        come back later by what they wait for."""
        at, gemm = next((k, stmt) for k, stmt in enumerate(stmts) if isinstance(stmt, S.Gemm))
        of_a, of_b = gemm.a.buffer.ndim - 1 - gemm.trans_a, gemm.b.buffer.ndim - 2 + gemm.trans_b
        depth = gemm.a.extents[of_a]
        if not isinstance(depth, int) or depth <= LEAD:
            return stmts, []
        parts = [
            replace(gemm, a=columns(gemm.a, of_a, *part), b=columns(gemm.b, of_b, *part))
            for part in ((0, LEAD), (LEAD, depth - LEAD))
        ]
        return [*stmts[:at], parts[0]], [replace(parts[1], clear=E.const(False)), *stmts[at + 1 :]]

    def first(self, group: _Group, number: E.Expr) -> list[S.Stmt]:
        """The first products of an own iteration."""
        result: list[S.Stmt] = []
        for k, stage in enumerate(self.stages[group.index]):
            gemms = [
                replace(gemm, policy=FULL_ROW)
                for gemm, operand in zip(self.iteration.first, self.firsts) if operand == k
            ]  # fmt: skip
            result += [stage.wait(number)] if gemms else []
            result += self.at(group, group.index, number, gemms)
        return result

    def after_first_products(self, group: _Group, number: E.Expr) -> list[S.Stmt]:
        """The statements after the first products of an own iteration."""
        iteration, weights, stages = self.iteration, group.weights, self.stages[group.index]
        loc, final = iteration.stores.loc, stages[self.final]
        mbarrier = E.AddressOf(self.mbarriers, (E.const(group.index),))
        store_weights = replace(iteration.stores, dst=weights.whole())
        released = sorted({*self.firsts} - {self.final})
        return [
            *(stages[k].release(number) for k in released),
            *self.at(group, group.index, number, (*iteration.own, store_weights)),
            S.Copy(src=weights.whole(), dst=iteration.weights.whole(), loc=loc),
            *(
                S.Copy(src=group.names[row].whole(), dst=tile.whole(), loc=loc)
                for row, tile in self.shared_rows[group.index].items()
            ),
            S.do(MBARRIER_ARRIVE, mbarrier, loc=loc),
            *([] if self.final in self.firsts else [final.wait(number)]),
            *self.last(group, group.index, number, weights),
            final.release(number),
        ]

    def other_product(self, group: _Group, number: E.Expr) -> list[S.Stmt]:
        """The last product of an iteration of the other warpgroup, after its mbarrier."""
        kind, loc = 1 - group.index, self.iteration.stores.loc
        mbarrier = E.AddressOf(self.mbarriers, (E.const(kind),))
        return [
            S.do(MBARRIER_WAIT, mbarrier, simplify(number % 2), loc=loc),
            *(
                S.Copy(src=tile.whole(), dst=group.names[row].whole(), loc=loc)
                for row, tile in self.shared_rows[kind].items()
            ),
            self.stages[kind][self.final].wait(number),
            *self.last(group, kind, number, self.iteration.weights),
        ]

    def release_tile(self, group: _Group, number: E.Expr) -> S.Stmt:
        """Release the stage that :meth:`other_product` reads."""
        return self.stages[1 - group.index][self.final].release(number)

    # -- the launch --------------------------------------------------------------------------------
    def assemble(
        self, roles: list[H.Role], outside: list[S.Stmt], beyond: list[S.Stmt]
    ) -> S.Launch:
        """The launch with ``roles`` for the consumers, between what these do together."""
        tiles = [S.Alloc(buffer=tile) for rows in self.shared_rows for tile in rows.values()]
        consuming = S.seq(*outside, *tiles, H.Roles(branches=tuple(roles)), *beyond)
        front: list[S.Stmt] = [S.Alloc(buffer=self.mbarriers)]
        for stmt in self.roles.front:
            if isinstance(stmt, S.Alloc) and stmt.buffer.data in self.roles.tiles:
                data = stmt.buffer.data
                front += (replace(stmt, buffer=kind[0].tiles[data]) for kind in self.stages)
            else:
                front.append(stmt)
        pipelines = [stage for pair in zip(*self.stages) for stage in pair]
        return self.roles.written(front, pipelines, self.producing(), consuming)

    def producing(self) -> S.Stmt:
        """The loop of the producer, which fills an even and an odd stage alternately."""
        plan, var = self.writer.plan, self.loop.var
        require(plan.cond is None and all(isinstance(copy, S.Copy) for copy in plan.copies))
        j, fills = E.Var(var.name, var.dtype), list[S.Stmt]()
        for kind, stages in enumerate(self.stages):
            lets, values = plan.replayed(simplify(j * 2 + kind))
            require(not lets)
            fills += (stmt for stage in stages for stmt in stage.stage(j, (), values))

        def alternating(loop: S.For) -> S.Stmt:
            stop, body = E.const(self.pairs), S.seq(*fills)
            return replace(loop, var=j, stop=stop, body=body) if loop.var is var else loop

        return map_stmts(self.roles.producing, S.For, alternating)


def _uses_fragments(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` accesses fragments."""
    return any(map(is_fragment, effects.accesses(stmt, nested=True)))
