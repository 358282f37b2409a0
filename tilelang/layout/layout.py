"""``Layout``: where each element of a tile is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tilelang.errors import TileTypeError, TileValueError, shown
from tilelang.ir.buffer import as_extent
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Expr, Var, as_expr
from tilelang.ir.indices import row_major, unravel
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import substitute
from tilelang.layout.evaluate import Array, distinct, evaluate
from tilelang.tracebacks import border
from tilelang.warning import former_name

if TYPE_CHECKING:
    from tilelang.layout.svg import Drawing

INDEX = DType("int32")
MOST_DRAWN = 1 << 14  # elements of a layout that notebooks show as a picture


def index_vars(count: int) -> tuple[Var, ...]:
    """Placeholders of the logical indices."""
    return tuple(Var(f"i{number}", INDEX) for number in range(count))


def constant_extents(shape: object, subject: str) -> tuple[int, ...]:
    """``shape`` (an int, a sequence, a buffer or a region) as positive ints."""
    extents = getattr(shape, "shape", shape)
    values = tuple(extents) if isinstance(extents, (tuple, list)) else (extents,)
    result: list[int] = []
    for value in values:
        extent = as_extent(value)
        if not isinstance(extent, int) or extent < 1:
            raise TileValueError(
                f"an extent of {subject} is not a positive constant",
                expected="positive ints",
                got=str(value),
            )
        result.append(extent)
    return tuple(result)


def as_outputs(value: object) -> tuple[Expr, ...]:
    """The result of an index function as a tuple of expressions."""
    outputs = value if isinstance(value, (tuple, list)) else (value,)
    return tuple(as_expr(output) for output in outputs)


class Layout:
    """An index map from the elements of a box to tuples of numbers.

    Args:
        shape: extents of the box, constants.
        forward_fn: function of one index per dimension that gives a number or a tuple of them.
        images: extents of the smallest box from 0 that contains all images, where they are known.

    The address of an element is the row-major position of its image in the smallest box from 0
    that contains all images. Two layouts are equal when they map the same box in the same way.

    Raises:
        TileTypeError: ``forward_fn`` is not a function.
    """

    op_name = "T.Layout"
    _extents: tuple[int, ...] | None = None
    _addresses: Array | None = None

    @border
    def __init__(
        self, shape: object, forward_fn: Callable[..., Any], images: tuple[int, ...] | None = None
    ) -> None:
        self.shape = constant_extents(shape, self.op_name)
        self._extents = images
        if not callable(forward_fn):
            raise TileTypeError(
                f"the map of {self.op_name} is not a function",
                expected=f"a function of {len(self.shape)} indices",
                got=shown(forward_fn),
            )
        self.forward_vars = index_vars(len(self.shape))
        self.forward_index = as_outputs(forward_fn(*self.forward_vars))
        self._table: Array | None = None

    def __getstate__(self) -> dict[str, Any]:
        # Tables are made again where they are needed.
        own = self.__dict__.items()
        return {name: None if isinstance(value, np.ndarray) else value for name, value in own}

    # -- tables -----------------------------------------------------------------------------
    def grids(self) -> dict[Var, Array]:
        """Return each placeholder's values, shaped to broadcast over the box."""
        axes = np.ix_(*(np.arange(extent, dtype=np.int64) for extent in self.shape))
        return dict(zip(self.forward_vars, axes, strict=True))

    def table(self) -> Array:
        """Return the images, of shape (*shape, outputs).

        Raises:
            TileValueError: the layout maps an element to a negative number.
        """
        if self._table is None:
            grids = self.grids()
            arrays = [evaluate(expr, grids) for expr in self.forward_index]
            full = [np.broadcast_to(values, self.shape) for values in arrays]
            table = np.stack(full, axis=-1) if full else np.zeros((*self.shape, 0), np.int64)
            if table.size and int(table.min()) < 0:
                raise TileValueError(
                    f"{self.op_name} maps an element to a negative number",
                    expected="numbers from 0",
                    got=str(int(table.min())),
                )
            self._table = table
        return self._table

    def unchanged_dims(self) -> dict[int, int]:
        """Map each dimension whose index is one output, unchanged, to that output.

        Elements that differ in them have different images, so that questions about other
        dimensions need one index of these only: tensors are too large to be enumerated.
        """
        sources = {}
        for dim, var in enumerate(self.forward_vars):
            users = [at for at, expr in enumerate(self.forward_index) if var in expr.variables]
            if self.shape[dim] > 1 and len(users) == 1 and self.forward_index[users[0]] is var:
                sources[dim] = users[0]
        return sources

    kept = former_name("kept", "unchanged_dims")

    def core(self) -> Layout:
        """Return the map for the first index of every dimension that is :meth:`unchanged_dims`."""
        if not (unchanged := self.unchanged_dims()):
            return self
        result = copy(self)
        result.shape = tuple(1 if dim in unchanged else n for dim, n in enumerate(self.shape))
        result._extents = result._addresses = result._table = None
        return result

    def output_shape(self) -> tuple[int, ...]:
        """Return the extents of the smallest box that contains all images."""
        if self._extents is None:
            table = self.core().table()
            highest = table.reshape(-1, table.shape[-1]).max(axis=0)
            extents = [int(last) + 1 for last in highest]
            for dim, at in self.unchanged_dims().items():
                extents[at] = self.shape[dim]
            self._extents = tuple(extents)
        return self._extents

    def addresses(self) -> Array:
        """Return the row-major address of each element's image, of shape ``shape``; read-only."""
        if self._addresses is None:
            total = np.zeros(self.shape, np.int64)
            for dim, extent in enumerate(self.output_shape()):
                total = total * extent + self.table()[..., dim]
            total.setflags(write=False)
            self._addresses = total
        return self._addresses

    @property
    def size(self) -> int:
        """Elements of storage the images need, holes included."""
        return prod(self.output_shape())

    def is_injective(self) -> bool:
        """Return whether no two elements share an address."""
        core = self.core()
        return distinct(core.addresses()).size == prod(core.shape)

    def is_bijective(self) -> bool:
        """Return whether the elements fill the output box without holes or overlap."""
        return self.is_injective() and self.size == prod(self.shape)

    def inverse(self) -> Array:
        """Return the logical index of each address, of shape (size, dims); -1 in holes.

        Raises:
            TileValueError: two elements share an address.
        """
        if not self.is_injective():
            raise TileValueError(
                f"{self.op_name} has no inverse",
                expected="different addresses for all elements",
                got="two elements at one address",
            )
        result = np.full((self.size, len(self.shape)), -1, np.int64)
        result[self.addresses().reshape(-1)] = np.stack(
            [axis.reshape(-1) for axis in np.indices(self.shape)], axis=-1
        )
        return result

    # -- maps -------------------------------------------------------------------------------
    def bound(self, indices: Sequence[object]) -> dict[Var, Expr]:
        """Return the placeholders with the given indices.

        Raises:
            TileValueError: not one index for each dimension.
        """
        if len(indices) != len(self.shape):
            raise TileValueError(
                f"{self.op_name} got the wrong number of indices",
                expected=str(len(self.shape)),
                got=str(len(indices)),
            )
        pairs = zip(self.forward_vars, indices, strict=True)
        return {var: as_expr(index) for var, index in pairs}

    def map_forward_index(self, indices: Sequence[object]) -> tuple[Expr, ...]:
        """Return the image of an element given by expressions."""
        values = self.bound(indices)
        return tuple(simplify(substitute(expr, values)) for expr in self.forward_index)

    def __call__(self, *indices: object) -> tuple[Expr, ...]:
        return self.map_forward_index(indices)

    def address_of(self, indices: Sequence[object]) -> Expr:
        """Return the row-major position of an element's image, as an expression."""
        return simplify(row_major(self.output_shape(), self.map_forward_index(indices)))

    # -- new layouts ------------------------------------------------------------------------
    def expand(self, leading: object) -> Layout:
        """Return the layout with more dimensions in front, passed through."""
        lead = constant_extents(leading, self.op_name)
        count = len(lead)
        return Layout(
            (*lead, *self.shape), lambda *i: (*i[:count], *self.map_forward_index(i[count:]))
        )

    def reshape(self, shape: object) -> Layout:
        """Return the same storage for another logical shape in the same row-major order.

        Raises:
            TileValueError: ``shape`` has another number of elements.
        """
        extents = constant_extents(shape, self.op_name)
        if prod(extents) != prod(self.shape):
            raise TileValueError(
                f"{self.op_name} is reshaped to another size",
                expected=f"{prod(self.shape)} elements",
                got=f"{extents} with {prod(extents)}",
            )

        def forward(*indices: Expr) -> tuple[Expr, ...]:
            return self.map_forward_index(unravel(self.shape, row_major(extents, indices)))

        return Layout(extents, forward)

    # -- names of the reference ---------------------------------------------------------------
    @property
    def index(self) -> tuple[Expr, ...]:
        """Return the images of the placeholders."""
        return self.forward_index

    # -- values -------------------------------------------------------------------------------
    def _key(self) -> tuple[Any, ...]:
        return (self.shape, self.table().shape, self.table().tobytes())

    def canonical(self) -> tuple[Any, ...]:
        """Return what the canonical text of programs (cache keys) contains of this layout."""
        return self._key()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self is other or self._is_same(other)

    def _is_same(self, other: Any) -> bool:
        """Whether the keys are equal, without making them: caches ask this for every look-up."""
        return self.shape == other.shape and np.array_equal(self.table(), other.table())

    def __hash__(self) -> int:
        return hash((self.shape, self.output_shape()))

    def _repr_svg_(self) -> str | None:
        """The drawing for notebooks, which show the text of larger layouts."""
        return None if prod(self.shape) > MOST_DRAWN else self.drawing("float16").svg()

    def drawing(self, dtype: object) -> Drawing:
        """Draw the layout as a grid; ``dtype`` of the elements decides their banks."""
        from tilelang.layout.drawing import shared_grid

        return shared_grid(self.shape, self.addresses(), self.size, DType(dtype))

    def __repr__(self) -> str:
        names = ", ".join(var.name for var in self.forward_vars)
        images = ", ".join(repr(expr) for expr in self.forward_index)
        return f"Layout({self.shape} -> {self.output_shape()}, ({names}) -> ({images}))"
