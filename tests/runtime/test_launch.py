"""Calls that are right: what reaches the kernel and what comes back, through both launchers."""

from __future__ import annotations

import array
import struct
import threading
from typing import Any

import numpy as np
import pytest
from refusals import refusal

from tilelang.errors import DeviceAssertError, TileRuntimeError
from tilelang.runtime.pylauncher import ArrayLauncher
from tilelang.runtime.signature import LaunchSpec, Symbol, pointer, scalar, tensor

M, N = ("$0",), ("$1",)
MM = Symbol("m")


def float_bits(value: float) -> int:
    """The bits of a float64 as a slot holds them."""
    return int(struct.unpack("q", struct.pack("d", value))[0])


def address(array: Any) -> int:
    return int(array.ctypes.data)


def gemm(**changes: Any) -> LaunchSpec:
    values: dict[str, Any] = {
        "name": "gemm",
        "params": (tensor("A", "float32", (M, 4)), tensor("C", "float32", (M, 8), written=True)),
        "symbols": (MM,),
    }
    return LaunchSpec(**{**values, **changes})


def test_slots_are_pointers_then_symbols(harness: Any) -> None:
    call, kernel = harness.make(gemm())
    a, c = np.zeros((3, 4), np.float32), np.zeros((3, 8), np.float32)
    for _ in range(3):
        assert call(a, c) is None
    assert kernel.calls == [[address(a), address(c), 3]] * 3
    assert harness.slow_calls == 0


def test_scalars_become_integers_and_float_bits(harness: Any) -> None:
    spec = LaunchSpec(
        "f",
        (scalar("n", "int32"), scalar("x", "float32"), scalar("b", "bool"), scalar("u", "uint64"),
         pointer("p")),
    )  # fmt: skip
    call, kernel = harness.make(spec)
    call(-5, 2.5, True, 2**64 - 1, 4096)
    assert kernel.slots == [-5, float_bits(2.5), 1, -1, 4096]
    call(True, 3, 0, 7, None)
    assert kernel.slots == [1, float_bits(3.0), 0, 7, 0]
    call(np.int64(9), np.float32(0.5), np.bool_(True), np.uint8(1), 0)
    assert kernel.slots == [9, float_bits(0.5), 1, 1, 0]
    data = np.zeros(4)
    call(np.array(0), True, np.array(True), 1, data)
    assert kernel.slots == [0, float_bits(1.0), 1, 1, address(data)]


def test_linear_extents_are_solved(harness: Any) -> None:
    spec = LaunchSpec(
        "f",
        (
            tensor("A", "int8", (("$0", 4, "mul"), ("$1", 1, "add"))),
            tensor("B", "int8", (("$0", "$2", "mul"), ("$0", 4, "add", 4, "floordiv"))),
        ),
        (MM, Symbol("n"), Symbol("k")),
    )
    call, kernel = harness.make(spec)
    call(np.zeros((8, 3), np.int8), np.zeros((10, 1), np.int8))
    assert kernel.slots[2:] == [2, 2, 5]
    assert harness.slow_calls == 0


def test_symbolic_strides_are_bound(harness: Any) -> None:
    spec = LaunchSpec("f", (tensor("A", "float32", (M, 4), (("$1",), 1)),), (MM, Symbol("s")))
    call, kernel = harness.make(spec)
    wide = np.zeros((5, 10), np.float32)
    call(wide[:, 2:6])
    assert kernel.slots == [address(wide) + 8, 5, 10]
    call(np.zeros((5, 4), np.float32))
    assert kernel.slots[1:] == [5, 4]
    call(wide[:1, :4])
    assert kernel.slots[2] == 4  # a single row tells nothing: as if contiguous
    assert harness.slow_calls == 0


def test_stride_of_a_single_row_does_not_bind_a_shared_symbol(harness: Any) -> None:
    spec = LaunchSpec(
        "f",
        tuple(tensor(name, "int8", ((f"${i}",), 4), (("$2",), 1)) for i, name in enumerate("AB")),
        (MM, Symbol("n"), Symbol("s")),
    )
    call, kernel = harness.make(spec)
    wide = np.zeros((5, 10), np.int8)
    call(wide[:1, :4], wide[:, 4:8])
    assert kernel.slots[2:] == [1, 5, 10]
    assert harness.slow_calls == 0


