"""Declarations of memory, rewritten for the host's compiler.

A variable that belongs to a thread block has no counterpart in C++. Where loads and stores are
watched, the runtime is also told which tile of the arena a pointer is for, and where an array
begins that stands for registers. This is all that is
changed in the text of a kernel, and lines stay where they are.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilelang.codegen.gpu.module import SharedBuffer

_ALIGN = r"(?:(?:__align__|alignas)\s*\(\s*(?P<align>[^()]*)\)\s*)?"
# extern __shared__ __align__(1024) unsigned char name[];
_DYNAMIC = re.compile(
    r"\bextern\s+(?:__align__\s*\([^()]*\)\s*)?__shared__\s+"
    + _ALIGN
    + r"(?P<kind>[^;={}()]*?[\w>*&])\s*\b(?P<name>[A-Za-z_]\w*)\s*\[\s*\]\s*;"
)
# __shared__ float a[4][32], b;
_STATIC = re.compile(
    r"\b(?:static\s+)?(?:__align__\s*\((?P<before>[^()]*)\)\s*)?__shared__\s+"
    + _ALIGN
    + r"(?P<kind>(?:(?:const|volatile|unsigned|signed|struct)\s+)*[A-Za-z_][\w:]*(?:\s*<[^;]*?>)?"
    r"(?:\s+(?:int|char|short|long|double))*\s*\**)\s*"
    r"(?P<names>[A-Za-z_]\w*\s*(?:\[[^;{}]*?\]\s*)*(?:,\s*[A-Za-z_]\w*\s*(?:\[[^;{}]*?\]\s*)*)*);"
)
# uint16_t* const name = (uint16_t*)(tl_smem + 8192);
_TILE = re.compile(
    r"^(?P<head>\s*[\w:<>, ]+?\* const (?P<name>\w+) = \([\w:<>, ]+?\*\))"
    r"\(tl_smem(?: \+ (?P<offset>\d+))?\);$",
    re.MULTILINE,
)
# __align__(16) float name[32]; in a program's own text, float name[4][8];
_ARRAY = re.compile(
    r"^[ \t]+(?:(?:__align__|alignas)\(\d+\) )?"
    r"(?!(?:return|static|extern|typedef|using|__shared__|threadgroup)\b)"
    r"[\w:]+(?: \w+)* (\w+)((?:\[[^\[\];]+\])+);(?=[ \t]*(?://.*)?$)",
    re.MULTILINE,
)
_SCOPE = re.compile(r"[{}]")
_TYPE_HEAD = re.compile(r"\b(?:struct|class|union|enum|namespace)\b[^;{}()]*$|\bextern\s*\"C\"\s*$")
# tl_copy_16(&name[i], &name_shared[j]); name_shared[i] = name[j];
_PLACE = r"(\w+)(\[[^\[\]]*\])?"
_COPY = re.compile(rf"^( *)tl_copy_(\d+)\((&?{_PLACE}), (&?{_PLACE})\);$", re.MULTILINE)
_ASSIGNMENT = re.compile(rf"^( *)()({_PLACE}) = ({_PLACE});$", re.MULTILINE)
_KERNEL = re.compile(r"(?:__global__|\bkernel void\b).*?\b(?!__)(\w+)\(")
# Of Metal: alignas(16) threadgroup uchar tl_smem[4096]; constant int& n [[buffer(2)]].
_THREADGROUP = re.compile(
    r"\balignas\((?P<align>\d+)\) threadgroup (?P<kind>\w+) (?P<name>\w+)\[(?P<length>\d+)\];"
)
_CONSTANT = re.compile(r"\bconstant (\w+)& ")
_ATTRIBUTE = re.compile(r" *\[\[[^\[\]]*\]\]")
_DECLARATOR = re.compile(r"\s*([A-Za-z_]\w*)\s*(.*)\s*", re.DOTALL)


def rewrite_shared(source: str, first: int = 0) -> str:
    """The text of kernels with shared variables as C++ for the emulator's headers.

    Args:
        source: CUDA C++, or HIP.
        first: the number of the first variable; variables of one type differ by it.

    Returns:
        The same with every declaration of shared memory rewritten; as many lines as before.
    """
    numbers = itertools.count(first)
    dynamic = _DYNAMIC.sub(_dynamic, source)
    return _STATIC.sub(lambda found: _static(found, numbers), dynamic)


def rewrite_metal(source: str) -> str:
    """The text of Metal kernels as C++: shared memory, constants by value, without attributes."""
    numbers = itertools.count()

    def declared(found: re.Match[str]) -> str:
        kind, name, length, align = found.group("kind", "name", "length", "align")
        if name == "tl_smem":
            return f"unsigned char* const {name} = (unsigned char*)tl_emu_arena();"
        place = f"tl_emu_shared<{kind}[{length}], {next(numbers)}, {align}>()"
        return f"{kind} (&{name})[{length}] = {place};"

    plain = _ATTRIBUTE.sub("", _CONSTANT.sub(r"const \1 ", source))
    return _THREADGROUP.sub(declared, plain)


def rewrite_tiles(source: str, tiles: Sequence[SharedBuffer]) -> str:
    """The text of kernels with a window for each tile of the arena.

    Args:
        source: CUDA C++.
        tiles: the shared buffers of all kernels.

    Returns:
        The same with the pointers to ``tiles`` made by the runtime, by their numbers among the
        buffers of their kernel.
    """
    numbers: dict[tuple[str, str], int] = {}
    count: dict[str, int] = {}
    for tile in tiles:
        numbers[tile.kernel, tile.name] = count.get(tile.kernel, 0)
        count[tile.kernel] = count.get(tile.kernel, 0) + 1
    heads = [(found.start(), found[1]) for found in _KERNEL.finditer(source)]

    def made(found: re.Match[str]) -> str:
        kernel = next((name for start, name in reversed(heads) if start <= found.start()), "")
        number = numbers.get((kernel, found["name"]))
        if number is None:
            return found[0]
        return f"{found['head']}tl_emu_tile({found['offset'] or 0}, {number});"

    return _TILE.sub(made, source)


def rewrite_arrays(source: str) -> tuple[str, tuple[str, ...]]:
    """The text of kernels that tells the runtime of every array in registers.

    Returns:
        The text, and the names of the arrays, by the numbers that the runtime gets.
    """
    names: list[str] = []
    inside = _function_bodies(source)

    def told(found: re.Match[str]) -> str:
        name = found[1]
        if not inside(found.start(1)):
            return found[0]
        names.append(name)
        size = f"sizeof({name}), sizeof({name}{'[0]' * found[2].count('[')})"
        return f"{found[0]} tl_emu_registers({name}, {size}, {len(names) - 1});"

    return _ARRAY.sub(told, source), tuple(names)


def _function_bodies(source: str) -> Callable[[int], bool]:
    """Whether a place of a text, asked for in order, is in a function and not in a type."""
    open_braces: list[bool] = []
    marks = _SCOPE.finditer(source)
    mark = next(marks, None)

    def inside(at: int) -> bool:
        nonlocal mark
        while mark is not None and mark.start() < at:
            if mark[0] == "{":
                head = source[max(0, mark.start() - 200) : mark.start()]
                open_braces.append(_TYPE_HEAD.search(head) is None)
            elif open_braces:
                open_braces.pop()
            mark = next(marks, None)
        return bool(open_braces) and open_braces[-1]

    return inside


def rewrite_conversions(source: str, tiles: Sequence[SharedBuffer]) -> str:
    """The text of kernels that tells the runtime of moves which the program does not make: between
    a fragment and the shared tile that brings it to another register layout. Such a move uses
    nothing: a fragment moves whole, although the program may have written and need a part of it."""
    stems = [stem for tile in tiles if tile.converted for stem in (tile.converted, tile.name)]
    if not stems:
        return source
    # Of the fragment in its old and new layout, the tile, and the vectors between them.
    name = re.compile(rf"(?:{'|'.join(map(re.escape, stems))})(?:_moved)?(?:_vec)?(?:_\d+)?")

    def told(found: re.Match[str]) -> str:
        space, size, target, target_name, _, source, source_name, _ = found.groups()
        if name.fullmatch(target_name) is None or name.fullmatch(source_name) is None:
            return found[0]
        if not size:
            return f"{space}tl_emu_move(&{target}, &{source}, sizeof({target}));"
        return f"{space}tl_emu_move({target}, {source}, {size});"

    return _ASSIGNMENT.sub(told, _COPY.sub(told, source))


def _dynamic(found: re.Match[str]) -> str:
    kind, name = found["kind"], found["name"]
    return f"{kind}* const {name} = ({kind}*)tl_emu_arena();" + _line_ends(found[0])


def _static(found: re.Match[str], numbers: Iterator[int]) -> str:
    align = found["align"] or found["before"]
    texts = []
    for declarator in _split(found["names"]):
        match = _DECLARATOR.fullmatch(declarator)
        assert match is not None  # the pattern of `names` says so
        kind, extents = found["kind"].strip(), match[2].strip().replace("\n", " ")
        arguments = f"{kind}{extents}, {next(numbers)}" + (f", {align}" if align else "")
        texts.append(f"{kind} (&{match[1]}){extents} = tl_emu_shared<{arguments}>();")
    return " ".join(texts) + _line_ends(found[0])


def _split(names: str) -> list[str]:
    """Declarators between the commas that are not inside brackets."""
    parts, depth, begin = [], 0, 0
    for at, char in enumerate(names):
        depth += (char in "[(<") - (char in "])>")
        if char == "," and depth == 0:
            parts.append(names[begin:at])
            begin = at + 1
    return [*parts, names[begin:]]


def _line_ends(text: str) -> str:
    return "\n" * text.count("\n")
