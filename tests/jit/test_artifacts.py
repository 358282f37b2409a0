"""Generated text that is known already comes from the disk cache, without any pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tilelang.compiler
import tilelang.language as T
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.ir.stmt import PrimFunc
from tilelang.jit.artifacts import artifact_of
from tilelang.options import Options
from tilelang.runtime.cache import DiskCache
from tilelang.target import Target, parse_target

SM_80 = parse_target("cuda -arch=sm_80")


def program(value: float = 1.0) -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.fill(c, value)
            T.gemm(a, a, c)
            T.copy(c, B)

    found: PrimFunc = main
    return found


def renamed() -> PrimFunc:
    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, tile)
            T.fill(c, 1.0)
            T.gemm(tile, tile, c)
            T.copy(c, B)

    found: PrimFunc = main
    return found


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache")


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the functions that go through the passes."""
    found: list[str] = []
    compile = tilelang.compiler.compile

    def noted(func: PrimFunc, target: Target, options: Options | None = None) -> Any:
        found.append(func.name)
        return compile(func, target, options)

    monkeypatch.setattr(tilelang.compiler, "compile", noted)
    return found


def test_a_known_program_runs_no_pass_and_is_not_announced(
    cache: DiskCache, compiled: list[str]
) -> None:
    told: list[int] = []
    first, again = (
        artifact_of(program(), SM_80, Options(), cache, lambda: told.append(len(compiled)))
        for _ in range(2)
    )
    assert compiled == ["main"] and told == [0]
    assert again.source == first.source and again.device.steps == first.device.steps
    shared = again.device.shared[0]
    assert shared.layout is None or shared.layout.shape == (64, 64)


@pytest.mark.parametrize(
    ("func", "target", "options"),
    [
        (program(2.0), SM_80, Options()),
        (program(), parse_target("cuda -arch=sm_90"), Options()),
        (program(), SM_80, Options(unsafe_memory=True)),
        (renamed(), SM_80, Options()),
    ],
)
def test_a_changed_source_is_compiled_again(
    cache: DiskCache, compiled: list[str], func: PrimFunc, target: Target, options: Options
) -> None:
    artifact_of(program(), SM_80, Options(), cache)
    artifact_of(func, target, options, cache)
    assert len(compiled) == 2


@pytest.mark.parametrize("dump", [True, False], ids=["dumps need the passes", "no cache"])
def test_the_passes_run_again(
    cache: DiskCache, compiled: list[str], tmp_path: Path, dump: bool
) -> None:
    options = Options(dump=True, dump_dir=str(tmp_path / "dump")) if dump else Options()
    for _ in range(2):
        artifact_of(program(), SM_80, options, cache if dump else DiskCache(None))
    assert len(compiled) == 2


KNOWN = """
import sys
import tilelang
import tilelang.language as T

@T.prim_func
def main(A: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            A[i] = A[i] + 1.0

tilelang.compile(main, target="cuda -arch=sm_80")
print("tilelang.compiler" in sys.modules)
"""


@pytest.mark.skipif(find_nvrtc() is None, reason="needs NVRTC to make machine code that is kept")
def test_a_known_program_imports_no_pass(tmp_path: Path) -> None:
    """Most of what a later process pays for a known kernel would be imports."""
    script = tmp_path / "known.py"
    script.write_text(KNOWN)
    paths = [str(Path(tilelang.compiler.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    own = {"PYTHONPATH": os.pathsep.join(paths), "TILELANG_CACHE_DIR": str(tmp_path / "cache")}
    said = [
        subprocess.run(
            [sys.executable, str(script)],
            env={**os.environ, **own}, capture_output=True, text=True, check=True,
        ).stdout.strip()
        for _ in range(2)
    ]  # fmt: skip
    assert said == ["True", "False"]
