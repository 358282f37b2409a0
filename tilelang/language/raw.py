"""Words of single instructions of sm_90 and later: bulk tensor copies, clusters, tensor memory.

Each stands for one instruction. The program itself orders what they do: no barrier is inserted
for what they read and write. They trace and print everywhere and run where their rows say
(``target/nvidia.py``).
"""

from __future__ import annotations

from tilelang.errors import TileTypeError, TileValueError
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import AddressOf, Call, Expr, Load, StringImm, as_expr, call
from tilelang.language.regions import (
    address_of_operand,
    cast_to,
    constant_int,
    describe,
    emit_call,
    pairs,
    scalar,
)
from tilelang.target import nvidia

__all__ = [
    "create_tma_descriptor",
    "create_tma_im2col_descriptor",
    "elect_one",
    "map_shared_rank",
    "mbarrier_try_wait",
    "prefetch_tma_descriptor",
    "ptx_stmatrix",
    "tcgen05_cp",
    "tcgen05_ld",
    "tcgen05_st",
    "tcgen05_wait_ld",
    "tcgen05_wait_st",
    "tma_load",
    "tma_load_im2col",
    "tma_load_multicast",
    "tma_store",
]

EVICTION = ("evict_normal", "evict_first", "evict_last")
REDUCTIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


def operand(value: object, what: str = "a raw instruction") -> Expr:
    """An argument of a raw instruction: text, a number, a value, or the address of a buffer."""
    if isinstance(value, str):
        return StringImm(value)
    if isinstance(value, Region) or (isinstance(value, Buffer) and not value.is_var):
        return address_of_operand(value, what)
    return as_expr(value)


def _address(value: object, what: str) -> Expr:
    """A place in memory: elements count as their addresses, pointers as they are."""
    if isinstance(value, (Buffer, Region, Load)):
        return address_of_operand(value, what)
    return as_expr(value)


# -- tensor maps -----------------------------------------------------------------------------------
def create_tma_descriptor(*args: object) -> Expr:
    """A tensor map, which the host encodes before the kernel starts.

    Args:
        args: data type (a value of CUtensorMapDataType), rank, address, then for each dimension,
            innermost first, extents, strides in bytes, extents of the box, element strides; then
            interleave, swizzle, L2 promotion and fill (values of the driver's enums).
    """
    return _map("create_tma_descriptor", args)


def create_tma_im2col_descriptor(*args: object) -> Expr:
    """A tensor map whose loads gather the pixels of a convolution.

    Args:
        args: data type, rank, address, extents, strides in bytes, element strides, lower and upper
            corners of the spatial dimensions, pixels and channels of a load, then interleave,
            swizzle, L2 promotion and fill.
    """
    return _map("create_tma_im2col_descriptor", args)


def _map(name: str, args: tuple[object, ...]) -> Expr:
    what = f"T.{name}"
    if len(args) < 3:
        raise TileTypeError(
            f"{what} with {len(args)} arguments",
            expected="data type, rank, address, ...",
            got=f"{len(args)} arguments",
        )
    head = [operand(arg, what) for arg in args[:2]]
    tail = [operand(arg, what) for arg in args[3:]]
    return call(nvidia.ATOMS[name], *head, _address(args[2], what), *tail)


def prefetch_tma_descriptor(descriptor: object) -> Call:
    """Fetch a tensor map before it is needed."""
    return emit_call("T.prefetch_tma_descriptor", "prefetch_tma_descriptor", operand(descriptor))


def _copied(name: str, args: tuple[object, ...], places: str, options: dict[str, object]) -> Call:
    """Emit a bulk copy. ``places``: what the first arguments are, a letter each: "d" a map, "b" a
    barrier, "s" shared memory, "m" a mask."""
    from tilelang.language.sync import barrier_address

    what = f"T.{name}"
    if len(args) <= len(places):
        raise TileTypeError(
            f"{what} without coordinates",
            expected=f"at least {len(places) + 1} arguments",
            got=f"{len(args)} arguments",
        )
    policy = options.get("eviction_policy")
    if policy is not None and policy not in EVICTION:
        raise TileValueError(
            f"{what} with an unknown eviction policy",
            expected=", ".join(EVICTION),
            got=describe(policy),
        )
    made: list[Expr] = []
    for kind, arg in zip(places, args):
        if kind == "b":
            made.append(barrier_address(arg, what))
        elif kind == "s":
            made.append(_address(arg, what))
        else:
            made.append(operand(arg, what))
    made += [scalar(arg, what, "coordinate") for arg in args[len(places) :]]
    given = {key: value for key, value in options.items() if value is not None}
    return emit_call(what, name, *made, **dict(pairs(**given)))


def tma_load(*args: object, eviction_policy: str | None = None) -> Call:
    """Load a box of a tensor: ``T.tma_load(descriptor, barrier, shared, *coordinates)``.

    The barrier counts the bytes of the whole box; what lies outside of the tensor becomes 0.
    Coordinates count elements, innermost dimension first. A last argument more than the rank of
    the descriptor is an eviction policy (0 normal, 1 first, 2 last).
    """
    return _copied("tma_load", args, "dbs", {"eviction_policy": eviction_policy})


def tma_load_multicast(*args: object, eviction_policy: str | None = None) -> Call:
    """Load a box into the same place of several blocks of the cluster:
    ``T.tma_load_multicast(descriptor, barrier, shared, blocks, *coordinates)``, where ``blocks``
    has a bit for each rank."""
    return _copied("tma_load_multicast", args, "dbsm", {"eviction_policy": eviction_policy})


