"""Operations that exist only on some GPU: tensor memory, sparse products, clusters, raw PTX.

They trace and print everywhere. ``needs`` says the lowest architecture; back ends without it, and
the interpreter, refuse them by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.errors import TileTypeError
from tilelang.ir.active import emitter
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import AddressOf, Call, Expr, Load, as_expr, call
from tilelang.ir.stmt import HardwareOp
from tilelang.language.gemm_op import condition
from tilelang.language.raw import operand
from tilelang.language.regions import describe, emit_call, pairs, region_of, scalar
from tilelang.target.nvidia import HARDWARE_TILES
from tilelang.target.rows import ROWS

__all__ = [
    "block_rank_in_cluster",
    "clc_get_first_ctaid_x",
    "clc_get_first_ctaid_y",
    "clc_get_first_ctaid_z",
    "clc_is_canceled",
    "clc_try_cancel",
    "clc_try_cancel_multicast",
    "cluster_arrive",
    "cluster_arrive_relaxed",
    "cluster_sync",
    "cluster_wait",
    "deallocate_tmem",
    "gemm_sp",
    "gemm_sp_v2",
    "increase_descriptor_offset",
    "initialize_tcgen05_descriptor",
    "initialize_wgmma_descriptor",
    "mma_gemm_blockscaled",
    "ptx_arrive_cluster_barrier",
    "ptx_cp_async_bulk",
    "ptx_ldmatrix",
    "ptx_mma",
    "ptx_mma_sm70",
    "ptx_mma_sp",
    "ptx_tcgen05_mma_ss",
    "ptx_tcgen05_mma_ts",
    "ptx_wgmma_rs",
    "ptx_wgmma_ss",
    "tcgen05_after_thread_sync",
    "tcgen05_before_thread_sync",
    "tcgen05_cp_warpx4",
    "tcgen05_gemm_blockscaled",
    "tcgen05_gemm_sp",
    "tcgen05_mma_arrive",
    "tcgen05_mma_blockscaled",
    "tcgen05_sf_warp_transpose",
    "wgmma_gemm_sp",
]


def _raw(name: str, doc: str) -> Callable[..., Call]:
    """A word of a raw instruction, which is a statement."""

    def function(*args: object, **options: object) -> Call:
        given = dict(pairs(**options))
        return emit_call(f"T.{name}", name, *(operand(arg) for arg in args), **given)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc} Needs {ROWS[name].needs}."
    return function


def _raw_value(name: str, doc: str) -> Callable[..., Expr]:
    """A word of a raw instruction that gives a value."""

    def function(*args: object) -> Expr:
        return call(ROWS[name], *(operand(arg) for arg in args))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc} Needs {ROWS[name].needs}."
    return function


# -- clusters --------------------------------------------------------------------------------------
cluster_arrive = _raw("cluster_arrive", "Arrive at the barrier of the cluster.")
cluster_arrive_relaxed = _raw("cluster_arrive_relaxed", "Arrive without ordering memory.")
cluster_wait = _raw("cluster_wait", "Wait at the barrier of the cluster.")
cluster_sync = _raw("cluster_sync", "Arrive and wait at the barrier of the cluster.")
block_rank_in_cluster = _raw_value("block_rank_in_cluster", "Rank of the block in its cluster.")
clc_try_cancel = _raw("clc_try_cancel", "Ask for the work of a block that has not started.")
clc_try_cancel_multicast = _raw("clc_try_cancel_multicast", "The same for a whole cluster.")
clc_is_canceled = _raw_value("clc_is_canceled", "Whether such a request succeeded.")
clc_get_first_ctaid_x = _raw_value("clc_get_first_ctaid_x", "x index of the block obtained.")
clc_get_first_ctaid_y = _raw_value("clc_get_first_ctaid_y", "y index of the block obtained.")
clc_get_first_ctaid_z = _raw_value("clc_get_first_ctaid_z", "z index of the block obtained.")


def ptx_arrive_cluster_barrier(mbarrier: object, cta_id: object) -> Call:
    """Arrive at the barrier of block ``cta_id`` of the cluster."""
    from tilelang.language.sync import mbarrier_arrive

    return mbarrier_arrive(mbarrier, cta_id)


# -- operand descriptors, bulk copies --------------------------------------------------------------
ptx_cp_async_bulk = _raw("ptx_cp_async_bulk", "A bulk copy of contiguous bytes.")


def _descriptor(value: object, what: str) -> Expr:
    if isinstance(value, Buffer) and value.storage == "local.descriptor":
        return AddressOf(value, value.region().mins, "w")
    if isinstance(value, Load) and value.buffer.storage == "local.descriptor":
        return AddressOf(value.buffer, value.indices, "w")
    raise TileTypeError(
        f"the descriptor of {what} is not a descriptor",
        expected="a buffer made by T.alloc_wgmma_desc or T.alloc_tcgen05_smem_desc",
        got=describe(value),
    )


def initialize_wgmma_descriptor(
    descriptor: object,
    start_address: object,
    layout_type_: int = 0,
    leading_byte_offset: int = 0,
    stride_byte_offset: int = 0,
) -> Call:
    """Fill the descriptor of a wgmma operand.

    Args:
        start_address: pointer to the operand in shared memory.
        layout_type_: 0 no swizzle, 1, 2, 3 for 128, 64 and 32 bytes.
        leading_byte_offset, stride_byte_offset: distances in units of 16 bytes.
    """
    what = "T.initialize_wgmma_descriptor"
    rest = (layout_type_, leading_byte_offset, stride_byte_offset)
    return emit_call(
        what,
        "initialize_wgmma_descriptor",
        _descriptor(descriptor, what),
        operand(start_address),
        *(scalar(item, what) for item in rest),
    )


def initialize_tcgen05_descriptor(
    descriptor: object,
    start_address: object,
    leading_byte_offset: int,
    stride_byte_offset: int,
    base_offset: int = 0,
    leading_is_absolute: bool = False,
    swizzle_mode: int = 0,
) -> Call:
    """Fill the descriptor of a tcgen05 operand in shared memory."""
    what = "T.initialize_tcgen05_descriptor"
    rest = (
        leading_byte_offset,
        stride_byte_offset,
        base_offset,
        int(leading_is_absolute),
        swizzle_mode,
    )
    return emit_call(
        what,
        "initialize_tcgen05_descriptor",
        _descriptor(descriptor, what),
        operand(start_address),
        *(scalar(item, what) for item in rest),
    )


def increase_descriptor_offset(descriptor: object, offset: object) -> Call:
    """Move the start address of a descriptor by ``offset`` bytes."""
    what = "T.increase_descriptor_offset"
    return emit_call(
        what, "increase_descriptor_offset", _descriptor(descriptor, what), scalar(offset, what)
    )


# -- raw matrix instructions -----------------------------------------------------------------------
ptx_ldmatrix = _raw("ptx_ldmatrix", "Load 8 x 8 matrices from shared memory.")
ptx_mma = _raw("ptx_mma", "A matrix instruction of one warp.")
ptx_mma_sp = _raw("ptx_mma_sp", "A sparse matrix instruction of one warp.")
ptx_wgmma_ss = _raw("ptx_wgmma_ss", "A warpgroup product with both operands in shared memory.")
ptx_wgmma_rs = _raw("ptx_wgmma_rs", "A warpgroup product with A in registers.")
ptx_tcgen05_mma_ss = _raw("ptx_tcgen05_mma_ss", "A tcgen05 product from shared memory.")
ptx_tcgen05_mma_ts = _raw("ptx_tcgen05_mma_ts", "A tcgen05 product with A in tensor memory.")
tcgen05_before_thread_sync = _raw(
    "tcgen05_before_thread_sync", "Order tcgen05 work before a barrier."
)
tcgen05_after_thread_sync = _raw("tcgen05_after_thread_sync", "Order tcgen05 work after a barrier.")


def ptx_mma_sm70(
    shape: str,
    A_layout: str,
    B_layout: str,
    A_dtype: str,
    B_dtype: str,
    C_dtype: str,
    multiplicand_a: object,
    a_index: object,
    multiplicand_b: object,
    b_index: object,
    accumulator: object,
    c_index: object,
    *more: object,
) -> Call:
    """The m16n16k4 matrix instruction of sm_70. A leading dtype argument is accepted."""
    args = (
        shape,
        A_layout,
        B_layout,
        A_dtype,
        B_dtype,
        C_dtype,
        multiplicand_a,
        a_index,
        multiplicand_b,
        b_index,
        accumulator,
        c_index,
        *more,
    )
    return emit_call("T.ptx_mma_sm70", "ptx_mma_sm70", *(operand(arg) for arg in args))


def tcgen05_mma_arrive(mbar: object, arrive_2cta: bool = False) -> Call:
    """Signal a barrier when the tcgen05 products issued so far are complete."""
    from tilelang.language.sync import barrier_address

    what = "T.tcgen05_mma_arrive"
    return emit_call(
        what, "tcgen05_mma_arrive", barrier_address(mbar, what), arrive_2cta=bool(arrive_2cta)
    )


# -- tile operations -------------------------------------------------------------------------------
def _tile(
    name: str,
    reads: tuple[object, ...],
    writes: tuple[object, ...],
    args: tuple[object, ...] = (),
    **options: object,
) -> None:
    what = f"T.{name}"
    emitter(what).emit(
        HardwareOp(
            name=name,
            needs=HARDWARE_TILES[name],
            reads=tuple(region_of(item, what) for item in reads),
            writes=tuple(region_of(item, what) for item in writes),
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
    """``C += A @ B`` with A stored 2:4 sparse and its metadata E."""
    _tile(
        "gemm_sp", (A_sparse, E, B), (C,), (condition(clear_accum, "T.gemm_sp", "clear"),),
        transpose_A=transpose_A, transpose_E=transpose_E, transpose_B=transpose_B,
        policy=int(policy), k_pack=k_pack, **options,
    )  # fmt: skip


gemm_sp_v2 = gemm_sp


def wgmma_gemm_sp(
    A_sparse: object, E: object, B: object, C: object, *flags: object, **options: object
) -> None:
    """:func:`gemm_sp` that may still run afterwards."""
    _tile("wgmma_gemm_sp", (A_sparse, E, B), (C,), flags, **options)


def tcgen05_gemm_sp(
    A_sparse: object, E: object, B: object, C: object, *flags: object, mbar: object = None,
    **options: object,
) -> None:  # fmt: skip
    """A sparse product into tensor memory."""
    what = "T.tcgen05_gemm_sp"
    _tile(
        "tcgen05_gemm_sp",
        (A_sparse, E, B),
        (C,),
        (*flags, *_signal(mbar, what)),
        **options,
    )


def tcgen05_gemm_blockscaled(
    A: object, B: object, C: object, SFA_tmem: object, SFB_tmem: object, transpose_A: bool = False,
    transpose_B: bool = False, clear_accum: object = False, wg_wait: int = 0, mbar: object = None,
    *, k_start: object = 0, sf_a_granularity_k: int = 32, sf_b_granularity_k: int = 32,
    **options: object,
) -> None:  # fmt: skip
    """A product of block-scaled operands into tensor memory."""
    what = "T.tcgen05_gemm_blockscaled"
    args = (condition(clear_accum, what, "clear"), scalar(k_start, what), *_signal(mbar, what))
    _tile(
        "tcgen05_gemm_blockscaled",
        (A, B, SFA_tmem, SFB_tmem),
        (C,),
        args,
        transpose_A=transpose_A,
        transpose_B=transpose_B,
        sf_a_granularity_k=sf_a_granularity_k,
        sf_b_granularity_k=sf_b_granularity_k,
        **options,
    )


tcgen05_mma_blockscaled = tcgen05_gemm_blockscaled


def mma_gemm_blockscaled(
    A: object, B: object, C: object, SFA: object, SFB: object, transpose_A: bool = False,
    transpose_B: bool = False, policy: int = 0, clear_accum: object = False, *,
    k_start: object = 0, sf_a_granularity_k: int = 32, sf_b_granularity_k: int = 32,
    **options: object,
) -> None:  # fmt: skip
    """A product of block-scaled operands in registers."""
    what = "T.mma_gemm_blockscaled"
    args = (condition(clear_accum, what, "clear"), scalar(k_start, what))
    _tile(
        "mma_gemm_blockscaled",
        (A, B, SFA, SFB),
        (C,),
        args,
        policy=int(policy),
        transpose_A=transpose_A,
        transpose_B=transpose_B,
        sf_a_granularity_k=sf_a_granularity_k,
        sf_b_granularity_k=sf_b_granularity_k,
        **options,
    )


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
    """Give tensor memory back before the kernel ends."""
    if not isinstance(tmem, Buffer) or tmem.storage != "shared.tmem":
        raise TileTypeError(
            "T.deallocate_tmem of something that is not tensor memory",
            expected="a buffer made by T.alloc_tmem",
            got=describe(tmem),
        )
    _tile("deallocate_tmem", (), (tmem,))
