"""Products by the emitters of single instructions are those of torch, in every form.

``python -m pytest tests/cuda/test_emitters_on_gpu.py`` runs them on a GPU that has the instructions;
the emulator has all, checks every access and finds what is not waited for.
"""

from __future__ import annotations

from typing import Any

import emitter_programs as programs
import pytest
from gpus import Gpu

from tilelang.target.device import cuda_devices

torch = pytest.importorskip("torch", reason="the tensors are torch's")

ORDERS = ((False, True), (True, True), (False, False), (True, False))  # A, B transposed


def need(gpu: Gpu, arch: str) -> str:
    """The target to ask for; skips on a GPU without the instructions."""
    if gpu.emulated:
        return arch
    have = cuda_devices()[0]
    if arch.endswith("a") and have.rstrip("a") != arch.rstrip("a"):
        pytest.skip(f"needs an {arch.rstrip('a')} GPU")
    if int(have.rstrip("a")[3:]) < int(arch.rstrip("a")[3:]):
        pytest.skip(f"needs {arch} or newer")
    return have


def right(gpu: Gpu, func: Any, arch: str, ta: bool = False, tb: bool = True) -> bool:
    """Whether every result is exactly the product of small whole numbers."""
    arch = need(gpu, arch)
    random = torch.Generator().manual_seed(7)
    tensors = []
    for buffer in func.buffer_map.values():
        kind, shape = getattr(torch, str(buffer.dtype)), [int(n) for n in buffer.shape]
        low = 0 if kind == torch.uint8 else -3
        values = torch.randint(low, 4, shape, generator=random)
        tensors.append(gpu.place(values.to(torch.float32).to(kind)))
    gpu.compile(func, arch=arch)(*tensors)
    gpu.wait()
    a, b, c = (tensor.cpu().to(torch.float64) for tensor in tensors)
    wanted = (a.T if ta else a) @ (b.T if tb else b)
    return bool((c == wanted).all())


@pytest.mark.parametrize("kind", programs.SUMS)
def test_all_swizzles_from_memory_and_registers(gpu: Gpu, kind: str) -> None:
    assert right(gpu, programs.spans(kind), "sm_90a")


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize(("ta", "tb"), ORDERS[1:])
def test_all_swizzles_in_all_orders_of_memory(gpu: Gpu, kind: str, ta: bool, tb: bool) -> None:
    assert right(gpu, programs.spans(kind, ta, tb), "sm_90a", ta, tb)


@pytest.mark.parametrize("kind", ["float16", "float8_e4m3fn"])
def test_sums_of_half_precision(gpu: Gpu, kind: str) -> None:
    assert right(gpu, programs.spans(kind, total="float16"), "sm_90a")


@pytest.mark.parametrize(("ta", "tb"), ORDERS)
def test_slices_of_stages_and_four_warpgroups(gpu: Gpu, ta: bool, tb: bool) -> None:
    assert right(gpu, programs.steps("float16", ta, tb), "sm_90a", ta, tb)


# The sums of 224 columns in one warpgroup leave few registers; here it is about the numbers.
@pytest.mark.filterwarnings("ignore:kernel .* is slower than it could be")
@pytest.mark.parametrize("tb", [False, True])
@pytest.mark.parametrize("N", [160, 192, 224])
def test_shares_of_columns_that_begin_within_a_panel(gpu: Gpu, N: int, tb: bool) -> None:
    assert right(gpu, programs.steps("float16", tb=tb, N=N), "sm_90a", tb=tb)


@pytest.mark.parametrize("registers", [False, True])
def test_an_instruction_at_a_time(gpu: Gpu, registers: bool) -> None:
    assert right(gpu, programs.atoms(registers), "sm_90a", tb=False)


def test_warpgroups_that_wait_for_tensor_maps(gpu: Gpu) -> None:
    assert right(gpu, programs.roles(), "sm_90a")


@pytest.mark.parametrize("kind", programs.SUMS)
@pytest.mark.parametrize(("ta", "tb"), ORDERS)
def test_products_of_warps(gpu: Gpu, kind: str, ta: bool, tb: bool) -> None:
    arch = "sm_89" if "float8" in kind else "sm_80"
    assert right(gpu, programs.warps(kind, ta, tb), arch, ta, tb)


@pytest.mark.parametrize(("ta", "tb"), ORDERS)
def test_products_of_warps_on_fragments(gpu: Gpu, ta: bool, tb: bool) -> None:
    assert right(gpu, programs.warps("float16", ta, tb, fragments=True), "sm_80", ta, tb)
