"""Tensor maps and the boxes that they move, against numpy indexing."""

from __future__ import annotations

import ctypes
import itertools
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.emulator.test_numbers import build

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
from agreement_cases import panel_bytes

Array = npt.NDArray[np.generic]
WRAPPER = r"""
#include <cstring>
#include "../runtime/tl_emu.h"
#include "../runtime/tma_copy.h"
namespace tl_emu {  // what atomics.cpp asks of the scheduler
Thread* self() { return nullptr; }
bool touch(Thread*, const void*, size_t, TlEmuAccess, const void*, unsigned) { return true; }
void yield(const void*) {}
void release_at(const void*) {}
void acquire_at(const void*) {}
void note_progress() {}
void begin_shared_byte(const void*) {}
}
extern "C" int tl_emu_is_shared(const void*) { return 0; }
using namespace tl_emu;
static Box made(const void* map, const int* at, const unsigned short* offsets) {
    Box box = {};
    memcpy(&box.map, map, 128);
    for (int d = 0; d < 5; ++d) box.at[d] = at[d];
    for (int d = 0; d < 3; ++d) box.offsets[d] = offsets[d];
    return box;
}
extern "C" void load(const void* map, const int* at, const unsigned short* offsets, uint8_t* shared, unsigned address, int copies, int apart) {
    TilePlace places[4];
    for (int c = 0; c < copies; ++c) places[c] = {shared + address + c * apart, address};
    load_box(made(map, at, offsets), places, copies);
}
extern "C" void store(const void* map, const int* at, uint8_t* shared, unsigned address, int what) {
    const unsigned short none[3] = {};
    store_box(made(map, at, none), {shared + address, address}, (char)what);
}
extern "C" long ranges(const void* map, const int* at, long* first) {
    const unsigned short none[3] = {};
    long bytes = 0;
    const auto found = global_ranges(made(map, at, none));
    for (const auto& range : found) bytes += range.bytes;
    *first = found.empty() ? 0 : (long)found[0].address;
    return bytes;
}
"""
TYPES = {"uint8": 0, "uint16": 1, "uint32": 2, "int32": 3, "float16": 6, "float32": 7, "float64": 8}
SPANS = {0: 16, 1: 32, 2: 64, 3: 128}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    made = build(
        tmp_path_factory.mktemp("tma"), WRAPPER,
        "tma_copy.cpp", "tensor_map.cpp", "atomics.cpp", "numbers.cpp",
    )  # fmt: skip
    made.tl_emu_tensor_map_reason.restype = ctypes.c_char_p
    return made


def numbers(kind: type, values: list[int]) -> ctypes.Array[ctypes.c_uint64]:
    return (kind * max(1, len(values)))(*values)  # type: ignore[operator]  # ctypes arrays


def words(values: list[int]) -> object:
    return numbers(ctypes.c_uint32, values)


def tiled(
    library: ctypes.CDLL, x: Array, box: list[int], swizzle: int = 0, steps: list[int] | None = None,
    fill: int = 0, kind: int | None = None,
) -> npt.NDArray[np.uint8]:  # fmt: skip
    """A map of a numpy array; `box` and `steps` innermost first."""
    out = np.zeros(128, np.uint8)
    dims, strides = list(x.shape[::-1]), list(x.strides[::-1])
    code = library.tl_emu_tensor_map_tiled(
        out.ctypes, TYPES[str(x.dtype)] if kind is None else kind, x.ndim,
        ctypes.c_void_p(x.ctypes.data), numbers(ctypes.c_uint64, dims),
        numbers(ctypes.c_uint64, strides[1:]), words(box), words(steps or [1] * x.ndim),
        0, swizzle, 0, fill,
    )  # fmt: skip
    assert code == 0, library.tl_emu_tensor_map_reason()
    return out


