"""Lane loops, statement by statement: each runs for all lanes before the next one does.

The lanes must not depend on each other (:func:`is_lane_parallel`). What each iteration owns becomes
an array with a slot per lane (:func:`privatized`): its variables and arrays, and names of what the
loop stores elsewhere, or of much, whose values are not written into their uses.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import prod

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.visitor import ExprRewriter, Replacement, rebuild, substitute
from tilelang.transforms.analysis.dependence import Iterations, facts_of, is_same_element
from tilelang.transforms.lower.context import HIDDEN

MAX_INLINED = 64  # nodes of a value that is computed wherever it is used, of several uses
MAX_REPEATED = 3  # uses in which a quotient or a function is computed again
MAX_SLOTS = 64  # of all lanes together, which are registers
DRAWS = "random numbers"  # the writer of rows that take them


def is_lane_parallel(loop: S.For, count: int, exact: bool = False) -> bool:
    """Whether the statements of ``loop`` may run one after the other, each for all ``count`` lanes.

    Only stores, conditions, loops and pure lets, whose values may be substituted. An element
    that is stored is used at the same place only, and by no other place in any lane; where it is
    ``exact``, or some place is in a loop, by no other lane at all. One that several lanes store is
    used by one statement. Iterations that are independent use nothing that another one stores,
    unless a thread has it alone. The first stores may draw random numbers, or one of the others.
    """
    body = loop.body
    exact = exact or S.holds(body, S.For)
    numbers = [node for node in S.walk(body) if any(map(draws, node.exprs()))]
    in_place = max(0 if S.holds(body, S.For) else 1, drawing(S.flat(body)))
    if len(numbers) > in_place or not all(isinstance(node, S.Store) for node in numbers):
        return False
    stores: set[E.Var] = set()
    early: set[E.Var] = set()  # storage that a let reads
    if _too_large(body):
        return False
    for node in S.walk(body):
        if isinstance(node, S.Let):
            early |= effects.used(node.value)
        elif isinstance(node, S.Store):
            stores.add(node.buffer.data)
            if node.buffer.is_var:
                return False
        elif not isinstance(node, (S.Seq, S.If, S.For)):
            return False
    if not early.isdisjoint(stores):
        return False
    facts = facts_of(body)
    varying, values = facts.bound.union((loop.var,)), facts.pure_values()
    lanes = Iterations(loop.var, varying, values, {loop.var: count})
    accesses = [access for access in effects.accesses(body, nested=True) if access.data in stores]
    for store in (access for access in accesses if access.writes):
        others = (access for access in accesses if access.data is store.data)
        if exact:
            if not all(lanes.are_disjoint(store, a) for a in others):
                return False
        elif loop.hints.independent and not store.buffer.storage.startswith("local"):
            continue
        elif any(not is_same_element(store, a) and lanes.distance(store, a) for a in others):
            return False
    shared = {a.data for a in accesses if a.writes and not lanes.are_disjoint(a, a)}
    uses = [[effects.used(part) for part in seq.stmts] for seq in S.find(body, S.Seq)]
    is_single = all(sum(data in part for part in seq) < 2 for seq in uses for data in shared)
    return is_single and all(c.atom.effect is Effect.NONE or draws(c) for c in S.calls(body))


def _too_large(body: S.Stmt) -> set[E.Var]:
    """The names in ``body`` of values that are too large, or take too long, to be written into all
    of their uses."""
    sizes: dict[E.Var, int] = {}
    large, slow = set[E.Var](), set[E.Var]()
    for node in S.find(body, S.Let):
        nodes = E.walk(node.value)
        sizes[node.var] = sum(sizes.get(n, 1) if isinstance(n, E.Var) else 1 for n in nodes)
        if sizes[node.var] > MAX_INLINED and E.holds(node.value, E.Load, E.Call):
            large.add(node.var)
        elif any(_is_slow(part) for part in E.walk(node.value)):
            slow.add(node.var)
    if not large | slow or S.holds(body, S.For):
        return large | slow
    known = dict[E.Expr, Counter[E.Expr]]()
    exprs = (expr for node in S.walk(body) for expr in node.exprs())
    uses = sum((_uses(expr, large | slow, known) for expr in exprs), Counter[E.Expr]())
    return {name for name in large | slow if uses[name] > (1 if name in large else MAX_REPEATED)}


def _is_slow(node: E.Expr) -> bool:
    """Whether ``node`` is a quotient or a function of floats, which takes many instructions."""
    divides = isinstance(node, E.Binary) and node.op == "div"
    return node.dtype.is_float and (divides or isinstance(node, E.Call))


def _uses(expr: E.Expr, names: set[E.Var], known: dict[E.Expr, Counter[E.Expr]]) -> Counter[E.Expr]:
    """The number of uses of each of ``names`` in ``expr``."""
    if expr not in known:
        below = (_uses(child, names, known) for child in expr.children())
        known[expr] = Counter([expr] if expr in names else ()) + sum(below, Counter[E.Expr]())
    return known[expr]


def ahead(loop: S.For) -> tuple[list[S.Stmt], S.For]:
    """The names of ``loop`` that are computed and the same in all lanes, which go before it, and
    the loop without them. Integers stay that are loaded or added up, as parts of their uses."""
    names, rest, values = list[S.Stmt](), list[S.Stmt](), dict[E.Var, E.Expr]()
    varying, stored = S.bound(loop), effects.written(loop.body)
    for stmt in S.flat(loop.body):
        if isinstance(stmt, S.Let):
            value = substitute(stmt.value, values)
            fixed = varying.isdisjoint(value.variables) and stored.isdisjoint(effects.used(value))
            if fixed and all(c.atom.effect is Effect.NONE for c in E.find(value, E.Call)):
                if value.dtype.is_float or E.holds(value, E.Call):
                    names.append(replace(stmt, value=value))
                    varying.remove(stmt.var)
                    continue
                values[stmt.var] = value
        rest.append(stmt)
    return names, replace(loop, body=S.seq(*rest)) if names else loop


def draws(expr: E.Expr) -> bool:
    """Whether ``expr`` takes a number from the state of the thread, whose draws are in order."""
    return any(call.atom.writer == DRAWS for call in E.find(expr, E.Call))


def drawing(stmts: tuple[S.Stmt, ...]) -> int:
    """The number of first statements that store random numbers, each the next of its thread."""
    others = (n for n, s in enumerate(stmts) if not isinstance(s, S.Store) or not draws(s.value))
    return next(others, len(stmts))


def privatized(loop: S.For, count: int) -> tuple[list[S.Stmt], S.For]:
    """The slots of a loop of ``count`` lanes, and the loop with them; no slots and the loop itself
    where it cannot have them, or where they are too many."""
    slots = _Slots(loop.var - loop.start, count)
    stored = {node.buffer.data for node in S.find(loop.body, S.Store)}
    large = _too_large(loop.body)
    for node in S.walk(loop.body):
        if any(E.holds(expr, E.AddressOf) for expr in node.exprs()):
            return [], loop
        if isinstance(node, S.Alloc):
            array, is_own = slots.array(node.buffer), node.buffer.storage in ("local", "local.var")
            if not is_own or not all(isinstance(extent, int) for extent in array.shape):
                return [], loop
            slots.arrays[node.buffer] = array
        elif isinstance(node, S.Let):
            needs_slot = draws(node.value) or effects.used(node.value) & stored
            if needs_slot or node.var in large or slots.names.keys() & node.value.variables:
                slots.names[node.var] = slots.array(node.var)
    arrays = (*slots.arrays.values(), *slots.names.values())
    if sum(prod(map(int, array.shape)) for array in arrays) > MAX_SLOTS:
        return [], loop
    own, names = S.bound(loop.body) | {loop.var}, set(slots.names.values())

    def is_ahead(stmt: S.Stmt) -> bool:
        is_name = isinstance(stmt, S.Store) and stmt.buffer in names
        return any(draws(e) and own.isdisjoint(e.variables) for e in stmt.exprs() if is_name)

    stmts = sorted(S.flat(slots.rewrite(loop.body)), key=is_ahead, reverse=True)
    allocs: list[S.Stmt] = [S.Alloc(buffer=array, loc=loop.loc) for array in arrays]
    return allocs, replace(loop, body=S.seq(*stmts))


class _Slots(ExprRewriter):
    """Puts ``arrays`` in place of buffers and ``names``, with the slot of the ``lane`` in front."""

    def __init__(self, lane: E.Expr, count: int) -> None:
        self.lane = lane
        self.count = count
        self.arrays: dict[Buffer, Buffer] = {}
        self.names: dict[E.Var, Buffer] = {}

    def array(self, variable: Buffer | E.Var) -> Buffer:
        """An array with a slot per lane."""
        shape = Shape((self.count, *(variable.shape if isinstance(variable, Buffer) else ())))
        return Buffer(variable.name, shape, variable.dtype, "local", attrs=HIDDEN)

    def node(self, expr: E.Expr) -> E.Expr:
        if isinstance(expr, E.Var) and expr in self.names:
            return E.Load(self.names[expr], (self.lane,))
        expr = rebuild(expr, self.expr)
        if isinstance(expr, E.Load) and expr.buffer in self.arrays:
            return E.Load(self.arrays[expr.buffer], (self.lane, *expr.indices))
        return expr

    def stmt(self, stmt: S.Stmt) -> Replacement:
        if isinstance(stmt, S.Let) and stmt.var in self.names:
            array, value = self.names[stmt.var], stmt.value
            indices: tuple[E.Expr, ...] = ()
        elif isinstance(stmt, S.Store) and stmt.buffer in self.arrays:
            array, indices, value = self.arrays[stmt.buffer], stmt.indices, stmt.value
        elif isinstance(stmt, S.Alloc):
            if stmt.init is None:
                return None
            array, indices, value = self.arrays[stmt.buffer], (E.const(0),), stmt.init
        else:
            return stmt
        return S.Store(buffer=array, indices=(self.lane, *indices), value=value, loc=stmt.loc)
