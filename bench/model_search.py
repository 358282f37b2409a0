"""The analytic model's choice compared with an exhaustive search on the cores, kernel by kernel.

    python bench/model_search.py prepare [--only WORD ...]        # compile all configurations
    python bench/model_search.py measure [--only WORD ...] --json FOLDER
    python bench/model_search.py choose --json FOLDER             # what the model of today takes
    python bench/model_search.py confirm --json FOLDER            # that beside the best, in turns
    python bench/model_search.py show --json FOLDER               # the table

A pair is a program and a shape; its configurations are those of ``configs="model"``. ``measure``
runs every configuration in turns, the best of them once more for longer, and keeps the shortest
call of each, since other work of the machine only ever slows down. Of so many configurations the
best is also the luckiest, so ``confirm`` runs it and the model's choice beside each other again:
``loss`` is the choice to the best there. One file for each pair, so that pairs may be measured one
at a time.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from model_programs import PAIRS, Pair

import tilelang
from tilelang.autotuner.model import configurations, estimate
from tilelang.ir.stmt import PrimFunc
from tilelang.target import parse_target

TARGET = parse_target("cpu")
FINALISTS = 8
TURNS = 4
Config = dict[str, int]


def choices(pair: Pair) -> list[tuple[Config, PrimFunc]]:
    """Every configuration with its traced program."""
    return [
        (config, pair.make(**config)) for config in configurations(pair.name, pair.free, TARGET)
    ]


def chosen(programs: Iterable[tuple[Config, PrimFunc]]) -> Config:
    """The configuration that the model takes."""
    ranked = [(estimate(func, TARGET).milliseconds, at) for at, (_, func) in enumerate(programs)]
    return list(programs)[min(ranked)[1]][0]


def compiled(programs: list[tuple[Config, PrimFunc]]) -> list[tuple[Config, Any]]:
    """The kernels; from the cache where it has them."""
    return [(config, tilelang.compile(func, target="cpu")) for config, func in programs]


def shortest(run: Callable[[], Any], seconds: float) -> float:
    """The shortest call within ``seconds``, three calls at least, in seconds."""
    run()  # what the one before has left in the caches disturbs this one
    best, begin, count = math.inf, time.perf_counter(), 0
    while True:
        start = time.perf_counter()
        run()
        end = time.perf_counter()
        best, count = min(best, end - start), count + 1
        if end - begin > seconds and count >= 3:
            return best


def measure(pair: Pair) -> dict[str, Any]:
    """Times of all configurations, and of the finalists for longer."""
    programs = choices(pair)
    kernels = compiled(programs)
    arrays = pair.arrays()
    runs = {str(config): (lambda kernel=kernel: kernel(*arrays)) for config, kernel in kernels}
    times = dict.fromkeys(runs, math.inf)
    names = list(runs)
    for number, seconds in enumerate((0.02,) * TURNS + (0.1,) * TURNS):
        if number == TURNS:  # the best for longer
            names = sorted(times, key=times.__getitem__)[:FINALISTS]
        for name in names:
            times[name] = min(times[name], shortest(runs[name], seconds))
    rows = [{"config": config, "ms": times[str(config)] * 1e3} for config, _ in programs]
    return {"pair": pair.title, "rows": rows}


def choose(record: dict[str, Any], pair: Pair) -> None:
    """Write down what the model takes."""
    record["choice"] = chosen(
        [(row["config"], pair.make(**row["config"])) for row in record["rows"]]
    )


def confirm(record: dict[str, Any], pair: Pair) -> None:
    """The best configuration and the model's choice in turns."""
    best = min(record["rows"], key=lambda row: row["ms"])["config"]
    both = {"best": best, "choice": record["choice"]}
    kernels = {name: tilelang.compile(pair.make(**config), target="cpu")
               for name, config in both.items()}  # fmt: skip
    arrays, times = pair.arrays(), dict.fromkeys(both, math.inf)
    for _ in range(2 * TURNS):
        for name, kernel in kernels.items():
            seconds = shortest(lambda kernel=kernel: kernel(*arrays), 0.1)
            times[name] = min(times[name], seconds * 1e3)
    if best == record["choice"]:
        times = dict.fromkeys(both, min(times.values()))
    record["together"] = times


def table(records: list[dict[str, Any]]) -> None:
    """The model's choices beside the best."""
    print("| kernel, float32 | configurations | best | the model's choice | ms, best | loss |")
    print("| --- | --- | --- | --- | --- | --- |")
    losses = []
    for record in records:
        rows, times = record["rows"], record["together"]
        best = min(rows, key=lambda row: row["ms"])["config"]
        losses.append(times["choice"] / times["best"])
        print(f"| {record['pair']} | {len(rows)} | {words(best)} | {words(record['choice'])} "
              f"| {times['best']:.3g} | {losses[-1]:.2f} |")  # fmt: skip
    print(f"\nmedian {statistics.median(losses):.3f}, worst {max(losses):.2f}, {len(losses)} pairs")


def words(config: Config) -> str:
    """A configuration as its values."""
    return " x ".join(str(value) for value in config.values())


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("do", choices=("prepare", "measure", "choose", "confirm", "show"))
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--json", type=Path, default=Path("model_search"))
    options = parser.parse_args()
    options.json.mkdir(exist_ok=True, parents=True)
    shown = []
    for pair in PAIRS:
        file = options.json / f"{pair.title.replace(' ', '_')}.json"
        if options.only and not any(part in pair.title for part in options.only):
            continue
        if options.do == "prepare":
            print(f"{pair.title}: {len(compiled(choices(pair)))} kernels", flush=True)
        elif options.do == "measure":
            file.write_text(json.dumps(measure(pair), indent=1), encoding="utf-8")
        elif file.exists():
            record = json.loads(file.read_text(encoding="utf-8"))
            if options.do == "show":
                shown.append(record)
                continue
            (choose if options.do == "choose" else confirm)(record, pair)
            file.write_text(json.dumps(record, indent=1), encoding="utf-8")
    if shown:
        table(shown)


if __name__ == "__main__":
    main()
