"""Packed layouts of GEMM operands: how tiles of matrix products are stored for the kernel.

A micro-kernel needs its left operand as rows of the accumulator's type and its right operand in
panels, ``[ceil(N / width)][K][width]``, so that each step of the inner loop reads one contiguous
row. If no other statement depends on the layout of a tile, the tile has this layout from the start:
the copy or the loop that fills it also packs it. Narrow floats are widened to float32 at the same
time, which is exact.

``choose_operands`` runs while copies and products are still tile operations. It replaces the tiles
and marks the statements (hint ``operand``); ``lower_operand_copies`` then lowers the marked copies
to loops. Tiles that other statements read keep their layout, and the kernel packs a copy of them.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from tilelang.cpu.dot_instructions import packed_dot_of
from tilelang.cpu.gemm_kernels import ACCUMULATORS, panel_width
from tilelang.cpu.loops.tiles import indices_at, load_at, nest
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import LoopHints
from tilelang.ir.visitor import Rewriter, map_stmts, rewrite_launches
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.transforms.analysis.combine import accumulator

TILE_SCOPES = ("shared", "shared.dyn", "local.fragment")
RUN = 8  # rows that are packed into a panel before the next panel: writes are runs of lines
ROW_PADDING = 16  # elements added to a row, so that rows do not fall into the same cache sets


@dataclass(frozen=True)
class Panels:
    """A (rows, columns) tile stored as column panels of ``width``."""

    rows: int
    columns: int
    width: int


def choose_operands(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with operand tiles of products in the layouts that kernels want."""
    return rewrite_launches(func, _choose)


class _Uses:
    """The uses of each tile by the statements of a launch."""

    def __init__(self, launch: S.Launch) -> None:
        self.allocated: dict[E.Var, Buffer] = {}
        self.as_a: dict[E.Var, list[S.Gemm]] = {}
        self.as_b: dict[E.Var, list[S.Gemm]] = {}
        self.spoiled: set[E.Var] = set()  # seen by something that needs the plain layout
        self.not_panels: set[E.Var] = set()  # touched in part
        self.stored: set[E.Var] = set()  # by elements
        for stmt in S.walk(launch.body):
            self._statement(stmt)

    def _statement(self, stmt: S.Stmt) -> None:
        if isinstance(stmt, S.Alloc) and stmt.buffer.storage in TILE_SCOPES:
            self.allocated[stmt.buffer.data] = stmt.buffer
        elif isinstance(stmt, S.Gemm):
            self.as_a.setdefault(stmt.a.buffer.data, []).append(stmt)
            self.as_b.setdefault(stmt.b.buffer.data, []).append(stmt)
            self.spoiled.add(stmt.c.buffer.data)
            if not stmt.b.is_whole:
                self.not_panels.add(stmt.b.buffer.data)
        elif isinstance(stmt, (S.Copy, S.Fill)):
            if not stmt.dst.is_whole:
                self.not_panels.add(stmt.dst.buffer.data)
            if isinstance(stmt, S.Copy):
                self.spoiled.add(stmt.src.buffer.data)
                if stmt.mode != "copy":
                    self.spoiled.add(stmt.dst.buffer.data)
        elif isinstance(stmt, S.Store) and self.allocated.get(stmt.buffer.data) is stmt.buffer:
            self.stored.add(stmt.buffer.data)
        else:
            named = (access.data for access in effects.own(stmt) if not isinstance(stmt, S.Alloc))
            self.spoiled.update(named)
        for expr in effects.expressions(stmt):
            self.spoiled |= effects.used(expr)


