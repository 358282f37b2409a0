"""Random programs whose indices of elements turn out negative at run time, with their results.

Slots that are loaded, differences, sums with a parameter: below 0 they are outside, in loads, stores,
atomics, updates and gathers of rows. Other indices count from the end: constants,
what ranges and conditions show to be negative, lanes of vectors. The results are computed element by
element with Python's integers.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from .model import Computed

Cell = Callable[[int, int], int]  # of the row (bx * M + i) and the column
DTYPES = ("float32", "int32", "float16", "int8", "int64")


@dataclass
class Index:
    """An index of the first dimension: its text, the statements before it, and its value."""

    text: str
    value: Callable[[int], int]  # of the row
    before: tuple[str, ...] = ()
    distinct: bool = True  # rows have different ones where they are inside


@dataclass
class _Maker:
    rng: random.Random
    lines: list[str] = field(default_factory=list)
    shapes: dict[str, str] = field(default_factory=dict)  # annotations of parameters
    inputs: dict[str, np.ndarray | int] = field(default_factory=dict)
    expected: dict[str, np.ndarray] = field(default_factory=dict)
    safe: dict[str, int] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        rng = self.rng
        self.blocks, self.tile = rng.choice((1, 2, 3)), rng.choice((2, 4, 8, 16))
        self.threads = rng.choice((32, 64, 128))
        self.width = rng.choice((1, 3, 4, 8, 16, 20))
        self.rows = self.blocks * self.tile
        self.height = rng.choice((5, 16, 33))  # of what is indexed
        self.dynamic = rng.random() < 0.3
        self.off = rng.randint(-6, 6)

    # -- parameters --------------------------------------------------------------------------------
    def name(self, base: str) -> str:
        self.count += 1
        return f"{base}{self.count}"

    def tensor(self, base: str, shape: tuple[int, ...], dtype: str, array: np.ndarray) -> str:
        name = self.name(base)
        dims = ["n" if self.dynamic and size == self.height and at == 0 else str(size)
                for at, size in enumerate(shape)]  # fmt: skip
        self.shapes[name] = f'T.Tensor(({", ".join(dims)},), "{dtype}")'
        self.inputs[name] = array.astype(dtype)
        return name

    def numbers(self, shape: tuple[int, ...]) -> np.ndarray:
        size = int(np.prod(shape))
        return np.array([self.rng.randint(1, 50) for _ in range(size)]).reshape(shape)

    def source(self, dtype: str) -> str:
        """A tensor to read from at the indices."""
        name = self.tensor("A", (self.height, self.width), dtype,
                           self.numbers((self.height, self.width)))  # fmt: skip
        if self.rng.random() < 0.2:
            self.safe[name] = self.rng.randint(1, 9)
        return name

    def sink(self, dtype: str, height: int, width: int) -> tuple[str, np.ndarray]:
        """A tensor to write to, and what it will hold."""
        start = self.numbers((height, width))
        name = self.tensor("B", (height, width), dtype, start)
        self.expected[name] = self.inputs[name].copy()
        return name, self.expected[name]

    # -- indices -----------------------------------------------------------------------------------
    def index(self) -> Index:
        rng = self.rng
        kind = rng.choice(("slot", "slot", "less", "moved", "back", "least", "half", "parameter"))
        if kind == "back":
            k = rng.randint(1, self.rows - 1)
            return Index(f"bx * {self.tile} + i - {k}", lambda r: r - k)
        if kind == "parameter":
            off = self.off
            return Index(f"bx * {self.tile} + i + off", lambda r: r + off)
        values = list(range(-3, self.height + 3)) + [-self.height, -self.height - 1, 100, -100]
        slots = rng.sample(values, min(len(values), self.rows))
        slots += [-1] * (self.rows - len(slots))
        dtype = rng.choice(("int32", "int32", "int64", "int16", "int8"))
        name = self.tensor("S", (self.rows,), dtype, np.array(slots))
        slot, before = f"{name}[bx * {self.tile} + i]", ()
        if rng.random() < 0.5:
            at = self.name("at")
            slot, before = at, (f"{at} = {slot}",)
        k = rng.randint(1, 4)
        if kind == "less":
            return Index(f"{slot} - {k}", lambda r: slots[r] - k, before)
        if kind == "moved":
            off = self.off
            return Index(f"{slot} + off", lambda r: slots[r] + off, before)
        if kind == "least":
            top = rng.randint(0, self.height)
            text = f"T.min(T.cast({slot}, 'int32'), {top})"
            return Index(text, lambda r: min(slots[r], top), before, distinct=False)
        if kind == "half":
            return Index(f"{slot} // 2", lambda r: slots[r] // 2, before, distinct=False)
        return Index(slot, lambda r: slots[r], before)

    def inside(self, at: int) -> bool:
        return 0 <= at < self.height

    # -- statements --------------------------------------------------------------------------------
    def loop(self, body: list[str], before: tuple[str, ...] = ()) -> None:
        """``body`` for every row i and column j of the block."""
        form = self.rng.choice(("both", "both", "rows", "serial"))
        if form == "both":
            self.lines.append(f"for i, j in T.Parallel({self.tile}, {self.width}):")
            self.lines += [f"    {line}" for line in (*before, *body)]
            return
        kind = "T.Parallel" if form == "rows" else "T.serial"
        inner = "T.serial" if form == "rows" else "T.Parallel"
        self.lines.append(f"for i in {kind}({self.tile}):")
        self.lines += [f"    {line}" for line in before]
        self.lines.append(f"    for j in {inner}({self.width}):")
        self.lines += [f"        {line}" for line in body]

    def read(self, name: str, at: int, j: int) -> int:
        """An element by the rule for what is outside."""
        return self.inputs[name][at, j] if self.inside(at) else self.safe.get(name, 0)

    def gather(self) -> None:
        """Rows of a tensor, plain, through a tile, or with a choice around the load."""
        dtype = self.rng.choice(DTYPES)
        a, index = self.source(dtype), self.index()
        out, want = self.sink(dtype, self.rows, self.width)
        here, value = f"{out}[bx * {self.tile} + i, j]", f"{a}[{index.text}, j]"
        form = self.rng.choice(("plain", "plain", "choice", "below", "shared", "fragment"))

        def element(r: int, j: int) -> int:
            return self.read(a, index.value(r), j)

        cell: Cell = element
        if form == "choice":
            value = f"T.if_then_else({index.text} >= 0, {value}, T.cast(7, '{dtype}'))"
            cell = lambda r, j: element(r, j) if index.value(r) >= 0 else 7  # noqa: E731
        if form in ("shared", "fragment"):
            tile = self.name("tile")
            self.lines.append(f"{tile} = T.alloc_{form}(({self.tile}, {self.width}), '{dtype}')")
            self.loop([f"{tile}[i, j] = {value}"], index.before)
            self.lines.append(f"T.copy({tile}, {out}[bx * {self.tile}, 0])")
        elif form == "below":  # known to be negative there: it counts from the end
            self.loop([f"if {index.text} < 0:", f"    {here} = {value}"], index.before)
            old = want.copy()

            def counted(r: int, j: int) -> int:
                at = index.value(r)
                if at >= 0:
                    return old[r, j]
                return self.read(a, at if a in self.safe else at + self.height, j)

            cell = counted
        else:
            self.loop([f"{here} = {value}"], index.before)
        for r, j in np.ndindex(want.shape):
            want[r, j] = cell(r, j)

    def scatter(self) -> None:
        """Rows stored or updated at the indices."""
        dtype, index = self.rng.choice(DTYPES), self.index()
        if not index.distinct:
            return self.atomics()
        out, want = self.sink(dtype, self.height, self.width)
        here, plus = f"{out}[{index.text}, j]", self.rng.random() < 0.3
        value = f"T.cast(bx * {self.tile} + i + j, '{dtype}')"
        self.loop([f"{here} = {here} + {value}" if plus else f"{here} = {value}"], index.before)
        for r, j in np.ndindex(self.rows, self.width):
            at = index.value(r)
            if self.inside(at):
                want[at, j] = want[at, j] + r + j if plus else r + j
        return None

    def atomics(self) -> None:
        """Elements updated by several rows."""
        dtype, op = self.rng.choice(("float32", "int32")), self.rng.choice(("add", "max"))
        index = self.index()
        out, want = self.sink(dtype, self.height, self.width)
        self.loop([f"T.atomic_{op}({out}[{index.text}, j], T.cast(i + j, '{dtype}'))"],
                  index.before)  # fmt: skip
        for r, j in np.ndindex(self.rows, self.width):
            at, value = index.value(r), r % self.tile + j
            if self.inside(at):
                want[at, j] = want[at, j] + value if op == "add" else max(want[at, j], value)

    def chain(self) -> None:
        """A row whose number is read at an index: what is outside is row 0."""
        dtype, index = self.rng.choice(DTYPES), self.index()
        pages = [self.rng.randint(-2, self.height) for _ in range(self.height)]
        p = self.tensor("P", (self.height,), "int32", np.array(pages))
        a = self.source(dtype)
        out, want = self.sink(dtype, self.rows, self.width)
        self.loop([f"{out}[bx * {self.tile} + i, j] = {a}[{p}[{index.text}], j]"], index.before)
        for r, j in np.ndindex(want.shape):
            at = index.value(r)
            want[r, j] = self.read(a, pages[at] if self.inside(at) else 0, j)

    def columns(self) -> None:
        """The last dimension before its start: a window."""
        dtype, k = self.rng.choice(DTYPES), self.rng.randint(1, 3)
        a, width = self.source(dtype), self.width
        if width <= k:
            return self.counted()
        out, want = self.sink(dtype, self.rows, width)
        self.loop([f"{out}[bx * {self.tile} + i, j] = {a}[bx * {self.tile} + i, j - {k}]"])
        for r, j in np.ndindex(want.shape):
            inside = self.inside(r) and j >= k
            want[r, j] = self.inputs[a][r, j - k] if inside else self.safe.get(a, 0)
        return None

    def counted(self) -> None:
        """Indices that are known to be negative."""
        dtype = self.rng.choice(DTYPES)
        a = self.source(dtype)
        self.safe.pop(a, None)
        out, want = self.sink(dtype, self.rows, self.width)
        text, value = self.rng.choice((
            (f"i - {self.tile}", lambda r: r % self.tile - self.tile),
            ("-1 - i", lambda r: -1 - r % self.tile),
            ("-2", lambda r: -2),
        ))  # fmt: skip
        self.loop([f"{out}[bx * {self.tile} + i, j] = {a}[{text}, j]"])
        for r, j in np.ndindex(want.shape):
            want[r, j] = self.read(a, value(r) + self.height, j)

    def vectors(self) -> None:
        """Lanes of a vector whose signs are not known."""
        a = self.tensor("V", (self.height,), "float32", self.numbers((self.height,)))
        out, want = self.sink("float32", self.rows, 4)
        step = self.rng.choice((1, 1, 2, -1))
        self.lines.append(f"for i in T.serial({self.tile}):")
        self.lines.append(f"    {out}[bx * {self.tile} + i, T.Ramp(0, 1, 4)] = "
                          f"{a}[T.Ramp(i + off, {step}, 4)]")  # fmt: skip
        for r, k in np.ndindex(want.shape):
            at = r % self.tile + self.off + step * k
            at += self.height * (at < 0)
            want[r, k] = self.inputs[a][at] if self.inside(at) else 0

    # -- the program -------------------------------------------------------------------------------
    def make(self) -> Computed:
        kinds = (self.gather, self.gather, self.scatter, self.scatter, self.atomics, self.chain,
                 self.columns, self.counted, self.vectors)  # fmt: skip
        for _ in range(self.rng.randint(2, 4)):
            self.rng.choice(kinds)()
        safe = ", ".join(f"{name}: {value}" for name, value in self.safe.items())
        text = ["import tilelang.language as T", "", 'n = T.dynamic("n")', "@T.prim_func"]
        text += ["def main(", *(f"    {name}: {kind}," for name, kind in self.shapes.items())]
        text += ["    off: T.int32,", "):"]
        text += [f"    with T.Kernel({self.blocks}, threads={self.threads}) as bx:"]
        text += [f"        T.annotate_safe_value({{{safe}}})"] if safe else []
        text += [f"        {line}" for line in self.lines]
        inputs = {**self.inputs, "off": self.off}
        return Computed("\n".join(text) + "\n", inputs, self.expected)


def make_negatives(seed: int) -> Computed:
    """The program of one seed."""
    return _Maker(random.Random(seed)).make()
