"""Dependence analysis for software pipelining: which copies of a loop may run ahead.

A copy from global to shared memory may be issued some iterations early if no statement of the loop
writes its source, its tile is used only after it in the same iteration, and the tile is not read
after the loop. Threads may change the tile then: the version is theirs until they release it.
Other copies keep their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from typing import TypeGuard

import numpy as np

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.buffer import Buffer, Region, is_same_extent
from tilelang.ir.simplify import simplify
from tilelang.ir.uniform import PRIVATE
from tilelang.ir.visitor import postorder, rebuild, rewrite_exprs, substitute
from tilelang.records import dataclass
from tilelang.transforms.analysis.mechanism import Mechanism
from tilelang.transforms.schedule.gathers import with_gathers
from tilelang.transforms.schedule.iteration import SHARED, is_load

# Operations whose regions may get another leading index: their meaning does not depend on
# the number of dimensions.
_ANY_RANK = (S.Copy, S.Fill, S.Gemm, S.AtomicTile, S.ElementOp, S.Alloc, S.Store)
_VECTOR_BITS = 32  # the smallest asynchronous copy


class NotPipelinedError(Exception):
    """Why a loop stays serial; caught where the loop is planned."""


@dataclass
class Plan:
    """A loop whose ``copies`` run ahead, ordered by ``mechanism``.

    ``prefix``: statements before the condition that holds everything else; ``cond``: that
    condition or None; ``stmts``: the statements under it; ``other_mechanisms``: the mechanism of
    tiles that ``mechanism`` does not order, by storage.
    """

    loop: S.For
    stages: int
    mechanism: Mechanism
    prefix: tuple[S.Stmt, ...]
    cond: E.Expr | None
    stmts: tuple[S.Stmt, ...]
    copies: list[S.TileCopy] = field(default_factory=list)
    other_mechanisms: dict[E.Var, Mechanism] = field(default_factory=dict)

    def per_mechanism(self) -> list[Plan]:
        """A plan for each mechanism, which orders all of its copies."""
        plans: dict[str, Plan] = {}
        for copy in self.copies:
            by = self.other_mechanisms.get(copy.dst.buffer.data, self.mechanism)
            if by.name not in plans:
                plans[by.name] = replace(self, mechanism=by, copies=[], other_mechanisms={})
            plans[by.name].copies.append(copy)
        return sorted(plans.values(), key=lambda plan: not plan.mechanism.has_phases)

    @property
    def tiles(self) -> dict[E.Var, Buffer]:
        """The tiles that get versions, by storage."""
        return {copy.dst.buffer.data: copy.dst.buffer for copy in self.copies}

    def allocations(self) -> list[S.Alloc]:
        """The allocations of these tiles in the loop."""
        allocs = (stmt for stmt in (*self.prefix, *self.stmts) if isinstance(stmt, S.Alloc))
        return [stmt for stmt in allocs if stmt.buffer.data in self.tiles]

    def part(self, tiles: set[E.Var]) -> Plan:
        """The plan with the copies to ``tiles`` only."""
        return replace(self, copies=[copy for copy in self.copies if copy.dst.buffer.data in tiles])

    def replayed(self, at: E.Expr) -> tuple[list[S.Stmt], dict[E.Var, E.Expr]]:
        """Variables that the copies (and the condition) of iteration ``at`` need, anew, in program
        order; and the values that they and the loop's variable have there."""
        exprs = [expr for stmt in self.copies for expr in stmt.exprs()]
        exprs += [] if self.cond is None else [self.cond]
        values: dict[E.Var, E.Expr] = {self.loop.var: at}
        lets: list[S.Stmt] = []
        for let in needed_lets((*self.prefix, *self.stmts), exprs):
            fresh = E.Var(let.var.name, let.var.dtype)
            lets.append(replace(let, var=fresh, value=simplify(substitute(let.value, values))))
            values[let.var] = fresh
        return lets, values


