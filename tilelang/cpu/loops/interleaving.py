"""Interleaving: branches of a block that wait for each other, where one core runs all threads.

The statements of each branch run until threads of it have to wait, and from there when the others
have run. Variables hold where that is: the step of each sequence, the index of each loop, the
branch that was taken. Where no branch advances, the wait of the last one is the error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tilelang.cpu.loops.privatization import BOOL, INT, vars_in
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import LoopHints
from tilelang.ir.prover import prove
from tilelang.ir.visitor import map_stmts, substitute_in

ZERO = (E.const(0),)


def waits(stmt: S.Stmt) -> bool:
    """Whether threads wait in ``stmt`` for others."""
    return any(check.threads for check in S.find(stmt, S.Assert))


def interleave(parts: Sequence[Sequence[S.Stmt]]) -> list[S.Stmt]:
    """The statements of ``parts``, which different threads run: alternately where one of them
    waits and a later one may end that, else one part after the other."""
    plain = [stmt for part in parts for stmt in part]
    if not any(waits(stmt) for part in parts[:-1] for stmt in part):
        return plain
    writer = _Interleaver()
    stmts = writer.of(parts)
    return plain if writer.impossible else stmts


def joined(stmts: Sequence[S.Stmt], known: Bounds) -> Iterator[S.Stmt]:
    """``stmts`` with branches in a row as one chain, where they have barriers and no thread takes
    two of them."""
    chain: list[S.If] = []
    for stmt in (*stmts, None):
        orders = stmt is not None and any(call.atom.orders for call in S.calls(stmt))
        if orders and isinstance(stmt, S.If) and stmt.orelse is None:
            if all(_are_apart(stmt.cond, other.cond, known) for other in chain):
                chain.append(stmt)
                continue
        while len(chain) > 1:
            last = chain.pop()
            chain[-1] = replace(chain[-1], orelse=last)
        yield from chain
        chain = []
        if stmt is not None:
            yield stmt


def _are_apart(a: E.Expr, b: E.Expr, known: Bounds) -> bool:
    return prove(a, known.assuming(b)) is False or prove(b, known.assuming(a)) is False


def _load_cell(cell: Buffer) -> E.Expr:
    return E.Load(cell, ZERO)


def _set(cell: Buffer, value: E.Expr | int) -> S.Stmt:
    return S.Store(buffer=cell, indices=ZERO, value=E.cast(E.as_expr(value), cell.dtype))


class _Interleaver:
    """Writes the parts so that they can stop and continue."""

    def __init__(self) -> None:
        self.allocs: list[S.Stmt] = []
        self.names: dict[E.Var, E.Expr] = {}  # those that outlive a round -> where they are
        self.steps: list[Buffer] = []
        self.checks: list[S.Assert] = []
        self.stopped = self._cell("stopped")  # number of the check where the part stopped, or 0
        self.idle = self._cell("idle")  # rounds in which no part advanced
        self.advances = E.binary("eq", _load_cell(self.stopped), 0)
        self.impossible = False

    def of(self, parts: Sequence[Sequence[S.Stmt]]) -> list[S.Stmt]:
        """Rounds in which each part that has not ended runs until it waits."""
        rounds: list[S.Stmt] = [_set(self.idle, _load_cell(self.idle) + 1)]
        missing: E.Expr = E.const(False)
        for part in parts:
            left = self._cell("left", BOOL, E.const(True))
            body = [_set(self.stopped, 0), *self._sequence(part)]
            body.append(S.If(cond=self.advances, then=_set(left, E.const(False))))
            rounds.append(S.If(cond=_load_cell(left), then=S.seq(*body)))
            missing = E.binary("lor", missing, _load_cell(left))
        stmts: list[S.Stmt] = []
        for number, check in enumerate(self.checks, 1):
            stmts.append(replace(check, cond=E.binary("ne", _load_cell(self.stopped), number)))
        rounds.append(S.If(cond=E.binary("ge", _load_cell(self.idle), 2), then=S.seq(*stmts)))
        loop = substitute_in(S.While(cond=missing, body=S.seq(*rounds)), self.names)
        self.impossible |= not self.names.keys().isdisjoint(vars_in(loop))  # places of buffers
        return [*self.allocs, loop]

    def _cell(self, name: str, dtype: DType = INT, init: E.Expr | None = None) -> Buffer:
        cell = Buffer(name, Shape((1,)), dtype, "local.var")
        self.allocs.append(S.Alloc(buffer=cell, init=E.const(0, dtype) if init is None else init))
        return cell

    def _sequence(self, stmts: Sequence[S.Stmt]) -> list[S.Stmt]:
        """``stmts`` from the step where they stopped; step 0 again when they have ended."""
        step = self._cell("step")
        self.steps.append(step)
        return [*self._steps(S.flat(*stmts), step, 0), S.If(cond=self.advances, then=_set(step, 0))]

    def _steps(self, stmts: Sequence[S.Stmt], step: Buffer, number: int) -> list[S.Stmt]:
        out: list[S.Stmt] = []
        setup: list[S.Stmt] = []

        def flush() -> None:
            nonlocal number
            if setup:
                out.append(self._step_branch(step, number, [*setup, _set(step, number + 1)]))
                setup.clear()
                number += 1

        for index, stmt in enumerate(stmts):
            if waits(stmt):
                before, body, after = self._stop(stmt)
                setup += before
                flush()
                on = S.If(cond=self.advances, then=S.seq(*after, _set(step, number + 1)))
                out.append(self._step_branch(step, number, [*body, on]))
                if rest := self._steps(stmts[index + 1 :], step, number + 1):
                    out.append(S.If(cond=_load_cell(step) > number, then=S.seq(*rest)))
                return out
            if isinstance(stmt, S.View) or (isinstance(stmt, S.Let) and self._is_invariant(stmt)):
                flush()
                out.append(stmt)
            else:
                setup += self._hoist_variables(stmt)
        flush()
        return out

    def _step_branch(self, step: Buffer, number: int, body: list[S.Stmt]) -> S.Stmt:
        return S.If(cond=E.binary("eq", _load_cell(step), number), then=S.seq(*body))

    def _is_invariant(self, let: S.Let) -> bool:
        """Whether ``let`` has the same value in each round."""
        return let.var.dtype == "handle" or not E.holds(let.value, E.Load, E.Call)

    def _hoist_variables(self, stmt: S.Stmt) -> list[S.Stmt]:
        """``stmt`` with what it makes in variables of the whole loop."""
        self.impossible |= isinstance(stmt, (S.If, S.Continue)) and S.holds(stmt, S.Continue)
        if isinstance(stmt, S.Let):
            cell = self._cell(stmt.var.name, stmt.var.dtype)
            self.names[stmt.var] = _load_cell(cell)
            return [_set(cell, stmt.value)]
        if not isinstance(stmt, S.Alloc):
            return [stmt]
        self.allocs.append(replace(stmt, init=None))
        init = stmt.init
        if init is None and stmt.buffer.is_var:
            init = E.const(0, stmt.buffer.dtype)
        return [] if init is None else [_set(stmt.buffer, init)]

    def _stop(self, stmt: S.Stmt) -> tuple[list[S.Stmt], list[S.Stmt], list[S.Stmt]]:
        """The statements before ``stmt``, those of each round until it has ended, and those after
        it."""
        match stmt:
            case S.Assert() | S.For(hints=LoopHints(threads=True)):
                return [], [map_stmts(stmt, S.Assert, self._check)], [_set(self.idle, 0)]
            case S.If():
                flag = self._cell("taken", BOOL)
                then = S.seq(*self._sequence([stmt.then]))
                orelse = stmt.orelse and S.seq(*self._sequence([stmt.orelse]))
                chosen = replace(stmt, cond=_load_cell(flag), then=then, orelse=orelse)
                return [_set(flag, stmt.cond)], [chosen], []
            case S.For(step=E.Const(value=stride)):
                index = self._cell(stmt.var.name, stmt.var.dtype)
                end = self._cell("end", stmt.stop.dtype)
                more = E.binary("lt" if stride > 0 else "gt", _load_cell(index), _load_cell(end))
                first = S.Let(var=stmt.var, value=_load_cell(index))
                body = S.seq(first, stmt.body, _set(index, _load_cell(index) + stmt.step))
                loop = S.While(cond=more, body=body, loc=stmt.loc)
                return [_set(index, stmt.start), _set(end, stmt.stop)], *self._stop(loop)[1:]
            case S.While():
                inner = len(self.steps)
                body = S.seq(*self._sequence([stmt.body]))
                inside = E.binary("ne", _load_cell(self.steps[inner]), 0)
                more = E.binary("land", self.advances, E.binary("lor", inside, stmt.cond))
                resets = [_set(step, 0) for step in self.steps[inner:]]  # after a break
                return [], [replace(stmt, cond=more, body=body)], resets
            case _:
                self.impossible = True
                return [], [stmt], []

    def _check(self, check: S.Assert) -> S.Stmt:
        if not check.threads:
            return check
        self.checks.append(check)
        return S.If(cond=E.unary("lnot", check.cond), then=_set(self.stopped, len(self.checks)))
