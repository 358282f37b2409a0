"""Properties of an AMD target, by the name of its architecture."""

from __future__ import annotations

from typing import Any

from tilelang.errors import TileValueError
from tilelang.target import parse_target
from tilelang.utils.target import check_hip_availability as check_hip_availability

# Start of the name -> generation of RDNA; every other gfx9 is CDNA (or GCN before it).
_RDNA = {"gfx10": 2, "gfx11": 3, "gfx12": 4}
_RDNA_1 = "gfx101"


def normalize_rocm_arch(arch: str | None) -> str | None:
    """The architecture without its features: "gfx942" of "gfx942:sramecc+:xnack-"."""
    return None if arch is None else arch.partition(":")[0].strip().lower() or None


def target_is_hip(target: Any) -> bool:
    """Whether the target is an AMD GPU."""
    return parse_target(target).kind == "hip"


def target_get_mcpu(target: Any) -> str | None:
    """The architecture of a HIP target, e.g. "gfx942"; None of any other, or when not known."""
    parsed = parse_target(target)
    return normalize_rocm_arch(parsed.arch) if parsed.kind == "hip" else None


def target_is_cdna(target: Any) -> bool:
    """Whether the target is a data-centre GPU of AMD (gfx9)."""
    return (target_get_mcpu(target) or "").startswith("gfx9")


def target_is_gfx950(target: Any) -> bool:
    """Whether the target is gfx950."""
    return target_get_mcpu(target) == "gfx950"


def target_is_rdna(target: Any) -> bool:
    """Whether the target is a graphics card of AMD (gfx10 and later)."""
    return (target_get_mcpu(target) or "")[:5] in _RDNA


def target_get_rdna_generation(target: Any) -> int:
    """1 to 4 for an RDNA target, 0 for every other."""
    arch = target_get_mcpu(target) or ""
    return 1 if arch.startswith(_RDNA_1) else _RDNA.get(arch[:5], 0)


def rocm_warp_size_for_arch(arch: str | None) -> int | None:
    """Threads of a wavefront as HIP compiles for the architecture; None when it is not known."""
    name = normalize_rocm_arch(arch)
    if name is None or not name.startswith("gfx"):
        return None
    return 64 if name.startswith("gfx9") else 32


def target_get_warp_size(target: Any) -> int:
    """Threads of a wavefront of a HIP target.

    Raises:
        TileValueError: no HIP target.
    """
    parsed = parse_target(target)
    if parsed.kind != "hip":
        raise TileValueError("the target is not an AMD GPU", expected="hip", got=str(parsed))
    return rocm_warp_size_for_arch(parsed.arch) or 64
