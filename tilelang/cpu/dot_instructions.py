"""Dot-product instructions: narrow operands are multiplied and summed in pairs or fours.

A *word* of 32 bits holds ``group`` elements of an operand that are adjacent in k. An instruction
adds to each lane of its accumulator the dot product of two words. Every row names its machines by
the macros that compilers define for them, and the preprocessor picks the first row that applies. So
one source serves every machine.

Where the machine has AMX tiles, and the system lets the process use them, a tile instruction
multiplies 16 rows of A by 16 columns of B, with 16 words of each. Both are stored as words; only
the packing may differ.

Sources: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2 (PMADDWD, VPDPBUSD,
VPDPBSSD, VPDPWSSD, VDPBF16PS, TDPBSSD and the like, TDPBF16PS); Arm
Architecture Reference Manual, C7.2 (SDOT, BFDOT).
"""

from __future__ import annotations

from tilelang.ir.dtypes import dtype as DType
from tilelang.records import dataclass

TILE_WORDS = 16  # of a row that a tile takes at once


@dataclass(frozen=True)
class Unit:
    """One instruction.

    Attributes:
        name: of the instruction, as its manual has it.
        macro: of ``tl_dot.h``; gets a vector type, the sums, and words of B and of A.
        when: the condition of the preprocessor for machines that have it.
        vector_bytes: of its operands.
        group: operand elements in a 32-bit word.
        offset: added to elements of B to make them unsigned. The sums of a row then start from
            ``-offset`` times the sum of the row of A.
    """

    name: str
    macro: str
    guard: str
    vector_bytes: int
    group: int
    offset: int = 0


