"""What a program of the corpus is, and where all of them are kept.

A program is a Python function that builds a kernel and says what it has to compute::

    @program()
    def doubled():
        @T.prim_func
        def f(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(8):
                    B[i] = A[i] * 2

        a = np.arange(8, dtype=np.float32)
        return f, [a, Out(a * 2)]

The expectation is plain numpy, written from the documented meaning of the language; no executor of
this project takes part in it. An argument that is no ``Out`` has to be unchanged after the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from on_device import OnDevice

import tilelang
import tilelang.language as T

# Types of the arrays of programs.
I, U, F, H = np.int32, np.uint32, np.float32, np.float16
BF, E4, E5 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
INF, NAN = np.inf, np.nan
# Floats with rules of their own.
SPECIAL = np.array(
    [
        0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e-45, -1e-45, 1e-40, 3.4e38, -3.4e38, 0.1, 2.5,
        -2.5, 65504.0,
    ],
    F,
)  # fmt: skip
DEVICE = "device"  # the GPU of the machine, where it has one
EXECUTORS: dict[str, dict[str, str]] = {
    "interpret": {"target": "cpu", "execution_backend": "interpret"},
    "cpu": {"target": "cpu"},
    "sm_80": {"target": "cuda -arch=sm_80", "execution_backend": "emulator"},
    "sm_90a": {"target": "cuda -arch=sm_90a", "execution_backend": "emulator"},
    "gfx942": {"target": "hip -mcpu=gfx942", "execution_backend": "emulator"},
    "gfx1100": {"target": "hip -mcpu=gfx1100", "execution_backend": "emulator"},
    "metal": {"target": "metal", "execution_backend": "emulator"},
}
USUAL = ("interpret", "cpu", "sm_80")
OTHERS = ("gfx942", "gfx1100", "metal")  # run programs of sm_80, unless they lack what these need


def ints(
    shape: Any, seed: int = 0, dtype: Any = np.float32, low: int = -50, high: int = 50
) -> np.ndarray:
    """Random whole numbers from ``low`` to below ``high``."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def rows_of(rows: Callable[..., Any], *types: Any, threads: int = 32) -> Any:
    """A program of one block that stores what ``rows`` makes of elements, each value in a row.

    Args:
        rows: takes an element of each input and gives the list of values.
        types: of one or two inputs, and of the result, a row of it for each value.
    """
    count, n = (extent.value for extent in types[-1].shape)
    if len(types) == 2:

        @T.prim_func
        def f(A: types[0], B: types[1]):
            with T.Kernel(1, threads=threads):
                for i in T.Parallel(n):
                    for row in list(range(count)):
                        B[row, i] = rows(A[i])[row]

        return f

    @T.prim_func
    def f(A: types[0], B: types[1], C: types[2]):
        with T.Kernel(1, threads=threads):
            for i in T.Parallel(n):
                for row in list(range(count)):
                    C[row, i] = rows(A[i], B[i])[row]

    return f


@dataclass(frozen=True)
class Out:
    """An argument that the program writes.

    Args:
        want: its contents afterwards.
        initial: its contents before; by default a pattern that no program computes, so that a
            store that is missing shows.
        rtol, atol: how far numbers may differ; without them all bits of a number count, the sign
            of zero too (any NaN equals another).
    """

    want: np.ndarray
    initial: np.ndarray | None = None
    rtol: float = 0.0
    atol: float = 0.0

    def before(self) -> np.ndarray:
        if self.initial is not None:
            return np.array(self.initial)
        array = np.empty(self.want.shape, self.want.dtype)
        array.view(np.uint8).reshape(-1)[...] = 0 if array.dtype == bool else 0x55
        return array

    def check(self, name: str, got: np.ndarray) -> None:
        got = np.asarray(got)
        assert got.shape == self.want.shape, f"{name}: shape {got.shape} for {self.want.shape}"
        assert got.dtype == self.want.dtype, f"{name}: dtype {got.dtype} for {self.want.dtype}"
        same = self._same(got)
        if same.all():
            return
        place = tuple(int(i) for i in np.argwhere(~same)[0])
        raise AssertionError(
            f"{name}: {int((~same).sum())} of {same.size} elements differ, first "
            f"{list(place)}: {got[place]} for {self.want[place]}"
        )

    def _same(self, got: np.ndarray) -> np.ndarray:
        want = self.want
        if got.dtype.kind in "iub":
            return got == want
        with np.errstate(invalid="ignore"):
            ours, theirs = got.astype(np.float64), want.astype(np.float64)
            nan = np.isnan(ours) & np.isnan(theirs)
            if self.rtol or self.atol:
                return nan | np.isclose(ours, theirs, rtol=self.rtol, atol=self.atol)
            return nan | ((ours == theirs) & (np.signbit(ours) == np.signbit(theirs)))


