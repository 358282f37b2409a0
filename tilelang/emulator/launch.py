"""Running the kernels of a program on the CPU cores, after the same argument checks as elsewhere.

A call binds its arguments as a call for the CPU does (they are in host memory) and then runs the
host steps of the GPU program; each launch among them goes to the emulator's runtime with the bytes
that a driver would get. What the runtime finds is collected in a :class:`Record`.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np

from tilelang.codegen.gpu.module import GpuModule, SharedBuffer
from tilelang.emulator.build import KernelLibrary
from tilelang.errors import TileRuntimeError, TileValueError, check_choice
from tilelang.ir.buffer import row_major_strides
from tilelang.ir.lanes import WARP
from tilelang.records import dataclass
from tilelang.runtime.gpu import GpuLauncher, Program
from tilelang.runtime.pylauncher import Narrow, PyLauncher
from tilelang.runtime.signature import LaunchSpec
from tilelang.runtime.steps import Machine, MapForm
from tilelang.runtime.tensors import describe

if TYPE_CHECKING:
    from tilelang.emulator import abi

#: What can be checked, by the name that programs use.
CHECKS = (
    "races", "bounds", "alignment", "counters", "timeline", "registers", "lost-writes", "warps",
)  # fmt: skip
# "lost-writes" and "warps" report what a program may do on purpose: overwrite data that no thread
# has read, and assume that a warpgroup runs as a whole.
_DEFECTS = CHECKS[:-2]
DEFAULT_CHECKS = ("races", "bounds", "alignment", "counters", "registers")
SCHEDULES = ("fifo", "random", "late", "early")
_CAPACITY = (256, 4096, 65536)  # findings, sites and events that one launch can report
_CAPACITY_UNCHECKED = (16, 1, 1)  # without checks
_ALIGN = 128  # of kernel parameters and of memory that the host steps allocate
_DEVICE = 256  # alignment of what a GPU allocates
VECTOR = 16  # bytes of the widest access
_GUARD = 256  # guard bytes before and after that memory
_STOPPED = 1  # the code of a launch that was stopped
_INTERRUPTED = 3  # what the runtime returns after an interrupt (Ctrl-C)


@dataclass(frozen=True)
class Settings:
    """Settings of a launch.

    Attributes:
        checks: names of :data:`CHECKS`; without any, kernels run as fast as possible.
        schedule: "fifo" (warps round-robin), "random" (from the seed), "late" (asynchronous
            operations complete at the last legal moment) or "early" (at once).
        seed: of the random schedule.
        workers: threads that run blocks; 0 means one per core.
        steps: switches between threads after which a block is stopped; 0 means a very large number.
        block: linear number of the block whose events the timeline keeps.
    """

    checks: tuple[str, ...] = ()
    schedule: str = "fifo"
    seed: int = 0
    workers: int = 0
    steps: int = 0
    block: int = 0

    def __post_init__(self) -> None:
        for name in self.checks:
            check_choice(name, CHECKS, f"there is no check {name!r}")
        check_choice(self.schedule, SCHEDULES, f"there is no schedule {self.schedule!r}")

    @property
    def is_watched(self) -> bool:
        """Whether loads and stores have to be reported."""
        return bool(self.checks)

    def flags(self) -> int:
        """The checks in the form of the runtime."""
        from tilelang.emulator import abi

        bits = {
            "races": abi.SHARED_RACES | abi.GLOBAL_RACES,
            "bounds": abi.GLOBAL_BOUNDS | abi.SHARED_BOUNDS,
            "alignment": abi.ALIGNMENT,
            "counters": abi.COUNTERS,
            "timeline": abi.EVENTS,
            "registers": abi.UNSET_REGISTERS,
            "lost-writes": abi.LOST_WRITES | abi.SHARED_RACES,
            "warps": abi.WARP_PRODUCTS | abi.SHARED_RACES,
        }
        flags = 0
        for name in self.checks:
            flags |= bits[name]
        return flags


@dataclass(frozen=True)
class Memory:
    """A tensor, or memory of the host steps, that kernels may touch."""

    name: str
    base: int
    size: int
    unit: int = 1  # bytes of a storage unit, the unit of shape and strides
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()
    writable: bool = True
    fresh: bool = False  # uninitialized before the call

    def index(self, offset: int) -> tuple[int, ...] | None:
        """The logical index of the element at a byte offset, None if there is none."""
        if not self.shape:
            return None
        rest = offset // self.unit
        indices = [0] * len(self.shape)
        for axis in sorted(range(len(self.shape)), key=lambda a: -abs(self.strides[a])):
            step = abs(self.strides[axis])
            if step:
                indices[axis], rest = divmod(rest, step)
            if self.strides[axis] < 0:  # the first address is that of the last index
                indices[axis] = self.shape[axis] - 1 - indices[axis]
        inside = all(0 <= at < extent for at, extent in zip(indices, self.shape))
        return tuple(indices) if inside and rest == 0 else None


@dataclass
class LaunchRecord:
    """The report of the runtime about one launch."""

    kernel: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    memory: tuple[Memory, ...]
    warp_size: int
    code: int
    report: abi.Report
    findings: list[abi.Finding]
    sites: list[abi.Site]
    events: list[abi.Event]


@dataclass
class Record:
    """The launches of one call."""

    settings: Settings
    library: KernelLibrary
    launches: list[LaunchRecord] = field(default_factory=list)

    @property
    def has_findings(self) -> bool:
        """Whether there is a finding, or a launch was stopped."""
        return any(launch.findings or launch.code for launch in self.launches)


@dataclass(frozen=True)
class Machinery:
    """The libraries and limits that run the kernels of a program.

    Attributes:
        module: the generated source with its host steps.
        program: the host steps, encoded.
        library: returns the compiled source, with checks or without.
        runtime: returns the runtime.
        lock: held during a launch; the runtime runs one at a time.
        bounded: whether kernels may access the memory of their arguments only; false if they
            follow addresses that they read.
        warp_size: lanes of a warp.
        most_shared: bytes of shared memory that a block may have; 0 for the most of any GPU.
    """

    module: GpuModule
    program: Program
    library: Callable[[bool], KernelLibrary]
    runtime: Callable[[], Any]
    lock: threading.RLock = field(default_factory=threading.RLock)
    bounded: bool = True
    warp_size: int = WARP
    most_shared: int = 0

    def tiles(self, kernel: str) -> tuple[SharedBuffer, ...]:
        """The shared buffers of a kernel."""
        return tuple(tile for tile in self.module.shared if tile.kernel == kernel)


class EmulatedLauncher(GpuLauncher):
    """Checks arguments in host memory, allocates results, runs the kernels and returns.

    Args:
        spec: the launch signature.
        machinery: the program.
        settings: how kernels run.
        finished: gets the record of every call before its results are returned; it may raise.
        narrow: compiles the kernel for tensors with less alignment than vectors need.
    """

    def __init__(
        self, spec: LaunchSpec, machinery: Machinery, settings: Settings,
        finished: Callable[[Record], None], narrow: Narrow | None = None,
    ) -> None:  # fmt: skip
        stops: Any = _Stops(spec.name)
        super().__init__(spec, machinery.program, stops, narrow)
        self.machinery = machinery
        self.settings = settings
        self._finished = finished

    def _invoke(self, args: Sequence[Any], slots: bytes) -> int:
        record = Record(self.settings, self.machinery.library(self.settings.is_watched))
        # With a raw pointer as an argument, no access is known to be out of bounds.
        bounded = all(
            param.kind == "tensor" or param.dtype != "handle" for param in self.spec.params
        )
        bounded = bounded and self.machinery.bounded
        call = _Call(self.machinery, record, self._memory(args), bounded=bounded)
        program = self.machinery.program
        code = Machine(program.words, program.slots, call).run(self._unpack(slots), 0, 0)
        if record.launches:
            self._finished(record)
        return code

    def _memory(self, args: Sequence[Any]) -> list[Memory]:
        memory = []
        for number, (param, arg) in enumerate(zip(self.spec.params, args)):
            if param.kind != "tensor" or arg is None:
                continue
            info = describe(arg)
            strides = info.strides or row_major_strides(info.shape)
            if 0 in info.shape:
                continue
            ends = [(extent - 1) * step for extent, step in zip(info.shape, strides)]
            first, last = sum(min(end, 0) for end in ends), sum(max(end, 0) for end in ends)
            unit = param.itemsize
            memory.append(
                Memory(param.name, info.pointer + first * unit, (last - first + 1) * unit, unit,
                       tuple(info.shape), tuple(strides), not info.readonly,
                       number in self.spec.outputs)
            )  # fmt: skip
        return memory

    def allocate(self, like: Any, position: int, shape: tuple[int, ...]) -> Any:
        """A result, aligned as on a GPU."""
        result = PyLauncher.allocate(self, like, position, shape)
        if type(result) is np.ndarray and result.size:
            return np.ndarray(result.shape, result.dtype, _aligned_bytes(result.nbytes))
        return result

    def _address_of(self, result: Any) -> int:
        return PyLauncher._address_of(self, result)


class _Stops:
    """The errors that launchers take from a driver."""

    def __init__(self, name: str) -> None:
        self.name = name

    def error(self, code: int, action: str) -> TileRuntimeError:
        """The error for a launch that was stopped."""
        return TileRuntimeError(f"kernel {self.name} was stopped by the emulator")


class _Call:
    """One call's launches."""

    def __init__(
        self, machinery: Machinery, record: Record, memory: list[Memory], bounded: bool
    ) -> None:
        self.machinery = machinery
        self.record = record
        self.memory = memory
        self.bounded = bounded
        self._scratch: dict[int, Any] = {}

    def launch(
        self, device: int, kernel: int, grid: Sequence[int], block: Sequence[int], shared: int,
        stream: int, parameters: Sequence[bytes], *, cluster: Sequence[int], cooperative: bool,
        pdl: bool,
    ) -> int:  # fmt: skip
        """Run kernel number ``kernel`` to its end."""
        from tilelang.emulator import abi

        settings = self.record.settings
        name = self.machinery.module.kernels[kernel]
        values, memory = _Parameters(parameters), tuple(self.memory)
        buffers, tiles = self._buffers(memory), self._tiles(name)
        flags = settings.flags()
        if not self.bounded:
            flags &= ~abi.GLOBAL_BOUNDS
        launch = abi.Launch(
            abi=abi.ABI, flags=flags, entry=self.record.library.entry(name),
            params=values.pointers, grid=tuple(grid), block=tuple(block), cluster=tuple(cluster),
            dynamic_shared=shared, cooperative=int(cooperative),
            schedule=abi.SCHEDULES.index(settings.schedule), seed=settings.seed,
            step_bound=settings.steps, workers=settings.workers, buffers=buffers, tiles=tiles,
            buffer_count=len(buffers), tile_count=len(tiles), event_block=settings.block,
            warp_size=self.machinery.warp_size, max_shared=self.machinery.most_shared,
        )  # fmt: skip
        capacity = _CAPACITY if settings.is_watched else _CAPACITY_UNCHECKED
        findings = (abi.Finding * capacity[0])()
        sites, events = (abi.Site * capacity[1])(), (abi.Event * capacity[2])()
        report = abi.Report(
            abi=abi.ABI, findings=findings, sites=sites, events=events,
            finding_capacity=capacity[0], site_capacity=capacity[1], event_capacity=capacity[2],
        )  # fmt: skip
        with self.machinery.lock:
            run = self.machinery.runtime().tl_emu_run
            code = int(run(ctypes.byref(launch), ctypes.byref(report)))
        if code == _INTERRUPTED:
            raise KeyboardInterrupt(f"kernel {name}")
        self.record.launches.append(
            LaunchRecord(
                name, tuple(grid), tuple(block), shared, memory, self.machinery.warp_size, code,
                report, findings[: report.finding_count], sites[: report.site_count],
                events[: report.event_count],
            )
        )  # fmt: skip
        return _STOPPED if code else 0

    def _buffers(self, memory: Sequence[Memory]) -> Any:
        """The memory of a call in the form of the runtime. Only the first kernel of a call is
        checked for reads of uninitialised memory: the writes of earlier kernels are not tracked."""
        from tilelang.emulator import abi

        first = not self.record.launches
        buffers = [
            abi.Buffer(m.base, m.size, number, int(m.writable) | 2 * int(m.fresh and first))
            for number, m in enumerate(memory)
        ]
        return (abi.Buffer * len(buffers))(*buffers)

    def _tiles(self, kernel: str) -> Any:
        """The shared buffers of a kernel in the form of the runtime."""
        from tilelang.emulator import abi

        tiles = [
            abi.Tile(tile.offset, tile.size, number, 0)
            for number, tile in enumerate(self.machinery.tiles(kernel))
            if tile.offset is not None
        ]
        return (abi.Tile * len(tiles))(*tiles)

    def tensor_map(
        self, form: MapForm, address: int, extents: Sequence[int], strides: Sequence[int]
    ) -> tuple[int, bytes]:
        """Encode a tensor map for the emulated TMA: a code, which is 0, and its 128 bytes."""
        runtime = self.machinery.runtime()
        kind = "im2col" if form.im2col else "tiled"
        encoder = getattr(runtime, f"tl_emu_tensor_map_{kind}")
        code, encoded = form.encode(encoder, address, extents, strides)
        if code:
            reason = runtime.tl_emu_tensor_map_reason
            reason.restype = ctypes.c_char_p
            raise TileRuntimeError(
                "a tensor map of the kernel is not valid",
                got=(reason() or b"").decode(errors="replace"),
            )
        return 0, encoded

    def allocate(self, device: int, size: int, stream: int) -> int:
        """Allocate memory of the host steps, uninitialised."""
        raw = np.full(size + 2 * _GUARD + _ALIGN, 0xFF, np.uint8)
        base = -(-(raw.ctypes.data + _GUARD) // _ALIGN) * _ALIGN
        self._scratch[base] = raw
        self.memory.append(Memory(f"workspace {len(self._scratch)}", base, size, fresh=True))
        return base

    def free(self, device: int, address: int, stream: int) -> None:
        """Free memory of the host steps."""
        self._scratch.pop(address, None)
        self.memory = [memory for memory in self.memory if memory.base != address]


def copy_of(array: Any) -> Any:
    """A copy of a numpy array with its strides, aligned like memory of a GPU.

    It begins at a multiple of 256 bytes, unless the array itself is aligned to less than a vector.
    """
    if array.size == 0:
        return array.copy()
    last = sum((n - 1) * step for n, step in zip(array.shape, array.strides))
    if any(step < 0 for step in array.strides):
        return array.copy(order="K")
    size = int(last) + array.itemsize
    odd = array.ctypes.data % VECTOR
    raw = _aligned_bytes(size + odd)[odd:]
    copy = np.ndarray(array.shape, array.dtype, raw, 0, array.strides)
    copy[...] = array
    return copy


def _aligned_bytes(size: int) -> Any:
    """Bytes aligned like memory of a GPU, filled with 0xFF."""
    raw = np.full(size + _DEVICE, 0xFF, np.uint8)
    start = -raw.ctypes.data % _DEVICE
    return raw[start : start + size]


class _Parameters:
    """Kernel parameters in memory, with the pointers that a launch takes."""

    def __init__(self, values: Sequence[bytes]) -> None:
        slot = max([_ALIGN, *(-(-len(value) // _ALIGN) * _ALIGN for value in values)])
        self._room = ctypes.create_string_buffer(slot * (len(values) + 1))
        base = -(-ctypes.addressof(self._room) // _ALIGN) * _ALIGN
        addresses = [base + number * slot for number in range(len(values))]
        for address, value in zip(addresses, values):
            ctypes.memmove(address, value, len(value))
        self.pointers = (ctypes.c_void_p * max(1, len(values)))(*addresses)


def checks_of(names: object) -> tuple[str, ...]:
    """The checks that ``names`` (a name, names, or None for the usual ones) selects."""
    if names is None:
        return DEFAULT_CHECKS
    if isinstance(names, str):
        return _DEFECTS if names == "all" else (names,)
    if not isinstance(names, (tuple, list, set, frozenset)):
        raise TileValueError("checks is not a list of names", expected=", ".join(CHECKS))
    return tuple(map(str, names))
