"""Kernels called with arrays of numpy on an NVIDIA GPU, where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np

import tilelang
from tilelang.ir.buffer import Buffer
from tilelang.target.device import cuda_devices

BITS = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}


def has_device() -> bool:
    """Whether this package sees a GPU and torch can fill its memory."""
    if not cuda_devices():
        return False
    try:
        import torch
    except ImportError:
        return False
    return bool(torch.cuda.is_available())


class OnDevice:
    """A kernel on the GPU: arrays are copied there and back, with their strides."""

    def __init__(self, func: Any, **options: Any) -> None:
        self.kernel = tilelang.compile(func, target="cuda", **options)
        self.kinds = [param.dtype if isinstance(param, Buffer) else None for param in func.params]

    def __call__(self, *args: Any, returned: tuple[int, ...] = ()) -> Any:
        """Call, and leave in each array what the kernel left in its copy.

        Args:
            returned: places of the parameters that the kernel allocates and returns.
        """
        import torch

        kinds = [kind for place, kind in enumerate(self.kinds) if place not in returned]
        placed = [
            _placed(arg, kind) if isinstance(arg, np.ndarray) else arg
            for arg, kind in zip(args, kinds, strict=True)
        ]
        results = self.kernel(*placed)
        torch.cuda.synchronize()
        for arg, tensor in zip(args, placed, strict=True):
            if isinstance(arg, np.ndarray) and arg.size and arg.flags.writeable:
                arg[...] = _fetched(tensor, arg.dtype)
        return results


def _placed(array: np.ndarray, kind: Any) -> Any:
    import torch

    codes = array if array.dtype.kind == "b" else array.view(BITS[array.itemsize])
    steps = [step // array.itemsize for step in codes.strides]
    source = torch.from_numpy(np.ascontiguousarray(codes))
    found = torch.empty_strided(codes.shape, steps, dtype=source.dtype, device="cuda")
    found.copy_(source)
    torch_kind = kind.as_torch() if kind is not None else source.dtype  # a pointer has no dtype
    return found if torch_kind == source.dtype else found.view(torch_kind)


def _fetched(tensor: Any, dtype: np.dtype) -> np.ndarray:
    import torch

    if dtype.kind == "b":
        return np.asarray(tensor.cpu().numpy())
    bits = getattr(torch, np.dtype(BITS[dtype.itemsize]).name)
    return np.asarray(tensor.view(bits).cpu().numpy().view(dtype))
