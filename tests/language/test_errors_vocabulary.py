"""Wrong uses of the vocabulary: each says what is wrong, what would be right and what to do."""

# ruff: noqa: E501  # expected texts and the programs that cause them are one line each
from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from vocabulary import buf, emitted, frag, shared

import tilelang.language as T
from tilelang.errors import (
    JITNoBuilderError,
    TileError,
    TileIndexError,
    TileTypeError,
    TileUnsupportedError,
    TileValueError,
)
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import BufferHints
from tilelang.layout import Layout

A = buf("A", (128, 64), "float16")
A1 = buf("A1", (256,), "float16")
S = shared("S", (128, 64))
S2 = shared("S2", (64, 128))
F = frag("F", (128, 64))
ROWS = frag("ROWS", (128,))
C = frag("C", (128, 128))
INTS = frag("INTS", (128, 64), "int32")
N = buf("N", (8,), "int32")
BAR = buf("BAR", (2,), "uint64", "shared.barrier")
TMEM = buf("TMEM", (128, 64), "float32", "shared.tmem")
V = buf("V", (16,), "float16x2")
RED = Buffer(
    "RED",
    Shape((8,)),
    DType("float32"),
    "local.fragment",
    attrs=BufferHints(reducer=("sum", "none")),
)
m = T.dynamic("m")
x = T.int32()
f = T.float32()
LAYOUT = Layout((128, 64), lambda i, j: i * 64 + j)

