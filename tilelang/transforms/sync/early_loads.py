"""Early loads: loads of read-only tensors are in flight while a block waits for a copy, or while
the steps of an unrolled loop before theirs compute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from math import prod

from tilelang.ir import effects, expr as E, stmt as S, visitor
from tilelang.ir.atoms import Effect
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.simplify import simplify
from tilelang.transforms.analysis import loops
from tilelang.transforms.analysis.dependence import facts_of, written_in
from tilelang.transforms.analysis.slow_paths import has_slow_path
from tilelang.transforms.rules import Cursor, rule

EARLY_REGISTERS = 16  # of a thread, that may hold early loads
REGISTERS = 64  # of a thread, for arrays and early loads together
_WITHIN = ("thread", "warp", "warpgroup", "block", "barrier")  # scopes that loads may cross
_STAYS = (S.While, S.Assert, S.View, *S.LEAVES)  # no load crosses them
_FILLS = {S.Seq, S.If, S.For, S.Store, S.Eval}
_LOADS = (Effect.NONE, Effect.READ, Effect.WRITE)
STEP_REGISTERS, OTHERS = 32, 24  # that may hold the loads of several steps, and that hold no array


@rule(S.Seq, needs="cp_async")
def issue_loads_early(block: S.Seq, cursor: Cursor) -> S.Stmt:
    """Issue loads of read-only tensors before the wait for a copy to shared memory.

    No compiler of a device moves a load over a wait. So the elements of tables and scales that a
    block multiplies its tile by would add their latency to that of the copy. They are loaded before
    the wait, under the same conditions, and once where all iterations of an unrolled loop load the
    same.

    The kernel writes to no element of such a tensor, and no wait for another kernel, cluster or
    grid is crossed, so the value is the same. A barrier of the block is no reason: other blocks
    hide the latency there, and the registers that early loads take cost more.
    """
    stmts = block.stmts
    first = next((at for at, stmt in enumerate(stmts) if _has_wait(stmt)), len(stmts))
    if cursor.launch is None or first == len(stmts):
        return block
    end = next((at for at in range(first, len(stmts)) if not _may_cross(stmts[at])), len(stmts))
    behind = S.Seq(stmts=stmts[first:end])
    room = min(EARLY_REGISTERS, REGISTERS - _registers(cursor))
    early = _Early(behind, cursor.of(written_in, cursor.kernel), room)
    rest = early.without_loads(behind, ())
    return block if rest is behind else block.of([*stmts[:first], *early.moved, rest, *stmts[end:]])


@rule(S.For, needs="division_branches", where=lambda _, context: not context.options.fast_math)
def batch_loads(loop: S.For, cursor: Cursor) -> S.Stmt:
    """Issue the loads of several steps of an unrolled loop before these steps compute.

    The device's compiler does so itself where a step has no branch. It moves no load over the slow
    path of a division or a root, and none out of a condition around an atomic update: each step
    would wait for memory in turn. So many steps go together that a multiprocessor has enough bytes
    in flight, if their loads fit into the registers.

    The kernel writes to no element of such a tensor, and nothing in the loop waits for another
    kernel, cluster or grid, so the value is the same.
    """
    trips, body = loops.trip_count(loop) or 0, loop.body
    if loop.kind != "unroll" or loop.hints.unroll_factor or cursor.launch is None:
        return loop
    if not _may_cross(body) or not _has_branch(body, S.bound(loop) | effects.written(body)):
        return loop
    limits, threads = cursor.context.limits, prod(cursor.launch.threads)
    room = min(STEP_REGISTERS, limits.registers_at_start(threads) - OTHERS - _registers(cursor))
    early = _Early(body, cursor.of(written_in, cursor.launch), room // 2)
    early.step, early.values = loop.var, [loop.start + n * loop.step for n in range(trips)]
    rest = early.without_loads(body, ())
    if not (size := room // 2 - early.room):
        return loop
    resident = min(loops.blocks_each(cursor.launch, limits) * threads, limits.threads_processor)
    limit = min(room // size, loops.IN_FLIGHT // (4 * size * resident) + 1)
    count = max(n for n in range(1, max(limit, 1) + 1) if trips % n == 0)
    return loop if count == 1 else _in_groups(loop, early.moved, rest, count)


def _registers(cursor: Cursor) -> int:
    """Registers of the arrays of the blocks around a statement."""
    return sum(cursor.of(_block_registers, outer) for outer in cursor.around)


def _block_registers(stmt: S.Stmt) -> int:
    return sum(
        loops.array_registers(block) for block in stmt.blocks() if isinstance(block, S.Alloc)
    )


def _has_branch(stmt: S.Stmt, varying: set[E.Var]) -> bool:
    """Whether the device's compiler writes a branch in ``stmt``, over which it moves no load; what
    does not use the ``varying`` variables and storage is computed once."""
    atomic = isinstance(stmt, S.If) and any(c.atom.effect is Effect.ATOMIC for c in S.calls(stmt))
    slow = (node for expr in stmt.exprs() for node in E.walk(expr) if has_slow_path(node))
    varies = (not varying.isdisjoint(node.variables | effects.used(node)) for node in slow)
    return atomic or any(varies) or any(_has_branch(block, varying) for block in stmt.blocks())


def _in_groups(loop: S.For, moved: list[S.Stmt], rest: S.Stmt, count: int) -> S.Stmt:
    """``loop`` in groups of ``count`` steps: what ``moved`` of all of them, then their ``rest``,
    with slots for each step in the arrays between."""
    own = (stmt.buffer for stmt in moved if isinstance(stmt, S.Alloc))
    arrays = {b: replace(b, shape=Shape((int(b.shape[0]) * count,))) for b in own}
    group, trips = E.Var(loop.var.name, loop.var.dtype), loops.trip_count(loop) or 0

    def steps(*stmts: S.Stmt) -> S.Stmt:
        step = E.Var(loop.var.name, loop.var.dtype)

        @cache
        def slot(expr: E.Expr) -> E.Expr:
            expr = visitor.rebuild(expr, slot)
            if isinstance(expr, (E.Load, E.AddressOf)) and expr.buffer in arrays:
                at = step * int(expr.buffer.shape[0]) + expr.indices[0]
                return E.moved_to(expr, arrays[expr.buffer], at)
            return expr

        def fill(store: S.Store) -> S.Store:
            target = slot(E.Load(store.buffer, store.indices))
            assert isinstance(target, E.Load)
            return visitor.replace_changed(store, buffer=target.buffer, indices=target.indices)

        number = step if count == trips else group * count + step
        value = loop.start + number * loop.step
        body = visitor.map_exprs(visitor.substitute_in(S.seq(*stmts), {loop.var: value}), slot)
        body = visitor.map_stmts(body, S.Store, fill)
        return S.counted(step, count, body, "unroll", loc=loop.loc)

    loads = steps(*(stmt for stmt in moved if not isinstance(stmt, S.Alloc)))
    body = S.seq(*(S.Alloc(buffer=array) for array in arrays.values()), loads, steps(rest))
    return body if count == trips else S.counted(group, trips // count, body, "unroll")


def _has_wait(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` waits for copies, of TMA by an mbarrier or of threads."""
    orders = [call.atom.orders for call in stmt.calls() if call.atom.orders is not None]
    waits = (order for order in orders if order.kind == "wait")
    return any(order.group == "cp_async" or order.scope == "barrier" for order in waits)


