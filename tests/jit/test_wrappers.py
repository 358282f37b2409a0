"""Generated host source at work: C++ and Python hosts run against runtimes that take notes."""

from __future__ import annotations

import ctypes
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from host_stub import CppHost, FakeDriver, FakeTensor, needs_compiler, python_host
from refusals import refusal

import tilelang.language as T
from tilelang.codegen.gpu.module import (
    AssertStep,
    ForStep,
    GpuModule,
    IfStep,
    KernelArg,
    LaunchPlan,
    LetStep,
    Step,
    WorkspaceStep,
)
from tilelang.compat.host_text.host_module import HostModule, call_arguments, host_module
from tilelang.compat.host_text.programs import (
    C_HELPERS,
    PYTHON_HELPERS,
    CPrinter,
    PythonPrinter,
    may_be_undefined,
)
from tilelang.compiler import Artifact
from tilelang.cuda.dialect import emit_cuda
from tilelang.cuda.standalone import standalone
from tilelang.cuda.tma_descriptor import TmaDescriptor
from tilelang.errors import TileUnsupportedError, TileValueError
from tilelang.ir.postfix import Program, evaluate
from tilelang.ir.stmt import PrimFunc
from tilelang.jit.adapter.host import host_source
from tilelang.jit.adapter.wrapper import (
    TLCPUSourceWrapper,
    TLCUDASourceWrapper,
    TLHIPSourceWrapper,
    TLNVRTCSourceWrapper,
)
from tilelang.target import Target

n, stride = T.dynamic("n"), T.dynamic("stride", "int64")
ONE: Program = (1,)
POINTER = KernelArg(0, "pointer", "float32")
BLOCKS: Program = ("$5", 63, "add", 64, "floordiv")


@T.prim_func
def program(
    A: T.Tensor((n,), "float32"), s: T.float32, B: T.StridedTensor((n,), (stride,), "float16"),
    k: T.int32, d: T.float64,
):  # fmt: skip
    with T.Kernel(T.ceildiv(n, 64), threads=64) as bx:
        B[bx] = A[bx] * s + k + d


ARGS = (
    POINTER, KernelArg(2, "pointer", "float16"), KernelArg(1, "float", "float32"),
    KernelArg(3, "int", "int32"), KernelArg(4, "float", "float64"), KernelArg(5, "int", "int32"),
    KernelArg(6, "int", "int64"),
)  # fmt: skip
SIZES = (8, 8, 4, 4, 8, 4, 8)
SOURCE = """extern "C" __global__ void __launch_bounds__(64, 1) first(float* A) {}
extern "C" __global__ void second(float* A) { (void)A; }
"""


def plan(kernel: str = "first", **changes: Any) -> LaunchPlan:
    values: dict[str, Any] = {
        "kernel": kernel, "grid": (BLOCKS, ONE, ONE), "threads": (64, 1, 1), "shared_bytes": 0,
        "args": (POINTER,), **changes,
    }  # fmt: skip
    return LaunchPlan(**values)


def module(*steps: Step, messages: tuple[str, ...] = ()) -> GpuModule:
    return GpuModule(SOURCE, steps, 12, messages, ("first", "second"))


def cpp(given: object, folder: Path, wrapper: Any = TLCUDASourceWrapper) -> CppHost:
    target = "hip" if wrapper is TLHIPSourceWrapper else "cuda"
    return CppHost(wrapper(program, SOURCE, target, given).lib_code, folder)


def arguments(length: int = 100, k: int = 7) -> tuple[Any, ...]:
    return (
        ctypes.c_void_p(0x1000), ctypes.c_float(1.5), ctypes.c_void_p(0x2000), ctypes.c_int32(k),
        ctypes.c_double(2.5), ctypes.c_int32(length), ctypes.c_int64(1 << 40),
        ctypes.c_void_p(0x77),
    )  # fmt: skip


def python(given: object, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, FakeDriver, str]:
    code = TLNVRTCSourceWrapper(program, SOURCE, "cuda", given).lib_code
    assert code is not None
    names, driver = python_host(code, monkeypatch)
    handles = {"first": "handle 1", "second": "handle 2"}

    def call(length: int = 100, k: int = 7, stream: int = 9) -> None:
        tensors = FakeTensor(0x1000, 2), FakeTensor(0x2000, 2)
        names["call"](handles, tensors[0], 1.5, tensors[1], k, 2.5, length, 1 << 40, stream=stream)

    return call, driver, code


def launches_of(driver: FakeDriver) -> list[tuple[Any, ...]]:
    return [call for call in driver.take() if call[0] == "launch"]


# -- parameters ------------------------------------------------------------------------------------
def test_call_takes_parameters_then_shape_symbols_then_stride_symbols() -> None:
    found = [(a.name, a.slot, a.kind, a.dtype) for a in call_arguments(program)]
    assert found == [
        ("A", 0, "tensor", "float32"), ("s", 1, "float", "float32"), ("B", 2, "tensor", "float16"),
        ("k", 3, "int", "int32"), ("d", 4, "float", "float64"), ("n", 5, "int", "int32"),
        ("stride", 6, "int", "int64"),
    ]  # fmt: skip


