"""Tensors that a kernel writes have a place for each element."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.errors import KernelArgumentError
from tilelang.runtime.overlap import shared_element
from tilelang.runtime.signature import WHOLE, LaunchSpec, Symbol, tensor

from .conftest import Harness


def test_two_elements_at_one_address_are_found() -> None:
    shape = (2, 1, 3)
    for strides in itertools.product((-3, 0, 1, 2, 4), repeat=3):
        places = [sum(np.multiply(index, strides)) for index in np.ndindex(shape)]
        found = shared_element(shape, strides)
        assert (found is not None) == (len(set(places)) < len(places)), strides
        if found is not None:
            first, second = (sum(np.multiply(index, strides)) for index in found)
            assert found[0] != found[1] and first == second


def rows() -> Any:
    step, other = T.dynamic("step"), T.dynamic("other")

    @T.prim_func
    def main(A: T.StridedTensor((4,), (1,), "float32"),
             B: T.StridedTensor((3, 4), (step, other), "float32")):  # fmt: skip
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(3, 4):
                B[i, j] = A[j] + i

    return main


@pytest.mark.parametrize("backend", ["c", "python", "interpret"])
def test_results_that_share_memory_are_refused(backend: str) -> None:
    kernel = tilelang.compile(rows(), target="cpu", execution_backend=backend)
    a, memory = np.arange(4, dtype=np.float32), np.zeros(64, np.float32)
    for strides in ((4, 1), (1, 3), (2, 9), (8, 2)):
        b = np.lib.stride_tricks.as_strided(memory, (3, 4), tuple(4 * s for s in strides))
        kernel(a, b)
        np.testing.assert_array_equal(b, a + np.arange(3, dtype=np.float32)[:, None])
    b = np.lib.stride_tricks.as_strided(memory, (3, 4), (4, 4))
    assert refusal(KernelArgumentError, kernel, a, b) == (
        "kernel main input B has elements that share memory, and the kernel writes it: "
        "those at (0, 1) and (1, 0) are one\n"
        "  expected: an address of its own for each element\n"
        "  got: shape (3, 4), strides (1, 1)\n"
        "  hint: pass B.clone() or B.contiguous() of torch, np.array(B) for numpy"
    )
    kernel(np.broadcast_to(np.float32(1), (4,)).copy(), np.zeros((3, 4), np.float32))


# Two tensors of one memory, and what they have in common.
SHARED: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], str]] = {
    "one tensor": (lambda x: x[:4], lambda x: x[:4], "all"),
    "one with strides": (lambda x: x[::2], lambda x: x[::2], "all"),
    "another place": (lambda x: x[:4], lambda x: x[1:5], "some"),
    "other strides": (lambda x: x[:4], lambda x: x[:8:2], "some"),
    "fewer elements": (lambda x: x[:4], lambda x: x[:3], "some"),
    "one after another": (lambda x: x[:4], lambda x: x[4:], "none"),
    "by turns": (lambda x: x[::2], lambda x: x[1::2], "none"),
}


@pytest.mark.parametrize("written", [(True, False), (False, True), (False, False)])
@pytest.mark.parametrize("other", ["float32", "int32"])
@pytest.mark.parametrize("how", SHARED)
def test_tensors_with_some_elements_in_common_go_to_a_kernel_for_them(
    how: str, other: str, written: tuple[bool, bool], harness: Harness
) -> None:
    first, second, common = SHARED[how]
    params = [
        tensor(name, kind, ((f"${at}",),), ((f"${at + 2}",),), written=own)
        for at, (name, kind, own) in enumerate(zip("AB", ("float32", other), written))
    ]
    asked: list[tuple[Any, bool]] = []

    def narrow(limits: Any, shared: bool) -> Callable[..., Any]:
        asked.append((limits, shared))
        return lambda *args: "another kernel"

    spec = LaunchSpec("two", tuple(params), tuple(map(Symbol, "mnst")), noalias=WHOLE)
    call, kernel = harness.make(spec, narrow)
    memory = np.zeros(8, np.float32)
    got = call(first(memory), second(memory).view(other))
    another = common == "some" or (common == "all" and other == "int32")
    assert got == ("another kernel" if another and any(written) else None)
    assert asked == ([((), True)] if got else [])
    assert len(kernel.calls) == (got is None)
    if harness.kind == "c" and "one tensor" == how and other == "float32":
        assert not harness.slow_calls
