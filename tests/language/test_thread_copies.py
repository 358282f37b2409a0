"""``T.ptx_cp_async`` by elements and by pointers, on every executor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import holds

import tilelang.language as T
from tilelang.errors import TileTypeError

HALVES = np.arange(256).astype(np.float16)


def pointer(buffer: Any, offset: Any, extent: int, access: int) -> Any:
    return T.tvm_access_ptr(T.type_annotation(buffer.dtype), buffer.data, offset, extent, access)


@pytest.mark.parametrize("count", [16, 8])
@pytest.mark.parametrize("form", ["threads", "a parallel loop"])
def test_pointers_say_how_many_elements_bytes_are(count: int, form: str) -> None:
    @T.prim_func
    def copies(A: T.Tensor((256,), "float16"), B: T.Tensor((256,), "float16")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            s = T.alloc_shared((256,), "float16")
            if form == "threads":
                T.ptx_cp_async(pointer(s, tx * 8, 8, 2), pointer(A, tx * 8, 8, 1), count)
            else:
                for i in T.Parallel(32):
                    T.ptx_cp_async(pointer(s, i * 8, 8, 2), pointer(A, i * 8, 8, 1), count)
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            T.sync_threads()
            T.copy(s, B)

    holds(copies, (HALVES, 0 * HALVES), HALVES)


@pytest.mark.parametrize("kind", ["uint8", "float32"])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_copies_of_every_size_with_predicates_and_rows(kind: str, size: int) -> None:
    count = size // (4 if kind == "float32" else 1)
    rows, width = 8, 4 * count

    @T.prim_func
    def copies(A: T.Tensor((rows + 1, width), kind), B: T.Tensor((rows, width), kind)):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((rows, width), kind)
            for i, j in T.Parallel(rows, 4):
                T.ptx_cp_async(
                    pointer(s, i * width + j * count, count, 2),
                    pointer(A, (i + 1) * width + j * count, count, 1),
                    count,
                    predicate=T.And(i < 5, j != 2),
                )
            T.ptx_commit_group()
            T.ptx_wait_group(0)
            T.sync_threads()
            T.copy(s, B)

    a = (np.arange((rows + 1) * width) % 251).reshape(rows + 1, width).astype(kind)
    wanted = a[1:].copy()
    wanted[5:] = 0
    wanted[:, 2 * count : 3 * count] = 0
    holds(copies, (a, 0 * wanted), wanted)


def test_a_pointer_of_another_type_is_refused() -> None:
    with pytest.raises(TileTypeError) as caught:

        @T.prim_func
        def copies(A: T.Tensor((256,), "float16")):
            with T.Kernel(1, threads=32):
                s = T.alloc_shared((256,), "float16")
                words = T.tvm_access_ptr(T.type_annotation("uint8"), s.data, 0, 16, 2)
                T.ptx_cp_async(words, T.access_ptr(A[0], "r", 8), 16)

    assert str(caught.value).split("\n --> ")[0] == (
        "the destination of T.ptx_cp_async does not point to neighbouring elements of its buffer\n"
        "  expected: a pointer to float16 in a buffer without strides\n"
        "  got: a pointer to uint8 in `s`"
    )
