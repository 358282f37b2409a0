"""The disk cache of compiled code: cache keys by content, one file per entry, no locks.

An entry's name, its cache key, is the hash of everything that determines its content. So two
processes that write the same entry write the same bytes, and the later rename wins. A file is
written under a temporary name and renamed when complete; a killed process leaves at most a
temporary file, which is removed later. Every entry ends with a checksum, verified when it is read:
a damaged entry counts as missing. If the disk is full or read-only, nothing is stored.

The bytes of a shared library come first in the file, its metadata after them, so that the file
itself can be loaded: loaders ignore what follows a library.

The directory and its sub-directories must belong to the user and not be writable by others, since
their content is executed; otherwise a private directory of this process is used, or an entry is not
kept. Only regular files count as entries.

**Size.** The entries take at most ``TILELANG_CACHE_SIZE`` MiB; the least recently used ones are
removed first. The time of last use is the file's modification time, updated when it is more than an
hour old. To add up the sizes of thousands of files for every new entry would be slow. A writer does
so with a probability that grows with the size of its entry: on average once for each sixteenth of
the bound.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import stat
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilelang.env import env
from tilelang.records import dataclass
from tilelang.runtime.library import write_all
from tilelang.scratch import ScratchFolder
from tilelang.warning import warn_caller

_SUFFIX = ".tl.so"
_MAGIC = b"tilelang"
_NOT_OURS = "belongs to, or can be written by, somebody else"
_TAIL = struct.Struct("<32sQQ8s")  # checksum, bytes of data, bytes of metadata, magic
_STALE = 3600.0  # seconds after which a temporary file cannot be in use any more
_SAME_USE = 3600.0  # seconds in which uses of an entry count as one
_CHECKS = 16  # checks of the total size while as many bytes as the bound are written
_LOW_WATER = 0.9  # share of the bound that is left when entries are removed


def content_key(*parts: str | bytes) -> str:
    """Hash over ``parts``; their boundaries count."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


@dataclass(frozen=True)
class Entry:
    """Data with metadata that JSON can hold; ``path`` is the file that starts with the data."""

    data: bytes
    meta: dict[str, Any] = field(default_factory=dict)
    path: Path | None = None


class DiskCache:
    """Entries in one directory; none with ``root=None``.

    Safe to use from several threads and processes and after ``fork``: its only state is the
    directory.

    Args:
        root: the directory.
        limit: bytes that the entries take together at most; 0 for any number.
    """

    def __init__(self, root: Path | None, limit: int = 0) -> None:
        self.root = root
        self.limit = limit

    def path_of(self, key: str) -> Path | None:
        """The file that holds, or would hold, an entry."""
        return None if self.root is None else self.root / key[:2] / f"{key}{_SUFFIX}"

    def get(self, key: str) -> Entry | None:
        """The entry, or None when there is none, or it is damaged or belongs to another user."""
        path = self.path_of(key)
        if path is None or not _is_own_folder(path.parent):
            return None
        try:
            content = _read_own(path)
        except OSError:
            return None
        entry = _unpack(key, content)
        return None if entry is None else replace(entry, path=path)

    def put(self, key: str, entry: Entry) -> Entry:
        """Keep an entry; returns it with its file, or without one if it cannot be written."""
        path = self.path_of(key)
        if path is None:
            return entry
        temporary = path.with_name(f".{key[:16]}.{os.getpid()}.{os.urandom(6).hex()}.tmp")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_own_folder(path.parent):
                raise PermissionError(0, f"{path.parent.name} {_NOT_OURS}")
            _remove_stale(path.parent)
            content = _pack(key, entry)
            self._write(temporary, content)
            os.replace(temporary, path)
        except OSError as error:
            _unlink(temporary)
            _warn_once(f"nothing is kept in the kernel cache {self.root}: {error.strerror}")
            return entry
        if self.limit and random.random() * self.limit < len(content) * _CHECKS:
            self.shrink(keep=path)
        return replace(entry, path=path)

    def shrink(self, keep: Path | None = None) -> int:
        """If the entries exceed the bound, remove the least recently used ones until the others
        take at most nine tenths of it.

        Args:
            keep: an entry that stays.

        Returns:
            How many were removed.
        """
        files = []
        for path in self._files():
            try:
                state = path.lstat()
            except OSError:  # somebody else has removed it
                continue
            files.append((state.st_mtime, state.st_size, path))
        total, count = sum(size for _, size, _ in files), 0
        if not self.limit or total <= self.limit:
            return 0
        for _, size, path in sorted(files, key=lambda file: file[0]):
            if total <= self.limit * _LOW_WATER:
                break
            if path != keep and path.name.endswith(_SUFFIX):
                _unlink(path)
                total -= size
                count += 1
        return count

    def fetch(self, key: str, build: Callable[[], Entry]) -> Entry:
        """The entry, built and kept when there is none."""
        entry = self.get(key)
        return self.put(key, build()) if entry is None else entry

    def get_text(self, key: str) -> str | None:
        """A text kept by :meth:`put_text`."""
        entry = self.get(key)
        return None if entry is None else entry.data.decode("utf-8", "replace")

    def put_text(self, key: str, text: str) -> None:
        """Keep a short text under a key of 64 hexadecimal digits."""
        self.put(key, Entry(text.encode(), {"kind": "text"}))

    def clear(self) -> int:
        """Remove all entries, and return how many; other files stay."""
        count = 0
        for path in self._files():
            count += path.name.endswith(_SUFFIX)
            _unlink(path)
        return count

    def usage(self) -> tuple[int, int]:
        """The number of entries, and their bytes."""
        count = size = 0
        for path in self._files():
            with contextlib.suppress(OSError):  # somebody else has removed it
                size += path.lstat().st_size
                count += path.name.endswith(_SUFFIX)
        return count, size

    def __len__(self) -> int:
        return sum(path.name.endswith(_SUFFIX) for path in self._files())

    def __bool__(self) -> bool:
        return self.root is not None

    def _files(self) -> Iterator[Path]:
        for folder in () if self.root is None else self.root.glob("[0-9a-f][0-9a-f]"):
            if _is_own_folder(folder):
                yield from folder.glob(f"*{_SUFFIX}")
                yield from folder.glob(".*.tmp")

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            write_all(descriptor, content)
        finally:
            os.close(descriptor)

    def __repr__(self) -> str:
        return f"DiskCache({str(self.root)!r})"


