"""The instructions of Apple's GPUs as rows: matrices of 8 x 8 in the registers of a simdgroup.

Source: Metal Shading Language Specification, "SIMD-Group Matrix Functions". Which thread has which
element of a matrix is not said there: a matrix is filled, loaded from and stored to memory as a
whole, and multiplied. The layout of such rows is that of the registers that lowering moves
elements through, which no instruction sees.

On all chips so far this layout is the same, and much code relies on it (ml-explore/mlx,
``mlx/backend/metal/kernels/steel/gemm/mma.h``). Rows that need "simdgroup_elements" do, too:
``thread_elements()`` gives the two elements of a thread.
"""

from __future__ import annotations

from tilelang.ir.atoms import Atom
from tilelang.ir.dtypes import dtype as DType
from tilelang.layout.register_layout import Mode
from tilelang.target import operations as O
from tilelang.target.matrices import BLOCK, PER_LANE, MmaAtom, Modes

_ROWS: Modes = (Mode(BLOCK, "thread", 4),)
_COLUMNS: Modes = (Mode(4, "thread", 1), Mode(PER_LANE, "register", 1))
_UNKNOWN = (_ROWS, _COLUMNS)
_KNOWN = (  # lane 16 a + 8 b + 4 c + 2 d + e: row 4 a + 2 c + d, columns 4 b + 2 e and the next one
    (Mode(2, "thread", 16), Mode(4, "thread", 2)),
    (Mode(2, "thread", 8), Mode(2, "thread", 1), Mode(PER_LANE, "register", 1)),
)

SIMDGROUP: tuple[MmaAtom, ...] = tuple(
    MmaAtom(
        BLOCK, BLOCK, BLOCK, DType(kind), DType(kind), DType("float32"), needs,
        a_modes=modes, b_modes=modes, c_modes=modes, row="multiply_add_matrix", opaque=True,
        known=modes is _KNOWN,
    )
    for needs, modes in (("simdgroup_elements", _KNOWN), ("simdgroup", _UNKNOWN))
    for kind in ("float16", "bfloat16", "float32")
)  # fmt: skip


ROWS: list[Atom] = [
    O.MATRIX_FILL, O.MATRIX_LOAD, O.MATRIX_STORE, O.MATRIX_MULTIPLY, O.MATRIX_GIVE, O.MATRIX_TAKE,
]  # fmt: skip
