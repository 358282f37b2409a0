"""What XLA calls on a GPU, with a driver that takes notes in place of XLA's and the GPU's own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import cuda_stub
import numpy as np
import pytest
from tensor_types import F16, F32

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.cuda.nvrtc import find_nvrtc

jax = pytest.importorskip("jax", reason="the header of XLA's calls is jax's")
if find_compiler(quiet=True) is None or find_nvrtc() is None:
    pytest.skip("needs a C compiler and NVRTC", allow_module_level=True)

# Calls a handler as XLA does: buffers by address, on a stream that it asks for.
CALLER = r"""
#include <stdio.h>
#include <string.h>
#include "xla/ffi/api/c_api.h"
static char text[256];
static XLA_FFI_Error* create(XLA_FFI_Error_Create_Args* a) {
    snprintf(text, sizeof text, "%s", a->message);
    return (XLA_FFI_Error*)text;
}
static XLA_FFI_Error* stream_of(XLA_FFI_Stream_Get_Args* a) { a->stream = a->ctx; return 0; }
__attribute__((visibility("default")))
const char* call(XLA_FFI_Handler* handler, int64_t kernel, int64_t* slots, size_t count, void** args,
                 const int* types, int nargs, void** rets, int nrets, void* stream) {
    XLA_FFI_Api api;
    memset(&api, 0, sizeof api);
    api.XLA_FFI_Error_Create = create;
    api.XLA_FFI_Stream_Get = stream_of;
    XLA_FFI_Buffer buffers[16];
    void* places[16];
    memset(buffers, 0, sizeof buffers);
    for (int i = 0; i < nargs + nrets; ++i) {
        buffers[i].data = i < nargs ? args[i] : rets[i - nargs];
        if (i < nargs) buffers[i].dtype = (XLA_FFI_DataType)types[i];
        places[i] = &buffers[i];
    }
    XLA_FFI_Scalar key = {XLA_FFI_DataType_S64, &kernel};
    XLA_FFI_Array fill = {XLA_FFI_DataType_S64, count, slots};
    XLA_FFI_AttrType kinds[] = {XLA_FFI_AttrType_SCALAR, XLA_FFI_AttrType_ARRAY};
    XLA_FFI_ByteSpan first = {"kernel", 6}, second = {"slots", 5};
    XLA_FFI_ByteSpan* names[] = {&first, &second};
    void* attrs[] = {&key, &fill};
    XLA_FFI_CallFrame frame;
    memset(&frame, 0, sizeof frame);
    frame.api = &api;
    frame.ctx = stream;
    frame.stage = XLA_FFI_ExecutionStage_EXECUTE;
    frame.args.size = nargs, frame.args.args = places;
    frame.rets.size = nrets, frame.rets.rets = places + nargs;
    frame.attrs.size = 2, frame.attrs.types = kinds, frame.attrs.names = names, frame.attrs.attrs = attrs;
    text[0] = 0;
    handler(&frame);
    return text;
}
__attribute__((visibility("default")))
int traits(XLA_FFI_Handler* handler) {
    XLA_FFI_Metadata found;
    XLA_FFI_Metadata_Extension asked;
    XLA_FFI_CallFrame frame;
    memset(&found, 0, sizeof found), memset(&asked, 0, sizeof asked), memset(&frame, 0, sizeof frame);
    asked.extension_base.type = XLA_FFI_Extension_Metadata;
    asked.metadata = &found;
    frame.extension_start = &asked.extension_base;
    return handler(&frame) ? -1 : (int)found.traits;
}
"""

m = T.dynamic("m")


@T.prim_func
def product_program(A: F16[m, 64], B: F16[64, 64], C: F32[m, 64]):
    with T.Kernel(T.ceildiv(m, 64), threads=128) as bx:
        a = T.alloc_shared((64, 64), "float16")
        b = T.alloc_shared((64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.copy(A[bx * 64, 0], a)
        T.copy(B, b)
        T.clear(c)
        T.gemm(a, b, c)
        T.copy(c, C[bx * 64, 0])


@T.prim_func
def axpy_program(a: T.float32, k: T.int32, X: F32[m], Y: F32[m]):
    with T.Kernel(T.ceildiv(m, 64), threads=64) as bx:
        for i in T.Parallel(64):
            Y[bx * 64 + i] = a * X[bx * 64 + i] + k


@T.prim_func
def kept_program(A: F32[64], B: F32[64]):
    kept = T.alloc_global((64,), "float32")
    with T.Kernel(1, threads=64):
        T.copy(A, kept)
    with T.Kernel(1, threads=64):
        T.copy(kept, B)


PRELUDE = """
import ctypes, sys
sys.path[:0] = [{tests!r}, {cuda!r}]
import cuda_stub
stub = cuda_stub.Stub({stub!r})  # before anything that looks for a driver: an existing one is not used
import test_jax_calls as here
import tilelang
from tilelang.jax import _handler, _plan
for name, sizes in (("axpy_program_kernel", (8, 8, 4, 4, 4)), ("product_program_kernel", ())):
    stub.declare(name, *sizes)
