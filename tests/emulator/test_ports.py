"""The runtime on other compilers and machines: its own tests, in processes with another ``CXX``.

Each port runs where its tools are installed: clang++, the ziglang package, and for AArch64 a cross
compiler with qemu's user emulation. The switch of fibers by ucontext needs nothing more than g++.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("runtime", "runtime_checks", "runtime_units", "runtime_generated")
FILES = [f"tests/emulator/test_{name}.py" for name in NAMES]
# What depends on the machine, and some of the rest: under qemu each launch is a process.
FEW = (
    "parameters or wild or full_stack or seed or product_of or matrices or grid_meets or "
    "mbarriers_by or late_copies or (every_thread and 1024)"
)
ZIG = f"{sys.executable} -m ziglang c++ -fno-sanitize=undefined"


@dataclass(frozen=True)
class Port:
    """A way to build the runtime, and what runs it if not this machine."""

    name: str
    compiler: str
    runner: str = ""
    choice: str = ""

    def missing(self) -> str:
        """What is not installed, "" if it can be used."""
        if self.name == "ziglang":
            return "" if find_spec("ziglang") else "the ziglang package"
        tools = [words.split()[0] for words in (self.compiler, self.runner) if words]
        return ", ".join(tool for tool in tools if shutil.which(tool) is None)


PORTS = (
    Port("ucontext", "g++ -DTL_EMU_PORTABLE", choice=FEW),
    Port("clang", "clang++"),
    Port("ziglang", ZIG, choice=FEW),
    Port("aarch64", "aarch64-linux-gnu-g++",
         "qemu-aarch64-static -L /usr/aarch64-linux-gnu", FEW),
)  # fmt: skip


@pytest.mark.share(4)
@pytest.mark.parametrize("port", PORTS, ids=lambda port: port.name)
def test_the_runtime_holds_on(port: Port) -> None:
    if port.missing():
        pytest.skip(f"needs {port.missing()}")
    # Options of the run around it, its plugins and number of processes, are not those of this one.
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    variables = {**inherited, "CXX": port.compiler, "TL_TEST_RUNNER": port.runner}
    words = [sys.executable, "-m", "pytest", "-q", "-o", "addopts=", "-p", "no:cacheprovider"]
    words += FILES
    if port.choice:
        words += ["-k", port.choice]
    done = subprocess.run(
        words, cwd=ROOT, env=variables, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "[100%]" in done.stdout


@pytest.mark.skipif(find_spec("ziglang") is None, reason="needs the ziglang package")
def test_zig_alone_is_enough(tmp_path: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if name != "CXX"}
    program = "examples/elementwise_add.py"
    done = subprocess.run(
        [sys.executable, "-m", "tilelang.emulator", program],
        cwd=ROOT, env={**variables, "PATH": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
