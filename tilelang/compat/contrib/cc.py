"""The C compiler that kernels are built with, under an import path that programs use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tilelang.absent import absent_names
from tilelang.cpu.toolchain import find_compiler
from tilelang.errors import CompileError

__all__ = ["create_shared", "cross_compiler", "get_cc"]

__getattr__ = absent_names("tilelang.contrib.cc")


def get_cc() -> str | None:
    """The command of the C compiler that kernels are built with; None when there is none."""
    compiler = find_compiler(quiet=True)
    return None if compiler is None else " ".join(compiler.command)


def create_shared(
    output: str, objects: str | Sequence[str], options: Sequence[str] | None = None,
    cc: str | None = None, cwd: str | None = None,
) -> None:  # fmt: skip
    """Link or compile files into a shared library.

    Args:
        output: the library to write.
        objects: object or source files.
        options: more options of the compiler.
        cc: the compiler; by default that of :func:`get_cc`.
        cwd: directory that the names are relative to.

    Raises:
        CompileError: there is no compiler, or it fails; ``log`` holds what it said.
    """
    import subprocess

    command = cc or get_cc()
    if command is None:
        raise CompileError("no C compiler was found", hint="install one, or name it in CC")
    files = [objects] if isinstance(objects, str) else list(objects)
    arguments = [*command.split(), "-shared", "-fPIC", "-o", output, *files, *(options or ())]
    try:
        process = subprocess.run(
            arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            cwd=cwd, check=False,
        )  # fmt: skip
    except OSError as error:
        raise CompileError(f"{arguments[0]} cannot be started", got=str(error)) from error
    if process.returncode:
        log = process.stdout.decode(errors="replace")
        failure = CompileError("the library cannot be built", got=log.strip().split("\n")[0])
        failure.log = log
        raise failure


def cross_compiler(
    compile_func: str | Callable[..., Any],
    options: Sequence[str] | None = None,
    output_format: str = "so",
    get_target_triple: Callable[[], str] | None = None,
    add_files: Sequence[str] | None = None,
) -> Callable[..., Any]:
    """A function ``(output, objects, options=None)`` like :func:`create_shared` with settings.

    Args:
        compile_func: the compiler, or a function called like :func:`create_shared`.
        options: always passed, before those of a call.
        output_format: ending of the output; kept as attribute ``output_format``.
        get_target_triple: kept as attribute of the function.
        add_files: always compiled too.
    """

    def build(
        output: str, objects: str | Sequence[str], options: Sequence[str] | None = None
    ) -> None:
        files = [*([objects] if isinstance(objects, str) else objects), *(add_files or ())]
        flags = [*fixed, *(options or ())]
        if callable(compile_func):
            compile_func(output, files, options=flags)
        else:
            create_shared(str(Path(output)), files, flags, cc=compile_func)

    fixed = tuple(options or ())
    build.output_format = output_format  # type: ignore[attr-defined]  # as programs read it
    build.get_target_triple = get_target_triple  # type: ignore[attr-defined]  # likewise
    return build
