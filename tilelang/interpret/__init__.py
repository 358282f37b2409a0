"""The meaning of a program: its IR, at any level, executed with numpy, block by block.

:func:`run` is the definition that back ends are tested against. It also reports mistakes that
hardware does not: out-of-bounds accesses of on-chip buffers, reads of uninitialized memory, and
deadlocks. Set a breakpoint in ``stmts.execute`` to step through a kernel; ``T.print`` works.

Contract:

* Promises: the result of a program is defined here and nowhere else, at the level it is traced at
  and after every pass. Floats are rounded as the dtypes say; the order of threads, blocks and
  asynchronous copies is one that the language allows.
* May import: the IR, layouts, and targets for the names of features. It never imports a pass, a
  back end or the language. Register layouts of instructions are written from the vendors' manuals,
  so that lowering is tested against a second source.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from tilelang.interpret.observe import Observer
    from tilelang.ir.stmt import PrimFunc

UNINITIALIZED = ("error", "warn", "zero")  # rules for uninitialized reads
NEGATIVE_INDICES = ("outside", "warn", "error")  # rules for indices that are negative at run time


def run(
    func: PrimFunc, args: Sequence[Any], *, safe_memory: bool = True, checks: bool = True,
    seed: int | None = None, stdout: TextIO | None = None, uninitialized: str = "error",
    observer: Observer | None = None, late_copies: bool = False, negative_indices: str = "outside",
) -> None:  # fmt: skip
    """Execute ``func`` on ``args``, which are changed in place.

    Args:
        func: a function at any level: as traced, after any pass, or lowered to the instructions of
            Thread IR. Asynchronous copies of Thread IR arrive at their wait, no earlier.
        args: one value per parameter in order, results included. Tensors are numpy arrays with any
            strides (bfloat16 as uint16, fp8 as uint8, 4-bit types two per byte), or None if not
            used. Scalars are numbers. A pointer is an array or an address.
        safe_memory: apply the out-of-bounds rule to global memory; without it an out-of-bounds
            access is an error.
        checks: evaluate assertions.
        seed: order in which the blocks of a launch run; None is x fastest, then y, then z.
        stdout: where ``T.print`` writes; default ``sys.stdout``.
        uninitialized: the rule for reads of uninitialized on-chip memory: "error" stops, "warn"
            warns once for each source line and reads 0, "zero" reads 0.
        observer: is called for each access of shared memory, each barrier and each copy in flight.
        late_copies: asynchronous copies of tiles also arrive at their wait; until then their
            destination counts as uninitialized.
        negative_indices: the rule for an element index of a tensor that is negative at run time.
            It is out of bounds ("outside"), the same with a warning for each source line ("warn"),
            or an error ("error").

    Raises:
        KernelArgumentError: an argument does not fit its parameter.
        OutOfBoundsError, UninitializedReadError, DeadlockError, DeviceAssertError: a mistake of the
            program; the error names the line of the user's source.
        TileUnsupportedError: an operation that only some hardware has.
        TileValueError: an unknown rule for ``uninitialized`` or ``negative_indices``.
    """
    import numpy as np

    from tilelang.errors import at, check_choice
    from tilelang.interpret import exprs
    from tilelang.interpret.arguments import bind_arguments
    from tilelang.interpret.lanes import Lanes
    from tilelang.interpret.machine import Block, DivergentGroup, Run, Scope
    from tilelang.interpret.stmts import execute
    from tilelang.interpret.sync import drive
    from tilelang.ir.recursion import nesting, raise_recursion_limit

    for setting, rule, rules in (
        ("uninitialised reads", uninitialized, UNINITIALIZED),
        ("negative indices", negative_indices, NEGATIVE_INDICES),
    ):
        check_choice(rule, rules, f"unknown rule for {setting}")
    raise_recursion_limit(nesting(func.body))
    state = Run(exprs, func, safe_memory, checks, seed, sys.stdout if stdout is None else stdout)
    state.uninitialized, state.negative_indices = uninitialized, negative_indices
    state.observer = observer
    state.late_copies = late_copies
    host = Lanes(1)
    strand = DivergentGroup(Block(state, host, None, None), Scope(), host)
    with np.errstate(all="ignore"), at(func.loc):
        bind_arguments(strand, args)
        drive(execute(strand, func.body, None))
