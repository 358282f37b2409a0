"""Negative indices of elements: an index that is known to be negative counts from the end.

A constant counts from the end (``A[-1]``), and so does an index that is always negative by the
ranges of loops, blocks and threads and by the conditions around it: ``A[i - 4]`` for ``i`` below 4.
In a vector of unknown signs each lane decides for itself. Any other index that is negative at run
time is out of bounds. This module decides it; later passes count indices from the start.

For a tensor with a safe value (``T.annotate_safe_value``) only constants count from the end. So do
only constants in regions: a tile that starts before a tensor is partly out of bounds.
"""

from __future__ import annotations

from dataclasses import replace
from operator import is_
from typing import TypeVar

from tilelang.errors import TileUnsupportedError
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.facts import FactWalk, known_of
from tilelang.ir.linear import Linear
from tilelang.ir.prover import decide, is_nonnegative

_ELEMENTS = (E.Load, E.AddressOf, S.Store, S.ReducerUpdate)
Node = TypeVar("Node", E.Expr, S.Stmt)


def count_from_end(func: S.PrimFunc) -> S.PrimFunc:
    """``func`` with the indices that are known to be negative counted from the start.

    Raises:
        TileUnsupportedError: an index of unknown sign has an effect, which must happen once.
    """
    walk = _Count(known_of(func), frozenset(effects.written(func.body)))
    for launch in S.find(func.body, S.Launch):
        walk.padded.update(buffer.data for buffer, _ in launch.hints.safe_value)
    return func.with_body(walk.visit(func.body))


class _Count(FactWalk):
    def __init__(self, known: Bounds, written: frozenset[E.Var]) -> None:
        super().__init__(known, written)
        self.padded: set[E.Var] = set()  # storage of tensors with a value for what is outside

    def own(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt`` with the expressions that it has itself."""
        return self.element(super().own(stmt))

    def rewritten(self, expr: E.Expr) -> E.Expr:
        """``expr`` with its own elements counted from the start."""
        new = super().rewritten(expr)
        if isinstance(new, E.Call) and new.atom.elements:
            args = tuple(map(self.element, new.args))
            return new if all(map(is_, args, new.args)) else replace(new, args=args)
        return new if isinstance(new, E.AddressOf) else self.element(new)

    def element(self, node: Node) -> Node:
        """``node``, its indices counted from the start if it names an element."""
        if not isinstance(node, _ELEMENTS) or node.buffer.data in self.padded:
            return node
        indices = tuple(map(self.index, node.indices, node.buffer.shape))
        return node if all(map(is_, indices, node.indices)) else replace(node, indices=indices)

    def index(self, index: E.Expr, extent: int | E.Expr) -> E.Expr:
        """One index of a dimension."""
        if isinstance(index, E.Const) or index.dtype.is_uint or index.dtype.is_bool:
            return index
        if decide("lt", index, E.const(0, index.dtype), self.known) and not _is_tail(index, extent):
            return _moved(index, extent)
        single, repeatable = index.dtype.lanes == 1, E.is_repeatable(index)
        if (single and repeatable) or is_nonnegative(index, self.known):
            return index
        if not repeatable:
            raise TileUnsupportedError(
                f"an index of unknown sign has a side effect: `{index!r}`",
                expected="an index without side effects: the bounds check evaluates it again",
                got=f"`{index!r}`",
                hint="give it a name first, e.g. `at = ...`, then index with `at`",
            )
        kind = _moved(index, extent).dtype.element_of
        match index:
            case E.Ramp():
                lanes = [E.as_expr(index.base + index.stride * k) for k in range(index.lanes)]
            case E.Vector():
                lanes = list(index.elements)
            case _:
                return E.select(index < 0, _moved(index, extent), index)
        return E.Vector(tuple(E.cast(self.lane(lane, extent), kind) for lane in lanes))

    def lane(self, index: E.Expr, extent: int | E.Expr) -> E.Expr:
        """A lane of a vector, which counts from the end where it is negative."""
        counted = self.index(index, extent)
        if counted is not index or is_nonnegative(index, self.known):
            return counted
        return index - E.binary("min", E.binary("max", index, -1), 0) * extent


def _moved(index: E.Expr, extent: int | E.Expr) -> E.Expr:
    """``index`` counted from the start, in at least 32 bits."""
    if isinstance(index, E.Ramp):
        base = _moved(index.base, extent)
        return E.Ramp(base, E.cast(index.stride, base.dtype), index.lanes)
    if index.dtype.bits < 32:
        index = E.cast(index, DType("int32").with_lanes(index.dtype.lanes))
    return E.as_expr(index + extent)


def _is_tail(index: E.Expr, extent: int | E.Expr) -> bool:
    """Whether ``index`` is a constant that counts from an end of unknown size."""
    return isinstance(extent, E.Expr) and (
        index.dtype is extent.dtype and not Linear.of(index).added(Linear.of(extent), -1).terms
    )
