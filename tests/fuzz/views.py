"""Random programs about tiles with annotated layouts and several names, each with its results.

A program has one tile, in a fragment or in shared memory, perhaps with a layout of its own, and
views of views of it: other shapes, other dtypes. Statements use any of the names. What they do is
done to a numpy array at the same time, whose views are numpy's, so that the expected results owe
nothing to the package. Only integers are computed with, all results are exact.
"""

from __future__ import annotations

import random
from math import prod

import numpy as np

from .model import Computed

SHAPES = (
    (64,), (16, 32), (8, 64), (32, 16), (4, 8, 16), (2, 16, 16), (12, 16), (6, 4, 8), (24, 8),
    (128, 8), (5, 12), (16, 16, 4), (1, 64), (64, 1), (48,),
)  # fmt: skip
DTYPES = ("int32", "int32", "int16", "int8", "uint8", "uint16", "uint32")
THREADS = (32, 64, 96, 128)


def make_views(seed: int) -> Computed:
    """The program of one seed."""
    return _Maker(random.Random(seed)).program()


class _Maker:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.values = np.random.default_rng(rng.randrange(1 << 30))
        self.inputs: dict[str, np.ndarray] = {}
        self.expected: dict[str, np.ndarray] = {}
        self.lines: list[str] = []
        self.names: dict[str, np.ndarray] = {}

    def program(self) -> Computed:
        rng = self.rng
        self.threads = rng.choice(THREADS)
        shape, dtype = rng.choice(SHAPES), rng.choice(DTYPES)
        self.scope = rng.choice(("fragment", "shared", "fragment"))
        self.put(f"t = T.alloc_{self.scope}({shape}, {dtype!r})")
        self.names["t"] = np.zeros(shape, dtype)
        for number in range(rng.choice((0, 1, 1, 2, 3))):
            self.view(f"v{number}")
        layout = self.layout()
        if layout is not None:
            self.put(f"T.annotate_layout({{{layout}}})")
        first = rng.choice(list(self.names))
        self.copy_in(first, whole=True)
        actions = (
            self.copy_in, self.fill, self.write, self.update, self.copy_out, self.reduce,
            self.atomic, self.scan, self.turned, self.rows, self.twice,
        )  # fmt: skip
        for _ in range(rng.randint(1, 4)):
            rng.choice(actions)(rng.choice(list(self.names)))
        for name in self.names:
            self.copy_out(name)
        return Computed(self.text(), self.inputs, self.expected)

    def text(self) -> str:
        shown = ", ".join(
            f'{name}: T.Tensor({array.shape}, "{array.dtype}")'
            for name, array in self.inputs.items()
        )
        head = ["import tilelang.language as T", "from tilelang.layout import *", "", "@T.prim_func",
                f"def main({shown}):", f"    with T.Kernel(1, threads={self.threads}):"]  # fmt: skip
        return "\n".join((*head, *(" " * 8 + line for line in self.lines))) + "\n"

    def put(self, *lines: str) -> None:
        self.lines += lines

    def tensor(self, array: np.ndarray) -> str:
        name = f"G{len(self.inputs)}"
        self.inputs[name] = array.copy()
        self.expected[name] = array.copy()
        return name

    def random(self, shape: tuple[int, ...], dtype: object) -> np.ndarray:
        info = np.iinfo(dtype)
        low, high = max(info.min, -1000), min(info.max, 1000)
        return self.values.integers(low, high, shape, endpoint=True).astype(dtype)

    # -- names ----------------------------------------------------------------------------------
    def factors(self, count: int) -> tuple[int, ...]:
        found = []
        for _ in range(self.rng.randint(0, 3)):
            divisors = [d for d in range(1, count + 1) if count % d == 0]
            found.append(self.rng.choice(divisors))
            count //= found[-1]
        found.append(count)
        self.rng.shuffle(found)
        return tuple(found)

    def view(self, name: str) -> None:
        base = self.rng.choice(list(self.names))
        array = self.names[base]
        dtype = np.dtype(array.dtype)
        if self.rng.random() < 0.35:
            dtype = np.dtype(self.rng.choice(DTYPES))
        if array.nbytes % dtype.itemsize:
            dtype = array.dtype
        shape = self.factors(array.nbytes // dtype.itemsize)
        self.names[name] = array.reshape(-1).view(dtype).reshape(shape)
        if dtype == array.dtype and self.rng.random() < 0.7:
            self.put(f"{name} = T.reshape({base}, {shape})")
        else:
            self.put(f"{name} = T.view({base}, {shape}, {str(dtype)!r})")

    def layout(self) -> str | None:
        """An entry of the annotation."""
        rng = self.rng
        if rng.random() < 0.15:
            return None
        name = rng.choice(list(self.names)) if rng.random() < 0.3 else "t"
        shape = self.names[name].shape
        if self.scope == "shared":
            made = self.shared_layout(name, shape)
        else:
            made = self.fragment(name, shape)
        return made and f"{name}: {made}"

    def shared_layout(self, name: str, shape: tuple[int, ...]) -> str:
        rng = self.rng
        variables = ", ".join("ijkl"[: len(shape)])
        flat = _flat("ijkl", shape)
        kind = rng.choice(("swizzle", "pad", "xor", "turned", "scaled", "chunks"))
        if len(shape) < 2 and kind in ("swizzle", "pad", "turned"):
            kind = "xor"
        if kind == "swizzle":
            bits = self.names[name].dtype.itemsize * 8
            if shape[-1] * bits % 128 == 0:
                return f"make_swizzled_layout({name})"
            kind = "turned"
        if kind == "pad":
            gap = rng.choice((1, 3, 8))
            row = _flat("ijkl", shape[:-1])
            return f"T.Layout({shape}, lambda {variables}: ({row}) * {shape[-1] + gap} + " + (
                "ijkl"[len(shape) - 1] + ")"
            )
        if kind == "turned":
            return (
                f"T.Layout({shape}, lambda {variables}: ({', '.join('ijkl'[: len(shape)][::-1])},))"
            )
        if kind == "scaled":
            return f"T.Layout({shape}, lambda {variables}: ({flat}) * 2 + 1)"
        if kind == "chunks":
            return f"T.Layout({shape}, lambda {variables}: (({flat}) // 4 ^ 1) * 4 + ({flat}) % 4)"
        return f"T.Layout({shape}, lambda {variables}: ({flat}) ^ (({flat}) // 8 % 8))"

    def fragment(self, name: str, shape: tuple[int, ...]) -> str:
        """Places of the row-major position, or of the modes of each index in any order."""
        rng, count = self.rng, prod(shape)
        variables = ", ".join("ijkl"[: len(shape)])
        flat = _flat("ijkl", shape)
        threads = rng.choice([n for n in (8, 16, 24, 32, 64, 96, 128) if n <= self.threads])
        kind = rng.choice(("flat", "flat", "modes", "modes", "modes", "copies", "xor", "thread"))
        if kind == "flat":
            run = rng.choice((1, 2, 4))
            rounds = -(-count // (threads * run)) * run
            return (
                f"T.Fragment({shape}, lambda {variables}: (({flat}) // {run} % {threads}, "
                f"({flat}) // {run * threads} * {run} + ({flat}) % {run}))  # {rounds} registers"
            ).split("  #")[0]
        if kind == "copies":
            copies = rng.choice((2, 4))
            used = max(1, self.threads // copies)
            wide = rng.random() < 0.5
            place = (
                f"({flat}) % {used} + rep * {used}"
                if wide
                else (f"({flat}) % {used} * {copies} + rep")
            )
            return (
                f"T.Fragment({shape}, lambda {variables}, rep: ({place}, ({flat}) // {used}), "
                f"replicate={copies})"
            )
        if kind == "xor":
            low = 1 << (self.threads.bit_length() - 1)
            return (
                f"T.Fragment({shape}, lambda {variables}: ((({flat}) ^ (({flat}) // 8)) % {low}, "
                f"({flat}) // {low}))"
            )
        if kind == "thread":
            return (
                f"T.Fragment({shape}, forward_thread_fn=lambda {variables}: ({flat}) % {threads})"
            )
        return self.modes(shape, variables)

    def modes(self, shape: tuple[int, ...], variables: str) -> str:
        rng = self.rng
        pieces: list[tuple[str, int]] = []
        for var, extent in zip("ijkl", shape):
            below = 1
            while extent > 1:
                step = rng.choice([d for d in range(2, extent + 1) if extent % d == 0])
                pieces.append((f"{var} // {below} % {step}", step))
                below *= step
                extent //= step
        rng.shuffle(pieces)
        thread, slot = ["0"], ["0"]
        threads = rng.choice((1, 1, 1, 2, 4))  # gaps between threads and between registers
        slots = rng.choice((1, 1, 1, 1, 2))
        if rng.random() < 0.1:
            slot = [str(rng.randrange(3))]
        for text, extent in pieces:
            if threads * extent <= self.threads and rng.random() < 0.7:
                thread.append(f"{text} * {threads}")
                threads *= extent
            else:
                slot.append(f"{text} * {slots}")
                slots *= extent
        copies = 1
        if rng.random() < 0.3 and self.threads // threads >= 2:
            copies = 2
            thread.append(f"rep * {threads}")
        extra = (", rep", ", replicate=2") if copies > 1 else ("", "")
        return (
            f"T.Fragment({shape}, lambda {variables}{extra[0]}: ({' + '.join(thread)}, "
            f"{' + '.join(slot)}){extra[1]})"
        )

    # -- statements -----------------------------------------------------------------------------
    def box(self, shape: tuple[int, ...], whole: bool) -> tuple[str, tuple[slice, ...]]:
        if whole:
            return ", ".join(":" for _ in shape), tuple(slice(None) for _ in shape)
        text, box = [], []
        for extent in shape:
            low = self.rng.randrange(extent)
            high = self.rng.randint(low + 1, extent)
            text.append(f"{low}:{high}")
            box.append(slice(low, high))
        return ", ".join(text), tuple(box)

    def copy_in(self, name: str, whole: bool | None = None) -> None:
        array = self.names[name]
        whole = self.rng.random() < 0.5 if whole is None else whole
        text, box = self.box(array.shape, whole)
        data = self.random(array.shape, array.dtype)
        source = self.tensor(data)
        self.put(f"T.copy({source}[{text}], {name}[{text}])")
        array[box] = data[box]

    def copy_out(self, name: str) -> None:
        array = self.names[name]
        out = self.tensor(np.zeros(array.shape, array.dtype))
        self.put(f"T.copy({name}, {out})")
        self.expected[out] = array.copy()

    def fill(self, name: str) -> None:
        array = self.names[name]
        text, box = self.box(array.shape, self.rng.random() < 0.5)
        value = self.rng.randrange(100)
        self.put(f"T.fill({name}[{text}], {value})")
        array[box] = value

    def loop(self, shape: tuple[int, ...]) -> tuple[str, str]:
        variables = ", ".join("ijkl"[: len(shape)])
        return variables, f"for {variables} in T.Parallel({', '.join(map(str, shape))}):"

    def write(self, name: str) -> None:
        array = self.names[name]
        variables, head = self.loop(array.shape)
        terms = [(self.rng.randrange(1, 9), axis) for axis in range(array.ndim)]
        text = " + ".join(f"{'ijkl'[axis]} * {factor}" for factor, axis in terms)
        grids = np.indices(array.shape)
        self.put(head, f'    {name}[{variables}] = T.cast(({text}) % 100, "{array.dtype}")')
        array[...] = (sum(grids[axis] * factor for factor, axis in terms) % 100).astype(array.dtype)

    def update(self, name: str) -> None:
        array = self.names[name]
        variables, head = self.loop(array.shape)
        data = self.random(array.shape, array.dtype)
        source = self.tensor(data)
        self.put(head, f"    {name}[{variables}] = {name}[{variables}] ^ {source}[{variables}]")
        array[...] = array ^ data

    def turned(self, name: str) -> None:
        """Another tile from the elements in another order."""
        array = self.names[name]
        variables, head = self.loop(array.shape)
        order = list("ijkl"[: array.ndim])
        axes = list(range(array.ndim))
        self.rng.shuffle(axes)
        shape = tuple(array.shape[axis] for axis in axes)
        other = f"u{len(self.lines)}"
        scope = self.rng.choice(("fragment", "shared"))
        out = self.tensor(np.zeros(shape, array.dtype))
        there = ", ".join(order[axis] for axis in axes)
        self.put(f"{other} = T.alloc_{scope}({shape}, '{array.dtype}')", head,
                 f"    {other}[{there}] = {name}[{variables}]", f"T.copy({other}, {out})")  # fmt: skip
        self.expected[out] = array.transpose(axes).copy()

    def rows(self, name: str) -> None:
        """Elements from the row-major position: indices that are no loop variables."""
        array = self.names[name]
        count = array.size
        places, at = [], "p"
        for extent in reversed(array.shape):
            places.insert(0, f"{at} % {extent}")
            at = f"{at} // {extent}"
        out = self.tensor(np.zeros(count, array.dtype))
        self.put(f"for p in T.Parallel({count}):", f"    {out}[p] = {name}[{', '.join(places)}]")
        self.expected[out] = array.reshape(-1).copy()

    def twice(self, name: str) -> None:
        """What is written under one name is read under another in the same iteration."""
        array = self.names[name]
        others = [n for n, seen in self.names.items()
                  if seen.base is array.base or seen.base is array or array.base is seen]  # fmt: skip
        other = self.rng.choice([n for n in others if n != name] or [name])
        seen = self.names[other]
        if seen.dtype.itemsize > array.dtype.itemsize:
            return
        variables, head = self.loop(array.shape)
        share = array.dtype.itemsize // seen.dtype.itemsize
        at = f"(({_flat('ijkl', array.shape)}) * {share})"
        places: list[str] = []
        for extent in reversed(seen.shape):
            places.insert(0, f"{at} % {extent}")
            at = f"{at} // {extent}"
        kept = f"u{len(self.lines)}"
        scope = self.rng.choice(("fragment", "fragment", "shared"))
        out = self.tensor(np.zeros(array.shape, seen.dtype))
        value = self.rng.randrange(1, 100)
        self.put(
            f"{kept} = T.alloc_{scope}({array.shape}, '{seen.dtype}')",
            head,
            f'    {name}[{variables}] = {name}[{variables}] ^ T.cast({value}, "{array.dtype}")',
            f"    {kept}[{variables}] = {other}[{', '.join(places)}]",
            f"T.copy({kept}, {out})",
        )
        if scope == "fragment" and self.rng.random() < 0.7:
            self.put(f"T.annotate_layout({{{kept}: {self.fragment(kept, array.shape)}}})")
        array[...] = array ^ np.array(value, array.dtype)
        self.expected[out] = seen.reshape(-1)[::share].reshape(array.shape).copy()

    def reduce(self, name: str) -> None:
        array = self.names[name]
        if array.ndim < 2:
            return
        dim = self.rng.randrange(array.ndim)
        kinds = ("max", "min", "sum") if array.dtype == np.int32 else ("max", "min")
        kind = self.rng.choice(kinds)
        shape = array.shape[:dim] + array.shape[dim + 1 :]
        total = f"r{len(self.lines)}"
        found = getattr(np, kind)(array, axis=dim).astype(array.dtype)
        out = self.tensor(np.zeros(shape, array.dtype))
        self.put(f"{total} = T.alloc_fragment({shape}, '{array.dtype}')",
                 f"T.reduce_{kind}({name}, {total}, dim={dim})", f"T.copy({total}, {out})")  # fmt: skip
        self.expected[out] = found

    def atomic(self, name: str) -> None:
        array = self.names[name]
        if array.dtype != np.int32:
            return
        start = self.random(array.shape, array.dtype)
        out = self.tensor(start)
        self.put(f"T.atomic_add({out}, {name})")
        self.expected[out] = (start + array).astype(array.dtype)

    def scan(self, name: str) -> None:
        array = self.names[name]
        if array.dtype != np.int32 or array.ndim > 2:
            return
        dim = self.rng.randrange(array.ndim)
        self.put(f"T.cumsum({name}, dim={dim})")
        array[...] = np.cumsum(array, axis=dim, dtype=np.int32)


def _flat(names: str, shape: tuple[int, ...]) -> str:
    found = "0"
    for name, extent in zip(names, shape):
        found = f"({found}) * {extent} + {name}"
    return found
