"""Uniformity (divergence) analysis: which values differ between the threads of a block.

A back end that runs a whole block on one core executes a statement once when all threads would do
the same, and once per thread otherwise. This analysis finds, for one launch, the variables and
private buffers whose contents differ anywhere. It is a fixpoint from the thread indices: a value is
varying when it is computed from a varying one, or stored under a condition that is.
:class:`tilelang.transforms.analysis.groups.Uniformity` solves the same equations for each place.
"""

from __future__ import annotations

from collections.abc import Set
from functools import lru_cache

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.memo import memoized

PRIVATE = ("local", "local.var", "local.descriptor")
# Effects that each executing thread has on its own.
PER_THREAD_EFFECTS = (Effect.ATOMIC, Effect.OUTPUT)


class Varying:
    """Result of the analysis of one launch; query with the methods.

    Attributes:
        names: variables and private storage (which views follow) that differ.

    Args:
        votes: whether the result of a vote of all threads counts as the same for all of them: each
            has to take part, which matters where a statement may be executed once for all.
        lockstep: all threads that are in a loop run its first iteration, then its second, so that
            its variable differs only where its start or step does.
        exchanges: values from other threads count as different, even where all of them are equal.
        broadcasts: they count as the same, as where a shuffle broadcasts an index.
        also: variables and storage that differ from the beginning, besides thread indices.
    """

    def __init__(
        self, launch: S.Launch, votes: bool = False, lockstep: bool = False,
        exchanges: bool = False, broadcasts: bool = False, also: Set[E.Var] = frozenset(),
    ) -> None:  # fmt: skip
        self.votes, self.broadcasts = votes, broadcasts
        self.exchanges, self.lockstep = exchanges, lockstep
        self.names: set[E.Var] = {*launch.thread_vars, *also}
        self._memo: dict[E.Expr, bool] = {}
        self._exits: list[set[E.Var]] = []  # of each loop around: what differs where it is left
        self._solve(launch)

    def _solve(self, launch: S.Launch) -> None:
        count = -1
        while count != (count := len(self.names)):
            self._memo.clear()
            self._visit(launch.body, self.names)

    def varies(self, expr: E.Expr) -> bool:
        """Whether threads may see different values of ``expr``."""
        return self._varies(expr, self.names)

    def differs(self, expr: E.Expr, stmt: S.Stmt) -> bool:
        """The same, of those that run ``stmt``, where that is known."""
        return self.varies(expr)

    def divides(self, stmt: S.If | S.For | S.While) -> bool:
        """Whether threads that reach a branch may take different sides, or threads that reach a
        loop may leave it at different iterations."""
        if any(self.differs(expr, stmt) for expr in stmt.exprs()):
            return True
        return not isinstance(stmt, S.If) and has_divergent_exit(stmt.body, self)

    def has_effect(self, expr: E.Expr) -> bool:
        """Whether every thread that evaluates ``expr`` does something of its own."""
        return any(call.atom.effect in PER_THREAD_EFFECTS for call in E.find(expr, E.Call))

    def touches(self, stmt: S.Stmt) -> bool:
        """Whether ``stmt`` (with its body) reads or writes anything varying."""
        for node in S.walk(stmt):
            if any(self.varies(expr) for expr in node.exprs()):
                return True
            if any(buffer.data in self.names for buffer in node.parts("buffer")):
                return True
        return False

    # -- expressions ---------------------------------------------------------------------
    def _varies(self, expr: E.Expr, varying: set[E.Var]) -> bool:
        """Whether threads may see different values of ``expr`` if the names ``varying`` differ."""
        return self._may_vary(expr, varying, self._memo if varying is self.names else {})

    def _may_vary(self, expr: E.Expr, varying: set[E.Var], memo: dict[E.Expr, bool]) -> bool:
        known = memo.get(expr)
        if known is None:
            atom = expr.atom if isinstance(expr, E.Call) else None
            equal = atom and ((self.votes and atom.vote) or (self.broadcasts and atom.exchanges))
            known = memo[expr] = not equal and (
                self._is_seed(expr, varying, memo)
                or any(self._may_vary(child, varying, memo) for child in expr.children())
            )
        return known

    def _is_seed(self, expr: E.Expr, varying: set[E.Var], memo: dict[E.Expr, bool]) -> bool:
        """Whether ``expr`` differs whatever its operands are."""
        if isinstance(expr, E.Var):
            return expr in varying
        if isinstance(expr, (E.Load, E.AddressOf)):
            offset = expr.buffer.elem_offset
            own = isinstance(offset, E.Expr) and self._may_vary(offset, varying, memo)
            return own or expr.buffer.data in varying
        if not isinstance(expr, E.Call):
            return False
        atom = expr.atom
        own = atom.per_thread or atom.effect is Effect.ATOMIC
        return own or (self.exchanges and bool(atom.exchanges))

    # -- statements ----------------------------------------------------------------------
    # ``now`` is what differs before a statement, and then after it. Here it is one set for all
    # positions; nothing is ever removed from it.
    def _fork(self, varying: set[E.Var]) -> set[E.Var]:
        """The variables that differ at the beginning of a block that is entered with
        ``varying``."""
        return varying

    def _assign(self, name: E.Var, varies: bool, is_whole: bool, varying: set[E.Var]) -> None:
        """``name`` gets a value, all of it or a part."""
        if varies:
            varying.add(name)

    def _visit_side(self, cond: E.Expr, block: S.Stmt, varying: set[E.Var]) -> None:
        """One side of a branch, taken by the threads for which ``cond`` holds."""
        self._visit(block, varying)

    def _visit(self, stmt: S.Stmt, varying: set[E.Var]) -> None:
        if isinstance(stmt, S.Parallel):
            self._visit_parallel(stmt, varying)
            return
        for access in self._private_writes(stmt):
            self._assign(access.data, self._differs(access.by, varying), _is_whole(access), varying)
        if isinstance(stmt, S.Let):
            self._assign(stmt.var, self._varies(stmt.value, varying), True, varying)
        elif isinstance(stmt, S.If):
            self._visit_branch(stmt, varying)
        elif isinstance(stmt, (S.For, S.While)):
            self._visit_loop(stmt, varying)
        elif isinstance(stmt, (S.Break, S.Continue)) and self._exits:
            self._exits[-1] |= varying
        else:
            for block in stmt.blocks():
                self._visit(block, varying)

    def _visit_branch(self, stmt: S.If, varying: set[E.Var]) -> None:
        """Behind a branch that not all threads take, what was written in it differs."""
        divides = self._varies(stmt.cond, varying)
        before, left = self._fork(varying), set[E.Var]()
        for cond, block in ((stmt.cond, stmt.then), (E.unary("lnot", stmt.cond), stmt.orelse)):
            inside = self._fork(before)
            if block is not None:
                self._visit_side(cond, block, inside)
            left |= inside
        if divides:
            left |= self._written(stmt)
        varying &= left
        varying |= left

    def _visit_loop(self, stmt: S.For | S.While, varying: set[E.Var]) -> None:
        """An iteration sees what the one before has left. What a loop writes that threads leave at
        different iterations differs."""
        divides = False
        if isinstance(stmt, S.For):
            divides = any(self._varies(end, varying) for end in (stmt.start, stmt.stop, stmt.step))
            late = self.lockstep and not any(
                self._varies(end, varying) for end in (stmt.start, stmt.step)
            )
            self._assign(stmt.var, divides and not late, True, varying)
        count = -1
        while count != (count := len(varying)):
            if isinstance(stmt, S.While):
                divides |= self._varies(stmt.cond, varying)
            self._exits.append(set())
            inside = self._fork(varying)
            self._visit(stmt.body, inside)
            divides |= has_divergent_exit(stmt.body, self)
            varying |= inside | self._exits.pop() | (self._written(stmt) if divides else set())
            if inside is varying:
                return  # all positions are visited again anyway

    @memoized
    def _private_writes(self, stmt: S.Stmt) -> list[effects.Access]:
        return [a for a in effects.accesses(stmt) if a.writes and a.buffer.storage in PRIVATE]

    def _written(self, stmt: S.Stmt) -> set[E.Var]:
        """Private memory that differs where only some threads run ``stmt``: what the whole group
        does, and first values, do not depend on that."""
        return {
            access.data
            for node in S.walk(stmt)
            if not isinstance(node, (S.TileOp, S.Alloc))
            for access in self._private_writes(node)
        }

    def _differs(self, by: S.Stmt | E.Expr, varying: set[E.Var]) -> bool:
        """Whether threads may do different things in an access."""
        if isinstance(by, E.Expr):
            return self._varies(by, varying)
        return any(self._varies(expr, varying) for expr in by.exprs()) or any(
            access.reads and access.data in varying for access in effects.own(by)
        )

    def _visit_parallel(self, stmt: S.Parallel, varying: set[E.Var]) -> None:
        """Iterations are dealt to threads, so a store to outer private storage makes it varying;
        storage allocated inside belongs to the iteration."""
        own = {node.buffer.data for node in S.find(stmt.body, S.Alloc)}
        for node in S.walk(stmt.body):
            varying |= {a.data for a in self._private_writes(node) if a.data not in own}
            if isinstance(node, S.Let) and self._varies(node.value, varying):
                varying.add(node.var)


