"""The HIP runtime (``libamdhip64``) by ctypes: modules, launches, memory.

Opened on first use, never at import. Pointers and streams of torch are valid here: there is one
context for a device. Every refusal is a `TileRuntimeError` with the runtime's own name for
it and what usually causes it. Source: HIP API reference, "Module" and "Execution Control".
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from tilelang.cuda.loaded_module import LoadedModule
from tilelang.errors import InternalError
from tilelang.hip.output import HEAD, SYMBOL, WORDS, decoded
from tilelang.runtime.device_library import DeviceLibrary, arguments

# hipError_t -> what usually causes it.
_ADVICE = {
    1: "an argument of the call is out of range, e.g. more threads or LDS than the device has",
    2: "free tensors, or use smaller ones",
    98: 'the code object was made for another chip; leave the target to "auto"',
    100: "no AMD GPU is visible; see rocm-smi and HIP_VISIBLE_DEVICES",
    200: 'the code object does not fit this device; leave the target to "auto"',
    209: 'the kernel was compiled for another chip; leave the target to "auto"',
    700: "a kernel accessed memory out of bounds. The process must be restarted",
    701: "too many threads for the registers of the kernel; use fewer threads",
    710: "a device-side assertion failed; its text is on the standard output",
    719: "an earlier kernel crashed; the process must be restarted",
    720: "use fewer blocks, so that all are resident at once",
}
_HOST_TO_DEVICE = 1  # hipMemcpyKind
_LIBRARIES = ("libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5")


class Driver(DeviceLibrary):
    """A loaded and initialised HIP runtime.

    Args:
        library: path or name; default the system's.

    Raises:
        TileRuntimeError: no runtime, or it cannot start.
    """

    api = "HIP"
    advice = _ADVICE
    stream_memory = ("hipMallocAsync", "hipFreeAsync")

    def __init__(self, library: str | None = None) -> None:
        names = (library,) if library else _LIBRARIES
        super().__init__(
            names, "there is no HIP runtime on this machine", "libamdhip64, which comes with ROCm"
        )
        for name in ("hipGetErrorName", "hipGetErrorString"):
            getattr(self._lib, name).restype = ctypes.c_char_p
        self.check(self._lib.hipInit(0), "starting the HIP runtime")

    def texts(self, code: int) -> tuple[str, str]:
        """The runtime's own name for a code, and what it says about it."""
        name, meaning = self._lib.hipGetErrorName(code), self._lib.hipGetErrorString(code)
        return (name or b"").decode(), (meaning or b"").decode(errors="replace")

    @contextmanager
    def on(self, device: int) -> Iterator[None]:
        """Work on ``device`` inside; the caller's device is current again afterwards."""
        self.alive()
        before = ctypes.c_int(0)
        self.call("hipGetDevice", ctypes.byref(before), action="asking for the current GPU")
        if before.value == device:
            yield
            return
        self.call("hipSetDevice", device, action=f"selecting GPU {device}")
        try:
            yield
        finally:
            self._lib.hipSetDevice(before)

    # -- modules -------------------------------------------------------------------------------
    def load(self, device: int, code: bytes, label: str) -> int:
        """Load a code object on a GPU; gives the module's handle."""
        with self.on(device):
            return self.handle("hipModuleLoadData", code, action=f"loading {label} on GPU {device}")

    def function(
        self, device: int, module: int, name: str, shared: int = 0, cluster: int = 1
    ) -> int:
        """The handle of a kernel; LDS needs no opt-in, and there are no clusters."""
        with self.on(device):
            return self.handle(
                "hipModuleGetFunction", ctypes.c_void_p(module), name.encode(),
                action=f"finding the kernel {name}",
            )  # fmt: skip

    def launch(
        self, device: int, function: int, grid: Sequence[int], block: Sequence[int], shared: int,
        stream: int, parameters: Sequence[bytes], *, cluster: Sequence[int] = (1, 1, 1),
        cooperative: bool = False, pdl: bool = False,
    ) -> int:  # fmt: skip
        """Start a kernel; gives the runtime's code. ``parameters``: the bytes of each, in order."""
        pointers, _keep_alive = arguments(parameters)
        launch = (ctypes.c_void_p(function), *grid, *block, shared, ctypes.c_void_p(stream))
        with self.on(device):
            if cooperative:
                return int(self._lib.hipModuleLaunchCooperativeKernel(*launch, pointers))
            return int(self._lib.hipModuleLaunchKernel(*launch, pointers, None))

    # -- what kernels print --------------------------------------------------------------------
    def output(self, device: int, module: int) -> Any:
        """Memory of the host that the kernels of a module print to, as an array of words."""
        size = ctypes.c_size_t()
        with self.on(device):
            address = self.handle(
                "hipModuleGetGlobal", ctypes.byref(size), ctypes.c_void_p(module),
                SYMBOL.encode(), action="finding where kernels print to",
            )  # fmt: skip
            memory = self.handle(
                "hipHostMalloc", ctypes.c_size_t(4 * (HEAD + WORDS)), 0,
                action="allocating memory for what kernels print",
            )  # fmt: skip
            buffer = (ctypes.c_uint32 * (HEAD + WORDS)).from_address(memory)
            buffer[0], buffer[1] = 0, WORDS
            self.call(
                "hipMemcpy", ctypes.c_void_p(address), ctypes.byref(ctypes.c_void_p(memory)),
                ctypes.c_size_t(8), _HOST_TO_DEVICE, action="telling a kernel where to print to",
            )  # fmt: skip
        return buffer

    def printed(self, device: int, stream: int, buffer: Any) -> int:
        """Wait for a stream and show what its kernels printed; gives the runtime's code."""
        with self.on(device):
            code = int(self._lib.hipStreamSynchronize(ctypes.c_void_p(stream)))
        if buffer[0]:
            records = buffer[: HEAD + min(buffer[0], WORDS)]
            print("".join(decoded(records)), end="", flush=True)
            ctypes.memset(buffer, 0, 4 * len(records))
            buffer[1] = WORDS
        return code


class LoadedCode(LoadedModule):
    """A code object that kernels are started of.

    Args:
        code: the code object.
        kernels: their names.
        name: of the program, for messages.
    """

    def __init__(self, code: bytes, kernels: Sequence[str], name: str) -> None:
        runtime: Any = driver
        super().__init__(code, [(kernel, 0, 1) for kernel in kernels], name, runtime)
        self._outputs: dict[int, Any] = {}

    def load(self, device: int) -> int:
        """The handle of the module, with memory for what its kernels print."""
        module = super().load(device)
        if SYMBOL.encode() in self.cubin:
            self._outputs[device] = self._runtime.output(device, module)
        return module

    @property
    def _runtime(self) -> Any:
        return self.driver

    def prepare(self, device: int) -> int:
        """Programs are launched from Python."""
        raise InternalError("kernels for AMD's GPUs are not launched from C")

    def launch(self, device: int, *args: Any, **options: Any) -> int:
        """Start a kernel, and wait for one that prints; gives the runtime's code."""
        code = super().launch(device, *args, **options)
        if code == 0 and device in self._outputs:
            return int(self._runtime.printed(device, args[4], self._outputs[device]))
        return code

    def tensor_map(self, form: Any, address: int, extents: Any, strides: Any) -> tuple[int, bytes]:
        """There are none."""
        raise InternalError("tensor maps are not available on HIP")


@lru_cache(maxsize=1)
def driver() -> Driver:
    """The HIP runtime of this machine, started on first use. Raises like :class:`Driver`."""
    return Driver()
