"""T.gemm: operands, flags and variants."""

# ruff: noqa: E501  # a program and the text it must give are one line each
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from vocabulary import buf, frag, one, shared, texts

import tilelang.language as T
from tilelang.ir.stmt import Gemm, HardwareOp

A = shared("A", (128, 32))
B = shared("B", (32, 64))
BT = shared("BT", (64, 32))
C = frag("C", (128, 64))
STAGES = shared("STAGES", (3, 128, 32))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (
            lambda: T.gemm(A, BT, C, transpose_B=True, policy=T.GemmWarpPolicy.FullRow),
            "T.gemm(A, BT, C, transpose_B=True, policy=1)",
        ),
        (lambda: T.gemm(STAGES[1, :, :], B, C), "T.gemm(STAGES[1, 0:128, 0:32], B, C)"),
        (lambda: T.gemm_v1(A, B, C), "T.gemm(A, B, C)"),
        (lambda: T.gemm_v2(A, B, C), "T.gemm(A, B, C)"),
        (lambda: T.wgmma_gemm(A, B, C), "T.wgmma_gemm(A, B, C)"),
        (lambda: T.wgmma_mma(A, B, C), "T.wgmma_gemm(A, B, C)"),
    ],
)
def test_products(body: Callable[[], Any], text: str) -> None:
    assert texts(body) == [text]


def test_accumulators_may_be_cleared_by_a_condition() -> None:
    k = T.dynamic("k")
    found = one(lambda: T.gemm(A, B, C, clear_accum=k == 0))
    assert isinstance(found, Gemm) and repr(found.clear) == "k == 0"
    assert repr(one(lambda: T.gemm(A, B, C, clear_accum=k)).clear) == "k != 0"


def test_products_in_flight_are_marked() -> None:
    assert one(lambda: T.gemm(A, B, C, wg_wait=-1)).asynchronous
    assert not one(lambda: T.gemm(A, B, C, wg_wait=0)).asynchronous


def test_a_product_names_the_barrier_that_it_arrives_at() -> None:
    bar = buf("bar", (1,), "uint64", "shared.barrier")
    for body in (
        lambda: T.gemm(A, B, C, mbar=bar),
        lambda: T.gemm(A, B, C, False, False, T.GemmWarpPolicy.Square, False, 1, bar),
        lambda: T.gemm(A, B, C, mbar=bar[0], wg_wait=-1),
    ):
        found = one(body)
        assert isinstance(found, Gemm) and not found.asynchronous
        assert found.barrier is not None and "mbar=" in repr(found)


def test_tensor_memory_means_sm_100() -> None:
    bar = buf("bar", (1,), "uint64", "shared.barrier")
    for body in (
        lambda: T.gemm(A, B, buf("D", (128, 64), "float32", "shared.tmem")),
        lambda: T.tcgen05_gemm(A, B, C, mbar=bar, use_2cta=True),
    ):
        found = one(body)
        assert isinstance(found, HardwareOp)
        assert (found.name, found.needs) == ("tcgen05_gemm", "tcgen05")