@needs_compiler
def test_the_cpp_host_launches_with_every_parameter(tmp_path: Path) -> None:
    host = cpp(module(plan(args=ARGS, shared_bytes=5000)), tmp_path)
    assert host.init() == 0
    assert host.notes() == ["attribute 8 = 5000"]
    assert host.call(*arguments(), sizes=SIZES) == 0
    (line,) = host.notes()
    head, _, values = line.partition(" parameters ")
    assert head == "launch (2, 1, 1) (64, 1, 1) 5000 stream 119"
    assert bytes.fromhex(values.replace(" ", "")) == struct.pack(
        "<QQfidiq", 0x1000, 0x2000, 1.5, 7, 2.5, 100, 1 << 40
    )


def test_the_python_host_launches_with_every_parameter(monkeypatch: pytest.MonkeyPatch) -> None:
    call, driver, _ = python(module(plan(args=ARGS, shared_bytes=5000)), monkeypatch)
    call()
    attribute, launch = driver.take()
    assert attribute == (
        "attribute", "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES", 5000, "handle 1",
        ("CUdevice", 2),
    )  # fmt: skip
    assert launch[1] == {
        "gridDimX": 2, "gridDimY": 1, "gridDimZ": 1, "blockDimX": 64, "blockDimY": 1,
        "blockDimZ": 1, "sharedMemBytes": 5000, "hStream": 9, "attrs": [],
    }  # fmt: skip
    assert launch[2] == "handle 1" and launch[4] == 0
    values, kinds = launch[3]
    assert values == (0x1000, 0x2000, 1.5, 7, 2.5, 100, 1 << 40)
    assert kinds == (
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_float, ctypes.c_int32, ctypes.c_double,
        ctypes.c_int32, ctypes.c_int64,
    )  # fmt: skip


def test_the_python_host_sets_attributes_once_for_a_handle(monkeypatch: pytest.MonkeyPatch) -> None:
    code = TLNVRTCSourceWrapper(program, SOURCE, "cuda", module(plan())).lib_code
    names, driver = python_host(code or "", monkeypatch)

    def call(handle: object, device: int) -> list[Any]:
        tensor = FakeTensor(0x1000, device)
        names["call"]({"first": handle}, tensor, 1.0, tensor, 1, 1.0, 64, 1)
        return [kind for kind, *_ in driver.take()]

    one, other = object(), object()
    assert call(one, 0) == ["attribute", "launch"]
    assert call(one, 0) == ["launch"]
    assert call(one, 1) == ["attribute", "launch"]  # another device
    assert call(other, 0) == ["attribute", "launch"]  # the module was loaded again


@needs_compiler
def test_parameters_named_like_host_variables_are_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    @T.prim_func
    def words(
        stream: T.Tensor((8,), "float32"), config: T.int32, template: T.int32, _device: T.int32,
        _prepared: T.int32, _l2_window: T.int32, _scratch: T.int32, cudaSuccess: T.int32,
        CUresult: T.int32, memory: T.int32,
    ):  # fmt: skip
        with T.Kernel(1, threads=32):
            of_cuda = _device + _prepared + _l2_window + _scratch + cudaSuccess + CUresult + memory
            stream[T.get_thread_binding() % 8] = config + template + of_cuda

    emitted = emit_cuda(words, Target("cuda", "sm_80"))
    text = "__global__ void words_kernel() {}"
    given = GpuModule(text, emitted.steps, emitted.slots, (), emitted.kernels)
    host = CppHost(TLCUDASourceWrapper(words, given.source, "cuda", given).lib_code or "", tmp_path)
    numbers = tuple(range(5, 14))
    values = ctypes.c_void_p(0x1000), *map(ctypes.c_int32, numbers), ctypes.c_void_p(3)
    assert host.call(*values, sizes=(8, *[4] * 9)) == 0
    assert host.notes()[0].startswith("launch (1, 1, 1) (32, 1, 1) 0 stream 3 ")
    code = TLNVRTCSourceWrapper(words, given.source, "cuda", given).lib_code or ""
    names, driver = python_host(code, monkeypatch)
    names["call"]({"words_kernel": 1}, FakeTensor(0x1000, 2), *numbers, stream=3)
    assert launches_of(driver)[0][3][0] == (0x1000, *numbers)


@needs_compiler
def test_scalars_are_converted_to_the_type_that_the_kernel_takes(tmp_path: Path) -> None:
    args = (KernelArg(3, "int", "int64"), KernelArg(1, "float", "float64"))
    host = cpp(module(plan(args=args)), tmp_path)
    assert host.call(*arguments(k=-2), sizes=(8, 8)) == 0
    (line,) = host.notes()
    values = bytes.fromhex(line.partition(" parameters ")[2].replace(" ", ""))
    assert struct.unpack("<qd", values) == (-2, 1.5)


