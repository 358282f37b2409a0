"""The document of ``tilelang.jit.adapter.wrapper``: templates and the wrappers of GPU sources."""

from __future__ import annotations

import ast
import inspect
import logging
import re
from typing import Any

import pytest
from refusals import refusal
from tensor_types import F32

import tilelang.language as T
from tilelang.codegen.gpu.module import GpuModule, KernelArg, LaunchPlan
from tilelang.compat.host_text.host_module import HostModule, host_module
from tilelang.compiler import compile as compile_program
from tilelang.cuda.dialect import emit_cuda
from tilelang.cuda.tma_descriptor import TmaDescriptor
from tilelang.errors import TileUnsupportedError, TileValueError
from tilelang.jit.adapter import wrapper
from tilelang.target import Target, parse_target

WRAPPER_PARAMETERS = (
    "scheduled_ir_module", "source", "target", "device_mod", "host_mod", "pass_configs",
)  # fmt: skip
CUDA_ATTRIBUTES = (
    "backend", "device_mod", "host_mod", "pass_configs", "mod", "target", "source",
    "function_names", "dynamic_smem_buf", "block_info", "grid_info", "tma_descriptor_args",
    "l2_persistent_map", "srcpath", "libpath", "lib_code", "prim_func", "device_func", "host_func",
)  # fmt: skip
METAL_ATTRIBUTES = (
    "mod", "target", "source", "pass_configs", "device_mod", "host_mod", "lib_code",
)  # fmt: skip
CUDA_CLASSES = (
    wrapper.TLCUDASourceWrapper, wrapper.TLNVRTCSourceWrapper, wrapper.TLHIPSourceWrapper,
)  # fmt: skip

n, stride = T.dynamic("n"), T.dynamic("stride")


@T.prim_func
def scale(A: T.StridedTensor((n,), (stride,), "float32"), B: F32[n], s: T.float32):
    with T.Kernel(T.ceildiv(n, 128), threads=128) as bx:
        T.annotate_l2_hit_ratio({A: 0.75})
        i = bx * 128 + T.get_thread_binding()
        if i < n:
            B[i] = A[i] * s


def emitted() -> GpuModule:
    return emit_cuda(scale, Target("cuda", "sm_80"))


def made(cls: Any = wrapper.TLCUDASourceWrapper, **changes: Any) -> Any:
    module = emitted()
    values = {"device_mod": module, "pass_configs": {"a": 1}, **changes}
    return cls(scale, module.source, "hip" if cls is CUDA_CLASSES[2] else "cuda", **values)


def with_map() -> HostModule:
    module = emitted()
    (plan,) = module.steps
    assert isinstance(plan, LaunchPlan)
    maps = (KernelArg(-1, "tensormap", "B_desc"), KernelArg(-1, "tensormap", "B_desc_1"))
    changed = LaunchPlan(plan.kernel, plan.grid, plan.threads, 1024, (*maps, *plan.args))
    found = GpuModule(module.source, (changed,), module.slots, (), module.kernels)
    near = TmaDescriptor("B", 7, (("$3",),), (4,), (1,), box=(32,))
    wide = TmaDescriptor("B", 7, (("$3",),), (4,), (1,), box=(64,), l2_promotion=2)
    return host_module(found, scale, {"B_desc": near, "B_desc_1": wide})


# -- templates -------------------------------------------------------------------------------------
def test_the_logger_has_the_name_of_the_module() -> None:
    assert isinstance(wrapper.logger, logging.Logger)
    assert wrapper.logger.name == "tilelang.jit.adapter.wrapper"


def test_the_c_templates_read_as_documented() -> None:
    init = wrapper.PREDEF_INIT_FUNC.format("ATTRIBUTES")
    assert init == (
        "\n#define ERROR_BUF_SIZE 1024\nstatic char error_buf[ERROR_BUF_SIZE];\n\n"
        'extern "C" const char* get_last_error() {\n    return error_buf;\n}\n\n'
        "extern \"C\" int init() {\n    error_buf[0] = '\\0';\n    ATTRIBUTES\n    return 0;\n}\n"
    )
    host = wrapper.PREDEF_HOST_FUNC.format("int n", "\tbody();")
    assert host == '\nextern "C" int call(int n) {\n\tbody();\n\treturn 0;\n}\n'
    assert wrapper.PREDEF_ATTRIBUTE_SET_DYNAMIC_MEMORY.format("k", 512) == (
        "\n    cudaError_t result_k = cudaFuncSetAttribute(k, "
        "cudaFuncAttributeMaxDynamicSharedMemorySize, 512);\n"
        "    if (result_k != cudaSuccess) {\n"
        '        snprintf(error_buf, ERROR_BUF_SIZE, "Failed to set the allowed dynamic shared '
        'memory size to %d with error: %s", 512, cudaGetErrorString(result_k));\n'
        "        return -1;\n    }\n"
    )


