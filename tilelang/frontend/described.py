"""What descriptions of buffers may say, and whether a buffer is what a description says.

``T.Tensor``, ``T.Buffer``, ``T.match_buffer`` and their kin take the options of TVM's buffers. Each
is honoured or refused here: none is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilelang.errors import TileUnsupportedError, TileValueError
from tilelang.ir.buffer import Buffer, as_extent, same_extent
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Const, Expr

if TYPE_CHECKING:
    from tilelang.frontend.annot import BufferAnnot

__all__ = [
    "check_extents",
    "check_options",
    "checked_offset",
    "other_than_said",
    "reach",
    "same_memory",
]


def check_extents(what: str, extents: Sequence[Any]) -> None:
    """Refuse constant extents below 0; 0 is an empty tensor.

    Raises:
        TileValueError: a negative one.
    """
    for number, extent in enumerate(extents):
        known = int(extent) if isinstance(extent, Const) else extent
        if isinstance(known, int) and known < 0:
            raise TileValueError(
                f"the extent of dimension {number} of {what} is negative",
                expected="0 or more elements",
                got=str(known),
                hint='an extent known at run time only is T.dynamic("n")' if known == -1 else None,
            )


def check_options(
    what: str,
    kind: DType | None,
    *,
    align: object = 0,
    offset_factor: object = 0,
    buffer_type: object = "",
    axis_separators: object = None,
) -> None:
    """Refuse options that would mean something here.

    Args:
        what: the function, for messages.
        kind: element type; None where it is the argument's.
        align: bytes that the address is a multiple of, a power of two. Nothing rests on the
            promise: every address is checked to be a multiple of an element at launch, and vector
            accesses check what they need beyond that.
        offset_factor: what the element offset is a multiple of; see :func:`checked_offset`.
        buffer_type: "" or "default".
        axis_separators: where groups of axes end. Memory is flat: they move no element.

    Raises:
        TileUnsupportedError: an option that means something else than what always holds.
        TileValueError: no such option.
    """
    for name, value in (("align", align), ("offset_factor", offset_factor)):
        if isinstance(value, bool) or not isinstance(value, int) or value < -1:
            raise TileValueError(
                f"{name} of {what} is not a number", expected="an int, 0 for none", got=repr(value)
            )
    if isinstance(align, int) and align > 0 and align & (align - 1):
        raise TileValueError(
            f"align={align} of {what} is not a power of 2",
            expected="a power of two",
            got=str(align),
        )
    if buffer_type not in ("", "default"):
        raise TileUnsupportedError(
            f"{what} with buffer_type={buffer_type!r}",
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
            f"axis_separators of {what} are not numbers of axes",
            expected="ints in rising order, e.g. [1]",
            got=repr(axis_separators),
        )


def checked_offset(what: str, elem_offset: object, offset_factor: int) -> int | Expr:
    """The element offset; 0 for none.

    Raises:
        TileValueError: a negative constant, or one that ``offset_factor`` does not divide.
    """
    offset = as_extent(0 if elem_offset is None else elem_offset)
    if isinstance(offset, int) and offset < 0:
        raise TileValueError(
            f"elem_offset of {what} is negative", expected="0 or more elements", got=str(offset)
        )
    if isinstance(offset, int) and offset_factor > 0 and offset % offset_factor:
        raise TileValueError(
            f"elem_offset of {what} is not a multiple of its offset_factor",
            expected=f"a multiple of {offset_factor}",
            got=str(offset),
        )
    return offset


def same_memory(a: str, b: str) -> bool:
    """Whether two scopes are the same kind of memory: shared memory has two names."""
    shared = ("shared", "shared.dyn")
    return a == b or (a in shared and b in shared)


def other_than_said(annot: BufferAnnot, buffer: Buffer) -> tuple[str, str] | None:
    """The difference between the annotation of a macro's parameter and the buffer that is passed.
    Annotations of macros are documentation: the properties of the buffer count."""
    said_scope = annot.said_scope
    if said_scope is not None and not same_memory(said_scope, buffer.storage):
        return f"{said_scope} memory", f"in {buffer.storage} memory"
    if annot.dtype is not None and annot.dtype != buffer.dtype:
        return str(annot.dtype), f"of {buffer.dtype}"
    if annot.shape is None:
        return None
    if len(annot.shape) != buffer.ndim:
        return f"{len(annot.shape)} dimensions", f"of {buffer.ndim} dimensions"
    for dim, (declared, extent) in enumerate(zip(annot.shape, buffer.shape)):
        if _differ(declared.value, extent):
            return f"shape[{dim}] = {declared.value}", f"with shape[{dim}] = {extent}"
    return None


def _differ(declared: Any, extent: int | Expr) -> bool:
    """Whether two extents certainly are not the same."""
    if declared is None or isinstance(declared, Expr) or isinstance(extent, Expr):
        return False
    return not same_extent(declared, extent)


def reach(shape: Sequence[int | Expr], strides: Sequence[int | Expr] | None) -> int | None:
    """Elements from the first to behind the last; None when they are not known."""
    if any(isinstance(element, Expr) for element in (*shape, *(strides or ()))):
        return None
    extents = [int(str(element)) for element in shape]
    if 0 in extents:
        return 0
    if strides is None:
        total = 1
        for extent in extents:
            total *= extent
        return total
    return 1 + sum((n - 1) * int(str(step)) for n, step in zip(extents, strides))
