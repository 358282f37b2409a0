"""Persistent tiles: which kernels loop over tiles, what the loop is, and that results stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import find_cxx
from gemm_program import gemm_program
from schedule_steps import PERSISTENT, ROLES, apply_part
from tensor_types import F16, I32

import tilelang
import tilelang.language as T
from tilelang.ir import stmt as S
from tilelang.ir.legal import check
from tilelang.options import Options
from tilelang.target import Context, parse_target
from tilelang.transforms.normalize.fold_zero_init import fold_zero_init
from tilelang.transforms.normalize.simplify import simplify_func

HOPPER = parse_target("cuda -arch=sm_90a")


def product(
    M: Any = 1792, N: Any = 1280, K: Any = 256, *, block: tuple[int, int, int] = (128, 64, 64),
    stages: int = 3, threads: int = 256, via: bool = True, **more: Any,
) -> Any:  # fmt: skip
    """A plain product; ``via``: its result goes through a shared tile."""
    return gemm_program(M, N, K, block, stages, threads, **{"out": "float16", "via": via} | more)


def persistent(
    func: S.PrimFunc, options: Options | None = None, fields: Any = (PERSISTENT,)
) -> S.PrimFunc:
    """With its loop over tiles."""
    context = Context(HOPPER, options or Options())
    made = simplify_func(fold_zero_init(simplify_func(func, context), context), context)
    made = apply_part(made, context, fields)
    check(made, "scheduled")
    return made


def parts(func: S.PrimFunc) -> list[S.Stmt]:
    return [n for n in S.walk(func.body) if isinstance(n, S.Copy) and n.hints.subtile is not None]


# -- the rule --
def adds(**names: Any) -> None:
    for i, j in T.Parallel(128, 64):
        names["c"][i, j] += 1.0


def doubles(**names: Any) -> None:
    for i, j in T.Parallel(128, 64):
        names["a"][i, j] *= 2.0


def meets(**names: Any) -> None:
    T.sync_threads()


@pytest.mark.parametrize(
    ("form", "options"),
    [
        ({"inside": doubles}, {}),  # registers of the loop's own
        ({"out": "float32"}, {}),
        ({"threads": 128}, {}),  # one warpgroup
        ({"M": 128}, {}),  # few tiles
        ({"extra": meets}, {}),  # no roles
        ({}, {"no_persistent_tiles": True}),
        ({}, {"no_roles": True}),
        ({}, {"no_wgmma": True}),
        ({}, {"no_tma": True}),
    ],
    ids=lambda fields: " ".join(f"{k}={getattr(v, '__name__', v)}" for k, v in fields.items()),
)
def test_kernels_that_are_not_persistent(form: dict[str, Any], options: dict[str, Any]) -> None:
    fields = (PERSISTENT, ROLES) if "extra" in form else (PERSISTENT,)
    assert not parts(persistent(product(**form), Options(**options), fields))


# -- results --
def small(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(shape[0]).integers(-3, 4, shape).astype(np.float16)


def same(func: Any, M: int, N: int, K: int, trans_b: bool = False, plus: float = 0.0) -> None:
    """The persistent kernel gives the product, with checks of every access."""
    assert parts(persistent(func))
    A, B = small(M, K), small(*((N, K) if trans_b else (K, N)))
    wide = B.astype(np.float32)
    wanted = (A.astype(np.float32) @ (wide.T if trans_b else wide) + plus).astype(np.float16)
    if find_cxx() is None:
        pytest.skip("needs a C++ compiler")
    C = 0 * wanted
    target = "cuda -arch=sm_90a"
    kernel = tilelang.compile(func, target=target, execution_backend="emulator")
    report = tilelang.sanitize(kernel, A, B, C, schedule="late")
    assert report.ok, str(report)
    np.testing.assert_array_equal(report.arguments[2], wanted)


CASES: dict[str, tuple[tuple[int, int, int], dict[str, Any]]] = {
    "partial tiles": ((1752, 632, 192), {"swizzle": (3,)}),
    "directly": ((1792, 640, 128), {"via": False, "trans_b": True}),
    "more parts than blocks of k": ((640, 6912, 128), {"block": (128, 256, 64)}),
    "three warpgroups": ((1344, 1280, 128), {"block": (192, 64, 64), "threads": 384}),
    "warpgroups side by side": ((1024, 2304, 128), {"block": (64, 256, 64)}),
    "an epilogue": ((1792, 640, 128), {"extra": adds}),
    "one stage, which has two versions": ((1792, 640, 256), {"stages": 1}),
}


@pytest.mark.parametrize("case", CASES)
def test_results(case: str) -> None:
    (M, N, K), form = CASES[case]
    func = product(M, N, K, **form)
    same(func, M, N, K, form.get("trans_b", False), 1.0 if "extra" in form else 0.0)


@pytest.mark.parametrize("size", [(1, 64, 64), (1000, 256, 512), (1792, 1280, 64)])
def test_extents_that_are_known_at_run_time(size: tuple[int, int, int]) -> None:
    M, N, K = T.dynamic("M"), T.dynamic("N"), T.dynamic("K")
    func = product(M, 8 * N, 8 * K, block=(128, 128, 64))
    same(func, *size)


# -- places that are read from memory --
def by_table(  # type: ignore[no-untyped-def]  # a traced function
    sizes: tuple[int, ...], N: int, bound: bool = True, inside: Any = lambda **names: None
):
    """Groups of rows, each times a matrix of its own, to places of a table; every thread looks its
    group up. ``bound``: the last tile of a group may have fewer rows; ``inside`` adds statements to
    the loop of products."""
    groups, total = len(sizes), sum(sizes)
    blocks = sum(-(-size // 128) for size in sizes)

    @T.prim_func
    def main(
        A: F16[total, 64], B: F16[groups, 64, N], rows: I32[groups], starts: I32[groups],
        padded: I32[groups], places: I32[groups], C: F16[total, N],
    ):  # fmt: skip
        with T.Kernel(blocks, N // 64, threads=256) as (bx, by):
            a = T.alloc_shared((128, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            group = T.alloc_local((1,), "int32")
            group[0] = 0
            for i in range(groups):
                if bx * 128 >= padded[i]:
                    group[0] = i
            line = bx * 128 - padded[group[0]]
            place = line + places[group[0]]
            here = rows[group[0]] - line
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[line + starts[group[0]], k * 32], a)
                T.copy(B[group[0], k * 32, by * 64], b)
                T.gemm(a, b, c)
                inside(group=group)
            for i, j in T.Parallel(128, 64):
                if bound:
                    if i < here:
                        C[place + i, by * 64 + j] = c[i, j]
                else:
                    C[place + i, by * 64 + j] = c[i, j]

    return main


TABLES: dict[str, tuple[tuple[int, ...], bool, bool]] = {
    "whole tiles": ((128, 1152, 512), True, False),
    "partial tiles": ((128, 300, 1, 897, 256), True, False),
    "the last tile is a part": ((1700, 101), True, False),
    "no bound": ((1024, 768), False, False),
    "places of which some rows are below 0": ((128, 300, 1, 897, 256), True, True),
}


@pytest.mark.parametrize("case", TABLES)
def test_results_at_loaded_indices(case: str) -> None:
    sizes, bound, below = TABLES[case]
    func = by_table(sizes, 640, bound)
    assert parts(persistent(func))
    if find_cxx() is None:
        pytest.skip("needs a C++ compiler")
    total = sum(sizes)
    A, B = small(total, 64), small(len(sizes) * 64, 640).reshape(-1, 64, 640)
    starts = np.cumsum((0, *sizes[:-1])).astype(np.int32)
    padded = np.cumsum([0, *(-(-size // 128) * 128 for size in sizes[:-1])]).astype(np.int32)
    groups = np.split(A.astype(np.float32), starts[1:])
    wanted = np.concatenate([part @ b.astype(np.float32) for part, b in zip(groups, B)])
    places = starts - 200 if below else starts
    if below:  # rows below 0 are outside, the first ones of the tensor come from those behind
        wanted = np.concatenate([wanted[200:], np.full((200, 640), np.nan)])
    tables = (np.array(sizes, np.int32), starts, padded, places.astype(np.int32))
    kernel = tilelang.compile(func, target=HOPPER, execution_backend="emulator")
    C = np.full((total, 640), np.nan, np.float16)
    report = tilelang.sanitize(kernel, A, B, *tables, C, schedule="late")
    assert report.ok, str(report)
    np.testing.assert_array_equal(report.arguments[6], wanted.astype(np.float16))


def test_a_table_in_registers_that_the_loop_changes_keeps_a_block_for_each_tile() -> None:
    def changes(**names: Any) -> None:
        names["group"][0] = 0

    assert not parts(persistent(by_table((128, 1152, 512), 640, inside=changes)))
