"""AST nodes that rewriting makes, and AST rewriting of expressions.

The tree of the user's function is shared and is never changed: nodes that differ are made anew,
the others are used in both trees. New nodes take the position of the text they replace.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

_COMPARES: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge",
    ast.Is: "is_", ast.IsNot: "is_not", ast.In: "in", ast.NotIn: "not_in",
}  # fmt: skip
UNSUPPORTED: dict[str, tuple[str, str]] = {
    "Try": ("`try`", "check conditions with `if`; a kernel raises no exceptions"),
    "TryStar": ("`try`", "check conditions with `if`; a kernel raises no exceptions"),
    "Global": ("`global`", "return the value, or pass a T.Ref"),
    "Delete": ("`del`", "names end with the block that defines them"),
    "AsyncFor": ("`async for`", "use `for`"),
    "AsyncWith": ("`async with`", "use `with`"),
    "AsyncFunctionDef": ("`async def`", "use `def`"),
    "Await": ("`await`", "kernels have no coroutines"),
    "Yield": ("`yield`", "kernels have no generators; return the values"),
    "YieldFrom": ("`yield from`", "kernels have no generators; return the values"),
    "NamedExpr": ("`:=`", "assign in a separate statement"),
    "TypeAlias": ("`type`", "define the alias outside the kernel"),
}
Node = TypeVar("Node", bound=ast.AST)
_POSITION = ("lineno", "col_offset", "end_lineno", "end_col_offset")


def below(node: ast.AST, stop: tuple[type[ast.AST], ...] = ()) -> Iterator[ast.AST]:
    """``node`` and the nodes in it, in no order; what is in one of kind ``stop`` is left out.

    As ``ast.walk``, which takes most of the time of tracing long programs.
    """
    todo: list[Any] = [node]
    while todo:
        part = todo.pop()
        yield part
        if stop and isinstance(part, stop) and part is not node:
            continue
        for value in part.__dict__.values():
            if isinstance(value, ast.AST):
                if value._fields:
                    todo.append(value)
            elif type(value) is list:
                todo.extend([child for child in value if isinstance(child, ast.AST)])


def with_location(root: Node, at: ast.AST) -> Node:
    """``root`` with the position of ``at``, and the new nodes below it too."""
    where = {key: value for key in _POSITION if (value := getattr(at, key, None)) is not None}
    todo: list[ast.AST] = [root]
    while todo:
        node = todo.pop()
        if "lineno" in node.__dict__:
            continue  # of the user's text, or placed before
        if "lineno" in node._attributes:
            node.__dict__.update(where)
        for value in node.__dict__.values():
            if isinstance(value, ast.AST):
                todo.append(value)
            elif type(value) is list:  # of names, or with None for a keyword without a default
                todo.extend([child for child in value if isinstance(child, ast.AST)])
    return root


def constant(value: object) -> ast.expr:
    """A constant, or a tuple display of constants."""
    if isinstance(value, tuple):
        return ast.Tuple(elts=[constant(element) for element in value], ctx=ast.Load())
    return ast.Constant(value=value)  # type: ignore[arg-type]  # str, int, bool and None only


def thunk(body: ast.expr) -> ast.Lambda:
    """``lambda: body``"""
    return with_location(ast.Lambda(args=parameters(), body=body), body)


def parameters(*names: str) -> ast.arguments:
    """Parameters without annotations and defaults."""
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def load(name: str) -> ast.Name:
    """``name``, read."""
    return ast.Name(id=name, ctx=ast.Load())


def scope_call(method: str, args: Iterable[ast.expr], at: ast.AST) -> ast.Call:
    """``__tl.method(*args)`` shown at the text of ``at``."""
    return method_call("__tl", method, at, *args)


def method_call(variable: str, method: str, at: ast.AST, *args: ast.expr) -> ast.Call:
    """``variable.method(*args)`` shown at the text of ``at``."""
    func = ast.Attribute(value=load(variable), attr=method, ctx=ast.Load())
    return with_location(ast.Call(func=func, args=list(args), keywords=[]), at)


def set_name(name: str, value: ast.expr) -> ast.stmt:
    """``name = value``"""
    target = ast.Name(id=name, ctx=ast.Store())
    return with_location(ast.Assign(targets=[target], value=value), value)


def statement(value: ast.expr) -> ast.stmt:
    """``value`` as a statement."""
    return with_location(ast.Expr(value=value), value)


def leaves(target: ast.expr) -> Iterator[ast.expr]:
    """The names and elements of a (nested, starred) assignment target, left to right."""
    if isinstance(target, (ast.Tuple, ast.List)):
        for target_element in target.elts:
            yield from leaves(target_element)
    elif isinstance(target, ast.Starred):
        yield from leaves(target.value)
    else:
        yield target


def shape_of(target: ast.expr) -> object:
    """A target as nested tuples: "name", "*name", or "" for a place that is stored to."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return tuple(shape_of(element) for element in target.elts)
    if isinstance(target, ast.Starred):
        return f"*{shape_of(target.value)}"
    return target.id if isinstance(target, ast.Name) else ""


