"""How many planted synchronisation defects the emulator finds.

``python bench/mutate.py`` takes the generated CUDA text of the examples' and benchmarks' kernels at
small sizes, changes one synchronisation at a time and checks each mutant with
``tilelang.sanitize``: barriers and fences removed, waits removed or weakened, commits, arrivals and
expected bytes removed or changed, phases flipped, stage indices shifted. Beside it stands what
comparing numbers finds.

A mutant counts as equivalent, and not at all, only by one of these rules:

* code: the mutant's text compiles to the same machine code as the original (NVRTC, if present).
* wait: whatever copies a wait of the original covers, the mutant's wait covers too. Counters in the
  text itself, in every thread, establish that.
* doubled: no thread accesses shared or global memory between this barrier and another one that
  all threads pass right before or after it, but for making other barriers in memory ready; a fence
  after which the same thread fences again before any use.
* apart: the exact bytes that threads touch around the barrier, as a recorder of its own notes them
  (``mutate_proof.py``), hold none that one thread writes and another touches.
* last: the barrier stands in no loop that comes back to it, and behind it no shared buffer is named
  and no tensor that is written and that was named before it.
"""

# ruff: noqa: E402  # imports from the tests follow the line that finds them
from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "emulator"), str(ROOT / "bench"), str(ROOT / "tests" / "cuda")]

from captured import EXAMPLES, Case, as_results, capturing, example_cases, load_example
from mutate_proof import keeps_order, orders_nothing

import tilelang
from tilelang.compiler import compile as compile_source
from tilelang.errors import CompileError, TileError
from tilelang.target import parse_target

STEPS = 4_000_000  # switches after which a mutant counts as hanging
SEEDS = 2  # random runs of each mutant

_SHARED = re.compile(r"\* const (\w+) = \(\w+\*\)\(tl_smem|__shared__ .*?(\w+)(?:\[\d+\])+;")
_POINTER = re.compile(r"(?<!const )(\w+)\* (?:__restrict__ )?(\w+)[,)]")
_COUNTED = re.compile(
    r"\b(tl_cp_async_wait|tl_bulk_wait|tl_bulk_wait_read|tl_wgmma_wait)<(\d+)>\(\);"
)
_REMOVED = re.compile(
    r"^\s*(?:__syncthreads|__syncwarp|__threadfence\w*|tl_sync_grid|tl_bar_sync|tl_bar_arrive|"
    r"tl_cp_async_commit|tl_bulk_commit|tl_wgmma_commit|tl_wgmma_fence|tl_fence_\w+|"
    r"tl_mbarrier_arrive\w*|tl_mbarrier_expect_tx|tl_mbarrier_wait|tl_cp_async_mbarrier_\w+|"
    r"tl_cluster_\w+|tl_tcgen05_(?:commit|fence|wait)\w*)\(.*\);$"
)
_NAMED = re.compile(r"\b(tl_bar_sync|tl_bar_arrive)\((.+), (\d+)\);")
_BYTES = re.compile(r"\b(tl_mbarrier_(?:arrive_)?expect_tx)\((.+), (\d+)\);")
_PHASE = re.compile(r"\btl_mbarrier_wait\((.+), ([^,]+)\);")
_INIT = re.compile(r"\btl_mbarrier_init\((.+), (\d+)\);")


@dataclass(frozen=True)
class Mutant:
    """A text with one synchronisation changed."""

    kind: str
    line: int  # of the text, from 1
    source: str
    before: str
    after: str


@dataclass
class Score:
    """What became of the mutants of one kernel."""

    name: str
    found: int = 0
    numbers: int = 0
    either: int = 0
    total: int = 0
    equivalent: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)


# -- mutants ---------------------------------------------------------------------------------------
def mutants(source: str) -> Iterator[Mutant]:
    """Every mutant of a generated text."""
    lines = source.splitlines()
    loops = pipelined(lines)
    for number, line in enumerate(lines):
        for kind, new in changes(line, loops):
            text = "\n".join([*lines[:number], new, *lines[number + 1 :]]) + "\n"
            yield Mutant(kind, number + 1, text, line.strip(), new.strip())


