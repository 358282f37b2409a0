"""Words of single instructions of sm_90 and later, and the raw matrix words of older ones.

Bulk tensor copies take maps that the host encodes, so that a descriptor in the program is a kernel
parameter here. The asynchronous matrix instructions have thousands of forms; the text names those
that it uses (`TL_WGMMA(...)`), and the headers make them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from tilelang.codegen.c import bare, storage_type
from tilelang.cuda.forms import MMA_SP, SHORT, WGMMA, WGMMA_K
from tilelang.errors import TileTypeError, TileUnsupportedError
from tilelang.ir import expr as E
from tilelang.ir.dtypes import dtype as DType

if TYPE_CHECKING:
    from tilelang.codegen.gpu.printer import GpuPrinter

Handler: TypeAlias = "Callable[[GpuPrinter, E.Call], str]"

MAPS = ("create_tma_descriptor", "create_tma_im2col_descriptor")
# Cache policies by the number that programs give; the first is the default.
_POLICIES = ("evict_normal", "evict_first", "evict_last")
_POLICY_BITS = {"evict_first": "0x12f0000000000000ull", "evict_last": "0x14f0000000000000ull"}
# Registers of a thread that one unit of a tensor memory move takes.
_MOVE_REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4}
_TCGEN05_KINDS = {
    "f16": "f16", "bf16": "f16", "tf32": "tf32", "f32": "tf32", "e4m3": "f8f6f4", "e5m2": "f8f6f4",
    "s8": "i8", "u8": "i8", "f8f6f4": "f8f6f4", "i8": "i8",
}  # fmt: skip


# -- operands --------------------------------------------------------------------------------------
def texts_of(call: E.Call) -> tuple[list[str], list[E.Expr]]:
    """Texts among the operands of a raw instruction, and the other operands."""
    texts = [arg.value for arg in call.args if isinstance(arg, E.StringImm)]
    return texts, [arg for arg in call.args if not isinstance(arg, E.StringImm)]


def place(p: GpuPrinter, base: E.Expr) -> str:
    """A pointer: elements count as their addresses."""
    if isinstance(base, E.Load):
        return p.address(base.buffer, base.indices)
    return bare(p.value(base))


def moved(p: GpuPrinter, base: E.Expr, offset: E.Expr) -> str:
    """A pointer operand and its offset in elements."""
    if isinstance(base, (E.AddressOf, E.Load)) and base.indices:
        last = E.as_expr(base.indices[-1] + offset)
        return p.address(base.buffer, (*base.indices[:-1], last))
    if isinstance(offset, E.Const) and int(offset.value) == 0:
        return bare(p.value(base))
    return f"{p.value(base)} + {p.index(offset)}"


def constant_of(call: E.Call, arg: E.Expr, what: str) -> int:
    """A compile-time integer operand."""
    if not isinstance(arg, E.Const):
        raise TileTypeError(
            f"the {what} of T.{call.op} is not a constant",
            expected="a number known when the kernel is compiled",
            got=f"`{arg!r}`",
        )
    return int(arg.value)


def refuse(call: E.Call, expected: str) -> TileUnsupportedError:
    """The error for a form of an intrinsic that is not known."""
    return TileUnsupportedError(
        f"T.{call.op} in this form is not supported on CUDA", expected=expected, got=f"`{call!r}`"
    )


def _descriptor(p: GpuPrinter, base: E.Expr, offset: E.Expr) -> str:
    """The 64 bits of an operand's descriptor, moved by units of 16 bytes."""
    if isinstance(base, E.AddressOf):
        text = p.load(base.buffer, base.indices)
    elif isinstance(base, E.Var) and base.dtype.is_handle:
        text = f"{p.name_of(base)}[0]"
    else:
        text = p.value(base)
    if isinstance(offset, E.Const) and int(offset.value) == 0:
        return text
    return f"{text} + {p.index(offset)}"


def _short(name: str) -> str:
    return SHORT.get(name, name)


# -- tensor maps -----------------------------------------------------------------------------------
def _create_map(p: GpuPrinter, call: E.Call) -> str:
    """A descriptor is a parameter of the kernel."""
    p.require("sm_90", f"T.{call.op}")
    return p.tensor_map(call)


