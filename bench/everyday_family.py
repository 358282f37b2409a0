"""Families of everyday kernels: the same program at the sizes that are timed and at a small one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Program:
    """One kernel.

    Attributes:
        build: gives the traced function; its last parameter is the result.
        inputs: of functions that make tensors (``normal(*shape, dtype=, scale=)`` and
            ``integers(high, *shape)``), gives the tensors that the kernel reads.
        reference: the same by torch.
        operations: additions and multiplications of products; 0 where memory bounds the kernel.
        tolerance: of the largest element.
    """

    build: Callable[[], Any]
    inputs: Callable[[Callable[..., Any], Callable[..., Any]], list[Any]]
    reference: Callable[..., Any]
    operations: int = 0
    tolerance: float = 2e-2


PROGRAMS: dict[str, Program] = {}  # at the sizes that are timed
SMALL: dict[str, Program] = {}  # one of each family, for the interpreter and the emulator


def family(
    *timed: tuple[Any, ...], small: tuple[Any, ...]
) -> Callable[[Callable[..., Program]], Callable[..., Program]]:
    """Enter a program for each tuple of sizes in ``timed``, and the one of sizes ``small``."""

    def enter(make: Callable[..., Program]) -> Callable[..., Program]:
        for sizes in timed:
            PROGRAMS["_".join((make.__name__, *map(_text, sizes)))] = make(*sizes)
        SMALL[make.__name__] = make(*small)
        return make

    return enter


def _text(size: Any) -> str:
    return "x".join(map(str, size)) if isinstance(size, tuple) else str(size)
