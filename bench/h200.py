"""GPU figures: tile programs beside torch (cuBLAS, cuDNN, a device copy) in one process.

    python bench/h200.py [--only add softmax ...] [--json FILE] [--incumbent FOLDER]
    python bench/h200.py --checks [--json FILE]    what must hold on a GPU; see gpu_checks.py

Each row runs in a process of its own. With ``--incumbent``, a folder where PyPI's ``tilelang`` is
installed, the same row runs with that implementation in turns with ours (ours, theirs, theirs,
ours; the better of the two counts), its units for Hopper alone switched off in ``gemm``,
``attention`` and ``dequant``; ``x incumbent`` is its time over ours.

Every program is checked against torch first. Times are medians of device events over bursts on a
rested card, program and library in turns; ``ratio`` is the library's time over ours (above 1: ours
is faster). Memory-bound programs stand beside a copy of the same bytes. The launch row is host time
per call with the output allocated, beside ``torch.add``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from gpu_checks import run_checks

import tilelang
import tilelang.language as T

FAST = {"tl.enable_fast_math": True}
# Our compiler has no such units yet and takes the keys as said; the incumbent then uses mma.sync.
PLAIN = {"tl.disable_wgmma": True, "tl.disable_warp_specialized": True,
         "tl.disable_tma_lower": True}  # fmt: skip


def burst(fn: Callable[[], Any], count: int = 12) -> float:
    """Median milliseconds of ``count`` launches."""
    torch.cuda.synchronize()
    time.sleep(0.12)
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


def measured(
    name: str,
    inputs: tuple[Any, ...],
    wanted: Any,
    library: Callable[[], Any],
    work: dict[str, float],
) -> dict[str, Any]:
    """The best of the choices, each checked, beside the library."""
    make, sizes, tiles = PROGRAMS[name]
    best: tuple[float, dict[str, int], Any] | None = None
    begin = time.perf_counter()
    first = 0.0
    for choice in tiles:
        try:
            kernel = make(*sizes, **choice)
            found = kernel(*inputs)
        except Exception as error:  # noqa: BLE001 - each implementation has its own errors
            print(f"{choice}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
            continue
        first = first or time.perf_counter() - begin
        error = float((found.double() - wanted.double()).norm() / wanted.double().norm())
        if not error < 2e-2:
            raise SystemExit(f"{name} {choice} is wrong: relative error {error}")
        took = burst(lambda k=kernel: k(*inputs))
        if best is None or took < best[0]:
            best = took, choice, kernel
    if best is None:
        raise SystemExit("no choice ran")
    row = beside(lambda: best[2](*inputs), library)
    row.update({unit: amount / row["ms"] / 1e6 for unit, amount in work.items()})
    return {**row, "choice": best[1], "first_compile_s": first}


def normal(*shape: int, dtype: Any = torch.bfloat16) -> Any:
    """Random numbers on the GPU."""
    return torch.randn(*shape, device="cuda").to(dtype)


def copier(count: int) -> Callable[[], Any]:
    """A device copy that reads and writes ``count`` bytes in all."""
    source = torch.empty(count // 4, dtype=torch.int16, device="cuda").random_()
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


# -- programs -------------------------------------------------------------------------------------
def add(M: int, N: int, block_M: int, block_N: int, threads: int) -> Any:
    """C = A + B."""

    @T.prim_func
    def kernel(
        A: T.Tensor((M, N), "bfloat16"),
        B: T.Tensor((M, N), "bfloat16"),
        C: T.Tensor((M, N), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                row, column = by * block_M + i, bx * block_N + j
                C[row, column] = A[row, column] + B[row, column]

    return tilelang.compile(kernel, out_idx=-1, target="cuda")


def softmax(M: int, N: int, rows: int, threads: int) -> Any:
    """Softmax of rows."""

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "bfloat16"), Y: T.Tensor((M, N), "bfloat16")):
        with T.Kernel(T.ceildiv(M, rows), threads=threads) as bx:
            x = T.alloc_fragment((rows, N), "float32")
            top = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(X[bx * rows, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(rows, N):
                x[i, j] = T.exp2((x[i, j] - top[i]) * 1.44269504)
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(rows, N):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[bx * rows, 0])

    return tilelang.compile(kernel, out_idx=-1, target="cuda", pass_configs=FAST)


def rmsnorm(M: int, N: int, rows: int, threads: int) -> Any:
    """Rows divided by their root mean square, times a weight."""

    @T.prim_func
    def kernel(
        X: T.Tensor((M, N), "bfloat16"),
        W: T.Tensor((N,), "bfloat16"),
        Y: T.Tensor((M, N), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(M, rows), threads=threads) as bx:
            x = T.alloc_fragment((rows, N), "float32")
            squares = T.alloc_fragment((rows, N), "float32")
            scale = T.alloc_fragment((rows,), "float32")
            T.copy(X[bx * rows, 0], x)
            for i, j in T.Parallel(rows, N):
                squares[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(squares, scale, dim=1)
            for i in T.Parallel(rows):
                scale[i] = T.rsqrt(scale[i] / N + 1e-6)
            for i, j in T.Parallel(rows, N):
                x[i, j] = x[i, j] * scale[i] * W[j]
            T.copy(x, Y[bx * rows, 0])

    return tilelang.compile(kernel, out_idx=-1, target="cuda")


def transpose(M: int, N: int, block: int, threads: int) -> Any:
    """C = A.T through a shared tile."""

    @T.prim_func
    def kernel(A: T.Tensor((M, N), "bfloat16"), C: T.Tensor((N, M), "bfloat16")):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=threads) as (bx, by):
            tile = T.alloc_shared((block, block), "bfloat16")
            turned = T.alloc_fragment((block, block), "bfloat16")
            T.copy(A[by * block, bx * block], tile)
            for i, j in T.Parallel(block, block):
                turned[i, j] = tile[j, i]
            T.copy(turned, C[bx * block, by * block])

    return tilelang.compile(kernel, out_idx=-1, target="cuda")


def gemm(size: int, block_M: int, block_N: int, block_K: int, stages: int, threads: int) -> Any:
    """C = A @ B through mma.sync."""

    @T.prim_func
    def kernel(
        A: T.Tensor((size, size), "bfloat16"),
        B: T.Tensor((size, size), "bfloat16"),
        C: T.Tensor((size, size), "bfloat16"),
    ):
        with T.Kernel(size // block_N, size // block_M, threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "bfloat16")
            B_shared = T.alloc_shared((block_K, block_N), "bfloat16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.use_swizzle(10)
            T.clear(acc)
            for k in T.Pipelined(size // block_K, num_stages=stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, acc)
            T.copy(acc, C[by * block_M, bx * block_N])

    return tilelang.compile(kernel, out_idx=-1, target="cuda", pass_configs=PLAIN)


def attention(
    batch: int, heads: int, length: int, dim: int, block_M: int, block_N: int, stages: int,
    threads: int,
) -> Any:  # fmt: skip
    """Flash attention forward, float16, (batch, length, heads, dim)."""
    scale = 1.44269504 / math.sqrt(dim)

    @T.prim_func
    def kernel(
        Q: T.Tensor((batch, length, heads, dim), "float16"),
        K: T.Tensor((batch, length, heads, dim), "float16"),
        V: T.Tensor((batch, length, heads, dim), "float16"),
        O: T.Tensor((batch, length, heads, dim), "float16"),
    ):
        with T.Kernel(length // block_M, heads, batch, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_M, dim), "float16")
            K_shared = T.alloc_shared((block_N, dim), "float16")
            V_shared = T.alloc_shared((block_N, dim), "float16")
            scores = T.alloc_fragment((block_M, block_N), "float32")
            weights = T.alloc_fragment((block_M, block_N), "float16")
            out = T.alloc_fragment((block_M, dim), "float32")
            top, before, factor, part, total = (
                T.alloc_fragment((block_M,), "float32") for _ in range(5)
            )
            T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], Q_shared)
            T.fill(out, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            for k in T.Pipelined(length // block_N, num_stages=stages):
                T.copy(K[bz, k * block_N : (k + 1) * block_N, by, :], K_shared)
                T.clear(scores)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True,
                       policy=T.GemmWarpPolicy.FullRow)  # fmt: skip
                T.copy(top, before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    factor[i] = T.exp2((before[i] - top[i]) * scale)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2((scores[i, j] - top[i]) * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * factor[i] + part[i]
                T.copy(scores, weights)
                for i, j in T.Parallel(block_M, dim):
                    out[i, j] *= factor[i]
                T.copy(V[bz, k * block_N : (k + 1) * block_N, by, :], V_shared)
                T.gemm(weights, V_shared, out, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                out[i, j] /= total[i]
            T.copy(out, O[bz, bx * block_M : (bx + 1) * block_M, by, :])

    return tilelang.compile(kernel, out_idx=-1, target="cuda", pass_configs={**FAST, **PLAIN})


def dequant(
    M: int, N: int, K: int, block_M: int, block_N: int, block_K: int, stages: int, threads: int
) -> Any:
    """float16 activations times 4-bit weights, two a byte, with a scale for each 64 of K."""

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "float16"),
        Bq: T.Tensor((N, K // 2), "uint8"),
        S: T.Tensor((N, K // 64), "float16"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            q_shared = T.alloc_shared((block_N, block_K // 2), "uint8")
            q_local = T.alloc_fragment((block_N, block_K // 2), "uint8")
            B_local = T.alloc_fragment((block_N, block_K), "float16")
            B_shared = T.alloc_shared((block_N, block_K), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(Bq[bx * block_N, k * block_K // 2], q_shared)
                T.copy(q_shared, q_local)
                for i, j in T.Parallel(block_N, block_K):
                    B_local[i, j] = (
                        T.cast((q_local[i, j // 2] >> ((j % 2) * 4)) & 15, "float16")
                        - T.cast(8, "float16")
                    ) * S[bx * block_N + i, (k * block_K + j) // 64]
                T.copy(B_local, B_shared)
                T.gemm(A_shared, B_shared, acc, transpose_B=True)
            T.copy(acc, C[by * block_M, bx * block_N])

    return tilelang.compile(kernel, out_idx=-1, target="cuda", pass_configs=PLAIN)


# -- what is measured -----------------------------------------------------------------------------
def choices(names: str, *rows: tuple[int, ...]) -> list[dict[str, int]]:
    """Parameters of programs."""
    return [dict(zip(names.split(), row)) for row in rows]


# Row -> the program, its sizes, and the tiles from which the fastest is taken.
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[int, ...], list[dict[str, int]]]] = {
    "add": (add, (16384, 16384), choices(
        "block_M block_N threads", (4, 512, 256), (8, 256, 128))),
    "softmax": (softmax, (32768, 4096), choices(
        "rows threads", (1, 128), (1, 256), (2, 256), (4, 256))),
    "rmsnorm": (rmsnorm, (32768, 4096), choices(
        "rows threads", (1, 128), (1, 256), (2, 256), (4, 256))),
    "transpose": (transpose, (16384, 16384), choices(
        "block threads", (32, 128), (64, 256), (128, 512))),
    "gemm": (gemm, (4096,), choices(
        "block_M block_N block_K stages threads", (128, 128, 32, 4, 128), (256, 128, 64, 3, 256),
        (128, 256, 64, 3, 256), (128, 128, 64, 3, 128))),
    "attention": (attention, (4, 16, 4096, 128), choices(
        "block_M block_N stages threads", (128, 128, 2, 256), (128, 64, 2, 128),
        (128, 32, 2, 128))),
    "dequant": (dequant, (16, 8192, 8192), choices(
        "block_M block_N block_K stages threads", (16, 64, 64, 3, 128), (16, 128, 64, 3, 128),
        (64, 64, 64, 3, 128), (64, 128, 64, 3, 128), (16, 64, 256, 6, 128),
        (16, 32, 256, 6, 64))),
}  # fmt: skip


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


def gemm_row() -> dict[str, Any]:
    """4096^3 bfloat16 beside cuBLAS."""
    A, B = normal(4096, 4096), normal(4096, 4096)
    return measured("gemm", (A, B), A @ B, lambda: A @ B,
                    {"TFLOP/s": 2 * 4096**3 / 1e3})  # fmt: skip


def attention_row() -> dict[str, Any]:
    """4 x 16 heads of 4096 x 128 float16, beside cuDNN."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    Q, K, V = (normal(4, 4096, 16, 128, dtype=torch.float16) for _ in range(3))
    q, k, v = (x.transpose(1, 2) for x in (Q, K, V))
    sdpa = torch.nn.functional.scaled_dot_product_attention

    def library() -> Any:
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
            return sdpa(q, k, v)

    return measured("attention", (Q, K, V),
                    sdpa(q, k, v).transpose(1, 2), library,
                    {"TFLOP/s": 4 * 4 * 16 * 4096**2 * 128 / 1e3})  # fmt: skip


