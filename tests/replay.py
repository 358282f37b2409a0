"""Programs whose generated text is remembered, so that a change of the compiler shows what it changes.

The programs are every example, the kernels of the benchmarks, the corpus, the programs in single
instructions, and random ones. For each and each target a line of a golden file holds the hash of
the generated text, in which comments number the lines of the program from the first one named, or
the kind of error where the target refuses the program. ``test_replay.py`` compares;
``scripts/replay.py`` also writes the texts themselves, to be compared with ``diff -r``.

Every program is compiled for ``TARGETS``. AMD's and Apple's GPUs (``OTHER_GPUS``) share nearly all
passes with NVIDIA's, so they get the examples, the kernels of ``bench/compile_time.py`` and, of the
other groups, the quarter of the programs that a hash of the name picks (see :func:`for_other_gpus`).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tilelang.compiler import compile as compile_source
from tilelang.errors import TileError
from tilelang.ir.stmt import PrimFunc
from tilelang.jit import execution, kernel as jit_kernel
from tilelang.jit.compile import options_for
from tilelang.options import Options
from tilelang.target import parse_target

TESTS = Path(__file__).resolve().parent
BENCH = TESTS.parent / "bench"
TARGETS = {
    "cpu": "cpu",
    "sm_80": "cuda -arch=sm_80",
    "sm_90a": "cuda -arch=sm_90a",
    "sm_120": "cuda -arch=sm_120",
}
OTHER_GPUS = {"gfx942": "hip -mcpu=gfx942", "gfx1100": "hip -mcpu=gfx1100", "metal": "metal"}
FUZZ_SEEDS = 200
FUZZ_BATCH = 25


@dataclass(frozen=True)
class Replayed:
    """One program: its name in the golden file, its function, and how it is compiled for what."""

    name: str
    func: PrimFunc | TileError  # the error where it cannot be traced
    options: Options = Options()
    targets: tuple[str, ...] = tuple(TARGETS)


def texts(item: Replayed) -> dict[str, str]:
    """The generated text for each target; the kind of error where there is none."""
    known = TARGETS | OTHER_GPUS
    return {name: _text(item, known[name]) for name in item.targets}


def _text(item: Replayed, target: str) -> str:
    if isinstance(item.func, TileError):
        return type(item.func).__name__
    try:
        return compile_source(item.func, parse_target(target), item.options).source
    except TileError as error:
        return type(error).__name__


def line(item: Replayed) -> str:
    """The line of a program in its golden file."""
    shown = [f"{target}={_hash(_relative(text))}" for target, text in texts(item).items()]
    return " ".join([item.name, *shown])


def _relative(text: str) -> str:
    """``text`` with lines of the program by the order in which they first appear in comments, so that
    an edit above a program does not change its hash."""
    numbers: dict[str, int] = {}
    return re.sub(
        r"(?m)^( *// [^ :]+):(\d+)$",
        lambda line: f"{line[1]}:{numbers.setdefault(line[2], len(numbers))}",
        text,
    )


def _hash(text: str) -> str:
    return text if text.isidentifier() else hashlib.sha256(text.encode()).hexdigest()[:12]


# -- where programs come from ----------------------------------------------------------------------
def groups() -> dict[str, Callable[[], list[Replayed]]]:
    """Makers of programs by the name of their golden file."""
    found: dict[str, Callable[[], list[Replayed]]] = {"words": _words, "cpu_bench": _cpu_bench}
    found["examples"] = partial(_on_other_gpus, _examples, True)
    found["compile_time"] = partial(_on_other_gpus, _compile_time, True)
    found["h200"] = partial(_on_other_gpus, _h200)
    for theme in _themes():
        found[f"corpus_{theme}"] = partial(_on_other_gpus, partial(_corpus, theme))
    for first in range(0, FUZZ_SEEDS, FUZZ_BATCH):
        found[f"fuzz_{first:03d}"] = partial(_on_other_gpus, partial(_fuzz, first))
    return found


def for_other_gpus(name: str) -> bool:
    """Whether a program of this name is compiled for AMD's and Apple's GPUs too: a quarter is, and
    new programs do not change which."""
    return zlib.crc32(name.encode()) % 4 == 0


def _on_other_gpus(make: Callable[[], list[Replayed]], every: bool = False) -> list[Replayed]:
    """The programs of a group, ``every`` one or the chosen ones for the other GPUs too."""
    more = (*TARGETS, *OTHER_GPUS)
    return [
        replace(item, targets=more) if every or for_other_gpus(item.name) else item
        for item in make()
    ]


@contextlib.contextmanager
def compiled(found: list[tuple[PrimFunc, Options]]) -> Iterator[None]:
    """Kernels that are compiled in this context run in the interpreter; their functions are noted."""
    build = execution.build

    def record(func: Any, out_idx: Any, target: Any, options: Any, backend: str) -> Any:
        found.append((func, options))
        return build(func, out_idx, parse_target("cpu"), options, "interpret")

    with patch.object(jit_kernel, "build", record):
        yield


def _named(name: str, found: list[tuple[PrimFunc, Options]]) -> list[Replayed]:
    """Different functions in the order in which they were compiled."""
    seen: dict[tuple[str, Options], PrimFunc] = {}
    for func, options in found:
        seen.setdefault((func.script(), options), func)
    return [
        Replayed(f"{name}.{number}" if number else name, func, options)
        for number, ((_, options), func) in enumerate(seen.items())
    ]


def _examples() -> list[Replayed]:
    from example_modules import NAMES, load

    made: list[Replayed] = []
    for name in NAMES:
        found: list[tuple[PrimFunc, Options]] = []
        with compiled(found), contextlib.redirect_stdout(io.StringIO()):
            load(name).main("interpret")
        made += _named(name, found)
    return made


def _words() -> list[Replayed]:
    sys.path.insert(0, str(TESTS / "cuda"))
    import ptx_programs

    return [Replayed(name, entry.make()) for name, entry in ptx_programs.PROGRAMS.items()]


def _compile_time() -> list[Replayed]:
    sys.path.insert(0, str(BENCH))
    import compile_time

    return [Replayed(name, make()) for name, make in compile_time.PROGRAMS.items()]


def _h200() -> list[Replayed]:
    """The benchmarks of the GPU with all their choices of tiles."""
    sys.path.insert(0, str(BENCH))
    import h200_choices

    made: list[Replayed] = []
    for name, (make, sizes, tiles) in h200_choices.PROGRAMS.items():
        found: list[tuple[PrimFunc, Options]] = []
        with compiled(found):
            for choice in tiles:
                make(*sizes, **choice)
        made += _named(name, found)
    return made


def _cpu_bench() -> list[Replayed]:
    """The benchmarks of the CPU, whose tiles are for cores; their inputs are torch's."""
    sys.path.insert(0, str(BENCH))
    import cpu_matrices
    import cpu_rows  # noqa: F401  # both enter their programs
    from cpu_cases import CASES

    made: list[Replayed] = []
    for name, make in CASES.items():
        found: list[tuple[PrimFunc, Options]] = []
        sys.modules.pop("main", None)  # an example, whose kernel another test may have compiled
        # The other contestants are not built: torch says that its quantised tensors will go.
        with compiled(found), patch.object(cpu_matrices, "quantised_products", lambda size: {}):
            make()
        made += _named(name.replace(" ", "_"), found)
    return [replace(item, targets=("cpu",)) for item in made]