@dataclass(frozen=True)
class Program:
    """One program of the corpus.

    Args:
        name: of the function that makes it.
        theme: of its module.
        make: gives the kernel, its arguments and, where results are returned, options such as
            ``out_idx``; or a function of the options of an executor that does everything itself.
        executors: those that run it.
        left_out: why the other ones do not.
    """

    name: str
    theme: str
    make: Callable[[], Any]
    executors: tuple[str, ...] = USUAL
    left_out: Mapping[str, str] = field(default_factory=dict)

    def run(self, executor: str) -> None:
        """Run on one executor and compare everything that it wrote."""
        made = self.make()
        if callable(made):
            if executor == DEVICE:
                pytest.skip("the program calls its kernels with arrays itself")
            made(EXECUTORS[executor])
            return
        func, arguments = made[0], made[1]
        extra: dict[str, Any] = made[2] if len(made) > 2 else {}
        if executor == DEVICE:
            kernel: Any = OnDevice(func, **extra)
        else:
            kernel = tilelang.compile(func, **EXECUTORS[executor], **extra)
        run_and_compare(kernel, arguments, extra.get("out_idx"))


def run_and_compare(kernel: Any, arguments: Sequence[Any], out_idx: Any = None) -> None:
    """Call ``kernel`` once; results that it returns are the ``Out`` at the places of ``out_idx``."""
    places = [] if out_idx is None else [out_idx] if isinstance(out_idx, int) else list(out_idx)
    returned = [place % len(arguments) for place in places]
    passed: list[Any] = []
    checks: list[tuple[str, Out, np.ndarray]] = []
    for position, argument in enumerate(arguments):
        if position in returned:
            continue
        if isinstance(argument, Out):
            array = argument.before()
            checks.append((f"argument {position}", argument, array))
        elif isinstance(argument, np.ndarray):
            array = shared_strides(argument)
            checks.append((f"input {position}", Out(argument), array))
        else:
            array = argument
        passed.append(array)
    if isinstance(kernel, OnDevice):
        results = kernel(*passed, returned=tuple(returned))
    else:
        results = kernel(*passed)
    if returned:
        results = [results] if isinstance(out_idx, int) or len(returned) == 1 else list(results)
        if len(results) == 1 and isinstance(results[0], (list, tuple)):
            results = list(results[0])
        assert len(results) == len(returned)
        for place, result in zip(returned, results):
            array = result.cpu().numpy() if isinstance(kernel, OnDevice) else np.asarray(result)
            checks.append((f"result {place}", arguments[place], array))
    for name, expected, array in checks:
        expected.check(name, array)


def shared_strides(array: np.ndarray) -> np.ndarray:
    """A copy with the strides of ``array``, so that strided tensors stay strided."""
    if array.flags.c_contiguous:
        return np.array(array)
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    copy = np.array(base)
    offset = array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
    return np.ndarray(array.shape, array.dtype, copy.data, offset, array.strides)


PROGRAMS: dict[str, Program] = {}


def program(
    *, but: Mapping[str, str] | None = None, also: Sequence[str] = ()
) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a program.

    Args:
        but: executors that do not run it, each with the reason.
        also: executors besides the usual ones, that is ``"sm_90a"``.
    """
    left_out = dict(but or {})

    def register(make: Callable[[], Any]) -> Callable[[], Any]:
        theme = make.__module__.rpartition(".")[2]
        name = f"{theme}-{make.__name__}"
        assert name not in PROGRAMS, f"two programs are called {name}"
        chosen = tuple(e for e in (*USUAL, *also) if e not in left_out)
        PROGRAMS[name] = Program(make.__name__, theme, make, chosen, left_out)
        return make

    return register
