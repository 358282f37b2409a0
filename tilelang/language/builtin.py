"""Hardware words: barriers, fences, register budgets, warp and thread indices, wide loads.

Every function traces and prints everywhere. Those that only order asynchronous work have nothing
to do where copies are synchronous; those that need the threads of a GPU are refused by targets
without them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.errors import TileTypeError, TileValueError
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.active import emitter
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.language.loop import loop_break
from tilelang.language.math import access_ptr
from tilelang.language.regions import region_of

FULL_MASK = 0xFFFFFFFF


def _run(op: str, *args: Any, **attrs: Any) -> None:
    emitter(f"T.{op}").emit(S.Eval(value=E.call(op, *args, dtype="void", **attrs)))


def _operand(value: Any) -> E.Expr:
    """An operand of a raw instruction: buffers become pointers, text stays text."""
    if isinstance(value, str):
        return E.StringImm(value)
    if isinstance(value, Buffer) and not value.is_var:
        return value.access_ptr("rw")
    return E.as_expr(value)


def _hardware(name: str, needs: str, *args: Any, **options: Any) -> None:
    operands = tuple(_operand(arg) for arg in args if arg is not None)
    pairs = tuple(sorted((k, v) for k, v in options.items() if isinstance(v, (int, str, bool))))
    emitter(f"T.{name}").emit(
        S.HardwareOp(name=name, needs=needs, args=operands, options=pairs)
    )


def _barrier(mbarrier: Any, what: str) -> E.Expr:
    """The address of a barrier: an element, a buffer (its first), or an index."""
    if isinstance(mbarrier, Buffer):
        return E.AddressOf(mbarrier, (E.const(0),) * mbarrier.ndim, "rw")
    if isinstance(mbarrier, E.Load):
        return E.AddressOf(mbarrier.buffer, mbarrier.indices, "rw")
    if isinstance(mbarrier, E.AddressOf):
        return mbarrier
    if isinstance(mbarrier, (int, E.Expr)):
        return get_mbarrier(mbarrier)
    raise TileTypeError(
        f"{what}: the argument `mbarrier` is not a barrier",
        expected="an element of T.alloc_barrier, e.g. bar[0]",
        got=f"{type(mbarrier).__name__} {mbarrier!r}"[:80],
    )


def get_mbarrier(barrier_id: Any) -> E.Expr:
    """The barrier with an index among those of ``T.create_list_of_mbarrier``."""
    find = getattr(emitter("T.get_mbarrier"), "barriers", None)
    buffer = find() if find is not None else None
    if buffer is None:
        raise TileTypeError(
            "a barrier is named by an index, but no list of barriers was made",
            expected="an element of T.alloc_barrier, e.g. bar[0]",
            got=repr(barrier_id)[:60],
            hint="make barriers with bar = T.alloc_barrier([...]) and pass bar[i]",
        )
    return E.AddressOf(buffer, (E.as_expr(barrier_id),), "rw")


# -- order of asynchronous copies and products ----------------------------------------------------
def _ordering(name: str, doc: str) -> Callable[..., None]:
    def function(*args: Any, **options: Any) -> None:
        _run(name, *(arg for arg in args if isinstance(arg, (int, E.Expr))))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def fence_proxy_async(*args: Any) -> None:
    """Order ordinary writes before asynchronous reads of shared memory."""
    _run("fence_proxy_async")


def tma_store_arrive(*args: Any) -> None:
    """Commit the bulk stores issued so far as a group."""
    _run("tma_store_arrive")


def tma_store_wait(*args: Any, **options: Any) -> None:
    """Wait for bulk stores; ``count`` groups may stay outstanding."""
    _run("tma_store_wait")


def ptx_commit_group() -> None:
    """Commit the asynchronous copies issued so far as a group."""
    _run("ptx_commit_group")


def ptx_wait_group(num: Any) -> None:
    """Wait until at most ``num`` groups of copies are outstanding."""
    _run("ptx_wait_group", num)


def warpgroup_arrive() -> None:
    """Order register accesses before asynchronous products (sm_90)."""
    _run("warpgroup_arrive")


def warpgroup_commit_batch() -> None:
    """Commit the asynchronous products issued so far (sm_90)."""
    _run("warpgroup_commit_batch")


def warpgroup_wait(num_mma: int) -> None:
    """Wait until at most ``num_mma`` batches are outstanding (sm_90)."""
    _run("warpgroup_wait", num_mma)


def wait_wgmma(id: int) -> None:
    """Wait until at most ``id`` asynchronous products are outstanding (sm_90)."""
    _run("wait_wgmma", id)


def warpgroup_fence_operand(
    buffer_or_ptr: Any, offset: Any = 0, num_regs: Any = None, dtype: Any = None
) -> None:
    """Keep the registers of an operand from being moved across asynchronous products."""
    _run("warpgroup_fence_operand")


def pdl_trigger() -> None:
    """Allow the next kernel of the stream to start (a hint)."""
    _run("pdl_trigger")


def pdl_sync() -> None:
    """Wait for the previous kernel of the stream (given by stream order)."""
    _run("pdl_sync")


def ptx_fence_barrier_init() -> None:
    """Make initialised barriers visible to the cluster."""
    _run("ptx_fence_barrier_init")


# -- register budgets: hints ------------------------------------------------------------------------
def set_max_nreg(reg_count: int, is_inc: int) -> None:
    """Raise (``is_inc``) or lower the registers of the warpgroup (sm_90)."""
    if not isinstance(reg_count, int) or not 24 <= reg_count <= 256 or reg_count % 8:
        raise TileValueError(
            f"T.set_max_nreg: {reg_count!r} registers",
            expected="a multiple of 8 from 24 to 256",
            got=repr(reg_count),
        )
    _run("set_max_nreg", reg_count, int(is_inc))


def inc_max_nreg(reg_count: int) -> None:
    """Raise the registers of the warpgroup."""
    set_max_nreg(reg_count, 1)


def dec_max_nreg(reg_count: int) -> None:
    """Lower the registers of the warpgroup."""
    set_max_nreg(reg_count, 0)


def annotate_producer_reg_dealloc(reg_count: int = 24) -> None:
    """Registers that a producer gives back."""
    _run("annotate_producer_reg_dealloc", reg_count)


def annotate_consumer_reg_alloc(reg_count: int = 240) -> None:
    """Registers that a consumer takes."""
    _run("annotate_consumer_reg_alloc", reg_count)


def no_set_max_nreg() -> None:
    """Leave the register budgets alone."""
    _run("no_set_max_nreg")


def disable_warp_group_reg_alloc() -> None:
    """Leave the register budgets of warpgroups alone."""
    _run("disable_warp_group_reg_alloc")


# -- barriers ------------------------------------------------------------------------------------------
def sync_threads(barrier_id: Any = None, arrive_count: Any = None) -> None:
    """Wait for all threads of the block, or for ``arrive_count`` threads at a named barrier."""
    args = [arg for arg in (barrier_id, arrive_count) if arg is not None]
    _run("sync_threads", *args)


def sync_warp(mask: Any = None) -> None:
    """Wait for the lanes of the warp."""
    _run("sync_warp", *([] if mask is None else [mask]))


def sync_grid() -> None:
    """Wait for all blocks (a cooperative launch)."""
    _run("sync_grid")


def sync_global() -> None:
    """Wait for all blocks and make global writes visible."""
    _run("sync_grid")


def named_barrier_arrive(barrier_id: Any, thread_count: Any) -> None:
    """Arrive at a named barrier without waiting."""
    _run("named_barrier_arrive", barrier_id, thread_count)


def barrier_arrive(mbarrier: Any) -> None:
    """Each executing thread arrives once."""
    _run("mbarrier_arrive", _barrier(mbarrier, "T.barrier_arrive"))


def mbarrier_arrive(mbarrier: Any, cta_id: Any = None) -> None:
    """Each executing thread arrives once, at the barrier of block ``cta_id`` of the cluster."""
    extra = [] if cta_id is None else [cta_id]
    _run("mbarrier_arrive", _barrier(mbarrier, "T.mbarrier_arrive"), *extra)


def ptx_arrive_cluster_barrier(mbarrier: Any, cta_id: Any) -> None:
    """Arrive at the barrier of another block of the cluster."""
    mbarrier_arrive(mbarrier, cta_id)


def barrier_wait(mbarrier: Any, parity: Any) -> None:
    """Wait until the phase of this parity is complete; parity 1 passes on a fresh barrier."""
    _run("mbarrier_wait", _barrier(mbarrier, "T.barrier_wait"), parity)


def mbarrier_wait_parity(mbarrier: Any, parity: Any) -> None:
    """Same as :func:`barrier_wait`."""
    _run("mbarrier_wait", _barrier(mbarrier, "T.mbarrier_wait_parity"), parity)


def mbarrier_expect_tx(mbarrier: Any, tx: Any) -> None:
    """Expect ``tx`` more bytes of asynchronous copies in the current phase."""
    _run("mbarrier_expect_tx", _barrier(mbarrier, "T.mbarrier_expect_tx"), tx)


def mbarrier_arrive_expect_tx(mbarrier: Any, tx: Any) -> None:
    """Expect ``tx`` bytes and arrive."""
    _run("mbarrier_arrive_expect_tx", _barrier(mbarrier, "T.mbarrier_arrive_expect_tx"), tx)


def cp_async_barrier_noinc(barrier: Any) -> None:
    """Let the barrier track the thread's earlier asynchronous copies."""
    _run("cp_async_barrier_noinc", _barrier(barrier, "T.cp_async_barrier_noinc"))


