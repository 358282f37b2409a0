"""GPU figures: tile programs compared with torch (cuBLAS, cuDNN, a device copy) in one process.

    python bench/h200.py [--only add softmax ...] [--json FILE] [--incumbent FOLDER] [--choices]
    python bench/h200.py --checks [--json FILE]    what must hold on a GPU; see gpu_checks.py

Each row runs in a process of its own, and takes the fastest of several tiles; ``--choices`` shows
the milliseconds of each. All of them are compiled before, side by side on the host's cores, and a
process is ready before its turn comes. With ``--incumbent``, a folder where PyPI's ``tilelang`` is
installed, the same row runs with that implementation in turns with ours (ours, theirs, theirs,
ours; the better of the two counts); ``x incumbent`` is its time over ours. ``--beside`` names the
rows for which it does. Another checkout of this repository may be that folder.

Every program is checked against torch first. Times are medians of device events over bursts on a
rested card, program and library in turns; ``ratio`` is the library's time over ours (above 1: ours
is faster), ``steady`` the same under a second of load, where the power limit decides. The card is
held until a burst is in its queue: otherwise a launch of some 20 us is as long as the host takes to
make the next. Memory-bound programs stand beside a copy of the same bytes. The launch row is host
time per call with the output allocated, beside ``torch.add``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from typing import Any

import record
import torch
from gpu_checks import run_checks
from h200_choices import PROGRAMS
from h200_programs import add
from small_launches import SMALL

import tilelang

OURS = hasattr(tilelang, "sanitize")  # not the incumbent, whose wrong kernels are left out
PER_LANE = 4_000_000  # cycles, some 2 ms, in which one thread of the card waits


def burst(fn: Callable[[], Any], count: int = 12) -> float:
    """Median milliseconds of ``count`` launches, the host ahead of the card."""
    torch.cuda.synchronize()
    time.sleep(0.12)
    torch.cuda._sleep(PER_LANE)
    for _ in range(3):
        fn()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(count)]
    for start, stop in events:
        start.record()
        fn()
        stop.record()
    torch.cuda.synchronize()
    return statistics.median(start.elapsed_time(stop) for start, stop in events)


def beside(ours: Callable[[], Any], library: Callable[[], Any], rounds: int = 3) -> dict[str, Any]:
    """Both in turns; the best burst of each."""
    pairs = [(burst(ours), burst(library)) for _ in range(rounds)]
    mine, theirs = (min(times) for times in zip(*pairs))
    return {"ms": mine, "library_ms": theirs, "ratio": theirs / mine}


def steady(ours: Callable[[], Any], library: Callable[[], Any], rounds: int = 2) -> float:
    """The library's time over ours under load: half a second of each in turns, after a second."""

    def spell(fn: Callable[[], Any], seconds: float) -> float:
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin, count = time.perf_counter(), 0
        start.record()
        while time.perf_counter() - begin < seconds:
            for _ in range(8):
                fn()
            count += 8
            torch.cuda.current_stream().synchronize()
        stop.record()
        torch.cuda.synchronize()
        return start.elapsed_time(stop) / count

    spell(library, 1.0)
    pairs = [(spell(ours, 0.5), spell(library, 0.5)) for _ in range(rounds)]
    mine, theirs = (statistics.mean(times) for times in zip(*pairs))
    return theirs / mine


