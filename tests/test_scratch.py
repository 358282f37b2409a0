"""Temporary folders of compilers: gone with their work, and with processes that were killed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tilelang import scratch
from tilelang.env import env
from tilelang.scratch import ScratchFolder, remove_left_over, scratch_folders

pytestmark = pytest.mark.skipif(not hasattr(os, "getuid"), reason="locks are a POSIX notion")

HOLDER = """
import sys, time
from tilelang.scratch import ScratchFolder
folder = ScratchFolder(sys.argv[1])
(folder.path / "source.c").write_text("int x;")
print(folder.path, flush=True)
time.sleep(600)
"""


@pytest.fixture(autouse=True)
def fresh() -> None:
    remove_left_over.cache_clear()


def holder(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(parent)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def make_old(path: Path) -> None:
    os.utime(path, (time.time() - 7200,) * 2)


def test_folders_are_removed_after_their_work(tmp_path: Path) -> None:
    with ScratchFolder(str(tmp_path)) as folder:
        (folder / "file").write_text("x")
        assert folder.parent == tmp_path
        assert folder.stat().st_mode & 0o077 == 0
    assert not list(tmp_path.iterdir())


def test_only_folders_of_ended_processes_are_removed(tmp_path: Path) -> None:
    killed, left = holder(tmp_path)
    living, kept = holder(tmp_path)
    killed.kill()
    killed.communicate(timeout=60)
    assert (left / "source.c").exists()
    remove_left_over(str(tmp_path))
    assert left.exists()  # too young
    make_old(left)
    make_old(kept)
    remove_left_over.cache_clear()
    with ScratchFolder(str(tmp_path)):
        assert not left.exists()
        assert (kept / "source.c").exists()
    living.kill()
    living.communicate(timeout=60)


def test_only_own_folders_are_removed(tmp_path: Path) -> None:
    process, left = holder(tmp_path)
    process.kill()
    process.communicate(timeout=60)
    names = ("other", "tilelang-notes", "tilelang-results", "tilelang-lock", "tilelang-more")
    foreign, notes, _, lock, more = folders = [tmp_path / name for name in names]
    for folder in folders:
        folder.mkdir()
    (notes / "diary.txt").write_text("mine")
    (lock / ".tilelang-lock").mkdir()
    (more / ".tilelang-lock").write_text("not the mark")
    files = [tmp_path / "tilelang-mine.so", tmp_path / "tilelang-mine.txt"]
    for file in files:
        file.write_bytes(b"")
    link = tmp_path / "tilelang-link"
    link.symlink_to(foreign)
    kept = {*folders, *files, link}
    for path in (left, *folders, *files):
        make_old(path)
    os.utime(link, (time.time() - 7200,) * 2, follow_symlinks=False)
    remove_left_over(str(tmp_path))
    assert set(tmp_path.iterdir()) == kept


def test_an_empty_position_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setattr(
        type(env), "scratch_directories", lambda self: iter([str(file), str(tmp_path)])
    )
    found = list(scratch_folders())
    assert [path.parent for path in found] == [tmp_path]
    assert not found[0].exists()
    with pytest.raises(OSError, match="file"):
        ScratchFolder()


def test_where_there_are_no_locks_nothing_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, left = holder(tmp_path)
    process.kill()
    process.communicate(timeout=60)
    make_old(left)
    monkeypatch.setattr(scratch, "_locked", lambda file: None)
    remove_left_over(str(tmp_path))
    assert left.exists()