# -- who am I ---------------------------------------------------------------------------------------------
def _size(value: Any, default: int) -> Any:
    return default if value is None else value


def get_lane_idx(warp_size: Any = None) -> E.Expr:
    """Lane in the warp."""
    return emitter("T.get_lane_idx").thread_index() % _size(warp_size, 32)


def get_warp_idx(warp_size: Any = None) -> E.Expr:
    """Warp in the block."""
    return emitter("T.get_warp_idx").thread_index() // _size(warp_size, 32)


def get_warp_idx_sync(warp_size: Any = None) -> E.Expr:
    """Warp in the block, the same for all its lanes."""
    return get_warp_idx(warp_size)


def get_warp_group_idx(warp_size: Any = None, warps_per_group: Any = None) -> E.Expr:
    """Warpgroup in the block."""
    index = emitter("T.get_warp_group_idx").thread_index()
    return index // (_size(warp_size, 32) * _size(warps_per_group, 4))


def shuffle_elect(thread_extent: int) -> E.Expr:
    """True in one thread of each ``thread_extent`` threads (0: of the block)."""
    index = emitter("T.shuffle_elect").thread_index()
    return index == 0 if thread_extent == 0 else index % thread_extent == 0


# -- exchange inside a warp ------------------------------------------------------------------------------------
def _shuffle(kind: str, value: Any, lane: Any, width: Any, mask: Any) -> E.Expr:
    source = E.as_expr(value)
    found = E.as_expr(lane)
    return E.Call(
        f"shfl_{kind}",
        (source, found, E.as_expr(32 if width is None else width), E.as_expr(mask, "uint32")),
        source.dtype,
    )


