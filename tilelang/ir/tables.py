"""The properties of each operator and intrinsic, declared once.

Printers, the simplifier, the interpreter, legality checks and code generators read these tables;
no code compares names of operations.
"""

from __future__ import annotations

from typing import Any

from tilelang.errors import InternalError
from tilelang.ir.atoms import BARRIER, VALUE, Atom, Effect, Operand, Order, intrinsic
from tilelang.records import dataclass


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


def table(*groups: list[Atom]) -> dict[str, Atom]:
    """Rows by their names."""
    atoms: dict[str, Atom] = {}
    for rows in groups:
        for row in rows:
            assert row.name not in atoms, row.name
            atoms[row.name] = row
    return atoms


def _math(
    names: str, count: int, takes: str = "float", result: str = "same", **fields: Any
) -> list[Atom]:
    """Functions of values; ``ieee_fdiv:div`` has the text ``div``."""
    named = (name.partition(":") for name in names.split())
    return [Atom(name, count, count, result, takes, text=text, **fields) for name, _, text in named]


_MEMORY = Operand("address", "memory", "rw", elements=1)
_SOURCE = Operand("source", "memory", "r", elements=1)
_REGION = Operand("region", "any", "r")

ANY_OF, ALL_OF = (
    Atom(name, 1, 1, "bool", effect=Effect.READ, operands=(_REGION,))
    for name in ("any_of", "all_of")
)
_ELEMENTWISE = [
    *_math(
        "exp exp2 exp10 log log2 log10 log1p expm1 sqrt rsqrt sigmoid tanh sin cos tan sinh cosh "
        "asin acos atan asinh acosh atanh erf",
        1,
    ),
    *_math("floor ceil trunc nearbyint round", 1, exact=True),
    *_math(
        "fast_exp fast_exp10 fast_log fast_log2 fast_log10 fast_sin fast_cos fast_tan", 1,
        writer="fast",
    ),
    *_math("fast_rcp:rcp", 1, writer="reciprocal"),
    *_math("ieee_frcp:rcp ieee_fsqrt:sqrt", 1, writer="directed"),
    *_math("ieee_frsqrt", 1, writer="rsqrt"),
    *_math("ieee_add:add ieee_sub:sub ieee_mul:mul ieee_fdiv:div", 2, writer="directed"),
    *_math("ieee_fmaf:fma", 3, writer="directed"),
    *_math("nextafter", 2, writer="nextafter"),
    *_math("atan2 hypot fmod copysign", 2),
    *_math("fma", 3),
    *_math("pow", 2, "number"),
    *_math("ldexp", 2, "any"),
    *_math("abs", 1, "number", exact=True),
    *_math("isnan isinf isfinite", 1, "float", "bool"),
    *_math("popcount clz ffs", 1, "int", "int32", writer="count bits"),
    Atom("fns", 3, 3, "int32", "int", text="tl_fns"),
    *_math("add2 sub2 mul2 max2 min2", 2, "any"),
    *_math("fma2", 3, "any"),
    *_math("abs2", 1, "any"),
    Atom("likely", 1, 1, identity=True),
    *_math("fmax_nan fmin_nan", 2, "number", exact=True),  # max and min that propagate NaN
    Atom("reinterpret", 1, 1, "given", writer="reinterpret"),
    # Bits that are loaded, or stored, in one access of so many of them.
    Atom("ldg32", 1, 1, "uint32", moves="ldg", writer="move bits"),
    *[Atom(f"ldg{bits}", 1, 1, f"uint32x{bits // 32}", moves="ldg") for bits in (64, 128, 256)],
    Atom("stg32", 1, 1, "given", moves="stg", writer="move bits"),
    *[Atom(f"stg{bits}", 1, 1, "given", moves="stg") for bits in (64, 128, 256)],
    Atom("isnullptr", 1, 1, "bool", writer="is null"),
    ANY_OF, ALL_OF,
    Atom(
        "dp4a", 3, 3, "handle", effect=Effect.WRITE, writer="dp4a",
        operands=(Operand("a", "any", "r"), Operand("b", "any", "r"), Operand("c", "any", "rw")),
    ),
    # Loads through an address expression, for T.__ldg and raw pointers.
    Atom("ldg", 1, 1, "given", effect=Effect.READ, operands=(_SOURCE,), writer="load"),
]  # fmt: skip


