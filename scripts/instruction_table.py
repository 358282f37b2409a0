"""Write ``docs/instructions.md``: the instruction chosen for each tile operation, dtype and GPU.

    python scripts/instruction_table.py            lower and compile everything, write the page
    python scripts/instruction_table.py --check    say whether the page is current (status 1 if not)
    python scripts/instruction_table.py --run      run the rows on the GPU of this machine (torch)
    python scripts/instruction_table.py --emulate  run the rows of AMD's chips and Metal in the
                                                   emulator, with all of its checks

A cell comes from lowering a small program and reading the calls of one line. Needs NVRTC and a
clang, which compile all that was lowered, one source per architecture; only ``--run`` needs a GPU.
What runs is compared with the interpreter, and the cells that agree are remembered in
``docs/data/instructions.json`` with what they were then.
"""

# ruff: noqa: E402  # imports from the tests follow the line that finds them
from __future__ import annotations

import argparse
import inspect
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
from tilelang.errors import CompileError, TileError
from tilelang.explain.moves import Line, lines_of
from tilelang.hip.toolchain import compile_code
from tilelang.ir import stmt as S
from tilelang.language import instructions
from tilelang.options import Options
from tilelang.target import Context, Target
from tilelang.target.parse import parse_target

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "metal"), str(ROOT / "scripts")]
from instruction_cases import MARK, Case, cases
from instruction_runs import Known, emulated, run_all
from joined import joined
from metal_clang import refusal

PAGE = ROOT / "docs" / "instructions.md"
CHIPS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201")  # of AMD
METAL = "metal"
ARCHS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")

PRODUCTS = ("mma.", "mfma.", "wmma_gfx", "multiply_add_matrix")
ORDER = (
    "mma", "mfma", "wmma", "multiply", "fma", "ldmatrix", "cp.async", "ld.", "stmatrix", "st.", "",
)  # fmt: skip

