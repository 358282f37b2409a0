"""The row of the CPU back end: C text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilelang.codegen.artifact import Artifact
from tilelang.codegen.backend import Backend, Foreign, Program, Shipping
from tilelang.ir import stmt as S
from tilelang.options import Options
from tilelang.target import Context
from tilelang.target.cores import core_flags
from tilelang.transforms.notes import FUSION

if TYPE_CHECKING:
    from tilelang.runtime.executable import Executable
    from tilelang.transforms.step import Step

# What fast math allows a C compiler. Reassociation is not among it: it turns inf - inf into 0 and
# (x + large) - large, by which exponentials round, into x. Loops that sum say themselves that the
# order does not matter.
FAST_MATH = ("-fno-signed-zeros", "-freciprocal-math")


def _emit(func: S.PrimFunc, context: Context) -> Artifact:
    from tilelang.cpu.module import emit_module

    module = emit_module(func)
    return Artifact(
        source=module.source,
        language="c",
        entry="tl_call",
        symbols=tuple(symbol.name for symbol in module.symbols),
        messages=module.messages,
        sites=module.sites,
        flags=(*core_flags(context.target.arch), *_host_flags(context.options), *_view_flags(func)),
        explain=_explained(func),
    )


def _explained(func: S.PrimFunc) -> str:
    """Which loops of each kernel run as one, and why others do not."""
    lines = [f"`{func.name}` runs as C on the CPU cores"]
    launches = S.find(func.body, S.Launch)
    for number, launch in enumerate(launches, start=1):
        if found := launch.annotation(FUSION, ()):
            lines += ["", f"kernel {number}", *(f"  {line}" for line in found)]
    return "\n".join(lines)


def _ready() -> bool:
    """Whether there is a C compiler; the first call without one warns."""
    from tilelang.cpu.toolchain import find_compiler
    from tilelang.runtime.cache import default_cache

    return find_compiler(default_cache()) is not None


def _executable(program: Program, artifact: Artifact) -> Executable:
    from tilelang.cpu.executable import executable  # only kernels that run need a toolchain

    return executable(program, artifact)


def _standalone(source: str) -> str:
    from tilelang.cpu.module import inline_headers

    return inline_headers(source)


def _shipping() -> Shipping:
    from tilelang.cpu.shipping import SHIPPING

    return SHIPPING


def _foreign() -> Foreign:
    from tilelang.cpu.foreign import FOREIGN

    return FOREIGN


def _host_flags(options: Options) -> tuple[str, ...]:
    """Flags of the program that a C compiler knows; device-only ones are left out."""
    own = tuple(flag for flag in options.compile_flags if flag.startswith(("-D", "-U")))
    return (*FAST_MATH, *own) if options.fast_math else own


def _view_flags(func: S.PrimFunc) -> tuple[str, ...]:
    """Flags for a program with several names for one memory, which may be of different types."""
    viewed = S.holds(func.body, S.View)
    return ("-fno-strict-aliasing",) if viewed else ()


def _steps() -> tuple[Step, ...]:
    """Passes for one core that runs a whole block."""
    from tilelang.cpu.loops.array_contraction import contract_arrays
    from tilelang.cpu.loops.block_coarsening import coarsen_blocks
    from tilelang.cpu.loops.cache_padding import pad_rows
    from tilelang.cpu.loops.convolve import convolve
    from tilelang.cpu.loops.copy_forwarding import forward_copies
    from tilelang.cpu.loops.fragments import lower_fragments_to_arrays
    from tilelang.cpu.loops.k_loop_coalescing import coalesce_k_loops
    from tilelang.cpu.loops.loop_fusion import fuse_loops
    from tilelang.cpu.loops.loop_interchange import interchange_loops
    from tilelang.cpu.loops.operand_forwarding import forward_operands
    from tilelang.cpu.loops.register_tiling import tile_registers
    from tilelang.cpu.loops.result_forwarding import forward_results
    from tilelang.cpu.loops.scalar_replacement import replace_tiles_by_scalars
    from tilelang.cpu.loops.serialize_threads import serialize_threads
    from tilelang.cpu.loops.unroll_and_jam import unroll_and_jam
    from tilelang.cpu.loops.unroll_stencils import unroll_stencils
    from tilelang.cpu.operands import choose_operands, lower_operand_copies
    from tilelang.cpu.tiles import lower_tiles_without_kernel
    from tilelang.transforms.step import Step, always

    return (
        Step("forward_operands", forward_operands, always,
             "products that use an element a few times read it where it lies; copies are whole, "
             "and tiles that are left get their layouts behind this", "scheduled"),
        Step("convolve", convolve, always,
             "columns of an image and their product are whole, and weights are read in place"),
        Step("coalesce_k_loops", coalesce_k_loops, always,
             "the loops of products have lost their copies"),
        Step("forward_results", forward_results, always,
             "a product that was a loop overwrites its tile, and the copy of that is still whole"),
        Step("choose_operands", choose_operands, always,
             "kernels choose the layouts of their operands while copies are still whole, so that "
             "a copy can pack"),
        Step("serialize_threads", serialize_threads, always,
             "which statements run once or per thread is decided on tile operations, before "
             "their loops hide them"),
        Step("lower_operand_copies", lower_operand_copies, always,
             "copies into operand tiles know their layout; the general lowering does not"),
        Step("lower_tiles", lower_tiles_without_kernel, always,
             "what is left of tile operations becomes loops over elements"),
        Step("lower_fragments_to_arrays", lower_fragments_to_arrays, always,
             "tile operations are gone, whose lowering asks where a tile lives", "thread"),
        Step("unroll_stencils", unroll_stencils, always,
             "loops over taps and elements are a nest, which nothing has joined yet"),
        Step("fuse_loops", fuse_loops, always,
             "operations are loops over elements, and no guard stands between them yet"),
        Step("replace_tiles_by_scalars", replace_tiles_by_scalars, always,
             "iterations that hand elements to each other are one now"),
        Step("contract_arrays", contract_arrays, always,
             "tiles that are left are memory, and loops over their rows are joined"),
        Step("interchange_loops", interchange_loops, always,
             "loops over rows are whole, and what lives in an iteration only is no tile"),
        Step("forward_copies", forward_copies, always,
             "loops that only copy are those that no loop has taken in"),
        Step("coarsen_blocks", coarsen_blocks, always,
             "what is left of tiles is what a block needs; no guard asks for its indices yet"),
        Step("unroll_and_jam", unroll_and_jam, always,
             "rows have their final length; conditions go to each access of a row"),
        Step("tile_registers", tile_registers, always,
             "blocks have their final extents, and no guard stands between accesses yet"),
        Step("pad_rows", pad_rows, always,
             "no pass below asks whether the rows of a tile are one piece"),
    )  # fmt: skip


CPU = Backend(
    kind="cpu",
    language="C",
    emit=_emit,
    executable=_executable,
    ready=_ready,
    steps=_steps,
    standalone=_standalone,
    shipping=_shipping,
    foreign=_foreign,
)
