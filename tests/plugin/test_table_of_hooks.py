"""The table of hooks in plugin/__init__.py names every hook of the folder, with its file and its place."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pytest_vnc_use import plugin

FOLDER = Path(plugin.__file__).parent
PLACES = {
    frozenset[str](): "",
    frozenset({"tryfirst"}): "first",
    frozenset({"trylast"}): "last",
    frozenset({"wrapper"}): "wraps",
    frozenset({"wrapper", "tryfirst"}): "outermost",
    frozenset({"wrapper", "trylast"}): "innermost",
}


def implemented() -> Iterator[tuple[str, str, str]]:
    """Yield each hook of the folder with its file and its place among others."""
    for path in FOLDER.glob("*.py"):
        if path.name == "hookspecs.py":  # hooks of this plugin, for others to implement
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("pytest_"):
                calls = [each for each in node.decorator_list if isinstance(each, ast.Call)]
                marks = {str(word.arg) for call in calls for word in call.keywords} - {"optionalhook"}
                yield node.name, path.stem, PLACES[frozenset(marks)]


def listed() -> Iterator[tuple[str, str, str]]:
    """Yield each row of the table; a row without a hook is of the hook above it."""
    hook = ""
    for row in str(plugin.__doc__).splitlines():
        if row.startswith("    "):
            hook = row[4:38].strip() or hook
            assert row[66:].strip(), f"no reason: {row}"
            yield hook, row[38:55].strip(), row[55:66].strip()


def test_the_table_of_hooks_is_complete() -> None:
    assert Counter(listed()) == Counter(implemented())
