"""The kernels that the examples run, with their arguments and what the interpreter makes of them."""

from __future__ import annotations

import contextlib
import inspect
import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any
from unittest.mock import patch

import numpy as np
from example_modules import load

import tilelang
from tilelang.ir.stmt import PrimFunc
from tilelang.jit import JITKernel, execution, kernel as jit_kernel


@dataclass(frozen=True)
class Case:
    """One call of a kernel.

    Attributes:
        results: what the interpreter returned; the arguments it changed come after them.
        alive: what the example holds, to whose memory arguments may point.
    """

    name: str
    func: PrimFunc
    out_idx: tuple[int, ...]
    args: tuple[Any, ...]
    results: tuple[Any, ...]
    arch: str = ""
    alive: Any = None

    def kernel(self, target: str, backend: str) -> JITKernel:
        """The kernel, compiled for ``target``."""
        out_idx = None if self.func.outputs else list(self.out_idx) or None
        return tilelang.compile(
            self.func, out_idx=out_idx, target=target, execution_backend=backend
        )


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def as_results(output: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a call returned and what it left in its arguments."""
    outputs = () if output is None else output if isinstance(output, (list, tuple)) else (output,)
    return (*outputs, *(arg for arg in args if isinstance(arg, np.ndarray)))


def _held() -> list[FrameType]:
    """The frames of the functions called `main` that run: they hold their variables. A dict of
    these, read in the middle of a comprehension, ends Python 3.13.0."""
    return [entry.frame for entry in inspect.stack(context=0) if entry.function == "main"]


@contextlib.contextmanager
def capturing(name: str, found: list[Case]) -> Iterator[None]:
    """Kernels that are compiled in this context run in the interpreter and are noted."""
    build = execution.build

    def record(func: Any, out_idx: Any, target: Any, options: Any, backend: str) -> Any:
        made = build(func, out_idx, target, options, "interpret")

        def call(*args: Any) -> Any:
            before = tuple(map(_copy, args))
            output = made.call(*args)
            results = tuple(map(_copy, as_results(output, args)))
            found.append(Case(name, func, tuple(out_idx), before, results, alive=_held()))
            return output

        return replace(made, call=call)

    with patch.object(jit_kernel, "build", record):
        yield


def example_cases(name: str) -> list[Case]:
    """Every call that an example makes."""
    found: list[Case] = []
    with capturing(name, found), contextlib.redirect_stdout(io.StringIO()):
        load(name).main("interpret")
    return found
