"""Kernels as operators of PyTorch: for `torch.compile`, `torch.export`, autograd and `vmap`.

    op = tilelang.torch.custom_op("mylib::scale", kernel)

PyTorch looks into no kernel. An operator tells it what it needs instead: which tensors are written,
what the results look like, how a derivative is computed, and how a batch is. All but the derivative
follow from the program. torch is imported by the first call.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from tilelang.errors import TileTypeError, TileUnsupportedError, TileValueError, shown
from tilelang.frontend.annot import Annot
from tilelang.frontend.entry import Tensor
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.postfix import fold
from tilelang.jit.calls import check_backward, check_gradients, gradient_names
from tilelang.jit.core import JITImpl, parameter_names, require_kernel
from tilelang.jit.kernel import JITKernel
from tilelang.runtime.autograd import AGAIN, NEVER, has_tangent, look
from tilelang.runtime.dims import DimExpr, solvable_in, solve, symbols_in
from tilelang.runtime.launch_spec import launch_spec
from tilelang.runtime.signature import LaunchSpec, Param
from tilelang.runtime.tensors import storage_shape
from tilelang.tracebacks import border

__all__ = ["custom_op"]

_WAY = "a kernel that returns its results may have a backward"
_CONSTANTS = {bool: "bool", int: "int", float: "float", str: "str"}


@border
def custom_op(
    name: str, kernel: JITKernel | JITImpl, *, like: Sequence[Any] | None = None,
    backward: Any = None, autocast: Any = None,
) -> Any:  # fmt: skip
    """Create a PyTorch operator that runs a kernel: a ``torch.library.CustomOpDef``.

    Tensors that the program writes are mutable arguments; results have the shapes and dtypes that
    the program declares. ``vmap`` runs the kernel for one item of the batch after the other.

    Args:
        name: ``"namespace::name"``, under which ``torch.ops`` has it.
        kernel: a compiled kernel, or a decorated function that is itself the kernel.
        like: for a function: arguments of one call, tensors or ``T.Tensor((m, n), dtype)``, which
            tell how many results there are and which tensors are written.
        backward: a kernel, a decorated function, an operator, or a function of torch tensors,
            that returns the gradients of the floating-point inputs, in order. Its parameters are
            matched by name: inputs and results have their names in the program, and the gradient of
            ``C`` is ``grad_C`` or ``dC``. The gradient of a single result may be ``grad``.
        autocast: the dtype to which floating-point tensors are converted under ``torch.autocast``
            on the device of the kernel.

    Raises:
        TileValueError: a name without a namespace.
        TileTypeError: a factory, a parameter that no operator can have, or one of ``backward``
            that is none of those above.
        TileUnsupportedError: torch is missing or older than 2.4, or a ``backward`` for a kernel
            that writes into its inputs.
    """
    torch = _torch()
    if name.count("::") != 1:
        raise TileValueError(
            "the name of an operator has no namespace",
            expected="namespace::name, under which torch.ops has it",
            got=name,
            hint=f'custom_op("mine::{name}", ...)',
        )
    plan = _plan_of(kernel, like)
    count = len(plan.spec.outputs)
    returns = "Tensor" if count == 1 else f"({', '.join(['Tensor'] * count)})"
    schema = f"({', '.join(plan.schema)}) -> {returns}"

    @border
    def run(*args: Any) -> Any:
        results = kernel(*args)
        return tuple(results) if isinstance(results, list) else results

    op = torch.library.custom_op(name, run, mutates_args=tuple(plan.written), schema=schema)
    op.register_fake(plan.fake)
    op.register_vmap(_Batches(op, plan))
    if autocast is not None:
        op.register_autocast(plan.spec.device, autocast)
    gradients = None if backward is None else _Gradients(name, plan, backward)
    _differentiate_at_each_level(op, plan, gradients)
    return op


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        torch = None  # type: ignore[assignment]  # optional
    if torch is None or not hasattr(torch.library, "custom_op"):
        raise TileUnsupportedError(
            "operators of PyTorch need torch 2.4 or later",
            got="none" if torch is None else str(torch.__version__),
            hint="pip install torch",
        )
    return torch


# -- what an operator looks like -------------------------------------------------------------------
class _Plan:
    """The arguments and results of an operator.

    Attributes:
        names: of the arguments, in order.
        schema: their declarations.
        written: names of those that the program writes.
        spec: the launch contract; of a function that of ``like``.
        values: of ``like`` by name.
    """

    spec: LaunchSpec
    values: Mapping[str, Any] = {}

    def __init__(self, names: Sequence[str], kinds: Mapping[str, str]) -> None:
        self.names = list(names)
        self.written = self.spec.written
        self.schema = [self._declared(name, kinds[name], at) for at, name in enumerate(names)]
        self.tensors = [name for name in names if kinds[name] == "Tensor"]

    def _declared(self, name: str, kind: str, at: int) -> str:
        schema_type, _, default = kind.partition("=")
        schema_type = f"Tensor(a{at}!)" if name in self.written else schema_type
        return f"{schema_type} {name}" + (f"={default}" if default else "")

    def spec_of(self, values: Mapping[str, Any]) -> LaunchSpec:
        """The contract of the kernel that a call with these arguments runs."""
        return self.spec

    def shapes(self, values: Mapping[str, Any]) -> list[tuple[Any, ...]]:
        """The shapes of the results, which may be symbolic."""
        spec = self.spec_of(values)
        symbols = _solved(spec, values)
        return [
            storage_shape(tuple(_extent(dim, symbols) for dim in p.shape), DType(p.dtype))
            for p in spec.output_params
        ]

    def fake(self, *args: Any) -> Any:
        """The results of a call without their values."""
        torch = _torch()
        values = dict(zip(self.names, args))
        device = next((values[name].device for name in self.tensors), self.spec.device)
        results = tuple(
            torch.empty(shape, dtype=DType(param.dtype).as_torch(), device=device)
            for param, shape in zip(self.spec.output_params, self.shapes(values))
        )
        return None if not results else results[0] if len(results) == 1 else results


def _plan_of(kernel: object, like: Sequence[Any] | None) -> _Plan:
    kernel = require_kernel(kernel, "an operator", "custom_op(name, factory(...))")
    if isinstance(kernel, JITKernel):
        return _KernelPlan(kernel)
    if like is None:
        raise TileTypeError(
            f"custom_op of the function `{kernel.__name__}` needs arguments of one call",
            expected="like=(...), tensors or T.Tensor((m, n), dtype) and values",
            hint="they determine the results and which tensors are written",
        )
    return _FunctionPlan(kernel, like)


class _KernelPlan(_Plan):
    """A compiled kernel: one contract, whose symbols are sizes of the inputs."""

    def __init__(self, kernel: JITKernel) -> None:
        self.spec = launch_spec(kernel.prim_func, kernel.out_idx, device=kernel.target.kind)
        inputs = self.spec.input_params
        super().__init__([param.name for param in inputs], {p.name: _kind(p) for p in inputs})


class _FunctionPlan(_Plan):
    """A decorated function: a contract for each set of constants, those of shapes among them."""

    def __init__(self, function: JITImpl, like: Sequence[Any]) -> None:
        self.function = function
        self._specs: dict[Any, LaunchSpec] = {}
        self._open: dict[str, list[int | None]] = {}
        bound = function.signature.bind(*like)
        bound.apply_defaults()
        self.values = bound.arguments
        self.spec = self.spec_of(self.values)
        self._open = {
            p.name: [
                None if isinstance(dim, int) else extent
                for dim, extent in zip(p.shape, _sized(self.values[p.name]).shape)
            ]
            for p in self.spec.params
            if p.kind == "tensor" and p.name in self.values
        }
        kinds: dict[str, str] = {p.name: _kind(p) for p in self.spec.params}
        for name, parameter in function.signature.parameters.items():
            schema_type = _CONSTANTS.get(type(self.values[name]))
            if name not in kinds and schema_type is None:
                raise TileTypeError(
                    f"the argument {name} of `{function.__name__}` cannot be one of an operator",
                    expected="a tensor, a number, a bool or a str",
                    got=shown(self.values[name]),
                )
            if parameter.default is not parameter.empty:
                quote = '"' if isinstance(parameter.default, str) else ""
                kinds[name] = f"{kinds.get(name, schema_type)}={quote}{parameter.default}{quote}"
            kinds.setdefault(name, str(schema_type))
        super().__init__(list(function.signature.parameters), kinds)

    def spec_of(self, values: Mapping[str, Any]) -> LaunchSpec:
        plain = {name: _placeholder(v, self._open.get(name)) for name, v in values.items()}
        key = tuple(
            (tuple(plain[name].shape), str(v.dtype)) if plain[name] is not v else (type(v), v)
            for name, v in values.items()
        )
        spec = self._specs.get(key)
        if spec is None:
            spec = self._specs[key] = launch_spec(self.function.get_tir(**plain))
        return spec


def _placeholder(value: Any, known: Sequence[int | None] | None) -> Any:
    """A tensor as its shape and dtype, its open sizes as they are ``known``, so that a symbolic one
    is not made a number; an annotation stays itself."""
    if isinstance(value, Annot) or not hasattr(value, "shape"):
        return value
    sizes = zip(value.shape, known or [None] * len(value.shape))
    shape = tuple(int(size) if other is None else other for size, other in sizes)
    return Tensor(shape, str(DType(value.dtype)))


def _kind(param: Param) -> str:
    """The type of an argument in a schema."""
    if param.kind == "tensor":
        return "Tensor"
    if param.kind == "pointer":
        raise TileTypeError(
            f"the pointer {param.name} cannot be an argument of an operator",
            expected="tensors and numbers",
            hint="declare it as T.Tensor(shape, dtype)",
        )
    kind = DType(param.dtype)
    return "float" if kind.is_float else "bool" if kind.is_bool else "SymInt"


# -- sizes, which may be symbolic ------------------------------------------------------------------
def _solved(spec: LaunchSpec, values: Mapping[str, Any]) -> list[Any]:
    """The values of the symbols; sizes that do not fit are an error of torch, also of guards."""
    check = _torch()._check
    symbols: list[Any] = [None] * len(spec.symbols)
    later: list[tuple[DimExpr, Any]] = []
    for param in spec.input_params:
        value = values[param.name]
        if param.kind != "tensor":
            if param.symbol is not None:
                symbols[param.symbol] = value
            continue
        check(
            len(value.shape) == param.ndim,
            lambda p=param: f"{p.name} must have {p.ndim} dimensions",
        )
        for number, dim in enumerate(param.shape):
            packed = param.packing if number == param.ndim - 1 else 1
            later.append((dim, value.shape[number] * packed))
    count = -1
    while later and len(later) != count:
        waiting, later, count = later, [], len(later)
        for dim, actual in waiting:
            unknown = [symbol for symbol in symbols_in(dim) if symbols[symbol] is None]
            if not unknown:
                size = _extent(dim, symbols)
                check(size == actual, lambda w=size, a=actual: f"expected extent {w}, got {a}")
            elif isinstance(dim, tuple) and len(dim) == 1:
                symbols[unknown[0]] = actual
            elif len(unknown) == 1 and unknown[0] in solvable_in(dim):
                plain = [None if s is None else int(s) for s in symbols]
                symbols[unknown[0]] = solve(dim, unknown[0], int(actual), plain)
            else:
                later.append((dim, actual))
    return symbols


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
    "floordiv": lambda x, y: x // y, "floormod": lambda x, y: x % y,
    "min": min, "max": max,
}  # fmt: skip


def _extent(dim: DimExpr, symbols: Sequence[Any]) -> Any:
    """An extent over symbols that torch may trace."""

    def of(name: str, operands: list[Any]) -> Any:
        if name not in _ARITHMETIC:
            raise TileUnsupportedError(
                f"an operator with a result whose extent uses `{name}`",
                expected=", ".join(_ARITHMETIC),
            )
        return _ARITHMETIC[name](*operands)

    return fold(dim, int, symbols.__getitem__, of)


# -- batches ---------------------------------------------------------------------------------------
class _Batches:
    """The rule of ``vmap``: one call after the other."""

    def __init__(self, op: Any, plan: _Plan) -> None:
        self.op, self.plan = op, plan

    def __call__(self, info: Any, in_dims: Sequence[int | None], *args: Any) -> Any:
        torch = _torch()
        plan = self.plan
        for name, dim in zip(plan.names, in_dims):
            if name in plan.written and dim is None:
                raise TileValueError(
                    f"vmap over an operator that writes {name}, which has no batch dimension",
                    expected=f"{name} with a dimension for the batch",
                )
        by_result: list[list[Any]] = [[] for _ in plan.spec.outputs]
        for number in range(info.batch_size):
            for results, result in zip(by_result, self._apply_one(number, in_dims, args)):
                results.append(result)
        if info.batch_size:
            stacked = tuple(torch.stack(results) for results in by_result)
        else:
            stacked = self._nothing(in_dims, args)
        if not stacked:
            return None, None
        return (stacked[0], 0) if len(stacked) == 1 else (stacked, (0,) * len(stacked))

    def _apply_one(
        self, number: int, in_dims: Sequence[int | None], args: Sequence[Any]
    ) -> tuple[Any, ...]:
        """The results of item ``number``."""
        slices = [x if d is None else x.select(d, number) for x, d in zip(args, in_dims)]
        passed = [x.contiguous() if hasattr(x, "contiguous") else x for x in slices]
        results = self.op(*passed)
        for name, part, source in zip(self.plan.names, slices, passed):
            if name in self.plan.written and part is not source:
                part.copy_(source)
        if isinstance(results, (tuple, list)):
            return tuple(results)
        return () if results is None else (results,)

    def _nothing(self, in_dims: Sequence[int | None], args: Sequence[Any]) -> tuple[Any, ...]:
        """The results for a batch without items."""
        samples = [
            x if d is None else x.new_empty(x.movedim(d, 0).shape[1:])
            for x, d in zip(args, in_dims)
        ]
        like = next(x for x, d in zip(args, in_dims) if d is not None)
        shapes = self.plan.shapes(dict(zip(self.plan.names, samples)))
        return tuple(
            like.new_empty((0, *shape), dtype=DType(param.dtype).as_torch())
            for param, shape in zip(self.plan.spec.output_params, shapes)
        )


# -- derivatives -----------------------------------------------------------------------------------
class _Gradients:
    """The derivative of an operator."""

    def __init__(self, name: str, plan: _Plan, backward: Any) -> None:
        self.plan, self.name = plan, name
        self.results = [param.name for param in plan.spec.output_params]
        self.names = _parameters(backward)
        self.gradients = gradient_names(f"the operator {name}", plan.spec)
        check_backward(name, self.names, {*plan.names, *self.results, *self.gradients})
        self.differentiable = [
            param.name
            for param in plan.spec.input_params
            if param.kind == "tensor" and DType(param.dtype).is_float
        ]
        self.work = self._as_operator(name, backward)

    def _as_operator(self, name: str, backward: Any) -> Any:
        """Kernels become operators, too, so that they are not looked into either."""
        if isinstance(backward, JITKernel):
            return custom_op(f"{name}_backward", backward)
        if isinstance(backward, JITImpl):
            # Open sizes of a function's tensors are those of the call that it was given as `like`.
            spec = self.plan.spec
            sizes = {name: _sized(value) for name, value in self.plan.values.items()}
            symbols = _solved(spec, sizes) if sizes else [None] * len(spec.symbols)
            tensors: dict[str, Any] = {
                param.name: Tensor(tuple(_extent(dim, symbols) for dim in param.shape), param.dtype)
                for param in spec.params
                if param.kind == "tensor"
                and (sizes or all(isinstance(n, int) for n in param.shape))
            }
            for spelled, number in self.gradients.items():
                if self.results[number] in tensors:
                    tensors[spelled] = tensors[self.results[number]]
            values = {**self.plan.values, **tensors}
            for parameter in self.names:
                if parameter not in values:
                    raise TileTypeError(
                        f"the shape of {parameter}, which the backward of {name} takes, is open",
                        expected="a compiled kernel or an operator as backward",
                        hint="custom_op(name, function, like=...) makes an operator",
                    )
            return custom_op(f"{name}_backward", backward, like=[values[n] for n in self.names])
        return backward

    def keep(self, ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        """Save what the backward names."""
        results = output if isinstance(output, (tuple, list)) else (output,)
        values = {**dict(zip(self.plan.names, inputs)), **dict(zip(self.results, results))}
        used = [name for name in self.names if name in values]
        ctx.tensors = [n for n in used if n in self.plan.tensors or n in self.results]
        ctx.save_for_backward(*(values[name] for name in ctx.tensors))
        ctx.numbers = {name: values[name] for name in used if name not in ctx.tensors}

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        """The gradient of each argument."""
        values = {**dict(zip(ctx.tensors, ctx.saved_tensors)), **ctx.numbers}
        for spelled, number in self.gradients.items():
            if spelled in self.names:
                values[spelled] = gradients[number].contiguous()  # of a sum() it has no strides
        outputs = self.work(*(values[name] for name in self.names))
        results = tuple(outputs) if isinstance(outputs, (tuple, list)) else (outputs,)
        check_gradients(self.name, results, self.differentiable)
        by_name = dict(zip(self.differentiable, results))
        return tuple(by_name.get(name) for name in self.plan.names)


def _sized(value: Any) -> Any:
    """A tensor or an annotation with the numbers of its shape; a number stays itself."""
    if not hasattr(value, "shape"):
        return value
    return SimpleNamespace(shape=[getattr(extent, "value", extent) for extent in value.shape])


def _parameters(backward: Any) -> list[str]:
    """The names under which a backward takes its arguments."""
    schema = getattr(getattr(backward, "_opoverload", None), "_schema", None)
    if schema is not None:
        return [argument.name for argument in schema.arguments]
    return parameter_names(backward)


def _differentiate_at_each_level(op: Any, plan: _Plan, gradients: _Gradients | None) -> None:
    """Let autograd and ``torch.func`` record calls of ``op``, which need a derivative by then. What
    an operator writes is not recorded, which is said as of a kernel.

    The function that ``register_autograd`` makes is refused by ``torch.func``. Each level of it
    comes to the operator's autograd kernel with tensors of its own, so that a function of a single
    level is what is wanted. What it calls below goes to the next level, which records as well,
    although functions compute without recording; below the last one nothing does.
    """
    import warnings

    import torch
    from torch._functorch.utils import enable_single_level_autograd_function
    from torch.autograd.forward_ad import _set_fwd_grad_enabled
    from torch.autograd.function import _SingleLevelFunction

    if gradients is not None:
        op.register_autograd(gradients.backward, setup_context=gradients.keep)
    if "allow_override" not in inspect.signature(torch.library.Library.impl).parameters:
        return  # torch before 2.7
    overload, core = op._opoverload, torch._C
    defaults = [argument.default_value for argument in overload._schema.arguments]
    mode = AGAIN

    def below(keys: Any, args: Sequence[Any]) -> Any:
        with core._AutoDispatchBelowAutograd():
            return overload.redispatch(keys & core._after_autograd_keyset, *args)

    class Level(_SingleLevelFunction):  # type: ignore[misc,unused-ignore]  # torch's is untyped
        @staticmethod
        def forward(ctx: Any, keys: Any, *args: Any) -> Any:
            more = core._functorch.peek_interpreter_stack() is not None
            with torch.set_grad_enabled(more), _set_fwd_grad_enabled(more):
                results = below(keys, args)
            if gradients is not None:
                gradients.keep(ctx, args, results)
            return results

        @staticmethod
        def backward(ctx: Any, *cotangents: Any) -> Any:
            if gradients is None:
                raise TileUnsupportedError(
                    f"the operator {overload} has no derivative",
                    hint="tilelang.torch.custom_op(name, kernel, backward=...)",
                )
            return None, *gradients.backward(ctx, *cotangents)

    @border
    def autograd(keys: Any, *args: Any) -> Any:
        nonlocal mode
        if any(isinstance(arg, torch.Tensor) and has_tangent(arg) for arg in args):
            raise TileUnsupportedError(
                f"a derivative of the operator {overload} in forward mode (jvp, jacfwd, hessian)",
                expected="reverse mode: backward(), or grad, vjp and jacrev of torch.func",
                hint="for second derivatives jacrev(jacrev(f))",
            )
        if not (torch.is_grad_enabled() and core._any_requires_grad(*args)):
            return below(keys, args)
        if plan.written and mode != NEVER:
            mode = look(plan.spec.name, plan.names, args, _WAY)
        with enable_single_level_autograd_function():
            record: Any = Level  # `apply` has no type
            return record.apply(keys, *args, *defaults[len(args) :])

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the kernel takes the place of another
        op._lib.impl(overload, autograd, "Autograd", with_keyset=True, allow_override=True)
