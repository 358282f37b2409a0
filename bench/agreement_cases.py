"""Kernels that show what one instruction does, with operands and, where numpy knows, the answer.

Every operand of a tensor core is made of small whole numbers, so that all sums are exact and two
machines have to agree in every bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from tilelang.codegen.c import NARROW_FLOATS
from tilelang.cuda.forms import MMA
from tilelang.ir import floats
from tilelang.ir.dtypes import dtype as DType
from tilelang.runtime.steps import MapForm

Array = npt.NDArray[Any]
LONG = {
    "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64", "tf32": "tfloat32",
    "e4m3": "float8_e4m3", "e5m2": "float8_e5m2", "s8": "int8", "u8": "uint8", "s4": "int4",
    "u4": "uint4", "s32": "int32",
}  # fmt: skip
SPANS = {16: 0, 128: 1, 64: 2, 32: 3}  # bytes that a swizzle permutes -> layout of a descriptor
TMA_SPANS = {0: 16, 1: 32, 2: 64, 3: 128}  # value of CUtensorMapSwizzle -> bytes


@dataclass(frozen=True)
class Map:
    """A tensor map of the array that is argument ``of``."""

    of: int
    form: MapForm
    extents: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One launch.

    Attributes:
        name: what it shows.
        suite: the family it belongs to.
        source, kernel, arch: the text, the name of its kernel, e.g. "sm_90a".
        args: arrays (operands and results), whole numbers (C int), tensor maps.
        result: index of the array that is compared.
        wanted: what numpy expects it to be, if it can say.
        shared: bytes of dynamic shared memory.
        threads: of the block.
        bound: how far two results of float32 may lie apart, element by element; without it every
            bit has to agree.
        nans: whether one NaN is as good as another: a GPU's arithmetic gives a NaN of its own.
        refused: what the emulator says if the launch has to fail; the GPU has to stop it too.
    """

    name: str
    suite: str
    source: str
    kernel: str
    arch: str
    args: tuple[Any, ...]
    result: int
    wanted: Array | None = None
    shared: int = 0
    threads: int = 128
    bound: Array | None = None
    nans: bool = False
    refused: str = ""


# -- products of a warpgroup ---------------------------------------------------------------------
WGMMA_TEXT = r"""
#include "tl_memory.h"
#include "tl_sync.h"
#include "tl_wgmma.h"
%(instructions)s
#define KERNEL(NAME, REGS, CALL, TOUCH) \
    extern "C" __global__ void __launch_bounds__(128) \
    NAME(const uint4* image, int vectors, const int* fields, int tiles, uint32_t* out) { \
        extern __shared__ __align__(1024) unsigned char tl_smem[]; \
        for (int i = threadIdx.x; i < vectors; i += 128) ((uint4*)tl_smem)[i] = image[i]; \
        tl_fence_proxy_async(); \
        __syncthreads(); \
        for (int t = 0; t < tiles; ++t) { \
            uint32_t d[REGS]; \
            for (int q = 0; q < REGS; ++q) d[q] = 0u; \
            TOUCH<REGS>(d); \
            tl_wgmma_fence(); \
            for (int k = 0; k < 4; ++k) { \
                const int* f = fields + (t * 4 + k) * 8; \
                uint64_t a, b; \
                tl_wgmma_descriptor(&a, tl_smem + f[0], f[1], f[2], f[3]); \
                tl_wgmma_descriptor(&b, tl_smem + f[4], f[5], f[6], f[7]); \
                CALL(d, a, b, k > 0); \
            } \
            tl_wgmma_commit(); \
            tl_wgmma_wait<0>(); \
            TOUCH<REGS>(d); \
            for (int q = 0; q < REGS; ++q) out[(t * 128 + threadIdx.x) * REGS + q] = d[q]; \
        } \
    }
%(kernels)s
"""
# Width, formats; those of 16 bits in all four ways of lying.
WGMMA_KINDS = (
    (64, "f16", "f32"), (32, "f16", "f32"), (64, "e4m3", "f32"), (64, "e5m2", "f16"),
    (64, "bf16", "f32"), (64, "tf32", "f32"), (64, "s8", "s32"), (64, "u8", "s32"),
    (64, "f16", "f16"),
)  # fmt: skip


