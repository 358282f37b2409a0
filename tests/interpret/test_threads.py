"""Who executes a statement: every thread, the thread group, or one iteration."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_builder import Kernel, at, call, region, zeros

import tilelang
import tilelang.language as T
from tilelang.errors import TileUnsupportedError
from tilelang.ir import stmt as S
from tilelang.ir.expr import as_expr, binary, const, select

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


@pytest.mark.parametrize("extents", [(7,), (5, 129), (3, 1, 11), (1,), (0, 4)])
def test_parallel_extents_are_independent_of_the_threads(extents: tuple[int, ...]) -> None:
    """Rule 11: any extents."""
    with Kernel(threads=64) as k:
        out = k.tensor("O", extents, "int32")
        with k.parallel(*extents) as index:
            value = as_expr(0)
            for var, n in zip(index, extents):
                value = value * n + var
            with k.when(value % 3 != 0):
                out[index] = value
    o = zeros(*extents, dtype=INT)
    k.run(o)
    flat = np.arange(o.size, dtype=INT)
    assert (o.reshape(-1) == np.where(flat % 3 != 0, flat, 0)).all()


def test_parallel_update_of_lower_rank_is_an_exact_sum() -> None:
    """Rule 11: `acc[i] += A[i, j]` loses nothing and keeps row-major order."""
    with Kernel() as k:
        a, out = k.tensor("A", (9, 200)), k.tensor("O", (9,))
        acc = k.fragment("acc", (9,))
        k.fill(acc, 1.0)
        with k.parallel(9, 200) as (i, j):
            acc[i] = acc[i] + a[i, j]
        k.copy(acc, out)
    a_ = np.random.default_rng(0).standard_normal((9, 200)).astype(np.float32)
    o = zeros(9)
    k.run(a_, o)
    expected = np.ones(9, np.float32)
    for j in range(200):
        expected = expected + a_[:, j]
    assert (o == expected).all()


def test_parallel_update_through_a_computed_index_loses_nothing() -> None:
    """Rule 11: several iterations that hit one element count one after the other."""
    with Kernel() as k:
        bins, out = k.tensor("B", (300,), "int32"), k.tensor("O", (4,), "int32")
        h = k.shared("h", (4,), "int32")
        k.fill(h, 0)
        with k.parallel(300) as (i,):
            h[bins[i]] = h[bins[i]] + i
        k.copy(h, out)
    b = np.random.default_rng(1).integers(0, 4, 300).astype(INT)
    o = zeros(4, dtype=INT)
    k.run(b, o)
    assert (o == np.bincount(b, np.arange(300), 4)).all()


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


def test_nested_parallel_covers_the_product() -> None:
    with Kernel(threads=32) as k:
        out = k.tensor("O", (6, 7), "int32")
        with k.parallel(6) as (i,):
            row = k.let(i * 10)
            with k.parallel(7) as (j,):
                out[i, j] = row + j
    o = zeros(6, 7, dtype=INT)
    k.run(o)
    assert (o == np.arange(6)[:, None] * 10 + np.arange(7)).all()


def test_thread_indices_in_two_dimensions() -> None:
    """Rule 23: x is the fastest axis of the threads and the first of the grid."""
    with Kernel(grid=(3, 2), threads=(4, 2)) as k:
        out = k.tensor("O", (2, 3, 2, 4), "int32")
        out[k.by, k.bx, k.ty, k.tx] = k.bx + 10 * k.by + 100 * k.tx + 1000 * k.ty
    o = zeros(2, 3, 2, 4, dtype=INT)
    k.run(o)
    by, bx, ty, tx = np.indices(o.shape)
    assert (o == bx + 10 * by + 100 * tx + 1000 * ty).all()


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


def test_loops_with_different_trip_counts_break_and_continue() -> None:
    with Kernel(threads=16) as k:
        out = k.tensor("O", (16,), "int32")
        v = k.var("v", "int32", 0)
        with k.loop(k.tx) as i:
            with k.when((i % 2).equal(1)):
                k.emit(S.Continue())
            with k.when(i >= 8):
                k.emit(S.Break())
            v[0] = v[0] + i
        out[k.tx] = v[0]
    o = zeros(16, dtype=INT)
    k.run(o)
    assert o.tolist() == [sum(i for i in range(t) if i % 2 == 0 and i < 8) for t in range(16)]


def test_while_and_negative_steps() -> None:
    with Kernel(threads=8) as k:
        out = k.tensor("O", (8, 2), "int32")
        n = k.var("n", "int32", k.tx)
        steps = k.var("steps", "int32", 0)
        with k.repeat(n[0] > 0):
            n[0] = n[0] // 2
            steps[0] = steps[0] + 1
        down = k.var("down", "int32", 0)
        with k.loop(-1, start=5, step=-2) as i:
            down[0] = down[0] * 10 + i
        out[k.tx, 0] = steps[0]
        out[k.tx, 1] = down[0]
    o = zeros(8, 2, dtype=INT)
    k.run(o)
    assert o[:, 0].tolist() == [int(t).bit_length() for t in range(8)]
    assert set(o[:, 1]) == {531}


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_pipelined_is_a_serial_loop(count: int) -> None:
    """Rule 14: any number of iterations, and the buffers hold the last one afterwards."""
    with Kernel() as k:
        n = k.scalar("n")
        a, out, last = k.tensor("A", (7, 8)), k.tensor("O", (8,)), k.tensor("L", (8,))
        s, acc = k.shared("s", (8,)), k.fragment("acc", (8,))
        k.fill(acc, 0.0)
        k.fill(s, -1.0)
        with k.loop(n, kind="pipelined") as i:
            k.copy(region(a, (i, 0), (1, 8)), s)
            with k.parallel(8) as (j,):
                acc[j] = acc[j] + s[j]
        k.copy(acc, out)
        k.copy(s, last)
    a_ = np.arange(56, dtype=np.float32).reshape(7, 8)
    o, last_ = zeros(8), zeros(8)
    k.run(count, a_, o, last_)
    assert (o == a_[:count].sum(0)).all()
    assert (last_ == (a_[count - 1] if count else -1)).all()


def test_serial_bounds_loaded_at_run_time() -> None:
    """Rule 24: bounds of a loop with tile operations come from memory."""
    with Kernel(grid=(3,)) as k:
        ends, out = k.tensor("E", (4,), "int32"), k.tensor("O", (3, 4), "int32")
        f = k.fragment("f", (4,), "int32")
        k.fill(f, 0)
        with k.loop(ends[k.bx + 1], start=ends[k.bx]) as i:
            with k.parallel(4) as (j,):
                f[j] = f[j] + i
            k.do("sync_threads")
        k.copy(f, region(out, (k.bx, 0), (1, 4)))
    e, o = np.array([0, 3, 3, 5], INT), zeros(3, 4, dtype=INT)
    k.run(e, o)
    assert o[:, 0].tolist() == [3, 0, 7]


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


def test_host_statements_compute_the_grid() -> None:
    """Rule 22: values, loads and assumptions before the launch run on the host."""
    with Kernel() as k:
        a, out = k.tensor("A", (2,), "int32"), k.tensor("O", (5,), "int32")
        from tilelang.ir.expr import Var

        blocks = Var("blocks", a.dtype)
        k.host.append(S.Let(var=blocks, value=a[0] + a[1]))
        k.host.append(S.Assert(cond=blocks > 0, assumed=True))
        k.grid = (blocks,)
        out[k.bx] = 1
    o = zeros(5, dtype=INT)
    k.run(np.array([1, 2], INT), o)
    assert o.tolist() == [1, 1, 1, 0, 0]
    k.run(np.array([2, 2], INT), zeros(5, dtype=INT))


def test_a_workspace_is_shared_by_the_blocks_of_a_launch() -> None:
    with Kernel(grid=(4,), threads=1) as k:
        out = k.tensor("O", (4,), "int32")
        w = k.alloc_buffer("w", (4,), "int32", "global")
        w[k.bx] = k.bx * k.bx
        k.do("sync_grid")
        out[k.bx] = w[3 - k.bx]
    o = zeros(4, dtype=INT)
    k.run(o)
    assert o.tolist() == [9, 4, 1, 0]


def test_local_arrays_hold_their_own_content_per_thread() -> None:
    with Kernel(threads=16) as k:
        a, out = k.tensor("A", (64,)), k.tensor("O", (16,))
        mine = k.local("mine", (4,))
        k.copy(region(a, (k.tx * 4,), (4,)), mine)
        total = k.local("total", (1,))
        k.reduce(mine, total, "sum", 0)
        out[k.tx] = total[0]
    a_, o = np.arange(64, dtype=np.float32), zeros(16)
    k.run(a_, o)
    assert (o == a_.reshape(16, 4).sum(1)).all()


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


def test_a_loop_in_a_parallel_body_that_differs_by_iteration() -> None:
    with Kernel(threads=32) as k:
        a, out = k.tensor("A", (40,), "int32"), k.tensor("O", (40,), "int32")
        f = k.fragment("f", (40,), "int32")
        k.fill(f, 0)
        with k.parallel(40) as (i,), k.loop(i) as j:
            f[i] = f[i] + a[j]
        k.copy(f, out)
    a_, o = np.arange(1, 41, dtype=INT), zeros(40, dtype=INT)
    k.run(a_, o)
    assert o.tolist() == [sum(range(1, i + 1)) for i in range(40)]


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
