"""TMA legality: which copies TMA can make, and the reasons against the others.

A kernel's own TMA copies (``T.tma_copy``) use TMA only if all of them can, because their barriers
count either bytes or arrivals. Any other copy of a tile uses TMA where that is profitable.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from math import prod

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.bounds import Bounds, interval
from tilelang.ir.buffer import Buffer
from tilelang.ir.facts import bounds_of
from tilelang.ir.linear import Linear
from tilelang.layout.layout import Layout
from tilelang.target import Context
from tilelang.transforms.analysis import tma
from tilelang.transforms.analysis.groups import ThreadGroups, Uniformity, thread_groups
from tilelang.transforms.analysis.tma_candidates import tma_boxes

LEAST = 4096  # bytes of a copy that gets its own barrier


def is_never_negative(index: E.Expr, bounds: Bounds) -> bool:
    """Whether ``index``, an exact integer, is a sum of what is not negative."""
    form = Linear.of(index)
    return form.constant >= 0 and all(
        factor >= 0 and interval(term, bounds).low >= 0 for term, factor in form.terms
    )


def host_tensors(func: S.PrimFunc) -> frozenset[E.Var]:
    """The storage of the parameters, whose addresses the host has when it encodes maps."""
    return frozenset(param.data for param in func.buffers)


class TmaFacts:
    """Facts that decide how the copies of one launch are made.

    Args:
        known: see :func:`host_tensors`.
    """

    def __init__(self, launch: S.Launch, known: frozenset[E.Var], context: Context) -> None:
        self.launch = launch
        self.known = known
        self.context = context
        self.bounds = bounds_of(launch)
        self.safe = {buffer.data: value for buffer, value in launch.hints.safe_value}
        self.layouts = dict(launch.hints.layout_map)

    @cached_property
    def groups(self) -> ThreadGroups:
        """Which threads run what."""
        return thread_groups(self.launch, self.context.limits.warp)

    @cached_property
    def values(self) -> Uniformity:
        """On which values threads agree: not on what they load while the kernel changes it."""
        bodies = effects.accesses(self.launch.body, nested=True)
        loaded = {
            a.data for a in bodies if isinstance(a.by, E.Load) and a.buffer.storage == "global"
        }
        changing = loaded & self.written
        return Uniformity(self.launch, changing) if changing else self.groups.values

    @cached_property
    def uses(self) -> Counter[E.Var]:
        """The number of times that the kernel names each storage."""
        return Counter(access.data for access in effects.accesses(self.launch.body, nested=True))

    @cached_property
    def written(self) -> set[E.Var]:
        """The storage that the kernel writes."""
        return effects.written(self.launch.body)

    def is_profitable(self, copy: S.Copy) -> bool:
        """Whether TMA pays for a copy that threads could make, too: it needs an mbarrier, and one
        thread issues it while the others wait, instead of a few accesses by each."""
        sides = (copy.src, copy.dst)
        known = all(isinstance(extent, int) for extent in copy.dst.extents)
        scopes = {side.buffer.storage.removesuffix(".dyn") for side in sides}
        if not known or scopes != {"global", "shared"} or prod(self.launch.threads) == 1:
            return False
        size = prod(int(extent) for extent in copy.dst.extents) * copy.dst.dtype.bits // 8
        return size >= LEAST

    def begins_inside(self, copy: tma.TmaOp) -> E.Expr:
        """When no coordinate of ``copy`` is below 0. Loads of such boxes give zeros; for stores and
        reductions they are an illegal instruction (seen on an H200)."""
        tensor, _, load = tma.endpoints_of(copy)
        zero = E.const(0)
        below = [low for low in tensor.mins if not is_never_negative(low, self.bounds)]
        return E.conjunction([] if load else [E.binary("ge", low, zero) for low in below])

    def refusal(self, copy: tma.TmaOp) -> str | None:
        """Why the accelerator cannot make ``copy``; None if it can."""
        try:
            self.boxes(copy)
        except tma.TmaIneligibleError as why:
            return str(why)
        return None

    def boxes(self, copy: tma.TmaOp) -> tma.Boxes:
        """The boxes of ``copy`` under the layout that its tile is going to have.

        Raises:
            TmaIneligibleError: it is not a copy for TMA.
        """
        tensor, tile, load = tma.endpoints_of(copy)
        self._check(copy, tensor.buffer, load)
        layout = self.layouts.get(tile.buffer)
        shape = tile.buffer.shape
        if layout is None and all(isinstance(extent, int) for extent in shape):
            layout = tma.box_layout(tuple(int(extent) for extent in shape), tile.buffer.dtype.bits)
        result = tma_boxes(copy, layout if isinstance(layout, Layout) else None, self.bounds)
        if not _is_explicit(copy) and self.unproved(copy) is not None:
            raise tma.TmaIneligibleError("its coordinates differ between threads")
        return result

    def unproved(self, copy: tma.TmaOp) -> E.Expr | None:
        """A coordinate of ``copy`` that may differ between the threads that reach it."""
        tensor, tile, _ = tma.endpoints_of(copy)
        steps = (copy.nhw_step, copy.c_step) if isinstance(copy, S.Im2col) else ()
        coords = map(E.as_expr, (*tensor.mins, *tile.mins, *steps))
        return next((at for at in coords if self.values.differs(at, copy)), None)

    def _check(self, copy: tma.TmaOp, tensor: Buffer, load: bool) -> None:
        """Conditions that do not depend on regions and layouts."""
        name = tensor.name
        tma.require(not self.context.options.no_tma, "tl.disable_tma_lower")
        tma.require(self.context.has("tma"), "the target has no tensor maps")
        tma.require(not copy.hints.disable_tma, "disable_tma=True")
        if copy.hints.prefer_instruction in ("sync", "cp_async"):
            raise tma.TmaIneligibleError(f"prefer_instruction={copy.hints.prefer_instruction!r}")
        if tensor.storage == "global" and tensor.data not in self.known:
            raise tma.TmaIneligibleError(f"the address of `{name}` is not known on the host")
        if load and not _is_zero(self.safe.get(tensor.data)):
            raise tma.TmaIneligibleError(f"the safe value of `{name}` is not 0")
        if load and tensor.data in self.written:
            raise tma.TmaIneligibleError(f"the kernel writes `{name}`, too")
        is_explicit, groups = isinstance(copy, S.Copy) and _is_explicit(copy), self.groups
        if not is_explicit and not load and self.uses[tensor.data] > 1:
            raise tma.TmaIneligibleError(f"the kernel uses `{name}` elsewhere, too")
        if copy in groups.divergent or (copy in groups.partial and not is_explicit):
            raise tma.TmaIneligibleError("only a part of a warp executes it")


def _is_explicit(copy: tma.TmaOp) -> bool:
    """Whether the program requests TMA, so that the values of one thread define the copy."""
    return copy.use_tma if isinstance(copy, S.AtomicTile) else getattr(copy, "mode", "") == "tma"


def _is_zero(value: object) -> bool:
    if value is None:
        return True
    expr = E.as_expr(value)
    return isinstance(expr, E.Const) and not expr.value
