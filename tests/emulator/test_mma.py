"""Every matrix instruction of a warp in the emulator against numpy, in the registers of its layout."""

from __future__ import annotations

import ctypes
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.emulator.test_numbers import ROOT, build
from tilelang.cuda.forms import MMA, SHORT
from tilelang.ir import floats
from tilelang.ir.dtypes import dtype as DType
from tilelang.layout.register_layout import RegisterLayout
from tilelang.target.matrices import MmaAtom
from tilelang.target.nvidia_mma import MMA_SYNC as ATOMS, mma_sync

Array = npt.NDArray[np.generic]
WRAPPER = r"""
#include "../runtime/mma.h"
static const tl_emu::Sparsity* sparsity = nullptr;
extern "C" void mma(unsigned shape, unsigned kinds, char* d, const char* a, const char* b, int dn, int an, int bn) {
    using tl_emu::Kind;
    void* x[32];
    const void *y[32], *z[32];
    for (int lane = 0; lane < 32; ++lane) { x[lane] = d + lane * dn; y[lane] = a + lane * an; z[lane] = b + lane * bn; }
    tl_emu::mma_warp({shape & 255, shape >> 8 & 255, shape >> 16, Kind(kinds & 255), Kind(kinds >> 8 & 255), Kind(kinds >> 16)},
                     x, y, z, sparsity);
}
extern "C" void sparse(const unsigned* metadata, unsigned selector) {
    static tl_emu::Sparsity kept;
    sparsity = metadata ? &kept : nullptr;
    for (int lane = 0; metadata && lane < 32; ++lane) kept.metadata[lane] = metadata[lane];
    kept.selector = selector;
}
extern "C" void quads(int a_columns, int b_columns, int half, char* d, const char* a, const char* b) {
    void* x[32];
    const void *y[32], *z[32];
    for (int lane = 0; lane < 32; ++lane) { x[lane] = d + lane * (half ? 16 : 32); y[lane] = a + lane * 8; z[lane] = b + lane * 8; }
    tl_emu::mma_quads(a_columns, b_columns, half ? tl_emu::kind_f16 : tl_emu::kind_f32, x, y, z);
}
"""
KINDS = re.findall(r"kind_(\w+)", (ROOT / "include" / "tl_kinds.h").read_text().split("};")[0])


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    return build(tmp_path_factory.mktemp("mma"), WRAPPER, "mma.cpp", "numbers.cpp")


def mixed() -> list[MmaAtom]:
    """The instructions whose factors differ in dtype."""
    long = {"s8": "int8", "u8": "uint8", "s4": "int4", "u4": "uint4", "e4m3": "float8_e4m3fn",
            "e5m2": "float8_e5m2", "s32": "int32", "f32": "float32"}  # fmt: skip
    made = []
    for shape, a, b, c in MMA:
        if a != b:
            m, n, k = (int(x) for x in re.findall(r"\d+", shape))
            same = mma_sync(m, n, k, long[a], long[c], "mma")
            made.append(replace(same, b=DType(long[b])))
    return made


EVERY = [*ATOMS, *mixed()]


def name(atom: MmaAtom) -> str:
    return f"{atom.shape}_{SHORT[str(atom.a)]}_{SHORT[str(atom.b)]}_{SHORT[str(atom.c)]}"


def drawn(kind: DType, shape: tuple[int, int], seed: int) -> tuple[Array, Array]:
    """Codes of one element each, and their numbers."""
    rng = np.random.default_rng(seed)
    if not kind.is_float:
        low = -(2 ** (kind.bits - 1)) if kind.is_int else 0
        values = rng.integers(low, low + 2**kind.bits, shape)
        return values.astype(np.uint64) & np.uint64(2**kind.bits - 1), values
    wide = rng.standard_normal(shape) * np.exp2(rng.integers(-6, 4, shape))
    if str(kind) == "tfloat32":  # the instruction does not see the low bits
        codes = wide.astype(np.float32).view(np.uint32)
        return codes.astype(np.uint64), (codes & np.uint32(0xFFFFE000)).view(np.float32).astype(
            np.float64
        )
    codes = floats.encode(wide, kind)
    return codes.astype(np.uint64), floats.decode(codes, kind).astype(np.float64)


