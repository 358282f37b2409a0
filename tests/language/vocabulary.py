"""Tracing single operations for the tests of the vocabulary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tilelang.language as T
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.stmt import Launch, Seq, Stmt, walk as walk_stmts
from tilelang.language.v2.builder import Builder


def buf(
    name: str, shape: Sequence[Any], dtype: object = "float32", scope: str = "global"
) -> Buffer:
    """A buffer as if it had been declared or allocated earlier."""
    return Buffer(name, Shape(shape), DType(dtype), scope)


def shared(name: str, shape: Sequence[Any], dtype: object = "float16") -> Buffer:
    return buf(name, shape, dtype, "shared.dyn")


def frag(name: str, shape: Sequence[Any], dtype: object = "float32") -> Buffer:
    return buf(name, shape, dtype, "local.fragment")


def launch(body: Callable[[], Any], threads: int = 128) -> Launch:
    """The kernel whose body is what ``body`` emits."""
    builder = Builder()
    with builder.prim_func("main"), T.Kernel(4, threads=threads):
        body()
    (found,) = [stmt for stmt in walk_stmts(builder.get().body) if isinstance(stmt, Launch)]
    return found


def emitted(body: Callable[[], Any], threads: int = 128) -> list[Stmt]:
    """The statements ``body`` emits inside a kernel."""
    found = launch(body, threads).body
    return list(found.stmts) if isinstance(found, Seq) else [found]


def texts(body: Callable[[], Any], threads: int = 128) -> list[str]:
    """The printed lines of what ``body`` emits inside a kernel."""
    return [line for stmt in emitted(body, threads) for line in repr(stmt).splitlines()]


def one(body: Callable[[], Any], threads: int = 128) -> Any:
    """The only statement that ``body`` emits inside a kernel."""
    (found,) = emitted(body, threads)
    return found
