"""Live-variable analysis: names that are still read after the branch or loop that binds them.

Tracing runs every branch and every loop body once, in program order. A name that one of them binds
can be used afterwards only if all control-flow paths give it the same value, which ``rebind.py``
compares. This module finds, on the syntax tree, the names for which that matters. It is the
standard live-variable analysis: one pass collects what each block reads and binds, and one
propagates the live names backwards.

Whether a condition is known while tracing cannot be seen here, so every ``if`` counts as open.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import field

from tilelang.frontend.nodes import below
from tilelang.records import dataclass

_NESTED = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_DEFINED = (ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)
_SCOPES = (*_NESTED, *_DEFINED)


@dataclass(frozen=True)
class Followed:
    """The names to follow in one compound statement, each kind sorted.

    ``after``: bound inside and read after it. ``next_reads``: bound in a loop body and read in
    its next iteration. ``orelse``: bound on the first side of an ``if`` and read on the other.
    ``carried``: those of ``next_reads`` that no inner block may bind as a name of its own.
    """

    after: tuple[str, ...] = ()
    next_reads: tuple[str, ...] = ()
    orelse: tuple[str, ...] = ()
    carried: tuple[str, ...] = ()


@dataclass
class _Block:
    """Summary of a list of statements; an exit that cannot be reached kills everything (None).

    ``reads``: names that may be read before the block binds them. ``kills``: names that are bound
    on every way to the end; ``on_break`` and ``on_continue`` likewise for the other exits.
    """

    reads: set[str] = field(default_factory=set)
    binds: set[str] = field(default_factory=set)
    kills: set[str] | None = field(default_factory=set)
    on_break: set[str] | None = None
    on_continue: set[str] | None = None
    between: set[str] = field(default_factory=set)  # ``next_reads`` of a loop, ``orelse`` of an if


def _killed_on_both(a: set[str] | None, b: set[str] | None) -> set[str] | None:
    """Names killed whichever of two ways is taken."""
    if a is None or b is None:
        return b if a is None else a
    return a & b


def free_names(node: ast.AST) -> set[str]:
    """Names that a nested function, lambda or comprehension reads from around it."""
    loads: set[str] = set()
    own: set[str] = set()
    for part in below(node):
        if isinstance(part, ast.Name):
            (loads if isinstance(part.ctx, ast.Load) else own).add(part.id)
        elif isinstance(part, ast.arg):
            own.add(part.arg)
        elif isinstance(part, ast.Nonlocal):
            loads.update(part.names)
            own.difference_update(part.names)
    return loads - own


class Flow:
    """The names to follow in each compound statement of a function."""

    def __init__(self, node: ast.FunctionDef) -> None:
        self._functions: dict[str, set[str]] = {}
        self.captured: set[str] = set()  # names that nested functions read
        for part in below(node):
            if part is not node and isinstance(part, (*_NESTED, *_DEFINED)):
                free = free_names(part)
                self.captured |= free
                if isinstance(part, _DEFINED):
                    self._functions[part.name] = free
            if isinstance(part, ast.Assign) and isinstance(part.value, ast.Lambda):
                for target in part.targets:
                    if isinstance(target, ast.Name):
                        self._functions[target.id] = free_names(part.value)
        self._summaries: dict[int, _Block] = {}
        self._followed: dict[int, Followed] = {}
        self._block(node.body)
        self._carry(node.body, set(), set(), set())

    def of(self, stmt: ast.stmt) -> Followed:
        """The names to follow in the compound statement ``stmt``."""
        return self._followed.get(id(stmt), Followed())

    # -- what statements read and bind --------------------------------------------------------
    def _scan(self, *nodes: ast.AST | None) -> tuple[set[str], set[str]]:
        """Names that expressions or a simple statement read, in called functions too, and bind."""
        reads: set[str] = set()
        binds: set[str] = set()
        for node in nodes:
            for part in () if node is None else below(node, _SCOPES):
                if isinstance(part, ast.Name):
                    (reads if isinstance(part.ctx, ast.Load) else binds).add(part.id)
                elif isinstance(part, _NESTED):
                    reads |= free_names(part)
                elif isinstance(part, ast.AugAssign) and isinstance(part.target, ast.Name):
                    reads.add(part.target.id)
                elif isinstance(part, ast.alias):
                    binds.add((part.asname or part.name).partition(".")[0])
        todo = [name for name in reads if name in self._functions]
        while todo:
            new = self._functions[todo.pop()] - reads
            reads |= new
            todo.extend(name for name in new if name in self._functions)
        return reads, binds

    # -- first pass: summaries ----------------------------------------------------------------
    def _block(self, body: Sequence[ast.stmt]) -> _Block:
        total = _Block()
        for stmt in reversed(body):
            summary = self._summaries[id(stmt)] = self._statement(stmt)
            if summary.kills is None:
                total = _Block(set(summary.reads), total.binds | summary.binds, None)
                total.on_break, total.on_continue = summary.on_break, summary.on_continue
                continue
            total.reads -= summary.kills
            total.reads |= summary.reads
            total.binds |= summary.binds
            for name in ("on_break", "on_continue"):
                later: set[str] | None = getattr(total, name)
                if later is not None:
                    later = later | summary.kills
                setattr(total, name, _killed_on_both(getattr(summary, name), later))
            if total.kills is not None:
                total.kills |= summary.kills
        return total

    def _statement(self, stmt: ast.stmt) -> _Block:
        if isinstance(stmt, ast.If):
            return self._if(stmt)
        if isinstance(stmt, (ast.For, ast.While)):
            body = self._block(stmt.body)
            head, source, targets = set(), set(), set()
            if isinstance(stmt, ast.While):
                head = self._scan(stmt.test)[0]
            else:
                source, targets = self._scan(stmt.iter)[0], self._scan(stmt.target)[1]
            reads, binds = head | (body.reads - targets), body.binds | targets
            return _Block(source | reads, binds, between=binds & reads)
        if isinstance(stmt, ast.With):
            body = self._block(stmt.body)
            entries = [entry.context_expr for entry in stmt.items]
            targets = self._scan(*(entry.optional_vars for entry in stmt.items))[1]
            body.reads = self._scan(*entries)[0] | (body.reads - targets)
            body.binds = body.binds | targets
            body.kills = None if body.kills is None else body.kills | targets
            body.between = body.binds & body.reads  # as for a loop: `with T.While(...)`
            return body
        if isinstance(stmt, ast.Break):
            return _Block(kills=None, on_break=set())
        if isinstance(stmt, ast.Continue):
            return _Block(kills=None, on_continue=set())
        if isinstance(stmt, (ast.Return, ast.Raise)):
            return _Block(self._scan(stmt)[0], kills=None)
        if isinstance(stmt, _DEFINED):
            around = [*stmt.decorator_list, *(stmt.bases if isinstance(stmt, ast.ClassDef) else ())]
            if not isinstance(stmt, ast.ClassDef):
                defaults = [value for value in stmt.args.kw_defaults if value is not None]
                around += [*stmt.args.defaults, *defaults]
            return _Block(self._scan(*around)[0], {stmt.name}, {stmt.name})
        reads, binds = self._scan(stmt)
        return _Block(reads, binds, binds)

    def _if(self, stmt: ast.If) -> _Block:
        then, orelse = self._block(stmt.body), self._block(stmt.orelse)
        return _Block(
            self._scan(stmt.test)[0] | then.reads | orelse.reads,
            then.binds | orelse.binds,
            _killed_on_both(then.kills, orelse.kills),
            _killed_on_both(then.on_break, orelse.on_break),
            _killed_on_both(then.on_continue, orelse.on_continue),
            then.binds & orelse.reads,
        )

    # -- second pass: live names --------------------------------------------------------------
    def _carry(
        self, body: Sequence[ast.stmt], live: set[str], stop: set[str], start: set[str]
    ) -> None:
        """Follow ``body`` from its end, where ``live`` names are read later.

        ``stop`` and ``start`` are the names live where ``break`` and ``continue`` lead.
        """
        for stmt in reversed(body):
            summary = self._summaries[id(stmt)]
            if isinstance(stmt, ast.If):
                self._note(stmt, live, summary.binds, (), summary.between)
                self._carry(stmt.body, set(live), stop, start)
                self._carry(stmt.orelse, set(live), stop, start)
            elif isinstance(stmt, (ast.For, ast.While)):
                head = live | summary.reads
                self._note(stmt, live, summary.binds, summary.between, ())
                self._carry(stmt.body, set(head), live, head)
            elif isinstance(stmt, ast.With):
                self._note(stmt, live, summary.binds, summary.between, ())
                self._carry(stmt.body, set(live), stop, start)
            live = self._live_before(summary, live, stop, start)

    @staticmethod
    def _live_before(summary: _Block, live: set[str], stop: set[str], start: set[str]) -> set[str]:
        """Names live before a statement, from those live where it may lead."""
        ways = ((summary.kills, live), (summary.on_break, stop), (summary.on_continue, start))
        if summary.on_break is None and summary.on_continue is None and summary.kills is not None:
            live -= summary.kills  # in place: a block of n statements costs n
            live |= summary.reads
            return live
        reads = set(summary.reads)
        for kills, after in ways:
            if kills is not None:
                reads |= after - kills
        return reads

    def _note(
        self, stmt: ast.stmt, live: set[str], binds: set[str], reread: Iterable[str],
        orelse: Iterable[str],
    ) -> None:  # fmt: skip
        names = set(reread)
        carried = self._carried(stmt, names) if names and not isinstance(stmt, ast.If) else set()
        parts = (binds & live, names, set(orelse), carried)
        followed = Followed(*(tuple(sorted(part)) for part in parts))
        if followed != Followed():
            self._followed[id(stmt)] = followed

    def _carried(self, stmt: ast.stmt, names: set[str]) -> set[str]:
        """Those of ``names`` that need their value of the last iteration of ``item``, or that a
        nested function reads after an inner block."""
        from tilelang.frontend.carried import self_dependent

        assert isinstance(stmt, (ast.For, ast.While, ast.With))
        carried = self_dependent(stmt, names, lambda node: self._scan(node)[0])
        captured = names & self.captured
        return carried | (captured & self._live_after(stmt.body, set()) if captured else set())

    def _live_after(self, body: Sequence[ast.stmt], live: set[str]) -> set[str]:
        """Names that a block in ``body`` binds and that a statement after it reads, or ``live``."""
        names: set[str] = set()
        live = set(live)
        for stmt in reversed(body):
            summary = self._summaries[id(stmt)]
            if isinstance(stmt, (ast.If, ast.For, ast.While)):
                names |= summary.binds & live
            if isinstance(stmt, (ast.If, ast.For, ast.While, ast.With)):
                sides = (stmt.body, stmt.orelse) if isinstance(stmt, ast.If) else (stmt.body,)
                names = names.union(*(self._live_after(side, live) for side in sides))
            live = (live - (summary.kills or set())) | summary.reads
        return names
