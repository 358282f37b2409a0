"""`JITKernel`: one compiled function. Call it, print the generated code, time it, export it."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any

from tilelang import errors
from tilelang.backends import texts_of
from tilelang.ir.buffer import Buffer
from tilelang.ir.stmt import PrimFunc
from tilelang.jit.calls import KernelParam, in_order, signature_of
from tilelang.jit.execution import build
from tilelang.notebook import Lines, preformatted
from tilelang.options import Options
from tilelang.runtime.autograd import hide_from_compilers, not_traced
from tilelang.runtime.executable import Executable
from tilelang.target import Target, parse_target
from tilelang.tracebacks import trim
from tilelang.watch import is_profiled

if TYPE_CHECKING:
    from tilelang.profiler import Profiler


def normalize_out_idx(func: PrimFunc, out_idx: object) -> tuple[int, ...]:
    """Positions of the results among the parameters, from ``out_idx`` or ``T.empty``.

    ``out_idx`` counts all parameters, scalars too, negative from the end.

    Raises:
        TileValueError: not an int or list of ints, out of range, a scalar, repeated, or given
            together with results made by ``T.empty``.
    """
    if out_idx is None:
        return func.outputs
    indices = out_idx if isinstance(out_idx, (list, tuple)) else [out_idx]
    if not all(isinstance(i, Integral) and not isinstance(i, bool) for i in indices):
        raise errors.TileValueError(
            "out_idx has the wrong type",
            expected="an int or a list of ints",
            got=errors.shown(out_idx),
        )
    count = len(func.params)
    result: list[int] = []
    for index in map(int, indices):
        if not -count <= index < count:
            raise errors.TileValueError(
                f"out_idx {index} names no parameter of `{func.name}`",
                expected=f"an index of its {count} parameters",
                got=str(index),
            )
        param = func.params[index]
        if not isinstance(param, Buffer):
            raise errors.TileValueError(
                f"out_idx {index} names `{param.name}` of `{func.name}`, which is passed by value",
                expected="the index of a tensor; parameters of every kind are counted",
                got=str(index),
            )
        result.append(index % count)
    if len(set(result)) != len(result):
        raise errors.TileValueError("out_idx names a parameter twice", got=errors.shown(out_idx))
    if func.outputs and tuple(result) != func.outputs:
        raise errors.TileValueError(
            "Out index conflict: the function returns tensors made by T.empty and out_idx is given",
            expected="one of the two",
            got=f"out_idx={errors.shown(out_idx)}",
            hint="drop out_idx, or make the results parameters",
        )
    return tuple(result)


class JITKernel:
    """A compiled kernel. Call it with the inputs; results that it allocates are returned.

    Args:
        func: the program.
        out_idx, target, execution_backend: as for ``tilelang.compile``.
        options: pass configs, compiler flags and what to print.
        config: the tuner's configuration.
        executable: what runs, if it is built already.

    Attributes:
        prim_func: the program.
        params: its parameters, results included.
        out_idx: positions of the results in ``params``.
        target, config, latency, ref_latency: how it was made and measured, in milliseconds.
    """

    def __init__(
        self, func: PrimFunc, out_idx: object = None, target: Target | str | None = None,
        options: Options | None = None, execution_backend: str = "auto",
        config: dict[str, object] | None = None, executable: Executable | None = None,
    ) -> None:  # fmt: skip
        hide_from_compilers()
        errors.check_type(
            func, PrimFunc, "JITKernel takes a traced function", "what @T.prim_func gives"
        )
        self.prim_func = func
        self.target = parse_target(target or "cpu")
        self.options = options or Options()
        self.params = [KernelParam.from_param(param) for param in func.params]
        self.out_idx = list(normalize_out_idx(func, out_idx))
        self.config = config
        self._backend = execution_backend
        self.latency: float | None = None
        self.ref_latency: float | None = None
        self._executable: Executable = executable or build(
            func, tuple(self.out_idx), self.target, self.options, execution_backend
        )
        self._call = self._executable.call
        self.__doc__ = getattr(func.origin, "__doc__", None) or type(self).__doc__

    @not_traced
    def __call__(self, *args: Any, **keywords: Any) -> Any:
        try:
            if not keywords:
                return self._call(*args)
            inputs = input_params(self.params, self.out_idx)
            return self._call(*in_order(self.prim_func.name, inputs, args, keywords))
        except errors.TileError as error:
            trim(error)
            raise

    def __getattr__(self, name: str) -> Any:
        """The attributes that :mod:`inspect` reads: the class has another signature."""
        if name == "__signature__":  # the inputs; annotations are texts
            return signature_of(input_params(self.params, self.out_idx))
        if name in ("__name__", "__wrapped__"):
            return getattr(self.prim_func, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        # By program and options: another process compiles, or finds the text in its cache.
        arguments = (
            self.prim_func,
            self.out_idx,
            self.target,
            self.options,
            self._backend,
            self.config,
        )
        return _rebuild_kernel, (type(self), arguments, self.latency, self.ref_latency)

    def __deepcopy__(self, memo: dict[int, Any]) -> JITKernel:
        from copy import copy, deepcopy

        kernel = copy(self)  # what runs is shared: nothing of it changes
        kernel.config, kernel.out_idx = deepcopy(self.config, memo), list(self.out_idx)
        return kernel

    def __copy__(self) -> JITKernel:
        kernel = object.__new__(type(self))
        kernel.__dict__.update(self.__dict__)
        return kernel

    @property
    def torch_function(self) -> Any:
        """The callable itself."""
        return self._call

    @property
    def adapter(self) -> Executable:
        """The compiled program and its launcher."""
        return self._executable

    @property
    def artifact(self) -> Any:
        """The generated source with its entry and flags."""
        return self._executable.artifact

    @property
    def execution_backend(self) -> str:
        """The backend that runs calls: "c", "python" (without the C launcher) or "interpret"."""
        return self._executable.final_backend

    def get_kernel_source(self, kernel_only: bool = True) -> str:
        """Return the generated source text."""
        return self._executable.source

    @property
    def kernel_source(self) -> str:
        """The generated source text; :meth:`get_kernel_source` as an attribute."""
        return self.get_kernel_source()

    @property
    def host_source(self) -> str:
        """The host source; :meth:`get_host_source` as an attribute."""
        return self.get_host_source()

    def get_host_source(self) -> str:
        """Return the host source around the kernel: init, call and error text.

        It is C; for a CUDA kernel C++ over the CUDA runtime, or with
        ``execution_backend="nvrtc"`` Python over ``cuda.bindings``.
        """
        artifact = self._executable.artifact
        if artifact is not None and artifact.device is not None:
            from tilelang.compat.adapter.host import host_source as around

            return around(artifact, self.prim_func, self._backend)
        from tilelang.compat.adapter.wrapper import host_source

        return host_source(self.prim_func, self.get_kernel_source(), self.target)

    def show_source(self, which: str = "kernel") -> None:
        """Print the source: "kernel", "host", "both", or for CUDA "cuda", "ptx" or "sass".

        Raises:
            TileValueError: the target has no such source.
        """
        if which in texts_of(self.target):
            print(self._gpu_text(f"show_source({which!r})", which))
            return
        sources = ("kernel", "host", "both")
        errors.check_choice(which, sources, "there is no such source", '"kernel", "host" or "both"')
        if which != "host":
            print(self.get_kernel_source())
        if which != "kernel":
            print(self.get_host_source())

    def print_source_code(self, which: str = "kernel") -> None:
        """Print the source; the old name of :meth:`show_source`."""
        self.show_source(which)

    def export_sources(self, kernel_path: str | None = None, host_path: str | None = None) -> None:
        """Write the sources to files."""
        if kernel_path is not None:
            _write(kernel_path, self.get_kernel_source())
        if host_path is not None:
            _write(host_path, self.get_host_source())

    def export_library(self, path: str, symbol: str | None = None, **options: Any) -> Any:
        """Write the kernel as a library.

        Args:
            path: a folder for :func:`tilelang.export_library`; or a file, by its suffix, for what
                calls run: the shared library, whose entry is ``tl_call``, or the cubin.
            symbol: name of the C function; default the program's.
            options: those of :func:`tilelang.export_library`; the library's ``name`` is by default
                the symbol.

        Raises:
            TileRuntimeError: the kernel is interpreted.
        """
        file = errors.path_of(path, "the library of export_library")
        if file.suffix:
            with errors.writing(file):
                return self._executable.export(path)
        from tilelang.jit.export import export_library

        symbol = symbol or self.prim_func.name
        return export_library(path, {symbol: self}, **{"name": symbol, **options})

    def explain(self) -> str:
        """Report what the compiler chose; with ``tl.pass_profile``, also the time of each pass."""
        text = self._executable.explain() + self._at_least()
        if self.config is not None:
            configuration = " ".join(f"{name}={value}" for name, value in self.config.items())
            time = "" if self.latency is None else f" ({self.latency:.3g} ms)"
            text += f"\n\nconfiguration\n  {configuration}{time}"
        if self._executable.artifact is None or not is_profiled(self.options):
            return Lines(text)
        from tilelang.compiler import pass_times

        times = pass_times(self.prim_func, self.target, self.options)
        return Lines(f"{text}\n\n{times}")

    def _at_least(self) -> str:
        """The work of a call, and the least time that this machine takes for it; empty where the
        machine has not been measured, or sizes are open."""
        from tilelang.profiler.roof import known_roof
        from tilelang.profiler.timing import milliseconds
        from tilelang.profiler.work import work_of

        roof = known_roof(self.target)
        if roof is None:
            return ""
        work = work_of(self.prim_func)
        if not work.exact:
            return ""
        least = milliseconds(roof.milliseconds(work))
        return (
            f"\n\nwork of a call\n  {work.flops:.4g} operations, {work.bytes:.4g} bytes: {least} "
            f"at least, by {roof}"
        )

    def get_profiler(self, tensor_supply_type: Any = None) -> Profiler:
        """Return a profiler that makes inputs, checks against a reference and measures times."""
        from tilelang.profiler import Profiler, TensorSupplyType

        return Profiler(self, tensor_supply_type or TensorSupplyType.Auto)

    def run_once(self, func: Any = None) -> Any:
        """Call the kernel once with generated inputs."""
        return self.get_profiler().run_once(func)

    @property
    def resources(self) -> Any:
        """Registers, shared memory, spills and occupancy of a CUDA kernel."""
        self._need_gpu("resources")
        return self._executable.resources

    @property
    def n_regs(self) -> int:
        """32-bit registers of a thread of a CUDA kernel."""
        return int(self.resources.registers)

    @property
    def n_spills(self) -> int:
        """Bytes of spill stores and loads of a CUDA kernel."""
        return int(self.resources.spills)

    @property
    def n_shared(self) -> int:
        """Bytes of shared memory of a block of a CUDA kernel, static and dynamic."""
        return int(self.resources.shared)

    @property
    def occupancy(self) -> float:
        """Share of a multiprocessor's threads that blocks of a CUDA kernel can fill."""
        return float(self.resources.occupancy)

    def update_tuner_result(
        self, latency: float, config: dict[str, object], ref_latency: float | None = None
    ) -> JITKernel:
        """Record the measured latencies and the configuration; return the kernel.

        Args:
            latency, ref_latency: of the kernel and of a reference, in milliseconds.
            config: the arguments of the fastest kernel.
        """
        self.latency, self.config, self.ref_latency = latency, config, ref_latency
        return self

    def get_tuner_result(self) -> dict[str, object]:
        """Return what :meth:`update_tuner_result` recorded.

        Raises:
            TileValueError: nothing was noted.
        """
        if self.latency is None:
            raise errors.TileValueError(
                f"the kernel {self.prim_func.name} has not been measured",
                expected="a call of update_tuner_result(latency, config, ref_latency) before",
            )
        return {
            "latency": self.latency, "config": self.config, "ref_latency": self.ref_latency,
        }  # fmt: skip

    @classmethod
    def from_tilelang_function(cls, func: PrimFunc, **kwargs: Any) -> JITKernel:
        """Compile as ``tilelang.compile(func, ...)`` does."""
        from tilelang.jit.compile import compile

        return compile(func, **kwargs)

    def _need_gpu(self, request: str) -> None:
        if not texts_of(self.target) or self.execution_backend == "interpret":
            raise errors.TileUnsupportedError(
                f"{request} needs a CUDA kernel",
                got=f"a kernel for {self.target.kind}",
                hint="get_kernel_source() shows the generated source of any target",
            )

    def _gpu_text(self, caller: str, kind: str) -> str:
        self._need_gpu(caller)
        return self._executable.text(kind)

    def show_ptx(self) -> None:
        """Print the PTX of a CUDA kernel."""
        print(self._gpu_text("show_ptx", "ptx"))

    def show_sass(self) -> None:
        """Print the machine code of a CUDA kernel."""
        print(self._gpu_text("show_sass", "sass"))

    def export_ptx(self, path: str) -> None:
        """Write the PTX of a CUDA kernel."""
        _write(path, self._gpu_text("export_ptx", "ptx"))

    def export_sass(self, path: str) -> None:
        """Write the machine code of a CUDA kernel as text."""
        _write(path, self._gpu_text("export_sass", "sass"))

    def __repr__(self) -> str:
        """As the notebook of the specification shows it."""
        return f"<{type(self).__module__}.{type(self).__qualname__} at {id(self):#x}>"

    def _repr_html_(self) -> str:
        """The kernel for notebooks: a summary, with program and generated source to open."""
        from html import escape

        parts = {"program": self.prim_func.script(), "generated text": self.get_kernel_source()}
        opened = "".join(
            f"<details><summary>{title}</summary>{preformatted(text)}</details>"
            for title, text in parts.items()
        )
        name, inputs = escape(self.prim_func.name), escape(str(self.__signature__))
        return f"<b>{name}</b>{inputs} for {escape(str(self.target))}{opened}"

    def __str__(self) -> str:
        return f"<JITKernel {self.prim_func.name} for {self.target}>"


def _rebuild_kernel(
    kind: type[JITKernel],
    arguments: tuple[Any, ...],
    latency: float | None,
    ref_latency: float | None,
) -> JITKernel:
    """A kernel of another process."""
    kernel = kind(*arguments)
    kernel.latency, kernel.ref_latency = latency, ref_latency
    return kernel


def _write(path: str, text: str) -> None:
    file = errors.path_of(path, "the file to write")
    with errors.writing(file):
        file.write_text(text, encoding="utf-8")


def input_params(params: Sequence[KernelParam], out_idx: Sequence[int]) -> list[KernelParam]:
    """The parameters that a call passes."""
    return [param for i, param in enumerate(params) if i not in set(out_idx)]
