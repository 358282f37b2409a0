"""Barrier insertion: ``sync_threads`` between statements that exchange data through memory.

A linear scan over the statements of a kernel keeps the accesses since the last barrier. A statement
that conflicts with one of them gets a barrier before it. Loops are scanned again with what the
previous iteration leaves, until nothing new appears. A branch that not all threads take can hold no
barrier, so its hazards with earlier statements get a barrier before it; hazards inside it are
errors, with two exceptions: whole warps get a named barrier, and a hazard between lanes of one warp
gets a warp barrier if all warps run the branch with the same lanes.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import accumulate
from math import prod
from operator import or_

import numpy as np

from tilelang.errors import Loc, TileUnsupportedError
from tilelang.ir import effects, expr as E, schedule as H, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.visitor import replace_changed, rewrite_launches, substitute
from tilelang.target import Context
from tilelang.transforms.analysis import groups
from tilelang.transforms.analysis.loops import trip_count
from tilelang.transforms.analysis.mechanism import ARRIVALS, MECHANISMS, Mechanism, Step, changed
from tilelang.transforms.analysis.reductions import has_barrier
from tilelang.transforms.analysis.tma import is_complete
from tilelang.transforms.sync import barrier_queries as Q, events
from tilelang.transforms.sync.global_communication import communication_buffers
from tilelang.transforms.sync.ordering import ASYNC_FENCE, ExecScope, Ordering
from tilelang.transforms.sync.pending_accesses import PendingAccesses


def insert_barriers(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with ``sync_threads`` wherever threads exchange data through shared memory.

    Thread groups (branches of whole warps) get named barriers; the launch annotation
    "barrier_ids" lists them as (first thread, count, id).

    Args:
        func: the program, with layouts.
        context: with the option "no_auto_sync" the program places its own barriers. Then accesses
            of single threads are left to it where no barrier is possible; tile operations are
            ordered as always, but for the waits of copies that the program waits for by groups.

    Raises:
        TileUnsupportedError: an exchange inside a branch that only some threads of a warp take.
    """
    return rewrite_launches(func, lambda launch: _synchronized(launch, context))


def _synchronized(launch: S.Launch, context: Context) -> S.Launch:
    """``launch`` with its barriers."""
    if prod(launch.threads) == 1:
        return launch
    inserter = _Inserter(launch, context)
    start = ExecScope(np.ones(prod(launch.threads), np.bool_))
    body = inserter.visit(launch.body, PendingAccesses(), start)
    groups = tuple((lo, count, ident) for (lo, count), ident in inserter.groups.items())
    if body is launch.body and groups == launch.hints.barrier_ids:
        return launch
    return replace(launch, body=body, hints=replace(launch.hints, barrier_ids=groups))


