"""The matrix instructions of AMD's GPUs: shapes, dtypes and register layouts.

All are issued with swapped operands, so that they compute the transposed product: a lane then holds
neighbours along a row of the result. Lane ``t`` has row ``t % m`` of A and of the result, and
column ``t % m`` of B; ``t // m`` selects its k (columns).

The order of k is free as long as both operands have the same. So there are three kinds of ``mfma``:

* the instruction itself;
* ``deep``: consecutive instructions, whose registers follow each other, so that a lane has
  16 bytes along k and loads them at once;
* ``chained``: of instructions in which a lane has more than four numbers along k, with k in the
  order in which the registers of a result are columns. A result is an operand of another product
  without a layout conversion.

Both come in 16 x 16 and 32 x 32 (see ``find_atom``).

Sources: AMD CDNA 3 and CDNA 4 instruction set manuals, "Matrix Arithmetic Instructions"; RDNA 3 and
RDNA 4 instruction set manuals, "Wave Matrix Multiply Accumulate".
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.ir.dtypes import dtype as DType
from tilelang.layout.register_layout import Mode, long_modes
from tilelang.target.matrices import MmaAtom

SIZE = 16  # rows and columns of wmma, and of the smaller mfma
RUN = 4  # neighbours along a row of the result in a lane of mfma
LANES = Mode(SIZE, "thread", 1)


def mfma(side: int, k: int, a: str, b: str, c: str, needs: str, run: int = 0) -> MmaAtom:
    """``v_mfma_*`` of ``side`` x ``side`` with ``k`` in a wavefront of 64. The lanes that share a
    row are ``64 / side`` groups; each has a run along k and, of the result, every so manyth run of
    four columns (of float64 of one).

    Args:
        run: neighbours along k in a lane; 0 for all that it has.
    """
    lanes, groups = Mode(side, "thread", 1), 64 // side
    length = k // groups
    run = run or length
    along = long_modes(
        Mode(length // run, "register", run), Mode(groups, "thread", side), Mode(run, "register", 1)
    )
    own = 1 if c == "float64" else RUN
    columns = long_modes(
        Mode(side // (groups * own), "register", own),
        Mode(groups, "thread", side),
        Mode(own, "register", 1),
    )
    return _matrix(side, k, a, b, c, needs, "mfma", lanes, along, columns, 64)


def wmma_gfx11(a: str, b: str, c: str) -> MmaAtom:
    """A ``v_wmma_*_16x16x16`` of RDNA 3: both halves of the wavefront hold all k of the operands,
    and columns ``2 * i + t // 16`` of the result."""
    along = (Mode(SIZE, "register", 1),)
    columns = (Mode(8, "register", 1), Mode(2, "thread", SIZE))
    row = "wmma_gfx11"
    return _matrix(SIZE, 16, a, b, c, row, row, LANES, along, columns, 32, ((2, SIZE),))


def wmma_gfx12(a: str, b: str, c: str) -> MmaAtom:
    """A ``v_wmma_*_16x16x16`` of RDNA 4: lane ``t`` has k from ``8 * (t // 16)`` on, and the same
    columns of the result."""
    along = (Mode(2, "thread", SIZE), Mode(8, "register", 1))
    return _matrix(SIZE, 16, a, b, c, "wmma_gfx12", "wmma_gfx12", LANES, along, along, 32)


def _matrix(
    side: int, k: int, a: str, b: str, c: str, needs: str, row: str, lanes: Mode,
    along: tuple[Mode, ...], columns: tuple[Mode, ...], width: int,
    copies: tuple[tuple[int, int], ...] = (),
) -> MmaAtom:  # fmt: skip
    return MmaAtom(
        side, side, k, DType(a), DType(b), DType(c), needs,
        a_modes=((lanes,), along), b_modes=(along, (lanes,)), c_modes=((lanes,), columns),
        width=width, copies=copies, row=row,
    )  # fmt: skip


def _family(kinds: tuple[str, str], c: str, needs: str, count: int, wide: int) -> Iterator[MmaAtom]:
    """The ``mfma`` of two dtypes in both sizes: a lane has ``count`` elements of an operand per
    instruction, and ``wide`` in 16 bytes."""
    for side in (SIZE, 2 * SIZE) if c != "float64" else (SIZE,):
        groups = 64 // side
        yield mfma(side, groups * count, *kinds, c, needs)
        if count > RUN:
            yield mfma(side, groups * count, *kinds, c, needs, RUN)
        if wide > count:
            yield mfma(side, groups * wide, *kinds, c, needs)


_FNUZ = ("float8_e4m3fnuz", "float8_e5m2fnuz")
_OCP = ("float8_e4m3fn", "float8_e5m2")
_BYTES = ("int8", "uint8")
_HALVES = ("float16", "bfloat16")
MATRICES: tuple[MmaAtom, ...] = (
    *(atom for kind in _HALVES for atom in _family((kind, kind), "float32", "mfma", 4, 8)),
    *(atom for kind in _HALVES for atom in _family((kind, kind), "float32", "mfma_k32", 8, 8)),
    *_family(("float32", "float32"), "float32", "mfma", 1, 4),
    *_family(("tfloat32", "tfloat32"), "float32", "mfma_xf32", 2, 4),
    *_family(("float64", "float64"), "float64", "mfma", 1, 2),
    *_family(("int8", "int8"), "int32", "mfma_i8_k16", 4, 16),
    *_family(("int8", "int8"), "int32", "mfma_i8", 8, 16),
    *_family(("int8", "int8"), "int32", "mfma_k32", 16, 16),
    *_family(("uint8", "uint8"), "int32", "mfma", 8, 16),
    *(atom for kind in _FNUZ for atom in _family((kind, kind), "float32", "mfma_fnuz", 8, 16)),
    *(atom for kind in _OCP for atom in _family((kind, kind), "float32", "mfma_ocp", 8, 16)),
    *(wmma_gfx11(kind, kind, "float32") for kind in _HALVES),
    *(wmma_gfx11(kind, kind, "int32") for kind in _BYTES),
    *(wmma_gfx12(kind, kind, "float32") for kind in _HALVES),
    *(wmma_gfx12(kind, kind, "int32") for kind in _BYTES),
    *(wmma_gfx12(kind, kind, "float32") for kind in _OCP),
)  # fmt: skip
"""``uint8``, which ``mfma`` has not, is multiplied as float16, which has all its numbers; the sums
of an instruction, all below 2^24, are added as integers."""
