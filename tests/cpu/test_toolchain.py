"""Finding a C compiler, and what it says when it fails."""

from __future__ import annotations

import os
import shlex
import stat
import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tilelang import hostcc
from tilelang.cpu.toolchain import Compiler, find_compiler
from tilelang.errors import CompileError, TileWarning
from tilelang.hostcc import summary_of
from tilelang.target.cores import scalable_flags


class Memory:
    """A store in memory."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def get_text(self, key: str) -> str | None:
        return self.texts.get(key)

    def put_text(self, key: str, text: str) -> None:
        self.texts[key] = text


@pytest.fixture(autouse=True)
def forget() -> Any:
    hostcc.forget()
    yield
    hostcc.forget()


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    """The one that is found without ``CC``, which tests set."""
    monkeypatch.delenv("CC", raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = find_compiler()
    if found is None:
        pytest.skip("no C compiler on this machine")
    return found


def test_library_is_reproducible(compiler: Compiler) -> None:
    source = "int f(void) { return 3; }\n"
    assert compiler.compile_shared(source) == compiler.compile_shared(source)
    assert compiler.identity and compiler.version


def test_refused_source_is_summarised(compiler: Compiler) -> None:
    with pytest.raises(CompileError) as found:
        compiler.compile_shared("int f(void) {\n    return y;\n}\n")
    text = str(found.value)
    assert text.startswith("the C compiler refused the source\n  got: line 2: ")
    assert "y" in text and "kernel.c" not in text
    assert text.endswith("hint: the complete output is in the `log` attribute of this error")
    assert "kernel.c" in found.value.log


def test_summary_takes_the_first_error() -> None:
    log = (
        "kernel.c:2:5: warning: odd\n"
        "kernel.c:7:9: error: 'x' undeclared (first use in this function)\n"
        "kernel.c:9:1: fatal error: no\n"
    )
    assert summary_of(log) == "line 7: 'x' undeclared (first use in this function) (and 1 more)"
    assert summary_of("ld: undefined reference to `foo'\ncollect2: exit 1\n").startswith("ld: ")
    assert summary_of("") == ""


def fake_compiler(folder: Path, text: str) -> Path:
    path = folder / "fakecc"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def test_killed_compiler_is_reported(tmp_path: Path) -> None:
    path = fake_compiler(tmp_path, "kill -9 $$")
    with pytest.raises(CompileError, match="the C compiler was killed by signal 9"):
        Compiler((str(path),), "").compile_shared("")


def test_a_compiler_that_crashes_optimizes_less(tmp_path: Path) -> None:
    path = fake_compiler(
        tmp_path,
        'case "$*" in *-O2*-O1) printf code > out.so;; '
        "*) echo 'k.c:1:1: internal compiler error: in expand_shift_1'; exit 1;; esac",
    )
    assert Compiler((str(path),), "").compile_shared("", ("-O2",)) == b"code"
    with pytest.raises(CompileError, match="internal compiler error: in expand_shift_1"):
        Compiler((str(path),), "").compile_shared("", ("-O0",))


def test_compiler_that_writes_nothing_is_reported(tmp_path: Path) -> None:
    path = fake_compiler(tmp_path, "exit 0")
    with pytest.raises(CompileError, match="the C compiler wrote no library"):
        Compiler((str(path),), "").compile_shared("")
    with pytest.raises(CompileError, match="cannot be started"):
        Compiler(("/nonexistent/cc",), "").compile_shared("")


def test_a_missing_compiler_is_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.warns(TileWarning) as seen:
        assert find_compiler() is None
    assert [str(item.message) for item in seen] == [
        "no C compiler found: kernels run in the interpreter, which is slow; "
        "install gcc or clang, or `pip install ziglang`"
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        hostcc._find.cache_clear()
        assert find_compiler() is None


def test_broken_cc_falls_back(
    tmp_path: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", str(fake_compiler(tmp_path, "exit 1")))
    with pytest.warns(TileWarning, match="does not work; trying others"):
        found = find_compiler()
    assert found is not None and found.command == compiler.command
    monkeypatch.setenv("CC", "gcc 'x")
    with pytest.warns(TileWarning, match="is not a command: a quote is not closed; trying others"):
        found = find_compiler()
    assert found is not None and found.command == compiler.command
    monkeypatch.setenv("CC", "nonexistent-compiler -m64")
    with pytest.warns(TileWarning, match="is not found; trying others"):
        assert find_compiler() == compiler


def test_cc_is_preferred_with_its_flags(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", f"{compiler.command[0]} -DTL_MARK=1")
    found = find_compiler()
    assert found is not None and found.command == (compiler.command[0], "-DTL_MARK=1")
    found.compile_shared("int x = TL_MARK;")


@pytest.mark.parametrize(
    ("text", "flag"), [("32\n", "256"), ("64\n", "512"), ("16\n", ""), ("", "")]
)
@pytest.mark.parametrize("knows", [True, False])
def test_scalable_vectors_of_this_machine_are_built_for(
    text: str, flag: str, knows: bool, compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """The compiler here replaces one on Arm, which knows the flag or does not."""
    known = tmp_path / "sve_default_vector_length"
    known.write_text(text, encoding="ascii")
    monkeypatch.setattr("tilelang.cpu.toolchain._SCALABLE_BYTES", known)
    taken = "" if knows else "exit 1"
    path = fake_compiler(
        tmp_path,
        f"""
