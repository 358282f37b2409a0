"""The long differential run: seeded random programs, interpreter against compiled C.

The interpreter itself is compared with the same text run as plain Python (`tests/fuzz/shadow`).
``python bench/fuzz_long.py --programs 20000 --seed 0`` prints progress, the smallest failing
program of each kind, and a summary. ``--only SEED`` repeats one program and shows its source;
``--target cuda`` compares with a GPU, ``--target emulator`` with the CUDA code, checked, on the
cores, ``--target sm_90a``, ``gfx942`` or ``gfx1100`` with the code for one chip in the same way,
``--target metal`` with Metal code; what that refuses, for a dtype that it has not, is counted.
``--hopper`` makes programs for Hopper's units (products in pipelines) instead, for ``cuda`` on such
a GPU or ``emulator``; ``--accumulators`` loops whose iterations update the same elements;
``--chains`` loops that exchange elements between threads.

The C text is the same for all processors, so other builds of it are tested, too:
``--compiler clang-19`` names another C compiler, ``--arch x86-64-v2`` another processor that this
machine can run. With ``--runner`` each program becomes an executable that another command runs:
``--arch armv8-a --compiler aarch64-linux-gnu-gcc --runner qemu-aarch64-static``; with
``--runner none`` it is only built, for what nothing here can run (``--arch x86-64-v4``).
"""

# ruff: noqa: E402  # imports from the tests follow the line that finds them
from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from fuzz.accumulators import make_accumulators
from fuzz.chains import make_chains
from fuzz.cross import Cross  # found through the path above
from fuzz.draws import SeededDraw
from fuzz.hopper import make_hopper
from fuzz.model import Disagreement, Program, numbered
from fuzz.programs import make_program
from fuzz.running import check
from fuzz.shrinking import shrink

from tilelang.errors import TileError, TileUnsupportedError

BATCH = 20  # programs in a process, while nothing fails: a GPU's context takes long to make
SECONDS = 300  # of processor time: a program that takes more is killed, and reported as an error
WAITING = 10  # times as long for a program that waits: for others on the machine, or for ever
WARM = """import tilelang.language as T
@T.prim_func
def main():
    with T.Kernel(1, threads=1) as bx:
        pass
"""
TARGET = os.environ.get("FUZZ_TARGET", "cpu")  # inherited by the workers
MAKERS = {
    "": make_program,
    "hopper": make_hopper,
    "accumulators": make_accumulators,
    "chains": make_chains,
}
KIND = os.environ.get("FUZZ_KIND", "")
ARCH, RUNNER = os.environ.get("FUZZ_ARCH", ""), os.environ.get("FUZZ_RUNNER", "")


def made(seed: int) -> Program:
    """The program of one number."""
    return MAKERS[KIND](SeededDraw(seed))


def cross() -> Cross | None:
    """The other machine that is asked for."""
    runner = "" if RUNNER == "none" else RUNNER
    return Cross(ARCH, os.environ.get("CC", "cc"), runner) if RUNNER else None


def outcome(program: Program) -> tuple[str, str]:
    """("ok" | "differs" | "error", what happened); the text is the same for the same cause."""
    try:
        check(program, target=f"cpu -arch={ARCH}" if ARCH else TARGET, cross=cross())
    except Disagreement as wrong:
        return "differs", str(wrong).split("\n", 1)[0]
    except TileUnsupportedError as refused:
        kind = "refused" if TARGET == "metal" else "error"
        return kind, f"{type(refused).__name__}: {str(refused).strip().splitlines()[0]}"
    except TileError as refused:
        return "error", f"{type(refused).__name__}: {str(refused).strip().splitlines()[0]}"
    except Exception as crash:  # noqa: BLE001  # any crash is what this looks for
        last = traceback.extract_tb(crash.__traceback__)[-1]
        location = f"{Path(last.filename).name}:{last.name}"
        return "error", f"{type(crash).__name__} in {location}: {str(crash)[:120]}"
    return "ok", ""


def isolated(programs: list[Program]) -> list[tuple[str, str]]:
    """:func:`outcome` of each in a process of its own, so that a crash is an outcome too.

    The process ends with the first program that is not "ok"; the others get another one.
    """
    done: list[tuple[str, str]] = []
    while len(done) < len(programs):
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            _report(programs[len(done) :], write)
        os.close(write)
        with os.fdopen(read, "rb") as answers:
            done += [tuple(json.loads(line)) for line in answers.read().splitlines()]
        _, status = os.waitpid(child, 0)
        if status:
            done.append(("error", f"the process was killed by signal {os.WTERMSIG(status)}"))
    return done


