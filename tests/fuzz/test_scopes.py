"""Random programs that bind names in nested blocks mean what the rule of names says, or are refused."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pytest

import tilelang
from tilelang.errors import InternalError, TileError, TileWarning

from .model import numbered
from .running import load
from .scopes import A, Rule, TooManyWays, make_scopes

# More: TILELANG_FUZZ_SCOPES=2000 pytest tests/fuzz/test_scopes.py
SEEDED = int(os.environ.get("TILELANG_FUZZ_SCOPES", "50"))
BATCH = 25
HEAD = """\
import tilelang.language as T
from tilelang.ir.buffer import Buffer


def val(x):
    return x[1] if isinstance(x, Buffer) else x


@T.prim_func
def main(A: T.Tensor((4,), "int32"), n: T.int32, O: T.Tensor((64,), "int32")):
    with T.Kernel(1, threads=1):
"""


def traced(text: str) -> Any:
    """The function around ``text``, or the error that refuses it."""
    source = HEAD + "".join(f"        {line}\n" for line in text.splitlines())
    try:
        return load(source)
    except TileError as error:
        assert not isinstance(error, InternalError), numbered(source)
        return error


def check(seed: int) -> bool:
    """Whether the program of ``seed`` has a verdict; it must be the compiler's."""
    body, text = make_scopes(seed)
    try:
        rule = Rule(body)
    except TooManyWays:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TileWarning)
        made = traced(text)
    if isinstance(made, TileError) or rule.refused:
        told = f"seed {seed}, rule: {rule.refused or 'a program'}; compiler: {made}\n"
        assert isinstance(made, TileError) and rule.refused, told + numbered(text)
        return True
    out, want = np.zeros(64, np.int32), np.zeros(64, np.int32)
    tilelang.compile(made, target="cpu", execution_backend="interpret")(
        np.array(A, np.int32), 2, out
    )
    for place, number in rule.outputs().items():
        want[place] = number
    assert np.array_equal(out, want), f"seed {seed}: {out} for {want}\n{numbered(text)}"
    return True


@pytest.mark.share(4)
@pytest.mark.parametrize("first", range(0, SEEDED, BATCH))
def test_names_of_nested_blocks(first: int) -> None:
    assert sum(check(seed) for seed in range(first, first + BATCH)) > BATCH // 2


def test_the_rule_accepts_and_refuses() -> None:
    """Programs of both kinds are there, or the comparison would say nothing."""
    found = set()
    for seed in range(40):
        try:
            found.add(bool(Rule(make_scopes(seed)[0]).refused))
        except TooManyWays:
            continue
    assert found == {False, True}
