"""Statements of the schedule: their text, where they are legal, and what they mean for values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from refusals import refusal

from tilelang import interpret
from tilelang.errors import DeadlockError, InternalError, TileError
from tilelang.ir import expr as E, schedule as H, stmt as S
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.legal import check
from tilelang.ir.visitor import Rewriter

I32, F32 = DType("int32"), DType("float32")
STAGES, ITEMS, WIDTH = 2, 5, 8
A = Buffer("A", Shape((ITEMS, WIDTH)), F32)
O = Buffer("O", Shape((ITEMS, WIDTH)), F32)  # noqa: E741  # the output
TILE = Buffer("tile", Shape((STAGES, WIDTH)), F32, "shared")
PIPE = E.Var("p", DType("handle"))


def row(buffer: Buffer, index: E.Expr) -> Region:
    return Region(buffer, (index, E.const(0)), (1, WIDTH))


def loop(body: Callable[[E.Var], list[S.Stmt]]) -> S.Stmt:
    var = E.Var("k", I32)
    zero, stop, one = E.const(0), E.const(ITEMS), E.const(1)
    return S.For(var=var, start=zero, stop=stop, step=one, body=S.seq(*body(var)))


def fill(k: E.Expr) -> list[S.Stmt]:
    return [
        H.Acquire(pipe=PIPE, number=k),
        S.Copy(src=row(A, k), dst=row(TILE, k % STAGES)),
        H.Commit(pipe=PIPE, number=k),
    ]


def use(k: E.Expr) -> list[S.Stmt]:
    return [
        H.Wait(pipe=PIPE, number=k, ahead=1),
        S.Copy(src=row(TILE, k % STAGES), dst=row(O, k)),
        H.Release(pipe=PIPE, number=k),
    ]


def roles(fill: S.Stmt, use: S.Stmt) -> H.Roles:
    first = H.Role(name="producer", first=32, count=32, registers=40, body=fill)
    return H.Roles(branches=(first, H.Role(name="consumer", first=0, count=32, body=use)))


def func(*body: S.Stmt) -> S.PrimFunc:
    names = tuple(E.Var(name, I32) for name in ("bx", "tx", "ty", "tz"))
    pipeline = H.Pipeline(
        pipe=PIPE, stages=STAGES, tiles=(TILE.data,), mechanism="mbarrier", body=S.seq(*body)
    )
    kernel = S.Launch(
        grid=(E.const(1),), block_vars=names[:1], thread_vars=names[1:], threads=(64, 1, 1),
        body=S.seq(S.Alloc(buffer=TILE), H.Fence(source="generic", target="async"), pipeline),
    )  # fmt: skip
    return S.PrimFunc("main", (A, O), kernel)


BY_ROLES = func(roles(loop(fill), loop(use)))
TEXT = """\
T.fence("generic", "async")
with T.pipeline(2, (tile.data,), "mbarrier") as p:
    with T.roles():
        with T.role("producer", 32, 32, registers=40):
            for k in range(5):
                T.acquire(p, k)
                T.copy(A[k, 0:8], tile[k % 2, 0:8])
                T.commit(p, k)
        with T.role("consumer", 0, 32):
            for k in range(5):
                T.wait(p, k, ahead=1)
                T.copy(tile[k % 2, 0:8], O[k, 0:8])
                T.release(p, k)"""


def test_text() -> None:
    lines = BY_ROLES.script().splitlines()
    first = next(k for k, line in enumerate(lines) if "T.fence" in line)
    assert "\n".join(line[8:] for line in lines[first:]) == TEXT


def run(program: S.PrimFunc) -> None:
    source = np.arange(ITEMS * WIDTH, dtype=np.float32).reshape(ITEMS, WIDTH)
    found = np.zeros_like(source)
    interpret.run(program, [source, found])
    np.testing.assert_array_equal(found, source)


def test_threads_in_step_release_stages() -> None:
    run(func(loop(lambda k: [*fill(k), *use(k)])))


def test_roles_wait_for_each_other() -> None:
    run(BY_ROLES)


def without(program: S.PrimFunc, kind: type[S.Stmt]) -> S.PrimFunc:
    class Drop(Rewriter):
        def stmt(self, stmt: S.Stmt) -> S.Stmt | None:
            return None if isinstance(stmt, kind) else stmt

    return replace(program, body=Drop().rewrite(program.body))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (H.Release, "threads 32..63 of block (0, 0, 0) acquire iteration 2: 0 of 32 threads"),
        (H.Commit, "wait for iteration 0: it is not committed"),
    ],
)
def test_a_missing_step_is_a_deadlock(kind: type[S.Stmt], message: str) -> None:
    assert message in refusal(DeadlockError, run, without(BY_ROLES, kind))


def test_only_scheduled_programs_have_them() -> None:
    check(BY_ROLES, "scheduled")
    for level in ("tile", "thread"):
        with pytest.raises(TileError):
            check(BY_ROLES, level)


WRONG: list[tuple[S.Stmt, str]] = [
    (H.Wait(pipe=E.Var("q", DType("handle")), number=E.const(0)),
     "`q` is used where it is not bound"),
    (H.Fence(source="generic", target="texture"), "a fence between proxies that do not exist"),
    (H.Roles(branches=(S.seq(),)), "a branch of Roles is not a Role"),
    (H.Roles(branches=(roles(S.seq(), S.seq()).branches[0],) * 2),
     "the role 'producer' has no threads of its own"),
    (H.Pipeline(
         pipe=E.Var("q", DType("handle")), stages=0, tiles=(), mechanism="", body=S.seq()
     ),
     "the pipeline `q` has 0 stages"),
]  # fmt: skip


@pytest.mark.parametrize(("stmt", "message"), WRONG)
def test_what_is_refused(stmt: S.Stmt, message: str) -> None:
    assert message in refusal(InternalError, check, func(stmt), "scheduled")


def test_unchanged_statements_are_the_same_object() -> None:
    assert Rewriter().rewrite(BY_ROLES.body) is BY_ROLES.body