def changes(line: str, loops: set[str]) -> Iterator[tuple[str, str]]:
    """Kind and new text of every change of one line."""
    found = _COUNTED.search(line)
    if found is not None:
        yield f"remove {found[1]}", line[: found.start()] + ";" + line[found.end() :]
        weaker = f"{found[1]}<{int(found[2]) + 1}>();"
        yield f"weaken {found[1]}", line[: found.start()] + weaker + line[found.end() :]
    elif _REMOVED.match(line):
        name = line.strip().split("(")[0]
        yield f"remove {name}", line[: len(line) - len(line.lstrip())] + ";"
    for pattern, kind, deltas in (
        (_NAMED, "count", (-32, 32)),
        (_BYTES, "bytes", (-16, 16)),
        (_INIT, "arrivals", (-1, 1)),
    ):
        found = pattern.search(line)
        if found is not None:
            at = found.start(found.lastindex), found.end(found.lastindex)
            for delta in deltas:
                value = int(line[at[0] : at[1]]) + delta
                if value > 0:
                    yield f"{kind} {delta:+d}", line[: at[0]] + str(value) + line[at[1] :]
    found = _PHASE.search(line)
    if found is not None:
        yield "flip phase", line[: found.start(2)] + f"({found[2]}) ^ 1" + line[found.end(2) :]
    yield from stages(line, loops)


def stages(line: str, loops: set[str]) -> Iterator[tuple[str, str]]:
    """The stage that a line uses, one further."""
    if line.lstrip().startswith("for "):
        return
    held = re.search(r"stage\w* = (\w+) % (\d+);", line)
    if held is not None:
        at = held.start(1), held.end()
        new = f"({held[1]} + 1) % {held[2]};"
        yield "shift stage", line[: at[0]] + new + line[at[1] :]
    for name in loops:
        if ":" in name:  # a remainder that is counted
            phase, depth = name.split(":")
            stage = re.compile(rf"\b{phase}(?= \* \d+)")
            if stage.search(line):
                yield "shift stage", stage.sub(f"({phase} + 1) % {depth}", line)
            continue
        stage = re.compile(rf"(?:\({name} \+ (\d+)\)|\b{name}) % (\d+)(?= \* \d+)")
        found = stage.search(line)
        if found is not None:
            depth, ahead = found[2], int(found[1] or 0)
            yield "shift stage", stage.sub(f"({name} + {ahead + 1}) % {depth}", line)


def pipelined(lines: list[str]) -> set[str]:
    """Variables of loops that wait for copies; ``name:size`` for a remainder that they count."""
    found, open_loops = set(), []
    for line in lines:
        head = re.match(r"(\s*)for \(\w+ (\w+) = ", line)
        depth = len(line) - len(line.lstrip())
        open_loops = [(at, name) for at, name in open_loops if at < depth or line.strip() == ""]
        if head is not None:
            open_loops.append((len(head[1]), head[2]))
            size = re.search(r"== (\d+) \? 0 :", line)
            if size is not None:
                counted = re.findall(r", (\w+) = \d+", line.split(";")[0])
                found |= {f"{name}:{int(size[1]) + 1}" for name in counted}
        if "_wait" in line and open_loops:
            found.add(open_loops[-1][1])
    return found


# -- equivalence -----------------------------------------------------------------------------------
_MEMORY = re.compile(
    r"\[|tl_cp_|tl_copy|tl_ldmatrix|tl_stmatrix|tl_shfl|tl_warp|tl_thread|tl_atomic|\*\("
)


# Between two barriers a thread may make barriers in memory ready that nobody has used.
_READY = re.compile(
    r"tl_mbarrier_init\(|tl_fence_barrier_init\(|if \(.*threadIdx.x == 0\) \{$|\}$|\* const \w+ =|"
    r"= tl_block_rank_in_cluster\(\)"
)


def fence_is_doubled(source: str, line: int) -> bool:
    """Whether the thread that makes barriers in memory ready fences again before any use."""
    for text in map(str.strip, source.splitlines()[line:]):
        if text.startswith("tl_fence_barrier_init("):
            return True
        if not (_READY.search(text) or text == "__syncthreads();" or text.startswith("//")):
            return False
    return False


def barrier_is_doubled(source: str, line: int) -> bool:
    """Whether a barrier stands next to another one with no access of memory between them."""
    lines = source.splitlines()
    for step in (1, -1):
        at = line - 1 + step
        while 0 <= at < len(lines):
            text = lines[at].strip()
            if text in ("__syncthreads();", "tl_cluster_sync();"):
                return True
            if _READY.search(text):
                at += step
                continue
            if text and not text.startswith("//") and (_MEMORY.search(text) or text[-1] in "{}"):
                break
            at += step
    return False


