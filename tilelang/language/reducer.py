"""Reducers: fragments that accumulate a sum or another operation over all threads.

Two protocols: the older one clears or fills the reducer, updates it with ``acc[i] += x`` or
``acc[i] = T.max(acc[i], x)`` and finalizes it in place; the newer one uses ``T.reducer_init``,
``T.reducer_update`` and a separate destination.
"""

from __future__ import annotations

from typing import Any

from tilelang.errors import TileTypeError, TileValueError, check_type
from tilelang.frontend import regions
from tilelang.ir.buffer import Buffer
from tilelang.ir.emitter import emitter
from tilelang.ir.expr import Load
from tilelang.ir.stmt import ReducerFinalize, ReducerInit, ReducerUpdate
from tilelang.language.reduce_op import batch_of
from tilelang.tracebacks import borders

__all__ = ["finalize_reducer", "reducer_init", "reducer_update"]


def _declared(buffer: object, op_name: str) -> tuple[Buffer, str]:
    declaration = buffer.attrs.reducer if isinstance(buffer, Buffer) else None
    if not isinstance(buffer, Buffer) or declaration is None:
        raise TileTypeError(
            f"{op_name} of something that is not a reducer",
            expected="a buffer made by T.alloc_reducer",
            got=regions.describe(buffer),
        )
    return buffer, str(declaration[0])


def reducer_init(reducer: Buffer, init: object = None) -> None:
    """Start a reducer with the identity of its operation, or with ``init``.

    Args:
        reducer: a buffer of ``T.alloc_reducer``.
        init: a scalar, converted to the reducer's dtype. It enters each result once, however many
            threads there are.

    Raises:
        TileTypeError: a buffer that is not a reducer.
    """
    op_name = "T.reducer_init"
    buffer, _ = _declared(reducer, op_name)
    value = (
        None
        if init is None
        else regions.stored(regions.scalar(init, op_name, "initial value"), buffer.dtype)
    )
    emitter(op_name).emit(ReducerInit(reducer=buffer.whole(), init=value))


def reducer_update(target: Any, value: object) -> None:
    """Update a reducer: ``acc[i] = op(acc[i], value)``.

    Args:
        target: an element of a reducer.
        value: a scalar, cast to the reducer's dtype.

    Raises:
        TileTypeError: no element of a reducer.
    """
    op_name = "T.reducer_update"
    check_type(
        target, Load, "the target of T.reducer_update is not an element", "acc[i]", regions.describe
    )
    buffer, op = _declared(target.buffer, op_name)
    added = regions.cast_to(regions.scalar(value, op_name, "value"), buffer.dtype)
    emitter(op_name).emit(ReducerUpdate(buffer=buffer, indices=target.indices, value=added, op=op))


def finalize_reducer(
    reducer: Buffer, dst: object = None, batch: int = 1, annotations: dict[str, Any] | None = None
) -> None:
    """Combine the partial results of all threads, in place or into ``dst``.

    Args:
        reducer: a buffer of ``T.alloc_reducer``.
        dst: a tile of the reducer's shape; None for the reducer itself.
        batch: independent results per exchange between threads. It affects speed only.
        annotations: accepted, without effect.

    Raises:
        TileTypeError: a buffer that is not a reducer.
        TileValueError: a ``dst`` of another shape.
    """
    op_name = "T.finalize_reducer"
    buffer, op = _declared(reducer, op_name)
    target = None
    if dst is not None:
        target = regions.tile_of(dst, op_name, "destination")
        if not regions.are_equal_shapes(
            buffer.shape, regions.constant_extents(target, op_name, "destination")
        ):
            raise TileValueError(
                f"the destination of {op_name} has the wrong shape",
                expected=f"{regions.text_of(buffer.shape)}, as `{buffer.name}`",
                got=f"{regions.text_of(target.extents)} of `{target!r}`",
            )
    count = batch_of(batch, op_name)
    emitter(op_name).emit(ReducerFinalize(reducer=buffer.whole(), dst=target, op=op, batch=count))


borders(globals(), __all__)
