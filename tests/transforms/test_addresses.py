"""Indices of shared tiles become addresses under their layouts."""

from __future__ import annotations

from dataclasses import replace

from contexts import SM_80
from script_text import body_of, text

import tilelang.language as T
from tilelang.ir import stmt as S
from tilelang.ir.hints import BufferHints
from tilelang.ir.visitor import replace_buffers
from tilelang.layout.layout import Layout
from tilelang.transforms.lower.addresses import apply_layouts

SKEWED = Layout((8, 8), lambda i, j: (i, (j + i) % 8))


def test_a_tile_is_one_array_and_its_indices_are_those_of_its_layout() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8, 8), "float32")):
        with T.Kernel(1, threads=8):
            tx = T.get_thread_binding()
            tile = T.alloc_shared((8, 8), "float32")
            for i in T.serial(8):
                tile[i, tx] = A[i, tx]
            for i in T.serial(8):
                A[tx, i] = tile[tx, i]

    (tile,) = (stmt.buffer for stmt in S.walk(kernel.body) if isinstance(stmt, S.Alloc))
    laid = replace(tile, attrs=BufferHints(layout=SKEWED))
    before = replace(kernel, body=replace_buffers(kernel.body, {tile: laid}))
    alloc, _, loops = body_of(apply_layouts(before, SM_80)).partition("\n")
    assert alloc.startswith('tile = T.alloc_buffer((64,), "float32", scope="shared.dyn"')
    assert loops == text("""
        for i in range(8):
            tile[i * 8 + (i + tx) % 8] = A[i, tx]
        for i in range(8):
            A[tx, i] = tile[tx * 8 + (i + tx) % 8]
        """)


def test_a_program_without_layouts_is_unchanged() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=8):
            A[T.get_thread_binding()] = 1.0

    assert apply_layouts(kernel, SM_80) is kernel
