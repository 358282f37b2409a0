"""Loops over vectors: what they compute, at the widths of several machines."""

from __future__ import annotations

import ctypes
import mmap
import platform
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tensor_types import F32, I8, I32
from written import executed

import tilelang
import tilelang.language as T
from tilelang.codegen.c import NARROW_FLOATS
from tilelang.cpu.executable import INCLUDE_DIR
from tilelang.cpu.toolchain import find_compiler
from tilelang.ir import floats
from tilelang.ir.dtypes import dtype as DType

from .modes import agree

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")

WIDTHS = (16, 64)  # bytes; what the machine does not have is made of what it has
ROWS, COLUMNS = 3, 200  # not a multiple of 16 lanes or more
RNG = np.random.default_rng(11)
TYPES: dict[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "bool": np.bool_}


def numbers(dtype: str, shape: tuple[int, ...] = (ROWS, COLUMNS)) -> np.ndarray:
    """Numbers of ``dtype``, small enough for sums to be exact where they are whole."""
    if dtype == "bool":
        return RNG.random(shape) < 0.5
    if dtype.startswith(("int", "uint")):
        info = np.iinfo(dtype)
        return RNG.integers(info.min, info.max, shape, dtype, endpoint=True)
    return (RNG.standard_normal(shape) * 4).astype(TYPES.get(dtype, dtype))


def run(func: Any, width: int, *args: np.ndarray) -> np.ndarray:
    """The last array after ``func(*args)`` with vectors of ``width`` bytes."""
    kernel = on_vectors(func, width)
    assert "TL_STORE" in kernel.get_kernel_source() or "TL_FOLD" in kernel.get_kernel_source()
    given = [np.array(arg) for arg in args]
    kernel(*given)
    return given[-1]


def on_vectors(func: Any, width: int) -> Any:
    """The kernel of ``func`` with vectors of ``width`` bytes."""
    return tilelang.compile(func, target="cpu", compile_flags=[f"-DTL_VECTOR_BYTES={width}"])


def elementwise(source: str, target: str, compute: Callable[..., Any]) -> Any:
    @T.prim_func
    def kernel(
        A: T.Tensor((ROWS, COLUMNS), source),
        B: T.Tensor((ROWS, COLUMNS), source),
        C: T.Tensor((ROWS, COLUMNS), target),
    ):
        with T.Kernel(ROWS, threads=1) as row:
            for i in T.Parallel(COLUMNS):
                C[row, i] = compute(A[row, i], B[row, i])

    return kernel


