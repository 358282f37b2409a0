"""Conversions between layouts that inference put into a program, with what they cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from tilelang.errors import Loc
from tilelang.explain.snapshots import allocated
from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Var
from tilelang.records import dataclass
from tilelang.transforms.analysis.loops import trip_count
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
    """

    loc: Loc | None
    data: Var | None
    name: str
    bytes: int
    barriers: int
    times: int | None


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
    found: dict[tuple[int, str], Conversion] = {}
    for node, times in _with_times(ordered.body, 1):
        if isinstance(node, S.Reduce):
            made = _delivery(node, warp, times)
            if made is not None:
                found[id(made.loc), made.name] = made
        if not isinstance(node, S.Seq):
            continue
        for first, item in enumerate(node.stmts):
            if isinstance(item, S.Alloc) and item.buffer.data in new:
                made = _conversion(node.stmts[first:], new[item.buffer.data], names, times)
                before = found.get((id(made.loc), made.name))
                if before is None or not before.bytes:
                    found[id(made.loc), made.name] = made
    return list(found.values())


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
    held, source = (buffer.attr("register_layout") for buffer in (target, stmt.src.buffer))
    whole = stmt.src.is_whole and stmt.dst.is_whole
    if held is None or source is None or not whole:
        return None
    result = source.drop(stmt.dim).with_shape(held.shape)
    if result.contains(held):
        return None
    inside = warp_shuffles(result, held, warp) is not None
    size = 0 if inside else 2 * prod(held.shape) * max(4, target.dtype.bits // 8)
    return Conversion(stmt.loc, target.data, target.name, size, 0 if inside else 2, times)


def _conversion(
    items: Sequence[S.Stmt], tile: Buffer, names: Mapping[str, Var], times: int | None
) -> Conversion:
    last = max(number for number, item in enumerate(items) if tile.data in effects.used(item))
    size = prod(n for n in tile.shape if isinstance(n, int)) * tile.dtype.bits // 8
    through = barriers = 0
    for item in items[: last + 1]:
        for node in S.walk(item):
            found = [one for one in effects.accesses(node) if one.data is tile.data]
            if tile.storage.startswith("shared"):
                moved = (one for one in found if isinstance(one.by, S.TileOp))
                through += size * sum(one.reads + one.writes for one in moved)
            through += size * any(isinstance(one.by, E.Expr) for one in found)
            for expr in node.exprs():
                barriers += sum(
                    isinstance(part, E.Call) and part.atom.meets("block") for part in E.walk(expr)
                )
    name = tile.name.removesuffix("_shared").removesuffix("_moved")
    return Conversion(items[0].loc, names.get(name), name, through, barriers, times)
