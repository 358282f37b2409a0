"""Source lines of addresses in a compiled kernel: of the generated source and the user's program.

Debug information gives the line of the generated source, also of inlined calls. Its comments ``//
file.py:10`` give the line of the user's program. ``addr2line`` reads debug information where it is
installed, else the package ``pyelftools``.
"""

from __future__ import annotations

import bisect
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

from tilelang.codegen.text import source_label
from tilelang.codegen.writer import SOURCE_LINE
from tilelang.emulator.build import TEXT, KernelLibrary
from tilelang.ir import stmt as S
from tilelang.records import dataclass
from tilelang.scratch import ScratchFolder

_KERNEL = re.compile(r"__global__.*?\b(?!__)(\w+)\(")


@dataclass(frozen=True)
class SourceLine:
    """A line of a generated source and the line of the program that it comes from.

    Attributes:
        line: number of the generated line; 0 if unknown.
        text: the line itself.
        kernel: the function that contains it.
        file, user_line: the program's line; "" and 0 if unknown.
        user_text: that line, if its file can be read.
    """

    line: int = 0
    text: str = ""
    kernel: str = ""
    file: str = ""
    user_line: int = 0
    user_text: str = ""

    @property
    def user(self) -> str:
        """``file.py:10``, or "" when the program's line is not known."""
        return f"{self.file}:{self.user_line}" if self.file else ""

    def __str__(self) -> str:
        if self.user:
            return self.user
        return f"generated line {self.line}" if self.line else "an unknown line"


class Lines:
    """The lines of a generated source.

    Args:
        source: the generated source.
        files: path of each user file by its base name.
    """

    def __init__(self, source: str, files: Mapping[str, str]) -> None:
        self.lines = source.splitlines()
        self._files = files
        self._starts: list[int] = []  # lines of comments and of heads of kernels
        self._marks: list[tuple[str, int]] = []
        self._heads: list[tuple[int, str]] = []
        for number, line in enumerate(self.lines, 1):
            mark = SOURCE_LINE.match(line)
            head = _KERNEL.search(line)
            if head is not None:
                self._heads.append((number, head[1]))
            if mark is not None or head is not None:
                self._starts.append(number)
                self._marks.append((mark[1], int(mark[2])) if mark is not None else ("", 0))

    def source_line(self, line: int) -> SourceLine:
        """Line number ``line`` with the line of the program that it comes from."""
        if not 0 < line <= len(self.lines):
            return SourceLine()
        kernel = next((name for start, name in reversed(self._heads) if start <= line), "")
        at = bisect.bisect_right(self._starts, line) - 1
        file, user_line = self._marks[at] if at >= 0 else ("", 0)
        path = self._files.get(file, file)
        return SourceLine(
            line, self.lines[line - 1].strip(), kernel, path, user_line, _line_of(path, user_line)
        )


@lru_cache(maxsize=256)
def _line_of(path: str, line: int) -> str:
    import linecache

    return linecache.getline(path, line).strip() if path and line else ""


def user_files(func: S.PrimFunc) -> dict[str, str]:
    """Path of every file that has statements of ``func``, by base name."""
    files = {}
    for stmt in S.walk(func.body):
        if stmt.loc is not None:
            files[source_label(stmt.loc.file)] = stmt.loc.file
    if func.loc is not None:
        files[source_label(func.loc.file)] = func.loc.file
    return files


def generated_lines(library: KernelLibrary, addresses: Sequence[int]) -> dict[int, int]:
    """Line of the generated source for each return address, 0 where it is not known.

    Of inlined calls, the outermost line counts, which is in the kernel itself.
    """
    base = load_address(library)
    inside = sorted({address for address in addresses if address > base})
    # A call is before its return address.
    offsets = [address - base - 1 for address in inside]
    numbers = _addr2line(library.library.data, offsets)
    if numbers is None:
        numbers = _pyelftools(library.library.data, offsets)
    lines = dict(zip(inside, numbers if numbers is not None else [0] * len(inside)))
    return {address: lines.get(address, 0) for address in addresses}


def load_address(library: KernelLibrary) -> int:
    """Where the library starts in memory."""
    import ctypes

    class Info(ctypes.Structure):
        _fields_ = (
            ("file", ctypes.c_char_p),
            ("base", ctypes.c_void_p),
            ("name", ctypes.c_char_p),
            ("address", ctypes.c_void_p),
        )

    info = Info()
    dladdr = ctypes.CDLL(None).dladdr
    dladdr.argtypes = (ctypes.c_void_p, ctypes.POINTER(Info))
    entry = library.any_entry()
    if entry == 0 or not dladdr(entry, ctypes.byref(info)):
        return 0
    return int(info.base or 0)


