"""Random index expressions against numpy: every executor, extents of all kinds, signs of all kinds.

The expectation is computed with Python's integers from the rules of the language page alone: index
arithmetic is exact as an index and in comparisons, loaded values have the arithmetic of int32
except in long dimensions. A negative index of an element is outside, unless ranges and conditions
show that it always is: it counts from the end then.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from executors import CPU, INTERPRETER, OPTIONS, SM_80
from hypothesis import HealthCheck, given, settings, strategies as st
from written import executed

import tilelang
from tilelang.cpu.toolchain import find_compiler

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")

BLOCKS, LANES, SIZE, LONG, FIXED = 3, 8, 37, 41, 50
LEAVES = ("bx", "i", "k", "n", "p", "L[i]")
NUMBERS = (0, 1, 2, 3, 5, 7, 8, 31, 64, 1000, 65536, 2**30)
DIVISORS = (1, 2, 3, 7, 8, 16, -1, -2, -5, 65536)


@dataclass(frozen=True)
class Node:
    """A leaf, a number, or an operation on two nodes."""

    op: str
    parts: tuple[Any, ...] = ()

    @property
    def loads(self) -> bool:
        return self.op == "L[i]" or any(isinstance(p, Node) and p.loads for p in self.parts)

    def text(self) -> str:
        if self.op in ("min", "max"):
            return f"T.{self.op}({self.parts[0].text()}, {self.parts[1].text()})"
        if self.parts and isinstance(self.parts[0], Node):
            return f"({self.parts[0].text()} {self.op} {self.parts[1].text()})"
        return f"({self.parts[0]})" if self.parts else self.op


def wrap(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def value_of(node: Node, names: Mapping[str, int], exact: bool) -> int:
    """The value of ``node``; ``exact``: without wrapping in between."""
    if node.op == "number":
        return int(node.parts[0])
    if not node.parts:
        return names[node.op]
    a, b = (value_of(part, names, exact) for part in node.parts)
    found = {
        "+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "//": lambda: a // b,
        "%": lambda: a % b, "min": lambda: min(a, b), "max": lambda: max(a, b),
    }[node.op]()  # fmt: skip
    return found if exact else wrap(found)


def leaves() -> st.SearchStrategy[Node]:
    names = st.sampled_from(LEAVES).map(Node)
    return names | names | st.sampled_from(NUMBERS).map(lambda x: Node("number", (x,)))


def larger(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    sums = st.tuples(st.sampled_from(("+", "-", "-", "*", "min", "max")), inner, inner)
    whole = st.sampled_from(DIVISORS).map(lambda x: Node("number", (x,)))
    divided = st.tuples(st.sampled_from(("//", "%")), inner, whole)
    return (sums | divided).map(lambda item: Node(item[0], item[1:]))


NODES = st.recursive(leaves(), larger, max_leaves=6)


@dataclass(frozen=True)
class Access:
    """One store: what it does, the index, and a condition of two more expressions."""

    kind: str  # "fixed", "size", "long", "shared", "store"
    index: Node
    left: Node
    right: Node
    conditional: bool
    named: bool


ACCESSES = st.builds(
    Access,
    kind=st.sampled_from(("fixed", "size", "long", "shared", "store")),
    index=NODES,
    left=NODES,
    right=NODES,
    conditional=st.booleans(),
    named=st.booleans(),
)

_numbers = itertools.count()


def program(accesses: list[Access]) -> Any:
    """The kernel with one row of results for each access."""
    lines = [
        "import tilelang.language as T",
        "n, m = T.dynamic('n'), T.dynamic('m', 'int64')",
        "@T.prim_func",
        f"def main(A: T.Tensor(({FIXED},), 'int32'), N: T.Tensor((n,), 'int32'),",
        f"         M: T.Tensor((m,), 'int32'), L: T.Tensor(({LANES},), 'int32'), p: T.int32,",
        f"         B: T.Tensor(({len(accesses)}, {BLOCKS}, {LANES}), 'int32'),",
        f"         S: T.Tensor(({len(accesses)}, {BLOCKS}, {LANES}, {FIXED}), 'int32')):",
        f"    with T.Kernel({BLOCKS}, threads=32) as bx:",
        f"        s = T.alloc_shared(({FIXED},), 'int32')",
        "        T.copy(A, s)",
        "        for k in T.serial(2):",
        f"            for i in T.Parallel({LANES}):",
    ]
    for row, access in enumerate(accesses):
        index, pad = access.index.text(), " " * 16
        if access.conditional:
            lines.append(f"{pad}if {access.left.text()} < {access.right.text()}:")
            pad += "    "
        if access.named:
            lines.append(f"{pad}at{row} = {index}")
            index = f"at{row}"
        if access.kind == "shared":  # what is outside of it is a mistake
            index = f"T.max(T.min({index}, {FIXED - 1}), 0)"
        name = {"fixed": "A", "size": "N", "long": "M", "shared": "s"}.get(access.kind)
        if name is None:
            lines.append(f"{pad}S[{row}, bx, i, {index}] = k + 1")
        else:
            lines.append(f"{pad}B[{row}, bx, i] = {name}[{index}] + k")
    source = "\n".join(lines) + "\n"
    file = f"<indices-{next(_numbers)}>"
    names = executed(source, file, __name__="indices")
    return names["main"], source


def may_be_known(access: Access) -> bool:
    """Whether the index may be known to be negative: it is in some hundred runs."""
    rng = np.random.default_rng(0)
    for _ in range(400):
        names = {name: int(rng.integers(size)) for name, size in
                 (("bx", BLOCKS), ("i", LANES), ("k", 2), ("n", 60))}  # fmt: skip
        names |= {name: int(rng.choice((-1, 0, 1))) * int(2 ** (31 * rng.random()))
                  for name in ("p", "L[i]")}  # fmt: skip
        plain = not (access.left.loads or access.right.loads)
        left, right = (value_of(side, names, plain) for side in (access.left, access.right))
        exact = access.kind == "long" or not access.index.loads
        if (not access.conditional or left < right) and value_of(access.index, names, exact) >= 0:
            return False
    return True


def expected(accesses: list[Access], given_arrays: dict[str, Any], known: bool) -> tuple[Any, Any]:
    """The results by the rules of the language, with all indices ``known`` to be negative or none."""
    b = np.zeros((len(accesses), BLOCKS, LANES), np.int32)
    s = np.zeros((len(accesses), BLOCKS, LANES, FIXED), np.int32)
    for row, access in enumerate(accesses):
        for k, bx, i in itertools.product(range(2), range(BLOCKS), range(LANES)):
            names = {"bx": bx, "i": i, "k": k, "n": SIZE, "p": given_arrays["p"]}
            names["L[i]"] = int(given_arrays["L"][i])
            left, right = access.left, access.right
            plain = not (left.loads or right.loads)
            if access.conditional and not (
                value_of(left, names, plain) < value_of(right, names, plain)
            ):
                continue
            exact = access.kind == "long" or not access.index.loads
            at = value_of(access.index, names, exact)
            if access.kind == "shared":
                at = max(min(at, FIXED - 1), 0)
            name = {"fixed": "A", "shared": "A", "size": "N", "long": "M"}.get(access.kind)
            a = np.zeros(FIXED, np.int32) if name is None else given_arrays[name]
            at += len(a) if known and at < 0 else 0
            if name is None and 0 <= at < FIXED:
                s[row, bx, i, at] = k + 1
            elif name is not None:
                b[row, bx, i] = (a[at] if 0 <= at < len(a) else 0) + k
    return b, s


@settings(
    max_examples=12, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
@given(
    accesses=st.lists(ACCESSES, min_size=6, max_size=6),
    p=st.sampled_from((0, 3, -4, 60, -60, 65536, -(2**31), 2**31 - 1)),
    loaded=st.lists(
        st.integers(-60, 60) | st.sampled_from((2**31 - 1, -(2**31), 65536)),
        min_size=LANES, max_size=LANES,
    ),
)  # fmt: skip
def test_random_indices_agree_with_numpy(accesses: list[Access], p: int, loaded: list[int]) -> None:
    rng = np.random.default_rng(0)
    arrays = {name: rng.integers(1, 1000, size).astype(np.int32)
              for name, size in (("A", FIXED), ("N", SIZE), ("M", LONG))}  # fmt: skip
    arrays |= {"L": np.array(loaded, np.int32), "p": p}
    func, source = program(accesses)
    (b, s), (known_b, known_s) = (expected(accesses, arrays, known) for known in (False, True))
    for name in (INTERPRETER, CPU, SM_80):
        found = {key: np.array(value) for key, value in arrays.items() if key != "p"}
        got_b, got_s = np.zeros_like(b), np.zeros_like(s)
        kernel = tilelang.compile(func, **OPTIONS[name])
        kernel(found["A"], found["N"], found["M"], found["L"], p, got_b, got_s)
        for row, access in enumerate(accesses if name == INTERPRETER else ()):
            known = (got_b[row] == known_b[row]).all() and (got_s[row] == known_s[row]).all()
            if known and may_be_known(access):
                b[row], s[row] = known_b[row], known_s[row]
        wrong = [row for row in range(len(accesses))
                 if (got_b[row] != b[row]).any() or (got_s[row] != s[row]).any()]  # fmt: skip
        assert not wrong, f"{name}: rows {wrong} with p={p}, L={loaded} of\n{source}"
