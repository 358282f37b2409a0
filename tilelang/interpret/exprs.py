"""Values of expressions: one case per node. Sides that are not taken are not evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from tilelang.errors import InternalError, TileUnsupportedError, assert_never
from tilelang.interpret import values
from tilelang.interpret.calls import call, raw_address
from tilelang.interpret.lanes import Active, has_active, narrow
from tilelang.interpret.values import Value
from tilelang.ir import expr as E
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.indices import is_sum, is_widening
from tilelang.ir.tables import BINARY

INT64 = DType("int64")

if TYPE_CHECKING:
    from tilelang.interpret.machine import DivergentGroup

Node: TypeAlias = (
    "E.Const | E.Var | E.Unary | E.Binary | E.Cast | E.Select | E.Load | E.AddressOf | E.Call "
    "| E.Ramp | E.Broadcast | E.Vector | E.Lane | E.StringImm | E.RegionArg"
)


def evaluate(s: DivergentGroup, expr: E.Expr, active: Active) -> Value:
    """The value of ``expr`` in the active lanes; what inactive lanes hold means nothing."""
    node = cast("Node", expr)
    match node:
        case E.Const():
            return s.run.constant(node)
        case E.Var():
            return _narrowed(s.lookup(node, active), node)
        case E.Binary(op=("land" | "lor")):
            return _short_circuit(s, node, active)
        case E.Binary() if BINARY[node.op].compares and s.run.is_index(node.a):
            if s.run.is_index(node.b):
                a, b = exact(s, node.a, active, False), exact(s, node.b, active, False)
                return values.binary(node.op, a, b, INT64)
            a, b = evaluate(s, node.a, active), evaluate(s, node.b, active)
            return values.binary(node.op, a, b, node.a.dtype)
        case E.Binary():
            a, b = evaluate(s, node.a, active), evaluate(s, node.b, active)
            return values.binary(node.op, a, b, node.a.dtype)
        case E.Load():
            return s.load(node.buffer, node.indices, active)
        case E.Cast():
            return _cast(s, node, active)
        case E.Unary():
            return values.unary(node.op, evaluate(s, node.a, active), node.a.dtype)
        case E.Select():
            return _select(s, node, active)
        case E.Call():
            return call(s, node, active)
        case E.Ramp():
            base = np.asarray(evaluate(s, node.base, active))[..., None]
            stride = np.asarray(evaluate(s, node.stride, active))[..., None]
            return base + stride * np.arange(node.lanes).astype(base.dtype)
        case E.Broadcast():
            return _broadcast(evaluate(s, node.value, active), node.value.dtype.lanes, node.lanes)
        case E.Vector():
            parts = [evaluate(s, element, active) for element in node.elements]
            return np.stack(np.broadcast_arrays(*parts), axis=-1)
        case E.Lane():
            return _lane(evaluate(s, node.vector, active), evaluate(s, node.index, active))
        case E.AddressOf():
            return raw_address(s, node, active)
        case E.StringImm() | E.RegionArg():
            raise InternalError(f"`{node!r}` has no value")
        case _:
            assert_never(node)


def exact(s: DivergentGroup, expr: E.Expr, active: Active, long: bool) -> Value:
    """The exact integer value of ``expr``, computed in 64 bits.

    Args:
        long: whether other arithmetic than index arithmetic is computed in 64 bits too, and so are
            names for it.
    """
    match expr:
        case E.Const():
            return np.int64(int(expr.value))
        case E.Var():
            value = s.lookup(expr, active, long)
        case E.Cast() if is_widening(expr):
            return exact(s, expr.value, active, long)
        case E.Binary() if is_sum(expr):
            a, b = exact(s, expr.a, active, long), exact(s, expr.b, active, long)
            return values.binary(expr.op, a, b, INT64)
        case E.Ramp():
            base = np.asarray(exact(s, expr.base, active, long))[..., None]
            stride = np.asarray(exact(s, expr.stride, active, long))[..., None]
            return base + stride * np.arange(expr.lanes)
        case E.Broadcast() if expr.value.dtype.lanes == 1:
            return _broadcast(exact(s, expr.value, active, long), 1, expr.lanes)
        case _:
            value = evaluate(s, expr, active)
    return np.asarray(value).astype(np.int64)[()]


def _narrowed(value: Value, var: E.Var) -> Value:
    """The value of a variable whose exact one may need more bits than its dtype has."""
    if var.dtype.is_int and var.dtype.bits < 64 and value.dtype.itemsize == 8:
        return value.astype(values.compute_dtype(var.dtype))
    return value


def _short_circuit(s: DivergentGroup, node: E.Binary, active: Active) -> Value:
    a = evaluate(s, node.a, active)
    stop = node.op == "lor"  # the value of the left side that decides
    if np.ndim(a) == 0:
        return a if bool(a) == stop else evaluate(s, node.b, active)
    if node.dtype.lanes > 1:
        b = evaluate(s, node.b, active)
    else:
        rest = narrow(active, a != stop)
        if not rest.any():
            return a
        b = evaluate(s, node.b, rest)
    return np.where(a == stop, a, b)


def _select(s: DivergentGroup, node: E.Select, active: Active) -> Value:
    cond = evaluate(s, node.cond, active)
    if not node.lazy or node.cond.dtype.lanes > 1:
        (t, of_t), (f, of_f) = s.held(node.t, active), s.held(node.f, active)
        if np.ndim(cond) == 0:
            s.use(of_t if cond else of_f, active)
            return t if cond else f
        by_lane = node.cond.dtype.lanes == 1
        s.use(of_t, narrow(active, cond) if by_lane else active)
        s.use(of_f, narrow(active, ~cond) if by_lane else active)
    elif np.ndim(cond) == 0:
        return evaluate(s, node.t if cond else node.f, active)
    else:
        yes, no = narrow(active, cond), narrow(active, ~cond)
        if not has_active(no):
            return evaluate(s, node.t, active)
        if not has_active(yes):
            return evaluate(s, node.f, active)
        t, f = evaluate(s, node.t, yes), evaluate(s, node.f, no)
    if node.dtype.lanes > 1 and node.cond.dtype.lanes == 1:
        cond = cond[:, None]
    return np.where(cond, t, f)


def _cast(s: DivergentGroup, node: E.Cast, active: Active) -> Value:
    if node.rounding not in ("", "rn"):
        raise TileUnsupportedError(
            f"a cast with rounding {node.rounding!r} needs hardware the interpreter does not have",
            expected="round=''",
            got=f"round={node.rounding!r} (sm_100)",
        )
    if is_widening(node) and s.run.is_index(node.value):
        return exact(s, node.value, active, False)
    return values.convert(evaluate(s, node.value, active), node.value.dtype, node.type, node.sat)


def _broadcast(value: Value, inner: int, lanes: int) -> Value:
    if inner == 1:
        value = np.asarray(value)[..., None]
    return np.tile(value, (1,) * (np.ndim(value) - 1) + (lanes,))


def _lane(vector: Value, index: Value) -> Value:
    if np.ndim(index) == 0:
        return vector[..., int(index)]
    table = np.broadcast_to(vector, (index.shape[0], np.shape(vector)[-1]))
    return np.take_along_axis(table, index[:, None].astype(np.int64), axis=1)[:, 0]
