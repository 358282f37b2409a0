"""Wrong programs and the exact text a user gets: what, expected, got, advice, line and caret.

Every program is written to ``wrong.py`` below a line that imports the language, so its own first
line is line 2.
"""

from __future__ import annotations

import linecache
import sys
import warnings

import pytest

from tilelang.errors import TileError, TileWarning

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 11), reason="columns are known from Python 3.11 on"
)


def error_of(program: str) -> str:
    """The kind and text of the error that running ``program`` raises."""
    source = "import tilelang.language as T\n" + program + "\n"
    linecache.cache["wrong.py"] = (len(source), None, source.splitlines(True), "wrong.py")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TileWarning)
        with pytest.raises(TileError) as caught:
            code = compile(source, "wrong.py", "exec", dont_inherit=True)
            exec(code, {"__name__": "wrong"})  # noqa: S102
    return f"{type(caught.value).__name__}: {caught.value}"


CASES = [
    (
        "unknown name",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        T.evaluate(lenght)
        length = 1
""",
        """\
TileNameError: the name `lenght` is not defined
 --> wrong.py:5:20
    5 |         T.evaluate(lenght)
      |                    ^^^^^^
""",
    ),
    (
        "unknown name with a suggestion",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        limit = n + 1
        A[0, 0] = limitt
""",
        """\
TileNameError: the name `limitt` is not defined
  hint: did you mean `limit`?
 --> wrong.py:6:19
    6 |         A[0, 0] = limitt
      |                   ^^^^^^
""",
    ),
    (
        "loop value used after the loop",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        for i in T.serial(4):
            x = A[i, 0]
        A[0, 0] = x
""",
        """\
TileNameError: `x` is used outside its defining region
  expected: a value defined in this block or one around it
  hint: to carry a value out of a loop or branch, declare `x = T.alloc_var(dtype)` before it and assign to it inside
 --> wrong.py:7:19
    7 |         A[0, 0] = x
      |                   ^
""",
    ),
    (
        "loop index used after the loop",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        for i in T.serial(4):
            A[i, 0] = 0
        A[i, 1] = 0
""",
        """\
TileNameError: `i` is used outside its defining region
  expected: a value defined in this block or one around it
  hint: to carry a value out of a loop or branch, declare `i = T.alloc_var(dtype)` before it and assign to it inside
 --> wrong.py:7:11
    7 |         A[i, 1] = 0
      |           ^
""",
    ),
    (
        "tile used after the loop that allocates it",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        for i in T.serial(4):
            x = T.alloc_shared((8, 4), 'float32')
            T.clear(x)
        T.copy(x, A)
""",
        """\
TileNameError: `x` is used outside its defining region
  expected: a value defined in this block or one around it
  hint: to carry a value out of a loop or branch, allocate `x` before it
 --> wrong.py:8:16
    8 |         T.copy(x, A)
      |                ^
""",
    ),
    (
        "branch value used after the branch",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        if n > 2:
            x = A[0, 0]
        A[0, 0] = x
""",
        """\
TileNameError: `x` is used outside its defining region
  expected: a value defined in this block or one around it
  hint: to carry a value out of a loop or branch, declare `x = T.alloc_var(dtype)` before it and assign to it inside
 --> wrong.py:7:19
    7 |         A[0, 0] = x
      |                   ^
""",
    ),
    (
        "buffer allocated in a branch used after it",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        if n > 2:
            v = T.alloc_var('int32', 0)
        A[v, 0] = 0
""",
        """\
TileNameError: `v` is used outside its defining region
  expected: a value defined in this block or one around it
  hint: to carry a value out of a loop or branch, declare `v = T.alloc_var(dtype)` before it and assign to it inside
 --> wrong.py:7:11
    7 |         A[v, 0] = 0
      |           ^
""",
    ),
    (
        "name bound only in a branch that is not taken",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        if False:
            x = 1
        A[0, 0] = x
""",
        """\
TileNameError: `x` has no value here
  hint: bind `x` on every path; a branch that is not taken at trace time binds nothing
 --> wrong.py:7:19
    7 |         A[0, 0] = x
      |                   ^
""",
    ),
    (
        "too few indices",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        A[0] = 1
""",
        """\
TileIndexError: too few indices for `A`
  expected: 2 (shape (8, 4))
  got: 1
  hint: for a tile operand write slices for the other dimensions, e.g. A[i, :]
 --> wrong.py:5:9
    5 |         A[0] = 1
      |         ^^^^^^^^
""",
    ),
    (
        "too many indices",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        A[0, 0, 0] = 1
""",
        """\
TileIndexError: too many indices for `A`
  expected: 2 (shape (8, 4))
  got: 3
 --> wrong.py:5:9
    5 |         A[0, 0, 0] = 1
      |         ^^^^^^^^^^^^^^
""",
    ),
    (
        "a reduction without its result",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        t = T.alloc_fragment((8, 4), 'float32')
        m = T.reduce_max(t, dim=1)
""",
        """\
TileTypeError: reduce_max() missing 1 required positional argument: 'out'
  expected: reduce_max(buffer, out, dim, clear, batch, nan_propagate, annotations)
  hint: results go into a tile that you allocate; pass it as `out`
 --> wrong.py:6:13
    6 |         m = T.reduce_max(t, dim=1)
      |             ^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "a new dimension",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        A[0, 0] = A[:, None, 1:n][0]
""",
        """\
TileIndexError: None in the index of `A`
  expected: ints, scalar expressions and slices
  got: A[:, None, 1:n]
  hint: an index adds no dimension; loop over the elements with T.Parallel, or give the memory another shape with T.reshape
 --> wrong.py:5:19
    5 |         A[0, 0] = A[:, None, 1:n][0]
      |                   ^^^^^^^^^^^^^^^
""",
    ),
    (
        "float index",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        A[n / 2.0, 0] = 1
""",
        """\
TileTypeError: index 0 of `A` is not an integer
  expected: an integer expression
  got: `T.Cast("float32", n) / T.float32(2.0)` of dtype float32
  hint: convert with T.int32(x), or use `//` instead of `/`
 --> wrong.py:5:9
    5 |         A[n / 2.0, 0] = 1
      |         ^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "loop over a list",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        for i in [1, 2, 3]:
            A[i, 0] = 0
""",
        """\
TileTypeError: a kernel cannot loop over a value of type list
  expected: range(...), T.serial, T.Parallel, T.Pipelined, T.unroll, T.vectorized, T.grid or T.Persistent
  got: [1, 2, 3]
  hint: `for i, x in enumerate(values)` is unrolled while tracing; for a loop of the device use T.serial(n)
 --> wrong.py:5:18
    5 |         for i in [1, 2, 3]:
      |                  ^^^^^^^^^
""",
    ),
    (
        "unpacking a buffer",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        a, b = A
""",
        """\
TileTypeError: the buffer `A` is not iterable
  hint: loop with `for i in T.serial(n)` or T.Parallel and index it
 --> wrong.py:5:9
    5 |         a, b = A
      |         ^^^^^^^^
""",
    ),
    (
        "else of a for",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        for i in range(4):
            A[i, 0] = 0
        else:
            A[0, 1] = 0
""",
        """\
TileSyntaxError: `else` of a `for` is not supported in a kernel or macro
  hint: write the statements after the loop
 --> wrong.py:8:13
    8 |             A[0, 1] = 0
      |             ^^^^^^^^^^^
""",
    ),
    (
        "else of a while",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        v = T.alloc_var('int32', 0)
        while v < 3:
            v += 1
        else:
            v = 0
""",
        """\
TileSyntaxError: `else` of a `while` is not supported in a kernel or macro
  hint: write the statements after the loop
 --> wrong.py:9:13
    9 |             v = 0
      |             ^^^^^
""",
    ),
    (
        "loop into a subscript",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        for A[0, 0] in range(4):
            pass
""",
        """\
TileSyntaxError: this loop target is not supported in a kernel or macro
  hint: loop over names
 --> wrong.py:5:13
    5 |         for A[0, 0] in range(4):
      |             ^^^^^^^
""",
    ),
    (
        "return inside a loop",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        for i in range(4):
            return A
""",
        """\
TileUnsupportedError: `return` of `f` in a branch or loop with a value
  expected: `return` as the last statement, or without a value in T.Kernel
  hint: a thread that returns early leaves the kernel; results are stored to tensors
 --> wrong.py:6:13
    6 |             return A
      |             ^^^^^^^^
""",
    ),
    (
        "try",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        try:
            A[0, 0] = 1
        except ValueError:
            pass
""",
        """\
TileSyntaxError: `try` is not supported in a kernel or macro
  hint: check conditions with `if`; a kernel raises no exceptions
 --> wrong.py:5:9
    5 |         try:
      |         ^^^^
""",
    ),
    (
        "global",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        global G
        A[0, 0] = 1
""",
        """\
TileSyntaxError: `global` is not supported in a kernel or macro
  hint: return the value, or pass a T.Ref
 --> wrong.py:5:9
    5 |         global G
      |         ^^^^^^^^
""",
    ),
    (
        "del",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        x = n + 1
        del x
""",
        """\
TileSyntaxError: `del` is not supported in a kernel or macro
  hint: names end with the block that defines them
 --> wrong.py:6:9
    6 |         del x
      |         ^^^^^
""",
    ),
    (
        "match",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        match n:
            case 1:
                A[0, 0] = 1
""",
        """\
TileSyntaxError: `match` is not supported in a kernel or macro
  hint: use `if` / `elif`
 --> wrong.py:5:9
    5 |         match n:
      |         ^^^^^^^^
""",
    ),
    (
        "walrus",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        if (m := n + 1) > 2:
            A[0, 0] = m
""",
        """\
TileSyntaxError: `:=` is not supported in a kernel or macro
  hint: assign in a separate statement
 --> wrong.py:5:13
    5 |         if (m := n + 1) > 2:
      |             ^^^^^^^^^^
""",
    ),
    (
        "yield",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        yield n
""",
        """\
TileSyntaxError: `yield` is not supported in a kernel or macro
  hint: kernels have no generators; return the values
 --> wrong.py:5:9
    5 |         yield n
      |         ^^^^^^^
""",
    ),
    (
        "attribute assignment",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        A.x = 1
""",
        """\
TileSyntaxError: assignment to an attribute is not supported in a kernel or macro
  hint: assign to a name, or keep state in a class decorated with @T.meta_class
 --> wrong.py:5:9
    5 |         A.x = 1
      |         ^^^
""",
    ),
    (
        "async with",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        async def g():
            pass
""",
        """\
TileSyntaxError: `async def` is not supported in a kernel or macro
  hint: use `def`
 --> wrong.py:5:9
    5 |         async def g():
      |         ^^^^^^^^^^^^^^
""",
    ),
    (
        "async kernel",
        """\
@T.prim_func
async def f(A: T.Tensor((8,), 'float32')):
    pass
""",
        """\
TileSyntaxError: `async def f` cannot be a kernel
  hint: write `def`
 --> wrong.py:3:1
    3 | async def f(A: T.Tensor((8,), 'float32')):
      | ^
""",
    ),
    (
        "missing annotation",
        """\
@T.prim_func
def f(A: T.Tensor((8,), 'float32'), x):
    pass
""",
        """\
TileSyntaxError: Argument `x` is not annotated
  expected: T.Tensor(shape, dtype), T.StridedTensor(...), T.ptr or a scalar dtype
  hint: for a kernel with compile-time arguments use @tilelang.jit
 --> wrong.py:3:37
    3 | def f(A: T.Tensor((8,), 'float32'), x):
      |                                     ^
""",
    ),
    (
        "annotation that is no argument",
        """\
@T.prim_func
def f(A: T.Tensor((8,), 'float32'), x: str):
    pass
""",
        """\
TileTypeError: the annotation of `x` does not describe an argument
  expected: T.Tensor(shape, dtype), T.StridedTensor(...), T.ptr or a scalar dtype
  got: <class 'str'>
 --> wrong.py:3:37
    3 | def f(A: T.Tensor((8,), 'float32'), x: str):
      |                                     ^^^^^^
""",
    ),
    (
        "positional-only parameter",
        """\
@T.prim_func
def f(A: T.Tensor((8,), 'float32'), /):
    pass
""",
        """\
TileSyntaxError: prim_func `f` has the positional-only parameter `A`
  hint: remove the `/`
 --> wrong.py:3:7
    3 | def f(A: T.Tensor((8,), 'float32'), /):
      |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "variable parameter",
        """\
@T.prim_func
def f(*tensors: T.Tensor((8,), 'float32')):
    pass
""",
        """\
TileSyntaxError: prim_func `f` has the variable parameter `tensors`
  expected: a fixed list of parameters
 --> wrong.py:3:8
    3 | def f(*tensors: T.Tensor((8,), 'float32')):
      |        ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "unknown name in a text annotation",
        """\
@T.prim_func
def f(A: 'T.Tensor((N,), T.float32)'):
    pass
""",
        """\
TileNameError: the annotation of `A` uses an unknown name: name 'N' is not defined
 --> wrong.py:3:7
    3 | def f(A: 'T.Tensor((N,), T.float32)'):
      |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "float extent",
        """\
@T.prim_func
def f(A: T.Tensor((8 / 2,), 'float32')):
    pass
""",
        """\
TileTypeError: this is not a dimension
  expected: an int, `int`, `Any`, T.dyn, T.dyn["name"], T.dynamic("name") or an expression of symbols
  got: 4.0
  hint: use `//` for integer division
 --> wrong.py:3:10
    3 | def f(A: T.Tensor((8 / 2,), 'float32')):
      |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "negative extent",
        """\
@T.prim_func
def f(A: T.Tensor((8, -3), 'float32')):
    pass
""",
        """\
TileValueError: the extent of dimension 1 of T.Tensor is negative
  expected: 0 or more elements
  got: -3
 --> wrong.py:3:10
    3 | def f(A: T.Tensor((8, -3), 'float32')):
      |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "extent of -1, which elsewhere means any",
        """\
@T.prim_func
def f(A: T.StridedTensor((-1, 4), (4, 1), 'float32')):
    pass
""",
        """\
TileValueError: the extent of dimension 0 of T.StridedTensor is negative
  expected: 0 or more elements
  got: -1
  hint: an extent known at run time only is T.dynamic("n")
 --> wrong.py:3:10
    3 | def f(A: T.StridedTensor((-1, 4), (4, 1), 'float32')):
      |          ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "negative extent in brackets",
        """\
@T.prim_func
def f(A: T.Tensor[[-8], T.float32]):
    pass
""",
        """\
TileValueError: the extent of dimension 0 of T.Tensor is negative
  expected: 0 or more elements
  got: -8
 --> wrong.py:3:10
    3 | def f(A: T.Tensor[[-8], T.float32]):
      |          ^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "unknown dtype",
        """\
@T.prim_func
def f(A: T.Tensor((8,), 'float23')):
    pass
""",
        """\
TileTypeError: unknown data type 'float23'
  expected: a dtype name such as 'float16' or 'float32x4', a T.* dtype, a torch or numpy dtype, or the Python types bool, int, float
  got: 'float23'
  hint: did you mean 'float32'?
 --> wrong.py:3:10
    3 | def f(A: T.Tensor((8,), 'float23')):
      |          ^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "while true",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        while True:
            A[0, 0] = 1
""",
        """\
TileRuntimeError: the condition of `while` is always true: an infinite loop
  expected: a device expression that the body changes
  hint: use a T.alloc_var in the condition, or T.serial(n) with `break`
 --> wrong.py:5:15
    5 |         while True:
      |               ^^^^
""",
    ),
    (
        "while on a value that is fixed",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        x = A[0, 0] > 1
        while x:
            A[0, 0] = 1
""",
        """\
TileRuntimeError: the condition of `while` never changes: an infinite loop
  expected: a condition that reads a T.alloc_var or a buffer
  got: `x`, which is fixed before the loop
  hint: use a T.alloc_var in the condition
 --> wrong.py:6:15
    6 |         while x:
      |               ^
""",
    ),
    (
        "break in a parallel loop",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        for i in T.Parallel(8):
            if i > n:
                break
""",
        """\
TileSyntaxError: `break` in a T.Parallel loop
  expected: `break` in T.serial, T.unroll, range or while
  hint: iterations of T.Parallel have no order; guard the body with `if`
 --> wrong.py:7:17
    7 |                 break
      |                 ^^^^^
""",
    ),
    (
        "loop names do not match",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        for i, j in T.Parallel(8):
            A[i, j] = 1
""",
        """\
TileValueError: 2 loop names for 1 index
  expected: 1 name
  got: i, j
 --> wrong.py:5:21
    5 |         for i, j in T.Parallel(8):
      |                     ^^^^^^^^^^^^^
""",
    ),
    (
        "a list looked up by a value of the kernel",
        """\
@T.prim_func
def f(A: T.Tensor((8,), 'float32')):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            A[i] = [1.0, 2.0][i % 2]
""",
        """\
TileTypeError: the device expression `i % 2` is used where Python needs an int
  expected: a value known at trace time
  hint: shapes and ranges of Python code must be constants; a list or table that the kernel looks up is an argument, a T.Tensor
 --> wrong.py:6:20
    6 |             A[i] = [1.0, 2.0][i % 2]
      |                    ^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "one name for the block indices of a grid of two dimensions",
        """\
@T.prim_func
def f(A: T.Tensor((64,), 'float32')):
    with T.Kernel(2, 2, threads=32) as bx:
        A[bx * 32] = 1
""",
        """\
TileTypeError: the 2 block indices of T.Kernel are used as one number
  expected: a name for each extent of the grid
  got: one name for all of them
  hint: write `with T.Kernel(...) as (bx, by):`
 --> wrong.py:5:11
    5 |         A[bx * 32] = 1
      |           ^^^^^^^
""",
    ),
    (
        "one loop name for two extents",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        for i in T.Parallel(8, 4):
            A[i, 0] = 1
""",
        """\
TileValueError: one loop name for 2 indices
  expected: 2 names
  got: i
  hint: write `for i, j in ...`; each argument is the extent of a loop from 0
 --> wrong.py:5:18
    5 |         for i in T.Parallel(8, 4):
      |                  ^^^^^^^^^^^^^^^^
""",
    ),
    (
        "range with step zero",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        for i in range(0, 8, 0):
            A[i, 0] = 1
""",
        """\
TileValueError: the step of range is 0
  expected: a step that is not 0
  got: 0
 --> wrong.py:5:18
    5 |         for i in range(0, 8, 0):
      |                  ^^^^^^^^^^^^^^
""",
    ),
    (
        "float loop bound",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        for i in T.serial(8 / 2):
            A[i, 0] = 1
""",
        """\
TileTypeError: the stop of T.serial is not an integer
  expected: an int or an integer expression
  got: 4.0
  hint: use `//` for integer division
 --> wrong.py:5:18
    5 |         for i in T.serial(8 / 2):
      |                  ^^^^^^^^^^^^^^^
""",
    ),
    (
        "float expression as loop bound",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        for i in T.serial(A[0, 0]):
            A[i, 0] = 1
""",
        """\
TileTypeError: the stop of T.serial is not an integer
  expected: an int or an integer expression
  got: `A[0, 0]` of dtype float32
  hint: convert with T.int32(x)
 --> wrong.py:5:18
    5 |         for i in T.serial(A[0, 0]):
      |                  ^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "unroll options exclude each other",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        for i in T.unroll(4, explicit=True, unroll_factor=2):
            A[i, 0] = 1
""",
        """\
TileValueError: T.unroll has both explicit=True and unroll_factor
  expected: one of them
  got: unroll_factor=2
 --> wrong.py:5:18
    5 |         for i in T.unroll(4, explicit=True, unroll_factor=2):
      |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "negative num_stages",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        for i in T.Pipelined(4, num_stages=-1):
            A[i, 0] = 1
""",
        """\
TileValueError: num_stages of T.Pipelined must be an int that is not negative
  expected: 0, 1, 2, ...
  got: -1
 --> wrong.py:5:18
    5 |         for i in T.Pipelined(4, num_stages=-1):
      |                  ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "vectorized with run-time extent",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        for i in T.vectorized(n):
            A[i, 0] = 1
""",
        """\
TileValueError: the extent of T.vectorized is not a constant
  expected: a constant number of iterations
  got: `n`
  hint: use T.serial
 --> wrong.py:5:18
    5 |         for i in T.vectorized(n):
      |                  ^^^^^^^^^^^^^^^
""",
    ),
    (
        "persistent without a domain",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        for i in T.Persistent(4, 2, bx):
            A[i, 0] = 1
""",
        """\
TileTypeError: the domain of T.Persistent is not a list of extents
  expected: e.g. [T.ceildiv(M, 128), T.ceildiv(N, 128)]
  got: 4
 --> wrong.py:5:18
    5 |         for i in T.Persistent(4, 2, bx):
      |                  ^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "loop_break outside a loop",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        T.loop_break()
""",
        """\
TileSyntaxError: T.loop_break outside a loop
 --> wrong.py:5:9
    5 |         T.loop_break()
      |         ^^^^^^^^^^^^^^
""",
    ),
    (
        "loop that is not used",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        T.serial(4)
""",
        """\
TileSyntaxError: T.serial(...) is not used
  hint: write `for ... in T.serial(...):`
 --> wrong.py:5:9
    5 |         T.serial(4)
      |         ^^^^^^^^^^^
""",
    ),
    (
        "loop that is assigned",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        i = T.serial(4)
""",
        """\
TileSyntaxError: the frame T.serial is assigned to `i`
  hint: write `for i in T.serial(...):`
 --> wrong.py:5:9
    5 |         i = T.serial(4)
      |         ^^^^^^^^^^^^^^^
""",
    ),
    (
        "with on a number",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        with 3:
            A[0, 0] = 1
""",
        """\
TileTypeError: `with` on a value of type int
  expected: T.Kernel(...), T.ws(...), T.If(...), T.attr(...) or a context manager
  got: 3
 --> wrong.py:5:14
    5 |         with 3:
      |              ^
""",
    ),
    (
        "kernel in a kernel",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        with T.Kernel(2) as by:
            A[by, 0] = 1
""",
        """\
TileSyntaxError: a kernel is opened inside a kernel
  hint: end the first `with T.Kernel(...)` before the next
 --> wrong.py:5:14
    5 |         with T.Kernel(2) as by:
      |              ^^^^^^^^^^^
""",
    ),
    (
        "no threads",
        """\
@T.prim_func
def f():
    with T.Kernel(1, threads=0):
        pass
""",
        """\
TileValueError: a thread extent of T.Kernel is not positive
  expected: 1 or more threads
  got: threads=0
 --> wrong.py:4:10
    4 |     with T.Kernel(1, threads=0):
      |          ^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "four grid extents",
        """\
@T.prim_func
def f():
    with T.Kernel(1, 2, 3, 4):
        pass
""",
        """\
TileValueError: T.Kernel takes at most 3 grid extents
  expected: 0 to 3
  got: 4
 --> wrong.py:4:10
    4 |     with T.Kernel(1, 2, 3, 4):
      |          ^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "float grid extent",
        """\
@T.prim_func
def f(n: T.int32):
    with T.Kernel(7 / 2):
        pass
""",
        """\
TileTypeError: a grid extent of T.Kernel is not an integer
  expected: an int or an integer expression
  got: 3.5
  hint: use T.ceildiv(n, block) or `//`
 --> wrong.py:4:10
    4 |     with T.Kernel(7 / 2):
      |          ^^^^^^^^^^^^^^^
""",
    ),
    (
        "run-time thread extent",
        """\
@T.prim_func
def f(n: T.int32):
    with T.Kernel(1, threads=n):
        pass
""",
        """\
TileTypeError: a thread extent of T.Kernel is not a constant
  expected: an int
  got: n
 --> wrong.py:4:10
    4 |     with T.Kernel(1, threads=n):
      |          ^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "wrong number of block names",
        """\
@T.prim_func
def f():
    with T.Kernel(4, 4) as (bx, by, bz):
        pass
""",
        """\
TileValueError: 3 names for 2 grid extents
  expected: 2 names
  got: (bx, by, bz)
 --> wrong.py:4:10
    4 |     with T.Kernel(4, 4) as (bx, by, bz):
      |          ^^^^^^^^^^^^^^
""",
    ),
    (
        "unknown kernel option",
        """\
@T.prim_func
def f():
    with T.Kernel(4, thread=32):
        pass
""",
        """\
TileTypeError: T.Kernel has no option `thread`
  expected: threads=, prelude=, is_cpu=, cluster_dims=
  hint: did you mean `threads`?
 --> wrong.py:4:10
    4 |     with T.Kernel(4, thread=32):
      |          ^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "thread binding of dimension 3",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        A[T.get_thread_binding(3), 0] = 1
""",
        """\
TileValueError: `get_thread_binding` has no dimension 3
  expected: 0 to 2
  got: 3
 --> wrong.py:5:11
    5 |         A[T.get_thread_binding(3), 0] = 1
      |           ^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "thread binding outside a kernel",
        """\
@T.prim_func
def f(A: T.Tensor((8,), 'float32')):
    A[T.get_thread_binding()] = 1
""",
        """\
TileSyntaxError: `T.get_thread_binding` is outside a kernel
  expected: a statement inside `with T.Kernel(...)`
 --> wrong.py:4:7
    4 |     A[T.get_thread_binding()] = 1
      |       ^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "unknown swizzle order",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        T.use_swizzle(4, order='diagonal')
""",
        """\
TileValueError: unknown order 'diagonal' of T.use_swizzle
  expected: "row", "column" or "mlx"
  got: 'diagonal'
 --> wrong.py:5:9
    5 |         T.use_swizzle(4, order='diagonal')
      |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "warp group that does not exist",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        with T.ws(1):
            A[0, 0] = 1
""",
        """\
TileValueError: T.ws(1) in a kernel of 32 threads
  expected: warp groups 0 to 0
  got: 1
  hint: raise threads= of T.Kernel
 --> wrong.py:5:14
    5 |         with T.ws(1):
      |              ^^^^^^^
""",
    ),
    (
        "unknown launch axis",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        for tx in T.thread_binding(32, thread='thread.x'):
            A[tx, 0] = 1
""",
        """\
TileValueError: unknown launch axis 'thread.x'
  expected: blockIdx.x, .y, .z or threadIdx.x, .y, .z
  got: 'thread.x'
 --> wrong.py:5:19
    5 |         for tx in T.thread_binding(32, thread='thread.x'):
      |                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "macro outside a kernel",
        """\
@T.macro
def m(x):
    x[0] = 1
m(3)
""",
        """\
JITNoBuilderError: `macro m` is used outside a kernel
  expected: a call inside a function decorated with @T.prim_func, @tilelang.jit or @T.macro while it is traced
 --> wrong.py:5:1
    5 | m(3)
      | ^^^^
""",
    ),
    (
        "value passed as a reference",
        """\
@T.macro
def m(x: T.Ref):
    x = 1
    return x
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        m(n + 1)
""",
        """\
TileValueError: the argument `x` of the macro `m` is a T.Ref
  expected: a T.alloc_var, a buffer element such as A[i], or a slice
  got: `n + 1`
  hint: a value cannot be stored to; remove T.Ref, or pass a variable
 --> wrong.py:9:9
    9 |         m(n + 1)
      |         ^^^^^^^^
""",
    ),
    (
        "macro in a conditional expression",
        """\
@T.macro
def m(x: T.Ref):
    x = 1
    return x
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        y = m(A[0, 0]) if n > 1 else 0
""",
        """\
TileRuntimeError: the macro `m` is called inside an arm of `a if c else b`
  expected: a call in a separate statement
  hint: write `x = m(...)` before, or use `if` statements
 --> wrong.py:9:13
    9 |         y = m(A[0, 0]) if n > 1 else 0
      |             ^^^^^^^^^^
""",
    ),
    (
        "macro in an operand of and",
        """\
@T.macro
def m(x: T.Ref):
    x = 1
    return x
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        y = n > 1 and m(A[0, 0]) > 0
""",
        """\
TileRuntimeError: the macro `m` is called inside an operand of `and`
  expected: a call in a separate statement
  hint: write `x = m(...)` before, or use `if` statements
 --> wrong.py:9:23
    9 |         y = n > 1 and m(A[0, 0]) > 0
      |                       ^^^^^^^^^^
""",
    ),
    (
        "wrong arguments of a macro",
        """\
@T.macro
def m(x: T.Ref):
    x = 1
    return x
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        m(A[0, 0], 2)
""",
        """\
TileTypeError: wrong arguments for the macro `m`: too many positional arguments
  expected: m(x)
 --> wrong.py:9:9
    9 |         m(A[0, 0], 2)
      |         ^^^^^^^^^^^^^
""",
    ),
    (
        "macro without end",
        """\
@T.macro
def again(x):
    again(x + 1)
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        again(1)
""",
        """\
TileSyntaxError: the macro `again` calls itself without end
  expected: at most 150 nested expansions
  hint: end the recursion by a condition known at trace time
 --> wrong.py:4:5
    4 |     again(x + 1)
      |     ^^^^^^^^^^^^
  in expansion of macro `again` called at wrong.py:4:5, 149 times
    4 |     again(x + 1)
      |     ^^^^^^^^^^^^
  in expansion of macro `again` called at wrong.py:8:9
    8 |         again(1)
      |         ^^^^^^^^
""",
    ),
    (
        "error inside a macro",
        """\
@T.macro
def fill(B, v):
    B[0] = v
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        fill(A, 1)
""",
        """\
TileIndexError: too few indices for `A`
  expected: 2 (shape (8, 4))
  got: 1
  hint: for a tile operand write slices for the other dimensions, e.g. A[i, :]
 --> wrong.py:4:5
    4 |     B[0] = v
      |     ^^^^^^^^
  in expansion of macro `fill` called at wrong.py:8:9
    8 |         fill(A, 1)
      |         ^^^^^^^^^^
""",
    ),
    (
        "return inside a loop of a macro",
        """\
@T.macro
def pick(B, i):
    for k in T.serial(i):
        return 1
    return 2
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        pick(A, n)
""",
        """\
TileUnsupportedError: `return` of the macro `pick` in a loop
  expected: `return` at the end, or in branches outside of loops
  hint: assign the result to a T.alloc_var, leave the loop with `break`, and return at the end; to stop a thread early use T.thread_return()
 --> wrong.py:5:9
    5 |         return 1
      |         ^^^^^^^^
  in expansion of macro `pick` called at wrong.py:10:9
   10 |         pick(A, n)
      |         ^^^^^^^^^^
""",
    ),
    (
        "augmented assignment to a buffer",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        A += 1
""",
        """\
TileTypeError: `+=` on the whole buffer `A`
  expected: an element or a T.alloc_var
  hint: write `for i in T.Parallel(n): A[i] += ...`
 --> wrong.py:5:9
    5 |         A += 1
      |         ^^^^^^
""",
    ),
    (
        "immutable value updated in a loop",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        x = A[0, 0]
        for i in range(4):
            x = x + A[i, 0]
""",
        """\
TileNameError: the immutable value `x` is updated in a loop
  expected: a variable made by T.alloc_var
  got: `x` bound outside the loop
  hint: declare `x = T.alloc_var(dtype, init)` before the loop
 --> wrong.py:7:13
    7 |             x = x + A[i, 0]
      |             ^^^^^^^^^^^^^^^
""",
    ),
    (
        "number updated with device values in a loop",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        s = 0.0
        for i in range(4):
            s += A[i, 0]
""",
        """\
TileNameError: the immutable value `s` is updated in a loop
  expected: a variable made by T.alloc_var
  got: `s` bound outside the loop to 0.0
  hint: declare `s = T.alloc_var(dtype, init)` before the loop
 --> wrong.py:7:13
    7 |             s += A[i, 0]
      |             ^^^^^^^^^^^^
""",
    ),
    (
        "assignment to a slice",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        A[0:2, 0:2] = 1
""",
        """\
TileTypeError: a slice of `A` is assigned to
  expected: one index per dimension, or a few neighbours of the last one
  got: `A[0:2, 0:2]`
  hint: use T.copy(src, dst[...]) or T.fill(dst[...], value)
 --> wrong.py:5:9
    5 |         A[0:2, 0:2] = 1
      |         ^^^^^^^^^^^^^^^
""",
    ),
    (
        "buffer stored into an element",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        A[0, 0] = A
""",
        """\
TileTypeError: a whole buffer is stored into one element of `A`
  expected: a scalar
  got: `A`
  hint: index the source, or use T.copy
 --> wrong.py:5:9
    5 |         A[0, 0] = A
      |         ^^^^^^^^^^^
""",
    ),
    (
        "slice with a step",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        T.evaluate(A[0, 0:4:2])
""",
        """\
TileUnsupportedError: a slice of `A` has a step
  expected: start:stop
  got: step 2 in dimension 1
  hint: index element by element in T.Parallel
 --> wrong.py:5:20
    5 |         T.evaluate(A[0, 0:4:2])
      |                    ^^^^^^^^^^^
""",
    ),
    (
        "float operand of and",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        if n > 1 and A[0, 0]:
            A[0, 0] = 1
""",
        """\
TileTypeError: an operand of `and` has dtype float32
  expected: a bool
  got: `A[0, 0]`
  hint: compare it, e.g. `x != 0`; for bits use `&`, `|`, `~`
 --> wrong.py:5:12
    5 |         if n > 1 and A[0, 0]:
      |            ^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "float condition",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        if A[0, 0]:
            A[0, 0] = 1
""",
        """\
TileTypeError: the condition of `if` has dtype float32
  expected: a bool or an integer
  got: `A[0, 0]`
  hint: compare it, e.g. `x != 0`
 --> wrong.py:5:12
    5 |         if A[0, 0]:
      |            ^^^^^^^
""",
    ),
    (
        "buffer as a condition",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        if A:
            A[0, 0] = 1
""",
        """\
TileTypeError: the buffer `A` is used as a condition
  expected: a scalar expression
  hint: compare an element, e.g. A[0] != 0
 --> wrong.py:5:12
    5 |         if A:
      |            ^
""",
    ),
    (
        "slice as a condition",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        if A[0, 0:2]:
            A[0, 0] = 1
""",
        """\
TileTypeError: the slice `A[0, 0:2]` is used as the condition of `if`
  expected: a scalar expression
  hint: compare an element, or use T.any_of / T.all_of
 --> wrong.py:5:12
    5 |         if A[0, 0:2]:
      |            ^^^^^^^^^
""",
    ),
    (
        "wrong number of values",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        a, b = n, n + 1, n + 2
""",
        """\
TileValueError: 3 values for 2 names
  expected: 2 values
  got: 3
 --> wrong.py:5:9
    5 |         a, b = n, n + 1, n + 2
      |         ^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "unpacking a scalar",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        a, b = n + 1
""",
        """\
TileTypeError: a value of type Binary cannot be unpacked
  expected: 2 values
  got: `n + 1`
 --> wrong.py:5:9
    5 |         a, b = n + 1
      |         ^^^^^^^^^^^^
""",
    ),
    (
        "indexing a scalar",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        x = A[0, 0]
        x[0] = 1
""",
        """\
TileTypeError: the scalar value `x` is indexed
  expected: a buffer
  got: a value of dtype float32
  hint: to change a value later, make it a T.alloc_var
 --> wrong.py:6:9
    6 |         x[0] = 1
      |         ^^^^^^^^
""",
    ),
    (
        "builtin min on expressions",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        A[0, 0] = min(A[0, 1], A[0, 2])
""",
        """\
TileTypeError: the device expression `A[0, 2] < A[0, 1]` has no value while the kernel is traced
  expected: a Python value (known at trace time)
  hint: use it in `if`/`while`/`and`/`or`/`not` of a kernel or macro body, or T.if_then_else(cond, a, b), T.min(a, b), T.max(a, b)
 --> wrong.py:5:19
    5 |         A[0, 0] = min(A[0, 1], A[0, 2])
      |                   ^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "round to digits",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        A[0, 0] = round(A[0, 1], 2)
""",
        """\
TileTypeError: round() of a value of the kernel to digits
  expected: round(x)
  got: round(A[0, 1], 2)
  hint: scale it: round(x * 100) / 100
 --> wrong.py:5:19
    5 |         A[0, 0] = round(A[0, 1], 2)
      |                   ^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "a ceiling of math",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        import math; A[0, 0] = math.ceil(A[0, 1])
""",
        """\
TileTypeError: ceil() is not defined on device expressions
  hint: use T.ceil(x)
 --> wrong.py:5:32
    5 |         import math; A[0, 0] = math.ceil(A[0, 1])
      |                                ^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "a function of math",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        import math; A[0, 0] = math.exp(A[0, 1])
""",
        """\
TileTypeError: float() of the device expression `A[0, 1]`
  expected: a value known at trace time
  hint: to convert on the device use T.float32(x) or T.cast(x, 'float32'); for a function of `math` use that of T, as T.exp(x)
 --> wrong.py:5:32
    5 |         import math; A[0, 0] = math.exp(A[0, 1])
      |                                ^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "a slice in arithmetic",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        A[0, :] = A[1, :] * 2
""",
        """\
TileTypeError: a Region is used where a scalar value is needed
  expected: a number or a device expression
  got: A[1, 0:4]
  hint: index a buffer with one index per dimension to read an element, in a loop `for i in T.Parallel(n)` for all of them
 --> wrong.py:5:19
    5 |         A[0, :] = A[1, :] * 2
      |                   ^^^^^^^^^^^
""",
    ),
    (
        "a product of buffers",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        A[0, 0] = A @ A
""",
        """\
TileTypeError: `@` is not defined on values of the kernel
  hint: use T.gemm(A, B, C), which adds the product of two tiles to a third
 --> wrong.py:5:19
    5 |         A[0, 0] = A @ A
      |                   ^^^^^
""",
    ),
    (
        "a method of arrays on an element",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        A[0, 0] = A[0, 1].exp()
""",
        """\
TileNameError: the value `A[0, 1]` has no `exp`
  hint: use T.exp(x)
 --> wrong.py:5:19
    5 |         A[0, 0] = A[0, 1].exp()
      |                   ^^^^^^^^^^^
""",
    ),
    (
        "a method of arrays on a slice",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        A[0, 0] = A[0, :].sum()
""",
        """\
TileNameError: the region `A[0, 0:4]` has no `sum`
  hint: use T.reduce_sum(tile, result, dim=...)
 --> wrong.py:5:19
    5 |         A[0, 0] = A[0, :].sum()
      |                   ^^^^^^^^^^^
""",
    ),
    (
        "a value looked for in a buffer",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        T.device_assert(n in A)
""",
        """\
TileTypeError: the buffer `A` is not iterable
  hint: loop with `for i in T.serial(n)` or T.Parallel and index it
 --> wrong.py:5:25
    5 |         T.device_assert(n in A)
      |                         ^^^^^^
""",
    ),
    (
        "raise on a condition of the device",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        if A[0, 0] > 0:
            raise ValueError('too large')
""",
        """\
TileSyntaxError: `raise` in a branch that is taken while the kernel runs
  expected: a condition that is known while the kernel is traced
  got: `A[0, 0] > T.float32(0.0)`
  hint: T.device_assert(condition, text) is checked when the kernel runs
 --> wrong.py:6:13
    6 |             raise ValueError('too large')
      |             ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "a vote with the mask first",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        A[0, 0] = T.any_sync(0xFFFFFFFF, A[0, 1] > 0)
""",
        """\
TileTypeError: T.any_sync with the mask first
  expected: T.any_sync(value, mask=0xFFFFFFFF)
  got: T.any_sync(4294967295, A[0, 1] > T.float32(0.0))
  hint: the mask of all lanes may be left out
 --> wrong.py:5:19
    5 |         A[0, 0] = T.any_sync(0xFFFFFFFF, A[0, 1] > 0)
      |                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "a shuffle with the mask first",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        A[0, 0] = T.shfl_xor(0xFFFFFFFF, A[0, 1], 16)
""",
        """\
TileTypeError: T.shfl_xor with the mask first
  expected: T.shfl_xor(value, delta, width=32, mask=0xFFFFFFFF)
  got: T.shfl_xor(4294967295, A[0, 1])
  hint: the mask of all lanes may be left out
 --> wrong.py:5:19
    5 |         A[0, 0] = T.shfl_xor(0xFFFFFFFF, A[0, 1], 16)
      |                   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "power",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        A[0, 0] = n ** bx
""",
        """\
TileTypeError: `**` of integers with an exponent that is only known at run time
  expected: a constant exponent, or a float
  got: `n ** bx`
  hint: as floats it is T.pow(T.float32(x), y); exact in integers is a loop of multiplications; a power of two is `1 << y`
 --> wrong.py:5:19
    5 |         A[0, 0] = n ** bx
      |                   ^^^^^^^
""",
    ),
    (
        "builtin int on expressions",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        A[0, 0] = int(A[0, 1])
""",
        """\
TileTypeError: int() of the device expression `A[0, 1]`
  expected: a value known at trace time
  hint: to convert on the device use T.int32(x) or T.cast(x, 'int32')
 --> wrong.py:5:19
    5 |         A[0, 0] = int(A[0, 1])
      |                   ^^^^^^^^^^^^
""",
    ),
    (
        "integer division with /",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        A[n / 2, 0] = 1
""",
        """\
TileTypeError: `/` on two integers
  expected: a float operand
  got: int32
  hint: use `//` for floor division, or convert with T.float32(x)
 --> wrong.py:5:11
    5 |         A[n / 2, 0] = 1
      |           ^^^^^
""",
    ),
    (
        "T.Then outside T.If",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        with T.Then():
            A[0, 0] = 1
""",
        """\
TileSyntaxError: T.Then outside T.If
  expected: `with T.If(cond):` around T.Then
 --> wrong.py:5:14
    5 |         with T.Then():
      |              ^^^^^^^^
""",
    ),
    (
        "T.If without T.Then",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        with T.If(n > 1):
            pass
""",
        """\
TileSyntaxError: T.If without T.Then
  expected: `with T.Then():` inside
 --> wrong.py:5:14
    5 |         with T.If(n > 1):
      |              ^^^^^^^^^^^
""",
    ),
    (
        "statement between T.If and T.Then",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        with T.If(n > 1):
            A[0, 0] = 1
            with T.Then():
                A[0, 0] = 2
""",
        """\
TileSyntaxError: a statement between T.If and T.Then
  expected: `with T.Then():` and `with T.Else():` only
 --> wrong.py:6:13
    6 |             A[0, 0] = 1
      |             ^^^^^^^^^^^
""",
    ),
    (
        "T.empty inside a kernel",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        B = T.empty((4,), 'float32')
""",
        """\
TileSyntaxError: T.empty inside a kernel
  hint: create outputs before `with T.Kernel(...)`; inside use T.alloc_*
 --> wrong.py:5:13
    5 |         B = T.empty((4,), 'float32')
      |             ^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "T.const in a prim_func",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        M = T.const('M')
""",
        """\
TileSyntaxError: T.const is used outside an eager kernel
  expected: a body of a function decorated with @tilelang.jit
  hint: in a prim_func use Python ints or T.dynamic
 --> wrong.py:5:13
    5 |         M = T.const('M')
      |             ^^^^^^^^^^^^
""",
    ),
    (
        "false assumption",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        T.assume(1 > 2)
""",
        """\
TileValueError: T.assume of a condition that is false
  expected: a condition that can hold
 --> wrong.py:5:9
    5 |         T.assume(1 > 2)
      |         ^^^^^^^^^^^^^^^
""",
    ),
    (
        "output that is not returned",
        """\
@T.prim_func
def f():
    C = T.empty((4,), 'float32')
    with T.Kernel(1):
        C[0] = 1
""",
        """\
TileRuntimeError: the output `C` of `f` is not returned
  hint: return every tensor made by T.empty; for scratch space use T.alloc_global inside the kernel
 --> wrong.py:4:9
    4 |     C = T.empty((4,), 'float32')
      |         ^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "input that is returned",
        """\
@T.prim_func
def f(A: T.Tensor((4,), 'float32')):
    with T.Kernel(1):
        A[0] = 1
    return A
""",
        """\
TileTypeError: `f` returns something that is not an output
  expected: tensors made by T.empty in this function
  got: the buffer `A`
 --> wrong.py:6:5
    6 |     return A
      |     ^^^^^^^^
""",
    ),
    (
        "empty without a shape",
        """\
@T.prim_func
def f():
    C = T.empty((), 'float32')
""",
        """\
TileValueError: T.empty needs at least one dimension
  expected: T.empty((M, N), dtype)
  hint: for one value use T.empty((1,), dtype)
 --> wrong.py:4:9
    4 |     C = T.empty((), 'float32')
      |         ^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "view of something that is not a pointer",
        """\
@T.prim_func
def f(p: T.ptr):
    A = T.make_tensor(1.5, (4,), 'float32')
""",
        """\
TileTypeError: T.make_tensor needs a pointer
  expected: a T.ptr parameter, an int64 address or an element of an address table
  got: 1.5
 --> wrong.py:4:9
    4 |     A = T.make_tensor(1.5, (4,), 'float32')
      |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "decorating a number",
        """\
T.prim_func(3)
""",
        """\
TileTypeError: T.prim_func decorates something that is not a function
  expected: a function written with `def`
  got: 3
 --> wrong.py:2:1
    2 | T.prim_func(3)
      | ^^^^^^^^^^^^^^
""",
    ),
    (
        "dynamic dimension of float dtype",
        """\
n = T.dynamic('n', 'float32')
""",
        """\
TileTypeError: a dimension must be an integer
  expected: int32 or int64
  got: float32
 --> wrong.py:2:5
    2 | n = T.dynamic('n', 'float32')
      |     ^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "dynamic dimension with a bad name",
        """\
n = T.dynamic('a-b')
""",
        """\
TileValueError: 'a-b' is not a name
  expected: an identifier
 --> wrong.py:2:5
    2 | n = T.dynamic('a-b')
      |     ^^^^^^^^^^^^^^^^
""",
    ),
    (
        "constant with two values",
        """\
from tilelang.language.v2.template import EagerFunc
import numpy as np
@EagerFunc
def f(A, B, k=1):
    M, N = T.const('M, N')
    A: T.Tensor[[M, N], T.float32]
    B: T.Tensor[[N, M], T.float32]
    with T.Kernel(1):
        B[0, 0] = A[0, 0] + k
f.specialise(np.zeros((4, 8), 'float32'), np.zeros((9, 4), 'float32'))
""",
        """\
TileValueError: the constant `N` has two values
  expected: 8 (`A`.shape[1])
  got: 9 (`B`.shape[0])
""",
    ),
    (
        "constant that is not given",
        """\
from tilelang.language.v2.template import EagerFunc
import numpy as np
@EagerFunc
def f(A, B, k=1):
    M, N = T.const('M, N')
    A: T.Tensor[[M, N], T.float32]
    B: T.Tensor[[N, M], T.float32]
    with T.Kernel(1):
        B[0, 0] = A[0, 0] + k
f.specialise(M=4)
""",
        """\
TileValueError: the constant `N` cannot be inferred
  expected: `N` alone as an extent or stride of an annotated tensor
  hint: annotate a tensor with it, or pass N=... by keyword
 --> wrong.py:6:12
    6 |     M, N = T.const('M, N')
      |            ^^^^^^^^^^^^^^^
""",
    ),
    (
        "argument of another dtype",
        """\
from tilelang.language.v2.template import EagerFunc
import numpy as np
@EagerFunc
def f(A, B, k=1):
    M, N = T.const('M, N')
    A: T.Tensor[[M, N], T.float32]
    B: T.Tensor[[N, M], T.float32]
    with T.Kernel(1):
        B[0, 0] = A[0, 0] + k
f.parse_key(np.zeros((4, 8), 'int32'), np.zeros((8, 4), 'float32'))
""",
        """\
ArgumentTypeError: Tensor dtype mismatch for argument `A`, expected float32, got int32
""",
    ),
    (
        "argument of another rank",
        """\
from tilelang.language.v2.template import EagerFunc
import numpy as np
@EagerFunc
def f(A, B, k=1):
    M, N = T.const('M, N')
    A: T.Tensor[[M, N], T.float32]
    B: T.Tensor[[N, M], T.float32]
    with T.Kernel(1):
        B[0, 0] = A[0, 0] + k
f.parse_key(np.zeros((4,), 'float32'), np.zeros((8, 4), 'float32'))
""",
        """\
KernelArgumentError: Tensor rank mismatch for argument `A`
  expected: 2 dimensions
  got: 1
""",
    ),
    (
        "argument that is not a tensor",
        """\
from tilelang.language.v2.template import EagerFunc
import numpy as np
@EagerFunc
def f(A, B, k=1):
    M, N = T.const('M, N')
    A: T.Tensor[[M, N], T.float32]
    B: T.Tensor[[N, M], T.float32]
    with T.Kernel(1):
        B[0, 0] = A[0, 0] + k
f.parse_key('A', np.zeros((8, 4), 'float32'))
""",
        """\
ArgumentTypeError: argument `A` is not a tensor
  expected: a torch tensor, a numpy array or another array with shape and dtype
  got: 'A' of type str
""",
    ),
    (
        "unknown keyword argument",
        """\
from tilelang.language.v2.template import EagerFunc
import numpy as np
@EagerFunc
def f(A, B, k=1):
    M, N = T.const('M, N')
    A: T.Tensor[[M, N], T.float32]
    B: T.Tensor[[N, M], T.float32]
    with T.Kernel(1):
        B[0, 0] = A[0, 0] + k
f.specialise(M=4, N=8, Q=3)
""",
        """\
ArgumentTypeError: unexpected argument `Q`
  expected: (A, B, k) or a constant of T.const
""",
    ),
    (
        "too many arguments",
        """\
from tilelang.language.v2.template import EagerFunc
import numpy as np
@EagerFunc
def f(A, B, k=1):
    M, N = T.const('M, N')
    A: T.Tensor[[M, N], T.float32]
    B: T.Tensor[[N, M], T.float32]
    with T.Kernel(1):
        B[0, 0] = A[0, 0] + k
f.parse_key(1, 2, 3, 4)
""",
        """\
ArgumentCountError: too many arguments
  expected: 3 (A, B, k)
  got: 4
""",
    ),
    (
        "missing compile-time argument",
        """\
from tilelang.language.v2.template import EagerFunc
import numpy as np
@EagerFunc
def f(A: T.Tensor[[int, 8], T.float32], k):
    with T.Kernel(1):
        A[0, 0] = k
f.specialise(np.zeros((4, 8), 'float32'))
""",
        """\
ArgumentTypeError: missing argument `k`
  expected: (A, k)
""",
    ),
    (
        "missing tensor argument",
        """\
from tilelang.language.v2.template import EagerFunc
import numpy as np
@EagerFunc
def f(A: T.Tensor[[int, 8], T.float32], k):
    with T.Kernel(1):
        A[0, 0] = k
f.specialise(k=1)
""",
        """\
ArgumentTypeError: missing argument `A`
  expected: (A, k)
""",
    ),
    (
        "compile-time argument that cannot be hashed",
        """\
from tilelang.language.v2.template import EagerFunc
import numpy as np
@EagerFunc
def f(A: T.Tensor[[int, 8], T.float32], k):
    with T.Kernel(1):
        A[0, 0] = k
f.parse_key(np.zeros((4, 8), 'float32'), np.zeros(3))
""",
        """\
TileTypeError: a value of type ndarray cannot be a compile-time argument: `k`
  expected: a hashable value, or a list, tuple, dict or set of such values
  got: array([0., 0., 0.])
  hint: a tensor needs an annotation: T.Tensor[[...], dtype]
""",
    ),
    (
        "placeholder with unknown extent",
        """\
from tilelang.language.v2.template import EagerFunc
import numpy as np
@EagerFunc
def f(A: T.Tensor[[int, 8], T.float32], k):
    with T.Kernel(1):
        A[0, 0] = k
f.parse_key(T.Tensor((int, 8), 'float32'), 3)
""",
        """\
TileValueError: the placeholder dimension $ is not a number
  expected: a placeholder with constant extents, e.g. T.Tensor((1024, 512), dtype)
""",
    ),
    (
        "inconsistent strides",
        """\
T.StridedTensor[[4, 4], [4], T.float32]
""",
        """\
TileValueError: a strided tensor has a different number of extents and strides
  expected: 2 strides
  got: 1
 --> wrong.py:2:1
    2 | T.StridedTensor[[4, 4], [4], T.float32]
      | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "unknown word of the language",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        T.evaluat(n)
""",
        """\
TileNameError: T has no `evaluat`
  hint: did you mean `evaluate`?
 --> wrong.py:5:9
    5 |         T.evaluat(n)
      |         ^^^^^^^^^
""",
    ),
    (
        "unknown attribute of a buffer",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        x = A.shap[0]
""",
        """\
TileNameError: the buffer `A` has no `shap`
  hint: did you mean `shape`?
 --> wrong.py:5:13
    5 |         x = A.shap[0]
      |             ^^^^^^
""",
    ),
    (
        "wrong option of a word",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        T.use_swizzle(4, direction='row')
""",
        """\
TileTypeError: use_swizzle() got an unexpected keyword argument 'direction'
  expected: use_swizzle(panel_size, order, enable)
 --> wrong.py:5:9
    5 |         T.use_swizzle(4, direction='row')
      |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "wrong option of an instruction",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32')):
    with T.Kernel(1, threads=32) as bx:
        b = T.alloc_barrier(1)
        T.mbarrier_arrive(b, foo=2)
""",
        """\
TileTypeError: T.mbarrier_arrive: got an unexpected keyword argument 'foo'
  expected: (mbarrier, cta_id)
  got: (b, foo=2)
 --> wrong.py:6:9
    6 |         T.mbarrier_arrive(b, foo=2)
      |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
    (
        "missing argument of a word",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        T.evaluate()
""",
        """\
TileTypeError: evaluate() missing 1 required positional argument: 'value'
  expected: evaluate(value)
 --> wrong.py:5:9
    5 |         T.evaluate()
      |         ^^^^^^^^^^^^
""",
    ),
    (
        "fibonacci on immutable values",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        a, b = A[0, 0], A[0, 1]
        for i in range(4):
            a, b = b, a + b
""",
        """\
TileNameError: the immutable value `a` is updated in a loop
  expected: a variable made by T.alloc_var
  got: `a` bound outside the loop
  hint: declare `a = T.alloc_var(dtype, init)` before the loop
 --> wrong.py:7:13
    7 |             a, b = b, a + b
      |             ^^^^^^^^^^^^^^^
""",
    ),
    (
        "unknown name in a comprehension",
        """\
@T.prim_func
def f(A: T.Tensor((8, 4), 'float32'), n: T.int32):
    with T.Kernel(1, threads=32) as bx:
        x = [lenghts[i] for i in range(3)]
""",
        """\
TileNameError: the name `lenghts` is not defined
 --> wrong.py:5:14
    5 |         x = [lenghts[i] for i in range(3)]
      |              ^^^^^^^
""",
    ),
    (
        "float extent in a text annotation",
        """\
@T.prim_func
def f(A: "T.Tensor((8 / 2,), T.float32)"):
    pass
""",
        """\
TileTypeError: this is not a dimension
  expected: an int, `int`, `Any`, T.dyn, T.dyn["name"], T.dynamic("name") or an expression of symbols
  got: 4.0
  hint: use `//` for integer division
 --> wrong.py:3:7
    3 | def f(A: "T.Tensor((8 / 2,), T.float32)"):
      |       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
""",
    ),
]


@pytest.mark.parametrize(
    ("program", "text"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_the_error_of(program: str, text: str) -> None:
    assert error_of(program.rstrip("\n")) == text.rstrip("\n")


def test_there_are_many_and_each_is_said_once() -> None:
    assert len(CASES) >= 60
    assert len({program for _, program, _ in CASES}) == len(CASES)
