"""``Gemm`` with operands in registers: matrix instructions of warps (``mma.sync``, MFMA), or scalar
multiplications of each thread.

The loop over k advances by the k of the instruction. Operands are double-buffered in registers: the
loads of the next step are issued before the multiplications of this one. Up to four steps are
unrolled; longer products loop over groups of four. Where registers are scarce, the columns of a
step are divided into groups, and only one group is loaded ahead.

The loop over k is the same for all operands. How they are loaded is in
:mod:`tilelang.transforms.lower.gemm_operands`, :mod:`tilelang.transforms.lower.gemm_k_permuted` and
:mod:`tilelang.transforms.lower.gemm_fma`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from tilelang.ir import expr as E, stmt as S
from tilelang.target.instruction_table import ROWS
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.layouts import gemm_plan
from tilelang.transforms.lower.context import REGISTER, Lowering
from tilelang.transforms.lower.elements import first_copy, guarded, loop
from tilelang.transforms.lower.gemm_accumulator import Accumulator, accumulator_of, plan_of
from tilelang.transforms.lower.gemm_fma import ElementOperand, multiply_elements
from tilelang.transforms.lower.gemm_k_permuted import PermutedOperand
from tilelang.transforms.lower.gemm_operands import Operand, RegisterOperand, SharedOperand
from tilelang.transforms.lower.gemm_simdgroup import lower_gemm_simdgroup
from tilelang.transforms.lower.gemm_wgmma import lower_gemm_wgmma

OPERANDS: Mapping[type[gemm_plan.OperandStrategy], type[Operand]] = MappingProxyType(
    {
        gemm_plan.Registers: RegisterOperand,
        gemm_plan.SharedLoad: SharedOperand,
        gemm_plan.SharedRuns: PermutedOperand,
        gemm_plan.SharedElements: ElementOperand,
    }
)
UNROLL = 4  # steps along k that are written out
CROWDED = 200  # registers of fragments and doubled operands from which columns are grouped
LEAST = 8  # multiplications that hide the loads of the next group


def lower_gemm(stmt: S.Gemm, ctx: Lowering) -> S.Stmt:
    """Thread IR of a product, as planned.

    Threads that have no part of the result compute that of others once more, if that stays in
    registers. In memory, where some would add to what others have stored, they do nothing.
    """
    plan = plan_of(stmt)
    if plan.uses_wgmma:
        return lower_gemm_wgmma(stmt, ctx)
    opaque = plan.atom is not None and plan.atom.opaque
    product = (lower_gemm_simdgroup if opaque else _lower_loads)(stmt, ctx)
    shared = stmt.c.buffer.storage != FRAGMENT
    return guarded(first_copy(plan.sum, ctx.group.thread) if shared else (), product)


def _lower_loads(stmt: S.Gemm, ctx: Lowering) -> S.Stmt:
    """Loads of operands, step by step, and what is multiplied between them."""
    accumulator = accumulator_of(stmt, ctx)
    operands = operands_of(stmt, ctx)
    first = [operand for operand in operands if operand.doubled]
    return S.seq(
        accumulator.start(),
        *(S.Alloc(buffer=node) for operand in operands for node in operand.arrays),
        *(node for operand in first for node in operand.load(E.const(0), 0)),
        *steps(accumulator, operands),
        accumulator.finish(),
    )


def operands_of(stmt: S.Gemm, ctx: Lowering) -> tuple[Operand, Operand]:
    """A and B of a product; B^T and A^T where these are multiplied instead."""
    plan = plan_of(stmt)
    a, b = plan.a, plan.b
    if plan.swapped:
        stmt, a, b = gemm_plan.swap_operands(stmt), b, a
    a_operand = OPERANDS[type(a)](stmt.a, not stmt.trans_a, True, a, plan, ctx, stmt.loc)
    right = OPERANDS[type(b)](stmt.b, stmt.trans_b, False, b, plan, ctx, stmt.loc)
    return a_operand, replace(right, groups=_groups(a_operand, right))


def _groups(a: Operand, b: Operand) -> int:
    """Groups of columns: as many as leave enough to multiply, where registers are scarce."""
    rows, columns, _ = a.plan.tiles
    if not (b.loaded and b.doubled) or b.per_load > 1:
        return 1
    loaded = sum(2 * f.tiles * f.register_count * f.region.dtype.bits for f in (a, b) if f.loaded)
    if a.ctx.fragments + loaded // REGISTER < CROWDED:
        return 1
    groups = 1
    while (
        columns % (4 * groups) == 0
        and columns // (2 * groups) % a.plan.interleave == 0
        and rows * (columns // (2 * groups)) >= LEAST
    ):
        groups *= 2
    return groups


def steps(
    accumulator: Accumulator, operands: tuple[Operand, Operand], ahead: Sequence[S.Stmt] = ()
) -> Iterator[S.Stmt]:
    """Loads and multiplications of all steps but the loads of the first one.

    ``ahead`` is what has to be in flight during the multiplications of the last step.
    """
    if not all(operand.doubled for operand in operands):
        yield emit_loop(accumulator, operands)
        return
    groups = operands[1].groups
    per_load = max(operand.per_load for operand in operands)
    count = accumulator.plan.tiles[2] // per_load
    rounds = (count - 1) // UNROLL if per_load == 1 else 0

    def loads(first: E.Expr, count: int, last: bool) -> Iterator[S.Stmt]:
        for number in range(count):
            load = first + number
            for group in range(1, groups):
                yield from operands[1].load(load, group % 2, group)
                yield multiply(accumulator, operands, load, number % 2, group - 1)
            if last and number == count - 1:
                yield from ahead
            else:
                for operand in operands:
                    alternate = operand.is_a or groups == 1
                    yield from operand.load(load + 1, (number + 1) % 2 if alternate else 0)
            for step in range(per_load):
                yield multiply(
                    accumulator, operands, load * per_load + step, number % 2, groups - 1
                )

    if rounds:
        var = accumulator.ctx.fresh("ko")
        body = S.seq(*loads(var * UNROLL, UNROLL, False))
        # Registers of a fragment can only be chosen by constants.
        yield loop(var, rounds, body, "serial" if all(f.loaded for f in operands) else "unroll")
    yield from loads(E.const(rounds * UNROLL), count - rounds * UNROLL, True)


def emit_loop(accumulator: Accumulator, operands: tuple[Operand, Operand]) -> S.Stmt:
    """A loop in which each step is loaded and multiplied."""
    var = accumulator.ctx.fresh("k")
    loads = [stmt for operand in operands for stmt in operand.load(var, 0)]
    step = S.seq(*loads, multiply(accumulator, operands, var, 0))
    return loop(var, accumulator.plan.tiles[2], step, "serial")


def multiply(
    accumulator: Accumulator, operands: tuple[Operand, Operand], step: E.Expr, parity: int,
    group: int = 0,
) -> S.Stmt:  # fmt: skip
    """One step: every tile of the result, in the columns of ``group``, gets the product of its
    tiles of A and B."""
    a, b = operands
    if isinstance(a, ElementOperand) and isinstance(b, ElementOperand):
        return multiply_elements(accumulator, (a, b))
    plan, ctx, atom = accumulator.plan, accumulator.ctx, a.atom
    rows, columns, _ = plan.tiles
    count = columns // operands[1].groups
    i, j = ctx.fresh("i"), ctx.fresh("j")
    column = j + group * count
    product = S.do(
        ROWS[atom.row],
        E.AddressOf(accumulator.registers, ((i * columns + column) * atom.c_registers,), "rw"),
        operands[0].address(i, step, parity),
        operands[1].address(j, step, parity if operands[1].groups == 1 else group % 2),
        loc=accumulator.stmt.loc,
        shape=atom.shape,
        a=str(atom.a),
        b=str(atom.b),
        c=str(atom.c),
    )
    return loop(i, rows, loop(j, count, product))
