"""Legalization of negative indices: those of elements count from the end, as in Python.

``A[t - 2]`` reads the last but one element where t is 0. An index whose sign is not known becomes
``i + n if i < 0 else i``; one that is certainly negative ``i + n``. Ranges, conditions and facts
(:mod:`signs`) show for most indices that they are not negative, and nothing is added there. An
index below ``-n`` is negative afterwards, too, and so outside.

Of a tensor with a value for what is outside (``T.annotate_safe_value``), only constants count from
the end: any other negative index is outside there.

Loads, stores, atomics and updates of reducers name elements. Regions of tile operations do not: a
tile that starts before a tensor lies partly outside.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilelang.errors import TileUnsupportedError
from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.bounds import INF, Bounds, Interval, interval
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.visitor import rebuild, rewrite_blocks
from tilelang.target import Context
from tilelang.transforms.normalize.sign_analysis import Signs, form_of

_LEAVES = (S.Break, S.Continue, S.ThreadReturn)


def legalize_negative_indices(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with indices that are not negative, or outside.

    Relies on ``simplify``: conditions and extents are in their plain forms; and on tile operations
    being whole: what they lower to names elements that do not count from the end.

    Raises:
        TileUnsupportedError: an index of unknown sign has an effect, which must happen once.
    """
    bounds = Bounds()
    for symbol in _sizes(func):
        bounds = bounds.with_interval(symbol, Interval(0, INF))
    rising = _counters(func)
    written, padded = frozenset(effects.written(func.body)), _padded(func)
    while True:
        walk = _Wrap(Signs(bounds, rising=rising), written, padded)
        body = walk.visit(func.body)
        if not walk.fallen:
            return func.with_body(body)
        rising -= walk.fallen