CASES: list[tuple[str, Callable[[], Any], type[TileError], str]] = [
    (
        "copy-of-a-number",
        lambda: T.copy(3, S),
        TileTypeError,
        "the source of T.copy is not a buffer\n"
        "  expected: a buffer, a region such as A[0:64, k] or an element such as A[i, j]\n"
        "  got: 3",
    ),
    (
        "copy-of-different-shapes",
        lambda: T.copy(A, S2),
        TileValueError,
        "the buffers of T.copy have different shapes\n"
        "  expected: `S2` of shape (128, 64), as `A`\n"
        "  got: shape (64, 128)\n"
        "  hint: say where the tile starts, e.g. A[0, 0], or use slices",
    ),
    (
        "copy-with-too-many-dimensions",
        lambda: T.copy(A1[0], S),
        TileIndexError,
        "the tile of T.copy has more dimensions than `A1`\n"
        "  expected: at most 1 dimension larger than 1, as `A1[0]`\n"
        "  got: `S` with extents (128, 64)",
    ),
    (
        "copy-with-different-numbers-of-extents",
        lambda: T.copy(A[0, :], S[:, :]),
        TileValueError,
        "the operands of T.copy have different numbers of dimensions larger than 1\n"
        "  expected: extents that match (1, 64) of `A[0, 0:64]`\n"
        "  got: (128, 64) of `S`",
    ),
    (
        "copy-outside-a-shared-tile",
        lambda: T.copy(A, S[64, 0]),
        TileIndexError,
        "the tile of T.copy does not fit into `S`\n"
        "  expected: at most 128 elements in dimension 0\n"
        "  got: elements 64 to 191",
    ),
    (
        "copy-of-a-barrier",
        lambda: T.copy(BAR, buf("W", (2,), "uint64")),
        TileTypeError,
        "the source of T.copy does not hold numbers\n"
        "  expected: a tile in global, shared, fragment or local memory\n"
        "  got: `BAR`, uint64 in shared.barrier memory",
    ),
    (
        "copy-of-vectors-to-scalars",
        lambda: T.copy(V, buf("W", (16,), "float16")),
        TileTypeError,
        "the elements of T.copy have different lanes\n"
        "  expected: 2 lanes, as `V` of dtype float16x2\n"
        "  got: `W` of dtype float16",
    ),
    (
        "copy-with-unknown-eviction",
        lambda: T.copy(A, S, eviction_policy="never"),
        TileValueError,
        "the eviction_policy of T.copy is unknown\n"
        "  expected: 'evict_normal', 'evict_first', 'evict_last'\n"
        "  got: 'never'",
    ),
    (
        "copy-with-unknown-instruction",
        lambda: T.copy(A, S, prefer_instruction="dma"),
        TileValueError,
        "the prefer_instruction of T.copy is unknown\n"
        "  expected: 'tma', 'cp_async', 'sync'\n"
        "  got: 'dma'",
    ),
    (
        "copy-with-a-plain-layout",
        lambda: T.copy(A, S, loop_layout=LAYOUT),
        TileTypeError,
        "the loop_layout of T.copy is not a fragment layout\n"
        "  expected: a T.Fragment\n"
        "  got: Layout((128, 64) -> (8192,), (i0, i1) -> (i0 * 64 + i1))",
    ),
    (
        "bulk-load-without-barrier",
        lambda: T.tma_copy(A, S),
        TileValueError,
        "T.tma_copy into shared memory has no barrier\n"
        "  expected: barrier=bar[i] with bar = T.alloc_barrier(...)\n"
        "  hint: use T.copy when the copy should be complete at once",
    ),
    (
        "bulk-load-with-a-tensor-as-barrier",
        lambda: T.tma_copy(A, S, barrier=N[0]),
        TileTypeError,
        "the barrier of T.tma_copy is not a barrier\n"
        "  expected: an element of T.alloc_barrier, e.g. bar[0]\n"
        "  got: `N[0]`",
    ),
    (
        "transpose-to-the-wrong-shape",
        lambda: T.transpose(A, S),
        TileValueError,
        "the destination of T.transpose has the wrong shape\n"
        "  expected: (64, 128), the transpose of `A`\n"
        "  got: (128, 64) of `S`",
    ),
    (
        "transpose-of-a-row",
        lambda: T.transpose(A1, ROWS),
        TileValueError,
        "T.transpose of a tile with one dimension\n  expected: two or more dimensions\n  got: `A1`",
    ),
    (
        "im2col-of-a-matrix",
        lambda: T.im2col(A, S, 0, 0, 3, 1, 1, 1),
        TileValueError,
        "the image of T.im2col is not a whole NHWC buffer\n  expected: 4 dimensions\n  got: `A`",
    ),
    (
        "im2col-with-another-dtype",
        lambda: T.im2col(buf("I", (1, 8, 8, 4), "float32"), S, 0, 0, 3, 1, 1, 1),
        TileTypeError,
        "image and column tile of T.im2col have different dtypes\n"
        "  expected: float32\n"
        "  got: float16",
    ),
    (
        "im2col-with-a-run-time-kernel",
        lambda: T.im2col(buf("I", (1, 8, 8, 4), "float16"), S, 0, 0, x, 1, 1, 1),
        TileTypeError,
        "the kernel of T.im2col is not a constant int\n"
        "  expected: an int known at compile time\n"
        "  got: `v`",
    ),
    (
        "im2col-without-stride",
        lambda: T.im2col(buf("I", (1, 8, 8, 4), "float16"), S, 0, 0, 3, 0, 1, 1),
        TileValueError,
        "the stride of T.im2col is not positive\n  expected: at least 1\n  got: 0",
    ),
    (
        "gather-of-three-rows",
        lambda: T.tma_gather4(A, S, 0, [1, 2, 3], barrier=BAR),
        TileValueError,
        "T.tma_gather4 moves four rows\n  expected: four row indices\n  got: [1, 2, 3]",
    ),
    (
        "fill-with-a-tile",
        lambda: T.fill(S, F),
        TileTypeError,
        "the value of T.fill is a whole tile\n"
        "  expected: a scalar\n"
        "  got: the buffer `F` of shape (128, 64)\n"
        "  hint: index one element, e.g. A[i, j]",
    ),
    (
        "fill-of-a-barrier",
        lambda: T.clear(BAR),
        TileTypeError,
        "the destination of T.clear does not hold numbers\n"
        "  expected: a tile in global, shared, fragment or local memory\n"
        "  got: `BAR`, uint64 in shared.barrier memory",
    ),
    (
        "shared-with-a-run-time-extent",
        lambda: T.alloc_shared((m, 4), "float16"),
        TileValueError,
        "an extent of T.alloc_shared is not constant\n"
        "  expected: extents that are compile-time ints\n"
        "  got: `m` in (m, 4)\n"
        "  hint: use a Python int or T.const(...); only global tensors have run-time sizes",
    ),
    (
        "shared-with-a-float-extent",
        lambda: T.alloc_shared((4 / 2,), "float16"),
        TileTypeError,
        "the float 2.0 is used as an extent\n  expected: an int\n  hint: use `//`, not `/`",
    ),
    (
        "shared-with-extent-0",
        lambda: T.alloc_shared((4, 0), "float16"),
        TileValueError,
        "an extent of T.alloc_shared is not positive\n"
        "  expected: extents of at least 1\n"
        "  got: (4, 0)",
    ),
    (
        "shared-in-registers",
        lambda: T.alloc_shared((4,), "float16", "local"),
        TileValueError,
        "T.alloc_shared in the scope 'local'\n  expected: shared.dyn, shared\n  got: 'local'",
    ),
    (
        "fragment-in-shared-memory",
        lambda: T.alloc_fragment((4,), "float16", "global"),
        TileValueError,
        "T.alloc_fragment in the scope 'global'\n"
        "  expected: local.fragment, local, shared, shared.dyn\n"
        "  got: 'global'",
    ),
    (
        "fragment-of-nothing",
        lambda: T.alloc_fragment((4,), "void"),
        TileTypeError,
        "T.alloc_fragment of void\n  expected: a dtype with values\n  got: void",
    ),
    (
        "global-in-shared-memory",
        lambda: T.alloc_global((4,), "int8", "shared"),
        TileValueError,
        "T.alloc_global in another scope\n  expected: global\n  got: 'shared'",
    ),
    (
        "variable-out-of-range",
        lambda: T.alloc_var("int8", 300),
        TileValueError,
        "the initial value 300 does not fit int8\n  expected: -128 to 127\n  got: 300",
    ),
    (
        "variable-from-text",
        lambda: T.alloc_var("int8", init="3"),
        TileTypeError,
        "the initial value of T.alloc_var is not a number\n"
        "  expected: a number or a scalar expression\n"
        "  got: '3'",
    ),
    (
        "variable-in-shared-memory",
        lambda: T.alloc_var("int8", "shared"),
        TileValueError,
        "T.alloc_var in another scope\n"
        "  expected: local.var\n"
        "  got: 'shared'\n"
        "  hint: for one element of shared memory use T.alloc_shared((1,), dtype)",
    ),
    (
        "variable-with-too-much",
        lambda: T.alloc_var("int8", 1, "local.var", 3),
        TileTypeError,
        "T.alloc_var takes at most a dtype, an initial value and a scope\n  got: 4 arguments",
    ),
    (
        "barrier-without-arrivals",
        lambda: T.alloc_barrier(0),
        TileValueError,
        "T.alloc_barrier needs arrival counts of at least 1\n"
        "  expected: an int, or a list with one int per barrier\n"
        "  got: 0",
    ),
    (
        "barrier-with-run-time-arrivals",
        lambda: T.alloc_barrier(x),
        TileTypeError,
        "the arrival count of T.alloc_barrier is not a constant int\n"
        "  expected: an int known at compile time\n"
        "  got: `v`",
    ),
    (
        "reducer-with-unknown-operation",
        lambda: T.alloc_reducer((4,), "float32", "mul"),
        TileValueError,
        "T.alloc_reducer with the operation 'mul'\n"
        "  expected: sum, max, min, bitand, bitor, bitxor\n"
        "  got: 'mul'",
    ),
    (
        "reducer-with-unknown-replication",
        lambda: T.alloc_reducer((4,), "float32", "sum", "some"),
        TileValueError,
        "T.alloc_reducer with the replication 'some'\n"
        "  expected: 'all', 'none' or None\n"
        "  got: 'some'",
    ),
    (
        "reducer-of-float-bits",
        lambda: T.alloc_reducer((4,), "float32", "bitor"),
        TileTypeError,
        "T.alloc_reducer with op='bitor' on float32\n  expected: an integer dtype\n  got: float32",
    ),
    (
        "tensor-memory-with-one-dimension",
        lambda: T.alloc_tmem((4,), "float32"),
        TileValueError,
        "T.alloc_tmem needs two dimensions\n  expected: (rows, columns)\n  got: 1 dimension",
    ),
    (
        "allocation-in-an-unknown-scope",
        lambda: T.alloc_buffer((4,), "float32", "texture"),
        TileValueError,
        "T.alloc_buffer in the scope 'texture'\n"
        "  expected: global, shared, shared.dyn, shared.barrier, shared.cluster_barrier, shared.tmem, local, local.fragment, local.var, local.descriptor\n"
        "  got: 'texture'",
    ),
    (
        "view-of-a-number-as-data",
        lambda: T.decl_buffer((4,), "float32", data=3),
        TileTypeError,
        "the data of T.decl_buffer is not a buffer\n  expected: a buffer or buffer.data\n  got: 3",
    ),
    (
        "gemm-with-different-k",
        lambda: T.gemm(S, S, C),
        TileValueError,
        "the inner dimensions of T.gemm differ\n"
        "  expected: B with K = 64, as A of shape (128, 64)\n"
        "  got: K = 128 from B of shape (128, 64) with transpose_A=False, transpose_B=False\n"
        "  hint: B is [K, N], or [N, K] with transpose_B=True",
    ),
    (
        "gemm-with-the-wrong-result",
        lambda: T.gemm(S, S2, frag("D", (64, 64))),
        TileValueError,
        "C of T.gemm has the wrong shape\n"
        "  expected: (128, 128), from A (128, 64) and B (64, 128)\n"
        "  got: (64, 64) of `D`",
    ),
    (
        "gemm-with-different-dtypes",
        lambda: T.gemm(S, shared("B", (64, 128), "bfloat16"), C),
        TileTypeError,
        "A and B of T.gemm have different dtypes\n"
        "  expected: B of dtype float16, as A\n"
        "  got: bfloat16\n"
        "  hint: convert one of them with T.copy into a tile of the other dtype",
    ),
    (
        "gemm-of-a-global-operand",
        lambda: T.gemm(A, S2, C),
        TileTypeError,
        "A of T.gemm is in global memory\n"
        "  expected: a tile made by T.alloc_shared or T.alloc_fragment\n"
        "  got: `A` in global memory\n"
        "  hint: T.copy it into a tile first",
    ),
    (
        "gemm-into-global-memory",
        lambda: T.gemm(S, S2, buf("G", (128, 128))),
        TileTypeError,
        "C of T.gemm is in global memory\n"
        "  expected: a tile made by T.alloc_fragment\n"
        "  got: `G` in global memory\n"
        "  hint: T.copy the result out",
    ),
    (
        "gemm-of-integers-into-floats",
        lambda: T.gemm(
            shared("P", (16, 16), "int8"), shared("Q", (16, 16), "int8"), frag("R", (16, 16))
        ),
        TileTypeError,
        "C of T.gemm cannot hold the product of int8 matrices\n  expected: int32\n  got: float32",
    ),
    (
        "gemm-of-floats-into-integers",
        lambda: T.gemm(S, S2, frag("R", (128, 128), "int32")),
        TileTypeError,
        "C of T.gemm cannot hold the product of float16 matrices\n"
        "  expected: float32, or float16 for float16 operands\n"
        "  got: int32",
    ),
    (
        "gemm-of-bools",
        lambda: T.gemm(
            shared("P", (16, 16), "bool"), shared("Q", (16, 16), "bool"), frag("R", (16, 16))
        ),
        TileTypeError,
        "A of T.gemm has the dtype bool\n  expected: a scalar integer or float dtype\n  got: bool",
    ),
    (
        "gemm-of-a-row",
        lambda: T.gemm(shared("P", (16,)), S2, C),
        TileValueError,
        "A of T.gemm is not a matrix\n"
        "  expected: two dimensions, leading ones of extent 1\n"
        "  got: `P` with extents (16,)\n"
        "  hint: select one matrix, e.g. A[stage, :, :]",
    ),
    (
        "gemm-of-several-matrices",
        lambda: T.gemm(shared("P", (2, 128, 64)), S2, C),
        TileValueError,
        "A of T.gemm is not a matrix\n"
        "  expected: two dimensions, leading ones of extent 1\n"
        "  got: `P` with extents (2, 128, 64)\n"
        "  hint: select one matrix, e.g. A[stage, :, :]",
    ),
    (
        "gemm-of-an-element",
        lambda: T.gemm(S[0, 0], S2, C),
        TileTypeError,
        "the operand A of T.gemm is a single element\n"
        "  expected: a whole buffer or a region with slices\n"
        "  got: `S[0, 0]`\n"
        "  hint: write slices, e.g. S[:, :]",
    ),
    (
        "gemm-of-a-run-time-extent",
        lambda: T.gemm(S[0:m, :], S2, C),
        TileValueError,
        "the operand A of T.gemm has an extent that is not constant\n"
        "  expected: extents known at compile time\n"
        "  got: `S[0:m, 0:64]` with extents (m, 64)",
    ),
    (
        "gemm-with-an-unknown-policy",
        lambda: T.gemm(S, S2, C, policy=7),
        TileValueError,
        "the policy of T.gemm is unknown\n"
        "  expected: T.GemmWarpPolicy.Square, FullRow or FullCol\n"
        "  got: 7",
    ),
    (
        "gemm-with-an-unknown-k-pack",
        lambda: T.gemm(S, S2, C, k_pack=3),
        TileValueError,
        "the k_pack of T.gemm is 3\n  expected: 1 or 2\n  got: 3",
    ),
    (
        "gemm-with-a-run-time-transposition",
        lambda: T.gemm(S, S2, C, x > 0),
        TileTypeError,
        "the transpose_A of T.gemm is not a constant bool\n"
        "  expected: True or False, known at compile time\n"
        "  got: `v > 0`",
    ),
    (
        "gemm-with-a-tile-as-condition",
        lambda: T.gemm(S, S2, C, clear_accum=F),
        TileTypeError,
        "the clear_accum of T.gemm is a whole tile\n"
        "  expected: a scalar\n"
        "  got: the buffer `F` of shape (128, 64)\n"
        "  hint: index one element, e.g. A[i, j]",
    ),
    (
        "gemm-into-a-barrier",
        lambda: T.gemm(S, S2, buf("R", (128, 128), "uint64", "shared.barrier")),
        TileTypeError,
        "C of T.gemm is not a tile\n"
        "  expected: a shared or fragment tile\n"
        "  got: `R` in shared.barrier memory",
    ),
    (
        "reduce-to-the-wrong-shape",
        lambda: T.reduce_sum(F, C, dim=1),
        TileValueError,
        "the result of T.reduce_sum has the wrong shape\n"
        "  expected: (128,) or (128, 1) for dim 1 of (128, 64)\n"
        "  got: (128, 128) of `C`",
    ),
    (
        "reduce-of-one-dimension-to-the-wrong-shape",
        lambda: T.reduce_max(ROWS, frag("W", (2,))),
        TileValueError,
        "the result of T.reduce_max has the wrong shape\n"
        "  expected: (1,) for dim 0 of (128,)\n"
        "  got: (2,) of `W`",
    ),
    (
        "reduce-over-a-missing-dimension",
        lambda: T.reduce_sum(F, ROWS, dim=2),
        TileValueError,
        "the dim of T.reduce_sum is out of range\n  expected: -2 to 1 for 2 dimensions\n  got: 2",
    ),
    (
        "reduce-over-a-run-time-dimension",
        lambda: T.reduce_sum(F, ROWS, dim=x),
        TileTypeError,
        "the dim of T.reduce_sum is not a constant int\n"
        "  expected: an int known at compile time\n"
        "  got: `v`",
    ),
    (
        "reduce-of-a-global-tensor",
        lambda: T.reduce_sum(A, ROWS),
        TileTypeError,
        "the source of T.reduce_sum is in global memory\n"
        "  expected: a fragment, shared or local tile\n"
        "  got: `A`\n"
        "  hint: T.copy it into a fragment first",
    ),
    (
        "reduce-of-float-bits",
        lambda: T.reduce_bitand(F, ROWS),
        TileValueError,
        "the source of T.reduce_bitand is not of an integer dtype\n"
        "  expected: an integer dtype\n"
        "  got: `F` of dtype float32",
    ),
    (
        "reduce-of-vectors",
        lambda: T.reduce_sum(frag("V2", (4, 4), "float16x2"), frag("V3", (4,), "float16x2")),
        TileTypeError,
        "T.reduce_sum of float16x2 elements\n  expected: a scalar dtype\n  got: `V2`",
    ),
    (
        "reduce-with-an-unknown-kind",
        lambda: T.reduce(F, ROWS, "prod"),
        TileValueError,
        "T.reduce with an unknown kind\n"
        "  expected: sum, max, min, absmax, abssum, bitand, bitor, bitxor\n"
        "  got: 'prod'",
    ),
    (
        "reduce-in-batches-of-0",
        lambda: T.reduce_sum(F, ROWS, batch=0),
        TileValueError,
        "the batch of T.reduce_sum is 0\n  expected: at least 1\n  got: 0",
    ),
    (
        "reduce-in-batches-of-a-negative-number",
        lambda: T.reduce_absmax(F, ROWS, batch=-2),
        TileValueError,
        "the batch of T.reduce_absmax is -2\n  expected: at least 1\n  got: -2",
    ),
    (
        "reduce-in-batches-of-a-float",
        lambda: T.reduce_max(F, ROWS, batch=1.5),
        TileTypeError,
        "the batch of T.reduce_max is not a constant int\n"
        "  expected: an int known at compile time\n"
        "  got: 1.5",
    ),
    (
        "reduce-in-run-time-batches",
        lambda: T.reduce_min(F, ROWS, batch=m),
        TileTypeError,
        "the batch of T.reduce_min is not a constant int\n"
        "  expected: an int known at compile time\n"
        "  got: `m`",
    ),
    (
        "finalize-in-batches-of-0",
        lambda: T.finalize_reducer(RED, batch=0),
        TileValueError,
        "the batch of T.finalize_reducer is 0\n  expected: at least 1\n  got: 0",
    ),
    (
        "reduce-with-a-run-time-clear",
        lambda: T.reduce_sum(F, ROWS, clear=x > 0),
        TileTypeError,
        "the clear of T.reduce_sum is not a constant bool\n"
        "  expected: True or False, known at compile time\n"
        "  got: `v > 0`",
    ),
    (
        "scan-to-the-wrong-shape",
        lambda: T.cumsum(F, C),
        TileValueError,
        "the result of T.cumsum has the wrong shape\n"
        "  expected: (128, 64), as the source\n"
        "  got: (128, 128) of `C`",
    ),
    (
        "scan-over-a-missing-dimension",
        lambda: T.cummax(ROWS, dim=1),
        TileValueError,
        "the dim of T.cummax is out of range\n  expected: -1 to 0 for 1 dimension\n  got: 1",
    ),
    (
        "finalize-of-a-fragment",
        lambda: T.finalize_reducer(ROWS),
        TileTypeError,
        "T.finalize_reducer of something that is not a reducer\n"
        "  expected: a buffer made by T.alloc_reducer\n"
        "  got: the buffer `ROWS` of shape (128,)",
    ),
    (
        "finalize-into-the-wrong-shape",
        lambda: T.finalize_reducer(RED, ROWS),
        TileValueError,
        "the destination of T.finalize_reducer has the wrong shape\n"
        "  expected: (8,), as `RED`\n"
        "  got: (128,) of `ROWS`",
    ),
    (
        "update-of-a-whole-reducer",
        lambda: T.reducer_update(RED, 1),
        TileTypeError,
        "the target of T.reducer_update is not an element\n"
        "  expected: acc[i]\n"
        "  got: the buffer `RED` of shape (8,)",
    ),
    (
        "update-of-a-fragment",
        lambda: T.reducer_update(ROWS[0], 1),
        TileTypeError,
        "T.reducer_update of something that is not a reducer\n"
        "  expected: a buffer made by T.alloc_reducer\n"
        "  got: the buffer `ROWS` of shape (128,)",
    ),
    (
        "atomic-on-a-fragment",
        lambda: T.atomic_add(ROWS[0], 1),
        TileTypeError,
        "the destination of T.atomic_add is in local.fragment memory\n"
        "  expected: an element or tile of global, shared or local memory\n"
        "  got: `ROWS`\n"
        "  hint: other threads cannot see it; use a plain assignment or a T.alloc_reducer",
    ),
    (
        "atomic-on-int8",
        lambda: T.atomic_add(buf("B8", (4,), "int8")[0], 1),
        TileTypeError,
        "T.atomic_add on int8\n"
        "  expected: int32, uint32, int64, uint64, float16, bfloat16, float32, float64\n"
        "  got: `B8` of dtype int8",
    ),
    (
        "atomic-or-on-floats",
        lambda: T.atomic_or(buf("W", (4,))[0], 1),
        TileTypeError,
        "T.atomic_or on float32\n"
        "  expected: int32, uint32, int64, uint64\n"
        "  got: `W` of dtype float32",
    ),
    (
        "atomic-with-an-unknown-order",
        lambda: T.atomic_add(N[0], 1, "later"),
        TileValueError,
        "the memory order of T.atomic_add is unknown\n"
        "  expected: relaxed, consume, acquire, release, acq_rel, seq_cst\n"
        "  got: 'later'",
    ),
    (
        "atomic-of-a-tile-with-previous-values",
        lambda: T.atomic_add(buf("W", (128, 64)), F, return_prev=True),
        TileUnsupportedError,
        "T.atomic_add of a tile cannot return the previous values\n"
        "  expected: a scalar value with return_prev=True\n"
        "  got: the buffer `F` of shape (128, 64)",
    ),
    (
        "atomic-of-a-number-on-a-tile-that-returns",
        lambda: T.atomic_add(N, 1, return_prev=True),
        TileUnsupportedError,
        "T.atomic_add on a tile cannot return the previous values\n"
        "  expected: an element such as A[i, j] with return_prev=True\n"
        "  got: the buffer `N` of shape (8,)",
    ),
    (
        "atomic-of-a-tile-on-another-shape",
        lambda: T.atomic_add(buf("W", (128, 32)), F),
        TileValueError,
        "the buffers of T.atomic_add have different shapes\n"
        "  expected: `W` of shape (128, 64), as `F`\n"
        "  got: shape (128, 32)\n"
        "  hint: say where the tile starts, e.g. F[0, 0], or use slices",
    ),
    (
        "atomic-pair-of-int32",
        lambda: T.atomic_addx2(N[0], N[2]),
        TileTypeError,
        "T.atomic_addx2 on int32\n"
        "  expected: float16, bfloat16, float32\n"
        "  got: `N` of dtype int32",
    ),
    (
        "atomic-pair-from-a-number",
        lambda: T.atomic_addx2(A[0, 0], 1.0),
        TileTypeError,
        "the value of T.atomic_addx2 is not 2 numbers\n"
        "  expected: a vector of 2 lanes, or the element where they start\n"
        "  got: 1.0",
    ),
    (
        "atomic-load-with-a-store-order",
        lambda: T.atomic_load(N[0], "release"),
        TileValueError,
        "the memory order of T.atomic_load is unknown\n"
        "  expected: relaxed, consume, acquire, seq_cst\n"
        "  got: 'release'",
    ),
    (
        "atomic-store-with-a-load-order",
        lambda: T.atomic_store(N[0], 1, "acquire"),
        TileValueError,
        "the memory order of T.atomic_store is unknown\n"
        "  expected: relaxed, release, seq_cst\n"
        "  got: 'acquire'",
    ),
    (
        "atomic-load-of-a-tile",
        lambda: T.atomic_load(N),
        TileTypeError,
        "the source of T.atomic_load is not one element\n"
        "  expected: an element such as A[i, j]\n"
        "  got: `N` with extents (8,)",
    ),
    (
        "exp-of-a-tile",
        lambda: T.exp(F),
        TileTypeError,
        "the operand of T.exp is a whole tile\n"
        "  expected: a scalar\n"
        "  got: the buffer `F` of shape (128, 64)\n"
        "  hint: index one element, e.g. A[i, j]",
    ),
    (
        "cast-in-the-wrong-order",
        lambda: T.cast("float16", x),
        TileTypeError,
        "the first argument of T.cast is a dtype\n"
        "  expected: T.cast(value, dtype)\n"
        "  got: T.cast('float16', ...)\n"
        "  hint: T.Cast(dtype, value) takes them in the other order",
    ),
    (
        "cast-with-an-unknown-rounding",
        lambda: T.cast(f, "float16", "up"),
        TileValueError,
        "T.cast with an unknown rounding\n"
        "  expected: '', 'rn', 'rz', 'rp', 'rm', 'rs'\n"
        "  got: 'up'",
    ),
    (
        "cast-with-bits-but-no-stochastic-rounding",
        lambda: T.cast(f, "float16", rbits=x),
        TileValueError,
        "the random bits of T.cast do not fit its rounding\n"
        "  expected: rbits with round='rs', and only there\n"
        "  got: round='' with rbits",
    ),
    (
        "cast-with-stochastic-rounding-but-no-bits",
        lambda: T.cast(f, "float16", "rs"),
        TileValueError,
        "the random bits of T.cast do not fit its rounding\n"
        "  expected: rbits with round='rs', and only there\n"
        "  got: round='rs' without rbits",
    ),
    (
        "cast-with-a-directed-rounding",
        lambda: T.cast(f, "float16", "rz"),
        TileUnsupportedError,
        "T.cast with round='rz'\n"
        "  expected: '', 'rn' or 'rs'\n"
        "  got: 'rz'\n"
        "  hint: use T.trunc, T.floor or T.ceil before the conversion",
    ),
    (
        "round-with-an-unknown-mode",
        lambda: T.round(f, "up"),
        TileValueError,
        "T.round with an unknown rounding mode\n"
        "  expected: 'ties-to-even' or 'ties-away-from-zero'\n"
        "  got: 'up'",
    ),
    (
        "ieee-with-an-unknown-mode",
        lambda: T.ieee_add(f, f, "up"),
        TileValueError,
        "T.ieee_add with an unknown rounding mode\n  expected: 'rn', 'rz', 'ru', 'rd'\n  got: 'up'",
    ),
    (
        "bit-cast-to-another-size",
        lambda: T.reinterpret(f, "float16"),
        TileTypeError,
        "T.reinterpret between types of different size\n"
        "  expected: a type of 32 bits, as float32\n"
        "  got: float16 with 16 bits\n"
        "  hint: T.cast converts the value",
    ),
    (
        "infinity-of-an-integer",
        lambda: T.infinity("int32"),
        TileTypeError,
        "int32 has no infinity\n"
        "  expected: a float dtype\n"
        "  got: int32\n"
        "  hint: use T.max_value(dtype) or T.min_value(dtype)",
    ),
    (
        "infinity-of-a-pointer",
        lambda: T.infinity("handle"),
        TileTypeError,
        "handle has no infinity\n  expected: a float dtype\n  got: handle",
    ),
    (
        "tensor-at-a-pointer-with-a-negative-extent",
        lambda: T.make_tensor(A.data, (8, -4), "float16"),
        TileValueError,
        "the extent of dimension 1 of T.make_tensor is negative\n"
        "  expected: 0 or more elements\n"
        "  got: -4",
    ),
    (
        "and-of-one-condition",
        lambda: T.And(x > 0),
        TileTypeError,
        "T.And needs two or more operands\n  got: 1",
    ),
    (
        "ramp-of-one-lane",
        lambda: T.Ramp(x, 1, 1),
        TileValueError,
        "T.Ramp with too few lanes\n  expected: 2 or more\n  got: 1",
    ),
    (
        "lane-of-a-scalar",
        lambda: T.extract_lane(x, 0),
        TileTypeError,
        "T.extract_lane of a scalar\n  expected: a vector such as float32x4\n  got: `v`",
    ),
    (
        "lane-that-does-not-exist",
        lambda: T.extract_lane(T.Ramp(x, 1, 4), 4),
        TileValueError,
        "T.extract_lane of a lane that does not exist\n  expected: 0 to 3\n  got: 4",
    ),
    (
        "shuffle-of-a-missing-lane",
        lambda: T.Shuffle([x], [1]),
        TileValueError,
        "T.Shuffle takes a lane that does not exist\n  expected: 0 to 0\n  got: 1",
    ),
    (
        "popcount-of-a-float",
        lambda: T.popcount(f),
        TileTypeError,
        "T.popcount on a float32 operand\n  expected: an integer\n  got: float32",
    ),
    (
        "barrier-number-out-of-range",
        lambda: T.sync_threads(-1, 128),
        TileValueError,
        "the barrier of T.sync_threads does not exist\n  expected: 0 or more\n  got: -1",
    ),
    (
        "barrier-with-half-a-warp",
        lambda: T.sync_threads(1, 16),
        TileValueError,
        "the thread count of T.sync_threads is 16\n"
        "  expected: a positive multiple of 32\n"
        "  got: 16",
    ),
    (
        "thread-count-without-barrier",
        lambda: T.sync_threads(arrive_count=64),
        TileValueError,
        "T.sync_threads with a thread count but no barrier\n"
        "  expected: T.sync_threads(barrier_id, arrive_count)\n"
        "  got: arrive_count=64",
    ),
    (
        "storage-sync-of-an-unknown-scope",
        lambda: T.tvm_storage_sync("texture"),
        TileValueError,
        "T.tvm_storage_sync of an unknown scope\n"
        "  expected: 'warp', 'shared', 'shared.dyn' or 'global'\n"
        "  got: 'texture'",
    ),
    (
        "arrive-at-a-tensor",
        lambda: T.barrier_arrive(N),
        TileTypeError,
        "the barrier of T.barrier_arrive is not a barrier\n"
        "  expected: an element of T.alloc_barrier, e.g. bar[0]\n"
        "  got: the buffer `N` of shape (8,)",
    ),
    (
        "arrive-at-several-barriers",
        lambda: T.barrier_arrive(BAR[0:2]),
        TileTypeError,
        "the barrier of T.barrier_arrive is not a barrier\n"
        "  expected: an element of T.alloc_barrier, e.g. bar[0]\n"
        "  got: `BAR`",
    ),
    (
        "barrier-by-number-without-a-list",
        lambda: T.barrier_wait(0, 1),
        TileValueError,
        "a barrier is named by its number, and the kernel has no list of barriers\n"
        "  expected: T.create_list_of_mbarrier(...) before it\n"
        "  got: 0\n"
        "  hint: or bar = T.alloc_barrier([...]) and bar[i]",
    ),
    (
        "pointer-with-unknown-access",
        lambda: T.access_ptr(A, "x"),
        TileValueError,
        "the access of T.access_ptr is unknown\n  expected: 'r', 'w', 'rw', or 1, 2, 3\n  got: 'x'",
    ),
    (
        "thread-copy-from-a-handle",
        lambda: T.ptx_cp_async(S[0, 0], T.reinterpret(T.uint64(0), "handle"), 8),
        TileTypeError,
        "the source of T.ptx_cp_async is not an address of a buffer\n"
        "  expected: T.access_ptr(A[i], ...), T.address_of(A[i]) or T.tvm_access_ptr(..., A.data, "
        "...)\n"
        '  got: `T.reinterpret(T.uint64(0), dtype="handle")`',
    ),
    (
        "vector-load-from-shared-memory",
        lambda: T.ldg32(S[0, 0]),
        TileTypeError,
        "the source of T.ldg32 is in shared.dyn memory\n  expected: global memory\n  got: `S`",
    ),
    (
        "vector-load-of-wide-elements",
        lambda: T.ldg32(buf("W", (4,), "float64")[0]),
        TileTypeError,
        "T.ldg32 of float64 elements\n"
        "  expected: a scalar dtype of at most 32 bits\n"
        "  got: float64",
    ),
    (
        "vector-store-of-another-size",
        lambda: T.stg64(A[0, 0], x),
        TileTypeError,
        "the value of T.stg64 has 32 bits\n"
        "  expected: 64 bits, e.g. uint32x2\n"
        "  got: `v` of dtype int32",
    ),
    (
        "dot-product-of-floats",
        lambda: T.dp4a(A, A, N),
        TileTypeError,
        "A of T.dp4a has the dtype float16\n  expected: int8 or uint8\n  got: float16",
    ),
    (
        "call-without-a-name",
        lambda: T.call_extern("float32", x),
        TileTypeError,
        "the function of T.call_extern is not named\n"
        '  expected: T.call_extern(dtype, "name", *args)\n'
        "  got: `v`",
    ),
    (
        "random-with-an-unknown-generator",
        lambda: T.rng_init(1, generator="mt19937"),
        TileValueError,
        "T.rng_init with an unknown generator\n"
        "  expected: curandStatePhilox4_32_10_t, curandStateXORWOW_t, curandStateMRG32k3a_t\n"
        "  got: 'mt19937'",
    ),
    (
        "random-with-16-bits",
        lambda: T.rng_rand_float(16),
        TileValueError,
        "T.rng_rand_float of 16 bits\n  expected: 32 or 64\n  got: 16",
    ),
    (
        "random-with-an-unknown-distribution",
        lambda: T.rng_rand_float(32, "poisson"),
        TileValueError,
        "T.rng_rand_float of an unknown distribution\n"
        "  expected: 'uniform' or 'normal'\n"
        "  got: 'poisson'",
    ),
    (
        "shuffle-without-a-distance",
        lambda: T.shfl_xor(x),
        TileTypeError,
        "T.shfl_xor without a distance\n"
        "  expected: T.shfl_xor(value, delta)\n"
        "  got: T.shfl_xor(value)",
    ),
    (
        "shuffle-over-a-width-of-12",
        lambda: T.shfl_down(x, 1, 12),
        TileValueError,
        "the width of T.shfl_down is 12\n  expected: a power of two from 1 to 32\n  got: 12",
    ),
    (
        "warp-reduction-of-float-bits",
        lambda: T.warp_reduce_bitor(f),
        TileTypeError,
        "T.warp_reduce_bitor of float32\n  expected: an integer\n  got: float32",
    ),
    (
        "any-of-a-fragment",
        lambda: T.any_of(F),
        TileTypeError,
        "T.any_of of a fragment\n"
        "  expected: a shared, local or global buffer\n"
        "  got: `F`\n"
        "  hint: T.copy it into shared memory first",
    ),
    (
        "any-of-scattered-elements",
        lambda: T.any_of(S[0:4, 0:8]),
        TileValueError,
        "T.any_of of a region that is not contiguous\n"
        "  expected: a slice in the last dimension only, or whole trailing dimensions\n"
        "  got: `S[0:4, 0:8]`",
    ),
    (
        "election-among-run-time-threads",
        lambda: T.shuffle_elect(x),
        TileTypeError,
        "the thread extent of T.shuffle_elect is not a constant int\n"
        "  expected: an int known at compile time\n"
        "  got: `v`",
    ),
    (
        "lane-of-an-empty-warp",
        lambda: T.get_lane_idx(0),
        TileValueError,
        "a size of T.get_lane_idx is 0\n  expected: at least 1\n  got: 0",
    ),
    (
        "reducer-of-an-unknown-combination",
        lambda: T.comm_reducer(lambda a, b: a - b, [T.float32(1)]),
        TileUnsupportedError,
        "T.comm_reducer with an unknown combination\n"
        "  expected: lambda x, y: x + y, x * y, T.max(x, y), T.min(x, y), x & y, x | y or x ^ y\n"
        "  got: `x - y`",
    ),
    (
        "allreduce-outside-a-reduction",
        lambda: T.tvm_thread_allreduce(1, f, True, ROWS[0], T.get_thread_binding(0)),
        TileValueError,
        "T.tvm_thread_allreduce outside a reduction\n"
        '  expected: an enclosing `with T.attr(T.comm_reducer(...), "reduce_scope", ...)`',
    ),
    (
        "allreduce-of-two-values",
        lambda: T.tvm_thread_allreduce(2, f, f, True, ROWS[0]),
        TileUnsupportedError,
        "T.tvm_thread_allreduce in this form\n"
        "  expected: (1, value, condition, out[0], thread variable)\n"
        "  got: 5 arguments",
    ),
    (
        "descriptor-that-is-a-tensor",
        lambda: T.initialize_wgmma_descriptor(N, S),
        TileTypeError,
        "the descriptor of T.initialize_wgmma_descriptor is not a descriptor\n"
        "  expected: a buffer made by T.alloc_wgmma_desc or T.alloc_tcgen05_smem_desc\n"
        "  got: the buffer `N` of shape (8,)",
    ),
    (
        "tensor-memory-that-is-a-tile",
        lambda: T.deallocate_tmem(S),
        TileTypeError,
        "T.deallocate_tmem of something that is not tensor memory\n"
        "  expected: a buffer made by T.alloc_tmem\n"
        "  got: the buffer `S` of shape (128, 64)",
    ),
    (
        "layout-of-a-name",
        lambda: T.annotate_layout({"S": LAYOUT}),
        TileTypeError,
        "a key of T.annotate_layout is not a buffer\n  expected: {buffer: layout}\n  got: 'S'",
    ),
    (
        "layouts-without-a-mapping",
        lambda: T.annotate_layout(LAYOUT),
        TileTypeError,
        "T.annotate_layout without a mapping\n"
        "  expected: {buffer: layout}\n"
        "  got: Layout((128, 64) -> (8192,), (i0, i1) -> (i0 * 64 + i1))",
    ),
    (
        "layout-that-is-a-number",
        lambda: T.annotate_layout({S: 3}),
        TileValueError,
        "the layout of `S` in T.annotate_layout is not a layout\n"
        "  expected: a T.Layout, a T.Fragment or a function of the indices\n"
        "  got: 3",
    ),
    (
        "layout-without-threads-for-a-fragment",
        lambda: T.annotate_layout({F: LAYOUT}),
        TileTypeError,
        "the layout of the fragment `F` in T.annotate_layout names no threads\n"
        "  expected: a T.Fragment\n"
        "  got: a T.Layout",
    ),
    (
        "safe-value-of-a-shared-tile",
        lambda: T.annotate_safe_value({S: 0}),
        TileTypeError,
        "T.annotate_safe_value of `S` in shared.dyn memory\n"
        "  expected: a global tensor\n"
        "  got: the buffer `S` of shape (128, 64)\n"
        "  hint: accesses to on-chip memory are not guarded",
    ),
    (
        "hit-ratio-above-1",
        lambda: T.annotate_l2_hit_ratio({A: 2}),
        TileValueError,
        "the ratio of `A` in T.annotate_l2_hit_ratio is out of range\n  expected: 0 to 1\n  got: 2",
    ),
    (
        "restrict-of-a-number",
        lambda: T.annotate_restrict_buffers(3),
        TileTypeError,
        "an argument of T.annotate_restrict_buffers is not a buffer\n  expected: tensors\n  got: 3",
    ),
    (
        "no-blocks-per-multiprocessor",
        lambda: T.annotate_min_blocks_per_sm(0),
        TileValueError,
        "T.annotate_min_blocks_per_sm of 0\n  expected: at least 1\n  got: 0",
    ),
    (
        "flags-that-are-numbers",
        lambda: T.annotate_compile_flags([3]),
        TileTypeError,
        "a flag of T.annotate_compile_flags is not a string\n  expected: a list of str\n  got: 3",
    ),
    (
        "configs-without-a-mapping",
        lambda: T.annotate_pass_configs(3),
        TileTypeError,
        "T.annotate_pass_configs without a mapping\n  expected: {key: value}\n  got: 3",
    ),
    (
        "attributes-without-a-mapping",
        lambda: T.func_attr(3),
        TileTypeError,
        "T.func_attr without a mapping\n  expected: {name: value}\n  got: 3",
    ),
    (
        "source-that-is-a-number",
        lambda: T.import_source(3),
        TileTypeError,
        "T.import_source of something that is not a string\n  got: 3",
    ),
    (
        "registers-not-a-multiple-of-8",
        lambda: T.set_max_nreg(100, 1),
        TileValueError,
        "the register count of T.set_max_nreg is 100\n"
        "  expected: a multiple of 8 from 24 to 256\n"
        "  got: 100",
    ),
    (
        "registers-in-an-unknown-direction",
        lambda: T.set_max_nreg(96, 2),
        TileValueError,
        "the direction of T.set_max_nreg is 2\n  expected: 0 (lower) or 1 (raise)\n  got: 2",
    ),
    (
        "schedule-that-is-a-dict",
        lambda: T.annotate_ws_schedule({}),
        TileTypeError,
        "T.annotate_ws_schedule of something that is not a schedule\n"
        "  expected: a T.WSSchedule\n"
        "  got: {}",
    ),
    (
        "print-of-nothing",
        lambda: T.print(),
        TileValueError,
        "T.print without anything to print\n"
        "  expected: a value or a message\n"
        "  got: no value and no message",
    ),
    (
        "print-with-a-number-as-message",
        lambda: T.print(x, 3),
        TileTypeError,
        "the option `msg` is of the wrong kind\n  expected: text\n  got: 3",
    ),
    (
        "view-of-another-size",
        lambda: T.view(S, (4, 4)),
        TileValueError,
        "T.view changes the size of `S`\n"
        "  expected: (128, 64) of float16: 131072 bits\n"
        "  got: (4, 4) of float16: 256 bits",
    ),
    (
        "view-that-splits-an-element",
        lambda: T.view(buf("W", (3,), "int8"), dtype="int16"),
        TileValueError,
        "T.view of `W` as int16 splits an element\n"
        "  expected: a last extent that fills whole int16 elements\n"
        "  got: 3 elements of int8",
    ),
    (
        "view-of-an-element",
        lambda: T.reshape(S[0, 0], (1,)),
        TileTypeError,
        "T.reshape of something that is not a buffer\n  expected: a buffer\n  got: `S[0, 0]`",
    ),
]


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [case[1:] for case in CASES],
    ids=[case[0] for case in CASES],
)
def test_wrong_programs(body: Callable[[], Any], kind: type[TileError], text: str) -> None:
    with pytest.raises(kind) as raised:
        emitted(body)
    assert type(raised.value) is kind
    assert str(raised.value) == text


