"""``T.prim_func``, parameter annotations, symbols, outputs and pointer views."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from tilelang.errors import TileSyntaxError, TileTypeError, TileValueError, shown
from tilelang.frontend.annot import (
    Buffer,
    DynAnnot,
    FragmentBufferAnnot,
    LocalBufferAnnot,
    PtrAnnot,
    SharedBufferAnnot,
    StridedTensorAnnot,
    TensorAnnot,
    _element_type,
    _extents,
    _is_element_type,
)
from tilelang.frontend.builder import builder, placed
from tilelang.frontend.described import (
    check_extents,
    check_options,
    checked_offset,
    reach,
    same_memory,
)
from tilelang.ir.buffer import Buffer as BufferNode
from tilelang.ir.buffer import Shape, as_extent
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Expr, Var, as_expr
from tilelang.ir.stmt import PrimFunc, View
from tilelang.tracebacks import border, borders

__all__ = [
    "Buffer",
    "FragmentBuffer",
    "LocalBuffer",
    "SharedBuffer",
    "StridedTensor",
    "Tensor",
    "const",
    "dyn",
    "dynamic",
    "empty",
    "make_tensor",
    "make_tensor_from_addr",
    "match_buffer",
    "prim_func",
    "ptr",
    "symbolic",
    "symbolics",
]

Tensor = TensorAnnot()
StridedTensor = StridedTensorAnnot()
FragmentBuffer = FragmentBufferAnnot()
SharedBuffer = SharedBufferAnnot()
LocalBuffer = LocalBufferAnnot()
dyn = DynAnnot(dtype=DType("int32"))
ptr = PtrAnnot()


@border
def prim_func(
    fn: Callable[..., Any] | None = None,
    *,
    eager_jit: bool = False,
    private: bool = False,
    check_well_formed: bool = True,
) -> Any:
    """Trace a function whose parameters are all annotated; the result is a ``PrimFunc``.

    With ``eager_jit`` the result is a template that is traced per call (``EagerFunc``). The other
    options are TVM's and have no effect.

    Raises:
        TileSyntaxError: a parameter is not annotated, or the body is not a kernel's Python.
    """
    from tilelang.frontend.template import EagerFunc, trace_prim_func

    @border
    def decorate(function: Callable[..., Any]) -> PrimFunc | EagerFunc:
        if eager_jit:
            return EagerFunc(function, "T.prim_func")
        return trace_prim_func(function)

    return decorate if fn is None else decorate(fn)


def _names(text: object, what: str) -> list[str]:
    """``"m, n"`` or ``"m n"`` as names."""
    if not isinstance(text, str):
        raise TileTypeError(
            f"{what} takes names as text", expected=f'{what}("m, n")', got=shown(text)
        )
    names = [name for name in re.split(r"[,\s]+", text) if name]
    for name in names:
        if not name.isidentifier():
            raise TileValueError(f"{name!r} is not a name", expected="an identifier")
    if not names:
        raise TileValueError(f"{what} without a name", expected=f'{what}("m, n")')
    return names


def dynamic(name: str, dtype: object = "int32") -> Any:
    """Declare run-time dimensions: one variable, or a tuple for several names (``"m, n"``).

    A name means one size, however often it is written.
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
    """Declare compile-time dimensions of an eager kernel, inferred from the call's tensors."""
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
    items = list(shape)
    if len(items) > 1 and _is_element_type(items[-1]):
        dtype = items.pop()
    extents = _extents(items[0]) if len(items) == 1 else tuple(items)
    if not extents:
        raise TileValueError(
            "T.empty needs at least one dimension",
            expected="T.empty((M, N), dtype)",
            hint="for one value use T.empty((1,), dtype)",
        )
    check_extents("T.empty", extents)
    buffer = BufferNode("", Shape(extents), _element_type(dtype) or DType("float32"))
    return builder("T.empty").add_output(buffer)


