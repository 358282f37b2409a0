"""Rules about the text of the package that linters do not know."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

import tilelang

ROOT = Path(tilelang.__file__).resolve().parent
FILES = sorted(ROOT.rglob("*.py"))
FILE_LINES = 600
FUNCTION_LINES = 60

# The broad excepts, in these functions only: whatever is unexpected becomes a report that says
# what was being done. The second one is around the user's own code and passes its errors on; in the
# third, what one configuration raises is a row of the tuner's report.
BOUNDARIES = frozenset(
    (
        ("errors.py", "internal_boundary"),
        ("language/v2/trace.py", "trace_root"),
        ("autotuner/jobs.py", "attempt"),
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

_NO_CODE = frozenset(
    (
        tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
        tokenize.ENCODING, tokenize.ENDMARKER,
    )
)  # fmt: skip


def name_of(path: Path) -> str:
    """The file as the rules name it."""
    return path.relative_to(ROOT).as_posix()


def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def code_lines(path: Path) -> set[int]:
    """Lines that hold code: no comments, docstrings or blanks; nor lists of names, that is
    imports and ``__all__``."""
    source = path.read_text(encoding="utf-8")
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        documentation = (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        )
        names = isinstance(node, (ast.Import, ast.ImportFrom)) or (
            isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
        )
        if documentation or names:
            lines.difference_update(range(node.lineno, node.end_lineno + 1))
    return lines


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def enclosing(tree: ast.Module, line: int) -> str:
    """Name of the innermost function around a line."""
    around = [f for f in functions(tree) if f.lineno <= line <= f.end_lineno]
    return max(around, key=lambda f: f.lineno).name if around else "<module>"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_files_and_functions_are_short(path: Path) -> None:
    lines = code_lines(path)
    assert len(lines) <= FILE_LINES, f"{name_of(path)} has {len(lines)} lines of code"
    long = []
    for function in functions(parsed(path)):
        size = len(lines.intersection(range(function.lineno, function.end_lineno + 1)))
        if size > FUNCTION_LINES:
            long.append(f"{name_of(path)}:{function.lineno}: {function.name} has {size} lines")
    assert not long, "\n".join(long)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_modules_say_what_they_are(path: Path) -> None:
    tree = parsed(path)
    assert ast.get_docstring(tree), "no module docstring"
    if len(tree.body) > 1:
        first = tree.body[1]
        assert isinstance(first, ast.ImportFrom) and first.module == "__future__"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_public_functions_are_documented(path: Path) -> None:
    silent = []
    for scope in ast.walk(parsed(path)):
        if not isinstance(scope, (ast.Module, ast.ClassDef)) or _is_private(scope):
            continue
        for node in scope.body:
            public = isinstance(node, (ast.FunctionDef, ast.ClassDef)) and not _is_private(node)
            if public and not ast.get_docstring(node) and not _speaks_for_itself(node, scope):
                silent.append(f"{name_of(path)}:{node.lineno}: {node.name}")
    assert not silent, "no docstring:\n" + "\n".join(silent)


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


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_imports_name_what_they_take(path: Path) -> None:
    if name_of(path) in FACADES:
        return
    stars = [
        node.lineno
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom) and any(item.name == "*" for item in node.names)
    ]
    assert not stars, f"{name_of(path)}: star imports at lines {stars}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_only_env_reads_the_environment(path: Path) -> None:
    if name_of(path) == "env.py":
        return
    found = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "environb", "getenv"):
            found.append(node.lineno)
        if isinstance(node, ast.ImportFrom) and node.module == "os":
            found += [node.lineno for item in node.names if item.name in ("environ", "getenv")]
    assert not found, f"{name_of(path)}: the environment is read at lines {found}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_excepts_name_what_they_catch(path: Path) -> None:
    tree = parsed(path)
    broad = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            caught = "" if node.type is None else ast.unparse(node.type)
            everything = node.type is None or re.search(r"\b(Base)?Exception\b", caught)
            if everything and (name_of(path), enclosing(tree, node.lineno)) not in BOUNDARIES:
                broad.append(f"{name_of(path)}:{node.lineno} in {enclosing(tree, node.lineno)}")
    assert not broad, "broad except:\n" + "\n".join(broad)


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_modules_have_no_rebound_state(path: Path) -> None:
    found = [node.lineno for node in ast.walk(parsed(path)) if isinstance(node, ast.Global)]
    assert not found, f"{name_of(path)}: `global` at lines {found}"


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_ignored_type_errors_have_a_code_and_a_reason(path: Path) -> None:
    found = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        _, mark, rest = line.partition("# type: ignore")
        if mark and not re.match(r"\[[\w, -]+\]  # \w", rest):
            found.append(f"{name_of(path)}:{number}: {line.strip()}")
    assert not found, "\n".join(found)


def test_the_rules_can_fail(tmp_path: Path) -> None:
    sample = tmp_path / "sample.py"
    sample.write_text(
        '"""Doc."""\n\nimport os\n\n\ndef f(x):\n    """Doc."""\n'
        "    # why\n    return (\n        x\n    )\n"
    )
    assert code_lines(sample) == {6, 9, 10, 11}
    assert enclosing(parsed(sample), 10) == "f"
    assert enclosing(parsed(sample), 3) == "<module>"