def halved(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (x.astype(np.float32) * y.astype(np.float32)).astype(x.dtype)


OPERATIONS: dict[str, tuple[str, str, Callable[..., Any], Callable[..., np.ndarray]]] = {
    "floats": ("float32", "float32", lambda a, b: a - b, np.subtract),
    "doubles": ("float64", "float64", lambda a, b: a / b, np.divide),
    "halves": ("float16", "float16", lambda a, b: a * b, halved),
    "brain halves": ("bfloat16", "bfloat16", lambda a, b: a * b, halved),
    "bytes": ("int8", "int8", lambda a, b: a * b, np.multiply),
    "words": ("uint16", "uint16", lambda a, b: a + b, np.add),
    "long words": ("int64", "int64", lambda a, b: a * b, np.multiply),
    "minimum": ("float32", "float32", T.min, np.minimum),
    "minimum of bytes": ("uint8", "uint8", T.min, np.minimum),
    "a comparison": ("float16", "bool", lambda a, b: a < b, np.less),
    "a comparison of bytes": ("int8", "bool", lambda a, b: a >= b, np.greater_equal),
    "logic": ("bool", "bool", lambda a, b: T.And(a, T.Not(b)), lambda a, b: a & ~b),
    "a choice": (
        "float32", "float32",
        lambda a, b: T.if_then_else(a > 0, a, b * 0.5),
        lambda a, b: np.where(a > 0, a, b * np.float32(0.5)),
    ),
    "quotients": ("int32", "int32", lambda a, b: a // 7 + b % 12, lambda a, b: a // 7 + b % 12),
    "small quotients": ("int8", "int8", lambda a, b: a // 8 + b % 5, lambda a, b: a // 8 + b % 5),
    "unsigned quotients": ("uint32", "uint32", lambda a, b: a // 9, lambda a, b: a // 9),
    "quotients of two": (
        "int32", "int32",
        lambda a, b: a // (b | 1),
        lambda a, b: (a.astype(np.int64) // (b | 1)).astype(np.int32),
    ),
    "bytes to floats": (
        "uint8", "float32",
        lambda a, b: T.cast(a, "float32") * T.cast(b, "float32"),
        lambda a, b: a.astype(np.float32) * b.astype(np.float32),
    ),
    "words to bytes": (
        "int32", "int8", lambda a, b: T.cast(a ^ b, "int8"), lambda a, b: (a ^ b).astype(np.int8)
    ),
    "longs to floats": (
        "int64", "float32",
        lambda a, b: T.cast(a, "float32"), lambda a, b: a.astype(np.float32),
    ),
    "booleans to floats": (
        "bool", "float32",
        lambda a, b: T.cast(a, "float32") - T.cast(b, "float32"),
        lambda a, b: a.astype(np.float32) - b.astype(np.float32),
    ),
    "magnitudes": ("int16", "int16", lambda a, b: T.abs(a), lambda a, b: np.abs(a)),
}  # fmt: skip


@pytest.mark.share(4)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_that_of_numpy(name: str, width: int) -> None:
    source, target, compute, wanted = OPERATIONS[name]
    a, b = numbers(source), numbers(source)
    start = np.zeros((ROWS, COLUMNS), TYPES.get(target, target))
    got = run(elementwise(source, target, compute), width, a, b, start)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(got, wanted(a, b))


@pytest.mark.share(3)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", sorted(d for d in NARROW_FLOATS if DType(d).bits >= 8))
def test_every_code_is_read_and_floats_and_results_are_rounded_as_by_scalars(
    dtype: str, width: int
) -> None:
    kind = DType(dtype)
    count = 4096 if kind.bits == 8 else 1 << 16

    @T.prim_func
    def kernel(
        A: T.Tensor((count,), dtype), X: F32[count], B: F32[count], C: T.Tensor((count,), dtype),
        D: T.Tensor((count,), dtype),
    ):  # fmt: skip
        with T.Kernel(1, threads=1):
            for i in T.Parallel(count):
                B[i] = T.cast(A[i], "float32")
            for i in T.Parallel(count):
                C[i] = T.cast(X[i], dtype)
            for i in T.Parallel(count):
                D[i] = A[i] * A[(count - 1) - i]

    codes = np.arange(count).astype(f"u{kind.bits // 8}")
    stored = codes.view(np.float16) if dtype == "float16" else codes
    values = floats.decode(codes, kind).astype(np.float32)
    # Values, what is between neighbours, ties of halves and their neighbours, and far too much.
    bits = values.view(np.uint32) + RNG.integers(0, 1 << 23, count).astype(np.uint32)
    middle = values[::2].view(np.uint32) + np.uint32(1 << (12 if dtype == "float16" else 15))
    bits[::2] = middle + RNG.integers(-1, 2, count // 2).astype(np.uint32)
    bits[:8] = np.array([0, 1 << 31, 1, 0x7F800000, 0xFF800000, 0x33000001, 0x7F7FFFFF, 1 << 23])
    x = bits.view(np.float32)
    compiled = on_vectors(kernel, width)
    oracle = tilelang.compile(kernel, target="cpu", execution_backend="interpret")
    results = []
    for program in (compiled, oracle):
        outs = [np.zeros(count, np.float32), np.zeros_like(stored), np.zeros_like(stored)]
        program(stored, x, *outs)
        results.append(outs)
    for number, (mine, wanted) in enumerate(zip(*results)):
        if number and kind.bits == 16:  # the codes of NaN differ
            mine, wanted = (floats.decode(found.view("u2"), kind) for found in (mine, wanted))
        np.testing.assert_array_equal(mine, wanted)


REDUCTIONS: dict[str, tuple[str, Callable[[np.ndarray], np.ndarray]]] = {
    "sum": ("int32", lambda a: a.sum(1, dtype=np.int32)),
    "max": ("float32", lambda a: a.max(1)),
    "min": ("int8", lambda a: a.min(1)),
    "bitxor": ("uint32", np.bitwise_xor.reduce),
    "bitand": ("int64", np.bitwise_and.reduce),
    "abssum": ("int16", lambda a: np.abs(a).sum(1, dtype=np.int16)),
    "absmax": ("float16", lambda a: np.abs(a).max(1)),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("columns", [20, 700])
@pytest.mark.parametrize("kind", REDUCTIONS)
def test_a_reduction_reads_every_element_once(kind: str, columns: int, width: int) -> None:
    dtype, wanted = REDUCTIONS[kind]

    @T.prim_func
    def kernel(A: T.Tensor((ROWS, columns), dtype), C: T.Tensor((ROWS,), dtype)):
        with T.Kernel(1, threads=1):
            a = T.alloc_fragment((ROWS, columns), dtype)
            c = T.alloc_fragment((ROWS,), dtype)
            T.copy(A, a)
            getattr(T, f"reduce_{kind}")(a, c, dim=1)
            T.copy(c, C)

    a = numbers(dtype, (ROWS, columns))
    got = run(kernel, width, a, np.zeros(ROWS, TYPES.get(dtype, dtype)))
    of = wanted(a, axis=1) if kind.startswith("bit") else wanted(a)
    np.testing.assert_array_equal(got, of)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("columns", [20, 700])
def test_reductions_of_the_same_elements_share_a_loop(columns: int, width: int) -> None:
    @T.prim_func
    def kernel(A: F32[ROWS, columns], C: F32[3, ROWS]):
        with T.Kernel(1, threads=1):
            a = T.alloc_fragment((ROWS, columns), "float32")
            low = T.alloc_fragment((ROWS,), "float32")
            top = T.alloc_fragment((ROWS,), "float32")
            total = T.alloc_fragment((ROWS,), "float32")
            T.copy(A, a)
            T.reduce_sum(a, total, dim=1)
            T.reduce_max(a, top, dim=1)
            T.reduce_min(a, low, dim=1)
            T.copy(total, C[0, :])
            T.copy(top, C[1, :])
            T.copy(low, C[2, :])

    a = np.round(numbers("float32", (ROWS, columns)))
    assert tilelang.compile(kernel, target="cpu").get_kernel_source().count("for (int64_t") <= 4
    got = run(kernel, width, a, np.zeros((3, ROWS), np.float32))
    np.testing.assert_array_equal(got, [a.sum(1), a.max(1), a.min(1)])


SCANS: dict[str, tuple[str, Callable[..., np.ndarray]]] = {
    "cumsum": ("add", np.add.accumulate),
    "cummax": ("max", np.maximum.accumulate),
}


@pytest.mark.share(4)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("columns", [20, 700])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint16", "int64"])
@pytest.mark.parametrize("name", SCANS)
def test_a_running_total_reaches_every_later_lane(
    name: str, dtype: str, columns: int, width: int
) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((ROWS, columns), dtype), C: T.Tensor((ROWS, columns), dtype)):
        with T.Kernel(1, threads=1):
            a = T.alloc_shared((ROWS, columns), dtype)
            T.copy(A, a)
            getattr(T, name)(a, dim=1)
            T.copy(a, C)

    a = numbers(dtype, (ROWS, columns))
    a = np.round(a) if dtype.startswith("float") else a
    source = tilelang.compile(kernel, target="cpu").get_kernel_source()
    assert "TL_RUNNING(" in source or columns == 20
    got = run(kernel, width, a, np.zeros((ROWS, columns), dtype))
    np.testing.assert_array_equal(got, SCANS[name][1](a, axis=1, dtype=a.dtype))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("first", [2, 37, 64])  # so many NaN before a number; 64: no number at all
def test_a_running_maximum_ignores_a_nan(first: int, width: int) -> None:
    @T.prim_func
    def kernel(A: F32[64], C: F32[64]):
        with T.Kernel(1, threads=1):
            a = T.alloc_shared((64,), "float32")
            T.copy(A, a)
            T.cummax(a, dim=0)
            T.copy(a, C)

    a = numbers("float32", (64,))
    a[[*range(first), 39, 45, 63]] = np.nan
    expected = np.fmax.accumulate(np.concatenate([[-np.inf], a]).astype(np.float32))[1:]
    np.testing.assert_array_equal(run(kernel, width, a, np.zeros(64, np.float32)), expected)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_columns_are_summed_several_rows_at_a_time(dtype: str, width: int) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((24, 80), dtype), C: T.Tensor((80,), dtype)):
        with T.Kernel(1, threads=1):
            a = T.alloc_shared((24, 80), dtype)
            c = T.alloc_fragment((80,), dtype)
            T.copy(A, a)
            T.reduce_sum(a, c, dim=0)
            T.copy(c, C)

    assert "takes 8 rows (unroll-and-jam)" in tilelang.compile(kernel, target="cpu").explain()
    a = numbers(dtype, (24, 80))
    a = np.round(a) if dtype.startswith("float") else a
    got = run(kernel, width, a, np.zeros(80, dtype))
    np.testing.assert_array_equal(got, a.sum(0, dtype=dtype))


def test_rows_without_remainder_compile() -> None:
    @T.prim_func
    def kernel(C: F32[32]):
        with T.Kernel(1, threads=1):
            c = T.alloc_fragment((32,), "float32")
            T.fill(c, 3)
            for g, _ in T.grid(2, 2):
                for i in T.Parallel(32):
                    if g == 4:
                        c[i] = 0.0
            T.copy(c, C)

    c = np.zeros(32, np.float32)
    tilelang.compile(kernel, target="cpu")(c)
    np.testing.assert_array_equal(c, np.full(32, 3, np.float32))


@contextmanager
def before_the_end_of_memory(dtype: str, values: np.ndarray) -> Iterator[np.ndarray]:
    """``values`` in memory behind which no access is allowed."""
    page, libc = mmap.PAGESIZE, ctypes.CDLL(None, use_errno=True)
    memory = mmap.mmap(-1, 4 * page)
    held = np.frombuffer(memory, dtype, values.size, 3 * page - values.nbytes)
    held[:] = values
    behind = ctypes.c_void_p(held.ctypes.data + values.nbytes)
    assert libc.mprotect(behind, ctypes.c_size_t(page), 0) == 0
    try:
        yield held
    finally:
        libc.mprotect(behind, ctypes.c_size_t(page), mmap.PROT_READ | mmap.PROT_WRITE)


protects = pytest.mark.skipif(
    not hasattr(mmap, "PROT_READ"), reason="pages without access need mprotect"
)


@protects
@pytest.mark.share(3)
@pytest.mark.parametrize("width", (*WIDTHS, 32))
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "float64"])
def test_masked_lanes_do_not_touch_a_page(width: int, dtype: str) -> None:
    length, tile = 77, 128  # behind the last element there is no memory

    @T.prim_func
    def kernel(A: T.Tensor((length,), dtype), on: I32[tile], C: F32[tile]):
        with T.Kernel(1, threads=1):
            for i in T.Parallel(tile):
                C[i] = T.if_then_else(
                    on[i] != 0 and i < length, T.cast(A[i], "float32"), T.float32(-1)
                )

    a = RNG.integers(0, 100, length).astype(dtype)
    on = RNG.integers(0, 2, tile, np.int32)
    want = np.full(tile, -1, np.float32)
    want[:length] = np.where(on[:length] != 0, a.astype("f4"), -1)
    compiled = on_vectors(kernel, width)
    assert "TL_LOAD_IF(" in compiled.get_kernel_source()
    C = np.zeros(tile, np.float32)
    with before_the_end_of_memory(dtype, a) as A:
        compiled(A, on, C)
    np.testing.assert_array_equal(C, want)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8", "int64"])
def test_a_row_condition_is_not_a_mask_and_skips_its_loads(width: int, dtype: str) -> None:
    rows, columns = 6, 100

    @T.prim_func
    def kernel(
        A: T.Tensor((rows, columns), dtype), on: I32[rows + 3],
        C: T.Tensor((rows + 3, columns), dtype),
    ):  # fmt: skip
        with T.Kernel(1, threads=1):
            for i, j in T.Parallel(rows + 3, columns):
                C[i, j] = T.if_then_else(
                    i >= 2 and i < rows + 2,
                    T.if_then_else(on[i] != 0, A[i - 2, j], T.cast(5, dtype)),
                    T.cast(7, dtype),
                )

    a = np.resize(np.array([1, 2, 3], TYPES.get(dtype, dtype)), (rows, columns))
    on = np.array([0, 1, 0, 1, 1, 0, 1, 1, 1], np.int32)
    text = agree(kernel, a, on, np.zeros((rows + 3, columns), a.dtype), width=width)
    assert "TL_LOAD_IF(" not in text


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("extent", [100, T.dynamic("m")])
def test_a_uniform_value_is_not_a_vector(width: int, extent: Any) -> None:
    @T.prim_func
    def kernel(A: F32[20, extent], S: I8[7], B: F32[20], C: F32[7, extent]):
        with T.Kernel(1, threads=1):
            T.annotate_safe_value({A: 3.0, B: 0.0})
            for i, j in T.Parallel(7, extent):
                row = S[i]
                twice = B[row] * 2
                if j != 5:
                    C[i, j] = A[row, j] + twice

    rows = np.array([3, -1, 0, 19, 20, -20, 7], np.int8)
    a, b = numbers("float32", (20, 100)), numbers("float32", (20,))
    text = agree(kernel, a, rows, b, np.zeros((7, 100), np.float32), width=width)
    assert "const int8_t row = S[" in text
    assert "TL_EACH" not in text


LOADS = {
    (2, 0): "TL_LOAD_FIRST", (2, 1): "TL_LOAD_SECOND", (3, 1): "TL_LOAD_3", (4, 2): "TL_LOAD_4",
    (-1, 0): "TL_LOAD_BACK",
}  # fmt: skip


@protects
@pytest.mark.share(7)
@pytest.mark.parametrize("width", (*WIDTHS, 32))
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "float64", "bool"])
@pytest.mark.parametrize(("apart", "first"), [*LOADS, (2, 2), (5, 0)])
def test_strided_elements_are_loaded_as_vectors_within_bounds(
    apart: int, first: int, dtype: str, width: int
) -> None:
    count = 137
    last = abs(apart) * (count - 1) + first
    length = last + 1 if first == 2 else -(-(last + 1) // 2) * 2  # whole pairs, if there are any

    @T.prim_func
    def kernel(A: T.Tensor((length,), dtype), C: T.Tensor((count,), dtype)):
        with T.Kernel(1, threads=1):
            for i in T.Parallel(count):
                C[i] = A[apart * i + first if apart > 0 else last - i]

    compiled = on_vectors(kernel, width)
    word = LOADS.get((apart, first), "TL_LOAD_2(" if apart == 2 else "omp simd")
    assert word in compiled.get_kernel_source()
    a, C = numbers(dtype, (length,)), np.zeros(count, dtype)
    with before_the_end_of_memory(dtype, a) as A:
        compiled(A, C)
    at = np.arange(count)
    np.testing.assert_array_equal(C, a[apart * at + first if apart > 0 else last - at])


def test_short_parts_of_rows_are_fetched_two_rows_ahead() -> None:
    def rows(part: int) -> Any:
        @T.prim_func
        def kernel(A: F32[64, 4096], C: F32[64], steps: T.int32):
            with T.Kernel(1, threads=1):
                a = T.alloc_fragment((64, part), "float32")
                c = T.alloc_fragment((64,), "float32")
                T.clear(c)
                for k in T.serial(steps):
                    T.copy(A[0, k * part], a)
                    T.reduce_sum(a, c, dim=1, clear=False)
                T.copy(c, C)

        return tilelang.compile(kernel, target="cpu")

    short, long = rows(256), rows(4096)
    assert short.get_kernel_source().count("+ j + 8192);") == 1  # elements: two rows of 4096
    assert "__builtin_prefetch" not in long.get_kernel_source()
    a = np.arange(64 * 4096, dtype=np.float32).reshape(64, 4096) % 7
    for kernel, steps in ((short, 16), (long, 1)):
        c = np.zeros(64, np.float32)
        kernel(a, c, steps)
        np.testing.assert_array_equal(c, a.sum(axis=1))


# -- what is left behind the last whole vector -----------------------------------------------------
@pytest.mark.share(6)
@pytest.mark.parametrize("width", (*WIDTHS, 32))
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8", "float64"])
@pytest.mark.parametrize("length", [64, 65, 100, 127])
def test_the_last_vector_overlaps_the_one_before(width: int, dtype: str, length: int) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((length + 1,), dtype), C: T.Tensor((length,), dtype)):
        with T.Kernel(1, threads=1):
            for i in T.Parallel(length):
                C[i] = T.if_then_else(i % 3 == 1, A[i], A[i + 1])

    a = numbers(dtype, (length + 1,))
    agree(kernel, a, np.zeros(length, a.dtype), width=width)


# -- compilers -------------------------------------------------------------------------------------
@pytest.mark.skipif(platform.machine() != "x86_64", reason="a type that Clang 14 lacks on x86")
@pytest.mark.parametrize("compiler", ["gcc", "clang", "clang-14", "clang-19"])
def test_halves_are_vectors_with_every_compiler(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    compiled = tilelang.compile(elementwise("float16", "float16", lambda a, b: a * b), target="cpu")
    tmp_path.joinpath("x.c").write_text(compiled.get_kernel_source(), encoding="utf-8")
    flags = [
        "-march=haswell", "-std=gnu11", "-O2", "-w", f"-I{INCLUDE_DIR}", "-S", "x.c", "-o", "x.s",
    ]  # fmt: skip
    subprocess.run([compiler, *flags], cwd=tmp_path, check=True)
    text = tmp_path.joinpath("x.s").read_text(encoding="utf-8")
    assert "vcvtph2ps" in text and "vcvtps2ph" in text


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_a_row_by_a_loaded_number_is_guarded_lane_by_lane(dtype: str, index: str) -> None:
    @T.prim_func
    def rows(X: T.Tensor((50, 96), dtype), I: T.Tensor((16,), index), Y: T.Tensor((16, 96), dtype)):
        with T.Kernel(4, threads=128) as b:
            for r, j in T.Parallel(4, 96):
                slot = b * 4 + r
                row = I[slot]
                Y[slot, j] = T.if_then_else(row >= 0, X[row, j], T.cast(1, dtype))

    x = (np.arange(50 * 96) % 101).reshape(50, 96).astype(dtype)
    i = np.array([3, -1, 49, 0, -7, 12, 33, 8, -1, 2, 1, 0, 17, 49, -3, 5], index)
    agree(rows, x, i, np.zeros((16, 96), x.dtype))


@pytest.mark.share(6)
@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("columns", [50, 64, 7, 16, 3])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "float64"])
def test_lanes_execute_a_loop_together(dtype: str, columns: int, width: int) -> None:
    """Sums and running totals of columns, and the number of the first large element."""

    @T.prim_func
    def kernel(
        X: T.Tensor((40, columns), dtype), N: I32[40], S: T.Tensor((columns,), dtype),
        R: T.Tensor((40, columns), dtype), F: I32[columns],
    ):  # fmt: skip
        with T.Kernel(1, threads=32):
            for j in T.Parallel(columns):
                total = T.alloc_var(dtype)
                first = T.alloc_var("int32")
                total = 0
                first = 40
                for i in T.serial(40):
                    if N[i] > 0:
                        total = total + X[i, j]
                        if X[i, j] > 2 and first == 40:
                            first = i
                    R[i, j] = total
                S[j] = total
                F[j] = first

    rng = np.random.default_rng(columns)
    x = rng.integers(-3, 4, (40, columns)).astype(dtype)
    n = rng.integers(0, 2, 40).astype("int32")
    args = (np.zeros(columns, dtype), np.zeros_like(x), np.zeros(columns, "int32"))
    agree(kernel, x, n, *args, width=width)


