"""Python inside kernels: every row of the contract of constructs, by what the kernel computes."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
# ruff: noqa: F821, F841, F842, PIE790, PLR0133, S102, SIM222, SIM223
from __future__ import annotations

import linecache
import warnings
from typing import Any

import numpy as np
import pytest
from tiny import kinds, run

import tilelang.language as T
from tilelang.errors import TileRuntimeError, TileWarning
from tilelang.ir.stmt import For, Parallel, PrimFunc, walk


def ints(*values: int) -> Any:
    return np.array(values, dtype=np.int32)


def result(func: PrimFunc, *inputs: Any, n: int = 8) -> list[Any]:
    """What ``func(O, *inputs)`` leaves in an int32 output of ``n`` elements, zeros at first."""
    out = np.zeros(n, np.int32)
    run(func, out, *inputs)
    return out.tolist()


# -- bindings -------------------------------------------------------------------------------


def test_an_annotation_of_a_local_is_ignored() -> None:
    @T.prim_func
    def f(O: T.Tensor((8,), T.int32), A: T.Tensor((1,), T.float32)):
        with T.Kernel(1, threads=1):
            x: T.int32 = A[0]
            y: "undefined name"
            O[0] = x * 2.0

    assert result(f, np.array([1.5], np.float32))[0] == 3


def test_allocations_are_named_after_what_they_are_bound_to() -> None:
    @T.prim_func
    def f():
        with T.Kernel(1, threads=1):
            tile = T.alloc_shared((4,), T.int32)
            alias = tile
            pair = [T.alloc_shared((4,), T.int32) for _ in range(2)]
            T.alloc_shared((4,), T.int32)

    names = [s.buffer.name for s in walk(f.body) if type(s).__name__ == "Alloc"]
    assert names == ["tile", "pair_0", "pair_1", "buf"]


# -- stores ------------------------------------------------------------------------------------


def test_augmented_indices_are_evaluated_once() -> None:
    calls = []

    def at(i: int) -> int:
        calls.append(i)
        return i

    @T.prim_func
    def f(O: T.Tensor((8,), T.int32)):
        with T.Kernel(1, threads=1):
            O[at(2)] += 5

    assert result(f)[2] == 5
    assert calls == [2]


# -- conditions -----------------------------------------------------------------------------
def test_a_condition_known_at_trace_time_traces_one_side_and_keeps_its_names() -> None:
    wide = True

    @T.prim_func
    def f(O: T.Tensor((8,), T.int32)):
        with T.Kernel(1, threads=1):
            if wide:
                x = 4
            else:
                x = undefined_name
            if None:
                O[0] = 9
            elif x > 3:
                O[0] = x
            else:
                O[0] = 8
            if T.int32(3) > 2:
                O[1] = 1
            if False and O[0] > 3:
                O[1] = undefined_name

    assert result(f)[:2] == [4, 1]
    assert "If" not in kinds(f)


def test_a_chained_comparison_evaluates_each_operand_once() -> None:
    calls = []

    def seen(x: Any) -> Any:
        calls.append(1)
        return x

    @T.prim_func
    def f(O: T.Tensor((8,), T.int32), n: T.int32):
        with T.Kernel(1, threads=1):
            if 0 < seen(n) <= 4:
                O[0] = 1
            if 1 < seen(2) < 3:
                O[1] = 1

    assert [result(f, n)[:2] for n in (0, 3, 5)] == [[0, 1], [1, 1], [0, 1]]
    assert len(calls) == 2


# -- loops ------------------------------------------------------------------------------------
def test_range_is_a_serial_loop() -> None:
    @T.prim_func
    def f(O: T.Tensor((8,), T.int32), n: T.int32):
        with T.Kernel(1, threads=1):
            for i in range(n):
                O[i] += 1
            for i in range(2, n):
                O[i] += 10
            for i in range(7, 0, -3):
                O[i] += 100
            steps = range(0, 8, 4)
            for i in steps:
                O[i] += 1000

    assert result(f, 4) == [1001, 101, 11, 11, 1100, 0, 0, 100]
    loops = [s for s in walk(f.body) if isinstance(s, For)]
    assert [loop.kind for loop in loops] == ["serial"] * 4


def test_a_run_time_step_is_accepted_with_a_warning() -> None:
    with pytest.warns(TileWarning, match="the step of range is not a constant"):

        @T.prim_func
        def f(O: T.Tensor((8,), T.int32), n: T.int32):
            with T.Kernel(1, threads=1):
                for i in range(0, 8, n):
                    O[i] = 1

    assert result(f, 3) == [1, 0, 0, 1, 0, 0, 1, 0]


def test_statements_after_break_are_ignored_with_a_warning() -> None:
    with pytest.warns(TileWarning, match="never reached"):

        @T.prim_func
        def f(O: T.Tensor((8,), T.int32)):
            with T.Kernel(1, threads=1):
                for i in T.serial(8):
                    O[i] = 1
                    break
                    O[i] = 2

    assert result(f) == [1, 0, 0, 0, 0, 0, 0, 0]


def test_a_while_that_never_runs_is_dropped_with_a_warning() -> None:
    with pytest.warns(TileWarning, match="always false"):

        @T.prim_func
        def f(O: T.Tensor((8,), T.int32)):
            with T.Kernel(1, threads=1):
                while 1 > 2:
                    O[0] = 1

    assert kinds(f) == ["Launch"]


def test_a_warning_that_is_an_error_stays_the_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TileWarning, match="always false"):

            @T.prim_func
            def f(O: T.Tensor((8,), T.int32)):
                with T.Kernel(1, threads=1):
                    while 1 > 2:
                        O[0] = 1

        with pytest.raises(DeprecationWarning, match="old word"):

            @T.prim_func
            def g(O: T.Tensor((8,), T.int32)):
                with T.Kernel(1, threads=1):
                    warnings.warn("old word", DeprecationWarning, stacklevel=1)


# -- statements ---------------------------------------------------------------------------------
def test_assert_is_python_for_python_and_a_statement_for_expressions() -> None:
    @T.prim_func
    def f(O: T.Tensor((8,), T.int32), n: T.int32):
        assert 1 + 1 == 2, "not reached"
        assert n > 3, "n is small"
        with T.Kernel(1, threads=1):
            O[0] = 1

    assert kinds(f)[0] == "Assert"
    with pytest.raises(TileRuntimeError, match="n is small"):
        result(f, 2)
    with pytest.raises(AssertionError, match="too wide"):

        @T.prim_func
        def g(O: T.Tensor((8,), T.int32)):
            assert O.shape[0] < 4, "too wide"


def test_plain_python_inside_a_kernel() -> None:
    log = []

    @T.prim_func
    def f(O: T.Tensor((8,), T.int32), n: T.int32):
        """A docstring."""
        import math

        def twice(x: Any) -> Any:
            return x + x

        square = lambda x: x * x
        with T.Kernel(1, threads=1):
            values = [twice(i) if i % 2 else 0 for i in range(4)]
            total = sum(square(v) for v in values)
            log.append(f"total is {total}")
            O[0] = total + twice(n)
            O[1] = min(3, 5) + max(1, 2) + math.floor(2.5)
            O[2] = isinstance(n, int)
            pass

    assert result(f, 10)[:3] == [60, 7, 0]
    assert log == ["total is 40"]


def test_closures_globals_and_nonlocals() -> None:
    counter = 0
    scale = 3

    @T.prim_func
    def f(O: T.Tensor((scale + 5,), T.int32)):
        nonlocal counter
        counter = counter + 1
        with T.Kernel(1, threads=1):
            O[0] = scale * GLOBAL

    assert result(f)[0] == 3 * GLOBAL
    assert counter == 1


GLOBAL = 14


def test_a_kernel_in_a_helper_of_the_enclosing_function_sees_its_locals() -> None:
    def outer() -> PrimFunc:
        size = 6

        def inner() -> PrimFunc:
            @T.prim_func
            def f(O: T.Tensor((size,), T.int32)):
                with T.Kernel(1, threads=1):
                    O[0] = 1

            return f

        return inner()

    assert outer().buffers[0].shape == [6]


def test_decorators_may_be_stacked_and_written_over_lines() -> None:
    def same(fn: Any) -> Any:
        return fn

    @T.prim_func(private=True)
    @same
    def f(O: T.Tensor((8,), T.int32), n: T.int32):
        with T.Kernel(1, threads=1):
            O[0] = n + \
                1  # fmt: skip

    assert result(f, 1)[0] == 2


def test_text_is_not_dedented() -> None:
    if True:

        @T.prim_func
        def f(O: T.Tensor((8,), T.int32)):
            text = """
