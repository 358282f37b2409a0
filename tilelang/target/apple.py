"""The instructions of Apple's GPUs as rows: matrices of 8 x 8 in the registers of a simdgroup.

Source: Metal Shading Language Specification, "SIMD-Group Matrix Functions". Which thread has which
element of a matrix is not said there: a matrix is filled, loaded from and stored to memory as a
whole, and multiplied. The layout of the rows here is that of the registers that lowering moves
elements through, which no instruction sees.
"""

from __future__ import annotations

from tilelang.ir.atoms import Atom, Effect, Operand
from tilelang.ir.dtypes import dtype as DType
from tilelang.layout.register_layout import Mode
from tilelang.target.matrices import BLOCK, MmaAtom, Modes

SIDE = 8  # rows and columns of a matrix
HELD = SIDE * SIDE // 32  # elements of a matrix in each thread
_ROWS: Modes = (Mode(BLOCK, "thread", 4),)
_COLUMNS: Modes = (Mode(4, "thread", 1), Mode(HELD, "register", 1))
_PLACES = (_ROWS, _COLUMNS)

SIMDGROUP: tuple[MmaAtom, ...] = tuple(
    MmaAtom(
        SIDE, SIDE, SIDE, DType(kind), DType(kind), DType("float32"), "simdgroup",
        a_modes=_PLACES, b_modes=_PLACES, c_modes=_PLACES, row="multiply_add_matrix", opaque=True,
    )
    for kind in ("float16", "bfloat16", "float32")
)  # fmt: skip


def _matrix(name: str, text: str, *operands: Operand) -> Atom:
    return Atom(
        name, len(operands), len(operands), "void", effect=Effect.WRITE, operands=operands,
        needs="simdgroup", lowered=True, text=text, semantics=name.replace("_", " "),
    )  # fmt: skip


# Attributes of the calls say the shape; of memory stands here what a row has at least.
_WHOLE = Operand("matrix", "registers", "w", tile="mn")
_PITCH = Operand("elements of a row", "constant")
MATRIX_FILL = _matrix("fill_matrix", "tl_matrix_fill", _WHOLE)
MATRIX_LOAD = _matrix(
    "load_matrix", "tl_matrix_load{transposed}", _WHOLE,
    Operand("source", "shared", "r", bytes=16), _PITCH,
)  # fmt: skip
MATRIX_STORE = _matrix(
    "store_matrix", "tl_matrix_store", Operand("target", "shared", "w", bytes=16),
    Operand("matrix", "registers", "r", tile="mn"), _PITCH,
)  # fmt: skip
MATRIX_MULTIPLY = _matrix(
    "multiply_add_matrix", "tl_matrix_multiply", Operand("d", "registers", "rw", tile="mn"),
    Operand("a", "registers", "r", tile="mk"), Operand("b", "registers", "r", tile="kn"),
)  # fmt: skip
ROWS: list[Atom] = [MATRIX_FILL, MATRIX_LOAD, MATRIX_STORE, MATRIX_MULTIPLY]