def _pack(key: str, entry: Entry) -> bytes:
    meta = json.dumps(entry.meta, sort_keys=True).encode()
    check = hashlib.sha256(key.encode() + entry.data + meta).digest()
    return entry.data + meta + _TAIL.pack(check, len(entry.data), len(meta), _MAGIC)


def _unpack(key: str, content: bytes) -> Entry | None:
    if len(content) < _TAIL.size:
        return None
    check, size, extra, magic = _TAIL.unpack_from(content, len(content) - _TAIL.size)
    if magic != _MAGIC or size + extra + _TAIL.size != len(content):
        return None
    body = content[: size + extra]
    if hashlib.sha256(key.encode() + body).digest() != check:
        return None
    return Entry(body[:size], json.loads(body[size:]))


def _unlink(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        return


def _remove_stale(folder: Path) -> None:
    """Remove the temporary files of killed processes."""
    for path in folder.glob(".*.tmp"):
        try:
            if time.time() - path.lstat().st_mtime > _STALE:
                path.unlink()
        except OSError:
            continue


def _read_own(path: Path) -> bytes:
    """The content of a regular file that the user owns; updates its time of last use.

    Raises:
        OSError: it is something else, e.g. a link, or a pipe, on which a read would block.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb") as stream:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode) or not _is_ours(state):
            raise PermissionError(0, _NOT_OURS)
        content = stream.read()
    if time.time() - state.st_mtime > _SAME_USE:
        with contextlib.suppress(OSError):  # a directory that can only be read
            os.utime(path)
    return content


def _is_own_folder(path: Path) -> bool:
    """Whether ``path`` is a directory, no link, that the user owns and no other user can write."""
    try:
        state = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(state.st_mode) and _is_ours(state)


def _is_ours(status: os.stat_result) -> bool:
    """Whether the user owns a file or directory and no other user can write it."""
    if not hasattr(os, "getuid"):
        return True
    return status.st_uid == os.getuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


@lru_cache(maxsize=64)
def _warn_once(message: str) -> None:
    warn_caller(message)


def default_cache() -> DiskCache:
    """The cache in ``TILELANG_CACHE_DIR``; one that keeps nothing when caching is disabled."""
    if not env.is_cache_enabled():
        return _NO_CACHE
    limit = env.TILELANG_CACHE_SIZE << 20
    return _open(Path(env.TILELANG_CACHE_DIR), bool(env.TILELANG_CLEAR_CACHE), limit)


_NO_CACHE = DiskCache(None)


@lru_cache(maxsize=16)
def _open(root: Path, clear: bool, limit: int) -> DiskCache:
    cache = DiskCache(usable_directory(root), limit)
    if clear:
        cache.clear()
    return cache


def usable_directory(root: Path) -> Path | None:
    """``root``, made if need be, when its content can be trusted; else a private directory.

    None when there is no directory at all that can be written.
    """
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_ours(root.stat()):
            return root
        reason = f"it {_NOT_OURS}"
    except OSError as error:
        reason = error.strerror or str(error)
    _warn_once(f"the kernel cache {root} is not used: {reason}")
    return _private_directory()


@lru_cache(maxsize=1)
def _private_directory() -> Path | None:
    import atexit

    try:
        folder = ScratchFolder(prefix="tilelang-cache-")
    except OSError:
        return None
    owner = os.getpid()

    def remove() -> None:
        if os.getpid() == owner:  # a forked child must leave it to its parent
            folder.close()

    atexit.register(remove)
    return folder.path


def clear_cache() -> None:
    """Remove all compiled kernels from the disk cache."""
    default_cache().clear()
