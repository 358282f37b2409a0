"""Matrices in the registers of a simdgroup (Metal Shading Language, "SIMD-Group Matrix Functions").

The element of each register is not specified. The interpreter uses a layout that no lowering
assumes: two lanes share a column. So code that assumes an element in a register computes wrong
numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from tilelang.interpret import values
from tilelang.interpret.instructions import Address, Meaning, address_of, read_bytes, write_bytes
from tilelang.interpret.lanes import Active
from tilelang.interpret.matrices import warps
from tilelang.interpret.values import Array
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Call, Expr
from tilelang.ir.lanes import WARP

if TYPE_CHECKING:
    from tilelang.interpret.machine import DivergentGroup

SIDE = 8
_LANES = np.arange(WARP)
# Row and column of the elements 0 and 1 of each lane.
_ROW = np.stack([_LANES % 4 * 2, _LANES % 4 * 2 + 1], axis=1)
_COLUMN = np.stack([_LANES // 4, _LANES // 4], axis=1)
# The same where a program assumes the element layout: that of ``thread_elements()`` on all chips
# so far, quarter by quarter of the simdgroup.
_QUAD = _LANES // 4
_OWN = (
    np.stack([(_QUAD & 4) + _LANES // 2 % 4] * 2, axis=1),
    np.stack([2 * (_QUAD & 2) + 2 * (_LANES % 2) + k for k in (0, 1)], axis=1),
)
Where: TypeAlias = "tuple[Array, Array]"  # row and column of each element of the lanes


def _kind(expr: Expr) -> DType:
    from tilelang.interpret.pointers import target

    return target(expr)[0].dtype


def _matrix_of(
    s: DivergentGroup, expr: Expr, lanes: Array, active: Active, where: Where = (_ROW, _COLUMN)
) -> Array:
    """The matrices of all warps, (warps, 8, 8), whose elements lanes have ``where``."""
    kind = _kind(expr).with_lanes(2)
    raw = read_bytes(s, address_of(s, expr, active), lanes.reshape(-1), kind.bits * 2 // 8)
    matrix = np.zeros((lanes.shape[0], SIDE, SIDE), np.float32)
    matrix[:, where[0], where[1]] = np.asarray(values.from_bytes(raw, kind)).reshape(
        *lanes.shape, 2
    )
    return matrix


def _put(
    s: DivergentGroup, expr: Expr, matrix: Array, lanes: Array, active: Active,
    where: Where = (_ROW, _COLUMN),
) -> None:  # fmt: skip
    """Matrices into the registers of all warps."""
    kind = _kind(expr)
    rounded = values.rounded(matrix[:, where[0], where[1]].reshape(-1, 2), kind)
    raw = values.to_bytes(rounded, kind.with_lanes(2))
    write_bytes(s, address_of(s, expr, active), lanes.reshape(-1), raw)


def _pairs(s: DivergentGroup, node: Call, at: int, lanes: Array, active: Active) -> list[Address]:
    """The address of the two elements of each lane."""
    start, unit = address_of(s, node.args[at], active), _kind(node.args[at]).bits // 8
    pitch = int(np.asarray(s.eval(node.args[2], active)).flat[0])
    rows, columns = (_COLUMN, _ROW) if node.attr("transposed") else (_ROW, _COLUMN)
    addresses = []
    for number in range(2):
        offset = start.offset.copy()
        step = (rows[:, number] * pitch + columns[:, number]) * unit
        offset[lanes] = start.offset[lanes] + step
        addresses.append(Address(start.bound, start.base, offset))
    return addresses


def _fill(s: DivergentGroup, node: Call, active: Active) -> None:
    """Zeros."""
    lanes = warps(s, node, active)
    _put(s, node.args[0], np.zeros((lanes.shape[0], SIDE, SIDE), np.float32), lanes, active)


def _load(s: DivergentGroup, node: Call, active: Active) -> None:
    """``simdgroup_load``: rows of a matrix, or its columns where it is transposed."""
    lanes = warps(s, node, active)
    unit = _kind(node.args[1]).bits // 8
    parts = [
        read_bytes(s, address, lanes.reshape(-1), unit, unit)
        for address in _pairs(s, node, 1, lanes, active)
    ]
    raw = np.concatenate(parts, axis=1)
    write_bytes(s, address_of(s, node.args[0], active), lanes.reshape(-1), raw)


def _store(s: DivergentGroup, node: Call, active: Active) -> None:
    """``simdgroup_store``."""
    lanes = warps(s, node, active)
    unit = _kind(node.args[0]).bits // 8
    raw = read_bytes(s, address_of(s, node.args[1], active), lanes.reshape(-1), 2 * unit)
    for number, address in enumerate(_pairs(s, node, 0, lanes, active)):
        part = np.ascontiguousarray(raw[:, number * unit : (number + 1) * unit])
        write_bytes(s, address, lanes.reshape(-1), part, unit)


def _multiply(s: DivergentGroup, node: Call, active: Active) -> None:
    """``simdgroup_multiply_accumulate``: d = a b + d."""
    lanes = warps(s, node, active)
    d, a, b = (_matrix_of(s, arg, lanes, active).astype(np.float64) for arg in node.args)
    _put(s, node.args[0], (d + a @ b).astype(np.float32), lanes, active)


def _store_lanes(s: DivergentGroup, node: Call, active: Active) -> None:
    """Each lane puts its two elements into the matrix."""
    lanes = warps(s, node, active)
    _put(s, node.args[0], _matrix_of(s, node.args[1], lanes, active, _OWN), lanes, active)


def _load_lanes(s: DivergentGroup, node: Call, active: Active) -> None:
    """Each lane gets its two elements."""
    lanes = warps(s, node, active)
    _put(s, node.args[0], _matrix_of(s, node.args[1], lanes, active), lanes, active, _OWN)


MEANINGS: dict[str, Meaning] = {
    "fill matrix": _fill,
    "load matrix": _load,
    "store matrix": _store,
    "multiply add matrix": _multiply,
    "give matrix": _store_lanes,
    "take matrix": _load_lanes,
}
