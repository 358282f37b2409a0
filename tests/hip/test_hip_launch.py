"""Kernels for AMD's GPUs called through a HIP runtime that takes notes."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from cuda_stub import STREAM, fake_torch, on_gpu
from hip_stub import Stub, build
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.errors import TileRuntimeError
from tilelang.hip import driver as driver_module
from tilelang.hip.driver import Driver
from tilelang.hip.output import WORDS, decoded
from tilelang.hip.toolchain import tools

torch = pytest.importorskip("torch", reason="the tensors are torch's")


@T.prim_func
def scaled(A: T.Tensor((1000,), "float32"), B: T.Tensor((1000,), "float32"), s: T.float32):
    with T.Kernel(T.ceildiv(1000, 128), threads=128) as bx:
        tile = T.alloc_shared((128,), "float32")
        T.copy(A[bx * 128 : bx * 128 + 128], tile)
        for i in T.Parallel(128):
            B[bx * 128 + i] = tile[127 - i] * s


@T.prim_func
def printing(A: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        t = T.get_thread_binding()
        if t == 3:
            T.print(A[t], msg="value")
        T.device_assert(A[t] > 0.0, "not positive")


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stub:
    """A runtime that takes notes, and torch for ROCm."""
    compiler = find_compiler(quiet=True)
    if compiler is None or not list(tools()):
        pytest.skip("needs a C compiler and a clang with the AMDGPU target")
    found = build(compiler, tmp_path)
    runtime = Driver(found.path)
    monkeypatch.setattr(driver_module, "driver", lambda: runtime)
    monkeypatch.setattr(torch.version, "hip", "6.4")
    fake_torch(monkeypatch)
    assert found.take() == ["init 0"]
    return found


def kernel(func):
    return tilelang.compile(func, target="hip -mcpu=gfx942")


def tensor(*values: float, size: int = 1000, index: int = 1):
    return on_gpu(torch.tensor([*values, *[0.0] * (size - len(values))]), index)


def test_every_call_and_argument(stub: Stub) -> None:
    stub.declare("scaled_kernel", 8, 8, 4)
    call, a, b = kernel(scaled), tensor(), tensor()
    for _ in range(2):
        call(a, b, 2.0)
    words = (
        struct.pack("<Q", a.data_ptr()),
        struct.pack("<Q", b.data_ptr()),
        struct.pack("<f", 2.0),
    )
    launch = f"launch scaled_kernel 8,1,1 128,1,1 512 {STREAM + 1} on 1 " + " ".join(
        word.hex() for word in words
    )
    around = ["device 1", "{}", "device 0"]
    assert stub.take() == [
        *(line.format("load ELF in 1") for line in around),
        *(line.format("function scaled_kernel of 77") for line in around),
        *(line.format(launch) for line in around),
        *(line.format(launch) for line in around),
    ]  # fmt: skip


def test_each_device_has_the_kernels_loaded_once(stub: Stub) -> None:
    stub.declare("scaled_kernel", 8, 8, 4)
    call = kernel(scaled)
    for index in (0, 1, 0, 1):
        call(tensor(index=index), tensor(index=index), 2.0)
    notes = stub.take()
    assert [line for line in notes if line.startswith("load")] == ["load ELF in 0", "load ELF in 1"]
    assert [line.split()[-4] for line in notes if line.startswith("launch")] == ["0", "1", "0", "1"]


@pytest.mark.parametrize(
    ("function", "code", "message"),
    [
        ("hipModuleLoadData", 209,
         "loading the kernels of scaled on GPU 1 failed: hipErrorUnknown\n"
         "  got: it failed\n"
         '  hint: the kernel was compiled for another chip; leave the target to "auto"'),
        ("hipModuleGetFunction", 700,
         "finding the kernel scaled_kernel failed: hipErrorIllegalAddress\n"
         "  got: an illegal memory access was encountered\n"
         "  hint: a kernel accessed memory out of bounds. The process must be restarted"),
        ("hipModuleLaunchKernel", 2,
         "running kernel scaled failed: hipErrorOutOfMemory\n"
         "  got: it failed\n"
         "  hint: free tensors, or use smaller ones"),
        ("hipSetDevice", 101,
         "selecting GPU 1 failed: hipErrorUnknown\n  got: it failed"),
    ],
    ids=lambda item: str(item)[:24],
)  # fmt: skip
def test_refusals_of_the_runtime(stub: Stub, function: str, code: int, message: str) -> None:
    stub.declare("scaled_kernel", 8, 8, 4)
    call = kernel(scaled)
    stub.fail(function, code)
    assert refusal(TileRuntimeError, call, tensor(), tensor(), 2.0) == message


def text_words(text: str) -> list[int]:
    raw = text.encode()
    padded = raw + b"\0" * (-len(raw) % 4)
    return [2, len(raw), *struct.unpack(f"<{len(padded) // 4}I", padded)]


def number_words(value: float) -> list[int]:
    kind, form = (1, "<d") if isinstance(value, float) else (0, "<q")
    return [kind, *struct.unpack("<2I", struct.pack(form, value))]


def record(text: str, *values: object) -> list[int]:
    parts = [text_words(text)]
    parts += [text_words(v) if isinstance(v, str) else number_words(v) for v in values]
    return [2 + sum(map(len, parts)), len(parts), *(word for part in parts for word in part)]


def test_what_a_kernel_prints_is_shown_when_it_has_ended(
    stub: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    stub.declare("printing_kernel", 8)
    stub.prints(*record("msg='%s' %d: %f\n", "value", -3, 2.5))
    kernel(printing)(tensor(size=64))
    assert capsys.readouterr().out == "msg='value' -3: 2.500000\n"
    lines = [line for line in stub.take() if not line.startswith("device")]
    assert lines[1:5] == [
        "variable tl_output of 77", f"host memory {4 * (2 + WORDS)} 0", "copy 8 1",
        "function printing_kernel of 77",
    ]  # fmt: skip
    assert lines[-1] == f"wait {STREAM + 1}"


def test_a_device_assertion_is_an_error_after_its_output(
    stub: Stub, capsys: pytest.CaptureFixture[str]
) -> None:
    stub.declare("printing_kernel", 8)
    stub.prints(*record("%s (block %d)\n", "Device assert failed: not positive", 0))
    stub.fail("hipStreamSynchronize", 710)
    with pytest.raises(TileRuntimeError) as failure:
        kernel(printing)(tensor(size=64))
    assert capsys.readouterr().out == "Device assert failed: not positive (block 0)\n"
    assert str(failure.value) == (
        "running kernel printing failed: hipErrorUnknown\n"
        "  got: it failed\n"
        "  hint: a device-side assertion failed; its text is on the standard output"
    )


def test_dropped_records_are_reported() -> None:
    words = record("%5.1f|%u|%x|%p|%%|%lld\n", 1.25, 7, 255, 16, -(2**40))
    found = list(decoded([len(words) + 9, len(words), *words]))
    assert found[0] == f"  1.2|7|ff|0x10|%|{-(2**40)}\n"
    assert found[1] == f"(kernels printed {len(words) + 9} words; only {len(words)} are kept)\n"


def test_a_machine_without_a_runtime_has_one_error(tmp_path: Path) -> None:
    with pytest.raises(TileRuntimeError) as failure:
        Driver(str(tmp_path / "libnothing.so"))
    assert str(failure.value).startswith(
        "there is no HIP runtime on this machine\n"
        "  expected: libamdhip64, which comes with ROCm\n  got: "
    )
