"""On which values the threads that run a statement together agree."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import numpy as np
import pytest

import tilelang.language as T
from tilelang import interpret
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.transforms.analysis.groups import Uniformity


def differing(func: S.PrimFunc) -> dict[int, bool]:
    """Number of a store to ``A`` -> whether threads that make it may store different values."""
    (launch,) = (node for node in S.walk(func.body) if isinstance(node, S.Launch))
    values = Uniformity(launch)
    return {
        int(node.indices[0]): values.differs(node.value, node)
        for node in S.find(launch.body, S.Store)
        if node.buffer.name == "A"
    }


def test_the_threads_of_a_branch_agree_on_their_warpgroup() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), n: T.int32):
        with T.Kernel(1, threads=384):
            tx = T.get_thread_binding()
            group = tx // 128
            A[0] = group
            if group > 0:
                A[1] = group
                if tx >= 256:
                    A[2] = group * 64 + n
                    mine = T.alloc_var("int32", init=group)
                    A[3] = mine
            if tx == 5:
                A[4] = tx
            if tx >= 128:
                T.thread_return()
            A[5] = group

    assert differing(kernel) == {0: True, 1: True, 2: False, 3: False, 4: False, 5: False}


# -- other than what threads see--------------------------------------------------------------------
INT = DType("int32")
THREADS, VARIABLES, ROUNDS, PLACES = 64, 4, 3, 24


class Drawn:
    """A random program of variables that each thread has: ``looks`` are its places, where threads
    write down what they see, by the iterations of the loops around."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.tx = E.Var("tx", INT)
        self.variables = [Buffer(f"v{k}", Shape((1,)), INT, "local.var") for k in range(VARIABLES)]
        self.sizes = Buffer("Sizes", Shape((8,)), INT)
        self.seen = Buffer("Seen", Shape((PLACES, ROUNDS, ROUNDS, THREADS)), INT)
        self.looks: list[S.Store] = []
        allocs = [S.Alloc(buffer=b, init=E.const(0)) for b in self.variables]
        body = S.seq(*allocs, self.block(0, ()), self.look(()))
        thread_vars = (self.tx, E.Var("ty", INT), E.Var("tz", INT))
        self.launch = S.Launch(
            grid=(E.const(1),), block_vars=(E.Var("bx", INT),), thread_vars=thread_vars,
            threads=(THREADS, 1, 1), body=body,
        )  # fmt: skip
        self.func = S.PrimFunc("drawn", (self.sizes, self.seen), self.launch)

    def one_of(self, *choices):
        return choices[self.rng.integers(len(choices))]

    def load(self) -> E.Expr:
        return E.Load(self.one_of(*self.variables), (E.const(0),))

    def value(self) -> E.Expr:
        kind = self.rng.integers(8)
        if kind < 2:
            return E.const(int(self.rng.integers(4)))
        if kind == 2:
            return self.one_of(self.tx, self.tx // 32, self.tx % 4)
        if kind == 3:
            return E.Load(self.sizes, (self.load() % 8,))
        return (self.load() + self.one_of(E.const(1), self.load())) % 16

    def cond(self) -> E.Expr:
        kind = self.rng.integers(4)
        if kind == 0:
            return self.tx < E.const(int(self.one_of(1, 32, 40)))
        test = self.load() < E.const(int(self.rng.integers(1, 6)))
        return E.binary("land", test, self.tx >= 32) if kind == 1 else test

    def look(self, rounds) -> S.Stmt:
        if len(self.looks) == PLACES:
            return S.seq()
        first, second = (*rounds, E.const(0), E.const(0))[:2]
        at = (E.const(len(self.looks)), first, second, self.tx)
        self.looks.append(S.Store(buffer=self.seen, indices=at, value=self.load() + 1))
        return self.looks[-1]

    def block(self, depth: int, rounds) -> S.Stmt:
        return S.seq(*(self.stmt(depth, rounds) for _ in range(self.rng.integers(2, 5))))

    def stmt(self, depth: int, rounds) -> S.Stmt:
        kind = self.rng.integers(8)
        if kind < 3 or depth == 3:
            return S.Store(
                buffer=self.one_of(*self.variables), indices=(E.const(0),), value=self.value()
            )
        if kind < 5:
            return self.look(rounds)
        if kind == 5 and len(rounds) < 2:
            var = E.Var("k", INT)
            stop = E.binary("min", self.value(), E.const(ROUNDS))
            body = self.block(depth + 1, (*rounds, var))
            if self.rng.integers(3) == 0:
                leave = self.one_of(S.Break, S.Continue)()
                body = S.seq(body, S.If(cond=self.cond(), then=leave), self.look((*rounds, var)))
            return S.For(var=var, start=E.const(0), stop=stop, step=E.const(1), body=body)
        orelse = self.block(depth + 1, rounds) if self.rng.integers(2) else None
        return S.If(cond=self.cond(), then=self.block(depth + 1, rounds), orelse=orelse)


@pytest.mark.parametrize("seed", range(40))
def test_threads_that_are_said_to_agree_do(seed: int) -> None:
    proved = 0
    for number in range(5):
        drawn = Drawn(5 * seed + number)
        seen = np.zeros((PLACES, ROUNDS, ROUNDS, THREADS), np.int32)
        interpret.run(drawn.func, [np.arange(8, dtype=np.int32) % 5, seen])
        values = Uniformity(drawn.launch)
        for place, look in zip(seen, drawn.looks, strict=False):
            if values.differs(look.value, look):
                continue
            proved += 1
            for together in place.reshape(-1, THREADS):
                there = together[together != 0]
                assert len(set(there.tolist())) <= 1, (drawn.func.script(), look)
    assert proved
