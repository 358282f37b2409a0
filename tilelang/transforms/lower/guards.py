"""Bounds guards: loads outside give the safe value, stores and atomics outside are dropped.

Every access to a global tensor whose index is not proved to be inside the declared shape gets a
condition. A loop nest of independent iterations is written twice where that pays: once without
conditions, taken when the corners of the whole nest are inside (one comparison per access and
nest), once with a condition on every access. Full tiles therefore run without tests, and the
conditions never stand inside a vectorised loop.

Relies on :mod:`tiles`: all accesses are loads and stores.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.bounds import Bounds, prove
from tilelang.ir.buffer import Buffer
from tilelang.ir.linear import Linear, depends_on, parted, unwrapped
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import (
    ExprRewriter,
    Rewriter,
    rebuild,
    replace_changed,
    rewrite_blocks,
    substitute,
)
from tilelang.target import Context


def insert_guards(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with the out-of-bounds rule written out."""
    return func.with_body(_Guards(Bounds(), {}).visit(func.body))


class _Guards:
    """Walks with what is known of the variables in scope."""

    def __init__(self, bounds: Bounds, safe: dict[E.Var, E.Expr]) -> None:
        self.bounds = bounds
        self.safe = safe
        self.lets: dict[E.Var, E.Expr] = {}  # lets without loads, for analysis
        self.facts: frozenset[int] | set[int] = frozenset()  # ids of conditions that hold here

    def visit(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt`` with guards; loop nests split where that removes conditions."""
        if isinstance(stmt, S.Launch):
            return self._launch(stmt)
        if isinstance(stmt, S.For):
            return self._for(stmt)
        if isinstance(stmt, S.Let) and _pure(stmt.value):
            self.lets[stmt.var] = substitute(stmt.value, self.lets)
        if not list(stmt.blocks()):
            return self.guard(stmt)
        if isinstance(stmt, S.If):
            return self._if(stmt)
        if isinstance(stmt, S.While):
            stmt = replace_changed(stmt, cond=_Guarded(self).expr(stmt.cond))
        return rewrite_blocks(stmt, self.visit)

    def _launch(self, stmt: S.Launch) -> S.Stmt:
        for buffer, value in stmt.annotation("safe_value", ()):
            self.safe[buffer.data] = E.as_expr(value, buffer.dtype)
        for var, extent in zip(stmt.block_vars, stmt.grid):
            self.bounds = self.bounds.with_range(var, 0, extent)
        for var, count in zip(stmt.thread_vars, stmt.threads):
            self.bounds = self.bounds.with_range(var, 0, count)
        return replace_changed(stmt, body=self.visit(stmt.body))

    def _if(self, stmt: S.If) -> S.Stmt:
        """A branch; its condition narrows what is known of loop variables."""
        outer = self.bounds
        cond = _Guarded(self).expr(stmt.cond)
        for conjunct in _conjuncts(simplify(stmt.cond, outer)):
            self.bounds = _narrowed(self.bounds, conjunct)
        then = self.visit(stmt.then)
        self.bounds = outer
        orelse = None if stmt.orelse is None else self.visit(stmt.orelse)
        return replace_changed(stmt, cond=cond, then=then, orelse=orelse)

    def _for(self, stmt: S.For) -> S.Stmt:
        outer = self.bounds
        self.bounds = outer.with_range(stmt.var, stmt.start, stmt.stop)
        try:
            if dict(stmt.annotations).get("parallel") != 0:
                return replace_changed(stmt, body=self.visit(stmt.body))
            return self._nest(stmt, outer)
        finally:
            self.bounds = outer

    def _nest(self, stmt: S.For, outer: Bounds) -> S.Stmt:
        """A nest of independent iterations: unguarded when all corners are inside."""
        guarded = self._inside(stmt)
        finder = _Corners(self, stmt)
        finder.rewrite(stmt)
        if finder.found and not finder.hopeless:
            distinct = {id(test): test for test in (simplify(t, outer) for t in finder.tests)}
            tests = [test for test in distinct.values() if not isinstance(test, E.Const)]
            never = any(isinstance(t, E.Const) and not t.value for t in distinct.values())
            if len(tests) <= 16 and not never:
                cond = E.conjunction(tests)
                if isinstance(cond, E.Const):
                    return guarded
                inside = _FromStart().rewrite(stmt)
                return S.If(cond=cond, then=inside, orelse=guarded, loc=stmt.loc)
        return guarded

    def _inside(self, stmt: S.For) -> S.Stmt:
        """The nest with a guard at every access, without splitting inner nests again."""
        body = stmt.body
        inner: S.Stmt
        if isinstance(body, S.For) and dict(body.annotations).get("parallel"):
            saved = self.bounds
            self.bounds = saved.with_range(body.var, body.start, body.stop)
            inner = self._inside(body)
            self.bounds = saved
        else:
            inner = self.visit(body)
        return replace_changed(stmt, body=inner)

    # -- one statement -----------------------------------------------------------------------
    def guard(self, stmt: S.Stmt) -> S.Stmt:
        """A statement without blocks, its accesses guarded."""
        if isinstance(stmt, S.Store):
            return self._store(stmt)
        if isinstance(stmt, S.Eval) and stmt.call is not None and stmt.call.atom.elements > 1:
            return self._sum(stmt, stmt.call)
        rewritten = _Guarded(self).rewrite(stmt)
        if rewritten.call is not None:
            cond = self.call_condition(rewritten.call)
            if cond is not None:
                return S.If(cond=cond, then=rewritten, loc=stmt.loc)
        return rewritten

    def _store(self, stmt: S.Store) -> S.Stmt:
        """A guarded store; what its own condition says needs no second test in the value."""
        indices = tuple(_Guarded(self).expr(index) for index in stmt.indices)
        cond = self.condition(stmt.buffer, indices)
        if cond is None:
            return _Guarded(self).rewrite(stmt)
        outer = self.facts
        self.facts = outer | {id(conjunct) for conjunct in _conjuncts(cond)}
        inner = replace(stmt, indices=indices, value=_Guarded(self).expr(stmt.value))
        self.facts = outer
        return S.If(cond=cond, then=inner, loc=stmt.loc)

    def _sum(self, stmt: S.Eval, call: E.Call) -> S.Stmt:
        """An atomic sum of neighbours: as one where all of them are inside, else one by one."""
        count = call.atom.elements
        args = tuple(
            rebuild(arg, _Guarded(self).expr)
            if isinstance(arg, E.AddressOf)
            else _Guarded(self).expr(arg)
            for arg in call.args
        )
        vector = replace(stmt, value=E.Call(call.atom, args, call.dtype, call.attrs))
        addresses = [arg for arg in args if isinstance(arg, E.AddressOf)]
        ends = product(addresses, (0, count - 1))
        conditions = [self.condition(arg.buffer, _beside(arg.indices, at)) for arg, at in ends]
        tests = [test for test in conditions if test is not None]
        if not tests:
            return vector
        cond = E.conjunction(tests)
        single = [self.guard(self._part(stmt, args, at)) for at in range(count)]
        return S.If(cond=cond, then=vector, orelse=S.seq(*single), loc=stmt.loc)

    @staticmethod
    def _part(stmt: S.Eval, args: tuple[E.Expr, ...], at: int) -> S.Stmt:
        """What one element of an atomic sum of neighbours does."""
        target, source = args[:2]
        assert isinstance(target, E.AddressOf)
        if isinstance(source, E.AddressOf):
            amount: E.Expr = E.Load(source.buffer, _beside(source.indices, at))
        else:
            amount = source.elements[at] if isinstance(source, E.Vector) else E.Lane(
                source, E.const(at)
            )  # fmt: skip
        returns = len(args) > 2
        added = E.call(
            "atomic_add",
            E.AddressOf(target.buffer, _beside(target.indices, at), target.access),
            amount,
            dtype=target.buffer.dtype,
            memory_order="relaxed",
            return_prev=returns,
        )
        if not returns:
            return replace(stmt, value=added)
        old = args[2]
        assert isinstance(old, E.AddressOf)
        return S.Store(
            buffer=old.buffer, indices=_beside(old.indices, at), value=added, loc=stmt.loc
        )

    def call_condition(self, call: E.Call) -> E.Expr | None:
        """The condition under which the addresses of ``call`` are inside, None if proved."""
        if not call.atom.elements:
            return None
        addresses = (arg for arg in call.args if isinstance(arg, E.AddressOf))
        conditions = [self.condition(arg.buffer, arg.indices) for arg in addresses]
        tests = [test for test in conditions if test is not None]
        return E.conjunction(tests) if tests else None

    def condition(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> E.Expr | None:
        """The condition under which ``indices`` are inside ``buffer``, None if proved."""
        if buffer.storage != "global":
            return None
        tests: list[E.Expr] = []
        for index, extent in zip(indices, buffer.shape):
            index, low = _counted(index, extent)
            known = substitute(index, self.lets)
            for test, seen in ((index >= low, known >= low), (index < extent, known < extent)):
                if prove(simplify(seen, self.bounds), self.bounds) is True:
                    continue
                if id(test) in self.facts:
                    continue
                tests.append(test)
        return E.conjunction(tests) if tests else None


def _counted(index: E.Expr, extent: int | E.Expr) -> tuple[E.Expr, E.Expr | int]:
    """An index and its least value inside; one that counts from the end where it is negative is
    looked at before it is moved."""
    unwrapped_index = unwrapped(index)
    if unwrapped_index is None or unwrapped_index[1] != Linear.of(
        E.cast(E.as_expr(extent), index.dtype)
    ):
        return index, 0
    return unwrapped_index[0], E.unary("neg", E.as_expr(extent))


def _beside(indices: tuple[E.Expr, ...], at: int) -> tuple[E.Expr, ...]:
    """The element ``at`` places further along the last dimension."""
    return (*indices[:-1], E.as_expr(indices[-1] + at)) if at else indices


def _conjuncts(cond: E.Expr) -> list[E.Expr]:
    if isinstance(cond, E.Binary) and cond.op == "land":
        return [*_conjuncts(cond.a), *_conjuncts(cond.b)]
    return [cond]


def _narrowed(bounds: Bounds, cond: E.Expr) -> Bounds:
    """``bounds`` where ``cond`` holds; only a variable below a constant says something here."""
    if not (isinstance(cond, E.Binary) and cond.op == "lt" and isinstance(cond.a, E.Var)):
        return bounds
    if not isinstance(cond.b, E.Const) or cond.a not in bounds.ranges:
        return bounds
    known = bounds.ranges[cond.a]
    high = min(known.high, int(cond.b.value) - 1)
    if high < known.low:
        return bounds  # never taken
    return bounds.with_interval(cond.a, replace(known, high=high))


def _pure(expr: E.Expr) -> bool:
    return not E.holds(expr, E.Load, E.Call)


class _Guarded(ExprRewriter):
    """Guards the loads (and value-giving calls) in expressions."""

    kinds = (E.Load, E.Call)

    def __init__(self, owner: _Guards) -> None:
        self.owner = owner

    def node(self, expr: E.Expr) -> E.Expr:
        inner = rebuild(expr, self.expr)
        if isinstance(inner, E.Load):
            cond = self.owner.condition(inner.buffer, inner.indices)
            if cond is not None:
                safe = self.owner.safe.get(inner.buffer.data, E.const(0, inner.dtype.element_of))
                return E.select(cond, inner, safe)
        if isinstance(inner, E.Call) and inner.dtype != "void":
            cond = self.owner.call_condition(inner)
            if cond is not None and inner.dtype != "handle":
                return E.select(cond, inner, E.const(0, inner.dtype))
        return inner


class _FromStart(ExprRewriter):
    """Indices of tensors that are known not to be negative."""

    kinds = (E.Select,)

    def node(self, expr: E.Expr) -> E.Expr:
        inner = rebuild(expr, self.expr)
        if isinstance(inner, (E.Load, E.AddressOf)) and inner.buffer.storage == "global":
            return replace(inner, indices=tuple(map(_from_start, inner.indices)))
        return inner

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.Store) and stmt.buffer.storage == "global":
            indices = tuple(map(_from_start, stmt.indices))
            if any(a is not b for a, b in zip(indices, stmt.indices)):
                return replace(stmt, indices=indices)
        return stmt


def _from_start(index: E.Expr) -> E.Expr:
    unwrapped_index = unwrapped(index)
    return index if unwrapped_index is None else unwrapped_index[0]


class _Corners(Rewriter):
    """Collects, for one loop nest, the comparisons that put its corners inside every tensor."""

    def __init__(self, owner: _Guards, nest: S.For) -> None:
        self.owner = owner
        self.lets = dict(owner.lets)
        self.tests: list[E.Expr] = []
        self.found = False  # some access needs a guard
        self.hopeless = False  # some access is not linear in the loop variables
        self.extents: dict[E.Var, tuple[E.Expr, E.Expr]] = {}
        self.unknown: set[E.Var] = set()
        for node in S.walk(nest):
            if isinstance(node, S.For):
                self.extents[node.var] = (node.start, node.stop)
            elif isinstance(node, (S.While, S.Break, S.Continue)):
                self.hopeless = True
            elif isinstance(node, S.Let) and _pure(node.value):
                self.lets[node.var] = substitute(node.value, self.lets)
            elif isinstance(node, S.Let):  # a loaded value: no corner is known
                self.unknown.add(node.var)
        self.variables = frozenset(self.extents)
        self.bounds = owner.bounds
        for var, (start, stop) in self.extents.items():
            self.bounds = self.bounds.with_range(var, start, stop)
        self.memo: set[int] = set()

    def expr(self, expr: E.Expr) -> E.Expr:
        for node in E.find(expr, E.Load, E.AddressOf, E.Call):
            if id(node) in self.memo:
                continue
            self.memo.add(id(node))
            if isinstance(node, (E.Load, E.AddressOf)):
                self.access(node.buffer, node.indices)
            if isinstance(node, E.Call) and node.atom.elements > 1:
                for arg in node.args:
                    if isinstance(arg, E.AddressOf):
                        self.access(arg.buffer, _beside(arg.indices, node.atom.elements - 1))
        return expr

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.Store):
            self.access(stmt.buffer, stmt.indices)
        return stmt

    def access(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> None:
        """Record the tests of one access."""
        if buffer.storage != "global":
            return
        for index, extent in zip(indices, buffer.shape):
            known = substitute(_from_start(index), self.lets)
            low_ok = prove(simplify(known >= 0, self.bounds), self.bounds) is True
            high_ok = prove(simplify(known < extent, self.bounds), self.bounds) is True
            if low_ok and high_ok:
                continue
            self.found = True
            split = parted(known, self.variables)
            opaque = depends_on(known, frozenset(self.unknown))
            opaque |= E.holds(known, E.Load)
            if split is None or opaque or depends_on(E.as_expr(extent), self.variables):
                self.hopeless = True
                return
            low = high = split[1]
            for var, factor in split[0].terms:
                assert isinstance(var, E.Var)
                start, stop = self.extents[var]
                if depends_on(start, self.variables) or depends_on(stop, self.variables):
                    self.hopeless = True
                    return
                first, last = start * factor, (stop - 1) * factor
                low = low + (first if factor > 0 else last)
                high = high + (last if factor > 0 else first)
            if not low_ok:
                self.tests.append(low >= 0)
            if not high_ok:
                self.tests.append(high < extent)
