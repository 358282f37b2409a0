"""Fragments with annotated layouts of every kind, through every kind of operation.

Each runs in the interpreter, on the CPU and as generated CUDA in the emulator, and is compared with
the interpreter. Which of them stay in registers is said at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from contexts import SM_80 as AMPERE
from executors import CPU, SM_80, agrees
from tensor_types import F32

import tilelang.language as T
from tilelang.compiler import lower
from tilelang.ir import stmt as S
from tilelang.layout import Fragment
from tilelang.options import Options
from tilelang.transforms.layouts.infer import infer_layouts
from tilelang.transforms.normalize.simplify import simplify_func
from tilelang.transforms.verify.bounds import verify_bounds

ROWS, COLUMNS = 32, 64
SHAPE = (ROWS, COLUMNS)


def flat(i: Any, j: Any) -> Any:
    return i * COLUMNS + j


# Name: threads of the block, the fragment, whether it is registers.
LAYOUTS: dict[str, tuple[int, Callable[[], Fragment], bool]] = {
    "rows in threads": (128, lambda: Fragment(SHAPE, lambda i, j: (i, j)), True),
    "registers backwards": (64, lambda: Fragment(SHAPE, lambda i, j: (j, 31 - i)), False),
    "threads with gaps": (128, lambda: Fragment(SHAPE, lambda i, j: (i * 4, j)), True),
    "registers with gaps": (64, lambda: Fragment(SHAPE, lambda i, j: (j, i * 3)), True),
    "vectors": (
        128,
        lambda: Fragment(SHAPE, lambda i, j: (
            flat(i, j) // 4 % 128, flat(i, j) // 512 * 4 + j % 4)), True),
    "96 threads": (
        96, lambda: Fragment(SHAPE, lambda i, j: (i % 3 * 32 + j % 32, i // 3 * 2 + j // 32)),
        True),
    "96 of 128 threads": (
        128, lambda: Fragment(SHAPE, lambda i, j: (flat(i, j) % 96, flat(i, j) // 96)), False),
    "exclusive or": (64, lambda: Fragment(SHAPE, lambda i, j: (j ^ i, i)), False),
    "two copies": (
        128, lambda: Fragment(SHAPE, lambda i, j, rep: (j + rep * 64, i), replicate=2), True),
    "all in all": (
        32, lambda: Fragment(SHAPE, lambda i, j, rep: (rep, flat(i, j)), replicate=32), True),
    "copies in one thread": (
        64, lambda: Fragment(SHAPE, lambda i, j, rep: (j, i), replicate=4), True),
    "threads alone, copies": (
        64,
        lambda: Fragment(SHAPE, forward_thread_fn=lambda i, j, rep: i + rep * 32, replicate=2),
        True),
}  # fmt: skip


def elementwise(layout: Fragment, threads: int) -> S.PrimFunc:
    @T.prim_func
    def main(
        A: T.Tensor(SHAPE, "float32"), B: T.Tensor(SHAPE, "float32"), M: F32[ROWS],
        N: F32[COLUMNS],
    ):  # fmt: skip
        with T.Kernel(1, threads=threads):
            x = T.alloc_fragment(SHAPE, "float32")
            m = T.alloc_fragment((ROWS,), "float32")
            n = T.alloc_fragment((COLUMNS,), "float32")
            T.annotate_layout({x: layout})
            T.copy(A, x)
            T.reduce_max(x, m, dim=1)
            for i, j in T.Parallel(ROWS, COLUMNS):
                x[i, j] = x[i, j] - m[i]
            T.reduce_sum(x, n, dim=0)
            T.copy(x, B)
            T.copy(m, M)
            T.copy(n, N)

    return main


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_fragment_is_copied_changed_and_reduced(name: str) -> None:
    threads, layout, _ = LAYOUTS[name]
    a = np.random.default_rng(0).integers(-50, 50, SHAPE).astype(np.float32)
    func = elementwise(layout(), threads)
    blank = (np.zeros(size, np.float32) for size in (SHAPE, ROWS, COLUMNS))
    agrees(func, (a, *blank), 3, on=(CPU, SM_80))
    verify_bounds(lower(func, AMPERE.target, Options()), AMPERE, all_memory=True)


@pytest.mark.parametrize("name", LAYOUTS)
def test_operand_layouts_are_kept_as_requested(name: str) -> None:
    threads, layout, registers = LAYOUTS[name]
    asked = layout()
    found = infer_layouts(simplify_func(elementwise(asked, threads), AMPERE), AMPERE)
    (tile,) = (
        node.buffer for node in S.walk(found.body)
        if isinstance(node, S.Alloc) and node.buffer.name == "x"
    )  # fmt: skip
    assert tile.storage == ("local.fragment" if registers else "shared")
    if registers:
        held = tile.attrs.register_layout
        np.testing.assert_array_equal(held.register_table(), asked.addresses())
        owners = [np.unique(row) for row in asked.thread_table().reshape(-1, asked.replicate_size)]
        table = np.sort(held.owner_table(), -1).reshape(len(owners), -1)
        np.testing.assert_array_equal(table, owners)


def test_a_loop_over_a_part_of_two_fragments_with_different_layouts() -> None:
    """One of both is moved to shared memory. The loop keeps the mapping that the other one fits,
    although for accesses of shared memory alone it would take another."""

    @T.prim_func
    def part(A: F32[64, 64], B: F32[64, 64]):
        with T.Kernel(1, threads=64):
            rows = T.alloc_fragment((64, 64), "float32")
            columns = T.alloc_fragment((64, 64), "float32")
            T.annotate_layout({rows: Fragment((64, 64), lambda i, j: (i, j))})
            T.annotate_layout({columns: Fragment((64, 64), lambda i, j: (j, i))})
            T.copy(A, rows)
            T.copy(A, columns)
            for i, j in T.Parallel(32, 64):
                columns[i, j] += rows[i, j]
            T.copy(columns, B)

    a = np.random.default_rng(0).standard_normal((64, 64)).astype("float32")
    agrees(part, (a, np.zeros_like(a)), on=(CPU, SM_80))
