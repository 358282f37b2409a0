"""Operand tiles of products get the layouts that kernels want, where nobody else sees them."""

from __future__ import annotations

import ctypes
import platform
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from contexts import CPU

import tilelang.language as T
from tilelang.cpu.gemm_kernels import ISAS, KernelSpec, emit_kernel, panel_width
from tilelang.cpu.gemm_writer import has_kernel
from tilelang.cpu.module import emit_module
from tilelang.cpu.operands import Panels, choose_operands, lower_operand_copies
from tilelang.cpu.toolchain import find_compiler
from tilelang.errors import TileUnsupportedError
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.runtime.library import load_library
from tilelang.transforms.normalize.simplify import simplify_func


def program(
    *, dtype: str = "float16", acc: str = "float32", columns: int = 40, rows: int = 16,
    trans_b: bool = False, part: bool = False, seen: bool = False, both: bool = False,
) -> S.PrimFunc:  # fmt: skip
    """``c += a . b`` with a (16, rows) and b (rows, columns); b transposed, filled in part, read
    by another statement, or the left operand of a second product."""
    shape = (columns, rows) if trans_b else (rows, columns)

    @T.prim_func
    def kernel(A: T.Tensor((16, rows), dtype), B: T.Tensor(shape, dtype)):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((16, rows), dtype)
            b = T.alloc_shared(shape, dtype)
            c = T.alloc_fragment((16, columns), acc)
            T.copy(A, a)
            if part:
                T.copy(B[0:8, :], b[0:8, :])
            else:
                T.copy(B, b)
            if seen:
                for i, j in T.Parallel(*shape):
                    b[i, j] = b[i, j] + b[i, j]
            T.gemm(a, b, c, transpose_B=trans_b)
            if both:
                d = T.alloc_fragment((rows, rows), acc)
                T.gemm(b, b, d, transpose_B=True)

    func: S.PrimFunc = simplify_func(kernel, CPU)
    return func


def tiles(func: S.PrimFunc) -> dict[str, Buffer]:
    return {n.buffer.name: n.buffer for n in S.walk(func.body) if isinstance(n, S.Alloc)}


def described(buffer: Buffer) -> tuple[Any, ...]:
    return tuple(buffer.shape), str(buffer.dtype), buffer.strides


PLAIN_B = ((16, 40), "float16", None)
ROWS_B = ((16, 40), "float32", (56, 1))
PANELS_B = ((3, 16, 16), "float32", None)


def test_the_left_tile_gets_padded_rows_and_the_right_tile_panels_in_the_accumulator_dtype() -> (
    None
):
    found = tiles(choose_operands(program(), CPU))
    assert described(found["a"]) == ((16, 16), "float32", (32, 1))
    assert described(found["b"]) == PANELS_B
    assert described(found["c"]) == ((16, 40), "float32", None)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"seen": True}, PLAIN_B),
        ({"part": True}, ROWS_B),
        ({"both": True}, ROWS_B),
        ({"trans_b": True}, ((40, 16), "float32", (32, 1))),
        ({"dtype": "int8", "acc": "int32"}, ((16, 40), "int8", None)),
        ({"dtype": "float64", "acc": "float64"}, ((5, 16, 8), "float64", None)),
    ],
    ids=["read by others", "filled in part", "also a left operand", "transposed", "int8", "double"],
)
def test_the_right_tile(options: dict[str, Any], expected: tuple[Any, ...]) -> None:
    assert described(tiles(choose_operands(program(**options), CPU))["b"]) == expected


def test_a_program_without_products_is_the_same_object() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((16,), "float32")
            T.copy(A, a)

    assert choose_operands(kernel, CPU) is kernel
    assert lower_operand_copies(kernel) is kernel


def test_statements_are_marked_for_the_later_passes() -> None:
    nodes = list(S.walk(choose_operands(program(), CPU).body))
    panels = Panels(rows=16, columns=40, width=16)
    notes = [n.hints.operand for n in nodes if isinstance(n, S.Copy)]
    assert notes == [("float16", None), ("float16", panels)]
    assert [n.hints.panels for n in nodes if isinstance(n, S.Gemm)] == [panels]


def loops(func: S.PrimFunc) -> str:
    """The text between the tiles and the product."""
    lines = textwrap.dedent(lower_operand_copies(choose_operands(func, CPU)).script()).splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("        c = ")) + 1
    last = next(n for n, line in enumerate(lines) if "T.gemm(" in line)
    return textwrap.dedent("\n".join(lines[first:last]))


