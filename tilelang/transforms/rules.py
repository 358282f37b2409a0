"""Rewrite rules: the rows of a table, and the pass of a phase, which applies them in one walk.

A :class:`Rule` names node types and rewrites such a node. A :class:`Phase` is the pass over a table
of rules. It walks a program once, children before parents, and applies to each node the rules of
its type in the order of the table. So a rule sees the result of the rules above it, with children
that all rules have rewritten.

A rule of expressions rewrites each distinct expression once. A rule of whole programs runs last.
The :class:`Cursor` says where the walk is. A check is a rule that returns the node that it gets, or
raises an error.

A rule is a pass, too: called by itself it is a table of one rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from tilelang.errors import at
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.visitor import Replacement, Rewriter, rebuild
from tilelang.records import dataclass
from tilelang.target import Context

Node = TypeVar("Node", S.PrimFunc, S.Launch)
Found = TypeVar("Found")


class Place:
    """Where in a program a walk is.

    Attributes:
        func: the program as the phase got it.
        context: what it is compiled for.
        launch: the kernel around, as the phase got it; None outside of kernels.
        around: the statements around, the outermost first, and the current one, as the phase got
        them.
        names: values that have names in the block at hand.
    """

    def __init__(self, func: S.PrimFunc, context: Context) -> None:
        self.func = func
        self.context = context
        self.launch: S.Launch | None = None
        self.around: list[S.Stmt] = []
        self.names: dict[E.Expr, E.Var] = {}
        self._known: dict[tuple[Callable[..., Any], object], Any] = {}

    @property
    def kernel(self) -> S.Launch:
        """The enclosing kernel, for a node inside one."""
        assert self.launch is not None
        return self.launch

    def of(self, find: Callable[[Node], Found], node: Node) -> Found:
        """``find(node)``, found once in a walk."""
        key = find, node
        if key not in self._known:
            self._known[key] = find(node)
        result: Found = self._known[key]
        return result


@dataclass(frozen=True, eq=False)
class Rule:
    """One row.

    Attributes:
        on: the types of nodes: statements, expressions, :class:`Buffer`, or the program.
        make: gives what such a node becomes, at a place; of a statement also a list of statements,
            or None for nothing. Its name is that of the rule, and its docstring says what it does.
        needs: the feature of a target without which it has nothing to do.
        where: a quick look at a program and what it is compiled for: whether there may be anything
            to do.
    """

    on: tuple[type, ...]
    make: Callable[[Any, Place], Any]
    needs: str = ""
    where: Callable[[S.PrimFunc, Context], bool] | None = None

    def __call__(self, func: S.PrimFunc, context: Context) -> S.PrimFunc:
        """``func`` with this rule applied."""
        return Phase(self)(func, context)

    @property
    def name(self) -> str:
        """The rule, as reports and ``tl.stop_after`` name it."""
        return self.make.__name__

    @property
    def does(self) -> str:
        """What it does, in the field's terms: the first line of its docstring."""
        return (self.make.__doc__ or "").strip().partition("\n")[0].rstrip(".")

    def when(self, func: S.PrimFunc, context: Context) -> bool:
        """Whether it is applied to ``func``."""
        applies = not self.needs or context.has(self.needs)
        return applies and (self.where is None or self.where(func, context))


def rule(
    *on: type, needs: str = "", where: Callable[[S.PrimFunc, Context], bool] | None = None
) -> Callable[[Callable[[Any, Place], Any]], Rule]:
    """Makes a :class:`Rule` of a function."""
    return lambda make: Rule(on, make, needs, where)


class Phase:
    """The pass that applies the rows of a table."""

    def __init__(self, *rules: Rule) -> None:
        self.rules = rules

    def __call__(self, func: S.PrimFunc, context: Context) -> S.PrimFunc:
        """``func`` with all rows applied."""
        rules = [rule for rule in self.rules if rule.when(func, context)]
        place = Place(func, context)
        by_kind = {
            kind: [rule for rule in rules if any(issubclass(on, kind) for on in rule.on)]
            for kind in (S.Stmt, E.Expr, Buffer, S.PrimFunc)
        }
        if by_kind[E.Expr] or by_kind[Buffer]:
            walk = _Exprs(place, by_kind[S.Stmt], by_kind[E.Expr], by_kind[Buffer])
            func = func.with_body(walk.rewrite(func.body))
        elif by_kind[S.Stmt]:
            func = func.with_body(_Stmts(place, by_kind[S.Stmt]).rewrite(func.body))
        for rule in by_kind[S.PrimFunc]:
            func = rule.make(func, place)
        return func


class _Stmts(Rewriter):
    """Applies rows about statements."""

    def __init__(self, place: Place, rules: list[Rule]) -> None:
        self.place = place
        self.rules = rules
        self.about: dict[type, bool] = {}  # whether a row is about statements of a type

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        outer = self.place.launch
        if isinstance(stmt, S.Launch):
            self.place.launch = stmt
        self.place.around.append(stmt)
        result = super()._visit(stmt)
        self.place.around.pop()
        self.place.launch = outer
        return result

    def _visit_block(self, old: Any) -> Any:
        if isinstance(old, tuple):
            return super()._visit_block(old)
        outer = self.place.names
        self.place.names = dict(outer)
        result = super()._visit_block(old)
        self.place.names = outer
        return result

    def stmt(self, stmt: S.Stmt) -> Replacement:
        kind = type(stmt)
        if kind not in self.about:
            self.about[kind] = any(issubclass(kind, rule.on) for rule in self.rules)
        if not self.about[kind]:
            return stmt
        made: list[S.Stmt] = [stmt]
        for rule in self.rules:
            if any(isinstance(old, rule.on) for old in made):
                made = [new for old in made for new in self._applied(rule, old)]
        return made[0] if len(made) == 1 else made

    def _applied(self, rule: Rule, stmt: S.Stmt) -> list[S.Stmt]:
        if not isinstance(stmt, rule.on):
            return [stmt]
        result: Replacement = rule.make(stmt, self.place)
        if result is None:
            return []
        return result if isinstance(result, list) else [result]


class _Exprs(_Stmts):
    """Applies rows about expressions and buffers, too."""

    def __init__(
        self, place: Place, rules: list[Rule], of_exprs: list[Rule], of_buffers: list[Rule]
    ) -> None:
        super().__init__(place, rules)
        self.of_exprs = of_exprs
        self.of_buffers = of_buffers
        self.kinds = tuple(kind for rule in of_exprs for kind in rule.on)
        self.memo: dict[E.Expr, E.Expr] = {}

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        with at(stmt.loc):
            return super()._visit(stmt)

    def buffer(self, buffer: Buffer) -> Buffer:
        for rule in self.of_buffers:
            buffer = rule.make(buffer, self.place)
        return buffer

    def expr(self, expr: E.Expr) -> E.Expr:
        if not self.of_buffers and not E.holds(expr, *self.kinds):
            return expr
        result = self.memo.get(expr)
        if result is None:
            result = rebuild(expr, self.expr, self.buffer if self.of_buffers else None)
            for rule in self.of_exprs:
                if isinstance(result, rule.on):
                    result = rule.make(result, self.place)
            self.memo[expr] = result
        return result
