"""Source of PTX-level intrinsics: those of sm_90 and later, and raw matrix ones of older chips.

Bulk tensor copies take maps that the host encodes, so that a descriptor in the program is a kernel
parameter here. The asynchronous matrix instructions have thousands of forms; the text names those
that it uses (`TL_WGMMA(...)`), and the headers make them.
"""

from __future__ import annotations

import re
from math import prod

from tilelang.codegen.c import bare, storage_type
from tilelang.codegen.gpu.dialect import CallText
from tilelang.codegen.gpu.printer import GpuPrinter
from tilelang.codegen.gpu.rows import MAP, argument, is_tensor_map, known, pointer
from tilelang.cuda.forms import MMA_SP, SHORT, WGMMA, WGMMA_K
from tilelang.errors import TileTypeError, TileUnsupportedError, TileValueError
from tilelang.ir import expr as E
from tilelang.ir.dtypes import dtype as DType
from tilelang.target.nvidia import TMEM_MOVES

# Cache policies by the number that programs give; the first is the default.
_POLICIES = ("evict_normal", "evict_first", "evict_last")
_POLICY_BITS = {"evict_first": "0x12f0000000000000ull", "evict_last": "0x14f0000000000000ull"}
_TCGEN05_KINDS = {
    "f16": "f16", "bf16": "f16", "tf32": "tf32", "f32": "tf32", "e4m3": "f8f6f4", "e5m2": "f8f6f4",
    "s8": "i8", "u8": "i8", "f8f6f4": "f8f6f4", "i8": "i8",
}  # fmt: skip


# -- operands --------------------------------------------------------------------------------------
def texts_of(call: E.Call) -> tuple[list[str], list[E.Expr]]:
    """Texts among the operands of a raw instruction, and the other operands."""
    texts = [arg.value for arg in call.args if isinstance(arg, E.StringImm)]
    return texts, [arg for arg in call.args if not isinstance(arg, E.StringImm)]


def moved(p: GpuPrinter, base: E.Expr, offset: E.Expr) -> str:
    """A pointer operand and its offset in elements."""
    if isinstance(base, (E.AddressOf, E.Load)) and base.indices:
        return p.address(base.buffer, (*base.indices[:-1], E.as_expr(base.indices[-1] + offset)))
    if isinstance(offset, E.Const) and offset.value == 0:
        return bare(p.value(base))
    return f"{p.value(base)} + {p.index(offset)}"


def refuse(call: E.Call, expected: str) -> TileUnsupportedError:
    """The error for a form of an intrinsic that is not known."""
    return TileUnsupportedError(
        f"T.{call.op} in this form is not supported on CUDA", expected=expected, got=f"`{call!r}`"
    )


def descriptor(p: GpuPrinter, base: E.Expr, offset: E.Expr | None = None) -> str:
    """The 64 bits of an operand's descriptor, moved by units of 16 bytes."""
    if isinstance(base, E.AddressOf):
        text = p.load(base.buffer, base.indices)
    elif isinstance(base, E.Var) and base.dtype.is_handle:
        text = f"{p.name_of(base)}[0]"
    else:
        text = p.value(base)
    return _plus(p, text, offset)


def _plus(p: GpuPrinter, text: str, offset: E.Expr | None) -> str:
    """``text`` moved by ``offset``, where that is one."""
    if offset is None or (isinstance(offset, E.Const) and int(offset.value) == 0):
        return text
    return f"{text} + {p.index(offset)}"


def _short(name: str) -> str:
    return SHORT.get(name, name)


# -- tensor maps -----------------------------------------------------------------------------------
def _rank(p: GpuPrinter, operand: E.Expr) -> int | None:
    """Dimensions of the map that an operand is, None if only the host knows."""
    call = p.map_alias.get(operand, operand) if isinstance(operand, E.Var) else operand
    if not (isinstance(call, E.Call) and is_tensor_map(call)):
        return None
    return known(call, call.args[1], "rank")


