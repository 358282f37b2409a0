"""Products over several devices that access each other's memory through address tables.

``gathered_gemm`` multiplies the rows of all ranks by the columns of one rank. It fetches tiles from
their owners, so no gather runs first. A large product needs each tile often and transfers it each
time. For such products ``fetched`` transfers the rows once, or copy engines transfer them while
``product`` multiplies the rank's own rows. ``scattered_sum`` adds up a rank's rows of the partial
products of all ranks. Here the ranks are arrays of one process. On GPUs with peer access, which
NVLink or PCIe gives,

    torchrun --nproc-per-node 2 examples/peers.py

runs the same programs on symmetric memory of ``torch.distributed`` and compares them with NCCL and
cuBLAS.
"""

from __future__ import annotations

import os
from functools import partial

import numpy as np

import tilelang
import tilelang.language as T


def gathered_gemm(
    ranks: int, rows: int, N: int, K: int, block_M: int = 16, block_N: int = 32, block_K: int = 32,
    stages: int = 2, threads: int = 128,
):  # fmt: skip
    """C = A @ B, where ``rows`` rows of A are at each of the addresses ``shards``."""
    blocks = T.ceildiv(rows, block_M)

    @T.prim_func
    def kernel(
        shards: T.Tensor((ranks,), T.ptr),
        own: T.int32,
        B: T.Tensor((K, N), "float16"),
        C: T.Tensor((ranks, rows, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), blocks, ranks, threads=threads) as (bx, by, turn):
            rank = (own + turn) % ranks  # no two ranks read from one rank at a time
            A = T.make_tensor(shards[rank], (rows, K), "float16")
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            B_shared = T.alloc_shared((block_K, block_N), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, acc)
            T.copy(acc, C[rank, by * block_M, bx * block_N])

    return kernel


def fetched(ranks: int, rows: int, K: int, block_M: int = 8, block_K: int = 64):
    """A[rank] = the rows at the address ``shards[rank]``, for all ranks but this one."""

    @T.prim_func
    def kernel(
        shards: T.Tensor((ranks,), T.ptr),
        own: T.int32,
        A: T.Tensor((ranks, rows, K), "float16"),
    ):
        grid = T.ceildiv(K, block_K), T.ceildiv(rows, block_M), ranks - 1
        with T.Kernel(*grid, threads=128) as (bx, by, turn):
            rank = (own + 1 + turn) % ranks
            there = T.make_tensor(shards[rank], (rows, K), "float16")
            part = T.alloc_fragment((block_M, block_K), "float16")
            T.copy(there[by * block_M, bx * block_K], part)
            T.copy(part, A[rank, by * block_M, bx * block_K])

    return kernel


def scattered_sum(ranks: int, rows: int, N: int, block_M: int = 8, block_N: int = 64):
    """C[i, j] = the sum of P[rank * rows + i, j] over the partial products P at ``partials``."""

    @T.prim_func
    def kernel(
        partials: T.Tensor((ranks,), T.ptr),
        rank: T.int32,
        C: T.Tensor((rows, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(rows, block_M), threads=128) as (bx, by):
            part = T.alloc_fragment((block_M, block_N), "float16")
            total = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(total)
            for peer in T.serial(ranks):
                P = T.make_tensor(partials[peer], (ranks, rows, N), "float16")
                T.copy(P[rank, by * block_M, bx * block_N], part)
                for i, j in T.Parallel(block_M, block_N):
                    total[i, j] += part[i, j]
            T.copy(total, C[by * block_M, bx * block_N])

    return kernel


def product(
    rows: int, N: int, K: int, block_M: int = 16, block_N: int = 32, block_K: int = 32,
    stages: int = 2, threads: int = 128,
):  # fmt: skip
    """C = A @ B for the rows of one rank."""

    @T.prim_func
    def kernel(
        A: T.Tensor((rows, K), "float16"),
        B: T.Tensor((K, N), "float16"),
        C: T.Tensor((rows, N), "float16"),
    ):
        grid = T.ceildiv(N, block_N), T.ceildiv(rows, block_M)
        with T.Kernel(*grid, threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            B_shared = T.alloc_shared((block_K, block_N), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            C_shared = T.alloc_shared((block_M, block_N), "float16")
            T.use_swizzle(10)
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, acc)
            T.copy(acc, C_shared)
            T.copy(C_shared, C[by * block_M, bx * block_N])

    return kernel


def main(backend: str = "auto") -> None:
    """Four ranks in this process: their shards and partial products are arrays."""
    ranks, rows, N, K = 4, 24, 40, 48
    compiled = partial(tilelang.compile, target="cpu", execution_backend=backend)
    rng = np.random.default_rng(0)
    shards = [rng.standard_normal((rows, K)).astype(np.float16) for _ in range(ranks)]
    columns = [rng.standard_normal((K, N)).astype(np.float16) for _ in range(ranks)]
    gathered = np.concatenate(shards).astype(np.float32)
    wanted = [(gathered @ b.astype(np.float32)).reshape(ranks, rows, N) for b in columns]

    table = np.array([shard.ctypes.data for shard in shards], np.int64)
    gemm = compiled(gathered_gemm(ranks, rows, N, K), out_idx=-1)
    partials = [gemm(table, rank, b) for rank, b in enumerate(columns)]
    fetch, multiply = compiled(fetched(ranks, rows, K)), compiled(product(rows, N, K))
    for rank, (b, want) in enumerate(zip(columns, wanted)):
        np.testing.assert_allclose(partials[rank], want, rtol=2e-3, atol=2e-2)
        here = np.empty((ranks, rows, K), np.float16)
        results = np.empty((ranks, rows, N), np.float16)
        fetch(table, rank, here)
        for owner in range(ranks):
            multiply(shards[rank] if owner == rank else here[owner], b, results[owner])
        np.testing.assert_allclose(results, want, rtol=2e-3, atol=2e-2)

    table = np.array([partial.ctypes.data for partial in partials], np.int64)
    add = compiled(scattered_sum(ranks, rows, N), out_idx=-1)
    for rank in range(ranks):
        want = sum(partial[rank].astype(np.float32) for partial in partials)
        np.testing.assert_allclose(add(table, rank), want, rtol=2e-3, atol=2e-2)
    print(f"peers: {ranks} ranks read each other's rows")


def on_gpus(tokens: int = 4096, N: int = 4096, K: int = 4096) -> None:
    """One rank of ``torchrun``: an all-gather before a product, and a reduce-scatter after one."""
    import torch
    import torch.distributed as dist
    import torch.distributed._symmetric_memory as symmetric

    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    rank, ranks, group = dist.get_rank(), dist.get_world_size(), dist.group.WORLD
    assert group is not None
    rows = tokens // ranks
    empty = partial(torch.empty, dtype=torch.float16, device=device)

    def shared(*shape: int):
        """Return a tensor of this rank, the addresses of all ranks' tensors, and its handle."""
        tensor = symmetric.empty(*shape, dtype=torch.float16, device=device)
        handle = symmetric.rendezvous(tensor, group)
        table = torch.tensor(list(handle.buffer_ptrs), dtype=torch.int64, device=device)
        return tensor, table, handle

    own, shards, of_shards = shared(rows, K)
    partial_product, partials, of_partials = shared(ranks, rows, N)
    own.normal_()
    a, b = empty(ranks, rows, K).normal_(), empty(K, N).normal_()
    gathered = empty(ranks, rows, K)
    tiles = 128, 256, 64, 3, 256
    fused = tilelang.compile(gathered_gemm(ranks, rows, N, K, *tiles), target="cuda")
    fetch = tilelang.compile(fetched(ranks, rows, K, 32, 128), target="cuda")
    add = tilelang.compile(scattered_sum(ranks, rows, N, 32, 128), out_idx=-1, target="cuda")
    gemm = tilelang.compile(product(rows, N, K, *tiles), target="cuda")

    def gather_by_tiles():
        out = empty(ranks, rows, N)
        of_shards.barrier()
        fused(shards, rank, b, out)
        return out

    def gather_by_rows():
        out = empty(ranks, rows, N)
        of_shards.barrier()
        fetch(shards, rank, gathered)
        for peer in range(ranks):
            gemm(own if peer == rank else gathered[peer], b, out[peer])
        return out

    there = [of_shards.get_buffer(peer, (rows, K), torch.float16) for peer in range(ranks)]
    copies = torch.cuda.Stream()

    def gather_by_copies():
        out, here = empty(ranks, rows, N), torch.cuda.current_stream()
        of_shards.barrier()
        copies.wait_stream(here)  # all rows are written, and the last call has read its tiles
        others, arrived = [(rank + step) % ranks for step in range(1, ranks)], []
        with torch.cuda.stream(copies):
            for peer in others:
                gathered[peer].copy_(there[peer], non_blocking=True)
                arrived.append(copies.record_event())
        gemm(own, b, out[rank])
        for peer, event in zip(others, arrived):
            here.wait_event(event)
            gemm(gathered[peer], b, out[peer])
        return out

    def gather_by_nccl():
        whole = empty(ranks, rows, K)
        dist.all_gather_into_tensor(whole, own)
        return whole @ b

    def scatter_by_rows():
        of_partials.barrier(channel=0)  # all ranks have read the results of the last call
        for peer in range(ranks):
            gemm(a[peer], b, partial_product[peer])
        of_partials.barrier(channel=1)
        return add(partials, rank)

    def scatter_by_nccl():
        out = empty(rows, N)
        dist.reduce_scatter_tensor(out, (a @ b).view(-1, N))
        return out

    def milliseconds(step) -> float:
        """Return the time of a call on the slowest rank."""
        for _ in range(5):
            step()
        dist.barrier()
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(30):
            step()
        stop.record()
        torch.cuda.synchronize()
        elapsed = torch.tensor(start.elapsed_time(stop) / 30, device=device)
        dist.all_reduce(elapsed, dist.ReduceOp.MAX)
        return float(elapsed)

    rows_of = {
        "all-gather and product": (
            gather_by_nccl, gather_by_tiles, gather_by_rows, gather_by_copies,
        ),
        "product and reduce-scatter": (scatter_by_nccl, scatter_by_rows),
    }  # fmt: skip
    for name, (theirs, *ours) in rows_of.items():
        times = {"NCCL and cuBLAS": milliseconds(theirs)}
        for step in ours:
            torch.testing.assert_close(step(), theirs(), rtol=2e-2, atol=1.0)
            times[step.__name__.split("_by_")[1]] = milliseconds(step)
        if rank == 0:
            listed = ", ".join(f"{way} {time:.3f} ms" for way, time in times.items())
            print(f"{name} on {ranks} GPUs: {listed}")
    dist.destroy_process_group()


if __name__ == "__main__":
    on_gpus() if "LOCAL_RANK" in os.environ else main()
