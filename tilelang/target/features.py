"""Features of a machine, by name: passes test them, not the kind or number of a target.

Sources: PTX ISA, the "Target ISA Notes" of each instruction; CUDA C++ Programming Guide, "Compute
Capabilities"; AMD CDNA3 and RDNA4 instruction set manuals; Metal Feature Set Tables.
"""

from __future__ import annotations

from functools import lru_cache

FEATURES: dict[str, str] = {
    "cores": "one core runs a whole block, and host code may compute",
    "simt": "the threads of a block run concurrently, in warps",
    # Number formats of matrix instructions and conversions.
    "bf16": "bfloat16",
    "fp8": "8-bit floats",
    # NVIDIA.
    "mma_sm70": "mma.sync of Volta: four products of 8x8x4 in a warp",
    "ldmatrix": "ldmatrix: 8x8 tiles from shared memory to the registers of mma",
    "stmatrix": "stmatrix: 8x8 tiles from the registers of mma to shared memory",
    "mma": "mma.sync for float16 and bytes",
    "mma_sm80": "mma.sync for bfloat16, tfloat32, float64 and 4-bit integers, and short ones",
    "mma_fp8": "mma.sync for 8-bit floats",
    "mma_sp": "mma.sp: a sparse operand",
    "mma_blockscaled": "mma with block-scaled operands",
    "wgmma": "wgmma: products of a warpgroup, with operands in shared memory",
    "descriptors": "descriptors of operands in shared memory",
    "async_products": "products run asynchronously, while the issue slots of threads are scarce",
    "page_locality": "memory is faster where blocks that run together write the same pages",
    "bf16x2": "arithmetic of pairs of bfloat16",
    "fp8x2": "conversions of pairs to 8-bit floats",
    "tcgen05": "tcgen05: products with sums in tensor memory",
    "cp_async": "cp.async: copies of 4 to 16 bytes to shared memory that complete later",
    "bulk_copy": "cp.async.bulk: copies of runs of bytes, counted by an mbarrier",
    "tma": "cp.async.bulk.tensor: copies of boxes of a tensor with a tensor map",
    "mbarrier": "mbarrier objects in shared memory",
    "cluster": "clusters of blocks, which reach each other's shared memory",
    "elect": "elect.sync: one lane of a warp",
    "pdl": "griddepcontrol: kernels that start before the one in front of them ends",
    "clc": "clusterlaunchcontrol: work of blocks that have not started",
    "clc_multicast": "the same, sent to all blocks of a cluster",
    "setmaxnreg": "setmaxnreg: registers move between warpgroups",
    "roles": "warps that copy and warps that compute: mbarriers, TMA and setmaxnreg",
    "division_branches": "a division of float32 is a dozen instructions with a branch",
    "vector_red": "red.global.add of vectors of float32 and of two 16-bit floats",
    "access_256": "loads and stores of 256 bits of global memory",
    # AMD.
    "mfma": "matrix fused multiply-add of a wavefront",
    "mfma_i8_k16": "the same for bytes, 16 deep",
    "mfma_i8": "the same for bytes, 32 deep",
    "mfma_fnuz": "the same for 8-bit floats without infinity and negative zero",
    "mfma_ocp": "the same for 8-bit floats of the OCP",
    "mfma_k32": "the same twice as deep",
    "mfma_xf32": "the same for tfloat32",
    "wmma": "matrix multiply-accumulate of RDNA",
    "wmma_gfx11": "wmma whose operands both halves of the wavefront hold",
    "wmma_gfx12": "wmma whose operands are split between the halves of the wavefront",
    "ds_read": "reads of LDS in vectors of up to 128 bits",
    "vmcnt": "counters of outstanding memory instructions",
    "direct_lds": "loads from global memory straight to LDS, 4 bytes of a lane",
    "direct_lds_16": "the same with 16 bytes",
    "column_order": "results of products may have their columns in any order",
    # Apple.
    "simdgroup": "matrices of 8x8 in the registers of a simdgroup",
    "simdgroup_elements": "the same, whose elements are where they are on all chips so far",
}

