"""The C-like expression printer, driven by tables.

Values of narrow floats (fp16, bf16, fp8 ...) are computed in float32 and rounded after every
operation; conversions happen at loads and stores. Integer arithmetic wraps (the source is compiled
with ``-fwrapv``). Indices are computed in 64 bits: loop and block variables are ``int64_t``.

A target overrides the tables and the hooks :meth:`load`, :meth:`address` and :meth:`call`.
"""

from __future__ import annotations

from typing import TypeAlias, cast

import numpy as np

from tilelang.codegen.names import Names
from tilelang.codegen.text import quote
from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer
from tilelang.ir.digits import joined
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.floats import encode
from tilelang.ir.indices import INDEX_OPS, is_widening
from tilelang.ir.tables import BINARY
from tilelang.target.features import lowest_with

PLAIN_TYPES = {
    "bool": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t",
    "int64": "int64_t", "uint8": "uint8_t", "uint16": "uint16_t", "uint32": "uint32_t",
    "uint64": "uint64_t", "float32": "float", "float64": "double", "tfloat32": "float",
    "handle": "char*", "void": "void",
}  # fmt: skip

_STORAGE_BYTES = {
    "uint8_t": 1, "int8_t": 1, "uint16_t": 2, "int16_t": 2, "int32_t": 4, "uint32_t": 4, "float": 4,
}  # fmt: skip
# dtype -> (storage type, suffix of the conversion functions tl_SUFFIX_to_f32, tl_f32_to_SUFFIX)
NARROW_FLOATS = {
    "float16": ("uint16_t", "f16"), "bfloat16": ("uint16_t", "bf16"),
    "float8_e4m3": ("uint8_t", "e4m3"), "float8_e4m3fn": ("uint8_t", "e4m3fn"),
    "float8_e4m3fnuz": ("uint8_t", "e4m3fnuz"), "float8_e4m3b11fnuz": ("uint8_t", "e4m3b11fnuz"),
    "float8_e3m4": ("uint8_t", "e3m4"), "float8_e5m2": ("uint8_t", "e5m2"),
    "float8_e5m2fnuz": ("uint8_t", "e5m2fnuz"), "float8_e8m0fnu": ("uint8_t", "e8m0fnu"),
    "float6_e2m3fn": ("uint8_t", "e2m3fn"), "float6_e3m2fn": ("uint8_t", "e3m2fn"),
    "float4_e2m1fn": ("uint8_t", "e2m1fn"), "float4_e2m1_unpacked": ("uint8_t", "e2m1fn"),
}  # fmt: skip

# Formats of one byte with an infinity. Conversions to them saturate, results of operations and
# what is only moved keep it: tl_result_SUFFIX rounds a result, tl_code_SUFFIX is the code of one.
WITH_INFINITY = frozenset(("float8_e3m4", "float8_e5m2"))

SUFFIX = {
    "bool": "i32", "int4": "i32", "uint4": "i32", "int8": "i32", "int16": "i32", "int32": "i32",
    "uint8": "i32", "uint16": "i32", "uint32": "u32", "int64": "i64", "uint64": "u64",
    "float32": "f32", "float64": "f64", "tfloat32": "f32",
}  # fmt: skip

# Intrinsics that are functions of the device header: tl_NAME_f32 / tl_NAME_f64.
MATH = frozenset(
    "exp exp2 exp10 log log2 log10 log1p expm1 sqrt rsqrt sigmoid tanh sin cos tan sinh cosh asin "
    "acos atan asinh acosh atanh erf floor ceil trunc nearbyint round atan2 hypot fmod copysign "
    "nextafter pow ldexp abs isnan isinf isfinite fmax_nan fmin_nan fma".split()
)
# Same meaning without the extra accuracy or the rounding control: the base function.
SAME_AS = {
    "fast_exp": "exp", "fast_exp10": "exp10", "fast_log": "log", "fast_log2": "log2",
    "fast_log10": "log10", "fast_sin": "sin", "fast_cos": "cos", "fast_tan": "tan",
    "ieee_fsqrt": "sqrt", "ieee_frsqrt": "rsqrt", "ieee_fmaf": "fma",
}  # fmt: skip
ARITHMETIC = {"ieee_add": "+", "ieee_sub": "-", "ieee_mul": "*", "ieee_fdiv": "/"}
_INT64 = 2**63 - 1


