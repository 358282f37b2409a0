"""Helpers for test files of kernels."""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from tilelang.errors import TileValueError, check_choice, shown
from tilelang.records import dataclass
from tilelang.utils.tensor import torch_assert_close

__all__ = [
    "Timing", "main", "process_func", "regression", "requires_cdna", "requires_cuda",
    "requires_cuda_compute_version", "requires_cuda_compute_version_eq",
    "requires_cuda_compute_version_ge", "requires_cuda_compute_version_gt",
    "requires_cuda_compute_version_le", "requires_cuda_compute_version_lt",
    "requires_cuda_or_cdna", "requires_gfx950", "requires_llvm", "requires_metal",
    "requires_package", "requires_rocm", "set_random_seed", "torch_assert_close",
]  # fmt: skip

Mark = Callable[[Callable[..., Any]], Callable[..., Any]]


def set_random_seed(seed: int = 42) -> None:
    """Seed Python's, numpy's and (if imported) torch's generators."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)


def main() -> None:
    """Run the tests of the calling file with pytest and leave with its exit code."""
    import pytest

    frame = inspect.stack()[1]
    sys.exit(pytest.main([frame.filename]))


def _cuda_version() -> tuple[int, int] | None:
    from tilelang.compat.contrib.nvcc import get_target_compute_version, parse_compute_version
    from tilelang.target import parse_target

    if parse_target("auto").compute is None:
        return None
    return parse_compute_version(get_target_compute_version())


def _skip_unless(condition: Callable[[], bool], reason: str) -> Mark:
    import pytest

    return pytest.mark.skipif(not condition(), reason=reason)


def _needs(feature: str, condition: Callable[[], bool]) -> Mark:
    """A decorator that skips a test unless the machine has ``feature``; asked when it is used."""

    def decorator(func: Callable[..., Any]) -> Callable[..., Any]:
        return _skip_unless(condition, f"needs {feature}")(func)

    decorator.__doc__ = f"Skip the test on machines without {feature}."
    return decorator


def _has_hip_target(check: str) -> bool:
    """Whether the machine has an AMD GPU whose target passes a check of `tilelang.rocm.target`."""
    from tilelang.compat.rocm import target as rocm

    return rocm.check_hip_availability() and bool(getattr(rocm, check)("auto"))


def _has_c_compiler() -> bool:
    from tilelang.cpu.toolchain import find_compiler

    return find_compiler(quiet=True) is not None


def _has_metal() -> bool:
    from tilelang.target.device import has_metal

    return has_metal()


requires_cuda = _needs("a CUDA device", lambda: _cuda_version() is not None)
requires_rocm = _needs("an AMD GPU", lambda: _has_hip_target("target_is_hip"))
requires_cdna = _needs("an AMD GPU of the CDNA family", lambda: _has_hip_target("target_is_cdna"))
requires_gfx950 = _needs("an AMD GPU gfx950", lambda: _has_hip_target("target_is_gfx950"))
requires_cuda_or_cdna = _needs(
    "a CUDA device or an AMD GPU of the CDNA family",
    lambda: _cuda_version() is not None or _has_hip_target("target_is_cdna"),
)
requires_metal = _needs("an Apple GPU", _has_metal)
# Programs that ask for LLVM run on the CPU, which takes a C compiler here.
requires_llvm = _needs("a C compiler", _has_c_compiler)


def _compare(name: str, test: Callable[[tuple[int, int], tuple[int, int]], bool]) -> Any:
    def decorator(major: int, minor: int = 0) -> Mark:
        def has_version() -> bool:
            version = _cuda_version()
            return version is not None and test(version, (major, minor))

        return _skip_unless(has_version, f"needs a CUDA compute version {name} {major}.{minor}")

    decorator.__doc__ = f"Skip the test unless the device's compute version is {name} the given."
    return decorator


requires_cuda_compute_version_ge = _compare(">=", lambda a, b: a >= b)
requires_cuda_compute_version_gt = _compare(">", lambda a, b: a > b)
requires_cuda_compute_version_le = _compare("<=", lambda a, b: a <= b)
requires_cuda_compute_version_lt = _compare("<", lambda a, b: a < b)
requires_cuda_compute_version_eq = _compare("==", lambda a, b: a == b)
_MODES = {
    "ge": requires_cuda_compute_version_ge,
    "gt": requires_cuda_compute_version_gt,
    "le": requires_cuda_compute_version_le,
    "lt": requires_cuda_compute_version_lt,
    "eq": requires_cuda_compute_version_eq,
}


def requires_cuda_compute_version(
    major_version: int, minor_version: int = 0, mode: str = "ge"
) -> Mark:
    """Skip the test unless the device's compute version compares as ``mode`` says: "ge", "gt",
    "le", "lt" or "eq".

    Raises:
        TileValueError: another mode.
    """
    check_choice(mode, _MODES, "unknown comparison of versions")
    mark: Mark = _MODES[mode](major_version, minor_version)
    return mark


def requires_package(name: str) -> Mark:
    """Skip the test unless a package can be imported."""
    import importlib.util

    def exists() -> bool:
        try:
            return importlib.util.find_spec(name) is not None
        except ModuleNotFoundError:  # of a dotted name, the part before the dot
            return False

    return _skip_unless(exists, f"needs {name}")


# -- timings of example programs -------------------------------------------------------------------
@dataclass(frozen=True)
class Timing:
    """The result of :func:`process_func`: ``latency`` is as the function gave it."""

    name: str
    latency: float


_COLLECTED: ContextVar[list[Timing] | None] = ContextVar("tilelang_timings", default=None)


def process_func(func: Callable[..., float], name: str | None = None, /, **kwargs: Any) -> Timing:
    """Call a function that measures something, print what it gives and return it.

    Args:
        func: gives a positive number, say milliseconds.
        name: printed; the function's own by default.
        kwargs: arguments of ``func``.

    Raises:
        TileValueError: it gives something else.
    """
    label = str(name or getattr(func, "__name__", "function"))
    latency = func(**kwargs)
    if not isinstance(latency, (int, float)) or not latency > 0:
        raise TileValueError(
            f"{label} gave no latency", expected="a positive number", got=shown(latency, 60)
        )
    print(f"{label}: {latency:.6g}")
    timing = Timing(label, float(latency))
    collected = _COLLECTED.get()
    if collected is not None:
        collected.append(timing)
    return timing


def regression(prefixes: Sequence[str] = ("regression_",), verbose: bool = True) -> list[Timing]:
    """Call every function of the calling module whose name starts with one of ``prefixes``, and
    print what :func:`process_func` measured meanwhile as a table in Markdown.

    Args:
        prefixes: starts of names.
        verbose: print the table.
    """
    caller = inspect.stack()[1].frame.f_globals
    chosen = [
        value
        for name, value in sorted(caller.items())
        if name.startswith(tuple(prefixes)) and callable(value)
    ]
    timings: list[Timing] = []
    token = _COLLECTED.set(timings)
    try:
        for function in chosen:
            function()
    finally:
        _COLLECTED.reset(token)
    if verbose:
        print("| name | latency |\n|---|---|")
        for timing in timings:
            print(f"| {timing.name} | {timing.latency:.6g} |")
    return timings
