"""Loop nests: parallel and vectorized loops around or inside the body of a parallel loop.

A vectorized loop around the whole body becomes one more dimension of the nest if its iterations
touch different elements. So layout inference distributes its lanes, too.

The outer parallel loop is distributed over the threads. An inner parallel loop that is not
perfectly nested becomes serial: the thread that runs the outer iteration runs all of its
iterations. Layouts are then inferred for the outer loop as a whole.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.visitor import map_stmts
from tilelang.transforms.analysis.dependence import have_own_elements
from tilelang.transforms.analysis.loops import values_of


def serial_inside(stmt: S.Stmt) -> S.Stmt:
    """``stmt`` with the parallel loops inside parallel loops serial, and with vectorized ones
    around whole bodies part of the nest."""

    def outer(loop: S.Parallel) -> S.Stmt:
        body = map_stmts(loop.body, S.Parallel, _serial)
        return _collapsed(loop if body is loop.body else replace(loop, body=body))

    return map_stmts(stmt, S.Parallel, outer)


def _serial(loop: S.Parallel) -> S.Stmt:
    extents = [E.cast(n, var.dtype) for var, n in zip(loop.vars, loop.extents, strict=True)]
    return S.nested(loop.vars, extents, loop.body, loc=loop.loc)


def _collapsed(loop: S.Parallel) -> S.Parallel:
    """``loop`` with a vectorized loop that is all of its body as its last dimension."""
    lanes = loop.body
    if not isinstance(lanes, S.For) or lanes.kind != "vectorized" or loop.loop_layout is not None:
        return loop
    values = values_of(lanes)
    if not values or values != range(len(values)):
        return loop
    if not have_own_elements(lanes.body, {lanes.var: len(values)}, {}):
        return loop
    extents = (*loop.extents, E.const(len(values), lanes.var.dtype))
    return replace(loop, vars=(*loop.vars, lanes.var), extents=extents, body=lanes.body)
