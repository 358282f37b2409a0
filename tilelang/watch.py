"""The passes at work: programs written between them, their times, and a stop after one.

All of it is asked for by pass configs or, for every compilation of a process, by environment
variables; a compilation that is not watched pays nothing.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path

from tilelang.env import env
from tilelang.errors import CompilationStopped, TileValueError, near, writing
from tilelang.ir import expr as E, stmt as S
from tilelang.options import Options
from tilelang.records import dataclass

TRACED = "traced"  # the name of the program before the first pass


def is_watched(options: Options) -> bool:
    """Whether somebody wants to see the passes run, so that no cached text will do."""
    return bool(
        options.dump or options.dump_after or options.stop_after or options.profile
        or env.TILELANG_PASS_DIFF_OUTPUT or env.TILELANG_DUMP_IR_AFTER
        or env.TILELANG_STOP_AFTER or is_profiled(options)
    )  # fmt: skip


def is_profiled(options: Options) -> bool:
    """Whether the passes are to be timed."""
    return options.profile or bool(env.TILELANG_PASS_PROFILE)


class Watcher:
    """Observe one run of the pass list, as the options and the environment request.

    Args:
        func: the traced program.
        passes: names of the passes that will run.
        aliases: other names of these passes, each with its pass.
        timed: whether their times are printed at the end.

    Raises:
        TileValueError: a pass is asked for that does not run.
    """

    def __init__(
        self, func: S.PrimFunc, passes: Sequence[str], options: Options, timed: bool,
        aliases: Mapping[str, str],
    ) -> None:  # fmt: skip
        self._passes = (TRACED, *passes)
        self._aliases = aliases
        self._only = self._select("tl.dump_ir_after", options.dump_after, "TILELANG_DUMP_IR_AFTER")
        self._stop = self._select("tl.stop_after", options.stop_after, "TILELANG_STOP_AFTER")
        self._folder = Path(options.dump_dir or "dump_ir") if options.dump or self._only else None
        self._changes = env.TILELANG_PASS_DIFF_OUTPUT
        self._before = (TRACED, func.script().splitlines() if self._changes else [])
        self._count = 0
        self.times = Times(func) if timed else None
        self._threshold = options.profile_threshold
        self.after(TRACED, func)

    def _select(self, key: str, configured: str, variable: str) -> tuple[str, ...]:
        """The passes that a pass config, or else a variable, names, with commas between them. Other
        names of a pass name it, too."""
        source = f"pass config {key!r}" if configured else f"environment variable {variable}"
        names = tuple((configured or getattr(env, variable) or "").replace(",", " ").split())
        for name in names:
            if name not in self._passes and name not in self._aliases:
                raise TileValueError(
                    f"the {source} names no pass of this compilation: {name!r}",
                    expected=f"one of {', '.join(self._passes)}",
                    hint=near(name, (*self._passes, *self._aliases), value=True),
                )
        return tuple(self._aliases.get(name, name) for name in names)

    def after(self, name: str, func: S.PrimFunc) -> None:
        """Look at ``func`` as it is after the pass ``name``.

        Raises:
            CompilationStopped: this is where it was to stop; the program was printed.
        """
        if self.times is not None and name != TRACED:
            self.times.after(name, func)
        if self._changes:
            self._difference(Path(self._changes), name, func)
        if self._folder is not None and (not self._only or name in self._only):
            path = self._folder / f"{self._count:02d}_{func.name}_{name}.py"
            with writing(path):
                self._folder.mkdir(parents=True, exist_ok=True)
                path.write_text(func.script() + "\n", encoding="utf-8")
        self._count += 1
        if name in self._stop:
            self.finish(func.name)
            print(func.script())
            stopped = CompilationStopped(
                f"the compilation of `{func.name}` stopped after the pass {name}, as asked for"
            )
            stopped.program = func
            raise stopped
        if self.times is not None:
            self.times.go_on()

    def finish(self, name: str) -> None:
        """Print the times of the passes if they are asked for."""
        if self.times is not None:
            print(self.times.table(name, self._threshold))

    def _difference(self, path: Path, name: str, func: S.PrimFunc) -> None:
        from difflib import unified_diff

        text = func.script().splitlines()
        step, before = self._before
        if text == before:
            return
        self._before = (name, text)
        titles = f"{func.name} after {step}", f"{func.name} after {name}"
        lines = unified_diff(before, text, *titles, lineterm="")
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a", encoding="utf-8") as file:
                file.writelines(f"{line}\n" for line in lines)


@dataclass
class Times:
    """Milliseconds of each pass, and the nodes of the program that it leaves.

    Attributes:
        rows: pass, milliseconds, nodes.
    """

    func: S.PrimFunc
    rows: list[tuple[str, float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows.append((TRACED, 0.0, count_nodes(self.func)))
        self.go_on()

    def go_on(self) -> None:
        """The next pass starts now."""
        self._start = time.perf_counter()

    def after(self, name: str, func: S.PrimFunc) -> None:
        """The pass ``name`` has just ended; counting the nodes is not timed."""
        spent = (time.perf_counter() - self._start) * 1e3
        self.rows.append((name, spent, count_nodes(func)))
        self.go_on()

    def table(self, name: str, threshold: float = 0.0) -> str:
        """The rows of at least ``threshold`` milliseconds as text, and their sum."""
        total = sum(spent for _, spent, _ in self.rows)
        rows = [row for row in self.rows if row[0] == TRACED or row[1] >= threshold]
        rows.append(("all passes", total, self.rows[-1][2]))
        lines = [f"passes of `{name}`", f"  {'ms':>9}  {'nodes':>7}  pass"]
        return "\n".join(lines + [f"  {ms:9.2f}  {nodes:7}  {step}" for step, ms, nodes in rows])


def count_nodes(func: S.PrimFunc) -> int:
    """Statements of a program and the nodes of their expressions."""
    exprs = [stmt.exprs() for stmt in S.walk(func.body)]
    return len(exprs) + sum(1 for own in exprs for expr in own for _ in E.walk(expr))
