"""Intrinsics whose source is more than a function name and its arguments."""

from __future__ import annotations

from math import prod

from tilelang.codegen.c import NARROW_FLOATS, bare, value_type
from tilelang.codegen.gpu import calls
from tilelang.codegen.gpu.dialect import CallText
from tilelang.codegen.gpu.printer import GpuPrinter, thread_index
from tilelang.codegen.gpu.rows import constant
from tilelang.codegen.random_states import generator_type
from tilelang.codegen.text import quote
from tilelang.cuda.forms import ACCESS_SUFFIX, ATOMIC_SUFFIX, MEMORY_ORDERS, MMA, SHORT
from tilelang.cuda.ptx_intrinsics import PTX_WRITERS, moved, refuse, texts_of
from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E
from tilelang.ir.lanes import WARP
from tilelang.ir.tables import portable


# -- memory ----------------------------------------------------------------------------------------
def _atomic(p: GpuPrinter, call: E.Call) -> str:
    """One indivisible update; orders other than relaxed add fences."""
    target = calls.address_of(call, 0)
    suffixes = ACCESS_SUFFIX if call.op in ("atomic_load", "atomic_store") else ATOMIC_SUFFIX
    suffix = suffixes.get(target.buffer.dtype)
    if suffix is None:
        raise TileUnsupportedError(
            f"T.{call.op} on {target.buffer.dtype} is not supported on {p.dialect.name}",
            expected=", ".join(suffixes),
            got=f"`{target.buffer.name}` of dtype {target.buffer.dtype}",
        )
    args = [bare(p.value(arg)) for arg in call.args]
    order = MEMORY_ORDERS[str(call.attr("memory_order", "relaxed"))]
    return f"tl_{call.op}_{suffix}({', '.join([*args, *filter(None, [order])])})"


def _atomic_vector(p: GpuPrinter, call: E.Call) -> str:
    """Two or four adjacent sums."""
    target, source = calls.address_of(call, 0), call.args[1]
    suffix = ATOMIC_SUFFIX[target.buffer.dtype]
    if call.op == "atomic_addx4" and target.buffer.dtype != "float32":
        # No instruction adds four halves: two pairs.
        return f"({_atomic_vector(p, _pair(call, 0))}, {_atomic_vector(p, _pair(call, 2))})"
    name, operands = f"tl_{call.op}", p.value(target)
    if len(call.args) > 2:
        name, operands = f"{name}_prev", f"{p.value(call.args[2])}, {operands}"
    if isinstance(source, E.AddressOf):
        return f"{name}_{suffix}({operands}, {p.value(source)})"
    values = ", ".join(calls.lane_text(p, source, k) for k in range(int(call.op[-1])))
    form = "aligned_values" if call.attr("aligned", False) else "values"
    return f"{name}_{form}_{suffix}({operands}, {values})"


def _pair(call: E.Call, first: int) -> E.Call:
    """The sum of two of the four neighbours that ``call`` adds to."""
    args: list[E.Expr] = []
    for arg in call.args:
        if isinstance(arg, E.AddressOf):
            last = E.as_expr(arg.indices[-1] + first)
            args.append(E.AddressOf(arg.buffer, (*arg.indices[:-1], last), arg.access))
        else:
            args.append(E.Vector(tuple(E.Lane(arg, E.const(first + at)) for at in range(2))))
    return E.Call(
        portable("atomic_addx2"), tuple(args), call.dtype.element_of.with_lanes(2), call.attrs
    )


def _vector_copy(p: GpuPrinter, call: E.Call) -> str:
    """A move of several bytes; those of T.ldg and T.stg by their instructions. What the kernel
    writes itself is not loaded through the cache of constant memory."""
    size, through = int(call.attr("bytes", 0)), str(call.attr("through", ""))
    name = f"tl_copy_{size}"
    explicit = {"ldg": calls.address_of(call, 1), "stg": calls.address_of(call, 0)}.get(through)
    if explicit is not None and size >= 4 and explicit.buffer.storage == "global":
        if through == "stg" or calls.is_constant(p, explicit):
            name = f"tl_{through}{size * 8}"
    if size > 16 and name.startswith("tl_copy"):
        name = f"tl_{'load' if through == 'ldg' else 'stg'}{size * 8}"
    return f"{name}({calls.arguments(p, call)})"


def _cp_async(p: GpuPrinter, call: E.Call) -> str:
    """An asynchronous copy of one thread. A third operand that is false fills with zeros; under a
    false predicate, the last operand of predicated ones, nothing is copied at all."""
    predicated = bool(call.attr("predicated", False))
    name = f"tl_cp_async_{call.attr('bytes', 16)}"
    name += "_zfill" if len(call.args) - predicated > 2 else ""
    return f"{name}{'_if' if predicated else ''}({calls.arguments(p, call)})"


# -- arithmetic ------------------------------------------------------------------------------------
def _directed(p: GpuPrinter, call: E.Call) -> str:
    """IEEE arithmetic in one of the four rounding modes."""
    mode = str(call.attr("rounding", "rn"))
    text = f"tl_{call.atom.text}_{mode}_{p.suffix(call.args[0].dtype)}({calls.arguments(p, call)})"
    return calls.narrowed(p, call.dtype, text)


