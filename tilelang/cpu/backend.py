"""The CPU back end: its entry, from a program to C source."""

from __future__ import annotations

from tilelang.codegen.artifact import Artifact
from tilelang.codegen.backend import Backend
from tilelang.codegen.c import ARITHMETIC
from tilelang.ir import stmt as S
from tilelang.options import Options
from tilelang.target import Context
from tilelang.target.cores import core_flags

# What fast math allows a C compiler. Reassociation is not among it: it turns inf - inf into 0 and
# (x + large) - large, by which exponentials round, into x. Reduction loops have a pragma that
# allows another order.
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
        flags=(
            *core_flags(context.target.arch),
            *_host_flags(context.options),
            *_view_flags(func),
            *_exact_flags(func),
        ),
        explain=_fusion_notes(func),
    )


def _fusion_notes(func: S.PrimFunc) -> str:
    """Which loops of each kernel run as one, and why others do not."""
    lines = [f"`{func.name}` runs as C on the CPU cores"]
    for number, launch in enumerate(S.find(func.body, S.Launch), start=1):
        if notes := launch.hints.fusion_note:
            lines += ["", f"kernel {number}", *(f"  {line}" for line in notes)]
    return "\n".join(lines)


def _has_compiler() -> bool:
    """Whether there is a C compiler; the first call without one warns."""
    from tilelang.cpu.toolchain import find_compiler
    from tilelang.runtime.cache import default_cache

    return find_compiler(default_cache()) is not None


def _exact_flags(func: S.PrimFunc) -> tuple[str, ...]:
    """Flags for a program with sums or products that must be rounded separately: C compilers
    contract `a * b + c`, and most have a flag for a whole file only."""
    exact = any(call.op in ARITHMETIC for call in S.calls(func.body))
    return ("-ffp-contract=off",) if exact else ()


def _host_flags(options: Options) -> tuple[str, ...]:
    """Flags of the program that a C compiler knows; device-only ones are left out."""
    macro_flags = tuple(flag for flag in options.compile_flags if flag.startswith(("-D", "-U")))
    return (*FAST_MATH, *macro_flags) if options.fast_math else macro_flags


def _view_flags(func: S.PrimFunc) -> tuple[str, ...]:
    """Flags for a program with several names for one memory, which may be of different types."""
    viewed = S.holds(func.body, S.View) or not func.attr("tir.noalias", True)
    return ("-fno-strict-aliasing",) if viewed else ()


CPU = Backend(
    kind="cpu", language="C", emit=_emit, ready=_has_compiler, exported=True, called_by_xla=True
)
