"""Addresses, vector loads and stores, and copies by single threads."""

from __future__ import annotations

from collections.abc import Callable

from tilelang.errors import TileIndexError, TileTypeError, TileValueError
from tilelang.frontend.ir_builder import builder, is_pure
from tilelang.frontend.regions import (
    address_of_operand,
    cast_to,
    check_plain,
    constant_int,
    describe,
    integer,
    region_of,
    scalar,
)
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.emitter import emitter
from tilelang.ir.hints import LoopHints
from tilelang.ir.simplify import simplify
from tilelang.ir.tables import UNKNOWN_POINTER
from tilelang.language.gemm_op import condition
from tilelang.records import dataclass
from tilelang.tracebacks import borders

__all__ = [
    "access_ptr", "address_of", "dp4a", "isnullptr", "ldg32", "ldg64", "ldg128", "ldg256", "lds32",
    "lds64", "lds128", "ptx_cp_async", "stg32", "stg64", "stg128", "stg256", "sts32", "sts64",
    "sts128", "tvm_access_ptr",
]  # fmt: skip

_ACCESS = {1: "r", 2: "w", 3: "rw"}


# -- addresses -------------------------------------------------------------------------------------
def _access(access_type: object, op_name: str) -> str:
    mode = access_type.value if isinstance(access_type, E.Const) else access_type
    if isinstance(mode, int):
        mode = _ACCESS.get(mode)
    if mode not in ("r", "w", "rw"):
        raise TileValueError(
            f"the access of {op_name} is unknown",
            expected="'r', 'w', 'rw', or 1, 2, 3",
            got=describe(access_type),
        )
    return str(mode)


def access_ptr(
    base: object, access_type: str | int = "r", *extents: object, offset: object = 0,
    extent: object = None, ignore_last_ndim: int = 0,
) -> E.Expr:  # fmt: skip
    """Return a pointer to an element, to the start of a region or of a buffer.

    Args:
        base: buffer, region or element, or a name that an element was bound to.
        access_type: ``"r"``, ``"w"``, ``"rw"``, or a bit mask of 1 (read) and 2 (write).
        extents: how many elements of each of the last dimensions are accessed; their product is
            the extent.
        offset: elements to add.
        extent: how many elements are accessed, instead of ``extents``.
        ignore_last_ndim: how many trailing indices count as 0.

    Raises:
        TileIndexError: the elements are certainly out of bounds of the buffer.
        TileTypeError: an offset that is not an integer.
        TileValueError: an extent that is not positive, or more extents than dimensions.
    """
    op_name = "T.access_ptr"
    access = _access(access_type, op_name)
    region = region_of(_bound(base, op_name), op_name, "base")
    ignored = constant_int(ignore_last_ndim, op_name, "ignore_last_ndim")
    if not 0 <= ignored <= len(region.mins):
        raise TileValueError(
            f"ignore_last_ndim of {op_name} is {ignored}",
            expected=f"0 to {len(region.mins)}, the dimensions of `{region.buffer.name}`",
        )
    indices: list[E.Expr] = list(region.mins)
    for dim in range(len(indices) - ignored, len(indices)):
        indices[dim] = E.const(0)
    if indices:
        indices[-1] = E.as_expr(indices[-1] + integer(offset, op_name, "offset"))
    count = _extent(op_name, region.buffer, extents, extent)
    pointer = E.AddressOf(region.buffer, tuple(indices), access, count)
    _check_pointer(op_name, pointer)
    return pointer


def _bound(base: object, op_name: str) -> object:
    """The element that a name was bound to; anything else as it is.

    Raises:
        TileTypeError: the name is bound to a value that is not an element, or whose address
            may have changed.
    """
    if not isinstance(base, E.Var) or base.dtype.is_handle:
        return base
    value = builder(op_name).values.get(base)
    if isinstance(value, E.Load) and all(map(is_pure, value.indices)):
        return value
    raise TileTypeError(
        f"the base of {op_name} is a value without an address",
        expected="a buffer, a region, an element such as A[i, j], or a name of one",
        got=f"`{base.name}`",
        hint="give the element itself, e.g. T.access_ptr(A[i, j])",
    )


