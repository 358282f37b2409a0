"""Lanes of 16-bit floats in pairs: the same results as lane by lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import GPUS, INTERPRETER, SM_90A, compiled, holds
from tensor_types import F16, F32, U32
from thread_races import simulate

import tilelang.language as T
from tilelang.compiler import lower
from tilelang.options import Options
from tilelang.target import Target, parse_target

TARGET = parse_target("cuda -arch=sm_80")


def run(kernel: Any, *arrays: Any, target: Target = TARGET) -> str:
    """Run the lowered kernel on the arrays; its text."""
    func = lower(kernel, target, Options())
    simulate(func.body, dict(zip(func.params, arrays, strict=True)))
    return func.script()


def test_sums_and_products_round_once_each() -> None:
    @T.prim_func
    def kernel(A: F16[512], B: F16[512], s: F16[1], C: F16[512]):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(512):
                C[i] = (A[i] + B[i]) * A[i] - s[0] * B[i]

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(512).astype(np.float16) for _ in range(2))
    s, c = np.array([0.3], np.float16), np.zeros(512, np.float16)
    text = run(kernel, a, b, s, c)
    assert all(f"half2_{op}" in text for op in ("add", "mul", "sub", "both", "load"))
    np.testing.assert_array_equal(c, (a + b) * a - s * b)


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("float16", "half2_round"),
        ("bfloat16", "half2_round_bf16"),
        ("float8_e4m3fn", "half2_quad_e4m3fn"),
        ("float8_e5m2", "half2_quad_e5m2"),
    ],
)
def test_float32_is_rounded_in_pairs_where_pairs_are_converted(kind: str, word: str) -> None:
    """The instruction for float16 is older than the others."""

    @T.prim_func
    def kernel(A: F32[256], C: T.Tensor((256,), kind)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(256):
                C[i] = A[i] * 3

    ml_dtypes = pytest.importorskip("ml_dtypes", reason="numpy has no narrow floats")
    dtype = np.float16 if kind == "float16" else getattr(ml_dtypes, kind)
    a = np.concatenate([np.linspace(-140, 140, 253), [-0.0, 1e-40, 0.01]]).astype(np.float32)
    for arch in ("sm_80", "sm_90"):
        c = np.zeros(
            256, np.float16 if kind == "float16" else f"uint{8 * np.dtype(dtype).itemsize}"
        )
        text = run(kernel, a, c, target=parse_target(f"cuda -arch={arch}"))
        assert (word in text) == (kind == "float16" or arch == "sm_90")
        np.testing.assert_array_equal(c.view(dtype), (a * np.float32(3)).astype(dtype))


@pytest.mark.parametrize(
    ("kind", "bits", "packing", "out"),
    [
        ("uint8", 4, "neighbours", "float16"),
        ("uint32", 4, "neighbours", "float16"),
        ("uint32", 4, "halves", "float16"),  # two numbers 16 bits apart
        ("int32", 4, "neighbours", "float16"),
        ("uint32", 2, "halves", "float16"),
        ("uint16", 8, "neighbours", "float16"),
        ("uint8", 4, "neighbours", "bfloat16"),
    ],
)
def test_integers_are_extracted_in_pairs(kind: str, bits: int, packing: str, out: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="numpy has no bfloat16")
    width = int("".join(filter(str.isdigit, kind)))
    per, count = width // bits, 512

    def place(j: Any) -> Any:
        """Where number j of an element is."""
        position = j % per
        if packing == "halves":
            position = position // 2 + position % 2 * (per // 2)
        return position * bits

    @T.prim_func
    def kernel(Q: T.Tensor((count // per,), kind), C: T.Tensor((count,), out)):
        with T.Kernel(1, threads=32):
            q = T.alloc_fragment((count // per,), kind)
            c = T.alloc_fragment((count,), out)
            T.copy(Q, q)
            for j in T.Parallel(count):
                number = (q[j // per] >> place(j)) & (2**bits - 1)
                c[j] = T.cast(number, out) - T.cast(2 ** (bits - 1), out)
            T.copy(c, C)

    rng = np.random.default_rng(bits)
    info = np.iinfo(kind)
    q = rng.integers(info.min, info.max, count // per, dtype=kind, endpoint=True)
    j = np.arange(count)
    numbers = (q.astype(np.int64)[j // per] >> place(j) & (2**bits - 1)) - 2 ** (bits - 1)
    wanted = numbers.astype(ml_dtypes.bfloat16 if out == "bfloat16" else np.float16)
    for arch in ("sm_80", "sm_90"):
        c = np.zeros(count, np.uint16 if out == "bfloat16" else np.float16)
        text = run(kernel, q, c, target=parse_target(f"cuda -arch={arch}"))
        assert ("half2_field" in text) == (out == "float16" or arch == "sm_90")
        assert "half2_sub" not in text  # part of the same instruction
        np.testing.assert_array_equal(c.view(wanted.dtype), wanted)


@pytest.mark.parametrize(
    ("narrow", "wide"), [("int32", "int32"), ("uint8", "int32"), ("uint8", "uint8")]
)
def test_a_bias_may_be_subtracted_from_integers(narrow: str, wide: str) -> None:
    """A difference without a sign wraps."""

    @T.prim_func
    def kernel(Q: U32[64], C: F16[512]):
        with T.Kernel(1, threads=32):
            q = T.alloc_fragment((64,), "uint32")
            T.copy(Q, q)
            for j in T.Parallel(512):
                number = T.cast((q[j // 8] >> (j % 8 * 4)) & 15, narrow)
                C[j] = T.cast(T.cast(number, wide) - T.cast(8, wide), "float16")

    q = np.random.default_rng(7).integers(0, 1 << 32, 64, dtype=np.uint32)
    c = np.zeros(512, np.float16)
    text = run(kernel, q, c)
    assert wide == "uint8" or "half2_field" in text
    numbers = (q[:, None] >> (np.arange(8, dtype=np.uint32) * 4) & 15).reshape(-1)
    np.testing.assert_array_equal(c, numbers.astype(wide) - np.dtype(wide).type(8))


def test_bits_across_bytes_are_cut_out_lane_by_lane() -> None:
    @T.prim_func
    def kernel(Q: U32[64], C: F16[64, 8]):
        with T.Kernel(1, threads=32):
            q = T.alloc_fragment((64,), "uint32")
            T.copy(Q, q)
            for i, j in T.Parallel(64, 8):
                C[i, j] = T.cast((q[i] >> (j * 3)) & 7, "float16")

    rng = np.random.default_rng(5)
    q = rng.integers(0, 1 << 32, 64, dtype=np.uint32)
    c = np.zeros((64, 8), np.float16)
    assert "half2_field" not in run(kernel, q, c)
    np.testing.assert_array_equal(c, q[:, None] >> (np.arange(8, dtype=np.uint32) * 3) & 7)


def test_a_loop_that_carries_values_stays_a_loop() -> None:
    @T.prim_func
    def kernel(A: F16[32, 8], C: F16[32, 8]):
        with T.Kernel(1, threads=32) as _:
            tx = T.get_thread_binding()
            x = T.alloc_local((8,), "float16")
            for v in T.unroll(8):
                x[v] = A[tx, v]
            for v in T.unroll(7):
                x[v + 1] = x[v + 1] + x[v]
            for v in T.unroll(8):
                C[tx, v] = x[v]

    rng = np.random.default_rng(6)
    a = rng.integers(-3, 4, (32, 8)).astype(np.float16)
    c = np.zeros_like(a)
    run(kernel, a, c)
    np.testing.assert_array_equal(c, np.cumsum(a, axis=1))


def extremes(kind: str, rows: int, length: int, op: str, form: str) -> Any:
    """The least or greatest of each row, or of sizes; a loop of the program or an operation."""
    choose = {"min": T.min, "max": T.max, "absmax": T.max}[op]
    size = T.abs if op == "absmax" else lambda value: value

    @T.prim_func
    def collected(A: T.Tensor((rows, length), kind), B: T.Tensor((rows,), kind)):
        with T.Kernel(1, threads=rows):
            a = T.alloc_fragment((rows, length), kind)
            T.annotate_layout({a: T.Fragment((rows, length), forward_fn=lambda i, j: (i, j))})
            best = T.alloc_fragment((rows,), kind)
            T.copy(A, a)
            if form == "operation":
                T.reduce(a, best, op, 1, True)
            else:
                for i in T.Parallel(rows):
                    best[i] = size(a[i, 0])
                for j in T.unroll(length):
                    for i in T.Parallel(rows):
                        pair = (size(a[i, j]), best[i])
                        best[i] = choose(*pair[:: 1 if form == "new first" else -1])
            T.copy(best, B)

    return collected


@pytest.mark.parametrize(
    ("kind", "length", "form", "op"),
    [
        ("float16", 8, "operation", "min"), ("float16", 8, "new first", "absmax"),
        ("bfloat16", 56, "old first", "max"), ("bfloat16", 56, "operation", "absmax"),
        ("bfloat16", 5, "new first", "min"), ("bfloat16", 5, "operation", "max"),
    ],
)  # fmt: skip
def test_extremes_are_collected_in_pairs(kind: str, length: int, form: str, op: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="numpy has no bfloat16")
    rng = np.random.default_rng(length)
    wide = rng.standard_normal((32, length)).astype(np.float32)
    wide[1, :4], wide[2], wide[3, 1] = [np.inf, -np.inf, 3e-7, -3e-7], -0.25, np.nan
    a = wide.astype(getattr(ml_dtypes, kind, None) or np.float16)
    func = extremes(kind, 32, length, op, form)
    reduced = np.fmin if op == "min" else np.fmax
    exact = (np.abs(a) if op == "absmax" else a).astype(np.float32)
    wanted = reduced.reduce(exact, axis=1).astype(a.dtype)
    holds(func, (a, np.zeros(32, a.dtype)), wanted, on=(INTERPRETER, *GPUS))
    lesser = "min" if op == "min" else "max"
    assert (f"tl_half2_{lesser}" in compiled(func, SM_90A).get_kernel_source()) == (length > 5)
    assert "tl_half2_m" not in compiled(func, "sm_80").get_kernel_source()


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_extremes_of_lanes_are_computed_in_pairs(kind: str) -> None:
    @T.prim_func
    def clipped(A: T.Tensor((256,), kind), B: T.Tensor((256,), kind), C: T.Tensor((256,), kind)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(256):
                C[i] = T.max(T.min(A[i] * B[i], T.cast(2, kind)), T.abs(B[i]))

    ml_dtypes = pytest.importorskip("ml_dtypes", reason="numpy has no bfloat16")
    rng = np.random.default_rng(4)
    dtype = getattr(ml_dtypes, kind, None) or np.float16
    a, b = (rng.standard_normal(256).astype(dtype) for _ in range(2))
    product = (a.astype(np.float32) * b.astype(np.float32)).astype(dtype)
    wanted = np.maximum(np.minimum(product, dtype(2)), np.abs(b))
    holds(clipped, (a, b, np.zeros(256, dtype)), wanted, on=(INTERPRETER, *GPUS))
    text = compiled(clipped, SM_90A).get_kernel_source()
    assert all(f"tl_half2_{op}" in text for op in ("min", "max", "mul"))


def wide_kernel(kind: str, form: str) -> tuple[Any, Any]:
    """A loop that reads 8-bit floats, and what it gives for their numbers ``x`` and factors ``s``."""
    out = "float16" if form == "rounded" else "float32"

    @T.prim_func
    def scaled(A: T.Tensor((1024,), kind), S: F32[1024], C: T.Tensor((1024,), out)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(1024):
                C[i] = T.cast(A[i], "float32") * S[i]

    @T.prim_func
    def collected(A: T.Tensor((1024,), kind), S: F32[1024], C: F32[64]):
        with T.Kernel(1, threads=64):
            a = T.alloc_fragment((64, 16), kind)
            total = T.alloc_fragment((64,), "float32")
            for i, j in T.Parallel(64, 16):
                a[i, j] = A[i * 16 + j]
            T.clear(total)
            for i in T.Parallel(64):
                for j in T.unroll(16):
                    x = T.alloc_var("float32")
                    x = T.cast(a[i, j], "float32")
                    total[i] += T.if_then_else(x > 0, x * S[i * 16 + j], x)
            T.copy(total, C)

    @T.prim_func
    def in_place(A: T.Tensor((1024,), kind), S: F32[1024], C: T.Tensor((1024,), kind)):
        with T.Kernel(1, threads=64):
            a = T.alloc_fragment((1024,), kind)
            T.copy(A, a)
            for i in T.Parallel(1024):
                a[i] = T.cast(a[i], "float32") * S[i]
            T.copy(a, C)

    def sums(x: Any, s: Any) -> Any:
        parts = np.where(x > 0, x * s, x).reshape(64, 16)
        return np.add.accumulate(parts, axis=1)[:, -1]  # one after the other

    if form == "collected":
        return collected, sums
    return in_place if form == "in place" else scaled, lambda x, s: (x * s).astype(out)


@pytest.mark.parametrize(
    ("kind", "form"),
    [
        ("float8_e4m3fn", "scaled"), ("float8_e5m2", "rounded"), ("float8_e5m2", "collected"),
        ("float8_e5m2", "in place"),
    ],
)  # fmt: skip
def test_8_bit_floats_are_widened_in_pairs(kind: str, form: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="numpy has no 8-bit floats")
    func, result = wide_kernel(kind, form)
    codes = np.random.default_rng(2).permutation(np.arange(1024) % 256).astype(np.uint8)
    if form in ("collected", "in place"):
        codes &= 0xBB  # no infinity, no NaN
    a = codes.view(getattr(ml_dtypes, kind))
    s = np.random.default_rng(3).standard_normal(1024).astype(np.float32)
    with np.errstate(all="ignore"):
        wanted = result(a.astype(np.float32), s)
    wanted = wanted.astype(a.dtype) if form == "in place" else wanted
    holds(func, (a, s, np.zeros_like(wanted)), wanted, on=(INTERPRETER, *GPUS))
    text = compiled(func, SM_90A).get_kernel_source()
    assert f"tl_half2_wide_{kind[7:]}(" in text
    assert f"tl_{kind[7:]}_to_f32" not in text
    assert "tl_half2_wide" not in compiled(func, "sm_80").get_kernel_source()
