"""Access analysis: which boxes of the global tensors a kernel body reads and writes.

Used by the printer for ``T.reads``/``T.writes``. Loop variables are eliminated by their ranges;
where that cannot be done a dimension counts as a whole.
"""

from __future__ import annotations

from dataclasses import field

from tilelang.ir import effects
from tilelang.ir.buffer import Buffer, Region, as_extent, is_same_extent
from tilelang.ir.expr import Binary, Const, Expr, Ramp, Var, as_expr, binary, const
from tilelang.ir.stmt import Alloc, For, Let, Parallel, Stmt
from tilelang.ir.visitor import postorder, substitute
from tilelang.records import dataclass

Ends = tuple[Expr, Expr]  # least and greatest value
_MOST_NODES = 200  # of an index whose ends are looked for


@dataclass
class Accesses:
    """Boxes read and written, in the order in which the tensors first occur."""

    reads: dict[Buffer, list[Region]] = field(default_factory=dict)
    writes: dict[Buffer, list[Region]] = field(default_factory=dict)

    def boxes(self, boxes: dict[Buffer, list[Region]]) -> tuple[Region, ...]:
        """One region per tensor that covers all of its regions."""
        return tuple(_union(buffer, regions) for buffer, regions in boxes.items())


def tensor_boxes(body: Stmt) -> Accesses:
    """The accesses of ``body`` to global tensors (those it allocates itself are left out)."""
    collector = _Collector()
    collector.stmt(body)
    return collector.accesses


class _Collector:
    def __init__(self) -> None:
        self.accesses = Accesses()
        self.lets: dict[Var, Expr] = {}
        self.loops: dict[Var, Ends | None] = {}
        self.own: set[Buffer] = set()

    def stmt(self, stmt: Stmt) -> None:
        """Record the accesses of ``stmt`` and of everything in it."""
        if isinstance(stmt, Alloc):
            self.own.add(stmt.buffer)
        for access in effects.accesses(stmt):
            if access.reads:
                self.record(access, self.accesses.reads)
            if access.writes:
                self.record(access, self.accesses.writes)
        if isinstance(stmt, Let):
            self.lets[stmt.var] = substitute(stmt.value, self.lets)
        elif isinstance(stmt, For):
            last = None
            if isinstance(stmt.step, Const) and stmt.step.value == 1:
                last = (stmt.start, stmt.stop - 1)
            self.loops[stmt.var] = last
        elif isinstance(stmt, Parallel):
            for var, extent in zip(stmt.vars, stmt.extents):
                self.loops[var] = (const(0, var.dtype), as_expr(extent) - 1)
        for block in stmt.blocks():
            self.stmt(block)

    def record(self, access: effects.Access, where: dict[Buffer, list[Region]]) -> None:
        """Record the region of an access: a box, one element, or the first behind a pointer."""
        if isinstance(access.where, Region):
            self.region(access.where, where)
        else:
            self.element(access.buffer, access.indices, where)

    def element(
        self, buffer: Buffer, indices: tuple[Expr, ...], where: dict[Buffer, list[Region]]
    ) -> None:
        """Record one element, or the neighbours that a vector of indices names."""
        mins: list[Expr] = []
        extents: list[int | Expr] = []
        for index in indices:
            if isinstance(index, Ramp) and isinstance(index.stride, Const):
                mins.append(index.base)
                extents.append(1 + (index.lanes - 1) * int(index.stride.value))
            else:
                mins.append(index)
                extents.append(1)
        self.region(Region(buffer, tuple(mins), tuple(extents)), where)

    def region(self, region: Region, where: dict[Buffer, list[Region]]) -> None:
        """Record ``region`` for all iterations of the loops around it."""
        if region.buffer.storage != "global" or region.buffer in self.own:
            return
        mins: list[Expr] = []
        extents: list[int | Expr] = []
        for low, extent, dim_size in zip(region.mins, region.extents, region.buffer.shape):
            ends = self.ends(substitute(low, self.lets))
            size = substitute(as_expr(extent), self.lets)
            if ends is None or not self.is_fixed(size):
                mins.append(const(0))
                extents.append(dim_size)
            else:
                mins.append(ends[0])
                extents.append(_size(ends, size))
        where.setdefault(region.buffer, []).append(
            Region(region.buffer, tuple(mins), tuple(extents))
        )

    def ends(self, expr: Expr) -> Ends | None:
        """Least and greatest value of ``expr`` over the loops around it, None if unknown."""
        # More is not worth the time: it is only for display.
        is_short = self.is_fixed(expr) or sum(1 for _ in postorder(expr)) <= _MOST_NODES
        return self._ends(expr) if is_short else None

    def is_fixed(self, expr: Expr) -> bool:
        """Whether ``expr`` is the same in all iterations."""
        return self.loops.keys().isdisjoint(expr.variables)

    def _ends(self, expr: Expr) -> Ends | None:
        if self.is_fixed(expr):
            return expr, expr
        if isinstance(expr, Var):
            known = self.loops[expr]
            if known is None:
                return None
            low, high = self._ends(known[0]), self._ends(known[1])
            return None if low is None or high is None else (low[0], high[1])
        if not isinstance(expr, Binary):
            return None
        a, b = self._ends(expr.a), self._ends(expr.b)
        if a is None or b is None:
            return None
        if expr.op in ("add", "min", "max"):
            return binary(expr.op, a[0], b[0]), binary(expr.op, a[1], b[1])
        if expr.op == "sub":
            return a[0] - b[1], a[1] - b[0]
        if expr.op in ("mul", "floordiv") and b[0] is b[1] and _is_positive(b[0]):
            return binary(expr.op, a[0], b[0]), binary(expr.op, a[1], b[0])
        if expr.op == "mul" and a[0] is a[1] and _is_positive(a[0]):
            return a[0] * b[0], a[0] * b[1]
        return (expr, expr) if a[0] is a[1] and b[0] is b[1] else None


def _is_positive(expr: Expr) -> bool:
    return isinstance(expr, Const) and expr.value > 0


def _size(ends: Ends, extent: Expr) -> int | Expr:
    from tilelang.ir.simplify import simplify

    if ends[0] is ends[1]:
        return as_extent(extent)
    return as_extent(simplify(ends[1] - ends[0] + extent))


def _union(buffer: Buffer, regions: list[Region]) -> Region:
    mins: list[Expr] = []
    extents: list[int | Expr] = []
    for dim in range(buffer.ndim):
        spans = [(region.mins[dim], region.extents[dim]) for region in regions]
        low, extent = spans[0]
        for other, size in spans[1:]:
            low, extent = _join(low, extent, other, size)
        mins.append(low)
        extents.append(extent)
    return Region(buffer, tuple(mins), tuple(extents))


def _join(low: Expr, extent: int | Expr, other: Expr, size: int | Expr) -> tuple[Expr, int | Expr]:
    """The least span that holds both."""
    if low is other and is_same_extent(extent, size):
        return low, extent
    least = low if low is other else binary("min", low, other)
    if is_same_extent(extent, size):
        end = binary("max", low, other) + as_expr(extent)
    else:
        end = binary("max", low + as_expr(extent), other + as_expr(size))
    return least, as_extent(end - least)
