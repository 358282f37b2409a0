"""The fixture ``gpu``: tests that take it run on a GPU if there is one, and in the emulator."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gpus import DEVICE, EMULATOR, Gpu, opened


@pytest.fixture(params=[DEVICE, EMULATOR])
def gpu(request: pytest.FixtureRequest) -> Iterator[Gpu]:
    """Where the kernels of a test run; see the module ``gpus``."""
    with opened(request.param, request.node.nodeid, request.config.getoption("--whole")) as found:
        yield found
