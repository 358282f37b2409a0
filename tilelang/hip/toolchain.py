"""From generated HIP source to a code object of one chip.

:func:`compile_code` uses hipRTC where ROCm is installed, else a ``clang`` with the AMDGPU target,
else the one in the ``ziglang`` wheel. Neither a GPU nor a header of ROCm is needed. Source: clang
documentation, "HIP Support" and "User Guide for AMDGPU Backend".
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

from tilelang.env import env
from tilelang.errors import CompileError
from tilelang.hip.headers import device_headers
from tilelang.hip.hiprtc import Hiprtc, find_hiprtc
from tilelang.hip.standalone import standalone
from tilelang.hostcc import failed, run, summary_of
from tilelang.records import dataclass
from tilelang.scratch import ScratchFolder

FLAGS = (
    "-O3", "-std=c++17", "-w", "-fno-strict-aliasing", "-munsafe-fp-atomics",
    "-Rpass-analysis=kernel-resource-usage",
)  # fmt: skip
FAST_MATH = (
    "-fapprox-func", "-freciprocal-math", "-fno-signed-zeros", "-fgpu-flush-denormals-to-zero",
    "-fno-hip-fp32-correctly-rounded-divide-sqrt",
)  # fmt: skip
_DEVICE_ONLY = ("-x", "hip", "--cuda-device-only", "-nogpulib", "-nogpuinc", "-I.")
_OLDEST = 17  # the first clang that knows gfx942 and every built-in function of the headers
_NAMES = ("amdclang", "clang", *(f"clang-{version}" for version in range(24, _OLDEST - 1, -1)))
# What a compiler says that has no AMDGPU target, does not know the chip, or has no linker.
_UNABLE = re.compile(
    r"unsupported HIP gpu architecture|unknown target CPU|invalid target ID|No available targets"
    r"|unable to execute command|[Nn]o such file or directory.*lld|invalid linker"
    r"|unknown target triple|unsupported option|invalid value '\w+' in"
)
INSTALL = "install ROCm, clang with lld, or `pip install ziglang`, whose wheel has a clang"


@dataclass(frozen=True)
class Clang:
    """A clang driver.

    Attributes:
        command: how it is started.
        steps: whether it assembles and links HIP itself; the one of ``ziglang`` has three steps.
        linker: how the linker of ``ziglang`` is started.
        version: its major version, ``_OLDEST`` where it does not say.
    """

    command: tuple[str, ...]
    steps: bool = False
    linker: tuple[str, ...] = ()
    version: int = _OLDEST

    @property
    def identity(self) -> str:
        """Path, size and time of the file."""
        status = Path(self.command[0]).resolve().stat()
        return f"{self.command[0]} {status.st_size} {status.st_mtime_ns}"


Tool: TypeAlias = "Clang | Hiprtc"


@dataclass(frozen=True)
class KernelUse:
    """The resources of one kernel, as the compiler reports them.

    Attributes:
        registers: 32-bit vector registers of a lane; ``accumulators`` the additional ones of
            matrices; ``scalars`` registers of a wavefront.
        scratch: bytes of memory of a lane; ``spills`` of registers.
        shared: bytes of LDS that the text declares itself.
        waves: wavefronts that a SIMD unit can hold.
    """

    name: str
    registers: int = 0
    accumulators: int = 0
    scalars: int = 0
    scratch: int = 0
    spills: int = 0
    shared: int = 0
    waves: int = 0

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.registers} vector, {self.accumulators} accumulator, "
            f"{self.scalars} scalar registers, {self.spills} spilled, {self.scratch} bytes scratch"
            f", {self.waves} waves of a SIMD unit"
        )


@dataclass(frozen=True)
class CodeObject:
    """Machine code of one translation unit for one chip: an ELF image."""

    code: bytes
    log: str
    tool: str
    kernels: tuple[KernelUse, ...] = ()


def tools() -> Iterator[Tool]:
    """Compilers to try, best first."""
    rtc = find_hiprtc()
    if rtc is not None:
        yield rtc
    yield from (tool for tool in _clangs(env.get("PATH"), tuple(sys.path)) if not _is_too_old(tool))


def _is_too_old(tool: Clang) -> bool:
    return tool.version < _OLDEST


@lru_cache(maxsize=4)
def _clangs(path: str | None, packages: tuple[str, ...]) -> tuple[Clang, ...]:
    import shutil

    paths = [shutil.which(name, path=path) for name in _NAMES]
    paths.append(shutil.which("/opt/rocm/llvm/bin/clang"))
    clangs = [Clang((path,), version=_version(path)) for path in dict.fromkeys(filter(None, paths))]
    zig = find_spec("ziglang")
    if zig is not None and zig.origin is not None:
        file = shutil.which("zig", path=str(Path(zig.origin).parent))
        if file is not None:
            clangs.append(Clang((file, "clang"), True, (file, "ld.lld")))
    return tuple(clangs)


def _version(command: str) -> int:
    number = re.match(r"(\d+)\.\d", _run((command, "-dumpversion"), Path.cwd()))
    return int(number[1]) if number else _OLDEST


def compile_code(
    source: str, arch: str, flags: Sequence[str] = (), *, name: str = "kernel"
) -> CodeObject:
    """The code object of HIP source for ``arch``, e.g. "gfx942".

    Raises:
        CompileError: there is no compiler that knows the chip, or it refused the source.
    """
    unable = [
        f"{tool.command[0]}: version {tool.version}, which is older than {_OLDEST}"
        for tool in _clangs(env.get("PATH"), tuple(sys.path)) if _is_too_old(tool)
    ]  # fmt: skip
    for tool in tools():
        if isinstance(tool, Hiprtc):
            result = tool.compile(standalone(source), arch, (*FLAGS, *flags), {}, name)
        else:
            result = _by_clang(tool, source, arch, (*FLAGS, *flags), name)
        if isinstance(result, tuple):
            return CodeObject(*result, tool.identity, used(result[1]))
        if not _UNABLE.search(result):
            raise failed(f"the HIP compiler refused {name}", result)
        unable.append(f"{tool.identity.split()[0]}: {summary_of(result)}")
    raise CompileError(
        f"no compiler makes code for {arch}",
        expected=f"hipRTC, or a clang ({_OLDEST} or newer) with the AMDGPU target that knows the "
        "chip",
        got="; ".join(unable) or "none on this machine",
        hint=INSTALL,
    )


def assembly(source: str, arch: str, flags: Sequence[str] = ()) -> str:
    """The assembly text of HIP source."""
    last = ""
    for tool in tools():
        if isinstance(tool, Hiprtc):
            continue
        with ScratchFolder() as root:
            _write(root, source)
            log = _run(
                (*tool.command, *_DEVICE_ONLY, f"--offload-arch={arch}", *FLAGS, *flags, "-S",
                 "-o", "out.s", "kernel.hip"), root,
            )  # fmt: skip
            if (root / "out.s").is_file():
                return (root / "out.s").read_text(encoding="utf-8")
            last = log
    raise CompileError(
        f"no clang shows the assembly for {arch}", got=summary_of(last) or None, hint=INSTALL
    )


def identity() -> str:
    """Text that differs when :func:`compile_code` may produce other code."""
    return json.dumps([tool.identity for tool in tools()])


def _by_clang(
    tool: Clang, source: str, arch: str, flags: Sequence[str], name: str
) -> tuple[bytes, str] | str:
    """Code and what the compiler said, or why there is none."""
    with ScratchFolder() as root:
        _write(root, source)
        first = (*tool.command, *_DEVICE_ONLY, f"--offload-arch={arch}", *flags)
        if tool.steps:
            log = _run((*first, "-S", "-o", "out.s", "kernel.hip"), root)
            machine = ("-target", "amdgcn-amd-amdhsa", f"-mcpu={arch}")
            if (root / "out.s").is_file():
                log += _run((*tool.command, *machine, "-c", "-o", "out.o", "out.s"), root)
                log += _run((*tool.linker, "-shared", "-o", "out.co", "out.o"), root)
        else:
            more = ("-c", "--no-gpu-bundle-output", "-o", "out.co", "kernel.hip")
            log = _run((*first, *more), root)
        output = root / "out.co"
        return (output.read_bytes(), log) if output.is_file() else log


def _write(root: Path, source: str) -> None:
    for own, text in {**device_headers(), "kernel.hip": source}.items():
        (root / own).write_text(text, encoding="utf-8")


def _run(command: Sequence[str], folder: Path) -> str:
    """Start a command; gives what it said."""
    try:
        return run(command, folder)[1]
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"unable to execute command: {error}"


_FIGURES = {
    "VGPRs": "registers", "AGPRs": "accumulators", "SGPRs": "scalars", "TotalSGPRs": "scalars",
    "ScratchSize [bytes/lane]": "scratch", "VGPRs Spill": "spills",
    "LDS Size [bytes/block]": "shared", "Occupancy [waves/SIMD]": "waves",
}  # fmt: skip


def used(log: str) -> tuple[KernelUse, ...]:
    """The resources of kernels, from the compiler's remarks."""
    kernels: list[tuple[str, dict[str, int]]] = []
    for label, value in re.findall(r"remark: +([^:\n]+): (\S+) \[-Rpass", log):
        if label == "Function Name":
            kernels.append((value, {}))
        elif kernels and label in _FIGURES:
            kernels[-1][1][_FIGURES[label]] = int(value)
    return tuple(KernelUse(name, **figures) for name, figures in kernels)
