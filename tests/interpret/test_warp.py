"""Exchange between the lanes of a warp and between all threads of a block."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_builder import Kernel, at, call, region, zeros

from tilelang.ir.expr import Lane, RegionArg, as_expr, const

INT = np.int32
LANE = np.arange(64) % 32
WARP = np.arange(64) - LANE


def per_thread(build: Any, dtype: str = "int32", guard: int = 64) -> np.ndarray[Any, Any]:
    """What each of 64 threads computes; only the first ``guard`` execute it."""
    with Kernel(threads=64) as k:
        out = k.tensor("O", (64,), dtype)
        with k.when(k.tx < guard):
            x = k.let(build(k.tx))
            out[k.tx] = x
    o = np.zeros(64, dtype)
    k.run(o)
    return o


def test_warp_reduction_counts_executing_lanes_only() -> None:
    o = per_thread(lambda t: call("warp_reduce_sum", t * 0 + 1, dtype="int32"), guard=40)
    assert o.tolist() == [32] * 32 + [8] * 8 + [0] * 24


def test_votes_and_masks() -> None:
    odd = 0xAAAAAAAA
    o = per_thread(lambda t: call("ballot_sync", t % 2, dtype="uint32"), "uint32")
    assert set(o) == {odd}
    o = per_thread(lambda t: call("any_sync", t.equal(40), dtype="int32"))
    assert o.tolist() == [0] * 32 + [1] * 32
    o = per_thread(lambda t: call("all_sync", t < 40, dtype="int32"))
    assert o.tolist() == [1] * 32 + [0] * 32
    o = per_thread(lambda t: call("activemask", dtype="uint32"), "uint32", guard=36)
    assert o[0] == 0xFFFFFFFF and o[35] == 0xF and o[36] == 0
    o = per_thread(lambda t: call("match_any_sync", t % 2, dtype="uint32"), "uint32")
    assert o[:2].tolist() == [0x55555555, odd]
    o = per_thread(lambda t: call("match_all_sync", t // 48, dtype="uint32"), "uint32")
    assert o[0] == 0xFFFFFFFF and o[63] == 0


def test_block_votes_and_election() -> None:
    o = per_thread(lambda t: call("syncthreads_count", t < 7, dtype="int32"))
    assert set(o) == {7}
    o = per_thread(lambda t: call("syncthreads_and", t < 7, dtype="int32"))
    assert set(o) == {0}
    o = per_thread(lambda t: call("shuffle_elect", 32, dtype="bool").astype("int32"))
    assert np.flatnonzero(o).tolist() == [0, 32]


def test_thread_allreduce_combines_the_block() -> None:
    o = per_thread(
        lambda t: call("thread_allreduce", t.astype("float32"), t < 10, dtype="float32", op="max"),
        "float32",
    )
    assert set(o) == {9.0}


def test_dp4a_adds_a_dot_product_per_thread() -> None:
    with Kernel(threads=8) as k:
        a, b = k.tensor("A", (8, 4), "int8"), k.tensor("B", (8, 4), "int8")
        c = k.tensor("C", (8,), "int32")
        k.do("dp4a", at(a, k.tx, 0), at(b, k.tx, 0), at(c, k.tx))
    rng = np.random.default_rng(0)
    a_, b_ = (rng.integers(-128, 128, (8, 4)).astype(np.int8) for _ in range(2))
    c_ = np.arange(8, dtype=INT)
    k.run(a_, b_, c_)
    assert (c_ == np.arange(8) + (a_.astype(INT) * b_).sum(1)).all()


def test_any_of_and_all_of() -> None:

    with Kernel(threads=4) as k:
        a, out = k.tensor("A", (4, 6), "int32"), k.tensor("O", (4, 2), "int32")
        row = RegionArg(region(a, (k.tx, 1), (1, 4)))
        out[k.tx, 0] = call("any_of", row, dtype="bool").astype("int32")
        out[k.tx, 1] = call("all_of", row, dtype="bool").astype("int32")
    a_ = np.array([[1, 0, 0, 0, 0, 1], [0, 0, 2, 0, 0, 0], [0, 1, 1, 1, 1, 0], [1, 1, 1, 1, 0, 1]])
    o = zeros(4, 2, dtype=INT)
    k.run(a_.astype(INT), o)
    assert o.tolist() == [[0, 0], [1, 0], [1, 1], [1, 0]]


@pytest.mark.parametrize("op", ["max", "min", "or", "and", "xor", "exch"])
def test_atomic_operations(op: str) -> None:
    with Kernel(threads=8) as k:
        out = k.tensor("O", (1,), "int32")
        k.do(f"atomic_{op}", at(out, 0), k.tx + 3)
    o = np.array([5], INT)
    k.run(o)
    values = np.arange(3, 11)
    want = {
        "max": 10,
        "min": 3,
        "or": np.bitwise_or.reduce(values) | 5,
        "and": np.bitwise_and.reduce(values) & 5,
        "xor": np.bitwise_xor.reduce(values) ^ 5,
        "exch": o[0] if o[0] in values else None,  # that of the lane that comes last
    }[op]
    assert o[0] == want


def test_votes_look_at_the_lanes_of_the_mask() -> None:

    mask = as_expr(0xF, "uint32")
    o = per_thread(lambda t: call("ballot_sync", t >= 2, mask, dtype="uint32"), "uint32")
    assert o[0] == 0b1100 and o[63] == 0b1111


def test_vector_loads_by_address() -> None:
    with Kernel(threads=8) as k:
        a, out = k.tensor("A", (8, 4), "float16"), k.tensor("O", (8,), "uint32")
        four = call("ldg", at(a, k.tx, 0), dtype="float16x4")
        words = k.let(call("reinterpret", four, dtype="uint32x2"))

        out[k.tx] = Lane(words, const(1))
    a_, o = np.arange(32, dtype=np.float16).reshape(8, 4), zeros(8, dtype=np.uint32)
    k.run(a_, o)
    assert (o == a_.view(np.uint32)[:, 1]).all()
