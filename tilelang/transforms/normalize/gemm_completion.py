"""GEMM with a barrier: one of the threads that compute a product arrives at it.

``T.gemm(A, B, C, mbar=bar)`` tells ``bar`` once that C may be read and that A and B may be
overwritten. So the threads meet behind it (the barrier pass puts that there, and waits for what
warpgroups have in flight), and the first of them arrives. Where the result is in tensor memory, its
unit arrives, and nothing of this is needed.

Stands before all passes that ask who waits for whom: they see an arrival as the program would have
written it.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import stmt as S
from tilelang.ir.tables import MBARRIER_ARRIVE
from tilelang.ir.visitor import map_stmts, rewrite_bodies
from tilelang.target import Context
from tilelang.transforms.analysis.groups import thread_groups, thread_number


def signal_gemm_completion(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` without products that have a barrier."""
    warp = context.limits.warp

    def signalled(launch: S.Launch) -> S.Stmt:
        def product(stmt: S.Gemm) -> S.Stmt | list[S.Stmt]:
            if stmt.barrier is None:
                return stmt
            arrive = S.do(MBARRIER_ARRIVE, stmt.barrier, loc=stmt.loc)
            group = thread_groups(launch, warp).of(stmt)
            first = thread_number(launch).equal(group[0])
            quiet = replace(stmt, barrier=None, hints=replace(stmt.hints, signals=True))
            return [quiet, S.If(cond=first, then=arrive, loc=stmt.loc)]

        return map_stmts(launch.body, S.Gemm, product)

    return rewrite_bodies(func, signalled)