def _rank(p: GpuPrinter, operand: E.Expr) -> int | None:
    """Dimensions of the map that an operand is, None if only the host knows."""
    call = p.map_alias.get(operand, operand) if isinstance(operand, E.Var) else operand
    if not isinstance(call, E.Call) or call.op not in MAPS:
        return None
    return constant_of(call, call.args[1], "rank")


def _coordinates(
    p: GpuPrinter, call: E.Call, map_operand: E.Expr, coords: list[E.Expr], extra: int = 0
) -> tuple[list[E.Expr], str]:
    """The coordinates of a copy, and its cache policy. `extra`: im2col offsets behind them, -1 for
    two fewer than the rank."""
    policy = str(call.attr("eviction_policy", "evict_normal"))
    rank = _rank(p, map_operand)
    if rank is not None:
        wanted = rank + (rank - 2 if extra else 0)
        if len(coords) == wanted + 1:
            number = constant_of(call, coords[-1], "eviction policy")
            policy = _POLICIES[number] if 0 <= number < len(_POLICIES) else policy
            coords = coords[:-1]
        if len(coords) != wanted:
            offsets = " and their offsets" if extra else ""
            raise TileTypeError(
                f"T.{call.op} with {len(coords)} coordinates",
                expected=f"{wanted} for a map of {rank} dimensions{offsets}",
                got=f"`{call!r}`",
            )
    most = 8 if extra else 5
    if not 1 <= len(coords) <= most:
        raise refuse(call, f"1 to {most} coordinates")
    return coords, policy


def _tma(p: GpuPrinter, call: E.Call) -> str:
    """A box from a tensor to shared memory."""
    p.require("sm_90", f"T.{call.op}")
    box, bar, dst, *rest = call.args
    leading = [place(p, dst), p.tensor_map(box), place(p, bar)]
    if call.op == "tma_load_multicast":
        leading.append(bare(p.value(rest.pop(0))))
    coords, policy = _coordinates(p, call, box, rest, int(call.op == "tma_load_im2col"))
    name = f"tl_{call.op}"
    if policy in _POLICY_BITS:
        name += "_hint"
        leading.append(_POLICY_BITS[policy])
    return f"{name}({', '.join([*leading, *(bare(p.value(c)) for c in coords)])})"


def _tma_store(p: GpuPrinter, call: E.Call) -> str:
    """A box from shared memory to a tensor, or combined with what is there."""
    p.require("sm_90", f"T.{call.op}")
    box, src, *rest = call.args
    coords, policy = _coordinates(p, call, box, rest)
    leading = [p.tensor_map(box), place(p, src)]
    name = "tl_tma_store"
    if call.attr("reduce") is not None:
        name = f"tl_tma_reduce_{call.attr('reduce')}"
    elif policy in _POLICY_BITS:
        name += "_hint"
        leading.append(_POLICY_BITS[policy])
    return f"{name}({', '.join([*leading, *(bare(p.value(c)) for c in coords)])})"


def _prefetch(p: GpuPrinter, call: E.Call) -> str:
    p.require("sm_90", f"T.{call.op}")
    return f"tl_tma_prefetch({p.tensor_map(call.args[0])})"


def _bulk(p: GpuPrinter, call: E.Call) -> str:
    """T.ptx_cp_async_bulk(dst, src, bytes[, barrier]), with an offset behind each place in TVM's
    form ([dtype,] dst, offset, src, offset, bytes[, barrier])."""
    p.require("sm_90", f"T.{call.op}")
    _, rest = texts_of(call)
    if len(rest) in (5, 6):
        ends = [moved(p, rest[0], rest[1]), moved(p, rest[2], rest[3])]
        first, rest = rest[0], rest[4:]
    elif len(rest) in (3, 4):
        ends = [place(p, rest[0]), place(p, rest[1])]
        first, rest = rest[0], rest[2:]
    else:
        raise refuse(call, "(dst, src, bytes, barrier)")
    count = bare(p.value(rest[0]))
    if len(rest) == 2:
        return f"tl_bulk_load({ends[0]}, {ends[1]}, {count}, {place(p, rest[1])})"
    if isinstance(first, E.AddressOf) and first.buffer.storage.startswith("shared"):
        raise refuse(call, "a barrier for a copy to shared memory")
    return f"tl_bulk_store({ends[0]}, {ends[1]}, {count})"


