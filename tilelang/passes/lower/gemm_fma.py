"""``Gemm`` without matrix instructions: every thread multiplies for its own part of the result.

For each k a thread loads the elements of A for its rows and those of B for its columns, and adds
all their products. Any dtypes, any sizes and any number of threads do. Narrow floats are added up
in float32 and rounded once.
"""

from __future__ import annotations

from tilelang.errors import InternalError, Loc
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer, Region
from tilelang.layout.register_layout import RegisterLayout
from tilelang.passes.analysis.combine import accumulator
from tilelang.passes.analysis.scopes import FRAGMENT
from tilelang.passes.layouts.gemm_plan import GemmPlan
from tilelang.passes.lower.context import Lowering
from tilelang.passes.lower.elements import array, guarded, loop
from tilelang.passes.lower.gemm_accumulator import accumulator_of, plan_of


def lower_gemm_fma(stmt: S.Gemm, ctx: Lowering) -> S.Stmt:
    """Thread IR of ``stmt`` by multiplications and additions."""
    wide = accumulator(stmt.a.dtype, stmt.c.dtype)
    plan = plan_of(stmt)
    total = accumulator_of(stmt, ctx, wide)
    rows, columns = (_slots(plan.sum, dim) for dim in (0, 1))
    a, b = array("a", wide, rows), array("b", wide, columns)
    k = ctx.fresh("k")
    step = S.seq(
        _load(a, stmt.a, stmt.trans_a, 0, k, plan, ctx, stmt.loc),
        _load(b, stmt.b, not stmt.trans_b, 1, k, plan, ctx, stmt.loc),
        _multiply(total.registers, a, b, rows, columns, plan, ctx, stmt.loc),
    )
    return S.seq(
        total.start(),
        S.Alloc(buffer=a),
        S.Alloc(buffer=b),
        loop(k, plan.k, step, "serial"),
        total.finish(),
    )


def _slots(held: RegisterLayout, dim: int) -> int:
    """How many rows or columns a thread has."""
    return next((d.extent for d in held.modes[dim] if d.place == "register"), 1)


def _index(held: RegisterLayout, dim: int, position: E.Expr, ctx: Lowering) -> E.Expr:
    """The row (or column) of a thread at a position among its own."""
    index: E.Expr = position
    for mode in held.modes[dim]:
        if mode.place == "thread":
            here = ctx.group.thread // mode.stride
            if mode.stride * mode.extent < held.threads:
                here = here % mode.extent
            index = position * mode.extent + here
    return index


def _padded(held: RegisterLayout, dim: int) -> bool:
    count = 1
    for mode in held.modes[dim]:
        count *= mode.extent
    return count > held.shape[dim]


def _load(
    registers: Buffer,
    region: Region,
    k_first: bool,
    dim: int,
    k: E.Var,
    plan: GemmPlan,
    ctx: Lowering,
    loc: Loc | None,
) -> S.Stmt:
    """The elements of a factor that the thread needs for one ``k``."""
    if region.buffer.storage == FRAGMENT:
        raise InternalError(f"`{region.buffer.name}` is not in shared memory")
    var = ctx.fresh("i")
    index = _index(plan.sum, dim, var, ctx)
    if _padded(plan.sum, dim):  # what is computed from the repeated last one is not kept
        index = E.binary("min", index, E.const(plan.sum.shape[dim] - 1))
    low = region.mins
    pair = (k, index) if k_first else (index, k)
    at = (*low[:-2], low[-2] + pair[0], low[-1] + pair[1])
    value = E.cast(E.Load(*ctx.place(region.buffer, at)), registers.dtype)
    store = S.Store(buffer=registers, indices=(var,), value=value, loc=loc)
    return loop(var, int(E.as_expr(registers.shape[0])), store)


def _multiply(
    total: Buffer,
    a: Buffer,
    b: Buffer,
    rows: int,
    columns: int,
    plan: GemmPlan,
    ctx: Lowering,
    loc: Loc | None,
) -> S.Stmt:
    i, j = ctx.fresh("i"), ctx.fresh("j")
    at = (i * columns + j,)
    value = E.Load(total, at) + E.Load(a, (i,)) * E.Load(b, (j,))
    conditions = [
        _index(plan.sum, dim, var, ctx) < plan.sum.shape[dim]
        for dim, var in enumerate((i, j))
        if _padded(plan.sum, dim)
    ]
    body = guarded(conditions, S.Store(buffer=total, indices=at, value=value, loc=loc))
    return loop(i, rows, loop(j, columns, body))
