"""``T.dp4a``: sums of four products of bytes on every executor, over every kind of memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from executors import CPU, INTERPRETER, OPTIONS, SM_80

import tilelang
import tilelang.language as T


def variables(a: str, b: str, c: str) -> Any:
    @T.prim_func
    def f(A: T.Tensor((64, 16), a), B: T.Tensor((64, 16), b), C: T.Tensor((64, 4), c)):
        with T.Kernel(2, threads=32) as bx:
            row = bx * 32 + T.get_thread_binding()
            total = T.alloc_var(c)
            for q in T.serial(4):
                total = C[row, q]
                T.dp4a(A[row, q * 4], B[row, q * 4], total)
                C[row, q] = total

    return f


def tiles(a: str, b: str, c: str) -> Any:
    @T.prim_func
    def f(A: T.Tensor((64, 16), a), B: T.Tensor((64, 16), b), C: T.Tensor((64, 4), c)):
        with T.Kernel(2, threads=32) as bx:
            x, y, total = (
                T.alloc_shared((32, 16), a),
                T.alloc_shared((32, 16), b),
                T.alloc_shared((32, 4), c),
            )
            T.copy(A[bx * 32, 0], x)
            T.copy(B[bx * 32, 0], y)
            T.copy(C[bx * 32, 0], total)
            for i, q in T.Parallel(32, 4):
                T.dp4a(x[i, q * 4], y[i, q * 4], total[i, q])
            T.copy(total, C[bx * 32, 0])

    return f


FORMS = (variables, tiles)
KINDS = tuple(itertools.product(("int8", "uint8"), ("int8", "uint8"), ("int32", "uint32")))


def bytes_of(rng: np.random.Generator, kind: str) -> Any:
    info = np.iinfo(kind)
    drawn = rng.integers(info.min, info.max + 1, (64, 16)).astype(kind)
    drawn[0], drawn[1] = info.min, info.max
    return drawn


def check(form: Callable[[str, str, str], Any], kinds: tuple[str, str, str], how: str) -> None:
    rng = np.random.default_rng(len(form.__name__))
    a, b = bytes_of(rng, kinds[0]), bytes_of(rng, kinds[1])
    c = rng.integers(0, 2**32, (64, 4)).astype("uint32").view(kinds[2])
    c[:2] = np.iinfo(kinds[2]).max  # sums wrap
    products = (a.astype("int64") * b.astype("int64")).reshape(64, 4, 4).sum(-1)
    wanted = ((c.astype("int64") + products) % 2**32).astype("uint32").view(kinds[2])
    tilelang.compile(form(*kinds), **OPTIONS[how])(a, b, c)
    assert (c == wanted).all()


@pytest.mark.parametrize("how", [INTERPRETER, CPU])
@pytest.mark.parametrize("form", FORMS)
def test_dot_products_of_bytes_are_exact(form: Callable[[str, str, str], Any], how: str) -> None:
    for kinds in KINDS if how == INTERPRETER else KINDS[1::3]:
        check(form, kinds, how)


@pytest.mark.parametrize(("form", "kinds"), list(zip(FORMS, KINDS[::4], strict=True)))
def test_the_instruction_gives_the_same(
    form: Callable[[str, str, str], Any], kinds: tuple[str, str, str]
) -> None:
    check(form, kinds, SM_80)


@pytest.mark.parametrize("target", ["metal", "hip -mcpu=gfx942"])
@pytest.mark.parametrize("form", FORMS)
def test_other_gpus_compile_it(form: Callable[[str, str, str], Any], target: str) -> None:
    for kinds in KINDS[::3]:
        assert "tl_dp4a_" in tilelang.lower(form(*kinds), target).kernel_source
