"""Machine code for NVIDIA GPUs as programs of XLA call it.

The loader of exported libraries runs the steps of a kernel, from tables that are made here instead
of by a C compiler.
"""

from __future__ import annotations

import ctypes as C
from typing import Any

from tilelang.codegen.backend import XlaInterface, XlaProgram
from tilelang.codegen.gpu.module import WorkspaceStep, walk_steps
from tilelang.codegen.prototype import Prototype, message_function
from tilelang.cuda.aot_export import LOADER, demand_native, loader_text, variant
from tilelang.cuda.executable import CudaExecutable
from tilelang.runtime.alignment import aligned
from tilelang.runtime.executable import Executable
from tilelang.runtime.host_program import host_program, kernel_table
from tilelang.runtime.signature import LaunchSpec
from tilelang.target import Target


class _Kernel(C.Structure):
    _fields_ = [("name", C.c_char_p), ("shared", C.c_int), ("cluster", C.c_int)]


class _Variant(C.Structure):
    _fields_ = [
        ("major", C.c_int), ("minor", C.c_int), ("exact", C.c_int), ("ptx", C.c_int),
        ("image", C.c_char_p), ("steps", C.POINTER(C.c_int64)), ("nsteps", C.c_int64),
        ("kernels", C.POINTER(_Kernel)), ("nkernels", C.c_int),
    ]  # fmt: skip


class _Library(C.Structure):
    _fields_ = [("variants", C.POINTER(_Variant)), ("count", C.c_size_t), ("loaded", C.c_void_p)]


class _Program(C.Structure):
    _fields_ = [
        ("library", C.POINTER(_Library)), ("masks", C.POINTER(C.c_int64)), ("nmasks", C.c_int64),
        ("messages", C.POINTER(C.c_char_p)), ("nmessages", C.c_int64),
    ]  # fmt: skip


def _handler() -> str:
    codes = message_function(Prototype("tl_program", (), (), (), ()), "tl_driver_text(code)")
    parts = [
        "#define _GNU_SOURCE", loader_text(LOADER), *codes,
        LOADER.with_name("tl_xla.h").read_text(encoding="utf-8"),
    ]  # fmt: skip
    return "\n".join(parts)


def _program(kernel: Executable, target: Target, spec: LaunchSpec) -> XlaProgram | None:
    """The tables of ``cuda/loader``.

    Raises:
        TileUnsupportedError: the host part cannot be run by C.
    """
    if not isinstance(kernel, CudaExecutable) or kernel.artifact is None:
        return None
    module = kernel.artifact.module
    demand_native(spec.name, module)
    steps = _array(C.c_int64, host_program(module).words)
    kernels = _array(_Kernel, [(name.encode(), *rest) for name, *rest in kernel_table(module)])
    ptx = kernel.result.ptx if variant(target, True) is not None else None
    images = [(variant(target, False), kernel.result.cubin)]
    images += [(variant(target, True), ptx.encode())] if ptx else []
    variants = _array(
        _Variant,
        [(*row, image, steps, len(steps), kernels, len(kernels)) for row, image in images if row],
    )
    needed = aligned(spec, kernel.artifact.alignments).params
    masks = _array(C.c_int64, [p.alignment - 1 if p.kind == "tensor" else 0 for p in needed])
    messages = _array(C.c_char_p, [text.encode() for text in module.messages])
    library = _Library(variants, len(variants), None)
    struct = _Program(C.pointer(library), masks, len(masks), messages, len(messages))
    alone = any(isinstance(step, WorkspaceStep) for step in walk_steps(module.steps))
    return XlaProgram(struct, alone, (steps, kernels, images, variants, masks, messages, library))


def _array(kind: Any, values: Any) -> Any:
    return (kind * len(values))(*values)


XLA = XlaInterface("CUDA", _handler, _program)
