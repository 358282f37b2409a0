"""Library calls: functions called by name become the operations that they stand for.

``T.call_extern("float16", "__float2half_rz", x)`` names a function of C or CUDA. What the table of
:mod:`tilelang.ir.functions` knows is computed by the language's own operations, so that it runs on
every target; other names are left to the target, which has the program's own source.
"""

from __future__ import annotations

import re

from tilelang.errors import TileUnsupportedError, at
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.functions import as_expression
from tilelang.ir.visitor import ExprRewriter, rebuild
from tilelang.target import Context


def expand_library_calls(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` without calls of functions that the language can compute itself.

    A name that the program's own source mentions is the program's.

    Raises:
        TileTypeError: a known function with another number of operands.
        TileUnsupportedError: an operand that is a call with an effect.
    """
    return func.with_body(_WriteOut(_own_source(func)).rewrite(func.body))


class _WriteOut(ExprRewriter):
    """``own``: source of the program."""

    kinds = (E.Call,)

    def __init__(self, own: str) -> None:
        self.own = own

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        with at(stmt.loc):
            return super()._visit(stmt)

    def node(self, expr: E.Expr) -> E.Expr:
        """``expr`` as operations, if it calls a known function."""
        expr = rebuild(expr, self.expr)
        if not isinstance(expr, E.Call) or not expr.atom.by_name:
            return expr
        name = str(expr.attr("name", ""))
        if re.search(rf"\b{re.escape(name)}\b", self.own):
            return expr
        expanded = as_expression(expr)
        if expanded is None or all(map(E.repeatable, expr.args)):
            return expr if expanded is None else expanded
        raise TileUnsupportedError(
            f"an operand of `{name}` has an effect of its own",
            expected="a value",
            got=f"`{expr!r}`",
            hint="give the operand a name first: x = ...",
        )


def _own_source(func: S.PrimFunc) -> str:
    """The text that the program brings."""
    launches = S.find(func.body, S.Launch)
    notes = [func.attr("import_source")]
    for launch in launches:
        hints = launch.hints
        notes += [hints.prelude, hints.import_source, hints.cuda_source]
    return "\n".join(note for note in notes if isinstance(note, str))
