"""Elementwise functions of scalar expressions.

A float operand of a float function keeps its dtype; integers become float32. Constants are not
folded, because the last bits of a result depend on the target.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.errors import TileTypeError, TileUnsupportedError, TileValueError
from tilelang.frontend.regions import check_options, describe, scalar
from tilelang.ir import expr as ir
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Const, Expr, as_expr, binary, call, select
from tilelang.language.constants import are_plain_ints, named
from tilelang.tracebacks import borders

__all__ = [
    "Cast", "Select", "abs", "abs2", "acos", "acosh", "add2", "asin", "asinh", "atan", "atan2",
    "atanh", "cast", "ceil", "clamp", "copysign", "cos", "cosh", "erf", "exp", "exp2", "exp10",
    "expm1", "fabs", "fast_rcp", "floor", "fma", "fma2", "fmod", "hypot", "ieee_add", "ieee_fdiv",
    "ieee_fmaf", "ieee_frcp", "ieee_frsqrt", "ieee_fsqrt", "ieee_mul", "ieee_sub", "if_then_else",
    "isfinite", "isinf", "isnan", "ldexp", "likely", "log", "log1p", "log2", "log10", "max",
    "max2", "min", "min2", "mul2", "nearbyint", "nextafter", "pow", "round", "rsqrt", "sigmoid",
    "sin", "sinh", "sqrt", "sub2", "tan", "tanh", "trunc",
]  # fmt: skip

_ROUNDINGS = ("", "rn", "rz", "rp", "rm", "rs")
_MODES = ("rn", "rz", "ru", "rd")
_EXPANDED_POWERS = 64  # larger constant exponents are left to pow
_FLOAT = "a float expression, whose dtype the result has, or an integer, which becomes float32."
_LANES = "vectors of two lanes of one dtype, such as float16x2, which the result has, too."


def _unary(name: str, doc: str, operand: str = _FLOAT) -> Callable[..., Expr]:
    def function(x: object, *, span: object = None) -> Expr:
        return call(name, scalar(x, f"T.{name}"))

    return named(function, name, f"{doc}\n\nArgs:\n    x: {operand}")


def _binary(name: str, doc: str) -> Callable[..., Expr]:
    def function(x1: object, x2: object, *, span: object = None) -> Expr:
        return call(name, *_pair(name, x1, x2))

    return named(function, name, f"{doc}\n\nArgs:\n    x1, x2: scalar expressions or numbers.")


def _packed(name: str, doc: str) -> Callable[..., Expr]:
    def function(x1: object, x2: object, *, span: object = None) -> Expr:
        return call(name, *_pairs(name, x1, x2))

    return named(function, name, f"{doc}\n\nArgs:\n    x1, x2: {_LANES}")


def _pairs(name: str, *values: object) -> list[Expr]:
    """Vectors of two lanes, of one dtype."""
    exprs = [scalar(value, f"T.{name}") for value in values]
    if len({value.dtype for value in exprs}) > 1 or exprs[0].dtype.lanes != 2:
        raise TileTypeError(
            f"T.{name} takes vectors of two lanes",
            expected="operands of one dtype of two lanes, e.g. T.float16x2",
            got=", ".join(f"`{value!r}` of {value.dtype}" for value in exprs),
        )
    return exprs


def _pair(name: str, x: object, y: object) -> tuple[object, object]:
    """Two scalars; literals stay literals, so that they adopt the other's dtype."""
    op_name = f"T.{name}"
    a = x if isinstance(x, (bool, int, float)) else scalar(x, op_name)
    b = y if isinstance(y, (bool, int, float)) else scalar(y, op_name)
    return a, b


