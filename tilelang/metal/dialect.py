"""The Metal dialect of GPU source: how it spells what differs from CUDA."""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.codegen.gpu.dialect import Dialect
from tilelang.codegen.gpu.host import HostWriter, Slots
from tilelang.codegen.gpu.module import MapStep
from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E
from tilelang.ir.buffer import Buffer
from tilelang.ir.tables import RNG_INIT, UNKNOWN_POINTER
from tilelang.metal.calls import WRITERS

# Words of the Metal Shading Language besides those of C++, and parameters of every kernel, which a
# variable must not take.
_RESERVED = frozenset(
    "tl_block tl_thread tl_grid tl_lane metal device constant threadgroup thread kernel vertex "
    "fragment bfloat uint ushort uchar ulong float2 float4 int2 int4 uint2 uint3 uint4 as_type "
    "precise fast sampler texture max_total_threads_per_threadgroup buffer "
    "threadgroup_position_in_grid threadgroups_per_grid thread_position_in_threadgroup "
    "thread_index_in_simdgroup simdgroup_barrier threadgroup_barrier mem_flags mem_device "
    "mem_threadgroup simdgroup_float8x8 simdgroup_half8x8 simdgroup_bfloat8x8 simdgroup_load "
    "simdgroup_store simdgroup_multiply_accumulate simd_shuffle threadIdx blockIdx blockDim "
    "gridDim".split()
)
# What there is no other way to do, and what programs do instead.
_LACKS = {
    "print": "a result tensor for what is to be seen, or T.print in the emulated CUDA kernel",
    "device_assert": "a result tensor that says what failed",
    "sync_grid": "kernels one after the other: T.Kernel a second time in the same program",
    "named_barrier_arrive": "T.sync_threads() by all threads of the block",
    UNKNOWN_POINTER.name: "T.access_ptr of an element of a buffer",
    "syncthreads_count": "T.reduce_sum of a fragment",
    "syncthreads_and": "T.reduce_min of a fragment", "syncthreads_or": "T.reduce_max of a fragment",
    "thread_allreduce": "T.reduce_sum and its like over a fragment",
    RNG_INIT.name: "random numbers made by torch, as an argument",
}  # fmt: skip


def _no_map(call: E.Call, slots: Slots) -> Buffer | None:
    """The tensor of a tensor map; there are none."""
    return None


def _refuse_map(call: E.Call, name: str, host: HostWriter, lets: Mapping[E.Var, E.Expr]) -> MapStep:
    raise TileUnsupportedError(
        "tensor maps are not available on Metal", expected="T.copy", got=f"`{call!r}`"
    )


METAL = Dialect(
    name="Metal",
    kernel="[[max_total_threads_per_threadgroup({threads})]] kernel void {name}(",
    block="tl_block.{axis}",
    thread="tl_thread.{axis}",
    inputs=(
        "uint3 tl_block [[threadgroup_position_in_grid]]",
        "uint3 tl_thread [[thread_position_in_threadgroup]]",
        "uint3 tl_grid [[threadgroups_per_grid]]",
        "uint tl_lane [[thread_index_in_simdgroup]]",
    ),
    spaces={"global": "device ", "shared": "threadgroup ", "local": "thread "},
    arena="alignas(16) threadgroup uchar tl_smem[{bytes}];",
    shared="alignas(16) threadgroup {kind} {name}[{length}];",
    local="alignas(16) {kind} {name}[{length}];",
    restrict="",
    reserved=_RESERVED,
    texts={"sync_warp": "simdgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup)"},
    writers=WRITERS,
    operands={},
    includes=lambda text: ["tl_metal.h"],
    map_tensor=_no_map,
    map_step=_refuse_map,
    flags=lambda func: (),
    resident=lambda launch, target: 1,
    pointer="{kind} {name} [[buffer({at})]]",
    scalar="constant {kind}& {name} [[buffer({at})]]",
    swizzle="tl_swizzle_{order}(tl_block, tl_grid, {panel})",
    matrices={
        "float32": "simdgroup_float8x8",
        "float16": "simdgroup_half8x8",
        "bfloat16": "simdgroup_bfloat8x8",
    },
    lacks=_LACKS,
)
