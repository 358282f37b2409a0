"""Random programs on tensors that share memory, and the same steps on views in plain numpy.

A program is a list of steps of each block: tiles are read from tensors and written to them, and
serial loops go from one tensor to another. Blocks have columns of their own in every tensor, so
that none reads what another writes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .model import Computed

Array = np.ndarray[Any, np.dtype[Any]]
NAMES, SIZE = "ABC", 4096
STEPS = ("read", "read", "write", "write", "both", "serial", "first")


@dataclass(frozen=True)
class View:
    """A tensor: where it begins in the memory of all, and its form."""

    name: str
    start: int
    dtype: str
    is_flat: bool


@dataclass
class _Program:
    """A program and its meaning."""

    rows: int
    columns: int
    views: list[View] = field(default_factory=list)
    steps: list[Callable[[dict[str, Array]], None]] = field(default_factory=list)

    def tensors(self, memory: Array) -> dict[str, Array]:
        """The tensors of a call, which are views of ``memory``."""
        total, found = self.rows * self.columns, {}
        for view in self.views:
            part = memory[view.start : view.start + total].view(view.dtype)
            found[view.name] = part if view.is_flat else part.reshape(self.rows, self.columns)
        return found

    def run(self, memory: Array) -> None:
        """What the program means."""
        space = {name: array.reshape(-1) for name, array in self.tensors(memory).items()}
        for kind in ("float32", "int32"):
            for number in range(2):
                space[f"{kind[0]}{number}"] = np.zeros(self.rows * self.columns, kind)
        with np.errstate(all="ignore"):
            for step in self.steps:
                step(space)


def make_overlaps(seed: int) -> Computed:
    """The program of one number."""
    rng = random.Random(seed)
    blocks = rng.choice((1, 1, 4))  # of columns
    rows, width = rng.choice((1, 4, 6)) if blocks == 1 else 4, rng.choice((8, 16, 40))
    made = _Program(rows, width * blocks)
    unit = (
        made.columns if blocks > 1 else 1
    )  # a tensor that begins rows later has columns in common
    for name in NAMES:
        start = unit * rng.choice((0, 0, 1, 2, 3, rows * made.columns // unit))
        dtype = rng.choice(("float32", "float32", "float32", "int32"))
        made.views.append(View(name, start, dtype, blocks == 1 and rng.random() < 0.3))
    params = [
        f'{v.name}: T.Tensor(({rows * width if v.is_flat else f"{rows}, {made.columns}"},), "{v.dtype}")'
        for v in made.views
    ]
    lines = [
        "import tilelang.language as T", "", "", "@T.prim_func", f"def main({', '.join(params)}):",
        f"    with T.Kernel({blocks}, threads=32) as bx:",
    ]  # fmt: skip
    for kind in ("float32", "int32"):
        for number in range(2):
            scope, tile = rng.choice(("shared", "fragment")), f"{kind[0]}{number}"
            lines.append(f'        {tile} = T.alloc_{scope}(({rows}, {width}), "{kind}")')
            lines.append(f"        T.clear({tile})")
    for _ in range(rng.randint(2, 6)):
        _add_step(made, rng, lines, width)
    memory = np.random.default_rng(seed).integers(-4, 5, SIZE).astype(np.float32)
    after = memory.copy()
    made.run(after)
    return Computed("\n".join(lines) + "\n", made.tensors(memory), made.tensors(after))


def _add_step(made: _Program, rng: random.Random, lines: list[str], width: int) -> None:
    to, from_ = rng.choice(made.views), rng.choice(made.views)
    number, what = rng.randint(1, 5), rng.choice(STEPS)
    tile, mate = rng.sample([f"{to.dtype[0]}0", f"{to.dtype[0]}1"], 2)
    loop = f"        for i, j in T.Parallel({made.rows}, {width}):\n            "
    if what == "read":
        lines.append(loop + f"{tile}[i, j] = {_element(to, width)} + {number}")
        made.steps.append(lambda s: _set(s[tile], s[to.name] + number))
    elif what == "write":
        lines.append(loop + f"{_element(to, width)} = {tile}[i, j] * {number}")
        made.steps.append(lambda s: _set(s[to.name], s[tile] * number))
    elif what == "both":
        lines.append(loop + f"{tile}[i, j] = {mate}[i, j] + {tile}[i, j]")
        made.steps.append(lambda s: _set(s[tile], s[mate] + s[tile]))
    elif from_.dtype == to.dtype and made.columns == width:
        serial = (
            f"        for i in T.serial({made.rows}):\n            for j in T.serial({width}):\n"
        )
        column = "j" if what == "serial" else "0"
        value = f"{_element(from_, width, column)} + {number}"
        lines.append(f"{serial}                {_element(to, width)} = {value}")

        def step(space: dict[str, Array]) -> None:
            for at in range(made.rows * width):
                source = at if what == "serial" else at // width * width
                space[to.name][at] = space[from_.name][source] + np.dtype(to.dtype).type(number)

        made.steps.append(step)


def _set(to: Array, values: Array) -> None:
    to[:] = values.astype(to.dtype)


def _element(view: View, width: int, column: str = "j") -> str:
    """An element of a tensor in a loop over ``i`` and ``j``."""
    return (
        f"{view.name}[i * {width} + {column}]"
        if view.is_flat
        else (f"{view.name}[i, bx * {width} + {column}]")
    )
