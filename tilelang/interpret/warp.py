"""Warp shuffles, votes and reductions between the threads of a warp or block."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilelang.errors import TileRuntimeError
from tilelang.interpret import values
from tilelang.interpret.lanes import Active
from tilelang.interpret.values import Array, Value
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Call
from tilelang.ir.lanes import WARP

if TYPE_CHECKING:
    from tilelang.interpret.machine import DivergentGroup

Handler: TypeAlias = "Callable[[DivergentGroup, Call, Active], Value]"


def _warps(s: DivergentGroup, value: Value, lanes: int = 1, warp: int = WARP) -> Array:
    """``value`` as (warp, lane[, vector]); missing lanes of the last warp repeat zero."""
    if s.lanes.threads is None:
        raise TileRuntimeError(
            "a warp operation is called in the iterations of T.Parallel",
            expected="thread code, outside T.Parallel",
        )
    full = s.spread(value, lanes)
    full = np.pad(full, [(0, -full.shape[0] % warp)] + [(0, 0)] * (full.ndim - 1))
    return full.reshape(-1, warp, *full.shape[1:])


def _threads(s: DivergentGroup, table: Array) -> Array:
    return table.reshape(-1, *table.shape[2:])[: s.lanes.count]


def _executing(s: DivergentGroup, active: Active) -> Array:
    return _warps(s, np.True_ if active is None else active)


def _shuffle(kind: str) -> Handler:
    def handler(s: DivergentGroup, node: Call, active: Active) -> Value:
        lanes = node.args[0].dtype.lanes
        width = (
            int(s.number(node.args[2], active, "the shuffle width"))
            if (len(node.args) > 2)
            else int(node.attr("width", WARP))
        )
        warp = max(WARP, width)  # lowering for wider wavefronts states the width
        table = _warps(s, s.eval(node.args[0], active), lanes, warp)
        step = _warps(s, s.eval(node.args[1], active), 1, warp).astype(np.int64)
        lane = np.broadcast_to(np.arange(warp), step.shape)
        base = lane & ~(width - 1)
        if kind == "sync":
            source = base | (step & (width - 1))
        elif kind == "up":
            source = np.where(lane - step < base, lane, lane - step)
        elif kind == "down":
            source = np.where((lane - base) + step >= width, lane, lane + step)
        else:
            other = lane ^ step
            source = np.where(other >= base + width, lane, other)
        source = source & (warp - 1)
        return _threads(s, table[np.arange(table.shape[0])[:, None], source])

    return handler


def _butterfly(table: Array, op: str, kind: DType) -> Array:
    for step in (16, 8, 4, 2, 1):
        partner = table[:, np.arange(WARP) ^ step]
        table = np.asarray(values.combine(op, table, partner, kind))
    return table


def _reduce(op: str) -> Handler:
    def handler(s: DivergentGroup, node: Call, active: Active) -> Value:
        kind = node.args[0].dtype
        table = _warps(s, s.eval(node.args[0], active))
        table = np.where(_executing(s, active), table, values.identity(op, kind))
        return _threads(s, _butterfly(table, op, kind))

    return handler


def _pack(votes: Array) -> Array:
    """Bit mask of each warp from its lanes' booleans."""
    weights = np.uint64(1) << np.arange(WARP, dtype=np.uint64)
    return np.asarray((votes.astype(np.uint64) * weights).sum(axis=1, dtype=np.uint64))


def _votes(s: DivergentGroup, node: Call, active: Active) -> tuple[Array, Array]:
    """Which lanes execute, and which of them vote yes."""
    present = _named_lanes(s, node, active)
    return present, present & _warps(s, np.not_equal(s.eval(node.args[0], active), 0))


def _named_lanes(s: DivergentGroup, node: Call, active: Active) -> Array:
    """Executing lanes that the mask operand names."""
    present = _executing(s, active)
    if len(node.args) < 2:
        return present
    mask = _warps(s, s.eval(node.args[1], active)).astype(np.uint64)
    return np.asarray(present & ((mask >> np.arange(WARP, dtype=np.uint64)) & np.uint64(1) != 0))


def _per_warp(s: DivergentGroup, operands: Array, kind: DType) -> Value:
    table = np.repeat(operands[:, None], WARP, axis=1).astype(values.compute_dtype(kind))
    return s.collapse(_threads(s, table), None)