def aligned(shape: tuple[int, ...], dtype: str, seed: int = 1) -> Array:
    """An array at an aligned address whose innermost line is padded to 16 bytes."""
    size = np.dtype(dtype).itemsize
    pitch = -(-shape[-1] * size // 16) * 16 // size
    count = int(np.prod(shape[:-1], dtype=int)) * pitch
    space = np.zeros(count * size + 64, np.uint8)
    start = -space.ctypes.data % 64
    whole = space[start : start + count * size].view(dtype).reshape(*shape[:-1], pitch)
    whole[...] = np.random.default_rng(seed).integers(0, 200, whole.shape)
    return whole[..., : shape[-1]]


def box_of(x: Array, at: list[int], box: list[int], steps: list[int], fill: float = 0) -> Array:
    """The elements of a box, `fill` where it leaves the array; arguments innermost first."""
    axes = [a + np.arange(0, extent, step) for a, extent, step in zip(at, box, steps, strict=True)][
        ::-1
    ]
    grid = np.meshgrid(*axes, indexing="ij")
    inside = np.ones(grid[0].shape, bool)
    for index, extent in zip(grid, x.shape, strict=True):
        inside &= (index >= 0) & (index < extent)
    clipped = tuple(
        np.clip(index, 0, extent - 1) for index, extent in zip(grid, x.shape, strict=True)
    )
    return np.where(inside, x[clipped], np.asarray(fill, x.dtype))


def five(values: list[int]) -> object:
    return (ctypes.c_int * 5)(*values)


NOTHING = (ctypes.c_ushort * 3)()


def loaded(
    library: ctypes.CDLL, made: Array, at: list[int], address: int = 1024
) -> npt.NDArray[np.uint8]:
    shared = np.full(65536, 0xEE, np.uint8)
    library.load(made.ctypes, five(at), NOTHING, shared.ctypes, address, 1, 0)
    return shared


@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "float64"])
def test_boxes_of_every_rank(library: ctypes.CDLL, rank: int, dtype: str) -> None:
    shape = (3, 4, 3, 7, 37)[-rank:]
    box = [32, 4, 2, 3, 2][:rank]
    x = aligned(shape, dtype)
    made = tiled(library, x, box)
    for at in (
        [0] * rank,
        [-5] + [-1] * (rank - 1),
        [20] + [2] * (rank - 1),
        [64] + [9] * (rank - 1),
    ):
        wanted = box_of(x, at, box, [1] * rank)
        found = loaded(library, made, at)[1024 : 1024 + wanted.nbytes].view(dtype)
        np.testing.assert_array_equal(found, wanted.ravel())


