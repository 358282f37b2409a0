"""Lower the constructs of the scheduler: roles of warp specialization, with the register budgets
of their warps (setmaxnreg), and elementwise operations.

Runs before layout inference and barrier insertion. Those passes derive the threads of a branch from
its condition, and synchronize a group of warps by its own named barrier.
"""

from __future__ import annotations

from math import prod

from tilelang.ir import expr as E, schedule as H, stmt as S
from tilelang.ir.elementwise import loop_of
from tilelang.target import operations
from tilelang.transforms.analysis.groups import is_among, thread_number
from tilelang.transforms.analysis.tma import is_complete
from tilelang.transforms.rules import Cursor, Phase, rule


@rule(H.Roles)
def lower_roles(stmt: H.Roles, cursor: Cursor) -> S.Stmt | None:
    """Lower roles to branches on the thread index.

    Budgets of registers act where the target moves them between warps.
    """
    around = [node.count for node in cursor.around if isinstance(node, H.Role)]
    threads = around[-1] if around else prod(cursor.kernel.threads)  # that reach the statement
    branch: S.Stmt | None = None
    roles = [role for role in stmt.branches if isinstance(role, H.Role)]
    everyone = sum(role.count for role in roles) == threads
    # Those from the first thread on are under a condition, which bounds their number below.
    for role in sorted(roles, key=lambda role: -role.first):
        body = _with_budget(role, cursor)
        if branch is None and everyone and len(roles) > 1:
            branch = body  # all that are left
        else:
            mine = is_among(cursor.kernel, role.first, role.count)
            branch = S.If(cond=mine, then=body, orelse=branch, loc=role.loc)
    return branch


def _with_budget(role: H.Role, cursor: Cursor) -> S.Stmt:
    """The branch, with its budget first, which acts on whole warps (PTX, "setmaxnreg")."""
    body, context = role.body, cursor.context
    if role.elected:
        body = S.If(cond=thread_number(cursor.kernel).equal(role.first), then=body, loc=role.loc)
    if role.registers is None or not context.has("setmaxnreg"):
        return body
    initial = context.limits.registers_at_start(prod(cursor.kernel.threads))
    raising = E.const(int(role.registers > initial))
    setting = S.do(operations.SET_MAX_NREG, E.const(role.registers), raising, loc=role.loc)
    return S.seq(setting, body)


@rule(S.ElementOp, S.AtomicTile)
def expand_elementwise(stmt: S.TileOp, cursor: Cursor) -> S.Stmt | None:
    """Lower transposes, im2col and tile atomics to loops over elements.

    Threads share these out as they do any parallel loop, with the layouts that fragments give or,
    on memory, in vectors. Updates that TMA makes, copies and fills stay whole until they are
    lowered: pipelines, exchanges and wide stores know them as what they are.
    """
    is_ahead = isinstance(stmt, S.COPIES) and stmt.mode != "copy"
    return stmt if is_ahead or is_complete(stmt) else loop_of(stmt)


lower_scheduled = Phase(lower_roles, expand_elementwise)
