"""Words for one GPU generation: they trace and print, and targets without it refuse them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.active import emitter
from tilelang.ir.buffer import Buffer, Region

# Name -> lowest architecture.
OPERATIONS = {
    "clc_try_cancel": "sm_100", "clc_try_cancel_multicast": "sm_100", "cluster_arrive": "sm_90",
    "cluster_arrive_relaxed": "sm_90", "cluster_sync": "sm_90", "cluster_wait": "sm_90",
    "deallocate_tmem": "sm_100", "gemm_sp": "sm_80", "gemm_sp_v2": "sm_80",
    "mma_gemm_blockscaled": "sm_120", "mma_fill": "sm_75", "mma_store": "sm_75",
    "ptx_arrive_barrier": "sm_80", "ptx_arrive_barrier_expect_tx": "sm_90", "ptx_cp_async": "sm_80",
    "ptx_cp_async_barrier": "sm_80", "ptx_cp_async_bulk": "sm_90",
    "ptx_init_barrier_thread_count": "sm_80", "ptx_ldmatrix": "sm_75", "ptx_mma": "sm_75",
    "ptx_mma_block_scale": "sm_120", "ptx_mma_sp": "sm_80", "ptx_tcgen05_mma_blockscaled_ss": "sm_100",
    "ptx_tcgen05_mma_ss": "sm_100", "ptx_tcgen05_mma_ts": "sm_100", "ptx_wait_barrier": "sm_80",
    "ptx_wgmma_rs": "sm_90", "ptx_wgmma_sp_rs": "sm_90", "ptx_wgmma_sp_ss": "sm_90",
    "ptx_wgmma_ss": "sm_90", "tcgen05_after_thread_sync": "sm_100",
    "tcgen05_before_thread_sync": "sm_100", "tcgen05_cp_warpx4": "sm_100", "tcgen05_gemm": "sm_100",
    "tcgen05_gemm_blockscaled": "sm_100", "tcgen05_gemm_sp": "sm_100", "tcgen05_mma": "sm_100",
    "tcgen05_mma_blockscaled": "sm_100", "tcgen05_sf_warp_transpose": "sm_100",
    "tma_gather4": "sm_100", "tma_load_2sm": "sm_100", "tma_scatter4": "sm_100",
    "wgmma_gemm_sp": "sm_90", "simdgroup_load": "metal", "simdgroup_store": "metal",
    "simdgroup_multiply_accumulate": "metal", "make_filled_simdgroup_matrix": "metal",
    "tvm_mfma": "gfx90a", "tvm_mfma_store": "gfx90a", "tvm_rdna_wmma": "gfx1100",
    "tvm_rdna_wmma_store": "gfx1100", "tvm_mma_sync": "sm_70", "tvm_bmma_sync": "sm_75",
    "tvm_load_matrix_sync": "sm_70", "tvm_store_matrix_sync": "sm_70", "tvm_fill_fragment": "sm_70",
}  # fmt: skip
VALUES = {
    "block_rank_in_cluster": "sm_90", "clc_get_first_ctaid_x": "sm_100",
    "clc_get_first_ctaid_y": "sm_100", "clc_get_first_ctaid_z": "sm_100",
    "clc_is_canceled": "sm_100", "get_ldmatrix_offset": "sm_75",
}  # fmt: skip


def _operands(args: tuple[Any, ...]) -> tuple[list[Region], list[E.Expr]]:
    regions: list[Region] = []
    exprs: list[E.Expr] = []
    for arg in args:
        if isinstance(arg, Buffer) and not arg.is_var:
            regions.append(arg.region())
        elif isinstance(arg, Region):
            regions.append(arg)
        elif isinstance(arg, str):
            exprs.append(E.StringImm(arg))
        elif isinstance(arg, (int, float, E.Expr, Buffer)):
            exprs.append(E.as_expr(arg))
    return regions, exprs


def _operation(name: str, needs: str) -> Callable[..., None]:
    def function(*args: Any, **options: Any) -> None:
        named = [v for v in options.values() if isinstance(v, (Buffer, Region, E.Expr))]
        regions, exprs = _operands((*args, *named))
        plain = tuple(sorted((k, v) for k, v in options.items() if isinstance(v, (int, str))))
        emitter(f"T.{name}").emit(
            S.HardwareOp(
                name=name, needs=needs, writes=tuple(regions), args=tuple(exprs), options=plain
            )
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Needs {needs}; refused by other targets."
    return function


def _value(name: str, needs: str) -> Callable[..., E.Expr]:
    def function(*args: Any, **options: Any) -> E.Expr:
        _, exprs = _operands(args)
        return E.call("call_intrin", *exprs, dtype="int32", name=name, needs=needs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Needs {needs}; refused by other targets."
    return function


WORDS: dict[str, Callable[..., Any]] = {
    **{name: _operation(name, needs) for name, needs in OPERATIONS.items()},
    **{name: _value(name, needs) for name, needs in VALUES.items()},
}


def __getattr__(name: str) -> Callable[..., Any]:
    """The words of the tables."""
    try:
        return WORDS[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
