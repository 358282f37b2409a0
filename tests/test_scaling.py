"""Ten times the statements cost about ten times the work, from tracing to generated text.

Counted are calls of Python functions, which is the same on every machine. Work inside one call
(a hash of a whole function, a copied list) is not seen; the programs are long enough that such
work has shown up as calls, too. Barriers compare accesses in a loop without calls; there the
lines that are executed count.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

import tilelang.language as T
from tilelang.compiler import compile as to_source
from tilelang.ir.stmt import PrimFunc
from tilelang.options import Options
from tilelang.target import parse_target

PROGRAMS: dict[str, Callable[[int], str]] = {
    "stores": lambda n: f"X[{n % 64}] = X[{n * 7 % 64}] + {n}.0\n",
    "loops": lambda n: f"for i in T.serial(8):\n    X[i] = X[i] + {n}.0\n",
    "branches": lambda n: (
        f"if X[{n % 64}] > {n}.0:\n    X[{n % 64}] = 1.0\nelse:\n    X[{n % 64}] = 2.0\n"
    ),
    "rebound names": lambda n: (
        f"v = X[{n % 64}]\nif v > {n}.0:\n    w = 1.0\nelse:\n    w = 1.0\nX[{n % 64}] = w\n"
    ),
    "parallel loops": lambda n: f"for i in T.Parallel(64):\n    X[i] = X[i] + {n}.0\n",
    "copies": lambda n: "T.copy(X, S)\nT.copy(S, X)\n",
    "fragments in another order": lambda n: (
        f"F{n} = T.alloc_fragment((64,), 'float32')\nT.clear(F{n})\n"
        f"for i in T.Parallel(64):\n    F{n}[i] = F{max(n - 1, 0)}[63 - i] + {n}.0\n"
    ),
    "reductions": lambda n: (
        f"F{n} = T.alloc_fragment((64,), 'float32')\nG{n} = T.alloc_fragment((1,), 'float32')\n"
        f"T.copy(X, F{n})\nT.reduce_sum(F{n}, G{n})\nX[{n % 64}] = G{n}[0]\n"
    ),
    "shared tiles": lambda n: (
        f"S{n} = T.alloc_shared((64,), 'float32')\nT.copy(X, S{n})\nT.copy(S{n}, X)\n"
    ),
    "elements": lambda n: f"B[{n}] = {n}.0\n",
}


def program(name: str, count: int) -> Any:
    """The code of a module with the kernel."""
    body = "S = T.alloc_shared((64,), 'float32')\nB = T.alloc_shared((4096,), 'float32')\n"
    body += "".join(map(PROGRAMS[name], range(count)))
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


@pytest.mark.share(4)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("target", ["cpu", "cuda -arch=sm_80"])
def test_ten_times_the_statements_cost_ten_times_the_calls(name: str, target: str) -> None:
    def work(count: int) -> Callable[[], object]:
        code = program(name, count)
        return lambda: to_source(traced(code), parse_target(target), Options())

    work(2)()  # imports and caches of the first time
    small, large = calls(work(16)), calls(work(160))
    assert large < 12 * small, f"{large} calls for 160, {small} for 16"


def lines(part: str, work: Callable[[], object]) -> int:
    """Lines that ``work`` executes in files whose path holds ``part``."""
    made = 0

    def line(_: FrameType, event: str, __: object) -> object:
        nonlocal made
        made += event == "line"
        return line

    def call(frame: FrameType, _: str, __: object) -> object:
        return line if part in frame.f_code.co_filename else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        work()
    finally:
        sys.settrace(before)
    return made


def test_barriers_for_elements_of_a_tile_cost_the_same_for_each() -> None:
    def barriers(count: int) -> int:
        func = traced(program("elements", count))
        target = parse_target("cuda -arch=sm_80")
        return lines("/transforms/sync/", lambda: to_source(func, target, Options()))

    small, large = barriers(100), barriers(1000)
    assert large < 12 * small, f"{large} lines for 1000, {small} for 100"
