"""Errors of a CUDA compiler, reported as one error at the line of the program.

The compiler names lines of the generated source; the comments ``// file.py:10`` there name the
program's. A function that nothing defines is most often one that the program calls itself.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tilelang.codegen.writer import SOURCE_LINE
from tilelang.env import env
from tilelang.errors import CompileError

_SHOWN_LINES = 12  # of the compiler's output in an error
_UNDEFINED = re.compile(
    r'^(?P<file>[^\s(]+)\((?P<line>\d+)\): error: identifier "(?P<name>\w+)" is undefined'
)


def refused(
    name: str, source: str, log: str, headers: Mapping[str, str], tool: str
) -> CompileError:
    """The error for source that a compiler does not take.

    Args:
        name: of the kernel.
        source: the text that was compiled as ``name.cu``.
        log: what the compiler wrote; kept in the error's ``log``.
        headers: the texts that it included, by name.
        tool: which compiler it was.
    """
    lines = [line.rstrip() for line in log.splitlines() if line.strip()]
    errors = [at for at, line in enumerate(lines) if re.search(r"\berror\b|fatal", line)]
    lines = lines[errors[0] :] if errors else lines
    path = _write_source(name, source, headers)
    advice = (f"the source is in {path}; " if path else "") + (
        f"compiled by {tool}; all that the compiler wrote is in the `log` of this error"
    )
    error = _undefined(name, source, lines, advice) or _defect(name, source, lines, advice)
    error.log = log
    return error


def _undefined(name: str, source: str, lines: list[str], advice: str) -> CompileError | None:
    """The error for a function that the generated source calls and nothing defines."""
    match = _UNDEFINED.match(lines[0]) if lines else None
    if match is None or os.path.basename(match["file"]) != f"{name}.cu":
        return None
    text, user = _line(source, int(match["line"]))
    return CompileError(
        f"`{match['name']}` is not defined in the CUDA source of kernel {name}",
        expected="a device function of CUDA, or one that the program brings with T.import_source "
        "or T.Kernel(prelude=...)",
        got=f"`{text}`" + (f" for {user}" if user else ""),
        hint=advice,
    )


def _defect(name: str, source: str, lines: list[str], advice: str) -> CompileError:
    shown = lines[:_SHOWN_LINES]
    if len(lines) > _SHOWN_LINES:
        shown.append(f"... {len(lines) - _SHOWN_LINES} more lines")
    number = re.match(rf"[^(]*\b{re.escape(name)}\.cu\((\d+)\): ", lines[0]) if lines else None
    user = _line(source, int(number[1]))[1] if number else ""
    return CompileError(
        f"the generated CUDA source of kernel {name} did not compile"
        + (f" at what {user} became" if user else "")
        + "; this is a defect of tilelang, or of source that the program imports",
        got="\n".join(shown) or "no message",
        hint=f"please report it with the source; {advice}",
    )


def _line(source: str, number: int) -> tuple[str, str]:
    """A line of the generated source, and ``file.py:10`` of the program or ""."""
    lines = source.splitlines()[:number]
    marks = (SOURCE_LINE.match(line) for line in reversed(lines))
    user = next((f"{mark[1]}:{mark[2]}" for mark in marks if mark is not None), "")
    return (lines[-1].strip() if lines else "", user)


def _write_source(name: str, source: str, headers: Mapping[str, str]) -> str | None:
    """Keep refused source where the user can look at it; None when nothing can be written."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    for parent in (Path(env.TILELANG_TMP_DIR), Path(tempfile.gettempdir())):
        folder = parent / f"{name}-{digest}"
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            for file, text in {**headers, f"{name}.cu": source}.items():
                (folder / file).write_text(text, encoding="utf-8")
        except OSError:
            continue
        return str(folder / f"{name}.cu")
    return None
