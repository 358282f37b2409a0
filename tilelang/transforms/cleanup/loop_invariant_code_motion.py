"""Loop-invariant code motion: invariant parts of indices of unrolled loops are hoisted.

A loop that is unrolled leaves its index arithmetic once per copy in what the CUDA compiler has
to optimise, and most of that is about the block and the thread. Naming those parts before the loop
makes the text shorter to read and about a third faster to compile; the machine code is the same.

An index is a sum. What of it does not mention a variable of the loop becomes a constant
(``A_at``), and so does any such part inside the rest. The same part is named once in a block and
what is below it. Indices stay exact: a name stands for the value before any wrapping.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Region
from tilelang.ir.indices import widens
from tilelang.ir.linear import Linear
from tilelang.ir.visitor import rebuild, rewrite_blocks
from tilelang.target import Context
from tilelang.transforms.analysis.loops import UNROLLED

_LEAST = 2  # operations that are worth a name
_DIVISIONS = ("floordiv", "floormod", "truncdiv", "truncmod")
_RING = ("add", "sub", "mul")
_OTHERS = ("bitxor", "bitand", "bitor", "min", "max")


def hoist_loop_invariants(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with names for the unchanging parts of the indices in unrolled loops."""
    return func.with_body(_Scope({}).visit(func.body))


class _Scope:
    """One block of statements with the names that can be used in it."""

    def __init__(self, named: dict[E.Expr, E.Var]) -> None:
        self.named = named

    def visit(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt`` with names before its unrolled loops."""
        if isinstance(stmt, S.For) and stmt.kind in UNROLLED and not _single(stmt):
            nest = _Nest(self.named, stmt)
            body = nest.stmt(stmt)
            return S.seq(*nest.lets, body) if nest.lets else body
        if isinstance(stmt, S.Seq):
            return stmt.of([self.visit(child) for child in stmt.stmts])
        return rewrite_blocks(stmt, lambda block: _Scope(dict(self.named)).visit(block))


class _Nest:
    """An unrolled loop with everything in it."""

    def __init__(self, named: dict[E.Expr, E.Var], loop: S.For) -> None:
        self.named = named
        self.loop = loop
        self.lets: list[S.Let] = []
        self.inner = S.bound(loop)
        self.parts: dict[E.Expr, E.Expr] = {}
        self.fixed: dict[E.Expr, bool] = {}
        self.sizes: dict[E.Expr, int] = {}
        self.label = "at"

    # -- statements ------------------------------------------------------------------------------
    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt`` with names in its indices."""
        changed: dict[str, Any] = {}
        for name, role in stmt.role_table().items():
            old = getattr(stmt, name)
            if role in ("expr", "exprs", "block", "read", "write", "update"):
                new = self.field(old, _label(stmt, name))
                if new is not old:
                    changed[name] = new
        return replace(stmt, **changed) if changed else stmt

    def field(self, old: Any, label: str) -> Any:
        """A field of a statement."""
        if isinstance(old, tuple):
            new = tuple(self.field(element, label) for element in old)
            return old if all(a is b for a, b in zip(old, new)) else new
        if isinstance(old, S.Stmt):
            return self.stmt(old)
        self.label = label
        if isinstance(old, E.Expr):
            return self.expr(old)
        return old.map(self.expr) if isinstance(old, Region) else old

    # -- expressions -----------------------------------------------------------------------------
    def expr(self, expr: E.Expr) -> E.Expr:
        """``expr`` with its unchanging parts named."""
        result = self.parts.get(expr)
        if result is None:
            result = self.parts[expr] = self.changed(expr)
        return result

    def changed(self, expr: E.Expr) -> E.Expr:
        """As :meth:`expr`, decided anew."""
        if not expr.children():
            return expr
        if isinstance(expr, (E.Load, E.AddressOf)):
            outer, self.label = self.label, f"{expr.buffer.name}_at"
            new = rebuild(expr, self.expr)
            self.label = outer
            return new
        if not _arithmetic(expr):
            return rebuild(expr, self.expr)
        if isinstance(expr, E.Binary) and expr.op in ("add", "sub"):
            split = self.split(expr)
            if split is not None:
                return split
        if self.unchanging(expr):
            return self.name(expr) if self.size(expr) >= _LEAST else expr
        return rebuild(expr, self.expr)

    def split(self, expr: E.Expr) -> E.Expr | None:
        """A sum with one name for its unchanging terms; None where they are not worth one."""
        form = Linear.of(expr)
        fixed = [pair for pair in form.terms if self.unchanging(pair[0])]
        base = _sum(fixed, expr)
        if base is None or self.size(base) < _LEAST:
            return None
        kept: list[tuple[E.Expr, int]] = [(self.name(base), 1)]
        kept += [(self.expr(term), factor) for term, factor in form.terms
                 if not self.unchanging(term)]  # fmt: skip
        total = _sum(kept, expr)
        assert total is not None  # it has the name at least
        return E.binary("add", total, E.const(form.constant, expr.dtype))

    def name(self, value: E.Expr) -> E.Var:
        """The constant that stands for ``value``."""
        var = self.named.get(value)
        if var is None:
            var = self.named[value] = E.Var(self.label, value.dtype)
            self.lets.append(S.Let(var=var, value=value, loc=self.loop.loc))
        return var

    def unchanging(self, expr: E.Expr) -> bool:
        """Whether ``expr`` is arithmetic that has the same value in every iteration."""
        invariant = self.fixed.get(expr)
        if invariant is None:
            if isinstance(expr, E.Var):
                invariant = expr not in self.inner
            else:
                plain = isinstance(expr, E.Const) or _arithmetic(expr)
                invariant = plain and all(self.unchanging(child) for child in expr.children())
            self.fixed[expr] = invariant
        return invariant

    def size(self, expr: E.Expr) -> int:
        """Operations in ``expr``."""
        count = self.sizes.get(expr)
        if count is None:
            below = sum([self.size(child) for child in expr.children()])
            count = self.sizes[expr] = below + isinstance(expr, (E.Binary, E.Unary))
        return count


def _label(stmt: S.Stmt, field: str) -> str:
    """What a part of a field of ``stmt`` is called."""
    return f"{stmt.buffer.name}_at" if isinstance(stmt, S.Store) and field == "indices" else "at"


def _single(loop: S.For) -> bool:
    """Whether the loop has at most one iteration."""
    start, stop = loop.start, loop.stop
    if isinstance(start, E.Const) and isinstance(stop, E.Const):
        return int(stop.value) - int(start.value) <= 1
    return False


def _arithmetic(expr: E.Expr) -> bool:
    """Whether ``expr`` is an operation of index arithmetic, which may be evaluated anywhere."""
    if expr.dtype not in ("int32", "int64"):
        return False
    if isinstance(expr, E.Binary):
        if expr.op in _DIVISIONS:
            return isinstance(expr.b, E.Const) and expr.b.value != 0
        return expr.op in _RING or expr.op in _OTHERS
    if isinstance(expr, E.Cast):
        return widens(expr)
    return isinstance(expr, E.Unary) and expr.op == "neg"


def _sum(terms: Iterable[tuple[E.Expr, int]], like: E.Expr) -> E.Expr | None:
    """The sum of factor times term, positive ones first; None for no terms."""
    total: E.Expr | None = None
    for term, factor in sorted(terms, key=lambda pair: pair[1] < 0):
        scale = abs(factor) if total is not None else factor
        product = E.binary("mul", term, E.const(scale, like.dtype))
        if total is None:
            total = product
        else:
            total = E.binary("add" if factor > 0 else "sub", total, product)
    return total
