"""Semantics of the instructions that lowering generates, in numpy.

The row of an instruction names its semantics (``Atom.semantics``); :data:`MEANINGS` has a function
for each. Instructions move bytes inside one buffer, with the alignment that the hardware requires,
and read initialized memory only. Matrix instructions are in ``matrices``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from tilelang.errors import OutOfBoundsError, TileRuntimeError, UninitializedReadError
from tilelang.interpret import memory, values
from tilelang.interpret.analysis import PRIVATE
from tilelang.interpret.lanes import Active
from tilelang.interpret.memory import Bound, Memory
from tilelang.interpret.pointers import target
from tilelang.interpret.values import Array, Value
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Call, Expr
from tilelang.records import dataclass

if TYPE_CHECKING:
    from tilelang.interpret.machine import DivergentGroup

Meaning: TypeAlias = "Callable[[DivergentGroup, Call, Active], Value | None]"


# -- bytes behind addresses -----------------------------------------------------------------------
@dataclass(frozen=True)
class Address:
    """The bytes that each lane addresses: byte ``offset`` of its own copy, which is at ``base``."""

    bound: Bound
    base: Array
    offset: Array

    @property
    def name(self) -> str:
        return self.bound.buffer.name

    @property
    def memory(self) -> Memory:
        return self.bound.memory

    @property
    def is_shared(self) -> bool:
        return self.bound.buffer.storage.startswith("shared")


def address_of(s: DivergentGroup, expr: Expr, active: Active) -> Address:
    """The memory and byte offset of an address operand, per lane."""
    buffer, exprs = target(expr)
    bound = s.bound(buffer)
    if buffer.storage in PRIVATE:
        bound.memory.spread()
    linear: Any = np.int64(bound.offset)
    for index, stride in zip(exprs, bound.strides, strict=True):
        linear = linear + np.asarray(s.eval(index, active)).astype(np.int64) * stride
    linear = np.broadcast_to(linear, (s.lanes.count,))
    nibbles = linear * memory.nibbles_of(buffer.dtype) * buffer.dtype.lanes
    if (nibbles[s.lanes.members(active)] % 2).any():
        raise TileRuntimeError(
            f"an address in `{buffer.name}` is inside a byte",
            expected="an even element of a buffer of 4-bit elements",
            got=f"an odd element {s.site.text(None)}",
        )
    copies = s.copies(bound)
    base = np.zeros(s.lanes.count, np.int64) if copies is None else copies * bound.memory.size
    return Address(bound, base, nibbles // 2)


def locate(s: DivergentGroup, address: Address, members: Array, count: int, align: int) -> Array:
    """Byte positions (members, count), inside the memory and aligned.

    Raises:
        TileRuntimeError, OutOfBoundsError: they are not.
    """
    first = address.offset[members]
    if align > 1 and (first % align).any():
        lane = members[np.flatnonzero(first % align)[0]]
        raise TileRuntimeError(
            f"an instruction of {align} bytes addresses byte {address.offset[lane]} of "
            f"`{address.name}`, which is not a multiple of {align}",
            expected=f"an address that is aligned to {align} bytes",
            got=f"byte {address.offset[lane]} {s.site.text(int(lane))}",
        )
    outside = (first < 0) | (first + count > address.memory.size)
    if outside.any():
        lane = members[np.flatnonzero(outside)[0]]
        raise OutOfBoundsError(
            f"an instruction accesses memory outside `{address.name}`",
            expected=f"bytes 0..{address.memory.size}",
            got=f"{count} bytes from {address.offset[lane]} {s.site.text(int(lane))}",
        )
    return np.asarray((address.base + address.offset)[members][:, None] + np.arange(count))


def read_bytes(s: DivergentGroup, src: Address, lanes: Array, count: int, align: int = 1) -> Array:
    """(lanes, count) bytes.

    Raises:
        UninitializedReadError: nothing has written some of them.
    """
    return read_at(s, src, lanes, locate(s, src, lanes, count, align))


def read_at(s: DivergentGroup, address: Address, members: Array, at: Array) -> Array:
    """The bytes at positions ``at`` (members, count) of the memory of ``address``.

    Raises:
        UninitializedReadError: nothing has written some of them.
    """
    store, count = address.memory, at.shape[1]
    per = store.units_per(2)
    if store.valid is not None:
        fresh = store.valid[at] if per == 1 else store.valid[at[..., None] * per].all(-1)
        if not fresh.all():
            lane = members[int(np.nonzero(~fresh)[0][0])]
            store.complain(
                UninitializedReadError(
                    f"bytes of `{address.name}` are read before anything is written to them",
                    expected=f"initialised memory in the {address.bound.buffer.storage} buffer "
                    f"`{address.name}`",
                    got=f"{count} bytes from {address.offset[lane]} {s.site.text(int(lane))}",
                    hint="initialise the buffer first, e.g. with T.clear or T.fill",
                )
            )
    if address.is_shared:
        s.tell_bytes(address.bound, members, at, False)
    return np.asarray(store.raw[at])


def write_bytes(s: DivergentGroup, dst: Address, lanes: Array, raw: Array, align: int = 1) -> None:
    """Store (lanes, count) bytes."""
    at = locate(s, dst, lanes, raw.shape[1], align)
    if not dst.memory.writable:
        raise memory.read_only(dst.bound)
    put_bytes(dst.memory, at, raw)
    if dst.is_shared:
        s.tell_bytes(dst.bound, lanes, at, True, bool((dst.memory.raw[at] != raw).any()))


def put_bytes(store: Memory, at: Array, raw: Array) -> None:
    """Bytes at positions of a memory; they count as written."""
    per = store.units_per(2)
    store.raw[at] = raw
    if store.valid is not None:
        store.valid[at if per == 1 else at[..., None] * per + np.arange(per)] = True


# -- copies ---------------------------------------------------------------------------------------
def _copy(s: DivergentGroup, node: Call, active: Active) -> None:
    """``bytes`` from one aligned address to another."""
    count = int(node.attr("bytes"))
    members = s.lanes.members(active)
    raw = read_bytes(s, address_of(s, node.args[1], active), members, count, count)
    write_bytes(s, address_of(s, node.args[0], active), members, raw, count)


def _async_copy(s: DivergentGroup, node: Call, active: Active) -> None:
    """``bytes`` that arrive in shared memory when the thread waits for them.

    If the third operand is false, the bytes become zero. If the last operand of a ``predicated``
    copy is false, nothing is copied.
    """
    count = int(node.attr("bytes"))
    members, fills = s.lanes.members(active), node.args[2:]
    if node.attr("predicated"):
        members = members[s.spread(np.not_equal(s.eval(fills[-1], active), 0))[members]]
        fills = fills[:-1]
    dst, src = address_of(s, node.args[0], active), address_of(s, node.args[1], active)
    at = locate(s, dst, members, count, count)
    raw = np.zeros((members.size, count), np.uint8)
    predicate = np.ones(members.size, np.bool_)
    if fills:
        predicate = s.spread(np.not_equal(s.eval(fills[0], active), 0))[members]
    raw[predicate] = read_bytes(s, src, members[predicate], count, count)
    s.tell_bytes(dst.bound, members, at, True)

    def arrive(lanes: Array) -> None:
        put_bytes(dst.memory, at[lanes], raw[lanes])
        s.tell_bytes(dst.bound, members[lanes], at[lanes], True)

    s.block.flight.start(node.atom.completes.name, members, arrive)


def _commit(s: DivergentGroup, node: Call, active: Active) -> None:
    """The thread's open group is closed."""
    orders = node.atom.orders
    if orders is not None and s.lanes.threads is not None:
        s.block.flight.commit(orders.group, s.lanes.members(active))


