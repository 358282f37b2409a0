"""When a mutant provably means the same. Each rule is a theorem with conditions that are checked on
the text, or by a run that stops where one does not hold; none knows a kernel by name.

* doubled: a barrier orders nothing if no thread accesses shared or global memory between it and
  another barrier that all threads pass right before or after it. A fence orders nothing if the same
  thread fences again before any use of what it wrote.
* made: a barrier behind which threads may use barriers in memory is not needed if since the barrier
  before it nothing else has been done, and if all threads pass one more before they use them.
* apart: a barrier orders nothing if no byte that one thread writes in the stretch before it is
  touched by another thread in the stretch behind it, or the other way round. The bytes are noted by
  a recorder of its own (``mutate_proof.py``).
* last: a barrier that stands in no loop orders nothing if behind it no shared buffer is named, and
  no tensor that is written and was named before it.
* wait: a wait for copies is the same if whatever copies the original covers, the mutant's covers
  too. Counters in the text itself, in every thread, establish that.
* generic: the fence after the initialisation of barriers in memory makes them known to asynchronous
  units and to other blocks. It is not needed for barriers that only threads of the block use, or
  threads of other blocks behind a barrier of the cluster, if every thread passes a barrier of the
  block between initialisation and first use, and if nothing else has been stored before it.
* end: a wait for a barrier in memory is not needed if no thread accesses memory behind it, if only
  threads arrive at that barrier, so that nothing asynchronous is in flight, and if arrivals from
  other blocks are ordered before the block's end by a barrier of the cluster. A wait for bulk
  stores behind which the thread ends has to wait for their reads only: the shared memory has been
  read then, and the end of the grid makes what they write visible.
* renamed: a named barrier may have another number at one place if nobody else has that number, all
  uses of its own wait for as many threads, and no more threads than that ever use it, which a run
  counts: then the same threads meet at either. If some of them did not come by, it would hang.
* sum: stages filled in another order are the same if they are also used in that order and their
  products only add up. A program whose control flow and addresses have no data in them, and whose
  arithmetic is sums of products of two inputs, computes polynomials of degree 2. Two of them whose
  accesses are in order (nothing has been found on any schedule) compute the same sums if they
  agree in exact arithmetic for random inputs: with values out of 5, different polynomials agree
  once with a probability of 2/5 at most, and they are compared 24 times. The order of a sum may
  change its rounding; nothing else.
* code: the mutant's text compiles to the same machine code as the original (NVRTC, if present).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import numpy as np
from mutate_changes import COUNTED, INIT, Mutant
from mutate_proof import orders_nothing
from mutate_run import Runner

_MEMORY = re.compile(
    r"\[|tl_cp_|tl_copy|tl_ldmatrix|tl_stmatrix|tl_warp|tl_thread|tl_atomic|tl_tma|tl_bulk|tl_wgmma|"
    r"tl_mbarrier|tl_bar_|tl_fence|tl_tcgen05|tl_cluster|tl_reduce|tl_sync|\*\("
)
_ARRAY = re.compile(r"\s*(?:__align__\(\d+\) )?\w+ (\w+)\[\d+\](?: = .*)?;$")
_FIRST = re.compile(r"if \((?:\(int\)threadIdx\.x|tx) == 0\) \{$")
_MADE = ("tl_mbarrier_init(", "tl_fence_barrier_init(")
# Between two barriers a thread may make barriers in memory ready that nobody has used.
_READY = re.compile(
    r"tl_mbarrier_init\(|tl_fence_barrier_init\(|if \(.*(?:threadIdx.x|\btx) == 0\) \{$|\}$|"
    r"\* const \w+ =|= tl_block_rank_in_cluster\(\)"
)
_SHARED = re.compile(r"\* const (\w+) = \(\w+\*\)\(tl_smem|__shared__ .*?(\w+)(?:\[\d+\])+;")
_POINTER = re.compile(r"(?<!const )(\w+)\* (?:__restrict__ )?(\w+)[,)]")
_CLUSTER = re.compile(r"^    tl_cluster_(?:sync|wait)\(\);", re.MULTILINE)
_BLOCK = re.compile(r"^    __syncthreads\(\);", re.MULTILINE)


def equivalent(runner: Runner, mutant: Mutant) -> str:
    """The rule by which a mutant means the same, or ""."""
    source = runner.source
    if mutant.before == "__syncthreads();" and barrier_is_doubled(source, mutant.line):
        return "doubled"
    if mutant.before == "__syncthreads();" and barrier_only_makes(source, mutant.line):
        return "made"
    if "fence_barrier_init" in mutant.before:
        if fence_is_doubled(source, mutant.line):
            return "doubled"
        if generic_only(source, mutant.line):
            return "generic"
    if "__sync" in mutant.before and barrier_is_last(source, mutant.line):
        return "last"
    if is_at_the_end(source, mutant):
        return "end"
    if "tl_cp_async" in mutant.before and waits_for_as_much(runner, mutant):
        return "wait"
    if mutant.before == "__syncthreads();" and orders_nothing(
        runner.case, source, mutant.line, runner.arch
    ):
        return "apart"
    if mutant.kind == "barrier +1" and is_renamed(runner, mutant):
        return "renamed"
    if mutant.kind == "shift stage" and same_sums(runner, mutant):
        return "sum"
    return "code" if same_code(source, mutant.source, runner.arch) else ""


# -- doubled, last ---------------------------------------------------------------------------------
def fence_is_doubled(source: str, line: int) -> bool:
    """Whether the thread that makes barriers in memory ready fences again before any use."""
    lines = source.splitlines()
    arrays = _private(lines)
    for text in map(str.strip, lines[line:]):
        if text.startswith("tl_fence_barrier_init("):
            return True
        if not (_READY.search(text) or text == "__syncthreads();" or _quiet(text, arrays)):
            return False
    return False


def barrier_is_doubled(source: str, line: int) -> bool:
    """Whether a barrier stands next to another one with no access of memory between them. Behind
    it barriers may be made, which nobody knows yet."""
    lines = source.splitlines()
    arrays = _private(lines)
    ways = (lines[line:], lines[: line - 1][::-1])
    return any(_comes(rest, arrays, back, () if back else _MADE) for back, rest in enumerate(ways))


def barrier_only_makes(source: str, line: int) -> bool:
    """Whether nothing but the making of barriers in memory stands between the barrier before and
    this one, and whether all threads pass a further one before they name those."""
    lines = source.splitlines()
    arrays, barriers = _private(lines), set[str]()
    if not lines[line - 1].startswith("    __sync") or "cluster" in source:
        return False
    for number in range(
        line - 2, -1, -1
    ):  # not in a loop: the stretch begins at the kernel's start
        text = lines[number].strip()
        if "__global__" in text or lines[number].startswith("    __syncthreads();"):
            break
        if (match := INIT.search(text)) is not None:
            barriers.update(re.findall(r"&?(\w+)", match[1])[:1])
        elif not (_quiet(text, arrays, _MADE) or text == "}" or _FIRST.match(text)):
            return False
    opened: list[str] = []
    for text in map(str.strip, lines[line:]):
        if text == "__syncthreads();" and all(map(_runs, opened)):
            return True
        if barriers & set(re.findall(r"\w+", text)):
            return False
        if text.startswith("}") and opened:
            opened.pop()
        if text.endswith("{"):
            opened.append(text)
    return True


def _comes(rest: list[str], arrays: set[str], back: int, allowed: tuple[str, ...]) -> bool:
    """Whether all threads that are at the start of ``rest`` come to a barrier before they access
    memory; of loops and branches between the whole is passed."""
    depth = 0
    for text in map(str.strip, rest):
        if text in ("__syncthreads();", "tl_cluster_sync();"):
            return depth == 0
        opens, closes = text.endswith("{"), text.startswith("}")
        depth += (closes - opens) if back else (opens - closes)
        if depth < 0 or not _quiet(text, arrays, allowed):
            return False
    return False


def _private(lines: list[str]) -> set[str]:
    """Names of arrays that each thread has for itself."""
    matches = (_ARRAY.match(text) for text in lines if "__shared__" not in text)
    return {match[1] for match in matches if match is not None}


def _quiet(text: str, arrays: set[str], allowed: tuple[str, ...] = ()) -> bool:
    """Whether a line accesses no memory that other threads see, and leaves nothing early."""
    declares = " const " in text.split("=")[0] and "(tl_smem" in text
    if not text or declares or text.startswith(("//", *allowed)):
        return True
    plain = re.sub(r"\b(\w+)\[", lambda at: "(" if at[1] in arrays else at[0], text)
    return not (_MEMORY.search(plain) or re.search(r"\b(?:break|continue|return|goto)\b", text))


def _runs(opening: str) -> bool:
    """Whether what a line opens surely runs: a loop over constants that is not empty."""
    match = re.match(r"for \(int \w+ = (\d+); \w+ < (\d+); \+\+\w+\) \{$", opening)
    return match is not None and int(match[1]) < int(match[2])


def barrier_is_last(source: str, line: int) -> bool:
    """Whether nothing behind a barrier meets what stands before it."""
    lines = source.splitlines()
    start, end = _kernel_around(lines, line)
    depth = len(lines[line - 1]) - len(lines[line - 1].lstrip())
    for number in range(line - 2, start, -1):
        text = lines[number]
        at = len(text) - len(text.lstrip())
        if text.strip() and at < depth:
            depth = at
            if re.match(r"\s*(?:for|while)\b", text) and not re.search(r"= 0; \w+ < 1;", text):
                return False
    before, after = "\n".join(lines[start + 1 : line - 1]), "\n".join(lines[line:end])
    shared = {name for pair in _SHARED.findall("\n".join(lines)) for name in pair if name}
    shared |= {"tl_thread_allreduce", "tl_smem"}
    words = set(re.findall(r"\w+", after))
    tensors = {name for _, name in _POINTER.findall(lines[start])}
    return not words & shared and not words & tensors & set(re.findall(r"\w+", before))


def _kernel_around(lines: list[str], line: int) -> tuple[int, int]:
    """First line of the kernel that a line (from 1) belongs to, and its closing brace."""
    start = max(n for n in range(line) if "__global__" in lines[n])
    return start, next((n for n in range(line, len(lines)) if lines[n] == "}"), len(lines))


# -- generic, end ----------------------------------------------------------------------------------
_THREADS = r"tl_mbarrier_(?:init|wait|try_wait|arrive|arrive_expect_tx|expect_tx)"


def generic_only(source: str, line: int) -> bool:
    """Whether barriers that a fence makes known are used by threads alone, and ordered for them."""
    lines = source.splitlines()
    start, end = _kernel_around(lines, line)
    inits: list[str] = []
    for text in map(str.strip, lines[start + 1 : line - 1]):
        match = INIT.search(text)
        name = re.match(r"&(\w+)\[\d+\]$", match[1]) if match is not None else None
        if text.startswith("tl_fence_barrier_init("):
            inits.clear()
        elif match is not None:
            if name is None:
                return False
            inits.append(name[1])
        elif not _before_all(text):
            return False
    rest = lines[line:end]
    places = {
        text.split("(tl_smem")[1] for text in lines[start:end] if "* const " in text
        and "(tl_smem" in text
    }  # fmt: skip
    names = sum("* const " in text and "(tl_smem" in text for text in lines[start:end])
    return (
        bool(inits)
        and len(places) == names  # no two names for one place
        and all(_used_by_threads(name, rest) for name in set(inits))
    )


def _before_all(text: str) -> bool:
    """Whether a line accesses no memory but barriers that it makes."""
    declares = re.match(r"(?:const int(?:32_t)? \w+ = |extern __shared__ )", text)
    plain = declares is not None and (_MEMORY.search(text.replace("tl_smem[]", "")) is None)
    return plain or not text or bool(_READY.search(text)) or text == "__syncthreads();"


def _used_by_threads(name: str, rest: list[str]) -> bool:
    """Whether only threads use the barriers of an array, and behind a barrier of all of them."""
    text = "\n".join(line for line in rest if not line.strip().startswith("//"))
    first = re.search(rf"\b{name}\b", text)
    if first is None:
        return True
    operand = rf"\((?:&{name}\[[^\[\]]*\]|{name})[,)]"
    own = len(re.findall(_THREADS + operand, text))
    remote = [match.start() for match in re.finditer("tl_mbarrier_arrive_remote" + operand, text)]
    if own + len(remote) != len(re.findall(rf"\b{name}\b", text)):
        return False
    wide, narrow = _CLUSTER.search(text), _BLOCK.search(text)
    if remote and (wide is None or wide.start() > first.start()):
        return False
    return any(match is not None and match.start() < first.start() for match in (wide, narrow))


def is_at_the_end(source: str, mutant: Mutant) -> bool:
    """Whether what is weakened would order nothing that still comes."""
    lines = source.splitlines()
    _, end = _kernel_around(lines, mutant.line)
    rest = [line for line in lines[mutant.line : end] if not line.strip().startswith("//")]
    indent = len(lines[mutant.line - 1]) - len(lines[mutant.line - 1].lstrip())
    if mutant.kind == "weaken to reads":
        # Only the braces of conditions close behind it, so that the thread ends.
        opened = [line for line in lines[: mutant.line] if line.strip() and not line.endswith("}")]
        outer = _enclosing(opened, indent)
        return all(line.strip() == "}" for line in rest) and not any(
            re.match(r"\s*(?:for|while|do)\b", line) for line in outer
        )
    meets = re.compile(r"^(?:    (?:tl_cluster_\w+|__syncthreads)\(\);)?$")
    if indent != 4 or not all(meets.match(line) for line in rest):
        return False
    wait = re.match(r"tl_mbarrier_wait\(&?(\w+)[\[,]", mutant.before)
    if mutant.kind != "remove tl_mbarrier_wait" or wait is None:
        return False
    before = [line for line in lines[: mutant.line - 1] if f"* const {wait[1]} =" not in line]
    body = "\n".join(line for line in before if not line.strip().startswith("//"))
    arrivals = re.findall(
        rf"tl_mbarrier_(init|wait|arrive|arrive_remote)\((?:&{wait[1]}\[[^\[\]]*\]|{wait[1]})[,)]",
        body,
    )
    if len(arrivals) != len(re.findall(rf"\b{wait[1]}\b", body)):
        return False
    text = "\n".join(rest)
    closed = "tl_cluster_sync();" in text or re.search(
        r"tl_cluster_arrive\w*\(\);\s+tl_cluster_wait\(\);", text
    )
    return "arrive_remote" not in arrivals or bool(closed)


def _enclosing(lines: list[str], indent: int) -> list[str]:
    """The heads of the blocks around a place, from the lines before it."""
    openings = []
    for line in reversed(lines):
        at = len(line) - len(line.lstrip())
        if at < indent and line.rstrip().endswith("{"):
            openings.append(line)
            indent = at
    return openings


# -- renamed ---------------------------------------------------------------------------------------
_USES = re.compile(r"\btl_bar_(sync|arrive)\((.+?), (\d+)\);")
_MEET = """
static bool tl_met[1024];
static int tl_met_count;
static void tl_meet(int most) {
    bool& mine = tl_met[threadIdx.x];
    tl_met_count += !mine;
    mine = true;
    if (tl_met_count > most) __trap();
}
"""


def is_renamed(runner: Runner, mutant: Mutant) -> bool:
    """Whether a named barrier has another number at one place, for the same threads."""
    match = re.match(r"tl_bar_sync\((\d+), (\d+)\);$", mutant.before)
    source = runner.source
    if match is None or "threadIdx.y" in source or "threadIdx.z" in source:
        return False
    uses = [(kind, name, count) for kind, name, count in _USES.findall(source)]
    names = {name for _, name, _ in uses}
    if not all(map(str.isdigit, names)) or str(int(match[1]) + 1) in names:
        return False
    if any(use != ("sync", match[1], match[2]) for use in uses if use[1] == match[1]):
        return False
    text = source.replace(mutant.before, f"tl_meet({match[2]}); {mutant.before}")
    head = text.index('extern "C" __global__')
    text = text[:head] + _MEET + text[head:]
    return bool(runner.report(text, (("fifo", 0),), ("alignment",)).ok)


# -- code ------------------------------------------------------------------------------------------
def same_code(original: str, mutant: str, arch: str) -> bool:
    """Whether both texts compile to the same machine code."""
    codes = [_image(text, arch) for text in (original, mutant)]
    return codes[0] is not None and codes[0] == codes[1]


@lru_cache(maxsize=4)
def _image(text: str, arch: str) -> tuple[bytes, ...] | None:
    """The instructions that a text compiles to."""
    from tilelang.cuda.nvrtc import find_nvrtc
    from tilelang.cuda.toolchain import compile_cubin
    from tilelang.errors import CompileError

    if find_nvrtc() is None or not arch.startswith("sm_"):
        return None
    try:
        return text_section(compile_cubin(text, arch).cubin)
    except CompileError:
        return None


def text_section(cubin: bytes) -> tuple[bytes, ...]:
    """The instructions in an image: its sections named .text.*."""
    import struct

    start = struct.unpack_from("<Q", cubin, 40)[0]
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    heads = [struct.unpack_from("<IIQQQQIIQQ", cubin, start + n * size) for n in range(count)]
    strings = heads[names][4]
    sections = []
    for head in heads:
        name = cubin[strings + head[0] : cubin.index(b"\0", strings + head[0])]
        if name.startswith(b".text."):
            sections.append(cubin[head[4] : head[4] + head[5]])
    return tuple(sections)


# -- wait ------------------------------------------------------------------------------------------
def waits_for_as_much(runner: Runner, mutant: Mutant) -> bool:
    """Whether every wait of the mutant covers every copy that the original's wait covers.

    Every thread notes, in the text itself, to which group each of its copies belongs in either
    text, and traps at a wait that covers a copy in the original only.
    """
    commit = mutant.before == "tl_cp_async_commit();"
    match = COUNTED.search(mutant.before)
    if not commit and (match is None or match[1] != "tl_cp_async_wait"):
        return False
    weaker = COUNTED.search(mutant.after)
    lines = runner.source.splitlines()
    for number, line in enumerate(lines, 1):
        here = number == mutant.line
        wait = COUNTED.search(line)
        if wait is not None:
            left = (weaker[2] if weaker is not None else "-1") if here else wait[2]
            lines[number - 1] = line.replace(wait[0], f"tl_log.wait({wait[2]}, {left}); {wait[0]}")
        text = "tl_cp_async_commit();"
        lines[number - 1] = lines[number - 1].replace(
            text, f"tl_log.commit({int(not here)}); {text}"
        )
        if "__global__" in line:
            lines[number - 1] += " tl_mutant_log tl_log;"
    text = "\n".join(lines) + "\n"
    text = re.sub(r"\btl_cp_async_(\d+)(_zfill)?\(", r"tl_log.copy(), tl_cp_async_\1\2(", text)
    head = text.index('extern "C" __global__')
    text = text[:head] + _LOG + text[head:]
    return bool(runner.report(text, (("fifo", 0),), ("alignment",)).ok)


_LOG = """
struct tl_mutant_log {
    int ours = 0, theirs = 0, count = 0, group[256], other[256];
    void copy() {
        if (count == 256) __trap();
        group[count] = ours;
        other[count++] = theirs;
    }
    void commit(int both) { ++ours; theirs += both; }
    void wait(int left, int their_left) {
        int kept = 0;
        for (int i = 0; i < count; ++i) {
            const bool covered = their_left >= 0 && other[i] < theirs - their_left;
            if (group[i] < ours - left && !covered) __trap();
            if (!covered) { group[kept] = group[i]; other[kept++] = other[i]; }
        }
        count = kept;
    }
};
"""


# -- sum -------------------------------------------------------------------------------------------
DRAWS = 24
_EXACT = {"float16": 2**11, "float32": 2**24}  # integers up to which every sum is exact
# Calls that move data, add up products or round; and those that have no data.
_MOVES = re.compile(
    r"tl_(?:tma_load|tma_store|wgmma_m\w+|wgmma_descriptor|descriptor_add|wgmma_touch\w*|mma_\w+|"
    r"ldmatrix\w*|stmatrix\w*|half2_store|half2_round|f32_to_f16|copy_\d+|cp_async_\w+|bulk_\w+|"
    r"mbarrier_\w+|fence_\w+|wgmma_\w+|setmaxnreg_\w+|cluster_\w+|bar_\w+|floordiv_i32|mul_i32)$|"
    r"__sync(?:threads|warp)$"
)
_WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_PLAIN = {"if", "else", "for", "int", "int32_t", "const", "true", "blockIdx", "threadIdx"}


def only_sums(source: str) -> bool:
    """Whether a text's control flow and addresses have no data in them, and its arithmetic is that
    of matrix products."""
    lines = source.splitlines()
    start = next(n for n, line in enumerate(lines) if "__global__" in line)
    head = lines[start]
    data = set(re.findall(r"tl_tensor_map (\w+)|\* (?:__restrict__ )?(\w+)[,)]", head))
    known = {name for pair in data for name in pair if name}
    numbers = set(re.findall(r"\bint\d+_t (\w+)", head)) | _PLAIN
    descriptors: set[str] = set()  # addresses of tiles, made of no data
    for text in map(str.strip, lines[start + 1 :]):
        if not text or text.startswith(("//", "#pragma unroll", "extern __shared__")):
            continue
        text = re.sub(r"\.[xyz]\b", "", text)
        number = re.match(r"const int(?:32_t)? (\w+) = (.*);$", text)
        array = re.match(r"__align__\(\d+\) (\w+) (\w+)\[\d+\];$", text)
        tile = re.match(r"\w+\* const (\w+) = .*tl_smem", text)
        loop = re.match(r"for \(int (\w+) = (.*)\) \{$", text)
        if array is not None:
            known.add(array[2])
            if array[1] == "uint64_t":
                descriptors.add(array[2])
            continue
        if tile is not None:
            known.add(tile[1])
            continue
        if number is not None:
            if not set(_WORD.findall(number[2])) <= numbers | {"tl_floordiv_i32", "tl_mul_i32"}:
                return False
            numbers.add(number[1])
            continue
        if loop is not None:
            numbers.add(loop[1])
        if not _moves_or_guards(text, known, numbers, descriptors):
            return False
    return True


def _moves_or_guards(text: str, known: set[str], numbers: set[str], descriptors: set[str]) -> bool:
    """Whether a line is a condition or loop over numbers, or moves and adds up data."""
    inside = re.findall(r"\[([^\[\]]*)\]", text)
    if not all(set(_WORD.findall(part)) <= numbers for part in inside):
        return False
    words = set(_WORD.findall(re.sub(r"<[\d, ]*>", "", text)))
    if re.match(r"(?:if|for) \(|\}", text):
        return words <= numbers
    if not all(word in numbers or word in known or _MOVES.match(word) for word in words):
        return False
    moved = re.match(r"\w+\[[^\[\]]*\] = (?:tl_f32_to_f16\()?\w+\[[^\[\]]*\]\)?;$", text)
    called = re.match(r"(?:tl_\w+(?:<[\d, ]*>)?|__sync\w+)\(.*\);$", text)
    # Elements are arguments of nothing but stores of results.
    elements = set(re.findall(r"(?<![&\w])(\w+)\[", text))
    stores = text.startswith("tl_half2_store(")
    return moved is not None or (called is not None and (stores or elements <= descriptors))


def _one_product(source: str) -> bool:
    """Whether there is one product, of memory that threads do not write themselves."""
    operands = re.findall(r"tl_(?:wgmma_descriptor|ldmatrix\w*)\(\w+, &?(\w+)", source)
    stored = re.findall(r"tl_(?:stmatrix\w*|half2_store|copy_\d+)\(&?(\w+)", source)
    stored += re.findall(r"^\s*(\w+)\[.*\] = ", source, re.MULTILINE)
    products = len(re.findall(r"^\s*tl_(?:wgmma_m\d|mma_)", source, re.MULTILINE))
    return products == 1 and not set(operands) & set(stored)


def same_sums(runner: Runner, mutant: Mutant, draws: int = DRAWS) -> bool:
    """Whether a mutant adds up the same products as the original."""
    args = runner.case.args
    if not all(isinstance(arg, np.ndarray) and str(arg.dtype) in _EXACT for arg in args):
        return False
    if not all(only_sums(text) and _one_product(text) for text in (runner.source, mutant.source)):
        return False
    limit = min(_EXACT[str(arg.dtype)] for arg in args)
    rng = np.random.default_rng(0)
    for draw in range(draws + 1):
        # First the largest values, whose sums tell whether all others are exact.
        values: list[Any] = [
            np.full(arg.shape, 2, arg.dtype) if draw == 0
            else rng.integers(-2, 3, arg.shape).astype(arg.dtype)
            for arg in args
        ]  # fmt: skip
        results = []
        for text in (runner.source, mutant.source):
            plan = (("random", draw),) if draw else (("fifo", 0),)
            report = _of(runner, text).report(text, plan, ("alignment",), values)
            if not report.ok:
                return False
            results.append(report.arguments if report.outputs is None else
                           (*np.atleast_1d(report.outputs), *report.arguments))  # fmt: skip
        for ours, theirs in zip(*results):
            if draw == 0 and float(np.max(np.abs(ours.astype(np.float64)))) > limit:
                return False
            if not np.array_equal(ours, theirs):
                return False
    return True


def _of(runner: Runner, text: str) -> Runner:
    """A runner of its own for each text, so that neither is compiled twice."""
    return _twin(runner) if text == runner.source else runner


@lru_cache(maxsize=2)
def _twin(runner: Runner) -> Runner:
    return Runner(runner.case, runner.arch)
