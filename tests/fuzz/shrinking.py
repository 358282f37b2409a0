"""Makes a failing program smaller by leaving out kernels and statements."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from .model import Program


def shrink(program: Program, fails: Callable[[Program], bool], attempts: int = 150) -> Program:
    """The smallest program found that still ``fails``, in at most ``attempts`` trials."""
    left = attempts
    size = 8
    while size >= 1:
        progress = False
        for k in reversed(range(len(program.kernels))):
            at = len(program.kernels[k])
            while at > 0 and left > 0:
                at -= size
                smaller = _without(program, k, max(at, 0), size)
                if smaller is None:
                    continue
                left -= 1
                if fails(smaller):
                    program, progress = smaller, True
                    if k >= len(program.kernels):
                        break
        if not progress or left <= 0:
            size //= 2
    return program


def _without(program: Program, kernel: int, start: int, count: int) -> Program | None:
    """``program`` without some lines of a kernel; None when that is not a program."""
    lines = program.kernels[kernel]
    stop = min(start + count, len(lines))
    if count == 1:  # a loop or branch goes with its body
        depth = _depth(lines[start])
        while stop < len(lines) and _depth(lines[stop]) > depth:
            stop += 1
    rest = lines[:start] + lines[stop:]
    kernels = [*program.kernels[:kernel], *([rest] if rest else []), *program.kernels[kernel + 1 :]]
    if not kernels:
        return None
    text = "\n".join(line for lines in kernels for line in lines)
    used = set(re.findall(r"\w+", text))
    tensors = [tensor for tensor in program.tensors if tensor.name in used]
    dims = {dim for tensor in tensors for dim in tensor.dims}
    needed = {symbol for symbol in program.symbols if symbol in used} - dims
    for tensor in program.tensors:  # something must carry the symbols that are still used
        if tensor not in tensors and needed & set(tensor.dims):
            tensors.append(tensor)
            needed -= set(tensor.dims)
    scalars = [scalar for scalar in program.scalars if scalar[0] in used]
    made = replace(program, kernels=kernels, tensors=tensors, scalars=scalars).assemble()
    try:
        compile(made.source, "<shrunk>", "exec")
    except SyntaxError:
        return None
    return made


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
