"""Conversions between layouts that inference put into a program, with what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilelang.errors import Loc
from tilelang.explain.snapshots import allocated
from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.records import dataclass


@dataclass(frozen=True)
class Conversion:
    """Copies around one operation whose tiles are held in layouts that it cannot use.

    Attributes:
        loc: the operation.
        name: the fragment that is copied.
        bytes: written to and read from shared memory by a block; 0 where shuffles within the
            warps do it.
        barriers: among and right after the copies.
    """

    loc: Loc | None
    name: str
    bytes: int
    barriers: int


def conversions(staged: S.Launch, laid: S.Launch, ordered: S.Launch) -> list[Conversion]:
    """The conversions of a kernel.

    Args:
        staged: the kernel before layouts were chosen.
        laid: with layouts; the buffers that are new are those of conversions.
        ordered: with barriers too.
    """
    known = allocated(staged)
    new = {data: buffer for data, buffer in allocated(laid).items() if data not in known}
    found: dict[tuple[int, str], Conversion] = {}
    for node in S.find(ordered.body, S.Seq):
        items = node.stmts
        for first, item in enumerate(items):
            if isinstance(item, S.Alloc) and item.buffer.data in new:
                made = _conversion(items[first:], new[item.buffer.data])
                before = found.get((id(made.loc), made.name))
                if before is None or not before.bytes:
                    found[id(made.loc), made.name] = made
    return list(found.values())


def _conversion(items: Sequence[S.Stmt], tile: Buffer) -> Conversion:
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
    return Conversion(items[0].loc, name, through, barriers)
