"""One kernel on every GPU of the machine: each call runs where its tensors are."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tensor_types import F32

import tilelang
import tilelang.language as T
from tilelang.errors import KernelArgumentError
from tilelang.target.device import cuda_devices

torch = pytest.importorskip("torch", reason="the tensors are torch's")
if len(cuda_devices()) < 2 or torch.cuda.device_count() < 2:
    pytest.skip("needs two NVIDIA GPUs", allow_module_level=True)

SIZE = 64 * 1024


@tilelang.jit(out_idx=-1, target="cuda")
def scale(size: int = SIZE, block: int = 1024) -> Any:
    @T.prim_func
    def main(A: F32[size], s: T.float32, C: F32[size]) -> None:
        with T.Kernel(T.ceildiv(size, block), threads=128) as bx:
            tile = T.alloc_shared((block,), "float32")
            T.copy(A[bx * block], tile)
            for i in T.Parallel(block):
                C[bx * block + i] = tile[i] * s

    return main


def devices() -> list[str]:
    return [f"cuda:{index}" for index in range(torch.cuda.device_count())]


def test_calls_run_where_their_tensors_are() -> None:
    kernel, before = scale(), torch.cuda.current_device()
    for device in devices() * 2:
        a = torch.randn(SIZE, device=device)
        found = kernel(a, 3.0)
        assert found.device == a.device
        torch.testing.assert_close(found, a * 3)
    assert torch.cuda.current_device() == before


def test_the_current_device_need_not_be_that_of_the_tensors() -> None:
    kernel, last = scale(), devices()[-1]
    a = torch.randn(SIZE, device=last)
    with torch.cuda.device(0):
        found = kernel(a, 2.0)
    torch.testing.assert_close(found, a * 2)


def test_threads_use_all_devices_at_once() -> None:
    kernel = scale()

    def work(device: str) -> bool:
        a = torch.randn(SIZE, device=device)
        stream = torch.cuda.Stream(device=device)
        with torch.cuda.stream(stream):
            stream.wait_stream(torch.cuda.default_stream(torch.device(device)))
            results = [kernel(a, float(n)) for n in range(50)]
        stream.synchronize()
        return all(torch.equal(found, a * n) for n, found in enumerate(results))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, devices() * 4))


def test_tensors_of_two_devices_are_refused() -> None:
    @tilelang.jit(target="cuda")
    def copy() -> Any:
        @T.prim_func
        def main(A: F32[256], B: F32[256]) -> None:
            with T.Kernel(1, threads=128):
                T.copy(A, B)

        return main

    first, second = (torch.zeros(256, device=device) for device in devices()[:2])
    with pytest.raises(KernelArgumentError, match="cuda:1"):
        copy()(first, second)


def test_a_table_of_addresses_reaches_the_memory_of_another_gpu() -> None:
    """Reads and writes; torch lets the devices reach each other before it copies between them."""

    @tilelang.jit(target="cuda")
    def exchange() -> Any:
        @T.prim_func
        def main(table: T.Tensor((2,), T.ptr), s: T.float32) -> None:
            with T.Kernel(4, threads=128) as bx:
                A = T.make_tensor(table[0], (4096,), "float32")
                B = T.make_tensor(table[1], (4096,), "float32")
                tile = T.alloc_shared((1024,), "float32")
                T.copy(A[bx * 1024], tile)
                for i in T.Parallel(1024):
                    B[bx * 1024 + i] = tile[i] * s

        return main

    first, second = devices()[:2]
    if not torch.cuda.can_device_access_peer(0, 1):
        pytest.skip("the GPUs do not reach each other")
    near, far = torch.randn(4096, device=first), torch.zeros(4096, device=second)
    far.copy_(near)
    near.copy_(far)
    for source, target in ((near, far), (far, near)):
        source.normal_()
        torch.cuda.synchronize(source.device)
        table = torch.tensor([source.data_ptr(), target.data_ptr()], device=first)
        exchange()(table, 2.0)
        torch.cuda.synchronize(first)
        torch.testing.assert_close(target.cpu(), source.cpu() * 2)
