"""The meaning of tile operations on elements: each is one loop over elements.

Targets where one core runs a block print the loop; GPUs lay it out over the threads; operations on
arrays of single threads unroll it. Operations whose elements depend on each other (reductions,
scans, products) are not defined so. Operations that write what they read in another place are not
loops either; :mod:`tilelang.transforms.normalize.operations` takes these apart before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import PLAIN_COPY
from tilelang.ir.indices import row_major
from tilelang.ir.uniform import PRIVATE

INT = DType("int32")
NAMES = "ijklmn"

Indices = tuple[E.Expr, ...]


def loop_of(stmt: S.Stmt) -> S.Parallel | None:
    """The parallel loop that ``stmt`` is or means; None for other statements."""
    match stmt:
        case S.Parallel():
            return stmt
        case S.Copy():
            return _copy(stmt)
        case S.Fill():
            return _store(stmt, stmt.dst, lambda _: stmt.value)
        case S.Transpose():
            return _transpose(stmt)
        case S.Gather():
            extents = tuple(E.as_expr(stmt.dst.extents[d]) for d in stmt.dst.tile_dims())
            body = _store_value(stmt, stmt.dst, element(stmt.dst, stmt.vars), stmt.value)
            return S.Parallel(
                vars=stmt.vars, extents=extents, body=body, hints=stmt.hints, loc=stmt.loc
            )
        case S.Im2col():
            return _im2col(stmt)
        case S.AtomicTile():
            return _atomic(stmt)
    return None


def as_nest(loop: S.Parallel, independent: bool = False) -> S.Stmt:
    """``loop`` as serial loops one in the other.

    Args:
        independent: mark them as such.
    """
    return S.nested(loop.vars, loop.extents, loop.body, independent, loop.loc)


def element(region: Region, variables: Sequence[E.Expr]) -> Indices:
    """Indices of the element of ``region`` at ``variables`` along its tile dimensions."""
    return moved(region, dict(zip(region.tile_dims(), variables)))


def moved(region: Region, offsets: dict[int, E.Expr]) -> Indices:
    """Indices of the corner of ``region`` moved by ``offsets``, by dimension."""
    return tuple(
        low if d not in offsets else E.binary("add", low, offsets[d])
        for d, low in enumerate(region.mins)
    )


def _loop(
    stmt: S.TileOp, extents: Sequence[object], body: Callable[[Indices], S.Stmt]
) -> S.Parallel:
    variables = tuple(
        E.Var(NAMES[d] if d < len(NAMES) else f"i{d}", INT) for d in range(len(extents))
    )
    return S.Parallel(
        vars=variables,
        extents=tuple(map(E.as_expr, extents)),
        body=body(variables),
        loop_layout=stmt.loop_layout if isinstance(stmt, S.Copy) else None,
        hints=stmt.hints if isinstance(stmt, (S.Copy, S.AtomicTile, S.Im2col)) else PLAIN_COPY,
        loc=stmt.loc,
    )


def _store(stmt: S.TileOp, dst: Region, value: Callable[[Indices], E.Expr]) -> S.Parallel:
    """``dst[i, ..] = value(i, ..)`` over the tile dimensions of ``dst``."""

    def body(variables: Indices) -> S.Stmt:
        return _store_value(stmt, dst, element(dst, variables), value(variables))

    return _loop(stmt, [dst.extents[d] for d in dst.tile_dims()], body)


def _store_value(stmt: S.TileOp, dst: Region, target: Indices, value: E.Expr) -> S.Store:
    """The element of ``dst`` becomes ``value``, converted."""
    return S.Store(buffer=dst.buffer, indices=target, value=E.cast(value, dst.dtype), loc=stmt.loc)


def _copy(stmt: S.Copy) -> S.Parallel:
    """``dst[i, ..] = src[i, ..]``, converted."""
    src = stmt.src
    return _store(stmt, stmt.dst, lambda at: E.Load(src.buffer, element(src, at)))


def _transpose(stmt: S.Transpose) -> S.Parallel:
    """Transpose a tile: ``dst[.., j, i] = src[.., i, j]``.

    The tile of a pipeline has a stage in front, of extent 1: leading dimensions are matched from
    the last one on.
    """
    src, dst = stmt.src, stmt.dst
    rank, other = len(dst.extents), len(src.extents)
    dims = [d for d in range(rank) if d >= rank - 2 or dst.extents[d] != 1]

    def body(variables: Indices) -> S.Stmt:
        offsets = dict(zip(dims, variables))
        swapped = {d - rank + other: offset for d, offset in offsets.items()}
        swapped[other - 1], swapped[other - 2] = swapped[other - 2], swapped[other - 1]
        return _store_value(stmt, dst, moved(dst, offsets), E.Load(src.buffer, moved(src, swapped)))

    return _loop(stmt, [dst.extents[d] for d in dims], body)


def _im2col(stmt: S.Im2col) -> S.Parallel:
    """Element (i, j) of the column tile: the pixel that ``T.im2col`` names, 0 outside the image."""
    image, col = stmt.src.buffer, stmt.dst
    count, height, width, channels = (E.as_expr(extent) for extent in image.shape)
    rows, columns = (E.as_expr(extent) for extent in col.extents[-2:])
    out_h, out_w = stmt.output_extent(height), stmt.output_extent(width)
    rank = len(col.extents)

    def body(variables: Indices) -> S.Stmt:
        i, j = variables
        m, k = stmt.nhw_step * rows + i, stmt.c_step * columns + j
        n, oh, ow = m // (out_h * out_w), m % (out_h * out_w) // out_w, m % out_w
        c, kw, kh = k % channels, k // channels % stmt.kernel, k // (channels * stmt.kernel)
        h = oh * stmt.stride + kh * stmt.dilation - stmt.pad
        w = ow * stmt.stride + kw * stmt.dilation - stmt.pad
        inside: E.Expr = E.const(True)
        for index, limit in ((h, height), (w, width), (n, count), (kh, E.const(stmt.kernel))):
            inside = E.binary("land", inside, E.binary("land", index >= 0, index < limit))
        pixel = E.select(inside, E.Load(image, (n, h, w, c)), E.const(0, image.dtype))
        return _store_value(stmt, col, moved(col, {rank - 2: i, rank - 1: j}), pixel)

    return _loop(stmt, [rows, columns], body)


def _atomic(stmt: S.AtomicTile) -> S.Parallel:
    """``dst[i, ..] = op(dst[i, ..], src[i, ..])``; as one step where other threads see ``dst``."""
    src, dst = stmt.src, stmt.dst

    def body(variables: Indices) -> S.Stmt:
        value = E.cast(E.Load(src.buffer, element(src, variables)), dst.dtype)
        target = element(dst, variables)
        if dst.buffer.storage in PRIVATE:
            op = {"or": "bitor"}.get(stmt.op, stmt.op)
            return _store_value(stmt, dst, target, E.binary(op, E.Load(dst.buffer, target), value))
        call = E.call(
            f"atomic_{stmt.op}", E.AddressOf(dst.buffer, target, "rw"), value, dtype=dst.dtype,
            memory_order=stmt.memory_order, return_prev=False,
        )  # fmt: skip
        return S.Eval(value=call, loc=stmt.loc)

    return _loop(stmt, [src.extents[d] for d in src.tile_dims()], body)


def print_lines(stmt: S.PrintTile, value: Callable[[Indices], E.Expr]) -> S.Stmt:
    """One line for each element of a tile, in row-major order.

    Args:
        value: gives the element at a position in the tile.
    """
    extents = [E.as_expr(extent) for extent in stmt.src.extents]
    variables = tuple(E.Var(NAMES[d], INT) for d in range(len(extents)))
    buffer = stmt.src.buffer
    call = E.call(
        "print",
        value(variables),
        row_major(extents, variables),
        dtype="void",
        message=stmt.message or f"buffer<{buffer.name}, {buffer.dtype}>",
        buffer=buffer.name,
        thread=stmt.thread,
    )
    return S.nested(variables, extents, S.Eval(value=call, loc=stmt.loc), loc=stmt.loc)
