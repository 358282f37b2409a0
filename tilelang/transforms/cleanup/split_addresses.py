"""Base and offset: addresses of matrix loads and of cp.async as a register and a constant.

These instructions have the addressing mode base + immediate: one register, and a number of bytes
in the instruction itself. In an unrolled loop that copies them out, their addresses differ by
constants only, so that one register serves all copies. The compiler finds that for loads of its
own but not for the operands of inline assembly: it adds the constant to the register before each
instruction, which costs an instruction and a register per copy. So what is constant in every
iteration is a displacement of the index (:func:`tilelang.ir.indices.displaced`).
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.indices import displaced, is_index, plain_values
from tilelang.ir.linear import Linear
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import rewrite_blocks, rewrite_bodies
from tilelang.target import Context
from tilelang.transforms.analysis.loops import is_unrolled


def split_addresses(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with the constant parts of such addresses apart.

    Which instructions those are is a field of their rows, ``displaces``. Relies on indices being
    as they are printed: the unchanging parts of sums in loops have names, and no pass below
    rebuilds a sum. Only index arithmetic is split, which is exact.
    """

    def split(launch: S.Launch) -> S.Stmt:
        if not any(call.atom.displaces for call in S.calls(launch.body)):
            return launch.body
        return _Split(plain_values(launch.body)).block(launch.body, frozenset())

    return rewrite_bodies(func, split)


class _Split:
    """The addresses of one kernel; ``values`` are the variables that are no index arithmetic."""

    def __init__(self, values: frozenset[E.Var]) -> None:
        self.values = values

    def block(self, stmt: S.Stmt, copied: frozenset[E.Var]) -> S.Stmt:
        """``stmt``, in the loops over ``copied``, whose iterations are unrolled."""
        call = stmt.call
        if call is not None and call.atom.displaces:
            args = tuple(self.operand(arg, copied) for arg in call.args)
            if all(a is b for a, b in zip(args, call.args)):
                return stmt
            moved = E.Call(call.atom, args, call.dtype, call.attrs)
            return S.Eval(value=moved, loc=stmt.loc)
        if isinstance(stmt, S.For) and is_unrolled(stmt):
            copied = copied | {stmt.var}
        return rewrite_blocks(stmt, lambda block: self.block(block, copied))

    def operand(self, arg: E.Expr, copied: frozenset[E.Var]) -> E.Expr:
        """An address in memory whose units are elements, split."""
        if not isinstance(arg, E.AddressOf) or arg.buffer.dtype.bits < 8:
            return arg
        if arg.buffer.storage == "global":
            indices = self.strided(arg.buffer, arg.indices, copied)
        elif arg.buffer.storage.startswith("shared") and len(arg.indices) == 1:
            indices = (self.flat(arg.indices[0], copied),)
        else:
            return arg
        same = all(a is b for a, b in zip(indices, arg.indices))
        return arg if same else replace(arg, indices=indices)

    def flat(self, index: E.Expr, copied: frozenset[E.Var]) -> E.Expr:
        """An index of shared memory: what is added last of it is constant."""
        start: E.Expr = index
        offset: E.Expr = E.const(0)
        while isinstance(start, E.Binary) and start.op == "add" and self.fixed(start.b, copied):
            offset = E.binary("add", start.b, offset)
            start = start.a
        offset = simplify(offset)
        if isinstance(start, E.Const) or (isinstance(offset, E.Const) and not offset.value):
            return index
        return displaced(start, offset)

    def strided(
        self, buffer: Buffer, indices: tuple[E.Expr, ...], copied: frozenset[E.Var]
    ) -> tuple[E.Expr, ...]:
        """The indices of a tensor: terms that are constant, along dimensions whose stride is."""
        result = []
        for index, stride in zip(indices, buffer.stride_list()):
            form = Linear.of(index)
            moved = tuple(pair for pair in form.terms if self.fixed(pair[0], copied))
            if moved and isinstance(stride, (int, E.Const)) and is_index(index, self.values):
                varying = tuple(pair for pair in form.terms if not self.fixed(pair[0], copied))
                start = replace(form, terms=varying).expr()
                index = displaced(start, Linear(moved, 0, form.dtype).expr())
            result.append(index)
        return tuple(result)

    def fixed(self, expr: E.Expr, copied: frozenset[E.Var]) -> bool:
        """Whether ``expr`` is a constant in every copy of the unrolled loops."""
        return expr.variables <= copied and is_index(expr, self.values)
