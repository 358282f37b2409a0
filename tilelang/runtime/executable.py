"""Executables: callable programs, which are compiled, emulated or interpreted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tilelang.errors import TileRuntimeError, TileUnsupportedError
from tilelang.ir.stmt import PrimFunc
from tilelang.records import dataclass

if TYPE_CHECKING:
    from tilelang.codegen.artifact import Artifact
    from tilelang.runtime.library import Library


@dataclass(frozen=True)
class Executable:
    """A program that can be called.

    Attributes:
        call: takes the inputs, gives the results.
        backend: "c", "python" (C code without the C launcher), "emulator" or "interpret".
        artifact: the generated source; None for the interpreter.
        library: the loaded shared library, if there is one.
    """

    device: ClassVar[str | None] = None  # of its tensors, as torch names it; None: host memory
    call: Callable[..., Any]
    backend: str
    func: PrimFunc
    artifact: Artifact | None = None
    library: Library | None = None

    @property
    def final_backend(self) -> str:
        """``backend``; for a GPU kernel after it has waited for the C launcher."""
        return self.backend

    @property
    def source(self) -> str:
        """The generated source, or the program itself for the interpreter."""
        return self.artifact.source if self.artifact is not None else self.func.script()

    def explain(self) -> str:
        """A description of how the program runs."""
        if self.artifact is None:
            return f"`{self.func.name}` runs in the interpreter"
        where = "as C on the CPU cores" if self.artifact.language == "c" else "on the GPU"
        return self.artifact.explain or f"`{self.func.name}` runs {where}"

    @property
    def resources(self) -> Any:
        """The resources of a CUDA kernel; see :class:`tilelang.cuda.executable.Resources`."""
        raise TileUnsupportedError("resources needs a CUDA kernel")

    def text(self, kind: str) -> str:
        """The "cuda", "ptx" or "sass" text of a CUDA kernel."""
        raise TileUnsupportedError(f"the {kind} text needs a CUDA kernel")

    def export(self, path: str) -> None:
        """Write the shared library to ``path``."""
        if self.library is None:
            raise TileRuntimeError(
                "there is no library to export",
                expected="a compiled kernel",
                got=f"a kernel that runs by {self.backend!r}",
            )
        Path(path).write_bytes(self.library.data)
