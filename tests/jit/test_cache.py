"""The kernel cache as processes see it: warm starts, competition, no compiler at all."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.runtime.cache import default_cache

pytestmark = pytest.mark.skipif(os.name != "posix", reason="compilers are started by a script")

PROGRAM = """
import sys

import numpy as np

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1], target="cpu")
def add(n, addend):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 32), threads=32) as bx:
            for i in T.Parallel(32):
                C[bx * 32 + i] = A[bx * 32 + i] + addend

    return main


kernel = add(100, float(sys.argv[1]))
print(kernel(np.ones(100, np.float32)).sum(), kernel.execution_backend)
"""


@dataclass
class Machine:
    """Processes of their own with one cache and a compiler that notes each start."""

    folder: Path

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    @property
    def log(self) -> Path:
        return self.folder / "starts.log"

    def __post_init__(self) -> None:
        found = find_compiler()
        if found is None:
            pytest.skip("no C compiler on this machine")
        (self.folder / "add.py").write_text(PROGRAM)
        compiler = self.folder / "counting-cc"
        compiler.write_text(
            f'#!/bin/sh\necho start >> {shlex.quote(str(self.log))}\nexec {shlex.join(found.command)} "$@"\n'
        )
        compiler.chmod(0o755)

    @property
    def starts(self) -> int:
        """How often the compiler has been started."""
        return len(self.log.read_text().splitlines()) if self.log.exists() else 0

    def start(self, addend: float = 1.0, **variables: str) -> subprocess.Popen[str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith("TILELANG")
        }
        kept |= {"TILELANG_CACHE_DIR": str(self.cache), "CC": str(self.folder / "counting-cc")}
        return subprocess.Popen(
            [sys.executable, str(self.folder / "add.py"), str(addend)],
            env={**kept, **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip

    def run(self, addend: float = 1.0, **variables: str) -> str:
        """Output of a process that must succeed and say nothing else."""
        out, errors = self.start(addend, **variables).communicate(timeout=120)
        assert errors == ""
        return out


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*.tl.so"))


def test_a_process_starts_the_compiler_for_other_programs_only(machine: Machine) -> None:
    first = machine.run()
    starts, kept = machine.starts, entries(machine.cache)
    assert first.startswith("200.0 ") and starts > 0 and kept
    assert machine.run() == first
    assert (machine.starts, entries(machine.cache)) == (starts, kept)
    assert machine.run(2.0).startswith("300.0 ")
    assert machine.starts == starts + 1
    both = entries(machine.cache)
    assert len(both) == len(kept) + 1
    machine.run(3.0, TILELANG_DISABLE_CACHE="1")
    assert machine.starts > starts + 1 and entries(machine.cache) == both
    machine.run(4.0, TILELANG_CLEAR_CACHE="1")
    assert len(entries(machine.cache)) == len(kept) and entries(machine.cache) != kept


def test_processes_that_compile_one_kernel_at_once_agree(machine: Machine) -> None:
    processes = [machine.start() for _ in range(2)]
    answers = [process.communicate(timeout=120) for process in processes]
    assert answers[0] == answers[1]
    assert answers[0][0].startswith("200.0 ") and answers[0][1] == ""
    kept, starts = entries(machine.cache), machine.starts
    assert machine.run() == answers[0][0]
    assert (machine.starts, entries(machine.cache)) == (starts, kept)
    assert not list(machine.cache.rglob("*.tmp"))


def test_without_a_compiler_the_interpreter_runs_with_a_warning(machine: Machine) -> None:
    empty = machine.folder / "empty"
    empty.mkdir()
    blocked = machine.folder / "add.py"
    blocked.write_text("import sys\nsys.modules['ziglang'] = None\n" + PROGRAM)
    out, errors = machine.start(CC="", PATH=str(empty)).communicate(timeout=120)
    assert out == "200.0 interpret\n"
    said = [line for line in errors.splitlines() if line]
    assert [line.partition("TileWarning: ")[2] for line in said if "TileWarning" in line] == [
        "no C compiler found: kernels run in the interpreter, which is slow; "
        "install gcc or clang, or `pip install ziglang`"
    ]
    assert len(said) <= 2  # Python shows the line of the program below the message
    assert machine.starts == 0


# -- in one process -------------------------------------------------------------------------------
def program() -> T.PrimFunc:
    @T.prim_func
    def fill(A: T.Tensor((24,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(24):
                A[i] = 7.0

    return fill


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if find_compiler() is None:
        pytest.skip("no C compiler on this machine")
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "own"))
    return tmp_path / "own"


def test_clear_cache_removes_the_kernels(own_cache: Path) -> None:
    tilelang.compile(program(), target="cpu")
    assert entries(own_cache)
    tilelang.cache.clear_cache()
    assert entries(own_cache) == []
    tilelang.compile(program(), target="cpu")
    assert entries(own_cache)


def test_cache_can_be_switched_off_and_on(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tilelang.env.env, "_cache", None)
    assert tilelang.is_cache_enabled()
    tilelang.disable_cache()
    assert not tilelang.is_cache_enabled() and not default_cache()
    tilelang.compile(program(), target="cpu")
    assert not own_cache.exists()
    tilelang.enable_cache()
    tilelang.compile(program(), target="cpu")
    assert entries(own_cache)


def test_switch_of_the_program_wins_over_the_variable(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tilelang.env.env, "_cache", None)
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    assert not tilelang.is_cache_enabled()
    tilelang.enable_cache()
    assert tilelang.is_cache_enabled()


def test_flags_are_part_of_the_key(own_cache: Path) -> None:
    tilelang.compile(program(), target="cpu")
    before = entries(own_cache)
    tilelang.compile(program(), target="cpu")
    assert entries(own_cache) == before
    tilelang.compile(program(), target="cpu", compile_flags="-DSOMETHING")
    assert len(entries(own_cache)) == len(before) + 1