def _wait(s: DivergentGroup, node: Call, active: Active) -> None:
    """Wait for all but the last few groups of the thread."""
    orders = node.atom.orders
    if orders is not None and s.lanes.threads is not None:
        allowed = node.attr("count", None)
        if allowed is None:
            allowed = s.number(node.args[0], active, "a number of groups") if node.args else 0
        s.block.flight.wait(orders.group, s.lanes.members(active), int(allowed))


# -- pairs of 16-bit floats in words --------------------------------------------------------------
_HALF, _BRAIN = DType("float16"), DType("bfloat16")


def _words(s: DivergentGroup, node: Call, active: Active) -> list[Array]:
    return [np.asarray(s.spread(s.eval(arg, active))) for arg in node.args]


def _halves(word: Array, kind: DType) -> list[Array]:
    parts = [np.ascontiguousarray(x.astype(np.uint16)) for x in (word & 0xFFFF, word >> 16)]
    if kind is _HALF:
        return [part.view(np.float16) for part in parts]
    return [np.asarray(values.decode(part, kind)) for part in parts]


def _packed(kind: DType, *lanes: Array) -> Array:
    word: Array = np.asarray(np.uint32(0))
    for lane in reversed(lanes):
        code = np.ascontiguousarray(values.encode(values.rounded(lane, kind), kind))
        word = word << np.uint32(kind.bits) | code.view(f"uint{kind.bits}").astype(np.uint32)
    return np.asarray(word)