def needed_lets(stmts: Sequence[S.Stmt], exprs: Iterable[E.Expr | int]) -> list[S.Let]:
    """The variables of ``stmts`` that ``exprs`` need, in order."""
    needed = {var for expr in exprs for var in E.as_expr(expr).variables}
    lets: list[S.Let] = []
    for stmt in reversed(stmts):
        if isinstance(stmt, S.Let) and stmt.var in needed:
            lets.insert(0, stmt)
            needed |= stmt.value.variables
    return lets


def plan_loop(
    loop: S.For, stages: int, mechanism: Mechanism, launch: S.Launch, gathers: bool = False
) -> Plan:
    """The copies of ``loop`` that may run ahead; ``gathers``: so may parallel loops that fill tiles
    from computed indices. Raises:
        NotPipelinedError: none may; says why.
    """
    _check_control(loop)
    prefix, cond, stmts = _unwrap(loop.body)
    if gathers:
        stmts = with_gathers(prefix, stmts, launch)
    plan = Plan(loop, stages, mechanism, prefix, cond, stmts)
    # What the loop allocates does not exist ahead of it.
    allocated = {node.buffer.data for node in S.find(loop.body, S.Alloc)}
    replay = _Replay(loop, plan, effects.written(loop.body) | allocated)
    if cond is not None and not replay.can_replay(cond):
        raise NotPipelinedError("the condition around its body cannot be evaluated ahead")
    plan.copies = [stmt for stmt in stmts if isinstance(stmt, S.COPIES) and replay.can_copy(stmt)]
    for data in list(plan.tiles):
        if not _can_version_tile(plan, data, launch):
            plan.copies = [copy for copy in plan.copies if copy.dst.buffer.data is not data]
    if not plan.copies:
        raise NotPipelinedError("no copy to shared memory in it can run ahead")
    return plan


def with_names(loop: S.For) -> S.For:
    """``loop`` with names for values that its body stores to variables of a thread (a start that
    is a sum of loads, a flag), where the rest of the body reads them: copies that run ahead compute
    a name anew."""
    readers = S.find(loop.body, S.Copy, S.Let, S.If) if loop.kind == "pipelined" else ()
    read = {access.data for stmt in readers for access in effects.accesses(stmt) if access.reads}
    stmts = S.flat(loop.body)
    if not any(_is_own(stmt) and stmt.buffer.data in read for stmt in stmts):
        return loop
    return replace(loop, body=S.seq(*_with_loads_named(stmts, {})))


def _is_own(stmt: S.Stmt) -> TypeGuard[S.Store]:
    """Whether ``stmt`` stores to a variable of a thread."""
    if not isinstance(stmt, S.Store) or stmt.buffer.storage not in PRIVATE:
        return False
    return all(extent == 1 for extent in stmt.buffer.shape)


def _with_loads_named(stmts: Iterable[S.Stmt], known: dict[E.Var, E.Var]) -> Iterator[S.Stmt]:
    """``stmts`` in order, with the names ``known`` for loads of variables."""

    def value(expr: E.Expr) -> E.Expr:
        if isinstance(expr, E.Load) and expr.buffer.data in known:
            return known[expr.buffer.data]
        return rebuild(expr, value)

    for stmt in stmts:
        stmt = rewrite_exprs(stmt, value)
        if isinstance(stmt, S.If) and stmt.orelse is None:
            yield replace(stmt, then=S.seq(*_with_loads_named(S.flat(stmt.then), dict(known))))
        elif _is_own(stmt):
            name = E.Var(stmt.buffer.name, stmt.buffer.dtype)
            yield from (S.Let(var=name, value=stmt.value, loc=stmt.loc), replace(stmt, value=name))
            known[stmt.buffer.data] = name
            continue
        else:
            yield stmt
        for data in effects.written(stmt):
            known.pop(data, None)


def _unwrap(body: S.Stmt) -> tuple[tuple[S.Stmt, ...], E.Expr | None, tuple[S.Stmt, ...]]:
    """(statements before, condition, statements) of a body that is one ``if``, or (), None, all."""
    stmts = S.flat(body)
    last = stmts[-1] if stmts else None
    if isinstance(last, S.If) and last.orelse is None:
        if all(isinstance(stmt, (S.Let, S.Alloc)) or _is_own(stmt) for stmt in stmts[:-1]):
            return stmts[:-1], last.cond, S.flat(last.then)
    return (), None, stmts


