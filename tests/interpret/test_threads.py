"""Who executes a statement: every thread, the thread group, or one iteration."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_builder import Kernel, at, call, zeros

import tilelang
import tilelang.language as T
from tilelang import interpret
from tilelang.errors import OutOfBoundsError, TileUnsupportedError
from tilelang.ir import stmt as S
from tilelang.ir.expr import binary, const, select

INT = np.int32


def test_a_plain_statement_runs_in_every_thread_and_parallel_once_per_element() -> None:
    """Rule 1: an atomic outside T.Parallel counts threads, inside it counts iterations."""
    with Kernel(grid=(3,), threads=64) as k:
        outside, inside = k.tensor("O", (1,), "int32"), k.tensor("I", (1,), "int32")
        k.do("atomic_add", at(outside, 0), 1)
        with k.parallel(10) as (_,):
            k.do("atomic_add", at(inside, 0), 1)
    o, i = zeros(1, dtype=INT), zeros(1, dtype=INT)
    k.run(o, i)
    assert (o[0], i[0]) == (3 * 64, 3 * 10)


def test_alloc_var_accumulates_per_thread_inside_parallel() -> None:
    """Rule 1: a variable in a shared loop is private; iteration i runs on thread i % threads."""
    with Kernel(threads=32) as k:
        out = k.tensor("O", (32,), "int32")
        v = k.var("v", "int32", 0)
        with k.parallel(100) as (i,):
            v[0] = v[0] + i
        out[k.tx] = v[0]
    o = zeros(32, dtype=INT)
    k.run(o)
    assert o.tolist() == [sum(range(t, 100, 32)) for t in range(32)]


def test_a_tile_operation_under_a_thread_condition_runs_once() -> None:
    """Rule 12: the sub-range does the whole tile, and only its threads."""
    with Kernel(threads=256) as k:
        a, out, count = k.tensor("A", (64,)), k.tensor("O", (64,)), k.tensor("N", (1,), "int32")
        s = k.shared("s", (64,))
        with k.when(k.tx < 128):
            k.copy(a, s)
            with k.parallel(64) as (i,):
                k.do("atomic_add", at(count, 0), 1)
                s[i] = s[i] * 2.0
            k.do("sync_threads", 3, 128)
            k.copy(s, out)
    a_, o, n = np.arange(64, dtype=np.float32), zeros(64), zeros(1, dtype=INT)
    k.run(a_, o, n)
    assert (o == 2 * a_).all() and n[0] == 64


def test_thread_return_leaves_the_kernel() -> None:
    with Kernel(grid=(4,), threads=32) as k:
        out = k.tensor("O", (4, 32), "int32")
        with k.when(k.bx >= 2):
            k.emit(S.ThreadReturn())
        with k.when(k.tx >= 20):
            k.emit(S.ThreadReturn())
        out[k.bx, k.tx] = 1
        k.do("sync_threads")
        out[k.bx, k.tx] = 2
    o = zeros(4, 32, dtype=INT)
    k.run(o)
    expected = np.zeros((4, 32), INT)
    expected[:2, :20] = 2
    assert (o == expected).all()


@pytest.mark.parametrize("lazy", [True, False])
def test_a_lazy_select_does_not_touch_what_is_not_taken(lazy: bool) -> None:
    """Rule 8: loads on the side not taken are not made, even outside a buffer; T.Select makes both."""
    with Kernel(threads=8) as k:
        out = k.tensor("O", (8,), "int32")
        s = k.shared("s", (4,), "int32")
        k.fill(s, 5)
        chosen = select(k.tx < 4, s[k.tx], const(-1), lazy=lazy)
        out[k.tx] = chosen * 2 + binary("land", k.tx < 4, s[k.tx] > 0)
    o = zeros(8, dtype=INT)
    if lazy:
        k.run(o)
        assert o.tolist() == [11] * 4 + [-2] * 4
    else:
        with pytest.raises(OutOfBoundsError):
            k.run(o)


def test_thread_index_inside_parallel_deals_iterations_in_rounds() -> None:
    """Rule 15: without a layout, iteration i runs on thread i % threads."""
    with Kernel(threads=32) as k:
        out, acc = k.tensor("O", (5, 20), "int32"), k.tensor("S", (5,), "int32")
        f = k.fragment("f", (5,), "int32")
        k.fill(f, 0)
        with k.parallel(5, 20) as (i, j):
            out[i, j] = k.tx
            f[i] = f[i] + k.tx
        k.copy(f, acc)
    o, s = zeros(5, 20, dtype=INT), zeros(5, dtype=INT)
    k.run(o, s)
    assert (o.reshape(-1) == np.arange(100) % 32).all() and (s == o.sum(1)).all()


def test_parallel_of_a_sub_range_is_dealt_to_its_threads() -> None:
    """Rules 12 and 15."""
    with Kernel(threads=64) as k:
        out = k.tensor("O", (48,), "int32")
        with k.when(k.tx >= 48), k.parallel(48) as (i,):
            out[i] = k.tx
    o = zeros(48, dtype=INT)
    k.run(o)
    assert (o == 48 + np.arange(48) % 16).all()


def test_blocks_may_run_in_any_order() -> None:
    with Kernel(grid=(4, 3), threads=1) as k:
        order, n = k.tensor("O", (3, 4), "int32"), k.tensor("N", (1,), "int32")
        x = k.let(call("atomic_add", at(n, 0), 1, dtype="int32", return_prev=True))
        order[k.by, k.bx] = x
    o = zeros(3, 4, dtype=INT)
    k.run(o, zeros(1, dtype=INT))
    assert (o == np.arange(12).reshape(3, 4)).all()
    k.run(o, zeros(1, dtype=INT), seed=1)
    assert sorted(o.reshape(-1)) == list(range(12)) and (o != np.arange(12).reshape(3, 4)).any()


@pytest.mark.parametrize(
    "where",
    [
        {"target": "cpu", "execution_backend": "interpret"},
        {"target": "cuda -arch=sm_80", "execution_backend": "emulator"},
    ],
    ids=["interpreter", "cuda"],
)
def test_an_exchange_in_a_loop_of_several_iterations_for_a_thread_is_refused(
    where: dict[str, str],
) -> None:
    """GPUs gave a thread neighbouring iterations, the interpreter every 64th one."""

    @T.prim_func
    def kernel(A: T.Tensor((128,), "int32"), B: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(128):
                B[i] = T.shfl_xor(A[i], 1)

    with pytest.raises(TileUnsupportedError) as caught:
        a = np.arange(128, dtype=np.int32)
        tilelang.compile(kernel, **where)(a, a.copy())
    assert str(caught.value).split("\n -->")[0] == (
        "T.shfl_xor is called in the iterations of T.Parallel\n"
        "  expected: thread code, outside T.Parallel or with an iteration for each thread\n"
        "  got: `T.shfl_xor(A[i], 1)`, with 2 iterations for a thread\n"
        "  hint: neighbouring iterations are not defined; use the thread index"
    )


def test_loop_layout_decides_which_thread_runs_an_iteration() -> None:
    """Rule 15: with private data the mapping of a fragment layout is observable."""
    layout = T.Fragment((8, 8), forward_fn=lambda i, j: (j * 4 + i // 2, i % 2))

    @T.prim_func
    def main(O: T.Tensor((8, 8), "int32"), C: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            count = T.alloc_local((1,), "int32")
            count[0] = 0
            for i, j in T.Parallel(8, 8, loop_layout=layout):
                O[i, j] = tx
                count[0] += i
            C[tx] = count[0]

    o, c = np.zeros((8, 8), np.int32), np.zeros(32, np.int32)
    interpret.run(main, [o, c])
    i, j = np.indices((8, 8))
    assert (o == j * 4 + i // 2).all()
    assert c.tolist() == [4 * (t % 4) + 1 for t in range(32)]
