"""T.access_ptr: bases, extents that are checked and kept, and the words that take pointers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from executors import compiled, holds
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
        (lambda: T.access_ptr(V[3], "r"), 'T.address_of(V[3], "r")'),
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
    assert isinstance(pointer[0], AddressOf)
    assert found == [f'T.call_extern({text}, name="f")']


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (lambda: T.access_ptr(V[60], "r", 8),
         "T.access_ptr reaches outside of `V`\n"
         "  expected: elements 0 to 63\n  got: elements 60 to 67"),
        (lambda: T.access_ptr(A[7, 8], "w", 2, 8), "T.access_ptr reaches outside of `A`\n"),
        (lambda: T.access_ptr(V[0], "r", 4, offset=-1), "T.access_ptr reaches outside of `V`\n"),
        (lambda: T.access_ptr(V[0], "r", 0), "an extent of T.access_ptr is no number of elements\n"),
        (lambda: T.access_ptr(V[0], "r", 1.5), "an extent of T.access_ptr is no number of elements\n"),
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
    with pytest.raises(TileError) as error:
        texts(made)
    assert str(error.value).startswith(text)


def test_a_name_of_an_element_is_a_base() -> None:
    @T.prim_func
    def copies(X: T.Tensor((4, 8), "float32"), Y: T.Tensor((8,), "float32")):
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


def test_a_name_of_something_else_is_no_base() -> None:
    with pytest.raises(TileError) as error:

        @T.prim_func
        def sums(X: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=32):
                total = X[0] + X[1]
                T.evaluate(T.call_extern("void", "f", T.access_ptr(total, "r")))

    assert str(error.value).startswith(
        "the base of T.access_ptr is a value without a place\n"
        "  expected: a buffer, a region, an element such as A[i, j], or a name of one\n"
        "  got: `total`\n"
        "  hint: give the element itself, e.g. T.access_ptr(A[i, j])"
    )


def test_the_matrix_instruction_of_volta_runs_there() -> None:
    """Four products of 8 x 8 x 4: each quad pair of lanes holds factors of its own."""

    @T.prim_func
    def products(X: T.Tensor((32, 4), "float16"), Y: T.Tensor((32, 8), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            a, b = T.alloc_local((4,), "float16"), T.alloc_local((4,), "float16")
            c = T.alloc_local((8,), "float32")
            for i in T.serial(4):
                a[i] = X[tx, i]
                b[i] = T.float16(1.0)
            for i in T.serial(8):
                c[i] = 0.0
            T.ptx_mma_sm70(
                "m16n16k4", "row", "col", "fp16", "fp16", "fp32", a.data, 0, b.data, 0, c.data, 0
            )
            for i in T.serial(8):
                Y[tx, i] = c[i]

    x = np.random.default_rng(1).integers(-4, 5, (32, 4)).astype(np.float16)
    got = {place: np.zeros((32, 8), np.float32) for place in ("sm_70", "sm_75")}
    for place, y in got.items():
        compiled(products, place)(x, y)
    # With ones for the other factor every element is the sum of its row of the first.
    sums = set(x.astype(np.float32).sum(1).tolist())
    assert set(got["sm_70"].ravel().tolist()) <= sums
    np.testing.assert_array_equal(got["sm_70"], got["sm_75"])
    with pytest.raises(TileError) as error:
        tilelang.compile(products, target="cuda -arch=sm_61", execution_backend="emulator")
    assert "sm_70" in str(error.value) or "sm_61" in str(error.value)
