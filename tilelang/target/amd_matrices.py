"""The matrix instructions of AMD's GPUs: which there are, and which register holds what.

All are issued with their operands exchanged, so that they compute the transposed product: a lane
then holds neighbours along a row of the result. Lane ``t`` has row ``t % 16`` of A and of the
result, and column ``t % 16`` of B; which k (columns) it has, ``t // 16`` says.

Sources: AMD CDNA 3 and CDNA 4 instruction set manuals, "Matrix Arithmetic Instructions"; RDNA 3 and
RDNA 4 instruction set manuals, "Wave Matrix Multiply Accumulate".
"""

from __future__ import annotations

from tilelang.ir.dtypes import dtype as DType
from tilelang.layout.register_layout import Mode
from tilelang.target.matrices import MmaAtom

SIZE = 16  # rows and columns
LANES = Mode(SIZE, "thread", 1)


def mfma(k: int, a: str, b: str, c: str, needs: str) -> MmaAtom:
    """A ``v_mfma_*_16x16xk`` of a wavefront of 64: lane ``t`` has the run of ``k / 4`` numbers
    that begins at ``k / 4 * (t // 16)``, and of the result columns ``4 * (t // 16) + i``; of
    float64, ``t // 16 + 4 * i``."""
    along = tuple(
        mode for mode in (Mode(4, "thread", SIZE), Mode(k // 4, "register", 1)) if mode.extent > 1
    )
    columns = (Mode(4, "thread", SIZE), Mode(4, "register", 1))
    if c == "float64":
        columns = columns[::-1]
    return _matrix(k, a, b, c, needs, "mfma", along, columns, 64)


def wmma_gfx11(a: str, b: str, c: str) -> MmaAtom:
    """A ``v_wmma_*_16x16x16`` of RDNA 3: both halves of the wavefront have all k of the factors,
    and of the result columns ``2 * i + t // 16``."""
    along = (Mode(SIZE, "register", 1),)
    columns = (Mode(8, "register", 1), Mode(2, "thread", SIZE))
    return _matrix(16, a, b, c, "wmma_gfx11", "wmma_gfx11", along, columns, 32, ((2, SIZE),))


def wmma_gfx12(a: str, b: str, c: str) -> MmaAtom:
    """A ``v_wmma_*_16x16x16`` of RDNA 4: lane ``t`` has k from ``8 * (t // 16)`` on, and the same
    columns of the result."""
    along = (Mode(2, "thread", SIZE), Mode(8, "register", 1))
    return _matrix(16, a, b, c, "wmma_gfx12", "wmma_gfx12", along, along, 32)


def _matrix(
    k: int, a: str, b: str, c: str, needs: str, row: str, along: tuple[Mode, ...],
    columns: tuple[Mode, ...], width: int, copies: tuple[tuple[int, int], ...] = (),
) -> MmaAtom:  # fmt: skip
    return MmaAtom(
        SIZE, SIZE, k, DType(a), DType(b), DType(c), needs,
        a_modes=((LANES,), along), b_modes=(along, (LANES,)), c_modes=((LANES,), columns),
        width=width, copies=copies, row=row,
    )  # fmt: skip


_FNUZ = ("float8_e4m3fnuz", "float8_e5m2fnuz")
_OCP = ("float8_e4m3fn", "float8_e5m2")
_BYTES = ("int8", "uint8")
MATRICES: tuple[MmaAtom, ...] = (
    mfma(16, "float16", "float16", "float32", "mfma"),
    mfma(16, "bfloat16", "bfloat16", "float32", "mfma"),
    mfma(4, "float32", "float32", "float32", "mfma"),
    mfma(4, "float64", "float64", "float64", "mfma"),
    mfma(16, "int8", "int8", "int32", "mfma_i8_k16"),
    mfma(32, "int8", "int8", "int32", "mfma_i8"),
    *(mfma(32, kind, kind, "float32", "mfma_fnuz") for kind in _FNUZ),
    *(mfma(32, kind, kind, "float32", "mfma_ocp") for kind in _OCP),
    mfma(32, "float16", "float16", "float32", "mfma_k32"),
    mfma(32, "bfloat16", "bfloat16", "float32", "mfma_k32"),
    mfma(64, "int8", "int8", "int32", "mfma_k32"),
    *(wmma_gfx11(kind, kind, "float32") for kind in ("float16", "bfloat16")),
    *(wmma_gfx11(kind, kind, "int32") for kind in _BYTES),
    *(wmma_gfx12(kind, kind, "float32") for kind in ("float16", "bfloat16")),
    *(wmma_gfx12(kind, kind, "int32") for kind in _BYTES),
    *(wmma_gfx12(kind, kind, "float32") for kind in _OCP),
)
