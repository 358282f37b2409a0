"""The field's terms: what a newcomer searches is found, and phrases of a private dialect stay away.

``docs/glossary.md`` has the terms. A phrase of the list below is one for which the field has a term.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tilelang"
# Phrase -> the field's term.
INSTEAD = {
    r"copy units?": "TMA",
    r"under way": "in flight",
    r"by turns": "alternate, or phase",
    r"asked of a row": "looked up",
    r"hands? on an? item": "release a stage",
    r"whole (?:number )?row of warpgroups": "a whole number of warpgroups",
    r"unit beside the threads": "async proxy",
    r"words of the language": "operations, intrinsics",
    r"met again": "executed again",
    r"takes? turns": "alternate, or share memory",
    r"who meets where": "which threads reach a barrier",
    r"meetings? of threads": "barriers",
    r"known to be alike": "uniform",
    r"makes? alike": "the same in all threads",
    r"nobody waited": "without a wait",
    r"whoever asks": "a second request",
    r"places for TMA": "coordinates of a TMA copy",
    r"out of turn": "in the wrong state",
    r"says no threads?": "names no threads",
    r"hands? elements to": "write elements that another reads",
    r"(?:finished|complete) where (?:it|they) stands?": "synchronous",
    r"copied ahead with bulk copies|boxes of a tensor map": "TMA",
    r"warpgroup of its own": "producer warpgroup",
    r"under all (?:its|their) names": "in all views",
    r"(?:is|are) no (?:whole|multiple)": "is not a whole number, not a multiple",
    r"shared? out": "distribute, divide, split",
    r"one behind the other": "contiguous, consecutive",
    r"where (?:it|they) lies?": "in place",
    r"in hand": "current",
    r"in turns": "alternately",
    r"empty places": "unused registers",
    r"[Nn]obody": "no thread, nothing",
    r"whoever": "any thread that",
    r"(?:an|the) item of (?:the|a) pipeline": "an iteration, a stage",
    r"items? (?:that )?the thread has handed on": "iterations that it has released",
    r"told apart|tells? apart": "distinguished",
    r"(?:is|are) told of": "is reported, expects",
    r"whose turn": "that runs later",
    r"(?:that|what) is there": "existing, stored",
    r"first cache": "L1 cache",
    r"[Rr]elied on": "assumes, runs after",
    r"behind the loop": "after the loop",
    r"what became of": "what the compiler decided for",
    r"(?:has|have) told|tells? others": "signals, releases",
    r"who (?:runs|waits|owns|touches|reads|fills?|they are)": "which threads",
    r"those who": "threads that",
    r"the unit (?:has|reads|orders|writes|is|itself)": "TMA, the tensor core",
    r"unit beside": "async proxy",
    r"by which way": "by which proxy",
    r"no (?:power of two|multiples?)": "not a power of two, not a multiple",
    r"other way round": "transposed, reversed",
    r"an order of (?:its|their) own": "another order",
    r"is met": "occurs",
    r"says so": "reports it, states it",
    r"(?:is|are) worth": "justifies, gains from",
    r"[Ss]peaks?": "names, bounds, counts",
    r"[Ss]tands?(?! for others)": "is, means, follows",
    r"lies?(?! whole)": "is",
    r"beside": "next to, with, besides",
    r"[Cc]omes? to (?:it|a (?:branch|loop|statement))": "reaches",
    r"goes? on": "continues, advances",
    r"as good as": "the same as",
    r"all there is": "the only one",
}
# Names that say nothing about the value of a variable, parameter or field.
WITHOUT_CONTENT = set(
    "found made item one ones some thing what how which whole most done same again every once both "
    "now here taken given told said who there turn such that this nobody everything it of".split()
)
# Public names, and those that read well where they are.
KEPT = {
    ("emulator/report.py", "what"), ("emulator/timeline.py", "what"),  # fields of public records
    ("jit/kernel.py", "which"), ("tools/machine.py", "again"),  # public parameters
}  # fmt: skip
PAGES = [
    page
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"))
    if "dev" not in page.parts and page.name != "CHANGELOG.md"
]
# The table "Where a concept is implemented": what a newcomer searches, and the file whose first
# lines, those of its docstring, have it.
CONCEPTS = dict(
    re.findall(
        r"^\| ([^|`]+) \| `([\w/]+\.py)` \|$",
        (ROOT / "docs/architecture.md").read_text(encoding="utf-8"),
        re.M,
    )
)

# A question of a newcomer -> the phrase to search, the page that has it in a heading, the file of the
# package that has it in the first lines of its docstring.
QUESTIONS = {
    "Where is warp specialization decided?": (
        "warp specialization", "pipelining.md", "transforms/schedule/specialize_warps.py"),
    "How are bank conflicts avoided?": (
        "bank conflict", "layouts.md", "transforms/layouts/banks.py"),
    "What does num_stages do?": (
        "num_stages", "pipelining.md", "transforms/schedule/pipeline.py"),
    "Where is software pipelining implemented?": (
        "software pipelining", "pipelining.md", "transforms/schedule/pipeline.py"),
    "Which swizzles exist?": ("swizzle", "layouts.md", "layout/swizzle.py"),
    "How does split-K work?": (
        "split-k", "gemm.md", "transforms/layouts/intra_cta_split_k.py"),
    "Where are barriers inserted?": (
        "barrier insertion", "architecture.md", "transforms/sync/barriers.py"),
    "Why is my kernel slow?": ("slow", "howto/slow.md", "explain/__init__.py"),
    "How do I print the generated code?": (
        "print the generated code", "howto/debug.md", "jit/kernel.py"),
    "What is a fragment layout?": ("fragment layout", "layouts.md", "layout/fragment.py"),
    "Where is occupancy estimated?": ("occupancy", "howto/slow.md", "cuda/executable.py"),
    "How is register spilling detected?": (
        "register spill", "howto/slow.md", "cuda/toolchain.py"),
    "How do I add a target?": ("add a target", "CONTRIBUTING.md", "backends.py"),
    "How does autotuning cache results?": (
        "autotuning cache", "tuning.md", "autotuner/store.py"),
    "How are layouts inferred?": (
        "layout inference", "architecture.md", "transforms/layouts/infer.py"),
    "When does a copy use TMA?": ("tma legality", "copies.md", "transforms/analysis/tma.py"),
    "How is an epilogue fused?": ("epilogue", "gemm.md", "transforms/lower/epilogue.py"),
    "Which cost model chooses?": ("cost model", "tuning.md", "autotuner/model.py"),
    "How are data races found?": ("data race", "howto/debug.md", "emulator/__init__.py"),
    "What happens out of bounds?": ("out of bounds", "copies.md", "transforms/lower/guards.py"),
    "Where are compiled kernels stored?": ("disk cache", "running.md", "runtime/cache.py"),
    "Which loops become vectors on a CPU?": (
        "vectorization", "cpu.md", "cpu/loops/vectorization.py"),
    "How are dynamic shapes resolved?": ("dynamic shape", "dynamic_shapes.md", "runtime/dims.py"),
}  # fmt: skip


# A row of the table "Find a topic" of the first page: its terms, and the pages that it links.
TOPIC = re.compile(r"^\| ([^|]+) \| (\[[^|]+) \|$", re.M)


def first_lines(path: Path) -> str:
    """The summary of a module and what follows it to the first empty line."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n\n")[0].lower().replace("\n", " ")


