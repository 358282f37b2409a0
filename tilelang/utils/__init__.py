"""Helpers that programs import by these paths; names of the modules here, on first use."""

from __future__ import annotations

from typing import Any

# Module here -> names that programs import from the package.
_HOMES = {
    "target": ("determine_fp8_type", "determine_target", "determine_torch_fp8_type"),
    "tensor": ("TensorSupplyType", "torch_assert_close"),
    "language": (
        "is_fragment", "is_full_region", "is_global", "is_local", "is_shared", "is_shared_dynamic",
        "is_tensor_memory", "retrieve_shape", "retrieve_stride",
        "retrive_ptr_from_buffer_region", "to_buffer_region",
    ),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    import importlib

    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f"tilelang.utils.{home}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
