"""The hardware words: synchronisation, barriers, addresses, vector loads and raw instructions.

Words that give no value emit a statement; words that give one return an expression. What exists
only on some hardware traces and prints everywhere and is refused by back ends that lack it, as
``ir/tables.py`` declares.
"""

from __future__ import annotations

from typing import Any

from tilelang.errors import TileTypeError, TileValueError
from tilelang.ir.active import emitter
from tilelang.ir.buffer import Buffer, Region, same_extent
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import (
    AddressOf,
    Broadcast,
    Const,
    Expr,
    Load,
    Ramp,
    StringImm,
    as_expr,
    call,
    const,
    select,
)
from tilelang.ir.stmt import Eval, If, Store
from tilelang.language.annotations import (
    annotate_consumer_reg_alloc,
    annotate_producer_reg_dealloc,
    dec_max_nreg,
    disable_warp_group_reg_alloc,
    inc_max_nreg,
    no_set_max_nreg,
    set_max_nreg,
)
from tilelang.language.hardware import (
    create_tma_descriptor,
    increase_descriptor_offset,
    initialize_tcgen05_descriptor,
    initialize_wgmma_descriptor,
    ptx_arrive_cluster_barrier,
    ptx_mma_sm70,
    tcgen05_mma_arrive,
    tma_load,
)
from tilelang.language.loop import loop_break
from tilelang.language.regions import (
    address_of_operand,
    cast_to,
    constant_int,
    describe,
    emit_call,
    region_of,
    scalar,
)
from tilelang.language.warp import (
    get_lane_idx,
    get_warp_group_idx,
    get_warp_idx,
    get_warp_idx_sync,
    shfl_down,
    shfl_sync,
    shfl_up,
    shfl_xor,
    shuffle_elect,
)

__all__ = [
    "access_ptr",
    "address_of",
    "annotate_consumer_reg_alloc",
    "annotate_producer_reg_dealloc",
    "barrier_arrive",
    "barrier_wait",
    "call_extern",
    "call_intrin",
    "call_pure_extern",
    "cp_async_barrier_noinc",
    "create_list_of_mbarrier",
    "create_tma_descriptor",
    "dec_max_nreg",
    "disable_warp_group_reg_alloc",
    "dp4a",
    "fence_proxy_async",
    "get_lane_idx",
    "get_mbarrier",
    "get_warp_group_idx",
    "get_warp_idx",
    "get_warp_idx_sync",
    "inc_max_nreg",
    "increase_descriptor_offset",
    "initialize_tcgen05_descriptor",
    "initialize_wgmma_descriptor",
    "isnullptr",
    "ldg128",
    "ldg256",
    "ldg32",
    "ldg64",
    "lds128",
    "lds32",
    "lds64",
    "loop_break",
    "mbarrier_arrive",
    "mbarrier_arrive_expect_tx",
    "mbarrier_expect_tx",
    "mbarrier_wait_parity",
    "named_barrier_arrive",
    "no_set_max_nreg",
    "pdl_sync",
    "pdl_trigger",
    "ptx_arrive_barrier",
    "ptx_arrive_barrier_expect_tx",
    "ptx_arrive_cluster_barrier",
    "ptx_commit_group",
    "ptx_cp_async",
    "ptx_cp_async_barrier",
    "ptx_fence_barrier_init",
    "ptx_init_barrier_thread_count",
    "ptx_mma_sm70",
    "ptx_wait_barrier",
    "ptx_wait_group",
    "rng_init",
    "rng_rand",
    "rng_rand_float",
    "set_max_nreg",
    "shfl_down",
    "shfl_sync",
    "shfl_up",
    "shfl_xor",
    "shuffle_elect",
    "stg128",
    "stg256",
    "stg32",
    "stg64",
    "sts128",
    "sts32",
    "sts64",
    "sync_global",
    "sync_grid",
    "sync_threads",
    "sync_warp",
    "tcgen05_mma_arrive",
    "thread_return",
    "tma_load",
    "tma_store_arrive",
    "tma_store_wait",
    "tvm_access_ptr",
    "tvm_storage_sync",
    "wait_wgmma",
    "warpgroup_arrive",
    "warpgroup_commit_batch",
    "warpgroup_fence_operand",
    "warpgroup_wait",
]

