"""Role lowering (warp specialization): roles become branches on the thread number.

Stands before layouts and barriers: they see which threads run a branch by its condition, give a
group of warps a barrier of its own, and never put one of the whole block inside.
"""

from __future__ import annotations

from math import prod

from tilelang.ir import expr as E
from tilelang.ir import schedule as H
from tilelang.ir import stmt as S
from tilelang.ir.visitor import Rewriter, rewrite_bodies
from tilelang.target import Context, operations
from tilelang.transforms.analysis.groups import thread_number


def lower_roles(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with a branch for each role; budgets of registers act where the target moves them
    between warps."""
    return rewrite_bodies(func, lambda launch: _Branches(launch, context).rewrite(launch.body))


class _Branches(Rewriter):
    def __init__(self, launch: S.Launch, context: Context) -> None:
        self.thread = thread_number(launch)
        self.moves = context.has("setmaxnreg")
        self.around = prod(launch.threads)  # threads that come to the statement
        self.given = context.limits.registers_at_start(self.around)

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        outer = self.around
        self.around = stmt.count if isinstance(stmt, H.Role) else outer
        result = super()._visit(stmt)
        self.around = outer
        return result

    def stmt(self, stmt: S.Stmt) -> S.Stmt | None:
        if not isinstance(stmt, H.Roles):
            return stmt
        branch: S.Stmt | None = None
        roles = [role for role in stmt.branches if isinstance(role, H.Role)]
        everyone = sum(role.count for role in roles) == self.around
        # Those from the first thread on stand behind a condition, which bounds their number below.
        for role in sorted(roles, key=lambda role: -role.first):
            if branch is None and everyone and len(roles) > 1:
                branch = self.limited(role)  # all that are left
                continue
            branch = S.If(
                cond=self.mine(role), then=self.limited(role), orelse=branch, loc=role.loc
            )
        return branch

    def mine(self, role: H.Role) -> E.Expr:
        """Whether the thread has the role."""
        below = self.thread < E.const(role.first + role.count)
        above = self.thread >= E.const(role.first)
        return E.binary("land", above, below) if role.first else below

    def limited(self, role: H.Role) -> S.Stmt:
        """The branch, with its budget first, which acts on whole warps (PTX, "setmaxnreg")."""
        body = role.body
        if role.elected:
            body = S.If(cond=self.thread.equal(role.first), then=body, loc=role.loc)
        if role.registers is None or not self.moves:
            return body
        raising = E.const(int(role.registers > self.given))
        call = E.call(operations.SET_MAX_NREG, E.const(role.registers), raising)
        return S.seq(S.Eval(value=call, loc=role.loc), body)
