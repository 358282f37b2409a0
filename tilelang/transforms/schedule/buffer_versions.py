"""Tiles with several versions: the buffers, and programs that use one version of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.visitor import ExprRewriter, rebuild
from tilelang.records import dataclass


@dataclass(frozen=True)
class Version:
    """``buffer`` has the versions of a tile along its first dimension; ``slot`` is the one used."""

    buffer: Buffer
    slot: E.Expr


def versioned(buffer: Buffer, stages: int) -> Buffer:
    """A buffer with ``stages`` versions of ``buffer``."""
    return Buffer(
        buffer.name,
        Shape((stages, *buffer.shape)),
        buffer.dtype,
        buffer.storage,
        attrs=buffer.attrs,
    )


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

    def stmt(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt] | None:
        """``stmt`` with its regions and its target in the version in use."""
        changed: dict[str, Any] = {}
        for name, role in stmt.role_table().items():
            old = getattr(stmt, name)
            if role in ("read", "write", "update") and old is not None:
                changed[name] = self._regions(old)
        if isinstance(stmt, S.Alloc) and stmt.buffer.data in self.versions:
            changed["buffer"] = self.versions[stmt.buffer.data].buffer
        elif isinstance(stmt, S.Store) and stmt.buffer.data in self.versions:
            version = self.versions[stmt.buffer.data]
            if stmt.buffer is not version.buffer:
                changed["buffer"] = version.buffer
                changed["indices"] = (version.slot, *stmt.indices)
        elif isinstance(stmt, S.Launch):
            pairs = stmt.hints.layout_map  # layouts of a tile hold for each of its versions
            layouts = tuple((self._tile(buffer), layout) for buffer, layout in pairs)
            if layouts != pairs:
                changed["hints"] = replace(stmt.hints, layout_map=layouts)
        changed = {name: new for name, new in changed.items() if new is not getattr(stmt, name)}
        return replace(stmt, **changed) if changed else stmt

    def _regions(self, old: Any) -> Any:
        if isinstance(old, Region):
            return use_region(old, self.versions)
        regions = tuple(use_region(region, self.versions) for region in old)
        return old if all(a is b for a, b in zip(regions, old)) else regions

    def _tile(self, buffer: Buffer) -> Buffer:
        version = self.versions.get(buffer.data)
        return buffer if version is None else version.buffer
