"""The CUDA driver (``libcuda``) by ctypes: contexts, modules, launches, memory, streams.

Opened on first use, never at import. Work goes to the primary context of a device, which is the
one that torch and the CUDA runtime use, so pointers and streams of other libraries are valid here.
Every refusal of the driver is a :class:`TileRuntimeError` with the driver's own name for it and
what usually causes it.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from tilelang.errors import TileRuntimeError
from tilelang.runtime.device_library import DeviceLibrary, arguments

if TYPE_CHECKING:
    from tilelang.runtime.steps import MapForm

# CUresult -> what usually causes it.
_ADVICE = {
    1: "an argument of the call is out of range, e.g. more threads or shared memory than the "
    "device has",
    2: "free tensors, or use smaller ones",
    3: "CUDA cannot be used after fork; start worker processes with the method 'spawn'",
    4: "the process is ending",
    100: "no NVIDIA GPU is visible; see nvidia-smi and CUDA_VISIBLE_DEVICES",
    200: "the machine code does not fit this driver; update the driver, or install an older "
    "nvidia-cuda-nvrtc",
    201: "the context is gone; was the device reset?",
    209: 'the kernel was compiled for another architecture; leave the target to "auto"',
    222: "update the NVIDIA driver, or install an older nvidia-cuda-nvrtc",
    218: "update the NVIDIA driver, or install an older nvidia-cuda-nvrtc",
    700: "a kernel accessed memory out of bounds; run with compute-sanitizer, or without "
    "tl.disable_safe_memory_legalize. The process must be restarted",
    701: "too many threads for the registers of the kernel; use fewer threads",
    702: "a kernel ran too long for the display watchdog, or never ends",
    710: "a device-side assertion failed; its text is on the standard output",
    715: "the kernel has an instruction that this device lacks; check the target",
    716: "an address is not a multiple of the access size; check slices and strides",
    719: "an earlier kernel crashed; the process must be restarted",
    720: "use fewer blocks, so that all are resident at once",
    801: "update the NVIDIA driver: tensor maps need one for CUDA 12",
    900: "the work cannot be captured into a CUDA graph; call the kernel once before capturing",
    901: "the capture of a CUDA graph is broken by an earlier call",
    912: "use a cluster that divides the grid and has at most 8 blocks (16 where supported)",
}

# CUfunction_attribute
_MAX_DYNAMIC_SHARED, _NON_PORTABLE_CLUSTER = 8, 14
# CUlaunchAttributeID
_COOPERATIVE, _CLUSTER, _PDL = 2, 4, 6
_STATIC_SHARED = 48 * 1024  # what needs no opt-in
_PORTABLE_CLUSTER = 8
_RELAXED = 2  # CUstreamCaptureMode
_NOT_SUPPORTED = 801
_ENCODERS = ("cuTensorMapEncodeTiled", "cuTensorMapEncodeIm2col")

# Words of the table that :meth:`Driver.table` writes; the C launcher reads the same entries.
TABLE_HEADER = 10


@lru_cache(maxsize=1)
def _structures() -> tuple[type[ctypes.Structure], type[ctypes.Structure]]:
    """CUlaunchConfig and CUlaunchAttribute."""

    class Attribute(ctypes.Structure):
        _fields_ = [
            ("id", ctypes.c_uint32), ("pad", ctypes.c_uint32), ("value", ctypes.c_uint32 * 16),
        ]  # fmt: skip

    class Config(ctypes.Structure):
        _fields_ = [
            ("grid", ctypes.c_uint32 * 3), ("block", ctypes.c_uint32 * 3),
            ("shared", ctypes.c_uint32), ("stream", ctypes.c_void_p),
            ("attributes", ctypes.POINTER(Attribute)), ("count", ctypes.c_uint32),
        ]  # fmt: skip

    return Config, Attribute


def library_names() -> tuple[str, ...]:
    """File names of the driver library."""
    return ("nvcuda.dll",) if sys.platform == "win32" else ("libcuda.so.1", "libcuda.so")


class Driver(DeviceLibrary):
    """A loaded and initialised driver.

    Args:
        library: path or name; default the system's.

    Raises:
        TileRuntimeError: no driver, or it cannot start.
    """

    api = "CUDA"
    advice = _ADVICE
    stream_memory = ("cuMemAllocAsync", "cuMemFreeAsync")

    def __init__(self, library: str | None = None) -> None:
        super().__init__(
            (library,) if library else library_names(), "there is no NVIDIA driver on this machine",
            "libcuda, which comes with the driver",
        )  # fmt: skip
        if not hasattr(self._lib, "cuLaunchKernelEx"):
            raise TileRuntimeError(
                "the NVIDIA driver is too old", expected="a driver for CUDA 11.8 or newer",
                got=self._lib._name, hint="update the driver",
            )  # fmt: skip
        # Grows in a forked child, so that prepared tables of the parent are seen to be stale.
        self.epoch = ctypes.c_int64(0)
        self.check(self._lib.cuInit(0), "starting the driver")
        self._contexts: dict[int, int] = {}
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self.epoch.value += 1

    def was_forked(self) -> bool:
        """Whether another process loaded the driver."""
        return bool(self.epoch.value) or super().was_forked()

    # -- errors --------------------------------------------------------------------------------
    def texts(self, code: int) -> tuple[str, str]:
        """The driver's own name for a code, and what it says about it."""
        name, meaning = ctypes.c_char_p(), ctypes.c_char_p()
        self._lib.cuGetErrorName(code, ctypes.byref(name))
        self._lib.cuGetErrorString(code, ctypes.byref(meaning))
        return (name.value or b"").decode(), (meaning.value or b"").decode(errors="replace")

    def address(self, name: str) -> int:
        """Address of a driver function, for callers in C."""
        return int(ctypes.cast(getattr(self._lib, name), ctypes.c_void_p).value or 0)

    # -- contexts ------------------------------------------------------------------------------
    def _device(self, index: int) -> Any:
        handle = ctypes.c_int(0)
        self.call("cuDeviceGet", ctypes.byref(handle), index, action=f"opening GPU {index}")
        return handle

    def context(self, device: int) -> int:
        """The primary context of a GPU, kept for the life of the process."""
        self.alive()
        handle = self._contexts.get(device)
        if handle is None:
            action = f"opening the context of GPU {device}"
            handle = self.handle("cuDevicePrimaryCtxRetain", self._device(device), action=action)
            self._contexts[device] = handle
        return handle

    @contextmanager
    def on(self, device: int) -> Iterator[None]:
        """Work on ``device`` inside; the caller's context is current again afterwards."""
        context, before = self.context(device), ctypes.c_void_p()
        self.call("cuCtxGetCurrent", ctypes.byref(before), action="asking for the current context")
        if before.value == context:
            yield
            return
        self.call("cuCtxSetCurrent", ctypes.c_void_p(context), action=f"selecting GPU {device}")
        try:
            yield
        finally:
            self._lib.cuCtxSetCurrent(before)

    # -- modules -------------------------------------------------------------------------------
    def load(self, device: int, cubin: bytes, label: str) -> int:
        """Load machine code on a GPU; gives the module's handle."""
        with self.on(device), self._relaxed_capture():
            return self.handle("cuModuleLoadData", cubin, action=f"loading {label} on GPU {device}")

    def function(
        self, device: int, module: int, name: str, shared: int = 0, cluster: int = 1
    ) -> int:
        """The handle of a kernel.

        Args:
            shared: most bytes of dynamic shared memory that it is launched with.
            cluster: most blocks of a cluster.
        """
        with self.on(device), self._relaxed_capture():
            address = self.handle(
                "cuModuleGetFunction", ctypes.c_void_p(module), name.encode(),
                action=f"finding the kernel {name}",
            )  # fmt: skip
            handle = ctypes.c_void_p(address)
            if shared > _STATIC_SHARED:
                self.call(
                    "cuFuncSetAttribute", handle, _MAX_DYNAMIC_SHARED, shared,
                    action=f"reserving {shared} bytes of shared memory for the kernel {name}",
                )  # fmt: skip
            if cluster > _PORTABLE_CLUSTER:
                self.call(
                    "cuFuncSetAttribute", handle, _NON_PORTABLE_CLUSTER, 1,
                    action=f"allowing clusters of {cluster} blocks for the kernel {name}",
                )  # fmt: skip
        return address

    @contextmanager
    def _relaxed_capture(self) -> Iterator[None]:
        """Loading code is harmless while the thread captures a graph; say so to the driver."""
        mode = ctypes.c_int(_RELAXED)
        exchange = getattr(self._lib, "cuThreadExchangeStreamCaptureMode", None)
        if exchange is None or exchange(ctypes.byref(mode)):
            yield
            return
        try:
            yield
        finally:
            exchange(ctypes.byref(mode))

    # -- launches ------------------------------------------------------------------------------
    def launch(
        self, device: int, function: int, grid: Sequence[int], block: Sequence[int], shared: int,
        stream: int, parameters: Sequence[bytes], *, cluster: Sequence[int] = (1, 1, 1),
        cooperative: bool = False, pdl: bool = False,
    ) -> int:  # fmt: skip
        """Start a kernel; gives the driver's code.

        Args:
            parameters: the bytes of each parameter, in order.
            cluster, cooperative, pdl: launch attributes.
        """
        config_type, attribute_type = _structures()
        pairs = []
        if tuple(cluster) != (1, 1, 1):
            pairs.append((_CLUSTER, tuple(cluster)))
        if cooperative:
            pairs.append((_COOPERATIVE, (1,)))
        if pdl:
            pairs.append((_PDL, (1,)))
        attributes = (attribute_type * max(1, len(pairs)))()
        for entry, (number, value) in zip(attributes, pairs):
            entry.id = number
            for index, word in enumerate(value):
                entry.value[index] = word
        config = config_type()
        config.grid[:], config.block[:] = list(grid), list(block)
        config.shared, config.stream = shared, stream
        config.attributes, config.count = attributes, len(pairs)
        pointers, _keep_alive = arguments(parameters)
        with self.on(device):
            return int(
                self._lib.cuLaunchKernelEx(
                    ctypes.byref(config), ctypes.c_void_p(function), pointers, None
                )
            )

    def tensor_map(
        self, form: MapForm, address: int, extents: Sequence[int], strides: Sequence[int]
    ) -> tuple[int, bytes]:
        """Encode a tensor map; gives the driver's code and the 128 bytes.

        Args:
            form: what is fixed about it.
            address: of the tensor, in device memory.
            extents: of the tensor, innermost first.
            strides: bytes from one element to the next along each dim but the innermost.
        """
        self.alive()
        encode = getattr(self._lib, _ENCODERS[form.im2col], None)
        if encode is None:
            return _NOT_SUPPORTED, b""
        return form.encode(encode, address, extents, strides)

    def table(self, device: int, functions: Sequence[int]) -> Any:
        """The data for launches from C, as an array of 64-bit words that the caller keeps alive.

        Address and value of the epoch, the context, the addresses of the driver functions (0 for
        one that an old driver lacks), then the kernels.
        """
        names = ("cuLaunchKernelEx", "cuCtxGetCurrent", "cuCtxSetCurrent", "cuMemAllocAsync",
                 "cuMemFreeAsync", *_ENCODERS)  # fmt: skip
        entries = [ctypes.addressof(self.epoch), self.epoch.value, self.context(device)]
        entries += [self.address(name) if hasattr(self._lib, name) else 0 for name in names]
        return (ctypes.c_uint64 * (TABLE_HEADER + len(functions)))(*entries, *functions)

    # -- memory --------------------------------------------------------------------------------
    def copy(self, device: int, target: int, source: int, size: int, stream: int = 0) -> None:
        """Copy between any two addresses, host or device, in the order of ``stream``."""
        with self.on(device):
            self.call(
                "cuMemcpyAsync", ctypes.c_uint64(target), ctypes.c_uint64(source),
                ctypes.c_size_t(size), ctypes.c_void_p(stream), action="copying memory",
            )  # fmt: skip

    # -- streams -------------------------------------------------------------------------------
    def synchronize(self, device: int, stream: int = 0) -> None:
        """Wait for a stream; errors of kernels show here."""
        with self.on(device):
            self.call("cuStreamSynchronize", ctypes.c_void_p(stream), action="running a kernel")


@lru_cache(maxsize=1)
def driver() -> Driver:
    """The driver of this machine, started on first use. Raises like :class:`Driver`."""
    return Driver()
