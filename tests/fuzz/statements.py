"""Random statements of a kernel on tiles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .draws import Draw
from .exprs import BITS, MANTISSA, Exprs, Value, fits, fitting, is_constant
from .kernels import Frame
from .model import Names, Program, Tensor, Tile
from .wide import WideStatements

INDEX = "ijlpq"


class Body:
    """Fills a frame with statements."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.draw = frame.draw
        self.text = frame.text
        self.simple: tuple[Callable[[], None], ...] = (
            self.elementwise, self.load, self.elementwise, self.move, self.fill, self.reduce,
            self.scan, self.gemm_once, self.row_sum, self.transpose, self.gather,
            self.global_elementwise, self.serial_rows,
        )  # fmt: skip
        self.compound: tuple[Callable[[], None], ...] = (
            self.serial_loop, self.branch, self.while_loop, self.gemm_loop, self.grid_loop,
            self.accumulate_loop,
        )  # fmt: skip
        self.once: tuple[Callable[[], None], ...] = (self.atomic, self.tile_atomic, self.reducer)
        self.wide = WideStatements(self)

    def write(self) -> None:
        """The whole body."""
        for _ in range(self.draw.integer(1, 3)):
            self.load()
        for _ in range(self.draw.integer(1, 6)):
            self.statement()

    def statement(self) -> None:
        """One statement of any kind."""
        draw = self.draw
        if self.frame.nested < 2 and draw.chance(0.25):
            draw.choice(self.compound)()
        elif self.frame.nested == 0 and draw.chance(0.15):
            draw.choice((*self.once, *self.wide.once))()
        elif draw.chance(0.3):
            draw.choice(self.wide.simple)()
        else:
            draw.choice(self.simple)()

    def note(self, feature: str) -> None:
        self.frame.program.features.add(feature)

    # -- choosing ------------------------------------------------------------------------------
    def target(self, letters: str | None = None, dtype: str | None = None) -> Tile:
        """A tile to write: an old one or a new one."""
        found = [
            tile
            for tile in self.frame.tiles.values()
            if letters in (None, tile.letters) and dtype in (None, tile.dtype)
            if tile.ready or not self.frame.nested
            if not tile.name.startswith("red")  # nothing updates a reducer that is final
        ]
        if found and self.draw.chance(0.5):
            return self.draw.choice(found)
        return self.frame.new_tile(letters, dtype)

    def source(self, accepts: Callable[[Tile], bool] = lambda tile: True) -> Tile:
        """A tile with contents, loaded now if there is none."""
        found = [tile for tile in self.frame.ready_tiles() if accepts(tile)]
        if found:
            return self.draw.choice(found)
        tile = self.frame.new_tile()
        while not accepts(tile):
            tile = self.frame.new_tile()
        self.load_into(tile)
        return self.frame.tiles[tile.name]

    def bound(self, tile: Tile) -> tuple[float, int]:
        """What may be stored in ``tile``: inside loops no more than it may hold already."""
        if tile.ready and self.frame.nested:
            return tile.mag, tile.frac
        modes = MANTISSA.get(tile.dtype)
        if modes is None:
            return 2.0**64, 0
        return min(16.0, 2.0 ** (modes - 2)), 1 if modes < 8 else 2

    # -- loads, copies, fills ------------------------------------------------------------------
    def load(self) -> None:
        """Copy from a tensor."""
        self.load_into(self.target())

    def load_into(self, tile: Tile, at_k: str = "0") -> None:
        """Copy from a tensor into ``tile`` in one of the forms a copy has."""
        frame, draw = self.frame, self.draw
        with_z = "z" in frame.axes and draw.chance(0.5)
        same = tile.dtype if draw.chance(0.7) or not tile.is_float else "float32"
        tensor = frame.tensor(("z" if with_z else "") + tile.letters, same)
        starts = [at_k if c == "k" else frame.offset[c] for c in tile.letters]
        shift = draw.choice(("", "", "", " + 1", " - 1", " - 3"))
        # An index that is always 0 may make the start a constant, and indices that are all negative
        # count from the end.
        if 1 in frame.grid or tile.shape[0] <= 3:
            shift = shift.replace("-", "+")
        if starts[0] != "0" or "+" in shift:  # a constant below zero counts from the end
            starts[0] += shift
        lead = [frame.offset["z"]] if with_z else []
        form = draw.choice(("anchor", "region", "parallel", "squeezed"))
        # A region whose bounds do not cancel to a constant is longer text for the same thing.
        if form == "parallel":
            index = list(INDEX[: len(tile.shape)])
            self.text.add(f"for {', '.join(index)} in T.Parallel({_list(tile.shape)}):")
            where = [f"{s} + {i}" for s, i in zip(starts, index, strict=True)]
            self.text.add(
                f"    {tile.name}[{', '.join(index)}] = {tensor.name}[{', '.join([*lead, *where])}]"
            )
        else:
            self._copy_in(tile, tensor, form, lead, starts)
        mag, frac = self._arrived(tensor, tile)
        frame.update(tile, mag, frac)

    def _copy_in(
        self, tile: Tile, tensor: Tensor, form: str, lead: list[str], starts: list[str]
    ) -> None:
        draw = self.draw
        target = tile.name
        if draw.chance(0.15):
            target += f"[{', '.join(f'0:{size}' for size in tile.shape)}]"
        if form == "anchor":
            source = f"{tensor.name}[{', '.join([*lead, *starts])}]"
        else:
            parts = [f"{s} : {s} + {size}" for s, size in zip(starts, tile.shape, strict=True)]
            if form == "squeezed" and lead:
                lead = [f"{lead[0]} : {lead[0]} + 1"]
            source = f"{tensor.name}[{', '.join([*lead, *parts])}]"
        hint = draw.choice(("", "", "", ", coalesced_width=2", ", disable_tma=True"))
        self.text.add(f"T.copy({source}, {target}{hint})")

    def _arrived(self, tensor: Tensor, tile: Tile) -> tuple[float, int]:
        """Bounds of what a load from ``tensor`` leaves in ``tile``."""
        mag, frac = tensor.mag, tensor.frac
        if not tile.is_float:
            return min(mag, 2.0 ** BITS[tile.dtype]), 0
        return mag, frac

    def move(self) -> None:
        """Copy between tiles of equal shape, with a cast."""
        source = self.source()
        target = self.target(source.letters)
        if target.name == source.name:
            return
        if not self._castable(source, target):
            return self.elementwise()
        self.text.add(f"T.copy({source.name}, {target.name})")
        mag = source.mag if target.is_float else min(source.mag, 2.0 ** BITS[target.dtype])
        frac = source.frac if target.is_float else 0
        self.frame.update(target, mag, frac, self._cut(source.prec, target))
        return None

    def _cut(self, prec: int, target: Tile) -> int:
        return prec if prec >= 53 else min(prec, MANTISSA.get(target.dtype, 53))

    def _castable(self, source: Tile, target: Tile) -> bool:
        """Whether a plain cast keeps to what ``target`` may hold."""
        mag, frac = self.bound(target)
        if not target.is_float:
            return not source.is_float or (source.prec >= 53 and source.mag < 100)
        if not source.is_float:
            return source.mag <= min(mag, 2.0 ** MANTISSA[target.dtype])
        value = Value("", target.dtype, source.mag, source.frac)
        return fits(value) and source.mag <= mag and source.frac <= frac

    def fill(self) -> None:
        """Fill a tile, or part of one."""
        tile = self.target()
        draw = self.draw
        whole = not tile.ready or draw.chance(0.6)
        where = tile.name
        if not whole:
            first = draw.integer(0, tile.shape[0] - 1)
            parts = [f"{first}:{tile.shape[0]}", *(f"0:{n}" for n in tile.shape[1:])]
            where += f"[{', '.join(parts)}]"
        if draw.chance(0.4):
            self.text.add(f"T.clear({where})")
            number = 0
        else:
            number = draw.integer(0, 2)
            self.text.add(f"T.fill({where}, {number})")
        mag = max(number, 0 if whole else tile.mag)
        self.frame.update(tile, mag, 0 if whole else tile.frac, 53 if whole else tile.prec)

    def transpose(self) -> None:
        """Swap the dimensions of a tile."""
        pairs = {"mn": "nm", "nm": "mn", "mk": "km", "kn": "nk", "km": "mk", "nk": "kn"}
        source = self.source(lambda tile: tile.letters in pairs)
        scope = self.draw.choice(("shared", "fragment"))
        target = self.frame.new_tile(pairs[source.letters], source.dtype, scope)
        self.text.add(f"T.transpose({source.name}, {target.name})")
        self.frame.update(target, source.mag, source.frac, source.prec)

    # -- element-wise --------------------------------------------------------------------------
    def leaves(self, target: Tile | None, letters: str, index: list[str]) -> list[Value]:
        """What an expression at ``index`` of a loop over ``letters`` may read."""
        frame, draw = self.frame, self.draw
        at = dict(zip(letters, index, strict=True))
        found = [*frame.values]
        for letter, name in at.items():
            found.append(Value(name, "int32", frame.block[letter]))
        for tile in frame.ready_tiles():
            if set(tile.letters) <= set(letters):
                where = [at[letter] for letter in tile.letters]
                same = target is not None and tile.name == target.name
                if not same and draw.chance(0.1):
                    where[0] = f"{tile.shape[0] - 1} - {where[0]}"
                found += [self._element(tile, where)] * 2
        for tensor in frame.tensors[-4:]:
            if set(tensor.letters) <= set(letters):
                where = [f"{frame.offset[c]} + {at[c]}" for c in tensor.letters]
                found.append(self._element(tensor, where))
        return found

    def _element(self, base: Tile | Tensor, where: list[str]) -> Value:
        text = f"{base.name}[{', '.join(where)}]"
        value = Value(text, base.dtype, base.mag, base.frac, base.prec)
        if base.dtype.startswith("float8"):
            return replace(value, text=f"T.cast({text}, 'float32')", dtype="float32")
        return value

    def elementwise(self) -> None:
        """A parallel loop that computes a tile from others."""
        draw, frame = self.draw, self.frame
        tile = self.target()
        index = list(INDEX[: len(tile.shape)])
        head = f"for {', '.join(index)} in T.Parallel({_list(tile.shape)}):"
        exprs = Exprs(draw, self.leaves(tile, tile.letters, index), frame.inexact)
        self.text.add(head)
        self.text.depth += 1
        if draw.chance(0.25):
            value = exprs.number(1)
            name = frame.names.fresh("x")
            self.text.add(f"{name} = {value.text}")
            if not is_constant(value):  # not every tile that it may be stored to has a constant
                exprs.leaves.append(replace(value, text=name))
        place = f"{tile.name}[{', '.join(index)}]"
        if tile.ready and draw.chance(0.25):
            value = self._branching_store(tile, place, exprs)
        else:
            value = self._store(tile, place, exprs)
        self.text.depth -= 1
        frame.update(tile, *self._kept(tile, value))

    def _kept(self, tile: Tile, value: Value) -> tuple[float, int, int]:
        """Bounds of ``tile`` after ``value`` was stored in every element."""
        if not tile.is_float:
            return (2.0 ** BITS[tile.dtype] if value.mag >= 8 else value.mag), 0, 53
        return value.mag, value.frac, self._cut(value.prec, tile)

    def _store(self, tile: Tile, place: str, exprs: Exprs) -> Value:
        draw = self.draw
        value = exprs.number(draw.integer(0, 3))
        if not tile.is_float:
            value = exprs.as_exact(value)
            value = fitting(exprs.small(value, 64) if value.is_float else value, tile.dtype)
            ops = ("=", "=", "=", "+=", "-=", "^=", "&=", "|=", "*=")
            op = draw.choice(ops) if tile.ready and not value.is_float else "="
            self.text.add(f"{place} {op} {value.text}")
            return value if op == "=" else Value("", tile.dtype, 2.0 ** BITS[tile.dtype])
        mag, frac = self.bound(tile)
        if draw.chance(0.2) and tile.ready and not self.frame.nested and tile.mag + mag <= 64:
            value = self._within(exprs, value, tile.dtype, 4.0, min(frac, tile.frac))
            total = Value("", tile.dtype, value.mag + tile.mag, max(value.frac, tile.frac),
                          min(value.prec, tile.prec))  # fmt: skip
            if fits(total):
                self.text.add(f"{place} {draw.choice(('+=', '-='))} {value.text}")
                return total
        value = self._within(exprs, value, tile.dtype, mag, frac)
        self.text.add(f"{place} = {value.text}")
        return value

    def _within(self, exprs: Exprs, value: Value, dtype: str, mag: float, frac: int) -> Value:
        value = exprs.stored(value, dtype, mag, frac)
        made = replace(value, dtype=dtype)
        if value.exact and not fits(made):
            value = exprs.small(exprs.whole(value), min(mag, 2.0 ** MANTISSA[dtype]))
        return value

    def _branching_store(self, tile: Tile, place: str, exprs: Exprs) -> Value:
        """if / else inside the loop; an element that is not stored keeps its value."""
        self.text.add(f"if {exprs.condition(1)}:")
        self.text.depth += 1
        first = self._store(tile, place, exprs)
        self.text.depth -= 1
        second = Value("", tile.dtype, tile.mag, tile.frac, tile.prec)
        if self.draw.chance(0.5):
            self.text.add("else:")
            self.text.depth += 1
            # `+=` may follow the first branch's bounds, so the sum of both holds.
            second = self._store(tile, place, exprs)
            self.text.depth -= 1
        mag = max(first.mag, second.mag, tile.mag)
        return Value("", tile.dtype, mag, max(first.frac, second.frac, tile.frac),
                     min(first.prec, second.prec, tile.prec))  # fmt: skip

    def global_elementwise(self) -> None:
        """A parallel loop that computes an output tensor directly."""
        frame, draw = self.frame, self.draw
        if frame.nested:
            return self.elementwise()
        letters = draw.choice(("mn", "m", "nm", "mk"))
        shape = tuple(frame.block[letter] for letter in letters)
        dtype = draw.choice(("float32", "int32", "float16", "int8", "bfloat16"))
        index = list(INDEX[: len(shape)])
        tile = Tile("", letters, shape, dtype, "")
        exprs = Exprs(draw, self.leaves(None, letters, index), frame.inexact)
        value = exprs.number(3)
        if tile.is_float:
            value = self._within(exprs, value, dtype, *self.bound(tile))
        else:
            value = exprs.as_exact(value)
            value = fitting(exprs.small(value, 64) if value.is_float else value, dtype)
        prec = self._cut(value.prec, tile)
        out = frame.output(replace(tile, mag=value.mag, frac=value.frac, prec=prec))
        where = [f"{frame.offset[c]} + {i}" for c, i in zip(letters, index, strict=True)]
        self.text.add(f"for {', '.join(index)} in T.Parallel({_list(shape)}):")
        place = f"{out.name}[{', '.join([*frame.lead(tile), *where])}]"
        self.text.add(f"    {place} = {value.text}")
        return None

    def gather(self) -> None:
        """Loads at computed places, some of them out of bounds."""
        frame, draw = self.frame, self.draw
        tile = self.target()
        tensor = frame.tensor("mk", tile.dtype)
        if not tensor.dims[0].isdigit() or (tile.ready and frame.nested and tensor.mag > tile.mag):
            return self.elementwise()
        index = list(INDEX[: len(tile.shape)])
        exprs = Exprs(draw, self.leaves(tile, tile.letters, index))
        self.text.add(f"for {', '.join(index)} in T.Parallel({_list(tile.shape)}):")
        row = exprs.as_int(exprs.exactly(1))
        # An int64 extent makes the arithmetic of its index exact, which plain Python does not know.
        is_exact = frame.program.symbol_dtypes.get(tensor.dims[-1]) == "int64"
        column = exprs.as_int(exprs.exactly(0 if is_exact else 1))
        span = tensor.shape[0] + draw.integer(0, 2)
        # A column that is known to be negative would count from the end: the loop moves it.
        back = " - 1" if tile.shape[-1] > 1 else ""  # an index that is always -1 is the last one
        moved = f"(T.cast({column.text} % 7, 'int32') + {index[-1]}) % 7{back}"
        place = f"T.cast({row.text} % {span}, 'int32'), {moved}"
        self.text.add(f"    {tile.name}[{', '.join(index)}] = {tensor.name}[{place}]")
        frame.update(tile, *self._arrived(tensor, tile))
        return None

    def serial_rows(self) -> None:
        """A serial loop around a parallel one."""
        frame = self.frame
        tile = self.target("mn")
        if not tile.ready:
            self.load_into(tile)
            tile = frame.tiles[tile.name]
        self.text.add(f"for i in T.serial({tile.shape[0]}):")
        self.text.depth += 1
        self.text.add(f"for j in T.Parallel({tile.shape[1]}):")
        self.text.depth += 1
        exprs = Exprs(self.draw, self.leaves(tile, "mn", ["i", "j"]), frame.inexact)
        value = self._store(tile, f"{tile.name}[i, j]", exprs)
        self.text.depth -= 2
        frame.update(tile, *self._kept(tile, value))

    # -- reductions ----------------------------------------------------------------------------
    def reduce(self) -> None:
        """One of the reductions over one dimension."""
        frame, draw = self.frame, self.draw
        source = self.source(lambda t: not t.dtype.startswith("float8") and t.dtype != "bool")
        at = draw.integer(0, len(source.shape) - 1)
        if len(source.shape) == 1:
            return self.scan()
        letters = source.letters[:at] + source.letters[at + 1 :]
        kinds = ["sum", "max", "min"]
        if source.is_float or (not source.dtype.startswith("u") and source.mag < 100):
            kinds += ["absmax", "abssum"]
        if not source.is_float:
            kinds += ["bitand", "bitor", "bitxor"]
        kind = draw.choice(kinds)
        size = source.shape[at]
        grows = kind in ("sum", "abssum")
        dtype = source.dtype
        total = Value("", dtype, source.mag * (size + 1), source.frac)
        if source.is_float and grows and not fits(total):
            dtype = "float32"
        out = frame.new_tile(letters, dtype, self.draw.choice(("fragment", "shared")), "r")
        keep = ""
        old = 0.0
        if kind != "abssum" and draw.chance(0.25):
            keep = ", clear=False"
            self.text.add(f"T.fill({out.name}, 1)")
            old = 1.0
        dim = at if draw.chance(0.5) else at - len(source.shape)
        place = "" if dim == -1 and draw.chance(0.5) else f", dim={dim}"
        self.text.add(f"T.reduce_{kind}({source.name}, {out.name}{place}{keep})")
        mag = source.mag * size + old if grows else max(source.mag, old)
        if not source.is_float:
            mag = 2.0 ** BITS[dtype] if kind.startswith("bit") else min(mag, 2.0 ** BITS[dtype])
        prec = source.prec if source.prec >= 53 else source.prec - 3
        frame.update(out, mag, source.frac, prec)
        return None

    def scan(self) -> None:
        """A running sum or maximum, within a tile or into another one."""
        frame, draw = self.frame, self.draw
        source = self.source(
            lambda t: len(t.shape) <= 2 and t.dtype in ("float32", "int32", "float64", "int64")
        )
        at = draw.integer(0, len(source.shape) - 1)
        kind = draw.choice(("cumsum", "cummax"))
        mag = source.mag * (source.shape[at] if kind == "cumsum" else 1)
        if source.is_float and not fits(Value("", source.dtype, mag, source.frac)):
            kind, mag = "cummax", source.mag
        final = source.name.startswith("red")
        inside = not frame.nested and not final and draw.chance(0.4)
        target = source if inside else frame.new_tile(source.letters, source.dtype, None, "c")
        words = [source.name]
        if not inside:
            words.append(target.name)
        words.append(f"dim={at if draw.chance(0.7) else at - len(source.shape)}")
        if draw.chance(0.3):
            words.append("reverse=True")
        self.text.add(f"T.{kind}({', '.join(words)})")
        prec = source.prec if source.prec >= 53 else source.prec - 3
        frame.update(target, mag, source.frac, prec)

    def row_sum(self) -> None:
        """Accumulation into a tile of lower rank, in a parallel loop or by a variable."""
        frame, draw = self.frame, self.draw
        source = self.source(
            lambda t: len(t.shape) == 2 and t.dtype in ("float32", "int32", "float64", "float16")
        )
        if source.is_float and source.mag * source.shape[1] > 2000:
            return
        dtype = "float32" if source.is_float else "int32"
        rows, columns = source.shape
        out = frame.new_tile(source.letters[0], dtype, "fragment", "s")
        if draw.chance(0.5):
            self.text.add(f"T.clear({out.name})")
            self.text.add(f"for i, j in T.Parallel({rows}, {columns}):")
            self.text.add(f"    {out.name}[i] += {source.name}[i, j]")
        else:
            var = frame.names.fresh("v")
            loop = draw.choice(("T.serial", "range", "T.unroll", "T.vectorized"))
            self.text.add(f"for i in T.Parallel({rows}):")
            self.text.add(f"    {var} = T.alloc_var({dtype!r}, 0)")
            self.text.add(f"    for j in {loop}({columns}):")
            self.text.add(f"        {var} += {source.name}[i, j]")
            self.text.add(f"    {out.name}[i] = {var}")
        prec = source.prec if source.prec >= 53 else source.prec - 3
        frame.update(out, source.mag * columns, source.frac, prec)

    def reducer(self) -> None:
        """A reducer: partial results per thread, combined at the end."""
        frame, draw = self.frame, self.draw
        source = self.source(lambda t: len(t.shape) == 2 and t.dtype in ("float32", "int32"))
        rows, columns = source.shape
        kind = draw.choice(("sum", "max", "min"))
        if source.is_float and source.mag * columns > 1e6:
            kind = "max"
        self.note("reducer")
        name = frame.names.fresh("red")
        along = draw.choice(("all", "none"))
        self.text.add(
            f"{name} = T.alloc_reducer(({rows},), {source.dtype!r}, op={kind!r}, "
            f"replication={along!r})"
        )
        ident = "0"
        if kind != "sum":
            sign = "-" if kind == "max" else ""
            word = "min_value" if kind == "max" else "max_value"
            ident = f"{sign}T.infinity('float32')" if source.is_float else f"T.{word}('int32')"
        self.text.add(f"T.fill({name}, {ident})")
        self.text.add(f"for i, j in T.Parallel({rows}, {columns}):")
        if kind == "sum":
            self.text.add(f"    {name}[i] += {source.name}[i, j]")
        else:
            self.text.add(f"    {name}[i] = T.{kind}({name}[i], {source.name}[i, j])")
        self.text.add(f"T.finalize_reducer({name})")
        tile = Tile(name, source.letters[0], (rows,), source.dtype, "fragment")
        frame.tiles[name] = tile
        mag = source.mag * (columns if kind == "sum" else 1)
        frame.update(tile, mag, source.frac, source.prec if source.prec >= 53 else source.prec - 3)

    # -- gemm ----------------------------------------------------------------------------------
    def gemm_once(self) -> None:
        """A product of two freshly loaded tiles."""
        self._gemm(1)

    def gemm_loop(self) -> None:
        """The canonical loop over the inner dimension."""
        self._gemm(self.frame.k_steps)

    def _gemm(self, steps: int) -> None:
        frame, draw = self.frame, self.draw
        self.note("gemm")
        left, result = draw.choice(
            (("float16", "float32"), ("float32", "float32"), ("bfloat16", "float32"),
             ("int8", "int32"), ("float16", "float16"), ("float64", "float64"),
             ("float8_e4m3fn", "float32"), ("float8_e5m2", "float32"))
        )  # fmt: skip
        turn_a, turn_b = draw.chance(0.3), draw.chance(0.3)
        scope_a = draw.choice(("shared", "shared", "fragment"))
        a = frame.new_tile("km" if turn_a else "mk", left, scope_a, "a")
        b = frame.new_tile("nk" if turn_b else "kn", left, "shared", "b")
        c = frame.new_tile("mn", result, "fragment", "acc")
        clear = "" if steps > 1 or draw.chance(0.5) else ", clear_accum=True"
        by_flag = steps > 1 and draw.chance(0.3)
        if not clear and not by_flag:
            self.text.add(f"T.clear({c.name})")
        at_k = frame.offset["k"]
        if steps > 1:
            loop = frame.names.fresh("ko")
            count = str(steps)
            if frame.dims["k"] != str(frame.total["k"]) or draw.chance(0.3):
                count = f"T.ceildiv({frame.dims['k']}, {frame.block['k']})"
            stages = draw.integer(0, 4)
            kinds = (f"T.Pipelined({count}, num_stages={stages})", f"T.serial({count})")
            self.text.add(f"for {loop} in {draw.choice(kinds)}:")
            self.text.depth += 1
            at_k = f"{loop} * {frame.block['k']}"
            if by_flag:
                clear = f", clear_accum={loop} == 0"
        self._gemm_operand(a, at_k)
        self._gemm_operand(b, at_k)
        flags = (", transpose_A=True" if turn_a else "") + (", transpose_B=True" if turn_b else "")
        policy = draw.choice(("", "", ", policy=T.GemmWarpPolicy.FullRow"))
        self.text.add(f"T.gemm({a.name}, {b.name}, {c.name}{flags}{clear}{policy})")
        if steps > 1:
            self.text.depth -= 1
        total = frame.block["k"] * steps
        first, second = frame.tiles[a.name], frame.tiles[b.name]
        value = Value("", result, first.mag * second.mag * total, first.frac + second.frac)
        modes = 53 if fits(value) or result == "int32" else MANTISSA[result] - 3
        if result == "int32":
            value = replace(value, mag=min(value.mag, 2.0**32))
        frame.update(c, value.mag, value.frac, modes)

    def _gemm_operand(self, tile: Tile, at_k: str) -> None:
        frame = self.frame
        tensor = frame.tensor(tile.letters, tile.dtype)
        starts = [at_k if c == "k" else frame.offset[c] for c in tile.letters]
        form = self.draw.choice(("anchor", "region"))
        self._copy_in(tile, tensor, form, [], starts)
        mag = min(tensor.mag, 128.0) if not tile.is_float else tensor.mag
        frame.update(tile, mag, tensor.frac)

    # -- atomics -------------------------------------------------------------------------------
    def atomic(self) -> None:
        """Atomic updates of elements from every block."""
        frame, draw = self.frame, self.draw
        self.note("atomic")
        source = self.source(lambda t: t.prec >= 53)
        size = draw.choice((1, 3, 8, 40))
        dtype = draw.choice(("int32", "float32"))
        kind = draw.choice(("add", "max", "min")) if dtype == "int32" else "add"
        out = Tensor(frame.names.fresh("Out"), "", (size,), (str(size),), dtype, "inout")
        frame.program.tensors.append(out)
        index = list(INDEX[: len(source.shape)])
        exprs = Exprs(draw, self.leaves(None, source.letters, index))
        self.text.add(f"for {', '.join(index)} in T.Parallel({_list(source.shape)}):")
        self.text.depth += 1
        value = self._element(source, index)
        if dtype == "float32":
            value = exprs.small(exprs.whole(value) if value.is_float else value)
            text = value.text if value.dtype == dtype else f"T.cast({value.text}, {dtype!r})"
        else:
            value = exprs.small(value, 64) if value.is_float else value
            text = f"T.cast({value.text}, {dtype!r})"
        place = exprs.as_int(exprs.exactly(1))
        spot = f"T.cast({place.text} % {size + draw.integer(0, 1)}, 'int32')"
        if draw.chance(0.3):
            self.text.add(f"if {exprs.condition(1)}:")
            self.text.add(f"    T.atomic_{kind}({out.name}[{spot}], {text})")
        else:
            self.text.add(f"T.atomic_{kind}({out.name}[{spot}], {text})")
        self.text.depth -= 1

    def tile_atomic(self) -> None:
        """A whole tile added to a tensor that several blocks share."""
        frame, draw = self.frame, self.draw
        source = self.source(
            lambda t: t.prec >= 53 and t.dtype in ("float32", "int32") and t.mag <= 1e5
        )
        if source.dtype not in ("float32", "int32") or source.mag > 1e5:
            return
        self.note("atomic")
        shape = tuple(frame.total[letter] for letter in source.letters)
        dims = tuple(frame.dims[letter] for letter in source.letters)
        out = Tensor(frame.names.fresh("Out"), source.letters, shape, dims, source.dtype, "inout")
        frame.program.tensors.append(out)
        starts = [frame.offset[letter] for letter in source.letters]
        if draw.chance(0.5):
            where = ", ".join(starts)
        else:
            parts = zip(starts, source.shape, strict=True)
            where = ", ".join(f"{s} : {s} + {n}" for s, n in parts)
        self.text.add(f"T.atomic_add({out.name}[{where}], {source.name})")

    # -- loops and branches --------------------------------------------------------------------
    def inside(self, most: int = 2) -> None:
        """Statements in a loop or branch, whose tiles end with it."""
        frame = self.frame
        before, values = set(frame.tiles), list(frame.values)
        tensors = list(frame.tensors)
        frame.nested += 1
        self.text.depth += 1
        count = len(self.text.lines)
        for _ in range(self.draw.integer(1, most)):
            self.statement()
        if len(self.text.lines) == count:
            self.text.add("pass")
        self.text.depth -= 1
        frame.nested -= 1
        frame.values = values
        frame.tiles = {name: tile for name, tile in frame.tiles.items() if name in before}
        frame.tensors = tensors + [t for t in frame.tensors if t not in tensors]

    def serial_loop(self) -> None:
        """A loop of any kind around statements."""
        draw, frame = self.draw, self.frame
        name = frame.names.fresh("s")
        loop = draw.choice(
            ("T.serial(3)", "range(2)", "T.serial(1, 4)", "T.serial(0, 7, 3)", "T.unroll(3)",
             "T.Pipelined(3, num_stages=2)", "range(4, 0, -2)", "T.Pipelined(1, 3, num_stages=3)",
             "T.serial(0)", "T.Pipelined(2)", "T.serial(bx + 1)")
        )  # fmt: skip
        self.text.add(f"for {name} in {loop}:")
        frame.values.append(Value(name, "int32", 8))
        jump = draw.chance(0.15) and not loop.startswith(("T.Pipe", "T.unroll"))
        if jump:
            self.text.add(f"    if {name} == {draw.integer(0, 3)}:")
            self.text.add(f"        {draw.choice(('break', 'continue'))}")
        self.inside()
        frame.values = [value for value in frame.values if value.text != name]

    def grid_loop(self) -> None:
        """T.grid around statements."""
        frame = self.frame
        first, second = frame.names.fresh("g"), frame.names.fresh("g")
        self.text.add(f"for {first}, {second} in T.grid(2, {self.draw.integer(1, 3)}):")
        frame.values += [Value(first, "int32", 2), Value(second, "int32", 3)]
        self.inside(1)
        frame.values = [value for value in frame.values if value.text not in (first, second)]

    def while_loop(self) -> None:
        """while on a variable."""
        frame = self.frame
        name = frame.names.fresh("w")
        self.text.add(f"{name} = T.alloc_var('int32', 0)")
        self.text.add(f"while {name} < {self.draw.integer(0, 3)}:")
        frame.values.append(Value(name, "int32", 4))
        self.inside()
        frame.values = [value for value in frame.values if value.text != name]
        self.text.add(f"    {name} += {self.draw.integer(1, 2)}")

    def branch(self) -> None:
        """if / elif / else on something that is the same for all threads."""
        frame, draw = self.frame, self.draw
        exprs = Exprs(draw, frame.values)
        self.text.add(f"if {exprs.condition(1)}:")
        self.inside()
        if draw.chance(0.2):
            self.text.add(f"elif {exprs.condition(1)}:")
            self.inside()
        if draw.chance(0.4):
            self.text.add("else:")
            self.inside()

    def accumulate_loop(self) -> None:
        """A pipelined loop that loads a piece and accumulates it."""
        frame, draw = self.frame, self.draw
        letters = draw.choice(("mk", "k", "kn"))
        dtype = draw.choice(("float16", "float32", "int32", "int8"))
        piece = frame.new_tile(letters, dtype, "shared", "p")
        result = "float32" if piece.is_float else "int32"
        acc = frame.new_tile(letters, result, "fragment", "acc")
        self.text.add(f"T.clear({acc.name})")
        loop = frame.names.fresh("ko")
        stages = draw.integer(0, 3)
        self.text.add(f"for {loop} in T.Pipelined({frame.k_steps}, num_stages={stages}):")
        self.text.depth += 1
        self.load_into(piece, f"{loop} * {frame.block['k']}")
        index = INDEX[: len(letters)]
        place = ", ".join(index)
        self.text.add(f"for {place} in T.Parallel({_list(piece.shape)}):")
        scale = draw.choice(("", " * 2", f" + {loop}", " * 0.5"))
        if not piece.is_float and "." in scale:
            scale = ""
        self.text.add(f"    {acc.name}[{place}] += {piece.name}[{place}]{scale}")
        self.text.depth -= 1
        old = frame.tiles[piece.name]
        frame.update(acc, (old.mag * 2 + 4) * frame.k_steps, old.frac + 1)


def _list(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))


def tile_kernel(draw: Draw, program: Program, names: Names) -> None:
    """Add a kernel on tiles to ``program``."""
    frame = Frame(draw, program, names)
    for _, (name, dtype, value) in zip(range(2), program.scalars, strict=False):
        frame.values.append(Value(name, dtype, abs(value), 1 if dtype == "float32" else 0))
    frame.open()
    Body(frame).write()
    frame.finish()
