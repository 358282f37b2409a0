"""Versions of a launch: loop versioning by the alignment of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from typing import Any

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.bounds import Bounds, is_divisible
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.facts import bounds_of
from tilelang.ir.linear import parted
from tilelang.ir.prover import prove
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import ExprRewriter, Replacement, map_stmts
from tilelang.transforms.rules import Cursor, rule

_ROW_BITS = 128  # of the widest load; strides of TMA are multiples of it (PTX, "Tensor-map")


@rule(S.PrimFunc, needs="simt", where=lambda _, context: not context.options.no_launch_versions)
def version_aligned_rows(func: S.PrimFunc, cursor: Cursor) -> S.PrimFunc:
    """Launch a version for rows of whole vectors where the sizes of a call allow it.

    Rows whose length is known at the launch may begin at any element, and then neither TMA nor
    vector loads can read them. The host tests whether all such rows of a launch are multiples of
    16 bytes, and launches a version of the kernel that assumes it; else the other one.
    """

    def versions(launch: S.Launch) -> S.Stmt:
        conds = _conditions(launch)
        if not conds:
            return launch
        facts = [S.Assert(cond=cond, assumed=True) for cond in conds]
        aligned = launch.with_body(S.seq(*facts, launch.body))
        general = Renamed({v: E.Var(v.name, v.dtype) for v in S.bound(launch)}).rewrite(launch)
        return S.If(cond=E.conjunction(conds), then=aligned, orelse=general, loc=launch.loc)

    return func.with_body(map_stmts(func.body, S.Launch, versions))


def _conditions(launch: S.Launch) -> list[E.Expr]:
    """What makes the rows that ``launch`` accesses multiples of 16 bytes; nothing where they are
    anyway, or where sizes that only the kernel knows decide it."""
    inner = S.bound(launch)
    if any(not inner.isdisjoint(variables) for variables in _sizes_of_views(launch)):
        return []  # the names in the sizes of a buffer are not copied
    known = bounds_of(launch)
    counts: dict[Buffer, int] = {}
    for buffer, count in _rows(launch):
        counts[buffer] = max(count, counts.get(buffer, 1))
    conds: list[E.Expr] = []
    for buffer in sorted(counts, key=lambda buffer: buffer.dtype.width):
        lanes = min(counts[buffer], _ROW_BITS // buffer.dtype.width)
        needed = _needed(buffer, lanes, known) or []
        if all(inner.isdisjoint(cond.variables) for cond in needed):
            conds += needed
            known = _assuming(known, needed)
    return conds


def _needed(buffer: Buffer, lanes: int, known: Bounds) -> list[E.Expr] | None:
    """What makes the strides of ``buffer`` multiples of ``lanes``; None where no sizes do."""
    conds: list[E.Expr] = []
    for stride in map(E.as_expr, buffer.stride_list()[-2::-1]):
        # 2 * lanes is for rows of n // 2 bytes, which hold pairs of 4-bit elements.
        for modulus in (1, lanes, 2 * lanes):
            sizes = sorted(stride.variables, key=repr) if modulus > 1 else []
            more = [size % modulus == 0 for size in sizes]
            if any(prove(~cond, known) for cond in more):
                return None
            if is_divisible(stride, lanes, _assuming(known, [*conds, *more])):
                conds += more
                break
        else:
            return None
    return conds


def _assuming(known: Bounds, conds: list[E.Expr]) -> Bounds:
    return reduce(Bounds.assuming, conds, known)


def _sizes_of_views(launch: S.Launch) -> Iterator[frozenset[E.Var]]:
    """The variables in the sizes of the buffers that ``launch`` declares."""
    for stmt in S.find(launch, S.Alloc, S.View):
        sizes = (*stmt.buffer.shape, *stmt.buffer.stride_list(), stmt.buffer.elem_offset)
        yield from (size.variables for size in sizes if isinstance(size, E.Expr))


def _rows(launch: S.Launch) -> Iterator[tuple[Buffer, int]]:
    """The tensors of which ``launch`` accesses neighbouring elements of rows together, in tile
    operations, parallel loops, and loops of a thread that may become vectors; and how many, as a
    power of two."""
    counts: dict[E.Expr, int] = dict(_lane_counts(launch))
    indices = frozenset(var for var in counts if isinstance(var, E.Var))
    for access in effects.accesses(launch.body, nested=True):
        buffer = access.buffer
        if buffer.storage != "global" or buffer.ndim < 2 or not buffer.has_unit_stride:
            continue
        if isinstance(access.where, Region):
            yield buffer, _power_of_two(access.where.extents[-1])
        elif (parts := parted(access.indices[-1], indices)) is not None:
            yield from ((buffer, counts[var]) for var, factor in parts[0].terms if factor == 1)


def _lane_counts(launch: S.Launch) -> Iterator[tuple[E.Var, int]]:
    """The variables of loops whose iterations may be lanes of vectors, and how many of them."""
    for loop in S.find(launch, S.Parallel, S.For):
        if isinstance(loop, S.Parallel):
            yield from zip(loop.vars, map(_power_of_two, loop.extents))
        elif loop.kind != "pipelined":
            yield loop.var, _power_of_two(simplify(loop.stop - loop.start), least=1)


def _power_of_two(extent: int | E.Expr, least: int = _ROW_BITS) -> int:
    """The largest power of two that is not above ``extent``, ``least`` for an unknown one."""
    size = E.as_expr(extent)
    return 1 << (max(1, int(size.value)).bit_length() - 1) if isinstance(size, E.Const) else least


class Renamed(ExprRewriter):
    """A copy of a statement with other names, where they are read and where they are bound."""

    def __init__(self, names: dict[E.Var, E.Expr]) -> None:
        self.names = names
        self.memo.update(names.items())

    def stmt(self, stmt: S.Stmt) -> Replacement:
        changed: dict[str, Any] = {}
        for name, role in stmt.role_table().items():
            value = getattr(stmt, name)
            if role == "var" and value is not None:
                changed[name] = self.names[value]
            elif role == "vars" and value:
                changed[name] = tuple(self.names[var] for var in value)
        return replace(stmt, **changed) if changed else stmt