for word; do shift; case "$word" in
    -msve-vector-bits=*) {taken or ":"};;
    *) set -- "$@" "$word";;
esac; done
exec {shlex.join(compiler.command)} "$@\"""",
    )
    found = Compiler.probed((str(path),), "")
    assert found is not None
    wanted = scalable_flags(int(flag) // 8) if flag and knows else ()
    assert found.native == (*compiler.native, *wanted)


# A part of a program that some compiler gets wrong: what it makes of it, and the flags it needs.
MISTAKES = {
    ": 0.0;": (": 1.0;", ("-fno-tree-loop-if-convert",)),
    "!to[7]": ("0", ("-mmove-max=128", "-mstore-max=128")),
}


class Mistaken(Compiler):
    """A compiler that is right about some programs with flags only."""

    def compile_shared(self, source: str, flags: Sequence[str] = ()) -> bytes:
        for right, (wrong, needed) in MISTAKES.items():
            if not set(needed) <= set(flags):
                source = source.replace(right, wrong, 1)
        try:
            return super().compile_shared(source, flags)
        except CompileError:  # clang does not know all of them
            return super().compile_shared(source, [flag for flag in flags if "-max=" not in flag])


def test_a_program_that_a_compiler_gets_wrong_costs_it_a_flag(compiler: Compiler) -> None:
    found = Mistaken.probed(compiler.command, "now")
    assert found is not None
    for _, needed in MISTAKES.values():
        assert set(needed) <= set(found.careful)


class Underscored(Compiler):
    """A compiler that knows processors by names with underscores only, as zig does."""

    def run(self, words: Sequence[str], folder: Path) -> str:
        named = [word for word in words if word.startswith("-march=")]
        if any("-" in word[len("-march=") :] for word in named):
            raise CompileError("no such processor")
        return super().run([word for word in words if word not in named], folder)


def test_processors_are_named_as_the_compiler_does(compiler: Compiler) -> None:
    found = Underscored.probed(compiler.command, "now")
    assert found is not None and found.underscores
    assert compiler.underscores == ("ziglang" in compiler.command)
    assert found.compile_shared("int f(void) { return 3; }\n", ("-march=x86-64-v3",))


def test_a_probe_is_repeated_when_the_compiler_changes(
    tmp_path: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    path = fake_compiler(tmp_path, f'echo run >> {log}\nexec {compiler.command[0]} "$@"')
    monkeypatch.setenv("CC", str(path))
    store = Memory()
    first = find_compiler(store)
    runs = len(log.read_text().splitlines())
    assert runs >= 3
    hostcc._find.cache_clear()
    assert find_compiler(store) == first
    assert len(log.read_text().splitlines()) == runs
    os.utime(path, (1, 1))
    hostcc._find.cache_clear()
    assert find_compiler(store) != first
    assert len(log.read_text().splitlines()) > runs


@pytest.mark.skipif(find_spec("ziglang") is None, reason="needs the package ziglang")
def test_the_compiler_of_a_package_imports_nothing_from_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ziglang", "subprocess"):
        (tmp_path / f"{name}.py").write_text("open('imported', 'w')")
    monkeypatch.chdir(tmp_path)
    (command, _), *_ = hostcc.candidates(Compiler, None, "/nonexistent")
    assert hostcc.versions_of(command)
    assert not (tmp_path / "imported").exists()


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="needs anonymous files")
def test_compilers_work_where_the_loader_replaces_parts_of_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: Compiler
) -> None:
    folder = tmp_path / "$ORIGIN" / "$LIB"
    monkeypatch.setenv("TILELANG_TMP_DIR", str(folder))
    hostcc.forget()
    assert find_compiler() == compiler
    assert list(folder.iterdir()) == []


def test_full_temporary_directory_moves_to_memory(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not os.path.isdir("/dev/shm"):
        pytest.skip("needs a file system in memory")
    real, places = Compiler.run, []

    def run(self: Compiler, words: list[str], folder: Path) -> str:
        places.append(str(folder))
        if len(places) == 1:
            raise hostcc.failed("refused", "as: No space left on device")
        return real(self, words, folder)

    monkeypatch.setattr(Compiler, "run", run)
    assert compiler.compile_shared("int x;")
    assert places[1].startswith("/dev/shm/")
    assert not any(os.path.exists(place) for place in places)