@pytest.mark.parametrize("wrapper", [TLCUDASourceWrapper, TLNVRTCSourceWrapper])
def test_a_scalar_that_hosts_cannot_pass_is_refused(wrapper: Any) -> None:
    given = module(plan(args=(KernelArg(1, "float", "float16"),)))
    assert refusal(TileUnsupportedError, wrapper, program, SOURCE, "cuda", given) == (
        "host source cannot pass a scalar of type float16 to a kernel\n"
        "  expected: float32 or float64\n"
        "  hint: pass it in a tensor of one element, or as float32"
    )


# -- grids -----------------------------------------------------------------------------------------
@needs_compiler
def test_an_empty_grid_launches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = module(plan(), plan("second", grid=((3,), (2,), ONE)))
    host = cpp(given, tmp_path)
    assert host.call(*arguments(0), sizes=(8,)) == 0
    assert [line.split(" parameters")[0] for line in host.notes()] == [
        "launch (3, 2, 1) (64, 1, 1) 0 stream 119"
    ]
    call, driver, _ = python(given, monkeypatch)
    call(0)
    assert [launch[2] for launch in launches_of(driver)] == ["handle 2"]


@needs_compiler
def test_a_grid_that_is_too_large_is_an_error(tmp_path: Path) -> None:
    host = cpp(module(plan(grid=(ONE, ("$5",), ONE))), tmp_path)
    assert host.call(*arguments(65536)) == -1
    assert host.error() == "the grid of kernel first is too large"
    assert host.notes() == []
    assert host.call(*arguments(65535), sizes=(8,)) == 0


@needs_compiler
def test_a_division_by_zero_ends_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = module(plan(grid=((64, "$3", "floordiv"), ONE, ONE)))
    host = cpp(given, tmp_path)
    assert host.call(*arguments(k=0)) == -1
    assert host.error() == "program: division by zero on the host"
    assert host.notes() == []
    assert host.call(*arguments(k=16), sizes=(8,)) == 0
    assert host.notes()[0].startswith("launch (4, 1, 1)")
    call, driver, _ = python(given, monkeypatch)
    with pytest.raises(ZeroDivisionError):
        call(k=0)
    assert driver.take() == []


# -- launch attributes -----------------------------------------------------------------------------
@needs_compiler
def test_clusters_cooperation_and_dependence_are_launch_attributes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = module(plan(cluster=(4, 2, 2), cooperative=True, pdl=True), plan("second"))
    host = cpp(given, tmp_path)
    assert host.init() == 0
    assert host.notes() == ["attribute 13 = 1"]  # more than 8 blocks in a cluster
    assert host.call(*arguments(), sizes=(8,)) == 0
    first, second = host.notes()
    assert " cluster=4x2x2 cooperative=1 pdl=1 parameters" in first
    assert "=" not in second
    call, driver, _ = python(given, monkeypatch)
    call()
    calls = driver.take()
    assert [entry[1] for entry in calls if entry[0] == "attribute"] == [
        "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES",
        "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED",
        "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES",
    ]
    launches = [entry[1] for entry in calls if entry[0] == "launch"]
    assert launches[0]["numAttrs"] == 3 and launches[1]["attrs"] == []
    prefix = "CU_LAUNCH_ATTRIBUTE_"
    assert launches[0]["attrs"] == [
        {"id": prefix + "CLUSTER_DIMENSION", "value": {"clusterDim": {"x": 4, "y": 2, "z": 2}}},
        {"id": prefix + "COOPERATIVE", "value": {"cooperative": 1}},
        {
            "id": prefix + "PROGRAMMATIC_STREAM_SERIALIZATION",
            "value": {"programmaticStreamSerializationAllowed": 1},
        },
    ]


def test_facts_about_a_launch_name_its_kernel() -> None:
    made = TLCUDASourceWrapper(program, SOURCE, "cuda", module(plan()))
    with pytest.raises(TileValueError, match="the facts about the launch first have no function_n"):
        made.create_dispatch_func(SOURCE, {"first": {}})


@needs_compiler
def test_init_prepares_every_kernel(tmp_path: Path) -> None:
    given = module(
        plan(shared_bytes=100), plan(shared_bytes=70000), plan("second", shared_bytes=300)
    )
    host = cpp(given, tmp_path)
    assert host.init() == 0 and host.error() == ""
    assert host.notes() == ["attribute 8 = 70000", "attribute 8 = 300"]
    host.fail("cudaFuncSetAttribute", 5)
    assert host.init() == -1
    assert host.error() == (
        "Failed to set the allowed dynamic shared memory size to 70000 with error: error 5"
    )


@needs_compiler
def test_a_failing_launch_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = cpp(module(plan(), plan("second")), tmp_path)
    host.fail("launch", 7)
    assert host.call(*arguments()) == -1
    assert host.error() == "Failed to launch kernel first: error 7"
    assert len(host.notes()) == 1
    call, driver, _ = python(module(plan(), plan("second")), monkeypatch)
    driver.results["launch"] = ("CUDA_ERROR_INVALID_VALUE",)
    with pytest.raises(RuntimeError, match="Failed to launch kernel first: CUDA_ERROR_INVALID"):
        call()
    driver.results["attribute"] = ("CUDA_ERROR_OUT_OF_MEMORY",)
    call, driver, _ = python(module(plan(shared_bytes=9)), monkeypatch)
    driver.results["attribute"] = ("CUDA_ERROR_OUT_OF_MEMORY",)
    text = "Failed to set max dynamic shared memory size to 9 for kernel first: CUDA_ERROR_OUT"
    with pytest.raises(RuntimeError, match=text):
        call()


