"""Helpers under their usual import paths: inputs, comparison, targets, logging."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.errors import TileTypeError, TileValueError
from tilelang.ir import floats
from tilelang.jit.calls import KernelParam
from tilelang.target import Target
from tilelang.utils import (
    determine_fp8_type,
    determine_torch_fp8_type,
    target,
    tensor as tensor_module,
)
from tilelang.utils.device import get_current_device
from tilelang.utils.log import set_log_level
from tilelang.utils.target import determine_target
from tilelang.utils.tensor import (
    TensorSupplyType,
    as_float,
    get_tensor_supply,
    map_torch_type,
    torch_assert_close,
)


@pytest.fixture
def without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)


def values(kind: TensorSupplyType, dtype: str, shape: tuple[int, ...] = (64, 64)) -> Any:
    """Numbers that a supply gives."""
    array = get_tensor_supply(kind, seed=1)(KernelParam(T.dtype(dtype), shape, "A"))
    return floats.from_storage(array, dtype)


def test_a_param_takes_the_name_of_a_dtype() -> None:
    made: Any = get_tensor_supply(seed=1)(KernelParam("uint8", [4, 4]))  # type: ignore[arg-type]  # as programs write it
    assert tuple(made.shape) == (4, 4) and str(made.dtype).endswith("uint8")
    assert KernelParam("bool", ()).is_boolean()  # type: ignore[arg-type]  # as programs write it


# -- inputs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "allowed"),
    [
        ("uint8", {0, 1, 2}), ("uint32", {0, 1, 2}), ("uint4", {0, 1, 2}), ("bool", {0, 1}),
        ("int8", {-2, -1, 0, 1, 2}), ("int64", {-2, -1, 0, 1, 2}), ("int4", {-2, -1, 0, 1, 2}),
        ("float4_e2m1fn", {s * v for s in (1, -1) for v in (0, 0.5, 1, 1.5, 2, 3, 4, 6)}),
    ],
)  # fmt: skip
def test_automatic_values_of_small_sets(
    dtype: str, allowed: set[float], without_torch: None
) -> None:
    assert set(np.unique(values(TensorSupplyType.Auto, dtype)).tolist()) == allowed


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_automatic_floats_are_uniform(dtype: str, without_torch: None) -> None:
    found = values(TensorSupplyType.Auto, dtype).astype(np.float64)
    assert -1 <= found.min() < -0.9 and 0.9 < found.max() <= 1
    assert abs(found.mean()) < 0.05


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_automatic_8_bit_floats_are_rounded_integers(dtype: str, without_torch: None) -> None:
    found = values(TensorSupplyType.Auto, dtype)
    assert found.min() == -128 and found.max() == 128  # 127 is rounded
    assert (found == np.round(found)).all()


@pytest.mark.parametrize(("kind", "mean"), [("Normal", -1), ("Randn", 0)])
def test_normal_supplies_have_their_means(kind: str, mean: int, without_torch: None) -> None:
    found = values(TensorSupplyType[kind], "float32")
    assert abs(found.mean() - mean) < 0.05 and abs(found.std() - 1) < 0.05
    assert found.max() > 2 + mean


def test_a_seed_gives_the_same_inputs_again(without_torch: None) -> None:
    param = KernelParam(T.dtype("float32"), (100,), "A")
    one, two = get_tensor_supply(seed=5), get_tensor_supply(seed=5)
    np.testing.assert_array_equal(one(param), two(param))
    assert not np.array_equal(one(param), get_tensor_supply(seed=6)(param))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool"])
@pytest.mark.parametrize("framework", ["numpy", "torch"])
def test_large_tensors_repeat_drawn_values(
    dtype: str, framework: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if framework == "torch":
        pytest.importorskip("torch", reason="its tensors")
    else:
        monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setattr(tensor_module, "PERIOD", 7)
    found = get_tensor_supply(seed=3)(KernelParam(T.dtype(dtype), (3, 5), "A"))
    few = get_tensor_supply(seed=3)(KernelParam(T.dtype(dtype), (7,), "A"))
    assert found.dtype == few.dtype and tuple(found.shape) == (3, 5)
    numbers = as_float(found, T.dtype(dtype)).reshape(-1)
    np.testing.assert_array_equal(numbers, np.resize(as_float(few, T.dtype(dtype)), 15))


def test_inputs_have_the_storage_that_kernels_take(without_torch: None) -> None:
    def stored(dtype: str) -> tuple[str, tuple[int, ...]]:
        array = get_tensor_supply()(KernelParam(T.dtype(dtype), (4, 6), "A"))
        return str(array.dtype), array.shape

    assert stored("bfloat16") == ("uint16", (4, 6))
    assert stored("float8_e4m3fn") == ("uint8", (4, 6))
    assert stored("float4_e2m1fn") == ("uint8", (4, 3))
    assert stored("int4") == ("int8", (4, 3))
    assert stored("bool") == ("bool", (4, 6))


def test_symbolic_shapes_are_refused() -> None:
    n = T.symbolic("n")
    with pytest.raises(TileValueError) as error:
        get_tensor_supply()(KernelParam(T.dtype("float32"), (4, n), "A"))
    assert str(error.value) == (
        "cannot make an input for the symbolic shape (4, n)\n"
        "  expected: a value for each symbol\n"
        "  hint: pass input_tensors=..., or dynamic_symbolic_constraints={'n': 128}"
    )


def test_inputs_are_made_for_parameters_of_functions() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def program(A: T.Tensor((n, 4), "float16"), k: T.int32, s: T.float32):
        with T.Kernel(1, threads=1):
            A[0, 0] = k * s

    supply = get_tensor_supply(TensorSupplyType.One, symbols={"n": 3, "k": 5})
    tensor, number, scale = (supply(param) for param in program.params)
    assert tuple(tensor.shape) == (3, 4)
    assert (number, scale) == (5, 1.0)
    assert isinstance(scale, float)


@pytest.mark.parametrize(
    "dtype", ["float32", "bfloat16", "bool", "int8", "float8_e4m3fn", "float4_e2m1fn", "int4"]
)
def test_torch_inputs_have_the_same_values(dtype: str) -> None:
    torch = pytest.importorskip("torch", reason="inputs are torch tensors where it is imported")
    param = KernelParam(T.dtype(dtype), (4, 6), "A")
    found = get_tensor_supply(seed=3)(param)
    assert isinstance(found, torch.Tensor) and found.dtype == T.dtype(dtype).as_torch()
    modules = {name: value for name, value in sys.modules.items() if name == "torch"}
    del sys.modules["torch"]
    try:
        expected = get_tensor_supply(seed=3)(param)
    finally:
        sys.modules.update(modules)
    raw = found.view(torch.uint8).numpy().reshape(-1)
    assert raw.tobytes() == expected.tobytes()


# -- comparison -------------------------------------------------------------------------------------


def test_close_tensors_agree() -> None:
    a, big = np.linspace(0, 1, 1000), np.full(10, 1000.0)
    assert torch_assert_close(a, a + 5e-4)
    assert torch_assert_close(a, np.where(np.arange(1000) == 3, 9.0, a))  # one of a thousand
    assert torch_assert_close(big, big + 5, rtol=1e-2, atol=0)
    assert torch_assert_close(big, big + 5, rtol=0, atol=6)
    with pytest.raises(AssertionError):
        torch_assert_close(big, big + 5, rtol=1e-3, atol=1e-3)
    special = np.array([np.nan, np.inf, -np.inf, 1.0])
    assert torch_assert_close(special, special.copy())
    with pytest.raises(AssertionError, match=r"largest at \(3,\): nan instead of 1.0"):
        torch_assert_close(np.array([np.nan, np.inf, -np.inf, np.nan]), special)


def test_torch_dtype_of_a_name() -> None:
    torch = pytest.importorskip("torch", reason="names its dtypes")
    assert map_torch_type("float16") is torch.float16
    with pytest.raises(TileTypeError):
        map_torch_type("float17")


def test_difference_is_reported_with_its_index() -> None:
    a = np.zeros((4, 5))
    b = a.copy()
    b[2, 3], b[1, 1] = 7.0, 3.0
    assert refusal(AssertionError, torch_assert_close, a, b) == (
        "2 of 20 elements differ (10.00 %, allowed 0.10 %); largest at (2, 3): 0.0 instead of 7.0"
    )


def test_numbers_and_codes_as_floats() -> None:
    assert as_float(3).tolist() == 3.0
    codes = floats.encode(np.array([1.5, -2.0]), "bfloat16")
    assert as_float(codes, T.dtype("bfloat16")).tolist() == [1.5, -2.0]
    assert as_float(np.array([1.5, -2.0]), T.dtype("bfloat16")).tolist() == [1.5, -2.0]


# -- targets and devices ----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("found", "format", "kind"),
    [
        (Target("cuda", "sm_90a"), "e4m3", "float8_e4m3fn"),
        (Target("cpu"), "e5m2", "float8_e5m2"),
        (Target("hip", "gfx942"), "e4m3", "float8_e4m3fnuz"),
        (Target("hip", "gfx950"), "e5m2", "float8_e5m2"),
    ],
)
def test_the_8_bit_float_is_the_one_of_the_device(
    monkeypatch: pytest.MonkeyPatch, found: Target, format: str, kind: str
) -> None:
    monkeypatch.setattr("tilelang.utils.target.parse_target", lambda spec: found)
    assert determine_fp8_type(format) == kind
    pytest.importorskip("torch", reason="the dtypes of torch")
    assert str(determine_torch_fp8_type(format)) == f"torch.{kind}"


def test_an_unknown_format_of_8_bit_floats_is_refused() -> None:
    assert refusal(TileValueError, determine_fp8_type, "e3m4") == (
        "there is no such format of 8-bit floats\n  expected: 'e4m3' or 'e5m2'\n  got: 'e3m4'"
    )


def test_questions_about_targets() -> None:
    assert target.target_is_cuda("cuda") and not target.target_is_cuda("llvm")
    assert target.target_has_bulk_copy("cuda -arch=sm_90a")
    assert not target.target_has_bulk_copy("cuda -arch=sm_80")
    assert target.target_has_async_copy("cuda -arch=sm_80")
    assert not target.target_has_stmatrix("cuda -arch=sm_80")
    assert target.target_has_ldmatrix("cuda -arch=sm_75")
    assert target.target_get_warp_size("cuda") == 32


def test_determine_target_gives_text_or_object() -> None:
    assert determine_target("llvm") == "cpu"
    assert determine_target("cuda -arch=sm_80") == "cuda -arch=sm_80"
    assert determine_target("cuda -arch=sm_80", return_object=True) == Target("cuda", "sm_80")
    assert determine_target() == str(determine_target(return_object=True))


@pytest.mark.parametrize(
    ("found", "device"), [("cpu", "cpu"), ("cuda", "cuda"), ("hip", "cuda"), ("metal", "mps")]
)
def test_current_device_is_named_as_torch_does(
    found: str, device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilelang.utils.device.parse_target", lambda spec: Target(found))
    assert get_current_device() == device


# -- logging ----------------------------------------------------------------------------------------
@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    found = logging.getLogger("tilelang")
    level = found.level
    yield found
    found.setLevel(level)


@pytest.mark.parametrize(
    ("level", "number"), [("INFO", 20), ("debug", 10), ("Warning", 30), (40, 40)]
)
def test_log_level_is_set(level: Any, number: int, logger: logging.Logger) -> None:
    tilelang.set_log_level(level)
    assert logger.level == number


def test_unknown_log_level(logger: logging.Logger) -> None:
    assert refusal(TileValueError, set_log_level, "loud") == (
        "unknown log level 'loud'\n  expected: DEBUG, INFO, WARNING, ERROR, CRITICAL\n  got: 'loud'"
    )


@pytest.mark.parametrize("piece", [4, 1 << 24])
def test_torch_tensors_are_compared_where_they_are(
    piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch", reason="its tensors")
    monkeypatch.setattr(tensor_module, "_PIECE", piece)
    a = torch.arange(10, dtype=torch.float32)
    with monkeypatch.context() as nothing:
        nothing.setattr(tensor_module, "as_float", None)  # no copy of the whole
        assert torch_assert_close(a, a.to(torch.bfloat16))
        assert torch_assert_close(a.reshape(2, 5).T, a.reshape(2, 5).T + 5e-4)
        assert torch_assert_close(a * float("nan"), a * float("nan"))
        assert torch_assert_close(a, a + (a == 9), max_mismatched_ratio=0.1)
    with pytest.raises(AssertionError) as found:
        torch_assert_close(a, a + (a > 7), max_mismatched_ratio=0.1)
    assert str(found.value).startswith("2 of 10 elements differ (20.00 %, allowed 10.00 %)")
    with pytest.raises(AssertionError, match="shapes differ"):
        torch_assert_close(a, a[:5])
