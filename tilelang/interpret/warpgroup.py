"""Warpgroup products (wgmma) with operands in shared memory, as the PTX manual describes them.

Where an element is, in registers and in shared memory, is written out here from the manual and
without the tables of ``target/`` and the formulas of the lowering ("Asynchronous Warpgroup Level
Matrix Instructions": "Register Fragments", "Shared Memory Matrix Layout", "Strides").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tilelang.errors import OutOfBoundsError
from tilelang.interpret import values
from tilelang.interpret.instructions import (
    Address,
    Meaning,
    address_of,
    put_bytes,
    read_at,
    read_bytes,
)
from tilelang.interpret.lanes import Active
from tilelang.interpret.matrices import warps
from tilelang.interpret.values import Array
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Call

if TYPE_CHECKING:
    from tilelang.interpret.machine import DivergentGroup

GROUP = 128  # threads
ROWS = 64
CORE = 8  # rows of a core matrix
UNIT = 16  # bytes that distances count in, and of a row of a core matrix
SPANS = {0: 16, 1: 128, 2: 64, 3: 32}  # bytes of a row of the pattern, by the code of the swizzle


def _offsets(
    swizzle: int, leading: int, stride: int, k_inner: bool, lines: int, row: int
) -> Array:  # fmt: skip
    """Bytes from the start of the operand to byte ``row`` of each line, (lines, row): lines are
    rows of M or N if the operand is K-major, else rows of k. The start is the start of a swizzle
    pattern, or in its first row."""
    span = SPANS[swizzle]
    line, along = np.arange(lines)[:, None], np.arange(row)[None]
    if swizzle == 0:
        near, far = (stride, leading) if k_inner else (leading, stride)
        offsets = line // CORE * near + line % CORE * UNIT + along // UNIT * far + along % UNIT
    else:
        offsets = (
            line // CORE * stride + line % CORE * span + along // span * leading + along % span
        )
    return np.asarray(offsets)


def _swizzled(address: Array, swizzle: int) -> Array:
    """Bits 4 to 6 of an address, combined with bits 7 to 9 within the span of the swizzle."""
    return np.asarray(address ^ ((address >> 7 & SPANS[swizzle] // UNIT - 1) << 4))


def _operand(
    s: DivergentGroup, node: Call, name: str, tile: Address, step: int, lane: int, lines: int,
    k: int,
) -> Array:  # fmt: skip
    """The (lines, k) matrix that an operand in shared memory is."""
    swizzle, leading, stride = (
        int(node.attr(f"{name}_{part}")) for part in ("swizzle", "leading", "stride")
    )
    kind, k_inner = DType(node.attr(name)), bool(node.attr(f"{name}_k_inner"))
    size = kind.bits // 8
    shape = (lines, k * size) if k_inner else (k, lines * size)
    offsets = _offsets(swizzle, leading * UNIT, stride * UNIT, k_inner, *shape)
    address = _swizzled(int(tile.offset[lane]) + step * UNIT + offsets, swizzle)
    if address.max() >= tile.memory.size:
        raise OutOfBoundsError(
            f"an operand of wgmma reads outside `{tile.name}`",
            expected=f"bytes 0..{tile.memory.size}",
            got=f"byte {address.max()} {s.site.text(lane)}",
        )
    at = (tile.base[lane] + address).reshape(-1, 1)
    raw = read_at(s, tile, np.full(at.size, lane), at).reshape(-1, size)
    elements = np.asarray(values.from_bytes(raw, kind)).reshape(shape[0], -1)
    return _round_tf32(elements if k_inner else elements.T, kind)


def _round_tf32(elements: Array, kind: DType) -> Array:
    """Of float32 only 19 bits are used."""
    if kind in ("float32", "tfloat32"):
        bits = np.ascontiguousarray(elements.astype(np.float32)).view(np.uint32)
        return np.asarray((bits & np.uint32(0xFFFFE000)).view(np.float32))
    return elements


def _row_of(lane: Array, register: Array, per: int) -> Array:
    """The row of register element ``register``: each warp has 16, each four threads two of them."""
    return np.asarray(16 * (lane // 32) + lane % 32 // 4 + 8 * (register // per % 2))


def _reg_a(s: DivergentGroup, node: Call, operand: Address, k: int, lanes: Array) -> Array:
    """A of each group from registers: (groups, 64, k)."""
    kind, count = DType(node.attr("a")), ROWS * k // GROUP
    per = 32 // kind.bits  # neighbours along k in one register
    raw = read_bytes(s, operand, lanes.reshape(-1), count * kind.bits // 8, 4)
    elements = _round_tf32(np.asarray(values.from_bytes(raw, kind.with_lanes(count))), kind)
    lane, register = np.arange(GROUP)[:, None], np.arange(count)[None]
    column = register // (2 * per) * (4 * per) + lane % 4 * per + register % per
    matrix = np.zeros((lanes.shape[0], ROWS, k), elements.dtype)
    matrix[:, _row_of(lane, register, per), column] = elements.reshape(*lanes.shape, count)
    return matrix


def _multiply(s: DivergentGroup, node: Call, active: Active) -> None:
    """D = A B (+ D), when the group of the instruction is waited for and no earlier."""
    lanes = warps(s, node, active, GROUP, "warpgroup")
    columns, k = map(int, str(node.attr("shape")).removeprefix("m64n").split("k"))
    c_kind = DType(node.attr("c"))
    d, adds = address_of(s, node.args[0], active), s.spread(s.eval(node.args[-1], active)).copy()
    in_memory = len(node.args) == 6
    first = address_of(s, node.args[1], active)
    shared = [
        (name, address_of(s, node.args[at], active), s.spread(s.eval(node.args[at + 1], active)))
        for name, at in ((("a", 1), ("b", 3)) if in_memory else (("b", 2),))
    ]
    lane, register = np.arange(GROUP)[:, None], np.arange(columns // 2)[None]
    row = _row_of(lane, register, 2)
    column = 8 * (register // 4) + 2 * (lane % 4) + register % 2
    accumulator_dtype = c_kind.with_lanes(columns // 2)
    wide: Any = np.int64 if c_kind.is_integer else np.float64

    def product(number: int) -> Array:
        """The product A B of one warpgroup, in the registers of its threads."""
        group = lanes[number]
        operands = {
            name: _operand(
                s, node, name, operand, int(step[group[0]]), group[0],
                ROWS if name == "a" else columns, k,
            )
            for name, operand, step in shared
        }  # fmt: skip
        a = operands["a"] if in_memory else _reg_a(s, node, first, k, lanes[number : number + 1])[0]
        return np.asarray((a.astype(wide) @ operands["b"].T.astype(wide))[row, column])

    products: list[Array] = []

    def arrive(landed: Array) -> None:
        if not products:  # of all threads, before one that has waited overwrites its operands
            products.extend(map(product, range(len(lanes))))
        for group, own, total in zip(lanes, landed.reshape(lanes.shape), products):
            total = total[own]
            if adds[group[0]]:
                raw = read_bytes(s, d, group[own], total.shape[1] * c_kind.bits // 8, 4)
                total = total + np.asarray(values.from_bytes(raw, accumulator_dtype)).astype(wide)
            new = values.rounded(total.astype(values.compute_dtype(c_kind)), c_kind)
            raw = np.asarray(values.to_bytes(new, accumulator_dtype))
            at = (d.base + d.offset)[group[own]][:, None] + np.arange(raw.shape[1])
            put_bytes(d.memory, at, raw)

    s.block.flight.start(node.atom.completes.name, lanes.reshape(-1), arrive)


MEANINGS: dict[str, Meaning] = {"multiply in a warpgroup": _multiply}
