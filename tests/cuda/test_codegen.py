"""The text of CUDA kernels: names, types of indices, launch, memory, words, and refusals."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.codegen.gpu.module import GpuModule
from tilelang.cuda.dialect import emit_cuda
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.cuda.toolchain import compile_cubin
from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.stmt import PrimFunc
from tilelang.target import Target
from tilelang.target.nvidia import ATOMS


def emit(func: PrimFunc, arch: str = "sm_80") -> GpuModule:
    """The module of `func`; its source is held to the compiler where there is one."""
    module = emit_cuda(func, Target("cuda", arch))
    if find_nvrtc() is not None:
        compile_cubin(module.source, arch)
    return module


def lines(func: PrimFunc, arch: str = "sm_80") -> list[str]:
    """Statements of the text without indentation and location comments."""
    found = [line.strip() for line in emit(func, arch).source.splitlines()]
    return [line for line in found if line and not line.startswith("//")]


# -- memory ------------------------------------------------------------------------------------------


def test_a_kernel_that_waits_for_its_predecessor_reads_past_the_cache() -> None:
    @T.prim_func
    def waits(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=8):
            T.pdl_sync()
            A[T.get_thread_binding()] = B[T.get_thread_binding()]

    module = emit(waits, "sm_90")
    assert "waits_kernel(float* A, float* B) {" in module.source
    assert "tl_pdl_sync();" in module.source
    assert module.steps[0].pdl
    assert not emit(waits, "sm_80").steps[0].pdl


# -- words -------------------------------------------------------------------------------------------


# -- refusals ----------------------------------------------------------------------------------------


def test_matrix_instructions_name_required_features() -> None:
    def product(shape: str, a: str, c: str) -> PrimFunc:
        regs = Buffer("regs", Shape((16,)), DType("int32"), "local")
        at = E.AddressOf(regs, (E.const(0),))
        call = E.call(ATOMS["mma"], at, at, at, dtype="void", shape=shape, a=a, b=a, c=c)
        body = S.seq(S.Alloc(buffer=regs), S.Eval(value=call))
        return S.PrimFunc(
            "p", (), S.Launch(grid=(E.const(1),), block_vars=(), thread_vars=(), body=body)
        )

    with pytest.raises(TileUnsupportedError) as failure:
        emit(product("m16n8k32", "float8_e4m3", "float32"), "sm_80")
    assert "m16n8k32 of e4m3 and e4m3 is not available on sm_80" in str(failure.value)
    with pytest.raises(TileUnsupportedError) as failure:
        emit(product("m16n8k16", "float64", "float64"), "sm_80")
    assert "there is no matrix instruction m16n8k16 of f64 and f64 into f64" in str(failure.value)


def test_clusters_need_an_architecture_with_them() -> None:
    @T.prim_func
    def clustered(A: T.Tensor((8,), "int32")):
        with T.ClusterKernel(4, cluster_dims=2, threads=8):
            A[0] = 1

    assert emit(clustered, "sm_90").steps[0].cluster == (2, 1, 1)
    with pytest.raises(TileUnsupportedError, match="a cluster of blocks is not available on sm_80"):
        emit(clustered, "sm_80")


def test_a_polled_element_is_loaded_in_every_iteration() -> None:
    @T.prim_func
    def main(flag: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")) -> None:
        with T.Kernel(2, threads=32) as bx:
            s = T.alloc_shared((2,), "float16")
            n = T.alloc_var("int32", init=0)
            while (flag[bx] == 0 or s[1] > 0) and n < 9:
                n += 1
            B[bx] = flag[bx]

    text = tilelang.compile(main, target="cuda -arch=sm_80").get_kernel_source()
    (line,) = (line.strip() for line in text.splitlines() if "while" in line)
    assert line == (
        "while (((((const volatile int32_t*)flag)[bx] == 0) || "
        "(tl_f16_to_f32(((const volatile uint16_t*)s)[1]) > 0.0f)) && (n < 9)) {"
    )


@pytest.mark.parametrize(
    ("rows", "stated", "blocks"),
    [(132, 1, 1), (133, 1, 2), (512, 1, 4), (528, 6, 6), (529, 1, 1), (None, 1, 1)],
)
def test_blocks_of_a_grid_that_fits_the_device_are_resident_together(
    rows: int | None, stated: int, blocks: int
) -> None:
    n = T.dynamic("n") if rows is None else rows

    @T.prim_func
    def sums(X: T.Tensor((n, 2048), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(n, threads=256) as row:
            T.annotate_min_blocks_per_sm(stated)
            x = T.alloc_fragment((2048,), "float32")
            y = T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            T.reduce_sum(x, y, dim=0)
            Y[row] = y[0]

    text = str(tilelang.lower(sums, target="cuda -arch=sm_90a").source)
    assert f"__launch_bounds__(256, {blocks})" in text


@pytest.mark.skipif(find_nvrtc() is None, reason="needs NVRTC")
@pytest.mark.parametrize(("dtype", "kind"), [("uint8", "u8"), ("int16", "s16"), ("int32", "s32")])
def test_floats_convert_to_integers_in_one_instruction(
    dtype: str, kind: str, tmp_path: Path
) -> None:
    @T.prim_func
    def cast(X: T.Tensor((128,), "float32"), Y: T.Tensor((128,), dtype)):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                Y[i] = T.cast(X[i], dtype)

    path = tmp_path / "cast.ptx"
    tilelang.compile(cast, target="cuda -arch=sm_90a").export_ptx(str(path))
    text = path.read_text()
    assert f"cvt.rzi.{kind}.f32" in text and "setp" not in text and "min." not in text


@pytest.mark.parametrize(("n", "blocks"), [(16, 1), (64, 3), (100, 2), (200, 1)])
def test_arrays_of_threads_that_share_nothing_leave_registers_to_other_blocks(
    n: int, blocks: int
) -> None:
    @T.prim_func
    def smoothed(X: T.Tensor((n, 65536), "float32"), Y: T.Tensor((n, 65536), "float32")):
        with T.Kernel(512, threads=128) as bx:
            at = bx * 128 + T.get_thread_binding()
            a = T.alloc_local((n,), "float32")
            b = T.alloc_local((n,), "float32")
            a[0] = X[0, at]
            b[0] = a[0]
            for i in T.serial(1, n):
                a[i] = X[i, at] * a[i - 1]
                b[i] = X[i, at] + b[i - 1]
            for i in T.serial(n):
                Y[n - 1 - i, at] = a[n - 1 - i] + b[n - 1 - i]

    text = str(tilelang.lower(smoothed, target="cuda -arch=sm_90a").source)
    assert f"__launch_bounds__(128, {blocks})" in text


@pytest.mark.filterwarnings("error::RuntimeWarning")  # not one of numpy's, while it compiles
@pytest.mark.parametrize(("dtype", "bits"), [("int32", 31), ("int64", 63), ("uint32", 32)])
def test_a_quotient_by_a_power_of_two_is_a_shift(dtype: str, bits: int) -> None:
    @T.prim_func
    def parts(X: T.Tensor((64,), dtype), Q: T.Tensor((bits, 64), dtype)):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            row = T.alloc_shared((64,), dtype)
            for s in T.serial(bits):
                h = T.cast(1, dtype) << T.cast(s, dtype)
                row[tx] = X[tx] // h
                Q[s, 63 - tx] = row[63 - tx] ^ (X[tx] % h)

    kernel = tilelang.compile(parts, target="cuda -arch=sm_90a", execution_backend="emulator")
    body = kernel.get_kernel_source().split("__launch_bounds__")[1]
    assert ">> " in body and "& (h - 1)" in body and "tl_floor" not in body and "%" not in body
    x = np.arange(64).astype(dtype) * np.array(0x123456789ABCDE1, "uint64").astype(dtype)
    q, h = np.zeros((bits, 64), dtype), np.array(1, dtype) << np.arange(bits).astype(dtype)[:, None]
    kernel(x, q)
    assert np.array_equal(q, (x // h) ^ (x % h)[:, ::-1])


def test_a_bound_compared_with_a_variable_of_the_loop_is_no_volatile_load() -> None:
    @T.prim_func
    def main(ends: T.Tensor((33,), "int32"), B: T.Tensor((32,), "int32")) -> None:
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            i = T.alloc_var("int32")
            i = ends[t]
            while i < ends[t + 1]:
                B[t] += i
                i += 1

    text = tilelang.compile(main, target="cuda -arch=sm_80").get_kernel_source()
    assert "while (i < ends[tx + 1]) {" in text


def test_a_quotient_and_its_remainder_become_one_index() -> None:
    n, w = T.dynamic("n"), T.dynamic("w")

    @T.prim_func
    def main(
        slots: T.Tensor((64,), "int32"),
        A: T.Tensor((n, w, 3), "float32"),
        B: T.Tensor((9, 16, 8), "float32"),
        C: T.StridedTensor((9, 16), (20, 1), "float32"),
    ) -> None:
        with T.Kernel(2, threads=32) as bx:
            t = T.get_thread_binding()
            k = bx * 32 + t
            slot = slots[k]
            page, at = slot // 16, slot % 16
            if k < n * w:
                B[page, at, 5] = A[k // w, k % w, 2]
                C[page, at] = 0.0

    text = tilelang.compile(main, target="cuda -arch=sm_80").get_kernel_source()
    assert "A[k * 3 + 2]" in text
    assert "B[(int64_t)slot * 8 + 5]" in text
    assert "C[(int64_t)page * 20 + at]" in text
