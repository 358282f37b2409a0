"""The C file of a program: memory, loops, failures, parameters and launches."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.codegen.symbols import symbols_of
from tilelang.compiler import compile
from tilelang.cpu.module import INCLUDES, emit_module, inline_headers
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


def block(func: S.PrimFunc) -> list[str]:
    """The statements of the only block function, without comments on lines of the user."""
    text = source(func)
    start = text.index("(void)bx;\n") + len("(void)bx;\n")
    lines = text[start : text.index("\n}\n", start)].splitlines()
    return [line[4:] for line in lines if not line.lstrip().startswith("//")]


def entry(func: S.PrimFunc) -> list[str]:
    """The statements of the entry."""
    text = source(func)
    start = text.index("int32_t tl_call(")
    lines = text[start : text.index("\n}\n", start)].splitlines()[1:]
    return [line[4:] for line in lines if not line.lstrip().startswith("//")]


# -- memory ---------------------------------------------------------------------------------
def test_tiles_are_in_the_arena_and_small_private_arrays_on_the_stack() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=1) as bx:
            a = T.alloc_shared((10,), "float32")
            b = T.alloc_shared((4,), "float16")
            p = T.alloc_local((64,), "float32")
            q = T.alloc_local((65,), "float32")
            v = T.alloc_var("int32", 3)
            u = T.alloc_var("float32")
            A[0] = a[0] + b[0] + p[0] + q[0] + v + u

    assert block(kernel)[:6] == [
        "float* const a = (float*)(arena + 0);",
        "uint16_t* const b = (uint16_t*)(arena + 64);",
        "float p[64] __attribute__((aligned(16)));",
        "float* const q = (float*)(arena + 128);",
        "int32_t v = 3;",
        "float u = 0;",
    ]
    assert "tl_launch(kernel_kernel_run, &args, blocks, 448, " in source(kernel)  # 128 + 260


def test_four_bit_elements_share_bytes() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int4")):
        with T.Kernel(1, threads=1) as bx:
            a = T.alloc_local((7,), "int4")
            a[3] = A[2]

    assert block(kernel) == [
        "uint8_t a[4] __attribute__((aligned(16)));",
        "tl_store_i4(a, 3, tl_load_i4(A, 2));",
    ]


def test_an_extent_that_is_no_constant_is_refused() -> None:
    n = E.Var("n", DType("int32"))
    tile = Buffer("tile", Shape((n,)), DType("float32"), "shared")
    launch = S.Launch(
        grid=(E.const(1),), threads=(1, 1, 1), block_vars=(E.Var("bx", DType("int32")),),
        thread_vars=(), body=S.Alloc(buffer=tile),
    )  # fmt: skip
    with pytest.raises(TileUnsupportedError) as caught:
        emit_module(S.PrimFunc("kernel", (n,), launch))
    assert str(caught.value) == (
        "`tile` has an extent that is not a constant\n"
        "  expected: compile-time extents for shared, fragment and local buffers"
    )


def test_a_view_of_another_dtype_converts_the_pointer() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=1) as bx:
            a = T.alloc_shared((8,), "float32")
            bits = T.view(a, (8,), "int32")
            a[1] = 1
            A[0] = bits[1]

    assert block(kernel)[1:] == ["a[1] = 1.0f;", "A[0] = ((int32_t*)a)[1];"]


# -- loops ----------------------------------------------------------------------------------
def test_loops_count_up_down_and_in_steps() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=1) as bx:
            for i in T.serial(3, 20, 2):
                A[i] = 1
            for j in T.serial(4, 0, -1):
                A[j] = 2

    heads = [line for line in block(kernel) if line.startswith(("for", "const"))]
    assert heads == [
        "for (int64_t i = 3; i < 20; i += 2) {",
        "for (int64_t j = 4; j > 0; j += -1) {",
    ]


def test_a_step_known_at_run_time_may_have_either_sign() -> None:
    with pytest.warns(UserWarning, match="the step of T.serial is not a constant"):

        @T.prim_func
        def kernel(A: T.Tensor((64,), "int32"), n: T.int32):
            with T.Kernel(1, threads=1) as bx:
                for k in T.serial(0, 8, n):
                    A[8] = k

    assert block(kernel)[:2] == [
        "const int64_t k_step = (int64_t)n;",
        "for (int64_t k = 0; k_step > 0 ? k < 8 : (k_step < 0 && k > 8); k += k_step) {",
    ]


def test_independent_loops_without_vectors_are_left_to_the_c_compiler() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=1):
            for i in T.Parallel(32):
                A[2 * i] = B[2 * i] + 1
            for i in T.Parallel(32):
                A[2 * i] = A[i // 2 + 32] + 1
            for i in T.Parallel(32):
                T.atomic_add(A[2 * i], 1)
            for i in T.Parallel(4):
                A[0] = B[i]

    lines = block(kernel)
    loops = [at for at, line in enumerate(lines) if line.startswith("for")]
    assert [lines[at - 1] == "#pragma omp simd" for at in loops] == [True, False, False, False]


def test_a_thread_that_returns_goes_to_the_next_thread_of_its_own_loop() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32) as bx:
            tx = T.get_thread_binding()
            B[tx] = 1
            T.sync_threads()
            if A[tx] > 3:
                T.thread_return()
            A[tx] = 2

    lines = block(kernel)
    left = next(n for n, line in enumerate(lines) if "goto" in line)
    head = next(line for line in reversed(lines[:left]) if line.startswith("for"))
    counter = re.match(r"for \(int64_t (\w+) = 0;", head)
    assert counter is not None
    assert lines[left - 1].strip() == f"alive[{counter[1]}] = 0;"
    assert lines[left].strip() == "goto next_thread_2;"
    assert "    next_thread_2:;" in lines


# -- failures -------------------------------------------------------------------------------
def test_every_check_has_a_code_of_its_own_and_its_message_is_quoted_for_c() -> None:
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
    assert str(caught.value) == "atomics on int4 are not supported"


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
def test_parameters_and_symbols_are_decoded_in_order() -> None:
    m = T.dynamic("m")

    @T.prim_func
    def kernel(A: T.Tensor((m, 8), "float16"), x: T.float32, n: T.int64, flag: T.bool):
        with T.Kernel(m, threads=1) as bx:
            A[bx, 0] = x

    lines = entry(kernel)
    assert lines[1:6] == [
        "uint16_t* const A = (uint16_t*)(intptr_t)slots[0];",
        "float const x = ((float)tl_bits_f64((uint64_t)slots[1]));",
        "int64_t const n = (int64_t)slots[2];",
        "uint8_t const flag = (uint8_t)slots[3];",
        "int32_t const m = (int32_t)slots[4];",
    ]
    assert "    const kernel_kernel_args args = {A, x, {((int64_t)m), 1, 1}};" in lines
    assert [symbol.name for symbol in symbols_of(kernel)] == ["m"]


def test_a_block_gets_only_what_it_uses() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32"), n: T.int32):
        with T.Kernel(1, threads=1) as bx:
            B[0] = 1

    text = source(kernel)
    assert text[text.index("typedef struct {") : text.index("} kernel_kernel_args;")] == (
        "typedef struct {\n    int32_t* B;\n    int64_t grid[3];\n"
    )


def test_launches_of_one_function_have_names_of_their_own_and_run_in_order() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=1) as bx:
            A[0] = 1
        with T.Kernel(2, 3, 4, threads=1) as (bx, by, bz):
            A[1] = A[0] + bx + by + bz

    text = source(kernel)
    runs = re.findall(r"tl_launch\((\w+),", text)
    assert runs == ["kernel_kernel_run", "kernel_kernel_2_run"]
    assert (
        "kernel_kernel_2_block(args, arena, error, block % args->grid[0], "
        "block / args->grid[0] % args->grid[1], block / (args->grid[0] * args->grid[1]));" in text
    )


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


def test_names_of_the_user_do_not_clash_with_generated_names() -> None:
    @T.prim_func
    def main(arena: T.Tensor((8,), "int32"), slots: T.int32, args: T.int32):
        with T.Kernel(1, threads=1) as bx:
            error = slots + args
            arena[0] = error

    lines = entry(main)
    assert lines[1] == "int32_t* const arena_1 = (int32_t*)(intptr_t)slots[0];"
    assert lines[2] == "int32_t const slots_1 = (int32_t)slots[1];"
    assert "arena_1[0] = " in source(main)


def test_inlined_headers_leave_no_include_of_ours() -> None:
    text = "\n".join(f'#include "{name}"' for name in INCLUDES)
    whole = inline_headers(text)
    assert '#include "' not in whole
    assert "TL_EXPORT" in whole and "tl_launch" in whole


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
