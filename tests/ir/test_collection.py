"""The collector of garbage while kernels are traced."""

from __future__ import annotations

import gc

import pytest

import tilelang.language as T
from tilelang.ir.garbage_collection import garbage_collection_paused


def test_garbage_collection_is_paused_while_tracing() -> None:
    seen = []

    @T.macro
    def look() -> None:
        seen.append(gc.isenabled())

    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            look()
            A[0] = 1

    assert kernel.name == "kernel"
    assert seen == [False] and gc.isenabled()


def test_collection_is_restored_after_errors_and_stays_off_for_the_caller() -> None:
    with pytest.raises(ValueError, match="inside"), garbage_collection_paused():
        raise ValueError("inside")
    assert gc.isenabled()
    gc.disable()
    try:
        with garbage_collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