exp = _unary("exp", "Return e to the power x.")
exp2 = _unary("exp2", "Return 2 to the power x.")
exp10 = _unary("exp10", "Return 10 to the power x.")
expm1 = _unary("expm1", "Return exp(x) - 1, exact near 0.")
log = _unary("log", "Return the natural logarithm.")
log2 = _unary("log2", "Return the logarithm to base 2.")
log10 = _unary("log10", "Return the logarithm to base 10.")
log1p = _unary("log1p", "Return log(1 + x), exact near 0.")
sqrt = _unary("sqrt", "Return the square root.")
rsqrt = _unary("rsqrt", "Return 1 / sqrt(x).")
sigmoid = _unary("sigmoid", "Return 1 / (1 + exp(-x)).")
tanh = _unary("tanh", "Return the hyperbolic tangent.")
sin = _unary("sin", "Return the sine of an angle in radians.")
cos = _unary("cos", "Return the cosine of an angle in radians.")
tan = _unary("tan", "Return the tangent of an angle in radians.")
sinh = _unary("sinh", "Return the hyperbolic sine.")
cosh = _unary("cosh", "Return the hyperbolic cosine.")
asin = _unary("asin", "Return the inverse sine.")
acos = _unary("acos", "Return the inverse cosine.")
atan = _unary("atan", "Return the inverse tangent.")
asinh = _unary("asinh", "Return the inverse hyperbolic sine.")
acosh = _unary("acosh", "Return the inverse hyperbolic cosine.")
atanh = _unary("atanh", "Return the inverse hyperbolic tangent.")
erf = _unary("erf", "Return the error function.")
isnan = _unary("isnan", "Return whether x is not a number.", "a float expression.")
isinf = _unary("isinf", "Return whether x is infinite.", "a float expression.")
isfinite = _unary("isfinite", "Return whether x is a finite number.", "a float expression.")
likely = _unary("likely", "Return x, with the hint that it usually holds.", "a condition.")
fast_rcp = _unary("fast_rcp", "Approximate 1 / x.")
ieee_frsqrt = _unary("ieee_frsqrt", "Return 1 / sqrt(x), correctly rounded.")


def abs2(x: object, *, span: object = None) -> Expr:
    """Return the absolute values of the two lanes of a vector.

    Args:
        x: a vector of two lanes, such as float16x2; the result has this dtype.

    Raises:
        TileTypeError: no vector of two lanes.
    """
    return call("abs2", *_pairs("abs2", x))


__exp = _unary("fast_exp", "Approximate exp, fast.")
__exp10 = _unary("fast_exp10", "Approximate exp10, fast.")
__log = _unary("fast_log", "Approximate log, fast.")
__log2 = _unary("fast_log2", "Approximate log2, fast.")
__log10 = _unary("fast_log10", "Approximate log10, fast.")
__sin = _unary("fast_sin", "Approximate sin, fast.")
__cos = _unary("fast_cos", "Approximate cos, fast.")
__tan = _unary("fast_tan", "Approximate tan, fast.")

atan2 = _binary("atan2", "Return the angle of the point (x2, x1), in radians.")
hypot = _binary("hypot", "Return sqrt(x1 * x1 + x2 * x2) without overflow.")
fmod = _binary("fmod", "Return the remainder of x1 / x2 with the sign of x1.")
copysign = _binary("copysign", "Return the magnitude of x1 with the sign of x2.")
nextafter = _binary("nextafter", "Return the next float after x1 in the direction of x2.")
add2 = _packed("add2", "Add two vectors of two lanes.")
sub2 = _packed("sub2", "Subtract two vectors of two lanes.")
mul2 = _packed("mul2", "Multiply two vectors of two lanes.")
max2 = _packed("max2", "Return the larger values of two vectors of two lanes.")
min2 = _packed("min2", "Return the smaller values of two vectors of two lanes.")


def fma(x: object, y: object, z: object) -> Expr:
    """Return ``x * y + z``, rounded once.

    Args:
        x, y, z: scalars; the result has the dtype of a binary operation on all of them.

    Source: PTX ISA, "fma".
    """
    return call("fma", *_numbers("T.fma", x, y, z))


def fma2(x: object, y: object, z: object) -> Expr:
    """Return ``x * y + z`` of vectors of two lanes, rounded once.

    Args:
        x, y, z: vectors of two lanes of one dtype, such as float16x2; the result has this dtype.

    Raises:
        TileTypeError: other operands.

    Source: PTX ISA, "fma".
    """
    return call("fma2", *_pairs("fma2", x, y, z))


