"""Early loads: loads of read-only tensors are in flight while a block waits for a copy."""

from __future__ import annotations

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.visitor import replace_changed, rewrite_blocks
from tilelang.transforms.analysis.dependence import facts_of, written_in
from tilelang.transforms.analysis.loops import UNROLLED, array_registers, trip_count
from tilelang.transforms.rules import Cursor, rule

EARLY_REGISTERS = 16  # of a thread, that may hold early loads
REGISTERS = 64  # of a thread, for arrays and early loads together
_WITHIN = ("thread", "warp", "warpgroup", "block", "barrier")  # scopes that loads may cross
_STAYS = (S.While, S.Assert, S.View, *S.LEAVES)  # no load crosses them
_FILLS = {S.Seq, S.If, S.For, S.Store, S.Eval}
_LOADS = (Effect.NONE, Effect.READ, Effect.WRITE)


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
    first = next((at for at, stmt in enumerate(stmts) if _waits(stmt)), len(stmts))
    if cursor.launch is None or first == len(stmts):
        return block
    end = next((at for at in range(first, len(stmts)) if not _may_cross(stmts[at])), len(stmts))
    behind = S.Seq(stmts=stmts[first:end])
    arrays = [s for outer in cursor.around for s in outer.blocks() if isinstance(s, S.Alloc)]
    room = REGISTERS - sum(map(array_registers, arrays))
    early = _Early(behind, cursor.of(written_in, cursor.kernel), min(EARLY_REGISTERS, room))
    rest = early.without_loads(behind, ())
    return block if rest is behind else block.of([*stmts[:first], *early.moved, rest, *stmts[end:]])


def _waits(stmt: S.Stmt) -> bool:
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
    """The loads of ``block`` that are issued before it."""

    def __init__(self, block: S.Stmt, written: frozenset[E.Var], room: int) -> None:
        self.bound = S.bound(block)  # variables without a value before it
        self.written = written
        self.room = room  # registers
        self.moved: list[S.Stmt] = []

    def without_loads(self, stmt: S.Stmt, conds: tuple[E.Expr, ...]) -> S.Stmt:
        """``stmt``, which runs where ``conds`` hold, without the loads that move."""
        if isinstance(stmt, S.If) and effects.is_steady(stmt.cond, self.written):
            return replace_changed(stmt, then=self.without_loads(stmt.then, (*conds, stmt.cond)))
        if isinstance(stmt, S.Seq):
            for alloc in stmt.stmts:
                if isinstance(alloc, S.Alloc):
                    stmt = self.without_load(stmt, alloc, conds)
        elif not (isinstance(stmt, S.For) and stmt.kind in UNROLLED and trip_count(stmt)):
            return stmt
        return rewrite_blocks(stmt, lambda inner: self.without_loads(inner, conds))

    def without_load(self, block: S.Seq, alloc: S.Alloc, conds: tuple[E.Expr, ...]) -> S.Seq:
        """``block`` without the array of ``alloc`` and the loads that fill it, where they move: an
        array of the thread, filled before its first use and not again."""
        data, size = alloc.buffer.data, array_registers(alloc)
        using = [s for s in block.stmts if s is not alloc and data in facts_of(s).mentioned]
        fills = [s for s in using if data in effects.written(s)]
        alone = alloc.buffer.storage == "local" and using[: len(fills)] == fills
        body = S.seq(*fills)
        used = facts_of(body).mentioned.union(*(cond.variables for cond in conds))
        known = alloc.init is None and self.bound.isdisjoint(used - S.bound(body))
        if size > self.room or not (alone and known and self.loads(body, data)):
            return block
        self.room -= size
        for cond in reversed(conds):
            body = S.If(cond=cond, then=body, loc=alloc.loc)
        self.moved += [alloc, body]
        return S.Seq(stmts=tuple(s for s in block.stmts if s is not alloc and s not in fills))

    def loads(self, stmt: S.Stmt, data: E.Var) -> bool:
        """Whether ``stmt`` does nothing but fill the array at ``data`` from read-only tensors."""
        facts = facts_of(stmt)
        if not facts.kinds <= _FILLS or any(c.atom.effect not in _LOADS for c in S.calls(stmt)):
            return False
        reads = [a for a in facts.by_key.values() if a.data is not data or a.reads]
        return bool(reads) and all(
            a.buffer.storage == "global" and a.data not in self.written for a in reads
        )
