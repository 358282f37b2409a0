"""Loops: bounds, kinds, hints, and the order in which T.Persistent deals tiles."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
# ruff: noqa: PLR0133, SIM117
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiny import kinds, run

import tilelang
import tilelang.language as T
from tilelang.errors import TileTypeError, TileValueError
from tilelang.ir.hints import LoopHints
from tilelang.ir.stmt import For, Parallel, PrimFunc, walk


def result(func: PrimFunc, *inputs: Any, n: int = 8) -> list[Any]:
    out = np.zeros(n, np.int32)
    run(func, out, *inputs)
    return out.tolist()


def threads_result(func: PrimFunc, *inputs: Any) -> list[int]:
    """The same for kernels with several threads."""
    out = np.zeros(8, np.int32)
    tilelang.compile(func, target="cpu", execution_backend="interpret")(out, *inputs)
    return out.tolist()


def loops(func: PrimFunc) -> list[For]:
    return [s for s in walk(func.body) if isinstance(s, For)]


def test_every_serial_kind_is_the_serial_loop() -> None:
    @T.prim_func
    def f(O: T.Tensor((8,), T.int32), n: T.int32):
        with T.Kernel(1, threads=1):
            for i in T.serial(2, n):
                O[i] += 1
            for i in T.Serial(0, n, 2):
                O[i] += 10
            for i in T.unroll(4, unroll_factor=2):
                O[i] += 100
            for i in T.Unroll(4, explicit=True):
                O[i] += 1000
            for i in T.vectorized(4):
                O[i] += 10000
            for i in T.Vectorized(1, 3):
                O[i] += 20000
            for k in T.Pipelined(1, n, num_stages=2):
                O[k] += 100000

    assert result(f, 4) == [11110, 131100, 131111, 111101, 0, 0, 0, 0]
    assert [s.kind for s in loops(f)] == [
        "serial", "serial", "unroll", "unroll", "vectorized", "vectorized", "pipelined",
    ]  # fmt: skip
    assert loops(f)[2].hints == LoopHints(unroll_factor=2)
    assert loops(f)[3].hints.other == (("explicit", True),)


def test_pipelined_keeps_its_hints() -> None:
    @T.prim_func
    def f():
        with T.Kernel(1):
            for _ in T.Pipelined(
                8, num_stages=3, order=[0, 1], stage=[0, 1], group=[[0], [1]], annotations={"x": 1}
            ):
                pass
            for _ in T.Pipelined(8, order=[1, 0], stage=[0, 1]):
                pass

    assert loops(f)[1].hints == LoopHints(num_stages=2, order=(1, 0), stage=(0, 1))
    assert loops(f)[0].hints == LoopHints(
        num_stages=3, order=(0, 1), stage=(0, 1), group=((0,), (1,)), other=(("x", 1),)
    )


@pytest.mark.parametrize("given", [{"stage": ["x"]}, {"order": [0.5]}, {"stage": (1, True)}])
def test_orders_and_stages_are_ints(given: Any) -> None:
    with pytest.raises(TileValueError, match="order and stage of T.Pipelined") as error:

        @T.prim_func
        def f():
            with T.Kernel(1):
                for _ in T.Pipelined(8, **given):
                    pass

    came = {"order": None, "stage": None} | given
    assert str(error.value).splitlines()[:3] == [
        "order and stage of T.Pipelined take one int for each statement",
        "  expected: as in order=[1, 0], stage=[0, 1]",
        f"  got: order={came['order']!r}, stage={came['stage']!r}",
    ]


def test_the_index_type_follows_the_bounds() -> None:
    @T.prim_func
    def f(n: T.int64, m: T.int32):
        with T.Kernel(1):
            for i in T.serial(m):
                pass
            for i in T.serial(n):
                pass
            for i in T.serial(m, n):
                pass
            for i in T.serial(2**40):
                pass
            for i, j in T.Parallel(4, n):
                assert (i.dtype, j.dtype) == ("int32", "int64")

    assert [s.var.dtype for s in loops(f)] == ["int32", "int64", "int64", "int64"]


def test_parallel_takes_any_extents_and_a_layout() -> None:
    layout = object()

    @T.prim_func
    def f(O: T.Tensor((8,), T.int32), n: T.int32):
        with T.Kernel(1, threads=1):
            for i in T.Parallel(n, loop_layout=layout, coalesced_width=4):
                O[i] = 1
            for i, j in T.Parallel(2, 3, annotations={"x": 1}):
                O[i * 3 + j] += 1

    first, second = (s for s in walk(f.body) if isinstance(s, Parallel))
    assert first.loop_layout is layout
    assert first.hints.other == (("coalesced_width", 4),)
    assert [v.name for v in second.vars] == ["i", "j"]
    assert result(f, 2) == [2, 2, 1, 1, 1, 1, 0, 0]


def persistent(domain: list[int], waves: int, index: int, group: int) -> list[tuple[int, ...]]:
    """The tiles one block visits, in order."""

    @T.prim_func
    def f(O: T.Tensor((64,), T.int32)):
        with T.Kernel(1, threads=1):
            count = T.alloc_var(T.int32, 0)
            for x, y in T.Persistent(domain, waves, index, group_size=group):
                count += 1
                O[count] = x * 10 + y
            O[0] = count

    out = np.zeros(64, np.int32)
    run(f, out)
    return [divmod(tile, 10) for tile in out[1 : 1 + out[0]].tolist()]


def test_persistent_deals_groups_of_the_last_axis() -> None:
    assert persistent([2, 4], 1, 0, 2) == [
        (0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (0, 3), (1, 2), (1, 3),
    ]  # fmt: skip


@pytest.mark.parametrize("domain", [[2, 4], [3, 5], [1, 1]])
@pytest.mark.parametrize("waves", [1, 3])
@pytest.mark.parametrize("group", [0, 1, 2, 8])
def test_persistent_blocks_together_visit_every_tile_once(
    domain: list[int], waves: int, group: int
) -> None:
    seen = [tile for index in range(waves) for tile in persistent(domain, waves, index, group)]
    assert sorted(seen) == sorted(np.ndindex(*domain))


@pytest.mark.parametrize("column_major", [True, False])
@pytest.mark.parametrize("swizzle", [1, 2, 3])
def test_the_tile_scheduler_visits_every_tile_once(column_major: bool, swizzle: int) -> None:
    @T.prim_func
    def f(O: T.Tensor((12,), T.int32)):
        with T.Kernel(2, threads=1) as bx:
            tiles = T.PersistentTileScheduler(
                3, 4, num_workers=2, swizzle_size=swizzle, column_major=column_major
            )
            tiles.init(bx)
            while tiles.valid():
                O[tiles.m_idx * 4 + tiles.n_idx] += 1
                tiles.next_tile()

    assert result(f, n=12) == [1] * 12


def test_loop_break_leaves_the_loop() -> None:
    @T.prim_func
    def f(O: T.Tensor((8,), T.int32)):
        with T.Kernel(1, threads=1):
            for i in T.serial(8):
                if i == 3:
                    T.loop_break()
                O[i] = 1

    assert result(f) == [1, 1, 1, 0, 0, 0, 0, 0]


def test_explicit_control_flow_frames() -> None:
    @T.prim_func
    def f(O: T.Tensor((8,), T.int32), n: T.int32):
        with T.Kernel(1, threads=1):
            with T.If(n > 3):
                with T.Then():
                    O[0] = 1
                with T.Else():
                    O[0] = 2
            with T.If(True):
                with T.Then():
                    O[1] = 1
            v = T.alloc_var(T.int32, 2)
            with T.While(v < 5):
                O[v] = v
                v += 1
            with T.attr("default", "async_scope", 1):
                O[6] = 1
            with T.block("root"):
                T.reads()
                T.writes()
                O[7] = 1

    assert result(f, 4) == [1, 1, 2, 3, 4, 0, 1, 1]
    assert result(f, 1)[0] == 2
    assert kinds(f).count("If") == 2


def test_let_evaluate_assume_and_assert() -> None:
    @T.prim_func
    def f(O: T.Tensor((8,), T.int32), n: T.int32):
        T.assume(n % 2 == 0)
        T.assume(1 < 2)
        with T.Kernel(1, threads=1):
            v = T.int32()
            T.let(v, n + 1)
            O[0] = v
            with T.LetStmt(n * 2) as double:
                O[1] = double
            w = T.bind(n - 1)
            O[2] = w
            T.Assert(n > 0, "n must be positive")
            T.evaluate(0)

    assert result(f, 4)[:3] == [5, 8, 3]
    assert kinds(f)[0] == "Assert"
    with pytest.raises(AssertionError, match="n % 2 == 0"):
        result(f, 3)


@pytest.mark.parametrize("value", [2.0, "4", None, True])
def test_a_bound_must_be_an_integer(value: Any) -> None:
    with pytest.raises(TileTypeError, match="is not an integer"):
        T.serial(0, value) if value is not None else T.serial(None)


def test_options_are_checked() -> None:
    with pytest.raises(TileValueError, match="num_stages"):
        T.Pipelined(4, num_stages=True)
    with pytest.raises(TileTypeError, match="annotations` is of the wrong kind"):
        T.serial(4, annotations=[1])
    with pytest.raises(TileValueError, match="at least one extent"):
        T.Parallel()
    with pytest.raises(TileValueError, match="is negative"):
        T.Parallel(-1)
    with pytest.raises(TileValueError, match="starts at 0"):
        T.thread_binding(1, 4)


def test_parallel_loops_that_are_perfectly_nested_are_one() -> None:
    @T.prim_func
    def f(O: T.Tensor((8,), T.int32), n: T.int32):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(2):
                for j in T.Parallel(4):
                    O[i * 4 + j] = i * 10 + j
            for i in T.Parallel(2):
                O[i] += 100
                for j in T.Parallel(2):
                    O[i * 4 + j] += 1

    assert threads_result(f, 0) == [101, 102, 2, 3, 11, 12, 12, 13]
    assert [len(s.vars) for s in walk(f.body) if isinstance(s, Parallel)] == [2, 1, 1]


def test_a_thread_index_is_a_name_for_the_rest_of_the_block() -> None:
    @T.prim_func
    def f(O: T.Tensor((8,), T.int32), n: T.int32):
        with T.Kernel(1, threads=8):
            tx = T.thread_binding(0, 8, thread="threadIdx.x")
            again = T.launch_thread("threadIdx.x", 8)
            O[tx] = again * 2

    assert threads_result(f, 0) == [0, 2, 4, 6, 8, 10, 12, 14]
