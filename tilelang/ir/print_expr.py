"""Script text of expressions, regions and compile-time values, and the names used in it.

Variables and buffers are identities, so two of them may have the same name; the printed text gives
each its own (``x``, ``x_1``). A name is free again where the block that defines it ends.
"""

from __future__ import annotations

import keyword
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tilelang.errors import InternalError
from tilelang.ir import expr as E
from tilelang.ir.atoms import Effect
from tilelang.ir.buffer import Buffer, Region, is_same_extent
from tilelang.ir.tables import BINARY, UNARY
from tilelang.ir.visitor import postorder

ATOM = 100  # binding strength of names, calls and subscripts
_NOT, _SIGN = 3, 11
_RESERVED = frozenset(("T", *keyword.kwlist))


class Names:
    """Unique names of variables and buffers, by scope."""

    def __init__(self) -> None:
        self._of: dict[object, str] = {}
        self._used: set[str] = set(_RESERVED)
        self._data: dict[E.Var, Buffer] = {}
        self._scopes: list[list[object]] = []

    def open(self) -> None:
        """Start a block: names defined from here on end with it."""
        self._scopes.append([])

    def close(self) -> None:
        """End the innermost block."""
        for named in self._scopes.pop():
            self._used.discard(self._of.pop(named))

    def knows(self, node: E.Var | Buffer) -> bool:
        """Whether ``node`` has been named."""
        return node in self._of

    def define(self, node: E.Var | Buffer, fallback: str = "v") -> str:
        """The name of ``node``, new in the innermost block if it has none."""
        cached = self._of.get(node)
        if cached is not None:
            return cached
        name = self.unique(node.name or fallback)
        self._of[node] = name
        if self._scopes:
            self._scopes[-1].append(node)
        if isinstance(node, Buffer):
            self._data.setdefault(node.data, node)
        return name

    def of(self, node: E.Var | Buffer) -> str:
        """The name of ``node``; one that nothing has defined is free in the whole text."""
        if node not in self._of:
            scopes, self._scopes = self._scopes, []
            self.define(node, "buf" if isinstance(node, Buffer) else "v")
            self._scopes = scopes
        return self._of[node]

    def data(self, var: E.Var) -> str:
        """The storage of a buffer, written as ``buffer.data``."""
        owner = self._data.get(var)
        return f"{self.of(owner)}.data" if owner is not None else self.of(var)

    def unique(self, base: str) -> str:
        """A name like ``base`` that no variable has."""
        name, count = base, 0
        while name in self._used:
            count += 1
            name = f"{base}_{count}"
        self._used.add(name)
        return name


