"""The structure of the package in figures: a table in Markdown.

python tests/bench/run.py structure [--against CHECKOUT]
"""

from __future__ import annotations

import argparse
import ast
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from ratios import head, row

TREE = Path(__file__).parents[2]
PACKAGE = "pytest_vnc_use"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
IMPORTS = (ast.Import, ast.ImportFrom)
ASSIGNMENTS = (ast.Assign, ast.AnnAssign)


def rows(tree: Path) -> Iterator[tuple[str, object]]:
    """Yield each figure of a checkout with its name."""
    texts = {path: path.read_text("utf-8") for path in (tree / PACKAGE).rglob("*.py")}
    modules = {path: ast.parse(text) for path, text in texts.items()}
    nodes = {path: list(ast.walk(module)) for path, module in modules.items()}
    functions = [node for found in nodes.values() for node in found if isinstance(node, FUNCTIONS)]
    lengths = sorted((node.end_lineno or 0) - node.lineno + 1 for node in functions)
    sizes = sorted(text.count("\n") for text in texts.values())
    uses = Counter(filter(None, (used_name(node) for found in nodes.values() for node in found)))
    private = [node for node in functions if node.name.startswith("_") and not node.name.endswith("__")]
    named = [node for found in nodes.values() for node in found if isinstance(node, (*FUNCTIONS, ast.ClassDef))]
    public = [node for node in named if not node.name.startswith("_")]
    lower = [found for node in functions for found in ast.walk(node) if isinstance(found, IMPORTS)]
    assigned = [node for module in modules.values() for node in module.body if isinstance(node, ASSIGNMENTS)]
    yield "modules", len(modules)
    yield "lines", sum(sizes)
    yield "modules of more than 400 lines", sum(size > 400 for size in sizes)
    yield "functions", len(functions)
    yield "lines of a function, median", statistics.median(lengths)
    yield "90th percentile", lengths[int(0.9 * len(lengths))]
    yield "longest", lengths[-1]
    yield "private functions used once", f"{sum(uses[node.name] == 1 for node in private) / len(functions):.0%}"
    yield "settings", sum("_setting" in map(called_name, found) for found in settings_of(modules))
    yield "stash keys", sum("'StashKey'" in ast.dump(node) for node in assigned)
    yield "imports in functions", len({id(node) for node in lower})
    yield "public names without a docstring", sum(not ast.get_docstring(node) for node in public)


def settings_of(modules: dict[Path, ast.Module]) -> Iterator[list[ast.AST]]:
    """Yield the nodes of each field of `Settings`."""
    for module in modules.values():
        for node in module.body:
            if isinstance(node, ast.ClassDef) and node.name == "Settings":
                yield from (list(ast.walk(field)) for field in node.body if isinstance(field, ast.AnnAssign))


def used_name(node: ast.AST) -> str:
    """Return the name that an expression uses; "" for any other node."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def called_name(node: ast.AST) -> str:
    """Return the name of the function that a node calls; "" for any other node."""
    return used_name(node.func) if isinstance(node, ast.Call) else ""


def packages() -> Iterator[tuple[str, int, int]]:
    """Yield each package of this checkout with its modules and lines."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for path in (TREE / PACKAGE).rglob("*.py"):
        found[path.relative_to(TREE / PACKAGE).parts[0]].append(path.read_text("utf-8").count("\n"))
    yield from ((name, len(sizes), sum(sizes)) for name, sizes in sorted(found.items()))


def main(against: Path | None) -> None:
    trees = [tree for tree in (against, TREE) if tree]
    print(head("figure", *(tree.name for tree in trees)))
    for figures in zip(*(rows(tree) for tree in trees), strict=True):
        print(row(figures[0][0], *(value for _, value in figures)))
    print("\n" + head("package", "modules", "lines"))
    print(*(row(*package) for package in packages()), sep="\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(allow_abbrev=False, usage=__doc__)
    parser.add_argument("--against", type=lambda path: Path(path).resolve())
    main(parser.parse_args().against)
