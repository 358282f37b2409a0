"""Pairs of float16 in words, for the simulator: what the device header says, in numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.interpret.lanes import Active
from tilelang.interpret.machine import Strand
from tilelang.ir.expr import Call


def _words(s: Strand, node: Call, active: Active) -> list[Any]:
    return [np.asarray(s.spread(s.eval(arg, active))) for arg in node.args]


def _halves(word: Any) -> tuple[Any, Any]:
    return tuple(
        np.ascontiguousarray(part.astype(np.uint16)).view(np.float16)
        for part in (word & 0xFFFF, word >> 16)
    )  # type: ignore[return-value]  # two of them


def _joined(low: Any, high: Any) -> Any:
    bits = [
        np.ascontiguousarray(np.asarray(x)).view(np.uint16).astype(np.uint32) for x in (low, high)
    ]
    return bits[0] | bits[1] << np.uint32(16)


def _arithmetic(op: Callable[[Any, Any], Any]) -> Any:
    def run(s: Strand, node: Call, active: Active) -> Any:
        (a, b), (c, d) = (_halves(word) for word in _words(s, node, active))
        return _joined(op(a, c), op(b, d))

    return run


def _pack(s: Strand, node: Call, active: Active) -> Any:
    low, high = _words(s, node, active)
    return low.astype(np.uint32) | high.astype(np.uint32) << np.uint32(16)


def _both(s: Strand, node: Call, active: Active) -> Any:
    (bits,) = _words(s, node, active)
    return bits.astype(np.uint32) * np.uint32(0x10001)


def _round(s: Strand, node: Call, active: Active) -> Any:
    low, high = _words(s, node, active)
    return _joined(low.astype(np.float16), high.astype(np.float16))


def _field(s: Strand, node: Call, active: Active) -> Any:
    """Numbers of some bits at two places of a word, plus a bias, as float16."""
    word, low, high, bias = (x.astype(np.int64) for x in _words(s, node, active))
    bits = int(node.attr("bits"))
    for place in (low, high):
        assert (place >= 0).all(), place
        assert (place % 8 + bits <= 8).all(), place
        assert (place + bits <= 32).all(), place
    mask = (1 << bits) - 1
    return _joined(*(((word >> at & mask) + bias).astype(np.float16) for at in (low, high)))


HANDLERS: dict[str, Any] = {
    "half2_add": _arithmetic(np.add),
    "half2_sub": _arithmetic(np.subtract),
    "half2_mul": _arithmetic(np.multiply),
    "half2_pack": _pack,
    "half2_both": _both,
    "half2_round": _round,
    "half2_field": _field,
}
