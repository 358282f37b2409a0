"""Kernels that leave the number of their threads to the target: 128 on a GPU, one on a core."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from contexts import CPU

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.ir import stmt as S
from tilelang.transforms.normalize.legalize import one_thread_by_default

COUNTS = {
    "interpreter for a core": ({"target": "cpu", "execution_backend": "interpret"}, 1),
    "cpu": ({"target": "cpu"}, 1),
    "interpreter for a GPU": ({"target": "cuda", "execution_backend": "interpret"}, 128),
    "emulator": ({"target": "cuda -arch=sm_80", "execution_backend": "emulator"}, 128),
}


def _launch(func: S.PrimFunc) -> S.Launch:
    return next(node for node in S.walk(func.body) if isinstance(node, S.Launch))


@pytest.mark.parametrize("how", COUNTS)
def test_a_kernel_without_threads_has_what_the_target_likes(how: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1):
            for i in T.serial(8):
                T.atomic_add(B[0], A[i])

    if find_compiler() is None:
        pytest.skip("needs a C compiler")
    options, threads = COUNTS[how]
    total = np.zeros(1, np.float32)
    tilelang.compile(kernel, **options)(np.ones(8, np.float32), total)  # type: ignore[call-overload]  # options by name
    assert total[0] == 8 * threads


def test_an_explicit_thread_count_is_kept() -> None:
    @T.prim_func
    def given(A: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=128):
            T.atomic_add(A[0], 1)

    @T.prim_func
    def asked(A: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            A[0] = T.get_thread_extent(0)

    assert one_thread_by_default(given, CPU) is given
    assert one_thread_by_default(asked, CPU) is asked


ASKS: dict[str, Callable[[object], object]] = {
    "its index": lambda A: T.get_thread_binding(0),
    "its warp": lambda A: T.get_warp_idx() + T.get_thread_binding(1),
    "other threads": lambda A: T.warp_reduce_sum(A[0]),  # type: ignore[index]  # a tensor
    "other threads, by CUDA's name": lambda A: T.call_extern(
        "int32",
        "__reduce_add_sync",
        0xFFFFFFFF,
        A[0],  # type: ignore[index]  # a tensor
    ),
    "who is chosen": lambda A: T.cast(T.shuffle_elect(0), "int32"),
}


@pytest.mark.parametrize("what", ASKS)
def test_a_body_that_reads_the_thread_count_has_that_of_a_gpu(what: str) -> None:
    asks = ASKS[what]

    @T.prim_func
    def kernel(A: T.Tensor((1,), "int32"), B: T.Tensor((1,), "int32")):
        with T.Kernel(1):
            T.atomic_add(B[0], asks(A) + 1)

    assert one_thread_by_default(kernel, CPU) is kernel
    sums = []
    for options, _ in COUNTS.values():
        sums.append(np.zeros(1, np.int32))
        tilelang.compile(kernel, **options)(np.ones(1, np.int32), sums[-1])  # type: ignore[call-overload]  # options by name
    assert len({int(one[0]) for one in sums}) == 1


def test_loops_lose_layouts_that_name_gpu_threads() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((256,), "int32")):
        with T.Kernel(1):
            layout = T.Fragment((256,), forward_fn=lambda i: (i % 128, i // 128))
            for i in T.Parallel(256, loop_layout=layout):
                A[i] = i

    launch = _launch(one_thread_by_default(kernel, CPU))
    loop = next(node for node in S.walk(launch) if isinstance(node, S.Parallel))
    assert launch.threads == (1, 1, 1) and loop.loop_layout is None
    assert _launch(kernel).threads == (128, 1, 1)