class Expressions:
    """Rewrites expressions: lazy operators become calls, some reads get a look.

    ``needs_look(name)`` says which names' reads do; ``refuse(node, what, hint)`` raises.
    """

    def __init__(
        self, needs_look: Callable[[str], bool], refuse: Callable[[ast.AST, str, str], None]
    ) -> None:
        self.needs_look, self.refuse = needs_look, refuse

    def visit(self, node: Any) -> Any:
        """``node`` rewritten; itself where nothing changes."""
        kind = type(node)
        if kind is ast.Constant:
            return node
        if kind is ast.Name:
            if type(node.ctx) is ast.Load and self.needs_look(node.id):
                return scope_call("use", [ast.Constant(value=node.id), node], node)
            return node
        method = _METHODS.get(kind)
        return self.parts(node) if method is None else method(self, node)

    def parts(self, node: Any) -> Any:
        """``node`` with its parts rewritten."""
        name = type(node).__name__
        if name in UNSUPPORTED:
            self.refuse(node, *UNSUPPORTED[name])
        changed: dict[str, Any] = {}
        for key in node._fields:
            old = getattr(node, key, None)
            if isinstance(old, list):
                new = [self.visit(child) if isinstance(child, ast.AST) else child for child in old]
                if any(a is not b for a, b in zip(old, new, strict=True)):
                    changed[key] = new
            elif isinstance(old, ast.AST) and old._fields:
                rewritten = self.visit(old)
                if rewritten is not old:
                    changed[key] = rewritten
        if not changed:
            return node
        copied = type(node)(**{key: getattr(node, key, None) for key in node._fields} | changed)
        for key in _POSITION:
            if hasattr(node, key):
                setattr(copied, key, getattr(node, key))
        return copied

    def plain(self, node: Any) -> Any:
        """A nested function or comprehension: Python's."""
        for part in below(node):
            if type(part).__name__ in ("NamedExpr", "Await"):
                self.refuse(part, *UNSUPPORTED[type(part).__name__])
        return node

    def _comprehension(self, node: Any) -> Any:
        """Python's, over what Python can iterate."""
        copied = copy.copy(self.plain(node))
        copied.generators = [copy.copy(part) for part in node.generators]
        for part in copied.generators:
            part.iter = scope_call("iterated", [part.iter], part.iter)
        return copied

    def _choice(self, node: ast.IfExp) -> ast.expr:
        test, then, orelse = (self.visit(part) for part in (node.test, node.body, node.orelse))
        return scope_call("select", [test, thunk(then), thunk(orelse)], node)

    def _logic(self, node: ast.BoolOp) -> ast.expr:
        first, *rest = (self.visit(value) for value in node.values)
        method = "and_" if isinstance(node.op, ast.And) else "or_"
        return scope_call(method, [first, *(thunk(value) for value in rest)], node)

    def _call(self, node: ast.Call) -> Any:
        rewritten = self.parts(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr in _KEYED:
            keyed = scope_call("keyed", [rewritten.func, *rewritten.args], node)
            keyed.keywords = rewritten.keywords
            return keyed
        if isinstance(node.func, ast.Name) and node.func.id == "print":
            for text in (arg for arg in rewritten.args if isinstance(arg, ast.JoinedStr)):
                for part in (v for v in text.values if isinstance(v, ast.FormattedValue)):
                    part.value = scope_call("formatted", [part.value], part.value)
            shown = scope_call("printed", [rewritten.func, *rewritten.args], node)
            shown.keywords = rewritten.keywords
            return shown
        return rewritten

    def _unary(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            return scope_call("not_", [self.visit(node.operand)], node)
        return self.parts(node)

    def _compare(self, node: ast.Compare) -> Any:
        if len(node.ops) == 1 and not isinstance(node.ops[0], (ast.In, ast.NotIn)):
            return self.parts(node)
        operands = [self.visit(part) for part in (node.left, *node.comparators)]
        args: list[ast.expr] = [operands[0]]
        for op, operand in zip(node.ops, operands[1:], strict=True):
            args += [ast.Constant(value=_COMPARES[type(op)]), thunk(operand)]
        return scope_call("compare", args, node)


# Methods of dicts and sets whose first argument is a key.
_KEYED = frozenset(("get", "setdefault", "pop", "add", "discard", "remove"))
_METHODS: dict[type[ast.AST], Callable[[Expressions, Any], Any]] = {
    ast.Lambda: Expressions.plain,
    ast.ListComp: Expressions._comprehension,
    ast.SetComp: Expressions._comprehension,
    ast.DictComp: Expressions._comprehension,
    ast.GeneratorExp: Expressions._comprehension,
    ast.IfExp: Expressions._choice,
    ast.BoolOp: Expressions._logic,
    ast.Call: Expressions._call,
    ast.UnaryOp: Expressions._unary,
    ast.Compare: Expressions._compare,
}