def make_tensor(
    ptr: Any,
    shape: Any,
    dtype: object = "float32",
    strides: Sequence[Any] | None = None,
    *,
    elem_offset: Any = None,
    scope: str | None = None,
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: object = None,
) -> BufferNode:
    """Make a global tensor of a pointer, or another shape of a tensor's memory.

    The pointer is a parameter, an address expression or an int64 table element. The memory is that
    of a tensor or tile, given itself or as its ``.data``.
    In-kernel accesses outside ``shape`` are guarded as for parameters.

    Args:
        ptr: where it starts.
        shape, dtype, strides: as of ``T.Tensor``.
        elem_offset: elements of ``dtype`` between that place and the first element.
        scope: of the memory, checked.
        align, offset_factor, buffer_type, axis_separators: see ``T.Tensor``.

    Raises:
        TileTypeError: no pointer, or memory of another scope.
        TileValueError: a negative extent, or the tensor certainly leaves the memory that it is
            made of.
    """
    active = builder("T.make_tensor")
    kind = _element_type(dtype) or DType("float32")
    check_options(
        "T.make_tensor", kind, align=align, offset_factor=offset_factor, buffer_type=buffer_type,
        axis_separators=axis_separators,
    )  # fmt: skip
    offset = checked_offset("T.make_tensor", elem_offset, offset_factor)
    steps = None if strides is None else tuple(Shape(_extents(strides)))
    extents = Shape(_extents(shape))
    check_extents("T.make_tensor", extents)
    if steps is not None and len(steps) != len(extents):
        raise TileValueError(
            "T.make_tensor has a different number of extents and strides",
            expected=f"{len(extents)} strides",
            got=f"{len(steps)}",
        )
    if isinstance(ptr, Var):
        owner = active.owner(ptr)
        ptr = ptr if owner is None else owner
    memory = ptr.storage if isinstance(ptr, BufferNode) and not ptr.is_var else "global"
    if scope is not None and not same_memory(scope, memory):
        raise TileTypeError(
            f"T.make_tensor with scope={scope!r} of other memory",
            expected=f"scope={memory!r}, or none",
        )
    if isinstance(ptr, BufferNode) and not ptr.is_var:
        start = as_extent(_in_units_of(kind, ptr) + offset)
        buffer = BufferNode("", extents, kind, ptr.storage, steps, start, ptr.data)
        _check_inside(buffer, ptr)
        active.emit(View(buffer=buffer))
    else:
        source = as_expr(ptr) if isinstance(ptr, (BufferNode, Expr)) else None
        if source is None or not (source.dtype.is_handle or source.dtype.is_integer):
            raise TileTypeError(
                "T.make_tensor needs a pointer",
                expected="a T.ptr parameter, an int64 address or an element of an address table",
                got=shown(ptr),
            )
        buffer = BufferNode("", extents, kind, "global", steps, offset)
        active.emit(View(buffer=buffer, source=source))
    active.live_in(buffer)
    return buffer


def _in_units_of(kind: DType, base: BufferNode) -> Any:
    """Where ``base`` starts in its storage, counted in elements of ``kind``."""
    start = base.elem_offset
    if kind is base.dtype or (isinstance(start, int) and start == 0):
        return start
    return as_expr(start) * base.dtype.width // kind.width


def _check_inside(view: BufferNode, base: BufferNode) -> None:
    """Refuse a tensor that certainly leaves the memory that it is made of."""
    wanted, there = reach(view.shape, view.strides), reach(base.shape, base.strides)
    if wanted is None or there is None or wanted == 0:
        return
    if isinstance(view.elem_offset, Expr) or isinstance(base.elem_offset, Expr):
        return
    bits = (view.elem_offset + wanted) * view.dtype.width
    most = (base.elem_offset + there) * base.dtype.width
    if bits > most:
        raise TileValueError(
            f"a tensor is made of `{base.name}`, which it leaves",
            expected=f"at most {most // 8} bytes of `{base.name}`",
            got=f"{tuple(view.shape)} of {view.dtype} from element {view.elem_offset} on: "
            f"{bits // 8} bytes",
        )


def match_buffer(
    param: Any,
    shape: Any,
    dtype: object = "float32",
    data: object = None,
    strides: Sequence[Any] | None = None,
    elem_offset: Any = None,
    scope: str | None = None,
    align: int = 0,
    offset_factor: int = 0,
    buffer_type: str = "",
    axis_separators: object = None,
) -> BufferNode:
    """Bind ``param``'s memory to a buffer: the older spelling of :func:`make_tensor`."""
    if data is not None and data is not getattr(param, "data", param):
        raise TileTypeError(
            "T.match_buffer with the data of something else",
            expected="data of the first argument, or none",
            got=shown(data),
        )
    return make_tensor(
        param, shape, dtype, strides, elem_offset=elem_offset, scope=scope, align=align,
        offset_factor=offset_factor, buffer_type=buffer_type, axis_separators=axis_separators,
    )  # fmt: skip


make_tensor_from_addr = make_tensor


borders(globals(), __all__)
