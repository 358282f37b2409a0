"""An exact evaluator of scalar integer and bool expressions, for tests: Python ints, wrapped."""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.ir import expr as E
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.visitor import postorder


def wrap(value: int, kind: DType) -> int:
    """``value`` modulo 2**bits in the range of ``kind``."""
    if kind.is_bool:
        return int(bool(value))
    value %= 2**kind.bits
    return value - 2**kind.bits if kind.is_int and value >= 2 ** (kind.bits - 1) else value


def _binary(op: str, a: int, b: int) -> int:
    if op in ("floordiv", "floormod"):
        return a // b if op == "floordiv" else a % b
    if op in ("truncdiv", "truncmod"):
        quotient = abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
        return quotient if op == "truncdiv" else a - b * quotient
    table = {
        "add": a + b, "sub": a - b, "mul": a * b, "min": min(a, b), "max": max(a, b),
        "bitand": a & b, "bitor": a | b, "bitxor": a ^ b,
        "eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b,
        "land": a and b, "lor": a or b,
    }  # fmt: skip
    if op in ("shl", "shr"):
        return a << b if op == "shl" else a >> b
    return int(table[op])


def evaluate(expr: E.Expr, values: Mapping[E.Var, int]) -> int:
    """The value of ``expr`` as the machine computes it."""
    done: dict[E.Expr, int] = {}
    for node in postorder(expr):
        if isinstance(node, E.Const):
            done[node] = int(node.value)
        elif isinstance(node, E.Var):
            done[node] = values[node]
        elif isinstance(node, E.Binary):
            done[node] = wrap(_binary(node.op, done[node.a], done[node.b]), node.dtype)
        elif isinstance(node, E.Unary):
            a = done[node.a]
            found = {"neg": -a, "bitnot": ~a, "lnot": not a}[node.op]
            done[node] = wrap(int(found), node.dtype)
        elif isinstance(node, E.Select):
            done[node] = done[node.t] if done[node.cond] else done[node.f]
        elif isinstance(node, E.Cast):
            done[node] = wrap(done[node.value], node.dtype)
        else:
            raise TypeError(f"{type(node).__name__} has no integer value here")
    return done[expr]
