"""Features of a CUDA target, by its compute version."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tilelang import errors
from tilelang.errors import CompileError, TileRuntimeError, TileValueError
from tilelang.target import parse_target


def parse_compute_version(version: str | tuple[int, int]) -> tuple[int, int]:
    """``"9.0"`` as ``(9, 0)``; a pair is given back.

    Raises:
        TileValueError: the text is not "major.minor".
    """
    if isinstance(version, tuple) and len(version) == 2:
        return int(version[0]), int(version[1])
    match = re.fullmatch(r"(\d+)\.(\d+)", str(version))
    if match is None:
        raise TileValueError(
            f"{version!r} is not a compute version", expected='"major.minor", such as "9.0"'
        )
    return int(match[1]), int(match[2])


def get_target_compute_version(target: Any = None) -> str:
    """The compute version of a CUDA target, e.g. "9.0".

    Raises:
        TileRuntimeError: the target is not a CUDA target, or its architecture is not known.
    """
    parsed = parse_target(target)
    if parsed.compute is None:
        raise TileRuntimeError(
            "the compute version is not known",
            expected="a CUDA target with an architecture",
            got=str(parsed),
            hint='name it, e.g. "cuda -arch=sm_90"',
        )
    return f"{parsed.compute[0]}.{parsed.compute[1]}"


def have_bf16(compute_version: str) -> bool:
    """Whether the architecture has bfloat16 arithmetic (8.0 and later)."""
    return parse_compute_version(compute_version) >= (8, 0)


def have_fp8(compute_version: str) -> bool:
    """Whether the architecture has 8-bit floats (8.9 and later)."""
    return parse_compute_version(compute_version) >= (8, 9)


def have_tma(target: Any) -> bool:
    """Whether the target has the tensor memory accelerator (9.0 and later)."""
    return parse_compute_version(get_target_compute_version(target)) >= (9, 0)


def have_mbarrier(target: Any) -> bool:
    """Whether the target has barriers that count bytes (9.0 and later)."""
    return have_tma(target)


def have_pdl(target: Any) -> bool:
    """Whether a launch may overlap the end of the one before (9.0 and later)."""
    return have_tma(target)


def is_hopper(target: Any) -> bool:
    """Whether the target is of the family 9.0."""
    return parse_compute_version(get_target_compute_version(target)) == (9, 0)


def have_fp16(compute_version: str) -> bool:
    """Whether the architecture has float16 arithmetic (5.3, and 6.0 and later)."""
    version = parse_compute_version(compute_version)
    return version == (5, 3) or version >= (6, 0)


def have_int8(compute_version: str) -> bool:
    """Whether the architecture has products of four bytes in one instruction (6.1 and later)."""
    return parse_compute_version(compute_version) >= (6, 1)


def have_tensorcore(compute_version: str | None = None, target: Any = None) -> bool:
    """Whether there are matrix instructions (7.0 and later)."""
    return parse_compute_version(compute_version or get_target_compute_version(target)) >= (7, 0)


def have_cudagraph() -> bool:
    """Whether launches can be captured into graphs: always, with the drivers that this uses."""
    return True


# -- the toolkit -----------------------------------------------------------------------------------
def find_cuda_path() -> str:
    """The folder of the CUDA toolkit.

    Raises:
        TileRuntimeError: there is none.
    """
    from pathlib import Path

    from tilelang.cuda.toolchain import find_nvcc

    nvcc = find_nvcc()
    if nvcc is None:
        raise TileRuntimeError(
            "no CUDA toolkit was found",
            expected="nvcc in CUDA_HOME, /usr/local/cuda or on the search path",
            hint="compiling kernels needs no toolkit: pip install nvidia-cuda-nvrtc brings NVRTC",
        )
    return str(Path(nvcc).resolve().parents[1])


def get_nvcc_compiler() -> str:
    """The path of nvcc.

    Raises:
        TileRuntimeError: there is no toolkit.
    """
    return f"{find_cuda_path()}/bin/nvcc"


def get_cuda_version(cuda_path: str | None = None) -> tuple[int, int]:
    """Major and minor version of the toolkit in ``cuda_path``, or of the one that is found.

    Raises:
        TileRuntimeError: no toolkit, or it does not say.
    """
    import subprocess

    command = f"{cuda_path or find_cuda_path()}/bin/nvcc"
    try:
        process = subprocess.run([command, "--version"], capture_output=True, check=False)
    except OSError as error:
        raise TileRuntimeError("nvcc cannot be run", got=str(error)) from error
    match = re.search(r"V(\d+)\.(\d+)", process.stdout.decode(errors="replace"))
    if match is None:
        raise TileRuntimeError("nvcc does not print its version", got=command)
    return int(match[1]), int(match[2])


def get_target_arch(compute_version: str | tuple[int, int]) -> str:
    """The number of an architecture as nvcc writes it: "90a" for 9.0, "80" for 8.0.

    From 9.0 on with the ``a`` of code for exactly that chip.
    """
    major, minor = parse_compute_version(compute_version)
    return f"{major}{minor}" + ("a" if major >= 9 else "")


def architecture(arch: Any = None) -> str:
    """``"sm_90a"`` for what programs pass as architecture: 90, "90a", "sm_90a", or None for that of
    the machine's GPU."""
    if arch is None:
        return f"sm_{get_target_arch(get_target_compute_version())}"
    text = str(arch)
    return text if text.startswith("sm_") else f"sm_{text}"


def compile_cuda(
    code: str, target_format: str = "ptx", arch: Any = None,
    options: str | Sequence[str] | None = None, path_target: str | None = None,
    verbose: bool = False, *, tool: str = "auto",
) -> bytes:  # fmt: skip
    """CUDA C++ compiled for one architecture.

    Args:
        code: one translation unit. It may include this package's device headers.
        target_format: "ptx" or "cubin".
        arch: 90, "90a" or "sm_90a"; that of the machine's GPU when left out.
        options: more options, in the spelling of nvcc or NVRTC.
        path_target: also write the result to this file.
        verbose: print the output of the compiler.
        tool: "nvrtc", "nvcc" or "auto" for the first that exists.

    Raises:
        CompileError: no compiler, or it refuses the text; ``log`` says why.
        TileValueError: another format.
    """
    from pathlib import Path

    from tilelang.cuda.toolchain import compile_cubin

    unknown = "unknown output format of a CUDA compilation"
    errors.check_choice(target_format, ("ptx", "cubin"), unknown, '"ptx" or "cubin"')
    flags = [options] if isinstance(options, str) else list(options or ())
    compiled = compile_cubin(code, architecture(arch), flags, tool=tool)
    if verbose and compiled.log:
        print(compiled.log)
    data = compiled.cubin if target_format == "cubin" else (compiled.ptx or "").encode()
    if not data:
        raise CompileError(f"the compiler gave no {target_format}", got=compiled.tool)
    if path_target is not None:
        with errors.writing(Path(path_target)):
            Path(path_target).write_bytes(data)
    return data
