"""Synchronization: barriers of warps, blocks and grids, and the barriers that operations name.

Other arrivals, waits and fences are generated from rows of the instruction table
(``instructions``).
"""

from __future__ import annotations

from typing import Any

from tilelang.errors import TileTypeError, TileValueError
from tilelang.frontend.ir_builder import builder
from tilelang.frontend.regions import address_of_operand, describe, emit_call, integer, region_of
from tilelang.ir.buffer import Buffer, Region, is_same_extent
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.emitter import emitter
from tilelang.ir.expr import AddressOf, Call, Expr, Load, Var, as_expr
from tilelang.tracebacks import borders

__all__ = [
    "create_list_of_mbarrier", "get_mbarrier", "sync_global", "sync_grid", "sync_threads",
    "sync_warp", "thread_return", "tvm_storage_sync", "warpgroup_fence_operand",
]  # fmt: skip


# -- block and warp synchronisation ----------------------------------------------------------------
def sync_threads(barrier_id: object = None, arrive_count: object = None) -> Call:
    """Wait for all threads of the block, or for ``arrive_count`` at the named barrier.

    Memory accesses before it are visible to these threads after it.

    Args:
        barrier_id: 0 is the barrier of the block; a kernel may use 15 others, with any numbers.
        arrive_count: threads that arrive, a positive multiple of 32.

    Raises:
        TileTypeError: an argument that is not an integer.
        TileValueError: a negative barrier, another count, or a count without a barrier.

    Source: PTX ISA, "bar.sync", "barrier.sync".
    """
    op_name = "T.sync_threads"
    if barrier_id is None and arrive_count is not None:
        raise TileValueError(
            "T.sync_threads with a thread count but no barrier",
            expected="T.sync_threads(barrier_id, arrive_count)",
            got=f"arrive_count={arrive_count!r}",
        )
    check_named(barrier_id, arrive_count, op_name)
    args = [as_expr(argument) for argument in (barrier_id, arrive_count) if argument is not None]
    return emit_call(op_name, "sync_threads", *args)


def check_named(barrier_id: object, count: object, op_name: str) -> None:
    """Refuse hardware barriers that do not exist, and thread counts that are not warps."""
    for role, value in (("barrier", barrier_id), ("thread count", count)):
        if value is not None:
            integer(value, op_name, role)
    if isinstance(barrier_id, int) and barrier_id < 0:
        raise TileValueError(
            f"the barrier of {op_name} does not exist", expected="0 or more", got=str(barrier_id)
        )
    if isinstance(count, int) and (count < 1 or count % 32):
        raise TileValueError(
            f"the thread count of {op_name} is {count}",
            expected="a positive multiple of 32",
            got=str(count),
        )


def sync_warp(mask: object = None) -> Call:
    """Wait for the threads of the warp, or for its lanes in ``mask`` (a 32-bit mask).

    Raises:
        TileTypeError: a mask that is not an integer.

    Source: CUDA C++ Programming Guide, "Synchronization Functions", ``__syncwarp``.
    """
    op_name = "T.sync_warp"
    masks = () if mask is None else (integer(mask, op_name, "mask"),)
    return emit_call(op_name, "sync_warp", *masks)


def sync_grid() -> Call:
    """Wait for all blocks of the grid, which must all be resident: the launch is cooperative.

    Source: CUDA C++ Programming Guide, "Grid Synchronization".
    """
    return emit_call("T.sync_grid", "sync_grid")


def sync_global() -> Call:
    """Wait for all blocks, as :func:`sync_grid`.

    Source: CUDA C++ Programming Guide, "Grid Synchronization".
    """
    return emit_call("T.sync_global", "sync_grid")


def tvm_storage_sync(storage_scope: str) -> None:
    """Wait for the threads of a TVM storage scope.

    Args:
        storage_scope: ``"warp"``, ``"shared"`` or ``"shared.dyn"`` (the block), ``"global"`` (the
            grid).

    Raises:
        TileValueError: another scope.
    """
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


def thread_return(*, span: object = None) -> None:
    """Leave the kernel in the executing threads, which take part in no later barrier.

    Source: PTX ISA, "Control Flow Instructions", ``exit``.
    """
    from tilelang.ir.stmt import ThreadReturn

    emitter("T.thread_return").emit(ThreadReturn())


