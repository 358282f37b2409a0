"""Expression simplification with facts about variables.

Integer sums are kept in a canonical linear form, so equal index expressions become the same object
and their differences constants: ``(k + 1) * 32 - k * 32`` is ``32``. Everything else is a rule of
``simplify_rules``, applied by one engine bottom-up until none matches.

The value of the result is that of the expression for every assignment within the bounds, *with
wrapping*: ring identities hold modulo 2**bits, and rules that hold only without overflow are used
where the intervals exclude it (see ``bounds`` for the one assumption about unbounded indices).
Floating-point expressions are never changed. Division by a constant zero is not changed.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.errors import InternalError
from tilelang.ir import expr as E
from tilelang.ir.bounds import MOST_DEEP, Bounds, interval, total
from tilelang.ir.indices import is_widening
from tilelang.ir.intervals import INF, Interval, full
from tilelang.ir.linear import Linear
from tilelang.ir.memo import memoized
from tilelang.ir.prover import decide
from tilelang.ir.simplify_rules import RULES, Match, Pattern, Rule
from tilelang.ir.stmt import Stmt
from tilelang.ir.tables import BINARY
from tilelang.ir.visitor import LONGEST, map_exprs, rebuild, replace_nodes, substitute

_STEPS = 64  # rewrites of one node; more means that rules undo each other
_JOINS = ("land", "lor", "bitand", "bitor")
_SUMS = ("add", "sub", "mul")
_DIVISIONS = ("floordiv", "floormod", "truncdiv", "truncmod")


def simplify(expr: object, bounds: Bounds | None = None) -> E.Expr:
    """An expression with the same value, smaller where a rule applies.

    Args:
        expr: an expression, number or scalar variable buffer. A variable alone is a constant only
            where a condition makes it one: loops of one iteration keep theirs in indices.
        bounds: what is known of its variables; results are remembered in it.
    Raises:
        InternalError: rules undo each other (a bug); the report names them.
    """
    node = E.as_expr(expr)
    if not node.children() and (bounds is None or node not in bounds.narrowed):
        return node
    known = bounds if bounds is not None else Bounds()
    simplifier = known.memo.get("simplifier")
    engine = simplifier if isinstance(simplifier, _Simplifier) else _Simplifier(known)
    known.memo["simplifier"] = engine
    return engine.visit(node)


def _rules_by_op() -> dict[str, tuple[Rule, ...]]:
    table: dict[str, list[Rule]] = {}
    for rule in RULES:
        table.setdefault(str(rule.pattern[0]), []).append(rule)
    return {op: tuple(rules) for op, rules in table.items()}


_BY_OP = _rules_by_op()


def simplified_with(stmt: Stmt, values: dict[E.Var, E.Expr]) -> Stmt:
    """``stmt`` with variables replaced, simplified."""
    return map_exprs(stmt, lambda expr: simplify(substitute(expr, values)))


class _Simplifier:
    """The engine; implements ``simplify_rules.Context``."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.memo: dict[E.Expr, E.Expr] = {}

    def visit(self, expr: E.Expr) -> E.Expr:
        """The simple form of ``expr``."""
        memo = self.memo
        cached = memo.get(expr)
        if cached is not None:
            return cached
        stack = [expr]
        while stack:
            node = stack[-1]
            if node in memo:
                stack.pop()
                continue
            if type(node) is E.Const or type(node) is E.Var:
                memo[node] = self.constant(node)
                stack.pop()
                continue
            below = self.terms(node)
            pending = [child for child in below if child not in memo]
            if pending:
                pending.reverse()
                stack.extend(pending)
                continue
            stack.pop()
            if _parts(node) is not None and E.is_repeatable(node):
                simple = self.total(node)
            else:
                simple = self.normalize(self.rebuilt(node) if below else self.guarded(node))
                simple = self.constant(simple) if simple.dtype.is_bool else simple
            memo[node] = memo[simple] = simple
        return memo[expr]

    def rebuilt(self, node: E.Expr) -> E.Expr:
        """``node`` with what is in it simple. A variable that is an index alone is kept as it is
        where an element is stored (see :func:`simplify`): one sees that both are one element."""
        if not isinstance(node, E.Load):
            return rebuild(node, self.visit)
        narrowed = self.bounds.narrowed
        return rebuild(
            node, lambda n: n if type(n) is E.Var and n not in narrowed else self.visit(n)
        )

    def constant(self, node: E.Expr) -> E.Expr:
        """A variable that has one value only, or a condition that is known, as a constant."""
        if type(node) is E.Const or not (node.dtype.is_integer or node in self.bounds.narrowed):
            return node
        values = self.interval(node) if node.dtype.is_integer else self.bounds.narrowed[node]
        return E.const(int(values.low), node.dtype) if values.is_single else node

    def guarded(self, node: E.Expr) -> E.Expr:
        """``node`` with its operands in their simple forms, each under the condition that another
        operand is for it."""
        if isinstance(node, E.Select):
            cond = self.visit(node.cond)
            if isinstance(cond, E.Const):
                return self.visit(node.t if cond.value else node.f)
            t, f = self.choices(cond, node)
            is_unchanged = cond is node.cond and t is node.t and f is node.f
            return node if is_unchanged else E.Select(cond, t, f, node.lazy)
        if not isinstance(node, E.Binary):
            return node
        holds_first = node.op in ("land", "bitand")
        a = self.visit(node.a)
        b = self.under(a, holds_first, node.b, node.op in ("land", "lor"))
        if not E.holds(b, E.Load, E.Call) and not E.holds(a, E.Call):
            a = self.under(b, holds_first, a, lazy=False)
        return node if a is node.a and b is node.b else E.Binary(node.op, a, b)

    def choices(self, cond: E.Expr, node: E.Select) -> tuple[E.Expr, E.Expr]:
        """The simple forms of both choices of ``node``. A load of both has one form, without
        ``cond``, so that it is seen to be made in any case."""
        sides, loads = ((True, node.t), (False, node.f)), set[E.Load]()
        if node.lazy:
            loads = set(E.find(node.t, E.Load)).intersection(E.find(node.f, E.Load))
        forms = {n: [self.under(cond, truth, n, True) for truth in (True, False)] for n in loads}
        names = {n: E.Var("load", n.dtype) for n, (a, b) in forms.items() if a is not b}
        values = {name: self.visit(load) for load, name in names.items()}
        t, f = (self.under(cond, c, replace_nodes(side, names), node.lazy) for c, side in sides)
        return substitute(t, values), substitute(f, values)

    def under(self, cond: E.Expr, truth: bool, expr: E.Expr, lazy: bool) -> E.Expr:
        """``expr`` where ``cond`` holds, or does not; what is not ``lazy`` is computed in any case,
        so that it is only simpler there where it is a constant."""
        known = self.bounds.assuming(cond, truth)
        if known is self.bounds:
            return self.visit(expr)
        known_there = simplify(expr, known)
        return known_there if lazy or isinstance(known_there, E.Const) else self.visit(expr)

    def terms(self, node: E.Expr) -> tuple[E.Expr, ...] | list[E.Expr]:
        """The operands to simplify before ``node``: its children, of a sum its terms; nothing
        where one operand is a condition for another."""
        if _parts(node) is None:
            return () if _guards(node) and self.bounds.depth < MOST_DEEP else node.children()
        exprs: list[E.Expr] = []
        stack = [node]
        while stack:
            term = stack.pop()
            parts = _parts(term)
            if parts is not None:
                stack.extend([part for part, _ in reversed(parts)])
            elif not isinstance(term, E.Const):
                exprs.append(term)
        return exprs

    def total(self, node: E.Expr) -> E.Expr:
        """The canonical form of a sum whose terms are simple."""
        terms: dict[E.Expr, int] = {}
        constant = 0
        stack = [(node, 1, False)]
        while stack:
            operand, factor, simple = stack.pop()
            parts = _parts(operand)
            if isinstance(operand, E.Const):
                constant += factor * int(operand.value)
            elif parts is not None:
                stack.extend([(part, factor * scale, simple) for part, scale in reversed(parts)])
            elif not simple:
                stack.append((self.memo[operand], factor, True))
            else:
                terms[operand] = terms.get(operand, 0) + factor
        return self.expr_of(Linear.of_terms(terms, constant, node.dtype).recomposed())

    def normalize(self, node: E.Expr) -> E.Expr:
        """``node``, whose children are simple, rewritten until no rule applies."""
        trail: list[str] = []
        for _ in range(_STEPS):
            known = self.memo.get(node)
            if known is not None:
                return known
            name, new = self.step(node)
            if new is node:
                return node
            trail.append(name)
            node = self.rebuilt(new)
        raise InternalError(
            f"the simplifier does not terminate on `{node!r}`",
            got=f"these rules undo each other: {', '.join(trail[-4:])}",
        )

    def step(self, node: E.Expr) -> tuple[str, E.Expr]:
        """One rewrite: the name of the rule and the new expression, or ``node`` itself."""
        folded = _folded(node)
        if folded is not node:
            return "constant folding", folded
        if isinstance(node, E.Cast):
            return "cast of a cast", self.cast(node)
        if isinstance(node, E.Select):
            return "select", _select(node)
        if not isinstance(node, (E.Binary, E.Unary)) or node.dtype.lanes > 1:
            return "", node
        if not E.is_repeatable(node):
            return "", node
        if node.op in ("add", "sub", "mul", "neg") and node.dtype.is_integer:
            return "canonical sum", self.expr_of(Linear.of(node).recomposed())
        return self.rules(node)

    def rules(self, node: E.Binary | E.Unary) -> tuple[str, E.Expr]:
        """The first rule of the table that applies."""
        operand = node.a
        if not (operand.dtype.is_integer or operand.dtype.is_bool):
            return "", node
        for rule in _BY_OP.get(node.op, ()):
            for match in _matches(rule.pattern, node):
                rewritten = rule.result(self, match)
                if rewritten is not None and rewritten is not node:
                    return rule.name, rewritten
        plain = resolved(node, self.bounds)
        if plain is not node:
            opened = self.visit(plain)
            if _size(opened) <= _size(node):
                return "names opened", opened
        return "", node

    def cast(self, node: E.Cast) -> E.Expr:
        """Integer casts of integer casts that lose nothing in between, and of sums that do not
        wrap: those become sums of casts, which merge with others."""
        inner = node.value
        if is_widening(node) and _parts(inner) is not None and E.is_repeatable(inner):
            form = Linear.of(inner)
            if form.terms and self.exact(form) is not None:
                terms = tuple((E.cast(term, node.dtype), factor) for term, factor in form.terms)
                return self.expr_of(Linear(terms, form.constant, node.dtype))
        if not isinstance(inner, E.Cast) or node.rounding or inner.rounding:
            return node
        first, middle, last = inner.value.dtype, inner.dtype, node.dtype
        if not (first.is_integer and middle.is_integer and last.is_integer):
            return node
        bounds, range_ = self.interval(inner.value), full(middle)
        fits = bounds.low >= range_.low and bounds.high <= range_.high
        return E.cast(inner.value, last) if fits or middle.bits >= last.bits else node

    # -- what rules may ask ----------------------------------------------------------------------
    def interval(self, expr: E.Expr) -> Interval:
        """The bounds of ``expr``."""
        return interval(expr, self.bounds)

    def exact(self, form: Linear) -> Interval | None:
        """The interval of ``form`` where it cannot wrap, None where it may."""
        bounds, range_ = total(form.terms, form.constant, self.bounds), full(form.dtype)
        if -INF < bounds.low < range_.low or range_.high < bounds.high < INF:
            return None
        return bounds

    def decide(self, op: str, a: E.Expr, b: E.Expr) -> bool | None:
        """The comparison ``a op b`` where it is decided."""
        if not a.dtype.is_integer or a.dtype.lanes > 1:
            return None
        return decide(op, a, b, self.bounds)

    def expr_of(self, form: Linear) -> E.Expr:
        """The canonical sum: positive terms, then negative ones, large coefficients first."""
        positive = self.ordered([pair for pair in form.terms if pair[1] > 0])
        negative = self.ordered([pair for pair in form.terms if pair[1] < 0])
        result: E.Expr | None = None
        constant = form.constant
        if not positive and constant > 0:
            result, constant = E.const(constant, form.dtype), 0
        simple = True  # whether all terms so far are: rules make sums of what is not
        for term, factor in (*positive, *negative):
            simple = simple and self.memo.get(term) is term
            size = abs(factor)
            part = term if size == 1 else E.Binary("mul", term, E.const(size, form.dtype))
            if result is not None:
                result = E.Binary("add" if factor > 0 else "sub", result, part)
            elif factor > 0:
                result = part
            elif size == 1:
                result = E.Unary("neg", term)
            else:
                result = E.Binary("mul", term, E.const(factor, form.dtype))
            if simple:
                self.memo.setdefault(result, result)  # a canonical sum, too
        if result is None:
            return E.const(constant, form.dtype)
        if constant < 0:
            return E.Binary("sub", result, E.const(-constant, form.dtype))
        return E.Binary("add", result, E.const(constant, form.dtype)) if constant else result

    def ordered(self, terms: list[tuple[E.Expr, int]]) -> list[tuple[E.Expr, int]]:
        """By size of the coefficient, then by printed form."""
        if len(terms) < 2:
            return terms
        if len({abs(factor) for _, factor in terms}) == len(terms):
            return sorted(terms, key=lambda pair: -abs(pair[1]))  # no text is needed
        return sorted(terms, key=lambda pair: (-abs(pair[1]), self.text(pair[0])))

    @memoized
    def text(self, expr: E.Expr) -> str:
        """The printed form, for a stable order."""
        return repr(expr)


