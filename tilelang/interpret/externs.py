"""``T.call_extern``: the C and CUDA functions that are known by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilelang.errors import TileUnsupportedError
from tilelang.interpret.lanes import Active
from tilelang.interpret.values import Value
from tilelang.ir.expr import Call, StringImm
from tilelang.ir.functions import as_expression

if TYPE_CHECKING:
    from tilelang.interpret.machine import DivergentGroup


def call(s: DivergentGroup, node: Call, active: Active) -> Value:
    """The value of an external function, or an error that names it."""
    expr = as_expression(node)
    if expr is not None:
        return s.eval(expr, active)
    args = list(node.args)
    name = str(node.attr("name", node.attr("func", "")))
    if not name and args and isinstance(args[0], StringImm):
        name, args = args[0].value, args[1:]
    raise TileUnsupportedError(
        f"the external function `{name}` is not known to the interpreter",
        expected="a standard mathematical C or CUDA function",
        got=f"{name}({', '.join(repr(arg) for arg in args)})",
        hint="write it with T.* operations, or compile for a target that has the function",
    )
