"""Random numbers of threads: the words of cuRAND's Philox, as the interpreter draws them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tensor_types import F32, F64, U32, U64

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
def test_random_bits_agree_with_interpreter_and_cuda() -> None:
    @T.prim_func
    def kernel(B: U32[3, COUNT, 9]):
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
def test_a_number_before_the_start_of_the_generator_is_an_error() -> None:
    @T.prim_func
    def kernel(B: U32[COUNT]):
        with T.Kernel(1, threads=COUNT):
            B[T.get_thread_binding()] = T.rng_rand()

    with pytest.raises(DeviceAssertError) as caught:
        run(kernel, (COUNT,), "uint32", "cpu")
    assert "a random number is drawn before the generator is initialised" in str(caught.value)
    assert "test_random.py" in str(caught.value)


@needs_compiler
def test_iterations_of_a_shared_loop_draw_from_the_generators_of_their_threads() -> None:
    @T.prim_func
    def kernel(B: U32[4, COUNT, 9], C: F32[3, COUNT]):
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

    actual = []
    for mode in ("interpret", "cpu"):
        words, numbers = np.zeros((4, COUNT, 9), np.uint32), np.zeros((3, COUNT), np.float32)
        tilelang.compile(kernel, **MODES[mode])(words, numbers)  # type: ignore[call-overload]  # options by name
        actual.append((words, numbers))
    np.testing.assert_array_equal(actual[1][0], actual[0][0])
    np.testing.assert_array_equal(actual[1][1][[0, 2]], actual[0][1][[0, 2]])
    np.testing.assert_allclose(actual[1][1][1], actual[0][1][1], rtol=2e-5, atol=2e-6)
    assert len(np.unique(actual[0][0][0])) == COUNT * 9


@needs_compiler
def test_a_shared_loop_of_some_threads_does_not_draw() -> None:
    @T.prim_func
    def kernel(B: U32[COUNT]):
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


# Generator, seed, stream, offset; then from one start words, and from one start the bits of uniform
# numbers of 32 and, behind three of these, of 64 bits: what curand_kernel.h of CUDA 12.9 gives.
CURAND = [
    ("XORWOW", 0, 0, 0, (3179217846, 1883133293, 2220552389, 674260989), (1060994820, 1054899371), (4589806997045723116, 4597369741111971070)),
    ("XORWOW", 7, 31, 3, (779080264, 1787263281, 3882855971, 355876755), (1043971913, 1054150386), (4605075905473560468, 4605207279844651644)),
    ("XORWOW", 1234567890123, 255, 1000, (2821044735, 3919227519, 871258918, 4043017409), (1059595706, 1063885482), (4602488249556343171, 4597498117157977126)),
    ("XORWOW", 18446744073709551615, 100003, 8589934592, (2409297173, 2125037862, 3739763971, 986011241), (1057987317, 1056789250), (4605300050707699306, 4603994921335941060)),
    ("XORWOW", 1, 1099511640121, 18446744073709551615, (3763597317, 2179487101, 73150115, 42617021), (1063277552, 1057089621), (4601728071703499131, 4604629837368659440)),
    ("MRG32k3a", 0, 0, 0, (545508615, 1368065476, 1327943825, 3546985268), (1040322356, 1050875404), (4605613786795295626, 4597153079541435172)),
    ("MRG32k3a", 7, 31, 3, (2094896579, 702222168, 1404201169, 1944074524), (1056553772, 1042771005), (4601825659472741289, 4605744046169914320)),
    ("MRG32k3a", 1234567890123, 255, 1000, (744779077, 1980917480, 2197316691, 1983987070), (1043435957, 1055663310), (4601993064823836878, 4603007508274220715)),
    ("MRG32k3a", 18446744073709551615, 100003, 8589934592, (3440341783, 3366675116, 978173374, 3671295979), (1062014835, 1061727075), (4605874485251593791, 4604586346709278519)),
    ("MRG32k3a", 1, 1099511640121, 18446744073709551615, (4146887839, 2359899019, 941695794, 3244190315), (1064774781, 1057794356), (4604978779754578589, 4602770181894428321)),
    ("Philox4_32_10", 7, 31, 3, (1259193727, 1703950997, 2826821806, 4193142103), (1050024843, 1053499509), (4606968875894964224, 4606865167062401024)),
    ("Philox4_32_10", 18446744073709551615, 100003, 8589934592, (548186710, 2065263112, 964526174, 3938005836), (1040364201, 1056322260), (4606433816362352640, 4605517662380883968)),
]  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("mode", ["interpret", "cpu", "sm_80"])
@pytest.mark.parametrize("name", ["XORWOW", "MRG32k3a", "Philox4_32_10"])
def test_numbers_are_those_of_curand(name: str, mode: str) -> None:
    rows = [row[1:] for row in CURAND if row[0] == name]
    count = len(rows)

    @T.prim_func
    def kernel(S: U64[count, 3], W: U32[count, 3], F: F32[count, 3], D: F64[count, 2]):
        with T.Kernel(1, threads=count):
            tx = T.get_thread_binding()
            for again in T.serial(2):
                T.rng_init(S[tx, 0], S[tx, 1], S[tx, 2], generator=f"curandState{name}_t")
                if again == 0:
                    for k in T.serial(3):
                        W[tx, k] = T.rng_rand()
                else:
                    for k in T.serial(3):
                        F[tx, k] = T.rng_rand_float()
                    for k in T.serial(2):
                        D[tx, k] = T.rng_rand_float(64)

    starts = np.array([row[:3] for row in rows], np.uint64)
    words, floats = np.zeros((count, 3), np.uint32), np.zeros((count, 3), np.float32)
    doubles = np.zeros((count, 2), np.float64)
    tilelang.compile(kernel, **MODES[mode])(starts, words, floats, doubles)  # type: ignore[call-overload]  # options by name
    np.testing.assert_array_equal(words, [row[3][:3] for row in rows])
    np.testing.assert_array_equal(floats[:, :2].view(np.uint32), [row[4] for row in rows])
    np.testing.assert_array_equal(doubles.view(np.uint64), [row[5] for row in rows])


@needs_compiler
@pytest.mark.parametrize("name", ["XORWOW", "MRG32k3a"])
def test_normal_numbers_of_other_generators(name: str) -> None:
    @T.prim_func
    def kernel(B: F32[COUNT, 5]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            T.rng_init(0, generator=f"curandState{name}_t")
            for k in T.serial(5):
                B[tx, k] = T.rng_rand_float(32, "normal")

    first = {"XORWOW": (0.292536646, -0.718359053, 0.958011329)}
    first["MRG32k3a"] = (1.84607279, -0.847925067, -1.36147583)
    for mode in ("interpret", "cpu", "sm_80"):
        actual = run(kernel, (COUNT, 5), "float32", mode)
        np.testing.assert_allclose(actual[0, :3], first[name], rtol=2e-5, err_msg=mode)
        assert len(np.unique(actual)) == actual.size


@pytest.mark.parametrize("mode", ["interpret", "cpu", "sm_80"])
def test_a_kernel_has_one_kind_of_generator(mode: str) -> None:
    @T.prim_func
    def kernel(B: U32[COUNT]):
        with T.Kernel(1, threads=COUNT):
            T.rng_init(7)
            T.rng_init(7, generator="curandStateXORWOW_t")
            B[T.get_thread_binding()] = T.rng_rand()

    with pytest.raises(TileUnsupportedError, match="two kinds of random generators in one kernel"):
        run(kernel, (COUNT,), "uint32", mode)
