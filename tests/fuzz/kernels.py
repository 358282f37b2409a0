"""Random kernels on tiles: the frame, the tiles, and the results; see `statements` for bodies."""

from __future__ import annotations

from .draws import Draw
from .exprs import FLOATS, INTS, Value
from .model import Names, Program, Tensor, Text, Tile, ready, tensor_bounds

BLOCKS = (16, 8, 4, 32, 1, 2, 3, 5, 7, 12, 17, 20, 24)
THREADS = (128, 32, 64, 96, 1, 256, 33)
AXES = ("bx", "by", "bz")
SPECIAL = ("float32", "float16", "bfloat16", "float64")  # have infinities and NaN in every cast


class Frame:
    """One kernel under construction.

    Letters name what a dimension counts: m and n are split over blocks, z is one block per index,
    k is walked by loops, c and d are small constants. ``block`` has the extent of a tile and
    ``total`` of a tensor; ``offset`` the text of where the tile of this block starts.
    """

    def __init__(self, draw: Draw, program: Program, names: Names) -> None:
        self.draw = draw
        self.program = program
        self.names = names
        self.text = Text()
        self.tiles: dict[str, Tile] = {}
        self.tensors: list[Tensor] = []
        self.values: list[Value] = []  # scalars in scope
        self.nested = 0  # depth of loops and branches
        self.inexact = draw.chance(0.2)
        self.block: dict[str, int] = {}
        self.total: dict[str, int] = {}
        self.dims: dict[str, str] = {}
        self.offset: dict[str, str] = {}
        self.axes: list[str] = []
        self.threads = draw.choice(THREADS)
        self._choose_sizes()

    # -- sizes ---------------------------------------------------------------------------------
    def _choose_sizes(self) -> None:
        draw = self.draw
        self.axes = draw.choice((["m", "n"], ["m"], ["m", "n", "z"], ["n", "m"], ["z", "m"]))
        for letter in "mnkcd":
            size = draw.choice(BLOCKS) if letter in "mnk" else draw.integer(1, 3)
            self.block[letter] = self.total[letter] = size
            self.offset[letter] = "0"
        self.block["z"] = 1
        self.grid = []
        for axis, letter in zip(AXES, self.axes, strict=False):
            count = draw.integer(1, 3)
            self.grid.append(count)
            if letter == "z":
                self.total["z"], self.offset["z"] = count, axis
                continue
            block = self.block[letter]
            missing = draw.integer(0, block - 1) if draw.chance(0.5) else 0
            self.total[letter] = count * block - missing
            self.offset[letter] = f"{axis} * {block}"
        if "n" not in self.axes and draw.chance(0.3):
            self.total["n"] = max(1, self.block["n"] + draw.integer(-2, 2))
        self.k_steps = draw.integer(1, 4)
        missing = draw.integer(0, self.block["k"] - 1) if draw.chance(0.4) else 0
        self.total["k"] = self.k_steps * self.block["k"] - missing
        for letter, size in self.total.items():
            self.dims[letter] = str(size)
        if draw.chance(0.25):
            letter = draw.choice("mnk")
            symbol = self.names.fresh("size")
            self.program.symbols.append(symbol)
            if draw.chance(0.3):
                self.program.symbol_dtypes[symbol] = "int64"
            self.program.features.add("dynamic")
            self.dims[letter] = symbol
            self.dynamic_letter: str | None = letter
        else:
            self.dynamic_letter = None

    def open(self) -> None:
        """Write the head of the kernel."""
        draw, text = self.draw, self.text
        names = list(AXES[: len(self.axes)])
        extents = []
        for letter, count in zip(self.axes, self.grid, strict=True):
            dim = self.dims[letter]
            static = dim.isdigit()
            by_formula = letter != "z" and (not static or draw.chance(0.3))
            extents.append(f"T.ceildiv({dim}, {self.block[letter]})" if by_formula else str(count))
        if draw.chance(0.08) and all(extent.isdigit() for extent in extents):
            self._open_persistent(names, extents)
            return
        threads = f", threads={self.threads}"
        if self.threads == 128 and draw.chance(0.3):
            threads = ""
        bound = names[0] if len(names) == 1 else f"({', '.join(names)})"
        text.add(f"with T.Kernel({', '.join(extents)}{threads}) as {bound}:")
        text.depth += 1
        self._block_values(names)
        if len(names) == 2 and draw.chance(0.1):
            text.add("T.use_swizzle(2)")

    def _open_persistent(self, names: list[str], extents: list[str]) -> None:
        self.program.features.add("persistent")
        wave = self.draw.integer(1, 3)
        group = self.draw.choice(("", ", group_size=2"))
        self.text.add(f"with T.Kernel({wave}, threads={self.threads}) as worker:")
        self.text.depth += 1
        bound = names[0] if len(names) == 1 else ", ".join(names)
        domain = f"[{', '.join(extents)}]"
        self.text.add(f"for {bound} in T.Persistent({domain}, {wave}, worker{group}):")
        self.text.depth += 1
        self._block_values(names)

    def _block_values(self, names: list[str]) -> None:
        for name, count in zip(names, self.grid, strict=True):
            self.values.append(Value(name, "int32", count))

    # -- tiles ---------------------------------------------------------------------------------
    def letters(self) -> str:
        """Dimensions for a new tile."""
        return self.draw.choice(("mn", "m", "n", "mk", "kn", "cmn", "nm", "mc", "k"))

    def new_tile(
        self, letters: str | None = None, dtype: str | None = None, scope: str | None = None,
        base: str = "t",
    ) -> Tile:  # fmt: skip
        """Allocate a tile here."""
        draw = self.draw
        letters = letters or self.letters()
        dtype = dtype or self.dtype()
        scope = scope or draw.choice(("fragment", "shared"))
        shape = tuple(self.block[letter] for letter in letters)
        name = self.names.fresh(base)
        shown = f"{shape}" if len(shape) > 1 or draw.chance(0.5) else f"{shape[0]}"
        form = draw.choice((f"{dtype!r}", f"T.{dtype}", f"dtype={dtype!r}"))
        self.text.add(f"{name} = T.alloc_{scope}({shown}, {form})")
        tile = Tile(name, letters, shape, dtype, scope)
        self.tiles[name] = tile
        return tile

    def dtype(self) -> str:
        """A dtype for a tile."""
        kinds = (*FLOATS[:3], "float32", *INTS[:4], "float64", "float8_e4m3fn", "float8_e5m2")
        return self.draw.choice(kinds)

    def ready_tiles(self) -> list[Tile]:
        return [tile for tile in self.tiles.values() if tile.ready]

    def update(self, tile: Tile, mag: float, frac: int, prec: int = 53) -> None:
        """Note what a statement left in ``tile``."""
        old = self.tiles[tile.name]
        if self.nested and old.ready:
            mag, frac, prec = max(mag, old.mag), max(frac, old.frac), min(prec, old.prec)
        self.tiles[tile.name] = ready(old, mag, frac, prec)

    # -- tensors -------------------------------------------------------------------------------
    def tensor(self, letters: str, dtype: str, role: str = "in", frac: int | None = None) -> Tensor:
        """A parameter, sometimes an existing one."""
        draw = self.draw
        if role == "in":
            for old in self.tensors:
                same = (old.letters, old.dtype, old.role) == (letters, dtype, role)
                if same and draw.chance(0.5):
                    return old
        name = self.names.fresh("A" if role == "in" else "Out")
        shape = tuple(self.total[letter] for letter in letters)
        dims = tuple(self.dims[letter] for letter in letters)
        mag, modes = tensor_bounds(draw, dtype, name)
        steps = None
        if role == "in" and draw.chance(0.1) and all(dim.isdigit() for dim in dims):
            steps = tuple(draw.integer(1, 3) for _ in shape)
            self.program.features.add("strided")
        special = dtype in SPECIAL and draw.chance(0.1)
        made = Tensor(name, letters, shape, dims, dtype, role, mag, modes, steps, special=special)
        self.tensors.append(made)
        self.program.tensors.append(made)
        return made

    def output(self, tile: Tile) -> Tensor:
        """A parameter that takes ``tile`` from every block: axes it lacks come first."""
        missing = [letter for letter in self.axes if letter not in tile.letters]
        name = self.names.fresh("Out")
        counts = [self.grid[self.axes.index(letter)] for letter in missing]
        shape = (*counts, *(self.total[letter] for letter in tile.letters))
        dims = (*map(str, counts), *(self.dims[letter] for letter in tile.letters))
        made = Tensor(name, tile.letters, shape, dims, tile.dtype, "out", tile.mag, tile.frac,
                      prec=tile.prec)  # fmt: skip
        self.program.tensors.append(made)
        return made

    def lead(self, tile: Tile) -> list[str]:
        """Indices of the axes that ``tile`` lacks."""
        return [AXES[i] for i, letter in enumerate(self.axes) if letter not in tile.letters]

    def symbols_bound(self) -> bool:
        """Whether a tensor of this kernel shows the dynamic extent by itself."""
        if self.dynamic_letter is None:
            return True
        symbol = self.dims[self.dynamic_letter]
        return any(symbol in tensor.dims for tensor in self.program.tensors)

    def finish(self) -> None:
        """Write results out and file the kernel."""
        shown = 0
        for tile in self.ready_tiles():
            if shown and not self.draw.chance(0.8):
                continue
            shown += 1
            self.store_result(tile)
        if not self.symbols_bound():
            self.tensor(self.dynamic_letter or "m", "float32")
        self.program.kernels.append(self.text.lines)

    def store_result(self, tile: Tile) -> None:
        """Copy ``tile`` to a new output by a copy or by element."""
        out = self.output(tile)
        lead, draw = self.lead(tile), self.draw
        starts = [self.offset[letter] for letter in tile.letters]
        form = draw.choice(("anchor", "region", "parallel"))
        if form == "anchor":
            self.text.add(f"T.copy({tile.name}, {out.name}[{', '.join([*lead, *starts])}])")
        elif form == "region":
            parts = [
                f"{start} : {start} + {size}"
                for start, size in zip(starts, tile.shape, strict=True)
            ]
            source = tile.name
            if draw.chance(0.3):
                source += "[" + ", ".join(f"0:{size}" for size in tile.shape) + "]"
            self.text.add(f"T.copy({source}, {out.name}[{', '.join([*lead, *parts])}])")
        else:
            index = list("ijlpq")[: len(tile.shape)]
            loops = ", ".join(map(str, tile.shape))
            self.text.add(f"for {', '.join(index)} in T.Parallel({loops}):")
            where = [f"{s} + {i}" for s, i in zip(starts, index, strict=True)]
            store = f"{out.name}[{', '.join([*lead, *where])}] = {tile.name}[{', '.join(index)}]"
            if draw.chance(0.3):
                guard = " and ".join(
                    f"{w} < {self.dims[c]}" for w, c in zip(where, tile.letters, strict=True)
                )
                self.text.add(f"    if {guard}:")
                store = "    " + store
            self.text.add("    " + store)
