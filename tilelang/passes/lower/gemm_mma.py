"""``Gemm`` by matrix instructions of warps (``mma.sync``).

Along k the product runs in steps of the instruction. The registers of the factors are doubled: the
loads of the next step are issued before the multiplications of this one. Up to four steps are
written out; longer products loop over groups of four. Where registers are scarce, the columns of a
step are taken in groups, and only those of one group are loaded ahead.

What a load is, the factors know (:mod:`tilelang.passes.lower.gemm_factors`,
:mod:`tilelang.passes.lower.gemm_runs`); the loop over k is the same for all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.passes.layouts.gemm_plan import (
    Operand,
    Registers,
    SharedLoad,
    SharedRuns,
    exchanged,
)
from tilelang.passes.lower.context import REGISTER, Lowering
from tilelang.passes.lower.elements import loop
from tilelang.passes.lower.gemm_factors import Factor, HeldFactor, LoadedFactor
from tilelang.passes.lower.gemm_fma import lower_gemm_fma
from tilelang.passes.lower.gemm_runs import RunFactor
from tilelang.passes.lower.gemm_sum import Sum, plan_of, sum_of
from tilelang.target import nvidia
from tilelang.target.matrices import MmaAtom

FACTORS: Mapping[type[Operand], type[Factor]] = MappingProxyType(
    {Registers: HeldFactor, SharedLoad: LoadedFactor, SharedRuns: RunFactor}
)
UNROLL = 4  # steps along k that are written out
CROWDED = 200  # registers of fragments and doubled factors from which columns are grouped
LEAST = 8  # multiplications that hide the loads of the next group


def lower_gemm(stmt: S.Gemm, ctx: Lowering) -> S.Stmt:
    """Thread IR of a product, as planned."""
    atom = plan_of(stmt).atom
    if atom is None:
        return lower_gemm_fma(stmt, ctx)
    total = sum_of(stmt, ctx, atom.c)
    factors = factors_of(stmt, atom, ctx)
    return S.seq(
        total.start(),
        *(S.Alloc(buffer=item) for factor in factors for item in factor.arrays),
        *(item for factor in factors for item in factor.load(E.const(0), 0)),
        *steps(total, factors),
        total.finish(),
    )


def factors_of(stmt: S.Gemm, atom: MmaAtom, ctx: Lowering) -> tuple[Factor, Factor]:
    """A and B of a product; B^T and A^T where these are multiplied instead."""
    plan = plan_of(stmt)
    a, b = plan.a, plan.b
    if plan.exchanged:
        stmt, a, b = exchanged(stmt), b, a
    left = FACTORS[type(a)](stmt.a, not stmt.trans_a, True, a, plan, atom, ctx, stmt.loc)
    right = FACTORS[type(b)](stmt.b, stmt.trans_b, False, b, plan, atom, ctx, stmt.loc)
    return left, replace(right, groups=_groups(left, right))


def _groups(a: Factor, b: Factor) -> int:
    """Groups of columns: as many as leave enough to multiply, where registers are scarce."""
    rows, columns, _ = a.plan.tiles
    if not b.loaded or b.per_load > 1:
        return 1
    loaded = sum(2 * f.tiles * f.register_count * f.region.dtype.bits for f in (a, b) if f.loaded)
    if a.ctx.fragments + loaded // REGISTER < CROWDED:
        return 1
    groups = 1
    while columns % (4 * groups) == 0 and rows * (columns // (2 * groups)) >= LEAST:
        groups *= 2
    return groups


def steps(
    total: Sum, factors: tuple[Factor, Factor], ahead: Sequence[S.Stmt] = ()
) -> Iterator[S.Stmt]:
    """Loads and multiplications of all steps but the loads of the first one.

    ``ahead`` is what has to be under way during the multiplications of the last step.
    """
    groups = factors[1].groups
    per_load = max(factor.per_load for factor in factors)
    count = total.plan.tiles[2] // per_load
    rounds = (count - 1) // UNROLL if per_load == 1 else 0

    def some(first: E.Expr, many: int, last: bool) -> Iterator[S.Stmt]:
        for number in range(many):
            load = first + number
            for group in range(1, groups):
                yield from factors[1].load(load, group % 2, group)
                yield multiply(total, factors, load, number % 2, group - 1)
            if last and number == many - 1:
                yield from ahead
            else:
                for factor in factors:
                    alternate = factor.left or groups == 1
                    yield from factor.load(load + 1, (number + 1) % 2 if alternate else 0)
            for step in range(per_load):
                yield multiply(total, factors, load * per_load + step, number % 2, groups - 1)

    if rounds:
        var = total.ctx.fresh("ko")
        body = S.seq(*some(var * UNROLL, UNROLL, False))
        # Registers of a fragment can only be chosen by constants.
        yield loop(var, rounds, body, "serial" if all(f.loaded for f in factors) else "unroll")
    yield from some(E.const(rounds * UNROLL), count - rounds * UNROLL, True)


def multiply(
    total: Sum, factors: tuple[Factor, Factor], step: E.Expr, parity: int, group: int = 0
) -> S.Stmt:
    """One step: every tile of the result, in the columns of ``group``, gets the product of its
    tiles of A and B."""
    plan, ctx, atom = total.plan, total.ctx, factors[0].atom
    rows, columns, _ = plan.tiles
    count = columns // factors[1].groups
    i, j = ctx.fresh("i"), ctx.fresh("j")
    column = j + group * count
    call = E.call(
        nvidia.MMA,
        E.AddressOf(total.registers, ((i * columns + column) * atom.c_registers,), "rw"),
        factors[0].address(i, step, parity),
        factors[1].address(j, step, parity if factors[1].groups == 1 else group % 2),
        dtype="void",
        shape=atom.shape,
        a=str(atom.a),
        b=str(atom.b),
        c=str(atom.c),
    )
    return loop(i, rows, loop(j, count, S.Eval(value=call, loc=total.stmt.loc)))
