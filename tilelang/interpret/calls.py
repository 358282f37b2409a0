"""Intrinsic calls: which function gives their value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilelang.errors import DeviceAssertError, TileTypeError, TileUnsupportedError
from tilelang.interpret import (
    atomics,
    boxes,
    externs,
    instructions,
    matrices,
    philox,
    printing,
    simdgroups,
    values,
    warp,
    warpgroup,
    wavefronts,
)
from tilelang.interpret.elementwise import ELEMENTWISE
from tilelang.interpret.lanes import Active
from tilelang.interpret.memory import nibbles_of
from tilelang.interpret.pointers import target
from tilelang.interpret.values import Value
from tilelang.ir.buffer import Region
from tilelang.ir.expr import AddressOf, Call, Expr, Load, RegionArg
from tilelang.target.features import FEATURES, lowest_with

if TYPE_CHECKING:
    from tilelang.interpret.machine import DivergentGroup

Handler: TypeAlias = "Callable[[DivergentGroup, Call, Active], Value | None]"
NOTHING = np.int32(0)  # the value of a call that has none


def call(s: DivergentGroup, node: Call, active: Active) -> Value:
    """The value of an intrinsic in the active lanes, with its effect."""
    function = ELEMENTWISE.get(node.op)
    if function is not None:
        operands = [s.eval(arg, active) for arg in node.args]
        return values.rounded(function(operands, node.args[0].dtype, dict(node.attrs)), node.dtype)
    handler = _reinterpret if node.atom.moves else HANDLERS.get(node.op)
    if node.atom.semantics:
        handler = MEANINGS.get(node.atom.semantics)
    if handler is not None:
        held, s.run.held = s.run.held, None  # what lanes exchange or store is used
        value = handler(s, node, active)
        s.run.held = held
        return NOTHING if value is None else value
    if node.atom.optional:  # everything asynchronous is complete already
        return NOTHING
    needs = node.atom.needs
    raise TileUnsupportedError(
        f"T.{node.op} needs {lowest_with(needs)}"
        if needs in FEATURES
        else (f"T.{node.op} has no meaning in the interpreter"),
        expected="an operation that is defined without GPU hardware",
        got=f"T.{node.op} in the interpreter",
        hint="compile the kernel for a target that has it",
    )


# -- addresses ----------------------------------------------------------------------------------
def raw_address(s: DivergentGroup, node: AddressOf, active: Active) -> Value:
    """The machine address of an element, as T.address_of gives it."""
    bound = s.bound(node.buffer)
    linear: Value = np.int64(bound.offset)
    for index, stride in zip(s.corner(node.buffer, node.indices, active), bound.strides):
        linear = linear + np.asarray(index).astype(np.int64) * stride
    step = nibbles_of(node.buffer.dtype) * node.buffer.dtype.lanes
    base = bound.memory.raw.ctypes.data
    return (linear * step // 2 + base).astype(np.uint64)


def _ldg(s: DivergentGroup, node: Call, active: Active) -> Value:
    buffer, indices = target(node.args[0])
    if node.dtype.lanes == buffer.dtype.lanes:
        return s.load(buffer, indices, active)
    loaded = atomics.contiguous(s, buffer, indices, node.dtype.lanes, active)
    return values.reinterpret(loaded, buffer.dtype.with_lanes(node.dtype.lanes), node.dtype)


def _isnullptr(s: DivergentGroup, node: Call, active: Active) -> Value:
    first = node.args[0]
    if isinstance(first, (AddressOf, Load)) and s.bound(first.buffer).memory.absent:
        return np.True_
    return np.equal(s.eval(first, active), 0)


# -- values of several elements -------------------------------------------------------------------
def _elements(s: DivergentGroup, arg: Expr, active: Active) -> Value:
    """Elements of a region operand in a last axis."""
    from tilelang.interpret.tiles import read_tile

    if isinstance(arg, RegionArg):
        region = arg.region
    else:
        buffer, mins = target(arg)
        region = (
            buffer.whole() if isinstance(arg, AddressOf) else Region(buffer, mins, (1,) * len(mins))
        )
    tile, per_lane = read_tile(s, region, active)
    return tile.reshape(s.lanes.count, -1) if per_lane else tile.reshape(-1)


def _any_of(s: DivergentGroup, node: Call, active: Active) -> Value:
    return np.not_equal(_elements(s, node.args[0], active), 0).any(-1)


def _all_of(s: DivergentGroup, node: Call, active: Active) -> Value:
    return np.not_equal(_elements(s, node.args[0], active), 0).all(-1)


def _dp4a(s: DivergentGroup, node: Call, active: Active) -> None:
    """C += the dot product of four int8 of A and of B, per thread."""
    total: Value = np.int64(0)
    (a, ai), (b, bi), (c, ci) = (target(arg) for arg in node.args)
    for k in range(4):
        x, y = s.load(a, ai, active, k), s.load(b, bi, active, k)
        total = total + np.asarray(x).astype(np.int64) * np.asarray(y).astype(np.int64)
    total = (s.load(c, ci, active) + total).astype(values.compute_dtype(c.dtype))
    s.store(c, ci, total, active)


def _reinterpret(s: DivergentGroup, node: Call, active: Active) -> Value:
    value = s.eval(node.args[0], active)
    old, new = node.args[0].dtype, node.dtype
    if old.width != new.width:
        raise TileTypeError(
            "T.reinterpret needs types of one size",
            expected=f"{old.width} bits",
            got=f"{old} to {new}",
        )
    return values.reinterpret(value, old, new)


# -- effects ------------------------------------------------------------------------------------
def _device_assert(s: DivergentGroup, node: Call, active: Active) -> None:
    if not s.run.checks:
        return
    failed, lane = s.failing(s.eval(node.args[0], active), active)
    if failed:
        message = str(node.attr("message", ""))
        raise DeviceAssertError(
            "Device assert failed" + (f": {message}" if message else ""),
            expected=f"`{node.args[0]!r}` to hold",
            got=f"false {s.site.text(lane)}",
        )


def _call_intrin(s: DivergentGroup, node: Call, active: Active) -> Value:
    return externs.call(s, node, active)


HANDLERS: dict[str, Handler] = {
    "ldg": _ldg,
    "isnullptr": _isnullptr,
    "any_of": _any_of,
    "all_of": _all_of,
    "dp4a": _dp4a,
    "reinterpret": _reinterpret,
    "device_assert": _device_assert,
    "call_extern": _call_intrin,
    "call_intrin": _call_intrin,
    "print": printing.print_value,
    **atomics.HANDLERS,
    **warp.HANDLERS,
}
# Of rows that name a meaning (``Atom.semantics``).
MEANINGS: dict[str, Handler] = {
    **instructions.MEANINGS,
    **philox.MEANINGS,
    **matrices.MEANINGS,
    **wavefronts.MEANINGS,
    **simdgroups.MEANINGS,
    **boxes.MEANINGS,
    **warpgroup.MEANINGS,
}
