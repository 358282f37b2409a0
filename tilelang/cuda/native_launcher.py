"""The extension of the C launcher, built in a thread while passes and the CUDA compiler run.

It is compiled once per machine and Python version, by a C compiler that has to be searched and
tested first. Other processes do that in about 0.3 s, so the waiting thread does not slow down the
passes. A kernel that is ready earlier does not wait: the Python launcher runs its first calls.
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