class _Inserter(Ordering):
    """One launch."""

    def __init__(self, launch: S.Launch, context: Context) -> None:
        no_auto_sync, warp = context.options.no_auto_sync, context.limits.warp
        super().__init__(launch, no_auto_sync, warp)
        self.launch = launch
        self.values = groups.thread_groups(launch, warp).values
        opaque = self.values.names - set(launch.thread_vars)
        # Loads from global memory straight to LDS have maps of their own.
        by_threads = not context.has("direct_lds")
        self.scope = events.Scope(
            groups.thread_indices(launch), opaque=opaque, copies_are_loops=by_threads,
            awaited=bool(self.landings) and not self.counts,
        )  # fmt: skip
        # Where the program places its own barriers, only stores that a pass gave to one thread are
        # ordered here.
        known = frozenset(launch.hints.exchanges)
        self.scope.exchanges = known if no_auto_sync else communication_buffers(launch, self.scope)
        self.mechanisms: dict[E.Expr, Mechanism] = {}
        self.fenced: set[E.Expr] = set()  # pipelines whose waits fence what was written before
        # For each loop around: the accesses that are pending at its break and continue statements.
        self.exits: list[dict[type[S.Stmt], list[events.Access]]] = []
        self.known = events.AccessTable()
        # Accesses by statement, so that equal accesses are the same objects.
        self._accesses: dict[tuple[S.Stmt, tuple[S.Stmt, ...], bool], list[events.Access]] = {}
        self._outside: dict[tuple[events.Access, S.Stmt, int], events.Access] = {}
        self._phases: dict[S.Stmt, Buffer] = {}  # placeholders for the mbarriers of loads

    # -- statements ----------------------------------------------------------------------------
    def visit(self, stmt: S.Stmt, pending: PendingAccesses, at: ExecScope) -> S.Stmt:
        """``stmt`` with barriers; ``pending`` are the accesses since the last one, updated."""
        if isinstance(stmt, S.Seq):
            return stmt.of(self.sequence(stmt.stmts, pending, at))
        if isinstance(stmt, S.If):
            return self.branch(stmt, pending, at)
        if isinstance(stmt, (S.For, S.While)):
            return self.loop(stmt, pending, at)
        if isinstance(stmt, H.Pipeline):
            return self.pipeline(stmt, pending, at)
        if isinstance(stmt, H.Run):
            return replace_changed(stmt, body=self.visit(stmt.body, pending, at))
        if isinstance(stmt, (S.Break, S.Continue)) and self.exits:
            self.exits[-1][type(stmt)].extend(pending)
            return stmt
        return self.leaf(stmt, pending, at)

    def pipeline(
        self, stmt: H.Pipeline, pending: PendingAccesses, at: ExecScope,
        outer: frozenset[E.Var] = frozenset(),
    ) -> S.Stmt:  # fmt: skip
        """Consumers are ordered by the pipeline, which was verified. What fills the
        first versions is a copy like others to the statements before. ``outer``: the tiles of
        pipelines that hold nothing but this one."""
        mechanism = self.mechanisms[stmt.pipe] = MECHANISMS[stmt.mechanism]
        proxy = stmt.proxy if self.async_storage.isdisjoint(stmt.tiles) else "async"
        if proxy == "async" and mechanism.mode != "tma":
            self.fenced.add(stmt.pipe)
        body_stmts = self.inside(stmt.body, outer | frozenset(stmt.tiles), pending, at)
        if Step.BARRIER in mechanism.close:
            body_stmts += self.fence(pending, at)
        self.arrive(pending)
        self.steps(mechanism.close, pending, at)
        body = S.seq(*body_stmts)
        is_unchanged = isinstance(stmt.body, S.Seq) and body_stmts == list(stmt.body.stmts)
        is_unchanged = is_unchanged and proxy == stmt.proxy
        return stmt if is_unchanged else replace(stmt, body=body, proxy=proxy)

    def inside(
        self, body: S.Stmt, tiles: frozenset[E.Var], pending: PendingAccesses, at: ExecScope
    ) -> list[S.Stmt]:
        """The statements of pipelines of ``tiles``."""
        if isinstance(body, H.Pipeline):
            return [self.pipeline(body, pending, at, tiles)]
        if isinstance(body, H.Run):
            return [replace(body, body=S.seq(*self.inside(body.body, tiles, pending, at)))]
        own = changed(body, tiles)
        inner = replace(at, exempt=at.exempt | (tiles - own), changed=at.changed | own)
        stmts = S.flat(body)
        result: list[S.Stmt] = []
        for k, stmt in enumerate(stmts):
            result += self.before_filling(stmts[k:], pending, at)
            result.append(self.visit(stmt, pending, inner if S.holds(stmt, H.Wait) else at))
        return result

    def steps(self, steps: tuple[Step, ...], pending: PendingAccesses, at: ExecScope) -> None:
        """Apply the barriers and waits of a pipeline step."""
        if not ARRIVALS.isdisjoint(steps):
            self.arrive(pending)
        if Step.BARRIER in steps and at.group is not None:
            self.group_id(at.group)  # for the lowering of the pipeline
            self.reset(pending, at)
        elif Step.BARRIER in steps:
            self.reset(pending, replace(at, mask=np.ones_like(at.mask)))

    def sequence(
        self, stmts: tuple[S.Stmt, ...], pending: PendingAccesses, at: ExecScope
    ) -> list[S.Stmt]:
        """Statements in order. Where branches of different threads wait for each other, as the
        program wrote it, a barrier of all threads is legal only before the first of them."""
        roles = [k for k, stmt in enumerate(stmts) if self.is_role(stmt, at)]
        result: list[S.Stmt] = []
        scope, before = at, None
        ahead = list(accumulate(map(self.async_use, stmts[::-1]), or_, initial=self.upcoming))
        for k, stmt in enumerate(stmts):
            self.upcoming = ahead.pop()
            if isinstance(stmt, H.Acquire) and at.changed:
                scope, before = replace(at, exempt=at.exempt | at.changed), set(pending)
            if roles and k == roles[0] and len(roles) > 1:
                for other in stmts[k : roles[-1] + 1]:
                    result += self.flush(self.split_branch(other, at), pending, at, other.loc)
            result += self.before_filling(stmts[k:], pending, scope)
            if self.unfenced and not at.path and self.async_use(stmt):
                result += [ASYNC_FENCE, S.Eval(value=self.barrier(at, stmt.loc), loc=stmt.loc)]
                self.unfenced = False
                self.reset(pending, at)
            result.append(self.visit(stmt, pending, scope))
            if isinstance(stmt, H.Commit) and before is not None:  # the pipeline orders its copies
                kept = (a for a in pending if a in before or a.buffer.data not in at.changed)
                pending.assign(list(kept))
                scope, before = at, None
        self.upcoming = ahead.pop()
        return result

    def before_filling(
        self, stmts: tuple[S.Stmt, ...], pending: PendingAccesses, at: ExecScope
    ) -> list[S.Stmt]:
        """Barriers before the first of ``stmts`` if it acquires a stage that one thread
        fills: that thread does all up to the commit, so no barrier is legal in between."""
        first = stmts[0]
        if not (isinstance(first, H.Acquire) and self.mechanisms[first.pipe].elected):
            return []
        end = next(k for k, stmt in enumerate(stmts) if isinstance(stmt, H.Commit))
        filling = self.accesses(S.seq(*stmts[:end]), at, nested=True)
        return self.order(filling, pending, at, first.loc)

    def is_role(self, stmt: S.Stmt, at: ExecScope) -> bool:
        """A branch of some threads in which they wait for, or signal, others."""
        if not (self.manual and isinstance(stmt, S.If) and Q.has_signals(stmt)):
            return False
        return self.values.divides(stmt)

    def split_branch(self, stmt: S.Stmt, at: ExecScope) -> list[tuple[S.Stmt, ExecScope | None]]:
        """The parts that different threads run: sides of a thread-dependent branch, or ``stmt``."""
        if not isinstance(stmt, S.If) or not self.values.divides(stmt):
            return [(stmt, at)]
        inner = replace(at, path=(*at.path, stmt))
        conds = (stmt.cond, groups.inverse(stmt.cond))
        return [
            (block, self.narrowed(cond, stmt, inner))
            for cond, block in zip(conds, (stmt.then, stmt.orelse))
            if block is not None
        ]

    def flush(
        self, sides: list[tuple[S.Stmt, ExecScope | None]], pending: PendingAccesses, at: ExecScope,
        loc: Loc | None,
    ) -> list[S.Stmt]:  # fmt: skip
        """Statements before ``sides`` that different threads of ``at`` run. A group's own
        earlier accesses can wait: its own barrier orders them."""
        before: list[S.Stmt] = []
        for block, where in sides:
            if where is None:
                continue
            group_accesses = self.accesses(block, where, nested=True)
            hazards = self.hazards(group_accesses, pending, at)
            if all(_is_made_in(hazard.first, where, at) for hazard in hazards):
                continue
            others = PendingAccesses(
                access for access in pending if not _is_made_in(access, where, at)
            )
            barriers = self.order(group_accesses, others, at, loc)
            if barriers:
                if any(c.atom.waits_for("cp_async") for stmt in barriers for c in stmt.calls()):
                    self.arrive(pending)
                self.reset(pending, at)
                before += barriers
        return before

    def leaf(self, stmt: S.Stmt, pending: PendingAccesses, at: ExecScope) -> S.Stmt:
        """A statement without control flow; a parallel loop is one, too."""
        own = self.accesses(stmt, at)
        if isinstance(stmt, S.Let):
            self.scope.bind(stmt)
        phase_begin, phase_end = self.phase_accesses(stmt, at)
        before: list[S.Stmt] = []
        if at.cond is None and has_barrier(stmt, self.warp, int(at.mask.sum())):
            source = [access for access in own if access.buffer.data is stmt.src.buffer.data]
            before += self.order(source, pending, at, stmt.loc)
            before += self.fence(pending, at)
            self.reset(pending, at)
        before += self.order([*own, *phase_begin], pending, at, stmt.loc)
        if isinstance(stmt, S.Store) and own:
            split = self.split(stmt, own, pending, at)
            if split is not None:
                return S.seq(*before, split)
        if effects.uses_tma(stmt):
            # The wait for such a load is on an mbarrier that counts bytes.
            own = [access for access in own if access.mode == "read"]
        pending.add([*own, *phase_end])
        if self.signals_others(stmt) or (isinstance(stmt, H.Release) and at.changed):
            before += self.fence(pending, at)
        self.user_barrier(stmt, pending, at)
        signals = isinstance(stmt, (S.Copy, S.Gemm)) and stmt.hints.signals
        after = self.barrier_after(stmt, pending, at) if signals else self.landed(stmt)
        return S.seq(*before, stmt, *after) if before or after else stmt

    def phase_accesses(
        self, stmt: S.Stmt, at: ExecScope
    ) -> tuple[list[events.Access], list[events.Access]]:
        """Accesses of a synchronous load to its mbarrier: one thread begins a phase, and all
        threads see its end. A parity cannot distinguish a phase from the next but
        one, so no thread may begin one before all have seen the end of the last."""
        if not (is_complete(stmt) and effects.uses_tma(stmt) and Q.fills_shared(stmt)):
            return [], []
        buffer = Buffer("turn", Shape((1,)), DType("uint64"), "shared")
        phase = self._phases.setdefault(stmt, buffer)
        scope = self.scope.copy(mask=None if at.mask.all() else at.mask, joint=True, layout=None)
        begun, ended = (
            self.known.canonical(scope.access(phase, mode, (E.const(0),), (1,), stmt.loc))
            for mode in ("write", "read")
        )
        return [begun], [ended]

    def landed(self, stmt: S.Stmt) -> list[S.Stmt]:
        """The fence after a wait for copies by cp.async, before the async proxy reads them."""
        awaited = Q.barriers_of(effects.accesses(stmt), "wait") if self.landings else ()
        return [] if self.landings.isdisjoint(awaited) else [ASYNC_FENCE]

    def barrier_after(self, stmt: S.Stmt, pending: PendingAccesses, at: ExecScope) -> list[S.Stmt]:
        """The barrier after a copy, before one thread may signal that it is complete."""
        if at.cond is None:
            fence = self.fence(pending, at)
            self.reset(pending, at)
            return [*fence, S.Eval(value=self.barrier(at, stmt.loc), loc=stmt.loc)]
        if int(np.count_nonzero(at.mask)) == 1:
            return []
        is_one_warp = at.exact and Q.warp_count(at.mask, self.warp) == 1
        bits = Q.lane_bits(at.mask, self.warp) if is_one_warp else None
        if bits is None:
            raise TileUnsupportedError(
                "threads that cannot synchronize execute a copy with a barrier",
                loc=stmt.loc,
                expected="a copy by one thread, by threads of one warp, or by whole warps",
                got=f"a copy under `{at.cond!r}`",
                hint="let one thread issue the copy (`if tx == 0:`)",
            )
        self.reset(pending, at)
        return [S.Eval(value=self.lane_barrier(bits), loc=stmt.loc)]

    def split(
        self, stmt: S.Store, own: list[events.Access], pending: PendingAccesses, at: ExecScope
    ) -> S.Stmt | None:
        """A store to elements that other threads read for their values: value, barrier, store."""
        reads = [access for access in own if access.mode == "read"]
        writes = [access for access in own if access.mode == "write"]
        between = self.order(writes, PendingAccesses(reads), at, stmt.loc)
        if not between:
            return None
        pending.add(reads)
        self.reset(pending, at)
        pending.add(writes)
        source = stmt.value
        # The name of an instruction that stores stays at its store.
        mover = source if isinstance(source, E.Call) and source.atom.moves else None
        if mover is not None:
            source = mover.args[0]
        value = E.Var("value", source.dtype)
        let = S.Let(var=value, value=source, loc=stmt.loc)
        stored = E.Call(mover.atom, (value,), mover.dtype) if mover is not None else value
        return S.seq(let, *between, replace(stmt, value=stored))

    def accesses(self, stmt: S.Stmt, at: ExecScope, nested: bool = False) -> list[events.Access]:
        """The accesses of ``stmt``, the same objects for every call of one occurrence."""
        key = (stmt, at.path, nested)
        result = self._accesses.get(key)
        if result is None:
            mask = None if at.mask.all() else at.mask
            copies = any(isinstance(stmt, S.For) and stmt.hints.asynchronous for stmt in at.path)
            scope = self.scope.copy(mask=mask, exact=at.exact, fenced=self.scope.awaited and copies)
            uncached = (
                events.all_accesses(stmt, scope) if nested else events.own_accesses(stmt, scope)
            )
            if self.counts_groups:
                uncached = [replace(access, pending=False) for access in uncached]
            result = list(PendingAccesses(map(self.known.canonical, uncached)))
            self._accesses[key] = result
        return result

    # -- signals -------------------------------------------------------------------------------
    def signals_others(self, stmt: S.Stmt) -> bool:
        """Whether ``stmt`` signals other threads, by the program or by a pipeline."""
        if isinstance(stmt, H.Wait):
            return Step.BARRIER in self.mechanisms[stmt.pipe].wait and stmt.pipe not in self.fenced
        atoms = (node.atom for node in stmt.calls())
        return any(
            atom.is_barrier("warp", "block", "grid")
            or (atom.orders is not None and atom.signals and atom.orders.kind == "arrive")
            for atom in atoms
        )

    def user_barrier(self, stmt: S.Stmt, pending: PendingAccesses, at: ExecScope) -> None:
        """Apply the synchronization of pipelines and of the program itself."""
        if isinstance(stmt, H.Wait):
            self.steps(self.mechanisms[stmt.pipe].wait, pending, at)
        for node in stmt.calls():
            if node.atom.waits_for("cp_async"):  # the program counts groups
                self.arrive(pending)
            elif node.atom.is_barrier("block", "grid") and self.covers(node, at):
                self.reset(pending, at if node.args else replace(at, mask=np.ones_like(at.mask)))
            elif node.atom.is_barrier("warp"):
                self.apply_warp_barrier(pending, at)

    def covers(self, node: E.Call, at: ExecScope) -> bool:
        """Whether a barrier of the program includes all threads of ``at``."""
        if len(node.args) < 2:
            return True
        count = node.args[1]
        return isinstance(count, E.Const) and int(count) >= int(np.count_nonzero(at.mask))

    # -- branches ------------------------------------------------------------------------------
    def branch(self, stmt: S.If, pending: PendingAccesses, at: ExecScope) -> S.Stmt:
        """Both sides, with the barriers before them."""
        before = self.order_exprs(stmt, pending, at)
        inner = replace(at, path=(*at.path, stmt))
        if not self.values.divides(stmt):
            then_pending, else_pending = (PendingAccesses(base=pending) for _ in range(2))
            then = self.visit(stmt.then, then_pending, inner)
            orelse = None if stmt.orelse is None else self.visit(stmt.orelse, else_pending, inner)
            pending.assign((*then_pending, *else_pending))
        else:
            blocks, more = self.sides(self.split_branch(stmt, at), pending, at, stmt.loc)
            before += more
            then, orelse = blocks[0], blocks[1] if len(blocks) > 1 else None
        stmt = replace_changed(stmt, then=then, orelse=orelse)
        return S.seq(*before, stmt) if before else stmt

    def order_exprs(self, stmt: S.Stmt, pending: PendingAccesses, at: ExecScope) -> list[S.Stmt]:
        """The expressions of a statement with blocks, evaluated before these."""
        own = self.accesses(stmt, at)
        before = self.order(own, pending, at, stmt.loc)
        pending.add(own)
        return before

    def sides(
        self, sides: list[tuple[S.Stmt, ExecScope | None]], pending: PendingAccesses, at: ExecScope,
        loc: Loc | None,
    ) -> tuple[list[S.Stmt], list[S.Stmt]]:  # fmt: skip
        """Sides that the threads of ``at`` execute separately, and the barriers before them.

        A barrier inside orders the threads of its side only, so all accesses of a side are
        still pending for the others.
        """
        before = self.flush(sides, pending, at, loc)
        blocks = []
        opened: list[events.Access] = []
        for block, where in sides:
            if where is None:
                blocks.append(block)
                continue
            open_ = pending if _may_belong(where, at) else ()  # most branches: none to look at
            group_pending = PendingAccesses(a for a in open_ if _is_made_in(a, where, at))
            blocks.append(self.visit(block, group_pending, where))
            opened += self.accesses(block, where, nested=True)
        pending.add(opened)
        return blocks, before

    def narrowed(self, cond: E.Expr, stmt: S.If, at: ExecScope) -> ExecScope | None:
        """The threads of ``at`` for which ``cond`` holds at ``stmt``; None if there are none."""
        differs = partial(self.values.differs, stmt=stmt)
        mask = groups.exact_threads(cond, self.launch, self.scope.lets, differs)
        exact = mask is not None
        if mask is None:
            mask = groups.possible_threads(cond, self.launch, self.scope.lets)
        mask = at.mask if mask is None else mask & at.mask
        if not mask.any():
            return None
        if exact and bool((mask == at.mask).all()):
            return at
        group = groups.range_of(mask, self.warp) if exact and at.cond is None else None
        if group is not None:
            self.group_id(group)
            return replace(at, mask=mask, group=group)
        reason = cond if at.cond is None else at.cond
        conds = (*at.conds, substitute(cond, self.scope.lets))
        return replace(at, mask=mask, exact=exact and at.exact, cond=reason, conds=conds)

    # -- loops ---------------------------------------------------------------------------------
    def loop(self, stmt: S.For | S.While, pending: PendingAccesses, at: ExecScope) -> S.Stmt:
        """A loop, scanned until all loop-carried accesses are known."""
        before = self.order_exprs(stmt, pending, at)
        is_uniform = not self.values.divides(stmt)
        inner = replace(at, path=(*at.path, stmt), exact=at.exact and is_uniform)
        if not is_uniform and at.cond is None:
            before += self.order(self.accesses(stmt.body, at, nested=True), pending, at, stmt.loc)
            ends = (expr for expr in stmt.exprs() if self.values.differs(expr, stmt))
            inner = replace(inner, cond=next(ends, E.const(True)))
        later, self.upcoming = self.upcoming, self.upcoming - self.deferred(stmt, pending, at)
        body, leaving = self.iterate(stmt, pending, inner)
        if body is not stmt.body and is_uniform and at.cond is None:
            ahead = self.barrier_before_loop(stmt, pending, at, inner, Q.count_barriers(body))
            if ahead is not None:
                before += ahead[0]
                pending.assign(ahead[1])
                body, leaving = ahead[2], ahead[3]
        self.unfenced |= self.upcoming != later
        self.upcoming = later
        is_executed = isinstance(stmt, S.For) and bool(trip_count(stmt))
        pending.assign(leaving if is_executed else (*pending, *leaving))
        new_loop = stmt if body is stmt.body else replace(stmt, body=body)
        return S.seq(*before, new_loop) if before else new_loop

    def deferred(
        self, loop: S.For | S.While, pending: PendingAccesses, at: ExecScope
    ) -> set[E.Var]:
        """Storage that the async proxy uses behind an outermost ``loop`` and not in it: one fence
        there does for all writes of a thread."""
        if not self.is_flat or at.path or not at.mask.all():
            return set()
        written = effects.written(loop).union(a.buffer.data for a in pending)
        return self.upcoming.intersection(written) - self.async_use(loop)

    def barrier_before_loop(
        self, stmt: S.For | S.While, pending: PendingAccesses, at: ExecScope, inner: ExecScope,
        limit: int,
    ) -> tuple[list[S.Stmt], PendingAccesses, S.Stmt, list[events.Access]] | None:  # fmt: skip
        """A barrier before a loop if fewer than ``limit`` remain in it: the statements,
        what is pending after them, and the loop's body and what it leaves open then."""
        rest = PendingAccesses(pending)
        before = self.order(self.accesses(stmt.body, at, nested=True), rest, at, stmt.loc)
        if not before:
            return None
        body, leaving = self.iterate(stmt, rest, inner)
        return (before, rest, body, leaving) if Q.count_barriers(body) < limit else None

    def iterate(
        self, stmt: S.For | S.While, entry: PendingAccesses, at: ExecScope
    ) -> tuple[S.Stmt, list[events.Access]]:
        """The body, and the accesses that are open when the loop ends."""
        var, values = self.scope.bind_loop(stmt) if isinstance(stmt, S.For) else (None, None)
        if var is not None and values is not None:
            self.compare.ranges[var] = values
        bound = S.bound(stmt)
        carried: list[events.Access] = []
        # Of those ``carried``, with their distance.
        sources: dict[events.Access, tuple[events.Access, int]] = {}
        by_one, by_more = events.distances_of(stmt, var, values)

        def outer(access: events.Access, distance: int = 0) -> events.Access:
            if access.element:  # the same outside of the iteration
                return access
            key = (access, stmt, distance)
            if key not in self._outside:
                distances = (None, by_one, by_more)[distance]
                outside = events.leave_loop(access, var, values, bound, distances)
                if isinstance(stmt, S.For) and var is not stmt.var:
                    # Threads begin at different indices, and some are not in all iterations.
                    outside = replace(outside, is_partial=True)
                self._outside[key] = self.known.canonical(outside)
            return self._outside[key]

        while True:
            current = PendingAccesses(carried, base=entry)
            self.exits.append({S.Break: [], S.Continue: []})
            body = self.visit(stmt.body, current, at)
            if isinstance(stmt, S.While):
                cond_accesses = self.accesses(stmt, at)
                after = self.order(cond_accesses, current, at, stmt.loc)
                body = S.seq(body, *after) if after else body
                current.add(cond_accesses)
            exits = self.exits.pop()
            known = {*entry, *carried}
            still_open = (*current, *exits[S.Continue])
            fresh: list[events.Access] = []
            for access in still_open:
                source, distance = sources.get(access, (access, 0))
                if access in known and distance != 1:
                    continue
                later = outer(source, distance + 1)  # 1: of the iteration before; 2: of any
                if later not in known:
                    known.add(later)
                    sources[later] = (source, distance + 1)
                    fresh.append(later)
            # One iteration carries nothing.
            if not fresh or (isinstance(stmt, S.For) and trip_count(stmt) == 1):
                ended = (*still_open, *exits[S.Break])
                return body, list(PendingAccesses(outer(sources.get(a, (a, 0))[0]) for a in ended))
            carried += fresh


def _is_made_in(access: events.Access, where: ExecScope, at: ExecScope) -> bool:
    """Whether only threads of ``where``, a separate group in ``at``, made the access."""
    if access.mask is None or not _may_belong(where, at):
        return False
    return not bool((access.mask & ~where.mask).any())


def _may_belong(where: ExecScope, at: ExecScope) -> bool:
    """Whether ``where`` is a separate group, so that an access can belong to it."""
    return where.cond is None and where.mask is not at.mask
