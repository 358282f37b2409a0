"""What differs between the kernel texts that the emulator runs: a row for each kind of target."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from tilelang.emulator.declarations import rewrite_metal, rewrite_shared
from tilelang.errors import InternalError
from tilelang.records import dataclass
from tilelang.target.limits import limits_of


@dataclass(frozen=True)
class Family:
    """How texts of one kind of target are compiled for the host.

    Attributes:
        kind: of the targets.
        language: what the text is called.
        folders: where its headers are, in the package; the first one that has a name wins.
        rewritten: the folder of headers that declare shared memory, as texts do; "" for none.
        macros: by which headers know the architecture.
        gcc: more flags for compilers of that family.
        rewrite: makes C++ of a text.
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
        """Bytes of shared memory that a block may have; 0 for what the runtime takes for CUDA."""
        return 0 if self.kind == "cuda" else limits_of(self.kind, arch).shared_block


def arch_flags(arch: str) -> tuple[str, ...]:
    """Macros by which headers know the architecture, e.g. ``sm_90a``."""
    found = re.fullmatch(r"sm_(\d+)([a-z]?)", arch)
    number, suffix = (found[1], found[2]) if found else ("80", "")
    feature = (f"-D__CUDA_ARCH_FEAT_SM{number}_ALL",) if suffix else ()
    return (f"-DTL_EMU_ARCH={number}0", *feature)


def gfx_flags(arch: str) -> tuple[str, ...]:
    """The macros that clang defines for an AMD GPU, e.g. ``gfx942``: the chip and its family."""
    name = arch.partition(":")[0]
    return ("-DTL_EMULATOR", f"-D__{name}__", f"-D__{name[:-2].upper()}__")


CUDA = Family("cuda", "CUDA", ("emulator/include", "emulator/runtime"), arch_flags)
# Lanes of a wave meet where they run the same call, so that the compiler must not make two of one.
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
    """The row for a kind of target."""
    found = FAMILIES.get(kind)
    if found is None:
        raise InternalError(f"the emulator has no family {kind!r}")
    return found
