"""The CUDA dialect of GPU source: its spelling, and from Thread IR to a CUDA module."""

from __future__ import annotations

import re
from functools import lru_cache
from math import prod
from pathlib import Path

from tilelang.codegen.gpu.dialect import Dialect
from tilelang.codegen.gpu.emit import emit_module
from tilelang.codegen.gpu.module import GpuModule
from tilelang.cuda.calls import WRITERS
from tilelang.cuda.forms import ARITHMETIC_HEADERS, HEADERS, arithmetic_header
from tilelang.cuda.ptx_intrinsics import OPERANDS
from tilelang.cuda.tensor_map import map_step, map_tensor
from tilelang.cuda.toolchain import MODEST
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.dtypes import dtype as DType
from tilelang.target import Target
from tilelang.target.instruction_table import ROWS
from tilelang.transforms.analysis.loops import array_registers, blocks_each, matrix_calls

# Matrix instructions of one iteration. With more of them the assembler's highest level moves loads
# between them better than the level below (3 % of a GEMM's time on an H200), which takes it 0.2 s
# and 20 registers; up to here it gains nothing.
FEW = 64
LEAST = 64  # registers of a thread, with which kernels without matrices seldom spill
BESIDES = 22  # registers that a thread needs besides its arrays
SYSTEM_SHARED = 1024  # bytes of each block that the driver keeps
_INCLUDE = Path(__file__).parent / "include"
# Words of CUDA besides those of C++ that a variable must not take.
_RESERVED = frozenset(
    "threadIdx blockIdx blockDim gridDim warpSize dim3 uint3 float2 float4 int2 int4 uint2 uint4 "
    "clock".split()
)


def emit_cuda(func: S.PrimFunc, target: Target) -> GpuModule:
    """The CUDA module of `func`, which is legal Thread IR.

    Raises:
        TileUnsupportedError: the program needs something that the target lacks.
    """
    return emit_module(func, target, CUDA)


def compiler_flags(func: S.PrimFunc) -> tuple[str, ...]:
    """Options that suit `func`: extents that the indices of its threads and blocks stay below.

    The assembler orders the code between matrix instructions otherwise where it knows them
    (attention with heads of 64 on an H200: 155 us, 194 so): products do without. Loops with few
    matrix instructions are scheduled for fewer registers.
    """
    launches = S.find(func.body, S.Launch)
    calls = max([matrix_calls(launch.body) for launch in launches], default=0)
    if calls:
        return ("-DTL_PLAIN_INDICES", *((MODEST,) if calls <= FEW else ()))
    threads = [prod(launch.threads) for launch in launches]
    blocks = [launch.grid[0] if launch.grid else 1 for launch in launches]
    flags = [f"-DTL_THREADS={max(threads)}"] if threads else []
    if threads and all(isinstance(extent, (int, E.Const)) for extent in blocks):
        flags.append(f"-DTL_BLOCKS={max(map(int, blocks))}")
    return tuple(flags)


def includes(text: str) -> list[str]:
    """The headers whose functions `text` calls; the types always."""
    functions = tuple(dict.fromkeys(re.findall(r"\btl_\w+", text)))
    plain = set(map(arithmetic_header, functions))
    names = [name for name in ARITHMETIC_HEADERS if name in plain]
    names += [name for name, pattern in HEADERS if _mentions(functions, pattern)]
    names += [name for name in map(_header_of_intrinsic, functions) if name and name not in names]
    return ["tl_types.h", *dict.fromkeys(names)]


@lru_cache(maxsize=1024)
def _header_of_intrinsic(name: str) -> str:
    """The header of an intrinsic that no pattern matches; "" for other identifiers."""
    if name not in _intrinsic_functions() or any(_mentions((name,), names) for _, names in HEADERS):
        return ""
    defined = re.compile(rf"\b{name}\s*\([^;{{]*\)\s*\{{")
    return next(
        (path.name for path in _INCLUDE.glob("*.h") if defined.search(path.read_text())), ""
    )


@lru_cache(maxsize=1)
def _intrinsic_functions() -> frozenset[str]:
    return frozenset(re.split(r"[<{(]", row.text)[0] for row in ROWS.values())


def _mentions(functions: tuple[str, ...], pattern: str) -> bool:
    """Whether one of ``functions`` matches ``pattern`` at its start. Compiling a regular expression
    is slow, so it is compiled only if the literal prefix matches."""
    for start, tail in _starts(pattern):
        near = [function for function in functions if function.startswith(start)]
        if near and (tail is None or any(map(re.compile(tail).match, near))):
            return True
    return False


@lru_cache(maxsize=64)
def _starts(pattern: str) -> tuple[tuple[str, str | None], ...]:
    """The alternatives of ``pattern``: plain text they start with, and the whole where there is
    more to it."""
    parts, depth = [""], 0
    for letter in pattern:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if letter == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    starts = []
    for part in parts:
        start = part[
            : next((i for i, letter in enumerate(part) if letter in "\\([.*+?"), len(part))
        ]
        starts.append((start, None if start == part else part))
    return tuple(starts)


def resident(launch: S.Launch, target: Target) -> int:
    """Blocks that a multiprocessor is to hold at once: those that the program asks for, and all of
    a grid that fits the device then, where threads that share memory have registers enough; where
    they share none and their arrays alone leave room for few blocks, as many as these leave.

    The assembler does not know the grid, and may take registers that make a second wave of it.
    Then few blocks are left to load while others wait, at barriers or for memory.
    """
    limits, threads = target.limits, prod(launch.threads)
    stated, each = int(launch.hints.min_blocks_per_sm), blocks_each(launch, limits)
    least = max(LEAST, array_registers(launch.body) + BESIDES)
    shared = int(launch.hints.shared_bytes)
    if least > 2 * LEAST and not shared:
        each = min(each, limits.registers // (threads * least))
    fits = each * (shared + SYSTEM_SHARED) <= limits.shared_processor
    fits = fits and each * threads * least <= limits.registers
    plain = each < limits.blocks_processor and not matrix_calls(launch.body)
    return max(stated, each) if (shared or least > 2 * LEAST) and fits and plain else stated


CUDA = Dialect(
    name="CUDA",
    kernel='extern "C" __global__ void __launch_bounds__({threads}, {resident}) {name}(',
    block="blockIdx.{axis}",
    thread="threadIdx.{axis}",
    inputs=(),
    spaces={"global": "", "shared": "", "local": ""},
    arena="extern __shared__ __align__(1024) unsigned char tl_smem[];",
    shared="__shared__ __align__(128) {kind} {name}[{length}];",
    local="__align__(16) {kind} {name}[{length}];",
    restrict="__restrict__ ",
    reserved=_RESERVED,
    texts={},
    writers=WRITERS,
    operands=OPERANDS,
    includes=includes,
    map_tensor=map_tensor,
    map_step=map_step,
    flags=compiler_flags,
    resident=resident,
    rounded={DType("float16"): "", DType("bfloat16"): "bf16x2"},
)
