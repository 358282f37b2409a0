"""Generic rewriting of expressions and statements, driven by the roles of fields.

The default is to descend; what is not changed comes back as the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import is_
from typing import Any

from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Binary, Const, Expr, Var, field_names
from tilelang.ir.stmt import Seq, Stmt, seq

ExprFn = Callable[[Expr], "Expr"]


def rebuild(node: Expr, fn: ExprFn, buffer_fn: Callable[[Buffer], Buffer] | None = None) -> Expr:
    """``node`` with ``fn`` applied to each direct child (and ``buffer_fn`` to its buffer)."""
    if isinstance(node, Binary):
        a, b = fn(node.a), fn(node.b)
        return node if a is node.a and b is node.b else Binary(node.op, a, b)
    if isinstance(node, (Const, Var)):
        return node
    changed: dict[str, Any] = {}
    for name in field_names(type(node)):
        old = getattr(node, name)
        new = _rebuild_value(old, fn, buffer_fn)
        if new is not old:
            changed[name] = new
    if not changed:
        return node
    values = {name: changed.get(name, getattr(node, name)) for name in field_names(type(node))}
    return type(node)(**values)


def _rebuild_value(old: Any, fn: ExprFn, buffer_fn: Callable[[Buffer], Buffer] | None) -> Any:
    if isinstance(old, Expr):
        return fn(old)
    if isinstance(old, tuple):
        new = tuple([_rebuild_value(item, fn, buffer_fn) for item in old])
        return old if all(map(is_, old, new)) else new
    if isinstance(old, Region):
        region = old.map(fn)
        if buffer_fn is not None and buffer_fn(old.buffer) is not old.buffer:
            region = replace(region, buffer=buffer_fn(old.buffer))
        return region
    if isinstance(old, Buffer) and buffer_fn is not None:
        return buffer_fn(old)
    return old


def postorder(expr: Expr) -> Iterator[Expr]:
    """``expr`` and everything below it, each distinct node once, children first.

    Iterative: the depth of an expression is not limited by Python's recursion.
    """
    if not expr.children():
        yield expr
        return
    done: set[Expr] = set()
    opened: set[Expr] = set()
    stack = [expr]
    while stack:
        node = stack[-1]
        if node in done:
            stack.pop()
            continue
        children = () if node in opened else node.children()
        if children:
            opened.add(node)
            stack.extend(children[::-1])
            continue
        stack.pop()
        done.add(node)
        yield node


def substitute(expr: Expr, values: dict[Var, Expr]) -> Expr:
    """``expr`` with variables replaced; shared sub-expressions are visited once."""
    if not values:
        return expr
    memo: dict[int, Expr] = {id(var): value for var, value in values.items()}
    for node in postorder(expr):
        if id(node) not in memo:
            memo[id(node)] = rebuild(node, lambda child: memo[id(child)])
    return memo[id(expr)]


class Rewriter:
    """Rewrites a statement tree bottom-up. Override ``expr``, ``buffer`` and ``stmt``.

    ``expr(e)`` gets whole expressions (use :func:`rebuild` or :func:`substitute` inside),
    ``buffer(b)`` every buffer, ``stmt(s)`` every statement after its parts were rewritten and
    returns a statement, a list of statements (spliced into the enclosing sequence) or None
    (removed).
    """

    def expr(self, expr: Expr) -> Expr:
        """The replacement of an expression."""
        return expr

    def buffer(self, buffer: Buffer) -> Buffer:
        """The replacement of a buffer."""
        return buffer

    def stmt(self, stmt: Stmt) -> Stmt | list[Stmt] | None:
        """The replacement of a statement whose parts are already rewritten."""
        return stmt

    def rewrite(self, stmt: Stmt) -> Stmt:
        """The rewritten statement; an empty ``Seq`` when it was removed."""
        result = self._visit(stmt)
        if isinstance(result, list):
            return seq(*result) if result else Seq(stmts=())
        return result

    def _visit(self, stmt: Stmt) -> Stmt | list[Stmt]:
        changed: dict[str, Any] = {}
        for name, role in stmt.role_table().items():
            old = getattr(stmt, name)
            new = self._visit_part(old, role)
            if new is not old:
                changed[name] = new
        result = self.stmt(replace(stmt, **changed) if changed else stmt)
        return [] if result is None else result

    def _visit_part(self, old: Any, role: str) -> Any:
        if old is None or role in ("attr", "var", "vars"):
            return old
        if role == "block":
            return self._visit_block(old)
        if role == "buffer":
            return self.buffer(old)
        if isinstance(old, tuple):
            new = tuple(self._visit_operand(item) for item in old)
            return old if all(a is b for a, b in zip(old, new)) else new
        return self._visit_operand(old)

    def _visit_operand(self, old: Any) -> Any:
        if isinstance(old, Expr):
            return self.expr(old)
        if isinstance(old, Region):
            region = old.map(self.expr)
            buffer = self.buffer(region.buffer)
            return region if buffer is region.buffer else replace(region, buffer=buffer)
        return old

    def _visit_block(self, old: Any) -> Any:
        if not isinstance(old, tuple):
            return self.rewrite(old)
        flat: list[Stmt] = []
        for item in old:
            result = self._visit(item)
            parts = result if isinstance(result, list) else [result]
            for part in parts:
                flat.extend(part.stmts if isinstance(part, Seq) else (part,))
        same = len(flat) == len(old) and all(a is b for a, b in zip(flat, old))
        return old if same else tuple(flat)
