"""The kernels of one compiled program: loaded on each device when it is first needed there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilelang.cuda.driver import Driver, driver
from tilelang.errors import TileRuntimeError

if TYPE_CHECKING:
    from tilelang.runtime.steps import MapForm


class LoadedModule:
    """Machine code that launchers start kernels of.

    Args:
        cubin: the image.
        kernels: names with the most dynamic shared memory and cluster blocks of any launch.
        name: of the program, for messages.
        get_driver: gives the driver.
    """

    def __init__(
        self, cubin: bytes, kernels: Sequence[tuple[str, int, int]], name: str,
        get_driver: Callable[[], Driver] = driver,
    ) -> None:  # fmt: skip
        self.cubin = cubin
        self.kernels = tuple(kernels)
        self.name = name
        self._driver = get_driver
        self._functions: dict[int, tuple[int, ...]] = {}
        self._tables: dict[int, Any] = {}
        self._lock = threading.Lock()

    @property
    def driver(self) -> Driver:
        """The driver; raises when there is none."""
        return self._driver()

    def functions(self, device: int) -> tuple[int, ...]:
        """Handles of the kernels on ``device``, loaded now if they are not there."""
        self.driver.alive()
        handles = self._functions.get(device)
        if handles is not None:
            return handles
        with self._lock:
            if device not in self._functions:
                module = self.load(device)
                self._functions[device] = tuple(
                    self.driver.function(device, module, *kernel) for kernel in self.kernels
                )
            return self._functions[device]

    def load(self, device: int) -> int:
        """The handle of the module, loaded on ``device``."""
        return self.driver.load(device, self.cubin, f"the kernels of {self.name}")

    def prepare(self, device: int) -> int:
        """Address of the table for launching from C on ``device``."""
        import ctypes

        functions = self.functions(device)
        with self._lock:
            if device not in self._tables:
                self._tables[device] = self.driver.table(device, functions)
            return int(ctypes.addressof(self._tables[device]))

    def launch(
        self, device: int, kernel: int, grid: Sequence[int], block: Sequence[int], shared: int,
        stream: int, parameters: Sequence[bytes], *, cluster: Sequence[int], cooperative: bool,
        pdl: bool,
    ) -> int:  # fmt: skip
        """Start kernel number ``kernel``; gives the driver's code."""
        return self.driver.launch(
            device, self.functions(device)[kernel], grid, block, shared, stream, parameters,
            cluster=cluster, cooperative=cooperative, pdl=pdl,
        )  # fmt: skip

    def tensor_map(
        self, form: MapForm, address: int, extents: Sequence[int], strides: Sequence[int]
    ) -> tuple[int, bytes]:
        """The driver's code and the bytes of a tensor map."""
        return self.driver.tensor_map(form, address, extents, strides)

    def allocate(self, device: int, size: int, stream: int) -> int:
        """Device memory in stream order."""
        return self.driver.allocate(device, size, stream)

    def free(self, device: int, address: int, stream: int) -> None:
        """Give it back in stream order."""
        self.driver.free(device, address, stream)

    def error(self, code: int, action: str) -> TileRuntimeError:
        """The error for a code of the driver."""
        return self.driver.error(code, action)
