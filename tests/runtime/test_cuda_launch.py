"""Calls of CUDA programs through both launchers, against a driver that takes notes."""

from __future__ import annotations

import os
import signal
import struct
import warnings
from collections.abc import Callable
from typing import Any

import hypothesis.strategies as st
import pytest
from cuda_stub import STREAM, Stub, build, fake_torch, on_gpu
from hypothesis import given, settings
from refusals import refusal

from tilelang.codegen.gpu.module import (
    AssertStep,
    ForStep,
    GpuModule,
    IfStep,
    KernelArg,
    LaunchPlan,
    LetStep,
    MapStep,
    Step,
    WorkspaceStep,
)
from tilelang.cpu.toolchain import Compiler
from tilelang.cuda import driver as driver_module
from tilelang.cuda.driver import Driver
from tilelang.cuda.loaded_module import LoadedModule
from tilelang.cuda.tma_descriptor import TmaDescriptor
from tilelang.errors import (
    ArgumentTypeError,
    DeviceAssertError,
    InternalError,
    KernelArgumentError,
    TileRuntimeError,
    TileUnsupportedError,
)
from tilelang.ir.postfix import OPERATORS, REAL, Program
from tilelang.runtime import gpu as gpu_module
from tilelang.runtime.cache import DiskCache
from tilelang.runtime.gpu import GpuLauncher, make_gpu_launcher
from tilelang.runtime.host_program import host_program, kernel_table
from tilelang.runtime.signature import APART, LaunchSpec, Param, Symbol, scalar, tensor

torch = pytest.importorskip("torch", reason="the tensors are torch's")

ONE: Program = (1,)
A, B = KernelArg(0, "pointer", "float32"), KernelArg(1, "pointer", "float32")


def plan(*args: KernelArg, grid: tuple[Program, ...] = ((4,),), **changes: Any) -> LaunchPlan:
    full = (*grid, *[ONE] * (3 - len(grid)))
    values: dict[str, Any] = {"threads": (128, 1, 1), "shared_bytes": 0, **changes}
    return LaunchPlan("k", full, args=args, **values)


def module(*steps: Step, slots: int = 8, messages: tuple[str, ...] = ()) -> GpuModule:
    return GpuModule("", steps, slots, messages, ("k",))


def spec(*params: Param, symbols: tuple[Symbol, ...] = (), **more: Any) -> LaunchSpec:
    return LaunchSpec("f", params, symbols, device="cuda", **more)


@pytest.fixture(scope="module")
def stub(compiler: Compiler, tmp_path_factory: pytest.TempPathFactory) -> Stub:
    return build(compiler, tmp_path_factory.mktemp("stub"))


class Maker:
    """Makes launchers of one kind; counts the calls that C hands to Python."""

    def __init__(self, kind: str, stub: Stub, compiler: Compiler, cache: DiskCache) -> None:
        self.kind, self.stub, self.compiler, self.cache = kind, stub, compiler, cache
        self.slow = 0
        self.driver = Driver(stub.path)

    def __call__(
        self, signature: LaunchSpec, made: GpuModule, sizes: tuple[int, ...] = (), **more: Any
    ) -> Callable[..., Any]:
        self.stub.declare("k", *sizes)
        self.stub.fail("", 0)
        self.stub.take()
        code = LoadedModule(b"CUBIN", kernel_table(made), "f", lambda: self.driver)
        native = self.compiler if self.kind == "c" else None
        launcher = make_gpu_launcher(
            signature, host_program(made), code, compiler=native, cache=self.cache, **more
        )
        assert isinstance(launcher, GpuLauncher) is (self.kind == "python")
        return launcher


@pytest.fixture(params=["python", "c"])
def make(
    request: pytest.FixtureRequest, stub: Stub, compiler: Compiler, session_cache: DiskCache,
    monkeypatch: pytest.MonkeyPatch,
) -> Maker:  # fmt: skip
    fake_torch(monkeypatch)
    maker = Maker(request.param, stub, compiler, session_cache)
    plain = GpuLauncher.__call__

    def counting(self: GpuLauncher, *args: Any, **keywords: Any) -> Any:
        maker.slow += 1
        return plain(self, *args, **keywords)

    monkeypatch.setattr(gpu_module.GpuLauncher, "__call__", counting)
    return maker


