"""The CUDA text of small kernels: what a change of it looks like is read in review."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from golden_programs import PROGRAMS, Maker, source_of

UNITS = ("copy_with_edges", "gemm", "transpose", "view")  # use units of sm_90a


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("make", PROGRAMS, ids=[make.__name__ for make in PROGRAMS])
def test_the_text_is_as_it_was_read(
    make: Maker, arch: str, golden: Callable[[str, str], None]
) -> None:
    """Kernels that choose nothing that sm_80 lacks have one file for both."""
    text = source_of(make, f"cuda -arch={arch}")
    units = make.__name__ in UNITS and arch != "sm_80"
    golden(f"{make.__name__}_{arch}.cu" if units else f"{make.__name__}.cu", text)
