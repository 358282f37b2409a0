"""Region operands of tile operations: what the user wrote, with extents that fit.

An operand is a whole buffer, a region (slices) or an element (``A[i, j]``), which anchors a tile:
it says where the tile starts, the other operand how large it is. The functions here turn operands
into ``Region`` nodes of equal extents, and report why two operands do not match.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np

from tilelang.errors import TileIndexError, TileTypeError, TileValueError, shown
from tilelang.ir import expr as E
from tilelang.ir.bounds import interval
from tilelang.ir.buffer import OPAQUE, Buffer, Region, Shape, as_extent, is_same_extent
from tilelang.ir.dtypes import dtype as DType, max_value, min_value
from tilelang.ir.emitter import emitter
from tilelang.ir.simplify import simplify
from tilelang.ir.stmt import Eval
from tilelang.target.instruction_table import ROWS

Extent = int | E.Expr
RUN = 32  # neighbours that a slice in a scalar statement may have
_KINDS: dict[str, Any] = {
    "True or False": int,
    "a dict": Mapping,
    "a list": (list, tuple),
    "an int": Integral,
    "text": str,
}
# The kinds of options that only change how something is done, by their names.
_OPTIONS = {
    **dict.fromkeys(
        ("disable_tma", "enable", "explicit", "prefer_async", "return_prev", "sat", "use_2cta"),
        "True or False",
    ),
    **dict.fromkeys(("annotations",), "a dict"),
    **dict.fromkeys(("group", "order", "stage", "sync"), "a list"),
    **dict.fromkeys(("coalesced_width", "unroll_factor"), "an int"),
    **dict.fromkeys(("message", "msg", "name"), "text"),
}
_INNERMOST = {"local": 0, "shared": 1, "global": 2}


def region_of(operand: object, op_name: str, role: str = "operand") -> Region:
    """``operand`` as a region; an element ``A[i, j]`` becomes an anchored one.

    Args:
        operand: a buffer, a region or an element of a buffer.
        op_name: the operation, for errors, e.g. ``"T.copy"``.
        role: which operand it is, for errors, e.g. ``"source"``.
    """
    if isinstance(operand, Region):
        return operand
    if isinstance(operand, Buffer):
        return replace(operand.whole(), anchored=True) if operand.is_var else operand.whole()
    if isinstance(operand, E.Load):
        if any(index.dtype.lanes > 1 for index in operand.indices):
            raise TileTypeError(
                f"the {role} of {op_name} is a vector element",
                expected="a buffer, a region or an element with scalar indices",
                got=f"`{operand!r}`",
            )
        return Region(operand.buffer, operand.indices, (1,) * len(operand.indices), anchored=True)
    raise TileTypeError(
        f"the {role} of {op_name} is not a buffer",
        expected="a buffer, a region such as A[0:64, k] or an element such as A[i, j]",
        got=describe(operand),
    )


def tile_of(operand: object, op_name: str, role: str = "operand") -> Region:
    """``operand`` as a region with extents of its own: a buffer or a region, not an element."""
    region = region_of(operand, op_name, role)
    if region.anchored and not region.buffer.is_var:
        raise TileTypeError(
            f"the {role} of {op_name} is a single element",
            expected="a whole buffer or a region with slices",
            got=f"`{operand!r}`",
            hint=f"write slices, e.g. "
            f"{region.buffer.name}[{', '.join(':' for _ in region.extents)}]",
        )
    return region


def describe(value: object) -> str:
    """``value`` in an error: short and without addresses."""
    if isinstance(value, Buffer):
        return f"the buffer `{value.name}` of shape {text_of(value.shape)}"
    if isinstance(value, (E.Expr, Region)):
        return f"`{value!r}`"
    text = shown(value)
    return f"a {type(value).__name__}" if " at 0x" in text else text


def text_of(extents: Sequence[object]) -> str:
    """Extents as ``(128, 64)``."""
    inner = ", ".join(str(extent) for extent in extents)
    return f"({inner},)" if len(extents) == 1 else f"({inner})"


def count_of(number: int, noun: str) -> str:
    """``1 dimension``, ``2 dimensions``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def are_equal_extents(a: Extent, b: Extent) -> bool:
    """Whether two extents are provably the same."""
    if is_same_extent(a, b):
        return True
    if isinstance(a, int) and isinstance(b, int):
        return False
    difference = simplify(E.as_expr(a) - E.as_expr(b))
    return isinstance(difference, E.Const) and difference.value == 0


