"""Copies of tiles: ``T.copy`` and its variants.

All of them mean ``dst = cast(src)`` element by element; the variants choose the hardware path and
when the result may be used. Options never change what is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilelang.errors import TileTypeError, TileValueError
from tilelang.frontend import regions
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.emitter import emitter
from tilelang.ir.expr import Expr, Load, as_expr
from tilelang.ir.hints import CopyHints
from tilelang.ir.stmt import Copy, HardwareOp, Im2col, Pairs, Transpose
from tilelang.language.sync import barrier_address
from tilelang.target.nvidia import HARDWARE_TILES
from tilelang.tracebacks import borders

__all__ = [
    "async_copy", "c2d_im2col", "copy", "copy_cluster", "im2col", "tma_copy", "tma_gather4",
    "tma_gather4_bytes", "tma_scatter4", "transpose",
]  # fmt: skip

EVICTION = ("evict_normal", "evict_first", "evict_last")
INSTRUCTIONS = ("tma", "cp_async", "sync")


def _choice(value: object, allowed: Sequence[str], op_name: str, role: str) -> None:
    if value is not None and value not in allowed:
        raise TileValueError(
            f"the {role} of {op_name} is unknown",
            expected=", ".join(repr(choice) for choice in allowed),
            got=regions.describe(value),
        )


def check_loop_layout(layout: object, op_name: str) -> None:
    """``loop_layout`` has to be a ``T.Fragment``."""
    if layout is not None and not hasattr(layout, "thread_of"):
        raise TileTypeError(
            f"the loop_layout of {op_name} is not a fragment layout",
            expected="a T.Fragment",
            got=regions.describe(layout),
        )


def _copy(
    op_name: str, src: object, dst: object, mode: str = "copy", barrier: Expr | None = None,
    loop_layout: Any = None, dst_block: object = None, annotations: dict[str, Any] | None = None,
    **options: object,
) -> None:  # fmt: skip
    active = emitter(op_name)
    check_loop_layout(loop_layout, op_name)
    tiles = regions.align(src, dst, op_name)
    if tiles is None:
        a, b = regions.region_of(src, op_name), regions.region_of(dst, op_name)
        regions.check_plain(a, op_name, "source")
        regions.check_plain(b, op_name, "destination")
        active.store(b.buffer, b.mins, Load(a.buffer, a.mins))
        return
    a, b = tiles
    if a.scope() != "shared.tmem" and b.scope() != "shared.tmem":
        regions.check_plain(a, op_name, "source")
        regions.check_plain(b, op_name, "destination")
    if a.dtype.lanes != b.dtype.lanes:
        raise TileTypeError(
            f"the elements of {op_name} have different lanes",
            expected=f"{a.dtype.lanes} lanes, as `{a.buffer.name}` of dtype {a.dtype}",
            got=f"`{b.buffer.name}` of dtype {b.dtype}",
        )
    if "shared.tmem" in (a.scope(), b.scope()):
        needs = HARDWARE_TILES["copy_tmem"]
        active.emit(HardwareOp(name="copy_tmem", needs=needs, reads=(a,), writes=(b,)))
        return
    active.emit(
        Copy(
            src=a, dst=b, mode=mode, barrier=barrier, loop_layout=loop_layout,
            dst_block=None if dst_block is None else as_expr(dst_block),
            hints=_hints(annotations, options),
        )
    )  # fmt: skip


def _hints(annotations: dict[str, Any] | None, options: dict[str, object]) -> CopyHints:
    regions.check_options(annotations=annotations)
    values = dict(annotations or {})
    arrive = values.pop("emit_arrive", None)
    return CopyHints.of(regions.pairs(**options, emit_arrive=arrive, annotations=values or None))


def copy(
    src: object, dst: object, coalesced_width: int | None = None, disable_tma: bool = False,
    eviction_policy: str | None = None, prefer_instruction: str | None = None,
    annotations: dict[str, Any] | None = None, loop_layout: Any = None,
) -> None:  # fmt: skip
    """Copy a tile; the result is visible to the statements that follow.

    Elements are converted to the dtype of ``dst``. Reads outside a global source give 0 (or its
    safe value), writes outside a global destination are dropped.

    Args:
        src, dst: whole buffers of one shape, regions, or elements at which the tile starts (they
            take the extents of the other side), in any memory. Two elements are a scalar
            assignment.
        coalesced_width: accepted for programs of other implementations.
        disable_tma: copy without TMA.
        eviction_policy: L2 hint of a TMA load: "evict_normal", "evict_first" or "evict_last".
        prefer_instruction: "tma" (also below 4 KiB), "cp_async" or "sync" (both without TMA).
        annotations: options by name, for programs that pass them as a dict.
        loop_layout: a ``T.Fragment`` that fixes which thread copies which element.

    Raises:
        TileTypeError: elements of different lanes, or an operand that is not a buffer.
        TileValueError: shapes that do not fit together, or an unknown option.
    """
    op_name = "T.copy"
    _choice(eviction_policy, EVICTION, op_name, "eviction_policy")
    _choice(prefer_instruction, INSTRUCTIONS, op_name, "prefer_instruction")
    _copy(
        op_name, src, dst, loop_layout=loop_layout, coalesced_width=coalesced_width,
        disable_tma=disable_tma, eviction_policy=eviction_policy,
        prefer_instruction=prefer_instruction, annotations=annotations,
    )  # fmt: skip


def async_copy(
    src: object, dst: object, *, coalesced_width: int | None = None,
    annotations: dict[str, Any] | None = None, loop_layout: Any = None,
) -> None:  # fmt: skip
    """Copy from global to shared memory without waiting; ``T.ptx_wait_group`` waits.

    ``T.ptx_wait_group(n)`` waits until at most ``n`` groups of the thread are in flight. A copy is
    a group of its own unless ``T.ptx_commit_group()`` closes one of several. A barrier makes the
    tile visible to the other threads. Arguments are those of :func:`copy`.

    Source: PTX ISA, "cp.async".
    """
    _copy(
        "T.async_copy", src, dst, "async", loop_layout=loop_layout,
        coalesced_width=coalesced_width, annotations=annotations,
    )  # fmt: skip


def tma_copy(
    src: object, dst: object, *, barrier: object = None, cluster_mask: int | None = None,
    leader_scope_threads: int | None = None, eviction_policy: str | None = None,
    annotations: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Copy by TMA: a load signals ``barrier``, ``T.tma_store_wait`` waits for a store (sm_90).

    Args:
        src, dst: as for :func:`copy`; one side is global, the other shared memory.
        barrier: element of ``T.alloc_barrier``, needed for loads into shared memory. The copy adds
            its transaction bytes to the barrier; it does not arrive.
        cluster_mask: of a load: a bit for each rank of a block in the cluster; see
            :func:`copy_cluster`.
        leader_scope_threads: accepted for programs of other implementations.
        eviction_policy: as for :func:`copy`.
        annotations: ``{"emit_arrive": 1}`` makes one of the threads arrive, too.

    Raises:
        TileValueError: a load into shared memory without a barrier.

    Source: PTX ISA, "cp.async.bulk.tensor".
    """
    op_name = "T.tma_copy"
    _choice(eviction_policy, EVICTION, op_name, "eviction_policy")
    if cluster_mask is not None:
        cluster_mask = regions.constant_int(cluster_mask, op_name, "cluster_mask")
    target = regions.region_of(dst, op_name, "destination")
    if barrier is None and target.scope().startswith("shared"):
        raise TileValueError(
            "T.tma_copy into shared memory has no barrier",
            expected="barrier=bar[i] with bar = T.alloc_barrier(...)",
            hint="use T.copy when the copy should be complete at once",
        )
    signal = None if barrier is None else barrier_address(barrier, op_name)
    _copy(
        op_name, src, dst, "tma", signal, annotations=annotations, cluster_mask=cluster_mask,
        leader_scope_threads=leader_scope_threads, eviction_policy=eviction_policy,
    )  # fmt: skip


