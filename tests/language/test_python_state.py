"""Python objects that a device loop or branch would change once, whatever the device does."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pytest
from refusals import refusal
from written import executed

import tilelang
from tilelang.errors import TileError, TileRuntimeError, TileTypeError

_NUMBERS = itertools.count()


def program(
    before: str, body: str, after: str = "B[0] = 1", head: str = "for i in T.serial(4):"
) -> Any:
    """A kernel of ``before``, then ``body`` in a block of the device, then ``after``."""
    lines = ["@T.prim_func", "def main(A: T.Tensor((8,), 'int32'), B: T.Tensor((8,), 'int32')):",
             "    with T.Kernel(1, threads=1):"]  # fmt: skip
    lines += [f"        {line}" for line in before.split("\n")]
    lines += [f"        {head}"] + [f"            {line}" for line in body.split("\n")]
    lines += [f"        {line}" for line in after.split("\n")]
    source, name = "\n".join(lines) + "\n", f"<state {next(_NUMBERS)}>"
    return executed(source, name, np=np, itertools=itertools)["main"]


HEADS = (
    "for i in T.serial(4):",
    "if A[0] > 0:",
    "for i in T.Parallel(4):",
    "for i in T.unroll(4):",
)
CHANGES = {
    "append": ("x = []", "x.append(1)"),
    "extend": ("x = [1]", "x.extend([2, 3])"),
    "insert": ("x = [1]", "x.insert(0, 2)"),
    "pop": ("x = [1, 2, 3]", "y = x.pop()\nB[1] = y"),
    "clear": ("x = [1]", "x.clear()"),
    "augmented": ("x = [1]", "x += [2]"),
    "reverse": ("x = [1, 2]", "x.reverse()"),
    "nested": ("x = [[1], [2]]", "x[0].append(3)"),
    "new key": ("x = {}", "x['a'] = 1"),
    "update": ("x = {'a': 1}", "x.update(a=2)"),
    "set add": ("x = set()", "x.add(3)"),
    "next of a counter": ("x = itertools.count()", "B[1] = next(x)"),
    "next of an iterator": ("x = iter([1, 2, 3])", "B[1] = next(x)"),
    "next of a generator": ("x = (k for k in range(9))", "B[1] = next(x)"),
    "array item": ("x = np.zeros(3)", "x[1] = 2"),
    "nonlocal": ("x = 0\ndef up():\n    nonlocal x\n    x += 1", "up()"),
    "expression": ("x = []", "x.append(A[0])"),
    "by a function": ("x = []\ndef put(v):\n    x.append(v)", "put(1)"),
}


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_change_inside_of_a_device_block_is_refused(change: str) -> None:
    before, body = CHANGES[change]
    for head in HEADS:
        assert "internal error" not in refusal(TileError, program, before, body, head=head)


def test_the_error_names_the_object_and_the_statement() -> None:
    with pytest.raises(TileRuntimeError) as caught:
        program("found = []", "B[2] = 1\nfound.append(A[i])")
    text = str(caught.value)
    assert text.startswith(
        "`found` changes inside a loop of the device, which is traced once\n"
        "  expected: Python objects that stay as they are there\n"
        "  got: a list with other contents\n"
        "  hint: keep what each thread or iteration computes in a T.alloc_var, a tile or a local "
        "array; a loop over a Python sequence (`enumerate`) is unrolled\n"
    )
    assert "found.append(A[i])" in text


@pytest.mark.parametrize(
    ("before", "body"),
    [
        ("x = []\nx.append(A[0])", "B[1] = x[0]"),
        ("x = {'a': A[1]}", "B[1] = x['a']"),
        ("x = [1, 2]", "y = []\ny.append(x[1])\nB[1] = y[0]"),
        ("x = np.arange(4)", "B[1] = int(x[2])"),
        ("x = []\nfor k, v in enumerate([1, 2]):\n    x.append(v)", "B[1] = x[1]"),
        ("x = {3: 4}", "B[1] = x.get(3)"),
    ],
)
def test_python_objects_may_be_read_and_made(before: str, body: str) -> None:
    func = program(before, body)
    b = np.zeros(8, np.int32)
    tilelang.compile(func, target="cpu", execution_backend="interpret")(
        np.arange(8, dtype=np.int32), b
    )
    assert b[0] == 1


@pytest.mark.parametrize("items", ["{1, 5, 9}", "{1: 0, 5: 0, 9: 0}", "frozenset((1, 5, 9))"])
def test_membership_in_sets_and_dicts_compares_the_elements(items: str) -> None:
    func = program(f"s = {items}", "B[i] = T.if_then_else(A[i] in s, 1, 0)", "B[4] = A[4] not in s")
    a, b = np.array([1, 2, 5, 9, 7, 0, 0, 0], np.int32), np.zeros(8, np.int32)
    for backend in ("interpret", "auto"):
        tilelang.compile(func, target="cpu", execution_backend=backend)(a, b)
        assert b[:5].tolist() == [1, 0, 1, 1, 1]


@pytest.mark.parametrize(
    "call", ["get(A[0])", "get(A[0], 3)", "setdefault(A[0], 1)", "pop(A[0], 1)"]
)
def test_a_device_value_is_no_key(call: str) -> None:
    with pytest.raises(
        TileTypeError, match=r"a value of the device is looked up in a dict by `\w+`"
    ):
        program("d = {1: 2}", f"B[1] = d.{call}")


def test_random_changes_are_refused_and_random_reads_are_not() -> None:
    """Nested blocks; a change of an object from outside any of them, at any depth."""
    for seed in range(60):
        rng = random.Random(seed)
        before, body = CHANGES[rng.choice(sorted(CHANGES))]
        refused = rng.random() < 0.5
        if not refused:  # the same, of objects that the block makes itself
            body, before = f"{before}\nB[2] = 3", "B[3] = 1"
        inner = rng.choice(("for j in T.serial(2):", "if A[1] > 0:"))
        nested = inner + "\n" + "\n".join(f"    {line}" for line in body.split("\n"))
        if refused:
            with pytest.raises(TileError):
                program(before, nested, head=rng.choice(HEADS[:2]))
        else:
            program(before, nested, head=rng.choice(HEADS[:2]))
