"""Products over several devices that read each other's memory through tables of addresses.

``gathered_gemm`` multiplies the rows of all ranks with a rank's own columns and fetches the tiles
from their owners, so that no gather runs before. ``scattered_sum`` adds up the rows of a rank in
the partial products of all. Here the ranks are arrays of one process. On GPUs that reach each
other,

    torchrun --nproc-per-node 4 examples/peers.py

runs the same programs on symmetric memory of ``torch.distributed`` and times them beside NCCL and
cuBLAS.
"""

from __future__ import annotations

import os
from functools import partial

import numpy as np

import tilelang
import tilelang.language as T


def gathered_gemm(
    ranks: int, rows: int, N: int, K: int, block_M: int = 16, block_N: int = 32, block_K: int = 32
):
    """C = A @ B, where ``rows`` rows of A are at each of the addresses ``shards``."""
    blocks = T.ceildiv(rows, block_M)

    @T.prim_func
    def kernel(
        shards: T.Tensor((ranks,), T.ptr),
        B: T.Tensor((K, N), "float16"),
        C: T.Tensor((ranks, rows, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), blocks, ranks, threads=128) as (bx, by, rank):
            A = T.make_tensor(shards[rank], (rows, K), "float16")
            A_shared = T.alloc_shared((block_M, block_K), "float16")
            B_shared = T.alloc_shared((block_K, block_N), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, acc)
            T.copy(acc, C[rank, by * block_M, bx * block_N])

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


def main(backend: str = "auto") -> None:
    """Four ranks in this process: their shards and partial products are arrays."""
    ranks, rows, N, K = 4, 24, 40, 48
    compiled = partial(tilelang.compile, out_idx=-1, target="cpu", execution_backend=backend)
    rng = np.random.default_rng(0)
    shards = [rng.standard_normal((rows, K)).astype(np.float16) for _ in range(ranks)]
    table = np.array([shard.ctypes.data for shard in shards], np.int64)
    gemm = compiled(gathered_gemm(ranks, rows, N, K))
    gathered = np.concatenate(shards).astype(np.float32)
    partials = []
    for _ in range(ranks):
        b = rng.standard_normal((K, N)).astype(np.float16)
        partials.append(gemm(table, b))
        want = (gathered @ b.astype(np.float32)).reshape(ranks, rows, N)
        np.testing.assert_allclose(partials[-1], want, rtol=2e-3, atol=2e-2)
    table = np.array([product.ctypes.data for product in partials], np.int64)
    add = compiled(scattered_sum(ranks, rows, N))
    for rank in range(ranks):
        want = sum(product[rank].astype(np.float32) for product in partials)
        np.testing.assert_allclose(add(table, rank), want, rtol=2e-3, atol=2e-2)
    print(f"peers: {ranks} ranks read each other's rows")


def on_gpus(rows: int = 2048, N: int = 4096, K: int = 4096) -> None:
    """One rank of ``torchrun``: both steps on symmetric memory, beside NCCL and cuBLAS."""
    import torch
    import torch.distributed as dist
    import torch.distributed._symmetric_memory as symmetric

    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    rank, ranks, group = dist.get_rank(), dist.get_world_size(), dist.group.WORLD
    assert group is not None

    def shared(*shape: int):
        """A tensor that all ranks have, the addresses of all, and what makes ranks wait."""
        tensor = symmetric.empty(*shape, dtype=torch.float16, device=device)
        handle = symmetric.rendezvous(tensor, group)
        table = torch.tensor(list(handle.buffer_ptrs), dtype=torch.int64, device=device)
        return tensor, table, handle

    a, shards, of_shards = shared(rows, K)
    product, partials, of_partials = shared(ranks, rows, N)
    a.normal_()
    b = torch.randn(K, N, device=device).half()
    gemm = tilelang.compile(gathered_gemm(ranks, rows, N, K, 128, 128, 64), target="cuda")
    add = tilelang.compile(scattered_sum(ranks, rows, N), out_idx=-1, target="cuda")

    def ours():
        of_shards.barrier()
        gemm(shards, b, product)
        of_partials.barrier()
        return add(partials, rank)

    def theirs():
        gathered = torch.empty(ranks * rows, K, dtype=a.dtype, device=device)
        dist.all_gather_into_tensor(gathered, a)
        out = torch.empty(rows, N, dtype=a.dtype, device=device)
        dist.reduce_scatter_tensor(out, gathered @ b)
        return out

    torch.testing.assert_close(ours(), theirs(), rtol=2e-2, atol=1.0)
    for name, step in (("peers", ours), ("NCCL and cuBLAS", theirs)):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(5):
            step()
        start.record()
        for _ in range(20):
            step()
        stop.record()
        torch.cuda.synchronize()
        if rank == 0:
            print(f"{name}: {start.elapsed_time(stop) / 20:.3f} ms on {ranks} GPUs")
    dist.destroy_process_group()


if __name__ == "__main__":
    on_gpus() if "LOCAL_RANK" in os.environ else main()
