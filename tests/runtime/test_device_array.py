"""Arrays in the memory of a GPU without a framework, against a driver that takes notes."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda_stub import Stub, build
from refusals import refusal

from tilelang.codegen.gpu.module import GpuModule, KernelArg, LaunchPlan
from tilelang.cpu.toolchain import Compiler
from tilelang.cuda.driver import Driver
from tilelang.cuda.loaded_module import LoadedModule
from tilelang.errors import KernelArgumentError, TileRuntimeError, TileValueError
from tilelang.ir import floats
from tilelang.ir.dtypes import SCALARS, dtype as DType
from tilelang.profiler import measure, measure_together
from tilelang.profiler.clocks import DriverClock
from tilelang.runtime.cache import DiskCache
from tilelang.runtime.device_array import DeviceArray, DeviceMemory
from tilelang.runtime.gpu import GpuLauncher, make_gpu_launcher
from tilelang.runtime.host_program import host_program, kernel_table
from tilelang.runtime.signature import LaunchSpec, Symbol, tensor
from tilelang.runtime.tensors import describe
from tilelang.utils.tensor import PERIOD, TensorSupplyType, as_float, get_tensor_supply

DTYPES = [name for name in SCALARS if name not in ("void", "handle")]
FLOAT32 = DType("float32")


@pytest.fixture
def stub(compiler: Compiler, tmp_path: Path) -> Stub:
    return build(compiler, tmp_path)


@pytest.fixture
def memory(stub: Stub) -> DeviceMemory:
    return DeviceMemory(Driver(stub.path), 1)


# -- memory ---------------------------------------------------------------------------------------
def test_the_context_of_the_gpu_is_current_from_the_start(memory: DeviceMemory, stub: Stub) -> None:
    assert stub.lib.stub_current() == 1101


def test_what_is_placed_is_repeated_until_the_shape_is_full(memory: DeviceMemory) -> None:
    drawn = np.arange(7, dtype=np.int16)
    found = memory.upload(drawn, DType("int16"), (5, 11))
    np.testing.assert_array_equal(found.get(), np.resize(drawn, (5, 11)))
    assert memory.upload(drawn[:0], DType("int16"), (0, 3)).get().shape == (0, 3)
    every_other = memory.upload(drawn[::2], DType("int16"), (4,))
    np.testing.assert_array_equal(every_other.get(), drawn[::2])


def test_freed_blocks_are_reused_for_equal_sizes(memory: DeviceMemory, stub: Stub) -> None:
    first = memory.empty(FLOAT32, (6,))
    address = first.pointer
    del first
    assert memory.empty(DType("float64"), (3,)).pointer == address
    assert stub.take().count("allocate 24 on 0") == 1


def test_blocks_that_no_thread_needs_are_skipped(memory: DeviceMemory, stub: Stub) -> None:
    address = memory.empty(FLOAT32, (6,)).pointer
    stub.fail("cuMemAllocAsync", 2)
    assert refusal(TileRuntimeError, memory.empty, FLOAT32, (7,)) == (
        "allocating 28 bytes on GPU 1 failed: CUDA_ERROR_OUT_OF_MEMORY\n"
        "  got: it failed\n"
        "  hint: free tensors, or use smaller ones"
    )
    assert stub.take()[-3:] == [f"free {address:x} on 0", "wait 0", "allocate 28 on 0"]
    with pytest.raises(TileRuntimeError):  # there is nothing left to give back
        memory.empty(FLOAT32, (7,))
    assert stub.take() == ["allocate 28 on 0"]


def test_the_repr_of_an_array_is_exact(memory: DeviceMemory) -> None:
    info = describe(memory.empty(DType("bfloat16"), (2, 3)))
    assert (info.dtype, info.shape, info.strides) == ("bfloat16", (2, 3), (3, 1))
    assert (info.device, info.index, info.raw) == ("cuda", 1, False)


# -- calls ----------------------------------------------------------------------------------------
class Calls:
    """Makes launchers of one kind of a kernel with an input and a result."""

    def __init__(self, kind: str, compiler: Compiler, cache: DiskCache) -> None:
        self.compiler, self.cache = compiler if kind == "c" else None, cache

    def of(self, memory: DeviceMemory, stub: Stub, dtype: str) -> Any:
        stub.declare("k", 8, 8)
        args = tuple(KernelArg(number, "pointer", dtype) for number in range(2))
        plan = LaunchPlan("k", ((4,), (1,), (1,)), args=args, threads=(128, 1, 1), shared_bytes=0)  # type: ignore[arg-type]  # programs of one word
        made = GpuModule("", (plan,), 8, (), ("k",))
        spec = LaunchSpec(
            "f",
            (tensor("A", dtype, (("$0",), 8)), tensor("B", dtype, (("$0",), 8), is_output=True)),
            (Symbol("n"),), outputs=(1,), returns="one", device="cuda",
        )  # fmt: skip
        code = LoadedModule(b"CUBIN", kernel_table(made), "f", lambda: memory.driver)
        return make_gpu_launcher(
            spec, host_program(made), code, compiler=self.compiler, cache=self.cache
        )


@pytest.fixture(params=["python", "c"])
def calls(request: pytest.FixtureRequest, compiler: Compiler, session_cache: DiskCache) -> Calls:
    return Calls(request.param, compiler, session_cache)


@pytest.mark.parametrize("dtype", DTYPES)
def test_generated_inputs_of_every_dtype_can_be_passed(
    calls: Calls, memory: DeviceMemory, stub: Stub, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    data = get_tensor_supply(device=memory)(SimpleNamespace(dtype=DType(dtype), shape=(6, 8)))
    found = calls.of(memory, stub, dtype)(data)
    (launch,) = stub.launches()
    assert launch.values("QQ") == [data.pointer, found.pointer]
    assert (launch.device, launch.stream) == (1, 0)
    assert isinstance(found, DeviceArray) and (found.dtype, found.shape) == (dtype, data.shape)


def test_calls_do_not_go_through_python(
    memory: DeviceMemory, stub: Stub, compiler: Compiler, session_cache: DiskCache,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    call = Calls("c", compiler, session_cache).of(memory, stub, "float8_e4m3fn")
    monkeypatch.setattr(GpuLauncher, "__call__", None)
    call(memory.empty(DType("float8_e4m3fn"), (6, 8)))
    assert len(stub.launches()) == 1


def test_another_dtype_is_refused(calls: Calls, memory: DeviceMemory, stub: Stub) -> None:
    with pytest.raises(KernelArgumentError, match="expected: bfloat16\n  got: uint16"):
        calls.of(memory, stub, "bfloat16")(memory.empty(DType("uint16"), (6, 8)))


# -- inputs ---------------------------------------------------------------------------------------
def values(tensor: Any, dtype: DType) -> Any:
    """The numbers in a storage array, or in a tensor of torch, which has not all the types."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        if getattr(torch, str(dtype), None) is tensor.dtype:
            return as_float(tensor)
        tensor = tensor.view(torch.uint8).numpy() if dtype.bits <= 8 else tensor.numpy()
    return as_float(floats.from_storage(tensor, dtype))


