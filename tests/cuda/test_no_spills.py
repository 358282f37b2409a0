"""The kernels of the benchmarks and of the notebook keep everything in registers."""

from __future__ import annotations

import builtins
import importlib.util
import linecache
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from seeds.notebook_cells import CELLS
from tensor_types import F16, F32

import tilelang
import tilelang.language as T
from tilelang.compiler import compile
from tilelang.cuda.executable import compile_flags
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.cuda.toolchain import compile_cubin
from tilelang.errors import SharedMemoryLimitError
from tilelang.ir.stmt import PrimFunc
from tilelang.jit import kernel as jit_kernel
from tilelang.jit.compile import options_for
from tilelang.options import Options
from tilelang.target import parse_target

pytestmark = pytest.mark.skipif(
    find_nvrtc() is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc"
)

FOLDER = Path(__file__).parents[2] / "bench"
MOVES = ("add", "softmax", "rmsnorm", "transpose", "dequant")
HOPPER = (
    "gemm_large", "gemm_rows", "gemm_fp8", "grouped_gemm", "attention_causal", "mla",
    "dequant_rows", "backward", "backward_causal", "mla_by_hand", "gemm_split", "gemm_stream",
)  # fmt: skip
ROWS = (*MOVES, "gemm", "attention", *HOPPER)  # those of HOPPER have tiles for its units alone
COLD = ("elementwise", "softmax", "gemm", "attention", "causal")


def module(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A file of the folder of benchmarks."""
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location(f"bench_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def spills(func: PrimFunc, options: Options, arch: str) -> int:
    """Bytes that the kernels of a program spill, as the launcher compiles them; the assembler warns
    of nothing, of products that wait for each other, say."""
    artifact = compile(func, parse_target(f"cuda -arch={arch}"), options)
    result = compile_cubin(artifact.source, arch, compile_flags(artifact, options))
    assert result.resources and not result.warnings, result.warnings
    return sum(kernel.spills for kernel in result.resources)


def fits(func: PrimFunc, options: Options, arch: str) -> bool:
    """Whether the shared memory of a block holds the tiles of a program."""
    try:
        compile(func, parse_target(f"cuda -arch={arch}"), options)
    except SharedMemoryLimitError:
        return False
    return True


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("row", "arch"),
    [(row, "sm_80") for row in ROWS if row not in HOPPER] + [(row, "sm_90a") for row in ROWS],
)
def test_every_tile_of_the_gpu_benchmark(
    row: str, arch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("torch", reason="the benchmark compares with torch")
    bench = module("h200", monkeypatch)
    found: list[tuple[PrimFunc, Options]] = []

    def record(func: PrimFunc, pass_configs: Any = None, **_: Any) -> None:
        found.append((func, options_for(func, pass_configs, None, None)))

    monkeypatch.setattr(tilelang, "compile", record)
    assert set(bench.PROGRAMS) == set(ROWS)
    make, sizes, tiles = bench.PROGRAMS[row]
    if arch == "sm_80":  # operands of products are in registers there: queries do not fit, too
        tiles = [tile for tile in tiles if not tile.get("held")]
    for tile in tiles:
        make(*sizes, **tile)
    assert len(found) in (len(tiles), 3 * len(tiles))  # a row may be three kernels
    fitting = [item for item in found if fits(*item, arch)]
    assert len(fitting) == len(found) or arch == "sm_80"
    spilled = [spills(func, options, arch) for func, options in fitting]
    assert spilled == [0] * len(fitting), spilled


def sums(count: str, stages: int, biased: bool) -> PrimFunc:
    """A product over blocks of which only the launch knows how many."""
    K = T.dynamic("K") if count == "symbol" else 256

    @T.prim_func
    def kernel(A: F16[256, K], B: F16[K, 256], n: T.int32, C: F32[256, 256]):
        with T.Kernel(2, 2, threads=256) as (bx, by):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 128), "float16")
            acc = T.alloc_fragment((128, 128), "float32")
            if biased:
                T.copy(C[by * 128, bx * 128], acc)
            else:
                T.clear(acc)
            for k in T.Pipelined(n if count == "scalar" else T.ceildiv(K, 64), num_stages=stages):
                T.copy(A[by * 128, k * 64], a)
                T.copy(B[k * 64, bx * 128], b)
                T.gemm(a, b, acc)
            T.copy(acc, C[by * 128, bx * 128])

    return kernel


@pytest.mark.share(3)
@pytest.mark.parametrize("stages", [0, 1, 2])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("count", ["constant", "scalar", "symbol"])
def test_products_of_unknown_length_are_not_serialised(
    count: str, stages: int, biased: bool
) -> None:
    assert spills(sums(count, stages, biased), Options(), "sm_90a") == 0


@pytest.mark.parametrize("name", COLD)
def test_the_programs_of_the_compile_times(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = module("compile_time", monkeypatch)
    assert set(bench.PROGRAMS) - {"h200_gemm", "h200_attention", "h200_mla"} == set(
        COLD
    )  # rows of h200.py
    assert spills(bench.PROGRAMS[name](), Options(), "sm_80") == 0


class RecordedError(Exception):
    """A mock of a kernel: it need not run here."""


def test_the_kernels_of_the_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch", reason="the notebook makes its tensors with torch")
    found: dict[str, tuple[PrimFunc, Options]] = {}

    def record(func: PrimFunc, out_idx: Any, target: Any, options: Options, backend: str) -> Any:
        found.setdefault(func.name, (func, options))
        raise RecordedError

    monkeypatch.setattr(jit_kernel, "build", record)
    monkeypatch.setattr(sys, "path", list(sys.path))  # the first cell adds to it
    names: dict[str, Any] = {"__name__": "__main__"}
    for title, text in CELLS:
        run(title, text, names)
    assert {"gemm", "gemm_ptr_dyn"} <= set(found)
    for arch in ("sm_80", "sm_90"):
        spilled = {name: spills(*each, arch) for name, each in found.items()}
        assert not any(spilled.values()), (arch, spilled)


def run(title: str, text: str, names: dict[str, Any]) -> None:
    """One cell, as far as its first kernel."""
    file = f"<cell-{title}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    try:
        exec(builtins.compile(text, file, "exec", dont_inherit=True), names)  # noqa: S102  # the notebook
    except (RecordedError, NameError):
        return  # what follows needs results
