"""Random tile programs compute the same before and after loops are joined, also in place."""

from __future__ import annotations

from typing import Any

import numpy as np
from contexts import CPU
from hypothesis import given, settings, strategies as st

import tilelang.language as T
from tilelang import interpret
from tilelang.cpu.loops.array_contraction import contract_arrays
from tilelang.cpu.loops.loop_fusion import fuse_loops
from tilelang.ir import stmt as S
from tilelang.transforms.lower.guards import insert_guards

from .test_loop_fusion import loops

N = 4


@T.macro
def add(x: Any, y: Any, z: Any) -> None:
    for i, j in T.Parallel(N, N):
        z[i, j] = x[i, j] + y[i, j]


@T.macro
def turn(x: Any, y: Any, z: Any) -> None:
    for i, j in T.Parallel(N, N):
        z[i, j] = x[j, i] - y[i, j]


@T.macro
def shift(x: Any, y: Any, z: Any) -> None:
    for i, j in T.Parallel(N, N - 1):
        z[i, j] = x[i, j + 1] + y[i, j]


@T.macro
def rows(x: Any, y: Any, z: Any) -> None:
    r = T.alloc_fragment((N,), "float32")
    T.reduce_sum(x, r, dim=1)
    for i, j in T.Parallel(N, N):
        z[i, j] = y[i, j] - r[i]


@T.macro
def columns(x: Any, y: Any, z: Any) -> None:
    r = T.alloc_fragment((N,), "float32")
    T.reduce_max(x, r, dim=0)
    for i, j in T.Parallel(N, N):
        z[i, j] = y[i, j] + r[j]


@T.macro
def pick(x: Any, y: Any, z: Any) -> None:
    for i, j in T.Parallel(N, N):
        if x[i, j] > 0.0:
            z[i, j] = y[i, j]


@T.macro
def move(x: Any, y: Any, z: Any) -> None:
    T.copy(x, z)


WORDS = {word.__name__: word for word in (add, rows, columns, pick, move)}
# What reads other elements than it writes gets another tile for its result.
APART = {"turn": turn, "shift": shift}
steps = st.lists(
    st.tuples(
        st.sampled_from([*WORDS, *APART]),
        st.integers(0, 5), st.integers(0, 5), st.integers(0, 5),
    ),
    min_size=2, max_size=7,
)  # fmt: skip


def program(chosen: list[tuple[str, int, int, int]]) -> S.PrimFunc:
    @T.prim_func
    def kernel(A: T.Tensor((N, N), "float32"), B: T.Tensor((N, N), "float32")):
        with T.Kernel(1, threads=1):
            a = T.alloc_shared((N, N), "float32")
            b = T.alloc_fragment((N, N), "float32")
            c = T.alloc_shared((N, N), "float32")
            d = T.alloc_fragment((N, N), "float16")
            T.copy(A, a)
            T.copy(B, b)
            T.fill(c, 1.0)
            T.copy(A, d)
            run(chosen, [A, a, b, c, d, B])
            T.copy(c, B)

    return kernel


def run(chosen: list[tuple[str, int, int, int]], names: list[Any]) -> None:
    """The chosen operations, traced one after the other."""
    for word, x, y, z in chosen:
        if word in WORDS:
            WORDS[word](names[max(1, min(x, 4))], names[y], names[z])  # a reduction reads a tile
        elif z not in (x, y, 0, 5):  # tensors may be one
            APART[word](names[x], names[y], names[z])


@settings(max_examples=30, deadline=None)
@given(steps, st.booleans())
def test_random_programs_compute_the_same(
    chosen: list[tuple[str, int, int, int]], in_place: bool
) -> None:
    plain = loops(program(chosen))
    joined = insert_guards(contract_arrays(fuse_loops(plain, CPU), CPU), CPU)
    numbers = np.random.default_rng(len(chosen)).integers(-8, 9, (2, N, N)).astype(np.float32)
    results = []
    for func in (plain, joined):
        A, B = numbers.copy()
        if in_place:
            B = A
        interpret.run(func, (A, B))
        results.append((A, B))
    for wanted, found in zip(*results):
        np.testing.assert_array_equal(found, wanted)
