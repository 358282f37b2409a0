"""Programs that passes refuse, and the exact text that a user gets.

``errors_lowering.test`` has them; the first line of a program names the target. Programs that are
refused while they are traced are in ``tests/language``.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest
from error_cases import ErrorCase, error_cases
from written import executed

import tilelang
from tilelang.errors import TileError, TileWarning

CASES = error_cases(Path(__file__).with_name("errors_lowering.test"))


def error_of(program: str) -> str:
    """The kind and text of the error that compiling ``program`` for its target raises."""
    source = "import tilelang.language as T\n" + program + "\n"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TileWarning)
        *_, func = executed(source, "wrong.py", __name__="wrong").values()
        with pytest.raises(TileError) as caught:
            tilelang.lower(func, target=program.splitlines()[0][2:])
    return f"{type(caught.value).__name__}: {caught.value}"


@pytest.mark.skipif(sys.version_info < (3, 11), reason="columns are known from Python 3.11 on")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_error_of(case: ErrorCase) -> None:
    assert error_of(case.program) == case.error
