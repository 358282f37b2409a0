"""Barriers are inserted where threads exchange data, only there, and never where some threads miss them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from contexts import OWN_BARRIERS, SM_80
from hypothesis import given, settings, strategies as st
from refusals import refusal
from thread_races import RaceError, simulate

import tilelang.language as T
from tilelang import interpret
from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.legal import check
from tilelang.target import Context
from tilelang.transforms.analysis.groups import inverse, thread_group_of
from tilelang.transforms.sync.barriers import insert_barriers


def ordered(func: S.PrimFunc) -> S.PrimFunc:
    """After the pass; legal, and the pass finds nothing more to do."""
    made = insert_barriers(func, SM_80)
    check(made, "scheduled")
    assert insert_barriers(made, SM_80).script() == made.script()
    return made


def body_text(func: S.PrimFunc) -> str:
    """The kernel's statements after the declarations."""
    lines = func.script().splitlines()
    words = ("alloc_buffer", "T.Buffer", "block_attr")
    last = max(k for k, line in enumerate(lines) if any(word in line for word in words))
    return "\n".join(line[8:] for line in lines[last + 1 :]) + "\n"


def launch_of(func: S.PrimFunc) -> S.Launch:
    return next(node for node in S.walk(func.body) if isinstance(node, S.Launch))


# -- code by thread --
def threads_program(kind: str) -> S.PrimFunc:
    @T.prim_func
    def kernel(A: T.Tensor((128,), "int32"), n: T.int32):  # type: ignore[no-untyped-def]  # a traced function
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((128,), "int32")
            tx = T.get_thread_binding()
            if kind == "own element":
                s[tx] = A[tx]
                s[tx] = s[tx] + 1
                A[tx] = s[tx]
            elif kind == "neighbour":
                s[tx] = A[tx]
                A[tx] = s[(tx + 1) % 128]
            elif kind == "uniform branch":
                s[tx] = A[tx]
                if n > 3:
                    A[tx] = s[127 - tx]
                s[tx] = 1
            elif kind == "group":
                if tx < 64:
                    s[tx] = A[tx]
                    A[tx] = s[63 - tx]
                else:
                    s[tx] = A[tx]
                    A[tx] = s[191 - tx]
            elif kind == "lanes":
                if tx < 8:
                    s[tx] = A[tx]
                    A[tx] = s[7 - tx]
            elif kind == "while":
                s[tx] = n
                while s[0] > 0:
                    if tx == 0:
                        s[0] = s[0] - 1
            elif kind == "group loop":
                half = tx // 64
                if half == 1:
                    for k in T.serial(half, n):
                        s[tx] = A[tx] + k
                        A[tx] = s[191 - tx]
            elif kind == "one iteration":
                for _ in T.serial(1):
                    s[tx] = A[tx]
                    A[tx] = s[127 - tx]
            elif kind == "divergent":
                if A[tx] > 0:
                    s[tx] = A[tx]
                    A[tx] = s[(tx + 1) % 128]

    return kernel


# The barriers that the pass puts into each program, in their order.
BARRIERS = {
    "own element": (),
    "neighbour": ("T.sync_threads()",),
    "uniform branch": ("T.sync_threads()",) * 2,
    "group": ("T.sync_threads(1, 64)", "T.sync_threads(2, 64)"),
    "lanes": ("T.sync_warp(T.uint32(255))",),
    "while": ("T.sync_threads()",) * 3,
    "group loop": ("T.sync_threads(1, 64)",) * 2,
    "one iteration": ("T.sync_threads()",),
}


@pytest.mark.parametrize("context", [SM_80, OWN_BARRIERS], ids=["all", "beside the program's own"])
@pytest.mark.parametrize("kind", BARRIERS)
def test_code_by_thread_has_no_race_and_no_other_barrier(kind: str, context: Context) -> None:
    made = insert_barriers(threads_program(kind), context)
    check(made, "scheduled")
    assert insert_barriers(made, context).script() == made.script()
    lines = [line.strip() for line in made.script().splitlines()]
    assert tuple(line for line in lines if line.startswith("T.sync_")) == BARRIERS[kind]
    values, count = made.params
    simulate(launch_of(made), {values: np.arange(128, dtype=np.int32)}, {count: 5})


