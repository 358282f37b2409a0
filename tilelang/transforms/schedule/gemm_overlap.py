"""The last product of an iteration goes on beside the computation of the next one.

A loop of consumers that begins with products (the scores of attention), computes with their sums
and ends with a product of what it has computed becomes one that issues, in an iteration, the first
products of the next item before the last one of its own::

    first(start)                                      first products
    rest(start)                                       what is computed of them
    for k in start .. stop:
        if k + 1 < stop: first(k + 1)
        last(k)
        if k + 1 < stop: rest(k + 1)                  beside last(k)

``insert_wgmma_waits`` waits where a sum is needed, so that the unit multiplies while the threads
compute. Where consumers are several warpgroups they take turns to issue: what one issues, the unit
finishes at a stretch, and meanwhile the others compute (``Turn``).

It is done where the first products and ``last`` touch nothing of each other, and where the
fragments of the loop leave registers for what is computed. The order of every pipeline is proved
in this form. Then the last iteration is written behind the loop, so that no condition is left in
it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import prod

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import schedule as H
from tilelang.ir import stmt as S
from tilelang.ir.bounds import Bounds, interval
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import Rewriter, rewrite_launches, substitute
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.transforms.analysis.loops import bounds_of
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.schedule.pipeline import more_noted
from tilelang.transforms.verify.schedule import refused

SPARE = 32  # registers of a thread for addresses and what is computed; attention fills the rest


def overlap_gemms(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with loops of consumers that multiply ahead. Their notes say so."""
    if context.options.no_overlap or not context.has("wgmma"):
        return func

    return rewrite_launches(func, lambda launch: overlapped(launch, context))


def overlapped(launch: S.Launch, context: Context) -> S.Stmt:
    """One kernel, itself where no product overlaps."""
    if not S.holds(launch.body, H.Roles):
        return launch
    return _Overlaps(launch, context).rewrite(launch)


class _Overlaps(Rewriter):
    def __init__(self, launch: S.Launch, context: Context) -> None:
        self.bounds = bounds_of(launch)
        self.most = context.limits.registers_at_start(prod(launch.threads))

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        if not isinstance(stmt, H.Pipeline):
            return super()._visit(stmt)
        body: S.Stmt = stmt
        while isinstance(body, H.Pipeline):
            body = body.body
        branches = body.branches if isinstance(body, H.Roles) else ()
        for role in (branch for branch in branches if isinstance(branch, H.Role)):
            for loop in S.find(role.body, S.For):
                if (parts := self.parts(loop, role)) is not None:
                    proved = _Put(loop, parts.guarded()).rewrite(stmt)
                    if not refused(proved):
                        return _Put(loop, parts.peeled(self.bounds)).rewrite(stmt)
        return stmt

    def parts(self, loop: S.For, role: H.Role) -> _Parts | None:
        """The parts of ``loop``, None where it is none or its fragments are too large."""
        found = _parts(loop)
        if found is None:
            return None
        tiles = {
            access.data: access.buffer
            for access in effects.accesses(loop.body, nested=True)
            if access.buffer.storage == FRAGMENT
        }
        bits = sum(
            prod(int(E.as_expr(extent)) for extent in tile.shape) * tile.dtype.bits
            for tile in tiles.values() if all(isinstance(extent, int) for extent in tile.shape)
        )  # fmt: skip
        room = (role.registers or self.most) - SPARE
        return found if bits // 32 // role.count <= room else None


class _Put(Rewriter):
    """Puts statements in the place of a loop."""

    def __init__(self, loop: S.For, made: list[S.Stmt]) -> None:
        self.loop, self.made = loop, made

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        return self.made if stmt is self.loop else super()._visit(stmt)


