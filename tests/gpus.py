"""Where the tests of GPU kernels run: on a GPU if there is one, and everywhere in the emulator.

A test takes the fixture ``gpu`` and runs once on each. In the emulator kernels are those for sm_80
(or what the test asks for), every load and store is checked, a finding is a failure, and the
schedule is random. Its seed is that of the test, the same in every run, and is printed with a
failure; ``TILELANG_EMULATOR_SEED=N`` gives all tests other schedules. Kernels that ask for no
architecture are assembled for two of ``ARCHS`` as well, of which one goes with the name of the test,
and for all of them with ``pytest --whole``.
"""

from __future__ import annotations

import contextlib
import os
import sys
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilelang
from tilelang.codegen.artifact import Artifact
from tilelang.compiler import compile as lower
from tilelang.cuda.executable import compile_flags
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.cuda.toolchain import compile_cubin
from tilelang.emulator.compilers import find_cxx
from tilelang.emulator.launch import Settings
from tilelang.errors import TileUnsupportedError
from tilelang.hip.toolchain import compile_code, tools
from tilelang.ir.stmt import PrimFunc
from tilelang.jit import core, emulated
from tilelang.jit.compile import options_for
from tilelang.target import parse_target
from tilelang.target.device import cuda_devices

sys.path.insert(0, str(Path(__file__).parent / "metal"))

from metal_clang import clang, refusal

ARCHS = ("sm_75", "sm_80", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_120a")
ARCH = "sm_80"  # of the code that the emulator runs where a test asks for no other
EMULATOR = "emulator"
DEVICE = "device"
METAL = "metal"
# GPUs of AMD and Apple, which the emulator runs, too -> their targets.
OTHERS = {"gfx942": "hip -mcpu=gfx942", "gfx1100": "hip -mcpu=gfx1100", METAL: METAL}
# Places in the emulator -> what their kernels are compiled for, that of the emulator first.
COMPILED = {
    EMULATOR: (ARCH, *(arch for arch in ARCHS if arch != ARCH)),
    "gfx942": ("gfx942", "gfx90a", "gfx950"),
    "gfx1100": ("gfx1100", "gfx1151", "gfx1201"),
    METAL: (METAL,),
}
STEPS = 20_000_000  # switches between the threads of a block, after which it counts as endless


@dataclass(frozen=True)
class Gpu:
    """A place for GPU kernels.

    Attributes:
        name: "device" or "emulator".
        memory: torch's name for the memory that kernels work on.
        seed: of the emulator's schedule.
        archs: for which kernels are assembled.
    """

    name: str
    memory: str
    seed: int = 0
    archs: tuple[str, ...] = ARCHS

    @property
    def emulated(self) -> bool:
        """Whether this is the emulator."""
        return self.name != DEVICE

    @property
    def nvidia(self) -> bool:
        """Whether this is a GPU of NVIDIA's, or one in the emulator."""
        return self.name not in OTHERS

    def target(self, arch: str = "") -> str:
        """The target of kernels; ``arch`` if they use what not every GPU has."""
        if not self.nvidia:
            return OTHERS[self.name]
        arch = arch or (ARCH if self.emulated else "")
        return f"cuda -arch={arch}" if arch else "cuda"

    def compile(self, func: Any, *, arch: str = "", backend: str = "auto", **options: Any) -> Any:
        """The kernel of a function."""
        if self.emulated and isinstance(func, PrimFunc) and not options:
            if not self.nvidia:
                assemble_others(func, self.archs)
            elif not arch:
                assemble(func, self.archs)
        return tilelang.compile(
            func, target=self.target(arch), execution_backend=backend, **options
        )

    def place(self, value: Any) -> Any:
        """A copy of an array or a tensor in the memory of kernels; other values as they are."""
        import torch

        if isinstance(value, np.ndarray):
            value = torch.from_numpy(np.ascontiguousarray(value))
        return value.clone().to(self.memory) if isinstance(value, torch.Tensor) else value

    def wait(self) -> None:
        """Until all kernels have run."""
        if not self.emulated:
            import torch

            torch.cuda.synchronize()

    def run(self, func: Any, *args: Any, **options: Any) -> list[Any]:
        """Tensors in host memory as a call with ``args`` leaves them."""
        import torch

        placed = [self.place(arg) for arg in args]
        self.compile(func, **options)(*placed)
        self.wait()
        return [arg.cpu() if isinstance(arg, torch.Tensor) else arg for arg in placed]


def assemble(func: PrimFunc, archs: tuple[str, ...]) -> None:
    """Machine code of ``func`` for each of ``archs`` that has the memory for it."""
    if find_nvrtc() is None:
        return
    settings = options_for(func, None, None, None)
    texts: dict[str, Artifact] = {}
    for arch in archs:
        with contextlib.suppress(TileUnsupportedError):
            texts[arch] = lower(func, parse_target(f"cuda -arch={arch}"), settings)

    def machine_code(arch: str) -> bytes:
        made = texts[arch]
        return compile_cubin(made.source, arch, compile_flags(made, settings)).cubin

    assert ARCH in texts or ARCH not in archs
    with ThreadPoolExecutor(2) as pool:
        assert all(cubin[:4] == b"\x7fELF" for cubin in pool.map(machine_code, texts))


def assemble_others(func: PrimFunc, archs: tuple[str, ...]) -> None:
    """Machine code of ``func`` for each AMD GPU of ``archs``; Metal text is read by a compiler."""
    settings = options_for(func, None, None, None)
    for arch in archs:
        target = parse_target(METAL if arch == METAL else f"hip -mcpu={arch}")
        text = lower(func, target, settings).source
        if arch != METAL:
            if list(tools()):
                assert compile_code(text, arch).code[:4] == b"\x7fELF"
        elif clang():
            assert refusal(text) == ""


def _has_device() -> bool:
    """Whether torch and this package see a GPU."""
    import torch

    return bool(cuda_devices()) and bool(torch.cuda.is_available())


def opened(name: str, label: str, whole: bool = False) -> contextlib.AbstractContextManager[Gpu]:
    """The place ``name`` for the test ``label``; skips the test where it cannot be had.

    Args:
        whole: kernels are assembled for all architectures.
    """
    pytest.importorskip("torch", reason="the tensors of GPU kernels are torch's")
    if name != DEVICE:
        if find_cxx() is None:
            pytest.skip("needs a C++ compiler")
        return _emulator(name, label, whole)
    if not _has_device():
        pytest.skip("needs an NVIDIA GPU")
    return contextlib.nullcontext(Gpu(DEVICE, "cuda"))


@contextlib.contextmanager
def _emulator(name: str, label: str, whole: bool) -> Iterator[Gpu]:
    more = int(os.environ.get("TILELANG_EMULATOR_SEED", "0"))
    seed = more * 1000 + zlib.crc32(label.encode()) % 1000
    print(f"emulator: random schedule, seed {seed} (TILELANG_EMULATOR_SEED={more})")
    first, *others = COMPILED[name]
    archs = (first, *others) if whole or not others else (first, others[seed % len(others)])
    gpu = Gpu(name, "cpu", seed, archs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILELANG_SANITIZE", "1")
        patch.setenv("TILELANG_DEFAULT_TARGET", gpu.target())
        settings = partial(Settings, schedule="random", seed=seed, steps=STEPS)
        patch.setattr(emulated, "Settings", settings)
        # Tensors in host memory are those of a kernel for the GPU here.
        patch.setattr(core, "_device_of", lambda values: gpu.target())
        yield gpu
