"""Tensors with elements that share memory, e.g. expanded ones."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

_MAX_COMPARED = 1 << 24  # elements whose offsets are compared one by one


def shared_element(
    shape: Sequence[int], strides: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Indices of two elements at one address; None if there are none. Tensors of more than 2**24
    elements are only checked for strides of 0."""
    if not _may_share(shape, strides):
        return None
    size = int(np.prod(shape, dtype=np.int64))
    for number, (extent, stride) in enumerate(zip(shape, strides)):
        if extent > 1 and stride == 0:
            first = (0,) * len(shape)
            return first, tuple(int(at == number) for at in range(len(shape)))
    if size > _MAX_COMPARED:
        return None
    steps = zip(np.indices(tuple(shape), sparse=True), strides)
    flat = sum((at * stride for at, stride in steps), np.zeros(shape, np.int64)).reshape(-1)
    order = np.argsort(flat, kind="stable")
    twice = np.flatnonzero(flat[order][1:] == flat[order][:-1])
    if not twice.size:
        return None
    pair = order[twice[0] : twice[0] + 2]
    first, second = (tuple(int(n) for n in np.unravel_index(at, tuple(shape))) for at in pair)
    return first, second


def _may_share(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """False if each stride is larger than the span of all smaller ones."""
    if 0 in shape:
        return False
    steps = sorted(
        (abs(stride), extent - 1) for extent, stride in zip(shape, strides) if extent > 1
    )
    reached = itertools.accumulate(stride * last for stride, last in steps)
    return any(stride <= before for (stride, _), before in zip(steps, (0, *reached)))