def test_the_hip_template_reads_as_documented() -> None:
    assert wrapper.PREDEF_ATTRIBUTE_SET_DYNAMIC_MEMORY_HIP == (
        "\n    if ({1} > 65536) {{\n"
        '        snprintf(error_buf, ERROR_BUF_SIZE, "Failed to set the allowed dynamic shared '
        'memory size for {0} to %d", {1});\n'
        "        return -1;\n    }}\n    return 0;\n"
    )


def test_the_python_module_template_reads_as_documented() -> None:
    assert wrapper.PREDEF_HOST_FUNC_PY == (
        "\nimport cuda.bindings.driver\nimport ctypes\n\n_function_names = {}\n\n"
        "def call({}):\n    {}\n"
    )


def test_the_l2_templates_read_as_documented() -> None:
    assert (
        wrapper.L2_PERSISTENT_MAP_CREATE_HANDLE.split()
        == (
            "cudaStreamAttrValue stream_attribute; size_t init_persisting_l2_cache_size; "
            "cudaDeviceGetLimit(&init_persisting_l2_cache_size, cudaLimitPersistingL2CacheSize);"
        ).split()
    )
    lines = wrapper.L2_PERSISTENT_MAP_INIT_FUNC.format("A", 0.5, 64).strip("\n").split("\n")
    assert lines == [
        "\tstream_attribute.accessPolicyWindow.hitRatio = 0.5;",
        "\tstream_attribute.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;",
        "\tstream_attribute.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;",
        "\tcudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, 64);",
        "\tstream_attribute.accessPolicyWindow.base_ptr = (void*)(A);",
        "\tstream_attribute.accessPolicyWindow.num_bytes = 64;",
        "\tcudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, "
        "&stream_attribute);",
    ]
    lines = wrapper.L2_PERSISTENT_MAP_RESET_HANDLE.strip("\n").split("\n")
    assert lines == [
        "\tstream_attribute.accessPolicyWindow.num_bytes = 0;",
        "\tcudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, "
        "&stream_attribute);",
        "\tcudaCtxResetPersistingL2Cache();",
        "\tcudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, init_persisting_l2_cache_size);",
    ]


def test_the_tensor_map_templates_pass_every_parameter() -> None:
    values = [f"v{number}" for number in range(15)]
    tiled = wrapper.TMA_DESC_INIT_FUNC.format(*values)
    assert (
        "&v0, v0_type, v0_tensorRank, v0_globalAddress, v0_globalDim, v0_globalStride + 1, "
        "v0_boxDim, v0_elementStrides, v0_interleave, v0_swizzle, v0_l2Promotion, v0_oobFill);"
    ) in tiled
    gathered = wrapper.TMA_IM2COL_DESC_INIT_FUNC.format(*values)
    assert (
        "v0_lowerCorner, v0_upperCorner, v0_channelsPerPixel, v0_pixelsPerColumn, "
        "v0_elementStrides, v0_interleave, v0_swizzle, v0_l2Promotion, v0_oobFill);"
    ) in gathered
    for text, last in ((tiled, 12), (gathered, 15)):
        words = re.findall(r"\bv\d+\b", text)
        assert set(words) == {f"v{number}" for number in range(last)}
        assert 'ss << "Error: Failed to initialize the TMA descriptor v0";' in text
        assert "CUtensorMapDataType v0_type= (CUtensorMapDataType)v1;" in text
    python = wrapper.TMA_DESC_INIT_FUNC_PY.format(*values)
    assert set(re.findall(r"\bv\d+\b", python)) == {f"v{number}" for number in range(12)}
    assert python.count("v0_oobFill") == python.count("v0_type") == 2
    assert "v0_globalAddress = v3.data_ptr()" in python
    assert "v0_globalStride = [v5][1:]" in python
    assert "Failed to initialize the TMA descriptor v0: {res}" in python


