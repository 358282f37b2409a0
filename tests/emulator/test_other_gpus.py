"""Examples and kernels of the benchmarks on GPUs of AMD and Apple: emulated with every check, and
compiled for each chip."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from bench_kernels import KERNELS, Kernel, noted
from captured import Case, as_results, example_cases
from example_modules import NAMES as EXAMPLES
from hip.programs import CHIPS
from joined import joined

import tilelang
from tilelang.compiler import compile as text_of
from tilelang.emulator.compilers import find_cxx
from tilelang.errors import SharedMemoryLimitError
from tilelang.hip.toolchain import compile_code, tools
from tilelang.ir.stmt import PrimFunc
from tilelang.target import parse_target

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "metal"))

from metal_clang import clang, refusal

TARGETS = ("hip -mcpu=gfx942", "hip -mcpu=gfx1100", "metal")
TOO_LARGE = ("w4a16", "metal")  # what has more shared memory than the 32 KiB of Metal
EMULATED = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")


@cache
def calls(name: str) -> list[Case]:
    return example_cases(name)[:2]


@cache
def kernels(name: str) -> list[tuple[Kernel, list[np.ndarray]]]:
    """The kernels of a benchmark, with what the interpreter leaves in their arguments."""
    found = []
    for kernel in noted(KERNELS[name]):
        wanted = kernel.arguments()
        made = tilelang.compile(
            kernel.func, execution_backend="interpret", pass_configs=kernel.configs
        )
        made(*wanted)
        found.append((kernel, wanted))
    return found


@EMULATED
@pytest.mark.share(4)
@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("target", TARGETS)
def test_an_example_has_no_finding(name: str, target: str) -> None:
    if (name, target) == TOO_LARGE:
        with pytest.raises(SharedMemoryLimitError, match="at most 32768 bytes"):
            tilelang.compile(calls(name)[0].func, target=target)
        return
    for seed, case in enumerate(calls(name)):
        kernel = case.kernel(target, "interpret")
        report = tilelang.sanitize(kernel, *case.args, seed=seed, schedule="random")
        assert report.ok, f"seed {seed}: {report}"
        found = as_results(report.outputs, report.arguments)
        for ours, wanted in zip(found, case.results, strict=True):
            room = 1e-2 if ours.dtype == np.float16 else 1e-3
            np.testing.assert_allclose(
                ours.astype(np.float64), wanted.astype(np.float64), rtol=room, atol=room
            )


@EMULATED
@pytest.mark.share(4)
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("target", TARGETS)
def test_a_kernel_of_the_benchmarks_has_no_finding(name: str, target: str) -> None:
    for kernel, wanted in kernels(name):
        made = tilelang.compile(
            kernel.func, target=target, execution_backend="interpret", pass_configs=kernel.configs
        )
        report = tilelang.sanitize(made, *kernel.arguments())
        assert report.ok, str(report)
        assert not list(kernel.differences(report.arguments, wanted))


@cache
def functions(target: str) -> list[PrimFunc]:
    """Every kernel above, once."""
    fitting = [name for name in EXAMPLES if (name, target) != TOO_LARGE]
    examples = [case.func for name in fitting for case in calls(name)]
    benches = [kernel.func for name in KERNELS for kernel, _ in kernels(name)]
    return list({func.script(): func for func in (*examples, *benches)}.values())


def text(target: str) -> str:
    """All kernels as one text."""
    return joined(text_of(func, parse_target(target)).source for func in functions(target))


@pytest.mark.share(3)
@pytest.mark.parametrize("chip", CHIPS)
def test_all_of_them_compile_for_a_chip(chip: str) -> None:
    if not list(tools()):
        pytest.skip("needs a clang with the AMDGPU target, e.g. that of the ziglang wheel")
    made = compile_code(text(f"hip -mcpu={chip}"), chip)
    assert len(made.kernels) >= len(functions(f"hip -mcpu={chip}"))
    assert not [str(kernel) for kernel in made.kernels if kernel.spills]


def test_all_of_them_are_metal_to_a_compiler() -> None:
    if not clang():
        pytest.skip("needs a clang")
    assert refusal(text("metal")) == ""
