"""Instructions of narrow products: chosen by the machine, exact, and modelled where it lacks them."""

from __future__ import annotations

import ctypes
import platform
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from tensor_types import I8, I32

import tilelang
import tilelang.language as T
from tilelang.cpu.dot_instructions import (
    BYTES,
    SEVEN_BITS,
    SIGNED_BYTES,
    TILE_WORDS,
    PackedDot,
    Unit,
    packed_dot_of,
)
from tilelang.cpu.executable import INCLUDE_DIR
from tilelang.cpu.gemm_kernels import KernelSpec, emit_kernel
from tilelang.cpu.toolchain import find_compiler
from tilelang.runtime.library import load_library

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
on_x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="vectors of x86 processors")

# What the instructions do by their manuals, lane by lane: B has no sign where a row has an offset.
MODEL = """
#include <stdint.h>
#include <string.h>
#define TL_DOT_MODEL
#define MODEL_OF(NAME, FACTOR_B, FACTOR_A)                                          \\
    static inline int32_t NAME(int32_t c, int32_t b, int32_t a) {                   \\
        FACTOR_B x[4 / sizeof(FACTOR_B)]; FACTOR_A y[4 / sizeof(FACTOR_A)];         \\
        memcpy(x, &b, 4); memcpy(y, &a, 4);                                         \\
        for (unsigned g = 0; g < 4 / sizeof(FACTOR_B); ++g) c += x[g] * y[g];       \\
        return c;                                                                   \\
    }
MODEL_OF(unsigned_bytes, uint8_t, int8_t)
MODEL_OF(signed_bytes, int8_t, int8_t)
MODEL_OF(pairs, int16_t, int16_t)
#define LANES(V, C, B, A, F)                                                                  \\
    ({ V c_ = (C), b_ = (V)(B), a_ = (V)(A);                                                  \\
       for (unsigned l = 0; l < sizeof(V) / 4; ++l) c_[l] = F(c_[l], b_[l], a_[l]); c_; })
#define TL_VPDPBUSD(V, C, B, A) LANES(V, C, B, A, unsigned_bytes)
#define TL_VEX_VPDPBUSD(V, C, B, A) LANES(V, C, B, A, unsigned_bytes)
#define TL_VPDPBSSD(V, C, B, A) LANES(V, C, B, A, signed_bytes)
#define TL_SDOT(V, C, B, A) LANES(V, C, B, A, signed_bytes)
#define TL_VPDPWSSD(V, C, B, A) LANES(V, C, B, A, pairs)
#define TL_VPMADDWD_64(V, C, B, A) LANES(V, C, B, A, pairs)
"""
TILES = [
    f'-DTL_TILE_MODEL="{Path(__file__).with_name("tile_model.h")}"',
    *(f"-D__AMX_{name}__=1" for name in ("TILE", "INT8", "BF16")),
]
SIZES = (
    (1, 1, 1), (5, 16, 3), (6, 33, 8), (14, 40, 17), (19, 70, 37), (2, 17, 1100), (50, 100, 300),
)  # fmt: skip


