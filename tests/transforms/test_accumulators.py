"""Tiles that several threads of a parallel loop would update at once."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_types import F32, I32

import tilelang
import tilelang.language as T
from tilelang.emulator.compilers import find_cxx
from tilelang.errors import TileUnsupportedError
from tilelang.ir import stmt as S

CUDA = "cuda -arch=sm_80"
emulated = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")


def check(func, *arrays, outputs=1):
    """The last arrays are those of the interpreter, and the emulator finds nothing."""
    mine = [array.copy() for array in arrays]
    tilelang.compile(func, target="cpu", execution_backend="interpret")(*mine)
    for target in (CUDA, "hip -mcpu=gfx942"):
        report = tilelang.sanitize(func, *(array.copy() for array in arrays), target=target)
        assert report.ok, str(report)
        for got, expected in zip(report.arguments[-outputs:], mine[-outputs:]):
            np.testing.assert_array_equal(got, expected)


X = (np.arange(8 * 64).reshape(8, 64) * 7 % 11 - 5).astype(np.float32)


@emulated
def test_rows_columns_and_a_store_in_one_loop():
    @T.prim_func
    def main(X: F32[8, 64], Y: F32[8, 64], Rows: F32[8], Columns: F32[64], Total: F32[1]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((8, 64), "float32")
            rows = T.alloc_fragment((8,), "float32")
            columns = T.alloc_shared((64,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(X, x)
            T.clear(rows)
            T.fill(columns, -100)
            T.clear(total)
            for i, j in T.Parallel(8, 64):
                x[i, j] = x[i, j] * 2
                rows[i] += x[i, j]
                columns[j] = T.max(columns[j], x[i, j])
                if x[i, j] > 0:
                    total[0] += 1
            T.copy(x, Y)
            T.copy(rows, Rows)
            T.copy(columns, Columns)
            T.copy(total, Total)

    shapes = (X.shape, 8, 64, 1)
    check(main, X, *(np.zeros(shape, np.float32) for shape in shapes), outputs=4)


@emulated
def test_elements_that_data_and_quotients_choose():
    @T.prim_func
    def main(K: I32[256], Count: I32[16], Many: I32[128], Parts: I32[8]):
        with T.Kernel(1, threads=64):
            count = T.alloc_shared((16,), "int32")
            many = T.alloc_shared((128,), "int32")  # too many for the registers of each thread
            parts = T.alloc_fragment((8,), "int32")
            T.fill(count, 3)
            T.clear(many)
            T.clear(parts)
            for i in T.Parallel(256):
                v = count[K[i] & 15] + 1
                count[K[i] & 15] = v
                many[K[i]] = T.max(i, many[K[i]])
                parts[i // 32] ^= K[i]
            T.copy(count, Count)
            T.copy(many, Many)
            T.copy(parts, Parts)

    k = (np.arange(256) * 37 % 101).astype(np.int32)
    check(main, k, *(np.zeros(size, np.int32) for size in (16, 128, 8)), outputs=3)


@emulated
def test_an_element_that_nothing_updates_keeps_what_it_has():
    @T.prim_func
    def main(X: F32[8, 64], S: F32[8]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((8,), "float32")
            T.copy(S, s)
            for i, j in T.Parallel(8, 64):
                if i > 3:
                    s[i] = T.max(s[i], X[i, j])
            T.copy(s, S)

    start = np.full(8, np.nan, np.float32)
    check(main, X, start)


def test_one_thread_for_each_element_needs_no_reduction():
    """One iteration of a row updates it, or one thread runs all of them."""

    @T.prim_func
    def main(X: F32[8, 64], S: F32[8], at: T.int32):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((8,), "float32")
            t = T.alloc_fragment((8,), "float32")
            T.clear(s)
            T.clear(t)
            for i, j in T.Parallel(8, 64):
                if j == at:
                    s[i] = s[i] * 2 + X[i, j]
            for i, j in T.Parallel(8, 64):
                t[i] = t[i] * 2 + X[i, j]
            for i in T.Parallel(8):
                S[i] = s[i] + t[i]

    found = []
    tilelang.compiler.lower(
        main, tilelang.target.parse_target(CUDA), tilelang.options.Options(),
        lambda name, func: found.extend(S.find(func.body, S.ReducerUpdate)),
    )  # fmt: skip
    assert not found


ORDER = """\
the value of `s[0]` would depend on the order in which threads run a T.Parallel
  expected: `s` updated in one way that may come in any order (+=, *=, max, min, &, |, ^), and not \
read in the loop otherwise
  got: `{got}`, run for `s[0]` by thread 0 at (i, j) = (0, 0) and {other}
  hint: use T.serial for the loop variables that the index lacks, or read the result in a loop of \