def _map_shared(p: GpuPrinter, call: E.Call) -> str:
    p.require("sm_90", f"T.{call.op}")
    return f"tl_map_shared({place(p, call.args[0])}, {bare(p.value(call.args[1]))})"


# -- wgmma -----------------------------------------------------------------------------------------
def _wgmma_form(call: E.Call, texts: list[str]) -> tuple[str, str, str, int]:
    """The dtypes of a, b and the accumulator and the columns of a warpgroup instruction."""
    prefix, a, b, c = texts[-4:] if len(texts) > 3 else ["", "", "", ""]
    a, b, c = _short(a), _short(b), _short(c)
    a, b = ("tf32" if kind == "f32" else kind for kind in (a, b))
    found = re.fullmatch(r"m64n(\d+)k(\d+)", prefix)
    if found is None or c not in WGMMA.get((a, b), ()):
        raise TileUnsupportedError(
            f"there is no warpgroup instruction {prefix} of {a} and {b} into {c}",
            expected="m64nNkK of f16, bf16, tf32, fp8 or bytes into f32, f16 or s32",
            got=f"`{call!r}`",
        )
    columns, depth = int(found[1]), int(found[2])
    step = 16 if c == "s32" and columns > 32 else 8
    if columns % step or not 8 <= columns <= 256 or depth != WGMMA_K[a]:
        raise TileUnsupportedError(
            f"there is no warpgroup instruction {prefix} of {a} and {b}",
            expected=f"m64nNk{WGMMA_K[a]} with N from 8 to 256 in steps of {step}",
            got=prefix,
        )
    return a, b, c, columns


def _major(call: E.Call, operand: E.Expr, kind: str) -> int:
    """How an operand lies: 0 along K, 1 along M or N, which only 16-bit types may."""
    along_k = bool(constant_of(call, operand, "order of an operand"))
    if not along_k and kind not in ("f16", "bf16"):
        raise TileUnsupportedError(
            f"a warpgroup instruction takes {kind} only where K is contiguous",
            expected="K-major operands, or float16 and bfloat16",
            got=f"`{call!r}`",
        )
    return 0 if along_k else 1


def _sign(call: E.Call, operand: E.Expr) -> int:
    return -1 if constant_of(call, operand, "sign of an operand") < 0 else 1


def _wgmma(p: GpuPrinter, call: E.Call) -> str:
    """Operands as in T.ptx_wgmma_ss(dtype, "m64n128k16", a_k_major, b_k_major, a, b, c, desc_a,
    offset, desc_b, offset, C, offset, scale_out, scale_a, scale_b), and for A in registers
    T.ptx_wgmma_rs(dtype, "m64n128k16", b_k_major, a, b, c, A, offset, desc_b, ...)."""
    what = f"T.{call.op}"
    p.require("sm_90a", what)
    texts, rest = texts_of(call)
    from_shared = call.op == "ptx_wgmma_ss"
    majors = 2 if from_shared else 1
    if len(rest) != majors + 9:
        raise refuse(
            call,
            '([dtype,] "m64nNkK", a_k_major, b_k_major, a, b, c, desc_a, offset, desc_b, offset, '
            "C, offset, scale_out, scale_a, scale_b)"
            if from_shared
            else '([dtype,] "m64nNkK", b_k_major, a, b, c, A, offset, desc_b, offset, C, offset, '
            "scale_out, scale_a, scale_b)",
        )
    a, b, c, columns = _wgmma_form(call, texts)
    orders = [_major(call, rest[k], (a, b)[k - majors]) for k in range(majors)]
    first, first_offset, second, second_offset, acc, acc_offset, adds, *signs = rest[majors:]
    registers = columns // (4 if c == "f16" else 2)
    p.instances.setdefault(f"TL_WGMMA({columns}, {WGMMA_K[a]}, {a}, {b}, {c}, {registers})")
    switches = ", ".join(str(k) for k in (*orders, *(_sign(call, sign) for sign in signs)))
    form = "ss" if from_shared else "rs"
    left = (_descriptor if from_shared else moved)(p, first, first_offset)
    operands = [
        moved(p, acc, acc_offset), left, _descriptor(p, second, second_offset),
        bare(p.value(adds)),
    ]  # fmt: skip
    name = f"tl_wgmma_m64n{columns}k{WGMMA_K[a]}_{a}_{b}_{c}_{form}"
    return f"{name}<{switches}>({', '.join(operands)})"