def test_stride_of_a_dimension_of_size_one_is_ignored(harness: Any) -> None:
    call, kernel = harness.make(gemm())
    a = np.zeros((4, 1), np.float32).T
    call(a, np.zeros((1, 8), np.float32)[::1])
    assert kernel.slots == [address(a), kernel.slots[1], 1]


def test_empty_tensors_are_accepted(harness: Any) -> None:
    call, kernel = harness.make(gemm())
    call(np.zeros((0, 4), np.float32), np.zeros((0, 8), np.float32)[:, ::-1])
    assert kernel.slots[2] == 0


@pytest.mark.parametrize(("rule", "kind"), [("list", list), ("tuple", tuple)])
def test_several_results_come_in_requested_order(harness: Any, rule: str, kind: type[Any]) -> None:
    spec = gemm(
        params=(
            tensor("X", "int8", (M,), is_output=True),
            tensor("A", "float32", (M, 4)),
            tensor("Y", "int32", (("$0", 2, "mul"),), is_output=True),
        ),
        outputs=(2, 0), returns=rule,
    )  # fmt: skip
    call, kernel = harness.make(spec)
    a = np.zeros((3, 4), np.float32)
    results: Any = call(a)
    assert type(results) is kind
    y, x = results
    assert (y.shape, x.shape) == ((6,), (3,))
    assert kernel.slots == [address(x), address(a), address(y), 3]


def test_unused_tensor_may_be_none(harness: Any) -> None:
    spec = gemm(
        params=(
            tensor("bias", "float32", (M,), nullable=True),
            tensor("A", "float32", (M, 4)),
            tensor("out", "float32", (N,), nullable=True),
        ),
        symbols=(MM, Symbol("n")),
    )
    call, kernel = harness.make(spec)
    a = np.zeros((3, 4), np.float32)
    call(None, a, np.zeros(5, np.float32))
    assert kernel.slots[0] == 0 and kernel.slots[3:] == [3, 5]
    assert harness.slow_calls == 0
    call(None, a, None)  # the only carrier of n is None
    assert kernel.slots == [0, address(a), 0, 3, 0]


@pytest.mark.parametrize(
    ("declared", "passed"),
    [
        ("float32", np.float32), ("tfloat32", np.float32), ("bool", np.bool_), ("bool", np.uint8),
        ("bool", np.int8), ("int8", np.bool_), ("bfloat16", np.uint16), ("float8_e4m3", np.uint8),
        ("float8_e5m2", np.uint8), ("int64", np.int64), ("uint64", np.uint64), ("float64", float),
        ("float16", np.float16), ("int16", np.int16), ("float4_e2m1_unpacked", np.uint8),
    ],
)  # fmt: skip
def test_numpy_dtypes_match_declared_ones(harness: Any, declared: str, passed: Any) -> None:
    call, kernel = harness.make(LaunchSpec("f", (tensor("A", declared, (4,)),)))
    a = np.zeros(4, passed)
    call(a)
    assert kernel.slots == [address(a)]
    assert harness.slow_calls == 0


def test_packed_types_count_two_elements_per_byte(harness: Any) -> None:
    spec = LaunchSpec(
        "f",
        (tensor("A", "int4", (M, ("$1",))), tensor("B", "float4_e2m1fn", (3, 5), is_output=True)),
        (MM, Symbol("n")), (1,), "one",
    )  # fmt: skip
    call, kernel = harness.make(spec)
    b = call(np.zeros((2, 8), np.int8))
    assert kernel.slots[2:] == [2, 16]
    assert (b.shape, b.dtype) == ((3, 3), np.uint8)


def test_any_object_with_the_buffer_protocol_is_accepted(harness: Any) -> None:
    call, kernel = harness.make(LaunchSpec("f", (tensor("A", "float64", (3,), written=True),)))
    data = array.array("d", [1, 2, 3])
    call(data)
    assert kernel.slots == [data.buffer_info()[0]]


