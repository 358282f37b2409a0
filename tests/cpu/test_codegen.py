"""The C file of a program: memory, loops, failures, parameters and launches."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.compiler import compile
from tilelang.cpu.module import emit_module, inline_headers
from tilelang.cpu.toolchain import find_compiler
from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.options import Options
from tilelang.target import parse_target

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")


def source(func: S.PrimFunc, options: Options | None = None) -> str:
    return compile(func, parse_target("cpu"), options).source


# -- memory ---------------------------------------------------------------------------------


def test_an_extent_that_is_no_constant_is_refused() -> None:
    n = E.Var("n", DType("int32"))
    tile = Buffer("tile", Shape((n,)), DType("float32"), "shared")
    launch = S.Launch(
        grid=(E.const(1),), threads=(1, 1, 1), block_vars=(E.Var("bx", DType("int32")),),
        thread_vars=(), body=S.Alloc(buffer=tile),
    )  # fmt: skip
    assert refusal(TileUnsupportedError, emit_module, S.PrimFunc("kernel", (n,), launch)) == (
        "`tile` has an extent that is not a constant\n"
        "  expected: compile-time extents for shared, fragment and local buffers"
    )


# -- loops ----------------------------------------------------------------------------------


def test_a_step_known_at_run_time_may_have_either_sign() -> None:
    with pytest.warns(UserWarning, match="the step of T.serial is not a constant"):

        @T.prim_func
        def kernel(A: T.Tensor((64,), "int32"), n: T.int32):
            with T.Kernel(1, threads=1) as bx:
                for k in T.serial(0, 8, n):
                    A[8] = k

    text = source(kernel)
    assert "const int64_t k_step = (int64_t)n;" in text
    assert "for (int64_t k = 0; k_step > 0 ? k < 8 : (k_step < 0 && k > 8); k += k_step) {" in text


# -- failures -------------------------------------------------------------------------------
def test_every_check_has_a_different_code_and_its_message_is_quoted_for_c() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=1) as bx:
            T.device_assert(A[0] > 0, 'say "no"')
            T.device_assert(A[1] > 0, 'say "no"')

    artifact = compile(kernel, parse_target("cpu"))
    message = 'Device assert failed: say "no"'
    assert artifact.messages == (message, message)
    assert re.findall(r"tl_fail\(error, (\d)\)", artifact.source) == ["1", "2"]
    quoted = r'"Device assert failed: say \"no\""'
    assert f"messages[] = {{{quoted}, {quoted}, 0}};" in artifact.source


def test_atomics_on_elements_that_share_a_byte_are_refused() -> None:
    A = Buffer("A", Shape((8,)), DType("int4"), "global")
    one = E.const(1, DType("int4"))
    address = E.AddressOf(A, (E.const(0),), "rw")
    call = E.call("atomic_add", address, one, dtype="int4", return_prev=False)
    with pytest.raises(TileUnsupportedError) as caught:
        emit_module(S.PrimFunc("kernel", (A,), S.Eval(value=call)))
    assert str(caught.value) == (
        "T.atomic_add on int4 is not supported on the CPU\n"
        "  expected: integers of 8 or more bits, float16, bfloat16, float32, float64\n"
        "  got: `A` of dtype int4"
    )


def test_a_statement_without_a_meaning_on_the_cpu_is_refused() -> None:
    wrong = S.HardwareOp(name="copy_tmem", needs="tensor memory")
    with pytest.raises(TileUnsupportedError) as caught:
        emit_module(S.PrimFunc("kernel", (), wrong))
    assert str(caught.value) == "HardwareOp is not supported on the CPU"


def test_a_fourth_grid_dimension_is_refused() -> None:
    axes = tuple(E.Var(name, DType("int32")) for name in "wxyz")
    launch = S.Launch(
        grid=(E.const(1),) * 4, threads=(1, 1, 1), block_vars=axes, thread_vars=(), body=S.seq()
    )
    with pytest.raises(TileUnsupportedError) as caught:
        emit_module(S.PrimFunc("kernel", (), launch))
    assert str(caught.value) == "a kernel has at most three grid dimensions"


# -- the entry ------------------------------------------------------------------------------


@needs_compiler
def test_a_workspace_is_freed_when_the_call_ends() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32")):
        space = T.alloc_global((8,), "int32")
        with T.Kernel(8, threads=1) as bx:
            space[bx] = A[bx] + 1
        with T.Kernel(8, threads=1) as bx:
            A[bx] = space[7 - bx]

    text = source(kernel)
    assert "tl_workspace(&spaces[0], (1 * 8) * sizeof(int32_t))" in text
    assert "for (int i = 0; i < 1; ++i) free(spaces[i]);" in text
    values = np.arange(8, dtype=np.int32)
    tilelang.compile(kernel, target="cpu")(values)
    assert values.tolist() == [8, 7, 6, 5, 4, 3, 2, 1]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_the_text_compiles_without_warnings(tmp_path: Path) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((40, 16), "float16"), B: T.Tensor((40, 16), "float32"), n: T.int32):
        with T.Kernel(2, threads=32) as bx:
            a = T.alloc_shared((32, 16), "float16")
            b = T.alloc_shared((16, 16), "float16")
            c = T.alloc_fragment((32, 16), "float32")
            T.copy(A[bx * 32, 0], a)
            T.copy(A[0, 0], b)
            T.clear(c)
            for k in T.serial(n):
                T.gemm(a, b, c)
            T.copy(c, B[bx * 32, 0])
            if A[T.get_thread_binding(), 0] > 0:
                T.thread_return()
            T.atomic_add(B[0, 0], 1)

    path = tmp_path / "kernel.c"
    path.write_text(inline_headers(source(kernel)), encoding="utf-8")
    command = ["gcc", "-std=gnu11", "-fopenmp-simd", "-Wall", "-Wno-unused-function", "-Werror",
               "-fsyntax-only", str(path)]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
