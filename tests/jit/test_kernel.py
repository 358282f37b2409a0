"""``JITKernel``: a compiled kernel called, looked at, exported and measured."""

from __future__ import annotations

import ctypes
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from refusals import refusal
from tensor_types import F32, I32, U8

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.errors import (
    KernelArgumentError,
    TileRuntimeError,
    TileUnsupportedError,
    TileValueError,
)
from tilelang.jit.calls import KernelParam
from tilelang.jit.kernel import JITKernel, input_params
from tilelang.notebook import preformatted
from tilelang.options import Options
from tilelang.profiler import Profiler, TensorSupplyType
from tilelang.target import Target

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")


def affine_program(n: int = 40) -> Any:
    @T.prim_func
    def affine(a: T.float32, X: F32[n], Y: F32[n]):
        with T.Kernel(T.ceildiv(n, 32), threads=32) as bx:
            for i in T.Parallel(32):
                Y[bx * 32 + i] = a * X[bx * 32 + i] + 1.0

    return affine


@pytest.fixture(params=["auto", "python", "interpret"])
def kernel(request: pytest.FixtureRequest) -> JITKernel:
    return tilelang.compile(
        affine_program(), out_idx=[-1], target="cpu", execution_backend=request.param
    )


@pytest.fixture
def compiled() -> JITKernel:
    if find_compiler() is None:
        pytest.skip("no C compiler on this machine")
    return tilelang.compile(affine_program(), out_idx=[-1], target="cpu")


X = np.arange(40, dtype=np.float32)


# -- calls ----------------------------------------------------------------------------------------
def test_call_gives_a_new_result_each_time(kernel: JITKernel) -> None:
    first, second = kernel(2.0, X), kernel(3.0, X)
    np.testing.assert_array_equal(first, 2 * X + 1)
    np.testing.assert_array_equal(second, 3 * X + 1)


# -- what a kernel says of itself -------------------------------------------------------------------
def test_params_list_every_parameter_with_results(kernel: JITKernel) -> None:
    assert [(p.name, str(p.dtype), p.shape) for p in kernel.params] == [
        ("a", "float32", ()), ("X", "float32", (40,)), ("Y", "float32", (40,)),
    ]  # fmt: skip
    assert kernel.params[1].dtype == "float32"
    assert [p.is_scalar() for p in kernel.params] == [True, False, False]
    assert kernel.out_idx == [2]
    assert [p.name for p in input_params(kernel.params, kernel.out_idx)] == ["a", "X"]


def test_out_idx_of_a_scalar_is_an_error() -> None:
    assert refusal(TileValueError, tilelang.compile, affine_program(), out_idx=0, target="cpu") == (
        "out_idx 0 names `a` of `affine`, which is passed by value\n"
        "  expected: the index of a tensor; parameters of every kind are counted\n"
        "  got: 0"
    )


def test_a_dynamic_extent_stays_an_expression_in_params() -> None:
    n = T.symbolic("n")

    @T.prim_func
    def fill(A: U8[n, 4]):
        with T.Kernel(n, threads=32) as bx:
            for i in T.Parallel(4):
                A[bx, i] = T.uint8(1)

    (param,) = tilelang.compile(fill, target="cpu").params
    assert [isinstance(extent, int) for extent in param.shape] == [False, True]
    assert str(param.shape[0]) == "n"


@pytest.mark.parametrize(
    ("dtype", "true_for"),
    [
        ("uint8", {"is_unsigned"}), ("bool", {"is_boolean"}), ("int8", set()),
        ("float8_e4m3fn", {"is_float8"}), ("float16", set()),
    ],
)  # fmt: skip
def test_questions_to_a_param(dtype: str, true_for: set[str]) -> None:
    param = KernelParam(T.dtype(dtype), (4,), "A")
    names = ("is_scalar", "is_unsigned", "is_boolean", "is_float8")
    assert {name for name in names if getattr(param, name)()} == true_for


def test_torch_dtype_of_a_param() -> None:
    torch = pytest.importorskip("torch", reason="torch names its own dtypes")
    assert KernelParam(T.dtype("bfloat16"), (4,)).torch_dtype() is torch.bfloat16


