"""Functions of the language that are given one argument too many, or one of the wrong kind."""

from __future__ import annotations

import numpy as np
import pytest
from columns import as_known
from refusals import refusal
from written import executed

import tilelang
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
    with pytest.raises(TileError) as caught:
        executed(text, "<wrong>", np=np)
    return caught.value


def _kind(name: str, expected: str, got: str) -> str:
    return f"the option `{name}` is of the wrong kind\n  expected: {expected}\n  got: {got}"


_TRUTH = "True or False"


_VOID = (
    " has no value\n  expected: an instruction with a result\n"
    "  hint: write it as a separate statement"
)
_BARRIER = (
    "the barrier `b[0]` is used as a number\n  expected: an argument of a barrier instruction"
)
_PLAIN = (
    " does not hold numbers\n  expected: a tile in global, shared, fragment or local memory\n"
    "  got: `b`, uint64 in shared.barrier memory"
)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        # One argument too many.
        ("T.exp(n, 2)", "exp() takes 1 positional argument but 2 were given\n  expected: exp(x)"),
        ("T.clear(a, s)", _kind("annotations", "a dict", "the buffer `s` of shape (8, 8)")),
        ("T.fill(a, 0, 1)", _kind("annotations", "a dict", "1")),
        ("T.copy(A, s, a)", _kind("coalesced_width", "an int", "the buffer `a` of shape (8, 8)")),
        ("T.copy(A, s, coalesced_width=True)", _kind("coalesced_width", "an int", "True")),
        *[(line, f"the {role}{_INTEGER}True of dtype bool\n  hint: convert with T.int32(x)")
          for line, role in [
              ("T.sync_threads(True)", "barrier of T.sync_threads"),
              ("T.sync_threads(1, True)", "thread count of T.sync_threads"),
              ("T.wait_wgmma(True)", "count of T.wait_wgmma"),
              ("T.sync_warp(True)", "mask of T.sync_warp"),
              ("T.shfl_xor(n, True)", "distance of T.shfl_xor"),
              ("T.shfl_up(n, 1, True)", "width of T.shfl_up"),
              ("T.any_sync(n > 0, True)", "mask of T.any_sync"),
              ("T.get_warp_idx(True)", "size of T.get_warp_idx"),
              ("T.get_mbarrier(T.create_list_of_mbarrier(1) is not None)", "number of T.get_mbarrier"),
              ("T.access_ptr(s, offset=True)", "offset of T.access_ptr"),
          ]],
        # Parts of the program that are made directly.
        ("T.BufferLoad()", "wrong arguments for Load\n  expected: Load(buffer, indices)\n  got: 0 of them"),
        ("T.PrimExpr()", "Expr is an abstract class and has no instances"),
        ("T.Fragment((4,), replicate=s)",
         "the replication of T.Fragment is not a number\n"
         "  expected: in how many threads each element is held\n  got: s"),
        ("T.meta_class(3)", "T.meta_class decorates a class\n  expected: a class\n  got: 3"),
        ("T.comm_reducer(n, 0)",
         "the combination of T.comm_reducer is not a function\n"
         "  expected: a function of two values, e.g. lambda x, y: x + y\n  got: `n`"),
        ("T.StringImm(8)", "StringImm holds a string\n  expected: a str\n  got: 8"),
        ("T.Var((-1,))", "the name of T.Var is not a string\n  expected: a str\n  got: (-1,)"),
        ("T.IntImm('int8', a[0:4, 0])", "T.IntImm cannot use this as `value`\n  got: `a[0:4, 0]`, a tilelang.Region"),
        ("T.Call(int, 'x', 3)", "T.Call cannot use this as `args`\n  got: 3, an int"),
        ("T.ceildiv((0,), 7)", "T.ceildiv cannot use this as `lhs`\n  got: (0,), a tuple"),
        ("T.Layout(8, lambda i, j: i)",
         "T.Layout cannot use this as `forward_fn`\n  got: an object of type function\n"
         "  hint: calling it: missing 1 required positional argument: 'j'"),
        # What has no value.
        ("A[0, 0] = T.sync_threads()", f"`T.sync_threads()`{_VOID}"),
        ("A[0, 0] = b[0]", _BARRIER),
        ("b[0] = 3", _BARRIER),
        ("T.named_barrier_arrive(b[0], 128)",
         "the barrier of T.named_barrier_arrive is not a number\n  expected: a scalar\n"
         "  got: `b[0]` in shared.barrier memory"),
        ("T.print(b)", f"the tile of T.print{_PLAIN}"),
        # Keywords that are none.
        ("T.wgmma_gemm(s, s, a, polcy=1)",
         "wgmma_gemm() got an unexpected keyword argument 'polcy'\n"
         "  expected: wgmma_gemm(A, B, C, transpose_A, transpose_B, policy, clear_accum, "
         "annotations, k_pack, wg_wait)\n  hint: did you mean `policy`?"),
        ("T.reduce(a, s, 'sum', keepdims=True)",
         "reduce() got an unexpected keyword argument 'keepdims'\n"
         "  expected: reduce(buffer, out, reduce_type, dim, clear, batch, nan_propagate, "
         "annotations)"),
        # Options of the wrong kind.
        ("T.copy(A, s, disable_tma='no')", _kind("disable_tma", _TRUTH, "'no'")),
        ("T.copy(A, s, coalesced_width=2.0)", _kind("coalesced_width", "an int", "2.0")),
        ("T.Assert(n > 0, n)", _kind("message", "text", "`n`")),
        ("T.Pipelined(4, group='ab')", _kind("group", "a list", "'ab'")),
        ("T.gemm(s, s, a, 7)",
         "the transpose_A of T.gemm is not a constant bool\n"
         "  expected: True or False, known at compile time\n  got: 7"),
        # Conditions that are none.
        ("T.assume('n > 0')",
         "the condition of T.assume is not a condition\n"
         "  expected: a comparison, e.g. n > 0\n  got: 'n > 0'"),
        # Fractions where things are counted.
        ("T.mbarrier_wait_parity(b, A[0, 0])",
         f"the parity of T.mbarrier_wait_parity{_INTEGER}`A[0, 0]` of dtype float32"
         "\n  hint: convert with T.int32(x)"),
        ("T.sync_threads(1.5, 64)",
         f"the barrier of T.sync_threads{_INTEGER}1.5 of dtype float32\n  hint: convert with T.int32(x)"),
        # Unexpected objects: what Python says of them is about the argument.
        ("T.serial(np.arange(4))", f"T.serial cannot use an array as `start`\n  got: {_NUMBERS}"),
        ("T.align_up('64', n)", "T.align_up cannot use this as `x`\n  got: '64', a str"),
        ("T.align_up(n, None)", "T.align_up cannot use this as `y`\n  got: None"),
        ("T.Tensor(8, foo=1)",
         "the call got an unexpected keyword argument 'foo'\n"
         "  expected: (shape, dtype, data, strides, elem_offset, scope, align, offset_factor, "
         "buffer_type, axis_separators)"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_an_error_at_the_line(line: str, message: str) -> None:
    error = error_of(line)
    assert type(error) is TileTypeError
    place = f"\n --> <wrong>:7:9\n    7 |         {line}\n      |         {'^' * len(line)}"
    assert str(error) == as_known(message + place)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("y = T.index_to_coordinates(16, 0)",
         "T.index_to_coordinates of these numbers: integer modulo by zero\n"
         "  got: index=16, shape=0"),
        ("T.GemmWarpPolicy(7)", "7 is not a valid GemmWarpPolicy"),
        ("y = -T.clear(a)",
         "bad operand type for unary -: 'NoneType'\n  hint: an operation on tiles, such as "
         "T.copy or T.gemm, is a statement and has no value"),
        ("y = T.max2(n, n)",
         "T.max2 takes vectors of two lanes\n"
         "  expected: operands of one dtype of two lanes, e.g. T.float16x2\n"
         "  got: `n` of int32, `n` of int32"),
        ("y = (1, 2); y[0] = n", "'tuple' object does not support item assignment"),
        ("y = T.view(b)", f"the source of T.view{_PLAIN}"),
        *(
            (
                f"y = T.let({bound}, 2)",
                "the first argument of T.let is not a new variable\n"
                f"  expected: a variable such as T.int32()\n  got: {shown}",
            )
            for bound, shown in (("n", "n"), ("A.data", "A"), ("s.data", "s"), ("bx", "bx"))
        ),
        *(
            (
                f"y = T.shfl_down(n, 1, width={width})",
                f"the width of T.shfl_down is {width}\n"
                f"  expected: a power of two from 1 to 32\n  got: {width}",
            )
            for width in ("1e+300", "2.5", "48", "-1")
        ),
        ("T.atomic_add(s[0, 0:1], b)", f"the source of T.atomic_add{_PLAIN}"),
        ("T.mma_gemm_blockscaled(s, s, a, s, s, policy=float('nan'))",
         "the policy of T.mma_gemm_blockscaled is unknown\n"
         "  expected: T.GemmWarpPolicy.Square, FullRow or FullCol\n  got: nan"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_an_error_in_the_line(line: str, message: str) -> None:
    found = str(error_of(line)).partition("\n --> <wrong>:7")[0]
    # Python 3.10 has one message for both operators, Python 3.14 another one for both.
    found = found.replace("integer division or modulo", "integer modulo")
    assert found.replace(": division by zero", ": integer modulo by zero") == message


def test_a_barrier_may_have_a_name() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            bars = T.alloc_barrier([32, 32])
            for k in T.serial(4):
                bar = bars[k % 2]
                T.mbarrier_arrive(bar)
                T.mbarrier_wait_parity(bar, k // 2)
            A[0] = 1

    assert "T.mbarrier_arrive(T.address_of(bars[k % 2]))" in str(kernel)


def test_a_view_that_differs_between_threads_is_refused_on_the_cpu() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=4):
            t = T.get_thread_binding()
            own = T.match_buffer(A, (8,), "int32", strides=(t,))
            own[1] = 1

    with pytest.raises(TileUnsupportedError) as caught:
        tilelang.lower(kernel, "cpu")
    assert str(caught.value).partition("\n --> ")[0] == (
        "the shape of the view `own` differs between threads\n"
        "  expected: extents, strides and an offset that all threads of a block share\n"
        "  got: one that depends on `tx`\n"
        "  hint: put what differs into the indices; GPUs and the interpreter run it as it is"
    )


def test_a_macro_that_reads_the_names_of_its_callers_is_refused() -> None:
    assert refusal(TileUnsupportedError, T.macro, hygienic=False) == (
        "a macro that reads the names of its callers\n  expected: hygienic=True\n"
        "  hint: pass what the macro reads as arguments"
    )
