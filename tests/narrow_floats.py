"""What tests of headers share: C functions over their conversions of narrow floats."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest

from tilelang.codegen.c import NARROW_FLOATS, WITH_INFINITY
from tilelang.ir.dtypes import dtype as DType

INFINITIES = [("float8_e5m2", 0x7C), ("float8_e3m4", 0x70)]


def over_arrays(name: str, source: str, result: str, call: str) -> str:
    """C text of a function that writes ``call(source[i])`` for each of ``n`` elements."""
    return (
        f"void {name}(const {source}* x, {result}* y, int n) "
        f"{{ for (int i = 0; i < n; ++i) y[i] = {call}(x[i]); }}\n"
    )


def conversions(without: Collection[str] = ()) -> str:
    """``decode_NAME`` and ``encode_NAME`` of each format; ``code_`` and ``result_`` of results of
    those with infinities. ``without``: names that a header does not have."""
    text = ""
    for unit, name in sorted(set(NARROW_FLOATS.values())):
        if name not in without:
            text += over_arrays(f"decode_{name}", unit, "float", f"tl_{name}_to_f32")
            text += over_arrays(f"encode_{name}", "float", unit, f"tl_f32_to_{name}")
    for _, name in sorted(NARROW_FLOATS[dtype] for dtype in WITH_INFINITY):
        text += over_arrays(f"code_{name}", "float", "uint8_t", f"tl_code_{name}")
        text += over_arrays(f"result_{name}", "float", "float", f"tl_result_{name}")
    return text


def check_results(library: Any, dtype: str, infinity: int) -> None:
    """Results keep infinities, and are saturated where they are finite.

    Args:
        library: has the C functions of :func:`conversions`.
        dtype, infinity: a dtype with infinities, and the code of the positive one.
    """
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="compares with ml_dtypes")
    name = NARROW_FLOATS[DType(dtype)][1]
    inputs = np.float32([np.inf, -np.inf, 3e38, -3e38, 1.0, -0.0, np.nan])
    codes, values = np.empty(7, np.uint8), np.empty(7, np.float32)
    library[f"code_{name}"](inputs.ctypes, codes.ctypes, 7)
    library[f"result_{name}"](inputs.ctypes, values.ctypes, 7)
    one = {"float8_e5m2": 0x3C, "float8_e3m4": 0x30}[dtype]
    top = infinity - 1
    assert codes[:6].tolist() == [infinity, infinity | 0x80, top, top | 0x80, one, 0x80]
    numbers = codes.view(getattr(ml_dtypes, dtype)).astype(np.float32)
    np.testing.assert_array_equal(values, numbers)
    assert np.isnan(values[6])
