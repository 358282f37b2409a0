"""Random loops in order whose iterations read what earlier ones have changed, and the same in Python.

State is in variables, an array of the thread and a shared tile; conditions read it. The body of a
loop is Python that means the same with ``T`` of :class:`Plain`, so running it is the reference.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from .model import Computed

ROWS, COLUMNS, LAUNCHES = 4, 16, 4
BEGIN = """\
p = T.alloc_var("int32")
q = T.alloc_var("int32")
r = T.alloc_var("int32")
v = T.alloc_local((4,), "int32")
s = T.alloc_shared((8,), "int32")
p = 1
q = 2
r = 3
for z in T.serial(4):
    v[z] = z
for z in T.serial(8):
    s[z] = z
""".splitlines()
END = "p ^ (q * 3) ^ (r * 5) ^ (v[0] + v[1] * 3 + v[3] * 11) ^ (s[0] + s[5] * 3 + s[7])"


class Plain:
    """``T`` for Python itself."""

    serial = unroll = staticmethod(range)
    min, max = staticmethod(min), staticmethod(max)

    @staticmethod
    def if_then_else(cond: bool, then: int, other: int) -> int:
        return then if cond else other


def make_carried(seed: int) -> Computed:
    """The loops of one number, a launch for each."""
    rng, draw = np.random.default_rng(seed), random.Random(seed)
    bodies = [_Writer(draw).loop("") for _ in range(LAUNCHES)]
    inputs = {name: rng.integers(0, 12, (ROWS, COLUMNS), np.int32) for name in "XW"}
    inputs |= {f"O{n}": np.zeros((ROWS, COLUMNS), np.int32) for n in range(LAUNCHES)}
    shape = f"T.Tensor(({ROWS}, {COLUMNS}), 'int32')"
    lines = ["import tilelang.language as T", "", "", "@T.prim_func"]
    lines.append(f"def main({', '.join(f'{name}: {shape}' for name in inputs)}):")
    expected = {}
    for n, body in enumerate(bodies):
        lines += [f"    with T.Kernel({ROWS}, threads=1) as b:", f"        O = O{n}"]
        lines += [f"        {line}" for line in (*BEGIN, *body, f"O[b, {COLUMNS - 1}] = {END}")]
        expected[f"O{n}"] = result = np.zeros((ROWS, COLUMNS), np.int32)
        for b in range(ROWS):
            state: dict[str, Any] = {"T": Plain, "O": result, "b": b, "p": 1, "q": 2, "r": 3}
            state |= {name: inputs[name].astype(object) for name in "XW"}
            state |= {"v": [*range(4)], "s": [*range(8)]}
            exec("\n".join(body), state)
            result[b, -1] = eval(END, state)
    return Computed("\n".join(lines) + "\n", inputs, expected)


class _Writer:
    """Writes one nest of loops."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.names: list[str] = []  # of the loops around

    def atom(self) -> str:
        choose, around = self.rng.choice, self.names or ["0"]
        state, at = choose("pqr"), choose(around)
        return choose([
            state, str(choose(range(8))), at, f"X[b, {at}]",
            f"W[b, ({at} + {state}) & 15]", f"v[{state} & 3]", f"s[{at} & 7]", f"O[b, {at}]",
        ])  # fmt: skip

    def expr(self, depth: int = 2) -> str:
        if depth == 0 or self.rng.random() < 0.3:
            return self.atom()
        kind, a, b = self.rng.choice("+-*^|&?<"), self.expr(depth - 1), self.expr(depth - 1)
        if kind == "?":
            return f"T.if_then_else({self.cond()}, {a}, {b})"
        return (
            f"T.{self.rng.choice(['min', 'max'])}({a}, {b})" if kind == "<" else f"({a} {kind} {b})"
        )

    def cond(self) -> str:
        sign = self.rng.choice(["<", ">", "==", "!=", "<=", ">="])
        first = f"({self.atom()} {sign} {self.atom()})"
        if self.rng.random() < 0.75:
            return first
        return f"({first} {self.rng.choice('&|')} ({self.atom()} < {self.atom()}))"

    def target(self) -> str:
        at = self.rng.choice(self.names)
        kept = ["p", "q", "r", f"v[{self.rng.choice('pqr')} & 3]", f"s[{at} & 7]"]
        return self.rng.choice([*kept, f"O[b, {at}]", f"O[b, ({self.atom()}) & 15]"])

    def block(self, indent: str, in_order: bool) -> list[str]:
        lines: list[str] = []
        for _ in range(self.rng.choice([1, 1, 2, 3])):
            kind = self.rng.random()
            if kind < 0.6:
                lines.append(f"{indent}{self.target()} = {self.expr()} & 1023")
            elif kind < 0.85:
                lines += [f"{indent}if {self.cond()}:", *self.block(indent + "    ", in_order)]
                if self.rng.random() < 0.35:
                    lines += [f"{indent}else:", *self.block(indent + "    ", in_order)]
            elif len(self.names) < 3 and kind < 0.93:
                lines += self.loop(indent)
            elif in_order:
                leave = self.rng.choice(["break", "continue"])
                lines += [f"{indent}if {self.cond()}:", f"{indent}    {leave}"]
        return lines or [f"{indent}p = (p + 1) & 1023"]

    def loop(self, indent: str) -> list[str]:
        """A loop; the body of half of them is a branch on what it changes."""
        name, kind = "ijk"[len(self.names)], self.rng.choice(["serial", "serial", "unroll"])
        count = str(self.rng.choice([2, 4] if self.names else [3, 4, 8, 8, 16]))
        if self.names and kind == "serial" and self.rng.random() < 0.5:  # a triangle
            form = self.rng.choice(["{} + 1, 16", "0, {}", "15, {}, -1", "{} - 1, -1, -1"])
            count = form.format(self.rng.choice(self.names))
        self.names.append(name)
        body = f"{indent}    "
        lines = [f"{indent}for {name} in T.{kind}({count}):"]
        if self.rng.random() < 0.5:
            lines += self.block(body, kind == "serial")
        else:
            flag = self.rng.choice(["p", "q", "r", "v[1]", "s[2]"])
            lines.append(f"{body}if {flag} {self.rng.choice(['<', '>', '!='])} {self.atom()}:")
            if self.rng.random() < 0.5:
                body += "    "
                lines.append(f"{body}if {self.cond()}:")
            mask = self.rng.choice([1, 3, 7, 1023])
            lines.append(f"{body}    {flag} = ({self.expr()} + X[b, {name}]) & {mask}")
        self.names.pop()
        return lines
