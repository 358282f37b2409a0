"""Temporary folders for compilers, which go away also when the process that made them is killed.

A folder holds a file that its process keeps locked. Before a process makes its first folder
somewhere, it removes those of the user whose lock no process holds any more; what has no such file
was made by somebody else, whatever its name, and stays. Locks, unlike numbers of processes, mean
the same in all containers that share a folder, and the system gives them back.
"""

from __future__ import annotations

import contextlib
import logging
import os
import stat
import time
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from tilelang.env import env

PREFIX = "tilelang-"
_LOCK = ".tilelang-lock"
_STALE = 3600.0  # seconds; a younger folder may be about to be locked
_log = logging.getLogger("tilelang")


class ScratchFolder:
    """A new folder, removed by :meth:`close` or at the end of a ``with`` statement.

    Args:
        parent: where to make it; the first of ``env.scratch_directories()`` when left out.
        prefix: start of its name, which begins with ``PREFIX``.

    Raises:
        OSError: it cannot be made there.
    """

    def __init__(self, parent: str | None = None, prefix: str = PREFIX) -> None:
        import tempfile

        folder = parent or next(env.scratch_directories(), None)
        if folder is not None:
            remove_left_over(folder)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=folder))
        self._lock = _locked(self.path / _LOCK)

    def close(self) -> None:
        """Remove the folder with all that is in it."""
        import shutil

        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.close()


def scratch_folders() -> Iterator[Path]:
    """New folders, best place first, each removed when the next is asked for."""
    for parent in env.scratch_directories():
        try:
            folder = ScratchFolder(parent)
        except OSError as error:
            _log.info("cannot compile in %s: %s", parent, error)
            continue
        with folder as path:
            yield path


def _locked(file: Path) -> int | None:
    """A descriptor that holds the lock of ``file``; None where there are no locks, or somebody
    else holds it."""
    try:
        import fcntl
    except ImportError:  # no POSIX system
        return None
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


@lru_cache(maxsize=16)
def remove_left_over(parent: str) -> None:
    """Remove the folders that killed processes of this user left in ``parent``; once for each
    process."""
    if not hasattr(os, "getuid"):
        return
    try:
        entries = [entry for entry in os.scandir(parent) if entry.name.startswith(PREFIX)]
    except OSError:
        return
    for entry in entries:
        with contextlib.suppress(OSError):  # others remove it at the same time
            state = entry.stat(follow_symlinks=False)
            old = time.time() - state.st_mtime > _STALE
            if old and state.st_uid == os.getuid() and stat.S_ISDIR(state.st_mode):
                _remove(Path(entry.path))


def _remove(path: Path) -> None:
    """Remove a folder that was marked as ours, unless its process lives.

    Raises:
        OSError: it is not marked.
    """
    import shutil

    state = (path / _LOCK).lstat()
    if not stat.S_ISREG(state.st_mode) or state.st_size:  # the mark is an empty file
        return
    lock = _locked(path / _LOCK)
    if lock is not None:
        shutil.rmtree(path, ignore_errors=True)
        os.close(lock)
