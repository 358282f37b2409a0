"""Shapes in pieces, decorators twice: small slips, said in words."""

from __future__ import annotations

import pytest
from columns import KNOWN, as_known
from written import executed

from tilelang.errors import TileError


def error_of(text: str) -> str:
    with pytest.raises(TileError) as caught:
        executed(text, "<slip>")
    return str(caught.value)


@pytest.mark.parametrize("written", ['T.Tensor(8, 9, "float32")', "T.Tensor(8, 9)"])
def test_a_shape_is_one_tuple(written: str) -> None:
    head = f"def f(A: {written}):"
    assert error_of(f"@T.prim_func\n{head}\n    pass\n") == as_known(
        "the shape of T.Tensor is not one tuple\n"
        '  expected: T.Tensor((m, n), "float32")\n'
        "  got: 8, 9\n"
        f" --> <slip>:2:10\n    2 | {head}\n      |          " + "^" * len(written)
    )


def test_a_program_is_not_decorated_again() -> None:
    text = "@T.prim_func\n@T.prim_func\ndef f(A: T.Tensor((8,), 'int32')):\n    pass\n"
    found = error_of(text)
    expected = (
        "T.prim_func decorates `f`, which already is a program\n"
        "  expected: a function written with `def`\n"
        "  hint: one decorator is enough: T.prim_func around a program, tilelang.jit around a "
        "function that returns one\n"
        " --> <slip>:1:2\n    1 | @T.prim_func\n      |  ^^^^^^^^^^^"
    )
    if not KNOWN:  # Python 3.10 has decorators called at the line of the `def`
        found, expected = (item.partition("\n --> ")[0] for item in (found, expected))
    assert found == expected
