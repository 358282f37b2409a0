"""Multi-version tiles: the buffers, and rewriting accesses so that they use one version."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import replace
from math import gcd
from typing import Any

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region, Shape, as_extent
from tilelang.ir.visitor import ExprRewriter, rebuild, replace_changed
from tilelang.records import dataclass
from tilelang.transforms.analysis.tma import CHUNK, START
from tilelang.transforms.schedule.iteration import SHARED


@dataclass(frozen=True)
class Version:
    """``buffer`` has the versions of a tile along its first dimension; ``slot`` is the one used."""

    buffer: Buffer
    slot: E.Expr


def versioned(buffer: Buffer, stages: int, stated: Container[Buffer] = ()) -> Buffer:
    """A buffer with ``stages`` versions of ``buffer``, each where a box of TMA may start: the first
    dimension of a small tile is padded, unless the program has ``stated`` the layout."""
    rows, *row = buffer.shape
    row_bytes, rest = divmod(buffer.constant_bytes, rows if isinstance(rows, int) else 1)
    is_padded = stages > 1 and buffer.storage in SHARED and buffer not in stated
    if is_padded and not rest and buffer.constant_bytes % CHUNK == 0:
        step = START // gcd(row_bytes, START)
        rows = as_extent(-(-rows // step) * step)
    shape = Shape((stages, rows, *row))
    return Buffer(buffer.name, shape, buffer.dtype, buffer.storage, attrs=buffer.attrs)


def use_region(region: Region, versions: Mapping[E.Var, Version]) -> Region:
    """``region`` in the version in use."""
    version = versions.get(region.buffer.data)
    if version is None or region.buffer is version.buffer:
        return region
    return Region(
        version.buffer, (version.slot, *region.mins), (1, *region.extents), region.anchored
    )


class UseVersions(ExprRewriter):
    """Makes statements use the given version of each tile, by its storage."""

    kinds = (E.Load, E.AddressOf, E.RegionArg)

    def __init__(self, versions: Mapping[E.Var, Version]) -> None:
        self.versions = versions

    def node(self, expr: E.Expr) -> E.Expr:
        """``expr`` with its loads and addresses in the version in use."""
        rebuilt = rebuild(expr, self.expr)
        if isinstance(rebuilt, (E.Load, E.AddressOf)):
            version = self.versions.get(rebuilt.buffer.data)
            if version is not None and rebuilt.buffer is not version.buffer:
                return replace(
                    rebuilt, buffer=version.buffer, indices=(version.slot, *rebuilt.indices)
                )
        elif isinstance(rebuilt, E.RegionArg):
            region = use_region(rebuilt.region, self.versions)
            return rebuilt if region is rebuilt.region else E.RegionArg(region)
        return rebuilt

    def _visit_operand(self, old: Any) -> Any:
        operand = super()._visit_operand(old)
        return use_region(operand, self.versions) if isinstance(operand, Region) else operand

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt`` with its target in the version in use; layouts of a tile hold for each of its
        versions."""
        if isinstance(stmt, S.Launch):
            pairs = stmt.hints.layout_map
            layouts = tuple((self._tile(buffer), layout) for buffer, layout in pairs)
            return replace_changed(stmt, hints=replace(stmt.hints, layout_map=layouts))
        target = stmt.buffer if isinstance(stmt, (S.Alloc, S.Store)) else None
        version = None if target is None else self.versions.get(target.data)
        if version is None or target is version.buffer:
            return stmt
        if isinstance(stmt, S.Store):
            return replace(stmt, buffer=version.buffer, indices=(version.slot, *stmt.indices))
        return replace_changed(stmt, buffer=version.buffer)

    def _tile(self, buffer: Buffer) -> Buffer:
        version = self.versions.get(buffer.data)
        return buffer if version is None else version.buffer