def _any_sync(s: DivergentGroup, node: Call, active: Active) -> Value:
    _, yes = _votes(s, node, active)
    return _per_warp(s, np.asarray(yes.any(1)), node.dtype)


def _all_sync(s: DivergentGroup, node: Call, active: Active) -> Value:
    present, yes = _votes(s, node, active)
    return _per_warp(s, np.asarray((yes | ~present).all(1)), node.dtype)


def _ballot(s: DivergentGroup, node: Call, active: Active) -> Value:
    _, yes = _votes(s, node, active)
    return _per_warp(s, _pack(yes), node.dtype)


def _activemask(s: DivergentGroup, node: Call, active: Active) -> Value:
    return _per_warp(s, _pack(_executing(s, active)), node.dtype)


def _match(is_all: bool) -> Handler:
    def handler(s: DivergentGroup, node: Call, active: Active) -> Value:
        present = _named_lanes(s, node, active)
        table = _warps(s, s.eval(node.args[0], active))
        is_equal = (table[:, :, None] == table[:, None, :]) & present[:, None, :]
        if is_all:
            present_lanes = _pack(present)[:, None]
            agree = (is_equal | ~present[:, None, :]).all(2)
            masks = np.where(agree, present_lanes, np.uint64(0))
        else:
            weights = np.uint64(1) << np.arange(WARP, dtype=np.uint64)
            masks = (is_equal.astype(np.uint64) * weights).sum(2, dtype=np.uint64)
        return _threads(s, masks.astype(values.compute_dtype(node.dtype)))

    return handler


def _elect(s: DivergentGroup, node: Call, active: Active) -> Value:
    """True in the first thread of each group of ``thread_extent`` (0: of the block)."""
    extent = s.number(node.args[0], active, "the thread extent")
    if s.lanes.threads is None:
        return np.True_
    return s.lanes.threads % (extent if extent > 0 else max(1, s.lanes.count)) == 0


def _block_vote(kind: str) -> Handler:
    def handler(s: DivergentGroup, node: Call, active: Active) -> Value:
        votes = s.spread(np.not_equal(s.eval(node.args[0], active), 0))[s.lanes.members(active)]
        return np.int32({"count": votes.sum(), "and": votes.all(), "or": votes.any()}[kind])

    return handler


def _allreduce(s: DivergentGroup, node: Call, active: Active) -> Value:
    """The combination of every thread's value for which the condition holds."""
    kind = node.args[0].dtype
    op = str(node.attr("op", "sum"))
    value = s.spread(s.eval(node.args[0], active))
    cond = s.spread(np.not_equal(s.eval(node.args[1], active), 0))
    x, y, z = s.block.extents()
    axis = node.attr("axis", None)
    table = np.where(cond, value, values.identity(op, kind))
    if active is not None:
        table = np.where(active, table, values.identity(op, kind))
    if axis is None:
        return _fold(table, op, kind)
    cube = table.reshape(z, y, x)
    dimension = 2 - int(axis)
    folded = _fold(np.moveaxis(cube, dimension, 0), op, kind)
    spread = np.broadcast_to(np.expand_dims(folded, dimension), cube.shape)
    return s.collapse(spread.reshape(-1), None)


def _fold(table: Array, op: str, kind: DType) -> Value:
    """Pairwise combination along the first axis."""
    while table.shape[0] > 1:
        half = table.shape[0] // 2
        rest = table[2 * half :]
        table = np.concatenate(
            [np.asarray(values.combine(op, table[:half], table[half : 2 * half], kind)), rest]
        )
    return table[0]


HANDLERS: dict[str, Handler] = {
    **{f"shfl_{kind}": _shuffle(kind) for kind in ("sync", "xor", "up", "down")},
    **{f"warp_reduce_{op}": _reduce(op) for op in ("sum", "max", "min", "bitand", "bitor")},
    **{f"syncthreads_{kind}": _block_vote(kind) for kind in ("count", "and", "or")},
    "any_sync": _any_sync,
    "all_sync": _all_sync,
    "ballot_sync": _ballot,
    "ballot": _ballot,
    "activemask": _activemask,
    "match_any_sync": _match(False),
    "match_all_sync": _match(True),
    "shuffle_elect": _elect,
    "thread_allreduce": _allreduce,
}
