"""Simplify expressions by the facts at their statement: constant folding, dead code elimination.

Folds constants, merges linear index arithmetic, and decides conditions by the ranges of loop and
block variables, by the values of names and by enclosing conditions. A decided branch loses its dead
side. Two kinds of statements are removed: parallel loops without iterations, and register fences of
fragments whose registers the compiler assigns. After lowering, a loop of one iteration becomes its
body.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tilelang.ir import effects, expr as E, stmt as S, visitor
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer, is_same_extent
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.facts import FactWalk, known_of
from tilelang.ir.prover import decide, is_nonnegative
from tilelang.ir.simplify import simplify
from tilelang.target import Context
from tilelang.transforms.analysis.loops import values_of

_SHIFTS = ("shl", "shr")
_DECLARATIONS = (S.Let, S.Alloc, S.View)


def simplify_func(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with all expressions simplified."""
    return _simplified(func, SimplifyWalk)


def simplify_lowered(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with all expressions simplified, and loops of one iteration as their bodies. Passes
    before that lower a pipelined loop, however many iterations it has."""
    declared = Counter(map(_declared, S.find(func.body, *_DECLARATIONS)))

    def opened(loop: S.For) -> S.Stmt | list[S.Stmt]:
        """The body for the only iteration, unless that needs the loop or a scope of its own."""
        values = values_of(loop) or ()
        scope = [stmt for stmt in _scope(loop.body) if isinstance(stmt, _DECLARATIONS)]
        is_shared = any(declared[_declared(stmt)] > 1 for stmt in scope)
        if len(values) != 1 or is_shared or S.holds(loop.body, S.Break, S.Continue):
            return loop
        value = E.const(values[0], loop.var.dtype)
        body = S.flat(visitor.substitute_in(loop.body, {loop.var: value}))
        return [visitor.replace_changed(stmt, loc=stmt.loc or loop.loc) for stmt in body]

    return simplify_func(func.with_body(visitor.map_stmts(func.body, S.For, opened)), context)


def simplify_and_bound_shifts(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with all expressions simplified, and no shift by the width or more. That is once,
    before lowering, which keeps the shifts and not the conditions that show their counts."""
    if not any(_has_shift(expr) for stmt in S.walk(func.body) for expr in stmt.exprs()):
        return _simplified(func, SimplifyWalk)
    return _simplified(func, _Bound if context.has("cores") else _BoundInKernels)


def _scope(*body: S.Stmt) -> tuple[S.Stmt, ...]:
    """The statements of ``body``, and those of its branches, which may become part of it."""
    sides = [side for stmt in S.flat(*body) if isinstance(stmt, S.If) for side in stmt.blocks()]
    return S.flat(*body) + (_scope(*sides) if sides else ())


def _declared(stmt: S.Let | S.Alloc | S.View) -> E.Var | Buffer:
    return stmt.var if isinstance(stmt, S.Let) else stmt.buffer


def _simplified(func: S.PrimFunc, kind: type[SimplifyWalk]) -> S.PrimFunc:
    launches = S.find(func.body, S.Launch)
    walk = kind(known_of(func), frozenset(effects.written(func.body)))
    walk.laid_out = frozenset(b for launch in launches for b, _ in launch.hints.layout_map)
    return func.with_body(walk.visit(func.body))


class SimplifyWalk(FactWalk):
    """Simplifies statements with the facts that hold there."""

    laid_out: frozenset[Buffer] = frozenset()

    def expr(self, expr: E.Expr) -> E.Expr:
        """``expr`` simplified."""
        return simplify(expr, self.known)

    def visit(self, stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.If):
            cond = simplify(stmt.cond, self.known)
            if isinstance(cond, E.Const):
                side = stmt.then if cond.value else stmt.orelse
                return S.Seq(stmts=()) if side is None else self.visit(side)
        result = super().visit(stmt)
        is_empty = any(is_same_extent(extent, 0) for extent in _extents(result))
        fences = isinstance(result, S.Eval) and self._fences_fragment(result.value)
        return S.Seq(stmts=()) if is_empty or fences else result

    def own(self, stmt: S.Stmt) -> S.Stmt:
        return _rewritten(stmt, self.expr)

    def _fences_fragment(self, value: E.Expr) -> bool:
        """Whether a fence is about a tile whose registers the compiler chooses and orders itself:
        a fragment to which the program gives no layout."""
        if not isinstance(value, E.Call) or value.atom.semantics != "keep registers":
            return False
        address = value.args[0]
        if not isinstance(address, E.AddressOf) or address.buffer in self.laid_out:
            return False
        return address.buffer.storage == "local.fragment"


class _Bound(SimplifyWalk):
    """Looks at every shift, too."""

    def own(self, stmt: S.Stmt) -> S.Stmt:
        return _rewritten(stmt, lambda expr: self.expr(simplify(expr, self.known)))

    def expr(self, expr: E.Expr) -> E.Expr:
        """``expr``, which is simple, with its shifts bounded."""
        return FactWalk.expr(self, expr)

    def concerns(self, expr: E.Expr) -> bool:
        """Whether a shift is in ``expr``."""
        return _has_shift(expr)

    def rewritten(self, expr: E.Expr) -> E.Expr:
        """``expr`` with its own shift below the width."""
        if not isinstance(expr, E.Binary) or expr.op not in _SHIFTS:
            return super().rewritten(expr)
        rebuilt = visitor.rebuild(expr, self.expr)
        assert isinstance(rebuilt, E.Binary)
        return _bounded(rebuilt, self.known)


class _BoundInKernels(_Bound):
    """Leaves the grids to the host, whose programs have defined shifts."""

    def own(self, stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.Launch):
            return visitor.rewrite_exprs(stmt, lambda expr: simplify(expr, self.known))
        return super().own(stmt)


def _rewritten(stmt: S.Stmt, fn: visitor.ExprFn) -> S.Stmt:
    """``stmt`` with ``fn`` applied to its expressions. The element that an update stores stays the
    one that it reads: a condition inside its value could say more of the index there."""
    new = visitor.rewrite_exprs(stmt, fn)
    if isinstance(new, S.Assert) and new.assumed and isinstance(new.cond, E.Const):
        return stmt  # known from around it; passes that look at a kernel alone learn it here
    if not (isinstance(stmt, S.Store) and isinstance(new, S.Store)) or new.value is stmt.value:
        return new
    unlike = _loads_of(new.buffer, new.value) - {E.Load(new.buffer, new.indices)}
    element = E.Load(stmt.buffer, stmt.indices)
    before = _loads_of(stmt.buffer, stmt.value)
    if element not in before or unlike <= {fn(load) for load in before}:
        return new
    unknown = tuple(E.Var("index", index.dtype) for index in stmt.indices)
    value = fn(visitor.replace_nodes(stmt.value, {element: E.Load(stmt.buffer, unknown)}))
    return visitor.replace_changed(
        new, value=visitor.substitute(value, dict(zip(unknown, new.indices)))
    )


def _loads_of(buffer: Buffer, expr: E.Expr) -> set[E.Load]:
    return {load for load in E.find(expr, E.Load) if load.buffer is buffer}


def _extents(stmt: S.Stmt) -> Sequence[E.Expr | int]:
    """Numbers of which none is 0 if ``stmt`` does anything."""
    if isinstance(stmt, S.Fill) or (isinstance(stmt, S.Copy) and stmt.mode == "copy"):
        return stmt.dst.extents
    return stmt.extents if isinstance(stmt, S.Parallel) else ()


def _has_shift(expr: E.Expr) -> bool:
    """Whether a shift is in ``expr``."""
    return any(node.op in _SHIFTS for node in E.find(expr, E.Binary))


def _bounded(shift: E.Binary, known: Bounds) -> E.Expr:
    """``shift``, by less than the width for all that is ``known``."""
    width = E.const(shift.dtype.element_of.bits, shift.b.dtype.element_of)
    if is_nonnegative(shift.b, known) and decide("lt", shift.b, width, known):
        return shift
    return _bounded_shift(shift)


def _bounded_shift(shift: E.Binary) -> E.Expr:
    """``shift`` with what it gives for any count."""
    kind, lanes = shift.dtype.element_of, shift.dtype.lanes
    unsigned = DType(f"uint{kind.bits}")
    count = E.cast(shift.b, unsigned.with_lanes(lanes))
    if shift.op == "shr" and kind.is_int:
        last = E.cast(E.binary("min", count, E.const(kind.bits - 1, unsigned)), shift.dtype)
        return E.binary("shr", shift.a, last)
    inside = E.binary("lt", count, E.const(kind.bits, unsigned))
    masked = E.cast(E.binary("bitand", count, E.const(kind.bits - 1, unsigned)), shift.dtype)
    return E.select(inside, E.Binary(shift.op, shift.a, masked), E.const(0, kind), lazy=False)