_ACCESS = {1: "r", 2: "w", 3: "rw"}
GENERATORS = (
    "curandStatePhilox4_32_10_t",
    "curandStateXORWOW_t",
    "curandStateMRG32k3a_t",
)


# -- addresses -------------------------------------------------------------------------------------
def _access(access_type: object, what: str) -> str:
    found = access_type.value if isinstance(access_type, Const) else access_type
    if isinstance(found, int):
        found = _ACCESS.get(found)
    if found not in ("r", "w", "rw"):
        raise TileValueError(
            f"the access of {what} is unknown", expected="'r', 'w', 'rw', or 1, 2, 3",
            got=describe(access_type),
        )
    return str(found)


def access_ptr(
    base: object,
    access_type: str | int = "r",
    *extents: object,
    offset: object = 0,
    extent: object = None,
    ignore_last_ndim: int = 0,
) -> Expr:
    """A pointer to an element, to the start of a region or of a buffer.

    Args:
        base: buffer, region or element.
        access_type: ``"r"``, ``"w"``, ``"rw"``, or a bit mask of 1 (read) and 2 (write).
        extents, extent: how much is accessed; checked to be numbers, not kept.
        offset: elements to add.
        ignore_last_ndim: how many trailing indices count as 0.
    """
    what = "T.access_ptr"
    access = _access(access_type, what)
    found = region_of(base, what, "base")
    for item in (*extents, *(() if extent is None else (extent,))):
        for size in item if isinstance(item, (tuple, list)) else (item,):
            scalar(size, what, "extent")
    ignored = constant_int(ignore_last_ndim, what, "ignore_last_ndim")
    indices: list[Expr] = list(found.mins)
    for dim in range(len(indices) - ignored, len(indices)):
        indices[dim] = const(0)
    if indices:
        indices[-1] = as_expr(indices[-1] + scalar(offset, what, "offset"))
    return AddressOf(found.buffer, tuple(indices), access)


def address_of(obj: object, span: object = None) -> Expr:
    """A pointer to an element or to the start of a buffer, for ``T.call_extern``."""
    return address_of_operand(obj, "T.address_of")


def tvm_access_ptr(
    ptype: object, data: object, offset: object, extent: object, rw_mask: object = 3
) -> Expr:
    """:func:`access_ptr` in TVM's order; ``data`` is a buffer or a pointer variable."""
    if isinstance(data, (Buffer, Region, Load)):
        return access_ptr(data, _access(rw_mask, "T.tvm_access_ptr"), offset=offset)
    args = (as_expr(data), as_expr(offset), as_expr(extent), as_expr(rw_mask))
    return call("tvm_access_ptr", *args, dtype="handle")


def isnullptr(val: object, span: object = None) -> Expr:
    """Whether a pointer or an optional tensor is absent."""
    return call("isnullptr", address_of_operand(val, "T.isnullptr", "r"))


# -- block and warp synchronisation -------------------------------------------------------------------
def sync_threads(barrier_id: object = None, arrive_count: object = None) -> None:
    """Wait for all threads of the block, or for ``arrive_count`` at the named barrier.

    Args:
        barrier_id: 0 is the block's barrier, 1 to 15 are free.
        arrive_count: threads that take part, a multiple of 32.
    """
    what = "T.sync_threads"
    if barrier_id is None and arrive_count is not None:
        raise TileValueError(
            "T.sync_threads with a thread count but no barrier",
            expected="T.sync_threads(barrier_id, arrive_count)",
            got=f"arrive_count={arrive_count!r}",
        )
    _check_named(barrier_id, arrive_count, what)
    args = [as_expr(item) for item in (barrier_id, arrive_count) if item is not None]
    emit_call(what, "sync_threads", *args)


def _check_named(barrier_id: object, count: object, what: str) -> None:
    if isinstance(barrier_id, int) and not 0 <= barrier_id <= 15:
        raise TileValueError(
            f"the barrier of {what} does not exist", expected="0 to 15", got=str(barrier_id)
        )
    if isinstance(count, int) and (count < 1 or count % 32):
        raise TileValueError(
            f"the thread count of {what} is {count}", expected="a positive multiple of 32",
            got=str(count),
        )


