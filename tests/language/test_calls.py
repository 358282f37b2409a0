"""Words without a value give the call that they emit; as a value it is emitted where it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from executors import GPUS, INTERPRETER, holds
from refusals import refusal

import tilelang.language as T
from tilelang.errors import TileError
from tilelang.ir.expr import Call


def lines(body: Callable[[Any], object]) -> list[str]:
    """The statements of a kernel around ``body``."""

    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float16"), B: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            kit = Kit(A)
            T.sync_grid()  # what the body emits follows it
            body(kit)

    text = [line.strip() for line in kernel.script().splitlines()]
    start = next(at for at, line in enumerate(text) if line == "T.sync_grid()")
    return [line for line in text[start + 1 :] if line]


class Kit:
    def __init__(self, A: Any) -> None:
        self.bar = T.alloc_barrier([1])[0]
        self.tile = T.alloc_shared((64, 64), "float16")
        self.acc = T.alloc_fragment((64, 64), "float32")
        self.half = T.alloc_local((4,), "float16")
        self.sums = T.alloc_local((8,), "float32")
        self.map = T.create_tma_descriptor(6, 2, A, 64, 64, 2, 128, 64, 64, 1, 1, 0, 3, 2, 0)
        self.desc = T.alloc_wgmma_desc()
        T.initialize_wgmma_descriptor(self.desc, T.access_ptr(self.tile, "r"), 1, 1, 64)


# Every word whose documentation says that it returns a call, with the name it prints.
WORDS: dict[str, Callable[[Any], Any]] = {
    "tma_load": lambda k: T.tma_load(k.map, k.bar, k.tile, 0, 0),
    "fence_proxy_async": lambda k: T.fence_proxy_async(),
    "tma_store_arrive": lambda k: T.tma_store_arrive(),
    "tma_store_wait": lambda k: T.tma_store_wait(0),
    "set_max_nreg": lambda k: T.set_max_nreg(240, 1),
    "mbarrier_wait_parity": lambda k: T.mbarrier_wait_parity(k.bar, 0),
    "mbarrier_expect_tx": lambda k: T.mbarrier_expect_tx(k.bar, 64),
    "warpgroup_arrive": lambda k: T.warpgroup_arrive(),
    "warpgroup_commit_batch": lambda k: T.warpgroup_commit_batch(),
    "warpgroup_wait": lambda k: T.warpgroup_wait(1),
    "warpgroup_fence_operand": lambda k: T.warpgroup_fence_operand(k.acc),
    "wait_wgmma": lambda k: T.wait_wgmma(0),
    "barrier_wait": lambda k: T.barrier_wait(k.bar, 1),
    "increase_descriptor_offset": lambda k: T.increase_descriptor_offset(k.desc, 32),
    "ptx_mma_sm70": lambda k: T.ptx_mma_sm70(
        "m16n16k4", "row", "col", "fp16", "fp16", "fp32", k.half, 0, k.half, 0, k.sums, 0
    ),
}
PRINTED = {"mbarrier_wait_parity": "mbarrier_wait", "barrier_wait": "mbarrier_wait"}


@pytest.mark.parametrize("word", WORDS)
def test_a_call_is_emitted_once_wherever_it_is_used(word: str) -> None:
    made = WORDS[word]
    name = PRINTED.get(word, word)

    def statement(k: Kit) -> None:
        assert isinstance(made(k), Call)

    (text,) = lines(statement)
    assert text.startswith(f"T.{name}(")
    assert lines(lambda k: T.evaluate(made(k))) == [text]

    def chosen(k: Kit) -> None:
        T.if_then_else(T.shuffle_elect(64), made(k), T.evaluate(0))

    assert lines(chosen) == ["if T.shuffle_elect(64):", text]

    def later(k: Kit) -> None:
        found = made(k)
        T.pdl_trigger()
        T.evaluate(found)

    assert lines(later) == ["T.pdl_trigger()", text]


def test_either_side_may_be_a_call() -> None:
    def sides(k: Kit) -> None:
        leader = T.shuffle_elect(64)
        T.if_then_else(leader, T.fence_proxy_async(), T.tma_store_arrive())
        T.if_then_else(leader, T.evaluate(0), T.warpgroup_arrive())
        T.if_then_else(leader, T.pdl_trigger(), 0)
        T.if_then_else(1 > 2, T.pdl_trigger(), T.pdl_sync())
        T.evaluate(T.if_then_else(leader, T.wait_wgmma(0), T.evaluate(0)))

    assert lines(sides) == [
        "if T.shuffle_elect(64):", "T.fence_proxy_async()", "else:", "T.tma_store_arrive()",
        "if not T.shuffle_elect(64):", "T.warpgroup_arrive()",
        "if T.shuffle_elect(64):", "T.pdl_trigger()",
        "T.pdl_sync()",
        "if T.shuffle_elect(64):", "T.wait_wgmma(0)",
    ]  # fmt: skip


def test_the_documented_example_runs() -> None:
    """``T.if_then_else(is_leader, do_leader_work(), T.evaluate(0))``."""

    @T.prim_func
    def leaders(B: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            bar = T.alloc_barrier([2])
            count = T.alloc_shared((1,), "int32")
            if tx == 0:
                count[0] = 5
            is_leader = T.shuffle_elect(64)
            T.sync_threads()
            T.if_then_else(is_leader, T.mbarrier_arrive(bar[0]), T.evaluate(0))
            T.mbarrier_wait_parity(bar[0], 0)
            B[tx] = count[0] + tx

    want = np.arange(128, dtype=np.int32) + 5
    holds(leaders, (np.zeros(128, np.int32),), want, on=(INTERPRETER, *GPUS))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (lambda k: T.if_then_else(T.shuffle_elect(64), T.pdl_sync(), k.half[0]),
         "one side of T.if_then_else is a statement, the other a value\n"
         "  expected: two calls without values, or T.evaluate(0)\n"),
        (lambda k: T.fence_proxy_async("junk", object, -3),
         "T.fence_proxy_async takes no operands\n"
         "  expected: T.fence_proxy_async()\n"),
        (lambda k: T.tma_store_arrive("junk", 17), "T.tma_store_arrive takes no operands\n"),
        (lambda k: T.tma_store_wait(0, True, 3), "T.tma_store_wait with 3 operands\n"),
        (lambda k: T.warpgroup_fence_operand(k.acc, dtype="float99"), "unknown data type 'float99'"),
        (lambda k: T.warpgroup_fence_operand(k.acc, dtype="float16"),
         "the dtype of T.warpgroup_fence_operand is not that of its accumulator\n"
         "  expected: float32, of `"),
    ],
)  # fmt: skip
def test_invalid_operands_of_an_intrinsic_are_an_error(
    body: Callable[[Any], Any], text: str
) -> None:
    assert refusal(TileError, lines, body).startswith(text)


def test_a_call_of_a_block_that_has_ended_cannot_be_moved() -> None:
    kept: list[Any] = []

    def keep(call: Any) -> None:  # what it changes is not a name of the kernel
        kept.append(call)

    def first() -> Any:
        return kept[0]

    with pytest.raises(TileError) as error:

        @T.prim_func
        def ended(B: T.Tensor((128,), "int32")):
            with T.Kernel(1, threads=128):
                for i in T.serial(4):
                    keep(T.pdl_sync())
                T.evaluate(first())

    assert str(error.value).startswith(
        "the call `T.pdl_sync()` is used after its block\n"
        "  expected: a use in the same block, or a call of its own here\n"
    )
