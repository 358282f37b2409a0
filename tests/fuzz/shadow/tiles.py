"""Tiles as numpy arrays, and what the words on tiles do to them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .values import FLOAT_DIGITS, INT_BITS, Scalar, converted, joint, plain, scalar


class Tile:
    """A buffer: ``data`` holds its numbers as float64 or int64, all of them exact in ``dtype``."""

    def __init__(self, data: np.ndarray, dtype: str, is_global: bool = False) -> None:
        self.data = data
        self.dtype = dtype
        self.is_global = is_global

    @classmethod
    def new(cls, shape: Any, dtype: Any) -> Tile:
        sizes = tuple(int(n) for n in (shape if isinstance(shape, (tuple, list)) else (shape,)))
        kind = np.float64 if str(dtype) in FLOAT_DIGITS else np.int64
        return cls(np.zeros(sizes, kind), str(dtype))

    def place(self, index: Any) -> tuple[int, ...] | None:
        """Where an element is; None outside."""
        parts = index if isinstance(index, tuple) else (index,)
        if len(parts) != self.data.ndim:
            raise TypeError(f"{len(parts)} indices for {self.data.ndim} dimensions")
        at = []
        for part, size in zip(parts, self.data.shape, strict=True):
            i = int(part)
            if not 0 <= i < size:
                return None
            at.append(i)
        return tuple(at)

    def __getitem__(self, index: Any) -> Scalar:
        at = self.place(index)
        value = self.data[at].item() if at is not None else 0
        return Scalar(converted(value, self.dtype), self.dtype)

    def __setitem__(self, index: Any, value: Any) -> None:
        at = self.place(index)
        if at is not None:
            self.data[at] = plain(value, self.dtype)


class Region:
    """Part of a tile. ``extents`` has None for an index that may anchor a larger tile."""

    def __init__(self, tile: Tile, index: Sequence[Any]) -> None:
        self.tile = tile
        self.starts, self.extents = [], []
        for part, size in zip(index, tile.data.shape, strict=True):
            if isinstance(part, slice):
                start = 0 if part.start is None else int(part.start)
                stop = size if part.stop is None else int(part.stop)
                self.starts.append(start)
                self.extents.append(stop - start)
            else:
                self.starts.append(int(part))
                self.extents.append(None)

    @property
    def is_anchor(self) -> bool:
        return all(extent is None for extent in self.extents)

    def sizes(self, other: Sequence[int] | None = None) -> list[int]:
        """Extents; an anchor takes those of ``other`` for its last dimensions."""
        if not self.is_anchor or other is None:
            return [1 if extent is None else extent for extent in self.extents]
        lead = len(self.starts) - len(other)
        return [1] * lead + list(other[-lead:] if lead < 0 else other)

    def _grid(self, sizes: Sequence[int]) -> tuple[Any, np.ndarray]:
        inside = np.ones(tuple(sizes), bool)
        index = []
        for axis, (start, size) in enumerate(zip(self.starts, sizes, strict=True)):
            at = start + np.arange(size)
            limit = self.tile.data.shape[axis]
            shape = [-1 if k == axis else 1 for k in range(len(sizes))]
            inside &= ((at >= 0) & (at < limit)).reshape(shape)
            index.append(np.clip(at, 0, max(limit - 1, 0)).reshape(shape))
        return tuple(index), inside

    def read(self, sizes: Sequence[int]) -> np.ndarray:
        """Numbers of the region, 0 outside of the tensor."""
        index, inside = self._grid(sizes)
        if not self.tile.data.size:
            return np.zeros(tuple(sizes), self.tile.data.dtype)
        return np.where(inside, self.tile.data[index], 0)

    def write(self, sizes: Sequence[int], values: np.ndarray) -> None:
        """Store; what is outside of the tensor is dropped."""
        index, inside = self._grid(sizes)
        full = np.broadcast_arrays(*index, inside)
        keep = full[-1]
        where = tuple(part[keep] for part in full[:-1])
        self.tile.data[where] = as_dtype(values.reshape(tuple(sizes))[keep], self.tile.dtype)


def region(tile: Tile, *index: Any) -> Region:
    """``tile[index]`` as the operand of a tile word."""
    return Region(tile, index)


def whole(operand: Tile | Region) -> Region:
    """An operand as a region."""
    if isinstance(operand, Region):
        return operand
    return Region(operand, [slice(None)] * operand.data.ndim)


def as_dtype(values: np.ndarray, dtype: str) -> np.ndarray:
    """Numbers converted as a store does it."""
    if dtype in ("float64", "float32", "float16"):
        with np.errstate(all="ignore"):
            return values.astype(dtype).astype(np.float64)
    is_float = values.dtype == np.float64
    if dtype in INT_BITS and dtype not in ("uint64", "bool") and not is_float:
        return values.astype(dtype).astype(np.int64)
    flat = [converted(value, dtype) for value in values.reshape(-1).tolist()]
    kind = np.float64 if dtype in FLOAT_DIGITS else np.int64
    return np.array(flat, kind).reshape(values.shape)


# -- words ------------------------------------------------------------------------------------------
def copy(source: Any, target: Any, **hints: Any) -> None:
    first, second = whole(source), whole(target)
    if second.is_anchor and not first.is_anchor:
        taken = first.sizes()
        given = second.sizes(_squeezed(taken, len(second.starts)))
    elif first.is_anchor:
        given = second.sizes()
        taken = first.sizes(_squeezed(given, len(first.starts)))
    else:
        taken, given = first.sizes(), second.sizes()
    if math.prod(taken) != math.prod(given):
        raise TypeError(f"copy of {taken} to {given}")
    second.write(given, first.read(taken).reshape(tuple(given)))


def _squeezed(sizes: list[int], rank: int) -> list[int]:
    sizes = list(sizes)
    while len(sizes) > rank and 1 in sizes:
        sizes.remove(1)
    return sizes


def fill(target: Any, value: Any) -> None:
    part = whole(target)
    sizes = part.sizes()
    number = plain(value, part.tile.dtype)
    part.write(sizes, np.full(tuple(sizes), number, part.tile.data.dtype))


def clear(target: Any) -> None:
    fill(target, 0)


def _of_numbers(ufunc: np.ufunc, found: np.ndarray, magnitude: bool = False) -> np.ndarray:
    """A maximum or minimum that ignores NaN; where nothing else is, that of no number at all."""
    if ufunc not in (np.fmax, np.fmin) or found.dtype != np.float64:
        return found
    nothing = 0.0 if magnitude else -np.inf if ufunc is np.fmax else np.inf
    return np.where(np.isnan(found), nothing, found)


def _fold(ufunc: np.ufunc, magnitude: bool = False) -> Callable[..., None]:
    def reduce(
        source: Any, target: Any, dim: int = -1, clear: bool = True, nan_propagate: bool = False,
        batch: int = 1,
    ) -> None:  # fmt: skip
        part, out = whole(source), whole(target)
        values = part.read(part.sizes())
        found = ufunc.reduce(np.abs(values) if magnitude else values, axis=dim)
        found = _of_numbers(ufunc, found, magnitude)
        sizes = out.sizes()
        if not clear:
            found = ufunc(out.read(sizes).reshape(found.shape), found)
        out.write(sizes, np.asarray(found).reshape(tuple(sizes)))

    return reduce


REDUCTIONS = {
    "reduce_sum": _fold(np.add), "reduce_max": _fold(np.fmax), "reduce_min": _fold(np.fmin),
    "reduce_absmax": _fold(np.fmax, True), "reduce_abssum": _fold(np.add, True),
    "reduce_bitand": _fold(np.bitwise_and), "reduce_bitor": _fold(np.bitwise_or),
    "reduce_bitxor": _fold(np.bitwise_xor),
}  # fmt: skip


def _scan(function: Any) -> Callable[..., None]:
    def scan(source: Any, target: Any = None, dim: int = 0, reverse: bool = False) -> None:
        part = whole(source)
        out = whole(target if target is not None else source)
        values = part.read(part.sizes())
        turned = np.flip(values, dim) if reverse else values
        found = _of_numbers(function, function.accumulate(turned, axis=dim))
        out.write(out.sizes(), np.flip(found, dim) if reverse else found)

    return scan


def transpose(source: Any, target: Any) -> None:
    part, out = whole(source), whole(target)
    out.write(out.sizes(), part.read(part.sizes()).T)


def gemm(
    a: Any, b: Any, c: Any, transpose_A: bool = False, transpose_B: bool = False,
    clear_accum: Any = False, policy: Any = None, **rest: Any,
) -> None:  # fmt: skip
    left, right, out = whole(a), whole(b), whole(c)
    first, second = left.read(left.sizes()), right.read(right.sizes())
    first = first.T if transpose_A else first
    second = second.T if transpose_B else second
    old = 0 if bool(clear_accum) else out.read(out.sizes())
    out.write(out.sizes(), first @ second + old)


def _atomic(function: Callable[..., Any]) -> Callable[..., None]:
    def update(target: Any, value: Any, **rest: Any) -> None:
        part = whole(target)
        if part.is_anchor and not isinstance(value, (Tile, Region)):
            index = tuple(part.starts)
            old = part.tile[index]
            dtype = part.tile.dtype
            new = function(old.v, plain(value, dtype))
            part.tile[index] = Scalar(converted(new, dtype), dtype)
            return
        source = whole(value)
        taken = source.sizes()
        sizes = part.sizes(_squeezed(taken, len(part.starts)))
        old = part.read(sizes)
        part.write(sizes, function(old, source.read(taken).reshape(tuple(sizes))))

    return update


def _greater(a: Any, b: Any) -> Any:
    return np.fmax(a, b) if isinstance(a, np.ndarray) else max(a, b)


def _less(a: Any, b: Any) -> Any:
    return np.fmin(a, b) if isinstance(a, np.ndarray) else min(a, b)


def reshape(tile: Tile, shape: Any) -> Tile:
    sizes = tuple(int(n) for n in (shape if isinstance(shape, (tuple, list)) else (shape,)))
    return Tile(tile.data.reshape(sizes), tile.dtype, tile.is_global)


def view(tile: Tile, shape: Any = None, dtype: Any = None) -> Tile:
    if dtype is not None and str(dtype) != tile.dtype:
        raise TypeError("views of another dtype are not shadowed")
    return reshape(tile, tile.data.shape if shape is None else shape)


TILE_WORDS: dict[str, Callable[..., None]] = {
    "copy": copy, "fill": fill, "clear": clear, "transpose": transpose, "gemm": gemm,
    "cumsum": _scan(np.add), "cummax": _scan(np.fmax), "atomic_add": _atomic(lambda a, b: a + b),
    "atomic_max": _atomic(_greater), "atomic_min": _atomic(_less), **REDUCTIONS,
}  # fmt: skip


# -- loops ------------------------------------------------------------------------------------------
def counted(*bounds: Any, **hints: Any) -> Iterator[Scalar]:
    """``T.serial`` and its relatives; a bound of 64 bits makes a variable of 64 bits."""
    dtype = "int32"
    for bound in bounds:
        dtype = joint(Scalar(0, dtype), bound)
    for i in range(*(int(bound) for bound in bounds)):
        yield Scalar(i, dtype)


def product(*extents: Any, **hints: Any) -> Iterator[Any]:
    """``T.Parallel`` and ``T.grid``."""
    spans = [[scalar(i) for i in range(int(extent))] for extent in extents]
    for index in itertools.product(*spans):
        yield index if len(index) > 1 else index[0]


def persistent(domain: Sequence[Any], wave: Any, worker: Any, **hints: Any) -> Iterator[Any]:
    """Every tile of ``domain`` by one of ``wave`` workers."""
    for number, index in enumerate(product(*domain)):
        if number % int(wave) == int(worker):
            yield index