def _to_integral(name: str, x: object) -> Expr:
    value = scalar(x, f"T.{name}")
    return value if value.dtype.is_integer or value.dtype.is_bool else call(name, value)


def floor(x: object, *, span: object = None) -> Expr:
    """Return the largest integral value not above ``x``; integers stay.

    Args:
        x: a scalar. The result has its dtype: use ``T.cast`` for an integer.
    """
    return _to_integral("floor", x)


def ceil(x: object, *, span: object = None) -> Expr:
    """Return the smallest integral value not below ``x``; integers stay.

    Args:
        x: a scalar. The result has its dtype: use ``T.cast`` for an integer.
    """
    return _to_integral("ceil", x)


def trunc(x: object, *, span: object = None) -> Expr:
    """Return ``x`` without its fraction; integers stay.

    Args:
        x: a scalar. The result has its dtype: use ``T.cast`` for an integer.
    """
    return _to_integral("trunc", x)


def nearbyint(x: object, *, span: object = None) -> Expr:
    """Return the nearest integral value, ties to even; integers stay.

    Args:
        x: a scalar. The result has its dtype: use ``T.cast`` for an integer.
    """
    return _to_integral("nearbyint", x)


def round(x: object, rounding_mode: str = "ties-to-even", *, span: object = None) -> Expr:
    """Return the nearest integral value.

    Args:
        rounding_mode: ``"ties-to-even"`` or ``"ties-away-from-zero"``.

    Raises:
        TileValueError: another rounding mode.
    """
    if rounding_mode not in ("ties-to-even", "ties-away-from-zero"):
        raise TileValueError(
            "T.round with an unknown rounding mode",
            expected="'ties-to-even' or 'ties-away-from-zero'",
            got=repr(rounding_mode),
        )
    return _to_integral("nearbyint" if rounding_mode == "ties-to-even" else "round", x)


def abs(x: object, *, span: object = None) -> Expr:
    """Return the absolute value; unsigned values stay."""
    value = scalar(x, "T.abs")
    return value if value.dtype.is_uint or value.dtype.is_bool else call("abs", value)


def fabs(x: object, *, span: object = None) -> Expr:
    """Return the absolute value of a float; integers become float32."""
    value = scalar(x, "T.fabs")
    return call("abs", value if value.dtype.is_float else ir.cast(value, DType("float32")))


def ldexp(x1: object, x2: object, *, span: object = None) -> Expr:
    """Return ``x1`` times 2 to the power ``x2``, an integer."""
    value, power = scalar(x1, "T.ldexp"), scalar(x2, "T.ldexp")
    if not value.dtype.is_float:
        value = ir.cast(value, DType("float32"))
    return call("ldexp", value, ir.cast(power, DType("int32")))


def pow(x: object, y: object, *, span: object = None) -> Expr:
    """Return ``x`` to the power ``y``; a constant integer exponent becomes multiplications."""
    from tilelang.ir.operators import repeated

    power = y.value if isinstance(y, Const) and not y.dtype.is_float else y
    if isinstance(power, int) and not isinstance(power, bool):
        base = scalar(x, "T.pow")
        if 0 <= power <= _EXPANDED_POWERS:
            return repeated(base, power)
        if -_EXPANDED_POWERS <= power < 0 and base.dtype.is_float:
            return 1 / repeated(base, -power)
    return call("pow", *_pair("pow", x, y))


# -- comparisons and choices ---------------------------------------------------------------------
def _extreme(op: str, a: Any, b: Any) -> Any:
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        expr = binary(op, a, b)
        if are_plain_ints(a, b):
            return int(expr)
        return float(expr) if isinstance(expr, Const) else expr
    return binary(op, *_pair(op, a, b))


def max(a: Any, b: Any, *, span: object = None) -> Any:
    """Return the larger of two values; NaN is ignored. A Python number for Python numbers.

    Args:
        a, b: scalars; the result has the dtype of a binary operation on both. It is NaN only if
            both are.
    """
    return _extreme("max", a, b)


