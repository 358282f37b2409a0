"""Tensors whose elements share memory, as those of expanded ones do."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

_MOST = 1 << 24  # elements whose places are compared one by one


def shared_element(
    shape: Sequence[int], strides: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Indices of two elements at one place; None where there are none, or, of more than 2**24
    elements in strides that are no nest, where none were looked for."""
    if not _may_share(shape, strides):
        return None
    size = int(np.prod(shape, dtype=np.int64))
    for number, (extent, stride) in enumerate(zip(shape, strides)):
        if extent > 1 and stride == 0:
            first = (0,) * len(shape)
            return first, tuple(int(at == number) for at in range(len(shape)))
    if size > _MOST:
        return None
    places = np.zeros(tuple(shape), np.int64)
    for number, (extent, stride) in enumerate(zip(shape, strides)):
        form = [1] * len(shape)
        form[number] = extent
        places = places + (np.arange(extent) * stride).reshape(form)
    flat = places.reshape(-1)
    order = np.argsort(flat, kind="stable")
    twice = np.flatnonzero(flat[order][1:] == flat[order][:-1])
    if not twice.size:
        return None
    pair = order[twice[0] : twice[0] + 2]
    first, second = (tuple(int(n) for n in np.unravel_index(at, tuple(shape))) for at in pair)
    return first, second


def _may_share(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """False where each stride steps over all that smaller ones reach."""
    if 0 in shape:
        return False
    steps = sorted(
        (abs(stride), extent - 1) for extent, stride in zip(shape, strides) if extent > 1
    )
    reached = itertools.accumulate(stride * last for stride, last in steps)
    return any(stride <= before for (stride, _), before in zip(steps, (0, *reached)))
