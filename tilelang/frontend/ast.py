"""AST rewriting of kernel and macro bodies.

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

Names that a branch or loop binds and that may be read later are passed to ``if_`` and ``for_``
(``flow.py`` finds them), and after ``end`` they are read again from ``__tl_2.value("v")``: what all
ways agree on, or an ``Undecided`` (``rebind.py``).

User variables stay Python variables, so closures, nested functions, lambdas, comprehensions and
the debugger see them. New nodes carry the position of the text they replace and the code keeps
the user's file name, so tracebacks, ``pdb`` and ``Loc`` show the user's lines. What a kernel
cannot use is an error here, before anything runs.
"""

from __future__ import annotations
import __future__

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import CellType, CodeType, FunctionType
from typing import Any

from tilelang.errors import Loc, TileSyntaxError
from tilelang.frontend.flow import Flow
from tilelang.frontend.nodes import (
    UNSUPPORTED,
    Expressions,
    below,
    constant,
    leaves,
    load,
    method_call,
    parameters,
    scope_call,
    set_name,
    shape_of,
    statement,
    thunk,
    with_location,
)
from tilelang.frontend.source import argument_names, function_node, new_function
from tilelang.ir.recursion import raise_recursion_limit
from tilelang.records import dataclass

__all__ = ["FunctionInfo", "analyse", "rewrite"]

_SEQUENCES = frozenset(
    "enumerate zip list map reversed sorted tuple items keys values product combinations".split()
)  # calls of these give no loop of the device

