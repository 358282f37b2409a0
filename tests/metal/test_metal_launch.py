"""Launches by torch: what a call gives to ``torch.mps``, by an object that takes its place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from metal_clang import clang, refusal
from metal_programs import product, scaled, softmax

import tilelang
import tilelang.language as T
from tilelang.compiler import compile
from tilelang.errors import TileRuntimeError
from tilelang.jit.adapter.wrapper import TLMetalSourceWrapper, host_source
from tilelang.metal.executable import Shaders
from tilelang.metal.standalone import standalone
from tilelang.target import parse_target

torch = pytest.importorskip("torch")
METAL = parse_target("metal")


class Recorder:
    """A mock of what ``torch.mps.compile_shader`` gives: every method records its call."""

    def __init__(self, text: str = "") -> None:
        self.text = text
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **keywords: self.calls.append((name, args, keywords))


def shaders(func: Any, tensors: dict[int, Any]) -> tuple[Shaders, Recorder]:
    module = compile(func, METAL).device
    assert module is not None
    made, recorder = Shaders(module, func.name), Recorder()
    made.__dict__["library"] = recorder
    made.tensors = tensors
    return made, recorder


def start(made: Shaders, grid: Sequence[int], block: Sequence[int], *raw: bytes) -> int:
    return made.launch(
        0, 0, grid, block, 0, 0, raw, cluster=(1, 1, 1), cooperative=False, pdl=False
    )


def bits(number: int) -> bytes:
    return number.to_bytes(8, "little", signed=True)


def test_tensors_come_first_and_numbers_by_their_values() -> None:
    a, b = object(), object()
    made, recorder = shaders(scaled, {64: a, 128: b})
    number = np.float32(2.5).tobytes()
    assert start(made, (8, 1, 1), (128, 1, 1), bits(64), bits(128), number) == 0
    assert recorder.calls == [
        ("scaled_kernel", (a, b, 2.5), {"threads": [1024, 1, 1], "group_size": [128, 1, 1]})
    ]


def test_threads_of_the_grid_are_counted_along_every_axis() -> None:
    made, recorder = shaders(product("float16"), {1: "A", 2: "B", 3: "C"})
    start(made, (2, 3, 1), (64, 1, 1), bits(1), bits(2), bits(3))
    assert recorder.calls[0][1:] == (
        ("A", "B", "C"), {"threads": [128, 3, 1], "group_size": [64, 1, 1]},
    )  # fmt: skip


def test_integers_keep_their_sign() -> None:
    @T.prim_func
    def shifted(A: T.Tensor((64,), "int32"), by: T.int32, far: T.int64):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                A[i] = A[i] + by + T.cast(far, "int32")

    made, recorder = shaders(shifted, {1: "A"})
    start(made, (1, 1, 1), (64, 1, 1), bits(1), bits(-3), bits(2**40))
    assert recorder.calls[0][1] == ("A", -3, 2**40)


def test_an_address_that_is_no_tensor_is_refused() -> None:
    made, _ = shaders(softmax, {})
    with pytest.raises(TileRuntimeError) as caught:
        start(made, (4, 1, 1), (128, 1, 1), bits(64), bits(128))
    assert str(caught.value) == (
        "kernel softmax gets an address that is not a tensor of the call\n"
        "  expected: tensors as arguments: Metal binds memory by its buffers\n"
        "  got: 0x40"
    )


def test_the_wrapper_of_a_generated_text_is_what_torch_compiles() -> None:
    func = product("float16")
    source = compile(func, METAL).source
    found = TLMetalSourceWrapper(func, source, METAL)
    assert found.lib_code == found.source == source == host_source(func, source, METAL)
    assert "kernel void product_kernel(" in found.lib_code
    text = standalone(found.lib_code)
    assert '#include "' not in text
    assert text.endswith(source[source.index("kernel void") :])
    if clang():
        assert refusal(text) == ""


def test_a_call_binds_its_tensors_and_starts_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Recorder] = []

    def compile_shader(text: str) -> Recorder:
        made.append(Recorder(text))
        return made[-1]

    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    monkeypatch.setattr(torch.mps, "compile_shader", compile_shader)
    kernel = tilelang.compile(scaled, target="metal")
    launcher = kernel._executable.call
    a, b = torch.ones(1000), torch.zeros(1000)
    slots = np.array([a.data_ptr(), b.data_ptr(), 0], np.int64)
    slots[2:] = np.array([2.5], np.float64).view(np.int64)
    assert launcher._invoke((a, b, 2.5), slots.tobytes()) == 0
    (recorder,) = made
    assert recorder.text == standalone(kernel.get_kernel_source())
    ((name, args, keywords),) = recorder.calls
    assert (name, keywords) == (
        "scaled_kernel", {"threads": [1024, 1, 1], "group_size": [128, 1, 1]},
    )  # fmt: skip
    assert args[0] is a and args[1] is b and args[2] == 2.5


def test_without_a_mac_the_error_says_how_to_run_it() -> None:
    module = compile(scaled, METAL).device
    assert module is not None
    with pytest.raises(TileRuntimeError) as caught:
        _ = Shaders(module, "scaled").library
    assert str(caught.value) == (
        "kernel scaled needs a GPU of Apple\n"
        "  expected: torch with MPS on a Mac\n"
        f"  got: torch {torch.__version__} without it\n"
        '  hint: execution_backend="emulator" runs the kernel on the CPU'
    )


def test_a_tensor_on_another_device_is_an_error_with_a_hint() -> None:
    kernel = tilelang.compile(scaled, target="metal")
    with pytest.raises(tilelang.errors.TileError) as caught:
        kernel(torch.ones(1000), torch.zeros(1000), 2.0)
    text = str(caught.value)
    assert 'pass A.to("mps"); without a GPU, execution_backend="emulator"' in text