def touched_registers(p: GpuPrinter, call: E.Call) -> str:
    """A fence of the compiler over the registers of an accumulator."""
    base, offset = call.args[:2]
    if isinstance(base, E.AddressOf):
        dtype = base.buffer.dtype
        elements = 1
        for extent in base.buffer.shape:
            elements *= int(extent) if isinstance(extent, int) else 0
        skipped = sum(
            int(index.value) * step
            for index, step in zip((*base.indices,), base.buffer.stride_list())
            if isinstance(index, E.Const) and isinstance(step, int)
        )
        skipped += int(offset.value) if isinstance(offset, E.Const) else 0
        count = (elements - skipped) * dtype.bits // 32
    else:
        dtype, count = DType(str(call.attr("dtype", "float32"))), 0
    if len(call.args) > 2:
        count = constant_of(call, call.args[2], "register count")
    kind = "f32" if dtype == "float32" else "b32"
    return f"tl_wgmma_touch_{kind}<{count}>({moved(p, base, offset)})"


def _init_descriptor(p: GpuPrinter, call: E.Call) -> str:
    """Fill a descriptor."""
    wgmma = call.op == "initialize_wgmma_descriptor"
    p.require("sm_90" if wgmma else "sm_100a", f"T.{call.op}")
    name = "tl_wgmma_descriptor" if wgmma else "tl_tcgen05_descriptor"
    made, start, *numbers = call.args
    operands = [place(p, made), place(p, start), *(bare(p.value(n)) for n in numbers)]
    return f"{name}({', '.join(operands)})"


def _move_descriptor(p: GpuPrinter, call: E.Call) -> str:
    p.require("sm_90", f"T.{call.op}")
    return f"tl_descriptor_add({place(p, call.args[0])}, {bare(p.value(call.args[1]))})"


# -- matrix instructions of one warp ---------------------------------------------------------------
def _mma_sp(p: GpuPrinter, call: E.Call) -> str:
    """T.ptx_mma_sp([dtype,] shape, "row", "col", a, b, c, A, a_off, B, b_off, C, c_off, metadata,
    offset, selector[, saturate])."""
    texts, rest = texts_of(call)
    texts = texts[-6:]
    if len(texts) < 6 or len(rest) < 9 or texts[1:3] != ["row", "col"]:
        raise refuse(
            call,
            '(shape, "row", "col", a, b, c, A, a_offset, B, b_offset, C, c_offset, metadata, '
            "offset, selector)",
        )
    a, b, c = (_short(kind) for kind in texts[3:])
    a, b = ("tf32" if kind == "f32" else kind for kind in (a, b))
    key = (texts[0], a, b, c)
    if key not in MMA_SP:
        raise TileUnsupportedError(
            f"there is no sparse matrix instruction {texts[0]} of {a} and {b} into {c}",
            expected="one of " + ", ".join(".".join(item) for item in MMA_SP),
            got=".".join(key),
        )
    p.require(MMA_SP[key], f"the sparse matrix instruction {texts[0]} of {a} and {b}")
    selector = constant_of(call, rest[8], "sparsity selector")
    left, right, acc = (moved(p, rest[k], rest[k + 1]) for k in (0, 2, 4))
    meta = moved(p, rest[6], rest[7])
    return (
        f"tl_mma_sp_{'_'.join(key)}<{selector}>({acc}, {left}, {right}, *(const uint32_t*)({meta}))"
    )


