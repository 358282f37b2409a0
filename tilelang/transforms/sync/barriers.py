"""Barriers between statements that hand data from one thread to another through memory.

A linear scan over the statements of a kernel keeps the accesses since the last barrier. A statement
that conflicts with one of them gets a barrier before it. Loops are scanned again with what the
previous iteration leaves, until nothing new appears. A branch that not all threads take can hold no
barrier, so its hazards with earlier statements are settled before it; hazards inside it are errors,
unless the branch belongs to whole warps, which get a barrier of their own, or to the same lanes of
each warp and the hazard to threads of one warp.

A unit beside the threads (of wgmma, of copies of boxes) sees what they have written to shared
memory only if each of them has fenced it before it told others (PTX, "Proxies"). So a fence stands
before every barrier, whoever placed it, behind which a tile that such a unit uses would be read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, replace
from math import prod
from typing import NoReturn

import numpy as np

from tilelang.errors import Loc, TileUnsupportedError
from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import schedule as H
from tilelang.ir import stmt as S
from tilelang.ir.bounds import interval
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.lanes import WARP
from tilelang.ir.uniform import Varying, varying_exit
from tilelang.ir.visitor import rewrite_launches
from tilelang.records import dataclass
from tilelang.target import Context, nvidia
from tilelang.transforms.analysis.groups import (
    HANDED_OVER,
    MAX_BARRIERS,
    NO_BARRIER,
    SIGNALS,
    Mask,
    exact_threads,
    inverse,
    no_barrier_left,
    possible_threads,
    range_of,
    same_for,
    thread_indices,
)
from tilelang.transforms.analysis.loops import trip_count
from tilelang.transforms.analysis.mechanism import ARRIVALS, MECHANISMS, Mechanism, Step
from tilelang.transforms.analysis.tma import is_complete
from tilelang.transforms.sync.events import (
    EXCHANGES,
    Access,
    Comparer,
    Hazard,
    Known,
    Scope,
    all_accesses,
    is_atomic,
    is_shared,
    leave_loop,
    own_accesses,
)
from tilelang.transforms.sync.global_communication import exchanged
from tilelang.transforms.sync.pending_accesses import Open

GROUPS = "barrier_ids"  # launch annotation: (first thread, count, barrier id) of each group


def insert_barriers(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with ``sync_threads`` wherever threads exchange data through shared memory.

    Thread groups (branches of whole warps) get named barriers; the launch annotation
    "barrier_ids" lists them as (first thread, count, id).

    Args:
        func: the program, with layouts.
        context: with the option "no_auto_sync" the program places its own barriers. Then accesses
            of single threads are left to it where no barrier can stand; tile operations are
            ordered as always.

    Raises:
        TileUnsupportedError: an exchange inside a branch that only some threads of a warp take.
    """
    own, warp = context.options.no_auto_sync, context.limits.warp
    return rewrite_launches(func, lambda launch: _synchronized(launch, own, warp))


def _synchronized(launch: S.Launch, own: bool, warp: int) -> S.Launch:
    """``launch`` with its barriers."""
    if prod(launch.threads) == 1:
        return launch
    inserter = _Inserter(launch, own, warp)
    start = Where(np.ones(prod(launch.threads), np.bool_))
    body = inserter.visit(launch.body, Open(), start)
    notes = launch.annotations
    found = tuple((lo, count, ident) for (lo, count), ident in inserter.groups.items())
    if found != launch.annotation(GROUPS, ()):
        notes = (*(pair for pair in notes if pair[0] != GROUPS), (GROUPS, found))
    if body is launch.body and notes is launch.annotations:
        return launch
    return replace(launch, body=body, annotations=notes)


@dataclass(frozen=True)
class Where:
    """Who executes a statement.

    ``mask``: the threads that may. ``exact``: all of them do. ``group``: (first, count) when they
    are a group of whole warps. ``cond``: why threads of one group may be missing, or None.
    ``exempt``: storage whose order the statements around already take care of. ``path`` tells
    places apart.
    """

    mask: Mask
    exact: bool = True
    group: tuple[int, int] | None = None
    cond: E.Expr | None = None
    exempt: frozenset[E.Var] = frozenset()
    path: tuple[int, ...] = ()


@dataclass
class _Exits:
    """Accesses that are open where an iteration is left early."""

    breaks: list[Access] = field(default_factory=list)
    continues: list[Access] = field(default_factory=list)


