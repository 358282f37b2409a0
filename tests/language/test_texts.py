"""Texts where numbers are meant: the user's name of the text is in the message."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from columns import as_known
from written import kernel_of

import tilelang
import tilelang.language as T
from tilelang.errors import TileTypeError


def known(*lines: str) -> list[str]:
    return as_known("\n".join(lines)).splitlines()


def traced(line: str, **names: object) -> Any:
    body = f"s = T.alloc_shared((64, 64), 'float32')\n{line}"
    return kernel_of(body, "A: T.Tensor((64, 64), 'float32')", "<texts>", **names)


def message(line: str, **names: object) -> list[str]:
    with pytest.raises(TileTypeError) as caught:
        traced(line, **names)
    return str(caught.value).splitlines()


def test_arithmetic_of_python_with_a_text() -> None:
    line = "for k in T.serial(T.ceildiv(64, block)): T.clear(s)"
    assert message(line, block="32") == known(
        "`block` is a string where a number is expected",
        "  expected: a number",
        "  got: '32'",
        "  hint: pass block=32, the number and not its text",
        " --> <texts>:5:27",
        f"    5 |         {line}",
        "      |                           ^^^^^^^^^^^^^^^^^^^^",
    )


def test_a_shape_of_a_text() -> None:
    line = "t = T.alloc_fragment((block, 64), dtype)"
    assert message(line, block="32", dtype="float32")[:5] == known(
        "a str is used where a scalar value is needed",
        "  expected: a number or a device expression",
        "  got: '32'",
        "  hint: pass block=32, the number and not its text",
        " --> <texts>:5:13",
    )


def test_a_literal_has_no_name() -> None:
    assert message("t = T.alloc_fragment(('32', 64), 'float32')")[:4] == known(
        "a str is used where a scalar value is needed",
        "  expected: a number or a device expression",
        "  got: '32'",
        " --> <texts>:5:13",
    )


@tilelang.jit
def factory(n: int, block: int) -> Any:
    size = n // block if n else n

    @T.prim_func
    def kernel(A: T.Tensor((block,), "float32")):
        with T.Kernel(1, threads=32):
            A[0] = size

    return kernel


def test_a_text_in_a_factory() -> None:
    with pytest.raises(TileTypeError) as caught:
        factory(64, "32")
    line = inspect.getsourcelines(factory.pyfunc)[1] + 2
    assert str(caught.value).splitlines()[:5] == known(
        "`block` is a string where a number is expected",
        "  expected: a number",
        "  got: '32'",
        "  hint: pass block=32, the number and not its text",
        f" --> {__file__}:{line}:12",
    )
    with pytest.raises(TileTypeError) as caught:
        factory(0, "32")
    assert caught.value.message == "this is not a dimension"
    assert caught.value.hint == "pass block=32, the number and not its text"


def test_other_errors_of_a_factory_are_unchanged() -> None:
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for //: 'int' and 'list'"):
        factory(64, [32])


def test_other_python_errors_are_unchanged() -> None:
    with pytest.raises(TypeError, match="unsupported operand") as caught:
        traced("x = 64 // name", name="wide")
    assert not isinstance(caught.value, TileTypeError)


def test_a_name_of_another_language_in_a_kernel() -> None:
    from tilelang.errors import TileNameError

    with pytest.raises(TileNameError) as caught:
        traced("x = T.relu(A[0, 0])")
    assert str(caught.value).splitlines()[:3] == known(
        "T has no `relu`", "  hint: use T.max(x, 0)", " --> <texts>:5:13"
    )
