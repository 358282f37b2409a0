"""Programs of `bench/cpu_programs.py` whose speed is that of memory: elements, rows, columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from cpu_cases import SIZE, Case, case, compiled, numba_loop, random, relative

import tilelang.language as T

KINDS = ("float32", "float16", "bfloat16", "int32", "int8")


def add_program(M: int, N: int, dtype: str, block_M: int = 64, block_N: int = 64) -> Any:
    """C = A + B through tiles."""

    @T.prim_func
    def add(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            a = T.alloc_shared((block_M, block_N), dtype)
            b = T.alloc_shared((block_M, block_N), dtype)
            c = T.alloc_fragment((block_M, block_N), dtype)
            T.copy(A[by * block_M, bx * block_N], a)
            T.copy(B[by * block_M, bx * block_N], b)
            for i, j in T.Parallel(block_M, block_N):
                c[i, j] = a[i, j] + b[i, j]
            T.copy(c, C[by * block_M, bx * block_N])

    return compiled(add)


def add_case(dtype: str) -> Case:
    """Addition in one dtype."""
    A, B = random((SIZE, SIZE), dtype, 0), random((SIZE, SIZE), dtype, 1)
    C, out = torch.empty_like(A), torch.empty_like(A)
    kernel = add_program(SIZE, SIZE, dtype)
    others = {"torch": lambda: torch.add(A, B, out=out)}
    if dtype != "bfloat16":
        a, b, c = A.numpy(), B.numpy(), out.numpy()
        others["numpy"] = lambda: np.add(a, b, out=c)
        if dtype == "float32":
            others |= numba_loop("add", a, b, c)
    moved = 3 * A.nbytes
    return Case(lambda: kernel(A, B, C), others, lambda: relative(C, A + B), moved, SIZE * SIZE)


for _kind in KINDS:
    case(f"add {_kind}")(lambda kind=_kind: add_case(kind))


def row_program(M: int, N: int, dtype: str, body: Any, inputs: int = 1, rows: int = 4) -> Any:
    """Y = body(X ...) for tiles of whole rows; the tiles are float32."""
    tensor, block = T.Tensor((M, N), dtype), rows

    if inputs == 1:

        @T.prim_func
        def over_rows(X: tensor, Y: tensor):
            with T.Kernel(T.ceildiv(M, block), threads=128) as b:
                x = T.alloc_fragment((block, N), "float32")
                T.copy(X[b * block, 0], x)
                body(x)
                T.copy(x, Y[b * block, 0])

        return compiled(over_rows)

    @T.prim_func
    def over_rows_of_two(X: tensor, G: tensor, Y: tensor):
        with T.Kernel(T.ceildiv(M, block), threads=128) as b:
            x = T.alloc_fragment((block, N), "float32")
            g = T.alloc_fragment((block, N), "float32")
            T.copy(X[b * block, 0], x)
            T.copy(G[b * block, 0], g)
            body(x, g)
            T.copy(x, Y[b * block, 0])

    return compiled(over_rows_of_two)


@T.macro
def softmax_rows(x):
    """x becomes its softmax along rows."""
    top = T.alloc_fragment((4,), "float32")
    total = T.alloc_fragment((4,), "float32")
    T.reduce_max(x, top, dim=1)
    for i, j in T.Parallel(4, SIZE):
        x[i, j] = T.exp(x[i, j] - top[i])
    T.reduce_sum(x, total, dim=1)
    for i, j in T.Parallel(4, SIZE):
        x[i, j] = x[i, j] / total[i]


@T.macro
def layernorm_rows(x):
    """x becomes (x - mean) / sqrt(variance + eps) along rows."""
    mean = T.alloc_fragment((4,), "float32")
    square = T.alloc_fragment((4, SIZE), "float32")
    var = T.alloc_fragment((4,), "float32")
    T.reduce_sum(x, mean, dim=1)
    for i, j in T.Parallel(4, SIZE):
        x[i, j] = x[i, j] - mean[i] / SIZE
    for i, j in T.Parallel(4, SIZE):
        square[i, j] = x[i, j] * x[i, j]
    T.reduce_sum(square, var, dim=1)
    for i, j in T.Parallel(4, SIZE):
        x[i, j] = x[i, j] * T.rsqrt(var[i] / SIZE + 1e-5)


@T.macro
def rmsnorm_rows(x):
    """x becomes x / sqrt(mean of squares + eps) along rows."""
    square = T.alloc_fragment((4, SIZE), "float32")
    power = T.alloc_fragment((4,), "float32")
    for i, j in T.Parallel(4, SIZE):
        square[i, j] = x[i, j] * x[i, j]
    T.reduce_sum(square, power, dim=1)
    for i, j in T.Parallel(4, SIZE):
        x[i, j] = x[i, j] * T.rsqrt(power[i] / SIZE + 1e-5)


@T.macro
def gelu_rows(x):
    """The exact GELU."""
    for i, j in T.Parallel(4, SIZE):
        x[i, j] = 0.5 * x[i, j] * (1.0 + T.erf(x[i, j] * 0.7071067811865476))


@T.macro
def rmsnorm_backward_rows(x, g):
    """x becomes the gradient of its RMS norm for the gradient g of the result."""
    square = T.alloc_fragment((4, SIZE), "float32")
    dot = T.alloc_fragment((4, SIZE), "float32")
    power = T.alloc_fragment((4,), "float32")
    along = T.alloc_fragment((4,), "float32")
    for i, j in T.Parallel(4, SIZE):
        square[i, j] = x[i, j] * x[i, j]
    for i, j in T.Parallel(4, SIZE):
        dot[i, j] = x[i, j] * g[i, j]
    T.reduce_sum(square, power, dim=1)
    T.reduce_sum(dot, along, dim=1)
    for i in T.Parallel(4):
        power[i] = T.rsqrt(power[i] / SIZE + 1e-5)
    for i, j in T.Parallel(4, SIZE):
        x[i, j] = power[i] * (g[i, j] - x[i, j] * power[i] * power[i] * along[i] / SIZE)


@T.macro
def layernorm_backward_rows(x, g):
    """x becomes the gradient of its layer norm for the gradient g of the result."""
    square = T.alloc_fragment((4, SIZE), "float32")
    dot = T.alloc_fragment((4, SIZE), "float32")
    mean = T.alloc_fragment((4,), "float32")
    var = T.alloc_fragment((4,), "float32")
    gain = T.alloc_fragment((4,), "float32")
    along = T.alloc_fragment((4,), "float32")
    T.reduce_sum(x, mean, dim=1)
    for i, j in T.Parallel(4, SIZE):
        x[i, j] = x[i, j] - mean[i] / SIZE
    for i, j in T.Parallel(4, SIZE):
        square[i, j] = x[i, j] * x[i, j]
    for i, j in T.Parallel(4, SIZE):
        dot[i, j] = x[i, j] * g[i, j]
    T.reduce_sum(square, var, dim=1)
    T.reduce_sum(dot, along, dim=1)
    T.reduce_sum(g, gain, dim=1)
    for i in T.Parallel(4):
        var[i] = T.rsqrt(var[i] / SIZE + 1e-5)
    for i, j in T.Parallel(4, SIZE):
        x[i, j] = var[i] * (g[i, j] - gain[i] / SIZE - x[i, j] * var[i] * var[i] * along[i] / SIZE)


FORWARD = {
    "softmax": (softmax_rows, lambda x: F.softmax(x, -1)),
    "layernorm": (layernorm_rows, lambda x: F.layer_norm(x, (SIZE,))),
    "rmsnorm": (rmsnorm_rows, lambda x: F.rms_norm(x, (SIZE,), eps=1e-5)),
    "gelu": (gelu_rows, F.gelu),
}


def forward_case(name: str, dtype: str) -> Case:
    """One of FORWARD in one dtype."""
    body, reference = FORWARD[name]
    X = random((SIZE, SIZE), dtype, 0)
    Y = torch.empty_like(X)
    kernel = row_program(SIZE, SIZE, dtype, body)
    others = {"torch": lambda: reference(X)}
    if name == "softmax" and dtype == "float32":
        x = X.numpy()

        def with_numpy() -> Any:
            e = np.exp(x - x.max(axis=1, keepdims=True))
            return e / e.sum(axis=1, keepdims=True)

        others["numpy"] = with_numpy
        others |= numba_loop("softmax", x, np.empty_like(x))
    check = lambda: relative(Y, reference(X.float()))  # noqa: E731
    return Case(lambda: kernel(X, Y), others, check, 2 * X.nbytes, 5 * X.numel())


for _name in FORWARD:
    for _kind in ("float32", "float16", "bfloat16") if _name == "softmax" else ("float32",):
        case(f"{_name} {_kind}")(lambda name=_name, kind=_kind: forward_case(name, kind))


def backward_case(body: Any, reference: Any) -> Case:
    """The gradient of a norm of rows beside that of torch; only backward is timed."""
    X, G = random((SIZE, SIZE), "float32", 0), random((SIZE, SIZE), "float32", 1)
    Y = torch.empty_like(X)
    kernel = row_program(SIZE, SIZE, "float32", body, inputs=2)
    leaf = X.clone().requires_grad_()
    result = reference(leaf)

    def gradient() -> Any:
        return torch.autograd.grad(result, leaf, G, retain_graph=True)[0]

    check = lambda: relative(Y, gradient())  # noqa: E731
    return Case(lambda: kernel(X, G, Y), {"torch": gradient}, check, 3 * X.nbytes, 9 * X.numel())


case("rmsnorm backward")(lambda: backward_case(rmsnorm_backward_rows, FORWARD["rmsnorm"][1]))
case("layernorm backward")(lambda: backward_case(layernorm_backward_rows, FORWARD["layernorm"][1]))


@case("outer sum float32")
def outer_sum() -> Case:
    """C[i, j] = A[i] + B[j]."""
    M, N, block = SIZE, SIZE, 64

    @T.prim_func
    def outer(A: T.Tensor((M,), "float32"), B: T.Tensor((N,), "float32"),
              C: T.Tensor((M, N), "float32")):  # fmt: skip
        with T.Kernel(N // block, M // block, threads=128) as (bx, by):
            a = T.alloc_shared((block,), "float32")
            b = T.alloc_shared((block,), "float32")
            c = T.alloc_fragment((block, block), "float32")
            T.copy(A[by * block], a)
            T.copy(B[bx * block], b)
            for i, j in T.Parallel(block, block):
                c[i, j] = a[i] + b[j]
            T.copy(c, C[by * block, bx * block])

    kernel = compiled(outer)
    A, B = random((M,), "float32", 0), random((N,), "float32", 1)
    C, out = torch.empty(M, N), torch.empty(M, N)
    a, b, c = A.numpy(), B.numpy(), out.numpy()
    others = {
        "torch": lambda: torch.add(A[:, None], B[None], out=out),
        "numpy": lambda: np.add.outer(a, b, out=c),
    }
    check = lambda: relative(C, A[:, None] + B[None])  # noqa: E731
    return Case(lambda: kernel(A, B, C), others, check, C.nbytes, M * N)


@case("transpose float32")
def transpose() -> Case:
    """B = A.T through tiles of 64 x 64."""
    M, N, block = SIZE, SIZE, 64

    @T.prim_func
    def turn(A: T.Tensor((M, N), "float32"), B: T.Tensor((N, M), "float32")):
        with T.Kernel(N // block, M // block, threads=128) as (bx, by):
            a = T.alloc_shared((block, block), "float32")
            b = T.alloc_fragment((block, block), "float32")
            T.copy(A[by * block, bx * block], a)
            for i, j in T.Parallel(block, block):
                b[i, j] = a[j, i]
            T.copy(b, B[bx * block, by * block])

    kernel = compiled(turn)
    A = random((M, N), "float32", 0)
    B, out = torch.empty(N, M), torch.empty(N, M)
    a, b = A.numpy(), out.numpy()
    others = {
        "torch": lambda: out.copy_(A.t()),
        "numpy": lambda: np.copyto(b, a.T),
    }
    return Case(lambda: kernel(A, B), others, lambda: relative(B, A.t()), 2 * A.nbytes)


def reduction_case(dtype: str, kind: str, columns: bool) -> Case:
    """Rows or columns of a matrix summed, or their largest elements."""
    N, block = SIZE, 64 if columns else 4
    word = T.reduce_sum if kind == "sum" else T.reduce_max

    @T.prim_func
    def by_rows(A: T.Tensor((N, N), dtype), B: T.Tensor((N,), dtype)):
        with T.Kernel(N // block, threads=128) as b:
            a = T.alloc_fragment((block, N), dtype)
            s = T.alloc_fragment((block,), dtype)
            T.copy(A[b * block, 0], a)
            word(a, s, dim=1)
            T.copy(s, B[b * block])

    @T.prim_func
    def by_columns(A: T.Tensor((N, N), dtype), B: T.Tensor((N,), dtype)):
        with T.Kernel(N // block, threads=128) as b:
            a = T.alloc_shared((block, block), dtype)
            s = T.alloc_fragment((block,), dtype)
            T.clear(s)
            for k in T.serial(N // block):
                T.copy(A[k * block, b * block], a)
                word(a, s, dim=0, clear=False)
            T.copy(s, B[b * block])

    kernel = compiled(by_columns if columns else by_rows)
    A, axis = random((N, N), dtype, 0), 0 if columns else 1
    B = torch.empty(N, dtype=A.dtype)
    named = torch.sum if kind == "sum" else torch.amax
    others = {"torch": lambda: named(A, axis)}
    if dtype == "float32":
        a, pick = A.numpy(), np.sum if kind == "sum" else np.max
        others["numpy"] = lambda: pick(a, axis=axis)
    check = lambda: relative(B, named(A.float(), axis))  # noqa: E731
    return Case(lambda: kernel(A, B), others, check, A.nbytes, A.numel())


for _kind in ("float32", "float16", "bfloat16"):
    case(f"row sum {_kind}")(lambda kind=_kind: reduction_case(kind, "sum", False))
case("row max float32")(lambda: reduction_case("float32", "max", False))
case("column sum float32")(lambda: reduction_case("float32", "sum", True))


@case("running sum float32")
def running_sum() -> Case:
    """T.cumsum of whole rows."""
    N, rows = SIZE, 4

    @T.prim_func
    def scan(X: T.Tensor((N, N), "float32"), Y: T.Tensor((N, N), "float32")):
        with T.Kernel(N // rows, threads=128) as b:
            x = T.alloc_shared((rows, N), "float32")
            T.copy(X[b * rows, 0], x)
            T.cumsum(x, dim=1)
            T.copy(x, Y[b * rows, 0])

    kernel = compiled(scan)
    X = random((N, N), "float32", 0)
    Y, out = torch.empty_like(X), torch.empty_like(X)
    x, y = X.numpy(), out.numpy()
    others = {
        "torch": lambda: torch.cumsum(X, 1, out=out),
        "numpy": lambda: np.cumsum(x, axis=1, out=y),
    }
    check = lambda: relative(Y, torch.cumsum(X.double(), 1))  # noqa: E731
    return Case(lambda: kernel(X, Y), others, check, 2 * X.nbytes, X.numel())


@case("dropout float32")
def dropout() -> Case:
    """Y = X / keep where the byte of the mask is set, else 0."""
    M, N, block, keep = SIZE, SIZE, 64, 0.875

    @T.prim_func
    def drop(X: T.Tensor((M, N), "float32"), K: T.Tensor((M, N), "uint8"),
             Y: T.Tensor((M, N), "float32")):  # fmt: skip
        with T.Kernel(N // block, M // block, threads=128) as (bx, by):
            x = T.alloc_fragment((block, block), "float32")
            k = T.alloc_fragment((block, block), "uint8")
            T.copy(X[by * block, bx * block], x)
            T.copy(K[by * block, bx * block], k)
            for i, j in T.Parallel(block, block):
                x[i, j] = T.if_then_else(k[i, j] != 0, x[i, j] * (1 / keep), 0.0)
            T.copy(x, Y[by * block, bx * block])

    kernel = compiled(drop)
    X = random((M, N), "float32", 0)
    kept = torch.rand(M, N, generator=torch.Generator().manual_seed(1)) < keep
    K, Y = kept.to(torch.uint8), torch.empty_like(X)

    def with_torch() -> Any:
        return torch.where(kept, X * (1 / keep), 0.0)

    check = lambda: relative(Y, with_torch())  # noqa: E731
    others = {"torch": with_torch}
    return Case(lambda: kernel(X, K, Y), others, check, 2 * X.nbytes + K.nbytes, X.numel())


@case("top 8 of 256")
def top_k() -> Case:
    """The eight largest of each row, one after the other."""
    M, N, k, rows = SIZE, 256, 8, 16

    @T.prim_func
    def largest(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, k), "float32")):
        with T.Kernel(M // rows, threads=128) as b:
            x = T.alloc_fragment((rows, N), "float32")
            top = T.alloc_fragment((rows,), "float32")
            T.copy(X[b * rows, 0], x)
            for n in T.serial(k):
                T.reduce_max(x, top, dim=1)
                for i, j in T.Parallel(rows, N):
                    x[i, j] = T.if_then_else(x[i, j] >= top[i], -3.0e38, x[i, j])
                for i in T.Parallel(rows):
                    Y[b * rows + i, n] = top[i]

    kernel = compiled(largest)
    X, Y = random((M, N), "float32", 0), torch.empty(M, k)
    others = {"torch": lambda: torch.topk(X, k)}
    check = lambda: relative(Y, torch.topk(X, k).values)  # noqa: E731
    return Case(lambda: kernel(X, Y), others, check, X.nbytes)


@case("histogram of bytes")
def histogram() -> Case:
    """How often each byte occurs in four million."""
    count, block = SIZE * SIZE, SIZE * 64

    @T.prim_func
    def count_bytes(X: T.Tensor((count,), "uint8"), H: T.Tensor((256,), "int32")):
        with T.Kernel(count // block, threads=128) as b:
            own = T.alloc_shared((256,), "int32")
            T.clear(own)
            for i in T.Parallel(block):
                T.atomic_add(own[T.cast(X[b * block + i], "int32")], 1)
            for i in T.Parallel(256):
                T.atomic_add(H[i], own[i])

    kernel = compiled(count_bytes)
    X = torch.randint(0, 256, (count,), dtype=torch.uint8)
    H = torch.zeros(256, dtype=torch.int32)

    def ours() -> None:
        H.zero_()
        kernel(X, H)

    x = X.numpy()
    others = {"torch": lambda: torch.bincount(X, minlength=256),
              "numpy": lambda: np.bincount(x, minlength=256)}  # fmt: skip
    check = lambda: relative(H, torch.bincount(X, minlength=256))  # noqa: E731
    return Case(ours, others, check, X.nbytes)


@case("quantise to float8")
def quantise() -> Case:
    """Rows scaled to the range of float8_e4m3fn, and their scales."""
    N, rows = SIZE, 4

    @T.prim_func
    def to_float8(X: T.Tensor((N, N), "float32"), Q: T.Tensor((N, N), "float8_e4m3fn"),
                  S: T.Tensor((N,), "float32")):  # fmt: skip
        with T.Kernel(N // rows, threads=128) as b:
            x = T.alloc_fragment((rows, N), "float32")
            q = T.alloc_fragment((rows, N), "float8_e4m3fn")
            s = T.alloc_fragment((rows,), "float32")
            T.copy(X[b * rows, 0], x)
            T.reduce_absmax(x, s, dim=1)
            for i in T.Parallel(rows):
                s[i] = s[i] / 448.0
            for i, j in T.Parallel(rows, N):
                q[i, j] = T.cast(x[i, j] / s[i], "float8_e4m3fn")
            T.copy(q, Q[b * rows, 0])
            T.copy(s, S[b * rows])

    kernel = compiled(to_float8)
    X = random((N, N), "float32", 0)
    Q, S = torch.empty(N, N, dtype=torch.float8_e4m3fn), torch.empty(N)

    def with_torch() -> Any:
        scale = X.abs().amax(1, keepdim=True) / 448.0
        return (X / scale).to(torch.float8_e4m3fn), scale

    check = lambda: relative(Q.float(), with_torch()[0].float())  # noqa: E731
    return Case(lambda: kernel(X, Q, S), {"torch": with_torch}, check, X.nbytes + Q.nbytes)


@case("every second float32")
def every_second() -> Case:
    """B = A[:, ::2] through tiles."""
    M, N, block = SIZE, SIZE, 64

    @T.prim_func
    def every(A: T.Tensor((M, 2 * N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(N // block, M // block, threads=128) as (bx, by):
            b = T.alloc_fragment((block, block), "float32")
            for i, j in T.Parallel(block, block):
                b[i, j] = A[by * block + i, 2 * (bx * block + j)]
            T.copy(b, B[by * block, bx * block])

    kernel = compiled(every)
    A = random((M, 2 * N), "float32", 0)
    B, out = torch.empty(M, N), torch.empty(M, N)
    a, b = A.numpy(), out.numpy()
    others = {"torch": lambda: out.copy_(A[:, ::2]), "numpy": lambda: np.copyto(b, a[:, ::2])}
    return Case(lambda: kernel(A, B), others, lambda: relative(B, A[:, ::2]), A.nbytes + B.nbytes)


@case("sums of pairs float32")
def pair_sums() -> Case:
    """B[i, j] = A[i, 2 j] + A[i, 2 j + 1] through tiles."""
    M, N, block = SIZE, SIZE, 64

    @T.prim_func
    def pairs(A: T.Tensor((M, 2 * N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(N // block, M // block, threads=128) as (bx, by):
            a = T.alloc_shared((block, 2 * block), "float32")
            b = T.alloc_fragment((block, block), "float32")
            T.copy(A[by * block, 2 * bx * block], a)
            for i, j in T.Parallel(block, block):
                b[i, j] = a[i, 2 * j] + a[i, 2 * j + 1]
            T.copy(b, B[by * block, bx * block])

    kernel = compiled(pairs)
    A = random((M, 2 * N), "float32", 0)
    B, out = torch.empty(M, N), torch.empty(M, N)
    a, b = A.numpy(), out.numpy()
    others = {
        "torch": lambda: torch.add(A[:, ::2], A[:, 1::2], out=out),
        "numpy": lambda: np.add(a[:, ::2], a[:, 1::2], out=b),
    }

    def check() -> float:
        return relative(B, A[:, ::2] + A[:, 1::2])

    return Case(lambda: kernel(A, B), others, check, A.nbytes + B.nbytes)


def depthwise_case(taps: int, last: bool) -> Case:
    """A convolution of each channel with its own weights; channels are the first or the last
    dimension of a picture."""
    count, size, channels = 8, 56, 128
    out = size - taps + 1

    @T.prim_func
    def first_dimension(X: T.Tensor((count, channels, size, size), "float32"),
                        W: T.Tensor((channels, taps, taps), "float32"),
                        Y: T.Tensor((count, channels, out, out), "float32")):  # fmt: skip
        with T.Kernel(channels, count, threads=128) as (c, n):
            y = T.alloc_fragment((out, out), "float32")
            T.clear(y)
            for r, s in T.grid(taps, taps):
                for i, j in T.Parallel(out, out):
                    y[i, j] += X[n, c, i + r, j + s] * W[c, r, s]
            T.copy(y, Y[n, c, 0, 0])

    @T.prim_func
    def last_dimension(X: T.Tensor((count, size, size, channels), "float32"),
                       W: T.Tensor((taps, taps, channels), "float32"),
                       Y: T.Tensor((count, out, out, channels), "float32")):  # fmt: skip
        with T.Kernel(out, count, threads=128) as (i, n):
            y = T.alloc_fragment((out, channels), "float32")
            T.clear(y)
            for r, s in T.grid(taps, taps):
                for j, c in T.Parallel(out, channels):
                    y[j, c] += X[n, i + r, j + s, c] * W[r, s, c]
            T.copy(y, Y[n, i, 0, 0])

    kernel = compiled(last_dimension if last else first_dimension)
    X, W = (
        random((count, channels, size, size), "float32", 0),
        random((channels, taps, taps), "float32", 1),
    )
    Y, order = torch.empty(count, channels, out, out), torch.contiguous_format
    x, w, y = X, W, Y
    if last:
        order = torch.channels_last
        x, w, y = (
            X.permute(0, 2, 3, 1).contiguous(),
            W.permute(1, 2, 0).contiguous(),
            Y.permute(0, 2, 3, 1).contiguous(),
        )
    theirs, weights = X.contiguous(memory_format=order), W[:, None].contiguous(memory_format=order)

    def with_torch() -> Any:
        return F.conv2d(theirs, weights, groups=channels)

    def check() -> float:
        wanted = F.conv2d(X.double(), W[:, None].double(), groups=channels)
        return relative(y.permute(0, 3, 1, 2) if last else y, wanted)

    flops = 2 * Y.numel() * taps**2
    return Case(lambda: kernel(x, w, y), {"torch": with_torch}, check, X.nbytes + Y.nbytes, flops)


for _taps in (3, 5):
    for _last in (False, True):
        _name = f"depthwise {_taps}x{_taps}{', channels last' if _last else ''}"
        case(_name)(lambda taps=_taps, last=_last: depthwise_case(taps, last))
