"""Intra-warpgroup GEMM overlap: the last product runs during the next iteration (loop rotation).

A loop of consumers that begins with products (the scores of attention), computes with their sums
and ends with a product of what it has computed becomes one that issues, in an iteration, the first
products of the next iteration before its own last one::

    first(start)                                      first products
    rest(start)                                       what is computed of them
    for k in start .. stop:
        if k + 1 < stop: first(k + 1)
        last(k)
        if k + 1 < stop: rest(k + 1)                  overlaps last(k)

``insert_wgmma_waits`` waits where an accumulator is needed, so that the tensor core multiplies
while the threads compute. Where the consumers are several warpgroups, they issue alternately: the
tensor core finishes what one issues without interruption while the others compute (``Turn``).

Conditions: the first products and ``last`` have no dependence on each other, and the fragments of
the loop leave registers for the computation. The order of every pipeline is proved in this form.
Then the last iteration is peeled, so that no condition remains in the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import schedule as H
from tilelang.ir import stmt as S
from tilelang.ir.bounds import Bounds, interval
from tilelang.ir.facts import bounds_of
from tilelang.ir.launch_schedule import Schedule
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import Rewriter, substitute
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.schedule.items import ItemGraph, conflict
from tilelang.transforms.schedule.legality import Facts, NotLegalError, require
from tilelang.transforms.schedule.pipeline import append_note
from tilelang.transforms.verify.schedule import refused

SPARE = 32  # registers of a thread for addresses and what is computed; attention fills the rest


def rotate_loops(launch: S.Launch, schedule: Schedule, facts: Facts) -> S.Launch:
    """``launch`` with a loop of consumers rotated so that products overlap. Its note says so."""
    result = _Overlaps(launch, facts.context).rewrite(launch)
    require(result is not launch, "registers are short, or the order is not proved")
    assert isinstance(result, S.Launch)
    return result


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
                    proved = _ReplaceLoop(loop, parts.guarded()).rewrite(stmt)
                    if not refused(proved):
                        return _ReplaceLoop(loop, parts.peeled(self.bounds)).rewrite(stmt)
        return stmt

    def parts(self, loop: S.For, role: H.Role) -> _Parts | None:
        """The parts of ``loop``; None if it does not match or its fragments are too large."""
        split = _parts(loop)
        if split is None:
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
        return split if bits // 32 // role.count <= room else None


class _ReplaceLoop(Rewriter):
    """Replaces a loop by statements."""

    def __init__(self, loop: S.For, stmts: list[S.Stmt]) -> None:
        self.loop, self.stmts = loop, stmts

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        return self.stmts if stmt is self.loop else super()._visit(stmt)


# -- parts of a loop -------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Parts:
    """A loop: the ``first`` products with their waits, the ``releases`` of their stages, the
    ``rest``, and the ``last`` product with its wait, whose stage ``last_releases`` frees. The first
    ``overlap_count`` statements of the rest overlap the last product of the previous iteration."""

    loop: S.For
    first: list[S.Stmt]
    releases: list[S.Stmt]
    rest: list[S.Stmt]
    last: list[S.Stmt]
    last_releases: list[S.Stmt]
    overlap_count: int

    def at(self, stmts: Iterable[S.Stmt], where: E.Expr) -> list[S.Stmt]:
        """``stmts`` of the iteration ``where``, as new statements."""
        copies = _Substitute({self.loop.var: where})
        return [copies.rewrite(stmt) for stmt in stmts]

    def start(self) -> list[S.Stmt]:
        """The first iteration without its last product."""
        return self.at((*self.first, *self.releases, *self.rest), self.loop.start)

    def step(self) -> list[list[S.Stmt]]:
        """An iteration: lists that need a following iteration alternate with unconditional ones."""
        ahead = simplify(self.loop.var + self.loop.step)
        here: E.Expr = self.loop.var
        return [
            self.at(self.first, ahead),
            self.at(self.last, here),
            self.at((*self.releases, *self.rest[: self.overlap_count]), ahead),
            self.at(self.last_releases, here),
            self.at(self.rest[self.overlap_count :], ahead),
        ]

    def guarded(self) -> list[S.Stmt]:
        """The form that is proved."""
        loop = self.loop
        more = simplify(loop.var + loop.step < loop.stop)
        body = [
            S.seq(*part) if k % 2 else S.If(cond=more, then=S.seq(*part), loc=loop.loc)
            for k, part in enumerate(self.step()) if part
        ]  # fmt: skip
        return [*self.if_any(self.start(), Bounds()), replace(loop, body=S.seq(*body))]

    def if_any(self, stmts: list[S.Stmt], bounds: Bounds) -> list[S.Stmt]:
        """``stmts`` if the loop has an iteration."""
        low = interval(simplify(self.loop.stop - self.loop.start), bounds).low
        if low > 0:
            return stmts
        cond = simplify(self.loop.start < self.loop.stop)
        if isinstance(cond, E.Const):
            return stmts if cond.value else []
        return [S.If(cond=cond, then=S.seq(*stmts), loc=self.loop.loc)]

    def peeled(self, bounds: Bounds) -> list[S.Stmt]:
        """The form that is run: the last iteration is peeled."""
        loop = self.loop
        noted = append_note(loop, "the last product overlaps the next iteration")
        body = [stmt for part in self.step() for stmt in part]
        end = simplify(loop.stop - loop.step)
        return [
            *self.if_any(self.start(), bounds),
            replace(noted, stop=end, body=S.seq(*body)),
            *self.if_any(self.at((*self.last, *self.last_releases), end), bounds),
        ]


def cannot_rotate(graph: ItemGraph) -> str:
    """Why the last products of an iteration cannot overlap the next one; empty if they can."""
    try:
        _split(graph.items)
    except NotLegalError as why:
        return str(why)
    return ""


def _parts(loop: S.For) -> _Parts | None:
    """The parts of ``loop``, None if it has not all of them or they touch each other's data."""
    stmts = S.flat(loop.body)
    if not (isinstance(loop.step, E.Const) and int(loop.step) == 1) or loop.kind != "serial":
        return None
    if not any(isinstance(stmt, H.Wait) for stmt in stmts):
        return None
    try:
        head, rest, tail = _split(stmts)
    except NotLegalError:
        return None
    first, releases = _without_releases(head)
    last, last_releases = _without_releases(tail)
    overlap_count = next((k for k, stmt in enumerate(rest) if conflict([stmt], last)), len(rest))
    return _Parts(loop, first, releases, rest, last, last_releases, overlap_count)


