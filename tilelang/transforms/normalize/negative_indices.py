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

from collections.abc import Iterator
from dataclasses import replace

from tilelang.errors import TileUnsupportedError
from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.bounds import Bounds, form_of, interval, least
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.facts import FactWalk, known_of
from tilelang.ir.intervals import INF, Interval
from tilelang.ir.prover import nonnegative
from tilelang.target import Context

_LEAVES = (S.Break, S.Continue, S.ThreadReturn)


def legalize_negative_indices(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with indices that are not negative, or outside.

    Relies on ``simplify``: conditions and extents are in their plain forms; and on tile operations
    being whole: what they lower to names elements that do not count from the end.

    Raises:
        TileUnsupportedError: an index of unknown sign has an effect, which must happen once.
    """
    known = known_of(func)
    rising = _counters(func)
    written, padded = frozenset(effects.written(func.body)), _padded(func)
    while True:
        at_least_zero: dict[E.Expr, Interval] = {
            load: Interval(0, INF) for load in _loads(func.body) if load.buffer.data in rising
        }
        bounds = replace(known, narrowed=at_least_zero)
        walk = _Wrap(bounds, written, padded, rising)
        body = walk.visit(func.body)
        if not walk.fallen:
            return func.with_body(body)
        rising -= walk.fallen


def _rises(expr: E.Expr, known: Bounds) -> bool:
    """Whether ``expr`` is at least 0 as index arithmetic, which is exact."""
    return expr.dtype.lanes == 1 and least(form_of(expr, known), known) >= 0


def _loads(body: S.Stmt) -> Iterator[E.Load]:
    exprs = (expr for stmt in S.walk(body) for expr in stmt.exprs())
    return (load for expr in exprs for load in E.find(expr, E.Load))


class _Wrap(FactWalk):
    """Counts elements from the start."""

    def __init__(
        self,
        known: Bounds,
        written: frozenset[E.Var],
        padded: frozenset[E.Var],
        rising: frozenset[E.Var],
    ) -> None:
        super().__init__(known, written)
        self.padded = padded
        self.rising = rising
        self.fallen: set[E.Var] = set()  # variables that may become negative after all

    def own(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt`` with the expressions that it has itself."""
        made = super().own(stmt)
        if isinstance(made, (S.Store, S.ReducerUpdate)):
            assert isinstance(stmt, (S.Store, S.ReducerUpdate))
            indices = self.place(stmt.buffer, stmt.indices, stmt)
            if any(a is not b for a, b in zip(indices, stmt.indices)):
                made = replace(made, indices=indices)
            if stmt.buffer.data in self.rising and not _rises(stmt.value, self.known):
                self.fallen.add(stmt.buffer.data)
        return made

    def rewritten(self, expr: E.Expr) -> E.Expr:
        """A node whose operands are asked for by :meth:`expr`."""
        if isinstance(expr, E.Load):
            indices = self.place(expr.buffer, expr.indices, expr)
            same = all(a is b for a, b in zip(indices, expr.indices))
            return expr if same else E.Load(expr.buffer, indices)
        if isinstance(expr, E.Call) and expr.atom.elements:
            args = tuple(map(self.address, expr.args))
            same = all(a is b for a, b in zip(args, expr.args))
            return expr if same else E.Call(expr.atom, args, expr.dtype, expr.attrs)
        return super().rewritten(expr)

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
        """The indices of an element, counted from the start."""
        found = []
        for index, extent in zip(indices, buffer.shape):
            new = self.expr(index)
            outside = buffer.data in self.padded and not isinstance(index, E.Const)
            if not outside and not self.is_known(index, buffer.shape):
                if not E.repeatable(new):
                    raise _effect(index, what)
                new = wrapped(new, extent, self.known)
            found.append(new)
        return tuple(found)

    def is_known(self, index: E.Expr, shape: Shape) -> bool:
        """Whether an index is not negative, or any element of the buffer is outside then."""
        if index.dtype.is_uint or index.dtype.is_bool:
            return True
        known = self.known
        for n in shape:
            if isinstance(n, E.Expr):
                known = known.given(n >= 1)
        return _rises(index, known) or nonnegative(index, known)


def wrapped(index: E.Expr, extent: int | E.Expr, known: Bounds) -> E.Expr:
    """``index`` counted from the start of a dimension."""
    if index.dtype.bits < 32:
        index = E.cast(index, DType("int32").with_lanes(index.dtype.lanes))
    moved = E.as_expr(index + extent)
    if index.dtype.lanes == 1 and interval(index, known).high < 0:
        return moved
    return E.select(index < 0, moved, index)


def _effect(index: E.Expr, what: object) -> TileUnsupportedError:
    return TileUnsupportedError(
        f"an index of unknown sign has an effect: `{index!r}`",
        expected="an index that can be looked at twice, as a negative one counts from the end",
        got=f"`{what!r}`",
        hint="give it a name first, e.g. `at = ...`, then index with `at`",
    )


def _padded(func: S.PrimFunc) -> frozenset[E.Var]:
    """Storage of tensors with a value for what is outside."""
    launches = S.find(func.body, S.Launch)
    return frozenset(
        buffer.data for launch in launches for buffer, _ in launch.annotation("safe_value", ())
    )


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
