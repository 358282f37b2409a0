"""Products of a warpgroup out of swizzled shared memory, for every descriptor that programs can build."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import numpy.typing as npt
import pytest

from tests.emulator.test_mma import KINDS
from tests.emulator.test_numbers import build
from tilelang.cuda.forms import SHORT
from tilelang.ir import floats
from tilelang.ir.dtypes import dtype as DType

Array = npt.NDArray[np.generic]
WRAPPER = r"""
#include "../runtime/warpgroup.h"
using namespace tl_emu;
extern "C" int wgmma(unsigned n, unsigned kinds, unsigned flags, char* d, int d_bytes, const char* a, int a_bytes,
                     uint64_t da, uint64_t db, int accumulate, uint8_t* shared, unsigned bytes) {
    WarpgroupProduct p = {};
    p.n = n; p.a = Kind(kinds & 255); p.b = Kind(kinds >> 8 & 255); p.c = Kind(kinds >> 16);
    p.k = 256 / kind_bits(p.a); p.flags = flags; p.accumulate = accumulate; p.shared = {shared, bytes};
    const bool good = decode_wgmma(da, flags & 1, p.place_a) & decode_wgmma(db, flags & 2, p.place_b);
    for (int t = 0; t < 128; ++t) { p.d[t] = d + t * d_bytes; p.registers_a[t] = a + t * a_bytes; }
    p.run();
    return good;
}
"""
SPANS = (16, 32, 64, 128)  # bytes that a swizzle permutes; 16: none
CODES = {16: 0, 128: 1, 64: 2, 32: 3}
SOURCES = ("warpgroup.cpp", "mma.cpp", "numbers.cpp", "tensor_map.cpp")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    found = build(tmp_path_factory.mktemp("wgmma"), WRAPPER, *SOURCES)
    found.wgmma.argtypes = [
        ctypes.c_uint, ctypes.c_uint, ctypes.c_uint, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p,
        ctypes.c_int, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint,
    ]  # fmt: skip
    return found


def panel_bytes(rows: int, columns: int, size: int, span: int) -> npt.NDArray[np.int64]:
    """Byte of each element in panels `span` bytes wide, swizzled: what a tensor load writes."""
    r, c = np.arange(rows)[:, None], np.arange(columns)[None, :]
    along = c * size
    chunk = along % span // 16 ^ (r % 8 * span // 128 if span > 16 else 0)
    return along // span * rows * span + r * span + chunk * 16 + along % 16


def descriptor(start: int, leading: int, stride: int, span: int) -> int:
    return start >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | CODES[span] << 62


def operand(base: int, rows: int, span: int, mn_major: bool, step: int, at: int, size: int) -> int:
    """The descriptor of one step along k of the part of an operand that starts at row or column `at`.

    `rows` are the lines of the panels: the rows of a K-major operand, k of an MN-major one.
    """
    if not mn_major:
        inside = 32 * step // span * rows * span + 32 * step % span
        if span == 16:
            inside, at_bytes = 2 * step * rows * 16, at * 16
            return descriptor(base + inside + at_bytes, rows * 16, 128, span)
        return descriptor(base + inside + at * span, 16, 8 * span, span)
    panel = at * size // span * rows * span + at * size % span
    if span == 16:
        return descriptor(base + 256 * step + panel, 128, rows * 16, span)
    return descriptor(base + 16 * step * span + panel, rows * span, 8 * span, span)


def in_shared(memory: npt.NDArray[np.uint8], base: int, codes: Array, span: int) -> None:
    """Puts a matrix of codes at `base`, its second index contiguous in memory."""
    size = codes.dtype.itemsize
    places = base + panel_bytes(*codes.shape, size, span)
    raw = np.ascontiguousarray(codes).view(np.uint8).reshape(*codes.shape, size)
    for byte in range(size):
        memory[places + byte] = raw[..., byte]


def drawn(kind: str, shape: tuple[int, int], seed: int) -> tuple[Array, Array]:
    """Codes, and small whole numbers that they stand for: every sum is exact."""
    dtype = DType(kind)
    low = 0 if dtype.is_uint else -3
    values = np.random.default_rng(seed).integers(low, 4, shape)
    if dtype.is_float:
        return floats.encode(values.astype(np.float32), dtype), values
    return values.astype(dtype.as_numpy()), values


def result_places(n: int) -> tuple[Array, Array]:
    """Row and column of each register of each thread."""
    thread, slot = np.arange(128)[:, None], np.arange(n // 2)[None, :]
    row = thread // 32 * 16 + thread % 32 // 4 + slot // 2 % 2 * 8
    return row, slot // 4 * 8 + thread % 4 * 2 + slot % 2


def products(
    library: ctypes.CDLL, a: tuple[Array, bool, int], b: tuple[Array, bool, int], n: int, kind: str,
    result: str = "float32", exchange: bool = False,
) -> tuple[Array, int]:  # fmt: skip
    """128 x 128 sums of four steps along k, computed 64 x n at a time. Operands: codes as they lie
    in memory, whether MN-major, span."""
    memory = np.zeros(232448, np.uint8)
    bases = (0, 65536)
    for base, (codes, _, span) in zip(bases, (a, b), strict=True):
        in_shared(memory, base, codes, span)
    width = np.dtype(DType(result).as_numpy())
    whole = np.zeros((128, 128), width)
    row, column = result_places(n)
    kinds = (
        KINDS.index(SHORT[kind]) | KINDS.index(SHORT[kind]) << 8 | KINDS.index(SHORT[result]) << 16
    )
    good = 1
    size = a[0].dtype.itemsize
    for m0, n0 in itertools.product(range(0, 128, 64), range(0, 128, n)):
        d = np.zeros((128, n // 2), width)
        for step in range(4):
            found = []
            for base, (codes, mn_major, span), at in zip(bases, (a, b), (m0, n0), strict=True):
                made = operand(base, codes.shape[0], span, mn_major, step, at, size)
                if exchange:
                    low, high = made >> 16 & 0x3FFF, made >> 32 & 0x3FFF
                    made = made & ~(0x3FFF << 16 | 0x3FFF << 32) | high << 16 | low << 32
                found.append(made)
            flags = int(a[1]) | int(b[1]) << 1
            good &= library.wgmma(
                n, kinds, flags, d.ctypes.data, d.strides[0], None, 0, *found, int(step > 0),
                memory.ctypes.data, memory.size,
            )  # fmt: skip
        whole[m0 + row, n0 + column] = d
    return whole, good


@pytest.mark.parametrize("spans", list(itertools.product(SPANS, SPANS)), ids=str)
@pytest.mark.parametrize("n", [64, 32])
@pytest.mark.parametrize("majors", list(itertools.product([False, True], repeat=2)), ids=str)
def test_float16_from_any_layout(
    library: ctypes.CDLL, spans: tuple[int, int], majors: tuple[bool, bool], n: int
) -> None:
    k = 64
    operands, values = [], []
    for seed, (span, mn_major) in enumerate(zip(spans, majors, strict=True)):
        codes, numbers = drawn("float16", (k, 128) if mn_major else (128, k), seed)
        operands.append((codes, mn_major, span))
        values.append(numbers.T if mn_major else numbers)
    found, good = products(library, operands[0], operands[1], n, "float16")
    assert good
    np.testing.assert_array_equal(found, values[0] @ values[1].T)


@pytest.mark.parametrize("spans", list(itertools.product(SPANS, SPANS)), ids=str)
@pytest.mark.parametrize(
    ("kind", "result"),
    [("float8_e4m3", "float32"), ("float8_e5m2", "float16"), ("int8", "int32"),
     ("uint8", "int32"), ("tfloat32", "float32"), ("bfloat16", "float32")],
)  # fmt: skip
def test_other_types_from_k_major_layouts(
    library: ctypes.CDLL, spans: tuple[int, int], kind: str, result: str
) -> None:
    k = 4 * 256 // DType(kind).bits
    (x, a), (y, b) = (drawn(kind, (128, k), seed) for seed in (1, 2))
    if kind == "tfloat32":
        x, y = (codes.astype(np.uint32) for codes in (x, y))
    found, good = products(library, (x, False, spans[0]), (y, False, spans[1]), 64, kind, result)
    assert good
    wanted = a @ b.T
    np.testing.assert_array_equal(found.astype(np.float64), wanted)


def test_exchanged_distances_are_noticed(library: ctypes.CDLL) -> None:
    codes, numbers = drawn("float16", (64, 128), 1)
    other, factors = drawn("float16", (64, 128), 2)
    found, _ = products(library, (codes, True, 16), (other, True, 16), 64, "float16", exchange=True)
    assert not np.array_equal(found, numbers.T @ factors)


def test_factor_in_registers(library: ctypes.CDLL) -> None:
    codes, a = drawn("float16", (64, 16), 1)
    other, b = drawn("float16", (64, 16), 2)
    thread, slot = np.arange(128)[:, None], np.arange(8)[None, :]
    row = thread // 32 * 16 + thread % 32 // 4 + slot // 2 % 2 * 8
    column = slot // 4 * 8 + thread % 4 * 2 + slot % 2
    registers = np.ascontiguousarray(codes[row, column])
    memory = np.zeros(232448, np.uint8)
    in_shared(memory, 1024, other, 32)
    d = np.full((128, 32), 100.0, np.float32)
    library.wgmma(
        64, 0 | 0 << 8 | 3 << 16, 16 | 4, d.ctypes.data, d.strides[0], registers.ctypes.data, 16,
        0, operand(1024, 64, 32, False, 0, 0, 2), 1, memory.ctypes.data, memory.size,
    )  # fmt: skip
    whole = np.zeros((64, 64), np.float32)
    whole[result_places(64)] = d
    np.testing.assert_array_equal(whole, 100 - a @ b.T)


def test_unused_bits_of_a_descriptor_have_to_be_zero(library: ctypes.CDLL) -> None:
    d, memory = np.zeros((128, 4), np.float32), np.zeros(4096, np.uint8)
    for bit in (14, 31, 46, 55):
        assert not library.wgmma(
            8, 3 << 16, 0, d.ctypes.data, 16, None, 0, 1 << bit, 0, 0, memory.ctypes.data, 4096
        )
