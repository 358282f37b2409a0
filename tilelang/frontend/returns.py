"""Early returns: ``return`` in a branch of the device.

In a kernel a thread that returns leaves it (``T.thread_return``). In a macro only the macro ends:
the statements after such a branch become its other side, and a variable receives the returned
value of each path::

    if x < 0:           if x < 0:
        return 0            return 0
    y = x * 2           else:
    return y                y = x * 2
                            return y
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilelang.errors import TileTypeError
from tilelang.frontend.ir_builder import describe, is_same_value
from tilelang.frontend.nodes import with_location
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.expr import Expr, as_expr, const
from tilelang.ir.stmt import Alloc, Store

if TYPE_CHECKING:
    from tilelang.frontend.ir_builder import Builder


# -- statements after a branch that returns -------------------------------------------------------
def structured(node: ast.FunctionDef) -> ast.FunctionDef:
    """``node`` with what follows a branch that returns in its other side; shares the rest."""
    if not any(isinstance(stmt, ast.If) and _has_return(stmt) for stmt in node.body):
        return node
    copied = copy.copy(node)
    copied.body = _tail([*node.body, with_location(ast.Return(value=None), node.body[-1])])
    return copied


def _has_return(stmt: ast.If) -> bool:
    sides = [*stmt.body, *stmt.orelse]
    return any(
        isinstance(part, ast.Return) or (isinstance(part, ast.If) and _has_return(part))
        for part in sides
    )


def _tail(body: list[ast.stmt]) -> list[ast.stmt]:
    """``body``, at the end of the function."""
    for at, stmt in enumerate(body):
        if isinstance(stmt, ast.Return):
            return body[: at + 1]
        if isinstance(stmt, ast.If) and _has_return(stmt):
            rest = body[at + 1 :]
            copied = copy.copy(stmt)
            sides = [stmt.body, stmt.orelse]
            falls = [_falls_through(side) for side in sides]
            rests = (rest, copy.deepcopy(rest) if all(falls) else rest)
            copied.body, copied.orelse = (
                _tail([*side, *more] if fall else side)
                for side, more, fall in zip(sides, rests, falls, strict=True)
            )
            return [*body[:at], copied]
    return body


def _falls_through(body: Sequence[ast.stmt]) -> bool:
    """Whether the statement after ``body`` may be reached."""
    last = body[-1] if body else None
    if isinstance(last, ast.If):
        return _falls_through(last.body) or _falls_through(last.orelse)
    return not isinstance(last, (ast.Return, ast.Raise, ast.Break, ast.Continue))


# -- values -----------------------------------------------------------------------------------
class Results:
    """The results of a macro on its paths; scalars go through variables declared before them."""

    def __init__(self, builder: Builder, base: int, name: str) -> None:
        self.builder, self.name = builder, name
        self.home = builder.blocks[base - 1]
        self.values: list[object] = []  # of the first way, flat
        self.form: object = None
        self.variables: dict[int, Buffer] = {}
        self.numbers: dict[int, list[Store]] = {}  # stores of plain numbers, while there are others
        self.ways = 0

    def add(self, value: object) -> None:
        """The end of one way, which returns ``value``."""
        flat: list[object] = []
        form = _flatten(value, flat)
        if not self.ways:
            self.form, self.values = form, flat
        elif form != self.form:
            raise self._differ(_shown(self.form, self.values), _shown(form, flat))
        self.ways += 1
        for number, element in enumerate(flat):
            first = self.values[number]
            if _is_scalar(element) and _is_scalar(first):
                self._store(number, element)
            elif not is_same_value(element, first):
                raise self._differ(describe(first), describe(element))

    def _differ(self, first: str, second: str) -> TileTypeError:
        return TileTypeError(
            f"`{self.name}` returns different values on two paths",
            expected="on every path as many scalars of the same dtypes, or the same tile",
            got=f"{first} on one, {second} on another",
            hint="the branch is taken while the kernel runs: cast scalars to one dtype; for tiles, "
            "write into one that the macro gets",
        )

    def _store(self, number: int, result: Any) -> None:
        plain = isinstance(result, (bool, int, float))
        value = as_expr(result)
        variable = self.variables.get(number)
        if variable is None:
            variable = Buffer(f"{self.name}_{number}", Shape((1,)), value.dtype, "local.var")
            self.variables[number] = variable
            self.builder.homes[id(variable)] = (variable, self.home)
            self.home.stmts.append(Alloc(buffer=variable, init=None))
            self.numbers[number] = []
        elif value.dtype != variable.dtype and not plain:
            self._retype(number, variable, value)
        store = Store(buffer=variable, indices=(const(0),), value=as_expr(result, variable.dtype))
        if plain and number in self.numbers:
            self.numbers[number].append(store)
        elif not plain:
            self.numbers.pop(number, None)
        self.builder.emit(store)

    def _retype(self, number: int, variable: Buffer, value: Expr) -> None:
        """The first value with a dtype of its own: the numbers before it take that."""
        if number not in self.numbers:
            raise self._differ(f"a scalar of {variable.dtype}", f"one of {value.dtype}")
        object.__setattr__(variable, "dtype", value.dtype)  # nothing has read it yet
        for store in self.numbers.pop(number):
            retyped = as_expr(store.value.value, value.dtype)  # type: ignore[attr-defined]  # a Const
            object.__setattr__(store, "value", retyped)

    def value(self) -> object:
        """The result of the macro, after all of its paths."""
        flat = [
            as_expr(self.variables[number]) if number in self.variables else element
            for number, element in enumerate(self.values)
        ]
        flat = [
            self.builder.bind(self.name, element) if isinstance(element, Expr) else element
            for element in flat
        ]
        return _shape(self.form, iter(flat))


def _is_scalar(value: object) -> bool:
    if isinstance(value, Buffer):
        return value.is_var
    return isinstance(value, (bool, int, float, Expr))


def _flatten(value: object, into: list[object]) -> object:
    """The form of nested tuples and lists; their items go ``into``."""
    if isinstance(value, (tuple, list)):
        return tuple(_flatten(element, into) for element in value)
    into.append(value)
    return None if value is not None else "None"


def _shape(form: object, values: Any) -> object:
    if isinstance(form, tuple):
        return tuple(_shape(part, values) for part in form)
    return next(values)


def _shown(form: object, values: Sequence[object]) -> str:
    return f"{len(values)} values" if isinstance(form, tuple) else describe(values[0])
