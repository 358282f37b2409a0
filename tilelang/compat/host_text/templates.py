"""The fixed parts of generated host source, as ``str.format`` templates.

C templates end up in one file behind the device source; Python templates in a module over
``cuda.bindings.driver``. Both are indented by tabs.
"""

# ruff: noqa: E501  # templates keep the line structure of the text they produce

from __future__ import annotations

# -- C ---------------------------------------------------------------------------------------------
# Part of ``init``: {0} kernel, {1} bytes of dynamic shared memory.
PREDEF_ATTRIBUTE_SET_DYNAMIC_MEMORY = """
    cudaError_t result_{0} = cudaFuncSetAttribute({0}, cudaFuncAttributeMaxDynamicSharedMemorySize, {1});
    if (result_{0} != cudaSuccess) {{
        snprintf(error_buf, ERROR_BUF_SIZE, "Failed to set the allowed dynamic shared memory size to %d with error: %s", {1}, cudaGetErrorString(result_{0}));
        return -1;
    }}
"""

# The same for HIP, where up to 64 KiB need no attribute. It ends ``init``.
PREDEF_ATTRIBUTE_SET_DYNAMIC_MEMORY_HIP = """
    if ({1} > 65536) {{
        snprintf(error_buf, ERROR_BUF_SIZE, "Failed to set the allowed dynamic shared memory size for {0} to %d", {1});
        return -1;
    }}
    return 0;
"""

# Part of ``init``: {0} kernel, whose clusters have more than 8 blocks.
PREDEF_ATTRIBUTE_SET_NON_PORTABLE_CLUSTER = """
    cudaError_t cluster_{0} = cudaFuncSetAttribute({0}, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    if (cluster_{0} != cudaSuccess) {{
        snprintf(error_buf, ERROR_BUF_SIZE, "Failed to allow large clusters for {0}: %s", cudaGetErrorString(cluster_{0}));
        return -1;
    }}
"""

# {0} the attributes of all kernels.
PREDEF_INIT_FUNC = """
#define ERROR_BUF_SIZE 1024
static char error_buf[ERROR_BUF_SIZE];

extern "C" const char* get_last_error() {{
    return error_buf;
}}

extern "C" int init() {{
    error_buf[0] = '\\0';
    {0}
    return 0;
}}
"""

# Parameters and body of ``call``.
PREDEF_HOST_FUNC = """
extern "C" int call({}) {{
{}
\treturn 0;
}}
"""

# The Python module: names of the kernels, parameters and body of ``call``.
PREDEF_HOST_FUNC_PY = """
import cuda.bindings.driver
import ctypes

_function_names = {}

def call({}):
    {}
"""

# -- the window of persisting L2 lines: {0} address, {1} hit ratio, {2} bytes -----------------------
L2_PERSISTENT_MAP_CREATE_HANDLE = """
\tcudaStreamAttrValue stream_attribute;
\tsize_t init_persisting_l2_cache_size;
\tcudaDeviceGetLimit(&init_persisting_l2_cache_size, cudaLimitPersistingL2CacheSize);
"""

L2_PERSISTENT_MAP_INIT_FUNC = """
\tstream_attribute.accessPolicyWindow.hitRatio = {1};
\tstream_attribute.accessPolicyWindow.hitProp = cudaAccessPropertyPersisting;
\tstream_attribute.accessPolicyWindow.missProp = cudaAccessPropertyStreaming;
\tcudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, {2});
\tstream_attribute.accessPolicyWindow.base_ptr = (void*)({0});
\tstream_attribute.accessPolicyWindow.num_bytes = {2};
\tcudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &stream_attribute);
"""

L2_PERSISTENT_MAP_RESET_HANDLE = """
\tstream_attribute.accessPolicyWindow.num_bytes = 0;
\tcudaStreamSetAttribute(stream, cudaStreamAttributeAccessPolicyWindow, &stream_attribute);
\tcudaCtxResetPersistingL2Cache();
\tcudaDeviceSetLimit(cudaLimitPersistingL2CacheSize, init_persisting_l2_cache_size);
"""

# Ends of the names that the text of a tensor map declares.
MAP_FIELDS = tuple(
    " _type _tensorRank _globalAddress _globalDim _globalStride _boxDim _elementStrides "
    "_lowerCorner _upperCorner _channelsPerPixel _pixelsPerColumn _interleave _swizzle "
    "_l2Promotion _oobFill _result".split(" ")
)