def test_the_python_launch_template_runs_without_other_names() -> None:
    values = ["k", *(f"v{number}" for number in range(1, 11))]
    text = "def f():" + wrapper.KERNEL_LAUNCH_FUNC_PY.format(*values)
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    setting = ast.unparse(function.body[0])
    assert setting == (
        "res = cuda.bindings.driver.cuKernelSetAttribute(cuda.bindings.driver.CUfunction_attribute."
        "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, v7, kernels['k'], "
        "cuda.bindings.driver.CUdevice(v10))[0]"
    )
    rest = "\n".join(map(ast.unparse, function.body[1:]))
    axes = (f"{what}Dim{axis}" for what in ("grid", "block") for axis in "XYZ")
    for number, axis in enumerate(axes, 1):
        assert f"config.{axis} = v{number}\n" in rest
    assert "raise RuntimeError(f'Failed to launch kernel k: {res}')" in rest
    assert "cuLaunchKernelEx(config, kernels['k'], (arg_values, arg_types), 0)[0]" in rest
    known = {"cuda", "kernels", "stream", "RuntimeError", *values}
    names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    assert names <= known | {"res", "config", "arg_values", "arg_types"}


# -- classes ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "cls", [*CUDA_CLASSES, wrapper.TLMetalSourceWrapper, wrapper.TLCPUSourceWrapper]
)
def test_the_wrappers_take_the_documented_parameters(cls: type) -> None:
    signature = inspect.signature(cls)
    assert tuple(signature.parameters) == WRAPPER_PARAMETERS
    optional = [name for name, p in signature.parameters.items() if p.default is None]
    assert tuple(optional) == WRAPPER_PARAMETERS[3:]


@pytest.mark.parametrize("method", ["get_init_func", "get_stream_type"])
def test_the_hip_wrapper_has_its_own(method: str) -> None:
    assert method in vars(wrapper.TLHIPSourceWrapper)
    assert getattr(made(wrapper.TLHIPSourceWrapper), method)()


@pytest.mark.parametrize("name", ["prim_func", "device_func", "host_func"])
def test_functions_are_properties(name: str) -> None:
    assert isinstance(getattr(wrapper.TLCUDASourceWrapper, name), property)
    assert getattr(made(), name) is scale


@pytest.mark.parametrize("cls", CUDA_CLASSES)
def test_the_wrappers_have_the_documented_attributes(cls: Any) -> None:
    found = made(cls)
    for name in CUDA_ATTRIBUTES:
        assert hasattr(found, name), name
    assert found.backend == cls.backend == "tl"
    assert found.mod is scale and found.source == emitted().source
    assert found.target == ("hip" if cls is CUDA_CLASSES[2] else "cuda")
    assert cls(scale, found.source, parse_target("cuda"), emitted()).target == parse_target("cuda")
    assert found.device_mod == emitted() and found.host_mod is None
    assert found.pass_configs == {"a": 1}
    assert found.srcpath is None and found.libpath is None
    assert cls.device_mod is None and cls.host_mod is None and cls.pass_configs is None


# -- behaviour -------------------------------------------------------------------------------------
def test_the_launch_information_is_found() -> None:
    found = made()
    assert found.function_names == "scale_kernel"
    assert found.block_info == {"scale_kernel": [128, 1, 1]}
    assert found.grid_info == {"scale_kernel": ["tl_floordiv((int64_t)n + 127, 128)", "1", "1"]}
    assert found.dynamic_smem_buf == 0
    assert found.tma_descriptor_args is None
    assert found.l2_persistent_map == {"scale_kernel": {"A": (0.75, "4 * (int64_t)n")}}
    python = made(wrapper.TLNVRTCSourceWrapper)
    assert python.grid_info == {"scale_kernel": ["(n + 127) // 128", "1", "1"]}
    assert python.l2_persistent_map == {"scale_kernel": {"A": (0.75, "4 * n")}}


def test_symbols_are_named_in_the_order_of_call() -> None:
    assert made().get_dynamic_symbolic_set(scale) == ["n", "stride"]


def test_the_stream_is_the_last_parameter() -> None:
    expected = (
        ("stream=cudaStreamDefault", "cudaStream_t"), ("stream=0", "int"),
        ("stream=hipStreamDefault", "hipStream_t"),
    )  # fmt: skip
    for cls, (name, kind) in zip(CUDA_CLASSES, expected):
        assert made(cls).get_stream_type() == {"name": name, "type": kind}


def test_the_cuda_host_source_has_kernel_init_and_call() -> None:
    found = made()
    code = found.lib_code
    assert (
        'extern "C" int call(float* A, float* B, float s, int32_t n, int32_t stride, '
        "cudaStream_t stream=cudaStreamDefault) {"
    ) in code
    own = found.source[found.source.index('extern "C"') :].strip()
    places = [code.index(part) for part in (own, found.get_init_func(), "int call(")]
    assert places == sorted(places)
    assert '#include "' not in code  # it needs nothing but the toolkit
    assert found.update_lib_code(found.source) == code


