"""The document of ``tilelang.jit.adapter.wrapper``: names, and the host source on the CPU."""

from __future__ import annotations

import abc
import ctypes
import inspect
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensor_types import F32

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.jit.adapter import wrapper

CPU_ATTRIBUTES = (
    "INIT_FUNC", "CALL_PREFIX", "backend", "device_mod", "host_mod", "pass_configs", "mod",
    "target", "source", "function_names", "dynamic_smem_buf", "srcpath", "libpath", "lib_code",
    "prim_func",
)  # fmt: skip
CPU_METHODS = {
    "create_call_func": ("code", "function_informations"),
    "parse_source_information": (),
    "get_dynamic_symbolic_set": ("prim_func",),
    "get_cpu_init_func": (),
    "update_lib_code": ("code",),
}
TL_ATTRIBUTES = (
    "device_mod", "host_mod", "pass_configs", "target", "lib", "scheduled_ir_module",
)  # fmt: skip
TL_METHODS = {
    "assign_optimized_module": ("scheduled_ir_module",),
    "assign_pass_configs": ("pass_configs",),
    "assign_host_module": ("host_mod",),
    "assign_device_module": ("device_mod",),
    "wrap": ("c_source",),
}

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")


def add_scaled() -> Any:
    """Out = A * s + B over a dynamic length."""
    n = T.dynamic("n")

    @T.prim_func
    def add_scaled(A: F32[n], B: F32[n], Out: F32[n], s: T.float32, shift: T.int32):
        with T.Kernel(T.ceildiv(n, 64), threads=64) as bx:
            for i in T.Parallel(64):
                Out[bx * 64 + i] = A[bx * 64 + i] * s + B[bx * 64 + i] + shift

    return add_scaled


def made() -> wrapper.TLCPUSourceWrapper:
    func = add_scaled()
    artifact = tilelang.lower(func, "cpu")
    return wrapper.TLCPUSourceWrapper(func, artifact.source, "cpu", pass_configs={"a": 1})


def own_text(source: str) -> str:
    """What follows the includes of ``source``; host source has the headers themselves."""
    lines = source.splitlines()
    last = max(i for i, line in enumerate(lines) if line.startswith("#include"))
    return "\n".join(lines[last + 1 :]).strip()


def parameters(cls: type, method: str) -> tuple[str, ...]:
    return tuple(inspect.signature(getattr(cls, method)).parameters)[1:]


def test_the_base_is_abstract() -> None:
    assert issubclass(wrapper.BaseWrapper, abc.ABC)
    assert wrapper.BaseWrapper.__abstractmethods__ == {"wrap"}
    assert issubclass(wrapper.TLWrapper, wrapper.BaseWrapper)
    assert wrapper.logger.name == "tilelang.jit.adapter.wrapper"


@pytest.mark.parametrize("method", CPU_METHODS)
def test_the_cpu_wrapper_has_the_method(method: str) -> None:
    assert parameters(wrapper.TLCPUSourceWrapper, method) == CPU_METHODS[method]


@pytest.mark.parametrize("method", TL_METHODS)
def test_the_wrapper_has_the_method(method: str) -> None:
    assert parameters(wrapper.TLWrapper, method) == TL_METHODS[method]


def test_the_cpu_wrapper_has_the_documented_attributes() -> None:
    made_wrapper = made()
    for name in CPU_ATTRIBUTES:
        assert hasattr(made_wrapper, name), name
    assert made_wrapper.backend == wrapper.TLCPUSourceWrapper.backend == "tl"
    assert made_wrapper.pass_configs == {"a": 1}
    assert made_wrapper.target == "cpu"
    assert made_wrapper.source == tilelang.lower(made_wrapper.mod, "cpu").source
    assert made_wrapper.srcpath is None and made_wrapper.libpath is None
    assert made_wrapper.device_mod is None and made_wrapper.host_mod is None
    assert made_wrapper.dynamic_smem_buf is None
    assert made_wrapper.prim_func is made_wrapper.mod
    assert made_wrapper.function_names is not None
    assert made_wrapper.function_names in made_wrapper.source
    assert made_wrapper.get_dynamic_symbolic_set(made_wrapper.prim_func) == ["n"]


def test_the_host_source_has_init_call_and_error_text() -> None:
    made_wrapper = made()
    code = made_wrapper.lib_code
    assert code is not None and own_text(made_wrapper.source) in code
    assert made_wrapper.get_cpu_init_func() in code
    assert '#include "' not in code  # nothing but a C compiler is needed
    for name in ("get_last_error", "init", "call"):
        assert f" {name}(" in code
    assert made_wrapper.update_lib_code(made_wrapper.source) == code
    made_wrapper.CALL_PREFIX = "/* own */" + wrapper.PREDEF_CPU_CALL_FUNC
    assert "/* own */" in (made_wrapper.update_lib_code(made_wrapper.source) or "")
    assert made_wrapper.get_dynamic_symbolic_set(made_wrapper.prim_func) == ["n"]


