"""The hardware words: documented signatures, barriers, addresses, vector accesses, warps."""

# ruff: noqa: E501  # a program and the text it must give are one line each
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from vocabulary import buf, emitted, shared, texts

import tilelang.language as T
from tilelang.errors import TileValueError
from tilelang.ir.expr import AddressOf, Call, Load

A = buf("A", (16, 64), "float16")
S = shared("S", (16, 64))
G = buf("G", (64,), "float32")
BAR = buf("BAR", (2,), "uint64", "shared.barrier")
x = T.int32()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (lambda: T.sync_threads(), "T.sync_threads()"),
        (lambda: T.named_barrier_arrive(1, 64), "T.named_barrier_arrive(1, 64)"),
        (lambda: T.sync_warp(), "T.sync_warp()"),
        (lambda: T.tvm_storage_sync("shared"), "T.sync_threads()"),
        (lambda: T.tvm_storage_sync("warp"), "T.sync_warp()"),
        (lambda: T.barrier_arrive(BAR), "T.mbarrier_arrive(T.address_of(BAR[0]))"),
        (lambda: T.mbarrier_arrive(BAR[0:1], 0), "T.mbarrier_arrive(T.address_of(BAR[0]), 0)"),
        (lambda: T.barrier_wait(BAR[x], 1), "T.mbarrier_wait(T.address_of(BAR[v]), 1)"),
        (lambda: T.mbarrier_wait_parity(BAR[0], x & 1),
         "T.mbarrier_wait(T.address_of(BAR[0]), v & 1)"),
        (lambda: T.evaluate(T.call_extern("float32", "sinf", x)),
         'T.call_extern(v, dtype="float32", name="sinf")'),
        (lambda: T.evaluate(T.call_extern("f", G, G[1], "t", dtype="handle")),
         'T.call_extern(T.address_of(G[0]), G[1], "t", name="f")'),
        (lambda: T.rng_init(7, seq=1, off=2),
         "T.rng_init(T.uint64(7), T.uint64(1), T.uint64(2), "
         'generator="curandStatePhilox4_32_10_t")'),
    ],
)  # fmt: skip
def test_intrinsics_become_statements(body: Callable[[], Any], text: str) -> None:
    assert texts(body) == [text]


@pytest.mark.parametrize(
    ("body", "role"),
    [
        (lambda: T.warpgroup_wait(-1), "count of T.warpgroup_wait"),
        (lambda: T.tma_store_wait(-1), "count of T.tma_store_wait"),
        (lambda: T.mbarrier_expect_tx(BAR[0], -16), "byte count of T.mbarrier_expect_tx"),
        (lambda: T.mbarrier_wait_parity(BAR[0], -1), "parity of T.mbarrier_wait_parity"),
        (lambda: T.mbarrier_arrive(BAR[0], -1), "block of T.mbarrier_arrive"),
    ],
)
def test_counts_and_numbers_are_not_negative(body: Callable[[], Any], role: str) -> None:
    with pytest.raises(TileValueError, match=f"the {role} is negative"):
        emitted(body)


def test_barriers_can_be_named_by_number() -> None:
    def body() -> None:
        T.create_list_of_mbarrier(128, [1, 2])
        T.barrier_arrive(2)
        T.barrier_wait(T.get_mbarrier(0), 1)

    made, arrive, wait = emitted(body)
    assert made.buffer.attrs.arrive_counts == (128, 1, 2)
    assert arrive.value.args[0].buffer is made.buffer
    assert repr(wait) == "T.mbarrier_wait(T.address_of(buf[0]), 1)"


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (lambda: T.access_ptr(A[2, 3], "w"), 'T.access_ptr(A[2, 3], "w")'),
        (lambda: T.access_ptr(A[2, 3], 3, 8, offset=4), 'T.access_ptr(A[2, 7], "rw", 8)'),
        (lambda: T.access_ptr(A[2:4, :], "r", 2, 64), 'T.access_ptr(A[2, 0], "r", 128)'),
        (lambda: T.access_ptr(A, 1), 'T.access_ptr(A[0, 0], "r")'),
        (lambda: T.access_ptr(A[2, 3], "r", ignore_last_ndim=1), 'T.access_ptr(A[2, 0], "r")'),
        (lambda: T.address_of(A[1, 2]), "T.address_of(A[1, 2])"),
        (lambda: A.access_ptr("r", offset=5), 'T.access_ptr(A[0, 5], "r")'),
        (lambda: T.tvm_access_ptr(T.type_annotation("float16"), A, 3, 8, 1),
         'T.access_ptr(A[0, 3], "r", 8)'),
    ],
)  # fmt: skip
def test_addresses(address: Callable[[], Any], text: str) -> None:
    found = address()
    assert isinstance(found, AddressOf) and repr(found) == text


def test_a_load_of_32_bits_needs_no_cast() -> None:
    assert isinstance(T.lds32(shared("U", (4,), "uint32")[1]), Load)
    assert T.__ldg(G[3]).dtype == "float32" and T.__ldg(G, 3).args == T.__ldg(G[3]).args
    assert T.__ffs(x).op == "ffs" and T.__fns(x, 0, 1).op == "fns"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (lambda: T.shfl_sync(T.uint32(0xFFFFFFFF), x, 3, 16), "T.shfl_sync(v, 3, width=16)"),
        (lambda: T.shfl_sync(x, 3, mask=0xF), "T.shfl_sync(v, 3, width=32, mask=T.uint32(15))"),
        (
            lambda: T.shfl_sync(T.activemask(), x, 3),
            "T.shfl_sync(v, 3, width=32, mask=T.activemask())",
        ),
        (lambda: T.tvm_warp_shuffle_up(-1, x, 2, 32, 32), "T.shfl_up(v, 2)"),
        (lambda: T.tvm_warp_shuffle(T.tvm_warp_activemask(), x, 2, 32, 32), "T.shfl_sync(v, 2)"),
        (lambda: T.ballot_sync(x > 0, 0xF), "T.ballot_sync(v > 0, T.uint32(15))"),
        (lambda: T.any_of(S[3, 0:8]), "T.any_of(S[3, 0:8])"),
        (lambda: T.isnullptr(G), 'T.isnullptr(T.access_ptr(G[0], "r"))'),
    ],
)
def test_values_of_warps_and_tiles(value: Callable[[], Any], text: str) -> None:
    found = value()
    assert isinstance(found, Call) and repr(found) == text
