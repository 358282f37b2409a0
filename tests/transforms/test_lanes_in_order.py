"""Lanes that stay in order (atomic operations) load their operands together, and only then."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import re

import numpy as np
import pytest
from executors import agrees
from tensor_types import I32

import tilelang
import tilelang.language as T

N, BINS = 1000, 16


def bins(dtype="int32", guard="named", op="add", weights=True, tile=512):
    """A weighted histogram. ``guard``: its bounds check has a name, is inline, or is in a loop."""

    @T.prim_func
    def main(I: T.Tensor((N,), dtype), W: I32[N], Y: I32[BINS]):
        with T.Kernel(T.ceildiv(N, tile), threads=64) as b:
            s = T.alloc_shared((BINS,), "int32")
            for t in T.Parallel(BINS):
                s[t] = 0
            for t in T.Parallel(tile):
                if guard == "named":
                    at = b * tile + t
                    if at < N:
                        value = W[at] if weights else 1
                        if op == "add":
                            T.atomic_add(s[I[at]], value)
                        else:
                            T.atomic_max(s[I[at]], value)
                else:
                    if b * tile + t < N:
                        T.atomic_add(s[I[b * tile + t]], W[b * tile + t])
            for t in T.Parallel(BINS):
                T.atomic_add(Y[t], s[t])

    return main


CASES = [{}, {"dtype": "int64"}, {"dtype": "uint8"}, {"guard": "plain"}, {"weights": False, "tile": 256},
         {"op": "max", "tile": 1024}]  # fmt: skip


def loads(func) -> list[str]:
    """Loads of single elements of the tensors ``I`` and ``W`` in the text."""
    text = tilelang.compile(func, target="cuda -arch=sm_90a").get_kernel_source()
    return [line for line in re.findall(r"(?<!&)\b[IW]\[[^;]*", text) if "tl_copy" not in line]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_operands_come_as_vectors(case) -> None:
    assert loads(bins(**case)) == []
    rng = np.random.default_rng(0)
    i = rng.integers(0, BINS, N).astype(case.get("dtype", "int32"))
    agrees(bins(**case), (i, rng.integers(1, 9, N).astype("int32"), np.zeros(BINS, "int32")))


def chained():
    """Each lane reads what the one before has changed."""

    @T.prim_func
    def main(Y: I32[64]):
        with T.Kernel(1, threads=1):
            for t in T.vectorized(8):
                T.atomic_add(Y[Y[t] + 1], 1)

    return main


def test_what_the_kernel_changes_is_loaded_in_order() -> None:
    y = np.array([0, 1, 2, 3, 4, 5, 6, 7, *[0] * 56], "int32")
    agrees(chained(), (y,))


def first_of(size, where):
    """The first element above a limit in each row; later ones are skipped by a flag in ``where``."""
    scope = {"var": "local.var", "array": "local", "shared": "shared"}[
        where.removeprefix("nested ")
    ]

    @T.prim_func
    def main(X: I32[4, size], limit: T.int32, Y: I32[4]):
        with T.Kernel(4, threads=1) as b:
            go = T.alloc_buffer((1,), "int32", scope=scope)
            at = T.alloc_var("int32")
            go[0] = 1
            at = size
            for i in T.serial(size):
                if (limit < 90) if where.startswith("nested") else True:
                    if go[0] == 1:
                        if X[b, i] > limit:
                            go[0] = 0
                            at = i
            Y[b] = at

    return main


@pytest.mark.parametrize("size", [3, 8])
@pytest.mark.parametrize("where", ["var", "array", "shared", "nested array"])
def test_a_condition_that_an_iteration_changes_is_tested_in_each(where: str, size: int) -> None:
    x = np.random.default_rng(size).integers(0, 100, (4, size), "int32")
    agrees(first_of(size, where), (x, 50, np.zeros(4, "int32")))