def floats(*shape: int, index: int = 0) -> Any:
    return on_gpu(torch.zeros(shape), index)


MEETINGS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], bool]] = {
    "the same": (lambda x: x, lambda x: x, True),
    "by one element": (lambda x: x[:5], lambda x: x[4:], True),
    "inside": (lambda x: x, lambda x: x[3:4], True),
    "between": (lambda x: x[::2], lambda x: x[1:3], True),
    "beside": (lambda x: x[:4], lambda x: x[4:], False),
    "apart": (lambda x: x, lambda x: x.clone(), False),
    "empty": (lambda x: x[2:2], lambda x: x, False),
}


@pytest.mark.parametrize("written", [(True, False), (False, True), (False, False)])
@pytest.mark.parametrize("how", MEETINGS)
def test_an_aliased_output_selects_a_kernel_without_noalias(
    how: str, written: tuple[bool, bool], make: Maker, stub: Stub
) -> None:
    first, second, meet = MEETINGS[how]
    params = [
        tensor(name, "float32", ((f"${at}",),), ((f"${at + 2}",),), written=own)
        for at, (name, own) in enumerate(zip("AB", written))
    ]
    symbols = tuple(Symbol(name) for name in ("m", "n", "s", "t"))
    asked: list[tuple[Any, bool]] = []

    def narrow(limits: Any, shared: bool) -> Callable[..., Any]:
        asked.append((limits, shared))
        return lambda *args: "another kernel"

    signature = spec(*params, symbols=symbols, noalias=APART)
    call = make(signature, module(plan(A, B)), (8, 8), narrow=narrow)
    whole = torch.zeros(10)
    got = call(on_gpu(first(whole), 0), on_gpu(second(whole), 0))
    shared = meet and any(written)
    assert asked == ([((), True)] if shared else [])
    assert got == ("another kernel" if shared else None)
    assert make.slow == (make.kind == "python" or shared)
    assert len(stub.launches()) == (not shared)


def test_parameters_arrive_as_their_types(make: Maker, stub: Stub) -> None:
    signature = spec(
        tensor("A", "float32", (("$0",),)), scalar("i", "int32"), scalar("l", "uint64"),
        scalar("x", "float32"), scalar("d", "float64"), scalar("b", "bool"), symbols=(Symbol("n"),),
    )  # fmt: skip
    args = (A, KernelArg(1, "int", "int32"), KernelArg(2, "int", "uint64"),
            KernelArg(3, "float", "float32"), KernelArg(4, "float", "float64"),
            KernelArg(5, "int", "bool"), KernelArg(6, "int", "int32"))  # fmt: skip
    grid: tuple[Program, ...] = (("$6", 63, "add", 64, "floordiv"), (2,))
    made = module(plan(*args, grid=grid, threads=(32, 4, 1), shared_bytes=1024))
    call = make(signature, made, (8, 4, 8, 4, 8, 1, 4))
    data = floats(1000)
    assert call(data, -7, 2**62 + 1, 0.1, 0.1, True) is None
    (launch,) = stub.launches()
    assert launch.grid == (16, 2, 1) and launch.block == (32, 4, 1) and launch.shared == 1024
    assert launch.stream == STREAM and launch.device == 0 and launch.attributes == {}
    single = struct.unpack("<f", struct.pack("<f", 0.1))[0]
    expected = [data.data_ptr(), -7, 2**62 + 1, single, 0.1, 1, 1000]
    assert launch.values("QiQfdBi") == expected
    assert make.slow == (make.kind == "python")


