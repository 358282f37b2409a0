"""Runs Thread IR for GPUs with numpy: the interpreter with the device instructions added.

All threads of a block run in step, every variable an array over threads. Instructions move bytes
with the alignment that hardware asks for; register layouts of the matrix instructions are written
out here from the PTX manual, on purpose without the tables of the compiler. Copies of ``cp.async``
become visible when they are waited for, no earlier. Shared accesses that no barrier orders are an
error (:mod:`thread_races`).
"""

from __future__ import annotations

import io
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
from sim_halves import HANDLERS as HALVES
from thread_races import RaceError, Races

from tilelang.interpret import barriers, calls, memory, pointers, values
from tilelang.interpret.analysis import PRIVATE
from tilelang.interpret.lanes import Active, Lanes
from tilelang.interpret.machine import Block, Run, Scope, Strand
from tilelang.interpret.memory import Memory
from tilelang.interpret.stmts import execute
from tilelang.interpret.sync import Wait, drive
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Call, Expr, Var

WARP = 32
NOTHING = np.int32(0)


def simulate(
    launch: S.Stmt,
    arrays: Mapping[Buffer, np.ndarray[Any, Any]],
    symbols: Mapping[Var, int] | None = None,
    *,
    safe_memory: bool = False,
    races: bool = True,
    stdout: Any = None,
) -> None:
    """Run all blocks of ``launch`` (or any statement around it) on ``arrays``, in place.

    Args:
        launch: a ``Launch`` in Thread IR.
        arrays: an array of storage elements for each global buffer (bfloat16 as uint16, ...).
        symbols: values of scalar parameters and of the symbols in shapes.
        safe_memory: apply the out-of-bounds rule to plain global loads and stores instead of
            raising; instructions that move several elements always raise.
        races: whether unordered shared accesses are an error.
        stdout: where prints go.
    """
    func = S.PrimFunc("kernel", tuple(arrays), launch)
    run = Run(func, safe_memory, True, None, io.StringIO() if stdout is None else stdout)
    host = Lanes(1)
    strand = Strand(Block(run, host, None, None), Scope(), host)
    with np.errstate(all="ignore"), _device(races):
        for var, number in (symbols or {}).items():
            strand.bind(var, values.constant(number, var.dtype))
        for buffer, array in arrays.items():
            pointers.bind_array(
                strand, buffer, pointers.storage_of(buffer, array, buffer.name), True
            )
        drive(execute(strand, launch, None))


# -- bytes behind addresses -------------------------------------------------------------------
def _members(s: Strand, active: Active) -> Any:
    return s.lanes.members(active)


@dataclass
class Spot:
    """The bytes that each lane addresses."""

    buffer: Buffer
    memory: Memory
    name: str
    base: Any  # (lanes,) position of the lane's own copy
    offset: Any  # (lanes,) byte within that copy

    @property
    def shared(self) -> bool:
        return self.buffer.storage.startswith("shared")


