"""Targets for AMD's GPUs, as programs write them and as the machine has them."""

from __future__ import annotations

from pathlib import Path

import pytest
from refusals import refusal

from tilelang.errors import TileValueError
from tilelang.target import Target, device as device_module, parse_target


@pytest.fixture(autouse=True)
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_module, "cuda_devices", lambda: ())
    monkeypatch.setattr(device_module, "hip_devices", lambda: ())


@pytest.mark.parametrize(
    "spec",
    [
        "hip -mcpu=gfx942", "hip -arch=gfx942", "rocm -mcpu=gfx942", "hip -mcpu gfx942",
        {"kind": "hip", "mcpu": "gfx942"}, {"kind": "rocm", "arch": "gfx942"},
    ],
    ids=str,
)  # fmt: skip
def test_spellings(spec: object) -> None:
    assert parse_target(spec) == Target("hip", "gfx942")


def test_settings_of_a_chip_are_kept() -> None:
    target = parse_target("hip -mcpu=gfx90a:sramecc+:xnack-")
    assert target.arch == "gfx90a:sramecc+:xnack-" and target.limits.warp == 64


def test_a_target_without_a_chip_takes_the_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert parse_target("hip").concrete() == Target("hip", "gfx942")
    monkeypatch.setattr(device_module, "hip_devices", lambda: ("gfx1100",))
    monkeypatch.setattr(device_module, "has_hip", lambda: True)
    assert parse_target("hip") == parse_target("auto") == Target("hip", "gfx1100")


def test_an_unknown_chip_is_an_error() -> None:
    assert refusal(TileValueError, parse_target, "hip -mcpu=sm_80") == (
        "'sm_80' is not the name of an AMD GPU\n"
        '  expected: "gfx" and a number, e.g. "gfx942" or "gfx1100"\n'
        "  got: 'hip -mcpu=sm_80'"
    )


def test_chips_are_read_from_the_nodes_of_the_kernel_driver(tmp_path: Path) -> None:
    for node, version in ((0, 0), (1, 90402), (2, 110001), (10, 120001), (9, 90010)):
        (tmp_path / str(node)).mkdir()
        text = f"cpu_cores_count 8\ngfx_target_version {version}\n"
        (tmp_path / str(node) / "properties").write_text(text)
    (tmp_path / "11").mkdir()
    found = device_module.chips_in(tmp_path)
    assert found == ("gfx942", "gfx1101", "gfx90a", "gfx1201")
