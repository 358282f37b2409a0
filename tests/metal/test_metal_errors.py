"""What Metal has not is refused with what to use instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tilelang.language as T
from tilelang.compiler import compile
from tilelang.errors import TileError
from tilelang.ir.stmt import PrimFunc
from tilelang.target import parse_target


def program(act: Callable[..., None], dtype: str = "float32") -> PrimFunc:
    @T.prim_func
    def func(A: T.Tensor((128,), dtype)):
        with T.Kernel(1, threads=128):
            act(A)

    return func


def refusal(func: PrimFunc) -> list[str]:
    with pytest.raises(TileError) as caught:
        compile(func, parse_target("metal"))
    lines = [line for line in str(caught.value).splitlines() if not line.startswith("  -->")]
    return [line.strip() for line in lines if "|" not in line and "at " not in line[:4]]


def put(A: Any, value: Any) -> None:
    A[0] = value


CASES = {
    "print": (program(lambda A: T.print(A[0])), "T.print is not available on Metal"),
    "assert": (
        program(lambda A: T.device_assert(A[0] > 0)), "T.device_assert is not available on Metal",
    ),
    "count": (
        program(lambda A: put(A, T.syncthreads_count(A[1] > 0))),
        "T.syncthreads_count is not available on Metal",
    ),
    "half": (
        program(lambda A: T.atomic_add(A[0], 1), "float16"),
        "T.atomic_add on float16 is not supported on Metal",
    ),
    "order": (
        program(lambda A: T.atomic_add(A[0], 1, memory_order="release"), "int32"),
        "T.atomic_add with memory_order='release' is not supported on Metal",
    ),
    "rounding": (
        program(lambda A: put(A, T.ieee_add(A[0], A[1], "ru"))),
        "T.ieee_add with rounding_mode='ru' is not available on Metal",
    ),
    "double": (
        program(lambda A: put(A, 1), "float64"),
        "the parameter `A` is of dtype float64, which Metal does not have",
    ),
    "grid": (program(lambda A: T.sync_grid()), "T.sync_grid is not available on Metal"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_refused(name: str) -> None:
    func, what = CASES[name]
    lines = refusal(func)
    assert lines[0] == what and any(line.startswith("expected: ") for line in lines)


def test_the_whole_text_of_a_refusal() -> None:
    assert refusal(CASES["half"][0])[:4] == [
        "T.atomic_add on float16 is not supported on Metal",
        "expected: int32, uint32 or float32",
        "got: `A` of dtype float16",
        "hint: accumulate in float32 and convert the sums afterwards",
    ]


def test_more_shared_memory_than_there_is() -> None:
    @T.prim_func
    def large(A: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((128, 128), "float32")
            T.copy(A, tile)
            for i, j in T.Parallel(128, 128):
                A[i, j] = tile[j, i]

    text = "\n".join(refusal(large))
    assert "65536" in text and "32768" in text
