"""Tile operations that are loops over elements, as the parallel loops that they mean."""

from __future__ import annotations

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.layout.distribution import Distribution
from tilelang.passes.analysis.vectors import VECTOR_BITS, run_of
from tilelang.passes.layouts.access import accesses, is_memory

INT = DType("int32")
NAMES = "ijklmn"


def loop_of(stmt: S.Stmt) -> S.Parallel | None:
    """The parallel loop of a ``Copy``, ``Fill`` or ``Parallel``; None for other statements."""
    if isinstance(stmt, S.Parallel):
        return stmt
    if isinstance(stmt, S.Copy):
        return _loop(stmt.dst, stmt.src, None, stmt)
    if isinstance(stmt, S.Fill):
        return _loop(stmt.dst, None, stmt.value, stmt)
    return None


def _loop(dst: Region, src: Region | None, value: E.Expr | None, stmt: S.Stmt) -> S.Parallel:
    dims = dst.tile_dims()
    variables = tuple(E.Var(NAMES[d] if d < len(NAMES) else f"i{d}", INT) for d in range(len(dims)))
    if src is not None:
        value = E.Load(src.buffer, element(src, variables))
    assert value is not None
    store = S.Store(
        buffer=dst.buffer,
        indices=element(dst, variables),
        value=E.cast(value, dst.dtype),
        loc=stmt.loc,
    )
    extents = tuple(E.as_expr(dst.extents[d]) for d in dims)
    return S.Parallel(
        vars=variables,
        extents=extents,
        body=store,
        loop_layout=getattr(stmt, "loop_layout", None),
        annotations=getattr(stmt, "annotations", ()),
        loc=stmt.loc,
    )


def element(region: Region, variables: tuple[E.Expr, ...]) -> tuple[E.Expr, ...]:
    """Indices of the element of ``region`` at ``variables`` along its tile dimensions."""
    position = dict(zip(region.tile_dims(), variables))
    return tuple(
        low if d not in position else E.binary("add", low, position[d])
        for d, low in enumerate(region.mins)
    )


def free_spread(
    loop: S.Parallel, extents: tuple[int, ...], threads: int, bounds: Bounds
) -> Distribution:
    """The distribution of a loop that no fragment decides: neighbouring threads take neighbouring
    vectors, as wide as its memory accesses allow and all threads have work."""
    return Distribution.linear(extents, threads, vector_width(loop, extents, threads, bounds))


def vector_width(loop: S.Parallel, extents: tuple[int, ...], threads: int, bounds: Bounds) -> int:
    """Elements per thread and step: 16 bytes of the widest memory access along the last loop
    variable, fewer if accesses are not aligned or there is less than a vector per thread."""
    if not extents:
        return 1
    var, inner = loop.vars[-1], bounds
    for item, extent in zip(loop.vars, extents):
        inner = inner.with_range(item, 0, extent)
    total = 1
    for extent in extents:
        total *= extent
    runs, bits = [], []
    for access in accesses(loop):
        if is_memory(access) and any(var in index.variables for index in access.indices):
            runs.append(run_of(access.buffer, access.indices, var, inner))
            bits.append(access.buffer.dtype.bits)
    width = max(runs, default=1)
    if bits and width > 1:
        width = min(width, max(1, VECTOR_BITS // min(bits)))
    while width > 1 and (extents[-1] % width or total // width < threads):
        width //= 2
    return width
