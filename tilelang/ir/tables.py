"""What each operator and intrinsic is, declared once.

Printers, the simplifier, the interpreter, legality checks and code generators ask these tables;
nobody decides by an operation's name what it does.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class BinaryOp:
    """A binary operator: its spelling, binding strength and operand rules."""

    symbol: str  # Python spelling; "" when it is written as a function call
    precedence: int
    operands: str  # "number", "int", "float", "bool", "bits" (ints, or bools for and/or/xor)
    compares: bool = False
    commutes: bool = False


BINARY: dict[str, BinaryOp] = {
    "lor": BinaryOp("or", 1, "bool"),
    "land": BinaryOp("and", 2, "bool"),
    "eq": BinaryOp("==", 4, "number", compares=True, commutes=True),
    "ne": BinaryOp("!=", 4, "number", compares=True, commutes=True),
    "lt": BinaryOp("<", 4, "number", compares=True),
    "le": BinaryOp("<=", 4, "number", compares=True),
    "gt": BinaryOp(">", 4, "number", compares=True),
    "ge": BinaryOp(">=", 4, "number", compares=True),
    "bitor": BinaryOp("|", 5, "bits", commutes=True),
    "bitxor": BinaryOp("^", 6, "bits", commutes=True),
    "bitand": BinaryOp("&", 7, "bits", commutes=True),
    "shl": BinaryOp("<<", 8, "int"),
    "shr": BinaryOp(">>", 8, "int"),
    "add": BinaryOp("+", 9, "number", commutes=True),
    "sub": BinaryOp("-", 9, "number"),
    "mul": BinaryOp("*", 10, "number", commutes=True),
    "div": BinaryOp("/", 10, "float"),
    "floordiv": BinaryOp("//", 10, "int"),
    "floormod": BinaryOp("%", 10, "int"),
    "truncdiv": BinaryOp("", 20, "int"),
    "truncmod": BinaryOp("", 20, "int"),
    "min": BinaryOp("", 20, "number", commutes=True),
    "max": BinaryOp("", 20, "number", commutes=True),
}

UNARY: dict[str, str] = {"neg": "-", "bitnot": "~", "lnot": "not "}


class Effect(Enum):
    """What evaluating an intrinsic does besides giving a value."""

    NONE = 0  # may be moved, repeated or dropped
    READ = 1  # reads memory through its address arguments
    WRITE = 2  # writes memory through its address arguments
    ATOMIC = 3  # reads and writes memory as one step; happens once per executing thread
    SYNC = 4  # rendezvous or fence
    OUTPUT = 5  # prints, traps or leaves the kernel
    HINT = 6  # no effect on results; may be dropped

    @property
    def repeatable(self) -> bool:
        """Whether evaluating more than once, with no store between, is as good as once."""
        return self in (Effect.NONE, Effect.READ, Effect.HINT)


@dataclass(frozen=True)
class Intrinsic:
    """An operation that is called by name.

    ``result``: "same" (first operand's dtype), "bool", "given" (the call says), or a dtype name.
    ``operands``: "float" (integers become float32), "number", "int", "bool" or "any".
    ``per_thread``: the value differs between the threads of a block.
    ``vote``: all threads of the block get the same value, whatever each of them gives.
    ``needs``: "" everywhere, "threads" (thread-level hardware the CPU does not have), or the
    lowest architecture, e.g. "sm_90".
    """

    name: str
    low: int  # fewest and most operands; high < 0 means no limit
    high: int
    result: str = "same"
    operands: str = "any"
    effect: Effect = Effect.NONE
    per_thread: bool = False
    vote: bool = False
    needs: str = ""
    writes: tuple[int, ...] = ()  # operands that are written addresses
    reads: tuple[int, ...] = ()
    exchanges: bool = False  # gives what other threads have; no word of shared loops
    own_order: bool = False  # the program orders what it does through addresses


def _table(*groups: list[Intrinsic]) -> dict[str, Intrinsic]:
    table: dict[str, Intrinsic] = {}
    for group in groups:
        for item in group:
            assert item.name not in table, item.name
            table[item.name] = item
    return table


def _math(names: str, count: int, operands: str = "float", result: str = "same") -> list[Intrinsic]:
    return [Intrinsic(name, count, count, result, operands) for name in names.split()]


MOVES = ("ldg", "stg")  # words that name the access by which bits move

_ELEMENTWISE = [
    *_math(
        "exp exp2 exp10 log log2 log10 log1p expm1 sqrt rsqrt sigmoid tanh sin cos tan sinh cosh "
        "asin acos atan asinh acosh atanh erf floor ceil trunc nearbyint round",
        1,
    ),
    *_math("fast_exp fast_exp10 fast_log fast_log2 fast_log10 fast_sin fast_cos fast_tan", 1),
    *_math("fast_rcp ieee_frcp ieee_fsqrt ieee_frsqrt", 1),
    *_math("atan2 hypot fmod copysign nextafter ieee_add ieee_sub ieee_mul ieee_fdiv", 2),
    *_math("ieee_fmaf fma", 3),
    *_math("pow", 2, "number"),
    *_math("ldexp", 2, "any"),
    *_math("abs", 1, "number"),
    *_math("isnan isinf isfinite", 1, "float", "bool"),
    *_math("popcount clz ffs", 1, "int", "int32"),
    *_math("fns", 3, "int", "int32"),
    *_math("add2 sub2 mul2 max2 min2", 2, "any"),
    *_math("fma2", 3, "any"),
    *_math("abs2", 1, "any"),
    *_math("likely", 1, "any"),
    Intrinsic("fmax_nan", 2, 2, operands="number"),  # max and min that propagate NaN
    Intrinsic("fmin_nan", 2, 2, operands="number"),
    Intrinsic("reinterpret", 1, 1, "given"),
    # Bits that are loaded, or stored, in one access of so many of them.
    Intrinsic("ldg32", 1, 1, "uint32"),
    *[Intrinsic(f"ldg{bits}", 1, 1, f"uint32x{bits // 32}") for bits in (64, 128, 256)],
    *[Intrinsic(f"stg{bits}", 1, 1, "given") for bits in (32, 64, 128, 256)],
    Intrinsic("isnullptr", 1, 1, "bool"),
    Intrinsic("any_of", 1, 1, "bool", effect=Effect.READ, reads=(0,)),
    Intrinsic("all_of", 1, 1, "bool", effect=Effect.READ, reads=(0,)),
    Intrinsic("dp4a", 3, 3, "handle", effect=Effect.WRITE, reads=(0, 1, 2), writes=(2,)),
    # Loads through an address expression, for T.__ldg and raw pointers.
    Intrinsic("ldg", 1, 1, "given", effect=Effect.READ, reads=(0,)),
]

# The kinds of atomic updates: those of one kind give the same in any order, those of two do not.
ATOMIC_UPDATES = {
    **{f"atomic_{op}": f"atomic_{op}" for op in ("add", "max", "min", "or", "and", "xor")},
    **dict.fromkeys(("atomic_addx2", "atomic_addx4"), "atomic_add"),
}

_MEMORY = [
    *[
        Intrinsic(f"atomic_{op}", 2, 2, "given", effect=Effect.ATOMIC, writes=(0,), reads=(0,))
        for op in ("add", "max", "min", "or", "and", "xor", "exch", "store")
    ],
    Intrinsic("atomic_load", 1, 1, "given", effect=Effect.ATOMIC, reads=(0,)),
    # A third operand is where the previous values go.
    Intrinsic("atomic_addx2", 2, 3, "given", effect=Effect.ATOMIC, writes=(0, 2), reads=(0, 1)),
    Intrinsic("atomic_addx4", 2, 3, "given", effect=Effect.ATOMIC, writes=(0, 2), reads=(0, 1)),
]

_OUTPUT = [
    Intrinsic("print", 0, 2, "void", effect=Effect.OUTPUT),
    Intrinsic("device_assert", 1, 1, "void", effect=Effect.OUTPUT),
    Intrinsic("thread_return", 0, 0, "void", effect=Effect.OUTPUT),
    Intrinsic("call_extern", 0, -1, "given", effect=Effect.OUTPUT),
    Intrinsic("call_intrin", 0, -1, "given", effect=Effect.OUTPUT),
    Intrinsic("loop_break", 0, 0, "void", effect=Effect.OUTPUT),
]

# Synchronisation that has a meaning for any machine that runs the threads of a block.
_SYNC = [
    Intrinsic("sync_threads", 0, 2, "void", effect=Effect.SYNC),
    Intrinsic("sync_warp", 0, 1, "void", effect=Effect.SYNC),
    Intrinsic("sync_grid", 0, 0, "void", effect=Effect.SYNC),
    Intrinsic("named_barrier_arrive", 2, 2, "void", effect=Effect.SYNC, needs="threads"),
    Intrinsic("mbarrier_arrive", 1, 2, "void", effect=Effect.SYNC, needs="threads"),
    Intrinsic("mbarrier_wait", 2, 2, "void", effect=Effect.SYNC, needs="threads"),
    Intrinsic("mbarrier_expect_tx", 2, 2, "void", effect=Effect.SYNC, needs="threads"),
    Intrinsic("mbarrier_arrive_expect_tx", 2, 2, "void", effect=Effect.SYNC, needs="threads"),
    Intrinsic("cp_async_barrier_noinc", 1, 1, "void", effect=Effect.SYNC, needs="threads"),
    Intrinsic("syncthreads_count", 1, 1, "int32", effect=Effect.SYNC, vote=True, exchanges=True),
    Intrinsic("syncthreads_and", 1, 1, "int32", effect=Effect.SYNC, vote=True, exchanges=True),
    Intrinsic("syncthreads_or", 1, 1, "int32", effect=Effect.SYNC, vote=True, exchanges=True),
]

# Exchange inside a warp of 32 lanes.
_WARP = [
    *[
        Intrinsic(f"shfl_{way}", 2, 4, "same", effect=Effect.SYNC, per_thread=True, exchanges=True)
        for way in ("sync", "xor", "up", "down")
    ],
    *[
        Intrinsic(f"warp_reduce_{op}", 1, 1, "same", effect=Effect.SYNC, exchanges=True)
        for op in ("sum", "max", "min", "bitand", "bitor")
    ],
    Intrinsic("any_sync", 1, 2, "int32", effect=Effect.SYNC, exchanges=True),
    Intrinsic("all_sync", 1, 2, "int32", effect=Effect.SYNC, exchanges=True),
    Intrinsic("ballot_sync", 1, 2, "uint32", effect=Effect.SYNC, exchanges=True),
    Intrinsic("ballot", 1, 1, "uint64", effect=Effect.SYNC, exchanges=True),
    Intrinsic("activemask", 0, 0, "uint32", effect=Effect.SYNC, exchanges=True),
    Intrinsic("match_any_sync", 1, 2, "uint32", effect=Effect.SYNC, exchanges=True),
    Intrinsic("match_all_sync", 1, 2, "uint32", effect=Effect.SYNC, exchanges=True),
    Intrinsic("shuffle_elect", 1, 1, "bool", per_thread=True, exchanges=True),
    Intrinsic("thread_allreduce", 2, 2, "same", effect=Effect.SYNC, exchanges=True),
    Intrinsic("rng_init", 3, 3, "void", effect=Effect.OUTPUT, per_thread=True, needs="threads"),
    Intrinsic("rng_rand", 0, 0, "uint32", effect=Effect.OUTPUT, per_thread=True, needs="threads"),
    Intrinsic(
        "rng_rand_float", 0, 0, "given", effect=Effect.OUTPUT, per_thread=True, needs="threads"
    ),
]

# Order of asynchronous copies. The portable back ends copy synchronously, so nothing remains.
_HINTS = [
    *[
        Intrinsic(name, 0, -1, "void", effect=Effect.HINT)
        for name in (
            "fence_proxy_async tma_store_arrive tma_store_wait ptx_commit_group "
            "ptx_wait_group wait_wgmma warpgroup_fence_operand warpgroup_arrive "
            "warpgroup_commit_batch warpgroup_wait set_max_nreg no_set_max_nreg "
            "disable_warp_group_reg_alloc annotate_producer_reg_dealloc "
            "annotate_consumer_reg_alloc pdl_trigger pdl_sync assume "
            "ptx_fence_barrier_init mbarrier_init"
        ).split()
    ],
]

# Words of single instructions; only a back end of that architecture knows what they mean.
_RAW = [
    *[
        Intrinsic(name, 0, -1, result, effect=effect, needs=needs)
        for needs, effect, result, names in (
            ("sm_70", Effect.OUTPUT, "void", "ptx_mma_sm70"),
            ("sm_75", Effect.OUTPUT, "void", "ptx_ldmatrix"),
            ("sm_80", Effect.OUTPUT, "void", "ptx_mma ptx_mma_sp"),
            ("sm_90", Effect.OUTPUT, "void", "ptx_stmatrix"),
            ("sm_90", Effect.NONE, "handle", "create_tma_descriptor create_tma_im2col_descriptor"),
            ("sm_90", Effect.SYNC, "void", "cluster_arrive cluster_arrive_relaxed cluster_wait"),
            ("sm_90", Effect.SYNC, "void", "cluster_sync"),
            ("sm_90", Effect.NONE, "int32", "block_rank_in_cluster"),
        )
        for name in names.split()
    ],
    # Asynchronous units: barriers in memory and waits of the program order what they do.
    *[
        Intrinsic(name, 0, -1, result, effect=effect, needs=needs, own_order=True)
        for needs, effect, result, names in (
            (
                "sm_90",
                Effect.OUTPUT,
                "void",
                "ptx_wgmma_ss ptx_wgmma_rs tma_load tma_load_multicast tma_load_im2col tma_store "
                "prefetch_tma_descriptor ptx_cp_async_bulk initialize_wgmma_descriptor "
                "increase_descriptor_offset",
            ),
            ("sm_90", Effect.NONE, "handle", "map_shared_rank"),
            (
                "sm_100",
                Effect.OUTPUT,
                "void",
                "ptx_tcgen05_mma_ss ptx_tcgen05_mma_ts tcgen05_mma_arrive clc_try_cancel "
                "clc_try_cancel_multicast tcgen05_before_thread_sync tcgen05_after_thread_sync "
                "initialize_tcgen05_descriptor tcgen05_ld tcgen05_st tcgen05_cp tcgen05_wait_ld "
                "tcgen05_wait_st tmem_free",
            ),
            ("sm_100", Effect.READ, "bool", "clc_is_canceled"),
            (
                "sm_100",
                Effect.READ,
                "int32",
                "clc_get_first_ctaid_x clc_get_first_ctaid_y clc_get_first_ctaid_z",
            ),
        )
        for name in names.split()
    ],
    Intrinsic("elect_one", 0, 0, "bool", effect=Effect.SYNC, per_thread=True, needs="sm_90"),
    Intrinsic("mbarrier_try_wait", 2, 2, "bool", effect=Effect.SYNC, needs="sm_80"),
    # A pointer whose buffer is not known, as TVM's words make them.
    Intrinsic("tvm_access_ptr", 4, 4, "handle", needs="threads"),
]

# What lowering makes for GPUs; programs do not write these. Addresses are of registers ("local"),
# shared or global memory; see the device headers for each function.
_DEVICE = [
    *[
        Intrinsic(name, low, high, "void", effect=Effect.WRITE, writes=(0,), reads=reads, needs=sm)
        for name, low, high, reads, sm in (
            ("vector_copy", 2, 2, (1,), "sm_75"),
            ("cp_async", 2, 3, (1,), "sm_80"),
            ("ldmatrix", 2, 2, (1,), "sm_75"),
            ("stmatrix", 2, 2, (1,), "sm_90"),
            ("mma", 3, 3, (0, 1, 2), "sm_75"),
        )
    ],
    # Pairs of float16 in a word.
    Intrinsic("half2_load", 1, 1, "uint32", effect=Effect.READ, reads=(0,), needs="sm_75"),
    Intrinsic("half2_store", 2, 2, "void", effect=Effect.WRITE, writes=(0,), needs="sm_75"),
    *[
        Intrinsic(f"half2_{name}", count, count, "uint32", needs="sm_75")
        for name, count in (
            ("add", 2),
            ("sub", 2),
            ("mul", 2),
            ("pack", 2),
            ("both", 1),
            ("round", 2),
            ("field", 4),
        )
    ],
    Intrinsic("cp_async_commit", 0, 0, "void", effect=Effect.SYNC, needs="sm_80"),
    Intrinsic("cp_async_wait", 0, 0, "void", effect=Effect.SYNC, needs="sm_80"),
]

# Tile operations (``HardwareOp``) and the lowest architecture that has them.
HARDWARE_TILES: dict[str, str] = {
    "gemm_sp": "sm_80",
    "wgmma_gemm_sp": "sm_90",
    "copy_tmem": "sm_100",
    "deallocate_tmem": "sm_100",
    "tcgen05_cp_warpx4": "sm_100",
    "tcgen05_gemm": "sm_100",
    "tcgen05_gemm_blockscaled": "sm_100",
    "tcgen05_gemm_sp": "sm_100",
    "tcgen05_sf_warp_transpose": "sm_100",
    "tma_gather4": "sm_100",
    "tma_scatter4": "sm_100",
    "mma_gemm_blockscaled": "sm_120",
}

INTRINSICS: dict[str, Intrinsic] = _table(
    _ELEMENTWISE, _MEMORY, _OUTPUT, _SYNC, _WARP, _HINTS, _RAW, _DEVICE
)
