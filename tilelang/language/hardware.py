"""Tile operations that exist only on some GPU: tensor memory, sparse and scaled products.

They trace and print everywhere. ``needs`` says the feature of targets; back ends without it,
and the interpreter, refuse them by it.
"""

from __future__ import annotations

from typing import Any

from tilelang.errors import TileTypeError
from tilelang.frontend.regions import describe, pairs, region_of, scalar
from tilelang.ir.buffer import Buffer
from tilelang.ir.emitter import emitter
from tilelang.ir.expr import Expr, as_expr
from tilelang.ir.stmt import HardwareOp
from tilelang.language.gemm_op import condition, warp_policy
from tilelang.target.nvidia import HARDWARE_TILES
from tilelang.tracebacks import borders

__all__ = [
    "deallocate_tmem", "gemm_sp", "gemm_sp_v2", "mma_gemm_blockscaled", "tcgen05_cp_warpx4",
    "tcgen05_gemm_blockscaled", "tcgen05_gemm_sp", "tcgen05_mma_blockscaled",
    "tcgen05_sf_warp_transpose", "wgmma_gemm_sp",
]  # fmt: skip


# -- tile operations -------------------------------------------------------------------------------
def _tile(
    name: str, reads: tuple[object, ...], writes: tuple[object, ...], args: tuple[object, ...] = (),
    **options: object,
) -> None:  # fmt: skip
    op_name = f"T.{name}"
    emitter(op_name).emit(
        HardwareOp(
            name=name,
            needs=HARDWARE_TILES[name],
            reads=tuple(region_of(read, op_name) for read in reads),
            writes=tuple(region_of(read, op_name) for read in writes),
            args=tuple(arg if isinstance(arg, Expr) else as_expr(arg) for arg in args),
            options=pairs(**options),
        )
    )


def _signal(mbar: object, op_name: str) -> tuple[Expr, ...]:
    from tilelang.language.sync import barrier_address

    return () if mbar is None else (barrier_address(mbar, op_name),)


def gemm_sp(
    A_sparse: object, E: object, B: object, C: object, transpose_A: bool = False,
    transpose_E: bool = False, transpose_B: bool = False, policy: int = 0,
    clear_accum: object = False, k_pack: int = 1, wg_wait: int = 0, **options: object,
) -> None:  # fmt: skip
    """Accumulate ``C += op(A) @ op(B)`` with A stored 2:4 sparse (sm_80).

    Of four neighbouring elements along K, A stores the two that may differ from 0.

    Args:
        A_sparse: [M, K / 2], the stored elements; a shared tile or a fragment.
        E: the metadata, which say where in its group of four each stored element is.
        B: [K, N], or [N, K] with ``transpose_B``.
        C: [M, N], the accumulator.
        transpose_A, transpose_E, transpose_B: constants; whether the operand is stored transposed.
        policy, clear_accum, k_pack, wg_wait: as for :func:`gemm`.
        options: kept with the statement.

    Source: PTX ISA, "mma.sp".
    """
    _tile(
        "gemm_sp", (A_sparse, E, B), (C,), (condition(clear_accum, "T.gemm_sp", "clear"),),
        transpose_A=transpose_A, transpose_E=transpose_E, transpose_B=transpose_B,
        policy=int(warp_policy(policy, "T.gemm_sp")), k_pack=k_pack, **options,
    )  # fmt: skip


gemm_sp_v2 = gemm_sp


def wgmma_gemm_sp(
    A_sparse: object, E: object, B: object, C: object, *flags: object, **options: object
) -> None:
    """Issue a :func:`gemm_sp` that may still run afterwards (sm_90a).

    Args:
        A_sparse, E, B, C: as for :func:`gemm_sp`.
        flags, options: kept with the statement.

    Source: PTX ISA, "wgmma.mma_async.sp".
    """
    _tile("wgmma_gemm_sp", (A_sparse, E, B), (C,), flags, **options)


def tcgen05_gemm_sp(
    A_sparse: object, E: object, B: object, C: object, *flags: object, mbar: object = None,
    **options: object,
) -> None:  # fmt: skip
    """Multiply a 2:4 sparse operand into tensor memory (sm_100a).

    Args:
        A_sparse, E, B: as for :func:`gemm_sp`.
        C: a tile of ``T.alloc_tmem``.
        mbar: element of ``T.alloc_barrier`` at which the product arrives when it is complete.
        flags, options: kept with the statement.

    Source: PTX ISA, "tcgen05.mma.sp".
    """
    op_name = "T.tcgen05_gemm_sp"
    _tile("tcgen05_gemm_sp", (A_sparse, E, B), (C,), (*flags, *_signal(mbar, op_name)), **options)


