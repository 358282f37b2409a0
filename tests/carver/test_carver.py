"""Templates of common kernels: their programs are right, and recommended tiles fit the machine."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refusal

import tilelang
from tilelang.autotuner.prune import reason_to_skip
from tilelang.carver import (
    ConvTemplate,
    ElementwiseTemplate,
    FlashAttentionTemplate,
    GEMVTemplate,
    GeneralReductionTemplate,
    MatmulTemplate,
)
from tilelang.carver.arch import CDNA, CPU, CUDA, auto_infer_current_arch, get_arch
from tilelang.carver.roller import Hint, NoRasterization
from tilelang.errors import TileValueError
from tilelang.target import parse_target

TEMPLATES: dict[str, Any] = {
    "product": MatmulTemplate(M=64, N=48, K=32, trans_B=False, out_dtype="float32"),
    "product_transposed": MatmulTemplate(64, 48, 32, True, True, out_dtype="float32"),
    "product_bias": MatmulTemplate(64, 48, 32, out_dtype="float32", with_bias=True),
    "gemv": GEMVTemplate(N=40, K=130, out_dtype="float32"),
    "gemv_columns": GEMVTemplate(N=40, K=130, trans_B=False, out_dtype="float32"),
    "elementwise": ElementwiseTemplate(shape=[30, 17], dtype="float32"),
    "reduction": GeneralReductionTemplate(structure="SSR", shape=[3, 5, 70], dtype="float32"),
    "attention": FlashAttentionTemplate(1, 2, 16, 50, 50, out_dtype="float32"),
    "attention_causal": FlashAttentionTemplate(1, 2, 16, 50, 50, True, out_dtype="float32"),
    "convolution": ConvTemplate(2, 8, 7, 7, 16, 3, 1, 1, 1, out_dtype="float32"),
}


def attention(q: Any, k: Any, v: Any, causal: bool) -> Any:
    scores = q @ k.swapaxes(1, 2) / q.shape[2] ** 0.5
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[1:], bool)), scores, -np.inf)
    weights = np.exp(scores - scores.max(2, keepdims=True))
    return weights / weights.sum(2, keepdims=True) @ v


def convolution(x: Any, w: Any) -> Any:
    n, h, wide, c = x.shape
    padded = np.zeros((n, h + 2, wide + 2, c), x.dtype)
    padded[:, 1:-1, 1:-1] = x
    columns = [padded[:, i : i + h, j : j + wide] for i in range(3) for j in range(3)]
    return np.concatenate(columns, 3).reshape(n * h * wide, -1) @ w


EXPECTED: dict[str, Any] = {
    "product": lambda a, b, bias: a @ b,
    "product_transposed": lambda a, b, bias: a.T @ b.T,
    "product_bias": lambda a, b, bias: a @ b.T + bias,
    "gemv": lambda a, b: b @ a,
    "gemv_columns": lambda a, b: a @ b,
    "elementwise": lambda a: a + a,
    "reduction": lambda a: a.sum(1),
    "attention": lambda q, k, v: attention(q, k, v, False),
    "attention_causal": lambda q, k, v: attention(q, k, v, True),
    "convolution": convolution,
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_equivalent_function_computes_the_operation(name: str) -> None:
    func = TEMPLATES[name].with_arch(CPU()).equivalent_function()
    kernel = tilelang.compile(func, out_idx=-1, target="cpu")
    rng = np.random.default_rng(0)
    inputs = [
        rng.standard_normal(tuple(map(int, param.shape))).astype(param.dtype.as_numpy())
        for param in kernel.params[:-1]
    ]
    expected = EXPECTED[name](*(item.astype(np.float32) for item in inputs))
    np.testing.assert_allclose(kernel(*inputs), expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("name", ["product", "gemv", "attention"])
def test_hints_are_ranked_and_fit(name: str) -> None:
    arch = CUDA("cuda -arch=sm_80")
    template = TEMPLATES[name].with_arch(arch)
    hints = template.recommend_hints(topk=5)
    assert len(hints) == 5
    times = [hint.estimate.milliseconds for hint in hints]
    assert times == sorted(times) and times[0] > 0
    assert all(reason_to_skip(template.program(hint), arch.target) is None for hint in hints)


def test_the_hint_of_a_product_says_how_warps_share_it() -> None:
    template = MatmulTemplate(M=512, N=512, K=512).with_arch(CUDA("cuda -arch=sm_90a"))
    hint = template.recommend_hints(topk=1)[0]
    (block_m, block_n), (warp_m, warp_n) = hint.block, hint.warp
    assert (block_m // warp_m) * (block_n // warp_n) * 32 == hint.threads
    assert hint.use_tc and hint.use_async and hint.pipeline_stage > 1
    assert hint.rasterization_plan is NoRasterization
    said = hint.to_dict()
    assert said["block"] == hint.block and "step" not in said and "estimate" not in said
    assert Hint().to_dict() == {
        "pipeline_stage": 1,
        "rasterization_plan": NoRasterization,
        "threads": 128,
    }


def test_machines() -> None:
    h100 = CUDA("cuda -arch=sm_90a")
    assert (h100.name, h100.warp_size, h100.smem_cap) == ("sm_90a", 32, 227 << 10)
    assert (h100.max_smem_usage, h100.reg_cap) == (228 << 10, 64 << 10)
    assert CDNA("hip -arch=gfx942").warp_size == 64
    assert isinstance(get_arch("cpu"), CPU) and get_arch("cpu").name == "cpu"
    assert auto_infer_current_arch().target.kind == parse_target("auto").kind


def test_a_structure_that_does_not_fit() -> None:
    assert refusal(TileValueError, GeneralReductionTemplate, "SS", [2, 3]) == (
        "the structure of a reduction does not describe its shape\n"
        '  expected: an "S" or "R" for each axis, at least one "R"\n  got: \'SS\' for (2, 3)'
    )
