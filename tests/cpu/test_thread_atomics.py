"""Atomic updates by tiles: once for each element of what threads share, each thread its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tensor_types import I32

import tilelang
import tilelang.language as T
from tilelang.errors import TileError

from .modes import holds

COUNT = 64


def _updated_twice(first: Any, second: Any, loops: int) -> Any:
    @T.prim_func
    def kernel(A: I32[COUNT], B: I32[COUNT]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((COUNT,), "int32")
            T.copy(B, s)
            for _ in range(loops):
                first(s[tx], A[tx])
                second(s[(tx + 33) % COUNT], 40)
            T.copy(s, B)

    return kernel


@pytest.mark.parametrize("loops", [1, 3])
def test_atomic_updates_of_two_kinds_take_effect_in_order(loops: int) -> None:
    numbers = np.arange(COUNT, dtype=np.int32)
    added, least = 0 * numbers, 0 * numbers
    for _ in range(loops):
        added = np.maximum(added + numbers, 40)
        least = np.minimum(np.maximum(least, numbers), 40)
    holds(_updated_twice(T.atomic_add, T.atomic_max, loops), [numbers, 0 * numbers], [added])
    holds(_updated_twice(T.atomic_max, T.atomic_min, loops), [numbers, 0 * numbers], [least])


def test_atomic_updates_of_one_kind_need_no_order() -> None:
    def barriers(*words: Any) -> int:
        text = tilelang.lower(_updated_twice(*words, 1), target="cuda -arch=sm_80").source
        return str(text).count("__syncthreads")

    assert barriers(T.atomic_add, T.atomic_max) == barriers(T.atomic_add, T.atomic_add) + 1


@T.macro
def a_value(A, S):
    v = A[T.get_thread_binding(), 0] * 2
    T.atomic_add(S, v)


@T.macro
def a_tile(A, S):
    a = T.alloc_local((8,), "int32")
    T.copy(A[T.get_thread_binding(), :], a)
    T.atomic_add(S, a)


WRONG = {
    a_value: (
        "the value of T.atomic_add differs between the threads, but the tile `S` is updated with it "
        "once\n"
        "  expected: a value that all threads have, or an element as the destination\n"
        "  got: `v`\n"
        "  hint: T.atomic_add(S[0], ...) updates the element once for each thread"
    ),
    a_tile: (
        "the tile `a` differs between the threads, but T.atomic_add updates `S` with it once\n"
        "  expected: a tile that is equal in all threads, or a destination for each thread\n"
        "  got: `a`, whose elements differ between threads\n"
        "  hint: let each thread name its elements, as in T.atomic_add(S[0], a[0])"
    ),
}


@pytest.mark.parametrize("update", WRONG, ids=["a value", "a tile"])
def test_one_update_cannot_have_the_values_of_many_threads(update: Any) -> None:
    with pytest.raises(TileError) as caught:

        @T.prim_func
        def kernel(A: I32[COUNT, 8], S: I32[8]):
            with T.Kernel(1, threads=COUNT):
                update(A, S)

    text, place = str(caught.value).split("\n -->")
    assert text == WRONG[update]
    assert "T.atomic_" in place  # the line of the program
