"""``tilelang.language.fp8``: which 8-bit floats the GPU at hand has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from refusals import refusal

from tilelang.errors import TileValueError
from tilelang.language.fp8 import determine_fp8_type, determine_torch_fp8_type

torch: Any = pytest.importorskip("torch", reason="torch says which vendor it is built for")


def test_standard_formats_are_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "hip", None)
    assert determine_fp8_type() == "float8_e4m3fn"
    assert determine_fp8_type("e5m2") == "float8_e5m2"
    assert determine_torch_fp8_type() is torch.float8_e4m3fn


@pytest.mark.parametrize(
    ("arch", "names"),
    [
        ("gfx942:sramecc+", ("float8_e4m3fnuz", "float8_e5m2fnuz")),
        ("gfx950", ("float8_e4m3fn", "float8_e5m2")),
    ],
)
def test_amd_has_its_own_before_gfx950(
    monkeypatch: pytest.MonkeyPatch, arch: str, names: tuple[str, str]
) -> None:
    monkeypatch.setattr(torch.version, "hip", "6.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    found = SimpleNamespace(gcnArchName=arch)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: found)
    assert (determine_fp8_type("e4m3"), determine_fp8_type("e5m2")) == names


def test_an_unknown_format_is_an_error() -> None:
    assert refusal(TileValueError, determine_fp8_type, "e3m4") == (
        'unknown 8-bit float format\n  expected: "e4m3" or "e5m2"\n  got: \'e3m4\''
    )
