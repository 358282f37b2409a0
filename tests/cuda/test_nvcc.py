"""The C++ host source around kernels, compiled by nvcc: every architecture, every feature."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tensor_types import F16

import tilelang
import tilelang.language as T
from tilelang.cuda import search_paths
from tilelang.cuda.toolchain import find_nvcc
from tilelang.target.device import cuda_driver_version

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))
import ptx_cases  # a script of the repository

NVCC = find_nvcc()
ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a")
# Words whose kernels a compiler that sees host code too has once not understood, or whose launches
# need more than a grid.
FEATURES = (
    "tma_load", "tma_load_im2col", "pdl_sync", "cluster_sync", "ptx_stmatrix", "ptx_wgmma_ss",
    "set_max_nreg", "mbarrier_expect_tx", "sync_grid", "atomic_addx4", "alloc_tmem", "tcgen05_ld",
    "clc_try_cancel_multicast",
)  # fmt: skip


@pytest.fixture(autouse=True)
def needs_nvcc() -> None:
    if NVCC is None:
        pytest.skip("nvcc is not installed")


def build(source: str, arch: str, folder: Path, *flags: str) -> Path:
    """What nvcc makes of ``source``; it must have nothing to say."""
    (folder / "host.cu").write_text(source)
    words = [NVCC or "", f"-arch={arch}", *(flags or ("-c",)), "host.cu", "-o", "host.out"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and "warning" not in done.stderr, done.stderr[:2000]
    return folder / "host.out"


n = T.dynamic("n")


@T.prim_func
def product(A: F16[n, 64], B: F16[64, 128], C: F16[n, 128]):
    with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
        T.annotate_l2_hit_ratio({A: 0.25, B: 0.75})
        a = T.alloc_shared((128, 64), "float16")
        b = T.alloc_shared((64, 128), "float16")
        c = T.alloc_fragment((128, 128), "float32")
        T.clear(c)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(A[bx * 128, k * 32], a)
            T.copy(B[k * 32, 0], b)
            T.gemm(a, b, c)
        T.copy(c, C[bx * 128, 0])


@pytest.mark.parametrize("arch", ARCHS)
def test_the_host_source_of_a_product_builds_for_every_architecture(
    arch: str, tmp_path: Path
) -> None:
    kernel = tilelang.compile(product, target=f"cuda -arch={arch}")
    build(kernel.get_host_source(), arch, tmp_path)


@pytest.mark.parametrize("word", FEATURES)
def test_the_host_source_of_every_feature_builds(word: str, tmp_path: Path) -> None:
    (case,) = [case for case in ptx_cases.cases() if case.intrinsic == word]
    kernel = tilelang.compile(ptx_cases.program(case), target=f"cuda -arch={case.arch}")
    build(kernel.get_host_source(), case.arch, tmp_path)


def test_one_host_source_supports_several_architectures(tmp_path: Path) -> None:
    kernel = tilelang.compile(product, target="cuda -arch=sm_80")
    several = ("-gencode=arch=compute_90,code=sm_90", "-c")
    build(kernel.get_host_source(), "sm_80", tmp_path, *several)


def test_an_nvcc_library_reports_why_it_cannot_run(tmp_path: Path) -> None:
    if cuda_driver_version() is not None:
        pytest.skip("there is a driver, with which it runs")
    # With tensor maps it would ask for the library of the driver when it is loaded.
    source = tilelang.compile(product, target="cuda -arch=sm_80").get_host_source()
    file = build(source, "sm_80", tmp_path, "-shared", "-Xcompiler", "-fPIC")
    library = ctypes.CDLL(str(file))
    library.get_last_error.restype = ctypes.c_char_p
    nothing: list[Any] = [None, None, None, 64, None]
    assert library.call(*nothing) == -1
    assert b"Failed to launch kernel product_kernel: CUDA driver" in library.get_last_error()


@pytest.mark.parametrize(
    ("arch", "instruction"), [("sm_80", "mma.sync.aligned"), ("sm_90a", "wgmma.mma_async")]
)
def test_the_nvcc_backend_assembles_what_nvrtc_does(arch: str, instruction: str) -> None:
    kernel = tilelang.compile(product, target=f"cuda -arch={arch}", execution_backend="nvcc")
    result = kernel.adapter.result
    assert result.tool.startswith("nvcc ") and result.cubin[:4] == b"\x7fELF"
    assert [item.name for item in result.resources] == ["product_kernel"]
    assert result.ptx is not None and instruction in result.ptx
    other = tilelang.compile(product, target=f"cuda -arch={arch}", execution_backend="nvrtc")
    assert kernel.get_kernel_source() == other.get_kernel_source()


def test_nvcc_of_a_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia/cu13/bin/nvcc"
    tool.parent.mkdir(parents=True)
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(search_paths, "toolkits", lambda home, path: iter(()))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_nvcc() == str(tool)