def _addr2line(data: bytes, offsets: Sequence[int]) -> list[int] | None:
    """Lines by the tool of that name; None where there is none."""
    import shutil
    import subprocess

    names = ("addr2line", "llvm-addr2line", "llvm-symbolizer")
    tool = next(filter(None, map(shutil.which, names)), None)
    if tool is None or not offsets:
        return [] if tool is not None else None
    with ScratchFolder() as folder:
        file = folder / "kernel.so"
        file.write_bytes(data)
        argv = [tool, "-a", "-i", "-e", str(file)]
        if tool.endswith("symbolizer"):
            argv = [tool, "--output-style=GNU", "-a", "-i", "-e", str(file)]
        process = subprocess.run(
            argv, input="\n".join(map(hex, offsets)), capture_output=True, text=True, check=False
        )
    if process.returncode:
        return None
    numbers: list[int] = []
    for line in process.stdout.splitlines():
        if line.startswith("0x"):
            numbers.append(0)
            continue
        file_name, _, number = line.partition(" ")[0].rpartition(":")
        if numbers and file_name.endswith(TEXT) and number.isdigit():
            numbers[-1] = int(number)  # the last one is the outermost
    return numbers if len(numbers) == len(offsets) else None


def _pyelftools(data: bytes, offsets: Sequence[int]) -> list[int] | None:
    """Lines by the package of that name; None where it is missing."""
    from io import BytesIO

    try:
        from elftools.elf.elffile import ELFFile
    except ImportError:
        return None
    elf = ELFFile(BytesIO(data))
    if not elf.has_dwarf_info():
        return None
    dwarf = elf.get_dwarf_info()
    numbers = [0] * len(offsets)
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        if program is None:
            continue
        names = _file_names(program)
        rows = [entry.state for entry in program.get_entries() if entry.state is not None]
        calls = list(_inlined(dwarf, unit))
        for number, offset in enumerate(offsets):
            for row, after in pairwise(rows):
                inside = row.address <= offset < after.address and not row.end_sequence
                if inside and names.get(row.file, "").endswith(TEXT):
                    numbers[number] = row.line
            outer = [
                call for call in calls
                if any(low <= offset < high for low, high in call[0])
                and names.get(call[1], "").endswith(TEXT)
            ]  # fmt: skip
            if outer:
                numbers[number] = max(outer, key=lambda call: sum(b - a for a, b in call[0]))[2]
    return numbers


def _file_names(program: Any) -> dict[int, str]:
    """File number -> name in a line program."""
    header = program.header
    first = 0 if header["version"] >= 5 else 1
    return {
        number: entry.name.decode(errors="replace")
        for number, entry in enumerate(header["file_entry"], first)
    }


def _inlined(dwarf: Any, unit: Any) -> Iterator[tuple[list[tuple[int, int]], int, int]]:
    """Address ranges, file number and line of every call that was inlined."""
    lists = dwarf.range_lists()
    for die in unit.iter_DIEs():
        if die.tag != "DW_TAG_inlined_subroutine" or "DW_AT_call_line" not in die.attributes:
            continue
        spans = []
        low = die.attributes.get("DW_AT_low_pc")
        if low is not None:
            high = die.attributes["DW_AT_high_pc"]
            size = high.value - (low.value if high.form == "DW_FORM_addr" else 0)
            spans.append((low.value, low.value + size))
        elif "DW_AT_ranges" in die.attributes and lists is not None:
            base = unit.get_top_DIE().attributes.get("DW_AT_low_pc")
            start = 0 if base is None else base.value
            for entry in lists.get_range_list_at_offset(
                die.attributes["DW_AT_ranges"].value, cu=unit
            ):
                if hasattr(entry, "base_address"):
                    start = entry.base_address
                elif getattr(entry, "is_absolute", False):
                    spans.append((entry.begin_offset, entry.end_offset))
                else:
                    spans.append((start + entry.begin_offset, start + entry.end_offset))
        file = die.attributes.get("DW_AT_call_file")
        if spans and file is not None:
            yield spans, file.value, die.attributes["DW_AT_call_line"].value
