"""Who executes a statement: every thread, the thread group, or one iteration."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_builder import Kernel, at, call, zeros

import tilelang
import tilelang.language as T
from tilelang.errors import TileUnsupportedError
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


def test_a_variable_of_the_body_is_private_to_the_iteration() -> None:
    with Kernel(threads=32) as k:
        out = k.tensor("O", (100,), "int32")
        with k.parallel(100) as (i,):
            v = k.var("v", "int32", 0)
            with k.loop(i):
                v[0] = v[0] + 2
            out[i] = v[0]
    o = zeros(100, dtype=INT)
    k.run(o)
    assert o.tolist() == [2 * i for i in range(100)]


def test_let_takes_the_value_now_and_alloc_var_is_read_at_each_use() -> None:
    """Rule 2: `x = A[3]` is a snapshot; a variable gives its current value."""
    with Kernel() as k:
        a, out = k.tensor("A", (4,)), k.tensor("O", (2,))
        x = k.let(a[3])
        v = k.var("v", "float32", a[3])
        a[3] = 100.0
        v[0] = v[0] + 1.0
        out[0] = x
        out[1] = v[0]
    a_, o = np.array([0, 1, 2, 3], np.float32), zeros(2)
    k.run(a_, o)
    assert o.tolist() == [3, 4]


def test_parallel_with_several_statements_on_one_element_keeps_order() -> None:
    """Rule 11: running maximum with its position, two fragments without the index j."""
    with Kernel() as k:
        a, out, where = k.tensor("A", (5, 40)), k.tensor("O", (5,)), k.tensor("W", (5,), "int32")
        best, pos = k.fragment("best", (5,)), k.fragment("pos", (5,), "int32")
        k.fill(best, -1e30)
        k.fill(pos, -1)
        with k.parallel(5, 40) as (i, j), k.when(a[i, j] > best[i]):
            best[i] = a[i, j]
            pos[i] = j
        k.copy(best, out)
        k.copy(pos, where)
    a_ = np.random.default_rng(2).standard_normal((5, 40)).astype(np.float32)
    o, w = zeros(5), zeros(5, dtype=INT)
    k.run(a_, o, w)
    assert (o == a_.max(1)).all() and (w == a_.argmax(1)).all()


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


def test_select_and_short_circuit_do_not_touch_what_is_not_taken() -> None:
    """Rule 8: loads on the side not taken are not made, even outside a buffer."""
    with Kernel(threads=8) as k:
        out = k.tensor("O", (8,), "int32")
        s = k.shared("s", (4,), "int32")
        k.fill(s, 5)
        lazy = select(k.tx < 4, s[k.tx], const(-1))
        both = binary("land", k.tx < 4, s[k.tx] > 0)
        out[k.tx] = lazy * 2 + both
    o = zeros(8, dtype=INT)
    k.run(o)
    assert o.tolist() == [11] * 4 + [-2] * 4


def test_the_eager_select_evaluates_both_sides() -> None:
    """Rule 8: T.Select is not lazy, so an access outside is reported."""
    from tilelang.errors import OutOfBoundsError

    with Kernel(threads=8) as k:
        out = k.tensor("O", (8,), "int32")
        s = k.shared("s", (4,), "int32")
        k.fill(s, 5)
        out[k.tx] = select(k.tx < 4, s[k.tx], const(-1), lazy=False)
    with pytest.raises(OutOfBoundsError):
        k.run(zeros(8, dtype=INT))


def test_atomics_give_the_previous_value_in_thread_order() -> None:
    with Kernel(threads=40) as k:
        n, out = k.tensor("N", (1,), "int32"), k.tensor("O", (40,), "int32")
        old = k.let(call("atomic_add", at(n, 0), 2, dtype="int32", return_prev=True))
        out[k.tx] = old
    n_, o = np.array([7], INT), zeros(40, dtype=INT)
    k.run(n_, o)
    assert n_[0] == 87 and o.tolist() == [7 + 2 * t for t in range(40)]


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


def test_continue_ends_an_iteration_of_parallel() -> None:
    with Kernel(threads=32) as k:
        out = k.tensor("O", (50,), "int32")
        with k.parallel(50) as (i,):
            with k.when((i % 3).equal(0)):
                k.emit(S.Continue())
            out[i] = i
    o = zeros(50, dtype=INT)
    k.run(o)
    assert o.tolist() == [i if i % 3 else 0 for i in range(50)]


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