def _report(programs: list[Program], write: int) -> NoReturn:
    """In the child: a line for each program, up to the first that fails."""
    _, most = resource.getrlimit(resource.RLIMIT_CPU)
    for program in programs:
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + SECONDS, most))
        signal.alarm(WAITING * SECONDS)
        kind, detail = outcome(program)
        os.write(write, json.dumps([kind, detail[:3000]]).encode() + b"\n")
        if kind not in ("ok", "refused"):
            break
    os._exit(0)


def run_seeds(seeds: list[int]) -> list[tuple[int, str, str]]:
    """Programs by their numbers."""
    outcomes = isolated([made(seed) for seed in seeds])
    return [(seed, kind, detail) for seed, (kind, detail) in zip(seeds, outcomes, strict=True)]


def prepare() -> None:
    """Settings of a worker; what its children need is imported once, before it forks."""
    if TARGET == "cuda":
        import torch  # noqa: F401
    elif (
        not RUNNER
    ):  # one block: the launcher is loaded, and no threads are there that a fork would lose
        warm = Program(source=WARM, kernels=[[]])
        outcome(warm) if TARGET == "cpu" else isolated([warm])


def cause(kind: str, detail: str) -> str:
    """Failures with the same text here are shown once."""
    if kind == "differs":
        return kind
    return "".join("#" if char.isdigit() else char for char in detail)


def show(seed: int, kind: str, detail: str) -> None:
    """Print a failing program, made as small as it goes."""
    program = made(seed)
    wanted = cause(kind, detail)

    def fails(candidate: Program) -> bool:
        return cause(*isolated([candidate])[0]) == wanted

    small = shrink(program, fails)
    print(f"\n--- seed {seed}: {kind}: {isolated([small])[0][1]}\n{numbered(small.source)}\n")
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
    parser.add_argument(
        "--target",
        choices=("cpu", "cuda", "emulator", "sm_90a", "gfx942", "gfx1100", "metal"),
        default=TARGET,
    )
    for kind in filter(None, MAKERS):
        parser.add_argument(f"--{kind}", dest="kind", action="store_const", const=kind)
    parser.set_defaults(kind=KIND)
    parser.add_argument("--arch", default=ARCH, help="the processor to build for, of --target cpu")
    parser.add_argument("--compiler", default=os.environ.get("CC", ""), help="the C compiler")
    parser.add_argument("--runner", default=RUNNER, help="what runs the executables, or none")
    arguments = parser.parse_args()
    wanted = {"FUZZ_TARGET": arguments.target, "FUZZ_ARCH": arguments.arch,
              "CC": arguments.compiler, "FUZZ_RUNNER": arguments.runner,
              "FUZZ_KIND": arguments.kind}  # fmt: skip
    wanted = {name: value for name, value in wanted.items() if value}
    if any(os.environ.get(name, "") != value for name, value in wanted.items()) and (
        wanted != {"FUZZ_TARGET": TARGET}
    ):  # read again by this program and its workers
        os.environ |= wanted
        os.execv(sys.executable, [sys.executable, *sys.argv])
    if arguments.only is not None:
        program = made(arguments.only)
        print(numbered(program.source))
        print(*isolated([program])[0])
        return 0
    if "TILELANG_CACHE_DIR" in os.environ:
        return _all(arguments)
    with tempfile.TemporaryDirectory() as folder:  # for the launcher and the emulator's runtime
        os.environ["TILELANG_CACHE_DIR"] = folder
        return _all(arguments)


def _all(arguments: argparse.Namespace) -> int:
    began, counts = time.monotonic(), Counter[str]()
    shown: Counter[str] = Counter()
    seeds = range(arguments.seed, arguments.seed + arguments.programs)
    with get_context("spawn").Pool(arguments.workers, initializer=prepare) as pool:
        batches = [list(seeds[at : at + BATCH]) for at in range(0, len(seeds), BATCH)]
        answers = chain.from_iterable(pool.imap_unordered(run_seeds, batches))
        for seed, kind, detail in answers:
            counts[kind] += 1
            if kind not in ("ok", "refused"):
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
          f"{counts['differs']}  errors {counts['error']}  refused {counts['refused']}  "
          f"seeds {seeds.start}..{seeds.stop - 1}  "
          f"{time.monotonic() - began:.0f} s")  # fmt: skip
    for key, number in shown.most_common():
        print(f"{number:6d}  {key}")
    return int(counts["differs"] + counts["error"] > 0)


if __name__ == "__main__":
    sys.exit(main())