def named_barrier_arrive(barrier_id: object, thread_count: object) -> None:
    """Arrive at a named barrier without waiting."""
    what = "T.named_barrier_arrive"
    _check_named(barrier_id, thread_count, what)
    emit_call(what, "named_barrier_arrive", as_expr(barrier_id), as_expr(thread_count))


def sync_warp(mask: object = None) -> None:
    """Wait for the threads of the warp."""
    emit_call("T.sync_warp", "sync_warp", *(() if mask is None else (as_expr(mask),)))


def sync_grid() -> None:
    """Wait for all blocks; all of them must be resident."""
    emit_call("T.sync_grid", "sync_grid")


def sync_global() -> None:
    """:func:`sync_grid`."""
    emit_call("T.sync_global", "sync_grid")


def tvm_storage_sync(storage_scope: str) -> None:
    """TVM's name: ``"warp"`` is :func:`sync_warp`, ``"global"`` the grid, else the block."""
    if storage_scope == "warp":
        sync_warp()
    elif storage_scope == "global":
        sync_grid()
    elif storage_scope in ("shared", "shared.dyn"):
        sync_threads()
    else:
        raise TileValueError(
            "T.tvm_storage_sync of an unknown scope",
            expected="'warp', 'shared', 'shared.dyn' or 'global'", got=describe(storage_scope),
        )


def thread_return(span: object = None) -> None:
    """The executing threads leave the kernel."""
    from tilelang.ir.stmt import ThreadReturn

    emitter("T.thread_return").emit(ThreadReturn())


# -- mbarriers ----------------------------------------------------------------------------------------
def barrier_address(barrier: object, what: str) -> Expr:
    """The barrier an operation names: an element, a 1-D buffer (its first), or an int index
    into the barriers of ``T.create_list_of_mbarrier``."""
    if isinstance(barrier, int) and not isinstance(barrier, bool):
        return barrier_address(get_mbarrier(barrier), what)
    if isinstance(barrier, AddressOf):
        return barrier
    if isinstance(barrier, (Buffer, Region, Load)):
        found = region_of(barrier, what, "barrier")
        if found.scope() in ("shared.barrier", "shared.cluster_barrier"):
            if isinstance(barrier, (Buffer, Load)) or _is_one(found):
                return AddressOf(found.buffer, found.mins)
    raise TileTypeError(
        f"the barrier of {what} is not a barrier",
        expected="an element of T.alloc_barrier, e.g. bar[0]",
        got=describe(barrier),
    )


def _is_one(region: Region) -> bool:
    return all(same_extent(extent, 1) for extent in region.extents)


def create_list_of_mbarrier(*counts: Any) -> Buffer:
    """Barriers with these arrival counts, which barrier operations may name by number."""
    from tilelang.language.allocate import create_barriers
    from tilelang.language.v2.builder import builder

    flat = [item for part in counts for item in (part if isinstance(part, (list, tuple)) else [part])]
    launch = builder("T.create_list_of_mbarrier").kernel("T.create_list_of_mbarrier")
    made = create_barriers(*flat)
    launch.barriers = made
    return made


def get_mbarrier(index: object) -> Expr:
    """Barrier ``index`` of :func:`create_list_of_mbarrier`."""
    from tilelang.language.v2.builder import builder

    what = "T.get_mbarrier"
    found = builder(what).kernel(what).barriers
    if found is None:
        raise TileValueError(
            "a barrier is named by number", expected="T.create_list_of_mbarrier(...) before it",
            got=describe(index), hint="or bar = T.alloc_barrier([...]) and bar[i]",
        )
    element = found[index]
    assert isinstance(element, Load)
    return element


def barrier_arrive(mbarrier: object) -> None:
    """Each executing thread arrives once at an mbarrier."""
    what = "T.barrier_arrive"
    emit_call(what, "mbarrier_arrive", barrier_address(mbarrier, what))


def mbarrier_arrive(mbarrier: object, cta_id: object = None) -> None:
    """Each executing thread arrives once, at the barrier of block ``cta_id`` of the cluster."""
    what = "T.mbarrier_arrive"
    rest = () if cta_id is None else (scalar(cta_id, what, "cta_id"),)
    emit_call(what, "mbarrier_arrive", barrier_address(mbarrier, what), *rest)