Path = tuple[tuple[int, int], ...]  # the nested blocks around a statement, outermost first

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv",
    ast.Mod: "mod", ast.Pow: "pow", ast.LShift: "lshift", ast.RShift: "rshift",
    ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor", ast.MatMult: "matmul",
}  # fmt: skip
_PLAIN = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES = (*_PLAIN, ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class FunctionInfo:
    """The facts about a function that hold before it runs.

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


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Call):
        return _last_name(node.func)
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _makes_prim_func(node: ast.AST) -> bool:
    return any(
        _last_name(decorator) == "prim_func"
        for part in below(node)
        if isinstance(part, ast.FunctionDef)
        for decorator in part.decorator_list
    )


def analyse(fn: FunctionType) -> FunctionInfo:
    """Find the source of ``fn`` and what can be read off it."""
    node, filename = function_node(fn)
    params = argument_names(node.args)
    annotated: set[str] = set()
    constructs: set[str] = set()
    factory = False
    for stmt in node.body:
        for part in below(stmt, _SCOPES):
            if isinstance(part, ast.AnnAssign) and part.value is None:
                if isinstance(part.target, ast.Name) and part.target.id in params:
                    annotated.add(part.target.id)
            elif isinstance(part, ast.Call):
                constructs.add(_last_name(part))
            elif isinstance(part, _SCOPES):
                factory = factory or _makes_prim_func(part)
    return FunctionInfo(
        fn.__name__, filename, node, params, frozenset(annotated), frozenset(constructs), factory
    )


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
        for part in below(target):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                self.bound.setdefault(part.id, set()).add(path)

    def _block(self, body: Sequence[ast.stmt], path: Path) -> None:
        for stmt in body:
            if isinstance(stmt, ast.Assign):
                for target in stmt.targets:
                    self._bind(target, path)
            elif isinstance(stmt, (ast.AugAssign, ast.AnnAssign)):
                self._bind(stmt.target, path)
            elif isinstance(stmt, (ast.FunctionDef, ast.ClassDef)):
                self.bound.setdefault(stmt.name, set()).add(path)
            for key, nested in _blocks(stmt, path):
                if isinstance(stmt, ast.For):
                    self._bind(stmt.target, key)
                elif isinstance(stmt, ast.With):
                    for entry in stmt.items:
                        self._bind(entry.optional_vars, key)
                self._block(nested, key)


def _blocks(stmt: ast.stmt, path: Path) -> Iterator[tuple[Path, list[ast.stmt]]]:
    """The nested blocks of a compound statement with their paths."""
    if isinstance(stmt, (ast.If, ast.For, ast.While, ast.With)):
        yield (*path, (id(stmt), 0)), stmt.body
        if isinstance(stmt, (ast.If, ast.For, ast.While)) and stmt.orelse:
            yield (*path, (id(stmt), 1)), stmt.orelse


class _Statements:
    """Rewrites the statements of one function."""

    def __init__(self, info: FunctionInfo, attributes: bool, annotated: frozenset[str]) -> None:
        self.info = info
        self.attributes = attributes
        self.annotated = annotated  # parameters whose annotation statements are evaluated
        self.names = _Names(info.node)
        self.flow = Flow(info.node)
        self.next_reads: list[str] = []  # names that the loops around read in their next iteration
        self.path: Path = ()
        self.level: str | None = None  # where the innermost loop is one of Python, how deep it is
        self.count = 0
        self.outer: set[str] = set()  # names declared nonlocal
        self.branch: str | None = None  # the `if` whose statements are visited
        self.expressions = Expressions(self.needs_check, self.refuse)

    # -- helpers ------------------------------------------------------------------------------
    def loc(self, node: ast.AST) -> Loc:
        return Loc.of_node(node, self.info.filename, function=self.info.name)

    def refuse(self, node: ast.AST, construct: str, hint: str) -> None:
        """Raise for a construct that kernels do not have; the caret marks its first line."""
        raise TileSyntaxError(
            f"{construct} is not supported in a kernel or macro", loc=self.loc(node), hint=hint
        )

    def needs_check(self, name: str) -> bool:
        return self.names.needs_check(name, self.path) or name in self.next_reads

    def expr(self, node: ast.expr) -> ast.expr:
        result: ast.expr = self.expressions.visit(node)
        return result

    def fresh(self) -> str:
        self.count += 1
        return f"__tl_{self.count}"

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [result for stmt in body for result in self.statement(stmt)]

    def nested(
        self, stmt: ast.stmt, part: int, body: Sequence[ast.stmt], branch: str | None = None
    ) -> list[ast.stmt]:
        """A block of the compound statement ``item``, an ``if`` where ``branch`` traces it."""
        outside, self.path = self.path, (*self.path, (id(stmt), part))
        around, self.branch = self.branch, branch
        reread = self.flow.of(stmt).next_reads
        self.next_reads += reread
        out = self.block(body)
        self.path, self.branch = outside, around
        del self.next_reads[len(self.next_reads) - len(reread) :]
        return out or [with_location(ast.Pass(), stmt)]

    def looped(self, stmt: ast.For | ast.While, level: str | None) -> list[ast.stmt]:
        """The body of a loop: of Python where ``level`` holds how deep it is."""
        around, self.level = self.level, level
        body = self.nested(stmt, 0, stmt.body)
        self.level = around
        return body

    def statement(self, stmt: ast.stmt) -> list[ast.stmt]:
        kind = type(stmt).__name__
        if kind in UNSUPPORTED:
            self.refuse(stmt, *UNSUPPORTED[kind])
        visit: Callable[[Any], list[ast.stmt]] | None = getattr(self, f"do_{kind}", None)
        if visit is not None:
            return visit(stmt)
        if isinstance(stmt, ast.Raise):
            checked = [] if self.branch is None else [method_call(self.branch, "raising", stmt)]
            return [*map(statement, checked), self.expressions.parts(stmt)]
        return [stmt, *self.noted(stmt)]  # def, class, import, pass: plain Python

    def noted(self, stmt: ast.stmt) -> list[ast.stmt]:
        """Tell the scope what a plain statement has bound."""
        names: list[str] = []
        if isinstance(stmt, (ast.FunctionDef, ast.ClassDef)):
            names = [stmt.name]
        elif isinstance(stmt, (ast.Import, ast.ImportFrom)):
            names = [(part.asname or part.name).partition(".")[0] for part in stmt.names]
        return [
            statement(scope_call("bind", [constant(name), load(name)], stmt))
            for name in names
            if name not in self.outer
        ]

    # -- names that are followed through branches and loops -----------------------------------
    def followed(self, stmt: ast.stmt) -> list[ast.expr]:
        """The argument that names what to follow in ``item``; none where there is nothing."""
        liveness = self.flow.of(stmt)
        captured = tuple(name for name in liveness.next_reads if name in self.flow.captured)
        second = liveness.orelse if isinstance(stmt, ast.If) else liveness.next_reads
        names = (liveness.after, second, captured, liveness.carried)
        return [constant(names)] if liveness.after or second else []

    def reread(self, statement: str, names: Sequence[str], at: ast.AST) -> list[ast.stmt]:
        """Give the Python names the values that the followed ``statement`` records."""
        out: list[ast.stmt] = []
        for name in names:
            value = set_name(name, method_call(statement, "value", at, constant(name)))
            test = method_call(statement, "holds", at, constant(name))
            out.append(with_location(ast.If(test=test, body=[value], orelse=[]), at))
        return out

    # -- assignment ---------------------------------------------------------------------------
    def do_Assign(self, stmt: ast.Assign) -> list[ast.stmt]:
        if len(stmt.targets) == 1:
            return self.assign(stmt.targets[0], stmt.value, stmt)
        temporary = self.fresh()
        hint = next((t.id for t in stmt.targets if isinstance(t, ast.Name)), "_tmp")
        value = scope_call("snapshot", [self.expr(stmt.value), constant(hint)], stmt)
        out = [set_name(temporary, value)]
        for target in stmt.targets:
            loaded = with_location(load(temporary), stmt.value)
            out += self.assign(target, loaded, stmt)
        return out

    def assign(self, target: ast.expr, value: ast.expr, at: ast.stmt) -> list[ast.stmt]:
        """``target = value``; ``value`` is not yet rewritten."""
        by_reference = not isinstance(value, (ast.Name, ast.Attribute))
        if isinstance(target, (ast.Tuple, ast.List)):
            return self.unpack(target, value, at)
        rewritten = self.expr(value)
        if isinstance(target, ast.Name) and target.id in self.outer:
            current = thunk(with_location(load(target.id), target))
            args = [constant(target.id), rewritten, constant(by_reference), current]
            return [set_name(target.id, scope_call("assign_outer", args, at))]
        if isinstance(target, ast.Name):
            args = [constant(target.id), rewritten, constant(by_reference)]
            return [set_name(target.id, scope_call("assign", args, at))]
        return self.assign_target(target, rewritten, at)

    def assign_target(self, target: ast.expr, value: ast.expr, at: ast.AST) -> list[ast.stmt]:
        """Store the rewritten value ``value`` into a subscript or attribute."""
        if isinstance(target, ast.Subscript):
            base, key = self.expr(target.value), self.key(target.slice)
            return [statement(scope_call("store_item", [value, base, key], at))]
        if isinstance(target, ast.Attribute):
            if not self.attributes:
                self.refuse(
                    target,
                    "assignment to an attribute",
                    "assign to a name, or keep state in a class decorated with @T.meta_class",
                )
            args = [value, self.expr(target.value), constant(target.attr)]
            return [statement(scope_call("store_attr", args, at))]
        self.refuse(target, "this assignment target", "assign to names and subscripts")
        return []

    def key(self, node: ast.expr) -> ast.expr:
        """A subscript as a value: slices become ``slice`` objects."""
        if isinstance(node, ast.Slice):
            parts = [
                ast.Constant(value=None) if part is None else self.expr(part)
                for part in (node.lower, node.upper, node.step)
            ]
            return scope_call("slice", parts, node)
        if isinstance(node, ast.Tuple):
            rewritten = ast.Tuple(elts=[self.key(target) for target in node.elts], ctx=ast.Load())
            return with_location(rewritten, node)
        return self.expr(node)

    def unpack(self, target: ast.Tuple | ast.List, value: ast.expr, at: ast.stmt) -> list[ast.stmt]:
        """Tuple assignment: all of the right side first, then the targets from left to right."""
        if isinstance(value, (ast.Tuple, ast.List)) and not _has_star(value):
            names = [isinstance(element, (ast.Name, ast.Attribute)) for element in value.elts]
        else:
            names = []
        rewritten = self.expr(value)
        temporary = self.fresh()
        args = [rewritten, constant(shape_of(target)), constant(tuple(names))]
        out = [set_name(temporary, scope_call("unpack", args, at))]
        for number, leaf in enumerate(leaves(target)):
            element = ast.Subscript(
                value=load(temporary), slice=ast.Constant(value=number), ctx=ast.Load()
            )
            with_location(element, leaf)
            if isinstance(leaf, ast.Name) and leaf.id not in self.outer:
                commit = scope_call("commit", [constant(leaf.id), element], at)
                out.append(set_name(leaf.id, commit))
            elif isinstance(leaf, ast.Name):
                current = thunk(with_location(load(leaf.id), leaf))
                call_args = [constant(leaf.id), element, constant(True), current]
                out.append(set_name(leaf.id, scope_call("assign_outer", call_args, at)))
            else:
                out += self.assign_target(leaf, element, at)
        return out

    def do_AugAssign(self, stmt: ast.AugAssign) -> list[ast.stmt]:
        op, target = constant(_OPERATORS[type(stmt.op)]), stmt.target
        value = self.expr(stmt.value)
        if isinstance(target, ast.Name):
            current = self.expr(with_location(load(target.id), target))
            args = [constant(target.id), op, current, value]
            return [set_name(target.id, scope_call("aug_name", args, stmt))]
        if isinstance(target, ast.Subscript):
            args = [self.expr(target.value), self.key(target.slice), op, value]
            return [statement(scope_call("aug_item", args, stmt))]
        if not self.attributes:
            self.refuse(
                target,
                "assignment to an attribute",
                "assign to a name, or keep state in a class decorated with @T.meta_class",
            )
        args = [self.expr(target.value), constant(target.attr), op, value]
        return [statement(scope_call("aug_attr", args, stmt))]

    def do_AnnAssign(self, stmt: ast.AnnAssign) -> list[ast.stmt]:
        if stmt.value is not None:
            return self.assign(stmt.target, stmt.value, stmt)
        if not isinstance(stmt.target, ast.Name) or stmt.target.id not in self.annotated:
            return []
        name = stmt.target.id
        args = [constant(name), thunk(self.expr(stmt.annotation)), load(name)]
        return [set_name(name, scope_call("annotate", args, stmt))]

    # -- control flow -------------------------------------------------------------------------
    def do_If(self, stmt: ast.If) -> list[ast.stmt]:
        branch, liveness = self.fresh(), self.flow.of(stmt)
        args = [self.expr(stmt.test), *self.followed(stmt)]
        out = [set_name(branch, scope_call("if_", args, stmt.test))]
        sides = [("then", 0, stmt.body)] + ([("orelse", 1, stmt.orelse)] if stmt.orelse else [])
        for method, number, body in sides:
            rewritten = self.nested(stmt, number, body, branch)
            if number and liveness.orelse:
                rewritten = [*self.restored(branch, liveness.orelse, stmt.test), *rewritten]
            test = method_call(branch, method, stmt.test)
            out.append(with_location(ast.If(test=test, body=rewritten, orelse=[]), stmt.test))
        out.append(statement(method_call(branch, "end", stmt.test)))
        return out + self.reread(branch, liveness.after, stmt.test)

    def restored(self, statement: str, names: Sequence[str], at: ast.AST) -> list[ast.stmt]:
        """Give the names, at the start of the second branch, their values before the first."""
        out = self.reread(statement, names, at)
        for name, stmt in zip(names, out, strict=True):
            none = set_name(name, with_location(ast.Constant(value=None), at))
            deletion = with_location(ast.Delete(targets=[ast.Name(id=name, ctx=ast.Del())]), at)
            stmt.orelse = [none, deletion]  # type: ignore[attr-defined]  # an If; not bound before
        return out

    def do_For(self, stmt: ast.For) -> list[ast.stmt]:
        if stmt.orelse:
            self.refuse(stmt.orelse[0], "`else` of a `for`", "write the statements after the loop")
        source, iterable = self.loop_source(stmt.iter), self.fresh()
        if isinstance(stmt.iter, ast.Call) and _called(stmt.iter) not in _SEQUENCES:
            for leaf in leaves(stmt.target):
                if not isinstance(leaf, ast.Name):
                    self.refuse(leaf, "this loop target", "loop over names")
            return self.loop(stmt, source)
        either = ast.If(
            test=scope_call("is_sequence", [load(iterable)], stmt.iter),
            body=self.rounds(stmt, iterable), orelse=self.loop(stmt, load(iterable)),
        )  # fmt: skip
        return [set_name(iterable, source), with_location(either, stmt.iter)]

    def loop(self, stmt: ast.For, source: ast.expr) -> list[ast.stmt]:
        """A loop of the device."""
        loop = self.fresh()
        single = isinstance(stmt.target, ast.Name)
        names = tuple(leaf.id for leaf in leaves(stmt.target) if isinstance(leaf, ast.Name))
        args = [source, constant(names), constant(single), *self.followed(stmt)]
        out = [set_name(loop, scope_call("for_", args, stmt.iter))]
        for number, name in enumerate(names):
            values = ast.Attribute(value=load(loop), attr="values", ctx=ast.Load())
            value: ast.expr = ast.Subscript(
                value=values, slice=ast.Constant(value=number), ctx=ast.Load()
            )
            with_location(value, stmt.target)
            out.append(set_name(name, scope_call("bind", [constant(name), value], stmt.target)))
        out += self.looped(stmt, None)
        out.append(statement(method_call(loop, "end", stmt.iter)))
        return out + self.reread(loop, self.flow.of(stmt).after, stmt.iter)

    def rounds(self, stmt: ast.For, iterable: str) -> list[ast.stmt]:
        """``for x in sequence``: a loop of Python, whose body is traced each time."""
        each, level = self.fresh(), self.fresh()
        value = with_location(load(each), stmt.target)
        at = with_location(ast.Pass(), stmt.target)
        if isinstance(stmt.target, (ast.Tuple, ast.List)):
            body = self.unpack(stmt.target, value, at)
        else:
            body = self.assign(stmt.target, value, at)
        body += self.looped(stmt, level)
        target = ast.Name(id=each, ctx=ast.Store())
        loop = ast.For(target=target, iter=load(iterable), body=body, orelse=[])
        return [set_name(level, scope_call("level", [], stmt.iter)), with_location(loop, stmt.iter)]

    def loop_source(self, node: ast.expr) -> ast.expr:
        """The iterable; ``range(...)`` takes device expressions, so it is called through us."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or _has_star(node):
            return self.expr(node)
        name = node.func.id
        if name not in ("enumerate", "zip") and (name != "range" or node.keywords):
            return self.expr(node)
        args = [self.expr(node.func), *map(self.expr, node.args)]
        call = scope_call("range" if name == "range" else "rounds", args, node)
        call.keywords = [ast.keyword(arg=k.arg, value=self.expr(k.value)) for k in node.keywords]
        return call

    def do_While(self, stmt: ast.While) -> list[ast.stmt]:
        if stmt.orelse:
            self.refuse(
                stmt.orelse[0], "`else` of a `while`", "write the statements after the loop"
            )
        loop = self.fresh()
        self.next_reads += self.flow.of(stmt).next_reads
        test = thunk(self.expr(stmt.test))
        del self.next_reads[len(self.next_reads) - len(self.flow.of(stmt).next_reads) :]
        args = [test, *self.followed(stmt)]
        out = [set_name(loop, scope_call("while_", args, stmt.test))]
        body = self.looped(stmt, None)
        begin = method_call(loop, "begin", stmt.test)
        out.append(with_location(ast.If(test=begin, body=body, orelse=[]), stmt.test))
        out.append(statement(method_call(loop, "end", stmt.test)))
        return out + self.reread(loop, self.flow.of(stmt).after, stmt.test)

    def do_With(self, stmt: ast.With) -> list[ast.stmt]:
        return self.with_items(stmt, list(stmt.items))

    def with_items(self, stmt: ast.With, items: list[ast.withitem]) -> list[ast.stmt]:
        if not items:
            return self.nested(stmt, 0, stmt.body)
        first, target = items[0], items[0].optional_vars
        targets = [] if target is None else list(leaves(target))
        names = tuple(leaf.id if isinstance(leaf, ast.Name) else "" for leaf in targets)
        args = [self.expr(first.context_expr), constant(names), *self.followed(stmt)]
        context = scope_call("with_", args, first.context_expr)
        frame, entered = self.fresh(), self.fresh()
        opened = set_name(frame, context)
        body: list[ast.stmt] = []
        if target is not None:
            value = with_location(load(entered), target)
            if isinstance(target, (ast.Tuple, ast.List)):
                body += self.unpack(target, value, with_location(ast.Pass(), target))
            else:
                body += self.assign(target, value, with_location(ast.Pass(), target))
        body += self.with_items(stmt, items[1:])
        entry = ast.withitem(
            context_expr=with_location(load(frame), first.context_expr),
            optional_vars=ast.Name(entered, ast.Store()),
        )
        with_stmt = with_location(ast.With(items=[entry], body=body), first.context_expr)
        return [
            opened,
            with_stmt,
            *self.reread(frame, self.flow.of(stmt).after, first.context_expr),
        ]

    def do_Break(self, stmt: ast.Break) -> list[ast.stmt]:
        if self.level is not None:
            return self.leave_round(stmt)
        return [statement(scope_call("break_", [], stmt))]

    def leave_round(self, stmt: ast.Break | ast.Continue) -> list[ast.stmt]:
        """``break`` or ``continue`` of a loop of Python."""
        args = [constant(type(stmt).__name__.lower()), load(str(self.level))]
        return [statement(scope_call("leave_round", args, stmt)), stmt]

    def do_Continue(self, stmt: ast.Continue) -> list[ast.stmt]:
        if self.level is not None:
            return self.leave_round(stmt)
        return [statement(scope_call("continue_", [], stmt))]

    def do_Return(self, stmt: ast.Return) -> list[ast.stmt]:
        value = ast.Constant(value=None) if stmt.value is None else self.expr(stmt.value)
        if not self.path:
            return [with_location(ast.Return(value=scope_call("return_", [value], stmt)), stmt)]
        temporary = self.fresh()
        ends = ast.If(
            test=scope_call("returns", [load(temporary)], stmt),
            body=[ast.Return(value=scope_call("return_", [load(temporary)], stmt))],
            orelse=[],
        )
        return [set_name(temporary, with_location(value, stmt)), with_location(ends, stmt)]

    # -- other statements ---------------------------------------------------------------------
    def do_Expr(self, stmt: ast.Expr) -> list[ast.stmt]:
        if isinstance(stmt.value, ast.Constant):
            return [stmt]
        value = stmt.value
        return [statement(scope_call("expr", [self.expr(value)], value))]

    def do_Assert(self, stmt: ast.Assert) -> list[ast.stmt]:
        text = ast.Constant(value=None) if stmt.msg is None else self.expr(stmt.msg)
        with_location(text, stmt)
        return [statement(scope_call("assert_", [self.expr(stmt.test), thunk(text)], stmt))]

    def do_Nonlocal(self, stmt: ast.Nonlocal) -> list[ast.stmt]:
        self.outer.update(stmt.names)
        return [stmt]


def _has_star(node: ast.AST) -> bool:
    return any(isinstance(child, ast.Starred) for child in ast.iter_child_nodes(node))


def _called(node: ast.Call) -> str:
    """The name of what is called, without the object that has it."""
    function = node.func
    return getattr(function, "attr" if isinstance(function, ast.Attribute) else "id", "")


def _has_return_inside(node: ast.FunctionDef) -> bool:
    nested = [part for stmt in node.body for part in below(stmt, _SCOPES) if part is not stmt]
    return any(isinstance(part, ast.Return) for part in nested)


def _depth(node: ast.AST) -> int:
    """The number of nodes around each other, at most."""
    level, below_it = 0, [node]
    while below_it:
        level += 1
        below_it = [part for parent in below_it for part in ast.iter_child_nodes(parent)]
    return level


def _inner_code(code: CodeType, name: str) -> CodeType:
    for nested in code.co_consts:
        if isinstance(nested, CodeType):
            return nested if nested.co_name == name else _inner_code(nested, name)
    raise LookupError(name)


def rewrite(
    fn: FunctionType, info: FunctionInfo, enter: Callable[[Mapping[str, object]], object], *,
    captured: Mapping[str, object] | None = None, attributes: bool = False,
    annotated: frozenset[str] = frozenset(), macro: bool = False,
) -> FunctionType:  # fmt: skip
    """``fn`` with its body turned into calls on the scope that ``enter(locals)`` returns.

    Args:
        fn: the user's function; its globals, closure cells and defaults are shared.
        info: from :func:`analyse`.
        enter: called at the start of each activation with the parameters' values.
        captured: names that only annotations use, which Python did not put into the closure.
        attributes: whether ``self.x = e`` is allowed.
        annotated: parameters whose annotation statements in the body are evaluated.
        macro: whether a `return` in a branch ends this function alone.

    Raises:
        TileSyntaxError: the body uses a construct that kernels do not have.
    """
    if any(isinstance(part, ast.Match) for part in below(info.node)):
        from tilelang.frontend.matches import without_match

        info = replace(info, node=without_match(info.node))
    if macro and _has_return_inside(info.node):
        from tilelang.frontend.returns import structured

        info = replace(info, node=structured(info.node))
    try:
        body = _Statements(info, attributes, annotated).block(info.node.body)
    except RecursionError:  # long sums and ladders of `elif` are deep trees
        raise_recursion_limit(_depth(info.node))
        body = _Statements(info, attributes, annotated).block(info.node.body)
    start = ast.Call(
        func=load("__tl_enter"),
        args=[ast.Call(func=load("__tl_locals"), args=[], keywords=[])],
        keywords=[],
    )
    first = set_name("__tl", with_location(start, info.node))
    name = "__tl_body"  # not the user's name: a recursive function looks that up outside
    node = new_function(name, _plain_arguments(info.node.args), first)
    node.body += body
    if macro:
        node.body.append(ast.Return(value=scope_call("returned", [], info.node)))
    with_location(node, info.node)
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or ()))
    for key, value in (captured or {}).items():
        cells.setdefault(key, CellType(value))
    cells["__tl_enter"], cells["__tl_locals"] = CellType(enter), CellType(locals)
    # An outer function, whose parameters are the free variables of ``node``.
    factory = with_location(new_function("__tl_factory", parameters(*sorted(cells)), node), node)
    module = ast.Module(body=[factory], type_ignores=[])
    flags = fn.__code__.co_flags & __future__.annotations.compiler_flag
    code = compile(module, info.filename, "exec", flags=flags, dont_inherit=True)
    inner = _inner_code(code, name).replace(co_name=fn.__code__.co_name)
    if hasattr(inner, "co_qualname"):
        inner = inner.replace(co_qualname=fn.__code__.co_qualname)
    closure = tuple(cells[free] for free in inner.co_freevars)
    function = FunctionType(inner, fn.__globals__, fn.__name__, fn.__defaults__, closure)
    function.__kwdefaults__ = fn.__kwdefaults__
    function.__qualname__, function.__module__ = fn.__qualname__, fn.__module__
    function.__doc__ = fn.__doc__
    return function


def _plain_arguments(arguments: ast.arguments) -> ast.arguments:
    """Parameters without annotations and defaults."""

    def bare(arg: ast.arg | None) -> Any:
        return None if arg is None else with_location(ast.arg(arg=arg.arg), arg)

    return ast.arguments(
        list(map(bare, arguments.posonlyargs)), list(map(bare, arguments.args)),
        bare(arguments.vararg), list(map(bare, arguments.kwonlyargs)),
        [None] * len(arguments.kwonlyargs), bare(arguments.kwarg), [],
    )  # fmt: skip
