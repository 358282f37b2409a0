"""CUDA's functions of warps and bits by name, on every executor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import CPU, INTERPRETER, OPTIONS, SM_80
from tensor_types import I32, U32

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.errors import TileUnsupportedError

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")

FULL = 0xFFFFFFFF
LANES = np.arange(32)
X = (LANES * 0x9E3779B1 % 2**32).astype(np.uint32)
WIDE = X.astype(np.uint64) << np.uint64(32) | X[::-1]
COUNTS = (LANES * 3 % 40).astype(np.uint32)
BITS = [int(f"{int(x):032b}"[::-1], 2) for x in X]
PAIRS = X.astype(np.uint64) | X[::-1].astype(np.uint64) << np.uint64(32)
REDUCED = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def low(x: Any) -> int:
    """The lower 24 bits, with a sign."""
    return (int(x) + 2**23) % 2**24 - 2**23


CASES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "__match_any_sync": (("mask", "few"), [sum(1 << j for j in LANES if j % 4 == i % 4) for i in LANES]),
    "__ballot_sync": (("mask", "few"), [sum(1 << j for j in LANES if j % 4)] * 32),
    "__any_sync": (("mask", "few"), [1] * 32),
    "__all_sync": (("mask", "few"), [0] * 32),
    "__shfl_sync": (("mask", "x", 5), [X[5]] * 32),
    "__shfl_xor_sync": (("mask", "x", 3), X[LANES ^ 3]),
    "__shfl_up_sync": (("mask", "x", 2), np.where(LANES < 2, X, np.roll(X, 2))),
    "__shfl_down_sync": (("mask", "x", 2), np.where(LANES > 29, X, np.roll(X, -2))),
    "__shfl_down_sync of 8": (("mask", "x", 2, 8), np.where(LANES % 8 > 5, X, np.roll(X, -2))),
    **{
        f"__reduce_{op}_sync": (("mask", "x"), [function.reduce(X)] * 32)
        for op, function in REDUCED.items()
    },
    **{
        f"__reduce_{op}_sync of a quarter": (
            ("quarter", "x"), [function.reduce(X[LANES % 4 == i % 4]) for i in LANES],
        )
        for op, function in REDUCED.items()
    },
    "__byte_perm": (
        ("x", "back", "count"),
        [sum((int(PAIRS[i]) >> 8 * (int(COUNTS[i]) >> 4 * k & 7) & 255) << 8 * k for k in range(4)) for i in LANES],
    ),
    "__mul24": (
        ("x", "back"), [low(X[i]) * low(X[31 - i]) % 2**32 for i in LANES],
    ),
    "__umul24": (
        ("x", "back"), [int(X[i]) % 2**24 * (int(X[31 - i]) % 2**24) % 2**32 for i in LANES],
    ),
    "__umulhi": (("x", "back"), [int(X[i]) * int(X[31 - i]) >> 32 for i in LANES]),
    "__brev": (("x",), BITS),
    "__funnelshift_r": (("back", "x", "count"), WIDE >> (COUNTS & np.uint32(31)).astype(np.uint64)),
    "__funnelshift_rc": (("back", "x", "count"), WIDE >> np.minimum(COUNTS, 32).astype(np.uint64)),
    "__funnelshift_l": (
        ("back", "x", "count"), (WIDE << (COUNTS & np.uint32(31)).astype(np.uint64)) >> np.uint64(32),
    ),
}  # fmt: skip


def test_functions_of_cuda_by_their_names() -> None:
    @T.prim_func
    def main(A: U32[32], N: U32[32], B: U32[len(CASES), 32]):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            quarter = T.uint32(0x11111111) << T.cast(t % 4, "uint32")
            T.call_extern("handle", "__syncwarp")
            T.call_extern("void", "__syncwarp", FULL)
            known = {
                "mask": FULL, "quarter": quarter, "x": A[t], "few": t % 4, "back": A[31 - t],
                "count": N[t],
            }  # fmt: skip
            for row, (name, (operands, _)) in enumerate(CASES.items()):
                given = [known.get(one, one) for one in operands]
                B[row, t] = T.call_extern("uint32", name.split(" ")[0], *given)

    for how in (INTERPRETER, CPU, SM_80):
        out = np.zeros((len(CASES), 32), np.uint32)
        tilelang.compile(main, **OPTIONS[how])(X, COUNTS, out)
        for name, found, (_, wanted) in zip(CASES, out, CASES.values(), strict=True):
            np.testing.assert_array_equal(found, np.array(wanted, np.uint64).astype("u4"), name)


def test_an_unknown_function_that_may_write_to_a_thread_is_refused_by_name() -> None:
    @T.prim_func
    def main(B: U32[32]):
        with T.Kernel(1, threads=32):
            same = T.alloc_local((1,), "int32")
            B[T.get_thread_binding()] = T.call_extern(
                "uint32", "foreign", FULL, 1, T.address_of(same[0])
            )

    with pytest.raises(TileUnsupportedError) as caught:
        tilelang.compile(main, target="cpu")
    assert str(caught.value).startswith(
        "T.call_extern(...) is not available on the CPU: the function 'foreign' is not known\n"
    )


@pytest.mark.parametrize("value", [0, 1])
def test_a_function_that_stores_its_second_result(value: int) -> None:
    @T.prim_func
    def main(A: I32[32], B: U32[2, 32]):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            same = T.alloc_local((1,), "int32")
            B[0, t] = T.call_extern("uint32", "__match_all_sync", FULL, A[t], T.address_of(same[0]))
            B[1, t] = same[0]

    given = np.zeros(32, np.int32)
    given[7] = value
    for how in (INTERPRETER, CPU, SM_80):
        out = np.full((2, 32), 9, np.uint32)
        tilelang.compile(main, **OPTIONS[how])(given, out)
        assert out.tolist() == ([[FULL] * 32, [1] * 32] if value == 0 else [[0] * 32] * 2)