def panel_bytes(rows: int, columns: int, size: int, span: int) -> npt.NDArray[np.int64]:
    """Byte of each element of a matrix in panels ``span`` bytes wide, swizzled (16: not)."""
    r, c = np.arange(rows)[:, None], np.arange(columns)[None, :]
    along = c * size
    chunk = along % span // 16 ^ (r % 8 * span // 128 if span > 16 else 0)
    return along // span * rows * span + r * span + chunk * 16 + along % 16


def descriptor_fields(
    base: int, rows: int, span: int, mn_major: bool, step: int, at: int, size: int
) -> tuple[int, int, int, int]:
    """Offset, layout, leading and stride distance (in 16 bytes) of one step along k.

    Args:
        rows: lines of a panel: rows of a K-major operand, k of an MN-major one.
        at: the first row of M or column of N.
    """
    if mn_major:
        panel = at * size // span * rows * span + at * size % span
        if span == 16:
            return base + 256 * step + panel, SPANS[span], 8, rows
        return base + 16 * step * span + panel, SPANS[span], rows * span // 16, span // 2
    if span == 16:
        return base + 2 * step * rows * 16 + at * 16, SPANS[span], rows, 8
    inside = 32 * step // span * rows * span + 32 * step % span
    return base + inside + at * span, SPANS[span], 1, span // 2


@lru_cache(maxsize=1)
def wgmma_source() -> str:
    """All kernels of the suite."""
    instructions, kernels = [], []
    for n, kind, result in WGMMA_KINDS:
        k = 256 // DType(LONG[kind]).bits
        regs = n // 4 if result == "f16" else n // 2
        instructions.append(f"TL_WGMMA({n}, {k}, {kind}, {kind}, {result}, {regs})")
        touch = "tl_wgmma_touch_f32" if result == "f32" else "tl_wgmma_touch_b32"
        for ta, tb in _majors(kind):
            call = f"(tl_wgmma_m64n{n}k{k}_{kind}_{kind}_{result}_ss<{ta}, {tb}, 1, 1>)"
            kernels.append(
                f"KERNEL({_wgmma_name(n, kind, result, ta, tb)}, {regs}, {call}, {touch})"
            )
    return WGMMA_TEXT % {"instructions": "\n".join(instructions), "kernels": "\n".join(kernels)}


def _majors(kind: str) -> list[tuple[int, int]]:
    wide = DType(LONG[kind]).bits == 16
    return list(itertools.product((0, 1), repeat=2)) if wide else [(0, 0)]


def _wgmma_name(n: int, kind: str, result: str, ta: int, tb: int) -> str:
    return f"wgmma_n{n}_{kind}_{result}_{'MN' if ta else 'K'}_{'MN' if tb else 'K'}"


def drawn(kind: str, shape: tuple[int, int], seed: int) -> tuple[Array, Array]:
    """Codes of small whole numbers, and the numbers."""
    dtype = DType(LONG[kind])
    values = np.random.default_rng(seed).integers(0 if dtype.is_uint else -3, 4, shape)
    if not dtype.is_float:
        return values.astype(dtype.as_numpy()), values
    codes = floats.encode(values.astype(np.float32), dtype)
    return codes.astype(np.dtype(f"uint{dtype.bits}") if dtype.bits >= 8 else np.uint8), values