def _themes() -> list[str]:
    own = ("__init__", "__main__", "registry", "test_corpus")
    return sorted(path.stem for path in (TESTS / "corpus").glob("*.py") if path.stem not in own)


def _corpus(theme: str) -> list[Replayed]:
    sys.path.insert(0, str(TESTS))
    importlib.import_module(f"corpus.{theme}")
    registry = importlib.import_module("corpus.registry")
    made: list[Replayed] = []
    for entry in registry.PROGRAMS.values():
        if entry.theme != theme:
            continue
        found: list[tuple[PrimFunc, Options]] = []
        with compiled(found):
            program = entry.make()
            if callable(program):
                program(registry.EXECUTORS["interpret"])
            else:
                extra = program[2] if len(program) > 2 else {}
                configs = extra.get("pass_configs"), extra.get("compile_flags")
                found.append((program[0], options_for(program[0], *configs, None)))
        made += _named(entry.name, found)
    return made


def _fuzz(first: int) -> list[Replayed]:
    sys.path.insert(0, str(TESTS))
    from fuzz.draws import SeededDraw
    from fuzz.programs import make_program
    from fuzz.running import load

    made: list[Replayed] = []
    for seed in range(first, first + FUZZ_BATCH):
        try:
            func = load(make_program(SeededDraw(seed)).source)
        except TileError as error:
            func = error
        made.append(Replayed(f"{seed:03d}", func))
    return made
