"""Pipeline mechanisms (cp.async groups, TMA with mbarriers, barriers): one table entry for each.

A row lists the steps of each pipeline statement. Three users read the rows: the lowering emits the
instructions of a step, the verifier uses what a step guarantees, and the barrier pass what it
orders. Other passes do not depend on the mechanism.

The scheduler chooses from the rows of :data:`CHOICES`, the best first. Other rows come from
programs and passes; they are lowered and verified in the same way.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum

from tilelang.ir import effects, expr as E, schedule as H, stmt as S
from tilelang.records import dataclass
from tilelang.target import Context


class Step(Enum):
    """A step of one thread in a pipeline."""

    CLOSE_GROUP = "the copies that it has issued since the last group are a group"
    WAIT_GROUPS = "wait until all its groups but the last few have arrived"
    BARRIER = "wait for all threads of the pipeline"
    EXPECT = "arrive where the version is filled and expect the transaction bytes of the copies"
    WAIT_FULL = "wait until the version is filled"
    WAIT_EMPTY = "wait until the version is free"
    ARRIVE_FULL = "arrive where the version is filled"
    ARRIVE_EMPTY = "arrive where the version is freed"


# Steps after which the copies of the executing thread have arrived.
ARRIVALS = frozenset((Step.WAIT_GROUPS, Step.WAIT_FULL))
# Steps that use the two mbarriers of a version: it is full, it is empty.
MBARRIER_STEPS = frozenset(
    (Step.EXPECT, Step.WAIT_FULL, Step.WAIT_EMPTY, Step.ARRIVE_FULL, Step.ARRIVE_EMPTY)
)


@dataclass(frozen=True)
class Mechanism:
    """One row.

    Attributes:
        name: as ``Pipeline.mechanism`` has it.
        needs: features of the target.
        label: in reports, "copied ahead with ..."; ``cost``: what an iteration pays for the order.
        mode: of the copies (``Copy.mode``).
        acquire, commit, wait, release: what each of these statements becomes.
        close: the step at the end of the pipeline.
        counts_iterations: a wait counts groups and cannot name one, so that iterations behind the
            last one commit a group, too, and may be waited for.
        elected: one thread issues the copies of all.
        versions: whether a tile has more than one.
        extra_shared: not used where shared memory is short (``Context.saves_shared``).
    """

    name: str
    needs: frozenset[str]
    label: str
    cost: str
    mode: str
    acquire: tuple[Step, ...] = ()
    commit: tuple[Step, ...] = ()
    wait: tuple[Step, ...] = ()
    release: tuple[Step, ...] = ()
    close: tuple[Step, ...] = ()
    counts_iterations: bool = False
    elected: bool = False
    versions: bool = True
    extra_shared: bool = False

    @property
    def has_phases(self) -> bool:
        """Whether it uses mbarriers, whose phases count from the first iteration."""
        return not MBARRIER_STEPS.isdisjoint(
            (*self.acquire, *self.commit, *self.wait, *self.release)
        )


_ROWS = (
    # PTX, "cp.async.commit_group", "cp.async.wait_group". A thread waits for its own groups; the
    # barrier makes them visible to all and shows that the version used in the iteration
    # before is free.
    Mechanism(
        "cp_async", frozenset(("cp_async",)), "cp.async", "one barrier per iteration", "async",
        commit=(Step.CLOSE_GROUP,), wait=(Step.WAIT_GROUPS, Step.BARRIER),
        close=(Step.WAIT_GROUPS, Step.BARRIER), counts_iterations=True,
    ),
    # PTX, "mbarrier": TMA counts the bytes down. One thread announces them and issues
    # the copies; every user frees the version. The parity of the phase distinguishes full and
    # empty.
    Mechanism(
        "bulk", frozenset(("bulk_copy", "mbarrier")), "TMA", "mbarriers per stage", "tma",
        acquire=(Step.WAIT_EMPTY,), commit=(Step.EXPECT,), wait=(Step.WAIT_FULL,),
        release=(Step.ARRIVE_EMPTY,), elected=True,
    ),
    # The same where barriers of the block order the uses of a version and the copy that overwrites
    # it (``sync/elide_empty_barriers.py``).
    Mechanism(
        "bulk_full", frozenset(("bulk_copy", "mbarrier")), "TMA",
        "one mbarrier per stage", "tma", commit=(Step.EXPECT,), wait=(Step.WAIT_FULL,),
        elected=True,
    ),
    # The same with copies by threads, each of which arrives when its own are complete.
    Mechanism(
        "mbarrier", frozenset(("mbarrier",)), "plain copies", "mbarriers per stage", "copy",
        acquire=(Step.WAIT_EMPTY,), commit=(Step.ARRIVE_FULL,), wait=(Step.WAIT_FULL,),
        release=(Step.ARRIVE_EMPTY,),
    ),
    # Copies through registers are complete when they return; what is left is one barrier instead
    # of the two that a tile with one version needs.
    Mechanism(
        "barrier", frozenset(("simt",)), "plain copies", "one barrier per iteration", "copy",
        wait=(Step.BARRIER,), close=(Step.BARRIER,),
    ),
    # Loads that write to LDS themselves, counted while they are in flight ("S_WAITCNT vmcnt").
    Mechanism(
        "direct", frozenset(("direct_lds",)), "loads straight to LDS", "one barrier per iteration",
        "async", commit=(Step.CLOSE_GROUP,), wait=(Step.WAIT_GROUPS, Step.BARRIER),
        close=(Step.WAIT_GROUPS, Step.BARRIER), counts_iterations=True, extra_shared=True,
    ),
    # Copies through registers on machines whose memory instructions overlap the computation
    # and are counted: the compiler waits where a value is stored to LDS (AMD CDNA 3 manual,
    # "S_WAITCNT").
    Mechanism(
        "lds", frozenset(("vmcnt",)), "loads by threads", "one barrier per iteration", "copy",
        wait=(Step.BARRIER,), close=(Step.BARRIER,), extra_shared=True,
    ),
    # One version: a barrier before it is overwritten and one before it is used.
    Mechanism(
        "plain", frozenset(), "plain copies", "two barriers per iteration", "copy",
        acquire=(Step.BARRIER,), wait=(Step.BARRIER,), close=(Step.BARRIER,), versions=False,
    ),
)  # fmt: skip
MECHANISMS = {row.name: row for row in _ROWS}
CHOICES = ("bulk", "cp_async", "direct", "lds")


def changed(stmt: S.Stmt, tiles: Collection[E.Var]) -> frozenset[E.Var]:
    """Those of ``tiles`` that threads write in ``stmt`` other than to fill a stage."""
    written = effects.written(stmt, nested=False) & set(tiles)
    for block in (stmt,) if isinstance(stmt, S.Seq) else stmt.blocks():
        filling: E.Expr | None = None
        for inner in S.flat(block):
            if isinstance(inner, H.Acquire) and filling is None:
                filling = inner.pipe
            elif filling is None:
                written |= changed(inner, tiles)
            elif isinstance(inner, H.Commit) and inner.pipe is filling:
                filling = None
    return frozenset(written)


def choices(context: Context) -> tuple[Mechanism, ...]:
    """The rows that pipelined loops of ``context`` may use, the best first."""
    return tuple(
        row
        for row in (MECHANISMS[name] for name in CHOICES)
        if all(map(context.has, row.needs)) and not (row.extra_shared and context.saves_shared)
    )
