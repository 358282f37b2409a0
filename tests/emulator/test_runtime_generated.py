"""A generated kernel on the runtime alone, here or built for another machine."""

from __future__ import annotations

import numpy as np
import pytest
from gemm_program import gemm_program

from tests.emulator.machine import ALL, FIFO, LATE, launch
from tilelang.compiler import compile as compile_source
from tilelang.options import Options
from tilelang.target import parse_target

product = gemm_program(64, 128, 96)


@pytest.mark.parametrize(("checks", "schedule"), ((0, FIFO), (ALL, LATE)))
def test_a_product_of_the_tensor_cores(checks: int, schedule: int) -> None:
    made = compile_source(product, parse_target("cuda -arch=sm_80"), Options())
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, shape).astype(np.float16) for shape in ((64, 96), (96, 128)))
    c = np.zeros((64, 128), np.float32)
    found = launch(
        made.source, "product_kernel", [a, b, c], grid=(2,), block=(128,), shared=48 * 1024,
        checks=checks, schedule=schedule, arch=800, read_only=(0, 1),
    )  # fmt: skip
    assert found.code == 0 and found.texts() == []
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