def test_the_hip_host_source_uses_hip() -> None:
    code = made(wrapper.TLHIPSourceWrapper).lib_code
    assert "hipStream_t stream=hipStreamDefault) {" in code
    assert "cudaLaunch" not in code and "accessPolicyWindow" not in code


def test_the_nvrtc_host_source_is_a_python_module() -> None:
    found = made(wrapper.TLNVRTCSourceWrapper)
    tree = ast.parse(found.lib_code)
    call = next(node for node in tree.body if isinstance(node, ast.FunctionDef))
    assert call.name == "call"
    assert [a.arg for a in call.args.args] == ["kernels", "A", "B", "s", "n", "stride", "stream"]
    assert [ast.unparse(value) for value in call.args.defaults] == ["0"]
    assert "_function_names = ['scale_kernel']" in found.lib_code
    assert found.update_lib_code(found.source) == found.lib_code


def test_a_dispatch_function_follows_its_information() -> None:
    found = made()
    information = {
        "function_name": "scale_kernel", "block_info": [64, 2, 1], "grid_info": [7, 1, 1],
        "dynamic_smem_buf": 4096,
    }  # fmt: skip
    text = found.create_dispatch_func(found.source, {"scale_kernel": information})
    assert "dim3(7, 1, 1)" in text and "dim3(64, 2, 1)" in text
    assert "config.dynamicSmemBytes = 4096;" in text
    assert refusal(TileValueError, found.create_dispatch_func, found.source, {}) == (
        "nothing is known about the kernel scale_kernel\n"
        "  expected: function_informations with an entry for each launch\n"
        "  got: none"
    )
    with pytest.raises(TileValueError, match="the source has no kernel scale_kernel"):
        found.create_dispatch_func("", {"scale_kernel": information})


def test_attributes_decide_what_is_generated() -> None:
    found = made()
    found.dynamic_smem_buf = 50000
    found.block_info["scale_kernel"] = [32, 1, 1]
    code = found.update_lib_code(found.source)
    assert "MaxDynamicSharedMemorySize, 50000)" in code
    assert "dim3(32, 1, 1)" in code and "dynamicSmemBytes = 50000" in code


def test_several_kernels_are_named_in_order_with_the_most_shared_memory() -> None:
    @T.prim_func
    def two(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64) as bx:
            A[T.get_thread_binding()] = 1.0
        with T.Kernel(1, threads=64) as bx:
            tile = T.alloc_shared((16384,), "float32")
            T.fill(tile, 2.0)
            A[T.get_thread_binding()] = tile[T.get_thread_binding() + 64]

    artifact = compile_program(two, Target("cuda", "sm_80"))
    found = wrapper.TLCUDASourceWrapper(two, artifact.source, "cuda", artifact)
    assert found.function_names == "two_kernel, two_kernel_2"
    assert found.dynamic_smem_buf == 65536
    assert found.lib_code.count("dynamicSmemBytes = 0;") == 1


