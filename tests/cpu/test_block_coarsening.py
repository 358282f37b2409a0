"""One block does the columns of its neighbours where they differ in nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from contexts import CPU
from script_text import body_of, text

import tilelang.language as T
from tilelang import interpret
from tilelang.cpu.loops.array_contraction import contract_arrays
from tilelang.cpu.loops.block_coarsening import coarsen_blocks
from tilelang.cpu.loops.loop_fusion import fuse_loops
from tilelang.ir import stmt as S
from tilelang.transforms.normalize.simplify import simplify_func

from .test_loop_fusion import loops


def before(func: S.PrimFunc) -> S.PrimFunc:
    return contract_arrays(fuse_loops(loops(func), CPU), CPU)


def unchanged(func: S.PrimFunc) -> bool:
    plain = before(func)
    return coarsen_blocks(plain, CPU) is plain


def launch_of(func: S.PrimFunc) -> S.Launch:
    return next(node for node in S.walk(func.body) if isinstance(node, S.Launch))


def columns(blocks: int = 32) -> S.PrimFunc:
    @T.prim_func
    def kernel(A: T.Tensor((2, blocks * 64), "float32"), B: T.Tensor((blocks * 64,), "float32")):
        with T.Kernel(blocks, threads=1) as b:
            a = T.alloc_shared((2, 64), "float32")
            s = T.alloc_fragment((64,), "float32")
            T.clear(s)
            T.copy(A[0, b * 64], a)
            T.reduce_sum(a, s, dim=0, clear=False)
            T.copy(s, B[b * 64])

    return kernel


def test_few_blocks_stay_for_the_cores() -> None:
    assert unchanged(columns(blocks=16))


def put(tensor: Any, at: Any, value: Any) -> None:
    tensor[at] = value


# What a block does with index ``i`` of its row, and whether blocks do the columns of neighbours.
ROWS: dict[str, tuple[Callable[..., Any], bool]] = {
    "elements of its row": (lambda A, B, b, i: put(A, b * 32 + i, 1), True),
    "its number": (lambda A, B, b, i: put(A, b * 32 + i, b), False),
    "a place in the row": (lambda A, B, b, i: put(A, b * 32 + i, B[i]), False),
    "rows with gaps": (lambda A, B, b, i: put(A, b * 64 + i, 1), False),
    "a column": (lambda A, B, b, i: put(A, (b * 32 + i, 0), 1), False),
    "a sum of all blocks": (lambda A, B, b, i: T.atomic_add(B[0], A[b * 32 + i]), False),
}


@pytest.mark.parametrize("what", ROWS)
def test_blocks_that_differ_in_the_columns_alone_are_coarsened(what: str) -> None:
    statement, coarsened = ROWS[what]
    shape = (2048, 8) if what == "a column" else (4096,)

    @T.prim_func
    def kernel(A: T.Tensor(shape, "float32"), B: T.Tensor((32,), "float32")):
        with T.Kernel(64, threads=1) as b:
            for i in T.Parallel(32):
                statement(A, B, b, i)

    assert unchanged(kernel) != coarsened


def pairs(rest: int = 1) -> S.PrimFunc:
    @T.prim_func
    def kernel(A: T.Tensor((2, 4096), "float32"), B: T.Tensor((2, 2048), "float32")):
        with T.Kernel(32, threads=1) as b:
            a = T.alloc_shared((2, 128), "float32")
            T.copy(A[0, b * 128], a)
            for i, j in T.Parallel(2, 64):
                B[i, b * 64 + j] = a[i, 2 * j] + a[i, 2 * j + rest]

    return kernel


def test_tiles_of_pairs_grow_twice_as_much() -> None:
    transformed = coarsen_blocks(before(pairs()), CPU)
    assert body_of(simplify_func(transformed, CPU)) == text("""
        a = T.alloc_buffer((1, 256), "float32", scope="shared.dyn")
        for i in T.serial(2, parallel=0):
            for j in T.serial(256, parallel=1):
                a[0, j] = A[i, b * 256 + j]
            for j in T.serial(128, parallel=1):
                B[i, b * 128 + j] = a[0, j * 2] + a[0, j * 2 + 1]
        """)
    numbers = np.random.default_rng(0).integers(-9, 9, (2, 4096)).astype(np.float32)
    actual = np.zeros((2, 2048), np.float32)
    interpret.run(transformed, (numbers, actual))
    np.testing.assert_array_equal(actual, numbers[:, ::2] + numbers[:, 1::2])


def test_tiles_of_pairs_stay_where_an_element_is_not_of_the_pair() -> None:
    assert unchanged(pairs(rest=2))
