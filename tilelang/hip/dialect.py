"""The HIP dialect of GPU source: how it spells what differs from CUDA."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod

from tilelang.codegen.gpu.dialect import Dialect
from tilelang.codegen.gpu.host import HostWriter
from tilelang.codegen.gpu.module import MapStep
from tilelang.cuda.dialect import CUDA
from tilelang.cuda.forms import arithmetic_header
from tilelang.errors import TileUnsupportedError
from tilelang.hip.calls import WRITERS
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.tables import UNKNOWN_POINTER
from tilelang.target import Target
from tilelang.transforms.analysis.loops import array_registers

# Header -> what the functions look like that need it besides "tl_hip.h".
_HEADERS = (
    ("tl_float.h", r"tl_\w*_?e\dm\d"),
    ("tl_reduce.h", r"tl_warp_reduce|tl_thread_allreduce"),
    ("tl_launch.h", r"tl_swizzle"),
    ("tl_hip_math.h", r"tl_rng"),
    ("tl_random.h", r"tl_rng|tl_philox"),
    ("tl_hip_print.h", r"tl_assert"),
    ("tl_hip_atomic.h", r"tl_atomic_|tl_dp4a"),
)
# Where CUDA has a function -> where HIP has it.
_ARITHMETIC = {
    "tl_convert.h": "tl_convert.h", "tl_libm.h": "tl_hip_math.h", "tl_directed.h": "tl_hip_math.h",
}  # fmt: skip
_SIMDS = 4  # SIMD units of a compute unit
_ROOM = 160  # registers of arrays that leave enough of 256 for addresses and operands
_COPIES = "T.copy, which the threads do themselves"
_PRODUCTS = "T.gemm, which uses the matrix instructions of the chip"
# Words of NVIDIA's machines -> what programs use instead.
_LACKS: dict[str, str] = {
    **dict.fromkeys(
        (
            "tma_load", "tma_load_multicast", "tma_load_im2col", "tma_store", "tma_store_arrive",
            "tma_store_wait", "create_tma_descriptor", "create_tma_im2col_descriptor",
            "ptx_commit_group", "ptx_wait_group",
        ),
        _COPIES,
    ),
    **dict.fromkeys(
        ("ptx_mma", "ptx_mma_sp", "ptx_mma_sm70", "ptx_ldmatrix", "ptx_stmatrix"), _PRODUCTS
    ),
    **dict.fromkeys(
        (
            "mbarrier_init", "mbarrier_arrive", "mbarrier_wait", "mbarrier_try_wait",
            "mbarrier_expect_tx", "mbarrier_arrive_expect_tx", "named_barrier_arrive",
        ),
        "T.sync_threads, or a pipelined loop (T.Pipelined)",
    ),
    UNKNOWN_POINTER.name: "T.access_ptr of an element of a buffer",
    "sync_grid": "kernels one after the other: T.Kernel a second time in the same program",
}  # fmt: skip


def includes(text: str) -> list[str]:
    """The headers whose functions ``text`` calls; the first always."""
    headers: dict[str, None] = {}
    for word in dict.fromkeys(re.findall(r"\btl_\w+", text)):
        name = _ARITHMETIC.get(arithmetic_header(word) or "")
        if name:
            headers.setdefault(name)
        for header, pattern in _HEADERS:
            if re.match(pattern, word):
                headers.setdefault(header)
    if "printf(" in text:
        headers.setdefault("tl_hip_print.h")
    return ["tl_hip.h", *sorted(headers)]


def waves(launch: S.Launch, target: Target) -> int:
    """Wavefronts that a SIMD unit is to have at once: those of the blocks that a program asks for.

    With two of them a wavefront has 256 registers, and results of ``mfma`` are in ordinary ones.
    Otherwise compilers keep them in the other accumulators, from where each has to be moved
    before anything else can use it. So where arrays leave room there are two.
    """
    blocks = int(launch.hints.min_blocks_per_sm)
    waves = -(-blocks * -(-prod(launch.threads) // target.limits.warp) // _SIMDS)
    has_room = array_registers(launch.body) <= _ROOM
    return max(waves, 2 if "mfma" in target.features and has_room else 1)


def _no_map(call: E.Call, name: str, host: HostWriter, values: Mapping[E.Var, E.Expr]) -> MapStep:
    raise TileUnsupportedError(
        "tensor maps are not available on HIP", expected=_COPIES, got=f"`{call!r}`"
    )


HIP = Dialect(
    name="HIP",
    kernel='extern "C" __global__ void __launch_bounds__({threads}, {resident}) {name}(',
    block=CUDA.block,
    thread=CUDA.thread,
    inputs=(),
    spaces=CUDA.spaces,
    arena="extern __shared__ __align__(128) unsigned char tl_smem[];",
    shared=CUDA.shared,
    local=CUDA.local,
    restrict=CUDA.restrict,
    reserved=CUDA.reserved,
    texts={"sync_warp": "__syncwarp()"},  # all lanes go together
    writers=WRITERS,
    operands={},
    includes=includes,
    map_tensor=lambda call, slots: None,
    map_step=_no_map,
    flags=lambda func: (),
    lacks=_LACKS,
    rolled="#pragma unroll 1",  # clang ignores the registers that unrolling takes
    resident=waves,
)