def _wait(what: str, mbarrier: object, parity: object) -> None:
    phase = cast_to(scalar(parity, what, "parity"), DType("int32"))
    emit_call(what, "mbarrier_wait", barrier_address(mbarrier, what), phase)


def barrier_wait(mbarrier: object, parity: object = 0) -> None:
    """Wait until the phase with that parity (bit 0) is complete."""
    _wait("T.barrier_wait", mbarrier, parity)


def mbarrier_wait_parity(mbarrier: object, parity: object) -> None:
    """:func:`barrier_wait`."""
    _wait("T.mbarrier_wait_parity", mbarrier, parity)


def _transaction(what: str, op: str, mbarrier: object, tx: object) -> None:
    emit_call(what, op, barrier_address(mbarrier, what), scalar(tx, what, "byte count"))


def mbarrier_expect_tx(mbarrier: object, tx: object) -> None:
    """Announce ``tx`` bytes of bulk copies to a barrier."""
    _transaction("T.mbarrier_expect_tx", "mbarrier_expect_tx", mbarrier, tx)


def mbarrier_arrive_expect_tx(mbarrier: object, tx: object) -> None:
    """Announce ``tx`` bytes and arrive."""
    _transaction("T.mbarrier_arrive_expect_tx", "mbarrier_arrive_expect_tx", mbarrier, tx)


def cp_async_barrier_noinc(barrier: object) -> None:
    """Arrive when the thread's earlier asynchronous copies have landed."""
    what = "T.cp_async_barrier_noinc"
    emit_call(what, "cp_async_barrier_noinc", barrier_address(barrier, what))


def ptx_arrive_barrier(barrier_id: object) -> None:
    """:func:`barrier_arrive` in TVM's name."""
    barrier_arrive(barrier_id)


def ptx_arrive_barrier_expect_tx(barrier_id: object, byte_count: object) -> None:
    """:func:`mbarrier_arrive_expect_tx` in TVM's name."""
    mbarrier_arrive_expect_tx(barrier_id, byte_count)


def ptx_wait_barrier(barrier_id: object, parity: object = 0) -> None:
    """:func:`barrier_wait` in TVM's name."""
    _wait("T.ptx_wait_barrier", barrier_id, parity)


def ptx_cp_async_barrier(barrier_id: object) -> None:
    """:func:`cp_async_barrier_noinc` in TVM's name."""
    cp_async_barrier_noinc(barrier_id)


def ptx_init_barrier_thread_count(barrier_id: object, thread_count: object) -> None:
    """Initialise a barrier by hand; ``T.alloc_barrier`` has done it already."""
    what = "T.ptx_init_barrier_thread_count"
    emit_call(what, "mbarrier_init", barrier_address(barrier_id, what), as_expr(thread_count))


# -- order of asynchronous work -------------------------------------------------------------------------
def _hint(name: str, *args: object) -> None:
    what = f"T.{name}"
    emit_call(what, name, *(scalar(arg, what) for arg in args))


def fence_proxy_async(*args: object) -> None:
    """Order ordinary shared-memory accesses before asynchronous ones."""
    _hint("fence_proxy_async")


def tma_store_arrive(*args: object) -> None:
    """Commit the bulk stores issued so far as a group."""
    _hint("tma_store_arrive")


def tma_store_wait(*args: object, count: object = 0, read: bool = True) -> None:
    """Wait until at most ``count`` groups of bulk stores are pending."""
    pending = args[0] if args else count
    reading = args[1] if len(args) > 1 else read
    what = "T.tma_store_wait"
    emit_call(what, "tma_store_wait", scalar(pending, what), read=bool(reading))


def ptx_commit_group() -> None:
    """Commit the asynchronous copies issued so far as a group."""
    _hint("ptx_commit_group")


def ptx_wait_group(num: object) -> None:
    """Wait until at most ``num`` groups of asynchronous copies are pending."""
    _hint("ptx_wait_group", num)


