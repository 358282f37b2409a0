"""Many compilations on a Dask cluster and on Ray, with a worker killed on the way.

    python bench/cluster.py [--programs 200] [--workers 4] [--only one,dask,ray] [--target cpu]

Each way compiles the same programs, with a cache of its own, so that every one is cold: ``one`` by
the threads of this process, ``dask`` and ``ray`` by worker processes of this machine, one of which
is killed (SIGKILL) when a quarter of the programs is done. Every kernel for the CPU is called and
checked. Printed are seconds, programs per second, and the rate beside that of ``one``. Rows of Dask
and Ray need ``dask[distributed]`` and ``ray``.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

import tilelang
import tilelang.language as T


def program(number: int) -> Any:
    """A program that no other number has: its constant and its width differ."""
    width = 64 + number

    @T.prim_func
    def scaled_sums(
        X: T.Tensor((32, width), "float32"),
        S: T.Tensor((32,), "float32"),
        Y: T.Tensor((32, width), "float32"),
    ):
        with T.Kernel(2, threads=64) as block:
            x = T.alloc_fragment((16, width), "float32")
            total = T.alloc_fragment((16,), "float32")
            T.copy(X[block * 16, 0], x)
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(16, width):
                x[i, j] = x[i, j] * number + total[i]
            T.copy(x, Y[block * 16, 0])
            T.copy(total, S[block * 16])

    return scaled_sums


def check(number: int, kernel: Any) -> None:
    """The kernel of ``program(number)`` computes what numpy says."""
    x = np.random.default_rng(number).standard_normal((32, 64 + number)).astype(np.float32)
    sums, y = kernel(x)
    np.testing.assert_allclose(sums, x.sum(axis=1), atol=1e-3)
    np.testing.assert_allclose(y, x * number + x.sum(axis=1)[:, None], atol=1e-2)


@contextmanager
def killing(pids: list[int], when: Callable[[], bool]) -> Iterator[None]:
    """Kill the first of ``pids`` as soon as ``when`` says so."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(0.02):
            if when():
                os.kill(pids[0], signal.SIGKILL)
                print(f"  killed worker {pids[0]}")
                return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class Counted:
    """An executor that counts what is done; otherwise the one that it holds."""

    def __init__(self, submit: Callable[..., Any]) -> None:
        self._submit = submit
        self.done = 0

    def submit(self, function: Callable[..., Any], *args: Any) -> Any:
        future = self._submit(function, *args)
        future.add_done_callback(lambda _: setattr(self, "done", self.done + 1))
        return future


def compiled(count: int, target: str, executor: Any = None) -> tuple[float, list[Any]]:
    """Seconds and kernels of the first ``count`` programs."""
    programs = [program(number) for number in range(count)]
    start = time.perf_counter()
    kernels = tilelang.par_compile(programs, out_idx=[1, 2], target=target, executor=executor)
    return time.perf_counter() - start, kernels


def by_dask(count: int, workers: int, target: str) -> tuple[float, list[Any]]:
    """On a Dask cluster of this machine."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.run(__import__, "tilelang")
        pids = list(client.run(os.getpid).values())
        counted = Counted(lambda function, *args: client.submit(function, *args, pure=False))
        with killing(pids, lambda: counted.done >= count // 4):
            return compiled(count, target, counted)


def by_ray(count: int, workers: int, target: str) -> tuple[float, list[Any]]:
    """On Ray of this machine."""
    import ray

    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
    try:
        pid = ray.remote(lambda: (time.sleep(1), os.getpid(), __import__("tilelang"))[1])
        pids = list({*ray.get([pid.remote() for _ in range(workers)])})

        def submit(function: Callable[..., Any], *args: Any) -> Any:
            return ray.remote(function).options(max_retries=3).remote(*args).future()

        counted = Counted(submit)
        with killing(pids, lambda: counted.done >= count // 4):
            return compiled(count, target, counted)
    finally:
        ray.shutdown()


def main() -> None:
    """Print a line for each way."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--programs", type=int, default=200)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--only", default="one,dask,ray")
    parser.add_argument("--target", default="cpu")
    options = parser.parse_args()
    ways: dict[str, Callable[[], tuple[float, list[Any]]]] = {
        "one": lambda: compiled(options.programs, options.target),
        "dask": lambda: by_dask(options.programs, options.workers, options.target),
        "ray": lambda: by_ray(options.programs, options.workers, options.target),
    }
    base = 0.0
    for name in options.only.split(","):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["TILELANG_CACHE_DIR"] = folder
            took, kernels = ways[name]()
            if options.target == "cpu":
                for number, kernel in enumerate(kernels):
                    check(number, kernel)
        rate = len(kernels) / took
        base = base or rate
        figures = f"{took:7.1f} s  {rate:6.2f} a second  {rate / base:5.2f}"
        print(f"{name:6} {len(kernels)} kernels right  {figures}")


if __name__ == "__main__":
    main()