# -- steps -----------------------------------------------------------------------------------------
STEPS = (
    LetStep(7, ("$5", 3, "mul"), "int32"),
    AssertStep(("$7", 1000, "lt"), 0),
    IfStep(
        ("$3", 0, "gt"),
        (plan(grid=(("$7",), ONE, ONE)),),
        (
            ForStep(
                8, (0,), ("$5",), (4,),
                (plan("second", grid=(("$8", 1, "add"), ONE, ONE),
                      args=(KernelArg(8, "int", "int32"),)),),
            ),
        ),
    ),
)  # fmt: skip


@needs_compiler
def test_steps_run_in_cpp(tmp_path: Path) -> None:
    host = cpp(module(*STEPS, messages=('only "short" 100% lists',)), tmp_path)
    assert host.call(*arguments(10, k=1), sizes=(8,)) == 0
    assert host.notes()[0].startswith("launch (30, 1, 1)")
    assert host.call(*arguments(10, k=0), sizes=(4,)) == 0
    found = [re.findall(r"\((\d+),.* (\w+)$", line)[0] for line in host.notes()]
    assert found == [("1", "00000000"), ("5", "04000000"), ("9", "08000000")]
    assert host.call(*arguments(500)) == -1
    assert host.error() == 'program: only "short" 100% lists'
    assert host.notes() == []


def test_steps_run_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    given = module(*STEPS, messages=('only "short" {lists}',))
    call, driver, _ = python(given, monkeypatch)
    call(10, k=1)
    assert [launch[1]["gridDimX"] for launch in launches_of(driver)] == [30]
    call(10, k=0)
    found = [(launch[1]["gridDimX"], *launch[3][0]) for launch in launches_of(driver)]
    assert found == [(1, 0), (5, 4), (9, 8)]
    assert refusal(RuntimeError, call, 500) == 'program: only "short" {lists}'


@needs_compiler
def test_host_values_are_cut_to_their_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lets = [LetStep(7 + at, ("$5",), dtype) for at, dtype in enumerate(("uint8", "int16", "bool"))]
    given = module(*lets, plan(grid=(("$7",), ("$8",), ("$9",))))
    host = cpp(given, tmp_path)
    assert host.call(*arguments(300), sizes=(8,)) == 0
    assert host.notes()[0].startswith("launch (44, 300, 1)")
    call, driver, _ = python(given, monkeypatch)
    call(300)
    launch = launches_of(driver)[0][1]
    assert [launch[f"gridDim{axis}"] for axis in "XYZ"] == [44, 300, 1]


@needs_compiler
def test_a_loop_needs_a_positive_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = module(ForStep(7, (0,), (4,), ("$3",), (plan(),)))
    host = cpp(given, tmp_path)
    assert host.call(*arguments(k=0)) == -1
    assert host.error() == "program: the step of a loop is not positive"
    assert host.call(*arguments(k=2), sizes=(8,)) == 0
    assert len(host.notes()) == 2
    call, driver, _ = python(given, monkeypatch)
    with pytest.raises(RuntimeError, match="the step of a loop is not positive"):
        call(k=-1)
    call(k=2)
    assert len(launches_of(driver)) == 2


WORKSPACE = (WorkspaceStep(7, ("$5", 4, "mul")), plan(args=(KernelArg(7, "pointer", "float32"),)))


@needs_compiler
def test_workspaces_are_given_back_in_cpp(tmp_path: Path) -> None:
    host = cpp(module(*WORKSPACE), tmp_path)
    assert host.call(*arguments(), sizes=(8,)) == 0
    first, launch, last = host.notes()
    assert (first, last) == ("allocate 400", "free 5000")
    assert launch.endswith("parameters 0050000000000000")
    host.fail("launch", 3)
    assert host.call(*arguments(), sizes=(8,)) == -1
    assert host.notes()[-1] == "free 5000"
    host.fail("allocate", 2)
    assert host.call(*arguments()) == -1
    assert host.error() == "program: no device memory for a workspace: error 2"


def test_workspaces_are_given_back_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    call, driver, _ = python(module(*WORKSPACE), monkeypatch)
    call()
    found = [entry for entry in driver.take() if entry[0] != "attribute"]
    assert found[0] == ("allocate", 400, 9) and found[2] == ("free", 0x5000, 9)
    assert found[1][3] == ((0x5000,), (ctypes.c_void_p,))
    driver.results["launch"] = ("CUDA_ERROR_UNKNOWN",)
    with pytest.raises(RuntimeError):
        call()
    assert driver.take()[-1] == ("free", 0x5000, 9)
    driver.results["allocate"] = ("CUDA_ERROR_OUT_OF_MEMORY", 0)
    with pytest.raises(RuntimeError, match="no device memory for a workspace: CUDA_ERROR_OUT_OF"):
        call()


