"""Random numbers of threads: the words of cuRAND's Philox, as the interpreter draws them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.errors import DeviceAssertError, TileUnsupportedError

from .modes import MODES

COUNT = 40
needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")


def run(kernel: Any, shape: tuple[int, ...], dtype: str, mode: str) -> np.ndarray:
    out = np.zeros(shape, dtype)
    tilelang.compile(kernel, **MODES[mode])(out)  # type: ignore[call-overload]  # options by name
    return out


@needs_compiler
def test_words_are_those_of_the_interpreter_and_of_cuda() -> None:
    @T.prim_func
    def kernel(B: T.Tensor((3, COUNT, 9), "uint32")):
        with T.Kernel(3, threads=COUNT) as b:
            tx = T.get_thread_binding()
            T.rng_init(1234567890123, off=b)
            if tx % 3 != 1:
                B[b, tx, 8] = T.rng_rand()
            for k in T.serial(8):
                if k == 4:
                    T.sync_threads()
                B[b, tx, k] = T.rng_rand()

    shape = (3, COUNT, 9)
    wanted = run(kernel, shape, "uint32", "interpret")
    assert len(np.unique(wanted[:, :, :8])) > COUNT * 20
    for mode in ("cpu", "sm_80"):
        np.testing.assert_array_equal(run(kernel, shape, "uint32", mode), wanted, err_msg=mode)


@needs_compiler
@pytest.mark.parametrize("bit", [32, 64])
def test_uniform_numbers_are_equal_and_normal_ones_nearly(bit: int) -> None:
    @T.prim_func
    def kernel(B: T.Tensor((2, COUNT, 5), f"float{bit}")):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            T.rng_init(7, seq=tx, off=3)
            for k in T.serial(5):
                B[0, tx, k] = T.rng_rand_float(bit)
            for k in T.serial(5):
                B[1, tx, k] = T.rng_rand_float(bit, "normal")

    shape = (2, COUNT, 5)
    wanted, found = (run(kernel, shape, f"float{bit}", mode) for mode in ("interpret", "cpu"))
    np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_allclose(found[1], wanted[1], rtol=2e-5, atol=2e-6)
    assert abs(found[1]).max() > 1


@needs_compiler
def test_a_number_before_the_start_of_the_generator_is_an_error() -> None:
    @T.prim_func
    def kernel(B: T.Tensor((COUNT,), "uint32")):
        with T.Kernel(1, threads=COUNT):
            B[T.get_thread_binding()] = T.rng_rand()

    with pytest.raises(DeviceAssertError) as caught:
        run(kernel, (COUNT,), "uint32", "cpu")
    assert "a random number is drawn before the generator is initialised" in str(caught.value)
    assert "test_random.py" in str(caught.value)


@needs_compiler
def test_iterations_of_a_shared_loop_draw_from_the_generators_of_their_threads() -> None:
    @T.prim_func
    def kernel(B: T.Tensor((4, COUNT, 9), "uint32"), C: T.Tensor((3, COUNT), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            kept = T.alloc_fragment((COUNT, 9), "uint32")
            total = T.alloc_local((1,), "uint32")
            T.rng_init(11, off=1)
            for i, j in T.Parallel(COUNT, 9):
                kept[i, j] = T.rng_rand()
            T.copy(kept, B[0, :, :])
            for k in T.serial(2):
                for i in T.Parallel(COUNT):
                    if i % 3 != k:
                        first = T.rng_rand()
                        B[1 + k, i, 0] = first + T.rng_rand()
            total[0] = 0
            for i in T.Parallel(COUNT):
                total[0] += T.rng_rand()
            B[3, tx, 0] = total[0] + T.rng_rand()
            for i in T.Parallel(COUNT):
                C[0, i] = T.rng_rand_float()
                C[1, i] = T.rng_rand_float(dist="normal")
            for i in T.Parallel(COUNT):
                T.rng_init(5, seq=i)
                C[2, i] = T.rng_rand_float()

    found = []
    for mode in ("interpret", "cpu"):
        words, numbers = np.zeros((4, COUNT, 9), np.uint32), np.zeros((3, COUNT), np.float32)
        tilelang.compile(kernel, **MODES[mode])(words, numbers)  # type: ignore[call-overload]  # options by name
        found.append((words, numbers))
    np.testing.assert_array_equal(found[1][0], found[0][0])
    np.testing.assert_array_equal(found[1][1][[0, 2]], found[0][1][[0, 2]])
    np.testing.assert_allclose(found[1][1][1], found[0][1][1], rtol=2e-5, atol=2e-6)
    assert len(np.unique(found[0][0][0])) == COUNT * 9


@needs_compiler
def test_a_shared_loop_of_some_threads_does_not_draw() -> None:
    @T.prim_func
    def kernel(B: T.Tensor((COUNT,), "uint32")):
        with T.Kernel(1, threads=32):
            T.rng_init(11)
            if T.get_thread_binding() < 16:
                for i in T.Parallel(COUNT):
                    B[i] = T.rng_rand()

    with pytest.raises(TileUnsupportedError) as caught:
        run(kernel, (COUNT,), "uint32", "cpu")
    assert str(caught.value).split("\n -->")[0] == (
        "T.rng_rand in the iterations of a loop that some threads share on the CPU\n"
        "  expected: thread code, or a T.Parallel of all threads of the block\n"
        "  got: `T.rng_rand()`"
    )


def test_other_generators_are_refused() -> None:
    with pytest.raises(TileUnsupportedError) as caught:

        @T.prim_func
        def kernel(B: T.Tensor((COUNT,), "uint32")):
            with T.Kernel(1, threads=COUNT):
                tx = T.get_thread_binding()
                T.rng_init(7, seq=tx, generator="curandStateXORWOW_t")
                B[tx] = T.rng_rand()

    assert str(caught.value).split("\n -->")[0] == (
        "the random generator curandStateXORWOW_t is not part of this implementation\n"
        "  expected: curandStatePhilox4_32_10_t\n"
        "  got: curandStateXORWOW_t\n"
        "  hint: its numbers would have to be those of cuRAND bit for bit; Philox gives them"
    )
