"""Whole programs of the language, traced and interpreted, against numpy."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from tensor_types import I32

import tilelang.language as T
from tilelang import interpret
from tilelang.errors import DeviceAssertError, OutOfBoundsError

rng = np.random.default_rng(11)


def rand(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return rng.standard_normal(shape).astype(dtype)


def test_print_and_device_assert() -> None:
    @T.prim_func
    def main(O: I32[1], n: T.int32):
        with T.Kernel(2, threads=32) as bx:
            tx = T.get_thread_binding()
            if tx == 3 and bx == 1:
                T.print(n + 1, msg="next")
                T.device_assert(n < 5, "n is small")
            O[0] = n

    out = io.StringIO()
    interpret.run(main, [np.zeros(1, np.int32), 4], stdout=out)
    assert out.getvalue() == (
        "msg='next' BlockIdx=(1, 0, 0), ThreadIdx=(3, 0, 0): dtype=int value=5\n"
    )
    with pytest.raises(DeviceAssertError) as error:
        interpret.run(main, [np.zeros(1, np.int32), 5], stdout=out)
    assert error.value.message == "Device assert failed: n is small"
    assert error.value.got == "false in block (1, 0, 0), thread 3"


def test_errors_point_at_the_line_of_the_program() -> None:
    @T.prim_func
    def main(n: T.int32):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((4,), "float32")
            T.clear(s)
            s[n] = 1.0

    with pytest.raises(OutOfBoundsError) as error:
        interpret.run(main, [9])
    text = str(error.value)
    assert text.startswith("`s[9]` is outside the shared.dyn buffer `s`\n")
    assert "s[n] = 1.0" in text and "test_programs.py" in text
