"""The intermediate representation: data types, expressions, statements, tile operations.

Modules, bottom up: ``dtypes`` and ``floats`` (types and their bits), ``tables`` (operators and
intrinsics), ``expr``, ``buffer``, ``stmt`` and
``schedule`` (the nodes), ``fold`` (building with promotion and
constant folding), ``visitor`` (rewriting), ``bounds`` and ``simplify``, ``printer`` (script form),
``canonical`` (text for cache keys), ``legal`` (what may appear at which level), ``emitter`` (the
trace in progress). Nodes call what folds and prints them through ``later``.
"""

from __future__ import annotations

from tilelang.ir.later import later


def _define() -> None:
    from tilelang.ir import (
        buffer,
        expr,
        fold,
        operators,
        print_expr,
        printer,
        simplify,
        specialize,
        stmt,
    )  # fmt: skip

    expr.literal.defined_by(fold.build_literal)
    expr.binary.defined_by(fold.build_binary)
    expr.unary.defined_by(fold.build_unary)
    expr.cast.defined_by(fold.build_cast)
    expr.select.defined_by(fold.build_select)
    expr.call.defined_by(fold.named_call)
    expr.remainder.defined_by(operators.remainder)
    expr.power.defined_by(operators.power)
    expr.absolute.defined_by(operators.absolute)
    expr.rounded.defined_by(operators.rounded)
    expr.expr_text.defined_by(print_expr.expr_text)
    buffer.region_text.defined_by(print_expr.region_text)
    buffer.simplified.defined_by(simplify.simplify)
    stmt.stmt_text.defined_by(printer.stmt_text)
    stmt.func_text.defined_by(printer.func_text)
    stmt.specialize.defined_by(specialize.specialize)


later.define = _define