def measured(
    name: str,
    inputs: tuple[Any, ...],
    wanted: Any,
    library: Callable[[], Any],
    work: dict[str, float],
    tolerance: float = 2e-2,
) -> dict[str, Any]:
    """The best of the choices, each checked, beside the library.

    Args:
        tolerance: largest relative error, in the Frobenius norm.
    """
    make, sizes, tiles = PROGRAMS[name]
    best: tuple[float, dict[str, int], Any] | None = None
    tried: dict[str, float] = {}
    for choice in tiles:
        if not OURS and choice.get("held"):
            continue  # its kernel is an illegal instruction, and no other of the process runs then
        try:
            kernel = make(*sizes, **choice)
            results = kernel(*inputs)
        except Exception as error:  # noqa: BLE001 - each implementation has its own errors
            print(f"{choice}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
            continue
        check_assembled(name, kernel)
        error = relative_error(results, wanted)
        if not error < tolerance:
            message = f"{name} {choice} is wrong: relative error {error}"
            if OURS:
                raise SystemExit(message)
            print(message, file=sys.stderr)
            continue
        took = tried[" ".join(map(str, choice.values()))] = burst(lambda k=kernel: k(*inputs))
        if best is None or took < best[0]:
            best = took, choice, kernel
    if best is None:
        raise SystemExit("no choice ran")
    row = beside(lambda: best[2](*inputs), library)
    if "TFLOP/s" in work:
        row["steady"] = steady(lambda: best[2](*inputs), library)
    row.update({unit: amount / row["ms"] / 1e6 for unit, amount in work.items()})
    return {**row, "choice": best[1], "choices": tried}


def relative_error(result: Any, expected: Any) -> float:
    """In the Frobenius norm; the largest of several results."""
    if isinstance(expected, tuple):
        return max(map(relative_error, result, expected))
    return float((result.double() - expected.double()).norm() / expected.double().norm())


def check_assembled(name: str, kernel: Any) -> None:
    """Fail where the assembler serialises matrix instructions, ignores budgets or spills; what the
    other implementation assembles is not told."""
    warnings = getattr(getattr(kernel, "resources", None), "warnings", ())
    if warnings:
        raise SystemExit(f"{name} is not assembled as it is written: {'; '.join(warnings)}")


def normal(*shape: int, dtype: Any = torch.bfloat16) -> Any:
    """Random numbers on the GPU."""
    return torch.randn(*shape, device="cuda").to(dtype)


def copier(count: int) -> Callable[[], Any]:
    """A device copy that reads and writes ``count`` bytes in all."""
    source = torch.empty(count // 4, dtype=torch.int16, device="cuda").random_()
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


# -- rows -----------------------------------------------------------------------------------------
def add_row() -> dict[str, Any]:
    """16384 x 16384 bfloat16."""
    A, B = normal(16384, 16384), normal(16384, 16384)
    moved = 3 * A.numel() * 2
    return measured("add", (A, B), A + B, copier(moved),
                    {"GB/s": moved})  # fmt: skip


def softmax_row() -> dict[str, Any]:
    """32768 rows of 4096 bfloat16."""
    X = normal(32768, 4096)
    moved = 2 * X.numel() * 2
    return measured("softmax", (X,),
                    torch.softmax(X.float(), -1), copier(moved), {"GB/s": moved})  # fmt: skip


def rmsnorm_row() -> dict[str, Any]:
    """32768 rows of 4096 bfloat16."""
    X, W = normal(32768, 4096), normal(4096)
    moved = 2 * X.numel() * 2
    wanted = torch.nn.functional.rms_norm(X.float(), (4096,), W.float(), 1e-6)
    return measured("rmsnorm", (X, W), wanted, copier(moved),
                    {"GB/s": moved})  # fmt: skip


def transpose_row() -> dict[str, Any]:
    """16384 x 16384 bfloat16."""
    A = normal(16384, 16384)
    moved = 2 * A.numel() * 2
    return measured("transpose", (A,), A.T, copier(moved),
                    {"GB/s": moved})  # fmt: skip


def gemm_of(name: str) -> dict[str, Any]:
    """A GEMM of 16 bits beside cuBLAS."""
    M, N, K, dtype, *_ = PROGRAMS[name][1]
    A, B = (normal(*shape, dtype=getattr(torch, dtype)) for shape in ((M, K), (K, N)))
    return measured(name, (A, B), A @ B, lambda: A @ B, {"TFLOP/s": 2 * M * N * K / 1e3})


def shared_sums_of(name: str) -> dict[str, Any]:
    """A GEMM, float16 to float32, whose blocks share sums, beside cuBLAS."""
    M, N, K = PROGRAMS[name][1]
    A, B = (normal(*shape, dtype=torch.float16) for shape in ((M, K), (K, N)))

    def library() -> Any:
        return torch.mm(A, B, out_dtype=torch.float32)

    return measured(name, (A, B), library(), library, {"TFLOP/s": 2 * M * N * K / 1e3})


def gemm_fp8_row() -> dict[str, Any]:
    """8192^3 of e4m3 to bfloat16, beside cuBLAS with fast accumulation."""
    size = 8192
    A, B = (normal(size, size).to(torch.float8_e4m3fn) for _ in range(2))
    scale = torch.ones((), device="cuda")

    def library() -> Any:
        return torch._scaled_mm(
            A, B.T, scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16, use_fast_accum=True
        )

    return measured("gemm_fp8", (A, B), library(), library, {"TFLOP/s": 2 * size**3 / 1e3})


def grouped_gemm_row() -> dict[str, Any]:
    """8 groups of 4096 rows, bfloat16, beside a loop of cuBLAS."""
    groups, rows, N, K = PROGRAMS["grouped_gemm"][1]
    A, B = normal(groups * rows, K), normal(groups, K, N)
    result = normal(groups * rows, N)
    starts = torch.arange(groups, device="cuda", dtype=torch.int32) * rows
    sizes = torch.full_like(starts, rows)

    def library() -> Any:
        for a, b, c in zip(A.split(rows), B, result.split(rows)):
            torch.mm(a, b, out=c)
        return result

    return measured("grouped_gemm", (A, B, sizes, starts, starts), library().clone(), library,
                    {"TFLOP/s": 2 * groups * rows * N * K / 1e3})  # fmt: skip


def attention_of(name: str) -> dict[str, Any]:
    """Attention forward, float16, beside cuDNN."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    batch, heads, length, dim, causal = PROGRAMS[name][1]
    Q, K, V = (normal(batch, length, heads, dim, dtype=torch.float16) for _ in range(3))
    q, k, v = (x.transpose(1, 2) for x in (Q, K, V))

    def library() -> Any:
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

    work = 4 * batch * heads * length**2 * dim / (2 if causal else 1)
    return measured(name, (Q, K, V), library().transpose(1, 2), library, {"TFLOP/s": work / 1e3})


def backward_of(name: str) -> dict[str, Any]:
    """Attention backward, float16, beside cuDNN and FlashAttention in torch: the faster of both."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    batch, heads, length, dim, causal = PROGRAMS[name][1]
    Q, K, V, dO = (normal(batch, length, heads, dim, dtype=torch.float16) for _ in range(4))
    q, k, v = (x.transpose(1, 2).detach().requires_grad_() for x in (Q, K, V))
    scores = (q.detach() @ k.detach().mT).float() / math.sqrt(dim)
    if causal:
        scores.masked_fill_(torch.ones_like(scores[0, 0]).triu(1).bool(), -math.inf)
    lse = torch.logsumexp(scores, -1)
    del scores
    calls: dict[str, Callable[[], Any]] = {}
    for backend in (SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION):
        with sdpa_kernel([backend]):
            out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        def library(out: Any = out) -> Any:
            return torch.autograd.grad(out, (q, k, v), dO.transpose(1, 2), retain_graph=True)

        calls[backend.name] = library
    wanted = tuple(x.transpose(1, 2) for x in calls["FLASH_ATTENTION"]())
    O = out.detach().transpose(1, 2).contiguous()
    times = {which: burst(call) for which, call in calls.items()}
    work = 10 * batch * heads * length**2 * dim / (2 if causal else 1)
    row = measured(name, (Q, K, V, O, dO, lse), wanted, calls[min(times, key=times.__getitem__)],
                   {"TFLOP/s": work / 1e3})  # fmt: skip
    return {**row, **{f"{which} ms": took for which, took in times.items()}}


def mla_of(name: str) -> dict[str, Any]:
    """A decoding step of multi-head latent attention, beside a copy of the bytes of its cache."""
    batch, heads, length, dim, rope = PROGRAMS[name][1]
    Q, Qr = (normal(batch, heads, width, dtype=torch.float16) for width in (dim, rope))
    KV, Kr = (normal(batch, length, width, dtype=torch.float16) for width in (dim, rope))
    q, k = torch.cat((Q, Qr), -1), torch.cat((KV, Kr), -1)
    weights = torch.softmax((q @ k.mT).float() / math.sqrt(dim + rope), -1)
    wanted = weights.half() @ KV
    return measured(name, (Q, Qr, KV, Kr), wanted, copier(k.numel() * 2),
                    {"TFLOP/s": 2 * batch * heads * length * (2 * dim + rope) / 1e3})  # fmt: skip


def dequant_of(name: str) -> dict[str, Any]:
    """4-bit weights: few rows beside a copy of the weights, many beside the product in 16 bits."""
    M, N, K = PROGRAMS[name][1]
    A, S = normal(M, K, dtype=torch.float16), normal(N, K // 64, dtype=torch.float16).abs() * 0.1
    q = torch.randint(0, 256, (N, K // 2), device="cuda", dtype=torch.uint8)
    full = torch.stack([q & 15, q >> 4], -1).reshape(N, K).float() - 8
    wanted = A.float() @ (full * S.float().repeat_interleave(64, 1)).T
    if M <= 64:
        return measured(name, (A, q, S), wanted, copier(q.numel()), {"GB/s": q.numel()})
    half = (full * S.float().repeat_interleave(64, 1)).half().T.contiguous()
    return measured(name, (A, q, S), wanted, lambda: A @ half, {"TFLOP/s": 2 * M * N * K / 1e3})


def weights_row() -> dict[str, Any]:
    """examples/w4a16.py, 16 x 8192 x 8192: TB/s of weights, which come from memory every time.

    Replays of a graph that goes round six sets of weights, beside copies of as many bytes.
    """
    M, N, K, sets = 16, 8192, 8192, 6
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples"))
    from w4a16 import w4a16  # the program of this repository, for either implementation

    A = normal(M, K, dtype=torch.float16)
    scales = normal(N, K // 64, dtype=torch.float16).abs() * 0.1
    words = [torch.randint(-(1 << 31), 1 << 31, (N, K // 8), device="cuda", dtype=torch.int32)
             for _ in range(sets)]  # fmt: skip
    kernel = tilelang.compile(w4a16(M, N, K), target="cuda")
    results = [torch.full((M, N), math.nan, device="cuda").half() for _ in range(sets)]

    def ours(number: int) -> None:
        kernel(A, words[number].view(torch.uint32), scales, results[number])

    for number, (packed, result) in enumerate(zip(words, results)):
        ours(number)
        places = [4 * (j // 2) + 16 * (j % 2) for j in range(8)]
        full = torch.stack([packed >> shift & 15 for shift in places], -1).reshape(N, K) - 8
        wanted = A.double() @ (full * scales.double().repeat_interleave(64, 1)).T
        error = float((result.double() - wanted).norm() / wanted.norm())
        if not error < 1e-3:
            raise SystemExit(f"w4a16 is wrong: relative error {error}")
    sources = [copier(words[0].numel() * 4) for _ in range(sets)]
    mine, copied = replayed(ours, sets), replayed(lambda number: sources[number](), sets)
    row = {"ms": mine, "library_ms": copied, "ratio": copied / mine}
    return {**row, "TB/s": N * K / 2 / mine / 1e9, "with scales": N * K * 17 / 32 / mine / 1e9}


def replayed(fn: Callable[[int], Any], sets: int, rounds: int = 9) -> float:
    """Median milliseconds of one call, in a graph of calls with each of the sets in turn."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for number in range(sets):
            fn(number)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in range(4 * sets):
            fn(call % sets)
    return burst(graph.replay, rounds) / (4 * sets)


def small_of(name: str) -> dict[str, Any]:
    """A launch of a few microseconds, in a graph; the library is the other implementation, whose
    time was measured once."""
    make, arguments, right, elsewhere = SMALL[name]
    inputs = arguments()
    kernel = tilelang.compile(make(), target="cuda")
    kernel(*inputs)
    check_assembled(name, kernel)
    if not right(*inputs):
        raise SystemExit(f"{name} is wrong")
    mine = replayed(lambda number: kernel(*inputs), 12)
    return {"ms": mine, "us": mine * 1e3, "incumbent's us": elsewhere}


def launch_row() -> dict[str, Any]:
    """Host microseconds of one call of a small addition, output allocated."""
    A, B = normal(32, 256), normal(32, 256)
    kernel = add(32, 256, 32, 256, 256)

    def per_call(fn: Callable[[], Any]) -> float:
        best = math.inf
        for _ in range(7):
            begin = time.perf_counter()
            for _ in range(500):
                fn()
            best = min(best, (time.perf_counter() - begin) / 500 * 1e6)
            torch.cuda.synchronize()
        return best

    kernel(A, B)
    ours, theirs = per_call(lambda: kernel(A, B)), per_call(lambda: torch.add(A, B))
    return {"us": ours, "library_us": theirs, "ratio": theirs / ours}


ROWS: dict[str, Callable[[], dict[str, Any]]] = {
    "add": add_row, "softmax": softmax_row, "rmsnorm": rmsnorm_row, "transpose": transpose_row,
    **{name: partial(gemm_of, name) for name in ("gemm", "gemm_large", "gemm_rows")},
    **{name: partial(shared_sums_of, name) for name in ("gemm_split", "gemm_stream")},
    "gemm_fp8": gemm_fp8_row,
    "grouped_gemm": grouped_gemm_row,
    **{name: partial(attention_of, name) for name in ("attention", "attention_causal")},
    **{name: partial(backward_of, name) for name in ("backward", "backward_causal")},
    **{name: partial(mla_of, name) for name in ("mla", "mla_by_hand")},
    **{name: partial(dequant_of, name) for name in ("dequant", "dequant_rows")},
    "weights": weights_row,
    **{name: partial(small_of, name) for name in SMALL},
    "launch": launch_row,
}  # fmt: skip


# -- runs -----------------------------------------------------------------------------------------
def compile_choice(name: str, number: int) -> None:
    """Into the cache; a tile that does not compile is told when its row runs."""
    make, sizes, tiles = PROGRAMS[name]
    with contextlib.suppress(Exception):  # each implementation has its own errors
        make(*sizes, **tiles[number])


def compile_ahead(names: Iterable[str]) -> None:
    """The tiles of all rows, a process for each core."""
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        for name in names:
            for number in range(len(PROGRAMS.get(name, ((), (), ()))[2])):
                pool.submit(compile_choice, name, number)


def environment(folder: str | None, cache: str) -> dict[str, str]:
    """Of a process with the implementation in ``folder``, or this one."""
    own = os.path.join(cache, "theirs" if folder else "ours")
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    return {**os.environ, "PYTHONPATH": folder or here, "TILELANG_CACHE_DIR": own,
            "TILELANG_TMP_DIR": own}  # fmt: skip


class Apart:
    """A row in a process of its own, which imports what it needs and waits for its turn."""

    def __init__(self, name: str, folder: str | None, cache: str) -> None:
        self.path = os.path.join(cache, f"row{time.perf_counter_ns()}.json")
        command = [sys.executable, os.path.abspath(__file__), "--here", name, "--json", self.path]
        self.process = subprocess.Popen(
            command, env=environment(folder, cache), cwd=cache, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def result(self, seconds: float = 400) -> dict[str, Any]:
        """Its figures, or what went wrong."""
        try:
            output, _ = self.process.communicate("go\n", timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return {"failed": f"not done in {seconds:.0f} s"}
        if self.process.returncode:
            return {"failed": output[-600:]}
        with open(self.path, encoding="utf-8") as file:
            record: dict[str, Any] = json.load(file)
        return record


def measure_rows(
    names: Sequence[str], incumbent: str | None, beside: Container[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """The figures of the rows; with an incumbent, of both in turns."""
    script = os.path.abspath(__file__)
    orders = {name: (None, incumbent, incumbent, None) if incumbent and name in beside else (None,)
              for name in names}  # fmt: skip
    with tempfile.TemporaryDirectory() as cache:
        for folder in {folder for order in orders.values() for folder in order}:
            rows = [name for name, order in orders.items() if folder in order]
            subprocess.run([sys.executable, script, "--compile-ahead", "--only", *rows],
                           env=environment(folder, cache), capture_output=True)  # fmt: skip
        turns = [(name, folder) for name, order in orders.items() for folder in order]
        ahead = Apart(*turns[0], cache)
        results: dict[str, list[tuple[str | None, dict[str, Any]]]] = {name: [] for name in names}
        for number, (name, folder) in enumerate(turns):
            current = ahead
            if number + 1 < len(turns):
                ahead = Apart(*turns[number + 1], cache)
            results[name].append((folder, current.result()))
            if len(results[name]) == len(orders[name]):
                yield name, combined(name, results[name])


def combined(name: str, runs: list[tuple[str | None, dict[str, Any]]]) -> dict[str, Any]:
    """The better run of each implementation; theirs beside ours."""
    time_of = "us" if name == "launch" else "ms"
    sides = {
        side: min((r for f, r in runs if f == side), key=lambda r: r.get(time_of, math.inf))
        for side in dict(runs)
    }
    mine = sides.pop(None)
    for theirs in sides.values():
        if time_of in mine and time_of in theirs:
            mine["x incumbent"] = theirs[time_of] / mine[time_of]
            if "ratio" in mine:
                mine["x incumbent, ratios"] = mine["ratio"] / theirs["ratio"]
        mine["incumbent"] = theirs
    return mine


def shown(figures: dict[str, Any], choices: bool = False) -> str:
    """Figures on a line."""
    tried = figures.get("choices", {})
    if choices and tried:
        return shown(figures) + "".join(
            f"\n{'':19}{took:.4f} ms  {choice}" for choice, took in tried.items()
        )
    return "  ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in figures.items()
        if key not in ("incumbent", "choices")
    )


def main() -> None:
    """Measure the rows and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=tuple(ROWS), default=tuple(ROWS))
    parser.add_argument("--json")
    parser.add_argument("--incumbent", help="folder where PyPI's tilelang is installed")
    parser.add_argument("--beside", nargs="*", choices=tuple(ROWS), default=tuple(ROWS),
                        help="rows that the incumbent runs, too")  # fmt: skip
    parser.add_argument("--choices", action="store_true", help="the time of each tile as well")
    parser.add_argument("--checks", action="store_true", help="see gpu_checks.py")
    parser.add_argument("--programs", type=int, default=500, help="random programs of --checks")
    parser.add_argument("--here", choices=tuple(ROWS), help="one row, in this process")
    parser.add_argument("--compile-ahead", action="store_true", help="into the cache, no more")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("bench/h200.py needs an NVIDIA GPU")
    report: dict[str, Any] = {}
    if options.compile_ahead:
        compile_ahead(options.only)
    elif options.here:
        sys.stdin.readline()  # its turn
        report = ROWS[options.here]()
    elif options.checks:
        report = run_checks(options.programs)
    else:
        print(torch.cuda.get_device_name())
        for name, rows in measure_rows(options.only, options.incumbent, options.beside):
            report[name] = rows
            print(f"{name:17}{shown(rows, options.choices)}", flush=True)
            if "incumbent" in rows:
                print(f"{'  incumbent':17}{shown(rows['incumbent'])}", flush=True)
    if options.here and options.json:  # for the process that gave this one its turn
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)
    elif options.json:
        record.write(options.json, report)


if __name__ == "__main__":
    main()
