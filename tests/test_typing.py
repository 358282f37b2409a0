"""Type checkers on programs of users: no false errors in idiomatic kernels, and right results."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PYRIGHT = importlib.util.find_spec("basedpyright")
MYPY = importlib.util.find_spec("mypy")
PROGRAM = """
from __future__ import annotations

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=-1, target="cpu")
def scale(n: int, factor: float = 2.0):
    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * factor

    return kernel


@tilelang.jit
def traced(n: int) -> T.PrimFunc:
    return scale.get_tir(n)


@T.prim_func
def plain(A: T.Tensor((4,), "float32")):
    with T.Kernel(1, threads=32):
        T.clear(A)


good: tilelang.JITKernel = scale(4, factor=3.0)
also: tilelang.JITKernel = traced(4)
third: tilelang.JITKernel = tilelang.compile(plain, target="cpu")
wrong: int = traced(4)
missing = traced()
"""


def run(*words: object, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *map(str, words)], cwd=folder, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "MYPYPATH": str(ROOT)},
    )  # fmt: skip


def pyright(config: dict[str, object], folder: Path) -> list[dict[str, str]]:
    """What pyright says is wrong."""
    file = folder / "pyrightconfig.json"
    known = {"typeCheckingMode": "basic", "extraPaths": [str(ROOT)], "pythonVersion": "3.10"}
    file.write_text(json.dumps({**known, **config}))
    done = run(
        "basedpyright", "-p", file, "--pythonpath", sys.executable, "--outputjson", folder=folder
    )
    found = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] > 0
    return [item for item in found["generalDiagnostics"] if item["severity"] == "error"]


def mypy(folder: Path, *files: object) -> str:
    """What mypy prints, by its usual rules."""
    return run(
        "mypy",
        "--follow-imports=silent",
        "--config-file=",
        f"--cache-dir={folder}",
        *files,
        folder=folder,
    ).stdout


@pytest.mark.skipif(PYRIGHT is None, reason="needs basedpyright, of the extra lint")
def test_checkers_find_nothing_in_the_examples(tmp_path: Path) -> None:
    config = json.loads((ROOT / "pyrightconfig.json").read_text())
    config["include"] = [str(ROOT / "examples")]
    config["exclude"] = [str(ROOT / "examples" / "wheel")]  # a project of its own
    assert pyright(config, tmp_path) == []


@pytest.mark.skipif(PYRIGHT is None, reason="needs basedpyright, of the extra lint")
def test_pyright_knows_what_decorated_functions_give(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    found = pyright({"include": [str(tmp_path)]}, tmp_path)
    assert [
        item["message"].splitlines()[0].replace("\N{NO-BREAK SPACE}", " ") for item in found
    ] == [
        'Type "JITKernel" is not assignable to declared type "int"',
        'Argument missing for parameter "n"',
    ]


@pytest.mark.skipif(MYPY is None, reason="needs mypy, of the extra lint")
def test_mypy_finds_nothing_in_the_examples_and_knows_results(tmp_path: Path) -> None:
    files = sorted((ROOT / "examples").glob("*.py"))
    assert "Success: no issues found" in mypy(tmp_path, *files)
    (tmp_path / "program.py").write_text(PROGRAM)
    found = [line.partition("error: ")[2] for line in mypy(tmp_path, "program.py").splitlines()]
    assert found[:2] == [
        'Incompatible types in assignment (expression has type "JITKernel", variable has type "int")'
        "  [assignment]",
        'Missing positional argument "n" in call to "__call__" of "JITFactory"  [call-arg]',
    ]
