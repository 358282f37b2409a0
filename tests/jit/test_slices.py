"""Slices of tensors whose addresses are odd: served by a kernel with narrower vectors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from cuda_stub import Stub, build, fake_torch, on_gpu
from refusals import refusal

import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.cuda import executable as cuda, loaded_module as code_module
from tilelang.cuda.driver import Driver
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.errors import KernelArgumentError
from tilelang.jit import JITKernel, execution
from tilelang.options import Options
from tilelang.runtime import cache as runtime_cache
from tilelang.runtime.cache import DiskCache
from tilelang.target import Target

torch = pytest.importorskip("torch", reason="the tensors are torch's")


@T.prim_func
def scaled(A: T.Tensor((1024,), "float16"), B: T.Tensor((1024,), "float16")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(1024):
            B[i] = A[i] * T.float16(2.0)


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stub:
    """A driver that takes notes, and torch with GPUs."""
    compiler = find_compiler(quiet=True)
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    if find_nvrtc() is None:
        pytest.skip("NVRTC is not installed")
    found = build(compiler, tmp_path)
    found.declare("scaled_kernel", 8, 8)
    driver = Driver(found.path)
    monkeypatch.setattr(code_module.LoadedModule.__init__, "__defaults__", (lambda: driver,))
    cache = DiskCache(tmp_path / "cache")
    for module in (cuda, runtime_cache):
        monkeypatch.setattr(module, "default_cache", lambda: cache)
    fake_torch(monkeypatch)
    return found


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[str, int], ...]]:
    """The limits of every compilation."""
    seen: list[tuple[tuple[str, int], ...]] = []
    plain = execution._compile

    def noted(*args: Any) -> Any:
        seen.append(args[5] if len(args) > 5 else ())
        return plain(*args)

    monkeypatch.setattr(execution, "_compile", noted)
    return seen


def kernel(backend: str) -> JITKernel:
    return JITKernel(scaled, [1], Target("cuda", "sm_80"), Options(), execution_backend=backend)


def slice_at(element: int) -> Any:
    """1024 elements that start at an odd place of a tensor."""
    whole = torch.zeros(1024 + 64, dtype=torch.float16)
    first = (-whole.data_ptr() // 2) % 8  # the first element at a multiple of 16 bytes
    return on_gpu(whole[first + element : first + element + 1024])


@pytest.mark.parametrize("backend", ["auto", "python"])
def test_odd_slices_are_served(backend: str, stub: Stub, sources: Any) -> None:
    found = kernel(backend)
    assert sources == [()]
    found(slice_at(0))
    found(slice_at(8))
    assert sources == [()]  # aligned slices take the kernel with wide vectors
    expected = [(("A", 2),), (("A", 4),), (("A", 8),)]
    for element in (1, 2, 4, 3, 6, 12):
        data = slice_at(element)
        stub.take()
        result = found(data)
        (launch,) = stub.launches()
        assert launch.values("QQ") == [data.data_ptr(), result.data_ptr()]
        assert result.shape == (1024,) and result.dtype == torch.float16
    assert sources == [(), *expected]  # one kernel per alignment, made once


@pytest.mark.parametrize("backend", ["auto", "python"])
def test_several_odd_tensors_share_the_alignment_of_the_worst(
    backend: str, stub: Stub, sources: Any
) -> None:
    found = JITKernel(scaled, None, Target("cuda", "sm_80"), Options(), execution_backend=backend)
    found(slice_at(4), slice_at(1))
    found(slice_at(2), slice_at(3))
    found(slice_at(0), slice_at(4))
    assert sources == [(), (("A", 2), ("B", 2)), (("B", 8),)]


def test_the_kernels_differ_in_their_vectors(stub: Stub) -> None:
    def text(limits: tuple[tuple[str, int], ...]) -> str:
        made = execution._compile(
            scaled, (1,), Target("cuda", "sm_80"), Options(), "python", limits
        )
        return made.source

    def loads(size: int) -> set[str]:
        found = text((("A", size),) if size < 16 else ())
        return set(re.findall(r"tl_copy_(\d+)\([^;]*&?A\b", found))

    assert [loads(size) for size in (16, 8, 4, 2)] == [{"16"}, {"8"}, {"4"}, set()]


def test_an_address_inside_an_element_is_refused(stub: Stub, sources: Any) -> None:
    import numpy as np

    from tilelang.runtime.gpu import GpuLauncher

    launcher = kernel("python").adapter.call
    assert isinstance(launcher, GpuLauncher)
    odd = np.zeros(2050, np.int8)[1:].ctypes.data | 1
    assert launcher.replacement([odd], False) is None
    assert sources == [()]


@T.prim_func
def pointed(A: T.ptr, B: T.ptr):
    source = T.make_tensor(A, (1024,), "float16")
    result = T.make_tensor(B, (1024,), "float16")
    with T.Kernel(1, threads=64):
        for i in T.Parallel(1024):
            result[i] = source[i]


@pytest.mark.parametrize("backend", ["auto", "python"])
def test_tensors_at_odd_pointers_are_served(backend: str, stub: Stub, sources: Any) -> None:
    stub.declare("pointed_kernel", 8, 8)
    found = JITKernel(pointed, None, Target("cuda", "sm_80"), Options(), execution_backend=backend)
    for source, result in ((1 << 20, 1 << 21), (0x1008, 0x2000), (0x1002, 0x2004), (0x1010, 0)):
        stub.take()
        found(source, result)
        (launch,) = stub.launches()
        assert launch.values("QQ") == [source, result]
    assert sources == [(), (("A", 8),), (("A", 2), ("B", 2))]
    assert refusal(KernelArgumentError, found, 0x1001, 0x2000) == (
        "kernel pointed input A is misaligned\n"
        "  expected: an address that is a multiple of 2 bytes\n"
        "  got: 0x1001\n"
        "  hint: copy the tensor, or slice it at a multiple of that size"
    )