def result_words(sums: Array, result: str, n: int) -> Array:
    """The registers of 128 threads that hold 64 x n sums, as 32-bit words."""
    slots = np.arange(n // 2)[None, :]
    thread = np.arange(128)[:, None]
    row = thread // 32 * 16 + thread % 32 // 4 + slots // 2 % 2 * 8
    held = sums[row, slots // 4 * 8 + thread % 4 * 2 + slots % 2]
    if result == "s32":
        return np.ascontiguousarray(held.astype(np.int32)).view(np.uint32)
    kind = np.float16 if result == "f16" else np.float32
    return np.ascontiguousarray(held.astype(kind)).view(np.uint32)


def rounding_cases() -> Iterator[Case]:
    """Normal numbers: sums that are not exact, within the stated bound of each other."""
    for kind, unit in (("f16", 2**-23), ("bf16", 2**-23), ("tf32", 2**-23), ("e4m3", 2**-13)):
        dtype = DType(LONG[kind])
        size, depth = dtype.bits // 8, 4 * 256 // dtype.bits
        rng, image, numbers = np.random.default_rng(11), np.zeros(131072, np.uint8), []
        for base in (0, 65536):
            codes = floats.encode(rng.standard_normal((128, depth)), dtype)
            numbers.append(floats.decode(codes, dtype).astype(np.float64))
            place_bytes(image, base, codes, 128)
        if kind == "tf32":
            numbers = [floats.round_tf32(x, truncate=True).astype(np.float64) for x in numbers]
        a, b = numbers
        steps = depth // 4
        largest = np.max(np.abs(a[:, None, :] * b[None, :, :]), axis=2) * np.sqrt(4)
        exact, bound = a @ b.T, 4 * (steps + 1) * unit * np.maximum(largest, np.abs(a @ b.T))
        tiles = list(itertools.product(range(0, 128, 64), range(0, 128, 64)))
        fields = [
            descriptor_fields(base, 128, 128, False, step, at, size)
            for corner in tiles
            for step in range(4)
            for base, at in zip((0, 65536), corner, strict=True)
        ]

        def words(matrix: Array, tiles: list[tuple[int, int]] = tiles) -> Array:
            return np.concatenate(
                [result_words(matrix[m : m + 64, c : c + 64], "f32", 64) for m, c in tiles]
            )

        name = _wgmma_name(64, kind, "f32", 0, 0)
        yield Case(
            f"{name} of normal numbers", "rounding", wgmma_source(), name, "sm_90a",
            (image, image.size // 16, np.array(fields, np.int32), 4, np.zeros_like(words(exact))),
            4, words(exact), image.size, bound=words(bound).view(np.float32),
        )  # fmt: skip


def place_bytes(image: Array, base: int, codes: Array, span: int) -> None:
    """Put a matrix of codes into the bytes of shared memory."""
    size = codes.dtype.itemsize
    places = base + panel_bytes(*codes.shape, size, span)
    raw = np.ascontiguousarray(codes).view(np.uint8).reshape(*codes.shape, size)
    for byte in range(size):
        image[places + byte] = raw[..., byte]


def wgmma_cases() -> Iterator[Case]:
    """Every descriptor that programs can build, for operands of 128 x 4 steps of k."""
    for n, kind, result in WGMMA_KINDS:
        size = DType(LONG[kind]).bits // 8
        depth = 4 * 32 // size
        for (ta, tb), spans in itertools.product(_majors(kind), itertools.product(SPANS, SPANS)):
            image = np.zeros(131072, np.uint8)
            numbers, bases = [], (0, 65536)
            for which, (mn_major, span) in enumerate(zip((ta, tb), spans, strict=True)):
                codes, values = drawn(kind, (depth, 128) if mn_major else (128, depth), 7 + which)
                place_bytes(image, bases[which], codes, span)
                numbers.append(values.T if mn_major else values)
            tiles = list(itertools.product(range(0, 128, 64), range(0, 128, n)))
            fields = [
                descriptor_fields(base, depth if major else 128, span, bool(major), step, at, size)
                for corner in tiles
                for step in range(4)
                for base, major, span, at in zip(bases, (ta, tb), spans, corner, strict=True)
            ]
            sums = numbers[0] @ numbers[1].T
            wanted = np.concatenate(
                [result_words(sums[m : m + 64, c : c + n], result, n) for m, c in tiles]
            )
            name = _wgmma_name(n, kind, result, ta, tb)
            yield Case(
                f"{name} swizzles {spans[0]} {spans[1]}", "wgmma", wgmma_source(), name, "sm_90a",
                (image, image.size // 16, np.array(fields, np.int32), len(tiles),
                 np.zeros_like(wanted)), 4, wanted, image.size,
            )  # fmt: skip


# -- matrix instructions of a warp ---------------------------------------------------------------
MMA_TEXT = r"""
#include "tl_mma.h"
#define KERNEL(NAME, A, B, D) \
    extern "C" __global__ void run_##NAME(const uint32_t* a, const uint32_t* b, uint32_t* d) { \
        __align__(8) uint32_t x[A]; \
        __align__(8) uint32_t y[B]; \
        __align__(8) uint32_t z[D]; \
        for (int i = 0; i < A; ++i) x[i] = a[threadIdx.x * A + i]; \
        for (int i = 0; i < B; ++i) y[i] = b[threadIdx.x * B + i]; \
        for (int i = 0; i < D; ++i) z[i] = d[threadIdx.x * D + i]; \
        NAME(z, x, y); \
        for (int i = 0; i < D; ++i) d[threadIdx.x * D + i] = z[i]; \
    }
%s
"""


def mma_shapes() -> list[tuple[str, int, int, int, str, str, str]]:
    """Name, extents and formats of every instruction that a program can name."""
    cases = []
    for shape, a, b, c in MMA:
        m, rest = shape[1:].split("n")
        n, k = rest.split("k")
        if LONG.get(a) and LONG.get(b):
            cases.append((f"tl_mma_{shape}_{a}_{b}_{c}", int(m), int(n), int(k), a, b, c))
    return cases


def _words(elements: int, kind: str) -> int:
    return elements * DType(LONG[kind]).bits // 32 // 32


@lru_cache(maxsize=1)
def mma_source() -> str:
    """All kernels of the suite."""
    return MMA_TEXT % "\n".join(
        f"KERNEL({name}, {_words(m * k, a)}, {_words(k * n, b)}, {_words(m * n, c)})"
        for name, m, n, k, a, b, c in mma_shapes()
    )


def mma_cases() -> Iterator[Case]:
    """Random small whole numbers in the registers of every instruction."""
    rng = np.random.default_rng(5)
    for name, m, n, k, a, b, c in mma_shapes():
        sizes = (_words(m * k, a), _words(k * n, b), _words(m * n, c))
        args = [_registers(words, kind, rng) for words, kind in zip(sizes, (a, b, c))]
        yield Case(name, "mma", mma_source(), f"run_{name}", "sm_90a", tuple(args), 2, threads=32)


SPARSE = (
    (32, "f16", "f32"), (16, "f16", "f32"), (32, "f16", "f16"), (32, "bf16", "f32"),
    (16, "bf16", "f32"), (16, "tf32", "f32"), (8, "tf32", "f32"), (64, "s8", "s32"),
    (32, "s8", "s32"), (64, "u8", "s32"), (64, "e4m3", "f32"),
)  # fmt: skip
OTHER_TEXT = r"""
#include "tl_mma_sm70.h"
#include "tl_mma_sp.h"
#define KERNEL(NAME, CALL, A, B, D, ...) \
    extern "C" __global__ void NAME(const uint32_t* a, const uint32_t* b, uint32_t* d, \
                                    const uint32_t* meta) { \
        uint32_t x[A], y[B], z[D]; \
        for (int i = 0; i < A; ++i) x[i] = a[threadIdx.x * A + i]; \
        for (int i = 0; i < B; ++i) y[i] = b[threadIdx.x * B + i]; \
        for (int i = 0; i < D; ++i) z[i] = d[threadIdx.x * D + i]; \
        CALL(z, x, y __VA_ARGS__); \
        for (int i = 0; i < D; ++i) d[threadIdx.x * D + i] = z[i]; \
    }
%s
"""


def other_cases() -> Iterator[Case]:
    """Products with a sparse A, in every selection of threads; products of pairs of quads."""
    kernels, cases = [], []
    for k, kind, result in SPARSE:
        blocks = k // (8 if kind == "tf32" else 16)
        for selector in range(4 // blocks if blocks < 4 else 1):
            name = f"sparse_k{k}_{kind}_{result}_{selector}"
            call = f"tl_mma_sp_m16n8k{k}_{kind}_{kind}_{result}<{selector}>"
            sizes = (_words(8 * k, kind), _words(8 * k, kind), _words(128, result))
            kernels.append(
                f"KERNEL({name}, {call}, {sizes[0]}, {sizes[1]}, {sizes[2]}, , meta[threadIdx.x])"
            )
            cases.append((name, kind, result, sizes))
    for la, lb, result in itertools.product(("row", "col"), ("row", "col"), ("f32", "f16")):
        name = f"quads_{la}_{lb}_{result}"
        sizes = (2, 2, 8 if result == "f32" else 4)
        kernels.append(
            f"KERNEL({name}, tl_mma_m16n16k4_{la}_{lb}_f16_f16_{result}, 2, 2, {sizes[2]})"
        )
        cases.append((name, "f16", result, sizes))
    source = OTHER_TEXT % "\n".join(kernels)
    rng = np.random.default_rng(6)
    for name, kind, result, sizes in cases:
        args = [_registers(words, k, rng) for words, k in zip(sizes, (kind, kind, result))]
        if kind == "tf32":  # one of two words of 32 bits
            groups = rng.choice([0b0100, 0b1110], (32, 8))
        else:  # two of four elements, in their order
            groups = rng.choice([0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110], (32, 8))
        meta = (groups << 4 * np.arange(8)).sum(axis=1).astype(np.uint32)
        yield Case(name, "other", source, name, "sm_90a", (*args, meta), 2, threads=32)


def _registers(words: int, kind: str, rng: np.random.Generator) -> Array:
    """Random small whole numbers in so many registers of 32 lanes."""
    dtype = DType(LONG[kind])
    codes, _ = drawn(kind, (32, words * 32 // dtype.bits), int(rng.integers(1 << 30)))
    if dtype.bits == 4:
        both = codes.view(np.uint8) & 15
        codes = both[:, 0::2] | both[:, 1::2] << 4
    return np.ascontiguousarray(codes).view(np.uint32)


# -- conversions ---------------------------------------------------------------------------------
def convert_source() -> str:
    """Kernels that decode all codes of a format and encode many numbers."""
    text = '#include "tl_float.h"\n'
    for unit, name in sorted(set(NARROW_FLOATS.values())):
        text += (
            f'extern "C" __global__ void decode_{name}(const {unit}* c, float* x, int n) '
            f"{{ for (int i = threadIdx.x; i < n; i += 128) x[i] = tl_{name}_to_f32(c[i]); }}\n"
            f'extern "C" __global__ void encode_{name}(const float* x, {unit}* c, int n) '
            f"{{ for (int i = threadIdx.x; i < n; i += 128) c[i] = tl_f32_to_{name}(x[i]); }}\n"
        )
    return text


def convert_cases() -> Iterator[Case]:
    """Every code, and numbers at and beside every rounding border."""
    source, seen = convert_source(), set()
    for dtype, (unit, name) in sorted(NARROW_FLOATS.items()):
        if name in seen:
            continue
        seen.add(name)
        form = DType(dtype).float_format
        kind = np.uint16 if unit == "uint16_t" else np.uint8
        bits = form.exponent + form.mantissa + (form.specials != "scale")
        codes = np.arange(2**bits).astype(kind)
        values = floats.decode(codes, dtype)
        yield Case(
            f"decode {dtype}", "convert", source, f"decode_{name}", "sm_90a",
            (codes, np.zeros(codes.size, np.float32), codes.size), 1, nans=True,
        )  # fmt: skip
        exact = np.unique(values[np.isfinite(values)].astype(np.float64))
        points = np.concatenate([exact, (exact[1:] + exact[:-1]) / 2]).astype(np.float32)
        rng = np.random.default_rng(1).integers(0, 2**32, 20000, dtype=np.uint32).view(np.float32)
        with np.errstate(over="ignore"):
            near = [np.nextafter(points, np.float32(side)) for side in (np.inf, -np.inf)]
        inputs = np.concatenate([points, *near, rng])
        yield Case(
            f"encode {dtype}", "convert", source, f"encode_{name}", "sm_90a",
            (inputs, np.zeros(inputs.size, kind), inputs.size), 1,
        )  # fmt: skip


# -- matrices between shared memory and registers ------------------------------------------------
MATRIX_TEXT = r"""
#include "tl_memory.h"
#define LOAD(COUNT, SUFFIX) \
    extern "C" __global__ void load_##COUNT##SUFFIX(const uint4* in, uint32_t* out) { \
        extern __shared__ __align__(1024) unsigned char tl_smem[]; \
        ((uint4*)tl_smem)[threadIdx.x] = in[threadIdx.x]; \
        __syncthreads(); \
        uint32_t r[COUNT]; \
        tl_ldmatrix_x##COUNT##SUFFIX(r, tl_smem + 16 * ((threadIdx.x * 5 + 3) %% 32)); \
        for (int i = 0; i < COUNT; ++i) out[threadIdx.x * COUNT + i] = r[i]; \
    } \
    extern "C" __global__ void store_##COUNT##SUFFIX(const uint32_t* in, uint4* out) { \
        extern __shared__ __align__(1024) unsigned char tl_smem[]; \
        ((uint4*)tl_smem)[threadIdx.x] = make_uint4(0u, 0u, 0u, 0u); \
        __syncthreads(); \
        uint32_t r[COUNT]; \
        for (int i = 0; i < COUNT; ++i) r[i] = in[threadIdx.x * COUNT + i]; \
        tl_stmatrix_x##COUNT##SUFFIX(tl_smem + 16 * ((threadIdx.x * 5 + 3) %% 32), r); \
        __syncthreads(); \
        out[threadIdx.x] = ((uint4*)tl_smem)[threadIdx.x]; \
    }
LOAD(1, ) LOAD(2, ) LOAD(4, ) LOAD(1, _trans) LOAD(2, _trans) LOAD(4, _trans)
""".replace("%%", "%")


def matrix_cases() -> Iterator[Case]:
    """ldmatrix and stmatrix of any count, rows in a mixed order."""
    rng = np.random.default_rng(9)
    for count, suffix in itertools.product((1, 2, 4), ("", "_trans")):
        image = rng.integers(0, 2**32, (32, 4), dtype=np.uint32)
        registers = rng.integers(0, 2**32, (32, count), dtype=np.uint32)
        yield Case(
            f"ldmatrix x{count}{suffix}", "matrix", MATRIX_TEXT, f"load_{count}{suffix}", "sm_90a",
            (image, np.zeros_like(registers)), 1, shared=512, threads=32,
        )  # fmt: skip
        yield Case(
            f"stmatrix x{count}{suffix}", "matrix", MATRIX_TEXT, f"store_{count}{suffix}", "sm_90a",
            (registers, np.zeros_like(image)), 1, shared=512, threads=32,
        )  # fmt: skip


# -- boxes of tensors ----------------------------------------------------------------------------
TMA_TEXT = r"""
#include "tl_memory.h"
#include "tl_sync.h"
#include "tl_tma.h"
#define WITH(RANK, ...) \
    extern "C" __global__ void load_##RANK( \
        const __grid_constant__ tl_tensor_map map, const int* c, const uint4* unused, int bytes, \
        int vectors, uint4* out) { \
        extern __shared__ __align__(1024) unsigned char tl_smem[]; \
        uint64_t* bar = (uint64_t*)(tl_smem + 65536); \
        for (int i = threadIdx.x; i < vectors; i += 128) \
            ((uint4*)tl_smem)[i] = make_uint4(0xeeeeeeeeu, 0xeeeeeeeeu, 0xeeeeeeeeu, 0xeeeeeeeeu); \
        if (threadIdx.x == 0) { tl_mbarrier_init(bar, 1u); tl_fence_barrier_init(); } \
        tl_fence_proxy_async(); \
        __syncthreads(); \
        if (threadIdx.x == 0) { \
            tl_mbarrier_arrive_expect_tx(bar, bytes); \
            LOAD(tl_smem, &map, bar, __VA_ARGS__); \
        } \
        tl_mbarrier_wait(bar, 0u); \
        for (int i = threadIdx.x; i < vectors; i += 128) out[i] = ((uint4*)tl_smem)[i]; \
    } \
    extern "C" __global__ void store_##RANK( \
        const __grid_constant__ tl_tensor_map map, const int* c, const uint4* in, int what, \
        int vectors, uint4* unused) { \
        extern __shared__ __align__(1024) unsigned char tl_smem[]; \
        for (int i = threadIdx.x; i < vectors; i += 128) ((uint4*)tl_smem)[i] = in[i]; \
        tl_fence_proxy_async(); \
        __syncthreads(); \
        if (threadIdx.x == 0) { \
            if (what == 0) tl_tma_store(&map, tl_smem, __VA_ARGS__); \
            if (what == 1) tl_tma_reduce_add(&map, tl_smem, __VA_ARGS__); \
            if (what == 2) tl_tma_reduce_max(&map, tl_smem, __VA_ARGS__); \
            tl_bulk_commit(); \
            tl_bulk_wait<0>(); \
        } \
    }
#define LOAD tl_tma_load
WITH(1, c[0]) WITH(2, c[0], c[1]) WITH(3, c[0], c[1], c[2]) WITH(4, c[0], c[1], c[2], c[3])
WITH(5, c[0], c[1], c[2], c[3], c[4])
extern "C" __global__ void load_im2col(const __grid_constant__ tl_tensor_map map, const int* c,
                                       const uint4* unused, int bytes, int vectors, uint4* out) {
    extern __shared__ __align__(1024) unsigned char tl_smem[];
    uint64_t* bar = (uint64_t*)(tl_smem + 65536);
    if (threadIdx.x == 0) { tl_mbarrier_init(bar, 1u); tl_fence_barrier_init(); }
    __syncthreads();
    if (threadIdx.x == 0) {
        tl_mbarrier_arrive_expect_tx(bar, bytes);
        tl_tma_load_im2col(tl_smem, &map, bar, c[0], c[1], c[2], c[3], c[4], c[5]);
    }
    tl_mbarrier_wait(bar, 0u);
    for (int i = threadIdx.x; i < vectors; i += 128) out[i] = ((uint4*)tl_smem)[i];
}
"""
TMA_TYPES = {"uint8": 0, "int32": 3, "float16": 6, "float32": 7, "float64": 8}


def tensor(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    """Small whole numbers; lines of whole 16 bytes."""
    return np.random.default_rng(seed).integers(-99, 99, shape).astype(dtype)


def tiled(
    x: Array, of: int, box: tuple[int, ...], swizzle: int = 0, steps: tuple[int, ...] = (),
    fill: int = 0, kind: int | None = None,
) -> Map:  # fmt: skip
    """A tiled map of a contiguous array; box and steps innermost first."""
    code = TMA_TYPES[str(x.dtype)] if kind is None else kind
    form = MapForm(
        False, code, x.ndim, 0, swizzle, 0, fill, 0, 0, steps or (1,) * x.ndim, box
    )  # fmt: skip
    return Map(of, form, x.shape[::-1], tuple(x.strides[::-1][1:]))


def tma_cases() -> Iterator[Case]:
    """Loads of every rank, swizzle and kind of edge; stores, reductions; im2col."""
    for rank, dtype in itertools.product(range(1, 6), ("uint8", "float16", "float32", "float64")):
        x = tensor((3, 4, 3, 7, 48)[-rank:], dtype, rank)
        box = (32, 4, 2, 3, 2)[:rank]
        chunk = 16 // x.itemsize  # the first coordinate goes in steps of 16 bytes
        for at in (
            [0] * 5,
            [-chunk, -1, -1, -1, -1],
            [32 // chunk * chunk, 4, 1, 2, 1],
            [64, 9, 9, 9, 9],
        ):
            yield _load(f"{dtype} rank {rank} at {at[:rank]}", x, box, at)
    for swizzle, span in TMA_SPANS.items():
        x = tensor((64, 128), "float16", 20)
        columns = span // 2
        yield _load(f"swizzle {span}", x, (columns, 24), [columns, 3], swizzle=swizzle)
        if span > 32:
            yield _load(
                f"swizzle {span}, short lines", x, (columns // 2, 16), [8, 3], swizzle=swizzle
            )
        for what, operation in enumerate(("store", "sum", "maximum")):
            yield _store(f"{operation}, swizzle {span}", x, (columns, 16), [72, 55], what, swizzle)
    y = tensor((20, 9, 32), "float32", 21)
    yield _load("element strides", y, (16, 8, 9), [4, -2, 15], steps=(1, 3, 2))
    yield replace(_load("NaN outside", y[0], (32, 4), [16, 7], fill=1), nans=True)
    odd = (y[0] + 1) / np.float32(3)
    odd[0, :4] = np.float32([1e-40, -1e-40, 2**-126, 1 + 2**-11])
    for kind in (10, 11, 12):
        yield _load(f"type {kind}", odd, (32, 8), [0, 0], kind=kind)
    yield from im2col_cases()


def refused_cases() -> Iterator[Case]:
    """Boxes at places where the hardware takes none."""
    steps = "the first coordinate has to be a multiple of 16 bytes"
    for dtype, at in itertools.product(("uint8", "float16", "float32", "float64"), (-3, 1, 5)):
        x = tensor((16, 64), dtype, 50)
        if at * x.itemsize % 16:
            yield replace(_load(f"{dtype} at {at}", x, (16, 4), [at, 3]), refused=steps)
    x = tensor((64, 128), "float16", 51)
    for mode, swizzle in itertools.product((0, 1, 2), TMA_SPANS):
        columns = TMA_SPANS[swizzle] // 2
        for at in ([-8, 3], [8, -1], [4, 3]):
            name = f"{('store', 'sum', 'maximum')[mode]}, swizzle {TMA_SPANS[swizzle]}, at {at}"
            message = steps if at == [4, 3] else "a tensor store takes no negative coordinates"
            yield replace(_store(name, x, (columns, 16), at, mode, swizzle), refused=message)


def _load(name: str, x: Array, box: tuple[int, ...], at: list[int], **form: Any) -> Case:
    tensor_map = tiled(x, 2, box, **form)
    steps = tensor_map.form.steps
    lines = int(np.prod([-(-b // s) for b, s in zip(box[1:], steps[1:], strict=True)], dtype=int))
    span = TMA_SPANS[tensor_map.form.swizzle]
    pitch = max(span, box[0] * x.itemsize) if tensor_map.form.swizzle else box[0] * x.itemsize
    out = np.zeros(-(-lines * pitch // 16) * 4, np.uint32)
    return Case(
        f"TMA load {name}", "tma", TMA_TEXT, f"load_{x.ndim}", "sm_90a",
        (tensor_map, np.array(at[:5], np.int32), np.ascontiguousarray(x),
         lines * box[0] * x.itemsize,
         out.size // 4, out), 5, shared=65536 + 16,
    )  # fmt: skip


def _store(
    name: str, x: Array, box: tuple[int, ...], at: list[int], what: int, swizzle: int
) -> Case:
    y = tensor(x.shape, str(x.dtype), 33)
    tile = np.ascontiguousarray(
        tensor((box[1], TMA_SPANS[swizzle] // x.itemsize), str(x.dtype), 34)
    )
    return Case(
        f"TMA {name}", "tma", TMA_TEXT, f"store_{x.ndim}", "sm_90a",
        (tiled(y, 5, box, swizzle), np.array(at, np.int32), tile, what, tile.nbytes // 16, y), 5,
        shared=65536 + 16,
    )  # fmt: skip


def im2col_cases() -> Iterator[Case]:
    """Windows of a convolution of 3 x 3."""
    n, h, w, c = 2, 9, 7, 16
    x = tensor((n, h, w, c), "float16", 40)
    for stride, dilation, pad in itertools.product((1, 2), (1, 2), (0, 1)):
        upper = pad - 2 * dilation
        form = MapForm(
            True, 6, 4, 0, 0, 0, 0, 8, 24, (1, stride, stride, 1), (), (-pad, -pad), (upper, upper)
        )
        tensor_map = Map(2, form, x.shape[::-1], tuple(x.strides[::-1][1:]))
        for i, j in ((0, 0), (1, 2), (2, 1)):
            at = np.array([8, stride - pad, -pad, 0, j * dilation, i * dilation], np.int32)
            out = np.zeros(24 * 4, np.uint32)
            yield Case(
                f"TMA im2col stride {stride} dilation {dilation} pad {pad} at {i} {j}", "tma",
                TMA_TEXT, "load_im2col", "sm_90a", (tensor_map, at, x, 24 * 16, 24, out), 5,
                shared=65536 + 16,
            )  # fmt: skip


# -- atomic operations ---------------------------------------------------------------------------
ATOMIC_TEXT = r"""
#include "tl_atomic.h"
#define KERNEL(NAME, MEM, VAL) \
    extern "C" __global__ void NAME(MEM* p, const float* v, VAL* old, MEM* shared) { \
        __shared__ MEM s[128]; \
        const int i = threadIdx.x; \
        s[i] = p[i]; \
        __syncthreads(); \
        old[i] = tl_atomic_##NAME(p + i, (VAL)v[i]); \
        tl_atomic_##NAME(s + i, (VAL)v[i]); \
        shared[i] = s[i]; \
    }
%s
"""


def atomic_cases() -> Iterator[Case]:
    """One operation of each thread on its own element, in global and in shared memory."""
    formats = {"f32": "float", "f64": "double", "f16": "uint16_t", "bf16": "uint16_t"}
    names = [f"{what}_{kind}" for what in ("add", "max", "min", "exch") for kind in formats]
    source = ATOMIC_TEXT % "\n".join(
        f"KERNEL({name}, {formats[kind]}, {'double' if kind == 'f64' else 'float'})"
        for name, kind in ((name, name.split("_")[1]) for name in names)
    )
    rng = np.random.default_rng(13)
    for name in names:
        kind = name.split("_")[1]
        values = rng.standard_normal((2, 128)) * np.exp2(rng.integers(-12, 12, (2, 128)))
        values[0, :6], values[1, :6] = (
            [1e-40, 0, -0.0, np.inf, np.nan, 1e-40],
            [1e-40, 1e-41, 0, -np.inf, 1, 2],
        )
        width = {"f32": np.float32, "f64": np.float64}.get(kind)
        memory = values[0].astype(width) if width else floats.encode(values[0], LONG[kind])
        old = np.zeros(128, np.float64 if kind == "f64" else np.float32)
        args = (memory, values[1].astype(np.float32), old, np.zeros_like(memory))
        for result, which in ((0, "global"), (2, "old"), (3, "shared")):
            yield Case(f"{name} {which}", "atomic", source, name, "sm_90a", args, result)


SUITES = {
    "wgmma": wgmma_cases, "mma": mma_cases, "convert": convert_cases, "matrix": matrix_cases,
    "tma": tma_cases, "rounding": rounding_cases, "other": other_cases,
    "atomic": atomic_cases, "refused": refused_cases,
}  # fmt: skip