def test_ml_dtypes_arrays_give_ml_dtypes_results(harness: Any) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="numpy arrays of small floats")
    spec = gemm(
        params=(tensor("A", "bfloat16", (M, 4)), tensor("C", "float8_e4m3", (M,), is_output=True)),
        outputs=(1,), returns="one",
    )  # fmt: skip
    call, kernel = harness.make(spec)
    a = np.zeros((3, 4), ml_dtypes.bfloat16)
    c = call(a)
    assert c.dtype == ml_dtypes.float8_e4m3fn
    assert kernel.slots == [address(a), address(c), 3]
    assert harness.slow_calls == 0


@pytest.mark.filterwarnings("ignore:.*requires a gradient")  # is told; the call is made
def test_torch_tensors_give_torch_results(harness: Any) -> None:
    torch = pytest.importorskip("torch", reason="calls with torch tensors")
    spec = gemm(
        params=(
            tensor("A", "bfloat16", (M, 4)),
            tensor("B", "float8_e4m3", (M,)),
            tensor("C", "bfloat16", (M, 8), is_output=True),
        ),
        outputs=(2,), returns="one",
    )  # fmt: skip
    call, kernel = harness.make(spec)
    a = torch.zeros(3, 4, dtype=torch.bfloat16, requires_grad=True)
    b = torch.zeros(3, dtype=torch.uint8).view(torch.float8_e4m3fn)
    c = call(a, b)
    assert (type(c), tuple(c.shape), c.dtype) == (torch.Tensor, (3, 8), torch.bfloat16)
    assert kernel.slots == [a.data_ptr(), b.data_ptr(), c.data_ptr(), 3]
    call(torch.nn.Parameter(a), b)
    assert kernel.slots[0] == a.data_ptr()
    assert harness.slow_calls == 0


def test_torch_and_numpy_mix_and_slices_have_their_offset(harness: Any) -> None:
    torch = pytest.importorskip("torch", reason="calls with torch tensors")
    call, kernel = harness.make(gemm())
    a, c = torch.zeros(9, 4), np.zeros((2, 8), np.float32)
    call(a[3:5], c)
    assert kernel.slots == [a.data_ptr() + 48, address(c), 2]
    call(torch.zeros(0, 4), torch.zeros(0, 8))
    assert kernel.slots[2] == 0


def test_error_code_becomes_the_message_of_the_kernel(harness: Any) -> None:
    call, kernel = harness.make(LaunchSpec("f", (), messages=("n must be even", "bad index")))
    kernel.code = 2
    assert refusal(DeviceAssertError, call) == "kernel f: bad index"
    kernel.code = -1
    with pytest.raises(TileRuntimeError, match="kernel f ran out of memory"):
        call()
    kernel.code = 99
    with pytest.raises(TileRuntimeError, match="error code 99"):
        call()
    assert len(kernel.calls) == 3  # a kernel that failed is not started again


def test_calls_from_threads_do_not_mix(harness: Any) -> None:
    call, kernel = harness.make(gemm())
    wrong = []

    def work(m: int) -> None:
        a, c = np.zeros((m, 4), np.float32), np.zeros((m, 8), np.float32)
        for _ in range(100):
            call(a, c)
            if [address(a), address(c), m] not in kernel.calls:
                wrong.append(m)

    threads = [threading.Thread(target=work, args=(m,)) for m in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and len(kernel.calls) == 400


def test_array_launcher_gives_storage_arrays_that_share_memory() -> None:
    torch = pytest.importorskip("torch", reason="bfloat16 tensors")
    spec = gemm(
        params=(
            tensor("A", "bfloat16", (M,)), scalar("x", "float32"),
            tensor("bias", "float32", (4,), nullable=True),
            tensor("C", "bfloat16", (M,), is_output=True),
        ),
        outputs=(3,), returns="one",
    )  # fmt: skip

    def run(values: list[Any]) -> None:
        a, x, bias, c = values
        assert a.dtype == np.uint16 and x == 2.0 and bias is None
        c[:] = a

    a = torch.arange(5).to(torch.bfloat16)
    assert torch.equal(ArrayLauncher(spec, run)(a, 2, None), a)