def are_equal_shapes(a: Sequence[Extent], b: Sequence[Extent]) -> bool:
    """Whether two shapes are provably the same."""
    return len(a) == len(b) and all(are_equal_extents(x, y) for x, y in zip(a, b, strict=True))


def as_run(value: object) -> E.Load | None:
    """A slice of a few neighbours of the last dimension as a vector element, e.g.
    ``A[i, j:j + 4]`` as ``A[i, T.Ramp(j, 1, 4)]``; None for anything else."""
    if not isinstance(value, Region) or value.anchored:
        return None
    extents = [extent if isinstance(extent, int) else simplify(extent) for extent in value.extents]
    count = extents[-1].value if isinstance(extents[-1], E.Const) else extents[-1]
    if not isinstance(count, int) or not 1 <= count <= RUN:
        return None
    if not all(is_same_extent(extent, 1) for extent in extents[:-1]):
        return None
    last = value.mins[-1]
    if count > 1:
        last = E.Ramp(last, E.const(1, last.dtype), count)
    return E.Load(value.buffer, (*value.mins[:-1], last))


def constant_extents(region: Region, op_name: str, role: str) -> tuple[int, ...]:
    """The extents of ``region`` as ints."""
    numbers: list[int] = []
    for extent in region.extents:
        known = extent if isinstance(extent, int) else simplify(extent)
        if isinstance(known, E.Const):
            known = int(known)
        if not isinstance(known, int):
            raise TileValueError(
                f"the {role} of {op_name} has an extent that is not constant",
                expected="extents known at compile time",
                got=f"`{region!r}` with extents {text_of(region.extents)}",
            )
        numbers.append(known)
    return tuple(numbers)


def check_plain(region: Region, op_name: str, role: str) -> None:
    """Barriers, descriptors and tensor memory are not tiles."""
    if region.scope() in OPAQUE or region.dtype.is_handle:
        raise TileTypeError(
            f"the {role} of {op_name} does not hold numbers",
            expected="a tile in global, shared, fragment or local memory",
            got=f"`{region.buffer.name}`, {region.dtype} in {region.scope()} memory",
        )


def check_view(op_name: str, source: Buffer) -> None:
    """Tensor memory has views, barriers and descriptors have none."""
    if source.storage != "shared.tmem":
        check_plain(source.whole(), op_name, "source")


# -- agreement of two operands --------------------------------------------------------------------
def align(src: object, dst: object, op_name: str) -> tuple[Region, Region] | None:
    """Source and destination with extents that agree, or None when both are elements.

    1. Two whole buffers must have the same shape.
    2. An element takes the extents of the other side, aligned to the right; missing leading
       dimensions are 1, leading 1s that the element's buffer does not have are dropped.
    3. Two elements are a scalar assignment (None).
    4. Otherwise extents of 1 are left out and the rest must match in order.
       A run-time extent that matches an extent 1 of the innermost side is 1.
    5. Where they have equal number but differ in size, the side in the innermost memory
       (fragment or local, shared, global; the source if equal) says how much is copied.
    """
    a, b = region_of(src, op_name, "source"), region_of(dst, op_name, "destination")
    if a.anchored and b.anchored:
        return None
    if a.anchored:
        return _take_extents(a, b, op_name), b
    if b.anchored:
        return a, _take_extents(b, a, op_name)
    if isinstance(src, Buffer) and isinstance(dst, Buffer):
        if not are_equal_shapes(src.shape, dst.shape):
            raise TileValueError(
                f"the buffers of {op_name} have different shapes",
                expected=f"`{dst.name}` of shape {text_of(src.shape)}, as `{src.name}`",
                got=f"shape {text_of(dst.shape)}",
                hint=_where_it_starts(src, dst),
            )
        return a, b
    return _match(a, b, op_name)


def _where_it_starts(src: Buffer, dst: Buffer) -> str:
    """The hint for a copy between two shapes: the anchor is in the larger buffer, or in a tensor,
    where a tile may be partly out of bounds."""
    tensor = next((operand for operand in (src, dst) if operand.storage == "global"), None)
    for operand, anchored in ((src, dst), (dst, src)):
        pairs = [*zip(reversed(operand.shape), reversed(anchored.shape))]
        sizes = all(isinstance(n, int) for pair in pairs for n in pair)
        if sizes and operand.ndim >= anchored.ndim and all(a >= b for a, b in pairs):
            tensor = operand
            break
    if tensor is None:
        return "use slices of one shape"
    zeros = ", ".join("0" * tensor.ndim)
    return f"say where the tile starts, e.g. {tensor.name}[{zeros}], or use slices"


