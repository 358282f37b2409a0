"""The kernels that are mutated: every example, the GPU benchmarks at small sizes, and programs in
single instructions of Hopper. Each group is made when it is asked for."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from captured import Case, as_results, capturing, example_cases
from example_modules import NAMES, load

import tilelang
import tilelang.language as T
from tilelang.compiler import compile as compile_source
from tilelang.target import Target, parse_target


def groups(arch: str) -> dict[str, Callable[[], list[Case]]]:
    """Makers of cases by name; those of one group share what it costs to make them."""
    found: dict[str, Callable[[], list[Case]]] = {
        name: partial(_examples, name, arch) for name in NAMES if name not in _LONGER
    }
    found |= {name: partial(_captured, name, make) for name, make in _benchmarks().items()}
    if arch.startswith("gfx"):  # the words are NVIDIA's
        return found
    return found | {f"words {name}": partial(_words, name) for name in _WORDS}


def target_of(arch: str) -> Target:
    """The target with an architecture of NVIDIA's or AMD's GPUs."""
    return parse_target(f"hip -mcpu={arch}" if arch.startswith("gfx") else f"cuda -arch={arch}")


def source_of(case: Case, arch: str) -> str:
    """The generated text of a case."""
    target = target_of(case.arch or arch)
    return compile_source(case.func, target, case.kernel(str(target), "interpret").options).source


def _examples(name: str, arch: str) -> list[Case]:
    """The calls of an example whose texts differ in more than their constants for one shape."""
    cases: dict[str, Case] = {}
    for case in example_cases(name):
        cases.setdefault(source_of(case, arch), case)
    texts = list(cases.values())
    return [
        replace(case, name=f"{name} {number}" if number else name)
        for number, case in enumerate(texts)
    ]


def _captured(name: str, call: Callable[[], Any]) -> list[Case]:
    cases: list[Case] = []
    with capturing(name, cases):
        call()
    return cases


# -- benchmarks ------------------------------------------------------------------------------------
_RANDOM = np.random.default_rng(0)


def _brain(*shape: int) -> np.ndarray:
    """bfloat16 numbers as codes."""
    values = _RANDOM.standard_normal(shape).astype(np.float32).view(np.uint32)
    return (values >> 16).astype(np.uint16)


def _half(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float16)


def _benchmarks() -> dict[str, Callable[[], Any]]:
    """Calls of the benchmarks' kernels, with more steps than stages, so that each stage comes
    again. Blocks, stages and threads are those of ``h200.py``."""
    makers: dict[str, Callable[[], Any]] = dict(_LONGER)
    for name in ("add", "softmax", "rmsnorm", "transpose"):
        for number, sizes in enumerate(_SMALL[name]):
            makers[f"bench {name}" + f" {number}" * (number > 0)] = partial(_small, name, sizes)
    for sizes in _GEMM:
        label = "x".join(map(str, sizes[1:4]))
        makers[f"bench gemm {label} {sizes[4]} stages"] = partial(_gemm, *sizes)
    for sizes in _ATTENTION:
        makers[f"bench attention {sizes[2]}x{sizes[3]} {sizes[4]} stages"] = partial(
            _attention, *sizes
        )
    for sizes in _DEQUANT:
        label = "x".join(map(str, sizes[3:6]))
        makers[f"bench dequant {label} {sizes[6]} stages"] = partial(_dequant, *sizes)
    return makers


_SMALL = {
    "add": [(8, 1024, 4, 512, 256), (32, 256, 8, 256, 128), (32, 256, 32, 256, 256)],
    "softmax": [(4, 1024, 1, 128), (4, 1024, 1, 256), (8, 1024, 4, 256)],
    "rmsnorm": [(4, 1024, 1, 128), (4, 1024, 1, 256), (8, 1024, 4, 256)],
    "transpose": [(64, 64, 32, 128), (128, 64, 64, 256), (128, 128, 128, 512)],
}
_GEMM = [
    (128, 64, 64, 32, 2, 128), (128, 64, 64, 32, 3, 128), (256, 128, 128, 32, 4, 128),
    (256, 256, 128, 64, 3, 256), (256, 128, 256, 64, 3, 256), (256, 128, 128, 64, 3, 128),
]  # fmt: skip
_ATTENTION = [  # heads, length, rows, columns, stages, threads; 128 wide where h200.py has it
    (1, 128, 64, 64, 1, 128, 64), (2, 128, 64, 32, 2, 128, 64), (1, 512, 128, 128, 2, 256, 128),
    (1, 256, 128, 64, 2, 128, 128), (1, 128, 128, 32, 2, 128, 128),
]  # fmt: skip
_DEQUANT = [
    (64, 64, 256, 64, 64, 64, 2, 128), (16, 64, 384, 16, 64, 64, 3, 128),
    (16, 128, 384, 16, 128, 64, 3, 128), (64, 128, 384, 64, 128, 64, 3, 128),
    (16, 64, 2048, 16, 64, 256, 6, 128), (16, 32, 2048, 16, 32, 256, 6, 64),
]  # fmt: skip


def _small(name: str, sizes: tuple[int, ...]) -> None:
    import h200_programs

    kernel = getattr(h200_programs, name)(*sizes)
    first = _brain(*sizes[:2])
    more = {"add": (sizes[:2],), "rmsnorm": ((sizes[1],),)}.get(name, ())
    kernel(first, *(_brain(*shape) for shape in more))


def _gemm(size: int, *rest: int) -> None:
    import h200_programs

    depth = max(size, 2 * rest[2] * rest[3])
    h200_programs.gemm(size, size, depth, "bfloat16", "bfloat16", False, *rest)(
        _brain(size, depth), _brain(depth, size)
    )


def _attention(
    heads: int, length: int, rows: int, columns: int, stages: int, threads: int, dim: int
) -> None:
    import h200_programs

    kernel = h200_programs.attention(1, heads, length, dim, False, rows, columns, stages, threads)
    kernel(*(_half(1, length, heads, dim) for _ in range(3)))


def _dequant(M: int, N: int, K: int, *rest: int) -> None:
    import h200_programs

    codes = _RANDOM.integers(0, 256, (N, K // 2)).astype(np.uint8)
    h200_programs.dequant(M, N, K, *rest)(_half(M, K), codes, _half(N, K // 64))


def _grouped() -> None:
    """The example, longer."""
    count, rows = 4, 16
    starts = np.arange(0, count * rows + 1, rows, dtype=np.int32)
    tiles = np.arange(count, dtype=np.int32)
    kernel = load("grouped_gemm").make("interpret")(count, 48, 136, rows)
    kernel(_half(count * rows, 136), _half(count, 136, 48), starts, tiles, starts[:-1])


def _quickstart() -> None:
    """The example, longer."""
    program = load("quickstart").matmul_relu(200, 136, 200)
    kernel = tilelang.compile(program, out_idx=-1, target="cpu", execution_backend="interpret")
    kernel(_half(200, 200), _half(200, 136))


def _scaled() -> None:
    """The example, longer."""
    M, N, K = 64, 128, 1280
    a, b = (_RANDOM.integers(0, 112, (rows, K)).astype(np.uint8) for rows in (M, N))
    scales = [_RANDOM.random((rows, 10), np.float32) / 64 for rows in (M, 1)]
    load("gemm_fp8_scaled").make("interpret")(M, N, K)(a, b, *scales)


def _flash(causal: bool) -> None:
    """The example, longer."""
    kernel = load("flash_attention").make("interpret")(1, 1, 144, 32, causal)
    kernel(*(_half(1, 144, 1, 32) for _ in range(3)))


_LONGER = {
    "quickstart": _quickstart, "grouped_gemm": _grouped, "flash_attention": partial(_flash, False),
    "flash_attention causal": partial(_flash, True), "gemm_fp8_scaled": _scaled,
}  # fmt: skip  # examples with few steps


# -- programs in single instructions ---------------------------------------------------------------
@T.macro
def _give(A, tile, k, stage, full, empty):
    """Fill a stage when it has been read, and say so."""
    tx = T.get_thread_binding()
    if k > 1:
        T.sync_threads(empty, 128)
    tile[stage, tx] = A[k, tx]
    T.named_barrier_arrive(full, 128)


@T.macro
def _take(tile, total, stage, full, empty):
    """Add up a stage when it is full, and give it back."""
    T.sync_threads(full, 128)
    total[0] += tile[stage, 127 - T.get_thread_binding()]
    T.named_barrier_arrive(empty, 128)  # the last ones are for nobody, which does no harm


def named():
    """Two warps hand tiles to two others through two stages of shared memory, by named barriers."""

    @T.prim_func
    def words_named(A: T.Tensor((6, 64), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            tile = T.alloc_shared((2, 64), "float32")
            total = T.alloc_local((1,), "float32")
            if tx < 64:
                for k in T.serial(3):
                    _give(A, tile, k * 2, 0, 1, 3)
                    _give(A, tile, k * 2 + 1, 1, 2, 4)
            else:
                total[0] = 0.0
                for _ in T.serial(3):
                    _take(tile, total, 0, 1, 3)
                    _take(tile, total, 1, 2, 4)
                B[tx - 64] = total[0]

    return words_named


_WORDS = (
    "gemm", "persistent", "persistent 3 stages", "boxes", "image", "cluster", "product_float16",
    "registers_float16", "matrices", "named",
)  # fmt: skip


def word_entry(name: str) -> Any:
    """A program in single instructions with its data; sizes so that every stage comes again."""
    import ptx_programs

    if name == "named":
        return ptx_programs.Entry(
            named,
            lambda rng: [(rng.standard_normal((6, 64)), "float32"), (np.zeros(64), "float32")],
            lambda a, _: a.sum(0)[::-1],
            1e-5,
            "sm_80",
        )
    entry = ptx_programs.PROGRAMS[name.split(" ")[0]]
    if name == "gemm":
        shapes = ((128, 640), (128, 640), (128, 128))
        make = partial(ptx_programs.gemm, 128, 128, 640)
    elif name == "persistent":
        shapes = ((256, 256), (512, 256), (256, 512))
        make = partial(ptx_programs.persistent, 256, 512, 256, blocks=3)
    elif name == "persistent 3 stages":  # as in ptx_gemm.py
        shapes = ((128, 320), (512, 320), (128, 512))
        make = partial(ptx_programs.persistent, 128, 512, 320, blocks=1, stages=3)
    else:
        return entry
    return replace(entry, make=make, data=ptx_programs._matrices_of("half", *shapes))


def _words(name: str) -> list[Case]:
    import ptx_programs
    from mutate_run import Runner

    entry = word_entry(name)
    stored, kinds, values = ptx_programs.arguments(entry)
    case = Case(f"words {name}", entry.make(), (), tuple(stored), (), entry.arch)
    after = Runner(case).report(runs=(("fifo", 0),), checks=("bounds",))
    assert not ptx_programs.wrong(entry, after.arguments, kinds, values), name
    return [replace(case, results=as_results(None, after.arguments))]
