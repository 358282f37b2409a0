"""Arguments of a call that share memory: what a kernel writes is what it reads, on every executor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
EXECUTORS = {
    "interpret": {"target": "cpu", "execution_backend": "interpret"},
    "cpu": {"target": "cpu"},
    "cuda": {"target": "cuda -arch=sm_80", "execution_backend": "emulator"},
    "hip": {"target": "hip -mcpu=gfx942", "execution_backend": "emulator"},
    "metal": {"target": "metal", "execution_backend": "emulator"},
}


@T.prim_func
def sums(A: T.Tensor((100,), "int32"), B: T.Tensor((100,), "int32")):
    with T.Kernel(1, threads=1):
        for i in T.serial(99):
            B[i + 1] = A[i] + A[i + 1]


def shifted(memory: Any, by: int) -> Any:
    """What ``sums`` leaves of numbers that A begins at, and B ``by`` elements behind."""
    left = [int(x) for x in memory]
    for i in range(99):
        left[by + i + 1] = (left[i] + left[i + 1] + 2**31) % 2**32 - 2**31
    return np.array(left, np.int32)


@pytest.mark.parametrize("by", [0, 3])
@pytest.mark.parametrize("executor", EXECUTORS)
def test_what_one_argument_writes_another_one_reads(executor: str, by: int) -> None:
    kernel = tilelang.compile(sums, **EXECUTORS[executor])  # type: ignore[call-overload]  # options by name
    memory = np.arange(100 + by, dtype=np.int32)
    wanted = shifted(memory, by)
    apart = np.arange(100, dtype=np.int32)
    kernel(apart, apart.copy())
    assert apart[99] == 99
    kernel(memory[:100], memory[by:])
    np.testing.assert_array_equal(memory, wanted)


@pytest.mark.parametrize(("framework", "by"), [("numpy", 2), ("torch", 0)])
def test_sanitize_keeps_what_arguments_share(framework: str, by: int) -> None:
    memory: Any = np.arange(100 + by, dtype=np.int32)
    wanted = shifted(memory, by)
    if framework == "torch":
        memory = pytest.importorskip("torch", reason="arguments of torch").from_numpy(memory)
    report = tilelang.sanitize(sums, memory[:100], memory[by:])
    assert report.ok
    np.testing.assert_array_equal(np.asarray(report.arguments[0]), wanted[:100])
    np.testing.assert_array_equal(np.asarray(report.arguments[1]), wanted[by:])
    np.testing.assert_array_equal(np.asarray(memory), np.arange(100 + by))
