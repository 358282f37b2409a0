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
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.visitor import Replacement, Rewriter, rebuild
from tilelang.records import dataclass
from tilelang.target import Context

Node = TypeVar("Node", S.PrimFunc, S.Launch, S.Stmt)
Found = TypeVar("Found")


class Cursor:
    """The position of a walk in a program. Nodes are those before the phase.

    Attributes:
        func: the program.
        context: the target and the options.
        launch: the enclosing kernel; None outside of kernels.
        around: the enclosing statements, the outermost first, and the current one.
        names: values that have names in the current block.
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
        """``find(node)``, computed once in a walk."""
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
        make: returns what replaces such a node, given the cursor; for a statement also a list of
            statements, or None to drop it. Its name is that of the rule, and its docstring says
            what the rule does.
        needs: the feature of a target without which the rule does nothing.
        where: whether the rule may apply to a program and a target; a quick test.
    """

    on: tuple[type, ...]
    make: Callable[[Any, Cursor], Any]
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
        """The effect of the rule: the first line of its docstring."""
        return (self.make.__doc__ or "").strip().partition("\n")[0].rstrip(".")

    def applies(self, func: S.PrimFunc, context: Context) -> bool:
        """Whether it is applied to ``func``."""
        applies = not self.needs or context.has(self.needs)
        return applies and (self.where is None or self.where(func, context))


def rule(
    *on: type, needs: str = "", where: Callable[[S.PrimFunc, Context], bool] | None = None
) -> Callable[[Callable[[Any, Cursor], Any]], Rule]:
    """Makes a :class:`Rule` of a function."""
    return lambda make: Rule(on, make, needs, where)


class Phase:
    """The pass that applies the rows of a table."""

    def __init__(self, *rules: Rule) -> None:
        self.rules = rules

    def __call__(self, func: S.PrimFunc, context: Context) -> S.PrimFunc:
        """``func`` with all rows applied."""
        rules = [rule for rule in self.rules if rule.applies(func, context)]
        cursor = Cursor(func, context)
        by_kind = {
            kind: [rule for rule in rules if any(issubclass(on, kind) for on in rule.on)]
            for kind in (S.Stmt, E.Expr, Buffer, S.PrimFunc)
        }
        if by_kind[E.Expr] or by_kind[Buffer]:
            walk = _Exprs(cursor, by_kind[S.Stmt], by_kind[E.Expr], by_kind[Buffer])
            func = func.with_body(walk.rewrite(func.body))
        elif by_kind[S.Stmt]:
            func = func.with_body(_Stmts(cursor, by_kind[S.Stmt]).rewrite(func.body))
        for rule in by_kind[S.PrimFunc]:
            func = rule.make(func, cursor)
        return func


class _Stmts(Rewriter):
    """Applies rows about statements."""

    def __init__(self, cursor: Cursor, rules: list[Rule]) -> None:
        self.cursor = cursor
        self.rules = rules
        self.about: dict[type, bool] = {}  # whether a row is about statements of a type

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        outer = self.cursor.launch
        if isinstance(stmt, S.Launch):
            self.cursor.launch = stmt
        self.cursor.around.append(stmt)
        result = super()._visit(stmt)
        self.cursor.around.pop()
        self.cursor.launch = outer
        return result

    def _visit_block(self, old: Any) -> Any:
        if isinstance(old, tuple):
            return super()._visit_block(old)
        outer = self.cursor.names
        self.cursor.names = dict(outer)
        result = super()._visit_block(old)
        self.cursor.names = outer
        return result

    def stmt(self, stmt: S.Stmt) -> Replacement:
        kind = type(stmt)
        if kind not in self.about:
            self.about[kind] = any(issubclass(kind, rule.on) for rule in self.rules)
        if not self.about[kind]:
            return stmt
        result: list[S.Stmt] = [stmt]
        for rule in self.rules:
            if any(isinstance(old, rule.on) for old in result):
                result = [new for old in result for new in self._apply(rule, old)]
        return result[0] if len(result) == 1 else result

    def _apply(self, rule: Rule, stmt: S.Stmt) -> list[S.Stmt]:
        if not isinstance(stmt, rule.on):
            return [stmt]
        result: Replacement = rule.make(stmt, self.cursor)
        if result is None:
            return []
        return result if isinstance(result, list) else [result]


class _Exprs(_Stmts):
    """Applies rows about expressions and buffers, too."""

    def __init__(
        self, cursor: Cursor, rules: list[Rule], of_exprs: list[Rule], of_buffers: list[Rule]
    ) -> None:
        super().__init__(cursor, rules)
        self.of_exprs = of_exprs
        self.of_buffers = of_buffers
        self.kinds = tuple(kind for rule in of_exprs for kind in rule.on)
        self.memo: dict[E.Expr, E.Expr] = {}

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        with at(stmt.loc):
            return super()._visit(stmt)

    def buffer(self, buffer: Buffer) -> Buffer:
        for rule in self.of_buffers:
            buffer = rule.make(buffer, self.cursor)
        return buffer

    def expr(self, expr: E.Expr) -> E.Expr:
        if not self.of_buffers and not E.holds(expr, *self.kinds):
            return expr
        result = self.memo.get(expr)
        if result is None:
            result = rebuild(expr, self.expr, self.buffer if self.of_buffers else None)
            for rule in self.of_exprs:
                if isinstance(result, rule.on):
                    result = rule.make(result, self.cursor)
            self.memo[expr] = result
        return result