def ptx_fence_barrier_init() -> None:
    """Make barrier initialisation visible to the asynchronous proxy."""
    _hint("ptx_fence_barrier_init")


def wait_wgmma(id: object) -> None:
    """Wait until at most ``id`` groups of asynchronous products are pending."""
    _hint("wait_wgmma", id)


def warpgroup_arrive() -> None:
    """Order register accesses before asynchronous products."""
    _hint("warpgroup_arrive")


def warpgroup_commit_batch() -> None:
    """Commit the products issued so far as a group."""
    _hint("warpgroup_commit_batch")


def warpgroup_wait(num_mma: object) -> None:
    """Wait until at most ``num_mma`` groups of products are pending."""
    _hint("warpgroup_wait", num_mma)


def warpgroup_fence_operand(
    buffer_or_ptr: object, offset: object = 0, num_regs: object = None, dtype: object = None
) -> None:
    """Keep the compiler from moving accumulator accesses over asynchronous products."""
    what = "T.warpgroup_fence_operand"
    args = [address_of_operand(buffer_or_ptr, what), scalar(offset, what, "offset")]
    if num_regs is not None:
        args.append(scalar(num_regs, what, "register count"))
    emit_call(what, "warpgroup_fence_operand", *args)


def pdl_trigger() -> None:
    """Let a dependent kernel start."""
    _hint("pdl_trigger")


def pdl_sync() -> None:
    """Wait for the kernel this one depends on."""
    _hint("pdl_sync")


def ptx_cp_async(
    dst_access_ptr: object, src_access_ptr: object, num_elems: object, predicate: object = None
) -> None:
    """Copy ``num_elems`` contiguous elements from global to shared memory in one thread.

    Args:
        dst_access_ptr, src_access_ptr: ``T.access_ptr`` or ``T.address_of`` of the first elements.
        predicate: where false, the destination becomes 0.
    """
    what = "T.ptx_cp_async"
    args = [
        address_of_operand(dst_access_ptr, what, "w"),
        address_of_operand(src_access_ptr, what, "r"),
    ]
    for arg, role in ((args[0], "destination"), (args[1], "source")):
        if not isinstance(arg, AddressOf):
            raise TileTypeError(
                f"the {role} of {what} is not an address of a buffer",
                expected="T.access_ptr(A[i], ...) or T.address_of(A[i])", got=describe(arg),
            )
    args.append(as_expr(constant_int(num_elems, what, "element count")))
    if predicate is not None:
        args.append(scalar(predicate, what, "predicate"))
    emit_call(what, "ptx_cp_async", *args)


