"""Vectorized atomics: sums that one thread adds to neighbouring elements."""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.facts import bounds_of
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import substitute
from tilelang.transforms.analysis.atomics import SUMS
from tilelang.transforms.analysis.vectors import run_of
from tilelang.transforms.lower.context import HIDDEN
from tilelang.transforms.rules import Cursor, rule

MOST = 4  # of float32 in an instruction


@rule(S.For, needs="vector_red")
def vectorize_atomics(stmt: S.For, cursor: Cursor) -> S.Stmt | list[S.Stmt]:
    """Join atomic updates of neighbouring elements.

    A tile of sums in registers is added to global memory element by element, though matrix
    instructions leave neighbours with a thread. Machines that add vectors of float32 to memory take
    two or four of them as one instruction, a quarter or half of the requests: still each element as
    one step, in no order, which is all that relaxed sums promise.

    Only where the previous values are not used, what is added is not read from what is added to,
    and the run is aligned to its size. Runs before the vectorizer, whose lane loops it reads, and
    after the guards, since all of a run is inside or outside by then.
    """
    if stmt.kind != "vectorized":
        return stmt
    bounds = cursor.of(bounds_of, cursor.kernel)
    start, stop, step = stmt.start, stmt.stop, stmt.step
    if not (isinstance(start, E.Const) and isinstance(stop, E.Const) and int(step) == 1):
        return stmt
    cond, call = _sum(stmt)
    if call is None:
        return stmt
    address, value = call.args
    assert isinstance(address, E.AddressOf)
    first, count = int(start.value), int(stop.value) - int(start.value)
    lanes = run_of(address.buffer, address.indices, stmt.var, bounds, MOST)
    while first % lanes or count % lanes:
        lanes //= 2
    if lanes < 2:
        return stmt
    atomics, ahead = list[S.Stmt](), list[S.Stmt]()
    if not all(load.buffer.storage.startswith("local") for load in E.find(value, E.Load)):
        array = Buffer("added", Shape((count,)), SUMS, "local", attrs=HIDDEN)
        value = value if cond is None else E.select(cond, value, E.const(0.0, SUMS))
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
            E.Vector(added), dtype=SUMS.with_lanes(lanes), return_prev=False,
        )  # fmt: skip
        atomics.append(S.Eval(value=joined, loc=stmt.body.loc))
    if cond is not None:
        atomics = [S.If(cond=cond, then=S.seq(*atomics), loc=stmt.loc)]
    return [*ahead, *atomics]


def _sum(loop: S.For) -> tuple[E.Expr | None, E.Call | None]:
    """The condition and the sum that is all that ``loop`` does; no call where it is not that."""
    body, cond = loop.body, None
    value = body.value if isinstance(body, S.Eval) else None
    if isinstance(value, E.Select) and isinstance(value.f, E.Const):
        cond, value = value.cond, value.t
        if loop.var in cond.variables:
            return None, None
    if not isinstance(value, E.Call) or value.op != "atomic_add" or len(value.args) != 2:
        return None, None
    address, added = value.args
    if not isinstance(address, E.AddressOf) or address.buffer.storage != "global":
        return None, None
    if address.buffer.dtype != SUMS or added.dtype != SUMS:
        return None, None
    if str(value.attr("memory_order", "relaxed")) != "relaxed":
        return None, None
    inner = (*E.find(added, E.Call), *(call for i in address.indices for call in E.find(i, E.Call)))
    if any(call.atom.effect is not Effect.NONE for call in inner):
        return None, None
    if address.buffer.data in effects.used(added):
        return None, None
    return cond, value
