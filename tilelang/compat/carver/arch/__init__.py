"""Machines to recommend tiles for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tilelang.target import Target, parse_target

__all__ = [
    "CDNA", "CPU", "CUDA", "METAL", "RDNA", "TileDevice", "auto_infer_current_arch", "get_arch",
]  # fmt: skip


@dataclass(frozen=True)
class TileDevice:
    """A machine by its target.

    Attributes:
        target: as ``tilelang.compile`` takes it.
    """

    _DEFAULT: ClassVar[str] = "auto"
    target: Target

    def __init__(self, target: Any = None) -> None:
        object.__setattr__(self, "target", parse_target(target or self._DEFAULT).concrete())

    @property
    def name(self) -> str:
        """The architecture, or the kind where there is none."""
        return self.target.arch or self.target.kind

    @property
    def warp_size(self) -> int:
        """Lanes of a warp."""
        return self.target.limits.warp

    @property
    def max_smem_usage(self) -> int:
        """Bytes of shared memory of one multiprocessor."""
        return self.target.limits.shared_processor

    @property
    def smem_cap(self) -> int:
        """Bytes of shared memory that a block can have."""
        return self.target.limits.shared_block

    @property
    def reg_cap(self) -> int:
        """32-bit registers of one multiprocessor."""
        return self.target.limits.registers


class CUDA(TileDevice):
    """A GPU of NVIDIA: "cuda", or with an architecture, "cuda -arch=sm_90a"."""

    _DEFAULT = "cuda"


class CDNA(TileDevice):
    """A GPU of AMD's data centres."""

    _DEFAULT = "hip"


class RDNA(CDNA):
    """A GPU of AMD's desktops."""


class METAL(TileDevice):
    """A GPU of Apple."""

    _DEFAULT = "metal"


class CPU(TileDevice):
    """The cores of this machine."""

    _DEFAULT = "cpu"


_KINDS = {"cuda": CUDA, "hip": CDNA, "metal": METAL, "cpu": CPU}


def get_arch(target: Any = "auto") -> TileDevice:
    """The machine of a target."""
    parsed = parse_target(target)
    return _KINDS.get(parsed.kind, TileDevice)(parsed)


def auto_infer_current_arch() -> TileDevice:
    """This machine: its GPU, or its cores."""
    return get_arch("auto")
