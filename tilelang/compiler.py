"""Compilation: the one pass list, verification and dumps between passes, and the artifact.

``compile(func, target, options)`` is deterministic: the same program, target and options give the
same text in every process, so the text can be cached by content.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tilelang.cpu.gemm_writer import has_kernel
from tilelang.cpu.module import emit_module
from tilelang.cpu.operands import choose_operands, lower_operand_copies
from tilelang.errors import TileUnsupportedError, internal_boundary
from tilelang.ir import stmt as S
from tilelang.ir.legal import check
from tilelang.options import Options
from tilelang.passes.normalize.fold_clear import fold_clear
from tilelang.passes.normalize.simplify import simplify_func
from tilelang.passes.serial.guards import insert_guards
from tilelang.passes.serial.lanes import split_lanes
from tilelang.passes.serial.threads import serialize_threads
from tilelang.passes.serial.tiles import lower_tiles_except
from tilelang.target import Target

Pass = Callable[[S.PrimFunc], S.PrimFunc]


@dataclass(frozen=True)
class Artifact:
    """Generated source with all that is needed to compile and call it."""

    source: str
    language: str  # "c", later "cuda", "hip", "metal"
    entry: str
    symbols: tuple[str, ...]
    messages: tuple[str, ...]  # error code - 1 -> message
    flags: tuple[str, ...] = ()
    explain: str = ""


@dataclass(frozen=True)
class Step:
    """One entry of the pass list: what runs, for which targets, and why it stands there."""

    name: str
    run: Pass
    when: Callable[[Target, Options], bool]
    why: str


def _on_cores(target: Target, options: Options) -> bool:
    return target.kind == "cpu"


def _checks_bounds(target: Target, options: Options) -> bool:
    return target.kind == "cpu" and not options.unsafe_memory


def pass_list() -> tuple[Step, ...]:
    """Every pass in order. A pass may rely on what stands above it and on nothing else."""
    return (
        Step("simplify", simplify_func, _on_cores,
             "constant extents and folded conditions make every later pass see plain shapes"),
        Step("fold_clear", fold_clear, _on_cores,
             "a product that overwrites needs no cleared accumulator; loop bounds are constants "
             "now"),
        Step("split_lanes", split_lanes, _on_cores,
             "the C compiler finds vectors in loops, so the later passes need only scalars"),
        Step("choose_operands", choose_operands, _on_cores,
             "kernels choose the layouts of their operands while copies are still whole, so that "
             "a copy can pack"),
        Step("serialize_threads", serialize_threads, _on_cores,
             "which statements run once or per thread is decided on tile operations, before "
             "their loops hide them"),
        Step("lower_operand_copies", lower_operand_copies, _on_cores,
             "copies into operand tiles know their layout; the general lowering does not"),
        Step("lower_tiles", partial(lower_tiles_except, keep=has_kernel), _on_cores,
             "what is left of tile operations becomes loops over elements"),
        Step("insert_guards", insert_guards, _checks_bounds,
             "all accesses are loads and stores now, and loop nests show what a guard covers"),
        Step("simplify_again", simplify_func, _on_cores,
             "index arithmetic of the lowered loops is printed as it stands"),
    )  # fmt: skip


def lower(func: S.PrimFunc, target: Target, options: Options) -> S.PrimFunc:
    """``func`` through the pass list."""
    dump = _Dump(func, options)
    check(func, "tile")
    for step in pass_list():
        if not step.when(target, options):
            continue
        with internal_boundary(f"running the pass {step.name} on `{func.name}`", func.loc):
            func = step.run(func)
        dump.after(step.name, func)
    if target.kind == "cpu":
        check(func, "thread")
    return func


def compile(func: S.PrimFunc, target: Target, options: Options | None = None) -> Artifact:
    """Source text for ``func`` on ``target``.

    Raises:
        TileUnsupportedError: the target cannot run the program; says what it needs instead.
    """
    options = options or Options()
    if target.kind != "cpu":
        raise TileUnsupportedError(
            f"no code generator for the target {target.kind!r} yet",
            expected='target="cpu"',
            got=f"target={str(target)!r}",
            hint='the program can be run anywhere with execution_backend="interpret"',
        )
    lowered = lower(func, target, options)
    with internal_boundary(f"printing C for `{func.name}`", func.loc):
        module = emit_module(lowered)
    return Artifact(
        source=module.source,
        language="c",
        entry="tl_call",
        symbols=tuple(symbol.name for symbol in module.symbols),
        messages=module.messages,
        flags=_host_flags(options),
    )


def _host_flags(options: Options) -> tuple[str, ...]:
    """Flags of the program that a C compiler knows; device-only ones are left out."""
    return tuple(flag for flag in options.compile_flags if flag.startswith(("-D", "-U")))


class _Dump:
    """Writes the program after each pass, numbered, when the options ask for it."""

    def __init__(self, func: S.PrimFunc, options: Options) -> None:
        self.folder = Path(options.dump_dir or "dump_ir") if options.dump else None
        self.count = 0
        self.after("traced", func)

    def after(self, name: str, func: S.PrimFunc) -> None:
        """Write ``func`` as it is after the pass ``name``."""
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{self.count:02d}_{func.name}_{name}.py"
        path.write_text(func.script() + "\n", encoding="utf-8")
        self.count += 1
