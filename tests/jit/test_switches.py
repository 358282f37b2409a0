"""Every switch that the pages promise does what they say, from the outside."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gemm_program import gemm_program

import tilelang
import tilelang.language as T
from tilelang import PassConfigKey
from tilelang.autotuner.session import workers
from tilelang.errors import TileError, TileUnsupportedError

DOCS = Path(__file__).resolve().parents[2] / "docs"
SM_90A = "cuda -arch=sm_90a"


product = gemm_program(512, 512, 256, (128, 128, 64), 3, 256, out="float16")


@T.prim_func
def exponentials(A: T.Tensor((1000,), "float32")):
    with T.Kernel(8, threads=128) as b:
        for i in T.Parallel(128):
            A[b * 128 + i] = T.exp(A[b * 128 + i])


@T.prim_func
def missed_by_some(A: T.Tensor((128,), "int32")):
    with T.Kernel(1, threads=128):
        s = T.alloc_shared((128,), "int32")
        t = T.alloc_shared((128,), "int32")
        tx = T.get_thread_binding()
        t[tx] = A[tx]
        A[tx] = t[127 - tx]
        if A[tx] > 0:
            s[tx] = A[tx]
            A[tx] = s[(tx + 1) % 128]


def text(func: Any, target: str, *keys: str, **values: Any) -> str:
    """The generated text under switches that are on, or have values."""
    configs = {PassConfigKey[key]: True for key in keys} | {
        PassConfigKey[key]: value for key, value in values.items()
    }
    source: str = tilelang.lower(func, target=target, pass_configs=configs).kernel_source
    return source


def _is_gone(word: str, func: Any, target: str, *keys: str) -> None:
    assert re.search(word, text(func, target))
    assert not re.search(word, text(func, target, *keys))


def _own_barriers() -> None:
    with pytest.raises(TileUnsupportedError, match="threads exchange data through `s`"):
        text(missed_by_some, "cuda -arch=sm_80")
    found = text(missed_by_some, "cuda -arch=sm_80", "TL_DISABLE_THREAD_STORAGE_SYNC")
    assert "__syncthreads();" in found  # that of `t`, which can remain


def _negative() -> None:
    @T.prim_func
    def chosen(A: T.Tensor((8,), "float32"), I: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=8):
            A[I[0]] = 1.0

    at = np.full(1, -1, np.int32)
    for rule, is_error in (("outside", False), ("error", True)):
        configs = {PassConfigKey.TL_NEGATIVE_INDICES: rule}
        kernel = tilelang.compile(chosen, execution_backend="interpret", pass_configs=configs)
        with pytest.raises(TileError, match="is negative") if is_error else nullcontext():
            kernel(np.zeros(8, np.float32), at)


EFFECTS: dict[str, Callable[[], None]] = {
    "TL_DISABLE_SAFE_MEMORY_ACCESS": lambda: _is_gone(
        "TL_STORE_IF", exponentials, "cpu", "TL_DISABLE_SAFE_MEMORY_ACCESS"
    ),
    "TL_DISABLE_THREAD_STORAGE_SYNC": _own_barriers,
    "TL_DISABLE_TMA_LOWER": lambda: _is_gone(
        "tl_tensor_map", product, SM_90A, "TL_DISABLE_TMA_LOWER"
    ),
    "TL_DISABLE_WGMMA": lambda: _is_gone("TL_WGMMA", product, SM_90A, "TL_DISABLE_WGMMA"),
    "TL_DISABLE_WARP_SPECIALIZED": lambda: _is_gone(
        "tl_setmaxnreg", product, SM_90A, "TL_DISABLE_WARP_SPECIALIZED"
    ),
    "TL_NEGATIVE_INDICES": _negative,
}
# What files of other folders look at: key -> the file and what it says.
ELSEWHERE = {
    "TL_DISABLE_WGMMA_OVERLAP": ("transforms/test_gemm_overlap.py", "Options(no_overlap=True)"),
    "TL_DISABLE_PERSISTENT_TILES": (
        "transforms/test_persistent_epilogue.py",
        '"no_persistent_tiles"',
    ),
    "TL_DISABLE_LAUNCH_VERSIONS": ("transforms/test_launch_versions.py", "DISABLE_LAUNCH_VERSIONS"),
    "TL_ENABLE_FAST_MATH": ("jit/test_fast_math.py", "PassConfigKey.TL_ENABLE_FAST_MATH"),
    "TL_DEVICE_COMPILE_FLAGS": ("jit/test_options.py", "tl.device_compile_flags"),
    "TL_UNINITIALIZED_READS": ("jit/test_options.py", "PassConfigKey.TL_UNINITIALIZED_READS"),
    "TL_DISABLE_BUFFER_INIT_CHECK": ("jit/test_options.py", "tl.disable_buffer_init_check"),
    "TL_STOP_AFTER": ("test_watch.py", "tl.stop_after"),
    "TL_ENABLE_DUMP_IR": ("jit/test_options.py", "tl.enable_dump_ir"),
    "TL_DUMP_IR_DIR": ("jit/test_options.py", "tl.dump_ir_path"),
    "TL_DUMP_IR_AFTER": ("test_watch.py", "dump_after"),
    "TL_PASS_PROFILE": ("test_watch.py", "profile"),
    "TL_PASS_PROFILE_THRESHOLD_MS": ("test_watch.py", "profile_threshold"),
    "TL_PTXAS_REGISTER_USAGE_LEVEL": ("jit/test_cuda.py", "tl.ptxas_register_usage_level"),
    "TL_SIMDGROUP_ELEMENT_MAP": ("metal/test_products.py", "Options(element_map=True)"),
}


@pytest.mark.parametrize("key", EFFECTS)
def test_a_pass_config_has_its_documented_effect(key: str) -> None:
    EFFECTS[key]()


def test_every_documented_pass_config_is_tested() -> None:
    section = (DOCS / "running.md").read_text(encoding="utf-8").partition("## Pass configs")[2]
    rows = re.findall(r"^\| (`TL_[^|]*) \|", section.partition("\n## ")[0], re.M)
    promised = {key for row in rows for key in re.findall(r"TL_\w+", row)}
    assert promised == {*EFFECTS, *ELSEWHERE}
    for file, words in ELSEWHERE.values():
        assert words in (DOCS.parent / "tests" / file).read_text(encoding="utf-8"), file


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"CPU_COUNTS": "3"}, 3),
        ({"CPU_COUNTS": "30", "MAX_CPU_COUNT": "4"}, 4),
        ({"CPU_UTILITIES": "0.5"}, 4),
        ({"CPU_UTILITIES": "0.5", "MAX_CPU_COUNT": "2"}, 2),
        ({}, 7),
    ],
)
def test_the_environment_sets_the_compiling_processes(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], expected: int
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    for name in ("CPU_COUNTS", "MAX_CPU_COUNT", "CPU_UTILITIES"):
        monkeypatch.delenv(f"TILELANG_AUTO_TUNING_{name}", raising=False)
    for name, value in given.items():
        monkeypatch.setenv(f"TILELANG_AUTO_TUNING_{name}", value)
    assert workers(100, None) == expected
    assert workers(1, None) == 1 and workers(100, 5) == 5
