"""Kernels inside programs of JAX: `jax.jit`, derivatives and `vmap`.

    scale = tilelang.jax.custom_call(kernel)
    jax.jit(lambda x: scale(x) + 1)

Called on arrays of JAX, a kernel runs at once, outside of what JAX traces. A custom call is a part
of the traced program: XLA calls the compiled kernel itself, through its foreign function interface.
Arrays of JAX do not change, so that tensors which the program writes come back as results. jax is
imported by the first call.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tilelang.backends import BACKENDS, backend_of
from tilelang.cpu.toolchain import find_compiler
from tilelang.errors import TileTypeError, TileUnsupportedError, shown
from tilelang.frontend.entry import Tensor
from tilelang.ir.dtypes import dtype as DType
from tilelang.jit.calls import check_backward, check_gradients, gradient_names, in_order
from tilelang.jit.core import JITImpl, parameter_names, require_kernel
from tilelang.jit.kernel import JITKernel, input_params
from tilelang.runtime.binding import bind, convert_scalar, count_error
from tilelang.runtime.cache import Entry, content_key, default_cache
from tilelang.runtime.launch_spec import launch_spec
from tilelang.runtime.library import Library, load_library
from tilelang.runtime.signature import LaunchSpec, Param
from tilelang.runtime.tensors import numpy_result_dtype, stand_in
from tilelang.tracebacks import border

__all__ = ["custom_call"]

_TARGET = "tilelang_kernel"
_ALONE = "_alone"  # behind the name of calls that no graph of a GPU records
_PLATFORMS = ("cpu", "CUDA")
_SOURCE = Path(__file__).resolve().parent / "runtime" / "_xla.c"
_VALUE, _ARGUMENT, _RESULT, _NUMBER = range(4)  # how a slot is filled, see _xla.c


@border
def custom_call(
    kernel: JITKernel | JITImpl, *, backward: Any = None, vmap_method: str = "sequential"
) -> Callable[..., Any]:
    """Create a function of JAX arrays that runs a kernel, on the CPU or on an NVIDIA GPU.

    It takes the inputs of the kernel in order or by name. It returns the results of the kernel,
    then the new values of the tensors that the program writes: one array, a tuple, or None.

    Args:
        kernel: a compiled kernel, or a decorated function that is itself the kernel, which is
            specialised by the shapes and numbers of each call.
        backward: a kernel, or a function of JAX arrays, that returns the gradients of the
            floating-point inputs, in order. Its parameters are matched by name: inputs and
            results have their names in the program, and the gradient of the result ``C`` is
            ``grad_C`` or ``dC``. The gradient of a single result may be ``grad``.
        vmap_method: as for ``jax.ffi.ffi_call``; "sequential" runs the kernel for one item of the
            batch after the other.

    Raises:
        TileTypeError: a factory, or a parameter of ``backward`` that names nothing.
        TileUnsupportedError: jax is missing or too old; the kernel is interpreted, emulated or
            for another GPU; there is a ``backward``, and the kernel writes into its inputs.
    """
    _jax()
    kernel = require_kernel(kernel, "a custom call", "custom_call(factory(...))")
    if isinstance(kernel, JITKernel):
        _plan(kernel)  # errors come at once

    @border
    def call(*args: Any, **keywords: Any) -> Any:
        if isinstance(kernel, JITKernel):
            inputs = input_params(kernel.params, kernel.out_idx)
            specialised, operands = kernel, args
            if keywords:
                operands = in_order(kernel.prim_func.name, inputs, args, keywords)
        else:
            specialised, operands = _specialised(kernel, args, keywords)
        plan = _plan(specialised)
        if len(operands) != len(plan.spec.inputs):
            raise count_error(plan.spec, len(operands))
        if backward is None:
            return plan.run(operands, vmap_method)
        return _differentiable(plan, backward, operands, vmap_method)

    call.__name__ = call.__qualname__ = kernel.__name__
    return call


def _jax() -> Any:
    try:
        import jax
        import jax.ffi
    except ImportError:
        raise TileUnsupportedError(
            "kernels in programs of JAX need jax 0.5 or later",
            got="no package jax with jax.ffi",
            hint="pip install jax",
        ) from None
    return jax


def _specialised(
    function: Any, args: Sequence[Any], keywords: Mapping[str, Any]
) -> tuple[JITKernel, tuple[Any, ...]]:
    """The kernel of a decorated function for the shapes and numbers of a call, and what the call
    passes to it: not the numbers that it is specialised on."""
    named = {name: _placeholder(value) for name, value in keywords.items()}
    placeholders = [_placeholder(value) for value in args]
    passed = function.parse_args(*placeholders, **named)[1]
    shown_as = zip((*placeholders, *named.values()), (*args, *keywords.values()))
    actual = {id(placeholder): value for placeholder, value in shown_as}
    kernel: JITKernel = function.compile(*placeholders, **named)
    return kernel, tuple(actual.get(id(value), value) for value in passed)


def _placeholder(value: Any) -> Any:
    shape = getattr(value, "shape", None)
    return value if shape is None else Tensor(tuple(map(int, shape)), str(DType(value.dtype)))


# -- one kernel ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class _Plan:
    """A kernel that XLA can call.

    Attributes:
        spec: its launch contract.
        key: under which the handler knows it; the same in every process.
        kind: of its target.
        alone: whether its calls cannot be recorded in a graph.
    """

    spec: LaunchSpec
    key: int
    kind: str
    alone: bool

    @property
    def results(self) -> list[str]:
        """Names of what a call gives: results, then tensors that the program writes."""
        return [param.name for param in self.spec.output_params] + self.spec.written

    def run(self, args: Sequence[Any], vmap_method: str) -> Any:
        """One call with arrays, traced or not."""
        jax = _jax()
        operands: list[Any] = []
        pairs: dict[str, tuple[int, int]] = {}
        inputs = self.spec.input_params
        placeholders = [self._stand_in(param, arg) for param, arg in zip(inputs, args)]
        for param, arg in zip(inputs, args):
            pairs[param.name] = self._passed(param, arg, operands)
        bound = bind(self.spec, placeholders)
        types: list[Any] = []
        aliases: dict[int, int] = {}
        for param, shape in zip(self.spec.output_params, bound.out_shapes):
            pairs[param.name] = _RESULT, len(types)
            types.append(jax.ShapeDtypeStruct(shape, _array_dtype(jax, param)))
        for param, placeholder in zip(inputs, placeholders):
            if param.kind == "tensor" and param.written:
                aliases[pairs[param.name][1]] = len(types)
                pairs[param.name] = _RESULT, len(types)
                types.append(jax.ShapeDtypeStruct(placeholder.shape, placeholder.dtype))
        slots = [pairs[param.name] for param in self.spec.params]
        slots += [(_VALUE, bound.symbols[number]) for number in self.spec.free_symbols]
        # Arrays for numbers are waited for on a GPU.
        alone = self.alone or any(kind == _NUMBER for kind, _ in slots)
        run = jax.ffi.ffi_call(
            _target(self.kind, alone), types, vmap_method=vmap_method, input_output_aliases=aliases,
            has_side_effect=not types,
        )  # fmt: skip
        filled = np.array(slots, np.int64).ravel()

        call = jax.custom_jvp(lambda *each: run(*each, kernel=np.int64(self.key), slots=filled))
        call.defjvp(self._no_derivative)
        results = call(*operands)
        return None if not results else results[0] if len(results) == 1 else tuple(results)

    def _no_derivative(self, *_: object) -> Any:
        """Instead of the derivative of the call."""
        raise TileUnsupportedError(
            f"kernel {self.spec.name} has no derivative here",
            expected="a call in reverse mode (jax.grad, jax.vjp, jax.jacrev) of a kernel with "
            "`backward`",
            hint="custom_call(kernel, backward=...)",
        )

    def _passed(self, param: Param, arg: Any, operands: list[Any]) -> tuple[int, int]:
        """The kind and value of a slot; arrays become operands."""
        if param.kind == "tensor" and arg is None:
            return _VALUE, 0
        if param.kind == "tensor" or hasattr(arg, "aval"):
            operands.append(arg if param.kind == "tensor" else self._number(param, arg))
            return (_ARGUMENT if param.kind == "tensor" else _NUMBER), len(operands) - 1
        value = convert_scalar(self.spec, param, arg)
        if DType(param.dtype).is_float:
            return _VALUE, int(np.float64(value).view(np.int64))
        return _VALUE, (int(value) + 2**63) % 2**64 - 2**63

    def _number(self, param: Param, arg: Any) -> Any:
        """An array of JAX for a scalar parameter."""
        if param.symbol is not None:
            raise TileTypeError(
                f"kernel {self.spec.name} input {param.name} is a size",
                expected="a number of Python",
                got=f"an array of JAX of dtype {arg.dtype}",
                hint="sizes are known when a program is traced: jax.jit(..., static_argnums=...)",
            )
        kind = DType(param.dtype)
        float_type = "float64" if kind == "float64" else "float32"
        return arg.astype(float_type if kind.is_float else str(kind))

    def _stand_in(self, param: Param, arg: Any) -> Any:
        """The shape and dtype for checks of an array that may have no values."""
        if param.kind == "tensor":
            if not hasattr(arg, "shape") or not hasattr(arg, "dtype"):
                if arg is None:
                    return None
                raise TileTypeError(
                    f"kernel {self.spec.name} input {param.name} is an array",
                    expected=f"an array of JAX of dtype {param.dtype}",
                    got=shown(arg),
                    hint="pass the arrays that it holds one by one: jax.tree.leaves(...)"
                    if isinstance(arg, (dict, list, tuple))
                    else "jax.numpy.asarray(...) makes one",
                )
            return stand_in(tuple(map(int, arg.shape)), arg.dtype)
        return 0 if hasattr(arg, "aval") else arg


def _array_dtype(jax: Any, param: Param) -> Any:
    """The dtype of a result as JAX has it."""
    dtype = numpy_result_dtype(DType(param.dtype))
    if dtype.itemsize == 8 and not jax.config.jax_enable_x64:
        raise TileUnsupportedError(
            f"the result {param.name} is of dtype {param.dtype}, which JAX leaves out",
            expected="dtypes of at most 32 bits",
            hint='jax.config.update("jax_enable_x64", True)',
        )
    return dtype


@lru_cache(maxsize=1024)
def _plan(kernel: JITKernel) -> _Plan:
    executable, target = kernel.adapter, kernel.target.concrete()
    xla = backend_of(target).xla_interface()
    messages = () if kernel.artifact is None else kernel.artifact.messages
    spec = launch_spec(kernel.prim_func, kernel.out_idx, messages=messages, device="cpu")
    program = None if xla is None else xla.program(executable, target, spec)
    if xla is None or program is None:
        raise TileUnsupportedError(
            "only compiled kernels for the CPU and for GPUs of NVIDIA are called by XLA",
            expected='target="cpu" and a C compiler, or target="cuda"',
            got=f"a kernel for {target.kind} that runs by {kernel.execution_backend!r}",
        )
    artifact = kernel.artifact
    text = f"{target} {artifact.source} {artifact.flags} {spec.outputs}"
    key = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little", signed=True)
    if not _handler(target.kind).handle.tl_xla_add(key, ctypes.addressof(program.struct)):
        raise MemoryError("the table of kernels is full")
    # Programs of XLA may call it until the process ends.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(program))
    return _Plan(spec, key, target.kind, program.alone)


def _target(kind: str, alone: bool) -> str:
    """The name under which XLA knows calls of kernels of a kind."""
    return f"{_TARGET}_{kind}{_ALONE if alone and kind != 'cpu' else ''}"


@lru_cache(maxsize=4)
def _handler(kind: str) -> Library:
    """The loaded handler of kernels for a kind of target, known to XLA."""
    jax, compiler = _jax(), find_compiler(default_cache())
    if compiler is None:
        raise TileUnsupportedError("kernels in programs of JAX need a C compiler")
    xla = BACKENDS[kind].xla_interface()
    assert xla is not None  # it has made a program
    include = Path(jax.ffi.include_dir())
    source = xla.handler() + _SOURCE.read_text(encoding="utf-8")
    header = (include / "xla" / "ffi" / "api" / "c_api.h").read_text(encoding="utf-8")

    def make() -> Entry:
        data = compiler.compile_shared(source, ("-O2", "-pthread", f"-I{include}", "-ldl"))
        return Entry(data, {"kind": "xla"})

    entry = default_cache().fetch(content_key("xla", source, header, compiler.identity), make)
    library = load_library(entry.data, entry.path)
    add = library.handle.tl_xla_add
    add.argtypes, add.restype = (ctypes.c_int64, ctypes.c_void_p), ctypes.c_int
    for platform in _PLATFORMS:
        for alone in (False, True):
            name = f"tl_xla_call{_ALONE * alone}"
            function = getattr(
                library.handle, name if platform == xla.platform else "tl_xla_elsewhere"
            )
            if not alone or kind != "cpu":
                jax.ffi.register_ffi_target(
                    _target(kind, alone), jax.ffi.pycapsule(function), platform=platform
                )
    return library


# -- derivatives -----------------------------------------------------------------------------------
def _differentiable(plan: _Plan, backward: Any, args: Sequence[Any], vmap_method: str) -> Any:
    """A call with a derivative; numbers of Python stay what they are."""
    jax = _jax()
    names = [param.name for param in plan.spec.input_params]
    traced = [at for at, arg in enumerate(args) if hasattr(arg, "aval") or hasattr(arg, "shape")]
    known = gradient_names(f"the kernel {plan.spec.name}", plan.spec)
    parameters = parameter_names(backward)
    check_backward(plan.spec.name, parameters, {*names, *plan.results, *known})

    def primal(*arrays: Any) -> Any:
        operands = list(args)
        for at, array in zip(traced, arrays):
            operands[at] = array
        return plan.run(operands, vmap_method)

    def forward(*arrays: Any) -> Any:
        results = call(*arrays)  # which has a derivative of its own
        return results, (arrays, results)

    def gradients(residuals: Any, cotangents: Any) -> Any:
        arrays, results = residuals
        values: dict[str, Any] = dict(zip(names, args))
        values.update({names[at]: array for at, array in zip(traced, arrays)})
        values.update(zip(plan.results, results if isinstance(results, tuple) else (results,)))
        seeds = cotangents if isinstance(cotangents, tuple) else (cotangents,)
        values.update({spelled: seeds[number] for spelled, number in known.items()})
        outputs = _as_function(backward, vmap_method)(*(values[name] for name in parameters))
        return _filled(plan, traced, arrays, outputs if isinstance(outputs, tuple) else (outputs,))

    call = jax.custom_vjp(primal)
    call.defvjp(forward, gradients)
    return call(*(jax.numpy.asarray(args[at]) for at in traced))


def _as_function(backward: Any, vmap_method: str) -> Callable[..., Any]:
    if isinstance(backward, (JITKernel, JITImpl)):
        return custom_call(backward, vmap_method=vmap_method)
    function: Callable[..., Any] = backward
    return function


def _filled(
    plan: _Plan, traced: Sequence[int], arrays: Sequence[Any], gradients: Sequence[Any]
) -> tuple[Any, ...]:
    """A gradient for each array: those that are given, and zeros for the others and for None.

    Raises:
        TileValueError: another number of gradients than of floating-point tensors.
    """
    jax, inputs = _jax(), plan.spec.input_params
    floats = [param.kind == "tensor" and DType(param.dtype).is_float for param in inputs]
    differentiable = [at for at in traced if floats[at]]
    check_gradients(plan.spec.name, gradients, [inputs[at].name for at in differentiable])
    gradient_of = dict(zip(differentiable, gradients))
    filled = []
    for at, array in zip(traced, arrays):
        if gradient_of.get(at) is not None:
            filled.append(gradient_of[at].astype(array.dtype))
        elif jax.numpy.issubdtype(array.dtype, jax.numpy.floating):
            filled.append(jax.numpy.zeros_like(array))
        else:
            filled.append(np.zeros(array.shape, jax.dtypes.float0))
    return tuple(filled)
