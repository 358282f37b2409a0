"""The driver API by ctypes, against a driver that takes notes."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from cuda_stub import Stub, build
from refusals import refusal

from tilelang.cpu.toolchain import Compiler
from tilelang.cuda.driver import TABLE_HEADER, Driver
from tilelang.cuda.loaded_module import LoadedModule
from tilelang.errors import TileRuntimeError


@pytest.fixture
def stub(compiler: Compiler, tmp_path: Path) -> Stub:
    return build(compiler, tmp_path)


@pytest.fixture
def driver(stub: Stub) -> Driver:
    return Driver(stub.path)


def test_contexts_are_the_primary_ones_and_opened_once(driver: Driver, stub: Stub) -> None:
    assert driver.context(1) == driver.context(1) == 1101
    assert stub.take() == ["retain 1"]


def test_work_leaves_the_callers_context(driver: Driver, stub: Stub) -> None:
    stub.lib.cuCtxSetCurrent(7)
    with driver.on(1):
        assert stub.lib.stub_current() == 1101
    assert stub.lib.stub_current() == 7
    with pytest.raises(KeyError), driver.on(0):
        raise KeyError
    assert stub.lib.stub_current() == 7


def test_kernels_get_their_attributes(driver: Driver, stub: Stub) -> None:
    stub.declare("k", 8)
    module = driver.load(0, b"CUBIN", "the kernels of f")
    stub.take()
    driver.function(0, module, "k", 48 * 1024, 8)
    assert not [line for line in stub.take() if line.startswith("attribute")]
    driver.function(0, module, "k", 48 * 1024 + 1, 16)
    assert [line for line in stub.take() if line.startswith("attribute")] == [
        "attribute k 8 49153",
        "attribute k 14 1",
    ]


def test_missing_kernel(driver: Driver) -> None:
    with pytest.raises(TileRuntimeError, match="finding the kernel nothing failed"):
        driver.function(0, 77, "nothing")


def test_launch_passes_everything(driver: Driver, stub: Stub) -> None:
    stub.declare("k", 8, 2)
    function = driver.function(1, driver.load(1, b"CUBIN", "f"), "k")
    stub.take()
    code = driver.launch(
        1, function, (3, 2, 1), (64, 2, 1), 99, 6, [b"\x01" * 8, b"\x02\x03"], pdl=True
    )
    (launch,) = stub.launches()
    assert code == 0 and launch.grid == (3, 2, 1) and launch.block == (64, 2, 1)
    assert (launch.shared, launch.stream, launch.device) == (99, 6, 1)
    assert launch.args == [b"\x01" * 8, b"\x02\x03"] and launch.attributes == {6: (1, 0, 0)}


def test_streams_and_memory(driver: Driver, stub: Stub) -> None:
    with driver.on(0):
        stream = driver.handle("cuStreamCreate", 1, action="making a stream")
    driver.synchronize(0, stream)
    address = driver.allocate(0, 64, stream)
    driver.free(0, address, stream)
    assert stub.take()[-3:] == ["wait 9", "allocate 64 on 9", f"free {address:x} on 9"]
    source, target = ctypes.create_string_buffer(b"abcd"), ctypes.create_string_buffer(5)
    driver.copy(0, ctypes.addressof(target), ctypes.addressof(source), 4)
    assert target.value == b"abcd"


def test_errors_of_kernels_show_when_waited_for(driver: Driver, stub: Stub) -> None:
    stub.fail("cuStreamSynchronize", 700)
    with pytest.raises(TileRuntimeError) as found:
        driver.synchronize(0)
    assert str(found.value).startswith(
        "running a kernel failed: CUDA_ERROR_ILLEGAL_ADDRESS\n"
        "  got: an illegal memory access was encountered\n"
        "  hint: a kernel accessed memory out of bounds;"
    )


def test_memory_that_is_not_there(driver: Driver, stub: Stub) -> None:
    stub.fail("cuMemAllocAsync", 2)
    assert refusal(TileRuntimeError, driver.allocate, 0, 1 << 40) == (
        "allocating 1099511627776 bytes on GPU 0 failed: CUDA_ERROR_OUT_OF_MEMORY\n"
        "  got: it failed\n"
        "  hint: free tensors, or use smaller ones"
    )


def test_driver_that_does_not_start(stub: Stub) -> None:
    stub.fail("cuInit", 3)
    assert refusal(TileRuntimeError, Driver, stub.path) == (
        "starting the driver failed: CUDA_ERROR_NOT_INITIALIZED\n"
        "  got: it failed\n"
        "  hint: CUDA cannot be used after fork; start worker processes with the method 'spawn'"
    )


def test_driver_that_is_too_old(compiler: Compiler, tmp_path: Path) -> None:
    path = tmp_path / "libold.so"
    path.write_bytes(compiler.compile_shared("int cuInit(unsigned f) { return (int)f; }\n"))
    assert refusal(TileRuntimeError, Driver, str(path)) == (
        "the NVIDIA driver is too old\n"
        "  expected: a driver for CUDA 11.8 or newer\n"
        f"  got: {path}\n"
        "  hint: update the driver"
    )


def test_use_after_fork_is_an_error(driver: Driver) -> None:
    driver._forked()  # what the system calls in a child
    assert refusal(TileRuntimeError, driver.context, 0) == (
        "CUDA was used before this process was forked, and cannot be used after\n"
        "  expected: a process of its own\n"
        f"  got: a fork of process {driver._pid}\n"
        "  hint: multiprocessing.set_start_method('spawn')"
    )


def test_tables_for_c_agree_with_the_header(driver: Driver, stub: Stub) -> None:
    stub.declare("k")
    code = LoadedModule(b"CUBIN", (("k", 0, 1),), "f", lambda: driver)
    address = code.prepare(1)
    assert code.prepare(1) == address
    words = (ctypes.c_uint64 * (TABLE_HEADER + 1)).from_address(address)
    assert words[0] == ctypes.addressof(driver.epoch) and words[1] == 0 and words[2] == 1101
    assert (
        words[3] == driver.address("cuLaunchKernelEx")
        and words[TABLE_HEADER] == code.functions(1)[0]
    )
    assert words[8] == driver.address("cuTensorMapEncodeTiled")
    assert [line for line in stub.take() if line.startswith("load")] == ["load CUBIN in 1"]
