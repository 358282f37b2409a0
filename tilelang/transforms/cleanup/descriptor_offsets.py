"""Strength reduction of wgmma descriptors: a fixed descriptor plus a varying offset.

A descriptor is made of an address by a mask, a shift and an "or" (PTX, "Matrix Descriptor"), and
the version of a tile changes with each item of a pipeline: so each product would begin with that
arithmetic, of both operands, between the wait for its item and its first instruction. The parts of
an index that all threads see alike, in units of 16 bytes, are added to the descriptor instead: it
is the same as long as the warpgroup is, so that the device's compiler makes it before the loop.

An address has its own bits in a descriptor, and sums of shared addresses fit into them: a distance
that is not negative never carries into the others.
"""

from __future__ import annotations

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.linear import Linear
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import Rewriter, rewrite_bodies
from tilelang.target import Context, operations

UNIT = 128  # bits that a descriptor counts
_PLACES = {
    operations.WGMMA_SS: (1, 3),
    operations.WGMMA_RS: (2,),
}  # of operands; distances stand behind


def offset_descriptors(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with wgmma operands at fixed places and distances from them.

    Relies on layouts: indices are those of memory.
    """
    return rewrite_bodies(func, lambda launch: _Apart(launch).rewrite(launch.body))


class _Apart(Rewriter):
    def __init__(self, launch: S.Launch) -> None:
        self.threads = frozenset(launch.thread_vars)

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        """A product with its operands' places apart."""
        call = stmt.call
        if call is None or call.atom not in _PLACES:
            return stmt
        args = list(call.args)
        for at in _PLACES[call.atom]:
            args[at], args[at + 1] = self.apart(args[at], args[at + 1])
        if all(a is b for a, b in zip(args, call.args)):
            return stmt
        moved = E.Call(call.atom, tuple(args), call.dtype, call.attrs)
        return S.Eval(value=moved, loc=stmt.loc)

    def apart(self, address: E.Expr, distance: E.Expr) -> tuple[E.Expr, E.Expr]:
        """A place and a distance that say the same, with all in the distance that can be."""
        if not isinstance(address, E.AddressOf) or len(address.indices) != 1:
            return address, distance
        (index,) = address.indices
        unit = UNIT // address.buffer.dtype.bits
        form = Linear.of(index)
        kept: E.Expr = E.const(form.constant, index.dtype)
        behind: E.Expr = E.const(0, index.dtype)
        for term, factor in form.terms:
            is_uniform = self.threads.isdisjoint(term.variables)
            if is_uniform and factor > 0 and factor % unit == 0 and form.constant >= 0:
                behind = behind + term * (factor // unit)
            else:
                kept = kept + term * factor
        if isinstance(behind, E.Const):
            return address, distance
        base = E.AddressOf(address.buffer, (simplify(kept),), address.access)
        return base, simplify(behind) + distance
