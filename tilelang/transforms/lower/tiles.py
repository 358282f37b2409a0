"""Lower tile operations of GPU kernels to Thread IR: the dispatch by class.

Runs after layout inference, so every fragment and loop has a layout, and after barrier insertion:
hazards between operations are ordered, and a lowering synchronizes only within its operation.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

from tilelang.errors import Loc, TileUnsupportedError, at
from tilelang.ir import effects, expr as E, schedule as H, stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer
from tilelang.ir.elementwise import loop_of
from tilelang.ir.facts import bounds_of
from tilelang.ir.levels import with_known_hints
from tilelang.ir.visitor import ExprRewriter, let_values, rebuild, rewrite_launches
from tilelang.layout.register_layout import RegisterLayout
from tilelang.target import Context, operations
from tilelang.target.features import lowest_with
from tilelang.transforms.analysis import groups
from tilelang.transforms.analysis.dependence import may_overlap
from tilelang.transforms.analysis.loops import static_extents
from tilelang.transforms.analysis.mechanism import MECHANISMS
from tilelang.transforms.analysis.scopes import FRAGMENT, is_private
from tilelang.transforms.analysis.tma import Subtile, is_complete, is_only_added
from tilelang.transforms.layouts.thread_mapping import known_mapping
from tilelang.transforms.lower import context as C, reducer, tma_copies
from tilelang.transforms.lower.direct_loads import lower_direct
from tilelang.transforms.lower.epilogue import lower_epilogue
from tilelang.transforms.lower.epilogue_subtiles import lower_subtile
from tilelang.transforms.lower.gemm_double_buffer import lower_double_buffered, product_of
from tilelang.transforms.lower.gemm_mma import lower_gemm
from tilelang.transforms.lower.gemm_simdgroup import SimdgroupProduct, loop_accumulator
from tilelang.transforms.lower.gemm_wgmma import lower_wait_products
from tilelang.transforms.lower.matrix_stores import lower_matrix_store
from tilelang.transforms.lower.parallel import lower_parallel
from tilelang.transforms.lower.print_tile import lower_print
from tilelang.transforms.lower.reduce import lower_reduce
from tilelang.transforms.lower.scan import lower_scan
from tilelang.transforms.lower.shuffles import lower_shuffles
from tilelang.transforms.lower.workspaces import closed

LOWERINGS: dict[type[S.Stmt], Any] = {
    S.Reduce: lower_reduce,
    S.Scan: lower_scan,
    S.ReducerInit: reducer.lower_reducer_init,
    S.ReducerUpdate: reducer.lower_reducer_update,
    S.ReducerFinalize: reducer.lower_reducer_finalize,
    S.PrintTile: lower_print,
    H.WaitProducts: lower_wait_products,
}
"""Statement class -> ``lower(stmt, ctx)``; loops and products are below."""


def lower_tiles_gpu(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` without tile operations, parallel loops and fragments."""
    return rewrite_launches(func, lambda launch: _Tiles(launch, context).run())


