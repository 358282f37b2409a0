"""Specialization: a function with some of its parameters or symbols fixed.

``specialize`` is what ``PrimFunc.specialize`` does: every place that mentions a fixed symbol
(shapes, strides, indices, loop bounds, attributes of tile operations) gets the value, and scalar
parameters that are fixed leave the signature. It relies on nothing but the roles of fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tilelang.errors import TileTypeError, TileValueError
from tilelang.ir.buffer import Buffer, Shape, as_extent
from tilelang.ir.expr import Expr, Var, as_expr, cast
from tilelang.ir.memo import memoized
from tilelang.ir.print_expr import shape_vars
from tilelang.ir.stmt import PrimFunc
from tilelang.ir.visitor import Rewriter, postorder, rebuild, substitute

Values = dict[Var, Expr]


def specialize(func: PrimFunc, fixed: Mapping[object, object]) -> PrimFunc:
    """``func`` with parameters fixed.

    Args:
        func: a traced function.
        fixed: a scalar parameter, a symbol of a shape (``T.dynamic``) or the name of either, with
            its value (a number or an expression); or a tensor parameter with a ``Buffer`` whose
            extents fix the symbols in its shape.

    Raises:
        TileTypeError: a key that is nothing of ``func``, or a value of the wrong kind.
        TileValueError: a buffer whose constant extents, rank or dtype differ, or two values for
            one symbol.
    """
    values: Values = {}
    for key, value in fixed.items():
        target = _find(func, key)
        if isinstance(target, Buffer):
            _match(func, target, value, values)
        else:
            _set(func, values, target, value)
    if not values:
        return func
    rewriter = _Fix(values)
    position = {id(old): at for at, old in enumerate(func.params)}
    remaining = [param for param in func.params if not (isinstance(param, Var) and param in values)]
    moved = {position[id(param)]: at for at, param in enumerate(remaining)}
    params = tuple(rewriter.buffer(p) if isinstance(p, Buffer) else p for p in remaining)
    outputs = tuple(moved[at] for at in func.outputs)
    return replace(func, params=params, body=rewriter.rewrite(func.body), outputs=outputs)


def _symbols(func: PrimFunc) -> dict[str, Var]:
    """Scalar parameters and symbols of shapes and strides by name."""
    symbols = {param.name: param for param in func.params if isinstance(param, Var)}
    for buffer in func.buffers:
        for var in shape_vars(buffer):
            symbols.setdefault(var.name, var)
    return symbols


def _find(func: PrimFunc, key: object) -> Buffer | Var:
    symbols = _symbols(func)
    for param in func.buffers:
        if key is param or key == param.name:
            return param
    if isinstance(key, Var) and any(key is var for var in symbols.values()):
        return key
    if isinstance(key, str) and key in symbols:
        return symbols[key]
    raise TileTypeError(
        f"`{func.name}` has no parameter or symbol {key!r}",
        expected=", ".join([*(b.name for b in func.buffers), *symbols]),
        got=repr(key),
    )


def _set(func: PrimFunc, values: Values, var: Var, value: object) -> None:
    if isinstance(value, Buffer):
        raise TileTypeError(
            f"`{var.name}` of `{func.name}` is a number", expected=str(var.dtype), got=repr(value)
        )
    expr = as_expr(value, var.dtype)
    expr = expr if expr.dtype == var.dtype else cast(expr, var.dtype)
    known = values.setdefault(var, expr)
    if known is not expr:
        raise TileValueError(
            f"`{var.name}` of `{func.name}` is given two values",
            expected=repr(known),
            got=repr(expr),
        )


def _match(func: PrimFunc, buffer: Buffer, value: object, values: Values) -> None:
    """Learn symbols from a buffer given for the tensor parameter ``buffer``."""
    if not isinstance(value, Buffer):
        raise TileTypeError(
            f"`{buffer.name}` of `{func.name}` is a tensor",
            expected="a buffer, e.g. T.Buffer((16, 16), dtype)",
            got=repr(value),
        )
    wrong = TileValueError(
        f"the buffer given for `{buffer.name}` of `{func.name}` does not fit",
        expected=f"{buffer.dtype} of shape {_text(buffer.shape)}",
        got=f"{value.dtype} of shape {_text(value.shape)}",
    )
    if buffer.dtype != value.dtype or buffer.ndim != value.ndim:
        raise wrong
    for extent, fixed in zip(buffer.shape, value.shape):
        if isinstance(extent, Var):
            _set(func, values, extent, fixed)
        elif not isinstance(extent, Expr) and extent != fixed:
            raise wrong


def _text(shape: Shape) -> str:
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


class _Fix(Rewriter):
    """Replaces the fixed symbols everywhere."""

    def __init__(self, values: Values) -> None:
        self.values = values

    def _extent(self, extent: int | Expr) -> int | Expr:
        if not isinstance(extent, Expr):
            return extent
        rewritten = substitute(extent, self.values)
        return extent if rewritten is extent else as_extent(rewritten)

    @memoized
    def buffer(self, buffer: Buffer) -> Buffer:
        """The buffer with fixed extents; the same object for each use."""
        shape = Shape(map(self._extent, buffer.shape))
        strides = None if buffer.strides is None else tuple(map(self._extent, buffer.strides))
        offset = self._extent(buffer.elem_offset)
        old = (*buffer.shape, *(buffer.strides or ()), buffer.elem_offset)
        if all(a is b for a, b in zip((*shape, *(strides or ()), offset), old)):
            return buffer
        return replace(buffer, shape=shape, strides=strides, elem_offset=offset)

    def expr(self, expr: Expr) -> Expr:
        """The expression with values for symbols, over the new buffers."""
        rewritten: dict[Expr, Expr] = {}
        for node in postorder(expr):
            fixed = self.values.get(node) if isinstance(node, Var) else None
            rewritten[node] = (
                rebuild(node, rewritten.__getitem__, self.buffer) if fixed is None else fixed
            )
        return rewritten[expr]