def _atomic(
    name: str, low: int, *operands: Operand, update: str = "", high: int | None = None,
    writer: str = "atomic",
) -> Atom:  # fmt: skip
    highest = low if high is None else high
    return Atom(
        name, low, highest, "given", "any", Effect.ATOMIC, operands, update=update, writer=writer
    )


_ATOMICS = [
    *[
        _atomic(f"atomic_{op}", 2, _MEMORY, VALUE, update=op)
        for op in ("add", "max", "min", "or", "and", "xor")
    ],
    _atomic("atomic_exch", 2, _MEMORY, VALUE),
    _atomic("atomic_store", 2, _MEMORY, VALUE),
    _atomic("atomic_load", 1, _SOURCE),
    # Sums of neighbours; a third operand is where the previous values go.
    *[
        _atomic(
            f"atomic_addx{count}", 2, Operand("address", "memory", "rw", elements=count),
            Operand("value", "any", "r"), Operand("previous", "any", "w"), update="add", high=3,
            writer="atomic of neighbours",
        )
        for count in (2, 4)
    ],
]  # fmt: skip

_OUTPUT = [
    Atom("print", 0, 2, "void", effect=Effect.OUTPUT),
    Atom("device_assert", 1, 1, "void", effect=Effect.OUTPUT, writer="assert"),
    *[
        Atom(name, 0, -1, "given", effect=Effect.OUTPUT, by_name=True, writer="function by name")
        for name in ("call_extern", "call_intrin")
    ],
]


def _counted(
    name: str, needs: str, doc: str, orders: Order, *operands: Operand, **more: Any
) -> Atom:
    """Barriers that count arrivals: in memory, or by number."""
    return intrinsic(
        name, needs, doc, *operands, effect=Effect.SYNC, orders=orders, emulated=True, **more
    )


_NUMBERED = Operand("barrier", "barrier id")
_ARRIVE = Order("arrive", "barrier")
_BYTES = Operand("byte count", name="tx", example=64)
MBARRIER_ARRIVE = _counted(
    "mbarrier_arrive", "mbarrier",
    "Arrive once per active thread, at the barrier of block ``cta_id`` of the cluster.",
    _ARRIVE, BARRIER, Operand("block", name="cta_id", default=None),
    names=("barrier_arrive", "mbarrier_arrive", "ptx_arrive_barrier"),
    strict=("ptx_arrive_cluster_barrier",), text="tl_mbarrier_arrive", writer="arrival",
    check="block of the cluster", ptx="mbarrier.arrive",
)  # fmt: skip
MBARRIER_WAIT = _counted(
    "mbarrier_wait", "mbarrier", "Wait until the phase with that parity (bit 0) is complete.",
    Order("wait", "barrier"), BARRIER, Operand("parity", default=0, dtype="int32"),
    text="tl_mbarrier_wait", names=("barrier_wait", "ptx_wait_barrier"),
    strict=("mbarrier_wait_parity",), ptx="mbarrier.try_wait",
)  # fmt: skip
MBARRIER_EXPECT = _counted(
    "mbarrier_expect_tx", "bulk_copy", "Expect ``tx`` bytes of bulk copies at a barrier.",
    Order("expect", "barrier"), BARRIER, _BYTES, text="tl_mbarrier_expect_tx",
    ptx="mbarrier.expect_tx",
)  # fmt: skip
MBARRIER_ARRIVE_EXPECT = _counted(
    "mbarrier_arrive_expect_tx", "bulk_copy", "Expect ``tx`` bytes and arrive.",
    Order("arrive", "barrier", expects=True), BARRIER, _BYTES, text="tl_mbarrier_arrive_expect_tx",
    names=("mbarrier_arrive_expect_tx", "ptx_arrive_barrier_expect_tx"), ptx="mbarrier.arrive",
)  # fmt: skip
_SYNC = [
    Atom("sync_threads", 0, 2, "void", effect=Effect.SYNC, operands=(_NUMBERED,),
         orders=Order("rendezvous", "block"), writer="block barrier"),
    Atom("sync_warp", 0, 1, "void", effect=Effect.SYNC,
         orders=Order("rendezvous", "warp"), text="__syncwarp"),
    Atom("sync_grid", 0, 0, "void", effect=Effect.SYNC,
         orders=Order("rendezvous", "grid"), text="tl_sync_grid"),
    _counted("named_barrier_arrive", "threads", "Arrive at a named barrier without waiting.",
             _ARRIVE, Operand("barrier id", "barrier id"), Operand("thread count", example=64),
             text="tl_bar_arrive", check="named barrier", ptx="bar.arrive"),
    MBARRIER_ARRIVE, MBARRIER_WAIT, MBARRIER_EXPECT, MBARRIER_ARRIVE_EXPECT,
    _counted("cp_async_barrier_noinc", "mbarrier",
             "Arrive when the thread's earlier asynchronous copies have landed.",
             Order("arrive", "barrier", "cp_async"), Operand("barrier", "barrier"),
             text="tl_cp_async_mbarrier_arrive_noinc", ptx="cp.async.mbarrier.arrive",
             names=("cp_async_barrier_noinc", "ptx_cp_async_barrier")),
    *[
        Atom(
            f"syncthreads_{op}", 1, 1, "int32", effect=Effect.SYNC, vote=True, exchanges="block",
            orders=Order("rendezvous", "block"), text=f"__syncthreads_{op}",
        )
        for op in ("count", "and", "or")
    ],
]  # fmt: skip


