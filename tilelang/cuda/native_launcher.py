"""The C launcher's extension, built beside the passes and the CUDA compiler.

It is compiled once for a machine and a Python version, by a C compiler that has to be found and
tried first. That is the work of other processes, a third of a second, so a thread that waits for
them costs the passes nothing. A kernel that is compiled sooner does not wait either: its first
calls go through Python.
"""

from __future__ import annotations

import os
from concurrent.futures import Future
from functools import lru_cache

from tilelang.cpu.toolchain import Compiler, PlainCompiler
from tilelang.env import env
from tilelang.hostcc import find
from tilelang.runtime.cache import DiskCache
from tilelang.runtime.native import launcher_class

SOON = 0.02  # seconds; an extension that is in the cache is loaded within some milliseconds


def launcher_ahead(cache: DiskCache) -> None:
    """Begin to build the extension, unless that has begun."""
    _begun(cache, env.get("CC"), env.get("PATH"), os.getpid())


def launcher_compiler(cache: DiskCache) -> Compiler | None:
    """The compiler of the extension, which is built when this returns; None where there is none."""
    return _begun(cache, env.get("CC"), env.get("PATH"), os.getpid()).result()


def is_launcher_built(cache: DiskCache, patience: float = 0.0) -> bool:
    """Whether `launcher_compiler` answers at once, ``patience`` seconds from now at the latest."""
    from concurrent.futures import wait

    begun = _begun(cache, env.get("CC"), env.get("PATH"), os.getpid())
    return begun.done() or bool(patience and wait([begun], patience).done)


def _built(cache: DiskCache) -> Compiler | None:
    compiler = find(PlainCompiler, cache)
    if compiler is not None:
        launcher_class(compiler, cache)
    return compiler


# The process is part of the key: a child has no thread that would finish its parent's work.
@lru_cache(maxsize=4)
def _begun(
    cache: DiskCache, named: str | None, path: str | None, process: int
) -> Future[Compiler | None]:
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(1, "tilelang-launcher")
    try:
        return pool.submit(_built, cache)
    except RuntimeError:  # no more threads, or the interpreter is about to end
        future: Future[Compiler | None] = Future()
        future.set_result(_built(cache))
        return future
    finally:
        pool.shutdown(wait=False)
