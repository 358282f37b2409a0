"""Kernels after fork and from several threads."""

from __future__ import annotations

import os
import signal
import threading
import warnings

import numpy as np
import pytest

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1], target="cpu")
def add_one(n: int):  # type: ignore[no-untyped-def]  # the tracer gives it its type
    @T.prim_func
    def kernel(A: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 64)) as bx:
            for i in T.Parallel(64):
                C[bx * 64 + i] = A[bx * 64 + i] + 1.0

    return kernel


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_runs_old_and_new_kernels() -> None:
    data = np.zeros(10_000, np.float32)
    old = add_one(10_000)
    assert old(data).sum() == 10_000  # the parent's threads exist now
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of threads in the parent
        pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # a child that waits for threads it does not have must not wait forever
        same = old(data).sum() == 10_000
        fresh = add_one(1_234)(data[:1_234]).sum() == 1_234
        os._exit(0 if same and fresh else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert old(data).sum() == 10_000


def test_threads_get_one_kernel_and_right_results() -> None:
    kernels, wrong = [], []

    def work(value: float) -> None:
        kernel = add_one(3_333)
        kernels.append(kernel)
        for _ in range(20):
            found = kernel(np.full(3_333, value, np.float32))
            if not (found == value + 1).all():
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(float(i),)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len({id(kernel) for kernel in kernels}) == 1