def _exchange(
    name: str, low: int, high: int, result: str, text: str = "", per_thread: bool = False,
    writer: str = "",
) -> Atom:  # fmt: skip
    return Atom(
        name, low, high, result, effect=Effect.SYNC, per_thread=per_thread, exchanges="warp",
        text=text, writer=writer,
    )  # fmt: skip


# Lowering adds scratch memory for the values, and a mask of the threads that have one.
THREAD_ALLREDUCE = Atom(
    "thread_allreduce", 2, 4, "same", effect=Effect.SYNC, exchanges="block",
    names=("tvm_thread_allreduce",), writer="block reduction",
    operands=(
        VALUE, Operand("condition"), Operand("values", "shared", "rw", elements=1),
        Operand("present", "shared", "rw", elements=1),
    ),
)  # fmt: skip
# Exchange inside a warp, and a reduction of the block. They order no memory.
_EXCHANGES = [
    _exchange("shfl_sync", 2, 4, "same", "tl_shfl", per_thread=True),
    *[
        _exchange(f"shfl_{way}", 2, 4, "same", f"tl_shfl_{way}", per_thread=True)
        for way in ("xor", "up", "down")
    ],
    *[
        _exchange(f"warp_reduce_{op}", 1, 1, "same", writer="warp reduction")
        for op in ("sum", "max", "min", "bitand", "bitor")
    ],
    _exchange("any_sync", 1, 2, "int32", "tl_any"),
    _exchange("all_sync", 1, 2, "int32", "tl_all"),
    _exchange("ballot_sync", 1, 2, "uint32", "tl_ballot"),
    _exchange("ballot", 1, 1, "uint64", "tl_ballot"),
    _exchange("activemask", 0, 0, "uint32", "tl_activemask"),
    _exchange("match_any_sync", 1, 2, "uint32", "tl_match_any"),
    _exchange("match_all_sync", 1, 2, "uint32", "tl_match_all"),
    Atom("shuffle_elect", 1, 1, "bool", per_thread=True, exchanges="warp", writer="one of some"),
    THREAD_ALLREDUCE,
]  # fmt: skip


def _random(name: str, count: int, result: str, semantics: str) -> Atom:
    return Atom(
        name, count, count, result, effect=Effect.OUTPUT, per_thread=True, needs="threads",
        writer="random numbers", semantics=semantics,
    )  # fmt: skip


