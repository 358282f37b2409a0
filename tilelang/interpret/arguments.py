"""Arguments of a call: symbols solved from shapes, arrays and scalars bound to parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tilelang.errors import ArgumentCountError, ArgumentTypeError, KernelArgumentError
from tilelang.interpret import pointers, values
from tilelang.interpret.analysis import is_arithmetic, variables
from tilelang.interpret.memory import Memory, nibbles_of
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Expr, Var

if TYPE_CHECKING:
    from tilelang.interpret.machine import DivergentGroup


def bind_arguments(s: DivergentGroup, args: Sequence[Any]) -> None:
    """Give every parameter its argument."""
    func = s.run.func
    if len(args) != len(func.params):
        raise ArgumentCountError(
            f"`{func.name}` is called with the wrong number of arguments",
            expected=str(len(func.params)),
            got=str(len(args)),
        )
    pairs = list(zip(func.params, args))
    for param, arg in pairs:
        if isinstance(param, Var):
            _bind_scalar(s, param, arg)
    arrays = [
        (param, None if arg is None else pointers.storage_of(param, arg, param.name))
        for param, arg in pairs
        if isinstance(param, Buffer)
    ]
    _solve_all(s, [(buffer, array) for buffer, array in arrays if array is not None])
    outputs = {id(func.params[k]) for k in func.outputs}
    for buffer, array in arrays:
        if array is None:
            _bind_missing(s, buffer)
        else:
            _check(s, buffer, array)
            pointers.bind_array(s, buffer, array, id(buffer) not in outputs)


def _bind_scalar(s: DivergentGroup, param: Var, arg: Any) -> None:
    if param.dtype.is_handle:
        if isinstance(arg, np.ndarray):
            address = int(arg.ctypes.data)
            s.run.pointers[address] = arg
        else:
            address = int(arg or 0)
        s.bind(param, np.uint64(address))
        return
    value = arg.item() if isinstance(arg, np.generic) else arg
    if not isinstance(value, (bool, int, float)):
        raise ArgumentTypeError(
            f"the argument `{param.name}` is not a number",
            expected=str(param.dtype),
            got=type(arg).__name__,
        )
    if isinstance(value, float) and not param.dtype.is_float:
        raise ArgumentTypeError(
            f"the argument `{param.name}` is a float", expected=str(param.dtype), got=repr(value)
        )
    known = (
        values.constant(value, param.dtype)
        if not isinstance(value, float)
        else (values.convert(np.float64(value), DType("float64"), param.dtype))
    )
    if param.dtype.is_float and not isinstance(value, float):
        known = values.convert(np.float64(value), DType("float64"), param.dtype)
    s.bind(param, known)


def _bind_missing(s: DivergentGroup, buffer: Buffer) -> None:
    """A parameter for which None was given: any use is an error."""
    nothing = Memory(np.zeros(0, np.uint8), nibbles_of(buffer.dtype))
    nothing.absent = True
    for extent in (*buffer.shape, *(buffer.strides or ())):
        if isinstance(extent, Expr):
            for var in variables(extent):
                if var not in s.scope.values:
                    s.bind(var, values.constant(0, var.dtype))
    s.attach(buffer, nothing)


def logical_shape(buffer: Buffer, array: np.ndarray[Any, Any]) -> tuple[int, ...]:
    """Shape in elements of the buffer's dtype."""
    shape = tuple(array.shape)
    if buffer.dtype.packing > 1 and shape:
        return (*shape[:-1], shape[-1] * buffer.dtype.packing)
    return shape[:-1] if buffer.dtype.lanes > 1 and len(shape) == buffer.ndim + 1 else shape


def _solve_all(s: DivergentGroup, arrays: list[tuple[Buffer, Any]]) -> None:
    """Bind the symbols of shapes and strides: plain symbols first, then linear expressions."""
    equations: list[tuple[Expr, int]] = []
    for buffer, array in arrays:
        shape = logical_shape(buffer, array)
        if len(shape) != buffer.ndim:
            raise KernelArgumentError(
                f"the argument `{buffer.name}` has the wrong number of dimensions",
                expected=f"{buffer.ndim} (shape {tuple(buffer.shape)})",
                got=f"{len(shape)} (shape {shape})",
            )
        equations.extend((e, n) for e, n in zip(buffer.shape, shape) if isinstance(e, Expr))
        if buffer.strides is not None:
            steps = [step // array.itemsize for step in array.strides]
            equations.extend((e, n) for e, n in zip(buffer.strides, steps) if isinstance(e, Expr))
    for _ in range(len(equations) + 1):
        for expr, size in equations:
            _solve(s, expr, size)


def _solve(s: DivergentGroup, expr: Expr, size: int) -> None:
    """Bind the one unknown of a linear equation ``expr == size``."""
    unknown = [var for var in variables(expr) if var not in s.scope.values]
    if len(unknown) != 1 or not is_arithmetic(expr):
        return
    var = unknown[0]
    at = []
    for trial in (0, 1):
        s.bind(var, values.constant(trial, var.dtype))
        at.append(int(s.eval(expr, None)))
    del s.scope.values[var]
    slope = at[1] - at[0]
    if slope != 0 and (size - at[0]) % slope == 0:
        s.bind(var, values.constant((size - at[0]) // slope, var.dtype))


def _check(s: DivergentGroup, buffer: Buffer, array: Any) -> None:
    shape = logical_shape(buffer, array)
    declared = tuple(s.number(e, None, f"the shape of `{buffer.name}`") for e in buffer.shape)
    if shape != declared:
        raise KernelArgumentError(
            f"the argument `{buffer.name}` has the wrong shape",
            expected=f"{declared}"
            + (
                f" (declared {tuple(buffer.shape)})"
                if any(isinstance(e, Expr) for e in buffer.shape)
                else ""
            ),
            got=f"{shape}",
        )
