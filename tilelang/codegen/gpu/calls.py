"""Writers of calls that several dialects share. The headers of each dialect define the printed
functions."""

from __future__ import annotations

from tilelang.codegen.c import NARROW_FLOATS, bare, storage_type, value_type
from tilelang.codegen.gpu.dialect import CallText
from tilelang.codegen.gpu.printer import GpuPrinter, thread_index
from tilelang.codegen.gpu.rows import constant
from tilelang.errors import TileTypeError, TileUnsupportedError
from tilelang.ir import expr as E
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.tables import portable


def arguments(p: GpuPrinter, call: E.Call) -> str:
    """The operands of a call as arguments of a function."""
    return ", ".join(bare(p.value(arg)) for arg in call.args)


def narrowed(p: GpuPrinter, dtype: DType, text: str) -> str:
    """`text`, a value of at least 32 bits, brought to `dtype` where that is narrower."""
    return p.rounded(dtype, text) if dtype.bits < 32 and not dtype.is_bool else text


def address_of(call: E.Call, position: int) -> E.AddressOf:
    """The operand at a position, which has to be an address."""
    arg = call.args[position]
    if not isinstance(arg, E.AddressOf):
        raise TileTypeError(
            f"an operand of T.{call.op} is not an address", expected="an element of a buffer",
            got=f"`{arg!r}`",
        )  # fmt: skip
    return arg


def require_whole_block(p: GpuPrinter, call: E.Call, machine: str) -> None:
    """Require a barrier of all threads of the block, on machines without named barriers; its number
    is ignored."""
    block_threads = p.threads[0] * p.threads[1] * p.threads[2]
    if all(isinstance(arg, E.Const) and arg.value == block_threads for arg in call.args[1:]):
        return
    raise TileUnsupportedError(
        f"a barrier of some threads of a block is not available on {machine}",
        expected=f"T.sync_threads() by all threads of the block, {block_threads} here",
        got=f"`{call!r}`",
    )


def require_nearest(call: E.Call, machine: str, instead: str = "") -> None:
    """Require IEEE arithmetic that rounds to nearest, the only mode of the machine; ``instead``:
    what to use if it has not even that."""
    mode = str(call.attr("rounding", "rn"))
    if mode != "rn" or instead:
        raise TileUnsupportedError(
            f"T.{call.op} with rounding_mode={mode!r} is not available on {machine}",
            expected=instead if mode == "rn" else 'rounding_mode="rn"', got=mode,
        )  # fmt: skip


def lane_text(p: GpuPrinter, expr: E.Expr, at: int) -> str:
    """Lane `at` of a vector that is made of scalars."""
    if isinstance(expr, E.Lane) and isinstance(expr.index, E.Const):
        return lane_text(p, expr.vector, int(expr.index.value))
    if expr.dtype.lanes == 1:
        return p.value(expr)
    if isinstance(expr, E.Vector):
        return lane_text(p, expr.elements[at], 0)
    if isinstance(expr, E.Broadcast):
        return lane_text(p, expr.value, at % expr.value.dtype.lanes)
    if isinstance(expr, E.Load) and isinstance(expr.indices[-1], E.Ramp):
        ramp = expr.indices[-1]
        last = E.as_expr(ramp.base + ramp.stride * at)
        return p.value(E.Load(expr.buffer, (*expr.indices[:-1], last)))
    raise TileUnsupportedError(f"the vector value `{expr!r}` cannot be split into lanes")


def _ldg(p: GpuPrinter, call: E.Call) -> str:
    target = address_of(call, 0)
    return p.load(target.buffer, target.indices)


def is_constant(p: GpuPrinter, address: E.AddressOf) -> bool:
    """Whether nothing writes a tensor while the kernel runs."""
    return p.declared.get(address.buffer.data, "").startswith("const ")