def _may_cross(stmt: S.Stmt) -> bool:
    """Whether a load of a read-only tensor may be issued before ``stmt`` instead of behind it."""
    orders = (call.atom.orders for call in S.calls(stmt))
    within = all(order is None or order.scope in _WITHIN for order in orders)
    return within and not S.holds(stmt, *_STAYS)


class _Early:
    """The loads of ``block`` that are issued before it; those of a ``step`` differ from those of
    others, and may be in expressions."""

    step: E.Var | None = None
    values: Sequence[E.Expr] = ()  # of the step

    def __init__(self, block: S.Stmt, written: frozenset[E.Var], room: int) -> None:
        self.bound = S.bound(block)  # variables without a value before it
        self.written = written
        self.room = room  # registers
        self.moved: list[S.Stmt] = []

    def without_loads(self, stmt: S.Stmt, conds: tuple[E.Expr, ...]) -> S.Stmt:
        """``stmt``, which runs where ``conds`` hold, without the loads that move."""
        if self.step is not None and isinstance(stmt, (S.Store, S.Eval, S.Let)):
            loads = (load for expr in stmt.exprs() for load in effects.certain_loads(expr))
            known = {load: self.named(load, conds) for load in loads}
            return visitor.rewrite_exprs(stmt, lambda expr: visitor.replace_nodes(expr, known))
        if isinstance(stmt, S.If) and effects.is_steady(stmt.cond, self.written):
            then = self.without_loads(stmt.then, (*conds, stmt.cond))
            return visitor.replace_changed(stmt, then=then)
        if isinstance(stmt, S.Seq):
            for alloc in stmt.stmts:
                if isinstance(alloc, S.Alloc):
                    stmt = self.without_load(stmt, alloc, conds)
        elif not (isinstance(stmt, S.For) and stmt.kind == "unroll" and loops.trip_count(stmt)):
            return stmt
        return visitor.rewrite_blocks(stmt, lambda inner: self.without_loads(inner, conds))

    def without_load(self, block: S.Seq, alloc: S.Alloc, conds: tuple[E.Expr, ...]) -> S.Seq:
        """``block`` without the array of ``alloc`` and the loads that fill it, where they move: an
        array of the thread, filled before its first use and not again."""
        data, buffer = alloc.buffer.data, alloc.buffer
        using = [s for s in block.stmts if s is not alloc and data in facts_of(s).mentioned]
        fills = [s for s in using if data in effects.written(s)]
        alone = buffer.storage == "local" and using[: len(fills)] == fills
        body = S.seq(*fills)
        used = facts_of(body).mentioned.union(*(cond.variables for cond in conds))
        known = alloc.init is None and self.bound.isdisjoint(used - S.bound(body))
        if self.step is not None:
            uses = (access.by for access in effects.accesses(body, nested=True))
            loads = (use for use in uses if isinstance(use, E.Load))
            alone = alone and buffer.ndim == 1 and self.step in facts_of(body).mentioned
            alone = alone and all(map(self.differs, loads))
        if not (alone and known and self.loads(body, data) and self.move(alloc, body, conds)):
            return block
        return S.Seq(stmts=tuple(s for s in block.stmts if s is not alloc and s not in fills))

    def move(self, alloc: S.Alloc, body: S.Stmt, conds: tuple[E.Expr, ...]) -> bool:
        """Move ``body``, which fills the array of ``alloc``, if there is room."""
        size = max(1, loops.array_registers(alloc))
        if size > self.room:
            return False
        self.room -= size
        for cond in reversed(conds):
            body = S.If(cond=cond, then=body, loc=alloc.loc)
        self.moved += [alloc, body]
        return True

    def differs(self, load: E.Load) -> bool:
        """Whether each step loads another element: what steps share is in flight anyway."""
        assert self.step is not None
        places = {simplify(visitor.substitute(load, {self.step: value})) for value in self.values}
        return len(places) == len(self.values)

    def named(self, load: E.Load, conds: tuple[E.Expr, ...]) -> E.Expr:
        """The element of an array that holds ``load`` of a step, if that moves."""
        array, at = Buffer("loaded", Shape((1,)), load.dtype, "local"), (E.const(0),)
        own = self.step in load.variables and self.bound.isdisjoint(load.variables)
        if own and self.differs(load) and effects.is_steady(load, self.written):
            fill = S.Store(buffer=array, indices=at, value=load)
            return E.Load(array, at) if self.move(S.Alloc(buffer=array), fill, conds) else load
        return load

    def loads(self, stmt: S.Stmt, data: E.Var) -> bool:
        """Whether ``stmt`` does nothing but fill the array at ``data`` from read-only tensors."""
        facts = facts_of(stmt)
        if not facts.kinds <= _FILLS or any(c.atom.effect not in _LOADS for c in S.calls(stmt)):
            return False
        reads = [a for a in facts.by_key.values() if a.data is not data or a.reads]
        return bool(reads) and all(
            a.buffer.storage == "global" and a.data not in self.written for a in reads
        )
