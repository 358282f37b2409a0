"""Buffers, regions of buffers, and the shape tuple that users compare with lists."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from math import prod
from operator import is_
from typing import Any, NoReturn, cast

from tilelang.errors import Loc, TileIndexError, TileTypeError, TileUnsupportedError, TileValueError
from tilelang.ir.arrays import NoArray, is_same
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import AddressOf, Const, Expr, ExprLike, Load, Var, as_expr, binary, const
from tilelang.ir.hints import PLAIN_BUFFER, BufferHints
from tilelang.ir.later import later
from tilelang.ir.trace_context import active_for
from tilelang.records import dataclass

SCOPES = (
    "global",
    "shared",  # static
    "shared.dyn",
    "shared.barrier",
    "shared.cluster_barrier",
    "shared.tmem",
    "local",
    "local.fragment",
    "local.var",
    "local.descriptor",
)
# Scopes whose elements are not numbers: only instructions take them.
OPAQUE = ("shared.barrier", "shared.cluster_barrier", "shared.tmem", "local.descriptor")


def row_major_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides, in elements, of a tensor with contiguous rows."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def as_extent(value: object) -> int | Expr:
    """A dimension: a plain int when it is constant, an integer expression otherwise."""
    if isinstance(value, bool):
        raise TileTypeError("a bool is used as an extent", expected="an int", got=repr(value))
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        raise TileTypeError(
            f"the float {value} is used as an extent", expected="an int", hint="use `//`, not `/`"
        )
    expr = as_expr(value)
    if isinstance(expr, Const) and not expr.dtype.is_bool:
        return expr.__index__()
    if not expr.dtype.is_integer:
        raise TileTypeError(
            "an extent must be an integer",
            expected="an int or integer expression",
            got=f"`{expr!r}` of dtype {expr.dtype}",
        )
    return expr


class Shape(tuple["int | Expr", ...]):
    """Extents of a buffer: plain ints where constant. Equal to a list or tuple of the same."""

    def __new__(cls, extents: Iterable[object]) -> Shape:
        return super().__new__(cls, [as_extent(extent) for extent in extents])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, (tuple, list)):
            return NotImplemented
        return len(self) == len(other) and all(
            is_same_extent(a, b) for a, b in zip(self, cast("tuple[Any, ...]", other))
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(tuple(extent if isinstance(extent, int) else id(extent) for extent in self))


def is_same_extent(a: object, b: object) -> bool:
    """Whether two extents are the same int or the same expression."""
    a = int(a.value) if isinstance(a, Const) else a
    b = int(b.value) if isinstance(b, Const) else b
    return a is b if isinstance(a, Expr) or isinstance(b, Expr) else bool(a == b)


@dataclass(frozen=True)
class Range:
    """``[min, min + extent)`` of one dimension."""

    min: Expr
    extent: int | Expr


@dataclass(frozen=True, eq=False, repr=False)
class Buffer(NoArray):
    """A multi-dimensional array in one memory scope.

    ``data`` is the storage: views of the same memory share it. ``strides`` (in elements) is None
    for row-major contiguous. ``elem_offset`` is added to every index computation.
    """

    name: str
    shape: Shape
    dtype: DType
    storage: str = "global"
    strides: tuple[int | Expr, ...] | None = None
    elem_offset: int | Expr = 0
    data: Var = field(default=cast(Var, None))
    attrs: BufferHints = PLAIN_BUFFER

    def __post_init__(self) -> None:
        if self.storage not in SCOPES:
            raise TileValueError(
                f"unknown scope {self.storage!r}", expected=", ".join(SCOPES), got=self.storage
            )
        object.__setattr__(self, "shape", Shape(self.shape))
        if self.data is None:
            object.__setattr__(self, "data", Var(self.name, DType("handle")))

    def scope(self) -> str:
        """The memory scope, e.g. "shared.dyn"."""
        return self.storage

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def is_var(self) -> bool:
        """Whether this is a scalar variable made by ``T.alloc_var``."""
        return self.storage == "local.var" and self.shape == (1,)

    def as_element(self) -> Expr | None:
        """The value of this buffer as an operand: only ``alloc_var`` has one."""
        return Load(self, (const(0),)) if self.is_var else None

    def stride_list(self) -> tuple[int | Expr, ...]:
        """Strides in elements, computed for contiguous buffers."""
        if self.strides is not None:
            return self.strides
        result: list[int | Expr] = []
        step: int | Expr = 1
        for extent in reversed(self.shape):
            result.append(step)
            step = as_extent(step * extent)
        return tuple(reversed(result))

    @property
    def has_unit_stride(self) -> bool:
        """Whether neighbours of the last dimension are certainly adjacent; a stride of run time
        may be anything."""
        last = self.stride_list()[-1]
        return isinstance(last, int) and last == 1

    @property
    def constant_bytes(self) -> int:
        """Bytes of its elements, where extents that are not constants count as 1."""
        count = prod(extent for extent in self.shape if isinstance(extent, int))
        return -(-count * self.dtype.width // 8)

    def constant_span(self, loc: Loc | None = None) -> int:
        """Elements from the first to the last one.

        Raises:
            TileUnsupportedError: an extent is not a constant.
        """
        span = 1
        for extent, stride in zip(self.shape, self.stride_list()):
            if not isinstance(extent, int) or not isinstance(stride, int):
                raise TileUnsupportedError(
                    f"`{self.name}` has an extent that is not a constant",
                    expected="compile-time extents for shared, fragment and local buffers",
                    loc=loc,
                )
            span += (extent - 1) * stride
        return span

    def whole(self) -> Region:
        """All of the buffer as a region."""
        return Region(self, tuple(const(0) for _ in self.shape), tuple(self.shape))

    def access_ptr(
        self, access: object = "r", *_: object, offset: ExprLike = 0, **__: object
    ) -> Expr:
        """A pointer to the start (plus ``offset`` elements) for builtins that take addresses."""
        zero: list[Expr] = [const(0)] * (self.ndim - 1)
        return AddressOf(self, (*zero, as_expr(offset)), str(access))

    def __len__(self) -> int:
        raise TileTypeError(f"len() of the buffer `{self.name}`", hint=f"use {self.name}.shape[0]")

    def __iter__(self) -> Iterator[Expr]:
        raise TileTypeError(
            f"the buffer `{self.name}` is not iterable",
            hint="loop with `for i in T.serial(n)` or T.Parallel and index it; T.reduce_sum, "
            "T.reduce_max and T.reduce_min combine the elements of a tile",
        )

    def __bool__(self) -> bool:
        element = self.as_element()
        if element is not None:
            return bool(element)
        raise TileTypeError(
            f"the buffer `{self.name}` is used as a condition",
            expected="a scalar expression",
            hint=f"compare an element, e.g. {self.name}[0] != 0",
        )

    def __getitem__(self, key: object) -> Any:
        return index_buffer(self, key)

    def __setitem__(self, key: object, value: object) -> None:
        active_for(f"{self.name}[...] = ...").store(self, key, value)

    def __repr__(self) -> str:
        return self.name

    # Operators of an alloc_var act on its value; other buffers have none.
    def _value(self) -> Expr:
        return as_expr(self)

    def __eq__(self, other: object) -> Any:
        return binary("eq", self, other) if self.is_var else is_same(self, other, "==")

    def __ne__(self, other: object) -> Any:
        return binary("ne", self, other) if self.is_var else not is_same(self, other, "!=")

    def __hash__(self) -> int:
        return id(self) >> 4


def _forward(name: str) -> Any:
    def method(self: Buffer, *args: Any) -> Any:
        return getattr(self._value(), name)(*args)

    method.__name__ = name
    return method


_OPERATORS = (
    "add radd sub rsub mul rmul truediv rtruediv floordiv rfloordiv mod rmod divmod rdivmod lshift "
    "rlshift rshift rrshift and rand or ror xor rxor neg pos invert lt le gt ge pow rpow abs round"
).split()
for _name in (*_OPERATORS, "int", "index", "float", "floor", "ceil", "trunc"):
    setattr(Buffer, f"__{_name}__", _forward(f"__{_name}__"))


region_text: later[[Region], str] = later("print_expr:region_text")
"""``region`` as Python text."""
simplified: later[[Expr], Expr] = later("simplify:simplify")
"""An expression with the same value, smaller where a rule applies."""


@dataclass(frozen=True, eq=False, repr=False)
class Region(NoArray):
    """A box of a buffer: one ``min`` and one extent per dimension.

    ``anchored`` is true for an operand written as an element (``A[i, j]``): it says where a tile
    starts; its extents (all 1) come from the other operand of the tile operation.
    """

    buffer: Buffer
    mins: tuple[Expr, ...]
    extents: tuple[int | Expr, ...]
    anchored: bool = False

    @property
    def region(self) -> list[Range]:
        """The ranges, one per dimension."""
        return [Range(low, extent) for low, extent in zip(self.mins, self.extents)]

    @property
    def shape(self) -> Shape:
        """Extents of all dimensions."""
        return Shape(self.extents)

    @property
    def dtype(self) -> DType:
        """Element dtype of the buffer."""
        return self.buffer.dtype

    def scope(self) -> str:
        """Memory scope of the buffer."""
        return self.buffer.storage

    @property
    def is_whole(self) -> bool:
        """Whether this is the entire buffer."""
        return Shape(self.extents) == self.buffer.shape and all(
            isinstance(low, Const) and low.value == 0 for low in self.mins
        )

    def tile_dims(self) -> tuple[int, ...]:
        """Dimensions whose extent is not the constant 1."""
        return tuple(d for d, extent in enumerate(self.extents) if not is_same_extent(extent, 1))

    def access_ptr(self, access: object = "r", *_: object, **__: object) -> Expr:
        """A pointer to the first element."""
        return AddressOf(self.buffer, self.mins, str(access))

    def region_exprs(self) -> list[Expr]:
        """The expressions in it, for walkers."""
        return [*self.mins, *(extent for extent in self.extents if isinstance(extent, Expr))]

    def map(self, fn: Any) -> Region:
        """This region with every expression replaced by ``fn``; the same object if none is."""
        mins = tuple([fn(low) for low in self.mins])
        extents = tuple([as_extent(fn(e)) if isinstance(e, Expr) else e for e in self.extents])
        if all(map(is_, mins, self.mins)) and all(map(is_, extents, self.extents)):
            return self
        return Region(self.buffer, mins, extents, self.anchored)

    def __getitem__(self, _: object) -> NoReturn:
        raise TileTypeError(
            f"the slice `{self!r}` is indexed",
            expected="a buffer",
            hint=f"index the buffer `{self.buffer.name}` itself",
        )

    def __eq__(self, other: object) -> bool:
        return is_same(self, other, "==")

    def __ne__(self, other: object) -> bool:
        return not is_same(self, other, "!=")

    def __hash__(self) -> int:
        return id(self) >> 4

    def __repr__(self) -> str:
        return region_text(self)


for _name in (*_OPERATORS, "iter", "len"):  # as_expr raises: a region has no operators
    setattr(Region, f"__{_name}__", lambda self, *_: as_expr(self))


def _normal_index(buffer: Buffer, dim: int, value: object, element: bool = True) -> Expr:
    """One index: integer, negative constants counted from the end.

    Args:
        element: whether the index is one of an element: one before the first stays as it is.
    """
    if isinstance(value, float):
        raise TileTypeError(
            f"index {dim} of `{buffer.name}` is the float {value}",
            expected="an integer",
            hint="use `//` for integer division",
        )
    index = as_expr(value)
    if not (index.dtype.is_integer or index.dtype.is_bool):
        raise TileTypeError(
            f"index {dim} of `{buffer.name}` is not an integer",
            expected="an integer expression",
            got=f"`{index!r}` of dtype {index.dtype}",
            hint="convert with T.int32(x), or use `//` instead of `/`",
        )
    if not isinstance(index, Const) or index.value >= 0:
        return index
    moved = as_expr(index + buffer.shape[dim])
    return index if element and isinstance(moved, Const) and moved.value < 0 else moved


def _wrong_number(buffer: Buffer, keys: tuple[object, ...], kind: str) -> TileIndexError:
    """The error of an index with ``kind`` ("too many", "too few") parts."""
    name, rank, shape = buffer.name, buffer.ndim, tuple(buffer.shape)
    letters = [f"i{d}" if rank > 6 else "ijklmn"[d] for d in range(rank)]
    hint = f"an element is {name}[{', '.join(letters) or '()'}]"
    if kind == "too few":
        places = letters[: len(keys)] + [":"] * (rank - len(keys))
        hint += f"; for a tile operand write slices for the other dimensions, {name}"
        hint += f"[{', '.join(places)}]"
    else:
        hint += "; T.reshape gives the same memory another shape"
    return TileIndexError(
        f"{kind} indices for `{name}`",
        expected=f"{rank} {'index' if rank == 1 else 'indices'}, for its shape {shape}",
        got=f"{len(keys)}, {name}[{', '.join(map(_key_text, keys))}]",
        hint=hint,
    )


def _key_text(key: object) -> str:
    """One part of an index, as it was written."""
    if not isinstance(key, slice):
        return "..." if key is Ellipsis else str(key)
    ends = ["" if end is None else str(end) for end in (key.start, key.stop, key.step)]
    return ":".join(ends if ends[2] else ends[:2])


def index_buffer(buffer: Buffer, key: object) -> Load | Region:
    """``buffer[key]``: an element for all-scalar keys, a region when a slice is present."""
    keys = key if isinstance(key, tuple) else (key,)
    if any(element is None for element in keys):
        raise TileIndexError(
            f"None in the index of `{buffer.name}`",
            expected="ints, scalar expressions and slices",
            got=f"{buffer.name}[{', '.join(map(_key_text, keys))}]",
            hint="an index adds no dimension; loop over the elements with T.Parallel, "
            "or give the memory another shape with T.reshape",
        )
    if any(element is Ellipsis for element in keys):
        at = next(i for i, element in enumerate(keys) if element is Ellipsis)
        fill = (slice(None),) * (buffer.ndim - len(keys) + 1)
        keys = keys[:at] + fill + keys[at + 1 :]
    if len(keys) > buffer.ndim:
        raise _wrong_number(buffer, keys, "too many")
    if not any(isinstance(element, slice) for element in keys):
        if len(keys) < buffer.ndim:
            raise _wrong_number(buffer, keys, "too few")
        return Load(
            buffer, tuple(_normal_index(buffer, d, element) for d, element in enumerate(keys))
        )
    mins: list[Expr] = []
    extents: list[int | Expr] = []
    for dim in range(buffer.ndim):
        low, extent = _normal_slice(buffer, dim, keys[dim] if dim < len(keys) else slice(None))
        mins.append(low)
        extents.append(extent)
    return Region(buffer, tuple(mins), tuple(extents))


def _normal_slice(buffer: Buffer, dim: int, key: object) -> tuple[Expr, int | Expr]:
    if not isinstance(key, slice):
        return _normal_index(buffer, dim, key, False), 1
    if key.step is not None and not is_same_extent(key.step, 1):
        raise TileUnsupportedError(
            f"a slice of `{buffer.name}` has a step",
            expected="start:stop",
            got=f"step {key.step!r} in dimension {dim}",
            hint="index element by element in T.Parallel",
        )
    low = const(0) if key.start is None else _normal_index(buffer, dim, key.start, False)
    stop = (
        as_expr(buffer.shape[dim])
        if key.stop is None
        else _normal_index(buffer, dim, key.stop, False)
    )
    extent = as_extent(simplified(stop - low))
    if isinstance(extent, int) and extent < 0:
        raise TileValueError(
            f"a slice of `{buffer.name}` in dimension {dim} ends before it starts",
            expected="start <= stop",
            got=f"{low!r}:{stop!r}",
        )
    return low, extent
