"""Tensors of a call that may overlap: views of one storage while the program is lowered.

Every pass takes accesses of one storage by two names for accesses that may be of one element. So
tensors that may overlap get one storage before all passes, and their own pointers again before
addresses are chosen.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.transforms.rules import Cursor, rule


def _storage(func: S.PrimFunc) -> tuple[set[E.Var], E.Var, dict[Buffer, Buffer]]:
    """The pointers of the tensors, the pointer of their one storage, and the new buffers."""
    return {buffer.data for buffer in func.buffers}, E.Var("tensors", DType("handle")), {}


@rule(Buffer, needs="simt", where=lambda func, _: not func.attr("tir.noalias", True))
def merge_tensors(buffer: Buffer, cursor: Cursor) -> Buffer:
    """Give tensors that may overlap one storage."""
    pointers, storage, merged = cursor.of(_storage, cursor.func)
    if buffer.data in pointers and buffer not in merged:
        hints = replace(buffer.attrs, pointer=buffer.data)
        merged[buffer] = replace(buffer, data=storage, attrs=hints)
    return merged.get(buffer, buffer)


@rule(Buffer, needs="simt", where=lambda func, _: not func.attr("tir.noalias", True))
def separate_tensors(buffer: Buffer, cursor: Cursor) -> Buffer:
    """Give tensors that may overlap their own pointers again."""
    _, _, separate = cursor.of(_storage, cursor.func)
    if buffer.attrs.pointer is not None and buffer not in separate:
        attrs = replace(buffer.attrs, pointer=None)
        separate[buffer] = replace(buffer, data=buffer.attrs.pointer, attrs=attrs)
    return separate.get(buffer, buffer)
