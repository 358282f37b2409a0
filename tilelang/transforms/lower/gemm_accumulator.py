"""The accumulator of a product: registers, their initial values and their destination."""

from __future__ import annotations

from tilelang.errors import InternalError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.records import dataclass
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.layouts.gemm_plan import GemmPlan, Registers
from tilelang.transforms.lower.context import Lowering, register_layout_of
from tilelang.transforms.lower.elements import array, guarded, loop, walk_registers


@dataclass(frozen=True)
class Accumulator:
    """Registers in which a product is added up.

    These are C's own where C is a fragment of the dtype that is added in, otherwise an array that
    is loaded from C and stored to it once.
    """

    stmt: S.Gemm
    plan: GemmPlan
    ctx: Lowering
    registers: Buffer
    own: bool  # whether they are C's registers themselves

    def start(self, zeros: bool = True) -> S.Stmt:
        """The registers hold zeros where C is overwritten (without ``zeros`` nothing: the
        instruction overwrites them), its values otherwise."""
        clear = self.stmt.clear
        nothing = S.Seq(stmts=())
        old = nothing if self.own else self._transfer(load=True)
        zero = self._zero() if zeros else nothing
        if isinstance(clear, E.Const):
            begin = zero if clear.value else old
        elif zeros:
            begin = S.If(cond=clear, then=zero, orelse=None if self.own else old, loc=self.stmt.loc)
        elif self.own:
            begin = nothing
        else:
            begin = S.If(cond=E.unary("lnot", clear), then=old, loc=self.stmt.loc)
        return begin if self.own else S.seq(S.Alloc(buffer=self.registers), begin)

    def finish(self) -> S.Stmt:
        """C receives what the registers hold."""
        return S.Seq(stmts=()) if self.own else self._transfer(load=False)

    def _zero(self) -> S.Stmt:
        var = self.ctx.fresh("c")
        zero = E.const(0, self.registers.dtype)
        store = S.Store(buffer=self.registers, indices=(var,), value=zero, loc=self.stmt.loc)
        return loop(var, int(E.as_expr(self.registers.shape[0])), store)

    def _transfer(self, load: bool) -> S.Stmt:
        """Every register from or to its element of C, converted."""
        region, ctx = self.stmt.c, self.ctx
        walk = walk_registers(self.plan.sum, ctx)
        fragment = region.buffer.storage == FRAGMENT
        index: tuple[E.Expr, ...] = (walk.register,)
        if fragment:
            buffer = ctx.registers(region.buffer)
        else:
            low = region.mins
            at = (*low[:-2], low[-2] + walk.indices[0], low[-1] + walk.indices[1])
            buffer, index = region.buffer, at
        if load:
            value = E.cast(E.Load(buffer, index), self.registers.dtype)
            move = S.Store(
                buffer=self.registers, indices=(walk.register,), value=value, loc=self.stmt.loc
            )
        else:
            value = E.cast(E.Load(self.registers, (walk.register,)), buffer.dtype)
            move = S.Store(buffer=buffer, indices=index, value=value, loc=self.stmt.loc)
        return walk.nest(guarded(walk.valid, move))


def plan_of(stmt: S.Gemm) -> GemmPlan:
    """The plan of a product, which layouts are inferred with."""
    if not isinstance(stmt.plan, GemmPlan):
        raise InternalError(f"the product into `{stmt.c.buffer.name}` has no plan")
    return stmt.plan


def accumulator_of(stmt: S.Gemm, ctx: Lowering) -> Accumulator:
    """The registers for adding up."""
    plan, region = plan_of(stmt), stmt.c
    dtype = plan.dtype
    fragment = region.buffer.storage == FRAGMENT
    required = plan.c.spread if isinstance(plan.c, Registers) else None
    if fragment and (required is None or register_layout_of(region.buffer) != required):
        raise InternalError(f"`{region.buffer.name}` is not in the layout of the product")
    if fragment and region.dtype is dtype:
        return Accumulator(stmt, plan, ctx, ctx.registers(region.buffer), True)
    return Accumulator(stmt, plan, ctx, array("sum", dtype, plan.sum.register_count), False)
