"""Programs that say where their indices are: few wide accesses, and the right results."""

from __future__ import annotations

import contextlib
import io
import re

import pytest
from executors import holds
from fact_programs import PROGRAMS

import tilelang
from tilelang.cuda.nvrtc import find_nvrtc


def accesses(name: str) -> dict[str, list[int]]:
    """The bytes of each load and store of global memory in the PTX of a program."""
    func = PROGRAMS[name][0]()[0]
    kernel = tilelang.compile(func, target="cuda -arch=sm_90a")
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        kernel.show_ptx()
    found = {}
    for kind in ("ld", "st"):
        pattern = rf"\b{kind}\.global[\w.:]*?(?:\.v(\d))?\.[bfsu](\d+)\b"
        hits = re.findall(pattern, text.getvalue())
        found[kind] = [int(lanes or 1) * int(bits) // 8 for lanes, bits in hits]
    return found


@pytest.mark.skipif(find_nvrtc() is None, reason="needs NVRTC")
@pytest.mark.parametrize("name", PROGRAMS)
def test_accesses_of_global_memory_are_few(name: str) -> None:
    _, loads, stores = PROGRAMS[name]
    found = accesses(name)
    assert len(found["ld"]) <= loads and len(found["st"]) <= stores, found


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_numpy(name: str) -> None:
    func, given, wanted = PROGRAMS[name][0]()
    holds(func, given, wanted)
