"""Cold compile times of CUDA kernels, from the traced function to machine code, without a GPU.

    python bench/compile_time.py [--arch sm_80] [--runs 5] [--cpu] [--json FILE]
                                 [--only NAME ...] [--incumbent PYTHON|FOLDER] [--before FOLDER]

Every figure is the best of several fresh processes with an empty disk cache. ``--incumbent`` names
the Python of an environment, or a folder of packages for this one, in which PyPI's ``tilelang`` and
nvcc are installed (its own dependencies, and ``nvidia-cuda-nvcc nvidia-cuda-cccl``; a CPU build of
torch will do); the same programs are then compiled with it: its
``lower(..., enable_device_compile=True)`` for the same architecture, which gives a cubin as well.
``--before`` names another checkout of this repository, whose own script compiles the program before
and behind a second turn of this one.
``h200_gemm``, ``h200_attention`` and ``h200_mla`` are the programs of ``h200.py``; they are meant
for ``--arch sm_90a``.

Phases: ``import`` of the package; ``load``, the parts of the package that are imported with the
first kernel; ``trace``, from Python to the IR; ``passes``, from the IR to CUDA text; ``assemble``,
from text to machine code (NVRTC, or nvcc), of which ``ptxas`` is the assembler's own. ``cold`` is
trace + passes + assemble. ``first`` is all that a kernel costs by ``tilelang.compile`` after the
import: load, trace, passes, machine code, and the launcher, which a C compiler builds meanwhile.
``again`` is the same in a later process that finds all of it in the disk cache. ``--cpu`` counts
processor time of the process and its children in place of time that passes, for machines that do
other work as well.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import record

ROOT = Path(__file__).resolve().parents[1]
PHASES = ("import", "load", "trace", "passes", "assemble", "ptxas", "cold", "first", "again")
TARGETS_MS = {"elementwise": 60, "gemm": 250, "attention": 500, "causal": 500}


# -- the programs: the same text for every implementation -----------------------------------------
def elementwise(M: int = 4096, N: int = 4096, block_M: int = 32, block_N: int = 256) -> Any:
    """C = A + B."""
    import tilelang.language as T

    @T.prim_func
    def main(
        A: T.Tensor((M, N), "bfloat16"),
        B: T.Tensor((M, N), "bfloat16"),
        C: T.Tensor((M, N), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                row, column = by * block_M + i, bx * block_N + j
                C[row, column] = A[row, column] + B[row, column]

    return main


def softmax(M: int = 8192, N: int = 4096) -> Any:
    """Each row in registers."""
    import tilelang.language as T

    @T.prim_func
    def main(X: T.Tensor((M, N), "bfloat16"), Y: T.Tensor((M, N), "bfloat16")):
        with T.Kernel(M, threads=256) as bx:
            x = T.alloc_fragment((1, N), "float32")
            m = T.alloc_fragment((1,), "float32")
            s = T.alloc_fragment((1,), "float32")
            T.copy(X[bx, 0], x)
            T.reduce_max(x, m, dim=1)
            for i, j in T.Parallel(1, N):
                x[i, j] = T.exp2((x[i, j] - m[i]) * 1.44269504)
            T.reduce_sum(x, s, dim=1)
            for i, j in T.Parallel(1, N):
                x[i, j] = x[i, j] / s[i]
            T.copy(x, Y[bx, 0])

    return main


def gemm(
    M: int = 4096, N: int = 4096, K: int = 4096, bM: int = 128, bN: int = 128, bK: int = 32
) -> Any:
    """C = A @ B in float16 with three stages."""
    import tilelang.language as T

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        C: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, bN), T.ceildiv(M, bM), threads=128) as (bx, by):
            A_s = T.alloc_shared((bM, bK), "float16")
            B_s = T.alloc_shared((bK, bN), "float16")
            C_l = T.alloc_fragment((bM, bN), "float32")
            T.clear(C_l)
            for k in T.Pipelined(T.ceildiv(K, bK), num_stages=3):
                T.copy(A[by * bM, k * bK], A_s)
                T.copy(B[k * bK, bx * bN], B_s)
                T.gemm(A_s, B_s, C_l)
            T.copy(C_l, C[by * bM, bx * bN])

    return main


def attention(
    causal: bool = False, heads: int = 16, seq: int = 4096, dim: int = 128, bM: int = 128,
    bN: int = 64,
) -> Any:  # fmt: skip
    """Flash attention, forward; causal: with a mask and a loop that ends at the diagonal."""
    import tilelang.language as T

    scale = (1.0 / dim) ** 0.5 * 1.44269504

    @T.prim_func
    def main(
        Q: T.Tensor((1, seq, heads, dim), "float16"), K: T.Tensor((1, seq, heads, dim), "float16"),
        V: T.Tensor((1, seq, heads, dim), "float16"), O: T.Tensor((1, seq, heads, dim), "float16"),
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(seq, bM), heads, 1, threads=256) as (bx, by, bz):
            Q_s = T.alloc_shared([bM, dim], "float16")
            K_s = T.alloc_shared([bN, dim], "float16")
            V_s = T.alloc_shared([bN, dim], "float16")
            O_s = T.alloc_shared([bM, dim], "float16")
            s = T.alloc_fragment([bM, bN], "float32")
            p = T.alloc_fragment([bM, bN], "float16")
            o = T.alloc_fragment([bM, dim], "float32")
            m = T.alloc_fragment([bM], "float32")
            before = T.alloc_fragment([bM], "float32")
            alpha = T.alloc_fragment([bM], "float32")
            row = T.alloc_fragment([bM], "float32")
            total = T.alloc_fragment([bM], "float32")
            T.copy(Q[bz, bx * bM : (bx + 1) * bM, by, :], Q_s)
            T.fill(o, 0)
            T.fill(total, 0)
            T.fill(m, -T.infinity("float32"))
            steps = T.ceildiv((bx + 1) * bM, bN) if causal else T.ceildiv(seq, bN)
            for k in T.Pipelined(steps, num_stages=2):
                T.copy(K[bz, k * bN : (k + 1) * bN, by, :], K_s)
                if causal:
                    for i, j in T.Parallel(bM, bN):
                        s[i, j] = T.if_then_else(
                            bx * bM + i >= k * bN + j, 0, -T.infinity("float32")
                        )
                else:
                    T.clear(s)
                T.gemm(Q_s, K_s, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(m, before)
                T.fill(m, -T.infinity("float32"))
                T.reduce_max(s, m, dim=1, clear=False)
                for i in T.Parallel(bM):
                    m[i] = T.max(m[i], before[i])
                for i in T.Parallel(bM):
                    alpha[i] = T.exp2(before[i] * scale - m[i] * scale)
                for i, j in T.Parallel(bM, bN):
                    s[i, j] = T.exp2(s[i, j] * scale - m[i] * scale)
                T.reduce_sum(s, row, dim=1)
                for i in T.Parallel(bM):
                    total[i] = total[i] * alpha[i] + row[i]
                T.copy(s, p)
                for i, j in T.Parallel(bM, dim):
                    o[i, j] *= alpha[i]
                T.copy(V[bz, k * bN : (k + 1) * bN, by, :], V_s)
                T.gemm(p, V_s, o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(bM, dim):
                o[i, j] /= total[i]
            T.copy(o, O_s)
            T.copy(O_s, O[bz, bx * bM : (bx + 1) * bM, by, :])

    return main


def of_h200(name: str, *sizes: Any) -> Any:
    """A program of ``h200.py``, not compiled."""
    import tilelang

    sys.path.insert(1, str(ROOT / "bench"))
    import h200_programs

    compile_it = tilelang.compile
    tilelang.compile = lambda func, **options: func
    try:
        return getattr(h200_programs, name)(*sizes)
    finally:
        tilelang.compile = compile_it


PROGRAMS: dict[str, Callable[[], Any]] = {
    "elementwise": elementwise,
    "softmax": softmax,
    "gemm": gemm,
    "attention": attention,
    "causal": lambda: attention(causal=True),
    "h200_gemm": lambda: of_h200("gemm", 4096, 4096, 4096, "bfloat16", "bfloat16", False,
                                 128, 256, 64, 4, 256),
    "h200_attention": lambda: of_h200("attention", 4, 16, 4096, 128, False, 128, 128, 2, 256),
    "h200_mla": lambda: of_h200("mla_decode", 64, 128, 8192, 512, 64, 64, 64, 2, 256),
}  # fmt: skip
FAST = ("h200_attention", "h200_mla")  # with fast math, as there


# -- one process ----------------------------------------------------------------------------------
def now() -> float:
    """Seconds that passed or, where `COUNT_CPU` is set, seconds of the processor."""
    if "COUNT_CPU" not in os.environ:
        return time.perf_counter()
    import resource

    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(item.ru_utime + item.ru_stime for item in used)


class Clock:
    """Milliseconds of named phases, one after the other."""

    def __init__(self) -> None:
        self.found: dict[str, float] = {}
        self.last = now()

    def lap(self, name: str) -> None:
        """The time since the last lap belongs to ``name``."""
        end = now()
        self.found[name] = self.found.get(name, 0.0) + (end - self.last) * 1e3
        self.last = end


def ours(name: str, arch: str) -> dict[str, float]:
    """Phases of one kernel with the package of this repository."""
    sys.path.insert(0, str(ROOT))
    clock = Clock()
    import tilelang
    import tilelang.language  # noqa: F401

    clock.lap("import")
    from tilelang.compiler import compile
    from tilelang.cuda.executable import compile_flags
    from tilelang.cuda.nvrtc import load_ahead
    from tilelang.cuda.toolchain import compile_cubin
    from tilelang.options import Options
    from tilelang.target import parse_target

    clock.lap("load")
    func = PROGRAMS[name]()
    clock.lap("trace")
    load_ahead(arch)  # as the launcher does when the disk cache has no text
    options = Options(fast_math=name in FAST)
    artifact = compile(func, parse_target(f"cuda -arch={arch}"), options)
    clock.lap("passes")
    result = compile_cubin(artifact.source, arch, compile_flags(artifact, options))
    clock.lap("assemble")
    assert result.cubin[:4] == b"\x7fELF"
    times = re.findall(r"Compile time = ([0-9.]+) ms", result.log)  # by the assembler
    return {**clock.found, "ptxas": sum(map(float, times))}


def ours_again(name: str, arch: str) -> dict[str, float]:
    """A kernel by the public way, after the import of the package."""
    sys.path.insert(0, str(ROOT))
    import tilelang
    import tilelang.language

    clock = Clock()
    configs = {"tl.enable_fast_math": name in FAST}
    tilelang.compile(PROGRAMS[name](), target=f"cuda -arch={arch}", pass_configs=configs)
    clock.lap("again")
    return clock.found


def theirs(name: str, arch: str) -> dict[str, float]:
    """Phases of one kernel with the incumbent."""
    clock = Clock()
    import tilelang.language  # noqa: F401
    from tilelang import tvm
    from tilelang.contrib import nvcc
    from tilelang.engine.lower import lower

    clock.lap("import")
    clock.lap("load")
    func = PROGRAMS[name]()
    clock.lap("trace")
    assembled = 0.0
    compile_cuda = nvcc.compile_cuda

    def timed(*args: Any, **kwargs: Any) -> Any:
        nonlocal assembled
        begin = now()
        compiled = compile_cuda(*args, **kwargs)
        assembled += (now() - begin) * 1e3
        return compiled

    nvcc.compile_cuda = timed
    target = tvm.target.Target({"kind": "cuda", "arch": arch})
    configs = {"tl.enable_fast_math": name in FAST}
    with tvm.transform.PassContext(config=configs), target:
        lower(func, target=target, enable_device_compile=True)
    clock.lap("passes")
    assert assembled, "the incumbent did not call nvcc"
    clock.found["passes"] -= assembled
    return {**clock.found, "assemble": assembled}


MODES = {"ours": ours, "again": ours_again, "theirs": theirs}


class FailedError(Exception):
    """A process ended with an error."""


# -- the table ------------------------------------------------------------------------------------
def run(
    python: str, mode: str, name: str, arch: str, cache: str, script: str = __file__
) -> dict[str, float]:
    """The phases of a fresh process; ``python`` may be a folder of packages."""
    variables = {**os.environ, "TILELANG_CACHE_DIR": cache}
    # Packages are installed with .pyc files.
    for variable in ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE"):
        variables.pop(variable, None)
    home = Path(python).parent.parent
    toolkits = sorted(home.glob("lib/python3*/site-packages/nvidia/cu[0-9]*"))
    if Path(python).is_dir():
        variables["PYTHONPATH"] = str(Path(python).resolve())
        python, toolkits = sys.executable, sorted(Path(python).glob("nvidia/cu[0-9]*"))
    if mode == "theirs" and toolkits:  # where the wheels put nvcc
        variables["CUDA_HOME"] = str(toolkits[-1])
    words = [python, str(Path(script).resolve()), "--one", mode, name, "--arch", arch]
    done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False)
    if done.returncode:
        raise FailedError(f"{mode} {name}: {done.stderr[-2000:]}")
    record: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return record


def best(
    python: str, mode: str, name: str, arch: str, runs: int, script: str = __file__
) -> dict[str, float]:
    """The fastest of ``runs`` fresh processes, by the sum of its phases after the import."""
    rows = []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as cache:
            row = run(python, mode, name, arch, cache, script)
        row["cold"] = row["trace"] + row["passes"] + row["assemble"]
        rows.append(row)
    return min(rows, key=lambda row: row["cold"])


def by_public_way(name: str, arch: str, runs: int) -> dict[str, float]:
    """The fastest process with an empty disk cache, and the fastest later one."""
    firsts, later = [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as cache:
            firsts.append(run(sys.executable, "again", name, arch, cache)["again"])
            later.append(run(sys.executable, "again", name, arch, cache)["again"])
    return {"first": min(firsts), "again": min(later)}


def beside(before: str, name: str, arch: str, runs: int) -> dict[str, dict[str, float]]:
    """Rows of another checkout and of this one, in turns."""
    script = str(Path(before) / "bench" / "compile_time.py")
    try:
        first = best(sys.executable, "ours", name, arch, runs, script)
    except FailedError as error:
        print(error, file=sys.stderr)
        return {"before": {}}
    again = best(sys.executable, "ours", name, arch, runs)
    last = best(sys.executable, "ours", name, arch, runs, script)
    return {"before": min(first, last, key=lambda row: row["cold"]), "again": again}


def table(rows: dict[str, dict[str, dict[str, float]]]) -> str:
    """The rows as text, milliseconds."""
    lines = [f"{'':26}" + "".join(f"{phase:>10}" for phase in PHASES)]
    for name, sides in rows.items():
        for side, row in sides.items():
            cells = [f"{row[phase]:10.1f}" if phase in row else f"{'-':>10}" for phase in PHASES]
            text = "".join(cells) if row else "  does not compile this program"
            lines.append(f"{name:15}{side:11}" + text)
        if sides.get("incumbent"):
            times = sides["incumbent"]["cold"] / sides["tilelang"]["cold"]
            lines.append(f"{'':15}the incumbent takes {times:.1f} times as long")
    return "\n".join(lines)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--arch", default="sm_80")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", nargs="*", choices=PROGRAMS, default=list(PROGRAMS))
    parser.add_argument("--incumbent", metavar="PYTHON|FOLDER")
    parser.add_argument("--before", metavar="FOLDER", help="another checkout of this repository")
    parser.add_argument("--cpu", action="store_true", help="processor time")
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--one", nargs=2, metavar=("MODE", "PROGRAM"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(MODES[args.one[0]](args.one[1], args.arch)))
        return
    if args.cpu:
        os.environ["COUNT_CPU"] = "1"
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for name in args.only:
        row = best(sys.executable, "ours", name, args.arch, args.runs)
        rows[name] = {"tilelang": {**row, **by_public_way(name, args.arch, args.runs)}}
        if args.before:
            rows[name] |= beside(args.before, name, args.arch, args.runs)
        if args.incumbent:
            try:
                rows[name]["incumbent"] = best(args.incumbent, "theirs", name, args.arch, args.runs)
            except FailedError as error:
                rows[name]["incumbent"] = {}
                print(error, file=sys.stderr)
    print(table(rows))
    if args.json:
        report = {"arch": args.arch, "cores": os.cpu_count(), "processor_time": args.cpu,
                 "targets_ms": TARGETS_MS, "rows": rows}  # fmt: skip
        record.write(args.json, report)


if __name__ == "__main__":
    main()