def copy_cluster(
    src: object, dst: object, *, dst_block: object = None, cluster_mask: int | None = None,
    remote_barrier: object = None, eviction_policy: str | None = None,
    coalesced_width: int | None = None, annotations: dict[str, Any] | None = None,
    loop_layout: Any = None,
) -> None:  # fmt: skip
    """Copy a tile for several blocks of a cluster (sm_90).

    Args:
        cluster_mask: of a load from global memory: a bit for each rank of a block in the cluster.
            The first of these blocks loads the tile for all of them, which name the same place;
            other blocks load for themselves.
        dst_block: the rank of the block whose ``dst`` receives ``src``. Both are whole tiles of
            shared memory, with the same shape and layout.
        remote_barrier: element of ``T.alloc_barrier``, the same in all of these blocks. A load
            announces its bytes to it; a block that gets a tile of another announces them itself
            (``T.mbarrier_arrive_expect_tx``). A load without one is complete in all blocks where
            the statement ends, which all threads of the cluster run together.

    The other arguments are those of :func:`copy`.

    Raises:
        TileValueError: neither or both of ``cluster_mask`` and ``dst_block``, or a copy to another
            block without a barrier.

    Source: PTX ISA, "cp.async.bulk.tensor", ".multicast::cluster"; "cp.async.bulk".
    """
    op_name = "T.copy_cluster"
    _choice(eviction_policy, EVICTION, op_name, "eviction_policy")
    if cluster_mask is not None:
        cluster_mask = regions.constant_int(cluster_mask, op_name, "cluster_mask")
    loads = regions.region_of(src, op_name, "source").scope() == "global"
    if loads == (cluster_mask is None) or loads != (dst_block is None):
        raise TileValueError(
            "T.copy_cluster does not name the blocks to copy to",
            expected="cluster_mask= for a load from global memory, dst_block= for a tile of shared "
            "memory",
            got=f"cluster_mask={cluster_mask!r}, dst_block={dst_block!r}",
        )
    if not loads and remote_barrier is None:
        raise TileValueError(
            "T.copy_cluster to another block has no barrier",
            expected="remote_barrier=bar[i] with bar = T.alloc_barrier(...), at which that block "
            "waits",
            got="none",
        )
    signal = None if remote_barrier is None else barrier_address(remote_barrier, op_name)
    mode = "tma" if loads and signal is not None else "cluster"
    _copy(
        op_name, src, dst, mode, signal, loop_layout, dst_block, annotations,
        cluster_mask=cluster_mask, eviction_policy=eviction_policy,
        coalesced_width=coalesced_width,
    )  # fmt: skip


