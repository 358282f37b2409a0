"""Metal text as a compiler with its address spaces reads it: `clang -x clcpp` with a list of names."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest
from metal_programs import attention, counted, product, scaled, softmax, turned

from tilelang.compiler import compile
from tilelang.ir.stmt import PrimFunc
from tilelang.metal.backend import HEADER, standalone
from tilelang.target import parse_target

NAMES = Path(__file__).parent / "clang"
FLAGS = (
    "-x", "clcpp", "-cl-std=clc++2021", "-cl-no-stdinc", "-target", "spir64", "-fsyntax-only",
    "-Wno-unknown-attributes", f"-I{NAMES}", f"-I{HEADER.parent}",
)  # fmt: skip


@lru_cache(maxsize=1)
def clang() -> list[str]:
    """A clang of this machine, or the one inside of the ziglang package; empty without any."""
    found = next(filter(shutil.which, ("clang", *(f"clang-{n}" for n in range(25, 13, -1)))), "")
    if found:
        return [found]
    return [sys.executable, "-m", "ziglang", "clang"] if importlib.util.find_spec("ziglang") else []


def refusal(text: str, folder: Path) -> str:
    """What the compiler says of a text."""
    if not clang():
        pytest.skip("needs clang, or the ziglang package")
    file = folder / "kernel.metal"
    file.write_text(text, encoding="utf-8")
    done = subprocess.run([*clang(), *FLAGS, file], capture_output=True, text=True, check=False)
    return done.stderr if done.returncode else ""


PROGRAMS = (
    scaled, softmax, counted, attention(), attention("bfloat16"), turned(True, True),
    product("float16"), product("bfloat16"), product("float32"),
)  # fmt: skip


@pytest.mark.parametrize("func", PROGRAMS, ids=lambda func: func.name)
def test_the_text_compiles(func: PrimFunc, tmp_path: Path) -> None:
    text = compile(func, parse_target("metal")).source
    assert not refusal(text, tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("device float* B", "device const float* B"),
        ("B[bx", "C[bx"),
        ("device const", "thread const"),
    ],
)
def test_what_is_wrong_in_a_text_is_seen(old: str, new: str, tmp_path: Path) -> None:
    text = compile(scaled, parse_target("metal")).source
    assert old in text and "error:" in refusal(text.replace(old, new), tmp_path)


def test_a_text_with_its_header_includes_the_standard_library_alone() -> None:
    text = standalone(compile(softmax, parse_target("metal")).source)
    included = [line for line in text.splitlines() if line.startswith("#include")]
    assert included == ["#include <metal_stdlib>"]
