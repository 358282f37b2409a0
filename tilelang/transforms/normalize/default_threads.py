"""Default threads: one per block on CPU cores for kernels that do not give a number.

``T.Kernel`` without ``threads`` leaves the number to the target: a GPU takes what the front end
wrote down, a core that runs a block alone has no use for more than one. The front end marks such
launches with the hint ``default_threads`` and takes the mark away as soon as the program asks
for the number. A body that asks which thread, lane or warp runs it, or in which threads tell each
other something or count each other, has the number of a GPU everywhere.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.errors import at
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.functions import as_expression
from tilelang.ir.visitor import map_stmts, rewrite_launches
from tilelang.target import Context


def one_thread_by_default(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with one thread in the blocks of its marked launches.

    Layouts of their loops, which speak of the threads of a GPU, go with them. Relies on nothing:
    it comes first, so that no later pass sees another number.
    """
    return rewrite_launches(func, _narrowed)


def _narrowed(launch: S.Launch) -> S.Stmt:
    if not launch.hints.default_threads or _asks_for_threads(launch):
        return launch
    body = map_stmts(launch.body, (S.Parallel, S.Copy), _without_layout)
    return replace(
        launch, threads=(1, 1, 1), hints=launch.hints.without("default_threads"), body=body
    )


def _asks_for_threads(launch: S.Launch) -> bool:
    """Whether the body is about single threads: which one runs, what others have, how many come."""
    threads = set(launch.thread_vars)
    for stmt in S.walk(launch.body):
        if any(not threads.isdisjoint(expr.variables) for expr in stmt.exprs()):
            return True
        with at(stmt.loc):
            if any(map(_is_of_threads, stmt.calls())):
                return True
    return False


def _is_of_threads(call: E.Call) -> bool:
    expanded = as_expression(call) if call.atom.by_name else call
    return expanded is not None and any(
        node.atom.exchanges or node.atom.signals or node.atom.per_thread
        for node in E.walk(expanded)
        if isinstance(node, E.Call)
    )


def _without_layout(stmt: S.Parallel | S.Copy) -> S.Stmt:
    return stmt if stmt.loop_layout is None else replace(stmt, loop_layout=None)
