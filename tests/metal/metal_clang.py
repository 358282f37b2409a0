"""Metal text as a compiler with its address spaces reads it: `clang -x clcpp` with a list of names."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

from tilelang.metal.standalone import HEADER

NAMES = Path(__file__).parent / "clang"
FLAGS = (
    "-x", "clcpp", "-cl-std=clc++2021", "-cl-no-stdinc", "-target", "spir64", "-fsyntax-only",
    "-Wno-unknown-attributes", f"-I{NAMES}", f"-I{HEADER.parent}", "-",
)  # fmt: skip


@lru_cache(maxsize=1)
def clang() -> list[str]:
    """A clang of this machine, or the one inside of the ziglang package; empty without any."""
    found = next(filter(shutil.which, ("clang", *(f"clang-{n}" for n in range(25, 13, -1)))), "")
    if found:
        return [found]
    return [sys.executable, "-m", "ziglang", "clang"] if importlib.util.find_spec("ziglang") else []


def refusal(text: str) -> str:
    """What the compiler says of a text; "" if it takes it."""
    done = subprocess.run(
        [*clang(), *FLAGS], input=text, capture_output=True, text=True, check=False
    )
    return done.stderr if done.returncode else ""