def _extent(
    op_name: str, buffer: Buffer, extents: tuple[object, ...], extent: object
) -> E.Expr | None:
    """The number of accessed elements, if the program states it."""
    if len(extents) == 1 and isinstance(extents[0], (tuple, list)):
        extents = tuple(extents[0])
    if extent is None and not extents:
        return None
    if extent is None and len(extents) > max(1, buffer.ndim):
        raise TileValueError(
            f"{op_name} with more extents than `{buffer.name}` has dimensions",
            expected=f"at most {buffer.ndim}",
            got=str(len(extents)),
        )
    count: E.Expr = E.const(1)
    for size in extents if extent is None else (extent,):
        expr = scalar(size, op_name, "extent")
        if not expr.dtype.is_integer or (isinstance(expr, E.Const) and expr.value < 1):
            raise TileValueError(
                f"an extent of {op_name} is not a number of elements",
                expected="an integer of at least 1",
                got=describe(size),
            )
        count = E.as_expr(count * expr)
    return simplify(count)


def _check_pointer(op_name: str, pointer: E.AddressOf) -> None:
    """Refuse a pointer whose elements are certainly out of bounds of its buffer."""
    if pointer.extent is not None and not isinstance(pointer.extent, E.Const):
        return
    extent = 0 if pointer.extent is None else int(pointer.extent.__index__())
    steps = [simplify(E.as_expr(step)) for step in pointer.buffer.stride_list()]
    sizes = [simplify(E.as_expr(size)) for size in pointer.buffer.shape]
    indices = [simplify(index) for index in pointer.indices]
    first, end = 0, 1
    for size, step, position in zip(sizes, steps, indices):
        if not all(isinstance(expr, E.Const) for expr in (size, step, position)):
            return
        first += int(position.__index__()) * int(step.__index__())
        end += (int(size.__index__()) - 1) * int(step.__index__())
    last = first + extent
    if first < 0 or last > end:
        raise TileIndexError(
            f"{op_name} reaches outside of `{pointer.buffer.name}`",
            expected=f"elements 0 to {end - 1}",
            got=f"elements {first} to {max(first, last - 1)}",
        )


def address_of(obj: object, *, span: object = None) -> E.Expr:
    """Return a pointer to an element or to the start of a buffer, for ``T.call_extern``.

    Raises:
        TileTypeError: not a buffer or an element of one.
    """
    return address_of_operand(obj, "T.address_of")


def tvm_access_ptr(
    ptype: object, data: object, offset: object, extent: object, rw_mask: object = 3
) -> E.Expr:
    """Return :func:`access_ptr` in TVM's order of arguments.

    Args:
        ptype: the dtype of the elements, as ``T.type_annotation`` gives it.
        data: a buffer, an element, or a pointer variable.
        offset: the first element, counted from ``data``.
        extent: the number of elements that are accessed.
        rw_mask: 1 for reads, 2 for writes, 3 for both.
    """
    if isinstance(data, (Buffer, Region, E.Load)):
        return access_ptr(data, _access(rw_mask, "T.tvm_access_ptr"), offset=offset, extent=extent)
    args = (E.as_expr(data), E.as_expr(offset), E.as_expr(extent), E.as_expr(rw_mask))
    kind = str(ptype.dtype) if isinstance(ptype, E.Expr) else str(ptype)
    return E.call(UNKNOWN_POINTER, *args, dtype="handle", ptype=kind)


def isnullptr(val: object, *, span: object = None) -> E.Expr:
    """Return whether a pointer or an optional tensor is absent.

    Raises:
        TileTypeError: not a pointer or a tensor.
    """
    return E.call("isnullptr", address_of_operand(val, "T.isnullptr", "r"))


