"""Counts that say whether instructions, targets and layers stay in one place.

    python scripts/counts.py [--list]     ``--list`` names the places

* instructions: in how many files of the package each name of an instruction stands, in code (not in
  docstrings or comments). One is its row, in a table of ``target/``. The headers of all machines
  count as one place, and so do the tables of their dialects. Advice on what is not there is none.
* name sets: collections of two or more instructions' names in transforms, explain or interpret,
  which know by name what a row should say.
* kinds: comparisons with a kind of target, and architecture numbers, outside ``target/`` and the
  back ends.
* warps: module constants that are the width of a warp.
* string keys: names under which attributes of functions, or annotations of nodes, are read and set.
  What statements and buffers carry are fields.
* vendors: imports of a vendor's rows in transforms; passes name operations and features.
* effects: functions beside ``ir/effects.py`` that find out from the fields of statements and the
  kinds of expressions which buffers are named, read or written.
* passes: different passes of all targets, those that run for two of them, and the rows of those
  that are tables of rules.
"""

from __future__ import annotations

import argparse
import ast
import re
import statistics
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tilelang"
sys.path.insert(0, str(ROOT))  # a plain checkout need not be installed
BACK_ENDS = ("target", "cpu", "cuda", "hip", "metal", "emulator", "compat")
KNOWS_BY_NAME = ("transforms", "explain", "interpret", "codegen", "compiler.py")
IMPORT = (ast.Import, ast.ImportFrom)
FINDS = ("isinstance", "E.find", "find")
KINDS = frozenset(("cpu", "cuda", "hip", "metal", "c", "llvm"))


def instructions() -> list[str]:
    """Names of instructions of GPUs that are no words of mathematics, nor names of features, which
    others ask for."""
    from tilelang.target.features import FEATURES
    from tilelang.target.instruction_table import ROWS

    return sorted(
        name
        for name, row in ROWS.items()
        if row.needs and name not in FEATURES and "_" in name and re.fullmatch(r"[a-z0-9_]+", name)
    )


