"""Host functions in Python over ``cuda.bindings.driver``, for kernels that NVRTC compiled."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Mapping

from tilelang.codegen.gpu import module as M
from tilelang.compat.host_text import templates
from tilelang.compat.host_text.host_module import TENSOR_MAP, HostArgument, HostModule, Window
from tilelang.compat.host_text.programs import PythonPrinter, constant_of, python_helpers
from tilelang.compat.host_text.steps_writer import LaunchInfo, StepsWriter, float_form
from tilelang.cuda.tma_descriptor import TmaDescriptor
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.postfix import Program

RESERVED = frozenset(
    (
        *keyword.kwlist, *dir(builtins), "kernels", "stream", "config", "res", "arg_values",
        "arg_types", "attribute", "attributes", "cuda", "ctypes", "grid", "call", "memory",
    )
)  # fmt: skip
_OWN = re.compile(r"_\w*")  # helpers and variables of the module
DRIVER = "cuda.bindings.driver"
# Setting attributes takes as long as a launch, so it is done once for a kernel handle and device.
_PREPARED = "_prepared = {}  # kernel and device: the handle whose attributes are set"
_HEAD = '"""Host functions of the kernels of {}."""\n'


class PythonHost(StepsWriter):
    """Prints ``call(kernels, <parameters>, stream=0)``.

    ``kernels`` maps the names of ``_function_names`` to handles of the driver.
    """

    def __init__(self, module: HostModule) -> None:
        super().__init__(module, RESERVED, _OWN)
        self.printer = PythonPrinter({a.slot: self._value(a) for a in module.arguments})
        self.workspaces = 0

    def _value(self, argument: HostArgument) -> str:
        name = self.argument_names[argument.slot]
        return f"_address({name})" if argument.kind in ("tensor", "pointer") else name

    # -- the module --------------------------------------------------------------------------------
    def function(
        self, stream: Mapping[str, str], informations: Mapping[str, Mapping[str, object]]
    ) -> str:
        """The text of the whole module."""
        scratch = self._needs_memory()
        self.depth += scratch
        self.put_maps(self.shared_maps())
        self.write(self.module.steps, informations)
        self.depth -= scratch
        head = [f"\t_device = {self._device()}"]
        if self.windows:
            head.append(templates.L2_PERSISTENT_MAP_CREATE_HANDLE_PY.strip("\n"))
        body = self.lines
        if scratch:
            free = f"\t\t\t{DRIVER}.cuMemFreeAsync(memory, stream)"
            end = ["\tfinally:", "\t\tfor memory in _scratch:", free]
            body = ["\t_scratch = []", "\ttry:", *(body or ["\t\tpass"]), *end]
        names = [self.argument_names[a.slot] for a in self.module.arguments]
        text = templates.PREDEF_HOST_FUNC_PY.format(
            repr(list(self.module.kernels)),
            ", ".join(["kernels", *names, stream["name"]]),
            "\n" + "\n".join([*head, *body]),
        )
        text = text.replace("\n\ndef call(", f"\n{_PREPARED}\n\ndef call(", 1)
        # The template leaves the indentation of its first body line behind.
        text = "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
        return _HEAD.format(self.module.name) + text + python_helpers(text)

    def _needs_memory(self) -> bool:
        return any(isinstance(step, M.WorkspaceStep) for step in M.walk_steps(self.module.steps))

    def _device(self) -> str:
        """The number of the device: that of the first tensor, else the current one."""
        for argument in self.module.arguments:
            if argument.kind == "tensor":
                return f"{self.argument_names[argument.slot]}.device.index"
        return f"int({DRIVER}.cuCtxGetDevice()[1])"

    # -- steps -------------------------------------------------------------------------------------
    def define(self, slot: int) -> str:
        """A new name for a slot of the host."""
        name = self.names.fresh(f"t{slot}")
        self.printer.names = {**self.printer.names, slot: name}
        return name

    def let(self, step: M.LetStep) -> None:
        text = self.printer.text(step.value)
        kind = DType(step.dtype)
        if kind.is_bool:
            text = f"int(({text}) != 0)"
        elif kind.is_uint and kind.bits < 64:
            text = f"({text}) % 2**{kind.bits}"
        elif kind.is_integer:
            text = f"_signed({text}, {kind.bits})" if kind.bits < 64 else text
        self.put(f"{self.define(step.slot)} = {text}")

    def check(self, step: M.AssertStep) -> None:
        message = f"{self.module.name}: {self.module.messages[step.message]}"
        self.put(f"if not ({self.printer.text(step.condition)}):")
        self.put(f"\traise RuntimeError({message!r})")

    def workspace(self, step: M.WorkspaceStep) -> None:
        size = f"max({self.printer.text(step.bytes)}, 1)"
        name = self.define(step.slot)
        self.put(f"res, {name} = {DRIVER}.cuMemAllocAsync({size}, stream)")
        self.put(f"if res != {DRIVER}.CUresult.CUDA_SUCCESS:")
        text = f"{self.module.name}: no device memory for a workspace"
        self.put(f'\traise RuntimeError(f"{text}: {{res}}")')
        self.put(f"_scratch.append({name})")
        self.put(f"{name} = int({name})")

    def branch(self, step: M.IfStep, informations: Mapping[str, Mapping[str, object]]) -> None:
        self._block(f"if {self.printer.text(step.condition)}:", step.then, informations)
        if step.orelse:
            self._block("else:", step.orelse, informations)

    def loop(self, step: M.ForStep, informations: Mapping[str, Mapping[str, object]]) -> None:
        bounds = [self.printer.text(bound) for bound in (step.start, step.stop, step.step)]
        if (constant_of(step.step) or 0) <= 0:
            self.put(f"if not ({bounds[2]}) > 0:")
            text = f"{self.module.name}: the step of a loop is not positive"
            self.put(f"\traise RuntimeError({text!r})")
        name = self.define(step.slot)
        self._block(f"for {name} in range({', '.join(bounds)}):", step.body, informations)

    def _block(
        self, head: str, steps: tuple[M.Step, ...], informations: Mapping[str, Mapping[str, object]]
    ) -> None:
        with self.block(head, None):
            before = len(self.lines)
            self.write(steps, informations)
            if len(self.lines) == before:
                self.put("pass")

    # -- launches ----------------------------------------------------------------------------------
    def launch(self, plan: M.LaunchPlan, info: LaunchInfo) -> None:
        grid = list(info.full_grid)
        if info.has_constant_grid:
            self._start(plan, info, grid)
            return
        self.put(f"grid = ({', '.join(grid)})")
        with self.block("if min(grid) > 0:", None):
            self._start(plan, info, [f"grid[{axis}]" for axis in range(3)])

    def _start(self, plan: M.LaunchPlan, info: LaunchInfo, grid: list[str]) -> None:
        self.put_own_maps(plan)
        windows = self.windows_of(self.keys[id(plan)])
        pairs = [self._argument(arg) for arg in plan.args]
        text = templates.KERNEL_LAUNCH_FUNC_PY.format(
            info.function_name, *grid, *info.full_block, info.dynamic_smem_buf,
            _tuple([value for value, _ in pairs]), _tuple([kind for _, kind in pairs]), "_device",
        )  # fmt: skip
        text = self._with_attributes(text, plan, info)
        if windows:  # around nothing but the launch, and taken back however it ends
            head, _, tail = text.rpartition("\n\tres = ")
            launch, check, end = tail.partition("\n\tif res != ")
            lines = [self.window_text(window).strip("\n") for window in windows]
            lines += ["\ttry:", f"\t\tres = {launch}", "\tfinally:"]
            reset = templates.L2_PERSISTENT_MAP_RESET_HANDLE_PY.strip("\n").split("\n")
            lines += [f"\t{line}" for line in reset]
            text = "\n".join([head, *lines]) + check + end
        self.put_template(text)

    def _with_attributes(self, text: str, plan: M.LaunchPlan, info: LaunchInfo) -> str:
        """``text`` with launch attributes between the configuration and the parameters."""
        lines: list[str] = []

        def attribute(name: str, values: list[str]) -> None:
            lines.append(f"\tattribute = {DRIVER}.CUlaunchAttribute()")
            lines.append(
                f"\tattribute.id = {DRIVER}.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_{name}"
            )
            lines.extend(f"\tattribute.value.{value}" for value in values)
            lines.append("\tattributes.append(attribute)")

        if plan.cluster != (1, 1, 1):
            dims = [f"clusterDim.{axis} = {n}" for axis, n in zip("xyz", plan.cluster)]
            attribute("CLUSTER_DIMENSION", dims)
        if plan.cooperative:
            attribute("COOPERATIVE", ["cooperative = 1"])
        if plan.pdl:
            allowed = "programmaticStreamSerializationAllowed = 1"
            attribute("PROGRAMMATIC_STREAM_SERIALIZATION", [allowed])
        if lines:
            ends = ["\tconfig.attrs = attributes", "\tconfig.numAttrs = len(attributes)"]
            inserted = "\n".join(["\tattributes = []", *lines, *ends])
            text = text.replace("\n\targ_values = ", f"\n{inserted}\n\n\targ_values = ", 1)
        x, y, z = plan.cluster
        setting, launch = text.split("\n\n", 1)
        if x * y * z > 8:
            setting += "\n" + templates.KERNEL_CLUSTER_ATTRIBUTE_PY.format(
                info.function_name, "_device"
            ).strip("\n")
        return f"{self._once(setting, info.function_name)}\n\n{launch}"

    def _once(self, setting: str, kernel: str) -> str:
        """``setting`` of attributes, done once for a handle of ``kernel`` and a device."""
        key, handle = f'("{kernel}", _device)', f'kernels["{kernel}"]'
        lines = [f"\t{line}" for line in setting.strip("\n").split("\n")]
        return "\n".join(
            [f"\tif _prepared.get({key}) is not {handle}:", *lines,
             f"\t\t_prepared[{key}] = {handle}"]
        )  # fmt: skip

    def _argument(self, arg: M.KernelArg) -> tuple[str, str]:
        """Value and ctypes type of a kernel parameter."""
        if arg.kind == TENSOR_MAP:
            return self.variable(arg.dtype), "None"
        if arg.kind == "pointer":
            argument = self.by_slot.get(arg.slot)
            if argument is not None and argument.kind == "tensor":
                return f"{self.argument_names[arg.slot]}.data_ptr()", "ctypes.c_void_p"
            return self.printer.names[arg.slot], "ctypes.c_void_p"
        if arg.kind == "float":
            return self.parameter_name(arg), f"ctypes.c_{float_form(arg)}"
        kind = DType(arg.dtype)
        sign = "u" if kind.is_uint or kind.is_bool else ""
        return self.printer.names[arg.slot], f"ctypes.c_{sign}int{max(8, kind.bits)}"

    # -- parts that wrappers give on their own -----------------------------------------------------
    def window_text(self, window: Window) -> str:
        """Set the window of persisting L2 lines."""
        return templates.L2_PERSISTENT_MAP_INIT_FUNC_PY.format(
            f"{self.argument_names[window.slot]}.data_ptr()", window.ratio,
            f"_l2_window({self.printer.text(window.bytes)}, _device)",
        )  # fmt: skip

    def put_map_unless_empty(self, variable: str, text: str, extents: list[str]) -> None:
        self.put(f"{variable} = {DRIVER}.CUtensorMap()")
        with self.block(f"if {' and '.join(f'({extent}) > 0' for extent in extents)}:", None):
            self.put_template(text)

    def map_text(self, variable: str, descriptor: TmaDescriptor, tensor: str) -> str:
        def listed(numbers: tuple[int | Program, ...], kind: str) -> str:
            return ", ".join(f"{DRIVER}.{kind}({text})" for text in self.extents(numbers))

        d = descriptor
        steps = listed(d.element_strides, "cuuint32_t")
        head = (
            variable, d.data_type, d.rank, tensor, listed(d.dims, "cuuint64_t"),
            listed(d.strides, "cuuint64_t"),
        )  # fmt: skip
        tail = (d.interleave, d.swizzle, d.l2_promotion, d.fill)
        if d.is_im2col:
            corners = (", ".join(map(str, d.lower)), ", ".join(map(str, d.upper)))
            return templates.TMA_IM2COL_DESC_INIT_FUNC_PY.format(
                *head, steps, *corners, d.channels, d.pixels, *tail
            )
        return templates.TMA_DESC_INIT_FUNC_PY.format(
            *head, listed(d.box, "cuuint32_t"), steps, *tail
        )


def _tuple(elements: list[str]) -> str:
    """A tuple, also of one item."""
    return f"({', '.join(elements)}{',' if len(elements) == 1 else ''})"