@pytest.mark.share(4)
@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int16", "int8"])
@pytest.mark.parametrize("extent", [37, "n"])
def test_the_last_lanes_stay_within_the_row(extent: Any, dtype: str, width: int) -> None:
    """In place, where no iteration may run twice; with a strided and a shared element."""
    columns = T.dynamic("n") if extent == "n" else extent

    @T.prim_func
    def kernel(X: T.Tensor((5, columns), dtype), Z: T.Tensor((5, 74), dtype),
               Y: T.Tensor((5, columns), dtype)):  # fmt: skip
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(5, columns):
                Y[i, j] = Y[i, j] * 2 + X[i, j] + Z[i, 2 * j] - Z[i, 0]

    rng = np.random.default_rng(width)
    x, y = (rng.integers(-9, 9, (5, 37)).astype(dtype) for _ in range(2))
    z = rng.integers(-9, 9, (5, 74)).astype(dtype)
    assert "TL_STORE" in agree(kernel, x, z, y, width=width)


# Statements of a loop over j that read rows which the values of its lanes choose, and the rows.
CHOSEN = {
    "a name": "row = X[i, j] % 5; B[i, j] = A[row, j] ^ 3",
    "a tile": (
        "t[j] = X[i, j] % 5\n            for j in T.Parallel(COLUMNS): B[i, j] = A[t[j], j] ^ 3"
    ),
    "a tile that is written again": (
        "t[j] = X[i, j]\n"
        "            for j in T.Parallel(COLUMNS): t[j] = A[T.max(i, t[j]) % 5, j]\n"
        "            for j in T.Parallel(COLUMNS): B[i, j] = t[j] ^ 3"
    ),
    "a variable": "v = T.alloc_var('int32'); v = X[i, j] % 5; B[i, j] = A[v, j] ^ 3",
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("how", CHOSEN)
def test_each_lane_reads_the_row_of_its_value(how: str, width: int) -> None:
    source = (
        "@T.prim_func\ndef main(A: T.Tensor((5, COLUMNS), 'int32'), "
        "X: T.Tensor((ROWS, COLUMNS), 'int32'), B: T.Tensor((ROWS, COLUMNS), 'int32')):\n"
        "    with T.Kernel(1):\n        t = T.alloc_shared((COLUMNS,), 'int32')\n"
        "        for i in T.serial(ROWS):\n            for j in T.Parallel(COLUMNS):\n"
        f"                {CHOSEN[how].replace('; ', chr(10) + ' ' * 16)}\n"
    )
    func = executed(source, f"<rows of {how}>", ROWS=ROWS, COLUMNS=COLUMNS)["main"]
    a, x = numbers("int32", (5, COLUMNS)), RNG.integers(0, 9, (ROWS, COLUMNS)).astype(np.int32)
    assert "TL_STORE" in agree(func, a, x, np.zeros((ROWS, COLUMNS), np.int32), width=width)
