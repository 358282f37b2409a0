"""Compile CUDA source to machine code; parse what ptxas reports: registers, register spills.

:func:`compile_cubin` uses NVRTC, or ``nvcc`` if that is requested or nothing else is installed. It
needs no GPU. The assembler's report becomes :class:`KernelResources` per kernel and plain warnings.
If compilation fails, one :class:`CompileError` shows the compiler's lines and where the source is.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from tilelang.cuda.advice import sentence
from tilelang.cuda.compile_report import refused
from tilelang.cuda.nvrtc import Nvrtc, candidates, find_nvrtc
from tilelang.cuda.search_paths import executable
from tilelang.env import env
from tilelang.errors import CompileError, TileUnsupportedError, check_choice
from tilelang.hostcc import run, versions_of
from tilelang.records import dataclass
from tilelang.scratch import ScratchFolder
from tilelang.target.device import cuda_driver_version

INCLUDE_DIR = Path(__file__).resolve().parent / "include"
TOOLS = ("auto", "nvrtc", "nvcc")
MODEST = "--ptxas-options=-O2"  # the assembler's level for kernels that gain nothing by more
RECOMPUTED = "-DTL_SAVE_REGISTERS"  # descriptors of products are computed where they are used
# What is tried where registers spill. At its usual levels the assembler moves loads far ahead.
FEWER_REGISTERS = (RECOMPUTED, "--ptxas-options=-O1")


@dataclass(frozen=True)
class KernelResources:
    """The resources of one kernel per thread and block, as the assembler reports them.

    Attributes:
        registers: 32-bit registers of a thread.
        shared: bytes of shared memory of a block, the dynamic part included once it is known.
        stack: bytes of the local-memory frame of a thread.
        spill_stores, spill_loads: bytes moved because registers ran out.
        constant: bytes of constant memory, parameters included.
        barriers: named barriers of a block.
        occupancy: share of the multiprocessor's threads that can be resident; None: not known.
    """

    name: str
    registers: int = 0
    shared: int = 0
    stack: int = 0
    spill_stores: int = 0
    spill_loads: int = 0
    constant: int = 0
    barriers: int = 0
    occupancy: float | None = None

    @property
    def spills(self) -> int:
        """Bytes of spill stores and loads together; 0 without spills."""
        return self.spill_stores + self.spill_loads

    def __str__(self) -> str:
        text = f"{self.name}: {self.registers} registers, {self.shared} bytes shared"
        text += f", {self.spills} bytes spilled" if self.spills else ", no spills"
        if self.stack:
            text += f", {self.stack} bytes stack"
        if self.occupancy is not None:
            text += f", occupancy {self.occupancy:.0%}"
        return text


@dataclass(frozen=True)
class CompileResult:
    """Machine code of one translation unit.

    Attributes:
        cubin: ELF image for one architecture.
        ptx: the assembly text; None when the tool did not give it.
        log: everything the compiler wrote.
        resources: one per kernel, in the order of their names.
        warnings: what the assembler said that costs speed, as sentences.
        tool: identity of the compiler.
    """

    cubin: bytes
    ptx: str | None
    log: str
    resources: tuple[KernelResources, ...] = ()
    warnings: tuple[str, ...] = ()
    tool: str = ""


def compile_cubin(
    source: str, arch: str, flags: Sequence[str] = (), *, headers: Mapping[str, str] | None = None,
    name: str = "kernel", tool: str = "auto",
) -> CompileResult:  # fmt: skip
    """Machine code for ``arch`` from CUDA source.

    Args:
        source: one translation unit. It may include our headers by their names.
        arch: e.g. "sm_80" or "sm_90a".
        flags: further compiler flags, in the spelling of nvcc or NVRTC; those that mean nothing
            here (``-O3``, host compiler options) are left out.
        headers: further headers in memory, name -> text.
        name: of the kernel, for messages and files.
        tool: "nvrtc", "nvcc", or "auto" for the first that exists.

    Raises:
        CompileError: no compiler, or it refused the source; ``log`` holds its output.
        TileUnsupportedError: the compiler does not know ``arch``.
    """
    texts = {**device_headers(), **(headers or {})}
    compiler = find_tool(arch, tool)
    if isinstance(compiler, Nvrtc):
        return _with_nvrtc(compiler, source, arch, flags, texts, name)
    return _with_nvcc(compiler, source, arch, flags, texts, name)


def compilers_identity(tool: str = "auto") -> str:
    """Text that differs when :func:`compile_cubin` may produce other code.

    It names the compilers by path, size and time without loading one, so that a process that only
    uses cached code never does.
    """
    driver = cuda_driver_version()
    if tool == "nvcc":
        files = [find_nvcc() or ""]
    else:
        files = list(candidates(env.CUDA_HOME, env.get("PATH") or "", sys.path))
        if not any(os.sep in file for file in files):
            files.append(find_nvcc() or "")
    return json.dumps([tool, driver, *map(_stamp, files)])


def _stamp(file: str) -> str:
    try:
        status = os.stat(file)
    except OSError:  # a name for the system's loader
        return file
    return f"{file} {status.st_size} {status.st_mtime_ns}"


@lru_cache(maxsize=1)
def device_headers() -> dict[str, str]:
    """Our device headers, name -> text: part of what generated code means."""
    return {file.name: file.read_text(encoding="utf-8") for file in sorted(INCLUDE_DIR.glob("*.h"))}


def find_tool(arch: str, tool: str = "auto") -> Nvrtc | str:
    """The compiler to use: an NVRTC, or the path of ``nvcc``.

    Raises:
        CompileError: there is none.
        TileUnsupportedError: there is one that does not know ``arch``.
    """
    check_choice(tool, TOOLS, "unknown CUDA compiler")
    nvrtc = find_nvrtc(arch) if tool != "nvcc" else None
    if nvrtc is not None and not nvrtc.supports(arch):
        raise TileUnsupportedError(
            f"the CUDA compiler does not know the architecture {arch}",
            expected=", ".join(f"sm_{number}" for number in nvrtc.archs),
            got=f"{arch} with NVRTC {nvrtc.version[0]}.{nvrtc.version[1]} ({nvrtc.path})",
            hint="install another release of nvidia-cuda-nvrtc",
        )
    compiler = nvrtc or (find_nvcc() if tool != "nvrtc" else None)
    if compiler is not None:
        return compiler
    tools = {"auto": "NVRTC or nvcc", "nvrtc": "NVRTC", "nvcc": "nvcc"}[tool]
    raise CompileError(
        "no CUDA compiler was found",
        expected=f"{tools} in a pip package, CUDA_HOME, /usr/local/cuda or on the search path",
        hint='install a CUDA toolkit, or leave the choice to "auto"'
        if tool == "nvcc"
        else "pip install nvidia-cuda-nvrtc",
    )


def kernel_flags(flags: Sequence[str]) -> tuple[str, ...]:
    """``flags`` in the spelling that NVRTC and nvcc share; what means nothing here is left out."""
    spelled: list[str] = []
    remaining = list(flags)
    while remaining:
        flag = remaining.pop(0)
        if flag in _WITH_VALUE:
            value = remaining.pop(0) if remaining else ""
            spelled += [_WITH_VALUE[flag].format(value)] if _WITH_VALUE[flag] and value else []
            continue
        spelled += [_SPELLING.get(flag, flag)] if _DEVICE_FLAG.match(flag) else []
    return tuple(word for flag in spelled for word in _split_values(flag))


def included_files(flags: Sequence[str]) -> tuple[str, ...]:
    """Texts of the files that ``flags`` of the program put in front of a source."""
    known = kernel_flags(flags)
    names = [flag.removeprefix(BEFORE) for flag in known if flag.startswith(BEFORE)]
    folders = ["", *(flag.removeprefix("-I") for flag in known if flag.startswith("-I"))]
    files = [
        [file for folder in folders if (file := Path(folder, name)).is_file()] for name in names
    ]
    return tuple(file[0].read_text(encoding="utf-8", errors="replace") for file in files if file)


def _split_values(flag: str) -> list[str]:
    """A list of options for ptxas, which nvcc splits at commas and NVRTC does not, as one flag
    for each."""
    name, equals, value = flag.partition("=")
    if name != "--ptxas-options":
        return [flag]
    return [f"{name}{equals}{part}" for part in value.split(",") if part]


BEFORE = "--pre-include="
# Flags followed by a word -> the one-word form; "" drops both.
_WITH_VALUE = {
    "-D": "-D{}", "-U": "-U{}", "-I": "-I{}", "--define-macro": "-D{}",
    "-include": "--pre-include={}", "--pre-include": "--pre-include={}",
    "-Xptxas": "--ptxas-options={}", "--ptxas-options": "--ptxas-options={}",
    "-maxrregcount": "--maxrregcount={}", "--maxrregcount": "--maxrregcount={}",
    "-Xcompiler": "", "--compiler-options": "", "-ccbin": "", "-gencode": "", "-arch": "",
    "-Xlinker": "", "-o": "", "-L": "", "-l": "", "-x": "", "-std": "", "-code": "",
}  # fmt: skip
_SPELLING = {"-use_fast_math": "--use_fast_math", "-lineinfo": "--generate-line-info"}
_DEVICE_FLAG = re.compile(
    r"-D\w|-U\w|-I.|--define-macro=|--pre-include=|-?-use_fast_math|-?-lineinfo|--generate-line-info|-w$"
    r"|--(maxrregcount|ptxas-options|ftz|prec-div|prec-sqrt|fmad|Ofast-compile)="
    r"|--(device-int128|extra-device-vectorization|minimal|restrict|disable-warnings)$"
)


# -- NVRTC -----------------------------------------------------------------------------------------
def _with_nvrtc(
    nvrtc: Nvrtc, source: str, arch: str, flags: Sequence[str], headers: Mapping[str, str],
    name: str,
) -> CompileResult:  # fmt: skip
    headers = {**_STANDARD, **headers}
    used = {text: headers[text] for text in _included([source, *included_files(flags)], headers)}
    options = [f"--gpu-architecture={arch}", "--std=c++17", "--ptxas-options=-v", *nvrtc.no_cache]
    options += kernel_flags(flags)
    minimal = () if _FULL.search(source) else nvrtc.minimal

    def attempt(options: Sequence[str]) -> CompileResult:
        result = nvrtc.compile(source, f"{name}.cu", used, [*options, *minimal])
        if (result.error or not result.cubin) and minimal:
            result = nvrtc.compile(source, f"{name}.cu", used, options)
        if result.error or not result.cubin:
            raise refused(name, source, result.log or result.error, used, nvrtc.identity)
        resources, warnings = parse_log(result.log)
        ptx = result.ptx.decode(errors="replace") or None
        return CompileResult(result.cubin, ptx, result.log, resources, warnings, nvrtc.identity)

    result = attempt(options)
    free = [option for option in options if option != MODEST]
    if any(_LEVEL.match(option) for option in free):
        return result
    for more in FEWER_REGISTERS:
        if _spilled(result) and (more != RECOMPUTED or "TL_WGMMA(" in source):
            result = min(result, attempt([*free, more]), key=_spilled)
    return result


# Flags by which the program itself says how registers are to be used.
_LEVEL = re.compile(r"--ptxas-options=-?-(O\d|opt-level|maxrregcount|register)|--maxrregcount")
# What compilers of hosts have and NVRTC has not, for sources of programs.
_STANDARD = dict.fromkeys(
    ("cstdint", "stdint.h"), '#include "tl_types.h"\n#define __builtin_memcpy memcpy\n'
)
# What NVRTC leaves out with `--minimal`, which saves a third of what an empty kernel takes.
_FULL = re.compile(r"\bcuda[A-Z]|\btex[123CL(]|\bsurf[123C(]|<<<")


def _spilled(result: CompileResult) -> int:
    return sum(kernel.spills for kernel in result.resources)


def _included(texts: list[str], headers: Mapping[str, str]) -> list[str]:
    """Names of the headers that ``texts`` include, directly or not."""
    included: dict[str, None] = {}
    while texts:
        for name in re.findall(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', texts.pop(), re.M):
            if name in headers and name not in included:
                included[name] = None
                texts.append(headers[name])
    return list(included)


# -- nvcc ------------------------------------------------------------------------------------------
def find_nvcc() -> str | None:
    """The ``nvcc`` of a toolkit, on the search path, or of packages that Python can import."""
    return executable("nvcc")


@lru_cache(maxsize=8)
def _nvcc_version(command: str) -> str:
    version = re.search(r"V(\d+(?:\.\d+)+)", versions_of([command]))
    return f"nvcc {version[1] if version else command}"


def _with_nvcc(
    command: str, source: str, arch: str, flags: Sequence[str], headers: Mapping[str, str],
    name: str,
) -> CompileResult:  # fmt: skip
    import subprocess

    with ScratchFolder() as root:
        for own, text in {**headers, f"{name}.cu": source}.items():
            (root / own).write_text(text, encoding="utf-8")
        arguments = [command, "-cubin", f"-arch={arch}", "-std=c++17", "--ptxas-options=-v", "-I."]
        arguments += [*kernel_flags(flags), "--keep", "-o", "out.cubin", f"{name}.cu"]
        try:
            code, log = run(arguments, root)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CompileError(f"nvcc cannot be run: {error}", got=command) from error
        log = log.strip()
        output = root / "out.cubin"
        if code or not output.is_file():
            if "Unsupported gpu architecture" in log or "not defined for option" in log:
                raise TileUnsupportedError(
                    f"the CUDA compiler does not know the architecture {arch}", got=log[:200]
                )
            raise refused(name, source, log, headers, _nvcc_version(command))
        resources, warnings = parse_log(log)
        file = next(iter(sorted(root.glob("*.ptx"))), None)
        ptx = None if file is None else file.read_text(encoding="utf-8", errors="replace")
        cubin = output.read_bytes()
    return CompileResult(cubin, ptx, log, resources, warnings, _nvcc_version(command))


# -- what compilers say ----------------------------------------------------------------------------
def parse_log(log: str) -> tuple[tuple[KernelResources, ...], tuple[str, ...]]:
    """Resources per kernel, by name, and warnings, from the report of ``ptxas -v``."""
    kernels: dict[str, KernelResources] = {}
    warnings: dict[str, None] = {}
    current = ""
    for line in log.splitlines():
        entry = re.search(r"Compiling entry function '([^']+)'", line)
        if entry:
            current = entry[1]
            kernels[current] = KernelResources(current)
            continue
        finding = sentence(line, current)
        if finding is not None:
            warnings[finding] = None
        if current:
            kernels[current] = _read_line(kernels[current], line)
    for kernel in kernels.values():
        if kernel.spills:
            warnings[
                f"{kernel.name}: {kernel.spill_stores} bytes of registers are spilled to memory "
                f"and {kernel.spill_loads} loaded back ({kernel.registers} registers per thread)"
            ] = None
    return tuple(sorted(kernels.values(), key=lambda kernel: kernel.name)), tuple(warnings)


# Field -> how the assembler writes it.
_FIGURES = {
    "stack": r"(\d+) bytes stack frame", "spill_stores": r"(\d+) bytes spill stores",
    "spill_loads": r"(\d+) bytes spill loads", "registers": r"Used (\d+) registers",
    "barriers": r"used (\d+) barriers", "shared": r"(\d+) bytes smem",
    "constant": r"(\d+) bytes cmem\[0\]",
}  # fmt: skip


def _read_line(kernel: KernelResources, line: str) -> KernelResources:
    values = {
        name: int(match[1])
        for name, pattern in _FIGURES.items()
        if (match := re.search(pattern, line)) is not None
    }
    return replace(kernel, **values) if values else kernel  # type: ignore[arg-type]  # ints by name
