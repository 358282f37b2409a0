"""Sources of random choices: hypothesis (which shrinks) or a seed (which is fast)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from hypothesis import strategies as st

Item = TypeVar("Item")


class Draw(Protocol):
    """Where a generator takes its choices from. The first item is the simplest one."""

    def integer(self, low: int, high: int) -> int:
        """A number in ``low..high``."""

    def choice(self, items: Sequence[Item]) -> Item:
        """One of ``items``."""

    def chance(self, probability: float) -> bool:
        """True with ``probability``."""


class SeededDraw:
    """Choices of ``random.Random(seed)``."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def choice(self, items: Sequence[Item]) -> Item:
        return items[self._random.randrange(len(items))]

    def chance(self, probability: float) -> bool:
        return self._random.random() < probability


class HypothesisDraw:
    """Choices made by hypothesis, which can replay and shrink them."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        return int(self._draw(st.integers(low, high)))

    def choice(self, items: Sequence[Item]) -> Item:
        return items[self._draw(st.integers(0, len(items) - 1))]

    def chance(self, probability: float) -> bool:
        return bool(self._draw(st.integers(0, 99)) >= 100 - round(probability * 100))
