"""A few random programs as C for other machines; `bench/fuzz_long.py --runner` runs many."""

from __future__ import annotations

import platform
import shutil

import pytest

from .cross import Cross
from .draws import SeededDraw
from .model import Program, Tensor
from .programs import make_program
from .running import check

QEMU = "qemu-aarch64-static"
BUILDS = {
    "NEON": Cross("armv8-a", "aarch64-linux-gnu-gcc", QEMU),
    "SVE of 256 bits": Cross("neoverse-v1", "aarch64-linux-gnu-gcc", f"{QEMU} -cpu max,sve256=on"),
    "SVE of 512 bits": Cross("a64fx", "aarch64-linux-gnu-gcc", f"{QEMU} -cpu max,sve512=on"),
    "AVX-512 by GCC": Cross("x86-64-v4", "gcc -c"),
    "AVX-512 by Clang": Cross("x86-64-v4", "clang-19 -c"),
}

ENDS = (("A", "in"), ("B", "out"))
EXCHANGED = """\
with T.Kernel(2, threads=1) as bx:
    for j in T.Parallel(2):
        B[bx, j] = A[bx, T.if_then_else(j < 1, j + 1, j - 1)]"""


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", BUILDS)
def test_programs_agree_on_other_machines(name: str, seed: int) -> None:
    build = BUILDS[name]
    for tool in (build.compiler.split()[0], *build.runner.split()[:1]):
        if tool and shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    if build.arch.startswith("x86") and platform.machine() != "x86_64":
        pytest.skip("needs a compiler for x86-64")
    check(make_program(SeededDraw(seed)), cross=build)


@pytest.mark.parametrize(
    ("name", "seed"),
    [("SVE of 256 bits", 100516), ("SVE of 512 bits", 105505), ("SVE of 512 bits", 105477)],
)
def test_programs_that_gcc_12_had_wrong_for_scalable_vectors_agree(name: str, seed: int) -> None:
    """Two were internal errors of its vectoriser, one a choice of lanes of half a vector."""
    build = BUILDS[name]
    for tool in (build.compiler, build.runner.split()[0]):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    check(make_program(SeededDraw(seed)), cross=build)


def test_two_iterations_are_exchanged_on_arm() -> None:
    """GCC 12 for AArch64 gives wrong numbers where such a loop is marked for its vectoriser."""
    build = BUILDS["NEON"]
    for tool in (build.compiler, build.runner):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    ends = [Tensor(name, "ij", (2, 2), ("2", "2"), "int32", role) for name, role in ENDS]
    check(Program(tensors=ends, kernels=[EXCHANGED.splitlines()]).assemble(), cross=build)
