"""Waits for products of warpgroups: where they are, that each is needed, and results."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from executors import SM_90A, holds
from tensor_types import F16, F32

import tilelang
import tilelang.language as T
from tilelang.compiler import lower
from tilelang.ir import schedule as H, stmt as S
from tilelang.options import Options
from tilelang.target import parse_target

HOPPER = parse_target("cuda -arch=sm_90a")


def after_pass(func: Any) -> S.PrimFunc:
    """The program behind the pass."""
    found: list[S.PrimFunc] = []

    def look(name: str, made: S.PrimFunc) -> None:
        if name == "insert_waits":
            found.append(made)

    lower(func, HOPPER, Options(), look)
    return found[0]


def order(func: Any) -> list[str]:
    """Products, waits, fills and loops in the order of the text."""
    found = []
    for node in S.walk(after_pass(func).body):
        if isinstance(node, S.Gemm):
            found.append(f"{'start' if node.asynchronous else 'multiply'} {node.c.buffer.name}")
        elif isinstance(node, H.WaitProducts):
            names = " ".join(region.buffer.name for region in node.sums)
            found.append(f"wait {node.newer}: {names}")
        elif isinstance(node, S.Fill):
            found.append(f"fill {node.dst.buffer.name}")
        elif isinstance(node, S.Parallel):
            found.append("loop")
    return found


def small(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(shape[-1]).integers(-3, 4, shape).astype(np.float16)


@T.prim_func
def two(A: F16[64, 64], B: F16[2, 64, 64], O: F32[2, 64, 64]):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), "float16")
        b = T.alloc_shared((64, 64), "float16")
        c = T.alloc_shared((64, 64), "float16")
        x = T.alloc_fragment((64, 64), "float32")
        y = T.alloc_fragment((64, 64), "float32")
        T.copy(A, a)
        T.copy(B[0, 0, 0], b)
        T.copy(B[1, 0, 0], c)
        T.gemm(a, b, x, clear_accum=True)
        T.gemm(a, c, y, clear_accum=True)
        for i, j in T.Parallel(64, 64):
            x[i, j] = x[i, j] + 1.0
        for i, j in T.Parallel(64, 64):
            y[i, j] = y[i, j] * 2.0
        T.copy(x, O[0, 0, 0])
        T.copy(y, O[1, 0, 0])


def two_results() -> tuple[Any, ...]:
    A, B = small(64, 64), small(2, 64, 64)
    O = A.astype(np.float32) @ B.astype(np.float32)
    return A, B, np.zeros_like(O), np.stack([O[0] + 1, O[1] * 2])


def test_a_product_is_waited_for_where_its_sum_is_used() -> None:
    assert order(two) == ["start x", "start y", "wait 1: x", "loop", "wait 0: y", "loop"]
    *given, wanted = two_results()
    holds(two, tuple(given), wanted, on=(SM_90A,))


@T.prim_func
def reads_an_operand(A: F16[64, 64], B: F16[64, 64], O: F32[64, 64], R: F16[64, 64]):
    with T.Kernel(1, threads=128):
        a = T.alloc_fragment((64, 64), "float16")
        b = T.alloc_shared((64, 64), "float16")
        r = T.alloc_fragment((64, 64), "float16")
        x = T.alloc_fragment((64, 64), "float32")
        T.copy(A, a)
        T.copy(B, b)
        T.gemm(a, b, x, clear_accum=True)
        for i, j in T.Parallel(64, 64):
            r[i, j] = a[i, j] * T.float16(2)
        T.copy(x, O)
        T.copy(r, R)


def test_an_operand_in_registers_is_read_when_its_product_is_complete() -> None:
    words = order(reads_an_operand)
    assert words[words.index("start x") :][:3] == ["start x", "wait 0: x", "loop"]
    a, b = small(64, 64), small(64, 64)
    x = a.astype(np.float32) @ b.astype(np.float32)
    holds(reads_an_operand, (a, b, np.zeros_like(x), np.zeros_like(a)), x, a * 2, on=(SM_90A,))


@T.prim_func
def chain(A: F16[64, 256], B: F16[256, 64], n: T.int32, O: F32[64, 64]):
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), "float16")
        b = T.alloc_shared((64, 64), "float16")
        p = T.alloc_fragment((64, 64), "float16")
        x = T.alloc_fragment((64, 64), "float32")
        y = T.alloc_fragment((64, 64), "float32")
        T.fill(y, 0)
        for k in T.serial(n):
            T.copy(A[0, k * 64], a)
            T.copy(B[k * 64, 0], b)
            T.gemm(a, b, x, clear_accum=True)
            T.gemm(a, b, y)
            T.copy(x, p)
            T.gemm(p, b, y)
        T.copy(y, O)


def chain_results(n: int) -> tuple[Any, ...]:
    A, B = small(64, 256), small(256, 64)
    O = np.zeros((64, 64), np.float32)
    for k in range(n):
        a, b = A[:, 64 * k : 64 * k + 64], B[64 * k : 64 * k + 64]
        once = a.astype(np.float32) @ b.astype(np.float32)
        O += once + once.astype(np.float16).astype(np.float32) @ b.astype(np.float32)
    return A, B, O


@pytest.mark.parametrize("n", [0, 3])
def test_products_in_a_loop(n: int) -> None:
    A, B, O = chain_results(n)
    holds(chain, (A, B, n, 0 * O), O, on=(SM_90A,))


def test_an_iteration_ends_what_the_next_would_disturb() -> None:
    # A product that adds to the same registers waits for none; the last one of an iteration, which
    # adds to what threads have filled, is complete where that ends.
    assert [item for item in order(chain) if item != "loop"] == [
        "fill y", "start x", "start y", "wait 1: x", "start y", "wait 0: y",
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["two", "chain"])
def test_no_wait_may_come_later(name: str) -> None:
    func = {"two": two, "chain": chain}[name]
    A, B, *more = two_results()[:2] if name == "two" else (*chain_results(3)[:2], 3)
    kernel = tilelang.compile(func, target="cuda -arch=sm_90a", execution_backend="emulator")
    O = np.zeros((2, 64, 64) if name == "two" else (64, 64), np.float32)
    text = kernel.get_kernel_source()
    assert tilelang.sanitize(kernel, A, B, *more, O, schedule="late").ok
    waits = list(re.finditer(r"tl_wgmma_wait<(\d)>", text))
    assert len(waits) >= 2
    for wait in waits:
        later = f"tl_wgmma_wait<{int(wait[1]) + 1}>"
        edited = text[: wait.start()] + later + text[wait.end() :]
        assert not tilelang.sanitize(kernel, A, B, *more, O, schedule="late", source=edited).ok


def slopes(length: int, stages: int) -> Any:
    """Products of a pipeline of two tiles: what is computed of the first product overlaps the
    second, and what is computed of that the third, which the last statements need not."""

    @T.prim_func
    def kernel(A: F16[length, 64], B: F16[length, 64], X: F32[64, 64], Y: F32[length, 64]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            w = T.alloc_fragment((64, 64), "float16")
            s = T.alloc_fragment((64, 64), "float32")
            x = T.alloc_fragment((64, 64), "float32")
            y = T.alloc_fragment((64, 64), "float32")
            T.clear(x)
            for k in T.Pipelined(length // 64, num_stages=stages):
                T.copy(A[k * 64, 0], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                T.gemm(a, a, y, transpose_B=True, clear_accum=True)
                T.copy(s, w)
                T.gemm(w, b, x)
                for i, j in T.Parallel(64, 64):
                    y[i, j] = y[i, j] + 1.0
                T.copy(y, Y[k * 64, 0])
            T.copy(x, X)

    return kernel


@pytest.mark.parametrize(("length", "stages"), [(64, 2), (128, 1), (320, 3)])
def test_deferred_releases_delay_no_thread(length: int, stages: int) -> None:
    A, B = small(length, 64), small(length, 64) // 2
    X, Y = np.zeros((64, 64), np.float32), np.zeros((length, 64), np.float32)
    wanted, blocks = X.copy(), Y.copy()
    for k in range(0, length, 64):
        a, b = (part[k : k + 64].astype(np.float32) for part in (A, B))
        wanted += (a @ b.T).astype(np.float16).astype(np.float32) @ b
        blocks[k : k + 64] = a @ a.T + 1
    kernel = tilelang.compile(
        slopes(length, stages), target="cuda -arch=sm_90a", execution_backend="emulator"
    )
    assert tilelang.sanitize(kernel, A, B, X, Y, schedule="late").ok
    kernel(A, B, X, Y)
    np.testing.assert_array_equal(X, wanted)
    np.testing.assert_array_equal(Y, blocks)


# -- products that a program leaves in flight itself ------------------------------------------------
def two_products(first=1, second=0, leaves=False):
    """Two products in flight at once; the waits leave ``first`` and ``second`` of them."""

    @T.prim_func
    def own_two(A: F16[64, 128], B: F16[128, 64], C: F32[64, 64]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 128), "float16")
            b = T.alloc_shared((128, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            d = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.wgmma_gemm(a, b, c, clear_accum=True)
            T.gemm(a, b, d, clear_accum=True, wg_wait=-1)
            T.wait_wgmma(first)
            for i, j in T.Parallel(64, 64):
                c[i, j] = c[i, j] * 2
            T.warpgroup_wait(second)
            for i, j in T.Parallel(64, 64):
                c[i, j] += d[i, j]
            if leaves:
                for k in T.serial(2):
                    break
            T.copy(c, C)

    return own_two


def results():
    a, b = small(64, 128), small(128, 64)
    product = a.astype(np.float32) @ b.astype(np.float32)
    return (a, b, 0 * product), 3 * product


def test_the_program_waits_for_its_products() -> None:
    func = two_products()
    assert order(func)[:5] == ["start c", "start d", "wait 1: c", "loop", "wait 0: d"]
    given, wanted = results()
    holds(func, given, wanted)


def test_a_wait_for_fewer_groups_is_added_after_one_for_too_many() -> None:
    """Each product is complete where its sum is used, and the report says who put the wait there."""
    given, wanted = results()
    for func, missing in ((two_products(first=2), "c"), (two_products(second=1), "d")):
        holds(func, given, wanted)
        report = tilelang.compile(func, target="cuda -arch=sm_90a").explain()
        sentence = rf"waits for the product of line \d+, whose accumulator `{missing}` is: "
        assert re.search(sentence + "not every path between them has a T.wait_wgmma", report)
    report = tilelang.compile(two_products(), target="cuda -arch=sm_90a").explain()
    assert "waits for the product" not in report


def test_a_kernel_that_may_end_early_waits_at_once() -> None:
    func = two_products(leaves=True)
    assert order(func)[:2] == ["multiply c", "multiply d"]
    given, wanted = results()
    holds(func, given, wanted)


def test_products_in_flight_on_some_paths_are_waited_for() -> None:
    @T.prim_func
    def own_ways(A: F16[64, 64], n: T.int32, C: F32[64, 64]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(A, b)
            T.clear(c)
            if n > 0:
                T.wgmma_gemm(a, b, c)
            T.copy(c, C)

    a = small(64, 64)
    square = a.astype(np.float32) @ a.astype(np.float32)
    assert order(own_ways)[-2:] == ["start c", "wait 0: c"]
    for n in (0, 1):
        holds(own_ways, (a, n, 0 * square), n * square, on=(SM_90A,))