a line at column 0
"""
            with T.Kernel(1, threads=1):
                O[0] = len(text)

    assert result(f)[0] == len("\na line at column 0\n")


def test_host_expressions_stay_expressions_for_grids_and_shapes() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def f(O: T.Tensor((8,), T.int32), A: T.Tensor((n,), T.int32)):
        blocks = (n + 3) // 4
        first = A[0]
        C = T.empty((blocks,), T.int32)
        with T.Kernel(blocks, threads=1) as bx:
            O[bx] = first
        return C

    assert kinds(f)[:2] == ["Let", "Launch"]
    assert result(f, ints(*range(5, 17)), np.zeros(3, np.int32)) == [5, 5, 5, 0, 0, 0, 0, 0]
    assert f.outputs == (2,)


def test_locations_are_the_users_lines_and_columns() -> None:
    @T.prim_func
    def f(O: T.Tensor((8,), T.int32)):
        with T.Kernel(1, threads=1):
            for i in T.Parallel(8):
                O[i] = i + 1

    parallel = next(s for s in walk(f.body) if isinstance(s, Parallel))
    store = parallel.body
    first = f.loc.line if f.loc else 0
    assert parallel.loc is not None and store.loc is not None
    assert parallel.loc.file == store.loc.file == __file__
    assert (parallel.loc.line - first, store.loc.line - first) == (2, 3)
    if store.loc.col is not None:  # Python 3.11 and later know columns
        source = store.loc.source() or ""
        assert source[store.loc.col : store.loc.end_col] == "O[i] = i + 1"


def test_a_function_without_source_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    namespace: dict[str, Any] = {"T": T}
    exec("def f(O: T.Tensor((8,), T.int32)):\n    pass\n", namespace)
    from tilelang.errors import TileSyntaxError

    with pytest.raises(TileSyntaxError, match="the source of `f` is not available"):
        T.prim_func(namespace["f"])
    monkeypatch.setitem(linecache.cache, "<string>", (5, None, ["x = 1\n"], "<string>"))
    with pytest.raises(TileSyntaxError, match="the source of `f` is not available"):
        T.prim_func(namespace["f"])  # Python 3.13 has the text of `python -c` under this name


def test_a_function_typed_at_the_prompt_is_read_from_the_history(monkeypatch: Any) -> None:
    import sys
    import types

    typed = [
        "import tilelang.language as T", "@T.prim_func", "def f(O: T.Tensor((8,), T.int32)):",
        "    O[0] = 1", "@T.prim_func", "def f(O: T.Tensor((8,), T.int32)):",
        "    with T.Kernel(1, threads=1):", "        O[0] = 5",
    ]  # fmt: skip
    history = types.ModuleType("readline")
    history.get_current_history_length = lambda: len(typed)
    history.get_history_item = lambda number: typed[number - 1]
    monkeypatch.setitem(sys.modules, "readline", history)
    namespace: dict[str, Any] = {"T": T}
    exec(compile("\n".join(typed[4:]) + "\n", "<stdin>", "exec", dont_inherit=True), namespace)
    func = namespace["f"]
    assert result(func)[0] == 5
    store = next(s for s in walk(func.body) if type(s).__name__ == "Store")
    assert store.loc.line == 4 and store.loc.source() == "        O[0] = 5"
