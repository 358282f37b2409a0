"""``python -m tilelang`` and the pages for people at work."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from refusals import refusal

from tilelang.__main__ import arguments_of, main, report
from tilelang.emulator.compilers import find_cxx
from tilelang.errors import TileValueError
from tilelang.version import __version__

ROOT = Path(__file__).resolve().parents[1]


def test_the_report_lists_installed_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_NUM_THREADS", "2")
    found = dict(report())
    assert list(found)[:3] == ["tilelang", "python", "system"]
    assert found["tilelang"] == __version__ and found["numpy"][0].isdigit()
    assert "TILELANG_NUM_THREADS=2" in found["variables"]
    assert all(found.values())


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"tilelang {__version__}\n"


def test_a_reader_may_stop_early() -> None:
    command = [sys.executable, "-m", "tilelang", "info"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "CHANGELOG.md"])
def test_files_that_a_page_names_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    named = re.findall(r"\b(?:tilelang|tests|docs|scripts|bench)/[\w/.]*[\w/]", text)
    missing = {path for path in named if not (ROOT / path).exists() and "*" not in path}
    assert missing <= {"tests/golden/replay_", "tilelang/cache"}  # a folder of users
    assert len(named) > 30 or page == "CHANGELOG.md"


def test_options_that_the_page_names_exist() -> None:
    from tilelang.env import env
    from tilelang.options import config_key

    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    keys, variables = re.findall(r"`(tl\.\w+)`", text), re.findall(r"`(TILELANG_\w+)`", text)
    assert len(keys) > 3 and len(variables) > 3
    for key in keys:
        config_key(key)
    for variable in variables:
        getattr(env, variable)


PROGRAM = """
import tilelang
import tilelang.language as T


