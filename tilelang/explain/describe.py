"""Layouts in one line each."""

from __future__ import annotations

from tilelang.errors import TileValueError
from tilelang.ir import expr as E
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.print_expr import expr_text
from tilelang.ir.simplify import simplify
from tilelang.layout.layout import Layout
from tilelang.layout.register_layout import RegisterLayout
from tilelang.layout.swizzle import SPANS, fits, swizzled

_NAMES = "ijklmnop"


def shape_text(buffer: Buffer) -> str:
    """``(64, 32) float16``."""
    extents = ", ".join(str(extent) for extent in buffer.shape)
    return f"({extents}{',' if len(buffer.shape) == 1 else ''}) {buffer.dtype}"


def distribution_text(layout: RegisterLayout) -> str:
    """Where each element of a fragment is: ``(i, j) -> thread .., register ..``."""
    index = [E.Var(_NAMES[dim % len(_NAMES)], DType("int32")) for dim in range(len(layout.shape))]
    indices: list[E.Expr] = [
        var if extent > 1 else E.const(0) for var, extent in zip(index, layout.shape)
    ]
    thread = expr_text(simplify(layout.thread_of(indices)))
    register = expr_text(simplify(layout.register_of(indices)))
    names = ", ".join(var.name for var in index)
    registers = f"{layout.register_count} register{'s' if layout.register_count > 1 else ''}"
    text = f"{registers} in each of {layout.threads} threads"
    if layout.is_replicated:
        text += f", each element in {layout.replication} threads"
    return f"{text}: ({names}) -> thread {thread}, register {register}"


def layout_text(layout: Layout | None, bits: int) -> str:
    """The family of a shared layout, with its map where it has no name."""
    if layout is None:
        return "row-major"
    shape = layout.shape
    if len(shape) >= 2:
        for span in SPANS:
            if fits(shape, bits, span) and layout == swizzled(shape, bits, span):
                return f"rows swizzled over {span} bytes"
    pitch = _pitch(layout)
    if pitch is not None:
        over = pitch - shape[-1]
        return f"rows padded by {over * bits // 8} bytes" if over else "row-major"
    names = ", ".join(var.name for var in layout.forward_vars)
    images = ", ".join(expr_text(image) for image in layout.forward_index)
    return f"permuted: ({names}) -> ({images})"


def _pitch(layout: Layout) -> int | None:
    """Elements from one row to the next where rows stay whole; None where they do not."""
    try:
        table = layout.addresses().reshape(-1, layout.shape[-1])
    except TileValueError:
        return None
    if (table != table[:, :1] + range(layout.shape[-1])).any():
        return None
    if len(table) == 1:
        return layout.shape[-1]
    steps = set((table[1:, 0] - table[:-1, 0]).tolist())
    return int(steps.pop()) if len(steps) == 1 else None
