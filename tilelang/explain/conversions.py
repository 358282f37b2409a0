"""Conversions between layouts that inference put into a program, with what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from tilelang.errors import Loc
from tilelang.explain.snapshots import allocated
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Var
from tilelang.layout.register_layout import RegisterLayout
from tilelang.records import dataclass
from tilelang.transforms.analysis.loops import trip_count
from tilelang.transforms.layouts import cost
from tilelang.transforms.layouts.shuffles import warp_shuffles


@dataclass(frozen=True)
class Conversion:
    """Copies around one operation whose tiles are held in layouts that it cannot use, or the way
    of a reduction's results to other threads.

    Attributes:
        loc: the operation.
        data: the storage of the fragment that is copied.
        name: its name.
        bytes: written to and read from shared memory by a block; 0 where shuffles within the
            warps do it.
        barriers: among and right after the copies.
        times: how often a block does it; None where the bounds of a loop are not known.
        work: cycles of the operation itself.
    """

    loc: Loc | None
    data: Var | None
    name: str
    bytes: int
    barriers: int
    times: int | None
    work: float = 0.0

    @property
    def cycles(self) -> float:
        """The cycles that one conversion takes of a block."""
        return cost.of_exchange(self.bytes, 1, self.barriers)


def conversions(staged: S.Launch, laid: S.Launch, ordered: S.Launch, warp: int) -> list[Conversion]:
    """The conversions of a kernel.

    Args:
        staged: the kernel before layouts were chosen.
        laid: with layouts; the buffers that are new are those of conversions.
        ordered: with barriers too.
        warp: lanes of a warp.
    """
    known = allocated(staged)
    names = {buffer.name: data for data, buffer in known.items()}
    new = {data: buffer for data, buffer in allocated(laid).items() if data not in known}
    result: dict[tuple[int, str], Conversion] = {}
    for node, times in _with_times(ordered.body, 1):
        if isinstance(node, S.Reduce):
            conversion = _delivery(node, warp, times)
            if conversion is not None:
                result[id(conversion.loc), conversion.name] = conversion
        if not isinstance(node, S.Seq):
            continue
        for first, stmt in enumerate(node.stmts):
            if isinstance(stmt, S.Alloc) and stmt.buffer.data in new:
                tile, stmts = new[stmt.buffer.data], node.stmts[first:]
                conversion = _conversion(stmts, tile, names, times, warp)
                before = result.get((id(conversion.loc), conversion.name))
                if before is None or not before.bytes:
                    result[id(conversion.loc), conversion.name] = conversion
    return list(result.values())


def _with_times(stmt: S.Stmt, times: int | None) -> Iterator[tuple[S.Stmt, int | None]]:
    """``stmt`` and what is in it, each with how often a block runs it."""
    yield stmt, times
    if isinstance(stmt, S.For):
        count = trip_count(stmt)
        times = None if times is None or count is None else times * count
    elif isinstance(stmt, S.While):
        times = None
    for block in stmt.blocks():
        yield from _with_times(block, times)


def _delivery(stmt: S.Reduce, warp: int, times: int | None) -> Conversion | None:
    """The way of the results of a reduction to threads that have not computed them."""
    target = stmt.dst.buffer
    layout, source = (buffer.attrs.register_layout for buffer in (target, stmt.src.buffer))
    if layout is None or source is None or not (stmt.src.is_whole and stmt.dst.is_whole):
        return None
    result = source.drop(stmt.dim).with_shape(layout.shape)
    if result.contains(layout):
        return None
    inside = warp_shuffles(result, layout, warp) is not None
    size = 0 if inside else 2 * prod(layout.shape) * max(4, target.dtype.bits // 8)
    return Conversion(stmt.loc, target.data, target.name, size, 0 if inside else 2, times)


def _conversion(
    stmts: Sequence[S.Stmt], tile: Buffer, names: Mapping[str, Var], times: int | None, warp: int
) -> Conversion:
    last = max(number for number, stmt in enumerate(stmts) if tile.data in effects.used(stmt))
    size = prod(n for n in tile.shape if isinstance(n, int)) * tile.dtype.bits // 8
    through = barriers = 0
    work = 0.0
    for stmt in stmts[: last + 1]:
        if isinstance(stmt, S.Parallel) and isinstance(stmt.loop_layout, RegisterLayout):
            work += cost.of_loop(stmt, stmt.loop_layout, warp)
        for node in S.walk(stmt):
            uses = [access for access in effects.accesses(node) if access.data is tile.data]
            if tile.storage.startswith("shared"):
                moved = (access for access in uses if isinstance(access.by, S.TileOp))
                through += size * sum(access.reads + access.writes for access in moved)
            through += size * any(isinstance(access.by, E.Expr) for access in uses)
            barriers += sum(call.atom.is_barrier("block") for call in node.calls())
    name = tile.name.removesuffix("_shared").removesuffix("_moved")
    return Conversion(stmts[0].loc, names.get(name), name, through, barriers, times, work)
