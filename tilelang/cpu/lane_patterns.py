"""Lane patterns: the lanes of a vector for indices with quotients, remainders and masks of the loop
variable.

Vectors begin at multiples of their length. So ``x[i ^ 1]`` is a vector with swapped neighbours,
``x[i // 2]`` is half a vector with every element twice, and ``i % 2 == 0`` is a constant mask. A
pattern describes a group of a few lanes. It repeats in every group, so it holds for vectors of
every length.
"""

from __future__ import annotations

import operator
from typing import NamedTuple

from tilelang.ir import expr as E
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer
from tilelang.ir.simplify import simplify
from tilelang.transforms.analysis.lanes import Lanes

GROUP = 4  # lanes, or all of the shortest vector


class Pattern(NamedTuple):
    """The positions of the lanes of a group: ``offsets`` from its lowest element, which is ``low``
    from the element of the first lane, and ``step`` from the one of the group before."""

    low: int
    offsets: tuple[int, ...]
    step: int

    def covers(self, on: tuple[bool, ...]) -> bool:
        """Whether the lanes that are ``on`` ask for all elements of the group."""
        return {offset for offset, is_on in zip(self.offsets, on) if is_on} == set(self.offsets)

    def load(self, family: str, kind: str, address: str, bits: int) -> str:
        """C source that loads the lanes, from the lowest element at ``address`` on; "" if the
        pattern has no shuffle."""
        size = len(self.offsets)
        if 2 * self.step == size and self.offsets == tuple(k // 2 for k in range(size)):
            return f"TL_LOAD_TWICE({kind}, {address}, {bits}, {2 * bits})" if bits < 64 else ""
        if self.step != size or sorted(self.offsets) != list(range(size)):
            return ""
        order = sum(offset << 2 * k for k, offset in enumerate(self.offsets))
        types = f"{family}, {kind}, tl_{family}_i{bits}"
        return f"TL_LOAD_SWAPPED({types}, {address}, {size}, {order})"


class LanePatterns:
    """Patterns of the vectors of ``var`` with ``fewest`` to ``most`` lanes. A vector of fewer lanes
    is a part of one of the most."""

    def __init__(self, var: E.Var, fewest: int, limit: int) -> None:
        self.lanes = Lanes(var, limit, Bounds())
        self.group = min(GROUP, fewest)
        self.all = (True,) * self.group

    def element(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> Pattern | None:
        """The pattern of elements of ``buffer``; None where they have none."""
        addresses, size = [0] * self.lanes.count, self.group
        for index, stride in zip(indices, buffer.stride_list()):
            offsets = self.lanes.offsets(index)
            if offsets is None or (any(offsets) and not isinstance(stride, int)):
                return None
            if isinstance(stride, int):
                addresses = [at + each * stride for at, each in zip(addresses, offsets)]
        step, low = addresses[size] - addresses[0], min(addresses[:size])
        if any(at != addresses[k % size] + k // size * step for k, at in enumerate(addresses)):
            return None
        return Pattern(low, tuple(at - low for at in addresses[:size]), step)

    def holds(self, cond: E.Binary) -> tuple[bool, ...] | None:
        """In which lanes of a group a comparison of integers holds, if it is the same in all."""
        gap, size = cond.a - cond.b, self.group
        first, offsets = simplify(self.lanes.first(gap)), self.lanes.offsets(gap)
        if offsets is None or not isinstance(first, E.Const):
            return None
        is_on = tuple(getattr(operator, cond.op)(int(first) + each, 0) for each in offsets)
        return is_on[:size] if is_on == is_on[:size] * (self.lanes.count // size) else None