# -- vector accesses -------------------------------------------------------------------------------------
def _words(bits: int) -> DType:
    return DType("uint32").with_lanes(bits // 32)


def _place(operand: object, what: str, role: str, scope: str, bits: int) -> tuple[Region, int]:
    """The first element of a vector access and the number of elements in ``bits``."""
    found = region_of(operand, what, role)
    if not found.scope().startswith(scope):
        raise TileTypeError(
            f"the {role} of {what} is in {found.scope()} memory", expected=f"{scope} memory",
            got=f"`{found.buffer.name}`",
        )
    size = found.dtype.bits * found.dtype.lanes
    if bits % size or found.dtype.lanes > 1:
        raise TileTypeError(
            f"{what} of {found.dtype} elements", expected=f"a scalar dtype of at most {bits} bits",
            got=str(found.dtype),
        )
    return found, bits // size


def _vector_load(what: str, src: object, pred: object, scope: str, bits: int) -> Expr:
    place, lanes = _place(src, what, "source", scope, bits)
    kind = place.dtype.with_lanes(lanes)
    loaded = call("ldg", AddressOf(place.buffer, place.mins, "r"), dtype=kind)
    words = _words(bits)
    value = loaded if kind is words else call("reinterpret", loaded, dtype=words)
    if pred is None:
        return value
    zero: Expr = const(0, "uint32")
    return select(pred, value, zero if words.lanes == 1 else Broadcast(zero, words.lanes))


def _vector_store(
    what: str, dst: object, value: object, pred: object, scope: str, bits: int
) -> None:
    place, lanes = _place(dst, what, "destination", scope, bits)
    kind = place.dtype.with_lanes(lanes)
    found = scalar(value, what, "value")
    if found.dtype.bits * found.dtype.lanes != bits:
        raise TileTypeError(
            f"the value of {what} has {found.dtype.bits * found.dtype.lanes} bits",
            expected=f"{bits} bits, e.g. {_words(bits)}", got=f"`{found!r}` of dtype {found.dtype}",
        )
    if found.dtype is not kind:
        found = call("reinterpret", found, dtype=kind)
    last = place.mins[-1]
    at = last if lanes == 1 else Ramp(last, const(1, last.dtype), lanes)
    store = Store(buffer=place.buffer, indices=(*place.mins[:-1], at), value=found)
    if pred is None:
        emitter(what).emit(store)
        return
    from tilelang.language.gemm_op import condition

    emitter(what).emit(If(cond=condition(pred, what, "predicate"), then=store))


def ldg32(src: object, pred: object = None) -> Expr:
    """32 bits of global memory as uint32; 0 where ``pred`` does not hold."""
    return _vector_load("T.ldg32", src, pred, "global", 32)


def ldg64(src: object, pred: object = None) -> Expr:
    """64 bits of global memory as uint32x2; 0 where ``pred`` does not hold."""
    return _vector_load("T.ldg64", src, pred, "global", 64)


def ldg128(src: object, pred: object = None) -> Expr:
    """128 bits of global memory as uint32x4; 0 where ``pred`` does not hold."""
    return _vector_load("T.ldg128", src, pred, "global", 128)


def ldg256(src: object, pred: object = None) -> Expr:
    """256 bits of global memory as uint32x8; 0 where ``pred`` does not hold."""
    return _vector_load("T.ldg256", src, pred, "global", 256)


def lds32(src: object) -> Expr:
    """32 bits of shared memory as uint32."""
    return _vector_load("T.lds32", src, None, "shared", 32)


def lds64(src: object) -> Expr:
    """64 bits of shared memory as uint32x2."""
    return _vector_load("T.lds64", src, None, "shared", 64)


def lds128(src: object) -> Expr:
    """128 bits of shared memory as uint32x4."""
    return _vector_load("T.lds128", src, None, "shared", 128)


def stg32(dst: object, value: object, pred: object = None) -> None:
    """Store 32 bits to global memory where ``pred`` holds."""
    _vector_store("T.stg32", dst, value, pred, "global", 32)


def stg64(dst: object, value: object, pred: object = None) -> None:
    """Store 64 bits to global memory where ``pred`` holds."""
    _vector_store("T.stg64", dst, value, pred, "global", 64)


def stg128(dst: object, value: object, pred: object = None) -> None:
    """Store 128 bits to global memory where ``pred`` holds."""
    _vector_store("T.stg128", dst, value, pred, "global", 128)


def stg256(dst: object, value: object, pred: object = None) -> None:
    """Store 256 bits to global memory where ``pred`` holds."""
    _vector_store("T.stg256", dst, value, pred, "global", 256)


def sts32(dst: object, value: object) -> None:
    """Store 32 bits to shared memory."""
    _vector_store("T.sts32", dst, value, None, "shared", 32)


def sts64(dst: object, value: object) -> None:
    """Store 64 bits to shared memory."""
    _vector_store("T.sts64", dst, value, None, "shared", 64)


def sts128(dst: object, value: object) -> None:
    """Store 128 bits to shared memory."""
    _vector_store("T.sts128", dst, value, None, "shared", 128)


def __ldg(load_or_buf: object, index: object = None) -> Expr:
    """An element of global memory through the read-only cache."""
    if index is not None and isinstance(load_or_buf, Buffer):
        load_or_buf = load_or_buf[index]
    place = region_of(load_or_buf, "T.__ldg", "source")
    return call("ldg", AddressOf(place.buffer, place.mins, "r"), dtype=place.dtype)


def __ffs(value: object) -> Expr:
    """Position of the lowest bit set, from 1; 0 if none is."""
    return call("ffs", scalar(value, "T.__ffs"))


def __fns(mask: object, base: object, offset: object) -> Expr:
    """Position of the ``offset``-th bit set in ``mask``, from bit ``base`` on."""
    return call("fns", *(scalar(item, "T.__fns") for item in (mask, base, offset)))


def dp4a(A: object, B: object, C: object) -> None:
    """``C += A . B`` of four int8 values, per thread.

    Args:
        A, B: where four contiguous int8 values start.
        C: an int32 element.
    """
    what = "T.dp4a"
    places = [region_of(x, what, role) for x, role in ((A, "A"), (B, "B"), (C, "C"))]
    for place, role in zip(places, "ABC"):
        wanted = ("int32", "uint32") if role == "C" else ("int8", "uint8")
        if place.dtype not in wanted:
            raise TileTypeError(
                f"{role} of {what} has the dtype {place.dtype}", expected=" or ".join(wanted),
                got=str(place.dtype),
            )
    addresses = [AddressOf(place.buffer, place.mins) for place in places]
    emitter(what).emit(Eval(value=call("dp4a", *addresses, dtype="handle")))


# -- functions by name -----------------------------------------------------------------------------------
def _argument(value: object) -> Expr:
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, Region) or (isinstance(value, Buffer) and not value.is_var):
        return address_of_operand(value, "T.call_extern")
    return as_expr(value)


