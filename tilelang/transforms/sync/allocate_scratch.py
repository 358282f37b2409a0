"""Allocate the shared scratch memory of block-wide reductions.

A reduction of one value per thread (``tvm_thread_allreduce``) is a tree in shared memory that
begins and ends with its own barriers. Its scratch memory becomes a buffer of the program, so that
the shared-memory plan counts it and can reuse the memory of a tile. Reductions of one dtype share
scratch memory, and all reductions share the mask of participating threads.
"""

from __future__ import annotations

from math import prod

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.tables import THREAD_ALLREDUCE
from tilelang.ir.visitor import ExprRewriter, rebuild
from tilelang.transforms.rules import Cursor, rule


@rule(S.Launch)
def allocate_scratch(launch: S.Launch, cursor: Cursor) -> S.Launch:
    """Allocate workspaces of reductions.

    No barrier is needed for the buffers: a reduction orders what it does itself.
    """
    kernel = _Kernel(prod(launch.threads))
    body = kernel.rewrite(launch.body)
    allocs = [S.Alloc(buffer=buffer) for buffer in kernel.buffers.values()]
    return launch.with_body(S.seq(*allocs, body)) if allocs else launch


class _Kernel(ExprRewriter):
    kinds = (E.Call,)

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.buffers: dict[str, Buffer] = {}

    def node(self, expr: E.Expr) -> E.Expr:
        """Give reductions in an expression their scratch memory."""
        expr = rebuild(expr, self.expr)
        if not isinstance(expr, E.Call) or expr.atom is not THREAD_ALLREDUCE:
            return expr
        kind = _scratch_dtype(expr.dtype)
        buffers = self.scratch(f"reduced_{kind}", kind), self.scratch("has_value", DType("bool"))
        addresses = (E.AddressOf(buffer, (E.const(0),), "rw") for buffer in buffers)
        return E.Call(expr.atom, (*expr.args[:2], *addresses), expr.dtype, expr.attrs)

    def scratch(self, name: str, kind: DType) -> Buffer:
        """An element of ``kind`` for each thread."""
        if name not in self.buffers:
            self.buffers[name] = Buffer(name, Shape((self.threads,)), kind, "shared")
        return self.buffers[name]


def _scratch_dtype(kind: DType) -> DType:
    """The dtype of values in a workspace: floats are combined in at least float32."""
    if kind.is_float:
        return kind if kind.bits >= 32 else DType("float32")
    return kind if kind.bits >= 8 or kind == "bool" else DType("int32")
