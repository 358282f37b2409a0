"""Products of bytes over all of k, and results that are stored where they belong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contexts import CPU

import tilelang
import tilelang.language as T
from tilelang.cpu.loops import k_loop_coalescing as steps
from tilelang.cpu.loops.gemm_forwarding import forward_gemm_copies
from tilelang.cpu.toolchain import find_compiler
from tilelang.ir import stmt as S
from tilelang.transforms.normalize.simplify import simplify_func

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")


def program(
    dtype: str = "int8", acc: str = "int32", K: int = 48, turned: bool = False,
    clear: str = "first", out: str = "",
) -> Any:  # fmt: skip
    """``C = A B`` by blocks of 8 x 16 in steps of 8."""
    M, N, bm, bn, bk = 16, 32, 8, 16, 8
    a_shape, b_shape = ((K, M), (N, K)) if turned else ((M, K), (K, N))

    @T.prim_func
    def kernel(A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype),
               C: T.Tensor((M, N), out or acc)):  # fmt: skip
        with T.Kernel(N // bn, M // bm, threads=32) as (bx, by):
            a = T.alloc_shared((bk, bm) if turned else (bm, bk), dtype)
            b = T.alloc_shared((bn, bk) if turned else (bk, bn), dtype)
            c = T.alloc_fragment((bm, bn), acc)
            if clear == "outside":
                T.fill(c, 3)
            for k in T.Pipelined(T.ceildiv(K, bk), num_stages=2):
                if turned:
                    T.copy(A[k * bk, by * bm], a)
                    T.copy(B[bx * bn, k * bk], b)
                else:
                    T.copy(A[by * bm, k * bk], a)
                    T.copy(B[k * bk, bx * bn], b)
                if clear == "first":
                    T.gemm(a, b, c, transpose_A=turned, transpose_B=turned, clear_accum=k == 0)
                else:
                    T.gemm(a, b, c, turned, turned, clear_accum=clear == "always")
            T.copy(c, C[by * bm, bx * bn])

    return kernel


def lowered(func: Any) -> S.PrimFunc:
    return forward_gemm_copies(simplify_func(func, CPU), CPU)


def depth(func: Any) -> tuple[int, int]:
    """Elements along k of the product, and loops around it."""
    nodes = list(S.walk(lowered(func).body))
    (gemm,) = (n for n in nodes if isinstance(n, S.Gemm))
    return int(gemm.a.extents[-2 if gemm.trans_a else -1]), sum(isinstance(n, S.For) for n in nodes)


def result(func: Any) -> str:
    """Where the product stores its result."""
    (gemm,) = (n for n in S.walk(lowered(func).body) if isinstance(n, S.Gemm))
    return str(gemm.c.buffer.name)


@pytest.mark.parametrize("turned", [False, True])
def test_a_loop_that_only_adds_products_of_bytes_is_one_product(turned: bool) -> None:
    assert depth(program(turned=turned)) == (48, 0)
    assert result(program(turned=turned)) == "C"


def test_as_many_steps_are_coalesced_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "ROOM", 30 * (8 + 16))
    assert depth(program()) == (24, 1)
    assert result(program()) == "c"


@pytest.mark.parametrize(
    "options",
    [{"dtype": "float16", "acc": "float32"}, {"clear": "always"}, {"K": 45}],
    ids=["sums that round", "the last product alone", "a step that is not whole"],
)
def test_other_loops_stay(options: dict[str, Any]) -> None:
    assert depth(program(**options)) == (8, 1)


def test_a_tile_that_is_added_to_or_converted_stays() -> None:
    assert depth(program(clear="outside")) == (48, 0)
    assert result(program(clear="outside")) == "c"
    assert result(program(out="float32")) == "c"


@needs_compiler
@pytest.mark.parametrize("room", [1 << 20, 30 * (8 + 16)], ids=["one", "parts"])
@pytest.mark.parametrize("clear", ["first", "outside", "always"])
@pytest.mark.parametrize("turned", [False, True])
def test_sums_are_the_same(
    room: int, clear: str, turned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "ROOM", room)
    rng = np.random.default_rng(0)
    A, B = (rng.integers(-128, 128, shape).astype(np.int8) for shape in ((16, 48), (48, 32)))
    C = np.full((16, 32), 9, np.int32)
    given = [np.ascontiguousarray(x.T) if turned else x for x in (A, B)]
    tilelang.compile(program(turned=turned, clear=clear), target="cpu", out_idx=None)(*given, C)
    part = slice(40, 48) if clear == "always" else slice(0, 48)
    wanted = A[:, part].astype(np.int64) @ B[part].astype(np.int64)
    np.testing.assert_array_equal(C, wanted + 3 * (clear == "outside"))


def small(dtype: str, N: int = 16, K: int = 16, M: int = 8) -> Any:
    """A batch of small products; the right operand may be padded beyond its tile."""

    @T.prim_func
    def kernel(X: T.Tensor((3, M, K), dtype), Y: T.Tensor((3, K, N), dtype),
               Z: T.Tensor((3, M, N), dtype)):  # fmt: skip
        with T.Kernel(3, threads=32) as i:
            x = T.alloc_shared((M, K), dtype)
            y = T.alloc_shared((K, N), dtype)
            z = T.alloc_fragment((M, N), dtype)
            T.copy(X[i, 0, 0], x)
            T.copy(Y[i, 0, 0], y)
            T.gemm(x, y, z, clear_accum=True)
            T.copy(z, Z[i, 0, 0])

    return kernel


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, ["global", "global", "local.fragment"]),
        ({"dtype": "float16"}, ["shared.dyn", "shared.dyn", "local.fragment"]),
        ({"N": 24}, ["global", "shared.dyn", "global"]),
        ({"K": 384, "M": 9}, ["global", "shared.dyn", "global"]),
        ({"K": 512}, ["global", "global", "global"]),
    ],
    ids=["small", "to be converted", "part of a vector", "large", "large for few rows"],
)
def test_small_operands_are_read_in_place_and_results_may_be_an_operand(
    options: dict[str, Any], expected: list[str]
) -> None:
    func = lowered(small(**{"dtype": "float32", **options}))
    (gemm,) = (n for n in S.walk(func.body) if isinstance(n, S.Gemm))
    assert [region.buffer.storage for region in (gemm.a, gemm.b, gemm.c)] == expected


@needs_compiler
def test_a_small_product_may_replace_its_operand() -> None:
    rng = np.random.default_rng(1)
    X, Y = (rng.integers(-3, 4, s).astype(np.float32) for s in ((3, 8, 16), (3, 16, 16)))
    wanted = X @ Y
    tilelang.compile(small("float32"), target="cpu", out_idx=None)(X, Y, X)
    np.testing.assert_array_equal(X, wanted)
