"""Host wrappers: text with ``init``, ``call`` and ``get_last_error`` around generated kernels.

A wrapper turns a kernel's source into a library that any language can load: ``call`` takes plain
pointers and numbers in the order of the parameters, then the symbols of dynamic shapes, and
returns 0 or an error code whose text ``get_last_error`` gives. For kernels that NVRTC compiles
there is a Python module instead.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from tilelang.compat.adapter.base import BaseWrapper, find_prim_func
from tilelang.compat.adapter.cpu import (
    PREDEF_CPU_CALL_FUNC,
    PREDEF_CPU_INIT_FUNC,
    TLCPUSourceWrapper,
)
from tilelang.compat.adapter.cuda import TLCUDASourceWrapper, TLNVRTCSourceWrapper
from tilelang.compat.adapter.others import TLHIPSourceWrapper, TLMetalSourceWrapper
from tilelang.compat.host_text.templates import (
    KERNEL_LAUNCH_FUNC_PY,
    L2_PERSISTENT_MAP_CREATE_HANDLE,
    L2_PERSISTENT_MAP_INIT_FUNC,
    L2_PERSISTENT_MAP_RESET_HANDLE,
    PREDEF_ATTRIBUTE_SET_DYNAMIC_MEMORY,
    PREDEF_ATTRIBUTE_SET_DYNAMIC_MEMORY_HIP,
    PREDEF_HOST_FUNC,
    PREDEF_HOST_FUNC_PY,
    PREDEF_INIT_FUNC,
    TMA_DESC_INIT_FUNC,
    TMA_DESC_INIT_FUNC_PY,
    TMA_IM2COL_DESC_INIT_FUNC,
)
from tilelang.errors import TileUnsupportedError
from tilelang.ir.stmt import PrimFunc
from tilelang.target import parse_target

__all__ = [
    "KERNEL_LAUNCH_FUNC_PY", "L2_PERSISTENT_MAP_CREATE_HANDLE", "L2_PERSISTENT_MAP_INIT_FUNC",
    "L2_PERSISTENT_MAP_RESET_HANDLE", "PREDEF_ATTRIBUTE_SET_DYNAMIC_MEMORY",
    "PREDEF_ATTRIBUTE_SET_DYNAMIC_MEMORY_HIP", "PREDEF_CPU_CALL_FUNC", "PREDEF_CPU_INIT_FUNC",
    "PREDEF_HOST_FUNC", "PREDEF_HOST_FUNC_PY", "PREDEF_INIT_FUNC", "TMA_DESC_INIT_FUNC",
    "TMA_DESC_INIT_FUNC_PY", "TMA_IM2COL_DESC_INIT_FUNC", "BaseWrapper", "TLCPUSourceWrapper",
    "TLCUDASourceWrapper", "TLHIPSourceWrapper", "TLMetalSourceWrapper", "TLNVRTCSourceWrapper",
    "TLPyWrapper", "TLWrapper", "find_prim_func", "host_source", "logger",
]  # fmt: skip

logger = logging.getLogger("tilelang.jit.adapter.wrapper")  # as programs know it


class TLWrapper(BaseWrapper):
    """A wrapper class for the TileLang backend.

    Chooses the source wrapper of a target; ``wrap`` gives the host source.
    """

    device_mod: Any = None
    host_mod: Any = None
    pass_configs: dict[str, Any] | None = None
    target: Any = None
    lib: object | None = None

    def __init__(self, target: Any) -> None:
        self.scheduled_ir_module: Any = None
        self.pass_configs = None
        self.target = target
        self.lib = None

    def assign_optimized_module(self, scheduled_ir_module: Any) -> None:
        """Set the function to wrap."""
        self.scheduled_ir_module = scheduled_ir_module

    def assign_pass_configs(self, pass_configs: dict[str, Any]) -> None:
        """Set the pass configurations it was compiled with."""
        self.pass_configs = pass_configs

    def assign_host_module(self, host_mod: Any) -> None:
        """Set the host part, if it is separate."""
        self.host_mod = host_mod

    def assign_device_module(self, device_mod: Any) -> None:
        """Set the device part, if it is separate."""
        self.device_mod = device_mod

    def wrap(self, c_source: str) -> str:
        """Host source around ``c_source``.

        Raises:
            TileUnsupportedError: there is no wrapper for the target.
        """
        return self._wrapped(c_source, _SOURCE_WRAPPERS)

    def _wrapped(self, c_source: str, wrappers: Mapping[str, Any]) -> str:
        kind = parse_target(self.target).kind
        if kind not in wrappers:
            raise TileUnsupportedError(
                f"no host wrapper for the target {kind}",
                expected=f"a target of kind {', '.join(wrappers)}",
                got=f"target={str(self.target)!r}",
            )
        wrapper = wrappers[kind](
            self.scheduled_ir_module, c_source, self.target, self.device_mod, self.host_mod,
            self.pass_configs,
        )  # fmt: skip
        return str(wrapper.lib_code or "")


class TLPyWrapper(TLWrapper):
    """A wrapper class for the TileLang backend.

    Hosts are Python modules: ``wrap`` gives that of :class:`TLNVRTCSourceWrapper`.
    """

    def wrap(self, c_source: str) -> str:
        """The Python host module for the kernels of ``c_source``.

        Raises:
            TileUnsupportedError: the target is not CUDA.
        """
        return self._wrapped(c_source, {"cuda": TLNVRTCSourceWrapper})


_SOURCE_WRAPPERS = {
    "cpu": TLCPUSourceWrapper,
    "cuda": TLCUDASourceWrapper,
    "hip": TLHIPSourceWrapper,
    "metal": TLMetalSourceWrapper,
}


def host_source(func: PrimFunc, source: str, target: Any) -> str:
    """Host source around the generated ``source`` of ``func``."""
    wrapper = TLWrapper(target)
    wrapper.assign_optimized_module(func)
    return wrapper.wrap(source)
