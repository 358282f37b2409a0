"""Loop nests: walks, splitting and unrolling for the passes over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.facts import FactWalk, known_of
from tilelang.ir.visitor import ExprRewriter
from tilelang.transforms.analysis.dependence import Memory


class LaunchWalker(FactWalk):
    """Rewrites sequences and loops with the facts that hold there, the inner ones first."""

    def __init__(self, func: S.PrimFunc) -> None:
        super().__init__(known_of(func), frozenset(effects.written(func.body)))
        self.memory = Memory(func)

    def own(self, stmt: S.Stmt) -> S.Stmt:
        return stmt


def line_of(stmt: S.Stmt, transformation: str) -> str:
    """The transformation ``transformation`` of the line of ``stmt``, for reports."""
    return f"line {stmt.loc.line} {transformation}" if stmt.loc is not None else ""


def peel(stmt: S.Stmt, belongs: Callable[[S.For], bool]) -> tuple[list[S.For], S.Stmt]:
    """The loops at the top of ``stmt`` that belong to a nest, and what is in them."""
    loops: list[S.For] = []
    while isinstance(stmt, S.For) and belongs(stmt):
        loops.append(stmt)
        stmt = stmt.body
    return loops, stmt


def iteration(body: Iterable[S.Stmt], values: dict[E.Var, E.Expr]) -> list[S.Stmt]:
    """``body`` where variables have these values, with names and variables of its own."""
    body = tuple(body)
    return list(map(_Iteration(values, body).rewrite, body))


class _Iteration(ExprRewriter):
    def __init__(self, values: dict[E.Var, E.Expr], body: tuple[S.Stmt, ...]) -> None:
        self.values = dict(values)
        self.own = {
            stmt.buffer: Buffer(stmt.buffer.name, stmt.buffer.shape, stmt.buffer.dtype, "local.var")
            for stmt in body
            if isinstance(stmt, S.Alloc)
        }

    def buffer(self, buffer: Buffer) -> Buffer:
        return self.own.get(buffer, buffer)

    def node(self, expr: E.Expr) -> E.Expr:
        return self.values.get(expr, expr) if isinstance(expr, E.Var) else super().node(expr)

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        if not isinstance(stmt, S.Let):
            return stmt
        self.values[stmt.var] = var = E.Var(stmt.var.name, stmt.var.dtype)
        return replace(stmt, var=var)
