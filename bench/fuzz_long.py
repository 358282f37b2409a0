"""The long differential run: seeded random programs, interpreter against compiled C.

The interpreter itself is compared with the same text run as plain Python (`tests/fuzz/shadow`).
``python bench/fuzz_long.py --programs 20000 --seed 0`` prints progress, the smallest failing
program of each kind, and a summary. ``--only SEED`` repeats one program and shows its source;
``--target cuda`` compares with a GPU, ``--target emulator`` with the CUDA code, checked, on the
cores.
"""

# ruff: noqa: E402  # imports from the tests follow the line that finds them
from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
import traceback
from collections import Counter
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from fuzz.draws import SeededDraw  # found through the path above
from fuzz.model import Program
from fuzz.programs import make_program
from fuzz.running import Disagreement, check, numbered
from fuzz.shrinking import shrink

import tilelang
from tilelang.errors import TileError

SECONDS = 300  # a program that runs longer is killed, and reported as an error
TARGET = os.environ.get("FUZZ_TARGET", "cpu")  # inherited by the workers


def outcome(program: Program) -> tuple[str, str]:
    """("ok" | "differs" | "error", what happened); the text is the same for the same cause."""
    try:
        check(program, target=TARGET)
    except Disagreement as wrong:
        return "differs", str(wrong).split("\n", 1)[0]
    except TileError as refused:
        return "error", f"{type(refused).__name__}: {str(refused).strip().splitlines()[0]}"
    except Exception as crash:  # noqa: BLE001  # any crash is what this looks for
        last = traceback.extract_tb(crash.__traceback__)[-1]
        place = f"{Path(last.filename).name}:{last.name}"
        return "error", f"{type(crash).__name__} in {place}: {str(crash)[:120]}"
    return "ok", ""


def isolated(program: Program) -> tuple[str, str]:
    """:func:`outcome` in a process of its own, so that a crash is an outcome too."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        os.write(write, json.dumps(outcome(program))[:60_000].encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as answer:
        text = answer.read()
    _, status = os.waitpid(child, 0)
    if not text:
        return "error", f"the process was killed by signal {os.WTERMSIG(status)}"
    kind, detail = json.loads(text)
    return kind, detail


def run_seed(seed: int) -> tuple[int, str, str]:
    """One program by its number."""
    return (seed, *isolated(make_program(SeededDraw(seed))))


def prepare() -> None:
    """Settings of a worker; what its children need is imported once, before it forks."""
    tilelang.disable_cache()
    if TARGET == "cuda":
        import torch  # noqa: F401


def cause(kind: str, detail: str) -> str:
    """Failures with the same text here are shown once."""
    if kind == "differs":
        return kind
    return "".join("#" if char.isdigit() else char for char in detail)


def show(seed: int, kind: str, detail: str) -> None:
    """Print a failing program, made as small as it goes."""
    program = make_program(SeededDraw(seed))
    wanted = cause(kind, detail)

    def fails(candidate: Program) -> bool:
        return cause(*isolated(candidate)) == wanted

    small = shrink(program, fails)
    print(f"\n--- seed {seed}: {kind}: {isolated(small)[1]}\n{numbered(small.source)}\n")
    sys.stdout.flush()


def main() -> int:
    """Run, print, and give 1 when something failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0, help="number of the first program")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--show", type=int, default=20, help="failing programs to show at most")
    parser.add_argument("--only", type=int, help="run one program and show it")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--target", choices=("cpu", "cuda", "emulator"), default=TARGET)
    arguments = parser.parse_args()
    if arguments.target != TARGET:  # read again by this program and its workers
        os.environ["FUZZ_TARGET"] = arguments.target
        os.execv(sys.executable, [sys.executable, *sys.argv])
    tilelang.disable_cache()
    if arguments.only is not None:
        program = make_program(SeededDraw(arguments.only))
        print(numbered(program.source))
        print(*isolated(program))
        return 0
    return _all(arguments)


def _all(arguments: argparse.Namespace) -> int:
    began, counts = time.monotonic(), Counter[str]()
    shown: Counter[str] = Counter()
    seeds = range(arguments.seed, arguments.seed + arguments.programs)
    with get_context("spawn").Pool(arguments.workers, initializer=prepare) as pool:
        for seed, kind, detail in pool.imap_unordered(run_seed, seeds, chunksize=4):
            counts[kind] += 1
            if kind != "ok":
                key = cause(kind, detail)
                shown[key] += 1
                if shown[key] <= (5 if kind == "differs" else 1) and len(shown) <= arguments.show:
                    print(f"seed {seed}: {kind}: {detail}")
                    if not arguments.no_shrink:
                        show(seed, kind, detail)
            done = sum(counts.values())
            if done % 250 == 0 or done == arguments.programs:
                print(f"{done} programs, {counts['differs']} disagreements, {counts['error']} "
                      f"errors, {time.monotonic() - began:.0f} s", flush=True)  # fmt: skip
    print(f"\nprograms {sum(counts.values())}  agree {counts['ok']}  disagree "
          f"{counts['differs']}  errors {counts['error']}  seeds {seeds.start}..{seeds.stop - 1}  "
          f"{time.monotonic() - began:.0f} s")  # fmt: skip
    for key, number in shown.most_common():
        print(f"{number:6d}  {key}")
    return int(counts["differs"] + counts["error"] > 0)


if __name__ == "__main__":
    sys.exit(main())
