"""Functions of numpy and torch on values of a kernel: refused with the function of the language.

A ufunc on an object it does not know ends in an error about its loops that names no place of the
program, and some functions quietly return the object. Expressions, buffers and regions answer the
protocols by which both packages ask an operand to take over. Operators of numpy scalars stay what
they are: ``np.float32(2) * A[i]`` is ``2.0 * A[i]``.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from opcode import opmap
from types import FrameType
from typing import Any, ClassVar, NoReturn

from tilelang.errors import TileTypeError, shown
from tilelang.ir.trace_context import active
from tilelang.tracebacks import number

# ufunc -> the operator of Python that means the same.
_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul,
    "divide": operator.truediv, "true_divide": operator.truediv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "power": operator.pow,
    "left_shift": operator.lshift, "right_shift": operator.rshift,
    "bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor,
    "less": operator.lt, "less_equal": operator.le, "greater": operator.gt,
    "greater_equal": operator.ge, "equal": operator.eq, "not_equal": operator.ne,
}  # fmt: skip
_SAME = (
    "exp exp2 log log2 log10 log1p sqrt rsqrt sin cos tan sinh cosh tanh floor ceil trunc round "
    "isnan isinf isfinite abs fmod hypot copysign ldexp nextafter sigmoid atan2 erf"
).split()
_LOOP = "a loop `for i in T.Parallel(n)` over the elements"
# Function of numpy or torch -> what a kernel has for it.
INSTEAD: dict[str, str] = {
    **{name: f"T.{name}(x)" for name in _SAME},
    "absolute": "T.abs(x)", "fabs": "T.abs(x)", "arcsin": "T.asin(x)", "arccos": "T.acos(x)",
    "arctan": "T.atan(x)", "arctan2": "T.atan2(y, x)", "arcsinh": "T.asinh(x)",
    "arccosh": "T.acosh(x)", "arctanh": "T.atanh(x)", "rint": "T.nearbyint(x)",
    "pow": "T.pow(x, y)", "float_power": "T.pow(x, y)", "maximum": "T.max(x, y)",
    "minimum": "T.min(x, y)", "fmax": "T.max(x, y)", "fmin": "T.min(x, y)",
    "clip": "T.clamp(x, low, high)", "clamp": "T.clamp(x, low, high)", "relu": "T.max(x, 0)",
    "where": "T.if_then_else(cond, x, y)", "logical_and": "T.And(x, y)",
    "logical_or": "T.Or(x, y)", "logical_not": "T.Not(x)", "negative": "-x", "invert": "~x",
    "square": "x * x", "reciprocal": "1 / x",
    "sum": "T.reduce_sum(tile, result, dim=...)", "max": "T.reduce_max(tile, result, dim=...)",
    "amax": "T.reduce_max(tile, result, dim=...)", "min": "T.reduce_min(tile, result, dim=...)",
    "amin": "T.reduce_min(tile, result, dim=...)",
    "argmax": "T.reduce_max, and T.reduce_min of T.if_then_else(x[i, j] == top[i], j, n)",
    "argmin": "T.reduce_min, and T.reduce_min of T.if_then_else(x[i, j] == low[i], j, n)",
    "cumsum": "T.cumsum(tile, dim=...)",
    "dot": "T.gemm(A, B, C)", "matmul": "T.gemm(A, B, C)", "mm": "T.gemm(A, B, C)",
    "transpose": "T.transpose(src, dst)", "reshape": "T.reshape(tile, shape)",
    "size": "the product of the extents in `shape`", "T": "T.transpose(src, dst)",
    "mean": "T.reduce_sum(tile, result, dim=...), and divide by the number of elements",
    "to": "T.cast(x, dtype), or T.copy into a tile of the dtype",
    "astype": "T.copy into a tile of the dtype",
    "float": "T.float32(x)", "half": "T.float16(x)", "item": "the value itself, without a call",
    "copy": "T.copy(src, dst)", "copyto": "T.copy(src, dst)", "fill": "T.fill(tile, x)",
    "flatten": "T.reshape(tile, (n,))", "ravel": "T.reshape(tile, (n,))",
    "zeros_like": "T.clear(tile)", "full_like": "T.fill(tile, x)",
}  # fmt: skip

# Functions of ours that compare for a program, and those between it and this module.
_FOR_PROGRAMS = ("compare", "__array_ufunc__")
# From Python 3.12 on, those of lists, sets and dicts are part of the code around them.
_COMPREHENSIONS = ("<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>")
_BETWEEN = (*_FOR_PROGRAMS, "_elementwise", "__eq__", "__ne__", "is_same", "refuse_written")


class NoArray:
    """The protocols by which numpy and torch treat an operand that is none of theirs."""

    single: ClassVar[bool] = False  # whether it is one value, and no tile

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """``ufunc(*inputs)``: an operator, elementwise on an array of numpy, or an error.

        Raises:
            TileTypeError: any other function.
        """
        operator = _OPERATORS.get(ufunc.__name__)
        if operator is None or method != "__call__" or options:
            suffix = "" if method == "__call__" else f".{method}"
            name = "sum" if (ufunc.__name__, method) == ("add", "reduce") else ufunc.__name__
            _refuse("numpy", ufunc.__name__ + suffix, name)
        if any(
            getattr(element, "ndim", 0) for element in inputs if not isinstance(element, NoArray)
        ):
            return _elementwise(operator, inputs)
        return operator(*map(number, inputs))

    def __array_function__(self, function: Any, *_: object) -> NoReturn:
        """A function of numpy that is not a ufunc.

        Raises:
            TileTypeError: always.
        """
        _refuse("numpy", function.__name__, function.__name__)

    @classmethod
    def __torch_function__(cls, function: Any, *_: object) -> NoReturn:
        """A function of torch.

        Raises:
            TileTypeError: always.
        """
        _refuse("torch", function.__name__, function.__name__)

    def __matmul__(self, _: object) -> NoReturn:
        raise TileTypeError(
            "`@` is not defined on values of the kernel",
            hint="use T.gemm(A, B, C), which adds the product of two tiles to a third",
        )

    __rmatmul__ = __matmul__


def is_same(a: object, b: object, sign: str) -> bool:
    """Whether ``a is b``: the value of ``a == b`` where one of them is a whole tile.

    Raises:
        TileTypeError: a line of a program that is being traced says ``a == b``.
    """
    if a is not b and active() is not None:
        refuse_written(a, b, sign)
    return a is b


def _elementwise(work: Callable[..., Any], inputs: tuple[Any, ...]) -> Any:
    """An array of expressions: what a program that unrolls its weights computes with."""
    import numpy as np

    like = np.broadcast(*(np.empty(()) if isinstance(x, NoArray) else x for x in inputs))
    array = np.empty(like.shape, object)
    for index in np.ndindex(like.shape):
        picked = (
            x if isinstance(x, NoArray) else number(np.broadcast_to(x, like.shape)[index])
            for x in inputs
        )
        array[index] = work(*picked)
    return array


def _refuse(package: str, name: str, method: str) -> NoReturn:
    raise TileTypeError(
        f"{package}.{name} of a value of the kernel",
        expected="operations of the language, which compute when the kernel runs",
        hint=f"use {INSTEAD.get(method, _LOOP)}",
    )


def refuse_written(a: object, b: object, sign: str) -> None:
    """Refuse ``a == b`` of a whole tile where a line of the program that is traced says it.

    Raises:
        TileTypeError: it does.
    """
    if _has_elements(a) and _has_elements(b):
        if _is_written(sys._getframe(1), not (_is_number(a) or _is_number(b))):
            refuse(a, b, sign)


def refuse(a: object, b: object, sign: str) -> NoReturn:
    """Say how elements are compared instead of ``a`` and ``b``.

    Raises:
        TileTypeError: always.
    """
    sides = [_element(side) for side in (a, b)]
    hint = f"compare elements in a loop of T.Parallel, `{sides[0]} {sign} {sides[1]}`"
    if isinstance(a, NoArray) and isinstance(b, NoArray) and not (_is_number(a) or _is_number(b)):
        hint += "; `is` tells whether two names are one tile"
    elif not all(isinstance(side, NoArray) or _is_number(side) for side in (a, b)):
        hint = "pass the numbers as a tensor, and compare elements in a loop of T.Parallel"
    raise TileTypeError(
        f"a whole tile is compared with `{sign}`",
        expected="an element on each side",
        got=f"`{shown(a)} {sign} {shown(b)}`",
        hint=hint,
    )


def _element(side: object) -> str:
    buffer: Any = getattr(side, "buffer", side)
    ndim = 0 if _is_number(side) or not isinstance(side, NoArray) else buffer.ndim
    return shown(side) if not ndim else f"{buffer.name}[{', '.join('ijklmn'[:ndim])}]"


def _is_number(value: object) -> bool:
    single = value.single if isinstance(value, NoArray) else isinstance(value, (int, float))
    return single or getattr(value, "ndim", None) == 0


def _has_elements(value: object) -> bool:
    """Whether comparing means numbers. A text or None only distinguishes a tile from something
    else."""
    return isinstance(value, (NoArray, list, tuple)) or _is_number(value) or hasattr(value, "ndim")


def _is_written(frame: FrameType | None, in_kernel: bool) -> bool:
    """Whether a program has the comparison; ``in_kernel`` where helpers may ask for identity."""
    is_array = False
    while frame is not None:
        code = frame.f_code
        if (frame.f_globals.get("__name__") or "").partition(".")[0] != "tilelang":
            # Lists and dicts compare, too, where they look for an item.
            written = is_array or code.co_code[frame.f_lasti] == opmap["COMPARE_OP"]
            if code.co_name in _COMPREHENSIONS:
                is_array, frame = written, frame.f_back
                continue
            names = code.co_varnames + code.co_cellvars + code.co_freevars
            return written and (not in_kernel or "__tl" in names)
        if code.co_name not in _BETWEEN:
            return False
        is_array = is_array or code.co_name in _FOR_PROGRAMS
        frame = frame.f_back
    return False
