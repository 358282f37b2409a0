"""CPU figures: matrix products, attention, softmax and addition compared with numpy and torch.

    python bench/cpu_gemm.py [--threads 1 2] [--sizes 1024 2048] [--json FILE] [--arch znver3]

``--arch`` builds our kernels for another processor of the family, as ``-march`` names it, and gives
numpy and torch kernels of AVX2 (``OPENBLAS_CORETYPE`` and the like): an AVX2 machine on one with
AVX-512.

Every thread count runs in a process of its own; every way of running numpy (its BLAS chooses its
kernels when it is loaded) in a further one. Within a process the contestants take turns, so that
what else the machine does meets all of them; figures are medians. The last column of a product is
its speed relative to the best library; memory-bound rows compare with a measured copy.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import record

CORETYPES = ("", "SkylakeX", "Haswell")
AVX2_CORETYPES = ("Haswell", "Zen")
AVX2 = {
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
}
ROUNDS = 9
TURN, REST = 0.08, 0.02  # seconds
TILES = {1024: (512, 1024, 256), 2048: (512, 2048, 256)}


def take_turns(contestants: dict[str, Callable[[], Any]], rounds: int = ROUNDS) -> dict[str, float]:
    """Median seconds of each contestant over ``rounds`` turns.

    A turn begins with a rest and an untimed call, so that the waiting threads of the contestant
    before (OpenMP pools spin for milliseconds) and its data in the caches disturb no one, and
    then calls as often as fit into ``TURN`` seconds; its figure is the median of these calls.
    """
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            time.sleep(REST)
            run()
            calls, begin = [], time.perf_counter()
            while not calls or time.perf_counter() - begin < TURN:
                start = time.perf_counter()
                run()
                calls.append(time.perf_counter() - start)
            times[name].append(statistics.median(calls))
    return {name: statistics.median(values) for name, values in times.items()}


def tile_product(
    M: int, N: int, K: int, tile: tuple[int, int, int], dtype: str, result: str = "float32"
) -> Any:
    """The plain tile program of a matrix product."""
    import tilelang
    import tilelang.language as T

    block_M, block_N, block_K = tile

    @T.prim_func
    def product(
        A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), result)
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, acc)
            T.copy(acc, C[by * block_M, bx * block_N])

    return tilelang.compile(product, target="cpu")


def products(sizes: list[int]) -> list[dict[str, Any]]:
    """Square products of the sizes in three dtypes."""
    import numpy as np

    torch = _torch()
    rows = []
    for size in sizes:
        # torch's float16 product is slow on CPUs without such arithmetic: few rounds, one size.
        for dtype in ("float32", "float16", "bfloat16") if size == sizes[0] else ("float32",):
            rng = np.random.default_rng(0)
            A, B = (rng.random((size, size), dtype=np.float32) - 0.5 for _ in range(2))
            C = np.zeros((size, size), np.float32)
            kernel = tile_product(size, size, size, TILES.get(size, (512, 512, 256)), dtype)
            contestants: dict[str, Callable[[], Any]] = {}
            args: list[Any] = [A, B, C]
            if dtype == "float32":
                result = np.empty_like(C)
                contestants["numpy"] = lambda a=A, b=B, c=result: np.matmul(a, b, out=c)
            if torch is not None:
                kind = getattr(torch, dtype)
                a, b = torch.from_numpy(A).to(kind), torch.from_numpy(B).to(kind)
                out = torch.empty(size, size, dtype=kind)
                contestants["torch.mm"] = lambda a=a, b=b, o=out: torch.mm(a, b, out=o)
                bt = b.t().contiguous()
                contestants["torch oneDNN"] = onednn_linear(torch, a, bt)
                args = [a, b, torch.from_numpy(C)]
            elif dtype == "bfloat16":
                continue
            else:
                args = [A.astype(np.float16), B.astype(np.float16), C]
            contestants["tilelang"] = lambda k=kernel, x=args: k(*x)
            times = take_turns(contestants, ROUNDS if dtype == "float32" else 2)
            error = float(np.abs(C - A @ B).max())
            rows.append(
                {"what": f"{dtype} {size}^3", "unit": "GF/s", "error": error,
                 "values": {n: 2 * size**3 / t / 1e9 for n, t in times.items()}}
            )  # fmt: skip
    return rows


def onednn_linear(torch: Any, a: Any, weight: Any) -> Callable[[], Any]:
    """``a @ weight.T`` through oneDNN, with the weight packed before as its users do."""
    if a.dtype == torch.float32:
        left, packed = a.to_mkldnn(), weight.to_mkldnn()
        return lambda: torch.nn.functional.linear(left, packed)
    return lambda: torch.nn.functional.linear(a, weight)


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    return torch


def memory_bound() -> list[dict[str, Any]]:
    """Softmax and addition, in GB/s beside a copy of as many bytes."""
    import numpy as np

    import tilelang
    import tilelang.language as T

    M, N = 4096, 4096

    @T.prim_func
    def add(
        A: T.Tensor((M, N), "float32"),
        B: T.Tensor((M, N), "float32"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, 32), threads=128) as bx:
            for i, j in T.Parallel(32, N):
                C[bx * 32 + i, j] = A[bx * 32 + i, j] + B[bx * 32 + i, j]

    @T.prim_func
    def softmax(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(M, threads=128) as bx:
            x = T.alloc_fragment((1, N), "float32")
            top = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(X[bx, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(1, N):
                x[i, j] = T.exp2((x[i, j] - top[i]) * 1.44269504)
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(1, N):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[bx, 0])

    rng = np.random.default_rng(0)
    A, B = (rng.random((M, N), dtype=np.float32) for _ in range(2))
    C, X = np.zeros_like(A), np.zeros_like(A)
    add_kernel, softmax_kernel = (tilelang.compile(f, target="cpu") for f in (add, softmax))

    def numpy_softmax() -> Any:
        e = np.exp(A - A.max(axis=1, keepdims=True))
        return e / e.sum(axis=1, keepdims=True)

    bytes_of = A.nbytes
    rows = []
    copy = take_turns({"copy": lambda: np.copyto(X, A)})["copy"]
    for name, ours, numpys, moved, check in (
        ("add", lambda: add_kernel(A, B, C), lambda: np.add(A, B, out=X), 3, lambda: A + B),
        ("softmax", lambda: softmax_kernel(A, C), numpy_softmax, 2, numpy_softmax),
    ):
        times = take_turns({"numpy": numpys, "tilelang": ours})
        values = {n: moved * bytes_of / t / 1e9 for n, t in times.items()}
        values["copy"] = 2 * bytes_of / copy / 1e9
        error = float(np.abs(C - check()).max())
        rows.append({"what": f"{name} {M}x{N} float32", "unit": "GB/s", "error": error,
                     "values": values})  # fmt: skip
    return rows


def attention() -> list[dict[str, Any]]:
    """Flash attention beside torch's."""
    import numpy as np

    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples"))
    from main import flash_attention

    torch = _torch()
    heads, seq, dim = 8, 2048, 64
    rng = np.random.default_rng(0)
    Q, K, V = (rng.standard_normal((heads, seq, dim), dtype=np.float32) for _ in range(3))
    kernel = flash_attention(heads, seq, dim, 128, 128)
    contestants: dict[str, Callable[[], Any]] = {"tilelang": lambda: kernel(Q, K, V)}
    error = None
    if torch is not None:
        q, k, v = (torch.from_numpy(x)[None] for x in (Q, K, V))
        sdpa = torch.nn.functional.scaled_dot_product_attention
        contestants["torch SDPA"] = lambda: sdpa(q, k, v)
        error = float(np.abs(kernel(Q, K, V) - sdpa(q, k, v)[0].numpy()).max())
    times = take_turns(contestants)
    flops = 4 * heads * seq * seq * dim
    values = {n: flops / t / 1e9 for n, t in times.items()}
    return [{"what": f"attention {heads}x{seq}x{dim} float32", "unit": "GF/s", "error": error,
             "values": values}]  # fmt: skip


