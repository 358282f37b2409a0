"""The hardware words in one place: ``tilelang.language.builtin``.

Words that give no value emit a statement; words that give one return an expression. What exists
only on some hardware traces and prints everywhere and is refused by back ends that lack it, as
``ir/tables.py`` declares.
"""

from __future__ import annotations

from tilelang.errors import TileTypeError, TileUnsupportedError, TileValueError
from tilelang.ir.active import emitter
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Expr, StringImm, as_expr, call
from tilelang.language.annotations import (
    annotate_consumer_reg_alloc,
    annotate_producer_reg_dealloc,
    dec_max_nreg,
    disable_warp_group_reg_alloc,
    inc_max_nreg,
    no_set_max_nreg,
    set_max_nreg,
)
from tilelang.language.hardware import (
    increase_descriptor_offset,
    initialize_tcgen05_descriptor,
    initialize_wgmma_descriptor,
    ptx_arrive_cluster_barrier,
    ptx_mma_sm70,
    tcgen05_mma_arrive,
)
from tilelang.language.loop import loop_break
from tilelang.language.memory import (
    access_ptr,
    address_of,
    dp4a,
    isnullptr,
    ldg32,
    ldg64,
    ldg128,
    ldg256,
    lds32,
    lds64,
    lds128,
    ptx_cp_async,
    stg32,
    stg64,
    stg128,
    stg256,
    sts32,
    sts64,
    sts128,
    tvm_access_ptr,
)
from tilelang.language.raw import (
    create_tma_descriptor,
    create_tma_im2col_descriptor,
    elect_one,
    map_shared_rank,
    mbarrier_try_wait,
    prefetch_tma_descriptor,
    ptx_stmatrix,
    tcgen05_cp,
    tcgen05_ld,
    tcgen05_st,
    tcgen05_wait_ld,
    tcgen05_wait_st,
    tma_load,
    tma_load_im2col,
    tma_load_multicast,
    tma_store,
)
from tilelang.language.regions import (
    address_of_operand,
    cast_to,
    describe,
    emit_call,
    scalar,
)
from tilelang.language.sync import (
    barrier_arrive,
    barrier_wait,
    cp_async_barrier_noinc,
    create_list_of_mbarrier,
    fence_proxy_async,
    get_mbarrier,
    mbarrier_arrive,
    mbarrier_arrive_expect_tx,
    mbarrier_expect_tx,
    mbarrier_wait_parity,
    named_barrier_arrive,
    pdl_sync,
    pdl_trigger,
    ptx_arrive_barrier,
    ptx_arrive_barrier_expect_tx,
    ptx_commit_group,
    ptx_cp_async_barrier,
    ptx_fence_barrier_init,
    ptx_init_barrier_thread_count,
    ptx_wait_barrier,
    ptx_wait_group,
    sync_global,
    sync_grid,
    sync_threads,
    sync_warp,
    thread_return,
    tma_store_arrive,
    tma_store_wait,
    tvm_storage_sync,
    wait_wgmma,
    warpgroup_arrive,
    warpgroup_commit_batch,
    warpgroup_fence_operand,
    warpgroup_wait,
)
from tilelang.language.warp import (
    get_lane_idx,
    get_warp_group_idx,
    get_warp_idx,
    get_warp_idx_sync,
    shfl_down,
    shfl_sync,
    shfl_up,
    shfl_xor,
    shuffle_elect,
)

__all__ = [
    "access_ptr",
    "address_of",
    "annotate_consumer_reg_alloc",
    "annotate_producer_reg_dealloc",
    "barrier_arrive",
    "barrier_wait",
    "call_extern",
    "call_intrin",
    "call_pure_extern",
    "cp_async_barrier_noinc",
    "create_list_of_mbarrier",
    "create_tma_descriptor",
    "create_tma_im2col_descriptor",
    "dec_max_nreg",
    "disable_warp_group_reg_alloc",
    "dp4a",
    "elect_one",
    "fence_proxy_async",
    "get_lane_idx",
    "get_mbarrier",
    "get_warp_group_idx",
    "get_warp_idx",
    "get_warp_idx_sync",
    "inc_max_nreg",
    "increase_descriptor_offset",
    "initialize_tcgen05_descriptor",
    "initialize_wgmma_descriptor",
    "isnullptr",
    "ldg32",
    "ldg64",
    "ldg128",
    "ldg256",
    "lds32",
    "lds64",
    "lds128",
    "loop_break",
    "map_shared_rank",
    "mbarrier_arrive",
    "mbarrier_arrive_expect_tx",
    "mbarrier_expect_tx",
    "mbarrier_try_wait",
    "mbarrier_wait_parity",
    "named_barrier_arrive",
    "no_set_max_nreg",
    "pdl_sync",
    "pdl_trigger",
    "prefetch_tma_descriptor",
    "ptx_arrive_barrier",
    "ptx_arrive_barrier_expect_tx",
    "ptx_arrive_cluster_barrier",
    "ptx_commit_group",
    "ptx_cp_async",
    "ptx_cp_async_barrier",
    "ptx_fence_barrier_init",
    "ptx_init_barrier_thread_count",
    "ptx_mma_sm70",
    "ptx_stmatrix",
    "ptx_wait_barrier",
    "ptx_wait_group",
    "rng_init",
    "rng_rand",
    "rng_rand_float",
    "set_max_nreg",
    "shfl_down",
    "shfl_sync",
    "shfl_up",
    "shfl_xor",
    "shuffle_elect",
    "stg32",
    "stg64",
    "stg128",
    "stg256",
    "sts32",
    "sts64",
    "sts128",
    "sync_global",
    "sync_grid",
    "sync_threads",
    "sync_warp",
    "tcgen05_cp",
    "tcgen05_ld",
    "tcgen05_mma_arrive",
    "tcgen05_st",
    "tcgen05_wait_ld",
    "tcgen05_wait_st",
    "thread_return",
    "tma_load",
    "tma_load_im2col",
    "tma_load_multicast",
    "tma_store",
    "tma_store_arrive",
    "tma_store_wait",
    "tvm_access_ptr",
    "tvm_storage_sync",
    "wait_wgmma",
    "warpgroup_arrive",
    "warpgroup_commit_batch",
    "warpgroup_fence_operand",
    "warpgroup_wait",
]

