"""C and CUDA functions by name, as expressions: what ``T.call_extern`` means on every executor.

One table for all: a function of it is computed by the operations of the language, so that the
interpreter, the CPU and a GPU agree. Semantics are those of the CUDA math API reference (NVIDIA,
"CUDA Math API", v13): conversions name their rounding, half and bfloat16 arithmetic rounds once.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tilelang.errors import TileTypeError
from tilelang.ir import expr as E
from tilelang.ir.dtypes import dtype as DType
from tilelang.records import dataclass

Make = Callable[..., E.Expr]

_U32, _I32, _VOID = DType("uint32"), DType("int32"), DType("void")
_WARP = E.const(32, _I32)
_SHUFFLES = {"": "shfl_sync", "_up": "shfl_up", "_down": "shfl_down", "_xor": "shfl_xor"}
_F32, _F64, _F16, _BF16 = (DType(name) for name in ("float32", "float64", "float16", "bfloat16"))

# Names in CUDA's conversions.
_KINDS = {
    "float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16",
    "int": "int32", "uint": "uint32", "ll": "int64", "ull": "uint64", "short": "int16",
    "ushort": "uint16",
}  # fmt: skip
_CONVERSION = re.compile(rf"__({'|'.join(_KINDS)})2({'|'.join(_KINDS)})(?:_(rn|rz|rd|ru))?")
_TO_INTEGRAL = {"rn": "nearbyint", "rz": "trunc", "rd": "floor", "ru": "ceil"}


@dataclass(frozen=True)
class Function:
    """The operands of a function, how many of them may be left out, and what it computes."""

    count: int
    make: Make
    optional: int = 0


def find_function(name: str, operands: tuple[E.Expr, ...]) -> Function | None:
    """The function ``name`` for operands of these dtypes; None if it is not known."""
    if name in _PLAIN:
        return _PLAIN[name]
    function = _conversion(name) or _directed(name)
    if function is not None:
        return function
    short = name.removesuffix("f")
    if short in _FLOATS:
        return _casting(_F32 if name != short else None, _FLOATS[short])
    if name.startswith(("__h", "h")) and "2" not in name:
        kind = _BF16 if any(operand.dtype.element_of == _BF16 for operand in operands) else _F16
        half = _HALVES.get(name.removeprefix("__").removesuffix("_rn"))
        return None if half is None else _casting(kind, half)
    return _PAIRS.get(name.removesuffix("_rn"))


def as_expression(node: E.Call) -> E.Expr | None:
    """The expression that a ``call_extern`` computes, of its dtype; None for other functions.

    Raises:
        TileTypeError: a known function with another number of operands.
    """
    args = node.args
    name = str(node.attr("name", node.attr("func", "")))
    if args and isinstance(args[0], E.StringImm):
        name, args = args[0].value, args[1:]
    if name in _LOADS and len(args) == 1 and isinstance(args[0], E.AddressOf):
        return _typed(E.call("ldg", args[0], dtype=args[0].buffer.dtype), node.dtype)
    function = find_function(name, args)
    if function is None or any(arg.dtype.is_handle for arg in args):
        return None
    least = function.count - function.optional
    if not least <= len(args) <= function.count:
        raise TileTypeError(
            f"`{name}` with another number of operands",
            expected=str(function.count)
            if not function.optional
            else f"{least} to {function.count}",
            got=f"{name}({', '.join(map(repr, args))})",
        )
    return _typed(function.make(*args), node.dtype)


def _typed(value: E.Expr, dtype: DType) -> E.Expr:
    as_it_is = dtype.is_handle or value.dtype == _VOID or value.dtype.lanes != dtype.lanes
    return value if as_it_is else E.cast(value, dtype)


def _casting(kind: DType | None, function: Function) -> Function:
    """``function`` of operands that are converted to ``kind`` (None: as they are)."""
    if kind is None:
        return function
    return Function(function.count, lambda *args: function.make(*(E.cast(x, kind) for x in args)))


# -- conversions -----------------------------------------------------------------------------------
def _conversion(name: str) -> Function | None:
    """``__float2half_rz`` and its like."""
    match = _CONVERSION.fullmatch(name)
    if match is None:
        return None
    source, target = DType(_KINDS[match[1]]), DType(_KINDS[match[2]])
    mode = match[3] or "rn"
    if target.is_integer:
        if not source.is_float:
            return None
        if match[3] is None:
            mode = "rz"
        step = _TO_INTEGRAL[mode]
        return _casting(source, Function(1, lambda x: E.cast(E.call(step, _wide(x)), target)))
    if mode == "rn" or (target.bits >= source.bits and source.is_float):
        return _casting(source, Function(1, lambda x: E.cast(x, target)))
    if source.is_integer:
        if source.bits > 32:
            return None  # has no exact float to round from
        return _casting(source, Function(1, lambda x: _rounded(E.cast(x, _F64), target, mode)))
    return _casting(source, Function(1, lambda x: _rounded(x, target, mode)))


def _wide(x: E.Expr) -> E.Expr:
    """Narrow floats as float32, which holds them."""
    return E.cast(x, _F32) if x.dtype.bits < 32 else x


def _rounded(x: E.Expr, target: DType, mode: str) -> E.Expr:
    """``x`` in the direction of ``mode``: the nearest value of ``target``, or its neighbour."""
    rounded = E.cast(x, target)
    back = E.cast(rounded, x.dtype)
    integer = DType(f"uint{target.bits}")
    bits = E.call("reinterpret", rounded, dtype=integer)
    # As sign and magnitude: one less is nearer to zero, one more is farther away from it.
    inner = E.call("reinterpret", bits - E.const(1, integer), dtype=target)
    outer = E.call("reinterpret", bits + E.const(1, integer), dtype=target)
    below = (bits >> E.const(target.bits - 1, integer)).equal(E.const(0, integer))
    if mode == "rz":
        return E.select(E.call("abs", back) > E.call("abs", x), inner, rounded)
    if mode == "rd":
        return E.select(back > x, E.select(below, inner, outer), rounded)
    return E.select(back < x, E.select(below, outer, inner), rounded)


# -- float32 arithmetic with a rounding ------------------------------------------------------------
_IEEE = {
    "__fadd": ("ieee_add", 2), "__fsub": ("ieee_sub", 2), "__fmul": ("ieee_mul", 2),
    "__fdiv": ("ieee_fdiv", 2), "__frcp": ("ieee_frcp", 1), "__fsqrt": ("ieee_fsqrt", 1),
    "__frsqrt": ("ieee_frsqrt", 1), "__fmaf": ("ieee_fmaf", 3),
}  # fmt: skip


def _directed(name: str) -> Function | None:
    """``__fadd_rz`` and its like."""
    base, _, mode = name.rpartition("_")
    if base not in _IEEE or mode not in _TO_INTEGRAL:
        return None
    op, count = _IEEE[base]
    return _casting(_F32, Function(count, lambda *args: E.call(op, *args, rounding=mode)))


# -- the tables ------------------------------------------------------------------------------------
def _called(op: str, count: int = 1) -> Function:
    return Function(count, lambda *args: E.call(op, *args))


def _counted(op: str, bits: int) -> Function:
    """A function that counts in an integer of ``bits``, to which C converts the argument."""

    def count(x: E.Expr) -> E.Expr:
        fits = not x.dtype.is_integer or x.dtype.bits == bits
        return E.call(op, x if fits else E.cast(x, DType(f"int{bits}")))

    return Function(1, count)


def _binary(op: str) -> Function:
    return Function(2, lambda a, b: E.binary(op, a, b))


def _away(x: E.Expr) -> E.Expr:
    """``x`` to the nearest integral value, halves away from zero."""
    truncated = E.call("trunc", x)
    far = E.call("abs", x - truncated) >= E.const(0.5, x.dtype)
    return E.select(far, truncated + E.call("copysign", E.const(1.0, x.dtype), x), truncated)


def _saturated(x: E.Expr) -> E.Expr:
    """``x`` between 0 and 1; 0 for NaN."""
    return E.binary("min", E.binary("max", E.const(0.0, x.dtype), x), E.const(1.0, x.dtype))


def _positive(x: E.Expr) -> E.Expr:
    return E.call("fmax_nan", x, E.const(0.0, x.dtype))


_FLOATS: dict[str, Function] = {
    **{
        name: _called(name)
        for name in (
            "exp exp2 exp10 log log2 log10 log1p expm1 sqrt rsqrt tanh sin cos tan sinh cosh asin "
            "acos atan asinh acosh atanh erf floor ceil trunc nearbyint isnan isinf isfinite"
        ).split()
    },
    **{name: _called(name, 2) for name in "atan2 hypot fmod copysign pow nextafter ldexp".split()},
    "fabs": _called("abs"),
    "rint": _called("nearbyint"),
    "round": Function(1, _away),
    "fma": _called("fma", 3),
    "fmax": _binary("max"),
    "fmin": _binary("min"),
    "max": _binary("max"),
    "min": _binary("min"),
    "fdivide": _binary("div"),
    "__fdivide": _binary("div"),
    "__saturate": Function(1, _saturated),
    "__pow": _called("pow", 2),
    **{
        f"__{name}": _called(f"fast_{name}")
        for name in "exp exp10 log log2 log10 sin cos tan".split()
    },
}
"""Functions whose float32 form has an ``f`` behind its name."""

_HALVES: dict[str, Function] = {
    "hadd": _binary("add"), "hsub": _binary("sub"), "hmul": _binary("mul"),
    "hdiv": _binary("div"), "hmax": _binary("max"), "hmin": _binary("min"),
    "hneg": Function(1, lambda x: E.unary("neg", x)), "habs": _called("abs"),
    "hfma": _called("fma", 3), "hmax_nan": _called("fmax_nan", 2),
    "hmin_nan": _called("fmin_nan", 2), "hisnan": _called("isnan"), "hisinf": _called("isinf"),
    "hadd_sat": Function(2, lambda a, b: _saturated(a + b)),
    "hsub_sat": Function(2, lambda a, b: _saturated(a - b)),
    "hmul_sat": Function(2, lambda a, b: _saturated(a * b)),
    "hfma_sat": Function(3, lambda a, b, c: _saturated(E.call("fma", a, b, c))),
    "hfma_relu": Function(3, lambda a, b, c: _positive(E.call("fma", a, b, c))),
    "hrcp": Function(1, lambda x: E.binary("div", E.const(1.0, x.dtype), x)),
    "hrint": _called("nearbyint"),
    **{f"h{op}": _binary(op) for op in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{
        f"h{op}": _called(op)
        for op in (
            "exp exp2 exp10 log log2 log10 sqrt rsqrt sin cos tanh floor ceil trunc"
        ).split()
    },
}  # fmt: skip
"""Functions of float16, or of bfloat16 where an operand is one."""


def _lanes(*items: E.Expr) -> E.Expr:
    return E.Vector(items)


def _lane(x: E.Expr, number: int) -> E.Expr:
    return E.Lane(x, E.const(number))


def _both_lanes(make: Make) -> Make:
    """``make`` for both lanes of vectors."""
    return lambda *args: _lanes(*(make(*(_lane(x, k) for x in args)) for k in range(2)))


def _pairs(kind: DType, word: str, scalar_type: str) -> dict[str, Function]:
    """Functions of pairs: ``word`` is "half2" or "bfloat162", ``scalar_type`` its element."""

    def element(x: E.Expr) -> E.Expr:
        return E.cast(x, kind)

    def lanes_of(x: E.Expr) -> E.Expr:
        return E.Broadcast(element(x), 2)

    return {
        f"__float2{word}": Function(1, lanes_of),
        f"__{scalar_type}2{word}": Function(1, lanes_of),
        f"__floats2{word}": Function(2, lambda a, b: _lanes(element(a), element(b))),
        f"__halves2{word}": Function(2, lambda a, b: _lanes(element(a), element(b))),
        f"__float22{word}": Function(1, _both_lanes(element)),
        f"__{word}2float2": Function(1, _both_lanes(lambda x: E.cast(x, _F32))),
        f"__low2{scalar_type}": Function(1, lambda x: _lane(x, 0)),
        f"__high2{scalar_type}": Function(1, lambda x: _lane(x, 1)),
        f"__low2{word}": Function(1, lambda x: E.Broadcast(_lane(x, 0), 2)),
        f"__high2{word}": Function(1, lambda x: E.Broadcast(_lane(x, 1), 2)),
    }


_PAIRS: dict[str, Function] = {
    **_pairs(_F16, "half2", "half"),
    **_pairs(_BF16, "bfloat162", "bfloat16"),
    "__half22float2": Function(1, _both_lanes(lambda x: E.cast(x, _F32))),
    "__low2float": Function(1, lambda x: E.cast(_lane(x, 0), _F32)),
    "__high2float": Function(1, lambda x: E.cast(_lane(x, 1), _F32)),
    "__lowhigh2highlow": Function(1, lambda x: _lanes(_lane(x, 1), _lane(x, 0))),
    "__lows2half2": Function(2, lambda a, b: _lanes(_lane(a, 0), _lane(b, 0))),
    "__highs2half2": Function(2, lambda a, b: _lanes(_lane(a, 1), _lane(b, 1))),
    "__hadd2": _called("add2", 2), "__hsub2": _called("sub2", 2), "__hmul2": _called("mul2", 2),
    "__hmax2": _called("max2", 2), "__hmin2": _called("min2", 2), "__hfma2": _called("fma2", 3),
    "__habs2": _called("abs2"), "__hneg2": Function(1, _both_lanes(lambda x: E.unary("neg", x))),
    "__h2div": Function(2, _both_lanes(lambda a, b: E.binary("div", a, b))),
    **{
        f"h2{op}": Function(1, _both_lanes(_called(op).make))
        for op in (
            "exp exp2 exp10 log log2 log10 sqrt rsqrt sin cos tanh floor ceil trunc"
        ).split()
    },
    "h2rcp": Function(1, _both_lanes(lambda x: E.binary("div", E.const(1.0, x.dtype), x))),
}  # fmt: skip
"""Functions of vectors of two halves."""


def _bits(source: str, target: str) -> Function:
    to = DType(target)
    return _casting(DType(source), Function(1, lambda x: E.call("reinterpret", x, dtype=to)))


def _high(kind: str) -> Function:
    """The upper half of a product."""
    narrow, wide = DType(f"{kind}32"), DType(f"{kind}64")

    def make(a: E.Expr, b: E.Expr) -> E.Expr:
        product = E.cast(E.cast(a, narrow), wide) * E.cast(E.cast(b, narrow), wide)
        return E.cast(product >> E.const(32, wide), narrow)

    return Function(2, make)


def _funnel(left: bool, limit: int) -> Function:
    """32 bits of the word (high, low) after a shift by at most ``limit``: 31 wraps, 32 clamps."""
    word = DType("uint64")

    def make(low: E.Expr, high: E.Expr, count: E.Expr) -> E.Expr:
        low, high = (E.cast(E.cast(x, _U32), word) for x in (low, high))
        count = E.cast(count, _U32)
        steps = count & 31 if limit == 31 else E.binary("min", count, E.const(32, _U32))
        joined = high << E.const(32, word) | low
        if left:
            return E.cast((joined << E.cast(steps, word)) >> E.const(32, word), _U32)
        return E.cast(joined >> E.cast(steps, word), _U32)

    return Function(3, make)


def _reversed_bits(x: E.Expr) -> E.Expr:
    for step, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        by, selected = E.const(step, _U32), E.const(mask, _U32)
        x = (x >> by & selected) | ((x & selected) << by)
    return E.as_expr(x >> E.const(16, _U32) | x << E.const(16, _U32))


def _warp(op: str, *kinds: str) -> Function:
    """An exchange between lanes; CUDA's functions have the mask in front."""

    def make(mask: E.Expr, *args: E.Expr) -> E.Expr:
        own = [E.cast(x, DType(kind)) if kind else x for x, kind in zip(args, kinds)]
        return E.call(op, *own, E.cast(mask, _U32))

    return Function(1 + len(kinds), make)


