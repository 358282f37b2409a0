"""Remarks on programs that run but hardly as they were meant."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import replay
from error_cases import ErrorCase, error_cases
from written import executed, kernel_of

import tilelang
import tilelang.language as T
from tilelang.errors import TileError, TileWarning
from tilelang.ir.lints import remarks
from tilelang.ir.stmt import PrimFunc

USED = "[unused-tile]"
CASES = error_cases(Path(__file__).with_name("lints.test"))


def traced(body: str) -> Any:
    tensors = "A: T.Tensor((8, 8), 'float16'), B: T.Tensor((8,), 'float32')"
    return kernel_of(body, tensors, "<lints>")


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_what_is_said(case: ErrorCase) -> None:
    found = remarks(traced(case.program))
    assert [str(remark) for remark in found] == case.error.splitlines()
    assert all(remark.loc is not None and remark.loc.file == "<lints>" for remark in found)


def heads(shape: tuple[int, ...], place: str, tile: tuple[int, ...] = (64, 16)) -> Any:
    text = (
        f"@T.prim_func\ndef f(A: T.Tensor({shape}, 'float16')):\n"
        f"    with T.Kernel(2, 8, threads=32) as (b, h):\n"
        f"        t = T.alloc_shared({tile}, 'float16')\n"
        f"        T.copy(A[{place}], t)\n        T.copy(t, A[0, 0, 0, 0])\n"
    )
    func = executed(text, "<heads>")["f"]
    return [item for item in remarks(func) if item.lint == "wrong-dimension"]


def test_a_tile_along_the_wrong_dimension_warns_with_a_fix() -> None:
    (found,) = heads((2, 64, 8, 16), "b, 0, h, 0")
    assert str(found) == (
        "the tile covers 64 elements of dimension 2 of `A`, whose extent is 8, from `h` on; for 64 "
        "elements of dimension 1 write the ranges, e.g. A[b, 0:64, h, 0:16] [wrong-dimension]"
    )
    assert found.loc is not None and found.loc.line == 5
    (found,) = heads((2, 256, 8, 16), "b, h * 64, 0, 0")
    assert "from `0` on" in str(found) and "A[b, h * 64:h * 64 + 64, 0, 0:16]" in str(found)
    (found,) = heads((2, 64, 8, 16), "b, 0, 3, 0")
    assert "from `3` on" in str(found) and "A[b, 0:64, 3, 0:16]" in str(found)


@pytest.mark.parametrize(
    ("shape", "place"),
    [
        ((2, 64, 8, 16), "b, 0:64, h, 0:16"),  # the ranges are written
        ((2, 64, 64, 16), "b, 0, h, 0"),  # as many heads as rows: it may be meant
        ((2, 4, 8, 16), "b, 0, h, 0"),  # no other dimension is long enough
        ((2, 64, 8, 16), "b, 0, h * 64, 0"),  # tiles in a row, the last one is cut off
        ((2, 64, 8, 16), "b, h, 0, 0"),  # a tile that is larger than a small tensor
    ],
)
def test_tiles_that_leave_a_small_tensor_are_no_mistake(shape: Any, place: str) -> None:
    assert heads(shape, place) == []


QUIET = [name for name in replay.groups() if not name.startswith("fuzz")]


@pytest.mark.share(4)
@pytest.mark.parametrize("group", QUIET)
def test_programs_of_corpus_examples_and_benchmarks_do_not_warn(group: str) -> None:
    if group == "cpu_bench":
        pytest.importorskip("torch", reason="these benchmarks make their inputs with torch")
    programs = [item for item in replay.groups()[group]() if isinstance(item.func, PrimFunc)]
    said = [f"{item.name}: {remark}" for item in programs for remark in remarks(item.func)]
    assert not said, "\n".join(said)


def test_copies_of_empty_tensors_do_not_warn() -> None:
    @T.prim_func
    def program(A: T.Tensor((0, 8), "float32"), B: T.Tensor((0, 8), "float32")):
        with T.Kernel(1, threads=32):
            T.copy(A, B)

    assert not remarks(program)


def test_random_programs_have_unused_tiles_and_nothing_else() -> None:
    programs = [item for item in replay.groups()["fuzz_000"]()]
    lints = {
        remark.lint
        for item in programs
        if not isinstance(item.func, TileError)
        for remark in remarks(item.func)
    }
    assert lints <= {"unused-tile"}


def compiled() -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        tilelang.compile(traced("\n" * BLANKS + "t = T.alloc_shared((8, 8), 'float16')"))
    return said


BLANKS = 3  # a line of its own, which no other test has reported


def test_a_remark_warns_once_per_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_DEFAULT_TARGET", "cpu")
    for off in ("all", "lost-update,unused-tile"):
        monkeypatch.setenv("TILELANG_LINTS_OFF", off)
        assert compiled() == []
    monkeypatch.setenv("TILELANG_LINTS_OFF", "lost-update")
    (said,) = compiled()
    assert said.category is TileWarning and (said.filename, said.lineno) == ("<lints>", 7)
    assert str(said.message).endswith(USED)
    assert compiled() == []


def test_an_update_from_another_element_is_no_lost_one() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((400,), "int32")):
        with T.Kernel(1, threads=1):
            for i in T.Parallel(200):
                A[i + 200] = A[i] + 1

    assert remarks(kernel) == []


def blocks(names: str, place: str, guard: str = "", sizes: str = "(64, 256)") -> list[str]:
    """What is said of a copy of tiles of 32 x 64 by a grid of 4 x 2 blocks."""
    text = (
        f"@T.prim_func\ndef f(A: T.Tensor({sizes}, 'float16'), B: T.Tensor({sizes}, 'float16')):\n"
        f"    with T.Kernel(4, 2, threads=32) as {names}:\n"
        f"        t = T.alloc_shared((32, 64), 'float16')\n"
        f"        {guard}T.copy(A[{place}], t)\n        T.copy(t, B[0, 0])\n"
    )
    func = executed(text, "<blocks>")["f"]
    return [str(item) for item in remarks(func) if item.lint == "swapped-dimensions"]


def test_swapped_block_indices_warn() -> None:
    assert blocks("(bx, by)", "bx * 32, by * 64") == [
        "copies start at up to 96 in dimension 0 of `A`, whose extent is 64, and end at 128 in "
        "dimension 1, whose extent is 256; the block indices may be swapped: `as (bx, by)` has "
        "them in the order of the extents of T.Kernel [swapped-dimensions]"
    ]


@pytest.mark.parametrize(
    ("place", "guard", "sizes"),
    [
        ("by * 32, bx * 64", "", "(64, 256)"),
        ("bx * 32, by * 64", "if bx < 2: ", "(64, 256)"),  # a condition says which blocks
        ("bx * 32, by * 64", "", "(128, 256)"),  # nothing is behind the end
        ("bx * 32, by * 64", "", "(64, 128)"),  # all columns are copied: some blocks are idle
        ("bx * 32, 0", "", "(64, 256)"),
    ],
)
def test_possibly_intended_blocks_do_not_warn(place: str, guard: str, sizes: str) -> None:
    assert blocks("(bx, by)", place, guard, sizes) == []


def test_a_lost_fraction_warns() -> None:
    """Not where the sum may be whole, or the conversion is written."""
    text = (
        "@T.prim_func\ndef f(A: T.Tensor((8,), 'float32'), B: T.Tensor((8,), 'int32')):\n"
        "    with T.Kernel(1, threads=1):\n"
        "        s = T.alloc_var('int32', 0)\n        for i in T.serial(8):\n"
        "            s += {}\n        B[0] = s\n"
    )
    said = {}
    for value in ("A[i] * 0.5", "A[i]", "T.floor(A[i] * 0.5)", "T.cast(A[i] * 0.5, 'int32')"):
        source = text.format(value)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            executed(source, "<sum>")
        said[value] = [(str(item.message), item.lineno) for item in caught]
    (found,) = said.pop("A[i] * 0.5")
    assert found == (
        '`s[0]` is int32, and the fraction of `T.Cast("float32", s[0]) + A[i] * T.float32(0.5)` is '
        "lost at every store; use a variable of dtype float32, or write T.cast(x, 'int32')", 6,
    )  # fmt: skip
    assert not any(said.values())


def test_an_unwritten_result_warns() -> None:
    @T.prim_func
    def forgets(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                A[i] = B[i]

    said = [str(item) for item in remarks(forgets, forgets.params[1:])]
    assert said == [
        "nothing writes the result `B`, whose elements are undefined; write them, e.g. by "
        "T.copy(tile, B[...]), or choose another out_idx [unwritten-output]"
    ]
    assert remarks(forgets, forgets.params[:1]) == []
    with pytest.warns(tilelang.errors.TileWarning, match="nothing writes the result `B`"):
        tilelang.compile(forgets, out_idx=-1, target="cpu")


def waiting(polled: Any, own: Any) -> PrimFunc:
    @T.prim_func
    def blocks(F: T.Tensor((16,), "int32"), Y: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=1) as b:
            while T.atomic_load(F[polled(b)], memory_order="acquire") == 0:
                T.evaluate(0)
            Y[b] = b
            T.atomic_store(F[own(b)], 1, memory_order="release")

    return blocks  # type: ignore[no-any-return]  # what the decorator gives


@pytest.mark.parametrize(
    ("polled", "own", "is_later"),
    [
        (lambda b: b + 1, lambda b: b, True),
        (lambda b: 5 - b, lambda b: 6 - b, True),
        (lambda b: 2 * b + 4, lambda b: 2 * b, True),
        (lambda b: b, lambda b: b + 1, False),  # of the block before
        (lambda b: 2 * b + 1, lambda b: 2 * b, False),  # of no thread
        (lambda b: 3, lambda b: b, False),
        (lambda b: 0, lambda b: 0, False),
    ],
)
def test_a_wait_for_a_later_block_warns(polled: Any, own: Any, is_later: bool) -> None:
    found, b = remarks(waiting(polled, own)), T.Var("b")
    message = (
        f"a block waits here for `F[{polled(b)!r}]`, which a later block stores "
        f"(`F[{own(b)!r}]`); the CPU and the interpreter run blocks in order, and the wait never "
        "ends there: let blocks wait for earlier ones [later-block]"
    )
    assert [*map(str, found)] == [message] * is_later
    assert all(item.loc and "while T.atomic_load" in (item.loc.source() or "") for item in found)


def meeting(cond: Any, other: Any = None) -> PrimFunc:
    """A barrier where ``cond`` holds for the thread; ``other`` follows."""

    @T.prim_func
    def meets(A: T.Tensor((128,), "float32"), n: T.int32):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            A[tx] = 1
            if cond(tx, n, A):
                A[tx] = 2
                T.sync_threads()
            if other is not None:
                other(tx)
            T.sync_threads()

    return meets


@T.macro
def also(tx: Any) -> None:
    if tx >= 10:
        T.sync_threads()


@T.macro
def returns(tx: Any) -> None:
    if tx == 3:
        T.thread_return()


@pytest.mark.parametrize(
    ("cond", "other", "missing"),
    [
        (lambda tx, n, A: tx < 10, None, 10),
        (lambda tx, n, A: tx != 0, None, 0),
        (lambda tx, n, A: (tx // 32) % 2 == 0, None, 32),
        (lambda tx, n, A: T.And(tx >= 2, tx - 1 < 64), None, 0),
        (lambda tx, n, A: n < 10, None, None),  # all threads or none
        (lambda tx, n, A: A[tx] > 0, None, None),  # the data decide
        (lambda tx, n, A: tx < n, None, None),
        (lambda tx, n, A: tx < 10, also, None),  # the others wait there
        (lambda tx, n, A: tx < 10, returns, None),
    ],
)
def test_a_barrier_that_some_threads_do_not_reach_is_reported(
    cond: Any, other: Any, missing: int | None
) -> None:
    found = remarks(meeting(cond, other))
    message = (
        f"thread {missing} does not reach this T.sync_threads(), which waits for all threads of "
        "the block; move it after the branch, or write T.sync_threads(barrier_id, arrive_count) "
        "with the number of threads that reach it [barrier-divergence]"
    )
    assert [*map(str, found)] == ([] if missing is None else [message])
    assert all(item.loc and "T.sync_threads()" in (item.loc.source() or "") for item in found)


def test_a_barrier_on_both_sides_or_of_a_group_does_not_warn() -> None:
    @T.prim_func
    def both(A: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=(32, 4)):
            ty = T.get_thread_binding(1)
            if ty < 2:
                T.sync_threads()
            else:
                T.sync_threads()
            if ty < 2:
                T.sync_threads(1, 64)
            if ty * 32 + T.get_thread_binding(0) < 40:
                T.sync_threads()

    assert [str(found)[:9] for found in remarks(both)] == ["thread 40"]
