"""IR visitors: generic rewriting of expressions and statements, driven by the roles of fields.

The default is to descend; what is not changed comes back as the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from operator import is_
from typing import Any, ClassVar, TypeAlias

from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.expr import Binary, Const, Expr, Load, Var, field_names, holds
from tilelang.ir.memo import memoized
from tilelang.ir.stmt import Alloc, Kind, Launch, Let, PrimFunc, Seq, Stmt, rewritten_fields, seq

ExprFn = Callable[[Expr], "Expr"]
Replacement: TypeAlias = "Stmt | list[Stmt] | None"
LONGEST = 512  # size of a value that takes the place of its name


def rebuild(node: Expr, fn: ExprFn, buffer_fn: Callable[[Buffer], Buffer] | None = None) -> Expr:
    """``node`` with ``fn`` applied to each direct child (and ``buffer_fn`` to its buffer)."""
    if type(node) is Binary:
        a, b = fn(node.a), fn(node.b)
        return node if a is node.a and b is node.b else Binary(node.op, a, b)
    kind = type(node)
    if kind is Const or kind is Var:
        return node
    if isinstance(node, Load) and buffer_fn is None:
        indices = tuple(map(fn, node.indices))
        return node if all(map(is_, node.indices, indices)) else Load(node.buffer, indices)
    old = [getattr(node, name) for name in field_names(kind)]
    new = [_rebuild_value(value, fn, buffer_fn) for value in old]
    return node if all(map(is_, old, new)) else kind(*new)


def _rebuild_value(old: Any, fn: ExprFn, buffer_fn: Callable[[Buffer], Buffer] | None) -> Any:
    if isinstance(old, Expr):
        return fn(old)
    if type(old) is str:
        return old
    if isinstance(old, tuple):
        new = tuple([_rebuild_value(child, fn, buffer_fn) for child in old])
        return old if all(map(is_, old, new)) else new
    if isinstance(old, Region):
        region = old.map(fn)
        if buffer_fn is not None and buffer_fn(old.buffer) is not old.buffer:
            region = replace(region, buffer=buffer_fn(old.buffer))
        return region
    return buffer_fn(old) if isinstance(old, Buffer) and buffer_fn is not None else old


def postorder(expr: Expr) -> Iterator[Expr]:
    """``expr`` and everything below it, each distinct node once, children first.

    Iterative: the depth of an expression is not limited by Python's recursion.
    """
    children = expr.children()
    if not children:
        yield expr
        return
    visited: set[Expr] = set()
    opened = {expr}
    stack = [expr, *children[::-1]]
    while stack:
        node = stack[-1]
        if node in visited:
            stack.pop()
            continue
        if node not in opened:
            children = node.children()
            if children:
                opened.add(node)
                stack += children[::-1]
                continue
        stack.pop()
        visited.add(node)
        yield node


def substitute(expr: Expr, values: Mapping[Var, Expr]) -> Expr:
    """``expr`` with variables replaced; shared sub-expressions are visited once."""
    if not values or values.keys().isdisjoint(expr.variables):
        return expr
    memo: dict[Expr, Expr] = dict(values.items())
    stack = [expr]
    while stack:
        node = stack[-1]
        if node in memo:
            stack.pop()
        elif values.keys().isdisjoint(node.variables):
            memo[node] = node
            stack.pop()
        else:
            pending = [child for child in node.children() if child not in memo]
            if pending:
                stack += pending
            else:
                memo[node] = rebuild(node, memo.__getitem__)
                stack.pop()
    return memo[expr]


class Rewriter:
    """Rewrites a statement tree bottom-up. Override ``expr``, ``buffer`` and ``stmt``.

    ``expr(e)`` gets whole expressions (use :func:`rebuild` or :func:`substitute` inside),
    ``buffer(b)`` every buffer, ``stmt(s)`` every statement after its parts were rewritten and
    returns a statement, a list of statements (spliced into the enclosing sequence) or None
    (removed).
    """

    _blocks_only: ClassVar[bool] = False
    _keeps_buffers: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        # What rewrites statements only needs no look at expressions.
        names = ("expr", "buffer", "_visit_operand")
        cls._keeps_buffers = cls.buffer is Rewriter.buffer
        cls._blocks_only = all(getattr(cls, name) is getattr(Rewriter, name) for name in names)

    def expr(self, expr: Expr) -> Expr:
        """The replacement of an expression."""
        return expr

    def buffer(self, buffer: Buffer) -> Buffer:
        """The replacement of a buffer."""
        return buffer

    def stmt(self, stmt: Stmt) -> Replacement:
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
        fields = rewritten_fields(type(stmt), self._blocks_only)  # type: ignore[arg-type]  # classes hash
        for name, role in fields:
            old = getattr(stmt, name)
            if old is None:
                continue
            if role == "block":
                new = self._visit_block(old)
            elif role == "buffer":
                new = self.buffer(old)
            elif isinstance(old, tuple):
                new = tuple([self._visit_operand(child) for child in old])
                if all(map(is_, old, new)):
                    continue
            else:
                new = self._visit_operand(old)
            if new is not old:
                changed[name] = new
        result = self.stmt(replace(stmt, **changed) if changed else stmt)
        return [] if result is None else result

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
        for child in old:
            result = self._visit(child)
            for part in result if isinstance(result, list) else [result]:
                flat.extend(part.stmts if isinstance(part, Seq) else (part,))
        return old if len(flat) == len(old) and all(map(is_, flat, old)) else tuple(flat)


class ExprRewriter(Rewriter):
    """Rewrites each distinct expression once. Override ``node``, which takes ``expr`` for what is
    below; ``kinds`` are those without which an expression stays as it is."""

    kinds: ClassVar[tuple[type[Expr], ...]] = ()

    @cached_property
    def memo(self) -> dict[Expr, Expr]:
        return {}

    def expr(self, expr: Expr) -> Expr:
        """The replacement of an expression."""
        if self.kinds and not holds(expr, *self.kinds):
            return expr
        cached = self.memo.get(expr)
        if cached is None:
            cached = self.memo[expr] = self.node(expr)
        return cached

    def node(self, expr: Expr) -> Expr:
        """The replacement of an expression at its first occurrence."""
        return rebuild(expr, self.expr, None if self._keeps_buffers else self.buffer)


def replace_nodes(expr: Expr, known: Mapping[Any, Expr]) -> Expr:
    """``expr`` with what ``known`` has for a node in its place."""
    return _Nodes(known).expr(expr)


class _Nodes(ExprRewriter):
    def __init__(self, known: Mapping[Any, Expr]) -> None:
        self.memo.update(known)


def map_stmts(
    stmt: Stmt, kind: type[Kind] | tuple[type[Stmt], ...], fn: Callable[[Kind], Replacement]
) -> Stmt:
    """``stmt`` with each statement of ``kind`` in it replaced by what ``fn`` gives for it, its
    parts before it: a statement, a list of them, or None."""
    return _Stmts(kind, fn).rewrite(stmt)


class _Stmts(Rewriter):
    def __init__(
        self, kind: type[Kind] | tuple[type[Stmt], ...], fn: Callable[[Kind], Replacement]
    ) -> None:
        self.kind = kind
        self.fn: Callable[[Any], Replacement] = fn

    def stmt(self, stmt: Stmt) -> Replacement:
        return self.fn(stmt) if isinstance(stmt, self.kind) else stmt


def without_allocations(stmt: Stmt, removed: Container[Var]) -> Stmt:
    """``stmt`` without the allocations of these storages, which nothing uses any more."""
    return map_stmts(stmt, Alloc, lambda alloc: None if alloc.buffer.data in removed else alloc)


def replace_buffers(stmt: Stmt, mapping: Mapping[Buffer, Buffer]) -> Stmt:
    """``stmt`` with buffers replaced, in accesses, regions and allocations."""
    return map_buffers(stmt, lambda buffer: mapping.get(buffer, buffer)) if mapping else stmt


def map_buffers(stmt: Stmt, fn: Callable[[Buffer], Buffer]) -> Stmt:
    """``stmt`` with each buffer replaced by what ``fn``, which is called once, gives for it."""
    return _Buffers(fn).rewrite(stmt)


class _Buffers(ExprRewriter):
    def __init__(self, fn: Callable[[Buffer], Buffer]) -> None:
        self.fn = fn

    @memoized
    def buffer(self, buffer: Buffer) -> Buffer:
        return self.fn(buffer)


def map_exprs(stmt: Stmt, fn: ExprFn) -> Stmt:
    """``stmt`` with ``fn`` applied to every whole expression, in nested statements too."""
    return _Exprs(fn).rewrite(stmt)


class _Exprs(ExprRewriter):
    def __init__(self, fn: ExprFn) -> None:
        self.fn = fn

    def node(self, expr: Expr) -> Expr:
        return self.fn(expr)


def substitute_in(stmt: Stmt, values: dict[Var, Expr]) -> Stmt:
    """``stmt`` with variables replaced."""
    return map_exprs(stmt, lambda expr: substitute(expr, values))


def let_values(lets: Iterable[Let], wanted: Callable[[Expr], bool]) -> dict[Var, Expr]:
    """The values of names for which ``wanted`` holds, with earlier values in place of names, except
    long ones."""
    values: dict[Var, Expr] = {}
    for let in lets:
        value = substitute(let.value, values)
        if value.size <= LONGEST and wanted(let.value):
            values[let.var] = value
    return values


def inline_lets(stmt: Stmt, wanted: Callable[[Expr], bool]) -> Stmt:
    """``stmt`` with the values of names in their place, those for which ``wanted`` holds, except
    long ones."""
    return _Inline(wanted).rewrite(stmt)


class _Inline(Rewriter):
    def __init__(self, wanted: Callable[[Expr], bool]) -> None:
        self.when = wanted
        self.values: dict[Var, Expr] = {}

    def expr(self, expr: Expr) -> Expr:
        return substitute(expr, self.values)

    def stmt(self, stmt: Stmt) -> Stmt | None:
        if isinstance(stmt, Let) and stmt.value.size <= LONGEST and self.when(stmt.value):
            self.values[stmt.var] = stmt.value
            return None
        return stmt


def rewrite_exprs(stmt: Kind, fn: ExprFn) -> Kind:
    """``stmt`` with ``fn`` applied to its own expressions, not to those of statements in it."""

    def rewritten(old: Any) -> Any:
        if isinstance(old, Expr):
            return fn(old)
        return old.map(fn) if isinstance(old, Region) else old

    changed: dict[str, Any] = {}
    for name, role in rewritten_fields(type(stmt), False):  # type: ignore[arg-type]  # classes hash
        old = getattr(stmt, name)
        if role in ("block", "buffer"):
            continue
        new = tuple(map(rewritten, old)) if isinstance(old, tuple) else rewritten(old)
        is_unchanged = all(map(is_, old, new)) if isinstance(old, tuple) else new is old
        if not is_unchanged:
            changed[name] = new
    return replace(stmt, **changed) if changed else stmt


def rewrite_blocks(stmt: Stmt, fn: Callable[[Stmt], Stmt]) -> Stmt:
    """``stmt`` with each of its nested statements replaced by what ``fn`` gives for it: for walks
    that know something more on the way down."""
    changed: dict[str, Any] = {}
    for name, _ in rewritten_fields(type(stmt), True):  # type: ignore[arg-type]  # classes hash
        old = getattr(stmt, name)
        if isinstance(old, tuple):
            new = tuple(map(fn, old))
            if not all(map(is_, old, new)):
                changed[name] = new
        elif old is not None and (rewritten := fn(old)) is not old:
            changed[name] = rewritten
    return replace(stmt, **changed) if changed else stmt


def replace_changed(stmt: Kind, **fields: Any) -> Kind:
    """``stmt`` with other fields; itself if all of them are the same objects as before."""
    changed = {name: new for name, new in fields.items() if new is not getattr(stmt, name)}
    return replace(stmt, **changed) if changed else stmt


def rewrite_launches(func: PrimFunc, fn: Callable[[Launch], Stmt]) -> PrimFunc:
    """``func`` with each of its kernels replaced by what ``fn`` gives for it."""
    return func.with_body(_Launches(fn).rewrite(func.body))


def rewrite_bodies(func: PrimFunc, fn: Callable[[Launch], Stmt]) -> PrimFunc:
    """``func`` with the body of each of its kernels replaced by what ``fn`` gives for it."""
    return rewrite_launches(func, lambda launch: launch.with_body(fn(launch)))


class _Launches(Rewriter):
    """Goes as far as the kernels: they do not contain each other."""

    def __init__(self, fn: Callable[[Launch], Stmt]) -> None:
        self.fn = fn

    def _visit(self, stmt: Stmt) -> Stmt | list[Stmt]:
        return self.fn(stmt) if isinstance(stmt, Launch) else super()._visit(stmt)
