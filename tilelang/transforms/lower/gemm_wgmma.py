"""``Gemm`` by matrix instructions of warpgroups (``wgmma.mma_async``).

The tensor core reads B, and A if it is in shared memory, by descriptors. The lowering emits the
start address of the warpgroup's operand, and a constant offset for each instruction. The
instructions of a product form one group: a fence before it orders the threads' register accesses, a
commit ends it, and the wait that ``insert_waits`` has placed precedes all reads of the accumulator.
A product with ``clear_accum`` needs no clear: its first instructions overwrite the accumulator.

Where a loop computes B, the transposed product is emitted, so that the computed operand is the one
in registers.

ptxas does not know that the registers are written asynchronously. So a fence of the accumulator's
registers precedes and follows the group (PTX ISA, "Asynchronous Warpgroup Level Matrix
Instructions").
"""

from __future__ import annotations

from tilelang.ir import expr as E, schedule as H, stmt as S
from tilelang.ir.atoms import Atom
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.simplify import simplify
from tilelang.target import operations
from tilelang.target.matrices import MmaAtom
from tilelang.transforms.layouts.descriptors import Descriptor
from tilelang.transforms.layouts.gemm_plan import swap_operands
from tilelang.transforms.lower.context import Lowering
from tilelang.transforms.lower.elements import loop, nest
from tilelang.transforms.lower.gemm_accumulator import Accumulator, accumulator_of, plan_of

WRITTEN_OUT = 32  # instructions up to which the loop over k is unrolled
STEPS = 4  # of k that are written out in longer ones
MANY = 128  # accumulators of a thread: with more there are no registers for anything else


def lower_gemm_wgmma(stmt: S.Gemm, ctx: Lowering) -> S.Stmt:
    """Thread IR of a product that warpgroups compute."""
    atom = plan_of(stmt).atom
    assert atom is not None
    accumulator = accumulator_of(stmt, ctx)
    batch = _Batch(stmt, ctx, atom, accumulator)
    issued = S.seq(
        accumulator.start(zeros=False),
        *batch.fence(),
        batch.instructions(),
        _unit(operations.WARPGROUP_COMMIT),
    )
    if stmt.asynchronous:
        return issued
    return S.seq(issued, *_wait_groups(0, [accumulator.registers]), accumulator.finish())


def lower_wait_products(stmt: H.WaitProducts, ctx: Lowering) -> S.Stmt:
    """Thread IR of a wait for products that were left open."""
    return S.seq(*_wait_groups(stmt.newer, [ctx.registers(region.buffer) for region in stmt.sums]))


def _wait_groups(newer: int, sums: list[Buffer]) -> list[S.Stmt]:
    """The wait for all groups but the ``newer`` last, after which ``sums`` are read."""
    touched = [_touch(E.AddressOf(registers, (E.const(0),), "rw")) for registers in sums]
    return [_unit(operations.WARPGROUP_WAIT, E.const(newer)), *touched]


