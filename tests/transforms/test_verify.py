"""Finished programs are looked at once more: planted defects of registers and views are found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from gemm_program import gemm_program
from tensor_types import F16, F32, I32

import tilelang.language as T
from tilelang.compiler import lower
from tilelang.errors import InternalError, TileIndexError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import BufferHints
from tilelang.ir.indices import displaced
from tilelang.ir.visitor import Rewriter, rebuild
from tilelang.layout import make_swizzled_layout
from tilelang.layout.register_layout import RegisterLayout
from tilelang.options import Options
from tilelang.target import Context, parse_target
from tilelang.target.nvidia import ATOMS
from tilelang.transforms.layouts import storage
from tilelang.transforms.verify.bounds import undecided, verify_bounds

TARGETS = [parse_target("cuda -arch=sm_80"), parse_target("cuda -arch=sm_90a")]
CPU = parse_target("cpu")


product = gemm_program(128, 64, 64, out="float16")


@T.prim_func
def rows(X: F32[100, 200], Y: F16[100, 200]):
    with T.Kernel(100, threads=96) as bx:
        x = T.alloc_fragment((200,), "float32")
        m = T.alloc_fragment((1,), "float32")
        T.copy(X[bx, 0], x)
        T.reduce_max(x, m, dim=0)
        for i in T.Parallel(200):
            x[i] = T.exp2(x[i] - m[0])
        T.cumsum(x, dim=0)
        T.copy(x, Y[bx, 0])


PROGRAMS = [product, rows]


def arrays(func: S.PrimFunc) -> Iterator[Buffer]:
    """Register arrays of more than one element."""
    for node in S.walk(func.body):
        if isinstance(node, S.Alloc) and node.buffer.storage == "local":
            if int(node.buffer.shape[0]) > 1:
                yield node.buffer


class Shrunk(Rewriter):
    """Makes an array one element shorter."""

    def __init__(self, data: E.Var) -> None:
        self.data = data

    def buffer(self, buffer: Buffer) -> Buffer:
        if buffer.data is not self.data:
            return buffer
        return replace(buffer, shape=Shape((int(buffer.shape[0]) - 1,)))

    def expr(self, expr: E.Expr) -> E.Expr:
        return rebuild(expr, self.expr, self.buffer)


class Moved(Rewriter):
    """Moves the accesses of an array down by one element."""

    def __init__(self, data: E.Var) -> None:
        self.data = data

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.Store) and stmt.buffer.data is self.data:
            return replace(stmt, indices=(stmt.indices[0] - 1,))
        return stmt

    def expr(self, expr: E.Expr) -> E.Expr:
        made = rebuild(expr, self.expr)
        if isinstance(made, (E.Load, E.AddressOf)) and made.buffer.data is self.data:
            return replace(made, indices=(made.indices[0] - 1,))
        return made


@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda func: func.name)
def test_registers_that_are_missing_are_found(program: S.PrimFunc, target) -> None:
    lowered = lower(program, target, Options())
    assert not undecided(lowered)
    tried = 0
    for buffer in arrays(lowered):
        for planted in (Shrunk(buffer.data), Moved(buffer.data)):
            with pytest.raises(TileIndexError, match=f"`{buffer.name}`"):
                verify_bounds(replace(lowered, body=planted.rewrite(lowered.body)), Context(target))
            tried += 1
    assert tried >= 4


def test_a_displacement_belongs_to_the_address() -> None:
    """Shown by intervals; under a condition, at each thread and iteration."""
    t, i = E.Var("t", DType("int32")), E.Var("i", DType("int32"))
    own = E.AddressOf(Buffer("r", Shape((8,)), DType("float16"), "local"), (E.const(0),), "w")

    def program(extent: int, conditional: bool) -> S.PrimFunc:
        tile = Buffer(
            "s", Shape((extent,)), DType("float16"), "shared", attrs=BufferHints(is_generated=True)
        )
        place = E.AddressOf(tile, (displaced(t * 8, i * 256),), "r")
        load = E.call(ATOMS["ldmatrix"], own, place, dtype="void", count=4, trans=False)
        body: S.Stmt = S.Eval(value=load)
        if conditional:
            body = S.If(cond=t < 16, then=body)
        ends = {"start": E.const(0), "stop": E.const(5), "step": E.const(1)}
        loop = S.For(var=i, body=body, kind="unroll", **ends)
        launch = S.Launch(grid=(), block_vars=(), thread_vars=(t,), threads=(32,), body=loop)
        return S.PrimFunc(name="f", params=(), body=launch)

    context = Context(TARGETS[0])
    for last, conditional in ((31, False), (15, True)):
        needed = 4 * 256 + last * 8 + 8
        fits = program(needed, conditional)
        assert verify_bounds(fits, context) is fits and not undecided(fits)
        with pytest.raises(TileIndexError, match="an access of `s` is outside its shared memory"):
            verify_bounds(program(needed - 1, conditional), context)


@pytest.mark.parametrize("target", [*TARGETS, CPU], ids=str)
def test_a_conditional_access_outside_is_found_by_all_checks(target) -> None:
    def lowered(bound: int) -> S.PrimFunc:
        @T.prim_func
        def main(A: I32[64], n: T.int32):
            with T.Kernel(1, threads=64):
                own = T.alloc_local((4,), "int32")
                tx = T.get_thread_binding()
                for i in T.serial(8):
                    if i < bound:
                        own[i] = i
                    if A[tx] + i < n:
                        own[A[tx] + i] = i
                A[tx] = T.if_then_else(tx % 8 < 4, own[tx % 8], 0)

        return lower(main, target, Options())

    verify_bounds(lowered(4), Context(target), all_memory=True)
    with pytest.raises(TileIndexError) as caught:
        verify_bounds(lowered(5), Context(target), all_memory=True)
    assert str(caught.value).split("\n --> ")[0] == (
        "an access of `own` is outside its local memory\n"
        "  expected: an index from 0 to 3\n"
        "  got: `i`, which is 4 for i = 4\n"
        "  hint: guard the access with `if`; if the program's own indices are in bounds, report "
        "this as a defect of tilelang"
    )


# -- views ----------------------------------------------------------------------------------------
def test_a_misplaced_view_of_a_fragment_is_found(monkeypatch) -> None:
    right = storage.seen_register_layout

    def wrong(held: RegisterLayout, old: object, new: object) -> RegisterLayout | None:
        found = right(held, old, new)
        if found is None:
            return None
        return RegisterLayout(found.shape, found.modes, found.replicas, found.threads).row_major()

    monkeypatch.setattr(storage, "seen_register_layout", wrong)

    @T.prim_func
    def main(X: F32[16, 32], Y: F32[512]):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((16, 32), "float32")
            T.annotate_layout({x: T.Fragment((16, 32), lambda i, j: (j, i % 2 * 8 + i // 2))})
            T.copy(X, x)
            T.copy(T.reshape(x, (512,)), Y)

    with pytest.raises(InternalError, match="is not where `x` is: their layouts differ"):
        lower(main, TARGETS[0], Options())


def test_a_misplaced_view_of_a_shared_tile_is_found(monkeypatch) -> None:
    right = storage.seen_layout

    def wrong(layout, old, new):
        return right(layout, old, replace(new, offset=1)) if new.size < old.size else None

    monkeypatch.setattr(storage, "seen_layout", wrong)

    @T.prim_func
    def main(X: F16[16, 64], Y: F16[8, 8]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((16, 64), "float16")
            T.annotate_layout({s: make_swizzled_layout(s)})
            w = T.decl_buffer((8, 8), "float16", data=s, strides=(64, 1))
            T.copy(X, s)
            T.copy(w, Y)

    with pytest.raises(InternalError, match="is not where `s` is: their layouts differ"):
        lower(main, TARGETS[0], Options())
