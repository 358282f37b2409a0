"""Thread groups: which threads of a block take a branch, and which values they agree on.

A branch on the thread index that whole warps take together forms a thread group: the statements in
it run by that group alone, and its barriers count its threads only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Set
from functools import lru_cache, partial
from math import prod
from typing import Any, TypeAlias

import numpy as np

from tilelang.errors import Loc, TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Region
from tilelang.ir.uniform import Varying
from tilelang.ir.visitor import rebuild, substitute
from tilelang.layout.evaluate import evaluate

Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
MAX_BARRIERS = 16  # of a block
# Annotation of copies and products: a barrier of their group follows, before one thread arrives.
# Attribute of an operand that two groups of warps exchange under mbarriers of the program:
# what a group does with it, and what it overwrites, the other one has had in between.
NO_BARRIER = -1  # in place of the number of a barrier: all of them are taken


def no_free_barrier(group: tuple[int, int], loc: Loc | None = None) -> TileUnsupportedError:
    """The error where a group (first thread, count) needs a barrier and none is free."""
    return TileUnsupportedError(
        "the kernel needs more barriers than a block has",
        loc=loc,
        expected=f"at most {MAX_BARRIERS - 1} different groups of warps",
        got=f"another group: threads {group[0]} to {sum(group) - 1}",
        hint="use fewer different thread ranges, or free ids of T.sync_threads(id, n)",
    )


def thread_number(launch: S.Launch) -> E.Expr:
    """The number of the thread in its block."""
    x, y, _ = launch.threads
    number: E.Expr = launch.thread_vars[0]
    for var, step, extent in zip(launch.thread_vars[1:], (x, x * y), launch.threads[1:]):
        if extent > 1:
            number = E.binary("add", number, E.binary("mul", var, E.const(step)))
    return number


def is_among(launch: S.Launch, first: int, count: int) -> E.Expr:
    """Whether the thread is one of ``count`` threads of the block from ``first`` on."""
    number = thread_number(launch)
    below = [number < E.const(first + count)] if first + count < prod(launch.threads) else []
    return E.conjunction([number >= E.const(first), *below] if first else below)


def thread_indices(launch: S.Launch) -> dict[E.Var, Any]:
    """The x, y and z index of every thread, in the order of the linear thread index."""
    x, y, z = launch.threads
    linear = np.arange(x * y * z, dtype=np.int64)
    return dict(zip(launch.thread_vars, (linear % x, linear // x % y, linear // (x * y))))


def thread_mask(
    cond: E.Expr, launch: S.Launch, lets: Mapping[E.Var, E.Expr] | None = None
) -> Mask | None:
    """For each thread whether ``cond`` holds; None if more than the thread index decides that.

    Args:
        lets: values of variables that may occur in ``cond``.
    """
    threads = thread_indices(launch)
    try:
        holds = evaluate(_expand_election(substitute(cond, dict(lets or {})), launch), threads)
    except TileUnsupportedError:
        return None
    return np.broadcast_to(holds != 0, (len(next(iter(threads.values()))),))


def _expand_election(expr: E.Expr, launch: S.Launch) -> E.Expr:
    """``expr`` with the threads that ``T.shuffle_elect`` chooses written out."""
    if not any(True for call in E.find(expr, E.Call) if call.op == "shuffle_elect"):
        return expr
    if isinstance(expr, E.Call) and expr.op == "shuffle_elect":
        extent = expr.args[0]
        count = int(extent.value) if isinstance(extent, E.Const) else 0
        return (thread_number(launch) % (count or prod(launch.threads))).equal(0)
    return rebuild(expr, lambda part: _expand_election(part, launch))


def exact_threads(
    cond: E.Expr,
    launch: S.Launch,
    lets: Mapping[E.Var, E.Expr] | None,
    differs: Callable[[E.Expr], bool],
) -> Mask | None:
    """The threads that take a branch on ``cond``, if any do.

    The parts of a conjunction that are equal in all threads (not ``differs``) decide whether any
    thread does, the others which ones. None where these depend on data.
    """
    own_mask = thread_mask(cond, launch, lets)
    if own_mask is not None or not (isinstance(cond, E.Binary) and cond.op == "land"):
        return own_mask
    sides = [side for side in (cond.a, cond.b) if differs(side)]
    masks = [exact_threads(side, launch, lets, differs) for side in sides]
    known = [mask for mask in masks if mask is not None]
    return np.logical_and.reduce(known) if known and len(known) == len(masks) else None


def possible_threads(
    cond: E.Expr, launch: S.Launch, lets: Mapping[E.Var, E.Expr] | None = None
) -> Mask | None:
    """The threads for which ``cond`` may hold: of a conjunction the parts that can be evaluated.

    None when no part of ``cond`` says anything about the thread.
    """
    if isinstance(cond, E.Binary) and cond.op == "land":
        sides = [possible_threads(side, launch, lets) for side in (cond.a, cond.b)]
        known = [side for side in sides if side is not None]
        return np.logical_and.reduce(known) if known else None
    return thread_mask(cond, launch, lets)


def range_of(mask: Mask, warp: int) -> tuple[int, int] | None:
    """(first, count) of the threads in ``mask`` if they are consecutive whole warps.

    (0, 0) when there is none. The last warp of a block may be short.
    """
    chosen = np.flatnonzero(mask)
    if not chosen.size:
        return 0, 0
    lo, count = int(chosen[0]), int(chosen.size)
    end = lo + count
    is_whole = lo % warp == 0 and (end % warp == 0 or end == mask.size)
    return (lo, count) if is_whole and int(chosen[-1]) == end - 1 else None


def thread_group_of(cond: E.Expr, launch: S.Launch, warp: int) -> tuple[int, int] | None:
    """The threads that take a branch on ``cond``, as (first linear index, count).

    Only for conditions that the thread index alone decides and that whole consecutive warps
    share; None for all others. (0, 0) means that no thread takes the branch, (0, all threads)
    that every thread does.

    Args:
        cond: the condition of an ``If``; for the else side pass :func:`inverse` of it.
        warp: lanes of a warp.
    """
    mask = thread_mask(cond, launch)
    return None if mask is None else range_of(mask, warp)


def inverse(cond: E.Expr) -> E.Expr:
    """``not cond``."""
    return cond.a if isinstance(cond, E.Unary) and cond.op == "lnot" else E.Unary("lnot", cond)


def _remaining_threads(sides: list[Mask | None], uniform: bool) -> Mask | None:
    """The threads that remain after a branch, from those that remain after each side. All threads
    take the same side (``uniform``), or each takes the side that its index selects. None where the
    side depends on data."""
    then, orelse = sides
    if then is None or orelse is None:
        return None
    if not uniform:
        return then | orelse
    if not then.any() or not orelse.any():
        return then if then.any() else orelse  # all of them leave on the other side
    return then if bool((then == orelse).all()) else None


class _Names(set[E.Var]):
    """Names that differ at a place between the threads of ``mask``, at most which are there."""

    mask: Mask


class Uniformity(Varying):
    """Which values differ between the threads that run a statement together: they take the branches
    around it, and are in the same iteration of the loops around it.

    Args:
        also: storage whose contents count as different.
    """

    def __init__(self, launch: S.Launch, also: Set[E.Var] = frozenset()) -> None:
        self.launch = launch
        self._lets: dict[E.Var, E.Expr] = {}  # values of names, where they depend on names alone
        self._states: dict[S.Stmt, _Names] = {}  # what differs before a statement
        super().__init__(launch, votes=True, also=also)

    def differs(self, expr: E.Expr, stmt: S.Stmt) -> bool:
        state = self._states.get(stmt)
        return self.varies(expr) if state is None else self._varies(expr, state)

    def varies(self, expr: E.Expr) -> bool:
        return super()._varies(expr, self.names)

    def _solve(self, launch: S.Launch) -> None:
        varying = _Names(self.names)
        varying.mask = np.ones(prod(launch.threads), np.bool_)
        self._visit(launch.body, varying)
        self.names.update(varying, *self._states.values())

    def _varies(self, expr: E.Expr, varying: set[E.Var]) -> bool:
        if not super()._varies(expr, varying):
            return False
        assert isinstance(varying, _Names)
        if varying.mask.all():
            return True
        if np.count_nonzero(varying.mask) <= 1:
            return False
        threads = {var: values[varying.mask] for var, values in thread_indices(self.launch).items()}
        return super()._varies(_fold_uniform_parts(substitute(expr, self._lets), threads), varying)

    def _fork(self, varying: set[E.Var]) -> _Names:
        assert isinstance(varying, _Names)
        copy = _Names(varying)
        copy.mask = varying.mask
        return copy

    def _assign(self, name: E.Var, varies: bool, is_whole: bool, varying: set[E.Var]) -> None:
        if is_whole and not varies:
            varying.discard(name)
        super()._assign(name, varies, is_whole, varying)

    def _visit(self, stmt: S.Stmt, varying: set[E.Var]) -> None:
        state, known = self._fork(varying), self._states.get(stmt)
        if known is not None:  # in an iteration before
            state |= known
            state.mask = state.mask | known.mask
        self._states[stmt] = state
        if isinstance(stmt, S.Let) and not E.holds(stmt.value, E.Load, E.Call):
            self._lets[stmt.var] = substitute(stmt.value, self._lets)
        super()._visit(stmt, varying)
        if isinstance(stmt, S.While):
            state |= varying  # its condition is for each iteration

    def _visit_side(self, cond: E.Expr, block: S.Stmt, varying: set[E.Var]) -> None:
        assert isinstance(varying, _Names)
        self._narrow(cond, varying)
        super()._visit_side(cond, block, varying)

    def _visit_branch(self, stmt: S.If, varying: set[E.Var]) -> None:
        assert isinstance(varying, _Names)
        super()._visit_branch(stmt, varying)
        last = S.flat(stmt.then)[-1:]
        if stmt.orelse is None and any(isinstance(inner, S.ThreadReturn) for inner in last):
            self._narrow(inverse(stmt.cond), varying)

    def _narrow(self, cond: E.Expr, varying: _Names) -> None:
        """Only threads for which ``cond`` holds are there."""
        chosen = possible_threads(cond, self.launch, self._lets)
        if chosen is not None:
            varying.mask = varying.mask & chosen


def _fold_uniform_parts(expr: E.Expr, threads: Mapping[E.Var, Any]) -> E.Expr:
    """``expr`` with constants for its parts that have one value for all ``threads``."""
    memo: dict[E.Expr, E.Expr] = {}

    def fold(node: E.Expr) -> E.Expr:
        known = memo.get(node)
        if known is None:
            known = memo[node] = _fold_uniform(rebuild(node, fold), threads)
        return known

    return fold(expr)


def _fold_uniform(node: E.Expr, threads: Mapping[E.Var, Any]) -> E.Expr:
    """A part that the thread index alone decides, as a constant where it is the same."""
    if not node.dtype.is_integer and not node.dtype.is_bool:
        return node
    try:
        values = evaluate(node, threads)
    except TileUnsupportedError:
        return node
    flat = values.reshape(-1)
    return E.const(int(flat[0]), node.dtype) if (flat == flat[0]).all() else node


@lru_cache(maxsize=4)
def thread_groups(launch: S.Launch, warp: int) -> ThreadGroups:
    """The groups of ``launch``, found once for all passes that leave it as it is."""
    return ThreadGroups(launch, warp)


class ThreadGroups:
    """The thread group of every collective statement of a launch.

    ``partial``: statements of threads that are known but no whole warps. They are a group of
    consecutive threads, or of the first thread alone (``elected``) where they are not consecutive.
    ``divergent``: statements of threads that data decides. ``masks``: the threads of each other
    statement that is in one place. ``differing_operands``: products whose threads name different
    operands.
    """

    def __init__(self, launch: S.Launch, warp: int) -> None:
        self.launch = launch
        self.warp = warp
        self.all = (0, prod(launch.threads))
        self.ranges: dict[S.Stmt, tuple[int, int]] = {}
        self.divergent: set[S.Stmt] = set()
        self.masks: dict[S.Stmt, Mask] = {}
        self.partial: set[S.Stmt] = set()
        self.elected: set[S.Stmt] = set()
        self.differing_operands: dict[S.Stmt, Region] = {}
        self.values = Uniformity(launch)
        occurrences = Counter(S.walk(launch.body))
        self._visit(launch.body, np.ones(self.all[1], np.bool_), {})
        for stmt in self.divergent.union(stmt for stmt, count in occurrences.items() if count > 1):
            self.masks.pop(stmt, None)

    def of(self, stmt: S.Stmt) -> tuple[int, int]:
        """(first thread, number of threads) of the group that runs ``stmt``."""
        return self.ranges.get(stmt, self.all)

    def is_alone(self, stmt: S.Stmt) -> bool:
        """Whether one thread runs ``stmt``, as far as the thread index decides."""
        return self.of(stmt)[1] == 1 and stmt not in self.elected

    def like(self, new: S.Stmt, old: S.Stmt) -> None:
        """``new`` is run by the threads that run ``old``."""
        self.ranges[new] = self.of(old)
        for known in (self.divergent, self.partial, self.elected):
            if old in known:
                known.add(new)

    def _visit(self, stmt: S.Stmt, mask: Mask, lets: dict[E.Var, E.Expr]) -> Mask | None:
        """Record which threads run ``stmt`` and its parts. Returns the threads of ``mask`` that
        do not leave the kernel in it; None where that depends on data."""
        self._note(stmt, mask)
        if isinstance(stmt, S.ThreadReturn):
            return np.zeros_like(mask)
        if isinstance(stmt, S.Seq):
            return self._sequence(stmt, mask, lets)
        if isinstance(stmt, S.Let):
            lets[stmt.var] = substitute(stmt.value, lets)
        if isinstance(stmt, S.Gemm):
            self._compare(stmt, mask, lets)
        if isinstance(stmt, S.If):
            return self._branch(stmt, mask, lets)
        if isinstance(stmt, (S.For, S.While)) and self.values.divides(stmt):
            self.divergent.update(S.walk(stmt.body))
        remaining: Mask | None = mask
        for block in stmt.blocks():
            remaining = self._visit(block, mask, dict(lets))
        if isinstance(stmt, (S.For, S.While)):
            # They leave in one of its iterations or in none: all of them, or data decides.
            is_whole = remaining is not None and (
                not remaining.any() or bool((remaining == mask).all())
            )
            return mask if is_whole else None
        return remaining

    def _compare(self, stmt: S.Gemm, mask: Mask, lets: Mapping[E.Var, E.Expr]) -> None:
        """Note an operand that begins elsewhere for some threads of ``mask``, by the thread index
        alone: whatever other variables are, they are the same for all."""
        threads = frozenset(self.launch.thread_vars)
        for region in (stmt.a, stmt.b, stmt.c):
            for start in region.mins:
                start_index = substitute(E.as_expr(start), dict(lets))
                if threads.isdisjoint(start_index.variables):
                    continue
                values: dict[E.Var, Any] = {
                    var: np.zeros(1, np.int64) for var in start_index.variables
                }
                values |= {var: index[mask] for var, index in thread_indices(self.launch).items()}
                try:
                    values_of_threads = evaluate(start_index, values)
                except TileUnsupportedError:  # it reads memory
                    continue
                if (values_of_threads != values_of_threads.reshape(-1)[0]).any():
                    self.differing_operands.setdefault(stmt, region)

    def _sequence(self, stmt: S.Seq, mask: Mask, lets: dict[E.Var, E.Expr]) -> Mask | None:
        remaining: Mask | None = mask
        for inner in stmt.stmts:
            if remaining is None:
                self.divergent.update(S.walk(inner))
                self._visit(inner, mask, lets)
                continue
            mask = remaining if remaining.any() else mask
            remaining = self._visit(inner, mask, lets)
        return remaining

    def _note(self, stmt: S.Stmt, mask: Mask) -> None:
        self.masks[stmt] = mask
        group = range_of(mask, self.warp)
        if group is None:
            self.partial.add(stmt)
            first, count = int(np.argmax(mask)), int(np.count_nonzero(mask))
            contiguous = bool(mask[first : first + count].all())
            group = (first, count if contiguous else 1)
            if not contiguous:
                self.elected.add(stmt)
        self.ranges[stmt] = group

    def _branch(self, stmt: S.If, mask: Mask, lets: dict[E.Var, E.Expr]) -> Mask | None:
        uniform, differs = not self.values.divides(stmt), partial(self.values.differs, stmt=stmt)
        data = False  # whether data decides who takes which side
        remaining: list[Mask | None] = []
        all_stay = True  # no thread leaves
        for cond, block in ((stmt.cond, stmt.then), (inverse(stmt.cond), stmt.orelse)):
            chosen = None if uniform else exact_threads(cond, self.launch, lets, differs)
            data |= chosen is None and not uniform
            inner = mask if chosen is None else chosen & mask
            rest: Mask | None = inner
            if block is not None:
                if chosen is None and not uniform:
                    self.divergent.update(S.walk(block))
                rest = self._visit(block, inner if inner.any() else mask, dict(lets))
            remaining.append(rest if inner.any() else inner)
            all_stay &= rest is not None and (not inner.any() or bool((rest == inner).all()))
        if all_stay:
            return mask
        return None if data else _remaining_threads(remaining, uniform)
