"""Number of processors that blocks are spread over."""

from __future__ import annotations

import os

__all__ = ["get_num_sms"]


def get_num_sms(device_id: int = 0) -> int:
    """Streaming multiprocessors of the GPU, or cores of the CPU where there is no GPU."""
    from tilelang.target import parse_target

    if parse_target("auto").kind == "cuda":
        import torch

        return int(torch.cuda.get_device_properties(device_id).multi_processor_count)
    return os.cpu_count() or 1
