"""The matrix instructions of NVIDIA's GPUs: which there are, and which register holds what.

Source: PTX ISA, "Matrix Fragments for mma" and "Register Fragments for wgmma.mma_async".
"""

from __future__ import annotations

from tilelang.ir.dtypes import dtype as DType
from tilelang.layout.register_layout import Mode, long_modes
from tilelang.target.matrices import BLOCK, WARPGROUP, MmaAtom, Modes


# -- registers of mma.sync -------------------------------------------------------------------------
def mma_sync(m: int, n: int, k: int, kind: str, result: str, needs: str) -> MmaAtom:
    """An ``mma.sync`` instruction with both operands of dtype ``kind``.

    The register layouts of all of them follow one rule, of which the figures of the PTX manual are
    instances: eight rows of A (or columns of B) times 16 bytes of k make a block, whose row ``i``
    belongs to the threads ``4i .. 4i+3``, each with 4 bytes of it; the registers of a thread count
    the blocks, along m first for A, then along k.
    """
    factor = DType(kind)
    per = max(1, 32 // factor.bits)  # neighbours along k in one register
    down, along = m // BLOCK, k // (4 * per)

    def k_modes(stride: int) -> Modes:
        return long_modes(
            Mode(along, "register", stride), Mode(4, "thread", 1), Mode(per, "register", 1)
        )

    def rows(stride: int) -> Modes:
        return long_modes(Mode(down, "register", stride), Mode(BLOCK, "thread", 4))

    return MmaAtom(
        m, n, k, factor, factor, DType(result), needs,
        a_modes=(rows(per), k_modes(per * down)),
        b_modes=(k_modes(per), (Mode(BLOCK, "thread", 4),)),
        c_modes=(rows(2), (Mode(4, "thread", 1), Mode(2, "register", 1))),
    )  # fmt: skip


# Shape, dtypes of operands and accumulator, feature. On sm_75 the larger shapes of float16 and of
# bytes are two or four smaller instructions on the same registers.
_TABLE: tuple[tuple[tuple[int, int, int], str, str, str], ...] = (
    ((16, 8, 16), "float16", "float32", "mma"),
    ((16, 8, 8), "float16", "float32", "mma"),
    ((16, 8, 16), "float16", "float16", "mma"),
    ((16, 8, 8), "float16", "float16", "mma"),
    ((16, 8, 16), "bfloat16", "float32", "mma_sm80"),
    ((16, 8, 8), "bfloat16", "float32", "mma_sm80"),
    ((16, 8, 8), "tfloat32", "float32", "mma_sm80"),
    ((16, 8, 4), "tfloat32", "float32", "mma_sm80"),
    ((8, 8, 4), "float64", "float64", "mma_sm80"),
    ((16, 8, 32), "int8", "int32", "mma"),
    ((16, 8, 16), "int8", "int32", "mma_sm80"),
    ((16, 8, 32), "uint8", "int32", "mma"),
    ((16, 8, 16), "uint8", "int32", "mma_sm80"),
    ((16, 8, 64), "int4", "int32", "mma_sm80"),
    ((16, 8, 32), "int4", "int32", "mma_sm80"),
    ((16, 8, 64), "uint4", "int32", "mma_sm80"),
    ((16, 8, 32), "uint4", "int32", "mma_sm80"),
    ((16, 8, 32), "float8_e4m3fn", "float32", "mma_fp8"),
    ((16, 8, 32), "float8_e5m2", "float32", "mma_fp8"),
)

# -- registers of wgmma ----------------------------------------------------------------------------
# Dtypes of the operands -> of the accumulator. Operands may mix fp8 dtypes, and int8 with uint8.
_BYTES = (("float8_e4m3fn", "float8_e5m2"), ("int8", "uint8"))
WGMMA_KINDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("float16", "float16"): ("float32", "float16"),
    ("bfloat16", "bfloat16"): ("float32",),
    ("tfloat32", "tfloat32"): ("float32",),
    **{(a, b): ("float32", "float16") for a in _BYTES[0] for b in _BYTES[0]},
    **{(a, b): ("int32",) for a in _BYTES[1] for b in _BYTES[1]},
}


def wgmma_columns(c: DType) -> tuple[int, ...]:
    """Columns that an instruction with sums of dtype ``c`` may have, the most first."""
    further = (24, 8) if c.is_integer else range(248, 0, -16)
    return tuple(sorted((*range(256, 0, -16), *further), reverse=True))


def wgmma_atom(n: int, a: DType, b: DType, c: DType) -> MmaAtom:
    """A ``wgmma.mma_async`` with ``n`` columns ("Register Fragments for wgmma.mma_async").

    Warp ``w`` of the group holds rows ``16w .. 16w+15`` of A and of the sum, as for ``mma.sync``.
    """
    per = 32 // a.bits

    def rows(stride: int) -> Modes:
        return Mode(4, "thread", 32), Mode(2, "register", stride), Mode(BLOCK, "thread", 4)

    return MmaAtom(
        64, n, 256 // a.bits, a, b, c, "wgmma",
        a_modes=(rows(per), long_modes(
            Mode(2, "register", 2 * per), Mode(4, "thread", 1), Mode(per, "register", 1)
        )),
        b_modes=((), ()),
        c_modes=(rows(2), long_modes(
            Mode(n // BLOCK, "register", 4), Mode(4, "thread", 1), Mode(2, "register", 1)
        )),
        width=WARPGROUP,
    )  # fmt: skip


MMA_SYNC: tuple[MmaAtom, ...] = tuple(
    mma_sync(*shape, kind, result, needs) for shape, kind, result, needs in _TABLE
)
