"""What the model of a GPU knows of blocks: which fit on a multiprocessor together, and what they wait for."""

from __future__ import annotations

from typing import Any

import pytest
from gemm_program import gemm_program
from tensor_types import F16, F32

import tilelang.language as T
from tilelang.autotuner.model import estimate
from tilelang.autotuner.multiprocessors import (
    MACHINES,
    Flow,
    Launch,
    has_producer,
    is_persistent,
    on_multiprocessors,
    resident,
)
from tilelang.target import parse_target

H100, A100 = parse_target("cuda -arch=sm_90a"), parse_target("cuda -arch=sm_80")


def product(
    M: int, N: int, K: int, tile: tuple[int, int, int], stages: int, threads: int,
    out: str = "float16",
) -> Any:  # fmt: skip
    return gemm_program(M, N, K, tile, stages, threads, out=out)


def chained(rows: int, threads: int) -> Any:
    """A product whose left factor is the result of another one, as in attention."""

    @T.prim_func
    def kernel(Q: F16[1024, 64], K: F16[1024, 64], O: F32[1024, 64]):
        with T.Kernel(1024 // rows, threads=threads) as b:
            q = T.alloc_shared((rows, 64), "float16")
            k = T.alloc_shared((64, 64), "float16")
            s = T.alloc_fragment((rows, 64), "float32")
            w = T.alloc_fragment((rows, 64), "float16")
            o = T.alloc_fragment((rows, 64), "float32")
            T.clear(o)
            T.copy(Q[b * rows, 0], q)
            for step in T.Pipelined(16, num_stages=2):
                T.copy(K[step * 64, 0], k)
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True)
                T.copy(s, w)
                T.gemm(w, k, o)
            T.copy(o, O[b * rows, 0])

    return kernel


def launch(func: Any, groups: bool = True) -> Launch:
    flow = Flow({}, groups)
    flow.visit(func.body, 1.0, {})
    (found,) = flow.launches
    return found


def test_work_and_tiles_of_a_product() -> None:
    found = launch(product(1024, 512, 256, (128, 128, 64), 3, 256))
    assert (found.blocks, found.threads, found.stages, found.steps) == (32, 256, 3, 32 * 4)
    assert found.products == 2 * 1024 * 512 * 256
    assert found.loaded == 32 * 4 * 2 * 128 * 64 * 2 + 1024 * 512 * 2
    # Each of two warpgroups reads its 64 rows once and all columns.
    read = 32 * 4 * (128 + 2 * 128) * 64 * 2
    assert found.shared == read + 32 * 4 * 2 * 128 * 64 * 2
    assert found.tiles == 128 * 128 * 4 and found.fed and found.multiplied == 1


@pytest.mark.parametrize(
    ("stages", "threads", "tile", "roles", "blocks"),
    [(3, 256, (128, 128, 64), True, 1), (3, 128, (64, 64, 64), False, 4),
     (1, 256, (128, 128, 64), False, 2), (4, 128, (64, 256, 64), True, 1)],
)  # fmt: skip
def test_a_producer_uses_the_register_file(
    stages: int, threads: int, tile: tuple[int, int, int], roles: bool, blocks: int
) -> None:
    found = launch(product(4096, 4096, 4096, tile, stages, threads))
    assert has_producer(found, H100) == roles
    assert resident(found, H100)[0] == blocks
    assert not has_producer(launch(product(4096, 4096, 4096, tile, stages, threads), False), A100)


def test_blocks_that_loop_over_tiles() -> None:
    def through(**more: Any) -> bool:
        arguments = {"M": 4096, "N": 4096, "K": 512, "tile": (128, 256, 64), "stages": 3,
                     "threads": 256, **more}  # fmt: skip
        return is_persistent(launch(product(**arguments)), MACHINES[90], H100)

    assert through()
    assert not through(M=512, N=1024)  # fewer tiles than processors
    assert not through(out="float32")
    assert not through(threads=128)


def test_values_that_do_not_fit_into_registers_cost() -> None:
    assert resident(launch(product(4096, 4096, 4096, (256, 128, 64), 2, 128)), H100)[1] < 0
    wide, narrow = (
        estimate(product(4096, 4096, 4096, (256, 128, 64), 2, threads), H100).milliseconds
        for threads in (128, 256)
    )
    assert wide > 1.5 * narrow


def test_rows_of_two_warpgroups_are_exchanged() -> None:
    assert launch(chained(64, 128)).exchanged == 0 == launch(chained(128, 256)).exchanged
    assert launch(chained(64, 256)).exchanged == 1024 // 64 * 16 * 64 * 64
    slow, fast = (estimate(chained(64, threads), H100).milliseconds for threads in (256, 128))
    assert slow > fast


def test_a_program_without_a_launch_takes_no_time() -> None:
    @T.prim_func
    def nothing(A: F32[4]):
        T.evaluate(0)

    assert on_multiprocessors(nothing, H100)["launches"] == 0.0
    assert estimate(nothing, H100).milliseconds == 0.0
