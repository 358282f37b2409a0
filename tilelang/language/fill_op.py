"""``T.fill`` and ``T.clear``."""

from __future__ import annotations

from typing import Any

from tilelang.frontend import regions
from tilelang.ir.emitter import emitter
from tilelang.ir.stmt import Fill
from tilelang.tracebacks import borders

__all__ = ["clear", "fill"]


def _fill(op_name: str, buffer: object, value: object) -> None:
    active = emitter(op_name)
    dst = regions.region_of(buffer, op_name, "destination")
    regions.check_plain(dst, op_name, "destination")
    if dst.dtype.is_integer:
        regions.check_number(value, dst.dtype.element_of)
    filler = (
        value if isinstance(value, (bool, int, float)) else regions.scalar(value, op_name, "value")
    )
    if dst.anchored:  # an element or an alloc_var
        active.store(dst.buffer, dst.mins, filler)
        return
    active.emit(Fill(dst=dst, value=regions.stored(filler, dst.dtype)))


def fill(buffer: object, value: object, annotations: dict[str, Any] | None = None) -> None:
    """Set every element of a buffer, region or element to ``value``, cast to its dtype.

    Args:
        buffer: a buffer, a region, or an element, in any memory.
        value: a number or a scalar expression; a constant must fit an integer dtype.
        annotations: accepted, without effect.

    Raises:
        TileValueError: a constant that an integer dtype cannot hold.
    """
    regions.check_options(annotations=annotations)
    _fill("T.fill", buffer, value)


def clear(buffer: object, annotations: dict[str, Any] | None = None) -> None:
    """Set every element of a buffer, region or element to 0.

    Args:
        buffer, annotations: as for :func:`fill`.

    Raises:
        TileTypeError: no buffer, region or element.
    """
    regions.check_options(annotations=annotations)
    _fill("T.clear", buffer, 0)


borders(globals(), __all__)