def storage_type(dtype: DType) -> str:
    """C type of one element in memory."""
    if dtype in PLAIN_TYPES:
        return PLAIN_TYPES[dtype]
    if dtype in NARROW_FLOATS:
        return NARROW_FLOATS[dtype][0]
    if dtype.bits < 8:
        return "uint8_t"  # two to a byte
    raise TileUnsupportedError(f"dtype {dtype} has no storage on this target")


def value_type(dtype: DType) -> str:
    """C type of a value in a register."""
    if dtype in NARROW_FLOATS:
        return "float"
    return "int32_t" if dtype.bits < 8 and dtype.is_integer else PLAIN_TYPES[dtype]


def is_packed(dtype: DType) -> bool:
    """Whether two elements share a byte."""
    return dtype.bits == 4 and dtype != "float4_e2m1_unpacked"


def bare(text: str) -> str:
    """``text`` without a pair of parentheses around all of it."""
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if depth == 0 and position < len(text) - 1:
            return text
    return text[1:-1]


def argument_of(function: str, text: str) -> str | None:
    """The argument, where ``text`` is one call of ``function``."""
    inner = text.removeprefix(function)
    stripped = bare(inner)
    return stripped if inner != text and stripped != inner else None


def term(text: str) -> str:
    """``text`` without outer parentheses where it is a sum, so that it can be an operand of a
    sum or comparison: C binds shifts, masks, comparisons and choices weaker than those."""
    inner = bare(text)
    return text if any(sign in inner for sign in "&|^<>?=") else inner


Steps: TypeAlias = "list[tuple[E.Expr, int | E.Expr]]"  # indices with their strides


def shift_of(expr: E.Expr) -> E.Expr | None:
    """The legal count by which a one is shifted; None for anything else."""
    unit = E.const(1, expr.dtype)
    return expr.b if isinstance(expr, E.Binary) and expr.op == "shl" and expr.a is unit else None


