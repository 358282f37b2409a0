"""``tilelang.utils.language``: questions about buffers, regions and elements."""

from __future__ import annotations

from typing import Any

import pytest

import tilelang.language as T
from tilelang.errors import TileTypeError
from tilelang.utils import language as ask


def looked_at(look: Any) -> Any:
    found: list[Any] = []

    @T.prim_func
    def program(A: T.Tensor((8, 16), "float16")):
        with T.Kernel(1, threads=32) as bx:
            shared = T.alloc_shared((8, 16), "float16")
            fragment = T.alloc_fragment((8, 16), "float32")
            local = T.alloc_local((4,), "int32")
            number = T.alloc_var("int32")
            found.append(look(A, shared, fragment, local, number, bx))

    return found[0], program


def extents(item: Any) -> list[Any]:
    """As helpers of programs ask: a buffer has no `region`, that of a slice has ranges."""
    region = getattr(item, "region", None)
    return list(item.shape) if region is None else [one.extent for one in region]


def test_only_slices_have_ranges() -> None:
    found, _ = looked_at(lambda A, s, *_: [extents(one) for one in (A, s, A[1, 0:4], A[:, 2:])])
    assert found == [[8, 16], [8, 16], [1, 4], [8, 14]]


def test_scopes() -> None:
    def look(*operands: Any) -> list[tuple[bool, ...]]:
        return [
            (
                ask.is_global(b), ask.is_shared(b), ask.is_fragment(b), ask.is_local(b),
                ask.is_local_var(b),
            )
            for b in operands[:5]
        ]  # fmt: skip

    answers, _ = looked_at(look)
    assert [row.index(True) for row in answers] == [0, 1, 2, 3, 4]
    assert all(sum(row) == 1 for row in answers)


def test_regions() -> None:
    def look(A: Any, shared: Any, fragment: Any, local: Any, number: Any, bx: Any) -> Any:
        region, element = A[bx * 2 : bx * 2 + 2, 4:8], A[1, 3]
        return {
            "shape": ask.retrieve_shape(region),
            "element": ask.retrieve_shape(element),
            "stride": ask.retrieve_stride(region),
            "offset": ask.retrieve_offset(element),
            "flat": ask.retrieve_buffer_and_offset(element)[1],
            "whole": (ask.is_full_region(A[0:8, 0:16]), ask.is_full_region(region)),
            "tile": ask.retrieve_shape(ask.to_buffer_region(element, extents=(2, 4))),
            "dtype": str(ask.retrieve_dtype(fragment)),
            "pointer": repr(ask.retrieve_ptr(element)),
        }

    found, _ = looked_at(look)
    assert found["shape"] == [2, 4]
    assert found["element"] == [1, 1]
    assert found["stride"] == [16, 1]
    assert found["offset"] == [1, 3]
    assert found["flat"] == 19
    assert found["whole"] == (True, False)
    assert found["tile"] == [2, 4]
    assert found["dtype"] == "float32"
    assert "A[1, 3]" in found["pointer"]


def test_no_buffer() -> None:
    with pytest.raises(TileTypeError, match="this is no buffer"):
        ask.retrieve_shape(3)
