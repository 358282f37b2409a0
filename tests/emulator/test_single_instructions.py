"""Programs in the single instructions of Hopper and Blackwell give the right numbers, in order."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import tilelang
from tilelang.emulator.compilers import find_cxx

sys.path.append(str(Path(__file__).parents[1] / "cuda"))
import ptx_programs  # found through the path above

pytestmark = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")


@pytest.mark.parametrize("name", ptx_programs.PROGRAMS)
def test_a_program_of_instructions(name: str) -> None:
    entry = ptx_programs.PROGRAMS[name]
    stored, kinds, values = ptx_programs.arguments(entry)
    report = tilelang.sanitize(entry.make(), *stored, target=f"cuda -arch={entry.arch}")
    assert report.ok, report
    assert not ptx_programs.wrong(entry, report.arguments, kinds, values)


def test_a_copy_to_another_block_waits_for_its_barrier_to_be_made() -> None:
    entry = ptx_programs.PROGRAMS["cluster"]
    stored, _, _ = ptx_programs.arguments(entry)
    target = f"cuda -arch={entry.arch}"
    source = tilelang.lower(entry.make(), target=target).source
    assert "tl_cluster_sync();" in source
    source = source.replace("tl_cluster_sync();", ";", 1)
    report = tilelang.sanitize(entry.make(), *stored, target=target, source=source)
    (found,) = report.findings
    assert found.kind == "race" and "reads bar[0]" in found.what
