"""Layouts are index maps: of logical indices to offsets, or to threads and registers.

A map is a Python function of index expressions, kept with the shape it is defined on. It is
evaluated once over all indices with integers; equality, bijectivity and inverses are facts of
that table. Symbolic use calls the function with expressions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tilelang.errors import TileTypeError, TileValueError
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Const

MAX_TABLE = 1 << 22  # indices; tiles are far smaller


def _shape(shape: Any) -> tuple[int, ...]:
    found = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for extent in found:
        if not isinstance(extent, int) or extent < 1:
            raise TileValueError(
                f"a layout has the extent {extent!r}", expected="positive constant extents"
            )
    return found


def _plain(value: Any) -> int:
    if isinstance(value, Const):
        return int(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    raise TileTypeError(
        "a layout function did not give integers for integer indices",
        expected="integer arithmetic on the indices",
        got=repr(value)[:60],
    )


class Layout:
    """A map from logical indices to an offset or to several coordinates.

    Args:
        shape: extents of the logical indices.
        forward_fn: function of the indices; gives one value or a list.
    """

    def __init__(self, shape: Any, forward_fn: Callable[..., Any]) -> None:
        self.input_shape = _shape(shape)
        self.forward_fn = forward_fn
        if self.size > MAX_TABLE:
            raise TileValueError(
                "a layout has too many indices", expected=f"at most {MAX_TABLE}", got=str(self.size)
            )

    @property
    def size(self) -> int:
        """Number of logical indices."""
        return int(np.prod(self.input_shape, dtype=np.int64))

    def __call__(self, *indices: Any) -> Any:
        """The image of (possibly symbolic) indices."""
        if len(indices) != len(self.input_shape):
            raise TileValueError(
                "a layout is applied to the wrong number of indices",
                expected=str(len(self.input_shape)),
                got=str(len(indices)),
            )
        return self.forward_fn(*indices)

    map_forward_index = __call__

    @cached_property
    def table(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Images of all indices in row-major order: [size, coordinates]."""
        rows = []
        for index in np.ndindex(*self.input_shape):
            image = self.forward_fn(*(int(i) for i in index))
            values = image if isinstance(image, (list, tuple)) else (image,)
            rows.append([_plain(value) for value in values])
        return np.asarray(rows, dtype=np.int64).reshape(self.size, -1)

    @cached_property
    def output_shape(self) -> tuple[int, ...]:
        """Extents that hold all images."""
        return tuple(int(n) for n in self.table.max(axis=0) + 1)

    def get_output_shape(self) -> list[int]:
        """:attr:`output_shape` as a list."""
        return list(self.output_shape)

    def get_input_shape(self) -> list[int]:
        """Extents of the logical indices."""
        return list(self.input_shape)

    @cached_property
    def offsets(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Row-major linear image of every index."""
        strides = np.cumprod([1, *reversed(self.output_shape[1:])])[::-1]
        result: np.ndarray[Any, np.dtype[np.int64]] = self.table @ strides
        return result

    def is_bijective(self) -> bool:
        """Whether every offset up to the size is hit exactly once."""
        return bool(np.array_equal(np.sort(self.offsets), np.arange(self.size)))

    def is_equal(self, other: Layout) -> bool:
        """Whether two layouts map every index alike."""
        return self.input_shape == other.input_shape and np.array_equal(self.table, other.table)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and type(self) is type(other) and self.is_equal(other)

    def __hash__(self) -> int:
        return hash((self.input_shape, self.table.tobytes()))

    def inverse(self) -> Layout:
        """The map from images back to indices.

        Raises:
            TileValueError: the layout is not injective, or leaves gaps.
        """
        if not self.is_bijective():
            raise TileValueError(
                "only a bijective layout has an inverse",
                expected="every offset exactly once",
                got=f"{len(np.unique(self.offsets))} offsets for {self.size} indices",
            )
        back = np.empty(self.size, dtype=np.int64)
        back[self.offsets] = np.arange(self.size)
        table = back.reshape(self.output_shape)

        def function(*indices: int) -> list[int]:
            linear = int(table[tuple(indices)])
            return [int(i) for i in np.unravel_index(linear, self.input_shape)]

        return Layout(self.output_shape, function)

    def __repr__(self) -> str:
        return f"Layout({list(self.input_shape)} -> {list(self.output_shape)})"


def _takes(function: Callable[..., Any]) -> int:
    return len(inspect.signature(function).parameters)


class Fragment(Layout):
    """A tile spread over threads: logical indices (and a replica) to thread and register.

    Args:
        shape: extents of the tile.
        forward_fn: function of the indices (and the replica if ``replicate`` > 1) that gives
            (thread, register); or separate functions:
        forward_thread_fn, forward_index_fn: of the indices (and replica); of the indices.
        replicate: copies of every element.
    """

    def __init__(
        self,
        shape: Any,
        forward_fn: Callable[..., Any] | None = None,
        forward_thread_fn: Callable[..., Any] | None = None,
        replicate: int = 1,
        forward_index_fn: Callable[..., Any] | None = None,
    ) -> None:
        extents = _shape(shape)
        if forward_fn is None and forward_thread_fn is None:
            raise TileTypeError(
                "T.Fragment needs a mapping", expected="forward_fn or forward_thread_fn"
            )
        self.replicate_size = replicate
        self._pair = forward_fn
        self._thread = forward_thread_fn
        self._register = forward_index_fn
        super().__init__((*extents, replicate) if replicate > 1 else extents, self._forward)
        self.shape = extents

    def _forward(self, *indices: Any) -> list[Any]:
        thread = self._call_thread(indices)
        register = self._call_register(indices)
        return [thread, *(register if isinstance(register, (list, tuple)) else [register])]

    def _split(self, indices: Sequence[Any]) -> tuple[tuple[Any, ...], Any]:
        rank = len(indices) - (self.replicate_size > 1)
        return tuple(indices[:rank]), (indices[rank] if rank < len(indices) else 0)

    def _apply(self, function: Callable[..., Any], indices: Sequence[Any]) -> Any:
        own, replica = self._split(indices)
        return function(*own, replica) if _takes(function) > len(own) else function(*own)

    def _call_thread(self, indices: Sequence[Any]) -> Any:
        if self._pair is not None:
            return self._apply(self._pair, indices)[0]
        assert self._thread is not None
        return self._apply(self._thread, indices)

    def _call_register(self, indices: Sequence[Any]) -> Any:
        if self._pair is not None:
            return self._apply(self._pair, indices)[1]
        return 0 if self._register is None else self._apply(self._register, indices)

    def thread_of(self, indices: Sequence[Any], replica: Any = 0) -> Any:
        """The thread that owns (a replica of) an element."""
        full = (*indices, replica) if self.replicate_size > 1 else tuple(indices)
        return self._call_thread(full)

    def map_forward_thread(self, indices: Sequence[Any], replica: Any = 0) -> Any:
        """Same as :meth:`thread_of`."""
        return self.thread_of(indices, replica)

    @cached_property
    def threads(self) -> int:
        """Number of threads that own something."""
        return int(self.table[:, 0].max()) + 1

    def get_thread_size(self) -> int:
        """Number of threads that own something."""
        return self.threads

    def repeat(
        self, repeats: Sequence[int], repeat_on_thread: bool = False, lower_dim_first: bool = True
    ) -> Fragment:
        """The fragment tiled ``repeats`` times, in further registers or in further threads."""
        base, counts = self, [int(n) for n in repeats]
        inner = base.shape
        shape = tuple(a * b for a, b in zip(inner, counts))
        registers = int(base.table[:, 1].max()) + 1
        order = list(range(len(counts)))
        if lower_dim_first:
            order.reverse()

        def block(indices: Sequence[Any]) -> Any:
            number: Any = 0
            scale = 1
            for d in order:
                number = number + indices[d] // inner[d] * scale
                scale *= counts[d]
            return number

        def within(indices: Sequence[Any]) -> list[Any]:
            return [index % extent for index, extent in zip(indices, inner)]

        def forward(*indices: Any) -> tuple[Any, Any]:
            own, replica = base._split(indices) if base.replicate_size > 1 else (indices, 0)
            full = (*within(own), replica) if base.replicate_size > 1 else tuple(within(own))
            thread, register = base._call_thread(full), base._call_register(full)
            if repeat_on_thread:
                return thread + block(own) * base.threads, register
            return thread, register + block(own) * registers

        return Fragment(shape, forward_fn=_variadic(forward), replicate=base.replicate_size)

    def replicate(self, count: int) -> Fragment:
        """Every element also in ``count - 1`` further groups of threads."""
        base = self
        total = base.replicate_size * count

        def forward(*indices: Any) -> tuple[Any, Any]:
            *own, replica = indices
            group, rest = replica // base.replicate_size, replica % base.replicate_size
            full = (*own, rest) if base.replicate_size > 1 else tuple(own)
            return base._call_thread(full) + group * base.threads, base._call_register(full)

        return Fragment(base.shape, forward_fn=_variadic(forward), replicate=total)

    def condense_rep_var(self) -> Fragment:
        """The same fragment without replicas that fall on the same thread."""
        if self.replicate_size == 1:
            return self
        table = self.table.reshape(*self.shape, self.replicate_size, -1)
        kept: list[int] = []
        for replica in range(self.replicate_size):
            same = any(np.array_equal(table[..., replica, :], table[..., k, :]) for k in kept)
            if not same:
                kept.append(replica)
        base = self

        def forward(*indices: Any) -> tuple[Any, Any]:
            own, replica = (indices[:-1], kept[indices[-1]]) if len(kept) > 1 else (indices, kept[0])
            full = (*own, replica)
            return base._call_thread(full), base._call_register(full)

        return Fragment(base.shape, forward_fn=_variadic(forward), replicate=len(kept))

    def __repr__(self) -> str:
        copies = f", replicate={self.replicate_size}" if self.replicate_size > 1 else ""
        return f"Fragment({list(self.shape)} on {self.threads} threads{copies})"


def _variadic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function that takes all indices and the replica."""
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # read by inspect
        [inspect.Parameter(f"i{n}", inspect.Parameter.POSITIONAL_ONLY) for n in range(64)]
    )
    return function


def tile_shape(buffer: Any) -> tuple[tuple[int, ...], int]:
    """Shape and element bits of a buffer, a shape, or an object with both."""
    if isinstance(buffer, Buffer):
        return _shape(tuple(buffer.shape)), buffer.dtype.bits
    if isinstance(buffer, (tuple, list)):
        return _shape(buffer), 16
    return _shape(tuple(buffer.shape)), buffer.dtype.bits
