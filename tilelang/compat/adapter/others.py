"""Host source around kernels for HIP, and kernels for Metal, which need none."""

from __future__ import annotations

from tilelang.compat.adapter.base import SourceWrapper
from tilelang.compat.adapter.cuda import TLCUDASourceWrapper
from tilelang.compat.host_text import templates
from tilelang.compat.host_text.c_host import HIP
from tilelang.target import parse_target


class TLHIPSourceWrapper(TLCUDASourceWrapper):
    """A wrapper class for the TileLang HIP backend.

    The same functions over the HIP runtime. Hints about the L2 cache are dropped; clusters,
    dependent launches and tensor maps are refused.
    """

    runtime = HIP
    back_end = "hip"

    def get_init_func(self) -> str:
        """Text of ``init`` and ``get_last_error``; it checks what a block of the chip can have."""
        text, limit = "", max(65536, parse_target(self.target).limits.shared_block)
        for kernel, shared, _ in self._needs():
            if shared > 0:
                check = templates.PREDEF_ATTRIBUTE_SET_DYNAMIC_MEMORY_HIP.format(kernel, shared)
                # Of several kernels each is checked: init itself ends after the last of them.
                text += check.removesuffix("    return 0;\n").replace("> 65536)", f"> {limit})")
        return templates.PREDEF_INIT_FUNC.format(text)

    def get_stream_type(self) -> dict[str, str]:
        """Name with default value, and type, of the last parameter of ``call``."""
        return {"name": "stream=hipStreamDefault", "type": "hipStream_t"}

    def _includes(self, host: str) -> str:
        names = ("hip/hip_runtime.h", "stdint.h", "stdio.h")
        return "".join(f"#include <{name}>\n" for name in names)


class TLMetalSourceWrapper(SourceWrapper):
    """A Metal shader is run by the framework of its tensors, so there is only its source."""

    def _wrap(self) -> None:
        self.lib_code = self.update_lib_code(self.source)

    def update_lib_code(self, code: str) -> str:
        """``code`` itself; also kept in ``lib_code``."""
        self.lib_code = code
        return code
