"""Bounds predicates: loads out of bounds give the safe value; stores and atomics are dropped.

An access to a global tensor whose index is not proved to be inside the declared shape gets a
predicate. Where it pays, a loop nest of independent iterations is emitted twice. The version
without predicates runs if the corners of the nest are inside (one comparison per access and nest),
otherwise the version with a predicate on every access. So full tiles run without tests, and a
vectorized loop contains none. Conditions that the program itself puts on accesses are treated in
the same way, where the corners show that they have one value in all iterations, and so are minima
and maxima in indices, which often limit these to the tensor.

Runs after :mod:`tiles`: all accesses are loads and stores.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.bounds import Bounds, exact, interval
from tilelang.ir.buffer import Buffer
from tilelang.ir.facts import FactWalk, known_of
from tilelang.ir.linear import Linear, depends_on
from tilelang.ir.memo import memoized
from tilelang.ir.prover import prove
from tilelang.ir.simplify import resolved, simplify
from tilelang.ir.visitor import Rewriter, rebuild, replace_changed, replace_nodes
from tilelang.target import Context
from tilelang.transforms.analysis.atomics import element_added, neighbour, summand


def insert_guards(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with the out-of-bounds rule written out."""
    walk = _Guards(known_of(func), frozenset(effects.written(func.body)))
    for launch in S.find(func.body, S.Launch):
        for buffer, value in launch.hints.safe_value:
            walk.safe[buffer.data] = E.as_expr(value, buffer.dtype)
    return func.with_body(walk.visit(func.body))


