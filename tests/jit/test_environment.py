"""What the environment variables do: threads, temporary files, logging, printing, sanitizers."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.cpu import executable as native, toolchain
from tilelang.cpu.toolchain import find_compiler
from tilelang.env import env
from tilelang.errors import TileValueError
from tilelang.hostcc import forget

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")


def program(value: float = 1.0) -> Any:
    @T.prim_func
    def fill(A: T.Tensor((64,), "float32")):
        with T.Kernel(64, threads=32) as bx:
            A[bx] = value

    return fill


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


# -- threads ----------------------------------------------------------------------------------------
COUNT = """
import os
import numpy as np
import tilelang
import tilelang.language as T

@T.prim_func
def fill(A: T.Tensor((640, 4096), "float32")):
    with T.Kernel(640, threads=32) as bx:
        for i in T.Parallel(4096):
            A[bx, i] = 1.0

kernel = tilelang.compile(fill, target="cpu")
before = len(os.listdir("/proc/self/task"))
data = np.zeros((640, 4096), np.float32)
kernel(data)
assert (data == 1).all()
print(1 + len(os.listdir("/proc/self/task")) - before)
"""


@pytest.fixture
def threads(tmp_path: Path) -> Callable[..., int]:
    """Number of threads that a launch of 640 blocks uses, in a process of its own."""
    script = tmp_path / "count.py"
    script.write_text(COUNT)

    def count(kind: str, **variables: str) -> int:
        kept = {name: text for name, text in os.environ.items() if not name.endswith("_THREADS")}
        done = subprocess.run(
            [sys.executable, str(script)],
            env={**kept, "TILELANG_OPENMP": str(int(kind == "openmp")), **variables},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return int(done.stdout)

    return count


@pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts the threads of Linux")
def test_number_of_threads_is_limited(threads: Callable[..., int]) -> None:
    for kind in ("openmp", "pool"):
        assert threads(kind, OMP_NUM_THREADS="4", TILELANG_NUM_THREADS="3") == 3
    assert threads("openmp", OMP_NUM_THREADS="2", TILELANG_NUM_THREADS="3") == 2
    assert threads("pool", OMP_NUM_THREADS="4", TILELANG_NUM_THREADS="0") == 4


# -- temporary files --------------------------------------------------------------------------------
@pytest.fixture
def places(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Folders that the C compiler works in."""
    seen: list[str] = []
    original = toolchain.Compiler.run

    def noted(self: Any, words: list[str], folder: Path) -> str:
        seen.append(str(folder.parent))
        return original(self, words, folder)

    monkeypatch.setattr(toolchain.Compiler, "run", noted)
    return seen


