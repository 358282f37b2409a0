"""Tiles that pipelined loops gather by index tensors: copied ahead by ``cp.async``, their indices
loaded an iteration before."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from executors import INTERPRETER, SM_80, SM_90A, holds
from gather_programs import CASES
from test_memory_accesses import counted

import tilelang
from tilelang.cuda.nvrtc import find_nvrtc

# Loads of global memory in the PTX of a thread, bytes: how many, and asynchronous copies. The
# loads may only become fewer.
MOST: dict[str, tuple[dict[int, int], int]] = {
    "products_with_named_rows": ({4: 12}, 8),
    "rows_that_may_be_none": ({4: 16}, 12),
    "pages_under_a_branch": ({4: 7}, 4),
    "one_loop_for_a_tile": ({4: 8}, 6),
    "keys_and_values_of_dynamic_tensors": ({4: 12}, 8),
    "rows_beside_a_box": ({8: 16}, 12),
    "indices_in_registers": ({4: 4, 16: 4}, 0),
    "a_loop_that_writes_the_rows": ({4: 8, 16: 8}, 0),
}


@pytest.mark.skipif(find_nvrtc() is None, reason="needs NVRTC")
@pytest.mark.parametrize("name", CASES)
def test_rows_are_copied_asynchronously(name: str, tmp_path: Path) -> None:
    kernel = tilelang.compile(CASES[name]().func, target="cuda -arch=sm_90a")
    kernel.export_ptx(str(tmp_path / "kernel.ptx"))
    ptx = (tmp_path / "kernel.ptx").read_text()
    assert (counted(ptx, "ld"), len(re.findall(r"cp\.async\.c[ag]", ptx))) == MOST[name]


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_numpy(name: str) -> None:
    made = CASES[name]()
    holds(made.func, made.given, made.wanted, on=(INTERPRETER, SM_80, SM_90A))
