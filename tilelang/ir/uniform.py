"""Uniformity (divergence) analysis: which values differ between the threads of a block.

A back end that runs a whole block on one core executes a statement once when all threads would do
the same, and once per thread otherwise. This analysis finds, for one launch, the variables and
private buffers whose contents differ. It is a fixpoint from the thread indices: a value is varying
when it is computed from a varying one, or stored under a condition that is.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from functools import lru_cache

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.buffer import Buffer

PRIVATE = ("local", "local.var", "local.descriptor")
# Effects that each executing thread has on its own.
PER_THREAD_EFFECTS = (Effect.ATOMIC, Effect.OUTPUT)


class Varying:
    """Result of the analysis of one launch; query with the methods.

    Args:
        votes: whether the result of a vote of all threads counts as the same for all of them: each
            has to take part, which matters where a statement may be executed once for all.
        in_turns: all threads that are in a loop run its first iteration, then its second, so that
            its variable differs only where its start or step does.
        roles: what only threads of one branch use is asked about in this branch alone: it differs
            where threads of the branch do. The branch stands in no loop, so that a thread takes it
            or never does.
        told: what threads are told by others counts as different, even where each tells the same.
        also: variables and storage that differ from the beginning, besides thread indices.
    """

    def __init__(
        self,
        launch: S.Launch,
        votes: bool = False,
        in_turns: bool = False,
        roles: bool = False,
        told: bool = False,
        also: tuple[Set[E.Var], Set[E.Var]] = (frozenset(), frozenset()),
    ) -> None:
        self.votes = votes
        self.told = told
        self.in_turns = in_turns
        self.vars: set[E.Var] = {*launch.thread_vars, *also[0]}
        self.buffers: set[E.Var] = set(also[1])  # by storage, so that views follow
        self._memo: dict[E.Expr, bool] = {}
        self._writes: dict[S.Stmt, list[effects.Access]] = {}
        self._branches = dict(_branches(launch.body)) if roles else {}
        self._confined: set[E.Var] = set()  # storage of the branch in hand
        self._changed = True
        while self._changed:
            self._changed = False
            self._memo.clear()
            self._visit(launch.body, False, set())

    def expr(self, expr: E.Expr) -> bool:
        """Whether threads may see different values of ``expr``."""
        known = self._memo.get(expr)
        if known is None:
            known = self._memo[expr] = self._expr(expr)
        return known

    def _expr(self, expr: E.Expr) -> bool:
        if isinstance(expr, E.Var):
            return expr in self.vars
        if isinstance(expr, (E.Load, E.AddressOf)):
            buffer = expr.buffer
            if buffer.data in self.buffers:
                return True
            if isinstance(buffer.elem_offset, E.Expr) and self.expr(buffer.elem_offset):
                return True
        if isinstance(expr, E.Call) and (expr.atom.per_thread or expr.atom.effect is Effect.ATOMIC):
            return True
        if self.told and isinstance(expr, E.Call) and expr.atom.exchanges:
            return True
        if self.votes and isinstance(expr, E.Call) and expr.atom.vote:
            return False
        return any(self.expr(child) for child in expr.children())

    def has_effect(self, expr: E.Expr) -> bool:
        """Whether every thread that evaluates ``expr`` does something of its own."""
        return any(
            isinstance(node, E.Call) and node.atom.effect in PER_THREAD_EFFECTS
            for node in E.walk(expr)
        )

    def touches(self, stmt: S.Stmt) -> bool:
        """Whether ``stmt`` (with its body) reads or writes anything varying."""
        for node in S.walk(stmt):
            if any(self.expr(expr) for expr in node.exprs()):
                return True
            if any(buffer.data in self.buffers for buffer in node.parts("buffer")):
                return True
        return False

    # -- fixpoint ------------------------------------------------------------------------
    def _add_var(self, var: E.Var) -> None:
        if var not in self.vars:
            self.vars.add(var)
            self._changed = True

    def _add_buffer(self, buffer: Buffer) -> None:
        if buffer.data not in self.buffers:
            self.buffers.add(buffer.data)
            self._changed = True

    def _visit(self, stmt: S.Stmt, control: bool, own: set[E.Var] | None) -> None:
        """``control``: under a varying condition. ``own``: storage private to an iteration of the
        enclosing Parallel, or an empty set outside of one."""
        inner = control
        if stmt in self._branches and not control:
            self._visit_branch(stmt, own)
            return
        if isinstance(stmt, S.Seq):
            for child in stmt.stmts:
                self._visit(child, control, own)
            return
        if isinstance(stmt, S.Let) and self.expr(stmt.value):
            self._add_var(stmt.var)
        elif isinstance(stmt, S.If):
            inner = control or self.expr(stmt.cond)
        elif isinstance(stmt, S.While):
            inner = control or self.expr(stmt.cond) or varying_exit(stmt.body, self)
        elif isinstance(stmt, S.For):
            varies = self.expr(stmt.stop)
            if self.expr(stmt.start) or self.expr(stmt.step) or (varies and not self.in_turns):
                self._add_var(stmt.var)
            varies = varies or stmt.var in self.vars or varying_exit(stmt.body, self)
            inner = control or varies
        elif isinstance(stmt, S.Parallel):
            self._visit_parallel(stmt)
            return
        self._visit_writes(stmt, control)
        for block in stmt.blocks():
            self._visit(block, inner, own)

    def _visit_branch(self, stmt: S.Stmt, own: set[E.Var] | None) -> None:
        """Once for what only its branches use, once for all else."""
        assert isinstance(stmt, S.If)
        for block in stmt.blocks():
            self._visit(block, False, own)
        if self.expr(stmt.cond):
            self._confined = self._branches[stmt]
            for block in stmt.blocks():
                self._visit(block, True, own)
            self._confined = set()

    def _visit_writes(self, stmt: S.Stmt, control: bool) -> None:
        """Private memory differs when what is written differs, or who writes it: only what the
        whole group does, and first values, do not depend on that."""
        some = control and not isinstance(stmt, (S.TileOp, S.Alloc))
        for access in self._private_writes(stmt):
            varies = some and access.data not in self._confined
            if varies or self._differs(access.by):
                self._add_buffer(access.buffer)

    def _private_writes(self, stmt: S.Stmt) -> list[effects.Access]:
        cached = self._writes.get(stmt)
        if cached is None:
            every = effects.accesses(stmt)
            cached = [a for a in every if a.writes and a.buffer.storage in PRIVATE]
            self._writes[stmt] = cached
        return cached

    def _differs(self, by: S.Stmt | E.Expr) -> bool:
        """Whether threads may do different things in an access."""
        if isinstance(by, E.Expr):
            return self.expr(by)
        return any(map(self.expr, by.exprs())) or any(
            access.reads and access.data in self.buffers for access in effects.own(by)
        )

    def _visit_parallel(self, stmt: S.Parallel) -> None:
        """Iterations are dealt to threads, so a store to outer private storage makes it varying;
        storage allocated inside belongs to the iteration."""
        own = {node.buffer.data for node in S.find(stmt.body, S.Alloc)}
        for node in S.walk(stmt.body):
            for access in self._private_writes(node):
                if access.data not in own:
                    self._add_buffer(access.buffer)
            if isinstance(node, S.Let) and self.expr(node.value):
                self._add_var(node.var)


def _branches(body: S.Stmt) -> Iterator[tuple[S.Stmt, set[E.Var]]]:
    """The branches in ``body`` that stand in no loop, and the storage that nothing else uses in
    the innermost one around them."""
    items = list(_once(body))
    used = [set() if isinstance(stmt, S.Alloc) else effects.used(stmt) for stmt in items]
    for at, stmt in enumerate(items):
        if isinstance(stmt, S.If):
            yield stmt, used[at].difference(*used[:at], *used[at + 1 :])
            for block in stmt.blocks():
                yield from _branches(block)


def _once(stmt: S.Stmt) -> Iterator[S.Stmt]:
    """The statements of a block that stand in no loop and no branch."""
    blocks = tuple(stmt.blocks())
    if not blocks or isinstance(stmt, (S.If, S.For, S.While, S.Parallel)):
        yield stmt
        return
    for block in blocks:
        yield from _once(block)


def varying_exit(body: S.Stmt, varying: Varying) -> bool:
    """Whether some threads may leave the loop around ``body`` (break, continue) before others."""

    def search(stmt: S.Stmt, control: bool) -> bool:
        if isinstance(stmt, (S.Break, S.Continue)):
            return control
        if isinstance(stmt, (S.For, S.While, S.Parallel)):
            return False  # their breaks are their own
        under = control or (isinstance(stmt, S.If) and varying.expr(stmt.cond))
        return any(search(block, under) for block in stmt.blocks())

    return _may_leave(body) and search(body, False)


@lru_cache(maxsize=1024)  # asked for every loop in every round of an analysis
def _may_leave(body: S.Stmt) -> bool:
    """Whether ``body`` has a break or continue of the loop around it at all."""
    return leaves(body)


def leaves(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` holds a break or continue of a loop around it."""
    if isinstance(stmt, (S.For, S.While, S.Parallel)):
        return False
    return isinstance(stmt, (S.Break, S.Continue)) or any(map(leaves, stmt.blocks()))