@T.prim_func
def double(A: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            A[i] = A[i] * 2


@tilelang.jit(target="cpu")
def shift(A, by: int = 1):
    n = T.const("n")
    A: T.Tensor[[n], T.float32]
    with T.Kernel(1, threads=64):
        for i in T.Parallel(n):
            A[i] = A[i] + by


@tilelang.jit(target="cpu")
def scaled(n, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((n,), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(n):
                A[i] = A[i] * 2

    return main


@T.prim_func
def stretched(A: T.Tensor((T.dynamic("rows"), 8), "float32"), by: T.int32):
    with T.Kernel(A.shape[0], threads=8) as row:
        for j in T.Parallel(8):
            A[row, j] = A[row, j] * by


number = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def test_a_program_is_compiled_from_the_command_line(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compile", f"{file}:double", "--target", "cuda -arch=sm_80"]) == 0
    assert "__global__" in capsys.readouterr().out
    assert main(["compile", f"{file}:shift", "A=T.Tensor((8,), 'float32')", "by=7"]) == 0
    found = capsys.readouterr().out
    assert "tl_call" in found and "7" in found
    assert main(["explain", f"{file}:double", "--target", "cuda -arch=sm_90a"]) == 0
    assert "double" in capsys.readouterr().out
    assert main(["explain", f"{file}:double", "--target", "cpu"]) == 0
    assert capsys.readouterr().out.strip()


FACTORY = """
import tilelang.language as T


def factory(n):
    @T.prim_func
    def move(A: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((n,), "float32")
            T.copy(A, tile)
            T.copy(tile, A)

    return move
"""


def test_a_line_is_explained_with_its_location(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    line = PROGRAM.splitlines().index("            A[i] = A[i] * 2") + 1
    assert main(["explain", f"{file}:{line}", "--target", "cuda -arch=sm_80"]) == 0
    assert capsys.readouterr().out == (
        f"{file}:{line}  A[i] = A[i] * 2\n"
        "  loads A (global): 4 bytes per thread\n  stores A (global): 4 bytes per thread\n"
    )
    assert main(["explain", f"{file}:{line - 3}", "--target", "cuda -arch=sm_80"]) == 0
    assert capsys.readouterr().out.startswith("`double` for cuda -arch=sm_80")  # no line of its own


def test_a_line_of_a_factory_is_explained_for_its_arguments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "factory.py"
    path.write_text(FACTORY)
    assert main(["explain", f"{path}:10", "n=64", "--target", "cuda -arch=sm_80"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"{path}:10  T.copy(A, tile)"
    for words in (["--target", "cuda -arch=sm_80", "n=100"], ["n=100", "--target", "cpu"]):
        assert main(["compile", f"{path}:factory", *words]) == 0
        assert "100" in capsys.readouterr().out
    assert main(["explain", f"{path}:2"]) == 1
    assert capsys.readouterr().err == (
        f"there is no program at line 2 of {path}\n"
        "  expected: a line of a @T.prim_func, or of a function that gives one\n"
    )


def test_a_program_is_measured(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", f"{file}:double", "--target", "cpu"]) == 0
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert rows == ["kernel", "latency", "memory", "arithmetic"]
    assert main(["bench", f"{file}:stretched", "rows=8", "by=2", "--target", "cpu"]) == 0
    assert capsys.readouterr().out.startswith(f"{'kernel':14} stretched")


@pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")
def test_a_program_is_checked(
    file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sanitize", f"{file}:stretched", "rows=8", "by=2", "--target", "metal"]) == 0
    assert capsys.readouterr().out.startswith("stretched: nothing wrong in 2 runs")
    racing = tmp_path / "racing.py"
    racing.write_text(
        "import tilelang.language as T\n\n\n@T.prim_func\n"
        'def racing(A: T.Tensor((1,), "int32")):\n'
        "    with T.Kernel(8, threads=32) as bx:\n        A[0] = A[0] + bx\n"
    )
    assert main(["sanitize", f"{racing}:racing"]) == 1
    assert "race" in capsys.readouterr().out
    assert main(["bench", f"{file}:stretched", "by=2"]) == 1
    assert capsys.readouterr().err == (
        f"{file}:stretched has sizes that are open: rows\n"
        "  expected: their values behind it, e.g. rows=128\n"
    )


def test_wrong_indices_are_reported(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", "nothing.py:f"]) == 1
    assert capsys.readouterr().err == (
        "there is no file nothing.py\n  expected: FILE:NAME\n  got: nothing.py:f\n"
    )
    assert main(["compile", file]) == 1
    assert capsys.readouterr().err == (
        f"there is no such program\n  expected: FILE:NAME\n  got: {file}\n"
    )
    assert main(["compile", f"{file}:doubel"]) == 1
    assert capsys.readouterr().err == (
        f"{file} has no doubel\n  expected: a @T.prim_func, a kernel, or a function "
        "that returns one\n  hint: it has double, shift, scaled, stretched\n"
    )
    assert main(["compile", f"{file}:number"]) == 1
    assert capsys.readouterr().err == (
        f"number of {file} is not a program\n  expected: a @T.prim_func, a kernel, or a function "
        "that returns one\n  got: int\n  hint: it has double, shift, scaled, stretched\n"
    )


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["scaled"],
         "`scaled` cannot be called like this: missing a required argument: 'n'\n"
         "  expected: (n, dtype)\n"),
        (["scaled", "n=8", "m=3"],
         "FILE:scaled takes no m\n  expected: arguments of a factory, by name\n"),
        (["double", "m=3"],
         "FILE:double takes no m\n  expected: arguments of a factory, by name\n"),
        (["scaled", "n=8", "dtype=float16"],
         "dtype=float16 is not an argument: name 'float16' is not defined\n"
         "  expected: name=value with a number, a text in quotes, or an expression of T\n"
         "  got: dtype=float16\n  hint: for a text write dtype='\"float16\"'\n"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_reported(
    file: str, capsys: pytest.CaptureFixture[str], words: list[str], text: str
) -> None:
    name, *values = words
    assert main(["compile", f"{file}:{name}", *values]) == 1
    assert capsys.readouterr().err.replace(file, "FILE") == text


def test_the_cache_is_shown_and_cleared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilelang.runtime.cache import DiskCache, Entry

    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.setenv("TILELANG_CACHE_SIZE", "5")
    kept = DiskCache(tmp_path / "kept")
    kept.put("ab" * 32, Entry(bytes(3 << 20)))
    shown = [
        f"{'folder':14} {tmp_path / 'kept'}",
        f"{'entries':14} 1",
        f"{'size':14} 3.0 MiB of 5 MiB",
    ]
    assert main(["cache"]) == 0
    assert capsys.readouterr().out.splitlines() == shown
    assert main(["cache", "clear"]) == 0
    assert capsys.readouterr().out.splitlines() == [*shown, f"{'removed':14} 1"]
    assert kept.usage() == (0, 0)


def test_a_script_runs_checked(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["sanitize"])
    assert capsys.readouterr().err.startswith("usage: python -m tilelang sanitize FILE:NAME")
    assert main(["sanitize", "nothing.py"]) == 2
    assert capsys.readouterr().err == (
        "there is no file nothing.py\nusage: python -m tilelang.emulator script.py [arguments]\n"
    )


def test_an_argument_without_a_name_says_how_to_give_one() -> None:
    assert refusal(TileValueError, arguments_of, ["1000"]) == (
        "the argument 1000 has no name\n  expected: name=value\n  got: 1000\n"
        "  hint: name the parameter of the factory, as in n=1000"
    )
