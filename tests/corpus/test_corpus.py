"""Every program of the corpus on every executor that applies, against plain numpy."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from on_device import has_device

import tilelang
from tilelang.emulator.compilers import find_cxx

from .registry import DEVICE, EXECUTORS, OTHERS, PROGRAMS

HERE = Path(__file__).resolve().parent
THEMES = sorted(
    path.stem
    for path in HERE.glob("*.py")
    if path.stem not in ("__init__", "registry") and not path.stem.startswith("test_")
)
for theme in THEMES:
    importlib.import_module(f"{__package__}.{theme}")

RUNS = [(name, executor) for name, made in PROGRAMS.items() for executor in made.executors]
ELSEWHERE = [name for name, made in PROGRAMS.items() if "sm_80" in made.executors]
if has_device():
    RUNS += [(name, DEVICE) for name in ELSEWHERE]


@pytest.mark.parametrize(("name", "executor"), RUNS, ids=lambda value: value)
def test_a_program_agrees_with_numpy(name: str, executor: str) -> None:
    if EXECUTORS.get(executor, {}).get("execution_backend") == "emulator" and find_cxx() is None:
        pytest.skip("needs a C++ compiler")
    PROGRAMS[name].run(executor)


@pytest.mark.share(8)  # `python -m tests.corpus gfx942` runs all of one chip
@pytest.mark.parametrize("executor", OTHERS)
@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_program_computes_it_on_amd_and_apple_gpus(name: str, executor: str) -> None:
    if find_cxx() is None:
        pytest.skip("needs a C++ compiler")
    try:
        PROGRAMS[name].run(executor)
    except tilelang.errors.TileUnsupportedError as lacking:
        # What the chip does not have is said with what to use.
        assert lacking.expected, str(lacking)


def test_skipped_programs_have_a_reason() -> None:
    for name, made in PROGRAMS.items():
        assert all(len(reason.split()) > 3 for reason in made.left_out.values()), name
        assert made.executors, name


def test_the_corpus_has_its_documented_size() -> None:
    assert len(PROGRAMS) >= 510
