"""Unroll stencils: each element computes all taps of its window at once.

A convolution of each channel with weights of its own, a pooling or a stencil is a loop over taps
around loops over a tile: ``for r, s: for i, j: c[i, j] += x[i + r, j + s] * w[r, s]``. The tile is
then loaded and stored for every tap. With the loops interchanged and the taps written out, an
element takes one tap after the other while it is in a register, and what sets it before and copies
it afterwards runs in the same loop. An element goes through the same operations in the same order,
so results do not change.

That pays where windows overlap, or touch each other in the tile: the taps are then in the same
lines of memory. Rows of a matrix, which are summed in a loop of the same form, are far apart, and
``unroll_and_jam`` takes some of them at a time. Relies on tile operations being loops over
elements, each of which a store sets; what a loop reads besides its own element, no iteration of
it writes.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.linear import parted
from tilelang.ir.visitor import rewrite_blocks, rewrite_launches, substitute_in
from tilelang.target import Context
from tilelang.transforms.analysis.dependence import facts_of, uses_only
from tilelang.transforms.analysis.loops import trip_count
from tilelang.transforms.notes import with_lines

MOST = 64  # taps of a window


def unroll_stencils(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with loops over taps inside those over elements, written out."""
    views = {node.buffer.data for node in S.walk(func.body) if isinstance(node, S.View)}

    def unrolled(launch: S.Launch) -> S.Stmt:
        lines: list[str] = []

        def visit(stmt: S.Stmt) -> S.Stmt:
            unrolled = _interchanged(stmt, views) if isinstance(stmt, S.For) else None
            if unrolled is None:
                return rewrite_blocks(stmt, visit)
            if stmt.loc is not None:
                lines.append(f"line {stmt.loc.line} runs in the loop over elements, tap after tap")
            return unrolled

        body = visit(launch.body)
        return launch if body is launch.body else with_lines(replace(launch, body=body), (*lines,))

    return rewrite_launches(func, unrolled)


def _interchanged(outer: S.For, views: set[E.Var]) -> S.Stmt | None:
    """The loops over elements around all taps, if ``outer`` is one over taps around them."""
    taps, nest = _nest(outer, set())
    elements, store = _nest(nest, {"parallel"})
    steps = {loop.var: trip_count(loop) or 0 for loop in taps}
    if not isinstance(store, S.Store) or not 1 < prod(steps.values()) <= MOST:
        return None
    element_vars = frozenset(loop.var for loop in elements)
    if (
        store.buffer.data in views
        or not facts_of(store).quiet
        or not _is_elementwise(store, element_vars, steps)
    ):
        return None
    bounds = [bound for loop in elements for bound in (loop.start, loop.stop)]
    if any(
        E.holds(bound, E.Load) or not steps.keys().isdisjoint(bound.variables) for bound in bounds
    ):
        return None
    loads = list(E.find(store.value, E.Load))
    if not all(any(_overlap(load, element_vars, steps, tap) for load in loads) for tap in steps):
        return None
    written = []
    for offsets in product(*(range(steps[loop.var]) for loop in taps)):
        tap_values = {loop.var: loop.start + offset for loop, offset in zip(taps, offsets)}
        written.append(substitute_in(store, tap_values))
    unrolled = S.seq(*written)
    for loop in reversed(elements):
        unrolled = replace(loop, body=unrolled)
    return unrolled


def _nest(stmt: S.Stmt, notes: set[str]) -> tuple[list[S.For], S.Stmt]:
    """The loops at the top of ``stmt`` that take steps of one and have these annotations, and what
    is in them."""
    loops: list[S.For] = []
    while isinstance(stmt, S.For) and dict(stmt.annotations).keys() == notes:
        steps_by_one = isinstance(stmt.step, E.Const) and stmt.step.value == 1
        if not steps_by_one or stmt.kind not in ("serial", "unroll"):
            break
        loops.append(stmt)
        stmt = stmt.body
    return loops, stmt


def _is_elementwise(
    store: S.Store, element_vars: frozenset[E.Var], steps: dict[E.Var, int]
) -> bool:
    """Whether each iteration sets an element of a tile that no other one uses."""
    buffer = store.buffer
    if buffer.storage == "global" or buffer.is_var or buffer.dtype.bits < 8:
        return False
    moving = {var for index in store.indices for var in index.variables}
    if not element_vars or not element_vars.issubset(store.indices) or not moving.isdisjoint(steps):
        return False
    return uses_only(store, store.value) and buffer.data in effects.used(store.value)


def _overlap(
    load: E.Load, element_vars: frozenset[E.Var], steps: dict[E.Var, int], tap: E.Var
) -> bool:
    """Whether the windows of neighbours overlap along ``tap``, or touch each other in the tile."""
    for index in load.indices:
        form = parted(index, frozenset(index.variables))
        if form is None or not form[0].factor(tap):
            continue
        reach = abs(form[0].factor(tap)) * steps[tap]
        for var in index.variables - steps.keys():
            stride = abs(form[0].factor(var))
            if 0 < stride < reach + (var in element_vars):
                return True
    return False
