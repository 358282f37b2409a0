"""The instructions of AMD's GPUs as rows.

Sources: AMD CDNA 3 and RDNA 3/4 instruction set manuals. The C++ functions that print them stand in
``hip/include/tl_amdgpu.h``.
"""

from __future__ import annotations

from tilelang.ir.atoms import VALUE, Atom, Effect, Operand, Order, group


def _multiply(name: str, lanes: int, held: int) -> Atom:
    """d += a x b on the registers of a wavefront of ``lanes``; attributes of a call say the shape
    and the dtypes. ``held``: lanes that hold a factor once."""
    return Atom(
        name, 3, 3, "void", effect=Effect.WRITE, needs=name, lowered=True, writer="matrices",
        semantics=f"multiply matrices by {name}",
        operands=(
            Operand("d", "registers", "rw", tile="mn", width=lanes),
            Operand("a", "registers", "r", tile="mk", width=held),
            Operand("b", "registers", "r", tile="kn", width=held),
        ),
    )  # fmt: skip


MFMA = _multiply("mfma", 64, 64)
WMMA_GFX11 = _multiply("wmma_gfx11", 32, 16)
WMMA_GFX12 = _multiply("wmma_gfx12", 32, 32)
# What the lanes of a wavefront load lies one behind the other. The instructions of a thread are
# counted while they are in flight; those of one item of a pipeline are what other machines call a
# group.
LOAD_LDS = Atom(
    "load_lds", 2, 2, "void", effect=Effect.WRITE, needs="direct_lds", lowered=True,
    operands=(
        Operand("destination", "shared", "w", bytes=1, times="bytes"),
        Operand("source", "global", "r", bytes=1, times="bytes"),
    ),
    completes=group("cp_async"), writer="load to LDS", semantics="copy bytes later",
    displaces=True,
)  # fmt: skip
LOADS_COMMIT = Atom(
    "loads_commit", 0, 0, "void", effect=Effect.SYNC, needs="direct_lds", lowered=True,
    orders=Order("commit", "thread", "cp_async"), text="tl_loads_commit",
    semantics="commit a group",
)  # fmt: skip
# ``count`` items of ``loads`` instructions stay in flight, fewer where the operand says that fewer
# have been started.
LOADS_WAIT = Atom(
    "loads_wait", 1, 1, "void", effect=Effect.SYNC, needs="direct_lds", lowered=True,
    operands=(VALUE,), orders=Order("wait", "thread", "cp_async"),
    text="tl_loads_wait<{loads}, {count}>", semantics="wait for groups",
)  # fmt: skip
ROWS: list[Atom] = [MFMA, WMMA_GFX11, WMMA_GFX12, LOAD_LDS, LOADS_COMMIT, LOADS_WAIT]
