"""Synchronisation: barriers of threads, blocks and asynchronous copies, and their ordering.

Every word is a statement. Ordering words mean nothing where copies and products are synchronous.
"""

from __future__ import annotations

from typing import Any

from tilelang.errors import TileTypeError, TileValueError
from tilelang.ir.active import emitter
from tilelang.ir.buffer import Buffer, Region, same_extent
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import AddressOf, Call, Expr, Load, as_expr
from tilelang.language.regions import (
    address_of_operand,
    cast_to,
    describe,
    emit_call,
    region_of,
    scalar,
)

__all__ = [
    "barrier_arrive",
    "barrier_wait",
    "cp_async_barrier_noinc",
    "create_list_of_mbarrier",
    "fence_proxy_async",
    "get_mbarrier",
    "mbarrier_arrive",
    "mbarrier_arrive_expect_tx",
    "mbarrier_expect_tx",
    "mbarrier_wait_parity",
    "named_barrier_arrive",
    "pdl_sync",
    "pdl_trigger",
    "ptx_arrive_barrier",
    "ptx_arrive_barrier_expect_tx",
    "ptx_commit_group",
    "ptx_cp_async_barrier",
    "ptx_fence_barrier_init",
    "ptx_init_barrier_thread_count",
    "ptx_wait_barrier",
    "ptx_wait_group",
    "sync_global",
    "sync_grid",
    "sync_threads",
    "sync_warp",
    "thread_return",
    "tma_store_arrive",
    "tma_store_wait",
    "tvm_storage_sync",
    "wait_wgmma",
    "warpgroup_arrive",
    "warpgroup_commit_batch",
    "warpgroup_fence_operand",
    "warpgroup_wait",
]


# -- block and warp synchronisation ----------------------------------------------------------------
def sync_threads(barrier_id: object = None, arrive_count: object = None) -> Call:
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
    return emit_call(what, "sync_threads", *args)


def _check_named(barrier_id: object, count: object, what: str) -> None:
    if isinstance(barrier_id, int) and not 0 <= barrier_id <= 15:
        raise TileValueError(
            f"the barrier of {what} does not exist", expected="0 to 15", got=str(barrier_id)
        )
    if isinstance(count, int) and (count < 1 or count % 32):
        raise TileValueError(
            f"the thread count of {what} is {count}",
            expected="a positive multiple of 32",
            got=str(count),
        )


def named_barrier_arrive(barrier_id: object, thread_count: object) -> Call:
    """Arrive at a named barrier without waiting."""
    what = "T.named_barrier_arrive"
    _check_named(barrier_id, thread_count, what)
    return emit_call(what, "named_barrier_arrive", as_expr(barrier_id), as_expr(thread_count))


def sync_warp(mask: object = None) -> Call:
    """Wait for the threads of the warp."""
    return emit_call("T.sync_warp", "sync_warp", *(() if mask is None else (as_expr(mask),)))


def sync_grid() -> Call:
    """Wait for all blocks; all of them must be resident."""
    return emit_call("T.sync_grid", "sync_grid")


def sync_global() -> Call:
    """:func:`sync_grid`."""
    return emit_call("T.sync_global", "sync_grid")


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
            expected="'warp', 'shared', 'shared.dyn' or 'global'",
            got=describe(storage_scope),
        )


def thread_return(span: object = None) -> None:
    """The executing threads leave the kernel."""
    from tilelang.ir.stmt import ThreadReturn

    emitter("T.thread_return").emit(ThreadReturn())


