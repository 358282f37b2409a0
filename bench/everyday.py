"""Everyday kernels compared with PyPI's tilelang and compiled torch, alternately in one run.

    python bench/everyday.py --incumbent SITE [--only WORD ...] [--json FILE]     on a GPU
    python bench/everyday.py --cpu                                          on the CPU

SITE is a folder into which the other package was installed (``pip install --target``). A time is
the least of six, of launches that queue behind each other. The share of the peak is that of the
operations of products, else of the bytes of all tensors, on an H200.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import record

ROOT = Path(__file__).resolve().parents[1]
HALF_OPERATIONS, BYTE_OPERATIONS, BYTES = 989e12, 1979e12, 4.8e12  # a second, at most


def timed(call: Callable[[], object], device: str) -> float:
    """The least time of a call in microseconds."""
    import torch

    best = math.inf
    if device == "cpu":
        end = time.perf_counter() + 0.5
        while time.perf_counter() < end:
            begin = time.perf_counter()
            call()
            best = min(best, time.perf_counter() - begin)
        return best * 1e6
    for _ in range(6):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(4_000_000)  # type: ignore[no-untyped-call]  # torch's own
        call()
        start.record()  # type: ignore[no-untyped-call]  # torch's own
        for _ in range(20):
            call()
        stop.record()  # type: ignore[no-untyped-call]  # torch's own
        torch.cuda.synchronize()
        best = min(best, start.elapsed_time(stop) / 20 * 1e3)  # type: ignore[no-untyped-call]
    return best


def measured(name: str, who: str, device: str) -> dict[str, Any]:
    """One program by one package: its time, or what is wrong."""
    import torch
    from everyday_programs import PROGRAMS

    program = PROGRAMS[name]
    torch.manual_seed(0)

    def normal(*shape: int, dtype: str = "float32", scale: float = 1.0) -> Any:
        return (torch.randn(*shape, device=device) * scale).to(getattr(torch, dtype))

    def integers(high: int, *shape: int) -> Any:
        return torch.randint(0, high, shape, device=device, dtype=torch.int32)

    args = program.inputs(normal, integers)
    wanted = program.reference(*args)
    size = sum(x.numel() * x.element_size() for x in (*args, wanted))
    row: dict[str, Any] = {"name": name, "who": who, "bytes": size}
    if who == "torch":
        call = program.reference if device == "cpu" else torch.compile(program.reference)
        call(*args)
        return {**row, "time": timed(lambda: call(*args), device)}
    import tilelang

    kernel = tilelang.compile(program.build(), target=device)
    out = torch.zeros_like(wanted)
    kernel(*args, out)
    error = (out.double() - wanted.double()).abs().max().item()
    if not error <= program.tolerance * max(1.0, wanted.double().abs().max().item()):
        return {**row, "failure": f"wrong by {error:.3g}"}
    return {**row, "time": timed(lambda: kernel(*args, out), device)}


def child(who: str, device: str, names: Iterable[str]) -> None:
    """A row for each of ``names``, as a line of JSON, up to the first that raises.

    A kernel that fails may leave a device that serves no other in this process.
    """
    for name in names:
        try:
            row = measured(name, who, device)
        except Exception as error:  # noqa: BLE001  # whatever a package raises is its result
            text = " ".join(str(error).split())[:150]
            row = {"name": name, "who": who, "failure": f"{type(error).__name__}: {text}"}
            print(json.dumps(row), flush=True)
            return
        print(json.dumps(row), flush=True)


def start(who: str, package: Path, device: str, names: list[str]) -> subprocess.Popen[bytes]:
    """A process that measures programs by one package."""
    path = os.pathsep.join((str(package), str(ROOT / "bench")))
    return subprocess.Popen(
        [sys.executable, __file__, "--child", who, device, *names],
        env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE,
    )  # fmt: skip


def by_children(who: str, package: Path, device: str, names: list[str]) -> list[dict[str, Any]]:
    """A row for each of ``names``: a new process goes on behind a program that ended one."""
    rows: list[dict[str, Any]] = []
    while len(rows) < len(names):
        process = start(who, package, device, names[len(rows) :])
        try:
            output, _ = process.communicate(timeout=60 + 5 * len(names))
            end = f"the process ended with {process.returncode}"
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
            end = "the process did not end"
        lines = output.decode(errors="replace").splitlines()
        parsed = [json.loads(line) for line in lines if line.startswith("{")]
        rows += parsed
        if len(rows) < len(names) and not (parsed and "failure" in parsed[-1]):
            rows.append({"name": names[len(rows)], "who": who, "failure": end})
    return rows


def in_turns(names: list[str], chosen: argparse.Namespace) -> list[dict[str, Any]]:
    """Some programs with each package in turn."""
    packages = {"here": ROOT}
    if chosen.incumbent:
        packages["incumbent"] = chosen.incumbent.resolve()
    if not chosen.no_torch:
        packages["torch"] = ROOT
    device = "cpu" if chosen.cpu else "cuda"
    if chosen.jobs:  # fill the caches of compiled kernels; these times are not used
        shares = [names[index :: chosen.jobs] for index in range(min(chosen.jobs, len(names)))]
        with ThreadPoolExecutor(len(shares)) as pool:
            for who, package in packages.items():
                list(pool.map(partial(by_children, who, package, device), shares))
    rows: list[dict[str, Any]] = []
    for first in range(0, len(names), 24):
        for who, package in packages.items():
            rows += by_children(who, package, device, names[first : first + 24])
        if chosen.json:
            record.write(chosen.json, {"rows": rows})
    return rows


def peak_share(row: dict[str, Any]) -> float:
    """The share of the peak of the unit that bounds a program."""
    from everyday_programs import PROGRAMS

    operations = PROGRAMS[row["name"]].operations
    rate = BYTE_OPERATIONS if "float8" in row["name"] else HALF_OPERATIONS
    least = max(operations / rate, row["bytes"] / BYTES)
    return least / (row["time"] * 1e-6)


def print_table(rows: list[dict[str, Any]], names: Iterable[str]) -> None:
    """A line a program, and the geometric means."""
    by_name = {(row["name"], row["who"]): row for row in rows}
    print(
        "| program | here, us | incumbent, us | torch, us | / incumbent | / torch | of the peak |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    ratios: dict[str, list[float]] = {"incumbent": [], "torch": []}
    for name in names:
        here = by_name.get((name, "here"), {})
        cells = [str(here.get("failure", f"{here.get('time', 0):.1f}"))]
        others = [by_name.get((name, who), {}) for who in ratios]
        cells += [str(other.get("failure", f"{other.get('time', 0):.1f}")) for other in others]
        for who, other in zip(ratios, others):
            if "time" in here and "time" in other:
                ratios[who].append(other["time"] / here["time"])
                cells.append(f"{ratios[who][-1]:.2f}")
            else:
                cells.append("-")
        cells.append(f"{peak_share(here):.2f}" if "time" in here else "-")
        print(f"| {name} | {' | '.join(cells)} |")
    for who, values in ratios.items():
        if values:
            mean = math.exp(sum(map(math.log, values)) / len(values))
            print(f"{len(values)} beside {who}: geometric mean {mean:.3f}, least {min(values):.2f}")


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--incumbent", type=Path)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--no-torch", action="store_true")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--json", type=Path, help="write all rows to this file")
    parser.add_argument("--jobs", type=int, default=0, help="first compile in so many processes")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        who, device, *names = chosen.child
        child(who, device, names)
        return
    from everyday_programs import PROGRAMS

    names = [n for n in PROGRAMS if not chosen.only or any(part in n for part in chosen.only)]
    rows = in_turns(names, chosen)
    print_table(rows, names)


if __name__ == "__main__":
    main()
