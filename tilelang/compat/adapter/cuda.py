"""Host source around CUDA kernels: C++ for the runtime API, Python for kernels from NVRTC."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tilelang.backends import BACKENDS
from tilelang.codegen.gpu.module import LaunchPlan
from tilelang.compat.adapter.base import SourceWrapper, find_module, functions_of
from tilelang.compat.host_text import templates
from tilelang.compat.host_text.c_host import CUDA, CHost, Runtime
from tilelang.compat.host_text.host_module import HostModule, launch_plans, ordered_symbols
from tilelang.compat.host_text.programs import c_helpers
from tilelang.compat.host_text.py_host import PythonHost
from tilelang.compat.host_text.steps_writer import StepsWriter
from tilelang.cuda.tma_descriptor import TmaDescriptor
from tilelang.errors import TileValueError
from tilelang.ir.stmt import PrimFunc


class TLCUDASourceWrapper(SourceWrapper):
    """C++ host source for CUDA kernels.

    The library it makes has ``init()``, which lets every kernel use its shared memory on the
    current device, ``get_last_error()``, and ``call(<parameters>, <shape symbols>, <stride
    symbols>, stream)``. ``init`` and ``call`` return 0, or -1 with a text of the error.

    Args:
        scheduled_ir_module: the :class:`PrimFunc`, or a mapping or module-like object with one.
        source: the generated device source.
        target: the target it was generated for.
        device_mod: how its kernels are launched: a :class:`GpuModule`, a :class:`HostModule` or
            an artifact. None: the function is compiled for ``target`` to find out.
        host_mod: the host part as a program, if it is apart.
        pass_configs: those it was compiled with.

    Attributes:
        function_names: names of the kernels in the order of the source, with ", " between them.
        dynamic_smem_buf: bytes of dynamic shared memory, the most of all launches. Assigned before
            :meth:`update_lib_code`, it is that of every launch.
        block_info, grid_info: kernel launch -> threads, grid as host expressions. A second launch
            of kernel k is "k#2"; an extent that depends on values of the host part is "".
        tma_descriptor_args: name -> tensor map, or None without any.
        l2_persistent_map: kernel launch -> tensor -> (hit ratio, bytes as a host expression).
        lib_code: the whole text.

    Raises:
        TileValueError: no function, or kernels that the source does not have.
    """

    runtime: Runtime = CUDA
    back_end = "cuda"

    def _wrap(self) -> None:
        self.function_names: str | None = None
        self.dynamic_smem_buf: int | None = None
        self.block_info: list[int] | dict[str, list[int]] = [1, 1, 1]
        self.grid_info: list[int] | dict[str, list[str]] = [1, 1, 1]
        self.tma_descriptor_args: dict[str, TmaDescriptor] | None = None
        self.l2_persistent_map: dict[str, dict[str, tuple[float, str]]] | None = {}
        self.srcpath: str | None = None
        self.libpath: str | None = None
        self.lib_code: str | None = None
        self._module = self._find_module()
        self.parse_source_information()
        self.update_lib_code(self.source)

    def _find_module(self) -> HostModule:
        return find_module(self.device_mod, self.prim_func, self.target, self.pass_configs)

    def _writer(self) -> StepsWriter:
        """A fresh printer of the host part."""
        return CHost(self._module, self.runtime)

    # -- the program -------------------------------------------------------------------------------
    @property
    def device_func(self) -> PrimFunc:
        """The function with the kernels: that of ``device_mod`` if it holds one."""
        return (functions_of(self.device_mod) or [self.prim_func])[0]

    @property
    def host_func(self) -> PrimFunc:
        """The function with the host part: that of ``host_mod`` if it holds one."""
        return (functions_of(self.host_mod) or [self.prim_func])[0]

    def get_dynamic_symbolic_set(self, prim_func: PrimFunc) -> list[str]:
        """Names of the symbols in the order ``call`` takes them: shapes, then strides alone."""
        return [symbol.name for symbol in ordered_symbols(prim_func)]

    def is_tma_descriptor_arg(self, arg_name: str) -> bool:
        """Whether a kernel parameter of this name is a tensor map."""
        return arg_name in (self.tma_descriptor_args or {})

    # -- what the kernels need ---------------------------------------------------------------------
    def parse_source_information(self) -> None:
        """Fill the attributes that tell how kernels are launched."""
        module, writer = self._module, self._writer()
        starts = {name: _declaration(self.source, name) for name in module.kernels}
        missing = [name for name, start in starts.items() if start is None]
        if missing:
            raise TileValueError(
                f"the source has no kernel {', '.join(missing)}",
                expected=f"a __global__ function for each of {', '.join(module.kernels)}",
            )
        self._kernels = sorted(starts, key=lambda name: starts[name] or 0)
        self.function_names = ", ".join(self._kernels)
        self.block_info, self.grid_info = {}, {}
        for key, plan in launch_plans(module.steps):
            self.block_info[key] = list(plan.threads)
            self.grid_info[key] = [writer.known_text(program) for program in plan.grid]
        self.dynamic_smem_buf = self._most_shared()
        self.tma_descriptor_args = dict(module.descriptors) or None
        self.l2_persistent_map = {}
        for key, window in module.windows:
            known = self.l2_persistent_map.setdefault(key, {})
            known[window.tensor] = (window.ratio, writer.printer.text(window.bytes))

    def _most_shared(self) -> int:
        return max((plan.shared_bytes for _, plan in launch_plans(self._module.steps)), default=0)

    def _shared(self, plan: LaunchPlan) -> int:
        """Bytes of dynamic shared memory of a launch: its own, unless the attribute was set."""
        stated = self.dynamic_smem_buf
        return plan.shared_bytes if stated in (None, self._most_shared()) else stated

    def _informations(self) -> dict[str, dict[str, object]]:
        """The arguments of ``create_dispatch_func``."""
        launches = {}
        plans = dict(launch_plans(self._module.steps))
        for key, facts in self._writer().informations().items():
            known = {"block_info": self.block_info, "grid_info": self.grid_info}
            own = {name: value[key] for name, value in known.items() if isinstance(value, dict)}
            launches[key] = {**facts, **own, "dynamic_smem_buf": self._shared(plans[key])}
        return launches

    # -- text --------------------------------------------------------------------------------------
    def get_stream_type(self) -> dict[str, str]:
        """Name with default value, and type, of the last parameter of ``call``."""
        return {"name": "stream=cudaStreamDefault", "type": "cudaStream_t"}

    def generate_l2_persistent_map(self, function_name: str) -> str:
        """Text that sets the windows of persisting L2 lines for a kernel; "" without one.

        A stream has one window at a time: they are set by ascending hit ratio, so that the last
        one serves the kernel.
        """
        writer = self._writer()
        return "".join(map(writer.window_text, writer.windows_of(function_name)))

    def generate_tma_descriptor_args(
        self, desc_name_map: Mapping[str, str], desc_name_var_map: Mapping[str, str] | None = None
    ) -> str:
        """Text that encodes tensor maps.

        Args:
            desc_name_map: host variable -> name of the tensor map. Every name belongs to one map,
                so two maps of one tensor never get the same name.
            desc_name_var_map: name of the tensor map -> host variable of its tensor, where that
                is not the parameter itself.
        """
        writer, tensors = self._writer(), desc_name_var_map or {}
        text = ""
        for variable, name in desc_name_map.items():
            descriptor = writer.descriptor(name)
            tensor = tensors.get(name) or writer.tensor(descriptor)
            text += writer.map_text(variable, descriptor, str(tensor))
        return text

    def create_dispatch_func(self, code: str, function_informations: Mapping[str, Any]) -> str:
        """Text of ``call``.

        Args:
            code: the device source; it must have every kernel.
            function_informations: launch -> "block_info", "grid_info", "dynamic_smem_buf" and more
                as the writer gives them.
        """
        for launch, facts in function_informations.items():
            if "function_name" not in facts:
                raise TileValueError(
                    f"the facts about the launch {launch} have no function_name",
                    expected='"function_name", the kernel that it starts',
                    got=", ".join(facts) or "none",
                )
            if _declaration(code, str(facts["function_name"])) is None:
                raise TileValueError(f"the source has no kernel {facts['function_name']}")
        return self._writer().function(self.get_stream_type(), function_informations)

    def get_init_func(self) -> str:
        """Text of ``init`` and ``get_last_error``."""
        text = ""
        for kernel, shared, blocks in self._needs():
            if shared > 0:
                text += templates.PREDEF_ATTRIBUTE_SET_DYNAMIC_MEMORY.format(kernel, shared)
            if blocks > 8:
                text += templates.PREDEF_ATTRIBUTE_SET_NON_PORTABLE_CLUSTER.format(kernel)
        return templates.PREDEF_INIT_FUNC.format(text)

    def _needs(self) -> list[tuple[str, int, int]]:
        """Each kernel with the most shared memory and cluster blocks of its launches."""
        needs: dict[str, tuple[int, int]] = {}
        for _, plan in launch_plans(self._module.steps):
            x, y, z = plan.cluster
            shared, blocks = needs.get(plan.kernel, (0, 1))
            needs[plan.kernel] = max(shared, self._shared(plan)), max(blocks, x * y * z)
        return [(name, *needs[name]) for name in self._kernels if name in needs]

    def _includes(self, host: str) -> str:
        names = ["cuda_runtime.h", "stdint.h", "stdio.h"]
        if "CUtensorMap" in host:
            names = ["cuda.h", *names, "sstream"]
        return "".join(f"#include <{name}>\n" for name in names)

    def update_lib_code(self, code: str) -> str:
        """The whole host source around the device source ``code``; also kept in ``lib_code``."""
        call = self.create_dispatch_func(code, self._informations())
        helpers = c_helpers(call) + CHost(self._module, self.runtime).support(call)
        init = self.get_init_func()
        device = BACKENDS[self.back_end].standalone(code)
        self.lib_code = "\n".join([self._includes(call) + device + init, helpers]) + call
        return self.lib_code


class TLNVRTCSourceWrapper(TLCUDASourceWrapper):
    """A wrapper class for the TileLang NVRTC backend.

    ``lib_code`` is a Python module over ``cuda.bindings.driver``. Its ``call(kernels,
    <parameters>, <shape symbols>, <stride symbols>, stream=0)`` takes the loaded kernels by name
    and raises RuntimeError.
    """

    def _writer(self) -> StepsWriter:
        return PythonHost(self._module)

    def generate_tma_descriptor_args(  # type: ignore[override]  # tensors have one name here
        self, desc_name_map: Mapping[str, str]
    ) -> str:
        """Python text that encodes tensor maps: host variable -> name of the tensor map."""
        return super().generate_tma_descriptor_args(desc_name_map)

    def update_lib_code(self, code: str) -> str:
        """The Python host module for the kernels of ``code``; also kept in ``lib_code``."""
        self.lib_code = self.create_dispatch_func(code, self._informations())
        return self.lib_code

    def get_stream_type(self) -> dict[str, str]:
        """Name with default value, and type, of the last parameter of ``call``."""
        return {"name": "stream=0", "type": "int"}


def _declaration(source: str, kernel: str) -> int | None:
    """Where ``source`` declares a kernel."""
    declaration = re.search(rf"__global__\b[^;{{}}]*?\b{re.escape(kernel)}\s*\(", source)
    return None if declaration is None else declaration.start()
