"""The emulator's half of bench/planted.py: each defect is found, each repaired kernel is clean."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tilelang.emulator.compilers import find_cxx

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

from planted import Row, emulated, message_of
from planted_cases import CASES

NAMES = [case.name for case in CASES]
has_compiler = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")


@pytest.fixture(scope="module")
def rows() -> dict[tuple[str, str], Row]:
    return {(row.name, row.variant): row for row in emulated(CASES)}


@has_compiler
@pytest.mark.parametrize("name", NAMES)
def test_a_planted_defect_is_found_at_its_line(rows: dict[tuple[str, str], Row], name: str) -> None:
    row = rows[name, "wrong"]
    assert row.expected, row.ours
    assert row.ours
    assert not any(item.endswith("?") for item in row.ours), "a line is not known"


@has_compiler
@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_said_about_the_repaired_kernel(
    rows: dict[tuple[str, str], Row], name: str
) -> None:
    assert rows[name, "right"].ours == []


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("planted right\n========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n", ""),
        ("========= COMPUTE-SANITIZER\n========= Invalid __global__ read of size 4 bytes\n"
         "=========     at global_read_wrong+0x60 in planted.cu:5\n========= ERROR SUMMARY: 1\n",
         "Invalid __global__ read of size 4 bytes (line 5)"),
    ],
)  # fmt: skip
def test_the_first_message_of_a_tool_counts(output: str, message: str) -> None:
    assert message_of(output) == message
