"""Alternatives where a machine lacks a feature: an architecture that has it, or, on the GPUs
of other vendors, intrinsics that every GPU has."""

from __future__ import annotations

from tilelang.errors import Loc, TileUnsupportedError
from tilelang.target.features import lowest_with
from tilelang.target.parse import Target

_PRODUCT = "T.gemm, which uses the matrix instructions of the chip"
# Features of NVIDIA's GPUs that intrinsics need -> intrinsics for all GPUs.
INSTEAD: dict[str, str] = {
    "mbarrier": "T.sync_threads(), or T.copy in a loop of T.Pipelined",
    "bulk_copy": "T.copy",
    "tma": "T.copy",
    "cluster": "T.Kernel without clusters: a block exchanges data by tensors of its own",
    "elect": "a condition on T.get_lane_idx()",
    "clc": "T.Persistent",
    "clc_multicast": "T.Persistent",
    **dict.fromkeys(
        (
            "mma_sm70", "mma", "mma_sm80", "mma_fp8", "mma_sp", "mma_blockscaled", "ldmatrix",
            "stmatrix", "wgmma", "descriptors", "tcgen05",
        ),
        _PRODUCT,
    ),
}  # fmt: skip


def unavailable(
    name: str, feature: str, target: Target, loc: Loc | None = None
) -> TileUnsupportedError:
    """The error for ``name`` on a target without ``feature``, a name of ``features.FEATURES``."""
    elsewhere = target.is_gpu and target.kind != "cuda"
    instead = INSTEAD.get(feature) if elsewhere else None
    machine = target.kind.capitalize() if elsewhere else "this target"
    return TileUnsupportedError(
        f"{name} is not available on {target.arch or machine}",
        expected=instead or f"a target with {lowest_with(feature)}",
        got=str(target),
        loc=loc,
    )