def shfl_xor(value: Any, delta: Any = None, width: Any = 32, mask: Any = FULL_MASK, *,
             offset: Any = None) -> E.Expr:  # fmt: skip
    """The value of lane ``lane ^ delta``."""
    return _shuffle("xor", value, delta if offset is None else offset, width, mask)


def shfl_down(value: Any, delta: Any = None, width: Any = 32, mask: Any = FULL_MASK, *,
              offset: Any = None) -> E.Expr:  # fmt: skip
    """The value of lane ``lane + delta``."""
    return _shuffle("down", value, delta if offset is None else offset, width, mask)


def shfl_up(value: Any, delta: Any = None, width: Any = 32, mask: Any = FULL_MASK, *,
            offset: Any = None) -> E.Expr:  # fmt: skip
    """The value of lane ``lane - delta``."""
    return _shuffle("up", value, delta if offset is None else offset, width, mask)


def shfl_sync(value: Any = None, srcLane: Any = None, width: Any = None, mask: Any = None, *more: Any,
              **_: Any) -> E.Expr:  # fmt: skip
    """The value of lane ``srcLane``: ``(value, srcLane, width, mask)``, or the older
    ``(mask, value, srcLane, width)``, told apart by a constant mask of all ones in front."""
    first = value.value if isinstance(value, E.Const) else value
    if isinstance(first, int) and first in (FULL_MASK, -1) and width is not None:
        value, srcLane, width, mask = srcLane, width, mask, value
    return _shuffle("sync", value, srcLane, width, FULL_MASK if mask is None else mask)