def _shuffle(op: str) -> Make:
    def make(mask: E.Expr, value: E.Expr, lane: E.Expr, width: E.Expr = _WARP) -> E.Expr:
        return E.call(op, value, E.cast(lane, _I32), width, E.cast(mask, _U32))

    return make


def _reduced(op: str, warp_op: str = "") -> Function:
    """A reduction over the lanes of a mask; ``warp_op`` reduces a whole warp."""

    def make(mask: E.Expr, value: E.Expr) -> E.Expr:
        mask = E.cast(mask, _U32)
        known = int(mask.value) if isinstance(mask, E.Const) else None
        if known == 0xFFFFFFFF and warp_op:
            return E.call(warp_op, value)
        first = E.call("ffs", mask) - 1
        total = None
        for lane in range(32):
            if known is not None and not known >> lane & 1:
                continue
            # An inactive lane contributes the first lane's value again, or the identity.
            in_mask = E.binary("ne", mask >> E.const(lane, _U32) & E.const(1, _U32), 0)
            source = E.const(lane, _I32) if known is not None else E.select(in_mask, lane, first)
            lane_value = E.call("shfl_sync", value, source, _WARP, mask)
            if known is None and op in ("add", "bitxor"):
                lane_value = E.select(in_mask, lane_value, E.const(0, value.dtype))
            total = lane_value if total is None else E.binary(op, total, lane_value)
        return value if total is None else total

    return Function(2, make)


