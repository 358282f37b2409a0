"""The text of ``kernel.explain()`` for a GPU kernel.

Per kernel: its tiles with their layouts and the reason for each, the plan of shared memory, and
for every line of the user's program what it became: instructions, vector widths, bank conflicts
counted, conversions between layouts with their cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tilelang.errors import Loc
from tilelang.explain.banks import Waves
from tilelang.explain.conversions import Conversion, conversions
from tilelang.explain.describe import distribution_text, layout_text, shape_text
from tilelang.explain.moves import Key, Line, Move, lines_of
from tilelang.explain.snapshots import allocated, snapshots
from tilelang.ir import schedule as H, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.effects import uses_tma
from tilelang.ir.launch_schedule import NUMBERS, VALUES, Schedule, text_of
from tilelang.layout.register_layout import RegisterLayout
from tilelang.options import Options
from tilelang.records import dataclass
from tilelang.target import Context, Limits, Target
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.analysis.tma import SUBTILE_COLUMNS, SUBTILE_ROWS
from tilelang.transforms.layouts.gemm_plan import GemmPlan, Registers
from tilelang.transforms.notes import Note

# Operations of 16 bits that a multiprocessor of sm_90 does in a cycle, times 16 (NVIDIA H100 Tensor
# Core GPU Architecture, "H100 Tensor Core GPU": 989 TFLOPS by 132 multiprocessors at 1830 MHz).
PER_CYCLE = 4096 * 16
_ORDER = {"loads": 0, "updates": 1, "stores": 2}


def explain(func: S.PrimFunc, target: Target, options: Options) -> str:
    """Explain how ``func`` is compiled for the GPU ``target``.

    Raises:
        TileError: the program cannot be compiled for the target.
    """
    lines = [f"`{func.name}` for {target}"]
    limits = Context(target, options).limits
    launches = (S.find(seen.body, S.Launch) for seen in snapshots(func, target, options))
    for number, parts in enumerate(zip(*launches), start=1):
        lines += ["", *_Kernel(number, Stages(*parts), limits).text()]
    return "\n".join(lines)


@dataclass(frozen=True)
class Stages:
    """One kernel on its way through the passes; see :mod:`tilelang.explain.snapshots`."""

    staged: S.Launch
    laid: S.Launch
    ordered: S.Launch
    final: S.Launch


class _Kernel:
    def __init__(self, number: int, stages: Stages, limits: Limits) -> None:
        self.number = number
        self.stages = stages
        self.notes: dict[object, Note] = {note.data: note for note in stages.laid.hints.notes}
        self.moves = lines_of(stages.final, limits)
        self.conversions = conversions(stages.staged, stages.laid, stages.ordered, limits.warp)

    def text(self) -> Iterator[str]:
        """The lines of the report."""
        final = self.stages.final
        shared = final.hints.shared_bytes
        grid = " x ".join(str(extent) for extent in final.grid)
        threads = prod(final.threads)
        size = f"{shared} bytes of shared memory"
        yield f"kernel {self.number}: {grid} blocks of {threads} threads, {size}"
        facts = [s.cond for s in S.flat(final.body) if isinstance(s, S.Assert) and s.assumed]
        if facts:
            yield f"  assumed: {', '.join(map(repr, facts))}"
        schedule = final.schedule or Schedule()
        registers = _registers(schedule) or final.hints.register_note
        if registers is not None:
            yield f"  registers: {registers}"
        for why, loc in final.hints.remarks:
            yield f"  {why}{_line_text(loc)}"
        if schedule.persistent:
            yield f"  blocks: {_tiles(schedule)}"
        yield from _choice(schedule)
        yield from self.tiles()
        yield from self.shared()
        yield from self.program()

    # -- tiles -------------------------------------------------------------------------------------
    def tiles(self) -> Iterator[str]:
        """Each fragment and shared tile with its layout and the reason."""
        buffers = [buffer for buffer in allocated(self.stages.laid).values() if _is_tile(buffer)]
        if buffers:
            yield "tiles"
        for buffer in buffers:
            yield f"  {buffer.name} {shape_text(buffer)} {self.layout(buffer)}"
            note = self.notes.get(buffer.data)
            if note is not None:
                yield f"    why: {note.why}{_line_text(note.loc)}"

    def layout(self, buffer: Buffer) -> str:
        """The layout of a tile in one line."""
        if buffer.storage != FRAGMENT:
            return f"shared, {layout_text(buffer.attrs.layout, buffer.dtype.width)}"
        mapping = buffer.attrs.register_layout
        return distribution_text(mapping) if isinstance(mapping, RegisterLayout) else "never used"

    def shared(self) -> Iterator[str]:
        """The plan of shared memory."""
        memory = allocated(self.stages.final).values()
        tiles = [(b.attrs.arena_offset, b) for b in memory if b.attrs.arena_offset is not None]
        if tiles:
            yield "shared memory"
        for start, buffer in sorted(tiles, key=lambda pair: (pair[0], pair[1].name)):
            stop = start + buffer.constant_bytes
            yield f"  {start} to {stop}: {buffer.name} {shape_text(buffer)}"

    # -- lines of the program ----------------------------------------------------------------------
    def program(self) -> Iterator[str]:
        """The instructions of each line of the program, in the order of the kernel."""
        titles = self.titles()
        for key, line in self.moves.items():
            facts = [*titles.get(key, ()), *_memory(line), *_calls(line)]
            if facts:
                yield _heading(line.loc)
                yield from (f"  {fact}" for fact in facts)

    def titles(self) -> dict[Key, list[str]]:
        """The facts about a line that precede its accesses: pipelines, products, conversions."""
        result: dict[Key, list[str]] = {}

        def say(loc: Loc | None, text: str) -> None:
            if loc is not None:
                known = result.setdefault((loc.file, loc.line), [])
                if text not in known:
                    known.append(text)

        for node in S.walk(self.stages.laid.body):
            if isinstance(node, S.For):
                if (note := node.hints.pipeline_note) is not None:
                    say(node.loc, f"pipeline: {note}")
            elif isinstance(node, S.Gemm):
                say(node.loc, _product(node.plan))
                if node.plan.uses_wgmma:
                    say(node.loc, _rate(node))
            elif text := _tma_text(node):
                say(node.loc, text)
        tiles = allocated(self.stages.laid).values()
        for node in S.find(self.stages.laid.body, H.Pipeline):
            size = sum(tile.constant_bytes for tile in tiles if tile.data in set(node.tiles))
            say(node.loc, f"in flight: up to {size} bytes, {size // node.stages} per stage")
        for conversion in self.conversions:
            say(conversion.loc, _conversion(conversion, self.notes.get(conversion.data)))
        return result


def _choice(schedule: Schedule) -> Iterator[str]:
    """The chosen schedule, and those that are cheaper or come next."""
    if not schedule.others:
        return
    fields = {
        name: value for name, value in schedule.stated().items()
        if name in NUMBERS or value != next(iter(VALUES[name]))
    }  # fmt: skip
    yield f"  schedule: {text_of(fields)}; {schedule.price} cycles per tile"
    for other in schedule.others:
        why = f", not legal: {other.why}" if other.why else ""
        yield f"    or {text_of(dict(other.fields))}: {other.price} cycles{why}"


def _registers(schedule: Schedule) -> str:
    consumers, producer = schedule.registers or (None, None)
    if schedule.roles != "producer" or not consumers:
        return ""
    return f"{consumers} for consumers, {producer} for the producer"


def _tiles(schedule: Schedule) -> str:
    """The tiles of persistent blocks."""
    text = f"persistent over {schedule.tiles} tiles"
    by = f"by each warp in {schedule.subtiles} parts of {SUBTILE_ROWS} x {SUBTILE_COLUMNS}"
    if schedule.epilogue == "overlapped":
        return f"{text}, each stored during the first products of the next, {by}"
    return f"{text}, stored {by}" if schedule.epilogue == "subtiles" else text


def _is_tile(buffer: Buffer) -> bool:
    tile = buffer.storage == FRAGMENT or buffer.storage.startswith("shared")
    return tile and not buffer.attrs.arrive_counts


def _line_text(loc: Loc | None) -> str:
    return "" if loc is None else f", line {loc.line}"


def _heading(loc: Loc) -> str:
    source = (loc.source() or "").strip()
    return f"{loc.file.rsplit('/', 1)[-1]}:{loc.line}  {source}".rstrip()


def _tma_text(node: S.Stmt) -> str:
    """Whether a copy has a tensor map, and why not, where that was asked."""
    if not isinstance(node, (S.Copy, S.AtomicTile, S.Im2col, S.Parallel)):
        return ""
    hints = node.hints
    update = isinstance(node.body if isinstance(node, S.Parallel) else node, (S.Eval, S.AtomicTile))
    operation = "update" if update else "copy"
    policy = hints.eviction_policy
    if hints.tma_note is not None:
        return f"{operation}: without TMA: {hints.tma_note}"
    if uses_tma(node):
        hint = f", {policy} in the L2 cache" if policy is not None else ""
        if hints.cluster_mask is not None:
            hint += f", loaded once for blocks {hints.cluster_mask:#b} of the cluster"
        if hints.unproved is not None:
            hint += f", at the coordinates of one thread (not proved uniform: `{hints.unproved}`)"
        return f"{operation}: TMA{hint}"
    return f"copy: {policy!r} is for TMA copies only" if policy is not None else ""


def _product(plan: GemmPlan) -> str:
    if plan.atom is None:
        text = f"{plan.m} x {plan.n} x {plan.k}: plain multiplications, no matrix instruction fits"
        return f"{text}; not by wgmma: {plan.why}" if plan.why else text
    down, across = plan.warps
    rows, columns, steps = plan.tiles
    units = "warpgroups" if plan.uses_wgmma else "warps"
    text = (
        f"{plan.m} x {plan.n} x {plan.k}: {plan.instruction} on {down} x {across} {units}, each "
        f"{rows} x {columns} tiles in {steps} step{'s' * (steps != 1)}"
    )
    if plan.copies > 1:
        text += f", {plan.copies} times over"
    if plan.k_slices > 1:
        text += f", split-K over {plan.k_slices} groups of them"
    if plan.swapped:
        text += ", operands swapped (transposed product): B is in registers"
    elif plan.uses_wgmma and isinstance(plan.a, Registers):
        text += ", A is in registers"
    return f"{text}; not by wgmma: {plan.why}" if plan.why else text


def _rate(gemm: S.Gemm) -> str:
    """The least time of the unit, and the bandwidth that it needs if operands are used once."""
    plan = gemm.plan
    cycles = 2 * plan.m * plan.n * plan.k * plan.atom.a.bits // PER_CYCLE
    regions = [operand for operand in (gemm.a, gemm.b) if operand.buffer.storage != FRAGMENT]
    size = sum(prod(map(int, operand.extents)) * operand.dtype.bits // 8 for operand in regions)
    text = f"bound: {cycles} cycles of the matrix unit; operands in shared memory: {size} bytes"
    return f"{text}, {-(-size // cycles)} per cycle"


def _conversion(conversion: Conversion, note: Note | None) -> str:
    reason = "" if note is None else f" ({note.why}{_line_text(note.loc)})"
    text = f"conversion: `{conversion.name}` is in another layout than this line needs{reason}; "
    several = "s" if conversion.barriers != 1 else ""
    cost = f"{conversion.bytes} bytes through shared memory, {conversion.barriers} barrier{several}"
    text += cost if conversion.bytes else "moved within the warps"
    if conversion.times is None:
        return f"{text}, in every iteration"
    if conversion.times == 1:
        return text
    text += f", {conversion.times} times: about {conversion.times * conversion.cycles:.0f} cycles"
    return text + " (more than the loop itself)" * (conversion.cycles > conversion.work > 0)


def _memory(line: Line) -> Iterator[str]:
    for move, waves in sorted(line.moves.items(), key=lambda entry: _ORDER[entry[0].verb]):
        by = f" by {move.instruction}" if move.instruction else ""
        size = f"{move.width} byte{'s' if move.width > 1 else ''}"
        size += " at once" if move.is_whole else " per thread"
        size = "whole" if move.is_whole and not move.width else size
        yield f"{move.verb} {move.buffer} ({move.memory}): {size}{by}" + _waves(move, waves)


def _waves(move: Move, waves: Waves | None) -> str:
    if move.memory != "shared" or move.is_whole:
        return ""
    if waves is None:
        return ", bank conflicts depend on data"
    if waves.count <= waves.ideal:
        return ", no bank conflicts"
    return f", bank conflicts: {waves.count} passes instead of {waves.ideal}"


def _calls(line: Line) -> Iterator[str]:
    loud = {name: count for name, count in line.calls.items() if name not in line.lowered}
    if loud:
        yield "also: " + ", ".join(f"{name} x{n}" if n > 1 else name for name, n in loud.items())