def _warp_reduce(op: str) -> Callable[[Any], E.Expr]:
    def function(value: Any) -> E.Expr:
        return E.call(f"warp_reduce_{op}", value)

    function.__name__ = function.__qualname__ = f"warp_reduce_{op}"
    function.__doc__ = f"The {op} over the lanes of the warp, in every lane."
    return function


warp_reduce_sum, warp_reduce_max = _warp_reduce("sum"), _warp_reduce("max")
warp_reduce_min, warp_reduce_bitand = _warp_reduce("min"), _warp_reduce("bitand")
warp_reduce_bitor = _warp_reduce("bitor")


def _vote(op: str, doc: str) -> Callable[..., E.Expr]:
    def function(predicate: Any, mask: Any = FULL_MASK) -> E.Expr:
        return E.call(op, predicate, E.as_expr(mask, "uint32"))

    function.__name__ = function.__qualname__ = op
    function.__doc__ = doc
    return function


any_sync = _vote("any_sync", "Whether the predicate holds in some lane of ``mask``.")
all_sync = _vote("all_sync", "Whether the predicate holds in all lanes of ``mask``.")
ballot_sync = _vote("ballot_sync", "One bit per lane of ``mask`` where the predicate holds.")
match_any_sync = _vote("match_any_sync", "The lanes that hold the same value.")
match_all_sync = _vote("match_all_sync", "``mask`` if all its lanes hold the same value, else 0.")


def ballot(predicate: Any) -> E.Expr:
    """One bit per lane where the predicate holds."""
    return E.call("ballot", predicate)


def activemask() -> E.Expr:
    """The lanes that execute together."""
    return E.call("activemask")


def syncthreads_count(predicate: Any) -> E.Expr:
    """Barrier of the block; the number of threads for which the predicate holds."""
    return E.call("syncthreads_count", predicate)


def syncthreads_and(predicate: Any) -> E.Expr:
    """Barrier of the block; whether the predicate holds for all threads."""
    return E.call("syncthreads_and", predicate)


def syncthreads_or(predicate: Any) -> E.Expr:
    """Barrier of the block; whether the predicate holds for some thread."""
    return E.call("syncthreads_or", predicate)


