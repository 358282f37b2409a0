"""Arrays of an iteration become variables, and the loop around it a vector loop."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from written import executed

import tilelang.language as T

from .modes import agree

COLUMNS = 50
# Name -> the body for one element, and whether the loop becomes vectors.
BODIES: dict[str, tuple[str, bool]] = {
    "elements by constants": (
        "w = T.alloc_local((3,), dtype); w[0] = X[i, j]; w[2] = w[0] + 1; w[1] = w[2] * 2; "
        "Y[i, j] = w[0] + w[1]",
        True,
    ),
    "a loop over elements": (
        "w = T.alloc_local((4,), dtype)\n"
        "for k in T.serial(4): w[k] = X[i, j] + k\n"
        "s = T.alloc_var(dtype); s = 0\n"
        "for k in T.serial(4): s += w[3 - k] * (k + 1)\n"
        "Y[i, j] = s",
        True,
    ),
    "two dimensions and two loops": (
        "w = T.alloc_local((2, 3), dtype)\n"
        "for k, l in T.grid(2, 3): w[k, l] = X[i, j] * k + l\n"
        "s = T.alloc_var(dtype); s = 0\n"
        "for l, k in T.grid(3, 2):\n"
        "    v = T.alloc_var(dtype)\n"
        "    v = w[k, l] * 2\n"
        "    s += v + k\n"
        "Y[i, j] = s",
        True,
    ),
    "under a condition of the element": (
        "w = T.alloc_local((2,), dtype); w[0] = 1; w[1] = 2\n"
        "if X[i, j] > 0:\n"
        "    for k in T.serial(2): w[k] = w[1 - k] + X[i, j]\n"
        "Y[i, j] = w[0] * 3 + w[1]",
        True,
    ),
    "an index of the element": (
        "w = T.alloc_local((4,), dtype)\n"
        "for k in T.serial(4): w[k] = X[i, j] + k\n"
        "Y[i, j] = w[j % 4] + w[T.cast(X[i, j] > 0, 'int32')]",
        False,
    ),
    "an array of each round": (
        "s = T.alloc_var(dtype); s = 0\n"
        "w = T.alloc_local((3,), dtype)\n"
        "for k in T.serial(3):\n"
        "    v = T.alloc_local((2,), dtype)\n"
        "    v[0] = X[i, j] + k\n"
        "    v[1] = v[0] + 1\n"
        "    w[k] = v[0] * v[1]\n"
        "for k in T.serial(3): s += w[k]\n"
        "Y[i, j] = s",
        False,
    ),
    "a loop that goes over part of it": (
        "w = T.alloc_local((6,), dtype); w[0] = X[i, j]; w[5] = 1\n"
        "for k in T.serial(1, 5): w[k] = w[k - 1] + 1\n"
        "Y[i, j] = w[4] * w[5]",
        True,
    ),
}


@pytest.mark.share(6)
@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "int8"])
@pytest.mark.parametrize("name", BODIES)
def test_elements_are_variables(name: str, dtype: str, width: int) -> None:
    text, is_vector = BODIES[name]
    body = text.replace("; ", "\n").replace("\n", "\n                ")
    source = (
        "@T.prim_func\ndef main(X: T.Tensor((6, COLUMNS), dtype), Y: T.Tensor((6, COLUMNS), dtype)):\n"
        "    with T.Kernel(3, threads=32) as b:\n        for i_, j in T.Parallel(2, COLUMNS):\n"
        f"                i = b * 2 + i_\n                {body}\n"
    )
    main: Any = executed(source, f"<{name}>", COLUMNS=COLUMNS, dtype=dtype, T=T)["main"]
    x = np.random.default_rng(len(name)).integers(-3, 4, (6, COLUMNS)).astype(dtype)
    assert ("TL_STORE(" in agree(main, x, np.zeros_like(x), width=width)) == is_vector