def test_the_wrapper_keeps_what_is_assigned_and_wraps_a_source() -> None:
    func = add_scaled()
    source = tilelang.lower(func, "cpu").source
    chosen = wrapper.TLWrapper("cpu")
    assert (chosen.target, chosen.lib, chosen.scheduled_ir_module) == ("cpu", None, None)
    assert (chosen.device_mod, chosen.host_mod, chosen.pass_configs) == (None, None, None)
    assert all(hasattr(chosen, name) for name in TL_ATTRIBUTES)
    chosen.assign_optimized_module(func)
    chosen.assign_pass_configs({"b": 2})
    chosen.assign_host_module("host")
    chosen.assign_device_module("device")
    assert (chosen.scheduled_ir_module, chosen.pass_configs) == (func, {"b": 2})
    assert (chosen.host_mod, chosen.device_mod) == ("host", "device")
    assert chosen.wrap(source) == (wrapper.TLCPUSourceWrapper(func, source, "cpu").lib_code)


def loaded(code: str, folder: Path) -> ctypes.CDLL:
    compiler = find_compiler()
    assert compiler is not None
    path = folder / "wrapped.so"
    path.write_bytes(compiler.compile_shared(code, ("-O1", "-pthread")))
    library = ctypes.CDLL(str(path))
    library.get_last_error.restype = ctypes.c_char_p
    return library


def pointer(array: np.ndarray) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


@pytest.mark.parametrize("standard", ["c99", "gnu17"])
def test_the_host_source_is_c_of_every_standard(standard: str, tmp_path: Path) -> None:
    gcc = shutil.which("gcc") or shutil.which("clang")
    if gcc is None:
        pytest.skip("needs gcc or clang")
    (tmp_path / "host.c").write_text(made().lib_code or "")
    command = [gcc, f"-std={standard}", "-Wall", "-Werror", "-fsyntax-only", "host.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@needs_compiler
def test_parameters_may_have_the_names_of_the_host_source(tmp_path: Path) -> None:
    @T.prim_func
    def sums(slots: T.Tensor((1,), "int32"), result: T.int32, error_buf: T.int32, call: T.int32):
        with T.Kernel(1, threads=1):
            slots[0] = result + error_buf + call

    code = wrapper.TLCPUSourceWrapper(
        sums, tilelang.lower(sums, target="cpu").source, "cpu"
    ).lib_code
    out = np.zeros(1, np.int32)
    numbers = [ctypes.c_int32(value) for value in (1, 20, 300)]
    assert loaded(code or "", tmp_path).call(pointer(out), *numbers) == 0
    assert out[0] == 321


@needs_compiler
@pytest.mark.parametrize("n", [100, 0])
def test_the_compiled_host_source_runs(n: int, tmp_path: Path) -> None:
    code = made().lib_code
    assert code is not None
    library = loaded(code, tmp_path)
    assert library.init() == 0
    a, b = np.random.default_rng(n).standard_normal((2, n)).astype(np.float32)
    out = np.full(n + 3, 7, np.float32)
    result = library.call(
        pointer(a), pointer(b), pointer(out), ctypes.c_float(2.0), ctypes.c_int32(3),
        ctypes.c_int32(n),
    )  # fmt: skip
    assert result == 0
    assert library.get_last_error() == b""
    np.testing.assert_allclose(out[:n], a * 2 + b + 3, rtol=1e-6)
    assert (out[n:] == 7).all()


@needs_compiler
def test_the_error_text_says_what_went_wrong(tmp_path: Path) -> None:
    @T.prim_func
    def checked(A: T.Tensor((4,), "int32"), n: T.int32):
        assert n > 2, "n is too small"
        with T.Kernel(1):
            A[0] = n

    source = tilelang.lower(checked, "cpu").source
    library = loaded(wrapper.TLCPUSourceWrapper(checked, source, "cpu").lib_code or "", tmp_path)
    assert library.init() == 0
    array = np.zeros(4, np.int32)
    assert library.call(pointer(array), ctypes.c_int32(3)) == 0
    assert array[0] == 3 and library.get_last_error() == b""
    assert library.call(pointer(array), ctypes.c_int32(1)) != 0
    assert b"n is too small" in library.get_last_error()
    assert array[0] == 3
