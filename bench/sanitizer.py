"""The examples on a GPU under the tools of NVIDIA's compute-sanitizer, and a table of reports.

    python bench/sanitizer.py [--tools memcheck racecheck ...] [--only softmax ...] [--jobs 8]

Each example runs in a process of its own for each tool, compares its results with numpy as always,
and counts as clean where both it and the tool have nothing to say. Needs torch and
``compute-sanitizer``, which a CUDA toolkit or the package nvidia-cuda-sanitizer-api brings. The
emulator finds the same and more on machines without a GPU: ``tilelang.sanitize``.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
# Apart from what runs other examples, and from what passes addresses in the host's memory.
NAMES = sorted({path.stem for path in EXAMPLES.glob("*.py")} - {"main", "peers"})
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
FOUND = 9  # the exit status that the tool is asked for
SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (.*)")


def run_here(name: str) -> None:
    """An example with its kernels on the GPU; calls take and give numpy arrays all the same."""
    sys.path.insert(0, str(ROOT))
    import numpy as np
    import torch

    from tilelang.jit import execution, kernel as jit_kernel
    from tilelang.target import parse_target

    build = execution.build

    def back(result: Any) -> Any:
        if isinstance(result, (list, tuple)):
            return type(result)(map(back, result))
        return result.cpu().numpy() if isinstance(result, torch.Tensor) else result

    def moved(array: np.ndarray, param: Any) -> Any:
        """To the GPU; bytes stand for the float8 that numpy has not."""
        tensor = torch.tensor(array).cuda()
        narrow = getattr(torch, str(param.dtype), None) if array.dtype == np.uint8 else None
        return tensor if narrow is None else tensor.view(narrow)

    def built(func: Any, out_idx: Any, target: Any, options: Any, backend: str) -> Any:
        kernel = build(func, out_idx, parse_target("cuda"), options, "auto")
        written = {i % len(func.params) for i in out_idx}

        def call(*args: Any) -> Any:
            inputs = [param for i, param in enumerate(func.params)
                      if i not in written or len(args) == len(func.params)]  # fmt: skip
            held = [moved(arg, param) if isinstance(arg, np.ndarray) else arg
                    for arg, param in zip(args, inputs)]  # fmt: skip
            result = kernel.call(*held)
            for arg, tensor in zip(args, held):
                if isinstance(arg, np.ndarray) and arg.flags.writeable:
                    arg[...] = tensor.view(torch.tensor(arg).dtype).cpu().numpy()
            return back(result)

        return replace(kernel, call=call)

    jit_kernel.build = built
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main("auto")


def find_sanitizer() -> str | None:
    """The path of compute-sanitizer, on the search path or in the usual toolkit."""
    folders = (os.environ.get("PATH", ""), "/usr/local/cuda/bin")
    return shutil.which("compute-sanitizer", path=os.pathsep.join(folders))


def checked(tool: str, name: str, seconds: float) -> str:
    """What a tool says of an example: "clean", or what is wrong."""
    sanitizer = find_sanitizer()
    if sanitizer is None:
        raise SystemExit("compute-sanitizer was not found on the search path or in /usr/local/cuda")
    words = [sanitizer, "--tool", tool, "--error-exitcode", str(FOUND)]
    words += [sys.executable, str(Path(__file__).resolve()), "--here", name]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return f"not done in {seconds:.0f} s"
    text = done.stdout + done.stderr
    said = SUMMARY.findall(text)
    if done.returncode == 0 and said:
        return "clean"
    lines = [line for line in text.splitlines() if line.strip()]
    first = next((line for line in lines if line.startswith("========= ")
                  and "COMPUTE-SANITIZER" not in line), lines[-1] if lines else "")  # fmt: skip
    return f"exit {done.returncode}; {said[-1] if said else 'no summary'}; {first.strip('= ')}"


def main() -> None:
    """Run, print a line for each example, and exit with 1 where anything was found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--tools", nargs="*", choices=TOOLS, default=TOOLS)
    parser.add_argument("--only", nargs="*", choices=NAMES, default=NAMES)
    parser.add_argument("--jobs", type=int, default=8, help="processes at the same time")
    parser.add_argument("--seconds", type=float, default=280, help="the most for each")
    parser.add_argument("--here", choices=NAMES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        run_here(options.here)
        return
    jobs = [(tool, name) for tool in options.tools for name in options.only]
    failed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for (tool, name), said in zip(
            jobs, pool.map(lambda job: checked(*job, options.seconds), jobs)
        ):
            failed += said != "clean"
            print(f"{tool:10} {name:24} {said}", flush=True)
    print(f"{len(jobs) - failed} of {len(jobs)} clean")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
