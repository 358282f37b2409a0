"""CPU cores by the names that C compilers have for them: how wide their vectors are.

The generated source is the same for all of them: it names vectors by their family, and the header
takes the width from the compiler's macros. So this table lists names: those that
``"cpu -arch=NAME"`` accepts, to build for a machine other than this one.

The vectors of SVE have the width of the machine that runs the code. A library is built for one
width and does not run on machines of another.

Sources: the x86-64 psABI ("Micro-Architecture Levels"), the manual of GCC ("x86 Options", "AArch64
Options").
"""

from __future__ import annotations

CORES: dict[str, int] = {
    "x86-64": 16, "x86-64-v2": 16, "nehalem": 16, "sandybridge": 16,
    "x86-64-v3": 32, "haswell": 32, "skylake": 32, "alderlake": 32,
    "znver1": 32, "znver2": 32, "znver3": 32,
    "x86-64-v4": 64, "skylake-avx512": 64, "cascadelake": 64, "icelake-server": 64,
    "sapphirerapids": 64, "znver4": 64, "znver5": 64,
    "armv8-a": 16, "armv8.2-a": 16, "armv9-a": 16, "neoverse-v1": 32, "a64fx": 64,
}  # fmt: skip
"""Name -> bytes of its vectors."""

# Those whose scalable vectors (SVE) are wider than the others of Arm -> their instructions. Not
# -mcpu: a -march before it would win.
_SCALABLE = {"neoverse-v1": "armv8.4-a+sve+bf16+i8mm", "a64fx": "armv8.2-a+sve"}


def core_flags(arch: str) -> tuple[str, ...]:
    """Flags of a C compiler for the cores ``arch``; none for this machine's, which is ""."""
    if arch in _SCALABLE:
        return (f"-march={_SCALABLE[arch]}", *scalable_flags(CORES[arch]))
    return (f"-march={arch}",) if arch else ()


def scalable_flags(vector_bytes: int) -> tuple[str, ...]:
    """Flags of a C compiler for a machine whose scalable vectors (SVE) have so many bytes.

    The vectoriser of GCC 12 fails on some loops for a fixed width (an internal error), and our
    loops are vectors without it.
    """
    return (f"-msve-vector-bits={8 * vector_bytes}", "-fno-openmp-simd", "-fno-tree-vectorize")
