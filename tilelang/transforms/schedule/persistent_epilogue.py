"""Persistent kernel with overlapped epilogue: a tile is stored during the next tile's products.

A launch that computes wgmma products in one pipelined loop and stores the result leaves the tensor
cores idle in its epilogue and in its prologue. Here one persistent block per multiprocessor loops
over the tiles of the grid, and the copies of the next tile run ahead during the end of this one.
The result stays in registers in its final type. Its subtiles are stored during products of the next
tile: a warp writes 16 x 64 elements to its own part of shared memory, and TMA stores them from
there, without a barrier between warps. Only the subtiles of the last tile overlap nothing.

Conditions:

* two or more warpgroups of 128 threads, so that a block fills a multiprocessor;
* one pipelined loop at the top level of the kernel, with one product and copies to shared memory,
  and no other use of registers;
* a result of 16-bit elements. It is copied as a whole at the end, directly or through a shared tile
  without other uses; or a loop stores all rows, or those below a bound;
* more tiles than multiprocessors, or an unknown number of tiles;
* a launch that :mod:`specialize_warps` gives two roles.

The subtiles share memory with the versions of the operands that the schedule states. Where it is
short, half of the subtiles are in memory at a time, or only fewer versions, down to three.

Where the indices of a result or its row bound are read from memory (the rows of a group, say), each
thread saves these values with the result. A result with fewer rows than its tile is stored row by
row from registers, during the first product.

Blocks process tiles in grid order, or in the panel order of ``T.use_swizzle``. The pass assumes
that blocks do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.facts import bounds_of
from tilelang.ir.launch_schedule import Schedule
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import substitute
from tilelang.transforms.analysis.loops import trip_count
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.schedule.iteration import is_load
from tilelang.transforms.schedule.legality import Facts, NotLegalError, require
from tilelang.transforms.schedule.pipeline import is_pipelined, stages_of
from tilelang.transforms.schedule.row_stores import stored_rows
from tilelang.transforms.schedule.specialize_warps import WARPGROUP
from tilelang.transforms.schedule.tile_loop import Subtiles, TileLoop
from tilelang.transforms.schedule.tma_copies import is_never_negative

INDEX_DTYPE = DType("int32")  # of an index of the store of a result
LEAST_STAGES = 3  # versions of the operands that the subtiles leave
FORM = "it is not a loop of one product whose result each warp can store without the others"
_BARRIERS = 1024  # bytes of mbarriers besides the tiles


def overlap_epilogues(launch: S.Launch, schedule: Schedule, facts: Facts) -> S.Launch:
    """``launch`` with a loop over tiles, each stored during the products of the next."""
    return _Overlapped(launch, schedule, facts).launch()


class _Overlapped(TileLoop):
    """A launch with its tiles in a loop: statements, the loop of products, statements, the copy of
    the result.

    Attributes:
        allocs: all at the top, without that of the shared tile of the result.
        before, after: the other statements before and after the loop.
        rows: the loop that stores the result, if one does, and when all of its rows are stored, by
            boxes.
        region: where the result goes, by the variables of blocks and those of ``carried``.
        values: those that the body binds to variables, by the same.
        carried: variables of the body whose values come from memory; where rows are stored, also
            those of blocks.
        parts: the subtiles of the result.
    """

    def __init__(self, launch: S.Launch, schedule: Schedule, facts: Facts) -> None:
        stmts, bounds = S.flat(launch.body), bounds_of(launch)
        loops = [stmt for stmt in stmts if is_pipelined(stmt)]
        products = S.find(launch.body, S.Gemm)
        require(len(loops) == len(products) == 1 and may_persist(launch), FORM)
        (self.inner,), (self.product,) = loops, products
        super().__init__(launch, schedule, facts, self.inner.loc)
        inside = S.flat(self.inner.body)
        plain = self.product in inside and not self.product.asynchronous
        require(plain and _counts_up(self.inner) and all(map(_leaves_registers, inside)), FORM)
        result, last = self.product.c.buffer, stmts[-1]
        stored = _as_row_copy(last, result, bounds) if isinstance(last, S.Parallel) else None
        self.rows = None if stored is None else stored[1:]
        copies = result_copy(stmts, result) if stored is None else (stored[0], None, len(stmts) - 1)
        if copies is None:
            raise NotLegalError(FORM)
        out, tile, end = copies
        # A box of TMA begins at no coordinate below 0.
        require(all(is_never_negative(low, bounds) for low in out.dst.mins) or stored, FORM)
        at = stmts.index(self.inner)
        require(end > at, FORM)
        allocs = [stmt for stmt in stmts if isinstance(stmt, S.Alloc)]
        self.allocs = [stmt for stmt in allocs if stmt.buffer is not tile]
        self.before = [stmt for stmt in stmts[:at] if stmt not in allocs]
        self.after = [stmt for stmt in stmts[at + 1 : end] if stmt not in allocs]
        self.region, self.values, self.carried = self.destination(out)
        parts = Subtiles.of(out, launch, facts, self.region)
        stages, choices = stages_of(self.inner), [] if parts is None else parts.choices()
        rooms = [(choice, self.versions_that_fit(choice, facts)) for choice in choices]
        least = max(2, min(stages, LEAST_STAGES))
        enough = [(choice, versions) for choice, versions in rooms if versions >= least]
        require(stages >= 2 and enough, FORM)
        self.parts, versions = enough[0]
        require(stages <= versions, f"its subtiles leave memory for {versions} stages only")
        self.saved = Buffer("place", Shape((max(1, len(self.carried)),)), INDEX_DTYPE, "local")

    def destination(self, out: S.Copy) -> tuple[Region, dict[E.Var, E.Expr], tuple[E.Var, ...]]:
        """The region that ``out`` stores by the variables of blocks, the values of variables that
        the body binds, and the variables that the next tile carries.

        Raises:
            NotLegalError: it depends on threads, or on memory in another way.
        """
        values: dict[E.Var, E.Expr] = {}
        loaded: list[E.Var] = []
        for stmt in (*self.before, *self.after):
            if isinstance(stmt, S.Let):
                value = substitute(stmt.value, values)
                if tuple(effects.accesses(value)) or not value.variables.isdisjoint(loaded):
                    loaded.append(stmt.var)
                else:
                    values[stmt.var] = value
        region = out.dst.map(lambda expr: simplify(substitute(expr, values)))
        nodes = () if self.rows is None else S.walk(self.rows[0])
        stored = (substitute(expr, values) for node in nodes for expr in node.exprs())
        used: set[E.Var] = set()
        for expr in (*region.mins, *stored):
            loads = any(access.buffer is not out.src.buffer for access in effects.accesses(expr))
            plain = not loads and not E.holds(expr, E.Call, E.AddressOf, E.RegionArg)
            require(plain and expr.variables.isdisjoint(self.old.thread_vars), FORM)
            used |= expr.variables
        needed = tuple(var for var in loaded if var in used)
        require(all(var.dtype is INDEX_DTYPE for var in needed), FORM)
        # Computed from the number of the tile, the addresses of all rows would be invariants of the
        # loop of products: ptxas keeps them in registers, and accumulators are spilled for them.
        blocks = () if self.rows is None else self.old.block_vars
        needed += tuple(var for var in blocks if var in used and var.dtype is INDEX_DTYPE)
        return region, values, needed

    def versions_that_fit(self, parts: Subtiles, facts: Facts) -> int:
        """The number of versions of the operands that fit besides ``parts``."""
        operands = [copy.dst.buffer for copy in S.find(self.inner, S.Copy) if is_load(copy)]
        others = sum(
            alloc.buffer.constant_bytes for alloc in self.allocs
            if alloc.buffer.storage.startswith("shared") and alloc.buffer not in operands
        )  # fmt: skip
        free = facts.context.limits.shared_block - others - parts.rows.constant_bytes - _BARRIERS
        version = sum(tile.constant_bytes for tile in operands)
        return free // version if version else 0

    def launch(self) -> S.Launch:
        """The launch."""
        loc, parts = self.parts.out.loc, self.parts
        saves = [
            S.Store(buffer=self.saved, indices=(E.const(k),), value=var, loc=loc)
            for k, var in enumerate(self.carried)
        ]
        work = (
            *self.before, self.products(), *self.remaining_subtiles(), *self.after, parts.pack(),
            *saves,
        )  # fmt: skip
        allocs = [*self.allocs, *parts.allocs()]
        allocs += [S.Alloc(buffer=self.saved, loc=loc)] if saves else []
        past = self.total - 1 - self.block
        last = E.Var("last", self.dtype)
        final = S.Let(var=last, value=simplify(past // self.step * self.step + self.block))
        all_subtiles: dict[int, E.Expr | None] = dict.fromkeys(range(parts.count))
        end = (final, self.subtiles(last, all_subtiles, last=True))
        return self.result(allocs, self.loop(work), end, parts.count)

    def subtiles(self, number: E.Expr, conds: Mapping[int, E.Expr | None], last: bool) -> S.Stmt:
        """Parts of the result of tile ``number``, each where its condition holds; ``last``: the
        unit is waited for after them."""
        parts, loc = self.parts, self.parts.out.loc
        blocks = self.old.block_vars
        names, prev = (
            tuple(E.Var(f"{var.name}_before", var.dtype) for var in index)
            for index in (blocks, self.carried)
        )
        moved: dict[E.Var, E.Expr] = dict(zip((*blocks, *self.carried), (*names, *prev)))
        saved_lets = [
            S.Let(var=var, value=E.Load(self.saved, (E.const(k),)), loc=loc)
            for k, var in enumerate(prev)
        ]
        region = self.region.map(lambda expr: substitute(expr, moved))

        def each(index: int, stmt: S.Stmt) -> S.Stmt:
            cond = conds[index]
            return stmt if cond is None else S.If(cond=cond, then=stmt, loc=loc)

        body = S.seq(
            *(each(k, parts.store(k, region, last=last and k == max(conds))) for k in conds)
        )
        if self.rows is not None:
            loop, is_whole = self.rows
            values = {var: substitute(value, moved) for var, value in self.values.items()} | moved
            rows = [each(0, self.rows_of(loop, values))] if 0 in conds else []
            rows += [parts.wait()] if last else []
            is_whole = simplify(substitute(is_whole, values))
            body = S.If(cond=is_whole, then=body, orelse=S.seq(*rows) if rows else None, loc=loc)
        extents = dict(zip(blocks, self.extents))
        known = [
            S.Assert(cond=E.binary("land", var >= 0, var < extents[old]), assumed=True, loc=loc)
            for old, var in zip(self.carried, prev) if old in extents
        ]  # fmt: skip
        return S.seq(*self.lets(number, names, body), *saved_lets, *known, body)

    def rows_of(self, loop: S.Parallel, values: Mapping[E.Var, E.Expr]) -> S.Stmt:
        """The loop that stores rows of a result, from the registers that hold it."""
        stores = stored_rows(loop)
        assert stores is not None
        row, column = (E.Var(var.name, var.dtype) for var in loop.vars)
        values = {**values, loop.vars[0]: row, loop.vars[1]: column}
        store: S.Stmt = replace(
            stores.store, value=E.Load(self.parts.packed, (row, column)),
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
        cond = E.conjunction([x for x in (self.tile >= self.step, more) if x is not None])
        subtiles = self.subtiles(self.tile - self.step, conds, last=False)
        return S.If(cond=cond, then=subtiles, loc=self.parts.out.loc)

    def products(self) -> S.For:
        """The loop of products; the first of them overlap the subtiles of the previous tile."""
        loop, count = self.inner, self.parts.count
        conds: dict[int, E.Expr | None] = {k: loop.var.equal(k) for k in range(count)}
        if count == 1:
            conds = {0: None}
        under = self.store_previous(conds, loop.var < count)
        return replace(loop, body=_insert_after(loop.body, self.product, under))

    def remaining_subtiles(self) -> list[S.Stmt]:
        """The subtiles that a loop of few iterations has not stored."""
        loop, count = self.inner, trip_count(self.inner)
        if count is None:
            return [self.store_previous({k: loop.stop <= k for k in range(self.parts.count)})]
        remaining = range(count, self.parts.count)
        return [self.store_previous(dict.fromkeys(remaining))] if remaining else []


def _insert_after(body: S.Stmt, first: S.Stmt, then: S.Stmt) -> S.Stmt:
    """``body`` with ``then`` after its statement ``first``."""
    stmts = S.flat(body)
    at = stmts.index(first) + 1
    return S.seq(*stmts[:at], then, *stmts[at:])


# -- the rule ----------------------------------------------------------------------------------
def may_persist(launch: S.Launch) -> bool:
    """Whether a launch can be persistent, whatever the form of its body."""
    threads = prod(launch.threads)
    if launch.threads[0] != threads or threads % WARPGROUP or threads < 2 * WARPGROUP:
        return False
    swizzle = launch.hints.swizzle or (0, "row")
    if launch.hints.cluster_dims is not None or swizzle[1] not in ("row", "column"):
        return False
    return not S.holds(launch.body, S.While, *S.LEAVES, S.Launch, S.View)


def _leaves_registers(stmt: S.Stmt) -> bool:
    """Whether a statement other than the product computes nothing in registers: with the
    accumulator and the result of the tile before it there are none left (596 bytes of spills where
    a loop unpacks weights)."""
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
    out, into, tile, at = stmts[-1], stmts[-2:][0], None, len(stmts) - 1
    if not isinstance(out, S.Copy) or out.dst.buffer.storage != "global" or out.mode != "copy":
        return None
    if out.src.buffer is not result:
        tile, at = out.src.buffer, at - 1
        users = [stmt for stmt in stmts if not isinstance(stmt, S.Alloc)]
        uses = sum(tile.data in effects.used(stmt) for stmt in users)
        if not isinstance(into, S.Copy) or into.mode != "copy" or uses != 2:
            return None
        is_whole = into.dst.buffer is tile and into.dst.is_whole and out.src.is_whole
        if not is_whole or not tile.storage.startswith("shared"):
            return None
        out = replace(out, src=into.src)
    fits = out.src.buffer is result and out.src.is_whole and len(result.shape) == 2
    return (out, tile, at) if fits and result.storage == FRAGMENT else None


def _as_row_copy(
    stmt: S.Parallel, result: Buffer, bounds: Bounds
) -> tuple[S.Copy, S.Parallel, E.Expr] | None:
    """A loop that stores ``result``, all of it or the first rows, as the copy that it is where its
    rows are all stored, the loop, and when they are. A box of TMA begins at no row below 0."""
    stores = stored_rows(stmt)
    if stores is None or stores.load.buffer is not result or result.storage != FRAGMENT:
        return None
    row = stmt.vars[0]
    *outer, line, column = stores.store.indices
    first = simplify(line - row)
    inside = E.binary("ge", first, E.const(0, first.dtype))
    in_bounds = E.const(True) if is_never_negative(first, bounds) else inside
    cond = stores.cond
    if any(row in expr.variables for expr in (*outer, first, column)):
        return None
    if cond is not None:
        if not (isinstance(cond, E.Binary) and cond.op == "lt" and cond.a is row):
            return None
        count = cond.b
        if row in count.variables:
            return None
        in_bounds = E.binary("land", E.binary("ge", count, result.shape[0]), in_bounds)
    mins = (*outer, first, simplify(column - stmt.vars[1]))
    region = Region(stores.store.buffer, mins, (*(1 for _ in outer), *result.shape))
    return S.Copy(src=result.whole(), dst=region, loc=stmt.loc), stmt, simplify(in_bounds)
