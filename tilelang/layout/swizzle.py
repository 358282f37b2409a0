"""Layouts of shared memory: linear, padded, and swizzled over 32, 64 or 128 bytes.

A swizzled matrix is cut into panels as wide as the span; a panel stores all rows one after the
other, and within a row the 16-byte chunk number is combined by exclusive or with the row, so that
eight rows of one chunk column are in different banks. This is what TMA writes and wgmma reads.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from tilelang.errors import TileValueError
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Expr, as_expr
from tilelang.layout.layout import Layout, constant_extents

CHUNK_BITS = 128  # what one thread moves at once
SPANS = (128, 64, 32)
PATTERN_ROWS = 8  # after so many a swizzle begins again


def _bits(buffer: object) -> int:
    return DType(getattr(buffer, "dtype", "float16")).width


def _matrix(buffer: object, subject: str) -> tuple[int, ...]:
    shape = constant_extents(buffer, subject)
    if len(shape) < 2:
        raise TileValueError(
            f"{subject} needs a matrix", expected="2 or more dimensions", got=shape
        )
    return shape


@lru_cache(maxsize=128)  # one object for all who ask, so that tables are made once
def swizzled(shape: tuple[int, ...], bits: int, span: int) -> Layout:
    """The last two dimensions swizzled over ``span`` bytes; leading ones are passed through."""
    chunk = CHUNK_BITS // bits
    width = span * 8 // bits
    per_phase = 128 // span  # rows that share one permutation

    def forward(*indices: Expr) -> tuple[Expr, ...]:
        *lead, row, column = indices
        inside = column % width
        phase = (row % 8) // per_phase
        moved = (inside // chunk ^ phase) * chunk + inside % chunk
        return (*lead, as_expr(column // width), row, as_expr(moved))

    rows, panels = shape[-2], shape[-1] // width
    covers = fits(shape, bits, span)  # then chunks are permuted within their rows
    return Layout(shape, forward, (*shape[:-2], panels, rows, width) if covers else None)


def fits(shape: tuple[int, ...], bits: int, span: int) -> bool:
    """Whether rows and columns are whole multiples of the pattern."""
    return CHUNK_BITS % bits == 0 and shape[-1] % (span * 8 // bits) == 0 and shape[-2] % 8 == 0


@lru_cache(maxsize=512)
def swizzle_of(layout: Layout | None, shape: tuple[int, ...], bits: int) -> int | None:
    """The span of the swizzle that ``layout`` is, as tensor maps and matrix descriptors know them.

    Any other layout than those is compared with them by the addresses of all elements.

    Args:
        layout: of a buffer of ``shape``, or of its last dimensions; None is row-major.
        shape: extents of the buffer; the last two are the matrix.
        bits: of an element.

    Returns:
        128, 64 or 32 (bytes); 0 for rows of whole 16 bytes one after the other; None for anything
        else, of which a unit that copies or multiplies tiles knows nothing.
    """
    if CHUNK_BITS % bits or len(shape) < 2:
        return None
    row_major = shape[-1] * bits % CHUNK_BITS == 0
    if layout is None:
        return 0 if row_major else None
    extents = layout.shape
    if len(extents) < 2 or shape[-len(extents) :] != extents or layout.size != prod(extents):
        return None
    tried = [span for span in SPANS if fits(extents, bits, span)]
    for span in tried:
        if layout is swizzled(extents, bits, span):
            return span
    addresses = layout.addresses()
    if row_major and np.array_equal(addresses.reshape(-1), np.arange(addresses.size)):
        return 0
    for span in tried:
        if np.array_equal(addresses, swizzled(extents, bits, span).addresses()):
            return span
    return None


def _bank(buffer: object, span: int, name: str) -> Layout:
    function = f"make_{name}_bank_swizzled_layout"
    shape, bits = _matrix(buffer, function), _bits(buffer)
    if not fits(shape, bits, span):
        raise TileValueError(
            f"{function} of a matrix that the pattern does not fill",
            expected=f"rows a multiple of 8, columns a multiple of {span * 8 // bits}",
            got=str(shape),
        )
    return swizzled(shape, bits, span)


def make_full_bank_swizzled_layout(buffer: object) -> Layout:
    """Swizzle over 128 bytes."""
    return _bank(buffer, 128, "full")


def make_half_bank_swizzled_layout(buffer: object) -> Layout:
    """Swizzle over 64 bytes."""
    return _bank(buffer, 64, "half")


def make_quarter_bank_swizzled_layout(buffer: object) -> Layout:
    """Swizzle over 32 bytes."""
    return _bank(buffer, 32, "quarter")


def make_linear_layout(buffer: object) -> Layout:
    """Row-major."""
    return Layout(constant_extents(buffer, "make_linear_layout"), lambda *i: i)


def make_padded_layout(buffer: object, pad: int | None = None) -> Layout:
    """Row-major with ``pad`` unused elements (16 bytes by default) after each row."""
    shape = _matrix(buffer, "make_padded_layout")
    pitch = shape[-1] + (CHUNK_BITS // _bits(buffer) if pad is None else pad)
    return Layout(shape, lambda *i: (*i[:-2], i[-2] * pitch + i[-1]))


def make_swizzled_layout(buffer: object, k_major: bool = True, allow_pad: bool = True) -> Layout:
    """Return the widest swizzle that fits, else padded rows (if allowed, useful), else row-major.

    Args:
        buffer: a buffer with 2 or more dimensions; the last two are the matrix.
        k_major: whether the last dimension is the reduced one; it does not matter here.
        allow_pad: whether rows may be padded where no swizzle fits.
    """
    shape, bits = _matrix(buffer, "make_swizzled_layout"), _bits(buffer)
    for span in SPANS:
        if fits(shape, bits, span):
            return swizzled(shape, bits, span)
    if allow_pad and shape[-1] * bits % 256 == 0:
        return make_padded_layout(buffer)
    return make_linear_layout(buffer)


def make_mma_swizzle_layout(buffer: object, is_smooth: bool = False) -> Layout:
    """Return the layout of a shared tile that feeds matrix instructions.

    Rows are swizzled, or row-major if ``is_smooth`` asks for that or no swizzle fits.

    Args:
        buffer: a buffer with 2 or more dimensions; the last two are the matrix.
        is_smooth: keep rows as they are.
    """
    if is_smooth:
        return make_linear_layout(buffer)
    return make_swizzled_layout(buffer, allow_pad=False)


def make_wgmma_swizzled_layout(
    buffer: object, continuity: int | None = None, k_major: bool = True
) -> Layout:
    """Return the widest swizzle whose panels divide ``continuity`` (the last extent by default).

    Raises:
        TileValueError: no span fits and rows are not a multiple of 16 bytes.
    """
    function = "make_wgmma_swizzled_layout"
    shape, bits = _matrix(buffer, function), _bits(buffer)
    run = shape[-1] if continuity is None else continuity
    for span in SPANS:
        if fits(shape, bits, span) and run % (span * 8 // bits) == 0:
            return swizzled(shape, bits, span)
    if shape[-1] % (CHUNK_BITS // bits) == 0:
        return make_linear_layout(buffer)
    raise TileValueError(
        f"{function} of rows that are not a multiple of 16 bytes",
        expected=f"columns a multiple of {CHUNK_BITS // bits}",
        got=str(shape),
    )


make_tcgen05mma_swizzled_layout = make_wgmma_swizzled_layout


def make_volta_swizzled_layout(buffer: object, is_a: bool = True, k_inner: bool = True) -> Layout:
    """Return the swizzle for the matrix instructions of sm_70: the same family as elsewhere."""
    return make_swizzled_layout(buffer)
