"""Linear forms (affine expressions): a sum of coefficient times term, and a constant.

Equality of an expression and its linear form holds modulo 2**bits. Coefficients are kept in the
signed range of the dtype, whichever sign the dtype has.
"""

from __future__ import annotations

from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Binary, Cast, Const, Expr, Load, Unary, Var, binary, cast, const, find
from tilelang.records import dataclass


def balanced(value: int, dtype: DType) -> int:
    """``value`` modulo 2**bits, nearest to zero."""
    half = 1 << (dtype.bits - 1)
    return (value + half) % (2 * half) - half


@dataclass(frozen=True)
class Linear:
    """``sum(factor * term for term, factor in terms) + constant`` of one dtype."""

    terms: tuple[tuple[Expr, int], ...]
    constant: int
    dtype: DType

    @classmethod
    def of(cls, expr: Expr) -> Linear:
        """The form of ``expr``: sums, differences and products with constants are opened."""
        dtype = expr.dtype
        terms: dict[Expr, int] = {}
        constant = 0
        stack = [(expr, 1)]
        while stack:
            node, factor = stack.pop()
            if isinstance(node, Const):
                constant += factor * int(node.value)
            elif isinstance(node, Unary) and node.op == "neg":
                stack.append((node.a, -factor))
            elif isinstance(node, Binary) and node.op in ("add", "sub"):
                stack.append((node.b, factor if node.op == "add" else -factor))
                stack.append((node.a, factor))
            elif isinstance(node, Binary) and node.op == "mul" and isinstance(node.b, Const):
                stack.append((node.a, factor * int(node.b.value)))
            elif isinstance(node, Binary) and node.op == "mul" and isinstance(node.a, Const):
                stack.append((node.b, factor * int(node.a.value)))
            else:
                terms[node] = terms.get(node, 0) + factor
        return cls.of_terms(terms, constant, dtype)

    @classmethod
    def of_terms(cls, terms: dict[Expr, int], constant: int, dtype: DType) -> Linear:
        """Without the terms that vanish."""
        wrapped = ((term, balanced(factor, dtype)) for term, factor in terms.items())
        return cls(tuple(pair for pair in wrapped if pair[1]), balanced(constant, dtype), dtype)

    def factor(self, term: Expr) -> int:
        """The coefficient of ``term``, 0 where it does not occur."""
        return dict(self.terms).get(term, 0)

    def expr(self) -> Expr:
        """The sum, term by term and the constant last: nothing is simplified."""
        total: Expr = const(0, self.dtype)
        for term, factor in self.terms:
            total = binary("add", total, binary("mul", term, const(factor, self.dtype)))
        return binary("add", total, const(self.constant, self.dtype))

    def plus(self, constant: int) -> Linear:
        """With ``constant`` added."""
        return Linear(self.terms, balanced(self.constant + constant, self.dtype), self.dtype)

    def added(self, other: Linear, factor: int) -> Linear:
        """``self + factor * other``."""
        terms = dict(self.terms)
        for term, scale in other.terms:
            terms[term] = terms.get(term, 0) + factor * scale
        return Linear.of_terms(terms, self.constant + factor * other.constant, self.dtype)

    def split(self, n: int) -> tuple[Linear, Linear]:
        """(the part that is a multiple of ``n``, the rest with a constant in 0..n-1)."""
        multiple = tuple(pair for pair in self.terms if pair[1] % n == 0)
        rest = tuple(pair for pair in self.terms if pair[1] % n)
        low = self.constant % n
        return (Linear(multiple, self.constant - low, self.dtype), Linear(rest, low, self.dtype))

    def divided(self, n: int) -> Linear:
        """With all coefficients divided by ``n``, which divides them."""
        terms = tuple((term, factor // n) for term, factor in self.terms)
        return Linear(terms, self.constant // n, self.dtype)

    def recomposed(self) -> Linear:
        """With ``x // n * n + x % n`` written as ``x``, which holds for all values."""
        terms = dict(self.terms)
        for term, factor in self.terms:
            if not (isinstance(term, Binary) and term.op == "floormod"):
                continue
            quotient = Binary("floordiv", term.a, term.b)
            n = int(term.b.value) if isinstance(term.b, Const) else 0
            if n > 0 and terms.get(quotient) == balanced(factor * n, self.dtype):
                del terms[quotient], terms[term]
                linear = Linear.of_terms(terms, self.constant, self.dtype)
                return linear.added(Linear.of(term.a), factor).recomposed()
        return self


def depends_on(expr: Expr, variables: frozenset[Var]) -> bool:
    """Whether ``expr`` mentions one of ``variables``, or reads storage of such a name."""
    if not variables.isdisjoint(expr.variables):
        return True
    return any(load.buffer.data in variables for load in find(expr, Load))


def parted(expr: Expr, variables: frozenset[Var]) -> tuple[Linear, Expr] | None:
    """``expr`` as multiples of ``variables`` plus what mentions none of them; None where it is no
    such sum. Integers that become wider are taken as exact, which indices are."""
    parts = _parted(expr, variables)
    return None if parts is None else (Linear.of_terms(parts[0], 0, expr.dtype), parts[1])


def _parted(expr: Expr, variables: frozenset[Var]) -> tuple[dict[Expr, int], Expr] | None:
    if not depends_on(expr, variables):
        return {}, expr
    if isinstance(expr, Var):
        return {expr: 1}, const(0, expr.dtype)
    if isinstance(expr, Cast) and expr.dtype.is_int and expr.value.dtype.is_int:
        inner = _parted(expr.value, variables)
        if inner is None or expr.dtype.bits < expr.value.dtype.bits:
            return None
        return inner[0], cast(inner[1], expr.dtype)
    if not isinstance(expr, Binary) or expr.op not in ("add", "sub", "mul"):
        return None
    a, b = _parted(expr.a, variables), _parted(expr.b, variables)
    if a is None or b is None:
        return None
    if expr.op == "mul":
        if not b[0] and isinstance(b[1], Const):
            return _scaled(*a, int(b[1].value))
        return _scaled(*b, int(a[1].value)) if not a[0] and isinstance(a[1], Const) else None
    sign = 1 if expr.op == "add" else -1
    factors = dict(a[0])
    for var, factor in b[0].items():
        factors[var] = factors.get(var, 0) + sign * factor
    return factors, binary(expr.op, a[1], b[1])


def _scaled(factors: dict[Expr, int], rest: Expr, factor: int) -> tuple[dict[Expr, int], Expr]:
    return {term: scale * factor for term, scale in factors.items()}, rest * factor