def test_kernel_remembers_how_it_was_made(kernel: JITKernel) -> None:
    assert kernel.prim_func.name == "affine"
    assert kernel.target == Target("cpu")
    assert (kernel.config, kernel.latency, kernel.ref_latency) == (None, None, None)
    assert str(kernel) == "<JITKernel affine for cpu>"
    assert repr(kernel) == f"<tilelang.jit.kernel.JITKernel at {id(kernel):#x}>"
    tuned = JITKernel(affine_program(8), options=Options(), config={"block": 8})
    assert tuned.config == {"block": 8}


def test_explain_names_the_backend(kernel: JITKernel) -> None:
    where = {"interpret": "in the interpreter"}.get(
        kernel.execution_backend, "as C on the CPU cores"
    )
    assert kernel.explain() == f"`affine` runs {where}"


# -- sources ----------------------------------------------------------------------------------------
def test_kernel_source_of_a_compiled_kernel_is_c(compiled: JITKernel) -> None:
    source = compiled.get_kernel_source()
    assert source.startswith("// affine: generated by tilelang\n")
    assert "TL_EXPORT int32_t tl_call(const int64_t* slots)" in source
    assert compiled.artifact.source == source
    assert compiled.adapter.source == source
    assert compiled.get_kernel_source(kernel_only=False) == source


def test_source_of_an_interpreted_kernel_is_the_program() -> None:
    kernel = tilelang.compile(affine_program(), target="cpu", execution_backend="interpret")
    assert kernel.get_kernel_source() == kernel.prim_func.script()
    assert kernel.artifact is None


def test_sources_are_printed(compiled: JITKernel, capsys: pytest.CaptureFixture[str]) -> None:
    kernel, host = compiled.get_kernel_source(), compiled.get_host_source()
    shown = []
    for arguments in ((), ("kernel",), ("host",), ("both",)):
        compiled.show_source(*arguments)
        shown.append(capsys.readouterr().out)
    assert shown == [f"{kernel}\n", f"{kernel}\n", f"{host}\n", f"{kernel}\n{host}\n"]
    compiled.print_source_code()
    assert capsys.readouterr().out == f"{kernel}\n"
    assert refusal(TileValueError, compiled.show_source, "object") == (
        'there is no such source\n  expected: "kernel", "host" or "both"\n  got: \'object\''
    )


def test_sources_are_written_to_files(compiled: JITKernel, tmp_path: Path) -> None:
    kernel, host = tmp_path / "kernel.c", tmp_path / "host.c"
    compiled.export_sources(str(kernel))
    assert kernel.read_text() == compiled.get_kernel_source() and not host.exists()
    compiled.export_sources(host_path=str(host))
    assert host.read_text() == compiled.get_host_source()


# -- export -----------------------------------------------------------------------------------------
def test_exported_library_has_the_texts_of_its_errors(tmp_path: Path) -> None:
    if find_compiler() is None:
        pytest.skip("no C compiler on this machine")

    @T.prim_func
    def checks(A: I32[4]):
        with T.Kernel(1, threads=32):
            T.device_assert(A[0] > 0, "A starts above zero")

    path = tmp_path / "checks.so"
    tilelang.compile(checks, target="cpu").export_library(str(path))
    library = ctypes.CDLL(str(path))
    library.tl_message.restype = ctypes.c_char_p
    zeros = np.zeros(4, np.int32)
    code = library.tl_call((ctypes.c_int64 * 1)(zeros.ctypes.data))
    assert code > 0
    assert b"A starts above zero" in library.tl_message(code)


def test_interpreted_kernel_has_no_library(tmp_path: Path) -> None:
    kernel = tilelang.compile(affine_program(), target="cpu", execution_backend="interpret")
    assert refusal(TileRuntimeError, kernel.export_library, str(tmp_path / "affine.so")) == (
        "there is no library to export\n"
        "  expected: a compiled kernel\n"
        "  got: a kernel that runs by 'interpret'"
    )
    assert not (tmp_path / "affine.so").exists()


