"""The forms of matrix instructions and of arithmetic in the device headers. Data only."""

from __future__ import annotations

from tilelang.ir.dtypes import dtype as DType
from tilelang.target.nvidia_mma import WGMMA_KINDS

# Matrix instructions: (shape, a, b, accumulator) -> feature of targets.
SHORT = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "tfloat32": "tf32",
    "int8": "s8", "uint8": "u8", "int4": "s4", "uint4": "u4", "int32": "s32",
    "float8_e4m3": "e4m3", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
    "fp16": "f16", "bf16": "bf16", "fp32": "f32", "fp64": "f64", "tf32": "tf32", "e4m3": "e4m3",
    "e5m2": "e5m2",
}  # fmt: skip
MMA: dict[tuple[str, str, str, str], str] = {
    ("m16n8k8", "f16", "f16", "f32"): "mma", ("m16n8k8", "f16", "f16", "f16"): "mma",
    ("m16n8k16", "f16", "f16", "f32"): "mma", ("m16n8k16", "f16", "f16", "f16"): "mma",
    ("m16n8k16", "bf16", "bf16", "f32"): "mma_sm80", ("m16n8k8", "bf16", "bf16", "f32"): "mma_sm80",
    ("m16n8k16", "s8", "s8", "s32"): "mma_sm80", ("m16n8k16", "u8", "u8", "s32"): "mma_sm80",
    ("m16n8k32", "s4", "s4", "s32"): "mma_sm80", ("m16n8k32", "u4", "u4", "s32"): "mma_sm80",
    ("m16n8k8", "tf32", "tf32", "f32"): "mma_sm80", ("m16n8k4", "tf32", "tf32", "f32"): "mma_sm80",
    ("m8n8k4", "f64", "f64", "f64"): "mma_sm80",
    **{("m16n8k32", a, b, "s32"): "mma" for a in ("s8", "u8") for b in ("s8", "u8")},
    **{("m16n8k64", a, b, "s32"): "mma_sm80" for a in ("s4", "u4") for b in ("s4", "u4")},
    **{("m16n8k32", a, b, "f32"): "mma_fp8" for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")},
}  # fmt: skip

# Sparse ones, the same.
MMA_SP: dict[tuple[str, str, str, str], str] = {
    ("m16n8k16", "f16", "f16", "f32"): "mma_sp", ("m16n8k32", "f16", "f16", "f32"): "mma_sp",
    ("m16n8k32", "f16", "f16", "f16"): "mma_sp", ("m16n8k16", "bf16", "bf16", "f32"): "mma_sp",
    ("m16n8k32", "bf16", "bf16", "f32"): "mma_sp", ("m16n8k8", "tf32", "tf32", "f32"): "mma_sp",
    ("m16n8k16", "tf32", "tf32", "f32"): "mma_sp",
    **{
        (shape, a, b, "s32"): "mma_sp"
        for shape in ("m16n8k32", "m16n8k64") for a in ("s8", "u8") for b in ("s8", "u8")
    },
    **{("m16n8k64", a, b, "f32"): "mma_fp8" for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2")},
}  # fmt: skip

# Products of a warpgroup (sm_90a): dtypes of a and b -> accumulators; the depth of one instruction.
WGMMA: dict[tuple[str, str], tuple[str, ...]] = {
    (SHORT[a], SHORT[b]): tuple(SHORT[c] for c in sums) for (a, b), sums in WGMMA_KINDS.items()
}
WGMMA_K = {SHORT[a]: 256 // DType(a).bits for a, _ in WGMMA_KINDS}

ATOMIC_SUFFIX = {
    "int32": "i32", "uint32": "u32", "int64": "i64", "uint64": "u64",
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
}  # fmt: skip
ACCESS_SUFFIX = {  # of loads and stores
    **ATOMIC_SUFFIX, "bool": "u8", "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16",
}  # fmt: skip
MEMORY_ORDERS = {
    "relaxed": "", "consume": "TL_ACQUIRE", "acquire": "TL_ACQUIRE", "release": "TL_RELEASE",
    "acq_rel": "TL_ACQ_REL", "seq_cst": "TL_SEQ_CST",
}  # fmt: skip

# Arithmetic is spread over headers, so that a kernel reads little besides what it calls: the
# operation between "tl_" and the type of a function -> its header.
_SCALARS = frozenset("i4 u4 i8 u8 i16 u16 i32 u32 i64 u64 32 64 f32 f64".split())
_BASIC = frozenset(
    "add sub mul min max fmin_nan fmax_nan isnan isinf isfinite abs truncdiv truncmod floordiv "
    "floormod load store store_shared popcount clz ffs wrap".split()
)
_DIRECTED = ("_rn", "_rz", "_ru", "_rd")
_CONVERSIONS = ("f32_to", "f64_to", "f64_to_f32")
_LIBM = frozenset(
    "exp exp2 exp10 log log2 log10 log1p expm1 sqrt rsqrt tanh sin cos tan sinh cosh asin acos "
    "atan asinh acosh atanh erf floor ceil trunc nearbyint round atan2 hypot fmod copysign "
    "nextafter pow ldexp fma sigmoid fast_exp fast_exp10 fast_log fast_log2 fast_log10 fast_sin "
    "fast_cos fast_tan fast_rcp".split()
)


def arithmetic_header(function: str) -> str | None:
    """The header of a function of plain arithmetic, e.g. "tl_add_i32"; None: it is none."""
    operation, _, kind = function[3:].rpartition("_")
    if operation in _CONVERSIONS and (kind in _SCALARS or kind == "odd"):
        return "tl_convert.h"
    if kind not in _SCALARS:
        return "tl_basic.h" if function == "tl_fns" else None
    if operation in _BASIC:
        return "tl_basic.h"
    if operation in _LIBM:
        return "tl_libm.h"
    return "tl_directed.h" if operation.endswith(_DIRECTED) else None


ARITHMETIC_HEADERS = ("tl_basic.h", "tl_convert.h", "tl_libm.h", "tl_directed.h")

# Header -> what its functions look like; a header is included when the text calls one of them.
HEADERS: tuple[tuple[str, str], ...] = (
    ("tl_float16.h", r"tl_(f16|bf16)_to_f32|tl_f32_to_(f16|bf16)|tl_round_(f16|bf16)"
                     r"|tl_(f16|bf16)_(add|sub|mul)"),
    ("tl_float.h", r"tl_(round|result|open|code|load|store|store_shared)_e\dm\d|tl_f32_to_e\dm\d"
                   r"|tl_e\dm\d\w*_to_f32"),
    ("tl_atomic.h", r"tl_atomic_|tl_dp4a"),
    ("tl_warp.h", r"tl_shfl|tl_any\b|tl_all\b|tl_ballot|tl_activemask|tl_warp_uniform|tl_match"),
    ("tl_reduce.h", r"tl_warp_reduce|tl_thread_allreduce"),
    ("tl_memory.h", r"tl_copy_|tl_cp_async|tl_ldmatrix|tl_stmatrix"
                    r"|tl_pointer|tl_bulk_(commit|wait)|tl_ldg|tl_stg|tl_load256"),
    ("tl_half.h", r"tl_half2_"),
    ("tl_mma.h", r"tl_mma_m(8n8|16n8)k"),
    ("tl_mma_sp.h", r"tl_mma_sp_"),
    ("tl_mma_sm70.h", r"tl_mma_m16n16k4_"),
    ("tl_tma.h", r"tl_tma_|tl_tensor_map|tl_bulk_(load|store|reduce|copy)"),
    ("tl_wgmma.h", r"tl_wgmma_(m64|touch|descriptor|operand)|tl_descriptor_add"),
    ("tl_tcgen05.h", r"tl_tcgen05_|tl_tmem_|tl_clc_"),
    ("tl_sync.h", r"tl_bar_|tl_sync_grid|tl_mbarrier|tl_fence|tl_cluster|tl_block_rank|tl_pdl"
                  r"|tl_setmaxnreg|tl_cp_async_mbarrier|tl_wgmma_(fence|commit|wait)|tl_elect"
                  r"|tl_map_shared"),
    ("tl_launch.h", r"tl_swizzle"),
    ("tl_random.h", r"tl_rng|tl_philox"),
    ("tl_print.h", r"tl_assert"),
)  # fmt: skip