def dequant_row() -> dict[str, Any]:
    """16 x 8192 x 8192 with 4-bit weights; GB/s of weights. Beside a copy of as many bytes."""
    M, N, K = 16, 8192, 8192
    A, S = normal(M, K, dtype=torch.float16), normal(N, K // 64, dtype=torch.float16).abs() * 0.1
    q = torch.randint(0, 256, (N, K // 2), device="cuda", dtype=torch.uint8)
    full = torch.stack([q & 15, q >> 4], -1).reshape(N, K).float() - 8
    wanted = A.float() @ (full * S.float().repeat_interleave(64, 1)).T
    return measured("dequant", (A, q, S), wanted,
                    copier(q.numel()), {"GB/s": q.numel()})  # fmt: skip


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
        full = torch.stack([packed >> place & 15 for place in places], -1).reshape(N, K) - 8
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


ROWS = {
    "add": add_row, "softmax": softmax_row, "rmsnorm": rmsnorm_row, "transpose": transpose_row,
    "gemm": gemm_row, "attention": attention_row, "dequant": dequant_row,
    "weights": weights_row,
    "launch": launch_row,
}  # fmt: skip


# -- runs -----------------------------------------------------------------------------------------
def apart(name: str, folder: str | None = None) -> dict[str, Any]:
    """One row in a fresh process, with the implementation of ``folder`` if one is given."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with tempfile.TemporaryDirectory() as cache:
        path = os.path.join(cache, "row.json")
        changed = {"PYTHONPATH": folder or here, "TILELANG_CACHE_DIR": cache,
                   "TILELANG_TMP_DIR": cache}  # fmt: skip
        done = subprocess.run(
            [sys.executable, os.path.abspath(__file__), "--here", name, "--json", path],
            env={**os.environ, **changed}, cwd=cache, capture_output=True, text=True, timeout=400,
        )  # fmt: skip
        if done.returncode:
            return {"failed": (done.stdout + done.stderr)[-600:]}
        with open(path, encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
        return found


def row(name: str, incumbent: str | None) -> dict[str, Any]:
    """The figures of one row; with an incumbent, both in turns."""
    if incumbent is None:
        return apart(name)
    time_of = "us" if name == "launch" else "ms"
    order = (None, incumbent, incumbent, None)
    runs = [(folder, apart(name, folder)) for folder in order]
    sides = {
        side: min((r for f, r in runs if f == side), key=lambda r: r.get(time_of, math.inf))
        for side in (None, incumbent)
    }
    mine, theirs = sides[None], sides[incumbent]
    if time_of in mine and time_of in theirs:
        mine["x incumbent"] = theirs[time_of] / mine[time_of]
        mine["x incumbent, ratios"] = mine["ratio"] / theirs["ratio"]
    return {**mine, "incumbent": theirs}


def shown(figures: dict[str, Any]) -> str:
    """Figures on a line."""
    return "  ".join(
        f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in figures.items()
        if key != "incumbent"
    )


def main() -> None:
    """Measure the rows and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=tuple(ROWS), default=tuple(ROWS))
    parser.add_argument("--json")
    parser.add_argument("--incumbent", help="folder where PyPI's tilelang is installed")
    parser.add_argument("--checks", action="store_true", help="see gpu_checks.py")
    parser.add_argument("--programs", type=int, default=500, help="random programs of --checks")
    parser.add_argument("--here", choices=tuple(ROWS), help="one row, in this process")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("bench/h200.py needs an NVIDIA GPU")
    report: dict[str, Any] = {}
    if options.here:
        report = ROWS[options.here]()
    elif options.checks:
        report = run_checks(options.programs)
    else:
        print(torch.cuda.get_device_name())
        for name in options.only:
            report[name] = found = row(name, options.incumbent)
            print(f"{name:10} {shown(found)}", flush=True)
            if "incumbent" in found:
                print(f"{'  incumbent':10} {shown(found['incumbent'])}", flush=True)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=1)


if __name__ == "__main__":
    main()
