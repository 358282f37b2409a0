"""Canonical form: the same text for functions that mean the same up to local names.

Used for cache keys, so it depends on everything that can change generated code or results (dtypes,
attributes, layouts, loop kinds, annotations, constants bit by bit) and on nothing else: not on
source locations, object identities, hash seeds or what was traced before. Local variables and
buffers are numbered in the order of use; parameters and symbols of their shapes keep their names,
which callers and error messages use.

Shared expressions are written once and referred to by number, so the text is linear in the size of
the program in memory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum

import numpy as np

from tilelang.errors import InternalError, Loc
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Expr, Var, field_names
from tilelang.ir.print_expr import shape_vars
from tilelang.ir.stmt import PrimFunc, Stmt
from tilelang.ir.visitor import postorder


def canonical_text(func: PrimFunc) -> str:
    """The canonical text of ``func``; see the module docstring.

    Raises:
        InternalError: an attribute holds something without a canonical form (a function, say).
    """
    return _Canonical().func(func)


def exact_text(func: PrimFunc) -> str:
    """As :func:`canonical_text`, with the name of every variable and buffer and with the place of
    every statement in the user's source: equal where generated source and messages are equal.

    Raises:
        InternalError: as :func:`canonical_text`.
    """
    return _Canonical(exact=True).func(func)


class _Canonical:
    def __init__(self, exact: bool = False) -> None:
        self.exact = exact
        self.lines: list[str] = []
        self.numbers: dict[Expr | Buffer, str] = {}
        self.public: set[Expr | Buffer] = set()
        self.depth = 0

    def func(self, func: PrimFunc) -> str:
        """Parameters, attributes and body."""
        for param in func.params:
            self.public.add(param)
            if isinstance(param, Buffer):
                self.public.update(shape_vars(param))
        params = [self.value(param) for param in func.params]
        self.add(f"func {func.name!r} ({', '.join(params)}) -> {self.value(func.outputs)}")
        for key, value in sorted(func.attrs, key=lambda pair: pair[0]):
            self.add(f"attr {key!r} {self.value(value)}")
        self.stmt(func.body)
        return "\n".join(self.lines) + "\n"

    def add(self, line: str) -> None:
        """One line at the current depth."""
        self.lines.append(" " * self.depth + line)

    def number(self, node: Expr | Buffer, letter: str) -> str:
        """A new reference for ``node``."""
        name = f"{letter}{len(self.numbers)}"
        self.numbers[node] = name
        return name

    # -- statements ------------------------------------------------------------------------------
    def stmt(self, stmt: Stmt) -> None:
        """A line for the statement, its blocks below it."""
        roles = stmt.role_table()
        own = (name for name, role in roles.items() if role != "block")
        parts = [f"{name}={self.value(getattr(stmt, name))}" for name in own]
        if self.exact:
            parts.append(f"at={stmt.loc!r}")
        self.add(" ".join([type(stmt).__name__, *parts]))
        self.depth += 1
        for name, role in roles.items():
            if role == "block":
                value = getattr(stmt, name)
                self.add(f"{name}:")
                for block in value if isinstance(value, tuple) else (value,):
                    if block is not None:
                        self.stmt(block)
        self.depth -= 1

    # -- values ----------------------------------------------------------------------------------
    def value(self, value: object) -> str:
        """Any field of a node or compile-time value."""
        if isinstance(value, Expr):
            return self.expr(value)
        if isinstance(value, Buffer):
            return self.buffer(value)
        if isinstance(value, DType):
            return str(value)
        if isinstance(value, Enum):
            return f"{type(value).__name__}.{value.name}"
        if isinstance(value, float):
            return value.hex() if value == value else "nan"
        if value is None or isinstance(value, (bool, int, str)):
            return repr(value)
        if isinstance(value, bytes):
            return f"bytes({len(value)}, {hashlib.sha256(value).hexdigest()})"
        if isinstance(value, (tuple, list)):
            return f"({', '.join(self.value(element) for element in value)})"
        if isinstance(value, Mapping):
            pairs = [f"{self.value(key)}: {self.value(element)}" for key, element in value.items()]
            return f"{{{', '.join(pairs)}}}"
        if isinstance(value, (set, frozenset)):
            return f"{{{', '.join(sorted(self.value(element) for element in value))}}}"
        return self.structure(value)

    def structure(self, value: object) -> str:
        """Objects: regions, layouts and other frozen data."""
        if isinstance(value, Stmt):
            raise InternalError("a statement is used as an attribute", got=type(value).__name__)
        if isinstance(value, Region):
            spans = f"{self.value(value.mins)} + {self.value(value.extents)}"
            return f"{self.buffer(value.buffer)}[{spans}{'*' if value.anchored else ''}]"
        if isinstance(value, (np.ndarray, np.generic)):
            array = np.asarray(value)
            digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
            return f"array({array.dtype.str}, {array.shape}, {digest})"
        own = getattr(value, "canonical", None)
        if callable(own) and not isinstance(value, type):
            return f"{type(value).__name__}({self.value(own())})"
        if is_dataclass(value) and not isinstance(value, type):
            parts = [
                f"{spec.name}={self.value(getattr(value, spec.name))}"
                for spec in fields(value)
                if spec.compare and not isinstance(getattr(value, spec.name), Loc)
            ]
            return f"{type(value).__name__}({', '.join(parts)})"
        raise InternalError(
            "a compile-time value has no canonical form",
            expected="numbers, text, dtypes, expressions, buffers, layouts, or tuples of them",
            got=f"{type(value).__name__}",
        )

    def buffer(self, buffer: Buffer) -> str:
        """A reference to ``buffer``, defined on first use."""
        number = self.numbers.get(buffer)
        if number is not None:
            return number
        name = repr(buffer.name) if self.exact or buffer in self.public else "_"
        shape = self.value(tuple(buffer.shape))
        strides = self.value(buffer.strides)
        offset = self.value(buffer.elem_offset)
        data = self.value(buffer.data)
        attrs = self.value(buffer.attrs)
        number = self.number(buffer, "b")
        self.add(
            f"{number} = buffer {name} {shape} {buffer.dtype} {buffer.storage} strides={strides} "
            f"offset={offset} data={data} attrs={attrs}"
        )
        return number

    def expr(self, expr: Expr) -> str:
        """A reference to ``expr``; it and what it needs are defined on first use."""
        for node in () if expr in self.numbers else postorder(expr):
            if node not in self.numbers:
                self.define(node)
        return self.numbers[expr]

    def define(self, node: Expr) -> None:
        """One line for ``node``, whose children are defined."""
        if isinstance(node, Var):
            name = repr(node.name) if self.exact or node in self.public else "_"
            number = self.number(node, "v")
            self.add(f"{number} = {name} {node.dtype}")
            return
        parts = [f"{name}={self.value(getattr(node, name))}" for name in field_names(type(node))]
        number = self.number(node, "e")
        self.add(f"{number} = {type(node).__name__} {' '.join(parts)} {node.dtype}")
