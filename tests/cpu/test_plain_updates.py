"""Atomic updates become plain ones where no other core accesses the memory; none is lost."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tests.cpu.modes import agree
from tilelang.cpu.toolchain import find_compiler

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")


def rows_added(tokens: int, rows: int, columns: int, dtype: str = "float32") -> Any:
    """Adds rows to the rows that a list names, some of which do not exist."""

    @T.prim_func
    def kernel(X: T.Tensor((tokens, columns), dtype), At: T.Tensor((tokens,), "int32"),
               Y: T.Tensor((rows, columns), dtype)):  # fmt: skip
        with T.Kernel(T.ceildiv(tokens, 4), threads=32) as b:
            for r, j in T.Parallel(4, columns):
                T.atomic_add(Y[At[b * 4 + r], j], X[b * 4 + r, j])

    return kernel


def counted(n: int, bins: int) -> Any:
    """A histogram without tiles."""

    @T.prim_func
    def kernel(X: T.Tensor((n,), "int32"), Y: T.Tensor((bins,), "int32")):
        with T.Kernel(T.ceildiv(n, 64), threads=32) as b:
            for i in T.Parallel(64):
                if b * 64 + i < n:
                    T.atomic_add(Y[X[b * 64 + i]], 1)

    return kernel


def waiting() -> Any:
    """Blocks may wait for what another launch stores."""

    @T.prim_func
    def kernel(Flag: T.Tensor((1,), "int32"), Y: T.Tensor((64,), "int32")):
        with T.Kernel(2, threads=1):
            while T.atomic_load(Flag[0]) == 0:
                T.evaluate(0)
            for i in T.serial(64):
                T.atomic_add(Y[i], 1)

    return kernel


def source(kernel: Any) -> str:
    return str(tilelang.compile(kernel, target="cpu").get_kernel_source())


@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "float64"])
@pytest.mark.parametrize("seed", range(4))
def test_rows_of_any_number_add_up(dtype: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    tokens, rows, columns = 4 * int(rng.integers(1, 9)), int(rng.integers(1, 7)), 8 * seed + 5
    x = rng.integers(-4, 4, (tokens, columns)).astype(dtype)
    at = rng.integers(-1, rows + 1, tokens).astype(np.int32)  # outside: nothing is added
    agree(rows_added(tokens, rows, columns, dtype), x, at, np.ones((rows, columns), dtype))


def test_a_row_is_added_by_vectors_where_one_core_runs_all_blocks() -> None:
    text = source(rows_added(64, 16, 128))
    plain, atomic = text.split("if (tl_is_exclusive((int64_t*)&args->tl_exclusive)) {")[1].split(
        "} else {"
    )[:2]
    assert "TL_STORE(tl_w_f32, Y" in plain and "tl_atomic_add_f32" not in plain
    assert "tl_atomic_add_f32" in atomic
    assert "tl_begin_updates(1)" in text and "tl_end_updates(args.tl_exclusive);" in text


def test_a_launch_that_may_wait_excludes_no_other() -> None:
    text = source(waiting())
    assert "tl_is_exclusive(" not in text and "tl_begin_updates(0)" in text


def test_a_launch_without_atomics_of_tensors_excludes_no_other() -> None:
    @T.prim_func
    def kernel(X: T.Tensor((64,), "int32"), Y: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "int32")
            T.clear(tile)
            for i in T.Parallel(64):
                T.atomic_add(tile[X[i]], 1)
            T.copy(tile, Y)

    text = source(kernel)
    assert "tl_exclusive" not in text and "tl_begin_updates" not in text
    assert "tl_alone_add_i32" not in text


def stepped(n: int, bins: int) -> Any:
    """Sums by a loop of unknown length, which are atomic ones in all launches."""

    @T.prim_func
    def kernel(X: T.Tensor((n,), "int32"), Y: T.Tensor((bins,), "int32")):
        with T.Kernel(1, threads=1):
            at = T.alloc_var("int32")
            at = 0
            while at < n:
                T.atomic_add(Y[X[at]], 1)
                at += 1

    return kernel


@pytest.mark.parametrize("limit", [1, 2])
def test_no_update_of_several_launches_at_once_is_lost(limit: int) -> None:
    n, bins, rounds = 1 << 14, 4, 20
    forms = [counted(n, bins), counted(n + 1, bins), stepped(n + 2, bins)]
    kernels = [tilelang.compile(form, target="cpu") for form in forms]
    total = np.zeros(bins, np.int32)
    inputs = [np.arange(n + extra, dtype=np.int32) % bins for extra in range(3)]
    for kernel in kernels:
        kernel(np.zeros_like(inputs[kernels.index(kernel)]), np.zeros(bins, np.int32))

    def work(at: int) -> None:
        for _ in range(rounds * limit):
            kernels[at](inputs[at], total)

    threads = [threading.Thread(target=work, args=(at,)) for at in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = sum(np.bincount(x, minlength=bins) for x in inputs) * rounds * limit
    np.testing.assert_array_equal(total, wanted)
