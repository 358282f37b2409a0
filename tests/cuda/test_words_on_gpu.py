"""Kernels of plain thread code against the interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpus import METAL, Gpu
from tensor_types import BF16, F16, F32, F64, I8, I32, I64, U32

import tilelang
import tilelang.language as T
from tilelang.codegen.c import NARROW_FLOATS
from tilelang.errors import DeviceAssertError
from tilelang.ir.stmt import PrimFunc

torch = pytest.importorskip("torch", reason="the tensors are torch's")


def interpreted(func: PrimFunc, *args: Any) -> list[Any]:
    """The arguments after a call in the interpreter."""
    copies = [arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args]
    tilelang.compile(func, target="cpu", execution_backend="interpret")(*copies)
    return copies


def check(gpu: Gpu, func: PrimFunc, *args: Any, rtol: float = 0.0, atol: float = 0.0) -> None:
    """Both give the same arguments back."""
    for found, expected in zip(gpu.run(func, *args), interpreted(func, *args)):
        if isinstance(found, torch.Tensor):
            wide = torch.float64 if found.is_floating_point() else found.dtype
            torch.testing.assert_close(
                found.to(wide), expected.to(wide), rtol=rtol, atol=atol, equal_nan=True
            )


def values(count: int = 256) -> Any:
    rng = np.random.default_rng(3)
    data = rng.standard_normal(count) * np.exp2(rng.integers(-14, 14, count))
    data[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e30]
    return torch.tensor(data.astype(np.float32))


@pytest.mark.parametrize(
    "dtype", sorted({str(d) for d in NARROW_FLOATS} - {"float4_e2m1_unpacked", "float4_e2m1fn"})
)
def test_small_floats_round_and_compute(gpu: Gpu, dtype: str) -> None:
    @T.prim_func
    def rounds(A: F32[256], B: F32[256]):
        with T.Kernel(2, threads=128) as bx:
            i = bx * 128 + T.get_thread_binding()
            B[i] = T.cast(T.cast(A[i], dtype) + T.cast(A[255 - i], dtype), "float32")

    check(gpu, rounds, values(), torch.zeros(256))


def test_integers_wrap_divide_and_saturate(gpu: Gpu) -> None:
    @T.prim_func
    def integers(A: I32[256], F: F32[256], B: I32[8, 256], S: I8[2, 256]):
        with T.Kernel(2, threads=128) as bx:
            i = bx * 128 + T.get_thread_binding()
            B[0, i] = A[i] * A[255 - i] - 7
            B[1, i] = A[i] // 3
            B[2, i] = A[i] % 8
            B[3, i] = A[i] // A[255 - i]
            B[4, i] = T.cast(F[i], "int32")
            B[5, i] = T.popcount(A[i]) + T.clz(A[i])
            B[6, i] = T.max(A[i], T.abs(A[255 - i]))
            B[7, i] = T.reinterpret(F[i], "int32")
            S[0, i] = T.cast(F[i], "int8")
            S[1, i] = T.cast(A[i], "int8") * T.cast(3, "int8")

    data = torch.tensor(np.random.default_rng(4).integers(-(2**31), 2**31, 256), dtype=torch.int32)
    finite = torch.nan_to_num(values(), nan=0.0)
    check(gpu, integers, data, finite, torch.zeros((8, 256), dtype=torch.int32),
          torch.zeros((2, 256), dtype=torch.int8))  # fmt: skip


def test_functions_of_floats(gpu: Gpu) -> None:
    @T.prim_func
    def functions(A: F32[256], B: F32[11, 256]):
        with T.Kernel(2, threads=128) as bx:
            i = bx * 128 + T.get_thread_binding()
            x = T.clamp(A[i], -20.0, 20.0)
            B[0, i] = T.exp(x)
            B[1, i] = T.log(T.abs(x) + 0.5)
            B[2, i] = T.tanh(x)
            B[3, i] = T.erf(x)
            B[4, i] = T.sigmoid(x)
            B[5, i] = T.rsqrt(T.abs(x) + 0.5)
            B[6, i] = T.round(x * 4.0) + T.floor(x) + T.ceil(x) + T.trunc(x)
            B[7, i] = T.pow(T.abs(x), 1.5)
            B[8, i] = T.sin(x) + T.cos(x)
            B[9, i] = T.__exp(x * 0.25)
            B[10, i] = T.fast_rcp(T.abs(x) + 1.0)

    check(gpu, functions, torch.nan_to_num(values()), torch.zeros((11, 256)), rtol=3e-6, atol=2e-6)


def test_sums_rounded_up_and_quotients_rounded_to_zero(gpu: Gpu) -> None:
    @T.prim_func
    def rounds(A: F32[256], B: F32[256]):
        with T.Kernel(2, threads=128) as bx:
            i = bx * 128 + T.get_thread_binding()
            B[i] = T.ieee_add(A[i], 1.0e-8, "ru") + T.ieee_fdiv(A[i], 3.0, "rz")

    check(gpu, rounds, torch.nan_to_num(values()).clamp(-20, 20), torch.zeros(256), rtol=3e-6)


def test_exchange_inside_warps(gpu: Gpu) -> None:
    @T.prim_func
    def exchanges(A: F32[64], H: BF16[64], I: I32[64], B: F32[8, 64], C: I32[8, 64]):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            B[0, t] = T.shfl_xor(A[t], 5)
            B[1, t] = T.shfl_down(A[t], 3, width=16)
            B[2, t] = T.shfl_up(A[t], 2)
            B[3, t] = T.shfl_sync(A[t], 9, width=8)
            B[4, t] = T.warp_reduce_sum(A[t])
            B[5, t] = T.warp_reduce_max(A[t])
            B[6, t] = T.warp_reduce_sum(H[t])
            B[7, t] = T.warp_reduce_min(H[t])
            C[0, t] = T.warp_reduce_sum(I[t])
            C[1, t] = T.warp_reduce_bitor(I[t])
            C[2, t] = T.any_sync(I[t] > 90) + 2 * T.all_sync(I[t] > 1)
            C[3, t] = T.cast(T.ballot_sync(I[t] > 50), "int32")
            C[4, t] = T.cast(T.match_any_sync(I[t] % 4), "int32")
            C[5, t] = T.cast(T.match_all_sync(I[t]), "int32")
            C[6, t] = T.shfl_xor(I[t], 1)
            C[7, t] = T.warp_reduce_min(I[t])
            if T.shuffle_elect(32):
                C[7, t] = 7

    rng = np.random.default_rng(5)
    data = torch.tensor(rng.standard_normal(64).astype(np.float32))
    halves = torch.tensor(rng.standard_normal(64).astype(np.float32)).bfloat16()
    check(
        gpu, exchanges, data,
        halves.round() if gpu.name == METAL else halves,  # whose sums are rounded once
        torch.tensor(rng.integers(1, 100, 64), dtype=torch.int32), torch.zeros((8, 64)),
        torch.zeros((8, 64), dtype=torch.int32), rtol=1e-6, atol=1e-6,
    )  # fmt: skip


def test_votes_of_blocks(gpu: Gpu) -> None:
    @T.prim_func
    def votes(I: I32[64], C: I32[2, 64]):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            C[0, t] = T.syncthreads_count(I[t] > 50)
            C[1, t] = T.syncthreads_and(I[t] > 0) + 2 * T.syncthreads_or(I[t] > 99)

    data = torch.arange(1, 65, dtype=torch.int32)
    check(gpu, votes, data, torch.zeros((2, 64), dtype=torch.int32))


def test_atomics_of_64_bits(gpu: Gpu) -> None:
    @T.prim_func
    def atomics(L: I64[4], D: F64[4]):
        with T.Kernel(4, threads=64) as bx:
            t = bx * 64 + T.get_thread_binding()
            T.atomic_add(L[0], T.cast(t, "int64") << 33)
            T.atomic_max(L[1], T.cast(-t, "int64"))
            T.atomic_or(L[2], T.cast(1, "int64") << (t % 60), memory_order="acq_rel")
            T.atomic_add(D[0], 0.5)
            T.atomic_max(D[1], T.cast(t, "float64"))

    check(gpu, atomics, torch.tensor([0, -9, 0, 0]), torch.zeros(4, dtype=torch.float64))


def test_atomics_of_16_bits(gpu: Gpu) -> None:
    @T.prim_func
    def atomics(H: F16[16], B: BF16[16]):
        with T.Kernel(4, threads=64) as bx:
            t = bx * 64 + T.get_thread_binding()
            T.atomic_add(H[0], 1.0)
            T.atomic_max(H[1], T.cast(t % 100, "float16"))
            T.atomic_addx2(H[2], H[14])
            T.atomic_add(B[0], 1.0)
            T.atomic_addx2(B[2], B[14])

    ones = torch.ones(16)
    check(gpu, atomics, ones.half(), ones.bfloat16())


def test_atomics_of_many_blocks(gpu: Gpu) -> None:
    @T.prim_func
    def atomics(I: I32[16], F: F32[16]):
        with T.Kernel(4, threads=64) as bx:
            t = bx * 64 + T.get_thread_binding()
            T.atomic_add(I[0], t)
            T.atomic_max(I[1], t)
            T.atomic_min(I[2], -t)
            T.atomic_or(I[3], 1 << (t % 30))
            T.atomic_add(F[0], 0.25)
            T.atomic_max(F[1], T.cast(t, "float32") - 300.0)
            T.atomic_min(F[2], 3.0 - t)
            T.atomic_addx2(F[4], F[12])
            T.atomic_addx4(F[8], F[12])

    low = torch.tensor([0, -5, 5, 0] + [0] * 12, dtype=torch.int32)
    start = torch.tensor([0.0, -1000.0, 5.0] + [0.0] * 9 + [0.5] * 4)
    check(gpu, atomics, low, start)


def test_packed_neighbours_are_stored_together(gpu: Gpu) -> None:
    @T.prim_func
    def nibbles(A: I32[256], P: T.Tensor((256,), "int4"), B: I32[256]):
        with T.Kernel(1, threads=256):
            t = T.get_thread_binding()
            P[t] = T.cast(A[t], "int4")
            T.sync_threads()
            B[t] = P[t ^ 1]

    data = torch.arange(256, dtype=torch.int32) * 7 % 16 - 8
    check(
        gpu, nibbles, data, torch.zeros(128, dtype=torch.int8), torch.zeros(256, dtype=torch.int32)
    )


def test_random_numbers_are_the_same(gpu: Gpu) -> None:
    @T.prim_func
    def draws(B: F32[6, 128], C: U32[2, 128]):
        with T.Kernel(2, threads=64) as bx:
            i = bx * 64 + T.get_thread_binding()
            T.rng_init(1234, off=5)
            for k in T.serial(2):
                C[k, i] = T.rng_rand()
            for k in T.serial(3):
                B[k, i] = T.rng_rand_float()
            for k in T.serial(3):
                B[k + 3, i] = T.rng_rand_float(dist="normal")

    check(gpu, draws, torch.zeros((6, 128)), torch.zeros((2, 128), dtype=torch.uint32),
          rtol=1e-5, atol=1e-6)  # fmt: skip


def test_barriers_of_block_cluster_and_grid(gpu: Gpu) -> None:
    @T.prim_func
    def meets(A: I32[8, 128], B: I32[8, 128]):
        with T.Kernel(8, threads=128) as bx:
            t = T.get_thread_binding()
            tile = T.alloc_shared((128,), "int32")
            bar = T.alloc_barrier([64, 128])
            if t < 64:
                tile[t] = A[bx, t] * 2
                T.barrier_arrive(bar[0])
            else:
                T.barrier_wait(bar[0], 0)
                tile[t] = tile[t - 64] + 1
            T.barrier_arrive(bar[1])
            T.barrier_wait(bar[1], 0)
            if t < 64:
                T.sync_threads(1, 64)
                B[bx, t] = tile[t ^ 64]
            else:
                B[bx, t] = tile[127 - t]
            T.sync_grid()
            A[bx, t] = B[7 - bx, t]

    data = torch.arange(1024, dtype=torch.int32).reshape(8, 128)
    check(gpu, meets, data, torch.zeros_like(data))


def test_swizzled_blocks_cover_the_grid(gpu: Gpu) -> None:
    for order in ("row", "column"):

        @T.prim_func
        def covers(A: I32[7, 5]):
            with T.Kernel(5, 7, threads=1) as (bx, by):
                T.use_swizzle(3, order=order)
                A[by, bx] = A[by, bx] + by * 5 + bx

        check(gpu, covers, torch.zeros((7, 5), dtype=torch.int32))


@T.prim_func
def asserts(A: I32[4]):
    with T.Kernel(1, threads=1):
        T.device_assert(A[0] > 3, "A[0] is too small")


def test_a_failed_assertion_stops_with_its_message(gpu: Gpu) -> None:
    if gpu.emulated:
        with pytest.raises(DeviceAssertError, match=r"A\[0\] is too small"):
            gpu.run(asserts, torch.zeros(4, dtype=torch.int32))
        return
    folder = Path(__file__).parent
    script = (  # in a process of its own, whose GPU context is of no use afterwards
        f"import sys; sys.path[:0] = [{str(folder)!r}, {str(folder.parent)!r}]\n"
        "import torch, test_words_on_gpu as t; from gpus import DEVICE, Gpu\n"
        "Gpu(DEVICE, 'cuda').run(t.asserts, torch.zeros(4, dtype=torch.int32))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "A[0] is too small" in done.stdout + done.stderr