def _guards(node: E.Expr) -> bool:
    """Whether an operand of ``node`` is a condition for another one."""
    if isinstance(node, E.Binary):
        return node.dtype.is_bool and node.op in _JOINS and node.dtype.lanes == 1
    return isinstance(node, E.Select) and node.dtype.lanes == 1


def resolved(expr: E.Expr, bounds: Bounds) -> E.Expr:
    """``expr`` without names, as far as it does not become long."""
    while expr.size <= LONGEST and not bounds.names.keys().isdisjoint(expr.variables):
        values = {var: bounds.opened(var) for var in expr.variables}
        names = {var: value for var, value in values.items() if value is not None}
        if not names:
            break
        expr = substitute(expr, names)
    return expr


def _size(expr: E.Expr) -> int:
    """The number of different operations."""
    return sum(not isinstance(node, (E.Var, E.Const)) for node in E.walk(expr))


def _folded(node: E.Expr) -> E.Expr:
    """``node`` built anew, so that constants among its operands fold."""
    if isinstance(node, E.Binary):
        if _is_folded(node):
            return node
        zero = isinstance(node.b, E.Const) and node.b.value == 0
        return node if zero and node.op in _DIVISIONS else E.binary(node.op, node.a, node.b)
    if isinstance(node, E.Unary):
        return E.unary(node.op, node.a)
    if isinstance(node, E.Cast) and isinstance(node.value, E.Const) and not node.rounding:
        return E.cast(node.value, node.dtype, sat=node.sat)
    return E.select(node.cond, node.t, node.f, node.lazy) if isinstance(node, E.Select) else node


