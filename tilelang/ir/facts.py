"""The facts that hold in each part of a program, and a walk that carries them along.

Ranges of loop, block and thread variables and names hold wherever these are bound; a condition
holds in its branch, an assertion in what follows it, and what is left early shows its opposite.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise, takewhile

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.bounds import Bounds, Name, Range
from tilelang.ir.indices import is_index
from tilelang.ir.intervals import INF, Interval, full
from tilelang.ir.visitor import rebuild, rewrite_blocks, rewrite_exprs


def ranges_of(stmt: S.Stmt) -> Iterator[Range]:
    """The ranges of the variables that ``stmt`` and what is in it bind, the outer ones first."""
    for node in S.walk(stmt):
        yield from _ranges(node)


def _ranges(node: S.Stmt) -> Iterator[Range]:
    """The ranges of the variables that ``node`` itself binds."""
    if isinstance(node, S.Launch):
        yield from ((var, 0, extent, 1) for var, extent in zip(node.block_vars, node.grid))
        yield from ((var, 0, count, 1) for var, count in zip(node.thread_vars, node.threads))
    elif isinstance(node, S.For) and isinstance(node.step, E.Const) and node.step.value > 0:
        yield node.var, node.start, node.stop, node.step
    elif isinstance(node, S.Parallel):
        yield from ((var, 0, extent, 1) for var, extent in zip(node.vars, node.extents))


def _values(launch: S.Stmt) -> Iterator[Range | Name]:
    """:func:`ranges_of`, and names with one value, of a kind that has a range, at all bindings."""
    nodes = tuple(S.walk(launch))
    values: dict[E.Var, E.Expr | None] = {}
    for node in nodes:
        if isinstance(node, S.Let) and (node.var.dtype.is_bool or _has_range(node.value)):
            is_first = values.setdefault(node.var, node.value) is node.value
            values[node.var] = node.value if is_first else None
    for node in nodes:
        if isinstance(node, S.Let) and (value := values.get(node.var)) is not None:
            yield node.var, value
        yield from _ranges(node)


def _has_range(value: E.Expr) -> bool:
    """Whether a range of ``value`` may be known: an integer, or a number computed from some."""
    return value.dtype.is_integer or (value.dtype.is_float and not E.holds(value, E.Load))


def bounds_of(stmt: S.Stmt) -> Bounds:
    """The facts about the block, thread and loop variables of a launch, and of its names, of
    which the tile of a block that goes through tiles is one. What a launch assumes of sizes and
    parameters holds in all of it."""
    known = Bounds().with_ranges(_values(stmt))
    for cond in _assumed(stmt):
        known = known.assuming(cond)
    return known


def _assumed(stmt: S.Stmt) -> list[E.Expr]:
    """The assumptions of a launch about outer values, before any thread may leave it."""
    stmts = S.flat(stmt.body) if isinstance(stmt, S.Launch) else ()
    if not any(isinstance(node, S.Assert) for node in stmts):
        return []
    always = takewhile(lambda node: not S.holds(node, S.ThreadReturn), stmts)
    conds = [node.cond for node in always if isinstance(node, S.Assert) and node.assumed]
    inner = S.bound(stmt)
    return [c for c in conds if inner.isdisjoint(c.variables) and not E.holds(c, E.Load, E.Call)]


def keep_assumptions(launch: S.Launch, old: S.Launch) -> S.Launch:
    """``launch``, made of ``old``, with what ``old`` assumes before everything else."""
    stated = set(_assumed(launch))
    facts = [S.Assert(cond=cond, assumed=True) for cond in _assumed(old) if cond not in stated]
    return launch.with_body(S.seq(*facts, launch.body)) if facts else launch


def in_branches(known: Bounds, around: Iterable[S.Stmt]) -> Bounds:
    """``known`` with what conditions say of names and sizes in the last of the statements
    ``around``, each of which is inside the one before it."""
    for stmt, inner in pairwise(around):
        if isinstance(stmt, S.If) and not E.holds(stmt.cond, E.Load, E.Call):
            known = known.assuming(stmt.cond, inner is stmt.then)
    return known


def known_of(func: S.PrimFunc) -> Bounds:
    """The bounds that hold everywhere in ``func``: of its sizes and integer parameters, too."""
    parts = [n for buffer in func.buffers for n in (*buffer.shape, *(buffer.strides or ()))]
    sizes = dict.fromkeys(v for n in parts if isinstance(n, E.Expr) for v in n.variables)
    known = {param: full(param.dtype) for param in func.params if isinstance(param, E.Var)}
    known = {var: at for var, at in known.items() if var.dtype.is_integer}
    known |= dict.fromkeys(sizes, Interval(0, INF))
    return Bounds(known).with_ranges(_values(func.body))


class FactWalk:
    """Rewrites expressions with the facts that hold there.

    Args:
        known: what is known everywhere.
        written: storage that changes.
    """

    def __init__(self, known: Bounds, written: frozenset[E.Var] = frozenset()) -> None:
        self.known = known
        self.written = written
        self.memos: dict[Bounds, dict[E.Expr, E.Expr]] = {}

    # -- statements --------------------------------------------------------------------------------
    def visit(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt`` with its expressions rewritten."""
        if isinstance(stmt, S.Seq):
            return self.sequence(stmt)
        outer = self.known
        result = self.own(stmt)
        if isinstance(result, S.If):
            result = self.branch(result)
        elif result.blocks():
            self.known = self.inside(result)
            result = rewrite_blocks(result, self.visit)
        self.known = outer
        return result

    def sequence(self, stmt: S.Seq) -> S.Stmt:
        """Statements in order; what one of them shows holds for those after it."""
        outer = self.known
        visited = []
        for inner in stmt.stmts:
            visited.append(self.visit(inner))
            self.known = self.after(inner)
        self.known = outer
        return stmt.of(visited)

    def after(self, stmt: S.Stmt) -> Bounds:
        """The bounds that hold after ``stmt``."""
        if isinstance(stmt, S.Let) and _has_range(stmt.value):
            if stmt.var not in self.known.names:  # a name with several bindings
                return self.known.named(stmt.var, stmt.value)
        if isinstance(stmt, S.Assert):
            return self.known.assuming(stmt.cond, True, self.written)
        if isinstance(stmt, S.If):
            if stmt.orelse is None and _is_exit(stmt.then):
                return self.known.assuming(stmt.cond, False, self.written)
            if stmt.orelse is not None and _is_exit(stmt.orelse):
                return self.known.assuming(stmt.cond, True, self.written)
        return self.known

    def inside(self, stmt: S.Stmt) -> Bounds:
        """The bounds that hold in the blocks of ``stmt``."""
        known = self.known
        for var, first, stop, _ in _ranges(stmt):
            known = _with_loop_range(known, var, E.as_expr(first), E.as_expr(stop))
        if isinstance(stmt, S.For) and isinstance(stmt.step, E.Const) and stmt.step.value < 0:
            known = known.assuming(E.binary("le", stmt.var, stmt.start))
            known = known.assuming(E.binary("gt", stmt.var, stmt.stop))
        elif isinstance(stmt, S.While):
            known = known.assuming(stmt.cond, True, _changed(stmt.cond, stmt.body))
        return known

    def branch(self, stmt: S.If) -> S.Stmt:
        """Both sides, each with what the condition says there."""
        known = self.known
        self.known = known.assuming(stmt.cond, True, _changed(stmt.cond, stmt.then))
        then = self.visit(stmt.then)
        orelse = stmt.orelse
        if orelse is not None:
            self.known = known.assuming(stmt.cond, False, _changed(stmt.cond, orelse))
            orelse = self.visit(orelse)
        if then is stmt.then and orelse is stmt.orelse:
            return stmt
        return replace(stmt, then=then, orelse=orelse)

    def own(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt`` with the expressions that it has itself."""
        return rewrite_exprs(stmt, self.expr)

    # -- expressions -------------------------------------------------------------------------------
    def expr(self, expr: E.Expr) -> E.Expr:
        """``expr`` rewritten."""
        if not self.concerns(expr):
            return expr
        memo = self.memos.setdefault(self.known, {})
        if expr not in memo:
            for node in self.chain(expr):  # what is below is known then: no deep recursion
                if node not in memo:
                    memo[node] = self.rewritten(node)
        return memo[expr]

    def concerns(self, expr: E.Expr) -> bool:
        """Whether anything in ``expr`` may change."""
        return E.holds(expr, E.Load, E.Call)

    def chain(self, expr: E.Expr) -> list[E.Expr]:
        """``expr`` after the operands of sums, products and the like in it."""
        nodes = [expr]
        for node in nodes:
            if isinstance(node, E.Binary) and node.op not in ("land", "lor"):
                nodes += [part for part in (node.a, node.b) if self.concerns(part)]
        return nodes[::-1]

    def rewritten(self, expr: E.Expr) -> E.Expr:
        """A node whose operands come from :meth:`expr`."""
        if isinstance(expr, E.Select) and expr.lazy:
            cond = self.expr(expr.cond)
            t, f = self.where(expr.cond, True, expr.t), self.where(expr.cond, False, expr.f)
            is_unchanged = cond is expr.cond and t is expr.t and f is expr.f
            return expr if is_unchanged else E.Select(cond, t, f, True)
        if isinstance(expr, E.Binary) and expr.op in ("land", "lor"):
            a, b = self.expr(expr.a), self.where(expr.a, expr.op == "land", expr.b)
            return expr if a is expr.a and b is expr.b else E.Binary(expr.op, a, b)
        return rebuild(expr, self.expr)

    def where(self, cond: E.Expr, holds: bool, expr: E.Expr) -> E.Expr:
        """``expr``, which is evaluated where ``cond`` holds, or does not."""
        outer = self.known
        self.known = outer.assuming(cond, holds)
        result = self.expr(expr)
        self.known = outer
        return result


def _with_loop_range(known: Bounds, var: E.Var, first: E.Expr, stop: E.Expr) -> Bounds:
    """With ``var`` from ``first`` on and below ``stop``; constants its range has said."""
    if not isinstance(first, E.Const):
        known = known.assuming(E.binary("ge", var, first))
    return known if isinstance(stop, E.Const) else known.assuming(E.binary("lt", var, stop))


def _is_exit(stmt: S.Stmt) -> bool:
    """Whether control does not reach the statement after ``stmt``."""
    if isinstance(stmt, S.Seq):
        return any(map(_is_exit, stmt.stmts))
    return isinstance(stmt, S.LEAVES)


def _changed(cond: E.Expr, block: S.Stmt) -> frozenset[E.Var]:
    """The storage that ``block`` writes, if ``cond`` loads something."""
    return frozenset(effects.written(block)) if E.holds(cond, E.Load) else frozenset()


def plain_values(body: S.Stmt) -> frozenset[E.Var]:
    """The variables bound in ``body`` that are not index arithmetic."""
    plain: set[E.Var] = set()
    for stmt in S.find(body, S.Let):
        if not is_index(stmt.value, plain):
            plain.add(stmt.var)
    return frozenset(plain)