class ExprPrinter:
    """Text of expressions under one set of names."""

    def __init__(self, names: Names | None = None) -> None:
        self.names = names or Names()

    def expr(self, expr: E.Expr) -> str:
        """``expr`` as Python text."""
        # Bottom-up over distinct nodes, so depth is not limited by Python's recursion.
        texts: dict[int, tuple[str, int]] = {}
        for node in postorder(expr):
            texts[id(node)] = self._node(node, texts)
        return texts[id(expr)][0]

    def value(self, value: object) -> str:
        """A compile-time value: number, expression, buffer, region, layout or nest of them."""
        if isinstance(value, str):  # dtypes, too
            return quoted(value)
        if isinstance(value, E.Const) and value.dtype in ("int32", "bool"):
            return repr(value.value)
        if isinstance(value, E.Expr):
            return self.expr(value)
        if isinstance(value, Buffer):
            return self.names.of(value)
        if isinstance(value, Region):
            return self.region(value)
        if isinstance(value, Mapping):
            return self.mapping(value.items())
        if isinstance(value, (tuple, list)):
            inner = ", ".join(self.value(element) for element in value)
            if isinstance(value, list):
                return f"[{inner}]"
            return f"({inner},)" if len(value) == 1 else f"({inner})"
        if isinstance(value, (set, frozenset)):
            return f"{{{', '.join(sorted(self.value(element) for element in value))}}}"
        return repr(value)

    def mapping(self, entries: object) -> str:
        """Pairs as a dict display."""
        pairs = [f"{self.value(k)}: {self.value(v)}" for k, v in entries]  # type: ignore[attr-defined]  # an iterable of pairs
        return f"{{{', '.join(pairs)}}}"

    def options(self, pairs: Iterable[tuple[str, Any]]) -> Iterator[str]:
        """Hints as keyword arguments where programs give them so, else in ``annotations=``."""
        rest: list[tuple[str, Any]] = []
        for key, value in pairs:
            if key == "annotations":
                rest += value
            elif not key.isidentifier() or key == "emit_arrive":
                rest.append((key, value))
            elif value is not None:
                yield f"{key}={self.value(value)}"
        if rest:
            yield f"annotations={self.mapping(rest)}"

    def region(self, region: Region) -> str:
        """``buffer[low:high, ..]``; a dimension of extent 1 is printed as one index."""
        name = self.names.of(region.buffer)
        if region.anchored and not region.tile_dims():
            return f"{name}[{', '.join(self.expr(low) for low in region.mins)}]"
        if region.is_whole and region.buffer.ndim:
            return name
        single = bool(region.tile_dims())
        parts = [self._span(*bounds, single) for bounds in zip(region.mins, region.extents)]
        return f"{name}[{', '.join(parts)}]"

    def access(self, region: Region) -> str:
        """A region in ``T.reads``/``T.writes``: always with its bounds."""
        parts = [self._span(*bounds, True) for bounds in zip(region.mins, region.extents)]
        return f"{self.names.of(region.buffer)}[{', '.join(parts)}]"

    def _span(self, low: E.Expr, extent: int | E.Expr, single: bool) -> str:
        if single and is_same_extent(extent, 1):
            return self.expr(low)
        return f"{self.expr(low)}:{self.expr(low + E.as_expr(extent))}"

    # -- nodes ---------------------------------------------------------------------------------
    def _node(self, node: E.Expr, texts: dict[int, tuple[str, int]]) -> tuple[str, int]:
        if isinstance(node, E.Const):
            return const_text(node)
        if isinstance(node, E.Var):
            return (self.names.data(node) if node.dtype.is_handle else self.names.of(node)), ATOM
        if isinstance(node, E.Binary):
            return _binary_text(node, texts)
        if isinstance(node, E.Unary):
            strength = _NOT if node.op == "lnot" else _SIGN
            return UNARY[node.op] + _fit(texts[id(node.a)], strength), strength
        return self._call_like(node, texts), ATOM

    def _call_like(self, node: E.Expr, texts: dict[int, tuple[str, int]]) -> str:
        def text(operand: E.Expr) -> str:
            return texts[id(operand)][0]

        def index(buffer: Buffer, indices: tuple[E.Expr, ...]) -> str:
            return f"{self.names.of(buffer)}[{', '.join(text(operand) for operand in indices)}]"

        if isinstance(node, E.Load):
            return index(node.buffer, node.indices)
        if isinstance(node, E.AddressOf):
            element = index(node.buffer, node.indices)
            if node.access == "rw" and node.extent is None:
                return f"T.address_of({element})"
            count = "" if node.extent is None else f", {text(node.extent)}"
            return f"T.access_ptr({element}, {quoted(node.access)}{count})"
        if isinstance(node, E.Cast):
            return self._cast(node, text(node.value))
        if isinstance(node, E.Select):
            name = "if_then_else" if node.lazy else "Select"
            return f"T.{name}({text(node.cond)}, {text(node.t)}, {text(node.f)})"
        if isinstance(node, E.Call):
            return self._call(node, [text(operand) for operand in _written(node)])
        if isinstance(node, E.Ramp):
            return f"T.Ramp({text(node.base)}, {text(node.stride)}, {node.lanes})"
        if isinstance(node, E.Broadcast):
            return f"T.Broadcast({text(node.value)}, {node.lanes})"
        if isinstance(node, E.Vector):
            return f"T.{node.dtype}({', '.join(text(operand) for operand in node.elements)})"
        if isinstance(node, E.Lane):
            return f"{_fit(texts[id(node.vector)], ATOM)}[{text(node.index)}]"
        if isinstance(node, E.StringImm):
            return quoted(node.value)
        if isinstance(node, E.RegionArg):
            return self.region(node.region)
        raise InternalError(f"the printer does not know the expression {type(node).__name__}")

    def _cast(self, node: E.Cast, value: str) -> str:
        if not node.rounding and node.sat and node.rbits is None:
            return f'T.Cast("{node.dtype}", {value})'
        options = f', round="{node.rounding}"' if node.rounding else ""
        options += "" if node.sat else ", sat=False"
        options += "" if node.rbits is None else f", rbits={self.expr(node.rbits)}"
        return f'T.cast({value}, "{node.dtype}"{options})'

    def _call(self, node: E.Call, args: list[str]) -> str:
        info = node.atom
        parts = list(args)
        for at, name in _BY_NAME.get(node.op, ()):
            if at < len(parts):
                parts[at] = f"{name}={parts[at]}"
        quiet = info.effect is not Effect.NONE and node.dtype in ("void", "handle")
        if info.result == "given" and not quiet:
            parts.append(f'dtype="{node.dtype}"')
        parts.extend(f"{name}={self.value(value)}" for name, value in node.attrs)
        return f"T.{node.op}({', '.join(parts)})"