def into_registers(codes: Array, layout: RegisterLayout, bits: int) -> Array:
    """(32, bytes of a lane) registers that hold a matrix."""
    slots = codes.size // 32
    held = np.zeros((32, slots), np.uint64)
    for i in range(codes.shape[0]):
        for j in range(codes.shape[1]):
            thread, slot = place(layout, i, j)
            held[thread, slot] = codes[i, j]
    if bits == 4:
        return (held[:, 0::2] | held[:, 1::2] << np.uint64(4)).astype(np.uint8)
    return held.astype(np.dtype(f"uint{bits}")).view(np.uint8).reshape(32, -1)


def place(layout: RegisterLayout, i: int, j: int) -> tuple[int, int]:
    """Thread and slot of an element, by the modes of its indices."""
    found = {"thread": 0, "register": 0}
    for index, modes in zip((i, j), layout.modes, strict=True):
        for mode in reversed(modes):
            found[mode.kind] += index % mode.extent * mode.stride
            index //= mode.extent
    return found["thread"], found["register"]


def run(library: ctypes.CDLL, atom: MmaAtom, a: Array, b: Array, c: Array) -> Array:
    """The registers of the sum after the instruction."""
    kinds = [KINDS.index(SHORT[str(kind)]) for kind in (atom.a, atom.b, atom.c)]
    d = c.copy()
    library.mma(
        atom.m | atom.n << 8 | atom.k << 16, kinds[0] | kinds[1] << 8 | kinds[2] << 16,
        d.ctypes, a.ctypes, b.ctypes, d.shape[1], a.shape[1], b.shape[1],
    )  # fmt: skip
    return d


@pytest.mark.parametrize("atom", EVERY, ids=name)
def test_instruction_multiplies_in_its_registers(library: ctypes.CDLL, atom: MmaAtom) -> None:
    codes_a, a = drawn(atom.a, (atom.m, atom.k), 1)
    codes_b, b = drawn(atom.b, (atom.k, atom.n), 2)
    codes_c, c = drawn(atom.c, (atom.m, atom.n), 3)
    found = run(
        library, atom,
        into_registers(codes_a, atom.a_layout, atom.a.bits),
        into_registers(codes_b, atom.b_layout, atom.b.bits),
        into_registers(codes_c, atom.c_layout, atom.c.bits),
    )  # fmt: skip
    exact = a @ b + c
    if not atom.c.is_float:
        wanted = ((exact + 2**31) % 2**32 - 2**31).astype(np.uint64) & np.uint64(2**32 - 1)
    else:
        wanted = floats.encode(exact, atom.c)
    registers = into_registers(wanted.astype(np.uint64), atom.c_layout, atom.c.bits)
    if atom.c.bits < 64:
        np.testing.assert_array_equal(found, registers)
    else:
        kind = np.float64
        np.testing.assert_allclose(found.view(kind), registers.view(kind), rtol=1e-14, atol=1e-14)


def test_int32_sums_wrap(library: ctypes.CDLL) -> None:
    atom = next(x for x in ATOMS if name(x) == "m16n8k32_s8_s8_s32")
    a = np.full((32, 16), 0x80, np.uint8)  # -128
    c = np.full((32, 16), 0, np.uint8)
    c.view(np.int32)[:] = 2**31 - 1
    found = run(library, atom, a, np.full((32, 8), 0x80, np.uint8), c)
    assert np.unique(found.view(np.int32)).tolist() == [2**31 - 1 + 32 * 128 * 128 - 2**32]


def test_nan_and_infinity_spread_as_in_a_sum(library: ctypes.CDLL) -> None:
    atom = next(x for x in ATOMS if name(x) == "m16n8k16_f16_f16_f32")
    a = np.ones((16, 16))
    a[3, 5], a[4, 6], a[5, 7], a[5, 8] = np.nan, np.inf, np.inf, -np.inf
    registers = into_registers(floats.encode(a, "float16").astype(np.uint64), atom.a_layout, 16)
    b = into_registers(
        floats.encode(np.ones((16, 8)), "float16").astype(np.uint64), atom.b_layout, 16
    )
    found = run(library, atom, registers, b, np.zeros((32, 16), np.uint8)).view(np.uint32)
    for row, code in ((3, 0x7FFFFFFF), (4, 0x7F800000), (5, 0x7FFFFFFF), (6, 0x41800000)):
        thread, slot = place(atom.c_layout, row, 1)
        assert found[thread, slot] == code


