"""Write ``docs/instructions.md``: the instruction chosen for each tile operation, dtype and GPU.

    python scripts/instruction_table.py            lower and compile everything, write the page
    python scripts/instruction_table.py --check    say whether the page is current (status 1 if not)
    python scripts/instruction_table.py --run      run the rows on the GPU of this machine (torch),
                                                   compare with the interpreter, and remember which
                                                   cells are tested in docs/data/instructions.json

A cell comes from lowering a small program and reading the calls of one line. Needs NVRTC, which
compiles all that was lowered, one source per architecture; only ``--run`` needs a GPU.
"""

from __future__ import annotations

import argparse
import inspect
import json
import re
import sys
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilelang.backends import backend_of
from tilelang.compiler import lower
from tilelang.cuda.toolchain import compile_cubin
from tilelang.errors import TileError
from tilelang.explain.moves import Line, lines_of
from tilelang.explain.snapshots import launches
from tilelang.hip.toolchain import compile_code
from tilelang.language import instructions
from tilelang.options import Options
from tilelang.target import Context, Target
from tilelang.target.parse import parse_target

sys.path.insert(0, str(Path(__file__).resolve().parent))
from instruction_cases import MARK, Case, cases

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "instructions.md"
TESTED = ROOT / "docs" / "data" / "instructions.json"
CHIPS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201")  # of AMD
ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")

PRODUCTS = ("mma.", "mfma.", "wmma_gfx")
ORDER = ("mma", "mfma", "wmma", "fma", "ldmatrix", "cp.async", "ld.", "stmatrix", "st.", "")

HEAD = """\
# Instructions by architecture

<!-- written by scripts/instruction_table.py; a test compares -->

What one line of a small program becomes: tiles of 64 x 64 elements and 128 threads, for every GPU
architecture that is supported. Bytes are those that a thread moves at once; `fma` stands for plain
multiplications and additions. A cell ends in how far it is shown to be right: **tested** (run on an
H200, agrees with the interpreter), compiled (machine code of that architecture was made), or it is
the error that a program gets.
"""
AMD = """\
The same on AMD's chips, compiled by clang; none of it has been run on one.
"""
FUNCTIONS = """\
## Functions of single instructions

With the first architecture that has them. The program itself orders what asynchronous units do.
"""


@dataclass(frozen=True)
class Cell:
    """What an operation becomes on an architecture: its instructions, or the error."""

    text: str
    refused: bool = False
    source: str = ""


def cell_of(func: Any, target: Target) -> Cell:
    """Lower ``func`` and read its marked line."""
    try:
        lowered = lower(func, target, Options())
        source = backend_of(target).emit(lowered, Context(target)).source
    except TileError as error:
        return Cell(error.message, refused=True)
    (launch,) = launches(lowered)
    found = [
        line
        for line in lines_of(launch, target.limits, count=False).values()
        if (line.loc.source() or "").endswith(MARK)
    ]
    return Cell("; ".join(_words(found)) or "registers only", source=source)


def _words(lines: Iterable[Line]) -> list[str]:
    """The instructions of a line, each once, loads before stores."""
    found: dict[str, None] = {}
    for line in lines:
        for name in line.calls:
            if name.startswith(PRODUCTS):
                found.setdefault(name)
        for move in line.moves:
            if move.instruction.startswith(("ldmatrix", "stmatrix")):
                found.setdefault(move.instruction)
            elif move.instruction == "cp.async":
                found.setdefault(f"cp.async {move.width} B")
            elif move.instruction:
                found.setdefault(f"{move.instruction} {move.width} B")
            else:
                verb = "ld" if move.verb == "loads" else "st"
                found.setdefault(f"{verb}.{move.memory} {move.width} B")
        product = re.search(r"T\.gemm\(", line.loc.source() or "")
        if product and not any(name.startswith(PRODUCTS) for name in line.calls):
            found.setdefault("fma")
        for name in line.calls:
            if name.startswith(("shfl", "red", "sync_threads")):
                found.setdefault({"sync_threads": "barrier"}.get(name, name))
    return sorted(
        found, key=lambda word: next(i for i, w in enumerate(ORDER) if word.startswith(w))
    )


def column(arch: str, funcs: Iterable[Any]) -> list[Cell]:
    """The cells of one architecture."""
    kind = "hip" if arch in CHIPS else "cuda"
    target = parse_target(f"{kind} -arch={arch}")
    return [cell_of(func, target) for func in funcs]


def compile_all(arch: str, cells: Iterable[Cell]) -> None:
    """Machine code of all sources of one architecture, as one translation unit.

    Raises:
        CompileError: the compiler refuses something.
    """
    includes: dict[str, None] = {}
    bodies = []
    for number, cell in enumerate(cells):
        if not cell.source:
            continue
        lines = cell.source.splitlines()
        includes.update(dict.fromkeys(line for line in lines if line.startswith("#include")))
        body = "\n".join(line for line in lines if not line.startswith("#include"))
        bodies.append(f"namespace row{number} {{\n{_renamed(body, number)}\n}}")
    text = "\n".join([*includes, *bodies])
    make = compile_code if arch in CHIPS else compile_cubin
    make(text, arch, name=f"table_{arch}")


