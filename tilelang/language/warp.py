"""Warp shuffles, votes, reductions, and indices of lanes and warps.

A warp has 32 lanes on every target. All lanes of the mask execute the call; by default these are
all lanes of the warp. Masks have a bit for each lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilelang.errors import TileTypeError, TileUnsupportedError, TileValueError
from tilelang.frontend import regions
from tilelang.ir.buffer import Region, is_same_extent
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.emitter import emitter
from tilelang.ir.expr import Binary, Call, Const, Expr, RegionArg, Var, as_expr, binary, call
from tilelang.ir.lanes import WARP
from tilelang.ir.stmt import Store
from tilelang.ir.tables import portable
from tilelang.language.constants import named
from tilelang.records import dataclass
from tilelang.tracebacks import borders

__all__ = [
    "CommReducer", "activemask", "all_of", "all_sync", "any_of", "any_sync", "ballot",
    "ballot_sync", "comm_reducer", "get_lane_idx", "get_warp_group_idx", "get_warp_idx",
    "get_warp_idx_sync", "match_all_sync", "match_any_sync", "shfl_down", "shfl_sync", "shfl_up",
    "shfl_xor", "shuffle_elect", "syncthreads_and", "syncthreads_count", "syncthreads_or",
    "tvm_thread_allreduce", "tvm_warp_activemask", "tvm_warp_shuffle", "tvm_warp_shuffle_down",
    "tvm_warp_shuffle_up", "warp_reduce_bitand", "warp_reduce_bitor", "warp_reduce_max",
    "warp_reduce_min", "warp_reduce_sum",
]  # fmt: skip

FULL_MASK = 0xFFFFFFFF


def _is_full_mask(value: object) -> bool:
    mask_value = value.value if isinstance(value, Const) else value
    return type(mask_value) is int and mask_value in (FULL_MASK, -1)


def _check_order(op_name: str, value: object, mask: object, call: str) -> None:
    """CUDA names the mask first, most functions here last."""
    if not isinstance(mask, Expr) or isinstance(mask, Const):
        return
    if mask.dtype.is_bool or _is_full_mask(value):
        raise TileTypeError(
            f"{op_name} with the mask first",
            expected=call,
            got=f"{op_name}({value!r}, {mask!r})",
            hint="the mask of all lanes may be left out",
        )


def _shuffle(kind: str, value: object, delta: object, width: object, mask: object) -> Expr:
    op = f"T.shfl_{kind}"
    if kind != "sync":
        _check_order(op, value, delta, f"{op}(value, delta, width=32, mask=0xFFFFFFFF)")
    if delta is None:
        raise TileTypeError(
            f"{op} without a distance", expected=f"{op}(value, delta)", got=f"{op}(value)"
        )
    known = width.value if isinstance(width, Const) else width
    if isinstance(known, (int, float)) and known not in (1, 2, 4, 8, 16, WARP):
        raise TileValueError(
            f"the width of {op} is {known}",
            expected="a power of two from 1 to 32",
            got=str(known),
        )
    if known is not None:
        regions.integer(width, op, "width")
    step = regions.cast_to(regions.integer(delta, op, "distance"), DType("int32"))
    args = [regions.scalar(value, op, "value"), step]
    if (known is not None and known != WARP) or (mask is not None and not _is_full_mask(mask)):
        args.append(as_expr(WARP if known is None else width))
    if mask is not None and not _is_full_mask(mask):
        args.append(regions.cast_to(regions.integer(mask, op, "mask"), DType("uint32")))
    return call(f"shfl_{kind}", *args)


def shfl_xor(
    value: object, delta: object = None, width: object = WARP, mask: object = None,
    *, offset: object = None,
) -> Expr:  # fmt: skip
    """Return ``value`` of the lane whose index is this lane's, xor ``delta``.

    Args:
        value: the value of this lane.
        delta: the distance in lanes; ``offset`` is the same.
        width: lanes of a group that exchanges values; a power of two from 1 to 32.
        mask: a bit for each participating lane; all lanes by default.

    Raises:
        TileTypeError: no distance, the mask in front, or an argument that is not an integer.
        TileValueError: another width.

    Source: PTX ISA, "shfl.sync".
    """
    return _shuffle("xor", value, offset if delta is None else delta, width, mask)


def shfl_down(
    value: object, delta: object = None, width: object = WARP, mask: object = None,
    *, offset: object = None,
) -> Expr:  # fmt: skip
    """Return ``value`` of the lane ``delta`` higher; past the end, this lane's own value.

    Args:
        value: the value of this lane.
        delta: the distance in lanes; ``offset`` is the same.
        width: lanes of a group that exchanges values; a power of two from 1 to 32.
        mask: a bit for each participating lane; all lanes by default.

    Raises:
        TileTypeError: no distance, the mask in front, or an argument that is not an integer.
        TileValueError: another width.

    Source: PTX ISA, "shfl.sync".
    """
    return _shuffle("down", value, offset if delta is None else delta, width, mask)


def shfl_up(
    value: object, delta: object = None, width: object = WARP, mask: object = None,
    *, offset: object = None,
) -> Expr:  # fmt: skip
    """Return ``value`` of the lane ``delta`` lower; before the start, this lane's own value.

    Args:
        value: the value of this lane.
        delta: the distance in lanes; ``offset`` is the same.
        width: lanes of a group that exchanges values; a power of two from 1 to 32.
        mask: a bit for each participating lane; all lanes by default.

    Raises:
        TileTypeError: no distance, the mask in front, or an argument that is not an integer.
        TileValueError: another width.

    Source: PTX ISA, "shfl.sync".
    """
    return _shuffle("up", value, offset if delta is None else delta, width, mask)


def shfl_sync(
    *args: object, mask: object = None, value: object = None, srcLane: object = None,
    width: object = None,
) -> Expr:  # fmt: skip
    """Return ``value`` of the lane ``srcLane``.

    Write ``T.shfl_sync(mask, value, srcLane, width=None)``, or ``T.shfl_sync(value, srcLane)`` for
    all lanes of the warp.

    Args:
        args: the arguments by position.
        mask: a bit for each participating lane; an integer, which may be a run-time value.
        value, srcLane: the value of this lane, and the lane whose value is returned.
        width: lanes of a group that exchanges values; a power of two from 1 to 32.

    Two positional arguments are ``value`` and ``srcLane``; with more, the mask comes first.

    Raises:
        TileTypeError: a missing argument, too many, or one that is not an integer.
        TileValueError: another width.

    Source: PTX ISA, "shfl.sync".
    """
    arguments = {"mask": mask, "value": value, "srcLane": srcLane, "width": width}
    order = [name for name in ("value", "srcLane") if arguments[name] is None]
    if len(args) > len(order):
        order = [name for name in arguments if arguments[name] is None]
    if len(args) > len(order):
        raise TileTypeError(
            "T.shfl_sync with too many arguments",
            expected="(mask, value, srcLane, width=None), or (value, srcLane)",
            got=f"{len(args)} arguments without names",
        )
    arguments.update(zip(order, args))
    missing = [name for name in ("value", "srcLane") if arguments[name] is None]
    if missing:
        raise TileTypeError(
            f"T.shfl_sync without {' and '.join(missing)}",
            expected="(mask, value, srcLane, width=None), or (value, srcLane)",
        )
    lane_mask = arguments["mask"]
    lanes = None if lane_mask is None else regions.scalar(lane_mask, "T.shfl_sync", "mask")
    if lanes is not None and not lanes.dtype.is_integer:
        raise TileTypeError(
            "the mask of T.shfl_sync is not an integer",
            expected="T.shfl_sync(mask, value, srcLane, width), with a bit for each lane",
            got=f"`{lanes!r}` of dtype {lanes.dtype}",
            hint="give the width by name: T.shfl_sync(value, srcLane, width=8)",
        )
    groups = WARP if arguments["width"] is None else arguments["width"]
    return _shuffle("sync", arguments["value"], arguments["srcLane"], groups, lanes)


def tvm_warp_shuffle(
    mask: object, value: object, warp_id: object, width: object, warp_size: object = WARP
) -> Expr:
    """Shuffle as :func:`shfl_sync`, in TVM's order of arguments.

    Args:
        mask, value, width: as for :func:`shfl_sync`.
        warp_id: the lane whose value is returned.
        warp_size: accepted; a warp has 32 lanes.
    """
    return _shuffle("sync", value, warp_id, width, _own_mask(mask))


def tvm_warp_shuffle_up(
    mask: object, value: object, offset: object, width: object, warp_size: object = WARP
) -> Expr:
    """Shuffle as :func:`shfl_up`, in TVM's order of arguments.

    Args:
        mask, value, width: as for :func:`shfl_up`.
        offset: the distance in lanes.
        warp_size: accepted; a warp has 32 lanes.
    """
    return _shuffle("up", value, offset, width, _own_mask(mask))


def tvm_warp_shuffle_down(
    mask: object, value: object, offset: object, width: object, warp_size: object = WARP
) -> Expr:
    """Shuffle as :func:`shfl_down`, in TVM's order of arguments.

    Args:
        mask, value, width: as for :func:`shfl_down`.
        offset: the distance in lanes.
        warp_size: accepted; a warp has 32 lanes.
    """
    return _shuffle("down", value, offset, width, _own_mask(mask))


def _own_mask(mask: object) -> object:
    """TVM's mask; that of ``tvm_warp_activemask`` means the executing lanes."""
    return None if isinstance(mask, Expr) and not isinstance(mask, Const) else mask