# -- expressions -----------------------------------------------------------------------------------
PROGRAMS: tuple[Program, ...] = (
    ("$0", "$1", "sub", "$2", "sub"),
    ("$0", "$1", "$2", "sub", "sub"),
    ("$0", "$1", "add", "$2", "mul", "neg"),
    ("$0", "neg", "neg", "$1", "lnot", "add"),
    ("$0", "$1", "lt", "$2", 1, "gt", "eq"),
    ("$0", "$1", "lt", "$2", "lt"),
    ("$0", "$1", "land", "$2", "lor", 2, "add"),
    ("$0", "$1", "lor", "lnot"),
    ("$0", "$1", "eq", "$2", 3, "$0", "add", "select", 2, "mul"),
    ("$0", "$1", "bitand", "$2", "bitor", 5, "bitxor"),
    ("$0", 3, "shl", 1, "shr", "$1", 1, "sub", "add"),
    ("$0", 3, "floordiv", "$1", -4, "floordiv", "add"),
    ("$0", 3, "floormod", "$1", -4, "floormod", "mul"),
    ("$0", 3, "truncdiv", "$1", -4, "truncmod", "sub"),
    ("$0", "$1", "truncdiv", "$0", "$1", "truncmod", "sub"),
    ("$0", "$1", "floordiv", "$0", "$1", "floormod", "sub"),
    ("$0", "$1", "min", "$2", "max", -7, "add"),
    (65536, 65536, "mul", "$0", "add"),
    (5000000000, "$0", "mul", -(2**63), "max"),
    (1, 40, "shl", "$0", "bitor"),
    ("$0", 0, "eq", 5, 64, "$0", "floordiv", "select"),
)


VALUES = ((7, 2, 3), (-7, 2, 0), (7, -2, 5), (-8, -3, -1), (0, 0, 4), (5, 5, 1))


def test_python_host_source_agrees_with_the_launcher() -> None:
    text = {number: name for number, name in enumerate("abc")}
    code = "".join(PYTHON_HELPERS.values())
    names: dict[str, Any] = {}
    exec(code, names)
    for item in PROGRAMS:
        printed = PythonPrinter(text).text(item)
        for values in VALUES:
            expected = evaluate(item, values)
            if expected is not None:
                found = eval(printed, names, dict(zip("abc", values)))
                assert found == expected, (printed, values)


@needs_compiler
def test_c_host_source_agrees_with_the_launcher(tmp_path: Path) -> None:
    texts = [CPrinter({0: "a", 1: "b", 2: "c"}).text(item) for item in PROGRAMS]
    lines = ["#include <stdint.h>", '#include "stub_common.h"', "static char error_buf[9];"]
    lines += C_HELPERS.values()
    lines += ['extern "C" int init() { return tl_undefined; }']
    lines += ['extern "C" const char* get_last_error() { return error_buf; }']
    lines += ['extern "C" int64_t call(int which, int64_t a, int64_t b, int64_t c) {']
    lines += ["tl_undefined = 0;", "switch (which) {"]
    lines += [f"case {number}: return {text};" for number, text in enumerate(texts)]
    lines += ["}", "return 0;", "}"]
    host = CppHost("\n".join(lines), tmp_path)
    host.library.call.restype = ctypes.c_int64
    for number, item in enumerate(PROGRAMS):
        for values in VALUES:
            expected = evaluate(item, values)
            found = host.library.call(number, *map(ctypes.c_int64, values))
            assert bool(host.init()) == (expected is None), (texts[number], values)
            if expected is not None:
                assert found == expected, (texts[number], values)


def test_only_divisions_by_unknown_numbers_may_be_undefined() -> None:
    assert not may_be_undefined(("$0", 3, "floordiv", 0, 2, "shl", "add"))
    for item in (("$0", "$1", "floordiv"), ("$0", 0, "truncmod"), ("$0", 64, "shl")):
        assert may_be_undefined(item)


# -- tensor maps -----------------------------------------------------------------------------------
TILED = TmaDescriptor(
    "A", 7, (64, ("$5",)), (4, ("$5", 16, "mul")), (1, 2), box=(32, 8), swizzle=3,
    l2_promotion=2, fill=1,
)  # fmt: skip
IM2COL = TmaDescriptor(
    "B", 6, (64, 10, 9, 2), (2, 128, 1280, 11520), (1, 1, 2, 1), lower=(-1, -2), upper=(1, 2),
    channels=32, pixels=128, interleave=0, swizzle=1, l2_promotion=3,
)  # fmt: skip


def mapped(*steps: Step, **descriptors: TmaDescriptor) -> HostModule:
    return host_module(module(*steps), program, descriptors)


def takes(*names: str, kernel: str = "first", **changes: Any) -> LaunchPlan:
    maps = tuple(KernelArg(-1, "tensormap", name) for name in names)
    return plan(kernel, args=(*maps, POINTER), **changes)