@pytest.mark.parametrize("body", [lambda: T.copy(A, S), lambda: T.alloc_shared((4,), "int8")])
def test_words_outside_a_kernel(body: Callable[[], Any]) -> None:
    with pytest.raises(JITNoBuilderError, match="is used outside a kernel"):
        body()


def test_errors_point_at_the_users_line() -> None:
    with pytest.raises(TileValueError) as raised:

        @T.prim_func
        def main(X: T.Tensor((64, 64), "float16")):
            with T.Kernel(1, threads=128):
                a = T.alloc_shared((64, 32), "float16")
                b = T.alloc_shared((64, 32), "float16")
                c = T.alloc_fragment((64, 64), "float32")
                T.gemm(a, b, c)

    text = str(raised.value)
    assert text.startswith(
        "the inner dimensions of T.gemm differ\n"
        "  expected: B with K = 32, as A of shape (64, 32)\n"
        "  got: K = 64 from B of shape (64, 32) with transpose_A=False, transpose_B=False\n"
        "  hint: B is [K, N], or [N, K] with transpose_B=True\n"
        f" --> {__file__}:"
    )
    assert "                T.gemm(a, b, c)" in text


def test_cases_are_different() -> None:
    assert len({case[3] for case in CASES}) == len(CASES)
    assert len({case[0] for case in CASES}) == len(CASES)
