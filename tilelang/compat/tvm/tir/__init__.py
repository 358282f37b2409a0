"""Classes and functions of the IR: this package's, by the names that programs use.

Classes that TVM has and this IR has under one name lead to that class (``For``, ``PrimFunc``);
binary operators are one class here, so that ``tir.Add`` and its relatives are made for
``isinstance`` and calls, as ``tir.Call`` is, which pointers are, too. Everything else that a kernel
can say is taken from ``tilelang.language``: ``tir.const``, ``tir.floordiv``, ``tir.exp``.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from tilelang.absent import absent_names
from tilelang.frontend.macro import Var
from tilelang.ir.buffer import Buffer, Region as BufferRegion, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import (
    AddressOf,
    Binary,
    Broadcast,
    Call as _Instruction,
    Cast,
    Const,
    Expr,
    Expr as PrimExpr,
    Load as BufferLoad,
    Ramp,
    Select,
    StringImm,
    as_expr,
    binary,
    const,
)
from tilelang.ir.stmt import (
    Eval as Evaluate,
    For,
    If as IfThenElse,
    Let as Bind,
    Let as LetStmt,
    PrimFunc,
    Seq as SeqStmt,
    Stmt,
    Store as BufferStore,
)

__all__ = [
    "Bind", "Broadcast", "Buffer", "BufferLoad", "BufferRegion", "BufferStore", "Call", "Cast",
    "Evaluate", "FloatImm", "For", "ForKind", "IfThenElse", "IndexMap", "IntImm", "LetStmt",
    "PrimExpr", "PrimFunc", "Ramp", "Select", "SeqStmt", "Stmt", "StringImm", "Var", "all",
    "any", "const", "decl_buffer",
]  # fmt: skip

_absent = absent_names("tilelang.tvm.tir")
_OPERATORS = {
    "Add": "add", "Sub": "sub", "Mul": "mul", "Div": "div", "FloorDiv": "floordiv",
    "FloorMod": "floormod", "Min": "min", "Max": "max", "EQ": "eq", "NE": "ne", "LT": "lt",
    "LE": "le", "GT": "gt", "GE": "ge", "And": "land", "Or": "lor",
}  # fmt: skip


class ForKind(Enum):
    """Kinds of loops, as ``For.kind`` names them."""

    SERIAL = "serial"
    UNROLLED = "unroll"
    VECTORIZED = "vectorized"
    PARALLEL = "parallel"


class _Operator(type):
    """Class of the binary operators: ``Add(a, b)`` makes one, ``isinstance`` looks at its kind."""

    op: str

    def __call__(cls, a: Any, b: Any) -> Expr:
        return binary(cls.op, as_expr(a), as_expr(b))

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Binary) and instance.op == cls.op


class _Literal(type):
    """Class of constants of one kind."""

    integer: bool

    def __call__(cls, dtype: Any, value: Any, span: object = None) -> Const:
        return const(value, DType(dtype))

    def __instancecheck__(cls, instance: object) -> bool:
        if not isinstance(instance, Const):
            return False
        return not instance.dtype.is_float if cls.integer else instance.dtype.is_float


class _Called(type):
    """Class of calls: of instructions, and of what gives a pointer."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, (_Instruction, AddressOf))


class Call(metaclass=_Called):
    """Calls; ``op`` names what is called, ``args`` are its operands."""


class IntImm(metaclass=_Literal):
    """Integer constants."""

    integer = True


class FloatImm(metaclass=_Literal):
    """Floating-point constants."""

    integer = False


class IndexMap:
    """A function of indices, as layouts are written with it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @staticmethod
    def from_func(
        mapping_function: Callable[..., Any], ndim: int | None = None,
        inverse_index_map: Any = None, *, index_dtype: Any = "int64",
    ) -> IndexMap:  # fmt: skip
        """The map that ``mapping_function`` is; the other arguments are not needed."""
        return IndexMap(mapping_function)

    def map_indices(self, indices: Sequence[Any]) -> list[Expr]:
        """The indices that ``indices`` are mapped to."""
        mapped = self._function(*map(as_expr, indices))
        return [
            as_expr(index) for index in (mapped if isinstance(mapped, (tuple, list)) else [mapped])
        ]


def all(*conditions: Any) -> Expr:
    """The conjunction of conditions."""
    return functools.reduce(functools.partial(binary, "land"), map(as_expr, conditions))


def any(*conditions: Any) -> Expr:
    """The disjunction of conditions."""
    return functools.reduce(functools.partial(binary, "lor"), map(as_expr, conditions))


def decl_buffer(
    shape: Any, dtype: Any = "float32", name: str = "buffer", data: Any = None,
    strides: Any = None, elem_offset: Any = 0, scope: str = "global", **_: Any,
) -> Buffer:  # fmt: skip
    """A buffer outside any kernel, e.g. for ``PrimFunc.specialize``.

    Args:
        shape: ints or expressions.
        dtype: of the elements.
        name: for messages.
        data: the storage, when another buffer has it too.
        strides: in elements; None for row-major.
        elem_offset: where it starts.
        scope: the memory.
    """
    extents = shape if isinstance(shape, (tuple, list)) else (shape,)
    steps = tuple(strides) if strides else None
    return Buffer(name, Shape(extents), DType(dtype), scope, steps, elem_offset or 0, data)


def __getattr__(name: str) -> Any:
    if name == "stmt_functor":
        return importlib.import_module("tilelang.compat.tvm.tir.stmt_functor")
    if name in _OPERATORS:
        return _Operator(name, (), {"op": _OPERATORS[name], "__doc__": f"The operator {name}."})
    language = importlib.import_module("tilelang.language")
    if name in language.__all__:
        return getattr(language, name)
    return _absent(name)
