"""Persistent kernel with overlapped epilogue: a tile is stored during the next tile's products.

A launch that computes wgmma products in one pipelined loop and stores the result leaves the tensor
cores idle in its epilogue and in its prologue. With one persistent block per multiprocessor, which
loops over the tiles of the grid, the copies of the next tile run ahead during the end of this one.
The result stays in registers in its final type. Its subtiles are stored during products of the next
tile: a warp writes 16 x 64 elements to its own part of shared memory, and TMA stores them from
there. No thread waits for another one there. Only the subtiles of the last tile overlap nothing.

The rule (``_Form``, ``_Plan``): two or more warpgroups of 128 threads, so that a block fills a
multiprocessor; one pipelined loop at the top of the kernel with one product and copies to shared
memory, nothing that takes registers of its own; its result copied as a whole to a tensor of 16-bit
elements at the end, directly or through a tile in shared memory that nothing else uses, or stored
by a loop, all rows or those below a bound; more tiles than multiprocessors, or an unknown number.
Operands get fewer versions where shared memory is short because of the subtiles, down to
three. A launch that :mod:`specialize_warps` leaves with one role stays as it is: its copies are
those of its users.

Where the indices of a result or its row bound are read from memory (the rows of a group, say), each
thread saves these values with the result. A result with fewer rows than its tile is stored row by
row from registers, during the first product.

Blocks take tiles in the order of the grid, with ``T.use_swizzle`` in that of its panels.
Relied on: blocks do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.facts import bounds_of
from tilelang.ir.launch_schedule import Schedule
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import substitute
from tilelang.records import dataclass
from tilelang.transforms.analysis.loops import trip_count
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.analysis.tma import Subtile
from tilelang.transforms.schedule.items import is_load
from tilelang.transforms.schedule.legality import Facts, NotLegalError
from tilelang.transforms.schedule.pipeline import stages_of
from tilelang.transforms.schedule.row_stores import stored_rows
from tilelang.transforms.schedule.specialize_warps import WARPGROUP
from tilelang.transforms.schedule.tile_loop import (
    TileLoop,
    count_subtiles,
    subtile_buffer,
    subtile_copy,
)
from tilelang.transforms.schedule.tma_copies import TmaFacts, is_never_negative

INDEX_DTYPE = DType("int32")  # of an index of the store of a result
LEAST_STAGES = 3  # versions of the operands that the subtiles leave
_BARRIERS = 1024  # bytes of mbarriers beside the tiles


def overlap_epilogues(launch: S.Launch, schedule: Schedule, facts: Facts) -> S.Launch:
    """``launch`` with a loop over tiles, each stored during the products of the next."""
    form = _form(launch)
    plan = None if form is None else _plan(launch, form, facts.tma(launch))
    if form is None or plan is None:
        raise NotLegalError("it is no loop of one product whose result a warp can store by itself")
    processors = facts.context.limits.processors
    assert processors is not None
    return _Persistent(launch, form, plan, schedule, processors).launch()


# -- the rule ----------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Form:
    """A kernel: statements, the loop of products, statements, the copy of the result.

    Attributes:
        before, after: what stands before the loop and behind it, without allocations.
        allocs: all that stand at the top, without that of ``tile``.
        out: where the result goes.
        tile: the shared tile that it goes through, if any.
        rows: the loop that stores it, if one does, and when all of its rows are stored, by boxes.
    """

    allocs: tuple[S.Alloc, ...]
    before: tuple[S.Stmt, ...]
    loop: S.For
    product: S.Gemm
    after: tuple[S.Stmt, ...]
    out: S.Copy
    tile: Buffer | None
    rows: tuple[S.Parallel, E.Expr] | None = None


def _form(launch: S.Launch) -> _Form | None:
    """The form of ``launch``, None for another."""
    stmts = S.flat(launch.body)
    loops = [stmt for stmt in stmts if isinstance(stmt, S.For) and stmt.kind == "pipelined"]
    products = S.find(launch.body, S.Gemm)
    if len(loops) != 1 or len(products) != 1 or not may_persist(launch):
        return None
    (loop,), (product,) = loops, products
    inside = S.flat(loop.body)
    if product not in inside or not _counts_up(loop) or product.asynchronous:
        return None
    if not all(map(_leaves_registers, inside)):
        return None
    rows = None
    if isinstance(stmts[-1], S.Parallel):
        stored = _as_row_copy(stmts[-1], product.c.buffer, bounds_of(launch))
        if stored is None:
            return None
        out, whole = stored
        tile, last, rows = None, len(stmts) - 1, (stmts[-1], whole)
    else:
        copies = result_copy(stmts, product.c.buffer)
        if copies is None:
            return None
        out, tile, last = copies
        bounds = bounds_of(launch)
        if not all(is_never_negative(low, bounds) for low in out.dst.mins):
            return None  # a box of TMA begins at no coordinate below 0
    at = stmts.index(loop)
    if last <= at:
        return None
    allocs = tuple(stmt for stmt in stmts if isinstance(stmt, S.Alloc) and stmt.buffer is not tile)
    rest = [stmt for stmt in stmts[:last] if not isinstance(stmt, S.Alloc)]
    at = rest.index(loop)
    return _Form(allocs, tuple(rest[:at]), loop, product, tuple(rest[at + 1 :]), out, tile, rows)


def may_persist(launch: S.Launch) -> bool:
    """What has nothing to do with the form of the body."""
    threads = prod(launch.threads)
    if launch.threads[0] != threads or threads % WARPGROUP or threads < 2 * WARPGROUP:
        return False
    if launch.hints.cluster_dims is not None:
        return False
    swizzle = launch.hints.swizzle
    if swizzle is not None and swizzle[1] not in ("row", "column"):
        return False
    leaves = (S.While, S.Break, S.Continue, S.ThreadReturn, S.Launch, S.View, S.Attr)
    return not S.holds(launch.body, *leaves)


def _leaves_registers(stmt: S.Stmt) -> bool:
    """Whether a statement beside the product computes nothing in registers: with the accumulator
    and the result of the tile before it there are none left (596 bytes of spills where a loop
    unpacks weights)."""
    if isinstance(stmt, S.Copy):
        return stmt.dst.buffer.storage != FRAGMENT
    return isinstance(stmt, (S.Gemm, S.Let))


def _counts_up(loop: S.For) -> bool:
    """Whether its iterations are 0, 1, 2 and so on."""
    return loop.start is E.const(0, loop.start.dtype) and loop.step is E.const(1, loop.step.dtype)


def result_copy(
    stmts: tuple[S.Stmt, ...], result: Buffer
) -> tuple[S.Copy, Buffer | None, int] | None:
    """The copy of ``result`` to global memory at the end, the shared tile between, and where the
    copies begin."""
    last = stmts[-1]
    if not isinstance(last, S.Copy) or last.dst.buffer.storage != "global" or last.mode != "copy":
        return None
    tile, at, out = None, len(stmts) - 1, last
    if last.src.buffer is not result:
        tile, at = last.src.buffer, at - 1
        into = stmts[at]
        if not isinstance(into, S.Copy) or into.mode != "copy" or into.dst.buffer is not tile:
            return None
        uses = sum(tile.data in effects.used(stmt) for stmt in stmts if not _allocates(stmt, tile))
        if uses != 2 or not tile.storage.startswith("shared"):
            return None
        if not (into.dst.is_whole and last.src.is_whole):
            return None
        out = replace(last, src=into.src)
    if out.src.buffer is not result or not out.src.is_whole or len(result.shape) != 2:
        return None
    return (out, tile, at) if result.storage == FRAGMENT else None


def _as_row_copy(stmt: S.Parallel, result: Buffer, bounds: Bounds) -> tuple[S.Copy, E.Expr] | None:
    """A loop that stores ``result``, all of it or the first rows, as the copy that it is where its
    rows are all stored, and when they are. A box of TMA begins at no row below 0."""
    stores = stored_rows(stmt)
    if stores is None or stores.load.buffer is not result or result.storage != FRAGMENT:
        return None
    row = stmt.vars[0]
    *outer, line, column = stores.store.indices
    first = simplify(line - row)
    inside = E.binary("ge", first, E.const(0, first.dtype))
    whole = E.const(True) if is_never_negative(first, bounds) else inside
    if any(row in expr.variables for expr in (*outer, first, column)):
        return None
    if stores.cond is not None:
        if not (isinstance(stores.cond, E.Binary) and stores.cond.op == "lt"):
            return None
        count = stores.cond.b
        if stores.cond.a is not row or row in count.variables:
            return None
        whole = E.binary("land", E.binary("ge", count, result.shape[0]), whole)
    mins = (*outer, first, simplify(column - stmt.vars[1]))
    region = Region(stores.store.buffer, mins, (*(1 for _ in outer), *result.shape))
    return S.Copy(src=result.whole(), dst=region, loc=stmt.loc), simplify(whole)


def _allocates(stmt: S.Stmt, buffer: Buffer) -> bool:
    return isinstance(stmt, S.Alloc) and stmt.buffer is buffer


@dataclass(frozen=True)
class _Plan:
    """What becomes of a form.

    Attributes:
        subtiles: of the result that each warp stores.
        rows: their buffer in shared memory.
        stages: versions of the operands.
        region: where the result goes, by the variables of blocks and those of ``kept``.
        names: the values that the body binds to variables, by the same.
        kept: variables of the body whose values come from memory.
    """

    subtiles: int
    rows: Buffer
    stages: int
    region: Region
    names: Mapping[E.Var, E.Expr]
    kept: tuple[E.Var, ...]


def _plan(launch: S.Launch, form: _Form, facts: TmaFacts) -> _Plan | None:
    """The plan for ``form``, None where it does not qualify."""
    limits, dtype = facts.context.limits, form.out.dst.dtype
    result = form.product.c.buffer
    store = _store_region(launch, form)
    if store is None:
        return None
    region, names, kept = store
    warps = prod(launch.threads) // limits.warp
    subtiles, whole = count_subtiles(result, dtype, warps)
    if not subtiles or facts.refusal(replace(form.out, src=whole.whole(), dst=region)) is not None:
        return None
    copies = S.find(form.loop, S.Copy)
    operands = [copy.dst.buffer for copy in copies if is_load(copy)]
    fixed = [alloc.buffer for alloc in form.allocs if alloc.buffer.storage.startswith("shared")]
    versions = sum(tile.constant_bytes for tile in operands)
    requested = stages_of(form.loop)
    for count in (subtiles, subtiles // 2):
        if not count or subtiles % count:
            continue
        buffer_of_subtiles = subtile_buffer(warps * count, dtype)
        others = sum(buffer.constant_bytes for buffer in fixed if buffer not in operands)
        room = limits.shared_block - others - buffer_of_subtiles.constant_bytes - _BARRIERS
        stages = min(requested, room // versions) if versions else 0
        if stages >= min(requested, LEAST_STAGES) and stages > 1:
            return _Plan(subtiles, buffer_of_subtiles, stages, region, names, kept)
    return None


def _store_region(
    launch: S.Launch, form: _Form
) -> tuple[Region, dict[E.Var, E.Expr], tuple[E.Var, ...]] | None:
    """The region that is stored by the variables of blocks, the values of variables that the body
    binds, and those of them that depend on memory; None where it depends on threads, or on memory
    in another way."""
    values: dict[E.Var, E.Expr] = {}
    kept: list[E.Var] = []
    for stmt in (*form.before, *form.after):
        if isinstance(stmt, S.Let):
            value = substitute(stmt.value, values)
            if tuple(effects.accesses(value)) or not value.variables.isdisjoint(kept):
                kept.append(stmt.var)
            else:
                values[stmt.var] = value
    region = form.out.dst.map(lambda expr: simplify(substitute(expr, values)))
    exprs, result = list(region.mins), form.out.src.buffer
    if form.rows is not None:
        exprs += [
            substitute(expr, values) for node in S.walk(form.rows[0]) for expr in node.exprs()
        ]
    used: set[E.Var] = set()
    for expr in exprs:
        others = (access for access in effects.accesses(expr) if access.buffer is not result)
        if any(True for _ in others) or E.holds(expr, E.Call, E.AddressOf, E.RegionArg):
            return None
        if not expr.variables.isdisjoint(launch.thread_vars):
            return None
        used |= expr.variables
    needed = tuple(var for var in kept if var in used)
    if any(var.dtype is not INDEX_DTYPE for var in needed):
        return None
    return region, values, needed


# -- the loop over tiles -----------------------------------------------------------------------
class _Persistent(TileLoop):
    """One launch with its tiles in a loop."""

    def __init__(
        self, launch: S.Launch, form: _Form, plan: _Plan, schedule: Schedule, processors: int
    ) -> None:
        super().__init__(launch, schedule, processors, form.loop.loc)
        self.form, self.plan = form, plan
        result = form.product.c.buffer
        self.packed = Buffer(f"{result.name}_held", result.shape, form.out.dst.dtype, FRAGMENT)
        self.saved_indices = Buffer("place", Shape((max(1, len(plan.kept)),)), INDEX_DTYPE, "local")

    def launch(self) -> S.Launch:
        """The launch."""
        form = self.form
        pack = S.Copy(src=form.out.src, dst=self.packed.whole(), loc=form.out.loc)
        keep = [
            S.Store(buffer=self.saved_indices, indices=(E.const(k),), value=var, loc=form.out.loc)
            for k, var in enumerate(self.plan.kept)
        ]
        work = (*form.before, self.products(), *self.remaining_subtiles(), *form.after, pack, *keep)
        buffers = (self.packed, self.plan.rows, *([self.saved_indices] if keep else []))
        allocs = [S.Alloc(buffer=buffer, loc=form.out.loc) for buffer in buffers]
        past = self.total - 1 - self.block
        last = E.Var("last", self.dtype)
        final = S.Let(var=last, value=simplify(past // self.step * self.step + self.block))
        all_subtiles: dict[int, E.Expr | None] = dict.fromkeys(range(self.plan.subtiles))
        end = (final, self.subtiles(last, all_subtiles, last=True))
        return self.result((*form.allocs, *allocs), self.loop(work), end, self.plan.subtiles)

    def subtiles(self, number: E.Expr, conds: Mapping[int, E.Expr | None], last: bool) -> S.Stmt:
        """Parts of the result of tile ``number``, each where its condition holds; ``last``: the
        unit is waited for behind them."""
        plan, loc = self.plan, self.form.out.loc
        names = tuple(E.Var(f"{var.name}_before", var.dtype) for var in self.old.block_vars)
        moved: dict[E.Var, E.Expr] = dict(zip(self.old.block_vars, names))
        kept = [E.Var(f"{var.name}_before", var.dtype) for var in plan.kept]
        moved |= dict(zip(plan.kept, kept))
        saved_lets = [
            S.Let(var=var, value=E.Load(self.saved_indices, (E.const(k),)), loc=loc)
            for k, var in enumerate(kept)
        ]
        region = plan.region.map(lambda expr: substitute(expr, moved))

        def copy(number: int | None, last: bool, dst: Region) -> S.Stmt:
            return subtile_copy(
                self.packed, Subtile(plan.rows, number, plan.subtiles, last), dst, loc
            )

        def each(of: int, stmt: S.Stmt) -> S.Stmt:
            cond = conds[of]
            return stmt if cond is None else S.If(cond=cond, then=stmt, loc=loc)

        body = S.seq(*(each(k, copy(k, last and k == max(conds), region)) for k in conds))
        if self.form.rows is not None:
            loop, whole = self.form.rows
            values = {var: substitute(value, moved) for var, value in plan.names.items()} | moved
            rows = [each(0, self.rows_of(loop, values))] if 0 in conds else []
            if last:
                rows.append(copy(None, True, self.packed.whole()))
            whole = simplify(substitute(whole, values))
            body = S.If(cond=whole, then=body, orelse=S.seq(*rows) if rows else None, loc=loc)
        return S.seq(*self.lets(number, names, body), *saved_lets, body)

    def rows_of(self, loop: S.Parallel, values: Mapping[E.Var, E.Expr]) -> S.Stmt:
        """The loop that stores rows of a result, from the registers that hold it."""
        stores = stored_rows(loop)
        assert stores is not None
        row, column = (E.Var(var.name, var.dtype) for var in loop.vars)
        values = {**values, loop.vars[0]: row, loop.vars[1]: column}
        store: S.Stmt = replace(
            stores.store, value=E.Load(self.packed, (row, column)),
            indices=tuple(substitute(index, values) for index in stores.store.indices),
        )  # fmt: skip
        if stores.cond is not None:
            store = S.If(cond=substitute(stores.cond, values), then=store, loc=loop.loc)
        return replace(
            loop, vars=(row, column), body=store, hints=replace(loop.hints, subtile=True)
        )

    def store_previous(
        self, conds: Mapping[int, E.Expr | None], more: E.Expr | None = None
    ) -> S.Stmt:
        """Subtiles of the previous tile, if there is one and ``more`` holds."""
        cond = self.tile >= self.step
        if more is not None:
            cond = E.binary("land", cond, more)
        subtiles = self.subtiles(self.tile - self.step, conds, last=False)
        return S.If(cond=cond, then=subtiles, loc=self.form.out.loc)

    def products(self) -> S.For:
        """The loop of products; the first of them overlap the subtiles of the previous tile."""
        form, plan, loop = self.form, self.plan, self.form.loop
        conds: dict[int, E.Expr | None] = {k: loop.var.equal(k) for k in range(plan.subtiles)}
        if plan.subtiles == 1:
            conds = {0: None}
        under = self.store_previous(conds, loop.var < plan.subtiles)
        hints = loop.hints
        if hints.num_stages is not None:
            hints = replace(hints, num_stages=plan.stages)
        return replace(loop, body=_insert_after(loop.body, form.product, under), hints=hints)

    def remaining_subtiles(self) -> list[S.Stmt]:
        """The subtiles that a loop of few iterations has not stored."""
        loop, count = self.form.loop, trip_count(self.form.loop)
        if count is None:
            return [self.store_previous({k: loop.stop <= k for k in range(self.plan.subtiles)})]
        remaining = range(count, self.plan.subtiles)
        return [self.store_previous(dict.fromkeys(remaining))] if remaining else []


def _insert_after(body: S.Stmt, first: S.Stmt, then: S.Stmt) -> S.Stmt:
    """``body`` with ``then`` after its statement ``first``."""
    stmts = S.flat(body)
    at = stmts.index(first) + 1
    return S.seq(*stmts[:at], then, *stmts[at:])
