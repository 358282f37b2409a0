"""Calls of Metal kernels whose source is more than a function name and its arguments."""

from __future__ import annotations

from tilelang.codegen.c import NARROW_FLOATS, bare
from tilelang.codegen.gpu import calls
from tilelang.codegen.gpu.dialect import CallText
from tilelang.codegen.gpu.printer import GpuPrinter
from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E

ATOMIC_SUFFIX = {"int32": "i32", "uint32": "u32", "float32": "f32"}
# "mem_threadgroup" alone would not order what threads of the block have written to tensors.
_BARRIER = "threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup)"


def _suffix(call: E.Call) -> str:
    """The suffix of atomic functions for the dtype; there are 32-bit ones, in any order."""
    buffer = calls.address_of(call, 0).buffer
    suffix = ATOMIC_SUFFIX.get(buffer.dtype)
    order = str(call.attr("memory_order", "relaxed"))
    if suffix is None or (suffix == "f32" and call.op in ("atomic_and", "atomic_or", "atomic_xor")):
        raise TileUnsupportedError(
            f"T.{call.op} on {buffer.dtype} is not supported on Metal",
            expected="int32, uint32 or float32", got=f"`{buffer.name}` of dtype {buffer.dtype}",
            hint="accumulate in float32 and convert the sums afterwards",
        )  # fmt: skip
    if order != "relaxed":
        raise TileUnsupportedError(
            f"T.{call.op} with memory_order={order!r} is not supported on Metal",
            expected='memory_order="relaxed", which is all that its atomics have', got=order,
            hint="let a second kernel use what the blocks of the first one have written",
        )  # fmt: skip
    return suffix


def _atomic(p: GpuPrinter, call: E.Call) -> str:
    """One indivisible update."""
    return f"tl_{call.op}_{_suffix(call)}({calls.arguments(p, call)})"


def _atomic_vector(p: GpuPrinter, call: E.Call) -> str:
    """Neighbouring sums, each indivisible by itself."""
    suffix, source = _suffix(call), call.args[1]
    if suffix != "f32" or len(call.args) > 2:
        raise TileUnsupportedError(
            f"T.{call.op} in this form is not supported on Metal",
            expected="neighbours of dtype float32, without their previous values",
            got=f"`{call!r}`", hint="add each element with T.atomic_add",
        )  # fmt: skip
    address = p.value(call.args[0])
    if isinstance(source, E.AddressOf):
        return f"tl_{call.op}_f32({address}, {p.value(source)})"
    values = ", ".join(calls.lane_text(p, source, at) for at in range(int(call.op[-1])))
    return f"tl_{call.op}_values_f32({address}, {values})"


def _vector_copy(p: GpuPrinter, call: E.Call) -> str:
    """A move of several bytes between any two memories."""
    return f"tl_copy_{call.attr('bytes', 0)}({calls.arguments(p, call)})"


def _directed(p: GpuPrinter, call: E.Call) -> str:
    """IEEE arithmetic, which is rounded to nearest here."""
    calls.require_nearest(call, "Metal", "" if call.atom.text else "T.rsqrt")
    return calls.narrowed(p, call.dtype, f"tl_{call.atom.text}_rn_f32({calls.arguments(p, call)})")


def _reduce(p: GpuPrinter, call: E.Call) -> str:
    """A reduction over the simdgroup; float16 and bfloat16 are rounded once, after it."""
    dtype = call.dtype
    if dtype.bits > 32:
        raise TileUnsupportedError(
            f"T.{call.op} of {dtype} is not supported on Metal",
            expected="a value of at most 32 bits", got=f"`{call!r}`",
        )  # fmt: skip
    text = p.value(call.args[0])
    if dtype.bits < 32 and dtype not in NARROW_FLOATS:
        text = f"(int32_t){text}"
    name = call.op.removeprefix("warp_reduce_")
    return calls.narrowed(p, dtype, f"tl_warp_reduce_{name}({bare(text)})")


def _barrier(p: GpuPrinter, call: E.Call) -> str:
    """The barrier of all threads of the threadgroup."""
    calls.require_whole_block(p, call, "Metal")
    return _BARRIER


WRITERS: dict[str, CallText] = {
    **calls.SHARED,
    "atomic": _atomic, "atomic of neighbours": _atomic_vector, "copy bytes": _vector_copy,
    "directed": _directed, "rsqrt": _directed, "warp reduction": _reduce, "block barrier": _barrier,
}  # fmt: skip
