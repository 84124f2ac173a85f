"""Which random changes of the source the tests notice: each mutant runs against the
test files that cover its line.

    python tests/bench/run.py mutants PACKAGE [--count 20] [--seed 1]

PACKAGE is one of `pytest_vnc_use`, such as safety; its tests are those in the directory
of its name. `all` is the whole package with all tests. The files that execute the
fewest lines run first. Of equal changes in a file one is drawn. A mutant is killed by a
test that fails; one that takes over two minutes timed out, and is either endless or not
noticed so far. A file that fails twice without a mutant is left out.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from coverage import CoverageData

TREE = Path(__file__).parents[2]
LIMIT_S = 120
COVERAGE_LIMIT_S = 600
TIMED_OUT = -1
PASSED = (0, 5)
"""Codes of pytest: all passed, and no test was collected."""
RESULTS = {None: "not covered", 0: "survived", TIMED_OUT: "timed out"}
PAIRS = "Lt LtE, Gt GtE, Eq NotEq, In NotIn, Is IsNot, And Or, Add Sub"
SWAPPED: dict[Any, Any] = {}
for pair in PAIRS.split(", "):
    one, other = (getattr(ast, name) for name in pair.split())
    SWAPPED |= {one: other, other: one}


Mutant = tuple[str, int, int, str, str]


def changed(node: ast.AST) -> ast.expr | None:
    """Return an expression with another meaning; None for nodes that are left alone."""
    match node:
        case ast.Compare(left, [op], comparators) if type(op) in SWAPPED:
            return ast.Compare(left, [SWAPPED[type(op)]()], comparators)
        case ast.BoolOp(op, values):
            return ast.BoolOp(SWAPPED[type(op)](), values)
        case ast.BinOp(left, op, right) if type(op) in SWAPPED:
            return ast.BinOp(left, SWAPPED[type(op)](), right)
        case ast.UnaryOp(ast.Not(), operand):
            return operand
        case ast.Constant(int(value)):
            return ast.Constant(not value if isinstance(value, bool) else value + 1)
    return None


def mutants(tree: Path, package: str) -> Iterator[Mutant]:
    """Yield a file, a line, an offset in the file's bytes, what stands there, and what
    is put there.
    """
    directory = tree / "pytest_vnc_use" / ("" if package == "all" else package)
    for path in sorted(directory.rglob("*.py")):
        text = path.read_bytes()
        starts = [*accumulate(map(len, text.splitlines(keepends=True)), initial=0)]
        for node in ast.walk(ast.parse(text)):
            new = changed(node)
            if new is None or not isinstance(node, ast.expr) or not node.end_lineno:
                continue
            start = starts[node.lineno - 1] + node.col_offset
            end = starts[node.end_lineno - 1] + (node.end_col_offset or 0)
            old = text[start:end].decode()
            name = str(path.relative_to(tree))
            yield name, node.lineno, start, old, f"({ast.unparse(new)})"


def pytest(tree: Path, *arguments: str, coverage: tuple[str, ...] = ()) -> int:
    python = [sys.executable]
    if coverage:
        python += ["-m", "coverage", "run", *coverage]
    options = ["-q", "-x", "-p", "no:cacheprovider"]
    command = [*python, "-m", "pytest", *options, *arguments]
    environment = {
        **os.environ,
        "PYTHONPATH": f"{tree}:{tree / 'tests'}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    limit_s = COVERAGE_LIMIT_S if coverage else LIMIT_S
    try:
        return subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, timeout=limit_s
        ).returncode
    except subprocess.TimeoutExpired:
        return TIMED_OUT


def lines_of(tree: Path, test: Path) -> set[tuple[str, int]] | None:
    """Return the lines that a test file executes, also in processes that it starts;
    None if it fails.
    """
    with tempfile.TemporaryDirectory() as made:
        code = pytest(tree, str(test), coverage=(f"--data-file={made}/data",))
        if code not in PASSED:
            return None
        lines = set[tuple[str, int]]()
        for part in Path(made).iterdir():
            data = CoverageData(str(part))
            data.read()
            for file in data.measured_files():
                name = str(Path(file).relative_to(tree))
                lines.update((name, line) for line in data.lines(file) or ())
        return lines


def covering(tests: Path, tree: Path) -> dict[tuple[str, int], list[str]]:
    """Return the test files that execute each line, those that execute the fewest lines
    first.
    """
    executed: dict[str, set[tuple[str, int]]] = {}
    for test in sorted(tests.rglob("test_*.py")):
        lines = lines_of(tree, test)
        if lines is None:
            lines = lines_of(tree, test)
        if lines is not None:
            executed[str(test)] = lines
        else:
            message = f"{test} fails without a mutant, and is left out"
            print(message, file=sys.stderr, flush=True)
    found: dict[tuple[str, int], list[str]] = defaultdict(list)
    for name in sorted(executed, key=lambda name: len(executed[name])):
        for line in executed[name]:
            found[line].append(name)
    return found


def draw(seed: int, mutant: Mutant) -> float:
    """Return a number that stays the same if the line moves."""
    name, _, _, old, new = mutant
    return random.Random(f"{seed} {name} {(old, new)}").random()


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False, usage=__doc__)
    parser.add_argument("package")
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    results = Counter[str]()
    with tempfile.TemporaryDirectory(prefix="mutants-") as made:
        tree = Path(made, "tree")
        shutil.copytree(
            TREE, tree, ignore=shutil.ignore_patterns(".git", ".venv", "__pycache__")
        )
        package = "" if asked.package == "all" else asked.package
        lines = covering(tree / "tests" / package, tree)
        # Equal changes in a file have one key.
        distinct = {
            (mutant[0], *mutant[3:]): mutant for mutant in mutants(tree, asked.package)
        }
        drawn = sorted(distinct.values(), key=partial(draw, asked.seed))
        for name, line, start, old, new in drawn[: asked.count]:
            tests = lines[name, line]
            file = tree / name
            whole = file.read_bytes()
            end = start + len(old.encode())
            file.write_bytes(whole[:start] + new.encode() + whole[end:])
            code = pytest(tree, *tests) if tests else None
            result = RESULTS.get(code, "killed")
            file.write_bytes(whole)
            results[result] += 1
            print(f"{result}: {name}:{line}: {old} -> {new}", flush=True)
    print(f"{asked.package}, seed {asked.seed}, {len(drawn)} possible: {dict(results)}")


if __name__ == "__main__":
    main()