def test_header_has_every_instruction_that_programs_can_name(tmp_path: Path) -> None:
    calls = "".join(f"tl_mma_{'_'.join(key)}(d, a, b);" for key in MMA)
    calls += "".join(f"tl_mma_{name(atom)}(d, a, b);" for atom in ATOMS)
    text = (
        '#include "tl_mma.h"\nextern "C" void tl_emu_mma(unsigned, unsigned, void*, const void*, '
        f"const void*) {{}}\nvoid f(void* d, const void* a, const void* b) {{ {calls} }}\n"
    )
    build(tmp_path, text)


SPARSE = [
    (32, "float16", "float32"), (16, "float16", "float32"), (32, "float16", "float16"),
    (16, "tfloat32", "float32"), (8, "tfloat32", "float32"), (64, "int8", "int32"),
    (32, "uint8", "int32"), (64, "float8_e4m3fn", "float32"),
]  # fmt: skip


@pytest.mark.parametrize(("k", "kind", "result"), SPARSE)
def test_sparse_factor_is_put_where_its_metadata_says(
    library: ctypes.CDLL, k: int, kind: str, result: str
) -> None:
    dtype, c = DType(kind), DType(result)
    whole, half = (mma_sync(16, 8, x, kind, result, "mma") for x in (k, k // 2))
    stored, a = drawn(dtype, (16, k // 2), 1)
    codes_b, b = drawn(dtype, (k, 8), 2)
    rng, group = np.random.default_rng(8), 2 if kind == "tfloat32" else 4
    blocks = k // (4 * group)
    for selector in range(4 // blocks):
        metadata, dense = np.zeros(32, np.uint32), np.zeros((16, k))
        for row in range(16):
            for g in range(k // group):
                places = np.sort(rng.choice(group, group // 2, replace=False))
                bits = int(places[0]) * 10 + 4 if group == 2 else int(places[0] | places[1] << 2)
                wide = dtype.bits >= 16
                lane = row % 8 * 4 + selector * blocks
                lane += g // 4 if wide else g // 8 * 2 + row // 8
                metadata[lane] |= np.uint32(
                    bits << (row // 8 * 16 + g % 4 * 4 if wide else g % 8 * 4)
                )
                at = g * (group // 2)
                dense[row, g * group + places] = a[row, at : at + group // 2]
        library.sparse(metadata.ctypes, selector)
        found = run(
            library, whole, into_registers(stored, half.a_layout, dtype.bits),
            into_registers(codes_b, whole.b_layout, dtype.bits),
            np.zeros((32, 4 * c.bits // 8), np.uint8),
        )  # fmt: skip
        library.sparse(None, 0)
        exact = dense @ b
        wanted = floats.encode(exact, c) if c.is_float else exact.astype(np.int32).view(np.uint32)
        registers = into_registers(wanted.astype(np.uint64), whole.c_layout, c.bits)
        np.testing.assert_array_equal(found, registers)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("b_columns", [False, True])
@pytest.mark.parametrize("a_columns", [False, True])
def test_pairs_of_quads_multiply_for_themselves(
    library: ctypes.CDLL, a_columns: bool, b_columns: bool, half: bool
) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, (4, *shape)).astype(np.float16) for shape in ((8, 4), (4, 8)))
    registers = [np.zeros((32, 4), np.float16) for _ in range(2)]
    for lane in range(32):
        pair, high = lane // 4 % 4, lane // 16 * 4
        row, column = high + lane % 4, lane % 4
        registers[0][lane] = a[pair, high : high + 4, column] if a_columns else a[pair, row]
        registers[1][lane] = b[pair, :, row] if b_columns else b[pair, column, high : high + 4]
    d = np.zeros((32, 8), np.float16 if half else np.float32)
    library.quads(
        int(a_columns), int(b_columns), int(half), d.ctypes, *(x.ctypes for x in registers)
    )
    for lane in range(32):
        pair, high = lane // 4 % 4, lane // 16 * 4
        product = a[pair].astype(np.float32) @ b[pair].astype(np.float32)
        for slot in range(8):
            row, column = high + lane % 4, slot
            if not half:
                row, column = (
                    high + lane % 2 + slot // 2 % 2 * 2,
                    slot // 4 * 4 + lane % 4 // 2 * 2 + slot % 2,
                )
            assert d[lane, slot] == product[row, column]
