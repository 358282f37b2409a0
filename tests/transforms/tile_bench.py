"""Runs the lowering of one tile operation on tiles that the test fills and reads from outside.

Fragments enter and leave through tables computed with numpy, register by register, so that a
lowering cannot hide a wrong idea of where an element is. Reading a copy that differs fails.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
from contexts import SM_80
from thread_races import simulate

from tilelang.ir import expr as E, floats, stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.elementwise import loop_of
from tilelang.ir.hints import BufferHints
from tilelang.ir.legal import check
from tilelang.layout.register_layout import Mode, RegisterLayout
from tilelang.transforms.analysis.loops import static_extents
from tilelang.transforms.layouts.thread_mapping import known_mapping
from tilelang.transforms.lower.context import Group, Lowering
from tilelang.transforms.lower.parallel import lower_parallel

INT = DType("int32")
Array = Any


def mma_rows(shape: tuple[int, int], warps: tuple[int, int]) -> RegisterLayout:
    """The accumulator of m16n8 instructions over a grid of warps."""
    (m, n), (wm, wn) = shape, warps
    rows = (Mode(m // (16 * wm), "register", n // (8 * wn) * 4), Mode(wm, "thread", 32),
            Mode(2, "register", 2), Mode(8, "thread", 4))  # fmt: skip
    columns = (Mode(n // (8 * wn), "register", 4), Mode(wn, "thread", 32 * wm),
               Mode(4, "thread", 1), Mode(2, "register", 1))  # fmt: skip
    return RegisterLayout(shape, (rows, columns), (), 32 * wm * wn)


def lower_loop(stmt: S.Stmt, ctx: Lowering) -> S.Stmt:
    """Thread IR of an operation that is a loop over elements, whose fragments have layouts."""
    loop = loop_of(stmt)
    assert loop is not None
    spread = None
    if static_extents(loop) is not None:
        spread = known_mapping(loop, ctx.threads, ctx.bounds)
    return lower_parallel(loop, spread, ctx)


def encode(values: Array, kind: str) -> Array:
    """Numbers as storage elements."""
    dtype = DType(kind)
    if dtype.is_float and dtype.bits < 32 and dtype != "float16":
        return floats.encode(np.asarray(values, np.float32), dtype)
    return np.asarray(values).astype(dtype.as_numpy())


def decode(codes: Array, kind: str) -> Array:
    """Storage elements as numbers."""
    dtype = DType(kind)
    if dtype == "bfloat16":
        return (codes.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype.is_float and dtype.bits < 16:
        return floats.decode(codes, dtype)
    return codes


class Bench:
    """A block of threads with tiles; ``group`` (first, count) are the threads that work."""

    def __init__(self, threads: int, group: tuple[int, int] | None = None) -> None:
        self.threads = threads
        lo, count = group or (0, threads)
        self.tx = E.Var("tx", INT)
        barrier = 0 if group is None else 1
        self.mine = Group(self.tx - lo if lo else self.tx, count, lo, barrier)
        self.ctx = Lowering(SM_80, self.mine, Bounds())
        self.arrays: dict[Buffer, Array] = {}
        self.before: list[S.Stmt] = []
        self.after: list[S.Stmt] = []
        self.images: dict[str, tuple[Buffer, RegisterLayout]] = {}
        self.tiles: dict[str, Buffer] = {}
        self.alike: set[str] = set()
        self.out = io.StringIO()

    # -- tiles --------------------------------------------------------------------------------
    def _param(self, name: str, array: Array, kind: str) -> Buffer:
        buffer = Buffer(name, Shape(array.shape), DType(kind), "global")
        self.arrays[buffer] = array
        return buffer

    def fragment(
        self, name: str, values: Array, kind: str, dist: RegisterLayout, **attrs: object
    ) -> Buffer:
        """A fragment with ``values``; every copy gets them."""
        assert dist.threads == self.mine.threads
        made = Buffer(
            name, Shape(dist.shape), DType(kind), "local.fragment",
            attrs=BufferHints(register_layout=dist, **attrs),
        )  # fmt: skip
        junk = np.full((dist.threads, dist.register_count), 101)  # where there is no element
        image = encode(junk, kind)
        owners, slots = dist.owner_table(), dist.register_table()
        codes = encode(np.asarray(values), kind)
        for copy in range(owners.shape[-1]):
            image[owners[..., copy], slots] = codes
        param = self._param(f"{name}_image", image, kind)
        registers = self.ctx.registers(made)
        self.before.append(S.Alloc(buffer=registers))
        self.before.append(self._per_slot(dist, registers, param, True))
        self.after.append(self._per_slot(dist, registers, param, False))
        self.images[name] = (param, dist)
        return made

    def _per_slot(
        self, dist: RegisterLayout, registers: Buffer, param: Buffer, load: bool
    ) -> S.Stmt:
        s = E.Var("s", INT)
        outside = (self.mine.thread, s)
        body = (
            S.Store(buffer=registers, indices=(s,), value=E.Load(param, outside))
            if load
            else S.Store(buffer=param, indices=outside, value=E.Load(registers, (s,)))
        )
        return S.For(
            var=s, start=E.const(0), stop=E.const(dist.register_count), step=E.const(1), body=body
        )

    def shared(self, name: str, values: Array, kind: str) -> Buffer:
        """A shared tile."""
        values = np.asarray(values)
        return self._copied(Buffer(name, Shape(values.shape), DType(kind), "shared"), values, False)

    def private(self, name: str, values: Array, kind: str) -> Buffer:
        """A tile per thread; the first dimension of ``values`` is the thread."""
        made = Buffer(name, Shape(values.shape[1:]), DType(kind), "local")
        return self._copied(made, values, True)

    def tile(
        self, memory: str, name: str, values: Array, kind: str, dist: RegisterLayout | None = None
    ) -> Buffer:
        """A tile in some memory; of private ones, each thread has the same."""
        if memory == "fragment":
            assert dist is not None
            return self.fragment(name, values, kind, dist)
        if memory == "private":
            self.alike.add(name)
            return self.private(name, np.stack([values] * self.mine.threads), kind)
        made: Buffer = getattr(self, memory)(name, values, kind)
        return made

    def _copied(self, made: Buffer, values: Array, private: bool) -> Buffer:
        name, kind = made.name, str(made.dtype)
        param = self._param(f"{name}_data", encode(values, kind).copy(), kind)
        count, team = int(np.prod(made.shape)), 1 if private else self.mine.threads
        p = E.Var("p", INT)
        position = p if private else p * team + self.mine.thread
        at, rest = [], position
        for extent in reversed(made.shape):
            at.insert(0, rest % extent)
            rest = rest // extent
        far = (self.mine.thread, *at) if private else tuple(at)
        loads: S.Stmt = S.Store(buffer=made, indices=tuple(at), value=E.Load(param, far))
        stores: S.Stmt = S.Store(buffer=param, indices=far, value=E.Load(made, tuple(at)))
        loads, stores = (
            S.For(
                var=p, start=E.const(0), stop=E.const(-(-count // team)), step=E.const(1),
                body=S.If(cond=position < count, then=body),
            )
            for body in (loads, stores)
        )  # fmt: skip
        self.before += [S.Alloc(buffer=made), loads]
        self.after.append(stores)
        self.tiles[name] = param
        return made

    def memory(self, name: str, values: Array, kind: str) -> Buffer:
        """A global tensor."""
        param = self._param(name, encode(np.asarray(values), kind).copy(), kind)
        self.tiles[name] = param
        return param

    # -- running ------------------------------------------------------------------------------
    def run(
        self, *lowerings: Callable[[Lowering], S.Stmt], safe_memory: bool = False, times: int = 1,
    ) -> None:  # fmt: skip
        """Execute what the lowerings give, one after the other with barriers between.

        Args:
            safe_memory: apply the out-of-bounds rule to plain accesses of global memory.
            times: how often each one runs in a loop without any barrier of its own.
        """
        body: list[S.Stmt] = []
        for lowering in lowerings:
            made = lowering(self.ctx)
            rooms = [S.Alloc(buffer=room) for room in self.ctx.workspaces]
            self.ctx.workspaces.clear()
            if times > 1:
                made = S.For(
                    var=E.Var("again", INT), start=E.const(0), stop=E.const(times),
                    step=E.const(1), body=made,
                )  # fmt: skip
            body += [self.ctx.barrier(), S.seq(*rooms, made)]
        whole = S.seq(*self.before, *body, self.ctx.barrier(), *self.after)
        if self.mine.barrier:
            whole = S.If(
                cond=E.binary("land", self.tx >= self.mine.lo,
                              self.tx < self.mine.lo + self.mine.threads),
                then=whole,
            )  # fmt: skip
        axes = [E.Var(name, INT) for name in ("bx", "by", "bz", "ty", "tz")]
        launch = S.Launch(
            grid=(E.const(1),) * 3, block_vars=tuple(axes[:3]),
            thread_vars=(self.tx, *axes[3:]), threads=(self.threads, 1, 1), body=whole,
        )  # fmt: skip
        check(S.PrimFunc("kernel", tuple(self.arrays), launch), "thread")
        simulate(launch, self.arrays, safe_memory=safe_memory, stdout=self.out)

    def value(self, name: str) -> Array:
        """The tile after the run; all copies must agree."""
        if name in self.tiles:
            param = self.tiles[name]
            found = decode(self.arrays[param], str(param.dtype))
            if name in self.alike:
                assert (found == found[:1]).all(), f"copies of `{name}` differ"
                return found[0]
            return found
        param, dist = self.images[name]
        image = self.arrays[param]
        found = image[dist.owner_table(), dist.register_table()[..., None]]
        same = (found == found[..., :1]) | ((found != found) & (found[..., :1] != found[..., :1]))
        assert same.all(), f"copies of `{name}` differ"
        return decode(found[..., 0], str(param.dtype))


def part(buffer: Buffer, mins: tuple[int, ...], extents: tuple[int, ...]) -> Region:
    """A region at constant indices."""
    return Region(buffer, tuple(E.const(low) for low in mins), extents)
