"""Rules about the text of the package that linters do not know."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parents[1] / "scripts"))

from lines import code_lines as counted_lines

import tilelang

ROOT = Path(tilelang.__file__).resolve().parent
FILES = sorted(ROOT.rglob("*.py"))
FILE_LINES = 600
FUNCTION_LINES = 60
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

# The broad excepts, in these functions only: whatever is unexpected becomes a report that says
# what was being done. The second one is around the user's own code and passes its errors on; in the
# third, what one configuration raises is a row of the tuner's report.
BOUNDARIES = {
    ("errors.py", "internal_boundary"),
    ("frontend/trace.py", "trace_root"),
    ("autotuner/jobs.py", "attempt"),
    ("tracebacks.py", "call"),  # both raise it again
    ("jit/core.py", "__call__"),
}

# Modules that only give names of others a home (tests/test_exports.py has the names): nobody reads
# them to learn where a name comes from.
FACADES = {"language/__init__.py", "language/builtin.py"}


def name_of(path: Path) -> str:
    """The file as the rules name it."""
    return path.relative_to(ROOT).as_posix()


@lru_cache(maxsize=1000)
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@lru_cache(maxsize=1000)
def nodes(path: Path) -> list[ast.AST]:
    return list(ast.walk(parsed(path)))


def code_lines(path: Path) -> set[int]:
    """Lines that hold code, without lists of names, that is imports and ``__all__``."""
    lines = counted_lines(path.read_text(encoding="utf-8"))
    for node in nodes(path):
        if isinstance(node, (ast.Import, ast.ImportFrom)) or (
            isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        ):
            lines.difference_update(range(node.lineno, node.end_lineno + 1))
    return lines


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, FUNCTIONS):
            yield node


def enclosing(tree: ast.Module, line: int) -> str:
    """Name of the innermost function around a line."""
    around = [f for f in functions(tree) if f.lineno <= line <= f.end_lineno]
    return max(around, key=lambda f: f.lineno).name if around else "<module>"


def test_files_and_functions_are_short() -> None:
    long = []
    for path in FILES:
        sizes = [f.end_lineno - f.lineno + 1 for f in nodes(path) if isinstance(f, FUNCTIONS)]
        raw = path.read_text(encoding="utf-8").count("\n")
        if raw <= FILE_LINES and max(sizes, default=0) <= FUNCTION_LINES:
            continue  # with blanks and comments, even
        lines = code_lines(path)
        if len(lines) > FILE_LINES:
            long.append(f"{name_of(path)} has {len(lines)} lines of code")
        for function in functions(parsed(path)):
            size = len(lines.intersection(range(function.lineno, function.end_lineno + 1)))
            if size > FUNCTION_LINES:
                long.append(f"{name_of(path)}:{function.lineno}: {function.name} has {size} lines")
    assert not long, "\n".join(long)


def test_modules_have_docstrings() -> None:
    wrong = []
    for path in FILES:
        tree = parsed(path)
        if not ast.get_docstring(tree):
            wrong.append(f"{name_of(path)}: no module docstring")
        first = tree.body[1] if len(tree.body) > 1 else None
        future = isinstance(first, ast.ImportFrom) and first.module == "__future__"
        if first is not None and not future:
            wrong.append(f"{name_of(path)}: no import from __future__ behind it")
    assert not wrong, "\n".join(wrong)


def test_public_functions_are_documented() -> None:
    silent = []
    for path, scope in everywhere(ast.Module, ast.ClassDef):
        if _is_private(scope):
            continue
        for node in scope.body:
            public = isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not _is_private(node)
            if public and not ast.get_docstring(node) and not _speaks_for_itself(node, scope):
                silent.append(f"{name_of(path)}:{node.lineno}: {node.name}")
    assert not silent, "no docstring:\n" + "\n".join(silent)


def everywhere(*kinds: type[ast.AST]) -> Iterator[tuple[Path, Any]]:
    """Nodes of some kinds in all files."""
    for path in FILES:
        for node in nodes(path):
            if isinstance(node, kinds):
                yield path, node


def _is_private(node: ast.AST) -> bool:
    return getattr(node, "name", "").startswith("_")


def _speaks_for_itself(node: ast.FunctionDef | ast.ClassDef, scope: ast.AST) -> bool:
    """A method of one statement, one that a base class documents, an overload or a setter."""
    if any(
        "overload" in text or text.endswith(".setter")
        for text in map(ast.unparse, node.decorator_list)
    ):
        return True
    return isinstance(scope, ast.ClassDef) and (len(node.body) == 1 or bool(scope.bases))


# What the standard library has gained since Python 3.10, which is the oldest that runs the package.
LATER = {
    "typing": {"assert_never", "assert_type", "reveal_type", "Never", "Self", "LiteralString",
               "TypeVarTuple", "Unpack", "Required", "NotRequired", "dataclass_transform",
               "override", "TypeAliasType", "get_overloads", "clear_overloads"},
    "enum": {"StrEnum", "ReprEnum", "verify", "member", "nonmember", "property"},
    "contextlib": {"chdir"}, "datetime": {"UTC"}, "hashlib": {"file_digest"},
    "itertools": {"batched"}, "inspect": {"getmembers_static"}, "operator": {"call"},
    "sys": {"exception", "activate_stack_trampoline"}, "types": {"get_original_bases"},
}  # fmt: skip


def used(node: ast.Import | ast.ImportFrom | ast.Attribute) -> tuple[str, set[str]]:
    """A module, and the names that an import or an attribute takes from it."""
    match node:
        case ast.Attribute(value=value):
            return getattr(value, "id", ""), {node.attr}
        case ast.ImportFrom(module=str(module)):
            return module, {alias.name for alias in node.names}
    return "", {alias.name for alias in node.names}


def newer(node: ast.Import | ast.ImportFrom | ast.Attribute) -> bool:
    """Whether an import or an attribute asks the oldest Python for what it lacks."""
    module, names = used(node)
    return "tomllib" in (module, *names) or not names.isdisjoint(LATER.get(module, ()))


def reads_environment(node: ast.ImportFrom | ast.Attribute) -> bool:
    """Whether an import or an attribute takes the environment from ``os``."""
    return not used(node)[1].isdisjoint({"environ", "environb", "getenv"})


# How the name of a predicate reads: `is_uniform`, `may_alias`, `target_is_cuda`, `fits`, `waits_for`.
PREDICATE = re.compile(
    r"(^|_)(is|are|was|has|have|can|may|must|should|will|does|needs?)(_|$)|^_*[a-z0-9]*s(_|$)|__$"
)
# Names of the original TileLang, and `Report.ok`, a public property.
CHECKS = {"check_cuda_availability", "check_hip_availability", "check_metal_availability", "ok"}


def misnamed(node: ast.FunctionDef) -> bool:
    """Whether a function returns only a truth value, and its name does not read like one.

    The docstring of a function that does something begins with another word than "Whether".
    """
    return (
        node.returns is not None
        and ast.unparse(node.returns) == "bool"
        and re.match("Whether|$", ast.get_docstring(node) or "") is not None
        and not PREDICATE.search(node.name)
        and node.name not in CHECKS
    )


# What the code may not have -> the nodes that may be it, and the test of a node in a file.
RULES = {
    "a star import": (
        [ast.ImportFrom],
        lambda name, node: name not in FACADES and any(alias.name == "*" for alias in node.names),
    ),
    "a name that Python 3.10 lacks": (
        [ast.ImportFrom, ast.Attribute, ast.Import], lambda name, node: newer(node)),
    "a use of the environment": (
        [ast.Attribute, ast.ImportFrom],
        lambda name, node: name != "env.py" and reads_environment(node),
    ),
    "rebound state": ([ast.Global], lambda name, node: True),
    "a predicate whose name does not say so": (
        [ast.FunctionDef], lambda name, node: "compat/" not in name and misnamed(node)),
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_no_node_breaks_a_rule(rule: str) -> None:
    kinds, breaks = RULES[rule]
    wrong = [
        f"{name_of(path)}:{node.lineno}: {getattr(node, 'name', '')}"
        for path, node in everywhere(*kinds)
        if breaks(name_of(path), node)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("text", "breaks"),
    [
        ("from typing import Any, assert_never", newer), ("import tomllib", newer),
        ("x = enum.StrEnum", newer), ("from os import environ", reads_environment),
        ("def uniform(x) -> bool: ...", misnamed),
        ("def same_rows() -> bool:\n    'Whether it is so.'", misnamed),
    ],
)  # fmt: skip
def test_a_rule_finds(text: str, breaks: Callable[[Any], bool]) -> None:
    kinds = (ast.ImportFrom, ast.Import, ast.Attribute, ast.FunctionDef)
    assert any(breaks(node) for node in ast.walk(ast.parse(text)) if isinstance(node, kinds))


def test_except_clauses_are_specific() -> None:
    broad = []
    for path, node in everywhere(ast.ExceptHandler):
        caught = "" if node.type is None else ast.unparse(node.type)
        everything = node.type is None or re.search(r"\b(Base)?Exception\b", caught)
        if everything:
            around = enclosing(parsed(path), node.lineno)
            if (name_of(path), around) not in BOUNDARIES:
                broad.append(f"{name_of(path)}:{node.lineno} in {around}")
    assert not broad, "broad except:\n" + "\n".join(broad)


def test_ignored_type_errors_have_a_code_and_a_reason() -> None:
    found = []
    for path in FILES:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            _, mark, rest = line.partition("# type: ignore")
            if mark and not re.match(r"\[[\w, -]+\]  # \w", rest):
                found.append(f"{name_of(path)}:{number}: {line.strip()}")
    assert not found, "\n".join(found)


# Words of a private dialect: a test is named after the behaviour that it checks.
VAGUE = re.compile(
    r"_(behind|whatever|something|somebody|elsewhere|nobody|whoever|beside|meets?|told|tells?|stands?|lies?|gone"
    r"|alike|apart|home|spoken|serves?|remarked|as_it_is|as_they_are)(_|$)"
)


def test_tests_are_named_in_english() -> None:
    vague = [
        f"{path.relative_to(ROOT.parent)}:{node.name}"
        for path in sorted((ROOT.parent / "tests").rglob("test_*.py"))
        for node in nodes(path)
        if isinstance(node, FUNCTIONS) and node.name.startswith("test_") and VAGUE.search(node.name)
    ]
    assert not vague, "\n".join(vague)


def test_the_rules_can_fail(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(
        '"""Doc."""\n\nimport os\n\n\ndef f(x):\n    """Doc."""\n'
        "    # why\n    return (\n        x\n    )\n"
    )
    assert code_lines(sample) == {6, 9, 10, 11}
    assert enclosing(parsed(sample), 10) == "f"
    assert enclosing(parsed(sample), 3) == "<module>"
