"""Rules about the text of the package that linters do not know."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

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
BOUNDARIES = frozenset(
    (
        ("errors.py", "internal_boundary"),
        ("frontend/trace.py", "trace_root"),
        ("autotuner/jobs.py", "attempt"),
        ("tracebacks.py", "call"),  # both raise it again
        ("jit/core.py", "__call__"),
    )
)

# Modules that only give names of others a home (tests/test_exports.py has the names): nobody reads
# them to learn where a name comes from.
FACADES = frozenset(
    (
        "language/__init__.py", "language/builtin.py", "language/kernel.py", "language/loop.py",
        "intrinsics/mma_layout.py", "intrinsics/mma_macro_generator.py", "intrinsics/utils.py",
        "intrinsics/wgmma_macro_generator.py",
    )
)  # fmt: skip


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


def test_imports_are_explicit() -> None:
    stars = [
        f"{name_of(path)}:{node.lineno}"
        for path, node in everywhere(ast.ImportFrom)
        if name_of(path) not in FACADES and any(item.name == "*" for item in node.names)
    ]
    assert not stars, f"star imports: {stars}"


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


def newer(node: ast.AST) -> bool:
    """Whether an import or an attribute asks the oldest Python for what it lacks."""
    match node:
        case ast.ImportFrom(module=module):
            return module == "tomllib" or any(
                item.name in LATER.get(module or "", ()) for item in node.names
            )
        case ast.Attribute(value=ast.Name(id=module)):
            return node.attr in LATER.get(module, ())
        case ast.Import():
            return any(item.name == "tomllib" for item in node.names)
    return False


def test_the_oldest_python_has_what_is_imported() -> None:
    kinds = (ast.ImportFrom, ast.Attribute, ast.Import)
    found = [f"{name_of(path)}:{node.lineno}" for path, node in everywhere(*kinds) if newer(node)]
    assert not found, f"not in Python 3.10: {found}"
    for text in "from typing import Any, assert_never", "import tomllib", "x = enum.StrEnum":
        assert any(newer(node) for node in ast.walk(ast.parse(text))), text


def test_only_env_reads_the_environment() -> None:
    found = []
    for path, node in everywhere(ast.Attribute, ast.ImportFrom):
        if name_of(path) == "env.py":
            continue
        if isinstance(node, ast.Attribute):
            names = [node.attr]
        else:
            names = [item.name for item in node.names] if node.module == "os" else []
        if any(name in ("environ", "environb", "getenv") for name in names):
            found.append(f"{name_of(path)}:{node.lineno}")
    assert not found, f"the environment is read: {found}"


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


def test_modules_have_no_rebound_state() -> None:
    found = [f"{name_of(path)}:{node.lineno}" for path, node in everywhere(ast.Global)]
    assert not found, f"`global`: {found}"


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
