"""Random programs and the examples, as CUDA code for sm_80 and sm_75, run checked in the emulator.

Schedules are random; a failure names its seed, with which the same schedule comes again.
"""

from __future__ import annotations

import numpy as np
import pytest
from captured import Case, as_results, example_cases
from example_modules import NAMES as EXAMPLES
from fuzz.draws import SeededDraw
from fuzz.programs import make_program
from fuzz.running import check

import tilelang
from tilelang.emulator.compilers import find_cxx

pytestmark = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")

PROGRAMS = 80
BATCH = 4


@pytest.mark.share(4)
@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_programs_mean_the_same_and_have_no_finding(first: int) -> None:
    for seed in range(first, first + BATCH):
        check(make_program(SeededDraw(seed)), seed=seed, target="emulator")


def checked(case: Case, seed: int) -> None:
    """Run a call on a random schedule and the latest one, and compare with the interpreter."""
    report = tilelang.sanitize(case.kernel("cuda -arch=sm_80", "interpret"), *case.args, seed=seed)
    assert report.ok, f"seed {seed}: {report}"
    found = as_results(report.outputs, report.arguments)
    assert len(found) == len(case.results)
    for ours, expected in zip(found, case.results):
        tolerance = 1e-2 if ours.dtype == np.float16 else 1e-3
        np.testing.assert_allclose(
            ours.astype(np.float64),
            expected.astype(np.float64),
            rtol=tolerance,
            atol=tolerance,
            err_msg=f"seed {seed}",
        )


@pytest.mark.share(4)
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_has_no_finding(name: str) -> None:
    for seed, case in enumerate(example_cases(name)):
        checked(case, seed)
