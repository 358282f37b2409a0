"""Which boxes of a tensor a copy is, and why it is none."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import contextlib
import itertools

import numpy as np
import pytest
from contexts import SM_90

import tilelang.language as T
from tilelang.ir import stmt as S
from tilelang.ir.facts import bounds_of
from tilelang.layout.swizzle import make_padded_layout, swizzled
from tilelang.transforms.analysis.tma import Boxes, TmaIneligibleError, boxes_of
from tilelang.transforms.schedule.tma_copies import TmaFacts, host_tensors


def copy_of(func) -> tuple[S.Copy, S.Launch]:
    launch = next(node for node in S.walk(func.body) if isinstance(node, S.Launch))
    return next(node for node in S.walk(launch) if isinstance(node, S.Copy)), launch


def boxes(func, layout=None) -> Boxes:
    copy, launch = copy_of(func)
    return boxes_of(copy, layout, bounds_of(launch))


def loading(
    tensor, tile, dtype="float16", at=None, region=None, strides=None, off=False, safe=0.0,
    written=False, few=False,
):  # fmt: skip
    """A program that copies a tile at ``at`` to a region of a tile in shared memory."""
    corner = at or (0,) * len(tensor)
    where = region or tuple(slice(0, extent) for extent in tile)
    kind = T.StridedTensor(tensor, strides, dtype) if strides else T.Tensor(tensor, dtype)

    @T.prim_func
    def program(A: kind):
        with T.Kernel(4, 4, threads=128) as (bx, by):
            s = T.alloc_shared(tile, dtype)
            if safe:
                T.annotate_safe_value({A: safe})
            if few:
                if T.get_thread_binding() < 20:
                    T.copy(A[corner], s[where])
            else:
                T.copy(A[corner], s[where], disable_tma=off)
            if written:
                T.copy(s, A)

    return program


def numbers(found: Boxes) -> list[tuple[list[int], list[int]]]:
    return [([int(i) for i in box.tile], [int(i) for i in box.tensor]) for box in found.boxes]


def test_a_whole_tile_is_one_box() -> None:
    found = boxes(loading((256, 512), (64, 128)))
    assert (found.extents, found.span, found.kind, found.bytes) == ((128, 64), 0, 6, 64 * 128 * 2)
    assert [int(stride) for stride in found.strides] == [2, 1024]
    assert numbers(found) == [([0, 0], [0, 0])]


def test_long_rows_are_one_box_of_two_dimensions_where_their_parts_are_whole() -> None:
    found = boxes(loading((4096,), (1536,), "float32"))
    assert (found.extents, numbers(found)) == ((256, 6), [([0], [0, 0])])
    assert [int(size) for size in found.sizes] == [256, 16]
    assert [int(stride) for stride in found.strides] == [4, 1024]
    found = boxes(loading((8, 6000), (2, 1200), "float16", at=(4, 2400)))
    assert (found.extents, numbers(found)) == ((240, 5, 2), [([0, 0], [0, 10, 4])])
    assert [int(size) for size in found.sizes] == [240, 25, 8]
    for shape, tile, at in [((8, 6001), (2, 1200), None), ((8, 6000), (2, 1200), (0, 1208))]:
        with contextlib.suppress(TmaIneligibleError):
            assert len(boxes(loading(shape, tile, "float16", at=at)).boxes) == 10
    deep = boxes(loading((2, 2, 2, 2, 1024), (1, 1, 1, 2, 1024)))
    assert len(deep.boxes) == 8 and len(deep.extents) == 5


@pytest.mark.parametrize(
    ("rank", "dtype", "size"),
    [
        (1, "int8", 1),
        (2, "bfloat16", 2),
        (3, "float32", 4),
        (4, "float64", 8),
        (5, "float8_e5m2", 1),
    ],
)
def test_tiles_of_every_rank(rank: int, dtype: str, size: int) -> None:
    shape, tile = (8, 9, 10, 11, 64)[-rank:], (2, 3, 2, 4, 32)[-rank:]
    found = boxes(loading(shape, tile, dtype))
    assert found.extents == tile[::-1]
    assert [int(stride) for stride in found.strides] == [
        size * int(np.prod(shape[d + 1 :])) for d in reversed(range(rank))
    ]


def test_planes_of_a_swizzled_tile_are_separate_boxes() -> None:
    layout = swizzled((3, 64, 128), 16, 128)
    found = boxes(loading((8, 64, 128), (3, 64, 128)), layout)
    assert found.extents == (64, 64, 1)
    places = [([z, 0, c], [c, 0, z]) for c, z in itertools.product((0, 64), range(3))]
    assert sorted(numbers(found)) == sorted(places)


def test_every_box_holds_what_the_copy_moves() -> None:
    """The bytes of the boxes, in their order, are the elements of the tile as it is stored."""
    for shape, span in itertools.product([(64, 64), (16, 256), (2, 24, 128)], [0, 32, 64, 128]):
        layout = swizzled(shape, 16, span) if span else None
        found = boxes(loading((4, *shape) if len(shape) < 3 else shape, shape), layout)
        space = np.full(int(np.prod(shape)), -1)
        addresses = (
            layout.addresses() if layout is not None else np.arange(space.size).reshape(shape)
        )
        values = np.arange(space.size).reshape(shape)
        for tile, tensor in numbers(found):
            start = addresses[tuple(tile)]
            assert start * 2 % 128 == 0
            low = tensor[::-1][-len(shape) :]
            box = found.extents[::-1][-len(shape) :]
            moved = values[tuple(slice(a, a + n) for a, n in zip(low, box))].ravel()
            offset = np.arange(moved.size)
            if span:
                line, chunk = offset * 2 // span, offset * 2 % span // 16
                phase = line % 8 // (128 // span)
                offset = (line * span + ((chunk ^ phase) * 16) + offset * 2 % 16) // 2
            space[start + offset] = moved
        np.testing.assert_array_equal(space[addresses], values)


# -- why not ---------------------------------------------------------------------------------------
def why(func, layout=None) -> str:
    with pytest.raises(TmaIneligibleError) as caught:
        boxes(func, layout)
    return str(caught.value)


def test_reasons_of_the_tensor() -> None:
    assert why(loading((64, 100), (64, 64))) == (
        "`100` elements of `A` along dimension 0 are not known to be a multiple of 16 bytes"
    )
    assert why(loading((64, T.dynamic("n")), (64, 64))) == (
        "`n` elements of `A` along dimension 0 are not known to be a multiple of 16 bytes"
    )
    assert why(loading((1, 2, 3, 4, 5, 64), (64,))) == ("`A` has 6 dimensions, TMA takes 1 to 5")
    assert (
        why(loading((64, 64), (64, 4))) == "it takes 8 bytes of a row of `A`, not multiples of 16"
    )


def test_strided_tensors() -> None:
    found = boxes(loading((64, 64), (64, 64), strides=(80, 1)))
    assert [int(stride) for stride in found.strides] == [2, 160]
    columns = loading((64, 64), (64, 64), strides=(1, 64))
    assert why(columns) == "the last dimension of `A` is not contiguous"


def test_reasons_of_the_tile() -> None:
    program = loading((64, 64), (64, 64))
    copy, _ = copy_of(program)
    assert why(program, make_padded_layout(copy.dst.buffer)) == (
        "the layout of `s` is not a swizzle of TMA"
    )
    part = loading((64, 64), (64, 64), region=(slice(0, 64), slice(0, 32)))
    assert why(part, swizzled((64, 64), 16, 128)) == (
        "it copies a part of the 128-byte panels of `s`"
    )
    rows = loading((64, 64), (64, 64), region=(slice(4, 64), slice(0, 64)))
    assert why(rows, swizzled((64, 64), 16, 128)) == (
        "it begins inside the 8 rows of a swizzle of `s`"
    )
    assert why(loading((64, 600), (64, 512), "float32")) == "it needs 128 boxes, more than 32"
    five = loading((64, 8), (5, 5, 8), region=(2, slice(0, 5), slice(0, 8)))
    assert why(five) == "its boxes do not start at multiples of 128 bytes of the tile"


# -- what else decides -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("form", "reason"),
    [
        ({}, None),
        ({"written": True}, "the kernel writes `A`, too"),
        ({"safe": 1.0}, "the safe value of `A` is not 0"),
        ({"off": True}, "disable_tma=True"),
        ({"few": True}, "only a part of a warp executes it"),
    ],
)
def test_reasons_of_the_program(form, reason: str | None) -> None:
    func = loading((64, 64), (64, 64), **form)
    copy, launch = copy_of(func)
    assert TmaFacts(launch, host_tensors(func), SM_90).refusal(copy) == reason
