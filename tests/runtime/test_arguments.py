"""Calls that are wrong: the exact texts, the same from both launchers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refusal

from tilelang.errors import ArgumentCountError, ArgumentTypeError, KernelArgumentError
from tilelang.runtime.signature import Check, LaunchSpec, Symbol, pointer, scalar, tensor

M = ("$0",)
A = np.zeros((3, 4), np.float32)
C = np.zeros((3, 8), np.float32)


def spec() -> LaunchSpec:
    return LaunchSpec(
        "gemm",
        (
            tensor("A", "float32", (M, 4)), tensor("C", "float32", (M, 8), written=True),
            scalar("n", "int32"),
        ),
        (Symbol("m"),),
    )  # fmt: skip


def readonly() -> Any:
    found = np.zeros((3, 8), np.float32)
    found.setflags(write=False)
    return found


def bytes_of(*shape: int) -> Any:
    return np.zeros(shape, np.int8)


class Column:
    def to_numpy(self) -> Any:
        raise AssertionError("nothing is copied")


CASES: list[tuple[str, tuple[Any, ...], type[Exception], str]] = [
    ("too few", (A, C), ArgumentCountError,
     "Kernel expected 3 inputs, but 2 are provided.\n"
     "  hint: the inputs of gemm are: A, C, n; a call allocates those in out_idx"),
    ("too many", (A, C, 1, 2), ArgumentCountError,
     "Kernel expected 3 inputs, but 4 are provided.\n"
     "  hint: the inputs of gemm are: A, C, n; a call allocates those in out_idx"),
    ("none", (None, C, 1), KernelArgumentError,
     "kernel gemm input A is None\n"
     "  expected: a float32 tensor of shape (m, 4)\n"
     "  got: None\n"
     "  hint: None is accepted only for a tensor that the kernel does not use"),
    ("list", ([1.0], C, 1), ArgumentTypeError,
     "kernel gemm input A: this is not a tensor\n"
     "  expected: a numpy array, a torch tensor, or an object with __dlpack__\n"
     "  got: list [1.0]"),
    ("ndim", (A[0], C, 1), KernelArgumentError,
     "kernel gemm input A has the wrong number of dimensions\n"
     "  expected: 2 (shape (m, 4))\n"
     "  got: 1 (shape (4,))"),
    ("dtype", (A.astype(np.float64), C, 1), ArgumentTypeError,
     "kernel gemm input A has the wrong dtype\n"
     "  expected: float32\n"
     "  got: float64\n"
     "  hint: pass A.astype(np.float32)"),
    ("byte order", (A.astype(">f4"), C, 1), ArgumentTypeError,
     "kernel gemm input A has the wrong dtype\n"
     "  expected: float32\n"
     "  got: >f4\n"
     "  hint: pass A.astype(np.float32)"),
    ("a written array", (A, C.astype(np.float64), 1), ArgumentTypeError,
     "kernel gemm input C has the wrong dtype\n"
     "  expected: float32\n"
     "  got: float64\n"
     "  hint: pass C.astype(np.float32), a copy: what the kernel writes goes there"),
    ("a column", (Column(), C, 1), ArgumentTypeError,
     "kernel gemm input A: this is not a tensor\n"
     "  expected: a numpy array, a torch tensor, or an object with __dlpack__\n"
     "  got: Column\n"
     "  hint: pass A.to_numpy(); where that is a copy, what a kernel writes goes there"),
    ("constant extent", (np.zeros((3, 5), np.float32), C, 1), KernelArgumentError,
     "kernel gemm input A shape[1] does not match\n"
     "  expected: 4\n"
     "  got: 5 (shape (3, 5))"),
    ("symbolic extent", (A, C[:2], 1), KernelArgumentError,
     "kernel gemm input C shape[0] does not match\n"
     "  expected: m = 3 (m = 3 from A.shape[0])\n"
     "  got: 2 (shape (2, 8))"),
    ("strides", (np.zeros((4, 3), np.float32).T, C, 1), KernelArgumentError,
     "kernel gemm input A is not contiguous\n"
     "  expected: row-major strides (4, 1)\n"
     "  got: (1, 3)\n"
     "  hint: pass A.contiguous(), or np.ascontiguousarray(A) for numpy; or declare it as "
     "T.StridedTensor"),
    ("read-only", (A, readonly(), 1), KernelArgumentError,
     "kernel gemm input C is read-only\n"
     "  expected: memory that the kernel can write\n"
     "  got: a read-only array\n"
     "  hint: pass a copy"),
    ("float for int", (A, C, 1.0), ArgumentTypeError,
     "kernel gemm input n is not an integer\n"
     "  expected: an int for int32\n"
     "  got: 1.0 of type float\n"
     "  hint: floats are not rounded silently; pass int(x)"),
    ("int range", (A, C, 2**31), KernelArgumentError,
     "kernel gemm input n does not fit into int32\n"
     "  expected: -2147483648 to 2147483647\n"
     "  got: 2147483648"),
    ("int of many digits", (A, C, 10**5000), KernelArgumentError,
     "kernel gemm input n does not fit into int32\n"
     "  expected: -2147483648 to 2147483647\n"
     "  got: <int>"),
    ("string for int", (A, C, "1"), ArgumentTypeError,
     "kernel gemm input n is not an integer\n"
     "  expected: an int for int32\n"
     "  got: '1' of type str"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("args", "kind", "text"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_wrong_call_is_explained(
    harness: Any, args: tuple[Any, ...], kind: type[Exception], text: str
) -> None:
    call, kernel = harness.make(spec())
    call(A, C, 1)  # a plan exists already
    for _ in range(2):
        with pytest.raises(kind) as found:
            call(*args)
        assert type(found.value) is kind
        assert str(found.value) == text
    assert len(kernel.calls) == 1
    call(A, C, 1)


def test_errors_have_the_builtin_bases(harness: Any) -> None:
    call, _ = harness.make(spec())
    with pytest.raises(ValueError, match=r"^Kernel expected 3 inputs, but 0 are provided\."):
        call()
    with pytest.raises(RuntimeError):
        call(A[:2], C, 1)
    with pytest.raises(TypeError):
        call(A.astype(int), C, 1)


# A signature, arguments that are right and wrong, and what is said of the second.
SIGNATURES: list[tuple[LaunchSpec, tuple[Any, ...], tuple[Any, ...], str]] = [
    (LaunchSpec("f", (tensor("A", "int8", (("$0", 4, "mul"),)),), (Symbol("m"),)), (bytes_of(8),),
     (bytes_of(7),),
     "kernel f input A shape[0] does not fit\n"
     "  expected: m*4 for an integer m >= 0\n"
     "  got: 7 (shape (7,))"),
    (LaunchSpec(
         "f",
         (tensor("A", "int8", (M,)), tensor("B", "int8", (("$0", 3, "add", 4, "floordiv"),))),
         (Symbol("m"),),
     ), (bytes_of(9), bytes_of(3)), (bytes_of(9), bytes_of(2)),
     "kernel f input B shape[0] does not match\n"
     "  expected: (m+3)//4 = 3 (m = 9 from A.shape[0])\n"
     "  got: 2 (shape (2,))"),
    (
        LaunchSpec(
            "f", (tensor("A", "int8", (M,)), scalar("n", "int32", 0)), (Symbol("n", param=1),)
        ),
        (bytes_of(6), 6), (bytes_of(6), 7),
        "kernel f input A shape[0] does not match\n"
        "  expected: n = 7 (n = 7 from argument n)\n"
        "  got: 6 (shape (6,))",
    ),
    (LaunchSpec("f", (tensor("A", "int8", (2, 3), (8, 1)),)), (bytes_of(2, 8)[:, :3],),
     (bytes_of(2, 3),),
     "kernel f input A stride[0] does not match\n  expected: 8\n  got: 3 (strides (3, 1))"),
    (LaunchSpec("f", (tensor("A", "int8", (M,)),), (Symbol("m", "int8"),)), (bytes_of(127),),
     (bytes_of(128),),
     "kernel f input A shape[0] is too large\n"
     "  expected: at most 127, the largest int8, for m\n"
     "  got: 128\n"
     "  hint: declare m as int64"),
    (LaunchSpec(
         "f", (tensor("A", "int8", (M,)),), (Symbol("m"),),
         checks=(Check(("$0", 8, "floormod", 0, "eq"), "m must be a multiple of 8"),),
     ), (bytes_of(16),), (bytes_of(9),),
     "kernel f: m must be a multiple of 8\n  expected: (m%8) == 0\n  got: m = 9"),
]  # fmt: skip


@pytest.mark.parametrize(("signature", "right", "wrong", "text"), SIGNATURES)
def test_what_a_signature_says_is_checked(
    harness: Any, signature: LaunchSpec, right: tuple[Any, ...], wrong: tuple[Any, ...], text: str
) -> None:
    call, _ = harness.make(signature)
    call(*right)
    assert refusal(KernelArgumentError, call, *wrong) == text


def test_larger_alignment_may_be_demanded(harness: Any) -> None:
    call, _ = harness.make(LaunchSpec("f", (tensor("A", "uint8", (8,), align=16),)))
    data = np.zeros(64, np.uint8)
    first = -data.ctypes.data % 16
    call(data[first : first + 8])
    with pytest.raises(KernelArgumentError, match="multiple of 16 bytes"):
        call(data[first + 8 : first + 16])


def test_pointer_takes_addresses_only(harness: Any) -> None:
    call, _ = harness.make(LaunchSpec("f", (pointer("p"),)))
    assert refusal(ArgumentTypeError, call, 1.5) == (
        "kernel f input p is not a pointer\n"
        "  expected: an address (int), a tensor, or None\n"
        "  got: 1.5 of type float"
    )
    with pytest.raises(KernelArgumentError, match="p is not an address"):
        call(-1)


def test_a_float_parameter_rejects_a_string(harness: Any) -> None:
    call, _ = harness.make(LaunchSpec("f", (scalar("x", "float32"),)))
    for wrong in ("1.0", None, 1j, [1.0]):
        with pytest.raises(ArgumentTypeError, match="kernel f input x is not a number"):
            call(wrong)


def test_torch_dtype_and_layout_are_checked(harness: Any) -> None:
    torch = pytest.importorskip("torch", reason="calls with torch tensors")
    call, _ = harness.make(spec())
    with pytest.raises(ArgumentTypeError, match="got: float16"):
        call(torch.zeros(3, 4, dtype=torch.float16), C, 1)
    with pytest.raises(KernelArgumentError, match="is not contiguous"):
        call(torch.zeros(4, 3).T, C, 1)
    with pytest.raises(ArgumentTypeError, match="this torch tensor has no plain memory"):
        call(torch.zeros(3, 4).to_sparse(), C, 1)
    strict, _ = harness.make(LaunchSpec("f", (tensor("A", "bfloat16", (2,)),)))
    with pytest.raises(ArgumentTypeError, match="expected: bfloat16"):
        strict(torch.zeros(2, dtype=torch.uint16))
