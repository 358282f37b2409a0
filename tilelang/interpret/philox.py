"""Random numbers: cuRAND's Philox4_32_10 here, others in :mod:`recurrences`; a state per thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tilelang.errors import TileRuntimeError, TileUnsupportedError
from tilelang.interpret import recurrences
from tilelang.interpret.lanes import Active
from tilelang.interpret.values import Array, Value
from tilelang.ir.expr import Call
from tilelang.ir.tables import RNG_INIT

if TYPE_CHECKING:
    from tilelang.interpret.machine import DivergentGroup

_LOW = np.uint64(0xFFFFFFFF)
_INVERSE = np.float32(2.3283064e-10)  # 2**-32
_INVERSE_2PI = np.float32(2.3283064e-10) * np.float32(6.2831855)


def philox(counter: Array, key: Array) -> Array:
    """Ten rounds on counters (4, n) with keys (2, n), all uint64 holding 32-bit words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        left, right = c0 * np.uint64(0xD2511F53), c2 * np.uint64(0xCD9E8D57)
        c0, c1, c2, c3 = (
            (right >> np.uint64(32)) ^ c1 ^ k0,
            right & _LOW,
            (left >> np.uint64(32)) ^ c3 ^ k1,
            left & _LOW,
        )
        k0, k1 = (k0 + np.uint64(0x9E3779B9)) & _LOW, (k1 + np.uint64(0xBB67AE85)) & _LOW
    return np.stack((c0, c1, c2, c3))


def _advance(state: dict[str, Any], amount: Array) -> None:
    """Add ``amount`` to the 128-bit counters."""
    carry = amount.astype(np.uint64)
    for word in range(4):
        low = state["counter"][word] + (carry & _LOW)
        carry = (carry >> np.uint64(32)) + (low >> np.uint64(32))
        state["counter"][word] = low & _LOW


def _start(seed: Array, sequence: Array, offset: Array) -> dict[str, Any]:
    counter = np.zeros((4, seed.size), np.uint64)
    counter[2], counter[3] = sequence & _LOW, sequence >> np.uint64(32)
    state: dict[str, Any] = {
        "counter": counter,
        "key": np.stack((seed & _LOW, seed >> np.uint64(32))),
        "place": (offset & np.uint64(3)).astype(np.int64),
    }
    _advance(state, offset >> np.uint64(2))
    return state


def _init(s: DivergentGroup, node: Call, active: Active) -> Value:
    generator = str(node.attr("generator", "curandStatePhilox4_32_10_t"))
    count = s.lanes.count
    seed, sequence, offset = (
        np.broadcast_to(np.asarray(s.eval(arg, active)).astype(np.uint64), count)
        for arg in node.args
    )
    state = recurrences.STARTS.get(generator, _start)(seed, sequence, offset)
    state["extra"], state["has_extra"] = np.zeros(count, np.float32), np.zeros(count, np.bool_)
    known = s.block.random
    if known and known.keys() != state.keys():
        raise TileUnsupportedError(
            "two kinds of random generators in one kernel",
            expected="one: each thread has a single state",
            got=generator,
        )
    if active is not None and known:  # other threads keep what they have
        for name, fresh in state.items():
            known[name] = np.where(active, fresh, known[name])
    else:
        known.update(state)
    return np.int32(0)


def _draw(s: DivergentGroup, chosen: Array) -> Array:
    """The next 32-bit word of the chosen threads."""
    state = s.block.random
    if not state:
        raise TileRuntimeError(
            "a random number is drawn before the generator is initialised",
            expected=f"T.{RNG_INIT.name}(seed) first",
        )
    if "place" not in state:
        return recurrences.word(state, chosen)
    words = philox(state["counter"], state["key"])
    drawn = np.take_along_axis(words, state["place"][None, :], axis=0)[0]
    index = np.where(chosen, state["place"] + 1, state["place"])
    _advance(state, (index == 4).astype(np.uint64))
    state["place"] = index % 4
    return np.asarray(drawn, np.uint32)


def _active_index(s: DivergentGroup, active: Active) -> Array:
    return np.ones(s.lanes.count, np.bool_) if active is None else active


def _rand(s: DivergentGroup, node: Call, active: Active) -> Value:
    return _draw(s, _active_index(s, active))


def _rand_float(s: DivergentGroup, node: Call, active: Active) -> Value:
    chosen = _active_index(s, active)
    double = int(node.attr("bit", 32)) == 64
    if str(node.attr("dist", "uniform")) == "normal":
        drawn = _normal(s, chosen)
        return drawn.astype(np.float64) if double else drawn
    if "mrg" in s.block.random:
        real = recurrences.real(s.block.random, chosen)
        return real if double else real.astype(np.float32)
    word = _draw(s, chosen)
    if double and "xorwow" in s.block.random:  # 53 bits of two words
        bits = word.astype(np.uint64) ^ _draw(s, chosen).astype(np.uint64) << np.uint64(21)
        return bits.astype(np.float64) * 2.0**-53 + 2.0**-54
    if double:
        inverse = 2.3283064365386963e-10
        return word.astype(np.float64) * inverse + inverse  # cuRAND adds a half to floats alone
    return word.astype(np.float32) * _INVERSE + _INVERSE / np.float32(2)


def _normal(s: DivergentGroup, chosen: Array) -> Array:
    """Box-Muller; the second number of a pair is kept for the next call."""
    state = s.block.random
    if not state:
        _draw(s, chosen)  # reports the missing initialisation
    fresh = chosen & ~state["has_extra"]
    if "mrg" in state:
        u, v = (recurrences.real(state, fresh).astype(np.float32) for _ in range(2))
        v = v * np.float32(6.2831855)
    else:
        x, y = _draw(s, fresh).astype(np.float32), _draw(s, fresh).astype(np.float32)
        u = x * _INVERSE + _INVERSE / np.float32(2)
        v = y * _INVERSE_2PI + _INVERSE_2PI / np.float32(2)
    radius = np.sqrt(np.float32(-2) * np.log(u))
    normals = np.where(fresh, np.sin(v) * radius, state["extra"])
    state["extra"] = np.where(fresh, np.cos(v) * radius, state["extra"])
    state["has_extra"] = np.where(chosen, fresh, state["has_extra"])
    return np.asarray(normals, np.float32)


MEANINGS: dict[str, Callable[[DivergentGroup, Call, Active], Value]] = {
    "start random numbers": _init,
    "random bits": _rand,
    "random float": _rand_float,
}
