"""Expressions: frozen, hash-consed, typed. Equal expressions are the same object.

Every node carries its ``dtype``. Building a node twice gives the same object, so structural
equality is ``is``, and memo tables may be keyed by identity. Python operators on expressions
build nodes with the promotion rules of the language and fold constants on the way.

``floordiv``/``floormod`` are the language's ``//`` and ``%`` (rounding toward minus infinity).
Casts are explicit in the tree: operands of a binary node have the same dtype except shifts.
"""

from __future__ import annotations

import math
import struct
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import MISSING, field, fields
from functools import cached_property
from numbers import Number
from operator import methodcaller
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar, overload

from tilelang.errors import TileSyntaxError, TileTypeError, check_type, shown
from tilelang.ir.arrays import NoArray, is_same
from tilelang.ir.atoms import Atom
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.later import defined_by, later
from tilelang.ir.tables import BINARY
from tilelang.records import dataclass

if TYPE_CHECKING:
    from tilelang.ir.buffer import Buffer, Region

PyScalar: TypeAlias = "int | float | bool"
ExprLike: TypeAlias = "Expr | int | float | bool"
Operator: TypeAlias = "Callable[[Expr, ExprLike], Expr]"
Kind = TypeVar("Kind", bound="Expr")
Other = TypeVar("Other", bound="Expr")
_NONE: frozenset[Any] = frozenset()
_INT32, _BOOL, _HANDLE = DType("int32"), DType("bool"), DType("handle")
_LONG = 400  # characters of an expression in a message


def field_names(cls: type[Expr]) -> tuple[str, ...]:
    """The fields of an expression class that its constructor takes."""
    return cls._fields


def _key_of(value: object) -> object:
    """A hashable key under which equal field values, and only those, collide."""
    kind = type(value)
    if kind is str or kind is int:
        return value
    if kind is DType or isinstance(value, Expr):
        return id(value)
    if isinstance(value, float):
        return struct.pack("<d", value)  # distinguishes -0.0 and NaN payloads
    if isinstance(value, bool):
        return ("b", value)
    if isinstance(value, tuple):
        return tuple([_key_of(element) for element in value])
    if value is None or isinstance(value, (int, str)):
        return value
    # A row that is read back is the same, too.
    return value.name if isinstance(value, Atom) else id(value)


class _Entry(weakref.ref["Expr"]):
    """A weak reference to an interned node that knows its key."""

    __slots__ = ("key",)
    key: tuple[object, ...]


def _drop_entry(entry: _Entry) -> None:
    """Drop the entry of a node that is gone, unless another node took its place."""
    with Expr._lock:
        if Expr._table.get(entry.key) is entry:
            del Expr._table[entry.key]


