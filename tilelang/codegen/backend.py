"""Back ends: one frozen row for each, with all that the compiler knows of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from tilelang.codegen.artifact import Artifact
from tilelang.ir.stmt import PrimFunc
from tilelang.records import dataclass
from tilelang.target import Context, Target

if TYPE_CHECKING:
    from tilelang.codegen.prototype import Prototype
    from tilelang.options import Options
    from tilelang.runtime.executable import Executable
    from tilelang.runtime.library import Library
    from tilelang.runtime.signature import LaunchSpec

Limits = tuple[tuple[str, int], ...]  # (parameter, bytes) of tensors aligned less than vectors


@dataclass(frozen=True)
class Program:
    """A program to make executable, besides its source.

    Attributes:
        func: the program.
        out_idx: parameters that are results.
        target: with an architecture.
        options: of the compilation.
        backend: how it is run, as ``execution_backend`` says.
        narrow: compiles the kernel for tensors with less alignment, or for tensors that share
            memory; None if this program is that kernel.
        report: the choices of the compiler, as text.
    """

    func: PrimFunc
    out_idx: tuple[int, ...]
    target: Target
    options: Options
    backend: str = "auto"
    narrow: Callable[[Limits, bool], Callable[..., Any]] | None = None
    report: Callable[[], str] = str


@dataclass(frozen=True)
class Part:
    """A program compiled for one machine, in an exported library.

    Attributes:
        artifact: the generated source.
        image: machine code and the compiler's report, for a GPU.
    """

    target: Target
    artifact: Artifact
    image: Any = None


@dataclass(frozen=True)
class Exporter:
    """Ahead-of-time export of kernels for programs without Python.

    Attributes:
        parts: compiles a program for each of the named architectures; takes a function from a
            target to source.
        source: one file of C that holds the parts and needs nothing else to compile.
        flags: of the C compiler for that file.
        link: a shared library of such files, name -> text and flags; the second argument is the
            library's name, the third names the machine that it is for, as ``-march=`` does.
        load: returns the callable for a symbol of a loaded library.
        stream: whether functions take a stream.
    """

    parts: Callable[[Program, Callable[[Target], Artifact], Sequence[str]], tuple[Part, ...]]
    source: Callable[[Prototype, Program, Sequence[Part]], str]
    flags: Callable[[Sequence[Part]], tuple[str, ...]]
    link: Callable[[Mapping[str, tuple[str, tuple[str, ...]]], str, str], bytes]
    load: Callable[[Program, Sequence[Part], Library, str], Executable]
    stream: bool


@dataclass(frozen=True)
class XlaInterface:
    """Calls of kernels by XLA.

    Attributes:
        platform: of XLA, which its kernels run on.
        handler: C source that precedes ``runtime/_xla.c``.
        program: a kernel as that text declares it; gets the kernel, its target and its contract.
            None for a kernel that runs another way.
    """

    platform: str
    handler: Callable[[], str]
    program: Callable[[Executable, Target, LaunchSpec], XlaProgram | None]


@dataclass(frozen=True)
class XlaProgram:
    """A kernel for the handler of XLA's calls.

    Attributes:
        struct: a structure of ``ctypes``, the ``Program`` of the handler.
        alone: whether its calls cannot be recorded in a graph.
        keep_alive: what the structure points to.
    """

    struct: Any
    alone: bool = False
    keep_alive: Any = None


def _no_preparation(program: Program) -> None:
    """For back ends whose toolchain is ready at once."""


def _is_always_ready() -> bool:
    """For back ends that need nothing of the machine before a kernel is called."""
    return True


@dataclass(frozen=True)
class Backend:
    """A back end. Its row is imported for every kernel. The modules ``executable``, ``standalone``,
    ``aot_export`` and ``xla_ffi`` in its folder are imported only when they are needed.

    Attributes:
        kind: of the targets that it generates code for, e.g. "cuda".
        language: name of the generated language, e.g. "CUDA".
        emit: the source of a lowered program, with the data to compile and call it.
        ready: whether this machine has the toolchain; without it, programs are interpreted.
        ahead: starts the toolchain while the passes run; called if a source is not in the cache.
        keeps_text: whether the disk cache stores the source under the traced program.
        emulated: whether the emulator runs the source.
        texts: names of the stages of its machine code that kernels can show.
        exported: whether kernels become libraries for other languages.
        called_by_xla: whether programs of XLA call kernels.
    """

    kind: str
    language: str
    emit: Callable[[PrimFunc, Context], Artifact]
    ready: Callable[[], bool] = _is_always_ready
    ahead: Callable[[Program], None] = _no_preparation
    keeps_text: bool = False
    emulated: bool = False
    texts: tuple[str, ...] = ()
    exported: bool = False
    called_by_xla: bool = False

    def _part(self, module: str) -> Any:
        return import_module(f"tilelang.{self.kind}.{module}")

    def executable(self, program: Program, artifact: Artifact) -> Executable:
        """The callable for a source; compiles it, or loads it from the disk cache."""
        return cast("Executable", self._part("executable").executable(program, artifact))

    def standalone(self, source: str) -> str:
        """``source`` with the headers of the back end in place of their includes, for compilers
        that also see host code."""
        return str(self._part("standalone").standalone(source))

    def exporter(self) -> Exporter | None:
        """The exporter of kernels as libraries for other languages; None if there is none."""
        return cast("Exporter", self._part("aot_export").EXPORTER) if self.exported else None

    def xla_interface(self) -> XlaInterface | None:
        """The interface by which XLA programs call kernels; None if there is none."""
        return cast("XlaInterface", self._part("xla_ffi").XLA) if self.called_by_xla else None