# -- mbarriers -------------------------------------------------------------------------------------
def barrier_address(barrier: object, what: str) -> Expr:
    """The barrier an operation names: an element, a 1-D buffer (its first), or an int index
    into the barriers of ``T.create_list_of_mbarrier``."""
    if isinstance(barrier, int) and not isinstance(barrier, bool):
        return barrier_address(get_mbarrier(barrier), what)
    if isinstance(barrier, AddressOf):
        return barrier
    if isinstance(barrier, (Buffer, Region, Load)):
        found = region_of(barrier, what, "barrier")
        single = isinstance(barrier, (Buffer, Load)) or _is_one(found)
        if single and found.scope() in ("shared.barrier", "shared.cluster_barrier"):
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

    flat: list[Any] = []
    for part in counts:
        flat.extend(part if isinstance(part, (list, tuple)) else [part])
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
            "a barrier is named by number",
            expected="T.create_list_of_mbarrier(...) before it",
            got=describe(index),
            hint="or bar = T.alloc_barrier([...]) and bar[i]",
        )
    element = found[index]
    assert isinstance(element, Load)
    return element


def barrier_arrive(mbarrier: object) -> Call:
    """Each executing thread arrives once at an mbarrier."""
    what = "T.barrier_arrive"
    return emit_call(what, "mbarrier_arrive", barrier_address(mbarrier, what))


def mbarrier_arrive(mbarrier: object, cta_id: object = None) -> Call:
    """Each executing thread arrives once, at the barrier of block ``cta_id`` of the cluster."""
    what = "T.mbarrier_arrive"
    rest = () if cta_id is None else (scalar(cta_id, what, "cta_id"),)
    return emit_call(what, "mbarrier_arrive", barrier_address(mbarrier, what), *rest)


def _wait(what: str, mbarrier: object, parity: object) -> Call:
    phase = cast_to(scalar(parity, what, "parity"), DType("int32"))
    return emit_call(what, "mbarrier_wait", barrier_address(mbarrier, what), phase)


def barrier_wait(mbarrier: object, parity: object = 0) -> Call:
    """Wait until the phase with that parity (bit 0) is complete."""
    return _wait("T.barrier_wait", mbarrier, parity)


def mbarrier_wait_parity(mbarrier: object, parity: object) -> Call:
    """:func:`barrier_wait`."""
    return _wait("T.mbarrier_wait_parity", mbarrier, parity)


def _transaction(what: str, op: str, mbarrier: object, tx: object) -> Call:
    return emit_call(what, op, barrier_address(mbarrier, what), scalar(tx, what, "byte count"))


def mbarrier_expect_tx(mbarrier: object, tx: object) -> Call:
    """Announce ``tx`` bytes of bulk copies to a barrier."""
    return _transaction("T.mbarrier_expect_tx", "mbarrier_expect_tx", mbarrier, tx)


def mbarrier_arrive_expect_tx(mbarrier: object, tx: object) -> Call:
    """Announce ``tx`` bytes and arrive."""
    return _transaction("T.mbarrier_arrive_expect_tx", "mbarrier_arrive_expect_tx", mbarrier, tx)


def cp_async_barrier_noinc(barrier: object) -> Call:
    """Arrive when the thread's earlier asynchronous copies have landed."""
    what = "T.cp_async_barrier_noinc"
    return emit_call(what, "cp_async_barrier_noinc", barrier_address(barrier, what))


def ptx_arrive_barrier(barrier_id: object) -> Call:
    """:func:`barrier_arrive` in TVM's name."""
    return barrier_arrive(barrier_id)


def ptx_arrive_barrier_expect_tx(barrier_id: object, byte_count: object) -> Call:
    """:func:`mbarrier_arrive_expect_tx` in TVM's name."""
    return mbarrier_arrive_expect_tx(barrier_id, byte_count)


def ptx_wait_barrier(barrier_id: object, parity: object = 0) -> Call:
    """:func:`barrier_wait` in TVM's name."""
    return _wait("T.ptx_wait_barrier", barrier_id, parity)


def ptx_cp_async_barrier(barrier_id: object) -> Call:
    """:func:`cp_async_barrier_noinc` in TVM's name."""
    return cp_async_barrier_noinc(barrier_id)


def ptx_init_barrier_thread_count(barrier_id: object, thread_count: object) -> Call:
    """Initialise a barrier by hand; ``T.alloc_barrier`` has done it already."""
    what = "T.ptx_init_barrier_thread_count"
    return emit_call(
        what, "mbarrier_init", barrier_address(barrier_id, what), as_expr(thread_count)
    )


