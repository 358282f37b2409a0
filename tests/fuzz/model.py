"""What a random program is made of: tensors, tiles, text, and the bookkeeping of names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace

import ml_dtypes
import numpy as np

from .draws import Draw
from .exprs import BITS, MANTISSA


@dataclass(frozen=True)
class Tensor:
    """A parameter of the program.

    ``dims`` has the text of each extent (a number or the name of a dynamic one), ``steps`` the
    step of each dimension in a larger array for strided tensors.
    """

    name: str
    letters: str
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    dtype: str
    role: str = "in"  # in, out (compared), inout (compared, starts with small numbers)
    mag: float = 4.0
    frac: int = 0
    steps: tuple[int, ...] | None = None
    prec: int = 53
    special: bool = False  # some infinities, NaNs and negative zeros

    @property
    def annotation(self) -> str:
        shape = "(" + ", ".join(self.dims) + ",)"
        if self.steps is None:
            return f"T.Tensor({shape}, {self.dtype!r})"
        return f"T.StridedTensor({shape}, {self.strides}, {self.dtype!r})"

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements of a strided tensor."""
        result, step = [], 1
        for extent, factor in zip(reversed(self.shape), reversed(self.steps or ()), strict=True):
            result.append(step * factor)
            step *= extent * factor
        return tuple(reversed(result))


@dataclass(frozen=True)
class Tile:
    """A buffer of a kernel; ``letters`` say what each dimension counts."""

    name: str
    letters: str
    shape: tuple[int, ...]
    dtype: str
    scope: str
    ready: bool = False
    mag: float = 4.0
    frac: int = 0
    prec: int = 53

    @property
    def is_float(self) -> bool:
        return self.dtype in MANTISSA


@dataclass
class Program:
    """A whole program: its text and what to call it with."""

    source: str = ""
    tensors: list[Tensor] = field(default_factory=list)
    scalars: list[tuple[str, str, int | float]] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    symbol_dtypes: dict[str, str] = field(default_factory=dict)  # int32 where nothing is said
    order: list[str] = field(default_factory=list)  # parameter names
    kernels: list[list[str]] = field(default_factory=list)
    macros: list[str] = field(default_factory=list)
    features: set[str] = field(default_factory=set)

    def assemble(self) -> Program:
        """Fill ``source`` from the parts."""
        text = ["import tilelang.language as T", ""]
        for name in self.symbols:
            dtype = self.symbol_dtypes.get(name)
            text.append(f'{name} = T.dynamic("{name}"' + (f', "{dtype}")' if dtype else ")"))
        text += ["", *self.macros]
        params = {t.name: t.annotation for t in self.tensors}
        params |= {name: f"T.{dtype}" for name, dtype, _ in self.scalars}
        self.order = [*params]
        text += ["", "@T.prim_func", "def main("]
        text += [f"    {name}: {kind}," for name, kind in params.items()]
        text += ["):"]
        for kernel in self.kernels:
            text += ["    " + line for line in kernel]
        self.source = "\n".join(text) + "\n"
        return self


@dataclass(eq=False)  # not frozen: context managers set the traceback of what passes through
class Disagreement(Exception):
    """The two ways of running gave different numbers."""

    source: str
    tensor: str
    detail: str

    def __str__(self) -> str:
        return f"{self.tensor} differs: {self.detail}\n{numbered(self.source)}"


@dataclass
class Computed:
    """Source text that defines ``main``, its arguments by name, and what they are afterwards;
    those that are not expected to be anything stay as they are."""

    source: str
    inputs: dict[str, np.ndarray | int]
    expected: dict[str, np.ndarray]
    notes: list[str] = field(default_factory=list)


def numbered(source: str) -> str:
    """``source`` with line numbers."""
    return "\n".join(f"{i:3d} {line}" for i, line in enumerate(source.splitlines(), 1))


class Names:
    """Fresh names."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def fresh(self, base: str) -> str:
        number = self._next.get(base, 0)
        self._next[base] = number + 1
        return f"{base}{number}"


class Text:
    """Lines with indentation."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 0

    def add(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)