def _take_extents(anchor: Region, region: Region, op_name: str) -> Region:
    """``anchor`` with the extents of ``region``, aligned to the right."""
    rank = len(anchor.mins)
    extents: tuple[Extent, ...] = region.extents
    surplus = len(extents) - rank
    if surplus > 0:
        if not all(is_same_extent(extent, 1) for extent in extents[:surplus]):
            raise TileIndexError(
                f"the tile of {op_name} has more dimensions than `{anchor.buffer.name}`",
                expected=f"at most {count_of(rank, 'dimension')} larger than 1, as `{anchor!r}`",
                got=f"`{region!r}` with extents {text_of(extents)}",
            )
        extents = extents[surplus:]
    extents = (1,) * (rank - len(extents)) + tuple(extents)
    region = Region(anchor.buffer, anchor.mins, extents)
    check_inside(region, op_name)
    return region


def check_inside(region: Region, op_name: str) -> None:
    """A constant overrun of on-chip memory, which nothing guards, is an error here."""
    if region.scope() == "global":
        return
    for dim, (low, extent) in enumerate(zip(region.mins, region.extents, strict=True)):
        size = region.buffer.shape[dim]
        if not (isinstance(low, E.Const) and isinstance(extent, int) and isinstance(size, int)):
            continue
        if int(low) + extent > size:
            raise TileIndexError(
                f"the tile of {op_name} does not fit into `{region.buffer.name}`",
                expected=f"at most {size} elements in dimension {dim}",
                got=f"elements {int(low)} to {int(low) + extent - 1}",
            )


def _match(a: Region, b: Region, op_name: str) -> tuple[Region, Region]:
    """Rules 4 and 5 of :func:`align`."""
    if depth(b.scope()) < depth(a.scope()):
        a = _single(a, b)
    else:
        b = _single(b, a)
    dims_a, dims_b = a.tile_dims(), b.tile_dims()
    if len(dims_a) != len(dims_b):
        raise TileValueError(
            f"the operands of {op_name} have different numbers of dimensions larger than 1",
            expected=f"extents that match {text_of(a.extents)} of `{a!r}`",
            got=f"{text_of(b.extents)} of `{b!r}`",
        )
    pairs = list(zip(dims_a, dims_b, strict=True))
    if all(are_equal_extents(a.extents[i], b.extents[j]) for i, j in pairs):
        return a, b
    if depth(b.scope()) < depth(a.scope()):
        return _resized(a, dims_a, [b.extents[j] for j in dims_b], op_name), b
    return a, _resized(b, dims_b, [a.extents[i] for i in dims_a], op_name)


def _single(region: Region, tile: Region) -> Region:
    """``region`` with one element in the dimensions of run-time extent where ``tile``, aligned to
    the right, has one."""
    sizes = (*(1,) * len(region.extents), *tile.extents)[-len(region.extents) :]
    if len(region.tile_dims()) <= len(tile.tile_dims()):
        return region
    extents = tuple(
        1 if isinstance(extent, E.Expr) and is_same_extent(size, 1) else extent
        for extent, size in zip(region.extents, sizes, strict=True)
    )
    return Region(region.buffer, region.mins, extents)


def depth(scope: str) -> int:
    """0 for registers, 1 for shared, 2 for global memory."""
    return _INNERMOST[scope.split(".")[0]]


def _resized(region: Region, dims: Sequence[int], sizes: Sequence[Extent], op_name: str) -> Region:
    extents = list(region.extents)
    for dim, size in zip(dims, sizes, strict=True):
        extents[dim] = size
    resized = Region(region.buffer, region.mins, tuple(extents))
    check_inside(resized, op_name)
    return resized


# -- scalars and addresses -------------------------------------------------------------------------
def element_of(operand: object, op_name: str, role: str = "operand") -> tuple[Buffer, Any]:
    """Buffer and indices of one element: ``A[i]``, a region of one element, a 1-element buffer."""
    region = region_of(operand, op_name, role)
    if all(is_same_extent(extent, 1) for extent in region.extents):
        return region.buffer, region.mins
    raise TileTypeError(
        f"the {role} of {op_name} is not one element",
        expected="an element such as A[i, j]",
        got=f"`{operand!r}` with extents {text_of(region.extents)}",
    )


