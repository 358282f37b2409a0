"""Python inside kernels: small programs, and what plain Python leaves in their output.

A program of ``frontend_programs.test`` is the body of a kernel of one thread. The kernel has the
output ``O`` of eight zeros, the input ``A`` of eight integers and the number ``n``; inputs are zero
by default. Lines above ``---`` are defined before the kernel. Each line of a result gives the
inputs, if there are any, and then all of ``O``.
"""

from __future__ import annotations

import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest
from error_cases import ErrorCase, error_cases
from tiny import run
from written import executed

CASES = error_cases(Path(__file__).with_name("frontend_programs.test"))
FRAME = """\
@T.prim_func
def f(O: T.Tensor((8,), "int32"), A: T.Tensor((8,), "int32"), n: T.int32):
    with T.Kernel(1, threads=1):
"""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_program_leaves_what_python_leaves(case: ErrorCase) -> None:
    before, _, body = case.program.rpartition("\n---\n")
    text = f"{before}\n{FRAME}{textwrap.indent(body, ' ' * 8)}\n"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        func = executed(text, f"<{case.name}>")["f"]
    for line in case.error.splitlines():
        inputs, _, result = line.rpartition(": ")
        given = dict(item.split(" = ") for item in inputs.split(", ") if item)
        values = [int(value) for value in given.get("A", "").split()]
        out = np.zeros(8, np.int32)
        run(func, out, np.array(values + [0] * (8 - len(values)), np.int32), int(given.get("n", 0)))
        assert " ".join(map(str, out)) == result
