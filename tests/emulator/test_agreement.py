"""The emulator's half of the comparison with hardware: descriptors, fragments, conversions, boxes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tilelang.emulator.compilers import find_cxx

SCRIPT = Path(__file__).resolve().parents[2] / "bench" / "emulator_agreement.py"


@pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")
@pytest.mark.share(4)
@pytest.mark.parametrize("schedule", ["fifo", "late"])
def test_emulator_agrees_with_numpy_and_finds_nothing(schedule: str) -> None:
    words = [sys.executable, str(SCRIPT), "--no-gpu", "--checks", "--schedule", schedule]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "wgmma: 336 cases" in done.stdout
