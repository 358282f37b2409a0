"""Implicit im2col: a convolution reads a zero-padded copy of its image instead of a column matrix.

``T.im2col`` and a product in a loop over taps write each pixel once for every tap. Where a block
computes whole rows of the result, its part of the image is copied once, with the border and zeros
outside of the image. The operand of a tap is then a part of that copy, whose rows are one pixel
apart, at an offset that depends on the tap. One product for each row of the result adds all taps in
registers, in program order.

Conditions: a stride of 1, any dilation, and one step of k per tap. Runs after
:mod:`~tilelang.cpu.loops.gemm_forwarding`, which removes the copy of the weights from the loop.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.cpu.gemm_kernels import panel_width
from tilelang.cpu.loops.k_loop_coalescing import first_only
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.linear import depends_on
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import substitute
from tilelang.records import dataclass
from tilelang.transforms.analysis.combine import accumulator
from tilelang.transforms.analysis.dependence import steps_of
from tilelang.transforms.analysis.loops import trip_count

ROOM = 256 << 10  # bytes of the part of the image; the L2 cache holds it together with the weights


@dataclass(frozen=True)
class _Sizes:
    """Of the image: ``width``, ``height``, ``channels``; of the result: ``columns`` of a row,
    ``lines`` of a picture; rows of a block; how far taps reach."""

    count: int
    height: int
    width: int
    channels: int
    lines: int
    columns: int
    rows: int
    reach: int


def convolved(loop: S.For, uses: dict[E.Var, int]) -> S.Stmt:
    """A product of the image in place of one of columns, if ``loop`` is one over taps.

    Args:
        uses: how many statements of the launch name each tile.
    """
    body = loop.body.stmts if isinstance(loop.body, S.Seq) else ()
    if len(body) != 2:
        return loop
    column, gemm = body
    if not isinstance(column, S.Im2col) or not isinstance(gemm, S.Gemm):
        return loop
    sizes = _sizes(loop, column, gemm, uses)
    return loop if sizes is None else _convolved(loop, column, gemm, sizes)


def _sizes(loop: S.For, column: S.Im2col, gemm: S.Gemm, uses: dict[E.Var, int]) -> _Sizes | None:
    """The sizes of a convolution that can go without columns; None for others."""
    shape, tile = column.src.buffer.shape, column.dst
    if not all(isinstance(extent, int) for extent in (*shape, *tile.extents, *gemm.c.extents)):
        return None
    count, height, width, channels = (int(extent) for extent in shape)
    taps, reach = column.kernel**2, column.dilation * (column.kernel - 1)
    lines, columns = height + 2 * column.pad - reach, width + 2 * column.pad - reach
    rows, step = (int(extent) for extent in tile.extents[-2:])
    if min(lines, columns) < 1 or rows % columns or lines * columns % rows:
        return None
    sizes = _Sizes(count, height, width, channels, lines, columns, rows // columns, reach)
    padded_bytes = (sizes.rows + reach) * (width + 2 * column.pad) * channels * tile.dtype.bits // 8
    fits = (
        column.stride == 1
        and step == channels
        and column.c_step is loop.var
        and (trip_count(loop), int(loop.start), int(loop.step)) == (taps, 0, 1)
        and tile.dtype == column.src.dtype == accumulator(gemm.a.dtype, gemm.c.dtype)
        and padded_bytes <= ROOM
        and uses.get(tile.buffer.data) == 2
        and first_only(gemm.clear, loop.var) is not None
        and not depends_on(column.nhw_step, frozenset({loop.var}))
    )
    # The rows of one tap are constants: the variable of its loop has one value.
    return sizes if fits and _is_product(gemm, tile, loop.var, step if taps > 1 else 0) else None


def _is_product(gemm: S.Gemm, tile: Region, var: E.Var, step: int) -> bool:
    """Whether the product is one of all columns with weights that can be read in place."""
    a, b, c = gemm.a, gemm.b, gemm.c
    if gemm.trans_a or gemm.trans_b or not tile.is_whole or len(tile.extents) != 2:
        return False
    if a.buffer.data is not tile.buffer.data or not a.is_whole or c.dtype != a.dtype:
        return False
    if b.dtype != a.dtype or b.buffer.storage != "global" or not b.buffer.has_unit_stride:
        return False
    if len(c.extents) != 2 or int(c.extents[-1]) % panel_width(b.dtype):
        return False
    steps = tuple(step if dim == b.buffer.ndim - 2 else 0 for dim in range(b.buffer.ndim))
    return steps_of(b.mins, var) == steps and not any(
        depends_on(low, frozenset({var})) for low in c.mins
    )


def _convolved(loop: S.For, column: S.Im2col, gemm: S.Gemm, sizes: _Sizes) -> S.Stmt:
    """The part of the image, and a product for each row of the result."""
    channels, pad = sizes.channels, column.pad
    width = sizes.width + 2 * pad
    name, storage = f"{column.src.buffer.name}_part", column.dst.buffer.storage
    shape = Shape((sizes.rows + sizes.reach, width, channels))
    padded = Buffer(name, shape, column.dst.dtype, storage)
    row = E.Var("r", DType("int32"))
    a = Region(padded, (row, E.const(0), E.const(0)), (sizes.reach + 1, width, channels))
    at_first: dict[E.Var, E.Expr] = {loop.var: E.const(0)}
    b = gemm.b.map(lambda index: simplify(substitute(index, at_first)))
    extents = list(b.extents)
    extents[-2] = channels * column.kernel**2
    c = Region(
        gemm.c.buffer, (gemm.c.mins[0] + row * E.const(sizes.columns), gemm.c.mins[1]),
        (sizes.columns, *gemm.c.extents[1:]),
    )  # fmt: skip
    taps = (column.kernel, column.dilation * width * channels, column.dilation * channels)
    product = replace(
        gemm, a=a, b=replace(b, extents=tuple(extents)), c=c,
        clear=E.const(bool(first_only(gemm.clear, loop.var))),
        hints=replace(gemm.hints, taps=taps),
    )  # fmt: skip
    rows = S.counted(row, sizes.rows, product, loc=loop.loc)
    return S.seq(S.Alloc(buffer=padded, loc=column.loc), _fill(padded, column, sizes), rows)


def _fill(padded: Buffer, column: S.Im2col, sizes: _Sizes) -> S.Stmt:
    """Pixels of the image, and zeros outside."""
    i, j, c = (E.Var(name, DType("int32")) for name in "ijc")
    first = column.nhw_step * (sizes.rows * sizes.columns)
    picture = sizes.lines * sizes.columns
    n, h = first // picture, first % picture // sizes.columns + i - column.pad
    w = j - column.pad
    inside: E.Expr = E.const(True)
    for index, limit in ((h, sizes.height), (w, sizes.width), (n, sizes.count)):
        inside = E.binary("land", inside, E.binary("land", index >= 0, index < limit))
    element = E.select(inside, E.Load(column.src.buffer, (n, h, w, c)), E.const(0, padded.dtype))
    store = S.Store(buffer=padded, indices=(i, j, c), value=element, loc=column.loc)
    extents = tuple(map(E.as_expr, padded.shape))
    return S.Parallel(vars=(i, j, c), extents=extents, body=store, loc=column.loc)
