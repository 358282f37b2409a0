"""Properties of the GPU of this machine, or of its processor if there is no GPU."""

from __future__ import annotations

import os
from typing import Any

from tilelang.errors import TileUnsupportedError
from tilelang.target import parse_target


def get_num_sms(device_id: int = 0) -> int:
    """Streaming multiprocessors of the GPU, or cores of the CPU where there is no GPU."""
    if parse_target("auto").compute is not None:
        return int(get_cuda_device_properties(device_id).multi_processor_count)
    return os.cpu_count() or 1


def get_cuda_device_properties(device_id: int = 0) -> Any:
    """The properties of a CUDA device, from torch.

    Raises:
        TileUnsupportedError: there is no CUDA device.
    """
    if parse_target("auto").compute is None:
        raise TileUnsupportedError(
            "there is no CUDA device on this machine",
            hint='parse_target("cuda -arch=sm_90a").limits says what an architecture has',
        )
    import torch

    return torch.cuda.get_device_properties(device_id)


def get_device_name(device_id: int = 0) -> str:
    """Name of a CUDA device. Raises TileUnsupportedError where there is none."""
    return str(get_cuda_device_properties(device_id).name)


def get_shared_memory_per_block(device_id: int = 0, format: str = "bytes") -> int:
    """Shared memory of a block without an opt-in, in "bytes", "kb" or "mb".

    Raises:
        TileUnsupportedError: there is no CUDA device.
    """
    size = int(get_cuda_device_properties(device_id).shared_memory_per_block)
    return size // {"bytes": 1, "kb": 1 << 10, "mb": 1 << 20}[format]


def get_max_dynamic_shared_size_bytes(device_id: int = 0, format: str = "bytes") -> int:
    """The maximum shared memory of a block, with the opt-in; else as
    :func:`get_shared_memory_per_block`."""
    size = int(get_cuda_device_properties(device_id).shared_memory_per_block_optin)
    return size // {"bytes": 1, "kb": 1 << 10, "mb": 1 << 20}[format]


def get_registers_per_block(device_id: int = 0) -> int:
    """32-bit registers of a multiprocessor. Raises TileUnsupportedError without a CUDA device."""
    return int(get_cuda_device_properties(device_id).regs_per_multiprocessor)
