"""Barriers are initialised before their use, where all threads come."""

from __future__ import annotations

import pytest
from contexts import SM_80, SM_90

import tilelang.language as T
from tilelang.errors import TileUnsupportedError
from tilelang.ir import stmt as S
from tilelang.ir.stmt import PrimFunc
from tilelang.target import Context, Target
from tilelang.transforms.sync.initialize_barriers import initialize_barriers


def body(func: PrimFunc) -> list[str]:
    """The statements of the kernel, from its first allocation."""
    launch = next(
        stmt for stmt in S.walk(initialize_barriers(func, SM_80).body) if isinstance(stmt, S.Launch)
    )
    return str(launch.body).splitlines()


@T.prim_func
def again(A: T.Tensor((8,), "int32")):
    with T.Kernel(1, threads=64):
        for k in T.serial(3):
            bar = T.alloc_barrier(64)
            T.barrier_arrive(bar)
            A[k] = 1


def test_a_loop_of_all_threads_makes_its_barriers_anew() -> None:
    found = body(again)
    assert found[0].startswith("for k") and found[2] == "    if tx == 0:"


def test_a_loop_of_some_threads_is_refused() -> None:
    @T.prim_func
    def apart(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            for k in T.serial(T.get_thread_binding()):
                bar = T.alloc_barrier(64)
                T.barrier_arrive(bar)
                A[k] = 1

    with pytest.raises(TileUnsupportedError) as error:
        initialize_barriers(apart, SM_90)
    assert str(error.value).startswith(
        "the barrier `bar` is allocated in a loop that not all threads run together\n"
        "  expected: an allocation before the loop\n"
        "  got: a loop whose iterations some threads of the block leave out\n"
    )


def test_an_old_target_is_refused() -> None:
    with pytest.raises(TileUnsupportedError) as error:
        initialize_barriers(again, Context(Target("cuda", "sm_75")))
    assert str(error.value).startswith("the barrier `bar` is not available on sm_75\n")


def test_a_kernel_without_barriers_is_left_alone() -> None:
    @T.prim_func
    def plain(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=64):
            A[0] = 1

    assert initialize_barriers(plain, SM_80) is plain