def _complete(cls: type[Expr], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The values of all fields of a node, from positions, names and defaults."""
    names = field_names(cls)
    values = dict(zip(names, args))
    count = len(args) + len(kwargs)
    values.update(kwargs)
    for spec in fields(cls):
        if spec.default is not MISSING:
            values.setdefault(spec.name, spec.default)
    if len(args) > len(names) or len(values) < count or set(values) != set(names):
        raise TileTypeError(
            f"wrong arguments for {cls.__name__}",
            expected=f"{cls.__name__}({', '.join(names)})",
            got=f"{count} of them",
        )
    return tuple(values[name] for name in names)


remainder: later[[object, object], Expr] = later("operators:remainder")
"""``x % y``"""
power: later[[object, object], Expr] = later("operators:power")
"""``x ** y``"""


def _operator(op: str) -> tuple[Operator, Operator]:
    """The methods for ``x op y`` of which ``x`` is the node, and of which ``y`` is."""
    return lambda x, y: binary(op, x, y), lambda y, x: binary(op, x, y)


def _operators(build: Callable[[object, object], Expr]) -> tuple[Operator, Operator]:
    """The same for what is not a single operation."""
    return lambda x, y: build(x, y), lambda y, x: build(x, y)


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Expr(NoArray):
    """Base of all expressions. Compare with ``is``; ``==`` builds a comparison node.

    Interning is done by ``__new__`` and not by a metaclass, with which every ``isinstance`` would
    take several times as long.
    """

    single = True
    _table: ClassVar[dict[tuple[object, ...], _Entry]] = {}
    _lock: ClassVar[threading.RLock] = threading.RLock()
    _fields: ClassVar[tuple[str, ...]] = ()
    _bit: ClassVar[int] = 0  # a bit of its own for every class
    issued: ClassVar[bool] = False  # whether it is the handle of one statement: Call.issue
    dtype: DType = field(init=False)
    _kinds: int = field(init=False)  # the bits of all classes in it
    depth: int = field(init=False)  # nodes on the longest way down, itself included
    size: int = field(init=False)  # nodes where it is written out; exact up to 2**30
    variables: frozenset[Var] = field(init=False)
    """The variables in it, itself included."""

    def __init_subclass__(cls) -> None:
        # ``__new__`` gives whole nodes, which nothing may fill again: dataclasses make no
        # ``__init__`` for a class that has one.
        type.__setattr__(cls, "__init__", object.__init__)
        cls._fields = tuple(cls.__annotations__)
        cls._bit = 1 << len(Expr.__subclasses__())

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """The node with these fields: the existing one where one is alive."""
        if kwargs or len(args) != len(cls._fields):
            args = _complete(cls, args, kwargs)
        key = cls._key(args)
        # Without the lock: most nodes exist already. An entry whose node is gone gives None.
        entry = cls._table.get(key)
        known = None if entry is None else entry()
        if known is not None:
            return known
        node = cls._interned(args)
        with cls._lock:
            entry = cls._table.get(key)
            known = None if entry is None else entry()
            if known is not None:
                return known
            fresh = _Entry(node, _drop_entry)
            fresh.key = key
            cls._table[key] = fresh
        return node

    @classmethod
    def _key(cls, args: tuple[Any, ...]) -> tuple[object, ...]:
        """The key of a node, which is equal for equal nodes only."""
        return (cls, *map(_key_of, args))

    @classmethod
    def _interned(cls, args: tuple[Any, ...]) -> Expr:
        """A new node with the values of all its fields."""
        node = object.__new__(cls)
        put = object.__setattr__
        for name, value in zip(cls._fields, args):
            put(node, name, value)
        put(node, "dtype", node._dtype())
        kinds, variables, depth, size = cls._bit, _NONE, 0, 1
        for child in node.children():
            kinds |= child._kinds
            size += child.size
            depth = max(depth, child.depth)
            if not child.variables <= variables:
                variables = variables | child.variables if variables else child.variables
        put(node, "_kinds", kinds)
        put(node, "depth", depth + 1)
        put(node, "size", min(size, 1 << 30))
        put(node, "variables", variables)
        return node

    def _dtype(self) -> DType:
        """The dtype, from the fields."""
        raise TileTypeError(f"{type(self).__name__} is an abstract class and has no instances")

    def children(self) -> tuple[Expr, ...]:
        """Direct sub-expressions, in field order (index expressions of regions included)."""
        exprs: list[Expr] = []
        for name in field_names(type(self)):
            value = getattr(self, name)
            if isinstance(value, Expr):
                exprs.append(value)
            elif not isinstance(value, str):
                exprs.extend(exprs_in(value))
        return tuple(exprs)

    def __reduce__(self) -> tuple[Any, ...]:
        # Read back, equal expressions are the same object again.
        return type(self), tuple(getattr(self, name) for name in field_names(type(self)))

    # -- operators: each builds a node through the language's promotion rules ---------------
    __add__, __radd__ = _operator("add")
    __sub__, __rsub__ = _operator("sub")
    __mul__, __rmul__ = _operator("mul")
    __truediv__, __rtruediv__ = _operator("div")
    __floordiv__, __rfloordiv__ = _operator("floordiv")
    __lshift__, __rlshift__ = _operator("shl")
    __rshift__, __rrshift__ = _operator("shr")
    __and__, __rand__ = _operator("bitand")
    __or__, __ror__ = _operator("bitor")
    __xor__, __rxor__ = _operator("bitxor")
    __mod__, __rmod__ = _operators(remainder)
    __pow__, __rpow__ = _operators(power)

    def __neg__(self) -> Expr:
        return unary("neg", self)

    def __pos__(self) -> Expr:
        return self

    def __invert__(self) -> Expr:
        return unary("lnot" if self.dtype.is_bool else "bitnot", self)

    def __eq__(self, other: object) -> Any:
        return binary("eq", self, other) if _is_operand(other) else is_same(self, other, "==")

    def __ne__(self, other: object) -> Any:
        return binary("ne", self, other) if _is_operand(other) else not is_same(self, other, "!=")

    __lt__, __le__, __gt__, __ge__ = (_operator(op)[0] for op in ("lt", "le", "gt", "ge"))

    def __abs__(self) -> Expr:
        return absolute(self)

    def __round__(self, digits: int | None = None) -> Expr:
        return rounded(self, digits)

    def __divmod__(self, other: ExprLike) -> tuple[Expr, Expr]:
        return self // other, self % other

    def __rdivmod__(self, other: ExprLike) -> tuple[Expr, Expr]:
        return other // self, other % self

    __hash__ = object.__hash__  # by identity

    def __bool__(self) -> bool:
        raise TileTypeError(
            f"the device expression `{self!r}` has no value while the kernel is traced",
            expected="a Python value (known at trace time)",
            hint="use it in `if`/`while`/`and`/`or`/`not` of a kernel or macro body, or "
            "T.if_then_else(cond, a, b), T.min(a, b), T.max(a, b)",
        )

    def __int__(self) -> int:
        raise TileTypeError(
            f"int() of the device expression `{self!r}`",
            expected="a value known at trace time",
            hint="to convert on the device use T.int32(x) or T.cast(x, 'int32')",
        )

    def __index__(self) -> int:
        raise TileTypeError(
            f"the device expression `{self!r}` is used where Python needs an int",
            expected="a value known at trace time",
            hint="shapes and ranges of Python code must be constants; a list or table that the "
            "kernel looks up is an argument, a T.Tensor",
        )

    def __float__(self) -> float:
        raise TileTypeError(
            f"float() of the device expression `{self!r}`",
            expected="a value known at trace time",
            hint="to convert on the device use T.float32(x) or T.cast(x, 'float32'); for a "
            "function of `math` use that of T, as T.exp(x)",
        )

    def __iter__(self) -> Iterator[Expr]:
        raise TileTypeError(f"the device expression `{self!r}` is not iterable")

    def __repr__(self) -> str:
        text = expr_text(self) if self.size < 1 << 16 else f"{type(self).__name__}..."
        return text if len(text) <= _LONG else f"{text[: _LONG - 3]}..."

    def astype(self, dtype: object) -> Expr:
        """Convert this value to ``dtype`` (round to nearest even, saturating for fp8)."""
        return cast(self, DType(dtype))

    def equal(self, other: ExprLike) -> Expr:
        """Return the comparison ``self == other`` as an expression."""
        return binary("eq", self, other)


absolute: later[[Expr], Expr] = later("operators:absolute")
"""``abs(x)``"""
rounded: later[[Expr, object], Expr] = later("operators:rounded")
"""``round(x, digits)``"""
expr_text: later[[Expr], str] = later("print_expr:expr_text")
"""``expr`` as Python text."""


def _no_function(name: str) -> Callable[..., Expr]:
    def method(self: Expr, *_: object) -> Expr:
        raise TileTypeError(
            f"{name}() is not defined on device expressions", hint=f"use T.{name}(x)"
        )

    return method


for _name in ("floor", "ceil", "trunc"):
    setattr(Expr, f"__{_name}__", _no_function(_name))


@dataclass(frozen=True, eq=False, repr=False)
class Const(Expr):
    """A literal; ``value`` is a Python bool, int or float in the range of ``dtype``."""

    value: PyScalar
    type: DType

    @classmethod
    def _key(cls, args: tuple[Any, ...]) -> tuple[object, ...]:
        value, dtype = args
        return cls, value if type(value) is int else _key_of(value), dtype

    def children(self) -> tuple[Expr, ...]:
        return ()

    def _dtype(self) -> DType:
        return self.type

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __index__(self) -> int:
        if isinstance(self.value, float):
            raise TileTypeError(f"the float constant {self.value} is used as an index")
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)


@dataclass(frozen=True, eq=False, repr=False)
class Var(Expr):
    """A named scalar: parameter, let value, loop or launch index. Identity is the variable."""

    name: str
    type: DType

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        node = cls._interned(_complete(cls, args, kwargs) if kwargs else args)
        object.__setattr__(node, "variables", frozenset((node,)))
        return node

    def children(self) -> tuple[Expr, ...]:
        return ()

    def _dtype(self) -> DType:
        return self.type


@dataclass(frozen=True, eq=False, repr=False)
class Unary(Expr):
    """``neg``, ``bitnot`` or ``lnot`` of ``a``."""

    op: str
    a: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.a,)

    def _dtype(self) -> DType:
        return self.a.dtype


@dataclass(frozen=True, eq=False, repr=False)
class Binary(Expr):
    """A binary operator of ``tables.BINARY``; ``land``/``lor`` short-circuit."""

    op: str
    a: Expr
    b: Expr

    def children(self) -> tuple[Expr, ...]:
        return (self.a, self.b)

    @classmethod
    def _key(cls, args: tuple[Any, ...]) -> tuple[object, ...]:
        op, a, b = args
        return cls, op, id(a), id(b)

    def _dtype(self) -> DType:
        dtype = self.a.dtype
        if not BINARY[self.op].compares:
            return dtype
        return _BOOL if dtype.lanes == 1 else _BOOL.with_lanes(dtype.lanes)


@dataclass(frozen=True, eq=False, repr=False)
class Cast(Expr):
    """``value`` converted to ``type``; ``rounding`` is "" or "rs"; ``sat`` clamps to finite."""

    value: Expr
    type: DType
    rounding: str = ""
    sat: bool = True
    rbits: Expr | None = None

    def children(self) -> tuple[Expr, ...]:
        return (self.value,) if self.rbits is None else (self.value, self.rbits)

    def _dtype(self) -> DType:
        return self.type


@dataclass(frozen=True, eq=False, repr=False)
class Select(Expr):
    """``t if cond else f``; when ``lazy`` the side not taken is not evaluated."""

    cond: Expr
    t: Expr
    f: Expr
    lazy: bool = True

    def children(self) -> tuple[Expr, ...]:
        return (self.cond, self.t, self.f)

    def _dtype(self) -> DType:
        return self.t.dtype


@dataclass(frozen=True, eq=False, repr=False)
class Load(Expr):
    """The element of ``buffer`` at ``indices`` (one per dimension)."""

    buffer: Buffer
    indices: tuple[Expr, ...]

    @classmethod
    def _key(cls, args: tuple[Any, ...]) -> tuple[object, ...]:
        buffer, indices = args
        return cls, id(buffer), *map(id, indices)

    def children(self) -> tuple[Expr, ...]:
        return self.indices

    def _dtype(self) -> DType:
        lanes = max([index.dtype.lanes for index in self.indices], default=1)
        base = self.buffer.dtype
        return base if lanes == 1 else base.with_lanes(lanes * base.lanes)

    def access_ptr(self, access: str = "r", *_: object, **__: object) -> Expr:
        """Pointer to this element, for builtins that take addresses."""
        return AddressOf(self.buffer, self.indices, access)


@dataclass(frozen=True, eq=False, repr=False)
class AddressOf(Expr):
    """A pointer to the element of ``buffer`` at ``indices``; ``access`` is "r", "w" or "rw".

    ``extent`` is how many elements from there on are accessed, if the program states it.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    access: str = "rw"
    extent: Expr | None = None

    def children(self) -> tuple[Expr, ...]:
        return self.indices if self.extent is None else (*self.indices, self.extent)

    def _dtype(self) -> DType:
        return _HANDLE

    @property
    def op(self) -> str:
        """The name of the operation that gives the pointer."""
        return "access_ptr"

    @property
    def args(self) -> tuple[Expr, ...]:
        """The element, how many are accessed from there on, and 1 (read), 2 (write) or both."""
        mask = ("r" in self.access) + 2 * ("w" in self.access)
        count = const(1) if self.extent is None else self.extent
        return (Load(self.buffer, self.indices), count, const(mask))


def moved_to(target: Load | AddressOf, buffer: Buffer, *indices: Expr) -> Load | AddressOf:
    """The access of ``target`` to an element of another array; how many follow is not kept."""
    if isinstance(target, Load):
        return Load(buffer, indices)
    return AddressOf(buffer, indices, target.access)


@dataclass(frozen=True, eq=False, repr=False)
class Call(Expr):
    """A call of an instruction; ``attrs`` are compile-time (name, value) pairs.

    ``atom`` is its row: what its operands are, what it does and what it orders.
    """

    atom: Atom
    args: tuple[Expr, ...]
    type: DType
    attrs: tuple[tuple[str, object], ...] = ()

    def _dtype(self) -> DType:
        return self.type

    def issue(self) -> Call:
        """This call as a node of its own: what an intrinsic gives for the statement it has emitted.

        Wherever it is used as a value, it is that statement and no second one.
        """
        call = type(self)._interned((self.atom, self.args, self.type, self.attrs))
        assert isinstance(call, Call)
        object.__setattr__(call, "issued", True)
        return call

    def children(self) -> tuple[Expr, ...]:
        return self._with_attrs if self.attrs else self.args

    @cached_property
    def _with_attrs(self) -> tuple[Expr, ...]:
        """The operands, and the expressions in attributes."""
        return (*self.args, *exprs_in(self.attrs))

    @property
    def op(self) -> str:
        """The name of the instruction."""
        return self.atom.name

    def attr(self, name: str, default: Any = None) -> Any:
        """The compile-time attribute ``name``."""
        return dict(self.attrs).get(name, default)


@dataclass(frozen=True, eq=False, repr=False)
class Ramp(Expr):
    """The vector ``base + stride * [0, 1, .., lanes-1]``."""

    base: Expr
    stride: Expr
    lanes: int

    def children(self) -> tuple[Expr, ...]:
        return (self.base, self.stride)

    def _dtype(self) -> DType:
        return self.base.dtype.with_lanes(self.lanes)


@dataclass(frozen=True, eq=False, repr=False)
class Broadcast(Expr):
    """``value`` in every lane."""

    value: Expr
    lanes: int

    def _dtype(self) -> DType:
        return self.value.dtype.with_lanes(self.lanes * self.value.dtype.lanes)


@dataclass(frozen=True, eq=False, repr=False)
class Vector(Expr):
    """A vector made of scalar ``elements``."""

    elements: tuple[Expr, ...]

    def _dtype(self) -> DType:
        return self.elements[0].dtype.with_lanes(len(self.elements))


@dataclass(frozen=True, eq=False, repr=False)
class Lane(Expr):
    """Lane ``index`` of ``vector``."""

    vector: Expr
    index: Expr

    def _dtype(self) -> DType:
        return self.vector.dtype.element_of


@dataclass(frozen=True, eq=False, repr=False)
class StringImm(Expr):
    """A text argument of an intrinsic."""

    value: str

    def _dtype(self) -> DType:
        check_type(self.value, str, "StringImm holds a string", "a str")
        return DType("handle")


@dataclass(frozen=True, eq=False, repr=False)
class RegionArg(Expr):
    """A region as an argument of an intrinsic (``T.any_of(buf[0:4])``)."""

    region: Region

    def _dtype(self) -> DType:
        return DType("handle")


def exprs_in(value: object) -> Iterator[Expr]:
    """Expressions in a value of a field: in nested tuples and in regions too."""
    if isinstance(value, Expr):
        yield value
    elif isinstance(value, tuple):
        for element in value:
            yield from exprs_in(element)
    elif hasattr(value, "region_exprs"):
        yield from value.region_exprs()


def _is_operand(value: object) -> bool:
    return isinstance(value, (Expr, int, float)) or _as_element(value) is not None


def _as_element(value: object) -> Expr | None:
    """The value of an object that denotes one element (an ``alloc_var`` buffer)."""
    convert = getattr(value, "as_element", None)
    return convert() if convert is not None else None


# -- construction -------------------------------------------------------------------------
def const(value: PyScalar, dtype: object = None) -> Const:
    """The literal ``value``; without ``dtype``: bool, int32 (int64 if it needs it) or float32."""
    if type(value) is int and isinstance(dtype, DType) and dtype.is_integer:
        if 0 <= value < 1 << (dtype.bits - 1):  # most are: there is nothing to convert
            return Const(value, dtype)
    if dtype is None:
        if isinstance(value, bool):
            return Const(value, _BOOL)
        if isinstance(value, int) and -(2**31) <= value < 2**31:
            return Const(value, _INT32)
    return literal(value, dtype)


literal: later[[PyScalar, object], Const] = later("fold:build_literal")
""":func:`const` of a value that may not be in the range of its dtype."""


def special(value: float, dtype: DType) -> Const:
    """Infinity as a literal of ``dtype`` itself: small floats that have one keep it, whereas
    :func:`const` converts, which saturates."""
    has = dtype.is_float and dtype.element_of.float_format.has_inf
    return Const(value, dtype) if has else const(value, dtype)


def as_expr(value: object, dtype: object = None) -> Expr:
    """``value`` as an expression, cast to ``dtype`` if given (literals take it directly)."""
    if isinstance(value, (bool, int, float)):
        return const(value, dtype)
    if not isinstance(value, Expr):
        element = _as_element(value)
        if element is None:
            numpy_item = getattr(value, "item", None)
            if numpy_item is not None and getattr(value, "ndim", 1) == 0:
                return as_expr(numpy_item(), dtype)
            hint: str | None = (
                "index a buffer with one index per dimension to read an element, in a loop "
                "`for i in T.Parallel(n)` for all of them"
            )
            if isinstance(value, Number):  # a fraction, a decimal, a complex number
                hint = None if isinstance(value, complex) else "convert it in front: float(x)"
            elif value is None or isinstance(value, str):
                hint = None
            raise TileTypeError(
                f"a {type(value).__name__} is used where a scalar value is needed",
                expected="a number or a device expression",
                got=shown(value),
                hint=hint,
            )
        value = element
    return value if dtype is None else cast(value, DType(dtype))


binary: later[[str, object, object], Expr] = later("fold:build_binary")
"""``a op b`` with promotion, type checks and constant folding."""
unary: later[[str, object], Expr] = later("fold:build_unary")
"""``op a`` with type checks and constant folding."""


@defined_by("fold:build_cast")
def cast(value: object, dtype: DType, rounding: str = "", sat: bool = True) -> Expr:
    """``value`` converted to ``dtype``; the same object if it already has it."""
    raise NotImplementedError


@defined_by("fold:build_select")
def select(cond: object, t: object, f: object, lazy: bool = True) -> Expr:
    """``t if cond else f`` with promotion of the two sides."""
    raise NotImplementedError


@defined_by("fold:named_call")
def call(op: Atom | str, *args: object, dtype: object = None, **attrs: object) -> Expr:
    """A call of the row ``op``, or of the portable row of that name; ``dtype`` defaults to the rule
    of the row (first operand's)."""
    raise NotImplementedError


def conjunction(conditions: Iterable[Expr]) -> Expr:
    """All of ``conditions``; of none, the constant True."""
    result: Expr = const(True)
    for condition in conditions:
        result = binary("land", result, condition)
    return result


def dtype_call(dtype: DType, *args: object) -> Expr:
    """``T.float16(3)`` constant, ``T.int32(e)`` cast, ``T.float32()`` variable, ``x2(a, b)``."""
    if not args:
        return Var("v", dtype)
    if dtype.lanes > 1 and len(args) == dtype.lanes:
        return Vector(tuple(as_expr(arg, dtype.element_of) for arg in args))
    if len(args) != 1:
        raise TileTypeError(
            f"T.{dtype}() takes no value, one value" + (" or one per lane" * (dtype.lanes > 1)),
            got=f"{len(args)} values",
        )
    if isinstance(args[0], str):
        try:
            number = float(args[0])
            return special(number, dtype) if math.isinf(number) else const(number, dtype)
        except ValueError:
            raise TileSyntaxError(f"{args[0]!r} is not a number") from None
    value = as_expr(args[0]) if not isinstance(args[0], (bool, int, float)) else args[0]
    if dtype.lanes > 1 and isinstance(value, Expr) and value.dtype.lanes == 1:
        return Broadcast(as_expr(value, dtype.element_of), dtype.lanes)
    if dtype.lanes > 1 and not isinstance(value, Expr):
        return Broadcast(const(value, dtype.element_of), dtype.lanes)
    return as_expr(value, dtype)


def holds(expr: Expr, *kinds: type[Expr]) -> bool:
    """Whether ``expr`` or something below it is one of ``kinds``."""
    bits = 0
    for kind in kinds:
        bits |= kind._bit
    return expr._kinds & bits != 0


def are_same_exprs(a: Sequence[Expr], b: Sequence[Expr]) -> bool:
    """Whether two sequences hold the same expressions. `==` of them asks each pair that is not one
    object for its truth, which no expression has."""
    return len(a) == len(b) and all(x is y for x, y in zip(a, b))


def is_repeatable(expr: Expr) -> bool:
    """Whether evaluating ``expr`` more than once gives the same as once."""
    return all(call.atom.effect.is_repeatable for call in find(expr, Call))


@overload
def find(expr: Expr, kind: type[Kind], /) -> list[Kind]: ...


@overload
def find(expr: Expr, kind: type[Kind], other: type[Other], /) -> list[Kind | Other]: ...


@overload
def find(expr: Expr, /, *kinds: type[Expr]) -> list[Expr]: ...


def find(expr: Expr, /, *kinds: type[Expr]) -> Any:
    """The nodes of ``walk(expr)`` that are one of ``kinds``, in its order. What holds none of them
    is not walked."""
    bits = 0
    for kind in kinds:
        bits |= kind._bit
    exprs: list[Expr] = []
    if not expr._kinds & bits:
        return exprs
    seen: set[Expr] = set()
    stack = [expr]
    while stack:
        node = stack.pop()
        if node._kinds & bits and node not in seen:
            seen.add(node)
            if isinstance(node, kinds):
                exprs.append(node)
            stack += node.children()[::-1]
    return exprs


def walk(
    expr: Expr, below: Callable[[Expr], tuple[Expr, ...]] = methodcaller("children")
) -> Iterator[Expr]:
    """``expr`` and what is ``below`` it, each distinct node once, parents first."""
    seen: set[Expr] = set()
    stack = [expr]
    while stack:
        node = stack.pop()
        if node not in seen:
            yield node
            seen.add(node)
            stack += below(node)[::-1]
