"""Warp-level matrix instructions (ldmatrix, mma) in numpy, as the PTX manual describes them.

The register layouts are written here from its figures, independently of the tables of ``target/``.
So a wrong register layout in the lowering gives wrong numbers.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tilelang.errors import TileRuntimeError, TileUnsupportedError
from tilelang.interpret import values
from tilelang.interpret.instructions import Address, Meaning, address_of, read_bytes, write_bytes
from tilelang.interpret.lanes import Active
from tilelang.interpret.values import Array
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Call, Expr
from tilelang.ir.lanes import WARP

if TYPE_CHECKING:
    from tilelang.interpret.machine import DivergentGroup


def warps(
    s: DivergentGroup, node: Call, active: Active, width: int = WARP, unit: str = "warp"
) -> Array:
    """Lanes of the executing warps, (warps, lanes); each warp, or ``unit``, executes as a whole."""
    members = s.lanes.members(active)
    numbers = np.unique(members // width)
    lanes = numbers[:, None] * width + np.arange(width)
    if lanes.size != members.size:
        raise TileRuntimeError(
            f"an instruction of a {unit} is executed by a part of it",
            expected=f"T.{node.op} by all {width} threads of each {unit}",
            got=f"{members.size} threads in {numbers.size} {unit}s {s.site.text(None)}",
        )
    return np.asarray(lanes)


def _row_addresses(
    s: DivergentGroup, node: Call, address: Expr, used: Array, active: Active
) -> Address:
    """Addresses of rows that lanes supply; those of other lanes are ignored."""
    start = address_of(s, address, active)
    offset = np.zeros_like(start.offset)
    offset[used] = start.offset[used]
    return Address(start.bound, start.base, offset)


def _load(s: DivergentGroup, node: Call, active: Active) -> None:
    """Matrix g: lane 8g + r addresses row r; lane t receives elements 2(t%4), +1 of row t//4
    ("Warp-level matrix load instruction: ldmatrix")."""
    count, lanes = int(node.attr("count")), warps(s, node, active)
    used = lanes[:, : 8 * count].reshape(-1)
    rows = read_bytes(s, _row_addresses(s, node, node.args[1], used, active), used, 16, 16)
    tiles = rows.reshape(lanes.shape[0], count, 8, 8, 2)  # warp, matrix, row, column, byte
    if node.attr("trans", False):
        tiles = tiles.swapaxes(2, 3)
    registers = tiles.reshape(lanes.shape[0], count, WARP, 4).swapaxes(1, 2)
    raw = registers.reshape(lanes.size, 4 * count)
    write_bytes(s, address_of(s, node.args[0], active), lanes.reshape(-1), raw, 4)


def _store(s: DivergentGroup, node: Call, active: Active) -> None:
    """The inverse of :func:`_load` ("Warp-level matrix store instruction: stmatrix")."""
    count, lanes = int(node.attr("count")), warps(s, node, active)
    used = lanes[:, : 8 * count].reshape(-1)
    raw = read_bytes(s, address_of(s, node.args[1], active), lanes.reshape(-1), 4 * count, 4)
    registers = raw.reshape(lanes.shape[0], WARP, count, 4).swapaxes(1, 2)
    tiles = registers.reshape(lanes.shape[0], count, 8, 8, 2)
    if node.attr("trans", False):
        tiles = tiles.swapaxes(2, 3)
    rows = np.ascontiguousarray(tiles).reshape(-1, 16)
    write_bytes(s, _row_addresses(s, node, node.args[0], used, active), used, rows, 16)


def extents_of(shape: str) -> tuple[int, int, int]:
    """(16, 8, 4) of "m16n8k4"."""
    m, n, k = (int(part) for part in shape[1:].replace("n", " ").replace("k", " ").split())
    return m, n, k


# -- products -------------------------------------------------------------------------------------
@cache
def register_layout(shape: str, bits: int) -> tuple[Array, Array, Array]:
    """Row and column of each register element, (lanes, elements, 2), of A, B (k x n) and C.

    From the figures of the PTX manual, "Matrix Fragments for mma".

    Raises:
        TileUnsupportedError: there is no such instruction for elements of ``bits``.
    """
    figure = _FIGURES.get((shape, bits))
    if figure is None:
        raise TileUnsupportedError(
            f"no instruction multiplies {shape} of {bits} bits",
            expected="a shape of the PTX manual",
            got=shape,
        )
    lanes = [(lane >> 2, lane % 4) for lane in range(WARP)]
    a, b = (np.array([part(group, own) for group, own in lanes]) for part in figure)
    tall = shape.startswith("m16")
    c = [
        [(group + 8, own * 2 + i) if tall and row else (group, own * 2 + i)
         for row in range(1 + tall) for i in range(2)]
        for group, own in lanes
    ]  # fmt: skip
    return a, b, np.array(c)


_FIGURES: dict[tuple[str, int], tuple[Any, Any]] = {
    ("m16n8k8", 16): (
        lambda g, t: [(g + (8 if i >= 2 else 0), t * 2 + (i & 1)) for i in range(4)],
        lambda g, t: [(t * 2 + i, g) for i in range(2)],
    ),
    ("m16n8k16", 16): (
        lambda g, t: [(g + (8 if i % 4 >= 2 else 0), t * 2 + (i & 1) + (8 if i >= 4 else 0))
                      for i in range(8)],
        lambda g, t: [(t * 2 + (i & 1) + (8 if i >= 2 else 0), g) for i in range(4)],
    ),
    ("m16n8k8", 32): (
        lambda g, t: [(g, t), (g + 8, t), (g, t + 4), (g + 8, t + 4)],
        lambda g, t: [(t, g), (t + 4, g)],
    ),
    ("m16n8k4", 32): (lambda g, t: [(g, t), (g + 8, t)], lambda g, t: [(t, g)]),
    ("m16n8k16", 8): (
        lambda g, t: [(g + (0 if i < 4 else 8), t * 4 + (i & 3)) for i in range(8)],
        lambda g, t: [(t * 4 + i, g) for i in range(4)],
    ),
    ("m16n8k32", 4): (
        lambda g, t: [(g + (0 if i < 8 else 8), t * 8 + (i & 7)) for i in range(16)],
        lambda g, t: [(t * 8 + i, g) for i in range(8)],
    ),
    ("m16n8k32", 8): (
        lambda g, t: [(g + (0 if i < 4 or 8 <= i < 12 else 8),
                       t * 4 + (i & 3) + (16 if i >= 8 else 0)) for i in range(16)],
        lambda g, t: [(t * 4 + (i & 3) + (16 if i >= 4 else 0), g) for i in range(8)],
    ),
    ("m16n8k64", 4): (
        lambda g, t: [(g + (0 if i < 8 or 16 <= i < 24 else 8),
                       t * 8 + (i & 7) + (32 if i >= 16 else 0)) for i in range(32)],
        lambda g, t: [(t * 8 + (i & 7) + (32 if i >= 8 else 0), g) for i in range(16)],
    ),
    ("m8n8k4", 64): (lambda g, t: [(g, t)], lambda g, t: [(t, g)]),
    ("m8n8k16", 8): (
        lambda g, t: [(g, t * 4 + i) for i in range(4)],
        lambda g, t: [(t * 4 + i, g) for i in range(4)],
    ),
    ("m8n8k32", 4): (
        lambda g, t: [(g, t * 8 + i) for i in range(8)],
        lambda g, t: [(t * 8 + i, g) for i in range(8)],
    ),
}  # fmt: skip


def matrix_of(
    s: DivergentGroup, start: Expr, kind: DType, table: Array, shape: tuple[int, int],
    lanes: Array, active: Active, is_whole: bool = False,
) -> Array:  # fmt: skip
    """The matrices of all warps that a register operand holds; ``is_whole``: with all bits."""
    count = table.shape[1]
    raw = read_bytes(s, address_of(s, start, active), lanes.reshape(-1), count * kind.bits // 8, 4)
    elements = np.asarray(values.from_bytes(raw, kind.with_lanes(count) if count > 1 else kind))
    if kind in ("float32", "tfloat32") and not is_whole:  # only 19 bits of each number are used
        elements = (elements.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(
            np.float32
        )
    matrix = np.zeros((lanes.shape[0], *shape), elements.dtype)
    matrix[:, table[..., 0], table[..., 1]] = elements.reshape(*lanes.shape, count)
    return matrix


def _multiply(s: DivergentGroup, node: Call, active: Active) -> None:
    """D += A B for each warp; sums are exact and rounded once ("mma.sync")."""
    shape, kind = str(node.attr("shape")), DType(node.attr("a"))
    multiply(s, node, warps(s, node, active), register_layout(shape, kind.bits), active)


def multiply(
    s: DivergentGroup, node: Call, lanes: Array, tables: tuple[Array, Array, Array], active: Active,
    is_whole: bool = False,
) -> None:  # fmt: skip
    """D += A B; ``tables`` have the positions of the elements in registers."""
    a_kind, b_kind = (DType(node.attr(name)) for name in "ab")
    m, n, k = extents_of(str(node.attr("shape")))
    a = matrix_of(s, node.args[1], a_kind, tables[0], (m, k), lanes, active, is_whole)
    b = matrix_of(s, node.args[2], b_kind, tables[1], (k, n), lanes, active, is_whole)
    add_product(s, node, a, b, tables[2], lanes, active)


def add_product(
    s: DivergentGroup, node: Call, a: Array, b: Array, tc: Array, lanes: Array, active: Active
) -> None:
    """Add the product of A and B to the registers of the sum, whose layout is ``tc``. Sums are
    exact and rounded once."""
    c_kind = DType(node.attr("c"))
    d, count = address_of(s, node.args[0], active), tc.shape[1]
    raw = read_bytes(s, d, lanes.reshape(-1), count * c_kind.bits // 8, 4)
    old = np.asarray(values.from_bytes(raw, c_kind.with_lanes(count)))
    wide: Any = np.int64 if c_kind.is_integer else np.float64
    product = (a.astype(wide) @ b.astype(wide))[:, tc[..., 0], tc[..., 1]]
    total = old.astype(wide) + product.reshape(old.shape)
    new = values.rounded(total.astype(values.compute_dtype(c_kind)), c_kind)
    write_bytes(s, d, lanes.reshape(-1), values.to_bytes(new, c_kind.with_lanes(count)), 4)


MEANINGS: dict[str, Meaning] = {
    "load matrices": _load,
    "store matrices": _store,
    "multiply matrices": _multiply,
}