def _mma_sm70(p: GpuPrinter, call: E.Call) -> str:
    """Four products of 8 x 8 x 4 in one warp."""
    texts, rest = texts_of(call)
    texts = texts[-6:]
    known = len(texts) == 6 and texts[0] in ("m16n16k4", "m8n8k4") and len(rest) >= 6
    if (
        not known
        or {*texts[1:3]} - {"row", "col"}
        or [_short(t) for t in texts[3:5]] != ["f16"] * 2
    ):
        raise refuse(
            call,
            '("m16n16k4", row or col, row or col, "fp16", "fp16", "fp16" or "fp32", A, a_index, '
            "B, b_index, C, c_index)",
        )
    p.require("sm_70", f"T.{call.op}")
    left, right, acc = (moved(p, rest[k], rest[k + 1]) for k in (0, 2, 4))
    name = f"tl_mma_m16n16k4_{texts[1]}_{texts[2]}_f16_f16_{_short(texts[5])}"
    return f"{name}({acc}, {left}, {right})"


def _stmatrix(p: GpuPrinter, call: E.Call) -> str:
    """T.ptx_stmatrix([dtype,] trans, count, [type,] shared, offset, registers, offset)."""
    _, rest = texts_of(call)
    if len(rest) != 6 or not all(isinstance(item, E.Const) for item in rest[:2]):
        raise refuse(call, "(trans, count, shared, offset, registers, offset)")
    p.require("sm_90", f"T.{call.op}")
    trans, count = (constant_of(call, item, "form") for item in rest[:2])
    if count not in (1, 2, 4):
        raise refuse(call, "1, 2 or 4 matrices")
    ends = f"{moved(p, rest[2], rest[3])}, {moved(p, rest[4], rest[5])}"
    return f"tl_stmatrix_x{count}{'_trans' if trans else ''}({ends})"


