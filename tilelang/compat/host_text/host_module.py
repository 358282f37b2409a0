"""The input of the printers of host source: parameters of a call, launch steps and hints, as plain
data.

The compiler's :class:`GpuModule` knows slots, not names. Here the slots get the names and types
of the program's parameters back, in the order in which host functions take them: parameters as
declared, then the symbols of dynamic shapes, then those of strides alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tilelang.codegen.gpu.module import GpuModule, LaunchPlan, MapStep, Step, launches, walk_steps
from tilelang.codegen.symbols import symbols_of
from tilelang.cuda.tma_descriptor import TmaDescriptor
from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.postfix import Program, program_of
from tilelang.records import dataclass

TENSOR_MAP = "tensormap"  # kind of a kernel parameter whose dtype names a descriptor


@dataclass(frozen=True)
class HostArgument:
    """One parameter of ``call``.

    Attributes:
        name: as the program names it.
        slot: where its value is in the programs.
        kind: "tensor", "pointer", "int" or "float".
        dtype: of the elements or of the value; "handle" for a pointer.
    """

    name: str
    slot: int
    kind: str
    dtype: str


@dataclass(frozen=True)
class Window:
    """A tensor that should stay in the L2 cache while a kernel runs: share of the hits, size."""

    tensor: str
    slot: int
    ratio: float
    bytes: Program


@dataclass(frozen=True)
class HostModule:
    """Everything that the host source of one function says.

    Attributes:
        name: of the function.
        arguments: of ``call``, in order.
        steps, messages, kernels: as in :class:`GpuModule`.
        descriptors: name -> tensor map; kernel parameters of kind "tensormap" name them.
        windows: kernel launch (see :func:`launch_keys`) and one of its windows of persisting L2
            lines, in the order in which they are set.
    """

    name: str
    arguments: tuple[HostArgument, ...]
    steps: tuple[Step, ...]
    messages: tuple[str, ...]
    kernels: tuple[str, ...]
    descriptors: tuple[tuple[str, TmaDescriptor], ...] = ()
    windows: tuple[tuple[str, Window], ...] = ()


def host_module(
    module: GpuModule, func: S.PrimFunc, descriptors: Mapping[str, TmaDescriptor] | None = None
) -> HostModule:
    """The host part of ``module``, which was made from ``func``.

    Args:
        descriptors: tensor maps that kernels take, by name.
    """
    return HostModule(
        name=func.name,
        arguments=call_arguments(func),
        steps=module.steps,
        messages=module.messages,
        kernels=module.kernels,
        descriptors=tuple((descriptors or _maps(module.steps, func)).items()),
        windows=tuple(_windows(module.steps, func)),
    )


# -- parameters ------------------------------------------------------------------------------------
def ordered_symbols(func: S.PrimFunc) -> tuple[E.Var, ...]:
    """Symbols in the order of ``call``: those of shapes, then those of strides alone."""
    shapes: dict[E.Var, None] = {}
    for buffer in func.buffers:
        for extent in buffer.shape:
            if isinstance(extent, E.Expr):
                shapes.update((node, None) for node in E.walk(extent) if isinstance(node, E.Var))
    return tuple(sorted(symbols_of(func), key=lambda symbol: symbol not in shapes))


def call_arguments(func: S.PrimFunc) -> tuple[HostArgument, ...]:
    """Parameters of ``call`` for ``func``."""
    count = len(func.params)
    arguments = [_argument(param, slot) for slot, param in enumerate(func.params)]
    slots = {symbol: count + i for i, symbol in enumerate(symbols_of(func))}
    arguments += [_argument(symbol, slots[symbol]) for symbol in ordered_symbols(func)]
    return tuple(arguments)


def _argument(param: Buffer | E.Var, slot: int) -> HostArgument:
    if isinstance(param, Buffer):
        return HostArgument(param.name, slot, "tensor", str(param.dtype))
    if param.dtype.is_handle:
        return HostArgument(param.name, slot, "pointer", "handle")
    kind = "float" if param.dtype.is_float else "int"
    return HostArgument(param.name, slot, kind, str(param.dtype))


# -- launches --------------------------------------------------------------------------------------
def launch_keys(steps: tuple[Step, ...]) -> dict[int, str]:
    """A name for each launch by the identity of its plan: the kernel's, with a number from the
    second launch of that kernel on."""
    keys: dict[int, str] = {}
    counts: dict[str, int] = {}
    for plan in launches(steps):
        if id(plan) not in keys:
            number = counts[plan.kernel] = counts.get(plan.kernel, 0) + 1
            keys[id(plan)] = plan.kernel if number == 1 else f"{plan.kernel}#{number}"
    return keys


def launch_plans(steps: tuple[Step, ...]) -> Iterator[tuple[str, LaunchPlan]]:
    """Each launch with its name."""
    keys = launch_keys(steps)
    for plan in launches(steps):
        yield keys[id(plan)], plan


def _maps(steps: tuple[Step, ...], func: S.PrimFunc) -> dict[str, TmaDescriptor]:
    """Tensor maps that the steps encode, by name.

    Raises:
        TileUnsupportedError: a map of a part of a tensor.
    """
    starts = {param.name: (f"${slot}",) for slot, param in enumerate(func.params)}
    maps = {}
    for step in walk_steps(steps):
        if not isinstance(step, MapStep):
            continue
        if starts.get(step.map.tensor) != step.address:
            raise TileUnsupportedError(
                f"host source cannot encode the tensor map `{step.name}`",
                expected="a map of a whole tensor parameter",
                got=f"an address inside of `{step.map.tensor}`",
            )
        maps[step.name] = step.map
    return maps


def _windows(steps: tuple[Step, ...], func: S.PrimFunc) -> Iterator[tuple[str, Window]]:
    """Windows from the hints of the program, by ascending ratio: a stream has one window at a
    time, so the one that is set last, that of the highest ratio, serves the launch."""
    plans = list(launch_plans(steps))
    kernels = S.find(func.body, S.Launch)
    if len(plans) != len(kernels):
        return  # launches were made or removed: a hint cannot be placed
    params = (*func.params, *symbols_of(func))
    slots = {
        param.data if isinstance(param, Buffer) else param: slot
        for slot, param in enumerate(params)
    }
    for (key, _), kernel in zip(plans, kernels):
        ratios: Mapping[Buffer, float] = dict(kernel.hints.l2_hit_ratio)
        for buffer, ratio in sorted(ratios.items(), key=lambda pair: pair[1]):
            if buffer.data in slots:
                yield key, Window(buffer.name, slots[buffer.data], ratio, _size(buffer, slots))


def _size(buffer: Buffer, slots: Mapping[E.Var, int]) -> Program:
    """Bytes of a tensor without gaps."""

    def leaf(expr: E.Expr) -> Program:
        """Extents are integer arithmetic on symbols, which conversions do not change."""
        if isinstance(expr, E.Cast):
            return program_of(expr.value, leaf)
        assert isinstance(expr, E.Var)
        return (f"${slots[expr]}",)

    size: Program = (max(1, buffer.dtype.width // 8),)
    for extent in buffer.shape:
        size = (*size, *program_of(E.as_expr(extent), leaf), "mul")
    return (*size, 2, "floordiv") if buffer.dtype.bits == 4 else size
