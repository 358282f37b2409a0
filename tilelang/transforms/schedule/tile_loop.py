"""The loop of a persistent block over the tiles of a grid, what is copied once for each tile, and
the subtiles of results that each warp stores by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from tilelang.errors import Loc
from tilelang.ir import effects, expr as E, schedule as H, stmt as S
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import PLAIN_LOOP, BufferHints, CopyHints, LoopHints
from tilelang.ir.launch_schedule import Schedule
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import map_stmts, rewrite_blocks
from tilelang.records import dataclass
from tilelang.transforms.analysis.mechanism import MECHANISMS
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.analysis.tma import SUBTILE_COLUMNS, SUBTILE_ROWS, Subtile, box_layout
from tilelang.transforms.schedule.buffer_versions import versioned
from tilelang.transforms.schedule.dependence import Plan, needed_lets
from tilelang.transforms.schedule.legality import Facts
from tilelang.transforms.schedule.pipeline import StageWriter
from tilelang.transforms.schedule.row_stores import BITS


class TileLoop:
    """The launch ``old`` by one block per multiprocessor, which loops over tiles of the grid."""

    def __init__(self, old: S.Launch, schedule: Schedule, facts: Facts, loc: Loc | None) -> None:
        self.old, self.schedule, self.loc = old, schedule, loc
        processors = facts.context.limits.processors
        assert processors is not None
        self.dtype = old.block_vars[0].dtype
        self.step = E.const(processors, self.dtype)
        self.extents = [E.cast(extent, self.dtype) for extent in old.grid]
        self.total: E.Expr = E.const(1, self.dtype)
        for extent in self.extents:
            self.total = simplify(self.total * extent)
        self.block, self.tile = E.Var("block", self.dtype), E.Var("tile", self.dtype)

    def loop(self, work: Sequence[S.Stmt], hints: LoopHints = PLAIN_LOOP) -> S.For:
        """The loop, which does ``work`` for each tile."""
        body = S.seq(*self.lets(self.tile, self.old.block_vars, S.seq(*work)), *work)
        return S.For(
            var=self.tile, start=self.block, stop=self.total, step=self.step, body=body,
            hints=hints, loc=self.loc,
        )  # fmt: skip

    def result(
        self, allocs: Sequence[S.Stmt], loop: S.For, end: Sequence[S.Stmt], subtiles: int
    ) -> S.Launch:
        """The launch with the loop."""
        return replace(
            self.old,
            grid=(simplify(E.binary("min", self.total, self.step)),),
            block_vars=(self.block,),
            body=S.seq(*allocs, loop, *end),
            hints=self.old.hints.without("swizzle"),
            schedule=replace(
                self.schedule, tiles=" x ".join(map(str, self.old.grid)), subtiles=subtiles
            ),
        )

    def lets(self, number: E.Expr, names: tuple[E.Var, ...], body: S.Stmt) -> list[S.Let]:
        """The indices of tile ``number`` in the grid, as far as ``body`` uses them."""
        steps, values = tile_indices(number, self.extents, self.old.hints.swizzle)
        lets = [
            S.Let(var=var, value=simplify(value), loc=self.loc)
            for var, value in (*steps, *zip(names, values))
        ]
        return needed_lets(lets, (expr for node in S.walk(body) for expr in node.exprs()))


@dataclass(frozen=True)
class TileStage(StageWriter):
    """Writes what the producer copies once for each tile: a pipeline of one version, which is
    filled for the next tile while the current one ends."""

    @classmethod
    def of(cls, loop: S.For, copy: S.Copy) -> TileStage:
        """``copy`` at the top of ``loop`` over tiles."""
        stmts, tile = S.flat(loop.body), copy.dst.buffer
        plan = Plan(replace(loop, loc=copy.loc), 1, MECHANISMS["bulk"], (), None, stmts, [copy])
        pipe, first = E.Var("p", DType("handle")), E.Var("first", DType("int32"))
        return cls(plan, {tile.data: versioned(tile, 1)}, pipe, loop.stop, first, [])

    def alloc(self) -> S.Stmt:
        """The allocation of the version."""
        (tile,) = self.tiles.values()
        return S.Alloc(buffer=tile, loc=self.plan.loop.loc)

    def in_roles(self, producing: S.Stmt, consuming: S.Stmt) -> tuple[S.Stmt, S.Stmt]:
        """Both roles with the steps of the pipeline: the release follows the last part of a
        statement that reads the tile."""
        inputs, stmts = self._body(producing), [*self._body(consuming)]
        stmts.remove(self.plan.copies[0])
        users = [k for k, stmt in enumerate(stmts) if self._is_used(stmt)]
        first, last = users[0], users[-1]
        reads = (self.wait(self.base), *stmts[first:last], *self._release_after(stmts[last]))
        uses = [*stmts[:first], self.run(S.seq(*reads), E.const(1)), *stmts[last + 1 :]]
        at = next(k for k, stmt in enumerate(inputs) if not isinstance(stmt, (S.Let, S.Alloc)))
        # Other pipelines run inside this one, for both roles, or after it.
        nested = any(isinstance(stmt, H.Run) for stmt in stmts[first : last + 1])
        end = len(inputs) if nested else at
        bound = {stmt.var for stmt in inputs if isinstance(stmt, S.Let)}
        lets = needed_lets(self.plan.stmts, self.plan.copies[0].src.mins)
        fill = self.run(S.seq(*self.stage(self.base, (), {}), *inputs[at:end]), E.const(1))
        fills = [*inputs[:at], *(let for let in lets if let.var not in bound), fill, *inputs[end:]]
        return self._with_body(producing, fills), self._with_body(consuming, uses)

    def _body(self, role: S.Stmt) -> tuple[S.Stmt, ...]:
        return S.flat(*(x.body for x in S.find(role, S.For) if x.var is self.plan.loop.var))

    def _with_body(self, role: S.Stmt, body: Sequence[S.Stmt]) -> S.Stmt:
        """``role`` with another body of the loop over tiles."""
        var, new = self.plan.loop.var, S.seq(*body)
        return map_stmts(role, S.For, lambda x: replace(x, body=new) if x.var is var else x)

    def _is_used(self, stmt: S.Stmt) -> bool:
        return not effects.used(stmt).isdisjoint(self.tiles)

    def _release_after(self, stmt: S.Stmt) -> list[S.Stmt]:
        """``stmt``, which reads the tile, with the release after the last part that does."""
        parts = S.flat(stmt)
        last = max(k for k, part in enumerate(parts) if self._is_used(part))
        tail = [parts[last], self.release(self.base)]
        if isinstance(parts[last], H.Run):
            tail = [rewrite_blocks(parts[last], lambda body: S.seq(*self._release_after(body)))]
        return [*parts[:last], *tail, *parts[last + 1 :]]


@dataclass(frozen=True)
class Subtiles:
    """The subtiles of a result, of which each warp stores its own by boxes, without a barrier.

    Attributes:
        out: the copy of the result to global memory.
        packed: the result in registers, in its final type.
        count: of the subtiles of a warp.
        rows: the shared buffer for as many of them as are stored at once.
    """

    out: S.Copy
    packed: Buffer
    count: int
    rows: Buffer

    @classmethod
    def of(cls, out: S.Copy, launch: S.Launch, facts: Facts, dst: Region) -> Subtiles | None:
        """Those of ``out`` to ``dst``, None where the result has none or TMA cannot store them."""
        result, dtype = out.src.buffer, out.dst.dtype
        shape = tuple(extent for extent in result.shape if isinstance(extent, int))
        warps = prod(launch.threads) // facts.context.limits.warp
        count, rest = divmod(prod(shape), warps * SUBTILE_ROWS * SUBTILE_COLUMNS)
        tile = Buffer("tile", Shape(shape), dtype, "shared").whole()
        if not count or rest or len(shape) < 2 or dtype.bits != BITS or dtype.lanes != 1:
            return None
        if facts.tma(launch).refusal(replace(out, src=tile, dst=dst)) is not None:
            return None
        packed = Buffer(f"{result.name}_held", result.shape, dtype, FRAGMENT)
        return cls(out, packed, count, _rows(warps * count, dtype))

    def choices(self) -> list[Subtiles]:
        """With buffers for all of them at once, and for half of them."""
        half, warps = self.count // 2, int(E.as_expr(self.rows.shape[0])) // self.count
        fits = half and self.count % half == 0
        return [self, *([replace(self, rows=_rows(warps * half, self.rows.dtype))] if fits else [])]

    def allocs(self) -> list[S.Stmt]:
        """The allocations."""
        return [S.Alloc(buffer=buffer, loc=self.out.loc) for buffer in (self.packed, self.rows)]

    def pack(self) -> S.Stmt:
        """The result in its final type."""
        return S.Copy(src=self.out.src, dst=self.packed.whole(), loc=self.out.loc)

    def store(self, number: int, dst: Region, last: bool = False) -> S.Stmt:
        """The store of a subtile; ``last``: all that a warp has stored is waited for."""
        return self._copy(Subtile(self.rows, number, self.count, last), dst)

    def wait(self) -> S.Stmt:
        """The wait for all that a warp has stored."""
        return self._copy(Subtile(self.rows, None, self.count, True), self.packed.whole())

    def _copy(self, subtile: Subtile, dst: Region) -> S.Stmt:
        hints = CopyHints(subtile=subtile)
        return S.Copy(src=self.packed.whole(), dst=dst, hints=hints, loc=self.out.loc)


def _rows(count: int, dtype: DType) -> Buffer:
    """A shared buffer for ``count`` subtiles."""
    shape = (count, SUBTILE_ROWS, SUBTILE_COLUMNS)
    attrs = BufferHints(layout=box_layout(shape, dtype.bits), is_generated=True)
    return Buffer("rows", Shape(shape), dtype, "shared", attrs=attrs)


_Values = tuple[E.Expr, ...]
_Steps = tuple[tuple[E.Var, E.Expr], ...]


def tile_indices(
    number: E.Expr, extents: list[E.Expr], swizzle: tuple[int, str] | None
) -> tuple[_Steps, _Values]:
    """Steps that compute the indices of tile ``number`` of a grid, and these: the first dimension
    runs fastest; in a ``swizzle`` panels of rows or of columns follow each other, back and forth,
    like those of ``tl_panel``."""
    if swizzle is None or len(extents) < 2:
        indices = []
        for extent in extents[:-1]:
            indices.append(number % extent)
            number = number // extent
        return (), (*indices, number)
    across, down = extents[:2]
    rest: _Values = ()
    if len(extents) > 2:
        area = simplify(across * down)
        rest = (number // area,)
        number = number % area
    panel, order = swizzle
    if order == "row":
        steps, along, line = _panel(number, across, down, panel)
        return steps, (along, line, *rest)
    steps, along, line = _panel(number, down, across, panel)
    return steps, (line, along, *rest)


def _panel(
    number: E.Expr, length: E.Expr, lines: E.Expr, panel: int
) -> tuple[_Steps, E.Expr, E.Expr]:
    """Along the steps and across the lines of panels of ``panel`` lines over ``length`` steps."""
    dtype = number.dtype
    panel_number, offset = E.Var("panel", dtype), E.Var("offset", dtype)
    height, along = E.Var("height", dtype), E.Var("along", dtype)
    size = simplify(length * panel)
    steps = (
        (panel_number, number // size),
        (offset, number % size),
        (height, E.binary("min", lines - panel_number * panel, E.const(panel, dtype))),
        (along, offset // height),
    )
    back_and_forth = E.select((panel_number % 2).equal(1), length - 1 - along, along, lazy=False)
    return steps, back_and_forth, panel_number * panel + offset % height