def _split(stmts: Sequence[S.Stmt]) -> tuple[list[S.Stmt], list[S.Stmt], list[S.Stmt]]:
    """The first products of ``stmts``, the computation, and the last products, with the steps of
    pipelines among them.

    Raises:
        NotLegalError: it has not all of them, or they touch each other's data.
    """
    issued = (H.Wait, H.Release, S.Gemm)
    tail = len(stmts)
    while tail and isinstance(stmts[tail - 1], issued):
        tail -= 1
    head = next((k for k, stmt in enumerate(stmts) if isinstance(stmt, S.Gemm)), tail)
    while head < tail and isinstance(stmts[head], issued):
        head += 1
    first, rest, last = list(stmts[:head]), list(stmts[head:tail]), list(stmts[tail:])
    whole = rest and all(any(isinstance(x, S.Gemm) for x in part) for part in (first, last))
    require(whole, "an iteration is not products, a computation with them, and products")
    named = any(S.holds(stmt, S.Alloc, S.Let, S.View) for stmt in stmts)
    require(not named, "an iteration has variables of its own")
    nested = any(isinstance(stmt, (H.PipelineStep, S.Gemm)) for stmt in rest)
    require(not nested, "products stand within the computation")
    require(not conflict(first, last), "the first and the last products use the same data")
    require(not _needs_barrier(rest, last), "the last product reads what threads store meanwhile")
    return first, rest, last


def _without_releases(stmts: list[S.Stmt]) -> tuple[list[S.Stmt], list[S.Stmt]]:
    """``stmts`` but for the releases of stages, and these."""
    releases: list[S.Stmt] = [stmt for stmt in stmts if isinstance(stmt, H.Release)]
    return [stmt for stmt in stmts if stmt not in releases], releases


def _needs_barrier(rest: list[S.Stmt], last: list[S.Stmt]) -> bool:
    """Whether ``last`` reads from shared memory what threads compute in ``rest``. That needs a
    barrier in between, at which all threads wait for the product in flight (latent attention ran
    at 393 TFLOP/s instead of 504 on an H200)."""
    shared = {
        access.data
        for stmt in rest
        for access in effects.accesses(stmt, nested=True)
        if access.writes and access.buffer.storage != FRAGMENT
    }
    return any(not shared.isdisjoint(effects.used(stmt)) for stmt in last)


class _Substitute(Rewriter):
    """Copies statements, with values for variables."""

    def __init__(self, values: dict[E.Var, E.Expr]) -> None:
        self.values = values

    def expr(self, expr: E.Expr) -> E.Expr:
        """``expr`` with the values."""
        return simplify(substitute(expr, self.values))

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        return replace(stmt)
