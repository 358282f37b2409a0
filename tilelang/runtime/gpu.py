"""Launchers of GPU programs: they check the arguments, then run the host steps of the program.

The C launcher runs the steps itself once a device is prepared. :class:`GpuLauncher` does the same
in Python for the calls that the C launcher does not handle: other frameworks, first calls, and all
errors.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tilelang.errors import TileRuntimeError
from tilelang.records import dataclass
from tilelang.runtime import steps
from tilelang.runtime.cache import DiskCache
from tilelang.runtime.native import Compiler, adapt, encode, launcher_class
from tilelang.runtime.pylauncher import Narrow, PyLauncher
from tilelang.runtime.signature import LaunchSpec
from tilelang.runtime.tensors import describe, empty_on_gpu, is_torch


class Gpu(steps.Launches, Protocol):
    """The kernels of one program on the GPUs of this machine."""

    def prepare(self, device: int) -> int:
        """Address of the table for launches from C; loads the kernels if need be."""

    def error(self, code: int, action: str) -> TileRuntimeError:
        """The error for a code of the driver."""


@dataclass(frozen=True)
class Program:
    """The host part of a GPU program.

    Attributes:
        words: the encoded steps, see :mod:`tilelang.runtime.steps`.
        slots: how many slots it uses.
        native: whether C can run it.
    """

    words: tuple[int, ...]
    slots: int
    native: bool = True


class GpuLauncher(PyLauncher):
    """Checks, allocates on the device of the arguments, starts the kernels, and returns.

    Args:
        spec: the launch signature.
        program: its host part.
        gpu: its kernels.
        narrow: see :class:`~tilelang.runtime.pylauncher.PyLauncher`.
    """

    def __init__(
        self, spec: LaunchSpec, program: Program, gpu: Gpu, narrow: Narrow | None = None
    ) -> None:
        super().__init__(spec, None, gpu, narrow)
        self._gpu = gpu
        self._machine = steps.Machine(program.words, program.slots, gpu)
        self._unpack = struct.Struct(f"={len(spec.params) + len(spec.free_symbols)}q").unpack

    def _invoke(self, args: Sequence[Any], slots: bytes) -> int:
        device, stream = self.device_and_stream(args)
        return self._machine.run(self._unpack(slots), device, stream)

    def device_and_stream(self, args: Sequence[Any]) -> tuple[int, int]:
        """The number of the device that a call runs on, and the current stream of the device."""
        for param, arg in zip(self.spec.params, args):
            if param.kind == "tensor" and arg is not None:
                return _device_and_stream(arg)
        return _current_device_and_stream()

    def allocate(self, like: Any, position: int, shape: tuple[int, ...]) -> Any:
        """A result in device memory, of the framework of ``like``."""
        return empty_on_gpu(like, self._result_dtypes[position], shape)

    def _address_of(self, result: Any) -> int:
        return int(result.data_ptr()) if is_torch(result) else describe(result).pointer

    def fail(self, code: int) -> None:
        """Raise the error of the return code of a run."""
        name = self.spec.name
        if code <= steps.DRIVER:
            raise self._gpu.error(steps.DRIVER - code, f"running kernel {name}")
        if code == steps.NO_VALUE:
            raise TileRuntimeError(
                f"kernel {name}: the size of a launch cannot be computed",
                got="a division by zero, or a loop whose step is not positive, on the host",
            )
        if code == steps.GRID_TOO_LARGE:
            raise TileRuntimeError(
                f"kernel {name} is launched with too many blocks",
                expected="at most " + ", ".join(map(str, steps.MAX_GRID)) + " blocks in x, y and z",
                hint="give the largest extent first, or larger tiles to each block",
            )
        super().fail(code)


class LateLauncher:
    """Calls a kernel through Python until another thread has built the C launcher.

    Only a process that builds the extension has one: later ones find it in the cache.

    Args:
        slow: the launcher in Python.
        is_built: whether ``fast`` returns at once.
        fast: returns the C launcher, or one in Python if the extension cannot be built.
    """

    def __init__(
        self,
        slow: Callable[..., Any],
        is_built: Callable[[], bool],
        fast: Callable[[], Callable[..., Any]],
    ) -> None:
        self._call = slow
        self._is_built = is_built
        self._fast = fast
        self._is_resolved = False

    def __call__(self, *args: Any) -> Any:
        if not self._is_resolved and self._is_built():
            self.resolved()
        return self._call(*args)

    def resolved(self) -> Callable[..., Any]:
        """The final launcher, after its build."""
        if not self._is_resolved:  # two threads may both create one; either is correct
            self._call = self._fast()
            self._is_resolved = True
        return self._call


def _device_and_stream(arg: Any) -> tuple[int, int]:
    if is_torch(arg):
        index = arg.device.index or 0
        return index, int(sys.modules["torch"].cuda.current_stream(index).cuda_stream)
    index = describe(arg).index
    return index, _cupy_stream(index) if _root(arg) == "cupy" else 0


def _cupy_stream(index: int) -> int:
    cupy: Any = sys.modules["cupy"]
    return int(cupy.cuda.get_current_stream(index).ptr)


def _current_device_and_stream() -> tuple[int, int]:
    """The current device of the framework in use, for calls without tensors."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        index = int(torch.cuda.current_device())
        return index, int(torch.cuda.current_stream(index).cuda_stream)
    cupy: Any = sys.modules.get("cupy")
    if cupy is not None:
        index = int(cupy.cuda.runtime.getDevice())
        return index, _cupy_stream(index)
    return 0, 0


def _root(obj: object) -> str:
    return type(obj).__module__.partition(".")[0]


def make_gpu_launcher(
    spec: LaunchSpec, program: Program, gpu: Gpu, *, compiler: Compiler | None = None,
    cache: DiskCache | None = None, narrow: Narrow | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """The fastest launcher of this machine for a GPU program.

    Args:
        spec: the launch signature.
        program: the host part.
        gpu: the kernels.
        compiler: builds the C launcher on first use; None gives the pure-Python launcher.
        cache: where the built extension is kept.
        narrow: see :class:`GpuLauncher`.
    """
    slow = GpuLauncher(spec, program, gpu, narrow)
    kind = None if compiler is None else launcher_class(compiler, cache)
    room = program.slots <= steps.MAX_SLOTS
    code = encode(spec) if kind is not None and program.native and room else None
    if kind is None or code is None:
        return slow
    words = struct.pack(f"={len(program.words)}q", *program.words)
    launcher: Callable[..., Any] = kind(
        code, 0, slow, slow.fail, slow.allocate_known, adapt, spec.name, words, gpu.prepare
    )
    return launcher
