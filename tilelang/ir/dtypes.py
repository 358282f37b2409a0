"""Data types: strings that know their size, their promotion and their torch and numpy twins.

A ``dtype`` is a ``str`` equal to its own name, so ``T.float16 == "float16"``, ``getattr(torch,
T.float16)`` and dictionary keys work, and one object exists per name, so ``is`` works as well.
Calling one builds an expression: ``T.float16(3)`` is a constant, ``T.int32(x)`` a cast,
``T.float32()`` a fresh variable.

Every fact about a type is one row of ``_KINDS`` or ``FORMATS`` below. ``float8_e4m3`` is what
CUDA calls e4m3: the finite format with maximum 448, the same values as ``float8_e4m3fn``.
Vector types append ``x2``, ``x4``, ... to a scalar name.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, final

import numpy as np

from tilelang import errors
from tilelang.records import dataclass
from tilelang.tracebacks import trim

if TYPE_CHECKING:
    from tilelang.ir.expr import Expr

VECTOR_LANES = (2, 4, 8, 16, 32, 64)  # the vector forms with names in the language
_MAX_LANES = 4096  # what the IR may build; more is certainly a mistake


@dataclass(frozen=True)
class FloatFormat:
    """Bit layout of a floating-point format, sign bit first.

    ``specials`` says what the largest codes mean:
    ``ieee`` top exponent is infinity and NaN; ``fn`` no infinity, only all ones is NaN;
    ``fnuz`` no infinity, no negative zero, the code of -0 is NaN; ``finite`` numbers only;
    ``scale`` unsigned power of two (e8m0), all ones is NaN, no zero.
    """

    exponent: int
    mantissa: int
    bias: int
    specials: str

    @property
    def has_inf(self) -> bool:
        return self.specials == "ieee"

    @property
    def has_nan(self) -> bool:
        return self.specials != "finite"

    @property
    def max_code(self) -> int:
        """Code of the largest finite value."""
        top = (1 << (self.exponent + self.mantissa)) - 1
        if self.specials == "ieee":
            return top - (1 << self.mantissa)
        return top - 1 if self.specials in ("fn", "scale") else top

    @property
    def max(self) -> float:
        """Largest finite value, exact for every format up to float64."""
        exponent, fraction = divmod(self.max_code, 1 << self.mantissa)
        return (1.0 + fraction / (1 << self.mantissa)) * 2.0 ** (exponent - self.bias)

    @property
    def min(self) -> float:
        """Lowest value: ``-max``, or the smallest power of two of the unsigned scale format."""
        return 2.0**-self.bias if self.specials == "scale" else -self.max


FORMATS: dict[str, FloatFormat] = {
    "float64": FloatFormat(11, 52, 1023, "ieee"),
    "float32": FloatFormat(8, 23, 127, "ieee"),
    "tfloat32": FloatFormat(8, 10, 127, "ieee"),
    "float16": FloatFormat(5, 10, 15, "ieee"),
    "bfloat16": FloatFormat(8, 7, 127, "ieee"),
    "float8_e3m4": FloatFormat(3, 4, 3, "ieee"),
    "float8_e4m3": FloatFormat(4, 3, 7, "fn"),
    "float8_e4m3b11fnuz": FloatFormat(4, 3, 11, "fnuz"),
    "float8_e4m3fn": FloatFormat(4, 3, 7, "fn"),
    "float8_e4m3fnuz": FloatFormat(4, 3, 8, "fnuz"),
    "float8_e5m2": FloatFormat(5, 2, 15, "ieee"),
    "float8_e5m2fnuz": FloatFormat(5, 2, 16, "fnuz"),
    "float8_e8m0fnu": FloatFormat(8, 0, 127, "scale"),
    "float6_e2m3fn": FloatFormat(2, 3, 1, "finite"),
    "float6_e3m2fn": FloatFormat(3, 2, 3, "finite"),
    "float4_e2m1fn": FloatFormat(2, 1, 1, "finite"),
    "float4_e2m1_unpacked": FloatFormat(2, 1, 1, "finite"),
}


@dataclass(frozen=True)
class _Kind:
    """The properties of a scalar type. ``storage`` names the numpy type that holds its bits."""

    code: str
    bits: int
    family: str  # bool, int, uint, float, handle, void
    storage: str
    packing: int = 1  # elements per storage unit
    torch: str = ""  # name in torch, where it differs from the storage


_KINDS: dict[str, _Kind] = {
    "bool": _Kind("bool", 8, "bool", "bool"),
    "int4": _Kind("int", 4, "int", "int8", packing=2),
    "int8": _Kind("int", 8, "int", "int8"),
    "int16": _Kind("int", 16, "int", "int16"),
    "int32": _Kind("int", 32, "int", "int32"),
    "int64": _Kind("int", 64, "int", "int64"),
    "uint4": _Kind("uint", 4, "uint", "uint8", packing=2),
    "uint8": _Kind("uint", 8, "uint", "uint8"),
    "uint16": _Kind("uint", 16, "uint", "uint16"),
    "uint32": _Kind("uint", 32, "uint", "uint32"),
    "uint64": _Kind("uint", 64, "uint", "uint64"),
    "float16": _Kind("float", 16, "float", "float16"),
    "float32": _Kind("float", 32, "float", "float32"),
    "float64": _Kind("float", 64, "float", "float64"),
    "bfloat16": _Kind("bfloat", 16, "float", "uint16", torch="bfloat16"),
    "tfloat32": _Kind("tfloat", 32, "float", "float32"),
    "float8_e3m4": _Kind("float8_e3m4", 8, "float", "uint8"),
    "float8_e4m3": _Kind("float8_e4m3", 8, "float", "uint8", torch="float8_e4m3fn"),
    "float8_e4m3b11fnuz": _Kind("float8_e4m3b11fnuz", 8, "float", "uint8"),
    "float8_e4m3fn": _Kind("float8_e4m3fn", 8, "float", "uint8", torch="float8_e4m3fn"),
    "float8_e4m3fnuz": _Kind("float8_e4m3fnuz", 8, "float", "uint8", torch="float8_e4m3fnuz"),
    "float8_e5m2": _Kind("float8_e5m2", 8, "float", "uint8", torch="float8_e5m2"),
    "float8_e5m2fnuz": _Kind("float8_e5m2fnuz", 8, "float", "uint8", torch="float8_e5m2fnuz"),
    "float8_e8m0fnu": _Kind("float8_e8m0fnu", 8, "float", "uint8", torch="float8_e8m0fnu"),
    "float6_e2m3fn": _Kind("float6_e2m3fn", 6, "float", "uint8"),
    "float6_e3m2fn": _Kind("float6_e3m2fn", 6, "float", "uint8"),
    "float4_e2m1fn": _Kind("float4_e2m1fn", 4, "float", "uint8", 2, torch="float4_e2m1fn_x2"),
    "float4_e2m1_unpacked": _Kind("float4_e2m1_unpacked", 8, "float", "uint8"),
    "handle": _Kind("handle", 64, "handle", "uint64"),
    "void": _Kind("void", 0, "void", ""),
}

SCALARS: tuple[str, ...] = tuple(_KINDS)

_ALIASES = {
    "float": "float32", "double": "float64", "half": "float16", "char": "int8", "short": "int16",
    "int": "int32", "long": "int64", "uint": "uint32", "uint1": "bool", "boolean": "bool",
    "bool_": "bool",
}  # fmt: skip
_PYTHON_TYPES: dict[object, str] = {bool: "bool", int: "int32", float: "float32"}
# torch's only packed type: two logical elements of ours per element of its own.
_TORCH_NAMES = {"float4_e2m1fn_x2": "float4_e2m1fn"}
_VECTOR = re.compile(r"(?P<scalar>\w+?)x(?P<lanes>[1-9][0-9]*)")
_EXPECTED = (
    "a dtype name such as 'float16' or 'float32x4', a T.* dtype, a torch or numpy dtype, "
    "or the Python types bool, int, float"
)

_INTERNED: dict[str, dtype] = {}  # one object per name


@final
class dtype(str):  # lower case: programs write T.dtype(x) and read dtype('float16')
    """A data type; equal to, and hashed like, its name.

    ``dtype(x)`` accepts a name or alias, a dtype, a torch or numpy dtype and the Python types
    ``bool``, ``int`` (int32) and ``float`` (float32); anything else is a ``TileTypeError``.
    """

    # Plain attributes: the compiler asks for them more often than for anything else.
    _kind: _Kind
    bits: int
    """Bits of one lane."""
    lanes: int
    code: str
    """Kind without width: int, uint, float, bfloat, tfloat, bool, handle, void; small floats are
    their own kind, e.g. ``float8_e4m3fn``."""
    is_float: bool
    """Any floating-point type, the small formats included."""
    is_int: bool
    """Signed integer."""
    is_uint: bool
    """Unsigned integer; bool is not one."""
    is_integer: bool
    """Signed or unsigned integer; bool is not one."""
    is_bool: bool
    is_handle: bool
    element_of: dtype
    """The scalar type of one lane."""
    __slots__ = (
        "_kind", "bits", "code", "element_of", "is_bool", "is_float", "is_handle", "is_int",
        "is_integer", "is_uint", "lanes",
    )  # fmt: skip

    def __new__(cls, value: object) -> dtype:
        if isinstance(value, dtype):
            return value
        try:
            name = value if isinstance(value, str) else _foreign_name(value)
            known = _INTERNED.get(name)
            if known is not None:
                return known
            full, kind, lanes = _parse(name)
        except errors.TileError as error:
            trim(error)
            raise
        known = _INTERNED.get(full)
        if known is None:
            known = _INTERNED.setdefault(full, super().__new__(cls, full)._filled(kind, lanes))
        return known

    def _filled(self, kind: _Kind, lanes: int) -> dtype:
        """This new type with its attributes."""
        put = object.__setattr__
        put(self, "_kind", kind)
        put(self, "bits", kind.bits)
        put(self, "lanes", lanes)
        put(self, "code", kind.code)
        for family in ("float", "int", "uint", "bool", "handle"):
            put(self, f"is_{family}", kind.family == family)
        put(self, "is_integer", kind.family in ("int", "uint"))
        put(self, "element_of", self if lanes == 1 else dtype(self.rpartition("x")[0]))
        return self

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a dtype cannot be changed: {self}.{name}")

    def __repr__(self) -> str:
        return f"dtype({str.__repr__(self)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return dtype, (str(self),)

    def __call__(self, *args: object) -> Expr:
        """A constant, a cast, a vector of lanes, or without arguments a fresh variable."""
        from tilelang.ir import expr as _expr

        return _expr.dtype_call(self, *args)

    @property
    def width(self) -> int:
        """Bits of one value with all its lanes."""
        return self.bits * self.lanes

    @property
    def bytes(self) -> int:
        """Bytes of one value with all its lanes, rounded up."""
        return -(-self.width // 8)

    @property
    def is_fp8(self) -> bool:
        """Whether the bits are a float8 of any format."""
        return self._kind.code.startswith("float8_")

    @property
    def is_fp6(self) -> bool:
        """Whether the bits are a float6 of any format."""
        return self._kind.code.startswith("float6_")

    @property
    def is_fp4(self) -> bool:
        """float4_e2m1fn, packed or unpacked."""
        return self._kind.code.startswith("float4_")

    @property
    def is_subbyte(self) -> bool:
        """Whether a value has fewer than 8 bits."""
        return 0 < self._kind.bits < 8

    @property
    def is_scalar(self) -> bool:
        """Whether the type has one lane."""
        return self.lanes == 1

    @property
    def packing(self) -> int:
        """Elements in one storage unit: 2 for int4, uint4 and float4_e2m1fn, else 1."""
        return self._kind.packing

    def with_lanes(self, lanes: int) -> dtype:
        """Return this element type with ``lanes`` lanes."""
        scalar = self.element_of
        return scalar if lanes == 1 else dtype(f"{scalar}x{lanes}")

    @property
    def float_format(self) -> FloatFormat:
        """Bit layout of a floating-point type."""
        if not self.is_float:
            raise errors.TileTypeError(
                f"{self} has no floating-point format", expected="a float dtype", got=str(self)
            )
        return FORMATS[self.element_of]

    @property
    def storage(self) -> dtype:
        """Scalar type of the arrays that hold the bits.

        bfloat16 is held in uint16, fp8, fp6, fp4 and uint4 in uint8, int4 in int8, tfloat32 in
        float32; every other type in itself.
        """
        if not self._kind.storage:
            raise errors.TileTypeError(f"{self} has no storage", expected="a type with values")
        return dtype(self._kind.storage)

    def as_numpy(self) -> np.dtype[Any]:
        """Return the numpy dtype of the storage of one lane."""
        return np.dtype(str(self.storage))

    def as_torch(self) -> Any:
        """Return the torch dtype of one lane, or that of its storage where torch has none.

        Raises:
            TileUnsupportedError: the installed torch has no such dtype.
        """
        import torch

        name = self._kind.torch or self._kind.storage
        torch_dtype = (
            None if self._kind.family in ("handle", "void") else getattr(torch, name, None)
        )
        if torch_dtype is None and self.is_fp4:
            torch_dtype = torch.int8  # before torch had fp4, packed pairs were kept in int8
        if torch_dtype is None:
            raise errors.TileUnsupportedError(
                f"torch {torch.__version__} has no dtype for {self}",
                expected="a type torch can hold",
                got=str(self),
            )
        return torch_dtype


def _foreign_name(value: object) -> str:
    """Name of a torch dtype, numpy dtype or Python type; torch is recognised, not imported."""
    if isinstance(value, type) and value in _PYTHON_TYPES:
        return _PYTHON_TYPES[value]
    if type(value).__module__ == "torch" and type(value).__name__ == "dtype":
        return str(value)
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        numpy_dtype: np.dtype[Any] = np.dtype(value)
        if not numpy_dtype.isnative:
            raise errors.TileTypeError(
                f"the numpy dtype {numpy_dtype.str} is not in the byte order of this machine",
                expected=_EXPECTED,
                got=f"numpy dtype {numpy_dtype.str!r}",
                hint="convert the array with a.astype(a.dtype.newbyteorder('='))",
            )
        return str(numpy_dtype.name)
    raise errors.TileTypeError(
        "this is not a data type",
        expected=_EXPECTED,
        got=errors.shown(value) + f" of type {type(value).__name__}",
    )


def _parse(name: str) -> tuple[str, _Kind, int]:
    """Canonical name, kind and lanes of ``name``."""
    plain = name.removeprefix("torch.")
    plain = _TORCH_NAMES.get(plain, plain)
    scalar, lanes = plain, 1
    match = _VECTOR.fullmatch(plain)
    if match is not None:
        scalar, lanes = match["scalar"], int(match["lanes"])
    scalar = _ALIASES.get(scalar, scalar)
    kind = _KINDS.get(scalar)
    if kind is None:
        raise _unknown(name)
    if lanes > _MAX_LANES or (lanes > 1 and kind.family in ("handle", "void")):
        raise errors.TileTypeError(
            f"the vector type {name!r} does not exist",
            expected=f"2 to {_MAX_LANES} lanes of a bool, integer or float type",
            got=name,
        )
    return (scalar if lanes == 1 else f"{scalar}x{lanes}"), kind, lanes


def _unknown(name: str) -> errors.TileTypeError:
    return errors.TileTypeError(
        f"unknown data type {name!r}",
        expected=_EXPECTED,
        got=repr(name),
        hint=errors.near(name, [*SCALARS, *_ALIASES], value=True),
    )


def promote(a: dtype, b: dtype) -> dtype:
    """Type of a binary operation on an ``a`` and a ``b``.

    A float beats an integer, the wider one wins, float16 beats bfloat16, float32 beats tfloat32,
    unsigned beats signed of the same width, bool adopts the other. A scalar and a vector combine as
    a broadcast. Two different small floats of one width have no common type: ``TileTypeError``.
    """
    if a is b and type(a) is dtype:
        return a
    a, b = dtype(a), dtype(b)
    if a is b:
        return a
    lanes = max(a.lanes, b.lanes)
    if min(a.lanes, b.lanes) not in (1, lanes):
        raise errors.TileTypeError(
            f"{a} and {b} have different numbers of lanes",
            expected="equal lanes, or a scalar",
            got=f"{a.lanes} and {b.lanes} lanes",
        )
    return _promote_scalar(a.element_of, b.element_of).with_lanes(lanes)


_SAME_WIDTH = {  # the value formats of one width that have an agreed winner
    frozenset(("float16", "bfloat16")): "float16",
    frozenset(("float32", "tfloat32")): "float32",
    frozenset(("float4_e2m1fn", "float4_e2m1_unpacked")): "float4_e2m1fn",
}


def _promote_scalar(a: dtype, b: dtype) -> dtype:
    if a is b:
        return a
    if any(kind._kind.family in ("handle", "void") for kind in (a, b)):
        raise _no_common(a, b)
    if a.is_bool or b.is_bool:
        return b if a.is_bool else a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if not a.is_float:
        if a.bits != b.bits:
            return a if a.bits > b.bits else b
        return a if a.is_uint else b
    # An unpacked fp4 fills a byte but holds a value of four bits.
    width_a, width_b = (4 if kind.is_fp4 else kind.bits for kind in (a, b))
    if width_a != width_b:
        return a if width_a > width_b else b
    winner = _SAME_WIDTH.get(frozenset((str(a), str(b))))
    if winner is None:
        raise _no_common(a, b)
    return dtype(winner)


def _no_common(a: dtype, b: dtype) -> errors.TileTypeError:
    return errors.TileTypeError(
        f"{a} and {b} have no common type",
        expected="operands with a common type",
        got=f"{a} and {b}",
        hint="cast one operand first, e.g. T.cast(x, 'float32')" if a.is_float else None,
    )


def max_value(kind: object) -> int | float:
    """Largest finite value of a type, as a Python number."""
    scalar = dtype(kind).element_of
    if scalar.is_float:
        return scalar.float_format.max
    if scalar.is_integer:
        return int(2 ** (scalar.bits - scalar.is_int) - 1)
    if scalar.is_bool:
        return 1
    raise _no_range(scalar)


def min_value(kind: object) -> int | float:
    """Lowest finite value of a type, as a Python number."""
    scalar = dtype(kind).element_of
    if scalar.is_float:
        return scalar.float_format.min
    if scalar.is_integer:
        return -int(2 ** (scalar.bits - 1)) if scalar.is_int else 0
    if scalar.is_bool:
        return 0
    raise _no_range(scalar)


def infinity_value(kind: object) -> float:
    """Infinity of a float type, or its largest value where the format has no infinity."""
    scalar = dtype(kind).element_of
    if not scalar.is_float:
        raise errors.TileTypeError(
            f"{scalar} has no infinity",
            expected="a float dtype",
            got=str(scalar),
            hint=None if scalar.is_handle else "use T.max_value(dtype) or T.min_value(dtype)",
        )
    layout = scalar.float_format
    return float("inf") if layout.has_inf else layout.max


def _no_range(kind: dtype) -> errors.TileValueError:
    return errors.TileValueError(
        f"{kind} has no smallest and largest value",
        expected="a bool, integer or float dtype",
        got=str(kind),
    )


_SAME_STORAGE = tuple(
    frozenset(group)
    for group in (
        ("float8_e4m3", "float8_e4m3fn", "float8_e4m3fnuz"),
        ("float8_e5m2", "float8_e5m2fnuz"),
        ("tfloat32", "float32"),
        ("bool", "int8"),
        ("bool", "uint8"),
    )
)


def is_compatible_storage(expected: dtype, got: dtype, *, raw: bool = False) -> bool:
    """Whether a tensor of dtype ``got`` may be passed where ``expected`` is declared.

    The fp8 spellings of one layout, tfloat32 with float32, and bool with int8/uint8 are
    interchangeable. Types kept in bytes that arrays have no type for (packed int4, uint4 and
    fp4; fp6; the rarer fp8) also take int8 and uint8. With ``raw`` any type takes its storage
    type, for arrays of frameworks without it: numpy's bfloat16 is uint16, its fp8 uint8.
    """
    expected, got = dtype(expected), dtype(got)
    if expected is got:
        return True
    if expected.lanes != got.lanes:
        return False
    want, have = expected.element_of, got.element_of
    if any(want in group and have in group for group in _SAME_STORAGE):
        return True
    bytes_only = want.packing > 1 or (want.is_float and want.bits <= 8 and not want._kind.torch)
    if bytes_only and have in ("int8", "uint8"):
        return True
    return raw and want._kind.storage == have


bool_ = dtype("bool")  # `bool` itself is the builtin in this module
int4 = dtype("int4")
int8 = dtype("int8")
int16 = dtype("int16")
int32 = dtype("int32")
int64 = dtype("int64")
uint4 = dtype("uint4")
uint8 = dtype("uint8")
uint16 = dtype("uint16")
uint32 = dtype("uint32")
uint64 = dtype("uint64")
float16 = dtype("float16")
float32 = dtype("float32")
float64 = dtype("float64")
bfloat16 = dtype("bfloat16")
tfloat32 = dtype("tfloat32")
float8_e3m4 = dtype("float8_e3m4")
float8_e4m3 = dtype("float8_e4m3")
float8_e4m3b11fnuz = dtype("float8_e4m3b11fnuz")
float8_e4m3fn = dtype("float8_e4m3fn")
float8_e4m3fnuz = dtype("float8_e4m3fnuz")
float8_e5m2 = dtype("float8_e5m2")
float8_e5m2fnuz = dtype("float8_e5m2fnuz")
float8_e8m0fnu = dtype("float8_e8m0fnu")
float6_e2m3fn = dtype("float6_e2m3fn")
float6_e3m2fn = dtype("float6_e3m2fn")
float4_e2m1fn = dtype("float4_e2m1fn")
float4_e2m1_unpacked = dtype("float4_e2m1_unpacked")
handle = dtype("handle")
void = dtype("void")


def __getattr__(name: str) -> dtype:
    """Vector types and ``bool``: ``dtypes.float16x4`` is ``dtype("float16x4")``."""
    match = _VECTOR.fullmatch(name)
    named = match is not None and match["scalar"] in _KINDS and int(match["lanes"]) in VECTOR_LANES
    if named or name == "bool":
        return dtype(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
