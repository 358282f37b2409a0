"""Convolution of NHWC images as a matrix product: T.im2col gathers the patches of a tile."""

from __future__ import annotations

import numpy as np

import tilelang
import tilelang.language as T


def make(backend: str):
    """Compile the kernel for the execution backend ``backend``."""

    @tilelang.jit(out_idx=[-1], target="cpu", execution_backend=backend)
    def conv2d(
        N: int, H: int, W: int, C: int, F: int, K: int, stride: int, dilation: int, pad: int,
        block_M: int = 32, block_N: int = 16, block_K: int = 16,
    ):  # fmt: skip
        OH = (H + 2 * pad - dilation * (K - 1) - 1) // stride + 1
        OW = (W + 2 * pad - dilation * (K - 1) - 1) // stride + 1
        rows = N * OH * OW

        @T.prim_func
        def kernel(
            image: T.Tensor((N, H, W, C), "float16"),
            weight: T.Tensor((K * K * C, F), "float16"),
            out: T.Tensor((rows, F), "float32"),
        ):
            with T.Kernel(T.ceildiv(F, block_N), T.ceildiv(rows, block_M), threads=128) as (bx, by):
                patches = T.alloc_shared((block_M, block_K), "float16")
                weights = T.alloc_shared((block_K, block_N), "float16")
                acc = T.alloc_fragment((block_M, block_N), "float32")
                T.clear(acc)
                for k in T.Pipelined(T.ceildiv(K * K * C, block_K), num_stages=3):
                    T.im2col(image, patches, by, k, K, stride, dilation, pad)
                    T.copy(weight[k * block_K, bx * block_N], weights)
                    T.gemm(patches, weights, acc)
                T.copy(acc, out[by * block_M, bx * block_N])

        return kernel

    return conv2d


def reference(
    image: np.ndarray, weight: np.ndarray, stride: int, dilation: int, pad: int
) -> np.ndarray:
    """Convolve by adding shifted images; ``weight`` is (K, K, C, F)."""
    size = weight.shape[0]
    padded = np.pad(image.astype(np.float32), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    height = (padded.shape[1] - dilation * (size - 1) - 1) // stride + 1
    width = (padded.shape[2] - dilation * (size - 1) - 1) // stride + 1
    out = np.zeros((image.shape[0], height, width, weight.shape[3]), np.float32)
    for kh in range(size):
        for kw in range(size):
            rows = slice(kh * dilation, kh * dilation + (height - 1) * stride + 1, stride)
            columns = slice(kw * dilation, kw * dilation + (width - 1) * stride + 1, stride)
            out += padded[:, rows, columns] @ weight[kh, kw].astype(np.float32)
    return out


def main(backend: str = "auto") -> None:
    """Compare with numpy, with padding, a stride and a dilation."""
    N, H, W, C, F, K = 2, 9, 11, 8, 20, 3
    conv2d = make(backend)
    rng = np.random.default_rng(0)
    image = rng.standard_normal((N, H, W, C)).astype(np.float16)
    weight = rng.standard_normal((K, K, C, F)).astype(np.float16)
    for stride, dilation, pad in ((1, 1, 1), (2, 1, 0), (1, 2, 2)):
        kernel = conv2d(N, H, W, C, F, K, stride, dilation, pad)
        expected = reference(image, weight, stride, dilation, pad)
        result = kernel(image, weight.reshape(-1, F)).reshape(expected.shape)
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-3)
    print(f"conv2d_im2col: {K}x{K} convolutions of {N}x{H}x{W}x{C} agree with numpy")


if __name__ == "__main__":
    main()
