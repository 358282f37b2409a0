"""TMA descriptors: every argument of ``cuTensorMapEncodeTiled`` or ``cuTensorMapEncodeIm2col``.

The driver calls every mistake "invalid value"; so what is known before a call is checked here.
"""

from __future__ import annotations

from tilelang.errors import TileValueError
from tilelang.ir.postfix import Program
from tilelang.records import dataclass

# Value of CUtensorMapDataType -> bytes of an element; the packed 4 and 6 bit types are left out.
ELEMENT_BYTES = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2, 10: 4, 11: 4, 12: 4}
PACKED_TYPES = (13, 14, 15)
_FLOAT_TYPES = (6, 7, 8, 9, 10, 11, 12)
_SWIZZLE_SPAN = {1: 32, 2: 64, 3: 128}  # value of CUtensorMapSwizzle -> bytes


@dataclass(frozen=True)
class TmaDescriptor:
    """One tensor map.

    Attributes:
        tensor: name of the tensor parameter, or of the parameter with its address.
        data_type: value of CUtensorMapDataType.
        dims: extents, innermost first, as numbers or programs over the slots of the call.
        strides: bytes from one element to the next along each dim; the first is the size of an
            element and not passed on.
        element_strides: step between the elements that are taken, 1 to 8.
        box: extents of a tile; empty for im2col.
        lower, upper: corners of the box of an im2col map, one per spatial dim.
        channels, pixels: per load of an im2col map.
        interleave, swizzle, l2_promotion, fill: values of the enums of the driver.

    Raises:
        TileValueError: the driver would refuse it.
    """

    tensor: str
    data_type: int
    dims: tuple[int | Program, ...]
    strides: tuple[int | Program, ...]
    element_strides: tuple[int, ...]
    box: tuple[int, ...] = ()
    lower: tuple[int, ...] = ()
    upper: tuple[int, ...] = ()
    channels: int = 0
    pixels: int = 0
    interleave: int = 0
    swizzle: int = 0
    l2_promotion: int = 0
    fill: int = 0

    @property
    def rank(self) -> int:
        """Number of dims."""
        return len(self.dims)

    @property
    def is_im2col(self) -> bool:
        """Whether it gathers pixels of a convolution."""
        return not self.box

    def __post_init__(self) -> None:
        self._check_ranges()
        if self.is_im2col:
            self._check_im2col()
        else:
            self._check_box()

    def _need(self, holds: bool, problem: str, expected: str, got: object) -> None:
        if not holds:
            raise TileValueError(
                f"the tensor map of `{self.tensor}`: {problem}", expected=expected, got=str(got)
            )

    def _check_ranges(self) -> None:
        rank = self.rank
        lowest = 3 if self.is_im2col or self.interleave else 1
        self._need(lowest <= rank <= 5, "the rank is out of range", f"{lowest} to 5", rank)
        for name in ("strides", "element_strides"):
            count = len(getattr(self, name))
            self._need(count == rank, f"{name} has the wrong length", str(rank), count)
        known = self.data_type in ELEMENT_BYTES or self.data_type in PACKED_TYPES
        self._need(known, "unknown data type", "0 to 15", self.data_type)
        limits = {"interleave": 2, "swizzle": 3, "l2_promotion": 3, "fill": 1}
        for name, limit in limits.items():
            value = getattr(self, name)
            self._need(0 <= value <= limit, f"unknown {name}", f"0 to {limit}", value)
        floats = self.fill == 0 or self.data_type in _FLOAT_TYPES
        self._need(floats, "only floats can be filled with NaN", "fill=0", f"fill={self.fill}")
        for extent in self.dims:
            if isinstance(extent, int):
                self._need(0 < extent <= 2**32, "a dim is out of range", "1 to 2**32", extent)
        unit = 32 if self.interleave == 2 or self.data_type in (14, 15) else 16
        for stride in self.strides[1:]:
            if isinstance(stride, int):
                fits = 0 < stride < 2**40 and stride % unit == 0
                expected = f"a multiple of {unit} bytes below 2**40"
                self._need(fits, "a stride is out of range", expected, stride)
        for step in self.element_strides:
            self._need(1 <= step <= 8, "an element stride is out of range", "1 to 8", step)

    def _check_box(self) -> None:
        self._need(len(self.box) == self.rank, "box has the wrong length", str(self.rank), self.box)
        for extent in self.box:
            self._need(1 <= extent <= 256, "the box is out of range", "1 to 256", extent)
        if self.data_type in ELEMENT_BYTES and self.interleave == 0:
            size = self.box[0] * ELEMENT_BYTES[self.data_type]
            is_aligned = size % 16 == 0
            self._need(is_aligned, "the box is too narrow", "rows of a multiple of 16 bytes", size)
            span = _SWIZZLE_SPAN.get(self.swizzle, size)
            self._need(size <= span, "the box is wider than the swizzle", f"{span} bytes", size)

    def _check_im2col(self) -> None:
        for name in ("lower", "upper"):
            count = len(getattr(self, name))
            expected = str(self.rank - 2)
            self._need(count == self.rank - 2, f"{name} has the wrong length", expected, count)
        self._need(1 <= self.channels <= 256, "channels is out of range", "1 to 256", self.channels)
        self._need(1 <= self.pixels <= 1024, "pixels is out of range", "1 to 1024", self.pixels)