RNG_INIT = _random("rng_init", 3, "void", "start random numbers")
RNG_RAND = _random("rng_rand", 0, "uint32", "random bits")
RNG_RAND_FLOAT = _random("rng_rand_float", 0, "given", "random float")
_RANDOM = [RNG_INIT, RNG_RAND, RNG_RAND_FLOAT]


# What steers a machine, without effect on results.
_HINTS = [Atom("assume", 0, -1, "void", effect=Effect.HINT, optional=True)]

# A pointer whose buffer is not known, as TVM's intrinsics make them.
UNKNOWN_POINTER = Atom("tvm_access_ptr", 4, 4, "handle", needs="threads", writer="pointer")

# A part of an index that an instruction takes as the constant of its address.
IMMEDIATE = Atom("immediate", 1, 1, takes="int", needs="threads", lowered=True, identity=True)
VECTOR_COPY = Atom(
    "vector_copy",
    2,
    2,
    "void",
    effect=Effect.WRITE,
    needs="threads",
    lowered=True,
    semantics="copy bytes",
    writer="copy bytes",
    operands=(
        Operand("destination", "any", "w", bytes=1, times="bytes"),
        Operand("source", "any", "r", bytes=1, times="bytes"),
    ),
)
# Pairs of float16 or bfloat16 in a word.
HALF2_LOAD = Atom(
    "half2_load", 1, 1, "uint32", effect=Effect.READ, needs="threads", lowered=True,
    text="tl_half2_load", semantics="load a pair",
    operands=(Operand("source", "any", "r", bytes=4),),
)  # fmt: skip
HALF2_STORE = Atom(
    "half2_store", 2, 2, "void", effect=Effect.WRITE, needs="threads", lowered=True,
    text="tl_half2_store", semantics="store a pair",
    operands=(Operand("destination", "any", "w", bytes=4),),
)  # fmt: skip
# What lowering makes for GPUs; programs do not write these.
_LOWERED = [
    IMMEDIATE,
    VECTOR_COPY,
    HALF2_LOAD,
    HALF2_STORE,
    *[
        Atom(
            f"half2_{name}", count, count, "uint32", needs="threads", lowered=True,
            text=f"tl_half2_{name}{more}", semantics=meaning,
        )
        for name, count, more, meaning in (
            ("add", 2, "", "add pairs"), ("sub", 2, "", "subtract pairs"),
            ("mul", 2, "", "multiply pairs"), ("pack", 2, "", "pair of bits"),
            ("both", 1, "", "pair of one"), ("round", 2, "", "pair rounded"),
            ("round_bf16", 2, "", "pair rounded to bfloat16"),
            ("field", 4, "<{bits}>", "pair of fields"),
            ("quad_e4m3fn", 4, "", "four to e4m3"), ("quad_e5m2", 4, "", "four to e5m2"),
            ("wide_e4m3fn", 1, "", "pair of e4m3"), ("wide_e5m2", 1, "", "pair of e5m2"),
            ("add_bf16", 2, "", "add pairs of bfloat16"),
            ("sub_bf16", 2, "", "subtract pairs of bfloat16"),
            ("mul_bf16", 2, "", "multiply pairs of bfloat16"),
            ("field_bf16", 4, "<{bits}>", "pair of fields as bfloat16"),
            ("min", 2, "", "lesser pairs"), ("max", 2, "", "greater pairs"),
            ("min_bf16", 2, "", "lesser bf16 pairs"), ("max_bf16", 2, "", "greater bf16 pairs"),
        )
    ],
]  # fmt: skip

PORTABLE: dict[str, Atom] = table(
    _ELEMENTWISE, _ATOMICS, _OUTPUT, _SYNC, _EXCHANGES, _RANDOM, _HINTS, [UNKNOWN_POINTER], _LOWERED
)


def portable(name: str) -> Atom:
    """The portable row of that name.

    Raises:
        InternalError: there is none. Rows of a vendor are given as objects, from ``target/``.
    """
    atom = PORTABLE.get(name)
    if atom is None:
        raise InternalError(f"the intrinsic {name!r} does not exist")
    return atom
