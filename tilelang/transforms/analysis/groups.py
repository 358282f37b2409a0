"""Thread groups: which threads of a block take a branch.

A branch on the thread index that whole warps take together forms a thread group: the statements in
it run by that group alone, and its barriers count its threads only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from tilelang.errors import Loc, TileUnsupportedError
from tilelang.ir.buffer import Region
from tilelang.ir.expr import (
    Binary,
    Call,
    Const,
    Expr,
    Load,
    Unary,
    Var,
    as_expr,
    binary,
    const,
    find,
)
from tilelang.ir.expr import walk as walk_expr
from tilelang.ir.stmt import For, Gemm, If, Launch, Let, Seq, Stmt, ThreadReturn, While, walk
from tilelang.ir.uniform import Varying, varying_exit
from tilelang.ir.visitor import rebuild, substitute
from tilelang.layout.evaluate import evaluate

Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
MAX_BARRIERS = 16  # of a block
# Annotation of copies and products: a barrier of their group follows, before one thread arrives.
SIGNALS = "signals"
# Attribute of an operand that two groups of warps hand to each other, by mbarriers of the program:
# what a group does with it, and what it overwrites, the other one has had in between.
HANDED_OVER = "handed_over"
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


def thread_number(launch: Launch) -> Expr:
    """The number of the thread in its block."""
    x, y, _ = launch.threads
    number: Expr = launch.thread_vars[0]
    for var, step, extent in zip(launch.thread_vars[1:], (x, x * y), launch.threads[1:]):
        if extent > 1:
            number = binary("add", number, binary("mul", var, const(step)))
    return number


def thread_indices(launch: Launch) -> dict[Var, Any]:
    """The x, y and z index of every thread, in the order of the linear thread index."""
    x, y, z = launch.threads
    linear = np.arange(x * y * z, dtype=np.int64)
    indices = (linear % x, linear // x % y, linear // (x * y))
    return dict(zip(launch.thread_vars, indices))


def integer_lets(launch: Launch) -> dict[Var, Expr]:
    """Values of the integer names of a launch, without names of others in them."""
    values: dict[Var, Expr] = {}
    for stmt in walk(launch.body):
        if isinstance(stmt, Let) and stmt.value.dtype.is_integer:
            values[stmt.var] = substitute(stmt.value, values)
    return values


def thread_mask(cond: Expr, launch: Launch, lets: Mapping[Var, Expr] | None = None) -> Mask | None:
    """For each thread whether ``cond`` holds; None if more than the thread index decides that.

    Args:
        lets: values of variables that may occur in ``cond``.
    """
    threads = thread_indices(launch)
    try:
        holds = evaluate(_elected(substitute(cond, dict(lets or {})), launch), threads)
    except TileUnsupportedError:
        return None
    return np.broadcast_to(holds != 0, (len(next(iter(threads.values()))),))


def _elected(expr: Expr, launch: Launch) -> Expr:
    """``expr`` with the threads that ``T.shuffle_elect`` chooses written out."""
    if not any(True for call in find(expr, Call) if call.op == "shuffle_elect"):
        return expr
    if isinstance(expr, Call) and expr.op == "shuffle_elect":
        x, y, z = launch.threads
        linear: Expr = launch.thread_vars[0]
        for var, step in zip(launch.thread_vars[1:], (x, x * y)):
            linear = linear + var * step
        extent = expr.args[0]
        count = int(extent.value) if isinstance(extent, Const) else 0
        return (linear % (count or x * y * z)).equal(0)
    return rebuild(expr, lambda part: _elected(part, launch))


def exact_threads(
    cond: Expr,
    launch: Launch,
    lets: Mapping[Var, Expr] | None,
    is_uniform: Callable[[Expr], bool],
) -> Mask | None:
    """The threads that take a branch on ``cond`` if any do: parts of a conjunction that are
    ``is_uniform`` for all threads say whether, the others which. None where data says which."""
    own_mask = thread_mask(cond, launch, lets)
    if own_mask is not None or not (isinstance(cond, Binary) and cond.op == "land"):
        return own_mask
    sides = [side for side in (cond.a, cond.b) if not is_uniform(side)]
    masks = [exact_threads(side, launch, lets, is_uniform) for side in sides]
    known = [mask for mask in masks if mask is not None]
    return np.logical_and.reduce(known) if known and len(known) == len(masks) else None


def possible_threads(
    cond: Expr, launch: Launch, lets: Mapping[Var, Expr] | None = None
) -> Mask | None:
    """The threads for which ``cond`` may hold: of a conjunction the parts that can be evaluated.

    None when no part of ``cond`` says anything about the thread.
    """
    if isinstance(cond, Binary) and cond.op == "land":
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
    whole = lo % warp == 0 and (end % warp == 0 or end == mask.size)
    return (lo, count) if whole and int(chosen[-1]) == end - 1 else None


def thread_group_of(cond: Expr, launch: Launch, warp: int) -> tuple[int, int] | None:
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


def inverse(cond: Expr) -> Expr:
    """``not cond``."""
    if isinstance(cond, Unary) and cond.op == "lnot":
        return cond.a
    return Unary("lnot", cond)


def _remaining_threads(sides: list[Mask | None], uniform: bool) -> Mask | None:
    """The threads that go on after a branch, from those that go on after its sides, which all
    threads take together (``uniform``) or each the one that its index says; None where data
    decides."""
    then, orelse = sides
    if then is None or orelse is None:
        return None
    if not uniform:
        return then | orelse
    if not then.any() or not orelse.any():
        return then if then.any() else orelse  # all of them leave on the other side
    return then if bool((then == orelse).all()) else None


def is_uniform_for(
    expr: Expr,
    threads: Mapping[Var, Any],
    lets: Mapping[Var, Expr],
    varying: Varying,
    group_uniform: Set[Var],
) -> bool:
    """Whether some threads see one value of ``expr``.

    Args:
        threads: the thread indices of these threads.
        lets: values of variables that may occur in ``expr``.
        alike: variables that are the same for these threads, though not for all.
    """
    memo: dict[int, Expr] = {}

    def fold(node: Expr) -> Expr:
        known = memo.get(id(node))
        if known is None:
            known = memo[id(node)] = _fold_uniform(rebuild(node, fold), threads)
        return known

    rest = fold(substitute(expr, dict(lets)))
    varying_vars = {node for node in walk_expr(rest) if isinstance(node, Var)} & varying.vars
    reads = any(isinstance(node, Load) and varying.expr(node) for node in walk_expr(rest))
    return not reads and varying_vars <= group_uniform


def _fold_uniform(node: Expr, threads: Mapping[Var, Any]) -> Expr:
    """A part that the thread index alone decides, as a constant where it is the same."""
    if not node.dtype.is_integer and not node.dtype.is_bool:
        return node
    try:
        values = evaluate(node, threads)
    except TileUnsupportedError:
        return node
    flat = values.reshape(-1)
    return const(int(flat[0]), node.dtype) if (flat == flat[0]).all() else node


@lru_cache(maxsize=4)
def thread_groups(launch: Launch, warp: int) -> ThreadGroups:
    """The groups of ``launch``, found once for all passes that leave it as it is."""
    return ThreadGroups(launch, warp)


class ThreadGroups:
    """The thread group of every collective statement of a launch.

    ``partial``: statements of threads that are known but no whole warps. They are a group of
    consecutive threads, or of the first thread alone (``elected``) where they are not consecutive.
    ``divergent``: statements of threads that data decides. ``differing_operands``: products whose
    threads name different operands.
    """

    def __init__(self, launch: Launch, warp: int) -> None:
        self.launch = launch
        self.warp = warp
        x, y, z = launch.threads
        self.all = (0, x * y * z)
        self.ranges: dict[Stmt, tuple[int, int]] = {}
        self.divergent: set[Stmt] = set()
        self.partial: set[Stmt] = set()
        self.elected: set[Stmt] = set()
        self.differing_operands: dict[Stmt, Region] = {}
        self.varying = Varying(launch, votes=True, roles=True)
        self.group_uniform: set[Var] = set()  # loop variables that are the same in their group
        self._visit(launch.body, np.ones(self.all[1], np.bool_), {})

    def of(self, stmt: Stmt) -> tuple[int, int]:
        """(first thread, number of threads) of the group that runs ``stmt``."""
        return self.ranges.get(stmt, self.all)

    def like(self, new: Stmt, old: Stmt) -> None:
        """``new`` is run by the threads that run ``old``."""
        self.ranges[new] = self.of(old)
        for known in (self.divergent, self.partial, self.elected):
            if old in known:
                known.add(new)

    def _visit(self, stmt: Stmt, mask: Mask, lets: dict[Var, Expr]) -> Mask | None:
        """Note who runs ``stmt`` and what it holds; gives the threads of ``mask`` that do not
        leave the kernel in it, None where data decides which do."""
        self._note(stmt, mask)
        if isinstance(stmt, ThreadReturn):
            return np.zeros_like(mask)
        if isinstance(stmt, Seq):
            return self._sequence(stmt, mask, lets)
        if isinstance(stmt, Let):
            lets[stmt.var] = substitute(stmt.value, lets)
        if isinstance(stmt, Gemm):
            self._compare(stmt, mask, lets)
        if isinstance(stmt, If):
            return self._branch(stmt, mask, lets)
        if isinstance(stmt, (For, While)):
            rounds = [expr for expr in stmt.exprs() if not self._is_uniform_for(expr, mask, lets)]
            if rounds or varying_exit(stmt.body, self.varying):
                self.divergent.update(walk(stmt.body))
            elif isinstance(stmt, For):
                self.group_uniform.add(stmt.var)
        remaining: Mask | None = mask
        for block in stmt.blocks():
            remaining = self._visit(block, mask, dict(lets))
        if isinstance(stmt, (For, While)):
            # They leave in one of its iterations or in none: all of them, or data decides.
            whole = remaining is not None and (
                not remaining.any() or bool((remaining == mask).all())
            )
            return mask if whole else None
        return remaining

    def _compare(self, stmt: Gemm, mask: Mask, lets: Mapping[Var, Expr]) -> None:
        """Note an operand that begins elsewhere for some threads of ``mask``, by the thread index
        alone: whatever other variables are, they are the same for all."""
        threads = frozenset(self.launch.thread_vars)
        for region in (stmt.a, stmt.b, stmt.c):
            for start in region.mins:
                start_index = substitute(as_expr(start), dict(lets))
                if threads.isdisjoint(start_index.variables):
                    continue
                values: dict[Var, Any] = {
                    var: np.zeros(1, np.int64) for var in start_index.variables
                }
                indices = thread_indices(self.launch)
                values |= {var: index[mask] for var, index in indices.items()}
                try:
                    values_of_threads = evaluate(start_index, values)
                except TileUnsupportedError:  # it reads memory
                    continue
                if (values_of_threads != values_of_threads.reshape(-1)[0]).any():
                    self.differing_operands.setdefault(stmt, region)

    def _sequence(self, stmt: Seq, mask: Mask, lets: dict[Var, Expr]) -> Mask | None:
        remaining: Mask | None = mask
        for inner in stmt.stmts:
            if remaining is None:
                self.divergent.update(walk(inner))
                self._visit(inner, mask, lets)
                continue
            mask = remaining if remaining.any() else mask
            remaining = self._visit(inner, mask, lets)
        return remaining

    def _note(self, stmt: Stmt, mask: Mask) -> None:
        group = range_of(mask, self.warp)
        if group is None:
            self.partial.add(stmt)
            first, count = int(np.argmax(mask)), int(np.count_nonzero(mask))
            contiguous = bool(mask[first : first + count].all())
            group = (first, count if contiguous else 1)
            if not contiguous:
                self.elected.add(stmt)
        self.ranges[stmt] = group

    def _branch(self, stmt: If, mask: Mask, lets: dict[Var, Expr]) -> Mask | None:
        uniform = self._is_uniform(stmt.cond)
        data = False  # whether data decides who takes which side
        remaining: list[Mask | None] = []
        all_stay = True  # nobody leaves
        for cond, block in ((stmt.cond, stmt.then), (inverse(stmt.cond), stmt.orelse)):
            chosen = None if uniform else exact_threads(cond, self.launch, lets, self._is_uniform)
            data |= chosen is None and not uniform
            inner = mask if chosen is None else chosen & mask
            rest: Mask | None = inner
            if block is not None:
                if chosen is None and not uniform:
                    self.divergent.update(walk(block))
                rest = self._visit(block, inner if inner.any() else mask, dict(lets))
            remaining.append(rest if inner.any() else inner)
            all_stay &= rest is not None and (not inner.any() or bool((rest == inner).all()))
        if all_stay:
            return mask
        return None if data else _remaining_threads(remaining, uniform)

    def _is_uniform(self, expr: Expr) -> bool:
        return not self.varying.expr(expr)

    def _is_uniform_for(self, expr: Expr, mask: Mask, lets: Mapping[Var, Expr]) -> bool:
        """Whether the threads of ``mask`` see one value."""
        if self._is_uniform(expr) or mask.all():
            return self._is_uniform(expr)
        threads = {var: values[mask] for var, values in thread_indices(self.launch).items()}
        return is_uniform_for(expr, threads, lets, self.varying, self.group_uniform)
