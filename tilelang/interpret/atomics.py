"""Atomic operations: one step per executing lane, in lane order."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilelang.errors import TileTypeError
from tilelang.interpret import memory, values
from tilelang.interpret.lanes import Active
from tilelang.interpret.memory import Bound
from tilelang.interpret.values import Array, Value
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import AddressOf, Call, Expr, Load
from tilelang.layout.evaluate import ranks

if TYPE_CHECKING:
    from tilelang.interpret.machine import DivergentGroup


def _target(expr: Expr) -> tuple[Buffer, tuple[Expr, ...]]:
    if isinstance(expr, (AddressOf, Load)):
        return expr.buffer, expr.indices
    raise TileTypeError(
        "an atomic needs a buffer element as its destination", expected="A[i, j]", got=f"`{expr!r}`"
    )


def update(
    s: DivergentGroup, bound: Bound, indices: list[Value], value: Value, op: str, active: Active,
    want_old: bool,
) -> Value:  # fmt: skip
    """``bound[indices] = op(bound[indices], value)`` once per active lane, in order.

    Gives what each lane found before its own step (zeros where ``want_old`` is false).
    """
    kind = bound.buffer.dtype
    members = s.lanes.members(active)
    picked = [np.broadcast_to(index, s.lanes.count)[members] for index in indices]
    amount = np.broadcast_to(value, s.lanes.count)[members]
    if bound.memory.space is not None:
        bound.memory.spread()
    copy = s.copies(bound)
    copy = None if copy is None else copy[members]
    linear, inside = memory.locate(bound, picked, copy)
    linear = np.where(inside, linear, -1) + np.zeros(members.size, np.int64)
    rank = ranks(linear)
    previous: Any = np.zeros(s.lanes.count, values.compute_dtype(kind))
    for step in range(int(rank.max(initial=-1)) + 1):
        is_turn = rank == step
        if step == 1 and not want_old and _repeat(s, bound, linear, amount, rank, op):
            break
        element = [index[is_turn] for index in picked]
        part = None if copy is None else copy[is_turn]
        need = None if bool(np.all(linear[is_turn] >= 0)) else linear[is_turn] >= 0
        if op not in ("exch", "store"):
            old = memory.read(bound, element, need, part, s.site, s.run.safe_memory)
            new = values.combine(op, old, amount[is_turn], kind)
        else:
            old = (
                memory.read(bound, element, need, part, s.site, s.run.safe_memory)
                if op == "exch"
                else np.zeros(())
            )
            new = amount[is_turn]
        memory.write(bound, element, new, None, part, s.site, s.run.safe_memory)
        previous[members[is_turn]] = old
    return previous


_REPEATED: dict[str, Any] = {"add": np.add, "max": np.fmax, "min": np.fmin}


def _repeat(
    s: DivergentGroup, bound: Bound, linear: Array, amount: Array, rank: Array, op: str
) -> bool:
    """Make all steps after the first of each element in one call, where numpy's types allow it."""
    kind = bound.buffer.dtype
    ufunc = _REPEATED.get(op)
    natural = kind in ("float32", "float64") or (kind.is_integer and kind.packing == 1)
    if ufunc is None or not natural:
        return False
    later = (rank > 0) & (linear >= 0)
    ufunc.at(bound.memory.typed(kind.as_numpy()), linear[later], amount[later])
    return True


def _atomic(op: str) -> Callable[[DivergentGroup, Call, Active], Value]:
    def handler(s: DivergentGroup, node: Call, active: Active) -> Value:
        buffer, exprs = _target(node.args[0])
        value = s.eval(node.args[1], active)
        value = values.convert(value, node.args[1].dtype, buffer.dtype)
        indices = s.element_indices(buffer, exprs, active)
        want_old = bool(node.attr("return_prev", False))
        return update(s, s.bound(buffer), indices, value, op, active, want_old)

    return handler


def _load(s: DivergentGroup, node: Call, active: Active) -> Value:
    buffer, exprs = _target(node.args[0])
    return s.load(buffer, exprs, active)


def contiguous(
    s: DivergentGroup, buffer: Buffer, exprs: tuple[Expr, ...], count: int, active: Active
) -> Value:
    """``count`` elements from an address on, in a last axis."""
    parts = [s.load(buffer, exprs, active, k) for k in range(count)]
    return np.stack(np.broadcast_arrays(*parts), axis=-1)


def _vector_add(width: int) -> Callable[[DivergentGroup, Call, Active], Value]:
    def handler(s: DivergentGroup, node: Call, active: Active) -> Value:
        buffer, exprs = _target(node.args[0])
        source = node.args[1]
        if source.dtype.lanes == width:
            amount, kind = s.eval(source, active), source.dtype
        else:
            origin, at = _target(source)
            amount, kind = contiguous(s, origin, at, width, active), origin.dtype
        amount = values.convert(amount, kind, buffer.dtype)
        bound = s.bound(buffer)
        indices = s.element_indices(buffer, exprs, active)
        want_old = bool(node.attr("return_prev", False))
        olds = []
        for k in range(width):
            element = [*indices[:-1], indices[-1] + indices[-1].dtype.type(k)]
            olds.append(update(s, bound, element, amount[..., k], "add", active, want_old))
        return np.stack(olds, axis=-1)

    return handler


HANDLERS: dict[str, Callable[[DivergentGroup, Call, Active], Value]] = {
    **{
        f"atomic_{op}": _atomic(op)
        for op in ("add", "max", "min", "or", "and", "xor", "exch", "store")
    },
    "atomic_load": _load,
    "atomic_addx2": _vector_add(2),
    "atomic_addx4": _vector_add(4),
}