def _coordinates(
    p: GpuPrinter, call: E.Call, map_operand: E.Expr, coords: list[E.Expr], extra: int = 0
) -> tuple[list[E.Expr], str]:
    """The coordinates of a copy, and its cache policy. `extra`: im2col offsets after them, -1 for
    two fewer than the rank."""
    policy = str(call.attr("eviction_policy", "evict_normal"))
    rank = _rank(p, map_operand)
    if rank is not None:
        count = rank + (rank - 2 if extra else 0)
        if len(coords) == count + 1:
            number = known(call, coords[-1], "eviction policy")
            policy = _POLICIES[number] if 0 <= number < len(_POLICIES) else policy
            coords = coords[:-1]
        if len(coords) != count:
            offsets = " and their offsets" if extra else ""
            raise TileTypeError(
                f"T.{call.op} with {len(coords)} coordinates",
                expected=f"{count} for a map of {rank} dimensions{offsets}", got=f"`{call!r}`",
            )  # fmt: skip
    limit = 8 if extra else 5
    if not 1 <= len(coords) <= limit:
        raise refuse(call, f"1 to {limit} coordinates")
    return coords, policy


def _tma(p: GpuPrinter, call: E.Call) -> str:
    """A box from a tensor to shared memory."""
    box, bar, dst, *rest = call.args
    leading = [pointer(p, dst), p.tensor_map(box), pointer(p, bar)]
    if call.atom.operands[3].role == "blocks":
        leading.append(bare(p.value(rest.pop(0))))
    return _with_coordinates(p, call, f"tl_{call.op}", leading, rest)


def _tma_store(p: GpuPrinter, call: E.Call) -> str:
    """A box from shared memory to a tensor, or a reduction into it."""
    box, src, *rest = call.args
    return _with_coordinates(p, call, call.atom.text, [p.tensor_map(box), pointer(p, src)], rest)


def _with_coordinates(
    p: GpuPrinter, call: E.Call, name: str, leading: list[str], rest: list[E.Expr]
) -> str:
    """The call of ``name`` with ``leading``, a cache policy and the coordinates in ``rest``."""
    coords, policy = _coordinates(p, call, call.args[0], rest, int(call.op.endswith("im2col")))
    if call.attr("reduce") is not None:
        name = f"tl_tma_reduce_{call.attr('reduce')}"
    elif policy in _POLICY_BITS:
        name += "_hint"
        leading.append(_POLICY_BITS[policy])
    return f"{name}({', '.join([*leading, *(bare(p.value(c)) for c in coords)])})"


def _box(p: GpuPrinter, call: E.Call) -> str:
    """A box of a copy of the language: the addresses, a cache policy, the coordinates."""
    name, leading = call.atom.text, len(call.atom.operands)
    arguments = [argument(p, call, at) for at in range(len(call.args))]
    policy = str(call.attr("eviction_policy", "evict_normal"))
    if call.attr("blocks") is not None:
        name += "_multicast"
        arguments.insert(leading, str(call.attr("blocks")))
        leading += 1
    if call.attr("reduce") is not None:
        name = f"tl_tma_reduce_{call.attr('reduce')}"
    elif policy in _POLICY_BITS:
        name += "_hint"
        arguments.insert(leading, _POLICY_BITS[policy])
    return f"{name}({', '.join(arguments)})"


def _bulk(p: GpuPrinter, call: E.Call) -> str:
    """T.ptx_cp_async_bulk(dst, src, bytes[, barrier]), with an offset after each address in TVM's
    form ([dtype,] dst, offset, src, offset, bytes[, barrier])."""
    _, rest = texts_of(call)
    if len(rest) in (5, 6):
        ends = [moved(p, rest[0], rest[1]), moved(p, rest[2], rest[3])]
        first, rest = rest[0], rest[4:]
    elif len(rest) in (3, 4):
        ends = [pointer(p, rest[0]), pointer(p, rest[1])]
        first, rest = rest[0], rest[2:]
    else:
        raise refuse(call, "(dst, src, bytes, barrier)")
    size = rest[0]
    if isinstance(size, E.AddressOf) or (
        isinstance(size, E.Const) and (size.value <= 0 or size.value % 16)
    ):
        raise refuse(call, "bytes to copy: a positive multiple of 16")
    count = bare(p.value(size))
    if len(rest) == 2:
        return f"tl_bulk_load({ends[0]}, {ends[1]}, {count}, {pointer(p, rest[1])})"
    if isinstance(first, E.AddressOf) and first.buffer.storage.startswith("shared"):
        raise refuse(call, "a barrier for a copy to shared memory")
    return f"tl_bulk_store({ends[0]}, {ends[1]}, {count})"


