"""Programs of one statement each, over all dtypes and memories, compared with what numpy computes.

A cell is one kernel: tiles are filled from tensors, one statement is executed, and the result is
copied back. ``mark`` is the line of the statement, which is the one that an error has to name.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .model import encode

PACKED = ("int4", "uint4", "float4_e2m1fn")
FOUR_BITS = (0, 0.5, 1, 1.5, 2, 3, 4, 6)  # the numbers of float4_e2m1fn
DTYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", *PACKED,
)  # fmt: skip
MEMORIES = ("global", "shared", "shared.dyn", "fragment", "local")
Update = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Cell:
    """A kernel over tensors A, B, ...: their shapes, dtypes and contents before and after."""

    name: str
    lines: list[str]
    mark: str
    shapes: list[tuple[int, ...]]
    dtypes: list[str]
    given: list[np.ndarray]
    wanted: list[np.ndarray]


def source(cells: list[Cell]) -> str:
    """A program with a kernel for each cell; the tensors have the number of their cell."""
    params, body = [], []
    for at, cell in enumerate(cells):
        for name, shape, dtype in zip("ABC", cell.shapes, cell.dtypes):
            params.append(f"    {name}{at}: T.Tensor({shape}, {dtype!r}),")
        body += ["    " + re.sub(r"\b([ABC])\b", rf"\g<1>{at}", line) for line in cell.lines]
    head = ["import tilelang.language as T", "", "@T.prim_func", "def main("]
    return "\n".join([*head, *params, "):", *body]) + "\n"


def stored(values: np.ndarray, dtype: str) -> np.ndarray:
    """The storage of ``values``, which ``dtype`` holds exactly."""
    if dtype in PACKED:
        codes = values.astype(np.int64) & 15
        if dtype == "float4_e2m1fn":
            size = np.searchsorted(FOUR_BITS, np.abs(values))
            codes = size | np.where(values < 0, 8, 0)
        pairs = (codes[..., 0::2] | codes[..., 1::2] << 4).astype(np.uint8)
        return pairs.view(np.int8) if dtype == "int4" else pairs
    if "float" in dtype:
        return encode(values.astype(np.float64), dtype)
    return values.astype(dtype)


def numbers(shape: tuple[int, ...], dtypes: tuple[str, ...], seed: int) -> np.ndarray:
    """Small numbers that all of ``dtypes`` have."""
    rng = np.random.default_rng(seed)
    if "bool" in dtypes:
        return rng.integers(0, 2, shape)
    low = 0 if any(dtype.startswith("u") for dtype in dtypes) else -4
    return rng.choice([n for n in range(low, 7) if abs(n) != 5], shape)


def tile(memory: str, name: str, shape: tuple[int, ...], dtype: str) -> str:
    """The line that allocates a tile."""
    kind = memory.partition(".")[0]
    scope = ', scope="shared"' if memory == "shared" else ""
    return f'{name} = T.alloc_{kind}({shape}, "{dtype}"{scope})'


# -- copies ----------------------------------------------------------------------------------------
def _part(into: tuple[slice | int, ...], of: tuple[slice | int, ...]) -> Update:
    def update(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        result = b.copy()
        result[into] = a[of]
        return result

    return update


def _outside(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    result = np.zeros_like(b)
    result[:3, :4] = a[5:, 12:]
    return result


# The shapes of source and destination, the operands, and the meaning.
COPIES: dict[str, tuple[tuple[int, ...], tuple[int, ...], str, str, Update]] = {
    "whole": ((16, 32), (16, 32), "S", "D", lambda a, b: a),
    "row": ((64,), (64,), "S", "D", lambda a, b: a),
    "regions": ((16, 32), (16, 32), "S[3:15, 6:20]", "D[1:13, 0:14]",
                _part(np.s_[1:13, 0:14], np.s_[3:15, 6:20])),
    "odd": ((8, 10), (6, 14), "S[2:5, 3:8]", "D[1:4, 1:6]",
            _part(np.s_[1:4, 1:6], np.s_[2:5, 3:8])),
    "from": ((16, 32), (4, 8), "S[5, 6]", "D", lambda a, b: a[5:9, 6:14]),
    "to": ((4, 8), (16, 32), "S", "D[5, 6]", _part(np.s_[5:9, 6:14], np.s_[:, :])),
    "plane": ((3, 8, 16), (8, 16), "S[1, :, :]", "D", lambda a, b: a[1]),
    "to plane": ((8, 16), (3, 8, 16), "S", "D[1, :, :]", _part(np.s_[1, :, :], np.s_[:, :])),
    "column": ((8, 16), (8,), "S[:, 6]", "D", lambda a, b: a[:, 6]),
    "columns": ((8, 16), (8, 12), "S[:, 6]", "D[:, 3]", _part(np.s_[:, 3], np.s_[:, 6])),
    "element": ((4, 8), (4, 8), "S[1, 2]", "D[2, 3]", _part(np.s_[2, 3], np.s_[1, 2])),
    "outside": ((8, 16), (8, 8), "S[5, 12]", "D", _outside),
    "to outside": ((8, 8), (8, 16), "S", "D[5, 12]", _part(np.s_[5:, 12:], np.s_[:3, :4])),
}  # fmt: skip


def _around(
    memories: tuple[str, str], shapes: list[tuple[int, ...]], dtypes: list[str], text: str
) -> tuple[list[str], str]:
    """A kernel around a statement on S and D, and the line of the statement."""
    own = "local" in memories
    lines, after = [f"with T.Kernel(1, threads={1 if own else 32}):"], []
    for operand, tensor, memory, shape, dtype in zip("SD", "AB", memories, shapes, dtypes):
        name = tensor
        if memory != "global":
            name = operand.lower()
            lines += [f"    {tile(memory, name, shape, dtype)}", f"    T.copy({tensor}, {name})"]
            after = [f"    T.copy({name}, {tensor})"] if operand == "D" else []
        text = re.sub(rf"\b{operand}\b", name, text)
    return [*lines, *(f"    {line}" for line in text.splitlines()), *after], text


def copy(name: str, of: str, dtype: str, from_memory: str, memory: str) -> Cell | None:
    """A copy between two memories and dtypes."""
    given, result, src, dst, update = COPIES[name]
    packed = (of in PACKED and given[-1] % 2) or (dtype in PACKED and result[-1] % 2)
    if packed or ("outside" in name and "global" != (memory if "to" in name else from_memory)):
        return None
    dtypes, shapes = [of, dtype], [given, result]
    lines, mark = _around((from_memory, memory), shapes, dtypes, f"T.copy({src}, {dst})")
    a, b = numbers(given, (of, dtype), 1), numbers(result, (of, dtype), 2)
    return Cell(
        f"copy {name} {of} {dtype} {from_memory} {memory}", lines, mark, shapes, dtypes,
        [stored(a, of), stored(b, dtype)], [stored(update(a, b), dtype)],
    )  # fmt: skip


FILLS = {
    "whole": ("D", np.s_[:, :]), "region": ("D[3:8, 5:12]", np.s_[3:8, 5:12]),
    "row": ("D[3, :]", np.s_[3, :]), "element": ("D[3, 5]", np.s_[3, 5]),
}  # fmt: skip


def fill(name: str, dtype: str, memory: str, text: str) -> Cell:
    """``T.fill`` or ``T.clear``."""
    shape, (dst, where) = (8, 16), FILLS[name]
    shapes, dtypes = [shape, shape], [dtype, dtype]
    lines, mark = _around(("global", memory), shapes, dtypes, text.format(dst))
    a, b = np.ones(shape, np.int64), numbers(shape, (dtype,), 2)
    result = b.copy()
    result[where] = 0 if "clear" in text else 1
    return Cell(
        f"{text} {name} {dtype} {memory}", lines, mark, shapes, dtypes,
        [stored(a, dtype), stored(b, dtype)], [stored(result, dtype)],
    )  # fmt: skip


# -- atomics ---------------------------------------------------------------------------------------
COUNT = 64
UPDATES: dict[str, Update] = {
    "add": lambda a, b: a + b, "max": np.maximum, "min": np.minimum, "or": lambda a, b: a | b,
}  # fmt: skip
EACH = f"for i in T.Parallel({COUNT}):\n    "
# The statement, and the elements of B and A that it updates and reads.
FORMS: dict[str, tuple[str, slice, slice]] = {
    "elements": (EACH + "T.atomic_{}(D[i], S[i])", np.s_[:], np.s_[:]),
    "previous": (EACH + "C[i] = T.atomic_{}(D[i], S[i], return_prev=True)", np.s_[:], np.s_[:]),
    "tile": ("T.atomic_{}(D, S)", np.s_[:], np.s_[:]),
    "ordered": ('T.atomic_{}(D, S, memory_order="acq_rel")', np.s_[:], np.s_[:]),
    "region": ("T.atomic_{}(D[3:19], S[5:21])", np.s_[3:19], np.s_[5:21]),
    "start": ("T.atomic_{}(D[3], S[5:21])", np.s_[3:19], np.s_[5:21]),
}  # fmt: skip


def atomic(op: str, dtype: str, from_memory: str, memory: str, name: str) -> Cell:
    """An atomic update of a tile or of all elements."""
    text, where, of = FORMS[name]
    shapes, dtypes = [(COUNT,)] * 3, [dtype] * 3
    lines, mark = _around((from_memory, memory), shapes, dtypes, text.format(op))
    a, b = numbers((COUNT,), (dtype,), 1), numbers((COUNT,), (dtype,), 2)
    result = b.copy()
    result[where] = UPDATES[op](a[of], b[where])
    before = b if name == "previous" else b * 0
    return Cell(
        f"{op} {name} {dtype} {from_memory} {memory}", lines, mark, shapes, dtypes,
        [stored(b, dtype) if at == "B" else stored(a if at == "A" else b * 0, dtype)
         for at in "ABC"],
        [stored(result, dtype), stored(before, dtype)],
    )  # fmt: skip


def access(text: str, dtype: str, memory: str) -> Cell:
    """An atomic load or store of each element."""
    memories = ("global", memory) if "store" in text else (memory, "global")
    shapes, dtypes = [(COUNT,)] * 2, [dtype] * 2
    lines, mark = _around(memories, shapes, dtypes, EACH + text)
    a, b = numbers((COUNT,), (dtype,), 1), numbers((COUNT,), (dtype,), 2)
    return Cell(
        f"{text} {dtype} {memory}", lines, mark, shapes, dtypes,
        [stored(a, dtype), stored(b, dtype)], [stored(a, dtype)],
    )  # fmt: skip


# -- products --------------------------------------------------------------------------------------
ROWS, COLUMNS, DEPTH = 64, 32, 64
SUMS = ("int8", "int32", "int64", "float16", "bfloat16", "float32", "float64")


def product(dtype: str, sums: str, turned: str, a_memory: str, b_memory: str, memory: str) -> Cell:
    """A ``T.gemm``; ``turned`` names the operands that are transposed."""
    shapes = [
        (DEPTH, ROWS) if "A" in turned else (ROWS, DEPTH),
        (COLUMNS, DEPTH) if "B" in turned else (DEPTH, COLUMNS), (ROWS, COLUMNS),
    ]  # fmt: skip
    dtypes = [dtype, dtype, sums]
    lines = ["with T.Kernel(1, threads=128):"]
    for name, where, shape, kind in zip("abc", (a_memory, b_memory, memory), shapes, dtypes):
        lines.append(f"    {tile(where, name, shape, kind)}")
    mark = f"T.gemm(a, b, c, transpose_A={'A' in turned}, transpose_B={'B' in turned})"
    lines += ["    T.copy(A, a)", "    T.copy(B, b)", "    T.clear(c)"]
    lines += [f"    {mark}", "    T.copy(c, C)"]
    a, b = numbers(shapes[0], (dtype, "bool"), 1), numbers(shapes[1], (dtype, "bool"), 2)
    result = (a.T if "A" in turned else a) @ (b.T if "B" in turned else b)
    return Cell(
        f"gemm {dtype} {sums} {turned} {a_memory} {b_memory} {memory}", lines, mark, shapes, dtypes,
        [stored(a, dtype), stored(b, dtype), stored(result * 0, sums)], [stored(result, sums)],
    )  # fmt: skip


OPERANDS = ("shared", "shared.dyn", "fragment")
# What makes a cell, and the arguments that it takes.
MATRICES: dict[str, tuple[Callable[..., Cell | None], tuple[tuple[str, ...], ...]]] = {
    "copies": (copy, (tuple(COPIES), DTYPES, DTYPES, MEMORIES, MEMORIES)),
    "fills": (fill, (tuple(FILLS), DTYPES, MEMORIES,
                     ("T.fill({}, 1)", "T.clear({})", "T.fill({}, A[2, 3])"))),
    "atomics": (atomic, (tuple(UPDATES), DTYPES, ("global", "shared", "fragment"), MEMORIES,
                         tuple(FORMS))),
    "accesses": (access, (("T.atomic_store(D[i], S[i])", "D[i] = T.atomic_load(S[i])"), DTYPES,
                          MEMORIES)),
    "products": (product, (DTYPES, SUMS, ("none", "A", "B", "AB"), OPERANDS, OPERANDS, OPERANDS)),
}  # fmt: skip


def drawn(matrix: str, rng: random.Random) -> Cell:
    """A random cell."""
    make, choices = MATRICES[matrix]
    while (cell := make(*map(rng.choice, choices))) is None:
        pass
    return cell