def test_results_are_allocated_on_the_device_of_the_inputs(make: Maker, stub: Stub) -> None:
    signature = spec(
        tensor("A", "float32", (("$0",),)), tensor("B", "bfloat16", (("$0", 2, "mul"),), is_output=True),
        symbols=(Symbol("n"),), outputs=(1,), returns="one",
    )  # fmt: skip
    call = make(signature, module(plan(A, B)), (8, 8))
    data = floats(10, index=1)
    result = call(data)
    (launch,) = stub.launches()
    assert result.shape == (20,) and result.dtype is torch.bfloat16
    assert result.device == torch.device("cuda", 1)
    assert launch.values("QQ") == [data.data_ptr(), result.data_ptr()]
    assert launch.device == 1 and launch.stream == STREAM + 1
    assert make.slow == (make.kind == "python")


def test_call_without_tensors_uses_the_current_device(make: Maker, stub: Stub) -> None:
    signature = spec(
        tensor("B", "float32", (("$0",),), is_output=True), scalar("n", "int32", 0),
        symbols=(Symbol("n", param=1),), outputs=(0,), returns="one",
    )  # fmt: skip
    result = make(signature, module(plan(A)), (8,))(12)
    (launch,) = stub.launches()
    assert result.shape == (12,) and launch.device == 0 or launch.device == 1
    assert launch.values("Q") == [result.data_ptr()]


def test_code_is_loaded_once_per_device_and_later_calls_launch(make: Maker, stub: Stub) -> None:
    call = make(spec(tensor("A", "float32", (4,))), module(plan(A, shared_bytes=65536)), (8,))
    assert stub.take() == []
    call(floats(4))
    first = stub.take()
    at = first.index("load CUBIN in 0")
    assert sum(line.startswith("load") for line in first) == 1
    # It is allowed while a graph is captured.
    assert (first[at - 1], first[at + 1]) == ("capture mode 2", "capture mode 0")
    assert "attribute k 8 65536" in first
    call(floats(4))
    assert [line.split()[0] for line in stub.take()] == ["launch"]
    call(floats(4, index=1))
    assert "load CUBIN in 1" in stub.take()


def test_the_callers_context_stays_current(make: Maker, stub: Stub) -> None:
    call = make(spec(tensor("A", "float32", (4,))), module(plan(A)), (8,))
    stub.lib.cuCtxSetCurrent(4242)
    call(floats(4, index=1))
    call(floats(4, index=1))
    assert stub.lib.stub_current() == 4242
    stub.lib.cuCtxSetCurrent(None)


def test_launch_attributes(make: Maker, stub: Stub) -> None:
    made = module(plan(A, cluster=(2, 8, 1), cooperative=True, pdl=True))
    make(spec(tensor("A", "float32", (4,))), made, (8,))(floats(4))
    notes = stub.take()
    assert "attribute k 14 1" in notes  # a cluster of more than eight blocks
    (launch,) = [line for line in notes if line.startswith("launch")]
    assert launch.split()[7] == "4:2,8,1;2:1,0,0;6:1,0,0"


@pytest.mark.parametrize("extent", [(0,), ("$1", "neg")])
def test_empty_grid_starts_nothing(make: Maker, stub: Stub, extent: Program) -> None:
    signature = spec(tensor("A", "float32", (("$0",),)), symbols=(Symbol("n"),))
    call = make(signature, module(plan(A, grid=(ONE, extent))), (8,))
    assert call(floats(3)) is None and stub.launches() == []


def test_each_branch_encodes_its_own_maps(make: Maker, stub: Stub) -> None:
    signature = spec(tensor("A", "float32", (("$0",),)), symbols=(Symbol("n"),))
    tiled = TmaDescriptor("A", 7, (64,), (4,), (1,), (32,))
    mapped = (MapStep(3, "a", ("$0",), tiled), plan(KernelArg(3, "tensormap", "a")))
    made = module(IfStep(("$1", 8, "ge"), mapped, (plan(A),)))
    assert host_program(made).native
    make(signature, made, (128,))(floats(8))
    assert [line.split()[0] for line in stub.take() if not line.startswith("get")].count(
        "tiled"
    ) == 1
    make(signature, made, (8,))(floats(4))
    assert not [line for line in stub.take() if line.startswith("tiled")]


