"""Programs in the intrinsics of single instructions.

``python -m pytest tests/cuda/test_ptx_intrinsics_on_gpu.py`` runs all of them that the GPU has the
instructions of; the emulator has all.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import ptx_programs
import pytest
from gpus import Gpu

from tilelang.target.device import cuda_devices

torch = pytest.importorskip("torch", reason="the tensors are torch's")


def placed(gpu: Gpu, array: Any, kind: str) -> Any:
    """A storage array where kernels run, as a tensor of its dtype."""
    wanted = getattr(torch, kind)
    whole = array.view(f"i{array.itemsize}") if array.dtype.kind == "u" else array
    tensor = gpu.place(whole)
    return tensor if tensor.dtype == wanted else tensor.view(wanted)


def storage(tensor: Any, like: Any) -> Any:
    """The tensor as a storage array again."""
    size = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[tensor.element_size()]
    return tensor.cpu().view(size).numpy().view(like.dtype)


def need(gpu: Gpu, arch: str) -> None:
    """Skip on a GPU without the instructions of ``arch``."""
    if not gpu.emulated and cuda_devices()[0].rstrip("a") != arch.rstrip("a"):
        pytest.skip(f"needs an {arch.rstrip('a')} GPU")


@pytest.mark.parametrize("name", ptx_programs.PROGRAMS)
def test_programs_of_intrinsics_are_right(gpu: Gpu, name: str) -> None:
    entry = ptx_programs.PROGRAMS[name]
    need(gpu, entry.arch)
    kernel = gpu.compile(entry.make(), arch=entry.arch)
    for seed in range(3):
        stored, kinds, values = ptx_programs.arguments(entry, seed)
        tensors = [placed(gpu, array, kind) for array, kind in zip(stored, kinds)]
        kernel(*tensors)
        gpu.wait()
        found = [storage(tensor, array) for tensor, array in zip(tensors, stored)]
        assert ptx_programs.wrong(entry, found, kinds, values) == ""


@pytest.mark.parametrize("backend", ["auto", "python"])
def test_launches_from_c_and_python_pass_the_same_maps(gpu: Gpu, backend: str) -> None:
    entry = ptx_programs.PROGRAMS["boxes"]
    need(gpu, entry.arch)
    kernel = gpu.compile(entry.make(), arch=entry.arch, backend=backend)
    stored, kinds, values = ptx_programs.arguments(entry, 5)
    tensors = [placed(gpu, array, kind) for array, kind in zip(stored, kinds)]
    kernel(*tensors)
    kernel(*tensors)
    found = [storage(tensor, array) for tensor, array in zip(tensors, stored)]
    wanted = values[1] + 2 * values[0]
    np.testing.assert_allclose(found[1], wanted, rtol=1e-5, atol=1e-5)
