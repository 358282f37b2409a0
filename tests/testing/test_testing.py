"""``tilelang.testing``: seeds, marks that skip, and running a test file."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilelang import testing
from tilelang.utils.tensor import torch_assert_close


def draws() -> tuple[float, float]:
    return random.random(), float(np.random.rand())


def test_seed_repeats_every_generator() -> None:
    testing.set_random_seed(7)
    first = draws()
    assert draws() != first
    testing.set_random_seed(7)
    assert draws() == first
    testing.set_random_seed()
    default = draws()
    testing.set_random_seed(42)
    assert draws() == default


def test_seed_reaches_torch() -> None:
    torch = pytest.importorskip("torch", reason="has a generator of its own")
    testing.set_random_seed(7)
    first = torch.rand(3)
    testing.set_random_seed(7)
    assert torch.equal(torch.rand(3), first)


def test_seed_that_is_negative_or_large() -> None:
    testing.set_random_seed(-1)
    testing.set_random_seed(2**40)


def skipped(mark: Callable[..., Any]) -> tuple[bool, str]:
    """Whether a test under ``mark`` is skipped, and the reason."""

    @mark
    def test() -> None:
        return None

    (found,) = test.pytestmark  # type: ignore[attr-defined]  # what pytest's marks leave
    assert found.name == "skipif"
    return bool(found.args[0]), found.kwargs["reason"]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Callable[[tuple[int, int] | None], None]:
    """``machine((9, 0))``: a machine with such a device; None has no device."""

    def make(version: tuple[int, int] | None) -> None:
        monkeypatch.setattr(testing, "_cuda_version", lambda: version)

    return make


def test_cuda_is_required(machine: Callable[..., None]) -> None:
    machine(None)
    assert skipped(testing.requires_cuda) == (True, "needs a CUDA device")
    machine((8, 0))
    assert skipped(testing.requires_cuda) == (False, "needs a CUDA device")


@pytest.mark.parametrize(
    ("name", "sign", "passing"),
    [
        ("ge", ">=", [(9, 0), (9, 1), (10, 0)]), ("gt", ">", [(9, 1), (10, 0)]),
        ("le", "<=", [(8, 9), (9, 0)]), ("lt", "<", [(8, 9)]), ("eq", "==", [(9, 0)]),
    ],
)  # fmt: skip
def test_compute_version_is_compared(
    name: str, sign: str, passing: list[tuple[int, int]], machine: Callable[..., None]
) -> None:
    requires = getattr(testing, f"requires_cuda_compute_version_{name}")
    reason = f"needs a CUDA compute version {sign} 9.0"
    for version in [(8, 9), (9, 0), (9, 1), (10, 0)]:
        machine(version)
        assert skipped(requires(9, 0)) == (version not in passing, reason)
    machine(None)
    assert skipped(requires(9)) == (True, reason)


def test_compute_version_without_a_comparison_is_at_least() -> None:
    same = testing.requires_cuda_compute_version_ge
    assert testing.requires_cuda_compute_version is same


def test_package_is_required() -> None:
    assert skipped(testing.requires_package("numpy")) == (False, "needs numpy")
    assert skipped(testing.requires_package("no_such_package")) == (True, "needs no_such_package")
    assert skipped(testing.requires_package("no_such_package.part"))[0]
    assert not skipped(testing.requires_package("numpy.linalg"))[0]


def test_comparison_is_the_one_of_utils() -> None:
    assert testing.torch_assert_close is torch_assert_close


@pytest.mark.parametrize(
    ("body", "code", "word"), [("pass", 0, "1 passed"), ("1 / 0", 1, "1 failed")]
)
def test_main_runs_the_file_and_tells_the_result(
    body: str, code: int, word: str, tmp_path: Path
) -> None:
    file = tmp_path / "test_some_kernel.py"
    file.write_text(
        "import tilelang.testing\n\n\n"
        f"def test_one():\n    {body}\n\n\n"
        "if __name__ == '__main__':\n    tilelang.testing.main()\n"
    )
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, timeout=120, cwd=tmp_path
    )
    assert done.returncode == code, done.stderr
    assert word in done.stdout
