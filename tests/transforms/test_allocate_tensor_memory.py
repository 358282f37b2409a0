"""Tensor memory is asked for by one warp, known to all threads, and given back."""

from __future__ import annotations

import pytest
from contexts import SM_90

import tilelang.language as T
from tilelang.errors import TileUnsupportedError
from tilelang.ir import stmt as S
from tilelang.target import Context, Target
from tilelang.transforms.sync.allocate_tensor_memory import allocate_tensor_memory


@T.prim_func
def held(A: T.Tensor((8,), "int32")):
    with T.Kernel(1, threads=128):
        T.alloc_tmem((128, 80), "float32")
        A[0] = 1


def test_the_first_warp_allocates_and_frees() -> None:
    func = allocate_tensor_memory(held, Context(Target("cuda", "sm_100a")))
    launch = next(stmt for stmt in S.walk(func.body) if isinstance(stmt, S.Launch))
    assert isinstance(launch.body, S.Seq)
    kinds = [type(stmt).__name__ for stmt in launch.body.stmts]
    meeting = ["Eval"] * 3
    assert kinds == ["Alloc", "If", *meeting, "View", "Store", *meeting, "If"]
    calls = [stmt.value for stmt in S.walk(launch.body) if isinstance(stmt, S.Eval)]
    assert [call.op for call in calls] == [
        "tmem_allocate",
        "tcgen05_before_thread_sync", "sync_threads", "tcgen05_after_thread_sync",
        "tcgen05_before_thread_sync", "sync_threads", "tcgen05_after_thread_sync",
        "tmem_release",
    ]  # fmt: skip
    assert calls[0].attr("columns") == calls[-1].attr("columns") == 128  # a power of two


def test_a_target_without_it_is_refused() -> None:
    with pytest.raises(TileUnsupportedError) as error:
        allocate_tensor_memory(held, SM_90)
    assert "is not available on sm_90\n  expected: a target with sm_100a" in str(error.value)
