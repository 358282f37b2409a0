"""Packed weights on a GPU: numbers cut out of words, and products of them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gpus import Gpu

import tilelang.language as T

torch = pytest.importorskip("torch", reason="the tensors of these programs are torch's")

COUNT = 4096


@pytest.mark.share(4)
@pytest.mark.parametrize("kind", ["uint8", "uint32", "int32"])
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("apart", [1, 2, 4])
def test_unpacked_integers_agree_with_numpy(gpu: Gpu, kind: str, bits: int, apart: int) -> None:
    per = int("".join(filter(str.isdigit, kind))) // bits
    if per % (2 * apart):
        pytest.skip("fewer numbers than that in an element")

    def place(j: Any) -> Any:
        """Neighbours are ``apart`` numbers apart."""
        position = j % per
        within = position % (2 * apart)
        return (position - within + within // 2 + within % 2 * apart) * bits

    @T.prim_func
    def kernel(Q: T.Tensor((COUNT // per,), kind), C: T.Tensor((COUNT,), "float16")):
        with T.Kernel(1, threads=64):
            q = T.alloc_fragment((COUNT // per,), kind)
            c = T.alloc_fragment((COUNT,), "float16")
            T.copy(Q, q)
            for j in T.Parallel(COUNT):
                number = (q[j // per] >> place(j)) & (2**bits - 1)
                c[j] = (T.cast(number, "float16") - T.float16(2)) * T.float16(0.75)
            T.copy(c, C)

    info = np.iinfo(kind)
    q = np.random.default_rng(bits).integers(info.min, info.max, COUNT // per, dtype=kind,
                                             endpoint=True)  # fmt: skip
    c = torch.full((COUNT,), float("nan"), dtype=torch.float16, device=gpu.memory)
    given = gpu.place(q.view(np.int32) if kind == "uint32" else q)
    if kind == "uint32":
        given = given.view(torch.uint32)
    gpu.compile(kernel)(given, c)
    j = np.arange(COUNT)
    numbers = q.astype(np.int64)[j // per] >> place(j) & (2**bits - 1)
    np.testing.assert_array_equal(c.cpu().numpy(), (numbers - 2).astype(np.float16) * 0.75)


@pytest.mark.parametrize(("block_K", "stages"), [(256, 3), (512, 2), (1024, 2)])
def test_the_example_reads_its_weights(gpu: Gpu, block_K: int, stages: int) -> None:
    path = Path(__file__).parents[2] / "examples" / "w4a16.py"
    spec = importlib.util.spec_from_file_location("example_w4a16", path)
    assert spec is not None and spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    M, N, K = 16, 512, 4096
    numbers = np.random.default_rng(8).integers(0, 16, (N, K))
    a = gpu.place(torch.randn(M, K).half())
    scales = gpu.place((torch.rand(N, K // 64) * 0.1).half())
    words = gpu.place(example.pack(numbers).view(np.int32)).view(torch.uint32)
    c = torch.full((M, N), float("nan"), dtype=torch.float16, device=gpu.memory)
    func = example.w4a16(M, N, K, block_K=block_K, stages=stages)
    gpu.compile(func)(a, words, scales, c)
    weights = (gpu.place(numbers) - 8) * scales.double().repeat_interleave(64, 1)
    wanted = a.double() @ weights.T
    assert float((c.double() - wanted).norm() / wanted.norm()) < 1e-3