class KernelGenerator(ABC):
    """A random program of one kernel; ``write`` of a subclass adds its lines."""

    most = 4.0  # the largest number of an input

    def __init__(self, draw: Draw) -> None:
        self.draw = draw
        self.program = Program()
        self.names = Names()
        self.text = Text()

    @classmethod
    def make(cls, draw: Draw) -> Program:
        """The program of the choices of ``draw``."""
        kernel = cls(draw)
        kernel.write()
        return kernel.program.assemble()

    @abstractmethod
    def write(self) -> None:
        """All of the kernel."""

    def tensor(self, base: str, shape: tuple[int, ...], dtype: str, role: str) -> str:
        """A parameter."""
        name = self.names.fresh(base)
        dims = tuple(map(str, shape))
        self.program.tensors.append(Tensor(name, "", shape, dims, dtype, role, mag=self.most))
        return name


def input_array(tensor: Tensor, rng: np.random.Generator) -> np.ndarray:
    """Numbers for ``tensor``: small multiples of 1/2**frac for floats, any bits for ints.

    Storage arrays (uint16 for bfloat16, uint8 for fp8) where numpy has no such dtype.
    """
    shape = tensor.shape
    if tensor.steps is not None:
        shape = tuple(n * s for n, s in zip(shape, tensor.steps, strict=True))
    array = _contents(tensor, shape, rng)
    if tensor.steps is not None:
        array = array[tuple(slice(None, None, step) for step in tensor.steps)]
    return array


def _contents(tensor: Tensor, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if tensor.dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if tensor.dtype not in MANTISSA:
        bits = BITS[tensor.dtype]
        if tensor.mag < 2 ** (bits - 1):
            low = 0 if tensor.dtype.startswith("u") else -int(tensor.mag)
            return rng.integers(low, int(tensor.mag) + 1, shape).astype(tensor.dtype)
        info = np.iinfo(tensor.dtype)
        return rng.integers(info.min, info.max, shape, dtype=tensor.dtype, endpoint=True)
    top = int(tensor.mag * 2**tensor.frac)
    values = rng.integers(-top, top + 1, shape) / 2.0**tensor.frac
    if tensor.special:
        odd = rng.choice([np.inf, -np.inf, np.nan, -0.0], shape)
        values = np.where(rng.random(shape) < 0.1, odd, values)
    return encode(values, tensor.dtype)


# Formats that numpy has not, and what holds their codes.
NARROW = {
    "bfloat16": (ml_dtypes.bfloat16, np.uint16),
    "float8_e4m3fn": (ml_dtypes.float8_e4m3fn, np.uint8),
    "float8_e5m2": (ml_dtypes.float8_e5m2, np.uint8),
}


def encode(values: np.ndarray, dtype: str) -> np.ndarray:
    """``values``, all exact in ``dtype``, as a storage array."""
    if dtype not in NARROW:
        return values.astype(dtype)
    kind, storage = NARROW[dtype]
    return values.astype(np.float64).astype(kind).view(storage)


def decode(array: np.ndarray, dtype: str) -> np.ndarray:
    """The numbers in a storage array, as float64."""
    if dtype in NARROW:
        array = array.view(NARROW[dtype][0])
    return array.astype(np.float64)


def tensor_bounds(draw: Draw, dtype: str, name: str) -> tuple[float, int]:
    """Magnitude and modes for the numbers of an input."""
    if dtype in MANTISSA:
        return (2.0, 1) if dtype.startswith("float8") else (4.0, draw.integer(0, 1))
    if dtype == "bool":
        return 1.0, 0
    return (2.0 ** BITS[dtype], 0) if draw.chance(0.4) else (5.0, 0)


def ready(tile: Tile, mag: float, frac: int, prec: int = 53) -> Tile:
    """``tile`` with contents of the given bounds."""
    return replace(tile, ready=True, mag=mag, frac=frac, prec=min(prec, 53))
