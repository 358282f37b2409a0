"""One product lowered to Thread IR and interpreted, against numpy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from thread_races import simulate

from tilelang.interpret import values
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.facts import bounds_of
from tilelang.ir.hints import BufferHints
from tilelang.ir.visitor import Rewriter, rebuild
from tilelang.layout.layout import Layout
from tilelang.target import Context, parse_target
from tilelang.transforms.layouts.gemm_plan import GemmPlan, OperandStrategy, Registers, plan_gemm
from tilelang.transforms.lower.context import Group, Lowering
from tilelang.transforms.lower.gemm_mma import lower_gemm

INT = DType("int32")


@dataclass(frozen=True)
class Case:
    """A product and how it is run."""

    m: int
    n: int
    k: int
    dtype: str = "float16"
    out: str = "float32"
    trans_a: bool = False
    trans_b: bool = False
    policy: int = 0
    threads: int = 128
    scopes: str = "ss"  # of A and B: s(hared) or r(egisters)
    c_scope: str = "local.fragment"
    clear: str = "no"  # no, yes, expression
    arch: int = 80
    stages: int = 0  # leading dimension of shared factors
    lo: int = 0  # first thread of the group
    margin: tuple[int, int] = (0, 0)  # rows and columns before the region of shared factors
    layouts: bool = True  # whether shared factors get the layouts of the plan
    fragments: int = 0  # registers that fragments of the program take


def encode(array: Any, dtype: str) -> Any:
    """Storage elements of small integers."""
    kind = DType(dtype)
    held = np.asarray(array).astype(values.compute_dtype(kind))
    codes = values.encode(held, kind)
    if kind.packing > 1:
        codes = codes[..., 0::2] | (codes[..., 1::2] << np.uint8(4))
    return np.ascontiguousarray(codes.astype(np.uint8) if kind.packing > 1 else codes)


def decode(array: Any, dtype: str) -> Any:
    return np.asarray(values.decode(array, DType(dtype)))


class Physical(Rewriter):
    """Applies layouts of shared buffers, as the address pass does."""

    def __init__(self) -> None:
        self.known: dict[Buffer, Buffer] = {}

    def flat(self, buffer: Buffer) -> Buffer:
        layout = buffer.attrs.layout
        if layout is None:
            return buffer
        if buffer not in self.known:
            lead = prod(int(e) for e in buffer.shape[: -len(layout.shape)])
            self.known[buffer] = Buffer(
                buffer.name, Shape((lead * layout.size,)), buffer.dtype, buffer.storage,
                data=buffer.data,
            )  # fmt: skip
        return self.known[buffer]

    def buffer(self, buffer: Buffer) -> Buffer:
        return self.flat(buffer)

    def expr(self, expr: E.Expr) -> E.Expr:
        if isinstance(expr, (E.Load, E.AddressOf)) and expr.buffer.attrs.layout is not None:
            layout: Layout = expr.buffer.attrs.layout
            indices = [self.expr(index) for index in expr.indices]
            extra = len(indices) - len(layout.shape)
            lead: E.Expr = E.const(0)
            for extent, index in zip(expr.buffer.shape, indices[:extra]):
                lead = lead * extent + index
            place = (lead * layout.size + layout.address_of(indices[extra:]),)
            return type(expr)(self.flat(expr.buffer), place)
        return rebuild(expr, self.expr)

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        return stmt

    def _visit(self, stmt: S.Stmt) -> Any:
        if isinstance(stmt, S.Store) and stmt.buffer.attrs.layout is not None:
            place = self.expr(E.Load(stmt.buffer, stmt.indices))
            assert isinstance(place, E.Load)
            value = self.expr(stmt.value)
            return replace(stmt, buffer=place.buffer, indices=place.indices, value=value)
        return super()._visit(stmt)


class Build:
    """The kernel of a case."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.tx = E.Var("tx", INT)
        self.flag = E.Var("flag", INT)
        self.thread: E.Expr = self.tx - case.lo if case.lo else self.tx
        self.body: list[S.Stmt] = []
        self.arrays: dict[Buffer, Any] = {}
        rng = np.random.default_rng(case.m * 7 + case.n * 3 + case.k)
        low, high = (0, 4) if DType(case.dtype).is_uint else (-3, 4)
        self.a = rng.integers(low, high, (case.m, case.k))
        self.b = rng.integers(low, high, (case.k, case.n))
        self.c = rng.integers(0, 4, (case.m, case.n))
        self.plan: GemmPlan
        self.stmt: S.Gemm
        self.launch = self.make()

    def expected(self) -> Any:
        """What numpy says."""
        start = 0 if self.case.clear != "no" else self.c
        return self.a.astype(np.int64) @ self.b.astype(np.int64) + start

    def operand(self, name: str, shape: tuple[int, int], scope: str) -> Region:
        case = self.case
        dtype = DType(case.out if name == "c" else case.dtype)
        if scope == "local.fragment":
            return Buffer(name, Shape(shape), dtype, scope).whole()
        lead = (case.stages,) if case.stages and name != "c" else ()
        margin = case.margin if name != "c" else (0, 0)
        whole = (*lead, *(extent + more for extent, more in zip(shape, margin)))
        buffer = Buffer(name, Shape(whole), dtype, "shared")
        mins = (*(E.const(case.stages - 1) for _ in lead), *map(E.const, margin))
        return Region(buffer, mins, (*(1 for _ in lead), *shape))

    def make(self) -> S.Launch:
        case = self.case
        a = self.operand("a", (case.k, case.m) if case.trans_a else (case.m, case.k),
                         "local.fragment" if case.scopes[0] == "r" else "shared")  # fmt: skip
        b = self.operand("b", (case.n, case.k) if case.trans_b else (case.k, case.n),
                         "local.fragment" if case.scopes[1] == "r" else "shared")  # fmt: skip
        c = self.operand("c", (case.m, case.n), case.c_scope)
        clear = {"no": E.const(False), "yes": E.const(True), "expression": self.flag == 1}
        stmt = S.Gemm(a=a, b=b, c=c, trans_a=case.trans_a, trans_b=case.trans_b,
                      clear=clear[case.clear], policy=case.policy)  # fmt: skip
        own = "a" if case.arch == 90 else ""
        context = Context(parse_target(f"cuda -arch=sm_{case.arch}{own}"))
        plan = self.plan = plan_gemm(stmt, (case.lo, case.threads), context)
        a = self.held(a, plan.a)
        b = self.held(b, plan.b)
        c = self.held(c, plan.c)
        stmt = self.stmt = replace(stmt, a=a, b=b, c=c, plan=plan)
        draft = self.shell(S.Seq(stmts=()))
        group = Group(self.thread, case.threads, case.lo)
        ctx = Lowering(context, group, bounds_of(draft), fragments=case.fragments)
        self.ctx = ctx
        self.load(a, self.a.T if case.trans_a else self.a)
        self.load(b, self.b.T if case.trans_b else self.b)
        if case.clear == "no":
            self.load(c, self.c)
        else:
            self.body.append(S.Alloc(buffer=self.stored(c.buffer)))
        self.sync()
        self.body.append(lower_gemm(stmt, ctx))
        self.sync()
        self.store(c)
        inside = S.seq(*self.body)
        if case.lo:
            inside = S.If(cond=self.tx >= case.lo, then=inside)
        found = Physical().rewrite(self.shell(inside))
        assert isinstance(found, S.Launch)
        return found

    def shell(self, body: S.Stmt) -> S.Launch:
        axes = [E.Var(name, INT) for name in ("bx", "by", "bz", "ty", "tz")]
        return S.Launch(
            grid=(E.const(1),) * 3,
            block_vars=tuple(axes[:3]),
            thread_vars=(self.tx, *axes[3:]),
            threads=(self.case.threads + self.case.lo, 1, 1),
            body=body,
        )

    def held(self, region: Region, wanted: OperandStrategy) -> Region:
        attrs = BufferHints()
        if region.buffer.storage == "local.fragment":
            assert isinstance(wanted, Registers)
            attrs = BufferHints(register_layout=wanted.spread)
        elif not isinstance(wanted, Registers) and wanted.layout is not None and self.case.layouts:
            attrs = BufferHints(layout=wanted.layout)
        buffer = replace(region.buffer, attrs=attrs)
        return replace(region, buffer=buffer)

    def stored(self, buffer: Buffer) -> Buffer:
        return self.ctx.registers(buffer) if buffer.storage == "local.fragment" else buffer

    def sync(self) -> None:
        args = (1, self.case.threads) if self.case.lo else ()
        self.body.append(S.Eval(value=E.call("sync_threads", *args, dtype="void")))

    def loop(self, count: int, body: Any) -> S.Stmt:
        var = E.Var("p", INT)
        return S.For(var=var, start=E.const(0), stop=E.const(count), step=E.const(1),
                     body=body(var))  # fmt: skip

    def load(self, region: Region, matrix: Any) -> None:
        """Fill an operand from global memory."""
        buffer = region.buffer
        source = Buffer("g" + buffer.name, Shape(matrix.shape), buffer.dtype)
        self.arrays[source] = encode(matrix, str(buffer.dtype))
        self.body.append(S.Alloc(buffer=self.stored(buffer)))
        self.body.append(self.walk(region, lambda index, load, store: store(E.Load(source, index))))

    def store(self, region: Region) -> None:
        """The result to global memory."""
        target = self.target = Buffer("out", Shape((self.case.m, self.case.n)), region.dtype)
        self.arrays[target] = encode(np.zeros((self.case.m, self.case.n), int), self.case.out)
        self.body.append(
            self.walk(
                region, lambda index, load, store: S.Store(buffer=target, indices=index, value=load)
            )
        )

    def walk(self, region: Region, visit: Any) -> S.Stmt:
        buffer, thread = region.buffer, self.thread
        if buffer.storage == "local.fragment":
            held, registers = buffer.attrs.register_layout, self.stored(buffer)

            def registered(register: E.Expr) -> S.Stmt:
                index = held.index_of(thread, register)
                body = visit(index, E.Load(registers, (register,)), lambda value: S.Store(
                    buffer=registers, indices=(register,), value=value))  # fmt: skip
                valid = held.valid(thread, register)
                return body if valid is None else S.If(cond=valid, then=body)

            return self.loop(held.register_count, registered)
        rows, columns = (int(extent) for extent in region.extents[-2:])
        packing = buffer.dtype.packing  # one thread writes a whole byte

        def dealt(p: E.Expr) -> S.Stmt:
            number = p * self.case.threads + thread
            parts = []
            for half in range(packing):
                linear = number * packing + half
                index = (linear // columns, linear % columns)
                low = region.mins
                at = (*low[:-2], low[-2] + index[0], low[-1] + index[1])
                parts.append(visit(index, E.Load(buffer, at), lambda value, at=at: S.Store(
                    buffer=buffer, indices=at, value=value)))  # fmt: skip
            return S.If(cond=number * packing < rows * columns, then=S.seq(*parts))

        return self.loop(-(-rows * columns // packing // self.case.threads), dealt)

    def run(self) -> Any:
        simulate(self.launch, self.arrays, {self.flag: 1})
        return decode(self.arrays[self.target], self.case.out)


def check(case: Case) -> GemmPlan:
    """Run ``case`` and compare with numpy; the plan is returned."""
    build = Build(case)
    found, wanted = build.run(), build.expected()
    assert (found == wanted).all(), f"{case}: {np.argwhere(found != wanted)[:5]}"
    return build.plan
