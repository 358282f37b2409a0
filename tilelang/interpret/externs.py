"""``T.call_extern``: the few C and CUDA functions that are pure and known by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from tilelang.errors import TileUnsupportedError
from tilelang.interpret import values
from tilelang.interpret.elementwise import ELEMENTWISE
from tilelang.interpret.lanes import Active
from tilelang.interpret.values import Value
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import AddressOf, Call, StringImm

if TYPE_CHECKING:
    from tilelang.interpret.machine import Strand

# C name -> intrinsic that computes it on float32 (or float64) operands
_SAME: dict[str, str] = {
    **{
        name: name
        for name in [
            "exp",
            "exp2",
            "exp10",
            "log",
            "log2",
            "log10",
            "log1p",
            "expm1",
            "sqrt",
            "rsqrt",
            "tanh",
            "sin",
            "cos",
            "tan",
            "sinh",
            "cosh",
            "asin",
            "acos",
            "atan",
            "asinh",
            "acosh",
            "atanh",
            "atan2",
            "hypot",
            "erf",
            "floor",
            "ceil",
            "trunc",
            "nearbyint",
            "round",
            "pow",
            "fmod",
            "copysign",
            "ldexp",
            "fma",
            "nextafter",
        ]
    },
    "fabs": "abs",
    "rint": "nearbyint",
    "__expf": "exp",
    "__exp10f": "exp10",
    "__logf": "log",
    "__log2f": "log2",
    "__log10f": "log10",
    "__sinf": "sin",
    "__cosf": "cos",
    "__tanf": "tan",
    "__powf": "pow",
    "__frcp_rn": "ieee_frcp",
    "__fsqrt_rn": "ieee_fsqrt",
    "__frsqrt_rn": "ieee_frsqrt",
    "__fadd_rn": "ieee_add",
    "__fmul_rn": "ieee_mul",
    "__fdiv_rn": "ieee_fdiv",
    "__fmaf_rn": "ieee_fmaf",
    "isnan": "isnan",
    "isinf": "isinf",
    "isfinite": "isfinite",
    "__popc": "popcount",
    "__popcll": "popcount",
    "__clz": "clz",
    "__clzll": "clz",
    "__ffs": "ffs",
    "__ffsll": "ffs",
}
_BITS: dict[str, str] = {
    "__float_as_int": "int32",
    "__float_as_uint": "uint32",
    "__int_as_float": "float32",
    "__uint_as_float": "float32",
    "__double_as_longlong": "int64",
    "__longlong_as_double": "float64",
    "__half_as_ushort": "uint16",
    "__ushort_as_half": "float16",
}
_PAIRS: dict[str, str] = {"fmax": "max", "fmin": "min", "max": "max", "min": "min"}
_CASTS: dict[str, tuple[str, bool]] = {  # result, whether it rounds to nearest first
    "__half2float": ("float32", False),
    "__float2half": ("float16", False),
    "__float2half_rn": ("float16", False),
    "__bfloat162float": ("float32", False),
    "__float2bfloat16": ("bfloat16", False),
    "__float2bfloat16_rn": ("bfloat16", False),
    "__float2int_rn": ("int32", True),
    "__float2int_rz": ("int32", False),
    "__int2float_rn": ("float32", False),
}


def call(s: Strand, node: Call, active: Active) -> Value:
    """The value of an external function, or an error that names it."""
    args = list(node.args)
    name = str(node.attr("name", node.attr("func", "")))
    if args and isinstance(args[0], StringImm):
        name = args[0].value
        args = args[1:]
    function = _find(name)
    if name == "__ldg" and len(args) == 1 and isinstance(args[0], AddressOf):
        return s.load(args[0].buffer, args[0].indices, active)
    if function is None:
        raise TileUnsupportedError(
            f"the external function `{name}` is not known to the interpreter",
            expected="a standard mathematical C or CUDA function",
            got=f"{name}({', '.join(repr(arg) for arg in args)})",
            hint="write it with T.* operations, or compile for a target that has the function",
        )
    found = function([s.eval(arg, active) for arg in args], [arg.dtype for arg in args])
    held = values.compute_dtype(node.dtype) if node.dtype != "handle" else None
    return found if held is None else np.asarray(found).astype(held)[()]


def _find(name: str) -> Callable[[list[Value], list[DType]], Value] | None:
    if name in _BITS:
        kind = DType(_BITS[name])
        return lambda args, kinds: values.reinterpret(args[0], kinds[0], kind)
    if name in _CASTS:
        target, nearest = _CASTS[name]

        def convert(args: list[Value], kinds: list[DType]) -> Value:
            value = np.rint(args[0]) if nearest else args[0]
            return values.convert(value, kinds[0], DType(target))

        return convert
    short = name[:-1] if name.endswith("f") and name not in _SAME else name
    if short in _PAIRS:
        return lambda args, kinds: values.binary(_PAIRS[short], args[0], args[1], kinds[0])
    if short in _SAME:
        function = ELEMENTWISE[_SAME[short]]
        return lambda args, kinds: function(args, kinds[0], {})
    return None