class SignWalk:
    """Rewrites expressions with what is known of signs where they stand.

    Args:
        written: storage that changes.
        padded: storage of tensors with a value for what is outside.
    """

    def __init__(
        self, signs: Signs, written: frozenset[E.Var], padded: frozenset[E.Var] = frozenset()
    ) -> None:
        self.signs = signs
        self.written = written
        self.padded = padded
        self.fallen: set[E.Var] = set()  # variables that may become negative after all
        self.memos: dict[Signs, dict[E.Expr, E.Expr]] = {}

    # -- statements --------------------------------------------------------------------------------
    def visit(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt`` with its expressions rewritten."""
        if isinstance(stmt, S.Seq):
            return self.sequence(stmt)
        outer = self.signs
        made = self.own(stmt)
        if isinstance(stmt, S.If):
            made = self.branch(stmt, made)
        elif made.blocks():
            self.signs = self.inside(stmt)
            made = rewrite_blocks(made, self.visit)
        self.signs = outer
        return made

    def sequence(self, stmt: S.Seq) -> S.Stmt:
        """Statements in order; what one of them shows holds for those after it."""
        outer = self.signs
        found = []
        for item in stmt.stmts:
            found.append(self.visit(item))
            self.signs = self.after(item)
        self.signs = outer
        return stmt.of(found)

    def after(self, stmt: S.Stmt) -> Signs:
        """What is known once ``stmt`` is done."""
        signs = self.signs
        if isinstance(stmt, S.Let) and not E.holds(stmt.value, E.Load, E.Call):
            if stmt.value.dtype.is_integer and stmt.value.dtype.lanes == 1:
                return replace(signs, lets={**signs.lets, stmt.var: signs.resolved(stmt.value)})
        if isinstance(stmt, S.Assert):
            return signs.given(stmt.cond, True, self.written)
        if isinstance(stmt, S.If):
            if stmt.orelse is None and _leaves(stmt.then):
                return signs.given(stmt.cond, False, self.written)
            if stmt.orelse is not None and _leaves(stmt.orelse):
                return signs.given(stmt.cond, True, self.written)
        return signs

    def inside(self, stmt: S.Stmt) -> Signs:
        """What is known in the blocks of ``stmt``."""
        signs = self.signs
        if isinstance(stmt, S.Launch):
            for var, extent in (*zip(stmt.block_vars, stmt.grid),
                                *zip(stmt.thread_vars, map(E.as_expr, stmt.threads))):  # fmt: skip
                signs = signs.within(var, E.const(0), extent, 1)
        elif isinstance(stmt, S.Parallel):
            for var, extent in zip(stmt.vars, stmt.extents):
                signs = signs.within(var, E.const(0), extent, 1)
        elif isinstance(stmt, S.For):
            step = int(stmt.step.value) if isinstance(stmt.step, E.Const) else 0
            signs = signs.within(stmt.var, stmt.start, stmt.stop, step)
        elif isinstance(stmt, S.While):
            signs = signs.given(stmt.cond, True, _changed(stmt.cond, stmt.body))
        return signs

    def branch(self, stmt: S.If, made: S.Stmt) -> S.Stmt:
        """Both sides, each with what the condition says there."""
        assert isinstance(made, S.If)
        known = self.signs
        self.signs = known.given(stmt.cond, True, _changed(stmt.cond, stmt.then))
        then = self.visit(stmt.then)
        orelse = stmt.orelse
        if orelse is not None:
            self.signs = known.given(stmt.cond, False, _changed(stmt.cond, orelse))
            orelse = self.visit(orelse)
        if then is stmt.then and orelse is stmt.orelse:
            return made
        return replace(made, then=then, orelse=orelse)

    def own(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt`` with the expressions that it has itself."""
        changed: dict[str, Any] = {}
        for name, role in stmt.role_table().items():
            old = getattr(stmt, name)
            if old is None or role not in ("expr", "exprs", "read", "write", "update"):
                continue
            new = tuple(map(self.operand, old)) if isinstance(old, tuple) else self.operand(old)
            if isinstance(old, tuple) and all(a is b for a, b in zip(old, new)):
                continue
            if new is not old:
                changed[name] = new
        if isinstance(stmt, (S.Store, S.ReducerUpdate)):
            indices = self.place(stmt.buffer, stmt.indices, stmt)
            if any(a is not b for a, b in zip(indices, stmt.indices)):
                changed["indices"] = indices
            if stmt.buffer.data in self.signs.rising and not self.signs.nonnegative(stmt.value):
                self.fallen.add(stmt.buffer.data)
        return replace(stmt, **changed) if changed else stmt

    def operand(self, old: Any) -> Any:
        """An expression or region of a statement."""
        if isinstance(old, E.Expr):
            return self.expr(old)
        return old.map(self.expr) if hasattr(old, "map") else old

    # -- expressions -------------------------------------------------------------------------------
    def expr(self, expr: E.Expr) -> E.Expr:
        """``expr`` rewritten."""
        if not self.concerns(expr):
            return expr
        memo = self.memos.setdefault(self.signs, {})
        if expr not in memo:
            for node in self.chain(expr):  # what is below is known then: no deep recursion
                if node not in memo:
                    memo[node] = self.rewritten(node)
        return memo[expr]

    def concerns(self, expr: E.Expr) -> bool:
        """Whether anything in ``expr`` may change."""
        return E.holds(expr, E.Load, E.Call)

    def chain(self, expr: E.Expr) -> list[E.Expr]:
        """``expr`` after the operands of sums, products and the like that stand in it."""
        found = [expr]
        for node in found:
            if isinstance(node, E.Binary) and node.op not in ("land", "lor"):
                found += [part for part in (node.a, node.b) if self.concerns(part)]
        return found[::-1]

    def rewritten(self, expr: E.Expr) -> E.Expr:
        """A node whose operands are asked for by :meth:`expr`."""
        if isinstance(expr, E.Select) and expr.lazy:
            cond = self.expr(expr.cond)
            t, f = self.where(expr.cond, True, expr.t), self.where(expr.cond, False, expr.f)
            same = cond is expr.cond and t is expr.t and f is expr.f
            return expr if same else E.Select(cond, t, f, True)
        if isinstance(expr, E.Binary) and expr.op in ("land", "lor"):
            a, b = self.expr(expr.a), self.where(expr.a, expr.op == "land", expr.b)
            return expr if a is expr.a and b is expr.b else E.Binary(expr.op, a, b)
        if isinstance(expr, E.Load):
            indices = self.place(expr.buffer, expr.indices, expr)
            same = all(a is b for a, b in zip(indices, expr.indices))
            return expr if same else E.Load(expr.buffer, indices)
        if isinstance(expr, E.Call) and expr.atom.elements:
            args = tuple(map(self.address, expr.args))
            same = all(a is b for a, b in zip(args, expr.args))
            return expr if same else E.Call(expr.atom, args, expr.dtype, expr.attrs)
        return rebuild(expr, self.expr)

    def where(self, cond: E.Expr, holds: bool, expr: E.Expr) -> E.Expr:
        """``expr``, which is evaluated where ``cond`` holds, or does not."""
        outer = self.signs
        self.signs = outer.given(cond, holds)
        found = self.expr(expr)
        self.signs = outer
        return found

    def address(self, arg: E.Expr) -> E.Expr:
        """An operand of a call that reads or writes an element."""
        if not isinstance(arg, E.AddressOf):
            return self.expr(arg)
        indices = self.place(arg.buffer, arg.indices, arg)
        same = all(a is b for a, b in zip(indices, arg.indices))
        return arg if same else E.AddressOf(arg.buffer, indices, arg.access)

    def place(
        self, buffer: Buffer, indices: tuple[E.Expr, ...], what: object
    ) -> tuple[E.Expr, ...]:
        """The indices of an element."""
        return tuple(map(self.expr, indices))


class _Wrap(SignWalk):
    """Counts elements from the start."""

    def place(
        self, buffer: Buffer, indices: tuple[E.Expr, ...], what: object
    ) -> tuple[E.Expr, ...]:
        """The indices of an element, counted from the start."""
        found = []
        for index, extent in zip(indices, buffer.shape):
            new = self.expr(index)
            outside = buffer.data in self.padded and not isinstance(index, E.Const)
            if not outside and not self.known(index, buffer.shape):
                if not E.repeatable(new):
                    raise _effect(index, what)
                new = wrapped(new, extent, self.signs)
            found.append(new)
        return tuple(found)

    def known(self, index: E.Expr, shape: Shape) -> bool:
        """Whether an index is not negative, or any element of the buffer is outside then."""
        if index.dtype.is_uint or index.dtype.is_bool:
            return True
        if self.signs.nonnegative(index):
            return True
        open_ends = [form_of(n) for n in shape if isinstance(n, E.Expr)]
        if not open_ends:
            return False
        there = [replace(form, constant=form.constant - 1) for form in open_ends]
        return self.signs.with_facts(there).nonnegative(index)


def wrapped(index: E.Expr, extent: int | E.Expr, signs: Signs) -> E.Expr:
    """``index`` counted from the start of a dimension."""
    if index.dtype.bits < 32:
        index = E.cast(index, DType("int32").with_lanes(index.dtype.lanes))
    moved = E.as_expr(index + extent)
    if index.dtype.lanes == 1 and interval(index, signs.bounds).high < 0:
        return moved
    return E.select(index < 0, moved, index)


def _effect(index: E.Expr, what: object) -> TileUnsupportedError:
    return TileUnsupportedError(
        f"an index of unknown sign has an effect: `{index!r}`",
        expected="an index that can be looked at twice, as a negative one counts from the end",
        got=f"`{what!r}`",
        hint="give it a name first, e.g. `at = ...`, then index with `at`",
    )


def _leaves(stmt: S.Stmt) -> bool:
    """Whether what stands after ``stmt`` is not reached from it."""
    if isinstance(stmt, S.Seq):
        return any(map(_leaves, stmt.stmts))
    return isinstance(stmt, _LEAVES)


def _padded(func: S.PrimFunc) -> frozenset[E.Var]:
    """Storage of tensors with a value for what is outside."""
    launches = S.find(func.body, S.Launch)
    return frozenset(
        buffer.data for launch in launches for buffer, _ in launch.annotation("safe_value", ())
    )


def _sizes(func: S.PrimFunc) -> set[E.Var]:
    """The variables in shapes and strides of parameters."""
    parts = [n for buffer in func.buffers for n in (*buffer.shape, *(buffer.strides or ()))]
    return {var for part in parts if isinstance(part, E.Expr) for var in part.variables}


def _changed(cond: E.Expr, block: S.Stmt) -> frozenset[E.Var]:
    """The storage that ``block`` writes, if ``cond`` loads something."""
    return frozenset(effects.written(block)) if E.holds(cond, E.Load) else frozenset()


def _counters(func: S.PrimFunc) -> frozenset[E.Var]:
    """Integer variables that start at 0 or above and are only assigned to."""
    found: set[E.Var] = set()
    other: set[E.Var] = set()
    for node in S.walk(func.body):
        if isinstance(node, S.Alloc) and node.buffer.storage == "local.var":
            first = node.init
            if node.buffer.dtype.is_int and node.buffer.dtype.lanes == 1:
                if first is None or interval(first).low >= 0:
                    found.add(node.buffer.data)
        other.update(
            access.data
            for access in effects.accesses(node)
            if access.how is not effects.How.PLAIN
            or (access.writes and isinstance(access.by, S.TileOp))
        )
    return frozenset(found - other)