GENERATORS = (
    "curandStatePhilox4_32_10_t",
    "curandStateXORWOW_t",
    "curandStateMRG32k3a_t",
)


# -- functions by name -----------------------------------------------------------------------------
def _argument(value: object) -> Expr:
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, Region) or (isinstance(value, Buffer) and not value.is_var):
        return address_of_operand(value, "T.call_extern")
    return as_expr(value)


def _call(op: str, items: tuple[object, ...], dtype: object) -> Expr:
    what = f"T.{op}"
    if dtype is None:
        if not items:
            raise TileTypeError(f"{what} without a function", expected=f"{what}(dtype, name, ...)")
        dtype, items = items[0], items[1:]
    if not items or not isinstance(items[0], str):
        raise TileTypeError(
            f"the function of {what} is not named",
            expected=f'{what}(dtype, "name", *args)',
            got=describe(items[0]) if items else "no name",
        )
    args = tuple(_argument(item) for item in items[1:])
    return call(op, *args, dtype=DType(dtype), name=str(items[0]))


def call_extern(*args: object, dtype: object = None, span: object = None) -> Expr:
    """Call a C or CUDA function by name: ``T.call_extern(dtype, "name", *args)``.

    Well known mathematical functions work everywhere, others need a back end whose device
    source has them. Buffers and regions are passed as pointers.
    """
    return _call("call_extern", args, dtype)


call_pure_extern = call_extern


def call_intrin(
    *args: object, dtype: object = None, annotations: object = None, span: object = None
) -> Expr:
    """Call an intrinsic of the target by name: ``T.call_intrin(dtype, "name", *args)``."""
    return _call("call_intrin", args, dtype)


# -- random numbers --------------------------------------------------------------------------------
def rng_init(
    seed: object, seq: object = None, off: object = 0, generator: str = GENERATORS[0]
) -> None:
    """Start the random generator of each thread; its numbers are those of cuRAND, bit for bit.

    Args:
        seq: stream number; without it thread plus threads per block times block.
        off: numbers to skip.
        generator: name of the cuRAND state type: ``curandStatePhilox4_32_10_t``.

    Raises:
        TileUnsupportedError: another generator of cuRAND (XORWOW, MRG32k3a).
        TileValueError: no generator of cuRAND.
    """
    what = "T.rng_init"
    if generator not in GENERATORS:
        raise TileValueError(
            f"{what} with an unknown generator",
            expected=", ".join(GENERATORS),
            got=describe(generator),
        )
    if generator != GENERATORS[0]:
        raise TileUnsupportedError(
            f"the random generator {generator} is not part of this implementation",
            expected=GENERATORS[0],
            got=generator,
            hint="its numbers would have to be those of cuRAND bit for bit; Philox gives them",
        )
    active = emitter(what)
    if seq is None:
        from tilelang.language.kernel import get_block_binding, get_thread_binding

        width = active.thread_extents()[0]
        seq = get_thread_binding(0) + get_block_binding(0) * width
    kind = DType("uint64")
    args = [cast_to(scalar(item, what), kind) for item in (seed, seq, off)]
    emit_call(what, "rng_init", *args, generator=generator)


def rng_rand() -> Expr:
    """The next 32 random bits of the thread."""
    return call("rng_rand")


def rng_rand_float(bit: int = 32, dist: str = "uniform") -> Expr:
    """The next random float of the thread.

    Args:
        bit: 32 or 64.
        dist: ``"uniform"`` in (0, 1], or ``"normal"``.
    """
    what = "T.rng_rand_float"
    if bit not in (32, 64):
        raise TileValueError(f"{what} of {bit} bits", expected="32 or 64", got=str(bit))
    if dist not in ("uniform", "normal"):
        raise TileValueError(
            f"{what} of an unknown distribution", expected="'uniform' or 'normal'", got=repr(dist)
        )
    return call("rng_rand_float", dtype=f"float{bit}", bit=bit, dist=dist)