HEAD = """\
# Instructions by architecture

<!-- written by scripts/instruction_table.py; a test compares -->

The tables show what the compiler generates for one tile operation of a small program, on every
supported GPU architecture: tiles of 64 x 64 elements, 128 threads. Bytes are those of one access
of a thread. `fma` means that threads multiply element by element.

Each cell ends in its evidence: **tested** (run on an H200, equal to the interpreter), compiled
(machine code exists), or the error that a program gets.
"""
OTHERS = """\
The next tables are for AMD chips and Metal, with products of depth 32. Nothing has run on such a
GPU.
**Emulated**: the emulator ran it with all checks and the results of the interpreter, and clang
compiled it (Metal: `-x clcpp` with declarations of the library). Compiled: clang only.
"""
FUNCTIONS = """\
## Functions of single instructions

Each with its first architecture. The program orders asynchronous instructions itself.
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
    (launch,) = S.find(lowered.body, S.Launch)
    calls = [
        line
        for line in lines_of(launch, target.limits, count=False).values()
        if (line.loc.source() or "").endswith(MARK)
    ]
    return Cell("; ".join(_words(calls)) or "registers only", source=source)


def _words(lines: Iterable[Line]) -> list[str]:
    """The instructions of a line, each once, loads before stores."""
    ordered: dict[str, None] = {}
    for line in lines:
        for name in line.calls:
            if name.startswith(PRODUCTS):
                ordered.setdefault(name)
        for move in line.moves:
            if move.instruction.startswith(("ldmatrix", "stmatrix")):
                ordered.setdefault(move.instruction)
            elif move.instruction == "cp.async":
                ordered.setdefault(f"cp.async {move.width} B")
            elif move.instruction:
                ordered.setdefault(f"{move.instruction} {move.width} B")
            else:
                verb = "ld" if move.verb == "loads" else "st"
                ordered.setdefault(f"{verb}.{move.memory} {move.width} B")
        product = re.search(r"T\.gemm\(", line.loc.source() or "")
        if product and not any(name.startswith(PRODUCTS) for name in line.calls):
            ordered.setdefault("fma")
        for name in line.calls:
            if name.startswith(("shfl", "red", "sync_threads")):
                ordered.setdefault({"sync_threads": "barrier"}.get(name, name))
    return sorted(
        ordered, key=lambda word: next(i for i, w in enumerate(ORDER) if word.startswith(w))
    )


def column(arch: str, funcs: Iterable[Any]) -> list[Cell]:
    """The cells of one architecture."""
    return [cell_of(func, parse_target(spelled(arch))) for func in funcs]


def spelled(arch: str) -> str:
    """The target of a column."""
    return arch if arch == METAL else f"{'hip' if arch in CHIPS else 'cuda'} -arch={arch}"


def compile_all(arch: str, cells: Iterable[Cell]) -> None:
    """Machine code of all sources of one architecture, as one translation unit.

    Raises:
        CompileError: the compiler refuses something.
    """
    text = joined(cell.source for cell in cells if cell.source)
    if arch == METAL:
        refused = refusal(text)
        if refused:
            raise CompileError("clang refused the Metal text", got=refused)
        return
    make = compile_code if arch in CHIPS else compile_cubin
    make(text, arch, name=f"table_{arch}")


# -- the page --------------------------------------------------------------------------------------
def page(table: dict[str, list[Cell]], rows: list[Case], known: Known) -> str:
    """The whole page.

    Args:
        table: cells by architecture, in the order of ``rows``.
        rows: the cases.
        known: what was run.
    """
    parts = [HEAD, tables(table, rows, known, ARCHS, "")]
    parts += [OTHERS, tables(table, rows, known, (*CHIPS, METAL), ", AMD and Metal"), functions()]
    return "\n".join(parts)


def tables(
    table: dict[str, list[Cell]], rows: list[Case], known: Known, archs: tuple[str, ...], title: str
) -> str:
    """The tables of some architectures."""
    lines: list[str] = []
    for number, case in enumerate(rows):
        if number == 0 or case.table != rows[number - 1].table:
            head = "| dtypes | " + " | ".join(archs) + " |"
            lines += ["", f"## {case.table}{title}", "", head, "| --- |" + " --- |" * len(archs)]
        shown = [_shown(case, arch, table[arch][number], known) for arch in archs]
        lines.append(f"| {case.row} | " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n"


def functions() -> str:
    """The functions of single instructions, as their rows have them."""
    lines = [FUNCTIONS]
    for name in instructions.__all__:
        function = getattr(instructions, name)
        plain = [
            parameter.replace(annotation=inspect.Parameter.empty)
            for parameter in inspect.signature(function).parameters.values()
        ]
        said, _, needs = function.__doc__.rpartition("Needs ")
        first = " ".join((said or needs).partition("\n\n")[0].split()).replace("``", "`")
        where = f", {needs.partition('.')[0]}" if said else ""
        lines.append(f"* `T.{name}{inspect.Signature(plain)}`{where}: {first}")
    return "\n".join(lines) + "\n"


def _shown(case: Case, arch: str, cell: Cell, known: Known) -> str:
    if cell.refused:
        return f"error: {cell.text}"
    return f"{cell.text}; {known.state(case, arch, cell.text)}"


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--emulate", action="store_true")
    options = parser.parse_args()
    rows, known = cases(), Known.read()
    if options.run:
        from tilelang.target.device import cuda_devices

        mine = cuda_devices()[0].removesuffix("a")
        for arch in (arch for arch in ARCHS if arch.removesuffix("a") == mine):
            known.tested.update(run_all(rows, arch, column(arch, [case.make() for case in rows])))
        known.write()
    table = {
        arch: column(arch, [case.make() for case in cases(arch)])
        for arch in (*ARCHS, *CHIPS, METAL)
    }
    if options.emulate:
        for arch in (*CHIPS, METAL):
            known.emulated.update(run_all(cases(arch), arch, table[arch], emulated))
        known.write()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda arch: compile_all(arch, table[arch]), table))
    text = page(table, rows, known)
    if options.check:
        current = PAGE.read_text(encoding="utf-8") == text
        print("current" if current else f"{PAGE.name} is not current")
        return 0 if current else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
