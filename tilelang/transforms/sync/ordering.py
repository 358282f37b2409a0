"""Ordering of accesses by different threads: barriers, waits and proxy fences.

The async proxy (wgmma, TMA) sees the shared-memory writes of threads only if each of these threads
executes a proxy fence before it signals (PTX ISA, "Proxies"). So a fence precedes every barrier
after which the async proxy reads a tile, whether the compiler or the program placed the barrier.
A fence does not wait for cp.async. Where such copies arrive at an mbarrier, the threads that wait
for it fence what has landed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NoReturn

from tilelang.errors import Loc, TileUnsupportedError
from tilelang.ir import effects, expr as E, schedule as H, stmt as S
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.lanes import WARP
from tilelang.ir.memo import memoized
from tilelang.records import dataclass
from tilelang.target import operations
from tilelang.transforms.analysis.groups import MAX_BARRIERS, NO_BARRIER, Mask, no_free_barrier
from tilelang.transforms.sync import barrier_queries as Q
from tilelang.transforms.sync.events import Access, Hazard, HazardAnalysis, is_atomic, is_shared
from tilelang.transforms.sync.pending_accesses import PendingAccesses


@dataclass(frozen=True)
class ExecScope:
    """The threads that execute a statement, and facts about them.

    ``mask``: the threads that may execute it. ``exact``: all of them do.
    ``group``: (first, count) when they are a group of whole warps.
    ``cond``: why threads of one group may be missing, or None.
    ``conds``: conditions that hold for each of them, if threads may be missing.
    ``exempt``: storage that enclosing statements already order. ``changed``: tiles
    of pipelines around that threads write, ordered here but for the copies that fill a stage.
    ``path`` distinguishes occurrences of a statement.
    """

    mask: Mask
    exact: bool = True
    group: tuple[int, int] | None = None
    cond: E.Expr | None = None
    conds: tuple[E.Expr, ...] = ()
    exempt: frozenset[E.Var] = frozenset()
    changed: frozenset[E.Var] = frozenset()
    path: tuple[S.Stmt, ...] = ()


ASYNC_FENCE = H.Fence(source="generic", target="async")


class Ordering:
    """The order of the accesses of one launch; ``pending`` are those since the last barrier."""

    def __init__(self, launch: S.Launch, no_auto_sync: bool, warp: int) -> None:
        self.warp = warp
        self.no_auto_sync = no_auto_sync
        self.compare = HazardAnalysis(launch, warp)
        self.groups = {(lo, count): ident for lo, count, ident in launch.hints.barrier_ids}
        self.used_ids = Q.named_barrier_ids(launch.body)
        self.manual = Q.has_signals(launch.body)  # the program orders groups of threads itself
        self.has_user_barriers = Q.has_barriers(launch.body)  # the program has barriers of its own
        # Whether the program waits for its copies group by group.
        self.counts = any(call.atom.waits_for("cp_async") for call in S.calls(launch.body))
        # Where the program places its barriers, it waits for its copies as well.
        self.counts_groups = no_auto_sync and self.counts and not S.holds(launch.body, H.Pipeline)
        accesses = tuple(effects.accesses(launch.body, nested=True))
        # Storage that the async proxy uses.
        self.async_storage = {access.data for access in accesses if access.proxy == "async"}
        # The part of it that may be used so from here on; all of it if thread groups synchronize.
        self.is_flat = isinstance(launch.body, S.Seq) and not self.manual
        self.upcoming = set[E.Var]() if self.is_flat else self.async_storage
        self.unfenced = False  # whether a loop left its writes to a fence behind it
        # The mbarriers at which copies by cp.async arrive, where the async proxy reads any tile.
        landings = set(Q.barriers_of(accesses, "arrive", "cp_async"))
        self.landings = landings if self.async_storage else set()

    def hazards(
        self, later: Iterable[Access], pending: PendingAccesses, at: ExecScope
    ) -> list[Hazard]:
        """The conflicts of accesses ``later`` of threads of ``at`` with those that are open."""
        return [
            hazard
            for b in later
            for hazard in self.compare.hazards(pending.conflict_candidates(b), b)
            if hazard.first.buffer.data not in at.exempt
            and not (self.manual and _are_disjoint(hazard.first, b))
            and not _is_passed_to_other_group(hazard.first)
        ]

    def order(
        self, later: Iterable[Access], pending: PendingAccesses, at: ExecScope, loc: Loc | None
    ) -> list[S.Stmt]:
        """The statements needed before accesses ``later``; ``pending`` afterwards."""
        hazards = self.hazards(later, pending, at)
        if not hazards:
            return []
        if at.cond is not None:
            # The program has to order the rest where no barrier is legal.
            moved = filter(_needs_barrier, hazards)
            inside = [m for m in moved if not self.compare.is_excluded(m, at.mask, at.conds)]
            return self.order_lanes(inside, pending, at, loc) if inside else []
        result: list[S.Stmt] = []
        if any(hazard.first.pending for hazard in hazards):
            result.append(S.do(operations.PTX_WAIT_GROUP, 0, loc=loc))
            self.arrive(pending)
        late = self.unfenced and not at.path
        result += self.fence(pending, at) or [ASYNC_FENCE] * late
        result.append(S.Eval(value=self.barrier(at, loc), loc=loc))
        self.unfenced &= not late
        self.reset(pending, at)
        return result

    def fence(self, pending: PendingAccesses, at: ExecScope) -> list[S.Stmt]:
        """Proxy fences that make pending writes of the threads of ``at`` visible to TMA and tensor
        cores. The threads that wait for copies in flight fence those themselves."""
        seen = self.upcoming - (at.exempt - at.changed)
        for access in pending if seen else ():
            known = access.buffer.data in seen and access.mode != "read"
            if known and not (access.async_proxy or access.pending or access.fenced):
                if access.mask is None or bool((access.mask & at.mask).any()):
                    return [replace(ASYNC_FENCE, loc=access.loc)]
        return []

    @memoized
    def async_use(self, stmt: S.Stmt) -> set[E.Var]:
        """Storage that the async proxy uses in ``stmt``: any where it writes, because tiles that it
        writes may share addresses."""
        accesses = [a for a in effects.accesses(stmt, nested=True) if a.proxy == "async"]
        fills = any(a.writes and is_shared(a.buffer) for a in accesses)
        return self.async_storage if fills else {a.data for a in accesses}

    def order_lanes(
        self, hazards: list[Hazard], pending: PendingAccesses, at: ExecScope, loc: Loc | None
    ) -> list[S.Stmt]:
        """Order among some threads of a warp. Writes of elements that depend on data are left
        to the program: without a barrier in the program, their order is undefined. If the program
        has barriers, so are all accesses of single threads that depend on data
        (see :meth:`is_user_ordered`)."""
        serious = [m for m in hazards if not self.is_user_ordered(m, at)]
        if not serious:
            return []
        bits = Q.lane_bits(at.mask, self.warp) if at.exact else None
        is_ordered = Q.warp_count(at.mask, self.warp) == 1 or all(
            not self.compare.hazards((self.ordered(m.first),), m.second) for m in serious
        )
        if bits is None or not is_ordered or any(m.first.pending for m in serious):
            if self.no_auto_sync and not any(m.first.joint or m.second.joint for m in serious):
                return []
            _refuse(serious[0], at, loc)
        fence = self.fence(pending, at)
        self.apply_warp_barrier(pending, at)
        return [*fence, S.Eval(value=self.lane_barrier(bits), loc=loc)]

    def lane_barrier(self, bits: int) -> E.Expr:
        """The barrier of the lanes of a warp that ``bits`` name, one bit for each."""
        return E.call("sync_warp", E.const(bits, DType("uint64" if self.warp > WARP else "uint32")))

    def apply_warp_barrier(self, pending: PendingAccesses, at: ExecScope) -> None:
        """Apply a barrier of each warp of ``at``: it orders everything if that is one warp."""
        if Q.warp_count(at.mask, self.warp) == 1:
            self.reset(pending, at)
        else:
            pending.assign(access if access.pending else self.ordered(access) for access in pending)

    @memoized
    def ordered(self, access: Access) -> Access:
        """``access`` after a barrier of each warp; always the same object."""
        return access if access.warp_ordered else replace(access, warp_ordered=True)

    def is_user_ordered(self, hazard: Hazard, at: ExecScope) -> bool:
        """Whether the program has to order two accesses itself: the indices depend on
        data, or, in a program with barriers, on which threads execute them."""
        sides = (hazard.first, hazard.second)
        if any(side.joint or side.pending for side in sides):
            return False
        if self.has_user_barriers:
            return not (hazard.exact and at.exact)
        return not hazard.exact and all(side.mode == "write" for side in sides)

    def barrier(self, at: ExecScope, loc: Loc | None) -> E.Expr:
        """The barrier call of the threads of ``at``."""
        if at.group is None:
            return E.call("sync_threads")
        count = -(-at.group[1] // self.warp) * self.warp
        ident = self.group_id(at.group)
        if ident == NO_BARRIER:
            raise no_free_barrier(at.group, loc)
        return E.call("sync_threads", ident, count)

    def group_id(self, group: tuple[int, int]) -> int:
        """The number of a group's barrier; ``NO_BARRIER`` where all are taken."""
        if group not in self.groups:
            free = [k for k in range(1, MAX_BARRIERS) if k not in self.used_ids]
            self.groups[group] = free[0] if free else NO_BARRIER
            self.used_ids.update(free[:1])
        return self.groups[group]

    def reset(self, pending: PendingAccesses, at: ExecScope) -> None:
        """Remove the accesses that a barrier of the threads of ``at`` has ordered."""
        outside = ~at.mask
        has_outside = bool(outside.any())
        pending.assign(
            access
            for access in pending
            if access.pending
            or (has_outside and (access.mask is None or bool((access.mask & outside).any())))
        )

    def arrive(self, pending: PendingAccesses) -> None:
        """Asynchronous copies have arrived: from now on they are ordinary writes."""
        pending.assign(self.arrived(access) if access.pending else access for access in pending)

    @memoized
    def arrived(self, access: Access) -> Access:
        """The pending ``access`` when it is complete; always the same object."""
        return replace(access, pending=False)