def _choose(launch: S.Launch) -> S.Stmt:
    uses = _Uses(launch)
    tiles: dict[E.Var, Buffer] = {}
    panels: dict[E.Var, Panels] = {}
    for data, buffer in uses.allocated.items():
        gemms = [*uses.as_a.get(data, ()), *uses.as_b.get(data, ())]
        if not gemms or data in uses.spoiled or len(buffer.shape) != 2:
            continue
        wide = accumulator(gemms[0].a.dtype, gemms[0].c.dtype)
        if wide not in ACCUMULATORS or any(
            accumulator(g.a.dtype, g.c.dtype) != wide for g in gemms
        ):
            continue
        if any(packed_dot_of(g.a.dtype, g.b.dtype, wide) is not None for g in gemms):
            continue  # the product packs the tile, as the machine needs it
        rows, columns = int(buffer.shape[0]), int(buffer.shape[1])
        only_b = data not in uses.as_a and not any(g.trans_b for g in uses.as_b[data])
        width = panel_width(wide)
        is_full = data not in uses.stored or columns % width == 0
        if only_b and is_full and data not in uses.not_panels:
            panels[data] = Panels(rows, columns, width)
            shape = Shape((-(-columns // width), rows, width))
            tiles[data] = replace(buffer, shape=shape, dtype=wide, strides=None)
        else:
            tiles[data] = replace(buffer, dtype=wide, strides=(columns + ROW_PADDING, 1))
    return _Replace(tiles, panels).rewrite(launch) if tiles else launch


class _Replace(Rewriter):
    def __init__(self, tiles: dict[E.Var, Buffer], panels: dict[E.Var, Panels]) -> None:
        self.tiles = tiles
        self.panels = panels
        self.dtypes: dict[E.Var, DType] = {}

    def buffer(self, buffer: Buffer) -> Buffer:
        panels = self.tiles.get(buffer.data)
        if panels is not None:
            self.dtypes.setdefault(buffer.data, buffer.dtype)
        return buffer if panels is None else panels

    def _visit_operand(self, old: object) -> object:
        if isinstance(old, Region) and old.buffer.data in self.panels:
            return self.buffer(old.buffer).whole()
        return super()._visit_operand(old)

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.Copy) and stmt.dst.buffer.data in self.tiles:
            data = stmt.dst.buffer.data
            operand = self.dtypes[data], self.panels.get(data)
            return replace(stmt, hints=replace(stmt.hints, operand=operand))
        if isinstance(stmt, S.Store) and stmt.buffer.data in self.tiles:
            at, panels = stmt.indices, self.panels.get(stmt.buffer.data)
            if panels is not None:
                at = (at[1] // panels.width, at[0], at[1] % panels.width)
            return replace(stmt, indices=at, value=E.cast(stmt.value, stmt.buffer.dtype))
        if isinstance(stmt, S.Fill) and stmt.dst.buffer.data in self.tiles:
            return replace(stmt, value=E.cast(stmt.value, stmt.dst.dtype))
        if isinstance(stmt, S.Gemm):
            panels = self.panels.get(stmt.b.buffer.data)
            if panels is not None:
                return replace(stmt, hints=replace(stmt.hints, panels=panels))
        return stmt


def lower_operand_copies(func: S.PrimFunc) -> S.PrimFunc:
    """Copies into operand tiles as loops; the value takes the tile's own dtype on the way."""

    def lowered(stmt: S.Copy) -> S.Stmt:
        if stmt.hints.operand is None:
            return stmt
        dtype, panels = stmt.hints.operand
        return _to_rows(stmt, dtype) if panels is None else _to_panels(stmt, dtype, panels)

    return func.with_body(map_stmts(func.body, S.Copy, lowered))


def _value(stmt: S.Copy, value: E.Expr, dtype: DType) -> E.Expr:
    return E.cast(E.cast(value, dtype), stmt.dst.dtype)


def _to_rows(stmt: S.Copy, dtype: DType) -> S.Stmt:
    dims = stmt.dst.tile_dims()

    def body(variables: list[E.Var]) -> S.Stmt:
        value = _value(stmt, load_at(stmt.src, stmt.src.tile_dims(), variables), dtype)
        at = indices_at(stmt.dst, dims, variables)
        return S.Store(buffer=stmt.dst.buffer, indices=at, value=value, loc=stmt.loc)

    return nest([E.as_expr(stmt.dst.extents[d]) for d in dims], "ij", body, stmt)


def _to_panels(stmt: S.Copy, dtype: DType, panels: Panels) -> S.Stmt:
    """A few rows of each panel after the other; columns after the last one are zero."""
    dims = stmt.src.tile_dims()
    # Unit dimensions of a (1, N) or (K, 1) tile are not among the copy's dimensions.
    source = dims if len(dims) == 2 else (None, *dims) if panels.rows == 1 else (*dims, None)
    count = -(-panels.columns // panels.width)

    def columns(rows: E.Expr, first: E.Expr, width: int, panel: E.Expr) -> S.Stmt:
        w = E.Var("w", DType("int32"))
        at = dict(zip(source, (rows, first + w)))
        indices = tuple(low + at[d] if d in at else low for d, low in enumerate(stmt.src.mins))
        value = _value(stmt, E.Load(stmt.src.buffer, indices), dtype)
        store = S.Store(buffer=stmt.dst.buffer, indices=(panel, rows, w), value=value, loc=stmt.loc)
        return S.counted(w, width, store, "serial", LoopHints(parallel=2), stmt.loc)

    run = gcd(RUN, panels.rows)

    def full(variables: list[E.Var]) -> S.Stmt:
        k, p, r = variables
        return columns(k * run + r, p * panels.width, panels.width, p)

    full_panels = panels.columns // panels.width
    one_row: list[E.Expr] = [E.const(panels.rows)]
    stmts: list[S.Stmt] = []
    if full_panels:
        extents: list[E.Expr] = [E.const(panels.rows // run), E.const(full_panels), E.const(run)]
        stmts.append(nest(extents, "kpr", full, stmt))
    if full_panels < count:
        rest = panels.columns - full_panels * panels.width

        def last(variables: list[E.Var]) -> S.Stmt:
            return columns(
                variables[0], E.const(full_panels * panels.width), rest, E.const(full_panels)
            )

        def zero(variables: list[E.Var]) -> S.Stmt:
            at = (E.const(full_panels), variables[0], variables[1] + rest)
            nothing = E.const(0, stmt.dst.dtype)
            return S.Store(buffer=stmt.dst.buffer, indices=at, value=nothing, loc=stmt.loc)

        stmts.append(nest(one_row, "k", last, stmt))
        blank: list[E.Expr] = [E.const(panels.rows), E.const(panels.width - rest)]
        stmts.append(nest(blank, "kw", zero, stmt))
    return S.seq(*stmts)
