"""HIP texts and their code objects for all chips; no GPU is needed."""

from __future__ import annotations

import re

import pytest
from golden_programs import PROGRAMS, Maker
from hip.programs import CHIPS, PRODUCTS, product

import tilelang.language as T
from tilelang.compiler import compile as text_of
from tilelang.errors import CompileError
from tilelang.hip.toolchain import compile_code, tools
from tilelang.ir.stmt import PrimFunc
from tilelang.target import parse_target


@T.prim_func
def summed(A: T.Tensor((64, 256), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(4, threads=128) as bx:
        tile = T.alloc_fragment((16, 256), "float32")
        total = T.alloc_fragment((16,), "float32")
        T.copy(A[bx * 16, 0], tile)
        T.reduce_sum(tile, total, dim=1)
        T.copy(total, B[bx * 16])


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


@pytest.mark.share(6)
@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_kernels_compile_without_scratch_memory(make: Maker, chip: str) -> None:
    made(make(), chip)


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
