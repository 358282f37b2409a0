"""HIP texts and their code objects for all chips; no GPU is needed."""

from __future__ import annotations

import re

import pytest
from hip.programs import CHIPS, PRODUCTS, product

import tilelang.language as T
from tilelang.compiler import compile as text_of
from tilelang.errors import CompileError
from tilelang.hip.headers import plain
from tilelang.hip.toolchain import compile_code, tools
from tilelang.ir.stmt import PrimFunc
from tilelang.target import parse_target


@T.prim_func
def scaled(A: T.Tensor((1000,), "float32"), B: T.Tensor((1000,), "float32"), s: T.float32):
    with T.Kernel(T.ceildiv(1000, 128), threads=128) as bx:
        for i in T.Parallel(128):
            B[bx * 128 + i] = T.exp(A[bx * 128 + i]) * s


@T.prim_func
def copied(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "bfloat16")):
    with T.Kernel(2, threads=64) as bx:
        tile = T.alloc_shared((32, 64), "float16")
        T.copy(A[bx * 32, 0], tile)
        T.copy(tile, B[bx * 32 : bx * 32 + 32, :])


@T.prim_func
def summed(A: T.Tensor((64, 256), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(4, threads=128) as bx:
        tile = T.alloc_fragment((16, 256), "float32")
        total = T.alloc_fragment((16,), "float32")
        T.copy(A[bx * 16, 0], tile)
        T.reduce_sum(tile, total, dim=1)
        T.copy(total, B[bx * 16])


@T.prim_func
def running(A: T.Tensor((4, 200), "int32"), B: T.Tensor((4, 200), "int32")):
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((4, 200), "int32")
        T.copy(A, tile)
        T.cumsum(tile, dim=1)
        T.copy(tile, B)


@T.prim_func
def counted(A: T.Tensor((256,), "int32"), H: T.Tensor((16,), "float32")):
    with T.Kernel(2, threads=128) as bx:
        for i in T.Parallel(128):
            T.atomic_add(H[A[bx * 128 + i]], 1.0)


KERNELS = (scaled, copied, summed, running, counted)


def source(func: PrimFunc, chip: str) -> str:
    return text_of(func, parse_target(f"hip -mcpu={chip}")).source


def made(func: PrimFunc, chip: str) -> str:
    """What the compiler says of the kernels of ``func``."""
    if not list(tools()):
        pytest.skip("needs a clang with the AMDGPU target, e.g. that of the ziglang wheel")
    done = compile_code(source(func, chip), chip)
    assert done.code.startswith(b"\x7fELF") and len(done.kernels) == 1
    assert (done.kernels[0].spills, done.kernels[0].scratch) == (0, 0)
    return str(done.kernels[0])


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("func", KERNELS, ids=lambda func: func.name)
def test_kernels_compile_without_scratch_memory(func: PrimFunc, chip: str) -> None:
    made(func, chip)


@pytest.mark.parametrize("chip", CHIPS)
def test_products_compile(chip: str) -> None:
    for kinds, chips in PRODUCTS.items():
        if chip in chips:
            made(product(*kinds, 64, 64, 64), chip)


def test_reductions_go_over_the_whole_wavefront() -> None:
    wide, narrow = (
        list(dict.fromkeys(re.findall(r"tl_shfl_xor\(.*?, (\d.*?)\)", source(summed, chip))))
        for chip in ("gfx942", "gfx1100")
    )
    assert wide == [f"{distance}, 64" for distance in (32, 16, 8, 4, 2, 1)]
    assert narrow == [str(distance) for distance in (16, 8, 4, 2, 1)]


def test_a_text_that_the_compiler_refuses_is_one_error() -> None:
    if not list(tools()):
        pytest.skip("needs a clang with the AMDGPU target, e.g. that of the ziglang wheel")
    with pytest.raises(CompileError) as failure:
        compile_code('#include "tl_hip.h"\nint x = y;', "gfx942", name="wrong")
    assert str(failure.value) == (
        "the HIP compiler refused wrong\n"
        "  got: line 2: use of undeclared identifier 'y'\n"
        "  hint: the complete output is in the `log` attribute of this error"
    )


def test_only_other_instruction_sets_are_left_out_of_a_header() -> None:
    lines = """#ifndef A
#define A
#if TL_ARCH >= 800
#define B 1
#if defined(C)
theirs
#endif
#else
#define B 2
#ifdef D
#define E
#endif
#endif
#if D
both
#else
neither
#endif
#endif
"""
    assert plain(lines).split("\n") == [
        "#ifndef A", "#define A", "#define B 2", "#ifdef D", "#define E", "#endif", "#if D", "both",
        "#else", "neither", "#endif", "#endif", "",
    ]  # fmt: skip
