"""Atomic updates by tiles: once for each element of what threads share, each thread its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import TileError

from .modes import holds

COUNT = 64
NUMBERS = np.arange(8, dtype=np.float32) + 1


def test_a_tile_of_local_memory_is_added_once() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=COUNT):
            a = T.alloc_local((8,), "float32")
            T.copy(A, a)
            T.clear(B)
            T.atomic_add(B, a)
            T.atomic_add(B, 1)
            T.atomic_max(B[2:6], a[0:4])

    wanted = NUMBERS + 1
    wanted[2:6] = np.maximum(wanted[2:6], NUMBERS[:4])
    holds(kernel, [NUMBERS, 0 * NUMBERS], [wanted])


def _updated_twice(first: Any, second: Any, loops: int) -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((COUNT,), "int32"), B: T.Tensor((COUNT,), "int32")):
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


def test_atomic_updates_of_two_kinds_in_global_memory_take_effect_in_order() -> None:
    @T.prim_func
    def threads(A: T.Tensor((COUNT,), "float32"), B: T.Tensor((COUNT,), "float32")):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            T.atomic_add(B[tx], A[tx])
            T.atomic_max(B[(tx + 33) % COUNT], 40.0)

    @T.prim_func
    def loops(A: T.Tensor((COUNT,), "float32"), B: T.Tensor((COUNT,), "float32")):
        with T.Kernel(1, threads=COUNT):
            for i in T.Parallel(COUNT):
                T.atomic_add(B[i], A[i])
            for i in T.Parallel(COUNT):
                T.atomic_max(B[COUNT - 1 - i], 40.0)

    numbers = np.arange(COUNT, dtype=np.float32)
    for func in (threads, loops):
        holds(func, [numbers, 0 * numbers], [np.maximum(numbers, 40)])


def test_atomic_updates_of_one_kind_need_no_order() -> None:
    def barriers(*words: Any) -> int:
        options = {"target": "cuda -arch=sm_80", "execution_backend": "emulator"}
        compiled = tilelang.compile(_updated_twice(*words, 1), **options)
        return compiled.get_kernel_source().count("__syncthreads")

    assert barriers(T.atomic_add, T.atomic_max) == barriers(T.atomic_add, T.atomic_add) + 1


def test_a_tile_of_local_memory_is_added_once_by_each_block() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(5, threads=COUNT):
            a = T.alloc_local((8,), "float32")
            T.copy(A, a)
            T.atomic_add(B, a)

    holds(kernel, [NUMBERS, 0 * NUMBERS], [NUMBERS * 5])


def test_each_thread_adds_its_tile_to_its_own_elements() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((COUNT, 8), "float32"), B: T.Tensor((COUNT // 2, 8), "float32")):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            a = T.alloc_local((8,), "float32")
            T.copy(A[tx, :], a)
            T.atomic_add(B[tx // 2, :], a)

    rows = np.arange(COUNT * 8, dtype=np.float32).reshape(COUNT, 8)
    wanted = rows.reshape(-1, 2, 8).sum(1)
    holds(kernel, [rows, 0 * wanted], [wanted])


def test_each_thread_updates_local_memory_of_its_own() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((COUNT, 8), "float32"), B: T.Tensor((COUNT, 8), "float32")):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            t = T.alloc_local((8,), "float32")
            n = T.alloc_var("float32")
            T.clear(t)
            T.atomic_add(t, A[tx, :])
            T.atomic_max(t[0:2], 5.0)
            T.atomic_add(t[3], T.cast(tx, "float32"))
            old = T.atomic_add(t[4], 100.0, return_prev=True)
            T.atomic_add(n, old)
            T.atomic_add(t[7], n)
            T.copy(t, B[tx, :])

    rows = np.arange(COUNT * 8, dtype=np.float32).reshape(COUNT, 8) % 7
    wanted = rows.copy()
    wanted[:, 0:2] = np.maximum(rows[:, 0:2], 5)
    wanted[:, 3] += np.arange(COUNT)
    wanted[:, 4] += 100
    wanted[:, 7] += rows[:, 4]
    holds(kernel, [rows, 0 * rows], [wanted])


def _value() -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((COUNT,), "int32"), S: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=COUNT):
            t = T.get_thread_binding()
            v = A[t] * 2
            T.atomic_add(S, v)

    return kernel


def _tile() -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((COUNT, 8), "float32"), S: T.Tensor((2, 8), "float32")):
        with T.Kernel(1, threads=COUNT):
            a = T.alloc_local((8,), "float32")
            T.copy(A[T.get_thread_binding(), :], a)
            T.atomic_add(S[1, :], a)

    return kernel


def _variable() -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((COUNT,), "int32"), S: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=COUNT):
            t = T.get_thread_binding()
            n = T.alloc_var("int32")
            if t > 3:
                n = A[0]
            T.atomic_max(S, n)

    return kernel


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "value": (
        _value,
        "the value of T.atomic_add differs between the threads, but the tile `S` is updated with it "
        "once\n"
        "  expected: a value that all threads have, or an element as the destination\n"
        "  got: `v`\n"
        "  hint: T.atomic_add(S[0], ...) updates the element once for each thread",
    ),
    "tile": (
        _tile,
        "the tile `a` differs between the threads, but T.atomic_add updates `S` with it once\n"
        "  expected: a tile that is equal in all threads, or a destination for each thread\n"
        "  got: `a`, whose elements differ between threads\n"
        "  hint: let each thread name its elements, as in T.atomic_add(S[0, 0], a[0])",
    ),
    "variable": (
        _variable,
        "the value of T.atomic_max differs between the threads, but the tile `S` is updated with it "
        "once\n"
        "  expected: a value that all threads have, or an element as the destination\n"
        "  got: `n[0]`\n"
        "  hint: T.atomic_max(S[0], ...) updates the element once for each thread",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_one_update_cannot_have_the_values_of_many_threads(name: str) -> None:
    make, text = WRONG[name]
    with pytest.raises(TileError) as caught:
        make()
    assert str(caught.value).split("\n -->")[0] == text
    assert "T.atomic_" in str(caught.value).split("\n -->")[1]  # the line of the program