def activemask() -> Expr:
    """Return the mask of the active lanes of the warp, as uint32.

    Source: PTX ISA, "activemask".
    """
    return call("activemask")


tvm_warp_activemask = activemask


def _reduction(op: str) -> Callable[[object], Expr]:
    def function(value: object) -> Expr:
        read = regions.integer if op.startswith("bit") else regions.scalar
        return call(f"warp_reduce_{op}", read(value, f"T.warp_reduce_{op}", "value"))

    doc = f"""Reduce ``value`` over the warp's 32 lanes by ``{op}``, for all of them.

    Raises:
        TileTypeError: a bit operation on a float.
    """
    return named(function, f"warp_reduce_{op}", doc)


warp_reduce_sum, warp_reduce_max, warp_reduce_min = map(_reduction, ("sum", "max", "min"))
warp_reduce_bitand, warp_reduce_bitor = map(_reduction, ("bitand", "bitor"))


def _vote(op: str, value: object, mask: object = None) -> Expr:
    _check_order(f"T.{op}", value, mask, f"T.{op}(value, mask=0xFFFFFFFF)")
    expr = regions.scalar(value, f"T.{op}", "operand")
    if mask is None or _is_full_mask(mask):
        return call(op, expr)
    lanes = regions.integer(mask, f"T.{op}", "mask")
    return call(op, expr, regions.cast_to(lanes, DType("uint32")))