def _check_control(loop: S.For) -> None:
    """Reject loops that end early or that order asynchronous operations themselves."""
    for stmt in S.walk(loop.body):
        if isinstance(stmt, S.LEAVES):
            raise NotPipelinedError("its iterations can end early")
        if isinstance(stmt, S.For) and stmt.kind == "pipelined":
            raise NotPipelinedError("it contains a pipelined loop")
        is_manual = isinstance(stmt, S.HardwareOp) or getattr(stmt, "asynchronous", False)
        if is_manual or (isinstance(stmt, S.COPIES) and stmt.mode != "copy"):
            raise NotPipelinedError("it has asynchronous operations that the program orders itself")
        for node in stmt.calls():
            _check_call(node)


def _check_call(node: E.Call) -> None:
    """Reject calls that order asynchronous operations; barriers and exchanges are allowed."""
    atom = node.atom
    waits = atom.effect is Effect.SYNC and not (atom.is_barrier("warp", "block") or atom.exchanges)
    if waits or (atom.effect is Effect.HINT and atom.needs):
        raise NotPipelinedError("it has asynchronous operations that the program orders itself")


class _Replay:
    """Which expressions have the same value when they are evaluated some iterations early."""

    def __init__(self, loop: S.For, plan: Plan, written: set[E.Var]) -> None:
        self.written = written
        bound = S.bound(loop.body)
        lets = (stmt for stmt in (*plan.prefix, *plan.stmts) if isinstance(stmt, S.Let))
        self.lets = {let.var: let.value for let in lets}
        self.unknown = bound - set(self.lets)

    def can_replay(self, expr: E.Expr) -> bool:
        """Whether ``expr`` only depends on variables and on memory the loop does not write."""
        for node in postorder(expr):
            if isinstance(node, E.Load):
                if node.buffer.data in self.written or node.buffer.storage == "local.fragment":
                    return False
            elif isinstance(node, E.Call):
                if node.atom.effect is not Effect.NONE or node.atom.needs:
                    return False
            elif isinstance(node, (E.AddressOf, E.RegionArg)):
                return False
            elif isinstance(node, E.Var):
                if node in self.unknown or not self.can_replay(self.lets.get(node, E.const(0))):
                    return False
        return True

    def can_copy(self, copy: S.TileCopy) -> bool:
        """Whether ``copy`` can be an asynchronous copy into another version of its tile."""
        src, dst = copy.src.buffer, copy.dst.buffer
        plain = (
            src.storage == "global" and dst.storage in SHARED and copy.barrier is None
            and src.dtype == dst.dtype and src.data not in self.written and src.has_unit_stride
            and dst.strides is None and is_same_extent(dst.elem_offset, 0)
            and copy.hints.prefer_instruction != "sync"
            and all(isinstance(extent, int) for extent in (*copy.dst.extents, *dst.shape))
        )  # fmt: skip
        if not plain:
            return False
        is_copy = isinstance(copy, S.Copy)
        if is_copy and not is_same_extent(copy.dst.extents[-1], copy.src.extents[-1]):
            return False
        bits = E.as_expr(copy.dst.extents[-1]).__index__() * dst.dtype.width
        return bits % _VECTOR_BITS == 0 and all(self.can_replay(expr) for expr in copy.exprs())


# -- tiles --
def _can_version_tile(plan: Plan, data: E.Var, launch: S.Launch) -> bool:
    """Whether each iteration may use its own version of the tile."""
    fills = [copy for copy in plan.copies if copy.dst.buffer.data is data]
    last = max(k for k, stmt in enumerate(plan.stmts) if stmt in fills)
    users = [stmt for stmt in plan.stmts if stmt not in fills]
    before = [stmt for stmt in (*plan.prefix, *plan.stmts[:last]) if stmt not in fills]
    inner = (node for stmt in users for node in S.walk(stmt))
    alone = (
        _can_add_dimension(fills[0].dst.buffer, launch)
        and not any(is_load(node) and node.dst.buffer.data is data for node in inner)
        and not any(_regions(stmt, data) for stmt in before)
        and (plan.cond is None or data not in effects.used(plan.cond))
    )  # fmt: skip
    filled = _covered_once([copy.dst for copy in fills]) if alone else None
    if filled is None:
        return False
    return bool(filled.all()) or all(
        (box := _box(region)) is not None and bool(filled[box].all())
        for stmt in users
        for region in _regions(stmt, data)
    )


