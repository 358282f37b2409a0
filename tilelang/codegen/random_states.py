"""Random generators of threads: the types of their states in the headers."""

from __future__ import annotations

from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E
from tilelang.ir.tables import RNG_INIT

TYPES = {
    "curandStatePhilox4_32_10_t": "tl_philox", "curandStateXORWOW_t": "tl_xorwow",
    "curandStateMRG32k3a_t": "tl_mrg",
}  # fmt: skip
PHILOX = next(iter(TYPES))


def generator_type(call: E.Call, name: str) -> str:
    """The type of the generators of a kernel, in which ``call`` is; ``name`` so far, or ""."""
    if call.atom is not RNG_INIT:
        return name or TYPES[PHILOX]
    state_type = TYPES[str(call.attr("generator", PHILOX))]
    if name not in ("", state_type):
        raise TileUnsupportedError(
            "two kinds of random generators in one kernel",
            expected="one: each thread has a single state",
            got=f"{state_type.removeprefix('tl_')} after {name.removeprefix('tl_')}",
            hint="start the generator before the first number is drawn",
        )
    return state_type
