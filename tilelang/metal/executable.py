"""Kernels for Apple's GPUs: torch compiles their source and launches them (``torch.mps``).

``torch.mps.compile_shader(text)`` gives an object with a method for each kernel. Tensors and
numbers are bound to buffers by their positions; ``threads`` counts those of the whole grid and
``group_size`` those of a block. A number is bound by its eight bytes, the lowest first, so that an
integer of any width is read from their beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from tilelang.codegen.artifact import Artifact
from tilelang.codegen.backend import Program
from tilelang.codegen.gpu.module import GpuModule, LaunchPlan, launches
from tilelang.errors import InternalError, TileRuntimeError
from tilelang.metal.standalone import standalone
from tilelang.records import dataclass
from tilelang.runtime.executable import Executable
from tilelang.runtime.gpu import GpuLauncher
from tilelang.runtime.host_program import host_program
from tilelang.runtime.launch_spec import artifact_spec
from tilelang.runtime.pylauncher import Narrow
from tilelang.runtime.signature import LaunchSpec


@dataclass(frozen=True)
class MetalExecutable(Executable):
    """A program for Apple's GPUs."""

    device: ClassVar[str | None] = "mps"

    def text(self, kind: str) -> str:
        """The "metal" text, with the header that it includes in its place."""
        return standalone(self.source) if kind == "metal" else super().text(kind)


def executable(program: Program, artifact: Artifact) -> Executable:
    """The text behind a launcher; torch compiles it when it is first called."""
    func, module = program.func, artifact.module
    if program.options.verbose:
        print(module.source)
    spec = artifact_spec(func, program.out_idx, artifact, "metal")
    return MetalExecutable(MetalLauncher(spec, module, program.narrow), "python", func, artifact)


class Shaders:
    """The kernels of one program, and the tensors of the call that runs."""

    def __init__(self, module: GpuModule, name: str) -> None:
        self.name = name
        self.tensors: dict[int, Any] = {}  # by their addresses
        self._module = module
        self._plans = {plan.kernel: plan for plan in launches(module.steps)}

    @cached_property
    def library(self) -> Any:
        """The library that torch compiles of the source."""
        import torch

        if not torch.backends.mps.is_available():
            raise TileRuntimeError(
                f"kernel {self.name} needs a GPU of Apple", expected="torch with MPS on a Mac",
                got=f"torch {torch.__version__} without it",
                hint='execution_backend="emulator" runs the kernel on the CPU',
            )  # fmt: skip
        return torch.mps.compile_shader(standalone(self._module.source))

    def launch(
        self, device: int, kernel: int, grid: Sequence[int], block: Sequence[int], shared: int,
        stream: int, parameters: Sequence[bytes], **unused: Any,
    ) -> int:  # fmt: skip
        """Start kernel number ``kernel``; shared memory is declared in its text."""
        plan = self._plans[self._module.kernels[kernel]]
        values = [self._value(plan, at, raw) for at, raw in enumerate(parameters)]
        threads = [blocks * extent for blocks, extent in zip(grid, block)]
        start: Callable[..., None] = getattr(self.library, plan.kernel)
        start(*values, threads=threads, group_size=list(block))
        return 0

    def _value(self, plan: LaunchPlan, at: int, raw: bytes) -> Any:
        """A parameter as torch binds it: a tensor for an address, or a number."""
        arg = plan.args[at]
        if arg.kind == "float":
            return float(np.frombuffer(raw[:4], np.float32)[0])
        number = int.from_bytes(raw[:8], "little", signed=True)
        if arg.kind != "pointer":
            return number
        tensor = self.tensors.get(number)
        if tensor is None:
            raise TileRuntimeError(
                f"kernel {self.name} gets an address that is not a tensor of the call",
                expected="tensors as arguments: Metal binds memory by its buffers",
                got=hex(number % 2**64),
            )
        return tensor

    def allocate(self, device: int, size: int, stream: int) -> int:
        """Memory that the kernels of a call share."""
        import torch

        memory = torch.empty(max(1, size), dtype=torch.uint8, device="mps")
        self.tensors[int(memory.data_ptr())] = memory
        return int(memory.data_ptr())

    def free(self, device: int, address: int, stream: int) -> None:
        """Give it back."""
        self.tensors.pop(address, None)

    def prepare(self, device: int) -> int:
        """There is no launcher in C."""
        raise InternalError("Metal kernels are started by torch")

    def tensor_map(self, *unused: Any) -> tuple[int, bytes]:
        """There are none."""
        raise InternalError("Metal has no tensor maps")

    def error(self, code: int, action: str) -> TileRuntimeError:
        """The error for a code; torch raises its own."""
        return TileRuntimeError(f"{action} failed", got=str(code))


class MetalLauncher(GpuLauncher):
    """Checks, allocates, and starts the kernels by torch."""

    def __init__(self, spec: LaunchSpec, module: GpuModule, narrow: Narrow | None) -> None:
        self.shaders = Shaders(module, spec.name)
        super().__init__(spec, host_program(module), self.shaders, narrow)

    def _invoke(self, args: Sequence[Any], slots: bytes) -> int:
        pairs = zip(self.spec.params, args)
        tensors = [arg for param, arg in pairs if param.kind == "tensor" and arg is not None]
        self.shaders.tensors = {int(arg.data_ptr()): arg for arg in tensors}
        try:
            return super()._invoke(args, slots)
        finally:
            self.shaders.tensors = {}

    def device_and_stream(self, args: Sequence[Any]) -> tuple[int, int]:
        """The one GPU of a Mac, and torch's own stream."""
        return 0, 0