@needs_compiler
def test_tensor_maps_are_encoded_in_cpp(tmp_path: Path) -> None:
    host = cpp(mapped(takes("A_desc", "B_desc"), A_desc=TILED, B_desc=IM2COL), tmp_path)
    assert host.call(*arguments(64), sizes=(4, 4, 8)) == 0
    assert host.notes() == [
        "tiled type 7 rank 2 at 1000 dims 64 64 strides 1024 box 32 8 steps 1 2 modes 0 3 2 1",
        "im2col type 6 rank 4 at 2000 dims 64 10 9 2 strides 128 1280 11520 lower -1 -2 upper 1 2"
        " channels 32 pixels 128 steps 1 1 2 1 modes 0 1 3 0",
        "launch (1, 1, 1) (64, 1, 1) 0 stream 119 parameters 01000000 02000000 0010000000000000",
    ]
    host.fail("im2col", 1)
    assert host.call(*arguments(64)) == -1
    assert host.error() == "Error: Failed to initialize the TMA descriptor B_desc"
    host.fail("tiled", 1)
    assert host.call(*arguments(64)) == -1
    assert host.error() == "Error: Failed to initialize the TMA descriptor A_desc"


def test_tensor_maps_are_encoded_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    given = mapped(takes("A_desc", "B_desc"), A_desc=TILED, B_desc=IM2COL)
    call, driver, _ = python(given, monkeypatch)
    call(64)
    tiled, im2col, _, launch = driver.take()
    assert tiled == (
        "tiled", ("CUtensorMapDataType", 7), 2, 0x1000, [64, 64], [1024], [32, 8], [1, 2],
        ("CUtensorMapInterleave", 0), ("CUtensorMapSwizzle", 3), ("CUtensorMapL2promotion", 2),
        ("CUtensorMapFloatOOBfill", 1),
    )  # fmt: skip
    assert im2col == (
        "im2col", ("CUtensorMapDataType", 6), 4, 0x2000, [64, 10, 9, 2], [128, 1280, 11520],
        [-1, -2], [1, 2], 32, 128, [1, 1, 2, 1], ("CUtensorMapInterleave", 0),
        ("CUtensorMapSwizzle", 1), ("CUtensorMapL2promotion", 3), ("CUtensorMapFloatOOBfill", 0),
    )  # fmt: skip
    assert launch[3] == (("map1", "map2", 0x1000), (None, None, ctypes.c_void_p))
    driver.results["tiled"] = ("CUDA_ERROR_INVALID_VALUE", None)
    with pytest.raises(RuntimeError, match="initialize the TMA descriptor A_desc: CUDA_ERROR_INV"):
        call(64)