def test_every_tensor_with_a_hint_has_a_window() -> None:
    @T.prim_func
    def both(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            T.annotate_l2_hit_ratio({B: 0.5, A: 0.25})
            B[T.get_thread_binding()] = A[T.get_thread_binding()]

    module = emit_cuda(both, Target("cuda", "sm_80"))
    for cls, address in zip(CUDA_CLASSES[:2], ("(void*)({})", "{}.data_ptr()")):
        found = cls(both, module.source, "cuda", module)
        (windows,) = found.l2_persistent_map.values()
        assert {name: ratio for name, (ratio, _) in windows.items()} == {"A": 0.25, "B": 0.5}
        text = found.generate_l2_persistent_map("both_kernel")
        # The last one that is set serves the launch: that of the highest ratio.
        assert text.index(address.format("A")) < text.index(address.format("B"))
        assert text.count("num_bytes = ") == 2
        assert all(line.strip() in found.lib_code for line in text.splitlines())
        assert found.generate_l2_persistent_map("other") == ""
    hip = made(wrapper.TLHIPSourceWrapper)
    assert hip.generate_l2_persistent_map("scale_kernel") == ""


def test_tensor_maps_are_generated_by_name() -> None:
    found = made(device_mod=with_map())
    assert set(found.tma_descriptor_args) == {"B_desc", "B_desc_1"}
    assert found.is_tma_descriptor_arg("B_desc") and not found.is_tma_descriptor_arg("B")
    assert not made().is_tma_descriptor_arg("B_desc")
    text = found.generate_tma_descriptor_args({"x": "B_desc", "y": "B_desc_1"}, {"B_desc": "C"})
    assert "CUtensorMap x;" in text and "CUtensorMap y;" in text
    assert "x_globalAddress= (void*)C;" in text and "y_globalAddress= (void*)B;" in text
    assert "x_boxDim[1]= {32};" in text and "y_boxDim[1]= {64};" in text
    python = made(wrapper.TLNVRTCSourceWrapper, device_mod=with_map())
    text = python.generate_tma_descriptor_args({"x": "B_desc"})
    assert "x_globalAddress = B.data_ptr()" in text
    assert "x_globalDim = [cuda.bindings.driver.cuuint64_t(n)]" in text
    assert "(B_desc, B_desc_1, A.data_ptr()," in python.lib_code


def test_copies_of_tiles_have_tensor_maps() -> None:
    """The language's own copies need no ``T.create_tma_descriptor``."""

    @T.prim_func
    def moves(A: T.Tensor((256, 64), "float16"), B: T.Tensor((256, 64), "float16")):
        with T.Kernel(4, threads=128) as bx:
            tile = T.alloc_shared((64, 64), "float16")
            T.copy(A[bx * 64, 0], tile)
            T.copy(tile, B[bx * 64, 0])

    artifact = compile_program(moves, Target("cuda", "sm_90a"))
    found = wrapper.TLCUDASourceWrapper(moves, artifact.source, "cuda -arch=sm_90a", artifact)
    assert list(found.tma_descriptor_args or {}) == ["A_map", "B_map"]
    for name in ("A", "B"):
        assert f"CUtensorMap {name}_map;" in found.lib_code
        assert f"{name}_map_globalAddress= (void*){name};" in found.lib_code


def test_a_source_without_the_kernel_is_refused() -> None:
    with pytest.raises(TileValueError) as error:
        wrapper.TLCUDASourceWrapper(scale, "int x;", "cuda", emitted())
    assert str(error.value) == (
        "the source has no kernel scale_kernel\n"
        "  expected: a __global__ function for each of scale_kernel"
    )


def test_an_invalid_device_module_is_an_error() -> None:
    with pytest.raises(TileValueError) as error:
        wrapper.TLCUDASourceWrapper(scale, emitted().source, "cuda", 3)
    assert str(error.value) == (
        "the device module has no launch parameters\n"
        "  expected: a GpuModule, a HostModule or an artifact of compilation\n"
        "  got: 3"
    )


def test_metal_source_needs_no_host() -> None:
    found = wrapper.TLMetalSourceWrapper(scale, "kernel void k() {}", "metal", pass_configs={})
    for name in METAL_ATTRIBUTES:
        assert hasattr(found, name), name
    assert found.lib_code == found.source == "kernel void k() {}"
    assert (found.mod, found.target, found.pass_configs) == (scale, "metal", {})
    assert (found.device_mod, found.host_mod) == (None, None)
    assert found.update_lib_code("other") == found.lib_code == "other"


@pytest.mark.parametrize(
    ("target", "cls"),
    [("cuda", CUDA_CLASSES[0]), ("cuda -arch=sm_90", CUDA_CLASSES[0]), ("hip", CUDA_CLASSES[2])],
)
def test_the_wrapper_of_the_target_is_chosen(target: str, cls: Any) -> None:
    module = emitted()
    chosen = wrapper.TLWrapper(target)
    chosen.assign_optimized_module({"main": scale})
    chosen.assign_device_module(module)
    expected = cls(scale, module.source, target, module).lib_code
    assert chosen.wrap(module.source) == expected


def test_metal_source_is_the_text_of_the_generator() -> None:
    source = compile_program(scale, Target("metal")).source
    chosen = wrapper.TLWrapper("metal")
    chosen.assign_optimized_module(scale)
    assert chosen.wrap(source) == source and "kernel void scale_kernel(device " in source


def test_the_python_wrapper_gives_the_python_host() -> None:
    module = emitted()
    chosen = wrapper.TLPyWrapper(Target("cuda"))
    chosen.assign_optimized_module(scale)
    chosen.assign_device_module(module)
    expected = wrapper.TLNVRTCSourceWrapper(scale, module.source, "cuda", module).lib_code
    assert chosen.wrap(module.source) == expected


@pytest.mark.parametrize(
    ("cls", "target", "known"),
    [(wrapper.TLWrapper, "webgpu", "cpu, cuda, hip, metal"), (wrapper.TLPyWrapper, "hip", "cuda")],
)
def test_other_targets_are_refused(cls: Any, target: str, known: str) -> None:
    chosen = cls(target)
    chosen.assign_optimized_module(scale)
    assert refusal(TileUnsupportedError, chosen.wrap, "") == (
        f"no host wrapper for the target {target}\n"
        f"  expected: a target of kind {known}\n"
        f"  got: target='{target}'"
    )
