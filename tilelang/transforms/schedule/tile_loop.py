"""The loop of a persistent block over the tiles of a grid, and the subtiles of results that each
warp stores by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tilelang.errors import Loc
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import PLAIN_LOOP, BufferHints, CopyHints, LoopHints
from tilelang.ir.launch_schedule import Schedule
from tilelang.ir.simplify import simplify
from tilelang.transforms.analysis.tma import (
    SUBTILE_COLUMNS,
    SUBTILE_ROWS,
    Subtile,
    box_layout,
)

BITS = 16  # of the elements of a result that is stored by rows


class TileLoop:
    """The launch ``old`` by one block per multiprocessor, which loops over tiles of the grid."""

    def __init__(self, old: S.Launch, schedule: Schedule, processors: int, loc: Loc | None) -> None:
        self.old, self.schedule, self.loc = old, schedule, loc
        self.dtype = old.block_vars[0].dtype
        self.step = E.const(processors, self.dtype)
        self.extents = [E.cast(extent, self.dtype) for extent in old.grid]
        self.total: E.Expr = E.const(1, self.dtype)
        for extent in self.extents:
            self.total = simplify(self.total * extent)
        self.block, self.tile = E.Var("block", self.dtype), E.Var("tile", self.dtype)

    def loop(self, work: Sequence[S.Stmt], hints: LoopHints = PLAIN_LOOP) -> S.For:
        """The loop, which does ``work`` for each tile."""
        body = S.seq(*self.lets(self.tile, self.old.block_vars, S.seq(*work)), *work)
        return S.For(
            var=self.tile, start=self.block, stop=self.total, step=self.step, body=body,
            hints=hints, loc=self.loc,
        )  # fmt: skip

    def result(
        self, allocs: Sequence[S.Stmt], loop: S.For, end: Sequence[S.Stmt], subtiles: int
    ) -> S.Launch:
        """The launch with the loop."""
        return replace(
            self.old,
            grid=(simplify(E.binary("min", self.total, self.step)),),
            block_vars=(self.block,),
            body=S.seq(*allocs, loop, *end),
            hints=self.old.hints.without("swizzle"),
            schedule=replace(
                self.schedule, tiles=" x ".join(map(str, self.old.grid)), subtiles=subtiles
            ),
        )

    def lets(self, number: E.Expr, names: tuple[E.Var, ...], body: S.Stmt) -> list[S.Stmt]:
        """The indices of tile ``number`` in the grid, as far as ``body`` uses them."""
        steps, values = tile_indices(number, self.extents, self.old.hints.swizzle)
        needed = {var for node in S.walk(body) for expr in node.exprs() for var in expr.variables}
        needed_lets: list[S.Stmt] = []
        for var, value in reversed((*steps, *zip(names, values))):
            if var in needed:
                value = simplify(value)
                needed |= value.variables
                needed_lets.insert(0, S.Let(var=var, value=value, loc=self.loc))
        return needed_lets


def count_subtiles(result: Buffer, dtype: DType, warps: int) -> tuple[int, Buffer]:
    """How many subtiles of ``result`` in ``dtype`` each warp stores, 0 where it has none; and
    the tile that they divide."""
    shape = tuple(extent for extent in result.shape if isinstance(extent, int))
    whole = Buffer("tile", Shape(shape), dtype, "shared")
    subtiles, rest = divmod(prod(shape), warps * SUBTILE_ROWS * SUBTILE_COLUMNS)
    fits = dtype.bits == BITS and dtype.lanes == 1 and len(shape) >= 2 and not rest
    return subtiles if fits else 0, whole


def subtile_buffer(count: int, dtype: DType) -> Buffer:
    """A shared buffer for ``count`` subtiles."""
    shape = (count, SUBTILE_ROWS, SUBTILE_COLUMNS)
    layout = box_layout(shape, dtype.bits)
    attrs = BufferHints(layout=layout, made=True)
    return Buffer("rows", Shape(shape), dtype, "shared", attrs=attrs)


def subtile_copy(packed: Buffer, subtile: Subtile, dst: Region, loc: Loc | None) -> S.Stmt:
    """The store of a subtile of the result ``packed``."""
    return S.Copy(src=packed.whole(), dst=dst, hints=CopyHints(subtile=subtile), loc=loc)


_Values = tuple[E.Expr, ...]
_Steps = tuple[tuple[E.Var, E.Expr], ...]


def tile_indices(
    number: E.Expr, extents: list[E.Expr], swizzle: tuple[int, str] | None
) -> tuple[_Steps, _Values]:
    """Steps that compute the indices of tile ``number`` of a grid, and these: the first dimension
    runs fastest; in a ``swizzle`` panels of rows or of columns follow each other, back and forth,
    like those of ``tl_panel``."""
    if swizzle is None or len(extents) < 2:
        indices = []
        for extent in extents[:-1]:
            indices.append(number % extent)
            number = number // extent
        return (), (*indices, number)
    across, down = extents[:2]
    rest: _Values = ()
    if len(extents) > 2:
        area = simplify(across * down)
        rest = (number // area,)
        number = number % area
    panel, order = swizzle
    if order == "row":
        steps, along, line = _panel(number, across, down, panel)
        return steps, (along, line, *rest)
    steps, along, line = _panel(number, down, across, panel)
    return steps, (line, along, *rest)


def _panel(
    number: E.Expr, length: E.Expr, lines: E.Expr, panel: int
) -> tuple[_Steps, E.Expr, E.Expr]:
    """Along the steps and across the lines of panels of ``panel`` lines over ``length`` steps."""
    dtype = number.dtype
    which, offset = E.Var("panel", dtype), E.Var("offset", dtype)
    height, along = E.Var("height", dtype), E.Var("along", dtype)
    size = simplify(length * panel)
    steps = (
        (which, number // size),
        (offset, number % size),
        (height, E.binary("min", lines - which * panel, E.const(panel, dtype))),
        (along, offset // height),
    )
    back_and_forth = E.select((which % 2).equal(1), length - 1 - along, along, lazy=False)
    return steps, back_and_forth, which * panel + offset % height