# -- mbarriers -------------------------------------------------------------------------------------
def barrier_address(barrier: object, op_name: str) -> Expr:
    """The barrier an operation names: an element, a 1-D buffer (its first), or an int index
    into the barriers of ``T.create_list_of_mbarrier``."""
    if isinstance(barrier, int) and not isinstance(barrier, bool):
        return barrier_address(get_mbarrier(barrier), op_name)
    if isinstance(barrier, AddressOf):
        return barrier
    if isinstance(barrier, (Buffer, Region, Load)):
        region = region_of(barrier, op_name, "barrier")
        single = isinstance(barrier, (Buffer, Load)) or _is_single_element(region)
        if single and region.scope() in ("shared.barrier", "shared.cluster_barrier"):
            return AddressOf(region.buffer, region.mins)
    raise TileTypeError(
        f"the barrier of {op_name} is not a barrier",
        expected="an element of T.alloc_barrier, e.g. bar[0]",
        got=describe(barrier),
    )


def _is_single_element(region: Region) -> bool:
    return all(is_same_extent(extent, 1) for extent in region.extents)


def create_list_of_mbarrier(*counts: Any) -> Buffer:
    """Allocate mbarriers that operations may name by number.

    Args:
        counts: the arrivals that complete a phase of each barrier, as ints or lists of ints.

    Source: PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier".
    """
    from tilelang.language.allocate import create_barriers

    flat = [n for part in counts for n in (part if isinstance(part, (list, tuple)) else [part])]
    launch = builder("T.create_list_of_mbarrier").kernel("T.create_list_of_mbarrier")
    barriers = create_barriers(*flat)
    launch.barriers = barriers
    return barriers


def get_mbarrier(index: object) -> Expr:
    """Return barrier ``index`` of :func:`create_list_of_mbarrier`.

    Raises:
        TileTypeError: an index that is not an integer.
        TileValueError: the kernel has no such list.
    """
    op_name = "T.get_mbarrier"
    barriers = builder(op_name).kernel(op_name).barriers
    if barriers is None:
        raise TileValueError(
            "a barrier is named by its number, and the kernel has no list of barriers",
            expected="T.create_list_of_mbarrier(...) before it",
            got=describe(index),
            hint="or bar = T.alloc_barrier([...]) and bar[i]",
        )
    element = barriers[integer(index, op_name, "number")]
    assert isinstance(element, Load)
    return element


# -- order of asynchronous work --------------------------------------------------------------------
def warpgroup_fence_operand(
    buffer_or_ptr: object, offset: object = 0, num_regs: object = None, dtype: object = None
) -> Call:
    """Order uses of an accumulator with asynchronous products that write its registers.

    Args:
        buffer_or_ptr: the accumulator, an element or region where it starts, or a pointer.
        offset: elements to add.
        num_regs: number of 32-bit registers; the whole buffer by default.
        dtype: of the accumulator; checked if the buffer is known.

    Raises:
        TileTypeError: memory that is not in registers, another dtype, or an offset or count that is
            not an integer.
        TileValueError: registers outside of it (when its layout is known).

    Source: CUTLASS, ``warpgroup_fence_operand``.
    """
    op_name = "T.warpgroup_fence_operand"
    owner = builder(op_name).owner(buffer_or_ptr) if isinstance(buffer_or_ptr, Var) else None
    address = address_of_operand(buffer_or_ptr if owner is None else owner, op_name)
    if isinstance(address, AddressOf) and not address.buffer.storage.startswith("local"):
        raise TileTypeError(
            f"the accumulator of {op_name} is in {address.buffer.storage} memory",
            expected="a fragment or a local array, whose registers products write",
            got=f"`{address.buffer.name}`",
        )
    if dtype is not None:
        stated = DType(dtype)
        if isinstance(address, AddressOf) and address.buffer.dtype != stated:
            raise TileTypeError(
                f"the dtype of {op_name} is not that of its accumulator",
                expected=f"{address.buffer.dtype}, of `{address.buffer.name}`",
                got=str(stated),
            )
    args = [address, integer(offset, op_name, "offset")]
    if num_regs is not None:
        args.append(integer(num_regs, op_name, "register count"))
    return emit_call(op_name, "warpgroup_fence_operand", *args)


borders(globals(), __all__)
