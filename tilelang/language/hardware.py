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
    "deallocate_tmem",
    "gemm_sp",
    "gemm_sp_v2",
    "mma_gemm_blockscaled",
    "tcgen05_cp_warpx4",
    "tcgen05_gemm_blockscaled",
    "tcgen05_gemm_sp",
    "tcgen05_mma_blockscaled",
    "tcgen05_sf_warp_transpose",
    "wgmma_gemm_sp",
]


# -- tile operations -------------------------------------------------------------------------------
def _tile(
    name: str, reads: tuple[object, ...], writes: tuple[object, ...], args: tuple[object, ...] = (),
    **options: object,
) -> None:  # fmt: skip
    what = f"T.{name}"
    emitter(what).emit(
        HardwareOp(
            name=name,
            needs=HARDWARE_TILES[name],
            reads=tuple(region_of(read, what) for read in reads),
            writes=tuple(region_of(read, what) for read in writes),
            args=tuple(arg if isinstance(arg, Expr) else as_expr(arg) for arg in args),
            options=pairs(**options),
        )
    )


def _signal(mbar: object, what: str) -> tuple[Expr, ...]:
    from tilelang.language.sync import barrier_address

    return () if mbar is None else (barrier_address(mbar, what),)


def gemm_sp(
    A_sparse: object, E: object, B: object, C: object, transpose_A: bool = False,
    transpose_E: bool = False, transpose_B: bool = False, policy: int = 0,
    clear_accum: object = False, k_pack: int = 1, wg_wait: int = 0, **options: object,
) -> None:  # fmt: skip
    """Accumulate ``C += A @ B`` with A stored 2:4 sparse and its metadata E."""
    _tile(
        "gemm_sp", (A_sparse, E, B), (C,), (condition(clear_accum, "T.gemm_sp", "clear"),),
        transpose_A=transpose_A, transpose_E=transpose_E, transpose_B=transpose_B,
        policy=int(warp_policy(policy, "T.gemm_sp")), k_pack=k_pack, **options,
    )  # fmt: skip


gemm_sp_v2 = gemm_sp


def wgmma_gemm_sp(
    A_sparse: object, E: object, B: object, C: object, *flags: object, **options: object
) -> None:
    """Issue a :func:`gemm_sp` that may still run afterwards."""
    _tile("wgmma_gemm_sp", (A_sparse, E, B), (C,), flags, **options)


def tcgen05_gemm_sp(
    A_sparse: object, E: object, B: object, C: object, *flags: object, mbar: object = None,
    **options: object,
) -> None:  # fmt: skip
    """Multiply a sparse operand into tensor memory."""
    what = "T.tcgen05_gemm_sp"
    _tile("tcgen05_gemm_sp", (A_sparse, E, B), (C,), (*flags, *_signal(mbar, what)), **options)


def tcgen05_gemm_blockscaled(
    A: object, B: object, C: object, SFA_tmem: object, SFB_tmem: object, transpose_A: bool = False,
    transpose_B: bool = False, clear_accum: object = False, wg_wait: int = 0, mbar: object = None,
    *, k_start: object = 0, sf_a_granularity_k: int = 32, sf_b_granularity_k: int = 32,
    **options: object,
) -> None:  # fmt: skip
    """Multiply block-scaled operands into tensor memory."""
    what = "T.tcgen05_gemm_blockscaled"
    args = (condition(clear_accum, what, "clear"), scalar(k_start, what), *_signal(mbar, what))
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
    """Multiply block-scaled operands in registers."""
    what = "T.mma_gemm_blockscaled"
    args = (condition(clear_accum, what, "clear"), scalar(k_start, what))
    _tile(
        "mma_gemm_blockscaled", (A, B, SFA, SFB), (C,), args, transpose_A=transpose_A,
        policy=int(warp_policy(policy, what)), transpose_B=transpose_B,
        sf_a_granularity_k=sf_a_granularity_k, sf_b_granularity_k=sf_b_granularity_k, **options,
    )  # fmt: skip


def tcgen05_cp_warpx4(
    smem_src: object, tmem_dst: object, tmem_col_offset: object = 0, *, use_2cta: bool = False
) -> None:
    """Copy scale factors from shared to tensor memory."""
    offset = scalar(tmem_col_offset, "T.tcgen05_cp_warpx4")
    _tile("tcgen05_cp_warpx4", (smem_src,), (tmem_dst,), (offset,), use_2cta=use_2cta)


def tcgen05_sf_warp_transpose(smem_src: object) -> None:
    """Transpose scale factors in shared memory."""
    _tile("tcgen05_sf_warp_transpose", (), (smem_src,))


def deallocate_tmem(tmem: Any) -> None:
    """Free tensor memory before the kernel ends."""
    if not isinstance(tmem, Buffer) or tmem.storage != "shared.tmem":
        raise TileTypeError(
            "T.deallocate_tmem of something that is not tensor memory",
            expected="a buffer made by T.alloc_tmem",
            got=describe(tmem),
        )
    _tile("deallocate_tmem", (), (tmem,))


borders(globals(), __all__)
