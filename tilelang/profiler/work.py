"""The work of a program by its text: arithmetic operations, and bytes that have to move.

Extents that depend on the block or on a loop are taken at the middle of their range, which is exact
on average where they grow evenly (causal attention). A loop whose extent is read from memory counts
once, so that the figures are lower bounds there and ``exact`` is False.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.effects import accesses
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import substitute
from tilelang.records import dataclass

_ARITHMETIC = frozenset("add sub mul div min max".split())


@dataclass(frozen=True)
class Work:
    """One call of a program.

    Attributes:
        flops: operations on floating-point numbers; a multiplication with its addition counts two.
        products: those of ``flops`` that matrix products make.
        bytes_read, bytes_written: sizes of the tensors that are read and written, each once. What a
            program loads again and again comes from a cache, or should.
        exact: whether all extents were known.
    """

    flops: float
    products: float
    bytes_read: float
    bytes_written: float
    exact: bool = True

    @property
    def bytes(self) -> float:
        """Bytes read and written."""
        return self.bytes_read + self.bytes_written

    def tflops(self, milliseconds: float) -> float:
        """Return 10^12 operations in a second."""
        return self.flops / max(milliseconds, 1e-9) / 1e9

    def gbps(self, milliseconds: float) -> float:
        """Return 10^9 bytes in a second."""
        return self.bytes / max(milliseconds, 1e-9) / 1e6


def work_of(func: S.PrimFunc, symbols: Mapping[str, int] | None = None) -> Work:
    """Return the work of one call.

    Args:
        func: the program, before any pass.
        symbols: values of the symbols in shapes and of scalar parameters, by name.
    """
    counter = Counter(dict(symbols or {}))
    counter.visit(func.body, 1.0, {})
    reads: set[E.Var] = set()
    writes: set[E.Var] = set()
    for access in accesses(func.body, nested=True):
        if access.reads:
            reads.add(access.data)
        if access.writes:
            writes.add(access.data)
    sizes = [(buffer, counter.size(buffer)) for buffer in func.buffers]
    return Work(
        counter.flops,
        counter.products,
        sum(size for buffer, size in sizes if buffer.data in reads),
        sum(size for buffer, size in sizes if buffer.data in writes),
        counter.exact,
    )


class Counter:
    """Adds up what statements do, each as often as the loops around it say."""

    def __init__(self, symbols: Mapping[str, int]) -> None:
        self.symbols = symbols
        self.flops = 0.0
        self.products = 0.0
        self.exact = True

    def value(self, expr: object, known: Mapping[E.Var, E.Expr]) -> int | None:
        """An extent as a number."""
        if not isinstance(expr, E.Expr):
            return int(expr)  # type: ignore[call-overload, no-any-return]  # extents are ints or Expr
        values = {
            var: known[var] if var in known else E.const(self.symbols[var.name], var.dtype)
            for var in expr.variables
            if var in known or var.name in self.symbols
        }
        result = simplify(substitute(expr, values))
        return int(result.value) if isinstance(result, E.Const) else None

    def extent(self, value: object, known: Mapping[E.Var, E.Expr]) -> int:
        """An extent as a number; 1 where unknown."""
        extent = self.value(value, known)
        self.exact &= extent is not None
        return 1 if extent is None else max(0, extent)

    def extents(self, extents: Iterable[object], known: Mapping[E.Var, E.Expr]) -> list[int]:
        """Extents as numbers."""
        return [self.extent(extent, known) for extent in extents]

    def sides(self, gemm: S.Gemm, known: Mapping[E.Var, E.Expr]) -> tuple[int, int, int]:
        """Rows, columns and depth of a product."""
        rows, columns = self.extents(gemm.c.extents[-2:], known)
        return rows, columns, self.extents(gemm.a.extents[-2:], known)[0 if gemm.trans_a else 1]

    def size(self, buffer: Buffer) -> float:
        """Bytes of a tensor."""
        return prod(self.extents(buffer.shape, {})) * buffer.dtype.width / 8

    def visit(self, stmt: S.Stmt, times: float, known: dict[E.Var, E.Expr]) -> None:
        """Count ``stmt``, which runs ``times`` times."""
        if isinstance(stmt, S.Launch):
            grid = self.extents(stmt.grid, known)
            known = {**known, **_middles(stmt.block_vars, grid)}
            known.update(_middles(stmt.thread_vars, list(stmt.threads)))
            times *= prod(grid)
        elif isinstance(stmt, S.For):
            count = self._trips(stmt, known)
            known = {**known, **self._middle_of(stmt, count, known)}
            times *= count
        elif isinstance(stmt, S.Parallel):
            extents = self.extents(stmt.extents, known)
            known = {**known, **_middles(stmt.vars, extents)}
            times *= prod(extents)
        elif isinstance(stmt, S.Let):
            value = self.value(stmt.value, known)
            if value is not None and stmt.var.dtype.is_int:
                known[stmt.var] = E.const(value, stmt.var.dtype)  # holds to the end of the block
        self.own(stmt, times, known)
        for block in stmt.blocks():
            self.visit(block, times, known if isinstance(stmt, S.Seq) else dict(known))

    def _trips(self, loop: S.For, known: Mapping[E.Var, E.Expr]) -> int:
        span, step = self.value(loop.stop - loop.start, known), self.value(loop.step, known)
        if span is None or not step:
            self.exact = False
            return 1
        return max(0, -(-span // step))

    def _middle_of(
        self, loop: S.For, count: int, known: Mapping[E.Var, E.Expr]
    ) -> dict[E.Var, E.Expr]:
        start, step = self.value(loop.start, known), self.value(loop.step, known)
        if start is None or step is None:
            return {}
        return {loop.var: E.const(start + max(0, count - 1) // 2 * step, loop.var.dtype)}

    def own(self, stmt: S.Stmt, times: float, known: Mapping[E.Var, E.Expr]) -> None:
        """Count the arithmetic of the statement itself."""
        if isinstance(stmt, S.Gemm):
            count = 2.0 * prod(self.sides(stmt, known)) * times
            self.products += count
            self.flops += count
        elif isinstance(stmt, (S.Reduce, S.Scan)):
            if stmt.src.dtype.is_float:
                self.flops += prod(self.extents(stmt.src.extents, known)) * times
        elif isinstance(stmt, (S.Store, S.ReducerUpdate)):
            self.flops += times * (_operations(stmt.value) + isinstance(stmt, S.ReducerUpdate))


def _middles(variables: Any, extents: list[int]) -> dict[E.Var, E.Expr]:
    """The middle of each variable's range."""
    return {
        var: E.const(max(0, extent - 1) // 2, var.dtype) for var, extent in zip(variables, extents)
    }


def functions_in(loop: S.Parallel) -> int:
    """Calls that give floating-point numbers in a loop."""
    return sum(call.dtype.is_float for call in S.calls(loop.body))


def _operations(value: E.Expr) -> int:
    """Operations on floating-point numbers in an expression, functions as one each."""
    return sum(
        node.dtype.is_float
        and (isinstance(node, E.Call) or (isinstance(node, E.Binary) and node.op in _ARITHMETIC))
        for node in E.walk(value)
    )