def address_of_operand(operand: object, op_name: str, access: str = "rw") -> E.Expr:
    """A pointer: the address of a buffer, region or element, or a handle expression itself."""
    if isinstance(operand, E.Expr) and not isinstance(operand, E.Load) and operand.dtype.is_handle:
        return operand
    region = region_of(operand, op_name, "address")
    return E.AddressOf(region.buffer, region.mins, access)


def scalar(value: object, op_name: str, role: str = "operand") -> E.Expr:
    """``value`` as a scalar expression; buffers that are not scalars are refused by name."""
    if isinstance(value, Region) or (isinstance(value, Buffer) and not value.is_var):
        raise TileTypeError(
            f"the {role} of {op_name} is a whole tile",
            expected="a scalar",
            got=describe(value),
            hint="index one element, e.g. A[i, j]",
        )
    expr = E.as_expr(value)
    if isinstance(expr, E.Load) and expr.buffer.storage in OPAQUE:
        raise TileTypeError(
            f"the {role} of {op_name} is not a number",
            expected="a scalar",
            got=f"{describe(expr)} in {expr.buffer.storage} memory",
        )
    return expr


def integer(value: object, op_name: str, role: str) -> E.Expr:
    """``value`` as a scalar integer; floats and booleans are refused."""
    expr = scalar(value, op_name, role)
    if not expr.dtype.is_integer:
        raise TileTypeError(
            f"the {role} of {op_name} is not an integer",
            expected="an integer",
            got=f"{describe(value)} of dtype {expr.dtype}",
            hint="convert with T.int32(x)",
        )
    return expr


def bound(value: Any, role: str) -> E.Expr:
    """An extent or a bound of a loop or a grid: an integer."""
    if isinstance(value, bool) or not isinstance(value, (int, E.Expr, Buffer)):
        index = getattr(value, "__index__", None)
        if index is None or isinstance(value, bool):
            raise TileTypeError(
                f"{role} is not an integer",
                expected="an int or an integer expression",
                got=shown(value),
                hint="use T.ceildiv(n, block) or `//`" if isinstance(value, float) else None,
            )
        value = index()
    expr = E.as_expr(value)
    if not expr.dtype.is_integer:
        raise TileTypeError(
            f"{role} is not an integer",
            expected="an int or an integer expression",
            got=f"`{expr!r}` of dtype {expr.dtype}",
            hint="convert with T.int32(x)",
        )
    return expr


def constant_int(value: object, op_name: str, role: str) -> int:
    """``value`` as a Python int; anything else is an error."""
    if isinstance(value, E.Const) and not isinstance(value.value, float):
        value = int(value.value)
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TileTypeError(
            f"the {role} of {op_name} is not a constant int",
            expected="an int known at compile time",
            got=describe(value),
        )
    return int(value)


def constant_bool(value: object, op_name: str, role: str) -> bool:
    """``value`` as a Python bool; expressions are refused."""
    known = value.value if isinstance(value, E.Const) else value
    if isinstance(known, int) and known in (0, 1):
        return bool(known)
    raise TileTypeError(
        f"the {role} of {op_name} is not a constant bool",
        expected="True or False, known at compile time",
        got=describe(value),
    )


def shape_tuple(shape: object) -> tuple[Any, ...]:
    """``shape`` as a tuple: an int, an expression, a tuple or a list."""
    return tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)


def constant_shape(shape: object, op_name: str) -> Shape:
    """``shape`` with extents that are ints of at least 0."""
    numbers: list[int] = []
    for extent in shape_tuple(shape):
        known = as_extent(extent)
        if isinstance(known, E.Expr):
            known = as_extent(simplify(known))
        if isinstance(known, E.Expr):
            raise TileValueError(
                f"an extent of {op_name} is not constant",
                expected="extents that are compile-time ints",
                got=f"`{known!r}` in {text_of(shape_tuple(shape))}",
                hint="use a Python int or T.const(...); only global tensors have run-time sizes",
            )
        if known < 0:
            raise TileValueError(
                f"an extent of {op_name} is negative",
                expected="extents of at least 0",
                got=text_of(shape_tuple(shape)),
            )
        numbers.append(known)
    return Shape(numbers)


# -- emission --------------------------------------------------------------------------------------
def emit_call(op_name: str, op: str, *args: object, **attrs: object) -> E.Call:
    """Emit the intrinsic ``op`` as a statement; ``op_name`` is the user's name of it for errors.

    Returns:
        The call that was emitted. ``T.evaluate`` and ``T.if_then_else`` move the statement to
        where they are; other uses leave it.
    """
    active = emitter(op_name)
    expr = E.call(ROWS[op], *args, dtype="void", **attrs)
    assert isinstance(expr, E.Call)
    issued = expr.issue()
    active.emit(Eval(value=issued))
    return issued


