"""The disk cache: damaged entries, killed and competing processes, full and foreign disks."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest
from refusals import refusal

from tilelang.errors import TileValueError, TileWarning
from tilelang.runtime import cache as cache_module
from tilelang.runtime.cache import DiskCache, Entry, content_key, usable_directory

KEY = content_key("a kernel")


def build_counted(data: bytes = b"code") -> Any:
    def build() -> Entry:
        build.count += 1  # type: ignore[attr-defined]  # a counter on the function
        return Entry(data, {"name": "k"})

    build.count = 0  # type: ignore[attr-defined]  # a counter on the function
    return build


@pytest.fixture(autouse=True)
def fresh_warnings() -> Any:
    cache_module._warn_once.cache_clear()
    cache_module._open.cache_clear()
    yield
    cache_module._open.cache_clear()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_entry_is_built_once_and_found_again(root: Path) -> None:
    build = build_counted()
    first = DiskCache(root).fetch(KEY, build)
    again = DiskCache(root).fetch(KEY, build)
    assert build.count == 1
    assert (again.data, again.meta, again.path) == (b"code", {"name": "k"}, first.path)
    assert again.path is not None and again.path.read_bytes().startswith(b"code")
    assert len(DiskCache(root)) == 1


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "garbage", "append"])
def test_damaged_entry_is_built_again(root: Path, damage: str) -> None:
    build = build_counted(b"code" * 100)
    path = DiskCache(root).fetch(KEY, build).path
    assert path is not None
    content = path.read_bytes()
    path.write_bytes(
        {
            "truncate": content[:-20], "flip": b"C" + content[1:], "empty": b"",
            "garbage": os.urandom(300), "append": content + b"x",
        }[damage]
    )  # fmt: skip
    assert DiskCache(root).get(KEY) is None
    assert DiskCache(root).fetch(KEY, build).data == b"code" * 100
    assert build.count == 2
    assert DiskCache(root).get(KEY) is not None


def test_entry_under_a_wrong_name_is_not_taken(root: Path) -> None:
    cache = DiskCache(root)
    path = cache.fetch(KEY, build_counted()).path
    other = content_key("another")
    target = cache.path_of(other)
    assert path is not None and target is not None
    target.parent.mkdir(exist_ok=True)
    path.rename(target)
    assert cache.get(other) is None


def test_full_disk_only_means_nothing_is_kept(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, data: bytes) -> None:
        os.write(descriptor, data[:3])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(cache_module, "write_all", full)
    build = build_counted()
    cache = DiskCache(root)
    with pytest.warns(TileWarning, match="nothing is kept in the kernel cache .*No space left"):
        entry = cache.fetch(KEY, build)
    assert (entry.data, entry.path) == (b"code", None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        cache.fetch(KEY, build)
    assert build.count == 2
    assert [path for path in root.rglob("*") if path.is_file()] == []
    monkeypatch.undo()
    assert cache.fetch(KEY, build).path is not None


def test_clear_removes_entries_and_nothing_else(root: Path) -> None:
    cache = DiskCache(root)
    for number in range(3):
        cache.put(content_key(str(number)), Entry(b"x"))
    mine = root / "notes.txt"
    mine.write_text("keep")
    assert cache.clear() == 3
    assert len(cache) == 0 and mine.read_text() == "keep"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="ownership is a POSIX notion")
def test_directory_that_others_can_write_is_not_used(root: Path) -> None:
    root.mkdir()
    root.chmod(0o777)
    with pytest.warns(TileWarning, match="is not used: it belongs to, or can be written by"):
        used = usable_directory(root)
    assert used is not None and used != root
    assert used.stat().st_mode & 0o077 == 0
    root.chmod(0o755)
    assert usable_directory(root) == root


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="ownership is a POSIX notion")
def test_directory_of_another_user_is_not_used(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root.mkdir()
    cache = DiskCache(root)
    cache.put(KEY, Entry(b"x"))
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    assert cache.get(KEY) is None
    with pytest.warns(TileWarning, match="is not used"):
        assert usable_directory(root) != root


def test_cache_path_that_is_a_file_is_not_used(root: Path) -> None:
    root.write_text("a file")
    with pytest.warns(TileWarning, match="is not used"):
        assert usable_directory(root) != root


def test_left_over_files_of_killed_processes_go_away(root: Path) -> None:
    cache = DiskCache(root)
    path = cache.put(KEY, Entry(b"x")).path
    assert path is not None
    old, new = path.with_name(".old.tmp"), path.with_name(".new.tmp")
    old.write_bytes(b"")
    new.write_bytes(b"")
    os.utime(old, (time.time() - 7200,) * 2)
    cache.put(KEY, Entry(b"x"))
    assert not old.exists() and new.exists()


WRITER = """
import sys, os, hashlib
from pathlib import Path
from tilelang.runtime.cache import DiskCache, Entry, content_key
cache = DiskCache(Path(sys.argv[1]), int(sys.argv[3]) or None)
keys = [content_key(str(i)) for i in range(4)]
data = {key: hashlib.sha256(key.encode()).digest() * 20000 for key in keys}
print("ready", flush=True)
for turn in range(int(sys.argv[2])):
    key = keys[turn % 4]
    found = cache.get(key)
    if found is not None and found.data != data[key]:
        sys.exit("a wrong entry was found")
    cache.put(key, Entry(data[key], {"turn": turn}))
