"""Intrinsics whose text on AMD's GPUs is not that of CUDA's headers."""

from __future__ import annotations

from tilelang.codegen.gpu.calls import arguments
from tilelang.codegen.gpu.dialect import CallText
from tilelang.codegen.gpu.printer import GpuPrinter
from tilelang.cuda.calls import WRITERS as CUDA_WRITERS
from tilelang.cuda.forms import SHORT
from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E

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


def _directed(p: GpuPrinter, call: E.Call) -> str:
    """IEEE arithmetic, rounded to nearest: the other modes are a state of the wavefront."""
    mode = str(call.attr("rounding", "rn"))
    if mode != "rn":
        raise TileUnsupportedError(
            f"T.{call.op} with rounding_mode={mode!r} is not available on HIP",
            expected='rounding_mode="rn"',
            got=mode,
        )
    return CUDA_WRITERS["rsqrt" if call.op == "ieee_frsqrt" else "directed"](p, call)


def _barrier(p: GpuPrinter, call: E.Call) -> str:
    """The block's barrier; there are none for some of its threads."""
    first = call.args[0] if call.args else None
    if first is None or (len(call.args) == 1 and isinstance(first, E.Const) and first.value <= 0):
        return "__syncthreads()"
    raise TileUnsupportedError(
        "a barrier of some threads of a block is not available on HIP",
        expected="T.sync_threads() by all threads of the block",
        got=f"`{call!r}`",
    )


WRITERS: dict[str, CallText] = {
    **{name: CUDA_WRITERS[name] for name in _SAME},
    "matrices": _matrices,
    "directed": _directed,
    "rsqrt": _directed,
    "block barrier": _barrier,
}
