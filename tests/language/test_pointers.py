"""T.access_ptr: bases, extents that are checked and kept, and the words that take pointers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from executors import compiled, holds
from refusals import refusal
from tensor_types import F16, F32
from vocabulary import buf, texts

import tilelang
import tilelang.language as T
from tilelang.errors import TileError
from tilelang.ir.expr import AddressOf

A = buf("A", (8, 16), "float16")
V = buf("V", (64,), "float32")
S = buf("S", (64, 64), "float16", "shared.dyn")


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: T.access_ptr(V[3], "r"), 'T.access_ptr(V[3], "r")'),
        (lambda: T.access_ptr(V[3], "r", 16), 'T.access_ptr(V[3], "r", 16)'),
        (lambda: T.access_ptr(V[3], 2, 4, 5, extent=6), 'T.access_ptr(V[3], "w", 6)'),
        (lambda: T.access_ptr(A[2, 0], "rw", 2, 16), 'T.access_ptr(A[2, 0], "rw", 32)'),
        (lambda: T.access_ptr(A[2, 3], "r", 8, ignore_last_ndim=1),
         'T.access_ptr(A[2, 0], "r", 8)'),
        (lambda: T.access_ptr(V, "r", 8, offset=56), 'T.access_ptr(V[56], "r", 8)'),
        (lambda: T.tvm_access_ptr("float32", V, 4, 8, 3), 'T.access_ptr(V[4], "rw", 8)'),
    ],
)  # fmt: skip
def test_a_pointer_says_how_much_is_accessed(made: Callable[[], Any], text: str) -> None:
    pointer: list[Any] = []
    found = texts(
        lambda: T.evaluate(T.call_extern("void", "f", pointer.append(made()) or pointer[0]))
    )
    assert isinstance(pointer[0], AddressOf) and isinstance(pointer[0], tilelang.tvm.tir.Call)
    assert found == [f'T.call_extern({text}, name="f")']


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: T.access_ptr(V[60], "r", 8),
         "T.access_ptr reaches outside of `V`\n"
         "  expected: elements 0 to 63\n  got: elements 60 to 67"),
        (lambda: T.access_ptr(A[7, 8], "w", 2, 8), "T.access_ptr reaches outside of `A`\n"),
        (lambda: T.access_ptr(V[0], "r", 4, offset=-1), "T.access_ptr reaches outside of `V`\n"),
        (lambda: T.access_ptr(V[0], "r", 0), "an extent of T.access_ptr is not a number of elements\n"),
        (lambda: T.access_ptr(V[0], "r", 1.5), "an extent of T.access_ptr is not a number of elements\n"),
        (lambda: T.access_ptr(V[0], "r", 2, 2),
         "T.access_ptr with more extents than `V` has dimensions\n"),
        (lambda: T.access_ptr(V[0], "q"), "the access of T.access_ptr is unknown\n"),
        (lambda: T.access_ptr(A[0, 0], ignore_last_ndim=3), "ignore_last_ndim of T.access_ptr is 3\n"),
        (lambda: T.ptx_cp_async(T.access_ptr(S[0, 0], "w", 8), T.access_ptr(A[0, 0], "r", 4), 8),
         "T.ptx_cp_async copies more than the extent of its source\n"
         "  expected: at most 4 elements of `A`\n  got: 8"),
    ],
)  # fmt: skip
def test_pointers_that_reach_too_far_are_refused(made: Callable[[], Any], text: str) -> None:
    assert refusal(TileError, texts, made).startswith(text)


def test_a_name_of_an_element_is_a_base() -> None:
    @T.prim_func
    def copies(X: F32[4, 8], Y: F32[8]):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((32,), "float32")
            tx = T.get_thread_binding()
            if tx < 2:
                first = X[3, tx * 4]
                T.ptx_cp_async(T.access_ptr(tile[tx * 4], "w", 4), T.access_ptr(first, "r", 4), 4)
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            T.sync_threads()
            if tx < 8:
                Y[tx] = tile[tx]

    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    holds(copies, (x, np.zeros(8, np.float32)), x[3], on=("interpreter", "sm_80", "sm_90a"))


def test_a_name_of_another_object_is_not_a_base() -> None:
    with pytest.raises(TileError) as error:

        @T.prim_func
        def sums(X: F32[8]):
            with T.Kernel(1, threads=32):
                total = X[0] + X[1]
                T.evaluate(T.call_extern("void", "f", T.access_ptr(total, "r")))

    assert str(error.value).startswith(
        "the base of T.access_ptr is a value without an address\n"
        "  expected: a buffer, a region, an element such as A[i, j], or a name of one\n"
        "  got: `total`\n"
        "  hint: give the element itself, e.g. T.access_ptr(A[i, j])"
    )


def volta(lane: Any, layout: str, factor: str) -> Any:
    """Row or column of B, A transposed: which of 8, of the 4 elements of each lane, and their k.

    "Matrix Fragments for mma.m8n8k4" of the PTX manual.
    """
    upper, element = lane[:, None] // 16 * 4, np.arange(4)[None, :]
    outer_first = (layout == "row") == (factor == "a")  # a lane has one row of A, all of its k
    if outer_first:
        return lane[:, None] % 4 + upper + 0 * element, element + 0 * lane[:, None]
    return element + upper, lane[:, None] % 4 + 0 * element


@pytest.mark.parametrize("place", ["sm_70", "sm_75"])
def test_the_matrix_instruction_of_volta_runs_there(place: str) -> None:
    """Four products of 8 x 8 x 4: each quad pair of lanes holds factors of its own."""
    layouts = [(a, b) for a in ("row", "col") for b in ("row", "col")]

    @T.prim_func
    def products(X: F16[32, 4], Y: F16[32, 4], Z: F32[4, 32, 8]):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            a, b = T.alloc_local((4,), "float16"), T.alloc_local((4,), "float16")
            c = T.alloc_local((8,), "float32")
            for i in T.serial(4):
                a[i] = X[tx, i]
                b[i] = Y[tx, i]
            for n, (left, right) in enumerate(layouts):
                for i in T.serial(8):
                    c[i] = Z[n, tx, i]
                T.ptx_mma_sm70(
                    "float16",
                    "m16n16k4",
                    left,
                    right,
                    "fp16",
                    "fp16",
                    "fp32",
                    a.data,
                    0,
                    b.data,
                    0,
                    c.data,
                    0,
                )
                for i in T.serial(8):
                    Z[n, tx, i] = c[i]

    rng = np.random.default_rng(1)
    x, y = (rng.integers(-4, 5, (32, 4)).astype(np.float16) for _ in range(2))
    z = rng.integers(-4, 5, (4, 32, 8)).astype(np.float32)
    want, lane, i = z.copy(), np.arange(32), np.arange(8)[None, :]
    group = lane % 16 // 4
    row = (lane[:, None] & 1) + (i & 2) + lane[:, None] // 16 * 4
    column = (i & 4) + (lane[:, None] & 2) + (i & 1)
    for n, (left, right) in enumerate(layouts):
        a, b = np.zeros((4, 8, 4), np.float32), np.zeros((4, 8, 4), np.float32)
        a[(group[:, None], *volta(lane, left, "a"))] = x
        b[(group[:, None], *volta(lane, right, "b"))] = y
        want[n] += (a @ b.transpose(0, 2, 1))[group[:, None], row, column]
    compiled(products, place)(x, y, z)
    np.testing.assert_array_equal(z, want)
    with pytest.raises(TileError) as error:
        tilelang.compile(products, target="cuda -arch=sm_61", execution_backend="emulator")
    assert "sm_70" in str(error.value) or "sm_61" in str(error.value)
