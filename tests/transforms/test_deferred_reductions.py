"""Running totals: which are added up between lanes at the end, and that they stay what they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import SM_90A, agrees
from tensor_types import F16, F32

import tilelang.language as T
from tilelang.compiler import lower
from tilelang.ir import stmt as S
from tilelang.options import Options
from tilelang.target import parse_target

HOPPER = parse_target("cuda -arch=sm_90a")


def weights(  # type: ignore[no-untyped-def]  # a traced function
    *, steps: int = 3, start: float = 0.0, early: bool = False, also: bool = False,
    kind: str = "sum", before: bool = False,
):  # fmt: skip
    """Sums of rows of products, scaled down in each step; ``early``: they are read in the loop,
    ``also``: their parts are, ``before``: they are read ahead of the loop."""

    @T.prim_func
    def main(A: F16[128, 64], B: F16[steps * 64, 64], C: F32[128], D: F32[128]):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            s = T.alloc_fragment((128, 64), "float32")
            top = T.alloc_fragment((128,), "float32")
            part = T.alloc_fragment((128,), "float32")
            total = T.alloc_fragment((128,), "float32")
            T.copy(A, a)
            T.fill(total, start)
            if before:
                T.copy(total, D)
            for k in T.Pipelined(steps, num_stages=2):
                T.copy(B[k * 64, 0], b)
                T.clear(s)
                T.gemm(a, b, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.reduce_max(s, top, dim=1)
                if kind == "sum":
                    T.reduce_sum(s, part, dim=1)
                else:
                    T.reduce_max(s, part, dim=1)
                for i in T.Parallel(128):
                    total[i] = total[i] * top[i] + part[i]
                if early:
                    T.copy(total, D)
                if also:
                    T.copy(part, D)
            T.copy(total, C)

    return main


def deferred(func: Any, options: Options | None = None) -> tuple[int, int]:
    """How many reductions leave lanes out, and how many totals are added up at the end."""
    found: list[S.PrimFunc] = []

    def look(name: str, made: S.PrimFunc) -> None:
        if name == "defer_reductions":
            found.append(made)

    lower(func, HOPPER, options or Options(), look)
    nodes = list(S.walk(found[0].body)) if found else []  # left out without wgmma
    partial = sum(isinstance(node, S.Reduce) and node.partial for node in nodes)
    return partial, sum(isinstance(node, S.ReducerFinalize) for node in nodes)


def test_a_running_total_is_added_up_where_it_is_read() -> None:
    assert deferred(weights()) == (1, 1)


@pytest.mark.parametrize(
    "other",
    [{"start": 1.0}, {"early": True}, {"also": True}, {"before": True}, {"kind": "max"}],
    ids=["begins with 1", "read in the loop", "parts are read", "read before", "a maximum"],
)
def test_other_reductions_are_unchanged(other: dict[str, Any]) -> None:
    assert deferred(weights(**other)) == (0, 0)


def test_products_by_single_warps_keep_their_sums() -> None:
    assert deferred(weights(), Options(no_wgmma=True)) == (0, 0)


@pytest.mark.parametrize("other", [{}, {"early": True}])
def test_results(other: dict[str, Any]) -> None:
    rng = np.random.default_rng(3)
    A, B = (rng.integers(-1, 2, shape).astype(np.float16) for shape in ((128, 64), (192, 64)))
    C, D = np.zeros(128, np.float32), np.zeros(128, np.float32)
    agrees(weights(**other), (A, B, C, D), 2, on=(SM_90A,))


def tiles(rows: int, threads: int = 128, group: int = 0, factor: bool = False) -> T.PrimFunc:
    """Sums of rows over tiles; ``group``: by the first threads only; ``factor``: with one."""

    @T.prim_func
    def main(X: F32[8, 2048], Z: F32[8], Y: F32[8]):
        with T.Kernel(8 // rows, threads=threads) as b:
            x = T.alloc_fragment((rows, 512), "float32")
            part = T.alloc_fragment((rows,), "float32")
            sums = T.alloc_fragment((rows,), "float32")
            scale = T.alloc_fragment((rows,), "float32")
            if not group or T.get_thread_binding() < group:
                T.clear(sums)
                for t in T.serial(4):
                    T.copy(X[b * rows, t * 512], x)
                    T.reduce_sum(x, part, dim=1)
                    if factor:
                        T.copy(Z[b * rows], scale)
                        for i in T.Parallel(rows):
                            sums[i] = sums[i] * scale[i] + part[i]
                    else:
                        for i in T.Parallel(rows):
                            sums[i] += part[i]
                T.copy(sums, Y[b * rows])

    return main


@pytest.mark.parametrize(
    ("rows", "group", "factor"), [(1, 0, False), (2, 128, False), (4, 0, True), (1, 128, True)]
)
def test_sums_over_tiles(rows: int, group: int, factor: bool) -> None:
    program = tiles(rows, 256 if group else 128, group, factor)
    assert deferred(program) == (1, 1) or factor
    rng = np.random.default_rng(rows)
    x = rng.integers(-4, 5, (8, 2048)).astype(np.float32)
    y, z = np.zeros(8, np.float32), rng.integers(1, 3, 8).astype(np.float32)
    agrees(program, (x, z, y), on=(SM_90A,))