# -- tensor memory ---------------------------------------------------------------------------------
def tensor_address(p: GpuPrinter, base: E.Expr, offset: E.Expr | None = None) -> str:
    """lane << 16 | column of a place in tensor memory; `offset` counts columns."""
    if isinstance(base, (E.AddressOf, E.Load)):
        name = p.name_of(base.buffer.data)
        row, column = base.indices
        bits = base.buffer.dtype.bits
        parts = [name]
        if not (isinstance(row, E.Const) and int(row.value) == 0):
            parts.append(f"({p.index(row)} << 16)")
        if not (isinstance(column, E.Const) and int(column.value) == 0):
            parts.append(p.index(column if bits == 32 else E.as_expr(column * bits // 32)))
        text = " + ".join(parts)
    else:
        text = p.value(base)
    if offset is None or (isinstance(offset, E.Const) and int(offset.value) == 0):
        return text
    return f"{text} + {p.index(offset)}"


def _tcgen05_mma(p: GpuPrinter, call: E.Call) -> str:
    """T.ptx_tcgen05_mma_ss(kind, desc_a, offset, desc_b, offset, D, column, instruction,
    scale_out[, four masks[, ...]]); A of T.ptx_tcgen05_mma_ts is a place in tensor memory."""
    p.require("sm_100a", f"T.{call.op}")
    texts, rest = texts_of(call)
    form = call.op.removeprefix("ptx_tcgen05_mma_")
    kind = _TCGEN05_KINDS.get(_short(texts[0]) if texts else "")
    if kind is None or len(rest) not in (8, 12, 13, 14):
        raise refuse(
            call,
            "(dtype, desc_a, offset, desc_b, offset, D, column, instruction, scale_out"
            "[, mask0, mask1, mask2, mask3])",
        )
    a, a_offset, b, b_offset, d, d_offset, instruction, adds, *masks = rest
    if any(isinstance(flag, E.Const) and bool(flag.value) for flag in masks[4:]):
        raise refuse(call, "a product of one block without weight-stationary mode")
    left = (_descriptor if form == "ss" else tensor_address)(p, a, a_offset)
    operands = [
        tensor_address(p, d, d_offset), left, _descriptor(p, b, b_offset),
        _descriptor(p, instruction, E.const(0)), bare(p.value(adds)),
    ]  # fmt: skip
    operands += [bare(p.value(mask)) for mask in masks[:4]]
    return f"tl_tcgen05_mma_{form}_{kind}({', '.join(operands)})"


def _tcgen05_commit(p: GpuPrinter, call: E.Call) -> str:
    p.require("sm_100a", f"T.{call.op}")
    if call.attr("arrive_2cta", False):
        raise refuse(call, "arrive_2cta=False")
    return f"tl_tcgen05_commit({place(p, call.args[0])})"


def _tcgen05_move(p: GpuPrinter, call: E.Call) -> str:
    """Between registers and tensor memory."""
    p.require("sm_100a", f"T.{call.op}")
    shape, count = str(call.attr("shape")), int(call.attr("count", 1))
    p.instances.setdefault(f"TL_TCGEN05_MOVE({shape}, {count}, {count * _MOVE_REGISTERS[shape]})")
    registers, address = place(p, call.args[0]), tensor_address(p, call.args[1])
    loads = call.op == "tcgen05_ld"
    operands = (registers, address) if loads else (address, registers)
    return f"tl_{call.op}_{shape}_x{count}({', '.join(operands)})"


def _tcgen05_copy(p: GpuPrinter, call: E.Call) -> str:
    p.require("sm_100a", f"T.{call.op}")
    address = tensor_address(p, call.args[1])
    return (
        f"tl_tcgen05_cp_{call.attr('shape')}({address}, {_descriptor(p, call.args[0], E.const(0))})"
    )


def _cancel(p: GpuPrinter, call: E.Call) -> str:
    """Work of blocks that have not started: operands are places in shared memory."""
    p.require("sm_100a" if call.op.endswith("multicast") else "sm_100", f"T.{call.op}")
    name = call.op.replace("clc_get_first", "clc_first")
    return f"tl_{name}({', '.join(place(p, arg) for arg in call.args)})"


def _simple(name: str, needs: str) -> Handler:
    """A word without operands."""

    def handler(p: GpuPrinter, call: E.Call) -> str:
        p.require(needs, f"T.{call.op}")
        return f"{name}()"

    return handler


def _pointer_of(p: GpuPrinter, call: E.Call) -> str:
    """TVM's pointer: data, offset in elements, extent, access."""
    data, offset = call.args[:2]
    kind = str(call.attr("ptype", ""))
    base = p.value(data)
    if kind and data not in p.declared:
        base = f"(({storage_type(DType(kind))}*){base})"
    return f"({base} + {p.index(offset)})"


RAW_CALLS: dict[str, Handler] = {
    **dict.fromkeys(MAPS, _create_map),
    **dict.fromkeys(("tma_load", "tma_load_multicast", "tma_load_im2col"), _tma),
    "tma_store": _tma_store,
    "prefetch_tma_descriptor": _prefetch,
    "ptx_cp_async_bulk": _bulk,
    "map_shared_rank": _map_shared,
    "ptx_wgmma_ss": _wgmma,
    "ptx_wgmma_rs": _wgmma,
    "initialize_wgmma_descriptor": _init_descriptor,
    "initialize_tcgen05_descriptor": _init_descriptor,
    "increase_descriptor_offset": _move_descriptor,
    "ptx_mma_sp": _mma_sp,
    "ptx_mma_sm70": _mma_sm70,
    "ptx_stmatrix": _stmatrix,
    "ptx_tcgen05_mma_ss": _tcgen05_mma,
    "ptx_tcgen05_mma_ts": _tcgen05_mma,
    "tcgen05_mma_arrive": _tcgen05_commit,
    "tcgen05_ld": _tcgen05_move,
    "tcgen05_st": _tcgen05_move,
    "tcgen05_cp": _tcgen05_copy,
    "tcgen05_wait_ld": _simple("tl_tcgen05_wait_ld", "sm_100a"),
    "tcgen05_wait_st": _simple("tl_tcgen05_wait_st", "sm_100a"),
    "tcgen05_before_thread_sync": _simple("tl_tcgen05_fence_before", "sm_100a"),
    "tcgen05_after_thread_sync": _simple("tl_tcgen05_fence_after", "sm_100a"),
    **dict.fromkeys(
        (
            "clc_try_cancel", "clc_try_cancel_multicast", "clc_is_canceled",
            "clc_get_first_ctaid_x", "clc_get_first_ctaid_y", "clc_get_first_ctaid_z",
        ),
        _cancel,
    ),
    "tvm_access_ptr": _pointer_of,
}  # fmt: skip
