"""Loops whose lanes differ in a condition, own variables, work in place, or come in order: results,
and the widths of what they access."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from access_widths import has_widths, moves
from executors import INTERPRETER, SM_80, SM_90A, agrees, compiled, holds
from lane_programs import BF16, all_cases, masked, ordered, owned
from tensor_types import F32, I8

import tilelang.language as T

CASES = all_cases()
# Name of a tensor -> bytes of its moves in the text of a thread, 0 for single elements.
WIDTHS: dict[str, tuple[Any, dict[str, tuple[int, ...]]]] = {
    "causal": (lambda: masked("causal", 8, 256, np.float16), {"X": (16,), "Z": (16,), "Y": (16,)}),
    "band": (lambda: masked("band", 8, 256, np.float16), {"X": (16, 0), "Y": (16, 0, 0)}),
    "of_any_size": (lambda: masked("of_any_size", 8, 256, np.float16), {"X": (16, 0), "Y": (16, 0)}),
    "halves_in_place": (lambda: owned("halves_in_place", 8, 256, BF16), {"X": (16,), "Y": (16,) * 4}),
    "sum_is_kept": (lambda: owned("sum_is_kept", 8, 256, BF16), {"X": (16,), "Y": (16,) * 4}),
    "taps_in_turn": (lambda: owned("taps_in_turn", 8, 256, np.float16), {"X": (16,) * 4, "Y": (16,)}),
    "two_largest": (lambda: ordered("two_largest", 8, 256, BF16), {"X": (16,)}),
    "counts": (lambda: ordered("counts", 8, 256, np.float16), {"X": (16,)}),
    "halves_in_turn": (lambda: ordered("halves_in_turn", 8, 256, np.float16), {"X": (16,), "Y": (16, 16)}),
    "from_before": (lambda: ordered("from_before", 8, 256, np.float16), {"X": (0, 16), "Y": (0,) * 8}),
}  # fmt: skip


@pytest.mark.share(3)
@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_the_interpreter(name: str) -> None:
    make, args = CASES[name]
    agrees(*make(*args))


@pytest.mark.parametrize("name", WIDTHS)
def test_accesses_are_as_wide_as_lanes_allow(name: str) -> None:
    make, widths = WIDTHS[name]
    has_widths(make()[0], widths)


def test_a_loop_that_may_end_early_loads_what_it_did() -> None:
    text = compiled(ordered("until_some", 8, 256, np.float16)[0], SM_90A).get_kernel_source()
    assert moves(text, "X") == (0,)


@pytest.mark.parametrize("uses", [1, 2])
def test_names_of_much_leave_vectors(uses: int) -> None:
    """A chain of sums is written into its only use; a value of several uses has a slot per lane."""

    @T.prim_func
    def means(X: T.Tensor((16, 8, 64), "float16"), Y: T.Tensor((8, 64), "float16")):
        with T.Kernel(2, threads=64) as b:
            for i, j in T.Parallel(4, 64):
                total = T.cast(X[b * 8 + i, (b * 4 + i) % 8, j], "float32")
                total = total + X[b * 8 + i + 1, (b * 4 + i) % 8, j]
                total = total + X[b * 8 + i + 2, (b * 4 + i) % 8, j]
                total = total + X[b * 8 + i + 3, (b * 4 + i) % 8, j]
                Y[b * 4 + i, j] = total * 0.25 if uses == 1 else total * T.exp(total * 0.25)

    x = np.random.default_rng(5).standard_normal((16, 8, 64)).astype(np.float16)
    agrees(means, (x, np.zeros((8, 64), np.float16)))
    text = compiled(means, SM_90A).get_kernel_source()
    assert (moves(text, "X"), moves(text, "Y")) == ((8,) * 4, (8,))
    assert ("float total" in text) == (uses == 2)


@pytest.mark.parametrize("kind", ["quotient", "function"])
def test_what_takes_long_is_computed_once_a_lane(kind: str) -> None:
    @T.prim_func
    def codes(X: F32[512], M: F32[8], Y: I8[512]):
        with T.Kernel(1, threads=128):
            m = T.alloc_shared((8,), "float32")
            T.copy(M, m)
            for i in T.Parallel(512):
                v = X[i] / m[7] if kind == "quotient" else T.floor(T.sqrt(X[i]))
                c = T.alloc_var("int32")
                c = 0
                for k in T.unroll(7):
                    c += T.if_then_else(v > m[k], 1, 0)
                if v > 2.0:
                    c += 100
                Y[i] = T.cast(c, "int8")

    x, m = np.arange(512, dtype=np.float32) / 64, np.arange(8, dtype=np.float32) / 4 + 0.25
    agrees(codes, (x, m, np.zeros(512, np.int8)))
    text = compiled(codes, SM_90A).get_kernel_source().split("__launch_bounds__")[1]
    assert text.count("tl_sqrt") <= 1 and text.count(" / ") <= 3
    assert moves(text, "Y") == (4,)


def test_numbers_of_a_lane_are_drawn_together() -> None:
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=16):
            T.rng_init(3)
            for i in T.Parallel(64):
                first = T.rng_rand_float()
                scaled = X[i] * first
                second = T.rng_rand_float()
                Y[i] = scaled + second

    @T.prim_func
    def one_by_one(X: T.Tensor((64,), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=16):
            t = T.get_thread_binding()
            T.rng_init(3)
            for v in T.serial(4):
                first = T.rng_rand_float()
                Y[t * 4 + v] = X[t * 4 + v] * first
                Y[t * 4 + v] += T.rng_rand_float()

    x = np.arange(64, dtype=np.float32)
    wanted = np.zeros_like(x)
    compiled(one_by_one, INTERPRETER)(x, wanted)
    holds(main, (x, np.zeros_like(x)), wanted, on=(SM_80, SM_90A))
    assert moves(compiled(main, SM_90A).get_kernel_source(), "X") == (16,)


def test_numbers_that_a_loop_in_a_lane_draws_stay_in_order() -> None:
    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((4, 64), "float32")):
        with T.Kernel(1, threads=16):
            T.rng_init(3)
            for i in T.Parallel(64):
                for k in T.serial(4):
                    Y[k, i] = X[i] + T.rng_rand_float()

    assert moves(compiled(main, SM_90A).get_kernel_source(), "Y") == (0,)
