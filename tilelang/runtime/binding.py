"""Checks of a call against the launch signature, with all their messages; solves its symbols.

The launchers have fast paths for correct calls. Any other call ends in :func:`bind`, which checks
the arguments in order. Its error names the kernel, the parameter, the expected and the given value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import NoneType
from typing import Any, NoReturn

import numpy as np

from tilelang.errors import ArgumentCountError, ArgumentTypeError, KernelArgumentError, shown
from tilelang.ir.dtypes import dtype as DType, is_compatible_storage, max_value, min_value
from tilelang.ir.postfix import evaluate
from tilelang.records import dataclass
from tilelang.runtime.dims import DimExpr, dim_text, solvable_in, solve, symbols_in
from tilelang.runtime.overlap import shared_element
from tilelang.runtime.signature import LaunchSpec, Param
from tilelang.runtime.tensors import TensorInfo, conversion_hint, describe, is_jax, storage_shape


@dataclass(frozen=True)
class Bound:
    """A checked call: values of all symbols and the storage shapes of the results."""

    symbols: tuple[int, ...]
    out_shapes: tuple[tuple[int, ...], ...]


def count_error(spec: LaunchSpec, count: int) -> ArgumentCountError:
    """A call with the wrong number of arguments."""
    names = ", ".join(param.name for param in spec.input_params) or "none"
    return ArgumentCountError(
        f"Kernel expected {len(spec.inputs)} inputs, but {count} are provided.",
        hint=f"the inputs of {spec.name} are: {names}; a call allocates those in out_idx",
    )


def keyword_error(spec: LaunchSpec, names: Sequence[str]) -> ArgumentTypeError:
    """A call with keyword arguments."""
    return ArgumentTypeError(
        f"kernel {spec.name} is called with the keyword argument {names[0]!r}",
        expected="positional arguments only",
        got=", ".join(names),
    )


def convert_scalar(spec: LaunchSpec, param: Param, arg: Any) -> int | float:
    """The number that a scalar or pointer parameter gets.

    A float parameter takes ints and bools; an int parameter takes no floats. numpy scalars and 0-d
    tensors count as their value.
    """
    where = f"kernel {spec.name} input {param.name}"
    if param.kind == "pointer":
        return _address(where, arg)
    kind = DType(param.dtype)
    if kind.is_float:
        if isinstance(arg, (str, bytes, complex)) or not (
            hasattr(arg, "__float__") or hasattr(arg, "__index__")
        ):
            raise ArgumentTypeError(
                f"{where} is not a number", expected=f"a number for {kind}", got=_shown(arg)
            )
        try:
            return float(arg)
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise ArgumentTypeError(
                f"{where} is not a number", expected=f"a number for {kind}", got=_shown(arg)
            ) from error
    try:
        # Booleans of numpy are no indices.
        number = int(arg if getattr(arg, "dtype", None) == np.bool_ else arg.__index__())
    except (AttributeError, TypeError, RuntimeError) as error:
        raise ArgumentTypeError(
            f"{where} is not an integer",
            expected=f"an int for {kind}",
            got=_shown(arg),
            hint="floats are not rounded silently; pass int(x)" if _is_float(arg) else None,
        ) from error
    if kind.is_bool:
        return int(bool(number))
    low, high = int(min_value(kind)), int(max_value(kind))
    if not low <= number <= high:
        raise KernelArgumentError(
            f"{where} does not fit into {kind}", expected=f"{low} to {high}", got=shown(number)
        )
    return number


def _is_float(arg: object) -> bool:
    return isinstance(arg, float) or hasattr(arg, "__float__")


def _address(where: str, arg: Any) -> int:
    if arg is None:
        return 0
    if isinstance(arg, int):
        if not 0 <= arg < 2**64:
            raise KernelArgumentError(
                f"{where} is not an address", expected="0 to 2**64 - 1", got=shown(arg)
            )
        return int(arg)
    try:
        return describe(arg).pointer
    except ArgumentTypeError as error:
        raise ArgumentTypeError(
            f"{where} is not a pointer",
            expected="an address (int), a tensor, or None",
            got=_shown(arg),
        ) from error


def bind(spec: LaunchSpec, args: Sequence[Any]) -> Bound:
    """Check the inputs of a call in order and solve the symbols.

    Raises:
        ArgumentCountError: wrong number of arguments.
        ArgumentTypeError: wrong dtype, or something that is not a tensor or number.
        KernelArgumentError: wrong ndim, shape, strides, device, alignment, ...
    """
    if len(args) != len(spec.inputs):
        raise count_error(spec, len(args))
    return _Binder(spec).run(args)


class _Binder:
    def __init__(self, spec: LaunchSpec) -> None:
        self.spec = spec
        self.values: list[int | None] = [None] * len(spec.symbols)
        self.sources = [""] * len(spec.symbols)  # the argument that gives a symbol its value
        self.later: list[tuple[Param, str, DimExpr, int]] = []
        self.nulls: list[Param] = []
        self.weak: dict[int, tuple[Param, str, int]] = {}  # values unless another dim has one
        self.pointed: list[tuple[Param, TensorInfo]] = []  # tensors passed for pointers
        self.device: tuple[str, int, str] | None = None  # device, index, parameter

    def run(self, args: Sequence[Any]) -> Bound:
        spec = self.spec
        pairs = [(spec.params[at], arg) for at, arg in zip(spec.inputs, args)]
        for param, arg in pairs:
            if param.kind != "tensor":
                number = convert_scalar(spec, param, arg)
                if param.kind == "pointer":
                    self.aligned(param, int(number))
                    if param.views and not isinstance(arg, (int, NoneType)):
                        self.pointed.append((param, describe(arg)))
                if param.symbol is not None:
                    self.set(param, "", param.symbol, int(number), f"argument {param.name}")
        for param, arg in pairs:
            if param.kind == "tensor":
                self.tensor(param, arg)
        self.finish()
        for param, info in self.pointed:
            self.memory_of(param, info)
        values = tuple(value or 0 for value in self.values)
        for check in spec.checks:
            if not evaluate(check.program, values):
                raise KernelArgumentError(
                    f"kernel {spec.name}: {check.message}",
                    expected=dim_text(check.program, spec.names),
                    got=", ".join(f"{n} = {v}" for n, v in zip(spec.names, values)),
                )
        return Bound(values, tuple(self.result_shape(at, values) for at in spec.outputs))

    def result_shape(self, position: int, values: Sequence[int]) -> tuple[int, ...]:
        param = self.spec.params[position]
        extents = [evaluate(dim, values) for dim in param.shape]
        shape = tuple(-1 if extent is None else extent for extent in extents)
        if any(extent < 0 for extent in shape):
            symbols = ", ".join(f"{n} = {v}" for n, v in zip(self.spec.names, values))
            self.fail(
                KernelArgumentError, param, "cannot be allocated", "extents >= 0",
                f"{self.shape_text(param)} with {symbols}" if symbols else self.shape_text(param),
            )  # fmt: skip
        return storage_shape(shape, DType(param.dtype))

    # -- one tensor -----------------------------------------------------------------------
    def tensor(self, param: Param, arg: Any) -> None:
        if arg is None:
            if not param.nullable:
                self.fail(
                    KernelArgumentError, param, "is None",
                    f"a {param.dtype} tensor of shape {self.shape_text(param)}", "None",
                    "None is accepted only for a tensor that the kernel does not use",
                )  # fmt: skip
            self.nulls.append(param)
            return
        try:
            info = describe(arg)
        except ArgumentTypeError as error:
            raise ArgumentTypeError(
                f"{self.name(param)}: {error.message}",
                expected=error.expected,
                got=error.got,
                hint=conversion_hint(arg, param.name) or error.hint,
            ) from error
        self.form(param, info, arg)
        for number, dim in enumerate(param.shape):
            self.extent(param, info, number, dim)
        if param.strides is None:
            self.contiguous(param, info)
        else:
            for number, dim in enumerate(param.strides):
                self.stride(param, info, number, dim)
            if param.written:
                self.separate(param, info)
        self.memory(param, info)

    def form(self, param: Param, info: TensorInfo, arg: object) -> None:
        """Number of dimensions and dtype."""
        if len(info.shape) != param.ndim:
            self.fail(
                KernelArgumentError, param, "has the wrong number of dimensions",
                f"{param.ndim} (shape {self.shape_text(param)})",
                f"{len(info.shape)} (shape {info.shape})",
            )  # fmt: skip
        expected = DType(param.dtype)
        if info.dtype is None or not is_compatible_storage(expected, info.dtype, raw=info.raw):
            self.fail(
                ArgumentTypeError, param, "has the wrong dtype", param.dtype, info.dtype_name,
                _conversion(param, arg),
            )  # fmt: skip

    def extent(self, param: Param, info: TensorInfo, number: int, dim: DimExpr) -> None:
        actual = info.shape[number]
        if param.packing > 1 and number == param.ndim - 1:
            actual *= param.packing
            if isinstance(dim, int):
                dim = -(-dim // param.packing) * param.packing
        self.match(param, f"shape[{number}]", dim, actual, f"{actual} (shape {info.shape})")

    def contiguous(self, param: Param, info: TensorInfo) -> None:
        if not info.size:
            return
        expected, step, good = [], 1, True
        for extent, stride in zip(reversed(info.shape), reversed(info.strides)):
            expected.append(step)
            good = good and (extent == 1 or stride == step)
            step *= extent
        if not good:
            self.fail(
                KernelArgumentError, param, "is not contiguous",
                f"row-major strides {tuple(reversed(expected))}", f"{info.strides}",
                f"pass {param.name}.contiguous(), or np.ascontiguousarray({param.name}) for numpy; "
                "or declare it as T.StridedTensor",
            )  # fmt: skip

    def stride(self, param: Param, info: TensorInfo, number: int, dim: DimExpr) -> None:
        scale = param.packing if number < param.ndim - 1 else 1
        actual = info.strides[number] * scale
        if info.shape[number] == 1 or not info.size:
            # Frameworks report any stride here. A symbol that no other dimension determines gets
            # the stride of a contiguous tensor.
            if isinstance(dim, tuple) and len(dim) == 1:
                compact = scale
                for extent in info.shape[number + 1 :]:
                    compact *= extent
                self.weak.setdefault(symbols_in(dim)[0], (param, f"stride[{number}]", compact))
            return
        self.match(param, f"stride[{number}]", dim, actual, f"{actual} (strides {info.strides})")

    def separate(self, param: Param, info: TensorInfo) -> None:
        """No two elements of a written tensor share memory."""
        pair = shared_element(info.shape, info.strides)
        if pair is not None:
            self.fail(
                KernelArgumentError, param, "has elements that share memory, and the kernel writes "
                f"it: those at {pair[0]} and {pair[1]} are one",
                "an address of its own for each element",
                f"shape {info.shape}, strides {info.strides}",
                f"pass {param.name}.clone() or {param.name}.contiguous() of torch, "
                f"np.array({param.name}) for numpy",
            )  # fmt: skip

    def memory(self, param: Param, info: TensorInfo) -> None:
        """Device, write access and alignment."""
        spec = self.spec
        if info.device != spec.device:
            self.fail(
                KernelArgumentError, param, "is on the wrong device", spec.device,
                info.device if info.device == "cpu" else f"{info.device}:{info.index}",
                _moved(param.name, spec.device),
            )  # fmt: skip
        if self.device is None:
            self.device = (info.device, info.index, param.name)
        elif info.device != "cpu" and self.device[1] != info.index:
            self.fail( KernelArgumentError, param, "is on another device than the rest",
                f"{info.device}:{self.device[1]} as {self.device[2]}",
                f"{info.device}:{info.index}",
            )  # fmt: skip
        if param.written and info.readonly:
            self.fail(
                KernelArgumentError, param, "is read-only", "memory that the kernel can write",
                "a read-only array", _written(info),
            )  # fmt: skip
        if not info.size:
            return
        if not info.pointer:
            self.fail(
                KernelArgumentError, param, "has no memory", "allocated memory", "a null pointer"
            )
        self.aligned(param, info.pointer)

    def aligned(self, param: Param, address: int) -> None:
        """The alignment of vector accesses; for an element across a boundary, its own alignment."""
        if address % param.alignment:
            element = replace(param, align=0).alignment
            needed = element if address % element else param.alignment
            self.fail(
                KernelArgumentError, param, "is misaligned",
                f"an address that is a multiple of {needed} bytes",
                f"0x{address:x}",
                "copy the tensor, or slice it at a multiple of that size",
            )  # fmt: skip

    # -- symbols --------------------------------------------------------------------------
    def match(self, param: Param, where: str, dim: DimExpr, actual: int, got: str) -> None:
        """Check ``dim`` against ``actual``, or solve it for its one unknown symbol."""
        unknown = [symbol for symbol in symbols_in(dim) if self.values[symbol] is None]
        if not unknown:
            self.compare(param, where, dim, actual, got)
            return
        if len(unknown) > 1 or unknown[0] not in solvable_in(dim):
            self.later.append((param, where, dim, actual))
            return
        value = self.solved(dim, unknown[0], actual)
        if value is None:
            name = self.spec.names[unknown[0]]
            self.fail(
                KernelArgumentError, param, f"{where} does not fit",
                f"{dim_text(dim, self.spec.names)} for an integer {name} >= 0", got,
            )  # fmt: skip
        self.set(param, where, unknown[0], value, f"{param.name}.{where}")

    def solved(self, dim: DimExpr, symbol: int, actual: int) -> int | None:
        """``solve``; a plain symbol takes any value, since strides may be negative."""
        if isinstance(dim, tuple) and len(dim) == 1:
            return actual
        return solve(dim, symbol, actual, self.values)

    def set(self, param: Param, where: str, symbol: int, value: int, source: str) -> None:
        declared = self.spec.symbols[symbol]
        if value > declared.limit:
            limit = f"at most {declared.limit}, the largest {declared.dtype}, for {declared.name}"
            self.fail(
                KernelArgumentError, param, f"{where} is too large".strip(), limit, str(value),
                f"declare {declared.name} as int64",
            )  # fmt: skip
        self.values[symbol] = value
        self.sources[symbol] = source

    def compare(self, param: Param, where: str, dim: DimExpr, actual: int, got: str) -> None:
        value = evaluate(dim, self.values)
        expected = -1 if value is None else value
        if where == f"shape[{param.ndim - 1}]" and param.packing > 1:
            expected = -(-expected // param.packing) * param.packing
        if expected != actual:
            self.fail(
                KernelArgumentError, param, f"{where} does not match",
                self.expected_text(dim, expected), got,
            )  # fmt: skip

    def expected_text(self, dim: DimExpr, expected: int) -> str:
        if isinstance(dim, int):
            return str(expected)
        names = self.spec.names
        sources = ", ".join(
            f"{names[s]} = {self.values[s]} from {self.sources[s]}" for s in symbols_in(dim)
        )
        return f"{dim_text(dim, names)} = {expected} ({sources})"

    def finish(self) -> None:
        """Match the dimensions with several unknown symbols. A symbol of tensors that are all None
        is 0 if it is one tensor or the kernel does not compute with it."""
        self.match_later()
        for symbol, (param, where, stride) in self.weak.items():
            if self.values[symbol] is None:
                self.set(param, where, symbol, stride, f"{param.name}.{where}")
        self.match_later()
        for symbol, value in enumerate(self.values):
            if value is None:
                self.unknown(symbol)
        for param, where, dim, actual in self.later:
            self.compare(param, where, dim, actual, str(actual))

    def match_later(self) -> None:
        """Match dimensions whose symbols are known by now, until no more can be solved."""
        before = -1
        while len(self.later) != before:
            waiting, self.later = self.later, []
            before = len(waiting)
            for param, where, dim, actual in waiting:
                self.match(param, where, dim, actual, str(actual))

    def unknown(self, symbol: int) -> None:
        spec = self.spec
        carriers = spec.carriers(symbol)
        nulls = [param for param in carriers if param in self.nulls]
        unused = not spec.symbols[symbol].used and nulls == carriers
        if nulls and (len(carriers) == 1 or unused):
            self.values[symbol] = 0
            return
        names = ", ".join(param.name for param in carriers)
        raise KernelArgumentError(
            f"kernel {spec.name}: the value of {spec.names[symbol]} is unknown",
            expected=f"at least one non-null buffer among {names}",
            got=", ".join(f"{param.name}=None" for param in nulls) or "no dimension that tells it",
        )

    # -- tensors passed for pointers --------------------------------------------------------
    def memory_of(self, param: Param, info: TensorInfo) -> None:
        """Dtype and size of a tensor that is passed as a pointer; bytes may hold any dtype."""
        kinds = [DType(name) for name, _ in param.views]
        if info.dtype is None or not (
            info.dtype in ("int8", "uint8")
            or any(is_compatible_storage(kind, info.dtype, raw=info.raw) for kind in kinds)
        ):
            self.fail(
                ArgumentTypeError, param, "has the wrong dtype", str(kinds[0]), info.dtype_name,
                f"the kernel takes {kinds[0]} to be there; pass a view of bytes, or the address as "
                "an int, if that is meant",
            )  # fmt: skip
        steps = [*zip(info.shape, info.strides), (1, 0)]
        available = 0 if not info.size else 1 + sum((n - 1) * abs(step) for n, step in steps)
        bits = 8 if info.dtype is None else info.dtype.packing * info.dtype.width
        for kind, (_, dim) in zip(kinds, param.views):
            size = evaluate(dim, self.values) or 0
            if size * kind.width > available * bits:
                shown = f"{available * bits // kind.width} of {kind} (shape {info.shape})"
                expected = self.expected_text(dim, size)
                self.fail(KernelArgumentError, param, "has too few elements", expected, shown)

    # -- texts ----------------------------------------------------------------------------
    def name(self, param: Param) -> str:
        return f"kernel {self.spec.name} input {param.name}"

    def shape_text(self, param: Param) -> str:
        inner = ", ".join(dim_text(dim, self.spec.names) for dim in param.shape)
        return f"({inner},)" if param.ndim == 1 else f"({inner})"

    def fail(
        self, kind: type[KernelArgumentError], param: Param, problem: str, expected: str, got: str,
        hint: str | None = None,
    ) -> NoReturn:  # fmt: skip
        raise kind(f"{self.name(param)} {problem}", expected=expected, got=got, hint=hint)


def _shown(arg: object) -> str:
    return f"{shown(arg, 60)} of type {type(arg).__name__}"


def _conversion(param: Param, arg: object) -> str | None:
    """The conversion of an array of numbers to the parameter's dtype, as a hint."""
    kind = getattr(arg, "dtype", None)
    if getattr(kind, "kind", "O") in "iufb" and hasattr(np, param.dtype):
        call = f"astype(np.{param.dtype})"
    elif type(kind).__module__ == "torch" and not DType(param.dtype).is_fp8:
        call = f"to(torch.{param.dtype})"
    else:
        return None
    copy = ", a copy: what the kernel writes goes there" if param.written else ""
    return f"pass {param.name}.{call}{copy}"


_EMULATED = 'execution_backend="emulator" runs the kernel on the CPU'


def _written(info: TensorInfo) -> str:
    if isinstance(info.owner, tuple) and is_jax(info.owner[-1]):
        return "tilelang.jax.custom_call(kernel) gives what the kernel writes as a result"
    return "pass a copy"


def _moved(name: str, device: str) -> str | None:
    """A hint for a tensor that is not on ``device``."""
    if device == "cuda":
        return f"pass {name}.cuda(); without a GPU, {_EMULATED}"
    if device == "metal":
        return f'pass {name}.to("mps"); without a GPU, {_EMULATED}'
    return f"pass {name}.cpu()" if device == "cpu" else None
