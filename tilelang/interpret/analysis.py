"""Static facts about statements, computed once per statement and remembered."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import field

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.buffer import Buffer
from tilelang.ir.effects import NAME, accesses
from tilelang.ir.schedule import Acquire, Pipeline, Roles, Run, Wait as WaitForItem
from tilelang.records import dataclass

PRIVATE = frozenset(("local", "local.var"))
# Meanings of instructions that whole warps, or warpgroups, execute.
WARPS = frozenset(
    ("multiply matrices", "load matrices", "store matrices", "multiply in a warpgroup",
     "multiply matrices by mfma", "multiply matrices by wmma_gfx11",
     "multiply matrices by wmma_gfx12",
     "fill matrix", "load matrix", "store matrix", "multiply add matrix",
     "give matrix", "take matrix")
)  # fmt: skip


def calls_in(exprs: Iterable[E.Expr]) -> Iterator[E.Call]:
    """Every intrinsic call in ``exprs``."""
    for expr in exprs:
        for node in E.walk(expr):
            if isinstance(node, E.Call):
                yield node


@dataclass
class LoopFacts:
    """The accesses in the body of a parallel loop."""

    free: set[E.Var] = field(default_factory=set)  # variables bound outside
    private_read: dict[E.Var, Buffer] = field(default_factory=dict)  # by data pointer
    private_written: bool = False
    thread_code: bool = False  # uses lanes of a warp or the thread's own state
    exchange: E.Call | None = None  # the call by which threads exchange values
    # stores to memory that the iterations share, with the depth of loops around them
    stores: list[tuple[S.Store, int]] = field(default_factory=list)
    loads: list[tuple[E.Var, S.Stmt, tuple[E.Expr, ...]]] = field(default_factory=list)
    lets: dict[E.Var, E.Expr] = field(default_factory=dict)
    inner: dict[E.Var, S.For] = field(default_factory=dict)
    own_data: set[E.Var] = field(default_factory=set)


class Facts:
    """Memo tables over statements; lives as long as the run."""

    def __init__(self) -> None:
        self._waits: dict[int, bool] = {}
        self._group: dict[int, bool] = {}
        self._loops: dict[int, LoopFacts] = {}
        self._updates: dict[int, bool] = {}
        self.by_thread: set[E.Var] = set()

    def learn(self, launch: S.Launch) -> None:
        """Find the variables of a kernel that depend on the thread."""
        self.by_thread.update(launch.thread_vars)
        for stmt in S.walk(launch.body):
            if isinstance(stmt, S.Let) and self.depends_on_thread(stmt.value):
                self.by_thread.add(stmt.var)

    def depends_on_thread(self, expr: E.Expr) -> bool:
        """Whether a value is computed from the thread index (loads do not count)."""
        return any(
            (isinstance(node, E.Var) and node in self.by_thread)
            or (isinstance(node, E.Call) and node.atom.per_thread)
            for node in E.walk(expr)
        )

    def waits(self, stmt: S.Stmt) -> bool:
        """Whether threads may have to wait for others inside ``stmt``."""
        cached = self._waits.get(id(stmt))
        if cached is None:
            cached = any(
                isinstance(part, (Acquire, WaitForItem))
                or (isinstance(part, S.While) and self.is_spin(part))
                or any(call.atom.may_wait for call in calls_in(part.exprs()))
                for part in S.walk(stmt)
            )
            self._waits[id(stmt)] = cached
        return cached

    def is_spin(self, stmt: S.While) -> bool:
        """Whether a loop does nothing but wait for memory that others write."""
        return any(True for _ in accesses(stmt.cond)) and all(
            isinstance(part, S.Seq)
            or (
                isinstance(part, S.Eval)
                and not (isinstance(part.value, E.Call) and part.value.args)
            )
            for part in S.walk(stmt.body)
        )

    def needs_group(self, stmt: S.Stmt) -> bool:
        """Whether ``stmt`` holds an operation of the whole current thread group."""
        cached = self._group.get(id(stmt))
        if cached is None:
            cached = self._group[id(stmt)] = self._needs_group(stmt)
        return cached

    def _needs_group(self, stmt: S.Stmt) -> bool:
        if isinstance(stmt, (S.TileOp, S.Parallel)):
            return True
        if isinstance(stmt, Roles) or self._is_thread_branch(stmt):
            return False
        calls = list(calls_in(stmt.exprs()))
        if any(call.atom.exchanges == "block" or call.atom.semantics in WARPS for call in calls):
            return True
        if isinstance(stmt, (S.For, S.While)) and self._allocates(stmt.body):
            return True  # one tile per iteration for all threads, not one per strand
        return any(self.needs_group(block) for block in stmt.blocks())

    def _allocates(self, stmt: S.Stmt) -> bool:
        """Whether ``stmt`` makes a tile that its threads share."""
        if isinstance(stmt, S.Alloc):
            return stmt.buffer.storage not in PRIVATE
        if isinstance(stmt, Roles) or self._is_thread_branch(stmt):
            return False
        return any(self._allocates(block) for block in stmt.blocks())

    def _is_thread_branch(self, stmt: S.Stmt) -> bool:
        """Whether ``stmt`` is a branch that depends on the thread."""
        return isinstance(stmt, S.If) and self.depends_on_thread(stmt.cond)

    def conditions(self, stmts: Iterable[S.Stmt]) -> Iterator[S.Let | S.If]:
        """Lets, and branches on the thread that hold waits, in program order."""
        for stmt in stmts:
            if isinstance(stmt, S.Let):
                yield stmt
            elif isinstance(stmt, S.If) and self.waits(stmt):
                if self.depends_on_thread(stmt.cond):
                    yield stmt
                for block in stmt.blocks():
                    if not self.needs_group(block):
                        yield from self.conditions((block,))
            elif isinstance(stmt, (S.Seq, S.For, S.Attr, Pipeline, Run)):
                yield from self.conditions(stmt.blocks())

    def updates_itself(self, stmt: S.Store) -> bool:
        """Whether a store's value reads the very element it overwrites."""
        cached = self._updates.get(id(stmt))
        if cached is None:
            cached = any(
                access.data is stmt.buffer.data and E.are_same_exprs(access.indices, stmt.indices)
                for access in accesses(stmt.value)
            )
            self._updates[id(stmt)] = cached
        return cached

    def loop(self, stmt: S.Parallel) -> LoopFacts:
        """The accesses in the body of ``stmt``."""
        cached = self._loops.get(id(stmt))
        if cached is None:
            cached = LoopFacts()
            bound: set[E.Var] = set(stmt.vars)
            self._scan(stmt.body, cached, bound, 0)
            cached.free -= bound
            self._loops[id(stmt)] = cached
        return cached

    def _scan(self, stmt: S.Stmt, facts: LoopFacts, bound: set[E.Var], depth: int) -> None:
        if isinstance(stmt, S.Alloc):
            facts.own_data.add(stmt.buffer.data)
        if isinstance(stmt, S.Let):
            facts.lets[stmt.var] = stmt.value
            bound.add(stmt.var)
        if isinstance(stmt, S.For):
            facts.inner[stmt.var] = stmt
            bound.add(stmt.var)
        if isinstance(stmt, S.Parallel):
            bound.update(stmt.vars)
        self._scan_exprs(stmt, facts)
        for access in accesses(stmt):
            if access.mode != NAME:
                self._note_private(access.buffer, facts, access.writes)
            if isinstance(access.by, E.Expr):
                facts.loads.append((access.data, stmt, access.indices))
        if isinstance(stmt, S.Store):
            if stmt.buffer.data not in facts.own_data and stmt.buffer.storage not in PRIVATE:
                facts.stores.append((stmt, depth))
        deeper = depth + (not isinstance(stmt, (S.Seq, S.If, S.Attr, S.View)))
        for block in stmt.blocks():
            self._scan(block, facts, bound, deeper)

    def _scan_exprs(self, stmt: S.Stmt, facts: LoopFacts) -> None:
        for expr in stmt.exprs():
            for node in E.walk(expr):
                if isinstance(node, E.Var):
                    facts.free.add(node)
                elif isinstance(node, E.Call):
                    info = node.atom
                    if info.exchanges:
                        facts.exchange = node
                    facts.thread_code |= (
                        info.per_thread
                        or bool(info.exchanges)
                        or info.emulated
                        or info.needs == "threads"
                    )

    def _note_private(self, buffer: Buffer, facts: LoopFacts, written: bool) -> None:
        if buffer.storage in PRIVATE and buffer.data not in facts.own_data:
            facts.private_read[buffer.data] = buffer
            facts.private_written |= written


def is_arithmetic(expr: E.Expr) -> bool:
    """Whether ``expr`` is arithmetic on variables: no memory, no calls with effects."""
    return not any(
        isinstance(node, (E.Load, E.AddressOf, E.RegionArg))
        or (isinstance(node, E.Call) and node.atom.effect is not Effect.NONE)
        for node in E.walk(expr)
    )


def variables(expr: E.Expr) -> set[E.Var]:
    """The variables in ``expr``."""
    return {node for node in E.walk(expr) if isinstance(node, E.Var)}