def test_host_steps_decide_loop_and_compute(make: Maker, stub: Stub) -> None:
    signature = spec(tensor("A", "float32", (("$0",),)), symbols=(Symbol("n"),))
    inner = plan(A, KernelArg(2, "int", "int32"), grid=(("$3",),))
    made = module(
        LetStep(3, ("$1", 250, "add"), "uint8"),
        ForStep(2, (1,), ("$1",), (2,), (
            IfStep(("$2", 3, "eq"), (), (inner,)),
        )),
    )  # fmt: skip
    make(signature, made, (8, 4))(floats(8))
    found = stub.launches()
    assert [launch.values("Qi")[1] for launch in found] == [1, 5, 7]
    assert {launch.grid for launch in found} == {(2, 1, 1)}  # 258 as uint8


def test_failed_assertion_stops_the_call(make: Maker, stub: Stub) -> None:
    signature = spec(
        tensor("A", "float32", (("$0",),)), symbols=(Symbol("n"),),
        messages=("n must be even", "n must be small"),
    )  # fmt: skip
    made = module(
        AssertStep(("$1", 2, "floormod", 0, "eq"), 0),
        AssertStep(("$1", 100, "lt"), 1), plan(A),
    )  # fmt: skip
    call = make(signature, made, (8,))
    call(floats(8))
    assert len(stub.launches()) == 1
    assert refusal(DeviceAssertError, call, floats(200)) == "kernel f: n must be small"
    with pytest.raises(DeviceAssertError, match="n must be even"):
        call(floats(3))
    assert stub.launches() == []


def test_workspaces_live_for_the_call_in_stream_order(make: Maker, stub: Stub) -> None:
    signature = spec(tensor("A", "float32", (("$0",),)), symbols=(Symbol("n"),))
    made = module(
        WorkspaceStep(2, ("$1", 4, "mul")), WorkspaceStep(3, (0,)),
        plan(A, KernelArg(2, "pointer", "float32")),
    )  # fmt: skip
    call = make(signature, made, (8, 8))
    call(floats(6))
    notes = [line for line in stub.take() if line.split()[0] in ("allocate", "launch", "free")]
    first, second, launch, *freed = notes
    assert (first, second) == (f"allocate 24 on {STREAM}", f"allocate 1 on {STREAM}")
    address = int.from_bytes(bytes.fromhex(launch.split(",")[-1]), "little")
    assert f"free {address:x} on {STREAM}" in freed and len(freed) == 2
    stub.fail("cuLaunchKernelEx", 700)
    with pytest.raises(TileRuntimeError):
        call(floats(6))
    assert sum(line.startswith("free") for line in stub.take()) == 2


# -- errors ----------------------------------------------------------------------------------------
def test_tensor_in_host_memory_is_refused(make: Maker, stub: Stub) -> None:
    call = make(spec(tensor("A", "float32", (4,))), module(plan(A)), (8,))
    assert refusal(KernelArgumentError, call, torch.zeros(4)) == (
        "kernel f input A is on the wrong device\n"
        "  expected: cuda\n"
        "  got: cpu\n"
        "  hint: pass A.cuda(); without a GPU, "
        'execution_backend="emulator" runs the kernel on the CPU'
    )
    assert stub.launches() == []


def test_tensors_on_two_devices_are_refused(make: Maker, stub: Stub) -> None:
    signature = spec(tensor("A", "float32", (4,)), tensor("B", "float32", (4,)))
    call = make(signature, module(plan(A, B)), (8, 8))
    assert refusal(KernelArgumentError, call, floats(4), floats(4, index=1)) == (
        "kernel f input B is on another device than the rest\n"
        "  expected: cuda:0 as A\n"
        "  got: cuda:1"
    )


