"""Lower tile operations to loop nests over elements.

For targets on which one core runs a whole block. Each operation becomes a loop nest of loads and
stores over its elements. Hints mark loops with independent iterations, reductions and scans. A
``Gemm`` that the back end has not replaced by a micro-kernel becomes a triple loop. :mod:`guards`
inserts the bounds checks of global accesses after this pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.elementwise import as_nest, loop_of, moved, print_lines
from tilelang.ir.hints import PLAIN_LOOP, LoopHints
from tilelang.ir.visitor import map_stmts
from tilelang.target.features import lowest_with
from tilelang.transforms.analysis.combine import (
    COMBINE,
    accumulator,
    combine,
    identity_of,
    rounded,
    start_of,
    update_store,
)

INT = DType("int32")


def lower_tiles_except(func: S.PrimFunc, keep: Callable[[S.Gemm], bool]) -> S.PrimFunc:
    """``func`` with tile operations as loops, but products for which a back end has a kernel."""

    def lowered(stmt: S.Stmt) -> S.Stmt | list[S.Stmt] | None:
        return stmt if isinstance(stmt, S.Gemm) and keep(stmt) else lower_tile_op(stmt)

    return func.with_body(map_stmts(func.body, S.Stmt, lowered))


def lower_tile_op(stmt: S.Stmt) -> S.Stmt | list[S.Stmt] | None:
    """The loops of one statement; the statement itself when it is not a tile operation."""
    if isinstance(stmt, S.TileOp) and (loop := loop_of(stmt)) is not None:
        # Two elements of an atomic update may be one place.
        return as_nest(loop, independent=not isinstance(stmt, S.AtomicTile))
    if isinstance(stmt, S.Reduce):
        return _reduce(stmt)
    if isinstance(stmt, S.Scan):
        return _scan(stmt)
    if isinstance(stmt, S.ReducerInit):
        value = stmt.init if stmt.init is not None else identity_of(stmt.reducer)
        return elementwise(stmt.reducer, [], lambda _: value, stmt)
    if isinstance(stmt, S.ReducerUpdate):
        return update_store(stmt)
    if isinstance(stmt, S.ReducerFinalize):
        if stmt.dst is None:
            return None  # the one copy already holds the total
        return elementwise(stmt.dst, [stmt.reducer], lambda values: values[0], stmt)
    if isinstance(stmt, S.Gemm):
        return _gemm(stmt)
    if isinstance(stmt, S.PrintTile):
        src = stmt.src
        all_dims = tuple(range(len(src.extents)))
        return print_lines(stmt, lambda at: E.Load(src.buffer, indices_at(src, all_dims, at)))
    if isinstance(stmt, S.HardwareOp):
        raise TileUnsupportedError(
            f"T.{stmt.name} needs {lowest_with(stmt.needs)}",
            expected=f"a target with {lowest_with(stmt.needs)}",
            got="a target that runs blocks on CPU cores",
            hint="write the operation with T.copy and T.gemm, or choose another target",
            loc=stmt.loc,
        )
    return stmt


def nest(
    extents: list[E.Expr], names: str, body: Callable[[list[E.Var]], S.Stmt], stmt: S.Stmt,
    parallel: bool = True,
) -> S.Stmt:  # fmt: skip
    """Loops over ``extents`` around ``body(vars)``."""
    variables = [E.Var(names[d] if d < len(names) else f"i{d}", INT) for d in range(len(extents))]
    return S.nested(variables, extents, body(variables), parallel, stmt.loc)


def indices_at(
    region: Region, dims: tuple[int, ...], variables: Sequence[E.Expr]
) -> tuple[E.Expr, ...]:
    """Indices of the element of ``region`` at ``variables`` along ``dims``."""
    return moved(region, dict(zip(dims, variables)))


def load_at(region: Region, dims: tuple[int, ...], variables: list[E.Var]) -> E.Expr:
    """The element of ``region`` at ``variables`` along ``dims``."""
    return E.Load(region.buffer, indices_at(region, dims, variables))


def elementwise(dst: Region, sources: list[Region], compute: object, stmt: S.Stmt) -> S.Stmt:
    """``dst[i..] = compute(sources[i..])`` over the non-unit dimensions of ``dst``."""
    dims = dst.tile_dims()

    def body(variables: list[E.Var]) -> S.Stmt:
        values = [load_at(src, src.tile_dims(), variables) for src in sources]
        value = E.cast(compute(values), dst.dtype)  # type: ignore[operator]  # a callable
        indices = indices_at(dst, dims, variables)
        return S.Store(buffer=dst.buffer, indices=indices, value=value, loc=stmt.loc)

    return nest([E.as_expr(dst.extents[d]) for d in dims], "ijklmn", body, stmt)


def _reduce(stmt: S.Reduce) -> list[S.Stmt]:
    """Rows reduced one by one when the dimension is contiguous, else row after row into dst."""
    src, dst = stmt.src, stmt.dst
    rank = len(src.extents)
    kept_dims = [d for d in range(rank) if d != stmt.dim]
    same_rank = len(dst.extents) == rank
    extents = [E.as_expr(src.extents[d]) for d in kept_dims]

    def at_dst(variables: list[E.Var]) -> tuple[E.Expr, ...]:
        if same_rank:
            return indices_at(dst, tuple(kept_dims), variables)
        if not kept_dims:  # a one-dimensional source gives one element
            return dst.mins
        return indices_at(dst, tuple(range(len(kept_dims))), variables)

    def element(variables: list[E.Var], k: E.Var) -> E.Expr:
        indices = list(variables)
        indices.insert(stmt.dim, k)
        value = E.cast(load_at(src, tuple(range(rank)), indices), dst.dtype)
        return E.call("abs", value) if stmt.kind.startswith("abs") else value

    start = start_of(stmt.kind, dst.dtype)
    length = E.as_expr(src.extents[stmt.dim])
    if stmt.dim == rank - 1:
        return [
            nest(
                extents,
                "ijlmn",
                lambda v: _reduce_row(stmt, at_dst(v), v, element, start, length),
                stmt,
            )
        ]
    out: list[S.Stmt] = []
    if stmt.clear:
        out.append(elementwise(dst, [], lambda _: start, stmt))
    k = E.Var("k", INT)

    def body(variables: list[E.Var]) -> S.Stmt:
        old = E.Load(dst.buffer, at_dst(variables))
        new = combine(stmt.kind, old, element(variables, k), stmt.nan_propagate)
        return S.Store(buffer=dst.buffer, indices=at_dst(variables), value=new, loc=stmt.loc)

    out.append(S.counted(k, length, nest(extents, "ijlmn", body, stmt), loc=stmt.loc))
    return out


def _reduce_row(
    stmt: S.Reduce, indices: tuple[E.Expr, ...], variables: list[E.Var], element: object,
    start: E.Expr, length: E.Expr,
) -> S.Stmt:  # fmt: skip
    dtype = stmt.dst.dtype
    # Sums of narrow floats are kept in float32 and rounded once.
    wide = DType("float32") if dtype.is_float and dtype.bits < 32 else dtype
    total = Buffer("total", Shape((1,)), wide, "local.var")
    zero = (E.const(0),)
    k = E.Var("k", INT)
    value = E.cast(element(variables, k), wide)  # type: ignore[operator]  # a callable
    step = combine(stmt.kind, E.Load(total, zero), value, stmt.nan_propagate)
    op = COMBINE[stmt.kind]
    if stmt.nan_propagate and op in ("max", "min") and wide.is_float:
        op = f"f{op}_nan"
    add = S.Store(buffer=total, indices=zero, value=step, loc=stmt.loc)
    loop = S.counted(k, length, add, "serial", LoopHints(reduction=((op, total),)), stmt.loc)
    result = rounded(E.Load(total, zero), dtype)
    if not stmt.clear:
        result = combine(stmt.kind, E.Load(stmt.dst.buffer, indices), result, stmt.nan_propagate)
    store = S.Store(buffer=stmt.dst.buffer, indices=indices, value=result, loc=stmt.loc)
    return S.seq(S.Alloc(buffer=total, init=E.cast(start, wide)), loop, store)


def _gemm(stmt: S.Gemm) -> S.Stmt:
    """Dot products, summed in the accumulator dtype and rounded to the result's once."""
    wide = accumulator(stmt.a.dtype, stmt.c.dtype)
    rows, columns = (E.as_expr(extent) for extent in stmt.c.extents[-2:])
    length = E.as_expr(stmt.a.extents[-2 if stmt.trans_a else -1])

    def at(region: Region, row: E.Expr, column: E.Expr) -> tuple[E.Expr, ...]:
        low = region.mins
        return (*low[:-2], low[-2] + row, low[-1] + column)

    def body(variables: list[E.Var]) -> S.Stmt:
        i, j = variables
        k = E.Var("k", INT)
        total = Buffer("total", Shape((1,)), wide, "local.var")
        zero = (E.const(0),)
        a = E.Load(stmt.a.buffer, at(stmt.a, *((k, i) if stmt.trans_a else (i, k))))
        b = E.Load(stmt.b.buffer, at(stmt.b, *((j, k) if stmt.trans_b else (k, j))))
        step = E.Load(total, zero) + E.cast(a, wide) * E.cast(b, wide)
        target = at(stmt.c, i, j)
        old = E.cast(E.Load(stmt.c.buffer, target), wide)
        add = S.Store(buffer=total, indices=zero, value=step, loc=stmt.loc)
        loop = S.counted(k, length, add, "serial", LoopHints(reduction=(("add", total),)), stmt.loc)
        value = E.cast(E.Load(total, zero), stmt.c.dtype)
        store = S.Store(buffer=stmt.c.buffer, indices=target, value=value, loc=stmt.loc)
        first = E.select(stmt.clear, E.const(0, wide), old)
        return S.seq(S.Alloc(buffer=total, init=first), loop, store)

    return nest([rows, columns], "ij", body, stmt, False)


