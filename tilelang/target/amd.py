"""The instructions of AMD's GPUs as rows.

Sources: AMD CDNA 3 and RDNA 3/4 instruction set manuals. The C++ functions that implement them are
in ``hip/include/tl_amdgpu.h``.
"""

from __future__ import annotations

from tilelang.ir.atoms import Atom, Effect, Operand
from tilelang.target.operations import LOAD_LDS, LOADS_COMMIT, LOADS_WAIT


def _multiply(name: str, lanes: int, copies: int) -> Atom:
    """d += a x b on the registers of a wavefront of ``lanes``; attributes of a call say the shape
    and the dtypes. ``copies``: lanes that hold one copy of an operand."""
    return Atom(
        name, 3, 3, "void", effect=Effect.WRITE, needs=name, lowered=True, writer="matrices",
        semantics=f"multiply matrices by {name}",
        operands=(
            Operand("d", "registers", "rw", tile="mn", width=lanes),
            Operand("a", "registers", "r", tile="mk", width=copies),
            Operand("b", "registers", "r", tile="kn", width=copies),
        ),
    )  # fmt: skip


MFMA = _multiply("mfma", 64, 64)
WMMA_GFX11 = _multiply("wmma_gfx11", 32, 16)
WMMA_GFX12 = _multiply("wmma_gfx12", 32, 32)
ROWS: list[Atom] = [MFMA, WMMA_GFX11, WMMA_GFX12, LOAD_LDS, LOADS_COMMIT, LOADS_WAIT]