# -- tensor maps -----------------------------------------------------------------------------------
_FIELDS = """
\tCUtensorMap {0};
\tCUtensorMapDataType {0}_type= (CUtensorMapDataType){1};
\tcuuint32_t {0}_tensorRank= {2};
\tvoid *{0}_globalAddress= {3};
\tcuuint64_t {0}_globalDim[{2}]= {{{4}}};
\tcuuint64_t {0}_globalStride[{2}]= {{{5}}};
"""
_FAILED = """
\tif ({0}_result != CUDA_SUCCESS) {{
\t\tstd::stringstream ss;
\t\tss << "Error: Failed to initialize the TMA descriptor {0}";
\t\tsnprintf(error_buf, ERROR_BUF_SIZE, "%s", ss.str().c_str());
\t\treturn -1;
\t}}
"""
# {0} name, {1} data type, {2} rank, {3} address, {4} dims, {5} strides in bytes with that of the
# innermost dim first, {6} box, {7} element strides, {8} interleave, {9} swizzle, {10} L2 promotion,
# {11} fill of elements outside.
TMA_DESC_INIT_FUNC = (
    _FIELDS
    + """\tcuuint32_t {0}_boxDim[{2}]= {{{6}}};
\tcuuint32_t {0}_elementStrides[{2}]= {{{7}}};
\tCUtensorMapInterleave {0}_interleave= (CUtensorMapInterleave){8};
\tCUtensorMapSwizzle {0}_swizzle= (CUtensorMapSwizzle){9};
\tCUtensorMapL2promotion {0}_l2Promotion= (CUtensorMapL2promotion){10};
\tCUtensorMapFloatOOBfill {0}_oobFill= (CUtensorMapFloatOOBfill){11};

\tCUresult {0}_result = CUTLASS_CUDA_DRIVER_WRAPPER_CALL(cuTensorMapEncodeTiled)(
    &{0}, {0}_type, {0}_tensorRank, {0}_globalAddress, {0}_globalDim, {0}_globalStride + 1, {0}_boxDim, {0}_elementStrides, {0}_interleave, {0}_swizzle, {0}_l2Promotion, {0}_oobFill);
"""
    + _FAILED
)

# As above up to {5}, then {6} element strides, {7} and {8} corners, {9} channels per pixel, {10}
# pixels per column, {11} interleave, {12} swizzle, {13} L2 promotion, {14} fill.
TMA_IM2COL_DESC_INIT_FUNC = (
    _FIELDS
    + """\tcuuint32_t {0}_elementStrides[{2}]= {{{6}}};
\tint {0}_lowerCorner[{2} - 2]= {{{7}}};
\tint {0}_upperCorner[{2} - 2]= {{{8}}};
\tcuuint32_t {0}_channelsPerPixel= {9};
\tcuuint32_t {0}_pixelsPerColumn= {10};
\tCUtensorMapInterleave {0}_interleave= (CUtensorMapInterleave){11};
\tCUtensorMapSwizzle {0}_swizzle= (CUtensorMapSwizzle){12};
\tCUtensorMapL2promotion {0}_l2Promotion= (CUtensorMapL2promotion){13};
\tCUtensorMapFloatOOBfill {0}_oobFill= (CUtensorMapFloatOOBfill){14};

\tCUresult {0}_result = CUTLASS_CUDA_DRIVER_WRAPPER_CALL(cuTensorMapEncodeIm2col)(
    &{0}, {0}_type, {0}_tensorRank, {0}_globalAddress, {0}_globalDim, {0}_globalStride + 1,
    {0}_lowerCorner, {0}_upperCorner, {0}_channelsPerPixel, {0}_pixelsPerColumn, {0}_elementStrides, {0}_interleave, {0}_swizzle, {0}_l2Promotion, {0}_oobFill);
"""
    + _FAILED
)

# The same in Python.
_FIELDS_PY = """
\t{0}_type = cuda.bindings.driver.CUtensorMapDataType({1})
\t{0}_tensorRank = {2}
\t{0}_globalAddress = {3}.data_ptr()
\t{0}_globalDim = [{4}]
\t{0}_globalStride = [{5}][1:]"""
_BOX_PY = """
\t{0}_boxDim = [{6}]
\t{0}_elementStrides = [{7}]"""
_PIXELS_PY = """
\t{0}_elementStrides = [{6}]
\t{0}_lowerCorner = [{7}]
\t{0}_upperCorner = [{8}]
\t{0}_channelsPerPixel = {9}
\t{0}_pixelsPerColumn = {10}"""
_MODES = ("interleave", "swizzle", "l2Promotion", "oobFill")
_MODE_TYPES = ("Interleave", "Swizzle", "L2promotion", "FloatOOBfill")
_ENCODE_PY = """

\tres, {{0}} = cuda.bindings.driver.{0}(
{1}\t)

\tif res != cuda.bindings.driver.CUresult.CUDA_SUCCESS:
\t\traise RuntimeError(f"Failed to initialize the TMA descriptor {{0}}: {{{{res}}}}")
"""