def _rsqrt(p: GpuPrinter, call: E.Call) -> str:
    """1 / sqrt(x), rounded once."""
    calls.require_nearest(call, "CUDA")
    if call.dtype == "float64":
        return f"tl_rsqrt_f64({calls.arguments(p, call)})"
    return calls.narrowed(p, call.dtype, f"tl_rsqrt_rn_f32({calls.arguments(p, call)})")


# -- warps -----------------------------------------------------------------------------------------
def _warp_reduce(p: GpuPrinter, call: E.Call) -> str:
    """A butterfly over the warp; sums of narrow types round at every step. The number of threads
    is given where the last warp of the block is not full."""
    count = prod(p.threads)
    part = f", {count}" if count % WARP else ""
    op, dtype = call.op.removeprefix("warp_reduce_"), call.dtype
    text = p.value(call.args[0])
    if op == "sum" and dtype in NARROW_FLOATS:
        step = f"[](float a, float b) {{ return {p.rounded(dtype, 'a + b')}; }}"
        return f"tl_warp_reduce({text}, {step}{part})"
    # Integers narrower than int are reduced as int: the low bits are the same.
    if dtype.bits < 32 and not dtype.is_float:
        text = f"(int32_t){text}"
    return calls.narrowed(p, dtype, f"tl_warp_reduce_{op}({bare(text)}{part})")


def _allreduce(p: GpuPrinter, call: E.Call) -> str:
    """A reduction over the threads of the block along one axis, or over all."""
    op, dtype, axis = str(call.attr("op", "sum")), call.dtype, call.attr("axis")
    stride, count = 1, p.threads[0] * p.threads[1] * p.threads[2]
    if axis is not None:
        count = p.threads[int(axis)]
        stride = (1, p.threads[0], p.threads[0] * p.threads[1])[int(axis)]
    value, cond = (p.value(arg) for arg in call.args[:2])
    room = ", ".join(p.pointer(arg.buffer) for arg in call.args[2:] if isinstance(arg, E.AddressOf))
    kind = value_type(dtype)
    combined = p.rounded(dtype, _COMBINE[op].format(s=p.suffix(dtype), a="a", b="b"))
    step = f"[]({kind} a, {kind} b) {{ return {combined}; }}"
    return (
        f"tl_thread_allreduce<{count}, {stride}>({room}, {thread_index(p)}, "
        f"({kind}){value}, {cond}, {step})"
    )


_COMBINE = {
    "sum": "a + b", "mul": "a * b", "max": "tl_max_{s}(a, b)", "min": "tl_min_{s}(a, b)",
    "bitand": "a & b", "bitor": "a | b", "bitxor": "a ^ b",
}  # fmt: skip


