"""A tiled matrix product with a fused epilogue and flash attention, on this machine's CPU.

Results and times are compared with numpy. Without a C compiler the interpreter runs the same
programs on smaller sizes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1], target="cpu")
def matmul_bias_gelu(M, N, K, block_M, block_N, block_K):
    """C = gelu(A @ B + bias)."""

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float32"),
        B: T.Tensor((K, N), "float32"),
        bias: T.Tensor((N,), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float32")
            B_shared = T.alloc_shared((block_K, block_N), "float32")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, acc)
            for i, j in T.Parallel(block_M, block_N):
                x = acc[i, j] + bias[bx * block_N + j]
                acc[i, j] = x * T.sigmoid(1.5957691 * (x + 0.044715 * x * x * x))
            T.copy(acc, C[by * block_M, bx * block_N])

    return kernel


@tilelang.jit(out_idx=[-1], target="cpu")
def flash_attention(heads, seq, dim, block_M, block_N):
    """softmax(Q K^T / sqrt(dim)) V without the seq x seq matrix."""
    scale = (1.0 / dim) ** 0.5 * 1.44269504  # log2(e): the exponentials are powers of two

    @T.prim_func
    def kernel(
        Q: T.Tensor((heads, seq, dim), "float32"),
        K: T.Tensor((heads, seq, dim), "float32"),
        V: T.Tensor((heads, seq, dim), "float32"),
        O: T.Tensor((heads, seq, dim), "float32"),
    ):
        with T.Kernel(T.ceildiv(seq, block_M), heads, threads=128) as (bx, by):
            Q_shared = T.alloc_shared((block_M, dim), "float32")
            K_shared = T.alloc_shared((block_N, dim), "float32")
            V_shared = T.alloc_shared((block_N, dim), "float32")
            S = T.alloc_fragment((block_M, block_N), "float32")
            out = T.alloc_fragment((block_M, dim), "float32")
            row_max = T.alloc_fragment((block_M,), "float32")
            old_max = T.alloc_fragment((block_M,), "float32")
            row_sum = T.alloc_fragment((block_M,), "float32")
            total = T.alloc_fragment((block_M,), "float32")
            T.copy(Q[by, bx * block_M, 0], Q_shared)
            T.clear(out)
            T.clear(total)
            T.fill(row_max, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(seq, block_N), num_stages=2):
                T.copy(K[by, k * block_N, 0], K_shared)
                T.copy(V[by, k * block_N, 0], V_shared)
                T.gemm(Q_shared, K_shared, S, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(block_M, block_N):
                    S[i, j] = T.if_then_else(
                        k * block_N + j < seq, S[i, j] * scale, -T.infinity("float32")
                    )
                T.copy(row_max, old_max)
                T.reduce_max(S, row_max, dim=1, clear=False)
                for i, j in T.Parallel(block_M, block_N):
                    S[i, j] = T.exp2(S[i, j] - row_max[i])
                T.reduce_sum(S, row_sum, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * T.exp2(old_max[i] - row_max[i]) + row_sum[i]
                for i, j in T.Parallel(block_M, dim):
                    out[i, j] = out[i, j] * T.exp2(old_max[i] - row_max[i])
                T.gemm(S, V_shared, out)
            for i, j in T.Parallel(block_M, dim):
                out[i, j] = out[i, j] / total[i]
            T.copy(out, O[by, bx * block_M, 0])

    return kernel


def gelu_reference(A, B, bias):
    """Compute the product and its epilogue in numpy."""
    x = A @ B + bias
    return 0.5 * x * (1 + np.tanh(0.79788456 * (x + 0.044715 * x * x * x)))


def attention_reference(Q, K, V):
    """Compute attention in numpy."""
    S = Q @ K.transpose(0, 2, 1) / np.sqrt(Q.shape[-1])
    P = np.exp(S - S.max(axis=-1, keepdims=True))
    return P / P.sum(axis=-1, keepdims=True) @ V


def milliseconds(run: Callable[[], object], repeat: int) -> float:
    """Return the median time of one call in milliseconds."""
    run()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return float(np.median(times))


def main() -> None:
    """Check and time both programs; print a table."""
    rng = np.random.default_rng(0)
    probe = matmul_bias_gelu(32, 32, 32, 32, 32, 32)
    compiled = probe.execution_backend != "interpret"
    size, heads, seq, dim = (1024, 8, 1024, 64) if compiled else (96, 2, 96, 32)
    repeat = 7 if compiled else 1
    tile = (512, 256, 256) if compiled else (32, 32, 32)
    block = 128 if compiled else 32

    A, B = rng.standard_normal((2, size, size), dtype=np.float32)
    bias = rng.standard_normal(size, dtype=np.float32)
    gemm = matmul_bias_gelu(size, size, size, *tile)
    Q, K, V = rng.standard_normal((3, heads, seq, dim), dtype=np.float32)
    attention = flash_attention(heads, seq, dim, block, block)

    rows = [
        (f"gelu(A @ B + bias), {size}^3 float32", gemm, gelu_reference, (A, B, bias)),
        (f"attention, {heads} heads x {seq} x {dim}", attention, attention_reference, (Q, K, V)),
    ]
    how = "C on the CPU cores" if compiled else "the interpreter (no C compiler was found)"
    print(f"tilelang {tilelang.__version__}: kernels run as {how}")
    print(f"{'program':40} {'max error':>10} {'tilelang ms':>12} {'numpy ms':>10} {'ratio':>6}")
    for name, kernel, reference, inputs in rows:
        error = float(np.abs(kernel(*inputs) - reference(*inputs)).max())
        if not error < 2e-3:
            raise SystemExit(f"{name}: wrong result, maximal error {error}")
        ours = milliseconds(partial(kernel, *inputs), repeat)
        theirs = milliseconds(partial(reference, *inputs), repeat)
        print(f"{name:40} {error:10.1e} {ours:12.2f} {theirs:10.2f} {theirs / ours:6.2f}")


if __name__ == "__main__":
    main()