def test_driver_errors_have_names_and_advice(make: Maker, stub: Stub) -> None:
    call = make(spec(tensor("A", "float32", (4,))), module(plan(A)), (8,))
    call(floats(4))
    stub.fail("cuLaunchKernelEx", 700)
    assert refusal(TileRuntimeError, call, floats(4)) == (
        "running kernel f failed: CUDA_ERROR_ILLEGAL_ADDRESS\n"
        "  got: an illegal memory access was encountered\n"
        "  hint: a kernel accessed memory out of bounds; run with compute-sanitizer, or without "
        "tl.disable_safe_memory_legalize. The process must be restarted"
    )


def test_refused_code_is_reported_on_the_first_call(make: Maker, stub: Stub) -> None:
    call = make(spec(tensor("A", "float32", (4,))), module(plan(A)), (8,))
    stub.fail("cuModuleLoadData", 209)
    assert refusal(TileRuntimeError, call, floats(4)) == (
        "loading the kernels of f on GPU 0 failed: CUDA_ERROR_UNKNOWN\n"
        "  got: it failed\n"
        '  hint: the kernel was compiled for another architecture; leave the target to "auto"'
    )


def test_grid_beyond_the_limits(make: Maker) -> None:
    call = make(spec(tensor("A", "float32", (4,))), module(plan(A, grid=(ONE, (65536,)))), (8,))
    assert refusal(TileRuntimeError, call, floats(4)) == (
        "kernel f is launched with too many blocks\n"
        "  expected: at most 2147483647, 65535, 65535 blocks in x, y and z\n"
        "  hint: give the largest extent first, or larger tiles to each block"
    )