def _is_whole(access: effects.Access) -> bool:
    """Whether an access certainly overwrites all of its storage."""
    by, shape = access.by, access.buffer.shape
    if access.reads or not isinstance(by, (S.Alloc, S.Store)):
        return False
    return isinstance(by, S.Alloc) or all(isinstance(n, int) and n == 1 for n in shape)


def has_divergent_exit(body: S.Stmt, varying: Varying) -> bool:
    """Whether some threads may leave the loop around ``body`` (break, continue) before others."""

    def may_exit(stmt: S.Stmt, control: bool) -> bool:
        if isinstance(stmt, (S.Break, S.Continue)):
            return control
        if isinstance(stmt, (S.For, S.While, S.Parallel)):
            return False  # their breaks are their own
        under = control or (isinstance(stmt, S.If) and varying.divides(stmt))
        return any(may_exit(block, under) for block in stmt.blocks())

    return _may_leave(body) and may_exit(body, False)


def leaves(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` holds a break or continue of a loop around it."""
    if isinstance(stmt, (S.For, S.While, S.Parallel)):
        return False
    return isinstance(stmt, (S.Break, S.Continue)) or any(map(leaves, stmt.blocks()))


_may_leave = lru_cache(maxsize=1024)(leaves)  # loops are asked for in all rounds of an analysis
