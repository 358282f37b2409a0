"""The simulator of Thread IR finds what hardware would do wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from thread_races import RaceError
from thread_sim import ptx_layout, simulate

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType

INT = DType("int32")
TX = E.Var("tx", INT)


def buffer(name: str, shape: tuple[int, ...], dtype: str, scope: str = "global") -> Buffer:
    return Buffer(name, Shape(shape), DType(dtype), scope)


def launch(*body: S.Stmt, threads: int = 64) -> S.Launch:
    axes = [E.Var(name, INT) for name in ("bx", "by", "bz", "ty", "tz")]
    return S.Launch(
        grid=(E.const(1),) * 3,
        block_vars=tuple(axes[:3]),
        thread_vars=(TX, *axes[3:]),
        threads=(threads, 1, 1),
        body=S.seq(*body),
    )


def ev(op: str, *args: Any, **attrs: Any) -> S.Stmt:
    return S.Eval(value=E.call(op, *args, dtype="void", **attrs))


def at(base: Buffer, *index: Any) -> E.Expr:
    return E.AddressOf(base, tuple(E.as_expr(i) for i in index))


def store(base: Buffer, index: Any, value: Any) -> S.Stmt:
    return S.Store(buffer=base, indices=(E.as_expr(index),), value=E.as_expr(value))


SHARED = buffer("s", (64,), "int32", "shared")
OUT = buffer("o", (64,), "int32")


def reverse(*between: S.Stmt) -> S.Launch:
    return launch(
        S.Alloc(buffer=SHARED),
        store(SHARED, TX, TX * 3),
        *between,
        store(OUT, TX, E.Load(SHARED, (63 - TX,))),
    )


def test_exchange_through_shared_memory_needs_a_barrier() -> None:
    out = np.zeros(64, np.int32)
    simulate(reverse(ev("sync_threads")), {OUT: out})
    assert out.tolist() == [3 * (63 - t) for t in range(64)]
    with pytest.raises(RaceError, match="`s`.* with no barrier between"):
        simulate(reverse(), {OUT: out})
    with pytest.raises(RaceError):
        simulate(reverse(ev("sync_warp")), {OUT: out})


def test_a_warp_barrier_orders_its_own_warp() -> None:
    out = np.zeros(64, np.int32)
    body = launch(
        S.Alloc(buffer=SHARED),
        store(SHARED, TX, TX),
        ev("sync_warp"),
        store(OUT, TX, E.Load(SHARED, (TX ^ 1,))),
    )
    simulate(body, {OUT: out})
    assert out.tolist() == [t ^ 1 for t in range(64)]


def test_overwriting_what_others_still_read_is_a_race() -> None:
    out = np.zeros(64, np.int32)
    body = reverse(ev("sync_threads")).body
    again = launch(body, store(SHARED, TX, TX))
    with pytest.raises(RaceError, match="writes bytes"):
        simulate(again, {OUT: out})


def test_different_values_for_one_element_are_a_race() -> None:
    with pytest.raises(RaceError, match="different values"):
        simulate(launch(S.Alloc(buffer=SHARED), store(SHARED, 0, TX)), {OUT: np.zeros(64, "i4")})
    simulate(launch(S.Alloc(buffer=SHARED), store(SHARED, 0, 7)), {OUT: np.zeros(64, "i4")})


def test_vector_copies_move_aligned_bytes() -> None:
    src, regs = buffer("x", (512,), "float16"), buffer("r", (8,), "float16", "local")
    dst = buffer("y", (512,), "float16")

    def body(shift: int) -> S.Launch:
        return launch(
            S.Alloc(buffer=regs),
            ev("vector_copy", at(regs, 0), at(src, TX * 8 + shift), bytes=16),
            ev("vector_copy", at(dst, TX * 8), at(regs, 0), bytes=16),
        )

    x, y = np.arange(512).astype(np.float16), np.zeros(512, np.float16)
    simulate(body(0), {src: x, dst: y})
    assert (x == y).all()
    with pytest.raises(AssertionError, match="not a multiple of 16"):
        simulate(body(4), {src: x, dst: y})


def test_asynchronous_copies_arrive_when_waited_for() -> None:
    src, out = buffer("x", (64,), "int32"), np.zeros(64, np.int32)

    def body(*wait: S.Stmt) -> S.Launch:
        return launch(
            S.Alloc(buffer=SHARED),
            ev("cp_async", at(SHARED, TX), at(src, TX), TX < 60, bytes=4),
            ev("cp_async_commit"),
            *wait,
            store(OUT, TX, E.Load(SHARED, (TX,))),
        )

    x = np.arange(64, dtype=np.int32)
    simulate(body(ev("cp_async_wait", count=0)), {src: x, OUT: out})
    assert out.tolist() == [t if t < 60 else 0 for t in range(64)]
    with pytest.raises(Exception, match="read before anything is written"):
        simulate(body(ev("cp_async_wait", count=1)), {src: x, OUT: out})


@pytest.mark.parametrize("trans", [False, True])
def test_ldmatrix_gives_two_neighbours_of_a_row(trans: bool) -> None:
    shared, regs = buffer("s", (256,), "float16", "shared"), buffer("r", (8,), "float16", "local")
    src, dst = buffer("x", (256,), "float16"), buffer("y", (256,), "float16")
    row = TX % 16 * 16 + TX // 16 * 8
    body = launch(
        S.Alloc(buffer=shared),
        S.Alloc(buffer=regs),
        ev("vector_copy", at(shared, TX * 8), at(src, TX * 8), bytes=16),
        ev("sync_threads"),
        ev("ldmatrix", at(regs, 0), at(shared, row), count=4, trans=trans),
        ev("vector_copy", at(dst, TX * 8), at(regs, 0), bytes=16),
        threads=32,
    )
    x, y = np.arange(256).astype(np.float16), np.zeros(256, np.float16)
    simulate(body, {src: x, dst: y})
    tile = x.reshape(16, 16)
    for lane in range(32):
        for g in range(4):
            part = tile[8 * (g % 2) : 8 * (g % 2) + 8, 8 * (g // 2) : 8 * (g // 2) + 8]
            part = part.T if trans else part
            pair = part[lane // 4, 2 * (lane % 4) : 2 * (lane % 4) + 2]
            assert y[lane * 8 + 2 * g : lane * 8 + 2 * g + 2].tolist() == pair.tolist()


def test_mma_multiplies_the_matrices_in_registers() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype(np.float16) for s in ((16, 16), (16, 8)))
    ta, tb, tc = ptx_layout("m16n8k16", 16)
    sources = {"a": a[ta[..., 0], ta[..., 1]], "b": b[tb[..., 0], tb[..., 1]]}
    arrays: dict[Buffer, Any] = {}
    body: list[S.Stmt] = []
    regs: dict[str, Buffer] = {}
    for name, values in sources.items():
        count = values.shape[1]
        arrays[buffer(name, (32 * count,), "float16")] = values.reshape(-1).copy()
        regs[name] = buffer("r" + name, (count,), "float16", "local")
        body += [
            S.Alloc(buffer=regs[name]),
            ev("vector_copy", at(regs[name], 0), at(list(arrays)[-1], TX * count), bytes=2 * count),
        ]
    total, out = buffer("c", (4,), "float32", "local"), buffer("o", (128,), "float32")
    body.append(S.Alloc(buffer=total))
    body += [store(total, k, 1.0) for k in range(4)]
    kinds = {"a": "float16", "b": "float16", "c": "float32"}
    body.append(
        ev("mma", at(total, 0), at(regs["a"], 0), at(regs["b"], 0), shape="m16n8k16", **kinds)
    )
    body.append(ev("vector_copy", at(out, TX * 4), at(total, 0), bytes=16))
    arrays[out] = np.zeros(128, np.float32)
    simulate(launch(*body, threads=32), arrays)
    found = np.zeros((16, 8), np.float32)
    found[tc[..., 0], tc[..., 1]] = arrays[out].reshape(32, 4)
    assert (found == a.astype(np.float32) @ b.astype(np.float32) + 1).all()