def barrier_is_last(source: str, line: int) -> bool:
    """Whether nothing behind a barrier meets what stands before it."""
    lines = source.splitlines()
    start = max(n for n in range(line) if "__global__" in lines[n])
    end = next((n for n in range(line, len(lines)) if lines[n] == "}"), len(lines))
    depth = len(lines[line - 1]) - len(lines[line - 1].lstrip())
    for number in range(line - 2, start, -1):
        text = lines[number]
        at = len(text) - len(text.lstrip())
        if text.strip() and at < depth:
            depth = at
            if re.match(r"\s*(?:for|while)\b", text) and not re.search(r"= 0; \w+ < 1;", text):
                return False
    before, after = "\n".join(lines[start + 1 : line - 1]), "\n".join(lines[line:end])
    shared = {name for pair in _SHARED.findall("\n".join(lines)) for name in pair if name}
    shared |= {"tl_thread_allreduce", "tl_smem"}
    words = set(re.findall(r"\w+", after))
    tensors = {name for _, name in _POINTER.findall(lines[start])}
    return not words & shared and not words & tensors & set(re.findall(r"\w+", before))


def same_code(original: str, mutant: str, arch: str) -> bool:
    """Whether both texts compile to the same machine code."""
    from tilelang.cuda.nvrtc import find_nvrtc
    from tilelang.cuda.toolchain import compile_cubin

    if find_nvrtc() is None:
        return False
    try:
        codes = [text_section(compile_cubin(text, arch).cubin) for text in (original, mutant)]
    except CompileError:
        return False
    return codes[0] == codes[1]


def text_section(cubin: bytes) -> list[bytes]:
    """The instructions in an image: its sections named .text.*."""
    import struct

    start = struct.unpack_from("<Q", cubin, 40)[0]
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    heads = [struct.unpack_from("<IIQQQQIIQQ", cubin, start + n * size) for n in range(count)]
    strings = heads[names][4]
    found = []
    for head in heads:
        name = cubin[strings + head[0] : cubin.index(b"\0", strings + head[0])]
        if name.startswith(b".text."):
            found.append(cubin[head[4] : head[4] + head[5]])
    return found


def waits_for_as_much(case: Case, source: str, mutant: Mutant, arch: str) -> bool:
    """Whether every wait of the mutant covers every copy that the original's wait covers.

    Every thread notes, in the text itself, to which group each of its copies belongs in either
    text, and traps at a wait that covers a copy in the original only.
    """
    commit = mutant.before == "tl_cp_async_commit();"
    found = _COUNTED.search(mutant.before)
    if not commit and (found is None or found[1] != "tl_cp_async_wait"):
        return False
    weaker = _COUNTED.search(mutant.after)
    lines = source.splitlines()
    for number, line in enumerate(lines, 1):
        here = number == mutant.line
        wait = _COUNTED.search(line)
        if wait is not None:
            left = (weaker[2] if weaker is not None else "-1") if here else wait[2]
            lines[number - 1] = line.replace(wait[0], f"tl_log.wait({wait[2]}, {left}); {wait[0]}")
        text = "tl_cp_async_commit();"
        lines[number - 1] = lines[number - 1].replace(
            text, f"tl_log.commit({int(not here)}); {text}"
        )
        if "__global__" in line:
            lines[number - 1] += " tl_mutant_log tl_log;"
    text = "\n".join(lines) + "\n"
    text = re.sub(r"\btl_cp_async_(\d+)(_zfill)?\(", r"tl_log.copy(), tl_cp_async_\1\2(", text)
    head = text.index('extern "C" __global__')
    text = text[:head] + _LOG + text[head:]
    return bool(run(case, text, arch, checks=("alignment",), seeds=1, schedule="fifo").ok)


_LOG = """
struct tl_mutant_log {
    int ours = 0, theirs = 0, count = 0, group[256], other[256];
    void copy() {
        if (count == 256) __trap();
        group[count] = ours;
        other[count++] = theirs;
    }
    void commit(int both) { ++ours; theirs += both; }
    void wait(int left, int their_left) {
        int kept = 0;
        for (int i = 0; i < count; ++i) {
            const bool covered = their_left >= 0 && other[i] < theirs - their_left;
            if (group[i] < ours - left && !covered) __trap();
            if (!covered) { group[kept] = group[i]; other[kept++] = other[i]; }
        }
        count = kept;
    }
};
"""