@pytest.mark.parametrize("kind", TensorSupplyType)
@pytest.mark.parametrize("name", DTYPES)
def test_inputs_are_those_that_torch_would_have(
    memory: DeviceMemory, name: str, kind: TensorSupplyType, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch", reason="its tensors are compared with")
    dtype = DType(name)
    param = SimpleNamespace(dtype=dtype, shape=(33, 64))
    found = get_tensor_supply(kind, seed=3, device=memory)(param).get()
    monkeypatch.setitem(sys.modules, "torch", torch)
    wanted = values(get_tensor_supply(kind, seed=3)(param), dtype)
    # Numbers between two of the dtype may be rounded to the other one.
    step = {8: 0.13, 16: 0.01}.get(dtype.bits, 0.001 if name == "tfloat32" else 1e-6)
    np.testing.assert_allclose(values(found, dtype), wanted, rtol=step)


def test_large_inputs_repeat_what_is_drawn(memory: DeviceMemory) -> None:
    param = SimpleNamespace(dtype=DType("bfloat16"), shape=(3, PERIOD))
    found = floats.from_storage(get_tensor_supply(device=memory)(param).get(), "bfloat16")
    assert (found == found[0]).all() and 0.5 < np.std(found[0]) < 0.6  # uniform from -1 to 1


def test_addresses_are_not_made_up(memory: DeviceMemory) -> None:
    with pytest.raises(TileValueError) as found:
        get_tensor_supply(device=memory)(SimpleNamespace(dtype=DType("handle"), shape=(3,)))
    assert str(found.value) == (
        "addresses are not made up\n"
        "  expected: tensors of numbers, or inputs that are given\n"
        "  got: a tensor of handle\n"
        "  hint: supply_prog=... makes the inputs of a search"
    )


# -- the clock ------------------------------------------------------------------------------------
def test_kernels_are_timed_by_events_around_each_call(
    memory: DeviceMemory, stub: Stub, compiler: Compiler, session_cache: DiskCache
) -> None:
    call = Calls("c", compiler, session_cache).of(memory, stub, "float32")
    data, clock = memory.empty(FLOAT32, (6, 8)), DriverClock(memory)
    stub.take()
    found = measure(lambda: call(data), warmup=4, rep=27, backend=clock)
    assert found.samples == (2.0,) * 3 and not found.host and clock.besides == 7.0
    noted = [line.partition(" ")[0] for line in stub.take()]
    assert noted[-13:-1] == ["set", "record", "launch", "record"] * 3 and noted[-1] == "wait"
    assert noted.count("event") == 10  # five calls to estimate; the same ones to measure
    both = measure_together({"a": lambda: call(data), "b": lambda: call(data)}, 1, 1, clock)
    assert [timing.median for timing in both.values()] == [2.0, 2.0]


def test_what_a_kernel_did_wrong_shows_when_it_is_timed(memory: DeviceMemory, stub: Stub) -> None:
    clock = DriverClock(memory)
    stub.fail("cuStreamSynchronize", 700)
    with pytest.raises(TileRuntimeError, match="running a kernel failed: CUDA_ERROR_ILLEGAL_ADD"):
        measure(lambda: None, backend=clock)