def any_sync(predicate: object, mask: object = FULL_MASK) -> Expr:
    """Return whether the predicate holds in some lane of the mask, as int32.

    Source: PTX ISA, "vote.sync", ``.any``.
    """
    return _vote("any_sync", predicate, mask)


def all_sync(predicate: object, mask: object = FULL_MASK) -> Expr:
    """Return whether the predicate holds in all lanes of the mask, as int32.

    Source: PTX ISA, "vote.sync", ``.all``.
    """
    return _vote("all_sync", predicate, mask)


def ballot_sync(predicate: object, mask: object = FULL_MASK) -> Expr:
    """Return the mask of the lanes in which the predicate holds, as uint32.

    Source: PTX ISA, "vote.sync", ``.ballot``.
    """
    return _vote("ballot_sync", predicate, mask)


def ballot(predicate: object) -> Expr:
    """Return the mask of the lanes in which the predicate holds, as uint64.

    Args:
        predicate: a condition; each lane has its own value.

    Source: PTX ISA, "vote.sync", ``.ballot``.
    """
    return _vote("ballot", predicate)


def match_any_sync(value: object, mask: object = FULL_MASK) -> Expr:
    """Return the mask of the lanes that have the same value, as uint32.

    Source: PTX ISA, "match.sync", ``.any``.
    """
    return _vote("match_any_sync", value, mask)


def match_all_sync(value: object, mask: object = FULL_MASK) -> Expr:
    """Return the mask if all its lanes have the same value, else 0, as uint32.

    Source: PTX ISA, "match.sync", ``.all``.
    """
    return _vote("match_all_sync", value, mask)


def syncthreads_count(predicate: object) -> Expr:
    """Wait for the block and return the number of threads with a true predicate, as int32.

    Source: PTX ISA, "barrier.red", ``.popc``.
    """
    return _vote("syncthreads_count", predicate)


