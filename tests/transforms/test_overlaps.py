"""Operations that write what they read elsewhere: which of them work on a copy."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import pytest

import tilelang.language as T
from tilelang.ir import stmt as S
from tilelang.target import Context, parse_target
from tilelang.transforms.normalize.operations import separate_overlaps
from tilelang.transforms.normalize.simplify import simplify_func

CPU = Context(parse_target("cpu"))


def moving(first, second):
    """A copy from one slice of rows of a tile to another one."""

    @T.prim_func
    def moved(A: T.Tensor((8, 8), "float32")):
        with T.Kernel(2, threads=32) as bx:
            tile = T.alloc_shared((16, 8), "float32")
            T.fill(tile, 1.0)
            for k in T.serial(2):
                low, high = first(bx, k), second(bx, k)
                T.copy(tile[low : low + 4, 0:8], tile[high : high + 4, 0:8])

    return simplify_func(moved, CPU)  # as the pass list does


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda b, k: 0, lambda b, k: 4),
        (lambda b, k: k * 4, lambda b, k: k * 4 + 8),
        (lambda b, k: k, lambda b, k: 8 + b),  # at most 1 + 4 <= 8
        (lambda b, k: b * 4, lambda b, k: b * 4),  # each element onto itself
    ],
)
def test_disjoint_or_equal_regions_are_unchanged(first, second) -> None:
    func = moving(first, second)
    assert separate_overlaps(func, CPU) is func


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda b, k: 0, lambda b, k: 3),
        (lambda b, k: k, lambda b, k: 4 + b),  # 1 + 4 > 4
        (lambda b, k: k * 4, lambda b, k: b * 4),
    ],
)
def test_regions_that_may_overlap_go_through_a_fragment(first, second) -> None:
    made = separate_overlaps(moving(first, second), CPU)
    found = [node for node in S.walk(made.body) if isinstance(node, S.Copy)]
    assert len(found) == 2
    assert found[0].dst.buffer is found[1].src.buffer
    assert found[0].dst.buffer.storage == "local.fragment"
    assert found[0].dst.is_whole
    assert tuple(found[0].dst.extents) == (4, 8)