# -- barriers --------------------------------------------------------------------------------------
def _sync_threads(p: GpuPrinter, call: E.Call) -> str:
    """The block's barrier, or a named one for some of its threads."""
    first = call.args[0] if call.args else None
    if first is None or (isinstance(first, E.Const) and int(first.value) < 0):
        return "__syncthreads()"
    if len(call.args) == 1:
        if isinstance(first, E.Const) and int(first.value) == 0:
            return "__syncthreads()"
        total = -(-p.threads[0] * p.threads[1] * p.threads[2] // 32) * 32
        return f"tl_bar_sync({p.value(first)}, {total})"
    return f"tl_bar_sync({p.value(first)}, {p.value(call.args[1])})"


def _mbarrier_arrive(p: GpuPrinter, call: E.Call) -> str:
    """An arrival at the own barrier, or at that of another block of the cluster."""
    remote = len(call.args) > 1
    if remote:
        p.require("cluster", f"T.{call.op}")
    return f"{call.atom.text}{'_remote' if remote else ''}({calls.arguments(p, call)})"


# -- matrix instructions ---------------------------------------------------------------------------
def _mma(p: GpuPrinter, call: E.Call) -> str:
    """d += a x b on the registers of a warp."""
    kinds = (str(call.attr("a")), str(call.attr("b")), str(call.attr("c")))
    return f"{mma_function(p, str(call.attr('shape')), kinds)}({calls.arguments(p, call)})"


def mma_function(p: GpuPrinter, shape: str, kinds: tuple[str, str, str]) -> str:
    """The header function of a matrix instruction, by shape and dtypes of a, b, accumulator."""
    a, b, c = (SHORT.get(kind, kind) for kind in kinds)
    if (a, b) == ("f32", "f32"):
        a = b = "tf32"
    needs = MMA.get((shape, a, b, c))
    if needs is None:
        raise TileUnsupportedError(
            f"there is no matrix instruction {shape} of {a} and {b} into {c}",
            expected="one of " + ", ".join(".".join(key) for key in MMA),
            got=f"{shape}.{a}.{b}.{c}",
        )
    p.require(needs, f"the matrix instruction {shape} of {a} and {b}")
    return f"tl_mma_{shape}_{a}_{b}_{c}"


def _wgmma(p: GpuPrinter, call: E.Call) -> str:
    """d += a x b by a warpgroup, operands by descriptors."""
    kinds = tuple(SHORT[str(call.attr(name))] for name in "abc")
    shape = str(call.attr("shape"))
    columns, depth = shape.removeprefix("m64n").split("k")
    registers = int(columns) // (4 if kinds[2] == "f16" else 2)
    p.instances.setdefault(f"TL_WGMMA({columns}, {depth}, {', '.join(kinds)}, {registers})")
    d, *operands, adds = call.args
    shared_a = len(operands) == 4
    first = _described(p, call, "a", *operands[:2]) if shared_a else bare(p.value(operands[0]))
    second = _described(p, call, "b", *operands[-2:])
    majors = ("a", "b") if shared_a else ("b",)
    switches = ", ".join(str(int(not call.attr(f"{name}_k_inner"))) for name in majors)
    name = f"tl_wgmma_{shape}_{'_'.join(kinds)}_{'ss' if shared_a else 'rs'}<{switches}, 1, 1>"
    return f"{name}({bare(p.value(d))}, {first}, {second}, {bare(p.value(adds))})"


def _described(p: GpuPrinter, call: E.Call, name: str, start: E.Expr, step: E.Expr) -> str:
    """The descriptor of an operand that begins ``step`` units of 16 bytes behind ``start``. Terms
    are added in this order: what all instructions of a product share comes first."""
    form = ", ".join(str(call.attr(f"{name}_{part}")) for part in ("swizzle", "leading", "stride"))
    text = f"tl_wgmma_operand<{form}>({bare(p.value(start))})"
    parts: list[E.Expr] = []
    while isinstance(step, E.Binary) and step.op == "add":
        parts.insert(0, step.b)
        step = step.a
    parts.insert(0, step)
    offsets = (part for part in parts if not isinstance(part, E.Const) or part.value)
    return " + ".join((text, *map(p.index, offsets)))


def _ptx_mma(p: GpuPrinter, call: E.Call) -> str:
    """T.ptx_mma([dtype,] shape, "row", "col", a, b, c, A, a_off, B, b_off, C, c_off[, sat])."""
    texts, rest = texts_of(call)
    texts = texts[-6:]
    if len(texts) < 6 or len(rest) < 6 or texts[1:3] != ["row", "col"]:
        raise refuse(call, '(shape, "row", "col", a, b, c, A, a_offset, B, b_offset, C, c_offset)')
    name = mma_function(p, texts[0], (texts[3], texts[4], texts[5]))
    a, b, c = (moved(p, rest[k], rest[k + 1]) for k in (0, 2, 4))
    return f"{name}({c}, {a}, {b})"


def _ptx_ldmatrix(p: GpuPrinter, call: E.Call) -> str:
    """T.ptx_ldmatrix([dtype,] trans, count, [type,] registers, offset, shared, offset)."""
    _, rest = texts_of(call)
    if len(rest) != 6 or not all(isinstance(operand, E.Const) for operand in rest[:2]):
        raise refuse(call, "(trans, count, registers, offset, shared, offset)")
    trans = "_trans" if bool(rest[0]) else ""
    registers, shared = moved(p, rest[2], rest[3]), moved(p, rest[4], rest[5])
    return f"tl_ldmatrix_x{int(rest[1])}{trans}({registers}, {shared})"


# -- functions by name, random numbers -------------------------------------------------------------
def _rng(p: GpuPrinter, call: E.Call) -> str:
    """One generator per thread."""
    known = p.state.get("tl_rng", "").partition(" ")[0]
    p.state["tl_rng"] = f"{generator_type(call, known)} tl_rng;"
    args = [p.value(arg) for arg in call.args]
    name = call.op.removeprefix("rng_")
    if call.dtype.is_float:
        bits, dist = int(call.attr("bit", 32)), str(call.attr("dist", "uniform"))
        name = f"{dist}_f{bits}"
    return f"tl_rng_{name}({', '.join(['tl_rng', *args])})"


def _device_assert(p: GpuPrinter, call: E.Call) -> str:
    return f"tl_assert({p.value(call.args[0])}, {quote(str(call.attr('message', '')))})"


def _registers(p: GpuPrinter, call: E.Call) -> str:
    """Set the number of registers of the warpgroup's threads from here on; 0 sets no limit."""
    count, raising = (constant(call, k, "operand") for k in range(2))
    return f"tl_setmaxnreg_{'inc' if raising else 'dec'}<{count}>()" if count else ""


WRITERS: dict[str, CallText] = {
    **calls.SHARED,
    "atomic": _atomic, "atomic of neighbours": _atomic_vector, "copy bytes": _vector_copy,
    "copy bytes later": _cp_async, "directed": _directed, "rsqrt": _rsqrt,
    "warp reduction": _warp_reduce, "block reduction": _allreduce, "block barrier": _sync_threads,
    "arrival": _mbarrier_arrive, "registers": _registers, "mma": _mma, "wgmma": _wgmma,
    "ptx mma": _ptx_mma, "ldmatrix": _ptx_ldmatrix, "random numbers": _rng,
    "assert": _device_assert,
    **PTX_WRITERS,
}  # fmt: skip
