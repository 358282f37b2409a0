"""Buffer declarations: their options, and tensors that view existing memory.

``T.Tensor``, ``T.Buffer`` and ``T.match_buffer`` take the options of TVM's buffers. An option is
either applied or refused, never ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tilelang.errors import TileTypeError, TileUnsupportedError, TileValueError, shown
from tilelang.frontend.ir_builder import builder
from tilelang.frontend.regions import check_view
from tilelang.frontend.values import element_type, extents_of
from tilelang.ir.buffer import Buffer, Shape, as_extent
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Const, Expr, Var, as_expr
from tilelang.ir.stmt import View
from tilelang.tracebacks import borders


def check_extents(owner: str, extents: Sequence[Any]) -> None:
    """Refuse constant extents below 0; 0 is an empty tensor.

    Raises:
        TileValueError: a negative one.
    """
    for number, extent in enumerate(extents):
        known = int(extent) if isinstance(extent, Const) else extent
        if isinstance(known, int) and known < 0:
            raise TileValueError(
                f"the extent of dimension {number} of {owner} is negative",
                expected="0 or more elements",
                got=str(known),
                hint='an extent known at run time only is T.dynamic("n")' if known == -1 else None,
            )


def checked_offset(
    owner: str, elem_offset: object, *, align: object = 0, offset_factor: Any = 0,
    buffer_type: object = "", axis_separators: object = None,
) -> int | Expr:  # fmt: skip
    """Return the element offset of a buffer, 0 for none; check its other options.

    Args:
        owner: the function, for messages.
        elem_offset: elements between the start of the memory and the first element.
        align: a power of two that divides the address in bytes. Generated code does not rely on
            it: a launch checks that an address is a multiple of the element size, and vector
            accesses check what they need beyond that.
        offset_factor: divides ``elem_offset``.
        buffer_type: "" or "default".
        axis_separators: where groups of axes end. Memory is flat: they move no element.

    Raises:
        TileUnsupportedError: an option that would change the meaning of an access.
        TileValueError: an invalid option, a negative constant offset, or one that
            ``offset_factor`` does not divide.
    """
    for name, value in (("align", align), ("offset_factor", offset_factor)):
        if isinstance(value, bool) or not isinstance(value, int) or value < -1:
            raise TileValueError(
                f"{name} of {owner} is not a number", expected="an int, 0 for none", got=repr(value)
            )
    if isinstance(align, int) and align > 0 and align & (align - 1):
        raise TileValueError(
            f"align={align} of {owner} is not a power of 2",
            expected="a power of two",
            got=str(align),
        )
    if buffer_type not in ("", "default"):
        raise TileUnsupportedError(
            f"{owner} with buffer_type={buffer_type!r}",
            expected="'' or 'default'",
            hint="a dimension with stride 0 repeats its one element",
        )
    ends = () if axis_separators is None else axis_separators
    if (
        not isinstance(ends, (tuple, list))
        or any(not isinstance(end, int) or end < 0 for end in ends)
        or list(ends) != sorted(ends)
    ):
        raise TileValueError(
            f"axis_separators of {owner} are not numbers of axes",
            expected="ints in rising order, e.g. [1]",
            got=repr(axis_separators),
        )
    offset = as_extent(0 if elem_offset is None else elem_offset)
    if isinstance(offset, int) and offset < 0:
        raise TileValueError(
            f"elem_offset of {owner} is negative", expected="0 or more elements", got=str(offset)
        )
    if isinstance(offset, int) and offset_factor > 0 and offset % offset_factor:
        raise TileValueError(
            f"elem_offset of {owner} is not a multiple of its offset_factor",
            expected=f"a multiple of {offset_factor}",
            got=str(offset),
        )
    return offset


def is_same_memory(a: str, b: str) -> bool:
    """Whether two scopes are the same kind of memory: shared memory has two names."""
    shared = ("shared", "shared.dyn")
    return a == b or (a in shared and b in shared)


def reach(shape: Sequence[int | Expr], strides: Sequence[int | Expr] | None) -> int | None:
    """Elements from the first to one past the last; None when the extents are not constant."""
    if any(isinstance(element, Expr) for element in (*shape, *(strides or ()))):
        return None
    extents = [int(str(element)) for element in shape]
    if 0 in extents:
        return 0
    if strides is None:
        return prod(extents)
    return 1 + sum((n - 1) * int(str(step)) for n, step in zip(extents, strides))


def make_tensor(
    ptr: Any, shape: Any, dtype: object = "float32", strides: Sequence[Any] | None = None, *,
    elem_offset: Any = None, scope: str | None = None, align: int = 0, offset_factor: int = 0,
    buffer_type: str = "", axis_separators: object = None,
) -> Buffer:  # fmt: skip
    """Make a global tensor at a pointer, or a view of a tensor's memory with another shape.

    The pointer is a parameter, an address expression or an element of an int64 table. For a view,
    pass the tensor or tile, or its ``.data``. Accesses outside ``shape`` are guarded as those of
    parameters are.

    Args:
        ptr: where the memory starts.
        shape, dtype, strides: see ``T.Tensor``.
        elem_offset: elements of ``dtype`` between the start of the memory and the first element.
        scope: the scope of the memory, which is checked.
        align, offset_factor, buffer_type, axis_separators: see ``T.Tensor``.

    Raises:
        TileTypeError: no pointer, or memory of another scope.
        TileValueError: a negative extent, or a view that is known to exceed its memory.
    """
    active = builder("T.make_tensor")
    kind = element_type(dtype) or DType("float32")
    offset = checked_offset(
        "T.make_tensor", elem_offset, align=align, offset_factor=offset_factor,
        buffer_type=buffer_type, axis_separators=axis_separators,
    )  # fmt: skip
    steps = None if strides is None else tuple(Shape(extents_of(strides)))
    extents = Shape(extents_of(shape))
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
    memory = ptr.storage if isinstance(ptr, Buffer) and not ptr.is_var else "global"
    if scope is not None and not is_same_memory(scope, memory):
        raise TileTypeError(
            f"T.make_tensor with scope={scope!r} of other memory",
            expected=f"scope={memory!r}, or none",
        )
    if isinstance(ptr, Buffer) and not ptr.is_var:
        check_view("T.make_tensor", ptr)
        start = as_extent(_in_units_of(kind, ptr) + offset)
        buffer = Buffer("", extents, kind, ptr.storage, steps, start, ptr.data)
        _check_inside(buffer, ptr)
        active.emit(View(buffer=buffer))
    else:
        source = as_expr(ptr) if isinstance(ptr, (Buffer, Expr)) else None
        if source is None or not (source.dtype.is_handle or source.dtype.is_integer):
            raise TileTypeError(
                "T.make_tensor needs a pointer",
                expected="a T.ptr parameter, an int64 address or an element of an address table",
                got=shown(ptr),
            )
        buffer = Buffer("", extents, kind, "global", steps, offset)
        active.emit(View(buffer=buffer, source=source))
    active.live_in(buffer)
    return buffer


def _in_units_of(kind: DType, base: Buffer) -> Any:
    """Where ``base`` starts in its storage, counted in elements of ``kind``."""
    start = base.elem_offset
    if kind is base.dtype or (isinstance(start, int) and start == 0):
        return start
    return as_expr(start) * base.dtype.width // kind.width


def _check_inside(view: Buffer, base: Buffer) -> None:
    """Refuse a view of which it is known that it exceeds the memory of ``base``."""
    needed, available = reach(view.shape, view.strides), reach(base.shape, base.strides)
    if needed is None or available is None or needed == 0:
        return
    if isinstance(view.elem_offset, Expr) or isinstance(base.elem_offset, Expr):
        return
    bits = (view.elem_offset + needed) * view.dtype.width
    limit = (base.elem_offset + available) * base.dtype.width
    if bits > limit:
        raise TileValueError(
            f"the tensor exceeds the memory of `{base.name}`",
            expected=f"at most {limit // 8} bytes of `{base.name}`",
            got=f"{tuple(view.shape)} of {view.dtype} from element {view.elem_offset} on: "
            f"{bits // 8} bytes",
        )


def match_buffer(
    param: Any, shape: Any, dtype: object = "float32", data: object = None,
    strides: Sequence[Any] | None = None, elem_offset: Any = None, scope: str | None = None,
    align: int = 0, offset_factor: int = 0, buffer_type: str = "", axis_separators: object = None,
) -> Buffer:  # fmt: skip
    """Bind ``param``'s memory to a buffer: the older spelling of :func:`make_tensor`.

    Args:
        param: a pointer, or a tensor or its ``.data``.
        data: accepted if it is the data of ``param``.
        shape, dtype, strides, elem_offset, scope: as for :func:`make_tensor`.
        align, offset_factor, buffer_type, axis_separators: see ``T.Tensor``.

    Raises:
        TileTypeError: ``data`` of another buffer.
    """
    if data is not None and data is not getattr(param, "data", param):
        raise TileTypeError(
            "T.match_buffer has the data of another buffer",
            expected="data of the first argument, or none",
            got=shown(data),
        )
    return make_tensor(
        param, shape, dtype, strides, elem_offset=elem_offset, scope=scope, align=align,
        offset_factor=offset_factor, buffer_type=buffer_type, axis_separators=axis_separators,
    )  # fmt: skip


make_tensor_from_addr = make_tensor
borders(globals(), ("make_tensor", "match_buffer"))
