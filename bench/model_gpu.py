"""The analytic model's choice compared with all configurations, on a GPU.

    python bench/model_gpu.py measure [--only WORD ...] [--seconds 90] > FILE   # on a GPU
    python bench/model_gpu.py table FILE [FILE ...]                             # anywhere

``measure`` compiles every configuration of ``model_gpu_programs.py`` in one process per core,
checks each kernel beside torch, and measures those of a pair in turns: bursts of launches between
events, the L2 cache flushed before each, the least median of three bursts. It prints a line of JSON
for each pair: microseconds in the order of the configurations, null where one does not work.
``table`` asks the model of today for its choice among them; nothing is compiled or run for that.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from model_gpu_programs import Pair, pairs

import tilelang
from tilelang.autotuner.model import estimate
from tilelang.autotuner.prune import reason_to_skip
from tilelang.target import parse_target

TARGET = "cuda -arch=sm_90a"
TURNS, BURST = 3, 5
TOLERANCE = 3e-2  # relative, in the Frobenius norm


def words(config: dict[str, int]) -> str:
    """A configuration as its values."""
    return " x ".join(str(value) for value in config.values())


# -- on the GPU ------------------------------------------------------------------------------------
def kernel_of(pair: Pair, config: dict[str, int]) -> Any:
    """The kernel, from the cache or compiled."""
    func = pair.make(**config)
    return tilelang.compile(func, out_idx=-1, target=TARGET, pass_configs=pair.passes)


def prepared(job: tuple[int, int]) -> tuple[tuple[int, int], float, str]:
    """Compile one configuration into the cache: the job, seconds, and what went wrong."""
    begin, wrong = time.perf_counter(), ""
    pair = pairs()[job[0]]
    warnings.simplefilter("ignore")  # that a configuration is slow is what is found out
    try:
        func = pair.make(**pair.configs[job[1]])
        wrong = reason_to_skip(func, parse_target(TARGET)) or ""
        if not wrong:
            wrong = "" if kernel_of(pair, pair.configs[job[1]]).n_regs else "no registers"
    except Exception as error:  # noqa: BLE001 - becomes a row
        wrong = f"{type(error).__name__}: {str(error)[:120]}"
    return job, time.perf_counter() - begin, wrong


def prepare(wanted: Sequence[int], seconds: float) -> set[tuple[int, int]]:
    """Compile configurations of pairs on all cores, and give those that are there in time."""
    jobs = [(p, c) for p in wanted for c in range(len(pairs()[p].configs))]
    begin, took, done, wrong = time.monotonic(), 0.0, set(), {}
    with multiprocessing.Pool(os.cpu_count()) as pool:
        results = pool.imap_unordered(prepared, jobs)
        for _ in jobs:
            try:
                job, spent, why = results.next(seconds - (time.monotonic() - begin))
            except multiprocessing.TimeoutError:
                break
            took += spent
            if why:
                wrong.setdefault(f"{pairs()[job[0]].title.split()[0]} {why}", job)
            else:
                done.add(job)
        pool.terminate()
    print(f"# {len(done)} of {len(jobs)} compiled in {time.monotonic() - begin:.1f} s, "
          f"{took:.0f} s of cores", flush=True)  # fmt: skip
    for why, job in list(wrong.items())[:12]:
        print(f"# {words(pairs()[job[0]].configs[job[1]])}: {why}", flush=True)
    return done


def tensors(func: Any) -> list[Any]:
    """Small numbers for all tensors but the last."""
    import torch

    torch.manual_seed(0)
    inputs = []
    for buffer in func.buffers[:-1]:
        shape, kind = tuple(map(int, buffer.shape)), getattr(torch, str(buffer.dtype))
        if kind is torch.int8:
            inputs.append(torch.randint(-8, 8, shape, device="cuda", dtype=kind))
        else:
            inputs.append(torch.randn(*shape, device="cuda").to(kind))
    return inputs


def difference(result: Any, expected: Any) -> float:
    """Relative error in the Frobenius norm."""
    result, expected = result.float(), expected.float()
    return float((result - expected).norm() / expected.norm())


def burst(torch: Any, flush: Any, run: Callable[[], Any]) -> float:
    """Median microseconds of some launches."""
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(BURST)]
    for start, stop in events:
        flush.zero_()
        start.record()
        run()
        stop.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(stop) for start, stop in events) * 1e3


def measure(pair: Pair, ready: Iterable[int]) -> dict[str, Any]:
    """Microseconds of the configurations that are compiled."""
    import torch

    warnings.simplefilter("ignore")
    inputs = tensors(pair.make(**pair.configs[0]))
    wanted = pair.wanted(*inputs)
    flush = torch.empty(64 << 20, dtype=torch.int32, device="cuda")
    runs, wrong, times = {}, [], dict.fromkeys(range(len(pair.configs)), math.inf)
    for number in sorted(ready):
        kernel = kernel_of(pair, pair.configs[number])
        try:
            error = difference(kernel(*inputs), wanted)
        except Exception as failure:  # noqa: BLE001 - becomes a row
            torch.cuda.synchronize()  # raises where the context is lost
            wrong.append(f"{words(pair.configs[number])}: {str(failure)[:80]}")
            continue
        if error < TOLERANCE:
            runs[number] = lambda kernel=kernel: kernel(*inputs)
        else:
            wrong.append(f"{words(pair.configs[number])}: error {error:.3g}")
    for _ in range(TURNS):
        for number, run in runs.items():
            times[number] = min(times[number], burst(torch, flush, run))
    figures = [float(f"{time:.4g}") if time < math.inf else None for time in times.values()]
    return {"pair": pair.title, "us": figures, **({"wrong": wrong[:4]} if wrong else {})}


# -- anywhere --------------------------------------------------------------------------------------
def loss(pair: Pair, figures: Sequence[float | None]) -> tuple[int, int, float]:
    """The best configuration, the model's choice, and the time of that to the best's."""
    target = parse_target(TARGET)
    there = [number for number, value in enumerate(figures) if value is not None]
    best = min(there, key=lambda number: figures[number] or math.inf)
    ranked = [(estimate(pair.make(**pair.configs[n]), target).milliseconds, n) for n in there]
    choice = min(ranked)[1]
    return best, choice, (figures[choice] or math.inf) / (figures[best] or math.inf)


def table(files: Sequence[Path]) -> None:
    """Print the model's choices beside the best; several files are measurements to be joined."""
    known: dict[str, list[list[float | None]]] = {}
    for file in files:
        for line in file.read_text(encoding="utf-8").splitlines():
            if line.startswith("{"):
                row = json.loads(line)
                known.setdefault(row["pair"], []).append(row["us"])
    print("| program | configurations | best | the model's choice | us, best | loss |")
    print("| --- | --- | --- | --- | --- | --- |")
    losses = []
    for pair in pairs():
        if pair.title not in known:
            continue
        figures = [min((v for v in values if v is not None), default=None)
                   for values in zip(*known[pair.title])]  # fmt: skip
        best, choice, times = loss(pair, figures)
        losses.append(times)
        count = sum(value is not None for value in figures)
        print(f"| {pair.title} | {count} | {words(pair.configs[best])} "
              f"| {words(pair.configs[choice])} | {figures[best]} | {times:.2f} |")  # fmt: skip
    middle, worst = statistics.median(losses), max(losses)
    print(f"\nmedian {middle:.3f}, worst {worst:.2f}, {len(losses)} pairs")


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("do", choices=("measure", "table"))
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--seconds", type=float, default=90.0, help="for compiling")
    options = parser.parse_args()
    if options.do == "table":
        table(options.files)
        return
    wanted = [at for at, pair in enumerate(pairs())
              if not options.only or any(part in pair.title for part in options.only)]  # fmt: skip
    ready = prepare(wanted, options.seconds)
    begin = time.monotonic()
    for position, at in enumerate(wanted):
        try:
            record = measure(pairs()[at], [number for p, number in ready if p == at])
        except Exception as failure:  # noqa: BLE001 - the context is lost: the rest in a new process
            print(f"# {pairs()[at].title}: {str(failure)[:200]}", flush=True)
            rest = [pairs()[later].title for later in wanted[position + 1 :]]
            if rest:
                os.execv(sys.executable, [sys.executable, __file__, "measure", "--only", *rest])
            return
        print(json.dumps(record, separators=(",", ":")), flush=True)
    print(f"# measured in {time.monotonic() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    main()
