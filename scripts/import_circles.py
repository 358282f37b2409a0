"""Circles of files that import each other, with imports inside functions and for types.

    python scripts/import_circles.py [--edges]

A circle is a strongly connected part of the graph of imports: none of its files can be read, or
moved, without the others. ``__init__.py`` files count as files. ``--edges`` prints the imports
within each circle.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "tilelang"


def imports(package: Path = PACKAGE) -> dict[str, set[str]]:
    """The modules of ``package`` that each of its modules imports, at any depth of the code."""
    files = {_name(path, package): path for path in package.rglob("*.py")}
    return {
        name: {imported for imported in _imported(path, package, files) if imported != name}
        for name, path in files.items()
    }


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """The circles of more than one module, the largest first (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    components: list[list[str]] = []

    def visit(root: str) -> None:
        work: list[tuple[str, Iterator[str]]] = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, rest = work[-1]
            other = next(rest, None)
            if other is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    components.append(sorted(stack[at:]))
                    del stack[at:]
            elif other not in index:
                index[other] = low[other] = len(index)
                stack.append(other)
                work.append((other, iter(sorted(graph[other]))))
            elif other in stack:
                low[node] = min(low[node], index[other])

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return sorted(
        (part for part in components if len(part) > 1), key=lambda part: (-len(part), part)
    )


def _name(path: Path, package: Path) -> str:
    parts = path.relative_to(package.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _imported(path: Path, package: Path, files: dict[str, Path]) -> Iterator[str]:
    inside = path.relative_to(package.parent).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in files)
        elif isinstance(node, ast.ImportFrom):
            up = inside[: len(inside) - node.level + 1] if node.level else ()
            base = ".".join((*up, *([node.module] if node.module else [])))
            for alias in node.names:
                full = f"{base}.{alias.name}"
                if full in files:
                    yield full
                elif base in files:
                    yield base


def main() -> None:
    """Print the circles."""
    graph = imports()
    for part in circles(graph):
        print(f"{len(part)}: {' '.join(part)}")
        for name in part if "--edges" in sys.argv else ():
            print(f"    {name}: {' '.join(sorted(graph[name] & set(part)))}")


if __name__ == "__main__":
    main()
