"""`Profiler`: inputs, reference checks and timing of one kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from tilelang.errors import TileTypeError, TileValueError, shown
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Expr
from tilelang.profiler.bench import do_bench, measure, measure_together
from tilelang.profiler.compare import Comparison
from tilelang.profiler.roof import known_roof
from tilelang.profiler.timing import Timing
from tilelang.profiler.work import Work, work_of
from tilelang.runtime.tensors import is_torch
from tilelang.utils.tensor import (
    TensorSupplyType,
    as_float,
    copied,
    get_tensor_supply,
    torch_assert_close,
)

if TYPE_CHECKING:
    from tilelang.ir.stmt import PrimFunc
    from tilelang.jit.calls import KernelParam
    from tilelang.runtime.device_array import DeviceMemory
    from tilelang.target import Target


class Measurable(Protocol):
    """The interface of a kernel to its profiler."""

    prim_func: PrimFunc
    params: list[KernelParam]
    out_idx: list[int]
    target: Target

    @property
    def adapter(self) -> Any:
        """Its launcher, which knows the device."""

    def __call__(self, *args: Any) -> Any:
        """One call."""

    def get_profiler(self) -> Profiler:
        """A profiler of it."""


class Profiler:
    """Measures and checks one kernel; ``kernel.get_profiler()`` makes it.

    Raises:
        TileTypeError: what is measured is not a kernel.
    """

    def __init__(
        self, kernel: Measurable, supply_type: TensorSupplyType = TensorSupplyType.Auto
    ) -> None:
        if not hasattr(kernel, "adapter"):
            raise TileTypeError(
                "a profiler measures a kernel",
                expected="what tilelang.compile gives",
                got=shown(kernel),
                hint="kernel.get_profiler() makes one",
            )
        self.kernel = kernel
        self.supply_type = supply_type
        self.device: str | DeviceMemory | None = kernel.adapter.device

    def inputs(
        self,
        input_tensors: Sequence[Any] | None = None,
        dynamic_symbolic_constraints: Mapping[str, int] | None = None,
    ) -> list[Any]:
        """Return the given inputs, or generated ones for every parameter that a call passes.

        Args:
            input_tensors: inputs, when they are not to be generated.
            dynamic_symbolic_constraints: values of the symbols in shapes and of scalar parameters,
                by name.

        Raises:
            TileValueError: a symbol of a shape without a value, or a value for no symbol.
        """
        if input_tensors is not None:
            return list(input_tensors)
        values = dict(dynamic_symbolic_constraints or {})
        known = _symbols(self.kernel.params)
        for name in values:
            if name not in known:
                raise TileValueError(
                    f"the kernel {self.kernel.prim_func.name} has no symbol {name!r}",
                    expected=", ".join(known) or "no dynamic_symbolic_constraints",
                    got=name,
                )
        supply = get_tensor_supply(self.supply_type, device=self.device, symbols=values)
        results = set(self.kernel.out_idx)
        return [supply(p) for i, p in enumerate(self.kernel.params) if i not in results]

    def _results(self, func: Callable[..., Any], inputs: list[Any]) -> list[Any]:
        result = func(*inputs)
        if result is None:
            return inputs  # it wrote into its arguments
        return list(result) if isinstance(result, (list, tuple)) else [result]

    def _result_dtypes(self) -> list[DType]:
        """Dtypes of what :meth:`_results` gives for the kernel."""
        params, results = self.kernel.params, self.kernel.out_idx
        return [params[i].dtype for i in results] if results else [p.dtype for p in params]

    def assert_allclose(
        self, reference_program: Callable[..., Any], input_tensors: Sequence[Any] | None = None,
        atol: float = 1e-2, rtol: float = 1e-2, max_mismatched_ratio: float = 0.01,
        dynamic_symbolic_constraints: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        """Check each result against ``reference_program`` on the same inputs.

        A kernel without results is checked by what it leaves in its arguments. Where numpy has no
        such type (bfloat16, 8-bit and 4-bit), inputs are arrays of codes; the reference may give
        codes or numbers.

        Args:
            reference_program: a function of the inputs that returns the expected results.
            input_tensors, dynamic_symbolic_constraints: as for :meth:`inputs`.
            atol, rtol: an element may differ by ``atol + rtol * |expected|``.
            max_mismatched_ratio: the share of elements that may differ more.

        Raises:
            AssertionError: too many elements differ.
        """
        actual, expected = self._both_results(
            reference_program, self.inputs(input_tensors, dynamic_symbolic_constraints)
        )
        if len(actual) != len(expected):
            raise AssertionError(f"{len(actual)} results, the reference gives {len(expected)}")
        for got, want, dtype in zip(actual, expected, self._result_dtypes()):
            if is_torch(got) and is_torch(want):  # on the device, if they are there
                torch_assert_close(got, want, rtol, atol, max_mismatched_ratio)
                continue
            stored = dtype if _shape(got) == _shape(want) else None  # else numbers, not codes
            torch_assert_close(
                as_float(got, dtype), as_float(want, stored), rtol=rtol, atol=atol,
                max_mismatched_ratio=max_mismatched_ratio,
            )  # fmt: skip

    def _both_results(self, reference: Callable[..., Any], inputs: list[Any]) -> tuple[Any, Any]:
        """Results of the kernel and of a reference on equal inputs."""
        expected = self._results(reference, [copied(array) for array in inputs])
        return self._results(self.kernel, inputs), expected

    def manual_assert_close(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        manual_check_prog: Callable[[list[Any], list[Any]], object] | None = None,
        dynamic_symbolic_constraints: Mapping[str, int] | None = None,
    ) -> None:
        """Let ``manual_check_prog(results, expected)`` compare with ``reference_program``.

        Args:
            reference_program: a function of the inputs that returns the expected results.
            input_tensors, dynamic_symbolic_constraints: as for :meth:`inputs`.
            manual_check_prog: gets the results of the kernel and of the reference as lists, and
                raises if they differ too much.

        Raises:
            TileTypeError: there is no ``manual_check_prog``.
        """
        if manual_check_prog is None:
            raise TileTypeError(
                "manual_assert_close has nothing to compare with",
                expected="manual_check_prog, a function of two lists of results",
                hint="assert_allclose compares by itself",
            )
        inputs = self.inputs(input_tensors, dynamic_symbolic_constraints)
        manual_check_prog(*self._both_results(reference_program, inputs))

    def assert_consistent(
        self, repeat: int = 10, dynamic_symbolic_constraints: Mapping[str, int] | None = None
    ) -> None:
        """Check that repeated calls give bit-identical results.

        Raises:
            AssertionError: two calls differ.
        """
        inputs = self.inputs(None, dynamic_symbolic_constraints)
        first = self._results(self.kernel, [copied(array) for array in inputs])
        for _ in range(repeat):
            second = self._results(self.kernel, [copied(array) for array in inputs])
            for a, b in zip(first, second):
                if as_float(a).tobytes() != as_float(b).tobytes():
                    raise AssertionError("two calls with the same inputs differ")

    @property
    def func(self) -> Callable[..., Any]:
        """The kernel."""
        return self.kernel

    def __call__(self, *args: Any) -> Any:
        """One call of the kernel."""
        return self.kernel(*args)

    def run_once(
        self,
        func: Callable[..., Any] | None = None,
        dynamic_symbolic_constraints: Mapping[str, int] | None = None,
    ) -> Any:
        """Call the kernel once with generated inputs."""
        return (func or self.kernel)(*self.inputs(None, dynamic_symbolic_constraints))

    def do_bench(
        self, func: Callable[..., Any] | None = None, warmup: float = 25, rep: float = 100,
        n_warmup: int = 0, n_repeat: int = 0, input_tensors: Sequence[Any] | None = None,
        backend: str = "event", quantiles: Sequence[float] | None = None, return_mode: str = "auto",
        dynamic_symbolic_constraints: Mapping[str, int] | None = None,
    ) -> Any:  # fmt: skip
        """Measure the kernel, or ``func`` on the same inputs, in milliseconds per call.

        Args:
            func: called with the inputs instead of the kernel.
            input_tensors, dynamic_symbolic_constraints: as for :meth:`inputs`.
            warmup, rep, quantiles, backend, return_mode: as for :func:`tilelang.profiler.do_bench`.
            n_warmup, n_repeat: numbers of calls and of readings instead of times.
        """
        inputs = self.inputs(input_tensors, dynamic_symbolic_constraints)
        target = func or self.kernel
        return do_bench(
            lambda: target(*inputs), warmup, rep, n_warmup, n_repeat, quantiles,
            backend=backend, return_mode=return_mode,
        )  # fmt: skip

    def measure(
        self, warmup: float = 25, rep: float = 100, input_tensors: Sequence[Any] | None = None,
        backend: str = "event", dynamic_symbolic_constraints: Mapping[str, int] | None = None,
    ) -> Timing:  # fmt: skip
        """Measure how long a call takes, with all readings.

        Args:
            warmup, rep: milliseconds to spend before and while measuring.
            input_tensors, dynamic_symbolic_constraints: as for :meth:`inputs`.
            backend: as for :func:`tilelang.profiler.do_bench`.
        """
        inputs = self.inputs(input_tensors, dynamic_symbolic_constraints)
        return measure(lambda: self.kernel(*inputs), warmup, rep, backend=backend)

    def work(self, dynamic_symbolic_constraints: Mapping[str, int] | None = None) -> Work:
        """Count the operations and bytes of one call in the program."""
        return work_of(self.kernel.prim_func, dynamic_symbolic_constraints)

    def compare(
        self, others: Mapping[str, Callable[..., Any]] | Callable[..., Any] = MappingProxyType({}),
        warmup: float = 25, rep: float = 100, input_tensors: Sequence[Any] | None = None,
        backend: str = "event", dynamic_symbolic_constraints: Mapping[str, int] | None = None,
    ) -> Comparison:  # fmt: skip
        """Compare the kernel with other functions of the same inputs, measured alternately.

        Args:
            others: name -> function (a library's, another kernel), or one function, which is
                called "reference".
            warmup, rep: milliseconds to spend before and while measuring each.
            input_tensors, backend, dynamic_symbolic_constraints: as for :meth:`do_bench`.
        """
        inputs = self.inputs(input_tensors, dynamic_symbolic_constraints)
        named = others if isinstance(others, Mapping) else {"reference": others}

        def call(function: Callable[..., Any]) -> Callable[[], Any]:
            return lambda: function(*inputs)

        calls = {self.kernel.prim_func.name: call(self.kernel)}
        calls |= {name: call(function) for name, function in named.items()}
        timings = measure_together(calls, warmup, rep, backend)
        work = self.work(dynamic_symbolic_constraints)
        return Comparison(timings, work, known_roof(self.kernel.target))


def _symbols(params: Sequence[KernelParam]) -> dict[str, None]:
    """Names of scalar parameters and of the symbols in shapes."""
    names: dict[str, None] = {}
    for param in params:
        if param.is_scalar():
            names.setdefault(param.name)
        for extent in param.shape:
            if isinstance(extent, Expr):
                names.update(dict.fromkeys(var.name for var in extent.variables))
    return names


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(getattr(tensor, "shape", ()))
