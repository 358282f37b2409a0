"""What Python says of values of a kernel, at the line of the program and in its terms."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
from columns import as_known
from written import executed

from tilelang.errors import TileError, TileIndexError, TileTypeError

NEW = sys.version_info >= (3, 12)  # parts of f-strings have positions of their own
_TABLE = "pass the table as a parameter of the kernel, or index it with a Python int"
_KNOWN = " that is known while the kernel is traced\n  hint: " + _TABLE
_FORMAT = (
    "a value of the kernel is formatted as a number\n  hint: it has no value while the kernel is "
    "traced; T.print(x) prints it when the kernel runs"
)


def traced(line: str, **names: object) -> None:
    head = (
        "@T.prim_func\ndef f(A: T.Tensor((8, 8), 'float32'), B: T.Tensor((8, 8), 'float32'), n: T.int32):\n"
        "    with T.Kernel(1, threads=32) as bx:\n        "
    )
    text = head + line + "\n"
    space = executed(text, "<said>", table=np.arange(8.0), numbers={0: 1.0}, **names)


def error_of(line: str, **names: object) -> TileError:
    with pytest.raises(TileError) as caught:
        traced(line, **names)
    return caught.value


@pytest.mark.parametrize(
    ("line", "at", "message"),
    [
        ("x = len(n)", "len(n)",
         "len() of a value of the kernel\n"
         "  hint: it is one number; extents of a tile are in its `shape`"),
        ("x = f'{A[0, 0]:.3f}'", "{A[0, 0]:.3f}" if NEW else "f'{A[0, 0]:.3f}'", _FORMAT),
        ("x = '{:.3f}'.format(n * 2)", "'{:.3f}'.format(n * 2)", _FORMAT),
        ("x = A(0, 0)", "A(0, 0)",
         "a buffer is called as a function\n"
         "  hint: an element is written with brackets, A[i, j]"),
        (
            "x = bx[0]", "bx[0]",
            "a value of the kernel is indexed\n  hint: it is one number; index the buffer, and T.match_buffer(p, shape, dtype) of a pointer",
        ),
        ("x = table[bx]", "table[bx]",
         "an array of numpy is indexed with a value of the kernel\n  expected: an index" + _KNOWN),
        ("x = numbers[n]", "numbers[n]", "`n` is looked up in a dict\n  expected: a key" + _KNOWN),
        ("x = A.shape[2]", "A.shape[2]",
         "tuple index out of range\n  hint: a shape has an extent for each dimension, from 0 on"),
        ("x = [1, 2][2]", "[1, 2][2]", "list index out of range"),
    ],
)  # fmt: skip
def test_an_error_has_its_location(line: str, at: str, message: str) -> None:
    error, column = error_of(line), 9 + line.index(at)
    assert str(error) == as_known(
        f"{message}\n --> <said>:4:{column}\n    4 |         {line}\n"
        f"      | {' ' * (column - 1)}{'^' * len(at)}"
    )
    kind = TileIndexError if "out of range" in message else TileTypeError
    assert type(error) is kind


@pytest.mark.parametrize(
    ("line", "at", "what"),
    [
        ("x = T.ceildiv(64, block)", "T.ceildiv(64, block)", ": `64 // 0`"),
        ("x = 64 // block", "64 // block", ""),
        ("x = n % block", "n % block", ": `n % 0`"),
    ],
)
def test_a_division_by_zero_names_the_divisor(line: str, at: str, what: str) -> None:
    column = 9 + line.index(at)
    assert str(error_of(line, block=0)) == as_known(
        f"division by zero{what}\n  expected: a divisor that is not 0\n"
        f"  got: `block`, which is 0\n --> <said>:4:{column}\n    4 |         {line}\n"
        f"      | {' ' * (column - 1)}{'^' * len(at)}"
    )


def warnings_of(body: str) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        traced(body)
    return [f"{item.filename}:{item.lineno}: {item.message}" for item in caught]


def test_print_of_python_warns(capsys: pytest.CaptureFixture[str]) -> None:
    assert warnings_of("print('v', A[0, 0], sep='=')") == [
        "<said>:4: print() shows the text of `A[0, 0]` once, while the kernel is traced; "
        "T.print(...) prints values when the kernel runs"
    ]
    assert warnings_of("print('tracing', 8)") == []
    assert warnings_of("print(f'{A[0, 0]} {8}')") == [
        "<said>:4: print() shows the text of `A[0, 0]` once, while the kernel is traced; "
        "T.print(...) prints values when the kernel runs"
    ]
    assert capsys.readouterr().out == "v=A[0, 0]\ntracing 8\nA[0, 0] 8\n"


@pytest.mark.parametrize(
    "body",
    [
        "x = list(T.serial(4))[0]",
        "x = sum(T.serial(4))",
        "x, = T.serial(4)",
        "x = {**{1: [*T.unroll(4)]}}[1][0]",
    ],
)
def test_a_loop_of_the_device_that_python_runs_through(body: str) -> None:
    error = error_of(f"{body}\n        A[0, 0] = x * 1.0", block=8)
    first, *rest = str(error).split("\n")
    assert first == "`i` is used outside its defining region"
    assert rest[:2] == [
        "  expected: a value defined in this block or one around it",
        "  hint: loops of the device run when the kernel does: write `for i in T.serial(n):` with "
        "what uses `i` in it; range(n) of a constant gives a list",
    ]


def test_a_rebound_parameter_warns() -> None:
    assert warnings_of("B = A\n        B[0, 0] = 1.0") == [
        "<said>:4: `B = A` copies nothing: from here on `B` is another name of `A`; "
        "T.copy(A, B) copies"
    ]
    assert warnings_of("C = A\n        B = T.reshape(B, (64,))\n        C[0, 0] = B[0]") == []
