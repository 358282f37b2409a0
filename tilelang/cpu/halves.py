"""Which loops over float16 convert whole chunks at once.

GCC vectorises no loop with a conversion of ``_Float16``. The instructions of F16C convert eight at
a time, so a loop that reads or writes neighbours in memory is cut into chunks: the halves that a
chunk reads become an array of floats, the loop over it computes in floats alone, and what it stores
is converted behind it. All loads come before all stores of a chunk, which independent iterations
allow.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.passes.analysis.affine import linear

CHUNK = 64  # elements: a few arrays of them stay in the first cache
FEWEST = 16  # iterations of a loop that is worth it


@dataclass(frozen=True)
class Halves:
    """The accesses of a loop that chunks convert."""

    loads: tuple[E.Load, ...]
    stores: tuple[S.Store, ...]


def halves_of(loop: S.For) -> Halves | None:
    """What the chunks of ``loop``, an independent one in steps of one, convert; None where it has
    no halves or an access of them is not to neighbours, depends on a condition, moves bits only or
    may meet another one."""
    parts = loop.body.stmts if isinstance(loop.body, S.Seq) else (loop.body,)
    if not all(isinstance(part, (S.Store, S.Let)) for part in parts) or _count(loop) < FEWEST:
        return None
    nodes = [node for part in parts for item in part.exprs() for node in E.walk(item)]
    if any(isinstance(node, E.Select) or _is_lazy(node) for node in nodes):
        return None
    names = frozenset((loop.var, *(part.var for part in parts if isinstance(part, S.Let))))
    loads = dict.fromkeys(n for n in nodes if isinstance(n, E.Load) and n.dtype == "float16")
    stores = [part for part in parts if isinstance(part, S.Store)]
    halves = [store for store in stores if store.buffer.dtype == "float16"]
    accesses: list[E.Load | S.Store] = [*loads, *halves]
    if not accesses or not all(_neighbours(access, loop.var, names) for access in accesses):
        return None
    values = {part.var: part.value for part in parts if isinstance(part, S.Let)}
    if any(_moves_bits(store.value, values) for store in halves):
        return None
    taken = {data for load in loads for data in effects.used(load)}
    if len(stores) > 1 and not all(taken.isdisjoint(effects.written(item)) for item in stores):
        return None
    return Halves(tuple(loads), tuple(halves))


def _count(loop: S.For) -> int:
    start, stop = loop.start, loop.stop
    if isinstance(start, E.Const) and isinstance(stop, E.Const):
        return int(stop.value) - int(start.value)
    return FEWEST


def _moves_bits(value: E.Expr, values: dict[E.Var, E.Expr]) -> bool:
    """Whether ``value`` is an element as it lies in memory, by whatever name."""
    while isinstance(value, E.Var) and value in values:
        value = values[value]
    return isinstance(value, E.Load) or (isinstance(value, E.Call) and value.op == "reinterpret")


def _is_lazy(node: E.Expr) -> bool:
    return isinstance(node, E.AddressOf) or (
        isinstance(node, E.Binary) and node.op in ("land", "lor")
    )


def _neighbours(access: E.Load | S.Store, var: E.Var, names: frozenset[E.Var]) -> bool:
    """Whether one iteration accesses the element behind that of the iteration before."""
    buffer = access.buffer
    forms = [linear(index, names) for index in access.indices]
    steps = [
        None if form is None else {v: c for v, c in form.coeffs.items() if c} for form in forms
    ]
    return (
        bool(steps)
        and all(step == {} for step in steps[:-1])
        and steps[-1] == {var: 1}
        and buffer.stride_list()[-1] == 1
        and not buffer.is_var
    )
