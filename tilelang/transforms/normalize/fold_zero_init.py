"""Let the first product of a loop overwrite its accumulator instead of clearing it before."""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.linear import Linear
from tilelang.ir.simplify import simplify
from tilelang.transforms.analysis.loops import values_of
from tilelang.transforms.rules import Cursor, rule


@rule(S.Seq, where=lambda func, _: S.holds(func.body, S.Gemm))
def fold_zero_init(seq: S.Seq, cursor: Cursor) -> S.Stmt:
    """Let the first product of a loop overwrite its accumulator.

    ``T.clear(C)`` followed by a loop that accumulates into C becomes a loop whose product has
    ``clear = (k == start)``: one pass over the accumulator less, and on tensor cores no zero fill
    of registers. Only where nothing else touches C in between, the loop surely runs, and the
    product is directly in its body, so that it executes in the first iteration.

    On CPU cores and with wgmma, whose first instruction overwrites its accumulator, this also holds
    for a product directly after the clear. It holds in all iterations in which the mask that
    initializes the accumulator (zeros, or minus infinity above the diagonal) is all zeros; only the
    other iterations write the mask.
    """
    context = cursor.context
    by_units = context.has("wgmma") and not context.options.no_overlap
    result = _fold(seq)
    directly = by_units or context.has("cores")
    return _overwriting(result) if directly and isinstance(result, S.Seq) else result


def _fold(seq: S.Seq) -> S.Stmt:
    stmts = list(seq.stmts)
    for at, stmt in enumerate(stmts):
        if not _is_clear(stmt):
            continue
        assert isinstance(stmt, S.Fill)
        data = stmt.dst.buffer.data
        later = next((i for i in range(at + 1, len(stmts)) if data in effects.used(stmts[i])), None)
        if later is None:
            continue
        loop = stmts[later]
        changed = _with_clear(loop, data) if isinstance(loop, S.For) else None
        if changed is not None:
            stmts[later] = changed
            del stmts[at]
            return _fold(S.Seq(stmts=tuple(stmts), loc=seq.loc))
    return seq if len(stmts) == len(seq.stmts) else S.Seq(stmts=tuple(stmts), loc=seq.loc)


def _is_clear(stmt: S.Stmt) -> bool:
    return (
        isinstance(stmt, S.Fill)
        and isinstance(stmt.value, E.Const)
        and stmt.value.value == 0
        and stmt.dst.is_whole
        and stmt.dst.buffer.storage == "local.fragment"
    )


def _with_clear(loop: S.For, data: E.Var) -> S.For | None:
    """The loop with its product clearing in the first iteration, None where that is not safe."""
    values = values_of(loop)
    if not values:
        return None
    body = S.flat(loop.body)
    users = [stmt for stmt in body if data in effects.used(stmt)]
    if len(users) != 1 or S.holds(loop.body, *S.LEAVES):
        return None
    gemm = users[0]
    if not _adds_to(gemm, data):
        return None
    assert isinstance(gemm, S.Gemm)
    clearing = replace(gemm, clear=E.binary("eq", loop.var, E.const(values.start, loop.var.dtype)))
    return replace(loop, body=S.seq(*(clearing if stmt is gemm else stmt for stmt in body)))


def _adds_to(stmt: S.Stmt, data: E.Var) -> bool:
    """Whether ``stmt`` is a product that adds to all of ``data``."""
    return (
        isinstance(stmt, S.Gemm)
        and stmt.c.buffer.data is data
        and stmt.c.is_whole
        and stmt.a.buffer.data is not data
        and stmt.b.buffer.data is not data
        and isinstance(stmt.clear, E.Const)
        and not stmt.clear.value
    )


def _overwriting(seq: S.Seq) -> S.Stmt:
    """``seq`` with products that overwrite zeros stored before them."""
    stmts = list(seq.stmts)
    for at, stmt in enumerate(stmts):
        zeroed = _zeros(stmt)
        if zeroed is None:
            continue
        data, zeros = zeroed
        later = next((i for i in range(at + 1, len(stmts)) if data in effects.used(stmts[i])), None)
        if later is None or not _adds_to(stmts[later], data):
            continue
        if any(not zeros.variables.isdisjoint(node.parts("var")) for node in stmts[at:later]):
            continue
        stmts[later] = replace(stmts[later], clear=zeros)  # type: ignore[call-arg]  # a product
        kept = E.unary("lnot", zeros)
        nothing = S.Seq(stmts=())
        stmts[at] = nothing if zeros is E.const(True) else S.If(cond=kept, then=stmt, loc=stmt.loc)
    return seq.of(stmts)


def _zeros(stmt: S.Stmt) -> tuple[E.Var, E.Expr] | None:
    """A statement that fills a fragment with zeros, or a loop that does where ``a >= b``, and with
    something else elsewhere: the fragment, and whether all is zeros."""
    if isinstance(stmt, S.Fill) and _is_clear(stmt):
        return stmt.dst.buffer.data, E.const(True)
    if not isinstance(stmt, S.Parallel) or not isinstance(stmt.body, S.Store):
        return None
    store = stmt.body
    value = store.value
    if store.buffer.storage != "local.fragment" or not isinstance(value, E.Select):
        return None
    if not E.are_same_exprs(store.indices, stmt.vars) or store.buffer.shape != stmt.extents:
        return None
    if not (isinstance(value.t, E.Const) and value.t.value == 0):
        return None
    least = _worst_case(value.cond, dict(zip(stmt.vars, stmt.extents)))
    return None if least is None else (store.buffer.data, least)


def _worst_case(cond: E.Expr, extents: dict[E.Var, object]) -> E.Expr | None:
    """Whether ``cond``, a comparison of sums, holds for all values of variables."""
    if not isinstance(cond, E.Binary) or cond.op not in ("ge", "gt", "le", "lt"):
        return None
    high, low = (cond.a, cond.b) if cond.op in ("ge", "gt") else (cond.b, cond.a)
    form = Linear.of(high - low)
    past = form.constant
    others: list[tuple[E.Expr, int]] = []
    for term, factor in form.terms:
        if term in extents:
            extent = extents[term]  # type: ignore[index]  # a variable
            if not isinstance(extent, int) and not isinstance(extent, E.Const):
                return None
            past += min(0, factor * (int(extent) - 1))
        elif term.variables.isdisjoint(extents):
            others.append((term, factor))
        else:
            return None
    total = Linear(tuple(others), past, cond.a.dtype).expr()
    return simplify(total >= 0 if cond.op in ("ge", "le") else total > 0)
