"""Gathers: parallel loops that fill a tile from global memory at computed indices, as copies.

``k[i, d] = KV[I[t, i], d]`` is not a box of a tensor, but asynchronous copies of its rows can run
ahead like the copy of a box. The row indices also come from memory: they are loaded to registers
one iteration before the copy.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer, Shape, is_same_extent, row_major_strides
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.facts import bounds_of
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import inline_lets, rebuild, substitute
from tilelang.records import dataclass
from tilelang.transforms.analysis.lanes import Lanes
from tilelang.transforms.analysis.loops import static_extents
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.analysis.vectors import guarded, run_of

_INT = DType("int32")
_VECTOR_BITS = 32  # the smallest asynchronous copy


def with_gathers(
    prefix: tuple[S.Stmt, ...], stmts: tuple[S.Stmt, ...], launch: S.Launch
) -> tuple[S.Stmt, ...]:
    """``stmts`` with the loops that are gathers as copies; names of ``prefix`` and of ``stmts``
    are replaced by their values."""
    lets: dict[E.Var, E.Expr] = {}
    written, bounds = effects.written(launch.body), bounds_of(launch)
    result: list[S.Stmt] = []
    for stmt in (*prefix, *stmts):
        if isinstance(stmt, S.Let):
            lets[stmt.var] = substitute(stmt.value, lets)
        gather = _gather(stmt, lets, bounds) if isinstance(stmt, S.Parallel) else None
        if gather is not None and written.isdisjoint(effects.used(gather.value)):
            stmt = gather
        result.append(stmt)
    return tuple(result[len(prefix) :])


def _gather(loop: S.Parallel, lets: dict[E.Var, E.Expr], bounds: Bounds) -> S.Gather | None:
    """``loop`` as a gather of a whole tile, None where elements are not whole 32-bit words."""
    stored, extents = _only_store(inline_lets(loop.body, lambda value: True)), static_extents(loop)
    if stored is None or extents is None or loop.loop_layout is not None:
        return None
    tile, shape = stored.buffer, stored.buffer.shape
    sizes = tuple(extent for extent in shape if isinstance(extent, int))
    if len(sizes) < len(shape) or 1 in sizes or prod(sizes) != prod(extents):
        return None
    axes = tuple(E.Var(f"i{dim}", _INT) for dim in range(len(sizes)))
    for var, size in zip(axes, sizes):
        bounds = bounds.with_range(var, 0, size)
    at = _counted_by(axes, sizes, loop, extents, bounds)
    indices = tuple(simplify(substitute(index, at), bounds) for index in stored.indices)
    if not E.are_same_exprs(indices, axes):
        return None
    value = simplify(substitute(substitute(stored.value, at), lets), bounds)
    conds, load = guarded(value)
    if not isinstance(load, E.Load) or load.buffer.storage != "global" or load.dtype != tile.dtype:
        return None
    lanes = max(1, _VECTOR_BITS // load.dtype.bits)
    if run_of(load.buffer, load.indices, axes[-1], bounds) < lanes or not all(
        map(Lanes(axes[-1], lanes, bounds).is_uniform, conds)
    ):
        return None
    src, dst = load.buffer.whole(), tile.whole()
    return S.Gather(src=src, dst=dst, vars=axes, value=value, loc=loop.loc)


def _only_store(body: S.Stmt) -> S.Store | None:
    """The store of one element that ``body`` is, whichever way it takes."""
    match body:
        case S.Seq(stmts=(only,)):
            return _only_store(only)
        case S.Store() if body.buffer.storage in ("shared", "shared.dyn"):
            plain = body.buffer.strides is None and is_same_extent(body.buffer.elem_offset, 0)
            return body if plain else None
        case S.If(orelse=S.Stmt() as other):
            then, orelse = _only_store(body.then), _only_store(other)
            if then is None or orelse is None or then.buffer is not orelse.buffer:
                return None
            if E.are_same_exprs(then.indices, orelse.indices):
                return replace(then, value=E.select(body.cond, then.value, orelse.value))
    return None


def _counted_by(
    axes: tuple[E.Var, ...], sizes: tuple[int, ...], loop: S.Parallel, extents: tuple[int, ...],
    bounds: Bounds,
) -> dict[E.Var, E.Expr]:  # fmt: skip
    """The variables of ``loop`` by the dimensions of a tile that they count in the same order."""
    if extents == sizes:
        return dict(zip(loop.vars, axes))
    number: E.Expr = E.const(0)
    for axis, stride in zip(axes, row_major_strides(sizes)):
        number = number + axis * stride
    steps = zip(loop.vars, extents, row_major_strides(extents))
    return {var: simplify(number // step % extent, bounds) for var, extent, step in steps}


@dataclass(frozen=True)
class Indices:
    """The fragment ``tile`` with the result of ``load`` at each of ``axes``."""

    tile: Buffer
    axes: tuple[E.Var, ...]
    load: E.Load

    def loaded(self, values: dict[E.Var, E.Expr]) -> S.Stmt:
        """The loop that loads them."""
        fresh = tuple(E.Var(axis.name, axis.dtype) for axis in self.axes)
        value = simplify(substitute(self.load, {**values, **dict(zip(self.axes, fresh))}))
        store = S.Store(buffer=self.tile, indices=fresh, value=value)
        return S.Parallel(vars=fresh, extents=tuple(map(E.as_expr, self.tile.shape)), body=store)


def with_registers(copy: S.TileCopy, var: E.Var, loads: list[Indices]) -> S.TileCopy:
    """``copy`` with registers, which it adds to ``loads``, instead of the loads of its row indices
    in each iteration of the loop over ``var``."""
    if not isinstance(copy, S.Gather):
        return copy
    sizes, (_, row) = dict(zip(copy.vars, copy.dst.extents)), guarded(copy.value)

    def registers(expr: E.Expr) -> E.Expr:
        if not isinstance(expr, E.Load) or expr is row or var not in expr.variables:
            return rebuild(expr, registers)
        used = tuple(axis for axis in copy.vars if axis in expr.variables)
        if not used or used[-1] is copy.vars[-1]:
            return expr
        known = next((indices for indices in loads if indices.load is expr), None)
        if known is None:
            shape = Shape(tuple(sizes[axis] for axis in used))
            name = f"{expr.buffer.name}_next"
            known = Indices(Buffer(name, shape, expr.dtype, FRAGMENT), used, expr)
            loads.append(known)
        return E.Load(known.tile, used)

    return replace(copy, value=registers(copy.value))
