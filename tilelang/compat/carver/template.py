"""Common kernels as templates: the tile sizes that the model of the autotuner recommends.

A template describes an operation; ``recommend_hints`` builds its tile program for every sensible
tile, estimates each (:mod:`tilelang.autotuner.model`) and gives the best. Nothing is compiled or
run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import tilelang.language as T
from tilelang.autotuner.model import estimate
from tilelang.autotuner.prune import reason_to_skip
from tilelang.compat.carver.arch import TileDevice, auto_infer_current_arch
from tilelang.compat.carver.roller.hint import Hint
from tilelang.errors import TileError, TileValueError
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.stmt import PrimFunc

_TILES = (16, 32, 64, 128, 256)
_STAGES = (2, 3, 4)


@dataclass
class Template:
    """An operation whose tiles are to be chosen."""

    arch: TileDevice | None = field(default=None, kw_only=True)

    def with_arch(self, arch: TileDevice) -> Template:
        """The machine to recommend for; without it, that of this machine. Gives the template."""
        self.arch = arch
        return self

    def program(self, hint: Hint) -> PrimFunc:
        """The operation as a tile program with the tiles of ``hint``."""
        raise NotImplementedError

    def hints(self, gpu: bool) -> Iterator[Hint]:
        """All tiles worth an estimate."""
        raise NotImplementedError

    def recommend_hints(self, topk: int = 10) -> list[Hint]:
        """The ``topk`` hints of the lowest estimates, the best first.

        Raises:
            TileValueError: no tile fits the machine.
        """
        target = (self.arch or auto_infer_current_arch()).target
        hints = []
        for hint in self.hints(target.is_gpu):
            try:
                func = self.program(hint)
            except TileError:  # a tile that this operation does not take
                continue
            if reason_to_skip(func, target) is None:
                hints.append(replace(hint, estimate=estimate(func, target)))
        if not hints:
            raise TileValueError(
                f"no tile of {type(self).__name__} fits {target}",
                hint="larger extents, or another arch",
            )
        return sorted(hints, key=lambda hint: hint.estimate.milliseconds)[:topk]

    def equivalent_function(self) -> PrimFunc:
        """The operation as a program, with the best tiles."""
        return self.program(self.recommend_hints(1)[0])


def _fitting(extent: int, sizes: Sequence[int] = _TILES) -> list[int]:
    """Tile sizes that are not much larger than the extent."""
    return [size for size in sizes if size < 2 * extent] or [min(sizes)]


def _warps(block: Sequence[int], threads: int) -> list[int]:
    """The tile of one warp, when they share ``block`` as squarely as they can."""
    count = threads // 32
    splits = [(r, count // r) for r in range(1, count + 1) if count % r == 0]
    rows, columns = min(
        (s for s in splits if block[0] % s[0] == 0 and block[1] % s[1] == 0),
        key=lambda s: abs(block[0] / s[0] - block[1] / s[1]),
        default=(1, count),
    )
    return [block[0] // rows, max(1, block[1] // columns)]


def _products(m: int, n: int, k: int, dtype: str, gpu: bool) -> Iterator[Hint]:
    """Tiles of a product of matrices."""
    bits = DType(dtype).bits
    for bm in _fitting(m):
        for bn in _fitting(n):
            for bk in _fitting(k, [256 // bits, 512 // bits, 1024 // bits]):
                for threads in (128, 256) if gpu else (128,):
                    for stages in _STAGES if gpu else (1,):
                        yield Hint(
                            block=[bm, bn], warp=_warps([bm, bn], threads), rstep=[bk],
                            pipeline_stage=stages, use_async=stages > 1, use_tc=gpu,
                            threads=threads,
                        )  # fmt: skip


@dataclass
class MatmulTemplate(Template):
    """``C[M, N] = A[M, K] @ B`` with B as [K, N], or as [N, K] with ``trans_B``."""

    M: int
    N: int
    K: int
    trans_A: bool = False
    trans_B: bool = True
    in_dtype: Any = "float16"
    out_dtype: Any = "float16"
    accum_dtype: Any = "float32"
    with_bias: bool = False

    def hints(self, gpu: bool) -> Iterator[Hint]:
        return _products(self.M, self.N, self.K, self.in_dtype, gpu)

    def program(self, hint: Hint) -> PrimFunc:
        M, N, K, trans_A, trans_B = self.M, self.N, self.K, self.trans_A, self.trans_B
        (bm, bn), bk = hint.block, hint.rstep[0]
        A_shape, A_tile = ((K, M), (bk, bm)) if trans_A else ((M, K), (bm, bk))
        B_shape, B_tile = ((N, K), (bn, bk)) if trans_B else ((K, N), (bk, bn))
        with_bias, accum = self.with_bias, self.accum_dtype

        @T.prim_func
        def matmul(
            A: T.Tensor(A_shape, self.in_dtype),
            B: T.Tensor(B_shape, self.in_dtype),
            Bias: T.Tensor((N,), self.out_dtype),
            C: T.Tensor((M, N), self.out_dtype),
        ) -> None:
            with T.Kernel(T.ceildiv(N, bn), T.ceildiv(M, bm), threads=hint.threads) as (bx, by):
                A_shared = T.alloc_shared(A_tile, self.in_dtype)
                B_shared = T.alloc_shared(B_tile, self.in_dtype)
                C_local = T.alloc_fragment((bm, bn), accum)
                T.clear(C_local)
                for k in T.Pipelined(T.ceildiv(K, bk), num_stages=hint.pipeline_stage):
                    T.copy(A[k * bk, by * bm] if trans_A else A[by * bm, k * bk], A_shared)
                    T.copy(B[bx * bn, k * bk] if trans_B else B[k * bk, bx * bn], B_shared)
                    T.gemm(A_shared, B_shared, C_local, transpose_A=trans_A, transpose_B=trans_B)
                if with_bias:
                    for i, j in T.Parallel(bm, bn):
                        C_local[i, j] += T.cast(Bias[bx * bn + j], accum)
                T.copy(C_local, C[by * bm, bx * bn])

        return matmul


@dataclass
class ConvTemplate(Template):
    """A convolution of images [N, H, W, C] with F kernels of K x K; stride S, dilation D, padding
    P."""

    N: int
    C: int
    H: int
    W: int
    F: int
    K: int
    S: int = 1
    D: int = 1
    P: int = 0
    in_dtype: Any = "float16"
    out_dtype: Any = "float16"
    accum_dtype: Any = "float32"
    with_bias: bool = False

    @property
    def out(self) -> tuple[int, int]:
        """Height and width of the result."""
        reach = self.D * (self.K - 1) + 1
        return (
            (self.H + 2 * self.P - reach) // self.S + 1,
            (self.W + 2 * self.P - reach) // self.S + 1,
        )

    def hints(self, gpu: bool) -> Iterator[Hint]:
        rows, depth = self.N * prod(self.out), self.C * self.K * self.K
        return _products(rows, self.F, depth, self.in_dtype, gpu)

    def program(self, hint: Hint) -> PrimFunc:
        N, H, W, C, F, K = self.N, self.H, self.W, self.C, self.F, self.K
        (bm, bn), bk = hint.block, hint.rstep[0]
        rows, depth = N * prod(self.out), C * K * K

        @T.prim_func
        def convolution(
            data: T.Tensor((N, H, W, C), self.in_dtype),
            kernel: T.Tensor((depth, F), self.in_dtype),
            out: T.Tensor((rows, F), self.out_dtype),
        ) -> None:
            with T.Kernel(T.ceildiv(F, bn), T.ceildiv(rows, bm), threads=hint.threads) as (bx, by):
                data_shared = T.alloc_shared((bm, bk), self.in_dtype)
                kernel_shared = T.alloc_shared((bk, bn), self.in_dtype)
                out_local = T.alloc_fragment((bm, bn), self.accum_dtype)
                T.clear(out_local)
                for k in T.Pipelined(T.ceildiv(depth, bk), num_stages=hint.pipeline_stage):
                    T.c2d_im2col(data, data_shared, by, k, K, self.S, self.D, self.P)
                    T.copy(kernel[k * bk, bx * bn], kernel_shared)
                    T.gemm(data_shared, kernel_shared, out_local)
                T.copy(out_local, out[by * bm, bx * bn])

        return convolution


@dataclass
class GEMVTemplate(Template):
    """``C[N] = A[K] @ B`` with B as [N, K] (``trans_B``), the layout that reads whole rows."""

    N: int
    K: int
    trans_B: bool = True
    in_dtype: Any = "float16"
    out_dtype: Any = "float16"
    accum_dtype: Any = "float32"
    with_bias: bool = False

    def hints(self, gpu: bool) -> Iterator[Hint]:
        for bn in _fitting(self.N, (1, 2, 4, 8, 16, 32, 64)):
            for bk in _fitting(self.K, (128, 256, 512, 1024)):
                for threads in (32, 64, 128, 256) if gpu else (32,):
                    yield Hint(
                        block=[bn], rstep=[bk], thread=[max(1, threads // 32)],
                        reduce_thread=[min(32, threads)], threads=threads,
                    )  # fmt: skip

    def program(self, hint: Hint) -> PrimFunc:
        N, K, bn, bk = self.N, self.K, hint.block[0], hint.rstep[0]
        accum, trans_B = self.accum_dtype, self.trans_B

        @T.prim_func
        def gemv(
            A: T.Tensor((K,), self.in_dtype),
            B: T.Tensor((N, K) if trans_B else (K, N), self.in_dtype),
            C: T.Tensor((N,), self.out_dtype),
        ) -> None:
            with T.Kernel(T.ceildiv(N, bn), threads=hint.threads) as bx:
                part = T.alloc_fragment((bn, bk), accum)
                total = T.alloc_fragment((bn,), accum)
                T.clear(part)
                for k in T.serial(T.ceildiv(K, bk)):
                    for i, j in T.Parallel(bn, bk):
                        part[i, j] += T.cast(A[k * bk + j], accum) * T.cast(
                            B[bx * bn + i, k * bk + j] if trans_B else B[k * bk + j, bx * bn + i],
                            accum,
                        )
                T.reduce_sum(part, total, dim=1)
                T.copy(total, C[bx * bn])

        return gemv


@dataclass
class ElementwiseTemplate(Template):
    """A function of each element of a tensor of ``shape``."""

    shape: Sequence[int]
    dtype: Any = "float16"

    def hints(self, gpu: bool) -> Iterator[Hint]:
        width = 128 // DType(self.dtype).bits  # elements of a 16-byte access
        for threads in (64, 128, 256, 512) if gpu else (128,):
            for each in (1, 2, 4, 8) if gpu else (8, 64, 512):
                yield Hint(
                    block=[threads * each * width], thread=[threads], step=[each], threads=threads,
                    vectorize={"0": width},
                )  # fmt: skip

    def program(self, hint: Hint) -> PrimFunc:
        count, block = prod(self.shape), hint.block[0]

        @T.prim_func
        def elementwise(
            A: T.Tensor((count,), self.dtype), B: T.Tensor((count,), self.dtype)
        ) -> None:
            with T.Kernel(T.ceildiv(count, block), threads=hint.threads) as bx:
                tile = T.alloc_fragment((block,), self.dtype)
                T.copy(A[bx * block], tile)
                for i in T.Parallel(block):
                    tile[i] = tile[i] + tile[i]
                T.copy(tile, B[bx * block])

        return elementwise


@dataclass
class GeneralReductionTemplate(Template):
    """A sum over the axes that ``structure`` calls "R", for each index of those called "S"."""

    structure: str
    shape: Sequence[int]
    dtype: Any = "float16"

    def __post_init__(self) -> None:
        kinds = set(self.structure)
        if len(self.structure) != len(self.shape) or kinds - {"S", "R"} or "R" not in kinds:
            raise TileValueError(
                "the structure of a reduction does not describe its shape",
                expected='an "S" or "R" for each axis, at least one "R"',
                got=f"{self.structure!r} for {tuple(self.shape)}",
            )

    @property
    def extents(self) -> tuple[int, int]:
        """Results, and elements that each is made of."""
        sizes = dict.fromkeys("SR", 1)
        for kind, extent in zip(self.structure, self.shape):
            sizes[kind] *= extent
        return sizes["S"], sizes["R"]

    def hints(self, gpu: bool) -> Iterator[Hint]:
        rows, depth = self.extents
        for bm in _fitting(rows, (1, 2, 4, 8, 16, 32)):
            for bk in _fitting(depth, (64, 128, 256, 512, 1024)):
                for threads in (64, 128, 256) if gpu else (64,):
                    yield Hint(
                        block=[bm], rstep=[bk], thread=[min(bm, threads)],
                        reduce_thread=[max(1, threads // bm)], threads=threads,
                    )  # fmt: skip

    def program(self, hint: Hint) -> PrimFunc:
        (rows, depth), bm, bk = self.extents, hint.block[0], hint.rstep[0]

        @T.prim_func
        def reduction(
            A: T.Tensor((rows, depth), self.dtype), B: T.Tensor((rows,), self.dtype)
        ) -> None:
            with T.Kernel(T.ceildiv(rows, bm), threads=hint.threads) as bx:
                part = T.alloc_fragment((bm, bk), "float32")
                total = T.alloc_fragment((bm,), "float32")
                T.clear(part)
                for k in T.serial(T.ceildiv(depth, bk)):
                    for i, j in T.Parallel(bm, bk):
                        part[i, j] += T.cast(A[bx * bm + i, k * bk + j], "float32")
                T.reduce_sum(part, total, dim=1)
                T.copy(total, B[bx * bm])

        return reduction


@dataclass
class FlashAttentionTemplate(Template):
    """Attention over [batch_size, num_heads, length, head_dim], as one kernel."""

    batch_size: int = 1
    num_heads: int = 1
    head_dim: int = 64
    seq_length: int = 1024
    seq_kv_length: int = 1024
    is_causal: bool = False
    in_dtype: Any = "float16"
    out_dtype: Any = "float16"
    accum_dtype: Any = "float32"

    def hints(self, gpu: bool) -> Iterator[Hint]:
        for bm in _fitting(self.seq_length, (32, 64, 128)):
            for bn in _fitting(self.seq_kv_length, (32, 64, 128)):
                for threads in (128, 256) if gpu else (128,):
                    for stages in (1, 2, 3) if gpu else (1,):
                        yield Hint(
                            block=[bm, self.head_dim], warp=_warps([bm, self.head_dim], threads),
                            rstep=[bn], pipeline_stage=stages, use_async=stages > 1, use_tc=gpu,
                            threads=threads,
                        )  # fmt: skip

    def program(self, hint: Hint) -> PrimFunc:
        heads, dim, accum = self.batch_size * self.num_heads, self.head_dim, self.accum_dtype
        M, N, bm, bn = self.seq_length, self.seq_kv_length, hint.block[0], hint.rstep[0]
        causal, scale = self.is_causal, 1.44269504 / dim**0.5  # exponentials of base 2

        @T.prim_func
        def attention(
            Q: T.Tensor((heads, M, dim), self.in_dtype),
            K: T.Tensor((heads, N, dim), self.in_dtype),
            V: T.Tensor((heads, N, dim), self.in_dtype),
            Out: T.Tensor((heads, M, dim), self.out_dtype),
        ) -> None:
            with T.Kernel(T.ceildiv(M, bm), heads, threads=hint.threads) as (bx, by):
                Q_shared = T.alloc_shared((bm, dim), self.in_dtype)
                K_shared = T.alloc_shared((bn, dim), self.in_dtype)
                V_shared = T.alloc_shared((bn, dim), self.in_dtype)
                scores = T.alloc_fragment((bm, bn), accum)
                weights = T.alloc_fragment((bm, bn), self.in_dtype)
                result = T.alloc_fragment((bm, dim), accum)
                top = T.alloc_fragment((bm,), accum)
                before = T.alloc_fragment((bm,), accum)
                sums = T.alloc_fragment((bm,), accum)
                total = T.alloc_fragment((bm,), accum)
                T.copy(Q[by, bx * bm : bx * bm + bm, :], Q_shared)
                T.clear(result)
                T.clear(total)
                T.fill(top, -T.infinity(accum))
                blocks = T.ceildiv(T.min(N, (bx + 1) * bm), bn) if causal else T.ceildiv(N, bn)
                for k in T.Pipelined(blocks, num_stages=hint.pipeline_stage):
                    T.copy(K[by, k * bn : k * bn + bn, :], K_shared)
                    for i, j in T.Parallel(bm, bn):
                        scores[i, j] = T.if_then_else(
                            k * bn + j < N and (bx * bm + i >= k * bn + j or not causal),
                            T.cast(0, accum),
                            -T.infinity(accum),
                        )
                    T.gemm(Q_shared, K_shared, scores, transpose_B=True)
                    T.copy(top, before)
                    T.reduce_max(scores, top, dim=1, clear=False)
                    for i, j in T.Parallel(bm, bn):
                        scores[i, j] = T.exp2((scores[i, j] - top[i]) * scale)
                    T.reduce_sum(scores, sums, dim=1)
                    for i in T.Parallel(bm):
                        before[i] = T.exp2((before[i] - top[i]) * scale)
                        total[i] = total[i] * before[i] + sums[i]
                    for i, j in T.Parallel(bm, dim):
                        result[i, j] *= before[i]
                    T.copy(scores, weights)
                    T.copy(V[by, k * bn : k * bn + bn, :], V_shared)
                    T.gemm(weights, V_shared, result)
                for i, j in T.Parallel(bm, dim):
                    result[i, j] /= total[i]
                T.copy(result, Out[by, bx * bm : bx * bm + bm, :])

        return attention
