"""Generated source from the disk cache, so that a known program runs no pass.

The key is the traced program (with every name and source location, since the text and the messages
mention them), the target, the options, and the source files of this package by size and time.
Entries are pickled: the contents of the cache are executed anyway, and are read only from a
directory that other users cannot write.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from tilelang.codegen.artifact import Artifact
from tilelang.errors import InternalError
from tilelang.ir import stmt as S
from tilelang.ir.canonical import exact_text
from tilelang.options import Options
from tilelang.runtime.cache import DiskCache, Entry, content_key
from tilelang.target import Target
from tilelang.watch import is_watched

_SUFFIXES = (".py", ".h")


def artifact_of(
    func: S.PrimFunc, target: Target, options: Options, cache: DiskCache,
    missed: Callable[[], None] | None = None,
) -> Artifact:  # fmt: skip
    """``func`` compiled to text for ``target``, from ``cache`` where it is known there.

    Args:
        func: the program.
        target: what it is compiled for.
        options: of the compilation.
        cache: where text is kept.
        missed: called before a program that the cache does not hold is compiled.

    Raises:
        TileError: the program cannot be compiled for the target.
    """
    key = _key(func, target, options) if cache else None
    if key is not None:
        entry = cache.get(key)
        if entry is not None:
            artifact = pickle.loads(entry.data)
            if isinstance(artifact, Artifact):
                return artifact
    if missed is not None:
        missed()
    from tilelang.compiler import compile

    compiled = compile(func, target, options)
    if key is not None:
        cache.put(key, Entry(pickle.dumps(compiled), {"kind": "artifact"}))
    return compiled


def _key(func: S.PrimFunc, target: Target, options: Options) -> str | None:
    """Name of the entry; None for programs that are compiled every time."""
    if is_watched(options):
        return None  # the passes are to be watched
    for node in S.find(func.body, S.Launch):
        if node.hints.cuda_source is not None:
            return None  # it may be read from a file
    try:
        text = exact_text(func)
    except InternalError:  # an attribute without a canonical form
        return None
    return content_key("artifact", text, repr(target), repr(options), package_identity())


@lru_cache(maxsize=1)
def package_identity() -> str:
    """Text that differs when this package may generate other text."""
    root = Path(__file__).resolve().parent.parent
    stamps: list[str] = []
    for folder, _, files in os.walk(root):
        for name in files:
            if name.endswith(_SUFFIXES):
                path = os.path.join(folder, name)
                stamp = os.stat(path)
                stamps.append(f"{path} {stamp.st_size} {stamp.st_mtime_ns}")
    return "\n".join(sorted(stamps))