def tcgen05_gemm_blockscaled(
    A: object, B: object, C: object, SFA_tmem: object, SFB_tmem: object, transpose_A: bool = False,
    transpose_B: bool = False, clear_accum: object = False, wg_wait: int = 0, mbar: object = None,
    *, k_start: object = 0, sf_a_granularity_k: int = 32, sf_b_granularity_k: int = 32,
    **options: object,
) -> None:  # fmt: skip
    """Multiply block-scaled operands into tensor memory (sm_100a).

    Args:
        A, B: tiles in shared memory, with shapes as in :func:`gemm`.
        C: a tile of ``T.alloc_tmem``.
        SFA_tmem, SFB_tmem: the scale factors of A and B in tensor memory.
        transpose_A, transpose_B, clear_accum: as for :func:`gemm`.
        wg_wait: accepted, without effect.
        mbar: element of ``T.alloc_barrier`` at which the product arrives when it is complete.
        k_start: the index along K at which the operands start, which selects scale factors.
        sf_a_granularity_k, sf_b_granularity_k: elements along K that one scale factor covers.
        options: kept with the statement.

    Source: PTX ISA, "tcgen05.mma", ".block_scale".
    """
    op = "T.tcgen05_gemm_blockscaled"
    args = (condition(clear_accum, op, "clear"), scalar(k_start, op), *_signal(mbar, op))
    _tile(
        "tcgen05_gemm_blockscaled", (A, B, SFA_tmem, SFB_tmem), (C,), args, transpose_A=transpose_A,
        transpose_B=transpose_B, sf_a_granularity_k=sf_a_granularity_k,
        sf_b_granularity_k=sf_b_granularity_k, **options,
    )  # fmt: skip


tcgen05_mma_blockscaled = tcgen05_gemm_blockscaled


def mma_gemm_blockscaled(
    A: object, B: object, C: object, SFA: object, SFB: object, transpose_A: bool = False,
    transpose_B: bool = False, policy: int = 0, clear_accum: object = False, *,
    k_start: object = 0, sf_a_granularity_k: int = 32, sf_b_granularity_k: int = 32,
    **options: object,
) -> None:  # fmt: skip
    """Multiply block-scaled operands by the instructions of a warp (sm_120).

    Args:
        A, B, C: operands and accumulator as for :func:`gemm`.
        SFA, SFB: the scale factors of A and B.
        transpose_A, transpose_B, policy, clear_accum: as for :func:`gemm`.
        k_start: the index along K at which the operands start, which selects scale factors.
        sf_a_granularity_k, sf_b_granularity_k: elements along K that one scale factor covers.
        options: kept with the statement.

    Source: PTX ISA, "mma", ".block_scale".
    """
    op_name = "T.mma_gemm_blockscaled"
    args = (condition(clear_accum, op_name, "clear"), scalar(k_start, op_name))
    _tile(
        "mma_gemm_blockscaled", (A, B, SFA, SFB), (C,), args, transpose_A=transpose_A,
        policy=int(warp_policy(policy, op_name)), transpose_B=transpose_B,
        sf_a_granularity_k=sf_a_granularity_k, sf_b_granularity_k=sf_b_granularity_k, **options,
    )  # fmt: skip


def tcgen05_cp_warpx4(
    smem_src: object, tmem_dst: object, tmem_col_offset: object = 0, *, use_2cta: bool = False
) -> None:
    """Copy scale factors from shared to tensor memory (sm_100a).

    Args:
        smem_src: the tile in shared memory.
        tmem_dst: a tile of ``T.alloc_tmem``.
        tmem_col_offset: the first column of ``tmem_dst``.
        use_2cta: whether both blocks of a pair get them.

    Source: PTX ISA, "tcgen05.cp", ".warpx4".
    """
    offset = scalar(tmem_col_offset, "T.tcgen05_cp_warpx4")
    _tile("tcgen05_cp_warpx4", (smem_src,), (tmem_dst,), (offset,), use_2cta=use_2cta)


def tcgen05_sf_warp_transpose(smem_src: object) -> None:
    """Transpose scale factors in shared memory."""
    _tile("tcgen05_sf_warp_transpose", (), (smem_src,))


def deallocate_tmem(tmem: Any) -> None:
    """Free tensor memory before the kernel ends.

    Raises:
        TileTypeError: ``tmem`` is not a buffer of ``T.alloc_tmem``.

    Source: PTX ISA, "tcgen05.dealloc".
    """
    if not isinstance(tmem, Buffer) or tmem.storage != "shared.tmem":
        raise TileTypeError(
            "T.deallocate_tmem of something that is not tensor memory",
            expected="a buffer made by T.alloc_tmem",
            got=describe(tmem),
        )
    _tile("deallocate_tmem", (), (tmem,))


borders(globals(), __all__)
