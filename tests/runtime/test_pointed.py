"""Tensors in the place of pointers: their dtype and size are those that the program takes there."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.errors import KernelArgumentError
from tilelang.runtime.launch_spec import launch_spec


@T.prim_func
def rows(p: T.ptr, B: T.Tensor((16,), "float32"), M: T.int32, N: T.int32):
    A = T.make_tensor(p, (M, N), "float32")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(16):
            if i < M * N:
                B[i] = A[i // N, i % N]


@T.prim_func
def steps(p: T.ptr, B: T.Tensor((4,), "float32")):
    with T.Kernel(1, threads=32):
        A = T.make_tensor(p, (4,), "float32", strides=(3,), elem_offset=2)
        for i in T.Parallel(4):
            B[i] = A[i]


@T.prim_func
def moved(p: T.ptr, B: T.Tensor((4,), "float32"), first: T.int32):
    with T.Kernel(1, threads=32):
        A = T.make_tensor(p, (4,), "float32", elem_offset=first)
        for i in T.Parallel(4):
            B[i] = A[i]


HEAD = "kernel rows input p has "
BYTES = (
    "  hint: the kernel takes float32 to be there; pass a view of bytes, or the address as an int, "
    "if that is meant"
)


@pytest.mark.parametrize("backend", ["c", "python", "interpret"])
def test_pointed_tensors_match_the_program(backend: str) -> None:
    kernel = tilelang.compile(rows, target="cpu", execution_backend=backend)
    b = np.zeros(16, np.float32)
    whole = np.arange(16, dtype=np.float32)
    for given in (whole, whole.reshape(4, 4), whole.view(np.uint8), whole.ctypes.data):
        b[:] = 0
        kernel(given, b, 4, 4)
        np.testing.assert_array_equal(b, whole)
    kernel(whole[:4].copy(), b, 2, 2)
    assert refusal(KernelArgumentError, kernel, whole[:4].copy(), b, 4, 4) == (
        f"{HEAD}too few elements\n  expected: M*N = 16 (M = 4 from argument M, N = 4 from "
        "argument N)\n  got: 4 of float32 (shape (4,))"
    )
    assert refusal(KernelArgumentError, kernel, whole.astype(np.float64), b, 4, 4) == (
        f"{HEAD}the wrong dtype\n  expected: float32\n  got: float64\n{BYTES}"
    )


def test_steps_and_offsets_count() -> None:
    kernel = tilelang.compile(steps, target="cpu")
    a, b = np.arange(12, dtype=np.float32), np.zeros(4, np.float32)
    kernel(a, b)
    np.testing.assert_array_equal(b, a[2::3])
    with pytest.raises(KernelArgumentError, match="too few elements"):
        kernel(a[:11].copy(), b)
    kernel = tilelang.compile(moved, target="cpu")
    kernel(a, b, 8)
    np.testing.assert_array_equal(b, a[8:])
    with pytest.raises(KernelArgumentError, match="too few elements"):
        kernel(a, b, 9)


@pytest.mark.parametrize("func", [rows, steps, moved])
def test_a_spec_keeps_them(func: Any) -> None:
    spec = launch_spec(func)
    assert spec.params[0].views
    assert pickle.loads(pickle.dumps(spec)) == spec
