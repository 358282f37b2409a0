"""Forms that programs are written in, with the same results everywhere: interpreter, C, emulator.

The emulator has to find nothing in the text for two generations.
"""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import numpy as np
import pytest
from executors import holds
from refusals import refusal
from tensor_types import F32

import tilelang
import tilelang.language as T
from tilelang.emulator.compilers import find_cxx
from tilelang.errors import CompileError, KernelArgumentError
from tilelang.ir.stmt import PrimFunc

pytestmark = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")

GPU = "cuda -arch=sm_80"


def sums(lanes: int, source: str, dtype: str, width: int) -> PrimFunc:
    add = {2: T.atomic_addx2, 4: T.atomic_addx4}[lanes]

    @T.prim_func
    def f(A: T.Tensor((4, width), source), B: T.Tensor((4, width), dtype)):
        with T.Kernel(2, threads=32) as bx:
            for i, j in T.Parallel(4, T.ceildiv(width, lanes)):
                at = j * lanes + bx
                add(B[i, at], A[i, at])

    return f


@pytest.mark.parametrize(
    ("lanes", "source", "dtype"),
    [
        (2, "float32", "float32"), (4, "float32", "float32"), (2, "float16", "float16"),
        (4, "float16", "float16"), (2, "float32", "float16"), (4, "int32", "float32"),
    ],
)  # fmt: skip
def test_sums_of_neighbours_in_a_parallel_loop_stop_at_the_edge(
    lanes: int, source: str, dtype: str
) -> None:
    width = 22  # the last call of a row goes over its end, into the next row
    a = np.random.default_rng(0).integers(-4, 5, (4, width)).astype(source)
    b = np.zeros((4, width), dtype)
    expected = np.zeros((4, width))
    for bx in range(2):
        for at in range(-(-width // lanes) * lanes):
            if at + bx < width:
                expected[:, at + bx] += a[:, at + bx]
    holds(sums(lanes, source, dtype, width), (a, b), expected)


def test_previous_values_of_neighbours_go_to_a_slice() -> None:
    @T.prim_func
    def f(D: T.Tensor((4,), "float16"), V: T.Tensor((4,), "float16"), P: T.Tensor((8,), "float16")):
        with T.Kernel(1, threads=1):
            P[0:4] = T.atomic_addx4(D[0:4], V[0:4], return_prev=True)
            d = D[0:2]
            v = V[0:2]
            P[4:6] = T.atomic_addx2(d, v, return_prev=True)
            P[6:8] = T.atomic_addx2(D[T.Ramp(2, 1, 2)], V[T.Ramp(2, 1, 2)], return_prev=True)

    d, v = np.arange(4, dtype=np.float16), np.ones(4, np.float16)
    holds(f, (d, v, np.zeros(8, np.float16)), [2, 3, 4, 5], v, [0, 1, 2, 3, 1, 2, 3, 4])


def test_the_same_amount_for_every_element_of_a_tile_is_added_once() -> None:
    @T.prim_func
    def f(A: T.Tensor((40, 50), "float32"), C: T.Tensor((1,), "int32")):
        with T.Kernel(2, 2, threads=64) as (bx, by):
            T.atomic_add(A[bx * 32 : bx * 32 + 32, by * 32 : by * 32 + 32], 1.5)
            T.atomic_add(C, 2)

    given = np.zeros((40, 50), np.float32), np.zeros(1, np.int32)
    holds(f, given, np.full((40, 50), 1.5), [8])  # of four blocks


def test_slices_of_a_few_elements_are_values() -> None:
    @T.prim_func
    def f(k: T.int32, A: T.Tensor((8,), "float32"), B: T.Tensor((2, 8), "float32")):
        with T.Kernel(1, threads=1):
            B[0, k : k + 4] = A[0:4]
            B[0, 4:8] = 3
            row = B[0, 2:6]
            B[1, 4:8] = row
            B[1, 0:2] = T.Broadcast(A[7], 2)
            B[1, 2:3] = A[6]

    a = np.arange(8, dtype=np.float32)
    wanted = [[0, 1, 2, 3, 3, 3, 3, 3], [7, 7, 6, 0, 2, 3, 3, 3]]
    holds(f, (0, a, np.zeros((2, 8), np.float32)), wanted)


def test_parallel_loops_in_parallel_loops() -> None:
    @T.prim_func
    def f(n: T.int32, A: F32[32, 64], B: F32[32, 64], C: F32[64]):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((32, 64), "float32")
            s = T.alloc_fragment((32,), "float32")
            sums = T.alloc_fragment((64,), "float32")
            T.copy(A, a)
            for i in T.Parallel(32):
                s[i] = i
                for j in T.Parallel(64):
                    if i >= n:
                        a[i, j] = s[i]
            T.copy(a, B)
            for i in T.Parallel(32):
                for j in T.Parallel(64):
                    if i >= n:
                        a[i, j] = 0.0
            T.reduce_sum(a, sums, dim=0)
            T.copy(sums, C)

    a = np.random.default_rng(2).integers(-9, 9, (32, 64)).astype(np.float32)
    wanted = a.copy()
    wanted[20:] = np.arange(20, 32)[:, None]
    holds(f, (20, a, np.zeros_like(a), np.zeros(64, np.float32)), wanted, a[:20].sum(0))


def test_the_memory_of_a_tensor_or_tile_in_another_shape() -> None:
    @T.prim_func
    def f(A: T.Tensor((2, 4, 8), "float32"), B: T.Tensor((2, 4, 8), "float32")):
        rows = T.Tensor((8, 8), "float32", A.data)
        with T.Kernel(2, threads=32) as bx:
            out = T.Tensor((8, 8), "float32", data=B.data)
            s = T.alloc_shared((4, 8), "float32")
            flat = T.Tensor((32,), "float32", s.data)
            T.copy(rows[bx * 4, 0], s)
            for i in T.Parallel(32):
                flat[i] = flat[i] * 2
            T.copy(s, out[bx * 4, 0])

    a = np.random.default_rng(3).normal(size=(2, 4, 8)).astype(np.float32)
    holds(f, (a, np.zeros_like(a)), a * 2)


TEMPLATES = """
template <typename A, typename B>
__device__ void widen(A* a, B* b, const int n = 4) {
    unsigned* words = reinterpret_cast<unsigned*>(b);
    for (int i = 0; i < n / 2; ++i) words[i] = 0x3c003c00u + a[i];
}
template <typename B> __device__ void twice(B* b) { b[0] = b[0] * 2; }
"""


def with_templates(name: str) -> PrimFunc:
    @T.prim_func
    def f(A: T.Tensor((4,), "int8"), B: T.Tensor((4,), "float16")):
        with T.Kernel(1, threads=1):
            T.import_source(TEMPLATES)
            a = T.alloc_local((4,), "int8")
            b = T.alloc_local((4,), "float16")
            for i in T.serial(4):
                a[i] = A[i]
            if name == "widen":
                T.call_extern("handle", "widen", T.address_of(a[0]), T.address_of(b[0]))
            else:
                T.call_extern("handle", "twice", T.address_of(b[0]))
            for i in T.serial(4):
                B[i] = b[i]

    return f


def test_templates_of_the_user_take_pointers_to_halves_but_do_not_compute_with_their_bits() -> None:
    tilelang.compile(with_templates("widen"), target=GPU)
    kernel = tilelang.compile(with_templates("widen"), target=GPU, execution_backend="emulator")
    out = np.zeros(4, np.float16)
    kernel(np.zeros(4, np.int8), out)
    assert out.tolist() == [1, 1, 1, 1]
    with pytest.raises(CompileError, match="no operator"):
        tilelang.compile(with_templates("twice"), target=GPU)


def test_read_only_memory_is_not_given_to_external_calls_that_may_write() -> None:
    @T.prim_func
    def call(A: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=1):
            T.import_source("static __device__ void set_two(float* at) { *at = 2.0f; }")
            T.call_extern("void", "set_two", T.address_of(A[0]))

    kernel = tilelang.compile(call, target=GPU, execution_backend="emulator")
    given = np.zeros(4, np.float32)
    kernel(given)
    assert given[0] == 2
    given.flags.writeable = False
    assert refusal(KernelArgumentError, kernel, given) == (
        "kernel call input A is read-only\n"
        "  expected: memory that the kernel can write\n"
        "  got: a read-only array\n"
        "  hint: pass a copy"
    )
