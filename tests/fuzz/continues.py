"""Random bodies of parallel loops with ``continue``, compared with the same source run by Python.

Each iteration computes one element. The loop is nested in a serial loop; a ``continue`` must not skip
the statements of the serial loop behind it.
"""

from __future__ import annotations

import random
import textwrap
from typing import Any

import numpy as np

from .model import Computed

ROWS = 3
PLACES = ("Y[k, i]", "f[i]", "s[i]")  # where an iteration has its element
KERNEL = """import tilelang.language as T


@T.prim_func
def main(X: T.Tensor(({rows}, {width}), "int32"), Y: T.Tensor(({rows}, {width}), "int32"),
         Z: T.Tensor(({rows}, {width}), "int32")):
    with T.Kernel(1, threads=32):
        f = T.alloc_fragment(({width},), "int32")
        s = T.alloc_shared(({width},), "int32")
        for k in T.serial({rows}):
            for i in T.Parallel({width}):
                {place} = 1
{body}
            {after}
            for i in T.Parallel({width}):
                Z[k, i] = Y[k, {width} - 1 - i] + k
"""
PYTHON = """
def element(x):
    y = 1
    for _ in range(1):
{body}
    return y
"""


def block(rng: random.Random, depth: int, in_loop: bool) -> list[str]:
    """Statements that change ``y`` and may end the iteration."""
    lines: list[str] = []
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(["store", "branch", "branch", "loop"]) if depth else "store"
        if kind == "store":
            lines.append(f"y = (y * {rng.randint(1, 3)} + {rng.randint(-5, 5)}) % 1000")
            continue
        is_loop = kind == "loop"
        test, count = f"(x + y) % 41 > {rng.randint(0, 40)}", rng.randint(1, 4)
        lines.append(f"for j in range({count}):" if is_loop else f"if {test}:")
        lines += indented(block(rng, depth - 1, in_loop or is_loop))
        if not is_loop and rng.random() < 0.4:
            lines += ["else:", *indented(block(rng, depth - 1, in_loop))]
    if rng.random() < 0.5:
        lines.append(rng.choice(["continue", "continue", "break"]) if in_loop else "continue")
    return lines


def indented(lines: list[str]) -> list[str]:
    return [f"    {line}" for line in lines]


def make_continues(seed: int) -> Computed:
    """The program of one number."""
    rng = random.Random(seed)
    width, place = rng.choice((8, 32, 100)), rng.choice(PLACES)
    body = "\n".join(block(rng, 3, False))
    after = "pass" if place == PLACES[0] else f"T.copy({place[0]}, Y[k, :])"
    ours = body.replace("y", place).replace("x", "X[k, i]")
    source = KERNEL.format(
        rows=ROWS, width=width, place=place, after=after, body=textwrap.indent(ours, " " * 16)
    )
    names: dict[str, Any] = {}
    exec(PYTHON.format(body=textwrap.indent(body, " " * 8)), names)
    x = np.random.default_rng(seed).integers(0, 100, (ROWS, width)).astype(np.int32)
    y = np.vectorize(names["element"], otypes=[np.int32])(x)
    z = y[:, ::-1] + np.arange(ROWS, dtype=np.int32)[:, None]
    return Computed(source, {"X": x, "Y": x * 0, "Z": x * 0}, {"Y": y, "Z": z})
