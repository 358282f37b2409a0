"""Lanes of 16-bit floats in pairs: the same results as lane by lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import GPUS, INTERPRETER, SM_90A, compiled, holds
from tensor_types import BF16, F16, F32, U8, U32
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


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_bfloat16_is_computed_in_pairs_where_the_target_can(arch: str) -> None:
    @T.prim_func
    def kernel(Q: U8[256], S: BF16[512], C: BF16[512], F: F32[512]):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(512):
                four = T.cast((Q[i // 2] >> T.cast((i % 2) * 4, "uint8")) & 15, "bfloat16")
                C[i] = (four - T.cast(8, "bfloat16")) * S[i] + S[i] - four
            for i in T.Parallel(512):
                F[i] = T.cast(C[i], "float32")

    def rounded(x: Any) -> Any:
        return torch.from_numpy(x).bfloat16().float().numpy()

    torch = pytest.importorskip("torch", reason="numpy has no bfloat16")
    rng = np.random.default_rng(3)
    q = rng.integers(0, 256, 256, dtype=np.uint8)
    s, f = rounded(rng.standard_normal(512).astype(np.float32)), np.zeros(512, np.float32)
    bits = (s.view(np.uint32) >> 16).astype(np.uint16)
    target = parse_target(f"cuda -arch={arch}")
    text = run(kernel, q, bits, np.zeros(512, np.uint16), f, target=target)
    assert ("half2_field_bf16" in text) == ("half2_mul_bf16" in text) == (arch == "sm_90")
    four = np.stack((q & 15, q >> 4), -1).reshape(-1).astype(np.float32)
    np.testing.assert_array_equal(f, rounded(rounded(rounded((four - 8) * s) + s) - four))


def test_conversions_from_float32_are_packed() -> None:
    @T.prim_func
    def kernel(A: F32[256], C: F16[256]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(256):
                C[i] = T.exp2(A[i])

    a = np.linspace(-9, 9, 256, dtype=np.float32)
    c = np.zeros(256, np.float16)
    assert "half2_round" in run(kernel, a, c)
    np.testing.assert_allclose(c, np.exp2(a).astype(np.float16), rtol=1e-3)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_bfloat16_is_rounded_in_pairs_where_matrices_are_stored_so(arch: str) -> None:
    @T.prim_func
    def kernel(A: F32[256], C: BF16[256]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(256):
                C[i] = A[i] * 3

    a = np.concatenate([np.linspace(-9, 9, 252), [np.inf, -0.0, 1e-40, 3.4e38]]).astype(np.float32)
    c = np.zeros(256, np.uint16)
    text = run(kernel, a, c, target=parse_target(f"cuda -arch={arch}"))
    assert ("half2_round_bf16" in text) == (arch == "sm_90")
    with np.errstate(over="ignore"):
        wide = a * np.float32(3)
    bits = wide.view(np.uint32).astype(np.uint64)
    np.testing.assert_array_equal(c, (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


@pytest.mark.parametrize(("kind", "name"), [("float8_e4m3fn", "e4m3fn"), ("float8_e5m2", "e5m2")])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_8_bit_floats_are_rounded_in_fours_where_pairs_are_converted(
    arch: str, kind: str, name: str
) -> None:
    @T.prim_func
    def kernel(A: F32[256], C: T.Tensor((256,), kind)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(256):
                C[i] = A[i] * 3

    ml_dtypes = pytest.importorskip("ml_dtypes", reason="numpy has no 8-bit floats")
    a = np.concatenate([np.linspace(-140, 140, 253), [-0.0, 1e-40, 0.01]]).astype(np.float32)
    c = np.zeros(256, np.uint8)
    text = run(kernel, a, c, target=parse_target(f"cuda -arch={arch}"))
    assert (f"half2_quad_{name}" in text) == (arch == "sm_90")
    wanted = (a * np.float32(3)).astype(getattr(ml_dtypes, kind))
    np.testing.assert_array_equal(c, wanted.view(np.uint8))


@pytest.mark.parametrize(
    ("kind", "bits", "packing"),
    [
        ("uint8", 4, "neighbours"),
        ("uint32", 4, "neighbours"),
        ("uint32", 4, "halves"),  # two numbers 16 bits apart
        ("int32", 4, "neighbours"),
        ("uint8", 2, "neighbours"),
        ("uint32", 2, "halves"),
        ("uint8", 8, "neighbours"),
        ("uint16", 8, "neighbours"),
    ],
)
def test_integers_are_extracted_from_words(kind: str, bits: int, packing: str) -> None:
    width = int("".join(filter(str.isdigit, kind)))
    per, count = width // bits, 512

    def place(j: Any) -> Any:
        """Where number j of an element is."""
        position = j % per
        if packing == "halves":
            position = position // 2 + position % 2 * (per // 2)
        return position * bits

    @T.prim_func
    def kernel(Q: T.Tensor((count // per,), kind), C: F16[count]):
        with T.Kernel(1, threads=32):
            q = T.alloc_fragment((count // per,), kind)
            c = T.alloc_fragment((count,), "float16")
            T.copy(Q, q)
            for j in T.Parallel(count):
                c[j] = T.cast((q[j // per] >> place(j)) & (2**bits - 1), "float16") - T.cast(
                    2 ** (bits - 1), "float16"
                )
            T.copy(c, C)

    rng = np.random.default_rng(bits)
    info = np.iinfo(kind)
    q = rng.integers(info.min, info.max, count // per, dtype=kind, endpoint=True)
    c = np.zeros(count, np.float16)
    text = run(kernel, q, c)
    assert "half2_field" in text
    assert "half2_sub" not in text  # part of the same instruction
    j = np.arange(count)
    numbers = q.astype(np.int64)[j // per] >> place(j) & (2**bits - 1)
    np.testing.assert_array_equal(c, numbers - 2 ** (bits - 1))


@pytest.mark.parametrize("narrow", ["int32", "int8", "uint8"])
def test_a_bias_may_be_subtracted_from_integers(narrow: str) -> None:
    @T.prim_func
    def kernel(Q: U32[64], C: F16[512]):
        with T.Kernel(1, threads=32):
            q = T.alloc_fragment((64,), "uint32")
            T.copy(Q, q)
            for j in T.Parallel(512):
                number = T.cast((q[j // 8] >> (j % 8 * 4)) & 15, narrow)
                C[j] = T.cast(T.cast(number, "int32") - 8, "float16")

    q = np.random.default_rng(7).integers(0, 1 << 32, 64, dtype=np.uint32)
    c = np.zeros(512, np.float16)
    assert "half2_field" in run(kernel, q, c)
    numbers = (q[:, None] >> (np.arange(8, dtype=np.uint32) * 4) & 15).reshape(-1)
    np.testing.assert_array_equal(c, numbers.astype(np.int32) - 8)


def test_an_unsigned_difference_wraps_as_before() -> None:
    @T.prim_func
    def kernel(Q: U8[64], C: F16[128]):
        with T.Kernel(1, threads=32):
            for j in T.Parallel(128):
                number = T.cast((Q[j // 2] >> (j % 2 * 4)) & 15, "uint8")
                C[j] = T.cast(number - T.uint8(8), "float16")

    q = np.arange(64, dtype=np.uint8) * 3
    c = np.zeros(128, np.float16)
    run(kernel, q, c)
    numbers = np.stack([q & 15, q >> 4], -1).reshape(-1)
    np.testing.assert_array_equal(c, (numbers - np.uint8(8)).astype(np.float16))


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
                if op == "min":
                    T.reduce_min(a, best, dim=1)
                elif op == "max":
                    T.reduce_max(a, best, dim=1)
                else:
                    T.reduce_absmax(a, best, dim=1)
            else:
                for i in T.Parallel(rows):
                    best[i] = size(a[i, 0])
                for j in T.unroll(length):
                    for i in T.Parallel(rows):
                        if form == "new first":
                            best[i] = choose(size(a[i, j]), best[i])
                        else:
                            best[i] = choose(best[i], size(a[i, j]))
            T.copy(best, B)

    return collected


@pytest.mark.parametrize("op", ["min", "max", "absmax"])
@pytest.mark.parametrize("form", ["operation", "new first", "old first"])
@pytest.mark.parametrize(("kind", "length"), [("float16", 8), ("bfloat16", 56), ("bfloat16", 5)])
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
    text = compiled(func, SM_90A).get_kernel_source()
    assert (f"tl_half2_{lesser}" in text) == (length > 5)
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

    @T.prim_func
    def scaled(A: T.Tensor((1024,), kind), S: F32[1024], C: F32[1024]):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(1024):
                C[i] = T.cast(A[i], "float32") * S[i]

    @T.prim_func
    def rounded(A: T.Tensor((1024,), kind), S: F32[1024], C: F16[1024]):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(1024):
                C[i] = T.cast(A[i], "float32") * S[i]

    @T.prim_func
    def converted(A: T.Tensor((1024,), kind), S: F32[1024], C: F16[1024]):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(1024):
                C[i] = T.cast(A[i], "float16")

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

    def sums(x: Any, s: Any) -> Any:
        parts = np.where(x > 0, x * s, x).reshape(64, 16)
        total = np.zeros(64, np.float32)
        for k in range(16):
            total = total + parts[:, k]
        return total

    return {
        "scaled": (scaled, lambda x, s: x * s),
        "rounded": (rounded, lambda x, s: (x * s).astype(np.float16)),
        "converted": (converted, lambda x, s: x.astype(np.float16)),
        "collected": (collected, sums),
    }[form]


@pytest.mark.parametrize("form", ["scaled", "rounded", "converted", "collected"])
@pytest.mark.parametrize("kind", ["float8_e4m3fn", "float8_e5m2"])
def test_8_bit_floats_are_widened_in_pairs(kind: str, form: str) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="numpy has no 8-bit floats")
    func, result = wide_kernel(kind, form)
    codes = np.random.default_rng(2).permutation(np.arange(1024) % 256).astype(np.uint8)
    if form == "collected":
        codes &= 0xBB  # no infinity, no NaN
    a = codes.view(getattr(ml_dtypes, kind))
    s = np.random.default_rng(3).standard_normal(1024).astype(np.float32)
    with np.errstate(all="ignore"):
        wanted = result(a.astype(np.float32), s)
    holds(func, (a, s, np.zeros_like(wanted)), wanted, on=(INTERPRETER, *GPUS))
    text = compiled(func, SM_90A).get_kernel_source()
    assert f"tl_half2_wide_{kind[7:]}(" in text
    assert f"tl_{kind[7:]}_to_f32" not in text
    assert "tl_half2_wide" not in compiled(func, "sm_80").get_kernel_source()
