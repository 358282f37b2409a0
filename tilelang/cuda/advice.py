"""Performance warnings of the assembler (ptxas), at the lines of the program.

ptxas names functions and lines of PTX. The warning names the kernel and has the location of the
products, or of the kernel, that it is about.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence

from tilelang.env import env
from tilelang.errors import Loc, TileWarning
from tilelang.ir import stmt as S
from tilelang.target.nvidia import NO_SET_MAX_NREG
from tilelang.warning import warn_caller

# C7508 and C7509 are about setmaxnreg, C7510 to C7519 about wgmma.
_REMARK = re.compile(r"\(C75(?:0[89]|1\d)\)")
_LOCATION = re.compile(r" (?:in|for) (?:the )?function '?([\w$]+)'?(?: in line \d+)?")
_WGMMA = re.compile(r"wgmma.* serialized(?: due to (.*))?$")
_BUDGET = re.compile(r"'setmaxnreg' ignored;? ?(.*?)\.?$")

_SPILLS = "bytes of registers are spilled"
# Text in a sentence of `sentence`, or of spills -> advice.
_HINTS = (
    ("insufficient register",
     "give each thread less: smaller tiles, or more threads (T.Kernel(threads=...))"),
    ("accumulator registers",
     "leave the accumulator alone until its products are waited for (T.wait_wgmma)"),
    ("input registers", "compute the operand in registers before the first product that reads it"),
    ("divergent path", "let whole warpgroups take the branch of the products (tx < 128)"),
    ("call", "let functions that the program imports be inlined (__forceinline__)"),
    ("ill formed", "commit products and wait for them on every path (T.wait_wgmma)"),
    ("setmaxnreg", f"leave the registers to the compiler: T.{NO_SET_MAX_NREG.name}()"),
    (_SPILLS, "give each thread less: smaller tiles, or more threads (T.Kernel(threads=...))"),
)  # fmt: skip


def sentence(line: str, kernel: str) -> str | None:
    """A line of the assembler's log as a sentence about ``kernel``; None for lines about nothing
    that costs speed."""
    code = _REMARK.search(line)
    if code is None:
        return None
    location = _LOCATION.search(line)
    line = _LOCATION.sub("", line).rstrip()
    products, budget = _WGMMA.search(line), _BUDGET.search(line)
    if products is not None:
        finding, why = "each wgmma waits for the one before it (they are serialised)", products[1]
    elif budget is not None:
        finding, why = "the register budget of setmaxnreg is ignored", budget[1]
    else:
        finding, why = line[code.end() :].strip(" :"), None
    reason = f": {' '.join(why.split())}" if why else ""
    return f"{location[1] if location else kernel or 'kernel'}: {finding}{reason} {code[0]}"


def advise(func: S.PrimFunc, kernels: Sequence[str], sentences: Sequence[str]) -> None:
    """Warn the author of ``func`` of each of the ``sentences`` about its ``kernels``; they are
    silenced as the remarks of `tilelang.ir.lints`."""
    off = env.TILELANG_LINTS_OFF
    for text in sentences:
        kernel, _, remark = text.partition(": ")
        lint = "spills" if _SPILLS in remark else "slow-instructions"
        if lint in off or "all" in off:
            continue
        hint = next((hint for phrase, hint in _HINTS if phrase in remark), "")
        loc = _line(func, kernels.index(kernel) if kernel in kernels else -1, "wgmma" in remark)
        message = f"kernel {func.name} is slower than it could be: {remark} [{lint}]"
        message += f"\n  hint: {hint}" if hint else ""
        if loc is None:
            warn_caller(message)
        else:
            warnings.warn_explicit(message, TileWarning, loc.file, loc.line)


def _line(func: S.PrimFunc, number: int, products: bool) -> Loc | None:
    """The first product, or the start, of the kernel with that number (-1: of any)."""
    launches = S.find(func.body, S.Launch)
    launches = launches[number : number + 1] if 0 <= number < len(launches) else launches
    for launch in launches:
        for node in S.walk(launch.body) if products else ():
            if isinstance(node, S.Gemm) and node.loc is not None:
                return node.loc
    return next((launch.loc for launch in launches if launch.loc is not None), func.loc)