@needs_compiler
def test_a_tensor_without_elements_has_no_map(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = mapped(takes("A_desc", "B_desc", grid=(ONE, ONE, ONE)), A_desc=TILED, B_desc=IM2COL)
    host = cpp(given, tmp_path)
    assert host.call(*arguments(0), sizes=(4, 4, 8)) == 0
    assert [note.split()[0] for note in host.notes()] == ["im2col", "launch"]
    call, driver, _ = python(given, monkeypatch)
    call(0)
    assert [entry[0] for entry in driver.take()] == ["im2col", "attribute", "launch"]


@needs_compiler
def test_two_maps_of_one_tensor_differ_and_equal_maps_are_encoded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = TmaDescriptor("A", 7, (64, 64), (4, 256), (1, 1), box=(16, 4))
    given = mapped(
        takes("A_desc", "A_desc_1"), takes("A_desc_2", kernel="second"),
        A_desc=TILED, A_desc_1=other, A_desc_2=TILED,
    )  # fmt: skip
    host = cpp(given, tmp_path)
    assert host.call(*arguments(64), sizes=(4, 4)) == 0
    first, second, one, two = host.notes()
    assert "box 32 8" in first and "box 16 4" in second
    assert one.endswith(" parameters 01000000 02000000") and " parameters 01000000 " in two
    call, driver, _ = python(given, monkeypatch)
    call(64)
    calls = [entry for entry in driver.take() if entry[0] != "attribute"]
    assert [kind for kind, *_ in calls] == ["tiled", "tiled", "launch", "launch"]
    assert calls[2][3][0][:2] == ("map1", "map2") or calls[2][3][0][:2] == ("map2", "map1")
    assert calls[3][3][0][0] == calls[2][3][0][0]


@needs_compiler
def test_an_empty_grid_needs_no_tensor_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = mapped(takes("A_desc"), A_desc=TILED)
    host = cpp(given, tmp_path)
    assert host.call(*arguments(0)) == 0 and host.notes() == []
    call, driver, _ = python(given, monkeypatch)
    call(0)
    assert driver.take() == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"box": (300, 8)}, "the box is out of range\n  expected: 1 to 256\n  got: 300"),
        ({"box": (3, 8)}, "the box is too narrow\n  expected: rows of a multiple of 16 bytes"),
        ({"swizzle": 1}, "the box is wider than the swizzle\n  expected: 32 bytes\n  got: 128"),
        ({"swizzle": 4}, "unknown swizzle\n  expected: 0 to 3\n  got: 4"),
        ({"data_type": 16}, "unknown data type\n  expected: 0 to 15\n  got: 16"),
        ({"data_type": 1, "swizzle": 0}, "only floats can be filled with NaN\n  expected: fill=0"),
        ({"dims": (0, 4)}, "a dim is out of range\n  expected: 1 to 2**32\n  got: 0"),
        ({"strides": (4, 24)}, "a stride is out of range\n  expected: a multiple of 16 bytes"),
        ({"strides": (4,)}, "strides has the wrong length\n  expected: 2\n  got: 1"),
        ({"element_strides": (1, 9)}, "an element stride is out of range\n  expected: 1 to 8"),
        ({"dims": (64,) * 6}, "the rank is out of range\n  expected: 1 to 5\n  got: 6"),
        ({"box": (8,)}, "box has the wrong length\n  expected: 2"),
    ],
)
def test_a_tensor_map_that_the_driver_refuses_is_refused_here(
    changes: dict[str, Any], text: str
) -> None:
    with pytest.raises(TileValueError) as error:
        TmaDescriptor(**{**vars(TILED), **changes})
    assert str(error.value).startswith(f"the tensor map of `A`: {text}")


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"lower": (1,)}, "lower has the wrong length\n  expected: 2\n  got: 1"),
        ({"channels": 257}, "channels is out of range\n  expected: 1 to 256\n  got: 257"),
        ({"pixels": 0}, "pixels is out of range\n  expected: 1 to 1024\n  got: 0"),
    ],
)
def test_an_im2col_map_is_checked(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(TileValueError) as error:
        TmaDescriptor(**{**vars(IM2COL), **changes})
    assert str(error.value) == f"the tensor map of `B`: {text}"


def test_maps_must_be_known_and_describe_a_parameter() -> None:
    with pytest.raises(TileValueError, match="unknown tensor map 'A_desc'"):
        TLCUDASourceWrapper(program, SOURCE, "cuda", mapped(takes("A_desc")))
    lost = TmaDescriptor("Z", 7, (64,), (4,), (1,), box=(32,))
    with pytest.raises(TileValueError, match="the tensor map of `Z` describes no parameter"):
        TLCUDASourceWrapper(program, SOURCE, "cuda", mapped(takes("Z_desc"), Z_desc=lost))


# -- the L2 cache ----------------------------------------------------------------------------------
def hinted() -> tuple[PrimFunc, GpuModule]:
    @T.prim_func
    def hinted(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 64), threads=64) as bx:
            T.annotate_l2_hit_ratio({A: 0.5, B: 0.25})
            B[bx * 64] = A[bx * 64]

    found = emit_cuda(hinted, Target("cuda", "sm_80"))
    source = 'extern "C" __global__ void hinted_kernel() {}'
    return hinted, GpuModule(source, found.steps, found.slots, (), found.kernels)


@needs_compiler
@pytest.mark.parametrize(("length", "size"), [(100, 400), (5000, 4096)])
def test_the_l2_window_is_set_and_reset_in_cpp(length: int, size: int, tmp_path: Path) -> None:
    func, given = hinted()
    host = CppHost(TLCUDASourceWrapper(func, given.source, "cuda", given).lib_code or "", tmp_path)
    values = ctypes.c_void_p(0x1000), ctypes.c_void_p(0x2000), ctypes.c_int32(length)
    expected = [  # a stream has one window: that of the highest ratio is set last
        f"limit {size}", f"window 2000 + {size} hits 0.25 props 2 1",
        f"limit {size}", f"window 1000 + {size} hits 0.5 props 2 1", "launch", "no window", "reset",
        "limit 77",
    ]  # fmt: skip
    assert host.call(*values, ctypes.c_void_p(0), sizes=(8, 8)) == 0
    notes = [line if line[:6] != "launch" else "launch" for line in host.notes()]
    assert notes == expected
    host.fail("launch", 4)  # the window ends all the same
    assert host.call(*values, ctypes.c_void_p(0), sizes=(8, 8)) == -1
    assert host.notes()[-1] == "limit 77"


def test_the_l2_window_is_set_and_reset_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    func, given = hinted()
    code = TLNVRTCSourceWrapper(func, given.source, "cuda", given).lib_code or ""
    names, driver = python_host(code, monkeypatch)

    def call() -> list[Any]:
        try:
            names["call"]({"hinted_kernel": 1}, FakeTensor(0x1000), FakeTensor(0x2000), 100)
        except RuntimeError:
            pass
        return driver.take()

    _, other_limit, other, limit, window, launch, none, reset, restored = call()
    assert other_limit[2] == 400 and other[3]["base_ptr"] == 0x2000
    assert other[3]["hitRatio"] == 0.25
    assert limit[2] == 400 and restored[2] == 77 and reset == ("reset",)
    assert window[3] == {
        "base_ptr": 0x1000, "num_bytes": 400, "hitRatio": 0.5,
        "hitProp": "CU_ACCESS_PROPERTY_PERSISTING", "missProp": "CU_ACCESS_PROPERTY_STREAMING",
    }  # fmt: skip
    assert launch[0] == "launch" and none[3]["num_bytes"] == 0
    driver.results["launch"] = ("CUDA_ERROR_UNKNOWN",)
    assert call()[-1][2] == 77