def min(a: Any, b: Any, *, span: object = None) -> Any:
    """Return the smaller of two values; NaN is ignored. A Python number for Python numbers.

    Args:
        a, b: scalars; the result has the dtype of a binary operation on both. It is NaN only if
            both are.
    """
    return _extreme("min", a, b)


def clamp(dst: Any, min_val: Any, max_val: Any) -> Any:
    """Limit ``dst`` to ``min_val`` ... ``max_val``; NaN stays NaN.

    Args:
        dst: a scalar; it is not changed, the limited value is returned.
        min_val, max_val: scalars, the bounds.
    """
    limited = min(max(dst, min_val), max_val)
    if not isinstance(limited, Expr) or not limited.dtype.is_float or isinstance(dst, (int, float)):
        return limited
    low, high = (as_expr(bound, limited.dtype) for bound in (min_val, max_val))
    return call("fmin_nan", call("fmax_nan", as_expr(dst, limited.dtype), low), high)


def _side(value: object, op_name: str) -> object:
    return value if isinstance(value, (bool, int, float)) else scalar(value, op_name)


def if_then_else(cond: object, t: object, f: object, *, span: object = None) -> Any:
    """Return ``t`` if ``cond`` else ``f``; the side not taken is not evaluated.

    Args:
        cond: a bool expression or number, where not 0 is true.
        t, f: scalars; the result has the dtype of a binary operation on both.

    Calls of intrinsics without a value are statements: ``T.if_then_else(leader,
    T.warpgroup_arrive(), T.evaluate(0))`` is an ``if``, and gives no value.
    """
    op_name = "T.if_then_else"
    if any(isinstance(side, Expr) and side.issued for side in (t, f)):
        from tilelang.language.control import branch

        return branch(cond, t, f)
    return select(_side(cond, op_name), _side(t, op_name), _side(f, op_name))


def Select(
    condition: object, true_value: object, false_value: object, *, span: object = None
) -> Expr:
    """Return ``true_value`` if ``condition`` holds, else ``false_value``; both are evaluated."""
    op = "T.Select"
    return select(_side(condition, op), _side(true_value, op), _side(false_value, op), lazy=False)


# -- conversions ---------------------------------------------------------------------------------
def cast(
    value: object, dtype: object, round: str = "", sat: bool = True, rbits: object = None, *,
    span: object = None,
) -> Expr:  # fmt: skip
    """Return ``value`` converted to ``dtype``.

    Args:
        value: a scalar or a vector.
        dtype: type of the result.
        round: ``""`` or ``"rn"`` (to nearest even), or ``"rs"`` (stochastic, with ``rbits``).
        sat: whether values beyond the range become the largest finite one (small floats).
        rbits: random bits for ``"rs"``.

    Raises:
        TileValueError: an unknown rounding, or ``rbits`` that does not fit it.
        TileTypeError: the dtype comes first.
        TileUnsupportedError: ``round`` is ``"rz"``, ``"rp"`` or ``"rm"``.
    """
    if isinstance(value, str):
        raise TileTypeError(
            "the first argument of T.cast is a dtype",
            expected="T.cast(value, dtype)",
            got=f"T.cast({value!r}, ...)",
            hint="T.Cast(dtype, value) takes them in the other order",
        )
    if round not in _ROUNDINGS:
        raise TileValueError(
            "T.cast with an unknown rounding",
            expected=", ".join(map(repr, _ROUNDINGS)),
            got=repr(round),
        )
    if (round == "rs") != (rbits is not None):
        raise TileValueError(
            "the random bits of T.cast do not fit its rounding",
            expected="rbits with round='rs', and only there",
            got=f"round={round!r}" + (" without rbits" if rbits is None else " with rbits"),
        )
    check_options(sat=sat)
    kind = DType(dtype)
    if round in ("rz", "rp", "rm"):
        raise TileUnsupportedError(
            f"T.cast with round={round!r}",
            expected="'', 'rn' or 'rs'",
            got=repr(round),
            hint="use T.trunc, T.floor or T.ceil before the conversion",
        )
    if round == "rs":
        bits = ir.cast(scalar(rbits, "T.cast", "rbits"), DType("uint32"))
        return ir.Cast(scalar(value, "T.cast"), kind, "rs", bool(sat), bits)
    plain = value if isinstance(value, (bool, int, float)) else scalar(value, "T.cast", "value")
    return ir.cast(plain, kind, "", bool(sat))


