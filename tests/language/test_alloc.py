"""Allocations: scope, shape, dtype and what they declare."""

# ruff: noqa: E501  # a program and the text it must give are one line each
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from vocabulary import one

import tilelang
import tilelang.language as T
from tilelang.errors import TileIndexError
from tilelang.ir.hints import BufferHints
from tilelang.ir.stmt import Alloc


@pytest.mark.parametrize(
    ("body", "shape", "dtype", "scope"),
    [
        (lambda: T.alloc_shared((4, 8), "float16"), (4, 8), "float16", "shared.dyn"),
        (lambda: T.alloc_shared([16], dtype=float, scope="shared"), (16,), "float32", "shared"),
        (lambda: T.alloc_fragment((4, T.ceildiv(9, 4)), "half"), (4, 3), "float16",
         "local.fragment"),
        (lambda: T.alloc_fragment((1,), "int32", "local"), (1,), "int32", "local"),
        (lambda: T.alloc_fragment((4,), "int8", scope="shared"), (4,), "int8", "shared"),
        (lambda: T.alloc_global((8, 4), "int32"), (8, 4), "int32", "global"),
        (lambda: T.alloc_var("int32", "local.var"), (1,), "int32", "local.var"),
        (lambda: T.alloc_tmem((128, 64), "float32"), (128, 64), "float32", "shared.tmem"),
        (lambda: T.alloc_wgmma_desc(), (1,), "uint64", "local.descriptor"),
        (lambda: T.alloc_tcgen05_instruction_desc(), (1,), "uint32", "local.descriptor"),
        (lambda: T.alloc_buffer((4,), "int8", scope="local"), (4,), "int8", "local"),
        (lambda: T.decl_buffer((4,), "int8", scope="shared"), (4,), "int8", "shared"),
    ],
)  # fmt: skip
def test_allocations(
    body: Callable[[], Any], shape: tuple[int, ...], dtype: str, scope: str
) -> None:
    made = one(body)
    assert isinstance(made, Alloc)
    assert (made.buffer.shape, made.buffer.dtype, made.buffer.scope()) == (shape, dtype, scope)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (lambda: T.alloc_var("int32", 2.9), 2),
        (lambda: T.alloc_var("int32", init=7), 7),
        (lambda: T.alloc_var("float32", 1, "local.var"), 1.0),
        (lambda: T.alloc_var("uint8", T.int32(255)), 255),
        (lambda: T.alloc_var("bool", True), True),
        (lambda: T.alloc_var(T.float32, -T.infinity("float32")), float("-inf")),
    ],
)
def test_initial_values_are_cast(body: Callable[[], Any], value: object) -> None:
    assert one(body).init.value == value


def test_barriers_declare_their_arrivals() -> None:
    single = one(lambda: T.alloc_barrier(128)).buffer
    assert single.shape == (1,) and single.attrs.arrive_counts == (128,)
    several = one(lambda: T.alloc_barrier(arrive_count=[1, 128])).buffer
    assert several.shape == (2,) and several.scope() == "shared.barrier"
    cluster = one(lambda: T.alloc_cluster_barrier([1])).buffer
    assert cluster.scope() == "shared.cluster_barrier"


def test_reducers_declare_operation_and_replication() -> None:
    assert one(lambda: T.alloc_reducer((4,), "float32", "max", "all")).buffer.attrs == BufferHints(
        reducer=("max", "all")
    )
    assert one(lambda: T.alloc_reducer(4, "float32")).buffer.attrs == BufferHints(
        reducer=("sum", "none")
    )


def test_an_element_of_a_tile_without_elements_is_an_error() -> None:
    @T.prim_func
    def main(X: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            X[0] = T.alloc_shared((0,), "float32")[0]

    with pytest.raises(TileIndexError, match=r"`buf\[0\]` is outside the shared.dyn buffer"):
        tilelang.compile(main, target="cpu", execution_backend="c")