def dialect(text: str) -> list[str]:
    """The phrases of ``text`` for which the field has a term."""
    return [
        f"{found[0]!r}: say {term}"
        for phrase, term in INSTEAD.items()
        for found in re.finditer(rf"\b{phrase}\b", text)
    ]


def test_the_package_uses_the_fields_terms() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): phrases
        for path in sorted(PACKAGE.rglob("*.*"))
        if path.suffix in (".py", ".h", ".c", ".cpp")
        and (phrases := dialect(path.read_text(encoding="utf-8")))
    }
    assert not found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_uses_the_fields_terms(page: Path) -> None:
    assert not dialect(page.read_text(encoding="utf-8"))


def bound_names(tree: ast.Module) -> set[str]:
    """The variables and parameters that a module binds."""
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                names.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
    return names


def test_variables_and_parameters_are_named_after_what_they_hold() -> None:
    found = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in PACKAGE.rglob("*.py")
        for name in bound_names(ast.parse(path.read_text(encoding="utf-8"))) & WITHOUT_CONTENT
    }
    assert found == KEPT


def test_a_variable_without_content_and_a_phrase_are_found() -> None:
    tree = ast.parse("def f(what):\n    found = [which for which in what]\n    return found")
    assert bound_names(tree) & WITHOUT_CONTENT == {"what", "found", "which"}
    assert dialect("moved by the copy unit") == ["'copy unit': say TMA"]


