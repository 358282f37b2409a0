"""Random kernels written per thread: private arrays, thread indices, exchange through shared."""

from __future__ import annotations

from .draws import Draw
from .exprs import BITS, MANTISSA, Exprs, Value
from .model import Names, Program, Tensor, Text, tensor_bounds
from .threads import ThreadStatements


def simt_kernel(draw: Draw, program: Program, names: Names) -> None:
    """Add a kernel whose statements every thread executes for itself."""
    _Simt(draw, program, names).write()


class _Simt:
    def __init__(self, draw: Draw, program: Program, names: Names) -> None:
        self.draw = draw
        self.program = program
        self.names = names
        self.text = Text()
        self.threads = draw.choice((32, 64, 128, 96))
        self.blocks = draw.integer(1, 3)
        self.width = draw.choice((4, 1, 2, 3, 8))
        self.dtype = draw.choice(("float32", "int32", "float16", "int8", "bfloat16", "uint32"))
        self.mag, self.frac = tensor_bounds(draw, self.dtype, "")
        if self.dtype not in MANTISSA:
            self.mag = min(self.mag, 100.0)

    def write(self) -> None:
        draw, text = self.draw, self.text
        self.program.features.add("simt")
        source = self._input()
        local, tx = self.names.fresh("loc"), self.names.fresh("tx")
        text.add(f"with T.Kernel({self.blocks}, threads={self.threads}) as bx:")
        text.depth += 1
        text.add(f"{tx} = T.get_thread_binding()")
        text.add(f"{local} = T.alloc_local(({self.width},), {self.dtype!r})")
        text.add(f"for q in {self._loop()}:")
        text.add(f"    {local}[q] = {source.name}[(bx * {self.threads} + {tx}) * {self.width} + q]")
        values = [Value(tx, "int32", self.threads), Value("bx", "int32", self.blocks)]
        plain = (self._compute, self._branch, self._exchange, self._sum, self._warp)
        more = ThreadStatements(self).kinds
        for _ in range(draw.integer(1, 5)):
            kind = draw.choice(plain if draw.chance(0.3) else more)
            kind(local, tx, values)
        self._result(local, tx)
        self.program.kernels.append(text.lines)

    def _input(self) -> Tensor:
        size = self.blocks * self.threads * self.width
        if self.draw.chance(0.3):
            size = max(1, size - self.draw.integer(1, 40))
        made = Tensor(self.names.fresh("A"), "", (size,), (str(size),), self.dtype, "in",
                      self.mag, self.frac)  # fmt: skip
        self.program.tensors.append(made)
        return made

    def _loop(self) -> str:
        return self.draw.choice(
            (f"T.vectorized({self.width})", f"T.serial({self.width})", f"T.unroll({self.width})",
             f"range({self.width})")
        )  # fmt: skip

    def expression(self, text: str, values: list[Value], index: str = "q") -> str:
        """Something of this dtype made from ``text`` and the values in scope."""
        leaf = Value(text, self.dtype, self.mag, self.frac)
        exprs = Exprs(self.draw, [leaf, leaf, leaf, *values, Value(index, "int32", 8)])
        value = exprs.number(2)
        if self.dtype in MANTISSA:
            return exprs.stored(value, self.dtype, self.mag, self.frac).text
        if value.is_float:
            return exprs.small(value, 100).text
        return f"({value.text}) % {int(self.mag) + 1}"

    def _compute(self, local: str, tx: str, values: list[Value]) -> None:
        self.text.add(f"for q in {self._loop()}:")
        self.text.add(f"    {local}[q] = {self.expression(f'{local}[q]', values)}")

    def _branch(self, local: str, tx: str, values: list[Value]) -> None:
        limit = self.draw.integer(0, self.threads)
        cond = self.draw.choice((f"{tx} < {limit}", f"{tx} % 3 == 1", f"{local}[0] > 0"))
        self.text.add(f"if {cond}:")
        self.text.depth += 1
        self._compute(local, tx, values)
        self.text.depth -= 1
        if self.draw.chance(0.5):
            self.text.add("else:")
            self.text.depth += 1
            self._compute(local, tx, values)
            self.text.depth -= 1

    def _exchange(self, local: str, tx: str, values: list[Value]) -> None:
        """Through shared memory to another thread."""
        name = self.names.fresh("sh")
        by = self.draw.integer(0, self.threads)
        at = self.draw.integer(0, self.width - 1)
        self.text.add(f"{name} = T.alloc_shared(({self.threads},), {self.dtype!r})")
        self.text.add(f"{name}[{tx}] = {local}[{at}]")
        self.text.add("T.sync_threads()")
        self.text.add(f"{local}[{at}] = {name}[({tx} + {by}) % {self.threads}]")

    def _sum(self, local: str, tx: str, values: list[Value]) -> None:
        """A private accumulator."""
        name = self.names.fresh("v")
        dtype = "float32" if self.dtype in MANTISSA else "int32"
        self.text.add(f"{name} = T.alloc_var({dtype!r}, init=0)")
        self.text.add(f"for q in {self._loop()}:")
        self.text.add(f"    {name} += {local}[q]")
        self.text.add(f"{local}[0] = {self.bounded(name)}")

    def bounded(self, name: str) -> str:
        """``name`` clamped to the bounds."""
        bound = int(self.mag)
        low = 0 if self.dtype.startswith("u") else -bound
        number = ".0" if self.dtype in MANTISSA else ""
        return f"T.min(T.max({name}, {low}{number}), {bound}{number})"

    def _warp(self, local: str, tx: str, values: list[Value]) -> None:
        """Exchange within a warp."""
        if self.dtype not in ("float32", "int32") or not self.draw.chance(0.2):
            return self._compute(local, tx, values)
        self.program.features.add("warp")
        by = self.draw.choice((1, 2, 4, 8, 16))
        word = self.draw.choice(("shfl_xor", "shfl_down", "shfl_up"))
        name = self.names.fresh("y")
        self.text.add(f"{name} = T.{word}({local}[0], {by})")
        self.text.add(f"{local}[0] = T.max({local}[0], {name})")
        return None

    def _result(self, local: str, tx: str) -> None:
        size = self.blocks * self.threads * self.width
        size = max(1, size - self.draw.integer(0, 20)) if self.draw.chance(0.3) else size
        frac = self.frac if self.dtype in MANTISSA else 0
        out = Tensor(self.names.fresh("Out"), "", (size,), (str(size),), self.dtype, "out",
                     min(self.mag, 2.0 ** BITS.get(self.dtype, 8)), frac)  # fmt: skip
        self.program.tensors.append(out)
        self.text.add(f"for q in {self._loop()}:")
        self.text.add(
            f"    {out.name}[(bx * {self.threads} + {tx}) * {self.width} + q] = {local}[q]"
        )
