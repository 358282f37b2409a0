"""Rewriting of kernel and macro bodies.

The body of a traced function is ordinary Python whose control flow and assignments are turned
into calls on a ``Scope`` (``__tl``, see ``scope.py``), for instance::

    v = A[i] if i < n else 0      v = __tl.assign("v", __tl.select(i < n, lambda: A[i],
                                                                   lambda: 0), True)
    for i in T.serial(n):         __tl_1 = __tl.for_(T.serial(n), ("i",), True)
        A[i] += 1                 i = __tl.bind("i", __tl_1.values[0])
                                  __tl.aug_item(A, i, "add", 1)
                                  __tl_1.end()
    if c: ...                     __tl_2 = __tl.if_(c)
    else: ...                     if __tl_2.then(): ...
                                  if __tl_2.orelse(): ...
                                  __tl_2.end()

User variables stay Python variables, so closures, nested functions, lambdas, comprehensions and
the debugger see them. New nodes carry the position of the text they replace and the code keeps
the user's file name, so tracebacks, ``pdb`` and ``Loc`` show the user's lines. What a kernel
cannot use is an error here, before anything runs.
"""

from __future__ import annotations
import __future__

import ast
import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CellType, CodeType, FunctionType
from typing import Any

from tilelang.errors import Loc, TileSyntaxError
from tilelang.language.v2.source import function_node, new_function

__all__ = ["FunctionInfo", "analyse", "rewrite"]