def _low_bits(kind: DType, word: DType) -> Function:
    """The product of the lower 24 bits."""

    def low(x: E.Expr) -> E.Expr:
        by = E.const(8, kind)
        return E.cast((E.cast(x, kind) << by) >> by, word)

    return Function(2, lambda a, b: E.cast(low(a) * low(b), kind))


def _picked_bytes(low: E.Expr, high: E.Expr, chosen: E.Expr) -> E.Expr:
    """Four of eight bytes, each named by three bits of ``chosen``."""
    word = DType("uint64")
    low, high, chosen = (E.cast(E.cast(x, _U32), word) for x in (low, high, chosen))
    joined, picked = high << E.const(32, word) | low, E.as_expr(E.const(0, word))
    for at in range(4):
        by = (chosen >> E.const(4 * at, word) & E.const(7, word)) * E.const(8, word)
        picked |= (joined >> by & E.const(255, word)) << E.const(8 * at, word)
    return E.cast(picked, _U32)


_PLAIN: dict[str, Function] = {
    "__brev": _casting(_U32, Function(1, _reversed_bits)),
    **{
        f"__funnelshift_{way}{end}": _funnel(way == "l", limit)
        for way in "lr"
        for end, limit in (("", 31), ("c", 32))
    },
    "__activemask": Function(0, lambda: E.call("activemask")),
    "__any_sync": _warp("any_sync", ""), "__all_sync": _warp("all_sync", ""),
    "__ballot_sync": _warp("ballot_sync", ""), "__match_any_sync": _warp("match_any_sync", ""),
    **{
        f"__shfl{way}_sync": Function(4, _shuffle(op), optional=1)
        for way, op in _SHUFFLES.items()
    },
    "__syncwarp": Function(1, lambda *mask: E.call("sync_warp", *mask), optional=1),
    "__reduce_add_sync": _reduced("add", "warp_reduce_sum"),
    "__reduce_min_sync": _reduced("min", "warp_reduce_min"),
    "__reduce_max_sync": _reduced("max", "warp_reduce_max"),
    "__reduce_and_sync": _reduced("bitand", "warp_reduce_bitand"),
    "__reduce_or_sync": _reduced("bitor", "warp_reduce_bitor"),
    "__reduce_xor_sync": _reduced("bitxor"),
    "__byte_perm": Function(3, _picked_bytes),
    "__mul24": _low_bits(_I32, DType("int64")), "__umul24": _low_bits(_U32, DType("uint64")),
    "__popc": _counted("popcount", 32), "__popcll": _counted("popcount", 64),
    "__clz": _counted("clz", 32), "__clzll": _counted("clz", 64),
    "__ffs": _counted("ffs", 32), "__ffsll": _counted("ffs", 64),
    "__mulhi": _high("int"), "__umulhi": _high("uint"),
    "abs": _called("abs"), "labs": _called("abs"), "llabs": _called("abs"),
    "__float_as_int": _bits("float32", "int32"), "__int_as_float": _bits("int32", "float32"),
    "__float_as_uint": _bits("float32", "uint32"), "__uint_as_float": _bits("uint32", "float32"),
    "__double_as_longlong": _bits("float64", "int64"),
    "__longlong_as_double": _bits("int64", "float64"),
    **{
        name: function
        for kind in ("half", "bfloat16")
        for word in ("short", "ushort")
        for integer in ("int16" if word == "short" else "uint16",)
        for name, function in (
            (f"__{kind}_as_{word}", _bits(_KINDS[kind], integer)),
            (f"__{word}_as_{kind}", _bits(integer, _KINDS[kind])),
        )
    },
    "lrintf": _casting(_F32, Function(1, lambda x: E.cast(E.call("nearbyint", x), DType("int64")))),
    "lroundf": _casting(_F32, Function(1, lambda x: E.cast(_away(x), DType("int64")))),
    "rintf": _casting(_F32, _called("nearbyint")),
}  # fmt: skip

_LOADS = ("__ldg", "__ldca", "__ldcg", "__ldcs", "__ldcv", "__ldlu")

# Functions that give a second result through their last operand, a pointer: the first result from
# the other operands, and the second from the first.
STORING: dict[str, tuple[Function, Make]] = {
    "__match_all_sync": (_warp("match_all_sync", ""), lambda mask: E.binary("ne", mask, 0))
}
