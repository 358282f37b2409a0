"""Write ``docs/dev/coverage.md``: which functions of the language run where.

    python scripts/coverage_table.py           write the page
    python scripts/coverage_table.py --check   say whether the page is current (status 1 if not)

The functions and how many files of real programs use them come from ``docs/data/usage.tsv``; where
one runs comes from ``language_support.py``, which reads the tables of the compiler, for CUDA
from ``ptx_cases.py``, whose programs the tests compile, and for HIP and Metal from
``gpu_cases.py``, which compiles its own and those.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache, reduce
from pathlib import Path

import tilelang.language as T
from tilelang.ir.dtypes import dtype
from tilelang.target.nvidia import HARDWARE_TILES

sys.path.insert(0, str(Path(__file__).resolve().parent))
import gpu_cases  # scripts beside this one
import ptx_cases
from language_support import SUPPORT, Support

ROOT = Path(__file__).resolve().parents[1]
USAGE = ROOT / "docs" / "data" / "usage.tsv"
PAGE = ROOT / "docs" / "dev" / "coverage.md"

# State of a function -> what it means, in the order of the summary.
STATES = {
    "runs": "runs in the interpreter and on the CPU",
    "interpreter": "runs in the interpreter; an error on the CPU",
    "cuda": "can be traced everywhere; runs on CUDA from the given architecture on",
    "planned": "can be traced; lowering is planned",
    "rejected": "not part of this implementation, for the given reason",
    "missing": "not implemented yet",
}


# Functions without a case of their own that CUDA does not have yet, by their tile operations.
NOT_ON_CUDA = frozenset(
    (
        *HARDWARE_TILES, "copy_cluster", "tcgen05_mma", "tcgen05_mma_blockscaled",
        "gemm_sp_v2",
    )
)  # fmt: skip


CUDA_TEXT = "CUDASourceCodeKernel"  # kernels that are text of CUDA


@lru_cache(maxsize=1)
def on_cuda() -> dict[str, str]:
    """Functions with a case -> the lowest architecture, "yes" for all that are supported."""
    lowest = ptx_cases.ARCHS[0]
    return {
        case.intrinsic: "yes" if case.arch == lowest else case.arch for case in ptx_cases.cases()
    }


@dataclass(frozen=True)
class Function:
    """A name of the language with the number of files that use it."""

    name: str
    clients: int
    examples: int
    tests: int

    @property
    def support(self) -> Support | None:
        """Where it runs; None for a name that nothing is known of."""
        owner = self.name.partition(".")[0]
        if owner in SUPPORT:
            return SUPPORT[owner]
        if isinstance(getattr(T, owner, None), dtype):
            return Support(True, True, "dtype")
        return Support(True, True) if owner == "__all__" else None

    @property
    def exists(self) -> bool:
        """Whether the language has the name, members of classes included."""
        missing = object()
        value = reduce(lambda at, part: getattr(at, part, missing), self.name.split("."), T)
        return value is not missing

    @property
    def state(self) -> str:
        """A key of ``STATES``."""
        support = self.support
        if support is None or (not self.exists and not support.note.startswith("not there")):
            return "missing"
        if not self.exists:
            return "rejected"
        if support.cpu:
            return "runs"
        if support.interpreter:
            return "interpreter"
        return "planned" if self.cuda == "–" else "cuda"

    @property
    def cuda(self) -> str:
        """The lowest architecture that runs it, "yes" for all, "–" for none."""
        support = self.support
        if support is None or not self.exists:
            return "–"
        return on_cuda().get(self.name) or ("–" if self.name in NOT_ON_CUDA else "yes")

    def on(self, title: str) -> str:
        """Whether GPUs of another vendor run it: "yes" or "–"."""
        support = self.support
        if support is None or not self.exists or self.name in (*NOT_ON_CUDA, CUDA_TEXT):
            return "–"
        kind = getattr(T, self.name, None)
        if isinstance(kind, dtype):
            return "yes" if gpu_cases.holds(kind.element_of, gpu_cases.TARGETS[title]) else "–"
        return gpu_cases.compiled().get(self.name, {}).get(title, "yes")


def functions(path: Path = USAGE) -> list[Function]:
    """Every ``T.*`` name of the usage table, the most used first."""
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return [Function(row[0].removeprefix("T."), *map(int, row[1:])) for row in rows]


def page(table: list[Function]) -> str:
    """The text of the page."""
    counts = Counter(function.state for function in table)
    lines = [
        "# Coverage",
        "",
        "<!-- written by scripts/coverage_table.py; a test compares -->",
        "",
        "The table lists every function of the language (`T.*`) that real programs, examples or",
        "tests of the original use, with the number of files that use it. In the columns of HIP",
        "and Metal, *yes* means compiled for gfx942 and for Metal. The state is that of the other",
        "targets.",
        "",
        "| state | meaning | functions |",
        "| --- | --- | ---: |",
        *[f"| {state} | {text} | {counts[state]} |" for state, text in STATES.items()],
        "",
        "| function | programs | examples | tests | interpreter | CPU | CUDA | HIP | Metal | state "
        "| remark |",
        "| --- | ---: | ---: | ---: | :---: | :---: | :---: | :---: | :---: | --- | --- |",
        *[row(function) for function in table],
    ]
    return "\n".join(lines) + "\n"


def row(function: Function) -> str:
    """One line of the table."""
    there = function.support if function.state != "missing" else None
    support = there or Support(False, False)
    cells = (
        f"`T.{function.name}`",
        function.clients,
        function.examples,
        function.tests,
        "yes" if support.interpreter else "–",
        "yes" if support.cpu else "–",
        function.cuda,
        *map(function.on, gpu_cases.TARGETS),
        function.state,
        support.note.removeprefix("not there: ").replace("|", "\\|"),
    )
    return "| " + " | ".join(map(str, cells)) + " |"


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    text = page(functions())
    if not options.check:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
    print("docs/dev/coverage.md is", "current" if current else "old: run scripts/coverage_table.py")
    return int(not current)


if __name__ == "__main__":
    sys.exit(main())
