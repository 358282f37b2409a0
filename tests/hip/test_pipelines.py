"""Pipelined loops on AMD's GPUs: tiles have versions, and threads meet once per iteration."""

from __future__ import annotations

import numpy as np
import pytest
from gemm_program import gemm_program
from hip.programs import small_numbers
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang import interpret
from tilelang.compiler import lower
from tilelang.errors import TileError
from tilelang.ir import schedule as H, stmt as S
from tilelang.ir.stmt import PrimFunc
from tilelang.options import Options
from tilelang.target import parse_target


def chained(stages: int, steps: int = 5) -> PrimFunc:
    return gemm_program(64, 64, 32 * steps, stages=stages)


@pytest.mark.parametrize("chip", ["gfx942", "gfx1201"])
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_pipelined_products(stages: int, chip: str) -> None:
    made = lower(chained(stages), parse_target(f"hip -mcpu={chip}"), Options())
    a, left = small_numbers((64, 160), "float16", 1)
    b, right = small_numbers((160, 64), "float16", 2)
    c = np.zeros((64, 64), np.float32)
    interpret.run(made, [a, b, c], late_copies=True)
    np.testing.assert_array_equal(c, left @ right)
    loops = [node for node in S.walk(made.body) if isinstance(node, S.For) and node.var.name == "k"]
    meetings = sum(
        isinstance(node, S.Eval) and "sync_threads" in repr(node.value)
        for node in S.walk(loops[0].body)
    )
    assert meetings == (2 if stages == 1 else 1)
    assert not any(isinstance(node, H.Pipeline) for node in S.walk(made.body))


def test_too_much_lds_is_an_error() -> None:
    @T.prim_func
    def func(A: T.Tensor((256, 128), "float32"), B: T.Tensor((256, 128), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((256, 128), "float32")
            T.copy(A, tile)
            T.copy(tile, B)

    with pytest.raises(TileError) as failure:
        lower(func, parse_target("hip -mcpu=gfx942"), Options())
    assert "131072" in str(failure.value) and "65536" in str(failure.value)
    lower(func, parse_target("hip -mcpu=gfx950"), Options())


@pytest.mark.parametrize("target", ["hip -mcpu=gfx942", "hip -mcpu=gfx1100", "metal"])
def test_a_numbered_barrier_of_all_threads_is_the_blocks(target: str) -> None:
    @T.prim_func
    def func(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((64,), "int32")
            tx = T.get_thread_binding()
            tile[tx] = tx
            T.sync_threads(3, 64)
            A[tx] = tile[63 - tx]

    kernel = tilelang.compile(func, target=target, execution_backend="emulator")
    report = tilelang.sanitize(kernel, np.zeros(64, np.int32))
    assert report.ok, str(report)
    np.testing.assert_array_equal(report.arguments[0], np.arange(64)[::-1])


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (lambda: T.sync_threads(1, 32),
         "a barrier of some threads of a block is not available on HIP\n"
         "  expected: T.sync_threads() by all threads of the block, 64 here\n"),
        (lambda: T.sync_grid(),
         "T.sync_grid is not available on HIP\n"
         "  expected: kernels one after the other: T.Kernel a second time in the same program\n"),
    ],
    ids=["named barrier", "grid"],
)  # fmt: skip
def test_intrinsics_of_other_vendors_name_a_replacement(word, message: str) -> None:
    from tilelang.compiler import compile as text_of

    @T.prim_func
    def func(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            word()
            A[T.get_thread_binding()] = 1.0

    assert refusal(TileError, text_of, func, parse_target("hip -mcpu=gfx942")).startswith(message)