def _scan(stmt: S.Scan) -> list[S.Stmt]:
    """Rows scanned one by one when the dimension is contiguous, else row after row of ``dst``."""
    rank = len(stmt.src.extents)
    length = E.as_expr(stmt.src.extents[stmt.dim])
    other_dims = [d for d in range(rank) if d != stmt.dim]
    extents = [E.as_expr(stmt.src.extents[d]) for d in other_dims]
    start, zero, k = start_of(stmt.kind, stmt.dst.dtype), (E.const(0),), E.Var("k", INT)

    def at(region: Region, variables: list[E.Var], index: E.Expr) -> E.Load:
        position: dict[int, E.Expr] = dict(zip(other_dims, variables))
        position[stmt.dim] = length - 1 - index if stmt.reverse else index
        all_dims = tuple(range(rank))
        return E.Load(region.buffer, indices_at(region, all_dims, [position[d] for d in all_dims]))

    def step(old: E.Expr, variables: list[E.Var], index: E.Expr) -> E.Expr:
        return combine(stmt.kind, old, E.cast(at(stmt.src, variables, index), stmt.dst.dtype))

    def put(variables: list[E.Var], index: E.Expr, value: E.Expr) -> S.Stmt:
        to = at(stmt.dst, variables, index).indices
        return S.Store(buffer=stmt.dst.buffer, indices=to, value=value, loc=stmt.loc)

    def over(first: int, body: S.Stmt, hints: LoopHints = PLAIN_LOOP) -> S.Stmt:
        return S.counted(k, length, body, "serial", hints, stmt.loc, first)

    def row(variables: list[E.Var]) -> S.Stmt:
        total = Buffer("total", Shape((1,)), stmt.dst.dtype, "local.var")
        new = step(E.Load(total, zero), variables, k)
        store = S.Store(buffer=total, indices=zero, value=new, loc=stmt.loc)
        body = S.seq(store, put(variables, k, E.Load(total, zero)))
        hints = LoopHints() if stmt.reverse else LoopHints(scan=(COMBINE[stmt.kind], total))
        return S.seq(S.Alloc(buffer=total, init=start), over(0, body, hints))

    if stmt.dim == rank - 1:
        return [nest(extents, "ijlmn", row, stmt)]

    def first(variables: list[E.Var]) -> S.Stmt:
        return put(variables, E.const(0), step(start, variables, E.const(0)))

    def later(variables: list[E.Var]) -> S.Stmt:
        return put(variables, k, step(at(stmt.dst, variables, k - 1), variables, k))

    return [nest(extents, "ijlmn", first, stmt), over(1, nest(extents, "ijlmn", later, stmt))]
