"""``match`` on values that are known while the kernel is traced, as a chain of ``if``.

Python itself matches, in a function that gives the number of the case and what its names hold::

    match mode:                     def __tl_match_1(__tl_value):
        case "add": B1                  match __tl_value:
        case (n, "mul") if n: B2            case "add": return (0,)
                                            case (n, "mul") if n: return (1, n)
                                        return (-1,)
                                    __tl_case_1 = __tl_match_1(__tl.matched(mode))
                                    if __tl_case_1[0] == 0: B1
                                    elif __tl_case_1[0] == 1: n = __tl_case_1[1]; B2
"""

from __future__ import annotations

import ast
import copy
from typing import Any

from tilelang.errors import TileTypeError
from tilelang.frontend import nodes
from tilelang.frontend.source import new_function
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Const, Expr


def without_match(node: ast.FunctionDef) -> ast.FunctionDef:
    """A copy of ``node`` with chains of ``if`` for its ``match`` statements."""
    copied = copy.deepcopy(node)
    _Chains().generic_visit(copied)
    return copied


def matched(value: object) -> object:
    """``value``, which ``match`` compares while the kernel is traced.

    Raises:
        TileTypeError: it is known only when the kernel runs.
    """
    if isinstance(value, Const):
        return value.value
    if isinstance(value, Expr) or (isinstance(value, Buffer) and value.is_var):
        raise TileTypeError(
            "`match` on a value that is known only when the kernel runs",
            expected="a value that is known while the kernel is traced",
            got=f"`{value!r}`",
            hint="write `if x == 0: ... elif x == 1: ...`, which branches when the kernel runs",
        )
    return value


class _Chains(ast.NodeTransformer):
    count = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        return node  # Python's, with its own `match`

    def visit_Match(self, node: ast.Match) -> list[ast.stmt]:
        self.generic_visit(node)
        self.count += 1
        name, case = f"__tl_match_{self.count}", f"__tl_case_{self.count}"
        chain: list[ast.stmt] = []
        for at, case_node in reversed(list(enumerate(node.cases))):
            names = list(dict.fromkeys(filter(None, map(_bound, nodes.below(case_node.pattern)))))
            number, *values = (_part(case, k, case_node.pattern) for k in range(len(names) + 1))
            test = ast.Compare(number, [ast.Eq()], [nodes.constant(at)])
            body = [*map(nodes.set_name, names, values), *case_node.body]
            chain = [nodes.with_location(ast.If(test, body, chain), case_node.pattern)]
            result = ast.Tuple([nodes.constant(at), *map(nodes.load, names)], ast.Load())
            case_node.body = [nodes.with_location(ast.Return(result), case_node.pattern)]
        matching = ast.Match(nodes.load("__tl_value"), node.cases)
        function = new_function(name, nodes.parameters("__tl_value"), matching)
        function.body.append(ast.Return(nodes.constant((-1,))))
        subject = nodes.scope_call("matched", [node.subject], node.subject)
        call = ast.Call(nodes.load(name), [subject], [])
        assignment = nodes.set_name(case, nodes.with_location(call, node.subject))
        return [nodes.with_location(function, node.subject), assignment, *chain]


def _bound(part: Any) -> str | None:
    """The name that a pattern binds."""
    return part.rest if isinstance(part, ast.MatchMapping) else getattr(part, "name", None)


def _part(case: str, number: int, at: ast.AST) -> ast.expr:
    part = ast.Subscript(nodes.load(case), nodes.constant(number), ast.Load())
    return nodes.with_location(part, at)