def syncthreads_and(predicate: object) -> Expr:
    """Wait for the block and return whether the predicate holds in all threads, as int32.

    Source: PTX ISA, "barrier.red", ``.and``.
    """
    return _vote("syncthreads_and", predicate)


def syncthreads_or(predicate: object) -> Expr:
    """Wait for the block and return whether the predicate holds in some thread, as int32.

    Source: PTX ISA, "barrier.red", ``.or``.
    """
    return _vote("syncthreads_or", predicate)


# -- numbers of threads ---------------------------------------------------------------------------
def _positive(value: object, default: int, op: str) -> Any:
    if value is None:
        return default
    if isinstance(value, int) and value < 1:
        raise TileValueError(f"a size of {op} is {value}", expected="at least 1", got=str(value))
    regions.integer(value, op, "size")
    return value


def get_lane_idx(warp_size: object = None) -> Expr:
    """Return the index of the thread in its warp, from 0 to 31.

    Args:
        warp_size: threads of a warp, 32 by default.

    Raises:
        TileTypeError: a warp size that is not an integer.
        TileValueError: a warp size below 1.
    """
    op_name = "T.get_lane_idx"
    return binary("floormod", emitter(op_name).thread_index(), _positive(warp_size, WARP, op_name))


def get_warp_idx(warp_size: object = None) -> Expr:
    """Return the index of the thread's warp in the block.

    Args:
        warp_size: threads of a warp, 32 by default.

    Raises:
        TileTypeError: a warp size that is not an integer.
        TileValueError: a warp size below 1.
    """
    op_name = "T.get_warp_idx"
    return binary("floordiv", emitter(op_name).thread_index(), _positive(warp_size, WARP, op_name))


def get_warp_idx_sync(warp_size: object = None) -> Expr:
    """Return :func:`get_warp_idx` in a converged warp."""
    return get_warp_idx(warp_size)


def get_warp_group_idx(warp_size: object = None, warps_per_group: object = None) -> Expr:
    """Return the index of the thread's warpgroup (128 threads) in the block.

    Raises:
        TileTypeError: a size that is not an integer.
        TileValueError: a size is not positive.
    """
    op_name = "T.get_warp_group_idx"
    size = _positive(warp_size, WARP, op_name) * _positive(warps_per_group, 4, op_name)
    return binary("floordiv", emitter(op_name).thread_index(), size)


def shuffle_elect(thread_extent: int) -> Expr:
    """Return True in one thread of every ``thread_extent`` threads (0: of the block).

    Raises:
        TileValueError: a negative extent.

    Source: PTX ISA, "elect.sync".
    """
    count = regions.constant_int(thread_extent, "T.shuffle_elect", "thread extent")
    if count < 0:
        raise TileValueError(
            "the thread extent of T.shuffle_elect is negative", expected="0 or more", got=str(count)
        )
    return call("shuffle_elect", count)


# -- elements of a tile ----------------------------------------------------------------------------
def _region_test(op: str, buffer: object) -> Expr:
    op_name = f"T.{op}"
    region = regions.tile_of(buffer, op_name)
    regions.check_plain(region, op_name, "buffer")
    if region.scope() == "local.fragment":
        raise TileTypeError(
            f"{op_name} of a fragment",
            expected="a shared, local or global buffer",
            got=f"`{region.buffer.name}`",
            hint="T.copy it into shared memory first",
        )
    if not _is_contiguous(region):
        raise TileValueError(
            f"{op_name} of a region that is not contiguous",
            expected="a slice in the last dimension only, or whole trailing dimensions",
            got=f"`{region!r}`",
        )
    return call(op, RegionArg(region))


def _is_contiguous(region: Region) -> bool:
    partial = False
    for dim in reversed(range(len(region.extents))):
        if partial and not is_same_extent(region.extents[dim], 1):
            return False
        partial = partial or not is_same_extent(region.extents[dim], region.buffer.shape[dim])
    return region.buffer.strides is None


def any_of(buffer: object) -> Expr:
    """Return whether some element of a buffer or region is not 0.

    Args:
        buffer: a contiguous buffer or region in shared, local or global memory.

    Raises:
        TileTypeError: a fragment.
        TileValueError: a region that is not contiguous.
    """
    return _region_test("any_of", buffer)


