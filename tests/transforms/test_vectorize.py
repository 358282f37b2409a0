"""Lane loops as vector accesses, before and after."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from executors import SM_90A, holds
from tensor_types import F16, F32, I32, U32

import tilelang
import tilelang.language as T

SM_80 = "cuda -arch=sm_80"


def body(func: Any, target: str = SM_80) -> str:
    """The lines of the kernel, without comments and indentation."""
    source = tilelang.lower(func, target=target).source
    lines = (line.strip() for line in source[source.index("{") + 1 :].splitlines())
    return "\n".join(line for line in lines if not line.startswith("//"))


def drawing(count: int, twice: bool = False) -> Any:
    @T.prim_func
    def main(A: F32[512], B: F32[512]):
        with T.Kernel(1, threads=128):
            T.rng_init(7)
            for i in T.Parallel(512):
                number = T.rng_rand_float()
                if i < count:
                    B[i] = A[i] * number + (T.rng_rand_float() if twice else T.float32(1))

    return main


def test_numbers_are_drawn_before_the_vectors_that_use_them() -> None:
    found = body(drawing(508))
    draw, load = found.index("tl_rng_uniform_f32"), found.index("tl_copy_16(A_vec")
    assert draw < found.index("if (tx * 4 < 508)") < load < found.index("tl_copy_16(&B[")
    assert "number[v] = tl_rng_uniform_f32(tl_rng);" in found


def test_lanes_that_differ_in_how_many_numbers_they_draw_stay_a_loop() -> None:
    assert "tl_copy" not in body(drawing(508, twice=True))


def test_neighbours_under_one_guard_are_one_vector() -> None:
    @T.prim_func
    def turned(P: I32[4], A: F16[4, 256], B: F16[4, 256]):
        with T.Kernel(4, threads=32) as b:
            row = P[b]
            for j in T.Parallel(128):
                B[row, 2 * j] = A[b, 2 * j + 1]
                B[row, 2 * j + 1] = A[b, 2 * j]

    a = np.random.default_rng(2).random((4, 256)).astype(np.float16)
    swapped = a.reshape(4, 128, 2)[..., ::-1].reshape(4, 256)
    wanted = np.stack([swapped[2], 0 * a[0], swapped[0], 0 * a[0]])
    holds(turned, (np.array([2, -1, 0, 7], np.int32), a, 0 * a), wanted)
    assert body(turned).count("if (") == 1 and "tl_copy_16(&B[" in body(turned)


def test_expressions_with_effects_are_evaluated_once_each() -> None:
    def old(count: Any) -> Any:
        return T.atomic_add(count[0], 1, return_prev=True)

    @T.prim_func
    def counted(N: I32[1], B: I32[7]):
        with T.Kernel(1, threads=1):
            if old(N) == 0:
                B[0] = 1
            if old(N) == 0:
                B[1] = 1
            if old(N) == old(N):
                B[2] = 1
            B[3] = T.max(old(N), old(N))
            B[3] += old(N) * 0
            if 7 <= old(N) < 8:
                B[4] = 1
            if old(N) < 0 or len(B.shape) == 1:
                B[5] = 1
            for _ in T.serial(old(N) - 6):
                B[6] += 1

    wanted = np.array([10], np.int32), np.array([1, 0, 0, 5, 1, 1, 3], np.int32)
    holds(counted, tuple(map(np.zeros_like, wanted)), *wanted)


def chosen(rows: int = 64, shift: int = 0, other: bool = False, written: bool = False) -> Any:
    """B is twice A where that is above zero, which each lane decides on its own, or zero.

    Args:
        rows: of A; B has 64.
        shift: distance of the source from the result's element.
        other: whether the result is in another row than A's.
        written: whether A changes, too.
    """

    @T.prim_func
    def main(A: F16[rows, 64], B: F16[64, 64]):
        with T.Kernel(8, threads=64) as bx:
            if written:
                T.atomic_add(A[0, 0], T.float16(0))
            for i, j in T.Parallel(8, 64):
                row = (bx + other) % 8 * 8 + i
                taken = (bx * 8 + i + j) % 3 == 0
                B[row, j] = T.if_then_else(taken, A[bx * 8 + i, j + shift] * 2, T.float16(0))

    return main


def test_what_some_lanes_load_is_loaded_for_all_where_it_is_inside() -> None:
    for loaded in (chosen(), chosen(rows=80), chosen(other=True)):
        assert "tl_copy_16(A_vec, &A[" in body(loaded)
    for kept in (chosen(shift=-8), chosen(written=True)):
        assert "A_vec" not in body(kept)
    a = np.arange(64 * 64).reshape(64, 64).astype(np.float16) % 97
    taken = np.add.outer(np.arange(64), np.arange(64)) % 3 == 0
    holds(chosen(), (a, np.zeros_like(a)), np.where(taken, 2 * a, 0), on=(SM_90A,))


def turned(kind: str, guarded: bool, branch: bool, written: bool) -> Any:
    """Two results of the same elements; ``written``: the first result is the second's operand."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), kind), I: I32[64], B: T.Tensor((2, 64, 64), kind)):
        with T.Kernel(8, threads=64) as bx:
            for r, j in T.Parallel(8, 64):
                i = bx * 8 + r
                row = I[i] if guarded else i
                if bx > 3 or not branch:
                    B[0, i, j] = A[row, j] + 1
                B[1, i, j] = B[0, i, j] + 2 if written else A[row, j] + 2

    return main


@pytest.mark.parametrize(("kind", "guarded"), [("float16", False), ("float32", True)])
@pytest.mark.parametrize(
    ("branch", "written", "vectors"), [(False, False, 1), (True, False, 2), (False, True, 2)]
)
def test_statements_share_the_vectors_that_they_load(
    kind: str, guarded: bool, branch: bool, written: bool, vectors: int
) -> None:
    func = turned(kind, guarded, branch, written)
    loaded = re.findall(r"tl_copy_16\([AB]_vec\w*, &[AB]\[", body(func))
    assert len(loaded) == vectors
    a = np.arange(64 * 64).reshape(64, 64).astype(kind) % 97
    index = np.arange(64, dtype=np.int32)[::-1].copy() if guarded else np.arange(64, dtype=np.int32)
    first, second = a[index] + 1, a[index] + (3 if written else 2)
    first[: 32 * branch] = 0
    holds(func, (a, index, np.zeros((2, 64, 64), kind)), np.stack([first, second]), on=(SM_90A,))


def test_vectors_of_columns_begin_in_the_dimension_with_elements() -> None:
    """Part of a column of one element a row: vectors begin rows further, not columns."""
    spread = T.Fragment((64, 1), lambda i, j, rep: (i // 16 * 2 + rep * 8, i % 16), replicate=2)

    @T.prim_func
    def columns(A: U32[64, 1], B: U32[64, 1]):
        with T.Kernel(1, threads=96):
            tile = T.alloc_fragment((64, 1), "uint32")
            T.annotate_layout({tile: spread})
            T.clear(tile)
            T.copy(A[3:29, 0:1], tile[3:29, 0:1])
            T.copy(tile, B)

    a, b = np.arange(64, dtype=np.uint32)[:, None], np.zeros((64, 1), np.uint32)
    tilelang.compile(columns, target=SM_80, execution_backend="emulator")(a, b)
    np.testing.assert_array_equal(b, np.where((a >= 3) & (a < 29), a, 0))