"""


def start_writer(root: Path, turns: int, limit: int = 0) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(root), str(turns), str(limit)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("limit", [0, 10**6])
def test_processes_that_write_and_shrink_one_cache_agree(root: Path, limit: int) -> None:
    writers = [start_writer(root, 40, limit) for _ in range(3)]
    for process in writers:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    cache = DiskCache(root, limit or None)
    cache.shrink()
    if limit:
        assert sum(path.stat().st_size for path in root.rglob("*") if path.is_file()) <= limit
    else:
        assert len(cache) == 4
        assert all(cache.get(content_key(str(i))) is not None for i in range(4))
    assert not list(root.rglob("*.tmp"))


def test_killed_writer_leaves_no_wrong_entry(root: Path) -> None:
    for delay in (0.005, 0.02, 0.05):
        process = start_writer(root, 10**9)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    checker = start_writer(root, 8)  # finds only right entries, or none
    _, errors = checker.communicate(timeout=60)
    assert checker.returncode == 0, errors
    cache = DiskCache(root)
    assert all(cache.get(content_key(str(i))) is not None for i in range(4))


# -- entries that are none, folders of others -------------------------------------------------------
def entry_path(root: Path) -> Path:
    path = DiskCache(root).path_of(KEY)
    assert path is not None
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def make_pipe(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    import socket

    place = os.open(path.parent, os.O_RDONLY)  # the names of sockets are short
    server = socket.socket(socket.AF_UNIX)
    server.bind(f"/proc/self/fd/{place}/{path.name}")
    server.close()
    os.close(place)


def make_link(path: Path) -> None:
    other = path.with_name("elsewhere")
    other.write_bytes(cache_module._pack(KEY, Entry(b"another")))
    path.symlink_to(other)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="makes files of Linux's kinds")
@pytest.mark.parametrize("make", [make_pipe, make_socket, make_link, Path.mkdir])
def test_entry_that_is_no_regular_file_is_none(root: Path, make: Any) -> None:
    path = entry_path(root)
    make(path)
    build = build_counted(b"right")
    if make is Path.mkdir:
        with pytest.warns(TileWarning, match="nothing is kept in the kernel cache"):
            assert DiskCache(root).fetch(KEY, build).data == b"right"
        assert path.is_dir()
        return
    assert DiskCache(root).fetch(KEY, build).data == b"right"
    found = DiskCache(root).get(KEY)
    assert found is not None and found.data == b"right"
    assert path.is_file() and not path.is_symlink()


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="ownership is a POSIX notion")
def test_folder_in_the_cache_that_others_can_write_is_not_used(root: Path) -> None:
    cache = DiskCache(root)
    path = cache.put(KEY, Entry(b"x")).path
    assert path is not None
    path.parent.chmod(0o777)
    assert cache.get(KEY) is None
    with pytest.warns(TileWarning, match="belongs to, or can be written by, somebody else"):
        assert cache.put(KEY, Entry(b"y")).path is None
    assert (len(cache), cache.clear()) == (0, 0)
    path.parent.chmod(0o700)
    found = cache.get(KEY)
    assert found is not None and found.data == b"x"


@pytest.mark.skipif(not hasattr(os, "symlink"), reason="needs links")
def test_folder_in_the_cache_that_is_a_link_is_not_used(root: Path, tmp_path: Path) -> None:
    cache = DiskCache(root)
    path = cache.put(KEY, Entry(b"x")).path
    assert path is not None
    moved = tmp_path / "moved"
    path.parent.rename(moved)
    path.parent.symlink_to(moved)
    assert cache.get(KEY) is None
    assert cache.clear() == 0
    assert len(list(moved.iterdir())) == 1


def test_a_read_only_cache_is_used(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = DiskCache(root)
    path = cache.put(KEY, Entry(b"x")).path
    assert path is not None
    os.utime(path, (1, 1))
    opened = os.open

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    def open_to_read(file: Any, flags: int, *more: int) -> int:
        if flags & os.O_CREAT:
            refuse()
        return opened(file, flags, *more)

    monkeypatch.setattr(os, "open", open_to_read)
    monkeypatch.setattr(os, "utime", refuse)
    found = cache.get(KEY)
    assert found is not None and found.data == b"x"
    with pytest.warns(TileWarning, match="Read-only file system"):
        assert cache.put(content_key("more"), Entry(b"y")).path is None


# -- size -------------------------------------------------------------------------------------------
def fill(cache: DiskCache, count: int, size: int = 1000) -> list[str]:
    """Entries, the first one used longest ago."""
    keys = [content_key(str(number)) for number in range(count)]
    for age, key in enumerate(reversed(keys)):
        path = DiskCache(cache.root).put(key, Entry(b"x" * size)).path
        assert path is not None
        os.utime(path, (time.time() - 10000 - 100 * age,) * 2)
    return keys


def kept(cache: DiskCache, keys: list[str]) -> list[int]:
    return [at for at, key in enumerate(keys) if (cache.path_of(key) or Path()).exists()]


def test_least_recently_used_entries_are_evicted_first(root: Path) -> None:
    cache = DiskCache(root, limit=10_000)
    keys = fill(cache, 12)
    assert cache.get(keys[0]) is not None  # used again just now
    assert cache.shrink() == 4
    assert kept(cache, keys) == [0, *range(5, 12)]
    assert cache.shrink() == 0


def test_a_large_entry_makes_room_for_itself_and_stays(root: Path) -> None:
    cache = DiskCache(root, limit=10_000)
    keys = fill(cache, 8)
    cache.put(content_key("large"), Entry(b"y" * 5000))
    assert cache.get(content_key("large")) is not None
    assert kept(cache, keys) == [5, 6, 7]
    cache.put(content_key("too large"), Entry(b"y" * 20000))
    assert kept(cache, keys) == []
    assert cache.get(content_key("too large")) is not None


def test_sizes_are_added_up_seldom(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []
    monkeypatch.setattr(DiskCache, "shrink", lambda self, keep=None: looks.append(1))
    monkeypatch.setattr(cache_module.random, "random", random.Random(1).random)
    cache = DiskCache(root, limit=1 << 20)
    for number in range(100):
        cache.put(content_key(str(number)), Entry(b"x" * 1000))
    assert 0 < len(looks) < 10


def test_bound_is_read_from_the_environment(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(root))
    monkeypatch.setenv("TILELANG_CACHE_SIZE", "3")
    assert cache_module.default_cache().limit == 3 << 20
    monkeypatch.setenv("TILELANG_CACHE_SIZE", "-1")
    assert refusal(TileValueError, cache_module.default_cache) == (
        "the environment variable TILELANG_CACHE_SIZE is not a size\n"
        "  expected: MiB, or 0 for no bound\n  got: -1"
    )
