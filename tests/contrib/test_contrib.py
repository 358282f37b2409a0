"""``tilelang.contrib``, ``tilelang.rocm.target``, ``tilelang.intrinsics``: facts and tools."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from refusals import refusal

from tilelang import intrinsics
from tilelang.contrib import cc, nvcc, nvrtc
from tilelang.cpu.toolchain import find_compiler
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.errors import CompileError, TileUnsupportedError, TileValueError
from tilelang.rocm import target as rocm
from tilelang.rocm.intrinsics import mfma_layout, utils
from tilelang.tools.cuda import iket

KERNEL = 'extern "C" __global__ void one(int *a) { a[threadIdx.x] = 1; }'


def test_features_of_an_architecture() -> None:
    assert nvcc.parse_compute_version((9, 0)) == (9, 0)
    assert [nvcc.get_target_arch(v) for v in ("8.0", "9.0", (12, 0))] == ["80", "90a", "120a"]
    assert [nvcc.architecture(a) for a in (90, "90a", "sm_80")] == ["sm_90", "sm_90a", "sm_80"]
    hopper, ampere = "cuda -arch=sm_90a", "cuda -arch=sm_80"
    for question in (nvcc.have_tma, nvcc.have_mbarrier, nvcc.have_pdl, nvcc.is_hopper):
        assert question(hopper)
        assert not question(ampere)
    assert not nvcc.is_hopper("cuda -arch=sm_100a")
    assert [nvcc.have_fp16(v) for v in ("5.2", "5.3", "6.0")] == [False, True, True]
    assert [nvcc.have_int8(v) for v in ("6.0", "6.1")] == [False, True]
    assert [nvcc.have_bf16(v) for v in ("7.5", "8.0")] == [False, True]
    assert [nvcc.have_fp8(v) for v in ("8.6", "8.9")] == [False, True]
    assert nvcc.have_tensorcore("7.0") and nvcc.have_cudagraph()
    assert not nvcc.have_tensorcore(target="cuda -arch=sm_61")


@pytest.mark.skipif(find_nvrtc("sm_80") is None, reason="needs NVRTC")
def test_text_is_compiled_by_nvrtc(tmp_path: Path) -> None:
    ptx = nvrtc.compile_cuda(KERNEL, "ptx", 80)
    assert b".target sm_80" in ptx
    file = tmp_path / "one.cubin"
    cubin = nvcc.compile_cuda(KERNEL, "cubin", "sm_80", path_target=str(file), tool="nvrtc")
    assert cubin[:4] == b"\x7fELF"
    assert file.read_bytes() == cubin
    with pytest.raises(CompileError) as caught:
        nvrtc.compile_cuda("this is no kernel", arch=80)
    assert "error" in caught.value.log
    with pytest.raises(TileValueError, match="unknown output format"):
        nvrtc.compile_cuda(KERNEL, "fatbin", 80)


@pytest.mark.skipif(find_compiler(quiet=True) is None, reason="needs a C compiler")
def test_shared_libraries_are_built(tmp_path: Path) -> None:
    source = tmp_path / "seven.c"
    source.write_text("int seven(void) { return N; }")
    build = cc.cross_compiler(cc.get_cc() or "", options=["-DN=7"])
    for number, make in enumerate(
        (lambda out: build(out, str(source)),
         lambda out: cc.create_shared(out, [str(source)], ["-DN=7"]))
    ):  # fmt: skip
        library = tmp_path / f"lib{number}.so"
        make(str(library))
        assert ctypes.CDLL(str(library)).seven() == 7
    with pytest.raises(CompileError, match="the library cannot be built"):
        cc.create_shared(str(tmp_path / "no.so"), str(source))
    with pytest.raises(CompileError, match="cannot be started"):
        cc.create_shared(str(tmp_path / "no.so"), str(source), cc="/no/such/compiler")


@pytest.mark.parametrize(
    ("arch", "cdna", "generation", "warp"),
    [
        ("gfx90a", True, 0, 64), ("gfx942:sramecc+:xnack-", True, 0, 64), ("gfx950", True, 0, 64),
        ("gfx1010", False, 1, 32), ("gfx1030", False, 2, 32), ("gfx1100", False, 3, 32),
        ("gfx1201", False, 4, 32),
    ],
)  # fmt: skip
def test_amd_architectures(arch: str, cdna: bool, generation: int, warp: int) -> None:
    target = {"kind": "hip", "arch": arch}
    assert rocm.target_is_hip(target)
    assert rocm.target_is_cdna(target) is cdna
    assert rocm.target_is_rdna(target) is (generation > 0)
    assert rocm.target_get_rdna_generation(target) == generation
    assert rocm.target_get_warp_size(target) == warp
    assert rocm.rocm_warp_size_for_arch(arch) == warp
    assert rocm.target_get_mcpu(target) == arch.partition(":")[0]
    assert rocm.target_is_gfx950(target) is (arch == "gfx950")
    assert rocm.target_get_mcpu("cuda -arch=sm_80") is None
    with pytest.raises(TileValueError, match="not an AMD GPU"):
        rocm.target_get_warp_size("cpu")


def test_swizzles_spread_chunks_over_banks() -> None:
    """Eight rows of one column of 16-byte chunks are in different banks, for each span."""
    for row_size, dtype, span in ((64, "float16", 128), (32, "float16", 64), (16, "float16", 32)):
        chunk = 8
        places = {
            intrinsics.get_swizzle_layout(row, 0, row_size, dtype)[1] // chunk
            + row % (128 // span) * (span // 16)
            for row in range(8)
        }
        assert len(places) == 8
        cells = {
            intrinsics.get_swizzle_layout(row, column, row_size, dtype)
            for row in range(8)
            for column in range(row_size)
        }
        assert len(cells) == 8 * row_size
    assert intrinsics.get_swizzle_layout(1, 70, 128, "float16") == (1, 78)
    with pytest.raises(TileValueError, match="no swizzle fits"):
        intrinsics.get_swizzle_layout(0, 0, 24, "float16")


def test_results_of_matrix_instructions_cover_a_tile_once() -> None:
    cells = {intrinsics.mma_store_index_map(t, r) for t in range(32) for r in range(8)}
    assert cells == {(i, j) for i in range(16) for j in range(16)}
    assert intrinsics.mma_store_index_map(5, 3) == (9, 3)
    assert intrinsics.get_mma_micro_size("int8") == (16, 16, 32)
    assert intrinsics.get_mma_micro_size("float16") == (16, 16, 16)


@pytest.mark.parametrize(
    ("tile", "registers", "matrix"),
    [
        ("16x4", "64x1", "A"), ("16x16", "64x4", "A"), ("16x32", "64x8", "A"),
        ("16x64", "64x16", "A"), ("32x32", "64x16", "A"), ("4x16", "64x1", "B"),
        ("16x16", "64x4", "B"), ("32x32", "64x16", "B"),
    ],
)  # fmt: skip
def test_lanes_of_a_wavefront_hold_a_matrix_once(tile: str, registers: str, matrix: str) -> None:
    held = getattr(mfma_layout, f"shared_{tile}_to_local_{registers}_layout_{matrix}")
    named = f"thread_id_shared_access_{registers}_to_{tile}_layout_{matrix}"
    element = getattr(mfma_layout, named)
    rows, columns = map(int, tile.split("x"))
    lanes, each = map(int, registers.split("x"))
    places = {held(i, j): (i, j) for i in range(rows) for j in range(columns)}
    assert sorted(places) == [(lane, register) for lane in range(lanes) for register in range(each)]
    assert all(element(*place) == position for place, position in places.items())


def test_results_of_amd_matrix_instructions() -> None:
    assert utils.get_mma_micro_size("int8") == (16, 16, 32)
    store = utils.mfma_store_index_map
    assert [store(0, 0), store(0, 3), store(17, 0), store(63, 3)] == [
        (0, 0), (0, 3), (1, 4), (15, 15),
    ]  # fmt: skip
    assert mfma_layout.shared_16x16_to_local_64x4_layout_C(4, 1) == (17, 0)


def test_profiler_events_have_a_hint() -> None:
    assert refusal(TileUnsupportedError, iket.range, "total") == (
        "tilelang.tools.cuda.iket.range does not exist in this implementation\n"
        "  hint: its events go to a profiler that this package does not serve: take the calls out; "
        "tilelang.profiler times kernels, Nsight Compute shows their lines"
    )
