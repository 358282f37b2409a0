"""Calls of a kernel: its inputs by name, its signature, and its derivatives."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any

from tilelang.errors import (
    ArgumentTypeError,
    TileTypeError,
    TileUnsupportedError,
    TileValueError,
    near,
)
from tilelang.ir import expr as E
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.records import dataclass

if TYPE_CHECKING:
    from tilelang.runtime.signature import LaunchSpec


@dataclass(frozen=True)
class KernelParam:
    """A parameter as programs look at it: dtype, and shape with ints where constant."""

    dtype: DType
    shape: tuple[int | E.Expr, ...]
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", DType(self.dtype))  # programs give names of dtypes

    @classmethod
    def from_param(cls, param: Buffer | E.Var) -> KernelParam:
        """Description of a tensor (its shape) or scalar (empty shape) parameter."""
        return cls(param.dtype, tuple(param.shape) if isinstance(param, Buffer) else (), param.name)

    from_buffer = from_var = from_param

    def torch_dtype(self) -> Any:
        """Return the dtype as torch names it."""
        return self.dtype.as_torch()

    def is_scalar(self) -> bool:
        """Whether this is passed by value."""
        return not self.shape

    def is_unsigned(self) -> bool:
        """Whether values are never negative."""
        return self.dtype.is_uint

    def is_boolean(self) -> bool:
        """Whether values are truth values."""
        return self.dtype.is_bool

    def is_float8(self) -> bool:
        """Whether values are 8-bit floats."""
        return self.dtype.is_fp8

    def is_float4(self) -> bool:
        """Whether values are 4-bit floats."""
        return self.dtype.is_float and self.dtype.bits == 4

    def tilelang_dtype(self) -> DType:
        """Return the dtype as the language names it."""
        return self.dtype


def in_order(
    kernel: str, inputs: Sequence[KernelParam], args: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[Any, ...]:
    """The arguments of a call of ``kernel`` by position.

    Raises:
        ArgumentTypeError: a name that is none, an input given twice, or one that is missing.
    """
    names = [param.name for param in inputs]
    where, listed = f"kernel {kernel}", ", ".join(names) or "none"
    for name in keywords:
        if name not in names:
            raise ArgumentTypeError(
                f"{where} has no input {name}",
                expected=f"its inputs: {listed}",
                got=name,
                hint=near(name, names),
            )
        if name in names[: len(args)]:
            raise ArgumentTypeError(
                f"{where} input {name} is given twice", expected="a value by position or by name"
            )
    later = names[len(args) :]
    missing = [name for name in later if name not in keywords]
    if missing:
        raise ArgumentTypeError(
            f"{where} input {missing[0]} is missing", expected=f"its inputs: {listed}"
        )
    return (*args, *(keywords[name] for name in later))


def gradient_names(name: str, spec: LaunchSpec) -> dict[str, int]:
    """The possible names of a gradient -> the number of its result.

    Raises:
        TileUnsupportedError: the program of ``name`` writes into its inputs.
    """
    if spec.written:
        raise TileUnsupportedError(
            f"a backward for {name}, which writes into {', '.join(spec.written)}",
            expected="a kernel that returns its results",
            hint="make them with T.empty, or with out_idx",
        )
    results = [param.name for param in spec.output_params]
    numbers = {
        spelled: number
        for number, result in enumerate(results)
        for spelled in (f"grad_{result}", f"d{result}")
    }
    return {**numbers, "grad": 0} if len(results) == 1 else numbers


def check_gradients(name: str, gradients: Sequence[Any], inputs: Sequence[str]) -> None:
    """Refuse another number of ``gradients`` than of ``inputs``, the names that have one."""
    if len(gradients) != len(inputs):
        raise TileValueError(
            f"the backward of {name} gives another number of gradients",
            expected=f"those of {', '.join(inputs)}",
            got=str(len(gradients)),
        )


def check_backward(name: str, parameters: Iterable[str], known: Collection[str]) -> None:
    """Refuse a derivative of ``name`` with a parameter that is none of ``known``."""
    for parameter in parameters:
        if parameter not in known:
            raise TileTypeError(
                f"the backward of {name} has the parameter {parameter}, which is unknown",
                expected="among " + ", ".join(sorted(known)),
            )


def signature_of(inputs: Sequence[KernelParam]) -> Signature:
    """The inputs as a signature; an annotation is the text of the program."""
    return Signature(
        [
            Parameter(
                param.name if param.name.isidentifier() else f"arg{number}",
                Parameter.POSITIONAL_OR_KEYWORD,
                annotation=_annotation(param),
            )
            for number, param in enumerate(inputs)
        ]
    )


def _annotation(param: KernelParam) -> str:
    if not param.shape:
        return f"T.{param.dtype}"
    inner = ", ".join(map(str, param.shape)) + ("," if len(param.shape) == 1 else "")
    return f"T.Tensor(({inner}), {str(param.dtype)!r})"