class CPrinter:
    """Prints expressions; ``names`` is shared with the statement printer."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.wide: set[E.Var] = set()  # variables declared int64_t whatever their dtype
        self.sizes: set[E.Var] = set()  # symbols of shapes and integer parameters
        self.at_least_zero: set[E.Var] = set()
        self.held: dict[E.Expr, E.Expr] = {}  # what names hold
        self.named = Bounds(names=cast("dict[E.Var, E.Expr]", self.held))
        self.sizes_of: dict[E.Var, int] = {}  # the largest absolute values of names and loops
        self.scalars: set[E.Var] = set()  # storage of one element kept in a C variable

    # -- values ------------------------------------------------------------------------------
    def value(self, expr: E.Expr) -> str:
        """``expr`` as a C expression of its value type, parenthesised where needed."""
        if expr.dtype.lanes > 1:
            raise TileUnsupportedError(
                f"the vector value `{expr!r}` of dtype {expr.dtype} cannot be printed here",
                hint="write the loop over the lanes with T.vectorized",
            )
        match expr:
            case E.Const():
                return self.literal(expr)
            case E.Var():
                name = self.names.of(expr, expr.name)
                narrow = expr in self.wide and expr.dtype != "int64"
                return f"({value_type(expr.dtype)}){name}" if narrow else name
            case E.Unary():
                return self.unary(expr)
            case E.Binary():
                return self.binary(expr)
            case E.Cast():
                return self.cast(expr)
            case E.Select():
                t, f = self.value(expr.t), self.value(expr.f)
                return f"({self.value(expr.cond)} ? {t} : {f})"
            case E.Load():
                return self.load(expr.buffer, expr.indices)
            case E.AddressOf():
                return self.address(expr.buffer, expr.indices)
            case E.Call():
                return self.call(expr)
            case E.StringImm():
                return quote(expr.value)
            case _:
                raise TileUnsupportedError(f"`{expr!r}` is not supported on this target")

    def literal(self, expr: E.Const) -> str:
        """A literal that reads back as exactly this value."""
        dtype, value = expr.dtype, expr.value
        if dtype.is_float:
            double = dtype == "float64"
            if value != value:
                return "NAN" if not double else "(double)NAN"
            if value in (float("inf"), float("-inf")):
                return "INFINITY" if value > 0 else "-INFINITY"
            text = repr(float(value)) if double else str(np.float32(value))
            if "." not in text and "e" not in text:
                text += ".0"
            text += "" if double else "f"
            return f"({text})" if text.startswith("-") else text
        value = int(value)
        if dtype == "int64":
            return f"INT64_C({value})" if value > -(2**63) else "INT64_MIN"
        if dtype == "uint64":
            return f"UINT64_C({value})"
        if dtype == "uint32":
            return f"{value}u"
        return str(value) if value >= 0 else "INT32_MIN" if value == -(2**31) else f"({value})"

    def rounded(self, dtype: DType, text: str) -> str:
        """``text``, a wider result, rounded to ``dtype``."""
        if dtype in NARROW_FLOATS:
            verb = "result" if dtype in WITH_INFINITY else "round"
            return f"tl_{verb}_{NARROW_FLOATS[dtype][1]}({text})"
        if dtype.is_integer and dtype.bits in (8, 16):
            return f"({PLAIN_TYPES[dtype]})({text})"
        if dtype == "int4":
            return f"tl_wrap_i4({text})"
        if dtype.is_integer and dtype.bits < 8:
            return f"(({text}) & {2**dtype.bits - 1})"
        return f"({text})"

    @staticmethod
    def converted(dtype: DType, text: str, saturate: bool = True) -> str:
        """``text``, a float, converted to the values of the narrow float ``dtype``; formats of one
        byte without infinity and NaN saturate always, those of two bytes never."""
        is_open = not saturate and dtype.bits <= 8 and dtype.float_format.has_nan
        return f"tl_{'open' if is_open else 'round'}_{NARROW_FLOATS[dtype][1]}({text})"

    @staticmethod
    def coded(dtype: DType, text: str) -> str:
        """The bits of ``text``, a value of the narrow float ``dtype``; rounded once where the text
        is a rounding."""
        kind = NARROW_FLOATS[dtype][1]
        converted = argument_of(f"tl_round_{kind}", text)
        if converted is not None or dtype not in WITH_INFINITY:
            return f"tl_f32_to_{kind}({text if converted is None else converted})"
        result = argument_of(f"tl_result_{kind}", text)
        return f"tl_code_{kind}({text if result is None else result})"

    def unary(self, expr: E.Unary) -> str:
        """Negation and complements."""
        inner = self.value(expr.a)
        if expr.op == "lnot":
            return f"(!{inner})"
        if expr.op == "bitnot":
            return self.rounded(expr.dtype, f"~{inner}")
        return self.rounded(expr.dtype, f"-{inner}") if not expr.dtype.is_float else f"(-{inner})"

    def binary(self, expr: E.Binary) -> str:
        """Arithmetic, comparison and logic."""
        op, dtype = expr.op, expr.a.dtype
        if op in ("floordiv", "floormod", "truncdiv", "truncmod"):
            return self.rounded(expr.dtype, self.division(expr, self.value))
        if BINARY[op].compares and self.is_index(expr.a) and self.is_index(expr.b):
            return f"({term(self.index(expr.a))} {BINARY[op].symbol} {term(self.index(expr.b))})"
        a, b = self.value(expr.a), self.value(expr.b)
        if op in ("min", "max"):
            return f"tl_{op}_{self.suffix(dtype)}({a}, {b})"
        symbol = {"land": "&&", "lor": "||"}.get(op, BINARY[op].symbol)
        if BINARY[op].compares or op in ("land", "lor"):
            return f"({a} {symbol} {b})"
        return self.rounded(expr.dtype, f"{a} {symbol} {b}")

    def suffix(self, dtype: DType) -> str:
        """Suffix of the header functions that compute in the value type of ``dtype``."""
        return "f32" if dtype in NARROW_FLOATS else SUFFIX[dtype]

    def division(self, expr: E.Binary, operand: object) -> str:
        """Floor and truncating division; cheap forms where the operands allow them."""
        a, b = operand(expr.a), operand(expr.b)  # type: ignore[operator]  # value or index
        divides, is_positive = expr.op.endswith("div"), self.is_positive(expr.b)
        plain = expr.op.startswith("trunc") or expr.dtype.is_uint or self.is_nonnegative(expr.a)
        shift = shift_of(self.held.get(expr.b, expr.b))
        floors = expr.op.startswith("floor") or self.is_nonnegative(expr.a)
        if is_positive and floors and shift is not None:
            return f"({a} >> {self.value(shift)})" if divides else f"({a} & ({b} - 1))"
        if is_positive and plain:
            return f"({a} {'/' if divides else '%'} {b})"
        if is_positive and isinstance(expr.b, E.Const):
            power = int(expr.b.value)
            if power & (power - 1) == 0:  # arithmetic shift and mask floor for negative a too
                return f"({a} >> {power.bit_length() - 1})" if divides else f"({a} & {power - 1})"
        suffix = "i64" if operand is not self.value and operand != self.value else ""
        return f"tl_{expr.op}_{suffix or self.suffix(expr.dtype)}({a}, {b})"

    def is_positive(self, divisor: E.Expr) -> bool:
        """Whether a divisor is provably > 0."""
        shift = shift_of(self.held.get(divisor, divisor))
        is_power = shift is not None and self.largest(shift) < divisor.dtype.bits - 1
        return is_power or (isinstance(divisor, E.Const) and int(divisor.value) > 0)

    def is_nonnegative(self, expr: E.Expr) -> bool:
        """Whether an index expression is provably >= 0 (without overflow)."""
        if isinstance(expr, E.Const):
            return expr.value >= 0
        if isinstance(expr, E.Var):
            return expr in self.at_least_zero or expr.dtype.is_uint
        if isinstance(expr, E.Cast):
            source, target = expr.value.dtype, expr.dtype
            if target.is_uint:
                return True
            # A truncated value, or an unsigned one of the same width, may be negative.
            room = target.bits - (source.bits + source.is_uint)
            return source.is_integer and room >= 0 and self.is_nonnegative(expr.value)
        if isinstance(expr, E.Binary):
            if expr.op in ("add", "mul") and self.largest(expr) > _INT64:
                return False
            if expr.op in ("add", "mul", "floordiv", "min", "max", "shr", "truncdiv"):
                return self.is_nonnegative(expr.a) and self.is_nonnegative(expr.b)
            if expr.op == "floormod":
                return self.is_nonnegative(expr.b)
        return False

    def largest(self, expr: E.Expr) -> int:
        """The largest absolute value that index arithmetic can have without wrapping, where sizes
        are of 31 bits; more than 64 bits hold for what is not known."""
        if isinstance(expr, E.Const):
            return abs(int(expr.value))
        if isinstance(expr, E.Var):
            return self.sizes_of.get(expr, 2**31 if expr.dtype.bits <= 32 else 2**48)
        if isinstance(expr, E.Cast):
            return self.largest(expr.value) if expr.value.dtype.is_integer else 2 * _INT64
        if not isinstance(expr, E.Binary):
            return 2**31 if expr.dtype.bits <= 32 else 2 * _INT64
        a, b = self.largest(expr.a), self.largest(expr.b)
        if expr.op in ("add", "sub"):
            bound = a + b
        elif expr.op == "mul":
            bound = a * b
        elif expr.op.endswith("mod"):
            bound = b
        elif expr.op in ("min", "max"):
            bound = max(a, b)
        else:
            bound = a if expr.op in ("floordiv", "truncdiv", "shr") else 2 * _INT64
        return min(bound, 2 * _INT64)

    def cast(self, expr: E.Cast) -> str:
        """Conversions: floats to integers truncate and saturate, to narrow floats round."""
        src, dst = expr.value.dtype, expr.dtype
        if self.is_index(expr):
            text = bare(self.index(expr))
            return f"({text})" if " " in text else text
        inner = self.value(expr.value)
        if dst.is_bool:
            return f"({inner} != 0)"
        if dst.is_float:
            if dst in NARROW_FLOATS:
                as_float = inner if src in NARROW_FLOATS or src == "float32" else f"(float){inner}"
                if dst == src:
                    return inner
                if src == "float64":
                    return self.converted(dst, f"tl_f64_to_f32_odd({inner})", expr.sat)
                return self.converted(dst, as_float, expr.sat)
            is_widening = src in NARROW_FLOATS and dst == "float32"
            return inner if is_widening else f"({value_type(dst)}){inner}"
        if src.is_float:
            return f"tl_{'f64' if src == 'float64' else 'f32'}_to_{self.int_name(dst)}({inner})"
        return self.rounded(dst, inner) if dst.bits < 32 else f"({value_type(dst)}){inner}"

    @staticmethod
    def int_name(dtype: DType) -> str:
        """ "i32", "u8" ... of an integer dtype."""
        return f"{'u' if dtype.is_uint else 'i'}{dtype.bits}"

    def is_index(self, expr: E.Expr) -> bool:
        """Whether ``expr`` is arithmetic on loop and block variables, sizes and constants.

        Such expressions are computed in 64 bits, in conditions and in addresses. Everything
        else (loaded values above all) keeps the wrapping arithmetic of its own dtype, so that a
        condition and the address it guards always agree.
        """
        if isinstance(expr, E.Binary):
            plain = expr.op in INDEX_OPS and expr.dtype.is_int
            return plain and self.is_index(expr.a) and self.is_index(expr.b)
        if isinstance(expr, E.Var):
            return self.counts(expr)
        if isinstance(expr, E.Cast):
            return is_widening(expr) and self.is_index(expr.value)
        return isinstance(expr, E.Const) and expr.dtype.is_int

    def counts(self, var: E.Var) -> bool:
        """Whether a variable is one of loops, blocks or sizes."""
        return var in self.wide or var in self.sizes

    # -- indices --------------------------------------------------------------------------------
    def index(self, expr: E.Expr | int) -> str:
        """An index expression computed in int64_t."""
        if isinstance(expr, int):
            return str(expr)
        if isinstance(expr, E.Const):
            return str(int(expr.value))
        if isinstance(expr, E.Var):
            if expr in self.wide:
                return self.names.of(expr, expr.name)
            return f"{'' if expr.dtype == 'int64' else '(int64_t)'}{self.value(expr)}"
        if isinstance(expr, E.Binary) and self.is_index(expr):
            if expr.op in ("add", "sub", "mul"):
                return self.index_sum(expr.op, self.index(expr.a), self.index(expr.b))
            if expr.op in ("floordiv", "floormod", "truncdiv", "truncmod"):
                return self.division(expr, self.index)
            if expr.op in ("min", "max"):
                return f"tl_{expr.op}_i64({self.index(expr.a)}, {self.index(expr.b)})"
        if isinstance(expr, E.Cast) and self.is_index(expr):
            return self.index(expr.value)
        return f"(int64_t){self.value(expr)}"

    @staticmethod
    def index_sum(op: str, a: str, b: str) -> str:
        """A sum or product of indices with as few parentheses as precedence allows."""
        if op == "mul":
            return f"{a} * {b}" if "(" not in a + b and " " not in a + b else f"({a} * {b})"
        return f"({term(a)} {'+' if op == 'add' else '-'} {b})"

    def steps(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> Steps:
        """Indices with their strides; digits of one number are one index."""
        strides = buffer.stride_list()
        if buffer.strides is not None:
            return list(zip(indices, strides))
        return [(i, strides[dim]) for dim, i in joined(buffer.shape, indices, self.named)]

    def flat_index(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> str:
        """Offset in elements of the element at ``indices``."""
        terms: list[str] = []
        for index, stride in self.steps(buffer, indices):
            if isinstance(index, E.Const) and index.value == 0:
                continue
            step, text = self.index(stride), self.index(index)
            terms.append(term(text) if step == "1" else f"{text} * {step}")
        if not (isinstance(buffer.elem_offset, int) and buffer.elem_offset == 0):
            terms.append(self.index(buffer.elem_offset))
        return " + ".join(terms) if terms else "0"

    # -- hooks -------------------------------------------------------------------------------------
    def load(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> str:
        """The value of one element."""
        return self.loaded(buffer.dtype, self.pointer(buffer), self.flat_index(buffer, indices))

    def loaded(self, dtype: DType, pointer: str, offset: str) -> str:
        """The value at ``pointer[offset]``."""
        if is_packed(dtype):
            kind = NARROW_FLOATS[dtype][1] if dtype in NARROW_FLOATS else self.int_name(dtype)
            return f"tl_load_{kind}({pointer}, {offset})"
        text = f"{pointer}[{offset}]"
        return self.of_bits(dtype, text) if dtype in NARROW_FLOATS else text

    @staticmethod
    def of_bits(dtype: DType, bits: str) -> str:
        """The value of a narrow float from its ``bits``."""
        return f"tl_{NARROW_FLOATS[dtype][1]}_to_f32({bits})"

    def stored(self, dtype: DType, pointer: str, offset: str, value: str) -> str:
        """The statement that stores ``value`` at ``pointer[offset]``."""
        if is_packed(dtype):
            kind = NARROW_FLOATS[dtype][1] if dtype in NARROW_FLOATS else self.int_name(dtype)
            inner = argument_of(f"tl_round_{kind}", value)
            return f"tl_store_{kind}({pointer}, {offset}, {value if inner is None else inner});"
        if dtype in NARROW_FLOATS:
            value = self.coded(dtype, value)
        return f"{pointer}[{offset}] = {value};"

    def bits(self, expr: E.Expr, dtype: DType) -> str | None:
        """The storage bits of a value that needs no conversion: a loaded value, a constant, or a
        choice between them; None for any other. A conversion would not keep the bits of a NaN."""
        if expr.dtype != dtype or dtype.lanes > 1:
            return None
        if isinstance(expr, E.Call) and expr.op == "reinterpret":
            source = expr.args[0].dtype
            is_same_size = source.is_uint and source.bits == dtype.bits
            if not is_same_size or storage_type(dtype) != storage_type(source):
                return None
            return bare(self.value(expr.args[0]))
        if dtype not in NARROW_FLOATS or is_packed(dtype):
            return None
        if isinstance(expr, E.Load) and expr.buffer.data not in self.scalars:
            return f"{self.pointer(expr.buffer)}[{self.flat_index(expr.buffer, expr.indices)}]"
        if isinstance(expr, E.Const) and dtype.bits in (8, 16) and expr.value == expr.value:
            return str(int(encode([expr.value], dtype, saturate=False)[0]))
        if isinstance(expr, E.Select):
            t, f = self.bits(expr.t, dtype), self.bits(expr.f, dtype)
            if t is not None and f is not None:
                return f"({self.value(expr.cond)} ? {t} : {f})"
        return None

    def pointer(self, buffer: Buffer) -> str:
        """The C pointer of a buffer."""
        return self.names.of(buffer.data, buffer.name)

    def address(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> str:
        """A pointer to one element."""
        return f"({self.pointer(buffer)} + ({self.flat_index(buffer, indices)}))"

    def call(self, expr: E.Call) -> str:
        """An intrinsic."""
        name = SAME_AS.get(expr.op, expr.op)
        if name in MATH:
            return self.math(name, expr)
        args = [self.value(arg) for arg in expr.args]
        if expr.op in ARITHMETIC:
            return self.rounded(expr.dtype, f"{args[0]} {ARITHMETIC[expr.op]} {args[1]}")
        if expr.atom.text == "rcp":
            unit = "1.0" if expr.dtype == "float64" else "1.0f"
            return self.rounded(expr.dtype, f"{unit} / {args[0]}")
        if expr.atom.identity:
            return args[0]
        if expr.atom.writer == "count bits":
            return f"tl_{expr.op}_{'64' if expr.args[0].dtype.bits == 64 else '32'}({args[0]})"
        return f"tl_fns({', '.join(args)})" if expr.op == "fns" else self.target_call(expr, args)

    def math(self, name: str, expr: E.Call) -> str:
        """A function of the header, computed in float or double."""
        args = ", ".join(self.value(arg) for arg in expr.args)
        dtype = expr.args[0].dtype
        text = f"tl_{name}_{self.suffix(dtype)}({args})"
        if expr.atom.exact and dtype.is_float and expr.dtype == dtype:
            return text
        narrow = expr.dtype.bits < 32 and not expr.dtype.is_bool
        return self.rounded(expr.dtype, text) if narrow or expr.dtype in NARROW_FLOATS else text

    def target_call(self, expr: E.Call, args: list[str]) -> str:
        """An intrinsic that only some targets have."""
        raise TileUnsupportedError(
            f"T.{expr.op} is not available on this target",
            expected=lowest_with(expr.atom.needs) or "a target with it",
        )


def unit_bytes(dtype: DType) -> int:
    """Bytes of one storage unit of `dtype`."""
    return _STORAGE_BYTES.get(storage_type(dtype), 8)
