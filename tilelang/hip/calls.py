"""Intrinsics whose source on AMD's GPUs differs from that of CUDA's headers."""

from __future__ import annotations

from dataclasses import replace

from tilelang.codegen.gpu.calls import address_of, arguments, require_nearest, require_whole_block
from tilelang.codegen.gpu.dialect import CallText
from tilelang.codegen.gpu.printer import GpuPrinter
from tilelang.cuda.calls import WRITERS as CUDA_WRITERS
from tilelang.cuda.forms import SHORT
from tilelang.ir import expr as E
from tilelang.ir.indices import parted

# What prints functions of CUDA's headers that HIP's headers have, too.
_SAME = (
    "load", "move bits", "dp4a", "is null", "reinterpret", "fast", "reciprocal", "nextafter",
    "one of some", "function by name", "atomic", "atomic of neighbours", "copy bytes",
    "warp reduction", "block reduction", "random numbers", "assert",
)  # fmt: skip


def _matrices(p: GpuPrinter, call: E.Call) -> str:
    """d += a x b on the registers of a wavefront; the family of 8-bit floats is the chip's."""
    kinds = (str(call.attr(name)).removesuffix("uz").removesuffix("fn") for name in "abc")
    names = "_".join(SHORT[kind] for kind in kinds)
    return f"tl_mma_{call.attr('shape')}_{names}({arguments(p, call)})"


def _load_lds(p: GpuPrinter, call: E.Call) -> str:
    """A load to LDS: the address of the first lane is brought to a scalar register once, where what
    is constant is added to it."""
    target = address_of(call, 0)
    start, constant = parted(target.indices[-1])
    size = target.buffer.dtype.bits // 8
    more = p.value(E.const(0) if constant is None else constant * size)
    base = replace(target, indices=(*target.indices[:-1], start))
    operands = arguments(p, replace(call, args=(base, call.args[1])))
    return f"tl_load_lds_{call.attr('bytes')}({operands}, {more})"


def _directed(p: GpuPrinter, call: E.Call) -> str:
    """IEEE arithmetic, rounded to nearest: the other modes are a state of the wavefront."""
    require_nearest(call, "HIP")
    return CUDA_WRITERS["rsqrt" if call.op == "ieee_frsqrt" else "directed"](p, call)


def _barrier(p: GpuPrinter, call: E.Call) -> str:
    """The block's barrier; there are none for some of its threads."""
    require_whole_block(p, call, "HIP")
    return "__syncthreads()"


WRITERS: dict[str, CallText] = {
    **{name: CUDA_WRITERS[name] for name in _SAME},
    "matrices": _matrices, "load to LDS": _load_lds, "directed": _directed, "rsqrt": _directed,
    "block barrier": _barrier,
}  # fmt: skip