def transpose(src: object, dst: object, annotations: dict[str, Any] | None = None) -> None:
    """Transpose a tile: ``dst[.., j, i] = src[.., i, j]``.

    Args:
        src, dst: tiles of two or more dimensions, of which the last two are exchanged. Elements are
            converted to the dtype of ``dst``.
        annotations: accepted, without effect.

    Raises:
        TileValueError: one dimension, or a destination of another shape.
    """
    op_name = "T.transpose"
    regions.check_options(annotations=annotations)
    a, b = regions.tile_of(src, op_name, "source"), regions.tile_of(dst, op_name, "destination")
    regions.check_plain(a, op_name, "source")
    regions.check_plain(b, op_name, "destination")
    if len(a.extents) < 2:
        raise TileValueError(
            "T.transpose of a tile with one dimension",
            expected="two or more dimensions",
            got=f"`{a!r}`",
        )
    transposed = (*a.extents[:-2], a.extents[-1], a.extents[-2])
    if not regions.are_equal_shapes(transposed, b.extents):
        raise TileValueError(
            "the destination of T.transpose has the wrong shape",
            expected=f"{regions.text_of(transposed)}, the transpose of `{a!r}`",
            got=f"{regions.text_of(b.extents)} of `{b!r}`",
        )
    emitter(op_name).emit(Transpose(src=a, dst=b))


def _window(**values: object) -> dict[str, int]:
    """The constants of a convolution's window."""
    op_name = "T.im2col"
    constants = {name: regions.constant_int(value, op_name, name) for name, value in values.items()}
    for name in ("kernel", "stride", "dilation"):
        if constants[name] < 1:
            raise TileValueError(
                f"the {name} of T.im2col is not positive",
                expected="at least 1",
                got=str(constants[name]),
            )
    return constants