its own"""


@T.macro
def doubled(s, X, S, i, j):
    s[i] = s[i] * 2 + X[i, j]


@T.macro
def read(s, X, S, i, j):
    s[i] += X[i, j]
    S[i] = s[i]


@pytest.mark.parametrize("update, got, other", [
    (doubled, "s[i] = s[i] * T.float32(2.0) + X[i, j]", "thread 1 at (i, j) = (0, 4)"),
    (read, "s[i] = s[i] + X[i, j]", "thread 2 at (i, j) = (0, 1)"),
])  # fmt: skip
def test_results_that_depend_on_the_order_are_refused(update, got, other):
    @T.prim_func
    def main(X: F32[8, 64], S: F32[8]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((8,), "float32")
            T.clear(s)
            for i, j in T.Parallel(8, 64):
                update(s, X, S, i, j)
            T.copy(s, S)

    with pytest.raises(TileUnsupportedError) as caught:
        tilelang.lower(main, target=CUDA)
    assert str(caught.value).startswith(ORDER.format(got=got, other=other))


def test_a_result_that_the_order_may_change_is_warned_of():
    @T.prim_func
    def main(X: F32[8, 64], S: F32[8]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((8,), "float32")
            T.clear(s)
            for i, j in T.Parallel(8, 64):
                if X[i, j] > 0:
                    s[i] = s[i] * 2 + X[i, j]
            T.copy(s, S)

    warned = (
        "`s[i] = s[i] * T.float32(2.0) + X[i, j]` may be run for one element of `s` by thread 0 at "
        "(i, j) = (0, 0) and thread 1 at (i, j) = (0, 4): its value depends on their order if both "
        "store; update it in one way (+=, *=, max, min, &, |, ^) and read it after the loop"
    )
    with pytest.warns(tilelang.errors.TileWarning) as found:
        tilelang.lower(main, target=CUDA)
    assert [str(one.message) for one in found] == [warned]


@emulated
@pytest.mark.filterwarnings("error")
def test_indices_that_a_loop_around_computes_are_exchanged_without_a_warning():
    @T.prim_func
    def main(X: F32[128], Y: F32[128]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((128,), "float32")
            T.copy(X, s)
            for step in T.serial(7):
                h = 1 << step
                for i in T.Parallel(64):
                    at = i // h * (2 * h) + i % h
                    a, b = s[at], s[at + h]
                    s[at] = a + b
                    s[at + h] = a - b
            T.copy(s, Y)

    x = np.random.default_rng(6).integers(-9, 9, 128).astype(np.float32)
    check(main, x, np.zeros_like(x))


@pytest.mark.parametrize("form", ["if", "choice", "other choice", "name"])
def test_a_condition_may_say_which_element_it_is(form: str) -> None:
    """Simplification writes ``s[at]`` for ``s[i]`` there; it is the element that is stored."""

    @T.prim_func
    def main(X: F32[8, 64], S: F32[8]):
        with T.Kernel(1, threads=48):
            s = T.alloc_fragment((8,), "float32")
            T.copy(S, s)
            for i, j in T.Parallel(8, 64):
                if form == "if":
                    if i == 3:
                        s[i] += X[i, j]
                elif form == "choice":
                    s[i] = T.if_then_else(i == 3, s[i] + X[i, j], s[i])
                elif form == "other choice":
                    s[i] = T.if_then_else(i != 3, s[i], s[i] + X[i, j])
                else:
                    row = i + 0
                    if row == 3:
                        s[row] = s[row] + X[row, j]
            T.copy(s, S)

    start = np.arange(8, dtype=np.float32)
    check(main, X, start)


@emulated
@pytest.mark.parametrize("place", ["rows", "columns", "shifted", "one row"])
@pytest.mark.parametrize("scope", ["shared", "fragment"])
def test_a_flat_loop_over_rows_that_other_threads_hold(scope: str, place: str):
    """The tile that the loop reads comes through shared memory, and the loop is distributed as the
    partial results were laid out for."""
    index = {
        "rows": lambda i: (i // 16, i % 16),
        "columns": lambda i: (i % 16, i // 16),
        "shifted": lambda i: (i // 16, (i + 3) % 16),
        "one row": lambda i: (11, (i + 2) % 16),
    }[place]

    @T.prim_func
    def main(X: I32[16, 16], Y: I32[16, 16], S: I32[4]):
        with T.Kernel(1, threads=96):
            x = T.alloc_fragment((16, 16), "int32")
            s = (T.alloc_shared if scope == "shared" else T.alloc_fragment)((4,), "int32")
            T.copy(X, x)
            T.clear(s)
            for i in T.Parallel(256):
                s[i % 4] += x[index(i)]
            T.copy(x, Y)
            T.copy(s, S)

    x = np.arange(256, dtype=np.int32).reshape(16, 16) * 7 % 31
    check(main, x, np.zeros_like(x), np.zeros(4, np.int32), outputs=2)