def tma_load_im2col(*args: object, eviction_policy: str | None = None) -> Call:
    """Load pixels of a convolution: ``T.tma_load_im2col(descriptor, barrier, shared,
    *coordinates, *offsets)`` with one offset for each spatial dimension."""
    return _copied("tma_load_im2col", args, "dbs", {"eviction_policy": eviction_policy})


def tma_store(*args: object, reduce: str | None = None, eviction_policy: str | None = None) -> Call:
    """Store a box: ``T.tma_store(descriptor, shared, *coordinates)``.

    Args:
        reduce: combine with what is there: add, min, max, inc, dec, and, or, xor.

    ``T.tma_store_arrive`` and ``T.tma_store_wait`` tell when it is done.
    """
    if reduce is not None and reduce not in REDUCTIONS:
        raise TileValueError(
            "T.tma_store with an unknown reduction",
            expected=", ".join(REDUCTIONS),
            got=describe(reduce),
        )
    return _copied("tma_store", args, "ds", {"reduce": reduce, "eviction_policy": eviction_policy})


# -- warps, barriers, clusters ---------------------------------------------------------------------
def elect_one() -> Expr:
    """True in one lane of the warp, which all its lanes ask."""
    return call(nvidia.ATOMS["elect_one"])


def mbarrier_try_wait(mbarrier: object, parity: object) -> Expr:
    """Whether the phase with that parity is complete; it may wait a little."""
    from tilelang.language.sync import barrier_address

    what = "T.mbarrier_try_wait"
    phase = cast_to(scalar(parity, what, "parity"), DType("int32"))
    return call(nvidia.ATOMS["mbarrier_try_wait"], barrier_address(mbarrier, what), phase)


def map_shared_rank(place: object, block: object) -> Expr:
    """A pointer to the same place in the shared memory of block ``block`` of the cluster."""
    what = "T.map_shared_rank"
    return call(
        nvidia.ATOMS["map_shared_rank"], _address(place, what), scalar(block, what, "block")
    )


def ptx_stmatrix(*args: object) -> None:
    """Store 8 x 8 matrices to shared memory, the reverse of ``T.ptx_ldmatrix``:
    ``T.ptx_stmatrix(trans, count, shared, offset, registers, offset)``."""
    emit_call("T.ptx_stmatrix", "ptx_stmatrix", *(operand(arg) for arg in args))


# -- tensor memory ---------------------------------------------------------------------------------
SHAPES = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4}  # registers of a thread for x1
SOURCES = (
    "128x256b", "4x256b", "128x128b", "64x128b_warpx2_02_13", "64x128b_warpx2_01_23",
    "32x128b_warpx4",
)  # fmt: skip


def _move(name: str, registers: object, place: object, shape: str, count: int) -> Call:
    what = f"T.{name}"
    repeats = constant_int(count, what, "count")
    most = 128 // SHAPES.get(shape, 1)
    if shape not in SHAPES or repeats < 1 or repeats > most or repeats & (repeats - 1):
        raise TileValueError(
            f"{what} of a form that does not exist",
            expected="a shape of " + ", ".join(SHAPES) + f" and a power of two up to {most}",
            got=f"{shape} x {repeats}",
        )
    access = "w" if name == "tcgen05_ld" else "r"
    where = address_of_operand(registers, what, access)
    return emit_call(what, name, where, _tensor_place(place, what), shape=shape, count=repeats)


def _tensor_place(place: object, what: str) -> Expr:
    found = _address(place, what)
    if isinstance(found, AddressOf) and found.buffer.storage != "shared.tmem":
        raise TileTypeError(
            f"{what} of something that is not tensor memory",
            expected="a buffer made by T.alloc_tmem",
            got=describe(place),
        )
    return found


def tcgen05_ld(registers: object, place: object, shape: str = "32x32b", count: int = 1) -> Call:
    """Load from tensor memory to registers of a warp; done after ``T.tcgen05_wait_ld``.

    Args:
        registers: where the 32-bit registers of the thread start.
        place: an element of tensor memory, or a buffer of it.
        shape, count: of the instruction, e.g. ``"32x32b"`` and 8 for ``.32x32b.x8``.
    """
    return _move("tcgen05_ld", registers, place, shape, count)


def tcgen05_st(place: object, registers: object, shape: str = "32x32b", count: int = 1) -> Call:
    """Store registers of a warp to tensor memory; done after ``T.tcgen05_wait_st``."""
    return _move("tcgen05_st", registers, place, shape, count)


def tcgen05_wait_ld() -> Call:
    """Wait for the loads from tensor memory of this thread."""
    return emit_call("T.tcgen05_wait_ld", "tcgen05_wait_ld")


def tcgen05_wait_st() -> Call:
    """Wait for the stores to tensor memory of this thread."""
    return emit_call("T.tcgen05_wait_st", "tcgen05_wait_st")


def tcgen05_cp(descriptor: object, place: object, shape: str = "128x256b") -> Call:
    """Copy from shared memory, by descriptor, to tensor memory."""
    what = "T.tcgen05_cp"
    if shape not in SOURCES:
        raise TileValueError(
            f"{what} of a shape that does not exist", expected=", ".join(SOURCES), got=repr(shape)
        )
    return emit_call(
        what, "tcgen05_cp", operand(descriptor), _tensor_place(place, what), shape=shape
    )