def text_of(
    words: PackedDot, b_unsigned: bool, a_unsigned: bool, trans_a: bool, trans_b: bool
) -> str:
    """C functions ``call_I(a, b, c)`` for all sizes."""
    parts = ['#include "tl_math.h"', '#include "tl_dot.h"', '#include "tl_tile.h"', words.text]
    given = f"TL_{words.prefix}_LAYOUT"
    for at, (m, n, k) in enumerate(SIZES):
        spec = KernelSpec("int32", m, n, k, 0, 1, n, words)
        lda, ldb = m if trans_a else k, k if trans_b else n
        most = words.most_words(k)
        room = (m * (most + TILE_WORDS), -(-n // 16) * 16 * most)
        parts += [
            emit_kernel(spec),
            f"void call_{at}(const void* a, const void* b, int32_t* c, int clear) {{",
            *(f"    static int32_t {x}[{r}] __attribute__((aligned(64)));" for x, r in zip("xy", room)),
            f"    tl_rows_8(a, {lda}, {m}, {k}, {int(trans_a)}, {int(a_unsigned)}, {given}, x);",
            f"    tl_panels_8(b, {ldb}, {n}, {k}, {int(trans_b)}, {int(b_unsigned)}, {given}, y);",
            f"    {spec.name}(x, y, c, clear);", "}",
        ]  # fmt: skip
    return "\n".join(parts)


def check(call: object, a_unsigned: bool, b_unsigned: bool, trans_a: bool, trans_b: bool) -> None:
    """Results of the functions of :func:`text_of` for extreme factors."""
    rng = np.random.default_rng(0)
    for at, (m, n, k) in enumerate(SIZES):
        kinds = [np.uint8 if unsigned else np.int8 for unsigned in (a_unsigned, b_unsigned)]
        limits = [np.iinfo(kind) for kind in kinds]
        a, b = (
            rng.choice([x.min, x.max, x.min + 1, 3], size).astype(kind)
            for x, kind, size in zip(limits, kinds, ((m, k), (k, n)))
        )
        given = [np.ascontiguousarray(x.T if t else x) for x, t in ((a, trans_a), (b, trans_b))]
        c = np.full((m, n), 7, np.int32)
        wanted = a.astype(np.int64) @ b.astype(np.int64)
        for clear, start in ((0, 7), (1, 0)):
            arrays = (x.ctypes.data_as(ctypes.c_void_p) for x in (*given, c))
            call(at, *arrays, clear)  # type: ignore[operator]  # a function
            np.testing.assert_array_equal(c, wanted + start)


CASES = [
    (SIGNED_BYTES, False, False),
    (BYTES[False, True], True, False),
    (BYTES[True, False], False, True),
    (BYTES[False, False], True, True),
]
IDS = ["int8 int8", "uint8 int8", "int8 uint8", "uint8 uint8"]


def run(
    text: str, flags: tuple[str, ...], case: tuple[PackedDot, bool, bool], turned: tuple[bool, bool]
) -> None:
    compiler = find_compiler()
    assert compiler is not None
    every = ("-O2", "-fwrapv", f"-I{INCLUDE_DIR}", *flags)
    library = load_library(compiler.compile_shared(text, every)).handle
    check(lambda at, *args: getattr(library, f"call_{at}")(*args), case[1], case[2], *turned)


@needs_compiler
@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.parametrize("turned", [(False, False), (True, True)], ids=["rows", "transposed"])
def test_products_of_bytes_are_exact_on_this_machine(
    case: tuple[PackedDot, bool, bool], turned: tuple[bool, bool]
) -> None:
    words, a_unsigned, b_unsigned = case
    compiler = find_compiler()
    assert compiler is not None
    run(text_of(words, b_unsigned, a_unsigned, *turned), compiler.native, case, turned)


@needs_compiler
@on_x86
@pytest.mark.parametrize(
    "feature",
    [
        "",
        "__AVX512VNNI__",
        "__AVXVNNI__",
        "__AVXVNNIINT8__",
        "__ARM_FEATURE_DOTPROD",
        "__AVX512BW__",
    ],
)
def test_units_that_this_machine_lacks_are_exact_in_a_model(feature: str) -> None:
    define = (f"-D{feature}=1",) if feature else ()
    for words, a_unsigned, b_unsigned in CASES:
        text = MODEL + text_of(words, b_unsigned, a_unsigned, False, True)
        run(text, ("-march=x86-64", *define), (words, a_unsigned, b_unsigned), (False, True))


@needs_compiler
@pytest.mark.parametrize("case", CASES, ids=IDS)
@pytest.mark.parametrize("turned", [(False, False), (True, True)], ids=["rows", "transposed"])
@pytest.mark.parametrize("more", [(), ("-DTL_TILES_REFUSED",)], ids=["tiles", "refused"])
def test_products_of_bytes_by_tiles_are_exact_in_a_model(
    case: tuple[PackedDot, bool, bool], turned: tuple[bool, bool], more: tuple[str, ...]
) -> None:
    words, a_unsigned, b_unsigned = case
    compiler = find_compiler()
    assert compiler is not None
    text = text_of(words, b_unsigned, a_unsigned, *turned)
    run(text, (*compiler.native, *TILES, *more), case, turned)


# Factors of A, factors of B, and what is added to those of B so that vpmaddubsw is exact.
SEVEN = [
    ((-64, 64), (-128, 127), 128), ((64,), (127,), 128), ((-64,), (127,), 128),
    ((-128, 127), (-64, 63), 64), ((-128,), (63,), 64), ((127,), (63,), 64),
    ((65, 0), (-128, 127), 0), ((-65, 0), (64, 0), 0), ((-128, 127), (-65, 0), 0),
]  # fmt: skip


@needs_compiler
@on_x86
@pytest.mark.parametrize("turned", [(False, False), (True, True)], ids=["rows", "transposed"])
def test_bytes_of_which_an_operand_has_seven_bits_are_exact(turned: tuple[bool, bool]) -> None:
    compiler = find_compiler()
    assert compiler is not None
    if "avx2" not in Path("/proc/cpuinfo").read_text(encoding="ascii"):
        pytest.skip("needs AVX2")
    text = text_of(SIGNED_BYTES, False, False, *turned) + seven_bits_of(turned)
    flags = ("-march=haswell", "-O2", "-fwrapv", f"-I{INCLUDE_DIR}")
    library = load_library(compiler.compile_shared(text, flags)).handle
    rng = np.random.default_rng(0)
    for (m, n, k), call in ((size, getattr(library, f"seven_{i}")) for i, size in enumerate(SIZES)):
        for of_a, of_b, offset in SEVEN:
            a, b = (rng.choice(x, s).astype(np.int8) for x, s in ((of_a, (m, k)), (of_b, (k, n))))
            a[-1, -1], b[-1, -1] = of_a[0], of_b[0]  # the last one decides
            given = [np.ascontiguousarray(x.T if t else x) for x, t in zip((a, b), turned)]
            c = np.full((m, n), 7, np.int32)
            arrays = (x.ctypes.data_as(ctypes.c_void_p) for x in (*given, c))
            assert call(*arrays) == offset
            if offset:
                np.testing.assert_array_equal(c, a.astype(int) @ b.astype(int) + 7)


def seven_bits_of(turned: tuple[bool, bool]) -> str:
    """C functions ``seven_I(a, b, c)`` for all sizes, which give the offset, and add if there is one."""
    parts = ["", SEVEN_BITS.text]
    for at, (m, n, k) in enumerate(SIZES):
        spec = KernelSpec("int32", m, n, k, 0, 1, n, SEVEN_BITS)
        (rows, lda), (deep, ldb) = [
            (y, x) if t else (x, y) for t, (x, y) in zip(turned, ((m, k), (k, n)))
        ]
        most = SEVEN_BITS.most_words(k)
        parts += [
            emit_kernel(spec),
            f"int seven_{at}(const void* a, const void* b, int32_t* c) {{",
            *(f"    static int32_t {x}[{r}] __attribute__((aligned(64)));"
              for x, r in (("x", m * (most + 1)), ("y", -(-n // 16) * 16 * most))),
            f"    const int more = tl_seven_bits(a, {lda}, {rows}, {lda}, b, {ldb}, {deep}, {ldb});",
            "    if (!more) return 0;",
            f"    tl_rows_8(a, {lda}, {m}, {k}, {int(turned[0])}, 0, TL_I7_GROUP, more, x);",
            f"    tl_panels_8(b, {ldb}, {n}, {k}, {int(turned[1])}, 0, TL_I7_GROUP, more, y);",
            f"    {spec.name}(x, y, c, 0);", "    return more;", "}",
        ]  # fmt: skip
    return "\n".join(parts)


@needs_compiler
@pytest.mark.parametrize(("of_a", "of_b", "_"), SEVEN)
def test_a_program_with_bytes_of_seven_bits_sums_exactly(
    of_a: tuple[int, ...], of_b: tuple[int, ...], _: int
) -> None:
    M, N, K = 45, 70, 300

    @T.prim_func
    def product(A: I8[M, K], B: I8[N, K], C: I32[M, N]):
        with T.Kernel(T.ceildiv(N, 40), T.ceildiv(M, 32), threads=64) as (bx, by):
            a = T.alloc_shared((32, K), "int8")
            b = T.alloc_shared((40, K), "int8")
            c = T.alloc_fragment((32, 40), "int32")
            T.copy(A[by * 32, 0], a)
            T.copy(B[bx * 40, 0], b)
            T.clear(c)
            T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[by * 32, bx * 40])

    rng = np.random.default_rng(1)
    a, b = (rng.choice(x, s).astype(np.int8) for x, s in ((of_a, (M, K)), (of_b, (N, K))))
    got = tilelang.compile(product, out_idx=[-1], target="cpu")(a, b)
    np.testing.assert_array_equal(got, a.astype(int) @ b.T.astype(int))


def assembly(command: list[str], unit: Unit, words: PackedDot, folder: Path) -> str:
    """What a compiler makes of one product; skipped where it does not know the machine."""
    folder.joinpath("x.c").write_text(text_of(words, False, False, False, False), encoding="utf-8")
    words_ = [*command, "-O2", "-w", "-S", f"-I{INCLUDE_DIR}", "x.c", "-o", "x.s"]
    done = subprocess.run(words_, cwd=folder, capture_output=True, text=True, check=False)
    if re.search("bad value|unknown target CPU|unsupported argument", done.stderr):
        pytest.skip(f"the compiler knows no machine with {unit.name}")
    assert done.returncode == 0, done.stderr
    return folder.joinpath("x.s").read_text(encoding="utf-8")


@on_x86
@pytest.mark.parametrize(
    ("march", "instruction", "register"),
    [("sapphirerapids", "vpdpbusd", "zmm"), ("znver4", "vpdpbusd", "zmm"), ("sierraforest", "vpdpbssd", "ymm"),
     ("alderlake", "vpdpbusd", "ymm"), ("skylake-avx512", "vpmaddwd", "zmm"), ("haswell", "vpmaddwd", "ymm"),
     ("x86-64", "pmaddwd", "xmm")],
)  # fmt: skip
@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_the_instruction_of_a_machine_is_selected(
    march: str, instruction: str, register: str, compiler: str, tmp_path: Path
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    unit = next(u for u in SIGNED_BYTES.units if u.name == instruction)
    text = assembly([compiler, f"-march={march}"], unit, SIGNED_BYTES, tmp_path)
    assert re.search(rf"\b{instruction}\s.*%{register}", text)
    assert bool(re.search(r"\btdpbssd\s.*%tmm", text)) == (march == "sapphirerapids")


@on_x86
@pytest.mark.parametrize("words", [SIGNED_BYTES, *BYTES.values()], ids=lambda words: words.prefix)
@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_instructions_on_tiles_are_assembled(
    words: PackedDot, compiler: str, tmp_path: Path
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    tmp_path.joinpath("x.c").write_text(text_of(words, False, False, False, False), "utf-8")
    flags = ["-march=sapphirerapids", "-O2", "-w", "-c", f"-I{INCLUDE_DIR}", "x.c", "-o", "x.o"]
    subprocess.run([compiler, *flags], cwd=tmp_path, check=True)


@pytest.mark.skipif(shutil.which("aarch64-linux-gnu-gcc") is None, reason="needs a cross compiler")
@pytest.mark.skipif(shutil.which("qemu-aarch64-static") is None, reason="needs an emulator")
@pytest.mark.parametrize(
    ("flags", "machine", "instruction"),
    [
        ("-march=armv8.2-a+dotprod", "max", r"sdot\s+v"),
        ("-march=armv8-a", "max", r"mla\s"),
        ("-march=armv8.2-a+sve -msve-vector-bits=256", "max,sve256=on", r"sdot\s+z"),
        ("-march=armv8.2-a+sve -msve-vector-bits=512", "max,sve512=on", r"sdot\s+z"),
    ],
)
def test_products_of_bytes_on_arm(
    flags: str, machine: str, instruction: str, tmp_path: Path
) -> None:
    command = ["aarch64-linux-gnu-gcc", *flags.split(), "-fwrapv"]
    unit = next(u for u in SIGNED_BYTES.units if u.name == "sdot")
    assert re.search(rf"\b{instruction}", assembly(command, unit, SIGNED_BYTES, tmp_path))
    rows = (
        max(m * k for m, _, k in SIZES),
        max(n * k for _, n, k in SIZES),
        max(m * n for m, n, _ in SIZES),
    )
    main = [
        "#include <stdio.h>", text_of(SIGNED_BYTES, False, False, False, True), "int main(void) {",
        f"    static int8_t a[{rows[0]}], b[{rows[1]}]; static int32_t c[{rows[2]}];",
        f"    for (int i = 0; i < {rows[0]}; ++i) a[i] = i % 3 ? -128 : i % 127;",
        f"    for (int i = 0; i < {rows[1]}; ++i) b[i] = i % 5 ? -128 : i % 113;",
    ]  # fmt: skip
    for at, (m, n, k) in enumerate(SIZES):
        main += [
            f"    call_{at}(a, b, c, 1);",
            f"    for (int i = 0; i < {m}; ++i) for (int j = 0; j < {n}; ++j) {{",
            f"        int x = 0; for (int p = 0; p < {k}; ++p) x += a[i * {k} + p] * b[j * {k} + p];",
            f"        if (c[i * {n} + j] != x) return {at + 1};", "    }",
        ]  # fmt: skip
    tmp_path.joinpath("main.c").write_text(
        "\n".join([*main, "    return 0;", "}"]), encoding="utf-8"
    )
    build = [*command, "-O2", "-w", "-static", f"-I{INCLUDE_DIR}", "main.c", "-o", "main"]
    subprocess.run(build, cwd=tmp_path, check=True)
    words = ["qemu-aarch64-static", "-cpu", machine, "main"]
    assert subprocess.run(words, cwd=tmp_path, check=False).returncode == 0


# -- the table ----------------------------------------------------------------------------------
@pytest.mark.parametrize("words", [SIGNED_BYTES, *BYTES.values()], ids=lambda words: words.prefix)
def test_the_last_row_supports_every_machine_and_words_have_32_bits(words: PackedDot) -> None:
    assert [unit for unit in words.units if not unit.guard] == [words.units[-1]]
    assert all(unit.group in (2, 4) for unit in words.units)
    assert words.text.count("#define") == 4 * len(words.units) + 3
    assert words.tiles.group == 4


@pytest.mark.parametrize(("k", "words"), [(1, 16), (32, 16), (33, 32), (64, 32)])
def test_packed_rows_are_multiples_of_the_dot_product_width(k: int, words: int) -> None:
    assert SIGNED_BYTES.most_words(k) == words


def test_packed_operands() -> None:
    assert packed_dot_of("int8", "int8", "int32") is SIGNED_BYTES
    assert packed_dot_of("uint8", "int8", "int32").tiles.name == "tdpbusd"
    assert packed_dot_of("int8", "uint8", "int32").tiles.name == "tdpbsud"
    assert packed_dot_of("uint8", "uint8", "int32").tiles.name == "tdpbuud"
    assert packed_dot_of("int8", "int8", "float32") is None
    assert packed_dot_of("int32", "int8", "int32") is None
    assert packed_dot_of("float16", "float16", "float32") is None


@needs_compiler
@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("flags", [[], TILES], ids=["native", "tiles"])
def test_a_program_with_bytes_sums_exactly(kind: str, trans_b: bool, flags: list[str]) -> None:
    M, N, K = 45, 70, 300
    shape = (N, K) if trans_b else (K, N)
    tile = (40, 64) if trans_b else (64, 40)

    @T.prim_func
    def product(A: T.Tensor((M, K), kind), B: T.Tensor(shape, kind), C: I32[M, N]):
        with T.Kernel(T.ceildiv(N, 40), T.ceildiv(M, 32), threads=64) as (bx, by):
            a = T.alloc_shared((32, 64), kind)
            b = T.alloc_shared(tile, kind)
            c = T.alloc_fragment((32, 40), "int32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
                T.copy(A[by * 32, k * 64], a)
                if trans_b:
                    T.copy(B[bx * 40, k * 64], b)
                else:
                    T.copy(B[k * 64, bx * 40], b)
                T.gemm(a, b, c, transpose_B=trans_b)
            T.copy(c, C[by * 32, bx * 40])

    rng = np.random.default_rng(1)
    limits = np.iinfo(kind)
    a, b = (rng.choice([limits.min, limits.max], size).astype(kind) for size in ((M, K), shape))
    got = tilelang.compile(product, out_idx=[-1], target="cpu", compile_flags=flags)(a, b)
    np.testing.assert_array_equal(got, a.astype(int) @ (b.T if trans_b else b).astype(int))