caller = ctypes.CDLL({caller!r})
caller.call.restype = ctypes.c_char_p
library = _handler("cuda").handle
def call(program, arch, slots, args, rets, types=(), stream=7, name="tl_xla_call"):
    plan = _plan(tilelang.compile(program, target="cuda -arch=" + arch))
    flat = [number for pair in slots for number in pair]
    numbers = (ctypes.c_int64 * len(flat))(*flat)
    addresses = [(ctypes.c_void_p * max(1, len(v)))(*v) for v in (args, rets)]
    kinds = (ctypes.c_int * max(1, len(args)))(*types)
    return caller.call(
        getattr(library, name), ctypes.c_int64(plan.key), numbers, ctypes.c_size_t(len(flat)),
        addresses[0], kinds, len(args), addresses[1], len(rets), ctypes.c_void_p(stream),
    ).decode()
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs code in a process whose driver is the stub, and gives its lines."""
    folder = tmp_path_factory.mktemp("xla")
    compiler = find_compiler()
    assert compiler is not None
    stub, caller = folder / "libcuda.so.1", folder / "caller.so"
    stub.write_bytes(compiler.compile_shared(cuda_stub.SOURCE, ("-O1", "-Wl,-soname,libcuda.so.1")))
    caller.write_bytes(compiler.compile_shared(CALLER, ("-O1", f"-I{jax.ffi.include_dir()}")))
    here = Path(__file__).resolve().parent
    prelude = PRELUDE.format(
        tests=str(here.parent), cuda=str(here), stub=str(stub), caller=str(caller)
    )

    def run(code: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", prelude + textwrap.dedent(code)], capture_output=True, text=True,
            timeout=300, check=False,
        )  # fmt: skip
        assert not done.returncode, done.stderr
        return done.stdout.splitlines()

    return run


def test_kernels_start_on_the_stream_of_xla_in_its_context(printed: Any) -> None:
    lines = printed("""
        slots = [(0, 0x400a000000000000), (0, -3), (1, 0), (2, 0), (0, 130)]
        for stream in (7, 1):
            print(repr(call(here.axpy_program, "sm_90a", slots, [0x1000], [0x2000], [11], stream)))
            print(stub.lib.stub_current())
        print("\\n".join(stub.take()))
    """)
    assert lines[:4] == ["''", "None", "''", "None"]  # the thread has no context afterwards, either
    loads = [line for line in lines if line.startswith("load")]
    assert [line.split()[-1] for line in loads] == ["7", "1"]  # once in each context
    first, second = (cuda_stub.Launch(line) for line in lines if line.startswith("launch"))
    assert (first.kernel, first.grid, first.stream, first.device) == (
        "axpy_program_kernel", (3, 1, 1), 7, 7,
    )  # fmt: skip
    assert (second.stream, second.device) == (1, 1)
    assert first.args == second.args


def test_tensor_maps_are_encoded_for_the_buffers_of_a_call(printed: Any) -> None:
    lines = printed("""
        slots = [(1, 0), (1, 1), (2, 0), (0, 100)]
        print(call(here.product_program, "sm_90a", slots, [0x1000, 0x2000], [0x3000], [10, 10]))
        print("\\n".join(stub.take()))
        print(call(here.product_program, "sm_90a", slots, [0x1008, 0x2000], [0x3000], [10, 10]))
        print(len(stub.take()))
    """)
    maps = [line.split()[2] for line in lines if line.startswith("tiled")]
    assert {"1000", "2000"} <= set(maps)
    assert sum(line.startswith("launch") for line in lines) == 1
    assert lines[-2:] == ["the address of a tensor is not aligned", "0"]


def test_numbers_of_the_program_are_fetched(printed: Any) -> None:
    lines = printed("""
        numbers = ctypes.c_float(2.5), ctypes.c_int(-4)
        args = [ctypes.addressof(n) for n in numbers] + [0x1000]
        slots = [(3, 0), (3, 1), (1, 2), (2, 0), (0, 64)]
        print(call(here.axpy_program, "sm_80", slots, args, [0x2000], [11, 4, 11], name="tl_xla_call_alone"))
        print("\\n".join(stub.take()))
    """)
    assert [line for line in lines if line.startswith(("fetch", "wait"))] == [
        "fetch 4 on 7", "wait 7", "fetch 4 on 7", "wait 7",
    ]  # fmt: skip
    (launch,) = (cuda_stub.Launch(line) for line in lines if line.startswith("launch"))
    assert launch.values("qqfii") == [0x1000, 0x2000, 2.5, -4, 64]


def test_errors_are_those_of_the_call(printed: Any) -> None:
    lines = printed("""
        slots = [(0, 0), (0, 0), (1, 0), (2, 0), (0, 64)]
        print(call(here.axpy_program, "sm_100a", slots, [0x1000], [0x2000], [11]))
        stub.lib.stub_fail(b"cuLaunchKernelEx", 700)
        print(call(here.axpy_program, "sm_90a", slots, [0x1000], [0x2000], [11]))
        print(call(here.axpy_program, "sm_90a", slots, [0x1000], [0x2000], [11], name="tl_xla_elsewhere"))
        print(call(here.axpy_program, "sm_90a", [(1, 5)], [0x1000], [0x2000], [11]))
        stub.lib.stub_fail(b"cuStreamGetCtx", 700)
        print(call(here.axpy_program, "sm_90a", slots, [0x1000], [0x2000], [11]))
    """)
    assert lines == [
        "the library has no code for this GPU",
        "an illegal memory access was encountered",
        "this tilelang kernel is compiled for GPUs, and its arrays are not on one; compile it for "
        "their device",
        "an argument is missing",
        "an illegal memory access was encountered",
    ]


def test_calls_that_no_graph_can_record_are_an_error(printed: Any) -> None:
    lines = printed("""
        print(*(caller.traits(getattr(library, f"tl_xla_{name}")) for name in ("call", "call_alone", "elsewhere")))
        for program in (here.axpy_program, here.kept_program):
            print(_plan(tilelang.compile(program, target="cuda -arch=sm_90a")).alone)
    """)
    assert lines == ["1 0 0", "False", "True"]


def test_gpu_calls_have_a_separate_name() -> None:
    kernel = tilelang.compile(axpy_program, out_idx=-1, target="cuda -arch=sm_90a")
    call = tilelang.jax.custom_call(kernel)
    x = jax.device_put(np.ones(8, np.float32), jax.devices("cpu")[0])
    text = str(jax.jit(lambda x: call(2.0, 3, x)).lower(x).as_text())
    assert "@tilelang_kernel_cuda(" in text
    text = str(jax.jit(lambda x, k: call(2.0, k, x)).lower(x, 3).as_text())
    assert "@tilelang_kernel_cuda_alone(" in text
    with pytest.raises(Exception, match="is compiled for GPUs, and its arrays are not on one"):
        jax.block_until_ready(jax.jit(lambda x: call(2.0, 3, x))(x))