def _renamed(body: str, number: int) -> str:
    """``body`` with kernel names of its own: C names stay outside of namespaces."""
    names = re.findall(r"__global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(", body)
    for name in names:
        body = re.sub(rf"\b{name}\b", f"{name}_{number}", body)
    return body


# -- the page --------------------------------------------------------------------------------------
def page(table: dict[str, list[Cell]], rows: list[Case], tested: dict[str, str]) -> str:
    """The whole page.

    Args:
        table: cells by architecture, in the order of ``rows``.
        rows: the cases.
        tested: row and architecture -> the instructions that were tested there.
    """
    lines = [HEAD]
    head = "| dtypes | " + " | ".join(ARCHS) + " |"
    rule = "| --- |" + " --- |" * len(ARCHS)
    last = ""
    for number, case in enumerate(rows):
        if case.table != last:
            last = case.table
            lines += ["", f"## {case.table}", "", head, rule]
        shown = [_shown(case, arch, table[arch][number], tested) for arch in ARCHS]
        lines.append(f"| {case.row} | " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n\n" + of_amd(table, rows) + "\n" + functions()


def of_amd(table: dict[str, list[Cell]], rows: list[Case]) -> str:
    """The same tables for AMD's chips."""
    lines = [AMD]
    last = ""
    for number, case in enumerate(rows):
        if case.table != last:
            last = case.table
            head = "| dtypes | " + " | ".join(CHIPS) + " |"
            lines += ["", f"## {case.table}, AMD", "", head, "| --- |" + " --- |" * len(CHIPS)]
        shown = [_shown(case, chip, table[chip][number], {}) for chip in CHIPS]
        lines.append(f"| {case.row} | " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n"


def functions() -> str:
    """The functions of single instructions, as their rows have them."""
    lines = [FUNCTIONS]
    for name in instructions.__all__:
        function = getattr(instructions, name)
        plain = [
            item.replace(annotation=inspect.Parameter.empty)
            for item in inspect.signature(function).parameters.values()
        ]
        said, _, needs = function.__doc__.rpartition("Needs ")
        first = " ".join((said or needs).partition("\n\n")[0].split()).replace("``", "`")
        where = f", {needs.rstrip('.')}" if said else ""
        lines.append(f"* `T.{name}{inspect.Signature(plain)}`{where}: {first}")
    return "\n".join(lines) + "\n"


def key_of(case: Case, arch: str) -> str:
    """The name of a cell in the list of tested ones."""
    return f"{case.table}: {case.row}: {arch}"


def _shown(case: Case, arch: str, cell: Cell, tested: dict[str, str]) -> str:
    if cell.refused:
        return f"error: {cell.text}"
    state = "**tested**" if tested.get(key_of(case, arch)) == cell.text else "compiled"
    return f"{cell.text}; {state}"


def known_tests() -> dict[str, str]:
    """The cells that were run on a GPU, with what they were then."""
    found: dict[str, str] = json.loads(TESTED.read_text(encoding="utf-8"))["cells"]
    return found


# -- on a GPU --------------------------------------------------------------------------------------
def run_rows(rows: list[Case], arch: str) -> dict[str, str]:
    """Run every row on this machine's GPU and compare it with the interpreter."""
    import torch

    passed = {}
    for case, cell in zip(rows, column(arch, [case.make() for case in rows])):
        if cell.refused:
            continue
        try:
            problem = _run(case, arch, torch)
        except (TileError, RuntimeError) as error:
            problem = f"{type(error).__name__}: {error}"
        if problem:
            print(f"{key_of(case, arch)}: {problem}")
        else:
            passed[key_of(case, arch)] = cell.text
    return passed


def _run(case: Case, arch: str, torch: Any) -> str:
    """What is wrong with a row on the GPU; empty if nothing is."""
    import tilelang

    func = case.make()
    torch.manual_seed(0)
    inputs = [_random(buffer, torch) for buffer in func.buffers]
    expected = [item.clone() for item in inputs]
    on_gpu = [item.cuda() for item in inputs]
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


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--run", action="store_true")
    options = parser.parse_args()
    rows = cases()
    if options.run:
        from tilelang.target.device import cuda_devices

        mine = cuda_devices()[0].removesuffix("a")
        archs = [arch for arch in ARCHS if arch.removesuffix("a") == mine]
        passed = {key: text for arch in archs for key, text in run_rows(rows, arch).items()}
        text = json.dumps({"cells": {**known_tests(), **passed}}, indent=1, sort_keys=True)
        TESTED.write_text(text + "\n", encoding="utf-8")
        print(f"{len(passed)} cells of {', '.join(archs)} tested")
    funcs = [case.make() for case in rows]
    table = {arch: column(arch, funcs) for arch in (*ARCHS, *CHIPS)}
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda arch: compile_all(arch, table[arch]), table))
    text = page(table, rows, known_tests())
    if options.check:
        current = PAGE.read_text(encoding="utf-8") == text
        print("current" if current else f"{PAGE.name} is not current")
        return 0 if current else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
