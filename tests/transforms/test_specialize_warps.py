"""Warp specialisation: what the roles are, when there are none, and that results stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import SM_90A, compiled, holds
from schedule_steps import apply_part
from tensor_types import F16, F32, I32
from test_mechanisms import choosing
from test_pipeline import notes

import tilelang
import tilelang.language as T
from tilelang.compiler import lower
from tilelang.ir import schedule as H, stmt as S
from tilelang.ir.legal import check
from tilelang.options import Options
from tilelang.target import Context, parse_target
from tilelang.transforms.normalize.legalize import apply_register_hints
from tilelang.transforms.normalize.simplify import simplify_func
from tilelang.transforms.schedule.specialize_warps import REGISTERS, TIGHT

HOPPER = parse_target("cuda -arch=sm_90a")
COPIES = "mbarrier"


def by_roles(func: S.PrimFunc, options: Options | None = None, how: str = COPIES) -> S.PrimFunc:
    """After the pass, with pipelines by a mechanism."""
    context = Context(HOPPER, options or Options())
    with choosing(how):
        made = simplify_func(apply_register_hints(func, context), context)
        made = apply_part(made, context)
    check(made, "scheduled")
    return made


def roles_of(func: S.PrimFunc) -> list[H.Role]:
    return [node for node in S.walk(func.body) if isinstance(node, H.Role)]


def product(  # type: ignore[no-untyped-def]  # a traced function
    *, tiles: tuple[int, int] = (2, 2), block: tuple[int, int, int] = (128, 64, 32), K: Any = 128,
    stages: int = 3, threads: int = 256, blocks: int = 3, extra: Any = lambda **names: None,
):  # fmt: skip
    """A product whose blocks take several tiles each; ``extra`` adds statements to the kernel."""
    down, across = tiles
    bm, bn, bk = block
    M, N = down * bm, across * bn

    @T.prim_func
    def main(A: F16[M, K], B: F16[K, N], C: F32[M, N]):
        with T.Kernel(blocks, threads=threads) as bid:
            a = T.alloc_shared((bm, bk), "float16")
            b = T.alloc_shared((bk, bn), "float16")
            c = T.alloc_fragment((bm, bn), "float32")
            extra(A=A, a=a, C=C)
            for tile in T.serial(bid, down * across, blocks):
                bx = tile // across
                by = tile % across
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(K, bk), num_stages=stages):
                    T.copy(A[bx * bm, k * bk], a)
                    T.copy(B[k * bk, by * bn], b)
                    T.gemm(a, b, c)
                T.copy(c, C[bx * bm, by * bn])

    return main


# -- the rule --
def reads_thread(**names: Any) -> None:
    for i in T.Parallel(64):
        names["C"][i, 0] = T.get_thread_binding()


def meets(**names: Any) -> None:
    T.sync_threads()


def writes_source(**names: Any) -> None:
    T.fill(names["A"][0:8, 0:8], 1)


REFUSED = {
    "it uses the index of the thread": {"extra": reads_thread},
    "it synchronizes threads itself with `sync_threads`": {"extra": meets},
    "`A` is written in the kernel": {"extra": writes_source},
    "192 threads are not a whole number of warpgroups": {"threads": 192},
    "1024 threads and a producer exceed a block's limit": {"threads": 1024},
    "fewer estimated cycles than with a producer warpgroup": {"threads": 128, "blocks": 1330},
    "240 registers for consumers and 32 for a producer are too many": {
        "threads": 384, "block": (192, 64, 32),
        "extra": lambda **names: T.annotate_consumer_reg_alloc(240),
    },
    "512 threads begin with 128 registers each, too few for wgmma": {
        "threads": 384, "block": (192, 256, 32),
    },
}  # fmt: skip


@pytest.mark.parametrize("why", REFUSED)
def test_kernels_that_keep_one_role(why: str) -> None:
    made = by_roles(product(**REFUSED[why]))
    assert not roles_of(made)
    (note,) = notes(made)
    assert note.endswith(f"; one role: {why}")
    assert any(isinstance(node, H.Pipeline) for node in S.walk(made.body))


def test_options_keep_one_role() -> None:
    for options in (Options(no_roles=True), Options(no_wgmma=True)):
        (note,) = notes(by_roles(product(), options))
        assert note.endswith("; one role: warp specialization is not available")


def test_a_loop_without_a_product_keeps_one_role() -> None:
    @T.prim_func
    def sums(A: F32[1024, 64], O: F32[64, 64]):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((64, 64), "float32")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(16, num_stages=3):
                T.copy(A[k * 64, 0], a)
                for i, j in T.Parallel(64, 64):
                    c[i, j] += a[i, j]
            T.copy(c, O)

    (note,) = notes(by_roles(sums))
    assert note.endswith("; one role: no wgmma product reads a tile that is copied ahead")


def test_bounds_that_consumers_compute_keep_one_role() -> None:
    @T.prim_func
    def found(A: F16[128, 512], N: I32[64], C: F32[128, 128]):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((128, 32), "float16")
            n = T.alloc_shared((64,), "int32")
            c = T.alloc_fragment((128, 128), "float32")
            T.copy(N, n)
            T.clear(c)
            for k in T.Pipelined(n[3], num_stages=3):
                T.copy(A[0, k * 32], a)
                T.gemm(a, a, c, transpose_B=True)
            T.copy(c, C)

    (note,) = notes(by_roles(found))
    assert note.endswith("; one role: a copy depends on computed values")


def test_a_schedule_that_cannot_be_proved_keeps_one_role() -> None:
    why = "deadlock: threads wait for each other"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tilelang.transforms.schedule.specialize_warps.refusal", lambda node: why)
        made = by_roles(product())
    assert not roles_of(made) and notes(made)[0].endswith(f"; one role: {why}")


# -- registers --


@pytest.mark.parametrize(("rows", "budget"), [(128, (232, 40)), (256, (240, 24))])
def test_tiles_that_leave_few_registers_take_those_of_the_producer(
    rows: int, budget: tuple[int, int]
) -> None:
    producer, consumers = roles_of(by_roles(product(block=(rows, 256, 32), threads=256)))
    assert (consumers.registers, producer.registers) == budget


HINTS = {
    "no_set_max_nreg": (lambda **names: T.no_set_max_nreg(), (None, None)),
    "disable": (lambda **names: T.disable_warp_group_reg_alloc(), (None, None)),
    "producer": (lambda **names: T.annotate_producer_reg_dealloc(24), (232, 24)),
    "consumer": (lambda **names: T.annotate_consumer_reg_alloc(200), (200, 40)),
}


@pytest.mark.parametrize("hint", HINTS)
def test_hints_about_registers(hint: str) -> None:
    extra, budget = HINTS[hint]
    producer, consumers = roles_of(by_roles(product(extra=extra)))
    assert (consumers.registers, producer.registers) == budget


# -- results --
def small(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(shape[0]).integers(-3, 4, shape).astype(np.float16)


def same(func: Any, *given: Any) -> None:
    """The program by roles gives the last array, with checks of every access."""
    with choosing(COPIES):
        assert "threadIdx.x" in compiled(func, SM_90A).get_kernel_source()
        assert roles_in(func)
        holds(func, given[:-1] + (0 * given[-1],), given[-1], on=(SM_90A,))


def roles_in(func: Any) -> bool:
    found: list[bool] = []

    def look(name: str, made: S.PrimFunc) -> None:
        if name == "schedule_launches":
            found.append(bool(roles_of(made)))

    lower(func, HOPPER, Options(), look)
    return found == [True]


@pytest.mark.parametrize(
    ("threads", "rows", "K", "blocks"), [(256, 128, 64, 1), (128, 128, 320, 3), (384, 192, 224, 3)]
)
def test_products_of_consecutive_tiles(threads: int, rows: int, K: int, blocks: int) -> None:
    func = product(K=K, threads=threads, block=(rows, 64, 32), blocks=blocks)
    A, B = small(2 * rows, K), small(K, 128)
    same(func, A, B, A.astype(np.float32) @ B.astype(np.float32))


def test_explain_names_roles_and_registers() -> None:
    with choosing(COPIES):
        text = tilelang.compile(product(), target=HOPPER).explain()
    assert "blocks of 384 threads" in text
    assert "registers: 232 for consumers, 40 for the producer" in text
    assert "filled by a producer warpgroup, used by 2 warpgroups" in text


def test_a_block_has_the_registers_that_its_roles_ask_for() -> None:
    """A warpgroup that asks for registers that no other gives back waits for ever: those of the
    whole multiprocessor are not the block's, which starts with a multiple of eight a thread."""
    for warpgroups, (consumer, producer) in (*REGISTERS.items(), *TIGHT.items()):
        threads = 128 * (warpgroups + 1)
        start = min(65536 // threads // 8 * 8, 255)
        assert consumer * 128 * warpgroups + producer * 128 <= start * threads
        assert producer < start < consumer
