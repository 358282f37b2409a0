"""MFMA and other matrix instructions of AMD wavefronts, as the instruction set manuals say.

The register layouts are written out here from the manuals, on purpose without the tables of
``target/``. All are issued with their operands exchanged, for the transposed product: what the
manuals call columns of D are rows here.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from tilelang.interpret.instructions import Meaning
from tilelang.interpret.lanes import Active
from tilelang.interpret.matrices import extents_of, multiply, warps
from tilelang.interpret.values import Array
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Call

if TYPE_CHECKING:
    from tilelang.interpret.machine import DivergentGroup

_LANES = {"mfma": 64, "wmma_gfx11": 32, "wmma_gfx12": 32}


@cache
def register_layout(name: str, m: int, k: int, result: str) -> tuple[Array, Array, Array]:
    """Row and column of each register element, (lanes, elements, 2), of A, B (k x m) and the sum.

    mfma m x m (CDNA 3 manual, "Dense Matrix Multiply-Accumulate"): 64 / m groups of lanes have a
    contiguous part of k each. Of the sum each lane has four neighbours, or one for float64.
    Consecutive instructions alternate between the registers. wmma of RDNA
    4: a half of the lanes has a half of k and of the columns. wmma of RDNA 3: both halves have all
    k, and the even or odd columns.
    """
    a, c = [], []
    for lane in range(_LANES[name]):
        line, part = lane % m, lane // m
        if name == "mfma":
            parts, per_lane = 64 // m, k * m // 64
            along = [part * per_lane + i for i in range(per_lane)]
            run = 1 if result == "float64" else 4
            columns = [run * (i // run * parts + part) + i % run for i in range(m * m // 64)]
        elif name == "wmma_gfx11":
            along = list(range(16))
            columns = [2 * i + part for i in range(8)]
        else:
            along = columns = [8 * part + i for i in range(8)]
        a.append([(line, at) for at in along])
        c.append([(line, at) for at in columns])
    first = np.array(a)
    return first, first[..., ::-1], np.array(c)


def _multiplies(name: str) -> Meaning:
    def handler(s: DivergentGroup, node: Call, active: Active) -> None:
        """D += A B for each wavefront."""
        lanes = warps(s, node, active, _LANES[name])
        m, _, k = extents_of(str(node.attr("shape")))
        tables = register_layout(name, m, k, str(node.attr("c")))
        multiply(s, node, lanes, tables, active, is_whole=DType(node.attr("a")) != "tfloat32")

    return handler


MEANINGS: dict[str, Meaning] = {
    f"multiply matrices by {name}": _multiplies(name) for name in _LANES
}
