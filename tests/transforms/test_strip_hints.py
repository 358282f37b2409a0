"""Keys that mean nothing go before the first pass; a core has no pipelines."""

from __future__ import annotations

from typing import Any

import pytest
from contexts import CPU, SM_80
from script_text import body_of, text

import tilelang.language as T
from tilelang.ir.levels import with_known_hints
from tilelang.ir.stmt import PrimFunc
from tilelang.transforms.normalize.legalize import strip_hints


def hinted() -> PrimFunc:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=1):
            with T.attr("default", "own", 1):
                A[0] = 1
            for i in T.serial(8, annotations={"own": 2}):
                A[i] = i
            for i in T.Pipelined(8, num_stages=2):
                A[i] = i + 1
            for i in T.unroll(8, unroll_factor=4, annotations={"own": 3}):
                A[i] = i + 2

    return kernel


PIPELINED = {CPU: "for i in range(8):", SM_80: "for i in T.Pipelined(8, num_stages=2):"}


@pytest.mark.parametrize("context", PIPELINED, ids=["cpu", "cuda"])
def test_only_keys_that_passes_know_are_left(context: Any) -> None:
    assert body_of(strip_hints(hinted(), context)) == text(f"""
        A[0] = 1
        for i in range(8):
            A[i] = i
        {PIPELINED[context]}
            A[i] = i + 1
        for i in T.unroll(8, unroll_factor=4):
            A[i] = i + 2
        """)


def test_a_program_without_hints_is_unchanged() -> None:
    once = strip_hints(hinted(), CPU)
    assert strip_hints(once, CPU) is once
    assert with_known_hints(once.body, "tile") is once.body
