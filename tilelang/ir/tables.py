"""What each operator and intrinsic is, declared once.

Printers, the simplifier, the interpreter, legality checks and code generators ask these tables;
nobody decides by an operation's name what it does.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.ir.atoms import (
    NOW,
    VALUE,
    Atom,
    Completion,
    Effect,
    Operand,
    Order,
    group,
    mbarrier,
)


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


def _table(*groups: list[Atom]) -> dict[str, Atom]:
    table: dict[str, Atom] = {}
    for rows in groups:
        for item in rows:
            assert item.name not in table, item.name
            table[item.name] = item
    return table


def _math(names: str, count: int, takes: str = "float", result: str = "same") -> list[Atom]:
    return [Atom(name, count, count, result, takes) for name in names.split()]


_PLACE = Operand("place", "memory", "rw", elements=1)
_SOURCE = Operand("source", "memory", "r", elements=1)
_REGION = Operand("region", "any", "r")

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
    *_math("fmax_nan fmin_nan", 2, "number"),  # max and min that propagate NaN
    Atom("reinterpret", 1, 1, "given"),
    # Bits that are loaded, or stored, in one access of so many of them.
    Atom("ldg32", 1, 1, "uint32", moves="ldg"),
    *[Atom(f"ldg{bits}", 1, 1, f"uint32x{bits // 32}", moves="ldg") for bits in (64, 128, 256)],
    *[Atom(f"stg{bits}", 1, 1, "given", moves="stg") for bits in (32, 64, 128, 256)],
    Atom("isnullptr", 1, 1, "bool"),
    Atom("any_of", 1, 1, "bool", effect=Effect.READ, operands=(_REGION,)),
    Atom("all_of", 1, 1, "bool", effect=Effect.READ, operands=(_REGION,)),
    Atom(
        "dp4a", 3, 3, "handle", effect=Effect.WRITE,
        operands=(Operand("a", "any", "r"), Operand("b", "any", "r"), Operand("c", "any", "rw")),
    ),
    # Loads through an address expression, for T.__ldg and raw pointers.
    Atom("ldg", 1, 1, "given", effect=Effect.READ, operands=(_SOURCE,)),
]  # fmt: skip


def _atomic(
    name: str, low: int, *operands: Operand, update: str = "", high: int | None = None
) -> Atom:
    most = low if high is None else high
    return Atom(name, low, most, "given", "any", Effect.ATOMIC, operands, update=update)


_ATOMICS = [
    *[
        _atomic(f"atomic_{op}", 2, _PLACE, VALUE, update=op)
        for op in ("add", "max", "min", "or", "and", "xor")
    ],
    _atomic("atomic_exch", 2, _PLACE, VALUE),
    _atomic("atomic_store", 2, _PLACE, VALUE),
    _atomic("atomic_load", 1, _SOURCE),
    # Sums of neighbours; a third operand is where the previous values go.
    *[
        _atomic(
            f"atomic_addx{count}", 2, Operand("place", "memory", "rw", elements=count),
            Operand("value", "any", "r"), Operand("previous", "any", "w"), update="add", high=3,
        )
        for count in (2, 4)
    ],
]  # fmt: skip

_OUTPUT = [
    Atom("print", 0, 2, "void", effect=Effect.OUTPUT),
    Atom("device_assert", 1, 1, "void", effect=Effect.OUTPUT),
    Atom("call_extern", 0, -1, "given", effect=Effect.OUTPUT, by_name=True),
    Atom("call_intrin", 0, -1, "given", effect=Effect.OUTPUT, by_name=True),
]


def _sync(
    name: str, low: int, high: int, orders: Order, *operands: Operand, needs: str = "",
    word: str = "",
) -> Atom:  # fmt: skip
    """Synchronisation that has a meaning for any machine that runs the threads of a block."""
    return Atom(
        name, low, high, "void", "any", Effect.SYNC, operands, orders=orders, needs=needs, word=word
    )


_NUMBERED = Operand("barrier", "barrier id")
_BARRIER = Operand("barrier", "barrier")
_SYNC = [
    _sync("sync_threads", 0, 2, Order("rendezvous", "block"), _NUMBERED),
    _sync("sync_warp", 0, 1, Order("rendezvous", "warp")),
    _sync("sync_grid", 0, 0, Order("rendezvous", "grid")),
    _sync("named_barrier_arrive", 2, 2, Order("arrive", "barrier"), _NUMBERED, needs="threads"),
    _sync("mbarrier_arrive", 1, 2, Order("arrive", "barrier"), _BARRIER, needs="threads",
          word="barrier_arrive"),
    _sync("mbarrier_wait", 2, 2, Order("wait", "barrier"), _BARRIER, needs="threads",
          word="barrier_wait"),
    _sync("mbarrier_expect_tx", 2, 2, Order("expect", "barrier"), _BARRIER, needs="threads"),
    _sync(
        "mbarrier_arrive_expect_tx", 2, 2, Order("arrive", "barrier", expects=True), _BARRIER,
        needs="threads",
    ),
    _sync("cp_async_barrier_noinc", 1, 1, Order("arrive", "barrier", "cp_async"), _BARRIER,
          needs="threads"),
    *[
        Atom(
            f"syncthreads_{op}", 1, 1, "int32", effect=Effect.SYNC, vote=True, exchanges="block",
            orders=Order("rendezvous", "block"),
        )
        for op in ("count", "and", "or")
    ],
]  # fmt: skip


def _exchange(
    name: str, low: int, high: int, result: str, scope: str = "warp", per_thread: bool = False,
    word: str = "",
) -> Atom:  # fmt: skip
    return Atom(
        name, low, high, result, "any", Effect.SYNC, per_thread=per_thread, exchanges=scope,
        word=word,
    )  # fmt: skip


# Exchange inside a warp, and a reduction of the block. They order no memory.
_EXCHANGES = [
    *[
        _exchange(f"shfl_{way}", 2, 4, "same", per_thread=True)
        for way in ("sync", "xor", "up", "down")
    ],
    *[
        _exchange(f"warp_reduce_{op}", 1, 1, "same")
        for op in ("sum", "max", "min", "bitand", "bitor")
    ],
    _exchange("any_sync", 1, 2, "int32"),
    _exchange("all_sync", 1, 2, "int32"),
    _exchange("ballot_sync", 1, 2, "uint32"),
    _exchange("ballot", 1, 1, "uint64"),
    _exchange("activemask", 0, 0, "uint32"),
    _exchange("match_any_sync", 1, 2, "uint32"),
    _exchange("match_all_sync", 1, 2, "uint32"),
    Atom("shuffle_elect", 1, 1, "bool", per_thread=True, exchanges="warp"),
    _exchange("thread_allreduce", 2, 2, "same", "block", word="tvm_thread_allreduce"),
]

_RANDOM = [
    Atom(name, count, count, result, effect=Effect.OUTPUT, per_thread=True, needs="threads")
    for name, count, result in (
        ("rng_init", 3, "void"), ("rng_rand", 0, "uint32"), ("rng_rand_float", 0, "given"),
    )
]  # fmt: skip


def _units(
    name: str, high: int, orders: Order, needs: str, *operands: Operand, word: str = ""
) -> Atom:
    """Order of asynchronous units, left out where there are none."""
    return Atom(
        name, 0, high, "void", "any", Effect.SYNC, operands, orders=orders, needs=needs,
        optional=True, word=word,
    )  # fmt: skip


_TO_ASYNC = ("generic", "async")
_UNITS = [
    _units("fence_proxy_async", -1, Order("fence", "thread", proxies=_TO_ASYNC), "sm_90"),
    _units("ptx_fence_barrier_init", -1, Order("fence", "cluster", proxies=_TO_ASYNC), "sm_90"),
    _units("mbarrier_init", -1, Order("init", "barrier"), "sm_80", _BARRIER,
           word="ptx_init_barrier_thread_count"),
    _units("tma_store_arrive", -1, Order("commit", "thread", "bulk_store"), "sm_90"),
    _units("tma_store_wait", -1, Order("wait", "thread", "bulk_store"), "sm_90"),
    _units("ptx_commit_group", -1, Order("commit", "thread", "cp_async"), "sm_80"),
    _units("ptx_wait_group", -1, Order("wait", "thread", "cp_async"), "sm_80"),
    _units("warpgroup_fence_operand", -1, Order("fence", "thread"), "sm_90a"),
    _units("warpgroup_arrive", -1, Order("fence", "warpgroup"), "sm_90a"),
    _units("warpgroup_commit_batch", -1, Order("commit", "warpgroup", "wgmma"), "sm_90a"),
    _units("warpgroup_wait", -1, Order("wait", "warpgroup", "wgmma"), "sm_90a"),
    _units("wait_wgmma", -1, Order("wait", "warpgroup", "wgmma"), "sm_90a"),
    _units("pdl_trigger", -1, Order("arrive", "launches"), "sm_90"),
    _units("pdl_sync", -1, Order("wait", "launches"), "sm_90"),
]  # fmt: skip

# What steers a machine that has it, without effect on results.
_HINTS = [
    Atom("assume", 0, -1, "void", effect=Effect.HINT, optional=True),
    *[
        Atom(name, 0, -1, "void", effect=Effect.HINT, needs="sm_90a", optional=True)
        for name in (
            "set_max_nreg no_set_max_nreg disable_warp_group_reg_alloc "
            "annotate_producer_reg_dealloc annotate_consumer_reg_alloc"
        ).split()
    ],
]

# PTX-level instructions; only a back end of that architecture knows what they mean.
_RAW = [
    *[
        Atom(name, 0, -1, result, effect=effect, needs=needs)
        for needs, effect, result, names in (
            ("sm_70", Effect.OUTPUT, "void", "ptx_mma_sm70"),
            ("sm_75", Effect.OUTPUT, "void", "ptx_ldmatrix"),
            ("sm_80", Effect.OUTPUT, "void", "ptx_mma ptx_mma_sp"),
            ("sm_90", Effect.OUTPUT, "void", "ptx_stmatrix"),
            ("sm_90", Effect.NONE, "handle", "create_tma_descriptor create_tma_im2col_descriptor"),
            ("sm_90", Effect.NONE, "int32", "block_rank_in_cluster"),
        )
        for name in names.split()
    ],
    *[
        Atom(name, 0, -1, "void", effect=Effect.SYNC, needs="sm_90", orders=orders)
        for name, orders in (
            ("cluster_arrive", Order("arrive", "cluster")),
            ("cluster_arrive_relaxed", Order("arrive", "cluster", memory=False)),
            ("cluster_wait", Order("wait", "cluster")),
            ("cluster_sync", Order("rendezvous", "cluster")),
        )
    ],
    # Asynchronous units: barriers in memory and waits of the program order what they do.
    *[
        Atom(
            name, 0, -1, result, effect=effect, needs=needs, own_order=True, completes=completes
        )
        for needs, effect, result, completes, names in (
            ("sm_90", Effect.OUTPUT, "void", group("wgmma"), "ptx_wgmma_ss ptx_wgmma_rs"),
            (
                "sm_90", Effect.OUTPUT, "void", mbarrier(),
                "tma_load tma_load_multicast tma_load_im2col ptx_cp_async_bulk",
            ),
            ("sm_90", Effect.OUTPUT, "void", group("bulk_store"), "tma_store"),
            (
                "sm_90", Effect.OUTPUT, "void", NOW,
                "prefetch_tma_descriptor initialize_wgmma_descriptor increase_descriptor_offset",
            ),
            ("sm_90", Effect.NONE, "handle", NOW, "map_shared_rank"),
            (
                "sm_100", Effect.OUTPUT, "void", mbarrier(),
                "ptx_tcgen05_mma_ss ptx_tcgen05_mma_ts tcgen05_cp clc_try_cancel "
                "clc_try_cancel_multicast",
            ),
            ("sm_100", Effect.OUTPUT, "void", group("tcgen05_ld"), "tcgen05_ld"),
            ("sm_100", Effect.OUTPUT, "void", group("tcgen05_st"), "tcgen05_st"),
            (
                "sm_100", Effect.OUTPUT, "void", NOW,
                "initialize_tcgen05_descriptor tmem_free",
            ),
            ("sm_100", Effect.READ, "bool", NOW, "clc_is_canceled"),
            (
                "sm_100", Effect.READ, "int32", NOW,
                "clc_get_first_ctaid_x clc_get_first_ctaid_y clc_get_first_ctaid_z",
            ),
        )
        for name in names.split()
    ],
    *[
        Atom(
            name, 0, -1, "void", effect=Effect.OUTPUT, needs="sm_100", own_order=True, orders=orders
        )
        for name, orders in (
            ("tcgen05_mma_arrive", Order("commit", "barrier", "tcgen05")),
            ("tcgen05_before_thread_sync", Order("fence", "thread", "", ("tcgen05", "generic"))),
            ("tcgen05_after_thread_sync", Order("fence", "thread", "", ("generic", "tcgen05"))),
            ("tcgen05_wait_ld", Order("wait", "thread", "tcgen05_ld")),
            ("tcgen05_wait_st", Order("wait", "thread", "tcgen05_st")),
        )
    ],
    Atom("elect_one", 0, 0, "bool", effect=Effect.SYNC, per_thread=True, needs="sm_90"),
    Atom(
        "mbarrier_try_wait", 2, 2, "bool", effect=Effect.SYNC, operands=(_BARRIER,),
        orders=Order("test", "barrier"), needs="sm_80",
    ),
    # A pointer whose buffer is not known, as TVM's words make them.
    Atom("tvm_access_ptr", 4, 4, "handle", needs="threads"),
]  # fmt: skip


def _device(
    name: str, low: int, high: int, needs: str, *operands: Operand, completes: Completion = NOW
) -> Atom:
    return Atom(
        name, low, high, "void", "any", Effect.WRITE, operands, completes, needs=needs,
        lowered=True,
    )  # fmt: skip


# What lowering makes for GPUs; programs do not write these. Addresses are of registers ("local"),
# shared or global memory; see the device headers for each function.
_DEVICE = [
    _device(
        "vector_copy", 2, 2, "sm_75",
        Operand("destination", "any", "w", bytes=1, times="bytes"),
        Operand("source", "any", "r", bytes=1, times="bytes"),
    ),
    _device(
        "cp_async", 2, 4, "sm_80",
        Operand("destination", "shared", "w", bytes=1, times="bytes"),
        Operand("source", "global", "r", bytes=1, times="bytes"),
        completes=group("cp_async"),
    ),
    # A lane names the 16 bytes of one row of an 8 x 8 matrix, and has 4 bytes of each matrix.
    _device(
        "ldmatrix", 2, 2, "sm_75",
        Operand("destination", "registers", "w", bytes=4, times="count"),
        Operand("source", "shared", "r", bytes=16),
    ),
    _device(
        "stmatrix", 2, 2, "sm_90",
        Operand("destination", "shared", "w", bytes=16),
        Operand("source", "registers", "r", bytes=4, times="count"),
    ),
    _device(
        "mma", 3, 3, "sm_75",
        Operand("d", "registers", "rw"),
        Operand("a", "registers", "r"),
        Operand("b", "registers", "r"),
    ),
    # Pairs of float16 in a word.
    Atom(
        "half2_load", 1, 1, "uint32", effect=Effect.READ, needs="sm_75", lowered=True,
        operands=(Operand("source", "any", "r", bytes=4),),
    ),
    _device("half2_store", 2, 2, "sm_75", Operand("destination", "any", "w", bytes=4)),
    *[
        Atom(f"half2_{name}", count, count, "uint32", needs="sm_75", lowered=True)
        for name, count in (
            ("add", 2), ("sub", 2), ("mul", 2), ("pack", 2), ("both", 1), ("round", 2),
            ("field", 4),
        )
    ],
    *[
        Atom(
            f"cp_async_{kind}", 0, 0, "void", effect=Effect.SYNC, needs="sm_80", lowered=True,
            orders=Order(kind, "thread", "cp_async"),
        )
        for kind in ("commit", "wait")
    ],
]  # fmt: skip

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

INTRINSICS: dict[str, Atom] = _table(
    _ELEMENTWISE, _ATOMICS, _OUTPUT, _SYNC, _EXCHANGES, _RANDOM, _UNITS, _HINTS, _RAW, _DEVICE
)