# -- order of asynchronous work --------------------------------------------------------------------
def _hint(name: str, *args: object) -> Call:
    what = f"T.{name}"
    return emit_call(what, name, *(scalar(arg, what) for arg in args))


def _no_operands(what: str, args: tuple[object, ...]) -> None:
    if args:
        raise TileTypeError(
            f"{what} takes no operands", expected=f"{what}()", got=", ".join(map(describe, args))
        )


def fence_proxy_async(*args: object) -> Call:
    """Order ordinary shared-memory accesses before asynchronous ones."""
    _no_operands("T.fence_proxy_async", args)
    return _hint("fence_proxy_async")


def tma_store_arrive(*args: object) -> Call:
    """Commit the bulk stores issued so far as a group."""
    _no_operands("T.tma_store_arrive", args)
    return _hint("tma_store_arrive")


def tma_store_wait(*args: object, count: object = 0, read: bool = True) -> Call:
    """Wait until at most ``count`` groups of bulk stores are pending."""
    what = "T.tma_store_wait"
    if len(args) > 2:
        raise TileTypeError(
            f"{what} with {len(args)} operands", expected="(count, read)", got=f"{len(args)}"
        )
    pending = args[0] if args else count
    reading = args[1] if len(args) > 1 else read
    return emit_call(what, "tma_store_wait", scalar(pending, what), read=bool(reading))


def ptx_commit_group() -> Call:
    """Commit the asynchronous copies issued so far as a group."""
    return _hint("ptx_commit_group")


def ptx_wait_group(num: object) -> Call:
    """Wait until at most ``num`` groups of asynchronous copies are pending."""
    return _hint("ptx_wait_group", num)


def ptx_fence_barrier_init() -> Call:
    """Make barrier initialisation visible to the asynchronous proxy."""
    return _hint("ptx_fence_barrier_init")


def wait_wgmma(id: object) -> Call:
    """Wait until at most ``id`` groups of asynchronous products are pending."""
    return _hint("wait_wgmma", id)


def warpgroup_arrive() -> Call:
    """Order register accesses before asynchronous products."""
    return _hint("warpgroup_arrive")


def warpgroup_commit_batch() -> Call:
    """Commit the products issued so far as a group."""
    return _hint("warpgroup_commit_batch")


def warpgroup_wait(num_mma: object) -> Call:
    """Wait until at most ``num_mma`` groups of products are pending."""
    return _hint("warpgroup_wait", num_mma)


def warpgroup_fence_operand(
    buffer_or_ptr: object, offset: object = 0, num_regs: object = None, dtype: object = None
) -> Call:
    """Keep the compiler from moving accumulator accesses over asynchronous products.

    Args:
        buffer_or_ptr: the accumulator, an element or region where it starts, or a pointer.
        offset: elements to add.
        num_regs: 32-bit registers; those of the whole buffer when left out.
        dtype: of the accumulator, which is checked where the buffer is known.
    """
    what = "T.warpgroup_fence_operand"
    place = address_of_operand(buffer_or_ptr, what)
    if dtype is not None:
        said = DType(dtype)
        if isinstance(place, AddressOf) and place.buffer.dtype != said:
            raise TileTypeError(
                f"the dtype of {what} is not that of its accumulator",
                expected=f"{place.buffer.dtype}, of `{place.buffer.name}`",
                got=str(said),
            )
    args = [place, scalar(offset, what, "offset")]
    if num_regs is not None:
        args.append(scalar(num_regs, what, "register count"))
    return emit_call(what, "warpgroup_fence_operand", *args)


def pdl_trigger() -> Call:
    """Let a dependent kernel start."""
    return _hint("pdl_trigger")


def pdl_sync() -> Call:
    """Wait for the kernel this one depends on."""
    return _hint("pdl_sync")
