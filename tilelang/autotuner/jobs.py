"""Jobs of the tuner's worker processes: compile programs, check and time kernels.

All arguments are plain data that pickles. The program is the only code of the user that runs here.
Inputs and expected results are data, so that a script needs no ``__main__`` guard and a function
need not be importable.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Any

from tilelang.cuda import native_launcher
from tilelang.cuda.driver import driver
from tilelang.errors import TileError
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.stmt import PrimFunc
from tilelang.jit.execution import load_compiler
from tilelang.jit.kernel import JITKernel
from tilelang.options import Options
from tilelang.profiler import Profiler, TensorSupplyType, Timing, measure, measure_together
from tilelang.profiler.clocks import DriverClock
from tilelang.profiler.profile import results_of
from tilelang.runtime.cache import default_cache
from tilelang.runtime.device_array import DeviceMemory
from tilelang.runtime.tensors import as_numpy_view, describe, is_torch
from tilelang.target import Target
from tilelang.target.kinds import target_is_cuda
from tilelang.utils.tensor import copied, to_device

DRIVER = "driver"  # instead of a library: memory of the driver


@dataclass(frozen=True)
class Program:
    """The source of a kernel: the traced program and how it is compiled."""

    func: PrimFunc
    out_idx: tuple[int, ...]
    target: Target
    options: Options
    backend: str

    def kernel(self) -> JITKernel:
        """The kernel, from the cache or compiled now."""
        results = list(self.out_idx) or None
        return JITKernel(self.func, results, self.target, self.options, self.backend)


@dataclass(frozen=True)
class Case:
    """Inputs and expected results.

    Attributes:
        inputs: in host memory; None for inputs that the worker generates.
        expected: results, or arguments after the call; None for no comparison.
        supply_type: how inputs are generated.
        rtol, atol, max_mismatched_ratio: of the comparison.
        backend: of the clock.
        give_results: whether the check returns the results instead of comparing them.
    """

    inputs: list[Any] | None
    expected: list[Any] | None
    supply_type: TensorSupplyType
    rtol: float
    atol: float
    max_mismatched_ratio: float
    backend: str
    give_results: bool


@dataclass(frozen=True)
class Stored:
    """A tensor in C order, to be sent to a process without a framework.

    Attributes:
        array: the storage array.
        dtype: of its elements.
    """

    array: Any
    dtype: str


@dataclass(frozen=True)
class Failure:
    """Why a job has no result: ``kind`` is "failed", "wrong", "crashed" or "timeout"."""

    kind: str
    note: str


def attempt(work: Callable[..., Any], *args: Any) -> Any:
    """``work(*args)``, or a :class:`Failure` for any exception. Code of the user, of compilers and
    of drivers runs in it, and one configuration must not end the search."""
    try:
        return work(*args)
    except AssertionError as error:
        return Failure("failed" if isinstance(error, TileError) else "wrong", note_of(error))
    except Exception as error:  # noqa: BLE001  # becomes a row of the report
        return Failure("failed", note_of(error))


def note_of(error: BaseException) -> str:
    """An error on one line."""
    lines = str(error).strip().splitlines()
    text = lines[0].strip() if lines else ""
    if isinstance(error, (TileError, AssertionError)) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def compile_program(program: Program) -> dict[str, Any]:
    """Compile a program into the cache; returns what the compiler reports of the kernel. The C
    launcher is not built here, as the kernel is not called."""
    if target_is_cuda(program.target) and program.backend in ("auto", "c"):
        program = replace(program, backend="python")
    executable = program.kernel().adapter
    if executable.device is None:
        return {}
    used = executable.resources
    return {
        "registers": used.registers, "spills": used.spills, "shared": used.shared,
        "occupancy": used.occupancy,
    }  # fmt: skip


class Bench:
    """Kernels and their inputs in one process."""

    compile_program = staticmethod(compile_program)

    def __init__(self) -> None:
        self._cases: dict[int, Case] = {}
        self._inputs: dict[int, list[Any]] = {}
        self._expected: dict[int, list[Any]] = {}
        self._loaded: dict[int, tuple[JITKernel, int]] = {}
        self._synchronize: Callable[[], Any] = lambda: None
        self._memory: DeviceMemory | None = None  # without a framework
        self._clock: DriverClock | None = None

    def get_ready(self, device: tuple[str, int] | None, target: Target | None = None) -> None:
        """Load a library ("torch", "cupy", or "driver" for none), select its GPU number, and load
        the compiler of a target. It is the first request: its answer shows that the process
        runs."""
        if target is not None:
            load_compiler(target)
        if device is None:
            return
        library, index = device
        if library == DRIVER:
            native_launcher.launcher_ahead(default_cache())
            self._memory = DeviceMemory(driver(), index)
            self._clock = DriverClock(self._memory)
            self._synchronize = self._memory.wait
            return
        module: Any = importlib.import_module(library)
        if library == "torch":
            module.cuda.set_device(index)
            self._synchronize = module.cuda.synchronize
        else:
            module.cuda.Device(index).use()
            self._synchronize = module.cuda.Device(index).synchronize

    def sound(self) -> None:
        """Wait for the device; raises its pending errors."""
        self._synchronize()

    def load(self, number: int, case: Case) -> None:
        """Keep a case under its number."""
        self._cases[number] = case

    def check(self, key: int, program: Program, number: int) -> list[Any] | None:
        """Load the kernel ``key`` and call it once with the inputs of a case.

        Returns:
            The results in host memory, if ``give_results``.

        Raises:
            AssertionError: the results are not those expected.
        """
        case = self._cases[number]
        kernel = program.kernel()
        _ = kernel.execution_backend  # waits for the C launcher, so that timed calls go through it
        profiler = kernel.get_profiler(case.supply_type)
        profiler.device = self._memory or profiler.device
        if number not in self._inputs:
            self._inputs[number] = self._make_inputs(profiler, case)
        results = None
        if case.give_results:
            inputs = self._copies(number)
            results = list(map(host, results_of(kernel(*inputs), inputs)))
        elif case.expected is not None:
            if number not in self._expected:
                self._expected[number] = [
                    placed(tensor, profiler.device if hasattr(tensor, "detach") else None)
                    for tensor in case.expected
                ]
            expected = self._expected[number]
            profiler.assert_allclose(
                lambda *_: expected, self._copies(number), rtol=case.rtol, atol=case.atol,
                max_mismatched_ratio=case.max_mismatched_ratio,
            )  # fmt: skip
        else:
            kernel(*self._inputs[number])
        self._loaded[key] = (kernel, number)
        return results

    def _make_inputs(self, profiler: Profiler, case: Case) -> list[Any]:
        if case.inputs is None:
            return profiler.inputs()
        return [placed(tensor, profiler.device) for tensor in case.inputs]

    def _copies(self, number: int) -> list[Any]:
        return [copied(tensor) for tensor in self._inputs[number]]

    def time(self, keys: list[int], warmup: float, rep: float, limit: float = inf) -> list[Timing]:
        """Timings of checked kernels, measured alternately. A single kernel is measured no further
        if its first calls take more than ``limit`` milliseconds each."""
        calls = {str(key): self._call(key) for key in keys}
        backend = self._clock or self._cases[self._loaded[keys[0]][1]].backend
        if len(calls) == 1:
            return [measure(calls[str(keys[0])], warmup, rep, backend=backend, limit=limit)]
        return list(measure_together(calls, warmup, rep, backend).values())

    def _call(self, key: int) -> Callable[[], Any]:
        kernel, number = self._loaded[key]
        inputs = self._inputs[number]
        return lambda: kernel(*inputs)

    def forget(self, key: int) -> None:
        """Release a kernel."""
        self._loaded.pop(key, None)


def placed(value: Any, device: Any) -> Any:
    """A host tensor copied to ``device``; any other value unchanged."""
    if isinstance(value, Stored):
        return device.upload(value.array, DType(value.dtype), value.array.shape)
    return value if device is None or not getattr(value, "shape", ()) else to_device(value, device)


def can_store(value: Any) -> bool:
    """Whether :func:`stored` preserves an argument: a number, or a torch tensor in C order, since a
    program may depend on strides."""
    if not is_torch(value):
        return isinstance(value, (int, float))
    return (
        type(value).__module__ == "torch" and value.layout is sys.modules["torch"].strided
        and value.ndim > 0 and value.is_contiguous() and not value.is_neg()
        and describe(value).dtype is not None
    )  # fmt: skip


def stored(value: Any) -> Any:
    """A tensor as :class:`Stored`; any other value unchanged."""
    if not is_torch(value):
        return value
    return Stored(as_numpy_view(host(value)), str(describe(value).dtype))


def host(value: Any) -> Any:
    """A tensor copied to host memory; any other value unchanged."""
    if hasattr(value, "detach"):
        return value.detach().cpu()
    if hasattr(value, "__cuda_array_interface__"):
        return value.get()
    return value
