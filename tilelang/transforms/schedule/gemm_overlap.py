"""Intra-warpgroup GEMM overlap: the last product runs during the next iteration (loop rotation).

A consumer loop may begin with products (the scores of attention), compute with their results and
end with a product of the computed values. This pass peels and rotates it: an iteration issues the
first products of the next iteration before its own last product::

    first(start)                                      first products
    rest(start)                                       what is computed of them
    for k in start .. stop:
        if k + 1 < stop: first(k + 1)
        last(k)
        if k + 1 < stop: rest(k + 1)                  overlaps last(k)

``insert_waits`` waits where an accumulator is needed, so that the tensor core multiplies
while the threads compute. Several consumer warpgroups share no order: each issues its products when
its own operands are there.

Conditions: the first products and ``last`` have no dependence on each other, and the fragments of
the loop leave registers for the computation. The order of every pipeline is proved in this form.
Then the last iteration is peeled, so that no condition remains in the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.bounds import Bounds, interval
from tilelang.ir.facts import bounds_of
from tilelang.ir.launch_schedule import Schedule
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import map_exprs, map_stmts, substitute
from tilelang.records import dataclass
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.schedule.iteration import IterationGraph, may_conflict
from tilelang.transforms.schedule.legality import Facts, NotLegalError, require
from tilelang.transforms.schedule.pipeline import LoopWriter, append_note
from tilelang.transforms.schedule.specialize_warps import RoleWriter, fits_in_registers
from tilelang.transforms.verify.schedule import is_uncertain


def rotate_loops(roles: RoleWriter, schedule: Schedule, facts: Facts) -> RoleWriter:
    """``roles`` with a loop of consumers rotated so that products overlap, with a note."""
    registers = facts.context.limits.registers_at_start(prod(roles.launch.threads))
    for key, loop in roles.loops.items():
        uses = (access for stmt in loop.stmts for access in effects.accesses(stmt, nested=True))
        tiles = {access.data: access.buffer for access in uses}
        if not fits_in_registers(tiles.values(), roles.threads, roles.registers[0] or registers):
            continue
        try:
            rotation = _Rotation.of(loop, bounds_of(roles.old))
        except NotLegalError:
            continue
        if not is_uncertain(replace(roles, forms={key: rotation.guarded}).launch):
            return replace(roles, forms={key: rotation.peeled})
    raise NotLegalError("too few registers, or its synchronization is not proved")


@dataclass(frozen=True)
class _Rotation:
    """An iteration: the ``first`` products with their waits, the ``releases`` of their stages, the
    ``rest``, and the ``last`` product with its wait, whose stage ``last_releases`` frees. The first
    ``overlap_count`` statements of the rest overlap the last product of the previous iteration."""

    bounds: Bounds
    first: list[S.Stmt]
    releases: list[S.Stmt]
    rest: list[S.Stmt]
    last: list[S.Stmt]
    last_releases: list[S.Stmt]
    overlap_count: int

    @classmethod
    def of(cls, writer: LoopWriter, bounds: Bounds) -> _Rotation:
        """The rotation of a loop.

        Raises:
            NotLegalError: it has not all parts, or they touch each other's data.
        """
        step = writer.loop.step
        require(isinstance(step, E.Const) and int(step) == 1, "its step is not 1")
        head, tail = _split(writer.stmts)
        waits, stmts, releases = zip(*writer.steps())
        early = any((*waits[head + 1 : tail], *releases[head : tail - 1]))
        require(not early, "the element-wise work waits for stages of its own")
        rest = list(stmts[head:tail])
        first, last = (
            [stmt for k in part for stmt in (*waits[k], stmts[k])]
            for part in (range(head), range(tail, len(stmts)))
        )
        first += waits[head]
        count = next((k for k, stmt in enumerate(rest) if may_conflict([stmt], last)), len(rest))
        frees, last_frees = (
            [step for steps in part for step in steps]
            for part in (releases[:head], releases[tail - 1 :])
        )
        return cls(bounds, first, frees, rest, last, last_frees, count)

    def start(self, loop: S.For) -> list[S.Stmt]:
        """The first iteration without its last product."""
        return substituted((*self.first, *self.releases, *self.rest), {loop.var: loop.start})

    def step(self, loop: S.For) -> list[list[S.Stmt]]:
        """An iteration: lists that need a following iteration alternate with unconditional ones."""
        ahead = {loop.var: simplify(loop.var + loop.step)}
        return [
            substituted(self.first, ahead),
            substituted(self.last, {}),
            substituted((*self.releases, *self.rest[: self.overlap_count]), ahead),
            substituted(self.last_releases, {}),
            substituted(self.rest[self.overlap_count :], ahead),
        ]

    def guarded(self, loop: S.For) -> list[S.Stmt]:
        """The form that is proved."""
        more = simplify(loop.var + loop.step < loop.stop)
        body = [
            S.seq(*part) if k % 2 else S.If(cond=more, then=S.seq(*part), loc=loop.loc)
            for k, part in enumerate(self.step(loop)) if part
        ]  # fmt: skip
        return [*_if_any(loop, self.start(loop), Bounds()), replace(loop, body=S.seq(*body))]

    def peeled(self, loop: S.For) -> list[S.Stmt]:
        """The form that is run: the last iteration is peeled."""
        noted = append_note(loop, "the last product overlaps the next iteration")
        body = [stmt for part in self.step(loop) for stmt in part]
        end = simplify(loop.stop - loop.step)
        last = substituted((*self.last, *self.last_releases), {loop.var: end})
        return [
            *_if_any(loop, self.start(loop), self.bounds),
            replace(noted, stop=end, body=S.seq(*body)),
            *_if_any(loop, last, self.bounds),
        ]


def _if_any(loop: S.For, stmts: list[S.Stmt], bounds: Bounds) -> list[S.Stmt]:
    """``stmts`` if ``loop`` has an iteration."""
    cond = simplify(loop.start < loop.stop)
    if interval(simplify(loop.stop - loop.start), bounds).low > 0:
        return stmts
    if isinstance(cond, E.Const):
        return stmts if cond.value else []
    return [S.If(cond=cond, then=S.seq(*stmts), loc=loop.loc)]


def cannot_rotate(graph: IterationGraph) -> str:
    """Why the last products of an iteration cannot overlap the next one; empty if they can."""
    try:
        _split(graph.stmts)
    except NotLegalError as why:
        return str(why)
    return ""


def _split(stmts: Sequence[S.Stmt]) -> tuple[int, int]:
    """Where the computation among ``stmts`` begins and ends, between the first and the last
    products.

    Raises:
        NotLegalError: it has not all of them, or they touch each other's data.
    """
    tail = len(stmts)
    while tail and isinstance(stmts[tail - 1], S.Gemm):
        tail -= 1
    head = next((k for k, stmt in enumerate(stmts) if isinstance(stmt, S.Gemm)), tail)
    while head < tail and isinstance(stmts[head], S.Gemm):
        head += 1
    first, rest, last = stmts[:head], stmts[head:tail], stmts[tail:]
    is_complete = rest and last and any(isinstance(stmt, S.Gemm) for stmt in first)
    require(is_complete, "an iteration is not a product, element-wise work, and a second product")
    named = any(S.holds(stmt, S.Alloc, S.Let, S.View) for stmt in stmts)
    require(not named, "an iteration defines variables")
    nested = any(isinstance(stmt, S.Gemm) for stmt in rest)
    require(not nested, "the element-wise work contains a product")
    require(not may_conflict(first, last), "the first and the last product depend on each other")
    require(
        not _needs_barrier(rest, last),
        "the last product reads memory that the iteration writes",
    )
    return head, tail


def _needs_barrier(rest: Iterable[S.Stmt], last: Iterable[S.Stmt]) -> bool:
    """Whether ``last`` reads from shared memory what threads compute in ``rest``. That needs a
    barrier in between, at which all threads wait for the product in flight: then nothing
    overlaps."""
    shared = {
        access.data
        for stmt in rest
        for access in effects.accesses(stmt, nested=True)
        if access.writes and access.buffer.storage != FRAGMENT
    }
    return any(not shared.isdisjoint(effects.used(stmt)) for stmt in last)


def substituted(stmts: Iterable[S.Stmt], values: dict[E.Var, E.Expr]) -> list[S.Stmt]:
    """``stmts`` with ``values`` for variables, as new statements."""
    copies = (map_stmts(stmt, S.Stmt, replace) for stmt in stmts)
    return [map_exprs(copy, lambda expr: simplify(substitute(expr, values))) for copy in copies]
