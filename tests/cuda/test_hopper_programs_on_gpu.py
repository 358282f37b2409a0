"""Kernels with roles and barriers of their authors give what torch gives, on Hopper.

``python -m pytest tests/cuda/test_hopper_programs_on_gpu.py`` runs them on such a GPU; the emulator
checks every access of theirs, and that each waits for what it uses.
"""

from __future__ import annotations

import hopper_programs as programs
import pytest
from gpus import Gpu

from tilelang.target.device import cuda_devices

torch = pytest.importorskip("torch", reason="the tensors are torch's")

ARCH = "sm_90a"
PRODUCTS = ("two_groups", "ring", "in_flight", "ping_pong", "scaled", "attention")


# A product by hand whose parts are scaled keeps more than its registers hold.
SPILLS = pytest.mark.filterwarnings("ignore:[^\n]*registers are spilled")


@SPILLS
@pytest.mark.parametrize("name", programs.PROGRAMS)
def test_programs_with_roles_are_right(gpu: Gpu, name: str) -> None:
    if not gpu.emulated and cuda_devices()[0].rstrip("a") != "sm_90":
        pytest.skip("needs an sm_90 GPU")
    entry = programs.PROGRAMS[name]
    func = entry.make()
    random = torch.Generator().manual_seed(3)
    tensors = []
    for buffer in func.buffer_map.values():
        values = torch.randn([int(n) for n in buffer.shape], generator=random)
        tensors.append(gpu.place(values.to(getattr(torch, str(buffer.dtype)))))
    kernel = gpu.compile(func, arch=ARCH)
    for _ in range(2):  # barriers begin anew
        kernel(*tensors)
    gpu.wait()
    *given, found = (tensor.cpu().to(torch.float64) for tensor in tensors)
    wanted = entry.expected(*given)
    assert float((found - wanted).abs().max()) <= entry.tolerance * float(wanted.abs().max())


@SPILLS
@pytest.mark.parametrize("name", PRODUCTS)
def test_tiles_in_roles_are_multiplied_by_warpgroups(gpu: Gpu, name: str) -> None:
    text = gpu.compile(programs.PROGRAMS[name].make(), arch=ARCH).get_kernel_source()
    assert "tl_wgmma_m64" in text
    assert "tl_mma_" not in text
