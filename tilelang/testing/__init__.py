"""Helpers for test files of kernels."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.utils.tensor import torch_assert_close

__all__ = [
    "main", "requires_cuda", "requires_cuda_compute_version", "requires_cuda_compute_version_eq",
    "requires_cuda_compute_version_ge", "requires_cuda_compute_version_gt",
    "requires_cuda_compute_version_le", "requires_cuda_compute_version_lt", "requires_package",
    "set_random_seed", "torch_assert_close",
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
    import inspect

    import pytest

    frame = inspect.stack()[1]
    sys.exit(pytest.main([frame.filename]))


def _cuda_version() -> tuple[int, int] | None:
    from tilelang.contrib.nvcc import get_target_compute_version, parse_compute_version
    from tilelang.target import parse_target

    if parse_target("auto").kind != "cuda":
        return None
    return parse_compute_version(get_target_compute_version())


def _skip_unless(condition: Callable[[], bool], reason: str) -> Mark:
    import pytest

    return pytest.mark.skipif(not condition(), reason=reason)


def requires_cuda(func: Callable[..., Any]) -> Callable[..., Any]:
    """Skip the test on machines without a CUDA device."""
    return _skip_unless(lambda: _cuda_version() is not None, "needs a CUDA device")(func)


def _compare(name: str, test: Callable[[tuple[int, int], tuple[int, int]], bool]) -> Any:
    def decorator(major: int, minor: int = 0) -> Mark:
        def condition() -> bool:
            version = _cuda_version()
            return version is not None and test(version, (major, minor))

        return _skip_unless(condition, f"needs a CUDA compute version {name} {major}.{minor}")

    decorator.__doc__ = f"Skip the test unless the device's compute version is {name} the given."
    return decorator


requires_cuda_compute_version_ge = _compare(">=", lambda a, b: a >= b)
requires_cuda_compute_version_gt = _compare(">", lambda a, b: a > b)
requires_cuda_compute_version_le = _compare("<=", lambda a, b: a <= b)
requires_cuda_compute_version_lt = _compare("<", lambda a, b: a < b)
requires_cuda_compute_version_eq = _compare("==", lambda a, b: a == b)
requires_cuda_compute_version = requires_cuda_compute_version_ge


def requires_package(name: str) -> Mark:
    """Skip the test unless a package can be imported."""
    import importlib.util

    def exists() -> bool:
        try:
            return importlib.util.find_spec(name) is not None
        except ModuleNotFoundError:  # of a dotted name, the part before the dot
            return False

    return _skip_unless(exists, f"needs {name}")
