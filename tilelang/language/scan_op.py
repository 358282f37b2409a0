"""Inclusive scans of tiles: ``T.cumsum`` and ``T.cummax``."""

from __future__ import annotations

from typing import Any

from tilelang.errors import TileValueError
from tilelang.frontend.regions import constant_bool, constant_extents, text_of, tile_of
from tilelang.ir.emitter import emitter
from tilelang.ir.stmt import Scan
from tilelang.language.reduce_op import dimension, on_chip
from tilelang.tracebacks import borders

__all__ = ["cummax", "cumsum"]


def _scan(kind: str, op_name: str, src: object, dst: object, dim: object, reverse: object) -> None:
    active = emitter(op_name)
    source = tile_of(src, op_name, "source")
    target = source if dst is None else tile_of(dst, op_name, "result")
    on_chip(source, op_name, "source")
    on_chip(target, op_name, "result")
    extents = constant_extents(source, op_name, "source")
    result = constant_extents(target, op_name, "result")
    if extents != result:
        raise TileValueError(
            f"the result of {op_name} has the wrong shape",
            expected=f"{text_of(extents)}, as the source",
            got=f"{text_of(result)} of `{target!r}`",
        )
    axis = dimension(dim, len(extents), op_name)
    flag = constant_bool(reverse, op_name, "reverse")
    active.emit(Scan(src=source, dst=target, kind=kind, dim=axis, reverse=flag))


def cumsum(
    src: object, dst: object = None, dim: int = 0, reverse: bool = False,
    annotations: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Compute running sums along ``dim`` into ``dst`` or in place; backward if ``reverse``.

    Args:
        src: fragment, shared or local tile of constant shape.
        dst: tile of the same shape; None to work in place.
        dim: dimension, negative ones counted from the end.
        reverse: constant; scan from the end.
        annotations: accepted, without effect.

    Raises:
        TileValueError: a ``dst`` of another shape, or a dimension that does not exist.
    """
    _scan("sum", "T.cumsum", src, dst, dim, reverse)


def cummax(
    src: object, dst: object = None, dim: int = 0, reverse: bool = False,
    annotations: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Compute running maxima along ``dim``, ignoring NaN; arguments are those of :func:`cumsum`.

    Raises:
        TileTypeError: ``src`` is in global memory.
        TileValueError: as for :func:`cumsum`.
    """
    _scan("max", "T.cummax", src, dst, dim, reverse)


borders(globals(), __all__)
