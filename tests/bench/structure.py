"""The structure of the package in figures: a table in Markdown.

    python tests/bench/run.py structure [--against CHECKOUT]

A room is a directory or a file at the package's top. An arrow leads from a room to one that it imports, also within
functions. Floors are the rooms' longest way along the arrows; rooms that import each other share one.
"""

from __future__ import annotations

import argparse
import ast
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ratios import head, row

TREE = Path(__file__).parents[2]
PACKAGE = "pytest_vnc_use"
NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
QUESTIONS = frozenset("What Who How Whether Where Which When Why Whose".split())


@dataclass(frozen=True)
class Structure:
    """The package of a checkout, parsed."""

    tree: Path

    @cached_property
    def modules(self) -> Mapping[str, ast.Module]:
        """The parsed modules by their dotted names within the package."""
        directory = self.tree / PACKAGE
        files = {path: path.relative_to(directory).with_suffix("").parts for path in directory.rglob("*.py")}
        return {
            ".".join(parts).removesuffix("__init__").rstrip("."): ast.parse(path.read_text(encoding="utf-8"))
            for path, parts in files.items()
        }

    @cached_property
    def lines(self) -> Mapping[Path, int]:
        """The numbers of lines of the modules."""
        paths = (self.tree / PACKAGE).rglob("*.py")
        return {path: len(path.read_text(encoding="utf-8").splitlines()) for path in paths}

    @cached_property
    def arrows(self) -> Mapping[str, set[str]]:
        """The rooms that each room imports."""
        found: defaultdict[str, set[str]] = defaultdict(set)
        for name, module in self.modules.items():
            for target in self._imported(module):
                if name and target and room(target) != room(name):
                    found[room(name)].add(room(target))
        return found

    def _imported(self, module: ast.Module) -> Iterator[str]:
        for node in ast.walk(module):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == PACKAGE:
                base = (node.module or "").partition(".")[2]
                for alias in node.names:
                    full = f"{base}.{alias.name}".lstrip(".")
                    yield full if full in self.modules else base

    @cached_property
    def floors(self) -> int:
        """The number of floors of the rooms."""
        rooms = {room(name) for name in self.modules if name}
        together = {
            one: {other for other in reach(one, self.arrows) if one in reach(other, self.arrows)} for one in rooms
        }
        heights: dict[str, int] = {}

        def height(one: str) -> int:
            if one not in heights:
                heights[one] = 1
                group = together[one] | {one}
                below = {target for member in group for target in self.arrows.get(member, ())} - group
                heights[one] = 1 + max(map(height, below), default=0)
            return heights[one]

        return max(map(height, rooms))

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """All functions and methods."""
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return [node for module in self.modules.values() for node in ast.walk(module) if isinstance(node, kinds)]

    @cached_property
    def first_words(self) -> Counter[str]:
        """The first words of the docstrings of functions and classes."""
        nodes = [node for module in self.modules.values() for node in ast.walk(module)]
        named = [node for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))]
        return Counter(text.split()[0] for node in named if (text := ast.get_docstring(node)))

    def undocumented(self) -> Iterator[str]:
        """Yield the public classes, functions and methods without a docstring, by their names."""
        for name, module in self.modules.items():
            bodies = [module, *(node for node in module.body if isinstance(node, ast.ClassDef))]
            named = (node for body in bodies if is_public(body) for node in body.body if isinstance(node, NAMED))
            yield from (f"{name}.{node.name}" for node in named if is_public(node) and not ast.get_docstring(node))

    @cached_property
    def uses_elsewhere(self) -> Mapping[str, Counter[str]]:
        """The names that the importers of each module use: some may extend its classes."""
        found: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for module in self.modules.values():
            nodes = list(ast.walk(module))
            uses = Counter(map(used_name, nodes))
            for base in {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}:
                found[base.removeprefix(f"{PACKAGE}.")] += uses
        return found

    def tiny_helpers(self) -> Iterator[str]:
        """Yield the private functions of one or two lines that only one call uses, by their names.

        What a reader cannot have in place does not count: a function that is handed over as a value, one with a
        decorator, a method that extends an inherited one, and one that Python itself calls.
        """
        for name, module in self.modules.items():
            nodes = list(ast.walk(module))
            uses = Counter(map(used_name, nodes)) + self.uses_elsewhere[name]
            calls = Counter(used_name(node.func) for node in nodes if isinstance(node, ast.Call))
            calls.subtract(node.attr for node in nodes if isinstance(node, ast.Attribute) and is_super(node.value))
            for node in nodes:
                if isinstance(node, ast.FunctionDef) and is_helper(node) and uses[node.name] == calls[node.name] == 1:
                    body = node.body[1:] if ast.get_docstring(node) else node.body
                    if body and (body[-1].end_lineno or 0) - body[0].lineno < 2:
                        yield f"{name}.{node.name}"

    def rows(self) -> Iterator[tuple[str, object]]:
        """Yield each figure with its name."""
        sizes = Counter(room(name) for name in self.modules if name)
        directories = {name: count for name, count in sizes.items() if (self.tree / PACKAGE / name).is_dir()}
        lengths = sorted((node.end_lineno or 0) - node.lineno + 1 for node in self.functions)
        private = sum(node.name.startswith("_") and not node.name.startswith("__") for node in self.functions)
        yield "modules", len(self.modules)
        yield "rooms", len(sizes)
        yield "of these single files", len(sizes) - len(directories)
        yield "modules of the largest directory", max(directories.values(), default=0)
        yield "arrows", sum(map(len, self.arrows.values()))
        yield "floors", self.floors
        yield "functions", len(lengths)
        yield "lines of a function, median", statistics.median(lengths)
        yield "90th percentile", lengths[int(0.9 * len(lengths))]
        yield "longest", lengths[-1]
        yield "functions of more than 35 lines", sum(length > 35 for length in lengths)
        yield "modules of more than 400 lines", sum(count > 400 for count in self.lines.values())
        yield "private functions", f"{private / len(lengths):.0%}"
        yield "private functions of one or two lines, called once", len(list(self.tiny_helpers()))
        yield "public names without a docstring", len(list(self.undocumented()))
        yield "docstrings that begin with a question word", sum(self.first_words[word] for word in QUESTIONS)
        yield "with Return, Raise, Yield", sum(self.first_words[word] for word in ("Return", "Raise", "Yield"))


