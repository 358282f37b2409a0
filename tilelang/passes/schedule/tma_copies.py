"""Which copies the tensor memory accelerator makes, and why it does not make the others."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import prod

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.uniform import Varying
from tilelang.layout.layout import Layout
from tilelang.passes.analysis.groups import ThreadGroups
from tilelang.passes.analysis.loops import bounds_of
from tilelang.passes.analysis.tma import START, Boxes, NotBoxesError, box_layout, boxes_of
from tilelang.target import Context


def host_tensors(func: S.PrimFunc) -> frozenset[E.Var]:
    """The storage whose addresses the host knows when it encodes tensor maps."""

    def allocated(stmt: S.Stmt) -> Iterator[E.Var]:
        if isinstance(stmt, S.Launch):
            return
        if isinstance(stmt, S.Alloc):
            yield stmt.buffer.data
        for block in stmt.blocks():
            yield from allocated(block)

    return frozenset((*(param.data for param in func.buffers), *allocated(func.body)))


class TmaFacts:
    """What decides about the copies of one launch.

    Args:
        known: see :func:`host_tensors`.
    """

    def __init__(self, launch: S.Launch, known: frozenset[E.Var], context: Context) -> None:
        self.launch = launch
        self.known = known
        self.context = context
        self.bounds = bounds_of(launch)
        self.safe = {buffer.data: value for buffer, value in launch.annotation("safe_value", ())}
        self.layouts = dict(launch.annotation("layout_map", ()))

    @cached_property
    def varying(self) -> Varying:
        """Which values differ between threads."""
        return Varying(self.launch)

    @cached_property
    def groups(self) -> ThreadGroups:
        """Which threads run what."""
        return ThreadGroups(self.launch, self.context.limits.warp)

    @cached_property
    def written(self) -> set[E.Var]:
        """The storage that the kernel writes."""
        return effects.written(self.launch.body)

    def refusal(self, copy: S.Copy, versions: bool = False) -> str | None:
        """Why the accelerator cannot make ``copy``; None if it can.

        Args:
            versions: whether the tile is going to have several, one behind the other.
        """
        try:
            found = self.boxes(copy)
        except NotBoxesError as why:
            return str(why)
        size = prod(int(extent) for extent in found.tile.shape) * found.tile.dtype.bits // 8
        if versions and size % START:
            return f"versions of {size} bytes do not start at multiples of {START} bytes"
        return None

    def boxes(self, copy: S.Copy) -> Boxes:
        """The boxes of ``copy`` under the layout that its tile is going to have.

        Raises:
            NotBoxesError: it is no copy for the accelerator.
        """
        load = copy.src.buffer.storage == "global"
        tensor, tile = (copy.src, copy.dst) if load else (copy.dst, copy.src)
        self._check(copy, tensor.buffer, load)
        layout = self.layouts.get(tile.buffer)
        shape = tile.buffer.shape
        if layout is None and all(isinstance(extent, int) for extent in shape):
            bits = tile.buffer.dtype.bits
            layout = box_layout(tuple(int(extent) for extent in shape), bits)
        found = boxes_of(copy, layout if isinstance(layout, Layout) else None, self.bounds)
        places = (*tensor.mins, *tile.mins)
        if any(map(self.varying.expr, places)):
            raise NotBoxesError("its place differs between threads")
        return found

    def _check(self, copy: S.Copy, tensor: Buffer, load: bool) -> None:
        """What has nothing to do with regions and layouts."""
        name = tensor.name
        if not self.context.has("tma"):
            raise NotBoxesError("the target has no tensor maps")
        if self.context.options.no_tma:
            raise NotBoxesError("tl.disable_tma_lower")
        notes = dict(copy.annotations)
        if notes.get("disable_tma"):
            raise NotBoxesError("disable_tma=True")
        if notes.get("prefer_instruction") in ("sync", "cp_async"):
            raise NotBoxesError(f"prefer_instruction={notes['prefer_instruction']!r}")
        if tensor.storage == "global" and tensor.data not in self.known:
            raise NotBoxesError(f"the host does not know the address of `{name}`")
        if load and not _is_zero(self.safe.get(tensor.data)):
            raise NotBoxesError(f"outside of `{name}` it reads another value than 0")
        if load and tensor.data in self.written:
            raise NotBoxesError(f"the kernel writes `{name}`, too")
        groups = self.groups
        if copy in groups.partial or copy in groups.divergent:
            raise NotBoxesError("it is none of whole warps")


def _is_zero(value: object) -> bool:
    if value is None:
        return True
    found = E.as_expr(value)
    return isinstance(found, E.Const) and not found.value
