"""The kernels of the benchmarks with sizes that the emulator runs in no time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import tilelang
from tilelang.interpret import values
from tilelang.ir.buffer import Buffer
from tilelang.ir.stmt import PrimFunc

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import h200_backward as backward
import h200_programs as h200
import h200_shared_sums as sums
import model_programs as model
import small_launches as small

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Kernel:
    """One kernel as the benchmark compiles it."""

    func: PrimFunc
    configs: dict[str, Any] | None

    def arguments(self, seed: int = 0) -> list[Array]:
        """Small numbers; all that a kernel may write as well."""
        return [_numbers(buffer, seed + place) for place, buffer in enumerate(self.func.buffers)]

    def differences(self, ours: list[Array], wanted: list[Array]) -> Iterator[str]:
        """Tensors that are not the same up to roundings of sums in another order."""
        for buffer, one, other in zip(self.func.buffers, ours, wanted, strict=True):
            a, b = (_as_floats(array, buffer) for array in (one, other))
            room = 2e-2 if buffer.dtype.bits <= 16 else 1e-3
            if not np.allclose(a, b, rtol=room, atol=room, equal_nan=True):
                yield f"`{buffer.name}` differs by {np.nanmax(np.abs(a - b))}"


def _numbers(buffer: Buffer, seed: int) -> Array:
    kind, shape = buffer.dtype, [int(extent) for extent in buffer.shape]
    random = np.random.default_rng(seed)
    if buffer.name == "sizes":  # of groups
        return np.full(shape, 64, np.int32)
    if buffer.name in ("offsets", "padded"):
        return np.arange(shape[0], dtype=np.int32) * 64
    if not kind.is_float:
        return random.integers(0, 100, shape).astype(str(kind))
    exact = values.rounded(random.uniform(-1, 1, shape).astype(np.float32), kind)
    storage = str(kind) if kind in ("float16", "float32", "float64") else f"u{kind.bits // 8}"
    return (
        np.ascontiguousarray(values.to_bytes(exact, kind)).reshape(-1).view(storage).reshape(shape)
    )


def _as_floats(array: Array, buffer: Buffer) -> Array:
    raw = np.ascontiguousarray(array)
    found = values.from_bytes(raw.reshape(-1, 1).view(np.uint8), buffer.dtype)
    return np.asarray(found, np.float64)


def noted(make: Callable[[], Any]) -> list[Kernel]:
    """The kernels that ``make`` compiles."""
    found: list[Kernel] = []

    def compile(func: PrimFunc, *, pass_configs: dict[str, Any] | None = None, **_: Any) -> Any:
        found.append(Kernel(func, pass_configs))
        return found[-1]

    with patch.object(tilelang, "compile", compile):
        make()
    return found


KERNELS: dict[str, Callable[[], Any]] = {
    "add": lambda: h200.add(32, 256, 16, 128, 128),
    "softmax": lambda: h200.softmax(8, 256, 2, 128),
    "rmsnorm": lambda: h200.rmsnorm(8, 256, 2, 128),
    "transpose": lambda: h200.transpose(64, 64, 32, 128),
    "gemm": lambda: h200.gemm(64, 64, 128, "bfloat16", "bfloat16", False, 64, 64, 32, 2, 128),
    "gemm_rows": lambda: h200.gemm(16, 64, 64, "float16", "float16", False, 16, 32, 32, 3, 64),
    "gemm_fp8": lambda: h200.gemm(
        64, 64, 128, "float8_e4m3fn", "bfloat16", True, 32, 32, 64, 2, 64
    ),
    "grouped_gemm": lambda: h200.grouped_gemm(2, 64, 64, 64, 32, 32, 32, 2, 64),
    "attention": lambda: h200.attention(1, 2, 64, 32, False, 32, 32, 2, 64),
    "attention_causal": lambda: h200.attention(1, 1, 64, 32, True, 32, 32, 2, 64),
    "mla": lambda: h200.mla_decode(1, 32, 64, 64, 16, 32, 32, 1, 64),
    "dequant": lambda: h200.dequant(32, 64, 128, 32, 32, 64, 2, 64),
    "backward": lambda: [
        backward.row_sums(1, 2, 64, 32, 32),
        backward.gradients(1, 2, 64, 32, True, 32, 32, 1, 128),
        backward.rounded(1, 2, 64, 64, 32),
    ],
    "split_k": lambda: sums.split_k(32, 64, 128, 32, 32, 32, 2, 64, 2, False),
    "stream_k": lambda: sums.stream_k(64, 64, 96, 32, 32, 32, 2, 64, 3),
    "rounding": lambda: small.rounding(2048, 64),
    "dropping": lambda: small.dropping(2048, 0.5, 64),
    "whole_softmax": lambda: small.whole_softmax(1024, 128),
    "first_largest": lambda: small.first_largest(8, 64, 64),
    **{
        f"model_{make.__name__}": lambda make=make, sizes=sizes: tilelang.compile(make(*sizes))
        for make, sizes in (
            (model.product, (64, 64, 64, "float32", "float32", 32, 32, 32)),
            (model.matrix_vector, (64, 128, 16, 64)), (model.add, (64, 64, "float32", 32, 32)),
            (model.gelu, (512, 128)), (model.transpose, (64, 64, 32, 32)),
            (model.softmax, (32, 128, 8, 64)), (model.rmsnorm, (32, 128, 8)),
            (model.column_sums, (64, 64, 32, 32)), (model.attention, (2, 64, 32, 32, 32)),
        )
    },
}  # fmt: skip