def _parts(node: E.Expr) -> tuple[tuple[E.Expr, int], ...] | None:
    """The operands of a sum with their coefficients; None if it is not a sum of scalar integers."""
    if type(node) is E.Binary:
        if node.op not in _SUMS or not node.dtype.is_integer or node.dtype.lanes > 1:
            return None
        a, b = node.a, node.b
        if node.op == "add":
            return (a, 1), (b, 1)
        if node.op == "sub":
            return (a, 1), (b, -1)
        if type(b) is E.Const:
            return ((a, int(b.value)),)
        return ((b, int(a.value)),) if type(a) is E.Const else None
    if type(node) is E.Unary and node.op == "neg":
        if node.dtype.is_integer and node.dtype.lanes == 1:
            return ((node.a, -1),)
    return None


def _is_folded(node: E.Binary) -> bool:
    """Whether building ``node`` anew certainly gives ``node``: both operands are different
    integers of one dtype, at most one is constant, and no identity has that constant."""
    a, b = node.a, node.b
    if a is b or a.dtype is not b.dtype or not a.dtype.is_integer:
        return False
    if type(a) is E.Const:
        return type(b) is not E.Const and a.value not in (0, 1)
    return type(b) is not E.Const or b.value not in (0, 1)


def _select(node: E.Select) -> E.Expr:
    if isinstance(node.cond, E.Unary) and node.cond.op == "lnot":
        return E.Select(node.cond.a, node.f, node.t, node.lazy)
    return node