def equivalent(case: Case, source: str, mutant: Mutant, arch: str) -> str:
    """The rule by which a mutant means the same, or ""."""
    if mutant.before == "__syncthreads();" and barrier_is_doubled(source, mutant.line):
        return "doubled"
    if "fence_barrier_init" in mutant.before and fence_is_doubled(source, mutant.line):
        return "doubled"
    if "__sync" in mutant.before and barrier_is_last(source, mutant.line):
        return "last"
    if "tl_cp_async" in mutant.before and waits_for_as_much(case, source, mutant, arch):
        return "wait"
    if mutant.before == "__syncthreads();" and orders_nothing(case, source, mutant.line, arch):
        return "apart"
    return "code" if same_code(source, mutant.source, arch) else ""


# -- running ---------------------------------------------------------------------------------------
def run(case: Case, source: str, arch: str, **options: Any) -> Any:
    """The report on a text."""
    kernel = case.kernel(f"cuda -arch={arch}", "interpret")
    return tilelang.sanitize(kernel, *case.args, source=source, steps=STEPS, **options)


def differs(case: Case, report: Any) -> bool:
    """Whether a run gave other numbers than the interpreter, or none."""
    if report.runs and report.of_kind("deadlock") + report.of_kind("step-bound"):
        return True
    if report.of_kind("crash") + report.of_kind("trap"):
        return True
    found = as_results(report.outputs, report.arguments)
    if len(found) != len(case.results):
        return True
    for a, b in zip(found, case.results):
        if not np.allclose(numbers(a), numbers(b), rtol=1e-2, atol=1e-2, equal_nan=True):
            return True
    return False


def numbers(array: np.ndarray) -> np.ndarray:
    """What an array stands for; codes of 16 bits are bfloat16."""
    if array.dtype == np.uint16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return array.astype(np.float64)


def examine(case: Case, arch: str, verbose: bool) -> Score:
    """Check every mutant of a kernel."""
    score = Score(case.name)
    source = compile_source(case.func, parse_target(f"cuda -arch={arch}")).source
    clean = run(case, source, arch, seeds=SEEDS)
    if not clean.ok:
        print(f"!! {case.name} itself: {clean}")
    for mutant in mutants(source):
        try:
            report = run(case, mutant.source, arch, seeds=SEEDS, checks=("races", "bounds"))
            plain = [
                run(case, mutant.source, arch, seeds=1, schedule=schedule, checks=("alignment",))
                for schedule in ("fifo", "random")
            ]
        except TileError as refused:
            print(f"!! {case.name}:{mutant.line} {mutant.kind}: {refused}")
            continue
        same = "" if not report.ok else equivalent(case, source, mutant, arch)
        label = f"{case.name}:{mutant.line} {mutant.kind}: {mutant.before} -> {mutant.after}"
        if same:
            score.equivalent[same] += 1
        else:
            score.total += 1
            score.found += not report.ok
            wrong = any(differs(case, item) for item in plain)
            score.numbers += wrong
            score.either += wrong or not report.ok
            score.kinds[mutant.kind] += 1
            if report.ok:
                why = " (its numbers are wrong" if wrong else " ("
                if keeps_order(case, mutant.source, arch):
                    why += ", all its accesses are in order"
                score.missed.append(f"{label}{why})")
        if verbose:
            verdict = f"equivalent ({same})" if same else "missed" if report.ok else "found"
            kinds = ", ".join(sorted({item.kind for item in report.findings}))
            print(f"   {verdict:20} {label}  {kinds}", flush=True)
    return score


