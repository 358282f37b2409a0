"""Programs that compilers of tile languages are known to get wrong, through every pass for GPUs.

The interpreter says what they mean, and runs what the compiler made of them, with race,
bounds and initialisation checks.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gemm_program import gemm_program
from tensor_types import F16, F32, I32, U8
from thread_races import simulate

import tilelang
import tilelang.language as T
from tilelang.codegen.symbols import symbols_of
from tilelang.compiler import lower
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Var
from tilelang.options import Options
from tilelang.target import parse_target

RANDOM = np.random.default_rng(0)


def numbers(*shape: int, dtype: str = "float32") -> np.ndarray:
    """Small whole numbers, exact in every dtype."""
    return RANDOM.integers(-3, 4, shape).astype(dtype)


def agree(func: Any, *args: Any, arch: str = "sm_80") -> list[Any]:
    """Run ``func`` in the interpreter and as lowered for a GPU; the results, which are equal."""
    expected = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    found = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    tilelang.compile(func, execution_backend="interpret")(*expected)
    lowered = lower(func, parse_target(f"cuda -arch={arch}"), Options())
    arrays: dict[Buffer, np.ndarray] = {}
    symbols: dict[Var, int] = {}
    for param, value in zip(lowered.params, found):
        if isinstance(param, Buffer):
            arrays[param] = value
        else:
            symbols[param] = value
    for symbol in symbols_of(lowered):
        for buffer, array in arrays.items():
            for extent, size in zip(buffer.shape, array.shape):
                if extent is symbol:
                    symbols[symbol] = size
    simulate(lowered.body, arrays, symbols)
    for one, other in zip(expected, found):
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other)
    return expected


# -- frontend --------------------------------------------------------------------------------------
def test_a_kernel_that_does_nothing() -> None:
    @T.prim_func
    def nothing(A: F32[4]):
        with T.Kernel(2, threads=32):
            pass

    agree(nothing, numbers(4))


def test_a_copy_whose_extent_is_known_at_run_time() -> None:
    @T.prim_func
    def moved(A: F32[64], B: F32[64], count: T.int32):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((64,), "float32")
            T.clear(tile)
            T.copy(A[0:count], tile[0:count])
            T.copy(tile, B)

    agree(moved, numbers(64), numbers(64), 37)


def test_a_wide_scalar_indexes_together_with_narrow_ones() -> None:
    @T.prim_func
    def shifted(A: F32[128], B: F32[64], first: T.int64):
        with T.Kernel(2, threads=32) as bx:
            for i in T.Parallel(32):
                B[bx * 32 + i] = A[first + bx * 32 + i]

    agree(shifted, numbers(128), numbers(64), 17)


def test_a_loop_starts_at_the_block() -> None:
    @T.prim_func
    def dealt(A: F32[64], B: F32[64], stop: T.int32):
        with T.Kernel(4, threads=32) as bx:
            tx = T.get_thread_binding(0)
            for tile in range(bx, stop, 4):
                if tx < 8:
                    B[tile * 8 + tx] = A[tile * 8 + tx] + 1.0

    agree(dealt, numbers(64), numbers(64), 7)


def test_options_of_one_compilation_do_not_reach_another() -> None:
    configs: dict[str, Any] = {"tl.enable_fast_math": False}

    def factory() -> Any:
        @T.prim_func
        def same(A: F32[4]):
            with T.Kernel(1, threads=32):
                A[0] = 1.0

        return same

    made = tilelang.jit(factory, pass_configs=configs, execution_backend="interpret")
    configs["tl.enable_fast_math"] = True
    assert not made().options.fast_math


def test_tracing_keeps_no_frame_of_the_caller_alive() -> None:
    import gc
    import weakref

    class Held:
        pass

    def factory() -> tuple[Any, Any]:
        held = Held()

        @T.prim_func
        def same(A: F32[4]):
            with T.Kernel(1, threads=32):
                A[0] = 1.0

        return same, weakref.ref(held)

    kernel, held = factory()
    gc.collect()
    assert held() is None and kernel is not None


# -- conditions, loops -----------------------------------------------------------------------------
def test_a_condition_that_the_body_changes_is_tested_once() -> None:
    @T.prim_func
    def flipped(A: F32[64], B: F32[64]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                if A[i] > 0:
                    A[i] = -A[i]
                    B[i] = A[i] * 2.0
                if A[i] < 0:
                    B[i] = B[i] + 1.0

    agree(flipped, numbers(64), numbers(64))


def test_variables_of_unrolled_iterations_are_distinct() -> None:
    @T.prim_func
    def summed(A: F32[64], B: F32[64]):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding(0)
            for u in T.unroll(2):
                total = T.alloc_var("float32", init=0.0)
                held = T.alloc_local((2,), "float32")
                held[0] = A[u * 32 + tx]
                held[1] = held[0] + 1.0
                total += held[0] * held[1]
                B[u * 32 + tx] = total

    agree(summed, numbers(64), numbers(64))


def test_a_negative_index_at_run_time_is_outside() -> None:
    @T.prim_func
    def before(A: F32[64], B: F32[64], back: T.int32):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                B[i] = A[i - back]

    a = numbers(64) + 10
    found = agree(before, a, numbers(64), 5)
    assert np.array_equal(found[1], np.concatenate([np.zeros(5), a[:-5]]))
    found = agree(before, a, numbers(64), 69)
    assert (found[1] == 0).all()


# -- layouts ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("shape", [(64, 32), (48, 24)])
def test_row_results_are_stored_to_their_rows(shape: tuple[int, int]) -> None:
    rows, columns = shape

    @T.prim_func
    def centred(A: T.Tensor(shape, "float32"), B: T.Tensor(shape, "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_fragment(shape, "float32")
            most = T.alloc_fragment((rows,), "float32")
            T.copy(A, tile)
            T.reduce_max(tile, most, dim=1)
            for i, j in T.Parallel(rows, columns):
                tile[i, j] = tile[i, j] - most[i]
            T.copy(tile, B)

    agree(centred, numbers(*shape), numbers(*shape))


def test_one_fragment_reduced_along_both_dimensions() -> None:
    @T.prim_func
    def both(A: F32[32, 32], R: F32[32], C: F32[32], D: F32[32, 32]):
        with T.Kernel(1, threads=64):
            tile = T.alloc_fragment((32, 32), "float32")
            rows = T.alloc_fragment((32,), "float32")
            columns = T.alloc_fragment((32,), "float32")
            T.copy(A, tile)
            T.reduce_sum(tile, rows, dim=1)
            T.reduce_sum(tile, columns, dim=0)
            for i, j in T.Parallel(32, 32):
                tile[i, j] = rows[i] + columns[j]
            T.copy(rows, R)
            T.copy(columns, C)
            T.copy(tile, D)

    agree(both, numbers(32, 32), numbers(32), numbers(32), numbers(32, 32))


def test_a_fragment_read_by_the_number_of_the_thread() -> None:
    @T.prim_func
    def picked(A: F32[4], B: F32[64]):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding(0)
            scale = T.alloc_fragment((4,), "float32")
            T.copy(A, scale)
            B[tx] = scale[tx & 3]

    agree(picked, numbers(4), numbers(64))


def test_a_fragment_of_one_element() -> None:
    @T.prim_func
    def total(A: F32[48], B: F32[1]):
        with T.Kernel(1, threads=64):
            tile = T.alloc_fragment((48,), "float32")
            one = T.alloc_fragment((1,), "float32")
            T.copy(A, tile)
            T.reduce_sum(tile, one, dim=0)
            T.copy(one, B)

    agree(total, numbers(48), numbers(1))


@pytest.mark.parametrize("group", [32, 12])
def test_a_factor_for_each_group_of_columns(group: int) -> None:
    count = group * 3

    @T.prim_func
    def scaled(A: F32[16, count], S: F32[16, 3], B: F32[16, count]):
        with T.Kernel(1, threads=64):
            tile = T.alloc_fragment((16, count), "float32")
            factors = T.alloc_fragment((16, 3), "float32")
            T.copy(A, tile)
            T.copy(S, factors)
            for i, j in T.Parallel(16, count):
                tile[i, j] = tile[i, j] * factors[i, j // group]
            T.copy(tile, B)

    agree(scaled, numbers(16, count), numbers(16, 3), numbers(16, count))


def test_a_serial_loop_over_a_column_inside_a_parallel_one() -> None:
    @T.prim_func
    def folded(A: F32[32, 8], B: F32[32]):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((32, 8), "float32")
            sums = T.alloc_fragment((32,), "float32")
            T.copy(A, tile)
            T.clear(sums)
            for i in T.Parallel(32):
                for k in T.serial(8):
                    sums[i] = sums[i] + tile[i, k]
            T.copy(sums, B)

    agree(folded, numbers(32, 8), numbers(32))


def test_a_huge_loop_is_lowered_at_once() -> None:
    @T.prim_func
    def large(A: F16[8192, 8192], B: F16[8192, 8192]):
        with T.Kernel(1, threads=128):
            for i, j in T.Parallel(8192, 8192):
                B[i, j] = A[i, j]

    assert lower(large, parse_target("cuda -arch=sm_80"), Options()) is not None


@pytest.mark.parametrize(("count", "threads"), [(1024, 384), (100, 64), (7, 32), (1000, 96)])
def test_tiles_that_do_not_divide_by_the_threads(count: int, threads: int) -> None:
    @T.prim_func
    def ragged(A: F32[count], B: F32[count]):
        with T.Kernel(1, threads=threads):
            tile = T.alloc_fragment((count,), "float32")
            T.copy(A, tile)
            for i in T.Parallel(count):
                tile[i] = tile[i] + 1.0
            T.copy(tile, B)

    agree(ragged, numbers(count), numbers(count))


def test_a_view_of_another_shape_and_dtype() -> None:
    @T.prim_func
    def seen(A: F32[16, 16], B: I32[256]):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((16, 16), "float32")
            T.copy(A, tile)
            flat = T.view(tile, (256,), "int32")
            T.copy(flat, B)

    found = agree(seen, numbers(16, 16), np.zeros(256, np.int32))
    assert (found[1].view(np.float32) == found[0].reshape(-1)).all()


# -- copies ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("length", [33, 65, 97])
def test_one_element_left_over_for_the_last_stage(length: int) -> None:
    @T.prim_func
    def summed(A: F16[16, length], B: F32[16]):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((16, 32), "float16")
            held = T.alloc_fragment((16, 32), "float16")
            rows = T.alloc_fragment((16,), "float32")
            T.clear(rows)
            for k in T.Pipelined(T.ceildiv(length, 32), num_stages=2):
                T.copy(A[0, k * 32], tile)
                T.copy(tile, held)
                T.reduce_sum(held, rows, dim=1, clear=False)
            T.copy(rows, B)

    agree(summed, numbers(16, length, dtype="float16"), numbers(16))


@pytest.mark.parametrize(
    ("source", "target"), [("float32", "float16"), ("float16", "float32"), ("int8", "float32"),
                           ("float32", "int32"), ("int32", "int8")],
)  # fmt: skip
def test_copies_that_convert(source: str, target: str) -> None:
    @T.prim_func
    def converted(A: T.Tensor((8, 64), source), B: T.Tensor((8, 64), target)):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 64), target)
            T.copy(A, tile)
            T.copy(tile, B)

    agree(converted, numbers(8, 64, dtype=source), numbers(8, 64, dtype=target))


# -- products --------------------------------------------------------------------------------------
@pytest.mark.parametrize("length", [0, 16, 80])
def test_products_of_any_length_known_at_run_time(length: int) -> None:
    k = T.dynamic("k")

    product = gemm_program(16, 16, k, (16, 16, 16), threads=32)

    agree(
        product, numbers(16, length, dtype="float16"), numbers(length, 16, dtype="float16"),
        numbers(16, 16),
    )  # fmt: skip


def test_two_products_into_one_sum_one_of_them_before_the_loop() -> None:
    @T.prim_func
    def product(A: F16[16, 64], B: F16[64, 16], C: F32[16, 16]):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((16, 16), "float16")
            b = T.alloc_shared((16, 16), "float16")
            first = T.alloc_shared((16, 16), "float16")
            c = T.alloc_fragment((16, 16), "float32")
            T.copy(A[0, 0], first)
            T.clear(c)
            T.gemm(first, first, c)
            for step in T.Pipelined(4, num_stages=3):
                T.copy(A[0, step * 16], a)
                T.copy(B[step * 16, 0], b)
                T.gemm(a, b, c)
                T.gemm(a, first, c)
            T.copy(c, C)

    agree(product, numbers(16, 64, dtype="float16"), numbers(64, 16, dtype="float16"),
          numbers(16, 16))  # fmt: skip


# -- reductions ------------------------------------------------------------------------------------
def test_the_largest_magnitude_of_unsigned_numbers() -> None:
    @T.prim_func
    def most(A: U8[4, 32], B: U8[4]):
        with T.Kernel(1, threads=32):
            tile = T.alloc_fragment((4, 32), "uint8")
            rows = T.alloc_fragment((4,), "uint8")
            T.copy(A, tile)
            T.reduce_absmax(tile, rows, dim=1)
            T.copy(rows, B)

    agree(most, RANDOM.integers(0, 256, (4, 32)).astype(np.uint8), np.zeros(4, np.uint8))


# -- pipelines -------------------------------------------------------------------------------------
def test_a_value_bound_from_the_loop_variable() -> None:
    @T.prim_func
    def gathered(A: F32[8, 32], I: I32[6], B: F32[6, 32]):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((32,), "float32")
            for k in T.Pipelined(6, num_stages=3):
                row = I[k]
                T.copy(A[row, 0:32], tile)
                for j in T.Parallel(32):
                    B[k, j] = tile[j] + 1.0

    index = RANDOM.integers(0, 8, 6).astype(np.int32)
    agree(gathered, numbers(8, 32), index, numbers(6, 32))


def test_a_pipelined_loop_that_uses_nothing_of_what_it_copies() -> None:
    @T.prim_func
    def idle(A: F32[4, 32], B: F32[32]):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((32,), "float32")
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k, 0], tile)
            for j in T.Parallel(32):
                B[j] = 1.0

    agree(idle, numbers(4, 32), numbers(32))


def test_conditions_on_the_loop_variable_in_a_pipeline() -> None:
    @T.prim_func
    def chosen(A: F32[6, 32], B: F32[32]):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((32,), "float32")
            held = T.alloc_fragment((32,), "float32")
            T.clear(held)
            for k in T.Pipelined(6, num_stages=2):
                T.copy(A[k, 0], tile)
                if k > 2:
                    for j in T.Parallel(32):
                        held[j] = held[j] + tile[j]
                else:
                    for j in T.Parallel(32):
                        held[j] = held[j] - tile[j]
            T.copy(held, B)

    agree(chosen, numbers(6, 32), numbers(32))


def test_atomics_in_a_pipeline_happen_once_per_iteration() -> None:
    @T.prim_func
    def counted(A: I32[5, 32], B: I32[32]):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((32,), "int32")
            for k in T.Pipelined(5, num_stages=3):
                T.copy(A[k, 0], tile)
                for j in T.Parallel(32):
                    T.atomic_add(B[j], tile[j])

    agree(counted, numbers(5, 32, dtype="int32"), np.zeros(32, np.int32))


def test_tiles_filled_by_loops_and_by_copies_in_one_pipeline() -> None:
    @T.prim_func
    def mixed(A: F16[64, 16], B: F16[64, 16], C: F32[16, 16]):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((16, 16), "float16")
            b = T.alloc_shared((16, 16), "float16")
            c = T.alloc_fragment((16, 16), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k * 16, 0], a)
                for i, j in T.Parallel(16, 16):
                    b[i, j] = B[k * 16 + i, j] + T.float16(1.0)
                T.gemm(a, b, c)
            T.copy(c, C)

    agree(mixed, numbers(64, 16, dtype="float16"), numbers(64, 16, dtype="float16"),
          numbers(16, 16))  # fmt: skip


# -- order -----------------------------------------------------------------------------------------
def test_what_atomics_add_up_in_shared_memory_is_read_after_a_barrier() -> None:
    @T.prim_func
    def counted(A: I32[256], B: I32[8]):
        with T.Kernel(1, threads=64):
            bins = T.alloc_shared((8,), "int32")
            T.clear(bins)
            for i in T.Parallel(256):
                T.atomic_add(bins[A[i]], 1)
            T.copy(bins, B)

    data = RANDOM.integers(0, 8, 256).astype(np.int32)
    found = agree(counted, data, np.zeros(8, np.int32))
    assert found[1].sum() == 256


def test_bound_values_do_not_hide_what_they_read() -> None:
    @T.prim_func
    def turned(A: F32[32], B: F32[32]):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding(0)
            tile = T.alloc_shared((32,), "float32")
            tile[tx] = A[tx]
            T.sync_threads()
            other = tile[31 - tx]
            T.sync_threads()
            tile[tx] = other * 2.0
            B[tx] = tile[tx]

    agree(turned, numbers(32), numbers(32))


def test_addresses_of_parts_count_their_offset_once() -> None:
    @T.prim_func
    def added(A: I32[4, 32], B: I32[4, 32]):
        with T.Kernel(4, threads=32) as bx:
            tx = T.get_thread_binding(0)
            tile = T.alloc_shared((2, 32), "int32")
            T.clear(tile)
            T.copy(A[bx, 0:32], tile[1, 0:32])
            T.atomic_add(B[bx, tx], tile[1, tx])

    agree(added, numbers(4, 32, dtype="int32"), numbers(4, 32, dtype="int32"))


PROGRAM = """
import tilelang.language as T
from tilelang.compiler import compile
from tilelang.target import parse_target

@T.prim_func
def product(
    A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16"),
    C: T.Tensor((64, 64), "float32"),
):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 32), "float16")
        b = T.alloc_shared((32, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        rows = T.alloc_fragment((64,), "float32")
        T.clear(c)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[0, k * 32], a)
            T.copy(B[k * 32, 0], b)
            T.gemm(a, b, c)
        T.reduce_max(c, rows, dim=1)
        for i, j in T.Parallel(64, 64):
            c[i, j] = c[i, j] - rows[i]
        T.copy(c, C)

print(compile(product, parse_target("cuda -arch=sm_80")).source)
"""


def test_the_text_for_a_gpu_is_the_same_in_every_process(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    texts = set()
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, str(file)], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        )  # fmt: skip
        texts.add(done.stdout)
    assert len(texts) == 1 and "mma" in texts.pop()
