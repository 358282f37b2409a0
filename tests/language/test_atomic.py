"""Atomic updates by one amount for all elements, and by vectors."""

from __future__ import annotations

from vocabulary import buf, one, shared, texts

import tilelang.language as T
from tilelang.ir.expr import AddressOf
from tilelang.ir.stmt import Parallel

G = buf("G", (64, 64))
N = buf("N", (8,), "int32")
H = buf("H", (64,), "float16")


def test_tiles_take_one_amount_for_all_elements() -> None:
    total = buf("total", (1,))
    assert texts(lambda: T.atomic_add(total, 1)) == [
        "for i0 in T.Parallel(1):",
        '    T.atomic_add(T.address_of(total[i0]), T.float32(1.0), dtype="float32", '
        'memory_order="relaxed", return_prev=False)',
    ]
    found = one(lambda: T.atomic_max(G[8:16, 5:6], N[0]))
    assert isinstance(found, Parallel) and [int(e) for e in found.extents] == [8]


def test_vectors_are_addresses_or_values() -> None:
    found = one(lambda: T.atomic_addx2(H[2], shared("S", (64,))[4])).value
    assert found.dtype == "float16x2" and isinstance(found.args[1], AddressOf)
    pair = T.float16x2(1, 2)
    assert one(lambda: T.atomic_addx2(H[2], pair)).value.args[1] is pair
    four = one(lambda: T.atomic_addx4(G[0, 4], G[1, 4])).value
    assert four.op == "atomic_addx4" and four.dtype == "float32x4"
