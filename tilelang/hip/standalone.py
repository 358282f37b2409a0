"""Device source for compilers that have names of their own: ``hipcc``, whose file has host code and
includes the headers of HIP, and hipRTC, which includes them by itself.

Includes are replaced by the text of our headers. In the device part a name that both define denotes
ours. After it the names denote those of HIP and of the C library again.
"""

from __future__ import annotations

from tilelang.cuda.standalone import enclosed
from tilelang.hip.headers import device_headers

# What both define.
_NAMES = (
    *(f"{sign}int{bits}_t" for bits in (8, 16, 32, 64) for sign in ("", "u")),
    *"uint2 uint3 uint4 make_uint2 make_uint4".split(),
    *"__threadfence __threadfence_block __syncthreads __syncwarp".split(),
    *"__syncthreads_count __syncthreads_and __syncthreads_or printf".split(),
    *"__popc __popcll __clz __clzll __ffs __ffsll __umulhi __double2float_rz".split(),
    *(f"__{kind}2{to}_rz" for kind in ("float", "double") for to in ("int", "uint", "ll", "ull")),
    *(
        f"{name}{kind}"
        for name in "fabs floor ceil trunc nearbyint round sqrt fmin fmax copysign ldexp".split()
        for kind in ("", "f")
    ),
    *"fma fmaf expf exp2f exp10f logf log2f log10f".split(),
    *(f"atomic{name}" for name in "Add Max Min Or And Xor Exch CAS".split()),
)
# Macros of our headers that would reach further.
_MACROS = (
    "threadIdx", "blockIdx", "blockDim", "gridDim", "memcpy", "INT64_C", "UINT64_C", "INT32_MIN",
    "INT32_MAX", "INT64_MIN", "INT64_MAX", "UINT32_MAX", "UINT64_MAX", "INFINITY", "NAN",
)  # fmt: skip


def standalone(source: str) -> str:
    """``source`` as a part of a file with host code; as it is when it uses none of our headers."""
    before = [f"#undef {name}" for name in _MACROS]
    before += [f"#define {name} tl_own_{name.lstrip('_')}" for name in _NAMES]
    return enclosed(source, device_headers(), before, [*_NAMES, *_MACROS])
