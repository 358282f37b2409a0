"""Flash attention forward: softmax(Q K^T / sqrt(d)) V without storing the scores."""

from __future__ import annotations

import math

import numpy as np

import tilelang
import tilelang.language as T

LOG2E = 1.44269504088896


def make(backend: str):
    """Compile the kernel for the execution backend ``backend``."""

    @tilelang.jit(out_idx=[3], target="cpu", execution_backend=backend)
    def flash_attention(
        batch: int,
        heads: int,
        length: int,
        dim: int,
        causal: bool,
        block_M: int = 32,
        block_N: int = 32,
    ):
        shape = (batch, length, heads, dim)
        scale = LOG2E / math.sqrt(dim)

        @T.macro
        def scores(Q_shared, K, K_shared, acc, k, bx, by, bz):
            """acc = Q K^T for one tile of K, with -inf for masked keys."""
            T.copy(K[bz, k * block_N : (k + 1) * block_N, by, :], K_shared)
            for i, j in T.Parallel(block_M, block_N):
                column = k * block_N + j
                seen = column < length
                if causal:
                    seen = T.And(seen, bx * block_M + i >= column)
                acc[i, j] = T.if_then_else(seen, 0, -T.infinity("float32"))
            T.gemm(Q_shared, K_shared, acc, transpose_B=True)

        @T.macro
        def rescale(acc, acc_cast, top, before, factor, part, total):
            """Exponentials relative to the new maximum; ``factor`` rescales the sums so far."""
            T.copy(top, before)
            T.reduce_max(acc, top, dim=1, clear=False)
            for i in T.Parallel(block_M):
                factor[i] = T.exp2((before[i] - top[i]) * scale)
            for i, j in T.Parallel(block_M, block_N):
                acc[i, j] = T.exp2((acc[i, j] - top[i]) * scale)
            T.reduce_sum(acc, part, dim=1)
            for i in T.Parallel(block_M):
                total[i] = total[i] * factor[i] + part[i]
            T.copy(acc, acc_cast)

        @T.prim_func
        def kernel(
            Q: T.Tensor(shape, "float16"),
            K: T.Tensor(shape, "float16"),
            V: T.Tensor(shape, "float16"),
            Output: T.Tensor(shape, "float16"),
        ):
            with T.Kernel(T.ceildiv(length, block_M), heads, batch, threads=128) as (bx, by, bz):
                Q_shared = T.alloc_shared((block_M, dim), "float16")
                K_shared = T.alloc_shared((block_N, dim), "float16")
                V_shared = T.alloc_shared((block_N, dim), "float16")
                acc = T.alloc_fragment((block_M, block_N), "float32")
                acc_cast = T.alloc_fragment((block_M, block_N), "float16")
                out = T.alloc_fragment((block_M, dim), "float32")
                top = T.alloc_fragment((block_M,), "float32")
                before = T.alloc_fragment((block_M,), "float32")
                factor = T.alloc_fragment((block_M,), "float32")
                part = T.alloc_fragment((block_M,), "float32")
                total = T.alloc_fragment((block_M,), "float32")
                T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], Q_shared)
                T.clear(out)
                T.clear(total)
                T.fill(top, -T.infinity("float32"))
                steps = T.ceildiv(length, block_N)
                if causal:
                    steps = T.min(steps, T.ceildiv((bx + 1) * block_M, block_N))
                for k in T.Pipelined(steps, num_stages=2):
                    scores(Q_shared, K, K_shared, acc, k, bx, by, bz)
                    rescale(acc, acc_cast, top, before, factor, part, total)
                    for i, j in T.Parallel(block_M, dim):
                        out[i, j] *= factor[i]
                    T.copy(V[bz, k * block_N : (k + 1) * block_N, by, :], V_shared)
                    T.gemm(acc_cast, V_shared, out)
                for i, j in T.Parallel(block_M, dim):
                    out[i, j] /= total[i]
                T.copy(out, Output[bz, bx * block_M : (bx + 1) * block_M, by, :])

        return kernel

    return flash_attention


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    """Compute attention in float32 with the whole matrix of scores."""
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    scores = np.einsum("bihd,bjhd->bhij", q, k) / math.sqrt(q.shape[-1])
    if causal:
        length = scores.shape[-1]
        scores = np.where(np.tril(np.ones((length, length), bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return np.einsum("bhij,bjhd->bihd", weights, v)


def main(backend: str = "auto") -> None:
    """Compare with and without the causal mask; the length is not a multiple of the tiles."""
    batch, heads, length, dim = 2, 2, 80, 32
    attention = make(backend)
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, batch, length, heads, dim)).astype(np.float16)
    for causal in (False, True):
        out = attention(batch, heads, length, dim, causal)(q, k, v)
        np.testing.assert_allclose(out, reference(q, k, v, causal), rtol=5e-3, atol=5e-3)
    print(f"flash_attention: {batch}x{length}x{heads}x{dim}, full and causal, agrees with numpy")


if __name__ == "__main__":
    main()
