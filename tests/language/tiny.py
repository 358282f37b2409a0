"""A direct evaluator of traced functions with one thread per block, for tests of the frontend.

It knows plain statements and scalar expressions only, so a failure here is one of tracing.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Unary, Var

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "floordiv": operator.floordiv,
    "floormod": operator.mod,
    "min": min,
    "max": max,
    "bitand": operator.and_,
    "bitor": operator.or_,
    "bitxor": operator.xor,
    "shl": operator.lshift,
    "shr": operator.rshift,
    **{name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
}


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class Tiny:
    """Values of variables and arrays of buffers while a function runs."""

    def __init__(self) -> None:
        self.vars: dict[Var, Any] = {}
        self.memory: dict[Buffer, np.ndarray[Any, Any]] = {}

    def value(self, e: Any) -> Any:
        if not isinstance(e, Expr):
            return e
        if isinstance(e, Const):
            return e.value
        if isinstance(e, Var):
            return self.vars[e]
        if isinstance(e, Load):
            return self.memory[e.buffer][tuple(self.value(i) for i in e.indices)].item()
        if isinstance(e, Binary):
            if e.op in ("land", "lor"):
                first = bool(self.value(e.a))
                return first if first is (e.op == "lor") else bool(self.value(e.b))
            return BINARY[e.op](self.value(e.a), self.value(e.b))
        if isinstance(e, Select):
            return self.value(e.t if self.value(e.cond) else e.f)
        if isinstance(e, Unary):
            value = self.value(e.a)
            return {"neg": -value, "lnot": not value, "bitnot": ~int(value)}[e.op]
        if isinstance(e, Cast):
            value = self.value(e.value)
            return int(value) if e.type.is_integer else type(value)(value)
        assert isinstance(e, Call), e
        return getattr(math, e.op)(*(self.value(arg) for arg in e.args))

    def run(self, s: S.Stmt) -> None:
        if isinstance(s, S.Seq):
            for item in s.stmts:
                self.run(item)
        elif isinstance(s, S.Let):
            self.vars[s.var] = self.value(s.value)
        elif isinstance(s, S.Alloc):
            shape = tuple(self.value(n) for n in s.buffer.shape)
            self.memory[s.buffer] = np.zeros(shape, s.buffer.dtype.as_numpy())
            if s.init is not None:
                self.memory[s.buffer][0] = self.value(s.init)
        elif isinstance(s, S.Store):
            self.memory[s.buffer][tuple(self.value(i) for i in s.indices)] = self.value(s.value)
        elif isinstance(s, S.Fill):
            ranges = [
                slice(self.value(low), self.value(low) + self.value(n))
                for low, n in zip(s.dst.mins, s.dst.extents)
            ]
            self.memory[s.dst.buffer][tuple(ranges)] = self.value(s.value)
        elif isinstance(s, S.If):
            if self.value(s.cond):
                self.run(s.then)
            elif s.orelse is not None:
                self.run(s.orelse)
        elif isinstance(s, S.For):
            bounds = [self.value(e) for e in (s.start, s.stop, s.step)]
            self.loop(((s.var,), [(i,) for i in range(*bounds)]), s.body)
        elif isinstance(s, S.Parallel):
            ranges_ = [range(self.value(e)) for e in s.extents]
            self.loop((s.vars, list(itertools.product(*ranges_))), s.body)
        elif isinstance(s, S.While):
            while self.value(s.cond):
                try:
                    self.run(s.body)
                except _Break:
                    break
                except _Continue:
                    continue
        elif isinstance(s, S.Break):
            raise _Break
        elif isinstance(s, S.Continue):
            raise _Continue
        elif isinstance(s, S.Launch):
            assert s.threads == (1, 1, 1), "give threads=1"
            self.vars.update(dict.fromkeys(s.thread_vars, 0))
            for index in itertools.product(*(range(self.value(e)) for e in reversed(s.grid))):
                self.vars.update(zip(s.block_vars, reversed(index)))
                self.run(s.body)
        elif isinstance(s, S.Assert):
            assert self.value(s.cond), s.message
        elif isinstance(s, S.Eval):
            self.value(s.value)
        elif isinstance(s, S.Attr):
            self.run(s.body)
        else:
            raise NotImplementedError(type(s).__name__)

    def loop(self, indices: tuple[Any, list[Any]], body: S.Stmt) -> None:
        for values in indices[1]:
            self.vars.update(zip(indices[0], values))
            try:
                self.run(body)
            except _Break:
                return
            except _Continue:
                continue


def run(func: S.PrimFunc, *args: Any) -> None:
    """Run ``func`` on numpy arrays (changed in place) and numbers."""
    tiny = Tiny()
    for param, arg in zip(func.params, args, strict=True):
        if isinstance(param, Buffer):
            tiny.memory[param] = arg
            for extent, actual in zip(param.shape, arg.shape):
                if isinstance(extent, Var):
                    tiny.vars[extent] = actual
        else:
            tiny.vars[param] = arg
    tiny.run(func.body)


def kinds(func: S.PrimFunc) -> list[str]:
    """Names of the statements of ``func`` in program order."""
    return [type(s).__name__ for s in S.walk(func.body) if not isinstance(s, S.Seq)]
