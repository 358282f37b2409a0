"""The CUDA text of small kernels: what a change of it looks like is read in review."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from golden_programs import PROGRAMS, Maker, source_of


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("make", PROGRAMS, ids=[make.__name__ for make in PROGRAMS])
def test_the_text_is_as_it_was_read(
    make: Maker, arch: str, golden: Callable[[str, str], None]
) -> None:
    """These kernels choose nothing that sm_80 lacks, so one file is for both."""
    golden(f"{make.__name__}.cu", source_of(make, f"cuda -arch={arch}"))
