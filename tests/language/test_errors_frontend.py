"""Wrong programs and the exact text a user gets: what, expected, got, advice, line and caret.

``errors_frontend.test`` has them: ``[case NAME]``, the program, ``[out]``, the kind and text of its
error. A program that starts with an indented line is the body of the kernel of ``KERNEL``. Every
program is written to ``wrong.py`` below a line that imports the language, so its own first line is
line 2.
"""

from __future__ import annotations

import linecache
import re
import sys
import warnings
from pathlib import Path

import pytest

from tilelang.errors import TileError, TileWarning

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="columns are known from Python 3.11 on"
)

KERNEL = """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
"""


def cases() -> list[tuple[str, str, str]]:
    """Name, program and error of each case of the file."""
    text = Path(__file__).with_name("errors_frontend.test").read_text(encoding="utf-8")
    first, *found = re.split(r"^\[case (.*)\]\n", text, flags=re.MULTILINE)
    assert not first
    read = []
    for name, case in zip(found[::2], found[1::2], strict=True):
        program, error = case.split("\n[out]\n")
        read.append((name, (KERNEL if program[0] == " " else "") + program, error.rstrip("\n")))
    return read


CASES = cases()


def error_of(program: str) -> str:
    """The kind and text of the error that running ``program`` raises."""
    source = "import tilelang.language as T\n" + program + "\n"
    linecache.cache["wrong.py"] = (len(source), None, source.splitlines(True), "wrong.py")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TileWarning)
        with pytest.raises(TileError) as caught:
            code = compile(source, "wrong.py", "exec", dont_inherit=True)
            exec(code, {"__name__": "wrong"})  # noqa: S102
    return f"{type(caught.value).__name__}: {caught.value}"


@pytest.mark.parametrize(
    ("program", "text"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_error_of(program: str, text: str) -> None:
    assert error_of(program) == text


def test_there_are_many_and_each_is_said_once() -> None:
    assert len(CASES) >= 60
    assert len({program for _, program, _ in CASES}) == len(CASES)
