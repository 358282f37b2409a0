"""How many configurations a second one, two, ... GPUs measure side by side in one search.

    python bench/tuner_devices.py [--devices 2] [--every 3] [--rep 100]

The kernels of a product of 4096^3 are compiled first. Then the same configurations are measured
for ``--rep`` milliseconds each on the first GPU, on the first two, and so on up to ``--devices``.
Counted is the time between the first and the last answer, so that neither the start of processes
nor the last rounds, which are on one GPU by design, are in it; ``share`` is the rate to that of one
GPU times the number of GPUs.
"""

from __future__ import annotations

import argparse
import time
from types import SimpleNamespace

import h200_programs
import tuners

import tilelang
from tilelang.autotuner import AutoTuner
from tilelang.autotuner.trials import Trials


def rate(count: int, every: int, rep: float) -> tuple[float, int]:
    """Configurations a second on ``count`` GPUs, and how many there were."""
    answers: list[float] = []

    def everything(trials: Trials, _seed: int) -> None:
        for _ in trials.each():
            answers.append(time.perf_counter())

    tuner = AutoTuner.from_kernel(tuners.gemm, tuners.GEMM[::every])
    tuner.set_compile_args(out_idx=[-1], target="cuda")
    tuner.set_profile_args(skip_check=True, strategy=everything, seed=count, early_stop=False)
    tuner.run(warmup=5, rep=rep, benchmark_devices=list(range(count)))
    return (len(answers) - count) / (answers[-1] - answers[count - 1]), len(answers)


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--devices", type=int, default=2)
    parser.add_argument("--every", type=int, default=3, help="take each of so many configurations")
    parser.add_argument("--rep", type=float, default=100.0)
    options = parser.parse_args()
    # The programs compile themselves; here the tuner does.
    h200_programs.tilelang = SimpleNamespace(compile=lambda func, **_: func)
    rate(1, options.every, 1.0)  # compiles
    alone = 0.0
    for count in range(1, options.devices + 1):
        speed, configs = rate(count, options.every, options.rep)
        alone = alone or speed
        share = speed / alone / count
        print(f"{count} GPUs: {speed:6.1f} of {configs} configurations a second, share {share:.3f}")


if __name__ == "__main__":
    print(f"tilelang {tilelang.__version__}")
    main()