def Cast(dtype: object, value: object, *, span: object = None) -> Expr:
    """Return ``value`` converted to ``dtype``; note the order of the arguments."""
    return cast(value, dtype)


# -- IEEE arithmetic with a chosen rounding --------------------------------------------------------
def _numbers(op_name: str, *args: object) -> list[Any]:
    """Operands; literals take the dtype of the others."""
    plain = [x if isinstance(x, (bool, int, float)) else scalar(x, op_name) for x in args]
    return plain if len(plain) > 1 else [scalar(plain[0], op_name)]


def _ieee(name: str, rounding_mode: str, *args: object) -> Expr:
    if rounding_mode not in _MODES:
        raise TileValueError(
            f"T.{name} with an unknown rounding mode",
            expected=", ".join(map(repr, _MODES)),
            got=describe(rounding_mode),
        )
    return call(name, *_numbers(f"T.{name}", *args), rounding=rounding_mode)


def ieee_add(x: object, y: object, rounding_mode: str = "rn") -> Expr:
    """Return ``x + y``, rounded by ``rounding_mode``: "rn", "rz", "ru" or "rd".

    Raises:
        TileValueError: an unknown rounding mode.

    Source: PTX ISA, "add{.rnd}".
    """
    return _ieee("ieee_add", rounding_mode, x, y)


def ieee_sub(x: object, y: object, rounding_mode: str = "rn") -> Expr:
    """Return ``x - y``, rounded by ``rounding_mode``: "rn", "rz", "ru" or "rd".

    Raises:
        TileValueError: an unknown rounding mode.

    Source: PTX ISA, "sub{.rnd}".
    """
    return _ieee("ieee_sub", rounding_mode, x, y)


def ieee_mul(x: object, y: object, rounding_mode: str = "rn") -> Expr:
    """Return ``x * y``, rounded by ``rounding_mode``: "rn", "rz", "ru" or "rd".

    Raises:
        TileValueError: an unknown rounding mode.

    Source: PTX ISA, "mul{.rnd}".
    """
    return _ieee("ieee_mul", rounding_mode, x, y)


def ieee_fdiv(x: object, y: object, rounding_mode: str = "rn") -> Expr:
    """Return ``x / y``, rounded by ``rounding_mode``: "rn", "rz", "ru" or "rd".

    Raises:
        TileValueError: an unknown rounding mode.

    Source: PTX ISA, "div{.rnd}".
    """
    return _ieee("ieee_fdiv", rounding_mode, x, y)


def ieee_fmaf(x: object, y: object, z: object, rounding_mode: str = "rn") -> Expr:
    """Return ``x * y + z``, rounded once by ``rounding_mode``: "rn", "rz", "ru" or "rd".

    Raises:
        TileValueError: an unknown rounding mode.

    Source: PTX ISA, "fma{.rnd}".
    """
    return _ieee("ieee_fmaf", rounding_mode, x, y, z)


def ieee_frcp(x: object, rounding_mode: str = "rn") -> Expr:
    """Return ``1 / x``, rounded by ``rounding_mode``: "rn", "rz", "ru" or "rd".

    Raises:
        TileValueError: an unknown rounding mode.

    Source: PTX ISA, "rcp".
    """
    return _ieee("ieee_frcp", rounding_mode, x)


def ieee_fsqrt(x: object, rounding_mode: str = "rn") -> Expr:
    """Return the square root of ``x``, rounded by ``rounding_mode``: "rn", "rz", "ru" or "rd".

    Raises:
        TileValueError: an unknown rounding mode.

    Source: PTX ISA, "sqrt".
    """
    return _ieee("ieee_fsqrt", rounding_mode, x)


borders(globals(), __all__)