def _is_passed_to_other_group(access: Access) -> bool:
    """Whether no barrier is needed after ``access`` to a tile of ping-pong scheduling: the other
    warpgroup gets the tile before the next conflict, or each warp overwrites only rows that it has
    read itself and waited for (PTX, "wgmma", matrix fragments)."""
    return access.buffer.attrs.handed_over and (access.mode != "read" or access.async_proxy)


def _are_disjoint(a: Access, b: Access) -> bool:
    """Whether no thread makes both accesses."""
    return a.mask is not None and b.mask is not None and not bool((a.mask & b.mask).any())


def _needs_barrier(hazard: Hazard) -> bool:
    """Whether data moves through shared memory; atomic updates of two kinds may conflict."""
    atomic = is_atomic(hazard.first.mode) and is_atomic(hazard.second.mode)
    return is_shared(hazard.first.buffer) and not atomic


def _refuse(hazard: Hazard, at: ExecScope, loc: Loc | None) -> NoReturn:
    first, second = hazard.first, hazard.second
    name = second.buffer.name
    verbs = {"read": "read", "write": "written"}
    before, after = (verbs.get(side.mode, "updated") for side in (first, second))
    restart_hint = (
        "end the `if` (or the loop) after the first access and start it again for the second; the "
        "barrier then goes in between"
    )
    own_hint = (
        "if each thread uses only its own elements, give them a dimension (`s[tx, i]`), or place "
        "the barriers that the program needs by hand (T.sync_threads)"
    )
    line = f" at line {first.loc.line}" if first.loc is not None else ""
    raise TileUnsupportedError(
        f"threads exchange data through `{name}` in code that not all of them execute",
        loc=loc,
        expected="a point that all threads of the block (or "
        "of whole warps) reach together, where a barrier is legal",
        got=f"`{name}` {before}{line} and {after} here, under `{at.cond!r}`",
        hint=restart_hint
        if hazard.exact or first.joint or second.joint
        else f"{restart_hint}; {own_hint}",
    )
