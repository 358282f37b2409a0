"""``T.print``: one line of text per executing thread and element."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilelang.interpret.lanes import Active, has_active
from tilelang.interpret.values import Value
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Call
from tilelang.ir.stmt import PrintTile

if TYPE_CHECKING:
    from tilelang.interpret.machine import DivergentGroup

_C_NAMES = {
    "bool": "bool", "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "uint",
    "uint64": "unsigned long long", "float16": "half_t", "bfloat16": "bfloat16_t",
    "float32": "float", "float64": "double", "tfloat32": "tfloat32_t", "float8_e4m3": "fp8_e4_t",
    "float8_e4m3fn": "fp8_e4_t", "float8_e5m2": "fp8_e5_t", "handle": "void*",
}  # fmt: skip


def c_name(kind: DType) -> str:
    """The C spelling of a scalar type."""
    return _C_NAMES.get(kind.element_of, str(kind.element_of))


def number(value: Any, kind: DType) -> str:
    """One value as C's printf writes it."""
    if kind.lanes > 1:
        return "(" + ", ".join(number(element, kind.element_of) for element in value) + ")"
    if kind.is_bool:
        return "true" if value else "false"
    if kind.is_float:
        return f"{float(value):.6f}"
    return hex(int(value)) if kind.is_handle else str(int(value))


def _thread_label(s: DivergentGroup, lane: int | None) -> str:
    block = s.block.index or (0, 0, 0)
    thread = s.block.thread_index(0 if lane is None else lane)
    return f"BlockIdx=({', '.join(map(str, block))}), ThreadIdx=({', '.join(map(str, thread))})"


def print_value(s: DivergentGroup, node: Call, active: Active) -> Value:
    """Print an expression, or only the message, in every executing thread."""
    message = str(node.attr("message", ""))
    if not node.args:
        for lane in s.lanes.members(active):
            _line(s, f"msg='{message}' {_thread_label(s, int(lane))}")
        return np.int32(0)
    kind = node.args[0].dtype
    table = s.spread(s.eval(node.args[0], active), kind.lanes)
    if not message:
        message = f"expr<{node.args[0]!r}>"
    for lane in s.lanes.members(active):
        text = f"dtype={c_name(kind)} value={number(table[lane], kind)}"
        _line(s, f"msg='{message}' {_thread_label(s, int(lane))}: {text}")
    return np.int32(0)


def print_tile(s: DivergentGroup, stmt: PrintTile, active: Active) -> None:
    """Print every element of a buffer in row-major order."""
    from tilelang.interpret.tiles import read_tile

    buffer = stmt.src.buffer
    message = stmt.message or f"buffer<{buffer.name}, {buffer.dtype}>"
    if buffer.storage in ("local", "local.var", "global"):
        lanes = [int(lane) for lane in s.lanes.members(active)]
    else:
        if active is not None and not (stmt.thread < s.lanes.count and active[stmt.thread]):
            return
        lanes = [stmt.thread]
    if not has_active(active):
        return
    tile, per_lane = read_tile(s, stmt.src, active)
    for lane in lanes:
        own_tile = tile[lane] if per_lane else tile
        if buffer.dtype.lanes > 1:
            flat = own_tile.reshape(-1, buffer.dtype.lanes)
        else:
            flat = own_tile.reshape(-1)
        for index, value in enumerate(flat):
            _line(
                s,
                f"msg='{message}' {_thread_label(s, lane)}: buffer={buffer.name}, index={index}, "
                f"dtype={c_name(buffer.dtype)} value={number(value, buffer.dtype)}",
            )


def _line(s: DivergentGroup, text: str) -> None:
    s.run.stdout.write(text + "\n")