@pytest.mark.parametrize("concept", CONCEPTS)
def test_a_search_finds_the_file(concept: str) -> None:
    assert len(CONCEPTS) > 60
    assert concept.lower() in first_lines(PACKAGE / CONCEPTS[concept])


def headings(page: Path) -> str:
    """The headings of a page, without the comments of its code."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    return "\n".join(re.findall(r"^#.*", text, re.M)).lower()


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_leads_to_a_page_and_to_a_file(question: str) -> None:
    phrase, page, module = QUESTIONS[question]
    docs = [path for path in sorted((ROOT / "docs").rglob("*.md")) if "api" not in path.parts]
    pages = [path for path in docs if phrase in headings(path)]
    modules = [path for path in sorted(PACKAGE.rglob("*.py")) if phrase in first_lines(path)]
    if page == "CONTRIBUTING.md":
        pages.append(ROOT / page)
    # Among the first hits of a search for it in headings, and in the first lines of docstrings.
    assert {ROOT / page, ROOT / "docs" / page} & set(pages[:4]), pages
    assert PACKAGE / module in modules[:4], modules


def topics() -> list[tuple[str, list[str]]]:
    """Each term of the table with the pages of its row."""
    index = (ROOT / "docs/index.md").read_text(encoding="utf-8")
    table = index.partition("## Find a topic")[2].partition("\n\n!")[0]
    rows = TOPIC.findall(table)
    pages = {terms: re.findall(r"\]\(([\w/]+\.md)", links) for terms, links in rows}
    return [
        (term.strip("` "), linked) for terms, linked in pages.items() for term in terms.split(", ")
    ]


@pytest.mark.parametrize(("term", "pages"), topics(), ids=lambda value: value)
def test_a_topic_is_on_its_pages(term: str, pages: list[str]) -> None:
    for page in pages:
        text = (ROOT / "docs" / page).read_text(encoding="utf-8").lower()
        assert term.lower() in re.sub(r"\s+", " ", text), page


def test_a_newcomers_topics_are_in_the_table() -> None:
    asked = {
        "tensor core", "warp specialization", "software pipelining", "split-K", "stream-K",
        "persistent kernel", "swizzle", "bank conflict", "epilogue fusion", "autotuning",
        "profiling", "debug", "race detector", "bounds checker", "dynamic shape", "quantization",
        "fp8", "paged attention", "tutorial", "install", "cache", "deploy", "ahead of time", "C++",
        "torch.compile", "autograd", "CUDA graph", "stream", "multi-GPU", "AMD", "Metal",
        "setmaxnreg", "launch overhead", "occupancy", "register spill", "block rasterization",
        "autotuning cache", "data race", "num_stages", "TMA descriptor", "fragment", "print a tile",
    }  # fmt: skip
    assert asked <= {term for term, _ in topics()}