# -- wgmma -----------------------------------------------------------------------------------------
def _wgmma_form(call: E.Call, texts: list[str]) -> tuple[str, str, str, int]:
    """The dtypes of a, b and the accumulator and the columns of a warpgroup instruction."""
    prefix, a, b, c = texts[-4:] if len(texts) > 3 else ["", "", "", ""]
    a, b, c = _short(a), _short(b), _short(c)
    a, b = ("tf32" if kind == "f32" else kind for kind in (a, b))
    match = re.fullmatch(r"m64n(\d+)k(\d+)", prefix)
    if match is None or c not in WGMMA.get((a, b), ()):
        raise TileUnsupportedError(
            f"there is no warpgroup instruction {prefix} of {a} and {b} into {c}",
            expected="m64nNkK of f16, bf16, tf32, fp8 or bytes into f32, f16 or s32",
            got=f"`{call!r}`",
        )
    columns, depth = int(match[1]), int(match[2])
    step = 16 if c == "s32" and columns > 32 else 8
    if columns % step or not 8 <= columns <= 256 or depth != WGMMA_K[a]:
        raise TileUnsupportedError(
            f"there is no warpgroup instruction {prefix} of {a} and {b}",
            expected=f"m64nNk{WGMMA_K[a]} with N from 8 to 256 in steps of {step}", got=prefix,
        )  # fmt: skip
    return a, b, c, columns


def _major(call: E.Call, operand: E.Expr, kind: str) -> int:
    """The major-ness of an operand: 0 for K-major, 1 for M or N, for 16-bit types only."""
    along_k = bool(known(call, operand, "order of an operand"))
    if not along_k and kind not in ("f16", "bf16"):
        raise TileUnsupportedError(
            f"a warpgroup instruction takes {kind} only where K is contiguous",
            expected="K-major operands, or float16 and bfloat16", got=f"`{call!r}`",
        )  # fmt: skip
    return 0 if along_k else 1


def _wgmma(p: GpuPrinter, call: E.Call) -> str:
    """Operands as in T.ptx_wgmma_ss(dtype, "m64n128k16", a_k_major, b_k_major, a, b, c, desc_a,
    offset, desc_b, offset, C, offset, scale_out, scale_a, scale_b), and for A in registers
    T.ptx_wgmma_rs(dtype, "m64n128k16", b_k_major, a, b, c, A, offset, desc_b, ...)."""
    texts, rest = texts_of(call)
    from_shared = call.op.endswith("_ss")
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
    negative = [known(call, sign, "sign of an operand") < 0 for sign in signs]
    switches = ", ".join(map(str, (*orders, *(-1 if minus else 1 for minus in negative))))
    form = "ss" if from_shared else "rs"
    lhs = (descriptor if from_shared else moved)(p, first, first_offset)
    operands = [
        moved(p, acc, acc_offset), lhs, descriptor(p, second, second_offset),
        bare(p.value(adds)),
    ]  # fmt: skip
    name = f"tl_wgmma_m64n{columns}k{WGMMA_K[a]}_{a}_{b}_{c}_{form}"
    return f"{name}<{switches}>({', '.join(operands)})"


def _touched_registers(p: GpuPrinter, call: E.Call) -> str:
    """A fence of the compiler over the registers of an accumulator."""
    base, offset = call.args[:2]
    if isinstance(base, E.AddressOf):
        dtype = base.buffer.dtype
        elements = prod(size if isinstance(size, int) else 0 for size in base.buffer.shape)
        skipped = sum(
            int(index.value) * step
            for index, step in zip((*base.indices,), base.buffer.stride_list())
            if isinstance(index, E.Const) and isinstance(step, int)
        )
        skipped += int(offset.value) if isinstance(offset, E.Const) else 0
        last = count = 0 if skipped < 0 else (elements - skipped) * dtype.bits // 32
        name = f"`{base.buffer.name}`"
    else:
        dtype, count, last = DType(str(call.attr("dtype", "float32"))), 0, 256
        name = "a pointer, whose register count must be given"
    if len(call.args) > 2:
        count = known(call, call.args[2], "register count")
    if not 1 <= count <= last:
        raise TileValueError(
            "T.warpgroup_fence_operand of registers that do not exist",
            expected=f"1 to {last} registers from there on" if last else "registers of the buffer",
            got=f"{count} of {name}",
        )
    kind = "f32" if dtype == "float32" else "b32"
    return f"tl_wgmma_touch_{kind}<{count}>({moved(p, base, offset)})"


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
            expected="one of " + ", ".join(".".join(form) for form in MMA_SP), got=".".join(key),
        )  # fmt: skip
    p.require(MMA_SP[key], f"the sparse matrix instruction {texts[0]} of {a} and {b}")
    selector = known(call, rest[8], "sparsity selector")
    lhs, rhs, acc = (moved(p, rest[k], rest[k + 1]) for k in (0, 2, 4))
    meta = moved(p, rest[6], rest[7])
    return f"tl_mma_sp_{'_'.join(key)}<{selector}>({acc}, {lhs}, {rhs}, *(const uint32_t*)({meta}))"


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
    lhs, rhs, acc = (moved(p, rest[k], rest[k + 1]) for k in (0, 2, 4))
    name = f"tl_mma_m16n16k4_{texts[1]}_{texts[2]}_f16_f16_{_short(texts[5])}"
    return f"{name}({acc}, {lhs}, {rhs})"


