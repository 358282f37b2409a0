"""Wrong programs and the exact text a user gets: what, expected, got, advice, line and caret.

``errors_frontend.test`` has them. A program that starts with an indented line is the body of the
kernel of ``KERNEL``. Every program is written to ``wrong.py`` below a line that imports the
language, so its own first line is line 2.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import pytest
from error_cases import ErrorCase, error_cases
from written import executed

from tilelang.errors import TileError, TileWarning

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="columns are known from Python 3.11 on"
)

KERNEL = """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
"""


CASES = error_cases(Path(__file__).with_name("errors_frontend.test"))


def error_of(program: str) -> str:
    """The kind and text of the error that running ``program`` raises."""
    source = "import tilelang.language as T\n" + program + "\n"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TileWarning)
        with pytest.raises(TileError) as caught:
            executed(source, "wrong.py", __name__="wrong")
    return f"{type(caught.value).__name__}: {caught.value}"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_error_of(case: ErrorCase) -> None:
    kernel = KERNEL if case.program[0] == " " else ""
    assert error_of(kernel + case.program) == case.error


def test_there_are_many() -> None:
    assert len(CASES) >= 60
