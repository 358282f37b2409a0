"""The vector types of ``tl_vector.h``: families of types with the same number of lanes."""

from __future__ import annotations

from tilelang.codegen.c import NARROW_FLOATS, CPrinter, storage_type
from tilelang.cpu.loops.vectorization import value_bits
from tilelang.ir.dtypes import dtype as DType

FAMILIES = {64: "d", 32: "w", 16: "h", 8: "b"}
WIDEST = {"d": 64, "w": 32, "h": 16, "b": 8}
MOST_LANES = {"d": 8, "w": 16, "h": 32, "b": 64}  # of any machine


class NoVectorError(Exception):
    """Vectors of this family have no type for a value."""


class VectorTypes:
    """Names of the types of one family.

    Attributes:
        family: the letter of the types.
    """

    def __init__(self, family: str) -> None:
        self.family = family

    def type(self, suffix: str) -> str:
        """The name of a vector type."""
        return f"tl_{self.family}_{suffix}"

    def suffix(self, dtype: DType) -> str:
        """The element type of a value of ``dtype``: "f32", "i8" ..., "mask" for booleans."""
        if dtype.is_bool:
            return "mask"
        if value_bits(dtype) > WIDEST[self.family] or dtype.bits < 8:
            raise NoVectorError
        if dtype.is_float:
            return "f64" if dtype == "float64" else "f32"
        return CPrinter.int_name(dtype)

    def of(self, dtype: DType) -> str:
        """The vector type of a value of ``dtype``."""
        return self.type(self.suffix(dtype))

    def integers(self, dtype: DType) -> str:
        """The vector type of signed integers as wide as values of ``dtype``."""
        return self.type("mask" if dtype.is_bool else f"i{value_bits(dtype)}")

    def stored_type(self, dtype: DType) -> str:
        """The vector type of elements of ``dtype`` in memory."""
        if dtype.is_bool or dtype in NARROW_FLOATS:
            return self.type("u8" if storage_type(dtype) == "uint8_t" else "u16")
        return self.type(self.suffix(dtype))