class _Batch:
    """The instructions of one product."""

    def __init__(
        self, stmt: S.Gemm, ctx: Lowering, atom: MmaAtom, accumulator: Accumulator
    ) -> None:
        self.plan = plan = plan_of(stmt)
        self.a, self.b = (plan.b, plan.a) if plan.swapped else (plan.a, plan.b)
        self.stmt = swap_operands(stmt) if plan.swapped else stmt
        self.ctx, self.atom, self.accumulator = ctx, atom, accumulator

    def fence(self) -> list[S.Stmt]:
        """Order the registers that threads have written before the instructions."""
        registers = [self.accumulator.registers]
        if not isinstance(self.a, Descriptor):
            registers.append(self.ctx.registers(self.stmt.a.buffer))
        touched = [_touch(E.AddressOf(array, (E.const(0),), "rw")) for array in registers]
        return [*touched, _unit(operations.WARPGROUP_ARRIVE)]

    def instructions(self) -> S.Stmt:
        """All of them: along k, then tiles of rows, then of columns. A tile at a time where that is
        all that registers hold: the assembler loads each back once."""
        rows, columns, steps = self.plan.tiles
        i, j, k, outer = (self.ctx.fresh(name) for name in ("i", "j", "k", "ko"))
        inner, step = steps, E.as_expr(k)
        if rows * columns * steps > WRITTEN_OUT and isinstance(self.a, Descriptor):
            inner = next(count for count in range(STEPS, 0, -1) if steps % count == 0)
            step = outer * inner + k
        loops = [(k, inner), (i, rows), (j, columns)]
        if rows * columns * self.atom.c_registers > MANY:
            loops = [*loops[1:], *loops[:1]]
        body = nest(loops, self.instruction(i, j, step))
        return body if step is k else loop(outer, steps // inner, body, "serial")

    def instruction(self, i: E.Expr, j: E.Expr, step: E.Expr) -> S.Stmt:
        """One instruction."""
        stmt, plan, atom = self.stmt, self.plan, self.atom
        k, (down, across) = step * atom.k, plan.warps
        group = E.call(operations.WARP_UNIFORM, self.ctx.thread // atom.width)
        row, column = (group // across, group % across) if across > 1 else (group, E.const(0))
        first = E.AddressOf(
            self.accumulator.registers, ((i * plan.tiles[1] + j) * atom.c_registers,), "rw"
        )
        part = plan.n // across
        b, layout_attrs = self.operand("b", self.b, stmt.b, column * part, part, j * atom.n, k)
        if isinstance(self.a, Descriptor):
            part = plan.m // down
            share = row * part if down > 1 else E.const(0)
            a, more = self.operand("a", self.a, stmt.a, share, part, i * atom.m, k)
            layout_attrs |= more
        else:
            register = (i * plan.tiles[2] + step) * atom.a_registers
            a = (E.AddressOf(self.ctx.registers(stmt.a.buffer), (register,), "r"),)
        return S.do(
            operations.WGMMA_SS if isinstance(self.a, Descriptor) else operations.WGMMA_RS,
            first, *a, *b, self.adds(step), loc=stmt.loc, shape=atom.shape,
            a=str(atom.a), b=str(atom.b), c=str(atom.c), **layout_attrs,
        )  # fmt: skip

    def operand(
        self, name: str, described: object, region: Region, share: E.Expr, size: int,
        outer: E.Expr, k: E.Expr,
    ) -> tuple[tuple[E.Expr, ...], dict[str, int]]:  # fmt: skip
        """Where the operand of the warpgroup begins, at row or column ``share`` of the region,
        ``size`` of them; how far the instruction at (``outer``, ``k``) is from there; and
        attributes that describe its layout."""
        assert isinstance(described, Descriptor)
        if not described.k_inner and described.ends_within(size):
            share, outer = E.const(0), share + outer  # panels are counted from the whole
        low, zero = region.mins, E.const(0)
        down, along = (share, zero) if described.k_inner else (zero, share)
        address = E.AddressOf(region.buffer, (*low[:-2], low[-2] + down, low[-1] + along), "r")
        layout_attrs = {
            f"{name}_swizzle": described.swizzle,
            f"{name}_leading": described.leading,
            f"{name}_stride": described.stride,
            f"{name}_k_inner": described.k_inner,
        }
        return (address, described.offset(outer, k)), layout_attrs

    def adds(self, step: E.Expr) -> E.Expr:
        """Whether an instruction adds to the accumulator: the first step overwrites it where the
        product does."""
        clear = self.stmt.clear
        if isinstance(clear, E.Const) and not clear.value:
            return E.const(True)
        return simplify(E.binary("lor", step > 0, E.unary("lnot", clear)))


def _touch(registers: E.Expr) -> S.Stmt:
    return _unit(operations.WARPGROUP_FENCE, registers, E.const(0))


def _unit(atom: Atom, *args: E.Expr) -> S.Stmt:
    return S.do(atom, *args)
