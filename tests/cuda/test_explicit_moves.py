"""T.ldg32 to T.ldg256 and T.stg32 to T.stg256: the bits of memory, by the instructions they name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import EVERYWHERE, compiled, holds
from tensor_types import F32, U32

import tilelang
import tilelang.language as T
from tilelang.cuda.nvrtc import find_nvrtc

BITS = (32, 64, 128, 256)
LANES = {"float16": 16, "float32": 32, "uint32": 32, "int8": 8}


def moves(bits: int, dtype: str, shift: int = 0) -> Any:
    """Every thread moves so many bits; `shift`: elements that the addresses are off by."""
    lanes = bits // LANES[dtype]
    load, store = getattr(T, f"ldg{bits}"), getattr(T, f"stg{bits}")
    size = 64 * lanes

    @T.prim_func
    def move(A: T.Tensor((size + 8,), dtype), B: T.Tensor((size + 8,), dtype)):
        with T.Kernel(2, threads=32) as bx:
            tx = T.get_thread_binding()
            i = (bx * 32 + tx) * lanes + shift
            value = load(A[i : i + lanes])
            store(B[i : i + lanes], value)

    return move


def source(func: Any, arch: str) -> tuple[str, str]:
    kernel = tilelang.compile(func, target=f"cuda -arch={arch}")
    return kernel.get_kernel_source(), kernel.adapter.result.ptx or ""


def raw(dtype: str, count: int) -> np.ndarray[Any, Any]:
    """Any bits, those of NaN included."""
    kind = np.dtype(dtype)
    bits = np.random.default_rng(3).integers(0, 256, count * kind.itemsize, np.uint8)
    return bits.view(np.dtype(f"u{kind.itemsize}"))


@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", LANES)
@pytest.mark.parametrize("bits", BITS)
def test_bits_are_copied_unchanged(bits: int, dtype: str) -> None:
    for shift in (0, 1):  # one element off: no single access can have it
        func = moves(bits, dtype, shift)
        count = 64 * bits // LANES[dtype]
        given, want = raw(dtype, count + 8), np.zeros(count + 8, raw(dtype, 1).dtype)
        want[shift : count + shift] = given[shift : count + shift]
        for place in (*EVERYWHERE, "sm_100a"):
            got = np.zeros(count + 8, dtype)
            compiled(func, place)(given.view(dtype), got)
            np.testing.assert_array_equal(got.view(want.dtype), want, err_msg=place)


INSTRUCTIONS = {
    32: ("ld.global.nc.u32", "st.global.u32"),
    64: ("ld.global.nc.v2.u32", "st.global.v2.u32"),
    128: ("ld.global.nc.v4.u32", "st.global.v4.u32"),
}


@pytest.mark.skipif(find_nvrtc() is None, reason="needs NVRTC")
@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", LANES)
@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a", "sm_120a"])
def test_each_intrinsic_is_its_instruction(arch: str, bits: int, dtype: str) -> None:
    text, ptx = source(moves(bits, dtype), arch)
    wide = bits == 256 and arch in ("sm_100a", "sm_120a")
    size = 256 if wide else min(bits, 128)
    count = bits // size
    assert f"tl_ldg{size}(" in text and f"tl_stg{size}(" in text
    load, store = INSTRUCTIONS.get(size, ("ld.global.nc.v8.b32", "st.global.v8.b32"))
    moved = [line.split()[0] for line in ptx.splitlines() if ".global" in line and "\t" in line]
    moved = [word for word in moved if word.startswith(("ld.global", "st.global"))]
    assert moved.count(load) == moved.count(store) == count
    assert len(moved) == 2 * count


@pytest.mark.skipif(find_nvrtc() is None, reason="needs NVRTC")
def test_a_written_tensor_is_not_loaded_as_constant() -> None:
    @T.prim_func
    def twice(A: F32[1024]):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            T.stg128(A[tx * 4], T.ldg128(A[tx * 4 + 512]))
            A[tx] = T.reinterpret("float32", T.ldg32(A[tx + 256]))

    text, ptx = source(twice, "sm_90a")
    assert "ldg" not in text and ".nc" not in ptx and "st.global.v4.u32" in ptx


def test_a_load_that_is_not_wanted_touches_nothing() -> None:
    @T.prim_func
    def edge(A: F32[100], B: F32[128], N: U32[128]):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            value = T.ldg128(A[tx * 4], pred=tx < 25)
            T.stg128(B[tx * 4], value, pred=tx != 3)
            for k in T.serial(4):
                N[tx + 32 * k] = T.ldg32(A[tx + 32 * k], pred=tx + 32 * k < 100)

    a = np.arange(100, dtype=np.float32) + 1
    want = np.zeros(128, np.float32)
    want[:100] = a
    want[12:16] = 0
    words = np.zeros(128, np.uint32)
    words[:100] = a.view(np.uint32)
    holds(edge, (a, np.zeros(128, np.float32), np.zeros(128, np.uint32)), want, words)


def test_programs_print_the_intrinsics() -> None:
    lines = moves(64, "float16").script().splitlines()
    assert any("value: T.uint32x2 = T.ldg64(A[" in line for line in lines)
    assert any("T.stg64(B[" in line and ", value)" in line for line in lines)