# -- parts of a loop -------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Parts:
    """A loop: ``first`` products with their waits, their ``freed`` items, the ``rest``, and the
    ``last`` product with its wait, whose item ``ended`` frees. ``beside`` of the statements of the
    rest go on beside the last product of the iteration before."""

    loop: S.For
    first: list[S.Stmt]
    freed: list[S.Stmt]
    rest: list[S.Stmt]
    last: list[S.Stmt]
    ended: list[S.Stmt]
    beside: int

    def at(self, stmts: Iterable[S.Stmt], where: E.Expr) -> list[S.Stmt]:
        """``stmts`` of the iteration ``where``, as new statements."""
        copies = _At({self.loop.var: where})
        return [copies.rewrite(stmt) for stmt in stmts]

    def start(self) -> list[S.Stmt]:
        """The first iteration but for its last product."""
        return self.at((*self.first, *self.freed, *self.rest), self.loop.start)

    def step(self) -> list[list[S.Stmt]]:
        """An iteration, by turns what there is if another one follows and what is always."""
        ahead = simplify(self.loop.var + self.loop.step)
        here: E.Expr = self.loop.var
        return [
            self.at(self.first, ahead),
            self.at(self.last, here),
            self.at((*self.freed, *self.rest[: self.beside]), ahead),
            self.at(self.ended, here),
            self.at(self.rest[self.beside :], ahead),
        ]

    def guarded(self) -> list[S.Stmt]:
        """The form that is proved."""
        loop = self.loop
        more = simplify(loop.var + loop.step < loop.stop)
        body = [
            S.seq(*part) if k % 2 else S.If(cond=more, then=S.seq(*part), loc=loop.loc)
            for k, part in enumerate(self.step()) if part
        ]  # fmt: skip
        return [*self.some(self.start(), Bounds()), replace(loop, body=S.seq(*body))]

    def some(self, stmts: list[S.Stmt], bounds: Bounds) -> list[S.Stmt]:
        """``stmts`` if the loop has an iteration."""
        low = interval(simplify(self.loop.stop - self.loop.start), bounds).low
        if low > 0:
            return stmts
        cond = simplify(self.loop.start < self.loop.stop)
        if isinstance(cond, E.Const):
            return stmts if cond.value else []
        return [S.If(cond=cond, then=S.seq(*stmts), loc=self.loop.loc)]

    def peeled(self, bounds: Bounds) -> list[S.Stmt]:
        """The form that is run: the last iteration stands behind the loop."""
        loop = self.loop
        noted = more_noted(loop, "the last product goes on beside the next iteration")
        body = [stmt for part in self.step() for stmt in part]
        end = simplify(loop.stop - loop.step)
        return [
            *self.some(self.start(), bounds),
            replace(noted, stop=end, body=S.seq(*body)),
            *self.some(self.at((*self.last, *self.ended), end), bounds),
        ]


def _parts(loop: S.For) -> _Parts | None:
    """The parts of ``loop``, None if it has not all of them or they touch each other's data."""
    items = list(S.flat(loop.body))
    if not (isinstance(loop.step, E.Const) and int(loop.step) == 1) or loop.kind != "serial":
        return None
    if not any(isinstance(item, H.Wait) for item in items):
        return None
    if any(S.holds(item, S.Alloc, S.Let, S.View) for item in items):
        return None  # what they name is of one iteration
    tail = len(items)
    while tail and isinstance(items[tail - 1], (H.Wait, H.Release, S.Gemm)):
        tail -= 1
    head = next((k for k, item in enumerate(items) if isinstance(item, S.Gemm)), tail)
    while head < tail and isinstance(items[head], (H.Wait, H.Release, S.Gemm)):
        head += 1
    first = [item for item in items[:head] if not isinstance(item, H.Release)]
    last = [item for item in items[tail:] if not isinstance(item, H.Release)]
    rest = items[head:tail]
    if not rest or any(not any(isinstance(x, S.Gemm) for x in part) for part in (first, last)):
        return None
    if any(isinstance(item, (H.PipelineStep, S.Gemm)) for item in rest):
        return None
    if _touch(first, last) or _meets(rest, last):
        return None
    freed: list[S.Stmt] = [item for item in items[:head] if isinstance(item, H.Release)]
    ended: list[S.Stmt] = [item for item in items[tail:] if isinstance(item, H.Release)]
    beside = next((k for k, item in enumerate(rest) if _touch([item], last)), len(rest))
    return _Parts(loop, first, freed, rest, last, ended, beside)


def _meets(rest: list[S.Stmt], last: list[S.Stmt]) -> bool:
    """Whether ``last`` reads from shared memory what threads compute in ``rest``: they meet in
    between, and a product under way holds all of them up (latent attention ran at 393 TFLOP/s
    instead of 504 on an H200)."""
    shared = {
        access.data
        for item in rest
        for access in effects.accesses(item, nested=True)
        if access.writes and access.buffer.storage != FRAGMENT
    }
    return any(not shared.isdisjoint(effects.used(item)) for item in last)


def _touch(some: list[S.Stmt], others: list[S.Stmt]) -> bool:
    """Whether one of both writes what the other uses."""
    uses, used = ({data for item in part for data in effects.used(item)} for part in (some, others))
    makes, made = (
        {data for item in part for data in effects.written(item)} for part in (some, others)
    )
    return not (uses.isdisjoint(made) and makes.isdisjoint(used))


class _At(Rewriter):
    """Copies statements, with values for variables."""

    def __init__(self, values: dict[E.Var, E.Expr]) -> None:
        self.values = values

    def expr(self, expr: E.Expr) -> E.Expr:
        """``expr`` with the values."""
        return simplify(substitute(expr, self.values))

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        return replace(stmt)
