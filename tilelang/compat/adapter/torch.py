"""Import path of kernels that torch launches on Apple GPUs, which are not there yet."""

from __future__ import annotations

from tilelang.absent import absent_names

__getattr__ = absent_names("tilelang.jit.adapter.torch")
