"""What programs ask of a launch: printing, pointers, missing tensors, any sizes, several kernels."""

from __future__ import annotations

from typing import Any

import pytest
from gpus import Gpu
from tensor_types import F32, I32

import tilelang
import tilelang.language as T

torch = pytest.importorskip("torch", reason="the tensors are torch's")

n = T.dynamic("n")


def test_a_fill_of_more_than_8_gib_reaches_the_last_element(gpu: Gpu) -> None:
    if gpu.emulated or torch.cuda.mem_get_info()[0] < 12 << 30:
        pytest.skip("needs a GPU with 12 GiB of free memory: elements beyond 2**31 are its point")
    rows, width = (1 << 21) + 3, 1024  # 2**31 + 3072 elements of 4 bytes

    @T.prim_func
    def filled(A: F32[rows, width]):
        with T.Kernel(T.ceildiv(rows, 64), threads=128) as bx:
            T.fill(A[bx * 64 : bx * 64 + 64, 0:width], 3.0)

    memory = torch.zeros((rows, width), device=gpu.memory)
    gpu.compile(filled)(memory)
    gpu.wait()
    for first in range(0, rows, 1 << 18):
        assert bool((memory[first : first + (1 << 18)] == 3.0).all())

    @T.prim_func
    def counted(C: F32[rows * width]):
        with T.Kernel(T.ceildiv(rows * width, 1024), threads=128) as bx:
            for i in T.Parallel(1024):
                C[bx * 1024 + i] = C[bx * 1024 + i] + 1.0

    gpu.compile(counted)(memory.view(-1))
    gpu.wait()
    assert [float(memory[row, -1]) for row in (0, rows // 2, rows - 1)] == [4.0] * 3
    assert float(memory[rows - 1].sum()) == 4.0 * width


def test_printed_text_is_shown(gpu: Gpu, capfd: pytest.CaptureFixture[str]) -> None:
    @T.prim_func
    def shows(A: I32[64]):
        with T.Kernel(2, threads=32) as bx:
            tx = T.get_thread_binding()
            if tx == 5:
                T.print(A[bx * 32 + tx], msg="element")

    gpu.run(shows, torch.arange(64, dtype=torch.int32) * 3)
    lines = [line for line in capfd.readouterr().out.splitlines() if "element" in line]
    assert len(lines) == 2
    assert all(any(f"{value}" in line for line in lines) for value in (15, 111))


def test_blocks_of_a_grid_synchronize(gpu: Gpu) -> None:
    @T.prim_func
    def rounds(A: I32[8, 64], C: I32[8, 64]):
        with T.Kernel(8, threads=64) as bx:
            tx = T.get_thread_binding()
            for step in T.serial(3):
                C[bx, tx] = A[(bx + 1) % 8, tx ^ 33] + step
                T.sync_grid()
                A[bx, tx] = C[bx, tx]
                T.sync_grid()

    data = torch.arange(512, dtype=torch.int32).reshape(8, 64)
    wanted = data.clone()
    for step in range(3):
        wanted = wanted.roll(-1, 0)[:, torch.arange(64) ^ 33] + step
    assert torch.equal(gpu.run(rounds, data, torch.zeros_like(data))[0], wanted)


def test_a_lazy_function_is_compiled_for_where_its_tensors_are(gpu: Gpu) -> None:
    @tilelang.lazy_jit
    def doubled(A: T.Tensor[[T.dyn], T.float16]):
        (size,) = A.shape
        B = T.empty((size,), A.dtype)
        with T.Kernel(T.ceildiv(size, 128), threads=64) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = A[bx * 128 + i] * 2
        return B

    for size in (128, 300):
        data = torch.randn(size, device=gpu.memory).half()
        result: Any = doubled(data)
        assert result.device == data.device and torch.equal(result, data * 2)