def benchmark_cases() -> list[Case]:
    """Kernels of the GPU benchmarks at small sizes; they need torch to be imported."""
    try:
        import h200
    except ImportError:
        return []
    rng = np.random.default_rng(0)

    def brain(*shape: int) -> np.ndarray:
        """bfloat16 numbers as codes."""
        return (rng.standard_normal(shape).astype(np.float32).view(np.uint32) >> 16).astype(
            np.uint16
        )

    def half(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float16)

    def gemm(size: int, *rest: int) -> Any:
        return h200.gemm(size, *rest)(brain(size, size), brain(size, size))

    def grouped() -> Any:
        """The example with more steps than stages, so that a stage comes again."""
        groups, rows = 4, 16
        starts = np.arange(0, groups * rows + 1, rows, dtype=np.int32)
        tiles = np.arange(groups, dtype=np.int32)
        kernel = load_example("grouped_gemm").make("interpret")(groups, 48, 136, rows)
        return kernel(half(groups * rows, 136), half(groups, 136, 48), starts, tiles, starts[:-1])

    def dequant() -> Any:
        kernel = h200.dequant(64, 64, 128, 64, 64, 64, 2, 128)
        codes = rng.integers(0, 256, (64, 64)).astype(np.uint8)
        return kernel(half(64, 128), codes, half(64, 2))

    made: list[tuple[str, Callable[[], Any]]] = [
        ("bench add", lambda: h200.add(32, 256, 8, 128, 128)(brain(32, 256), brain(32, 256))),
        ("bench softmax", lambda: h200.softmax(8, 1024, 1, 256)(brain(8, 1024))),
        ("bench rmsnorm", lambda: h200.rmsnorm(8, 1024, 1, 256)(brain(8, 1024), brain(1024))),
        ("bench transpose", lambda: h200.transpose(128, 64, 64, 256)(brain(128, 64))),
        ("bench gemm 3 stages", lambda: gemm(128, 64, 64, 32, 3, 128)),
        ("bench gemm 2 stages", lambda: gemm(128, 64, 64, 32, 2, 128)),
        ("bench gemm 4 stages", lambda: gemm(256, 128, 128, 32, 4, 256)),
        ("bench attention", lambda: h200.attention(1, 2, 128, 64, 64, 32, 2, 128)(
            half(1, 128, 2, 64), half(1, 128, 2, 64), half(1, 128, 2, 64))),
        ("bench attention 1 stage", lambda: h200.attention(1, 1, 128, 64, 64, 64, 1, 128)(
            half(1, 128, 1, 64), half(1, 128, 1, 64), half(1, 128, 1, 64))),
        ("bench dequant", dequant),
        ("grouped_gemm long", grouped),
    ]  # fmt: skip
    found: list[Case] = []
    for name, call in made:
        with capturing(name, found):
            call()
    return found


def word_cases() -> list[Case]:
    """Programs in single instructions of Hopper: tensor maps, barriers in memory, warpgroups."""
    import word_programs

    found = []
    for name in ("gemm", "persistent", "boxes", "cluster", "product_float16"):
        entry = word_programs.PROGRAMS[name]
        if name == "gemm":  # so many steps that every stage comes again
            make, shapes = word_programs.gemm, ((128, 640), (128, 640), (128, 128))
            data = word_programs._matrices_of("half", *shapes)
            entry = replace(entry, make=partial(make, 128, 128, 640), data=data)
        stored, kinds, values = word_programs.arguments(entry)
        case = Case(f"words {name}", entry.make(), (), tuple(stored), (), entry.arch)
        source = compile_source(case.func, parse_target(f"cuda -arch={entry.arch}")).source
        after = run(case, source, entry.arch, seeds=1, schedule="fifo", checks=("bounds",))
        assert not word_programs.wrong(entry, after.arguments, kinds, values), name
        found.append(replace(case, results=as_results(None, after.arguments)))
    return found


def main() -> int:
    """Run, print a table, and give 1 when a kernel falls short."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="names of kernels, separated by commas")
    parser.add_argument("--arch", default="sm_80")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    wanted = arguments.only.split(",") if arguments.only else None
    names = [name for name in EXAMPLES if name != "grouped_gemm"]  # which comes longer below
    cases = [example_cases(name)[0] for name in names if wanted is None or name in wanted]
    cases += [case for case in benchmark_cases() if wanted is None or case.name in wanted]
    cases += [case for case in word_cases() if wanted is None or case.name in wanted]
    began, scores = time.monotonic(), []
    print(f"{'kernel':26} {'mutants':>8} {'found':>6} {'by numbers':>11} {'either':>7}  equivalent")
    for case in cases:
        score = examine(case, case.arch or arguments.arch, arguments.verbose)
        scores.append(score)
        same = ", ".join(f"{n} {rule}" for rule, n in sorted(score.equivalent.items()))
        print(
            f"{score.name:26} {score.total:8} {score.found:6} {score.numbers:11} "
            f"{score.either:7}  {same}",
            flush=True,
        )
    total, found = sum(s.total for s in scores), sum(s.found for s in scores)
    numbers, either = sum(s.numbers for s in scores), sum(s.either for s in scores)
    shares = [f"{100 * part / max(1, total):.1f} %" for part in (found, numbers, either)]
    print(f"{'all':26} {total:8} {found:6} {numbers:11} {either:7}")
    print("found by checks {}, by numbers {}, by either {}".format(*shares), end="")
    print(f"; {time.monotonic() - began:.0f} s")
    for score in scores:
        for label in score.missed:
            print("missed", label)
    if arguments.json:
        arguments.json.write_text(json.dumps([vars(score) for score in scores], indent=1))
    return int(found < 0.99 * total)


if __name__ == "__main__":
    sys.exit(main())
