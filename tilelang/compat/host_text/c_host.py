"""Host functions in C++ for the CUDA and HIP runtimes: ``call`` with all that it does."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from tilelang.codegen.c import storage_type, value_type
from tilelang.codegen.gpu import module as M
from tilelang.codegen.text import quote
from tilelang.compat.host_text import templates
from tilelang.compat.host_text.host_module import TENSOR_MAP, HostArgument, HostModule, Window
from tilelang.compat.host_text.programs import CPrinter, constant_of, may_be_undefined
from tilelang.compat.host_text.steps_writer import MAX_GRID, LaunchInfo, StepsWriter, float_form
from tilelang.cuda.tma_descriptor import TmaDescriptor
from tilelang.errors import TileUnsupportedError
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.postfix import Program
from tilelang.records import dataclass

RESERVED = frozenset(
    "alignas alignof and and_eq bitand bitor catch char16_t char32_t class compl concept "
    "const_cast constexpr decltype delete dynamic_cast explicit export friend mutable namespace "
    "new noexcept not not_eq nullptr operator or or_eq private protected public reinterpret_cast "
    "requires static_assert static_cast template this thread_local throw try typeid typename "
    "using virtual wchar_t xor xor_eq linux unix call init get_last_error error_buf stream config "
    "attributes arguments error grid stream_attribute init_persisting_l2_cache_size std dim3 ss "
    "snprintf memcpy memset malloc free".split()
)
_OWN = re.compile(r"(cuda|hip|cu)[A-Z]\w*|CU\w+|cuu?int\d\w*")  # names of the two runtimes
_STRUCT = """struct tl_scratch {{  // memory of one call, given back in stream order
    void* data = nullptr;
    {0}Stream_t stream;
    explicit tl_scratch({0}Stream_t s) : stream(s) {{}}
    tl_scratch(const tl_scratch&) = delete;
    ~tl_scratch() {{
        if (data) (void){0}FreeAsync(data, stream);
    }}
}};
"""
_WINDOW = """static size_t tl_l2_window(int64_t wanted) {
    int device = 0, persisting = 0, window = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&persisting, cudaDevAttrMaxPersistingL2CacheSize, device);
    cudaDeviceGetAttribute(&window, cudaDevAttrMaxAccessPolicyWindowSize, device);
    const int64_t most = persisting < window ? persisting : window;
    return (size_t)(wanted < most ? wanted : most);
}
"""
_DRIVER_CALL = """#ifndef CUTLASS_CUDA_DRIVER_WRAPPER_CALL
#define CUTLASS_CUDA_DRIVER_WRAPPER_CALL(function) function
#endif
"""


@dataclass(frozen=True)
class Runtime:
    """Which runtime the text is for.

    Attributes:
        prefix: of its functions.
        extended: whether it has launch attributes, tensor maps and L2 windows.
    """

    prefix: str
    extended: bool


CUDA = Runtime("cuda", True)
HIP = Runtime("hip", False)


def c_type(argument: HostArgument) -> str:
    """Type of a parameter of ``call``."""
    if argument.kind == "tensor":
        return f"{storage_type(DType(argument.dtype))}*"
    return "void*" if argument.kind == "pointer" else value_type(DType(argument.dtype))


class CHost(StepsWriter):
    """Prints ``call``."""

    def __init__(self, module: HostModule, runtime: Runtime = CUDA) -> None:
        super().__init__(module, RESERVED, _OWN)
        self.runtime = runtime
        self.printer = CPrinter({a.slot: self._value(a) for a in module.arguments})
        if not runtime.extended:
            self.windows = ()
        self.partial = False  # whether some value may not exist

    def _value(self, argument: HostArgument) -> str:
        name = self.argument_names[argument.slot]
        if argument.kind in ("tensor", "pointer"):
            return f"(int64_t)(intptr_t){name}"
        return f"(int64_t){name}"

    # -- the function ------------------------------------------------------------------------------
    def declarations(self, stream: Mapping[str, str]) -> str:
        """Parameters of ``call``."""
        parameters = [f"{c_type(a)} {self.argument_names[a.slot]}" for a in self.module.arguments]
        return ", ".join([*parameters, f"{stream['type']} {stream['name']}"])

    def function(
        self, stream: Mapping[str, str], informations: Mapping[str, Mapping[str, object]]
    ) -> str:
        """The text of ``call``."""
        self.put_maps(self.shared_maps())
        self.write(self.module.steps, informations)
        head = ["\ttl_undefined = 0;"] if self.partial else []
        if self.windows:
            head.append(templates.L2_PERSISTENT_MAP_CREATE_HANDLE.strip("\n"))
        return templates.PREDEF_HOST_FUNC.format(
            self.declarations(stream), "\n".join([*head, *self.lines])
        )

    def support(self, text: str) -> str:
        """Structures and functions that the ``text`` of this host uses, besides arithmetic."""
        helpers = _DRIVER_CALL if "CUTLASS_CUDA_DRIVER_WRAPPER_CALL" in text else ""
        helpers += _STRUCT.format(self.runtime.prefix) if "tl_scratch" in text else ""
        return helpers + (_WINDOW if "tl_l2_window" in text else "")

    def fail(self, message: str) -> None:
        """End the call with a text."""
        self.put(f'snprintf(error_buf, ERROR_BUF_SIZE, "%s", {quote(message)});')
        self.put("return -1;")

    def failing(self, condition: str, message: str) -> None:
        """End the call with a text when ``condition`` holds."""
        with self.block(f"if ({condition}) {{"):
            self.fail(message)

    def failing_call(self, name: str, text: str) -> None:
        """End the call when the code ``name`` of the runtime is an error."""
        prefix = self.runtime.prefix
        self.put(f"if ({name} != {prefix}Success) {{")
        self.put(
            f'\tsnprintf(error_buf, ERROR_BUF_SIZE, "{text}: %s", {prefix}GetErrorString({name}));'
        )
        self.put("\treturn -1;")
        self.put("}")

    def values(self, programs: Sequence[Program]) -> list[str]:
        """Programs as text; those without a value end the call."""
        values = []
        for program in programs:
            text = self.printer.text(program)
            if may_be_undefined(program):
                self.partial = True
                name = self.names.fresh("value")
                self.put(f"const int64_t {name} = {text};")
                self.failing("tl_undefined", f"{self.module.name}: division by zero on the host")
                text = name
            values.append(text)
        return values

    # -- steps -------------------------------------------------------------------------------------
    def let(self, step: M.LetStep) -> None:
        (text,) = self.values([step.value])
        kind = DType(step.dtype)
        if kind.is_bool:
            text = f"({text}) != 0"
        elif kind.is_integer and kind.bits < 64:
            text = f"({value_type(kind)})({text})"
        name = self.names.fresh(f"t{step.slot}")
        self.put(f"const int64_t {name} = {text};")
        self.define(step.slot, name)

    def define(self, slot: int, name: str) -> None:
        """Let programs use a slot of the host."""
        self.printer.names = {**self.printer.names, slot: name}

    def check(self, step: M.AssertStep) -> None:
        (text,) = self.values([step.condition])
        message = self.module.messages[step.message]
        self.failing(f"!({text})", f"{self.module.name}: {message}")

    def workspace(self, step: M.WorkspaceStep) -> None:
        (text,) = self.values([step.bytes])
        name = self.names.fresh(f"t{step.slot}")
        memory = self.names.fresh(f"t{step.slot}_memory")
        self.put(f"tl_scratch {memory}(stream);")
        size = f"(size_t)tl_max({text}, 1)"
        result = self.names.fresh("allocated")
        prefix = self.runtime.prefix
        self.put(
            f"const {prefix}Error_t {result} = {prefix}MallocAsync(&{memory}.data, {size}, stream);"
        )
        self.failing_call(result, f"{self.module.name}: no device memory for a workspace")
        self.put(f"const int64_t {name} = (int64_t)(intptr_t){memory}.data;")
        self.define(step.slot, name)

    def branch(self, step: M.IfStep, informations: Mapping[str, Mapping[str, object]]) -> None:
        (text,) = self.values([step.condition])
        with self.block(f"if ({text}) {{", "} else {" if step.orelse else "}"):
            self.write(step.then, informations)
        if step.orelse:
            with self.block(None):
                self.write(step.orelse, informations)

    def loop(self, step: M.ForStep, informations: Mapping[str, Mapping[str, object]]) -> None:
        start, stop, stride = self.values([step.start, step.stop, step.step])
        if (constant_of(step.step) or 0) <= 0:
            self.failing(
                f"({stride}) <= 0", f"{self.module.name}: the step of a loop is not positive"
            )
        name, end = self.names.fresh(f"t{step.slot}"), self.names.fresh(f"t{step.slot}_end")
        self.define(step.slot, name)
        ends = f"{name} = {start}, {end} = {stop}"
        with self.block(f"for (int64_t {ends}; {name} < {end}; {name} += {stride}) {{"):
            self.write(step.body, informations)

    # -- launches ----------------------------------------------------------------------------------
    def launch(self, plan: M.LaunchPlan, info: LaunchInfo) -> None:
        self._refuse(plan)
        with self.block():
            grid = list(info.full_grid)
            if info.has_constant_grid:
                self._start(plan, info, grid)
                return
            self.put(f"const int64_t grid[3] = {{{', '.join(grid)}}};")
            if any(may_be_undefined(program) for program in plan.grid):
                self.partial = True
                self.failing("tl_undefined", f"{self.module.name}: division by zero on the host")
            grid = [f"grid[{axis}]" for axis in range(3)]
            over = " || ".join(f"{text} > {limit}" for text, limit in zip(grid, MAX_GRID))
            self.failing(over, f"the grid of kernel {info.function_name} is too large")
            with self.block(f"if ({' && '.join(f'{text} > 0' for text in grid)}) {{"):
                self._start(plan, info, grid)

    def _refuse(self, plan: M.LaunchPlan) -> None:
        if self.runtime.extended:
            return
        maps = any(arg.kind == TENSOR_MAP for arg in plan.args)
        if plan.cluster != (1, 1, 1) or plan.pdl or maps:
            raise TileUnsupportedError(
                f"the kernel {plan.kernel} cannot be launched by HIP",
                expected="no clusters, dependent launches or tensor maps",
                got=f"cluster={plan.cluster}, pdl={plan.pdl}, tensor maps={maps}",
            )

    def _start(self, plan: M.LaunchPlan, info: LaunchInfo, grid: list[str]) -> None:
        self.put_own_maps(plan)
        pointers = [self._argument(arg) for arg in plan.args]
        self.put(f"void* arguments[] = {{{', '.join(pointers) or 'nullptr'}}};")
        grid_text = ", ".join(f"(unsigned){text}" for text in grid)
        if info.has_constant_grid:
            grid_text = ", ".join(grid)
        block = ", ".join(map(str, info.full_block))
        windows = self.windows_of(self.keys[id(plan)])
        for window in windows:
            self.put_template(self.window_text(window))
        if self.runtime.extended:
            self._extended(plan, info, grid_text, block)
        else:
            start = "hipLaunchCooperativeKernel" if plan.cooperative else "hipLaunchKernel"
            tail = f"(unsigned){info.dynamic_smem_buf}, stream"
            if not plan.cooperative:
                tail = f"(size_t){info.dynamic_smem_buf}, stream"
            self.put(
                f"const hipError_t error = {start}((const void*){info.function_name}, "
                f"dim3({grid_text}), dim3({block}), arguments, {tail});"
            )
        if windows:
            self.put_template(templates.L2_PERSISTENT_MAP_RESET_HANDLE)
        self.failing_call("error", f"Failed to launch kernel {info.function_name}")

    def _extended(self, plan: M.LaunchPlan, info: LaunchInfo, grid: str, block: str) -> None:
        """A launch with attributes."""
        self.put("cudaLaunchConfig_t config = {};")
        self.put(f"config.gridDim = dim3({grid});")
        self.put(f"config.blockDim = dim3({block});")
        self.put(f"config.dynamicSmemBytes = {info.dynamic_smem_buf};")
        self.put("config.stream = stream;")
        attributes: list[tuple[str, list[str]]] = []
        if plan.cluster != (1, 1, 1):
            dims = [f"clusterDim.{axis} = {n}" for axis, n in zip("xyz", plan.cluster)]
            attributes.append(("cudaLaunchAttributeClusterDimension", dims))
        if plan.cooperative:
            attributes.append(("cudaLaunchAttributeCooperative", ["cooperative = 1"]))
        if plan.pdl:
            allowed = "programmaticStreamSerializationAllowed = 1"
            attributes.append(("cudaLaunchAttributeProgrammaticStreamSerialization", [allowed]))
        if attributes:
            self.put(f"cudaLaunchAttribute attributes[{len(attributes)}] = {{}};")
            for number, (name, values) in enumerate(attributes):
                self.put(f"attributes[{number}].id = {name};")
                for value in values:
                    self.put(f"attributes[{number}].val.{value};")
            self.put("config.attrs = attributes;")
            self.put(f"config.numAttrs = {len(attributes)};")
        kernel = f"(const void*){info.function_name}"
        self.put(f"const cudaError_t error = cudaLaunchKernelExC(&config, {kernel}, arguments);")

    def _argument(self, arg: M.KernelArg) -> str:
        """The address of a kernel parameter."""
        if arg.kind == TENSOR_MAP:
            return f"(void*)&{self.variable(arg.dtype)}"
        if arg.kind == "pointer":
            wanted = "void*"
        elif arg.kind == "float":
            wanted = float_form(arg)
        else:
            wanted = value_type(DType(arg.dtype))
        argument = self.by_slot.get(arg.slot)
        if argument is not None:
            pointer = argument.kind in ("tensor", "pointer")
            if pointer if wanted == "void*" else c_type(argument) == wanted:
                return f"(void*)&{self.argument_names[arg.slot]}"
        if arg.kind == "float":
            value = self.parameter_name(arg)
        else:
            value = self.printer.names[arg.slot]
        name = self.names.fresh("argument")
        cast = "(void*)(intptr_t)" if wanted == "void*" else f"({wanted})"
        self.put(f"{wanted} {name} = {cast}{value};")
        return f"(void*)&{name}"

    # -- parts that wrappers give on their own -----------------------------------------------------
    def window_text(self, window: Window) -> str:
        """Set the window of persisting L2 lines."""
        return templates.L2_PERSISTENT_MAP_INIT_FUNC.format(
            self.argument_names[window.slot], f"{window.ratio}f",
            f"tl_l2_window({self.printer.text(window.bytes)})",
        )  # fmt: skip

    def put_map_unless_empty(self, variable: str, text: str, extents: list[str]) -> None:
        declared, _, rest = text.strip("\n").partition(";\n")
        self.put_template(f"{declared} = {{}};")
        with self.block(f"if ({' && '.join(f'({extent}) > 0' for extent in extents)}) {{"):
            self.put_template(rest)

    def map_text(self, variable: str, descriptor: TmaDescriptor, tensor: str) -> str:
        def listed(numbers: tuple[int | Program, ...], kind: str = "") -> str:
            return ", ".join(f"{kind}({text})" if kind else text for text in self.extents(numbers))

        d = descriptor
        head = (
            variable, d.data_type, d.rank, f"(void*){tensor}", listed(d.dims, "(cuuint64_t)"),
            listed(d.strides, "(cuuint64_t)"),
        )  # fmt: skip
        tail = (d.interleave, d.swizzle, d.l2_promotion, d.fill)
        if d.is_im2col:
            return templates.TMA_IM2COL_DESC_INIT_FUNC.format(
                *head, listed(d.element_strides), listed(d.lower), listed(d.upper), d.channels,
                d.pixels, *tail,
            )  # fmt: skip
        return templates.TMA_DESC_INIT_FUNC.format(
            *head, listed(d.box), listed(d.element_strides), *tail
        )
