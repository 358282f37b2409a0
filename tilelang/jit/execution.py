"""How a kernel runs: generated C behind a launcher, or the interpreter.

``build`` turns a traced function into an :class:`Executable`. On the CPU the C text is compiled
to a shared library, looked up by content in the disk cache first. Where there is no C compiler the
interpreter serves, which is said once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilelang.env import KERNEL_CHECKS, env
from tilelang.errors import TileRuntimeError, TileUnsupportedError, TileValueError, shown
from tilelang.ir.stmt import PrimFunc
from tilelang.options import Options
from tilelang.target import Target

if TYPE_CHECKING:
    from tilelang.compiler import Artifact
    from tilelang.runtime.library import Library


# Names of runtimes that programs ask for; those of other implementations mean "auto" here.
BACKENDS = {
    "auto": "auto", "c": "c", "python": "python", "interpret": "interpret",
    "tvm_ffi": "auto", "cython": "auto", "ctypes": "auto", "dlpack": "auto", "nvrtc": "nvrtc",
    "torch": "auto", "cutedsl": "auto", "nvcc": "nvcc", "emulator": "emulator",
}  # fmt: skip


def check_backend(name: str | None) -> str:
    """The way to run that ``execution_backend`` names.

    Raises:
        TileValueError: an unknown name.
    """
    found = BACKENDS.get(name or "auto")
    if found is None:
        raise TileValueError(
            f"unknown execution_backend {shown(name)}",
            expected=", ".join(BACKENDS),
            got=shown(name),
        )
    return found


@dataclass(frozen=True)
class Executable:
    """A program that can be called.

    Attributes:
        call: takes the inputs, gives the results.
        backend: "c", "python" (C code without the C launcher), "emulator" or "interpret".
        artifact: the generated source; None for the interpreter.
        library: the loaded shared library, if there is one.
    """

    call: Callable[..., Any]
    backend: str
    func: PrimFunc
    artifact: Artifact | None = None
    library: Library | None = None

    @property
    def source(self) -> str:
        """Generated text, or the program itself for the interpreter."""
        return self.artifact.source if self.artifact is not None else self.func.script()

    def explain(self) -> str:
        """How the program is run, in words."""
        if self.artifact is None:
            return f"`{self.func.name}` runs in the interpreter"
        where = "as C on the CPU cores" if self.artifact.language == "c" else "on the GPU"
        return self.artifact.explain or f"`{self.func.name}` runs {where}"

    @property
    def resources(self) -> Any:
        """What a CUDA kernel needs; see :class:`tilelang.jit.cuda.Resources`."""
        raise TileUnsupportedError("resources needs a CUDA kernel")

    def text(self, which: str) -> str:
        """The "cuda", "ptx" or "sass" text of a CUDA kernel."""
        raise TileUnsupportedError(f"the {which} text needs a CUDA kernel")

    def export(self, path: str) -> None:
        """Write the shared library to ``path``."""
        if self.library is None:
            raise TileRuntimeError(
                "there is no library to export",
                expected="a compiled kernel",
                got=f"a kernel that runs by {self.backend!r}",
            )
        Path(path).write_bytes(self.library.data)


def build(
    func: PrimFunc, out_idx: tuple[int, ...], target: Target, options: Options, backend: str
) -> Executable:
    """An executable for ``func`` whose parameters ``out_idx`` are allocated and returned.

    Raises:
        TileError: the program cannot be compiled for the target.
    """
    if backend == "interpret":
        return _interpreted(func, out_idx, target, options)
    if backend == "emulator" or (target.kind == "cuda" and KERNEL_CHECKS in env.TILELANG_SANITIZE):
        from tilelang.jit import emulated

        return emulated.compiled(func, out_idx, target, options, backend)
    if target.kind == "cuda":
        from tilelang.jit import cuda

        return cuda.compiled(func, out_idx, target, options, backend)
    if target.kind != "cpu":
        raise TileUnsupportedError(
            f"no code generator for the target {target.kind!r} yet",
            expected='target="cpu" or target="cuda"',
            got=f"target={str(target)!r}",
            hint='the program can be run anywhere with execution_backend="interpret"',
        )
    from tilelang.cpu.toolchain import find_compiler
    from tilelang.runtime.cache import default_cache

    compiler = find_compiler(default_cache())
    if compiler is None:  # find_compiler has said so
        return _interpreted(func, out_idx, target, options)
    from tilelang.jit.native import compiled

    return compiled(func, out_idx, target, options, backend, compiler)


def _interpreted(
    func: PrimFunc, out_idx: tuple[int, ...], target: Target, options: Options
) -> Executable:
    from tilelang.compiler import as_run
    from tilelang.interpret import run
    from tilelang.runtime.contract import launch_spec
    from tilelang.runtime.pylauncher import ArrayLauncher

    spec = launch_spec(func, out_idx, device="cpu", returns=results_form(func, out_idx))
    decided = as_run(func, target)

    def call(arrays: list[Any]) -> None:
        run(
            decided,
            arrays,
            safe_memory=not options.unsafe_memory,
            uninitialized=options.uninitialized,
        )

    return Executable(ArrayLauncher(spec, call), "interpret", func)


def results_form(func: PrimFunc, out_idx: tuple[int, ...]) -> str:
    """How results are returned: as the program returns them, else by their number."""
    if func.attr("returns_list", False):
        return "list"
    return ("none", "one")[len(out_idx)] if len(out_idx) < 2 else "list"
