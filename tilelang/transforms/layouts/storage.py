"""Views and aliases: the layout of one view of a tile implies those of the others.

``T.view``, ``T.reshape`` and declared buffers are views of the same storage. Inference gives all
views of a tile the same layout, expressed in the indices of each, and rejects a layout that one of
them cannot express.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from tilelang.errors import Loc, TileUnsupportedError
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer, row_major_strides
from tilelang.ir.visitor import replace_buffers
from tilelang.layout.layout import Layout
from tilelang.layout.register_layout import RegisterLayout
from tilelang.layout.views import Span, seen_layout, seen_register_layout, span_of
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.layouts.access import is_reducer

Known = TypeVar("Known")


class Storage:
    """The names of each tile of a launch: its allocation, and the views that are used."""

    def __init__(self, launch: S.Launch) -> None:
        self.names: dict[E.Var, tuple[Buffer, ...]] = {}
        nodes = list(S.walk(launch.body))
        viewed = {node.buffer.data for node in nodes if isinstance(node, S.View)}
        if not viewed:
            return
        aliases: dict[E.Var, dict[Buffer, None]] = {}
        used = [buffer for node in nodes for buffer in used_buffers(node)]
        for buffer in (*used, *dict(launch.hints.layout_map)):
            if buffer.data in viewed:
                aliases.setdefault(buffer.data, {})[buffer] = None
        self.names = {data: tuple(names) for data, names in aliases.items() if len(names) > 1}

    def of(self, buffer: Buffer) -> tuple[Buffer, ...]:
        """All names of the storage of ``buffer``."""
        return self.names.get(buffer.data, (buffer,))

    def register_layouts(
        self, buffer: Buffer, layout: RegisterLayout
    ) -> dict[Buffer, RegisterLayout] | None:
        """The register layout of every name when ``buffer`` has ``layout``; None where
        some name has none."""
        return self._views_of(buffer, layout, seen_register_layout)

    def laid_out(self, buffer: Buffer, layout: Layout) -> dict[Buffer, Layout] | None:
        """The same for the layout of a shared tile."""
        return self._views_of(buffer, layout, seen_layout)

    def _views_of(
        self, buffer: Buffer, known: Known, follow: Callable[[Known, Span, Span], Known | None]
    ) -> dict[Buffer, Known] | None:
        """``known`` of ``buffer`` as each name sees it; None where some name cannot."""
        layouts = {buffer: known}
        own = span_of(buffer)
        for name in self.of(buffer):
            if name is buffer:
                continue
            other = span_of(name)
            seen = None if own is None or other is None else follow(known, own, other)
            if seen is None:
                return None
            layouts[name] = seen
        return layouts

    def does_not_fit(self, buffer: Buffer, layout: Layout, loc: Loc | None) -> TileUnsupportedError:
        """An annotated layout of a shared tile that some other name cannot have."""
        names = [name for name in self.of(buffer) if name is not buffer]
        moving = [f"`{name.name}`" for name in names if span_of(name) is None]
        shown = ", ".join(f"`{name.name}`" for name in names)
        expected = "a layout of the whole tile that keeps elements of wider dtypes together"
        hint = "annotate the allocated tile, and keep runs of neighbours whole"
        shown_layout = f"T.Layout of shape {layout.shape}, also used as {shown}"
        if moving:
            expected = "views whose extents, strides and offset are constants"
            hint = "leave out the annotation, or index the tile itself"
            shown_layout = f"other values for {', '.join(moving)}"
        return TileUnsupportedError(
            f"the layout of `{buffer.name}` does not fit other views of its memory",
            expected=expected,
            got=shown_layout,
            hint=hint,
            loc=loc,
        )

    def even_layout(self, buffer: Buffer, threads: int) -> RegisterLayout | None:
        """A distribution of ``buffer`` that fits all its views: modes that end where a row of
        any of them ends, without unused registers."""
        spans = [span_of(name) for name in self.of(buffer)]
        own = span_of(buffer)
        bits = min((span.bits for span in spans if span is not None), default=0)
        ends = {1}
        for span in spans:
            if span is None or own is None or not span.is_whole or span.size != own.size:
                return None
            ends.update(step * span.bits // bits for step in span.strides)
            ends.update((span.bits // bits, span.size // bits))
        order = sorted(ends)
        if any(high % low for low, high in pairwise(order)):
            return None
        flat = tuple(high // low for low, high in pairwise(order))[::-1]
        # What is one element to some name stays in one register.
        widest = max(span.bits for span in spans if span is not None)
        layout = RegisterLayout.exact(flat, threads, widest // bits)
        finest = next(span for span in spans if span is not None and span.bits == bits)
        lead = replace(finest, shape=flat, strides=row_major_strides(flat))
        return seen_register_layout(layout, lead, own) if own is not None else None


def used_buffers(node: S.Stmt) -> list[Buffer]:
    """Buffers that a statement itself uses; an allocation uses what it makes, a view does not."""
    return [access.buffer for access in effects.accesses(node) if not isinstance(access.by, S.View)]


def to_shared(launch: S.Launch, data: E.Var) -> S.Launch:
    """``launch`` with the fragment ``data`` in shared memory, with all its views.

    Raises:
        TileUnsupportedError: it is a reducer, whose copies are partial results.
    """
    mapping: dict[Buffer, Buffer] = {}
    for node in S.walk(launch.body):
        for buffer in (access.buffer for access in effects.accesses(node)):
            if buffer.data is data and buffer.storage == FRAGMENT:
                mapping.setdefault(buffer, replace(buffer, storage="shared"))
    for buffer in mapping:
        if is_reducer(buffer):
            raise TileUnsupportedError(
                f"the layout of the reducer `{buffer.name}` cannot be used",
                expected="threads and registers that are sums of modes of the indices (each "
                "index split by // and %), for each of its names",
                got="another T.Fragment, or a view that splits its registers",
                hint="leave out the annotation, or the view",
                loc=launch.loc,
            )
    others = tuple(pair for pair in launch.hints.layout_map if pair[0] not in mapping)
    hints = replace(launch.hints, layout_map=others)
    return replace(launch, body=replace_buffers(launch.body, mapping), hints=hints)
