"""`Profiler`: inputs, reference checks and timing of one kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tilelang.errors import TileTypeError, TileValueError, shown
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Expr
from tilelang.profiler.bench import do_bench, measure, measure_together
from tilelang.profiler.compare import Comparison
from tilelang.profiler.options import check_function, check_options
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
    from tilelang.jit.calls import KernelParam
    from tilelang.runtime.device_array import DeviceMemory

_NO_NUMBERS = ("complex", "object", "<U", "|S")  # in names of dtypes


class Profiler:
    """Measures and checks one kernel; ``kernel.get_profiler()`` makes it.

    Raises:
        TileValueError: what is measured is not a kernel, or the supply is unknown.
    """

    def __init__(self, kernel: Any, supply_type: TensorSupplyType = TensorSupplyType.Auto) -> None:
        check_options(kernel=kernel, supply_type=supply_type)
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
        check_options(
            input_tensors=input_tensors, dynamic_symbolic_constraints=dynamic_symbolic_constraints
        )
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
        check_options(rtol=rtol, atol=atol, max_mismatched_ratio=max_mismatched_ratio)
        actual, expected = self._both_results(
            reference_program, self.inputs(input_tensors, dynamic_symbolic_constraints)
        )
        for got, want, dtype in zip(actual, expected, self._result_dtypes()):
            pair = got, want  # on the device, if they are there
            if not is_torch(got) or not is_torch(want):
                stored = dtype if _shape(got) == _shape(want) else None  # else numbers, not codes
                pair = as_float(got, dtype), as_float(want, stored)
            torch_assert_close(*pair, rtol, atol, max_mismatched_ratio)

    def _both_results(self, reference: Callable[..., Any], inputs: list[Any]) -> tuple[Any, Any]:
        """Results of the kernel and of a reference on equal inputs."""
        expected = expected_of(reference, inputs, len(self.kernel.out_idx))
        return results_of(self.kernel(*inputs), inputs), expected

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
                raises, or returns False, if they differ too much.

        Raises:
            TileTypeError: there is no ``manual_check_prog``.
            AssertionError: it raises one, or returns False.
        """
        inputs = self.inputs(input_tensors, dynamic_symbolic_constraints)
        compare_by(manual_check_prog, *self._both_results(reference_program, inputs))

    def assert_consistent(
        self, repeat: int = 10, dynamic_symbolic_constraints: Mapping[str, int] | None = None
    ) -> None:
        """Check that repeated calls give bit-identical results.

        Raises:
            AssertionError: two calls differ.
        """
        check_options(repeat=repeat)
        inputs = self.inputs(None, dynamic_symbolic_constraints)
        first = self._once(inputs)
        for _ in range(repeat):
            for a, b in zip(first, self._once(inputs)):
                if as_float(a).tobytes() != as_float(b).tobytes():
                    raise AssertionError("two calls with the same inputs differ")

    def _once(self, inputs: Sequence[Any]) -> list[Any]:
        """The results of a call with copies of inputs."""
        copies = list(map(copied, inputs))
        return results_of(self.kernel(*copies), copies)

    @property
    def func(self) -> Any:
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
        return self._call(func, self.inputs(None, dynamic_symbolic_constraints))()

    def _call(
        self, func: Callable[..., Any] | None, inputs: Sequence[Any], name: str = "func"
    ) -> Callable[[], Any]:
        """A call of a function, or of the kernel, with inputs."""
        function = self.kernel if func is None else func
        check_function(function, len(inputs), f"{name} is called with the inputs of the kernel")
        return lambda: function(*inputs)

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
        call = self._call(func, self.inputs(input_tensors, dynamic_symbolic_constraints))
        return do_bench(
            call, warmup, rep, n_warmup, n_repeat, quantiles, backend=backend,
            return_mode=return_mode,
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
                called "reference". The kernel's own name is followed by "(this kernel)" where
                another one has it, too.
            warmup, rep: milliseconds to spend before and while measuring each.
            input_tensors, backend, dynamic_symbolic_constraints: as for :meth:`do_bench`.
        """
        inputs = self.inputs(input_tensors, dynamic_symbolic_constraints)
        named = others if isinstance(others, Mapping) else {"reference": others}
        own = self.kernel.prim_func.name
        own = f"{own} (this kernel)" if own in named else own
        calls = {own: self._call(None, inputs)}
        calls |= {name: self._call(other, inputs, name) for name, other in named.items()}
        timings = measure_together(calls, warmup, rep, backend)
        work = self.work(dynamic_symbolic_constraints)
        return Comparison(timings, work, known_roof(self.kernel.target))


def _symbols(params: Sequence[KernelParam]) -> dict[str, None]:
    """Names of scalar parameters and of the symbols in shapes."""
    names = {param.name: None for param in params if param.is_scalar()}
    extents = (extent for param in params for extent in param.shape if isinstance(extent, Expr))
    return names | {var.name: None for extent in extents for var in extent.variables}


def results_of(returned: Any, inputs: list[Any]) -> list[Any]:
    """The results of a call: what it returned, or its arguments where it wrote into them."""
    if returned is None:
        return inputs
    return list(returned) if isinstance(returned, (list, tuple)) else [returned]


def expected_of(reference: Callable[..., Any], inputs: Sequence[Any], results: int) -> list[Any]:
    """The results of a reference for copies of the inputs of a kernel.

    Raises:
        TileTypeError: it cannot be called with them, or returns something without numbers.
        TileValueError: it gives another number of results.
    """
    check_function(reference, len(inputs), "a reference is called with the inputs of the kernel")
    copies = list(map(copied, inputs))
    returned = reference(*copies)
    expected = [] if returned is None and results else results_of(returned, copies)
    for value in expected:
        kind = str(getattr(value, "dtype", ""))
        if (not kind and not isinstance(value, Real)) or any(word in kind for word in _NO_NUMBERS):
            raise TileTypeError(
                "the reference gives no numbers",
                expected="tensors of real numbers, in a list if there are several",
                got=shown(value),
            )
    if len(expected) != (results or len(inputs)):
        why = "" if results else ", all arguments of a kernel without out_idx"
        raise TileValueError(
            "the reference gives another number of results than the kernel",
            expected=f"{results or len(inputs)}{why}",
            got=f"{len(expected)}",
        )
    return expected


def compare_by(check: Any, results: list[Any], expected: list[Any]) -> None:
    """Compare results by a function of the program.

    Raises:
        AssertionError: it returns False, or raises this itself.
        TileTypeError: it is not a function of two lists.
    """
    check_function(check, 2, "manual_check_prog takes two lists, of results and expected ones")
    verdict = check(results, expected)
    if isinstance(verdict, (bool, np.bool_)) and not verdict:
        raise AssertionError("manual_check_prog returns False")


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(getattr(tensor, "shape", ()))
