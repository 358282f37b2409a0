"""Calling a kernel from pure Python: the same checks as the C launcher, without a C compiler.

A call with the dtypes, shapes, strides and devices of an earlier one reuses its checked plan by one
dictionary lookup. All other calls go through :func:`tilelang.runtime.binding.bind`. The C launcher
passes calls that it cannot check to an object of this class, so that both behave the same.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from tilelang.errors import ArgumentTypeError, DeviceAssertError, TileRuntimeError
from tilelang.ir.dtypes import dtype as DType, max_value, min_value
from tilelang.runtime import autograd
from tilelang.runtime.binding import Bound, bind, convert_scalar, count_error, keyword_error
from tilelang.runtime.signature import INTERRUPTED, OUT_OF_MEMORY, WHOLE, LaunchSpec, Param
from tilelang.runtime.tensors import (
    as_numpy_view,
    describe,
    empty_like_framework,
    framework_of,
    fresh_tensor,
    have_common_elements,
    memory_of,
    numpy_result_dtype,
    to_framework,
)

Entry = Callable[[bytes], int]
Limits = tuple[tuple[str, int], ...]  # (parameter, bytes) of tensors aligned less than vectors
Narrow = Callable[[Limits, bool], Callable[..., Any]]
_MAX_PLANS = 4096  # bounds the memory of servers with ever new shapes

_TENSOR, _INT, _FLOAT, _OTHER = range(4)


class _Plan:
    """The result of the checks of a call: symbol slots and the shapes of the results."""

    __slots__ = ("out_shapes", "symbols")

    def __init__(self, spec: LaunchSpec, bound: Bound) -> None:
        self.symbols = tuple(bound.symbols[number] for number in spec.free_symbols)
        self.out_shapes = bound.out_shapes


class _Input:
    """One input, as the fast path checks it."""

    __slots__ = ("code", "high", "is_symbol", "low", "mask", "param", "strided")

    def __init__(self, param: Param) -> None:
        self.param = param
        self.is_symbol = param.symbol is not None
        self.strided = param.strides is not None
        self.mask = param.alignment - 1
        self.low = self.high = 0
        if param.kind == "tensor":
            self.code = _TENSOR
            return
        kind = DType(param.dtype)
        self.code = _FLOAT if kind.is_float else _OTHER
        if kind.is_integer:
            self.code = _INT
            self.low, self.high = int(min_value(kind)), int(max_value(kind))


def shares_memory(inputs: Sequence[_Input], args: Sequence[Any], noalias: int) -> bool:
    """Whether a tensor that the kernel writes has an element of another argument; with ``WHOLE``,
    and is not the same tensor."""
    tensors = [(i.param, memory_of(arg)) for i, arg in zip(inputs, args) if i.code == _TENSOR]
    return any(
        (p.written or q.written)
        and have_common_elements(a, b)
        and not (noalias == WHOLE and _identity(p, a) == _identity(q, b))
        for (p, a), (q, b) in combinations(tensors, 2)
    )


def _identity(param: Param, array: Any) -> tuple[Any, ...]:
    return param.dtype, array.shape, array.strides, array.ctypes.data


class PyLauncher:
    """Checks arguments, allocates results, calls the entry and returns the results.

    Args:
        spec: the launch signature.
        entry: takes the slots as bytes and returns the error code, e.g. a ctypes function with an
            argument ``c_void_p``.
        keep: kept alive with the launcher (the loaded library).
        narrow: compiles the kernel for tensors with less alignment than the signature has, or for
            tensors that share memory. Takes pairs of parameter name and bytes, and whether memory
            is shared; caches the result.
    """

    def __init__(
        self, spec: LaunchSpec, entry: Entry | None, keep: object = None,
        narrow: Narrow | None = None,
    ) -> None:  # fmt: skip
        import ctypes

        self.spec = spec
        self.keep = keep
        self._narrow = narrow
        self._view_at: Callable[[Any], Any] = ctypes.c_char.from_buffer
        self._addressof = ctypes.addressof
        self._entry = entry
        self._inputs = tuple(map(_Input, spec.input_params))
        self._outputs = spec.outputs
        self._plans: dict[tuple[Any, ...], _Plan] = {}
        kinds = [DType(param.dtype) for param in spec.params]
        self._pack = struct.Struct(
            "=" + "".join(_slot_format(p, k) for p, k in zip(spec.params, kinds))
            + "q" * len(spec.free_symbols)
        ).pack  # fmt: skip
        # Positions of the results among the parameters, in ascending order.
        self._result_order = sorted((at, number) for number, at in enumerate(spec.outputs))
        self._result_dtypes = {at: kinds[at] for at in spec.outputs}
        self._numpy_types: dict[int, np.dtype[Any]] = {}
        self._torch_types: dict[int, Any] = {}
        self._gradients, self._calls = autograd.AGAIN, 0
        self._written = tuple(
            number
            for number, position in enumerate(spec.inputs)
            if spec.params[position].kind == "tensor" and spec.params[position].written
        )

    def look(self, args: Sequence[Any]) -> int:
        """See :func:`tilelang.runtime.autograd.look`."""
        if self._gradients != autograd.NEVER:
            names = [known.param.name for known in self._inputs]
            self._gradients = autograd.look(self.spec.name, names, args)
        return self._gradients

    def _warn_of_gradients(self, args: Sequence[Any]) -> None:
        self._calls += 1
        if self._gradients == autograd.ALWAYS or not self._calls & (self._calls - 1):
            self.look(args)

    def __call__(self, *args: Any, **keywords: Any) -> Any:
        """Run the kernel on positional arguments; the results are returned as the spec says."""
        if keywords:
            raise keyword_error(self.spec, list(keywords))
        if len(args) != len(self._inputs):
            raise count_error(self.spec, len(args))
        key: list[Any] = []
        slots: list[Any] = []
        numpy_array, torch_tensor = np.ndarray, _torch_tensor()
        view_at, addressof = self._view_at, self._addressof
        sound = True
        for known, arg in zip(self._inputs, args):
            code, kind = known.code, type(arg)
            if code == _TENSOR:
                if kind is numpy_array:
                    try:  # five times faster, for arrays that are writable and contiguous
                        address = addressof(view_at(arg))
                        key += (arg.dtype, arg.shape, arg.strides if known.strided else None, False)
                    except (TypeError, ValueError):
                        address, readonly = arg.__array_interface__["data"]
                        key += (arg.dtype, arg.shape, arg.strides, readonly)
                elif kind is torch_tensor:
                    try:
                        address = 0 if arg.is_neg() else arg.data_ptr()
                        key += (arg.dtype, arg.shape, arg.stride(), arg.device)
                    except RuntimeError:  # no plain memory: the full check reports why
                        sound, address = False, 0
                else:
                    address = self._foreign(arg, key)
                slots.append(address)
                if address & known.mask or not (address or arg is None):
                    sound = False
            else:
                if code == _INT and kind is int and known.low <= arg <= known.high:
                    value: int | float = arg
                elif code == _FLOAT and kind is float:
                    value = arg
                else:
                    value = self._number(known.param, arg, key)
                slots.append(value)
                if known.mask and int(value) & known.mask:
                    sound = False
                if known.is_symbol:
                    key.append(value)
        shared = bool(self.spec.noalias) and shares_memory(self._inputs, args, self.spec.noalias)
        if shared or not sound:
            replacement = self.replacement(slots, shared)
            if replacement is not None:
                return replacement(*args)
        plan = self._plans.get(tuple(key)) if sound else None
        if plan is None:
            plan = self._new_plan(tuple(key), args, sound)
        if torch_tensor is None:
            return self._run(args, slots, plan)
        if self._gradients != autograd.NEVER:
            self._warn_of_gradients(args)
        result = self._run(args, slots, plan)
        if self._written:
            autograd.increment([args[number] for number in self._written])
        return result

    def replacement(self, slots: Sequence[Any], shared: bool) -> Callable[..., Any] | None:
        """The kernel for tensors that are less aligned than this one assumes, or that alias; None
        to go on, or to refuse the call. ``slots`` are the values of the inputs."""
        limits = self._limits(slots)
        return self._narrow(limits, shared) if self._narrow and (limits or shared) else None

    def _limits(self, slots: Sequence[Any]) -> Limits:
        """The parameters with less alignment than the signature has, all with the least alignment
        among them, so that few kernels are compiled; none if an address is not even a multiple of
        its element."""
        lacking = [
            (known.param, address & -address)
            for known, address in zip(self._inputs, slots)
            if known.mask and address & known.mask
        ]
        if any(have < replace(param, align=0).alignment for param, have in lacking):
            return ()
        worst = min((have for _, have in lacking), default=0)
        return tuple((param.name, worst) for param, _ in lacking)

    def _new_plan(self, key: tuple[Any, ...], args: Sequence[Any], keep: bool) -> _Plan:
        plan = _Plan(self.spec, bind(self.spec, args))
        if keep:
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return plan

    def _number(self, param: Param, arg: Any, key: list[Any]) -> int | float:
        """The value of a scalar or a pointer; the description of a tensor for a pointer is
        added to ``key``."""
        if param.views and type(arg) is not int:
            self._foreign(arg, key)
        return convert_scalar(self.spec, param, arg)

    def _foreign(self, arg: Any, key: list[Any]) -> int:
        """Address of a tensor of another framework; its description is added to ``key``."""
        if arg is None:
            key.append(None)
            return 0
        try:
            info = describe(arg)
        except ArgumentTypeError:  # the full check says which parameter
            return 0
        key += (info.dtype_name, info.shape, info.strides, info.device, info.index)
        key += (info.readonly, info.raw)
        return info.pointer

    def _run(self, args: Sequence[Any], slots: list[Any], plan: _Plan) -> Any:
        results: list[Any] = []
        values: Sequence[Any] = args
        if self._outputs:
            like = self.first_tensor(args)
            results = [
                self.allocate(like, position, shape)
                for position, shape in zip(self._outputs, plan.out_shapes)
            ]
            values = list(args)
            for position, number in self._result_order:
                values.insert(position, results[number])
                slots.insert(position, self._address_of(results[number]))
        code = self._invoke(values, self._pack(*slots, *plan.symbols))
        if code:
            self.fail(code)
        return self._returned(args, results)

    def _invoke(self, args: Sequence[Any], slots: bytes) -> int:
        """Start the kernel. ``args`` are all parameters in order, results included."""
        if self._entry is None:
            return 0
        return self._entry(slots)

    def _address_of(self, result: Any) -> int:
        if type(result) is not np.ndarray:
            return int(result.data_ptr())
        try:
            return int(self._addressof(self._view_at(result)))
        except (TypeError, ValueError):  # empty, or of a type without a buffer format
            return int(result.__array_interface__["data"][0])

    def _returned(self, args: Sequence[Any], results: list[Any]) -> Any:
        rule = self.spec.returns
        if rule == "none":
            return None
        like = self.first_tensor(args)
        if like is not None and framework_of(like) == "other":
            results = [to_framework(like, result) for result in results]
        if rule == "one":
            return results[0]
        return tuple(results) if rule == "tuple" else results

    def first_tensor(self, args: Sequence[Any]) -> Any:
        """The first tensor argument that is not None; results follow its framework."""
        for known, arg in zip(self._inputs, args):
            if known.code == _TENSOR and arg is not None:
                return arg
        return None

    def allocate(self, like: Any, position: int, shape: tuple[int, ...]) -> Any:
        """A result: parameter ``position`` with ``shape`` in storage units."""
        if type(like) is not np.ndarray:
            return empty_like_framework(like, self._result_dtypes[position], shape)
        storage = self._numpy_types.get(position)
        if storage is None:
            storage = numpy_result_dtype(self._result_dtypes[position])
            self._numpy_types[position] = storage
        return np.empty(shape, storage)

    def allocate_known(self, like: Any, position: int, shape: tuple[int, ...]) -> Any:
        """:meth:`allocate` for the C launcher, which cannot convert to other frameworks."""
        torch = sys.modules.get("torch")
        if torch is not None and type(like) is torch.Tensor:
            dtype = self._torch_types.get(position)
            if dtype is None:
                dtype = self._torch_types[position] = self._result_dtypes[position].as_torch()
            return fresh_tensor(like, dtype, shape)
        if type(like) is not np.ndarray and like is not None and framework_of(like) == "other":
            raise ArgumentTypeError("a result of another framework is converted by Python")
        return self.allocate(like, position, shape)

    def fail(self, code: int) -> None:
        """Raise the error of the kernel's return code."""
        spec = self.spec
        if 0 < code <= len(spec.sites):
            raise spec.sites[code - 1].error(spec.messages[code - 1])
        if 0 < code <= len(spec.messages):
            raise DeviceAssertError(f"kernel {spec.name}: {spec.messages[code - 1]}")
        if code == OUT_OF_MEMORY:
            raise TileRuntimeError(f"kernel {spec.name} ran out of memory")
        if code == INTERRUPTED:  # also if the program's own signal handler returned
            raise KeyboardInterrupt(f"kernel {spec.name}")
        raise TileRuntimeError(f"kernel {spec.name} failed", got=f"error code {code}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.spec.name}>"


class ArrayLauncher(PyLauncher):
    """Runs a Python function on storage arrays instead of machine code on slots.

    Args:
        spec: the launch signature.
        run: takes one value per parameter, results included: a storage array that shares the
            memory (:func:`tilelang.runtime.tensors.as_numpy_view`), a number, or None.
    """

    def __init__(self, spec: LaunchSpec, run: Callable[[list[Any]], object]) -> None:
        super().__init__(spec, None)
        self._run_arrays = run

    def _invoke(self, args: Sequence[Any], slots: bytes) -> int:
        values: list[Any] = []
        for param, arg in zip(self.spec.params, args):
            if param.kind == "tensor":
                values.append(None if arg is None else _typed_view(param, arg))
            else:
                values.append(convert_scalar(self.spec, param, arg))
        self._run_arrays(values)
        return 0


def _typed_view(param: Param, arg: Any) -> Any:
    """The storage array of ``arg`` with the storage type that the parameter declares."""
    view = as_numpy_view(arg)
    storage = DType(param.dtype).as_numpy()
    return view if view.dtype == storage else view.view(storage)


def _slot_format(param: Param, kind: DType) -> str:
    """The struct letter of a slot: an address, a number, or the bits of a float64."""
    if param.kind == "scalar":
        if kind.is_float:
            return "d"
        return "Q" if kind.is_uint and kind.bits == 64 else "q"
    return "Q"


def _torch_tensor() -> Any:
    """The class of torch tensors, if torch is imported."""
    torch = sys.modules.get("torch")
    return None if torch is None else getattr(torch, "Tensor", None)
