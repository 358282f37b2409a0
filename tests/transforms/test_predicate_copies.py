"""Which conditional copies get a predicate each."""

from __future__ import annotations

import pytest
from contexts import SM_80

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.target.nvidia import ATOMS
from tilelang.transforms.cleanup.addressing import predicate_copies

INT, HALF = DType("int32"), DType("float16")
HERE = Buffer("here", Shape((64,)), HALF)
THERE = Buffer("there", Shape((64,)), HALF, "shared")
FLAGS = Buffer("flags", Shape((64,)), INT)
K = E.Var("k", INT)


def copy(index: E.Expr | int = 0, *fills: E.Expr) -> S.Stmt:
    dst, src = E.AddressOf(THERE, (E.const(0),), "w"), E.AddressOf(HERE, (E.as_expr(index),), "r")
    return S.Eval(value=E.call(ATOMS["cp_async"], dst, src, *fills, dtype="void", bytes=4))


def program(then: S.Stmt, orelse: S.Stmt | None = None, products: int = 64) -> S.PrimFunc:
    """A loop with matrix instructions and a condition around ``then``."""
    registers = E.AddressOf(Buffer("acc", Shape((64,)), DType("float32"), "local"), (E.const(0),))
    call = S.Eval(value=E.call(ATOMS["mma"], registers, registers, registers, dtype="void"))
    ends = {"start": E.const(0), "step": E.const(1)}
    unrolled = S.For(var=E.Var("i", INT), stop=E.const(products), body=call, kind="unroll", **ends)
    branch = S.If(cond=K < 7, then=then, orelse=orelse)
    loop = S.For(var=K, stop=E.const(8), body=S.seq(branch, unrolled), **ends)
    launch = S.Launch(grid=(), block_vars=(), thread_vars=(), body=loop)
    return S.PrimFunc(name="f", params=(HERE, FLAGS), body=launch)


@pytest.mark.parametrize(
    "func",
    [
        program(copy(), products=63),  # little hides the copies
        program(copy(), orelse=copy()),
        program(S.seq(copy(), S.Eval(value=E.call("sync_threads", dtype="void")))),
        program(copy(E.Load(FLAGS, (E.const(0),)))),  # the address may not exist
        program(copy(0, E.Load(FLAGS, (E.const(0),)) < 3)),
    ],
)
def test_other_branches_are_left_alone(func: S.PrimFunc) -> None:
    assert predicate_copies(func, SM_80) is func


def test_branches_outside_loops_are_left_alone() -> None:
    launch = S.Launch(grid=(), block_vars=(), thread_vars=(), body=S.If(cond=K < 7, then=copy()))
    func = S.PrimFunc(name="f", params=(HERE, K), body=launch)
    assert predicate_copies(func, SM_80) is func