class _Tiles(ExprRewriter):
    kinds = (E.Load, E.AddressOf)

    def __init__(self, launch: S.Launch, context: Context) -> None:
        self.launch = launch
        self.groups = groups.thread_groups(launch, context.limits.warp)
        self.barriers = {(lo, n): ident for lo, n, ident in launch.hints.barrier_ids}
        self.thread = groups.thread_number(launch)
        block = C.Group(self.thread, prod(launch.threads))
        self.ctx = C.Lowering(context, block, bounds_of(launch), fragments=_registers(launch))
        self.counted: set[E.Expr] = set()  # pipelines with stages that do not exist
        self.is_elected: set[E.Expr] = set()  # pipelines that one thread fills
        self.own = tma_copies.OwnBarriers()
        self.repeats = 0  # loops around the statement whose iterations have an order
        self.facts: tuple[E.Expr, ...] = ()  # conditions around the statement
        # Of copies that are not loaded straight to LDS.
        self.plain: list[tuple[str, Loc | None]] = []

    def run(self) -> S.Stmt:
        """The launch as Thread IR."""
        body = closed(self.rewrite(self.launch.body))
        if self.own.before:
            body = S.seq(*self.own.before, body)
        launch = with_known_hints(self.launch.with_body(body), "thread")
        if not self.plain:
            return launch
        assert isinstance(launch, S.Launch)
        remarks = (*launch.hints.remarks, *self.plain)
        return replace(launch, hints=replace(launch.hints, remarks=remarks))

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        if isinstance(stmt, (S.TileOp, S.Parallel, S.ReducerUpdate, H.WaitProducts)):
            return self.lowered(stmt)
        if isinstance(stmt, H.Pipeline):
            mechanism = MECHANISMS[stmt.mechanism]
            self.counted |= {stmt.pipe} if mechanism.counts_iterations else set()
            self.is_elected |= {stmt.pipe} if mechanism.elected else set()
        if isinstance(stmt, S.Seq) and any(map(self.waits, stmt.stmts)):
            return self.sequence(stmt)
        if isinstance(stmt, S.For) and (lowered := self.ahead(stmt) or self.sums(stmt)) is not None:
            return lowered
        if isinstance(stmt, S.Store) and stmt.buffer.storage == FRAGMENT:
            target, index = self.register(stmt.buffer, stmt.indices, reads=False)
            return replace(stmt, buffer=target, indices=(index,), value=self.expr(stmt.value))
        if isinstance(stmt, S.If) and stmt.orelse is None:
            outer, self.facts = self.facts, (*self.facts, stmt.cond)
            result = super()._visit(stmt)
            self.facts = outer
            return result
        inside = isinstance(stmt, (S.For, S.While))
        repeats = inside and not (isinstance(stmt, S.For) and stmt.hints.tiles)
        self.own.loops += inside
        self.repeats += repeats
        with at(stmt.loc):
            result = super()._visit(stmt)
        self.own.loops -= inside
        self.repeats -= repeats
        return result

    def waits(self, stmt: S.Stmt) -> bool:
        """Whether ``stmt`` is a load by boxes that waits for itself."""
        if not is_complete(stmt):
            return False
        return isinstance(stmt, S.COPIES) and stmt.dst.buffer.storage != "global"

    def sequence(self, stmt: S.Seq) -> S.Stmt:
        """Statements in order; consecutive TMA loads wait together, unless two fill the same
        elements: TMA keeps no order between them."""
        result: list[S.Stmt] = []
        pending = list(stmt.stmts)
        while pending:
            run = [pending.pop(0)]
            group = self.groups.of(run[0])
            while self.waits(run[0]) and pending and self.waits(pending[0]):
                shared = (_may_alias(pending[0], load, self.ctx.bounds) for load in run)
                if self.groups.of(pending[0]) != group or any(shared):
                    break
                run.append(pending.pop(0))
            lowered = self.loads(run) if self.waits(run[0]) else self._visit(run[0])
            result += lowered if isinstance(lowered, list) else [lowered]
        return S.seq(*result)

    def loads(self, run: list[S.Stmt]) -> S.Stmt:
        """Loads by boxes that wait together."""
        copies = [stmt for stmt in run if isinstance(stmt, S.COPIES)]
        with at(run[0].loc):
            return _with_loc(self.own.loaded(copies, self.group_of(run[0])), run[0])

    def ahead(self, loop: S.For) -> list[S.Stmt] | None:
        """A pipelined loop around a product that loads ahead, None where it cannot."""
        product = product_of(loop)
        if product is None or product[0].pipe not in self.counted:
            return None
        wait, copies, gemm, release = product
        lo, threads = self.groups.of(gemm)
        if lo or threads != self.ctx.threads:
            return None
        with at(gemm.loc):
            lowered = lower_double_buffered(loop, wait, gemm, release, self.ctx)
        if lowered is None:
            return None
        before, body = ([_with_loc(s, gemm) for s in stmts] for stmts in lowered)
        rewritten_loop = replace(loop, body=S.seq(*map(self.rewrite, copies), *body))
        return [*before, with_known_hints(rewritten_loop, "thread")]

    def sums(self, loop: S.For) -> list[S.Stmt] | None:
        """A loop that keeps the accumulator of a product in matrices, else None."""
        gemm = loop_accumulator(loop)
        if gemm is None or gemm.c.buffer.data in self.ctx.matrices:
            return None
        ctx = self.group_of(gemm)
        ctx.workspaces = []
        with at(gemm.loc):
            product = SimdgroupProduct(gemm, ctx)
            sums = product.array("sums", product.atom.c, product.rows * product.columns)
            around = [product.enter(sums, in_registers=True), product.leave(sums)]
            before, after = (_with_loc(stmt, gemm) for stmt in around)
        allocs = [S.Alloc(buffer=buffer, loc=gemm.loc) for buffer in (*ctx.workspaces, sums)]
        self.ctx.matrices[gemm.c.buffer.data] = sums
        body = self.rewrite(loop)
        del self.ctx.matrices[gemm.c.buffer.data]
        return [*allocs, before, body, after]

    def lowered(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        """One tile operation, with the workspaces that it asks for in front."""
        ctx = self.group_of(stmt)
        ctx.workspaces = []
        with at(stmt.loc):
            result = _with_loc(self.lower_stmt(stmt, ctx), stmt)
        each = isinstance(stmt, (S.Reduce, S.Scan)) and is_private(stmt.dst)  # in every thread
        if stmt in self.groups.elected and not each:
            result = S.If(cond=self.thread.equal(ctx.group.lo), then=result, loc=stmt.loc)
        allocs = [S.Alloc(buffer=buffer, loc=stmt.loc) for buffer in ctx.workspaces]
        return [*allocs, result] if allocs else result

    def group_of(self, stmt: S.Stmt) -> C.Lowering:
        """The lowering for the threads that run ``stmt``."""
        lo, threads = self.groups.of(stmt)
        number = self.thread if lo == 0 else E.binary("sub", self.thread, E.const(lo))
        ident = self.barriers.get((lo, threads), 0)
        return replace(self.ctx, group=C.Group(number, threads, lo, ident))

    def lower_stmt(self, stmt: S.Stmt, ctx: C.Lowering) -> S.Stmt:
        """Thread IR of one operation."""
        if isinstance(stmt, S.Gemm):
            return lower_gemm(stmt, ctx)
        if isinstance(stmt, S.Fill) and stmt.dst.buffer.attrs.reducer is not None:
            return reducer.start_reducer(stmt.dst, self.expr(stmt.value), ctx)
        if isinstance(stmt, S.ReducerInit) and stmt.init is not None:
            return reducer.start_reducer(stmt.reducer, self.expr(stmt.init), ctx)
        if isinstance(stmt, S.ReducerUpdate):
            indices = tuple(map(self.expr, stmt.indices))
            value = self.expr(stmt.value)
            return reducer.lower_reducer_update(replace(stmt, indices=indices, value=value), ctx)
        if isinstance(stmt, S.Im2col) and is_complete(stmt):
            return self.own.loaded([stmt], ctx)
        if isinstance(stmt, S.AtomicTile) and is_complete(stmt):
            loops = self.own.loops and not is_only_added(stmt, self.launch.body)
            return tma_copies.stored(stmt, ctx, loops)
        if isinstance(stmt, S.COPIES) and stmt.mode == "tma":
            return self.boxes(stmt, ctx)
        if isinstance(stmt, S.Copy) and stmt.mode == "cluster" and ctx.context.has("cluster"):
            return tma_copies.sent(stmt, ctx)
        if isinstance(stmt, S.Copy) and stmt.hints.exchange:
            return lower_shuffles(stmt, ctx)
        if isinstance(stmt, S.Copy) and isinstance(part := stmt.hints.subtile, Subtile):
            return self.part(stmt, part, ctx)
        if isinstance(stmt, S.Copy) and (rows := lower_epilogue(stmt, ctx)) is not None:
            return rows
        if isinstance(stmt, S.HardwareOp) and stmt.name == "deallocate_tmem":
            (freed,) = stmt.writes
            return S.do(operations.TMEM_FREE, E.AddressOf(freed.buffer, freed.mins))
        loop = loop_of(stmt)
        if loop is not None:
            return self.loop(stmt, loop, ctx)
        lowering = LOWERINGS.get(type(stmt))
        if lowering is None:
            raise self.unsupported(stmt, ctx.context)
        result: S.Stmt = lowering(stmt, ctx)
        return result

    def boxes(self, stmt: S.TileCopy, ctx: C.Lowering) -> S.Stmt:
        """A copy by boxes. The thread that acquires a stage fills it."""
        if stmt.barrier in self.is_elected:
            return S.seq(*tma_copies.issued(stmt, tma_copies.boxes_or_refuse(stmt, ctx.bounds)))
        if stmt.dst.buffer.storage == "global":
            return tma_copies.stored(stmt, ctx, self.repeats)
        return (
            self.own.loaded([stmt], ctx) if is_complete(stmt) else tma_copies.announced(stmt, ctx)
        )

    def unsupported(self, stmt: S.Stmt, context: Context) -> TileUnsupportedError:
        """The error of an operation that has no lowering, on this target or on any."""
        name = stmt.name if isinstance(stmt, S.HardwareOp) else type(stmt).__name__
        planned = isinstance(stmt, S.HardwareOp) and context.has(stmt.needs)
        needs = lowest_with(stmt.needs) if isinstance(stmt, S.HardwareOp) else "another target"
        return TileUnsupportedError(
            f"T.{name} is not supported " + ("yet, on any target" if planned else "on this target"),
            expected=None if planned else f"a target with {needs}",
            got=f"target={str(context.target)!r}",
            hint="write the operation with T.copy and T.gemm",
            loc=stmt.loc,
        )

    def part(self, stmt: S.Copy, part: Subtile, ctx: C.Lowering) -> S.Stmt:
        """A part of a copy; where warps hold it in another way than by rows, the first part is all
        of it."""
        lowered = lower_subtile(stmt, part, ctx)
        if lowered is not None:
            return lowered
        plain = replace(stmt, hints=stmt.hints.without("subtile"))
        return S.seq() if part.number != 0 else self.lower_stmt(plain, ctx)

    def loop(self, stmt: S.Stmt, loop: S.Parallel, ctx: C.Lowering) -> S.Stmt:
        """A loop over elements; an asynchronous copy without another commit commits itself."""
        asynchronous = isinstance(stmt, S.COPIES) and stmt.mode == "async"
        if isinstance(stmt, S.Copy) and stmt.mode not in ("copy", "async"):
            raise TileUnsupportedError(
                f"T.copy with mode {stmt.mode!r} is not supported on this target",
                expected="T.copy or T.async_copy",
                got=f"a copy that needs units of sm_90, for target={str(ctx.context.target)!r}",
                hint="use T.copy",
                loc=stmt.loc,
            )
        committed = not loop.hints.commit
        if isinstance(stmt, S.Copy) and committed and ctx.context.has("direct_lds"):
            direct = lower_direct(stmt, self.facts, ctx)
            if isinstance(direct, S.Stmt):
                return direct
            why = f"`{stmt.dst.buffer.name}` is copied by threads: {direct}"
            self.plain.append((why, stmt.loc))
        if asynchronous:
            loop = replace(loop, hints=replace(loop.hints, asynchronous=True))
        spread = None
        if static_extents(loop) is not None:
            spread = known_mapping(loop, ctx.threads, ctx.bounds)
        result = lower_matrix_store(loop, spread, ctx)
        if result is not None and spread is not None and self.is_taken_by_lanes(stmt, loop, spread):
            result = S.seq(C.sync_warp(), result, C.sync_warp())
        result = result or lower_parallel(loop, spread, ctx)
        if asynchronous and not committed and ctx.context.has("cp_async"):
            return S.seq(result, S.do(operations.CP_ASYNC_COMMIT, loc=stmt.loc))
        return result

    def is_taken_by_lanes(self, stmt: S.Stmt, loop: S.Parallel, spread: RegisterLayout) -> bool:
        """Whether another loop has each lane take the elements of a tile that ``loop`` stores from
        it: no barrier is between them, and the lanes of a block store for each other."""
        tiles = {access.data for access in effects.accesses(loop, nested=True) if access.writes}
        for other in S.walk(self.launch.body):
            reader = None if other is stmt or effects.uses_tma(other) else loop_of(other)
            if reader is None or tiles.isdisjoint(effects.used(reader)):
                continue
            if static_extents(reader) is not None:
                if known_mapping(reader, spread.threads, self.ctx.bounds).contains(spread):
                    return True
        return False

    # -- fragments outside tile operations -----------------------------------------------------
    def stmt(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt] | None:
        """Allocations and views of fragments are register arrays."""
        if isinstance(stmt, (S.Alloc, S.View)) and stmt.buffer.storage == FRAGMENT:
            if stmt.buffer.attrs.register_layout is None:
                return None  # never used
            result = replace(stmt, buffer=self.ctx.registers(stmt.buffer))
            if isinstance(stmt, S.Alloc) and C.register_layout_of(stmt.buffer).is_sparse:
                return [result, _clear_registers(result.buffer)]
            return result
        return with_known_hints(stmt, "thread")

    def register(
        self, buffer: Buffer, indices: tuple[E.Expr, ...], reads: bool = True
    ) -> tuple[Buffer, E.Expr]:
        """The register of an element that every thread holds, or the one that names it. What
        other threads hold copies of is only read: they would keep the old value."""
        layout = C.register_layout_of(buffer)
        alone = reads or not layout.is_replicated
        if not layout.is_everywhere and not (alone and self.owns(layout, indices)):
            raise TileUnsupportedError(
                f"an element of the fragment `{buffer.name}` is used outside T.Parallel",
                expected="a fragment that every thread holds as a whole, or an access in "
                "T.Parallel",
                got="a fragment whose elements are spread over the threads",
                hint="use T.Parallel over the fragment, or copy it to a shared buffer first",
            )
        own = [self.expr(index) for index in indices]
        return self.ctx.registers(buffer), layout.register_of(own)

    def owns(self, layout: RegisterLayout, indices: tuple[E.Expr, ...]) -> bool:
        """Whether each thread that comes here holds the element that it names."""
        register = layout.register_of(indices)
        own = layout.index_of(self.thread, register)
        conditions = [E.binary("eq", *pair) for pair in zip(own, indices)]
        conditions += [E.binary("lt", *pair) for pair in zip(own, map(E.const, layout.shape))]
        valid = layout.valid(self.thread, register)
        conditions += [] if valid is None else [valid]
        lets = let_values(S.find(self.launch.body, S.Let), lambda x: x.dtype.is_integer)
        mask = groups.thread_mask(E.conjunction(conditions), self.launch, lets)
        if mask is None or layout.threads != prod(self.launch.threads):
            return False
        for fact in self.facts:
            threads = groups.possible_threads(fact, self.launch, lets)
            mask = mask if threads is None else mask | ~threads
        return bool(mask.all())

    def node(self, expr: E.Expr) -> E.Expr:
        if isinstance(expr, E.AddressOf) and expr.buffer.storage == FRAGMENT and _is_tile(expr):
            # Instructions of a program name the registers of a tile with the program's layout.
            return E.AddressOf(self.ctx.registers(expr.buffer), (E.const(0),), expr.access)
        if isinstance(expr, (E.Load, E.AddressOf)) and expr.buffer.storage == FRAGMENT:
            plain = isinstance(expr, E.Load)
            return E.moved_to(expr, *self.register(expr.buffer, expr.indices, reads=plain))
        return rebuild(expr, self.expr)


def _is_tile(address: E.AddressOf) -> bool:
    """Whether an address is that of a tile: of a fragment, that of each thread's first register."""
    return all(isinstance(index, E.Const) and index.value == 0 for index in address.indices)


def _registers(launch: S.Launch) -> int:
    """Registers of a thread that the fragments of a launch take."""
    bits = 0
    for stmt in S.find(launch.body, S.Alloc):
        if stmt.buffer.storage == FRAGMENT:
            layout = stmt.buffer.attrs.register_layout
            bits += layout.register_count * stmt.buffer.dtype.bits if layout is not None else 0
    return bits // C.REGISTER


def _with_loc(lowered: S.Stmt, stmt: S.Stmt) -> S.Stmt:
    """``lowered`` with the place of ``stmt`` where it has none of its own."""
    if isinstance(lowered, S.Seq):
        return S.seq(*(_with_loc(child, stmt) for child in lowered.stmts))
    return lowered if lowered.loc is not None else replace(lowered, loc=stmt.loc)


def _clear_registers(array: Buffer) -> S.Stmt:
    """Zeros in all registers: those that hold no element may be read, though never used."""
    var = E.Var("s", C.INT)
    store = S.Store(buffer=array, indices=(var,), value=E.const(0, array.dtype))
    return S.counted(var, E.as_expr(array.shape[0]), store, "unroll")


def _may_alias(a: S.Stmt, b: S.Stmt, bounds: Bounds) -> bool:
    """Whether two loads may fill the same element."""
    assert isinstance(a, S.COPIES) and isinstance(b, S.COPIES)
    return may_overlap(a.dst, b.dst, bounds)
