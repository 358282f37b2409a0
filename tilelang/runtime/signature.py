"""The launch signature: what a compiled kernel expects of a call, as plain frozen data.

The compiler writes a :class:`LaunchSpec`; both launchers (the C extension and the pure-Python
one) read it. It holds no objects of the IR, so it can be pickled and kept in the disk cache.

**Entry convention.** A kernel is ``int32_t tl_call(const int64_t* slots)``. The slots are, in
this order:

1. one per parameter, results included, in the order of ``params``: the data pointer of a tensor
   (0 for None), the address of a pointer, an integer scalar as 64-bit integer (uint64: the same
   bits), a float scalar as the bits of its float64;
2. one per free symbol, in the order of ``symbols``: those that no scalar parameter provides.

It returns 0, or a positive number ``n`` for ``messages[n - 1]`` (a failed assertion), or -1 when
memory ran out.
"""

from __future__ import annotations

from dataclasses import field

from tilelang.errors import Site, TileUnsupportedError, TileValueError, check_choice
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.postfix import Program
from tilelang.records import dataclass
from tilelang.runtime.dims import DimExpr, solvable_in, symbols_in

RETURNS = ("none", "one", "list", "tuple")
OUT_OF_MEMORY = -1
INTERRUPTED = -2  # by Ctrl-C
APART, WHOLE = 1, 2  # of LaunchSpec.noalias


@dataclass(frozen=True)
class Param:
    """One parameter.

    Attributes:
        kind: "tensor", "scalar" or "pointer".
        name: as the program names it.
        dtype: element dtype of a tensor, dtype of a scalar, "handle" for a pointer.
        shape: extents of a tensor in elements (packed types: logical elements).
        strides: in elements; None means row-major without gaps.
        nullable: the body does not use the tensor, so None may be passed.
        is_output: allocated by the launcher and returned, not passed.
        written: the body writes it, so a read-only array is refused.
        align: alignment in bytes of the address of a tensor or a pointer; 0 means the storage
            unit of a tensor, and 1 for a pointer.
        symbol: number of the symbol that a scalar provides.
        views: dtype and number of elements of the tensors that the program has at a pointer.
    """

    kind: str
    name: str
    dtype: str
    shape: tuple[DimExpr, ...] = ()
    strides: tuple[DimExpr, ...] | None = None
    nullable: bool = False
    is_output: bool = False
    written: bool = False
    align: int = 0
    symbol: int | None = None
    views: tuple[tuple[str, DimExpr], ...] = ()

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def packing(self) -> int:
        """Elements per storage unit along the last dimension."""
        return DType(self.dtype).packing

    @property
    def itemsize(self) -> int:
        """Bytes of one storage unit."""
        kind = DType(self.dtype)
        return int(kind.as_numpy().itemsize) * kind.lanes

    @property
    def alignment(self) -> int:
        """Alignment of the address in bytes: for a tensor at least one lane's storage unit, 1 for a
        scalar."""
        least = int(DType(self.dtype).as_numpy().itemsize) if self.kind == "tensor" else 1
        return self.align or least


def tensor(
    name: str, dtype: object, shape: tuple[DimExpr, ...],
    strides: tuple[DimExpr, ...] | None = None, *, nullable: bool = False, is_output: bool = False,
    written: bool = False, align: int = 0,
) -> Param:  # fmt: skip
    """A tensor parameter; see :class:`Param`."""
    kind = str(DType(dtype))
    return Param("tensor", name, kind, tuple(shape), strides, nullable, is_output, written, align)


def scalar(name: str, dtype: object, symbol: int | None = None) -> Param:
    """A parameter passed by value."""
    return Param("scalar", name, str(DType(dtype)), symbol=symbol)


def pointer(name: str, views: tuple[tuple[str, DimExpr], ...] = ()) -> Param:
    """An address, and the tensors that the program has there."""
    return Param("pointer", name, "handle", views=views)