def _pairwise(op: np.ufunc, kind: DType, s: DivergentGroup, node: Call, active: Active) -> Value:
    a, b = (_halves(word, kind) for word in _words(s, node, active))
    return _packed(kind, *map(op, a, b))


def _pair_of_bits(s: DivergentGroup, node: Call, active: Active) -> Value:
    low, high = _words(s, node, active)
    return low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)


def _duplicated_pair(s: DivergentGroup, node: Call, active: Active) -> Value:
    (bits,) = _words(s, node, active)
    return bits.astype(np.uint32) * np.uint32(0x10001)


def _rounded_together(kind: DType, s: DivergentGroup, node: Call, active: Active) -> Value:
    return _packed(kind, *_words(s, node, active))


def _wide_pair(kind: DType, s: DivergentGroup, node: Call, active: Active) -> Value:
    (word,) = _words(s, node, active)
    codes = (np.ascontiguousarray((word >> at & 0xFF).astype(np.uint8)) for at in (0, 8))
    return _packed(_HALF, *(np.asarray(values.decode(code, kind)) for code in codes))


def _pair_of_fields(kind: DType, s: DivergentGroup, node: Call, active: Active) -> Value:
    """Two bit fields of a 32-bit value, plus a bias, as floats."""
    word, low, high, bias = (x.astype(np.int64) for x in _words(s, node, active))
    bits = int(node.attr("bits"))
    for bit in (low, high):
        if ((bit < 0) | (bit % 8 + bits > 8) | (bit + bits > 32)).any():
            raise TileRuntimeError(
                "a field crosses its byte", expected=f"{bits} bits inside one of 4 bytes",
                got=f"bits from {int(bit.max())} {s.site.text(None)}",
            )  # fmt: skip
    mask = (1 << bits) - 1
    return _packed(kind, *(((word >> at & mask) + bias).astype(np.float32) for at in (low, high)))


def _load_pair(s: DivergentGroup, node: Call, active: Active) -> Value:
    array = np.zeros(s.lanes.count, np.uint32)
    members = s.lanes.members(active)
    raw = read_bytes(s, address_of(s, node.args[0], active), members, 4, 4)
    array[members] = np.ascontiguousarray(raw).view(np.uint32)[:, 0]
    return array


def _store_pair(s: DivergentGroup, node: Call, active: Active) -> None:
    members = s.lanes.members(active)
    word = np.asarray(s.spread(s.eval(node.args[1], active)))[members].astype(np.uint32)
    raw = np.ascontiguousarray(word)[:, None].view(np.uint8)
    write_bytes(s, address_of(s, node.args[0], active), members, raw, 4)


MEANINGS: dict[str, Meaning] = {
    "copy bytes": _copy,
    "copy bytes later": _async_copy,
    "commit a group": _commit,
    "wait for groups": _wait,
    "load a pair": _load_pair,
    "store a pair": _store_pair,
    "add pairs": partial(_pairwise, np.add, _HALF),
    "subtract pairs": partial(_pairwise, np.subtract, _HALF),
    "multiply pairs": partial(_pairwise, np.multiply, _HALF),
    "add pairs of bfloat16": partial(_pairwise, np.add, _BRAIN),
    "subtract pairs of bfloat16": partial(_pairwise, np.subtract, _BRAIN),
    "multiply pairs of bfloat16": partial(_pairwise, np.multiply, _BRAIN),
    "lesser pairs": partial(_pairwise, np.fmin, _HALF),
    "greater pairs": partial(_pairwise, np.fmax, _HALF),
    "lesser bf16 pairs": partial(_pairwise, np.fmin, _BRAIN),
    "greater bf16 pairs": partial(_pairwise, np.fmax, _BRAIN),
    "pair of bits": _pair_of_bits,
    "pair of one": _duplicated_pair,
    "pair rounded": partial(_rounded_together, _HALF),
    "pair rounded to bfloat16": partial(_rounded_together, _BRAIN),
    "four to e4m3": partial(_rounded_together, DType("float8_e4m3fn")),
    "four to e5m2": partial(_rounded_together, DType("float8_e5m2")),
    "pair of e4m3": partial(_wide_pair, DType("float8_e4m3fn")),
    "pair of e5m2": partial(_wide_pair, DType("float8_e5m2")),
    "pair of fields": partial(_pair_of_fields, _HALF),
    "pair of fields as bfloat16": partial(_pair_of_fields, _BRAIN),
}