# -- vector accesses -------------------------------------------------------------------------------
def _words(bits: int) -> DType:
    return DType("uint32").with_lanes(bits // 32)


def _vector(operand: object, op_name: str, role: str, scope: str, bits: int) -> tuple[Region, int]:
    """The first element of a vector access and the number of elements in ``bits``."""
    region = region_of(operand, op_name, role)
    if not region.scope().startswith(scope):
        raise TileTypeError(
            f"the {role} of {op_name} is in {region.scope()} memory",
            expected=f"{scope} memory",
            got=f"`{region.buffer.name}`",
        )
    size = region.dtype.width
    if bits % size or region.dtype.lanes > 1:
        raise TileTypeError(
            f"{op_name} of {region.dtype} elements",
            expected=f"a scalar dtype of at most {bits} bits",
            got=str(region.dtype),
        )
    named = region.extents[-1] if isinstance(operand, Region) else None
    if isinstance(named, (int, E.Const)) and 1 < int(named.__index__()) < bits // size:
        raise TileValueError(
            f"the {role} of {op_name} is too short",
            expected=f"{bits // size} elements of {region.dtype}, or the first of them",
            got=f"`{operand!r}`, {int(named.__index__())} elements",
        )
    return region, bits // size


def _run(region: Region, lanes: int) -> tuple[E.Expr, ...]:
    """Indices of ``lanes`` contiguous elements from the start of ``region`` on."""
    last = region.mins[-1]
    at = last if lanes == 1 else E.Ramp(last, E.const(1, last.dtype), lanes)
    return (*region.mins[:-1], at)


def _vector_load(op_name: str, src: object, pred: object, scope: str, bits: int) -> E.Expr:
    source, lanes = _vector(src, op_name, "source", scope, bits)
    loaded = E.Load(source.buffer, _run(source, lanes))
    wide = _words(bits)
    if scope == "global":
        value = E.call(op_name.removeprefix("T."), loaded, dtype=wide)
    else:
        value = loaded if loaded.dtype is wide else E.call("reinterpret", loaded, dtype=wide)
    if pred is None:
        return value
    zero: E.Expr = E.const(0, "uint32")
    return E.select(pred, value, zero if wide.lanes == 1 else E.Broadcast(zero, wide.lanes))


def _vector_store(
    op_name: str, dst: object, value: object, pred: object, scope: str, bits: int
) -> None:
    target, lanes = _vector(dst, op_name, "destination", scope, bits)
    kind = target.dtype.with_lanes(lanes)
    expr = scalar(value, op_name, "value")
    if expr.dtype.width != bits:
        raise TileTypeError(
            f"the value of {op_name} has {expr.dtype.width} bits",
            expected=f"{bits} bits, e.g. {_words(bits)}",
            got=f"`{expr!r}` of dtype {expr.dtype}",
        )
    if scope == "global":
        expr = E.call(op_name.removeprefix("T."), expr, dtype=kind)
    elif expr.dtype is not kind:
        expr = E.call("reinterpret", expr, dtype=kind)
    store = S.Store(buffer=target.buffer, indices=_run(target, lanes), value=expr)
    if pred is None:
        emitter(op_name).emit(store)
        return
    emitter(op_name).emit(S.If(cond=condition(pred, op_name, "predicate"), then=store))


def ldg32(src: object, pred: object = None) -> E.Expr:
    """Load 32 bits of global memory as uint32; 0 where ``pred`` does not hold.

    Args:
        src: an element of global memory, where the load starts.
        pred: a condition; without it the load is unconditional.

    Raises:
        TileTypeError: not an element or region of global memory.

    Source: PTX ISA, "ld.global".
    """
    return _vector_load("T.ldg32", src, pred, "global", 32)


def ldg64(src: object, pred: object = None) -> E.Expr:
    """Load 64 bits of global memory as uint32x2; 0 where ``pred`` does not hold.

    Arguments are those of :func:`ldg32`.

    Source: PTX ISA, "ld.global".
    """
    return _vector_load("T.ldg64", src, pred, "global", 64)


def ldg128(src: object, pred: object = None) -> E.Expr:
    """Load 128 bits of global memory as uint32x4; 0 where ``pred`` does not hold.

    Arguments are those of :func:`ldg32`.

    Source: PTX ISA, "ld.global".
    """
    return _vector_load("T.ldg128", src, pred, "global", 128)


def ldg256(src: object, pred: object = None) -> E.Expr:
    """Load 256 bits of global memory as uint32x8; 0 where ``pred`` does not hold.

    Arguments are those of :func:`ldg32`.

    Source: PTX ISA, "ld.global".
    """
    return _vector_load("T.ldg256", src, pred, "global", 256)


def lds32(src: object) -> E.Expr:
    """Load 32 bits of shared memory as uint32.

    Args:
        src: an element of shared memory, where the load starts. If its address is not known to be
            a multiple of the width, the access is split.

    Raises:
        TileTypeError: not an element or region of shared memory.

    Source: PTX ISA, "ld.shared".
    """
    return _vector_load("T.lds32", src, None, "shared", 32)


def lds64(src: object) -> E.Expr:
    """Load 64 bits of shared memory as uint32x2.

    Args:
        src: an element of shared memory, where the load starts. If its address is not known to be
            a multiple of the width, the access is split.

    Source: PTX ISA, "ld.shared".
    """
    return _vector_load("T.lds64", src, None, "shared", 64)


def lds128(src: object) -> E.Expr:
    """Load 128 bits of shared memory as uint32x4.

    Args:
        src: an element of shared memory, where the load starts. If its address is not known to be
            a multiple of the width, the access is split.

    Source: PTX ISA, "ld.shared".
    """
    return _vector_load("T.lds128", src, None, "shared", 128)


def stg32(dst: object, value: object, pred: object = None) -> None:
    """Store 32 bits to global memory where ``pred`` holds.

    Args:
        dst: an element of global memory, where the store starts.
        value: 32 bits, such as the result of ``T.ldg32``.
        pred: a condition; without it the store is unconditional.

    Raises:
        TileTypeError: ``dst`` is not in global memory, or ``value`` has another width.

    Source: PTX ISA, "st.global".
    """
    _vector_store("T.stg32", dst, value, pred, "global", 32)


def stg64(dst: object, value: object, pred: object = None) -> None:
    """Store 64 bits to global memory where ``pred`` holds.

    Args:
        dst: an element of global memory, where the store starts.
        value: 64 bits, such as the result of ``T.ldg64``.
        pred: a condition; without it the store is unconditional.

    Source: PTX ISA, "st.global".
    """
    _vector_store("T.stg64", dst, value, pred, "global", 64)


def stg128(dst: object, value: object, pred: object = None) -> None:
    """Store 128 bits to global memory where ``pred`` holds.

    Args:
        dst: an element of global memory, where the store starts.
        value: 128 bits, such as the result of ``T.ldg128``.
        pred: a condition; without it the store is unconditional.

    Source: PTX ISA, "st.global".
    """
    _vector_store("T.stg128", dst, value, pred, "global", 128)


def stg256(dst: object, value: object, pred: object = None) -> None:
    """Store 256 bits to global memory where ``pred`` holds.

    Args:
        dst: an element of global memory, where the store starts.
        value: 256 bits, such as the result of ``T.ldg256``.
        pred: a condition; without it the store is unconditional.

    Source: PTX ISA, "st.global".
    """
    _vector_store("T.stg256", dst, value, pred, "global", 256)


def sts32(dst: object, value: object) -> None:
    """Store 32 bits to shared memory.

    Args:
        dst: an element of shared memory, where the store starts.
        value: 32 bits, such as the result of ``T.lds32``.

    Raises:
        TileTypeError: ``dst`` is not in shared memory, or ``value`` has another width.

    Source: PTX ISA, "st.shared".
    """
    _vector_store("T.sts32", dst, value, None, "shared", 32)


def sts64(dst: object, value: object) -> None:
    """Store 64 bits to shared memory.

    Args:
        dst: an element of shared memory, where the store starts.
        value: 64 bits, such as the result of ``T.lds64``.

    Source: PTX ISA, "st.shared".
    """
    _vector_store("T.sts64", dst, value, None, "shared", 64)


def sts128(dst: object, value: object) -> None:
    """Store 128 bits to shared memory.

    Args:
        dst: an element of shared memory, where the store starts.
        value: 128 bits, such as the result of ``T.lds128``.

    Source: PTX ISA, "st.shared".
    """
    _vector_store("T.sts128", dst, value, None, "shared", 128)


def __ldg(load_or_buf: object, index: object = None) -> E.Expr:
    """Load an element of global memory through the read-only cache."""
    if index is not None and isinstance(load_or_buf, Buffer):
        load_or_buf = load_or_buf[index]
    region = region_of(load_or_buf, "T.__ldg", "source")
    return E.call("ldg", E.AddressOf(region.buffer, region.mins, "r"), dtype=region.dtype)


def __ffs(value: object) -> E.Expr:
    """Return the position of the lowest bit set, from 1; 0 if none is."""
    return E.call("ffs", scalar(value, "T.__ffs"))


def __fns(mask: object, base: object, offset: object) -> E.Expr:
    """Return the position of the ``offset``-th bit set in ``mask``, from bit ``base`` on."""
    return E.call("fns", *(scalar(argument, "T.__fns") for argument in (mask, base, offset)))


def dp4a(A: object, B: object, C: object) -> None:
    """Accumulate ``C += A . B`` of four int8 values, per thread.

    Args:
        A, B: where four contiguous int8 values start.
        C: an int32 element.

    Raises:
        TileTypeError: operands of other dtypes.

    Source: PTX ISA, "dp4a".
    """
    op_name = "T.dp4a"
    regions = [region_of(x, op_name, role) for x, role in ((A, "A"), (B, "B"), (C, "C"))]
    for region, role in zip(regions, "ABC", strict=True):
        dtypes = ("int32", "uint32") if role == "C" else ("int8", "uint8")
        if region.dtype not in dtypes:
            raise TileTypeError(
                f"{role} of {op_name} has the dtype {region.dtype}",
                expected=" or ".join(dtypes),
                got=str(region.dtype),
            )
    addresses = [E.AddressOf(region.buffer, region.mins) for region in regions]
    emitter(op_name).emit(S.Eval(value=E.call("dp4a", *addresses, dtype="handle")))


@dataclass(frozen=True)
class _Run:
    """Neighbouring elements behind a pointer: ``at(k)`` are the indices of the k-th. ``extent``
    is how many the pointer covers, None if that is unknown."""

    buffer: Buffer
    at: Callable[[E.Expr], tuple[E.Expr, ...]]
    extent: int | None = None


def _pointed(operand: object, op_name: str, role: str) -> _Run:
    """The elements that a thread copies to or from."""
    from tilelang.ir.indices import unravel

    region = address_of_operand(operand, op_name)
    if isinstance(region, E.AddressOf):
        lead, last = region.indices[:-1], region.indices[-1]
        known = int(region.extent.value) if isinstance(region.extent, E.Const) else None
        return _Run(region.buffer, lambda k: (*lead, E.as_expr(last + k)), known)
    owner = None
    if isinstance(region, E.Call) and region.atom is UNKNOWN_POINTER:
        owner = builder(op_name).owner(region.args[0])
    if owner is None:
        raise TileTypeError(
            f"the {role} of {op_name} is not an address of a buffer",
            expected="T.access_ptr(A[i], ...), T.address_of(A[i]) or T.tvm_access_ptr(..., A.data, "
            "...)",
            got=describe(region),
        )
    assert isinstance(region, E.Call)
    kind = DType(str(region.attr("ptype", owner.dtype)))
    if kind != owner.dtype or owner.strides is not None:
        raise TileTypeError(
            f"the {role} of {op_name} does not point to neighbouring elements of its buffer",
            expected=f"a pointer to {owner.dtype} in a buffer without strides",
            got=f"a pointer to {kind} in `{owner.name}`",
        )
    start, extent = region.args[1] - owner.elem_offset, region.args[2]
    length = int(extent.value) if isinstance(extent, E.Const) else None
    return _Run(owner, lambda k: unravel(owner.shape, E.as_expr(start + k)), length)


def _elements_of(count: int, dst: _Run, src: _Run) -> int:
    """The number of elements of ``count``: that many, or the bytes of both pointers."""
    extent = dst.extent
    size = count * 8 if extent is not None and extent == src.extent != count else 0
    return extent if extent is not None and size == extent * dst.buffer.dtype.bits else count


def ptx_cp_async(
    dst_access_ptr: object, src_access_ptr: object, num_elems: object, predicate: object = None
) -> None:
    """Copy ``num_elems`` contiguous elements from global to shared memory in one thread.

    If the program waits for such copies itself (``T.ptx_wait_group``,
    ``T.cp_async_barrier_noinc``), the copy is asynchronous on targets that have such copies (PTX,
    "cp.async"). Otherwise the call traces to a vectorised loop and is synchronous.

    Args:
        dst_access_ptr, src_access_ptr: ``T.access_ptr`` or ``T.address_of`` of the first elements,
            or ``T.tvm_access_ptr`` with the ``.data`` of a buffer.
        num_elems: elements; or bytes, as many as the extents of two ``T.tvm_access_ptr`` have.
        predicate: where false, the destination becomes 0.

    Raises:
        TileValueError: more elements than a pointer's extent.
    """
    op_name = "T.ptx_cp_async"
    dst = _pointed(dst_access_ptr, op_name, "destination")
    src = _pointed(src_access_ptr, op_name, "source")
    count = _elements_of(constant_int(num_elems, op_name, "element count"), dst, src)
    for run, role in ((dst, "destination"), (src, "source")):
        check_plain(run.buffer.whole(), op_name, role)
        if run.extent is not None and count > run.extent:
            raise TileValueError(
                f"{op_name} copies more than the extent of its {role}",
                expected=f"at most {run.extent} elements of `{run.buffer.name}`",
                got=str(count),
            )
    var = E.Var("v", DType("int32"))
    value: E.Expr = E.Load(src.buffer, src.at(var))
    if predicate is not None:
        value = E.select(scalar(predicate, op_name, "predicate"), value, E.const(0, value.dtype))
    store = S.Store(buffer=dst.buffer, indices=dst.at(var), value=cast_to(value, dst.buffer.dtype))
    emitter(op_name).emit(S.counted(var, count, store, "vectorized", LoopHints(asynchronous=True)))


borders(globals(), __all__)
