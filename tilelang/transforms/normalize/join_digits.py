"""Index linearization: accesses of tensors by one number in place of its digits."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import prod
from typing import TypeAlias

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.digits import joined
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.facts import known_of, plain_values
from tilelang.ir.indices import is_index
from tilelang.ir.visitor import ExprRewriter, rebuild
from tilelang.transforms.rules import Cursor, rule

Place: TypeAlias = "tuple[Buffer, tuple[E.Expr, ...]]"


@rule(S.PrimFunc)
def join_digits(func: S.PrimFunc, cursor: Cursor) -> S.PrimFunc:
    """Access a tensor by one number where indices are the quotient and remainder of it.

    The tensor gets a view with longer rows, whose elements all passes compare as they do those of
    any other tensor: neighbours are neighbours, wherever a row ends. Rows with gaps stay.
    """
    return func.with_body(_Joined(func).rewrite(func.body))


class _Joined(ExprRewriter):
    kinds = (E.Load, E.AddressOf)

    def __init__(self, func: S.PrimFunc) -> None:
        self.known, self.values = known_of(func), plain_values(func.body)
        self.views: dict[tuple[object, ...], Buffer] = {}

    def node(self, expr: E.Expr) -> E.Expr:
        expr = rebuild(expr, self.expr)
        if isinstance(expr, E.Load):
            return E.Load(*self.place(expr.buffer, expr.indices))
        # An instruction of several elements ends with the row that it begins in.
        is_single = isinstance(expr, E.Call) and expr.atom.elements == 1
        return rebuild(expr, self.address) if is_single else expr

    def address(self, expr: E.Expr) -> E.Expr:
        """An operand that is accessed, as a single element."""
        if not isinstance(expr, E.AddressOf) or expr.extent is not None:
            return expr
        buffer, indices = self.place(expr.buffer, expr.indices)
        return E.moved_to(expr, buffer, *indices)

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        if not isinstance(stmt, S.Store):
            return stmt
        buffer, indices = self.place(stmt.buffer, stmt.indices)
        return stmt if buffer is stmt.buffer else replace(stmt, buffer=buffer, indices=indices)

    def place(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> Place:
        """The element of a view with longer rows, where there is one."""
        if buffer.storage != "global" or buffer.strides is not None or not indices:
            return buffer, indices
        dims, numbers = zip(*joined(buffer.shape, indices, self.known))
        if len(dims) == buffer.ndim:
            return buffer, indices
        exact = all(is_index(number, self.values) for number in numbers)
        key = (buffer, dims, exact)
        if key not in self.views:
            spans = [buffer.shape[first + 1 : last + 1] for first, last in pairwise((-1, *dims))]
            shape = Shape(map(partial(_extent, exact=exact), spans))
            hints = replace(buffer.attrs, rank=buffer.attrs.rank or buffer.ndim)
            self.views[key] = replace(buffer, shape=shape, attrs=hints)
        return self.views[key], numbers


def _extent(span: tuple[int | E.Expr, ...], exact: bool) -> int | E.Expr:
    """The elements of rows; in 64 bits where it is compared with other numbers than indices."""
    size = prod(span)
    is_wide = exact or len(span) == 1 or not isinstance(size, E.Expr)
    return size if is_wide else E.cast(size, DType("int64"))
