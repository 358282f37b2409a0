"""Kernels of plain thread code against the interpreter."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpus import METAL, Gpu
from tensor_types import BF16, F32, I32, U32

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
        "import torch, test_instructions_on_gpu as t; from gpus import DEVICE, Gpu\n"
        "Gpu(DEVICE, 'cuda').run(t.asserts, torch.zeros(4, dtype=torch.int32))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert "A[0] is too small" in done.stdout + done.stderr
