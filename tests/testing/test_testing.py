"""``tilelang.testing``: seeds, marks that skip, and running a test file."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilelang import testing
from tilelang.errors import TileValueError
from tilelang.target import parse_target


def draws() -> tuple[float, float]:
    return random.random(), float(np.random.rand())


def test_seed_repeats_every_generator() -> None:
    for unusual in (-1, 2**40):
        testing.set_random_seed(unusual)
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


def test_compute_version_without_a_comparison_is_at_least(machine: Callable[..., None]) -> None:
    machine((9, 0))
    requires = testing.requires_cuda_compute_version
    assert skipped(requires(9, 1)) == (True, "needs a CUDA compute version >= 9.1")
    assert skipped(requires(9, 0, "lt")) == (True, "needs a CUDA compute version < 9.0")
    assert skipped(requires(9, 0, mode="le"))[0] is False
    with pytest.raises(TileValueError, match="unknown comparison of versions"):
        requires(9, 0, "about")


@pytest.mark.parametrize(
    ("name", "archs"),
    [
        ("rocm", ["gfx90a", "gfx942", "gfx950", "gfx1100"]),
        ("cdna", ["gfx90a", "gfx942", "gfx950"]),
        ("gfx950", ["gfx950"]),
        ("cuda_or_cdna", ["gfx90a", "gfx942", "gfx950"]),
    ],
)
def test_amd_gpus_are_required_by_family(
    name: str, archs: list[str], machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tilelang.rocm import target as rocm

    machine(None)
    requires = getattr(testing, f"requires_{name}")
    assert skipped(requires)[0]
    monkeypatch.setattr(rocm, "check_hip_availability", lambda: True)
    for arch in ("gfx90a", "gfx942", "gfx950", "gfx1100"):
        found = parse_target(f"hip -arch={arch}")
        monkeypatch.setattr(rocm, "parse_target", lambda target, found=found: found)
        assert skipped(requires)[0] == (arch not in archs)


def test_llvm_and_metal_are_what_the_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    for answer in (True, False):
        found = object() if answer else None
        monkeypatch.setattr("tilelang.cpu.toolchain.find_compiler", lambda quiet, f=found: f)
        monkeypatch.setattr("tilelang.target.device.has_metal", lambda answer=answer: answer)
        assert skipped(testing.requires_llvm)[0] is not answer
        assert skipped(testing.requires_metal)[0] is not answer


def test_timings_are_collected_from_the_calling_module(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def regression_first() -> None:
        testing.process_func(lambda M: M / 2, "half", M=3)

    def regression_second() -> None:
        testing.process_func(regression_latency)

    def regression_latency() -> float:
        return 2.0

    monkeypatch.setitem(globals(), "regression_first", regression_first)
    monkeypatch.setitem(globals(), "regression_second", regression_second)
    assert [item.latency for item in testing.regression()] == [1.5, 2.0]
    assert "| half | 1.5 |" in capsys.readouterr().out
    with pytest.raises(TileValueError, match="gave no latency"):
        testing.process_func(lambda: -1)


def test_package_is_required() -> None:
    assert skipped(testing.requires_package("numpy")) == (False, "needs numpy")
    assert skipped(testing.requires_package("no_such_package")) == (True, "needs no_such_package")
    assert skipped(testing.requires_package("no_such_package.part"))[0]
    assert not skipped(testing.requires_package("numpy.linalg"))[0]


@pytest.mark.parametrize(
    ("body", "code", "word"), [("pass", 0, "1 passed"), ("1 / 0", 1, "1 failed")]
)
def test_main_runs_the_file_and_prints_the_result(
    body: str, code: int, word: str, tmp_path: Path
) -> None:
    file = tmp_path / "test_some_kernel.py"
    file.write_text(
        "import tilelang.testing\n\n\n"
        f"def test_one():\n    {body}\n\n\n"
        "if __name__ == '__main__':\n    tilelang.testing.main()\n"
    )
    # The options of the run that this test is part of name what only this project's conftest knows.
    plain = {name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"}
    done = subprocess.run(
        [sys.executable, str(file)],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=tmp_path,
        env=plain,
    )
    assert done.returncode == code, done.stderr
    assert word in done.stdout