def im2col(
    img: object, col: object, nhw_step: object, c_step: object, kernel: int, stride: int,
    dilation: int, pad: int, eviction_policy: str | None = None,
    annotations: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Gather the column tile of an NHWC image for a convolution.

    Args:
        img: global buffer (N, H, W, C).
        col: tile (rows of output pixels, columns of kernel positions times channels).
        nhw_step, c_step: tile index along rows and columns.
        kernel, stride, dilation, pad: constants, equal in both image dimensions.
        eviction_policy: L2 hint where TMA fills the tile (sm_90): it can if the columns of a tile
            are channels of one position of the window.
        annotations: accepted, without effect.

    Elements outside the image are 0.

    Raises:
        TileTypeError: different dtypes of image and tile.
        TileValueError: an image that is not a whole NHWC buffer, or wrong constants.

    Source: PTX ISA, "Tensors", "im2col mode".
    """
    op = "T.im2col"
    _choice(eviction_policy, EVICTION, op, "eviction_policy")
    image, tile = regions.tile_of(img, op, "image"), regions.tile_of(col, op, "column tile")
    if len(image.extents) != 4 or not image.is_whole:
        raise TileValueError(
            "the image of T.im2col is not a whole NHWC buffer",
            expected="4 dimensions",
            got=f"`{image!r}`",
        )
    if len(tile.extents) < 2 or len(tile.tile_dims()) > 2:
        raise TileValueError(
            "the column tile of T.im2col is not a matrix",
            expected="2 dimensions",
            got=f"`{tile!r}` with extents {regions.text_of(tile.extents)}",
        )
    if image.dtype is not tile.dtype:
        raise TileTypeError(
            "image and column tile of T.im2col have different dtypes",
            expected=str(image.dtype),
            got=str(tile.dtype),
        )
    constants = _window(kernel=kernel, stride=stride, dilation=dilation, pad=pad)
    emitter(op).emit(
        Im2col(
            src=image,
            dst=tile,
            nhw_step=regions.scalar(nhw_step, op),
            c_step=regions.scalar(c_step, op),
            kernel=constants["kernel"],
            stride=constants["stride"],
            dilation=constants["dilation"],
            pad=constants["pad"],
            hints=CopyHints.of(regions.pairs(eviction_policy=eviction_policy)),
        )
    )


c2d_im2col = im2col


def _rows(rows: object, op_name: str) -> tuple[Expr, ...]:
    if isinstance(rows, Buffer):
        rows = [rows[i] for i in range(4)]
    if isinstance(rows, Region):
        rows = [Load(rows.buffer, (*rows.mins[:-1], rows.mins[-1] + i)) for i in range(4)]
    if not isinstance(rows, (tuple, list)) or len(rows) != 4:
        raise TileValueError(
            f"{op_name} moves four rows", expected="four row indices", got=regions.describe(rows)
        )
    return tuple(regions.cast_to(row, DType("int32")) for row in rows)


def tma_gather4(
    src: object, dst: object, col: object, rows: object, *, barrier: object, swizzle: object = None,
    eviction_policy: str | None = None, annotations: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Load four rows of a matrix by index (sm_100).

    Args:
        src: the matrix in global memory.
        dst: a tile of four rows in shared memory.
        col: the first column.
        rows: the four row indices: a sequence, a buffer, or a region of which the first four count.
        barrier: element of ``T.alloc_barrier`` that counts the bytes.
        swizzle: of the tile; layout inference chooses it by default.
        eviction_policy: as for :func:`copy`.
        annotations: kept with the statement.

    Source: PTX ISA, "cp.async.bulk.tensor", ".tile::gather4".
    """
    op_name = "T.tma_gather4"
    a, b = regions.region_of(src, op_name, "source"), regions.region_of(dst, op_name, "destination")
    args = (regions.scalar(col, op_name), *_rows(rows, op_name), barrier_address(barrier, op_name))
    options = regions.pairs(
        swizzle=swizzle, eviction_policy=eviction_policy, annotations=annotations
    )
    _four_rows("tma_gather4", a, b, args, options)


def tma_scatter4(
    src: object, dst: object, col: object, rows: object, *, swizzle: object = None,
    eviction_policy: str | None = None, annotations: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Store four rows of a matrix by index (sm_100).

    Args:
        src: a tile of four rows in shared memory.
        dst: the matrix in global memory.
        col, rows, swizzle, eviction_policy, annotations: as for :func:`tma_gather4`.

    Source: PTX ISA, "cp.async.bulk.tensor", ".tile::scatter4".
    """
    op_name = "T.tma_scatter4"
    a, b = regions.region_of(src, op_name, "source"), regions.region_of(dst, op_name, "destination")
    options = regions.pairs(
        swizzle=swizzle, eviction_policy=eviction_policy, annotations=annotations
    )
    _four_rows("tma_scatter4", a, b, (regions.scalar(col, op_name), *_rows(rows, op_name)), options)


def _four_rows(name: str, a: Region, b: Region, args: tuple[Expr, ...], options: Pairs) -> None:
    emitter(f"T.{name}").emit(
        HardwareOp(
            name=name, needs=HARDWARE_TILES[name], reads=(a,), writes=(b,), args=args,
            options=options,
        )
    )  # fmt: skip


def tma_gather4_bytes(K_box: int, dtype: object) -> int:
    """Return the bytes that one ``T.tma_gather4`` of ``K_box`` columns copies."""
    return 4 * regions.constant_int(K_box, "T.tma_gather4_bytes", "K_box") * DType(dtype).bits // 8


borders(globals(), __all__)