def test_groups_are_listed_with_their_barriers() -> None:
    made = ordered(threads_program("group"))
    assert launch_of(made).hints.barrier_ids == ((0, 64, 1), (64, 64, 2))


def test_single_threads_are_left_to_programs_that_synchronize_themselves() -> None:
    program = threads_program("divergent")
    with pytest.raises(TileUnsupportedError, match="in code that not all of them execute"):
        insert_barriers(program, SM_80)
    assert body_text(insert_barriers(program, OWN_BARRIERS)) == body_text(program)


@pytest.mark.parametrize(
    ("cond", "warp", "group"),
    [
        (lambda x, y: x < 32, 32, None),
        (lambda x, y: y < 2, 32, (0, 128)),
        (lambda x, y: inverse(E.as_expr(y >= 2)), 32, (0, 128)),
        (lambda x, y: x < 65, 32, (0, 256)),
        (lambda x, y: x < 0, 32, (0, 0)),
        (lambda x, y: (x + y * 64) // 32 == 3, 32, (96, 32)),
        (lambda x, y: (x + y * 64) // 32 == 3, 64, None),
        (lambda x, y: (x + y * 64) % 64 < 32, 32, None),
        (lambda x, y: x + y * 64 < 100, 32, None),
    ],
)
def test_groups_of_threads(cond: Any, warp: int, group: tuple[int, int] | None) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((1,), "int32")):  # type: ignore[no-untyped-def]  # a traced function
        with T.Kernel(1, threads=(64, 4)):
            A[0] = 1

    launch = launch_of(kernel)
    assert thread_group_of(E.as_expr(cond(*launch.thread_vars[:2])), launch, warp) == group


# -- random programs: the race detector finds nothing, and results stay --
THREADS = 64
Program = list[Any]


def _programs() -> st.SearchStrategy[Program]:
    index = st.tuples(st.sampled_from(("shift", "xor", "mirror", "own")), st.integers(0, 63))
    simple = st.one_of(
        st.tuples(st.just("read"), index),
        st.tuples(st.just("write"), index),
        st.tuples(st.just("update"), index, index),
    )

    def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        block = st.lists(inner, min_size=1, max_size=3)
        return st.one_of(
            st.tuples(st.just("loop"), st.sampled_from((0, 1, 3, None)), block),
            st.tuples(st.just("if"), st.integers(0, 4), block),
            st.tuples(st.just("group"), st.sampled_from((0, 1)), block),
            st.tuples(st.just("lanes"), st.sampled_from((1, 8)), block),
            st.tuples(st.just("odd"), st.just(0), block),
        )

    return st.lists(st.recursive(simple, nested, max_leaves=6), min_size=1, max_size=6)


class _Writer:
    """Makes Thread IR of a random program."""

    def __init__(self) -> None:
        kind = DType("int32")
        self.out = Buffer("out", Shape((THREADS, 2)), kind)
        self.n = E.Var("n", kind)
        self.s = Buffer("s", Shape((THREADS,)), kind, "shared.dyn")
        self.acc = Buffer("acc", Shape((1,)), kind, "local.var")
        self.names = tuple(E.Var(name, kind) for name in "tx ty tz bx by bz".split())
        self.tx = self.names[0]

    def place(self, index: Any) -> E.Expr:
        kind, by = index
        return {
            "shift": (self.tx + by) % THREADS,
            "xor": self.tx ^ by,
            "mirror": THREADS - 1 - self.tx,
            "own": self.tx + 0,
        }[kind]

    def load(self, index: Any) -> E.Expr:
        return E.Load(self.s, (self.place(index),))

    def block(self, items: Any) -> S.Stmt:
        return S.seq(*(self.stmt(item) for item in items))

    def stmt(self, item: Any) -> S.Stmt:
        kind = item[0]
        total = E.Load(self.acc, (E.const(0),))
        if kind == "read":
            value = total * 3 + self.load(item[1])
            return S.Store(buffer=self.acc, indices=(E.const(0),), value=value)
        if kind == "write":
            return S.Store(buffer=self.s, indices=(self.place(item[1]),), value=total + 1)
        if kind == "update":
            value = self.load(item[2]) + 2
            return S.Store(buffer=self.s, indices=(self.place(item[1]),), value=value)
        body = self.block(item[2])
        if kind == "loop":
            stop = self.n if item[1] is None else E.const(item[1])
            zero, one = E.const(0), E.const(1)
            return S.For(var=E.Var("k", DType("int32")), start=zero, stop=stop, step=one, body=body)
        cond: Any = {
            "if": self.n > item[1],
            "group": self.tx // 32 == item[1],
            "lanes": self.tx < item[1],
            "odd": self.tx % 2 == 1,
        }[kind]
        return S.If(cond=cond, then=body)

    def func(self, program: Program) -> S.PrimFunc:
        own = (self.tx,)
        total = E.Load(self.acc, (E.const(0),))
        body = S.seq(
            S.Alloc(buffer=self.s),
            S.Alloc(buffer=self.acc, init=E.const(0)),
            S.Store(buffer=self.s, indices=own, value=self.tx * 5),
            self.block(program),
            S.Store(buffer=self.out, indices=(self.tx, E.const(0)), value=total),
            S.Store(
                buffer=self.out, indices=(self.tx, E.const(1)), value=E.Load(self.s, own)
            ),
        )  # fmt: skip
        launch = S.Launch(
            grid=(E.const(1),) * 3,
            block_vars=self.names[3:],
            thread_vars=self.names[:3],
            threads=(THREADS, 1, 1),
            body=body,
        )
        return S.PrimFunc("random", (self.out, self.n), launch)


@settings(max_examples=60, deadline=None)
@given(_programs(), st.integers(0, 3))
def test_random_programs_have_no_races(program: Program, n: int) -> None:
    writer = _Writer()
    func = writer.func(program)
    try:
        made = insert_barriers(func, SM_80)
    except TileUnsupportedError:
        return
    want = np.zeros((THREADS, 2), np.int32)
    interpret.run(func, (want, n))
    got = np.zeros((THREADS, 2), np.int32)
    simulate(launch_of(made), {writer.out: got}, {writer.n: n})
    np.testing.assert_array_equal(want, got)


def test_the_race_detector_sees_a_missing_barrier() -> None:
    writer = _Writer()
    func = writer.func([("write", ("own", 0)), ("read", ("shift", 1))])
    with pytest.raises(RaceError):
        simulate(launch_of(func), {writer.out: np.zeros((THREADS, 2), np.int32)}, {writer.n: 0})


def test_more_groups_than_barriers_is_an_error() -> None:
    writer = _Writer()
    branches = [
        S.If(
            cond=E.as_expr(writer.tx < 32 * k),
            then=S.seq(writer.stmt(("write", ("own", 0))), writer.stmt(("read", ("shift", 1)))),
        )
        for k in range(2, 18)
    ]
    func = writer.func([])
    launch = launch_of(func)
    body = S.seq(launch.body, *branches)
    wide = replace(launch, body=body, threads=(1024, 1, 1))
    assert refusal(TileUnsupportedError, insert_barriers, replace(func, body=wide), SM_80) == (
        "the kernel needs more barriers than a block has\n"
        "  expected: at most 15 different groups of warps\n"
        "  got: another group: threads 0 to 543\n"
        "  hint: use fewer different thread ranges, or free ids of T.sync_threads(id, n)"
    )


# -- groups that the program orders itself --


def test_no_block_barrier_is_between_the_halves_of_a_rendezvous() -> None:
    @T.prim_func
    def kernel(O: T.Tensor((4,), "int32")):  # type: ignore[no-untyped-def]  # a traced function
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((1,), "int32")
            tx = T.get_thread_binding()
            for k in T.serial(4):
                if tx < 32:
                    T.sync_threads(1, 64)
                if tx >= 32:
                    s[0] = k + 7
                    T.sync_threads(1, 64)
                O[k] = s[0]

    made = ordered(kernel)
    got = np.zeros(4, np.int32)
    interpret.run(made, (got,))
    assert got.tolist() == [7, 8, 9, 10]
    lines = [line.strip() for line in body_text(made).splitlines()]
    assert lines[1:3] == ["T.sync_threads()", "if tx < 32:"]
    assert lines.count("T.sync_threads()") == 2