@pytest.mark.parametrize("swizzle", SPANS)
@pytest.mark.parametrize("address", [1024, 1024 + 384])
def test_swizzles_go_by_the_address(library: ctypes.CDLL, swizzle: int, address: int) -> None:
    span = SPANS[swizzle]
    x = aligned((64, 128), "float16")
    columns = span // 2
    shared = loaded(library, tiled(library, x, [columns, 24], swizzle), [columns, 3], address)
    rows = np.arange(24 + address // 128)[:, None]  # as if the panel began at address 0
    places = panel_bytes(rows.size * 8, columns, 2, span).ravel()
    wanted = np.zeros(rows.size * 8 * span, np.uint8)
    skipped = address // span
    tile = np.zeros((rows.size * 8, columns), np.uint16)
    tile[skipped : skipped + 24] = x[3:27, columns : 2 * columns].view(np.uint16)
    wanted[places] = tile.ravel() & 255
    wanted[places + 1] = tile.ravel() >> 8
    np.testing.assert_array_equal(
        shared[address : address + 24 * span], wanted[address : address + 24 * span]
    )


def test_element_strides_take_every_so_many(library: ctypes.CDLL) -> None:
    x = aligned((20, 9, 32), "float32")
    box, steps = [16, 8, 9], [1, 3, 2]
    made = tiled(library, x, box, steps=steps)
    for at in ([0, 0, 0], [3, -2, 15]):
        wanted = box_of(x, at, box, steps)
        found = loaded(library, made, at)[1024 : 1024 + wanted.nbytes].view(np.float32)
        np.testing.assert_array_equal(found, wanted.ravel())


def test_outside_can_be_nan(library: ctypes.CDLL) -> None:
    x = aligned((4, 8), "float32")
    found = loaded(library, tiled(library, x, [8, 4], fill=1), [4, 2])[1024 : 1024 + 128]
    np.testing.assert_array_equal(
        found.view(np.float32).reshape(4, 8), box_of(x, [4, 2], [8, 4], [1, 1], np.nan)
    )


def test_types_that_loads_convert(library: ctypes.CDLL) -> None:
    x = aligned((1, 8), "float32")
    x[0] = np.float32(
        [1 + 2**-11, 2**-130, -(2**-130), 3, 0, 1 + 2**-10 + 2**-11, -1 - 2**-11, 2**-120]
    )
    for kind, wanted in (
        (10, x[0]),  # the kind that flushes by its name does not do so in loads
        (11, [1, 2**-130, -(2**-130), 3, 0, 1 + 2**-9, -1, 2**-120]),
    ):
        made = tiled(library, x, [8, 1], kind=kind)
        found = loaded(library, made, [0, 0])[1024 : 1024 + 32].view(np.float32)
        np.testing.assert_allclose(found, np.float32(wanted), rtol=0, atol=0)


@pytest.mark.parametrize("swizzle", SPANS)
def test_stores_drop_elements_out_of_bounds(library: ctypes.CDLL, swizzle: int) -> None:
    columns = 32 if swizzle == 0 else SPANS[swizzle] // 2
    x, y = aligned((20, 40), "float16", 1), aligned((20, 40), "float16", 2)
    before = y.copy()
    at = [-4, 13, 0, 0, 0]
    shared = loaded(library, tiled(library, x, [columns, 16], swizzle), at)
    library.store(
        tiled(library, y, [columns, 16], swizzle).ctypes, five(at), shared.ctypes, 1024, ord("=")
    )
    wanted = before.copy()
    wanted[13:, : columns - 4] = x[13:, : columns - 4]
    np.testing.assert_array_equal(y, wanted)


@pytest.mark.parametrize(
    ("what", "dtype", "combine"),
    [("+", "float32", np.add), ("+", "float16", np.add), ("^", "int32", np.maximum),
     ("_", "uint32", np.minimum), ("&", "uint32", np.bitwise_and), ("|", "uint32", np.bitwise_or),
     ("x", "uint32", np.bitwise_xor)],
)  # fmt: skip
def test_reductions(library: ctypes.CDLL, what: str, dtype: str, combine: np.ufunc) -> None:
    x, y = aligned((8, 16), dtype, 1), aligned((8, 16), dtype, 2)
    wanted = y.copy()
    wanted[2:6] = combine(y[2:6], x[:4])
    shared = loaded(library, tiled(library, x, [16, 4]), [0, 0])
    library.store(
        tiled(library, y, [16, 4]).ctypes, five([0, 2, 0, 0, 0]), shared.ctypes, 1024, ord(what)
    )
    np.testing.assert_array_equal(y, wanted)


def test_ranges_hold_exactly_what_is_inside(library: ctypes.CDLL) -> None:
    x = aligned((20, 40), "float16")
    made, first = tiled(library, x, [32, 16]), ctypes.c_long()
    assert library.ranges(made.ctypes, five([24, 8, 0, 0, 0]), ctypes.byref(first)) == 12 * 16 * 2
    assert first.value == x[8:, 24:].ctypes.data
    assert library.ranges(made.ctypes, five([64, 8, 0, 0, 0]), ctypes.byref(first)) == 0


@pytest.mark.parametrize(
    ("stride", "dilation", "pad"), list(itertools.product((1, 2), (1, 2), (0, 1)))
)
def test_im2col_is_that_of_a_convolution(
    library: ctypes.CDLL, stride: int, dilation: int, pad: int
) -> None:
    n, h, w, c, r, s = 2, 9, 7, 16, 3, 3
    x = aligned((n, h, w, c), "float16")
    out = np.zeros(128, np.uint8)
    upper = [pad - (s - 1) * dilation, pad - (r - 1) * dilation]
    pixels = 24
    code = library.tl_emu_tensor_map_im2col(
        out.ctypes, 6, 4, ctypes.c_void_p(x.ctypes.data), numbers(ctypes.c_uint64, [c, w, h, n]),
        numbers(ctypes.c_uint64, [2 * c, 2 * c * w, 2 * c * w * h]), (ctypes.c_int * 2)(-pad, -pad),
        (ctypes.c_int * 2)(*upper), 8, pixels, words([1, stride, stride, 1]), 0, 0, 0, 0,
    )  # fmt: skip
    assert code == 0, library.tl_emu_tensor_map_reason()
    oh, ow = ((e + 2 * pad - 2 * dilation - 1) // stride + 1 for e in (h, w))
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    for first, (i, j) in itertools.product((0, 5), itertools.product(range(r), range(s))):
        image, row, column = first // (oh * ow), first // ow % oh, first % ow
        at = [8, column * stride - pad, row * stride - pad, image, 0]
        shared = np.zeros(8192, np.uint8)
        offsets = (ctypes.c_ushort * 3)(j * dilation, i * dilation, 0)
        library.load(out.ctypes, five(at), offsets, shared.ctypes, 1024, 1, 0)
        found = shared[1024 : 1024 + pixels * 16].view(np.float16).reshape(pixels, 8)
        for p in range(pixels):
            q = first + p
            b, y, z = q // (oh * ow), q // ow % oh, q % ow
            wanted = np.zeros(8, np.float16)
            if b < n:
                wanted = padded[b, y * stride + i * dilation, z * stride + j * dilation, 8:]
            np.testing.assert_array_equal(found[p], wanted)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"box": [4, 4]}, b"a line of the box is not a multiple of 16 bytes"),
        ({"box": [64, 4], "swizzle": 2}, b"a line of the box is longer than the swizzle"),
        ({"box": [512, 4]}, b"an extent of the box is not in 1 .. 256"),
        ({"box": [16, 4], "steps": [1, 9]}, b"an element stride is not in 1 .. 8"),
        ({"box": [16, 4], "kind": 40}, b"unknown data type"),
    ],
)
def test_maps_that_the_driver_refuses(
    library: ctypes.CDLL, changes: dict[str, object], reason: bytes
) -> None:
    with pytest.raises(AssertionError):
        tiled(library, aligned((8, 512), "float16"), **changes)  # type: ignore[arg-type]  # one of several
    assert library.tl_emu_tensor_map_reason() == reason
