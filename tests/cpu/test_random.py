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
