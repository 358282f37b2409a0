"""Compilation of CUDA, HIP and Metal sources for the emulator: a table entry for each kind of
target."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tilelang.emulator.declarations import rewrite_metal, rewrite_shared
from tilelang.errors import InternalError
from tilelang.records import dataclass
from tilelang.target.limits import limits_of


@dataclass(frozen=True)
class Family:
    """The options that compile kernels of one kind of target for the host.

    Attributes:
        kind: of the targets.
        language: of the generated source.
        folders: where its headers are, in the package, in the order of the include path.
        rewritten: the folder of headers that declare shared memory; "" for none.
        macros: flags that tell the headers the architecture.
        gcc: more flags for compilers of that family.
        rewrite: makes C++ of a source.
    """

    kind: str
    language: str
    folders: tuple[str, ...]
    macros: Callable[[str], tuple[str, ...]]
    rewritten: str = ""
    gcc: tuple[str, ...] = ()
    rewrite: Callable[[str], str] = rewrite_shared

    def warp_size(self, arch: str) -> int:
        """Lanes of a warp."""
        return limits_of(self.kind, arch).warp

    def most_shared(self, arch: str) -> int:
        """Bytes of shared memory that a block may have; 0 for the runtime's limit for CUDA."""
        return 0 if self.kind == "cuda" else limits_of(self.kind, arch).shared_block


def arch_flags(arch: str) -> tuple[str, ...]:
    """Flags that tell the headers an architecture, e.g. ``sm_90a``."""
    match = re.fullmatch(r"sm_(\d+)([a-z]?)", arch)
    number, suffix = (match[1], match[2]) if match else ("80", "")
    feature = (f"-D__CUDA_ARCH_FEAT_SM{number}_ALL",) if suffix else ()
    return (f"-DTL_EMU_ARCH={number}0", *feature)


def gfx_flags(arch: str) -> tuple[str, ...]:
    """The macros that clang defines for an AMD GPU, e.g. ``gfx942``: the chip and its family."""
    name = arch.partition(":")[0]
    return ("-DTL_EMULATOR", f"-D__{name}__", f"-D__{name[:-2].upper()}__")


CUDA = Family("cuda", "CUDA", ("emulator/include", "emulator/runtime"), arch_flags)
# Lanes of a wave that run the same call run it together, so that gcc must not duplicate calls.
HIP = Family(
    "hip", "HIP", ("emulator/amd", "hip/include", "cuda/include"), gfx_flags, "hip/include",
    ("-fno-thread-jumps", "-fno-reorder-blocks", "-fno-crossjumping", "-fno-tree-tail-merge",
     "-fno-optimize-sibling-calls"),
)  # fmt: skip
METAL = Family(
    "metal", "Metal", ("emulator/metal", "metal/include"), lambda arch: (), rewrite=rewrite_metal
)
FAMILIES: Mapping[str, Family] = {row.kind: row for row in (CUDA, HIP, METAL)}


def family_of(kind: str) -> Family:
    """The table entry for a kind of target."""
    family = FAMILIES.get(kind)
    if family is None:
        raise InternalError(f"the emulator has no family {kind!r}")
    return family