def is_public(node: ast.Module | ast.stmt) -> bool:
    """Return whether a module, a class or a function has no leading underscore."""
    return not getattr(node, "name", "").startswith("_")


def is_helper(node: ast.FunctionDef) -> bool:
    """Return whether a function is private, has no decorator, and is not one that Python itself calls."""
    return not is_public(node) and not node.decorator_list and not node.name.endswith("__")


def used_name(node: ast.AST) -> str:
    """Return the name of a function or a method where an expression uses it; "" for any other node."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def is_super(node: ast.expr) -> bool:
    """Return whether the expression is `super()`."""
    return isinstance(node, ast.Call) and used_name(node.func) == "super"


def room(name: str) -> str:
    """Return the room of a module."""
    return name.partition(".")[0]


def reach(start: str, arrows: Mapping[str, set[str]]) -> set[str]:
    """Return all rooms that the arrows from this one lead to."""
    found: set[str] = set()
    ahead = [start]
    while ahead:
        new = arrows.get(ahead.pop(), set()) - found
        found |= new
        ahead += new
    return found


def main(against: Path | None) -> None:
    trees = [tree for tree in (against, TREE) if tree]
    print(head("figure", *(tree.name for tree in trees)))
    for figures in zip(*(Structure(tree).rows() for tree in trees), strict=True):
        print(row(figures[0][0], *(value for _, value in figures)))
    print("\n" + head("directory", "modules"))
    sizes = Counter(room(name) for name in Structure(TREE).modules if (TREE / PACKAGE / room(name)).is_dir() and name)
    for name, count in sorted(sizes.items()):
        print(row(name, count))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(allow_abbrev=False, usage=__doc__)
    parser.add_argument("--against", type=lambda path: Path(path).resolve())
    main(parser.parse_args().against)