@dataclass(frozen=True)
class PackedDot:
    """A kind of product whose operands become words.

    Attributes:
        prefix: of the macros that say which unit the machine has.
        accumulator: dtype of the sums.
        pack: suffix of the functions that make words.
        units: the rows, best first; the last, if it has no condition, is for every machine.
        tiles: the instruction on tiles, if there is one.
    """

    prefix: str
    accumulator: str
    pack: str
    units: tuple[Unit, ...]
    tiles: Unit | None = None

    @property
    def text(self) -> str:
        """The preprocessor conditions that choose an instruction."""
        lines: list[str] = []
        for at, unit in enumerate(self.units):
            lines.append(f"#{'el' * bool(at)}if {unit.guard}" if unit.guard else "#else")
            text_lines = (
                ("BYTES", unit.vector_bytes), ("GROUP", unit.group), ("OFFSET", unit.offset),
                ("DOT", unit.macro),
            )  # fmt: skip
            lines.append(f"// {unit.name}")
            lines += [f"#define TL_{self.prefix}_{name} {value}" for name, value in text_lines]
        return "\n".join([*lines, "#endif", *self._tiles(), ""])

    def _tiles(self) -> list[str]:
        """The kernel for tiles, and how operands are packed: group and offset."""
        prefix, tiles = f"TL_{self.prefix}", self.tiles
        if tiles is None:
            return []
        ctype = {"int32": "int32_t", "float32": "float"}[self.accumulator]
        return [
            f"#if {tiles.guard}",
            f"// {tiles.name}",
            f"TL_TILE_KERNEL({prefix.lower()}_tiles, {tiles.macro}, {ctype})",
            f"#define {prefix}_TILES {prefix.lower()}_tiles",
            f"#define {prefix}_LAYOUT (tl_tiles() ? {tiles.group} : {prefix}_GROUP), "
            f"(tl_tiles() ? {tiles.offset} : {prefix}_OFFSET)",
            "#else",
            f"#define {prefix}_LAYOUT {prefix}_GROUP, {prefix}_OFFSET",
            "#endif",
        ]

    def most_words(self, k: int) -> int:
        """Number of 32-bit words for ``k`` elements: the maximum over all machines."""
        units = (*self.units, self.tiles) if self.tiles else self.units
        counts = {unit.group: -(-k // unit.group) for unit in units}
        return max(
            -(-count // TILE_WORDS) * TILE_WORDS if group > 1 else count
            for group, count in counts.items()
        )


def _tile(name: str, feature: str, group: int) -> Unit:
    return Unit(name, f"TL_{name.upper()}", f"defined({feature})", 64, group)


_PAIRS = (
    Unit("vpmaddwd", "TL_VPMADDWD_64", "defined(__AVX512BW__)", 64, 2),
    Unit("vpmaddwd", "TL_VPMADDWD_32", "defined(__AVX2__)", 32, 2),
    Unit("pmaddwd", "TL_PMADDWD_16", "defined(__SSE2__)", 16, 2),
    Unit("products of pairs", "TL_PAIRS", "", 16, 2),
)  # fmt: skip
_WIDE_PAIRS = Unit("vpdpwssd", "TL_VPDPWSSD", "defined(__AVX512VNNI__)", 64, 2)

# Sums of products of signed bytes are exact: no instruction here saturates (vpmaddubsw would).
SIGNED_BYTES = PackedDot("I8", "int32", "8", (
    Unit("vpdpbusd", "TL_VPDPBUSD", "defined(__AVX512VNNI__)", 64, 4, offset=128),
    Unit("vpdpbssd", "TL_VPDPBSSD", "defined(__AVXVNNIINT8__)", 32, 4),
    Unit("vpdpbusd", "TL_VEX_VPDPBUSD", "defined(__AVXVNNI__)", 32, 4, offset=128),
    Unit("sdot of SVE", "TL_SVE_SDOT", "__ARM_FEATURE_SVE_BITS == 512", 64, 4),
    Unit("sdot of SVE", "TL_SVE_SDOT", "__ARM_FEATURE_SVE_BITS == 256", 32, 4),
    Unit("sdot", "TL_SDOT", "defined(__ARM_FEATURE_DOTPROD)", 16, 4),
    *_PAIRS,
), _tile("tdpbssd", "__AMX_INT8__", 4))  # fmt: skip
# The same on machines that have nothing better than pairs of 32 bytes, where one operand has seven
# bits: no sum of two products then leaves 16 bits. Operands say so when the product runs
# (``tl_seven_bits``), which also gives the offset.
SEVEN_BITS = PackedDot("I7", "int32", "8", (
    Unit("vpmaddubsw", "TL_VPMADDUBSW",
         "defined(__AVX2__) && TL_I8_BYTES == 32 && TL_I8_GROUP == 2", 32, 4, offset=128),
))  # fmt: skip
# By whether A and B have a sign.
_SIGNS = {(True, False): "su", (False, True): "us", (False, False): "uu"}
BYTES = {
    signs: PackedDot(
        f"{word}8".upper(), "int32", "8", (_WIDE_PAIRS, *_PAIRS),
        _tile(f"tdpb{word}d", "__AMX_INT8__", 4),
    )
    for signs, word in _SIGNS.items()
}  # fmt: skip

# The instruction rounds twice per pair, as two multiply-adds do. It reads subnormal operands as
# zero, so tiles with subnormal elements use the float32 kernel. The remaining difference: sums
# below 2**-126 are zero. Arm's BFDOT rounds to odd and is not used.
BFLOAT16_PAIRS = PackedDot("BF16", "float32", "16", (
    Unit("vdpbf16ps", "TL_VDPBF16PS", "defined(__AVX512BF16__)", 64, 2),
    Unit("multiply-adds", "TL_NO_DOT", "", 16, 1),
), _tile("tdpbf16ps", "__AMX_BF16__", 2))  # fmt: skip

_BYTES = ("int8", "uint8")


def packed_dot_of(a: DType, b: DType, accumulator: DType) -> PackedDot | None:
    """The packing of operands of ``a`` and ``b`` in words; None where their kernel takes them
    unpacked, or in the dtype of the accumulator."""
    if a in _BYTES and b in _BYTES and accumulator == "int32":
        return SIGNED_BYTES if a == b == "int8" else BYTES[a == "int8", b == "int8"]
    return BFLOAT16_PAIRS if a == b == "bfloat16" and accumulator == "float32" else None
