"""Functions of the language that are given one argument too many, or one of the wrong kind."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import TileError, TileTypeError, TileUnsupportedError

_HEAD = (
    "@T.prim_func\ndef f(A: T.Tensor((8, 8), 'float32'), n: T.int32):\n"
    "    with T.Kernel(1, threads=128) as bx:\n"
    "        a = T.alloc_fragment((8, 8), 'float32')\n"
    "        s = T.alloc_shared((8, 8), 'float32')\n"
    "        b = T.alloc_barrier(1)\n        "
)
_ARRAY = "\n  hint: pass it to the kernel as a parameter, or use its numbers, e.g. x.item()"
_NUMBERS = "array([0, 1, 2, 3]), a numpy.ndarray" + _ARRAY
_INTEGER = " is not an integer\n  expected: an integer\n  got: "


def error_of(line: str) -> TileError:
    text = _HEAD + line + "\n"
    linecache.cache["<wrong>"] = (len(text), None, text.splitlines(True), "<wrong>")
    with pytest.raises(TileError) as caught:
        exec(compile(text, "<wrong>", "exec"), {"T": T, "np": np})  # noqa: S102
    return caught.value


def _kind(name: str, expected: str, got: str) -> str:
    return f"the option `{name}` is of the wrong kind\n  expected: {expected}\n  got: {got}"


_TRUTH = "True or False"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        # One argument too many.
        ("T.exp(n, 2)", "exp() takes 1 positional argument but 2 were given\n  expected: exp(x)"),
        ("T.max(n, 2, 3)", "max() takes 2 positional arguments but 3 were given\n  expected: max(a, b)"),
        ("T.ceildiv(n, 2, 3)", "ceildiv() takes 2 positional arguments but 3 were given\n  expected: ceildiv(lhs, rhs)"),
        ("T.clear(a, s)", _kind("annotations", "a dict", "the buffer `s` of shape (8, 8)")),
        ("T.fill(a, 0, 1)", _kind("annotations", "a dict", "1")),
        ("T.transpose(s, a, 1)", _kind("annotations", "a dict", "1")),
        ("T.copy(A, s, a)", _kind("coalesced_width", "an int", "the buffer `a` of shape (8, 8)")),
        # Parts of the program that are made directly.
        ("T.BufferLoad()", "Load is made of other fields\n  expected: Load(buffer, indices)\n  got: 0 of them"),
        ("T.StringImm()", "StringImm is made of other fields\n  expected: StringImm(value)\n  got: 0 of them"),
        ("T.PrimExpr()", "Expr is a kind of value, and no value itself"),
        (
            "T.Fragment((4,), replicate=s)",
            "the replication of T.Fragment is not a number\n"
            "  expected: in how many threads each element is held\n  got: s",
        ),
        ("T.meta_class(3)", "T.meta_class decorates a class\n  expected: a class\n  got: 3"),
        (
            "T.comm_reducer(n, 0)",
            "the combination of T.comm_reducer is not a function\n"
            "  expected: a function of two values, e.g. lambda x, y: x + y\n  got: `n`",
        ),
        # Keywords that are none.
        (
            "T.wgmma_gemm(s, s, a, polcy=1)",
            "wgmma_gemm() got an unexpected keyword argument 'polcy'\n"
            "  expected: wgmma_gemm(A, B, C, transpose_A, transpose_B, policy, clear_accum, "
            "annotations, k_pack, wg_wait)\n  hint: did you mean `policy`?",
        ),
        (
            "T.reduce(a, s, 'sum', keepdims=True)",
            "reduce() got an unexpected keyword argument 'keepdims'\n"
            "  expected: reduce(buffer, out, reduce_type, dim, clear, batch, nan_propagate, "
            "annotations)",
        ),
        (
            "T.alloc_buffer((8,), stride=(1,))",
            "alloc_buffer() got an unexpected keyword argument 'stride'\n"
            "  expected: alloc_buffer(shape, dtype, scope, annotations, data, strides, "
            "elem_offset)\n  hint: did you mean `strides`?",
        ),
        # Options of the wrong kind.
        ("T.copy(A, s, disable_tma='no')", _kind("disable_tma", _TRUTH, "'no'")),
        ("T.copy(A, s, coalesced_width=2.0)", _kind("coalesced_width", "an int", "2.0")),
        ("T.gemm(s, s, a, use_2cta=2)", _kind("use_2cta", _TRUTH, "2")),
        ("T.cast(n, 'int8', sat='x')", _kind("sat", _TRUTH, "'x'")),
        ("T.use_swizzle(4, enable='row')", _kind("enable", _TRUTH, "'row'")),
        ("T.device_assert(n > 0, n)", _kind("msg", "text", "`n`")),
        ("T.Assert(n > 0, n)", _kind("message", "text", "`n`")),
        ("T.bind(n, name=n)", _kind("name", "text", "`n`")),
        ("T.unroll(4, explicit='yes')", _kind("explicit", _TRUTH, "'yes'")),
        ("T.unroll(4, unroll_factor='2')", _kind("unroll_factor", "an int", "'2'")),
        ("T.Parallel(8, prefer_async='yes')", _kind("prefer_async", _TRUTH, "'yes'")),
        ("T.Pipelined(4, order=-3)", _kind("order", "a list", "-3")),
        ("T.Pipelined(4, group='ab')", _kind("group", "a list", "'ab'")),
        (
            "T.gemm(s, s, a, 7)",
            "the transpose_A of T.gemm is not a constant bool\n"
            "  expected: True or False, known at compile time\n  got: 7",
        ),
        (
            "T.atomic_add(A[0, 0], 1, return_prev='x')",
            "the return_prev of T.atomic_add is not a constant bool\n"
            "  expected: True or False, known at compile time\n  got: 'x'",
        ),
        (
            "T.tma_store_wait(0, read='x')",
            "the read of T.tma_store_wait is not a constant bool\n"
            "  expected: True or False, known at compile time\n  got: 'x'",
        ),
        # Conditions that are none.
        (
            "T.assume('n > 0')",
            "the condition of T.assume is no condition\n"
            "  expected: a comparison, e.g. n > 0\n  got: 'n > 0'",
        ),
        (
            "T.Assert([n > 0])",
            "the condition of T.Assert is no condition\n"
            "  expected: a comparison, e.g. n > 0\n  got: [n > 0]",
        ),
        # Fractions where things are counted.
        (
            "T.mbarrier_wait_parity(b, A[0, 0])",
            f"the parity of T.mbarrier_wait_parity{_INTEGER}`A[0, 0]` of dtype float32"
            "\n  hint: convert with T.int32(x)",
        ),
        (
            "T.warpgroup_wait(0.5)",
            f"the count of T.warpgroup_wait{_INTEGER}0.5 of dtype float32"
            "\n  hint: convert with T.int32(x)",
        ),
        ("T.sync_threads(1.5, 64)", f"the barrier of T.sync_threads{_INTEGER}1.5"),
        ("T.sync_threads(1, A[0, 0])", f"the thread count of T.sync_threads{_INTEGER}`A[0, 0]`"),
        # Objects that nobody expects: what Python says of them is about the argument.
        ("T.serial(np.arange(4))", f"T.serial cannot use an array as `start`\n  got: {_NUMBERS}"),
        (
            "T.Parallel(8, np.arange(4))",
            f"T.Parallel cannot use an array as `argument 2`\n  got: {_NUMBERS}",
        ),
        (
            "T.shfl_down(n, 1, width=np.arange(4))",
            f"T.shfl_down cannot use an array as `width`\n  got: {_NUMBERS}",
        ),
        ("T.align_up('64', n)", "T.align_up cannot use this as `x`\n  got: '64', a str"),
        ("T.align_up(n, None)", "T.align_up cannot use this as `y`\n  got: None"),
        (
            "T.align_up(object(), n)",
            "T.align_up cannot use this as `x`\n  got: an object of type object",
        ),
        (
            "T.buffer_store([1, 2], 1, (0, 0))",
            "T.buffer_store cannot use this as `buffer`\n  got: [1, 2], a list",
        ),
        ("T.Let(3, n, n)", "T.Let cannot use this as `var`\n  got: 3, an int"),
        (
            "T.Tensor(8, foo=1)",
            "the call got an unexpected keyword argument 'foo'\n"
            "  expected: (shape, dtype, data, strides, elem_offset, scope, align, offset_factor, "
            "buffer_type, axis_separators)",
        ),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_an_error_at_the_line(line: str, message: str) -> None:
    error = error_of(line)
    assert type(error) is TileTypeError
    place = f"\n --> <wrong>:7:9\n    7 |         {line}\n      |         {'^' * len(line)}"
    assert str(error) == message + place


def test_a_macro_that_reads_the_names_of_its_callers_is_refused() -> None:
    with pytest.raises(TileUnsupportedError) as caught:
        T.macro(hygienic=False)
    assert str(caught.value) == (
        "a macro that reads the names of its callers\n  expected: hygienic=True\n"
        "  hint: pass what the macro reads as arguments"
    )


def test_a_buffer_over_the_memory_of_another_is_no_fresh_one() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4, 8), "float32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((4, 8), "float32")
            v = T.alloc_buffer((32,), "float32", data=s.data, scope="shared")
            T.copy(A, s)
            v[0] = 1.0

    text = str(kernel)
    assert 'v = T.Buffer((32,), "float32", data=s.data' in text