def _matches(pattern: Pattern, node: E.Expr) -> Iterator[Match]:
    """Every way in which ``node`` matches ``pattern``."""
    op, first, last = pattern[0], pattern[1], pattern[-1]
    if not isinstance(node, E.Binary) or not (isinstance(first, str) and isinstance(last, str)):
        yield from _match(pattern, node, {})
    elif node.op == op:  # two names, as most rules have
        for a, b in _orders(node):
            if _admits(first, a) and _admits(last, b) and (first != last or a is b):
                yield {first: a, last: b}


def _orders(node: E.Binary) -> tuple[tuple[E.Expr, E.Expr], ...]:
    """The operands, in both orders where they commute."""
    if BINARY[node.op].commutes and node.a is not node.b:
        return (node.a, node.b), (node.b, node.a)
    return ((node.a, node.b),)


def _admits(name: str, node: E.Expr) -> bool:
    """Whether ``name`` in a pattern matches ``node``."""
    if name not in "cdkl":
        return True
    if not isinstance(node, E.Const) or not node.dtype.is_integer:
        return False
    return name in "kl" or int(node.value) > 0


def _match(pattern: Pattern, node: E.Expr, bound: Match) -> Iterator[Match]:
    if isinstance(pattern, str):
        before = bound.get(pattern)
        if before is not None:
            if before is node:
                yield bound
            return
        if _admits(pattern, node):
            yield {**bound, pattern: node}
        return
    op, *operands = pattern
    if isinstance(node, E.Unary) and node.op == op:
        yield from _match(operands[0], node.a, bound)
    elif isinstance(node, E.Binary) and node.op == op:
        for a, b in _orders(node):
            for binding in _match(operands[0], a, bound):
                yield from _match(operands[1], b, binding)