def _regions(stmt: S.Stmt, data: E.Var) -> list[Region]:
    """Regions of the storage ``data`` that ``stmt`` and its children read or write."""
    accesses = (access for access in effects.accesses(stmt, nested=True) if access.data is data)
    return [access.region for access in accesses if access.mode != effects.NAME]


def _can_add_dimension(buffer: Buffer, launch: S.Launch) -> bool:
    """Whether ``buffer`` is the only name of its storage and all users accept a new dimension."""
    stated = (layout for other, layout in launch.hints.layout_map if other is buffer)
    if any(len(getattr(layout, "shape", ())) != 2 for layout in stated):
        return False
    for node in S.walk(launch.body):
        if any(var is buffer.data for var, _ in effects.pointers(node)):
            return False
        for access in effects.accesses(node):
            if access.data is buffer.data and (
                access.buffer is not buffer
                or (access.by is node and not isinstance(node, _ANY_RANK))
            ):
                return False
    return True


def _covered_once(regions: list[Region]) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]] | None:
    """Elements that exactly one of ``regions`` covers; None if they overlap or are not known."""
    shape = tuple(int(extent) for extent in regions[0].buffer.shape if isinstance(extent, int))
    counts = np.zeros(shape, dtype=np.int8)
    for region in regions:
        box = _box(region)
        if box is None:
            return None
        counts[box] += 1
    return None if (counts > 1).any() else counts == 1


def _box(region: Region) -> tuple[slice, ...] | None:
    slices: list[slice] = []
    for low, extent, size in zip(region.mins, region.extents, region.buffer.shape):
        if not isinstance(low, E.Const) or not isinstance(extent, int):
            return None
        start = int(low)
        if start < 0 or (isinstance(size, int) and start + extent > size):
            return None
        slices.append(slice(start, start + extent))
    return tuple(slices)


# -- after the loop --
def is_stale(launch: S.Launch, data: E.Var, loops: Iterable[S.For]) -> bool:
    """Whether code outside of ``loops`` may read what they leave in the tile ``data``."""
    seen = _Stale(data, set(map(id, loops)))
    seen.scan(launch.body, False)
    return seen.wrong


class _Stale:
    def __init__(self, data: E.Var, loops: set[int]) -> None:
        self.data = data
        self.loops = loops
        self.wrong = False

    def scan(self, stmt: S.Stmt, dirty: bool) -> bool:
        """Look for reads of what a loop left; whether the tile holds it after ``stmt``.

        Args:
            dirty: whether it holds it before ``stmt``.
        """
        if id(stmt) in self.loops:
            return True
        if isinstance(stmt, S.Seq):
            for inner in stmt.stmts:
                dirty = self.scan(inner, dirty)
            return dirty
        if dirty and any(
            access.data is self.data and (access.reads or isinstance(access.by, E.Expr))
            for access in effects.accesses(stmt)
        ):
            self.wrong = True
        if isinstance(stmt, S.If):
            sides = [self.scan(block, dirty) for block in stmt.blocks()]
            return any(sides) or (dirty and stmt.orelse is None)
        if isinstance(stmt, (S.For, S.While, S.Parallel)):
            first_pass = self.scan(stmt.body, dirty)
            return self.scan(stmt.body, dirty or first_pass) or dirty
        for block in stmt.blocks():
            dirty = self.scan(block, dirty)
        return self.stays_dirty(stmt, dirty)

    def stays_dirty(self, stmt: S.Stmt, dirty: bool) -> bool:
        """Whether a statement without blocks leaves the tile ``dirty``."""
        if isinstance(stmt, S.Alloc) and stmt.buffer.data is self.data:
            return False
        if isinstance(stmt, (S.Copy, S.Fill)):
            if stmt.dst.buffer.data is self.data and stmt.dst.is_whole:
                return False
        return dirty
