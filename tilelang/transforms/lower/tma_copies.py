"""TMA copies: the instructions that one thread issues for a tile.

The host encodes a tensor map for each tensor, box and swizzle before the kernel starts; equal maps
are shared. The pipeline orders copies that fill its stages, and the program orders copies with its
own barrier. Any other copy is synchronous: a load has an mbarrier on which its thread group waits,
and the thread that issues a store waits until TMA has read the tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from math import prod

from tilelang.errors import Loc, TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import BufferHints
from tilelang.ir.prover import prove
from tilelang.ir.tables import MBARRIER_ARRIVE_EXPECT, MBARRIER_EXPECT, MBARRIER_WAIT
from tilelang.records import dataclass
from tilelang.target import operations
from tilelang.transforms.analysis import tma
from tilelang.transforms.analysis.tma_candidates import tma_boxes
from tilelang.transforms.lower.context import HIDDEN, Lowering

INT = DType("int32")
_SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}  # bytes -> value of CUtensorMapSwizzle
_FAR = 1 << 30  # a coordinate outside of one element
_PROMOTION = 2  # CU_TENSOR_MAP_L2_PROMOTION_L2_128B


def boxes_or_refuse(copy: tma.TmaOp, bounds: Bounds) -> tma.Boxes:
    """The boxes of a copy that was planned as one of boxes, or that the program wants so.

    Raises:
        TileUnsupportedError: it is none.
    """
    tensor, tile, load = tma.endpoints_of(copy)
    try:
        return _guard_empty(tma_boxes(copy, tile.buffer.attrs.layout, bounds), bounds)
    except tma.TmaIneligibleError as why:
        src, dst = (tensor, tile) if load else (tile, tensor)
        raise TileUnsupportedError(
            f"T.tma_copy cannot copy `{src!r}` to `{dst!r}`: {why}",
            expected="boxes of a tensor with strides of multiples of 16 bytes, and a tile in "
            "row-major order or swizzled",
            got=f"`{copy!r}`",
            hint="use T.copy",
            loc=copy.loc,
        ) from None


def _guard_empty(boxes: tma.Boxes, bounds: Bounds) -> tma.Boxes:
    """``boxes`` for a tensor that may have no elements: the driver refuses a map without any, so
    that its map has one element along such a dimension then, and all boxes are outside."""
    sizes, strides = list(boxes.sizes), list(boxes.strides)
    unsure = [d for d, size in enumerate(sizes) if not prove(E.binary("gt", size, 0), bounds)]
    if not unsure:
        return boxes
    has_elements = E.conjunction(E.binary("gt", sizes[d], 0) for d in unsure)
    for d in unsure:
        sizes[d] = E.select(has_elements, sizes[d], 1)
    strides[1:] = [E.binary("max", step, tma.CHUNK) for step in strides[1:]]
    moved = []
    for box in boxes.boxes:
        coords = list(box.tensor)
        coords[unsure[-1]] = E.select(has_elements, E.cast(coords[unsure[-1]], INT), _FAR)
        moved.append(replace(box, tensor=tuple(coords)))
    return replace(boxes, sizes=tuple(sizes), strides=tuple(strides), boxes=tuple(moved))


def issued(copy: tma.TmaOp, boxes: tma.Boxes, barrier: E.Expr | None = None) -> list[S.Stmt]:
    """The instructions of all boxes; loads tell ``barrier`` of their bytes. A load for several
    blocks of the cluster is made by the first of them for all, and by other blocks for themselves.
    """
    if isinstance(copy, S.COPIES):
        barrier = barrier if barrier is not None else copy.barrier
    more: dict[str, object] = {"bytes": boxes.box_bytes}
    if isinstance(copy, S.AtomicTile):
        more["reduce"] = copy.op
    elif copy.hints.eviction_policy is not None:
        more["eviction_policy"] = copy.hints.eviction_policy
    blocks = copy.hints.cluster_mask
    if barrier is None or blocks is None:
        return _instructions(barrier, boxes, more, copy.loc)
    rank = E.call(operations.RANK_IN_CLUSTER)
    first = (blocks & -blocks).bit_length() - 1
    shared = _instructions(barrier, boxes, {**more, "blocks": blocks}, copy.loc)
    own = _instructions(barrier, boxes, more, copy.loc)
    left_out = E.binary("bitand", E.binary("shr", E.const(blocks), rank), E.const(1)).equal(0)
    alone = S.If(cond=left_out, then=S.seq(*own), loc=copy.loc)
    return [S.If(cond=rank.equal(first), then=S.seq(*shared), orelse=alone, loc=copy.loc)]


def _instructions(
    barrier: E.Expr | None, boxes: tma.Boxes, more: dict[str, object], loc: Loc | None
) -> list[S.Stmt]:
    """One instruction for each box: a load where there is a barrier."""
    tensor_map = _map(boxes, "rw" if "reduce" in more else "w" if barrier is None else "r")
    result: list[S.Stmt] = []
    for box in boxes.boxes:
        coords = [E.cast(at, INT) for at in box.tensor]
        address = E.AddressOf(boxes.tile, box.tile, "w" if barrier is not None else "r")
        if barrier is not None:
            atom = operations.TMA_LOAD_BOX if boxes.window is None else operations.TMA_LOAD_PIXELS
            call = E.call(atom, address, tensor_map, barrier, *coords, **more)
        else:
            call = E.call(operations.TMA_STORE_BOX, tensor_map, address, *coords, **more)
        result.append(S.Eval(value=call, loc=loc))
    return result


def sent(copy: S.Copy, ctx: Lowering) -> S.Stmt:
    """A tile to the same place, or another one, of another block of the cluster, whose barrier
    counts its bytes.

    Raises:
        TileUnsupportedError: the tiles are not runs of bytes in one order.
    """
    src, dst = copy.src, copy.dst
    why = _no_run(src, dst)
    if why is not None:
        raise TileUnsupportedError(
            f"T.copy_cluster cannot copy `{src!r}` to `{dst!r}` of another block: {why}",
            expected="whole tiles of one dtype, shape and layout, of a multiple of 16 bytes",
            got=f"`{copy!r}`",
            hint="give both tiles one layout with T.annotate_layout",
            loc=copy.loc,
        )
    assert copy.barrier is not None and copy.dst_block is not None
    size = prod(int(extent) for extent in src.extents) * src.dtype.bits // 8
    call = E.call(
        operations.BULK_COPY_CLUSTER, E.AddressOf(dst.buffer, dst.mins, "w"),
        E.AddressOf(src.buffer, src.mins, "r"), E.const(size), copy.barrier,
        E.cast(copy.dst_block, INT), bytes=size,
    )  # fmt: skip
    return elected(S.Eval(value=call, loc=copy.loc), ctx)


def _no_run(src: Region, dst: Region) -> str | None:
    """Why two tiles of shared memory are not the same run of bytes."""
    if src.dtype is not dst.dtype:
        return f"it converts {src.dtype} to {dst.dtype}"
    if not (src.is_whole and dst.is_whole and src.buffer.shape == dst.buffer.shape):
        return "it copies parts of tiles"
    if src.buffer.attrs.layout != dst.buffer.attrs.layout:
        return f"`{src.buffer.name}` and `{dst.buffer.name}` have different layouts"
    size = prod(int(extent) for extent in src.extents) * src.dtype.bits
    return None if size % (tma.CHUNK * 8) == 0 else f"it takes {size // 8} bytes"


def _map(boxes: tma.Boxes, access: str) -> E.Expr:
    """The tensor map, as ``T.create_tma_descriptor`` has it, or its like for im2col."""
    tensor, rank = boxes.tensor, len(boxes.sizes)
    start = E.AddressOf(tensor, (E.const(0),) * tensor.ndim, access)
    window = boxes.window
    described = (*boxes.extents, *(1,) * rank)
    if window is not None:
        steps = (1, *(window.stride,) * (rank - 2), 1)
        width, pixels = boxes.extents
        described = (*steps, *window.lower, *window.upper, pixels, width)
    atom = operations.TENSOR_MAP if window is None else operations.IMAGE_MAP
    numbers = (*described, 0, _SWIZZLES[boxes.span], _PROMOTION, 0)
    return E.call(
        atom, E.const(boxes.kind), E.const(rank), start, *boxes.sizes, *boxes.strides,
        *map(E.const, numbers),
    )  # fmt: skip


@dataclass
class OwnBarriers:
    """The barriers of synchronous loads.

    Attributes:
        before: statements for the start of the kernel. loops: how many are around the current
        statement.
    """

    before: list[S.Stmt] = field(default_factory=list)
    loops: int = 0

    def loaded(self, copies: Sequence[S.TileCopy], ctx: Lowering) -> S.Stmt:
        """Neighbouring loads of one group, which wait together."""
        loc = copies[0].loc
        bar = Buffer(
            "loaded", Shape((1,)), DType("uint64"), "shared.barrier",
            attrs=BufferHints(arrive_counts=(1,)),
        )  # fmt: skip
        mbarrier = E.AddressOf(bar, (E.const(0),))
        self.before.append(S.Alloc(buffer=bar, loc=loc))
        planned = [(copy, boxes_or_refuse(copy, ctx.bounds)) for copy in copies]
        size = sum(boxes.bytes for _, boxes in planned)
        inside: list[S.Stmt] = [S.do(MBARRIER_ARRIVE_EXPECT, mbarrier, size, loc=loc)]
        inside += [stmt for copy, boxes in planned for stmt in issued(copy, boxes, mbarrier)]
        parity, after = self.parity(loc)
        wait = S.do(MBARRIER_WAIT, mbarrier, parity, loc=loc)
        # Other threads may still read the tiles, or wait for an earlier phase of the barrier.
        shared = any(copy.hints.cluster_mask is not None for copy in copies)
        before = [S.do(operations.CLUSTER_SYNC, loc=loc)] if shared else []
        return S.seq(*before, elected(S.seq(*inside), ctx), wait, *after)

    def parity(self, loc: Loc | None) -> tuple[E.Expr, list[S.Stmt]]:
        """The parity of the phase that a load waits for, and the counter of phases."""
        if not self.loops:
            return E.const(0), []
        phase = Buffer("turn", Shape((1,)), INT, "local", attrs=HIDDEN)
        at = (E.const(0),)
        self.before += [
            S.Alloc(buffer=phase, loc=loc),
            S.Store(buffer=phase, indices=at, value=E.const(0), loc=loc),
        ]
        value = E.Load(phase, at)
        flip = E.binary("bitxor", value, E.const(1))
        return value, [S.Store(buffer=phase, indices=at, value=flip, loc=loc)]


def elected(body: S.Stmt, ctx: Lowering) -> S.Stmt:
    """``body`` by the first thread of the group."""
    return S.If(cond=ctx.thread.equal(0), then=body, loc=body.loc)


def announced(copy: S.TileCopy, ctx: Lowering) -> S.Stmt:
    """A load with a barrier of the program: it expects the bytes and gets no arrival."""
    assert copy.barrier is not None
    boxes = boxes_or_refuse(copy, ctx.bounds)
    calls = [S.do(MBARRIER_EXPECT, copy.barrier, boxes.bytes, loc=copy.loc), *issued(copy, boxes)]
    return S.seq(*_uniform_lets(copy, ctx), elected(S.seq(*calls), ctx))


def _uniform_lets(copy: tma.TmaOp, ctx: Lowering) -> list[S.Stmt]:
    """A look at what the threads have in common that ``copy`` takes from one of them."""
    if copy.hints.unproved is None:
        return []
    tensor, tile, _ = tma.endpoints_of(copy)
    coords = [E.cast(E.as_expr(at), INT) for at in (*reversed(tensor.mins), *tile.mins)]
    return [S.do(operations.TMA_AGREE, ctx.group.threads, *coords, loc=copy.loc)]


def stored(copy: tma.TmaOp, ctx: Lowering, loops: int) -> S.Stmt:
    """A TMA store, as a bulk group of the issuing thread. In a loop, the next store may write the
    same elements, so the wait is for the write; otherwise for the read of shared memory."""
    calls = issued(copy, boxes_or_refuse(copy, ctx.bounds))
    calls.append(S.do(operations.BULK_COMMIT, loc=copy.loc))
    if tma.is_complete(copy) and not copy.hints.waited_later:
        calls.append(S.do(operations.BULK_WAIT, E.const(0), loc=copy.loc, read=not loops))
    return S.seq(*_uniform_lets(copy, ctx), elected(S.seq(*calls), ctx))
