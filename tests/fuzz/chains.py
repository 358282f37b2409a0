"""Random kernels that are chains of loops: each reads elements that other threads computed before it.

Tiles of one to three dimensions, aligned, shifted, reversed, transposed, flattened, by columns and
by data, in whole loops and in parts of them, under conditions of the block, of the iteration and of
the data, in serial loops and pipelines, through views, slices, scans, reductions and variables. All
numbers are small integers in every dtype, so results are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from .draws import Draw
from .model import KernelGenerator

THREADS = (64, 32, 128, 96, 48, 1, 33, 256)
EXTENTS = (8, 4, 16, 1, 2, 3, 5, 7, 12, 32)
DTYPES = ("int32", "float32", "int32", "float16", "int16", "uint8")
FLOATS = ("float32", "float16")
MOST = 512  # elements of a tile


@dataclass(frozen=True)
class Place:
    """A tile; ``kept`` tiles are read only, like inputs."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    scope: str
    kept: bool = False
    base: str = ""  # the tile whose elements a view shows

    @property
    def memory(self) -> str:
        return self.base or self.name


class _Kernel(KernelGenerator):
    def __init__(self, draw: Draw) -> None:
        super().__init__(draw)
        self.blocks = draw.choice((1, 2, 3))
        self.threads = draw.choice(THREADS)
        sizes = [draw.choice(EXTENTS) for _ in range(3)]
        shapes = [(sizes[0], sizes[1]), (sizes[1], sizes[0]), (sizes[0],), (sizes[1],),
                  (sizes[0] * sizes[1],), (sizes[2], sizes[0]), (sizes[2],),
                  (sizes[0], sizes[2], 2)]  # fmt: skip
        self.shapes = [shape for shape in shapes if prod(shape) <= MOST]
        self.tiles: list[Place] = []
        self.scalars: list[str] = ["bx"]
        self.depth = 0
        self.room = draw.integer(3, 9)

    def write(self) -> None:
        """All of it."""
        draw, text = self.draw, self.text
        text.add(f"with T.Kernel({self.blocks}, threads={self.threads}) as bx:")
        text.depth += 1
        for _ in range(draw.integer(1, 3)):
            self.load()
        for _ in range(draw.integer(2, 4)):
            tile = self.new()
            text.add(f"T.fill({tile.name}, {draw.integer(0, 3)})")
        while self.room > 0:
            self.statement()
        for tile in self.tiles:
            if tile.kept or tile.base:
                continue
            out = self.tensor("Out", (self.blocks, *tile.shape), tile.dtype, "out")
            if draw.chance(0.5):
                text.add(f"T.copy({tile.name}, {out}[bx, {', '.join('0' for _ in tile.shape)}])")
            else:
                index = self.head(tile.shape)
                text.add(f"    {out}[bx, {', '.join(index)}] = {tile.name}[{', '.join(index)}]")
        self.program.kernels.append(text.lines)

    # -- tiles -----------------------------------------------------------------------------------
    def new(self, shape: tuple[int, ...] | None = None, base: str = "t") -> Place:
        """A tile without contents."""
        draw = self.draw
        tile = Place(self.names.fresh(base), shape or draw.choice(self.shapes),
                     draw.choice(DTYPES), draw.choice(("shared", "shared", "fragment")))  # fmt: skip
        self.text.add(f"{tile.name} = T.alloc_{tile.scope}({tile.shape}, {tile.dtype!r})")
        self.tiles.append(tile)
        return tile

    def load(self) -> None:
        """An input, in a tile or where it is."""
        draw = self.draw
        shape, dtype = draw.choice(self.shapes), draw.choice(("int32", "float32", "int32"))
        name = self.tensor("A", (self.blocks, *shape), dtype, "in")
        if draw.chance(0.3):
            self.tiles.append(Place(name, shape, dtype, "global", kept=True))
            return
        scope = draw.choice(("shared", "fragment"))
        tile = Place(self.names.fresh("x"), shape, dtype, scope)
        self.text.add(f"{tile.name} = T.alloc_{scope}({shape}, {dtype!r})")
        self.text.add(f"T.copy({name}[bx, {', '.join('0' for _ in shape)}], {tile.name})")
        self.tiles.append(tile)

    def written(self, scopes: Sequence[str] = ("shared", "fragment")) -> Place:
        """A tile to write."""
        fits = [tile for tile in self.tiles if not tile.kept and tile.scope in scopes]
        return self.draw.choice(fits) if fits else self._filled(scopes)

    def _filled(self, scopes: Sequence[str]) -> Place:
        tile = Place(self.names.fresh("t"), self.draw.choice(self.shapes), "int32", scopes[0])
        self.text.add(f"{tile.name} = T.alloc_{tile.scope}({tile.shape}, 'int32')")
        self.text.add(f"T.clear({tile.name})")
        if not self.depth:
            self.tiles.append(tile)
        return tile

    # -- statements ------------------------------------------------------------------------------
    def statement(self) -> None:
        """One statement of any kind."""
        self.room -= 1
        forms = [self.pointwise, self.pointwise, self.pointwise, self.pointwise, self.update,
                 self.reduce, self.scan, self.move, self.rows, self.variable, self.single,
                 self.by_threads, self.atomic]  # fmt: skip
        if self.depth < 2:
            forms += [self.serial, self.serial, self.branch]
        if not self.depth:
            forms += [self.view]
        self.draw.choice(forms)()

    def head(self, shape: Sequence[int], inner: Sequence[int] | None = None) -> list[str]:
        """A parallel loop over ``inner``, or all of ``shape``: its indices."""
        index = list("ijl"[: len(shape)])
        extents = ", ".join(map(str, inner or shape))
        self.text.add(f"for {', '.join(index)} in T.Parallel({extents}):")
        return index

    def pointwise(self) -> None:
        """A loop over a tile or part of it that reads others wherever they are."""
        draw, text = self.draw, self.text
        tile = self.written()
        inner = [draw.integer(1, n) if draw.chance(0.2) else n for n in tile.shape]
        index = self.head(tile.shape, inner)
        starts = [draw.integer(0, n - m) for n, m in zip(tile.shape, inner, strict=True)]
        if draw.chance(0.2):  # each element once, in another order
            starts = [0 for _ in starts]
            inner_index = [
                f"{n} - 1 - {name}" if n == m and draw.chance(0.5) else name
                for name, n, m in zip(index, tile.shape, inner, strict=True)
            ]
        else:
            inner_index = [
                f"{name} + {start}" if start else name
                for name, start in zip(index, starts, strict=True)
            ]
        at = f"{tile.name}[{', '.join(inner_index)}]"
        sizes = dict(zip(index, inner, strict=True))
        value = self.value(sizes, tile, at)
        form = draw.choice(("plain", "plain", "plain", "if", "else", "choice", "two", "again"))
        if form == "plain":
            text.add(f"    {at} = {self.fitted(value, tile)}")
        elif form == "choice":
            cond = self.condition(sizes, tile, at)
            both = f"{cond}, {self.fitted(value, tile)}, {at}"
            text.add(f"    {at} = T.if_then_else({both})")
        elif form == "again":
            text.add(f"    {at} = {self.fitted(value, tile)}")
            text.add(f"    {at} = {self.fitted(self.value(sizes, tile, at), tile)}")
        elif form == "two":
            others = [other for other in self.tiles
                      if not other.kept and other.memory != tile.memory
                      and other.shape == tile.shape]  # fmt: skip
            text.add(f"    {at} = {self.fitted(self.value(sizes, tile, at, others), tile)}")
            if others:
                other = draw.choice(others)
                place = f"{other.name}[{', '.join(inner_index)}]"
                text.add(f"    {place} = {self.fitted(f'{self.whole(at, tile)} + 1', other)}")
        else:
            text.add(f"    if {self.condition(sizes, tile, at)}:")
            text.add(f"        {at} = {self.fitted(value, tile)}")
            if form == "else":
                text.add("    else:")
                text.add(f"        {at} = {self.fitted(self.value(sizes, tile, at), tile)}")

    def update(self) -> None:
        """Iterations that update the same elements."""
        draw, text = self.draw, self.text
        tile = self.written()
        shape = draw.choice(self.shapes)
        index = self.head(shape)
        sizes = dict(zip(index, shape, strict=True))
        places = []
        for extent in tile.shape:
            fits = [name for name in index if sizes[name] <= extent]
            form = draw.choice(("index", "index", "modulo", "constant", "data"))
            if form == "index" and fits:
                places.append(draw.choice(fits))
            elif form == "data":
                places.append(f"({self.value(sizes, tile, '')}) % {extent}")
            elif form == "constant":
                places.append(str(draw.integer(0, extent - 1)))
            else:
                places.append(f"{draw.choice(index)} % {extent}")
        at = f"{tile.name}[{', '.join(places)}]"
        op = draw.choice(("max", "min", "|", "^") if tile.dtype not in FLOATS else ("max", "min"))
        value = self.fitted(self.value(sizes, tile, ""), tile)
        call = f"T.{op}({at}, {value})" if op in ("max", "min") else f"{at} {op} {value}"
        form = draw.choice(("plain", "if", "choice"))
        if form == "choice":
            call = f"T.if_then_else({self.condition(sizes, tile, '')}, {call}, {at})"
        if form == "if":
            text.add(f"    if {self.condition(sizes, tile, '')}:")
        text.add(f"    {'    ' * (form == 'if')}{at} = {call}")

    def reduce(self) -> None:
        """A reduction over one dimension into a new tile."""
        draw = self.draw
        fits = [tile for tile in self.tiles if tile.scope != "global" and len(tile.shape) > 1]
        if not fits:
            return self.pointwise()
        tile = draw.choice(fits)
        dim = draw.integer(0, len(tile.shape) - 1)
        shape = tile.shape[:dim] + tile.shape[dim + 1 :]
        name = self.names.fresh("r")
        scope = draw.choice(("fragment", "shared"))
        self.text.add(f"{name} = T.alloc_{scope}({shape}, {tile.dtype!r})")
        kind = draw.choice(("max", "min"))
        self.text.add(f"T.reduce_{kind}({tile.name}, {name}, dim={dim})")
        return self.used(Place(name, shape, tile.dtype, scope))

    def used(self, tile: Place) -> None:
        """A tile of a loop or branch is used at once, and kept outside of them."""
        if self.depth:
            shown = self.tiles
            self.tiles = [tile, *shown]
            self.pointwise()
            self.tiles = shown
        else:
            self.tiles.append(tile)

    def scan(self) -> None:
        """Running maxima in a tile of its own or in place."""
        draw = self.draw
        tile = self.written()
        if tile.dtype in ("int16", "uint8", "float16"):
            return self.pointwise()
        dim = draw.integer(0, len(tile.shape) - 1)
        self.text.add(f"T.cummax({tile.name}, dim={dim}, reverse={draw.chance(0.5)})")
        return None

    def move(self) -> None:
        """A copy of a slice to another place."""
        draw = self.draw
        to = self.written()
        fits = [tile for tile in self.tiles
                if tile.scope != "global" and len(tile.shape) == len(to.shape)
                and tile.memory != to.memory]  # fmt: skip
        if not fits:
            return self.pointwise()
        tile = draw.choice(fits)
        sides: list[list[str]] = [[], []]
        for n, m in zip(tile.shape, to.shape, strict=True):
            extent = draw.integer(1, min(n, m)) if draw.chance(0.3) else min(n, m)
            for side, most in zip(sides, (n, m), strict=True):
                start = draw.integer(0, most - extent)
                side.append(f"{start}:{start + extent}")
        self.text.add(
            f"T.copy({tile.name}[{', '.join(sides[0])}], {to.name}[{', '.join(sides[1])}])"
        )
        return None

    def rows(self) -> None:
        """A serial loop over one dimension around a parallel loop over the others."""
        draw, text = self.draw, self.text
        tile = self.written()
        if len(tile.shape) < 2 or self.depth > 1:
            return self.pointwise()
        name = self.names.fresh("s")
        text.add(
            f"for {name} in {draw.choice(('T.serial', 'range', 'T.unroll'))}({tile.shape[0]}):"
        )
        text.depth += 1
        index = self.head(tile.shape[1:])
        at = f"{tile.name}[{', '.join((name, *index))}]"
        sizes = dict(zip(index, tile.shape[1:], strict=True))
        before = (
            f"{tile.name}[({name} + {tile.shape[0] - 1}) % {tile.shape[0]}, {', '.join(index)}]"
        )
        value = (
            f"{self.value({**sizes, name: tile.shape[0]}, tile, at)} + {self.whole(before, tile)}"
        )
        text.add(f"    {at} = {self.fitted(value, tile)}")
        text.depth -= 1
        return None

    def variable(self) -> None:
        """A variable of each iteration, and a serial loop in it."""
        draw, text = self.draw, self.text
        tile = self.written()
        index = self.head(tile.shape)
        at = f"{tile.name}[{', '.join(index)}]"
        sizes = dict(zip(index, tile.shape, strict=True))
        name, step, many = self.names.fresh("v"), self.names.fresh("q"), draw.integer(1, 5)
        text.add(f"    {name} = T.alloc_var('int32', {self.value(sizes, tile, at)})")
        end = draw.choice((str(many), f"{draw.choice(index)} % {many + 1}"))
        text.add(f"    for {step} in T.serial({end}):")
        text.add(f"        {name} += {self.value({**sizes, step: many}, tile, at)}")
        if draw.chance(0.3):
            text.add(f"        if {name} > {draw.integer(20, 90)}:")
            text.add("            break")
        text.add(f"    {at} = {self.fitted(name, tile)}")

    def single(self) -> None:
        """An element that all threads store, or a value that all of them read."""
        draw, text = self.draw, self.text
        tile = self.written(("shared",))
        at = f"{tile.name}[{', '.join(str(draw.integer(0, n - 1)) for n in tile.shape)}]"
        if draw.chance(0.5):
            text.add(f"{at} = {self.fitted(self.value({}, tile, ''), tile)}")
        else:
            name = self.names.fresh("u")
            text.add(f"{name} = T.alloc_var('int32', {self.whole(at, tile)})")
            if not self.depth:
                self.scalars.append(name)

    def by_threads(self) -> None:
        """Threads that handle elements of their own number."""
        draw, text = self.draw, self.text
        tile = self.written(("shared",))
        total = prod(tile.shape)
        if total > self.threads:
            return self.pointwise()
        name = self.names.fresh("tx")
        text.add(f"{name} = T.get_thread_binding()")
        self.program.features.add("automatic barriers")
        places = []
        for k, extent in enumerate(tile.shape):
            below = prod(tile.shape[k + 1 :])
            places.append(f"{name} // {below} % {extent}")
        at = f"{tile.name}[{', '.join(places)}]"
        text.add(f"if {name} < {total}:")
        shown = self.tiles
        self.tiles = [t for t in shown if t.scope != "fragment"]
        value = self.value({name: total}, tile, at)
        self.tiles = shown
        text.add(f"    {at} = {self.fitted(value, tile)}")
        return None

    def atomic(self) -> None:
        """Atomic updates of a shared tile."""
        draw, text = self.draw, self.text
        fits = [tile for tile in self.tiles if tile.scope == "shared" and tile.dtype == "int32"
                and not tile.kept]  # fmt: skip
        if not fits:
            return self.update()
        tile = draw.choice(fits)
        shape = draw.choice(self.shapes)
        index = self.head(shape)
        sizes = dict(zip(index, shape, strict=True))
        at = ", ".join(f"({self.value(sizes, tile, '')}) % {n}" for n in tile.shape)
        value = self.fitted(self.value(sizes, tile, ""), tile)
        text.add(f"    T.atomic_{draw.choice(('max', 'min', 'or'))}({tile.name}[{at}], {value})")
        return None

    def view(self) -> None:
        """Another shape of a tile."""
        draw = self.draw
        fits = [tile for tile in self.tiles if tile.scope != "global" and not tile.kept]
        tile = draw.choice(fits) if fits else self.written()
        total = prod(tile.shape)
        shapes = [shape for shape in (*self.shapes, (total,), (1, total), (total, 1))
                  if prod(shape) == total]  # fmt: skip
        name, shape = self.names.fresh("w"), draw.choice(shapes)
        self.text.add(f"{name} = T.reshape({tile.name}, {shape})")
        self.tiles.append(Place(name, shape, tile.dtype, tile.scope, base=tile.memory))

    def serial(self) -> None:
        """A loop of the block around statements."""
        draw, text = self.draw, self.text
        name, many = self.names.fresh("k"), draw.integer(1, 4)
        form = draw.choice(("T.serial({})", "range({})", "T.unroll({})", "T.serial(bx + {})",
                            "T.serial(1, {} + 1)", "T.Pipelined({}, num_stages=2)"))  # fmt: skip
        text.add(f"for {name} in {form.format(many)}:")
        self.scalars.append(name)
        if "Pipelined" in form:
            shape = draw.choice(self.shapes)
            source = self.tensor("P", (many, *shape), "int32", "in")
            tile = self.names.fresh("p")
            text.lines.insert(
                len(text.lines) - 1,
                "    " * text.depth + f"{tile} = T.alloc_shared({shape}, 'int32')",
            )
            zeros = ", ".join("0" for _ in shape)
            text.add(f"    T.copy({source}[{name}, {zeros}], {tile})")
            self.inside([Place(tile, shape, "int32", "shared", kept=True)])
        else:
            self.inside([])
        self.scalars.remove(name)

    def branch(self) -> None:
        """Statements under a condition of the block."""
        draw, text = self.draw, self.text
        text.add(f"if {self.uniform()}:")
        self.inside([])
        if draw.chance(0.4):
            text.add("else:")
            self.inside([])

    def inside(self, more: list[Place]) -> None:
        """Some statements, deeper."""
        shown, scalars = self.tiles, list(self.scalars)
        self.tiles = [*more, *shown]
        self.text.depth += 1
        self.depth += 1
        for _ in range(self.draw.integer(1, 3)):
            self.statement()
        self.text.depth -= 1
        self.depth -= 1
        self.tiles, self.scalars = shown, scalars

    # -- expressions -----------------------------------------------------------------------------
    def uniform(self) -> str:
        """A condition that is the same for all threads."""
        draw = self.draw
        number = draw.choice(self.scalars)
        shared = [tile for tile in self.tiles if tile.scope in ("shared", "global")]
        if shared and draw.chance(0.4):
            tile = draw.choice(shared)
            number = self.whole(self.element(tile, {}), tile)
        return draw.choice(
            (f"{number} % 2 == 0", f"{number} > 0", f"{number} < 2", f"{number} != 3")
        )

    def condition(self, sizes: dict[str, int], tile: Place, at: str) -> str:
        """Of an iteration."""
        draw = self.draw
        form = draw.choice(("index", "index", "data", "block", "both"))
        if not sizes or form == "block":
            return f"{draw.choice(self.scalars)} % 2 == {draw.integer(0, 1)}"
        name = draw.choice(list(sizes))
        bound = draw.integer(0, sizes[name])
        index = draw.choice((f"{name} < {bound}", f"{name} >= {bound}", f"{name} == {bound}",
                             f"{name} % 2 == 0", f"{name} // 3 != 1"))  # fmt: skip
        data = f"{self.value(sizes, tile, at)} > {draw.integer(-2, 40)}"
        return {"index": index, "data": data, "both": f"{index} and {data}"}[form]

    def whole(self, element: str, tile: Place) -> str:
        """An element as int32."""
        return f"T.cast({element}, 'int32')"

    def fitted(self, value: str, tile: Place) -> str:
        """``value`` within 0..63, in the dtype of ``tile``."""
        return f"T.cast(({value}) & 63, {tile.dtype!r})"

    def value(
        self, sizes: dict[str, int], tile: Place, at: str, without: Sequence[Place] = ()
    ) -> str:
        """An int32 expression; of ``tile`` it reads the element ``at`` alone."""
        draw = self.draw
        terms = []
        if at and draw.chance(0.4):
            terms.append(self.whole(at, tile))
        hidden = {tile.memory, *(other.memory for other in without)}
        fits = [other for other in self.tiles if other.memory not in hidden]
        for _ in range(draw.integer(1, 2)):
            if fits:
                other = draw.choice(fits)
                terms.append(self.whole(self.element(other, sizes), other))
        terms.append(draw.choice([*self.scalars, *sizes, str(draw.integer(1, 7))]))
        text = terms[0]
        for term in terms[1:]:
            text = draw.choice(("{} + {}", "{} - {}", "T.max({}, {})", "{} ^ {}", "{} * 3 + {}")).format(text, term)  # fmt: skip
        return f"({text})"

    def element(self, tile: Place, sizes: dict[str, int]) -> str:
        """An element of ``tile`` that an iteration reads."""
        draw = self.draw
        places = [self.place(extent, sizes, k) for k, extent in enumerate(tile.shape)]
        names = list(sizes)
        if len(names) > 1 and prod(sizes.values()) == prod(tile.shape) and draw.chance(0.4):
            flat = names[0]
            for name in names[1:]:
                flat = f"({flat}) * {sizes[name]} + {name}"
            places = [
                f"({flat}) // {prod(tile.shape[k + 1 :])} % {extent}"
                for k, extent in enumerate(tile.shape)
            ]
        if tile.scope == "global":
            places.insert(0, "bx")
        return f"{tile.name}[{', '.join(places)}]"

    def place(self, extent: int, sizes: dict[str, int], k: int) -> str:
        """An index of a dimension."""
        draw = self.draw
        names = list(sizes)
        fits = [name for name in names if sizes[name] <= extent]
        if len(names) > k and names[k] in fits and draw.chance(0.5):
            return names[k]
        same = [name for name in fits if sizes[name] == extent]
        form = draw.choice(("same", "shift", "reverse", "constant", "any", "block"))
        if form == "same" and fits:
            return draw.choice(fits)
        if form == "reverse" and same:
            return f"{extent - 1} - {draw.choice(same)}"
        if form == "shift" and names:
            return f"({draw.choice(names)} + {draw.integer(1, 5)}) % {extent}"
        if form == "any" and names:
            return (
                f"({draw.choice(names)} * {draw.integer(2, 5)} + {draw.integer(0, 3)}) % {extent}"
            )
        if form == "block":
            return f"({draw.choice(self.scalars)} & 63) % {extent}"
        return str(draw.integer(0, extent - 1))


make_chains = _Kernel.make
