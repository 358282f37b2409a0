"""cuRAND's generators by recurrences, XORWOW and MRG32k3a, on arrays with a column per thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.interpret.values import Array

_LOW = np.uint64(0xFFFFFFFF)
State = dict[str, Any]


def _bits(count: Array) -> list[tuple[int, Array]]:
    """The positions of bits that some of the numbers have, and which ones have them."""
    bits = ((at, count >> np.uint64(at) & np.uint64(1) != 0) for at in range(64))
    return [(at, lanes) for at, lanes in bits if lanes.any()]


# -- XORWOW: a step is a product by x modulo the step's characteristic polynomial ------------------
_MODULUS = 0x100000F0E0F3C0035000621210861003000060001
_DEGREE = _MODULUS.bit_length() - 1


def _square(power: int, times: int) -> int:
    for _ in range(times):
        power = int("0".join(f"{power:b}"), 2)
        while power.bit_length() > _DEGREE:
            power ^= _MODULUS << (power.bit_length() - 1 - _DEGREE)
    return power


def _step(v: Array) -> Array:
    t = v[0] ^ v[0] >> np.uint32(2)
    last = v[4] ^ v[4] << np.uint32(4) ^ t ^ t << np.uint32(1)
    return np.stack((*v[1:], last))


def _advance(v: Array, count: Array, first: int) -> Array:
    """``v`` after ``count`` times the steps whose polynomial is x to the power 2**first."""
    power, known_to = 2, -first
    for at, lanes in _bits(count):
        power, known_to = _square(power, at - known_to), at
        total, moved = np.zeros_like(v), v
        for exponent in range(_DEGREE):
            if power >> exponent & 1:
                total = total ^ moved
            moved = _step(moved)
        v = np.where(lanes, total, v)
    return v


def _start_xorwow(seed: Array, sequence: Array, offset: Array) -> State:
    word = np.uint32
    low = (seed & _LOW).astype(word) ^ word(0xAAD26B49)
    high = (seed >> np.uint64(32)).astype(word) ^ word(0xF7DCEFDD)
    low, high = low * word(1099087573), high * word(2591861531)
    v = np.stack(
        (word(123456789) + low, word(362436069) ^ low, word(521288629) + high,
         word(88675123) ^ high, word(5783321) + low)
    )  # fmt: skip
    v = _advance(_advance(v, sequence, 67), offset, 0)
    skipped = (offset & _LOW).astype(word) * word(362437)
    return {"xorwow": v, "sum": word(6615241) + high + low + skipped}


# -- MRG32k3a: two recurrences of three terms, each a matrix modulo a number below 2**32 -----------
_MODULI = (4294967087, 4294944443)
_FACTORS = ((0, 1403580, -810728), (527612, 0, -1370589))  # of the last three numbers, newest first
_SEQUENCE = 76  # a stream has 2**76 numbers
_STREAMS = np.uint64(2**51 - 1)


def _times(a: Array, b: Array, modulus: int) -> Array:
    """The product of matrices modulo a number below 2**32."""
    m = np.uint64(modulus)
    return np.asarray((a[:, :, None] * b[None, :, :] % m).sum(axis=1) % m, np.uint64)


def _advanced(s: Array, count: Array, first: int, part: int) -> Array:
    modulus = _MODULI[part]
    newest, middle, oldest = (factor % modulus for factor in _FACTORS[part])
    power = np.array(((0, 1, 0), (0, 0, 1), (oldest, middle, newest)), np.uint64)
    known_to = -first
    for at, chosen in _bits(count):
        for _ in range(at - known_to):
            power = _times(power, power, modulus)
        known_to = at
        s = np.where(chosen, _times(power, s, modulus), s)
    return s


def _start_mrg(seed: Array, sequence: Array, offset: Array) -> State:
    has_seed = seed != 0
    low = np.where(has_seed, seed & _LOW ^ np.uint64(0x55555555), np.uint64(1))
    high = np.where(has_seed, seed >> np.uint64(32) ^ np.uint64(0xAAAAAAAA), np.uint64(1))
    parts = []
    for part, mixed in enumerate(((low, high, low), (high, low, high))):
        s = np.stack(mixed) * np.uint64(12345) % np.uint64(_MODULI[part])
        s = _advanced(s, sequence & _STREAMS, _SEQUENCE, part)
        parts.append(_advanced(s, offset, 0, part))
    return {"mrg": np.concatenate(parts)}


def _next_number(state: State, chosen: Array) -> Array:
    """The next number of the chosen threads, from 1 to the larger modulus."""
    s = state["mrg"].astype(np.int64)
    new = [
        (newest * last[2] + middle * last[1] + oldest * last[0]) % modulus
        for last, (newest, middle, oldest), modulus in zip((s[:3], s[3:]), _FACTORS, _MODULI)
    ]
    after = np.stack((s[1], s[2], new[0], s[4], s[5], new[1]))
    state["mrg"] = np.where(chosen, after, s).astype(np.uint64)
    difference = new[0] - new[1]
    return np.asarray(np.where(difference > 0, difference, difference + _MODULI[0]))


# -- both ------------------------------------------------------------------------------------------
def word(state: State, chosen: Array) -> Array:
    """The next 32-bit word of the chosen threads."""
    if "mrg" in state:
        return (_next_number(state, chosen) * 1.000000048662).astype(np.uint32)
    after = _step(state["xorwow"])
    total = state["sum"] + np.uint32(362437)
    state["xorwow"] = np.where(chosen, after, state["xorwow"])
    state["sum"] = np.where(chosen, total, state["sum"])
    return np.asarray(after[4] + total, np.uint32)


def real(state: State, chosen: Array) -> Array:
    """The next number of MRG32k3a as a double."""
    return np.asarray(_next_number(state, chosen) * 2.3283065498378288e-10, np.float64)


STARTS: dict[str, Callable[[Array, Array, Array], State]] = {
    "curandStateXORWOW_t": _start_xorwow,
    "curandStateMRG32k3a_t": _start_mrg,
}