Path = tuple[tuple[int, int], ...]  # the nested blocks around a statement, outermost first

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "truediv",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.LShift: "lshift",
    ast.RShift: "rshift",
    ast.BitAnd: "and_",
    ast.BitOr: "or_",
    ast.BitXor: "xor",
    ast.MatMult: "matmul",
}
_COMPARES: dict[type[ast.cmpop], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
    ast.Is: "is_",
    ast.IsNot: "is_not",
    ast.In: "in",
    ast.NotIn: "not_in",
}
_UNSUPPORTED: dict[str, tuple[str, str]] = {
    "Try": ("`try`", "check conditions with `if`; a kernel raises no exceptions"),
    "TryStar": ("`try`", "check conditions with `if`; a kernel raises no exceptions"),
    "Global": ("`global`", "return the value, or pass a T.Ref"),
    "Delete": ("`del`", "names end with the block that defines them"),
    "Match": ("`match`", "use `if` / `elif`"),
    "AsyncFor": ("`async for`", "use `for`"),
    "AsyncWith": ("`async with`", "use `with`"),
    "AsyncFunctionDef": ("`async def`", "use `def`"),
    "Await": ("`await`", "kernels have no coroutines"),
    "Yield": ("`yield`", "kernels have no generators; return the values"),
    "YieldFrom": ("`yield from`", "kernels have no generators; return the values"),
    "NamedExpr": ("`:=`", "assign in a statement of its own"),
    "TypeAlias": ("`type`", "define the alias outside the kernel"),
}
_PLAIN = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (*_PLAIN, ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class FunctionInfo:
    """What is known of a function before it runs.

    ``body_annotated`` are the parameters with an annotation statement in the body; ``constructs``
    are the last parts of the names it calls (``Kernel``, ``empty``, ...); ``factory`` says whether
    it contains a function decorated with ``prim_func``.
    """

    name: str
    filename: str
    node: ast.FunctionDef
    params: tuple[str, ...]
    body_annotated: frozenset[str]
    constructs: frozenset[str]
    factory: bool


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Everything below ``node`` that is not inside a nested function, class or comprehension."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, _SCOPES):
            yield from _own_nodes(child)


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        return _last_name(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def analyse(fn: FunctionType) -> FunctionInfo:
    """Find the source of ``fn`` and what can be read off it."""
    node, filename = function_node(fn)
    arguments = node.args
    params = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    params.extend(a.arg for a in (arguments.vararg, arguments.kwarg) if a is not None)
    annotated: set[str] = set()
    constructs: set[str] = set()
    for item in node.body:
        for part in (item, *_own_nodes(item)):
            if isinstance(part, ast.AnnAssign) and part.value is None:
                if isinstance(part.target, ast.Name) and part.target.id in params:
                    annotated.add(part.target.id)
            elif isinstance(part, ast.Call):
                constructs.add(_last_name(part))
    factory = any(
        _last_name(decorator) == "prim_func"
        for part in ast.walk(node)
        if isinstance(part, ast.FunctionDef) and part is not node
        for decorator in part.decorator_list
    )
    return FunctionInfo(
        fn.__name__,
        filename,
        node,
        tuple(params),
        frozenset(annotated),
        frozenset(constructs),
        factory,
    )


def _constant(value: object) -> ast.expr:
    """A constant, or a tuple display of constants."""
    if isinstance(value, tuple):
        return ast.Tuple(elts=[_constant(item) for item in value], ctx=ast.Load())
    return ast.Constant(value=value)  # type: ignore[arg-type]  # str, int, bool and None only


def _thunk(body: ast.expr) -> ast.Lambda:
    empty = ast.arguments(
        posonlyargs=[], args=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[]
    )
    return ast.copy_location(ast.Lambda(args=empty, body=body), body)


def _load(name: str) -> ast.Name:
    return ast.Name(id=name, ctx=ast.Load())


def _scope_call(method: str, args: Iterable[ast.expr], at: ast.AST) -> ast.Call:
    """``__tl.method(*args)`` shown at the text of ``at``."""
    func = ast.Attribute(value=_load("__tl"), attr=method, ctx=ast.Load())
    made = ast.Call(func=func, args=list(args), keywords=[])
    return ast.fix_missing_locations(ast.copy_location(made, at))


def _method_call(variable: str, method: str, at: ast.AST) -> ast.Call:
    func = ast.Attribute(value=_load(variable), attr=method, ctx=ast.Load())
    made = ast.Call(func=func, args=[], keywords=[])
    return ast.fix_missing_locations(ast.copy_location(made, at))


def _set(name: str, value: ast.expr) -> ast.stmt:
    target = ast.Name(id=name, ctx=ast.Store())
    made = ast.copy_location(ast.Assign(targets=[target], value=value), value)
    return ast.fix_missing_locations(made)


def _statement(value: ast.expr) -> ast.stmt:
    return ast.copy_location(ast.Expr(value=value), value)


class _Names:
    """Which blocks bind each local name; decides what reads need a check for their region."""

    def __init__(self, node: ast.FunctionDef) -> None:
        self.bound: dict[str, set[Path]] = {}
        self._block(node.body, ())

    def needs_check(self, name: str, path: Path) -> bool:
        """Whether a read at ``path`` may see a value whose block has ended."""
        paths = self.bound.get(name)
        if not paths:
            return False
        only = next(iter(paths))
        return len(paths) > 1 or path[: len(only)] != only

    def _bind(self, target: ast.AST | None, path: Path) -> None:
        if target is None:
            return
        for part in ast.walk(target):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                self.bound.setdefault(part.id, set()).add(path)

    def _block(self, body: Sequence[ast.stmt], path: Path) -> None:
        for item in body:
            if isinstance(item, ast.Assign):
                for target in item.targets:
                    self._bind(target, path)
            elif isinstance(item, (ast.AugAssign, ast.AnnAssign)):
                self._bind(item.target, path)
            elif isinstance(item, (ast.FunctionDef, ast.ClassDef)):
                self.bound.setdefault(item.name, set()).add(path)
            for key, nested in _blocks(item, path):
                if isinstance(item, ast.For):
                    self._bind(item.target, key)
                elif isinstance(item, ast.With):
                    for entry in item.items:
                        self._bind(entry.optional_vars, key)
                self._block(nested, key)


def _blocks(item: ast.stmt, path: Path) -> Iterator[tuple[Path, list[ast.stmt]]]:
    """The nested blocks of a compound statement with their paths."""
    if isinstance(item, (ast.If, ast.For, ast.While, ast.With)):
        yield (*path, (id(item), 0)), item.body
        if isinstance(item, (ast.If, ast.For, ast.While)) and item.orelse:
            yield (*path, (id(item), 1)), item.orelse


class _Expressions(ast.NodeTransformer):
    """Rewrites the expressions of one statement."""

    def __init__(self, owner: _Statements) -> None:
        self.owner = owner

    def generic_visit(self, node: ast.AST) -> ast.AST:
        kind = type(node).__name__
        if kind in _UNSUPPORTED:
            self.owner.refuse(node, *_UNSUPPORTED[kind])
        return super().generic_visit(node)

    def _plain(self, node: ast.AST) -> ast.AST:
        for part in ast.walk(node):
            if type(part).__name__ in ("NamedExpr", "Await"):
                self.owner.refuse(part, *_UNSUPPORTED[type(part).__name__])
        return node

    visit_Lambda = visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _plain

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and self.owner.needs_check(node.id):
            return _scope_call("use", [ast.Constant(value=node.id), node], node)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        test, then, orelse = (self.visit(part) for part in (node.test, node.body, node.orelse))
        return _scope_call("select", [test, _thunk(then), _thunk(orelse)], node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        first, *rest = (self.visit(value) for value in node.values)
        method = "and_" if isinstance(node.op, ast.And) else "or_"
        return _scope_call(method, [first, *(_thunk(value) for value in rest)], node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        node.operand = self.visit(node.operand)
        return _scope_call("not_", [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        operands = [self.visit(part) for part in (node.left, *node.comparators)]
        if len(node.ops) == 1:
            node.left, node.comparators = operands[0], operands[1:]
            return node
        args: list[ast.expr] = [operands[0]]
        for op, operand in zip(node.ops, operands[1:]):
            args += [ast.Constant(value=_COMPARES[type(op)]), _thunk(operand)]
        return _scope_call("compare", args, node)


class _Statements:
    """Rewrites the statements of one function."""

    def __init__(
        self, info: FunctionInfo, *, attributes: bool, params_annotated: frozenset[str]
    ) -> None:
        self.info = info
        self.attributes = attributes
        self.annotated = params_annotated
        self.names = _Names(info.node)
        self.path: Path = ()
        self.count = 0
        self.outer: set[str] = set()  # names declared nonlocal
        self.expressions = _Expressions(self)

    # -- helpers ------------------------------------------------------------------------------
    def loc(self, node: ast.AST) -> Loc:
        return Loc.of_node(node, self.info.filename, function=self.info.name)

    def refuse(self, node: ast.AST, what: str, hint: str) -> None:
        """Raise for a construct that kernels do not have; the caret marks its first line."""
        raise TileSyntaxError(
            f"{what} is not supported in a kernel or macro", loc=self.loc(node), hint=hint
        )

    def needs_check(self, name: str) -> bool:
        return self.names.needs_check(name, self.path)

    def expr(self, node: ast.expr) -> ast.expr:
        result: ast.expr = self.expressions.visit(node)
        return result

    def fresh(self) -> str:
        self.count += 1
        return f"__tl_{self.count}"

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for item in body:
            out.extend(self.statement(item))
        return out

    def nested(self, item: ast.stmt, which: int, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """A block of the compound statement ``item``."""
        outside, self.path = self.path, (*self.path, (id(item), which))
        out = self.block(body)
        self.path = outside
        return out or [ast.copy_location(ast.Pass(), item)]

    def statement(self, item: ast.stmt) -> list[ast.stmt]:
        kind = type(item).__name__
        if kind in _UNSUPPORTED:
            self.refuse(item, *_UNSUPPORTED[kind])
        visit: Callable[[Any], list[ast.stmt]] | None = getattr(self, f"do_{kind}", None)
        if visit is not None:
            return visit(item)
        if isinstance(item, ast.Raise):
            return [self.expressions.generic_visit(item)]  # type: ignore[list-item]  # still a Raise
        return [item]  # def, class, import, pass: plain Python

    # -- assignment ---------------------------------------------------------------------------
    def do_Assign(self, item: ast.Assign) -> list[ast.stmt]:
        if len(item.targets) == 1:
            return self.assign(item.targets[0], item.value, item)
        kept = self.fresh()
        hint = next((t.id for t in item.targets if isinstance(t, ast.Name)), "_tmp")
        mentioned = _names_in(item.value)
        value = _scope_call("snapshot", [self.expr(item.value), _constant(hint)], item)
        out = [_set(kept, value)]
        for target in item.targets:
            again = ast.copy_location(_load(kept), item.value)
            out += self.assign(target, again, item, mentioned)
        return out

    def assign(
        self,
        target: ast.expr,
        value: ast.expr,
        at: ast.stmt,
        mentioned: frozenset[str] | None = None,
    ) -> list[ast.stmt]:
        """``target = value``; ``value``, not yet rewritten, reads the names ``mentioned``."""
        mentioned = _names_in(value) if mentioned is None else mentioned
        by_reference = not isinstance(value, (ast.Name, ast.Attribute))
        if isinstance(target, (ast.Tuple, ast.List)):
            return self.unpack(target, value, at, mentioned)
        mentions = isinstance(target, ast.Name) and target.id in mentioned
        made = self.expr(value)
        if isinstance(target, ast.Name) and target.id in self.outer:
            current = _thunk(ast.copy_location(_load(target.id), target))
            args = [_constant(target.id), made, _constant(by_reference), current]
            return [_set(target.id, _scope_call("assign_outer", args, at))]
        if isinstance(target, ast.Name):
            args = [_constant(target.id), made, _constant(by_reference), _constant(mentions)]
            return [_set(target.id, _scope_call("assign", args, at))]
        return self.place(target, made, at)

    def place(self, target: ast.expr, made: ast.expr, at: ast.AST) -> list[ast.stmt]:
        """Store the rewritten value ``made`` into a subscript or attribute."""
        if isinstance(target, ast.Subscript):
            base, key = self.expr(target.value), self.key(target.slice)
            return [_statement(_scope_call("store_item", [made, base, key], at))]
        if isinstance(target, ast.Attribute):
            if not self.attributes:
                self.refuse(
                    target,
                    "assignment to an attribute",
                    "assign to a name, or keep state in a class decorated with @T.meta_class",
                )
            args = [made, self.expr(target.value), _constant(target.attr)]
            return [_statement(_scope_call("store_attr", args, at))]
        self.refuse(target, "this assignment target", "assign to names and subscripts")
        return []

    def key(self, node: ast.expr) -> ast.expr:
        """A subscript as a value: slices become ``slice`` objects."""
        if isinstance(node, ast.Slice):
            parts = [
                ast.Constant(value=None) if part is None else self.expr(part)
                for part in (node.lower, node.upper, node.step)
            ]
            return _scope_call("slice", parts, node)
        if isinstance(node, ast.Tuple):
            made = ast.Tuple(elts=[self.key(item) for item in node.elts], ctx=ast.Load())
            return ast.copy_location(made, node)
        return self.expr(node)

    def unpack(
        self,
        target: ast.Tuple | ast.List,
        value: ast.expr,
        at: ast.stmt,
        mentioned: frozenset[str] = frozenset(),
    ) -> list[ast.stmt]:
        """Tuple assignment: all of the right side first, then the targets from left to right."""
        if isinstance(value, (ast.Tuple, ast.List)) and not _has_star(value):
            names = [isinstance(item, (ast.Name, ast.Attribute)) for item in value.elts]
        else:
            names = []
        made = self.expr(value)
        kept = self.fresh()
        own = tuple(sorted(mentioned & _names_in(target)))
        args = [made, _constant(_shape_of(target)), _constant(tuple(names)), _constant(own)]
        out = [_set(kept, _scope_call("unpack", args, at))]
        for number, leaf in enumerate(_leaves(target)):
            item = ast.Subscript(
                value=_load(kept), slice=ast.Constant(value=number), ctx=ast.Load()
            )
            ast.fix_missing_locations(ast.copy_location(item, leaf))
            if isinstance(leaf, ast.Name) and leaf.id not in self.outer:
                commit = _scope_call("commit", [_constant(leaf.id), item], at)
                out.append(_set(leaf.id, commit))
            elif isinstance(leaf, ast.Name):
                current = _thunk(ast.copy_location(_load(leaf.id), leaf))
                call_args = [_constant(leaf.id), item, _constant(True), current]
                out.append(_set(leaf.id, _scope_call("assign_outer", call_args, at)))
            else:
                out += self.place(leaf, item, at)
        return out

    def do_AugAssign(self, item: ast.AugAssign) -> list[ast.stmt]:
        op, target = _constant(_OPERATORS[type(item.op)]), item.target
        value = self.expr(item.value)
        if isinstance(target, ast.Name):
            current = self.expr(ast.copy_location(_load(target.id), target))
            args = [_constant(target.id), op, current, value]
            return [_set(target.id, _scope_call("aug_name", args, item))]
        if isinstance(target, ast.Subscript):
            args = [self.expr(target.value), self.key(target.slice), op, value]
            return [_statement(_scope_call("aug_item", args, item))]
        if not self.attributes:
            self.refuse(
                target,
                "assignment to an attribute",
                "assign to a name, or keep state in a class decorated with @T.meta_class",
            )
        args = [self.expr(target.value), _constant(target.attr), op, value]
        return [_statement(_scope_call("aug_attr", args, item))]

    def do_AnnAssign(self, item: ast.AnnAssign) -> list[ast.stmt]:
        if item.value is not None:
            return self.assign(item.target, item.value, item)
        if not isinstance(item.target, ast.Name) or item.target.id not in self.annotated:
            return []
        name = item.target.id
        args = [_constant(name), _thunk(self.expr(item.annotation)), _load(name)]
        return [_set(name, _scope_call("annotate", args, item))]

    # -- control flow -------------------------------------------------------------------------
    def do_If(self, item: ast.If) -> list[ast.stmt]:
        kept = self.fresh()
        out = [_set(kept, _scope_call("if_", [self.expr(item.test)], item.test))]
        sides = [("then", 0, item.body)] + ([("orelse", 1, item.orelse)] if item.orelse else [])
        for method, which, body in sides:
            made = self.nested(item, which, body)
            test = _method_call(kept, method, item.test)
            out.append(ast.copy_location(ast.If(test=test, body=made, orelse=[]), item.test))
        return [*out, _statement(_method_call(kept, "end", item.test))]

    def do_For(self, item: ast.For) -> list[ast.stmt]:
        if item.orelse:
            self.refuse(item.orelse[0], "`else` of a `for`", "write the statements after the loop")
        kept = self.fresh()
        single = isinstance(item.target, ast.Name)
        leaves = list(_leaves(item.target))
        for leaf in leaves:
            if not isinstance(leaf, ast.Name):
                self.refuse(leaf, "this loop target", "loop over names")
        names = tuple(leaf.id for leaf in leaves if isinstance(leaf, ast.Name))
        args = [self.loop_source(item.iter), _constant(names), _constant(single)]
        out = [_set(kept, _scope_call("for_", args, item.iter))]
        values = ast.Attribute(value=_load(kept), attr="values", ctx=ast.Load())
        for number, name in enumerate(names):
            value: ast.expr = ast.Subscript(
                value=copy.copy(values), slice=ast.Constant(value=number), ctx=ast.Load()
            )
            ast.fix_missing_locations(ast.copy_location(value, item.target))
            out.append(_set(name, _scope_call("bind", [_constant(name), value], item.target)))
        out += self.nested(item, 0, item.body)
        return [*out, _statement(_method_call(kept, "end", item.iter))]

    def loop_source(self, node: ast.expr) -> ast.expr:
        """The iterable; ``range(...)`` takes device expressions, so it is called through us."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            return self.expr(node)
        if node.func.id != "range" or node.keywords or _has_star(node):
            return self.expr(node)
        args = [self.expr(arg) for arg in node.args]
        return _scope_call("range", [self.expr(node.func), *args], node)

    def do_While(self, item: ast.While) -> list[ast.stmt]:
        if item.orelse:
            self.refuse(
                item.orelse[0], "`else` of a `while`", "write the statements after the loop"
            )
        kept = self.fresh()
        test = _thunk(self.expr(item.test))
        out = [_set(kept, _scope_call("while_", [test], item.test))]
        body = self.nested(item, 0, item.body)
        begin = _method_call(kept, "begin", item.test)
        out.append(ast.copy_location(ast.If(test=begin, body=body, orelse=[]), item.test))
        return [*out, _statement(_method_call(kept, "end", item.test))]

    def do_With(self, item: ast.With) -> list[ast.stmt]:
        return self.with_items(item, list(item.items))

    def with_items(self, item: ast.With, items: list[ast.withitem]) -> list[ast.stmt]:
        if not items:
            return self.nested(item, 0, item.body)
        first, target = items[0], items[0].optional_vars
        leaves = [] if target is None else list(_leaves(target))
        names = tuple(leaf.id if isinstance(leaf, ast.Name) else "" for leaf in leaves)
        context = _scope_call(
            "with_", [self.expr(first.context_expr), _constant(names)], first.context_expr
        )
        kept = self.fresh()
        body: list[ast.stmt] = []
        if target is not None:
            value = ast.fix_missing_locations(ast.copy_location(_load(kept), target))
            if isinstance(target, (ast.Tuple, ast.List)):
                body += self.unpack(target, value, ast.copy_location(ast.Pass(), target))
            else:
                body += self.assign(target, value, ast.copy_location(ast.Pass(), target))
        body += self.with_items(item, items[1:])
        entry = ast.withitem(context_expr=context, optional_vars=ast.Name(kept, ast.Store()))
        made = ast.copy_location(ast.With(items=[entry], body=body), first.context_expr)
        return [ast.fix_missing_locations(made)]

    def do_Break(self, item: ast.Break) -> list[ast.stmt]:
        return [_statement(_scope_call("break_", [], item))]

    def do_Continue(self, item: ast.Continue) -> list[ast.stmt]:
        return [_statement(_scope_call("continue_", [], item))]

    def do_Return(self, item: ast.Return) -> list[ast.stmt]:
        value = ast.Constant(value=None) if item.value is None else self.expr(item.value)
        made = ast.Return(value=_scope_call("return_", [value], item))
        return [ast.copy_location(made, item)]

    # -- other statements ---------------------------------------------------------------------
    def do_Expr(self, item: ast.Expr) -> list[ast.stmt]:
        if isinstance(item.value, ast.Constant):
            return [item]
        value = item.value
        return [_statement(_scope_call("expr", [self.expr(value)], value))]

    def do_Assert(self, item: ast.Assert) -> list[ast.stmt]:
        text = ast.Constant(value=None) if item.msg is None else self.expr(item.msg)
        ast.copy_location(text, item)
        return [_statement(_scope_call("assert_", [self.expr(item.test), _thunk(text)], item))]

    def do_Nonlocal(self, item: ast.Nonlocal) -> list[ast.stmt]:
        self.outer.update(item.names)
        return [item]


def _names_in(node: ast.AST) -> frozenset[str]:
    return frozenset(part.id for part in ast.walk(node) if isinstance(part, ast.Name))


def _has_star(node: ast.AST) -> bool:
    return any(isinstance(child, ast.Starred) for child in ast.iter_child_nodes(node))


def _leaves(target: ast.expr) -> Iterator[ast.expr]:
    """The names and places of a (nested, starred) assignment target, left to right."""
    if isinstance(target, (ast.Tuple, ast.List)):
        for item in target.elts:
            yield from _leaves(item)
    elif isinstance(target, ast.Starred):
        yield from _leaves(target.value)
    else:
        yield target


def _shape_of(target: ast.expr) -> object:
    """A target as nested tuples: "name", "*name", or "" for a place that is stored to."""
    if isinstance(target, (ast.Tuple, ast.List)):
        return tuple(_shape_of(item) for item in target.elts)
    if isinstance(target, ast.Starred):
        return f"*{_shape_of(target.value)}"
    return target.id if isinstance(target, ast.Name) else ""


def _inner_code(code: CodeType, name: str) -> CodeType:
    for item in code.co_consts:
        if isinstance(item, CodeType):
            return item if item.co_name == name else _inner_code(item, name)
    raise LookupError(name)


def rewrite(
    fn: FunctionType,
    info: FunctionInfo,
    enter: Callable[[Mapping[str, object]], object],
    *,
    captured: Mapping[str, object] | None = None,
    attributes: bool = False,
    annotated: frozenset[str] = frozenset(),
) -> FunctionType:
    """``fn`` with its body turned into calls on the scope that ``enter(locals)`` returns.

    Args:
        fn: the user's function; its globals, closure cells and defaults are shared.
        info: from :func:`analyse`.
        enter: called at the start of each activation with the parameters' values.
        captured: names that only annotations use, which Python did not put into the closure.
        attributes: whether ``self.x = e`` is allowed.
        annotated: parameters whose annotation statements in the body are evaluated.

    Raises:
        TileSyntaxError: the body uses a construct that kernels do not have.
    """
    node = copy.deepcopy(info.node)
    info = FunctionInfo(**{**info.__dict__, "node": node})
    statements = _Statements(info, attributes=attributes, params_annotated=annotated)
    body = statements.block(node.body)
    start = ast.Call(
        func=_load("__tl_enter"),
        args=[ast.Call(func=_load("__tl_locals"), args=[], keywords=[])],
        keywords=[],
    )
    first = _set("__tl", ast.fix_missing_locations(ast.copy_location(start, node)))
    name = "__tl_body"  # not the user's name: a recursive function looks that up outside
    node.name, node.body, node.decorator_list, node.returns = name, [first, *body], [], None
    arguments = node.args
    arguments.defaults, arguments.kw_defaults = [], [None] * len(arguments.kwonlyargs)
    for arg in ast.walk(arguments):
        if isinstance(arg, ast.arg):
            arg.annotation = None
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()))
    for key, value in (captured or {}).items():
        cells.setdefault(key, CellType(value))
    cells["__tl_enter"], cells["__tl_locals"] = CellType(enter), CellType(locals)
    module = ast.Module(body=[_factory(node, sorted(cells))], type_ignores=[])
    ast.fix_missing_locations(module)
    flags = fn.__code__.co_flags & __future__.annotations.compiler_flag
    code = compile(module, info.filename, "exec", flags=flags, dont_inherit=True)
    inner = _inner_code(code, name).replace(co_name=fn.__code__.co_name)
    if hasattr(inner, "co_qualname"):
        inner = inner.replace(co_qualname=fn.__code__.co_qualname)
    made = FunctionType(
        inner,
        fn.__globals__,
        fn.__name__,
        fn.__defaults__,
        tuple(cells[free] for free in inner.co_freevars),
    )
    made.__kwdefaults__ = fn.__kwdefaults__
    made.__qualname__, made.__module__ = fn.__qualname__, fn.__module__
    made.__doc__ = fn.__doc__
    return made


def _factory(node: ast.FunctionDef, names: list[str]) -> ast.stmt:
    """An outer function whose parameters are the free variables of ``node``."""
    arguments = ast.arguments(
        posonlyargs=[],
        args=[ast.arg(arg=name) for name in names],
        vararg=None,
        kwonlyargs=[],
        kw_defaults=[],
        kwarg=None,
        defaults=[],
    )
    return ast.copy_location(new_function("__tl_factory", arguments, node), node)
