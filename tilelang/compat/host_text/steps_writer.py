"""Walks the host steps of a program and prints them; what C and Python hosts have in common."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from tilelang.codegen.gpu import module as M
from tilelang.codegen.names import Names
from tilelang.codegen.text import Lines
from tilelang.compat.host_text import host_module, templates
from tilelang.compat.host_text.programs import Printer
from tilelang.cuda.tma_descriptor import TmaDescriptor
from tilelang.errors import TileUnsupportedError, TileValueError
from tilelang.ir.postfix import Program
from tilelang.records import dataclass

MAX_GRID = (2**31 - 1, 65535, 65535)


@dataclass(frozen=True)
class LaunchInfo:
    """The launch of one kernel, with host expressions as text."""

    function_name: str
    block_info: tuple[int, ...]
    grid_info: tuple[str, ...]
    dynamic_smem_buf: int

    @property
    def has_constant_grid(self) -> bool:
        """Whether every extent of the grid is a positive number."""
        return all(text.isdigit() and int(text) > 0 for text in self.grid_info)

    @property
    def full_grid(self) -> tuple[str, str, str]:
        """The grid with three extents."""
        x, y, z = (*self.grid_info, "1", "1")[:3]
        return x, y, z

    @property
    def full_block(self) -> tuple[int, int, int]:
        """The block with three extents."""
        x, y, z = (*self.block_info, 1, 1)[:3]
        return x, y, z


class StepsWriter(Lines, ABC):
    """Prints the steps of one function.

    Attributes:
        lines: the text so far, indented by tabs.
        printer: of expressions; its names are the slots' values.
    """

    tab = "\t"
    printer: Printer

    def __init__(
        self, module: host_module.HostModule, reserved: frozenset[str], own: re.Pattern[str]
    ) -> None:
        super().__init__()
        self.module = module
        self.names = Names({*reserved, *module.kernels}, own)
        self.keys = host_module.launch_keys(module.steps)
        self.windows = module.windows
        self.descriptors: Mapping[str, TmaDescriptor] = dict(module.descriptors)
        self.variables: dict[TmaDescriptor, str] = {}  # descriptor -> its host variable
        self.by_slot = {argument.slot: argument for argument in module.arguments}
        self.argument_names = {
            argument.slot: self.names.fresh(argument.name) for argument in module.arguments
        }

    # -- lines -------------------------------------------------------------------------------------
    def put_template(self, text: str) -> None:
        """A filled template, which is indented by one tab itself."""
        extra = "\t" * (self.depth - 1)
        for line in text.strip("\n").split("\n"):
            self.lines.append(extra + line if line.strip() else "")

    # -- information -------------------------------------------------------------------------------
    def informations(self) -> dict[str, dict[str, object]]:
        """The data for a dispatch function: launch -> facts with expressions as text."""
        launches: dict[str, dict[str, object]] = {}
        for key, plan in host_module.launch_plans(self.module.steps):
            launches[key] = {
                "function_name": plan.kernel,
                "block_info": list(plan.threads),
                "grid_info": [self.known_text(program) for program in plan.grid],
                "dynamic_smem_buf": plan.shared_bytes,
                "function_params": [self.parameter_name(arg) for arg in plan.args],
                "cluster_info": list(plan.cluster),
                "cooperative": plan.cooperative,
                "pdl": plan.pdl,
            }
        return launches

    def parameter_name(self, arg: M.KernelArg) -> str:
        """Host name of what a kernel gets."""
        if arg.kind == host_module.TENSOR_MAP:
            return self.variable(arg.dtype)
        return self.argument_names.get(arg.slot) or self.printer.names.get(arg.slot, f"t{arg.slot}")

    def known_text(self, program: Program) -> str:
        """A program as text, or "" when it depends on values that the host part has yet to make."""
        return self.printer.text(program) if self.printer.knows(program) else ""

    def info(
        self, plan: M.LaunchPlan, informations: Mapping[str, Mapping[str, object]]
    ) -> LaunchInfo:
        """Facts about a launch.

        Raises:
            TileValueError: they are missing.
        """
        key = self.keys[id(plan)]
        facts = informations.get(key)
        if facts is None:
            raise TileValueError(
                f"nothing is known about the kernel {key}",
                expected="function_informations with an entry for each launch",
                got=", ".join(informations) or "none",
            )
        base = LaunchInfo(
            str(facts.get("function_name", plan.kernel)), plan.threads,
            tuple(self.printer.text(program) for program in plan.grid), plan.shared_bytes,
        )  # fmt: skip
        block, grid = facts.get("block_info"), facts.get("grid_info")
        if isinstance(block, (list, tuple)):
            base = replace(base, block_info=tuple(int(extent) for extent in block))
        if isinstance(grid, (list, tuple)):
            extents = zip((str(extent) for extent in grid), (*base.grid_info, "1", "1"))
            base = replace(base, grid_info=tuple(stated or own for stated, own in extents))
        shared = facts.get("dynamic_smem_buf")
        return replace(base, dynamic_smem_buf=int(shared)) if isinstance(shared, int) else base

    def windows_of(self, key: str) -> list[host_module.Window]:
        """Windows of persisting L2 lines of a launch, in the order in which they are set."""
        return [window for launch, window in self.windows if launch == key]

    # -- tensor maps -------------------------------------------------------------------------------
    def descriptor(self, name: str) -> TmaDescriptor:
        """The tensor map that kernel parameters call ``name``."""
        descriptor = self.descriptors.get(name)
        if descriptor is None:
            raise TileValueError(
                f"unknown tensor map {name!r}", expected=", ".join(self.descriptors) or "none"
            )
        return descriptor

    def variable(self, name: str) -> str:
        """The host variable of a tensor map; equal maps share one."""
        descriptor = self.descriptor(name)
        if descriptor not in self.variables:
            self.variables[descriptor] = self.names.fresh(name, templates.MAP_FIELDS)
        return self.variables[descriptor]

    def tensor(self, descriptor: TmaDescriptor) -> str:
        """Host name of the tensor that a map describes."""
        for argument in self.module.arguments:
            if argument.name == descriptor.tensor:
                return self.argument_names[argument.slot]
        raise TileValueError(
            f"the tensor map of `{descriptor.tensor}` describes no parameter",
            expected=", ".join(argument.name for argument in self.module.arguments),
        )

    def extents(self, dims: tuple[int | Program, ...]) -> list[str]:
        """Numbers and programs as text."""
        return [str(dim) if isinstance(dim, int) else self.printer.text(dim) for dim in dims]

    def shared_maps(self) -> list[TmaDescriptor]:
        """Tensor maps that several launches use: they are made once, before all launches."""
        uses: Counter[TmaDescriptor] = Counter()
        for _, plan in host_module.launch_plans(self.module.steps):
            uses.update(set(self.maps_of(plan)))
        loops = [step for step in M.walk_steps(self.module.steps) if isinstance(step, M.ForStep)]
        plans = [plan for loop in loops for _, plan in host_module.launch_plans(loop.body)]
        looped = {descriptor for plan in plans for descriptor in self.maps_of(plan)}
        return [used for used in uses if uses[used] > 1 or used in looped]

    def maps_of(self, plan: M.LaunchPlan) -> list[TmaDescriptor]:
        """Tensor maps that a kernel takes, each once."""
        names = [arg.dtype for arg in plan.args if arg.kind == host_module.TENSOR_MAP]
        return list(dict.fromkeys(map(self.descriptor, names)))

    def put_maps(self, maps: list[TmaDescriptor]) -> None:
        """Encode tensor maps."""
        for descriptor in maps:
            name = next(key for key, value in self.descriptors.items() if value == descriptor)
            variable = self.variable(name)
            text = self.map_text(variable, descriptor, self.tensor(descriptor))
            sizes = zip(descriptor.dims, self.extents(descriptor.dims))
            unsure = [size for dim, size in sizes if not (isinstance(dim, int) and dim > 0)]
            if unsure:
                self.put_map_unless_empty(variable, text, unsure)
            else:
                self.put_template(text)

    def put_own_maps(self, plan: M.LaunchPlan) -> None:
        """Encode the tensor maps that only this launch uses."""
        shared = self.shared_maps()
        self.put_maps([descriptor for descriptor in self.maps_of(plan) if descriptor not in shared])

    @abstractmethod
    def put_map_unless_empty(self, variable: str, text: str, extents: list[str]) -> None:
        """Print the ``text`` of a map so that it runs only where the ``extents`` are positive:
        the driver refuses maps of tensors without elements, of which nothing is read."""

    @abstractmethod
    def map_text(self, variable: str, descriptor: TmaDescriptor, tensor: str) -> str:
        """The template of a tensor map, filled."""

    @abstractmethod
    def window_text(self, window: host_module.Window) -> str:
        """The template that sets a window of persisting L2 lines, filled."""

    @abstractmethod
    def function(
        self, stream: Mapping[str, str], informations: Mapping[str, Mapping[str, object]]
    ) -> str:
        """The whole text of ``call``, whose last parameter is ``stream``."""

    # -- steps -------------------------------------------------------------------------------------
    def write(
        self, steps: tuple[M.Step, ...], informations: Mapping[str, Mapping[str, object]]
    ) -> None:
        """Print ``steps``."""
        for step in steps:
            if isinstance(step, M.LaunchPlan):
                self.launch(step, self.info(step, informations))
            elif isinstance(step, M.LetStep):
                self.let(step)
            elif isinstance(step, M.AssertStep):
                self.check(step)
            elif isinstance(step, M.WorkspaceStep):
                self.workspace(step)
            elif isinstance(step, M.IfStep):
                self.branch(step, informations)
            elif isinstance(step, M.MapStep):
                continue  # the launches that take a map encode it
            else:
                self.loop(step, informations)

    @abstractmethod
    def launch(self, plan: M.LaunchPlan, info: LaunchInfo) -> None:
        """Start a kernel, unless its grid is empty."""

    @abstractmethod
    def let(self, step: M.LetStep) -> None:
        """Define a value."""

    @abstractmethod
    def check(self, step: M.AssertStep) -> None:
        """End the call unless a condition holds."""

    @abstractmethod
    def workspace(self, step: M.WorkspaceStep) -> None:
        """Memory for the rest of the call."""

    @abstractmethod
    def branch(self, step: M.IfStep, informations: Mapping[str, Mapping[str, object]]) -> None:
        """One of two lists of steps."""

    @abstractmethod
    def loop(self, step: M.ForStep, informations: Mapping[str, Mapping[str, object]]) -> None:
        """Steps for each number."""


def float_form(arg: M.KernelArg) -> str:
    """The form "float" or "double" for a kernel parameter of kind "float".

    Raises:
        TileUnsupportedError: a type that host code cannot pass by value.
    """
    forms = {"float32": "float", "tfloat32": "float", "float64": "double"}
    if arg.dtype not in forms:
        raise TileUnsupportedError(
            f"host source cannot pass a scalar of type {arg.dtype} to a kernel",
            expected="float32 or float64",
            hint="pass it in a tensor of one element, or as float32",
        )
    return forms[arg.dtype]
