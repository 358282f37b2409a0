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
from gemm_program import gemm_program

import tilelang
from tilelang.cpu.dot_instructions import (
    BYTES,
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

from .instruction_models import TILES

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
@pytest.mark.share(4)
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
@pytest.mark.share(4)
@pytest.mark.parametrize(
    "feature",
    [
        "",
        *(f"__{name}__" for name in ("AVX512VNNI", "AVXVNNI", "AVXVNNIINT8", "AVX512BW")),
        "__ARM_FEATURE_DOTPROD",
    ],
)
def test_units_that_this_machine_lacks_are_exact_in_a_model(feature: str) -> None:
    define = (f"-D{feature}=1",) if feature else ()
    for words, a_unsigned, b_unsigned in CASES:
        text = MODEL + text_of(words, b_unsigned, a_unsigned, False, True)
        run(text, ("-march=x86-64", *define), (words, a_unsigned, b_unsigned), (False, True))


@needs_compiler
@pytest.mark.share(4)
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


# Factors of A and of B: an operand has seven bits, or neither.
FACTORS = [
    ((-64, 64), (-128, 127)), ((64,), (127,)), ((-64,), (127,)), ((-128, 127), (-64, 63)),
    ((-128,), (63,)), ((127,), (63,)), ((65, 0), (-128, 127)), ((-65, 0), (64, 0)),
    ((-128, 127), (-65, 0)), ((-128, 127), (-128, 127)),
]  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("kind", ["int8", "uint8"])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("flags", [[], TILES], ids=["native", "tiles"])
def test_a_program_with_bytes_sums_exactly(kind: str, trans_b: bool, flags: list[str]) -> None:
    M, N, K = 45, 70, 300
    product = gemm_program(
        M, N, K, (32, 40, 64), 2, 64, kind, "int32", acc="int32", trans_b=trans_b
    )
    kernel = tilelang.compile(product, out_idx=[-1], target="cpu", compile_flags=flags)
    rng = np.random.default_rng(1)
    for factors in FACTORS if kind == "int8" else [((0, 255), (0, 255))]:
        a, b = (rng.choice(x, size).astype(kind) for x, size in zip(factors, ((M, K), (K, N))))
        got = kernel(a, np.ascontiguousarray(b.T) if trans_b else b)
        np.testing.assert_array_equal(got, a.astype(int) @ b.astype(int))


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
@pytest.mark.share(4)
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


def test_packed_operands() -> None:
    assert packed_dot_of("int8", "int8", "int32") is SIGNED_BYTES
    assert packed_dot_of("uint8", "int8", "int32").tiles.name == "tdpbusd"
    assert packed_dot_of("int8", "uint8", "int32").tiles.name == "tdpbsud"
    assert packed_dot_of("uint8", "uint8", "int32").tiles.name == "tdpbuud"
    assert packed_dot_of("int8", "int8", "float32") is None
    assert packed_dot_of("int32", "int8", "int32") is None
    assert packed_dot_of("float16", "float16", "float32") is None