# Functions whose operands from some place on are given by name: position -> name.
_BY_NAME = {"shfl_sync": ((2, "width"), (3, "mask"))}


def _written(node: E.Call) -> tuple[E.Expr, ...]:
    """The operands as a program writes them: functions of floats convert integers themselves."""
    if node.atom.takes != "float":
        return node.args
    return tuple(
        arg.value
        if isinstance(arg, E.Cast) and arg.type == "float32" and arg.value.dtype.is_integer
        else arg
        for arg in node.args
    )


def _fit(part: tuple[str, int], needed: int) -> str:
    text, strength = part
    return text if strength >= needed else f"({text})"


def _binary_text(node: E.Binary, texts: dict[int, tuple[str, int]]) -> tuple[str, int]:
    info = BINARY[node.op]
    a, b = texts[id(node.a)], texts[id(node.b)]
    if not info.symbol:
        return f"T.{node.op}({a[0]}, {b[0]})", ATOM
    # Comparisons chain in Python, so both sides need a higher precedence.
    left = info.precedence + 1 if info.compares and info.operands == "number" else info.precedence
    return (f"{_fit(a, left)} {info.symbol} {_fit(b, info.precedence + 1)}", info.precedence)


def quoted(text: str) -> str:
    """``text`` as a Python literal in double quotes."""
    literal = repr(str(text))
    if literal.startswith('"'):
        return literal
    inner = literal[1:-1].replace("\\'", "'").replace('"', '\\"')
    return f'"{inner}"'


def const_text(node: E.Const) -> tuple[str, int]:
    """A literal and its binding strength: int32 has no prefix, every other type is named."""
    value, dtype = node.value, node.dtype
    if isinstance(value, float) and not math.isfinite(value):
        inner = '"nan"' if math.isnan(value) else '"inf"' if value > 0 else '"-inf"'
    else:
        inner = repr(value)
    if dtype == "int32":
        return inner, _SIGN if inner.startswith("-") else ATOM
    return f"T.{dtype}({inner})", ATOM


def shape_vars(buffer: Buffer) -> Iterator[E.Var]:
    """Variables in the extents, strides and offset of ``buffer``."""
    for expr in (*buffer.shape, *(buffer.strides or ()), buffer.elem_offset):
        if isinstance(expr, E.Expr):
            yield from (node for node in postorder(expr) if isinstance(node, E.Var))


def expr_text(expr: E.Expr) -> str:
    """``expr`` as Python text."""
    return ExprPrinter().expr(expr)


def region_text(region: Region) -> str:
    """``region`` as ``buffer[low:high, ..]``; the whole buffer by its name."""
    return ExprPrinter().region(region)
