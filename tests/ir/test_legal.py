"""Each level refuses what it must not contain, and says exactly what that is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from refusals import refusal

from tilelang.errors import InternalError, TileError, TileSyntaxError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import LoopHints
from tilelang.ir.legal import check
from tilelang.ir.levels import LEVELS

I32, F32 = DType("int32"), DType("float32")
HINT = "\n  hint: this is a defect of tilelang; please report it with the program"
N = E.Var("n", I32)
A = Buffer("A", Shape((8, N)), F32)
TILE = Buffer("tile", Shape((8, 8)), F32, "shared")
FREE = E.Var("free", I32)
ZERO, ONE = E.const(0), E.const(1.0)
GEMM = S.Gemm(a=TILE.whole(), b=TILE.whole(), c=TILE.whole(), clear=E.const(False))


def func(*stmts: S.Stmt) -> S.PrimFunc:
    names = tuple(E.Var(name, I32) for name in ("bx", "tx", "ty", "tz"))
    body = S.seq(S.Alloc(buffer=TILE), *stmts)
    kernel = S.Launch(grid=(N,), block_vars=names[:1], thread_vars=names[1:], body=body)
    return S.PrimFunc("main", (A,), kernel)


def store(value: E.Expr = ONE, *indices: E.Expr) -> S.Store:
    return S.Store(buffer=TILE, indices=indices or (ZERO, ZERO), value=value)


def loop(body: S.Stmt, kind: str = "serial") -> S.For:
    return S.For(var=E.Var("i", I32), start=ZERO, stop=N, step=E.const(1), body=body, kind=kind)


def test_a_legal_program_passes_at_its_level() -> None:
    tile = func(S.Fill(dst=TILE.whole(), value=ONE), loop(store()))
    check(tile, "tile")
    check(func(loop(store())), "thread")
    with pytest.raises(TileError):
        check(tile, "thread")


LET = E.Var("v", I32)
FRAGMENT = Buffer("held", Shape((8,)), F32, "local.fragment")
PER_LANE = E.Load(FRAGMENT, (ZERO,))
OTHER = Buffer("other", Shape((4,)), F32, "shared")
FILL = S.Fill(dst=TILE.whole(), value=ONE)
INT = E.const(1)

WRONG: list[tuple[str, Callable[[], S.PrimFunc], str]] = [
    ("thread", lambda: func(FILL), "the statement Fill may not appear"),
    ("thread", lambda: func(S.Parallel(vars=(LET,), extents=(N,), body=store())),
     "the statement Parallel may not appear"),
    ("thread", lambda: func(loop(store(), "thread")), "a loop of kind 'thread' may not appear"),
    (
        "thread",  # a name that a pass has forgotten over memory that is something else now
        lambda: func(S.Alloc(buffer=replace(FRAGMENT, storage="local")), store(PER_LANE)),
        "the buffer `held` has the scope 'local.fragment'",
    ),
    ("thread", lambda: func(S.Eval(value=E.call("any_of", E.RegionArg(TILE.whole())))),
     "a region of `tile` is an operand"),
    (
        "thread",
        lambda: func(store(E.Load(TILE, (E.const(-1), ZERO)))),
        "an access of `tile` is outside its shared memory\n  expected: an index from 0 to 7\n  got: -1",
    ),
    ("tile", lambda: func(S.Attr(key="own", body=store())), "the key 'own' of Attr may not appear"),
    ("scheduled", lambda: func(replace(loop(store()), hints=LoopHints(other=(("own", 1),)))),
     "the key 'own' of For may not appear"),
    ("thread", lambda: func(replace(loop(store()), hints=LoopHints(num_stages=2))),
     "the hint 'num_stages' of For may not appear"),
    ("tile", lambda: func(store(E.cast(FREE, F32))), "`free` is used where it is not bound"),
    ("tile", lambda: func(S.If(cond=N < 3, then=S.Let(var=LET, value=N)), store(E.cast(LET, F32))),
     "`v` is used where it is not bound"),
    ("tile", lambda: func(S.Let(var=LET, value=N), S.Let(var=LET, value=N)), "`v` is bound twice"),
    ("tile", lambda: func(S.Let(var=LET, value=ONE)),
     "`v` is bound to a value of another dtype\n  expected: int32\n  got: float32"),
    ("tile", lambda: func(store(E.Load(OTHER, (ZERO,)))),
     "the buffer `other` is used where it does not exist"),
    ("tile", lambda: func(S.View(buffer=OTHER)),
     "the view `other` is of memory that does not exist here"),
    ("tile", lambda: func(store(ONE, ZERO)), "`tile` is accessed with 1 indices\n  expected: 2"),
    ("tile", lambda: func(store(ONE, ZERO, ONE)),
     "an index of `tile` is not an integer\n  expected: an integer\n  got: float32"),
    ("tile", lambda: func(S.Fill(dst=Region(TILE, (ZERO, ZERO), (8,)), value=ONE)),
     "a region of `tile` has 1 extents\n  expected: 2"),
    ("tile", lambda: func(store(INT)),
     "a value of another dtype is stored to `tile`\n  expected: float32\n  got: int32"),
    ("tile", lambda: func(S.If(cond=N, then=store())),
     "a condition is not a bool\n  expected: bool\n  got: int32"),
    ("tile", lambda: func(S.Break()), "Break outside a loop"),
    ("tile", lambda: func(replace(GEMM, plan="fma")), "a product has a plan"),
    ("tile", lambda: func(S.Launch(grid=(), block_vars=(), thread_vars=(), body=store())),
     "a kernel is launched inside a kernel"),
    ("tile", lambda: func(S.Alloc(buffer=Buffer("b", Shape((FREE,)), F32, "local"))),
     "`free` in the shape of `b` is not bound"),
    ("tile", lambda: S.PrimFunc("main", (N,), S.Seq(stmts=()), outputs=(0,)),
     "output 0 is not a tensor parameter"),
]  # fmt: skip


@pytest.mark.parametrize(("level", "make", "text"), WRONG, ids=[text for _, _, text in WRONG])
def test_illegal_programs_are_named(level: str, make: Callable[[], S.PrimFunc], text: str) -> None:
    with pytest.raises(InternalError) as caught:
        check(make(), level)
    assert str(caught.value) == f"`main` is not legal {LEVELS[level].name}: {text}{HINT}"


def test_a_kernel_statement_outside_a_kernel_is_the_users_mistake() -> None:
    wrong = S.PrimFunc("main", (A,), S.Fill(dst=A.whole(), value=ONE))
    assert refusal(TileSyntaxError, check, wrong, "tile") == (
        "`main` has a kernel statement (Fill) outside a kernel\n"
        "  expected: a statement inside `with T.Kernel(...)`"
    )


def test_an_unknown_level_is_named() -> None:
    with pytest.raises(InternalError) as caught:
        check(func(), "asm")
    assert (
        str(caught.value)
        == "unknown IR level 'asm'\n  expected: tile, scheduled, thread\n  got: asm"
    )


def test_a_program_may_name_keys_as_it_likes_until_they_are_dropped() -> None:
    own = func(
        S.Attr(key="own", body=replace(loop(store()), hints=LoopHints(other=(("mine", 1),))))
    )
    check(own, "tile", own_keys=True)
    with pytest.raises(TileError):
        check(own, "tile")


def test_the_pass_that_made_an_illegal_program_is_named() -> None:
    with pytest.raises(InternalError) as caught:
        check(func(FILL), "thread", after="lower_tiles")
    assert str(caught.value).startswith(
        "`main` is not legal Thread IR after the pass lower_tiles: the statement Fill"
    )


def test_what_a_level_has_the_rows_above_it_have_or_a_pass_makes() -> None:
    tile, scheduled, thread = LEVELS.values()
    assert tile.statements < scheduled.statements and thread.statements < tile.statements
    assert thread.loop_kinds < scheduled.loop_kinds == tile.loop_kinds
