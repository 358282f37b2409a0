"""Random programs whose tile operations have a region for each thread, and the same in numpy.

A program is a list of steps with barriers between them. In a step each thread, or each for which a
condition holds, copies, fills, reduces, scans, transposes or adds a row of its own.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .model import Computed

Array = np.ndarray[Any, np.dtype[Any]]
THREADS, COLUMNS = (32, 64, 48), (16, 4, 9, 1)
Rows = Callable[[dict[str, Array], int], int]  # the row of a thread


@dataclass
class _Program:
    """Tensors ``A``, ``B`` and ``O`` and shared tiles ``S`` and ``R`` have a row for each thread;
    ``P`` is a permutation of the threads."""

    threads: int
    columns: int
    steps: list[Callable[[dict[str, Array]], None]] = field(default_factory=list)


def make_own_regions(seed: int) -> Computed:
    """The program of one number."""
    rng = random.Random(seed)
    program = _Program(rng.choice(THREADS), rng.choice(COLUMNS))
    lines: list[str] = []
    for _ in range(rng.randint(1, 4)):
        _step(program, rng, lines)
    shape = f"({program.threads}, {program.columns})"
    body = "\n        ".join(lines)
    source = f"""import tilelang.language as T


@T.prim_func
def main(A: T.Tensor({shape}, "float32"), B: T.Tensor({shape}, "float32"),
         O: T.Tensor({shape}, "float32"), P: T.Tensor(({program.threads},), "int32")):
    with T.Kernel(1, threads={program.threads}):
        tx = T.get_thread_binding()
        S = T.alloc_shared({shape}, "float32")
        R = T.alloc_shared({shape}, "float32")
        T.clear(S)
        T.clear(R)
        T.sync_threads()
        {body}
        for i, j in T.Parallel{shape}:
            O[i, j] += S[i, j] + 3 * R[i, j]
"""
    numbers = np.random.default_rng(seed)
    size = (program.threads, program.columns)
    inputs = {name: numbers.integers(-4, 5, size).astype(np.float32) for name in "ABO"}
    inputs["P"] = numbers.permutation(program.threads).astype(np.int32)
    space = {name: array.copy() for name, array in inputs.items()}
    space |= {name: np.zeros(size, np.float32) for name in "SR"}
    for step in program.steps:
        step(space)
    space["O"] += space["S"] + 3 * space["R"]
    return Computed(source, inputs, {name: space[name] for name in "BO"})


def _row(rng: random.Random, threads: int, source: bool) -> tuple[str, Rows]:
    """An expression of the row of thread ``tx``, and its value; of a source any, of others one
    that no other thread has."""
    shift = rng.randrange(threads)
    forms: list[tuple[str, Rows]] = [
        ("tx", lambda _, t: t),
        (f"{threads - 1} - tx", lambda _, t: threads - 1 - t),
        (f"(tx + {shift}) % {threads}", lambda _, t: (t + shift) % threads),
        ("P[tx]", lambda space, t: int(space["P"][t])),
    ]
    if source:
        forms += [("tx // 2", lambda _, t: t // 2), ("tx % 8", lambda _, t: t % 8)]
    return rng.choice(forms)


def _step(program: _Program, rng: random.Random, lines: list[str]) -> None:
    threads, n = program.threads, program.columns
    src, dst = rng.choice(("AS", "AR", "SB", "RO", "SR", "SR", "AB", "BS"))
    (read, from_), (write, to) = _row(rng, threads, True), _row(rng, threads, False)
    limit, number = rng.randrange(2, threads), rng.randint(-3, 3)
    conditions: list[tuple[str, Callable[[dict[str, Array], int], bool]]] = [
        ("", lambda _, t: True),
        (f"tx < {limit}", lambda _, t: t < limit),
        ("P[tx] % 2 == 0", lambda space, t: bool(space["P"][t] % 2 == 0)),
    ]
    condition, holds = rng.choice(conditions)
    a, b = f"{src}[{read}, 0:{n}]", f"{dst}[{write}, 0:{n}]"
    rows = {
        f"T.copy({a}, {b})": lambda old, new: old,
        f"T.fill({b}, {number})": lambda old, new: np.full_like(new, number),
        f"T.fill({b}, {src}[{read}, {n - 1}])": lambda old, new: np.full_like(new, old[-1]),
        f"T.atomic_add({b}, {a})": lambda old, new: new + old,
    }
    if src + dst == "SR":
        rows[f"T.cumsum({a}, {b}, dim=1)"] = lambda old, new: np.cumsum(old)
        rows[f"T.reduce_sum({a}, {dst}[{write}, 0:1], dim=1)"] = _reduced
    if src == "A" and dst in "SR":
        rows[f"T.async_copy({a}, {b})"] = lambda old, new: old
    text = rng.choice(list(rows))
    lines.append(f"if {condition}:" if condition else "if True:")
    lines.append("    " + text)
    if text.startswith("T.async"):
        lines.append("T.ptx_wait_group(0)")
    lines.append("T.sync_threads()")

    def meaning(space: dict[str, Array]) -> None:
        before = space[src].copy()
        for t in range(threads):
            if holds(space, t):
                row = to(space, t)
                space[dst][row] = rows[text](before[from_(space, t)], space[dst][row])

    program.steps.append(meaning)


def _reduced(old: Array, new: Array) -> Array:
    return np.concatenate(([old.sum()], new[1:]))
