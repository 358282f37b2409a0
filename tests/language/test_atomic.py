"""Atomic updates: elements and tiles, memory orders, previous values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from vocabulary import buf, emitted, frag, one, shared, texts

import tilelang.language as T
from tilelang.ir.expr import AddressOf, Call
from tilelang.ir.stmt import AtomicTile, Eval, Parallel

G = buf("G", (64, 64))
N = buf("N", (8,), "int32")
H = buf("H", (64,), "float16")
F = frag("F", (32, 64))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (lambda: T.atomic_add(G, frag("W", (64, 64))), "T.atomic_add(G, W)"),
        (lambda: T.atomic_add(G[32, 0], F), "T.atomic_add(G[32:64, 0:64], F)"),
        (lambda: T.atomic_max(G[0:32, :], F), "T.atomic_max(G[0:32, 0:64], F)"),
        (lambda: T.atomic_min(G[0, 0], F[0:4, :]), "T.atomic_min(G[0:4, 0:64], F[0:4, 0:64])"),
    ],
)
def test_tiles(body: Callable[[], Any], text: str) -> None:
    found = one(body)
    assert isinstance(found, AtomicTile)
    assert repr(found) == text


@pytest.mark.parametrize("op", ["add", "max", "min", "or"])
def test_elements(op: str) -> None:
    found = one(lambda: getattr(T, f"atomic_{op}")(N[3], 1.5, memory_order="acq_rel"))
    assert isinstance(found, Eval)
    call = found.value
    assert isinstance(call, Call) and call.op == f"atomic_{op}"
    assert isinstance(call.args[0], AddressOf) and call.args[0].buffer is N
    assert int(call.args[1]) == 1 and call.args[1].dtype == "int32"
    assert call.attrs == (("memory_order", "acq_rel"), ("return_prev", False))


def test_tiles_take_one_amount_for_all_elements() -> None:
    total = buf("total", (1,))
    assert texts(lambda: T.atomic_add(total, 1)) == [
        "for i0 in T.Parallel(1):",
        '    T.atomic_add(T.address_of(total[i0]), T.float32(1.0), dtype="float32", '
        'memory_order="relaxed", return_prev=False)',
    ]
    found = one(lambda: T.atomic_max(G[8:16, 5:6], N[0]))
    assert isinstance(found, Parallel) and [int(e) for e in found.extents] == [8]


def test_previous_values_are_expressions() -> None:
    def body() -> None:
        old = T.atomic_add(N[0], 1, return_prev=True)
        assert old.dtype == "int32" and old.attr("return_prev") is True

    assert emitted(body) == []


def test_vectors_are_addresses_or_values() -> None:
    found = one(lambda: T.atomic_addx2(H[2], shared("S", (64,))[4])).value
    assert found.dtype == "float16x2" and isinstance(found.args[1], AddressOf)
    pair = T.float16x2(1, 2)
    assert one(lambda: T.atomic_addx2(H[2], pair)).value.args[1] is pair
    four = one(lambda: T.atomic_addx4(G[0, 4], G[1, 4])).value
    assert four.op == "atomic_addx4" and four.dtype == "float32x4"


def test_loads_and_stores() -> None:
    load = T.atomic_load(N[1])
    assert (load.op, load.dtype, load.attr("memory_order")) == ("atomic_load", "int32", "seq_cst")
    assert texts(lambda: T.atomic_store(N[1], 5, "release")) == [
        'T.atomic_store(T.access_ptr(N[1], "w"), 5, dtype="int32", memory_order="release")'
    ]
