"""Garbage collection while nodes are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Garbage is collected afterwards: nodes have no cycles and go when nothing names them, but
    tracing and passes make so many that the collector would look through all of the process for
    others, which takes as long as several passes."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
