"""What the machine code of products and attention for an AMD GPU is made of. No GPU is needed.

For each program the loop that multiplies: its matrix instructions, how wide its accesses of LDS and
memory are, what its waits leave in flight, and the registers of the kernel. The share of the time
that the matrix unit is busy has two bounds, from the cycles that each unit of a compute unit takes
for one iteration of all wavefronts:

* at most: the matrix unit against the busiest other one, all of them at work at the same time;
* at least: one after the other, as for one wavefront of a SIMD unit whose code overlaps nothing.

``hip_gemm.hip`` is a product of the same tile written by hand.

    python bench/hip_assembly.py                         # the table, for gfx942
    python bench/hip_assembly.py --text gemm_nt          # the assembly of a program

Sources: AMD Instinct MI300 ISA and CDNA 3 white paper (2048 float16 operations in a cycle of a
compute unit, that is 32 cycles for 32 x 32 x 8 and 16 for 16 x 16 x 16; 16 lanes in a cycle of a
SIMD unit; 128 bytes in a cycle of LDS).
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import h200_programs as programs

from tilelang.compiler import compile as text_of
from tilelang.hip.toolchain import FAST_MATH, assembly
from tilelang.ir.stmt import PrimFunc
from tilelang.options import Options
from tilelang.target import parse_target

CHIP = "gfx942"
BY_HAND = Path(__file__).with_name("hip_gemm.hip")
N = 4096
# Name -> maker, arguments, threads of a block.
PROGRAMS: dict[str, tuple[Any, tuple[Any, ...], int]] = {
    "gemm_nt": (programs.gemm, (N, N, N, "float16", "float16", True, 128, 128, 32, 2, 256), 256),
    "gemm_nn": (programs.gemm, (N, N, N, "float16", "float16", False, 128, 128, 32, 2, 256), 256),
    "gemm_nt_64": (programs.gemm, (N, N, N, "float16", "float16", True, 128, 128, 64, 2, 256), 256),
    "attention_64": (programs.attention, (4, 32, N, 64, False, 64, 64, 2, 128), 128),
    "attention_128": (programs.attention, (4, 32, N, 128, False, 128, 64, 1, 256), 256),
}
_CYCLES = {"32x32x8": 32, "16x16x16": 16, "32x32x16": 32, "16x16x32": 16}  # of a matrix instruction
_LDS_BYTES = 128  # in a cycle of a compute unit
_SIMDS = 4  # of a compute unit
_BYTES = {
    "b128": 16,
    "dwordx4": 16,
    "b64": 8,
    "dwordx2": 8,
    "b32": 4,
    "dword": 4,
    "b16": 2,
    "u16": 2,
}


@dataclass(frozen=True)
class Figures:
    """What stands in the assembly of a kernel.

    Attributes:
        loop: how often each instruction stands in the loop that multiplies.
        kernel: the same of the whole kernel.
        waits: of the loop: what ``s_waitcnt`` leaves in flight -> how often.
        vectors, accumulators, scratch: registers of a lane, and bytes of it in memory.
        threads: of a block.
    """

    loop: Counter[str]
    kernel: Counter[str]
    waits: Counter[str]
    vectors: int
    accumulators: int
    scratch: int
    threads: int

    def widths(self, kind: str) -> dict[str, int]:
        """How wide the accesses of the loop are that start with ``kind``."""
        widths: Counter[str] = Counter()
        for name, count in self.loop.items():
            if words := re.match(rf"{kind}(2?)(?:st64)?_(\w+)", name):
                widths[words[2].removesuffix("_d16").removesuffix("_d16_hi")] += (
                    2 * count if words[1] else count
                )
        return dict(widths)

    @property
    def matrix(self) -> int:
        """Cycles of the matrix unit of a SIMD unit for one wavefront."""
        return sum(
            count * next(c for shape, c in _CYCLES.items() if f"_{shape}_" in name)
            for name, count in self.loop.items()
            if name.startswith("v_mfma")
        )

    @property
    def others(self) -> dict[str, int]:
        """The same of the vector unit and, for all wavefronts of a SIMD unit each, of LDS."""
        vector = sum(
            count for name, count in self.loop.items()
            if name.startswith("v_") and not name.startswith("v_mfma")
        )  # fmt: skip
        moved = sum(
            64
            * count
            * _BYTES.get(name.split("_")[-1], 4)
            * (2 if "2" in name.split("_")[1] else 1)
            for name, count in self.loop.items()
            if re.match(r"ds_(read|write)|global_load_lds_", name)
        )
        return {"vector": 4 * vector, "lds": _SIMDS * moved // _LDS_BYTES}

    @property
    def share(self) -> tuple[float, float]:
        """The share of the time that the matrix unit is busy: at least, and at most."""
        others = self.others.values()
        return (
            self.matrix / max(self.matrix + sum(others), 1),
            self.matrix / max(self.matrix, *others, 1),
        )


def figures(text: str, threads: int) -> Figures:
    """What stands in the assembly ``text`` of one kernel."""
    lines = text.splitlines()
    loop = max(_loops(lines), key=_products, default=range(0))
    waits = Counter(
        counter for at in loop for counter in re.findall(r"(?:vmcnt|lgkmcnt)\(\d+\)", lines[at])
        if "s_waitcnt" in lines[at]
    )  # fmt: skip
    number = {
        name: int(match[1]) if (match := re.search(rf"; {name}: (\d+)", text)) else 0
        for name in ("NumVgprs", "NumAgprs", "ScratchSize")
    }
    return Figures(
        _names([lines[at] for at in loop]), _names(lines), waits,
        number["NumVgprs"], number["NumAgprs"], number["ScratchSize"], threads,
    )  # fmt: skip


class _Lines(list[int]):
    """The numbers of the lines of a loop, and how many of them multiply."""

    products = 0


def _products(loop: Any) -> tuple[int, int]:
    return getattr(loop, "products", 0), -len(loop)


def _loops(lines: list[str]) -> Iterator[_Lines]:
    """The loops: from a label to the end of the last block that goes back to it. Blocks that stand
    in front of the label and say that they are of its loop are in it."""
    labels = {
        line.split(":")[0]: at for at, line in enumerate(lines) if re.match(r"\.LBB\w+:", line)
    }
    ends = sorted([*labels.values(), len(lines)])
    for label, start in labels.items():
        if "Header: Depth" not in lines[start]:
            continue
        inside = [at for at in labels.values() if f"Header={label[2:]} " in lines[at]]
        branch = re.compile(rf"\s+s_c?branch\w* {re.escape(label)}\b")
        back = [at for at, line in enumerate(lines) if at > start and branch.match(line)]
        last = max([start, *inside, *back])
        end = last + 1 if last in back else next(end for end in ends if end > last)
        body = _Lines(range(min([start, *inside]), end))
        body.products = sum("v_mfma" in lines[at] for at in body)
        yield body


def _names(lines: list[str]) -> Counter[str]:
    return Counter(
        match[1].removesuffix("_e32").removesuffix("_e64")
        for line in lines
        if (match := re.match(r"\s+([a-z]\w+)(?:\s|$)", line))
    )


def program(name: str) -> tuple[PrimFunc, int]:
    """A program of the table and the threads of its blocks."""
    make, arguments, threads = PROGRAMS[name]
    with patch.object(programs.tilelang, "compile", lambda func, **_: func):
        return make(*arguments), threads


def code(name: str, chip: str) -> str:
    """The assembly of a program, or of the one by hand."""
    if name == "by_hand":
        return assembly(BY_HAND.read_text(encoding="utf-8"), chip)
    text = text_of(program(name)[0], parse_target(f"hip -mcpu={chip}"), Options(fast_math=True))
    return assembly(text.source, chip, FAST_MATH)


def measured(name: str, chip: str = CHIP) -> Figures:
    """The figures of a program of the table, or of the one by hand."""
    threads = 256 if name == "by_hand" else PROGRAMS[name][2]
    return figures(code(name, chip), threads)


def row(name: str, figures: Figures) -> str:
    """A line of the table."""

    def listed(widths: dict[str, int]) -> str:
        return " ".join(f"{count}x{width}" for width, count in sorted(widths.items())) or "-"

    low, high = figures.share
    matrices = sum(count for name, count in figures.loop.items() if name.startswith("v_mfma"))
    loads = listed(figures.widths("global_load")).replace("lds_", "lds:")
    return " | ".join(
        (
            f"| {name}", str(matrices), listed(figures.widths("ds_read")),
            listed(figures.widths("ds_write")), loads, str(figures.loop["s_barrier"]),
            f"{figures.vectors} + {figures.accumulators}", str(figures.scratch),
            f"{figures.matrix}, " + ", ".join(str(n) for n in figures.others.values()),
            f"{100 * low:.0f} to {100 * high:.0f} % |",
        )
    )  # fmt: skip


def main() -> None:
    """Print the table, or one assembly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chip", default=CHIP)
    parser.add_argument("--text", help="show the assembly of this program")
    arguments = parser.parse_args()
    if arguments.text:
        print(code(arguments.text, arguments.chip))
        return
    heads = ("program", "mfma", "LDS reads", "LDS writes", "loads", "barriers",
             "registers", "scratch", "cycles: mfma, vector, LDS", "mfma busy")  # fmt: skip
    print("| " + " | ".join(heads) + " |\n|" + " --- |" * len(heads))
    for name in ("by_hand", *PROGRAMS):
        counted = measured(name, arguments.chip)
        print(row(name, counted), flush=True)
        print(f"    waits of the loop: {dict(sorted(counted.waits.items()))}")


if __name__ == "__main__":
    main()
