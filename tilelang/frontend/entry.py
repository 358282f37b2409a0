"""``T.prim_func``, parameter annotations, symbols and outputs."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from tilelang.errors import TileSyntaxError, TileTypeError, TileValueError, check_type
from tilelang.frontend import annot, described
from tilelang.frontend.annot import Buffer
from tilelang.frontend.described import make_tensor, make_tensor_from_addr, match_buffer
from tilelang.frontend.ir_builder import builder, placed
from tilelang.frontend.values import element_type, extents_of, is_element_type
from tilelang.ir.buffer import Buffer as BufferNode, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Var
from tilelang.ir.stmt import PrimFunc
from tilelang.tracebacks import border, borders

__all__ = [
    "Buffer", "FragmentBuffer", "LocalBuffer", "SharedBuffer", "StridedTensor", "Tensor", "const",
    "dyn", "dynamic", "empty", "make_tensor", "make_tensor_from_addr", "match_buffer", "prim_func",
    "ptr", "symbolic", "symbolics",
]  # fmt: skip

Tensor = annot.TensorAnnot()
StridedTensor = annot.StridedTensorAnnot()
FragmentBuffer = annot.FragmentBufferAnnot()
SharedBuffer = annot.SharedBufferAnnot()
LocalBuffer = annot.LocalBufferAnnot()
dyn = annot.DynAnnot(dtype=DType("int32"))
ptr = annot.PtrAnnot()


@border
def prim_func(
    fn: Callable[..., Any] | None = None, *, eager_jit: bool = False, private: bool = False,
    check_well_formed: bool = True,
) -> Any:  # fmt: skip
    """Trace a function whose parameters are all annotated; the result is a ``PrimFunc``.

    Args:
        fn: the function; without it the result is a decorator.
        eager_jit: return a template that is traced per call (``EagerFunc``).
        private, check_well_formed: TVM's options, without effect.

    Raises:
        TileSyntaxError: a parameter is not annotated, or the body is not a kernel's Python.
    """
    from tilelang.frontend.template import EagerFunc, trace_prim_func

    @border
    def decorate(function: Callable[..., Any]) -> PrimFunc | EagerFunc:
        return EagerFunc(function, "T.prim_func") if eager_jit else trace_prim_func(function)

    return decorate if fn is None else decorate(fn)


def _names(text: Any, op_name: str) -> list[str]:
    """``"m, n"`` or ``"m n"`` as names."""
    check_type(text, str, f"{op_name} takes names as a string", f'{op_name}("m, n")')
    names = [name for name in re.split(r"[,\s]+", text) if name]
    for name in names:
        if not name.isidentifier():
            raise TileValueError(f"{name!r} is not a name", expected="an identifier")
    if not names:
        raise TileValueError(f"{op_name} without a name", expected=f'{op_name}("m, n")')
    return names


def dynamic(name: str, dtype: object = "int32") -> Any:
    """Declare run-time dimensions: one variable, or a tuple for several names (``"m, n"``).

    A name means one size, however often it is written.

    Raises:
        TileTypeError: ``dtype`` is not an integer type.
    """
    with placed():
        kind = DType(dtype)
        if not kind.is_integer:
            raise TileTypeError(
                "a dimension must be an integer", expected="int32 or int64", got=str(kind)
            )
        symbols = tuple(_dimension(symbol, kind) for symbol in _names(name, "T.dynamic"))
    return symbols[0] if len(symbols) == 1 else symbols


@lru_cache(maxsize=1024)
def _dimension(name: str, kind: DType) -> Var:
    return Var(name, kind)


symbolic = dynamic
symbolics = dynamic


def const(name: str, dtype: object = "int32") -> Any:
    """Declare compile-time dimensions of an eager kernel, inferred from the call's tensors.

    Raises:
        TileSyntaxError: outside of an eager kernel.
    """
    hooks = builder("T.const").hooks
    if hooks is None:
        raise TileSyntaxError(
            "T.const is used outside an eager kernel",
            expected="a body of a function decorated with @tilelang.jit",
            hint="in a prim_func use Python ints or T.dynamic",
        )
    constants = tuple(hooks.const(symbol, DType(dtype)) for symbol in _names(name, "T.const"))
    return constants[0] if len(constants) == 1 else constants


def empty(*shape: Any, dtype: object = "float32") -> BufferNode:
    """Create an uninitialized output tensor, which the function must return.

    ``T.empty((M, N), dtype)``, ``T.empty(M, N, dtype=dtype)`` and ``T.empty([M], dtype)``.

    Args:
        shape: extents, integers or expressions of symbols and sizes; at least one.
        dtype: element type in any form that ``T.dtype`` accepts.

    Raises:
        TileValueError: no extent.
    """
    dims = list(shape)
    if len(dims) > 1 and is_element_type(dims[-1]):
        dtype = dims.pop()
    extents = extents_of(dims[0]) if len(dims) == 1 else tuple(dims)
    if not extents:
        raise TileValueError(
            "T.empty needs at least one dimension",
            expected="T.empty((M, N), dtype)",
            hint="for one value use T.empty((1,), dtype)",
        )
    described.check_extents("T.empty", extents)
    buffer = BufferNode("", Shape(extents), element_type(dtype) or DType("float32"))
    return builder("T.empty").add_output(buffer)


borders(globals(), __all__)
