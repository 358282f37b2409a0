"""Reducers on GPUs: partial results per thread, initial values that count once, totals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from tile_bench import Bench, mma_rows

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.layout.register_layout import Mode, RegisterLayout
from tilelang.transforms.analysis.combine import update_store
from tilelang.transforms.lower.context import Lowering
from tilelang.transforms.lower.reducer import (
    lower_reducer_finalize,
    lower_reducer_init,
    lower_reducer_update,
    start_reducer,
)

linear, everywhere = RegisterLayout.linear, RegisterLayout.fully_replicated

SPREADS = {
    "everywhere": lambda: everywhere((6,), 64),
    "rows of a tile": lambda: linear((8, 64), 128).drop(1),
    "mma rows": lambda: mma_rows((64, 32), (2, 2)).drop(1),
    "mma columns": lambda: mma_rows((64, 32), (2, 2)).drop(0),
    "one copy": lambda: linear((64,), 64),
    "odd copies": lambda: linear((12, 8), 96).drop(0),
    "partial warp": lambda: everywhere((5,), 48),
    "gaps": lambda: RegisterLayout((4,), ((Mode(4, "register", 2),),), ((32, 1),), 32),
}  # fmt: skip


def reducer(bench: Bench, dist: RegisterLayout, kind: str, op: str) -> Buffer:
    return bench.fragment("acc", np.zeros(dist.shape), kind, dist, reducer=(op, "all"))


def contributed(acc: Buffer, parts: Buffer, dist: RegisterLayout) -> Any:
    """Every register of every thread takes in its number of ``parts``."""

    def lowering(ctx: Lowering) -> S.Stmt:
        s = E.Var("s", DType("int32"))
        array = ctx.registers(acc)
        value = E.Load(parts, (ctx.group.thread, s))
        op = acc.attrs.reducer[0]
        body = update_store(S.ReducerUpdate(buffer=array, indices=(s,), value=value, op=op))
        return S.For(
            var=s, start=E.const(0), stop=E.const(dist.register_count), step=E.const(1), body=body
        )

    return lowering


def total(dist: RegisterLayout, parts: Any, op: str, start: Any = None) -> Any:
    """What all owners of each element contributed."""
    given = parts[dist.owner_table(), dist.register_table()[..., None]]
    if op == "sum":
        found = given.sum(-1, dtype=parts.dtype)
        return found if start is None else found + start
    step = {"max": np.maximum, "min": np.minimum, "bitand": np.bitwise_and,
            "bitor": np.bitwise_or, "bitxor": np.bitwise_xor}[op]  # fmt: skip
    found = step.reduce(given, axis=-1)
    return found if start is None else step(found, parts.dtype.type(start))


def finalized(
    bench: Bench, acc: Buffer, start: Callable[..., S.Stmt], given: Any, op: str, dst: Any = None
) -> None:
    """Runs the reducer from its start over its updates to its end."""
    final = S.ReducerFinalize(reducer=acc.whole(), dst=dst, op=op)
    bench.run(start, given, lambda ctx: lower_reducer_finalize(final, ctx))


@pytest.mark.parametrize("name", SPREADS)
@pytest.mark.parametrize("into", ["place", "fragment", "shared"])
def test_sums(name: str, into: str) -> None:
    dist = SPREADS[name]()
    bench = Bench(dist.threads)
    numbers = np.random.default_rng(0).integers(-9, 9, (dist.threads, dist.register_count))
    parts = bench.memory("parts", numbers.astype(np.float32), "float32")
    acc, dst = reducer(bench, dist, "float32", "sum"), None
    if into != "place":
        spread = linear(dist.shape, dist.threads)
        dst = bench.tile(into, "dst", np.zeros(dist.shape), "float32", spread).whole()
    init = S.ReducerInit(reducer=acc.whole(), init=E.const(3.0))
    start = partial(lower_reducer_init, init)
    finalized(bench, acc, start, contributed(acc, parts, dist), "sum", dst)
    want = total(dist, numbers.astype(np.float32), "sum", 3)
    np.testing.assert_array_equal(bench.value("acc" if dst is None else "dst"), want)


@pytest.mark.parametrize(
    ("op", "kind"),
    [("sum", "float16"), ("sum", "int8"), ("sum", "int64"), ("sum", "float64"), ("max", "float32"),
     ("max", "int16"), ("min", "float16"), ("min", "uint8"), ("bitand", "uint32"),
     ("bitor", "int64"), ("bitxor", "int32"), ("bitxor", "uint8")],
)  # fmt: skip
def test_operations_and_dtypes(op: str, kind: str) -> None:
    dist = linear((8, 64), 128).drop(1)
    bench = Bench(128)
    held = DType(kind).as_numpy()
    numbers = np.random.default_rng(0).integers(0, 7, (128, dist.register_count)).astype(held)
    parts = bench.memory("parts", numbers, kind)
    acc = reducer(bench, dist, kind, op)
    start = partial(lower_reducer_init, S.ReducerInit(reducer=acc.whole()))
    finalized(bench, acc, start, contributed(acc, parts, dist), op)
    np.testing.assert_array_equal(bench.value("acc"), total(dist, numbers, op))


@pytest.mark.parametrize("op", ["sum", "max"])
def test_a_filled_value_counts_once(op: str) -> None:
    dist = everywhere((4,), 64)
    bench = Bench(64)
    parts = bench.memory("parts", np.full((64, 4), 1, np.int32), "int32")
    acc = reducer(bench, dist, "int32", op)
    start = partial(start_reducer, acc.whole(), E.const(50))
    finalized(bench, acc, start, contributed(acc, parts, dist), op)
    np.testing.assert_array_equal(bench.value("acc"), [114 if op == "sum" else 50] * 4)


def test_finalizing_twice_keeps_the_workspace_in_order() -> None:
    dist = everywhere((4,), 96)
    bench = Bench(96)
    acc = bench.fragment("acc", np.ones(4), "float32", dist, reducer=("max", "all"))
    dst = bench.fragment("dst", np.zeros(4), "float32", linear((4,), 96))
    stmt = S.ReducerFinalize(reducer=acc.whole(), dst=dst.whole(), op="max")
    bench.run(lambda ctx: lower_reducer_finalize(stmt, ctx), times=2)
    np.testing.assert_array_equal(bench.value("dst"), [1, 1, 1, 1])


def test_updates_outside_parallel_loops_count_every_thread() -> None:
    bench = Bench(64)
    acc = reducer(bench, everywhere((2, 3), 64), "int32", "sum")
    at = (E.const(1), E.const(2))
    update = S.ReducerUpdate(buffer=acc, indices=at, value=bench.tx + 1, op="sum")
    start = partial(lower_reducer_init, S.ReducerInit(reducer=acc.whole()))
    finalized(bench, acc, start, partial(lower_reducer_update, update), "sum")
    np.testing.assert_array_equal(bench.value("acc"), [[0, 0, 0], [0, 0, 65 * 32]])
