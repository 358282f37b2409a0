"""Alignment of tensor addresses: what a lowered program requires, and programs that require less.

A vector access needs a tensor address that is a multiple of its size. Allocators return such
addresses, but slices of tensors may start elsewhere. ``needed_alignments`` computes what a lowered
program requires. ``limit_alignments`` declares smaller alignments, and then
:func:`tilelang.transforms.analysis.vectors.run_of` allows only narrower vectors.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.bounds import interval
from tilelang.ir.buffer import Buffer
from tilelang.ir.memo import memoized
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import ExprRewriter
from tilelang.transforms.rules import Cursor, rule

_WIDEST = 16  # bytes of the widest access


def needed_alignments(func: S.PrimFunc) -> tuple[tuple[str, int], ...]:
    """Bytes that the address of each parameter of a lowered program has to be a multiple of, by
    its name: tensors that are accessed in vectors, and pointers that tensors are made of."""
    names = {param.data: param.name for param in func.buffers}
    sizes: dict[str, int] = {}
    for buffer, name in _tensors_at(func):
        names[buffer.data] = name
        sizes[name] = max(sizes.get(name, 0), buffer.dtype.width // 8)
    for view in S.find(func.body, S.View):
        if isinstance(view.source, E.AddressOf) and view.source.buffer.data in names:
            names[view.buffer.data] = names[view.source.buffer.data]
    for access in effects.accesses(func.body, nested=True):
        if isinstance(access.by, E.Call) and access.data in names:
            name = names[access.data]
            sizes[name] = max(sizes.get(name, 0), _size(access.by, access.buffer))
    return tuple((name, size) for name, size in sizes.items() if size > 1)


def _tensors_at(func: S.PrimFunc) -> Iterator[tuple[Buffer, str]]:
    """Tensors at the address of a pointer parameter, with its name."""
    pointers = {param for param in func.params if isinstance(param, E.Var)}
    for stmt in S.find(func.body, S.View):
        if isinstance(stmt.source, E.Var) and stmt.source in pointers:
            yield stmt.buffer, stmt.source.name


def _size(call: E.Call, buffer: Buffer) -> int:
    """Bytes that one call accesses at once; 0 for a single element."""
    size = call.attr("bytes", 0)
    if isinstance(size, int) and size:
        return size
    return (call.atom.elements if call.atom.elements > 1 else 0) * buffer.dtype.bits // 8


def limit_alignments(func: S.PrimFunc, limits: Mapping[str, int]) -> S.PrimFunc:
    """``func`` for tensors whose addresses are multiples of a few bytes only.

    Args:
        func: a program as it was traced.
        limits: parameter name -> bytes.
    """
    named = [(param, param.name) for param in func.buffers] + list(_tensors_at(func))
    limited = _Limit({buffer.data: limits[name] for buffer, name in named if name in limits})
    params = tuple(limited.buffer(p) if isinstance(p, Buffer) else p for p in func.params)
    return replace(func, params=params, body=limited.rewrite(func.body))


def _views(func: S.PrimFunc) -> _Limit:
    """The alignment of tensors that are made at an element of another one, where vectors take
    more: ``T.make_tensor(T.address_of(A[3]), ...)``."""
    known: dict[E.Var, int] = {}
    for stmt in S.find(func.body, S.View):
        if isinstance(stmt.source, E.AddressOf):
            limit = _address_of(stmt.source, known)
            if limit < _WIDEST:
                known[stmt.buffer.data] = limit
    return _Limit(known)


def _address_of(address: E.AddressOf, known: Mapping[E.Var, int]) -> int:
    """The largest power of two, up to what vectors take, that divides an address."""
    buffer = address.buffer
    offset = E.as_expr(buffer.elem_offset)
    for index, stride in zip(address.indices, buffer.stride_list()):
        offset = E.binary("add", offset, E.binary("mul", index, E.as_expr(stride)))
    modulus, remainder = interval(simplify(offset)).congruence()
    elements = math.gcd(modulus, remainder, _WIDEST * 8)
    base = known.get(buffer.data, buffer.attrs.base_alignment or _WIDEST)
    return math.gcd(max(elements * buffer.dtype.width // 8, 1), base)


class _Limit(ExprRewriter):
    """Writes the attribute into every buffer over the storage of a limited parameter."""

    def __init__(self, known: Mapping[E.Var, int]) -> None:
        self.known = known

    @memoized
    def buffer(self, buffer: Buffer) -> Buffer:
        """``buffer`` with its limit, if it has one."""
        limit = self.known.get(buffer.data)
        if limit is None:
            return buffer
        return replace(buffer, attrs=replace(buffer.attrs, base_alignment=limit))


@rule(Buffer, needs="simt", where=lambda func, _: S.holds(func.body, S.View))
def limit_views(buffer: Buffer, cursor: Cursor) -> Buffer:
    """Limit vector widths to the alignment of views."""
    return cursor.of(_views, cursor.func).buffer(buffer)
