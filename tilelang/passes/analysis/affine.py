"""Linear forms of index expressions: ``sum(coefficient * variable) + rest``."""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.ir import expr as E


@dataclass(frozen=True)
class Linear:
    """``sum(coeffs[v] * v) + rest`` where ``rest`` does not mention the variables."""

    coeffs: dict[E.Var, int]
    rest: E.Expr


def depends_on(expr: E.Expr, variables: frozenset[E.Var]) -> bool:
    """Whether ``expr`` mentions one of ``variables``."""
    return not variables.isdisjoint(expr.variables)


def linear(expr: E.Expr, variables: frozenset[E.Var]) -> Linear | None:
    """``expr`` as a linear form in ``variables`` with constant coefficients, or None."""
    if not depends_on(expr, variables):
        return Linear({}, expr)
    if isinstance(expr, E.Var):
        return Linear({expr: 1}, E.const(0, expr.dtype))
    if isinstance(expr, E.Cast) and expr.dtype.is_int and expr.value.dtype.is_int:
        inner = linear(expr.value, variables)
        if inner is None or expr.dtype.bits < expr.value.dtype.bits:
            return None
        return Linear(inner.coeffs, E.cast(inner.rest, expr.dtype))
    if not isinstance(expr, E.Binary) or expr.op not in ("add", "sub", "mul"):
        return None
    a, b = linear(expr.a, variables), linear(expr.b, variables)
    if a is None or b is None:
        return None
    if expr.op == "mul":
        if isinstance(b.rest, E.Const) and not b.coeffs:
            return _scaled(a, int(b.rest.value))
        if isinstance(a.rest, E.Const) and not a.coeffs:
            return _scaled(b, int(a.rest.value))
        return None
    sign = 1 if expr.op == "add" else -1
    coeffs = dict(a.coeffs)
    for var, factor in b.coeffs.items():
        coeffs[var] = coeffs.get(var, 0) + sign * factor
    return Linear(coeffs, E.binary(expr.op, a.rest, b.rest))


def _scaled(form: Linear, factor: int) -> Linear:
    return Linear({v: c * factor for v, c in form.coeffs.items()}, form.rest * factor)