@pytest.mark.parametrize("name", ["show_ptx", "show_sass", "export_ptx", "export_sass"])
def test_gpu_texts_need_a_gpu_kernel(kernel: JITKernel, name: str) -> None:
    arguments = ("file",) if name.startswith("export") else ()
    assert refusal(TileUnsupportedError, getattr(kernel, name), *arguments) == (
        f"{name} needs a CUDA kernel\n"
        "  got: a kernel for cpu\n"
        "  hint: get_kernel_source() shows the generated source of any target"
    )


# -- profiler ---------------------------------------------------------------------------------------
def test_kernel_gives_its_profiler(kernel: JITKernel) -> None:
    profiler = kernel.get_profiler()
    assert isinstance(profiler, Profiler)
    assert (profiler.kernel, profiler.supply_type) == (kernel, TensorSupplyType.Auto)
    assert kernel.get_profiler(TensorSupplyType.One).supply_type is TensorSupplyType.One


def test_run_once_makes_the_inputs(kernel: JITKernel) -> None:
    result = kernel.run_once()
    assert np.asarray(result).shape == (40,)
    seen: list[Any] = []
    kernel.run_once(lambda *inputs: seen.extend(inputs))
    assert [np.shape(item) for item in seen] == [(), (40,)]


# -- tensors that are left out ---------------------------------------------------------------------
MODES = {
    "interpret": {"target": "cpu", "execution_backend": "interpret"},
    "python": {"target": "cpu", "execution_backend": "python"},
    "cpu": {"target": "cpu"},
    "emulator": {"target": "cuda -arch=sm_80", "execution_backend": "emulator"},
}


@pytest.mark.parametrize("mode", MODES)
def test_extents_of_absent_tensors_that_nothing_needs_are_no_matter(mode: str) -> None:
    m, n = T.dynamic("m, n")

    @T.prim_func
    def last(A: F32[m, n], B: F32[m * 2, n], X: F32[n], C: F32[1]):
        with T.Kernel(1, threads=32):
            C[0] = X[n - 1]

    kernel, c = tilelang.compile(last, **MODES[mode]), np.zeros(1, np.float32)
    x = np.arange(5, dtype=np.float32)
    kernel(None, None, x, c)
    assert c[0] == 4
    kernel(None, np.zeros((6, 5), np.float32), x[:5] * 2, c)
    assert c[0] == 8
    with pytest.raises(KernelArgumentError, match=r"input B shape\[0\] does not match"):
        kernel(np.zeros((2, 5), np.float32), np.zeros((6, 5), np.float32), x, c)


@pytest.mark.parametrize("mode", MODES)
def test_missing_extents_of_absent_tensors_are_an_error(mode: str) -> None:
    m = T.dynamic("m")

    @T.prim_func
    def size(A: F32[m], B: F32[m], C: I32[1]):
        with T.Kernel(1, threads=32):
            C[0] = m

    kernel, c = tilelang.compile(size, **MODES[mode]), np.zeros(1, np.int32)
    kernel(None, np.zeros(7, np.float32), c)
    assert c[0] == 7
    assert refusal(KernelArgumentError, kernel, None, None, c) == (
        "kernel size: the value of m is unknown\n"
        "  expected: at least one non-null buffer among A, B\n"
        "  got: A=None, B=None"
    )


def test_notebooks_show_program_and_text() -> None:
    func = affine_program(8)
    made = tilelang.compile(func, target="cpu")
    found = made._repr_html_()
    assert found.startswith(f"<b>{func.name}</b>(")
    assert found.count("<details>") == found.count("</pre></details>") == 2
    assert "&lt;" in found and "#include <" not in found
    chosen: Any = made.explain()
    assert isinstance(chosen, str) and chosen._repr_html_() == preformatted(chosen)
    printed: list[str] = []
    chosen._repr_pretty_(SimpleNamespace(text=printed.append), False)
    assert printed == [chosen]
    assert func._repr_html_().startswith("<pre style=") and "T.Parallel" in func._repr_html_()
