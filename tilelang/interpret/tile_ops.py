"""Tile operations: what each computes, on whole arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from tilelang.errors import TileRuntimeError, TileUnsupportedError, TileValueError, assert_never
from tilelang.interpret import memory, tiles, values
from tilelang.interpret.async_copies import TILE_COPIES
from tilelang.interpret.lanes import Active
from tilelang.interpret.printing import print_tile
from tilelang.interpret.values import Array, Value
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.target.features import lowest_with

if TYPE_CHECKING:
    from tilelang.interpret.machine import DivergentGroup

Node: TypeAlias = (
    "S.Copy | S.Fill | S.Gemm | S.Reduce | S.Scan | S.ReducerInit | S.ReducerFinalize "
    "| S.AtomicTile | S.Transpose | S.Im2col | S.PrintTile | S.HardwareOp"
)

# Operations on elements that are written down here as well, so that their loops are tested.
OWN_MEANING = (S.Transpose, S.Im2col)


def run_tile_op(s: DivergentGroup, stmt: S.TileOp, active: Active) -> None:
    """Execute a tile operation once for the active thread group."""
    node = cast("Node", stmt)
    match node:
        case S.Copy():
            copy(s, node, active)
        case S.Fill():
            fill(s, node, active)
        case S.Gemm():
            gemm(s, node, active)
        case S.Reduce():
            reduce(s, node, active)
        case S.Scan():
            scan(s, node, active)
        case S.ReducerInit():
            reducer_init(s, node, active)
        case S.ReducerFinalize():
            reducer_finalize(s, node, active)
        case S.AtomicTile():
            atomic(s, node, active)
        case S.Transpose():
            transpose(s, node, active)
        case S.Im2col():
            im2col(s, node, active)
        case S.PrintTile():
            print_tile(s, node, active)
        case S.HardwareOp():
            needs = lowest_with(node.needs)
            raise TileUnsupportedError(
                f"T.{node.name} needs {needs}",
                expected="an operation that is defined without GPU hardware",
                got=f"T.{node.name} in the interpreter",
                hint=f"compile the kernel for a target that has {needs}",
            )
        case _:
            assert_never(node)


# -- data movement --------------------------------------------------------------------------------
def copy(s: DivergentGroup, node: S.Copy, active: Active) -> None:
    """``dst = cast(src)``; all modes complete before the next statement, unless the run delays
    asynchronous copies."""
    if s.run.late_copies and node.mode == "async" and tiles.forget_tile(s, node.dst, active):
        _copy_later(s, node, active)
        return
    _copy_now(s, node, tiles.issuing(s, node, active) if node.mode == "tma" else active)


def _copy_later(s: DivergentGroup, node: S.Copy, active: Active) -> None:
    """Copy when the last of the threads has waited for its group of asynchronous copies."""
    fork, members = s.fork(), s.lanes.members(active)
    left = np.ones(members.size, np.bool_)

    def arrive(lanes: Array) -> None:
        left[lanes] = False
        if not left.any():
            _copy_now(fork, node, active)

    s.block.flight.start(TILE_COPIES, members, arrive)
    if node.hints.commit:
        s.block.flight.commit(TILE_COPIES, members)


def _copy_now(s: DivergentGroup, node: S.Copy, active: Active) -> None:
    if node.mode == "cluster" and node.barrier is not None:
        raise TileUnsupportedError(
            "T.copy_cluster needs sm_90",
            expected="a copy within one block",
            got="a copy to another block of the cluster",
        )
    in_bounds = tiles.elements_in_bounds(s, node.dst, active)
    tile, per_lane = _read_as(s, node.dst.dtype, node.src, active, in_bounds)
    _write_shaped(s, node.dst, tile, per_lane, active)


def _read_as(
    s: DivergentGroup, kind: DType, region: Region, active: Active, in_bounds: Array | None = None
) -> tuple[Array, bool]:
    """:func:`read_tile`, converted to ``kind``."""
    tile, per_lane = tiles.read_tile(s, region, active, in_bounds)
    return np.asarray(values.convert(tile, region.dtype, kind)), per_lane


def _write_shaped(
    s: DivergentGroup, region: Region, tile: Array, per_lane: bool, active: Active
) -> None:
    """:func:`write_tile` of as many elements in another shape."""
    result = tiles.shaped(tile, tiles.extents_of(s, region, active), per_lane, region.dtype.lanes)
    tiles.write_tile(s, region, result, per_lane, active)


def fill(s: DivergentGroup, node: S.Fill, active: Active) -> None:
    """Every element of ``dst`` becomes ``value``."""
    value = s.collapse(s.eval(node.value, active), active)
    if np.ndim(value) <= (node.dst.dtype.lanes > 1):
        tiles.write_tile(s, node.dst, value, False, active)
        return
    rank = len(node.dst.extents)
    spread = value.reshape((value.shape[0],) + (1,) * rank + value.shape[1:])
    tiles.write_tile(s, node.dst, spread, True, active)


def transpose(s: DivergentGroup, node: S.Transpose, active: Active) -> None:
    """Swap the last two dimensions."""
    tile, per_lane = _read_as(s, node.dst.dtype, node.src, active)
    _write_shaped(s, node.dst, np.swapaxes(tile, -1, -2), per_lane, active)


def im2col(s: DivergentGroup, node: S.Im2col, active: Active) -> None:
    """Columns of an NHWC image; outside the image 0."""
    bound = s.bound(node.src.buffer)
    count, height, width, channels = bound.shape
    extents = tiles.extents_of(s, node.dst, active)
    rows, columns = [extent for extent in extents if extent != 1] if len(extents) > 2 else extents
    out_h, out_w = node.output_extent(height), node.output_extent(width)
    m = s.number(node.nhw_step, active, "nhw_step") * rows + np.arange(rows)[:, None]
    k = s.number(node.c_step, active, "c_step") * columns + np.arange(columns)[None, :]
    n, inside = m // (out_h * out_w), m % (out_h * out_w)
    c, kw, kh = k % channels, k // channels % node.kernel, k // channels // node.kernel
    h = inside // out_w * node.stride + kh * node.dilation - node.pad
    w = inside % out_w * node.stride + kw * node.dilation - node.pad
    good = (h >= 0) & (h < height) & (w >= 0) & (w < width) & (n < count) & (kh < node.kernel)
    at: list[Value] = [np.where(good, x, 0) for x in np.broadcast_arrays(n, h, w, c)]
    loaded = memory.read(bound, at, good, None, s.site, s.run.safe_memory)
    image = np.where(good, loaded, values.constant(0, node.src.dtype))
    tile = np.asarray(values.convert(image, node.src.dtype, node.dst.dtype))
    tiles.write_tile(s, node.dst, tile.reshape(extents), False, active)


# -- matrix product ------------------------------------------------------------------------------
def gemm(s: DivergentGroup, node: S.Gemm, active: Active) -> None:
    """``c += op(a) @ op(b)``: exact products, accumulated in float32 (int32, float64), rounded
    once to the type of ``c``."""
    a, b = _matrix(s, node.a, active), _matrix(s, node.b, active)
    a = a.T if node.trans_a else a
    b = b.T if node.trans_b else b
    kind = node.c.dtype
    if kind.is_integer:  # every partial sum of small integers is exact in float64
        product: Array = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)
    elif kind == "float64":
        product = a.astype(np.float64) @ b.astype(np.float64)
    else:
        product = a.astype(np.float32) @ b.astype(np.float32)
    product = product.reshape(tiles.extents_of(s, node.c, active))
    clear = node.clear
    if not (s.number(clear, active, "clear_accum") if isinstance(clear, E.Expr) else clear):
        old, _ = tiles.read_tile(s, node.c, active)
        product = old.astype(product.dtype) + product
    result = values.rounded(product.astype(values.compute_dtype(kind)), kind)
    tiles.write_tile(s, node.c, np.asarray(result), False, active)


def _matrix(s: DivergentGroup, region: Region, active: Active) -> Array:
    tile, per_lane = tiles.read_tile(s, region, active)
    if per_lane:
        raise TileUnsupportedError(
            f"the gemm operand `{region.buffer.name}` differs between threads",
            expected="a shared or fragment tile",
            got=f"{region.buffer.storage} memory or an address computed from the thread index",
        )
    return tile.reshape(tile.shape[-2:])


# -- reductions -----------------------------------------------------------------------------------
def _fold(tile: Array, op: str, kind: DType, axis: int, nan: bool) -> Value:
    """``tile`` combined along ``axis``, pairwise, with every step rounded to ``kind``."""
    table = np.moveaxis(tile, axis, 0)
    if op in ("max", "min", "absmax") and kind.is_float:
        largest = op != "min"
        ufunc = (
            (np.maximum if largest else np.minimum) if nan else (np.fmax if largest else np.fmin)
        )
        start = values.identity("max" if op == "max" else op, kind)
        return ufunc.reduce(table, axis=0, initial=start)
    if kind in ("float32", "float64") and op in ("sum", "abssum"):
        return np.add.reduce(tile, axis=axis)
    while table.shape[0] > 1:
        half = table.shape[0] // 2
        joined = np.asarray(values.combine(op, table[:half], table[half : 2 * half], kind))
        table = np.concatenate([joined, table[2 * half :]])
    if table.shape[0] == 0:
        return np.full(table.shape[1:], values.identity(op, kind))
    return table[0]


def reduce(s: DivergentGroup, node: S.Reduce, active: Active) -> None:
    """``dst = reduce(src)`` in the type of ``dst``, combined with the old ``dst`` unless clear."""
    kind = node.dst.dtype
    tile, per_lane = _read_as(s, kind, node.src, active)
    if node.kind.startswith("abs"):
        tile = np.abs(tile)
    axis = node.dim - len(node.src.extents) if node.dim >= 0 else node.dim
    extents = tiles.extents_of(s, node.dst, active)
    result = tiles.shaped(
        np.asarray(_fold(tile, node.kind, kind, axis, node.nan_propagate)), extents, per_lane
    )
    if not node.clear:
        old, old_per_lane = tiles.read_tile(s, node.dst, active)
        if old_per_lane and not per_lane:
            result = result[None]
        per_lane = per_lane or old_per_lane
        result = np.asarray(_combine(node, old, result, kind))
    tiles.write_tile(s, node.dst, result, per_lane, active)


def _combine(node: S.Reduce, old: Array, computed: Array, kind: DType) -> Value:
    if node.nan_propagate and node.kind in ("max", "min", "absmax"):
        return (np.minimum if node.kind == "min" else np.maximum)(old, computed)
    return values.combine(node.kind, old, computed, kind)


def scan(s: DivergentGroup, node: S.Scan, active: Active) -> None:
    """Inclusive scan along ``dim``, from the end if ``reverse``."""
    kind = node.dst.dtype
    tile, per_lane = _read_as(s, kind, node.src, active)
    axis = node.dim - len(node.src.extents) if node.dim >= 0 else node.dim
    table = np.moveaxis(tile, axis, 0)
    table = table[::-1].copy() if node.reverse else table.copy()
    if node.kind not in ("sum", "max", "min"):
        raise TileValueError(f"unknown scan {node.kind!r}", expected="sum, max", got=node.kind)
    running: Value = values.identity(node.kind, kind)  # also the result of a reduction of NaN only
    for k in range(table.shape[0]):
        running = table[k] = values.combine(node.kind, running, table[k], kind)
    table = table[::-1] if node.reverse else table
    _write_shaped(s, node.dst, np.moveaxis(table, 0, axis), per_lane, active)


# -- reducers: one exact total instead of a partial per thread -----------------------------------
def reducer_init(s: DivergentGroup, node: S.ReducerInit, active: Active) -> None:
    """The identity, or the initial value, which thereby counts once."""
    buffer = node.reducer.buffer
    value = values.identity((buffer.attrs.reducer or ("sum", ""))[0], buffer.dtype)
    if node.init is not None:
        init = s.collapse(s.eval(node.init, active), active)
        value = values.convert(init, node.init.dtype, buffer.dtype)
    tiles.write_tile(s, node.reducer, value, False, active)


def reducer_finalize(s: DivergentGroup, node: S.ReducerFinalize, active: Active) -> None:
    """The total is complete already; it only moves if there is a ``dst``."""
    if node.dst is None:
        return
    tile, per_lane = _read_as(s, node.dst.dtype, node.reducer, active)
    _write_shaped(s, node.dst, tile, per_lane, active)


def _is_shared(s: DivergentGroup, region: Region, active: Active) -> bool:
    """Whether all threads mean the same memory."""
    if s.bound(region.buffer).memory.space is not None:
        return False
    return all(np.ndim(s.collapse(s.eval(low, active), active)) == 0 for low in region.mins)


def _uniform_tile(s: DivergentGroup, node: S.AtomicTile, tile: Array, active: Active) -> Array:
    """The common value of the private tiles of the active threads."""
    members = s.lanes.members(active)
    first = np.asarray(tile[members[0]])
    if any(tile[lane].tobytes() != first.tobytes() for lane in members[1:]):
        raise TileRuntimeError(
            f"the tile `{node.src.buffer.name}` differs between the threads, but "
            f"`{node.dst.buffer.name}` is updated with it once",
            expected="a tile that is equal in all threads, or a destination for each thread",
            got=f"`{node.src.buffer.name}` {s.site.text(None)}",
        )
    return first


def atomic(s: DivergentGroup, node: S.AtomicTile, active: Active) -> None:
    """``dst = op(dst, src)``, each element once."""
    kind = node.dst.dtype
    tile, per_lane = _read_as(s, kind, node.src, active)
    tile = tiles.shaped(tile, tiles.extents_of(s, node.dst, active), per_lane)
    if per_lane and _is_shared(s, node.dst, active):
        tile, per_lane = _uniform_tile(s, node, tile, active), False
    if not per_lane:
        old, old_per_lane = tiles.read_tile(s, node.dst, active)
        if not old_per_lane:
            new = values.combine(node.op, old, tile, kind)
            tiles.write_tile(s, node.dst, np.asarray(new), False, active)
            return
    for lane in s.lanes.members(active):  # each thread has its own memory, or its own index
        only = s.lanes.empty.copy()
        only[lane] = True
        old, old_per_lane = tiles.read_tile(s, node.dst, only)
        own = old[lane] if old_per_lane else old
        new = values.combine(node.op, own, tile[lane] if per_lane else tile, kind)
        tiles.write_tile(s, node.dst, np.asarray(new), False, only)