def _move_bits(p: GpuPrinter, call: E.Call) -> str:
    """T.ldg32 of one element, whose guard, if it has one, is the condition around it; the bits
    that T.stg32 stores."""
    value = call.args[0]
    if isinstance(value, E.Select) and value.lazy and isinstance(value.t, E.Load):
        guarded = E.Call(call.atom, (value.t,), call.dtype)
        otherwise = E.call("reinterpret", value.f, dtype=call.dtype)
        return f"({p.value(value.cond)} ? {_move_bits(p, guarded)} : {p.value(otherwise)})"
    if call.op == "ldg32" and isinstance(value, E.Load) and value.buffer.storage == "global":
        address = E.AddressOf(value.buffer, value.indices, "r")
        if is_constant(p, address):
            return f"tl_ldg32({p.value(address)})"
    return _reinterpret(p, E.Call(portable("reinterpret"), call.args, call.dtype))


def _dp4a(p: GpuPrinter, call: E.Call) -> str:
    """The dot product of four bytes, signed or not."""
    kinds = [address_of(call, k).buffer.dtype for k in range(2)]
    signs = "".join("u" if kind.is_uint else "s" for kind in kinds)
    return f"tl_dp4a_{signs}({arguments(p, call)})"


def _isnullptr(p: GpuPrinter, call: E.Call) -> str:
    arg = call.args[0]
    text = p.pointer(arg.buffer) if isinstance(arg, E.AddressOf) else p.value(arg)
    return f"({text} == nullptr)"


def _reinterpret(p: GpuPrinter, call: E.Call) -> str:
    """A bit cast through the storage forms of the two dtypes."""
    source, target = call.args[0].dtype, call.dtype
    bits = p.encoded(source, p.value(call.args[0]))
    if storage_type(source) != storage_type(target):
        bits = f"tl_bits<{storage_type(target)}>({bits})"
    return p.decoded(target, bits)


def _fast(p: GpuPrinter, call: E.Call) -> str:
    """The hardware's approximation; double has none."""
    kind = call.args[0].dtype
    name = call.op.removeprefix("fast_") if kind == "float64" else call.op
    return narrowed(p, call.dtype, f"tl_{name}_{p.suffix(kind)}({arguments(p, call)})")


def _reciprocal(p: GpuPrinter, call: E.Call) -> str:
    if call.dtype == "float64":
        return f"(1.0 / {p.value(call.args[0])})"
    return narrowed(p, call.dtype, f"tl_fast_rcp_f32({arguments(p, call)})")


def _nextafter(p: GpuPrinter, call: E.Call) -> str:
    """The next value of the same dtype."""
    dtype = call.args[0].dtype
    if dtype in NARROW_FLOATS:
        raise TileUnsupportedError(
            f"T.nextafter on {dtype} is not supported on {p.dialect.name}",
            expected="float32 or float64", got=f"`{call!r}`",
        )  # fmt: skip
    return f"tl_nextafter_{p.suffix(dtype)}({arguments(p, call)})"


def _shuffle_elect(p: GpuPrinter, call: E.Call) -> str:
    """One thread of every `extent` threads of the block, the lowest."""
    extent = constant(call, 0, "thread extent")
    total = p.threads[0] * p.threads[1] * p.threads[2]
    return f"({thread_index(p)} % {extent if extent > 0 else total} == 0)"


def _call_extern(p: GpuPrinter, call: E.Call) -> str:
    """A function of the user's source or of the dialect itself.

    Pointers to narrow types convert to whatever pointer the function takes. A template keeps the
    type of its argument. So it gets a pointer to a type of the same size without arithmetic: casts
    of the pointer are correct, and sums of the bits as integers do not compile.
    """
    function = str(call.attr("name", ""))
    args = []
    for arg in call.args:
        text = bare(p.value(arg))
        if isinstance(arg, E.AddressOf) and storage_type(arg.buffer.dtype) != value_type(
            arg.buffer.dtype
        ):
            text = f"tl_pointer({text})"
            if function in p.templates:
                kind = storage_type(arg.buffer.dtype)
                name = f"tl_bits_{kind}"
                p.state.setdefault(name, f"struct {name} {{ {kind} bits; }};")
                text = f"({name}*){text}"
        args.append(text)
    return f"{function}({', '.join(args)})"


SHARED: dict[str, CallText] = {
    "load": _ldg, "move bits": _move_bits, "dp4a": _dp4a, "is null": _isnullptr,
    "reinterpret": _reinterpret, "fast": _fast, "reciprocal": _reciprocal, "nextafter": _nextafter,
    "one of some": _shuffle_elect, "function by name": _call_extern,
}  # fmt: skip
