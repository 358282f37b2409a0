"""C host source around kernels for the CPU.

``call`` takes plain pointers and numbers in the order of the parameters, then the symbols of
dynamic shapes, and returns 0 or an error code whose text ``get_last_error`` gives.
"""

from __future__ import annotations

import re
from typing import Any

from tilelang.backends import BACKENDS
from tilelang.codegen.c import storage_type, value_type
from tilelang.codegen.names import Names
from tilelang.codegen.symbols import symbols_of
from tilelang.compat.adapter.base import SourceWrapper
from tilelang.errors import TileValueError
from tilelang.ir.buffer import Buffer
from tilelang.ir.stmt import PrimFunc

PREDEF_CPU_INIT_FUNC = """
#define ERROR_BUF_SIZE 1024
static char error_buf[ERROR_BUF_SIZE];

#ifdef __cplusplus
extern "C"
#endif
const char* get_last_error(void) {
    return error_buf;
}

#ifdef __cplusplus
extern "C"
#endif
int32_t init(void) {
    error_buf[0] = '\\0';
    return 0;
}
"""

PREDEF_CPU_CALL_FUNC = """
#ifdef __cplusplus
extern "C"
#endif
int32_t call({0}) {{
{1}
    return 0;
}}
"""


class TLCPUSourceWrapper(SourceWrapper):
    """C host source for a CPU kernel.

    Args:
        scheduled_ir_module: the :class:`PrimFunc`, or a mapping or module-like object with one.
        source: the generated kernel text, with the entry ``tl_call``.
        target: the target it was generated for.
    """

    INIT_FUNC = PREDEF_CPU_INIT_FUNC
    CALL_PREFIX = PREDEF_CPU_CALL_FUNC

    def _wrap(self) -> None:
        self.function_names: str | None = None
        self.dynamic_smem_buf: int | None = None
        self.srcpath: str | None = None
        self.libpath: str | None = None
        self.parse_source_information()
        self.lib_code: str | None = self.update_lib_code(self.source)

    def parse_source_information(self) -> None:
        """Find the entry in the source."""
        if not re.search(r"\bint32_t tl_call\(", self.source):
            raise TileValueError(
                "the source has no entry", expected="`int32_t tl_call(const int64_t* slots)`"
            )
        self.function_names = "tl_call"

    def get_dynamic_symbolic_set(self, prim_func: PrimFunc) -> list[str]:
        """Names of the symbols of dynamic shapes, in the order ``call`` takes them."""
        return [symbol.name for symbol in symbols_of(prim_func)]

    def get_cpu_init_func(self) -> str:
        """Text of ``get_last_error`` and ``init``."""
        return self.INIT_FUNC

    def create_call_func(self, code: str, function_informations: dict[str, Any]) -> str:
        """Text of ``call``: fills the slots of the entry and translates its error code."""
        func = self.prim_func
        declarations: list[str] = []
        slots: list[str] = []
        names = Names(("slots", "result", "error_buf", "snprintf"))
        for param in (*func.params, *symbols_of(func)):
            name = names.fresh(param.name)
            if isinstance(param, Buffer):
                declarations.append(f"{storage_type(param.dtype)}* {name}")
                slots.append(f"(int64_t)(intptr_t){name}")
            elif param.dtype == "handle":
                declarations.append(f"void* {name}")
                slots.append(f"(int64_t)(intptr_t){name}")
            elif param.dtype.is_float:
                declarations.append(f"{value_type(param.dtype)} {name}")
                slots.append(f"(int64_t)tl_f64_bits((double){name})")
            else:
                declarations.append(f"{value_type(param.dtype)} {name}")
                slots.append(f"(int64_t){name}")
        entry = function_informations.get("function_name", self.function_names)
        body = [f"    const int64_t slots[] = {{{', '.join(slots) or '0'}}};"]
        body.append(f"    const int32_t result = {entry}(slots);")
        body.append("    if (result != 0) {")
        body.append(
            f'        snprintf(error_buf, ERROR_BUF_SIZE, "{func.name}: %s", tl_message(result));'
        )
        body += ["        return result;", "    }"]
        return self.CALL_PREFIX.format(", ".join(declarations) or "void", "\n".join(body))

    def update_lib_code(self, code: str) -> str:
        """The whole host source: kernel, ``init``, ``get_last_error`` and ``call``."""
        call = self.create_call_func(code, {"function_name": self.function_names})
        self.lib_code = BACKENDS["cpu"].standalone(code) + self.get_cpu_init_func() + call
        return self.lib_code