def test_a_value_is_rounded_to_the_dtype_of_the_tile_before_it_is_widened() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((16, 16), "float16")
            c = T.alloc_fragment((16, 16), "float32")
            T.copy(A, a)
            T.gemm(a, a, c)

    assert 'a[i, j] = T.Cast("float32", T.Cast("float16", A[i, j]))' in loops(
        simplify_func(kernel, CPU)
    )


# -- kernels --------------------------------------------------------------------------------
def product(func: S.PrimFunc) -> S.Gemm:
    (found,) = (n for n in S.walk(func.body) if isinstance(n, S.Gemm))
    return found


def test_products_of_constant_size_in_an_accumulator_have_a_kernel() -> None:
    assert has_kernel(product(program()))
    assert has_kernel(product(program(dtype="int8", acc="int32")))


@pytest.mark.parametrize(("dtype", "width"), [("float32", 16), ("float64", 8), ("int32", 16)])
def test_panels_are_cache_lines_and_register_blocks_divide_or_pair_them(
    dtype: str, width: int
) -> None:
    assert panel_width(dtype) == width
    size = 8 if dtype == "float64" else 4
    assert width * size == 64
    parts = [isa.vectors * isa.vector_bytes // size for isa in ISAS]
    assert all(width % part == 0 or part == 2 * width for part in parts)


# What a compiler is told, and the flag of Linux that a machine has which runs its output.
MACHINES = {"avx512f": "-march=skylake-avx512", "avx2": "-march=haswell", "sse2": "-march=x86-64"}


@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="vectors of x86 processors")
@pytest.mark.parametrize("feature", MACHINES)
def test_kernels_of_every_vector_width_compute_every_remainder(feature: str) -> None:
    facts = Path("/proc/cpuinfo")
    if not facts.exists() or feature not in facts.read_text(encoding="utf-8").split():
        pytest.skip(f"this machine has no {feature}")
    compiler = find_compiler()
    assert compiler is not None
    k, stride = 5, 7
    specs = [
        KernelSpec(dtype, m, n, k, stride, 1, n + 3)
        for m in (1, 5, 6, 7, 14, 16, 19)
        for dtype, n in (("float32", 16), ("float32", 33), ("float32", 40), ("float64", 23))
    ]
    calls = [
        f"void call_{at}(const void* a, const void* b, void* c, int clear) "
        f"{{ {spec.name}(a, b, c, clear); }}"
        for at, spec in enumerate(specs)
    ]
    text = "\n".join(["#include <stdint.h>", *map(emit_kernel, specs), *calls])
    library = load_library(compiler.compile_shared(text, ("-O2", MACHINES[feature]))).handle
    rng = np.random.default_rng(0)
    for at, spec in enumerate(specs):
        width, kind = panel_width(spec.dtype), np.dtype(spec.dtype)
        a = rng.integers(-3, 4, (spec.m, stride)).astype(kind)
        b = rng.integers(-3, 4, (k, spec.n)).astype(kind)
        panels = -(-spec.n // width)
        whole = np.zeros((k, panels * width), kind)
        whole[:, : spec.n] = b
        # Vectors are loaded aligned: a line behind the start of any array there is a boundary.
        room = np.zeros(whole.size + 64, kind)
        start = -room.ctypes.data % 64 // kind.itemsize
        packed = room[start : start + whole.size]
        packed[:] = whole.reshape(k, panels, width).transpose(1, 0, 2).ravel()
        c = np.full((spec.m, spec.n + 3), 9, kind)
        for clear, expected in ((1, a[:, :k] @ b), (0, 2 * (a[:, :k] @ b))):
            arrays = (array.ctypes.data_as(ctypes.c_void_p) for array in (a, packed, c))
            getattr(library, f"call_{at}")(*arrays, clear)
            np.testing.assert_array_equal(c[:, : spec.n], expected, err_msg=spec.name)
            assert (c[:, spec.n :] == 9).all()


def test_a_strided_operand_is_refused() -> None:
    func = program(dtype="float32")
    tile = replace(tiles(func)["a"], strides=(1, 16))
    stmt = replace(product(func), a=tile.whole())
    with pytest.raises(TileUnsupportedError) as caught:
        emit_module(S.PrimFunc("kernel", (), stmt))
    assert str(caught.value).split("\n -->")[0] == (
        "an operand of T.gemm is the strided tensor `a`\n"
        "  expected: a tile made by T.alloc_shared or T.alloc_fragment"
    )
