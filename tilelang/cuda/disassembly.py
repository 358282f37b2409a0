"""Machine code as text, by NVIDIA's own disassemblers where one is installed."""

from __future__ import annotations

from tilelang.cuda.search_paths import executable
from tilelang.errors import CompileError, TileUnsupportedError
from tilelang.scratch import ScratchFolder

# Tool and its words before the file.
_TOOLS = (("nvdisasm", ("--print-code",)), ("cuobjdump", ("--dump-sass",)))
_TIMEOUT = 120.0  # seconds


def disassemble(cubin: bytes) -> str:
    """The SASS text of a cubin.

    Raises:
        TileUnsupportedError: no disassembler is installed.
        CompileError: it does not understand the image.
    """
    import subprocess

    tools = ((executable(name), options) for name, options in _TOOLS)
    command = next(((tool, *options) for tool, options in tools if tool is not None), None)
    if command is None:
        raise TileUnsupportedError(
            "no disassembler was found",
            expected="nvdisasm or cuobjdump of a CUDA toolkit, or of the triton package",
            hint="install a CUDA toolkit; the PTX text needs no tool",
        )
    with ScratchFolder() as folder:
        file = folder / "kernel.cubin"
        file.write_bytes(cubin)
        try:
            process = subprocess.run(
                [*command, str(file)], capture_output=True, timeout=_TIMEOUT, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CompileError("the disassembler cannot be run", got=str(error)) from error
    if process.returncode:
        raise CompileError(
            "the disassembler refused the machine code",
            got=process.stderr.decode(errors="replace").strip()[:400] or None,
        )
    return process.stdout.decode(errors="replace")
