"""Waves of shared memory: what the hardware's rules give for known patterns."""

from __future__ import annotations

import numpy as np
import pytest

from tilelang.explain.banks import Waves, wavefronts
from tilelang.target import Limits

LANES = np.arange(32)


@pytest.mark.parametrize(
    ("addresses", "size", "expected"),
    [
        (LANES * 4, 4, Waves(1, 1)),
        (LANES * 0, 4, Waves(1, 1)),  # one word for all
        (LANES * 8, 4, Waves(2, 1)),
        (LANES * 128, 4, Waves(32, 1)),
        (LANES * 132, 4, Waves(1, 1)),  # padded rows
        (LANES * 2, 2, Waves(1, 1)),
        (LANES * 16, 16, Waves(4, 4)),
        (LANES * 8, 8, Waves(2, 2)),
        (LANES * 128, 16, Waves(32, 4)),
        (LANES[:8] * 16, 16, Waves(1, 1)),  # one matrix of ldmatrix
        (LANES[:0], 4, Waves(0, 0)),
    ],
)
def test_waves(addresses: np.ndarray, size: int, expected: Waves) -> None:
    assert wavefronts(addresses, size, Limits()) == expected