def _encoded_in_python(encode: str, fields: str, own: str, first_mode: int) -> str:
    """The template of a call of ``encode``, which takes ``own`` between strides and modes; the modes
    are the values from ``first_mode`` on."""
    for number, (mode, kind) in enumerate(zip(_MODES, _MODE_TYPES), first_mode):
        fields += f"\n\t{{0}}_{mode} = cuda.bindings.driver.CUtensorMap{kind}({{{number}}})"
    names = (*"type tensorRank globalAddress globalDim globalStride".split(), *own.split(), *_MODES)
    return fields + _ENCODE_PY.format(encode, "".join(f"\t\t{{0}}_{name},\n" for name in names))


TMA_DESC_INIT_FUNC_PY = _encoded_in_python(
    "cuTensorMapEncodeTiled", _FIELDS_PY + _BOX_PY, "boxDim elementStrides", 8
)
TMA_IM2COL_DESC_INIT_FUNC_PY = _encoded_in_python(
    "cuTensorMapEncodeIm2col",
    _FIELDS_PY + _PIXELS_PY,
    "lowerCorner upperCorner channelsPerPixel pixelsPerColumn elementStrides",
    11,
)

# {0} kernel, {1} {2} {3} grid, {4} {5} {6} block, {7} bytes of dynamic shared memory, {8} values and
# {9} types of the parameters as tuples, {10} number of the device.
KERNEL_LAUNCH_FUNC_PY = """
\tres = cuda.bindings.driver.cuKernelSetAttribute(
\t\tcuda.bindings.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
\t\t{7},
\t\tkernels["{0}"],
\t\tcuda.bindings.driver.CUdevice({10})
\t)[0]
\tif res != cuda.bindings.driver.CUresult.CUDA_SUCCESS:
\t\traise RuntimeError(f"Failed to set max dynamic shared memory size to {7} for kernel {0}: {{res}}")

\tconfig = cuda.bindings.driver.CUlaunchConfig()
\tconfig.gridDimX = {1}
\tconfig.gridDimY = {2}
\tconfig.gridDimZ = {3}
\tconfig.blockDimX = {4}
\tconfig.blockDimY = {5}
\tconfig.blockDimZ = {6}
\tconfig.sharedMemBytes = {7}
\tconfig.hStream = stream

\targ_values = {8}
\targ_types = {9}

\tres = cuda.bindings.driver.cuLaunchKernelEx(config, kernels["{0}"], (arg_values, arg_types), 0)[0]
\tif res != cuda.bindings.driver.CUresult.CUDA_SUCCESS:
\t\traise RuntimeError(f"Failed to launch kernel {0}: {{res}}")
"""

# {0} kernel, whose clusters have more than 8 blocks, {1} number of the device.
KERNEL_CLUSTER_ATTRIBUTE_PY = """
\tres = cuda.bindings.driver.cuKernelSetAttribute(
\t\tcuda.bindings.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
\t\t1,
\t\tkernels["{0}"],
\t\tcuda.bindings.driver.CUdevice({1})
\t)[0]
\tif res != cuda.bindings.driver.CUresult.CUDA_SUCCESS:
\t\traise RuntimeError(f"Failed to allow large clusters for kernel {0}: {{res}}")
"""

# -- the same window in Python ---------------------------------------------------------------------
L2_PERSISTENT_MAP_CREATE_HANDLE_PY = """
\t_l2_limit = cuda.bindings.driver.CUlimit.CU_LIMIT_PERSISTING_L2_CACHE_SIZE
\t_l2_attribute = cuda.bindings.driver.CUstreamAttrID.CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
\t_l2_value = cuda.bindings.driver.CUstreamAttrValue()
\tres, _l2_before = cuda.bindings.driver.cuCtxGetLimit(_l2_limit)
"""

L2_PERSISTENT_MAP_INIT_FUNC_PY = """
\t_l2_bytes = {2}
\tcuda.bindings.driver.cuCtxSetLimit(_l2_limit, _l2_bytes)
\t_l2_value.accessPolicyWindow.base_ptr = {0}
\t_l2_value.accessPolicyWindow.num_bytes = _l2_bytes
\t_l2_value.accessPolicyWindow.hitRatio = {1}
\t_l2_value.accessPolicyWindow.hitProp = cuda.bindings.driver.CUaccessProperty.CU_ACCESS_PROPERTY_PERSISTING
\t_l2_value.accessPolicyWindow.missProp = cuda.bindings.driver.CUaccessProperty.CU_ACCESS_PROPERTY_STREAMING
\tcuda.bindings.driver.cuStreamSetAttribute(stream, _l2_attribute, _l2_value)
"""

L2_PERSISTENT_MAP_RESET_HANDLE_PY = """
\t_l2_value.accessPolicyWindow.num_bytes = 0
\tcuda.bindings.driver.cuStreamSetAttribute(stream, _l2_attribute, _l2_value)
\tcuda.bindings.driver.cuCtxResetPersistingL2Cache()
\tcuda.bindings.driver.cuCtxSetLimit(_l2_limit, _l2_before)
"""