def all_of(buffer: object) -> Expr:
    """Return whether all elements of a buffer or region are not 0.

    Args:
        buffer: a contiguous buffer or region in shared, local or global memory.

    Raises:
        TileTypeError: a fragment.
        TileValueError: a region that is not contiguous.
    """
    return _region_test("all_of", buffer)


# -- block reductions in TVM's form ----------------------------------------------------------------
@dataclass(frozen=True)
class CommReducer:
    """A commutative operation with its identity, made by :func:`comm_reducer`."""

    op: str
    identity: tuple[object, ...]


_COMBINERS = {
    "add": "sum", "mul": "mul", "max": "max", "min": "min",
    "bitand": "bitand", "bitor": "bitor", "bitxor": "bitxor",
}  # fmt: skip


def comm_reducer(
    combiner: Callable[[Any, Any], Any], identity: Sequence[object], name: str = "reduce"
) -> CommReducer:
    """Return the reduction that ``combiner`` describes.

    Args:
        combiner: a function of two values that returns their sum, product, maximum, minimum, or
            bitwise and, or, exclusive or.
        identity: the neutral element, or a sequence of one.
        name: accepted, without effect.

    Raises:
        TileTypeError: ``combiner`` is not a function.
        TileUnsupportedError: it returns something else.
    """
    if not callable(combiner):
        raise TileTypeError(
            "the combination of T.comm_reducer is not a function",
            expected="a function of two values, e.g. lambda x, y: x + y",
            got=regions.describe(combiner),
        )
    values = tuple(identity) if isinstance(identity, (list, tuple)) else (identity,)
    first = values[0] if values else 0
    kind = first.dtype if isinstance(first, Expr) else as_expr(first).dtype
    a, b = Var("x", kind), Var("y", kind)
    combined = combiner(a, b)
    known = isinstance(combined, Binary) and {id(combined.a), id(combined.b)} == {id(a), id(b)}
    if known and combined.op in _COMBINERS:
        return CommReducer(_COMBINERS[combined.op], values)
    raise TileUnsupportedError(
        "T.comm_reducer with an unknown combination",
        expected="lambda x, y: x + y, x * y, T.max(x, y), T.min(x, y), x & y, x | y or x ^ y",
        got=regions.describe(combined),
    )


def tvm_thread_allreduce(*freduce_args: Any, dtype: object = "handle") -> None:
    """Combine one value of every thread, with the reducer of the enclosing ``T.attr``.

    ``tvm_thread_allreduce(1, value, cond, out[0], thread_var)``: ``out`` gets the combination of
    ``value`` over the threads along ``thread_var`` for which ``cond`` holds.

    Raises:
        TileUnsupportedError: other arguments, or a ``thread_var`` that is not one launch index.
        TileValueError: no enclosing ``T.attr`` with a reducer.
    """
    from tilelang.frontend.ir_builder import builder

    op_name = "T.tvm_thread_allreduce"
    active = builder(op_name)
    if len(freduce_args) < 5 or regions.constant_int(freduce_args[0], op_name, "value count") != 1:
        raise TileUnsupportedError(
            f"{op_name} in this form",
            expected="(1, value, condition, out[0], thread variable)",
            got=f"{len(freduce_args)} arguments",
        )
    _, value, cond, out, *axes = freduce_args
    reducer = next(
        (block.note for block in reversed(active.blocks) if isinstance(block.note, CommReducer)),
        None,
    )
    if reducer is None:
        raise TileValueError(
            f"{op_name} outside a reduction",
            expected='an enclosing `with T.attr(T.comm_reducer(...), "reduce_scope", ...)`',
        )
    launch = active.kernel(op_name)
    dimensions = [
        i for i, var in enumerate(launch.thread_vars) if any(var is axis for axis in axes)
    ]
    if len(dimensions) != 1:
        raise TileUnsupportedError(
            f"{op_name} over something that is not one thread variable",
            expected="T.get_thread_binding(...) or a T.thread_binding loop variable",
            got=", ".join(regions.describe(axis) for axis in axes),
        )
    buffer, indices = regions.element_of(out, op_name, "result")
    expr = regions.scalar(value, op_name, "value")
    options = (("axis", dimensions[0]), ("op", reducer.op))
    total = Call(portable("thread_allreduce"), (expr, as_expr(cond)), expr.dtype, options)
    active.emit(Store(buffer=buffer, indices=indices, value=regions.cast_to(total, buffer.dtype)))


borders(globals(), __all__)
