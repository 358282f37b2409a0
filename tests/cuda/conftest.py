"""The fixture ``gpu``: tests that take it run on a GPU if there is one, and in the emulator, there
as NVIDIA's, and a share of them each day as GPUs of AMD and Apple."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from gpus import DEVICE, EMULATOR, OTHERS, Gpu, opened
from refused import refusal

from tilelang.errors import TileError

SHARE = pytest.mark.share(16, of="programs on GPUs of AMD and Apple")
PLACES = (DEVICE, EMULATOR, *(pytest.param(name, marks=SHARE) for name in OTHERS))


@pytest.fixture(params=PLACES)
def gpu(request: pytest.FixtureRequest) -> Iterator[Gpu]:
    """Where the kernels of a test run; see the module ``gpus``."""
    with opened(request.param, request.node.nodeid, request.config.getoption("--whole")) as found:
        yield found


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    """A test that uses what a GPU has not ends with the error of the table, and with no other."""
    found = pyfuncitem.funcargs.get("gpu")
    said = refusal(pyfuncitem.name, found.name) if isinstance(found, Gpu) else ""
    if not said:
        return (yield)
    with pytest.raises(TileError, match=said):
        yield
    return True