def _call(op: str, items: tuple[object, ...], dtype: object) -> Expr:
    what = f"T.{op}"
    if dtype is None:
        if not items:
            raise TileTypeError(f"{what} without a function", expected=f"{what}(dtype, name, ...)")
        dtype, items = items[0], items[1:]
    if not items or not isinstance(items[0], str):
        raise TileTypeError(
            f"the function of {what} is not named", expected=f'{what}(dtype, "name", *args)',
            got=describe(items[0]) if items else "no name",
        )
    args = tuple(_argument(item) for item in items[1:])
    return call(op, *args, dtype=DType(dtype), name=str(items[0]))


def call_extern(*args: object, dtype: object = None, span: object = None) -> Expr:
    """Call a C or CUDA function by name: ``T.call_extern(dtype, "name", *args)``.

    Well known mathematical functions work everywhere, others need a back end whose device
    source has them. Buffers and regions are passed as pointers.
    """
    return _call("call_extern", args, dtype)


call_pure_extern = call_extern


def call_intrin(
    *args: object, dtype: object = None, annotations: object = None, span: object = None
) -> Expr:
    """Call an intrinsic of the target by name: ``T.call_intrin(dtype, "name", *args)``."""
    return _call("call_intrin", args, dtype)


# -- random numbers --------------------------------------------------------------------------------------
def rng_init(
    seed: object, seq: object = None, off: object = 0, generator: str = GENERATORS[0]
) -> None:
    """Start the random generator of each thread, as cuRAND does.

    Args:
        seq: stream number; without it thread plus threads per block times block.
        off: numbers to skip.
        generator: name of the cuRAND state type.
    """
    what = "T.rng_init"
    if generator not in GENERATORS:
        raise TileValueError(
            f"{what} with an unknown generator", expected=", ".join(GENERATORS),
            got=describe(generator),
        )
    active = emitter(what)
    if seq is None:
        from tilelang.language.kernel import get_block_binding, get_thread_binding

        width = active.thread_extents()[0]
        seq = get_thread_binding(0) + get_block_binding(0) * width
    kind = DType("uint64")
    args = [cast_to(scalar(item, what), kind) for item in (seed, seq, off)]
    emit_call(what, "rng_init", *args, generator=generator)


def rng_rand() -> Expr:
    """The next 32 random bits of the thread."""
    return call("rng_rand")


def rng_rand_float(bit: int = 32, dist: str = "uniform") -> Expr:
    """The next random float of the thread.

    Args:
        bit: 32 or 64.
        dist: ``"uniform"`` in (0, 1], or ``"normal"``.
    """
    what = "T.rng_rand_float"
    if bit not in (32, 64):
        raise TileValueError(f"{what} of {bit} bits", expected="32 or 64", got=str(bit))
    if dist not in ("uniform", "normal"):
        raise TileValueError(
            f"{what} of an unknown distribution", expected="'uniform' or 'normal'", got=repr(dist)
        )
    return call("rng_rand_float", dtype=f"float{bit}", bit=bit, dist=dist)
