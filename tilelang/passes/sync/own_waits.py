"""Products of warpgroups that the program leaves under way until it waits for them itself.

``T.wgmma_gemm`` and ``T.gemm(wg_wait=-1)`` leave the group of their instructions open; the program
waits with ``T.wait_wgmma(n)`` for all groups but the ``n`` last. Its waits say here which sums they
complete: the compiler of the device does not know that registers are written later. What touches a
sum, or overwrites an operand, of a product that is under way on every way there is an error; where
it is on some ways only, a wait is added. Who else may overwrite operands in shared memory is the
program's own order, as with any other copy of its own.

Products that the unit cannot leave open, and all of a kernel whose loops may end early, are
complete where they stand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from tilelang.errors import TileUnsupportedError
from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import schedule as H
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Region
from tilelang.ir.visitor import map_stmts, rewrite_blocks, rewrite_launches
from tilelang.passes.analysis import pending as P
from tilelang.target import Context

_LEAVES = (S.Break, S.Continue, S.ThreadReturn)
# Product -> how many groups are certainly newer, and whether it is under way on every way to here.
_State: TypeAlias = "Mapping[S.Gemm, tuple[int, bool]]"


def keep_own_waits(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with asynchronous products that may stay under way, and with ``WaitProducts`` for
    the waits of the program.

    Relied on: products have their plans.

    Raises:
        TileUnsupportedError: something that a product owns is used before the program waits.
    """

    def kept(launch: S.Launch) -> S.Stmt:
        nodes = list(S.walk(launch.body))
        if not any(isinstance(node, S.Gemm) and node.asynchronous for node in nodes):
            return launch
        if any(isinstance(node, _LEAVES) for node in nodes):
            return map_stmts(launch, S.Gemm, lambda gemm: replace(gemm, asynchronous=False))
        found = _Own()
        body, after = found.visit(launch.body, {})
        return replace(launch, body=S.seq(body, *found.wait(0, after, body)[0]))

    return rewrite_launches(func, kept) if context.has("wgmma") else func


class _Own:
    """One launch. ``visit`` gives what stands for a statement, and what may be under way then."""

    def visit(self, stmt: S.Stmt, before: _State) -> tuple[S.Stmt, _State]:
        """``stmt`` with its waits."""
        if isinstance(stmt, S.Seq):
            made = []
            for item in stmt.stmts:
                part, before = self.visit(item, before)
                made.append(part)
            return S.seq(*made), before
        newer = _waits(stmt)
        if newer is not None:
            wait, after = self.wait(newer, before, stmt)
            return S.seq(*(wait or [stmt])), after
        added, before = self.settled(stmt, before)
        inside, after = self.inside(stmt, before)
        return S.seq(*added, inside), after

    def inside(self, stmt: S.Stmt, before: _State) -> tuple[S.Stmt, _State]:
        """A statement behind the waits that it needs itself."""
        if isinstance(stmt, S.Gemm) and P.may_stay(stmt):
            if stmt.asynchronous:
                return stmt, {**{k: (n + 1, c) for k, (n, c) in before.items()}, stmt: (0, True)}
            wait, after = self.wait(0, {**before, stmt: (0, True)}, stmt)
            return S.seq(replace(stmt, asynchronous=True), *wait), after
        if isinstance(stmt, S.Gemm):
            return replace(stmt, asynchronous=False), before
        if isinstance(stmt, S.If):
            then, after = self.visit(stmt.then, before)
            orelse, other = None, before
            if stmt.orelse is not None:
                orelse, other = self.visit(stmt.orelse, before)
            return replace(stmt, then=then, orelse=orelse), _joined(after, other)
        if isinstance(stmt, (S.For, S.While)):
            while True:
                body, after = self.visit(stmt.body, before)
                both = _joined(before, after)
                if both == before:
                    return replace(stmt, body=body), both
                before = both
        if isinstance(stmt, (S.Attr, H.Pipeline, H.Run)):
            body, after = self.visit(stmt.body, before)
            return rewrite_blocks(stmt, lambda _: body), after
        return stmt, before

    def wait(self, newer: int, before: _State, at: S.Stmt) -> tuple[list[S.Stmt], _State]:
        """The wait for all groups but the ``newer`` last; none where none is known."""
        after = {one: state for one, state in before.items() if state[0] < newer}
        if not before:
            return [], after
        sums = {one.c.buffer.data: one.c.buffer.region() for one in before if one not in after}
        found: tuple[Region, ...] = tuple(sums.values())
        return [H.WaitProducts(newer=newer, sums=found, loc=at.loc)], after

    def settled(self, stmt: S.Stmt, before: _State) -> tuple[list[S.Stmt], _State]:
        """What ``stmt`` needs of products that are under way on some ways only.

        Raises:
            TileUnsupportedError: one is under way on all of them.
        """
        nested = isinstance(stmt, (S.Parallel, S.ReducerUpdate)) or not stmt.blocks()
        found: list[S.Gemm] = []
        for access in effects.accesses(stmt, nested=nested) if before else ():
            for product, (_, certain) in before.items():
                what = _owned(product, access, stmt)
                if what and certain:
                    raise _unfinished(product, what, access, stmt)
                if what:
                    found.append(product)
        return (
            self.wait(min(before[one][0] for one in found), before, stmt) if found else ([], before)
        )


def _joined(one: _State, other: _State) -> _State:
    """What may be under way where two ways meet."""
    found = {}
    for product in (*one, *(product for product in other if product not in one)):
        states = [state[product] for state in (one, other) if product in state]
        certain = len(states) == 2 and all(state[1] for state in states)
        found[product] = (min(state[0] for state in states), certain)
    return found


def _waits(stmt: S.Stmt) -> int | None:
    """How many groups the wait that ``stmt`` is leaves under way."""
    call = stmt.call
    if call is None or call.atom.orders is None:
        return None
    if (call.atom.orders.kind, call.atom.orders.group) != ("wait", P.GROUP):
        return None
    count = call.args[0] if call.args else None
    return int(count) if isinstance(count, E.Const) else None


def _owned(product: S.Gemm, access: effects.Access, stmt: S.Stmt) -> str:
    """What ``access`` disturbs of ``product`` while that is under way: "sum", "operand" or
    nothing. Of operands in shared memory only what is certainly the same place."""
    if access.mode == effects.NAME:
        return ""
    if access.data is product.c.buffer.data:
        return "" if P.continues(stmt, product) else "sum"
    for operand in (product.a, product.b):
        if access.data is not operand.buffer.data or not access.writes:
            continue
        if operand.buffer.storage == product.c.buffer.storage:
            return "operand"
        if isinstance(access.where, Region):
            if E.same_exprs(access.region.mins, operand.mins):
                return "operand"
    return ""


def _unfinished(
    product: S.Gemm, what: str, access: effects.Access, stmt: S.Stmt
) -> TileUnsupportedError:
    name = access.buffer.name
    line = f" of line {product.loc.line}" if product.loc is not None else ""
    return TileUnsupportedError(
        f"`{name}` is used while the product{line} may be under way, whose {what} it is",
        expected="T.wait_wgmma(n) between them, which leaves at most the n last products under way",
        got="no wait on any way between them",
        hint="T.gemm waits for itself",
        loc=stmt.loc,
    )
