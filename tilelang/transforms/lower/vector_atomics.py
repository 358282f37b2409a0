"""Vectorized atomics: sums that one thread adds to neighbouring elements."""

from __future__ import annotations

from dataclasses import replace
from itertools import takewhile

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.facts import bounds_of
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import inline_lets, substitute
from tilelang.transforms.analysis.atomics import SUMS
from tilelang.transforms.analysis.loops import values_of
from tilelang.transforms.analysis.vectors import run_of
from tilelang.transforms.lower.context import HIDDEN
from tilelang.transforms.rules import Cursor, rule


@rule(S.For, needs="vector_red")
def vectorize_atomics(stmt: S.For, cursor: Cursor) -> S.Stmt | list[S.Stmt]:
    """Join atomic updates of neighbouring elements.

    A tile of sums in registers is added to global memory element by element, though matrix
    instructions leave neighbours with a thread. Machines that add vectors to memory take two or
    four float32 or two 16-bit floats as one instruction, a quarter or half of the requests: still
    each element as one step, in no order, which is all that relaxed sums promise. A single 16-bit
    sum is a loop of compare-and-swap there.

    Only where the previous values are not used, neither what is added nor a condition or an index
    is read from what is added to, and the run is aligned to its size. Runs before the vectorizer,
    whose lane loops it reads, and after the guards, since all of a run is inside or outside by
    then.
    """
    values = values_of(stmt) if stmt.kind == "vectorized" else None
    rows, cond, call = _sum(stmt) if values and values.step == 1 else ([], None, None)
    if not values or call is None:
        return stmt
    bounds = cursor.of(bounds_of, cursor.kernel)
    address, value = call.args
    assert isinstance(address, E.AddressOf)
    first, count, dtype = values.start, len(values), address.buffer.dtype
    lanes = run_of(address.buffer, address.indices, stmt.var, bounds, SUMS[dtype])
    while first % lanes or count % lanes:
        lanes //= 2
    if lanes < 2:
        return stmt
    atomics, ahead = list[S.Stmt](), list[S.Stmt]()
    if not all(load.buffer.storage.startswith("local") for load in E.find(value, E.Load)):
        array = Buffer("added", Shape((count,)), dtype, "local", attrs=HIDDEN)
        value = value if cond is None else E.select(cond, value, E.const(0.0, dtype))
        store = S.Store(buffer=array, indices=(stmt.var - first,), value=value, loc=stmt.body.loc)
        ahead = [S.Alloc(buffer=array), replace(stmt, body=store)]
        value = E.Load(array, store.indices)
    for at in range(first, first + count, lanes):
        begin: dict[E.Var, E.Expr] = {stmt.var: E.const(at)}
        indices = tuple(simplify(substitute(index, begin)) for index in address.indices)
        added = tuple(
            simplify(substitute(value, {stmt.var: E.const(at + k)})) for k in range(lanes)
        )
        joined = E.call(
            f"atomic_addx{lanes}", E.AddressOf(address.buffer, indices, address.access),
            E.Vector(added), dtype=dtype.with_lanes(lanes), return_prev=False, aligned=True,
        )  # fmt: skip
        atomics.append(S.Eval(value=joined, loc=stmt.body.loc))
    if cond is not None:
        atomics = [S.If(cond=cond, then=S.seq(*atomics), loc=stmt.loc)]
    return [*rows, *ahead, *atomics]


def _sum(loop: S.For) -> tuple[list[S.Let], E.Expr | None, E.Call | None]:
    """The names of all lanes, the condition and the sum that are all that ``loop`` does; no call
    where it does anything else."""
    stmts = S.flat(inline_lets(loop.body, lambda value: not E.holds(value, E.Load, E.Call)))
    lets = takewhile(lambda s: isinstance(s, S.Let) and loop.var not in s.value.variables, stmts)
    rows = [let for let in lets if isinstance(let, S.Let)]
    body, conds = S.seq(*stmts[len(rows) :]), list[E.Expr]()
    while isinstance(body, S.If) and body.orelse is None:
        conds, body = [*conds, body.cond], body.then
    value = body.value if isinstance(body, S.Eval) else None
    if isinstance(value, E.Select) and isinstance(value.f, E.Const):
        conds, value = [*conds, value.cond], value.t
    if not isinstance(value, E.Call) or value.op != "atomic_add" or len(value.args) != 2:
        return [], None, None
    address, added = value.args
    if not isinstance(address, E.AddressOf) or address.buffer.storage != "global":
        return [], None, None
    if address.buffer.dtype not in SUMS or added.dtype != address.buffer.dtype:
        return [], None, None
    if str(value.attr("memory_order", "relaxed")) != "relaxed":
        return [], None, None
    parts = (added, *conds, *address.indices, *(let.value for let in rows))
    inner = [call for part in parts for call in E.find(part, E.Call)]
    own = address.buffer.data in set[E.Var]().union(*map(effects.used, parts))
    own = own or any(loop.var in cond.variables for cond in conds)
    if own or any(call.atom.effect is not Effect.NONE for call in inner):
        return [], None, None
    return rows, E.conjunction(conds) if conds else None, value
