"""CUDA's functions of warps and bits by name, on every executor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler

FULL = 0xFFFFFFFF
LANES = np.arange(32)
X = (LANES * 0x9E3779B1 % 2**32).astype(np.uint32)
WIDE = X.astype(np.uint64) << np.uint64(32) | X[::-1]
COUNTS = (LANES * 3 % 40).astype(np.uint32)
BITS = [int(f"{int(x):032b}"[::-1], 2) for x in X]
CASES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "__match_any_sync": (("mask", "few"), [sum(1 << j for j in LANES if j % 4 == i % 4) for i in LANES]),
    "__ballot_sync": (("mask", "few"), [sum(1 << j for j in LANES if j % 4)] * 32),
    "__any_sync": (("mask", "few"), [1] * 32),
    "__all_sync": (("mask", "few"), [0] * 32),
    "__shfl_sync": (("mask", "x", 5), [X[5]] * 32),
    "__shfl_xor_sync": (("mask", "x", 3), X[LANES ^ 3]),
    "__shfl_up_sync": (("mask", "x", 2), np.where(LANES < 2, X, np.roll(X, 2))),
    "__shfl_down_sync": (("mask", "x", 2), np.where(LANES > 29, X, np.roll(X, -2))),
    "__brev": (("x",), BITS),
    "__funnelshift_r": (("back", "x", "count"), WIDE >> (COUNTS & np.uint32(31)).astype(np.uint64)),
    "__funnelshift_rc": (("back", "x", "count"), WIDE >> np.minimum(COUNTS, 32).astype(np.uint64)),
    "__funnelshift_l": (
        ("back", "x", "count"), (WIDE << (COUNTS & np.uint32(31)).astype(np.uint64)) >> np.uint64(32),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_function_of_cuda_by_its_name(name: str) -> None:
    if find_compiler() is None:
        pytest.skip("needs a C compiler")
    wanted, (operands, values) = np.array(CASES[name][1], np.uint64).astype(np.uint32), CASES[name]

    @T.prim_func
    def main(
        A: T.Tensor((32,), "uint32"), N: T.Tensor((32,), "uint32"), B: T.Tensor((32,), "uint32")
    ):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            known = {"mask": FULL, "x": A[t], "few": t % 4, "back": A[31 - t], "count": N[t]}
            B[t] = T.call_extern("uint32", name, *[known.get(one, one) for one in operands])

    for options in (
        {"target": "cpu", "execution_backend": "interpret"}, {"target": "cpu"},
        {"target": "cuda -arch=sm_80", "execution_backend": "emulator"},
    ):  # fmt: skip
        out = np.zeros(32, np.uint32)
        tilelang.compile(main, **options)(X, COUNTS, out)  # type: ignore[call-overload]  # options by name
        np.testing.assert_array_equal(out, wanted)
