"""Random numbers of a lane loop are drawn before it, so that the loop can be vectorized.

Each thread has its own generator state, so only the order of its own draws must stay the same.

"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.hints import LoopHints
from tilelang.ir.visitor import substitute_in
from tilelang.transforms.lower.context import MADE

DRAWS = "random numbers"  # the writer of rows that take them


def draws(expr: E.Expr) -> bool:
    """Whether ``expr`` takes a number from the state of the thread."""
    return any(
        call.atom.writer == DRAWS for call in E.find(expr, E.Call) if isinstance(call, E.Call)
    )


def draw_ahead(loop: S.For) -> tuple[list[S.Stmt], S.For]:
    """What draws the numbers that ``loop`` names at the start of each iteration, and the loop with
    those numbers; nothing and the loop itself where other statements draw as well, or where a
    number depends on the iteration."""
    body = S.flat(loop.body)
    named = [let for let in body if isinstance(let, S.Let) and draws(let.value)]
    drawing = [node for node in S.walk(loop.body) if any(map(draws, node.exprs()))]
    ends = (loop.start, loop.stop)
    if not named or len(drawing) > len(named) or not all(isinstance(end, E.Const) for end in ends):
        return [], loop
    inside = {loop.var, *(node.var for node in S.find(loop.body, S.Let))}
    if any(not inside.isdisjoint(let.value.variables) for let in named):
        return [], loop
    start, stop = (int(end.value) for end in ends if isinstance(end, E.Const))
    lane = E.Var(loop.var.name, loop.var.dtype)
    allocs: list[S.Stmt] = []
    stores: list[S.Stmt] = []
    values: dict[E.Var, E.Expr] = {}
    for let in named:
        name, shape = f"{let.var.name}_drawn", Shape((stop - start,))
        array = Buffer(name, shape, let.var.dtype, "local", attrs=MADE)
        at = E.binary("sub", lane, loop.start)
        allocs.append(S.Alloc(buffer=array, loc=let.loc))
        stores.append(S.Store(buffer=array, indices=(at,), value=let.value, loc=let.loc))
        values[let.var] = E.Load(array, (E.binary("sub", loop.var, loop.start),))

    drawn_body = substitute_in(S.seq(*(let for let in body if let not in named)), values)
    ahead = replace(loop, var=lane, body=S.seq(*stores), kind="unroll", hints=LoopHints())
    return [*allocs, ahead], replace(loop, body=drawn_body)
