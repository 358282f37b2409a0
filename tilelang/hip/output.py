"""Output of kernels: records in host memory, as ``include/tl_hip_print.h`` writes them."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence

SYMBOL = "tl_output"  # the variable of a code object with the address of the records
WORDS = 1 << 18  # of 4 bytes, for the records of one launch
HEAD = 2  # words in front of them: those in use, those there are
_FORMAT = re.compile(r"%([-+ #0]*\d*(?:\.\d+)?)(?:hh|h|ll|l|z|j)?([diouxXeEfgGcsp%])")


def decoded(buffer: Sequence[int]) -> Iterator[str]:
    """The text of each record; at the end a line if some were dropped.

    Args:
        words: the memory, its head included.
    """
    used, room = buffer[0], buffer[1]
    at, end = HEAD, HEAD + min(used, room)
    while at < end and buffer[at]:
        length, parts = buffer[at], buffer[at + 1]
        fields: list[object] = []
        position = at + 2
        for _ in range(parts):
            kind = buffer[position]
            if kind == 2:
                size = buffer[position + 1]
                count = -(-size // 4)
                raw = struct.pack(f"<{count}I", *buffer[position + 2 : position + 2 + count])
                fields.append(raw[:size].decode(errors="replace"))
                position += 2 + count
                continue
            bits = struct.pack("<2I", *buffer[position + 1 : position + 3])
            fields.append(struct.unpack("<d" if kind == 1 else "<q", bits)[0])
            position += 3
        yield _formatted(str(fields[0]), fields[1:])
        at += length
    if used > room:
        yield f"(kernels printed {used} words; only {room} are kept)\n"


def _formatted(text: str, values: Sequence[object]) -> str:
    """C's format with values; unsigned numbers of 32 bits come as they are."""
    arguments = iter(values)

    def formatted(fields: re.Match[str]) -> str:
        flags, letter = fields.groups()
        if letter == "%":
            return "%"
        value = next(arguments)
        if letter == "p":
            return f"{int(str(value)) & (1 << 64) - 1:#x}"
        return f"%{flags}{'d' if letter == 'u' else letter}" % value

    return _FORMAT.sub(formatted, text)
