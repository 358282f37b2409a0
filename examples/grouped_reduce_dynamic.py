"""Sums and maxima of groups of rows; the number of rows is dynamic."""

from __future__ import annotations

from typing import Any, no_type_check

import numpy as np

import tilelang
import tilelang.language as T


def make(backend: str):
    """Compile the kernel for the execution backend ``backend``."""

    @tilelang.lazy_jit(target="cpu", execution_backend=backend)
    @no_type_check  # the tracer reads annotations in the body
    def grouped_reduce(
        X: T.Tensor[[T.dyn["rows"], int], Any],
        offsets: T.Tensor[[T.dyn["ends"]], T.int32],
        block_M: int = 16,
    ):
        _, N = X.shape
        (ends,) = offsets.shape
        sums = T.empty((ends - 1, N), T.float32)
        tops = T.empty((ends - 1, N), X.dtype)
        with T.Kernel(ends - 1, threads=128) as group:
            x = T.alloc_fragment((block_M, N), X.dtype)
            total = T.alloc_fragment((N,), T.float32)
            top = T.alloc_fragment((N,), X.dtype)
            wide = T.alloc_fragment((block_M, N), T.float32)
            start = offsets[group]
            end = offsets[group + 1]
            T.clear(total)
            T.fill(top, -T.infinity(X.dtype))
            for k in T.serial(T.ceildiv(end - start, block_M)):
                for i, j in T.Parallel(block_M, N):
                    row = start + k * block_M + i
                    inside = row < end
                    wide[i, j] = T.if_then_else(inside, X[row, j], 0)
                    x[i, j] = T.if_then_else(inside, X[row, j], -T.infinity(X.dtype))
                T.reduce_sum(wide, total, dim=0, clear=False)
                T.reduce_max(x, top, dim=0, clear=False)
            T.copy(total, sums[group, 0])
            T.copy(top, tops[group, 0])
        return sums, tops

    return grouped_reduce


def main(backend: str = "auto") -> None:
    """Run one compiled kernel on three batches of different sizes."""
    grouped_reduce = make(backend)
    rng = np.random.default_rng(0)
    for sizes in ([3, 17, 40], [1, 0, 5, 16, 2], [64]):
        offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
        x = rng.integers(-8, 8, (int(offsets[-1]), 24)).astype(np.float16)
        sums, tops = grouped_reduce(x, offsets)
        for group in range(len(sizes)):
            rows = x[offsets[group] : offsets[group + 1]].astype(np.float32)
            np.testing.assert_array_equal(sums[group], rows.sum(axis=0))
            np.testing.assert_array_equal(tops[group], rows.max(axis=0, initial=-np.inf))
    print("grouped_reduce_dynamic: three batches of groups agree with numpy exactly")


if __name__ == "__main__":
    main()
