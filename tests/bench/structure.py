"""The structure of the package in figures: tables in Markdown.

python tests/bench/run.py structure
"""

from __future__ import annotations

import ast
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator

from ratios import head, row

from pytest_vnc_use.settings.settings import FIELDS
from support.paths import ROOT

PACKAGE = ROOT / "pytest_vnc_use"
TEXTS = {path.relative_to(PACKAGE): path.read_text("utf-8") for path in PACKAGE.rglob("*.py")}


def figures() -> Iterator[tuple[str, object]]:
    nodes = [node for text in TEXTS.values() for node in ast.walk(ast.parse(text))]
    functions = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    lengths = sorted((node.end_lineno or 0) - node.lineno + 1 for node in functions)
    sizes = [text.count("\n") for text in TEXTS.values()]
    uses = Counter(node.id if isinstance(node, ast.Name) else getattr(node, "attr", "") for node in nodes)
    private = [node for node in functions if node.name.startswith("_") and not node.name.endswith("__")]
    named = [*functions, *(node for node in nodes if isinstance(node, ast.ClassDef))]
    public = [node for node in named if not node.name.startswith("_")]
    imports = [
        found for node in functions for found in ast.walk(node) if isinstance(found, (ast.Import, ast.ImportFrom))
    ]
    yield "modules", len(TEXTS)
    yield "lines", sum(sizes)
    yield "modules of more than 400 lines", sum(size > 400 for size in sizes)
    yield "functions", len(functions)
    yield "lines of a function, median", statistics.median(lengths)
    yield "90th percentile", lengths[int(0.9 * len(lengths))]
    yield "longest", lengths[-1]
    yield "private functions used once", f"{sum(uses[node.name] == 1 for node in private) / len(functions):.0%}"
    yield "settings", len(FIELDS)
    yield "stash keys", sum(text.count("StashKey[") for text in TEXTS.values())
    yield "imports in functions", len({id(node) for node in imports})
    yield "public names without a docstring", sum(not ast.get_docstring(node) for node in public)


if __name__ == "__main__":
    print(head("figure", "value"), *(row(*figure) for figure in figures()), sep="\n")
    packages: defaultdict[str, list[int]] = defaultdict(list)
    for path, text in TEXTS.items():
        packages[path.parts[0]].append(text.count("\n"))
    print("\n" + head("package", "modules", "lines"))
    print(*(row(name, len(sizes), sum(sizes)) for name, sizes in sorted(packages.items())), sep="\n")
