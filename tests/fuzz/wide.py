"""Random statements on tiles that combine what programs of others combine.

Annotated layouts with views, names that branches and loops bind again, indices before the start,
reducers in serial loops and at computed places, macros.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from .exprs import Exprs, Value
from .model import Tensor, Tile

if TYPE_CHECKING:
    from .statements import Body


class WideStatements:
    """Statements for a body."""

    def __init__(self, body: Body) -> None:
        self.body = body
        self.frame = body.frame
        self.draw = body.draw
        self.text = body.text
        self.fresh = body.frame.names.fresh
        self.simple: tuple[Callable[[], None], ...] = (
            self.annotated, self.viewed, self.written_view, self.sliced, self.rebound,
            self.before_start, self.annotated, self.viewed,
        )  # fmt: skip
        self.once: tuple[Callable[[], None], ...] = (
            self.reducer_in_loops, self.reducer_at, self.carried, self.flagged, self.macro,
        )  # fmt: skip

    # -- layouts and views ---------------------------------------------------------------------
    def annotated(self) -> None:
        """A tile with a layout of its own, filled from a tensor."""
        draw, frame = self.draw, self.frame
        if frame.nested:
            return self.viewed()
        dtype = draw.choice(("float32", "float16", "int32", "int8", "bfloat16"))
        tile = frame.new_tile(draw.choice(("mn", "mk", "m", "kn", "cmn")), dtype)
        if tile.scope == "shared":
            layout = self._shared_layout(tile)
        else:
            layout = self._fragment_layout(tile)
        frame.program.features.add("annotated")
        self.text.add(f"T.annotate_layout({{{tile.name}: {layout}}})")
        self.body.load_into(tile)
        return None

    def _linear(self, tile: Tile) -> tuple[str, str]:
        """Names of the indices, and their row-major position."""
        names = ["i", "j", "p"][: len(tile.shape)]
        text = names[0]
        for name, size in zip(names[1:], tile.shape[1:], strict=True):
            text = f"({text}) * {size} + {name}"
        return ", ".join(names), text

    def _shared_layout(self, tile: Tile) -> str:
        names, at = self._linear(tile)
        shape = f"({', '.join(map(str, tile.shape))},)"
        size = tile.shape[-1]
        forms = [
            f"T.Layout({shape}, lambda {names}: {at})",
            f"T.Layout({shape}, lambda {names}: [{names}])",
            f"T.Layout({shape}, lambda {names}: ({at}) + ({at}) // {max(size, 4)})",
            f"T.Layout({shape}, lambda {names}: {_volume(tile)} - 1 - ({at}))",
        ]
        if len(tile.shape) == 2:
            rows = tile.shape[0]
            forms.append(f"T.Layout({shape}, lambda i, j: j * {rows} + i)")
            forms.append(f"T.Layout({shape}, lambda i, j: [i, (j + i) % {size}])")
            if size & (size - 1) == 0:
                forms.append(f"T.Layout({shape}, lambda i, j: [i, j ^ (i % {size})])")
        return self.draw.choice(forms)

    def _fragment_layout(self, tile: Tile) -> str:
        names, at = self._linear(tile)
        shape = f"({', '.join(map(str, tile.shape))},)"
        threads = self.frame.threads
        v = self.draw.choice((1, 2, 4))
        thread = f"({at}) // {v} % {threads}"
        if self.draw.chance(0.3):
            thread = f"{threads - 1} - {thread}"
        local = f"({at}) // {v * threads} * {v} + ({at}) % {v}"
        return f"T.Fragment({shape}, forward_fn=lambda {names}: ({thread}, {local}))"

    def _split(self, volume: int) -> tuple[int, ...]:
        """Extents with ``volume`` elements."""
        found = [n for n in range(1, volume + 1) if volume % n == 0]
        first = self.draw.choice(found)
        if self.draw.chance(0.3):
            rest = [n for n in range(1, volume // first + 1) if (volume // first) % n == 0]
            second = self.draw.choice(rest)
            return first, second, volume // first // second
        return first, volume // first

    def _view(self, tile: Tile) -> tuple[str, tuple[int, ...]]:
        shape = self._split(_volume(tile))
        name = self.fresh("view")
        word = self.draw.choice(("reshape", "view"))
        self.text.add(f"{name} = T.{word}({tile.name}, ({', '.join(map(str, shape))},))")
        if self.draw.chance(0.2):
            shape = self._split(_volume(tile))
            again = self.fresh("view")
            self.text.add(f"{again} = T.reshape({name}, ({', '.join(map(str, shape))},))")
            name = again
        self.frame.program.features.add("view")
        return name, shape

    def viewed(self) -> None:
        """A tile read in another shape: copied out, or reduced."""
        frame, draw = self.frame, self.draw
        if frame.nested:
            return self.body.elementwise()
        source = self.body.source(lambda t: not t.dtype.startswith("float8"))
        name, shape = self._view(source)
        if draw.chance(0.3):
            return self._reduced_view(source, name, shape)
        out = self._result(source, shape)
        lead = ["bx", "by", "bz"][: len(frame.axes)]
        index = ["i", "j", "p"][: len(shape)]
        place = f"{out.name}[{', '.join([*lead, *index])}]"
        if draw.chance(0.4):
            self.text.add(
                f"T.copy({name}, {out.name}[{', '.join([*lead, *(['0'] * len(shape))])}])"
            )
        else:
            self.text.add(f"for {', '.join(index)} in T.Parallel({', '.join(map(str, shape))}):")
            self.text.add(f"    {place} = {name}[{', '.join(index)}]")
        return None

    def _result(self, source: Tile, shape: tuple[int, ...]) -> Tensor:
        frame = self.frame
        full = (*frame.grid, *shape)
        out = Tensor(self.fresh("Out"), "", full, tuple(map(str, full)), source.dtype, "out",
                     source.mag, source.frac, prec=source.prec)  # fmt: skip
        frame.program.tensors.append(out)
        return out

    def _reduced_view(self, source: Tile, name: str, shape: tuple[int, ...]) -> None:
        at = self.draw.integer(0, len(shape) - 1)
        left = shape[:at] + shape[at + 1 :]
        out, scope = self.fresh("r"), self.draw.choice(("fragment", "shared"))
        sizes = f"({', '.join(map(str, left))},)"
        self.text.add(f"{out} = T.alloc_{scope}({sizes}, {source.dtype!r})")
        self.text.add(f"T.reduce_{self.draw.choice(('max', 'min'))}({name}, {out}, dim={at})")
        result = self._result(source, left)
        lead = ["bx", "by", "bz"][: len(self.frame.axes)]
        self.text.add(f"T.copy({out}, {result.name}[{', '.join([*lead, *(['0'] * len(left))])}])")

    def written_view(self) -> None:
        """Elements stored through a view, read by the tile's own name afterwards."""
        frame = self.frame
        if frame.nested:
            return self.body.elementwise()
        source = self.body.source(lambda t: t.dtype in ("int32", "int8", "float32"))
        if source.name.startswith("red") or (source.is_float and source.mag > 1e4):
            return None
        name, shape = self._view(source)
        index = ["i", "j", "p"][: len(shape)]
        here = f"{name}[{', '.join(index)}]"
        self.text.add(f"for {', '.join(index)} in T.Parallel({', '.join(map(str, shape))}):")
        self.text.add(f"    {here} = {here} + {index[-1]} % 3")
        mag = source.mag + 2 if source.is_float else 2.0**32
        frame.update(source, mag, source.frac, source.prec)
        return None

    def sliced(self) -> None:
        """Part of a tile copied to a smaller one and out."""
        frame, draw = self.frame, self.draw
        if frame.nested:
            return self.body.elementwise()
        source = self.body.source(lambda t: len(t.shape) == 2)
        first = draw.integer(0, source.shape[0] - 1)
        count = draw.integer(1, source.shape[0] - first)
        part, scope = self.fresh("part"), draw.choice(("fragment", "shared"))
        shape = (count, source.shape[1])
        self.text.add(f"{part} = T.alloc_{scope}({shape}, {source.dtype!r})")
        self.text.add(f"T.copy({source.name}[{first} : {first + count}, :], {part})")
        result = self._result(source, shape)
        lead = ["bx", "by", "bz"][: len(frame.axes)]
        self.text.add(f"T.copy({part}, {result.name}[{', '.join([*lead, '0', '0'])}])")
        return None

    # -- names ---------------------------------------------------------------------------------
    def _number(self) -> str:
        """A value of 32 bits."""
        exprs = Exprs(self.draw, self.frame.values)
        return f"T.cast({exprs.as_int(exprs.exactly(1)).text}, 'int32')"

    def _bind(self, name: str, text: str, dtype: str = "int32") -> None:
        """Bind a name that control flow binds again; see :meth:`ThreadStatements.bind`."""
        if self.draw.chance(0.06):
            self.frame.program.features.add("rebinds")
            self.text.add(f"{name} = {text}")
        else:
            self.text.add(f"{name} = T.alloc_var({dtype!r}, init={text})")

    def rebound(self) -> None:
        """A number that a branch binds again, used in the tiles that follow."""
        frame = self.frame
        name = self.fresh("u")
        exprs = Exprs(self.draw, frame.values)
        self._bind(name, self._number())
        self.text.add(f"if {exprs.condition(1)}:")
        self.text.add(f"    {name} = {self._number()}")
        if self.draw.chance(0.4):
            self.text.add("else:")
            self.text.add(f"    {name} = {name} + {self.draw.integer(0, 3)}")
        frame.values.append(Value(name, "int32", 2.0**31))
        self.body.elementwise()

    def carried(self) -> None:
        """A number that each iteration makes for the next one."""
        frame = self.frame
        name, loop = self.fresh("u"), self.fresh("s")
        self._bind(name, self._number())
        bounds = self.draw.choice(("T.serial(3)", "range(2)", "T.serial(bx + 1)", "T.serial(0)"))
        self.text.add(f"for {loop} in {bounds}:")
        frame.values.append(Value(name, "int32", 2.0**31))
        frame.values.append(Value(loop, "int32", 4))
        self.body.inside(1)
        frame.values.pop()
        self.text.add(f"    {name} = {self.draw.choice((f'{name} * 3 + {loop}', f'{name} + 1'))}")
        self.body.elementwise()

    def flagged(self) -> None:
        """A truth value that a loop sets and a branch asks for."""
        name, loop = self.fresh("seen"), self.fresh("s")
        exprs = Exprs(self.draw, [*self.frame.values, Value(loop, "int32", 4)])
        self._bind(name, "False", "bool")
        self.text.add(f"for {loop} in T.serial(3):")
        self.text.add(f"    if {exprs.condition(1)}:")
        self.text.add(f"        {name} = True")
        self.text.add(f"if {name}:")
        self.body.inside(1)

    def macro(self) -> None:
        """A function of the program that changes a tile; names in it are bound again."""
        frame, draw = self.frame, self.draw
        source = self.body.source(
            lambda t: t.dtype == "int32" and not t.name.startswith("red")  # which are final
        )
        name, index = self.fresh("change"), ["i", "j", "p"][: len(source.shape)]
        here = f"tile[{', '.join(index)}]"
        frame.program.features.add("macro")
        plain = draw.chance(0.06)
        if plain:
            frame.program.features.add("rebinds")
        frame.program.macros += [
            "@T.macro",
            f"def {name}(tile, x):",
            f"    y = {'x + 1' if plain else 'T.alloc_var(' + repr('int32') + ', init=x + 1)'}",
            "    if x > 1:",
            "        y = x * 2",
            f"    for {', '.join(index)} in T.Parallel({', '.join(map(str, source.shape))}):",
            f"        {here} = {here} + y",
            "",
        ]
        self.text.add(f"{name}({source.name}, {self._number()})")
        frame.update(source, 2.0**32, 0)

    # -- indices -------------------------------------------------------------------------------
    def before_start(self) -> None:
        """A tensor read at indices that are negative for some elements, not for all."""
        frame, draw = self.frame, self.draw
        tile = self.body.target(None, draw.choice(("float32", "int32", "float16")))
        index = ["i", "j", "p"][: len(tile.shape)]
        back = draw.integer(1, 3)
        if tile.ready and frame.nested:
            return self.body.elementwise()
        tensor = frame.tensor(tile.letters, tile.dtype)
        if min(tile.shape) <= back:
            return self.body.elementwise()
        where = [f"{frame.offset[c]} + {i}" for c, i in zip(tile.letters, index, strict=True)]
        axis = draw.integer(0, len(where) - 1)
        where[axis] += f" - {back}"
        self.text.add(f"for {', '.join(index)} in T.Parallel({', '.join(map(str, tile.shape))}):")
        self.text.add(f"    {tile.name}[{', '.join(index)}] = {tensor.name}[{', '.join(where)}]")
        frame.update(tile, tensor.mag, tensor.frac)
        return None

    # -- reducers ------------------------------------------------------------------------------
    def _reducer(self, letters: str, shape: tuple[int, ...], source: Tile, kind: str) -> Tile:
        name = self.fresh("red")
        along = self.draw.choice(("all", "none"))
        sizes = ", ".join(map(str, shape))
        self.text.add(
            f"{name} = T.alloc_reducer(({sizes},), {source.dtype!r}, op={kind!r}, "
            f"replication={along!r})"
        )
        ident = "0"
        if kind == "max":
            low = "-T.infinity('float32')" if source.is_float else "T.min_value('int32')"
            ident = low
        self.text.add(f"T.fill({name}, {ident})")
        self.body.note("reducer")
        tile = Tile(name, letters, shape, source.dtype, "fragment")
        self.frame.tiles[name] = tile
        return tile

    def _source(self) -> Tile | None:
        source = self.body.source(lambda t: len(t.shape) == 2 and t.dtype in ("float32", "int32"))
        volume = source.shape[0] * source.shape[1]
        return None if source.is_float and source.mag * volume > 1e5 else source

    def _update(self, red: Tile, place: str, kind: str, value: str) -> str:
        if kind == "sum":
            return f"{red.name}[{place}] += {value}"
        return f"{red.name}[{place}] = T.max({red.name}[{place}], {value})"

    def reducer_in_loops(self) -> None:
        """Serial loops choose the element, a parallel one makes the values."""
        source = self._source()
        if source is None:
            return
        rows, columns = source.shape
        kind = self.draw.choice(("sum", "max"))
        other = self.draw.integer(1, 2)
        count = self.frame.block["c"]
        red = self._reducer(source.letters[0] + "c", (rows, count), source, kind)
        self.text.add(f"for a in T.serial({rows}):")
        self.text.add(f"    for b in T.serial({count}):")
        self.text.add(f"        for i in T.Parallel({columns}):")
        value = f"{source.name}[a, i]" + (f" * {other}" if kind == "sum" else "")
        self.text.add("            " + self._update(red, "a, b", kind, value))
        self.text.add(f"T.finalize_reducer({red.name})")
        mag = source.mag * other * (columns if kind == "sum" else 1)
        self.frame.update(red, mag, source.frac, source.prec if source.prec >= 53 else 15)

    def reducer_at(self) -> None:
        """Every element goes to a computed place."""
        source = self._source()
        if source is None:
            return
        rows, columns = source.shape
        kind = self.draw.choice(("sum", "max"))
        count = self.frame.block["c"]
        red = self._reducer("c", (count,), source, kind)
        spot = self.draw.choice(
            (f"T.min({count - 1}, j // 4)", f"(i + j) % {count}", f"i % {count}")
        )
        self.text.add(f"for i, j in T.Parallel({rows}, {columns}):")
        self.text.add("    " + self._update(red, spot, kind, f"{source.name}[i, j]"))
        self.text.add(f"T.finalize_reducer({red.name})")
        old = replace(source, mag=source.mag * rows * columns)
        mag = old.mag if kind == "sum" else max(source.mag, 1.0)
        if kind == "sum":
            self.frame.update(red, mag, source.frac, source.prec if source.prec >= 53 else 15)
            return
        # A place that nothing reaches keeps the identity; it is written out, never computed with.
        del self.frame.tiles[red.name]
        result = self._result(source, (count,))
        lead = ["bx", "by", "bz"][: len(self.frame.axes)]
        self.text.add(f"T.copy({red.name}, {result.name}[{', '.join([*lead, '0'])}])")


def _volume(tile: Tile) -> int:
    size = 1
    for extent in tile.shape:
        size *= extent
    return size
