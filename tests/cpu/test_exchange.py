"""What threads tell each other through their warp or block, on the CPU as on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler

from .modes import CORES, EVERYWHERE, MODES, holds

COUNT = 96
LANES = np.arange(COUNT)
NUMBERS = (LANES * 37 % 23 - 5).astype(np.int32)
WARPS = NUMBERS.reshape(-1, 32)
NOTHING = np.zeros(COUNT, np.int32)


def _per_warp(values: Any) -> np.ndarray:
    return np.repeat(np.asarray(values), 32)


def _bits(flags: np.ndarray) -> np.ndarray:
    """The masks of the warps, as int64."""
    return _per_warp([sum(1 << i for i, flag in enumerate(row) if flag) for row in flags])


def _same(rows: np.ndarray) -> np.ndarray:
    return np.array([sum(1 << j for j in range(32) if row[j] == x) for row in rows for x in row])


CASES: dict[str, tuple[Callable[..., Any], Any]] = {
    "xor": (lambda v, tx: T.shfl_xor(v, 5), NUMBERS[LANES ^ 5]),
    "up": (lambda v, tx: T.shfl_up(v, 3), np.where(LANES % 32 < 3, NUMBERS, np.roll(NUMBERS, 3))),
    "down": (
        lambda v, tx: T.shfl_down(v, 7, 16),
        np.where(LANES % 16 >= 9, NUMBERS, np.roll(NUMBERS, -7)),
    ),
    "sync": (
        lambda v, tx: T.shfl_sync(v, (tx * 3) % 32),
        NUMBERS[LANES // 32 * 32 + LANES * 3 % 32],
    ),
    "sync of 8": (lambda v, tx: T.shfl_sync(v, 10, width=8), NUMBERS[LANES // 8 * 8 + 2]),
    "warp sum": (lambda v, tx: T.warp_reduce_sum(v), _per_warp(WARPS.sum(1))),
    "warp max": (lambda v, tx: T.warp_reduce_max(v), _per_warp(WARPS.max(1))),
    "warp min": (lambda v, tx: T.warp_reduce_min(v), _per_warp(WARPS.min(1))),
    "warp and": (
        lambda v, tx: T.warp_reduce_bitand(v),
        _per_warp(np.bitwise_and.reduce(WARPS, axis=1)),
    ),
    "warp or": (
        lambda v, tx: T.warp_reduce_bitor(v),
        _per_warp(np.bitwise_or.reduce(WARPS, axis=1)),
    ),
    "any": (lambda v, tx: T.any_sync(v == 17), _per_warp((WARPS == 17).any(1))),
    "all": (lambda v, tx: T.all_sync(v > -5), _per_warp((WARPS > -5).all(1))),
    "ballot": (lambda v, tx: T.ballot_sync(v > 3), _bits(WARPS > 3)),
    "long ballot": (lambda v, tx: T.ballot(v > 3), _bits(WARPS > 3)),
    "active": (lambda v, tx: T.activemask(), np.full(COUNT, 2**32 - 1)),
    "match any": (lambda v, tx: T.match_any_sync(v % 4), _same(WARPS % 4)),
    "match all": (
        lambda v, tx: T.match_all_sync(v // 100),
        _per_warp([(2**32 - 1) * (len(set(row)) == 1) for row in WARPS // 100]),
    ),
    "block count": (lambda v, tx: T.syncthreads_count(v > 3), np.full(COUNT, (NUMBERS > 3).sum())),
    "block and": (lambda v, tx: T.syncthreads_and(v > -9), np.full(COUNT, 1)),
    "block or": (lambda v, tx: T.syncthreads_or(v > 99), np.full(COUNT, 0)),
    "elect": (lambda v, tx: T.shuffle_elect(32), LANES % 32 == 0),
    "elect of the block": (lambda v, tx: T.shuffle_elect(0), LANES == 0),
    "nested": (
        lambda v, tx: T.shfl_xor(T.shfl_xor(v, 1) + T.warp_reduce_max(v), 2),
        NUMBERS[LANES ^ 3] + _per_warp(WARPS.max(1)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_exchange_within_warps_and_blocks(name: str) -> None:
    exchange, wanted = CASES[name]

    @T.prim_func
    def kernel(A: T.Tensor((COUNT,), "int32"), B: T.Tensor((COUNT,), "int64")):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            v = A[tx]
            B[tx] = T.cast(exchange(v, tx), "int64")

    # Which lanes of a warp are active at a time is not defined on a GPU.
    modes = CORES if name == "active" else EVERYWHERE
    nothing = NOTHING.astype(np.int64)
    holds(kernel, [NUMBERS, nothing], [np.asarray(wanted).astype(np.int64)], modes)


@pytest.mark.parametrize("threads", [COUNT, 40])
def test_exchanged_values_may_be_uniform(threads: int) -> None:
    words = [name for name in CASES if not name.startswith(("elect", "sync", "down"))]

    @T.macro
    def tell(word, v, B):
        told = T.cast(CASES[word][0](v, 0), "int64")
        B[words.index(word), 0] = told
        if told > 5:
            B[words.index(word), 1] = told + 1

    @T.prim_func
    def kernel(A: T.Tensor((1,), "int32"), B: T.Tensor((len(words), 2), "int64")):
        with T.Kernel(1, threads=threads):
            v = A[0]
            [tell(word, v, B) for word in words]

    given = [np.array([17], np.int32), np.zeros((len(words), 2), np.int64)]
    told = {word: 17 for word in words}
    last = 2 ** ((threads - 1) % 32 + 1) - 1  # who is in the last warp, which stores last
    told |= dict.fromkeys(("ballot", "long ballot", "active", "match any", "match all"), last)
    told |= {"warp sum": 17 * ((threads - 1) % 32 + 1), "nested": 34, "any": 1, "all": 1}
    told |= {"block count": threads, "block and": 1, "block or": 0}
    wanted = [[told[word], told[word] + 1 if told[word] > 5 else 0] for word in words]
    holds(kernel, given, [np.array(wanted, np.int64)], CORES)


def test_a_part_of_a_warp_exchanges() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((40,), "int32"), B: T.Tensor((40, 4), "int64")):
        with T.Kernel(1, threads=40):
            tx = T.get_thread_binding()
            if A[tx] % 2 == 0:
                B[tx, 0] = T.cast(T.activemask(), "int64")
                B[tx, 1] = T.cast(T.warp_reduce_sum(A[tx]), "int64")
                B[tx, 2] = T.cast(T.any_sync(A[tx] > 60), "int64")
            B[tx, 3] = T.cast(T.ballot_sync(A[tx] > 20, 0xFF00FF), "int64")

    numbers = (np.arange(40) * 7 % 41).astype(np.int32)
    wanted = np.zeros((40, 4), np.int64)
    for warp in (range(32), range(32, 40)):
        even = [t for t in warp if numbers[t] % 2 == 0]
        for t in even:
            wanted[t, 0] = sum(1 << (i % 32) for i in even)
            wanted[t, 1] = sum(numbers[even])
            wanted[t, 2] = any(numbers[even] > 60)
        named = [t for t in warp if 0xFF00FF >> t % 32 & 1]
        for t in warp:
            wanted[t, 3] = sum(1 << (i % 32) for i in named if numbers[i] > 20)
    holds(kernel, [numbers, np.zeros((40, 4), np.int64)], [wanted], CORES)


def test_loops_of_shuffles_and_votes() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((COUNT,), "float32"), B: T.Tensor((COUNT,), "float32")):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            v = T.alloc_var("float32")
            v = A[tx]
            step = T.alloc_var("int32", 16)
            while step > 0:
                v = v + T.shfl_xor(v, step)
                step = step // 2
            n = T.alloc_var("int32")
            n = tx % 32
            while T.any_sync(n > 0):
                n = n - 1
                v = v + 1
            B[tx] = v + T.cast(n, "float32")

    numbers = NUMBERS.astype(np.float32)
    sums = _per_warp(numbers.reshape(-1, 32).sum(1))
    wanted = (sums + 31 + LANES % 32 - 31).astype(np.float32)
    holds(kernel, [numbers, 0 * numbers], [wanted])


def test_sums_of_the_block_along_an_axis_of_its_threads() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((3, 10), "float32"), B: T.Tensor((2, 3, 10), "float32")):
        with T.Kernel(1, threads=(10, 3)):
            x, y = T.get_thread_binding(0), T.get_thread_binding(1)
            v = A[y, x]
            B[0, y, x] = T.shfl_down(v, 1)
            B[1, y, x] = T.warp_reduce_max(v) + T.cast(T.syncthreads_count(v > 4), "float32")

    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 9, (3, 10)).astype(np.float32)
    flat = numbers.ravel()
    wanted = np.zeros((2, 3, 10), np.float32)
    wanted[0] = np.append(flat[1:], 0).reshape(3, 10)
    wanted[1] = flat.max() + (flat > 4).sum()
    holds(kernel, [numbers, np.zeros((2, 3, 10), np.float32)], [wanted], CORES)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "uint8"])
def test_sums_of_other_dtypes_are_those_of_the_interpreter_bit_for_bit(dtype: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((COUNT,), dtype), B: T.Tensor((COUNT,), dtype)):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            B[tx] = T.warp_reduce_sum(A[tx]) + T.shfl_xor(A[tx], 1)

    if find_compiler() is None:
        pytest.skip("needs a C compiler")
    rng = np.random.default_rng(0)
    bits = {"float16": np.uint16, "bfloat16": np.uint16, "float64": np.uint64, "uint8": np.uint8}
    numbers = rng.normal(size=COUNT)
    given = {
        "float16": numbers.astype(np.float16),
        "bfloat16": (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16),
        "float64": numbers,
        "uint8": (numbers * 40).astype(np.int8).view(np.uint8),
    }[dtype]
    found = []
    for mode in CORES:
        got = np.zeros(COUNT, given.dtype)
        tilelang.compile(kernel, **MODES[mode])(given, got)  # type: ignore[call-overload]  # options by name
        found.append(got.view(bits[dtype]))
    assert found[0].any()
    np.testing.assert_array_equal(*found)
