"""Runs the cells of ``instruction_table.py``, and remembers which of them computed what they must.

A cell runs beside the interpreter on small whole numbers, which are exact in every dtype.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from instruction_cases import Case

import tilelang
from tilelang.errors import TileError
from tilelang.interpret import values
from tilelang.ir.buffer import Buffer

FILE = Path(__file__).resolve().parents[1] / "docs" / "data" / "instructions.json"


@dataclass(frozen=True)
class Known:
    """Cells that agreed with the interpreter, with the instructions that they had then.

    Attributes:
        tested: on a GPU.
        emulated: in the emulator, where no check of it found anything.
    """

    tested: dict[str, str]
    emulated: dict[str, str]

    @classmethod
    def read(cls) -> Known:
        """What the file says."""
        record = json.loads(FILE.read_text(encoding="utf-8"))
        return cls(record["cells"], record["emulated"])

    def write(self) -> None:
        """Remember it."""
        text = json.dumps(
            {"cells": self.tested, "emulated": self.emulated}, indent=1, sort_keys=True
        )
        FILE.write_text(text + "\n", encoding="utf-8")

    def state(self, case: Case, arch: str, text: str) -> str:
        """How far a cell is shown to be right."""
        key = key_of(case, arch)
        if self.tested.get(key) == text:
            return "**tested**"
        return "**emulated**" if self.emulated.get(key) == text else "compiled"


def key_of(case: Case, arch: str) -> str:
    """The name of a cell in the file."""
    return f"{case.table}: {case.row}: {arch}"


def run_all(
    rows: Iterable[Case],
    arch: str,
    cells: Iterable[Any],
    run: Callable[[Case, str], str] | None = None,
) -> dict[str, str]:
    """The cells of an architecture that agree; those that do not are printed.

    Args:
        run: says what is wrong with a row; the GPU of this machine by default.
    """
    passed = {}
    for case, cell in zip(rows, cells, strict=True):
        if cell.refused:
            continue
        try:
            problem = (run or on_gpu)(case, arch)
        except (TileError, RuntimeError) as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            print(f"{key_of(case, arch)}: {problem}", flush=True)
        else:
            passed[key_of(case, arch)] = cell.text
    print(f"{arch}: {len(passed)} cells agree with the interpreter", flush=True)
    return passed


# -- in the emulator -------------------------------------------------------------------------------
def emulated(case: Case, arch: str) -> str:
    """What is wrong with a row on an emulated GPU of another vendor; empty if nothing is."""
    func = case.make()
    inputs = [_whole_numbers(buffer, seed) for seed, buffer in enumerate(func.buffers)]
    expected = [array.copy() for array in inputs]
    tilelang.compile(func, execution_backend="interpret")(*expected)
    target = arch if arch == "metal" else f"hip -mcpu={arch}"
    report = tilelang.sanitize(func, *inputs, target=target)
    if not report.ok:
        return str(report)
    same = map(np.array_equal, report.arguments, expected)
    return "" if all(same) else "differs"


def _whole_numbers(buffer: Buffer, seed: int) -> np.ndarray[Any, Any]:
    """Numbers of -2 to 2 as the bits of the dtype."""
    kind, shape = buffer.dtype, [int(extent) for extent in buffer.shape]
    random = np.random.default_rng(seed)
    if kind.bits == 4:
        return random.integers(0, 256, (shape[0], shape[1] // 2)).astype("u1").view("i1")
    numbers = random.integers(0 if kind.is_uint else -2, 3, shape)
    if kind.is_float and kind.bits < 32 and kind != "float16":
        exact = values.rounded(numbers.astype(np.float32), kind)
        bits = np.ascontiguousarray(values.to_bytes(exact, kind)).reshape(-1)
        return bits.view(f"u{kind.bits // 8}").reshape(shape)
    return numbers.astype("float32" if kind == "tfloat32" else str(kind))


# -- on a GPU --------------------------------------------------------------------------------------
def on_gpu(case: Case, arch: str) -> str:
    """What is wrong with a row on the GPU of this machine; empty if nothing is."""
    import torch

    func = case.make()
    torch.manual_seed(0)
    inputs = [_random(buffer, torch) for buffer in func.buffers]
    expected = [tensor.clone() for tensor in inputs]
    on_gpu = [tensor.cuda() for tensor in inputs]
    tilelang.compile(func, execution_backend="interpret")(*expected)
    tilelang.compile(func, target=f"cuda -arch={arch}")(*on_gpu)
    for want, got in zip(expected, on_gpu):
        if want.dtype == torch.int8 or not want.is_floating_point():
            if not torch.equal(want, got.cpu()):
                return "differs"
        elif not torch.allclose(want.double(), got.cpu().double(), rtol=2e-2, atol=2e-2):
            return f"differs by {(want.double() - got.cpu().double()).abs().max()}"
    return ""


def _random(buffer: Any, torch: Any) -> Any:
    """Small whole numbers, exact in every dtype."""
    kind = buffer.dtype.as_torch()
    shape = list(buffer.shape)
    if buffer.dtype.bits == 4:
        return torch.randint(-100, 100, (shape[0], shape[1] // 2)).to(torch.int8)
    low = 0 if buffer.dtype.is_uint else -2
    return torch.randint(low, 3, shape).to(kind)
