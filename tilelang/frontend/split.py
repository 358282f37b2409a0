"""Expression splitting: expressions that are too deep, or too long as text, computed in steps.

A chain of some thousand operations is an expression as deep as it is long; functions that follow
it, and C compilers, give up at some depth. An expression that uses a value twice, which uses
another one twice, and so on, is short in memory, and its text doubles with each of them. So no
statement of a traced program has one: parts of it become values before the statement. What a lazy
operator may leave out stays left out: parts that are safe to compute anyway are computed before,
others in branches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E
from tilelang.ir.atoms import Effect
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.emitter import Emitter
from tilelang.ir.stmt import If, Stmt, Store, While
from tilelang.ir.visitor import postorder, rebuild, rewrite_exprs

MAX_DEPTH = 64  # of an expression of a statement
STEP = 32  # depth of the parts that become values
BREADTH = 8  # nodes of the text of an expression, for each level of the depth that it may have
MOST = 500  # choices of an expression that become branches
_TRAPS = frozenset(("floordiv", "floormod", "truncdiv", "truncmod"))


def split(builder: Emitter, stmt: Stmt) -> Stmt:
    """``stmt`` with shallow expressions; what they need is emitted before it."""
    if not any(_is_large(expr, MAX_DEPTH) for expr in stmt.exprs()):
        return stmt
    if isinstance(stmt, While):
        raise TileUnsupportedError(
            "the condition of `while` is too large",
            expected=f"{MAX_DEPTH} operations inside each other, {MAX_DEPTH * BREADTH} in all",
            got=f"{stmt.cond.depth} and {stmt.cond.size}",
            hint="compute it in the body, into a T.alloc_var that the condition reads",
        )
    return rewrite_exprs(stmt, lambda expr: _Splitter(builder, expr).value(expr, {}))


def _is_large(expr: E.Expr, depth: int = STEP) -> bool:
    """Whether ``expr`` is more than ``depth`` deep, or has more nodes than that may have."""
    return expr.depth > depth or expr.size > depth * BREADTH


class _Splitter:
    """Computes an expression in steps.

    Attributes:
        uses: how many operations use a part of the expression.
        branches: choices that have become branches.
    """

    def __init__(self, builder: Emitter, expr: E.Expr) -> None:
        self.builder = builder
        self.uses = Counter(part for node in postorder(expr) for part in node.children())
        self.branches = 0

    def value(self, expr: E.Expr, known: dict[E.Expr, E.Expr]) -> E.Expr:
        """The value of ``expr``, at most ``STEP`` + 1 deep; ``known`` has the values of parts."""
        stack = [expr]
        while stack:
            node = stack[-1]
            if node in known or not _is_large(node):
                known.setdefault(node, node)
                stack.pop()
                continue
            lazy = _choice(node)
            parts = node.children() if lazy is None else (lazy.cond,)
            pending = [part for part in parts if part not in known]
            if pending:
                stack += pending[::-1]
                continue
            stack.pop()
            if lazy is not None:
                known[node] = self.by_branches(lazy, known)
                continue
            rebuilt = rebuild(node, known.__getitem__)
            shared = (_is_large(rebuilt) or self.uses[node] > 1) and node is not expr
            named = not isinstance(rebuilt, E.RegionArg) and rebuilt.dtype not in ("handle", "void")
            known[node] = self.builder.let("part", rebuilt) if shared and named else rebuilt
        return known[expr]

    def by_branches(self, choice: E.Select, known: dict[E.Expr, E.Expr]) -> E.Expr:
        """The value of ``choice``: a chain of choices becomes a sequence of branches."""
        self.branches += 1
        if self.branches > MOST:
            raise TileUnsupportedError(
                f"an expression has more than {MOST} choices inside each other",
                hint="give a part that several choices use a name in the kernel or a @T.macro",
            )
        result = self.variable("part", choice.dtype, None)
        is_open = self.variable("is_open", DType("bool"), E.const(True))
        node: E.Expr = choice
        while True:
            link = _choice(node) if _is_large(node) else None
            with self.branch(E.as_expr(is_open)):
                if link is None:
                    self.set(result, self.value(node, {**known}))
                    break
                cond = self.value(link.cond, {**known})
                short, rest = link.t, link.f
                if short.depth > rest.depth:
                    short, rest, cond = rest, short, E.unary("lnot", cond)
                with self.branch(cond):
                    self.set(result, self.value(short, {**known}))
                    self.set(is_open, E.const(False))
            node = rest
        return self.builder.let("part", E.as_expr(result))

    def variable(self, name: str, kind: DType, init: E.Expr | None) -> Buffer:
        """A new variable."""
        return self.builder.alloc(Buffer(name, Shape((1,)), kind, "local.var"), init)

    def set(self, variable: Buffer, value: E.Expr) -> None:
        """Assign ``value``."""
        self.builder.emit(Store(buffer=variable, indices=(E.const(0),), value=value))

    @contextmanager
    def branch(self, cond: E.Expr) -> Iterator[None]:
        """The statements that run where ``cond`` holds."""
        block = self.builder.push("then")
        yield
        self.builder.emit(If(cond=cond, then=self.builder.pop(block), orelse=None))


def _choice(node: E.Expr) -> E.Select | None:
    """``node`` as a choice, if a large side of it has to be left out when it is not taken."""
    if isinstance(node, E.Binary) and node.op in ("land", "lor"):
        sides = (node.b, E.const(False)) if node.op == "land" else (E.const(True), node.b)
        node = E.Select(node.a, *sides)
    if not isinstance(node, E.Select) or not node.lazy:
        return None
    large = [side for side in (node.t, node.f) if _is_large(side)]
    return node if not all(map(_is_speculatable, large)) else None


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
