"""Ten times the statements cost about ten times the work, from tracing to generated text.

Counted are calls of Python functions, which is the same on every machine. Work inside one call
(a hash of a whole function, a copied list) is not seen; the programs are long enough that such
work has shown up as calls, too.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from typing import Any

import pytest

import tilelang.language as T
from tilelang.compiler import compile as to_source
from tilelang.ir.stmt import PrimFunc
from tilelang.options import Options
from tilelang.target import parse_target

PROGRAMS: dict[str, Callable[[int], str]] = {
    "stores": lambda n: f"X[{n % 64}] = X[{n * 7 % 64}] + {n}.0\n",
    "values": lambda n: f"v{n} = X[{n * 7 % 64}] + {n}.0\nX[{n % 64}] = v{n} * 2.0 + v{n}\n",
    "variables": lambda n: (
        f"v{n} = T.alloc_var('float32', 1.0)\nv{n} = X[{n % 64}]\nX[{n % 64}] = v{n}\n"
    ),
    "loops": lambda n: f"for i in T.serial(8):\n    X[i] = X[i] + {n}.0\n",
    "branches": lambda n: (
        f"if X[{n % 64}] > {n}.0:\n    X[{n % 64}] = 1.0\nelse:\n    X[{n % 64}] = 2.0\n"
    ),
    "rebound names": lambda n: (
        f"v = X[{n % 64}]\nif v > {n}.0:\n    w = 1.0\nelse:\n    w = 1.0\nX[{n % 64}] = w\n"
    ),
    "parallel loops": lambda n: f"for i in T.Parallel(64):\n    X[i] = X[i] + {n}.0\n",
    "copies": lambda n: "T.copy(X, S)\nT.copy(S, X)\n",
}


def program(name: str, count: int) -> Any:
    """The code of a module with the kernel."""
    body = "S = T.alloc_shared((64,), 'float32')\n" + "".join(map(PROGRAMS[name], range(count)))
    lines = [
        "@T.prim_func",
        "def f(X: T.Tensor((64,), 'float32')):",
        "    with T.Kernel(1, threads=64):",
        *("        " + line for line in body.splitlines()),
    ]
    file = f"<{name} {count}>"
    text = "\n".join(lines) + "\n"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    return compile(text, file, "exec")


def traced(code: Any) -> PrimFunc:
    space: dict[str, Any] = {"T": T}
    exec(code, space)  # noqa: S102
    made: PrimFunc = space["f"]
    return made


def calls(work: Callable[[], object]) -> int:
    """Calls of Python functions that ``work`` makes."""
    made = 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal made
        made += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return made


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("target", ["cpu", "cuda -arch=sm_80"])
def test_ten_times_the_statements_cost_ten_times_the_calls(name: str, target: str) -> None:
    def work(count: int) -> Callable[[], object]:
        code = program(name, count)
        return lambda: to_source(traced(code), parse_target(target), Options())

    work(2)()  # imports and caches of the first time
    small, large = calls(work(16)), calls(work(160))
    assert large < 12 * small, f"{large} calls for 160, {small} for 16"