def _stmatrix(p: GpuPrinter, call: E.Call) -> str:
    """T.ptx_stmatrix([dtype,] trans, count, [type,] shared, offset, registers, offset)."""
    _, rest = texts_of(call)
    if len(rest) != 6 or not all(isinstance(operand, E.Const) for operand in rest[:2]):
        raise refuse(call, "(trans, count, shared, offset, registers, offset)")
    trans, count = (known(call, operand, "form") for operand in rest[:2])
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
    return _plus(p, text, offset)


def _tcgen05_mma(p: GpuPrinter, call: E.Call) -> str:
    """T.ptx_tcgen05_mma_ss(kind, desc_a, offset, desc_b, offset, D, column, instruction,
    scale_out[, four masks[, ...]]); A of T.ptx_tcgen05_mma_ts is a place in tensor memory."""
    texts, rest = texts_of(call)
    form = call.op[-2:]
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
    lhs = (descriptor if form == "ss" else tensor_address)(p, a, a_offset)
    operands = [
        tensor_address(p, d, d_offset), lhs, descriptor(p, b, b_offset),
        descriptor(p, instruction), bare(p.value(adds)),
    ]  # fmt: skip
    operands += [bare(p.value(mask)) for mask in masks[:4]]
    return f"tl_tcgen05_mma_{form}_{kind}({', '.join(operands)})"


def _tcgen05_commit(p: GpuPrinter, call: E.Call) -> str:
    if call.attr("arrive_2cta", False):
        raise refuse(call, "arrive_2cta=False")
    return f"tl_tcgen05_commit({pointer(p, call.args[0])})"


def _tcgen05_move(p: GpuPrinter, call: E.Call) -> str:
    """Between registers and tensor memory."""
    shape, count = str(call.attr("shape")), int(call.attr("count", 1))
    p.instances.setdefault(f"TL_TCGEN05_MOVE({shape}, {count}, {count * TMEM_MOVES[shape]})")
    operands = ", ".join(argument(p, call, at) for at in range(2))
    return f"tl_{call.op}_{shape}_x{count}({operands})"


def _pointer_of(p: GpuPrinter, call: E.Call) -> str:
    """TVM's pointer: data, offset in elements, extent, access."""
    data, offset = call.args[:2]
    kind = str(call.attr("ptype", ""))
    base = p.value(data)
    if kind and data not in p.declared:
        base = f"(({storage_type(DType(kind))}*){base})"
    return f"({base} + {p.index(offset)})"


PTX_WRITERS: dict[str, CallText] = {
    MAP: GpuPrinter.tensor_map, "load of a box": _tma, "store of a box": _tma_store,
    "box to shared memory": _box, "box to a tensor": _box, "bulk copy": _bulk, "ptx wgmma": _wgmma,
    "fence of registers": _touched_registers, "sparse mma": _mma_sp, "mma of sm_70": _mma_sm70,
    "stmatrix": _stmatrix, "tensor product": _tcgen05_mma, "commit of products": _tcgen05_commit,
    "move of tensor memory": _tcgen05_move, "pointer": _pointer_of,
}  # fmt: skip
# Kinds of operands that only these machines have.
OPERANDS = {"tensor memory": tensor_address, "descriptor bits": descriptor}