def numpy_only(sizes: list[int]) -> list[dict[str, Any]]:
    """Products by numpy alone, for one choice of BLAS kernels."""
    import numpy as np

    rows = []
    for size in sizes:
        A, B = (np.random.default_rng(0).random((size, size), dtype=np.float32) for _ in range(2))
        C = np.empty_like(A)
        times = take_turns({"numpy": lambda a=A, b=B, c=C: np.matmul(a, b, out=c)})
        values = {"numpy": 2 * size**3 / times["numpy"] / 1e9}
        rows.append({"what": f"float32 {size}^3", "unit": "GF/s", "values": values})
    return rows


def child(threads: int, coretype: str, part: str, sizes: list[int]) -> list[dict[str, Any]]:
    """Run one part in a fresh process with its own thread count and BLAS kernels."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    variables = {**os.environ, **dict.fromkeys(names, str(threads))}
    if coretype:
        variables["OPENBLAS_CORETYPE"] = coretype
    words = [sys.executable, os.path.abspath(__file__), "--part", part, "--sizes", *map(str, sizes)]
    done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def show(threads: int, rows: list[dict[str, Any]]) -> None:
    """A table of one thread count."""
    print(f"\n{threads} thread{'s' * (threads > 1)}")
    for row in rows:
        ours = row["values"]["tilelang"]
        others = {n: v for n, v in row["values"].items() if n != "tilelang"}
        best = max(others.values()) if others else float("nan")
        shown = ", ".join(f"{n} {v:.1f}" for n, v in others.items())
        print(f"  {row['what']:28} tilelang {ours:7.1f} {row['unit']}   {shown}   "
              f"ratio to best {ours / best:.3f}")  # fmt: skip


def compile_for(arch: str, folder: str) -> str:
    """A C compiler for ``arch``: its last ``-march`` counts."""
    compiler = os.environ.get("CC", "cc")
    path = os.path.join(folder, f"cc-{arch}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec {compiler} "$@" -march={arch}\n')
    os.chmod(path, 0o755)
    return path


def main() -> None:
    """All parts for all thread counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--sizes", type=int, nargs="*", default=[1024, 2048])
    parser.add_argument("--json")
    parser.add_argument("--part", choices=("ours", "numpy"))
    parser.add_argument("--arch", default="")
    options = parser.parse_args()
    if options.arch:
        with tempfile.TemporaryDirectory() as folder:
            os.environ.update(AVX2, CC=compile_for(options.arch, folder))
            compare(options, AVX2_CORETYPES)
        return
    if options.part == "ours":
        rows = [*products(options.sizes), *attention(), *memory_bound()]
        print(json.dumps(rows))
        return
    if options.part == "numpy":
        print(json.dumps(numpy_only(options.sizes)))
        return
    compare(options, CORETYPES)


def compare(options: argparse.Namespace, coretypes: tuple[str, ...]) -> None:
    """Measure and show every thread count; ``coretypes``: kernels that numpy may use."""
    report: dict[int, Any] = {}
    for threads in options.threads:
        # The BLAS kernels that serve this machine best stand beside ours in one process.
        choices = {c: child(threads, c, "numpy", options.sizes[:1]) for c in coretypes}
        best = max(choices, key=lambda c: choices[c][0]["values"]["numpy"])
        rows = child(threads, best, "ours", options.sizes)
        report[threads] = {"coretype": best, "rows": rows, "choices": choices}
        show(threads, rows)
        print(f"  (numpy with OPENBLAS_CORETYPE={best or 'its own choice'})")
    if options.json:
        record.write(options.json, report)


if __name__ == "__main__":
    main()