# First compute capability of each feature that all later ones have, too.
_CUDA_SINCE = {
    "division_branches": 50,
    "mma_sm70": 70,
    "mma": 75, "ldmatrix": 75,
    "mma_sm80": 80, "mma_sp": 80, "cp_async": 80, "mbarrier": 80, "bf16": 80,
    "fp8": 89, "mma_fp8": 89, "fp8x2": 89,
    "stmatrix": 90, "bulk_copy": 90, "tma": 90, "cluster": 90, "elect": 90, "vector_red": 90,
    "pdl": 90, "descriptors": 90, "bf16x2": 90,
    "access_256": 100, "clc": 100,
}  # fmt: skip
# All compute capabilities. Any other number is a typing error.
CUDA_NUMBERS = frozenset(
    (
        50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121,
    )
)  # fmt: skip
# Features that only code for exactly one chip ("sm_90a") or for its family ("sm_100f") may use:
# no later chip promises them.
_CUDA_OF_CHIP = {
    "wgmma": (90,),
    "async_products": (90,),
    "page_locality": (90,),
    "setmaxnreg": (90, 100, 101, 103, 110, 120, 121),
    "roles": (90, 100, 101, 103, 110, 120, 121),
    "tcgen05": (100, 101, 103, 110),
    "clc_multicast": (100, 101, 103, 110, 120, 121),
    "mma_blockscaled": (120, 121),
}
# Prefix of the names of AMD's architectures -> their features besides "simt".
_HIP = {
    "gfx90a": ("mfma", "mfma_i8_k16", "ds_read", "vmcnt", "bf16", "column_order"),
    "gfx94": (
        "mfma", "mfma_i8", "mfma_fnuz", "mfma_xf32", "ds_read", "vmcnt", "direct_lds", "bf16",
        "fp8", "column_order",
    ),
    "gfx95": (
        "mfma", "mfma_i8", "mfma_ocp", "mfma_k32", "ds_read", "vmcnt", "direct_lds",
        "direct_lds_16", "bf16", "fp8", "column_order",
    ),
    "gfx9": ("ds_read", "vmcnt"),
    "gfx10": ("ds_read", "vmcnt"),
    "gfx11": ("wmma", "wmma_gfx11", "ds_read", "vmcnt", "bf16", "column_order"),
    "gfx12": ("wmma", "wmma_gfx12", "ds_read", "vmcnt", "bf16", "fp8", "column_order"),
}  # fmt: skip
HIP_ARCH = "gfx942"  # where a target names none, on a machine without such a GPU
_OTHERS = {
    "cpu": ("cores",),
    "metal": ("simt", "simdgroup", "simdgroup_elements", "bf16"),
    "webgpu": ("simt",),
}


@lru_cache(maxsize=64)
def features_of(kind: str, arch: str) -> frozenset[str]:
    """Names of :data:`FEATURES` that an architecture has.

    Args:
        kind: "cpu", "cuda", "hip", "metal" or "webgpu".
        arch: e.g. "sm_90a" or "gfx942:sramecc+"; "" for the default architecture.
    """
    if kind == "cuda":
        return _cuda_features(cuda_number(arch), arch[-1:] in ("a", "f"))
    if kind == "hip":
        start = max(filter((arch or HIP_ARCH).startswith, _HIP), key=len, default="")
        return frozenset(("simt", *_HIP.get(start, ())))
    return frozenset(_OTHERS.get(kind, ()))


@lru_cache(maxsize=64)
def lowest_with(feature: str) -> str:
    """The lowest architecture that has ``feature``, as messages name it: "sm_90a", "gfx942".

    A name that is not in :data:`FEATURES` is returned unchanged.
    """
    if feature in _CUDA_OF_CHIP:
        return f"sm_{min(_CUDA_OF_CHIP[feature])}a"
    if feature in _CUDA_SINCE:
        return f"sm_{_CUDA_SINCE[feature]}"
    others = {**_HIP, **_OTHERS}
    return next((name for name, features in others.items() if feature in features), feature)


def cuda_number(arch: str) -> int:
    """The compute capability of "sm_90a" as a number, 90; 80 where a target names none."""
    return int("".join(filter(str.isdigit, arch)) or 80)


def _cuda_features(number: int, own: bool) -> frozenset[str]:
    since = (name for name, first in _CUDA_SINCE.items() if first <= number)
    chip = (name for name, chips in _CUDA_OF_CHIP.items() if own and number in chips)
    return frozenset(("simt", *since, *chip))