@dataclass(frozen=True)
class Symbol:
    """A size that is known when the kernel is called.

    Attributes:
        name: as the program names it.
        dtype: of the kernel's argument.
        param: the scalar parameter that provides it, if one does.
        used: the body computes with it, so that its value matters even if all tensors with this
            extent are None.
    """

    name: str
    dtype: str = "int32"
    param: int | None = None
    used: bool = True

    @property
    def limit(self) -> int:
        """The largest value that the kernel can take."""
        kind = DType(self.dtype)
        return int(2 ** (min(64, kind.bits + (not kind.is_int)) - 1) - 1)


@dataclass(frozen=True)
class Check:
    """A condition on symbols that must hold, and the message if it does not."""

    program: Program
    message: str


@dataclass(frozen=True)
class LaunchSpec:
    """Everything a launcher needs to know about a kernel.

    Attributes:
        name: of the kernel, for messages.
        params: in the order of the slots.
        symbols: free ones first, in the order of their slots.
        outputs: positions of the results in ``params``, in the order they are returned.
        returns: "none", "one", or several as "list" or "tuple".
        checks: conditions evaluated after all symbols are bound.
        messages: texts of the positive error codes.
        sites: source locations of these checks, as far as they are known.
        device: kind of the target ("cpu", "cuda", ...) whose memory tensors must be in.
        noalias: what the generated source assumes of a tensor that it writes: 0 nothing, ``APART``
            that no other argument has an element of it, ``WHOLE`` that one that has one has all.

    Raises:
        TileValueError: a symbol that no input can provide.
        TileUnsupportedError: a result with strides.
    """

    name: str
    params: tuple[Param, ...]
    symbols: tuple[Symbol, ...] = ()
    outputs: tuple[int, ...] = ()
    returns: str = "none"
    checks: tuple[Check, ...] = ()
    messages: tuple[str, ...] = ()
    sites: tuple[Site, ...] = ()
    device: str = "cpu"
    noalias: int = 0
    inputs: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        inputs = tuple(i for i, param in enumerate(self.params) if not param.is_output)
        object.__setattr__(self, "inputs", inputs)
        check_choice(self.returns, RETURNS, "unknown rule for results", show=str)
        for param in self.output_params:
            if param.strides is not None:
                raise TileUnsupportedError(
                    f"kernel {self.name}: the result {param.name} has strides",
                    expected="a contiguous result",
                    hint="pass the tensor as an argument instead",
                )
        self._check_symbols()

    @property
    def free_symbols(self) -> tuple[int, ...]:
        """Numbers of the symbols with a slot."""
        return tuple(i for i, symbol in enumerate(self.symbols) if symbol.param is None)

    @property
    def input_params(self) -> tuple[Param, ...]:
        """The parameters that a call passes, in order."""
        return tuple(param for param in self.params if not param.is_output)

    @property
    def output_params(self) -> tuple[Param, ...]:
        """The results, in the order that a call returns them."""
        return tuple(self.params[position] for position in self.outputs)

    @property
    def written(self) -> list[str]:
        """Names of the tensors that a call passes and the program writes."""
        return [p.name for p in self.input_params if p.kind == "tensor" and p.written]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all symbols."""
        return tuple(symbol.name for symbol in self.symbols)

    def carriers(self, symbol: int) -> list[Param]:
        """Input tensors whose shape or strides mention a symbol."""
        return [
            param
            for param in self.input_params
            if any(symbol in symbols_in(dim) for dim in (*param.shape, *(param.strides or ())))
        ]

    def _check_symbols(self) -> None:
        known = {i for i, symbol in enumerate(self.symbols) if symbol.param is not None}
        dims = [
            dim for param in self.input_params for dim in (*param.shape, *(param.strides or ()))
        ]
        grown = True
        while grown:
            grown = False
            for dim in dims:
                unknown = [symbol for symbol in symbols_in(dim) if symbol not in known]
                if len(unknown) == 1 and unknown[0] in solvable_in(dim):
                    known.add(unknown[0])
                    grown = True
        for number, symbol in enumerate(self.symbols):
            if number not in known:
                raise TileValueError(
                    f"kernel {self.name}: no argument determines the value of {symbol.name}",
                    expected=f"an input with {symbol.name}, or a linear form such as "
                    f"{symbol.name}*4, as a dimension or stride, or a scalar parameter",
                    hint="declare the size as a parameter, e.g. `n: T.int32`",
                )
