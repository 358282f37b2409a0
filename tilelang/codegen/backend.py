"""What the compiler has to know of a back end: one frozen row for each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilelang.codegen.artifact import Artifact
from tilelang.ir.stmt import PrimFunc
from tilelang.target import Context

if TYPE_CHECKING:
    from tilelang.passes.step import Step


@dataclass(frozen=True)
class Backend:
    """A back end.

    Attributes:
        kind: of the targets that it generates code for, e.g. "cuda".
        language: what its text is called, e.g. "CUDA".
        steps: passes of its own. They run on tile operations in normal form, before those for
            threads that run beside each other.
        emit: the text of a lowered program, with all that is needed to compile and call it.
    """

    kind: str
    language: str
    emit: Callable[[PrimFunc, Context], Artifact]
    steps: tuple[Step, ...] = ()
