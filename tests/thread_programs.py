"""Programs of threads, made of nodes."""

from __future__ import annotations

from typing import Any

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType

INT = DType("int32")
TX = E.Var("tx", INT)


def buffer(name: str, shape: tuple[int, ...], dtype: str, scope: str = "global") -> Buffer:
    """A buffer in row-major order."""
    return Buffer(name, Shape(shape), DType(dtype), scope)


def launch(*body: S.Stmt, threads: int = 64) -> S.Launch:
    """One block, whose threads have the index :data:`TX`."""
    axes = [E.Var(name, INT) for name in ("bx", "by", "bz", "ty", "tz")]
    return S.Launch(
        grid=(E.const(1),) * 3,
        block_vars=tuple(axes[:3]),
        thread_vars=(TX, *axes[3:]),
        threads=(threads, 1, 1),
        body=S.seq(*body),
    )


def store(base: Buffer, index: Any, value: Any) -> S.Stmt:
    """A store to one element of a buffer of one dimension."""
    return S.Store(buffer=base, indices=(E.as_expr(index),), value=E.as_expr(value))