def check_options(**options: object) -> None:
    """Refuse options of the wrong kind; None means absent. What is not in the table may be all."""
    for name, value in options.items():
        expected = _OPTIONS.get(name)
        known = value.value if isinstance(value, E.Const) else value
        is_truth = isinstance(known, int) and known in (0, 1)
        fits = is_truth if expected == "True or False" else not isinstance(known, bool)
        if value is None or expected is None or (fits and isinstance(known, _KINDS[expected])):
            continue
        raise TileTypeError(
            f"the option `{name}` is of the wrong kind", expected=expected, got=describe(value)
        )


def pairs(**options: object) -> tuple[tuple[str, object], ...]:
    """Options that were given, as pairs sorted by name; None and False mean absent."""
    check_options(**options)
    return tuple(
        (name, freeze(value))
        for name, value in sorted(options.items())
        if value is not None and value is not False
    )


def freeze(value: object) -> object:
    """``value`` with lists and dicts as tuples, so that it can be part of a frozen node."""
    if isinstance(value, dict):
        return tuple((key, freeze(entry)) for key, entry in value.items())
    return tuple(map(freeze, value)) if isinstance(value, (list, tuple)) else value


def cast_to(value: object, kind: DType) -> E.Expr:
    """``value`` as an expression of dtype ``kind``; literals take it directly."""
    if isinstance(value, (bool, int, float)):
        return E.const(value, kind)
    return E.cast(E.as_expr(value), kind)


def stored(value: object, kind: DType) -> E.Expr:
    """``value`` as an expression of dtype ``kind``, converted as a store does.

    Raises:
        TileValueError: no integer that ``value`` can be is one of ``kind``.
    """
    if kind.is_integer:
        check_number(value, kind.element_of)
    return cast_to(value, kind)


def check_number(value: object, kind: DType) -> None:
    """Raise TileValueError for a number that is none of ``kind``, and for a smallest or largest
    value that never is. What has a dtype and is computed modulo its width wraps in a store, too."""
    low, high = int(min_value(kind)), int(max_value(kind))
    if isinstance(value, E.Expr):
        ordered = isinstance(value, E.Binary) and value.op in ("min", "max")
        bounds = interval(value) if ordered and value.dtype.is_integer else None
        if bounds is None or (bounds.high >= low and bounds.low <= high):
            return
        op_name, shown = f"no value of `{value!r}` fits", f"{bounds.low} to {bounds.high}"
    else:
        number = value.item() if isinstance(value, np.generic) else value
        if not isinstance(number, (int, float)) or not math.isfinite(number):
            return
        if low <= int(number) <= high:
            return
        op_name, shown = f"the constant {number} does not fit", str(number)
    raise TileValueError(
        f"{op_name} {kind}",
        expected=f"{low} to {high}",
        got=shown,
        hint=f"to keep the low bits, write the conversion: T.cast(x, '{kind}')",
    )


def lost_fraction(element: E.Load, value: object) -> str | None:
    """The warning where an integer element loses a fraction, certainly or repeatedly: that of a
    constant, or of a sum that accumulates in the element."""
    if isinstance(value, E.Expr) and value.dtype.is_float:
        lossy = _has_fraction(value) and any(load is element for load in E.find(value, E.Load))
    else:
        lossy = isinstance(value, float) and value % 1 > 0
    if not lossy:
        return None
    return (
        f"`{element!r}` is {element.dtype}, and the fraction of `{value!r}` is lost at every "
        f"store; use a variable of dtype float32, or write T.cast(x, '{element.dtype}')"
    )


def _has_fraction(value: E.Expr) -> bool:
    """Whether arithmetic in ``value`` makes a fraction: a quotient, a function, a constant. What is
    loaded may be whole."""
    if isinstance(value, E.Const):
        return float(value) % 1 > 0
    if isinstance(value, E.Call):
        return value.op not in ("floor", "ceil", "round", "trunc", "nearbyint", "abs")
    if isinstance(value, E.Binary):
        return value.op == "div" or _has_fraction(value.a) or _has_fraction(value.b)
    if isinstance(value, E.Select):
        return _has_fraction(value.t) or _has_fraction(value.f)
    return isinstance(value, E.Unary) and _has_fraction(value.a)