def test_the_variable_sets_the_temporary_directory(
    places: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = tmp_path / "deep" / "scratch"
    monkeypatch.setenv("TILELANG_TMP_DIR", str(chosen))
    tilelang.compile(program(2.0), target="cpu")
    assert places and set(places) == {str(chosen)}
    assert list(chosen.iterdir()) == []


def test_libraries_are_loaded_from_there_where_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILELANG_TMP_DIR", str(tmp_path / "scratch"))
    monkeypatch.setattr(env, "_cache", False)
    kernel = tilelang.compile(program(2.5), target="cpu")
    assert kernel.adapter.library is not None
    assert Path(kernel.adapter.library.path).parents[1] == tmp_path / "scratch"
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_relative_folder_is_where_the_program_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILELANG_TMP_DIR", "own/scratch")
    monkeypatch.setenv("TILELANG_CACHE_DIR", "kept")
    assert next(env.scratch_directories()) == str(tmp_path / "own" / "scratch")
    assert env.TILELANG_CACHE_DIR == str(tmp_path / "kept")
    forget()
    found = find_compiler()
    assert found is not None  # it runs in a folder of its own
    forget()


def test_a_directory_that_cannot_be_created_is_skipped(
    places: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TILELANG_TMP_DIR", str(tmp_path / "file" / "scratch"))
    tilelang.compile(program(4.0), target="cpu")
    monkeypatch.delenv("TILELANG_TMP_DIR")
    assert set(places) == {tempfile.gettempdir()} == {env.TILELANG_TMP_DIR}


# -- logging ----------------------------------------------------------------------------------------
@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger("tilelang")
    level, handlers = found.level, list(found.handlers)
    found.setLevel(logging.NOTSET)
    yield found
    found.setLevel(level)
    found.handlers[:] = handlers


def test_log_level_is_that_of_the_variable(
    logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    tilelang.compile(program(), target="cpu")
    assert logger.level == logging.NOTSET
    monkeypatch.setenv("TILELANG_LOG_LEVEL", "debug")
    tilelang.compile(program(), target="cpu")
    assert logger.level == logging.DEBUG


def test_level_that_the_program_sets_wins(
    logger: logging.Logger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILELANG_LOG_LEVEL", "INFO")
    tilelang.set_log_level("ERROR")
    tilelang.compile(program(), target="cpu")
    assert logger.level == logging.ERROR


def test_messages_can_be_seen_without_any_configuration() -> None:
    code = (
        "import logging, tilelang\n"
        "log = logging.getLogger('tilelang')\n"
        "tilelang.set_log_level('INFO'); tilelang.set_log_level('INFO')\n"
        "log.info('seen'); log.debug('hidden')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("", "tilelang: seen\n")


def test_level_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_LOG_LEVEL", "loud")
    assert refusal(TileValueError, tilelang.compile, program(), target="cpu") == (
        "the environment variable TILELANG_LOG_LEVEL is not a level\n"
        "  expected: DEBUG, INFO, WARNING, ERROR, CRITICAL\n"
        "  got: 'loud'"
    )


# -- printing ---------------------------------------------------------------------------------------
def test_source_is_printed_when_it_is_compiled_and_not_when_it_is_found(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILELANG_PRINT_ON_COMPILATION", "1")
    kernel = tilelang.compile(program(5.0), target="cpu")
    assert capsys.readouterr().out == kernel.get_kernel_source() + "\n"
    tilelang.compile(program(5.0), target="cpu")
    assert capsys.readouterr().out == ""
    kernel = tilelang.compile(program(6.0), target="cpu", verbose=True)
    assert capsys.readouterr().out == kernel.get_kernel_source() + "\n"  # once


def test_variable_prints_like_verbose(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TILELANG_VERBOSE", "1")
    for _ in range(2):  # from the cache, too
        kernel = tilelang.compile(program(5.0), target="cpu")
        assert capsys.readouterr().out == kernel.get_kernel_source() + "\n"
    tilelang.compile(program(5.0), target="cpu", verbose=False)
    assert capsys.readouterr().out == ""


# -- sanitizers -------------------------------------------------------------------------------------
def test_sanitizers_are_flags_and_part_of_the_key(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, ...]] = []
    original = toolchain.Compiler.compile_shared

    def noted(self: Any, source: str, flags: tuple[str, ...] = ()) -> bytes:
        if "generated by tilelang" in source:
            seen.append(flags)
            flags = tuple(flag for flag in flags if not flag.startswith("-fsanitize"))
        return original(self, source, flags)  # the libraries of sanitizers are not everywhere

    monkeypatch.setattr(toolchain.Compiler, "compile_shared", noted)
    tilelang.compile(program(), target="cpu")
    monkeypatch.setenv("TILELANG_SANITIZE", "undefined, float-divide-by-zero")
    tilelang.compile(program(), target="cpu")
    assert len(seen) == 2
    added = [flag for flag in seen[1] if flag not in seen[0]]
    assert added == ["-fsanitize=undefined,float-divide-by-zero", *native.SANITIZED]


def test_unknown_sanitizer_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_SANITIZE", "address -o/x")
    assert refusal(TileValueError, tilelang.compile, program(), target="cpu") == (
        "the environment variable TILELANG_SANITIZE is not a list of sanitizers\n"
        "  expected: 1 (GPU kernels run checked, in the emulator), or names of -fsanitize for "
        'kernels in C, e.g. "address,undefined"\n'
        "  got: 'address -o/x'"
    )


# -- passes -----------------------------------------------------------------------------------------
def test_pass_changes_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "passes.diff"
    monkeypatch.setenv("TILELANG_PASS_DIFF_OUTPUT", str(path))
    tilelang.compile(program(7.0), target="cpu")
    text = path.read_text(encoding="utf-8")
    heads = [line for line in text.splitlines() if line.startswith(("--- ", "+++ "))]
    assert heads[0] == "--- fill after traced"
    assert all(head[4:].startswith("fill after ") for head in heads)
    # The next difference starts where the last one ended.
    assert [head[4:] for head in heads[1:-1:2]] == [head[4:] for head in heads[2::2]]
    tilelang.compile(program(7.0), target="cpu")
    assert path.read_text(encoding="utf-8") == text * 2