class _Inserter:
    """One launch."""

    def __init__(self, launch: S.Launch, own: bool, warp: int) -> None:
        self.warp = warp
        self.launch = launch
        self.own = own
        self.varying = Varying(launch, votes=True, roles=True)
        self.compare = Comparer(launch, warp)
        self.scope = Scope(
            thread_indices(launch),
            opaque=self.varying.vars - set(launch.thread_vars),
        )
        # Where the program places its own barriers, only what this compiler made one thread's is
        # ordered here.
        shared_out = frozenset(launch.annotation(EXCHANGES, ()))
        self.scope.exchanges = shared_out if own else exchanged(launch, self.scope)
        self.groups: dict[tuple[int, int], int] = {
            (lo, count): ident for lo, count, ident in launch.annotation(GROUPS, ())
        }
        self.mechanisms: dict[E.Expr, Mechanism] = {}
        self.fenced: set[E.Expr] = set()  # pipelines whose waits fence what was written before
        self.taken = _named_barriers(launch.body)
        self.manual = _has_signals(launch.body)  # the program orders groups of threads itself
        self.by_hand = _has_barriers(launch.body)  # the program has barriers of its own
        self.units = {
            one.data for one in effects.accesses(launch.body, nested=True) if one.proxy == "async"
        }  # storage that units beside the threads use
        self.exits: list[_Exits] = []
        self.alike: set[E.Var] = set()  # loop variables that are uniform in their group
        self.known = Known()
        self._accesses: dict[tuple[int, tuple[int, ...]], list[Access]] = {}
        self._left: dict[tuple[int, int], Access] = {}
        self._arrived: dict[int, Access] = {}
        self._warped: dict[int, Access] = {}
        self._turns: dict[int, Buffer] = {}  # what stands for the mbarrier of a load
        self._kept: list[object] = []  # keeps identities in the memos taken

    # -- statements ----------------------------------------------------------------------------
    def visit(self, stmt: S.Stmt, live: Open, at: Where) -> S.Stmt:
        """``stmt`` with barriers; ``live`` are the accesses since the last one, updated."""
        if isinstance(stmt, S.Seq):
            return stmt.of(self.sequence(stmt.stmts, live, at))
        if isinstance(stmt, S.If):
            return self.branch(stmt, live, at)
        if isinstance(stmt, (S.For, S.While)):
            return self.loop(stmt, live, at)
        if isinstance(stmt, H.Pipeline):
            return self.pipeline(stmt, live, at)
        if isinstance(stmt, (S.Attr, H.Run)):
            body = self.visit(stmt.body, live, at)
            return stmt if body is stmt.body else replace(stmt, body=body)
        if isinstance(stmt, (S.Break, S.Continue)) and self.exits:
            kind = self.exits[-1]
            (kind.breaks if isinstance(stmt, S.Break) else kind.continues).extend(live)
            return stmt
        return self.leaf(stmt, live, at)

    def pipeline(
        self, stmt: H.Pipeline, live: Open, at: Where, outer: frozenset[E.Var] = frozenset()
    ) -> S.Stmt:
        """What waits for items is ordered by the pipeline, which was verified. What fills the
        first versions is a copy like others to the statements before. ``outer``: the tiles of
        pipelines that hold nothing but this one."""
        row = self.mechanisms[stmt.pipe] = MECHANISMS[stmt.mechanism]
        proxy = stmt.proxy if self.units.isdisjoint(stmt.tiles) else "async"
        if proxy == "async" and row.mode != "tma":
            self.fenced.add(stmt.pipe)
        made = self.inside(stmt.body, outer | frozenset(stmt.tiles), live, at)
        if Step.MEET in row.close:
            made += self.fence(live, at)
        self.arrive(live)
        self.steps(row.close, live, at)
        body = S.seq(*made)
        same = isinstance(stmt.body, S.Seq) and made == list(stmt.body.stmts)
        same = same and proxy == stmt.proxy
        return stmt if same else replace(stmt, body=body, proxy=proxy)

    def inside(self, body: S.Stmt, tiles: frozenset[E.Var], live: Open, at: Where) -> list[S.Stmt]:
        """The statements of pipelines of ``tiles``."""
        if isinstance(body, H.Pipeline):
            return [self.pipeline(body, live, at, tiles)]
        if isinstance(body, H.Run):
            return [replace(body, body=S.seq(*self.inside(body.body, tiles, live, at)))]
        inner = replace(at, exempt=at.exempt | tiles)
        items = S.flat(body)
        made: list[S.Stmt] = []
        for k, item in enumerate(items):
            waits = S.holds(item, H.Wait)
            made += self.before_filling(items[k:], live, at)
            made.append(self.visit(item, live, inner if waits else at))
        return made

    def steps(self, steps: tuple[Step, ...], live: Open, at: Where) -> None:
        """What a statement of a pipeline settles."""
        if not ARRIVALS.isdisjoint(steps):
            self.arrive(live)
        if Step.MEET in steps and at.group is not None:
            self.group_id(at.group)  # for the lowering of the pipeline
            self.clear(live, at)
        elif Step.MEET in steps:
            self.clear(live, replace(at, mask=np.ones_like(at.mask)))

    def sequence(self, stmts: tuple[S.Stmt, ...], live: Open, at: Where) -> list[S.Stmt]:
        """Statements in order. Where branches of different threads wait for each other, as the
        program wrote it, a barrier of all threads may only stand before the first of them."""
        roles = [k for k, item in enumerate(stmts) if self.is_role(item, at)]
        made: list[S.Stmt] = []
        for k, item in enumerate(stmts):
            if roles and k == roles[0] and len(roles) > 1:
                for other in stmts[k : roles[-1] + 1]:
                    made += self.settle(self.parts(other, at), live, at, other.loc)
            made += self.before_filling(stmts[k:], live, at)
            made.append(self.visit(item, live, at))
        return made

    def before_filling(self, stmts: tuple[S.Stmt, ...], live: Open, at: Where) -> list[S.Stmt]:
        """What has to stand before the first of ``stmts`` if it acquires an item that one thread
        fills: it does all up to the commit, so that nobody meets in between."""
        first = stmts[0]
        if not (isinstance(first, H.Acquire) and self.mechanisms[first.pipe].elected):
            return []
        end = next(k for k, item in enumerate(stmts) if isinstance(item, H.Commit))
        found = self.accesses(S.seq(*stmts[:end]), at, nested=True)
        return self.order(found, live, at, first.loc)

    def is_role(self, stmt: S.Stmt, at: Where) -> bool:
        """A branch of some threads in which they wait for, or signal, others."""
        if not isinstance(stmt, S.If) or not self.manual:
            return False
        return _has_signals(stmt) and not self.uniform(stmt.cond, at)

    def parts(self, stmt: S.Stmt, at: Where) -> list[tuple[S.Stmt, Where | None]]:
        """What different threads run: the sides of a branch on the thread, or ``stmt`` itself."""
        if not isinstance(stmt, S.If) or self.uniform(stmt.cond, at):
            return [(stmt, at)]
        inner = replace(at, path=(*at.path, id(stmt)))
        conds = (stmt.cond, inverse(stmt.cond))
        return [
            (block, self.narrowed(cond, inner))
            for cond, block in zip(conds, (stmt.then, stmt.orelse))
            if block is not None
        ]

    def settle(
        self,
        parts: list[tuple[S.Stmt, Where | None]],
        live: Open,
        at: Where,
        loc: Loc | None,
    ) -> list[S.Stmt]:
        """What has to stand before ``parts`` that different threads of ``at`` run. A group's own
        earlier accesses can wait: they are settled by its own barrier."""
        before: list[S.Stmt] = []
        for block, where in parts:
            if where is None:
                continue
            found = self.accesses(block, where, nested=True)
            met = self.hazards(found, live, at)
            if all(_belongs(hazard.first, where, at) for hazard in met):
                continue
            others = Open(access for access in live if not _belongs(access, where, at))
            made = self.order(found, others, at, loc)
            if made:
                if any(map(_waits, made)):
                    self.arrive(live)
                self.clear(live, at)
                before += made
        return before

    def leaf(self, stmt: S.Stmt, live: Open, at: Where) -> S.Stmt:
        """A statement without control flow; a parallel loop is one, too."""
        found = self.accesses(stmt, at)
        if isinstance(stmt, S.Let):
            self.scope.bind(stmt)
        told, seen = self.turns(stmt, at)
        before = self.order([*found, *told], live, at, stmt.loc)
        if isinstance(stmt, S.Store) and found:
            split = self.split(stmt, found, live, at)
            if split is not None:
                return S.seq(*before, split)
        if effects.in_bulk(stmt):
            # What is loaded so is waited for on a barrier that counts bytes.
            found = [access for access in found if access.mode == "read"]
        live.add([*found, *seen])
        if self.hands_on(stmt):
            before += self.fence(live, at)
        self.user_barrier(stmt, live, at)
        after = self.meet(stmt, live, at) if _signals_next(stmt) else []
        return S.seq(*before, stmt, *after) if before or after else stmt

    def turns(self, stmt: S.Stmt, at: Where) -> tuple[list[Access], list[Access]]:
        """What a load that is complete where it ends does to its mbarrier: one thread begins a
        turn, and all threads see its end. A parity cannot tell a turn from the next but one, so
        that nobody may begin one before all have seen the end of the last."""
        if not (is_complete(stmt) and effects.in_bulk(stmt) and _fills_shared(stmt)):
            return [], []
        found = self._turns.get(id(stmt))
        if found is None:
            turn = Buffer("turn", Shape((1,)), DType("uint64"), "shared")
            found = self._turns[id(stmt)] = turn
            self._kept.append(stmt)
        scope = self.scope.copy(mask=None if at.mask.all() else at.mask, joint=True, layout=None)
        begun, ended = (
            self.known.one(scope.access(found, mode, (E.const(0),), (1,), stmt.loc))
            for mode in ("write", "read")
        )
        return [begun], [ended]

    def meet(self, stmt: S.Stmt, live: Open, at: Where) -> list[S.Stmt]:
        """What has to stand behind a copy before one thread may say that it is complete."""
        if at.cond is None:
            fence = self.fence(live, at)
            self.clear(live, at)
            return [*fence, S.Eval(value=self.barrier(at, stmt.loc), loc=stmt.loc)]
        if int(np.count_nonzero(at.mask)) == 1:
            return []
        bits = _lanes(at.mask, self.warp) if at.exact and _warps(at.mask, self.warp) == 1 else None
        if bits is None:
            raise TileUnsupportedError(
                "threads that cannot wait for each other share a copy with a barrier",
                loc=stmt.loc,
                expected="a copy by one thread, by threads of one warp, or by whole warps",
                got=f"a copy under `{at.cond!r}`",
                hint="let one thread issue the copy (`if tx == 0:`)",
            )
        self.clear(live, at)
        return [S.Eval(value=self.lanes_meet(bits), loc=stmt.loc)]

    def split(self, stmt: S.Store, found: list[Access], live: Open, at: Where) -> S.Stmt | None:
        """A store that overwrites what other threads still read for it: value first."""
        reads = [access for access in found if access.mode == "read"]
        writes = [access for access in found if access.mode == "write"]
        mine = Open(reads)
        between = self.order(writes, mine, at, stmt.loc)
        if not between:
            return None
        live.add(reads)
        self.clear(live, at)
        live.add(writes)
        source = stmt.value
        # The name of an instruction that stores stays at its store.
        mover = source if isinstance(source, E.Call) and source.atom.moves else None
        if mover is not None:
            source = mover.args[0]
        value = E.Var("value", source.dtype)
        let = S.Let(var=value, value=source, loc=stmt.loc)
        stored = E.Call(mover.atom, (value,), mover.dtype) if mover is not None else value
        return S.seq(let, *between, replace(stmt, value=stored))

    def accesses(self, stmt: S.Stmt, at: Where, nested: bool = False) -> list[Access]:
        """What ``stmt`` does, the same objects every time it is asked at this place."""
        key = (id(stmt), (*at.path, int(nested)))
        found = self._accesses.get(key)
        if found is None:
            scope = self.scope.copy(mask=None if at.mask.all() else at.mask)
            every = all_accesses(stmt, scope) if nested else own_accesses(stmt, scope)
            found = list(Open(map(self.known.one, every)))
            self._accesses[key] = found
            self._kept.append(stmt)
        return found

    # -- order ---------------------------------------------------------------------------------
    def hazards(self, found: Iterable[Access], live: Open, at: Where) -> list[Hazard]:
        """How accesses ``found`` of threads of ``at`` conflict with those that are open."""
        return [
            hazard
            for b in found
            for hazard in self.compare.hazards(live.near(b), b)
            if hazard.first.buffer.data not in at.exempt
            and not (self.manual and _of_disjoint_threads(hazard.first, b))
            and not _is_handed_over(hazard.first)
        ]

    def order(
        self, found: Iterable[Access], live: Open, at: Where, loc: Loc | None
    ) -> list[S.Stmt]:
        """What has to stand before accesses ``found``; ``live`` afterwards."""
        hazards = self.hazards(found, live, at)
        if not hazards:
            return []
        if at.cond is not None:
            # The rest is the program's own to order where no barrier can stand.
            inside = [hazard for hazard in hazards if _ordered_in_branches(hazard)]
            return self.order_lanes(inside, live, at, loc) if inside else []
        made: list[S.Stmt] = []
        if any(hazard.first.pending for hazard in hazards):
            made.append(S.do(nvidia.PTX_WAIT_GROUP, 0, loc=loc))
            self.arrive(live)
        made += self.fence(live, at)
        made.append(S.Eval(value=self.barrier(at, loc), loc=loc))
        self.clear(live, at)
        return made

    def fence(self, live: Open, at: Where) -> list[S.Stmt]:
        """What makes open writes of the threads of ``at`` visible to units that use them. Copies
        under way are fenced by those who wait for them."""
        for access in live if self.units else ():
            known = access.buffer.data in self.units and access.buffer.data not in at.exempt
            if known and access.mode != "read" and not (access.unit or access.pending):
                if access.mask is None or bool((access.mask & at.mask).any()):
                    return [H.Fence(source="generic", target="async", loc=access.loc)]
        return []

    def hands_on(self, stmt: S.Stmt) -> bool:
        """Whether threads tell others there, as the program or a pipeline says, what they have
        done."""
        if isinstance(stmt, H.Wait):
            meets = Step.MEET in self.mechanisms[stmt.pipe].wait
            return meets and stmt.pipe not in self.fenced
        atoms = (node.atom for node in stmt.calls())
        return any(
            atom.meets("warp", "block", "grid")
            or (atom.orders is not None and atom.signals and atom.orders.kind == "arrive")
            for atom in atoms
        )

    def order_lanes(
        self, hazards: list[Hazard], live: Open, at: Where, loc: Loc | None
    ) -> list[S.Stmt]:
        """Order among some threads of a warp. Writes of elements that depend on data are left
        to the program: which of them comes last is not defined without a barrier of its own.
        Where it has barriers of its own, so are all accesses of single threads that depend on data
        (see :meth:`may_be_apart`)."""
        serious = [m for m in hazards if not self.may_be_apart(m, at)]
        if not serious:
            return []
        bits = _lanes(at.mask, self.warp) if at.exact else None
        alone = _warps(at.mask, self.warp) == 1
        apart = alone or all(
            self.compare.hazard(self.ordered(m.first), m.second) is None for m in serious
        )
        if bits is None or not apart or any(m.first.pending for m in serious):
            if self.own and not any(m.first.joint or m.second.joint for m in serious):
                return []
            _refuse(serious[0], at, loc)
        fence = self.fence(live, at)
        self.meet_in_warps(live, at)
        return [*fence, S.Eval(value=self.lanes_meet(bits), loc=loc)]

    def lanes_meet(self, bits: int) -> E.Expr:
        """The barrier of the lanes of a warp that ``bits`` name, one bit for each."""
        return E.call("sync_warp", E.const(bits, DType("uint64" if self.warp > WARP else "uint32")))

    def meet_in_warps(self, live: Open, at: Where) -> None:
        """What a barrier of the warps of ``at`` settles: everything, if that is one warp."""
        if _warps(at.mask, self.warp) == 1:
            self.clear(live, at)
        else:
            live.assign(access if access.pending else self.ordered(access) for access in live)

    def ordered(self, access: Access) -> Access:
        """``access`` after a barrier of each warp."""
        found = self._warped.get(id(access))
        if found is None:
            found = access if access.warped else replace(access, warped=True)
            self._warped[id(access)] = found
            self._kept.append(access)
        return found

    def may_be_apart(self, hazard: Hazard, at: Where) -> bool:
        """Whether the program has to know that two accesses do not meet: data decides about the
        places, or (in a program with barriers of its own) about the threads that are there."""
        sides = (hazard.first, hazard.second)
        if any(side.joint or side.pending for side in sides):
            return False
        if self.by_hand:
            return not (hazard.exact and at.exact)
        return not hazard.exact and all(side.mode == "write" for side in sides)

    def barrier(self, at: Where, loc: Loc | None) -> E.Expr:
        """The call at which the threads of ``at`` meet."""
        if at.group is None:
            return E.call("sync_threads")
        count = -(-at.group[1] // self.warp) * self.warp
        ident = self.group_id(at.group)
        if ident == NO_BARRIER:
            raise no_barrier_left(at.group, loc)
        return E.call("sync_threads", ident, count)

    def group_id(self, group: tuple[int, int]) -> int:
        """The number of a group's barrier; ``NO_BARRIER`` where all are taken."""
        if group not in self.groups:
            free = [k for k in range(1, MAX_BARRIERS) if k not in self.taken]
            self.groups[group] = free[0] if free else NO_BARRIER
            self.taken.update(free[:1])
        return self.groups[group]

    def clear(self, live: Open, at: Where) -> None:
        """Forget what a barrier of the threads of ``at`` has ordered."""
        outside = ~at.mask
        some = bool(outside.any())
        live.assign(
            access
            for access in live
            if access.pending
            or (some and (access.mask is None or bool((access.mask & outside).any())))
        )

    def arrive(self, live: Open) -> None:
        """Asynchronous copies have arrived: from now on they are ordinary writes."""
        live.assign(self.arrived(access) if access.pending else access for access in live)

    def arrived(self, access: Access) -> Access:
        """The pending ``access`` when it is complete."""
        known = self._arrived.get(id(access))
        if known is None:
            known = self._arrived[id(access)] = replace(access, pending=False)
            self._kept.append(access)
        return known

    def user_barrier(self, stmt: S.Stmt, live: Open, at: Where) -> None:
        """What synchronisation settles that pipelines or the program itself have."""
        if isinstance(stmt, H.Wait):
            self.steps(self.mechanisms[stmt.pipe].wait, live, at)
        for node in stmt.calls():
            if node.atom.waits_for("cp_async"):  # the program counts groups
                self.arrive(live)
            elif node.atom.meets("block", "grid") and self.covers(node, at):
                self.clear(live, at if node.args else replace(at, mask=np.ones_like(at.mask)))
            elif node.atom.meets("warp"):
                self.meet_in_warps(live, at)

    def covers(self, node: E.Call, at: Where) -> bool:
        """Whether all threads of ``at`` meet at a barrier of the program."""
        if len(node.args) < 2:
            return True
        count = node.args[1]
        return isinstance(count, E.Const) and int(count) >= int(np.count_nonzero(at.mask))

    # -- branches ------------------------------------------------------------------------------
    def branch(self, stmt: S.If, live: Open, at: Where) -> S.Stmt:
        """Both sides, with what has to stand before them."""
        before = self.leaf_exprs(stmt, live, at)
        inner = replace(at, path=(*at.path, id(stmt)))
        if self.uniform(stmt.cond, at):
            left, right = Open(base=live), Open(base=live)
            then = self.visit(stmt.then, left, inner)
            orelse = None if stmt.orelse is None else self.visit(stmt.orelse, right, inner)
            live.assign((*left, *right))
        else:
            made, found = self.sides(self.parts(stmt, at), live, at, stmt.loc)
            before += found
            then, orelse = made[0], made[1] if len(made) > 1 else None
        if then is not stmt.then or orelse is not stmt.orelse:
            stmt = replace(stmt, then=then, orelse=orelse)
        return S.seq(*before, stmt) if before else stmt

    def leaf_exprs(self, stmt: S.Stmt, live: Open, at: Where) -> list[S.Stmt]:
        """The expressions of a statement with blocks, evaluated before these."""
        found = self.accesses(stmt, at)
        before = self.order(found, live, at, stmt.loc)
        live.add(found)
        return before

    def sides(
        self,
        sides: list[tuple[S.Stmt, Where | None]],
        live: Open,
        at: Where,
        loc: Loc | None,
    ) -> tuple[list[S.Stmt], list[S.Stmt]]:
        """Sides that the threads of ``at`` do not take together, and what stands before them.

        A barrier inside orders the threads of its side only, so everything that a side does is
        still open for the others.
        """
        before = self.settle(sides, live, at, loc)
        made = []
        opened: list[Access] = []
        for block, where in sides:
            if where is None:
                made.append(block)
                continue
            own = Open()
            if _may_belong(where, at):
                own.add(access for access in live if _belongs(access, where, at))
            made.append(self.visit(block, own, where))
            opened += self.accesses(block, where, nested=True)
        live.add(opened)
        return made, before

    def narrowed(self, cond: E.Expr, at: Where) -> Where | None:
        """The threads of ``at`` for which ``cond`` holds; None if there are none."""
        mask = exact_threads(
            cond, self.launch, self.scope.lets, lambda part: self.uniform(part, at)
        )
        exact = mask is not None
        if mask is None:
            mask = possible_threads(cond, self.launch, self.scope.lets)
        mask = at.mask if mask is None else mask & at.mask
        if not mask.any():
            return None
        if exact and bool((mask == at.mask).all()):
            return at
        group = range_of(mask, self.warp) if exact and at.cond is None else None
        if group is not None:
            self.group_id(group)
            return replace(at, mask=mask, group=group)
        why = cond if at.cond is None else at.cond
        return replace(at, mask=mask, exact=exact and at.exact, cond=why)

    def uniform(self, expr: E.Expr, at: Where) -> bool:
        """Whether all threads of ``at`` see the same value."""
        if not self.varying.expr(expr):
            return True
        if at.mask.all():
            return False
        threads = {var: values[at.mask] for var, values in self.scope.threads.items()}
        return same_for(expr, threads, self.scope.lets, self.varying, self.alike)

    # -- loops ---------------------------------------------------------------------------------
    def loop(self, stmt: S.For | S.While, live: Open, at: Where) -> S.Stmt:
        """A loop, scanned until the accesses it hands to its next iteration are all known."""
        before = self.leaf_exprs(stmt, live, at)
        inner = replace(at, path=(*at.path, id(stmt)))
        same = all(self.uniform(expr, at) for expr in stmt.exprs())
        same = same and not varying_exit(stmt.body, self.varying)
        if isinstance(stmt, S.For) and same:
            self.alike.add(stmt.var)
        if not same and at.cond is None:
            before += self.order(self.accesses(stmt.body, at, nested=True), live, at, stmt.loc)
            why = next((e for e in stmt.exprs() if not self.uniform(e, at)), E.const(True))
            inner = replace(inner, cond=why)
        if not same:
            inner = replace(inner, exact=False)
        body, leaving = self.iterate(stmt, live, inner)
        if body is not stmt.body and same and at.cond is None:
            ahead = self.settled_before(stmt, live, at, inner, _meetings(body))
            if ahead is not None:
                before += ahead[0]
                live.assign(ahead[1])
                body, leaving = ahead[2], ahead[3]
        live.assign(leaving if _runs(stmt) else (*live, *leaving))
        made = stmt if body is stmt.body else replace(stmt, body=body)
        return S.seq(*before, made) if before else made

    def settled_before(
        self, stmt: S.For | S.While, live: Open, at: Where, inner: Where, meetings: int
    ) -> tuple[list[S.Stmt], Open, S.Stmt, list[Access]] | None:
        """A barrier before a loop if that leaves fewer than ``meetings`` in it: what stands there,
        what is open behind it, and the loop's body and what it leaves open then."""
        rest = Open(live)
        before = self.order(self.accesses(stmt.body, at, nested=True), rest, at, stmt.loc)
        if not before:
            return None
        body, leaving = self.iterate(stmt, rest, inner)
        return (before, rest, body, leaving) if _meetings(body) < meetings else None

    def iterate(self, stmt: S.For | S.While, entry: Open, at: Where) -> tuple[S.Stmt, list[Access]]:
        """The body, and the accesses that are open when the loop ends."""
        var, values = self.scope.bind_loop(stmt) if isinstance(stmt, S.For) else (None, None)
        if var is not None and values is not None:
            self.compare.ranges[var] = values
        bound = S.bound(stmt)
        carried: list[Access] = []
        while True:
            current = Open(carried, base=entry)
            self.exits.append(_Exits())
            body = self.visit(stmt.body, current, at)
            if isinstance(stmt, S.While):
                again = self.accesses(stmt, at)
                after = self.order(again, current, at, stmt.loc)
                body = S.seq(body, *after) if after else body
                current.add(again)
            exits = self.exits.pop()

            def left(access: Access) -> Access:
                key = (id(access), id(stmt))
                if key not in self._left:
                    made = leave_loop(access, var, values, bound)
                    self._left[key] = self.known.one(made)
                    self._kept.append(access)
                return self._left[key]

            # What is at one place by constant indices is the same outside of the iteration.
            leaving = [a if a.spot else left(a) for a in (*current, *exits.continues)]
            known = {id(access) for access in (*entry, *carried)}
            fresh = [access for access in leaving if id(access) not in known]
            if not fresh:
                return body, list(Open(leaving, map(left, exits.breaks)))
            carried += fresh


def _fills_shared(stmt: S.Stmt) -> bool:
    """Whether the unit fills a tile in shared memory there."""
    return any(one.writes and is_shared(one.buffer) for one in effects.own(stmt))


def _meetings(stmt: S.Stmt) -> int:
    """Barriers in ``stmt``."""
    return sum(
        isinstance(node, S.Eval)
        and isinstance(node.value, E.Call)
        and node.value.atom.meets("warp", "block", "grid")
        for node in S.walk(stmt)
    )


def _runs(stmt: S.For | S.While) -> bool:
    """Whether the body surely runs at least once."""
    return isinstance(stmt, S.For) and bool(trip_count(stmt))


def _belongs(access: Access, where: Where, at: Where) -> bool:
    """Whether only threads of the group ``where``, a part of ``at``, made the access."""
    if access.mask is None or not _may_belong(where, at):
        return False
    return not bool((access.mask & ~where.mask).any())


def _may_belong(where: Where, at: Where) -> bool:
    """Whether ``where`` is a group of its own, so that an access can belong to it."""
    return where.cond is None and where.mask is not at.mask


def _is_handed_over(access: Access) -> bool:
    """Whether the other group has the tile before anything conflicts with ``access`` again, or that
    reads for each warp the rows that this warp overwrites when it has waited for it (PTX, "wgmma",
    matrix fragments)."""
    return bool(access.buffer.attr(HANDED_OVER)) and (access.mode != "read" or access.unit)


def _of_disjoint_threads(a: Access, b: Access) -> bool:
    """Whether no thread makes both accesses."""
    return a.mask is not None and b.mask is not None and not bool((a.mask & b.mask).any())


def _has_signals(stmt: S.Stmt) -> bool:
    """Whether threads wait for others by barriers that count their arrivals."""
    return any(
        node.atom.signals or (node.atom.meets("block") and len(node.args) > 1)
        for node in S.calls(stmt)
    )


def _has_barriers(stmt: S.Stmt) -> bool:
    """Whether the program has barriers that it wrote itself."""
    calls = stmt.calls()
    if any(node.atom.meets("warp", "block", "grid") or node.atom.signals for node in calls):
        return True
    return any(map(_has_barriers, stmt.blocks()))


def _waits(stmt: S.Stmt) -> bool:
    """Whether the thread waits for its copies there."""
    calls = stmt.calls()
    return any(node.atom.waits_for("cp_async") for node in calls)


def _warps(mask: Mask, warp: int) -> int:
    return len({int(thread) // warp for thread in np.flatnonzero(mask)})


def _signals_next(stmt: S.Stmt) -> bool:
    """Whether one thread of those that make a copy or a product may say that it is complete."""
    return isinstance(stmt, (S.Copy, S.Gemm)) and bool(dict(stmt.annotations).get(SIGNALS))


def _lanes(mask: Mask, warp: int) -> int | None:
    """The lanes of ``mask`` as bits, if they are the same in all warps that have any."""
    rows = np.pad(mask, (0, -mask.size % warp)).reshape(-1, warp)
    found = np.unique(rows[rows.any(axis=1)], axis=0)
    if len(found) != 1:
        return None
    return sum(1 << int(lane) for lane in np.flatnonzero(found[0]))


def _named_barriers(body: S.Stmt) -> set[int]:
    """Barrier ids that the program uses itself."""
    found: set[int] = set()
    for stmt in S.walk(body):
        for node in stmt.calls():
            for operand, number in zip(node.atom.operands, node.args):
                if operand.space == "barrier id":
                    known = interval(number)
                    low = int(max(known.low, 0))
                    found.update(range(low, int(min(known.high + 1, MAX_BARRIERS))))
    return found


def _ordered_in_branches(hazard: Hazard) -> bool:
    """Whether data moves through shared memory; atomic updates of two kinds may meet."""
    atomic = is_atomic(hazard.first.mode) and is_atomic(hazard.second.mode)
    return is_shared(hazard.first.buffer) and not atomic


def _refuse(hazard: Hazard, at: Where, loc: Loc | None) -> NoReturn:
    first, second = hazard.first, hazard.second
    name = second.buffer.name
    words = {
        mode: "updated" if is_atomic(mode) else {"read": "read", "write": "written"}[mode]
        for mode in (first.mode, second.mode)
    }
    again = (
        "end the `if` (or the loop) after the first access and start it again for the second; the "
        "barrier then goes in between"
    )
    own = (
        "if each thread keeps to elements of its own, give them a dimension (`s[tx, i]`), or place "
        "the barriers that the program needs by hand (T.sync_threads)"
    )
    line = f" at line {first.loc.line}" if first.loc is not None else ""
    raise TileUnsupportedError(
        f"threads exchange data through `{name}` where not all of them are",
        loc=loc,
        expected="a place that all threads of the block (or of whole warps) reach together, so "
        "that a barrier can stand there",
        got=f"`{name}` {words[first.mode]}{line} and {words[second.mode]} here, under "
        f"`{at.cond!r}`",
        hint=again if hazard.exact or first.joint or second.joint else f"{again}; {own}",
    )
