"""Exponents of scaled differences are one multiply-add each.

``exp2((x - y) * c)``, as softmax has it for every score ``x`` of a row with the maximum ``y``,
becomes ``exp2(fma(x, c, -(y * c)))``: the product with ``y`` is one for a row. The results differ
by the rounding of ``y * c``, so it is done where the program allows reassociation, and on machines
whose products of warpgroups leave the threads with little more than that to do.
"""

from __future__ import annotations

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.visitor import Rewriter, rebuild, rewrite_bodies
from tilelang.target import Context


def fuse_exponents(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with exponents of float32 by multiply-adds, if it is compiled with fast math."""
    if not (context.options.fast_math and context.has("async_products")):
        return func
    return rewrite_bodies(func, lambda launch: _Exponents().rewrite(launch.body))


class _Exponents(Rewriter):
    def expr(self, expr: E.Expr) -> E.Expr:
        """``expr`` with its exponents rewritten."""
        if not any(call.op == "exp2" for call in E.find(expr, E.Call)):
            return expr
        return _fused(rebuild(expr, self.expr))


def _fused(expr: E.Expr) -> E.Expr:
    if not (isinstance(expr, E.Call) and expr.op == "exp2" and str(expr.dtype) == "float32"):
        return expr
    (scaled,) = expr.args
    if not (isinstance(scaled, E.Binary) and scaled.op == "mul"):
        return expr
    for past, scale in ((scaled.a, scaled.b), (scaled.b, scaled.a)):
        if isinstance(scale, E.Const) and isinstance(past, E.Binary) and past.op == "sub":
            start = E.unary("neg", past.b * scale)
            return E.call("exp2", E.call("fma", past.a, scale, start))
    return expr
