"""T.copy and its variants: which regions the operands become."""

# ruff: noqa: E501  # a program and the text it must give are one line each
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from executors import holds
from vocabulary import buf, frag, one, shared, texts

import tilelang.language as T
from tilelang.ir.stmt import Store

A = buf("A", (128, 64), "float16")
A3 = buf("A3", (8, 128, 64), "float16")
K = buf("K", (2, 512, 4, 64), "float16")
S = shared("S", (128, 64))
F = frag("F", (128, 64), "float16")
ROW = frag("ROW", (64,), "float16")
m, n = T.dynamic("m, n")


@pytest.mark.parametrize(
    ("body", "text"),
    [
        # 1. whole buffers
        (lambda: T.copy(A, S), "T.copy(A, S)"),
        # 2. an element takes the other side's extents from the right
        (lambda: T.copy(A[0, 0], S), "T.copy(A, S)"),
        (lambda: T.copy(A[64, 8], S), "T.copy(A[64:192, 8:72], S)"),
        (lambda: T.copy(S, A3[3, 1, 2]), "T.copy(S, A3[3, 1:129, 2:66])"),
        (lambda: T.copy(A[5, 0], ROW), "T.copy(A[5, 0:64], ROW)"),
        # 4. extents of 1 are left out
        (lambda: T.copy(A3[2, :, :], F), "T.copy(A3[2, 0:128, 0:64], F)"),
        (lambda: T.copy(K[1, 8:136, 2, :], S), "T.copy(K[1, 8:136, 2, 0:64], S)"),
        # 5. the innermost side says how much
        (lambda: T.copy(K[1, 8:24, 2, :], S), "T.copy(K[1, 8:136, 2, 0:64], S)"),
        (lambda: T.copy(S, A[0:64, :]), "T.copy(S, A)"),
        (lambda: T.copy(S[0:64, :], F[0:32, :]), "T.copy(S[0:32, 0:64], F[0:32, 0:64])"),
        (lambda: T.copy(A[0:m, :], S), "T.copy(A, S)"),
        (lambda: T.copy(A[0:32, :], A3[0, 0:64, :]), "T.copy(A[0:32, 0:64], A3[0, 0:32, 0:64])"),
        # variants and hints
        (
            lambda: T.copy(A, S, 8, True, "evict_first"),
            'T.copy(A, S, disable_tma=True, eviction_policy="evict_first", coalesced_width=8)',
        ),
        (lambda: T.copy_cluster(A, S, cluster_mask=3), "T.copy_cluster(A, S, cluster_mask=3)"),
        (
            lambda: T.copy_cluster(
                S, S, dst_block=1, remote_barrier=buf("bar", (1,), "uint64", "shared.barrier")
            ),
            "T.copy_cluster(S, S, remote_barrier=T.address_of(bar[0]), dst_block=1)",
        ),
    ],
)
def test_operands_are_converted_to_regions(body: Callable[[], Any], text: str) -> None:
    assert texts(body) == [text]


def test_two_elements_are_one_assignment_with_a_cast() -> None:
    store = one(lambda: T.copy(A[3, 4], frag("G", (4,))[2]))
    assert isinstance(store, Store)
    assert repr(store) == 'G[2] = T.Cast("float32", A[3, 4])'


def test_a_variable_is_an_element() -> None:
    assert texts(lambda: T.copy(A[3, 4], buf("v", (1,), "float32", "local.var"))) == [
        'v[0] = T.Cast("float32", A[3, 4])'
    ]


def test_bulk_copies_signal_their_barrier() -> None:
    lines = texts(lambda: T.tma_copy(A[0, 0], S, barrier=T.alloc_barrier([1, 128])[1]))
    assert lines[1] == "T.tma_copy(A, S, barrier=T.address_of(buf[1]))"
    assert texts(lambda: T.tma_copy(S, A[0, 0])) == ["T.tma_copy(S, A)"]


def test_gathers_name_four_rows() -> None:
    bar = buf("bar", (1,), "uint64", "shared.barrier")
    rows = buf("rows", (4,), "int32")
    found = one(lambda: T.tma_gather4(A, S, 0, rows, barrier=bar))
    assert found.needs == "tcgen05" and len(found.args) == 6
    assert T.tma_gather4_bytes(64, "float16") == 512
    assert one(lambda: T.tma_scatter4(S, A, 0, [1, 2, 3, 4])).name == "tma_scatter4"


def test_a_slice_of_run_time_length_fills_a_tile_of_one_element() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def program(C: T.Tensor((n, 4), "int32"), O: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            first = T.alloc_fragment((1, 4), "int32")
            last = T.alloc_fragment((4,), "int32")
            T.copy(C[: n - 1, :], first)
            T.copy(C[n - 1 :, :], last)
            T.copy(first[0, :], O)
            for i in T.Parallel(4):
                O[i] = 10 * O[i] + last[i]

    rows = np.arange(12, dtype=np.int32).reshape(3, 4)
    holds(program, (rows, np.zeros(4, np.int32)), rows, 10 * rows[0] + rows[2])
