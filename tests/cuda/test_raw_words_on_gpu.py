"""Programs in the words of single instructions on a real GPU; skipped where there is none.

``python -m pytest tests/cuda/test_raw_words_on_gpu.py`` runs all of them on an sm_90 GPU.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import word_programs

import tilelang
from tilelang.target.device import cuda_devices

torch = pytest.importorskip("torch", reason="the tensors are torch's")
if not cuda_devices() or not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)
if cuda_devices()[0].rstrip("a") != "sm_90":
    pytest.skip("needs an sm_90 GPU", allow_module_level=True)


def placed(array: Any, kind: str) -> Any:
    """A storage array on the GPU, as a tensor of its dtype."""
    tensor = torch.from_numpy(array)
    wanted = getattr(torch, kind)
    return (tensor if tensor.dtype == wanted else tensor.view(wanted)).cuda()


def storage(tensor: Any, like: Any) -> Any:
    """The tensor as a storage array again."""
    size = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[tensor.element_size()]
    return tensor.cpu().view(size).numpy().view(like.dtype)


HERE = [name for name, entry in word_programs.PROGRAMS.items() if entry.arch == "sm_90a"]


@pytest.mark.parametrize("name", HERE)
def test_programs_of_words_are_right(name: str) -> None:
    entry = word_programs.PROGRAMS[name]
    kernel = tilelang.compile(entry.make(), target=f"cuda -arch={entry.arch}")
    for seed in range(3):
        stored, kinds, values = word_programs.arguments(entry, seed)
        tensors = [placed(array, kind) for array, kind in zip(stored, kinds)]
        kernel(*tensors)
        torch.cuda.synchronize()
        found = [storage(tensor, array) for tensor, array in zip(tensors, stored)]
        assert word_programs.wrong(entry, found, kinds, values) == ""


@pytest.mark.parametrize("backend", ["auto", "python"])
def test_launches_from_c_and_python_pass_the_same_maps(backend: str) -> None:
    entry = word_programs.PROGRAMS["boxes"]
    kernel = tilelang.compile(
        entry.make(), target=f"cuda -arch={entry.arch}", execution_backend=backend
    )
    stored, kinds, values = word_programs.arguments(entry, 5)
    tensors = [placed(array, kind) for array, kind in zip(stored, kinds)]
    kernel(*tensors)
    kernel(*tensors)
    found = [storage(tensor, array) for tensor, array in zip(tensors, stored)]
    wanted = values[1] + 2 * values[0]
    np.testing.assert_allclose(found[1], wanted, rtol=1e-5, atol=1e-5)
