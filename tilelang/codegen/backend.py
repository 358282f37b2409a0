"""What the compiler has to know of a back end: one frozen row for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilelang.codegen.artifact import Artifact
from tilelang.ir.stmt import PrimFunc
from tilelang.target import Context, Target

if TYPE_CHECKING:
    from tilelang.options import Options
    from tilelang.passes.step import Step
    from tilelang.runtime.executable import Executable

Limits = tuple[tuple[str, int], ...]  # (parameter, bytes) of tensors aligned less than vectors


@dataclass(frozen=True)
class Program:
    """What is made executable, besides its text.

    Attributes:
        func: the program.
        out_idx: parameters that are results.
        target: with an architecture.
        options: of the compilation.
        way: how it is run, as ``execution_backend`` says.
        narrow: makes what is called for tensors that are aligned less; None when that is asked.
        report: what the compiler chose, as text.
    """

    func: PrimFunc
    out_idx: tuple[int, ...]
    target: Target
    options: Options
    way: str = "auto"
    narrow: Callable[[Limits], Callable[..., Any]] | None = None
    report: Callable[[], str] = str


def _nothing(program: Program) -> None:
    """For back ends whose toolchain is ready at once."""


def _always() -> bool:
    """For back ends that need nothing of the machine before a kernel is called."""
    return True


@dataclass(frozen=True)
class Backend:
    """A back end. Its module is read for every kernel, and imports what compiles one only when its
    functions are called.

    Attributes:
        kind: of the targets that it generates code for, e.g. "cuda".
        language: what its text is called, e.g. "CUDA".
        steps: gives passes of its own. They run on tile operations in normal form, before those
            for threads that run beside each other.
        emit: the text of a lowered program, with all that is needed to compile and call it.
        executable: what calls a compiled text; compiles it, or takes it from the disk cache.
        ready: whether this machine has the toolchain; programs are interpreted where it has not.
        ahead: starts the toolchain beside the passes; called when a text is not in the cache.
        keeps_text: whether the text is kept in the disk cache, under the traced program.
        emulated: whether the emulator runs the text.
        standalone: a text with the headers of the back end in place of their includes, for
            compilers that see host code beside it.
        texts: names of the stages of its machine code that kernels can show.
    """

    kind: str
    language: str
    emit: Callable[[PrimFunc, Context], Artifact]
    executable: Callable[[Program, Artifact], Executable]
    ready: Callable[[], bool] = _always
    ahead: Callable[[Program], None] = _nothing
    keeps_text: bool = False
    emulated: bool = False
    texts: tuple[str, ...] = ()
    standalone: Callable[[str], str] = str
    steps: Callable[[], tuple[Step, ...]] = tuple