def test_size_that_divides_by_zero(make: Maker) -> None:
    signature = spec(tensor("A", "float32", (("$0",),)), symbols=(Symbol("n"),))
    call = make(signature, module(plan(A, grid=((8, "$1", "floordiv"),))), (8,))
    assert refusal(TileRuntimeError, call, floats(0)) == (
        "kernel f: the size of a launch cannot be computed\n"
        "  got: a division by zero, or a loop whose step is not positive, on the host"
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_gets_an_error(make: Maker) -> None:
    call = make(spec(tensor("A", "float32", (4,))), module(plan(A)), (8,))
    data = floats(4)
    call(data)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        try:
            call(data)
        except TileRuntimeError as error:
            os._exit(0 if "before this process was forked" in str(error) else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    call(data)  # the parent is as it was


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_module, "library_names", lambda: ("libnothing.so.9",))
    made = module(plan(A))
    code = LoadedModule(b"", kernel_table(made), "f", Driver)
    call = make_gpu_launcher(spec(tensor("A", "float32", (4,))), host_program(made), code)
    fake_torch(monkeypatch)
    assert refusal(TileRuntimeError, call, floats(4)) == (
        "there is no NVIDIA driver on this machine\n"
        "  expected: libcuda, which comes with the driver\n"
        "  got: libnothing.so.9: cannot open shared object file: No such file or directory\n"
        '  hint: run on the CPU with target="cpu", or anywhere with execution_backend="interpret"'
    )


def test_other_frameworks_cannot_be_given_results(
    monkeypatch: pytest.MonkeyPatch, make: Maker
) -> None:
    class Foreign:
        dtype, device = "float32", None

        def __init__(self) -> None:
            self.__cuda_array_interface__ = {
                "shape": (4,), "strides": None, "typestr": "<f4", "data": (4096, False), "version": 3,
            }  # fmt: skip

    signature = spec(
        tensor("A", "float32", (4,)), tensor("B", "float32", (4,), is_output=True),
        outputs=(1,), returns="one",
    )  # fmt: skip
    assert refusal(ArgumentTypeError, make(signature, module(plan(A, B)), (8, 8)), Foreign()) == (
        "results on a GPU cannot be allocated for this caller\n"
        "  expected: torch or cupy tensors\n"
        "  got: Foreign\n"
        "  hint: pass the results as arguments, or convert the inputs with torch.from_dlpack"
    )
    make(spec(tensor("A", "float32", (4,))), module(plan(A)), (8,))(Foreign())
    (launch,) = make.stub.launches()
    assert launch.values("Q") == [4096] and launch.stream == 0


# -- host programs ---------------------------------------------------------------------------------
NUMBERS = st.one_of(st.integers(-9, 9), st.sampled_from([2**63 - 1, -(2**63), 2**31, 64, 63]))
BINARY = [name for name, (count, _) in OPERATORS.items() if count == 2 and name not in REAL]


@st.composite
def programs(draw: st.DrawFn, depth: int = 4) -> Program:
    kind = (
        draw(st.sampled_from(["leaf", "binary", "binary", "unary", "select"])) if depth else "leaf"
    )
    if kind == "leaf":
        return (draw(st.sampled_from(["$2", "$3", draw(NUMBERS)])),)
    inner = programs(depth - 1)
    if kind == "unary":
        return (*draw(inner), draw(st.sampled_from(["lnot", "neg"])))
    if kind == "select":
        return (*draw(inner), *draw(inner), *draw(inner), "select")
    return (*draw(inner), *draw(inner), draw(st.sampled_from(BINARY)))


@settings(max_examples=300)
@given(
    program=programs(), x=NUMBERS, y=NUMBERS,
    dtype=st.sampled_from(["int64", "int32", "uint8", "int8", "bool", "uint32", "uint64"]),
)  # fmt: skip
def test_python_and_c_compute_the_same(
    program: Program, x: int, y: int, dtype: str, stub: Stub, compiler: Compiler,
    session_cache: DiskCache,
) -> None:  # fmt: skip
    signature = spec(
        tensor("A", "float32", (1,)),
        scalar("o", "int32"),
        scalar("x", "int64"),
        scalar("y", "int64"),
    )
    made = module(LetStep(4, program, dtype), plan(A, KernelArg(4, "int", "int64")), slots=5)
    answers = []
    for kind in ("python", "c"):
        call = Maker(kind, stub, compiler, session_cache)(signature, made, (8, 8))
        with pytest.MonkeyPatch.context() as patch:
            fake_torch(patch)
            try:
                call(floats(1), 0, x, y)
            except TileRuntimeError as error:
                assert "cannot be computed" in str(error)
                answers.append(None)
                continue
        answers.append(stub.launches()[0].values("Qq")[1])
    assert answers[0] == answers[1]


def test_programs_too_long_for_c_run_in_python() -> None:
    deep: Program = (*[1] * 40, *["add"] * 39)
    assert not host_program(module(plan(A, grid=(deep,)))).native
    half = KernelArg(1, "float", "float16")
    assert not host_program(module(plan(A, half))).native
    assert host_program(module(plan(A))).native


def test_narrow_floats_are_rounded_by_python(
    stub: Stub, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_torch(monkeypatch)
    maker = Maker("python", stub, compiler, DiskCache(None))
    signature = spec(tensor("A", "float32", (1,)), scalar("h", "float16"), scalar("b", "bfloat16"))
    args = (A, KernelArg(1, "float", "float16"), KernelArg(2, "float", "bfloat16"))
    maker(signature, module(plan(*args)), (8, 2, 2))(floats(1), 1.5, -2.0)
    assert stub.launches()[0].values("QeH")[1:] == [1.5, 0xC000]


def test_unknown_words_are_refused() -> None:
    with pytest.raises(InternalError, match="the unknown operation 'xyz'"):
        host_program(module(plan(A, grid=((1, "xyz"),))))
    with pytest.raises(TileUnsupportedError) as found:
        host_program(module(plan(KernelArg(0, "float", "float4_e2m1fn"))))
    assert str(found.value) == (
        "a scalar parameter of type float4_e2m1fn cannot be passed to a CUDA kernel\n"
        "  expected: an integer, or float64, float32, float16, bfloat16, float8_e4m3fn, "
        "float8_e5m2, float8_e8m0fnu\n"
        "  hint: pass it in a tensor of one element, or as float32"
    )


# -- tensor maps -------------------------------------------------------------------------------------
def maps(*steps: Step) -> GpuModule:
    """A module whose kernel takes the maps of `steps`."""
    args = [KernelArg(s.slot, "tensormap", s.name) for s in steps if isinstance(s, MapStep)]
    return module(*steps, plan(*args, A))


def test_tensor_maps_are_encoded_for_each_call_and_passed_by_value(make: Maker, stub: Stub) -> None:
    rows: Program = ("$2", 2, "mul")
    tiled = TmaDescriptor("A", 6, (64, rows), (2, ("$2", 128, "mul")), (1, 1), (64, 32), swizzle=3)
    image = TmaDescriptor(
        "A", 7, (32, 8, 9, 4), (4, 128, 1024, 9216), (1, 2, 2, 1), lower=(-1, -2), upper=(1, 2),
        channels=32, pixels=64, l2_promotion=2, fill=1,
    )  # fmt: skip
    signature = spec(
        tensor("A", "float16", (("$0",),)), tensor("B", "float16", (("$0",),)),
        symbols=(Symbol("n"),),
    )  # fmt: skip
    start: Program = ("$0", 256, "add")
    call = make(signature, maps(MapStep(5, "a", ("$0",), tiled), MapStep(6, "b", start, image)),
                (128, 128, 8))  # fmt: skip
    data = floats(100).half()
    data = on_gpu(data.as_subclass(torch.Tensor), 0)
    for _ in range(2):
        call(data, data)
        notes = stub.take()
        base = data.data_ptr()
        assert [line for line in notes if line.startswith(("tiled", "im2col"))] == [
            f"tiled 6 {base:x} dims 64,200 strides 12800 box 64,32 steps 1,1 0 3 0 0",
            f"im2col 7 {base + 256:x} dims 32,8,9,4 strides 128,1024,9216 lower -1,-2 upper 1,2 "
            "steps 1,2,2,1 32 64 0 0 2 1",
        ]
        (line,) = [line for line in notes if line.startswith("launch")]
        first, second, last = line.split()[-1].split(",")
        numbers = [struct.unpack("<ii", bytes.fromhex(item[:16])) for item in (first, second)]
        assert [rank for _, rank in numbers] == [2, 4]
        assert numbers[1][0] == numbers[0][0] + 1 and len(first) == len(second) == 256
        assert last == struct.pack("<q", base).hex()
    assert make.slow == 2 * (make.kind == "python")


def test_a_map_that_the_driver_refuses_ends_the_call(make: Maker, stub: Stub) -> None:
    tiled = TmaDescriptor("A", 7, (64,), (4,), (1,), (32,))
    call = make(
        spec(tensor("A", "float32", ((64,),))), maps(MapStep(3, "a", ("$0",), tiled)), (128, 8)
    )
    stub.fail("cuTensorMapEncodeTiled", 1)
    with pytest.raises(TileRuntimeError) as found:
        call(floats(64))
    assert str(found.value).startswith("running kernel f failed: CUDA_ERROR_UNKNOWN")
    assert not [line for line in stub.take() if line.startswith("launch")]


def test_a_map_of_a_tensor_without_elements_has_some_address(make: Maker, stub: Stub) -> None:
    signature = spec(tensor("A", "float32", (("$0",),)), symbols=(Symbol("n"),))
    tiled = TmaDescriptor("A", 7, (64, (1, "$1", "max")), (4, 256), (1, 1), (32, 8))
    make(signature, maps(MapStep(3, "a", ("$0",), tiled)), (128, 8))(floats(0))
    (line,) = [line for line in stub.take() if line.startswith("tiled")]
    assert line == "tiled 7 80 dims 64,1 strides 256 box 32,8 steps 1,1 0 0 0 0"


def test_maps_inside_of_loops_leave_the_loop_to_python(make: Maker, stub: Stub) -> None:
    tiled = TmaDescriptor("A", 7, (64,), (4,), (1,), (32,))
    inner = (MapStep(3, "a", ("$0",), tiled), plan(KernelArg(3, "tensormap", "a")))
    loop = ForStep(2, (0,), (3,), (1,), inner)
    assert not host_program(module(loop)).native
    if make.kind == "python":
        make(spec(tensor("A", "float32", ((64,),))), module(loop), (128,))(floats(64))
        assert len(stub.launches()) == 3