def parsed() -> dict[Path, ast.Module]:
    """The modules of the package by their path in it."""
    return {
        path.relative_to(PACKAGE): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def words_of(tree: ast.Module) -> set[str]:
    """Names and words of strings in the code of a module, docstrings left out."""
    words: set[str] = set()
    plain: set[ast.AST] = set()
    for node in ast.walk(tree):  # a statement comes before the constant in it
        if isinstance(node, ast.Expr):
            plain.add(node.value)
        elif isinstance(node, ast.Name):
            words.add(node.id)
        elif isinstance(node, ast.Attribute):
            words.add(node.attr)
        elif isinstance(node, ast.FunctionDef):
            words.add(node.name)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in plain:
            words.update(re.findall(r"\w+", node.value))
    return words


def files_of_instructions(modules: dict[Path, ast.Module]) -> dict[str, list[str]]:
    """Files that name each instruction. Facades only pass names on, and the emitters are programs
    in the language."""
    words: dict[str, set[str]] = {}
    for path, tree in modules.items():
        if path.name in ("__init__.py", "absent.py") or path.parts[:2] == ("compat", "emitters"):
            continue
        group = "dialects" if path.name == "dialect.py" else str(path)
        group = "rows" if path.parent.name == "target" else group
        words[group] = words.get(group, set()) | words_of(tree)
    for path in sorted(PACKAGE.rglob("*.h")):
        mentioned = set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
        words["headers"] = words.get("headers", set()) | mentioned
    return {
        name: [
            path
            for path, mentioned in words.items()
            if name in mentioned or f"tl_{name}" in mentioned
        ]
        for name in instructions()
    }


def name_sets(modules: dict[Path, ast.Module]) -> list[str]:
    """Places of collections whose elements are names of instructions."""
    from tilelang.target.instruction_table import ROWS

    locations: list[str] = []
    for path, tree in modules.items():
        if path.parts[0] not in KNOWS_BY_NAME:
            continue
        for node in ast.walk(tree):
            if not isinstance(node, (ast.Set, ast.Tuple, ast.List)):
                continue
            names = [
                constant.value
                for constant in node.elts
                if isinstance(constant, ast.Constant) and isinstance(constant.value, str)
            ]
            if len(names) == len(node.elts) > 1 and all(name in ROWS for name in names):
                locations.append(f"{path}:{node.lineno}: {', '.join(names)}")
    return locations


def kinds(modules: dict[Path, ast.Module]) -> list[str]:
    """Places that ask which kind of target, or which architecture, it is."""
    locations: list[str] = []
    for path, tree in modules.items():
        if path.parts[0] in BACK_ENDS:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
                kind = any(isinstance(s, ast.Attribute) and s.attr == "kind" for s in sides)
                named = {
                    leaf.value
                    for side in sides
                    for leaf in ast.walk(side)
                    if isinstance(leaf, ast.Constant)
                }
                if kind and named & KINDS:
                    locations.append(f"{path}:{node.lineno}: {ast.unparse(node)}")
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                if node.func.id == "arch_number":
                    locations.append(f"{path}:{node.lineno}: {ast.unparse(node)}")
    return locations


def warps(modules: dict[Path, ast.Module]) -> list[str]:
    """Constants of modules and classes that are called after warps or lanes and are 32."""
    locations: list[str] = []
    for path, tree in modules.items():
        for node in ast.walk(tree):
            if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            value = node.value
            if any(re.fullmatch(r"_?(WARP\w*|LANES|warp\w*)", name) for name in names):
                if isinstance(value, ast.Constant) and value.value == 32:
                    locations.append(f"{path}:{node.lineno}: {ast.unparse(node)}")
    return locations


def keys(modules: dict[Path, ast.Module]) -> list[str]:
    """Names in pairs of names and values of functions, statements, loops and buffers."""
    texts: set[str] = set()
    for path, tree in modules.items():
        if path.parts[0] in ("frontend", "language", "compat"):
            continue  # they read what programs write, once
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            text, first = ast.unparse(node.func), node.args[0]
            held = re.search(
                r"func\.(attr|with_attr|without_attr)$|(annotations|attrs|hints\.other)\)\.get$",
                text,
            )
            if held and isinstance(first, ast.Constant) and "call" not in text:
                texts.add(str(first.value))
    return sorted(texts)


def vendors(modules: dict[Path, ast.Module]) -> list[str]:
    """Imports of modules of ``target/`` that are called after a vendor, in transforms."""
    locations: list[str] = []
    for path, tree in modules.items():
        for node in ast.walk(tree) if path.parts[0] == "transforms" else ():
            names = [alias.name for alias in getattr(node, "names", ()) if isinstance(node, IMPORT)]
            module = getattr(node, "module", None) or ""
            full = [f"{module}.{name}" for name in names]
            if any(re.search(r"target\.(nvidia|amd|apple)", name) for name in full):
                locations.append(f"{path}:{node.lineno}: {ast.unparse(node)}")
    return locations


def effects(modules: dict[Path, ast.Module]) -> list[str]:
    """Functions that find out from fields and rows which buffers are read or written."""
    locations: list[str] = []
    for path, tree in modules.items():
        if path == Path("ir/effects.py") or path.parts[0] in (
            "language",
            "frontend",
            "emulator",
            "utils",
        ):
            continue
        for node in ast.walk(tree):
            if not isinstance(node, ast.FunctionDef):
                continue
            attributes = {leaf.attr for leaf in ast.walk(node) if isinstance(leaf, ast.Attribute)}
            named = {
                leaf.attr if isinstance(leaf, ast.Attribute) else leaf.id
                for call in ast.walk(node)
                if isinstance(call, ast.Call) and ast.unparse(call.func) in FINDS
                if not ast.unparse(call.args[0]).endswith(".by")  # of an access from effects
                for argument in call.args[1:]
                for leaf in ast.walk(argument)
                if isinstance(leaf, (ast.Attribute, ast.Name))
            }
            collects = "yield" in ast.unparse(node) or attributes & {
                "add", "append", "update", "setdefault", "extend", "data"
            }  # fmt: skip
            asked = attributes & {"regions_read", "regions_written"} or (
                named & {"Load", "AddressOf", "RegionArg"} and "walk" in ast.unparse(node)
            )
            if asked and collects and attributes & {"data", "buffer"}:
                locations.append(f"{path}:{node.lineno}: {node.name}")
    return locations


def passes() -> dict[str, int]:
    """How many passes there are, and how many run with default options."""
    from tilelang.compiler import pass_list
    from tilelang.target import Context, parse_target

    contexts = {
        name: Context(parse_target(name))
        for name in (
            "cpu",
            "cuda -arch=sm_80",
            "cuda -arch=sm_90a",
            "cuda -arch=sm_100a",
            "hip",
            "metal",
        )
    }
    steps = {step.name: step for c in contexts.values() for step in pass_list(c.target)}
    run = {
        name: sum(step.applies(c) for step in pass_list(c.target)) for name, c in contexts.items()
    }
    rows = {row.name for step in steps.values() for row in step.rows}
    return {"distinct": len({step.run for step in steps.values()}), "rows": len(rows),
            "sm_90a": run["cuda -arch=sm_90a"], "cpu": run["cpu"]}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="name the places")
    listed = parser.parse_args().list
    modules = parsed()
    files = files_of_instructions(modules)
    counts = [len(places) for places in files.values()]
    wide = {name: places for name, places in files.items() if len(places) > 3}
    print(f"instructions: {len(files)}; files of each: median {statistics.median(counts):g}, "
          f"most {max(counts)}; in more than 3 files: {len(wide)}")  # fmt: skip
    if listed:
        for name, places in sorted(wide.items(), key=lambda entry: -len(entry[1])):
            print(f"  {name}: {len(places)}: {' '.join(places)}")
    counted = passes()
    print(f"distinct passes {counted['distinct']}, for sm_90a {counted['sm_90a']}, "
          f"for the CPU {counted['cpu']}; rows of their tables: {counted['rows']}")  # fmt: skip
    for title, places in (
        ("sets of instructions' names", name_sets(modules)),
        ("questions for a kind or an architecture", kinds(modules)),
        ("definitions of the warp's width", warps(modules)),
        ("string keys", keys(modules)),
        ("imports of vendors' rows in transforms", vendors(modules)),
        ("walkers beside ir/effects.py", effects(modules)),
    ):
        print(f"{title}: {len(places)}")
        if listed:
            print("".join(f"  {location}\n" for location in places), end="")


if __name__ == "__main__":
    main()