def test_no_l2_window_remains_if_attributes_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    func, given = hinted()
    code = TLNVRTCSourceWrapper(func, given.source, "cuda", given).lib_code or ""
    names, driver = python_host(code, monkeypatch)
    driver.results["attribute"] = ("CUDA_ERROR_INVALID_VALUE",)
    with pytest.raises(RuntimeError, match="Failed to set max dynamic shared memory size"):
        names["call"]({"hinted_kernel": 1}, FakeTensor(0x1000), FakeTensor(0x2000), 100)
    assert [entry[0] for entry in driver.take()] == ["attribute"]


# -- HIP, and choosing -----------------------------------------------------------------------------
@needs_compiler
def test_the_hip_host_runs(tmp_path: Path) -> None:
    given = module(
        plan(args=ARGS, shared_bytes=65536), plan("second", shared_bytes=128, cooperative=True)
    )
    made = TLHIPSourceWrapper(program, SOURCE, "hip", given)
    host = CppHost(made.lib_code or "", tmp_path)
    assert host.init() == 0
    assert host.notes() == []  # 64 KiB need no attribute
    assert host.call(*arguments(), sizes=(8,)) == 0
    first, second = host.notes()
    assert first.startswith("launch (2, 1, 1) (64, 1, 1) 65536 stream 119 parameters 00100000")
    assert second.startswith("together (2) 128 parameters 00100000")
    host.fail("launch", 4)
    assert host.call(*arguments()) == -1
    assert host.error() == "Failed to launch kernel first: hip error 4"
    assert "cuda" not in (made.lib_code or "")


@needs_compiler
def test_hip_workspaces_and_too_much_shared_memory(tmp_path: Path) -> None:
    # Every kernel is checked, not the first alone.
    given = module(*WORKSPACE, plan(shared_bytes=128), plan("second", shared_bytes=65537))
    host = cpp(given, tmp_path, TLHIPSourceWrapper)
    assert host.init() == -1
    assert host.error() == (
        "Failed to set the allowed dynamic shared memory size for second to 65537"
    )
    assert host.call(*arguments(), sizes=(8,)) == 0
    assert [line.split()[0] for line in host.notes()] == [
        "allocate",
        "launch",
        "launch",
        "launch",
        "free",
    ]


@pytest.mark.parametrize("changes", [{"cluster": (2, 1, 1)}, {"pdl": True}])
def test_hip_rejects_unsupported_features(changes: dict[str, Any]) -> None:
    with pytest.raises(TileUnsupportedError) as error:
        TLHIPSourceWrapper(program, SOURCE, "hip", module(plan(**changes)))
    assert str(error.value).startswith(
        "the kernel first cannot be launched by HIP\n"
        "  expected: no clusters, dependent launches or tensor maps\n"
    )


def test_host_source_follows_artifact_and_backend() -> None:
    given = module(plan(args=ARGS))
    artifact = Artifact(SOURCE, "cuda", "first", (), (), device=given)
    c = host_source(artifact, program)
    assert c == TLCUDASourceWrapper(program, SOURCE, "cuda", given).lib_code
    python_code = host_source(artifact, program, "nvrtc")
    assert python_code == TLNVRTCSourceWrapper(program, SOURCE, "cuda", given).lib_code
    compile(python_code, "host", "exec")
    hip = Artifact(SOURCE, "hip", "first", (), (), device=given)
    assert "hipLaunchKernel(" in host_source(hip, program, "nvrtc")
    metal = Artifact("kernel void first() {}", "metal", "first", (), ())
    assert host_source(metal, program) == metal.source
    text = "int32_t tl_call(const int64_t* slots) { return 0; }"
    cpu = Artifact(text, "c", "tl_call", (), ())
    assert host_source(cpu, program) == TLCPUSourceWrapper(program, text, "cpu").lib_code


# -- device text -----------------------------------------------------------------------------------
def test_device_source_of_this_compiler_is_self_contained() -> None:
    func, _ = hinted()
    source = emit_cuda(func, Target("cuda", "sm_80")).source
    text = standalone(source)
    assert '#include "' not in text
    assert text.count("#ifndef TL_TYPES_H") == 1
    own = source[source.index('extern "C"') :].strip()
    assert own in text
    # Names of the C library mean other types in the device part only.
    start, end = text.index("#define int64_t tl_int64_t"), text.rindex("#undef int64_t")
    assert start < text.index("typedef") < text.index(own) < end


def test_other_device_source_is_unchanged() -> None:
    for source in (SOURCE, '#include "mine.h"\n' + SOURCE, '#include "tl_none.h"\n' + SOURCE):
        assert standalone(source) == source
