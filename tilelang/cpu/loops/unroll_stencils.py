"""Unroll stencils: each element computes all taps of its window at once.

A depthwise convolution, a pooling or a stencil is a loop over taps around loops over a tile:
``for r, s: for i, j: c[i, j] += x[i + r, j + s] * w[r, s]``. The tile is then loaded and stored for
every tap. With the loops interchanged and the taps unrolled, an element stays in a register for all
taps, and the loops that initialize and copy the tile can be fused with this one. The operations of
each element keep their order, so results do not change.

This pays where windows overlap or are adjacent, so that the taps are in the same cache lines. A sum
over the rows of a matrix has the same form, but its rows are far apart:
:mod:`~tilelang.cpu.loops.unroll_and_jam` handles it. Runs after tile operations have become loops
over elements. No iteration may write what another one reads.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

from tilelang.cpu.loops.nests import peel
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.linear import parted
from tilelang.ir.visitor import substitute_in
from tilelang.transforms.analysis.dependence import Memory
from tilelang.transforms.analysis.loops import steps_by_one, trip_count

MOST = 64  # taps of a window


def unrolled_stencil(outer: S.For, memory: Memory) -> S.Stmt | None:
    """The loops over elements around all taps, written out, if ``outer`` is one over taps around
    them."""
    taps, nest = peel(outer, lambda loop: _counts(loop) and not loop.hints)
    elements, store = peel(
        nest, lambda loop: _counts(loop) and bool(loop.hints) and loop.hints.has_only("parallel")
    )
    steps = {loop.var: trip_count(loop) or 0 for loop in taps}
    if not isinstance(store, S.Store) or not 1 < prod(steps.values()) <= MOST:
        return None
    element_vars = frozenset(loop.var for loop in elements)
    if not memory.facts(store).quiet or not memory.uses_only(store, store):
        return None
    if not _is_elementwise(store, element_vars, steps):
        return None
    bounds = [bound for loop in elements for bound in (loop.start, loop.stop)]
    if any(
        E.holds(bound, E.Load) or not steps.keys().isdisjoint(bound.variables) for bound in bounds
    ):
        return None
    loads = list(E.find(store.value, E.Load))
    if not all(any(_overlaps(load, element_vars, steps, tap) for load in loads) for tap in steps):
        return None
    written = []
    for offsets in product(*(range(steps[loop.var]) for loop in taps)):
        tap_values = {loop.var: loop.start + offset for loop, offset in zip(taps, offsets)}
        written.append(substitute_in(store, tap_values))
    unrolled = S.seq(*written)
    for loop in reversed(elements):
        unrolled = replace(loop, body=unrolled)
    return unrolled


def _counts(loop: S.For) -> bool:
    return steps_by_one(loop) and loop.kind in ("serial", "unroll")


def _is_elementwise(
    store: S.Store, element_vars: frozenset[E.Var], steps: dict[E.Var, int]
) -> bool:
    """Whether each iteration updates an element of a tile, and another one than the others."""
    buffer = store.buffer
    if buffer.storage == "global" or buffer.is_var or buffer.dtype.bits < 8:
        return False
    moving = {var for index in store.indices for var in index.variables}
    if not element_vars or not element_vars.issubset(store.indices) or not moving.isdisjoint(steps):
        return False
    return buffer.data in effects.used(store.value)


def _overlaps(
    load: E.Load, element_vars: frozenset[E.Var], steps: dict[E.Var, int], tap: E.Var
) -> bool:
    """Whether the windows of neighbours overlap along ``tap``, or touch each other in the tile."""
    for index in load.indices:
        form = parted(index, frozenset(index.variables))
        if form is None or not form[0].factor(tap):
            continue
        reach = abs(form[0].factor(tap)) * steps[tap]
        for var in index.variables - steps.keys():
            if 0 < abs(form[0].factor(var)) < reach + (var in element_vars):
                return True
    return False
