"""Builds Tile IR by hand, so that tests of the interpreter do not depend on the frontend."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilelang import interpret
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import AddressOf, Call, Expr, Load, Var, as_expr, cast, const
from tilelang.ir.hints import BufferHints, LaunchHints
from tilelang.ir.trace_context import activate
from tilelang.target.instruction_table import ROWS

INT32 = DType("int32")
FP32 = DType("float32")


def call(op: str, /, *args: Any, dtype: str = "void", **attrs: object) -> Call:
    """An intrinsic call without any checks."""
    return Call(
        ROWS[op], tuple(as_expr(a) for a in args), DType(dtype), tuple(sorted(attrs.items()))
    )


def at(buffer: Buffer, *index: Any) -> AddressOf:
    """Address of an element."""
    return AddressOf(buffer, tuple(as_expr(i) for i in index))


def region(buffer: Buffer, mins: tuple[Any, ...], extents: tuple[Any, ...]) -> Region:
    """A box of a buffer."""
    return Region(buffer, tuple(as_expr(low) for low in mins), extents)


class Kernel:
    """A function with one launch; also the emitter behind ``A[i] = x``."""

    def __init__(self, grid: tuple[Any, ...] = (1,), threads: int | tuple[int, ...] = 128) -> None:
        self.params: list[Buffer | Var] = []
        self.outputs: list[int] = []
        self.stack: list[list[S.Stmt]] = [[]]
        self.host: list[S.Stmt] = []
        self.grid = grid
        shape = (threads,) if isinstance(threads, int) else threads
        self.threads = (*shape, *(1,) * (3 - len(shape)))
        self.bx, self.by, self.bz = (Var(name, INT32) for name in ("bx", "by", "bz"))
        self.tx, self.ty, self.tz = (Var(name, INT32) for name in ("tx", "ty", "tz"))
        self.hints = LaunchHints()
        self.printed = ""

    # -- names --------------------------------------------------------------------------------
    def tensor(
        self, name: str, shape: tuple[Any, ...], dtype: str = "float32", **more: Any
    ) -> Buffer:
        buffer = Buffer(name, Shape(shape), DType(dtype), **more)
        self.params.append(buffer)
        return buffer

    def output(self, name: str, shape: tuple[Any, ...], dtype: str = "float32") -> Buffer:
        self.outputs.append(len(self.params))
        return self.tensor(name, shape, dtype)

    def scalar(self, name: str, dtype: str = "int32") -> Var:
        var = Var(name, DType(dtype))
        self.params.append(var)
        return var

    def alloc_buffer(
        self, name: str, shape: tuple[int, ...], dtype: str, scope: str, init: Any = None,
        **attrs: Any,
    ) -> Buffer:  # fmt: skip
        buffer = Buffer(name, Shape(shape), DType(dtype), scope, attrs=BufferHints(**attrs))
        value = None if init is None else as_expr(init)
        self.emit(S.Alloc(buffer=buffer, init=value))
        return buffer

    def shared(self, name: str, shape: tuple[int, ...], dtype: str = "float32") -> Buffer:
        return self.alloc_buffer(name, shape, dtype, "shared.dyn")

    def fragment(self, name: str, shape: tuple[int, ...], dtype: str = "float32") -> Buffer:
        return self.alloc_buffer(name, shape, dtype, "local.fragment")

    def local(self, name: str, shape: tuple[int, ...], dtype: str = "float32") -> Buffer:
        return self.alloc_buffer(name, shape, dtype, "local")

    def var(self, name: str, dtype: str, init: Any = None) -> Buffer:
        return self.alloc_buffer(name, (1,), dtype, "local.var", init)

    def barrier(self, *counts: int) -> Buffer:
        return self.alloc_buffer(
            "bar", (len(counts),), "uint64", "shared.barrier", arrive_counts=counts
        )

    def let(self, value: Any, name: str = "x") -> Var:
        expr = as_expr(value)
        var = Var(name, expr.dtype)
        self.emit(S.Let(var=var, value=expr))
        return var

    # -- statements ---------------------------------------------------------------------------
    def emit(self, stmt: S.Stmt) -> None:
        self.stack[-1].append(stmt)

    def store(self, buffer: Buffer, key: Any, value: Any) -> None:
        keys = key if isinstance(key, tuple) else (key,)
        lanes = max((k.dtype.lanes for k in keys if isinstance(k, Expr)), default=1)
        kind = buffer.dtype.with_lanes(lanes * buffer.dtype.lanes)
        self.emit(
            S.Store(
                buffer=buffer,
                indices=tuple(as_expr(k) for k in keys),
                value=cast(as_expr(value), kind),
            )
        )

    def do(self, op: str, *args: Any, **attrs: Any) -> None:
        self.emit(S.Eval(value=call(op, *args, **attrs)))

    def copy(self, src: Any, dst: Any, **more: Any) -> None:
        self.emit(S.Copy(src=_region(src), dst=_region(dst), **more))

    def fill(self, dst: Any, value: Any) -> None:
        where = _region(dst)
        self.emit(S.Fill(dst=where, value=cast(as_expr(value), where.dtype)))

    def gemm(self, a: Any, b: Any, c: Any, clear: Any = False, **more: Any) -> None:
        self.emit(S.Gemm(a=_region(a), b=_region(b), c=_region(c), clear=as_expr(clear), **more))

    def reduce(self, src: Any, dst: Any, kind: str, dim: int = 1, **more: Any) -> None:
        self.emit(S.Reduce(src=_region(src), dst=_region(dst), kind=kind, dim=dim, **more))

    def _block(self, stmts: list[S.Stmt]) -> S.Stmt:
        return stmts[0] if len(stmts) == 1 else S.Seq(stmts=tuple(stmts))

    @contextmanager
    def _nested(self) -> Iterator[list[S.Stmt]]:
        self.stack.append([])
        yield self.stack[-1]
        self.stack.pop()

    @contextmanager
    def loop(self, stop: Any, start: Any = 0, step: Any = 1, kind: str = "serial") -> Iterator[Var]:
        var = Var("k", INT32)
        with self._nested() as body:
            yield var
        self.emit(
            S.For(
                var=var,
                start=as_expr(start),
                stop=as_expr(stop),
                step=as_expr(step),
                kind=kind,
                body=self._block(body),
            )
        )

    @contextmanager
    def parallel(self, *extents: Any, loop_layout: Any = None) -> Iterator[tuple[Var, ...]]:
        names = tuple(Var("ijkl"[d], INT32) for d in range(len(extents)))
        with self._nested() as body:
            yield names
        self.emit(
            S.Parallel(
                vars=names,
                extents=tuple(as_expr(e) for e in extents),
                body=self._block(body),
                loop_layout=loop_layout,
            )
        )

    @contextmanager
    def when(self, cond: Expr) -> Iterator[None]:
        with self._nested() as body:
            yield
        self.emit(S.If(cond=cond, then=self._block(body)))

    @contextmanager
    def otherwise(self) -> Iterator[None]:
        with self._nested() as body:
            yield
        first = self.stack[-1].pop()
        assert isinstance(first, S.If)
        self.emit(S.If(cond=first.cond, then=first.then, orelse=self._block(body)))

    @contextmanager
    def repeat(self, cond: Expr) -> Iterator[None]:
        with self._nested() as body:
            yield
        self.emit(S.While(cond=cond, body=self._block(body)))

    # -- running ------------------------------------------------------------------------------
    def __enter__(self) -> Kernel:  # noqa: PYI034 - typing.Self needs Python 3.11
        self._active = activate(self)  # type: ignore[arg-type]  # only `store` is used
        self._active.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._active.__exit__(*error)

    def func(self) -> S.PrimFunc:
        launch = S.Launch(
            grid=tuple(as_expr(n) for n in self.grid),
            block_vars=(self.bx, self.by, self.bz),
            thread_vars=(self.tx, self.ty, self.tz),
            threads=self.threads,
            body=S.Seq(stmts=tuple(self.stack[0])),
            hints=self.hints,
        )
        body = S.Seq(stmts=(*self.host, launch))
        return S.PrimFunc("main", tuple(self.params), body, tuple(self.outputs))

    def run(self, *args: Any, **options: Any) -> None:
        out = io.StringIO()
        interpret.run(self.func(), args, stdout=out, **options)
        self.printed = out.getvalue()


def _region(operand: Any) -> Region:
    return operand.whole() if isinstance(operand, Buffer) else operand


def zeros(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """An array of zeros."""
    return np.zeros(shape, dtype)


__all__ = [
    "FP32", "INT32", "Call", "Kernel", "Load", "Region", "at", "call", "const", "region", "zeros",
]  # fmt: skip