class _Guards(FactWalk):
    """Walks with the facts that hold at each access."""

    def __init__(self, known: Bounds, written: frozenset[E.Var]) -> None:
        super().__init__(known, written)
        self.safe: dict[E.Var, E.Expr] = {}
        self.outer = known  # what is known where a statement begins
        self.names: dict[E.Expr, E.Var] | None = None  # of loaded indices, in one statement

    def visit(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt`` with guards; loop nests split where that removes conditions."""
        if isinstance(stmt, S.For) and stmt.hints.parallel == 0:
            return self._nest(stmt)
        if not stmt.blocks() and not isinstance(stmt, S.Seq):
            return self._with_names(stmt)
        visited = super().visit(stmt)
        return visited.of(_joined(visited.stmts)) if isinstance(visited, S.Seq) else visited

    def _with_names(self, stmt: S.Stmt) -> S.Stmt:
        """A guarded statement; a loaded index, which its guard and its access use, has a name."""
        names: dict[E.Expr, E.Var] = {}
        memos, self.memos, self.names, self.outer = self.memos, {}, names, self.known
        guarded = self.guard(stmt)
        self.memos, self.names = memos, None
        lets = [S.Let(var=var, value=value, loc=stmt.loc) for value, var in names.items()]
        return S.seq(*lets, guarded)

    def _nest(self, stmt: S.For) -> S.Stmt:
        """A nest of independent iterations: unguarded when all corners are inside."""
        guarded = self._guard_all(stmt)
        finder = _Corners(self, stmt)
        finder.rewrite(stmt)
        distinct = dict.fromkeys(simplify(test, self.known) for test in finder.tests)
        tests = [test for test in distinct if not isinstance(test, E.Const)]
        never = any(isinstance(test, E.Const) and not test.value for test in distinct)
        if finder.hopeless or never or not 0 < len(tests) <= 16:
            return guarded
        return S.If(cond=E.conjunction(tests), then=stmt, orelse=guarded, loc=stmt.loc)

    def _guard_all(self, stmt: S.For) -> S.Stmt:
        """The nest with a guard at every access, without splitting inner nests again."""
        outer, body = self.known, stmt.body
        self.known = self.inside(stmt)
        if isinstance(body, S.For) and body.hints.parallel:
            inner = self._guard_all(body)
        else:
            inner = self.visit(body)
        self.known = outer
        return replace_changed(stmt, body=inner)

    # -- one statement -----------------------------------------------------------------------
    def guard(self, stmt: S.Stmt) -> S.Stmt:
        """A statement without blocks, its accesses guarded."""
        if isinstance(stmt, S.Store):
            return self._store(stmt)
        if isinstance(stmt, S.Eval) and stmt.call is not None and stmt.call.atom.elements > 1:
            return self._sum(stmt, stmt.call)
        rewritten = self.own(stmt)
        cond = None if rewritten.call is None else self.call_condition(rewritten.call)
        return rewritten if cond is None else S.If(cond=cond, then=rewritten, loc=stmt.loc)

    def _store(self, stmt: S.Store) -> S.Stmt:
        """A guarded store; what its own condition says needs no second test in the value."""
        indices = tuple(map(self.expr, stmt.indices))
        cond = self.condition(stmt.buffer, indices)
        if cond is None:
            return self.own(stmt)
        outer = self.known
        self.known = outer.assuming(cond)
        inner = replace(stmt, indices=indices, value=self.expr(stmt.value))
        self.known = outer
        return S.If(cond=cond, then=inner, loc=stmt.loc)

    def _sum(self, stmt: S.Eval, call: E.Call) -> S.Stmt:
        """An atomic sum of neighbours: as one where all of them are inside, else one by one."""
        count = call.atom.elements
        args = tuple(
            rebuild(arg, self.expr) if isinstance(arg, E.AddressOf) else self.expr(arg)
            for arg in call.args
        )
        vector = replace(stmt, value=E.Call(call.atom, args, call.dtype, call.attrs))
        ends = product([arg for arg in args if isinstance(arg, E.AddressOf)], (0, count - 1))
        conditions = [self.condition(arg.buffer, neighbour(arg.indices, at)) for arg, at in ends]
        tests = [test for test in conditions if test is not None]
        if not tests:
            return vector
        single = [self.guard(self._part(stmt, args, at)) for at in range(count)]
        return S.If(cond=E.conjunction(tests), then=vector, orelse=S.seq(*single), loc=stmt.loc)

    @staticmethod
    def _part(stmt: S.Eval, args: tuple[E.Expr, ...], at: int) -> S.Stmt:
        """One element of an atomic sum of neighbours."""
        target, source, *old = args
        added = element_added(target, at, summand(source, at), returns=bool(old))
        if not old:
            return replace(stmt, value=added)
        assert isinstance(old[0], E.AddressOf)
        indices = neighbour(old[0].indices, at)
        return S.Store(buffer=old[0].buffer, indices=indices, value=added, loc=stmt.loc)

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
        sides = (test for i, extent in zip(indices, buffer.shape) for test in (i >= 0, i < extent))
        tests = [test for test in sides if not _holds(test, self.known)]
        return E.conjunction(tests) if tests else None

    # -- expressions -------------------------------------------------------------------------------
    def rewritten(self, expr: E.Expr) -> E.Expr:
        """Guards the loads (and value-giving calls) in expressions."""
        inner = super().rewritten(expr)
        if isinstance(inner, E.Load):
            cond, load = self.condition(inner.buffer, inner.indices), E.as_expr(inner)
            if cond is not None and self.names is not None and self.known is self.outer:
                for index in inner.indices:
                    loads = (n.buffer.storage for n in E.find(index, E.Load))
                    seen = any(not storage.startswith("local") for storage in loads)
                    if seen and not E.find(index, E.Call):
                        self.names.setdefault(index, E.Var("index", index.dtype))
                cond, load = replace_nodes(cond, self.names), replace_nodes(inner, self.names)
            if cond is not None:
                safe = self.safe.get(inner.buffer.data, E.const(0, inner.dtype.element_of))
                return E.select(cond, load, safe)
        if isinstance(inner, E.Call) and inner.dtype != "void":
            cond = self.call_condition(inner)
            if cond is not None and inner.dtype != "handle":
                return E.select(cond, inner, E.const(0, inner.dtype))
        if isinstance(inner, E.Select) and isinstance(inner.t, E.Select) and inner.lazy:
            if inner.t.lazy and inner.t.f is inner.f:  # one choice in place of two
                return E.select(E.binary("land", inner.cond, inner.t.cond), inner.t.t, inner.f)
        return inner


def _joined(stmts: tuple[S.Stmt, ...]) -> list[S.Stmt]:
    """``stmts`` with neighbours under one condition in one branch."""
    result: list[S.Stmt] = []
    for stmt in stmts:
        last = result[-1] if result else None
        if isinstance(stmt, S.If) and isinstance(last, S.If) and stmt.cond is last.cond:
            fixed = not effects.written(last.then) & effects.used(last.cond)
            if fixed and E.is_repeatable(stmt.cond) and stmt.orelse is last.orelse is None:
                result[-1] = replace(last, then=S.seq(last.then, stmt.then))
                continue
        result.append(stmt)
    return result


def _holds(test: E.Expr, known: Bounds) -> bool:
    """Whether ``test`` is known to hold."""
    return prove(test, known) is True or prove(simplify(test, known), known) is True


class _Corners(Rewriter):
    """Collects, for one loop nest, the comparisons that put its corners inside every tensor and on
    the side of the program's conditions where memory is accessed."""

    def __init__(self, owner: _Guards, nest: S.For) -> None:
        self.owner = owner
        self.tests: list[E.Expr] = []
        self.hopeless = False  # some access has no corner
        self.extents: dict[E.Expr, tuple[E.Expr, E.Expr]] = {}
        self.facts: dict[E.Expr, Bounds] = {}  # variable -> what holds in its loop
        self.variables = frozenset(S.bound(nest))
        self.enter(nest)

    def enter(self, stmt: S.Stmt) -> None:
        """Collect the loops of ``stmt``."""
        known = self.owner.known
        if isinstance(stmt, S.For):
            self.extents[stmt.var] = (stmt.start, stmt.stop - 1)
            self.facts[stmt.var] = self.owner.known = self.owner.inside(stmt)
        self.hopeless |= isinstance(stmt, (S.While, S.Break, S.Continue))
        for block in stmt.blocks():
            self.enter(block)
        self.owner.known = known

    def around(self, expr: E.Expr) -> Bounds:
        """What holds in the innermost loop on which ``expr`` depends."""
        known = self.owner.known
        variables = resolved(expr, known).variables
        return next((self.facts[var] for var in reversed(self.facts) if var in variables), known)

    def expr(self, expr: E.Expr) -> E.Expr:
        for node in E.find(expr, E.Load, E.AddressOf, E.Call, E.Select):
            self.node(node)
        return expr

    @memoized
    def node(self, node: E.Expr) -> None:
        """Record the tests of one expression."""
        if isinstance(node, (E.Load, E.AddressOf)):
            self.access(node.buffer, node.indices)
        if isinstance(node, E.Select) and E.holds(node.t, E.Load):
            self.condition(node.cond)
        if isinstance(node, E.Call) and node.atom.elements > 1:
            for arg in node.args:
                if isinstance(arg, E.AddressOf):
                    self.access(arg.buffer, neighbour(arg.indices, node.atom.elements - 1))

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.Store):
            self.access(stmt.buffer, stmt.indices)
        elif isinstance(stmt, S.If):
            self.condition(stmt.cond)
        elif isinstance(stmt, S.Let):
            self.clamps(stmt.value)
        return stmt

    def clamps(self, index: E.Expr) -> None:
        """Record the tests under which ``index`` is inside the limits of its minima and maxima."""
        for node in E.find(index, E.Binary):
            clamped = self.clamped(node) if node.dtype.is_int else node
            for end in (node.a, node.b) if clamped is not node else ():
                if not depends_on(end, self.variables):
                    self.condition(E.binary("le" if node.op == "min" else "ge", clamped, end))

    def clamped(self, expr: E.Expr) -> E.Expr:
        """What minima and maxima limit to values that do not change in the nest."""
        sides = expr.children() if isinstance(expr, E.Binary) and expr.op in ("min", "max") else ()
        changing = [side for side in sides if depends_on(side, self.variables)]
        return self.clamped(changing[0]) if len(changing) == 1 else expr

    def condition(self, cond: E.Expr) -> None:
        """Record the tests under which a condition of the program holds in all iterations."""
        if not isinstance(cond, E.Binary):
            return
        if cond.dtype.is_bool and cond.op in ("land", "bitand"):
            self.condition(cond.a)
            self.condition(cond.b)
        elif cond.op in ("lt", "le", "gt", "ge") and cond.a.dtype.is_int:
            corner = self.corner(cond.a - cond.b, cond.op in ("lt", "le"))
            if corner is not None:
                test = simplify(E.binary(cond.op, corner, E.const(0)), self.owner.known)
                self.tests += [] if isinstance(test, E.Const) else [test]

    def access(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> None:
        """Record the tests of one access."""
        for index in indices:
            self.clamps(index)
        if buffer.storage != "global":
            return
        for index, extent in zip(indices, buffer.shape):
            for op, end in (("ge", E.const(0)), ("lt", E.as_expr(extent))):
                known = self.around(index)
                if _holds(E.binary(op, resolved(index, known), end), known):
                    continue
                dividend, size = _dividend(index)
                corner = self.corner(dividend, op == "lt")
                if corner is None or depends_on(end, self.variables):
                    self.hopeless = True
                    return
                self.tests.append(E.binary(op, corner, end * size))

    def corner(self, expr: E.Expr, is_greatest: bool) -> E.Expr | None:
        """The least value of ``expr`` in the nest, or one below it, or the greatest: a sum that
        does not change there; None where there is none."""
        form = exact(expr, known := self.around(expr))
        for var, ends in reversed(self.extents.items()):  # inner loops, whose ends may vary, first
            if form is not None and (factor := form.factor(var)):
                rest = form.added(Linear(((var, 1),), 0, form.dtype), -factor)
                last = exact(ends[(factor > 0) is is_greatest], known)
                form = last and _limited(rest.added(last, factor), is_greatest, known)
        if form is None:
            return None
        total: E.Expr = E.const(form.constant)
        for term, factor in form.terms:
            if depends_on(term, self.variables):
                limits = interval(term, known)
                if not limits.is_known:
                    return None
                term = E.const(int(limits.high if (factor > 0) is is_greatest else limits.low))
            if E.holds(term, E.Load):
                return None
            total = total + term * factor
        return total


def _limited(form: Linear, is_greatest: bool, known: Bounds) -> Linear:
    """``form`` with one side of each minimum that it is not above, or maximum that it is not below:
    the same end of its values, or one beyond."""
    for term, factor in form.terms:
        op = "min" if (factor > 0) is is_greatest else "max"
        side = exact(term.a, known) if isinstance(term, E.Binary) and term.op == op else None
        if side is not None:
            rest = form.added(Linear(((term, 1),), 0, form.dtype), -factor)
            return _limited(rest.added(side, factor), is_greatest, known)
    return form


def _dividend(index: E.Expr) -> tuple[E.Expr, int]:
    """What ``index`` is the quotient of, and by which number; itself by 1 if it is none."""
    if isinstance(index, E.Binary) and index.op == "floordiv" and isinstance(index.b, E.Const):
        return (index.a, int(index.b.value)) if index.b.value > 0 else (index, 1)
    return index, 1
