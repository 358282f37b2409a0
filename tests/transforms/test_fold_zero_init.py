"""A clear before a loop of products disappears exactly where that is safe."""

from __future__ import annotations

import re

import pytest
from contexts import CPU

import tilelang.language as T
from tilelang.ir import stmt as S
from tilelang.options import Options
from tilelang.target import Context, parse_target
from tilelang.transforms.normalize.fold_zero_init import fold_zero_init
from tilelang.transforms.normalize.simplify import simplify_func


def program(*, steps: int = 2, between: bool = False, partial: bool = False, twice: bool = False):  # type: ignore[no-untyped-def]  # a traced function
    @T.prim_func
    def kernel(A: T.Tensor((32, 64), "float32"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((32, 32), "float32")
            c = T.alloc_fragment((32, 32), "float32")
            if partial:
                T.clear(c[0:16, :])
            else:
                T.clear(c)
            if between:
                T.copy(c, C)
            for k in T.Pipelined(steps, num_stages=2):
                T.copy(A[0, k * 32], a)
                T.gemm(a, a, c)
                if twice:
                    T.gemm(a, a, c)
            T.copy(c, C)

    return kernel


def shape_of(func: S.PrimFunc) -> tuple[int, list[str]]:
    """Number of fills, and the clear condition of each product."""
    nodes = list(S.walk(func.body))
    fills = sum(isinstance(node, S.Fill) for node in nodes)
    return fills, [repr(node.clear) for node in nodes if isinstance(node, S.Gemm)]


def test_the_first_product_overwrites() -> None:
    func = simplify_func(program(), CPU)
    assert shape_of(func) == (1, ["T.bool(False)"])
    assert shape_of(fold_zero_init(func, CPU)) == (0, ["k == 0"])


@pytest.mark.parametrize(
    "options",
    [{"steps": 0}, {"between": True}, {"partial": True}, {"twice": True}],
    ids=["empty loop", "read in between", "partial clear", "two products"],
)
def test_otherwise_the_clear_stays(options: dict[str, object]) -> None:
    func = simplify_func(program(**options), CPU)
    assert fold_zero_init(func, CPU) is func
    assert shape_of(func)[0] == 1


# -- products of units that overwrite --
def scores(mask: str = "", between: bool = False):  # type: ignore[no-untyped-def]  # a traced function
    @T.prim_func
    def kernel(A: T.Tensor((32, 32), "float32"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(4, threads=32) as bx:
            a = T.alloc_shared((32, 32), "float32")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            if mask == "":
                T.clear(c)
            for i, j in T.Parallel(32, 32):
                if mask == "ge":
                    c[i, j] = T.if_then_else(bx * 8 + 2 * i >= j, 0.0, 5.0)
                if mask == "lt":
                    c[i, j] = T.if_then_else(j - i < bx * 8, 0.0, 5.0)
                if mask == "product":
                    c[i, j] = T.if_then_else(i * j >= bx, 0.0, 5.0)
                if mask == "ones":
                    c[i, j] = T.if_then_else(i >= j, 1.0, 0.0)
            if between:
                T.copy(c, C)
            T.gemm(a, a, c)
            T.copy(c, C)

    return kernel


def on_units(func: S.PrimFunc, options: Options | None = None) -> str:
    context = Context(parse_target("cuda -arch=sm_90a"), options or Options())
    return fold_zero_init(simplify_func(func, context), context).script()


def test_a_clear_in_front_of_a_product() -> None:
    found = on_units(scores())
    assert "T.fill" not in found and "T.gemm(a, a, c, clear_accum=True)" in found
    assert "clear_accum" not in on_units(scores(between=True))
    assert "clear_accum" not in on_units(scores(), Options(no_overlap=True))


def test_a_product_on_cores_overwrites_zeros_in_front_of_it() -> None:
    found = fold_zero_init(simplify_func(scores(), CPU), CPU).script()
    assert "T.fill" not in found and "T.gemm(a, a, c, clear_accum=True)" in found


@pytest.mark.parametrize(("mask", "zeros"), [("ge", "bx * 8 - 31 >= 0"), ("lt", "bx * 8 - 31 > 0")])
def test_a_mask_in_front_of_a_product(mask: str, zeros: str) -> None:
    found = on_units(scores(mask))
    assert f"T.gemm(a, a, c, clear_accum={zeros})" in found
    assert re.search(rf"if not \(?{re.escape(zeros)}\)?:\n +for i, j in T.Parallel", found)


@pytest.mark.parametrize("mask", ["product", "ones"])
def test_other_masks_stay(mask: str) -> None:
    assert "clear_accum" not in on_units(scores(mask))
