"""``T.any_of`` and ``T.all_of`` of a region as loops over its elements.

A C expression holds no loop, so the answer is found in statements in front of the one that asks,
which then reads a variable. A loop that asks in its condition asks at the head of its body. Relies
on nothing; later passes see ordinary loads, to which the rules of bounds and of threads apply.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.elementwise import INT, NAMES, as_nest, element
from tilelang.ir.tables import ALL_OF, ANY_OF
from tilelang.ir.visitor import ExprRewriter, Rewriter, rebuild, rewrite_exprs
from tilelang.target import Context

ASKS = (ANY_OF, ALL_OF)
FIRST = (E.const(0),)


def expand_any_all(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` without calls of ``any_of`` and ``all_of``."""
    return func.with_body(_Expand().rewrite(func.body))


class _Expand(Rewriter):
    def stmt(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        if not any(_asks(expr) for expr in stmt.exprs()):
            return stmt
        if isinstance(stmt, S.While):
            stop = S.If(cond=E.unary("lnot", stmt.cond), then=S.Break(loc=stmt.loc), loc=stmt.loc)
            result = self.stmt(stop)
            head = result if isinstance(result, list) else [result]
            return replace(stmt, cond=E.const(True), body=S.seq(*head, stmt.body))
        answers = _Answers(stmt)
        result = rewrite_exprs(stmt, answers.expr)
        return [*answers.out, result]


class _Answers(ExprRewriter):
    """The statements that find the answers which one statement asks for."""

    kinds = (E.Call,)

    def __init__(self, stmt: S.Stmt) -> None:
        self.asking = stmt
        self.out: list[S.Stmt] = []

    def node(self, expr: E.Expr) -> E.Expr:
        """``expr`` with variables for the answers."""
        result = rebuild(expr, self.expr)
        return self.answer(result) if isinstance(result, E.Call) and result.atom in ASKS else result

    def answer(self, call: E.Call) -> E.Expr:
        """The variable with the answer of ``call``, whose loops go to ``out``."""
        every = call.op == "all_of"
        flag = Buffer("all" if every else "any", Shape((1,)), DType("bool"), "local.var")
        region = _region(call.args[0])
        dims = region.tile_dims()
        variables = tuple(E.Var(NAMES[d], INT) for d in range(len(dims)))
        value = E.Load(region.buffer, element(region, variables))
        holds = value if value.dtype.is_bool else E.binary("ne", value, E.const(0, value.dtype))
        loop = S.Parallel(
            vars=variables,
            extents=tuple(E.as_expr(region.extents[d]) for d in dims),
            body=S.If(
                cond=E.unary("lnot", holds) if every else holds,
                then=S.Store(buffer=flag, indices=FIRST, value=E.const(not every)),
                loc=self.asking.loc,
            ),
            loc=self.asking.loc,
        )
        self.out.append(S.Alloc(buffer=flag, init=E.const(every), loc=self.asking.loc))
        self.out.append(as_nest(loop))
        return E.Load(flag, FIRST)


def _asks(expr: E.Expr) -> bool:
    return any(call.atom in ASKS for call in E.find(expr, E.Call))


def _region(arg: E.Expr) -> Region:
    """The elements that an operand names: a region, a whole buffer by its address, an element."""
    if isinstance(arg, E.RegionArg):
        return arg.region
    assert isinstance(arg, (E.AddressOf, E.Load))
    if isinstance(arg, E.AddressOf):
        return arg.buffer.whole()
    return Region(arg.buffer, arg.indices, (1,) * len(arg.indices))
