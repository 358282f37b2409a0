"""Expression splitting: expressions deeper than recursive walks can go, computed in steps.

A chain of some thousand operations is an expression as deep as it is long; functions that follow
it, and C compilers, give up at some depth. So no statement of a traced program has one: parts of
it become values before the statement. What a lazy operator may leave out stays left out: parts
that are safe to compute anyway are computed before, others in branches.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E
from tilelang.ir.atoms import Effect
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.emitter import Emitter
from tilelang.ir.stmt import If, Stmt, Store, While
from tilelang.ir.visitor import rebuild, rewrite_exprs

MAX_DEPTH = 64  # of an expression of a statement
STEP = 32  # depth of the parts that become values
_TRAPS = frozenset(("floordiv", "floormod", "truncdiv", "truncmod"))


def split(builder: Emitter, stmt: Stmt) -> Stmt:
    """``stmt`` with shallow expressions; what they need is emitted before it."""
    if all(expr.depth <= MAX_DEPTH for expr in stmt.exprs()):
        return stmt
    if isinstance(stmt, While):
        raise TileUnsupportedError(
            "the condition of `while` is too deep",
            expected=f"at most {MAX_DEPTH} operations inside each other",
            got=f"{stmt.cond.depth}",
            hint="compute it in the body, into a T.alloc_var that the condition reads",
        )
    return rewrite_exprs(stmt, lambda expr: _shallow(builder, expr))


def _shallow(builder: Emitter, expr: E.Expr) -> E.Expr:
    """The value of ``expr``, at most ``STEP`` + 1 deep."""
    memo: dict[E.Expr, E.Expr] = {}
    stack = [expr]
    while stack:
        node = stack[-1]
        if node in memo or node.depth <= STEP:
            memo.setdefault(node, node)
            stack.pop()
            continue
        lazy = _choice(node)
        if lazy is not None:
            memo[node] = _by_branches(builder, lazy)
            stack.pop()
            continue
        pending = [part for part in node.children() if part not in memo]
        if pending:
            stack += pending[::-1]
            continue
        rebuilt = rebuild(node, memo.__getitem__)
        deep = rebuilt.depth > STEP and node is not expr
        named = not isinstance(rebuilt, E.RegionArg) and rebuilt.dtype not in ("handle", "void")
        if deep and named:
            rebuilt = builder.let("part", rebuilt)
        memo[node] = rebuilt
        stack.pop()
    return memo[expr]


def _choice(node: E.Expr) -> E.Select | None:
    """``node`` as a choice, if a deep side of it has to be left out when it is not taken."""
    if isinstance(node, E.Binary) and node.op in ("land", "lor"):
        true, false = E.const(True), E.const(False)
        sides = (node.b, false) if node.op == "land" else (true, node.b)
        node = E.Select(node.a, *sides)
    if not isinstance(node, E.Select) or not node.lazy:
        return None
    deep = [side for side in (node.t, node.f) if side.depth > STEP]
    return node if not all(map(_is_speculatable, deep)) else None


def _is_speculatable(expr: E.Expr) -> bool:
    """Whether ``expr`` may be computed where its value is not used."""
    for node in E.walk(expr):
        if isinstance(node, E.Load):
            if not node.buffer.is_var:
                return False
        elif isinstance(node, (E.AddressOf, E.RegionArg)):
            return False
        elif isinstance(node, E.Call):
            if node.atom.effect is not Effect.NONE:
                return False
        elif isinstance(node, E.Binary) and node.op in _TRAPS and node.dtype.is_integer:
            return False
    return True


def _by_branches(builder: Emitter, choice: E.Select) -> E.Expr:
    """The value of ``choice``: a chain of choices becomes a sequence of branches."""
    result = _variable(builder, "part", choice.dtype, None)
    is_open = _variable(builder, "is_open", DType("bool"), E.const(True))
    node: E.Expr = choice
    while True:
        link = _choice(node) if node.depth > STEP else None
        with _branch(builder, E.as_expr(is_open)):
            if link is None:
                _set(builder, result, _shallow(builder, node))
                break
            cond = _shallow(builder, link.cond)
            short, rest = link.t, link.f
            if short.depth > rest.depth:
                short, rest, cond = rest, short, E.unary("lnot", cond)
            with _branch(builder, cond):
                _set(builder, result, _shallow(builder, short))
                _set(builder, is_open, E.const(False))
        node = rest
    return builder.let("part", E.as_expr(result))


def _variable(builder: Emitter, name: str, kind: DType, init: E.Expr | None) -> Buffer:
    return builder.alloc(Buffer(name, Shape((1,)), kind, "local.var"), init)


def _set(builder: Emitter, variable: Buffer, value: E.Expr) -> None:
    builder.emit(Store(buffer=variable, indices=(E.const(0),), value=value))


@contextmanager
def _branch(builder: Emitter, cond: E.Expr) -> Iterator[None]:
    block = builder.push("then")
    yield
    builder.emit(If(cond=cond, then=builder.pop(block), orelse=None))