def spot_of(s: Strand, expr: Expr, active: Active) -> Spot:
    """Where an address operand points, per lane."""
    buffer, exprs = calls.target(expr)
    bound = s.bound(buffer)
    if buffer.storage in PRIVATE:
        bound.memory.spread()
    linear: Any = np.int64(bound.offset)
    for index, stride in zip(exprs, bound.strides, strict=True):
        linear = linear + np.asarray(s.eval(index, active)).astype(np.int64) * stride
    linear = np.broadcast_to(linear, (s.lanes.count,))
    nibbles = linear * memory.nibbles_of(buffer.dtype) * buffer.dtype.lanes
    members = _members(s, active)
    if (nibbles[members] % 2).any():
        raise AssertionError(f"an address in `{buffer.name}` is inside a byte")
    copies = s.copies(bound)
    base = np.zeros(s.lanes.count, np.int64) if copies is None else copies * bound.memory.size
    return Spot(buffer, bound.memory, buffer.name, base, nibbles // 2)


def _check(s: Strand, spot: Spot, members: Any, count: int, align: int) -> Any:
    """Byte positions (members, count), checked to be inside and aligned."""
    first = spot.offset[members]
    if align > 1 and (first % align).any():
        lane = members[np.flatnonzero(first % align)[0]]
        raise AssertionError(
            f"thread {lane} addresses byte {spot.offset[lane]} of `{spot.name}`, which is not a "
            f"multiple of {align}"
        )
    if ((first < 0) | (first + count > spot.memory.size)).any():
        raise AssertionError(
            f"{count} bytes at {first.min()}..{first.max()} leave `{spot.name}` of "
            f"{spot.memory.size} bytes"
        )
    return (spot.base + spot.offset)[members][:, None] + np.arange(count)


def read_bytes(
    s: Strand, spot: Spot, members: Any, count: int, align: int = 1, readers: Any = None
) -> Any:
    """(members, count) bytes; all of them must have been written."""
    at = _check(s, spot, members, count, align)
    store = spot.memory
    per = store.units_per(2)
    if store.valid is not None:
        fresh = store.valid[at] if per == 1 else store.valid[at[..., None] * per].all(-1)
        if not fresh.all():
            row = int(np.nonzero(~fresh)[0][0])
            raise AssertionError(
                f"thread {members[row]} reads bytes of `{spot.name}` that nothing has written "
                f"(offset {spot.offset[members[row]]})"
            )
    if spot.shared:
        _note(s, spot, members if readers is None else readers, at, False)
    return store.raw[at]


def write_bytes(s: Strand, spot: Spot, members: Any, raw: Any, align: int = 1) -> None:
    """Store (members, count) bytes."""
    at = _check(s, spot, members, raw.shape[1], align)
    if not spot.memory.writable:
        raise AssertionError(f"`{spot.name}` is read-only")
    put_bytes(spot.memory, at, raw)
    if spot.shared:
        _note(s, spot, members, at, True)
        if (spot.memory.raw[at] != raw).any():
            raise RaceError(f"threads store different values to one element of `{spot.name}`")


def put_bytes(store: Memory, at: Any, raw: Any) -> None:
    per = store.units_per(2)
    store.raw[at] = raw
    if store.valid is not None:
        units = at if per == 1 else at[..., None] * per + np.arange(per)
        store.valid[units] = True


# -- races ------------------------------------------------------------------------------------
@dataclass
class State:
    """What the simulator keeps of a block."""

    races: Races | None
    copies: list[Pending] = field(default_factory=list)
    committed: Any = None  # (threads,) groups that each thread has committed


@dataclass
class Pending:
    """Bytes on their way of an asynchronous copy, per thread."""

    spot: Spot
    threads: Any
    at: Any
    raw: Any
    group: Any  # number of the group, -1 before the commit


_STATES: dict[Block, State] = {}
_RACES: list[bool] = [True]


def _state(s: Strand) -> State:
    found = _STATES.get(s.block)
    if found is None:
        count = s.block.lanes.count
        found = _STATES[s.block] = State(Races(count) if _RACES[0] else None)
        found.committed = np.zeros(count, np.int64)
    return found


def _note(s: Strand, spot: Spot, threads: Any, at: Any, write: bool) -> None:
    races = _state(s).races
    if races is not None and s.lanes.threads is not None:
        races.access(spot.memory, spot.name, s.lanes.threads[threads], at, write)


def _note_elements(
    s: Strand, buffer: Buffer, exprs: tuple[Expr, ...], active: Active, write: bool
) -> None:
    """A plain load or store of shared memory."""
    if not buffer.storage.startswith("shared") or s.lanes.threads is None:
        return
    if buffer.storage.endswith("barrier") or s.block.index is None or not _RACES[0]:
        return
    bound = s.bound(buffer)
    indices, wide = s.indices(buffer, exprs, active)
    linear, _ = memory._place(bound, indices, None)
    if wide:
        linear = np.broadcast_to(linear, (s.lanes.count, linear.shape[-1]))
    else:
        linear = np.broadcast_to(linear, (s.lanes.count,))[:, None]
    width = memory.nibbles_of(buffer.dtype) * buffer.dtype.lanes
    members = _members(s, active)
    first = linear[members] * memory.nibbles_of(buffer.dtype) // 2
    at = (first[..., None] + np.arange(max(1, width // 2))).reshape(members.size, -1)
    _note(s, Spot(buffer, bound.memory, buffer.name, None, None), members, at, write)


def _load(original: Any) -> Any:
    def load(
        s: Strand, buffer: Buffer, exprs: tuple[Expr, ...], active: Active, *place: Any
    ) -> Any:
        found = original(s, buffer, exprs, active, *place)
        _note_elements(s, buffer, exprs, active, False)
        return found

    return load


def _store(original: Any) -> Any:
    def store(
        s: Strand, buffer: Buffer, exprs: tuple[Expr, ...], value: Any, active: Active, *place: Any
    ) -> None:
        original(s, buffer, exprs, value, active, *place)
        _note_elements(s, buffer, exprs, active, True)
        checked = buffer.storage.startswith("shared") and s.lanes.threads is not None
        if checked and _RACES[0] and not buffer.storage.endswith("barrier"):
            again = _plain_load(s, buffer, exprs, active)
            members = _members(s, active)
            shape = np.broadcast_shapes(np.shape(again), np.shape(value))
            if not shape or shape[0] != s.lanes.count:
                shape = (s.lanes.count, *shape)
            now, new = (np.broadcast_to(x, shape)[members] for x in (again, value))
            if not ((now == new) | ((now != now) & (new != new))).all():
                raise RaceError(f"threads store different values to one element of `{buffer.name}`")

    return store


_plain_load = Strand.load
_plain_synchronise = barriers.synchronise


def _synchronise(
    s: Strand, node: Call, active: Active, loc: Any
) -> Generator[Wait, None, None]:  # fmt: skip
    races, members = _state(s).races, _members(s, active)
    if races is None or node.op == "sync_grid":
        yield from _plain_synchronise(s, node, active, loc)
        return
    if node.op == "sync_warp":
        races.sync_warps(members)
    elif node.op in ("sync_threads", "named_barrier_arrive"):
        numbers = [s.number(arg, active, "a barrier operand") for arg in node.args]
        ident = max(0, numbers[0]) if numbers else 0
        known = s.block.barriers.get(ident)
        key = ("barrier", ident, 0 if known is None else known.phase)
        races.publish(key, members)
        yield from _plain_synchronise(s, node, active, loc)
        if node.op == "sync_threads":
            races.acquire(key, members)
        return
    elif node.op.startswith("mbarrier") or node.op == "cp_async_barrier_noinc":
        buffer, exprs = calls.target(node.args[0])
        index = s.spread(s.eval(exprs[-1], active)) if exprs else s.spread(NOTHING)
        groups = [(buffer.data, int(n), members[index[members] == n])
                  for n in np.unique(index[members])]  # fmt: skip
        if "arrive" in node.op or node.op == "cp_async_barrier_noinc":
            for data, number, group in groups:
                races.publish((data, number), group)
        yield from _plain_synchronise(s, node, active, loc)
        if node.op == "mbarrier_wait":
            for data, number, group in groups:
                races.acquire((data, number), group)
        return
    yield from _plain_synchronise(s, node, active, loc)


# -- copies -----------------------------------------------------------------------------------
def _vector_copy(s: Strand, node: Call, active: Active) -> Any:
    count = int(node.attr("bytes"))
    assert count in (1, 2, 4, 8, 16, 32), count
    members = _members(s, active)
    raw = read_bytes(s, spot_of(s, node.args[1], active), members, count, count)
    write_bytes(s, spot_of(s, node.args[0], active), members, raw, count)
    return NOTHING


def _cp_async(s: Strand, node: Call, active: Active) -> Any:
    count = int(node.attr("bytes"))
    assert count in (4, 8, 16), count
    members, fills = _members(s, active), node.args[2:]
    if node.attr("predicated"):
        members = members[s.spread(np.not_equal(s.eval(fills[-1], active), 0))[members]]
        fills = fills[:-1]
    dst, src = spot_of(s, node.args[0], active), spot_of(s, node.args[1], active)
    assert dst.shared and src.buffer.storage == "global"
    at = _check(s, dst, members, count, count)
    raw = np.zeros((members.size, count), np.uint8)
    wanted = np.ones(members.size, np.bool_)
    if fills:
        wanted = s.spread(np.not_equal(s.eval(fills[0], active), 0))[members]
    raw[wanted] = read_bytes(s, src, members[wanted], count, count)
    _note(s, dst, members, at, True)
    _state(s).copies.append(Pending(dst, members, at, raw, np.full(members.size, -1, np.int64)))
    return NOTHING


def _cp_async_commit(s: Strand, node: Call, active: Active) -> Any:
    state, members = _state(s), _members(s, active)
    for copy in state.copies:
        mine = np.isin(copy.threads, members) & (copy.group < 0)
        copy.group[mine] = state.committed[copy.threads[mine]]
    state.committed[members] += 1
    return NOTHING


def _cp_async_wait(s: Strand, node: Call, active: Active) -> Any:
    state, members = _state(s), _members(s, active)
    limit = int(node.attr("count"))
    kept: list[Pending] = []
    for copy in state.copies:
        done = np.isin(copy.threads, members) & (copy.group >= 0)
        done &= copy.group < state.committed[copy.threads] - limit
        if done.any():
            put_bytes(copy.spot.memory, copy.at[done], copy.raw[done])
            _note(s, copy.spot, copy.threads[done], copy.at[done], True)
        left = ~done
        if left.any():
            kept.append(
                Pending(copy.spot, copy.threads[left], copy.at[left], copy.raw[left],
                        copy.group[left])
            )  # fmt: skip
    state.copies[:] = kept
    return NOTHING


# -- matrices ---------------------------------------------------------------------------------
def _warps(s: Strand, node: Call, active: Active) -> Any:
    """Lanes of the executing warps, (warps, 32); each warp executes as a whole."""
    members = _members(s, active)
    warps = np.unique(members // WARP)
    lanes = warps[:, None] * WARP + np.arange(WARP)
    if lanes.size != members.size:
        raise AssertionError(f"{node.op} is executed by {members.size} threads, no whole warps")
    return lanes


def _matrix_rows(s: Strand, node: Call, address: Expr, lanes: Any, active: Active) -> Spot:
    """Addresses of rows that the lanes supply; those of lanes beyond ``count`` are ignored."""
    count = int(node.attr("count"))
    assert count in (1, 2, 4)
    spot = spot_of(s, address, active)
    assert spot.shared, f"{node.op} of {spot.buffer.storage} memory"
    used = lanes[:, : 8 * count].reshape(-1)
    offset = np.zeros_like(spot.offset)
    offset[used] = spot.offset[used]
    return Spot(spot.buffer, spot.memory, spot.name, spot.base, offset)


def _ldmatrix(s: Strand, node: Call, active: Active) -> Any:
    """Matrix g: lane 8g + r addresses row r; lane t receives elements 2(t%4), +1 of row t//4."""
    count, lanes = int(node.attr("count")), _warps(s, node, active)
    spot = _matrix_rows(s, node, node.args[1], lanes, active)
    used = lanes[:, : 8 * count].reshape(-1)
    rows = read_bytes(s, spot, used, 16, 16)
    tiles = rows.reshape(lanes.shape[0], count, 8, 8, 2)  # warp, matrix, row, column, byte
    if node.attr("trans", False):
        tiles = tiles.swapaxes(2, 3)
    held = tiles.reshape(lanes.shape[0], count, WARP, 4).swapaxes(1, 2)
    raw = held.reshape(lanes.size, 4 * count)
    write_bytes(s, spot_of(s, node.args[0], active), lanes.reshape(-1), raw, 4)
    return NOTHING


def _stmatrix(s: Strand, node: Call, active: Active) -> Any:
    count, lanes = int(node.attr("count")), _warps(s, node, active)
    spot = _matrix_rows(s, node, node.args[0], lanes, active)
    raw = read_bytes(s, spot_of(s, node.args[1], active), lanes.reshape(-1), 4 * count, 4)
    held = raw.reshape(lanes.shape[0], WARP, count, 4).swapaxes(1, 2)
    tiles = held.reshape(lanes.shape[0], count, 8, 8, 2)
    if node.attr("trans", False):
        tiles = tiles.swapaxes(2, 3)
    used = lanes[:, : 8 * count].reshape(-1)
    write_bytes(s, spot, used, np.ascontiguousarray(tiles).reshape(-1, 16), 16)
    return NOTHING


@cache
def ptx_layout(shape: str, bits: int) -> tuple[Any, Any, Any]:
    """Row and column of each register element, (32, elements, 2), of A, B (k x n) and C.

    From the figures of the PTX manual, "Matrix Fragments for mma".
    """
    a: list[list[tuple[int, int]]] = []
    b: list[list[tuple[int, int]]] = []
    c: list[list[tuple[int, int]]] = []
    for lane in range(WARP):
        group, own = lane >> 2, lane % 4
        if shape in ("m16n8k8", "m16n8k16") and bits == 16:
            k = 8 if shape == "m16n8k8" else 16
            a.append([(group + (8 if i % 4 >= 2 else 0), own * 2 + (i & 1) + (8 if i >= 4 else 0))
                      for i in range(k // 2)])  # fmt: skip
            b.append([(own * 2 + (i & 1) + (8 if i >= 2 else 0), group) for i in range(k // 4)])
        elif shape == "m16n8k8" and bits == 32:
            a.append([(group, own), (group + 8, own), (group, own + 4), (group + 8, own + 4)])
            b.append([(own, group), (own + 4, group)])
        elif shape == "m16n8k4" and bits == 32:
            a.append([(group, own), (group + 8, own)])
            b.append([(own, group)])
        elif shape == "m16n8k16" and bits == 8:
            a.append([(group + (0 if i < 4 else 8), own * 4 + (i & 3)) for i in range(8)])
            b.append([(own * 4 + i, group) for i in range(4)])
        elif shape == "m16n8k32" and bits == 4:
            a.append([(group + (0 if i < 8 else 8), own * 8 + (i & 7)) for i in range(16)])
            b.append([(own * 8 + i, group) for i in range(8)])
        elif shape == "m16n8k32" and bits == 8:
            a.append([(group + (0 if i < 4 or 8 <= i < 12 else 8),
                       own * 4 + (i & 3) + (16 if i >= 8 else 0)) for i in range(16)])  # fmt: skip
            b.append([(own * 4 + (i & 3) + (16 if i >= 4 else 0), group) for i in range(8)])
        elif shape == "m16n8k64" and bits == 4:
            a.append([(group + (0 if i < 8 or 16 <= i < 24 else 8),
                       own * 8 + (i & 7) + (32 if i >= 16 else 0)) for i in range(32)])  # fmt: skip
            b.append([(own * 8 + (i & 7) + (32 if i >= 8 else 0), group) for i in range(16)])
        elif shape == "m8n8k4" and bits == 64:
            a.append([(group, own)])
            b.append([(own, group)])
        elif shape == "m8n8k16" and bits == 8:
            a.append([(group, own * 4 + i) for i in range(4)])
            b.append([(own * 4 + i, group) for i in range(4)])
        elif shape == "m8n8k32" and bits == 4:
            a.append([(group, own * 8 + i) for i in range(8)])
            b.append([(own * 8 + i, group) for i in range(8)])
        else:
            raise AssertionError(f"no instruction {shape} of {bits} bits")
        if shape.startswith("m16"):
            c.append([(group + (8 if i >= 2 else 0), own * 2 + (i & 1)) for i in range(4)])
        else:
            c.append([(group, own * 2 + i) for i in range(2)])
    return np.array(a), np.array(b), np.array(c)


def _operand(
    s: Strand, address: Expr, kind: DType, table: Any, shape: tuple[int, int], lanes: Any,
    active: Active,
) -> Any:  # fmt: skip
    """The matrices of all warps that a register operand holds."""
    count = table.shape[1]
    raw = read_bytes(s, spot_of(s, address, active), lanes.reshape(-1), count * kind.bits // 8, 4)
    held = np.asarray(values.from_bytes(raw, kind.with_lanes(count) if count > 1 else kind))
    if kind in ("float32", "tfloat32"):  # only 19 bits of each number are used
        held = (held.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    found = np.zeros((lanes.shape[0], *shape), held.dtype)
    found[:, table[..., 0], table[..., 1]] = held.reshape(*lanes.shape, count)
    return found


def _mma(s: Strand, node: Call, active: Active) -> Any:
    lanes = _warps(s, node, active)
    shape = str(node.attr("shape"))
    a_kind, b_kind, c_kind = (DType(node.attr(name)) for name in "abc")
    m, n, k = (int(part) for part in shape[1:].replace("n", " ").replace("k", " ").split())
    ta, tb, tc = ptx_layout(shape, a_kind.bits)
    a = _operand(s, node.args[1], a_kind, ta, (m, k), lanes, active)
    b = _operand(s, node.args[2], b_kind, tb, (k, n), lanes, active)
    spot = spot_of(s, node.args[0], active)
    count = tc.shape[1]
    raw = read_bytes(s, spot, lanes.reshape(-1), count * c_kind.bits // 8, 4)
    old = np.asarray(values.from_bytes(raw, c_kind.with_lanes(count)))
    wide = np.int64 if c_kind.is_integer else np.float64
    product = (a.astype(wide) @ b.astype(wide))[:, tc[..., 0], tc[..., 1]]
    total = old.astype(wide) + product.reshape(old.shape)
    new = values.rounded(total.astype(values.compute_dtype(c_kind)), c_kind)
    write_bytes(s, spot, lanes.reshape(-1), values.to_bytes(new, c_kind.with_lanes(count)), 4)
    return NOTHING


def _half2_load(s: Strand, node: Call, active: Active) -> Any:
    found = np.zeros(s.lanes.count, np.uint32)
    members = _members(s, active)
    raw = read_bytes(s, spot_of(s, node.args[0], active), members, 4, 4)
    found[members] = np.ascontiguousarray(raw).view(np.uint32)[:, 0]
    return found


def _half2_store(s: Strand, node: Call, active: Active) -> Any:
    members = _members(s, active)
    word = np.asarray(s.spread(s.eval(node.args[1], active)))[members].astype(np.uint32)
    raw = np.ascontiguousarray(word)[:, None].view(np.uint8)
    write_bytes(s, spot_of(s, node.args[0], active), members, raw, 4)
    return NOTHING


_HANDLERS = {
    **HALVES,
    "half2_load": _half2_load,
    "half2_store": _half2_store,
    "vector_copy": _vector_copy,
    "cp_async": _cp_async,
    "cp_async_commit": _cp_async_commit,
    "cp_async_wait": _cp_async_wait,
    "ldmatrix": _ldmatrix,
    "stmatrix": _stmatrix,
    "mma": _mma,
}


@contextmanager
def _device(races: bool) -> Iterator[None]:
    """The interpreter with device instructions and the watch over shared memory."""
    _STATES.clear()
    _RACES[0] = races
    with (
        patch.dict(calls.HANDLERS, _HANDLERS),
        patch.object(barriers, "synchronise", _synchronise),
        patch.object(Strand, "load", _load(Strand.load)),
        patch.object(Strand, "store", _store(Strand.store)),
    ):
        try:
            yield
        finally:
            _STATES.clear()
