"""The interface of GPU printers and launchers: device source and the host's steps as plain data.

The host part of a compiled function is not code but a short list of steps over 64-bit slots, so
that it can be stored with the device binary, replayed without a host compiler and read by a
person. Everything here is frozen and built from strings, integers and tuples only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tilelang.ir.postfix import Program
from tilelang.records import dataclass

if TYPE_CHECKING:
    from tilelang.cuda.tma_descriptor import TmaDescriptor
    from tilelang.errors import Site
    from tilelang.layout.layout import Layout


@dataclass(frozen=True)
class KernelArg:
    """A kernel parameter, and the slot that holds its bits.

    `kind` is "pointer", "int", "float" or "tensormap"; `dtype` names the parameter's (or element's)
    dtype. A tensor map is passed by value; its `dtype` is its name (see `MapStep`).
    """

    slot: int
    kind: str
    dtype: str


@dataclass(frozen=True)
class LaunchPlan:
    """One kernel launch; the grid is computed from slots, everything else is fixed."""

    kernel: str
    grid: tuple[Program, Program, Program]
    threads: tuple[int, int, int]
    shared_bytes: int
    args: tuple[KernelArg, ...]
    cluster: tuple[int, int, int] = (1, 1, 1)
    cooperative: bool = False
    pdl: bool = False


@dataclass(frozen=True)
class LetStep:
    """slot = program, stored as `dtype`."""

    slot: int
    value: Program
    dtype: str


@dataclass(frozen=True)
class AssertStep:
    """The program must not be zero; otherwise the call fails with `messages[message]`."""

    condition: Program
    message: int


@dataclass(frozen=True)
class IfStep:
    """Run `then` if the condition is not zero, `orelse` otherwise."""

    condition: Program
    then: tuple[Step, ...]
    orelse: tuple[Step, ...] = ()


@dataclass(frozen=True)
class ForStep:
    """Run the body with slot = start, start + step, ... while below stop."""

    slot: int
    start: Program
    stop: Program
    step: Program
    body: tuple[Step, ...]


@dataclass(frozen=True)
class WorkspaceStep:
    """slot = address of scratch device memory, freed in stream order after the call."""

    slot: int
    bytes: Program


@dataclass(frozen=True)
class MapStep:
    """slot = a tensor map for the kernels that follow, encoded by the driver.

    `name` is that of the kernels' parameter, `address` the start of the tensor.
    """

    slot: int
    name: str
    address: Program
    map: TmaDescriptor


Step: TypeAlias = "LetStep | AssertStep | LaunchPlan | IfStep | ForStep | WorkspaceStep | MapStep"


def walk_steps(steps: Sequence[Step]) -> Iterator[Step]:
    """Every step, in order, each before those inside it."""
    for step in steps:
        yield step
        if isinstance(step, IfStep):
            yield from walk_steps((*step.then, *step.orelse))
        elif isinstance(step, ForStep):
            yield from walk_steps(step.body)


def launches(steps: Sequence[Step]) -> Iterator[LaunchPlan]:
    """Every launch, in order, at any depth."""
    return (step for step in walk_steps(steps) if isinstance(step, LaunchPlan))


def programs_of(step: Step) -> tuple[Program, ...]:
    """The programs of a step itself; of a tensor map address, extents and strides, also of
    constants."""
    match step:
        case LetStep():
            return (step.value,)
        case AssertStep() | IfStep():
            return (step.condition,)
        case WorkspaceStep():
            return (step.bytes,)
        case LaunchPlan():
            return step.grid
        case ForStep():
            return (step.start, step.stop, step.step)
        case MapStep():
            sizes = (*step.map.dims, *step.map.strides[1:])
            return (step.address, *((size,) if isinstance(size, int) else size for size in sizes))


@dataclass(frozen=True)
class SharedBuffer:
    """The address range of a shared buffer of a kernel, for reports.

    Attributes:
        kernel, name: the function and the buffer's name in its text.
        label: the buffer's name in the program.
        offset: bytes from the start of the arena; None for memory of its own.
        size: bytes.
        dtype: of an element.
        shape: logical extents.
        layout: from logical indices to elements; None means row by row.
        converted: the fragment that the compiler moves through the buffer to another register
            layout; "" if the program declares the buffer.
    """

    kernel: str
    name: str
    label: str
    offset: int | None
    size: int
    dtype: str
    shape: tuple[int, ...]
    layout: Layout | None = None
    converted: str = ""


@dataclass(frozen=True)
class GpuModule:
    """Device source with the steps that launch its kernels.

    `slots` counts the call's slots (parameters, then symbols) and the host's own slots after
    them. `features` names what the source needs from the compiler beyond the target's plain
    architecture (for example "cooperative_groups"); it is empty for most kernels. `shared` explains
    the arenas. `flags` are compiler options that suit the kernels. `sites` are the places of the
    assertions, message by message.
    """

    source: str
    steps: tuple[Step, ...]
    slots: int
    messages: tuple[str, ...]
    kernels: tuple[str, ...]
    features: tuple[str, ...] = ()
    shared: tuple[SharedBuffer, ...] = ()
    flags: tuple[str, ...] = ()
    sites: tuple[Site, ...] = ()
