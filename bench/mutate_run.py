"""Runs of a case's text, or of an edited one, in the emulator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from captured import Case, as_results
from mutate_cases import target_of

from tilelang.compiler import compile as compile_source
from tilelang.emulator.launch import Settings
from tilelang.emulator.report import Report, merge
from tilelang.jit.emulated import from_artifact
from tilelang.jit.sanitize import _run

STEPS = 4_000_000  # switches after which a text counts as hanging


class Runner:
    """Compiles a case once; texts in its place run with its arguments.

    Args:
        case: the call.
        arch: where the case says none.
    """

    def __init__(self, case: Case, arch: str = "sm_80") -> None:
        self.case = case
        self.arch = case.arch or arch
        self.target = target_of(self.arch)
        kernel = case.kernel(str(self.target), "interpret")
        self.func, self.out_idx = kernel.prim_func, tuple(kernel.out_idx)
        self.options = kernel.options
        self.artifact = compile_source(self.func, self.target, self.options)
        self._program: tuple[str, Any] = ("", None)

    @property
    def source(self) -> str:
        """The text as generated."""
        return self.artifact.source

    def program(self, source: str) -> Any:
        """The executable for a text in place of the case's own."""
        if self._program[0] != source:
            assert self.artifact.device is not None
            module = replace(self.artifact.device, source=source)
            artifact = replace(self.artifact, source=source, device=module)
            settings = Settings(("races",))
            kernel = from_artifact(
                self.func, self.out_idx, artifact, self.target, self.options, settings
            )
            self._program = source, kernel
        return self._program[1]

    def report(
        self,
        source: str | None = None,
        runs: Sequence[tuple[str, int]] = (("late", 0),),
        checks: Sequence[str] = ("races", "bounds"),
        args: Sequence[Any] | None = None,
    ) -> Report:
        """What runs, each a schedule and a seed, of a text find."""
        program = self.program(self.source if source is None else source)
        values = self.case.args if args is None else args
        settings = [Settings(tuple(checks), name, seed, 1, STEPS) for name, seed in runs]
        return merge([_run(program, setting, values) for setting in settings])

    def wrong(self, report: Report) -> bool:
        """Whether a run gave other numbers than the interpreter, or none."""
        stopped = ("deadlock", "step-bound", "crash", "trap")
        if any(finding.kind in stopped for finding in report.findings):
            return True
        results = as_results(report.outputs, report.arguments)
        if len(results) != len(self.case.results):
            return True
        return not all(
            np.allclose(_numbers(a), _numbers(b), rtol=1e-2, atol=1e-2, equal_nan=True)
            for a, b in zip(results, self.case.results)
        )


def _numbers(array: np.ndarray) -> np.ndarray:
    """What an array stands for; codes of 16 bits are bfloat16."""
    if array.dtype == np.uint16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)