# -- loads and stores of words --------------------------------------------------------------------------------
def _wide_load(bits: int, space: str) -> Callable[..., E.Expr]:
    name = f"{space}{bits}"

    def function(src: Any, pred: Any = None) -> E.Expr:
        region = region_of(src, f"T.{name}", "src")
        address = E.AddressOf(region.buffer, region.mins, "r")
        lanes = bits // 32
        kind = DType("uint32") if lanes == 1 else DType("uint32").with_lanes(lanes)
        args = (address,) if pred is None else (address, E.as_expr(pred))
        return E.Call("wide_load", args, kind, (("bits", bits), ("space", space)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{bits} bits from the address as uint32 lanes; 0 where ``pred`` is false."
    return function


def _wide_store(bits: int, space: str) -> Callable[..., None]:
    name = f"{space}{bits}"

    def function(dst: Any, value: Any, pred: Any = None) -> None:
        region = region_of(dst, f"T.{name}", "dst")
        address = E.AddressOf(region.buffer, region.mins, "w")
        args = [address, E.as_expr(value)]
        if pred is not None:
            args.append(E.as_expr(pred))
        call = E.Call("wide_store", tuple(args), DType("void"), (("bits", bits), ("space", space)))
        emitter(f"T.{name}").emit(S.Eval(value=call))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{bits} bits of uint32 lanes to the address, where ``pred`` holds."
    return function


ldg32, ldg64, ldg128, ldg256 = (_wide_load(n, "ldg") for n in (32, 64, 128, 256))
stg32, stg64, stg128, stg256 = (_wide_store(n, "stg") for n in (32, 64, 128, 256))
lds32, lds64, lds128 = (_wide_load(n, "lds") for n in (32, 64, 128))
sts32, sts64, sts128 = (_wide_store(n, "sts") for n in (32, 64, 128))


def __ldg(load_or_buf: Any, index: Any = None) -> E.Expr:
    """A load through the read-only cache."""
    if isinstance(load_or_buf, Buffer):
        return load_or_buf[0 if index is None else index]  # type: ignore[no-any-return]  # element
    return E.as_expr(load_or_buf)


def __ffs(value: Any) -> E.Expr:
    """Position of the lowest set bit plus one, 0 for 0."""
    return E.call("ffs", value)


def __fns(mask: Any, base: Any, offset: Any) -> E.Expr:
    """Position of the ``offset``-th set bit of ``mask`` from ``base``, all ones if there is none."""
    return E.call("fns", E.as_expr(mask, "int32"), E.as_expr(base, "int32"), E.as_expr(offset, "int32"))


# -- raw instructions ------------------------------------------------------------------------------------------
def create_tma_descriptor(*args: Any) -> E.Expr:
    """A descriptor of a tensor for the copy engine (sm_90)."""
    operands = tuple(_operand(arg) for arg in args)
    return E.Call("create_tma_descriptor", operands, DType("handle"))


def tma_load(*args: Any) -> None:
    """A bulk tensor load by descriptor (sm_90)."""
    _hardware("tma_load", "sm_90", *args)


def initialize_wgmma_descriptor(descriptor: Any, start_address: Any, layout_type_: int = 0,
                                leading_byte_offset: int = 0,
                                stride_byte_offset: int = 0) -> None:  # fmt: skip
    """Fill a descriptor of a shared-memory matrix (sm_90)."""
    _hardware(
        "initialize_wgmma_descriptor", "sm_90", descriptor, start_address,
        layout_type=layout_type_, leading_byte_offset=leading_byte_offset,
        stride_byte_offset=stride_byte_offset,
    )  # fmt: skip


def initialize_tcgen05_descriptor(descriptor: Any, start_address: Any, leading_byte_offset: int,
                                  stride_byte_offset: int, base_offset: int = 0,
                                  leading_is_absolute: bool = False,
                                  swizzle_mode: int = 0) -> None:  # fmt: skip
    """Fill a descriptor of a shared-memory matrix (sm_100)."""
    _hardware(
        "initialize_tcgen05_descriptor", "sm_100", descriptor, start_address,
        leading_byte_offset=leading_byte_offset, stride_byte_offset=stride_byte_offset,
        base_offset=base_offset, leading_is_absolute=leading_is_absolute, swizzle=swizzle_mode,
    )  # fmt: skip


def increase_descriptor_offset(descriptor: Any, offset: Any) -> None:
    """Move the start address of a descriptor."""
    _hardware("increase_descriptor_offset", "sm_90", descriptor, offset)


def tcgen05_mma_arrive(mbar: Any, arrive_2cta: bool = False) -> None:
    """Let a barrier track the tensor-memory products issued so far (sm_100)."""
    _hardware("tcgen05_mma_arrive", "sm_100", _barrier(mbar, "T.tcgen05_mma_arrive"))


def ptx_mma_sm70(shape: Any, A_layout: Any, B_layout: Any, A_dtype: Any, B_dtype: Any, C_dtype: Any,
                 multiplicand_a: Any, a_index: Any, multiplicand_b: Any, b_index: Any,
                 accumulator: Any, c_index: Any) -> None:  # fmt: skip
    """The m8n8k4 product of Volta."""
    _hardware(
        "ptx_mma_sm70", "sm_70", shape, A_layout, B_layout, str(A_dtype), str(B_dtype), str(C_dtype),
        multiplicand_a, a_index, multiplicand_b, b_index, accumulator, c_index,
    )  # fmt: skip


__all__ = sorted(
    name for name, value in globals().items()
    if callable(value)
    and (getattr(value, "__module__", "") == __name__ or value in (loop_break, access_ptr))
    and (not name.startswith("_") or name in ("__ldg", "__ffs", "__fns"))
)  # fmt: skip
