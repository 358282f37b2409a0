"""``Gemm`` by simdgroup matrices (Metal), which are opaque objects in the registers of a simdgroup.

A simdgroup matrix is loaded from memory and stored to memory as a whole; operands in shared memory
are loaded directly. Which thread holds which element is not documented. So values of a fragment go
through a buffer of one matrix in shared memory, one per simdgroup: every thread stores its
elements, and the simdgroup loads the matrix; results take the way back. Other operations see a
fragment with an ordinary layout. Where the element layout is assumed to be known, each thread
accesses its own elements of the matrix.

A loop that uses a fragment only as the accumulator of a product keeps it in matrices, which are
filled before the loop and read after it (:func:`loop_accumulator`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.atoms import Atom
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import BufferHints
from tilelang.layout.layout import Layout
from tilelang.layout.register_layout import RegisterLayout
from tilelang.records import dataclass
from tilelang.target import operations
from tilelang.target.matrices import BLOCK, PER_LANE, MmaAtom
from tilelang.transforms.layouts.gemm_plan import GemmPlan, Registers, SharedLoad
from tilelang.transforms.lower.context import Lowering
from tilelang.transforms.lower.elements import array, loop
from tilelang.transforms.lower.gemm_accumulator import Accumulator, accumulator_of, plan_of
from tilelang.transforms.lower.gemm_operands import RegisterOperand, SharedOperand

MATRICES = BufferHints(is_generated=True, matrices=True)
SHAPE = f"m{BLOCK}n{BLOCK}k{BLOCK}"
WRITTEN_OUT = 4  # steps along k up to which the loop is unrolled


def lower_gemm_simdgroup(stmt: S.Gemm, ctx: Lowering) -> S.Stmt:
    """Thread IR of a product by matrices."""
    product = SimdgroupProduct(stmt, ctx)
    sums_in_loop = ctx.matrices.get(stmt.c.buffer.data)
    if sums_in_loop is not None:
        clear = (
            S.If(cond=stmt.clear, then=product.fill(sums_in_loop)) if _may_clear(stmt) else S.seq()
        )
        return S.seq(clear, product.multiply(sums_in_loop))
    sums = product.array("sums", product.atom.c, product.rows * product.columns)
    return S.seq(
        S.Alloc(buffer=sums), product.enter(sums), product.multiply(sums), product.leave(sums)
    )


def loop_accumulator(loop_: S.For) -> S.Gemm | None:
    """The product whose sums nothing else in a loop touches, if there is one.

    The loop has at least one iteration, and where the product clears its sums it does so in the
    first one.
    """
    extents = (loop_.start, loop_.stop)
    if not all(isinstance(end, E.Const) for end in extents) or int(loop_.start) >= int(loop_.stop):
        return None
    for stmt in S.find(loop_.body, S.Gemm):
        plan = plan_of(stmt)
        if not (plan.atom is not None and plan.atom.opaque) or not isinstance(plan.c, Registers):
            continue
        if _may_clear(stmt) and stmt.clear is not loop_.var.equal(loop_.start):
            continue
        data, inside = stmt.c.buffer.data, S.walk(loop_.body)
        users = (s for s in inside if any(a.data is data for a in effects.accesses(s)))
        if all(user is stmt for user in users):
            return stmt
    return None


def _may_clear(stmt: S.Gemm) -> bool:
    return not isinstance(stmt.clear, E.Const) or bool(stmt.clear.value)


@dataclass(frozen=True)
class SimdgroupProduct:
    """One product of the threads of ``ctx``."""

    stmt: S.Gemm
    ctx: Lowering

    @property
    def plan(self) -> GemmPlan:
        """The plan by which it is computed."""
        return plan_of(self.stmt)

    @property
    def atom(self) -> MmaAtom:
        """The matrices."""
        assert self.plan.atom is not None
        return self.plan.atom

    @property
    def rows(self) -> int:
        """Matrices of a simdgroup along the rows of the result."""
        return self.plan.tiles[0]

    @property
    def columns(self) -> int:
        """Matrices of a simdgroup along the columns."""
        return self.plan.tiles[1]

    @cached_property
    def accumulator(self) -> Accumulator:
        """The registers that the sums are brought from and to."""
        return accumulator_of(self.stmt, self.ctx)

    # -- matrices ---------------------------------------------------------------------------------
    @staticmethod
    def array(name: str, kind: DType, count: int) -> Buffer:
        """Matrices of a simdgroup; each thread has its share of them."""
        return Buffer(name, Shape((count * PER_LANE,)), kind, "local", attrs=MATRICES)

    def fill(self, sums: Buffer) -> S.Stmt:
        """Zeros."""
        var = self.ctx.fresh("t")
        return loop(
            var, self.rows * self.columns, _call(operations.MATRIX_FILL, _matrix(sums, var, "w"))
        )

    def enter(self, sums: Buffer, in_registers: bool = False) -> S.Stmt:
        """The sums as matrices: zeros where the product clears them, what is in C otherwise; where
        they are ``in_registers`` in a loop whose first iteration clears them, nothing."""
        clear = self.stmt.clear
        if (in_registers and _may_clear(self.stmt)) or (isinstance(clear, E.Const) and clear.value):
            own = self.accumulator.own
            registers = S.seq() if own else S.Alloc(buffer=self.accumulator.registers)
            return S.seq(registers, S.seq() if in_registers else self.fill(sums))
        var, source = self.ctx.fresh("t"), self.accumulator.registers
        body = self._in(self.atom.c, sums, var, lambda at: E.Load(source, (var * PER_LANE + at,)))
        return S.seq(self.accumulator.start(), loop(var, self.rows * self.columns, body))

    def leave(self, sums: Buffer) -> S.Stmt:
        """C receives what the matrices hold."""
        var, at = self.ctx.fresh("t"), self.ctx.fresh("s")
        registers, slot = self.accumulator.registers, var * PER_LANE + at
        matrix = _matrix(sums, var, "r")
        if self.atom.known:
            elements = array("elements", self.atom.c, PER_LANE)
            fill = S.Store(buffer=registers, indices=(slot,), value=E.Load(elements, (at,)))
            take = _call(operations.MATRIX_TAKE, _start(elements, "w"), matrix)
            body = S.seq(S.Alloc(buffer=elements), take, loop(at, PER_LANE, fill))
        else:
            scratch = self._scratch(self.atom.c)
            value = E.Load(scratch, (self._base + self._offset(at),))
            fetched = S.Store(buffer=registers, indices=(slot,), value=value)
            target = E.AddressOf(scratch, (self._base,), "w")
            store = _call(operations.MATRIX_STORE, target, matrix, E.const(BLOCK))
            body = S.seq(store, _barrier(), loop(at, PER_LANE, fetched), _barrier())
        return S.seq(loop(var, self.rows * self.columns, body), self.accumulator.finish())

    def multiply(self, sums: Buffer) -> S.Stmt:
        """Along k: matrices of A for all rows, then those of B one after the other."""
        a = self.array("a_matrix", self.stmt.a.dtype, self.rows)
        b = self.array("b_matrix", self.stmt.b.dtype, 1)
        i, j, step = (self.ctx.fresh(name) for name in ("i", "j", "ko"))
        product = _call(
            operations.MATRIX_MULTIPLY, _matrix(sums, i * self.columns + j, "rw"),
            _matrix(a, i, "r"), _matrix(b, E.const(0), "r"), a=str(a.dtype),
        )  # fmt: skip
        row = self.ctx.fresh("i")
        body = S.seq(
            loop(row, self.rows, self._load(True, a, row, row, step)),
            loop(j, self.columns, S.seq(self._load(False, b, E.const(0), j, step),
                                        loop(i, self.rows, product))),
        )  # fmt: skip
        steps = self.plan.tiles[2]
        elements = any(isinstance(operand, Registers) for operand in (self.plan.a, self.plan.b))
        kind = "unroll" if steps <= WRITTEN_OUT or elements else "serial"
        return S.seq(S.Alloc(buffer=a), S.Alloc(buffer=b), loop(step, steps, body, kind))

    # -- operands ---------------------------------------------------------------------------------
    def _load(self, is_a: bool, into: Buffer, matrix: E.Expr, tile: E.Expr, step: E.Expr) -> S.Stmt:
        """One matrix of an operand: the ``tile``-th of the simdgroup, at one step along k."""
        stmt, plan = self.stmt, self.plan
        region, strategy = (stmt.a, plan.a) if is_a else (stmt.b, plan.b)
        k_inner = not stmt.trans_a if is_a else stmt.trans_b
        if isinstance(strategy, Registers):
            operand = RegisterOperand(region, k_inner, is_a, strategy, plan, self.ctx, stmt.loc)
            first = operand.address(tile, step, 0)
            assert isinstance(first, E.AddressOf)
            start, registers = first.indices[0], first.buffer
            return self._in(
                region.dtype, into, matrix, lambda at: E.Load(registers, (E.as_expr(start + at),))
            )
        shared = SharedOperand(region, k_inner, is_a, SharedLoad(), plan, self.ctx, stmt.loc)
        outer, k = tile * BLOCK, step * BLOCK
        pitch = row_pitch(region.buffer)
        if pitch:
            return S.do(
                operations.MATRIX_LOAD, _matrix(into, matrix, "w"),
                E.AddressOf(*shared.at(outer, k), "r"), E.const(pitch),
                shape=SHAPE, transposed=k_inner != is_a,
            )  # fmt: skip

        def element(at: E.Expr) -> E.Expr:
            row, column = self._map.index_of(self._lane, at)
            pair = (row, column) if is_a else (column, row)
            return E.Load(*shared.at(outer + pair[0], k + pair[1]))

        return self._in(region.dtype, into, matrix, element)

    # -- rooms ------------------------------------------------------------------------------------
    @property
    def _lane(self) -> E.Expr:
        return self.ctx.thread % self.ctx.warp

    @property
    def _map(self) -> RegisterLayout:
        return self.atom.c_layout

    @property
    def _base(self) -> E.Expr:
        """The start of the buffer of the simdgroup."""
        return self.ctx.thread // self.ctx.warp * (BLOCK * BLOCK)

    def _scratch(self, kind: DType) -> Buffer:
        """A matrix in shared memory for each simdgroup."""
        name = f"room_{kind}"
        count = self.ctx.threads // self.ctx.warp * BLOCK * BLOCK
        known = [buffer for buffer in self.ctx.workspaces if buffer.name == name]
        return known[0] if known else self.ctx.workspace(name, kind, count)

    def _offset(self, at: E.Expr) -> E.Expr:
        """The address of a register of the thread in a buffer."""
        row, column = self._map.index_of(self._lane, at)
        return E.as_expr(row * BLOCK + column)

    def _in(
        self, kind: DType, into: Buffer, number: E.Expr, value: Callable[[E.Expr], E.Expr]
    ) -> S.Stmt:
        """A matrix of what ``value`` gives for each register of the thread."""
        at = self.ctx.fresh("s")
        element = value(at)
        if self.atom.known:
            elements = array("elements", kind, PER_LANE)
            fill = S.Store(buffer=elements, indices=(at,), value=element)
            give = _call(operations.MATRIX_GIVE, _matrix(into, number, "w"), _start(elements, "r"))
            return S.seq(S.Alloc(buffer=elements), loop(at, PER_LANE, fill), give)
        scratch = self._scratch(kind)
        store = S.Store(buffer=scratch, indices=(self._base + self._offset(at),), value=element)
        source = E.AddressOf(scratch, (self._base,), "r")
        load = _call(operations.MATRIX_LOAD, _matrix(into, number, "w"), source, E.const(BLOCK))
        return S.seq(loop(at, PER_LANE, store), _barrier(), load, _barrier())


def row_pitch(buffer: Buffer) -> int:
    """The row stride of a shared matrix in elements; 0 where it is not constant."""
    layout = buffer.attrs.layout
    if not isinstance(layout, Layout):
        strides = buffer.stride_list()
        return int(strides[-2]) if isinstance(strides[-2], int) and buffer.has_unit_stride else 0
    addresses = layout.addresses()
    if addresses.shape != tuple(buffer.shape) or min(addresses.shape[-2:]) < BLOCK:
        return 0
    down, along = np.diff(addresses, axis=-2), np.diff(addresses, axis=-1)
    pitch = int(down.flat[0])
    return pitch if (down == pitch).all() and (along == 1).all() and pitch > 0 else 0


def _matrix(array: Buffer, number: E.Expr, access: str) -> E.Expr:
    return E.AddressOf(array, (E.as_expr(number * PER_LANE),), access)


def _call(atom: Atom, *args: E.Expr, **attrs: Any) -> S.Stmt:
    return S.do(atom, *args, shape=SHAPE, **attrs)


def _start(elements: Buffer, access: str) -> E.Expr:
    return E.AddressOf(elements, (E.const(0),), access)


def _barrier() -> S.Stmt:
    return S.do("sync_warp")
