"""The programs of the interpreter's tests, as CUDA.

Each test is the one of the other file, with its own comparison; only what runs the program is
another. Left out is what has no meaning for a GPU, with the reason.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from gpus import Gpu

from tilelang import interpret
from tilelang.ir.buffer import Buffer
from tilelang.ir.stmt import PrimFunc

sys.path.append(str(Path(__file__).parents[1] / "interpret"))
import test_programs  # these are found through the path above
import test_threads
import test_tiles
import test_warp

pytest.importorskip("torch", reason="the tensors of GPU kernels are torch's")

# Tests of those files that say nothing about a GPU, with the reason.
_ORDER = "needs the interpreter's order of threads, blocks or iterations"
_FORM = "is built in a form that the frontend does not make"
LEFT_OUT: dict[str, str] = {
    "test_errors_point_at_the_line_of_the_program": "is about errors of the interpreter",
    "test_hardware_operations_say_what_they_need": "is about errors of the interpreter",
    "test_a_lazy_select_does_not_touch_what_is_not_taken": "is about errors of the interpreter",
    "test_an_exchange_in_a_loop_of_several_iterations_for_a_thread_is_refused": "compiles itself",
    "test_print_and_device_assert": "looks at what the interpreter prints",
    "test_votes_and_masks": "the mask of active lanes is any, where threads run apart",
    "test_warp_reduction_counts_executing_lanes_only": "lanes of the mask end without reducing",
    "test_votes_look_at_the_lanes_of_the_mask": "lanes vote without being in the mask",
    "test_parallel_of_a_sub_range_is_dealt_to_its_threads": "divides a warp",
    "test_blocks_may_run_in_any_order": _ORDER,
    "test_thread_index_inside_parallel_deals_iterations_in_rounds": _ORDER,
    "test_vector_loads_by_address": _FORM,
}  # fmt: skip


def executed(gpu: Gpu, func: PrimFunc, args: list[Any]) -> None:
    """Run ``func`` on arrays of storage elements, which are changed in place."""
    from fuzz.gpu import to_gpu, to_host

    kernel = gpu.compile(func)
    if gpu.emulated:
        kernel(*args)
        return
    placed = [
        to_gpu(arg, str(param.dtype)) if isinstance(param, Buffer) and arg is not None else arg
        for param, arg in zip(func.params, args)
    ]
    kernel(*placed)
    gpu.wait()
    for arg, tensor in zip(args, placed):
        if isinstance(arg, np.ndarray):
            arg[...] = to_host(tensor, arg)


@pytest.fixture(autouse=True)
def on_gpu(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> None:
    """What runs programs in those tests runs them on ``gpu``."""

    def run(func: PrimFunc, args: list[Any], **ignored: Any) -> None:
        executed(gpu, func, args)

    monkeypatch.setattr(interpret, "run", run)


def _taken(module: ModuleType) -> dict[str, Any]:
    return {
        name: test
        for name, test in vars(module).items()
        if name.startswith("test_") and callable(test) and name not in LEFT_OUT
    }


def test_skipped_operations_exist() -> None:
    known = {name for module in MODULES for name in vars(module)}
    assert set(LEFT_OUT) <= known


MODULES = (test_programs, test_tiles, test_threads, test_warp)
for _module in MODULES:
    globals().update(_taken(_module))
