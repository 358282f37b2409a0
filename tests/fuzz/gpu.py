"""Runs a program on an NVIDIA GPU; results come back as arrays of storage elements."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilelang
from tilelang.ir.dtypes import dtype as DType

from .model import Program, Tensor

FENCE = 64  # elements before and behind each result that no kernel may touch
SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def to_gpu(array: np.ndarray, dtype: str) -> Any:
    """A tensor on the GPU with the values and strides of ``array``."""
    import torch

    kind = DType(dtype).as_torch()
    codes = array if array.dtype == bool else array.view(SIGNED[array.itemsize])
    steps = [step // array.itemsize for step in codes.strides]
    source = torch.from_numpy(np.ascontiguousarray(codes))
    found = torch.empty_strided(codes.shape, steps, dtype=source.dtype, device="cuda")
    found.copy_(source)
    return found.view(kind) if kind != source.dtype else found


def to_host(tensor: Any, like: np.ndarray) -> np.ndarray:
    """The storage elements of ``tensor``."""
    import torch

    if like.dtype == bool:
        return tensor.cpu().numpy()
    signed = getattr(torch, np.dtype(SIGNED[like.itemsize]).name)
    return tensor.view(signed).cpu().numpy().view(like.dtype)


def execute_on_gpu(
    program: Program, func: Any, values: dict[str, Any]
) -> tuple[dict[str, np.ndarray], list[str]]:
    """The results of ``program``, and the names of those that were written outside."""
    import torch

    kernel = tilelang.compile(func, target="cuda")
    kinds: dict[str, Tensor] = {tensor.name: tensor for tensor in program.tensors}
    held: dict[str, Any] = {}
    bases: dict[str, np.ndarray] = {}
    fenced: dict[str, Any] = {}
    for name, value in values.items():
        if name not in kinds:
            held[name] = value
        elif kinds[name].role == "in":
            held[name] = to_gpu(value, kinds[name].dtype)
        else:
            base = np.full(value.size + 2 * FENCE, 1, value.dtype)
            base[FENCE:-FENCE] = value.reshape(-1)
            bases[name] = base
            fenced[name] = to_gpu(base, kinds[name].dtype)
            held[name] = fenced[name][FENCE:-FENCE].view(value.shape)
    kernel(*(held[name] for name in program.order))
    torch.cuda.synchronize()
    results, broken = {}, []
    for name, base in bases.items():
        after = to_host(fenced[name], base)
        edges = np.concatenate([after[:FENCE], after[-FENCE:]])
        if not (edges == np.ones_like(edges)).all():
            broken.append(name)
        results[name] = after[FENCE:-FENCE].reshape(values[name].shape)
    return results, broken
