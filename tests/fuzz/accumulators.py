"""Random kernels whose parallel loops update elements that several iterations share.

Each loop has one to four accumulators (of several shapes, in fragments and shared tiles, of integers,
floats and booleans, at rows, columns, quotients, remainders, sums of indices and indices from data)
with plain stores, under conditions and in branches. All numbers are small and exact, so that sums
are the same in every order.
"""

from __future__ import annotations

from dataclasses import dataclass

from .draws import Draw
from .model import KernelGenerator

EXTENTS = (8, 4, 16, 32, 1, 3, 5, 6, 7, 12, 24, 64)
THREADS = (64, 32, 128, 96, 1, 48)
FLOATS = ("float32", "float16", "float64")
INTS = ("int32", "int8", "uint32", "int64")
VARS = "ijk"
MOST = 1024  # iterations of a loop: their sums are exact in float16


@dataclass(frozen=True)
class Accumulator:
    """A tile that a loop updates in one way."""

    name: str
    dtype: str
    op: str
    shape: tuple[int, ...]
    places: tuple[str, ...]  # index texts


class _Kernel(KernelGenerator):
    most = 2.0

    def __init__(self, draw: Draw) -> None:
        super().__init__(draw)
        self.blocks = draw.choice((1, 1, 2))
        self.shape = self.loop_shape()
        self.index = list(VARS[: len(self.shape)])
        self.inputs: dict[str, str] = {}  # element text -> dtype
        self.results: list[tuple[str, tuple[int, ...], str]] = []

    def loop_shape(self) -> tuple[int, ...]:
        """Extents of the loop."""
        shape: list[int] = []
        total = 1
        for _ in range(self.draw.choice((2, 1, 2, 3))):
            fits = [extent for extent in EXTENTS if total * extent <= MOST]
            shape.append(self.draw.choice(fits))
            total *= shape[-1]
        return tuple(shape)

    # -- the kernel ------------------------------------------------------------------------------
    def write(self) -> None:
        """All of it."""
        draw, text = self.draw, self.text
        text.add(f"with T.Kernel({self.blocks}, threads={draw.choice(THREADS)}) as bx:")
        text.depth += 1
        for dtype in draw.choice((("float32",), ("int32",), ("float32", "int32"), ("float16",))):
            self.load(dtype)
        self.loop()
        if draw.chance(0.3):
            self.loop()
        for name, shape, dtype in self.results:
            out = self.tensor("Out", (self.blocks, *shape), dtype, "out")
            zeros = ", ".join("0" for _ in shape)
            text.add(f"T.copy({name}, {out}[bx, {zeros}])")
        self.program.kernels.append(text.lines)

    def load(self, dtype: str) -> None:
        """An input of the loop's shape in a tile, or read where it is."""
        name = self.tensor("A", (self.blocks, *self.shape), dtype, "in")
        at = ", ".join(self.index)
        scope = self.draw.choice(("fragment", "fragment", "shared", ""))
        if not scope:
            self.inputs[f"{name}[bx, {at}]"] = dtype
            return
        tile = self.names.fresh("x")
        self.text.add(f"{tile} = T.alloc_{scope}({self.shape}, {dtype!r})")
        self.text.add(f"T.copy({name}[bx, {', '.join('0' for _ in self.shape)}], {tile})")
        self.inputs[f"{tile}[{at}]"] = dtype

    # -- a loop ------------------------------------------------------------------------------------
    def loop(self) -> None:
        """Accumulators, the loop that updates them, sometimes several times."""
        draw, text = self.draw, self.text
        made = [self.accumulator() for _ in range(draw.choice((2, 1, 2, 3, 4)))]
        stored = self.stored() if draw.chance(0.7) else ""
        around = draw.chance(0.2)
        if around:
            text.add(f"for step in {draw.choice(('T.serial(2)', 'T.Pipelined(2, num_stages=2)'))}:")
            text.depth += 1
        text.add(f"for {', '.join(self.index)} in T.Parallel({', '.join(map(str, self.shape))}):")
        text.depth += 1
        lines = [self.update(item) for item in made]
        if stored:
            lines.insert(
                draw.integer(0, len(lines)), [f"{stored} = {self.value(self.kind(stored))}"]
            )
        while lines:
            self.statement(lines)
        text.depth -= 1 + around

    def statement(self, lines: list[list[str]]) -> None:
        """The next of ``lines``, alone, under a condition, or in a branch next to another one."""
        draw, text = self.draw, self.text
        first = lines.pop(0)
        form = draw.choice(("plain", "plain", "if", "else" if lines else "if", "serial"))
        if form == "plain":
            for line in first:
                text.add(line)
            return
        head = f"if {self.condition()}:" if form != "serial" else "for _ in T.serial(2):"
        text.add(head)
        for line in first:
            text.add("    " + line)
        if form == "else":
            text.add("else:")
            for line in lines.pop(0):
                text.add("    " + line)

    def accumulator(self) -> Accumulator:
        """A tile with start values."""
        draw, text = self.draw, self.text
        dtype = draw.choice((*FLOATS, *INTS, "float32", "int32", "bool"))
        ops = ("+", "+", "max", "min", "-", "*") if dtype != "bool" else ()
        bits = ("&", "|", "^") if dtype == "bool" or dtype in INTS else ()
        op = draw.choice((*ops, *bits))
        shape, places = self.places()
        name = self.names.fresh("s")
        scope = draw.choice(("fragment", "fragment", "shared"))
        text.add(f"{name} = T.alloc_{scope}({shape}, {dtype!r})")
        if draw.chance(0.5):
            text.add(f"T.clear({name})")
        elif dtype == "bool" or draw.chance(0.5):
            text.add(f"T.fill({name}, {draw.integer(0, 1)})")
        else:
            start = self.tensor("B", shape, dtype, "in")
            text.add(f"T.copy({start}, {name})")
        self.results.append((name, shape, dtype))
        return Accumulator(name, dtype, op, shape, places)

    def places(self) -> tuple[tuple[int, ...], tuple[str, ...]]:
        """The shape of an accumulator and where an iteration updates it."""
        draw = self.draw
        sizes = dict(zip(self.index, self.shape, strict=True))
        kept = [name for name in self.index if draw.chance(0.5)]
        if len(kept) == len(self.index):
            kept.pop(draw.integer(0, len(kept) - 1))
        shape, where = [sizes[name] for name in kept], list(kept)
        left = [name for name in self.index if name not in kept]
        form = draw.choice(("lacks", "lacks", "part", "sum", "data"))
        name = draw.choice(left)
        if form == "part":
            part = draw.choice((2, 3, 4, 8))
            by = draw.choice(("//", "%"))
            shape.append(-(-sizes[name] // part) if by == "//" else min(part, sizes[name]))
            where.append(f"{name} {by} {part}")
        elif form == "sum":
            shape.append(sum(sizes[item] - 1 for item in left) + 1)
            where.append(" + ".join(left))
        elif form == "data":
            found = [text for text, dtype in self.inputs.items() if dtype == "int32"]
            if found and draw.chance(0.7):
                shape.append(4)
                where.append(f"{draw.choice(found)} & 3")
        if not shape:
            return (1,), ("0",)
        if len(shape) > 1 and draw.chance(0.3):
            return tuple(shape[::-1]), tuple(where[::-1])
        return tuple(shape), tuple(where)

    def stored(self) -> str:
        """An element that each iteration stores on its own: of a new tile or a result."""
        draw, at = self.draw, ", ".join(self.index)
        dtype = draw.choice(("float32", "int32", "float16"))
        tiles = [text for text in self.inputs if text.startswith("x")]
        if tiles and draw.chance(0.5):
            return draw.choice(tiles)
        if draw.chance(0.5):
            name = self.tensor("Out", (self.blocks, *self.shape), dtype, "out")
            self.inputs_of = dtype
            return f"{name}[bx, {at}]"
        name = self.names.fresh("y")
        self.text.add(
            f"{name} = T.alloc_{draw.choice(('fragment', 'shared'))}({self.shape}, {dtype!r})"
        )
        self.text.add(f"T.clear({name})")
        self.results.append((name, self.shape, dtype))
        return f"{name}[{at}]"

    # -- expressions -----------------------------------------------------------------------------
    def kind(self, place: str) -> str:
        """The dtype of a stored element."""
        name = place.split("[")[0]
        if place in self.inputs:
            return self.inputs[place]
        known = {tensor.name: tensor.dtype for tensor in self.program.tensors}
        known |= {item: dtype for item, _, dtype in self.results}
        return known[name]

    def value(self, dtype: str) -> str:
        """An exact value of at most 4 in size."""
        draw = self.draw
        text, kind = draw.choice(list(self.inputs.items()))
        low = (
            f"T.max(T.min({text}, 2), -2)"
            if kind == "int32"
            else f"T.max(T.min({text}, 2.0), -2.0)"
        )
        form = draw.choice(("plain", "negative", "twice", "choice", "index"))
        low = {"plain": low, "negative": f"-{low}", "twice": f"{low} + {low}",
               "choice": f"T.if_then_else({self.condition()}, {low}, 1)",
               "index": f"{draw.choice(self.index)} % 3"}[form]  # fmt: skip
        if dtype == "bool":
            return f"({low} > 0)"
        if dtype.startswith("u"):  # of negative floats that is not defined
            low = f"T.cast({low}, 'int32')"
        return f"T.cast({low}, {dtype!r})"

    def condition(self) -> str:
        """On loop variables or data."""
        draw = self.draw
        if draw.chance(0.5):
            name = draw.choice(self.index)
            return draw.choice((f"{name} % 2 == 0", f"{name} > 1", f"{name} == 0", f"{name} < 5"))
        text = draw.choice(list(self.inputs))
        return draw.choice((f"{text} > 0", f"{text} != 1"))

    def update(self, item: Accumulator) -> list[str]:
        """The statement that updates an accumulator, in one of its forms."""
        draw = self.draw
        place, value = f"{item.name}[{', '.join(item.places)}]", self.value(item.dtype)
        if item.op in ("max", "min"):
            form = draw.choice(("call", "swapped", "choice", "if"))
            sign = ">" if item.op == "max" else "<"
            if form == "if":
                value_name = self.names.fresh("v")
                return [f"{value_name} = {value}", f"if {value_name} {sign} {place}:",
                        f"    {place} = {value_name}"]  # fmt: skip
            return [{"call": f"{place} = T.{item.op}({place}, {value})",
                     "swapped": f"{place} = T.{item.op}({value}, {place})",
                     "choice": f"{place} = T.if_then_else({value} {sign} {place}, {value}, {place})"
                     }[form]]  # fmt: skip
        if item.op == "*" and item.dtype in FLOATS:
            value = f"T.if_then_else({self.condition()}, T.cast(-1, {item.dtype!r}), T.cast(1, {item.dtype!r}))"
        form = draw.choice(("short", "long", "swapped", "kept", "twice"))
        if form == "swapped" and item.op != "-":
            return [f"{place} = {value} {item.op} {place}"]
        if form == "kept":
            both = f"{place} {item.op} {value}, {place}"
            return [f"{place} = T.if_then_else({self.condition()}, {both})"]
        if form == "twice" and item.op != "*":
            return [f"{place} = {place} {item.op} {value}", f"{place} {item.op}= {value}"]
        if form == "short":
            return [f"{place} {item.op}= {value}"]
        return [f"{place} = {place} {item.op} {value}"]


make_accumulators = _Kernel.make
