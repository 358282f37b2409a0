"""One example program in a process of its own: what became of it, and how long its kernels took.

``examples.py`` starts this file once for each package; it imports torch a single time and forks a
process for each program. The programs are files with a ``__main__`` part, or
pytest files. Results are one JSON line each on the standard output.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import signal
import statistics
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Kernels of torch and of its libraries; what is left was compiled by the package.
FOREIGN = ("::", "void ", "cutlass", "cublas", "nvjet", "sm80_", "sm90_", "cudnn", "triton_", "Mem")


class _Timeout(BaseException):
    """Not an ``Exception``: programs catch those."""


def _expired(*_: object) -> None:
    raise _Timeout


def _few_repetitions() -> None:
    """Make the benchmarks of programs call their function ten times, for the profiler outside."""
    import tilelang.profiler as profiler

    def ten(function: Any, *_: object, **options: object) -> Any:
        for _again in range(10):
            function()
        many = options.get("quantiles")
        return [1.0] * len(many) if isinstance(many, (list, tuple)) else 1.0

    def ten_of(self: Any, func: Any = None, *_: object, **options: Any) -> Any:
        inputs = options.get("input_tensors") or self._get_inputs()
        called = func or self.__call__
        return ten(lambda: called(*inputs), **options)

    profiler.do_bench = ten  # type: ignore[assignment]  # the programs' name for it
    if hasattr(profiler.Profiler, "_get_inputs"):
        profiler.Profiler.do_bench = ten_of  # type: ignore[method-assign]


@contextlib.contextmanager
def _profiled(durations: dict[str, list[float]], on_gpu: bool) -> Iterator[None]:
    """Device microseconds of every kernel launched inside, by name."""
    if not on_gpu:
        yield
        return
    import torch
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as trace:
        try:
            yield
        finally:
            torch.cuda.synchronize()
    for event in trace.events():
        if str(event.device_type).endswith("CUDA") and not any(w in event.name for w in FOREIGN):
            durations.setdefault(event.name, []).append(float(event.device_time))


class _Outcomes:
    """A pytest plugin: the failures and their last lines."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.passed = 0

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            last = str(report.longrepr).strip().splitlines()[-1:]
            self.failures.append(f"{report.nodeid.split('::')[-1]}: {last[0] if last else ''}")
        elif report.when == "call" and report.passed:
            self.passed += 1


def _execute(path: Path) -> str:
    """Run the file; the text of what failed, empty if nothing did."""
    if not path.name.startswith("test_"):
        sys.argv = [str(path)]
        runpy.run_path(str(path), run_name="__main__")
        return ""
    import pytest

    outcomes = _Outcomes()
    status = pytest.main(["-q", "-p", "no:cacheprovider", "--no-header", str(path)], [outcomes])
    if outcomes.failures or not status:
        return "; ".join(outcomes.failures)
    return "" if status == 5 else f"pytest: {status!r}"


def _describe(error: BaseException) -> str:
    text = " ".join(str(error).split())
    places = [f for f in traceback.extract_tb(error.__traceback__) if "runpy" not in f.filename]
    where = f" ({Path(places[-1].filename).name}:{places[-1].lineno})" if places else ""
    return f"{type(error).__name__}: {text[:600]}{where}"


def run(path: Path, seconds: int, log: Path, timed: bool, on_gpu: bool) -> dict[str, Any]:
    """Run ``path`` in this process, which ends afterwards."""
    _count_calls()  # imports the package: another one may start CUDA, which no fork survives
    if timed or not on_gpu:
        _few_repetitions()
    os.chdir(path.parent)
    sys.path.insert(0, str(path.parent))
    kernels: dict[str, list[float]] = {}
    with log.open("w") as out, contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        signal.signal(signal.SIGALRM, _expired)
        signal.alarm(seconds)
        begin, failure = time.time(), ""
        try:
            with _profiled(kernels, timed and on_gpu):
                failure = _execute(path)
        except _Timeout:
            inside = " in a kernel" if _Calls.inside else ""
            failure = f"timeout{inside}"
        except SystemExit as stopped:
            failure = "" if not stopped.code else f"exit {stopped.code}"
        except BaseException as error:  # noqa: BLE001  # whatever the program raises is the result
            failure = _describe(error)
            traceback.print_exc()
        signal.alarm(0)
    return {
        "failure": failure,
        "seconds": round(time.time() - begin, 1),
        "kernels": {
            name: [len(times), statistics.median(times), sum(times)]
            for name, times in kernels.items()
        },
        "calls": _Calls.count,
    }


class _Calls:
    """How many kernels were called, and whether one is running."""

    count = 0
    inside = False


def _count_calls() -> None:
    from tilelang.jit.kernel import JITKernel

    call = JITKernel.__call__

    def counted(self: Any, *arguments: Any, **options: Any) -> Any:
        _Calls.count += 1
        _Calls.inside = True
        result = call(self, *arguments, **options)
        _Calls.inside = False
        return result

    JITKernel.__call__ = counted  # type: ignore[method-assign]


def _forked(path: Path, seconds: int, log: Path, timed: bool, on_gpu: bool) -> dict[str, Any]:
    """``run`` in a process of its own; one that hangs or crashes leaves the others alone."""
    answer = log.with_suffix(".json")
    answer.unlink(missing_ok=True)
    child = os.fork()
    if not child:
        os.setsid()
        with contextlib.suppress(BaseException):
            answer.write_text(json.dumps(run(path, seconds, log, timed, on_gpu)))
        os._exit(0)
    deadline = time.time() + seconds + 20
    ended, status = 0, 0
    while not ended and time.time() < deadline:
        time.sleep(0.05)
        ended, status = os.waitpid(child, os.WNOHANG)
    if not ended:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return {"failure": "timeout, killed", "seconds": seconds + 20, "kernels": {}, "calls": 0}
    if not answer.exists():
        return {"failure": f"died, status {status}", "seconds": 0, "kernels": {}, "calls": 0}
    return json.loads(answer.read_text())  # type: ignore[no-any-return]


def main() -> None:
    """``example_run.py SECONDS LOGS TIMED FILE...``"""
    seconds, logs, timed = int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "1"
    files = [Path(name) for name in sys.argv[4:]]
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != here]
    import torch

    on_gpu = Path("/dev/nvidiactl").exists()  # torch would start CUDA before the fork
    if not on_gpu:
        sys.path.insert(0, str(here))
        import without_gpu

        without_gpu.install()
        sys.path.remove(str(here))
    torch.manual_seed(0)
    for path in files:
        log = logs / ("_".join(path.parts[-2:]) + ".txt")
        result = _forked(path, seconds, log, timed, on_gpu)
        print(json.dumps({"file": "/".join(path.parts[-2:]), **result}), flush=True)


if __name__ == "__main__":
    main()
