"""Declarations of memory, rewritten for the host's compiler.

A variable that belongs to a thread block has no counterpart in C++. Where loads and stores are
checked, calls also register with the runtime the tile of the arena that a pointer addresses, and
each array that represents registers. Nothing else of a kernel's source changes, and its lines keep
their numbers.
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
_ELEMENT = r"(\w+)(\[[^\[\]]*\])?"
_COPY = re.compile(rf"^( *)tl_copy_(\d+)\((&?{_ELEMENT}), (&?{_ELEMENT})\);$", re.MULTILINE)
_ASSIGNMENT = re.compile(rf"^( *)()({_ELEMENT}) = ({_ELEMENT});$", re.MULTILINE)
_KERNEL = re.compile(r"(?:__global__|\bkernel void\b).*?\b(?!__)(\w+)\(")
# Of Metal: alignas(16) threadgroup uchar tl_smem[4096]; constant int& n [[buffer(2)]].
_THREADGROUP = re.compile(
    r"\balignas\((?P<align>\d+)\) threadgroup (?P<kind>\w+) (?P<name>\w+)\[(?P<length>\d+)\];"
)
_CONSTANT = re.compile(r"\bconstant (\w+)& ")
_ATTRIBUTE = re.compile(r" *\[\[[^\[\]]*\]\]")
_DECLARATOR = re.compile(r"\s*([A-Za-z_]\w*)\s*(.*)\s*", re.DOTALL)


def rewrite_shared(source: str, first: int = 0) -> str:
    """The source of kernels with shared variables as C++ for the emulator's headers.

    Args:
        source: CUDA C++, or HIP.
        first: the number of the first variable, which distinguishes variables of one type.

    Returns:
        The source with every declaration of shared memory rewritten; the number of lines stays the
        same.
    """
    numbers = itertools.count(first)
    return _STATIC.sub(lambda match: _static(match, numbers), _DYNAMIC.sub(_dynamic, source))


def rewrite_metal(source: str) -> str:
    """The source of Metal kernels as C++: shared memory, constants by value, no attributes."""
    numbers = itertools.count()

    def declared(match: re.Match[str]) -> str:
        kind, name, length, align = match.group("kind", "name", "length", "align")
        if name == "tl_smem":
            return f"unsigned char* const {name} = (unsigned char*)tl_emu_arena();"
        storage = f"tl_emu_shared<{kind}[{length}], {next(numbers)}, {align}>()"
        return f"{kind} (&{name})[{length}] = {storage};"

    plain = _ATTRIBUTE.sub("", _CONSTANT.sub(r"const \1 ", source))
    return _THREADGROUP.sub(declared, plain)


def rewrite_tiles(source: str, tiles: Sequence[SharedBuffer]) -> str:
    """The source of kernels with bounds for each tile of the arena.

    Args:
        source: CUDA C++.
        tiles: the shared buffers of all kernels.

    Returns:
        The source, in which the runtime makes the pointers to ``tiles``. It identifies a tile by
        its number among the buffers of its kernel.
    """
    numbers: dict[tuple[str, str], int] = {}
    count: dict[str, int] = {}
    for tile in tiles:
        numbers[tile.kernel, tile.name] = count.get(tile.kernel, 0)
        count[tile.kernel] = count.get(tile.kernel, 0) + 1
    heads = [(match.start(), match[1]) for match in _KERNEL.finditer(source)]

    def windowed(match: re.Match[str]) -> str:
        kernel = next((name for start, name in reversed(heads) if start <= match.start()), "")
        number = numbers.get((kernel, match["name"]))
        if number is None:
            return match[0]
        return f"{match['head']}tl_emu_tile({match['offset'] or 0}, {number});"

    return _TILE.sub(windowed, source)


def rewrite_arrays(source: str) -> tuple[str, tuple[str, ...]]:
    """The source of kernels that registers every array in registers with the runtime.

    Returns:
        The source, and the names of the arrays by the number that the runtime knows.
    """
    names: list[str] = []
    inside = _function_bodies(source)

    def registered(match: re.Match[str]) -> str:
        name = match[1]
        if not inside(match.start(1)):
            return match[0]
        names.append(name)
        size = f"sizeof({name}), sizeof({name}{'[0]' * match[2].count('[')})"
        return f"{match[0]} tl_emu_registers({name}, {size}, {len(names) - 1});"

    return _ARRAY.sub(registered, source), tuple(names)


def _function_bodies(source: str) -> Callable[[int], bool]:
    """Whether a position of a source is in a function and not in a type; positions must ascend."""
    open_braces: list[bool] = []
    marks = _SCOPE.finditer(source)
    mark = next(marks, None)

    def is_in_function(at: int) -> bool:
        nonlocal mark
        while mark is not None and mark.start() < at:
            if mark[0] == "{":
                head = source[max(0, mark.start() - 200) : mark.start()]
                open_braces.append(_TYPE_HEAD.search(head) is None)
            elif open_braces:
                open_braces.pop()
            mark = next(marks, None)
        return bool(open_braces) and open_braces[-1]

    return is_in_function


def rewrite_conversions(source: str, tiles: Sequence[SharedBuffer]) -> str:
    """The source of kernels with moves of layout conversions marked for the runtime: those between
    a fragment and the shared tile through which it gets another register layout. They move the
    whole fragment, also elements that the program has not written, and count as no use of them."""
    stems = [stem for tile in tiles if tile.converted for stem in (tile.converted, tile.name)]
    if not stems:
        return source
    # Names of the fragment in its old and new layout, the tile, and the vectors between them.
    name = re.compile(rf"(?:{'|'.join(map(re.escape, stems))})(?:_moved)?(?:_vec)?(?:_\d+)?")

    def as_move(match: re.Match[str]) -> str:
        space, size, target, target_name, _, source, source_name, _ = match.groups()
        if name.fullmatch(target_name) is None or name.fullmatch(source_name) is None:
            return match[0]
        if not size:
            return f"{space}tl_emu_move(&{target}, &{source}, sizeof({target}));"
        return f"{space}tl_emu_move({target}, {source}, {size});"

    return _ASSIGNMENT.sub(as_move, _COPY.sub(as_move, source))


def _dynamic(match: re.Match[str]) -> str:
    kind, name = match["kind"], match["name"]
    return f"{kind}* const {name} = ({kind}*)tl_emu_arena();" + _line_ends(match[0])


def _static(match: re.Match[str], numbers: Iterator[int]) -> str:
    align = match["align"] or match["before"]
    texts = []
    for text in _split(match["names"]):
        declarator = _DECLARATOR.fullmatch(text)
        assert declarator is not None  # by the pattern of `names`
        kind, extents = match["kind"].strip(), declarator[2].strip().replace("\n", " ")
        arguments = f"{kind}{extents}, {next(numbers)}" + (f", {align}" if align else "")
        texts.append(f"{kind} (&{declarator[1]}){extents} = tl_emu_shared<{arguments}>();")
    return " ".join(texts) + _line_ends(match[0])


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
