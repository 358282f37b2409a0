"""Inputs that a program supplies for tuning around a call."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

_INPUTS: ContextVar[tuple[Any, ...] | None] = ContextVar("autotune_inputs", default=None)


@contextlib.contextmanager
def set_autotune_inputs(*tensors: Any) -> Iterator[None]:
    """Tune with these inputs inside ``with set_autotune_inputs(a, b, c):``.

    Args:
        tensors: what a call of the kernel passes, in order, or one list of it.
    """
    nested = len(tensors) == 1 and isinstance(tensors[0], (list, tuple))
    token = _INPUTS.set(tuple(tensors[0] if nested else tensors))
    try:
        yield
    finally:
        _INPUTS.reset(token)


def get_autotune_inputs() -> tuple[Any, ...] | None:
    """Return the inputs of the innermost :func:`set_autotune_inputs` around; None outside."""
    return _INPUTS.get()
