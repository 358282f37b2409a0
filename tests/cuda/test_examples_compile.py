"""Every example compiles to machine code, without spills."""

from __future__ import annotations

import pytest
from example_modules import NAMES, load
from gpus import ARCHS

from tilelang.compiler import compile
from tilelang.cuda.executable import compile_flags
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.cuda.toolchain import compile_cubin
from tilelang.ir.stmt import PrimFunc
from tilelang.jit import execution, kernel as jit_kernel
from tilelang.options import Options
from tilelang.target import parse_target

pytestmark = pytest.mark.skipif(
    find_nvrtc() is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc"
)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[PrimFunc, Options]]:
    """The functions that are compiled during a test; the interpreter runs them."""
    found: list[tuple[PrimFunc, Options]] = []
    build = execution.build

    def record(func, out_idx, target, options, backend):  # type: ignore[no-untyped-def]  # as build
        found.append((func, options))
        return build(func, out_idx, target, options, "interpret")

    monkeypatch.setattr(jit_kernel, "build", record)
    return found


@pytest.mark.share(len(ARCHS))
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("name", NAMES)
def test_the_example_compiles_for_every_architecture(
    name: str, arch: str, compiled: list[tuple[PrimFunc, Options]],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    load(name).main("interpret")
    capsys.readouterr()
    func, options = compiled[0]
    artifact = compile(func, parse_target(f"cuda -arch={arch}"), options)
    result = compile_cubin(artifact.source, arch, compile_flags(artifact, options))
    assert result.cubin[:4] == b"\x7fELF"
    assert all(kernel.spills == 0 for kernel in result.resources)
