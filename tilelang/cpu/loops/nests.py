"""Loop nests: traversal, splitting and unrolling for the passes over them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.visitor import ExprRewriter, rewrite_blocks, rewrite_launches
from tilelang.transforms.notes import with_lines


def rewrite_nests(
    func: S.PrimFunc, start: Callable[[S.Launch], Callable[[S.For], tuple[S.Stmt, str] | None]]
) -> S.PrimFunc:
    """``func`` with loops replaced, the outermost ones first.

    Args:
        start: gives, for a launch, the function that gives what a loop becomes and what a report
            says of it ("" for nothing); None where it stays.
    """

    def rewritten(launch: S.Launch) -> S.Stmt:
        lines: dict[str, None] = {}
        replaced = start(launch)

        def visit(stmt: S.Stmt) -> S.Stmt:
            result = replaced(stmt) if isinstance(stmt, S.For) else None
            if result is None:
                return rewrite_blocks(stmt, visit)
            lines.setdefault(result[1])
            return result[0]

        body = visit(launch.body)
        if body is launch.body:
            return launch
        return with_lines(replace(launch, body=body), tuple(line for line in lines if line))

    return rewrite_launches(func, rewritten)


def line_of(stmt: S.Stmt, what: str) -> str:
    """``what`` became of the line of ``stmt``, for reports."""
    return f"line {stmt.loc.line} {what}" if stmt.loc is not None else ""


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
    copier = _Iteration(values, body)
    return [copier.rewrite(stmt) for stmt in body]


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
